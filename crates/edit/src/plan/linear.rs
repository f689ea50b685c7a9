//! Makes the path linear.

use rethread_model::{FindingKind, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::order::OrderState;
use super::{ChangeCause, PathItem, Plan};

impl Plan<'_> {
    /// Makes the path linear, so that clients without any rule for forks follow all of it.
    pub(crate) fn linearise(&mut self) {
        let kept = self.kept_path();
        let begins =
            |item: &PathItem| matches!(item, PathItem::Source(node) if self.path_starts.contains(node));
        // The ranges between compactions are ordered separately.
        let mut path: Vec<PathItem> = Vec::with_capacity(kept.len());
        let mut so_far = OrderState::new(self);
        let mut rest = &kept[..];
        while !rest.is_empty() {
            let end = rest[1..].iter().position(begins).map_or(rest.len(), |at| at + 1);
            path.extend(self.ordered(&rest[..end], &mut so_far));
            rest = &rest[end..];
        }
        self.path = path;
        let on_path = self.on_path();
        let mut before: Option<PathItem> = None;
        for at in 0..self.path.len() {
            let item = self.path[at];
            match item {
                PathItem::Added(new) => self.added[new].parent = before,
                PathItem::Source(node) => {
                    let from = self.content_node(node);
                    let now =
                        self.new_parents[node].unwrap_or_else(|| self.parent_of(from).map(PathItem::Source));
                    let named = self.node(from).parent.is_some();
                    let first = at == 0 || self.path_starts.contains(&node);
                    // The first entry keeps its parent, unless that is missing or comes later on the path.
                    let loops = matches!(now, Some(PathItem::Source(parent)) if on_path[parent]);
                    let wanted = match first {
                        true => now.filter(|_| !(loops && at == 0)),
                        false => before,
                    };
                    if wanted != now || first && now.is_none() && named {
                        self.reparent(node, wanted, ChangeCause { kind: FindingKind::ParallelCalls, node });
                    }
                }
            }
            before = Some(item);
        }
        self.reparent_boundaries();
    }

    /// Moves the logical parent of a boundary to an entry before the boundary if the compaction kept the old one:
    /// kept entries now follow the boundary.
    fn reparent_boundaries(&mut self) {
        let is_boundary =
            |item: &PathItem| matches!(*item, PathItem::Source(node) if self.node(node).flags.is_boundary());
        if !self.path.iter().any(is_boundary) {
            return;
        }
        let mut place: FxHashMap<NodeId, usize> = FxHashMap::default();
        for (at, item) in self.path.iter().enumerate() {
            if let PathItem::Source(node) = item {
                place.insert(*node, at);
            }
        }
        let boundaries: Vec<(NodeId, usize)> = place
            .iter()
            .map(|(&node, &at)| (node, at))
            .filter(|&(node, _)| self.node(node).flags.is_boundary())
            .collect();
        for (boundary, at) in boundaries {
            let after = |node: &NodeId| place.get(node).is_some_and(|&place| place >= at);
            let mut follows = self.facts.logical_parent_of(boundary);
            if follows.as_ref().is_none_or(|node| !after(node)) {
                continue;
            }
            let mut seen = FxHashSet::default();
            while let Some(node) = follows.filter(|node| after(node) || self.is_dropped(*node)) {
                follows = self.effective_parent(node).filter(|_| seen.insert(node));
            }
            if follows.is_some() {
                self.requested_edit(boundary).logical_parent = follows;
            }
        }
    }
}
