//! Summaries of sessions: what a listing and a report say about each.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::check::Severity;
use crate::id::{Time, Uid};
use crate::inventory::Inventory;
use crate::session::Session;
use crate::title::Title;
use crate::usage::RecordedUsage;

/// The id of a session: the name of its log without the extension, usually a UUID.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(Box<str>);

impl SessionId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(id: &str) -> Self {
        Self(id.into())
    }
}

impl From<String> for SessionId {
    fn from(id: String) -> Self {
        Self(id.into())
    }
}

impl AsRef<OsStr> for SessionId {
    fn as_ref(&self) -> &OsStr {
        OsStr::new(&*self.0)
    }
}

impl PartialEq<str> for SessionId {
    fn eq(&self, other: &str) -> bool {
        &*self.0 == other
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The kind of a log, judged by its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SessionKind {
    /// A person talked with the model.
    #[default]
    Conversation,
    /// A program talked with the model.
    Headless,
    /// The log of a subagent.
    Agent,
    /// The log of a subagent whose session log is missing.
    Orphan,
    /// No entries at all.
    Empty,
    /// Only summaries of other sessions.
    Summaries,
    /// Only state: titles, checkpoints, queues. The conversation is elsewhere or never began.
    Pointer,
}

impl SessionKind {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conversation => "conversation",
            Self::Headless => "headless",
            Self::Agent => "agent",
            Self::Orphan => "orphan",
            Self::Empty => "empty",
            Self::Summaries => "summaries",
            Self::Pointer => "pointer",
        }
    }
}

/// A worktree of a git repository.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Worktree {
    /// The working directory of the repository.
    pub repository: PathBuf,
    /// The name of the worktree.
    pub name: String,
}

/// The operation that made a session from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum OriginKind {
    /// A clone.
    Clone,
    /// A repair into a new session.
    Repair,
    /// A fork by a client.
    Fork,
}

impl OriginKind {
    /// The kinds that are recorded next to a session.
    const RECORDED: [Self; 2] = [Self::Clone, Self::Repair];

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Repair => "repair",
            Self::Fork => "fork",
        }
    }

    /// Returns the recorded kind with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::RECORDED.into_iter().find(|kind| kind.name() == name)
    }
}

/// The session that another was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOrigin {
    /// The source.
    pub source: SessionId,
    /// The operation.
    pub kind: OriginKind,
    /// The time of the operation, if it is recorded.
    pub time: Option<Time>,
    /// The directory whose project it was added to, if it is recorded.
    pub directory: Option<String>,
}

/// One session of a listing.
///
/// It can be stored; what is not in the log itself is left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Its id.
    pub id: SessionId,
    /// The path of its log.
    #[serde(skip)]
    pub path: PathBuf,
    /// The kind of log.
    pub kind: SessionKind,
    /// Its title.
    pub title: Title,
    /// The directory in which it was started, as the log records it; possibly one of another machine.
    pub cwd: Option<String>,
    /// The recorded directory whose project contains the log: clients before 2.1.325 resume it only there.
    pub resume_dir: Option<PathBuf>,
    /// Its first prompt.
    pub first_prompt: Option<String>,
    /// The time of its first entry.
    pub created: Option<Time>,
    /// The time of its last entry; of the last change of the file if no entry has a time.
    pub modified: Option<Time>,
    /// The size of its log.
    pub bytes: u64,
    /// The number of entries.
    pub entries: u64,
    /// The number of messages.
    pub messages: u64,
    /// The number of prompts typed by a person.
    pub turns: u64,
    /// The number of tool calls.
    pub tool_calls: u64,
    /// The number of paths: ends of the conversation.
    pub paths: u64,
    /// The number of compactions.
    pub compactions: u64,
    /// The number of subagents, in this log and in sidecars.
    pub subagents: u64,
    /// The models that answered.
    pub models: Vec<String>,
    /// The versions of the clients that wrote it.
    pub versions: Vec<String>,
    /// The last git branch that it records.
    pub git_branch: Option<String>,
    /// Set if a client has it open.
    #[serde(skip)]
    pub is_live: bool,
    /// The number of defects in its log.
    pub defects: u64,
    /// The worktree in which it was started, if it is one.
    #[serde(skip)]
    pub worktree: Option<Worktree>,
    /// The session that it was made from, if it is a clone, a repair or a fork.
    pub origin: Option<SessionOrigin>,
    /// The worst of what clients in use would do with it, `Harmless` if they resume it completely; `None` if it was
    /// not checked.
    pub severity: Option<Severity>,
}

impl SessionSummary {
    /// Returns the time by which it is listed: of its last entry, or of the operation that made it if that is later.
    /// A clone of an old session is as new as the clone.
    pub fn recency(&self) -> Option<Time> {
        self.modified.max(self.origin.as_ref().and_then(|origin| origin.time))
    }

    /// Returns whether it was checked and a client would lose or refuse content of it.
    pub fn is_harmed(&self) -> bool {
        self.severity.is_some_and(|severity| severity != Severity::Harmless)
    }

    /// Returns the name of its project: the directory in which clients find it, or else the one in which it was started,
    /// or else the name of the directory that contains its log.
    pub fn project(&self) -> Cow<'_, str> {
        let dir = || self.path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let found_in = self.resume_dir.as_deref().map(Path::to_string_lossy);
        found_in.or_else(|| self.cwd.as_deref().map(Cow::Borrowed)).unwrap_or_else(dir)
    }
}

/// The counts of one session, and its relations to others.
#[derive(Debug, Clone)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// The path of its log.
    pub path: PathBuf,
    /// The session that it was forked from.
    pub forked_from: Option<SessionId>,
    /// The session that continues it.
    pub continued_in: Option<SessionId>,
    /// Its counts.
    pub inventory: Inventory,
    /// The usage of each message that records one.
    charges: Vec<(Option<Uid>, RecordedUsage)>,
}

impl SessionInfo {
    /// Counts the content of a session whose log has this path and size.
    pub fn new(id: SessionId, path: PathBuf, session: &Session, bytes: u64) -> Self {
        let facts = &session.facts;
        Self {
            id,
            path,
            forked_from: facts.forked_from.as_deref().map(SessionId::from),
            continued_in: facts.continued_in.as_deref().map(SessionId::from),
            inventory: Inventory::new(session, bytes),
            charges: facts.messages.iter().filter_map(|m| Some((m.id, facts.recorded_usage(m)?))).collect(),
        }
    }

    /// Adds up the inventories of several sessions. A message that occurs in more than one of them, because resuming
    /// and forking copy it, is charged once.
    pub fn total<'a>(infos: impl IntoIterator<Item = &'a Self>) -> Inventory {
        let mut total = Inventory::default();
        let mut charges: FxHashMap<Uid, RecordedUsage> = FxHashMap::default();
        for info in infos {
            total.add(&info.inventory);
            for &(id, recorded) in &info.charges {
                let Some(id) = id else {
                    total.usage += recorded.usage;
                    continue;
                };
                let known = charges.entry(id).or_insert(recorded);
                if recorded.replaces(known) {
                    *known = recorded;
                }
            }
        }
        for recorded in charges.into_values() {
            total.usage += recorded.usage;
        }
        total
    }
}
