//! What a client would resume: which entry it takes for the last one, and the chain above it.
//!
//! The rule changed over the versions. [`Client`] names the bands in which it is the same, [`resume`]
//! applies it. The rules were found by running the clients; `docs/format.md` lists them.

use rustc_hash::FxHashSet;

use crate::facts::{Checkpoint, Facts, Flags, Node, Role};
use crate::id::Uid;
use crate::tree::BRIDGE_MILLIS;

/// A client, by the newest version that we know to behave like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// Before 2.0: the newest time decides.
    V1_0_128,
    /// Up to 2.0.50: the same, and results of parallel calls stand in a row.
    V2_0_36,
    /// 2.0.x since then: the same, with parallel results side by side.
    V2_0_77,
    /// 2.1.x: progress entries are part of the tree.
    V2_1_20,
    /// Up to 2.1.76: progress entries break the chain.
    V2_1_76,
    /// 2.1.112: the last entry of the file decides.
    V2_1_112,
    /// 2.1.200: the checkpoint decides.
    V2_1_200,
    /// 2.1.325: the checkpoint decides.
    V2_1_325,
}

impl Client {
    /// The newest client we know.
    pub const NEWEST: Self = Self::V2_1_325;

    /// All of them, oldest first.
    pub const ALL: [Self; 8] = [
        Self::V1_0_128,
        Self::V2_0_36,
        Self::V2_0_77,
        Self::V2_1_20,
        Self::V2_1_76,
        Self::V2_1_112,
        Self::V2_1_200,
        Self::V2_1_325,
    ];

    /// Returns the version that was run to learn its rules.
    pub fn version(self) -> &'static str {
        match self {
            Self::V1_0_128 => "1.0.128",
            Self::V2_0_36 => "2.0.36",
            Self::V2_0_77 => "2.0.77",
            Self::V2_1_20 => "2.1.20",
            Self::V2_1_76 => "2.1.76",
            Self::V2_1_112 => "2.1.112",
            Self::V2_1_200 => "2.1.200",
            Self::V2_1_325 => "2.1.325",
        }
    }

    /// Finds the client that a version behaves like: the nearest known one that is not newer, or
    /// the oldest. Returns nothing for what is no version.
    pub fn for_version(version: &str) -> Option<Self> {
        let wanted = parse_version(version)?;
        let known = |client: &Self| parse_version(client.version()).is_some_and(|v| v <= wanted);
        Some(Self::ALL.into_iter().rev().find(known).unwrap_or(Self::V1_0_128))
    }

    fn newest_time(self) -> bool {
        self <= Self::V2_1_76
    }

    fn checkpoints(self) -> bool {
        self >= Self::V2_1_200
    }

    /// Reads no further than a line that is `null`.
    fn stops_at_null(self) -> bool {
        matches!(self, Self::V2_1_20 | Self::V2_1_76 | Self::V2_1_112)
    }

    /// Joins an entry with a lost parent to the one before it in time.
    fn bridges(self) -> bool {
        self >= Self::V2_1_112
    }
}

fn parse_version(version: &str) -> Option<(u32, u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    let mut next = || parts.next().flatten();
    let found = (next()?, next()?, next()?);
    parts.next().is_none().then_some(found)
}

/// What a client makes of a session.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// The entry that it takes for the last one, as an index of a node.
    pub leaf: Option<usize>,
    /// The last entry that it sends before the next prompt; what it drops at the end is not sent.
    pub tip: Option<usize>,
    /// The entries that it takes into the conversation, from the first on.
    pub chain: Vec<usize>,
}

/// Applies a client's rules to a session.
pub fn resume(facts: &Facts, client: Client) -> Resume {
    let mut rows = Rows::load(facts, client);
    let Some(leaf) = rows.leaf() else {
        return Resume::default();
    };
    let chain = rows.walk(leaf);
    let node = |slot: &u32| rows.slots[*slot as usize].node as usize;
    let tip = rows.sent(&chain).last().map(node);
    Resume { leaf: Some(node(&leaf)), tip, chain: chain.iter().map(node).collect() }
}

/// An entry as the client holds it: of several with one uuid the last, at the place of the first.
#[derive(Debug, Clone, Copy)]
struct Slot {
    node: u32,
    parent: Uid,
    /// Dropped when a compaction kept only some of what was before it.
    gone: bool,
}

/// The entries that a client holds, and what it remembers of reading them.
struct Rows<'f> {
    facts: &'f Facts,
    client: Client,
    slots: Vec<Slot>,
    /// The slot of each uuid, by the first node with it.
    slot_at: Vec<u32>,
    last: Option<u32>,
    checkpoint: Option<Uid>,
    /// The checkpoint was set by the user and nothing came after it.
    pinned: bool,
    /// The checkpoint was set by the user.
    explicit: bool,
    /// The user went back to before the first prompt.
    empty: bool,
    /// Any checkpoint named a leaf, or that there is none.
    any_checkpoint: bool,
    newest: Option<(crate::id::Time, u32)>,
    /// File snapshots at the end.
    snapshot_tail: bool,
    by_time: Option<Vec<(i64, u32)>>,
}

const NONE: u32 = u32::MAX;

impl<'f> Rows<'f> {
    fn load(facts: &'f Facts, client: Client) -> Self {
        let mut rows = Self {
            facts,
            client,
            slots: Vec::new(),
            slot_at: vec![NONE; facts.nodes.len()],
            last: None,
            checkpoint: None,
            pinned: false,
            explicit: false,
            empty: false,
            any_checkpoint: false,
            newest: None,
            snapshot_tail: false,
            by_time: None,
        };
        let end = match facts.null_line {
            Some(at) if client.stops_at_null() => at as usize,
            _ => facts.nodes.len(),
        };
        // Entries that are left out, with the parent that their children get instead.
        let mut left_out: rustc_hash::FxHashMap<Uid, Uid> = rustc_hash::FxHashMap::default();
        let mut checkpoints = facts.checkpoints.iter().peekable();
        for (i, node) in facts.nodes[..end].iter().enumerate() {
            while let Some(checkpoint) = checkpoints.next_if(|c| c.after as usize <= i) {
                rows.take_checkpoint(checkpoint);
            }
            rows.take(u32::try_from(i).unwrap_or(NONE), node, &mut left_out);
        }
        for checkpoint in checkpoints {
            rows.take_checkpoint(checkpoint);
        }
        for i in 0..rows.slots.len() {
            let mut parent = rows.slots[i].parent;
            let mut seen = FxHashSet::default();
            while rows.slot(parent).is_none() && seen.insert(parent) {
                match left_out.get(&parent) {
                    Some(&above) => parent = above,
                    None => break,
                }
            }
            rows.slots[i].parent = parent;
        }
        rows
    }

    fn slot(&self, uid: Uid) -> Option<u32> {
        let first = self.facts.node_of(uid)?;
        let slot = self.slot_at[first];
        (slot != NONE && !self.slots[slot as usize].gone).then_some(slot)
    }

    fn node(&self, slot: u32) -> &'f Node {
        &self.facts.nodes[self.slots[slot as usize].node as usize]
    }

    fn parent(&self, slot: u32) -> Option<u32> {
        self.slot(self.slots[slot as usize].parent)
    }

    fn take(&mut self, index: u32, node: &Node, left_out: &mut rustc_hash::FxHashMap<Uid, Uid>) {
        let client = self.client;
        // Two objects on one line: lost, but for the first one since 2.1.200.
        let lost = if client >= Client::V2_1_200 { Flags::GLUED_BEHIND } else { Flags::GLUED };
        if node.flags.has(lost) {
            return;
        }
        match node.role {
            Role::Other => return,
            // Clients since 2.1.112 join the children of a progress entry to its parent; of those
            // before, only some knew the type at all.
            Role::Progress if client >= Client::V2_1_112 => {
                left_out.insert(node.uid, node.parent);
                return;
            }
            Role::Progress => {
                let known = match client {
                    Client::V2_1_20 => true,
                    Client::V2_1_76 => !node.flags.is_tool_progress(),
                    _ => false,
                };
                if !known {
                    return;
                }
            }
            _ => {}
        }
        if client >= Client::V2_1_325 && node.is_conversation() && !admitted(node) {
            if self.slot(node.uid).is_none() {
                left_out.insert(node.uid, node.parent);
            }
            return;
        }
        let first = self.facts.node_of(node.uid).expect("every node is indexed");
        let slot = if self.slot_at[first] == NONE {
            self.slots.push(Slot { node: index, parent: node.parent, gone: false });
            self.slot_at[first] = u32::try_from(self.slots.len() - 1).unwrap_or(NONE);
            self.slot_at[first]
        } else {
            let slot = self.slot_at[first];
            self.slots[slot as usize] = Slot { node: index, parent: node.parent, gone: false };
            slot
        };
        if node.flags.is_snapshot() && client >= Client::V2_1_325 {
            self.snapshot_tail = true;
        } else if !node.flags.is_sidechain()
            && !(node.flags.is_briefing() && client >= Client::V2_1_325)
        {
            // An entry without a uuid is there, but cannot be named as the last.
            self.last = (!node.flags.lacks_uuid()).then_some(slot);
            self.snapshot_tail = false;
            if !node.time.is_none() && self.newest.is_none_or(|(time, _)| node.time > time) {
                self.newest = Some((node.time, slot));
            }
            self.pinned = false;
            self.empty = false;
        }
        if node.flags.is_boundary() && client.checkpoints() {
            self.checkpoint = None;
            self.pinned = false;
            self.explicit = false;
        }
    }

    fn take_checkpoint(&mut self, checkpoint: &Checkpoint) {
        if !self.client.checkpoints() {
            return;
        }
        let Some(leaf) = checkpoint.leaf else { return };
        self.any_checkpoint = true;
        if !leaf.is_none() {
            let same = self.checkpoint == Some(leaf);
            self.pinned = checkpoint.explicit || self.pinned && same;
            self.explicit = checkpoint.explicit || self.explicit && same;
            self.checkpoint = Some(leaf);
            self.empty = false;
        } else if checkpoint.explicit {
            self.empty = true;
            self.checkpoint = None;
            self.pinned = false;
            self.explicit = false;
        }
    }

    fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..u32::try_from(self.slots.len()).unwrap_or(NONE)).filter(|&s| !self.slots[s as usize].gone)
    }

    fn newest_of(&self, slots: impl Iterator<Item = u32>) -> Option<u32> {
        let mut best: Option<(crate::id::Time, u32)> = None;
        for slot in slots {
            let time = self.node(slot).time;
            if !time.is_none() && best.is_none_or(|(newest, _)| time > newest) {
                best = Some((time, slot));
            }
        }
        best.map(|(_, slot)| slot)
    }

    /// Finds the nearest user or assistant entry at or above.
    fn said_at(&self, slot: u32) -> Option<u32> {
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

    /// Chooses the entry that the conversation ends with.
    fn leaf(&mut self) -> Option<u32> {
        let main = |rows: &Self, slot: &u32| !rows.node(*slot).flags.is_sidechain();
        if self.client.newest_time() {
            if self.client >= Client::V2_1_76 {
                self.relink_preserved();
            }
            let sides = self.client < Client::V2_0_36;
            return match self.newest_of(self.live().filter(|s| sides || main(self, s))) {
                // Without any time the first entry stays where it is.
                None if self.client < Client::V2_1_76 => self.live().find(|s| sides || main(self, s)),
                newest => newest,
            };
        }
        let kept = self.relink_preserved();
        if self.empty {
            return None;
        }
        let chosen = if self.client.checkpoints() { self.leaf_by_checkpoint(kept) } else { None };
        let leaves = chosen.map_or_else(|| self.leaves(), |leaf| vec![leaf]);
        let conversation = |s: &u32| main(self, s) && self.node(*s).is_conversation();
        let leaf = self.newest_of(leaves.iter().copied().filter(conversation));
        if leaf.is_none() && leaves.is_empty() && self.client.checkpoints() {
            return self.newest_of(self.live().filter(|s| main(self, s) && !self.node(*s).flags.is_snapshot()));
        }
        leaf
    }

    fn leaf_by_checkpoint(&self, kept: bool) -> Option<u32> {
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
            if self.client >= Client::V2_1_325
                && !self.any_checkpoint
                && let (Some(last), Some((_, newest))) = (self.last, self.newest)
                && newest != last
            {
                chosen = Some(self.newest_descendant(last));
            }
        }
        self.said_at(chosen?)
    }

    /// Finds the ends of all branches, or the one that the last entry or the checkpoint is on.
    fn leaves(&self) -> Vec<u32> {
        let mut is_parent = vec![false; self.slots.len()];
        let mut has_said_child = vec![false; self.slots.len()];
        for slot in self.live() {
            if let Some(parent) = self.parent(slot) {
                is_parent[parent as usize] = true;
                has_said_child[parent as usize] |= self.node(slot).is_conversation();
            }
        }
        let mut found = vec![false; self.slots.len()];
        let mut leaves = Vec::new();
        for slot in self.live().filter(|&s| !is_parent[s as usize]) {
            let Some(said) = self.said_at(slot) else { continue };
            let ends = self.client < Client::V2_1_200 || !has_said_child[said as usize];
            if ends && !found[said as usize] {
                found[said as usize] = true;
                leaves.push(said);
            }
        }
        if leaves.len() > 1 {
            let checkpoint = self.checkpoint.and_then(|uid| self.slot(uid)).filter(|s| leaves.contains(s));
            let passed = |at: u32| {
                self.client >= Client::V2_1_325
                    && !self.pinned
                    && self.last.is_some_and(|last| self.continues(last, at, false))
            };
            let at = match checkpoint {
                Some(at) if self.client.checkpoints() && !passed(at) => Some(at),
                _ if self.client >= Client::V2_1_325 && self.snapshot_tail => None,
                _ => self.last,
            };
            if let Some(said) = at.and_then(|at| self.said_at(at)) {
                return vec![said];
            }
        }
        leaves
    }

    /// Tells whether `last` goes on from the checkpoint, or from another call of the same batch.
    fn continues(&self, last: u32, checkpoint: u32, itself: bool) -> bool {
        if self.client < Client::V2_1_325 {
            return self.is_below(last, checkpoint);
        }
        (itself && self.is_below(last, checkpoint))
            || !self.explicit && self.in_same_batch(last, checkpoint)
            || self.beside_split_reply(last, checkpoint)
    }

    fn is_below(&self, slot: u32, ancestor: u32) -> bool {
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

    fn message_id(&self, slot: u32) -> Uid {
        let node = self.node(slot);
        let message = node.message().filter(|_| node.role == Role::Assistant);
        message.map_or(Uid::NONE, |m| self.facts.messages[m].id)
    }

    /// Calls that an entry makes, by their index.
    fn calls_in(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        places_of(&self.facts.uses, self.slots[slot as usize].node)
    }

    /// Calls that an entry answers, by their index.
    fn answers_in(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        places_of(&self.facts.answers, self.slots[slot as usize].node)
    }

    /// An entry that may stand between rows of the message `id`.
    fn same_reply(&self, slot: u32, id: Uid) -> bool {
        let node = self.node(slot);
        match node.role {
            Role::Assistant => self.message_id(slot) == id,
            Role::User => node.flags.is_meta() || node.flags.has_result(),
            Role::Attachment => true,
            _ => node.role == Role::System && !node.flags.is_boundary(),
        }
    }

    fn reply_above(&self, slot: u32, id: Uid) -> Vec<u32> {
        let mut seen = FxHashSet::from_iter([slot]);
        let mut above = Vec::new();
        let mut at = self.parent(slot);
        while let Some(slot) = at.filter(|&s| self.same_reply(s, id) && seen.insert(s)) {
            above.push(slot);
            at = self.parent(slot);
        }
        above
    }

    /// A note that may hang between an answer and what follows it.
    fn is_note(&self, slot: u32) -> bool {
        let node = self.node(slot);
        match node.role {
            Role::Attachment => true,
            Role::System => !node.flags.is_boundary(),
            Role::User => node.flags.is_meta() && !node.flags.has_result(),
            _ => false,
        }
    }

    /// Tells whether `last` hangs on another call of the batch that the checkpoint belongs to.
    fn in_same_batch(&self, last: u32, checkpoint: u32) -> bool {
        let mut seen = FxHashSet::default();
        let mut at = Some(checkpoint);
        while let Some(slot) = at.filter(|&s| self.is_note(s) && seen.insert(s)) {
            at = self.parent(slot);
        }
        let Some(base) = at else { return false };
        let (call, wanted): (Option<u32>, Vec<u32>) = if self.node(base).flags.has_result() {
            (self.parent(base), self.answers_in(base).collect())
        } else if seen.is_empty() {
            (Some(base), Vec::new())
        } else {
            return false;
        };
        let Some(call) = call else { return false };
        let calls: Vec<u32> = self.calls_in(call).collect();
        let id = if calls.is_empty() { Uid::NONE } else { self.message_id(call) };
        let above: FxHashSet<u32> =
            if id.is_none() { FxHashSet::default() } else { self.reply_above(call, id).into_iter().collect() };
        let mut seen = FxHashSet::default();
        let (mut at, mut previous, mut beside) = (Some(last), None, false);
        while let Some(slot) = at.filter(|&s| seen.insert(s)) {
            if !id.is_none() {
                if beside && slot == call {
                    return true;
                }
                let node = self.node(slot);
                if node.flags.has_call() && slot != call && self.message_id(slot) == id {
                    if above.contains(&slot) {
                        return true;
                    }
                    beside = true;
                } else if !self.same_reply(slot, id) {
                    beside = false;
                }
            }
            if slot == call
                && wanted.iter().any(|w| calls.contains(w))
                && let Some(previous) = previous
                && self.answers_in(previous).any(|a| calls.contains(&a) && !wanted.contains(&a))
            {
                return true;
            }
            previous = Some(slot);
            at = self.parent(slot);
        }
        false
    }

    /// Tells whether `last` branches off inside a reply whose rows notes have split.
    fn beside_split_reply(&self, last: u32, checkpoint: u32) -> bool {
        let id = self.message_id(checkpoint);
        if id.is_none() || last == checkpoint {
            return false;
        }
        let above = self.reply_above(checkpoint, id);
        let is_answer = |slot: u32| self.node(slot).role == Role::Assistant;
        let Some(top) = above.iter().rposition(|&s| is_answer(s)) else { return false };
        let between: Vec<u32> = above[..top].iter().copied().filter(|&s| !is_answer(s)).collect();
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
        let (mut at, mut below, mut said) = (Some(last), None, false);
        while let Some(slot) = at.filter(|&s| s != split) {
            if !seen.insert(slot) {
                return false;
            }
            let node = self.node(slot);
            said |= node.role == Role::Assistant
                || node.role == Role::User && !node.flags.is_meta() && !node.flags.has_result();
            below = Some(slot);
            at = self.parent(slot);
        }
        let Some(below) = below.filter(|_| at.is_some() && said) else { return false };
        if self.node(below).time <= self.node(checkpoint).time {
            return false;
        }
        !self.live().any(|s| match self.parent(s) {
            Some(p) if p == checkpoint => true,
            Some(p) if p == last => !self.node(s).flags.is_sidechain() && !self.is_note(s),
            _ => false,
        })
    }

    fn newest_descendant(&self, top: u32) -> u32 {
        // Below or not: known for every slot after one walk each, and each walk stops at what is known.
        let mut below = vec![0u8; self.slots.len()];
        below[top as usize] = 2;
        let (mut best, mut newest) = (top, None);
        let mut trail = Vec::new();
        for slot in self.live() {
            let mut at = Some(slot);
            while let Some(s) = at.filter(|&s| below[s as usize] == 0) {
                below[s as usize] = 1;
                trail.push(s);
                at = self.parent(s);
            }
            let known = at.map_or(1, |s| below[s as usize]);
            for s in trail.drain(..) {
                below[s as usize] = known;
            }
            let node = self.node(slot);
            let counts = slot != top && below[slot as usize] == 2 && !node.flags.is_sidechain();
            if counts && !node.time.is_none() && newest.is_none_or(|n| node.time >= n) {
                (best, newest) = (slot, Some(node.time));
            }
        }
        best
    }

    /// Lays the messages that the last compaction kept behind its summary and drops the rest before
    /// it; tells whether anything was kept.
    fn relink_preserved(&mut self) -> bool {
        let lists = self.client >= Client::V2_1_200;
        let mut last_boundary = None;
        let mut with_kept = None;
        for slot in self.live() {
            if !self.node(slot).flags.is_boundary() {
                continue;
            }
            last_boundary = Some(slot);
            let kept = self.facts.preserved.get(&self.slots[slot as usize].node);
            if kept.is_some_and(|k| k.segment.is_some() || lists && !k.uuids.is_empty()) {
                with_kept = Some(slot);
            }
        }
        let (Some(boundary), Some(with_kept)) = (last_boundary, with_kept) else { return false };
        let mut kept: Vec<u32> = Vec::new();
        if with_kept == boundary {
            let preserved = &self.facts.preserved[&self.slots[boundary as usize].node];
            if lists && !preserved.uuids.is_empty() {
                for &uid in &preserved.uuids {
                    let Some(slot) = self.slot(uid) else { return false };
                    kept.push(slot);
                }
            } else if let Some((head, tail)) = preserved.segment {
                let mut seen = FxHashSet::default();
                let mut at = self.slot(tail);
                loop {
                    let Some(slot) = at.filter(|&s| seen.insert(s)) else { return false };
                    kept.push(slot);
                    if self.node(slot).uid == head {
                        break;
                    }
                    at = self.parent(slot);
                }
                kept.reverse();
            }
            self.relink(&kept, preserved.anchor, lists);
        }
        let keep: FxHashSet<u32> = kept.iter().copied().collect();
        for slot in 0..boundary {
            if !keep.contains(&slot) {
                self.slots[slot as usize].gone = true;
            }
        }
        // What hung on a dropped message follows the kept ones.
        if let Some(&tail) = kept.last()
            && lists
        {
            let uid = self.node(tail).uid;
            for slot in 0..u32::try_from(self.slots.len()).unwrap_or(NONE) {
                let parent = self.facts.node_of(self.slots[slot as usize].parent);
                let dropped = parent.is_some_and(|p| {
                    let at = self.slot_at[p];
                    at != NONE && self.slots[at as usize].gone
                });
                if dropped && !self.slots[slot as usize].gone && self.node(slot).is_conversation() {
                    self.slots[slot as usize].parent = uid;
                }
            }
        }
        lists && !kept.is_empty()
    }

    fn relink(&mut self, kept: &[u32], anchor: Uid, in_a_row: bool) {
        let (Some(&head), Some(&tail)) = (kept.first(), kept.last()) else { return };
        let mut previous = anchor;
        for &slot in if in_a_row { kept } else { &kept[..1] } {
            self.slots[slot as usize].parent = previous;
            previous = self.node(slot).uid;
        }
        let tail = self.node(tail).uid;
        for slot in 0..u32::try_from(self.slots.len()).unwrap_or(NONE) {
            if slot != head && self.slots[slot as usize].parent == anchor {
                self.slots[slot as usize].parent = tail;
            }
        }
    }

    /// Walks from the leaf to the root and adds what parallel calls left beside the way.
    fn walk(&mut self, leaf: u32) -> Vec<u32> {
        let mut seen = vec![false; self.slots.len()];
        let mut chain = Vec::new();
        let mut at = Some(leaf);
        while let Some(slot) = at.filter(|&s| !seen[s as usize]) {
            seen[slot as usize] = true;
            chain.push(slot);
            if self.slots[slot as usize].parent.is_none() {
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
                let note = !self.node(slot).is_conversation() && !seen[slot as usize] && !below[slot as usize];
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
        if self.by_time.is_none() {
            let timed = |s: u32| Some((self.node(s).time.millis()?, s));
            let mut times: Vec<_> = self.live().filter_map(timed).collect();
            // Of several at one moment the first in the file is taken.
            times.sort_unstable_by_key(|&(time, s)| (time, std::cmp::Reverse(s)));
            self.by_time = Some(times);
        }
        let times = self.by_time.as_ref()?;
        let now = self.node(slot).time.millis()?;
        let side = |s: u32| {
            let flags = self.node(s).flags;
            (flags.is_sidechain(), flags.has(Flags::SIDE_KEY))
        };
        let newest = self.client >= Client::V2_1_325;
        let end = times.partition_point(|&(time, _)| time <= now);
        times[..end]
            .iter()
            .rev()
            .take_while(|&&(time, _)| now - time <= BRIDGE_MILLIS)
            .map(|&(_, s)| s)
            .find(|&s| {
                !seen[s as usize] && side(s) == side(slot) && !(newest && self.node(s).flags.is_snapshot())
            })
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
        let mut beside: rustc_hash::FxHashMap<u32, Vec<u32>> = rustc_hash::FxHashMap::default();
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

    /// Keeps what the client sends of a chain: from the last compaction on, without what it drops.
    fn sent(&self, chain: &[u32]) -> Vec<u32> {
        let client = self.client;
        let mut answered = FxHashSet::default();
        for &slot in chain {
            answered.extend(self.answers_in(slot));
        }
        let called: FxHashSet<u32> = chain.iter().flat_map(|&slot| self.calls_in(slot)).collect();
        // 2.1.325 keeps the open calls that the session ended with and writes an error for each: those
        // of the newest message, with nothing behind them but results.
        let last_prompt = chain.iter().rposition(|&slot| {
            let node = self.node(slot);
            node.role == Role::User && !node.flags.has_result()
        });
        let newest_message = chain.iter().rposition(|&slot| self.node(slot).role == Role::Assistant);
        let newest_id = newest_message.map_or(Uid::NONE, |at| self.message_id(chain[at]));
        let mut rows: Vec<u32> = Vec::with_capacity(chain.len());
        for (i, &slot) in chain.iter().enumerate() {
            let flags = self.node(slot).flags;
            let cut_off = i >= last_prompt.unwrap_or(0) && self.message_id(slot) == newest_id;
            let open_is_kept = client >= Client::V2_1_325 && cut_off;
            if self.node(slot).role == Role::Assistant && flags.has_call() && !open_is_kept {
                let open = self.calls_in(slot).all(|call| !answered.contains(&call));
                if open && (holds_only(flags, Flags::CALL) || client >= Client::V2_1_76) {
                    continue;
                }
            }
            rows.push(slot);
        }
        let boundary = rows.iter().rposition(|&slot| self.node(slot).flags.is_boundary());
        rows.drain(..boundary.unwrap_or(0));
        rows.retain(|&slot| {
            let node = self.node(slot);
            let flags = node.flags;
            if node.role == Role::System {
                return client >= Client::V2_1_76 && flags.is_local_command();
            }
            if !node.is_conversation() || flags.is_api_error() && flags.is_synthetic() {
                return false;
            }
            if flags.is_virtual() && client >= Client::V2_1_112 {
                return false;
            }
            // Blank blocks of a user become the placeholder `(no content)`.
            if node.role == Role::User && !flags.has_string_content() && client >= Client::V2_1_200 {
                if holds_only(flags, Flags::BLANK) {
                    return false;
                }
            }
            if client >= Client::V2_1_76 && node.role == Role::User && flags.has_result() {
                let any = self.answers_in(slot).any(|call| called.contains(&call));
                return any || flags.has_text() || flags.has_media();
            }
            true
        });
        loop {
            let before = rows.len();
            if client >= Client::V2_1_20 {
                self.drop_hollow(&mut rows, Flags::THINKING);
            }
            if client >= Client::V2_1_76 {
                self.drop_hollow(&mut rows, Flags::BLANK);
            }
            if rows.len() == before {
                break;
            }
        }
        rows.retain(|&slot| {
            let flags = self.node(slot).flags;
            // Of a message with more to it, blank text is dropped all the same.
            let answer = self.node(slot).role == Role::Assistant;
            if client >= Client::V2_1_112 && answer && holds_only(flags, Flags::BLANK) {
                return false;
            }
            flags.has_string_content() || flags.is_local_command() || PARTS.iter().any(|&f| flags.has(f))
        });
        if (Client::V2_0_77..=Client::V2_1_112).contains(&client) {
            self.drop_merged_back(&mut rows);
        }
        rows
    }

    /// Some clients take all answers without an id for one message: each joins the one before it,
    /// unless a prompt stands between that follows no result. What joined is not last any more.
    fn drop_merged_back(&self, rows: &mut Vec<u32>) {
        let mut reachable = false;
        let mut last_is_user = false;
        let mut user_has_result = false;
        rows.retain(|&slot| {
            let node = self.node(slot);
            if node.role != Role::Assistant {
                user_has_result = node.flags.has_result() || last_is_user && user_has_result;
                last_is_user = true;
                return true;
            }
            let without_id = node.flags.lacks_message_id();
            if last_is_user && !user_has_result {
                reachable = false;
            }
            if without_id && reachable {
                return false;
            }
            reachable |= without_id;
            last_is_user = false;
            true
        });
    }

    /// Drops answers that hold nothing but `hollow`, unless their message holds more elsewhere.
    fn drop_hollow(&self, rows: &mut Vec<u32>, hollow: Flags) {
        let substance = |flags: Flags| {
            PARTS.iter().any(|&f| f != Flags::THINKING && f != hollow && flags.has(f))
        };
        let full: FxHashSet<Uid> = rows
            .iter()
            .filter(|&&slot| substance(self.node(slot).flags))
            .map(|&slot| self.message_id(slot))
            .filter(|id| !id.is_none())
            .collect();
        rows.retain(|&slot| {
            let node = self.node(slot);
            let droppable = node.role == Role::Assistant && holds_only(node.flags, hollow);
            !droppable || full.contains(&self.message_id(slot))
        });
    }
}

/// What the content of an entry can be made of.
const PARTS: [Flags; 6] =
    [Flags::TEXT, Flags::BLANK, Flags::THINKING, Flags::MEDIA, Flags::CALL, Flags::RESULT];

fn holds_only(flags: Flags, part: Flags) -> bool {
    flags.has(part) && !PARTS.iter().any(|&other| other != part && flags.has(other))
}

/// 2.1.325 leaves out entries that it could not send.
fn admitted(node: &Node) -> bool {
    let flags = node.flags;
    let blank_string = node.role == Role::Assistant && flags.has_string_content() && flags.has_blank_text();
    !flags.lacks_message() && !flags.has_odd_content() && !blank_string
}

/// Returns the second numbers of the pairs that begin with `node`; the pairs are sorted by it.
pub(crate) fn places_of(pairs: &[(u32, u32)], node: u32) -> impl Iterator<Item = u32> + Clone + '_ {
    let start = pairs.partition_point(|&(n, _)| n < node);
    pairs[start..].iter().take_while(move |&&(n, _)| n == node).map(|&(_, call)| call)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_takes_the_nearest_known_one_below() {
        for (version, client) in [
            ("2.1.325", Client::V2_1_325),
            ("9.0.0", Client::V2_1_325),
            ("2.1.324", Client::V2_1_200),
            ("2.1.199", Client::V2_1_112),
            ("2.1.90", Client::V2_1_76),
            ("2.0.42", Client::V2_0_36),
            ("0.2.9", Client::V1_0_128),
        ] {
            assert_eq!(Client::for_version(version), Some(client), "{version}");
        }
        for bad in ["", "new", "2.1", "2.1.x", "2.1.3.4"] {
            assert_eq!(Client::for_version(bad), None, "{bad}");
        }
    }
}
