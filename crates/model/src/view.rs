//! A readable view of a path: messages with their blocks, results under their calls, notes in between.

use std::borrow::Cow;

use rethread_log::{BlockKind, BlockSpans, Json, Key, Line, Span};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::facts::{EntryLocation, Node, Role};
use crate::flags::EntryFlags;
use crate::id::Time;
use crate::index::{CallId, EntryNo, IndexGroups, MessageNo, NodeId, StepId};
use crate::session::Session;
use crate::step_sequence::{StepContents, StepSequence};
use crate::step_stream::StepNodes;
use crate::usage::Usage;

/// The kind of a message for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageKind {
    /// A prompt of a person.
    Prompt,
    /// Text and tool calls of the model.
    Answer,
    /// Tool results.
    Result,
    /// The summary after a compaction.
    Summary,
    /// A slash or shell command, or its output.
    Command,
    /// An interruption, a notice, a hidden note, an error.
    Note,
}

impl MessageKind {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Result => "result",
            Self::Summary => "summary",
            Self::Command => "command",
            Self::Note => "note",
        }
    }
}

/// One message of a path.
#[derive(Debug, Clone)]
pub struct MessageView<'a> {
    /// Its number in the session, which never changes.
    pub n: MessageNo,
    /// Set for a message of the model.
    pub assistant: bool,
    /// The kind of the message.
    pub kind: MessageKind,
    /// Set if the client hides it from the user.
    pub meta: bool,
    /// The numbers of its entries.
    pub entries: Vec<EntryNo>,
    /// The line of its first entry.
    pub line: u32,
    /// The time of the message.
    pub time: Option<Time>,
    /// The model.
    pub model: Option<&'a str>,
    /// Its blocks, each once, in order.
    pub blocks: Vec<BlockView<'a>>,
    /// The usage.
    pub usage: Option<Usage>,
    /// The client's own copy of a tool result (`toolUseResult`), if this is one.
    pub tool_use_result: Json<'a>,
}

/// One content block.
#[derive(Debug, Clone)]
pub struct BlockView<'a> {
    /// The type of the block; `None` if it is unknown.
    pub kind: Option<BlockKind>,
    /// The bytes that the spans refer to: those of the entry, or of the block alone.
    raw: &'a [u8],
    /// The positions of its parts.
    spans: BlockSpans,
    /// Set if the content is a plain string instead of a block.
    bare_string: bool,
    /// For a call, the message with its result; for a result, the message with its call.
    pub partner_message: Option<MessageNo>,
    /// The call that it makes or answers, if that is in the session.
    pub call: Option<CallId>,
    /// For a result, the message that contains its call. If several messages use the same id, each use is a
    /// separate call, and a result belongs to the last one before it.
    pub owner: Option<MessageNo>,
}

impl<'a> BlockView<'a> {
    fn new(kind: Option<BlockKind>, raw: &'a [u8], spans: BlockSpans) -> Self {
        Self { kind, raw, spans, bare_string: false, partner_message: None, call: None, owner: None }
    }

    /// Returns the block as written in the log.
    pub fn json(&self) -> Json<'a> {
        Json::new(self.spans.whole.bytes_in(self.raw))
    }

    /// Returns whether the content is a plain string and not a block.
    pub fn is_bare_string(&self) -> bool {
        self.bare_string
    }

    /// Returns the text of a text or thinking block.
    pub fn text(&self) -> Cow<'a, str> {
        let whole = self.bare_string || self.spans.whole.string_in(self.raw).is_some();
        let text = if whole { self.spans.whole } else { self.spans.text };
        Json::new(text.bytes_in(self.raw)).as_str().unwrap_or_default()
    }

    /// Returns the text of a user's block as typed, without the client's markup.
    pub fn readable(&self) -> Cow<'a, str> {
        match self.text() {
            Cow::Borrowed(text) => crate::prompt::readable_text(text),
            Cow::Owned(text) => match crate::prompt::readable_text(&text) {
                // It may be very long, so a substring is borrowed.
                Cow::Borrowed("") => Cow::Owned(String::new()),
                Cow::Borrowed(part) => {
                    let start = part.as_ptr().addr().saturating_sub(text.as_ptr().addr());
                    let end = start + part.len();
                    let mut text = text;
                    text.truncate(end);
                    text.drain(..start);
                    Cow::Owned(text)
                }
                Cow::Owned(other) => Cow::Owned(other),
            },
        }
    }

    /// Returns the id of a call, or of the call that a result belongs to.
    pub fn id(&self) -> Cow<'a, str> {
        Json::new(self.spans.id.bytes_in(self.raw)).as_str().unwrap_or_default()
    }

    /// Returns the tool of a call.
    pub fn tool(&self) -> Cow<'a, str> {
        Json::new(self.spans.name.bytes_in(self.raw)).as_str().unwrap_or_default()
    }

    /// Returns the input of a call.
    pub fn input(&self) -> Json<'a> {
        Json::new(self.spans.input.bytes_in(self.raw))
    }

    /// Returns whether this is a tool result.
    pub fn is_result(&self) -> bool {
        self.kind == Some(BlockKind::ToolResult)
    }

    /// Returns whether a result is an error.
    pub fn is_error(&self) -> bool {
        self.spans.is_error.bytes_in(self.raw) == b"true"
    }

    /// Returns the parts of a result.
    pub fn result_parts(&self) -> Vec<ResultPart<'a>> {
        let content = Json::new(self.spans.content.bytes_in(self.raw));
        if let Some(text) = content.as_str() {
            return vec![ResultPart::Text(text)];
        }
        let part = |item: Json<'a>| match (item.get("type").and_then(Json::raw_string), item.get("text")) {
            (Some(b"text"), Some(text)) => ResultPart::Text(text.as_str().unwrap_or_default()),
            _ => item.as_str().map_or(ResultPart::Other(item), ResultPart::Text),
        };
        content.items().map(part).collect()
    }

    /// Returns the text of a result, with placeholders for images and documents.
    pub fn result_text(&self) -> Cow<'a, str> {
        let mut parts = self.result_parts();
        match &mut parts[..] {
            [ResultPart::Text(text)] => std::mem::take(text),
            parts => join_result_parts(parts).into_owned().into(),
        }
    }

    /// Describes an image, a document or a block of another type.
    pub fn describe(&self) -> String {
        describe_media(self.json())
    }
}

/// A part of a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultPart<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// An image, a document, a reference.
    Other(Json<'a>),
}

/// Returns the text of a result's parts, with placeholders for images and documents.
pub(crate) fn join_result_parts<'p>(parts: &'p [ResultPart<'_>]) -> Cow<'p, str> {
    let text = |part: &'p ResultPart<'_>| match part {
        ResultPart::Text(text) => Cow::Borrowed(&**text),
        ResultPart::Other(item) => describe_media(*item).into(),
    };
    match parts {
        [part] => text(part),
        _ => parts.iter().map(text).collect::<Vec<_>>().join("\n").into(),
    }
}

/// Returns the field of a call's input that describes it best.
pub fn main_argument(input: Json<'_>) -> Option<Cow<'_, str>> {
    const FIELDS: [&str; 12] = [
        "command",
        "file_path",
        "notebook_path",
        "path",
        "pattern",
        "query",
        "url",
        "description",
        "prompt",
        "skill",
        "subject",
        "question",
    ];
    let text = |key: &&str| input.get(key).and_then(beginning).filter(|text| !text.trim().is_empty());
    FIELDS.iter().find_map(text)
}

/// The number of bytes of a text that is enough for a one-line description.
const BEGINNING: usize = 64 << 10;

/// Returns a text, truncated if it is very long: enough for a one-line description.
pub fn beginning(text: Json<'_>) -> Option<Cow<'_, str>> {
    let inner = text.raw_string()?;
    let Some(start) = inner.get(..BEGINNING) else { return text.as_str() };
    // The cut must not be inside an escape or a character, which have at most twelve bytes.
    let last = &start[BEGINNING - 12..];
    let cut = last.iter().position(|&b| b == b'\\' || b >= 0x80).unwrap_or(last.len());
    let start = &start[..BEGINNING - 12 + cut];
    // A single backslash at the end would be half of an escape.
    let slashes = start.iter().rev().take_while(|&&b| b == b'\\').count();
    Some(rethread_log::unescape(&start[..start.len() - slashes % 2]))
}

/// Describes an image, a document or a block of another type.
pub fn describe_media(item: Json<'_>) -> String {
    let text = |json: Option<Json<'_>>| json.and_then(Json::as_str).map(Cow::into_owned);
    let kind = text(item.get("type")).unwrap_or_else(|| "block".into());
    let source = item.get("source");
    let media = text(source.and_then(|s| s.get("media_type")));
    let data = source.and_then(|s| s.get("data")).and_then(Json::raw_string).map_or(0, <[u8]>::len);
    if let Some(name) = text(item.get("tool_name")) {
        return format!("[{kind}: {name}]");
    }
    match media {
        Some(media) => format!("[{kind}: {media}, {} KB]", (data * 3 / 4).div_ceil(1000)),
        None => format!("[{kind}]"),
    }
}

/// A note of the client between messages.
#[derive(Debug, Clone)]
pub struct NoteView<'a> {
    /// The number of its entry.
    pub entry: EntryNo,
    /// The line of its entry.
    pub line: u32,
    /// The time of the entry.
    pub time: Option<Time>,
    /// The kind of note: `compaction`, `queued`, or the subtype of a system entry.
    pub kind: Cow<'a, str>,
    /// Its text.
    pub text: Cow<'a, str>,
    /// The number of tokens in the conversation before a compaction.
    pub tokens_before: Option<u64>,
}

impl NoteView<'_> {
    /// Returns whether it marks a compaction.
    pub fn is_compaction(&self) -> bool {
        self.kind == "compaction"
    }
}

/// An item of a path.
#[derive(Debug, Clone)]
pub enum TranscriptItem<'a> {
    /// A message.
    Message(MessageView<'a>),
    /// A note.
    Note(NoteView<'a>),
}

/// The entries of a log that is not in memory as a whole.
pub trait EntrySource: std::fmt::Debug + Sync {
    /// Returns the bytes of an entry, by its number and location.
    fn entry_bytes(&self, number: EntryNo, place: EntryLocation) -> &[u8];
}

/// The source of a session's bytes.
#[derive(Debug, Clone, Copy)]
enum EntryBytes<'a> {
    /// In memory, from this offset of the log.
    InMemory(&'a [u8], u64),
    Loaded(&'a dyn EntrySource),
}

/// A session together with its bytes.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    pub(crate) session: &'a Session,
    text: EntryBytes<'a>,
}

impl<'a> Reader<'a> {
    /// Combines a session with the bytes that it was read from.
    pub fn new(session: &'a Session, bytes: &'a [u8]) -> Self {
        Self::with_partial_bytes(session, bytes, 0)
    }

    /// Combines a session with a part of its bytes, for the entries in that part.
    pub fn with_partial_bytes(session: &'a Session, bytes: &'a [u8], base: u64) -> Self {
        Self { session, text: EntryBytes::InMemory(bytes, base) }
    }

    /// Combines a session with entries that are looked up one by one.
    pub fn with_entries(session: &'a Session, entries: &'a dyn EntrySource) -> Self {
        Self { session, text: EntryBytes::Loaded(entries) }
    }

    /// Returns the raw bytes of an entry, by its number.
    pub fn entry_bytes(&self, number: EntryNo) -> &'a [u8] {
        let Some(place) = self.session.facts.locations.get(number) else { return &[] };
        let (bytes, base) = match self.text {
            EntryBytes::InMemory(bytes, base) => (bytes, base),
            EntryBytes::Loaded(entries) => return entries.entry_bytes(number, *place),
        };
        let start = place.offset.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        let start = start.unwrap_or(usize::MAX);
        bytes.get(start..start.saturating_add(place.len as usize)).unwrap_or_default()
    }

    /// Parses a node's entry.
    pub(crate) fn parse_node(&self, node: NodeId, line: &mut Line) -> &'a [u8] {
        let raw = self.entry_bytes(self.session.facts.nodes[node].entry);
        rethread_log::parse_entry(raw, line);
        raw
    }

    /// Returns the beginning of the text that a person typed in an entry, without the client's markup.
    pub fn prompt_words(&self, node: NodeId) -> String {
        let mut line = Line::default();
        let raw = self.parse_node(node, &mut line);
        crate::prompt::typed_text(&line, raw)
    }

    /// Returns the uuid of a node as written in the log.
    pub fn uuid(&self, node: NodeId) -> String {
        // Nearly all ids are UUIDs, which can be formatted without reading the log.
        let fact = &self.session.facts.nodes[node];
        if fact.flags.has_canonical_uuid() {
            return fact.uid.to_uuid_string();
        }
        let mut line = Line::default();
        let raw = self.parse_node(node, &mut line);
        line.string(Key::Uuid, raw).map_or(String::new(), |uuid| rethread_log::unescape(uuid).into_owned())
    }

    /// Returns the items on the path to `step`, in reading order.
    pub fn items(&self, step: StepId) -> Vec<TranscriptItem<'a>> {
        let layout = StepNodes::new(self.session);
        StepSequence::to_step(self.session, &layout, (step, None), true).read_items(self)
    }

    /// Adds the items of one step: its message, the results in the order of the calls, notes.
    pub(crate) fn push_step_items(
        &self,
        nodes: &[NodeId],
        line: &mut Line,
        shown: &mut ShownBlocks,
        items: &mut Vec<TranscriptItem<'a>>,
    ) {
        let contents = StepContents::new(self.session, nodes);
        for (message, nodes) in contents.messages {
            let mut view = self.message_view(message, &nodes, line);
            if shown.retain_new_blocks(self.session, &mut view) {
                items.push(TranscriptItem::Message(view));
            }
        }
        for node in contents.notes {
            if let Some(note) = self.note_view(node, line) {
                items.push(TranscriptItem::Note(note));
            }
        }
    }

    fn message_view(&self, message: MessageNo, nodes: &[NodeId], line: &mut Line) -> MessageView<'a> {
        let facts = &self.session.facts;
        let fact = &facts.messages[message];
        let first = &facts.nodes[nodes[0]];
        let mut view = MessageView {
            n: message,
            assistant: fact.assistant,
            kind: message_kind(first),
            meta: first.flags.is_meta(),
            entries: nodes.iter().map(|&node| facts.nodes[node].entry).collect(),
            line: facts.location(nodes[0]).line,
            time: first.time,
            model: fact.model.map(|model| facts.models.name(model)),
            blocks: Vec::new(),
            usage: facts.usage(fact),
            tool_use_result: Json::new(b""),
        };
        for &node in nodes {
            // A replay of a user's message shows nothing new.
            if facts.nodes[node].flags.is_replay() && !fact.assistant && node != nodes[0] {
                continue;
            }
            let raw = self.parse_node(node, line);
            if first.flags.has_result() && node == nodes[0] {
                view.tool_use_result = Json::new(line.field(Key::ToolUseResult).bytes_in(raw));
            }
            self.push_blocks(node, raw, line, &mut view.blocks);
        }
        view
    }

    fn push_blocks(&self, node: NodeId, raw: &'a [u8], line: &Line, blocks: &mut Vec<BlockView<'a>>) {
        let facts = &self.session.facts;
        if facts.nodes[node].role == Role::Attachment {
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            return push_queued_blocks(prompt.unwrap_or(Json::new(b"")), blocks);
        }
        let Some(message) = line.message else { return };
        if message.content.string_in(raw).is_some() {
            let spans = BlockSpans { whole: message.content, ..BlockSpans::default() };
            blocks.push(BlockView { bare_string: true, ..BlockView::new(Some(BlockKind::Text), raw, spans) });
            return;
        }
        let mut uses = crate::resume::calls_of_node(&facts.call_sites, node);
        let mut answers = crate::resume::calls_of_node(&facts.result_sites, node);
        let message_of = |node: NodeId| facts.nodes[node].message();
        for &spans in &line.blocks {
            let mut block = BlockView::new(spans.kind, raw, spans);
            let has_id = spans.id.string_in(raw).is_some();
            match spans.kind {
                Some(BlockKind::ToolUse) if has_id => {
                    if let Some(call) = uses.next() {
                        block.call = Some(call);
                        block.partner_message = facts.calls[call].first_result().and_then(message_of);
                    }
                }
                Some(BlockKind::ToolResult) if has_id => {
                    // `answers` skips results without a call.
                    let id = block.id();
                    let next = answers.clone().next();
                    if let Some(call) =
                        next.filter(|&call| matches_id(facts.call_id(&facts.calls[call]), &id))
                    {
                        answers.next();
                        block.call = Some(call);
                        block.partner_message = message_of(facts.calls[call].node);
                    }
                }
                _ => {}
            }
            if extends_last_text(blocks, &block) {
                blocks.pop();
            } else if blocks.iter().rev().take(64).any(|b| b.json().raw() == block.json().raw()) {
                continue;
            }
            blocks.push(block);
        }
    }

    fn note_view(&self, node: NodeId, line: &mut Line) -> Option<NoteView<'a>> {
        let fact = &self.session.facts.nodes[node];
        if !is_note(fact) {
            return None;
        }
        let raw = self.parse_node(node, line);
        let string = |key| line.string(key, raw).map(rethread_log::unescape);
        let (kind, text) = if fact.flags.has(EntryFlags::QUEUED) {
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            (Cow::Borrowed("queued"), prompt.map(prompt_text)?)
        } else if fact.flags.is_boundary() {
            (Cow::Borrowed("compaction"), string(Key::Content).unwrap_or_default())
        } else {
            (string(Key::Subtype).unwrap_or("system".into()), string(Key::Content).unwrap_or_default())
        };
        let tokens = fact
            .flags
            .is_boundary()
            .then(|| Json::new(raw).get("compactMetadata")?.get("preTokens")?.as_u64());
        let line = self.session.facts.location(node).line;
        Some(NoteView {
            entry: fact.entry,
            line,
            time: fact.time,
            kind,
            text,
            tokens_before: tokens.flatten(),
        })
    }
}

/// Parts of the messages of a path, and results of their calls, that are only on other branches.
///
/// Clients copy messages to other branches. When they resume a copy they take its missing parts and
/// results from the original.
#[derive(Default)]
pub(crate) struct OffPathParts {
    by_step: FxHashMap<StepId, Vec<NodeId>>,
}

impl OffPathParts {
    pub(crate) fn new(session: &Session, by_step: &IndexGroups<StepId, NodeId>, steps: &[StepId]) -> Self {
        let mut found = Self { by_step: FxHashMap::default() };
        found.add_off_path_results(session, by_step, steps);
        let (tree, facts) = (&session.tree, &session.facts);
        if tree.split_messages.is_empty() {
            return found;
        }
        let on_path: FxHashSet<StepId> = steps.iter().copied().collect();
        let calls_in = |node: NodeId| crate::resume::calls_of_node(&facts.result_sites, node);
        let mut answered: FxHashSet<(MessageNo, CallId)> = FxHashSet::default();
        // The last step of each message, after which clients put the others.
        let mut last: FxHashMap<MessageNo, StepId> = FxHashMap::default();
        for &step in steps {
            let Some(message) = facts.nodes[tree.first_node(step)].message else { continue };
            if facts.messages[message].assistant && tree.is_split(message) {
                let calls = by_step.members_of(step).iter().flat_map(|&node| calls_in(node));
                answered.extend(calls.map(|call| (message, call)));
                last.insert(message, step);
            }
        }
        let parts_of = |&message: &MessageNo| tree.parts_of_split(message).iter();
        for part in last.keys().flat_map(parts_of).filter(|part| !on_path.contains(&part.step)) {
            let Some(&step) = last.get(&part.message) else { continue };
            let separate = tree.separate_results_of(part.step).iter();
            let separate = separate.filter(|(_, other, _)| !on_path.contains(other));
            let separate: Vec<NodeId> = separate.map(|&(_, _, node)| node).collect();
            for &node in by_step.members_of(part.step).iter().chain(&separate) {
                // Of two entries with the same uuid the later one is shown.
                if facts.duplicates.contains_key(&node) {
                    continue;
                }
                let fact = &facts.nodes[node];
                let new = |call| !answered.contains(&(part.message, call));
                if fact.message == Some(part.message) || fact.flags.has_result() && calls_in(node).any(new) {
                    answered.extend(calls_in(node).map(|call| (part.message, call)));
                    found.by_step.entry(step).or_default().push(node);
                }
            }
        }
        found
    }

    /// Adds results after a fork between a call and its result: a prompt can be queued there, and the
    /// conversation rewound to it.
    fn add_off_path_results(
        &mut self,
        session: &Session,
        by_step: &IndexGroups<StepId, NodeId>,
        steps: &[StepId],
    ) {
        let (tree, facts) = (&session.tree, &session.facts);
        if tree.separate_results.is_empty() {
            return;
        }
        let on_path: FxHashSet<StepId> = steps.iter().copied().collect();
        for &step in steps {
            let separate = tree.separate_results_of(step);
            if separate.is_empty() || separate.iter().any(|&(_, other, _)| on_path.contains(&other)) {
                // The result is further down the path.
                continue;
            }
            let calls = |node: NodeId| crate::resume::calls_of_node(&facts.result_sites, node);
            let mut answered: FxHashSet<CallId> =
                by_step.members_of(step).iter().flat_map(|&node| calls(node)).collect();
            for &(_, _, node) in separate {
                let superseded = facts.duplicates.contains_key(&node);
                if !superseded && calls(node).any(|call| !answered.contains(&call)) {
                    answered.extend(calls(node));
                    self.by_step.entry(step).or_default().push(node);
                }
            }
        }
    }

    pub(crate) fn take(&mut self, step: StepId) -> Option<Vec<NodeId>> {
        self.by_step.remove(&step)
    }
}

/// The blocks shown so far of messages that are in several steps, by a hash of their bytes.
#[derive(Default)]
pub(crate) struct ShownBlocks(FxHashMap<MessageNo, FxHashSet<u64>>);

impl ShownBlocks {
    /// Keeps the blocks of a message that were not shown before; returns whether there are any, or the
    /// message is new.
    fn retain_new_blocks(&mut self, session: &Session, view: &mut MessageView<'_>) -> bool {
        if !session.tree.is_split(view.n) {
            return true;
        }
        let first = !self.0.contains_key(&view.n);
        let shown = self.0.entry(view.n).or_default();
        view.blocks.retain(|block| shown.insert(crate::id::fingerprint(&[block.json().raw()])));
        first || !view.blocks.is_empty()
    }
}

/// Splits the prompt of a queued command, which is a string or a list of blocks.
fn push_queued_blocks<'a>(prompt: Json<'a>, blocks: &mut Vec<BlockView<'a>>) {
    let span = |part: &[u8], of: &[u8]| Span::at(part.as_ptr() as usize - of.as_ptr() as usize, part.len());
    let view = |json: Json<'a>, kind| {
        let raw = json.raw();
        let text = json.get("text").map_or(Span::default(), |text| span(text.raw(), raw));
        let spans = BlockSpans { kind, whole: span(raw, raw), text, ..BlockSpans::default() };
        BlockView::new(kind, raw, spans)
    };
    if prompt.is_string() {
        blocks.push(BlockView { bare_string: true, ..view(prompt, Some(BlockKind::Text)) });
    } else {
        for item in prompt.items() {
            let kind = item.get("type").and_then(Json::raw_string).and_then(BlockKind::from_name);
            blocks.push(view(item, kind));
        }
    }
}

/// Returns the text of a prompt given as a string or as blocks.
fn prompt_text(prompt: Json<'_>) -> Cow<'_, str> {
    prompt.as_str().unwrap_or_else(|| {
        let text = |item: Json<'_>| Some(item.get("text")?.as_str()?.into_owned());
        prompt.items().filter_map(text).collect::<Vec<_>>().join("\n").into()
    })
}

/// Compares ids; very long ones are stored truncated.
fn matches_id(kept: &str, id: &str) -> bool {
    kept == id || kept.len() >= crate::build::MAX_TEXT / 2 && id.starts_with(kept)
}

/// Returns whether a text extends the last one: a text written while it was streamed replaces its
/// beginnings.
fn extends_last_text(blocks: &[BlockView<'_>], block: &BlockView<'_>) -> bool {
    let Some(last) = blocks.last().filter(|last| last.kind == Some(BlockKind::Text)) else { return false };
    // Two texts in one entry are distinct.
    block.kind == last.kind
        && !std::ptr::eq(block.raw, last.raw)
        && last.spans.text.string_in(last.raw).zip(block.spans.text.string_in(block.raw)).is_some_and(
            |(before, now)| !before.is_empty() && now.len() > before.len() && now.starts_with(before),
        )
}

/// Returns whether an entry without a message is shown as a note.
pub(crate) fn is_note(node: &Node) -> bool {
    matches!(node.role, Role::System) || node.flags.has(EntryFlags::QUEUED)
}

pub(crate) fn message_kind(node: &Node) -> MessageKind {
    let flags = node.flags;
    match node.role {
        Role::Assistant if flags.is_api_error() || flags.is_synthetic() => MessageKind::Note,
        Role::Assistant => MessageKind::Answer,
        _ if flags.has_result() => MessageKind::Result,
        _ if flags.is_summary() => MessageKind::Summary,
        _ if flags.is_prompt() => MessageKind::Prompt,
        _ if flags.is_command() => MessageKind::Command,
        _ if flags.is_task() => MessageKind::Prompt,
        _ => MessageKind::Note,
    }
}
