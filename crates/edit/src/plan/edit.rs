//! What becomes of the inside of one entry.

use std::collections::BTreeMap;

use rethread_log::Key;

use crate::shorten::Cut;

/// What becomes of the inside of an entry.
#[derive(Debug, Clone, Default)]
pub(crate) struct Edit {
    /// Another entry that a compaction follows.
    pub(crate) follows: Option<usize>,
    pub(crate) uuid: Option<String>,
    pub(crate) time: Option<String>,
    pub(crate) model: Option<String>,
    /// The content as a whole.
    pub(crate) content: Option<Vec<u8>>,
    /// What becomes of single blocks, by place.
    pub(crate) blocks: BTreeMap<usize, BlockEdit>,
    /// What is said in fewer words.
    pub(crate) short: Option<Short>,
    /// The bytes of a later entry with the same uuid, which take its place.
    pub(crate) replaced_by: Option<usize>,
    /// What becomes of the client's copy of a result.
    pub(crate) copy: Option<CopyEdit>,
    /// It is a note now, and nobody's words.
    pub(crate) meta: bool,
    /// Fields that go.
    pub(crate) without: Vec<Key>,
    /// What the answer cost.
    pub(crate) usage: Option<Vec<u8>>,
    /// What a compaction says of itself.
    pub(crate) compaction: Option<Vec<u8>>,
}

/// What becomes of the client's copy of a result.
#[derive(Debug, Clone)]
pub(crate) enum CopyEdit {
    /// It is emptied, for the result became text.
    Null,
    /// It goes with the result.
    Remove,
    /// Its strings are in fewer words.
    Shorten,
}

/// What of an entry is said in fewer words.
#[derive(Debug, Clone)]
pub(crate) struct Short {
    /// To how many characters strings are cut.
    pub(crate) limit: usize,
    /// What goes of the entry's bytes, in their order.
    pub(crate) cuts: Vec<Cut>,
    /// The blocks that are shorter, by place, with how long they are.
    pub(crate) blocks: Vec<(usize, usize)>,
}

impl Edit {
    /// How long a block is, if it is shorter.
    pub(crate) fn short_len(&self, block: usize) -> Option<usize> {
        let blocks = &self.short.as_ref()?.blocks;
        blocks.binary_search_by_key(&block, |&(at, _)| at).ok().map(|n| blocks[n].1)
    }

    /// Tells whether any block changes or goes.
    pub(crate) fn changes_blocks(&self) -> bool {
        !self.blocks.is_empty() || self.short.as_ref().is_some_and(|short| !short.blocks.is_empty())
    }

    /// What goes of the entry's bytes, if nothing else changes.
    pub(crate) fn only_cuts(&self) -> Option<&[Cut]> {
        let Self {
            follows,
            uuid,
            time,
            model,
            content,
            blocks,
            short,
            replaced_by,
            copy,
            meta,
            without,
            usage,
            compaction,
        } = self;
        let other = follows.is_some()
            || uuid.is_some()
            || time.is_some()
            || model.is_some()
            || content.is_some()
            || !blocks.is_empty()
            || replaced_by.is_some()
            || matches!(copy, Some(CopyEdit::Null | CopyEdit::Remove))
            || *meta
            || !without.is_empty()
            || usage.is_some()
            || compaction.is_some();
        (!other).then(|| short.as_ref().map_or(&[][..], |short| &short.cuts))
    }
}

#[derive(Debug, Clone)]
pub(crate) enum BlockEdit {
    Remove,
    Replace(Vec<Vec<u8>>),
    /// Another id for a call, or for the call that a result answers.
    Rename(String),
}
