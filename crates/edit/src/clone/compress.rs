//! Older turns made into a compaction: a boundary and a summary that every client honours.

use rethread_model::Reader;

use super::{CloneBuilder, context, turn_summary};
use crate::plan::{AddedKind, PathItem};

/// How older turns are condensed.
#[derive(Debug, Clone)]
pub struct CompressOptions {
    /// How many of the last turns stay as they are.
    pub keep: usize,
    /// About how many tokens the summaries of all answers together may have. What the user wrote is
    /// never cut and does not count.
    pub budget: usize,
    /// Keep what is said and done in each turn, for somebody else to sum up.
    pub transcripts: bool,
    /// Summaries that somebody else wrote, by turn; where there is none, one is made.
    pub summaries: Vec<Option<String>>,
    /// How what is cut can be read, if it is kept.
    pub show_command: Option<String>,
}

impl CompressOptions {
    /// About how many tokens the summaries have, if nothing else is said.
    pub const BUDGET: usize = 8000;
    /// How many turns stay as they are, if nothing else is said.
    pub const KEEP: usize = 5;
}

impl Default for CompressOptions {
    fn default() -> Self {
        let (keep, budget) = (Self::KEEP, Self::BUDGET);
        Self { keep, budget, transcripts: false, summaries: Vec::new(), show_command: None }
    }
}

/// A turn that is condensed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CondensedTurn {
    /// Its number in the clone's conversation, from 1.
    pub n: usize,
    /// Its first and its last message, by their numbers in the source.
    pub messages: (usize, usize),
    /// Everything that was said and done in it, for somebody who is to sum it up; nothing unless
    /// [`CompressOptions::transcripts`] asks for it.
    pub text: String,
    /// Its summary, without the user's words; nothing if an earlier summary speaks of it.
    pub summary: Option<String>,
}

/// What a budget had no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverBudget {
    /// How many turns have no summary.
    pub without_summary: usize,
    /// How many have one that was cut.
    pub cut: usize,
}

impl CloneBuilder<'_, '_> {
    /// Condenses all turns but the last ones.
    pub(super) fn compress(&mut self) {
        let Some(compress) = &self.recipe.compress else { return };
        let way: Vec<usize> =
            self.plan.path_nodes().into_iter().filter(|&node| !self.plan.is_dropped(node)).collect();
        let asks = |at: &usize| self.plan.node(way[*at]).flags.is_human();
        let prompts: Vec<usize> = (0..way.len()).filter(asks).collect();
        let Some(n_old) = prompts.len().checked_sub(compress.keep).filter(|&n| n > 0) else { return };
        let cut = prompts.get(n_old).copied().unwrap_or(way.len());
        let facts = self.plan.facts;
        let reader: Reader<'_> = self.plan.reader;
        let old = turn_summary::OlderTurns::new(facts, reader, &self.plan.edits, &way[..cut], compress);
        let (turns, over_budget) = old.turns(compress);
        let text = old.summary(&turns, compress);
        let like = way.get(cut).copied().unwrap_or(way[cut - 1]);
        let tokens = context::context_size(&self.source.session).tokens;
        let later = cut == way.len();
        let boundary =
            self.plan.add_requested(AddedKind::Boundary { tokens }, like, if later { 1 } else { -2 });
        let summary = self.plan.add_requested(AddedKind::Summary { text }, like, if later { 2 } else { -1 });
        for &node in &way[..cut] {
            self.condensed.insert(node);
            self.plan.drop_requested(node);
        }
        let mut items = vec![PathItem::Added(boundary), PathItem::Added(summary)];
        items.extend(way[cut..].iter().map(|&node| PathItem::Source(node)));
        self.plan.path = items;
        self.cloned.counts.turns = n_old as u64;
        self.cloned.turns = turns;
        self.cloned.over_budget = over_budget;
    }
}
