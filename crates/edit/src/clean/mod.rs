//! Small copies of sessions: what is stored twice, what nobody reads, and what is no text goes.
//!
//! A level is a list of [`Rule`]s. Entries are cleaned one by one while a log is read, in memory that
//! does not grow with its texts; an entry that goes is bridged: what names it names the one before it.
//!
//! A thinking block's signature stands for what was said before it. So once something that is sent was
//! changed, thinking behind it goes, up to the next compaction.

mod changes;
mod copies;
mod lean;
mod media;
mod rules;
mod spoken;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

use rethread_log::{BlockKind, Content, Defect, Entry, Json, Key, Kind, Line, Sink, Span, parse_entry};
use rethread_model::Uid;
use rustc_hash::{FxHashMap, FxHashSet};

use changes::Changes;
pub use rules::{Level, Rule, Rules};

use crate::ids::{Named, spots};
use crate::redact::{Redaction, Redactions};
use crate::shorten::{shorten, shorten_block};
use crate::splice::string;

/// Entries that are gone, each with what stands in for it.
#[derive(Debug, Clone, Default)]
pub struct Bridges(FxHashMap<Uid, Bridge>);

/// An entry that is gone.
#[derive(Debug, Clone)]
struct Bridge {
    /// The id of its parent, as it was spelled.
    parent: Option<Box<str>>,
    /// The message that it was part of.
    message: Uid,
    /// Another part of that message, which hung on it and stays.
    sibling: Option<Box<str>>,
}

impl Bridges {
    /// What stands in for an entry that is gone where a part of `message` names it: another part of its own message,
    /// or else the nearest entry above it. `Some(None)` if there is none, nothing if the entry is there.
    fn over(&self, id: &[u8], message: Uid) -> Option<Option<&str>> {
        let mut bridge = self.0.get(&Uid::new(id))?;
        // An entry may be its own ancestor.
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

    /// Notes that a part of a message stays, for those parts above it that are gone; gives those of which that was
    /// not known.
    fn stays(&mut self, id: &[u8], parent: &[u8], message: Uid) -> Vec<Uid> {
        let mut noted = Vec::new();
        let mut above = Uid::new(parent);
        while let Some(bridge) = self.0.get_mut(&above)
            && bridge.message == message
            && bridge.sibling.is_none()
        {
            bridge.sibling = Some(rethread_log::unescape(id).into());
            noted.push(above);
            above = bridge.parent.as_ref().map_or(Uid::NONE, |parent| Uid::new(parent.as_bytes()));
        }
        noted
    }
}

/// The message that an answer of the model is part of.
fn message_id(raw: &[u8], line: &Line) -> Uid {
    let id = line.message.filter(|_| line.kind == Some(Kind::Assistant)).and_then(|m| m.id.string_in(raw));
    id.map_or(Uid::NONE, Uid::new)
}

/// What became of a log.
#[derive(Debug, Clone, Default)]
pub struct Cleaned {
    /// How large it was.
    pub raw: u64,
    /// How large it is.
    pub cleaned: u64,
    /// What each rule took, in bytes.
    pub by_rule: BTreeMap<&'static str, u64>,
    /// What was replaced because it must not be shared.
    pub redactions: Redactions,
    /// How many entries it had.
    pub entries: u64,
    /// How many of them are gone.
    pub dropped: u64,
    /// An entry was written before one went that it names: it has to be done again, with these.
    pub again: Option<Bridges>,
}

impl Cleaned {
    /// Adds what became of another.
    pub fn add(&mut self, other: &Self) {
        self.raw += other.raw;
        self.cleaned += other.cleaned;
        self.entries += other.entries;
        self.dropped += other.dropped;
        for (rule, n) in &other.by_rule {
            *self.by_rule.entry(rule).or_default() += n;
        }
        self.redactions.add(&other.redactions);
    }

    /// How large it would be without pictures and documents alone.
    pub fn without_base64(&self) -> u64 {
        self.raw - self.by_rule.get(Rule::Media.name()).copied().unwrap_or(0).min(self.raw)
    }
}

/// Results and inputs with more characters are shortened to so many.
const LONG: usize = 2000;

/// What takes the bytes of a cleaned log, and may keep the buffer that they are in.
type Write<'w> = &'w mut (dyn FnMut(&mut Vec<u8>) -> io::Result<()> + Send);

/// Cleans a log while it is read.
pub struct Cleaner<'c> {
    rules: Rules,
    redaction: Option<&'c Redaction>,
    write: Write<'c>,
    out: Vec<u8>,
    failed: Option<io::Error>,
    cleaned: Cleaned,
    bridges: Bridges,
    /// Ids that entries named before.
    named: FxHashSet<Uid>,
    late: bool,
    /// Something that is sent was changed.
    touched: bool,
    /// Strings that calls were given, by their hash.
    inputs: FxHashSet<u64>,
    /// What fields said that repeat from entry to entry.
    repeated: FxHashMap<Key, Vec<u8>>,
    changes: Changes,
}

/// How much is written at once.
const PIECE: usize = 1 << 18;

impl<'c> Cleaner<'c> {
    /// Begins to clean a log. `bridges` are those of a pass before, if there was one.
    pub fn new(
        rules: Rules,
        redaction: Option<&'c Redaction>,
        bridges: Option<Bridges>,
        write: Write<'c>,
    ) -> Self {
        Self {
            rules,
            redaction,
            write,
            out: Vec::with_capacity(2 * PIECE),
            failed: None,
            cleaned: Cleaned::default(),
            late: false,
            bridges: bridges.unwrap_or_default(),
            named: FxHashSet::default(),
            touched: false,
            inputs: FxHashSet::default(),
            repeated: FxHashMap::default(),
            changes: Changes::default(),
        }
    }

    /// Writes the rest and says what became of the log.
    pub fn finish(mut self) -> io::Result<Cleaned> {
        self.flush();
        match self.failed {
            Some(error) => Err(error),
            None => {
                self.cleaned.again = self.late.then_some(self.bridges);
                Ok(self.cleaned)
            }
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.cleaned.cleaned += self.out.len() as u64;
            self.failed = (self.write)(&mut self.out).err();
        }
        self.out.clear();
    }

    fn took(&mut self, rule: Rule, bytes: usize) {
        *self.cleaned.by_rule.entry(rule.name()).or_default() += bytes as u64;
    }

    /// An entry goes; what names it will name its parent.
    fn drop_entry(&mut self, raw: &[u8], line: &Line, rule: Rule) {
        let data = media::weight(raw);
        self.took(rule, raw.len() - usize::try_from(data).unwrap_or(0));
        if data > 0 {
            *self.cleaned.by_rule.entry(Rule::Media.name()).or_default() += data;
        }
        self.cleaned.dropped += 1;
        let Some(uuid) = line.string(Key::Uuid, raw) else { return };
        let uid = Uid::new(uuid);
        // A pass that knows all bridges has nothing to learn.
        self.late |= self.named.contains(&uid) && !self.bridges.0.contains_key(&uid);
        let parent = line.string(Key::ParentUuid, raw).map(|id| rethread_log::unescape(id).into());
        let sibling = self.bridges.0.remove(&uid).and_then(|bridge| bridge.sibling);
        self.bridges.0.insert(uid, Bridge { parent, message: message_id(raw, line), sibling });
    }

    /// Tells whether all of an entry goes, and why.
    fn whole(&self, line: &Line) -> Option<Rule> {
        let rule = match line.kind? {
            Kind::Progress => Rule::Progress,
            Kind::ApiRequest | Kind::ApiRequestBlob | Kind::ApiRequestShape => Rule::Requests,
            Kind::FileHistorySnapshot
            | Kind::FileHistoryDelta
            | Kind::AttributionSnapshot
            | Kind::ResumeHeadVouch
            | Kind::SpeculationAccept
            | Kind::CostState
            | Kind::ToolsUsed
            | Kind::DataFlowRecords
            | Kind::DataFlowIncomplete
            | Kind::MarbleOrigamiCommit
            | Kind::MarbleOrigamiSnapshot
            | Kind::MarbleOrigamiReset => Rule::Bookkeeping,
            _ => return None,
        };
        self.rules.has(rule).then_some(rule)
    }

    /// Changes in the message; tells whether nothing of it is left.
    fn message(&mut self, raw: &[u8], line: &Line) -> bool {
        let mut left = line.blocks.len();
        let mut gone: Vec<usize> = Vec::new();
        for (at, block) in line.blocks.iter().enumerate() {
            let whole = block.whole.of(raw);
            match block.kind {
                Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                    let secret = || self.redaction.is_some_and(|r| !r.find_in_entry(whole).is_empty());
                    if self.rules.has(Rule::Thinking) || self.touched || secret() {
                        gone.push(at);
                        left -= 1;
                    }
                }
                Some(BlockKind::Image | BlockKind::Document) if self.rules.has(Rule::Media) => {
                    if let Some(text) = media::block(whole).or_else(|| media::within(whole)) {
                        self.changes.replace(block.whole, text, Rule::Media);
                        self.touched = true;
                    }
                }
                Some(BlockKind::ToolUse) => {
                    copies::note_inputs(block.input.of(raw), &mut self.inputs);
                    let without = if self.rules.has(Rule::Media) { media::within(whole) } else { None };
                    let left = without.as_deref().unwrap_or(whole);
                    let short =
                        if self.rules.has(Rule::LongInputs) { shorten_block(left, LONG) } else { None };
                    self.touched |= without.is_some() || short.is_some();
                    self.two_changes(block.whole, without, short, Rule::LongInputs);
                }
                Some(BlockKind::ToolResult) => self.result(raw, block),
                _ => {
                    if self.rules.has(Rule::Media)
                        && let Some(text) = media::within(whole)
                    {
                        self.changes.replace(block.whole, text, Rule::Media);
                        self.touched = true;
                    }
                }
            }
        }
        // Blank text beside thinking is nothing by itself.
        let blank = |block: &rethread_log::BlockSpans| {
            let text = Json::new(block.text.of(raw)).as_str();
            block.kind == Some(BlockKind::Text) && text.is_some_and(|text| text.trim().is_empty())
        };
        let strips = self.rules.has(Rule::Thinking) || self.touched || !gone.is_empty();
        if strips && line.kind == Some(Kind::Assistant) {
            left -= line.blocks.iter().filter(|block| blank(block)).count();
        }
        if left > 0 {
            for at in gone {
                self.changes.remove_item(line.blocks[at].whole, Rule::Thinking);
            }
        }
        if line.blocks.is_empty()
            && self.rules.has(Rule::Media)
            && let Some(message) = &line.message
            && let Some(text) = media::within(message.content.of(raw))
        {
            self.changes.replace(message.content, text, Rule::Media);
            self.touched = true;
        }
        left == 0 && !line.blocks.is_empty()
    }

    fn result(&mut self, raw: &[u8], block: &rethread_log::BlockSpans) {
        let content = block.content.of(raw);
        let without = if self.rules.has(Rule::Media) { media::result(content) } else { None };
        let left = without.as_deref().unwrap_or(content);
        let short = if self.rules.has(Rule::LongResults) { shorten(left, LONG) } else { None };
        self.touched |= without.is_some() || short.is_some();
        self.two_changes(block.content, without, short, Rule::LongResults);
    }

    /// Data goes first, then another rule takes of what is left.
    fn two_changes(&mut self, span: Span, without: Option<Vec<u8>>, short: Option<Vec<u8>>, rule: Rule) {
        match (without, short) {
            (Some(without), Some(short)) => {
                let data = (span.len() as u64).saturating_sub(without.len() as u64);
                self.changes.data.push((rule, data));
                self.changes.replace(span, short, rule);
            }
            (Some(without), None) => self.changes.replace(span, without, Rule::Media),
            (None, Some(short)) => self.changes.replace(span, short, rule),
            (None, None) => {}
        }
    }

    /// What the entry says beside its message.
    fn beside(&mut self, raw: &[u8], line: &Line) {
        if !line.field(Key::ToolUseResult).is_empty() {
            copies::clean(raw, line, self.rules, &self.inputs, &mut self.changes);
        }
        if self.rules.has(Rule::Media) {
            for key in [Key::Attachment, Key::Data, Key::Content, Key::Snapshot, Key::LastPrompt] {
                let span = line.field(key);
                if span.len() >= media::WORTH
                    && let Some(with) = media::anywhere(span.of(raw))
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
            lean::envelope(raw, line, &mut self.repeated, &mut self.changes);
        }
    }

    /// Lets what names an entry that is gone name what stands in for it.
    fn bridge(&mut self, raw: &[u8], line: &Line) {
        let message = if self.bridges.0.is_empty() { Uid::NONE } else { message_id(raw, line) };
        if let (Some(id), Some(parent)) = (line.string(Key::Uuid, raw), line.string(Key::ParentUuid, raw))
            && !message.is_none()
        {
            let known = self.bridges.stays(id, parent, message);
            self.late |= known.iter().any(|above| self.named.contains(above));
        }
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid] {
            if let Some(id) = line.string(key, raw) {
                self.named.insert(Uid::new(id));
            }
        }
        if self.bridges.0.is_empty() {
            return;
        }
        // What was said names its parent and the call; what else there is may name anything.
        let mut found = Vec::new();
        if !matches!(line.kind, Some(Kind::User | Kind::Assistant)) {
            spots(raw, line, 0, &mut found);
        }
        for spot in found.iter().filter(|spot| spot.names != Named::Session) {
            let at = usize::try_from(spot.at).unwrap_or(0);
            let end = at + spot.len as usize;
            // Its own id stays, whoever else had it.
            let own = line.field(Key::Uuid);
            if own.start() < at && at < own.start() + own.len() {
                continue;
            }
            if let Some(over) = self.bridges.over(&raw[at..end], message) {
                let with = over.map_or(b"null".to_vec(), string);
                self.changes.all.push((at - 1, end + 1, with, None));
            }
        }
        let spotted = !found.is_empty();
        for key in [Key::ParentUuid, Key::LogicalParentUuid, Key::LeafUuid, Key::SourceToolAssistantUuid] {
            let span = line.field(key);
            if let Some(id) = span.string_in(raw).filter(|id| !spotted || id.len() != 36)
                && let Some(over) = self.bridges.over(id, message)
            {
                let with = over.map_or(b"null".to_vec(), string);
                self.changes.all.push((span.start(), span.start() + span.len(), with, None));
            }
        }
    }

    fn object(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        self.cleaned.entries += 1;
        if line.kind == Some(Kind::System) && line.string(Key::Subtype, raw) == Some(b"compact_boundary") {
            self.touched = false;
        }
        if let Some(rule) = self.whole(line) {
            return self.drop_entry(raw, line, rule);
        }
        if self.rules.has(Rule::Attachments)
            && line.kind == Some(Kind::Attachment)
            && !spoken::is_queued_prompt(raw, line)
        {
            return self.drop_entry(raw, line, Rule::Attachments);
        }
        self.changes.all.clear();
        self.changes.gone.clear();
        self.changes.data.clear();
        if self.rules.has(Rule::Tools) {
            match spoken::spoken(raw, line) {
                spoken::Spoken::Gone => return self.drop_entry(raw, line, Rule::Tools),
                spoken::Spoken::Content(content) => {
                    if let Some(message) = &line.message {
                        self.changes.note_data(message.content.of(raw), Rule::Tools);
                        self.changes.replace(message.content, content, Rule::Tools);
                    }
                    let copy = line.field(Key::ToolUseResult);
                    if !copy.is_empty() {
                        self.changes.note_data(copy.of(raw), Rule::Tools);
                        self.changes.remove_field(raw, copy, Rule::Tools);
                    }
                    if self.rules.has(Rule::Envelope) {
                        lean::envelope(raw, line, &mut self.repeated, &mut self.changes);
                    }
                }
                spoken::Spoken::AsItIs => self.beside(raw, line),
            }
        } else {
            if self.message(raw, line) {
                return self.drop_entry(raw, line, Rule::Thinking);
            }
            self.beside(raw, line);
        }
        self.bridge(raw, line);
        let Some(redaction) = self.redaction else {
            self.changes.write(raw, &mut self.cleaned.by_rule, &mut self.out);
            return self.flush_if_full();
        };
        let mut cleaned = Cow::Borrowed(raw);
        if !self.changes.is_empty() {
            let mut line = Vec::new();
            self.changes.write(raw, &mut self.cleaned.by_rule, &mut line);
            cleaned = line.into();
        }
        self.put(cleaned, redaction);
    }

    /// Writes an entry, with what must not be shared replaced.
    fn put(&mut self, line: Cow<'_, [u8]>, redaction: &Redaction) {
        let Some(safe) = redaction.rewrite_entry(&line, &mut self.cleaned.redactions) else {
            return self.put_bytes(line);
        };
        self.touched |= !self.touched && content_of(&line) != content_of(&safe);
        let taken = line.len().saturating_sub(safe.len()) as u64;
        *self.cleaned.by_rule.entry("redact").or_default() += taken;
        drop(line);
        self.put_bytes(safe.into());
    }

    /// Writes bytes; those of a very long entry are not copied if they are its own.
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

/// Names the part of an entry that a byte of it belongs to.
pub fn place_in(line: &Line, at: usize) -> &'static str {
    let within = |span: Span| (span.start()..span.start() + span.len()).contains(&at);
    if within(line.field(Key::ToolUseResult)) {
        return "result_copy";
    }
    if line.message.is_some_and(|message| within(message.whole)) {
        let block = line.blocks.iter().find(|block| within(block.whole)).and_then(|block| block.kind);
        return match block {
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => "thinking",
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => "tool_input",
            Some(BlockKind::Text) | None if line.kind == Some(Kind::Assistant) => "assistant_text",
            Some(BlockKind::Text) | None => "user_text",
            Some(_) => "tool_result",
        };
    }
    match line.kind {
        Some(Kind::ApiRequest | Kind::ApiRequestBlob | Kind::ApiRequestShape) => "request",
        Some(Kind::QueueOperation) => "queued_prompt",
        Some(Kind::FileHistorySnapshot | Kind::FileHistoryDelta | Kind::AttributionSnapshot) => "snapshot",
        Some(Kind::CustomTitle | Kind::AiTitle | Kind::Summary) => "title",
        Some(Kind::LastPrompt) => "last_prompt",
        Some(Kind::Attachment) if within(line.field(Key::Attachment)) => "attachment",
        Some(Kind::Progress) => "progress",
        Some(Kind::System) if within(line.field(Key::Content)) => "system_note",
        _ => "envelope",
    }
}

/// The content of the message in an entry.
fn content_of(raw: &[u8]) -> &[u8] {
    let mut line = Line::default();
    parse_entry(raw, &mut line);
    line.message.map(|message| message.content.of(raw)).unwrap_or_default()
}

impl Sink for Cleaner<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        self.cleaned.raw += raw.len() as u64;
        if entry.content == Content::Object {
            return self.object(entry, line);
        }
        if self.rules.has(Rule::Unreadable) {
            return self.took(Rule::Unreadable, raw.len());
        }
        let safe = self.redaction.and_then(|r| r.rewrite_torn(raw, &mut self.cleaned.redactions));
        self.put_bytes(safe.map_or(raw.into(), |text| text.into_bytes().into()));
    }

    fn defect(&mut self, _: Defect) {}
}
