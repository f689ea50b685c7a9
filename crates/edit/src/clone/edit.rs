//! The second stage: applies the edits of the recipe.

use super::Recipe;
use super::compress::{CondensedTurns, condense_turns};
use super::notes;
use super::select::Selection;
use super::sidechains::drop_unused_sidechains;
use super::thinking::{RemovedThinking, remove_thinking};
use super::tools::{CallEdits, edit_calls};
use crate::plan::Plan;
use crate::source::SourceSession;

/// A plan with all edits of a recipe. Clients may not accept its result yet.
pub(super) struct EditedPlan<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) calls: CallEdits,
    pub(super) condensed: CondensedTurns,
    pub(super) thinking: RemovedThinking,
}

/// Applies a recipe to a selection.
///
/// Calls are edited before turns are condensed, because a summary reports only the calls that are kept. The entries
/// of a subagent are kept with its call, so they follow both. Thinking follows the calls, because its signature
/// covers them; a condensed turn needs no such check. Notes, trailing attachments and duplicates are last: they are
/// dropped if the entries that they belong to are.
pub(super) fn apply_recipe<'a>(
    source: &'a SourceSession<'a>,
    recipe: &Recipe,
    selection: &Selection,
) -> EditedPlan<'a> {
    let mut plan = selection.plan(source);
    notes::drop_progress_and_errors(&mut plan);
    let calls = edit_calls(source, &recipe.tools, selection, &mut plan);
    let condensed = condense_turns(source, recipe.compress.as_ref(), &mut plan);
    drop_unused_sidechains(source, selection, &calls, &mut plan);
    let changed = calls.changed_nodes.iter().copied().filter(|node| !condensed.nodes.contains(node));
    let thinking = remove_thinking(source, recipe.strip_thinking, changed, &mut plan);
    notes::drop_orphaned_notes(&mut plan);
    notes::drop_trailing_attachments(&mut plan);
    notes::drop_duplicates(selection, &mut plan);
    EditedPlan { plan, calls, condensed, thinking }
}
