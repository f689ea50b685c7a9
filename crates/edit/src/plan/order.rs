//! The order in which every client finds the conversation: the rows of an answer together, then the
//! results of its calls in their order, then everything else.

use std::collections::VecDeque;

use rethread_model::{Node, Role, Uid};
use rustc_hash::FxHashMap;

use super::{Item, NewKind, Plan};

/// Some of the entries of a plan.
struct Items {
    old: Vec<bool>,
    new: Vec<bool>,
}

impl Items {
    fn none_of(plan: &Plan<'_>) -> Self {
        Self { old: vec![false; plan.facts.nodes.len()], new: vec![false; plan.new.len()] }
    }

    fn contains(&self, item: Item) -> bool {
        match item {
            Item::Old(node) => self.old[node],
            Item::New(new) => self.new[new],
        }
    }

    /// Adds one; tells whether it was not there.
    fn insert(&mut self, item: Item) -> bool {
        let there = match item {
            Item::Old(node) => &mut self.old[node],
            Item::New(new) => &mut self.new[new],
        };
        !std::mem::replace(there, true)
    }
}

/// What is known of the stretches of a way that were looked at: a table for all of them, for there may be
/// many.
pub(super) struct Laid {
    /// Results of calls on the way.
    owned: Items,
    /// Entries that have their place.
    placed: Items,
    /// Messages of which a row was seen.
    answered: Vec<bool>,
}

impl Laid {
    pub(super) fn nothing_of(plan: &Plan<'_>) -> Self {
        let answered = vec![false; plan.facts.messages.len()];
        Self { owned: Items::none_of(plan), placed: Items::none_of(plan), answered }
    }
}

impl Plan<'_> {
    /// Puts a stretch of the way in order.
    pub(super) fn ordered(&self, way: &[Item], so_far: &mut Laid) -> Vec<Item> {
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
        let Laid { owned, placed, .. } = so_far;
        let mut out = Vec::with_capacity(way.len());
        for &item in way {
            if placed.contains(item) || owned.contains(item) {
                continue;
            }
            let group = match item {
                Item::Old(node) => rows.get(&node),
                Item::New(_) => None,
            };
            let Some(group) = group else {
                placed.insert(item);
                out.push(item);
                continue;
            };
            for &node in group {
                placed.insert(Item::Old(node));
                out.push(Item::Old(node));
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
    fn is_in_order(&self, way: &[Item], answered: &mut [bool]) -> bool {
        let mut row_of = None;
        let mut open: VecDeque<&str> = VecDeque::new();
        for &item in way {
            let node = match item {
                Item::New(new) if matches!(self.new[new].kind, NewKind::Result { .. }) => return false,
                Item::New(_) => None,
                Item::Old(node) => Some(node),
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
    fn rows_of_answers(&self, way: &[Item]) -> FxHashMap<usize, Vec<usize>> {
        let mut groups: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        let mut open: FxHashMap<Uid, usize> = FxHashMap::default();
        for item in way {
            let Item::Old(node) = *item else { continue };
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

    fn results_of_calls(&self, way: &[Item]) -> FxHashMap<&str, Vec<Item>> {
        let mut results: FxHashMap<&str, Vec<Item>> = FxHashMap::default();
        for &item in way {
            match item {
                Item::New(new) => {
                    if let NewKind::Result { call } = &self.new[new].kind {
                        results.entry(call).or_default().push(item);
                    }
                }
                Item::Old(node) => {
                    for call in self.calls_answered(node) {
                        results.entry(call).or_default().push(item);
                    }
                }
            }
        }
        results
    }
}
