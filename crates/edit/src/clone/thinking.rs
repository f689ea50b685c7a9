//! Thinking: kept byte for byte, or removed.
//!
//! A signature covers the thinking and, for the API, the conversation before it. So thinking is kept only where
//! nothing before it in the conversation has changed. A compaction begins a new conversation: edits before it
//! change nothing after it.

use rethread_model::{NodeId, Session, StepId, StepKind, Table};

use crate::plan::{BlockEdit, Plan};
use crate::source::SourceSession;

/// Thinking that a clone leaves out.
#[derive(Default)]
pub(super) struct RemovedThinking {
    /// Number of blocks.
    pub(super) n_blocks: u64,
    /// Some of it was removed because its signature was no longer valid.
    pub(super) invalidated: bool,
}

/// Removes all thinking, or only that whose signature is no longer valid because entries before it changed.
pub(super) fn remove_thinking(
    source: &SourceSession<'_>,
    all: bool,
    changed: impl Iterator<Item = NodeId>,
    plan: &mut Plan<'_>,
) -> RemovedThinking {
    let mut removed = RemovedThinking::default();
    let mut changed = changed.peekable();
    if !all && changed.peek().is_none() {
        return removed;
    }
    let session = &source.session;
    let follows_change = steps_after_change(session, changed);
    for node in session.facts.nodes.keys() {
        let invalid = session.tree.step(node).is_some_and(|step| follows_change[step]);
        let has_thinking = session.facts.nodes[node].flags.has_thinking();
        if has_thinking && (all || invalid) && !plan.is_dropped(node) {
            removed.invalidated |= !all;
            removed.n_blocks += remove_from_entry(plan, node);
        }
    }
    removed
}

/// Removes the thinking of an entry, or the entry if nothing else is left; returns the number of removed blocks.
fn remove_from_entry(plan: &mut Plan<'_>, node: NodeId) -> u64 {
    let blocks = plan.facts.blocks_of(node);
    let thinking = blocks.iter().enumerate().filter(|(_, block)| block.class.is_thinking());
    let thinking: Vec<usize> = thinking.map(|(at, _)| at).collect();
    if thinking.len() < blocks.len() {
        let edit = plan.requested_edit(node);
        edit.blocks.extend(thinking.iter().map(|&at| (at, BlockEdit::Remove)));
        let is_removed = |at: usize| matches!(edit.blocks.get(&at), Some(BlockEdit::Remove));
        if (0..blocks.len()).all(is_removed) {
            plan.drop_requested(node);
        }
    } else {
        plan.drop_requested(node);
    }
    thinking.len() as u64
}

/// Returns for each step whether it, or one before it in the same conversation, contains one of these entries.
fn steps_after_change(session: &Session, changed: impl Iterator<Item = NodeId>) -> Table<StepId, bool> {
    let mut after = Table::filled(false, session.tree.steps.len());
    for step in changed.filter_map(|node| session.tree.step(node)) {
        after[step] = true;
    }
    for step in session.tree.parents_first() {
        let above = session.tree.parent_of(step).is_some_and(|parent| after[parent]);
        after[step] |= above && session.tree.steps[step].kind != StepKind::Compaction;
    }
    after
}
