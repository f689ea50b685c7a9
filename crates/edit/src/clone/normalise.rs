//! The third stage: a plan whose result every client accepts.

use rethread_model::{NodeId, Table};

use super::ClonePlanError;
use super::compact_metadata::prune_preserved_lists;
use super::compress::CondensedTurns;
use super::edit::EditedPlan;
use super::select::Selection;
use super::thinking::RemovedThinking;
use super::tools::CallEdits;
use super::usage::correct_usage;
use crate::ids::IdMap;
use crate::plan::{EditExtent, PathItem, Plan};

/// A plan that is complete: the conversation is one chain, and every client finds its end.
pub(super) struct NormalisedPlan<'a> {
    pub(super) plan: Plan<'a>,
    pub(super) calls: CallEdits,
    pub(super) condensed: CondensedTurns,
    pub(super) thinking: RemovedThinking,
    /// Number of entries that were repaired so that every client accepts them.
    pub(super) n_repaired: u64,
    /// The context size that the last answer records was corrected.
    pub(super) usage_corrected: bool,
}

/// Repairs what some client would reject.
///
/// Queued prompts are placed before the path is made linear, because they become part of it. Preserved lists and
/// usage depend on the final path. The end marker is last, because it must be newer than all other entries.
pub(super) fn normalise<'a>(
    selection: &Selection,
    ids: &IdMap<'_>,
    edited: EditedPlan<'a>,
) -> Result<NormalisedPlan<'a>, ClonePlanError> {
    let EditedPlan { mut plan, calls, condensed, thinking } = edited;
    let requested: Table<NodeId, EditExtent> =
        plan.facts.nodes.keys().map(|node| plan.edit_extent(node)).collect();
    plan.repair();
    plan.place_queued_prompts();
    plan.linearise();
    prune_preserved_lists(&mut plan, ids);
    let usage_corrected = correct_usage(&mut plan, selection);
    mark_end(&mut plan, selection);
    if !selection.clone_path.is_empty() && plan.kept_path().is_empty() {
        return Err(ClonePlanError::Empty);
    }
    let n_repaired = count_repaired(&plan, &requested);
    Ok(NormalisedPlan { plan, calls, condensed, thinking, n_repaired, usage_corrected })
}

/// Marks the end where clients would not agree on it: the leaf must be the last and newest entry.
fn mark_end(plan: &mut Plan<'_>, selection: &Selection) {
    let path = plan.kept_path();
    let Some(&PathItem::Source(leaf)) = path.last() else {
        if !path.is_empty() {
            plan.mark_end();
        }
        return;
    };
    let time = plan.final_time(leaf);
    let mut agreed = time.is_some();
    for (node, &on_path) in plan.on_path().iter_enumerated() {
        if node == leaf || plan.is_dropped(node) {
            continue;
        }
        let late = node > leaf && !(selection.single_path && on_path);
        // Some clients even resume a subagent's entry.
        agreed &= plan.final_time(node) < time && !late;
    }
    agreed &= plan.added.iter().all(|new| Some(new.time) < time);
    // Clients also differ in what they add after an unanswered prompt or result.
    agreed &= plan.ends_with_answer();
    if !agreed {
        plan.mark_end();
    }
}

/// Counts the entries whose edit is more than `requested`.
fn count_repaired(plan: &Plan<'_>, requested: &Table<NodeId, EditExtent>) -> u64 {
    let is_repaired = |&(node, &(was_removed, ..)): &(NodeId, &EditExtent)| {
        let edit = plan.edits.get(node).filter(|_| !plan.is_dropped(node));
        let other = edit.is_some_and(|e| e.uuid.is_some() || e.time.is_some() || e.model.is_some());
        !was_removed && (plan.edit_extent(node) != requested[node] || other)
    };
    requested.iter_enumerated().filter(is_repaired).count() as u64
}
