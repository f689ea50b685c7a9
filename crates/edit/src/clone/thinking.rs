//! Thinking: kept byte for byte, or removed.
//!
//! A signature covers the thinking and, for the API, the conversation before it. So thinking is kept only where
//! nothing before it in the conversation has changed. A compaction begins a new conversation: edits before it
//! change nothing after it.

use rethread_model::{Block, StepId, StepKind, Table};

use super::CloneBuilder;
use crate::plan::BlockEdit;

impl CloneBuilder<'_, '_> {
    /// Removes thinking that the recipe strips or whose signature is no longer valid.
    pub(super) fn edit_thinking(&mut self) {
        let session = &self.source.session;
        let facts = &session.facts;
        if !self.recipe.strip_thinking && self.changed_nodes.is_empty() {
            return;
        }
        let changed = self.changed_steps();
        for node in facts.nodes.keys() {
            let fact = &facts.nodes[node];
            let requested = self.recipe.strip_thinking;
            let follows = session.tree.step(node).is_some_and(|step| changed[step]);
            if !fact.flags.has_thinking() || !(requested || follows) || self.plan.is_dropped(node) {
                continue;
            }
            self.cloned.thinking_invalidated |= !requested;
            let blocks = facts.blocks_of(node);
            if blocks.iter().all(|block| block.class.is_thinking()) {
                self.cloned.counts.thinking += blocks.len() as u64;
                self.plan.drop_requested(node);
                continue;
            }
            let edit = self.plan.requested_edit(node);
            for (at, _) in blocks.iter().enumerate().filter(|(_, block)| block.class.is_thinking()) {
                edit.blocks.insert(at, BlockEdit::Remove);
                self.cloned.counts.thinking += 1;
            }
            let removed = |(at, _): &(usize, &Block)| matches!(edit.blocks.get(at), Some(BlockEdit::Remove));
            if blocks.iter().enumerate().all(|block| removed(&block)) {
                self.plan.drop_requested(node);
            }
        }
    }

    /// Returns for each step whether it, or one before it in the same conversation, has a removed or changed call.
    fn changed_steps(&self) -> Table<StepId, bool> {
        let session = &self.source.session;
        let mut changed = Table::filled(false, session.tree.steps.len());
        for &node in self.changed_nodes.iter().filter(|node| !self.condensed.contains(node)) {
            if let Some(step) = session.tree.step(node) {
                changed[step] = true;
            }
        }
        for step in session.tree.parents_first() {
            let above = session.tree.parent_of(step).is_some_and(|parent| changed[parent]);
            changed[step] |= above && session.tree.steps[step].kind != StepKind::Compaction;
        }
        changed
    }
}
