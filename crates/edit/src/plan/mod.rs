//! A plan: the action for each entry of a session.
//!
//! A plan records which entries are removed, changed and added, and the order of the path. Repairs and clones
//! are both plans; they differ in who fills them in.

mod added;
mod calls;
mod content;
mod edit;
mod envelopes;
mod linear;
mod lines;
mod links;
mod order;
mod queued;

use std::sync::Arc;

use rethread_model::{BrokenLink, Facts, FindingKind, Node, NodeId, Reader, Role, Table, Time, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::IdMap;
use crate::shorten::{RESULT_COPY, len_without};
use added::Envelope;
pub(crate) use added::{AddedEntry, AddedKind};
pub(crate) use calls::LOST_CALL;
use edit::CutTable;
pub(crate) use edit::{BlockEdit, ContentEdit, CopyEdit, EntryEdit, EntryEdits};
pub(crate) use lines::{checkpoint, edited_line, write_added, write_edited};

/// The action for each entry, the added entries, and the path.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) facts: &'a Facts,
    pub(crate) reader: Reader<'a>,
    /// Entries with a broken parent link, by node, with the parent to use instead.
    broken_links: FxHashMap<NodeId, BrokenLink>,
    /// Removed entries, by node.
    removed: Table<NodeId, bool>,
    /// New parents that differ from those in the file, by node; `Some(None)` makes the entry a root.
    new_parents: Table<NodeId, Option<Option<PathItem>>>,
    /// The first cause why an entry is removed or changed, by node; `None` if the recipe asked for it.
    causes: Table<NodeId, Option<ChangeCause>>,
    /// Edits inside entries, by node.
    pub(crate) edits: EntryEdits,
    /// Strings that are shortened.
    pub(crate) cuts: CutTable,
    /// Entries that the plan adds.
    pub(crate) added: Vec<AddedEntry>,
    /// The conversation, in output order.
    pub(crate) path: Vec<PathItem>,
    /// Entries on the path without a parent: those after a compaction.
    pub(crate) path_starts: FxHashSet<NodeId>,
    /// The first entry of each uuid, among those that clients treat as part of the tree; empty if all uuids are
    /// unique.
    by_uid: FxHashMap<Uid, NodeId>,
    /// Added results, each with the position of its call on the path.
    results_to_place: Vec<(usize, usize)>,
    /// The envelopes of entries that added ones copy, each parsed once: thousands of results may be added to one
    /// long entry.
    envelopes: FxHashMap<NodeId, Arc<Envelope>>,
    /// Call ids in use; filled when the first call is renamed.
    call_names: FxHashSet<String>,
    /// A result precedes its call.
    pub(crate) misplaced: bool,
    /// No entry has a time.
    timeless: bool,
}

/// The finding because of which an entry is removed, changed or added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeCause {
    pub(crate) kind: FindingKind,
    /// The entry concerned. It may be another one: the child of a removed entry is reparented because of that entry.
    pub(crate) node: NodeId,
}

/// One entry of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PathItem {
    /// An entry of the source.
    Source(NodeId),
    /// An added entry, as an index into [`Plan::added`].
    Added(usize),
}

impl PathItem {
    /// Returns the entry of the source; `None` if it is added.
    pub(crate) fn source(self) -> Option<NodeId> {
        match self {
            Self::Source(node) => Some(node),
            Self::Added(_) => None,
        }
    }
}

/// Extent of an edit: whether the entry is removed, how many blocks change, whether its content is replaced.
pub(crate) type EditExtent = (bool, u32, bool);

impl<'a> Plan<'a> {
    /// Creates a plan for a conversation with these entries.
    pub(crate) fn new(
        facts: &'a Facts,
        reader: Reader<'a>,
        path: impl IntoIterator<Item = NodeId>,
        broken_links: Vec<BrokenLink>,
    ) -> Self {
        let path = path.into_iter().map(PathItem::Source).collect();
        let mut by_uid = FxHashMap::default();
        if facts.has_duplicates() {
            for (node, fact) in facts.nodes.iter_enumerated().filter(|(_, fact)| in_tree(fact)) {
                by_uid.entry(fact.uid).or_insert(node);
            }
        }
        let first = |node: NodeId| by_uid.get(&facts.nodes[node].uid).copied().unwrap_or(node);
        let repaired = |link: BrokenLink| BrokenLink { parent: link.parent.map(first), ..link };
        let broken_links = broken_links.into_iter().map(|link| (first(link.node), repaired(link))).collect();
        let n = facts.nodes.len();
        Self {
            facts,
            reader,
            broken_links,
            removed: Table::filled(false, n),
            new_parents: Table::filled(None, n),
            causes: Table::filled(None, n),
            edits: EntryEdits::with_len(n),
            cuts: CutTable::default(),
            added: Vec::new(),
            path,
            path_starts: FxHashSet::default(),
            by_uid,
            results_to_place: Vec::new(),
            envelopes: FxHashMap::default(),
            call_names: FxHashSet::default(),
            misplaced: false,
            timeless: facts.nodes.iter().all(|fact| fact.time.is_none()),
        }
    }

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.facts.nodes[node]
    }

    /// Returns the first entry with the uuid of this one.
    pub(crate) fn first_with_uuid(&self, node: NodeId) -> NodeId {
        self.by_uid.get(&self.node(node).uid).copied().unwrap_or(node)
    }

    /// Returns the parent of an entry, if it is in the file.
    fn parent_of(&self, node: NodeId) -> Option<NodeId> {
        if !self.by_uid.is_empty() {
            return self.node(node).parent.and_then(|parent| self.by_uid.get(&parent).copied());
        }
        self.facts.parent_of(node).filter(|&parent| in_tree(self.node(parent)))
    }

    /// Returns the parent of an entry, of any type; where its link is broken, the parent to use instead.
    pub(crate) fn effective_parent(&self, node: NodeId) -> Option<NodeId> {
        if let Some(link) = self.broken_links.get(&node) {
            return link.parent;
        }
        let from = self.content_node(node);
        self.parent_of(from).or_else(|| self.facts.parent_of(from))
    }

    /// Returns all entries, each after its parent.
    pub(crate) fn top_down(&self) -> Vec<NodeId> {
        let n = self.facts.nodes.len();
        let (mut order, mut seen) = (Vec::with_capacity(n), Table::filled(false, n));
        for node in self.facts.nodes.keys() {
            let begin = order.len();
            let mut at = Some(node);
            while let Some(node) = at.filter(|&node| !std::mem::replace(&mut seen[node], true)) {
                order.push(node);
                at = self.effective_parent(node);
            }
            order[begin..].reverse();
        }
        order
    }

    fn edit(&mut self, node: NodeId, why: FindingKind) -> &mut EntryEdit {
        self.edit_because(node, ChangeCause { kind: why, node })
    }

    fn edit_because(&mut self, node: NodeId, cause: ChangeCause) -> &mut EntryEdit {
        self.causes[node].get_or_insert(cause);
        self.requested_edit(node)
    }

    /// Returns the edit of an entry that a recipe asked for.
    pub(crate) fn requested_edit(&mut self, node: NodeId) -> &mut EntryEdit {
        self.edits.at(node)
    }

    fn drop_entry(&mut self, node: NodeId, why: FindingKind) {
        self.causes[node].get_or_insert(ChangeCause { kind: why, node });
        self.drop_requested(node);
    }

    /// Drops an entry because a recipe asked for it.
    pub(crate) fn drop_requested(&mut self, node: NodeId) {
        self.removed[node] = true;
    }

    pub(crate) fn is_dropped(&self, node: NodeId) -> bool {
        self.removed[node]
    }

    fn reparent(&mut self, node: NodeId, parent: Option<PathItem>, cause: ChangeCause) {
        self.causes[node].get_or_insert(cause);
        self.new_parents[node] = Some(parent);
    }

    /// Returns the new parent of an entry, if it differs.
    pub(crate) fn new_parent(&self, node: NodeId) -> Option<Option<PathItem>> {
        self.new_parents[node]
    }

    /// Returns the first cause why an entry is removed or changed. An entry that a recipe changes has none, and
    /// repairs have no recipe.
    pub(crate) fn cause(&self, node: NodeId) -> ChangeCause {
        self.causes[node].unwrap_or(ChangeCause { kind: FindingKind::Incomplete, node })
    }

    fn reason(&self, node: NodeId) -> Option<FindingKind> {
        self.causes[node].map(|cause| cause.kind)
    }

    /// Returns whether an entry is kept unchanged, wherever it is placed.
    pub(crate) fn is_unchanged(&self, node: NodeId) -> bool {
        let inside = self.edits.get(node).is_some() || !self.cuts.of_node(node).is_empty();
        !self.removed[node] && self.new_parents[node].is_none() && !inside
    }

    /// Returns the length of a block after shortening; `None` if it is not shortened.
    pub(crate) fn short_len(&self, node: NodeId, block: usize) -> Option<usize> {
        let part = u32::try_from(block).ok()?;
        let of_all = self.cuts.of_node(node);
        let of_block = &of_all[of_all.partition_point(|cut| cut.part < part)..];
        let mut cuts = of_block.iter().take_while(|cut| cut.part == part).map(|cut| &cut.cut).peekable();
        cuts.peek()?;
        Some(len_without(self.facts.blocks_of(node)[block].len as usize, cuts))
    }

    /// Returns whether any block of an entry is changed or removed.
    pub(crate) fn changes_blocks(&self, node: NodeId) -> bool {
        let edited = self.edits.get(node).is_some_and(|edit| !edit.blocks.is_empty());
        edited || self.cuts.of_node(node).iter().any(|cut| cut.part != RESULT_COPY)
    }

    /// Returns whether the client's copy of a result is changed or removed.
    pub(crate) fn changes_copy(&self, node: NodeId) -> bool {
        let edited = self.edits.get(node).is_some_and(|edit| edit.copy.is_some());
        edited || self.cuts.of_node(node).iter().any(|cut| cut.part == RESULT_COPY)
    }

    /// Returns the extent of the edit of an entry.
    pub(crate) fn edit_extent(&self, node: NodeId) -> EditExtent {
        let edit = self.edits.get(node);
        let n_blocks = edit.map_or(0, |edit| u32::try_from(edit.blocks.len()).unwrap_or(u32::MAX));
        (self.removed[node], n_blocks, edit.is_some_and(|edit| edit.content.is_some()))
    }

    /// Returns the id that an entry will have.
    pub(crate) fn new_id(&self, item: PathItem, names: &IdMap<'_>) -> String {
        match item {
            PathItem::Added(new) => names.new_entry_id(&self.added[new].uuid).into_owned(),
            PathItem::Source(node) => match self.edits.get(node).and_then(|edit| edit.uuid.as_ref()) {
                Some(uuid) => names.new_entry_id(uuid).into_owned(),
                None => names.new_id_or(self.node(node).uid, || self.reader.uuid(node)),
            },
        }
    }

    /// Decides every repair except the order.
    pub(crate) fn repair(&mut self) {
        self.repair_duplicates();
        self.repair_envelopes();
        self.repair_contents();
        self.repair_calls();
        self.drop_empty_entries();
        self.repair_beginning();
        self.repair_links();
    }

    /// Returns the entries of the source on the path.
    pub(crate) fn path_nodes(&self) -> Vec<NodeId> {
        let old = |item: &PathItem| match item {
            PathItem::Source(node) => Some(*node),
            PathItem::Added(_) => None,
        };
        self.path.iter().filter_map(old).collect()
    }

    /// Returns whether each entry of the source is on the path, by node.
    pub(crate) fn on_path(&self) -> Table<NodeId, bool> {
        let mut on_path = Table::filled(false, self.facts.nodes.len());
        for node in self.path_nodes() {
            on_path[node] = true;
        }
        on_path
    }

    /// Makes the conversation after the last compaction begin with a user entry.
    fn repair_beginning(&mut self) {
        let boundary = |item: &PathItem| match *item {
            PathItem::Source(node) => self.node(node).flags.is_boundary() && !self.is_dropped(node),
            PathItem::Added(new) => matches!(self.added[new].kind, AddedKind::Boundary { .. }),
        };
        let begin = self.path.iter().rposition(boundary).map_or(0, |at| at + 1);
        let first = self.path[begin..].iter().position(|item| match *item {
            PathItem::Source(node) => self.node(node).is_conversation() && !self.is_dropped(node),
            PathItem::Added(_) => true,
        });
        let Some(at) = first.map(|at| begin + at) else {
            // Nothing remains after a compaction; clients would continue before it, each in a different place.
            if let Some(&PathItem::Source(node)) =
                begin.checked_sub(1).and_then(|boundary| self.path.get(boundary))
            {
                let new = self.add(AddedKind::Beginning, FindingKind::NoConversation, node, 1);
                self.path.push(PathItem::Added(new));
            }
            return;
        };
        if let PathItem::Source(node) = self.path[at]
            && self.node(node).role == Role::Assistant
            && !self.node(node).flags.is_failure_report()
        {
            let new = self.add(AddedKind::Beginning, FindingKind::BeginsWithAnswer, node, -1);
            self.path.insert(at, PathItem::Added(new));
        }
    }

    /// Returns the time of an entry, or the one that it gets because it has none.
    pub(crate) fn final_time(&self, node: NodeId) -> Option<Time> {
        match self.edits.get(node).and_then(|edit| edit.time.as_deref()) {
            Some(time) => Time::parse(time.as_bytes()),
            None => self.node(node).time,
        }
    }

    /// Returns the time that an entry will have; without one, that of the nearest entry before it in the file, else of
    /// the first entry that has one.
    fn time_of(&self, node: NodeId) -> Option<Time> {
        if let Some(time) = self.edits.get(node).and_then(|edit| edit.time.as_deref()) {
            return Time::parse(time.as_bytes());
        }
        if self.timeless {
            return self.node(node).time;
        }
        let own = self.node(self.content_node(node)).time;
        let (before, after) = self.facts.nodes.as_slice().split_at(node.index());
        own.or_else(|| before.iter().rev().chain(after).find_map(|fact| fact.time))
    }

    pub(crate) fn kept_path(&self) -> Vec<PathItem> {
        let kept = |item: &PathItem| match *item {
            PathItem::Source(node) => !self.is_dropped(node),
            PathItem::Added(_) => true,
        };
        self.path.iter().copied().filter(kept).collect()
    }
}

/// Returns whether clients treat an entry as part of the tree.
fn in_tree(fact: &Node) -> bool {
    !matches!(fact.role, Role::Progress | Role::Other)
}

/// Derives a message id from a uuid.
pub(crate) fn message_id(uuid: &str) -> String {
    format!("msg_{}", &uuid.replace('-', "")[..24])
}

/// Derives a uuid that is the same in every run.
pub(crate) fn deterministic_uuid(seed: &str) -> String {
    let uuid = uuid_of(xxhash_rust::xxh3::xxh3_128(seed.as_bytes()));
    String::from_utf8_lossy(&uuid).into_owned()
}

/// Formats a number as a UUID of version 4.
pub(crate) fn uuid_of(number: u128) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for (n, byte) in number.to_be_bytes().into_iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    (text[14], text[19]) = (b'4', b'8');
    text
}
