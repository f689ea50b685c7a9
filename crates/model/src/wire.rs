//! A request in the format of the API: the blocks of its messages as JSON.
//!
//! Reminders and system turns, which the client adds anew with every prompt, are left out, and so are cache
//! marks. The rest is the conversation, the same in every run.

use std::borrow::Cow;

use rethread_log::{Json, Key, Line};

use crate::attachment;
use crate::client::Client;
use crate::facts::BlockClass;
use crate::index::NodeId;
use crate::prompt::is_js_whitespace;
use crate::resume::{PartOrigin, Resume, SentMessage, SentPart};
use crate::rules::ClientRule;
use crate::view::Reader;

/// A message as the API receives it.
#[derive(Debug, Clone)]
pub struct WireMessage<'a> {
    /// Set if the model wrote it.
    pub assistant: bool,
    /// Its blocks, each as JSON.
    pub blocks: Vec<WireBlock<'a>>,
}

/// A block as the API receives it.
#[derive(Debug, Clone)]
pub struct WireBlock<'a> {
    json: Cow<'a, [u8]>,
    /// The entry that it comes from.
    pub node: Option<NodeId>,
}

impl WireBlock<'_> {
    /// Returns the block.
    pub fn json(&self) -> Json<'_> {
        Json::new(&self.json)
    }
}

impl<'a> Reader<'a> {
    /// Encodes the messages that a client would send in the format of the API.
    pub fn wire_messages(&self, resume: &Resume, client: Client, prompt: &str) -> Vec<WireMessage<'a>> {
        self.wire_messages_for(resume, &resume.messages, client, prompt)
    }

    /// Encodes some of the messages, so that several threads can share the work.
    pub fn wire_messages_for(
        &self,
        resume: &Resume,
        part: &[SentMessage],
        client: Client,
        prompt: &str,
    ) -> Vec<WireMessage<'a>> {
        let turns = resume.accepts_system_turns;
        let mut wire = WireEncoder {
            reader: *self,
            client,
            accepts_system_turns: turns,
            prompt,
            line: Line::default(),
            parsed: None,
            raw: &[],
        };
        let mut messages = Vec::with_capacity(part.len());
        for sent in part {
            let blocks: Vec<_> = sent.parts.iter().flat_map(|part| wire.encode_part(part)).collect();
            if !blocks.is_empty() {
                messages.push(WireMessage { assistant: sent.assistant, blocks });
            }
        }
        messages
    }
}

struct WireEncoder<'a, 'p> {
    reader: Reader<'a>,
    client: Client,
    /// The model accepts system turns.
    accepts_system_turns: bool,
    prompt: &'p str,
    line: Line,
    /// The node of the entry in `line` and `raw`.
    parsed: Option<NodeId>,
    raw: &'a [u8],
}

impl<'a> WireEncoder<'a, '_> {
    fn load(&mut self, node: NodeId) {
        if self.parsed != Some(node) {
            self.raw = self.reader.parse_node(node, &mut self.line);
            self.parsed = Some(node);
        }
    }

    fn encode_part(&mut self, part: &SentPart) -> Vec<WireBlock<'a>> {
        let node = part.origin.node();
        let one =
            |json: Option<Cow<'a, [u8]>>| json.map(|json| WireBlock { json, node }).into_iter().collect();
        match part.origin {
            // A nested reminder ends the outer one early, so the rest of it is sent as text.
            PartOrigin::Reminder(Some(node)) if self.client.has(ClientRule::SendsTextAfterNestedReminder) => {
                let texts = self.reminder_texts(node).into_iter();
                let blocks = texts.filter_map(|text| text_block(text.into(), part.adds_line_break));
                blocks.map(|json| WireBlock { json, node: None }).collect()
            }
            PartOrigin::Reminder(_) => Vec::new(),
            PartOrigin::Prompt => one(text_block(self.prompt.into(), part.adds_line_break)),
            PartOrigin::ClientText(words) => one(text_block(words.into(), part.adds_line_break)),
            PartOrigin::MissingResult(call, words) => {
                let facts = &self.reader.session.facts;
                let id = call.map_or("", |call| facts.call_id(&facts.calls[call]));
                let mut object = JsonObjectWriter::new();
                object.text("type", "tool_result");
                object.text("content", words);
                object.raw("is_error", b"true");
                object.text("tool_use_id", id);
                one(Some(object.finish()))
            }
            PartOrigin::Command(node) => {
                self.load(node);
                let content = Json::new(self.line.field(Key::Content).bytes_in(self.raw));
                let text = content.as_str().filter(|text| !text.is_empty());
                one(text_block(text.unwrap_or("(no content)".into()), part.adds_line_break))
            }
            PartOrigin::Pictures(node) => {
                self.load(node);
                let attachment = Json::new(self.line.field(Key::Attachment).bytes_in(self.raw));
                if let Some(picture) = attached_picture(attachment) {
                    return one(Some(picture));
                }
                let prompt = attachment.get("prompt").map(Json::items).into_iter().flatten();
                let pictures = prompt.filter(|item| type_of(*item) == b"image");
                let node = Some(node);
                pictures.map(|picture| WireBlock { json: picture.raw().into(), node }).collect()
            }
            PartOrigin::Block(node, at) => {
                self.load(node);
                one(self.encode_block(part, at as usize))
            }
        }
    }

    fn encode_block(&self, part: &SentPart, at: usize) -> Option<Cow<'a, [u8]>> {
        let plain = self.line.message.and_then(|m| m.content.string_in(self.raw));
        if let Some(text) = plain {
            if !part.adds_line_break && is_sent_verbatim(text) {
                let content = self.line.message.map_or(&b""[..], |m| m.content.bytes_in(self.raw));
                let mut object = JsonObjectWriter(Vec::with_capacity(content.len() + 32));
                object.0.push(b'{');
                object.text("type", "text");
                object.raw("text", content);
                return Some(object.finish());
            }
            return text_block(rethread_log::unescape(text), part.adds_line_break);
        }
        let spans = self.line.blocks.get(at)?;
        let block = Json::new(spans.whole.bytes_in(self.raw));
        match part.class {
            class if class.is_text() => {
                let text = block.get("text").and_then(Json::as_str).unwrap_or_default();
                let marked = text.contains(REMINDER_START);
                if !part.adds_line_break && !marked {
                    return Some(without(block, &[]));
                }
                let text = strip_reminders(text.into_owned(), part.adds_line_break)?;
                let mut object = JsonObjectWriter::new();
                object.copy_members(block, &["text"]);
                object.text("text", &text);
                Some(object.finish())
            }
            BlockClass::ToolCall if self.client.has(ClientRule::NormalizesCalls) => {
                Some(self.encode_call(block, part.has_caller))
            }
            BlockClass::ToolResult => Some(self.encode_result(block, part)),
            _ => Some(without(block, &[])),
        }
    }

    /// Encodes a tool call. Since 2.0.77 renamed tools are sent under their new names and some inputs are
    /// trimmed. Most clients send only the fields that the API requires.
    fn encode_call(&self, block: Json<'a>, bare: bool) -> Cow<'a, [u8]> {
        let client = self.client;
        let name = block.get("name").and_then(Json::as_str).unwrap_or_default();
        let name = current_tool_name(client, &name);
        let input = block.get("input").filter(|input| input.is_object());
        let dropped: &[&str] = match name {
            "ExitPlanMode" if client.has(ClientRule::DropsPlanFilePath) => &["plan", "planFilePath"],
            "ExitPlanMode" if client.has(ClientRule::DropsPlan) => &["plan"],
            "Edit"
                if client.has(ClientRule::DropsSingleEditFields)
                    && input.is_some_and(|i| i.get("edits").is_some()) =>
            {
                &["old_string", "new_string", "replace_all"]
            }
            "SendMessage"
                if client.has(ClientRule::DropsOldSendMessageFields)
                    && input.is_some_and(has_current_fields) =>
            {
                &["type", "recipient", "content"]
            }
            _ => &[],
        };
        let mut object = JsonObjectWriter::new();
        let keeps_fields = client.has(ClientRule::KeepsCallFields)
            || client.has(ClientRule::KeepsCallFieldsWithoutCaller) && !bare;
        if keeps_fields {
            object.copy_members(block, &["name", "input"]);
        } else {
            object.text("type", "tool_use");
            object.raw("id", block.get("id").map_or(b"null", Json::raw));
        }
        object.text("name", name);
        let trimmed = input.filter(|input| dropped.iter().any(|key| input.get(key).is_some()));
        match (trimmed, block.get("input")) {
            (Some(input), _) => {
                let mut left = JsonObjectWriter::new();
                left.copy_members(input, dropped);
                object.raw("input", &left.finish());
            }
            (None, Some(input)) => object.raw("input", input.raw()),
            (None, None) => {}
        }
        object.finish()
    }

    fn encode_result(&self, block: Json<'a>, part: &SentPart) -> Cow<'a, [u8]> {
        let content = block.get("content");
        let mut changed = content.and_then(|content| self.result_content(block, content));
        let notes: Vec<String> =
            part.attachments.iter().flatten().flat_map(|&node| self.reminder_texts(node)).collect();
        // The reminders of the new prompt are left out, but they still change the text before them.
        let more = part.attachments.contains(&None);
        if !notes.is_empty() || more {
            changed = Some(match content.filter(|content| content.is_array()) {
                Some(content) => with_text_blocks(changed.as_deref().unwrap_or(content.raw()), &notes, more),
                None => {
                    let text = content.and_then(Json::as_str).unwrap_or_default();
                    let mut texts = vec![text.trim_matches(is_js_whitespace)];
                    texts.extend(notes.iter().map(|note| note.trim_matches(is_js_whitespace)));
                    texts.retain(|text| !text.is_empty());
                    json_string(&texts.join("\n\n"))
                }
            });
        }
        let Some(changed) = changed else { return without(block, &[]) };
        let mut object = JsonObjectWriter::new();
        object.copy_members(block, &["content"]);
        object.raw("content", &changed);
        object.finish()
    }

    /// Returns the texts that the client writes for an attachment.
    fn reminder_texts(&self, node: NodeId) -> Vec<String> {
        let mut line = Line::default();
        let raw = self.reader.parse_node(node, &mut line);
        crate::reminders::reminder_texts(&line, raw, self.client)
    }

    /// Returns whether the tool named by a reference exists.
    fn has_tool(&self, item: &[u8]) -> bool {
        let name = Json::new(item).get("tool_name").and_then(Json::as_str).unwrap_or_default();
        let of_tasks = attachment::TASK_TOOLS.contains(&&*name) && !self.accepts_system_turns;
        name.is_empty() || attachment::OFFERED_TOOLS.contains(&&*name) || of_tasks
    }

    /// Encodes the content of a result. Tool references are not sent, and an error contains only text.
    fn result_content(&self, block: Json<'a>, content: Json<'a>) -> Option<Vec<u8>> {
        let mut items: Vec<Cow<'a, [u8]>> = content.items().map(|item| item.raw().into()).collect();
        let of_kind = |item: &Cow<'a, [u8]>, kind: &[u8]| type_of(Json::new(item)) == kind;
        let before = items.len();
        let mut changed = false;
        if self.client.has(ClientRule::RemovesToolReferences) {
            let newest = self.client.has(ClientRule::KeepsKnownToolReferences);
            let old = |item: &Cow<'a, [u8]>| {
                let name = Json::new(item).get("tool_name").and_then(Json::as_str);
                name.is_some_and(|name| attachment::TOOLS_OF_2_1_20.contains(&&*name))
            };
            let unavailable = self.client.has(ClientRule::ChecksReferencedTools) && !items.iter().any(old);
            items.retain(|item| !of_kind(item, b"tool_reference") || newest && self.has_tool(item));
            changed = items.len() != before;
            if changed && items.is_empty() {
                let words = if newest || unavailable { TOOLS_UNAVAILABLE } else { TOOL_SEARCH_DISABLED };
                items.push(text_block(words.into(), false)?);
            }
        }
        let error = block.get("is_error").is_some_and(|e| e.raw() == b"true");
        if self.client.has(ClientRule::SendsOnlyTextOfErrors)
            && error
            && !items.iter().all(|item| of_kind(item, b"text"))
        {
            let texts: Vec<String> = items
                .iter()
                .filter(|item| of_kind(item, b"text"))
                .filter_map(|item| Some(Json::new(item).get("text")?.as_str()?.into_owned()))
                .collect();
            items.clear();
            if !texts.is_empty() {
                let mut object = JsonObjectWriter::new();
                object.text("type", "text");
                object.text("text", &texts.join("\n\n"));
                items.push(object.finish());
            }
            changed = true;
        }
        changed.then(|| {
            let mut list = vec![b'['];
            list.extend(items.join(&b","[..]));
            list.push(b']');
            list
        })
    }
}

/// Returns whether the input of `SendMessage` has the current fields. The old fields are then dropped.
fn has_current_fields(input: Json<'_>) -> bool {
    input.get("to").is_some() && input.get("message").is_some()
}

/// Returns the name that a client uses for a tool.
fn current_tool_name(client: Client, name: &str) -> &str {
    let old = client.has(ClientRule::RenamesStopAndOutputTools);
    match name {
        _ if !client.has(ClientRule::RenamesTools) => name,
        "Task" => "Agent",
        "KillShell" if old => "TaskStop",
        "AgentOutputTool" | "BashOutputTool" if old => "TaskOutput",
        _ if !client.has(ClientRule::RenamesOlderTools) => name,
        "RunWorkflow" => "Workflow",
        "KillBash" if old => "TaskStop",
        "AgentOutput" | "BashOutput" if old => "TaskOutput",
        _ => name,
    }
}

const TOOLS_UNAVAILABLE: &str = "[Tool references removed - tools no longer available]";
const TOOL_SEARCH_DISABLED: &str = "[Tool references removed - tool search not enabled]";
const REMINDER_START: &str = "<system-reminder>";
const REMINDER_END: &str = "</system-reminder>";

fn type_of(item: Json<'_>) -> &[u8] {
    item.get("type").and_then(Json::raw_string).unwrap_or_default()
}

/// Adds texts to the content list of a result. If `more`, another text follows.
fn with_text_blocks(list: &[u8], texts: &[String], more: bool) -> Vec<u8> {
    let mut items: Vec<Vec<u8>> = Json::new(list).items().map(|item| item.raw().to_vec()).collect();
    let end_line = |items: &mut Vec<Vec<u8>>| {
        if let Some(last) = items.last_mut()
            && type_of(Json::new(last)) == b"text"
        {
            let before = Json::new(last).get("text").and_then(Json::as_str).unwrap_or_default();
            let mut object = JsonObjectWriter::new();
            object.copy_members(Json::new(last), &["text"]);
            object.text("text", &format!("{before}\n"));
            let joined = object.finish().into_owned();
            *last = joined;
        }
    };
    for text in texts {
        end_line(&mut items);
        let mut object = JsonObjectWriter::new();
        object.text("type", "text");
        object.text("text", text);
        items.push(object.finish().into_owned());
    }
    if more {
        end_line(&mut items);
    }
    let mut out = vec![b'['];
    out.extend(items.join(&b","[..]));
    out.push(b']');
    out
}

/// Returns the image of an attached file.
fn attached_picture<'a>(attachment: Json<'_>) -> Option<Cow<'a, [u8]>> {
    let content = attachment.get("content").filter(|content| type_of(*content) == b"image")?;
    let file = content.get("file")?;
    let mut source = JsonObjectWriter::new();
    source.text("type", "base64");
    source.raw("data", file.get("base64")?.raw());
    source.raw("media_type", file.get("type")?.raw());
    let mut object = JsonObjectWriter::new();
    object.text("type", "image");
    object.raw("source", &source.finish());
    Some(object.finish())
}

/// Removes the client's reminders from a text. Returns `None` if nothing else is left.
fn strip_reminders(text: String, broken: bool) -> Option<String> {
    let mut text = text;
    if broken {
        text.push('\n');
    }
    if !text.contains(REMINDER_START) {
        return Some(text);
    }
    let mut left = String::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some(start) = rest.find(REMINDER_START) {
        let Some(end) = rest[start..].find(REMINDER_END) else { break };
        left.push_str(&rest[..start]);
        rest = rest[start + end + REMINDER_END.len()..].trim_start();
    }
    left.push_str(rest);
    (!left.trim().is_empty()).then_some(left)
}

/// Returns whether a text can be copied from the log as encoded: it is well-formed and has no reminders. A
/// text may be very long, so this check does not copy it.
fn is_sent_verbatim(inner: &[u8]) -> bool {
    let contains = |what: &[u8]| memchr::memmem::find(inner, what).is_some();
    // A reminder may be written with escapes.
    let plain = !contains(b"system-reminder") && !contains(b"\\u00");
    plain
        && std::str::from_utf8(inner).is_ok()
        && !inner.iter().any(|&b| b < 0x20)
        && has_valid_escapes(inner)
}

/// Returns whether every backslash starts a simple JSON escape.
fn has_valid_escapes(inner: &[u8]) -> bool {
    let mut rest = inner;
    while let Some(slash) = memchr::memchr(b'\\', rest) {
        // Escapes by number may be halves of a surrogate pair.
        if !rest.get(slash + 1).is_some_and(|c| b"\"\\/bfnrt".contains(c)) {
            return false;
        }
        rest = &rest[slash + 2..];
    }
    true
}

fn text_block<'a>(text: Cow<'_, str>, broken: bool) -> Option<Cow<'a, [u8]>> {
    let text = strip_reminders(text.into_owned(), broken)?;
    let mut object = JsonObjectWriter::new();
    object.text("type", "text");
    object.text("text", &text);
    Some(object.finish())
}

/// Returns a block without cache marks, citations and the given keys.
fn without<'a>(block: Json<'a>, keys: &[&str]) -> Cow<'a, [u8]> {
    let mut drops = false;
    block.for_each_member(|name, _| drops |= is_dropped(name, keys));
    if !drops {
        return block.raw().into();
    }
    let mut object = JsonObjectWriter::new();
    object.copy_members(block, keys);
    object.finish()
}

fn is_dropped(name: &[u8], keys: &[&str]) -> bool {
    matches!(name, b"cache_control" | b"citations") || keys.iter().any(|key| key.as_bytes() == name)
}

fn json_string(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

/// Writes a JSON object.
struct JsonObjectWriter(Vec<u8>);

impl JsonObjectWriter {
    fn new() -> Self {
        Self(vec![b'{'])
    }

    fn raw(&mut self, key: &str, value: &[u8]) {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.extend(json_string(key));
        self.0.push(b':');
        self.0.extend_from_slice(value);
    }

    fn text(&mut self, key: &str, text: &str) {
        self.raw(key, b"");
        // A text may be very long, so it is encoded in place.
        let result = serde_json::to_writer(&mut self.0, text);
        debug_assert!(result.is_ok(), "writing to memory cannot fail");
    }

    /// Copies the members of an object except the given ones.
    fn copy_members(&mut self, object: Json<'_>, except: &[&str]) {
        object.for_each_member(|name, value| {
            if !is_dropped(name, except) {
                self.raw(&String::from_utf8_lossy(name), value.raw());
            }
        });
    }

    fn finish<'a>(mut self) -> Cow<'a, [u8]> {
        self.0.push(b'}');
        self.0.into()
    }
}
