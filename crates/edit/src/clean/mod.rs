//! Writes smaller copies of sessions: removes duplicates, fields that nobody reads, and data that is not text.
//!
//! A level is a list of [`Rule`]s. Entries are cleaned one by one while a log is read, and memory use does not
//! grow with their texts. References to a removed entry are redirected to the entry before it.
//!
//! The signature of a thinking block covers the content before it. So once content that is sent was changed,
//! the thinking after it is removed, up to the next compaction.

mod changes;
mod envelope;
mod media;
mod result_copy;
mod rules;
mod text_only;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use rethread_log::{
    BlockKind, Defect, Entry, EntryContent, EntryKind, Json, Key, Line, Sink, Span, parse_entry,
};
use rethread_model::Uid;
use rustc_hash::{FxHashMap, FxHashSet};

use changes::EntryChanges;
pub use rules::{Level, Rule, RuleSet};

use crate::ids::{IdRole, find_id_spans};
use crate::redact::{Redaction, RedactionCounts};
use crate::shorten::{shorten, shorten_block};
use crate::splice::json_string;
use crate::stream::WritePiece;

/// Removed entries, each with the data needed to find its replacement.
#[derive(Debug, Clone, Default)]
pub struct ReparentMap(FxHashMap<Uid, RemovedNode>);

/// A removed entry.
#[derive(Debug, Clone)]
struct RemovedNode {
    /// The id of its parent, unescaped.
    parent: Option<Box<str>>,
    /// The message that it was part of.
    message: Option<Uid>,
    /// A kept entry of the same message that was its descendant.
    sibling: Option<Box<str>>,
}

impl ReparentMap {
    /// Returns the entry that replaces a removed one as the parent of an entry of `message`: another entry of the
    /// removed one's message, or else its nearest kept ancestor; `Some(None)` if there is neither. Returns `None` if
    /// `id` was not removed.
    fn new_parent(&self, id: &[u8], message: Option<Uid>) -> Option<Option<&str>> {
        let mut bridge = self.0.get(&Uid::new(id))?;
        // The parents may form a cycle.
        for _ in 0..=self.0.len() {
            if let Some(sibling) = bridge.sibling.as_deref().filter(|_| bridge.message != message) {
                return Some(Some(sibling));
            }
            let Some(above) = &bridge.parent else { return Some(None) };
            match self.0.get(&Uid::new(above.as_bytes())) {
                Some(next) => bridge = next,
                None => return Some(Some(above)),
            }
        }
        Some(None)
    }

    /// Records a kept entry as the sibling of its removed ancestors in the same message. Returns those that had no
    /// sibling before.
    fn record_kept_sibling(&mut self, id: &[u8], parent: &[u8], message: Uid) -> Vec<Uid> {
        let mut noted = Vec::new();
        let mut next = Some(Uid::new(parent));
        while let Some(above) = next
            && let Some(bridge) = self.0.get_mut(&above)
            && bridge.message == Some(message)
            && bridge.sibling.is_none()
        {
            bridge.sibling = Some(rethread_log::unescape(id).into());
            noted.push(above);
            next = bridge.parent.as_ref().map(|parent| Uid::new(parent.as_bytes()));
        }
        noted
    }
}

/// Returns the id of the assistant message that an entry is part of.
fn message_id(raw: &[u8], line: &Line) -> Option<Uid> {
    let id =
        line.message.filter(|_| line.kind == Some(EntryKind::Assistant)).and_then(|m| m.id.string_in(raw));
    id.map(Uid::new)
}

/// The result of cleaning a log.
#[derive(Debug, Clone, Default)]
pub struct CleanReport {
    /// The size of the log before, in bytes.
    pub bytes_before: u64,
    /// The size of the log after, in bytes.
    pub bytes_after: u64,
    /// The bytes that each rule removed.
    pub by_rule: BTreeMap<&'static str, u64>,
    /// The number of redactions by rule.
    pub redactions: RedactionCounts,
    /// The number of entries before.
    pub entries: u64,
    /// The number of removed entries.
    pub dropped: u64,
    /// Set if an entry was written before an entry that it refers to was removed. The log has to be cleaned again
    /// with this map.
    pub rerun_with: Option<ReparentMap>,
}

impl CleanReport {
    /// Adds the figures of another report.
    pub fn add(&mut self, other: &Self) {
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
        self.entries += other.entries;
        self.dropped += other.dropped;
        for (rule, n) in &other.by_rule {
            *self.by_rule.entry(rule).or_default() += n;
        }
        self.redactions.add(&other.redactions);
    }

    /// Returns the size of the log if only media were removed, in bytes.
    pub fn without_base64(&self) -> u64 {
        self.bytes_before - self.by_rule.get(Rule::Media.name()).copied().unwrap_or(0).min(self.bytes_before)
    }
}

/// Results and inputs with more characters than this are shortened to it.
const MAX_CHARS: usize = 2000;

/// Cleans a log while it is read.
pub struct Cleaner<'c> {
    rules: RuleSet,
    redaction: Option<&'c Redaction>,
    write: WritePiece<'c>,
    out: Vec<u8>,
    failed: Option<io::Error>,
    report: CleanReport,
    reparents: ReparentMap,
    /// Ids that earlier entries refer to.
    named: FxHashSet<Uid>,
    needs_rerun: bool,
    /// Content that is sent was changed since the last compaction.
    context_changed: bool,
    /// Hashes of the strings in tool inputs.
    inputs: FxHashSet<u64>,
    /// The last value of each field that repeats from entry to entry.
    repeated: FxHashMap<Key, Vec<u8>>,
    changes: EntryChanges,
}

/// Output is written in pieces of about this size, in bytes.
const PIECE: usize = 1 << 18;

impl<'c> Cleaner<'c> {
    /// Creates a cleaner. `bridges` is the map from an earlier pass, if there was one.
    pub fn new(
        rules: RuleSet,
        redaction: Option<&'c Redaction>,
        bridges: Option<ReparentMap>,
        write: WritePiece<'c>,
    ) -> Self {
        Self {
            rules,
            redaction,
            write,
            out: Vec::with_capacity(2 * PIECE),
            failed: None,
            report: CleanReport::default(),
            needs_rerun: false,
            reparents: bridges.unwrap_or_default(),
            named: FxHashSet::default(),
            context_changed: false,
            inputs: FxHashSet::default(),
            repeated: FxHashMap::default(),
            changes: EntryChanges::default(),
        }
    }

    /// Writes the rest and returns the report.
    pub fn finish(mut self) -> io::Result<CleanReport> {
        self.flush();
        match self.failed {
            Some(error) => Err(error),
            None => {
                self.report.rerun_with = self.needs_rerun.then_some(self.reparents);
                Ok(self.report)
            }
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.report.bytes_after += self.out.len() as u64;
            self.failed = (self.write)(&mut self.out).err();
        }
        self.out.clear();
    }

    fn count_removed(&mut self, rule: Rule, bytes: usize) {
        *self.report.by_rule.entry(rule.name()).or_default() += bytes as u64;
    }

    /// Removes an entry; references to it will be redirected to its parent.
    fn drop_entry(&mut self, raw: &[u8], line: &Line, rule: Rule) {
        let data = media::media_len(raw);
        self.count_removed(rule, raw.len() - usize::try_from(data).unwrap_or(0));
        if data > 0 {
            *self.report.by_rule.entry(Rule::Media.name()).or_default() += data;
        }
        self.report.dropped += 1;
        let Some(uuid) = line.string(Key::Uuid, raw) else { return };
        let uid = Uid::new(uuid);
        // A second pass already knows every removed entry.
        self.needs_rerun |= self.named.contains(&uid) && !self.reparents.0.contains_key(&uid);
        let parent = line.string(Key::ParentUuid, raw).map(|id| rethread_log::unescape(id).into());
        let sibling = self.reparents.0.remove(&uid).and_then(|bridge| bridge.sibling);
        self.reparents.0.insert(uid, RemovedNode { parent, message: message_id(raw, line), sibling });
    }

    /// Returns the rule that removes the whole entry, if any.
    fn removal_rule(&self, line: &Line) -> Option<Rule> {
        let rule = match line.kind? {
            EntryKind::Progress => Rule::Progress,
            EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape => Rule::Requests,
            EntryKind::FileHistorySnapshot
            | EntryKind::FileHistoryDelta
            | EntryKind::AttributionSnapshot
            | EntryKind::ResumeHeadVouch
            | EntryKind::SpeculationAccept
            | EntryKind::CostState
            | EntryKind::ToolsUsed
            | EntryKind::DataFlowRecords
            | EntryKind::DataFlowIncomplete
            | EntryKind::MarbleOrigamiCommit
            | EntryKind::MarbleOrigamiSnapshot
            | EntryKind::MarbleOrigamiReset => Rule::Bookkeeping,
            _ => return None,
        };
        self.rules.has(rule).then_some(rule)
    }

    /// Records the changes to the message; returns whether nothing of it is left.
    fn clean_message(&mut self, raw: &[u8], line: &Line) -> bool {
        let mut left = line.blocks.len();
        let mut removed: Vec<usize> = Vec::new();
        for (at, block) in line.blocks.iter().enumerate() {
            let whole = block.whole.bytes_in(raw);
            match block.kind {
                Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                    let secret = || self.redaction.is_some_and(|r| !r.find_in_entry(whole).is_empty());
                    if self.rules.has(Rule::Thinking) || self.context_changed || secret() {
                        removed.push(at);
                        left -= 1;
                    }
                }
                Some(BlockKind::Image | BlockKind::Document) if self.rules.has(Rule::Media) => {
                    if let Some(text) = media::replace_block(whole).or_else(|| media::replace_if_long(whole))
                    {
                        self.changes.replace(block.whole, text, Rule::Media);
                        self.context_changed = true;
                    }
                }
                Some(BlockKind::ToolUse) => {
                    result_copy::note_inputs(block.input.bytes_in(raw), &mut self.inputs);
                    let without =
                        if self.rules.has(Rule::Media) { media::replace_if_long(whole) } else { None };
                    let left = without.as_deref().unwrap_or(whole);
                    let short =
                        if self.rules.has(Rule::LongInputs) { shorten_block(left, MAX_CHARS) } else { None };
                    self.context_changed |= without.is_some() || short.is_some();
                    self.record_changes(block.whole, without, short, Rule::LongInputs);
                }
                Some(BlockKind::ToolResult) => self.clean_result(raw, block),
                _ => {
                    if self.rules.has(Rule::Media)
                        && let Some(text) = media::replace_if_long(whole)
                    {
                        self.changes.replace(block.whole, text, Rule::Media);
                        self.context_changed = true;
                    }
                }
            }
        }
        // Blank text next to removed thinking does not count as content.
        let blank = |block: &rethread_log::BlockSpans| {
            let text = Json::new(block.text.bytes_in(raw)).as_str();
            block.kind == Some(BlockKind::Text) && text.is_some_and(|text| text.trim().is_empty())
        };
        let strips = self.rules.has(Rule::Thinking) || self.context_changed || !removed.is_empty();
        if strips && line.kind == Some(EntryKind::Assistant) {
            left -= line.blocks.iter().filter(|block| blank(block)).count();
        }
        if left > 0 {
            for at in removed {
                self.changes.remove_item(line.blocks[at].whole, Rule::Thinking);
            }
        }
        if line.blocks.is_empty()
            && self.rules.has(Rule::Media)
            && let Some(message) = &line.message
            && let Some(text) = media::replace_if_long(message.content.bytes_in(raw))
        {
            self.changes.replace(message.content, text, Rule::Media);
            self.context_changed = true;
        }
        left == 0 && !line.blocks.is_empty()
    }

    fn clean_result(&mut self, raw: &[u8], block: &rethread_log::BlockSpans) {
        let content = block.content.bytes_in(raw);
        let without = if self.rules.has(Rule::Media) { media::replace_in_result(content) } else { None };
        let left = without.as_deref().unwrap_or(content);
        let short = if self.rules.has(Rule::LongResults) { shorten(left, MAX_CHARS) } else { None };
        self.context_changed |= without.is_some() || short.is_some();
        self.record_changes(block.content, without, short, Rule::LongResults);
    }

    /// Records the removal of data and then the change that another rule makes to the rest.
    fn record_changes(&mut self, span: Span, without: Option<Vec<u8>>, short: Option<Vec<u8>>, rule: Rule) {
        match (without, short) {
            (Some(without), Some(short)) => {
                let data = (span.len() as u64).saturating_sub(without.len() as u64);
                self.changes.media_bytes.push((rule, data));
                self.changes.replace(span, short, rule);
            }
            (Some(without), None) => self.changes.replace(span, without, Rule::Media),
            (None, Some(short)) => self.changes.replace(span, short, rule),
            (None, None) => {}
        }
    }

    /// Cleans the fields of an entry other than its message.
    fn clean_other_fields(&mut self, raw: &[u8], line: &Line) {
        if !line.field(Key::ToolUseResult).is_empty() {
            result_copy::clean(raw, line, self.rules, &self.inputs, &mut self.changes);
        }
        if self.rules.has(Rule::Media) {
            for key in [Key::Attachment, Key::Data, Key::Content, Key::Snapshot, Key::LastPrompt] {
                let span = line.field(key);
                if span.len() >= media::MIN_DATA_LEN
                    && let Some(with) = media::replace_in_strings(span.bytes_in(raw))
                {
                    self.changes.replace(span, with, Rule::Media);
                }
            }
        }
        if self.rules.has(Rule::Bookkeeping) {
            let inputs = line.field(Key::WireToolInputs);
            if !inputs.is_empty() {
                self.changes.remove_field(raw, inputs, Rule::Bookkeeping);
            }
        }
        if self.rules.has(Rule::Envelope) {
            envelope::clean_envelope(raw, line, &mut self.repeated, &mut self.changes);
        }
    }

    /// Redirects references to removed entries.
    fn reparent(&mut self, raw: &[u8], line: &Line) {
        let message = if self.reparents.0.is_empty() { None } else { message_id(raw, line) };
        if let (Some(id), Some(parent)) = (line.string(Key::Uuid, raw), line.string(Key::ParentUuid, raw))
            && let Some(message) = message
        {
            let known = self.reparents.record_kept_sibling(id, parent, message);
            self.needs_rerun |= known.iter().any(|above| self.named.contains(above));
        }
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid] {
            if let Some(id) = line.string(key, raw) {
                self.named.insert(Uid::new(id));
            }
        }
        if self.reparents.0.is_empty() {
            return;
        }
        // Messages refer only to their parent and their call; other entries may contain ids anywhere.
        let mut found = Vec::new();
        if !matches!(line.kind, Some(EntryKind::User | EntryKind::Assistant)) {
            find_id_spans(raw, line, 0, &mut found);
        }
        for spot in found.iter().filter(|spot| spot.role != IdRole::Session) {
            let at = usize::try_from(spot.at).unwrap_or(0);
            let end = at + spot.len as usize;
            // The entry's own id never changes, even if a removed entry had the same one.
            let own = line.field(Key::Uuid);
            if own.start() < at && at < own.start() + own.len() {
                continue;
            }
            if let Some(over) = self.reparents.new_parent(&raw[at..end], message) {
                let with = over.map_or(b"null".to_vec(), json_string);
                self.changes.replacements.push((at - 1, end + 1, with, None));
            }
        }
        let spotted = !found.is_empty();
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid, Key::SourceToolAssistantUuid] {
            let span = line.field(key);
            if let Some(id) = span.string_in(raw).filter(|id| !spotted || id.len() != 36)
                && let Some(over) = self.reparents.new_parent(id, message)
            {
                let with = over.map_or(b"null".to_vec(), json_string);
                self.changes.replacements.push((span.start(), span.start() + span.len(), with, None));
            }
        }
    }

    fn clean_entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        self.report.entries += 1;
        if line.kind == Some(EntryKind::System) && line.string(Key::Subtype, raw) == Some(b"compact_boundary")
        {
            self.context_changed = false;
        }
        if let Some(rule) = self.removal_rule(line) {
            return self.drop_entry(raw, line, rule);
        }
        if self.rules.has(Rule::Attachments)
            && line.kind == Some(EntryKind::Attachment)
            && !text_only::is_queued_prompt(raw, line)
        {
            return self.drop_entry(raw, line, Rule::Attachments);
        }
        self.changes.replacements.clear();
        self.changes.removals.clear();
        self.changes.media_bytes.clear();
        if self.rules.has(Rule::Tools) {
            match text_only::reduce_to_text(raw, line) {
                text_only::TextOnly::Remove => return self.drop_entry(raw, line, Rule::Tools),
                text_only::TextOnly::Replace(content) => {
                    if let Some(message) = &line.message {
                        self.changes.count_media(message.content.bytes_in(raw), Rule::Tools);
                        self.changes.replace(message.content, content, Rule::Tools);
                    }
                    let copy = line.field(Key::ToolUseResult);
                    if !copy.is_empty() {
                        self.changes.count_media(copy.bytes_in(raw), Rule::Tools);
                        self.changes.remove_field(raw, copy, Rule::Tools);
                    }
                    if self.rules.has(Rule::Envelope) {
                        envelope::clean_envelope(raw, line, &mut self.repeated, &mut self.changes);
                    }
                }
                text_only::TextOnly::Keep => self.clean_other_fields(raw, line),
            }
        } else {
            if self.clean_message(raw, line) {
                return self.drop_entry(raw, line, Rule::Thinking);
            }
            self.clean_other_fields(raw, line);
        }
        self.reparent(raw, line);
        let Some(redaction) = self.redaction else {
            self.changes.write(raw, &mut self.report.by_rule, &mut self.out);
            return self.flush_if_full();
        };
        let mut cleaned = Cow::Borrowed(raw);
        if !self.changes.is_empty() {
            let mut line = Vec::new();
            self.changes.write(raw, &mut self.report.by_rule, &mut line);
            cleaned = line.into();
        }
        self.put(cleaned, redaction);
    }

    /// Writes an entry with its secrets redacted.
    fn put(&mut self, line: Cow<'_, [u8]>, redaction: &Redaction) {
        let Some(safe) = redaction.rewrite_entry(&line, &mut self.report.redactions) else {
            return self.put_bytes(line);
        };
        self.context_changed |= !self.context_changed && content_of(&line) != content_of(&safe);
        let taken = line.len().saturating_sub(safe.len()) as u64;
        *self.report.by_rule.entry("redact").or_default() += taken;
        drop(line);
        self.put_bytes(safe.into());
    }

    /// Writes bytes; an owned buffer of a very long entry is passed on without a copy.
    fn put_bytes(&mut self, bytes: Cow<'_, [u8]>) {
        match bytes {
            Cow::Owned(bytes) if bytes.len() >= PIECE => {
                self.flush();
                self.out = bytes;
                self.flush();
                self.out = Vec::with_capacity(2 * PIECE);
            }
            bytes => {
                self.out.extend_from_slice(&bytes);
                self.flush_if_full();
            }
        }
    }

    fn flush_if_full(&mut self) {
        if self.out.len() >= PIECE {
            self.flush();
        }
    }
}

/// Returns the name of the part of an entry that contains a byte offset.
pub fn entry_part_at(line: &Line, at: usize) -> &'static str {
    let within = |span: Span| (span.start()..span.start() + span.len()).contains(&at);
    if within(line.field(Key::ToolUseResult)) {
        return "result_copy";
    }
    if line.message.is_some_and(|message| within(message.whole)) {
        let block = line.blocks.iter().find(|block| within(block.whole)).and_then(|block| block.kind);
        return match block {
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => "thinking",
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => "tool_input",
            Some(BlockKind::Text) | None if line.kind == Some(EntryKind::Assistant) => "assistant_text",
            Some(BlockKind::Text) | None => "user_text",
            Some(_) => "tool_result",
        };
    }
    match line.kind {
        Some(EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape) => "request",
        Some(EntryKind::QueueOperation) => "queued_prompt",
        Some(
            EntryKind::FileHistorySnapshot | EntryKind::FileHistoryDelta | EntryKind::AttributionSnapshot,
        ) => "snapshot",
        Some(EntryKind::CustomTitle | EntryKind::AiTitle | EntryKind::Summary) => "title",
        Some(EntryKind::LastPrompt) => "last_prompt",
        Some(EntryKind::Attachment) if within(line.field(Key::Attachment)) => "attachment",
        Some(EntryKind::Progress) => "progress",
        Some(EntryKind::System) if within(line.field(Key::Content)) => "system_note",
        _ => "envelope",
    }
}

/// Returns the content of the message in an entry.
fn content_of(raw: &[u8]) -> &[u8] {
    let mut line = Line::default();
    parse_entry(raw, &mut line);
    line.message.map(|message| message.content.bytes_in(raw)).unwrap_or_default()
}

impl Sink for Cleaner<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        self.report.bytes_before += raw.len() as u64;
        if entry.content == EntryContent::Object {
            return self.clean_entry(entry, line);
        }
        if self.rules.has(Rule::Unreadable) {
            return self.count_removed(Rule::Unreadable, raw.len());
        }
        let safe = self.redaction.and_then(|r| r.rewrite_torn(raw, &mut self.report.redactions));
        self.put_bytes(safe.map_or(raw.into(), |text| text.into_bytes().into()));
    }

    fn defect(&mut self, _: Defect) {}
}
