//! The intended path: the conversation that the newest client would resume if no link were broken.
//!
//! A missing parent is replaced by the previous entry in time, or else by the previous entry in the file. An
//! answer or a result never starts a conversation, so one without a parent has lost it. A prompt may start
//! one, unless answers in the same file have lost their parents too.

use rustc_hash::FxHashSet;

use super::{LoadedEntries, SlotId};
use crate::client::Client;
use crate::facts::{Facts, Role};
use crate::id::Time;
use crate::index::{NodeId, Table};
use crate::tree::{BRIDGE_MILLIS, find_cycles};

/// The kind of defect in the link from an entry to its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkDefect {
    /// The parent is not in the file, or is an entry type that is not part of a conversation.
    Dangling,
    /// The entry has no parent but should have one.
    NoParent,
    /// The entry is its own ancestor.
    Cycle,
}

/// An entry whose link to its parent is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokenLink {
    /// The entry.
    pub node: NodeId,
    /// The kind of defect.
    pub defect: LinkDefect,
    /// The entry that replaces the lost parent.
    pub parent: Option<NodeId>,
}

/// The intended path of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntendedPath {
    /// The last entry.
    pub leaf: Option<NodeId>,
    /// The entries since the last compaction, or since the root.
    pub chain: Vec<NodeId>,
    /// Entries of the main conversation whose link is broken, in file order.
    pub broken_links: Vec<BrokenLink>,
    /// Most entries precede their parents in the file.
    pub scrambled: bool,
}

/// Maximum number of earlier entries that are tried as the replacement of a parent.
const MAX_CANDIDATES: usize = 64;

/// Maximum number of searches for new cycles.
const MAX_ROUNDS: usize = 8;

/// Finds the intended path of a session, even if its links are broken.
pub fn intended_path(facts: &Facts) -> IntendedPath {
    intended_path_to(facts, None)
}

/// Finds the path that ends at `end`, or the one that the newest client would resume.
pub fn intended_path_to(facts: &Facts, end: Option<NodeId>) -> IntendedPath {
    // Entries written after the end are not part of the path, except notes that directly follow it.
    let upto = end.map_or(facts.nodes.len(), |end| {
        let note = |node: &&crate::facts::Node| !node.is_conversation() && !node.flags.is_boundary();
        let last = last_ancestor_in_file(facts, end);
        last.index() + 1 + facts.nodes.after(last).iter().take_while(note).count()
    });
    let mut rows = LoadedEntries::load_whole(facts, upto);
    let node = |rows: &LoadedEntries<'_>, slot: SlotId| rows.slots[slot].node;
    let (broken_links, scrambled) = rows.repair_links();
    let broken_links = broken_links
        .into_iter()
        .map(|(slot, defect)| BrokenLink {
            node: node(&rows, slot),
            defect,
            parent: rows.parent(slot).map(|parent| node(&rows, parent)),
        })
        .collect();
    let own = rows.choose_leaf().or(rows.untimed_leaf);
    // An end that was dropped by a compaction is still in the file.
    let wanted = end.and_then(|end| rows.slot_by_node[facts.first_with_same_uuid(end)]);
    let was_dropped = wanted.is_some_and(|slot| rows.slots[slot].dropped);
    if was_dropped {
        rows = LoadedEntries::load_whole(facts, upto);
        rows.repair_links();
    }
    let Some(mut leaf) = wanted.or(own) else {
        return IntendedPath { broken_links, scrambled, ..IntendedPath::default() };
    };
    if scrambled && wanted.is_none() {
        let is_main_conversation =
            |s: &SlotId| !rows.node(*s).flags.is_sidechain() && rows.node(*s).is_conversation();
        leaf = rows.newest_of(rows.live_slots().filter(is_main_conversation)).unwrap_or(leaf);
    }
    let chain = rows.walk(leaf);
    let boundary = chain.iter().rposition(|&slot| rows.node(slot).flags.is_boundary());
    let chain = chain[boundary.unwrap_or(0)..].iter().map(|&slot| node(&rows, slot)).collect();
    IntendedPath { leaf: Some(node(&rows, leaf)), chain, broken_links, scrambled }
}

/// Finds the position of the last of `end` and its ancestors in the file. Children may precede parents.
fn last_ancestor_in_file(facts: &Facts, end: NodeId) -> NodeId {
    let mut seen = FxHashSet::default();
    let mut last = end;
    let mut at = Some(end);
    while let Some(node) = at.filter(|&node| seen.insert(node)) {
        last = last.max(node);
        at = facts.parent_of(node);
    }
    last
}

impl<'f> LoadedEntries<'f> {
    fn load_whole(facts: &'f Facts, upto: usize) -> Self {
        Self::load_rows(facts, Client::NEWEST, Some(upto))
    }

    /// Assigns a parent to every entry of the main conversation whose link is broken.
    fn repair_links(&mut self) -> (Vec<(SlotId, LinkDefect)>, bool) {
        let main: Vec<SlotId> = self.live_slots().filter(|&s| !self.node(s).flags.is_sidechain()).collect();
        let forward = |s: &&SlotId| self.parent(**s).is_some_and(|parent| parent >= **s);
        let n_forward = main.iter().filter(forward).count();
        let all: Vec<SlotId> = self.live_slots().collect();
        let mut broken: Vec<(SlotId, LinkDefect)> = Vec::new();
        if all.iter().any(|slot| forward(&slot)) {
            let cycles = find_cycles(&self.parents());
            // Every cycle has an entry whose parent is a later entry. If there is a cycle, all such links are
            // considered wrong.
            if !cycles.is_empty() && n_forward * 2 <= main.len() {
                broken.extend(all.iter().filter(forward).map(|&slot| (slot, LinkDefect::Cycle)));
            } else {
                broken.extend(cycles.into_iter().map(|slot| (slot, LinkDefect::Cycle)));
            }
            for &(slot, _) in &broken {
                self.parent_overrides.insert(slot, None);
            }
        }
        let cut: FxHashSet<SlotId> = broken.iter().map(|&(slot, _)| slot).collect();
        let answers = |s: SlotId| {
            let node = self.node(s);
            node.role == Role::Assistant || node.role == Role::User && node.flags.has_result()
        };
        let is_root = |s: SlotId| self.parent_id(s).is_none();
        let links_lost = main.iter().skip(1).any(|&s| answers(s) && is_root(s) && !cut.contains(&s));
        for &slot in main.iter().skip(1) {
            let flags = self.node(slot).flags;
            if is_root(slot) {
                let begins = flags.is_boundary() || flags.is_summary();
                if !cut.contains(&slot) && (answers(slot) || links_lost && !begins) {
                    broken.push((slot, LinkDefect::NoParent));
                }
            } else if self.parent(slot).is_none() && !cut.contains(&slot) {
                broken.push((slot, LinkDefect::Dangling));
            }
        }
        broken.sort_unstable_by_key(|&(slot, _)| slot);
        let by_time = if broken.is_empty() { Vec::new() } else { self.slots_by_time(&main) };
        for &(slot, defect) in &broken {
            let before = main.partition_point(|&s| s < slot);
            let parent = (defect == LinkDefect::Dangling)
                .then(|| self.before_in_time(slot, &by_time))
                .flatten()
                .or_else(|| self.before_in_file(&main[..before]));
            self.parent_overrides.insert(slot, parent.map(|parent| self.node(parent).uid));
        }
        if !broken.is_empty() {
            self.cut_new_cycles(&main, &mut broken);
        }
        (broken, n_forward * 2 > main.len())
    }

    /// Returns the parent of each entry.
    fn parents(&self) -> Table<SlotId, Option<SlotId>> {
        self.slots.keys().map(|slot| self.parent(slot)).collect()
    }

    /// Cuts forward links that form a cycle with a repaired link.
    fn cut_new_cycles(&mut self, main: &[SlotId], broken: &mut Vec<(SlotId, LinkDefect)>) {
        let mut known: FxHashSet<SlotId> = broken.iter().map(|&(slot, _)| slot).collect();
        for _ in 0..MAX_ROUNDS {
            let next = self.parents();
            let cycles = find_cycles(&next);
            if cycles.is_empty() {
                break;
            }
            for start in cycles {
                let mut at = start;
                while let Some(above) = next[at].filter(|&above| above < at && above != start) {
                    at = above;
                }
                let before = main.partition_point(|&s| s < at);
                self.parent_overrides.insert(at, None);
                let parent = self.before_in_file(&main[..before]);
                self.parent_overrides.insert(at, parent.map(|parent| self.node(parent).uid));
                if known.insert(at) {
                    broken.push((at, LinkDefect::Cycle));
                }
            }
        }
        broken.sort_unstable_by_key(|&(slot, _)| slot);
    }

    fn slots_by_time(&self, main: &[SlotId]) -> Vec<(i64, SlotId)> {
        let mut times: Vec<(i64, SlotId)> =
            main.iter().filter_map(|&s| Some((self.node(s).time?.millis(), s))).collect();
        times.sort_unstable_by_key(|&(time, s)| (time, std::cmp::Reverse(s)));
        times
    }

    /// Finds the previous entry in time by the rule of the newest client.
    fn before_in_time(&self, slot: SlotId, by_time: &[(i64, SlotId)]) -> Option<SlotId> {
        let now = self.node(slot).time.map(Time::millis)?;
        let end = by_time.partition_point(|&(time, _)| time <= now);
        let near = by_time[..end].iter().rev().take_while(|&&(time, _)| now - time <= BRIDGE_MILLIS);
        let mut near = near.map(|&(_, s)| s).take(MAX_CANDIDATES);
        near.find(|&s| !self.node(s).flags.is_snapshot() && self.may_precede(s, slot))
    }

    fn before_in_file(&self, before: &[SlotId]) -> Option<SlotId> {
        before.iter().rev().copied().find(|&s| !self.node(s).flags.is_snapshot())
    }

    /// Returns whether `candidate` may be the parent of `slot`: a descendant may not. An earlier entry in the
    /// file is a descendant only through a forward link, and then that link is the wrong one.
    fn may_precede(&self, candidate: SlotId, slot: SlotId) -> bool {
        candidate < slot || candidate != slot && !self.is_descendant(candidate, slot)
    }
}
