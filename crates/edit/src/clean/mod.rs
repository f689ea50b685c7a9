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
mod reparent;
mod result_copy;
mod rules;
mod text_only;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use rethread_log::{
    BlockKind, BlockSpans, Defect, Entry, EntryContent, EntryKind, Json, Key, Line, Sink, Span, parse_entry,
};
use rethread_model::Uid;
use rustc_hash::{FxHashMap, FxHashSet};

use changes::EntryChanges;
pub use reparent::ReparentMap;
use reparent::message_id;
pub use rules::{Level, Rule, RuleSet};
use text_only::TextOnly;

use crate::WritePiece;
use crate::ids::{IdRole, find_id_spans};
use crate::outcome::SecretPlace;
use crate::redact::{Redaction, RedactionCounts};
use crate::shorten::{shorten, shorten_block};
use crate::splice::json_string;

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
    referenced: FxHashSet<Uid>,
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
    /// Creates a cleaner. `reparents` is the map from an earlier pass, if there was one.
    pub fn new(
        rules: RuleSet,
        redaction: Option<&'c Redaction>,
        reparents: Option<ReparentMap>,
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
            reparents: reparents.unwrap_or_default(),
            referenced: FxHashSet::default(),
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

    /// Removes an entry; references to it will be redirected.
    fn drop_entry(&mut self, raw: &[u8], line: &Line, rule: Rule) {
        let data = media::media_len(raw);
        self.count_removed(rule, raw.len() - usize::try_from(data).unwrap_or(0));
        if data > 0 {
            *self.report.by_rule.entry(Rule::Media.name()).or_default() += data;
        }
        self.report.dropped += 1;
        let Some(uuid) = line.string(Key::Uuid, raw).map(Uid::new) else { return };
        // A second pass already knows every removed entry.
        self.needs_rerun |= self.referenced.contains(&uuid) && !self.reparents.contains(uuid);
        self.reparents.record_removed(uuid, raw, line);
    }

    /// Returns the rule that removes the whole entry, if any.
    fn removal_rule(&self, raw: &[u8], line: &Line) -> Option<Rule> {
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
            EntryKind::Attachment
                if self.rules.has(Rule::Attachments) && !text_only::is_queued_prompt(raw, line) =>
            {
                Rule::Attachments
            }
            _ => return None,
        };
        self.rules.has(rule).then_some(rule)
    }

    /// Records the changes to an entry, except for references to other entries. Returns the rule that removes it if
    /// nothing of it is left.
    fn clean_content(&mut self, raw: &[u8], line: &Line) -> Option<Rule> {
        if !self.rules.has(Rule::Tools) {
            if self.clean_message(raw, line) {
                return Some(Rule::Thinking);
            }
            self.clean_other_fields(raw, line);
            return None;
        }
        match text_only::reduce_to_text(raw, line) {
            TextOnly::Remove => return Some(Rule::Tools),
            TextOnly::Keep => self.clean_other_fields(raw, line),
            TextOnly::Replace(content) => self.replace_content(raw, line, content),
        }
        None
    }

    /// Replaces the content of the message by its text and removes the copy of the result.
    fn replace_content(&mut self, raw: &[u8], line: &Line, content: Vec<u8>) {
        if let Some(message) = &line.message {
            self.changes.count_media(message.content.bytes_in(raw), Rule::Tools);
            self.changes.replace(message.content, content, Rule::Tools);
        }
        let copy = line.field(Key::ToolUseResult);
        if !copy.is_empty() {
            self.changes.count_media(copy.bytes_in(raw), Rule::Tools);
            self.changes.remove_field(raw, copy, Rule::Tools);
        }
        self.clean_envelope(raw, line);
    }

    /// Records the changes to the message; returns whether nothing of it is left.
    fn clean_message(&mut self, raw: &[u8], line: &Line) -> bool {
        if line.blocks.is_empty() {
            if let Some(message) = &line.message {
                self.replace_media(raw, message.content, media::replace_if_long);
            }
            return false;
        }
        let mut removed: Vec<Span> = Vec::new();
        for block in &line.blocks {
            if self.is_removed_thinking(raw, block) {
                removed.push(block.whole);
            } else {
                self.clean_block(raw, block);
            }
        }
        let mut left = line.blocks.len() - removed.len();
        // Blank text next to removed thinking does not count as content.
        let strips = self.rules.has(Rule::Thinking) || self.context_changed || !removed.is_empty();
        if strips && line.kind == Some(EntryKind::Assistant) {
            left -= line.blocks.iter().filter(|block| is_blank_text(raw, block)).count();
        }
        if left > 0 {
            for block in removed {
                self.changes.remove_item(block, Rule::Thinking);
            }
        }
        left == 0
    }

    /// Returns whether a block is thinking that cannot be kept: its signature would be invalid, or it contains a
    /// secret, which would have to be changed.
    fn is_removed_thinking(&self, raw: &[u8], block: &BlockSpans) -> bool {
        let thinking = matches!(block.kind, Some(BlockKind::Thinking | BlockKind::RedactedThinking));
        let has_secret =
            || self.redaction.is_some_and(|r| !r.find_in_entry(block.whole.bytes_in(raw)).is_empty());
        thinking && (self.rules.has(Rule::Thinking) || self.context_changed || has_secret())
    }

    fn clean_block(&mut self, raw: &[u8], block: &BlockSpans) {
        match block.kind {
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {}
            Some(BlockKind::Image | BlockKind::Document) => {
                self.replace_media(raw, block.whole, |whole| {
                    media::replace_block(whole).or_else(|| media::replace_if_long(whole))
                });
            }
            Some(BlockKind::ToolUse) => {
                result_copy::record_inputs(block.input.bytes_in(raw), &mut self.inputs);
                self.clean_long(raw, block.whole, Rule::LongInputs, media::replace_if_long, shorten_block);
            }
            Some(BlockKind::ToolResult) => {
                self.clean_long(raw, block.content, Rule::LongResults, media::replace_in_result, shorten);
            }
            _ => self.replace_media(raw, block.whole, media::replace_if_long),
        }
    }

    /// Replaces the data in a part of the message, if the rules ask for it.
    fn replace_media(&mut self, raw: &[u8], span: Span, replace: impl FnOnce(&[u8]) -> Option<Vec<u8>>) {
        if self.rules.has(Rule::Media)
            && let Some(with) = replace(span.bytes_in(raw))
        {
            self.changes.replace(span, with, Rule::Media);
            self.context_changed = true;
        }
    }

    /// Replaces the data in a tool call or result, and shortens the rest if `rule` asks for it.
    fn clean_long(
        &mut self,
        raw: &[u8],
        span: Span,
        rule: Rule,
        replace: fn(&[u8]) -> Option<Vec<u8>>,
        shorten: fn(&[u8], usize) -> Option<Vec<u8>>,
    ) {
        let value = span.bytes_in(raw);
        let without = if self.rules.has(Rule::Media) { replace(value) } else { None };
        let left = without.as_deref().unwrap_or(value);
        let short = if self.rules.has(rule) { shorten(left, MAX_CHARS) } else { None };
        self.context_changed |= without.is_some() || short.is_some();
        match (without, short) {
            (Some(without), Some(short)) => {
                let data = span.len().saturating_sub(without.len()) as u64;
                self.changes.count_media_bytes(data, rule);
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
        self.clean_envelope(raw, line);
    }

    fn clean_envelope(&mut self, raw: &[u8], line: &Line) {
        if self.rules.has(Rule::Envelope) {
            envelope::clean_envelope(raw, line, &mut self.repeated, &mut self.changes);
        }
    }

    /// Redirects the references of a kept entry to removed entries.
    fn reparent(&mut self, raw: &[u8], line: &Line) {
        let message = if self.reparents.is_empty() { None } else { message_id(raw, line) };
        if let (Some(id), Some(parent)) = (line.string(Key::Uuid, raw), line.string(Key::ParentUuid, raw))
            && let Some(message) = message
        {
            let updated = self.reparents.record_kept_sibling(id, parent, message);
            self.needs_rerun |= updated.iter().any(|ancestor| self.referenced.contains(ancestor));
        }
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid] {
            if let Some(id) = line.string(key, raw) {
                self.referenced.insert(Uid::new(id));
            }
        }
        if self.reparents.is_empty() {
            return;
        }
        let found_uuids = self.redirect_ids_anywhere(raw, line, message);
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid, Key::SourceToolAssistantUuid] {
            let span = line.field(key);
            if let Some(id) = span.string_in(raw).filter(|id| !found_uuids || id.len() != 36)
                && let Some(parent) = self.reparents.new_parent(id, message)
            {
                self.changes.replace_reference(span.range(), json_id(parent));
            }
        }
    }

    /// Redirects the references in an entry that is not a message; returns whether it contains ids. Messages refer
    /// only to their parent and their call, other entries may contain ids anywhere.
    fn redirect_ids_anywhere(&mut self, raw: &[u8], line: &Line, message: Option<Uid>) -> bool {
        let mut found = Vec::new();
        if !matches!(line.kind, Some(EntryKind::User | EntryKind::Assistant)) {
            find_id_spans(raw, line, 0, &mut found);
        }
        for id in found.iter().filter(|id| id.role != IdRole::Session) {
            let start = usize::try_from(id.at).unwrap_or(0);
            let end = start + id.len as usize;
            // The entry's own id never changes, even if a removed entry had the same one.
            let own = line.field(Key::Uuid);
            if own.start() < start && start < own.end() {
                continue;
            }
            if let Some(parent) = self.reparents.new_parent(&raw[start..end], message) {
                // The quotes are replaced, too.
                self.changes.replace_reference(start - 1..end + 1, json_id(parent));
            }
        }
        !found.is_empty()
    }

    fn clean_entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        self.report.entries += 1;
        if line.kind == Some(EntryKind::System) && line.string(Key::Subtype, raw) == Some(b"compact_boundary")
        {
            self.context_changed = false;
        }
        self.changes.clear();
        if let Some(rule) = self.removal_rule(raw, line).or_else(|| self.clean_content(raw, line)) {
            return self.drop_entry(raw, line, rule);
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
        let removed = line.len().saturating_sub(safe.len()) as u64;
        *self.report.by_rule.entry("redact").or_default() += removed;
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

/// Returns the part of an entry that contains a byte offset.
pub fn secret_place_at(line: &Line, at: usize) -> SecretPlace {
    let within = |span: Span| (span.start()..span.start() + span.len()).contains(&at);
    if within(line.field(Key::ToolUseResult)) {
        return SecretPlace::ResultCopy;
    }
    if line.message.is_some_and(|message| within(message.whole)) {
        let block = line.blocks.iter().find(|block| within(block.whole)).and_then(|block| block.kind);
        return match block {
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => SecretPlace::Thinking,
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => {
                SecretPlace::ToolInput
            }
            Some(BlockKind::Text) | None if line.kind == Some(EntryKind::Assistant) => {
                SecretPlace::AssistantText
            }
            Some(BlockKind::Text) | None => SecretPlace::UserText,
            Some(_) => SecretPlace::ToolResult,
        };
    }
    match line.kind {
        Some(EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape) => {
            SecretPlace::Request
        }
        Some(EntryKind::QueueOperation) => SecretPlace::QueuedPrompt,
        Some(
            EntryKind::FileHistorySnapshot | EntryKind::FileHistoryDelta | EntryKind::AttributionSnapshot,
        ) => SecretPlace::Snapshot,
        Some(EntryKind::CustomTitle | EntryKind::AiTitle | EntryKind::Summary) => SecretPlace::Title,
        Some(EntryKind::LastPrompt) => SecretPlace::LastPrompt,
        Some(EntryKind::Attachment) if within(line.field(Key::Attachment)) => SecretPlace::Attachment,
        Some(EntryKind::Progress) => SecretPlace::Progress,
        Some(EntryKind::System) if within(line.field(Key::Content)) => SecretPlace::SystemNote,
        _ => SecretPlace::Envelope,
    }
}

/// Returns whether a block is a text of white space only.
fn is_blank_text(raw: &[u8], block: &BlockSpans) -> bool {
    let text = || Json::new(block.text.bytes_in(raw)).as_str();
    block.kind == Some(BlockKind::Text) && text().is_some_and(|text| text.trim().is_empty())
}

/// Encodes an optional id as JSON.
fn json_id(id: Option<&str>) -> Vec<u8> {
    id.map_or_else(|| b"null".to_vec(), json_string)
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
