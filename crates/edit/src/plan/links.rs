//! Repairs parent links, and finds replacements for removed entries.

use rethread_model::{FindingKind, LinkDefect, NodeId, Role, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{ChangeCause, PathItem, Plan};

/// Maximum number of results and notes skipped between the entries of one message.
const MAX_BETWEEN: usize = 100;

impl Plan<'_> {
    /// Sets the parent of entries with a broken link, and reparents children of removed entries to the replacement.
    pub(super) fn repair_links(&mut self) {
        let kept = self.nearest_kept();
        let replacements = self.replacements(&kept);
        let parent_for = |plan: &Self, node: NodeId| {
            let mut above = plan.effective_parent(node)?;
            // On another call of its message a result would be treated as the result of that call.
            if plan.calls_answered(node).next().is_some() {
                return kept[above].map(PathItem::Source);
            }
            let mut seen = FxHashSet::default();
            // An entry may replace its own ancestors; it then takes over their parent.
            while replacements[above] == Some(node) {
                above = plan.effective_parent(above).filter(|_| seen.insert(above))?;
            }
            replacements[above].map(PathItem::Source)
        };
        let mut broken: Vec<(NodeId, LinkDefect)> =
            self.broken_links.iter().map(|(&node, link)| (node, link.defect)).collect();
        broken.sort_unstable_by_key(|&(node, _)| node);
        for (node, why) in broken {
            let why = match why {
                LinkDefect::Dangling => FindingKind::DanglingParent,
                LinkDefect::NoParent => FindingKind::NoParent,
                LinkDefect::Cycle => FindingKind::Cycle,
            };
            self.reparent(node, parent_for(self, node), ChangeCause { kind: why, node });
        }
        for node in self.facts.nodes.keys() {
            if self.broken_links.contains_key(&node) || self.is_dropped(node) {
                continue;
            }
            let Some(parent) = self.effective_parent(node).filter(|&parent| self.is_dropped(parent)) else {
                continue;
            };
            if self.first_with_uuid(parent) != parent && self.parent_of(node).is_some() {
                continue;
            }
            self.causes[node] = self.causes[node].or(self.causes[parent]);
            self.new_parents[node] = Some(parent_for(self, node));
        }
        self.link_added();
    }

    fn is_same_message(&self, one: NodeId, other: NodeId) -> bool {
        self.node(one).message().is_some_and(|message| self.node(other).message() == Some(message))
    }

    /// Returns the replacement of every entry: itself if it is kept, else another entry of its message above or
    /// below it, else the replacement of its parent.
    pub(crate) fn replacements(&self, kept: &Table<NodeId, Option<NodeId>>) -> Table<NodeId, Option<NodeId>> {
        let siblings = self.siblings();
        self.nearest(|node| {
            let near = |&above: &NodeId| above == node || self.is_same_message(above, node);
            let above = kept[node].filter(near);
            above.or(siblings.get(&node).copied())
        })
    }

    /// Returns for every entry its nearest kept ancestor, itself included.
    pub(crate) fn nearest_kept(&self) -> Table<NodeId, Option<NodeId>> {
        self.nearest(|node| (!self.is_dropped(node)).then_some(node))
    }

    /// Returns for every entry the first result of `find` on the path to the root.
    fn nearest(&self, find: impl Fn(NodeId) -> Option<NodeId>) -> Table<NodeId, Option<NodeId>> {
        let mut nearest: Table<NodeId, Option<NodeId>> = Table::filled(None, self.facts.nodes.len());
        for node in self.top_down() {
            nearest[node] = find(node).or_else(|| nearest[self.effective_parent(node)?]);
        }
        nearest
    }

    /// Maps dropped entries to a kept descendant of the same message, if no kept entry and no other message is in
    /// between.
    fn siblings(&self) -> FxHashMap<NodeId, NodeId> {
        let mut found = FxHashMap::default();
        for (kept, fact) in self.facts.nodes.iter_enumerated() {
            if fact.role != Role::Assistant || self.is_dropped(kept) {
                continue;
            }
            let mut at = self.effective_parent(kept);
            let mut between = 0;
            while let Some(above) = at.filter(|&above| self.is_dropped(above) && between < MAX_BETWEEN) {
                if self.is_same_message(above, kept) {
                    if found.contains_key(&above) {
                        break;
                    }
                    found.insert(above, kept);
                } else if self.node(above).role == Role::Assistant {
                    break;
                } else {
                    between += 1;
                }
                at = self.effective_parent(above);
            }
        }
        found
    }

    /// Sets the parents of added entries, and of the entries after them, to the preceding entry on the path.
    fn link_added(&mut self) {
        let path = self.kept_path();
        for at in 0..path.len() {
            let before = at.checked_sub(1).map(|before| path[before]);
            let follows_new = at > 0 && matches!(path[at - 1], PathItem::Added(_));
            match path[at] {
                PathItem::Added(new) => self.added[new].parent = before,
                PathItem::Source(node) if follows_new => {
                    let cause = match path[at - 1] {
                        PathItem::Added(new) => self.added[new].cause,
                        PathItem::Source(_) => continue,
                    };
                    self.reparent(node, before, cause);
                }
                PathItem::Source(_) => {}
            }
        }
    }
}
