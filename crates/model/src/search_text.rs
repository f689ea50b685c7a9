//! The texts of a log that can be searched: every text of a message as a person reads it.

use std::borrow::Cow;
use std::fmt;

use rethread_log::{BlockKind, BlockSpans, EntryKind, Json, Key, Line, Span};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::client::Client;
use crate::facts::{Facts, Node, Role};
use crate::id::Uid;
use crate::index::{CallId, MessageNo, NodeId, StepId, Table};
use crate::prompt::readable_text;
use crate::session::Session;
use crate::view::{MessageKind, message_kind};

/// The author of a text, and its part of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum TextSource {
    /// A prompt.
    Prompt,
    /// Text of the model.
    Answer,
    /// The title of a session.
    Title,
    /// The input of a tool call.
    Input,
    /// The output of a tool.
    Output,
    /// Thinking.
    Thinking,
    /// The summary after a compaction.
    Summary,
    /// A slash or shell command, or its output.
    Command,
    /// A notice, a hidden note, an error.
    Note,
}

impl TextSource {
    /// All sources, in the order of their importance to a search.
    pub const ALL: [Self; 9] = [
        Self::Prompt,
        Self::Answer,
        Self::Title,
        Self::Input,
        Self::Output,
        Self::Thinking,
        Self::Summary,
        Self::Command,
        Self::Note,
    ];

    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Answer => "answer",
            Self::Title => "title",
            Self::Input => "input",
            Self::Output => "output",
            Self::Thinking => "thinking",
            Self::Summary => "summary",
            Self::Command => "command",
            Self::Note => "note",
        }
    }

    /// Returns the source with a position in [`TextSource::ALL`].
    pub fn from_index(index: u64) -> Self {
        usize::try_from(index).ok().and_then(|index| Self::ALL.get(index).copied()).unwrap_or(Self::Note)
    }
}

/// The place of a message in the tree of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MessagePlace {
    /// On the path that the client would resume, or that a person would call the conversation.
    Active,
    /// On a branch that was left.
    Abandoned,
    /// On the active path, before its last compaction.
    Compacted,
    /// In a subagent.
    Subagent,
}

impl MessagePlace {
    /// All places.
    pub const ALL: [Self; 4] = [Self::Active, Self::Abandoned, Self::Compacted, Self::Subagent];

    /// Returns the name used in JSON and in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Abandoned => "abandoned",
            Self::Compacted => "compacted",
            Self::Subagent => "subagent",
        }
    }

    /// Returns the place with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|place| place.name() == name)
    }
}

/// A text of an entry.
#[derive(Debug, Clone)]
pub struct SearchText<'a> {
    /// The author, and the part of the message.
    pub source: TextSource,
    /// The number of the block in its entry, from 0.
    pub block: u32,
    /// The call that it makes or answers.
    pub call: Option<CallId>,
    /// The text as a person reads it.
    pub text: Cow<'a, str>,
}

/// The identity of a message wherever it was copied: a hash of its id, or of its time and text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageKey(u64);

impl MessageKey {
    /// Returns the number.
    pub fn to_u64(self) -> u64 {
        self.0
    }

    /// Returns the key of a message whose first entry has no text, such as one with only an image.
    pub fn of_textless(facts: &Facts, node: NodeId) -> Self {
        message_key(facts, node, &[])
    }

    /// Returns the key with this number.
    pub fn from_u64(key: u64) -> Self {
        Self(key)
    }

    /// Parses the form that is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let is_key = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
        is_key.then(|| u64::from_str_radix(text, 16).ok()).flatten().map(Self)
    }
}

/// Sixteen hexadecimal digits, the anchor of a message in JSON output.
impl fmt::Display for MessageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The texts of one entry, and the message that they belong to.
#[derive(Debug, Clone)]
pub struct EntryTexts<'a> {
    /// The message; for a note between messages, the message before it.
    pub message: Option<MessageNo>,
    /// The identity of the message.
    pub key: MessageKey,
    /// The texts, in the order of their blocks.
    pub texts: Vec<SearchText<'a>>,
}

/// Returns the texts of a node's entry; `None` if it has none, or repeats another entry.
pub fn entry_texts<'a>(facts: &Facts, node: NodeId, line: &Line, raw: &'a [u8]) -> Option<EntryTexts<'a>> {
    let fact = &facts.nodes[node];
    if fact.flags.is_replay() || fact.role == Role::Attachment && fact.message().is_none() {
        return None;
    }
    let plain = plain_source(fact);
    let blocks = facts.blocks_of(node);
    let mut texts = Vec::new();
    for_each_text(line, raw, |block, part, text| {
        let source = match part {
            BlockPart::Text => plain,
            BlockPart::Thinking => TextSource::Thinking,
            BlockPart::Input => TextSource::Input,
            BlockPart::Output => TextSource::Output,
        };
        let call = blocks.get(block as usize).and_then(|block| block.call());
        if !text.trim().is_empty() {
            texts.push(SearchText { source, block, call, text });
        }
    });
    let message = fact.message().or_else(|| message_before(facts, node));
    (!texts.is_empty()).then(|| EntryTexts { message, key: message_key(facts, node, &texts), texts })
}

/// Returns the text of a block of an entry, as [`entry_texts`] does.
pub fn entry_block_text<'a>(line: &Line, raw: &'a [u8], block: u32) -> Option<Cow<'a, str>> {
    let mut found = None;
    for_each_text(line, raw, |at, _, text| {
        if at == block && found.is_none() {
            found = Some(text);
        }
    });
    found
}

/// Returns the message of the nearest ancestor that has one.
pub(crate) fn message_before(facts: &Facts, node: NodeId) -> Option<MessageNo> {
    const MAX_STEPS: usize = 1000;
    let ancestors = std::iter::successors(facts.parent_of(node), |&above| facts.parent_of(above));
    { ancestors }.take(MAX_STEPS).find_map(|above| facts.nodes[above].message())
}

/// Returns the key of an entry's message. A message of the model has an id; any other is identified by its time and
/// its text, because copies have other uuids, and other writers escape characters differently.
fn message_key(facts: &Facts, node: NodeId, texts: &[SearchText<'_>]) -> MessageKey {
    let fact = &facts.nodes[node];
    let id = fact.message().filter(|_| fact.role == Role::Assistant).and_then(|n| facts.messages[n].id);
    if let Some(id) = id {
        return MessageKey(xxh3_64(&id.to_bytes()));
    }
    let time = fact.time.map_or(i64::MIN, crate::Time::millis).cast_unsigned();
    MessageKey(texts.iter().fold(time, |key, text| xxh3_64_with_seed(text.text.as_bytes(), key)))
}

/// Returns the source of plain text in an entry.
fn plain_source(fact: &Node) -> TextSource {
    if fact.role == Role::System && fact.flags.is_local_command() {
        return TextSource::Command;
    }
    match message_kind(fact) {
        _ if fact.role == Role::Attachment => TextSource::Prompt,
        MessageKind::Prompt => TextSource::Prompt,
        MessageKind::Answer => TextSource::Answer,
        MessageKind::Summary => TextSource::Summary,
        MessageKind::Command => TextSource::Command,
        // Text beside a tool result is the client's.
        MessageKind::Result | MessageKind::Note => TextSource::Note,
    }
}

/// The part of a message that a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockPart {
    Text,
    Thinking,
    Input,
    Output,
}

/// Passes the texts of an entry with the numbers of their blocks.
fn for_each_text<'a>(line: &Line, raw: &'a [u8], mut take: impl FnMut(u32, BlockPart, Cow<'a, str>)) {
    match line.kind {
        Some(EntryKind::User | EntryKind::Assistant) => for_each_message_text(line, raw, &mut take),
        Some(EntryKind::Attachment) => {
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            let Some(prompt) = prompt else { return };
            if let Some(text) = prompt.as_str() {
                return take(0, BlockPart::Text, readable(text));
            }
            for (block, item) in (0..).zip(prompt.items()) {
                if let Some(text) = item.get("text").and_then(Json::as_str) {
                    take(block, BlockPart::Text, readable(text));
                }
            }
        }
        Some(EntryKind::System) => {
            if let Some(content) = Json::new(line.field(Key::Content).bytes_in(raw)).as_str() {
                take(0, BlockPart::Text, readable(content));
            }
        }
        _ => {}
    }
}

fn for_each_message_text<'a>(
    line: &Line,
    raw: &'a [u8],
    take: &mut impl FnMut(u32, BlockPart, Cow<'a, str>),
) {
    let Some(message) = line.message else { return };
    let is_user = line.kind == Some(EntryKind::User);
    let plain = |text: Cow<'a, str>| if is_user { readable(text) } else { text };
    let string = |span: Span| Json::new(span.bytes_in(raw)).as_str().unwrap_or_default();
    if message.content.string_in(raw).is_some() {
        return take(0, BlockPart::Text, plain(string(message.content)));
    }
    for (block, spans) in (0..).zip(&line.blocks) {
        match spans.kind {
            Some(BlockKind::Text) => take(block, BlockPart::Text, plain(string(spans.text))),
            Some(BlockKind::Thinking) => take(block, BlockPart::Thinking, string(spans.text)),
            Some(BlockKind::ToolResult) => take(block, BlockPart::Output, result_text(spans, raw)),
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => {
                take(block, BlockPart::Input, input_text(spans, raw).into());
            }
            Some(BlockKind::RedactedThinking | BlockKind::Image | BlockKind::Document) => {}
            _ if spans.whole.string_in(raw).is_some() => {
                take(block, BlockPart::Text, plain(string(spans.whole)));
            }
            _ => take(block, BlockPart::Output, strings_of(Json::new(spans.whole.bytes_in(raw))).into()),
        }
    }
}

/// Returns a text of a user as typed, without the client's markup.
fn readable(text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) => readable_text(text),
        Cow::Owned(text) => Cow::Owned(readable_text(&text).into_owned()),
    }
}

/// Returns the tool and all texts of a call's input, one per line.
fn input_text(spans: &BlockSpans, raw: &[u8]) -> String {
    let mut text = Json::new(spans.name.bytes_in(raw)).as_str().unwrap_or_default().into_owned();
    push_strings(Json::new(spans.input.bytes_in(raw)), &mut text, 0);
    text
}

fn strings_of(value: Json<'_>) -> String {
    let mut text = String::new();
    push_strings(value, &mut text, 0);
    text
}

/// The depth of a value beyond which its strings are not searched.
const MAX_DEPTH: usize = 64;

fn push_strings(value: Json<'_>, text: &mut String, depth: usize) {
    if let Some(string) = value.as_str() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&string);
    } else if depth < MAX_DEPTH && value.is_object() {
        value.for_each_member(|_, value| push_strings(value, text, depth + 1));
    } else if depth < MAX_DEPTH && value.is_array() {
        for item in value.items() {
            push_strings(item, text, depth + 1);
        }
    }
}

/// Returns the text of a tool result. Images and documents have none; a reference to a tool is its name.
fn result_text<'a>(spans: &BlockSpans, raw: &'a [u8]) -> Cow<'a, str> {
    let content = Json::new(spans.content.bytes_in(raw));
    if let Some(text) = content.as_str() {
        return text;
    }
    let part = |item: Json<'a>| {
        let text = item.get("text").and_then(Json::as_str).or_else(|| item.as_str());
        text.or_else(|| item.get("tool_name").and_then(Json::as_str))
    };
    content.items().filter_map(part).collect::<Vec<_>>().join("\n").into()
}

impl Session {
    /// Returns the kind of a message, judged by its first entry.
    pub fn message_kind(&self, message: MessageNo) -> MessageKind {
        message_kind(&self.facts.nodes[self.facts.messages[message].first_node])
    }

    /// Returns the place of each message, by the rules of the newest client.
    pub fn message_places(&self) -> Table<MessageNo, MessagePlace> {
        let paths = self.paths(Client::NEWEST);
        let current: Vec<StepId> =
            paths.iter().filter(|path| path.is_current()).map(|path| path.step).collect();
        let on_path = self.tree.ancestors_of(&current);
        let compacted = self.compacted_steps(&current);
        let place = |step: Option<StepId>| match step {
            Some(step) if self.tree.steps[step].sidechain => MessagePlace::Subagent,
            Some(step) if on_path[step] && compacted[step] => MessagePlace::Compacted,
            Some(step) if on_path[step] => MessagePlace::Active,
            _ => MessagePlace::Abandoned,
        };
        let mut places: Table<MessageNo, MessagePlace> =
            self.facts.messages.iter().map(|message| place(self.tree.step(message.first_node))).collect();
        // Of a message with parts or copies in several steps, the best place counts.
        for part in &self.tree.split_messages {
            places[part.message] = places[part.message].min(place(Some(part.step)));
        }
        for (node, fact) in self.facts.nodes.iter_enumerated().filter(|(_, fact)| fact.flags.is_replay()) {
            if let Some(message) = fact.message() {
                places[message] = places[message].min(place(self.tree.step(node)));
            }
        }
        places
    }

    /// Returns for each step whether it is before the last compaction of a path to one of `ends`, which did not keep it.
    fn compacted_steps(&self, ends: &[StepId]) -> Table<StepId, bool> {
        let mut compacted = Table::filled(false, self.tree.steps.len());
        for &end in ends {
            let mut ancestors = self.tree.ancestors(end);
            let Some(last) = ancestors.find(|&step| self.is_compaction(step)) else { continue };
            for step in ancestors {
                compacted[step] = true;
            }
            for node in self.preserved_nodes(self.tree.first_node(last)) {
                if let Some(step) = self.tree.step(node) {
                    compacted[step] = false;
                }
            }
        }
        compacted
    }

    /// Returns the entries that a compaction kept.
    fn preserved_nodes(&self, boundary: NodeId) -> Vec<NodeId> {
        let Some(preserved) = self.facts.preserved.get(&boundary) else { return Vec::new() };
        let node_of = |uid: &Option<Uid>| uid.and_then(|uid| self.facts.node_of(uid));
        if let Some(listed) = &preserved.listed {
            return listed.uuids.iter().filter_map(node_of).collect();
        }
        let ends = preserved.segment.as_ref().map_or(&[][..], |segment| &segment.uuids);
        let [head, tail] = ends else { return Vec::new() };
        let (Some(head), Some(tail)) = (node_of(head), node_of(tail)) else { return Vec::new() };
        let mut nodes: Vec<NodeId> = Vec::new();
        for node in std::iter::successors(Some(tail), |&node| self.facts.parent_of(node)) {
            nodes.push(node);
            if node == head || nodes.len() > self.facts.nodes.len() {
                break;
            }
        }
        nodes
    }
}
