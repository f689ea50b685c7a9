//! The entries that replace removed ones as parents.

use rethread_log::{EntryKind, Key, Line};
use rethread_model::Uid;
use rustc_hash::FxHashMap;

/// Removed entries, each with the data needed to find its replacement.
#[derive(Debug, Clone, Default)]
pub struct ReparentMap(FxHashMap<Uid, RemovedNode>);

/// A removed entry.
#[derive(Debug, Clone)]
struct RemovedNode {
    /// The id of its parent, unescaped.
    parent: Option<Box<str>>,
    /// The message that it was part of.
    message: Option<Uid>,
    /// A kept entry of the same message that was its descendant.
    sibling: Option<Box<str>>,
}

impl ReparentMap {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, uuid: Uid) -> bool {
        self.0.contains_key(&uuid)
    }

    /// Records a removed entry. What is known of it from an earlier pass is kept.
    pub(super) fn record_removed(&mut self, uuid: Uid, raw: &[u8], line: &Line) {
        let parent = line.string(Key::ParentUuid, raw).map(|id| rethread_log::unescape(id).into());
        let sibling = self.0.remove(&uuid).and_then(|removed| removed.sibling);
        self.0.insert(uuid, RemovedNode { parent, message: message_id(raw, line), sibling });
    }

    /// Returns the entry that replaces a removed one as the parent of an entry of `message`: another entry of the
    /// removed one's message, or else its nearest kept ancestor; `Some(None)` if there is neither. Returns `None` if
    /// `id` was not removed.
    pub(super) fn new_parent(&self, id: &[u8], message: Option<Uid>) -> Option<Option<&str>> {
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
    pub(super) fn record_kept_sibling(&mut self, id: &[u8], parent: &[u8], message: Uid) -> Vec<Uid> {
        let mut updated = Vec::new();
        let mut next = Some(Uid::new(parent));
        while let Some(ancestor) = next
            && let Some(removed) = self.0.get_mut(&ancestor)
            && removed.message == Some(message)
            && removed.sibling.is_none()
        {
            removed.sibling = Some(rethread_log::unescape(id).into());
            updated.push(ancestor);
            next = removed.parent.as_ref().map(|parent| Uid::new(parent.as_bytes()));
        }
        updated
    }
}

/// Returns the id of the assistant message that an entry is part of.
pub(super) fn message_id(raw: &[u8], line: &Line) -> Option<Uid> {
    let id =
        line.message.filter(|_| line.kind == Some(EntryKind::Assistant)).and_then(|m| m.id.string_in(raw));
    id.map(Uid::new)
}
