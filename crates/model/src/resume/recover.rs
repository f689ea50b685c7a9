//! Recovers rows of parallel calls that are not on the path: the other rows of each message, and their
//! results.

use rustc_hash::{FxHashMap, FxHashSet};

use super::LoadedEntries;
use crate::facts::{NONE, Role};
use crate::flags::EntryFlags;
use crate::id::Uid;
use crate::rules::ClientRule;

/// The children of every row, in file order.
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
    /// The position of its first row on the chain.
    first: usize,
    /// All its rows in the file.
    rows: Vec<u32>,
}

/// Rows to insert into a range of the chain.
struct ChainInsertion {
    start: usize,
    end: usize,
    added: Vec<u32>,
    /// Notes that follow a row of the range regardless of their position in the file.
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

    /// Adds to the chain the missing rows of its messages, and their results.
    pub(super) fn recover(&self, chain: &[u32], seen: &mut [bool]) -> Vec<u32> {
        let replies = self.replies(chain);
        if replies.iter().all(|reply| reply.rows.iter().all(|&row| seen[row as usize]))
            && !self.live_slots().any(|s| !seen[s as usize] && self.node(s).role != Role::Assistant)
        {
            return chain.to_vec();
        }
        if self.client.has(ClientRule::RecoversInFileOrder) {
            self.recover_in_file_order(chain, &replies, seen)
        } else {
            self.recover_in_time_order(chain, &replies, seen)
        }
    }

    /// Returns the message of an assistant row, if it has an id.
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

    /// Inserts the missing rows as clients up to 2.1.200 do: after the last row of their message, first rows,
    /// then results, each in time order.
    fn recover_in_time_order(&self, chain: &[u32], replies: &[ChainReply], seen: &mut [bool]) -> Vec<u32> {
        let children = self.children();
        let mut last_on_chain: FxHashMap<usize, u32> = FxHashMap::default();
        for &slot in chain {
            if let Some(message) = self.reply_message(slot) {
                last_on_chain.insert(message, slot);
            }
        }
        let mut after: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
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
                after.insert(last, rows);
            }
        }
        let mut whole = Vec::with_capacity(chain.len());
        for &slot in chain {
            whole.push(slot);
            whole.extend(after.remove(&slot).unwrap_or_default());
        }
        whole
    }

    /// Inserts the missing rows as 2.1.325 does: in file order within the range of their message, with their
    /// notes. It also finds results by the call that they answer.
    fn recover_in_file_order(&self, chain: &[u32], replies: &[ChainReply], seen: &mut [bool]) -> Vec<u32> {
        let children = self.children();
        let owners = self.call_owners();
        let results_by_row = self.results_by_row(&owners);
        let mut answered: FxHashSet<u32> =
            chain.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
        // File positions of rows that are moved after their message although they precede it.
        let mut forced: FxHashMap<u32, u64> = FxHashMap::default();
        let at: FxHashMap<u32, usize> = chain.iter().enumerate().map(|(at, &slot)| (slot, at)).collect();
        let mut stretches: Vec<ChainInsertion> = Vec::new();
        for reply in replies {
            let own: FxHashSet<u32> = reply.rows.iter().copied().collect();
            let mut added: Vec<u32> = reply.rows.iter().copied().filter(|&s| !seen[s as usize]).collect();
            let (near, mut far) = self.missed_results(reply, &own, &results_by_row, seen);
            let mut have: FxHashSet<u32> =
                near.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
            added.extend(near);
            far.sort_unstable();
            let after_all = reply.rows.iter().map(|&row| file_position(row)).max().unwrap_or(0) + 1;
            for slot in far {
                let wanted = |call: u32| {
                    let owner = owners[call as usize];
                    !have.contains(&call) && !answered.contains(&call) && own.contains(&owner)
                };
                if self.answered_calls_in(slot).any(wanted) {
                    have.extend(self.answered_calls_in(slot));
                    forced.insert(slot, file_position(slot).max(after_all));
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
            let mut after = FxHashMap::default();
            if reply.rows.iter().any(|&row| self.node(row).flags.has_call()) {
                let is_seen = |s: &u32| seen[*s as usize];
                let their_results =
                    reply.rows.iter().filter_map(|row| results_by_row.get(row)).flatten().copied();
                let bases: Vec<u32> =
                    reply.rows.iter().copied().chain(their_results.filter(is_seen)).collect();
                for base in bases {
                    self.add_notes(base, &children, seen, &mut forced, &mut added);
                }
                for &slot in chain[reply.first + 1..end].iter().filter(|&&slot| self.is_note(slot)) {
                    let mut notes = Vec::new();
                    self.add_notes(slot, &children, seen, &mut forced, &mut notes);
                    if !notes.is_empty() {
                        after.insert(slot, notes);
                    }
                }
            }
            if !added.is_empty() || !after.is_empty() {
                stretches.push(ChainInsertion { start: reply.first, end, added, notes_after: after });
            }
        }
        if stretches.is_empty() {
            return chain.to_vec();
        }
        let position = |slot: u32| forced.get(&slot).copied().unwrap_or(file_position(slot));
        insert_into_chain(chain, stretches, position)
    }

    /// Finds the row that makes each call. A call made by two messages has no owner.
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
        let mut results_by_row: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut add_result = |on: u32, slot: u32| {
            let list = results_by_row.entry(on).or_default();
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
                add_result(parent, slot);
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
                    add_result(on, slot);
                }
            }
        }
        results_by_row
    }

    /// Returns the results of a message that the chain lacks: children of its rows, and results found
    /// otherwise.
    fn missed_results(
        &self,
        reply: &ChainReply,
        own: &FxHashSet<u32>,
        results_by_row: &FxHashMap<u32, Vec<u32>>,
        seen: &[bool],
    ) -> (Vec<u32>, Vec<u32>) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let mut once = FxHashSet::default();
        for &slot in reply.rows.iter().filter_map(|row| results_by_row.get(row)).flatten() {
            if seen[slot as usize] || !once.insert(slot) {
                continue;
            }
            let on_own = self.parent(slot).is_some_and(|parent| own.contains(&parent));
            if on_own { near.push(slot) } else { far.push(slot) }
        }
        (near, far)
    }

    /// Adds the notes below a row, if they form a single chain.
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
                if let Some(&after) = forced.get(&base) {
                    forced.insert(slot, file_position(slot).max(after));
                }
            }
            into.append(&mut run);
        }
    }
}

/// Returns the position of a row in the file, with a gap between any two rows.
fn file_position(slot: u32) -> u64 {
    u64::from(slot) * 2
}

/// Inserts the added rows into the chain.
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
