//! Entries that are dropped with the entries that they belong to.

use rethread_model::{Node, NodeId, Role, Table, Uid};
use rustc_hash::FxHashSet;

use super::select::Selection;
use crate::plan::{PathItem, Plan};

/// Drops tool progress, which is never sent and breaks some clients, and failure reports on the path, which only
/// the oldest clients send.
pub(super) fn drop_progress_and_errors(plan: &mut Plan<'_>) {
    for (node, &on_path) in plan.on_path().iter_enumerated() {
        let fact = plan.node(node);
        let failure = fact.role == Role::Assistant && fact.flags.is_failure_report();
        if fact.role == Role::Progress || failure && on_path {
            plan.drop_requested(node);
        }
    }
}

/// Drops notes that are all that is left of a branch: without the entries they belong to, clients would treat them
/// as part of the conversation that the branch forked from.
pub(super) fn drop_orphaned_notes(plan: &mut Plan<'_>) {
    let facts = plan.facts;
    let on_path = plan.on_path();
    let is_candidate = |(node, fact): (NodeId, &Node)| !on_path[node] && is_plain_note(fact);
    if !facts.nodes.iter_enumerated().any(is_candidate) {
        return;
    }
    let none: Table<NodeId, bool> = Table::filled(false, facts.nodes.len());
    let order = plan.top_down();
    // Set if the nearest message above is removed.
    let mut removed_above = none.clone();
    for &node in &order {
        let Some(above) = plan.effective_parent(node) else { continue };
        let is_message = facts.nodes[above].is_conversation();
        removed_above[node] = if is_message { plan.is_dropped(above) } else { removed_above[above] };
    }
    // Set if there is a message below, and if anything below is kept.
    let (mut message_below, mut kept_below) = (none.clone(), none);
    for &node in order.iter().rev() {
        let alone = !kept_below[node] && (removed_above[node] || message_below[node]);
        if alone && is_candidate((node, &facts.nodes[node])) {
            plan.drop_requested(node);
        }
        if let Some(above) = plan.effective_parent(node) {
            message_below[above] |= message_below[node] || facts.nodes[node].is_conversation();
            kept_below[above] |= kept_below[node] || !plan.is_dropped(node);
        }
    }
}

/// Returns whether an entry is a note that says nothing by itself.
fn is_plain_note(fact: &Node) -> bool {
    let flags = fact.flags;
    let is_message = flags.is_queued_prompt() || flags.is_local_command();
    let is_note = matches!(fact.role, Role::System | Role::Attachment);
    is_note && !is_message && !flags.is_boundary() && !flags.is_sidechain()
}

/// Drops attachments after the last message: some clients treat them as waiting for an answer, and all clients
/// attach again what they need.
pub(super) fn drop_trailing_attachments(plan: &mut Plan<'_>) {
    for item in plan.kept_path().into_iter().rev() {
        let PathItem::Source(node) = item else { return };
        let fact = plan.node(node);
        if fact.is_conversation() || fact.flags.is_queued_prompt() {
            return;
        }
        if fact.role == Role::Attachment {
            plan.drop_requested(node);
        }
    }
}

/// Drops duplicates of removed entries: of several entries with one id the last is on the path, and the others are
/// kept only with it.
pub(super) fn drop_duplicates(selection: &Selection, plan: &mut Plan<'_>) {
    let facts = plan.facts;
    if !facts.has_duplicates() {
        return;
    }
    let removed = selection.clone_path.iter().filter(|&&node| plan.is_dropped(node));
    let removed: FxHashSet<Uid> = removed.map(|&node| facts.nodes[node].uid).collect();
    for (node, _) in facts.nodes.iter_enumerated().filter(|(_, fact)| removed.contains(&fact.uid)) {
        plan.drop_requested(node);
    }
}
