//! What becomes of the inside of one entry.

use std::collections::BTreeMap;

use rethread_log::Key;

use crate::shorten::PartCut;

/// What becomes of the inside of an entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct EntryEdit {
    /// Another entry that a compaction follows.
    pub(crate) logical_parent: Option<usize>,
    pub(crate) uuid: Option<String>,
    pub(crate) time: Option<String>,
    pub(crate) model: Option<String>,
    /// The content as a whole.
    pub(crate) content: Option<ContentEdit>,
    /// What becomes of single blocks, by place.
    pub(crate) blocks: BTreeMap<usize, BlockEdit>,
    /// The bytes of a later entry with the same uuid, which take its place.
    pub(crate) replaced_by: Option<usize>,
    /// What becomes of the client's copy of a result.
    pub(crate) copy: Option<CopyEdit>,
    /// It is a note now, and nobody's words.
    pub(crate) meta: bool,
    /// Fields that go.
    pub(crate) removed_fields: Vec<Key>,
    /// What the answer cost.
    pub(crate) usage: Option<Vec<u8>>,
    /// What a compaction says of itself.
    pub(crate) compact_metadata: Option<Vec<u8>>,
}

/// What becomes of the inside of entries, by node: a table, for nearly all of them may change.
#[derive(Debug)]
pub(crate) struct EntryEdits(Vec<Option<Box<EntryEdit>>>);

impl EntryEdits {
    /// Begins with so many nodes, none of which changes.
    pub(super) fn with_len(n: usize) -> Self {
        Self(std::iter::repeat_with(|| None).take(n).collect())
    }

    pub(crate) fn get(&self, node: usize) -> Option<&EntryEdit> {
        self.0[node].as_deref()
    }

    pub(crate) fn set(&mut self, node: usize, edit: Box<EntryEdit>) {
        self.0[node] = Some(edit);
    }

    /// The edit of a node, made if there is none.
    pub(super) fn at(&mut self, node: usize) -> &mut EntryEdit {
        self.0[node].get_or_insert_default()
    }
}

/// What becomes of a content as a whole.
#[derive(Debug, Clone)]
pub(crate) enum ContentEdit {
    /// This stands in its place.
    Replace(Vec<u8>),
    /// A bare string becomes a list with a block of text.
    List,
}

/// What becomes of the client's copy of a result.
#[derive(Debug, Clone)]
pub(crate) enum CopyEdit {
    /// It is emptied, for the result became text.
    Null,
    /// It goes with the result.
    Remove,
}

/// What is said in fewer words.
#[derive(Debug, Default)]
pub(crate) struct CutTable {
    /// To how many characters strings are cut.
    pub(crate) limit: usize,
    /// Where the cuts of each node begin and end; empty if nothing is shorter.
    ranges: Vec<(u32, u32)>,
    cuts: Vec<PartCut>,
}

impl CutTable {
    /// What is cut out of an entry, in the order of its bytes.
    pub(crate) fn of_node(&self, node: usize) -> &[PartCut] {
        self.ranges.get(node).map_or(&[], |&(start, end)| &self.cuts[start as usize..end as usize])
    }

    /// Notes what is cut out of an entry, of `n` that there are.
    pub(crate) fn add(&mut self, node: usize, n: usize, cuts: impl Iterator<Item = PartCut>) {
        let start = self.cuts.len();
        self.cuts.extend(cuts);
        self.cuts[start..].sort_by_key(|cut| cut.cut.range().start);
        self.ranges.resize(n, (0, 0));
        let place = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        self.ranges[node] = (place(start), place(self.cuts.len()));
    }
}

impl EntryEdit {
    /// Tells whether nothing changes.
    pub(crate) fn is_none(&self) -> bool {
        let Self { blocks, copy, removed_fields: without, usage, .. } = self;
        let some = !blocks.is_empty() || copy.is_some() || !without.is_empty() || usage.is_some();
        !some && self.only_removes()
    }

    /// Tells whether an entry only loses blocks or what is not sent, but for what the answer cost.
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
    /// This block stands in its place.
    Replace(Vec<u8>),
    /// A bare string becomes a block of text.
    Text,
    /// A result whose call is missing becomes what it says.
    LostResult,
    /// Another id for a call, or for the call that a result answers.
    Rename(String),
}
