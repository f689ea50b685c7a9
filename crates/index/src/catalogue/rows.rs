//! Rows about the content of a log, as they are written.

use super::IndexLevel;
use crate::fingerprint::Fingerprint;
use rethread_model::{MessageKey, MessageKind, MessagePlace};

/// The rows of a log that were added or changed since it was last read.
#[derive(Debug, Default)]
pub(crate) struct LogRows {
    /// New messages.
    pub(crate) messages: Vec<StoredMessage>,
    /// The places of all messages, in their order.
    pub(crate) places: Vec<MessagePlace>,
    /// New calls.
    pub(crate) calls: Vec<CallRow>,
    /// New results of calls, by the number of the call.
    pub(crate) results: Vec<(u32, StoredCallResult)>,
    /// Files that new calls name.
    pub(crate) files: Vec<FileRow>,
    /// All findings.
    pub(crate) findings: Vec<StoredFinding>,
}

/// The position up to which a log was read.
#[derive(Debug)]
pub(crate) struct ReadPosition {
    pub(crate) level: IndexLevel,
    /// The end of the last whole line.
    pub(crate) position: u64,
    /// The offset after the last entry.
    pub(crate) entries_end: u64,
    /// The offset up to which texts are indexed.
    pub(crate) text_end: u64,
    pub(crate) print: Fingerprint,
}

/// A message.
#[derive(Debug, Clone)]
pub(crate) struct StoredMessage {
    pub(crate) n: u32,
    pub(crate) key: MessageKey,
    pub(crate) line: u32,
    pub(crate) time: Option<i64>,
    pub(crate) kind: MessageKind,
    /// The number of the model's name.
    pub(crate) model: Option<i64>,
}

/// A tool call.
#[derive(Debug, Clone)]
pub(crate) struct CallRow {
    pub(crate) n: u32,
    pub(crate) message_n: u32,
    pub(crate) line: u32,
    pub(crate) time: Option<i64>,
    /// The number of the tool's name.
    pub(crate) tool: i64,
    pub(crate) file: Option<String>,
}

/// The first result of a tool call.
#[derive(Debug, Clone)]
pub(crate) struct StoredCallResult {
    pub(crate) message_n: u32,
    pub(crate) time: Option<i64>,
    pub(crate) bytes: u64,
    pub(crate) is_error: bool,
}

/// A file that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileRow {
    /// The number of the call.
    pub(crate) call_n: u32,
    pub(crate) path: String,
    /// `read`, `edit` or `write`.
    pub(crate) action: &'static str,
}

/// A finding of a check.
#[derive(Debug, Clone)]
pub(crate) struct StoredFinding {
    pub(crate) line: Option<u32>,
    pub(crate) kind: &'static str,
    pub(crate) severity: &'static str,
    pub(crate) detail: String,
}
