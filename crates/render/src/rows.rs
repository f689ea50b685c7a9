//! The JSON shapes that `--json` prints, one object per line.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use rethread_edit::{CleanWarning, Cleaned, RedactionCounts, Repaired, Secret};
use rethread_model::{
    BlockView, EntryNo, EntryRef, Finding, FindingKind, Hit, Inventory, MessageNo, MessageView, NoteView,
    OutlineItem, OutlineItemKind, OutlinedPath, PathSummary, SearchResults, SessionHits, SessionId,
    SessionInfo, SessionOutline, SessionSummary, SqlValue, Time, TitleSource, Usage,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::cut_text::{cut_block, cut_string};
use crate::sql::hex;

/// One session of a listing, as `ls --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SessionRow<'a> {
    pub r#type: &'static str,
    pub id: &'a SessionId,
    pub path: Cow<'a, str>,
    pub project: Cow<'a, str>,
    pub cwd: Option<&'a str>,
    pub kind: &'static str,
    pub title: &'a str,
    pub title_source: TitleSource,
    pub first_prompt: Option<&'a str>,
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
    pub models: &'a [String],
    pub versions: &'a [String],
    pub git_branch: Option<&'a str>,
    pub live: bool,
    pub defects: u64,
    pub repository: Option<Cow<'a, str>>,
    pub worktree: Option<&'a str>,
    pub made_from: Option<&'a SessionId>,
    pub made_by: Option<&'static str>,
    pub made: Option<String>,
}

impl<'a> From<&'a SessionSummary> for SessionRow<'a> {
    fn from(session: &'a SessionSummary) -> Self {
        let origin = session.origin.as_ref();
        Self {
            r#type: "session",
            id: &session.id,
            path: session.path.to_string_lossy(),
            project: session.project(),
            cwd: session.cwd.as_deref(),
            kind: session.kind.name(),
            title: &session.title.text,
            title_source: session.title.source,
            first_prompt: session.first_prompt.as_deref(),
            created: session.created.and_then(Time::to_iso),
            modified: session.modified.and_then(Time::to_iso),
            bytes: session.bytes,
            entries: session.entries,
            messages: session.messages,
            turns: session.turns,
            tool_calls: session.tool_calls,
            tips: session.paths,
            compactions: session.compactions,
            subagents: session.subagents,
            models: &session.models,
            versions: &session.versions,
            git_branch: session.git_branch.as_deref(),
            live: session.is_live,
            defects: session.defects,
            repository: session.worktree.as_ref().map(|worktree| worktree.repository.to_string_lossy()),
            worktree: session.worktree.as_ref().map(|worktree| worktree.name.as_str()),
            made_from: origin.map(|origin| &origin.source),
            made_by: origin.map(|origin| origin.kind.name()),
            made: origin.and_then(|origin| origin.time).and_then(Time::to_iso),
        }
    }
}

/// The command that resumes a session, as `resume --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ResumeRow<'a> {
    pub r#type: &'static str,
    pub id: &'a SessionId,
    pub dir: Option<String>,
    pub command: String,
}

/// The inventory of one session, as `info --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct InventoryRow<'a> {
    pub r#type: &'static str,
    pub id: &'a SessionId,
    pub path: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<&'a SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continued_in: Option<&'a SessionId>,
    #[serde(flatten)]
    pub inventory: &'a Inventory,
}

impl<'a> From<&'a SessionInfo> for InventoryRow<'a> {
    fn from(info: &'a SessionInfo) -> Self {
        Self {
            r#type: "inventory",
            id: &info.id,
            path: info.path.to_string_lossy(),
            forked_from: info.forked_from.as_ref(),
            continued_in: info.continued_in.as_ref(),
            inventory: &info.inventory,
        }
    }
}

/// The counts of several sessions, as `info --json` prints them last.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct TotalRow<'a> {
    pub r#type: &'static str,
    pub sessions: usize,
    #[serde(flatten)]
    pub inventory: &'a Inventory,
}

impl<'a> TotalRow<'a> {
    /// Builds the row of an inventory of this many sessions.
    pub fn new(sessions: usize, inventory: &'a Inventory) -> Self {
        Self { r#type: "total", sessions, inventory }
    }
}

/// A path, as `tree --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct PathRow<'a> {
    pub r#type: &'static str,
    pub n: usize,
    pub status: &'static str,
    pub tip: &'a str,
    pub tip_message: Option<MessageNo>,
    pub tip_line: u32,
    pub inner: bool,
    pub main: bool,
    pub resumes_at: Option<&'a str>,
    pub resumes_line: Option<u32>,
    pub fork_point: Option<&'a str>,
    pub fork_message: Option<MessageNo>,
    pub messages: u32,
    pub turns: u32,
    pub compactions: u32,
    pub last_prompt: Option<&'a str>,
    pub time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<ContinuedFromRow<'a>>,
}

impl<'a> From<&'a PathSummary> for PathRow<'a> {
    fn from(path: &'a PathSummary) -> Self {
        let uuid = |entry: Option<&'a EntryRef>| entry.map(|entry| entry.uuid.as_str());
        Self {
            r#type: "path",
            n: path.n,
            status: path.status.name(),
            tip: &path.tip.uuid,
            tip_message: path.tip.message,
            tip_line: path.tip.line,
            inner: path.path.resumes_before_end,
            main: path.path.main,
            resumes_at: uuid(path.resumes_at.as_ref()),
            resumes_line: path.resumes_at.as_ref().map(|entry| entry.line),
            fork_point: uuid(path.fork.as_ref()),
            fork_message: path.fork.as_ref().and_then(|entry| entry.message),
            messages: path.messages,
            turns: path.turns,
            compactions: path.compactions,
            last_prompt: path.last_prompt.as_deref(),
            time: path.time.and_then(Time::to_iso),
            continues: path
                .continues
                .as_ref()
                .map(|from| ContinuedFromRow { session: &from.session, message: from.message }),
        }
    }
}

/// The other file that a path continues from.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ContinuedFromRow<'a> {
    pub session: &'a SessionId,
    pub message: Option<MessageNo>,
}

/// The hint for a kind of finding. Front ends word it, because they know the names of commands.
pub type FindingHint<'h> = &'h dyn Fn(FindingKind) -> &'static str;

/// A finding about a session, as `check --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct FindingRow<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub line: Option<u32>,
    pub kind: &'static str,
    pub severity: &'static str,
    pub detail: &'a str,
    pub hint: &'static str,
    pub clients: Vec<&'static str>,
    pub lost_lines: &'a [u32],
}

impl<'a> FindingRow<'a> {
    /// Builds the row of a finding.
    pub fn new(session: &'a SessionId, finding: &'a Finding, hint: FindingHint<'_>) -> Self {
        Self {
            r#type: "finding",
            session,
            line: finding.line,
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            detail: &finding.detail,
            hint: hint(finding.kind),
            clients: finding.clients.iter().map(|client| client.version()).collect(),
            lost_lines: &finding.lost_lines,
        }
    }
}

/// A repaired session, as `repair --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct RepairRow<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub output: Option<Cow<'a, str>>,
    pub id: Option<&'a SessionId>,
    pub backup: Option<Cow<'a, str>>,
    pub findings: Vec<FindingRow<'a>>,
    pub left: Vec<FindingRow<'a>>,
    pub lines_changed: usize,
    pub lines_dropped: usize,
    pub lines_added: usize,
    pub reordered: bool,
}

impl<'a> RepairRow<'a> {
    /// Builds the row of a repaired session.
    pub fn new(repaired: &'a Repaired, hint: FindingHint<'_>) -> Self {
        let rows = |findings: &'a [Finding]| {
            findings.iter().map(|finding| FindingRow::new(&repaired.session, finding, hint)).collect()
        };
        let output = repaired.output.as_ref();
        let lines = repaired.line_counts();
        Self {
            r#type: "repair",
            session: &repaired.session,
            output: output.map(|output| output.path.to_string_lossy()),
            id: output.and_then(|output| output.id.as_ref()),
            backup: output.and_then(|output| output.backup.as_deref()).map(Path::to_string_lossy),
            findings: rows(&repaired.findings),
            left: rows(&repaired.remaining),
            lines_changed: lines.changed,
            lines_dropped: lines.dropped,
            lines_added: lines.added,
            reordered: repaired.reordered,
        }
    }
}

/// A cleaned session, as `clean --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct CleanedRow<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub file: Option<Cow<'a, str>>,
    pub raw: u64,
    pub without_base64: u64,
    pub cleaned: u64,
    pub by_rule: &'a BTreeMap<&'static str, u64>,
    pub redactions: &'a RedactionCounts,
    /// Sidecars (subagent logs and large results) that were cleaned too.
    pub beside: u64,
    pub resumable: bool,
    pub backup: Option<Cow<'a, str>>,
    pub warnings: Vec<String>,
}

impl<'a> CleanedRow<'a> {
    /// Builds the row of a cleaned session; `wording` words its warnings.
    pub fn new(cleaned: &'a Cleaned, wording: &dyn Fn(&CleanWarning) -> String) -> Self {
        let report = &cleaned.report;
        Self {
            r#type: "cleaned",
            session: &cleaned.session,
            file: cleaned.output.as_deref().map(Path::to_string_lossy),
            raw: report.bytes_before,
            without_base64: report.without_base64(),
            cleaned: report.bytes_after,
            by_rule: &report.by_rule,
            redactions: &report.redactions,
            beside: cleaned.sidecars,
            resumable: cleaned.is_resumable,
            backup: cleaned.backup.as_deref().map(Path::to_string_lossy),
            warnings: cleaned.warnings.iter().map(wording).collect(),
        }
    }
}

/// A secret and its position, as `secrets --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SecretRow<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub file: Cow<'a, str>,
    pub line: u32,
    pub r#where: &'static str,
    pub rule: &'a str,
    pub masked: &'a str,
}

impl<'a> From<&'a Secret> for SecretRow<'a> {
    fn from(secret: &'a Secret) -> Self {
        Self {
            r#type: "secret",
            session: &secret.session,
            file: secret.file.to_string_lossy(),
            line: secret.line.unwrap_or(0),
            r#where: secret.place.name(),
            rule: &secret.rule,
            masked: &secret.masked,
        }
    }
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
    pub removed: RemovedCounts,
    pub bytes_by: Vec<BytesByKind>,
    pub subagents: Option<u64>,
    pub tool_results: Option<u64>,
    pub removed_file: Option<String>,
    pub warnings: Vec<String>,
    pub cwd: Option<String>,
    pub resume: Option<String>,
}

/// Counts of what a clone left out or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct RemovedCounts {
    pub entries: u64,
    pub records: u64,
    pub turns: u64,
    pub calls: u64,
    pub shortened: u64,
    pub thinking: u64,
    pub mended: u64,
    pub added: u64,
    pub unreadable: u64,
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
    /// The number of characters that are not printed.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_chars: usize,
    /// The command that prints all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl MessageRow<'_> {
    /// Cuts its texts to a number of characters. Returns whether anything was cut.
    pub fn cut_to(&mut self, chars: usize) -> bool {
        self.cut_chars = self.blocks.iter_mut().map(|block| cut_block(block, chars)).sum();
        self.cut_chars > 0
    }
}

/// The messages that `show --json` printed, if their number of characters was limited.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ShownRow {
    pub r#type: &'static str,
    pub session: String,
    pub path: usize,
    pub first: Option<MessageNo>,
    pub last: Option<MessageNo>,
    pub messages: usize,
    pub cut_chars: usize,
    pub capped: bool,
    /// The command that prints what follows; `None` if everything that was asked for is printed.
    pub next: Option<String>,
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
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_chars: usize,
}

impl NoteRow {
    /// Cuts its text to a number of characters.
    pub fn cut_to(&mut self, chars: usize) {
        self.cut_chars = cut_string(&mut self.text, chars);
    }
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
            cut_chars: 0,
            rest: None,
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
            cut_chars: 0,
        }
    }
}

/// A path of an outline, as `outline --json` prints it before its items.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct OutlinePathRow {
    pub r#type: &'static str,
    pub n: usize,
    pub status: &'static str,
    pub main: bool,
    pub from_path: Option<usize>,
    pub from_message: Option<MessageNo>,
    pub messages: u32,
    pub turns: u32,
}

impl From<&OutlinedPath> for OutlinePathRow {
    fn from(path: &OutlinedPath) -> Self {
        Self {
            r#type: "outline_path",
            n: path.summary.n,
            status: path.summary.status.name(),
            main: path.summary.path.main,
            from_path: path.fork.map(|(n, _)| n),
            from_message: path.fork.and_then(|(_, message)| message),
            messages: path.summary.messages,
            turns: path.summary.turns,
        }
    }
}

/// An item of an outline, as `outline --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct OutlineItemRow<'a> {
    pub r#type: &'static str,
    pub kind: &'static str,
    pub path: usize,
    pub message: Option<MessageNo>,
    pub line: u32,
    pub time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_chars: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_path: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<Cow<'a, str>>,
}

impl<'a> OutlineItemRow<'a> {
    /// Describes an item of a path. The text of a prompt is cut to `limit` characters.
    pub fn new(path: &OutlinedPath, item: &'a OutlineItem, limit: usize) -> Self {
        let mut row = Self {
            r#type: "outline_item",
            kind: item.kind.name(),
            path: path.summary.n,
            message: item.message,
            line: item.line,
            time: item.time.and_then(Time::to_iso),
            anchor: None,
            text: None,
            cut_chars: 0,
            to_path: None,
            log: None,
        };
        match &item.kind {
            OutlineItemKind::Prompt { key, text, chars } => {
                let mut shown = text.clone();
                cut_string(&mut shown, limit);
                row.anchor = Some(key.to_string());
                row.cut_chars = chars.saturating_sub(limit.min(OutlineItemKind::MAX_TEXT));
                row.text = Some(shown);
            }
            OutlineItemKind::Fork { path } => row.to_path = Some(*path),
            OutlineItemKind::Subagent { log } => row.log = log.as_deref().map(Path::to_string_lossy),
            OutlineItemKind::Compaction => {}
        }
        row
    }
}

/// The counts of an outline, as `outline --json` prints them last.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct OutlineRow<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub title: &'a str,
    pub paths: usize,
    pub prompts: usize,
    pub items: usize,
    pub shown: usize,
    pub capped: bool,
}

impl<'a> OutlineRow<'a> {
    /// Describes an outline of which nothing has been printed.
    pub fn new(outline: &'a SessionOutline) -> Self {
        Self {
            r#type: "outline",
            session: &outline.session,
            title: &outline.title,
            paths: outline.paths.len(),
            prompts: outline.prompts(),
            items: outline.paths.iter().map(|path| path.items.len()).sum(),
            shown: 0,
            capped: false,
        }
    }
}

/// A message that a search found, as `search --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct HitRow<'a> {
    pub r#type: &'static str,
    pub n: usize,
    pub session: &'a SessionId,
    pub path: Cow<'a, str>,
    pub project: Option<&'a str>,
    pub title: Option<&'a str>,
    pub message: Option<MessageNo>,
    pub anchor: Option<String>,
    pub line: Option<u32>,
    pub uuid: Option<&'a str>,
    pub source: &'static str,
    pub place: &'static str,
    pub time: Option<String>,
    pub tool: Option<&'a str>,
    pub quality: &'static str,
    pub text: Option<&'a str>,
    /// In characters of `text`.
    pub matches: Vec<[usize; 2]>,
    pub cut_before: bool,
    pub cut_after: bool,
    pub offset: u64,
    pub block: u32,
    pub subagent: bool,
    pub deleted: bool,
    pub in_session: u64,
    pub copies: &'a [SessionId],
}

impl<'a> HitRow<'a> {
    /// Describes hit number `n`.
    pub fn new(n: usize, session: &'a SessionHits, hit: &'a Hit) -> Self {
        let summary = session.summary.as_ref();
        let snippet = hit.snippet.as_ref();
        let chars = |text: &str, bytes: usize| text[..bytes].chars().count();
        let matches = snippet.map_or_else(Vec::new, |snippet| {
            let in_chars = |range: &std::ops::Range<usize>| {
                [chars(&snippet.text, range.start), chars(&snippet.text, range.end)]
            };
            snippet.matches.iter().map(in_chars).collect()
        });
        Self {
            r#type: "hit",
            n,
            session: &session.session,
            path: session.path.to_string_lossy(),
            project: summary.map(|known| known.project.as_str()),
            title: summary.map(|known| known.summary.title.text.as_str()),
            message: hit.message,
            anchor: hit.message.map(|_| hit.key.to_string()),
            line: hit.line,
            uuid: hit.uuid.as_deref(),
            source: hit.source.name(),
            place: hit.place.name(),
            time: hit.time.and_then(Time::to_iso),
            tool: hit.tool.as_deref(),
            quality: hit.quality.name(),
            text: snippet.map(|snippet| snippet.text.as_str()),
            matches,
            cut_before: snippet.is_some_and(|snippet| snippet.cut_before),
            cut_after: snippet.is_some_and(|snippet| snippet.cut_after),
            offset: hit.position.0,
            block: hit.position.1,
            subagent: session.is_subagent,
            deleted: session.is_deleted,
            in_session: session.total,
            copies: &session.copies,
        }
    }
}

/// The counts of a search, as `search --json` prints them last.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct SearchRow<'a> {
    pub r#type: &'static str,
    pub query: &'a str,
    pub total: u64,
    pub sessions: u64,
    pub spread: u64,
    pub shown: usize,
    pub capped: bool,
}

impl<'a> SearchRow<'a> {
    /// Describes a search of which `shown` hits are printed.
    pub fn new(query: &'a str, results: &SearchResults, shown: usize) -> Self {
        Self {
            r#type: "search",
            query,
            total: results.total_messages,
            sessions: results.total_sessions,
            spread: results.total_spread,
            shown,
            capped: results.is_capped() || shown < results.hits().count(),
        }
    }
}

/// The index, as `index --json` prints it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct IndexStatusRow<'a> {
    pub r#type: &'static str,
    pub path: Cow<'a, str>,
    pub exists: bool,
    pub bytes: u64,
    pub log_bytes: u64,
    pub logs: u64,
    pub messages: u64,
    pub stale: u64,
    pub deleted: u64,
    pub keeps_deleted: bool,
}
/// A row of a query in SQL. Its fields are the columns; of columns with the same name, later ones get a number. Bytes are
/// hexadecimal.
pub struct SqlJsonRow<'v> {
    /// The names of the columns.
    pub names: &'v [String],
    /// Their values.
    pub values: &'v [SqlValue<'v>],
}

impl Serialize for SqlJsonRow<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(Some(self.names.len()))?;
        for (name, value) in self.names.iter().zip(self.values) {
            match value {
                SqlValue::Null => map.serialize_entry(name, &())?,
                SqlValue::Integer(number) => map.serialize_entry(name, number)?,
                SqlValue::Real(number) => map.serialize_entry(name, number)?,
                SqlValue::Text(text) => map.serialize_entry(name, text)?,
                SqlValue::Blob(bytes) => map.serialize_entry(name, &hex(bytes))?,
            }
        }
        map.end()
    }
}

/// Makes the names of columns distinct: a name that occurs again gets a number.
pub fn distinct_names(names: &[String]) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let mut candidate = name.clone();
        let mut n = 2;
        while distinct.contains(&candidate) {
            candidate = format!("{name}_{n}");
            n += 1;
        }
        distinct.push(candidate);
    }
    distinct
}
