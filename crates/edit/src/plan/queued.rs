//! Queued prompts beside the path that a client would come by once entries are removed.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{PathItem, Plan};

impl Plan<'_> {
    /// Puts queued prompts on the path, with the notes above them, that come to follow its last words, or a call
    /// or result of it: the newest client sends what is attached there, and older ones do not find it.
    pub(crate) fn place_queued_prompts(&mut self) {
        let on_way = self.on_path();
        let beside = |node: usize| {
            let fact = self.node(node);
            let note = !fact.is_conversation() && !fact.flags.is_boundary() && !fact.flags.is_sidechain();
            note && !on_way[node] && !self.is_dropped(node) && self.first_with_uuid(node) == node
        };
        let waits = |node: usize| self.node(node).flags.is_queued_prompt() && beside(node);
        if !(0..self.facts.nodes.len()).any(waits) {
            return;
        }
        let order = self.top_down();
        let mut leads_to_prompt = vec![false; order.len()];
        for &node in order.iter().rev() {
            leads_to_prompt[node] |= waits(node);
            if leads_to_prompt[node]
                && let Some(above) = self.effective_parent(node)
            {
                leads_to_prompt[above] = true;
            }
        }
        let follows = self.preceding_messages(&order);
        let kept: Vec<usize> = self.path_nodes().into_iter().filter(|&node| !self.is_dropped(node)).collect();
        let last = kept.iter().rfind(|&&node| self.node(node).is_conversation()).copied();
        let message = |node: usize| self.node(self.content_node(node)).message();
        let calling: FxHashSet<usize> = kept
            .iter()
            .filter(|&&node| self.calls_made(node).next().is_some())
            .filter_map(|&node| message(node))
            .collect();
        let mut behind: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for node in order.into_iter().filter(|&node| leads_to_prompt[node] && beside(node)) {
            let above = follows[node].map(|above| self.first_with_uuid(above)).filter(|&above| on_way[above]);
            let Some(above) = above else { continue };
            let calls = message(above).is_some_and(|message| calling.contains(&message));
            if Some(above) == last || calls || self.calls_answered(above).next().is_some() {
                behind.entry(above).or_default().push(node);
            }
        }
        let at_the_end = last.and_then(|last| behind.remove(&last)).unwrap_or_default();
        let way = std::mem::take(&mut self.path);
        for item in way {
            self.path.push(item);
            if let PathItem::Source(node) = item {
                self.path.extend(behind.remove(&node).into_iter().flatten().map(PathItem::Source));
            }
        }
        self.path.extend(at_the_end.into_iter().map(PathItem::Source));
    }

    /// For every entry the words that it will follow, over notes but not over compactions.
    fn preceding_messages(&self, top_down: &[usize]) -> Vec<Option<usize>> {
        let stand_ins = self.replacements(&self.nearest_kept());
        let mut follows: Vec<Option<usize>> = vec![None; self.facts.nodes.len()];
        for &node in top_down {
            let above = self.effective_parent(node).and_then(|above| stand_ins[above]);
            let above = above.filter(|&above| !self.node(above).flags.is_boundary());
            let words = above.filter(|&above| self.node(above).is_conversation());
            follows[node] = words.or_else(|| follows[above?]);
        }
        follows
    }
}
