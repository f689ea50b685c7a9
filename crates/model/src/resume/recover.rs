//! What parallel calls left beside the way: the other rows of each message, and results on them.

use rustc_hash::{FxHashMap, FxHashSet};

use super::LoadedEntries;
use crate::client::Client;
use crate::facts::{NONE, Role};
use crate::flags::EntryFlags;
use crate::id::Uid;

/// The children of every row, in the order of the file.
pub(super) struct Children {
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Children {
    pub(super) fn of(&self, slot: u32) -> &[u32] {
        let slot = slot as usize;
        &self.rows[self.starts[slot] as usize..self.starts[slot + 1] as usize]
    }
}

/// A message with rows on the chain.
struct ChainReply {
    id: Uid,
    /// Its first row on the chain, by place.
    first: usize,
    /// All its rows in the file.
    rows: Vec<u32>,
}

/// Rows to put between those of a stretch of the chain.
struct ChainInsertion {
    start: usize,
    end: usize,
    added: Vec<u32>,
    /// Notes that follow a row of the stretch whatever their place in the file.
    notes_after: FxHashMap<u32, Vec<u32>>,
}

impl LoadedEntries<'_> {
    pub(super) fn children(&self) -> Children {
        let mut starts = vec![0u32; self.slots.len() + 1];
        let parents: Vec<_> = self.live_slots().filter_map(|s| Some((self.parent(s)?, s))).collect();
        for &(parent, _) in &parents {
            starts[parent as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut rows = vec![0; parents.len()];
        for (parent, child) in parents {
            rows[next[parent as usize] as usize] = child;
            next[parent as usize] += 1;
        }
        Children { starts, rows }
    }

    /// Adds to the chain the rows of its messages that it missed, and the results on them.
    pub(super) fn recover(&self, chain: &[u32], seen: &mut [bool]) -> Vec<u32> {
        let replies = self.replies(chain);
        if replies.iter().all(|reply| reply.rows.iter().all(|&row| seen[row as usize]))
            && !self.live_slots().any(|s| !seen[s as usize] && self.node(s).role != Role::Assistant)
        {
            return chain.to_vec();
        }
        if self.client >= Client::V2_1_325 {
            self.recover_in_file_order(chain, &replies, seen)
        } else {
            self.recover_in_time_order(chain, &replies, seen)
        }
    }

    /// The message of an assistant row, if it has an id.
    fn reply_message(&self, slot: u32) -> Option<usize> {
        let node = self.node(slot);
        node.message().filter(|&m| node.role == Role::Assistant && !self.facts.messages[m].id.is_none())
    }

    fn replies(&self, chain: &[u32]) -> Vec<ChainReply> {
        let mut place = vec![NONE; self.facts.messages.len()];
        let mut replies: Vec<ChainReply> = Vec::new();
        for (at, &slot) in chain.iter().enumerate() {
            if let Some(message) = self.reply_message(slot)
                && place[message] == NONE
            {
                place[message] = u32::try_from(replies.len()).unwrap_or(NONE);
                let id = self.facts.messages[message].id;
                replies.push(ChainReply { id, first: at, rows: Vec::new() });
            }
        }
        for slot in self.live_slots() {
            if let Some(message) = self.reply_message(slot)
                && let Some(reply) = replies.get_mut(place[message] as usize)
            {
                reply.rows.push(slot);
            }
        }
        replies
    }

    /// Up to 2.1.200 what was missed follows the last row of its message: rows first, then results,
    /// each in the order of time.
    fn recover_in_time_order(&self, chain: &[u32], replies: &[ChainReply], seen: &mut [bool]) -> Vec<u32> {
        let children = self.children();
        let mut last_on_chain: FxHashMap<usize, u32> = FxHashMap::default();
        for &slot in chain {
            if let Some(message) = self.reply_message(slot) {
                last_on_chain.insert(message, slot);
            }
        }
        let mut behind: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for reply in replies {
            let time = |&slot: &u32| self.node(slot).time;
            let missed = |slot: &u32| !seen[*slot as usize];
            let mut rows: Vec<u32> = reply.rows.iter().copied().filter(missed).collect();
            let is_result =
                |s: &u32| self.node(*s).role == Role::User && self.node(*s).flags.has_result() && missed(s);
            let mut results: Vec<u32> = reply
                .rows
                .iter()
                .flat_map(|&row| children.of(row).iter().copied().filter(is_result))
                .collect();
            rows.sort_by_key(time);
            results.sort_by_key(time);
            rows.append(&mut results);
            for &row in &rows {
                seen[row as usize] = true;
            }
            let last = self.reply_message(chain[reply.first]).and_then(|message| last_on_chain.get(&message));
            if let Some(&last) = last.filter(|_| !rows.is_empty()) {
                behind.insert(last, rows);
            }
        }
        let mut whole = Vec::with_capacity(chain.len());
        for &slot in chain {
            whole.push(slot);
            whole.extend(behind.remove(&slot).unwrap_or_default());
        }
        whole
    }

    /// 2.1.325 puts what was missed where it stands in the file, inside the stretch of its message,
    /// with the notes that hang on it. It also finds results by the call that they answer.
    fn recover_in_file_order(&self, chain: &[u32], replies: &[ChainReply], seen: &mut [bool]) -> Vec<u32> {
        let children = self.children();
        let owners = self.call_owners();
        let hanging = self.results_by_row(&owners);
        let mut answered: FxHashSet<u32> =
            chain.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
        // Where rows come in the file; some are put behind their message although they stand before.
        let mut forced: FxHashMap<u32, u64> = FxHashMap::default();
        let at: FxHashMap<u32, usize> = chain.iter().enumerate().map(|(at, &slot)| (slot, at)).collect();
        let mut stretches: Vec<ChainInsertion> = Vec::new();
        for reply in replies {
            let own: FxHashSet<u32> = reply.rows.iter().copied().collect();
            let mut added: Vec<u32> = reply.rows.iter().copied().filter(|&s| !seen[s as usize]).collect();
            let (near, mut far) = self.missed_results(reply, &own, &hanging, seen);
            let mut have: FxHashSet<u32> =
                near.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
            added.extend(near);
            far.sort_unstable();
            let behind_all = reply.rows.iter().map(|&row| file_position(row)).max().unwrap_or(0) + 1;
            for slot in far {
                let wanted = |call: u32| {
                    let owner = owners[call as usize];
                    !have.contains(&call) && !answered.contains(&call) && own.contains(&owner)
                };
                if self.answered_calls_in(slot).any(wanted) {
                    have.extend(self.answered_calls_in(slot));
                    forced.insert(slot, file_position(slot).max(behind_all));
                    added.push(slot);
                }
            }
            answered.extend(added.iter().flat_map(|&slot| self.answered_calls_in(slot)));
            for &slot in &added {
                seen[slot as usize] = true;
            }
            let mut end = reply.first + 1;
            for row in &reply.rows {
                end = end.max(at.get(row).map_or(0, |at| at + 1));
            }
            while chain.get(end).is_some_and(|&slot| self.is_within_reply(slot, reply.id)) {
                end += 1;
            }
            let mut behind = FxHashMap::default();
            if reply.rows.iter().any(|&row| self.node(row).flags.has_call()) {
                let held = |s: &u32| seen[*s as usize];
                let on_them = reply.rows.iter().filter_map(|row| hanging.get(row)).flatten().copied();
                let bases: Vec<u32> = reply.rows.iter().copied().chain(on_them.filter(held)).collect();
                for base in bases {
                    self.add_notes(base, &children, seen, &mut forced, &mut added);
                }
                for &slot in chain[reply.first + 1..end].iter().filter(|&&slot| self.is_note(slot)) {
                    let mut notes = Vec::new();
                    self.add_notes(slot, &children, seen, &mut forced, &mut notes);
                    if !notes.is_empty() {
                        behind.insert(slot, notes);
                    }
                }
            }
            if !added.is_empty() || !behind.is_empty() {
                stretches.push(ChainInsertion { start: reply.first, end, added, notes_after: behind });
            }
        }
        if stretches.is_empty() {
            return chain.to_vec();
        }
        let position = |slot: u32| forced.get(&slot).copied().unwrap_or(file_position(slot));
        insert_into_chain(chain, stretches, position)
    }

    /// Finds the row that makes each call; two messages that make the same call own it both and
    /// neither.
    fn call_owners(&self) -> Vec<u32> {
        const NOBODY: u32 = NONE - 1;
        let mut owners = vec![NONE; self.facts.calls.len()];
        for slot in self.live_slots() {
            let Some(message) = self.reply_message(slot) else { continue };
            for call in self.calls_in(slot) {
                let owner = &mut owners[call as usize];
                let same = *owner < NOBODY && self.reply_message(*owner) == Some(message);
                *owner = if *owner == NONE || same { slot } else { NOBODY };
            }
        }
        owners
    }

    /// Finds the results that belong to each row: by parent, by source, by the call they answer.
    fn results_by_row(&self, owners: &[u32]) -> FxHashMap<u32, Vec<u32>> {
        let mut hanging: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut hang = |on: u32, slot: u32| {
            let list = hanging.entry(on).or_default();
            if list.last() != Some(&slot) {
                list.push(slot);
            }
        };
        let side = |slot: u32| self.node(slot).flags.is_sidechain();
        for slot in self.live_slots() {
            let node = self.node(slot);
            if node.role != Role::User || !node.flags.has_result() {
                continue;
            }
            let parent = self.parent(slot);
            if let Some(parent) = parent {
                hang(parent, slot);
            }
            let orphan = |b: &crate::facts::Block| {
                b.class == crate::facts::BlockClass::ToolResult && b.call().is_none()
            };
            let known = !self.facts.blocks_of(self.slots[slot as usize].node as usize).iter().any(orphan);
            let own = |call: u32| parent.is_some_and(|p| self.calls_in(p).any(|made| made == call));
            if known && self.answered_calls_in(slot).next().is_some() && self.answered_calls_in(slot).all(own)
            {
                continue;
            }
            let source = self.facts.source_assistants.get(&self.slots[slot as usize].node);
            let source = source.and_then(|&uid| self.slot(uid));
            let others = self.answered_calls_in(slot).map(|call| owners[call as usize]);
            for on in source.into_iter().chain(others) {
                if on < NONE - 1 && Some(on) != parent && side(on) == side(slot) {
                    hang(on, slot);
                }
            }
        }
        hanging
    }

    /// Results of a message that the chain misses: those on its rows, and those known otherwise.
    fn missed_results(
        &self,
        reply: &ChainReply,
        own: &FxHashSet<u32>,
        hanging: &FxHashMap<u32, Vec<u32>>,
        seen: &[bool],
    ) -> (Vec<u32>, Vec<u32>) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let mut once = FxHashSet::default();
        for &slot in reply.rows.iter().filter_map(|row| hanging.get(row)).flatten() {
            if seen[slot as usize] || !once.insert(slot) {
                continue;
            }
            let on_own = self.parent(slot).is_some_and(|parent| own.contains(&parent));
            if on_own { near.push(slot) } else { far.push(slot) }
        }
        (near, far)
    }

    /// Adds the notes that hang on a row, where they form a single line.
    fn add_notes(
        &self,
        base: u32,
        children: &Children,
        seen: &mut [bool],
        forced: &mut FxHashMap<u32, u64>,
        into: &mut Vec<u32>,
    ) {
        let side = |slot: u32| {
            let flags = self.node(slot).flags;
            (flags.is_sidechain(), flags.has(EntryFlags::SIDECHAIN_KEY))
        };
        for &child in children.of(base) {
            let mut run = Vec::new();
            let mut at = Some(child);
            while let Some(slot) = at {
                let fits = !seen[slot as usize] && side(slot) == side(base) && self.is_note(slot);
                let mut next = children.of(slot).iter().copied().filter(|&s| !seen[s as usize]);
                at = next.next();
                if !fits || next.next().is_some() || run.len() > self.slots.len() {
                    run.clear();
                    break;
                }
                run.push(slot);
            }
            for &slot in &run {
                seen[slot as usize] = true;
                if let Some(&behind) = forced.get(&base) {
                    forced.insert(slot, file_position(slot).max(behind));
                }
            }
            into.append(&mut run);
        }
    }
}

/// The place of a row in the file, with room between two.
fn file_position(slot: u32) -> u64 {
    u64::from(slot) * 2
}

/// Lays what was added between the rows of the chain.
fn insert_into_chain(
    chain: &[u32],
    mut stretches: Vec<ChainInsertion>,
    position: impl Fn(u32) -> u64,
) -> Vec<u32> {
    let key = |slot: &u32| (position(*slot), *slot);
    stretches.sort_by_key(|stretch| stretch.start);
    let mut joined: Vec<ChainInsertion> = Vec::new();
    for mut stretch in stretches {
        match joined.last_mut().filter(|last| stretch.start < last.end) {
            Some(last) => {
                last.end = last.end.max(stretch.end);
                last.added.append(&mut stretch.added);
                last.notes_after.extend(stretch.notes_after);
            }
            None => joined.push(stretch),
        }
    }
    let mut whole = Vec::with_capacity(chain.len() + joined.len());
    let mut done = 0;
    for mut stretch in joined {
        stretch.added.sort_by_key(key);
        whole.extend(&chain[done..=stretch.start]);
        let mut added = stretch.added.into_iter().peekable();
        for &slot in &chain[stretch.start + 1..stretch.end] {
            while let Some(earlier) = added.next_if(|&s| position(s) < file_position(slot)) {
                whole.push(earlier);
            }
            whole.push(slot);
            whole.extend(stretch.notes_after.remove(&slot).unwrap_or_default());
        }
        whole.extend(added);
        done = stretch.end;
    }
    whole.extend(&chain[done..]);
    whole
}
