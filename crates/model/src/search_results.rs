//! The results of a search, and what is remembered of a log.

use std::ops::Range;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{Time, Uid};
use crate::index::MessageNo;
use crate::search_text::{MessageKey, MessagePlace, TextSource};
use crate::summary::{SessionId, SessionSummary};

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
}

impl SearchResults {
    /// Returns the hits that are shown, with their sessions, in the order in which they are numbered.
    pub fn hits(&self) -> impl Iterator<Item = (&SessionHits, &Hit)> {
        self.sessions.iter().flat_map(|session| session.hits.iter().map(move |hit| (session, hit)))
    }

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
    /// The uuid of the entry that is shown.
    pub uuid: Option<String>,
    /// Its time.
    pub time: Option<Time>,
    /// The tool, for the input and the output of a call.
    pub tool: Option<String>,
    /// The quality of the match.
    pub quality: MatchQuality,
    /// A score, larger for better matches; only comparable within one search.
    pub score: f32,
    /// The offset of the entry in its log, and the number of the block.
    pub position: (u64, u32),
    /// The part of the text that matches; `None` if the log is gone.
    pub snippet: Option<Snippet>,
}

/// The quality of a match, best first.
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

/// A part of a text in one line, with the parts that match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snippet {
    /// The text; white space is collapsed.
    pub text: String,
    /// The bytes of `text` that match.
    pub matches: Vec<Range<usize>>,
    /// Set if there is more text before it.
    pub cut_before: bool,
    /// Set if there is more text after it.
    pub cut_after: bool,
}

/// The summary of a log, as far as it follows from the log alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogSummary {
    /// The summary that a listing shows. Its path is not stored, and of its directories only those that the log records.
    pub summary: SessionSummary,
    /// The project in which it is listed.
    pub project: String,
    /// Summaries of conversations that may be in other files.
    pub other_titles: Vec<(Uid, String)>,
    /// Set if a summary in another file would be a better title.
    pub accepts_title: bool,
}
