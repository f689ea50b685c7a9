//! The order in which every client finds the conversation: the rows of an answer together, then the
//! results of its calls in their order, then everything else.

use std::collections::VecDeque;

use rethread_model::{Node, Role, Uid};
use rustc_hash::FxHashMap;

use super::{AddedKind, PathItem, Plan};

/// Some of the entries of a plan.
struct ItemSet {
    source: Vec<bool>,
    added: Vec<bool>,
}

impl ItemSet {
    fn empty(plan: &Plan<'_>) -> Self {
        Self { source: vec![false; plan.facts.nodes.len()], added: vec![false; plan.added.len()] }
    }

    fn contains(&self, item: PathItem) -> bool {
        match item {
            PathItem::Source(node) => self.source[node],
            PathItem::Added(new) => self.added[new],
        }
    }

    /// Adds one; tells whether it was not there.
    fn insert(&mut self, item: PathItem) -> bool {
        let there = match item {
            PathItem::Source(node) => &mut self.source[node],
            PathItem::Added(new) => &mut self.added[new],
        };
        !std::mem::replace(there, true)
    }
}

/// What is known of the stretches of a way that were looked at: a table for all of them, for there may be
/// many.
pub(super) struct OrderState {
    /// Results of calls on the way.
    owned: ItemSet,
    /// Entries that have their place.
    placed: ItemSet,
    /// Messages of which a row was seen.
    answered: Vec<bool>,
}

impl OrderState {
    pub(super) fn new(plan: &Plan<'_>) -> Self {
        let answered = vec![false; plan.facts.messages.len()];
        Self { owned: ItemSet::empty(plan), placed: ItemSet::empty(plan), answered }
    }
}

impl Plan<'_> {
    /// Puts a stretch of the way in order.
    pub(super) fn ordered(&self, way: &[PathItem], so_far: &mut OrderState) -> Vec<PathItem> {
        if self.is_in_order(way, &mut so_far.answered) {
            return way.to_vec();
        }
        let rows = self.rows_of_answers(way);
        let results = self.results_of_calls(way);
        // Results of calls on the way stand behind those, whatever stands where.
        let made = rows.values().flatten().flat_map(|&node| self.calls_made(node));
        for &item in made.filter_map(|call| results.get(call)).flatten() {
            so_far.owned.insert(item);
        }
        let OrderState { owned, placed, .. } = so_far;
        let mut out = Vec::with_capacity(way.len());
        for &item in way {
            if placed.contains(item) || owned.contains(item) {
                continue;
            }
            let group = match item {
                PathItem::Source(node) => rows.get(&node),
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

    /// Tells whether a stretch surely is in order, as most are.
    fn is_in_order(&self, way: &[PathItem], answered: &mut [bool]) -> bool {
        let mut row_of = None;
        let mut open: VecDeque<&str> = VecDeque::new();
        for &item in way {
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
                    let goes_on = row_of == Some(message);
                    if !goes_on && (!open.is_empty() || std::mem::replace(&mut answered[message], true)) {
                        return false;
                    }
                    row_of = Some(message);
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
            row_of = None;
        }
        open.is_empty()
    }

    /// The rows of each answer, by its first row. Rows of one message id that a prompt parts are two
    /// answers.
    fn rows_of_answers(&self, way: &[PathItem]) -> FxHashMap<usize, Vec<usize>> {
        let mut groups: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut open: FxHashMap<Uid, usize> = FxHashMap::default();
        for item in way {
            let PathItem::Source(node) = *item else { continue };
            let fact = self.node(self.content_node(node));
            match (fact.role, fact.message()) {
                (Role::Assistant, Some(message)) => {
                    let id = self.facts.messages[message].id;
                    let id = if id.is_none() { fact.uid } else { id };
                    let first = *open.entry(id).or_insert(node);
                    groups.entry(first).or_default().push(node);
                }
                (Role::User, _) if !fact.flags.has_result() && !fact.flags.is_meta() => open.clear(),
                _ => {}
            }
        }
        groups
    }

    fn results_of_calls(&self, way: &[PathItem]) -> FxHashMap<&str, Vec<PathItem>> {
        let mut results: FxHashMap<&str, Vec<PathItem>> = FxHashMap::default();
        for &item in way {
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
