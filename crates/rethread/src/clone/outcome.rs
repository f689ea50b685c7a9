//! The result of a clone.

use std::path::PathBuf;

use rethread_edit::{CloneCounts, ContextSize};
use rethread_model::{ByteCounts, SessionId};

use super::CloneWarning;

/// A clone that was written, or that a dry run would have written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Cloned {
    /// The id of the source.
    pub source: SessionId,
    /// The new session; `None` after a dry run.
    pub session: Option<WrittenClone>,
    /// The source, measured.
    pub before: SessionSize,
    /// The clone, measured.
    pub after: SessionSize,
    /// Number of turns of the clone.
    pub turns: usize,
    /// Counts of what was left out or changed.
    pub removed: CloneCounts,
    /// The directory to resume the clone in: clients before 2.1.325 search only that directory's project.
    pub resume_dir: Option<PathBuf>,
    /// Everything that a user should know about the clone.
    pub warnings: Vec<CloneWarning>,
}

/// A session that a clone wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WrittenClone {
    /// Its id.
    pub id: SessionId,
    /// Its log.
    pub path: PathBuf,
    /// Number of copied subagents.
    pub subagents: u64,
    /// Number of copied files with large results.
    pub tool_results: u64,
    /// The file with the removed entries, if they are kept.
    pub removed_entries: Option<PathBuf>,
}

/// Sizes of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSize {
    /// Size of the log in bytes.
    pub bytes: u64,
    /// Tokens that a client sends.
    pub context: ContextSize,
    /// Bytes by kind of content.
    pub content: ByteCounts,
}
