//! The order in which every client finds the conversation: the rows of an answer together, then the
//! results of its calls in their order, then everything else.

use rethread_model::{Role, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Item, NewKind, Plan};

impl Plan<'_> {
    pub(super) fn ordered(&self, way: &[Item]) -> Vec<Item> {
        let rows = self.rows_of_answers(way);
        let results = self.results_of_calls(way);
        // Results of calls on the way stand behind those, whatever stands where.
        let made = rows.values().flatten().flat_map(|&node| self.calls_made(node));
        let owned: FxHashSet<Item> = made.filter_map(|call| results.get(&call)).flatten().copied().collect();
        let mut placed: FxHashSet<Item> = FxHashSet::default();
        let mut out = Vec::with_capacity(way.len());
        for &item in way {
            if placed.contains(&item) || owned.contains(&item) {
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
                for &result in results.get(&call).into_iter().flatten() {
                    if placed.insert(result) {
                        out.push(result);
                    }
                }
            }
        }
        out
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

    fn results_of_calls(&self, way: &[Item]) -> FxHashMap<String, Vec<Item>> {
        let mut results: FxHashMap<String, Vec<Item>> = FxHashMap::default();
        for &item in way {
            match item {
                Item::New(new) => {
                    if let NewKind::Result { call } = &self.new[new].kind {
                        results.entry(call.clone()).or_default().push(item);
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
