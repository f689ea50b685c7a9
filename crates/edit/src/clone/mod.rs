//! Clones a session: with new ids, optionally a single path, without tools or thinking, or with older turns
//! condensed.
//!
//! A [`Recipe`] describes the edits. Without edits a clone equals its source byte for byte, except for ids. With
//! edits it is made in stages, each a function from value to value; [`plan_clone`] shows their order.

mod call_notes;
mod compact_metadata;
mod compress;
mod context;
mod edit;
mod emit;
mod error;
mod normalise;
mod notes;
mod order;
mod recipe;
mod references;
mod removed;
mod report;
mod select;
mod sidechains;
mod summary;
mod thinking;
mod tools;
mod turn_summary;
mod usage;

pub use compress::{CompressOptions, CondensedTurn, OverBudget};
pub use context::{ContextSize, Measure, context_size};
pub use emit::WriteOutcome;
pub use error::ClonePlanError;
pub use recipe::{Preset, Recipe};
pub use removed::RemovedEntry;
pub use report::{AddedCounts, CloneCounts, CloneReport};
pub use summary::CloneSummary;
pub use tools::ToolRecipe;

use crate::ids::IdMap;
use crate::plan::Plan;
use crate::source::SourceSession;
use order::OutputLine;
use rethread_model::CallId;
use tools::CallEdits;

/// A clone that is ready to be written.
#[derive(Debug)]
pub struct PreparedClone<'a> {
    source: &'a SourceSession<'a>,
    ids: IdMap<'a>,
    /// The plan; `None` if only ids change.
    plan: Option<Plan<'a>>,
    calls: CallEdits,
    /// The lines to write, in order.
    lines: Vec<OutputLine>,
    /// The effects of the recipe.
    pub report: CloneReport,
}

/// Repairs what every edit depends on: the order of the lines, the ids of messages. Returns the repaired log and
/// the recipe for it: numbers of paths and messages in `recipe` refer to the source. `None` if nothing needs repair,
/// or if only ids change.
pub fn normalise_source(
    source: &SourceSession<'_>,
    recipe: &Recipe,
) -> Result<Option<(Vec<u8>, Recipe)>, ClonePlanError> {
    if recipe.is_plain() {
        return Ok(None);
    }
    let Some(log) = source.normalised_log() else { return Ok(None) };
    let end = select::end_of(source, recipe)?.map(|node| source.session.facts.nodes[node].uid);
    Ok(Some((log, Recipe { path: None, until: None, end, ..recipe.clone() })))
}

/// Plans a clone of a session.
///
/// The order of the stages matters:
/// 1. `select` chooses the conversation, because edits such as "keep the last five turns" refer
///    to it.
/// 2. `edit` applies the recipe to it: calls, turns, subagents, thinking, and last the notes
///    that have lost what they belong to.
/// 3. `normalise` repairs what some client would reject, which includes the gaps that the
///    edits made, makes the path linear, and last marks its end.
/// 4. `order` lists the lines. Records outside of the tree depend on which entries are kept,
///    and the checkpoint on the last of them.
///
/// [`PreparedClone::write`] emits the lines; it decides nothing.
pub fn plan_clone<'a>(
    source: &'a SourceSession<'a>,
    recipe: &Recipe,
    ids: IdMap<'a>,
) -> Result<PreparedClone<'a>, ClonePlanError> {
    let ids = ids.with_log(&source.session.facts).with_non_uuid_ids(source.has_non_uuid_ids);
    if recipe.is_plain() {
        let lines = order::unedited_lines(source, recipe, &ids, emit::PIECE);
        let (calls, report) = (CallEdits::default(), CloneReport::default());
        return Ok(PreparedClone { source, ids, plan: None, calls, lines, report });
    }
    let selection = select::Selection::new(source, recipe)?;
    let edited = edit::apply_recipe(source, recipe, &selection);
    let normalised = normalise::normalise(&selection, &ids, edited)?;
    let ordered = order::order_lines(source, recipe, &selection, &ids, &normalised);
    let report = CloneReport::new(source, &selection, &normalised, &ordered);
    let ids = references::redirect_references(&normalised.plan, ids);
    let (plan, calls) = (Some(normalised.plan), normalised.calls);
    Ok(PreparedClone { source, ids, plan, calls, lines: ordered.lines, report })
}

impl PreparedClone<'_> {
    /// Returns whether a call of the source is in the clone, unchanged or shortened.
    pub fn keeps_call(&self, call: CallId) -> bool {
        let Some(plan) = &self.plan else { return true };
        !plan.is_dropped(plan.facts.calls[call].node) && !self.calls.removes(call)
    }

    /// Returns whether a call is in a turn that the recipe keeps unchanged.
    pub fn keeps_call_unchanged(&self, call: CallId) -> bool {
        self.keeps_call(call) && self.calls.is_unchanged(call)
    }

    /// Returns the error if part of the source could not be read again.
    pub fn failure(&self) -> Option<std::io::Error> {
        self.source.failure()
    }

    /// Returns the id map, for sidecars.
    pub fn id_map(&self) -> &IdMap<'_> {
        &self.ids
    }

    /// Returns whether only ids change.
    pub fn is_plain(&self) -> bool {
        self.plan.is_none()
    }
}
