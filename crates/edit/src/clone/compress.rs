//! Replaces older turns by a compaction: a boundary and a summary that every client honours.

use rethread_model::{NodeId, Reader};

use super::{CloneBuilder, context, turn_summary};
use crate::plan::{AddedKind, PathItem};

/// Options for condensing older turns.
#[derive(Debug, Clone)]
pub struct CompressOptions {
    /// Number of last turns that are kept unchanged.
    pub keep: usize,
    /// Approximate number of tokens for the summaries of all answers together. Prompts are never cut and do not
    /// count.
    pub budget: usize,
    /// Also return the content of each turn, for an external summariser.
    pub transcripts: bool,
    /// External summaries by turn; missing ones are generated.
    pub summaries: Vec<Option<String>>,
    /// Command that shows removed entries, if they are kept.
    pub show_command: Option<String>,
}

impl CompressOptions {
    /// Default number of tokens for the summaries.
    pub const BUDGET: usize = 8000;
    /// Default number of turns that are kept unchanged.
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
    /// Numbers of its first and last message in the source.
    pub messages: (usize, usize),
    /// The full content of the turn, for an external summariser; empty unless [`CompressOptions::transcripts`] is
    /// set.
    pub text: String,
    /// Its summary, without prompts; `None` if an earlier summary covers the turn.
    pub summary: Option<String>,
}

/// Turns whose summaries exceed the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OverBudget {
    /// Number of turns without a summary.
    pub without_summary: usize,
    /// Number of turns with a cut summary.
    pub cut: usize,
}

impl CloneBuilder<'_, '_> {
    /// Condenses all turns except the last ones.
    pub(super) fn compress(&mut self) {
        let Some(compress) = &self.recipe.compress else { return };
        let path: Vec<NodeId> =
            self.plan.path_nodes().into_iter().filter(|&node| !self.plan.is_dropped(node)).collect();
        let is_prompt = |at: &usize| self.plan.node(path[*at]).flags.is_human();
        let prompts: Vec<usize> = (0..path.len()).filter(is_prompt).collect();
        let Some(n_old) = prompts.len().checked_sub(compress.keep).filter(|&n| n > 0) else { return };
        let cut = prompts.get(n_old).copied().unwrap_or(path.len());
        let facts = self.plan.facts;
        let reader: Reader<'_> = self.plan.reader;
        let old = turn_summary::OlderTurns::new(facts, reader, &self.plan.edits, &path[..cut], compress);
        let (turns, over_budget) = old.turns(compress);
        let text = old.summary(&turns, compress);
        let like = path.get(cut).copied().unwrap_or(path[cut - 1]);
        let tokens = context::context_size(&self.source.session).tokens;
        let later = cut == path.len();
        let boundary =
            self.plan.add_requested(AddedKind::Boundary { tokens }, like, if later { 1 } else { -2 });
        let summary = self.plan.add_requested(AddedKind::Summary { text }, like, if later { 2 } else { -1 });
        for &node in &path[..cut] {
            self.condensed.insert(node);
            self.plan.drop_requested(node);
        }
        let mut items = vec![PathItem::Added(boundary), PathItem::Added(summary)];
        items.extend(path[cut..].iter().map(|&node| PathItem::Source(node)));
        self.plan.path = items;
        self.cloned.counts.turns = n_old as u64;
        self.cloned.turns = turns;
        self.cloned.over_budget = over_budget;
    }
}
