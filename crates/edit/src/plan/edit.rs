//! Edits inside one entry.

use rethread_model::{NodeId, Table};
use std::collections::BTreeMap;

use rethread_log::Key;

use crate::shorten::PartCut;

/// The edits of one entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryEdit {
    /// New logical parent of a compaction boundary.
    pub(crate) logical_parent: Option<NodeId>,
    pub(crate) uuid: Option<String>,
    pub(crate) time: Option<String>,
    pub(crate) model: Option<String>,
    /// Edit of the content as a whole.
    pub(crate) content: Option<ContentEdit>,
    /// Edits of single blocks, by index.
    pub(crate) blocks: BTreeMap<usize, BlockEdit>,
    /// A later entry with the same uuid, whose bytes replace this one's.
    pub(crate) replaced_by: Option<NodeId>,
    /// Edit of the client's copy of a result.
    pub(crate) copy: Option<CopyEdit>,
    /// Mark the entry as meta, no longer a user's prompt.
    pub(crate) meta: bool,
    /// Fields to remove.
    pub(crate) removed_fields: Vec<Key>,
    /// New usage of the answer.
    pub(crate) usage: Option<Vec<u8>>,
    /// New metadata of a compaction boundary.
    pub(crate) compact_metadata: Option<Vec<u8>>,
}

/// Edits by node: a dense table, because nearly all entries may change.
#[derive(Debug)]
pub(crate) struct EntryEdits(Table<NodeId, Option<Box<EntryEdit>>>);

impl EntryEdits {
    /// Creates a table for `n` nodes without edits.
    pub(super) fn with_len(n: usize) -> Self {
        Self(std::iter::repeat_with(|| None).take(n).collect())
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&EntryEdit> {
        self.0[node].as_deref()
    }

    pub(crate) fn set(&mut self, node: NodeId, edit: Box<EntryEdit>) {
        self.0[node] = Some(edit);
    }

    /// Returns the edit of a node, created if there is none.
    pub(super) fn at(&mut self, node: NodeId) -> &mut EntryEdit {
        self.0[node].get_or_insert_default()
    }
}

/// An edit of a content as a whole.
#[derive(Debug, Clone)]
pub(crate) enum ContentEdit {
    /// Replace it with this value.
    Replace(Vec<u8>),
    /// Convert a bare string to a list with one text block.
    List,
}

/// An edit of the client's copy of a result.
#[derive(Debug, Clone)]
pub(crate) enum CopyEdit {
    /// Set it to `null`, because the result became text.
    Null,
    /// Remove it with the result.
    Remove,
}

/// The strings to shorten, by node.
#[derive(Debug, Default)]
pub(crate) struct CutTable {
    /// Maximum number of characters of a string.
    pub(crate) limit: usize,
    /// Start and end of the cuts of each node; empty if there are none.
    ranges: Table<NodeId, (u32, u32)>,
    cuts: Vec<PartCut>,
}

impl CutTable {
    /// Returns the cuts in an entry, in byte order.
    pub(crate) fn of_node(&self, node: NodeId) -> &[PartCut] {
        self.ranges.get(node).map_or(&[], |&(start, end)| &self.cuts[start as usize..end as usize])
    }

    /// Records the cuts in an entry; `n` is the number of nodes.
    pub(crate) fn add(&mut self, node: NodeId, n: usize, cuts: impl Iterator<Item = PartCut>) {
        let start = self.cuts.len();
        self.cuts.extend(cuts);
        self.cuts[start..].sort_by_key(|cut| cut.cut.range().start);
        if self.ranges.is_empty() {
            self.ranges = Table::filled((0, 0), n);
        }
        let place = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        self.ranges[node] = (place(start), place(self.cuts.len()));
    }
}

impl EntryEdit {
    /// Returns whether there is no edit.
    pub(crate) fn is_none(&self) -> bool {
        let Self { blocks, copy, removed_fields: without, usage, .. } = self;
        let some = !blocks.is_empty() || copy.is_some() || !without.is_empty() || usage.is_some();
        !some && self.only_removes()
    }

    /// Returns whether the edit only removes blocks or unsent fields, apart from changing usage.
    pub(crate) fn only_removes(&self) -> bool {
        let Self {
            logical_parent: follows,
            uuid,
            time,
            model,
            content,
            blocks,
            replaced_by,
            copy,
            meta,
            removed_fields: _,
            usage: _,
            compact_metadata: compaction,
        } = self;
        let other = follows.is_some()
            || uuid.is_some()
            || time.is_some()
            || model.is_some()
            || content.is_some()
            || replaced_by.is_some()
            || matches!(copy, Some(CopyEdit::Null))
            || *meta
            || compaction.is_some();
        !other && blocks.values().all(|edit| matches!(edit, BlockEdit::Remove))
    }
}

#[derive(Debug, Clone)]
pub(crate) enum BlockEdit {
    Remove,
    /// Replace it with this block.
    Replace(Vec<u8>),
    /// Convert a bare string to a text block.
    Text,
    /// Convert a result whose call is missing to text.
    LostResult,
    /// Set the id of a call, or of the call that a result answers.
    Rename(String),
}
