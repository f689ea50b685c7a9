//! The order in which every client finds the conversation: the entries of an answer together, then the results
//! of its calls in call order, then everything else.

use std::collections::VecDeque;

use rethread_model::{MessageNo, Node, NodeId, Role, Table, Uid};
use rustc_hash::FxHashMap;

use super::{AddedKind, PathItem, Plan};

/// A set of entries of a plan.
struct ItemSet {
    source: Table<NodeId, bool>,
    added: Vec<bool>,
}

impl ItemSet {
    fn empty(plan: &Plan<'_>) -> Self {
        Self { source: Table::filled(false, plan.facts.nodes.len()), added: vec![false; plan.added.len()] }
    }

    fn contains(&self, item: PathItem) -> bool {
        match item {
            PathItem::Source(node) => self.source[node],
            PathItem::Added(new) => self.added[new],
        }
    }

    /// Adds an entry; returns whether it was absent.
    fn insert(&mut self, item: PathItem) -> bool {
        let there = match item {
            PathItem::Source(node) => &mut self.source[node],
            PathItem::Added(new) => &mut self.added[new],
        };
        !std::mem::replace(there, true)
    }
}

/// State shared by the ranges of a path: one table for all of them, because there may be many.
pub(super) struct OrderState {
    /// Results of calls on the path.
    owned: ItemSet,
    /// Entries that have been placed.
    placed: ItemSet,
    /// Messages of which an entry was seen.
    answered: Table<MessageNo, bool>,
}

impl OrderState {
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let answered = Table::filled(false, plan.facts.messages.len());
        Self { owned: ItemSet::empty(plan), placed: ItemSet::empty(plan), answered }
    }
}

impl Plan<'_> {
    /// Orders a range of the path.
    pub(super) fn ordered(&self, path: &[PathItem], state: &mut OrderState) -> Vec<PathItem> {
        if self.is_in_order(path, &mut state.answered) {
            return path.to_vec();
        }
        let answers = self.rows_of_answers(path);
        let results = self.results_of_calls(path);
        // Results of calls on the path follow their calls, wherever they were.
        let made = answers.values().flatten().flat_map(|&node| self.calls_made(node));
        for &item in made.filter_map(|call| results.get(call)).flatten() {
            state.owned.insert(item);
        }
        let OrderState { owned, placed, .. } = state;
        let mut out = Vec::with_capacity(path.len());
        for &item in path {
            if placed.contains(item) || owned.contains(item) {
                continue;
            }
            let group = match item {
                PathItem::Source(node) => answers.get(&node),
                PathItem::Added(_) => None,
            };
            let Some(group) = group else {
                placed.insert(item);
                out.push(item);
                continue;
            };
            for &node in group {
                placed.insert(PathItem::Source(node));
                out.push(PathItem::Source(node));
            }
            for call in group.iter().flat_map(|&node| self.calls_made(node)) {
                for &result in results.get(call).into_iter().flatten() {
                    if placed.insert(result) {
                        out.push(result);
                    }
                }
            }
        }
        out
    }

    /// Returns whether a range is certainly in order, as most are.
    fn is_in_order(&self, path: &[PathItem], answered: &mut Table<MessageNo, bool>) -> bool {
        let mut current = None;
        let mut open: VecDeque<&str> = VecDeque::new();
        for &item in path {
            let node = match item {
                PathItem::Added(new) if matches!(self.added[new].kind, AddedKind::Result { .. }) => {
                    return false;
                }
                PathItem::Added(_) => None,
                PathItem::Source(node) => Some(node),
            };
            let fact = node.map(|node| self.node(self.content_node(node)));
            let message = fact.filter(|fact| fact.role == Role::Assistant).map(Node::message);
            match (node, message) {
                (Some(node), Some(Some(message))) => {
                    let continues = current == Some(message);
                    if !continues && (!open.is_empty() || std::mem::replace(&mut answered[message], true)) {
                        return false;
                    }
                    current = Some(message);
                    open.extend(self.calls_made(node));
                    continue;
                }
                (Some(node), None) => {
                    let n_open = open.len();
                    for call in self.calls_answered(node) {
                        if open.pop_front() != Some(call) {
                            return false;
                        }
                    }
                    if n_open > 0 && open.len() == n_open {
                        return false;
                    }
                }
                _ if open.is_empty() => {}
                _ => return false,
            }
            current = None;
        }
        open.is_empty()
    }

    /// Returns the entries of each answer, by its first entry. Entries of one message id that are separated by a prompt
    /// are two answers.
    fn rows_of_answers(&self, path: &[PathItem]) -> FxHashMap<NodeId, Vec<NodeId>> {
        let mut groups: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        let mut open: FxHashMap<Uid, NodeId> = FxHashMap::default();
        for item in path {
            let PathItem::Source(node) = *item else { continue };
            let fact = self.node(self.content_node(node));
            match (fact.role, fact.message()) {
                (Role::Assistant, Some(message)) => {
                    let id = self.facts.messages[message].id.unwrap_or(fact.uid);
                    let first = *open.entry(id).or_insert(node);
                    groups.entry(first).or_default().push(node);
                }
                (Role::User, _) if !fact.flags.has_result() && !fact.flags.is_meta() => open.clear(),
                _ => {}
            }
        }
        groups
    }

    fn results_of_calls(&self, path: &[PathItem]) -> FxHashMap<&str, Vec<PathItem>> {
        let mut results: FxHashMap<&str, Vec<PathItem>> = FxHashMap::default();
        for &item in path {
            match item {
                PathItem::Added(new) => {
                    if let AddedKind::Result { call } = &self.added[new].kind {
                        results.entry(call).or_default().push(item);
                    }
                }
                PathItem::Source(node) => {
                    for call in self.calls_answered(node) {
                        results.entry(call).or_default().push(item);
                    }
                }
            }
        }
        results
    }
}
