//! The JSON shapes that `--json` prints, one object per line.

use std::borrow::Cow;

use rethread_edit::{CloneCounts, RedactionCounts};
use rethread_model::{
    BlockView, EntryNo, Finding, Inventory, MessageNo, MessageView, NoteView, Path, Time, TitleSource, Uid,
    Usage,
};
use serde::Serialize;
use serde_json::value::RawValue;

/// The kind of a log, judged by its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
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

/// One session of a listing.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SessionRow {
    pub r#type: &'static str,
    pub id: String,
    pub path: String,
    pub project: String,
    pub cwd: Option<String>,
    pub kind: SessionKind,
    pub title: String,
    pub title_source: TitleSource,
    pub first_prompt: Option<String>,
    pub created: Option<String>,
    pub modified: Option<String>,
    pub bytes: u64,
    pub entries: u64,
    pub messages: u64,
    pub turns: u64,
    pub tool_calls: u64,
    pub tips: u64,
    pub compactions: u64,
    pub subagents: u64,
    pub models: Vec<String>,
    pub versions: Vec<String>,
    pub git_branch: Option<String>,
    pub live: bool,
    pub defects: u64,
    #[serde(skip)]
    pub last_time: Option<Time>,
}

/// The inventory of one session, as `info --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct InventoryRow {
    pub r#type: &'static str,
    pub id: String,
    pub path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_in: Option<String>,
    #[serde(flatten)]
    pub inventory: Inventory,
    #[serde(skip)]
    pub charges: Vec<(Option<Uid>, Usage)>,
}

/// A path, as `tree --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct PathRow {
    pub r#type: &'static str,
    pub n: usize,
    pub status: &'static str,
    pub tip: String,
    pub tip_message: Option<MessageNo>,
    pub tip_line: u32,
    pub inner: bool,
    pub main: bool,
    pub resumes_at: Option<String>,
    pub resumes_line: Option<u32>,
    pub fork_point: Option<String>,
    pub fork_message: Option<MessageNo>,
    pub messages: u32,
    pub turns: u32,
    pub compactions: u32,
    pub last_prompt: Option<String>,
    pub time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<ContinuedFrom>,
    #[serde(skip)]
    pub path: Path,
}

/// A finding about a session, as `check --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct FindingRow {
    pub r#type: &'static str,
    pub session: String,
    pub line: Option<u32>,
    pub kind: &'static str,
    pub severity: &'static str,
    pub detail: String,
    pub hint: &'static str,
    pub clients: Vec<&'static str>,
    pub lost_lines: Vec<u32>,
    #[serde(skip)]
    pub finding: Finding,
}

impl FindingRow {
    /// Builds the row of a finding.
    pub fn new(session: &str, finding: Finding) -> Self {
        Self {
            r#type: "finding",
            session: session.to_owned(),
            line: finding.line,
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            detail: finding.detail.clone(),
            hint: finding.kind.hint(),
            clients: finding.clients.iter().map(|client| client.version()).collect(),
            lost_lines: finding.lost_lines.clone(),
            finding,
        }
    }
}

/// A repaired session, as `repair --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct RepairRow {
    pub r#type: &'static str,
    pub session: String,
    pub output: Option<String>,
    pub id: Option<String>,
    pub backup: Option<String>,
    pub findings: Vec<FindingRow>,
    pub left: Vec<FindingRow>,
    pub lines_changed: usize,
    pub lines_dropped: usize,
    pub lines_added: usize,
    pub reordered: bool,
}

/// A clone, as `clone --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct CloneRow {
    pub r#type: &'static str,
    pub source: String,
    pub id: Option<String>,
    pub path: Option<String>,
    pub bytes_before: u64,
    pub bytes_after: u64,
    pub tokens_before: u64,
    pub tokens_after: u64,
    pub tokens_by: TokenSources,
    pub turns: u64,
    pub removed: CloneCounts,
    pub bytes_by: Vec<BytesByKind>,
    pub subagents: Option<u64>,
    pub tool_results: Option<u64>,
    pub removed_file: Option<String>,
    pub warnings: Vec<String>,
    pub cwd: Option<String>,
    pub resume: Option<String>,
}

/// The sources of the token figures before and after a clone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct TokenSources {
    pub before: &'static str,
    pub after: &'static str,
}

/// Bytes of one kind of content in a session, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct BytesByKind {
    pub kind: &'static str,
    pub before: u64,
    pub after: u64,
    /// Clients send this content.
    pub sent: bool,
}

/// A path of an export, as `export --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct TranscriptRow {
    pub r#type: &'static str,
    pub session: String,
    pub path_n: usize,
    pub paths: usize,
    pub status: &'static str,
    pub title: String,
    pub file: Option<String>,
    pub messages: u32,
    pub unchanged: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
    pub skipped_as: Option<String>,
}

/// The document of a subagent, as `export --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SubagentRow {
    pub r#type: &'static str,
    pub session: String,
    pub agent: String,
    pub file: String,
    pub unchanged: bool,
}

/// The other file that a path continues from.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ContinuedFrom {
    pub session: String,
    pub message: Option<MessageNo>,
}

/// A message, as `show --json` prints it.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct MessageRow<'a> {
    pub r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub n: MessageNo,
    pub role: &'static str,
    pub kind: &'static str,
    pub entries: Vec<EntryNo>,
    pub line: u32,
    pub time: Option<String>,
    pub model: Option<String>,
    pub blocks: Vec<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<CallPair>,
    pub usage: Option<Usage>,
}

/// The message that contains the other half of a tool call.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct CallPair {
    pub id: String,
    pub message: MessageNo,
}

/// A note between messages, as `show --json` prints it.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct NoteRow {
    pub r#type: &'static str,
    pub kind: String,
    pub entry: EntryNo,
    pub line: u32,
    pub time: Option<String>,
    pub text: String,
}

/// Returns a block as written in the log. It may be very long, so it is borrowed where possible.
fn raw_block<'a>(block: &BlockView<'a>) -> Option<Cow<'a, RawValue>> {
    let raw = block.json().raw();
    let value = serde_json::from_slice::<&RawValue>(raw).ok();
    if block.is_bare_string() {
        let spelled = || serde_json::to_string(&block.text()).ok();
        let text =
            value.map_or_else(|| spelled().map(Cow::Owned), |value| Some(Cow::Borrowed(value.get())))?;
        return RawValue::from_string(["{\"type\":\"text\",\"text\":", &text, "}"].concat())
            .ok()
            .map(Cow::Owned);
    }
    if let Some(value) = value {
        return Some(Cow::Borrowed(value));
    }
    let raw = String::from_utf8_lossy(raw).into_owned();
    if serde_json::from_str::<&RawValue>(&raw).is_ok() {
        return RawValue::from_string(raw).ok().map(Cow::Owned);
    }
    // A malformed block is passed on as text.
    RawValue::from_string(serde_json::json!({ "type": "broken", "text": raw }).to_string())
        .ok()
        .map(Cow::Owned)
}

impl<'a> From<&MessageView<'a>> for MessageRow<'a> {
    fn from(message: &MessageView<'a>) -> Self {
        let pair = |block: &BlockView<'_>| {
            Some(CallPair { id: block.id().into_owned(), message: block.partner_message? })
        };
        Self {
            r#type: "message",
            session: None,
            n: message.n,
            role: if message.assistant { "assistant" } else { "user" },
            kind: message.kind.name(),
            entries: message.entries.clone(),
            line: message.line,
            time: message.time.and_then(Time::to_iso),
            model: message.model.map(str::to_owned),
            blocks: message.blocks.iter().filter_map(raw_block).collect(),
            pairs: message.blocks.iter().filter_map(pair).collect(),
            usage: message.usage,
        }
    }
}

impl From<&NoteView<'_>> for NoteRow {
    fn from(note: &NoteView<'_>) -> Self {
        Self {
            r#type: "note",
            kind: note.kind.clone().into_owned(),
            entry: note.entry,
            line: note.line,
            time: note.time.and_then(Time::to_iso),
            text: note.text.clone().into_owned(),
        }
    }
}

/// A cleaned session, as `clean --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct CleanedRow {
    pub r#type: &'static str,
    pub session: String,
    pub file: Option<String>,
    pub raw: u64,
    pub without_base64: u64,
    pub cleaned: u64,
    pub by_rule: std::collections::BTreeMap<&'static str, u64>,
    pub redactions: RedactionCounts,
    /// Sidecars (subagent logs and large results) that were cleaned too.
    pub beside: u64,
    pub resumable: bool,
    pub backup: Option<String>,
    pub warnings: Vec<String>,
}

/// A secret and its position.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SecretRow {
    pub r#type: &'static str,
    pub session: String,
    pub file: String,
    pub line: u32,
    pub r#where: &'static str,
    pub rule: String,
    pub masked: String,
}
