//! Messages that may be hits.

use rethread_model::{MessageKey, TextSource};

/// A log of a search, as a position in its list.
pub(super) type LogNo = u32;

/// The parts of a query that a message matches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MatchMasks {
    /// The groups, one bit each.
    pub(super) groups: u64,
    /// The groups that one of its blocks matches, of the block that matches most.
    pub(super) in_one_block: u64,
    pub(super) is_excluded: bool,
    /// All words are adjacent, in their order.
    pub(super) has_phrase: bool,
}

/// A message that matches a part of the query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) log: LogNo,
    /// The number of the message; 0 for a title.
    pub(super) message_n: u32,
    pub(super) key: MessageKey,
    pub(super) masks: MatchMasks,
    pub(super) score: f32,
    /// The source of the block that is shown, the most important of those that match.
    pub(super) source: TextSource,
    /// The place of that block.
    pub(super) offset: u64,
    pub(super) block: u32,
    pub(super) time: Option<i64>,
    /// The mask of all groups.
    pub(super) all: u64,
}

impl Candidate {
    pub(super) fn is_same_message(&self, other: &Self) -> bool {
        (self.log, self.message_n) == (other.log, other.message_n)
    }

    /// Returns whether it matches the whole query.
    pub(super) fn is_hit(&self) -> bool {
        self.masks.groups == self.all && !self.masks.is_excluded
    }

    /// Adds another block of the same message.
    pub(super) fn merge(&mut self, other: &Self) {
        if other.order() < self.order() {
            (self.source, self.offset, self.block, self.key) =
                (other.source, other.offset, other.block, other.key);
            self.time = other.time.or(self.time);
        }
        self.score += other.score;
        self.masks.groups |= other.masks.groups;
        self.masks.is_excluded |= other.masks.is_excluded;
        self.masks.has_phrase |= other.masks.has_phrase;
        if other.masks.in_one_block.count_ones() > self.masks.in_one_block.count_ones() {
            self.masks.in_one_block = other.masks.in_one_block;
        }
    }

    /// Returns the order in which the blocks of a message are shown: the one that matches most, then the most important.
    fn order(&self) -> impl Ord + use<> {
        let missing = (self.all & !self.masks.in_one_block).count_ones();
        (!self.masks.has_phrase, missing, self.source, self.offset, self.block)
    }
}

/// Joins the blocks of each message, wherever they were found.
pub(super) fn join_messages(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    candidates.sort_by_key(|candidate| (candidate.log, candidate.message_n));
    let mut joined: Vec<Candidate> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        match joined.last_mut() {
            Some(last) if last.is_same_message(&candidate) => last.merge(&candidate),
            _ => joined.push(candidate),
        }
    }
    joined
}
