//! What a client would resume: which entry it takes for the last one, and the chain above it.
//!
//! Reading the rows is here, choosing the leaf in `leaf`, what a compaction kept in `kept`, the walk
//! to the root in `walk`, and what of it is sent in `sent`.

mod kept;
mod leaf;
mod sent;
mod walk;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::client::Client;
use crate::facts::{Checkpoint, Facts, NONE, Node, Role};
use crate::id::{Time, Uid};

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
    /// Dropped when a compaction kept only some of what was before it.
    gone: bool,
}

/// The entries that a client holds, and what it remembers of reading them.
struct Rows<'f> {
    facts: &'f Facts,
    client: Client,
    slots: Vec<Slot>,
    /// Parents that are not those of the file.
    moved: FxHashMap<u32, Uid>,
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
    newest: Option<(Time, u32)>,
    /// File snapshots at the end.
    snapshot_tail: bool,
    /// Entries by their time, made when a parent is lost.
    by_time: Vec<(i64, u32)>,
    /// Where the search for one that was not seen ends, by place in `by_time`.
    unseen: Vec<usize>,
    /// The parents of progress entries, which are joined over.
    progress: FxHashMap<Uid, Uid>,
}

impl<'f> Rows<'f> {
    fn load(facts: &'f Facts, client: Client) -> Self {
        let mut rows = Self {
            facts,
            client,
            slots: Vec::new(),
            moved: FxHashMap::default(),
            slot_at: vec![NONE; facts.nodes.len()],
            last: None,
            checkpoint: None,
            pinned: false,
            explicit: false,
            empty: false,
            any_checkpoint: false,
            newest: None,
            snapshot_tail: false,
            by_time: Vec::new(),
            unseen: Vec::new(),
            progress: FxHashMap::default(),
        };
        let end = match facts.null_line {
            Some(at) if client.stops_at_null() => at as usize,
            _ => facts.nodes.len(),
        };
        // Entries that are left out, with the parent that their children get instead.
        let mut left_out: FxHashMap<Uid, Uid> = FxHashMap::default();
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
        if !left_out.is_empty() {
            rows.join_over(&left_out);
        }
        rows
    }

    /// Joins the children of what was left out to the nearest entry above that was not.
    fn join_over(&mut self, left_out: &FxHashMap<Uid, Uid>) {
        for i in 0..self.slots.len() {
            let slot = u32::try_from(i).unwrap_or(NONE);
            let mut parent = self.parent_id(slot);
            let mut seen = FxHashSet::default();
            while self.slot(parent).is_none() && seen.insert(parent) {
                match left_out.get(&parent) {
                    Some(&above) => parent = above,
                    None => break,
                }
            }
            if parent != self.parent_id(slot) {
                self.moved.insert(slot, parent);
            }
        }
    }

    fn slot(&self, uid: Uid) -> Option<u32> {
        let first = self.facts.node_of(uid)?;
        let slot = self.slot_at[first];
        (slot != NONE && !self.slots[slot as usize].gone).then_some(slot)
    }

    fn node(&self, slot: u32) -> &'f Node {
        &self.facts.nodes[self.slots[slot as usize].node as usize]
    }

    /// Returns the id of the parent, as the file says it or as the client changed it.
    fn parent_id(&self, slot: u32) -> Uid {
        if !self.moved.is_empty()
            && let Some(&parent) = self.moved.get(&slot)
        {
            return parent;
        }
        self.node(slot).parent
    }

    fn parent(&self, slot: u32) -> Option<u32> {
        self.slot(self.parent_id(slot))
    }

    fn take(&mut self, index: u32, node: &Node, left_out: &mut FxHashMap<Uid, Uid>) {
        let client = self.client;
        // A line that holds more than an object is lost; since 2.1.200 what it begins with is read.
        if node.flags.stands_behind() || node.flags.stands_before() && client < Client::V2_1_200 {
            return;
        }
        match node.role {
            Role::Other => return,
            // Clients since 2.1.112 join the children of a progress entry to its parent; of those
            // before, only some knew the type at all.
            Role::Progress if client >= Client::V2_1_112 => {
                let above = self.progress.get(&node.parent).copied().unwrap_or(node.parent);
                self.progress.insert(node.uid, above);
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
        let mut parent = node.parent;
        // The children of a progress entry hang on its parent, if they stand behind it in the file.
        if !self.progress.is_empty()
            && let Some(&above) = self.progress.get(&node.parent)
        {
            parent = above;
        }
        let first = self.facts.first_of(index as usize);
        let slot = if self.slot_at[first] == NONE {
            self.slots.push(Slot { node: index, gone: false });
            self.slot_at[first] = u32::try_from(self.slots.len() - 1).unwrap_or(NONE);
            self.slot_at[first]
        } else {
            let slot = self.slot_at[first];
            self.slots[slot as usize] = Slot { node: index, gone: false };
            slot
        };
        if parent == node.parent {
            self.moved.remove(&slot);
        } else {
            self.moved.insert(slot, parent);
        }
        if node.flags.is_snapshot() && client >= Client::V2_1_325 {
            self.snapshot_tail = true;
        } else if !(node.flags.is_sidechain() || node.flags.is_briefing() && client >= Client::V2_1_325) {
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
        } else if checkpoint.explicit && checkpoint.null {
            self.empty = true;
            self.checkpoint = None;
            self.pinned = false;
            self.explicit = false;
        }
    }

    fn live(&self) -> impl Iterator<Item = u32> + '_ {
        (0..u32::try_from(self.slots.len()).unwrap_or(NONE)).filter(|&s| !self.slots[s as usize].gone)
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
