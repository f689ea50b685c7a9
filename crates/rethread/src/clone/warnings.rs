//! Warnings about a clone.

use rethread_edit::{self as edit, Recipe};
use rethread_model::Finding;

/// Adds the warnings about a clone.
pub(super) fn push_clone_warnings(
    cloned: &edit::PreparedClone<'_>,
    recipe: &Recipe,
    warnings: &mut Vec<String>,
) {
    let counts = &cloned.counts;
    let some =
        |n: u64, one: &str, many: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {many}") };
    if counts.unreadable > 0 && !cloned.is_plain() {
        warnings.push(
            some(counts.unreadable, "unreadable line is", "unreadable lines are") + " not in the clone",
        );
    }
    if counts.mended > 0 {
        let entries = some(counts.mended, "entry was", "entries were");
        warnings.push(format!("{entries} repaired so that every client accepts the clone"));
    }
    if counts.added > 0 {
        let entries = some(counts.added, "entry was", "entries were");
        warnings.push(format!(
            "{entries} added so that every client accepts the clone: a missing result, an answer, or an end marker"
        ));
    }
    if !cloned.unknown_tools.is_empty() {
        let names = cloned.unknown_tools.join(", ");
        let tools = cloned.tools().join(", ");
        let has = if tools.is_empty() { "calls no tools".to_owned() } else { format!("calls {tools}") };
        warnings.push(format!("the session does not call {names}; it {has}"));
    }
    if cloned.thinking_invalidated {
        warnings
            .push("thinking after removed or shortened calls was removed too: it is no longer valid".into());
    }
    if cloned.other_paths > 0 {
        let paths = some(cloned.other_paths as u64, "other path is", "other paths are");
        warnings.push(format!("{paths} not in the clone"));
    }
    if cloned.without_history {
        warnings.push(
            "file snapshots are not copied: the clone cannot undo file changes (--file-history copies them)"
                .into(),
        );
    }
    if counts.calls + counts.shortened + counts.thinking + counts.turns > 0 {
        let but =
            if cloned.usage_corrected { ", except for the context size of the last answer" } else { "" };
        warnings.push(format!("the usage recorded in the clone is that of the source{but}"));
    }
    let edit::OverBudget { without_summary, cut } = cloned.over_budget;
    if without_summary > 0 {
        let turns = some(without_summary as u64, "turn has", "turns have");
        warnings
            .push(format!("the oldest {turns} no summary, only the prompt (a larger --budget includes one)"));
    }
    if cut > 0 {
        let summaries = some(cut as u64, "summary was", "summaries were");
        warnings.push(format!("{summaries} cut to fit --budget"));
    }
    if recipe.compress.is_some() && counts.turns == 0 {
        warnings.push("there are no older turns to condense".into());
    }
}

pub(super) fn push_finding_warning(harm: &[Finding], warnings: &mut Vec<String>) {
    if let Some(first) = harm.first() {
        let hint = if first.kind.is_repairable() { " (`rethread repair` repairs it)" } else { "" };
        warnings.push(format!("`rethread check` reports a problem in the clone: {}{hint}", first.detail));
    }
}
