//! The report of a clone: everything that a caller may want to show or to warn about.

use super::compress::{CondensedTurn, OverBudget};
use super::normalise::NormalisedPlan;
use super::order::OrderedLines;
use super::select::Selection;
use crate::plan::{AddedKind, Plan};
use crate::source::SourceSession;

/// Counts of what a clone left out or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CloneCounts {
    /// Entries of the conversation that are not in the clone.
    pub entries: u64,
    /// Other entries: progress, recorded requests, snapshots, and entries that belonged to removed calls.
    pub records: u64,
    /// Turns that were condensed.
    pub turns: u64,
    /// Calls that were removed, with their results.
    pub calls: u64,
    /// Calls that were shortened, with their results.
    pub shortened: u64,
    /// Thinking blocks that were removed.
    pub thinking: u64,
    /// Entries that were repaired so that every client accepts them.
    pub repaired: u64,
    /// Entries that were added for the same reason.
    pub added: AddedCounts,
    /// Lines that are not entries.
    pub unreadable: u64,
}

/// Counts of entries that were added so that every client accepts a clone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedCounts {
    /// Results of calls that have none.
    pub results: u64,
    /// User entries before an answer with which the conversation begins.
    pub beginnings: u64,
    /// Answers to a last prompt without one.
    pub answers: u64,
    /// Entries that mark the end.
    pub ends: u64,
}

impl AddedCounts {
    /// Returns the number of all of them.
    pub fn total(self) -> u64 {
        self.results + self.beginnings + self.answers + self.ends
    }

    fn count(plan: &Plan<'_>) -> Self {
        let mut counts = Self::default();
        for added in &plan.added {
            match added.kind {
                AddedKind::Result { .. } => counts.results += 1,
                AddedKind::Beginning => counts.beginnings += 1,
                AddedKind::NoReply => counts.answers += 1,
                AddedKind::End => counts.ends += 1,
                // Part of the summary that was asked for.
                AddedKind::Boundary { .. } | AddedKind::Summary { .. } => {}
            }
        }
        counts
    }
}

/// The effects of a recipe on a session. The report of a clone without edits is empty.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CloneReport {
    /// Counts of what was left out or changed.
    pub counts: CloneCounts,
    /// The turns that were condensed.
    pub turns: Vec<CondensedTurn>,
    /// Turns whose summaries exceed the budget.
    pub over_budget: OverBudget,
    /// Tools that the recipe names and the session never calls.
    pub unknown_tools: Vec<String>,
    /// Tools that the session calls.
    pub called_tools: Vec<String>,
    /// Thinking was removed because content before it changed.
    pub thinking_invalidated: bool,
    /// The context size that the last answer records was corrected.
    pub usage_corrected: bool,
    /// File snapshots were left out.
    pub without_history: bool,
    /// Number of paths of the source that are not in the clone.
    pub other_paths: usize,
}

impl CloneReport {
    pub(super) fn new(
        source: &SourceSession<'_>,
        selection: &Selection,
        normalised: &NormalisedPlan<'_>,
        ordered: &OrderedLines,
    ) -> Self {
        let NormalisedPlan { plan, calls, condensed, thinking, .. } = normalised;
        let facts = plan.facts;
        let dropped = facts.nodes.iter_enumerated().filter(|&(node, _)| plan.is_dropped(node));
        let (entries, others): (Vec<_>, Vec<_>) = dropped.partition(|(_, fact)| fact.is_conversation());
        let records = source.digests.len() - facts.nodes.len() - ordered.n_records + others.len();
        let counts = CloneCounts {
            entries: entries.len() as u64,
            records: records as u64,
            turns: condensed.n_turns as u64,
            calls: calls.n_removed,
            shortened: calls.n_shortened,
            thinking: thinking.n_blocks,
            repaired: normalised.n_repaired,
            added: AddedCounts::count(plan),
            unreadable: u64::from(facts.bad_lines),
        };
        Self {
            counts,
            turns: condensed.turns.clone(),
            over_budget: condensed.over_budget,
            unknown_tools: calls.unknown_tools.clone(),
            called_tools: facts.tools.iter().map(|(name, _)| name.to_owned()).collect(),
            thinking_invalidated: thinking.invalidated,
            usage_corrected: normalised.usage_corrected,
            without_history: ordered.without_history,
            other_paths: selection.other_paths,
        }
    }
}
