//! A plan: the action for each entry of a session.
//!
//! A plan records which entries are removed, changed and added, and the order of the path. Repairs and clones
//! are both plans; they differ in who fills them in.

mod calls;
mod content;
mod edit;
mod lines;
mod order;
mod queued;

use std::sync::Arc;

use rethread_log::Key;
use rethread_model::{
    BlockClass, BrokenLink, Facts, FindingKind, Node, NodeId, Reader, Role, Table, Time, Uid,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::IdMap;
use crate::shorten::{RESULT_COPY, len_without};
use crate::splice::Splice;
pub(crate) use calls::LOST_CALL;
use edit::CutTable;
pub(crate) use edit::{BlockEdit, ContentEdit, CopyEdit, EntryEdit, EntryEdits};
pub(crate) use lines::{checkpoint, edited_line, write_added, write_edited};
use order::OrderState;

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
    /// The first reason why an entry is removed or changed, by node; `None` if the recipe asked for it.
    reasons: Table<NodeId, Option<FindingKind>>,
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

/// One entry of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PathItem {
    /// An entry of the source.
    Source(NodeId),
    /// An added entry, as an index into [`Plan::added`].
    Added(usize),
}

/// Extent of an edit: whether the entry is removed, how many blocks change, whether its content is replaced.
pub(crate) type EditExtent = (bool, u32, bool);

/// An entry that is added.
#[derive(Debug, Clone)]
pub(crate) struct AddedEntry {
    pub(crate) kind: AddedKind,
    pub(crate) reason: FindingKind,
    pub(crate) uuid: String,
    /// The entry whose session, directory, version and branch it copies.
    pub(crate) template: NodeId,
    /// The fields copied from the template.
    envelope: Arc<Envelope>,
    /// Its timestamp.
    pub(crate) time: Time,
    pub(crate) parent: Option<PathItem>,
}

/// The fields of an entry that an added entry copies.
#[derive(Debug, Default)]
struct Envelope {
    uuid: String,
    fields: Vec<(Key, Box<[u8]>)>,
}

impl Envelope {
    fn new(reader: Reader<'_>, facts: &Facts, node: NodeId) -> Self {
        let raw = reader.entry_bytes(facts.nodes[node].entry);
        let line = Splice::new(raw).line;
        let keys = [Key::Cwd, Key::SessionId, Key::Version, Key::GitBranch];
        let field =
            |key: Key| Some((key, line.field(key).bytes_in(raw))).filter(|(_, value)| !value.is_empty());
        let fields = keys.into_iter().filter_map(field).map(|(key, value)| (key, value.into())).collect();
        Self { uuid: reader.uuid(node), fields }
    }
}

#[derive(Debug, Clone)]
pub(crate) enum AddedKind {
    /// The result of a call that has none.
    Result { call: String },
    /// A user entry before the first answer.
    Beginning,
    /// The answer that clients insert after a prompt without one.
    NoReply,
    /// A system entry that only marks the end.
    End,
    /// A compaction boundary, with the number of tokens of the conversation before it.
    Boundary { tokens: u64 },
    /// The summary that replaces the turns before a compaction.
    Summary { text: String },
}

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
            reasons: Table::filled(None, n),
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
        self.reasons[node].get_or_insert(why);
        self.requested_edit(node)
    }

    /// Returns the edit of an entry that a recipe asked for.
    pub(crate) fn requested_edit(&mut self, node: NodeId) -> &mut EntryEdit {
        self.edits.at(node)
    }

    fn drop_entry(&mut self, node: NodeId, why: FindingKind) {
        self.reasons[node].get_or_insert(why);
        self.drop_requested(node);
    }

    /// Drops an entry because a recipe asked for it.
    pub(crate) fn drop_requested(&mut self, node: NodeId) {
        self.removed[node] = true;
    }

    pub(crate) fn is_dropped(&self, node: NodeId) -> bool {
        self.removed[node]
    }

    fn reparent(&mut self, node: NodeId, parent: Option<PathItem>, why: FindingKind) {
        self.reasons[node].get_or_insert(why);
        self.new_parents[node] = Some(parent);
    }

    /// Returns the new parent of an entry, if it differs.
    pub(crate) fn new_parent(&self, node: NodeId) -> Option<Option<PathItem>> {
        self.new_parents[node]
    }

    /// Returns the first reason why an entry is removed or changed; `None` if the recipe asked for it.
    pub(crate) fn reason(&self, node: NodeId) -> Option<FindingKind> {
        self.reasons[node]
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

    /// Keeps the last of several entries with one uuid, in the place of the first.
    fn repair_duplicates(&mut self) {
        let mut last_of: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        let n = if self.by_uid.is_empty() { 0 } else { self.facts.nodes.len() };
        for node in self.facts.nodes.keys().take(n) {
            let first = self.first_with_uuid(node);
            if first != node && in_tree(self.node(node)) {
                // An entry that cannot be sent does not replace one that can.
                let fact = self.node(node);
                if !fact.is_conversation() || !fact.flags.lacks_message() && !self.has_invalid_content(node) {
                    last_of.insert(first, node);
                }
                self.drop_entry(node, FindingKind::DuplicateUuid);
            }
        }
        for (first, last) in last_of {
            if self.reader.entry_bytes(self.node(first).entry).trim_ascii()
                != self.reader.entry_bytes(self.node(last).entry).trim_ascii()
            {
                self.edit(first, FindingKind::DuplicateUuid).replaced_by = Some(last);
            }
        }
        if self.by_uid.is_empty() {
            return;
        }
        // The path contains the last one; it moves to the place of the first.
        for item in &mut self.path {
            if let PathItem::Source(node) = item {
                *node = self.by_uid.get(&self.facts.nodes[*node].uid).copied().unwrap_or(*node);
            }
        }
    }

    /// Repairs envelopes: entries need an id, a message and a time; answers need a message id and a model.
    fn repair_envelopes(&mut self) {
        let mut before = self.facts.nodes.iter().find_map(|fact| fact.time);
        for (node, &on_path) in self.on_path().iter_enumerated() {
            let fact = self.node(self.content_node(node));
            let flags = fact.flags;
            if fact.time.is_some() {
                before = fact.time;
            } else if fact.is_conversation() && !on_path && !self.is_dropped(node) {
                // Some clients fail on a leaf without a time, on any branch.
                if let Some(iso) = before.and_then(|time| time.to_iso()) {
                    self.edit(node, FindingKind::NoTime).time = Some(iso);
                }
            }
            if self.node(node).is_conversation() && flags.lacks_message() {
                self.drop_entry(node, FindingKind::Incomplete);
            } else if self.node(node).is_conversation()
                && !flags.is_sidechain()
                && self.has_invalid_content(node)
            {
                // Clients that collect the entries of a message fail on it, on any branch.
                self.drop_entry(node, FindingKind::InvalidContent);
            } else if flags.lacks_uuid() {
                self.edit(node, FindingKind::Incomplete).uuid =
                    Some(deterministic_uuid(&format!("uuid {node}")));
            }
        }
        let path = self.path_nodes();
        let timed = path.iter().find_map(|&node| self.node(node).time);
        let mut time = timed.or_else(|| path.first().and_then(|&first| self.time_of(first)));
        let mut model: Option<&str> = None;
        let first_model = path.iter().find_map(|&node| self.model_of(node));
        for node in path {
            let fact = *self.node(self.content_node(node));
            if fact.time.is_none() {
                if let Some(iso) = time.and_then(|time| time.to_iso()) {
                    self.edit(node, FindingKind::NoTime).time = Some(iso);
                }
            } else {
                time = fact.time;
            }
            if self.is_dropped(node) {
                continue;
            }
            if fact.role != Role::Assistant {
                if fact.role == Role::Attachment && fact.flags.is_fatal_attachment() {
                    self.drop_entry(node, FindingKind::InvalidAttachment);
                }
                continue;
            }
            match self.model_of(node) {
                Some(own) => model = Some(own),
                None if fact.flags.lacks_model() => {
                    let taken = model.or(first_model).unwrap_or("<synthetic>").to_owned();
                    self.edit(node, FindingKind::NoModel).model = Some(taken);
                }
                None => {}
            }
        }
    }

    /// Returns whether the newest client would reject the content of an entry.
    fn has_invalid_content(&self, node: NodeId) -> bool {
        let from = self.content_node(node);
        let blocks = self.facts.blocks_of(from);
        let is_invalid = |class: BlockClass| matches!(class, BlockClass::Untyped | BlockClass::Null);
        self.node(from).flags.has_malformed_content()
            || !blocks.is_empty() && blocks.iter().all(|block| is_invalid(block.class))
    }

    fn model_of(&self, node: NodeId) -> Option<&'a str> {
        self.facts.model_of(self.content_node(node)).filter(|&model| model != "<synthetic>")
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

    pub(crate) fn add(&mut self, kind: AddedKind, why: FindingKind, like: NodeId, millis: i64) -> usize {
        let time = Time::from_millis(self.time_of(like).map_or(0, Time::millis) + millis);
        let (reader, facts) = (self.reader, self.facts);
        let read = || Arc::new(Envelope::new(reader, facts, like));
        let envelope = Arc::clone(self.envelopes.entry(like).or_insert_with(read));
        // The seed contains the names of `AddedKind` variants and their fields (`{kind:?}`): to rename one changes
        // generated uuids. A summary may be very long, so its hash is used.
        let label = match &kind {
            AddedKind::Summary { text } => {
                format!("Summary {:x}", xxhash_rust::xxh3::xxh3_128(text.as_bytes()))
            }
            kind => format!("{kind:?}"),
        };
        let seed = format!("{label} {} {}", envelope.uuid, self.added.len());
        self.added.push(AddedEntry {
            kind,
            reason: why,
            uuid: deterministic_uuid(&seed),
            template: like,
            envelope,
            time,
            parent: None,
        });
        self.added.len() - 1
    }

    /// Adds an entry that a recipe asked for.
    pub(crate) fn add_requested(&mut self, kind: AddedKind, like: NodeId, millis: i64) -> usize {
        self.add(kind, FindingKind::Incomplete, like, millis)
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

    /// Sets the parent of entries with a broken link, and reparents children of removed entries to the replacement.
    fn repair_links(&mut self) {
        let kept = self.nearest_kept();
        let replacements = self.replacements(&kept);
        let parent_for = |plan: &Self, node: NodeId| {
            let mut above = plan.effective_parent(node)?;
            // On another call of its message a result would be treated as the result of that call.
            if plan.calls_answered(node).next().is_some() {
                return kept[above].map(PathItem::Source);
            }
            let mut seen = FxHashSet::default();
            // An entry may replace its own ancestors; it then takes over their parent.
            while replacements[above] == Some(node) {
                above = plan.effective_parent(above).filter(|_| seen.insert(above))?;
            }
            replacements[above].map(PathItem::Source)
        };
        let mut broken: Vec<(NodeId, rethread_model::LinkDefect)> =
            self.broken_links.iter().map(|(&node, link)| (node, link.defect)).collect();
        broken.sort_unstable_by_key(|&(node, _)| node);
        for (node, why) in broken {
            let why = match why {
                rethread_model::LinkDefect::Dangling => FindingKind::DanglingParent,
                rethread_model::LinkDefect::NoParent => FindingKind::NoParent,
                rethread_model::LinkDefect::Cycle => FindingKind::Cycle,
            };
            self.reparent(node, parent_for(self, node), why);
        }
        for node in self.facts.nodes.keys() {
            if self.broken_links.contains_key(&node) || self.is_dropped(node) {
                continue;
            }
            let Some(parent) = self.effective_parent(node).filter(|&parent| self.is_dropped(parent)) else {
                continue;
            };
            if self.first_with_uuid(parent) != parent && self.parent_of(node).is_some() {
                continue;
            }
            self.reasons[node] = self.reasons[node].or(self.reasons[parent]);
            self.new_parents[node] = Some(parent_for(self, node));
        }
        self.link_added();
    }

    fn is_same_message(&self, one: NodeId, other: NodeId) -> bool {
        self.node(one).message().is_some_and(|message| self.node(other).message() == Some(message))
    }

    /// Returns the replacement of every entry: itself if it is kept, else another entry of its message above or
    /// below it, else the replacement of its parent.
    pub(crate) fn replacements(&self, kept: &Table<NodeId, Option<NodeId>>) -> Table<NodeId, Option<NodeId>> {
        let siblings = self.siblings();
        self.nearest(|node| {
            let near = |&above: &NodeId| above == node || self.is_same_message(above, node);
            let above = kept[node].filter(near);
            above.or(siblings.get(&node).copied())
        })
    }

    /// Returns for every entry its nearest kept ancestor, itself included.
    pub(crate) fn nearest_kept(&self) -> Table<NodeId, Option<NodeId>> {
        self.nearest(|node| (!self.is_dropped(node)).then_some(node))
    }

    /// Returns for every entry the first result of `find` on the path to the root.
    fn nearest(&self, find: impl Fn(NodeId) -> Option<NodeId>) -> Table<NodeId, Option<NodeId>> {
        let mut nearest: Table<NodeId, Option<NodeId>> = Table::filled(None, self.facts.nodes.len());
        for node in self.top_down() {
            nearest[node] = find(node).or_else(|| nearest[self.effective_parent(node)?]);
        }
        nearest
    }

    /// Maps dropped entries to a kept descendant of the same message, if no kept entry and no other message is in
    /// between.
    fn siblings(&self) -> FxHashMap<NodeId, NodeId> {
        let mut found = FxHashMap::default();
        for (kept, fact) in self.facts.nodes.iter_enumerated() {
            if fact.role != Role::Assistant || self.is_dropped(kept) {
                continue;
            }
            let mut at = self.effective_parent(kept);
            let mut between = 0;
            while let Some(above) = at.filter(|&above| self.is_dropped(above) && between < MAX_BETWEEN) {
                if self.is_same_message(above, kept) {
                    if found.contains_key(&above) {
                        break;
                    }
                    found.insert(above, kept);
                } else if self.node(above).role == Role::Assistant {
                    break;
                } else {
                    between += 1;
                }
                at = self.effective_parent(above);
            }
        }
        found
    }

    /// Sets the parents of added entries, and of the entries after them, to the preceding entry on the path.
    fn link_added(&mut self) {
        let path = self.kept_path();
        for at in 0..path.len() {
            let before = at.checked_sub(1).map(|before| path[before]);
            let follows_new = at > 0 && matches!(path[at - 1], PathItem::Added(_));
            match path[at] {
                PathItem::Added(new) => self.added[new].parent = before,
                PathItem::Source(node) if follows_new => {
                    let why = match path[at - 1] {
                        PathItem::Added(new) => self.added[new].reason,
                        PathItem::Source(_) => continue,
                    };
                    self.reparent(node, before, why);
                }
                PathItem::Source(_) => {}
            }
        }
    }

    pub(crate) fn kept_path(&self) -> Vec<PathItem> {
        let kept = |item: &PathItem| match *item {
            PathItem::Source(node) => !self.is_dropped(node),
            PathItem::Added(_) => true,
        };
        self.path.iter().copied().filter(kept).collect()
    }

    /// Makes the path linear, so that clients without any rule for forks follow all of it.
    pub(crate) fn linearise(&mut self) {
        let kept = self.kept_path();
        let begins =
            |item: &PathItem| matches!(item, PathItem::Source(node) if self.path_starts.contains(node));
        // The ranges between compactions are ordered separately.
        let mut path: Vec<PathItem> = Vec::with_capacity(kept.len());
        let mut so_far = OrderState::new(self);
        let mut rest = &kept[..];
        while !rest.is_empty() {
            let end = rest[1..].iter().position(begins).map_or(rest.len(), |at| at + 1);
            path.extend(self.ordered(&rest[..end], &mut so_far));
            rest = &rest[end..];
        }
        self.path = path;
        let on_path = self.on_path();
        let mut before: Option<PathItem> = None;
        for at in 0..self.path.len() {
            let item = self.path[at];
            match item {
                PathItem::Added(new) => self.added[new].parent = before,
                PathItem::Source(node) => {
                    let from = self.content_node(node);
                    let now =
                        self.new_parents[node].unwrap_or_else(|| self.parent_of(from).map(PathItem::Source));
                    let named = self.node(from).parent.is_some();
                    let first = at == 0 || self.path_starts.contains(&node);
                    // The first entry keeps its parent, unless that is missing or comes later on the path.
                    let loops = matches!(now, Some(PathItem::Source(parent)) if on_path[parent]);
                    let wanted = match first {
                        true => now.filter(|_| !(loops && at == 0)),
                        false => before,
                    };
                    if wanted != now || first && now.is_none() && named {
                        self.reparent(node, wanted, FindingKind::ParallelCalls);
                    }
                }
            }
            before = Some(item);
        }
        self.reparent_boundaries();
    }

    /// Moves the logical parent of a boundary to an entry before the boundary if the compaction kept the old one:
    /// kept entries now follow the boundary.
    fn reparent_boundaries(&mut self) {
        let is_boundary =
            |item: &PathItem| matches!(*item, PathItem::Source(node) if self.node(node).flags.is_boundary());
        if !self.path.iter().any(is_boundary) {
            return;
        }
        let mut place: FxHashMap<NodeId, usize> = FxHashMap::default();
        for (at, item) in self.path.iter().enumerate() {
            if let PathItem::Source(node) = item {
                place.insert(*node, at);
            }
        }
        let boundaries: Vec<(NodeId, usize)> = place
            .iter()
            .map(|(&node, &at)| (node, at))
            .filter(|&(node, _)| self.node(node).flags.is_boundary())
            .collect();
        for (boundary, at) in boundaries {
            let after = |node: &NodeId| place.get(node).is_some_and(|&place| place >= at);
            let mut follows = self.facts.logical_parent_of(boundary);
            if follows.as_ref().is_none_or(|node| !after(node)) {
                continue;
            }
            let mut seen = FxHashSet::default();
            while let Some(node) = follows.filter(|node| after(node) || self.is_dropped(*node)) {
                follows = self.effective_parent(node).filter(|_| seen.insert(node));
            }
            if follows.is_some() {
                self.requested_edit(boundary).logical_parent = follows;
            }
        }
    }

    /// Returns whether the last message is the model's, not a subagent's: no client continues after that. A queued
    /// prompt after it is unanswered; 2.1.112 does not find it unless an entry follows.
    pub(crate) fn ends_with_answer(&self) -> bool {
        let is_answer = |item: &PathItem| match *item {
            PathItem::Source(node) if self.node(node).flags.is_queued_prompt() => Some(false),
            PathItem::Source(node) if self.node(node).is_conversation() => {
                Some(self.node(node).role == Role::Assistant && !self.node(node).flags.is_sidechain())
            }
            PathItem::Added(new) => match self.added[new].kind {
                AddedKind::Result { .. } | AddedKind::Beginning | AddedKind::Summary { .. } => Some(false),
                AddedKind::NoReply => Some(true),
                AddedKind::End | AddedKind::Boundary { .. } => None,
            },
            PathItem::Source(_) => None,
        };
        self.kept_path().iter().rev().find_map(is_answer).unwrap_or(true)
    }

    /// Adds a last entry that is newer than all others, so that every client continues there.
    pub(crate) fn mark_end(&mut self) {
        let path = self.kept_path();
        let Some(&last) = path.last() else { return };
        let like_of = |item: &PathItem| match *item {
            PathItem::Source(node) => node,
            PathItem::Added(new) => self.added[new].template,
        };
        let like =
            like_of(path.iter().rev().find(|item| matches!(item, PathItem::Source(_))).unwrap_or(&last));
        let asks = !self.ends_with_answer();
        let kind = if asks { AddedKind::NoReply } else { AddedKind::End };
        let added = self.added.iter().map(|new| new.time);
        let newest = self.facts.nodes.iter().filter_map(|node| node.time).chain(added).max();
        let millis =
            newest.zip(self.time_of(like)).map_or(1, |(newest, now)| newest.millis() - now.millis() + 2);
        let new = self.add(kind, FindingKind::OtherBranch, like, millis);
        self.added[new].parent = Some(last);
        self.path.push(PathItem::Added(new));
    }

    /// Removes the entry that marks the end.
    pub(crate) fn unmark_end(&mut self) {
        let is_mark = |new: &AddedEntry| matches!(new.kind, AddedKind::End | AddedKind::NoReply);
        if self.added.pop_if(|new| is_mark(new)).is_some() {
            self.path.pop();
        }
    }
}

/// Maximum number of results and notes skipped between the entries of one message.
const MAX_BETWEEN: usize = 100;

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
