//! The outcomes of repairing, cleaning and searching a session, as values. The caller that writes the files fills them
//! in.

use std::io;
use std::path::PathBuf;

use rethread_model::{Finding, SessionId};

use crate::clean::CleanReport;
use crate::repair::Change;

/// A repaired session, or one without defects.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The session.
    pub session: SessionId,
    /// The repaired log, if one was written.
    pub output: Option<RepairedLog>,
    /// Findings before the repair.
    pub findings: Vec<Finding>,
    /// Findings that could not be repaired.
    pub remaining: Vec<Finding>,
    /// The changes, line by line.
    pub changes: Vec<Change>,
    /// Set if all lines were put in order first.
    pub reordered: bool,
}

impl Repaired {
    /// Returns whether nothing was, or would be, changed.
    pub fn is_unchanged(&self) -> bool {
        self.changes.is_empty() && !self.reordered
    }

    /// Counts the changed lines.
    pub fn line_counts(&self) -> LineCounts {
        let mut counts = LineCounts::default();
        for change in &self.changes {
            let is_dropped = change.after.is_none();
            counts.dropped += usize::from(is_dropped);
            counts.added += usize::from(change.before.is_none());
            counts.changed += usize::from(change.before.is_some() && !is_dropped);
        }
        counts
    }
}

/// The number of lines that a repair changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCounts {
    /// Lines with a new content.
    pub changed: usize,
    /// Lines that are dropped.
    pub dropped: usize,
    /// Lines that are added.
    pub added: usize,
}

/// The log of a repaired session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RepairedLog {
    /// The path of the log.
    pub path: PathBuf,
    /// The id of the session in it, if it is in a project.
    pub id: Option<SessionId>,
    /// The copy of the original, if it was replaced.
    pub backup: Option<PathBuf>,
}

/// A cleaned session.
#[derive(Debug)]
pub struct Cleaned {
    /// The session.
    pub session: SessionId,
    /// The cleaned log, if one was written.
    pub output: Option<PathBuf>,
    /// The copy of the original, if it was replaced.
    pub backup: Option<PathBuf>,
    /// The sizes and the effect of each rule, for the log and its sidecars together.
    pub report: CleanReport,
    /// The number of sidecars: subagent logs and large results.
    pub sidecars: u64,
    /// Set if clients can resume the result.
    pub is_resumable: bool,
    /// Sidecars that were not cleaned.
    pub warnings: Vec<CleanWarning>,
}

/// A sidecar that was not cleaned. Secrets in its path are redacted.
#[derive(Debug)]
#[non_exhaustive]
pub enum CleanWarning {
    /// It is not text, so secrets in it cannot be found.
    NotText {
        /// The file.
        path: PathBuf,
        /// Set if it was kept unchanged; otherwise it was left out.
        kept: bool,
    },
    /// It could not be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: io::Error,
    },
}

/// A secret and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The session.
    pub session: SessionId,
    /// The file that contains it, or has it in its name. Secrets in the path are redacted.
    pub file: PathBuf,
    /// Its line, from 1; none for the name of a file.
    pub line: Option<u32>,
    /// The part of the entry or file.
    pub place: SecretPlace,
    /// The rule that found it.
    pub rule: String,
    /// The secret, masked but still recognisable to its owner.
    pub masked: String,
}

macro_rules! places {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// The part of a session that contains a secret.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum SecretPlace { $($(#[$doc])* $variant,)* }

        impl SecretPlace {
            /// Returns the name used in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

places! {
    /// Text of a person.
    UserText "user_text",
    /// Text of the model.
    AssistantText "assistant_text",
    /// Thinking of the model.
    Thinking "thinking",
    /// The input of a tool call.
    ToolInput "tool_input",
    /// The result of a tool call.
    ToolResult "tool_result",
    /// The client's own copy of a result.
    ResultCopy "result_copy",
    /// A recorded request.
    Request "request",
    /// A prompt in the queue.
    QueuedPrompt "queued_prompt",
    /// A snapshot of files.
    Snapshot "snapshot",
    /// A title or summary.
    Title "title",
    /// The copy of the last prompt.
    LastPrompt "last_prompt",
    /// An attachment.
    Attachment "attachment",
    /// Progress of a tool.
    Progress "progress",
    /// A note of the client.
    SystemNote "system_note",
    /// The fields around a message.
    Envelope "envelope",
    /// A line that cannot be parsed.
    Unreadable "unreadable",
    /// A sidecar.
    File "file",
    /// The name of a file.
    FileName "file_name",
}
