//! Searches: messages that match a query, ranked, one hit for each logical message.

mod candidates;
mod places;
mod prefilter;
mod rank;
mod scan;
mod scope;
mod segments;
mod snippet;

use std::path::PathBuf;

use rethread_model::{MessageKey, MessageNo, MessagePlace, SessionId, TextSource, Time};
use rethread_store::SessionFile;

use crate::error::IndexError;
use crate::index::Index;
use crate::query::{MessagePlaces, Query, QueryError};
use crate::summary::LogSummary;
pub use scan::{LogScanner, ScannedLog};
pub use scope::IsProject;
pub(crate) use scope::is_file_meant;
pub use snippet::Snippet;

/// Options of a search.
pub struct SearchOptions<'s> {
    /// The maximum number of sessions; 0 for all.
    pub max_sessions: usize,
    /// The maximum number of hits that are shown for a session; 0 for all.
    pub max_hits: usize,
    /// The maximum number of characters of a snippet.
    pub snippet_chars: usize,
    /// Decides whether a project is meant by a name.
    pub is_project: &'s IsProject<'s>,
    /// What was typed, to point at errors.
    pub typed: &'s str,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct SearchResults {
    /// The sessions with hits, the best first.
    pub sessions: Vec<SessionHits>,
    /// The number of messages that match, copies counted once.
    pub total_messages: u64,
    /// The number of sessions with such messages, or with a title that matches.
    pub total_sessions: u64,
    /// The number of sessions that contain all words only in different messages.
    pub total_spread: u64,
    /// Sessions of which all hits are copies of others: their number.
    pub total_copies: u64,
}

impl SearchResults {
    /// Returns whether sessions or hits were left out.
    pub fn is_capped(&self) -> bool {
        let shown: u64 = self.sessions.iter().map(|session| session.hits.len() as u64).sum();
        let wanted: u64 = self.sessions.iter().map(|session| session.total).sum();
        (self.sessions.len() as u64) < self.total_sessions + self.total_spread || shown < wanted
    }
}

/// The hits in one session.
#[derive(Debug)]
pub struct SessionHits {
    /// Its id.
    pub session: SessionId,
    /// The path of its log.
    pub path: PathBuf,
    /// Set for the log of a subagent.
    pub is_subagent: bool,
    /// Set if the log no longer exists.
    pub is_deleted: bool,
    /// Its summary.
    pub summary: Option<LogSummary>,
    /// The hits that are shown, the best first.
    pub hits: Vec<Hit>,
    /// The number of messages that match.
    pub total: u64,
    /// Other sessions with copies of these messages.
    pub copies: Vec<SessionId>,
}

/// A message that matches.
#[derive(Debug, Clone)]
pub struct Hit {
    /// The number of the message; `None` for a title.
    pub message: Option<MessageNo>,
    /// The identity of the message in all its copies.
    pub key: MessageKey,
    /// The line of its first entry.
    pub line: Option<u32>,
    /// The source of the text that is shown.
    pub source: TextSource,
    /// The place of the message in the tree.
    pub place: MessagePlace,
    /// Its time.
    pub time: Option<Time>,
    /// The tool, for the input and the output of a call.
    pub tool: Option<String>,
    /// How it matches.
    pub quality: MatchQuality,
    /// A score, larger for better matches; only comparable within one search.
    pub score: f32,
    /// The offset of the entry in its log, and the number of the block.
    pub position: (u64, u32),
    /// The part of the text that matches; `None` if the log is gone.
    pub snippet: Option<Snippet>,
}

/// How well a hit matches, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MatchQuality {
    /// All words next to each other, or the only word.
    Phrase,
    /// All words in one block.
    Block,
    /// All words in one message.
    Message,
    /// All words in messages next to each other.
    Near,
    /// All words somewhere in the session.
    Session,
}

impl MatchQuality {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Phrase => "phrase",
            Self::Block => "block",
            Self::Message => "message",
            Self::Near => "near",
            Self::Session => "session",
        }
    }
}

/// An error of a search.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query has an unknown value.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The index cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl Index {
    /// Searches the index, and logs that were scanned because the index does not have them.
    pub fn search(
        &self,
        query: &Query,
        scanned: Vec<ScannedLog>,
        options: &SearchOptions<'_>,
    ) -> Result<SearchResults, SearchError> {
        rank::search(Some(self), query, scanned, options)
    }

    /// Returns the logs whose texts are not completely in the index.
    pub fn stale_logs<'f>(&self, files: &'f [SessionFile]) -> Result<Vec<&'f SessionFile>, IndexError> {
        scan::stale_logs(self, files)
    }
}

/// Searches logs that were scanned, without an index.
pub fn search_scanned(
    query: &Query,
    scanned: Vec<ScannedLog>,
    options: &SearchOptions<'_>,
) -> Result<SearchResults, SearchError> {
    rank::search(None, query, scanned, options)
}
