//! Recovers rows of parallel calls that are not on the path: the other rows of each message, and their
//! results.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{LoadedEntries, SlotId};
use crate::facts::Role;
use crate::flags::EntryFlags;
use crate::id::Uid;
use crate::index::{CallId, IndexGroups, MessageNo, Table};
use crate::rules::ClientRule;

/// The children of every row, in file order.
pub(super) type RowChildren = IndexGroups<SlotId, SlotId>;

/// A message with rows on the chain.
struct ChainReply {
    id: Uid,
    /// The position of its first row on the chain.
    first: usize,
    /// All its rows in the file.
    rows: Vec<SlotId>,
}

/// The row that makes a call.
#[derive(Clone, Copy)]
enum CallOwner {
    /// No row was found yet.
    Unknown,
    /// The last row of the only message that makes the call.
    Row(SlotId),
    /// Rows of several messages make the call.
    Several,
}

impl CallOwner {
    fn row(self) -> Option<SlotId> {
        match self {
            Self::Row(slot) => Some(slot),
            Self::Unknown | Self::Several => None,
        }
    }
}

/// Rows to insert into a range of the chain.
struct ChainInsertion {
    start: usize,
    end: usize,
    added: Vec<SlotId>,
    /// Notes that follow a row of the range regardless of their position in the file.
    notes_after: FxHashMap<SlotId, Vec<SlotId>>,
}

impl LoadedEntries<'_> {
    pub(super) fn children(&self) -> RowChildren {
        let parent = |slot| self.parent(slot).filter(|_| !self.slots[slot].dropped);
        IndexGroups::new(self.slots.len(), &self.slots.keys().map(parent).collect())
    }

    /// Adds to the chain the missing rows of its messages, and their results.
    pub(super) fn recover(&self, chain: &[SlotId], seen: &mut Table<SlotId, bool>) -> Vec<SlotId> {
        let replies = self.replies(chain);
        if replies.iter().all(|reply| reply.rows.iter().all(|&row| seen[row]))
            && !self.live_slots().any(|s| !seen[s] && self.node(s).role != Role::Assistant)
        {
            return chain.to_vec();
        }
        if self.client.has(ClientRule::RecoversInFileOrder) {
            self.recover_in_file_order(chain, &replies, seen)
        } else {
            self.recover_in_time_order(chain, &replies, seen)
        }
    }

    /// Returns the message of an assistant row and its id, if it has one.
    fn reply_message(&self, slot: SlotId) -> Option<(MessageNo, Uid)> {
        let node = self.node(slot);
        let message = node.message().filter(|_| node.role == Role::Assistant)?;
        Some((message, self.facts.messages[message].id?))
    }

    fn replies(&self, chain: &[SlotId]) -> Vec<ChainReply> {
        // The position of each message in `replies`.
        let mut place: Table<MessageNo, Option<usize>> = Table::filled(None, self.facts.messages.len());
        let mut replies: Vec<ChainReply> = Vec::new();
        for (at, &slot) in chain.iter().enumerate() {
            if let Some((message, id)) = self.reply_message(slot)
                && place[message].is_none()
            {
                place[message] = Some(replies.len());
                replies.push(ChainReply { id, first: at, rows: Vec::new() });
            }
        }
        for slot in self.live_slots() {
            if let Some((message, _)) = self.reply_message(slot)
                && let Some(place) = place[message]
            {
                replies[place].rows.push(slot);
            }
        }
        replies
    }

    /// Inserts the missing rows as clients up to 2.1.200 do: after the last row of their message, first rows,
    /// then results, each in time order.
    fn recover_in_time_order(
        &self,
        chain: &[SlotId],
        replies: &[ChainReply],
        seen: &mut Table<SlotId, bool>,
    ) -> Vec<SlotId> {
        let children = self.children();
        let mut last_on_chain: FxHashMap<MessageNo, SlotId> = FxHashMap::default();
        for &slot in chain {
            if let Some((message, _)) = self.reply_message(slot) {
                last_on_chain.insert(message, slot);
            }
        }
        let mut after: FxHashMap<SlotId, Vec<SlotId>> = FxHashMap::default();
        for reply in replies {
            let time = |&slot: &SlotId| self.node(slot).time;
            let missed = |slot: &SlotId| !seen[*slot];
            let mut rows: Vec<SlotId> = reply.rows.iter().copied().filter(missed).collect();
            let is_result = |s: &SlotId| {
                self.node(*s).role == Role::User && self.node(*s).flags.has_result() && missed(s)
            };
            let mut results: Vec<SlotId> = reply
                .rows
                .iter()
                .flat_map(|&row| children.members_of(row).iter().copied().filter(is_result))
                .collect();
            rows.sort_by_key(time);
            results.sort_by_key(time);
            rows.append(&mut results);
            for &row in &rows {
                seen[row] = true;
            }
            let last =
                self.reply_message(chain[reply.first]).and_then(|(message, _)| last_on_chain.get(&message));
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
    fn recover_in_file_order(
        &self,
        chain: &[SlotId],
        replies: &[ChainReply],
        seen: &mut Table<SlotId, bool>,
    ) -> Vec<SlotId> {
        let children = self.children();
        let owners = self.call_owners();
        let results_by_row = self.results_by_row(&owners);
        let mut answered: FxHashSet<CallId> =
            chain.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
        // File positions of rows that are moved after their message although they precede it.
        let mut forced: FxHashMap<SlotId, u64> = FxHashMap::default();
        let at: FxHashMap<SlotId, usize> = chain.iter().enumerate().map(|(at, &slot)| (slot, at)).collect();
        let mut stretches: Vec<ChainInsertion> = Vec::new();
        for reply in replies {
            let own: FxHashSet<SlotId> = reply.rows.iter().copied().collect();
            let mut added: Vec<SlotId> = reply.rows.iter().copied().filter(|&s| !seen[s]).collect();
            let (near, mut far) = self.missed_results(reply, &own, &results_by_row, seen);
            let mut have: FxHashSet<CallId> =
                near.iter().flat_map(|&slot| self.answered_calls_in(slot)).collect();
            added.extend(near);
            far.sort_unstable();
            let after_all = reply.rows.iter().map(|&row| file_position(row)).max().unwrap_or(0) + 1;
            for slot in far {
                let wanted = |call: CallId| {
                    let owned = owners[call].row().is_some_and(|owner| own.contains(&owner));
                    !have.contains(&call) && !answered.contains(&call) && owned
                };
                if self.answered_calls_in(slot).any(wanted) {
                    have.extend(self.answered_calls_in(slot));
                    forced.insert(slot, file_position(slot).max(after_all));
                    added.push(slot);
                }
            }
            answered.extend(added.iter().flat_map(|&slot| self.answered_calls_in(slot)));
            for &slot in &added {
                seen[slot] = true;
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
                let is_seen = |s: &SlotId| seen[*s];
                let their_results =
                    reply.rows.iter().filter_map(|row| results_by_row.get(row)).flatten().copied();
                let bases: Vec<SlotId> =
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
        let position = |slot: SlotId| forced.get(&slot).copied().unwrap_or(file_position(slot));
        insert_into_chain(chain, stretches, position)
    }

    /// Finds the row that makes each call. A call made by two messages has no owner.
    fn call_owners(&self) -> Table<CallId, CallOwner> {
        let mut owners = Table::filled(CallOwner::Unknown, self.facts.calls.len());
        for slot in self.live_slots() {
            let message = self.reply_message(slot);
            if message.is_none() {
                continue;
            }
            for call in self.calls_in(slot) {
                let owner = &mut owners[call];
                *owner = match *owner {
                    CallOwner::Row(row) if self.reply_message(row) != message => CallOwner::Several,
                    CallOwner::Several => CallOwner::Several,
                    CallOwner::Unknown | CallOwner::Row(_) => CallOwner::Row(slot),
                };
            }
        }
        owners
    }

    /// Finds the results that belong to each row: by parent, by source, by the call they answer.
    fn results_by_row(&self, owners: &Table<CallId, CallOwner>) -> FxHashMap<SlotId, Vec<SlotId>> {
        let mut results_by_row: FxHashMap<SlotId, Vec<SlotId>> = FxHashMap::default();
        let mut add_result = |on: SlotId, slot: SlotId| {
            let list = results_by_row.entry(on).or_default();
            if list.last() != Some(&slot) {
                list.push(slot);
            }
        };
        let side = |slot: SlotId| self.node(slot).flags.is_sidechain();
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
            let known = !self.facts.blocks_of(self.slots[slot].node).iter().any(orphan);
            let own = |call: CallId| parent.is_some_and(|p| self.calls_in(p).any(|made| made == call));
            if known && self.answered_calls_in(slot).next().is_some() && self.answered_calls_in(slot).all(own)
            {
                continue;
            }
            let source = self.facts.source_assistants.get(&self.slots[slot].node);
            let source = source.and_then(|&uid| self.slot(uid));
            let others = self.answered_calls_in(slot).filter_map(|call| owners[call].row());
            for on in source.into_iter().chain(others) {
                if Some(on) != parent && side(on) == side(slot) {
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
        own: &FxHashSet<SlotId>,
        results_by_row: &FxHashMap<SlotId, Vec<SlotId>>,
        seen: &Table<SlotId, bool>,
    ) -> (Vec<SlotId>, Vec<SlotId>) {
        let (mut near, mut far) = (Vec::new(), Vec::new());
        let mut once = FxHashSet::default();
        for &slot in reply.rows.iter().filter_map(|row| results_by_row.get(row)).flatten() {
            if seen[slot] || !once.insert(slot) {
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
        base: SlotId,
        children: &RowChildren,
        seen: &mut Table<SlotId, bool>,
        forced: &mut FxHashMap<SlotId, u64>,
        into: &mut Vec<SlotId>,
    ) {
        let side = |slot: SlotId| {
            let flags = self.node(slot).flags;
            (flags.is_sidechain(), flags.has(EntryFlags::SIDECHAIN_KEY))
        };
        for &child in children.members_of(base) {
            let mut run = Vec::new();
            let mut at = Some(child);
            while let Some(slot) = at {
                let fits = !seen[slot] && side(slot) == side(base) && self.is_note(slot);
                let mut next = children.members_of(slot).iter().copied().filter(|&s| !seen[s]);
                at = next.next();
                if !fits || next.next().is_some() || run.len() > self.slots.len() {
                    run.clear();
                    break;
                }
                run.push(slot);
            }
            for &slot in &run {
                seen[slot] = true;
                if let Some(&after) = forced.get(&base) {
                    forced.insert(slot, file_position(slot).max(after));
                }
            }
            into.append(&mut run);
        }
    }
}

/// Returns the position of a row in the file, with a gap between any two rows.
fn file_position(slot: SlotId) -> u64 {
    slot.index() as u64 * 2
}

/// Inserts the added rows into the chain.
fn insert_into_chain(
    chain: &[SlotId],
    mut stretches: Vec<ChainInsertion>,
    position: impl Fn(SlotId) -> u64,
) -> Vec<SlotId> {
    let key = |slot: &SlotId| (position(*slot), *slot);
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
