//! The summary of a clone.

use rethread_model::{ByteCounts, Session, Time};

use super::ContextSize;
use super::context::context_size;

/// Summary of a session, as listed or reported after cloning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloneSummary {
    /// Number of distinct prompts.
    pub turns: usize,
    /// Number of messages of both sides.
    pub messages: usize,
    /// Bytes by kind of content.
    pub bytes: ByteCounts,
    /// Tokens that a client sends.
    pub context: ContextSize,
    /// The first prompt that a user typed.
    pub first_prompt: Option<String>,
    /// The earliest and the latest time of any entry.
    pub span: Option<(Time, Time)>,
    /// Working directories, in order of first occurrence.
    pub cwds: Vec<String>,
    /// Git branches, in order of first occurrence.
    pub branches: Vec<String>,
}

impl CloneSummary {
    /// Summarises a session.
    pub fn of(session: &Session) -> Self {
        let facts = &session.facts;
        let names =
            |names: &rethread_model::NameCounts| names.iter().map(|(name, _)| name.to_owned()).collect();
        Self {
            turns: session.turns(),
            messages: facts.messages.len(),
            bytes: facts.bytes,
            context: context_size(session),
            first_prompt: facts.first_prompt.clone(),
            span: facts.time_span,
            cwds: names(&facts.cwds),
            branches: names(&facts.git_branches),
        }
    }
}
