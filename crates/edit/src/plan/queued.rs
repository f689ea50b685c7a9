//! Queued prompts off the path that a client would reach once entries are removed.

use rethread_model::{MessageNo, NodeId, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{PathItem, Plan};

impl Plan<'_> {
    /// Puts queued prompts, with the notes above them, on the path if they now follow its last message or one of its
    /// calls or results. The newest client would send them from there anyway; older clients would not find them.
    pub(crate) fn place_queued_prompts(&mut self) {
        let on_path = self.on_path();
        let off_path = |node: NodeId| {
            let fact = self.node(node);
            let note = !fact.is_conversation() && !fact.flags.is_boundary() && !fact.flags.is_sidechain();
            note && !on_path[node] && !self.is_dropped(node) && self.first_with_uuid(node) == node
        };
        let is_waiting = |node: NodeId| self.node(node).flags.is_queued_prompt() && off_path(node);
        if !self.facts.nodes.keys().any(is_waiting) {
            return;
        }
        let order = self.top_down();
        let mut leads_to_prompt = Table::filled(false, order.len());
        for &node in order.iter().rev() {
            leads_to_prompt[node] |= is_waiting(node);
            if leads_to_prompt[node]
                && let Some(above) = self.effective_parent(node)
            {
                leads_to_prompt[above] = true;
            }
        }
        let follows = self.preceding_messages(&order);
        let kept: Vec<NodeId> =
            self.path_nodes().into_iter().filter(|&node| !self.is_dropped(node)).collect();
        let last = kept.iter().rfind(|&&node| self.node(node).is_conversation()).copied();
        let message = |node: NodeId| self.node(self.content_node(node)).message();
        let calling: FxHashSet<MessageNo> = kept
            .iter()
            .filter(|&&node| self.calls_made(node).next().is_some())
            .filter_map(|&node| message(node))
            .collect();
        let mut after: FxHashMap<NodeId, Vec<NodeId>> = FxHashMap::default();
        for node in order.into_iter().filter(|&node| leads_to_prompt[node] && off_path(node)) {
            let above =
                follows[node].map(|above| self.first_with_uuid(above)).filter(|&above| on_path[above]);
            let Some(above) = above else { continue };
            let calls = message(above).is_some_and(|message| calling.contains(&message));
            if Some(above) == last || calls || self.calls_answered(above).next().is_some() {
                after.entry(above).or_default().push(node);
            }
        }
        let at_the_end = last.and_then(|last| after.remove(&last)).unwrap_or_default();
        let path = std::mem::take(&mut self.path);
        for item in path {
            self.path.push(item);
            if let PathItem::Source(node) = item {
                self.path.extend(after.remove(&node).into_iter().flatten().map(PathItem::Source));
            }
        }
        self.path.extend(at_the_end.into_iter().map(PathItem::Source));
    }

    /// Returns for every entry the message that it will follow, across notes but not across compactions.
    fn preceding_messages(&self, top_down: &[NodeId]) -> Table<NodeId, Option<NodeId>> {
        let replacements = self.replacements(&self.nearest_kept());
        let mut follows: Table<NodeId, Option<NodeId>> = Table::filled(None, self.facts.nodes.len());
        for &node in top_down {
            let above = self.effective_parent(node).and_then(|above| replacements[above]);
            let above = above.filter(|&above| !self.node(above).flags.is_boundary());
            let message = above.filter(|&above| self.node(above).is_conversation());
            follows[node] = message.or_else(|| follows[above?]);
        }
        follows
    }
}
