//! Choice of the entry that ends the conversation.

use rustc_hash::FxHashSet;

use super::{LoadedEntries, SlotId};
use crate::facts::Role;
use crate::id::{Time, Uid};
use crate::index::{CallId, Table};
use crate::rules::ClientRule;

impl LoadedEntries<'_> {
    pub(super) fn newest_of(&self, slots: impl Iterator<Item = SlotId>) -> Option<SlotId> {
        let mut best: Option<(Time, SlotId)> = None;
        for slot in slots {
            if let Some(time) = self.node(slot).time
                && best.is_none_or(|(newest, _)| time > newest)
            {
                best = Some((time, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }

    /// Finds the first row after sorting by time, newest first. A row without a time compares as equal to
    /// every other row, so the result depends on the sort of the client's engine: short lists are sorted by
    /// binary insertion after their initial run.
    fn first_when_sorted(&self, mut rows: Vec<SlotId>) -> Option<SlotId> {
        const SHORT: usize = 64;
        let time = |slot: SlotId| self.node(slot).time;
        let n_timed = rows.iter().filter(|&&slot| time(slot).is_some()).count();
        if n_timed == 0 {
            return rows.first().copied();
        }
        if n_timed == rows.len() || rows.len() > SHORT {
            return self.newest_of(rows.into_iter());
        }
        let before = |a: SlotId, b: SlotId| time(a).zip(time(b)).is_some_and(|(a, b)| a > b);
        let falls = before(rows[1], rows[0]);
        let run = 1 + rows.windows(2).take_while(|pair| before(pair[1], pair[0]) == falls).count();
        if falls {
            rows[..run].reverse();
        }
        for i in run..rows.len() {
            let pivot = rows[i];
            let (mut low, mut high) = (0, i);
            while low < high {
                let middle = usize::midpoint(low, high);
                if before(pivot, rows[middle]) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            rows.copy_within(low..i, low + 1);
            rows[low] = pivot;
        }
        rows.first().copied()
    }

    /// Finds the nearest user or assistant entry among an entry and its ancestors.
    fn nearest_conversation(&self, slot: SlotId) -> Option<SlotId> {
        let mut seen = FxHashSet::default();
        let mut at = Some(slot);
        while let Some(slot) = at.filter(|&slot| seen.insert(slot)) {
            if self.node(slot).is_conversation() {
                return Some(slot);
            }
            at = self.parent(slot);
        }
        None
    }

    /// Computes [`nearest_conversation`](Self::nearest_conversation) for every entry in one pass.
    fn nearest_conversations(&self) -> Table<SlotId, Option<SlotId>> {
        let mut nearest = Table::filled(None, self.slots.len());
        let mut visited = Table::filled(false, self.slots.len());
        let mut trail = Vec::new();
        for slot in self.live_slots() {
            let mut at = Some(slot);
            let mut found = None;
            while let Some(slot) = at {
                if self.node(slot).is_conversation() {
                    found = Some(slot);
                } else if visited[slot] {
                    found = nearest[slot];
                } else {
                    visited[slot] = true;
                    trail.push(slot);
                    at = self.parent(slot);
                    continue;
                }
                break;
            }
            for passed in trail.drain(..) {
                nearest[passed] = found;
            }
            if self.node(slot).is_conversation() {
                nearest[slot] = Some(slot);
            }
        }
        nearest
    }

    /// Chooses the entry that ends the conversation.
    pub(super) fn choose_leaf(&mut self) -> Option<SlotId> {
        let main = |rows: &Self, slot: &SlotId| !rows.node(*slot).flags.is_sidechain();
        let kept = self.client.has(ClientRule::MovesPreservedSegments) && self.relink_preserved();
        if self.client.has(ClientRule::PicksNewestEntry) {
            let sides = self.client.has(ClientRule::IncludesSidechainLeaves);
            let rows = self.live_slots().filter(|s| sides || main(self, s));
            return if self.client.has(ClientRule::AcceptsLeafWithoutTime) {
                self.first_when_sorted(rows.collect())
            } else {
                self.newest_of(rows)
            };
        }
        if self.rewound_to_start {
            return None;
        }
        let chosen = if self.client.has(ClientRule::FollowsCheckpoints) {
            self.leaf_by_checkpoint(kept)
        } else {
            None
        };
        let leaves = chosen.map_or_else(|| self.leaves(), |leaf| vec![leaf]);
        let conversation = |s: &SlotId| main(self, s) && self.node(*s).is_conversation();
        let leaf = self.newest_of(leaves.iter().copied().filter(conversation));
        if leaf.is_none() {
            self.untimed_leaf = leaves.iter().copied().find(conversation);
        }
        if leaf.is_none() && leaves.is_empty() && self.client.has(ClientRule::ResumesNotes) {
            return self.newest_of(
                self.live_slots().filter(|s| main(self, s) && !self.node(*s).flags.is_snapshot()),
            );
        }
        leaf
    }

    fn leaf_by_checkpoint(&self, kept: bool) -> Option<SlotId> {
        let checkpoint = self.checkpoint.and_then(|uid| self.slot(uid));
        let pinned = self.pinned && checkpoint.is_some_and(|s| !self.node(s).flags.is_sidechain());
        if kept && !pinned {
            return None;
        }
        let mut chosen = checkpoint;
        if let (Some(at), Some(last)) = (checkpoint, self.last)
            && !self.pinned
            && last != at
            && self.continues(last, at, true)
        {
            chosen = Some(last);
        }
        if chosen.is_none() && !kept && !self.snapshot_tail {
            chosen = self.last;
            if self.client.has(ClientRule::PrefersNewestDescendant)
                && !self.any_checkpoint
                && let (Some(last), Some((_, newest))) = (self.last, self.newest)
                && newest != Some(last)
            {
                chosen = Some(self.newest_descendant(last));
            }
        }
        self.nearest_conversation(chosen?)
    }

    /// Finds the ends of all branches, or only the end of the branch that contains the last entry or the
    /// checkpoint.
    fn leaves(&self) -> Vec<SlotId> {
        let mut is_parent: Table<SlotId, bool> = Table::filled(false, self.slots.len());
        let mut has_conversation_child = is_parent.clone();
        for slot in self.live_slots() {
            if let Some(parent) = self.parent(slot) {
                is_parent[parent] = true;
                has_conversation_child[parent] |= self.node(slot).is_conversation();
            }
        }
        // A row without `parentUuid` is a child of the row without a uuid: both keys are `undefined`.
        if let Some(nameless) = self.slot_without_uuid
            && let Some(child) = self.live_slots().find(|&s| !self.node(s).flags.has_parent_key())
        {
            is_parent[nameless] = true;
            has_conversation_child[nameless] |= self.node(child).is_conversation();
        }
        let mut found: Table<SlotId, bool> = Table::filled(false, self.slots.len());
        let mut leaves = Vec::new();
        let nearest = self.nearest_conversations();
        for slot in self.live_slots().filter(|&s| !is_parent[s]) {
            let Some(tip) = nearest[slot] else { continue };
            let ends = self.client.has(ClientRule::EndsBranchesAtNotes) || !has_conversation_child[tip];
            if ends && !found[tip] {
                found[tip] = true;
                leaves.push(tip);
            }
        }
        if leaves.len() > 1 {
            let checkpoint = self.checkpoint.and_then(|uid| self.slot(uid)).filter(|s| leaves.contains(s));
            let passed = |at: SlotId| {
                self.client.has(ClientRule::ContinuesPastSplitReply)
                    && !self.pinned
                    && self.last.is_some_and(|last| self.continues(last, at, false))
            };
            let at = match checkpoint {
                Some(at) if self.client.has(ClientRule::FollowsCheckpoints) && !passed(at) => Some(at),
                _ if self.client.has(ClientRule::IgnoresTrailingSnapshots) && self.snapshot_tail => None,
                _ => self.last,
            };
            if let Some(tip) = at.and_then(|at| self.nearest_conversation(at)) {
                return vec![tip];
            }
        }
        leaves
    }

    /// Returns whether `last` continues from the checkpoint, or from another call of the same batch.
    fn continues(&self, last: SlotId, checkpoint: SlotId, itself: bool) -> bool {
        if !self.client.has(ClientRule::ContinuesPastSplitReply) {
            return self.is_descendant(last, checkpoint);
        }
        (itself && self.is_descendant(last, checkpoint))
            || !self.explicit && self.in_same_batch(last, checkpoint)
            || self.branches_in_split_reply(last, checkpoint)
    }

    pub(super) fn is_descendant(&self, slot: SlotId, ancestor: SlotId) -> bool {
        let mut seen = FxHashSet::default();
        let mut at = Some(slot);
        while let Some(slot) = at.filter(|&slot| seen.insert(slot)) {
            if slot == ancestor {
                return true;
            }
            at = self.parent(slot);
        }
        false
    }

    /// Returns whether an entry may occur between rows of the message `id`.
    pub(super) fn is_within_reply(&self, slot: SlotId, id: Uid) -> bool {
        let node = self.node(slot);
        match node.role {
            Role::Assistant => self.message_id(slot) == Some(id),
            Role::User => node.flags.is_meta() || node.flags.has_result(),
            Role::Attachment => true,
            _ => node.role == Role::System && !node.flags.is_boundary(),
        }
    }

    fn reply_ancestors(&self, slot: SlotId, id: Uid) -> Vec<SlotId> {
        let mut seen = FxHashSet::from_iter([slot]);
        let mut above = Vec::new();
        let mut at = self.parent(slot);
        while let Some(slot) = at.filter(|&s| self.is_within_reply(s, id) && seen.insert(s)) {
            above.push(slot);
            at = self.parent(slot);
        }
        above
    }

    /// Returns whether an entry is a note that may occur between an answer and its continuation.
    pub(super) fn is_note(&self, slot: SlotId) -> bool {
        let node = self.node(slot);
        match node.role {
            Role::Attachment => true,
            Role::System => !node.flags.is_boundary(),
            Role::User => node.flags.is_meta() && !node.flags.has_result(),
            _ => false,
        }
    }

    /// Returns whether `last` descends from another call of the batch that contains the checkpoint.
    fn in_same_batch(&self, last: SlotId, checkpoint: SlotId) -> bool {
        let mut seen = FxHashSet::default();
        let (mut at, mut top) = (Some(checkpoint), None);
        while let Some(slot) = at.filter(|&s| self.is_note(s) && seen.insert(s)) {
            top = Some(slot);
            at = self.parent(slot);
        }
        let Some(base) = at else { return false };
        // The attachment of a hook names its call.
        let by_note = top.and_then(|top| self.facts.attachment_calls.get(&self.slots[top].node));
        let (call, wanted): (Option<SlotId>, Vec<CallId>) = if self.node(base).flags.has_result() {
            (self.parent(base), self.answered_calls_in(base).collect())
        } else if top.is_none() {
            (Some(base), Vec::new())
        } else if let Some(&named) = by_note
            && let Some(id) = self.message_id(base)
        {
            let above = self.reply_ancestors(base, id);
            let makes = |slot: &SlotId| self.calls_in(*slot).any(|call| call == named);
            (std::iter::once(base).chain(above).find(makes), vec![named])
        } else {
            return false;
        };
        let by_note = top.is_some() && !self.node(base).flags.has_result();
        let Some(call) = call else { return false };
        let calls: Vec<CallId> = self.calls_in(call).collect();
        let id = self.message_id(call).filter(|_| !calls.is_empty());
        let above: FxHashSet<SlotId> =
            id.map_or_else(Vec::new, |id| self.reply_ancestors(call, id)).into_iter().collect();
        let mut seen = FxHashSet::default();
        let (mut at, mut previous, mut in_sibling_row) = (Some(last), None, false);
        while let Some(slot) = at.filter(|&s| seen.insert(s)) {
            if let Some(id) = id {
                if in_sibling_row && slot == call {
                    return true;
                }
                let node = self.node(slot);
                if node.flags.has_call() && slot != call && self.message_id(slot) == Some(id) {
                    if above.contains(&slot) {
                        return true;
                    }
                    in_sibling_row = true;
                } else if !self.is_within_reply(slot, id) {
                    in_sibling_row = false;
                }
            }
            if slot == call
                && wanted.iter().any(|w| calls.contains(w))
                && let Some(previous) = previous
                && self.answered_calls_in(previous).any(|answered| {
                    let other = if by_note { calls.len() > 1 } else { !wanted.contains(&answered) };
                    calls.contains(&answered) && other
                })
            {
                return true;
            }
            previous = Some(slot);
            at = self.parent(slot);
        }
        false
    }

    /// Returns whether `last` branches off inside a reply whose rows are separated by notes.
    fn branches_in_split_reply(&self, last: SlotId, checkpoint: SlotId) -> bool {
        let Some(id) = self.message_id(checkpoint).filter(|_| last != checkpoint) else { return false };
        let above = self.reply_ancestors(checkpoint, id);
        let is_answer = |slot: SlotId| self.node(slot).role == Role::Assistant;
        let Some(top) = above.iter().rposition(|&s| is_answer(s)) else { return false };
        let between: Vec<SlotId> = above[..top].iter().copied().filter(|&s| !is_answer(s)).collect();
        let calls = self.node(checkpoint).flags.has_call()
            || above.iter().any(|&s| is_answer(s) && self.node(s).flags.has_call());
        let only_notes = between.iter().all(|&s| match self.node(s).role {
            Role::Attachment => true,
            Role::System => !self.node(s).flags.is_local_command(),
            _ => false,
        });
        let Some(&split) = between.first() else { return false };
        if calls || !only_notes {
            return false;
        }
        let mut seen = FxHashSet::default();
        let (mut at, mut below, mut has_content) = (Some(last), None, false);
        while let Some(slot) = at.filter(|&s| s != split) {
            if !seen.insert(slot) {
                return false;
            }
            let node = self.node(slot);
            has_content |= node.role == Role::Assistant
                || node.role == Role::User && !node.flags.is_meta() && !node.flags.has_result();
            below = Some(slot);
            at = self.parent(slot);
        }
        let Some(below) = below.filter(|_| at.is_some() && has_content) else { return false };
        if self.node(below).time <= self.node(checkpoint).time {
            return false;
        }
        !self.live_slots().any(|s| match self.parent(s) {
            Some(p) if p == checkpoint => true,
            Some(p) if p == last => !self.node(s).flags.is_sidechain() && !self.is_note(s),
            _ => false,
        })
    }

    fn newest_descendant(&self, top: SlotId) -> SlotId {
        // State per slot: 0 unknown, 1 not below `top`, 2 below it. Each walk stops at the first known slot.
        let mut below: Table<SlotId, u8> = Table::filled(0, self.slots.len());
        below[top] = 2;
        let (mut best, mut newest) = (top, None);
        let mut trail = Vec::new();
        for slot in self.live_slots() {
            let mut at = Some(slot);
            while let Some(s) = at.filter(|&s| below[s] == 0) {
                below[s] = 1;
                trail.push(s);
                at = self.parent(s);
            }
            let known = at.map_or(1, |s| below[s]);
            for s in trail.drain(..) {
                below[s] = known;
            }
            let node = self.node(slot);
            let counts = slot != top && below[slot] == 2 && !node.flags.is_sidechain();
            if counts && node.time.is_some() && node.time >= newest {
                (best, newest) = (slot, node.time);
            }
        }
        best
    }
}
