//! Messages preserved by a compaction, relinked after its summary.

use rustc_hash::FxHashSet;

use super::{LoadedEntries, SlotId};
use crate::id::Uid;
use crate::rules::ClientRule;

impl LoadedEntries<'_> {
    /// Relinks the messages preserved by the last compaction after its summary and drops the other entries
    /// before it. Returns whether any message was preserved.
    pub(super) fn relink_preserved(&mut self) -> bool {
        let lists = self.client.has(ClientRule::ReadsPreservedList);
        let mut last_boundary = None;
        let mut with_kept = None;
        for slot in self.live_slots() {
            if !self.node(slot).flags.is_boundary() {
                continue;
            }
            last_boundary = Some(slot);
            if self.has_preserved_rows(self.slots[slot].node) {
                with_kept = Some(slot);
            }
        }
        let (Some(boundary), Some(with_kept)) = (last_boundary, with_kept) else { return false };
        let mut kept: Vec<SlotId> = Vec::new();
        if with_kept == boundary {
            let preserved = &self.facts.preserved[&self.slots[boundary].node];
            let listed = preserved.listed.as_ref().filter(|_| lists);
            if let Some(listed) = listed {
                for &uid in &listed.uuids {
                    let Some(slot) = uid.and_then(|uid| self.slot(uid)) else { return false };
                    kept.push(slot);
                }
                self.relink(&kept, listed.anchor, lists);
            } else if let Some(segment) = &preserved.segment
                && let [head, tail] = segment.uuids[..]
            {
                let mut seen = FxHashSet::default();
                let mut at = tail.and_then(|tail| self.slot(tail));
                loop {
                    let Some(slot) = at.filter(|&s| seen.insert(s)) else { return false };
                    kept.push(slot);
                    if Some(self.node(slot).uid) == head {
                        break;
                    }
                    at = self.parent(slot);
                }
                kept.reverse();
                self.relink(&kept, segment.anchor, lists);
            }
        }
        let keep: FxHashSet<SlotId> = kept.iter().copied().collect();
        for slot in self.slots.keys().take(boundary.index()) {
            if !keep.contains(&slot) {
                self.slots[slot].dropped = true;
            }
        }
        // Children of a dropped message are reparented to the last preserved one.
        if let Some(&tail) = kept.last()
            && lists
        {
            let uid = self.node(tail).uid;
            for slot in self.slots.keys() {
                let parent = self.parent_id(slot).and_then(|uid| self.facts.node_of(uid));
                let parent = parent.and_then(|parent| self.slot_by_node[parent]);
                let dropped = parent.is_some_and(|parent| self.slots[parent].dropped);
                if dropped && !self.slots[slot].dropped && self.node(slot).is_conversation() {
                    self.parent_overrides.insert(slot, Some(uid));
                }
            }
        }
        lists && !kept.is_empty()
    }

    fn relink(&mut self, kept: &[SlotId], anchor: Option<Uid>, in_a_row: bool) {
        let (Some(&head), Some(&tail)) = (kept.first(), kept.last()) else { return };
        let mut previous = anchor;
        for &slot in if in_a_row { kept } else { &kept[..1] } {
            self.parent_overrides.insert(slot, previous);
            previous = Some(self.node(slot).uid);
        }
        let tail = self.node(tail).uid;
        for slot in self.slots.keys() {
            if slot != head && self.parent_id(slot) == anchor {
                self.parent_overrides.insert(slot, Some(tail));
            }
        }
    }
}
