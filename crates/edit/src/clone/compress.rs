//! Replaces older turns by a compaction: a boundary and a summary that every client honours.

use rethread_model::{MessageNo, NodeId};
use rustc_hash::FxHashSet;

use super::context::context_size;
use super::turn_summary::OlderTurns;
use crate::plan::{AddedKind, PathItem, Plan};
use crate::source::SourceSession;

/// Options for condensing older turns.
#[derive(Debug, Clone)]
pub struct CompressOptions {
    /// Number of last turns that are kept unchanged.
    pub keep: usize,
    /// Approximate number of tokens for the summaries of all answers together. Prompts are never cut and do not
    /// count.
    pub budget: usize,
    /// Also return the content of each turn, for an external summariser.
    pub transcripts: bool,
    /// External summaries by turn; missing ones are generated.
    pub summaries: Vec<Option<String>>,
    /// Command that shows the removed message `N`, which the summary mentions; `None` if they are not kept.
    pub show_command: Option<String>,
}

impl CompressOptions {
    /// Default number of tokens for the summaries.
    pub const BUDGET: usize = 8000;
    /// Default number of turns that are kept unchanged.
    pub const KEEP: usize = 5;
}

impl Default for CompressOptions {
    fn default() -> Self {
        let (keep, budget) = (Self::KEEP, Self::BUDGET);
        Self { keep, budget, transcripts: false, summaries: Vec::new(), show_command: None }
    }
}

/// A turn that is condensed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CondensedTurn {
    /// Its number in the clone's conversation, from 1.
    pub n: usize,
    /// Numbers of its first and last message in the source; `None` if it has only attachments.
    pub messages: Option<(MessageNo, MessageNo)>,
    /// The full content of the turn, for an external summariser; empty unless [`CompressOptions::transcripts`] is
    /// set.
    pub text: String,
    /// Its summary, without prompts; `None` if an earlier summary covers the turn.
    pub summary: Option<String>,
}

/// Turns whose summaries exceed the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverBudget {
    /// Number of turns without a summary.
    pub without_summary: usize,
    /// Number of turns with a cut summary.
    pub cut: usize,
}

/// The turns that a clone condenses.
#[derive(Default)]
pub(super) struct CondensedTurns {
    /// Number of turns.
    pub(super) n_turns: usize,
    /// The turns, with the content before the first prompt if there is any.
    pub(super) turns: Vec<CondensedTurn>,
    pub(super) over_budget: OverBudget,
    /// Their entries.
    pub(super) nodes: FxHashSet<NodeId>,
}

/// Condenses all turns except the last ones.
pub(super) fn condense_turns(
    source: &SourceSession<'_>,
    options: Option<&CompressOptions>,
    plan: &mut Plan<'_>,
) -> CondensedTurns {
    let Some(options) = options else { return CondensedTurns::default() };
    let path: Vec<NodeId> = plan.path_nodes().into_iter().filter(|&node| !plan.is_dropped(node)).collect();
    let is_prompt = |at: &usize| plan.node(path[*at]).flags.is_human();
    let prompts: Vec<usize> = (0..path.len()).filter(is_prompt).collect();
    let Some(n_turns) = prompts.len().checked_sub(options.keep).filter(|&n| n > 0) else {
        return CondensedTurns::default();
    };
    let cut = prompts.get(n_turns).copied().unwrap_or(path.len());
    let (old, kept) = path.split_at(cut);
    let old_turns = OlderTurns::new(plan.facts, plan.reader, &plan.edits, old, options);
    let (turns, over_budget) = old_turns.turns(options);
    let text = old_turns.summary(&turns, options);
    replace_turns(plan, old, kept, context_size(&source.session).tokens, text);
    CondensedTurns { n_turns, turns, over_budget, nodes: old.iter().copied().collect() }
}

/// Replaces the entries at the beginning of the path with a compaction that records a context of `tokens` tokens.
fn replace_turns(plan: &mut Plan<'_>, old: &[NodeId], kept: &[NodeId], tokens: u64, summary: String) {
    // The added entries are directly before the kept ones, or after all others.
    let (like, [boundary_time, summary_time]) = match (kept.first(), old.last()) {
        (Some(&first), _) => (first, [-2, -1]),
        (None, Some(&last)) => (last, [1, 2]),
        (None, None) => return,
    };
    let boundary = plan.add_requested(AddedKind::Boundary { tokens }, like, boundary_time);
    let summary = plan.add_requested(AddedKind::Summary { text: summary }, like, summary_time);
    for &node in old {
        plan.drop_requested(node);
    }
    let added = [boundary, summary].map(PathItem::Added);
    plan.path = added.into_iter().chain(kept.iter().map(|&node| PathItem::Source(node))).collect();
}
