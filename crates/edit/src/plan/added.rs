//! Entries that a plan adds.

use std::sync::Arc;

use rethread_log::Key;
use rethread_model::{Facts, FindingKind, NodeId, Reader, Role, Time};

use super::{ChangeCause, PathItem, Plan, deterministic_uuid};
use crate::splice::Splice;

/// An entry that is added.
#[derive(Debug, Clone)]
pub(crate) struct AddedEntry {
    pub(crate) kind: AddedKind,
    pub(crate) cause: ChangeCause,
    pub(crate) uuid: String,
    /// The entry whose session, directory, version and branch it copies.
    pub(crate) template: NodeId,
    /// The fields copied from the template.
    pub(super) envelope: Arc<Envelope>,
    /// Its timestamp.
    pub(crate) time: Time,
    pub(crate) parent: Option<PathItem>,
}

/// The fields of an entry that an added entry copies.
#[derive(Debug, Default)]
pub(super) struct Envelope {
    uuid: String,
    pub(super) fields: Vec<(Key, Box<[u8]>)>,
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

impl Plan<'_> {
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
            cause: ChangeCause { kind: why, node: like },
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
