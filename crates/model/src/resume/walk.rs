//! From the leaf to the root, over gaps, with what parallel calls left beside the way.

use rustc_hash::FxHashMap;

use super::Rows;
use crate::client::Client;
use crate::facts::{NONE, Role};
use crate::flags::Flags;
use crate::tree::BRIDGE_MILLIS;

impl Rows<'_> {
    /// Walks from the leaf to the root and adds what parallel calls left beside the way.
    pub(super) fn walk(&mut self, leaf: u32) -> Vec<u32> {
        let mut seen = vec![false; self.slots.len()];
        let mut chain = Vec::new();
        let mut at = Some(leaf);
        while let Some(slot) = at.filter(|&s| !seen[s as usize]) {
            seen[slot as usize] = true;
            chain.push(slot);
            if self.parent_id(slot).is_none() {
                break;
            }
            at = self.parent(slot);
            if self.client.bridges() && at.is_none_or(|s| seen[s as usize]) {
                at = self.bridge(slot, &seen);
            }
        }
        chain.reverse();
        if !self.client.bridges() {
            return chain;
        }
        let mut chain = self.recover(&chain, &mut seen);
        if self.client.checkpoints() {
            self.add_trailing(leaf, &mut chain, &seen);
        }
        chain
    }

    /// Adds the notes that hang below the leaf, in the order of time.
    fn add_trailing(&self, leaf: u32, chain: &mut Vec<u32>, seen: &[bool]) {
        let mut below = vec![false; self.slots.len()];
        below[leaf as usize] = true;
        let mut trailing = Vec::new();
        // Children mostly follow their parents in the file; what comes before one is found in the
        // next round, and notes are never nested deep.
        for _ in 0..8 {
            let before = trailing.len();
            for slot in self.live() {
                let note =
                    !self.node(slot).is_conversation() && !seen[slot as usize] && !below[slot as usize];
                if note && self.parent(slot).is_some_and(|p| below[p as usize]) {
                    below[slot as usize] = true;
                    trailing.push(slot);
                }
            }
            if trailing.len() == before {
                break;
            }
        }
        trailing.sort_by_key(|&slot| self.node(slot).time);
        chain.extend(trailing);
    }

    /// Finds the entry that stands in for a lost parent.
    fn bridge(&mut self, slot: u32, seen: &[bool]) -> Option<u32> {
        if self.by_time.is_empty() {
            let timed = |s: u32| Some((self.node(s).time.millis()?, s));
            let mut times: Vec<_> = self.live().filter_map(timed).collect();
            // Of several at one moment the first in the file is taken.
            times.sort_unstable_by_key(|&(time, s)| (time, std::cmp::Reverse(s)));
            self.unseen = (0..=times.len()).collect();
            self.by_time = times;
        }
        let now = self.node(slot).time.millis()?;
        let side = |flags: Flags| (flags.is_sidechain(), flags.has(Flags::SIDE_KEY));
        let flags = self.node(slot).flags;
        let newest = self.client >= Client::V2_1_325;
        // Places are counted from 1; what was seen once is never looked at again.
        let mut place = self.by_time.partition_point(|&(time, _)| time <= now);
        for _ in 0..MAX_CANDIDATES {
            let times = &self.by_time;
            place = last_unseen(&mut self.unseen, place, |place| seen[times[place - 1].1 as usize]);
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

    /// Adds the other rows of each message on the chain, and the results that hang on them.
    fn recover(&self, chain: &[u32], seen: &mut [bool]) -> Vec<u32> {
        let n_messages = self.facts.messages.len();
        let message = |slot: u32| {
            let node = self.node(slot);
            node.message().filter(|&m| node.role == Role::Assistant && !self.facts.messages[m].id.is_none())
        };
        let mut last_on_chain = vec![NONE; n_messages];
        for &slot in chain {
            if let Some(m) = message(slot) {
                last_on_chain[m] = slot;
            }
        }
        let mut beside: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut results: Vec<(u32, u32)> = Vec::new();
        for slot in self.live().filter(|&s| !seen[s as usize]) {
            let node = self.node(slot);
            if let Some(m) = message(slot) {
                if last_on_chain[m] != NONE {
                    beside.entry(last_on_chain[m]).or_default().push(slot);
                }
            } else if node.role == Role::User && node.flags.has_result() {
                let mut owner = self.parent(slot).and_then(message);
                if self.client >= Client::V2_1_325 {
                    let source = self.facts.sources.get(&self.slots[slot as usize].node);
                    let source = source.and_then(|&uid| self.slot(uid));
                    let call = || {
                        let call = &self.facts.calls[self.answers_in(slot).next()? as usize];
                        self.facts.nodes[call.node as usize].message()
                    };
                    owner = owner.or_else(|| source.and_then(message)).or_else(call);
                }
                if let Some(m) = owner.filter(|&m| last_on_chain[m] != NONE) {
                    results.push((last_on_chain[m], slot));
                }
            }
        }
        // Rows of the message first, then the results, each in the order of time.
        for list in beside.values_mut() {
            list.sort_by_key(|&s| self.node(s).time);
        }
        results.sort_by_key(|&(at, s)| (at, self.node(s).time));
        for (at, slot) in results {
            beside.entry(at).or_default().push(slot);
        }
        let mut whole = Vec::with_capacity(chain.len());
        for &slot in chain {
            whole.push(slot);
            whole.extend(beside.remove(&slot).unwrap_or_default());
        }
        for &slot in &whole {
            seen[slot as usize] = true;
        }
        whole
    }
}

/// How many entries of other chains are passed over in the search for a lost parent.
const MAX_CANDIDATES: usize = 1000;

/// Returns the last place at or before `place` that was not seen, or 0. `unseen` remembers for each
/// place where the search from it ended, so that no stretch is gone over twice.
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
