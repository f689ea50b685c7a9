//! Entries about calls: hooks, notes, media, and records outside of the tree.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{Block, BlockClass, Facts, NodeId, Role};
use rustc_hash::FxHashSet;

use super::tools::{CallAction, CallEdits};
use crate::plan::Plan;
use crate::source::SourceSession;

/// Ids of removed or changed calls.
pub(super) struct CallIdSet<'f>(FxHashSet<&'f str>);

impl<'f> CallIdSet<'f> {
    /// Returns the ids of removed calls.
    fn removed(facts: &'f Facts, edits: &CallEdits) -> Self {
        Self::with_action(facts, edits, |action| action == CallAction::Strip)
    }

    /// Returns the ids of removed or changed calls.
    pub(super) fn changed(plan: &Plan<'f>, edits: &CallEdits) -> Self {
        let facts = plan.facts;
        let mut ids = Self::with_action(facts, edits, |action| action != CallAction::Keep);
        let removed = facts.calls.iter().filter(|call| plan.is_dropped(call.node));
        ids.0.extend(removed.map(|call| facts.call_id(call)));
        ids
    }

    fn with_action(facts: &'f Facts, edits: &CallEdits, matches: impl Fn(CallAction) -> bool) -> Self {
        let calls = facts.calls.iter_enumerated().filter(|&(call, _)| matches(edits.action(call)));
        Self(calls.map(|(_, call)| facts.call_id(call)).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an entry outside of the tree contains one of them.
    pub(super) fn occurs_in(&self, raw: &[u8]) -> bool {
        // Splits at bytes that do not occur in ids, and looks up each piece.
        let separates = |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'));
        raw.split(separates).any(|id| std::str::from_utf8(id).is_ok_and(|id| self.0.contains(id)))
    }

    /// Returns whether an entry names one of them as the call that it belongs to.
    fn is_named_by(&self, raw: &[u8], line: &mut Line) -> bool {
        parse_entry(raw, line);
        let nested = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("toolUseID");
        let ids = [Key::ToolUseId, Key::SourceToolUseId, Key::ParentToolUseId]
            .into_iter()
            .map(|key| Json::new(line.field(key).bytes_in(raw)))
            .chain(nested);
        ids.filter_map(Json::as_str).any(|id| self.0.contains(&*id))
    }
}

/// Drops entries about removed calls: hooks, notes, entries that the client inserted.
pub(super) fn drop_call_notes(source: &SourceSession<'_>, edits: &CallEdits, plan: &mut Plan<'_>) {
    let facts = plan.facts;
    let removed = CallIdSet::removed(facts, edits);
    if removed.is_empty() {
        return;
    }
    let mut line = Line::default();
    for (node, fact) in facts.nodes.iter_enumerated() {
        let note = !fact.is_conversation() || fact.role == Role::User && !fact.flags.has_result();
        if note
            && !plan.is_dropped(node)
            && source.digests[fact.entry].names_call
            && removed.is_named_by(plan.reader.entry_bytes(fact.entry), &mut line)
        {
            plan.drop_requested(node);
        }
    }
    drop_attached_media(edits, plan);
}

/// Drops images and documents that a call returned in addition to its result: clients send them in a hidden entry
/// after it, which names no call.
fn drop_attached_media(edits: &CallEdits, plan: &mut Plan<'_>) {
    let facts = plan.facts;
    let is_removed = |block: &Block| block.call().is_some_and(|call| edits.removes(call));
    let mut removed: FxHashSet<NodeId> = FxHashSet::default();
    for (node, fact) in facts.nodes.iter_enumerated() {
        let media = |block: &Block| block.class == BlockClass::Media;
        if fact.role != Role::User || !fact.flags.is_meta() || !facts.blocks_of(node).iter().any(media) {
            continue;
        }
        let Some(above) = facts.parent_of(node) else { continue };
        let results = facts.blocks_of(above).iter().filter(|block| block.class == BlockClass::ToolResult);
        let mut results = results.peekable();
        let of_removed = results.peek().is_some() && results.all(is_removed);
        // One file may be several entries.
        if of_removed || removed.contains(&above) {
            removed.insert(node);
        }
    }
    for node in removed {
        plan.drop_requested(node);
    }
}
