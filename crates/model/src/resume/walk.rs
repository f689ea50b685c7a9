//! The walk from the leaf to the root, across gaps, including rows of parallel calls.

use super::{LoadedEntries, SlotId};
use crate::flags::EntryFlags;
use crate::id::Time;
use crate::index::Table;
use crate::rules::ClientRule;
use crate::tree::BRIDGE_MILLIS;

impl LoadedEntries<'_> {
    /// Walks from the leaf to the root and adds the rows of parallel calls that are not on this path.
    pub(super) fn walk(&mut self, leaf: SlotId) -> Vec<SlotId> {
        let mut seen = Table::filled(false, self.slots.len());
        let mut chain = Vec::new();
        let mut at = Some(leaf);
        while let Some(slot) = at.filter(|&s| !seen[s]) {
            seen[slot] = true;
            chain.push(slot);
            at = self.parent(slot);
            if self.parent_id(slot).is_none() {
                break;
            }
            if self.client.has(ClientRule::BridgesLostParents) && at.is_none_or(|s| seen[s]) {
                at = self.bridge(slot, &seen);
            }
        }
        if self.client.has(ClientRule::LoopsOnCycle) {
            self.cycle_slot = at;
        }
        chain.reverse();
        if !self.client.has(ClientRule::RecoversParallelCalls) {
            return chain;
        }
        for &uid in &self.hidden {
            if let Some(slot) = self.slot(uid) {
                seen[slot] = true;
            }
        }
        let mut chain = self.recover(&chain, &mut seen);
        if self.client.has(ClientRule::AddsNotesBelowLeaf) {
            self.add_trailing_notes(leaf, &mut chain, &mut seen);
        }
        chain
    }

    /// Adds the notes below the leaf, in time order.
    fn add_trailing_notes(&self, leaf: SlotId, chain: &mut Vec<SlotId>, seen: &mut Table<SlotId, bool>) {
        let children = self.children();
        let start = chain.len();
        let mut below = std::collections::VecDeque::from([leaf]);
        while let Some(slot) = below.pop_front() {
            for &child in children.members_of(slot) {
                if !self.node(child).is_conversation() && !std::mem::replace(&mut seen[child], true) {
                    chain.push(child);
                    below.push_back(child);
                }
            }
        }
        chain[start..].sort_by_key(|&slot| self.node(slot).time);
    }

    /// Finds the entry that replaces a lost parent.
    fn bridge(&mut self, slot: SlotId, seen: &Table<SlotId, bool>) -> Option<SlotId> {
        if self.by_time.is_empty() {
            let timed = |s: SlotId| Some((self.node(s).time?.millis(), s));
            let mut times: Vec<_> = self.live_slots().filter_map(timed).collect();
            // Of several entries with the same time, the first in the file is preferred.
            times.sort_unstable_by_key(|&(time, s)| (time, std::cmp::Reverse(s)));
            self.unseen_cache = (0..=times.len()).collect();
            self.by_time = times;
        }
        let now = self.node(slot).time.map(Time::millis)?;
        let side = |flags: EntryFlags| (flags.is_sidechain(), flags.has(EntryFlags::SIDECHAIN_KEY));
        let flags = self.node(slot).flags;
        let newest = self.client.has(ClientRule::BridgesPastSnapshots);
        // Positions count from 1. A visited entry is never examined again.
        let mut place = self.by_time.partition_point(|&(time, _)| time <= now);
        for _ in 0..MAX_CANDIDATES {
            let times = &self.by_time;
            place = last_unseen(&mut self.unseen_cache, place, |place| seen[times[place - 1].1]);
            let (time, candidate) = *self.by_time.get(place.checked_sub(1)?)?;
            if now - time > BRIDGE_MILLIS {
                return None;
            }
            let theirs = self.node(candidate).flags;
            if side(theirs) == side(flags) && !(newest && theirs.is_snapshot()) {
                return Some(candidate);
            }
            place -= 1;
        }
        None
    }
}

/// Maximum number of entries of other chains that are skipped in the search for a lost parent.
const MAX_CANDIDATES: usize = 1000;

/// Returns the last unvisited position at or before `place`, or 0. `unseen` stores for each position the end
/// of the search from it, so that no range is searched twice.
fn last_unseen(unseen: &mut [usize], place: usize, seen: impl Fn(usize) -> bool) -> usize {
    let mut at = place;
    while at > 0 {
        if unseen[at] != at {
            at = unseen[at];
        } else if seen(at) {
            unseen[at] = at - 1;
            at -= 1;
        } else {
            break;
        }
    }
    let mut passed = place;
    while passed > at {
        passed = std::mem::replace(&mut unseen[passed], at);
    }
    at
}
