//! Redirects references to removed entries.

use rethread_log::{EntryKind, Key, Line};
use rethread_model::Uid;
use rustc_hash::FxHashMap;

use super::Cleaner;
use crate::ids::{IdRole, find_id_spans};
use crate::splice::json_string;

/// Removed entries, each with the data needed to find its replacement.
#[derive(Debug, Clone, Default)]
pub struct ReparentMap(FxHashMap<Uid, RemovedNode>);

/// A removed entry.
#[derive(Debug, Clone)]
struct RemovedNode {
    /// The id of its parent, unescaped.
    parent: Option<Box<str>>,
    /// The message that it was part of.
    message: Uid,
    /// A kept entry of the same message that was its descendant.
    sibling: Option<Box<str>>,
}

impl ReparentMap {
    /// Returns the entry that replaces a removed one as the parent of an entry of `message`: another entry of the
    /// removed one's message, or else its nearest kept ancestor; `Some(None)` if there is neither. Returns `None` if
    /// `id` was not removed.
    fn new_parent(&self, id: &[u8], message: Uid) -> Option<Option<&str>> {
        let mut removed = self.0.get(&Uid::new(id))?;
        // The parents may form a cycle.
        for _ in 0..=self.0.len() {
            if let Some(sibling) = removed.sibling.as_deref().filter(|_| removed.message != message) {
                return Some(Some(sibling));
            }
            let Some(parent) = &removed.parent else { return Some(None) };
            match self.0.get(&Uid::new(parent.as_bytes())) {
                Some(next) => removed = next,
                None => return Some(Some(parent)),
            }
        }
        Some(None)
    }

    /// Records a kept entry as the sibling of its removed ancestors in the same message. Returns those that had no
    /// sibling before.
    fn record_kept_sibling(&mut self, id: &[u8], parent: &[u8], message: Uid) -> Vec<Uid> {
        let mut updated = Vec::new();
        let mut ancestor = Uid::new(parent);
        while let Some(removed) = self.0.get_mut(&ancestor)
            && removed.message == message
            && removed.sibling.is_none()
        {
            removed.sibling = Some(rethread_log::unescape(id).into());
            updated.push(ancestor);
            ancestor = removed.parent.as_ref().map_or(Uid::NONE, |parent| Uid::new(parent.as_bytes()));
        }
        updated
    }
}

/// Returns the id of the assistant message that an entry is part of.
fn message_id(raw: &[u8], line: &Line) -> Uid {
    let id =
        line.message.filter(|_| line.kind == Some(EntryKind::Assistant)).and_then(|m| m.id.string_in(raw));
    id.map_or(Uid::NONE, Uid::new)
}

impl Cleaner<'_> {
    /// Records a removed entry, so that references to it can be redirected.
    pub(super) fn record_removed(&mut self, raw: &[u8], line: &Line) {
        let Some(uuid) = line.string(Key::Uuid, raw) else { return };
        let uid = Uid::new(uuid);
        // A second pass already knows every removed entry.
        self.needs_rerun |= self.referenced.contains(&uid) && !self.reparents.0.contains_key(&uid);
        let parent = line.string(Key::ParentUuid, raw).map(|id| rethread_log::unescape(id).into());
        let sibling = self.reparents.0.remove(&uid).and_then(|removed| removed.sibling);
        self.reparents.0.insert(uid, RemovedNode { parent, message: message_id(raw, line), sibling });
    }

    /// Redirects the references of a kept entry to removed entries.
    pub(super) fn reparent(&mut self, raw: &[u8], line: &Line) {
        let message = if self.reparents.0.is_empty() { Uid::NONE } else { message_id(raw, line) };
        if let (Some(id), Some(parent)) = (line.string(Key::Uuid, raw), line.string(Key::ParentUuid, raw))
            && !message.is_none()
        {
            let updated = self.reparents.record_kept_sibling(id, parent, message);
            self.needs_rerun |= updated.iter().any(|ancestor| self.referenced.contains(ancestor));
        }
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid] {
            if let Some(id) = line.string(key, raw) {
                self.referenced.insert(Uid::new(id));
            }
        }
        if self.reparents.0.is_empty() {
            return;
        }
        let found_uuids = self.redirect_ids_anywhere(raw, line, message);
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid, Key::SourceToolAssistantUuid] {
            let span = line.field(key);
            if let Some(id) = span.string_in(raw).filter(|id| !found_uuids || id.len() != 36)
                && let Some(parent) = self.reparents.new_parent(id, message)
            {
                self.changes.replace_reference(span.range(), json_id(parent));
            }
        }
    }

    /// Redirects the references in an entry that is not a message; returns whether it contains ids. Messages refer
    /// only to their parent and their call, other entries may contain ids anywhere.
    fn redirect_ids_anywhere(&mut self, raw: &[u8], line: &Line, message: Uid) -> bool {
        let mut found = Vec::new();
        if !matches!(line.kind, Some(EntryKind::User | EntryKind::Assistant)) {
            find_id_spans(raw, line, 0, &mut found);
        }
        for id in found.iter().filter(|id| id.role != IdRole::Session) {
            let start = usize::try_from(id.at).unwrap_or(0);
            let end = start + id.len as usize;
            // The entry's own id never changes, even if a removed entry had the same one.
            let own = line.field(Key::Uuid);
            if own.start() < start && start < own.end() {
                continue;
            }
            if let Some(parent) = self.reparents.new_parent(&raw[start..end], message) {
                // The quotes are replaced, too.
                self.changes.replace_reference(start - 1..end + 1, json_id(parent));
            }
        }
        !found.is_empty()
    }
}

/// Encodes an optional id as JSON.
fn json_id(id: Option<&str>) -> Vec<u8> {
    id.map_or_else(|| b"null".to_vec(), json_string)
}
