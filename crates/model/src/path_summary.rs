//! Summaries of paths: what a person needs to tell the branches of a session apart.

use crate::id::Time;
use crate::index::{MessageNo, NodeId};
use crate::session::{Path, Session};
use crate::summary::SessionId;
use crate::title::collapse_whitespace;
use crate::view::Reader;

/// A path with the texts that describe it.
#[derive(Debug, Clone)]
pub struct PathSummary {
    /// Its number, from 1, in the order of the ends in the file.
    pub n: usize,
    /// Its status: active if a client would resume it.
    pub status: PathStatus,
    /// Its last entry.
    pub tip: EntryRef,
    /// On the active path, the last entry that the client would send.
    pub resumes_at: Option<EntryRef>,
    /// The last entry that it shares with another path.
    pub fork: Option<EntryRef>,
    /// The number of messages on it.
    pub messages: u32,
    /// The number of prompts on it.
    pub turns: u32,
    /// The number of compactions on it.
    pub compactions: u32,
    /// The words of its last prompt.
    pub last_prompt: Option<String>,
    /// The time of its tip.
    pub time: Option<Time>,
    /// The session that contains its beginning, if that is in another file.
    pub continues: Option<ContinuedFrom>,
    /// Its place in the tree of the session.
    pub path: Path,
}

/// The status of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathStatus {
    /// The client would resume it.
    Active,
    /// The client would not resume it, usually because a rewind or redo left it behind.
    Abandoned,
}

impl PathStatus {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Abandoned => "abandoned",
        }
    }
}

impl std::fmt::Display for PathStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// An entry, as a person would name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRef {
    /// Its uuid, as written in the log.
    pub uuid: String,
    /// The number of its message, if it belongs to one.
    pub message: Option<MessageNo>,
    /// Its line, from 1.
    pub line: u32,
}

/// The other file that a path continues from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContinuedFrom {
    /// The session in that file.
    pub session: SessionId,
    /// The number of the message that the path continues from.
    pub message: Option<MessageNo>,
}

impl PathSummary {
    /// Describes a path of a session.
    pub fn new(reader: &Reader<'_>, session: &Session, path: Path) -> Self {
        let entry = |node: NodeId| EntryRef {
            uuid: reader.uuid(node),
            message: session.facts.nodes[node].message(),
            line: session.facts.location(node).line,
        };
        Self {
            n: path.n,
            status: if path.active { PathStatus::Active } else { PathStatus::Abandoned },
            tip: entry(path.tip),
            resumes_at: path.resumes_at.map(entry),
            fork: path.fork_point.map(entry),
            messages: path.messages,
            turns: path.turns,
            compactions: path.compactions,
            last_prompt: path.last_prompt.map(|node| collapse_whitespace(&reader.prompt_words(node))),
            time: path.time,
            continues: None,
            path,
        }
    }
}
