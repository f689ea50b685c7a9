//! Warnings about a clone, derived in one place. Front ends word them.

use std::io;

use rethread_edit::{AddedCounts, CloneReport};
use rethread_model::Finding;
use rethread_store::Holder;

use super::summarise::SummariserFailure;

/// Something that a user should know about a clone.
#[derive(Debug)]
#[non_exhaustive]
pub enum CloneWarning {
    /// The summariser failed for some turns, which have generated summaries instead.
    SummariserFailed {
        /// Number of turns that it failed for.
        turns: usize,
        /// Number of turns that it was asked for.
        of: usize,
        /// The first failure.
        first: SummariserFailure,
    },
    /// Clients would have lost something of the clone, so it was repaired.
    Repaired,
    /// Clients lose or reject something of the clone.
    Problem(Finding),
    /// Removed entries were to be kept, but there are none.
    NothingRemoved,
    /// This many lines of the source are not entries and are not in the clone.
    UnreadableLines(u64),
    /// This many entries were repaired so that every client accepts the clone.
    RepairedEntries(u64),
    /// These entries were added so that every client accepts the clone.
    AddedEntries(AddedCounts),
    /// The recipe names tools that the session never calls.
    UnknownTools {
        /// The tools that the recipe names.
        named: Vec<String>,
        /// The tools that the session calls.
        called: Vec<String>,
    },
    /// Thinking was removed because calls before it changed.
    ThinkingInvalidated,
    /// This many paths of the source are not in the clone.
    OtherPaths(usize),
    /// File snapshots are not copied, so the clone cannot undo file changes.
    NoFileHistory,
    /// The recorded usage is that of the source.
    SourceUsage {
        /// The context size of the last answer was corrected.
        corrected: bool,
    },
    /// This many of the oldest turns have no summary, only the prompt, because of the budget.
    TurnsWithoutSummary(usize),
    /// This many summaries were cut because of the budget.
    SummariesCut(usize),
    /// Turns were to be condensed, but there are no older ones.
    NothingToCondense,
    /// Tool calls or thinking were to be removed, but the recipe applies to none.
    NothingToRemove,
    /// The last line of the source was only partly written and is not in the clone.
    TornLine,
    /// A process has the source open: the clone contains what was written so far.
    SourceOpen(Holder),
    /// The clone is outside the config directories, so clients do not find it.
    OutsideConfigDir,
    /// The session index of the project could not be updated.
    IndexNotUpdated(io::Error),
}

/// Everything about a clone that may deserve a warning.
#[derive(Debug, Default)]
pub(super) struct CloneObservations {
    pub(super) report: CloneReport,
    /// The recipe asked to condense turns.
    pub(super) condenses: bool,
    /// The recipe asked to remove or shorten tool calls or thinking.
    pub(super) strips: bool,
    /// An edited clone was written.
    pub(super) is_edited: bool,
    /// The clone was repaired.
    pub(super) is_repaired: bool,
    /// Content of the clone that clients lose or reject.
    pub(super) findings: Vec<Finding>,
    pub(super) nothing_removed: bool,
    pub(super) torn_line: bool,
    /// Warnings from before the clone was planned, and from after it was written.
    pub(super) summariser: Option<CloneWarning>,
    pub(super) index: Option<CloneWarning>,
    pub(super) holder: Option<Holder>,
    pub(super) outside_config: bool,
}

impl CloneObservations {
    /// Derives the warnings, in the order in which they are shown.
    pub(super) fn into_warnings(mut self) -> Vec<CloneWarning> {
        let problem = self.findings.drain(..).next().map(CloneWarning::Problem);
        // Of an edited clone a problem is unexpected and comes first; otherwise the source has it too.
        let (unexpected, inherited) = if self.is_edited { (problem, None) } else { (None, problem) };
        let some = |is: bool, warning: CloneWarning| is.then_some(warning);
        let mut warnings: Vec<CloneWarning> = self.summariser.take().into_iter().collect();
        warnings.extend(some(self.is_repaired, CloneWarning::Repaired));
        warnings.extend(unexpected);
        warnings.extend(some(self.nothing_removed, CloneWarning::NothingRemoved));
        let (condenses, turns) = (self.condenses, self.report.counts.turns);
        // Unknown tools have a warning of their own, which explains why nothing was removed.
        let counts = &self.report.counts;
        let removed = counts.calls + counts.shortened + counts.thinking + counts.turns;
        let nothing_to_remove = self.strips && removed == 0 && self.report.unknown_tools.is_empty();
        warnings.extend(report_warnings(self.report));
        warnings.extend(some(nothing_to_remove, CloneWarning::NothingToRemove));
        warnings.extend(some(condenses && turns == 0, CloneWarning::NothingToCondense));
        warnings.extend(inherited);
        warnings.extend(some(self.torn_line, CloneWarning::TornLine));
        warnings.extend(self.holder.map(CloneWarning::SourceOpen));
        warnings.extend(some(self.outside_config, CloneWarning::OutsideConfigDir));
        warnings.extend(self.index);
        warnings
    }
}

/// Derives the warnings about the effects of a recipe.
fn report_warnings(report: CloneReport) -> impl Iterator<Item = CloneWarning> {
    let counts = report.counts;
    let edits = counts.calls + counts.shortened + counts.thinking + counts.turns;
    let over_budget = report.over_budget;
    let (named, called) = (report.unknown_tools, report.called_tools);
    [
        (counts.unreadable > 0).then_some(CloneWarning::UnreadableLines(counts.unreadable)),
        (counts.repaired > 0).then_some(CloneWarning::RepairedEntries(counts.repaired)),
        (counts.added.total() > 0).then_some(CloneWarning::AddedEntries(counts.added)),
        (!named.is_empty()).then_some(CloneWarning::UnknownTools { named, called }),
        report.thinking_invalidated.then_some(CloneWarning::ThinkingInvalidated),
        (report.other_paths > 0).then_some(CloneWarning::OtherPaths(report.other_paths)),
        report.without_history.then_some(CloneWarning::NoFileHistory),
        (edits > 0).then_some(CloneWarning::SourceUsage { corrected: report.usage_corrected }),
        (over_budget.without_summary > 0)
            .then_some(CloneWarning::TurnsWithoutSummary(over_budget.without_summary)),
        (over_budget.cut > 0).then_some(CloneWarning::SummariesCut(over_budget.cut)),
    ]
    .into_iter()
    .flatten()
}
