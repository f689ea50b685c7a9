//! The request that a client would send on resume.

use std::borrow::Cow;
use std::fmt::Write as _;

use rethread_log::{Json, unescape};
use rethread_model::{
    Preview, PreviewSummary, Refusal, SessionId, WireMessage, collapse_whitespace, describe_media,
};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::text::{DisplayOptions, Style, plural};

/// Returns the reason why a client does not resume a session.
pub fn refusal_text(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::NoConversation => "it finds no conversation",
        Refusal::NoTime(_) => "the entry it would resume from has no time",
        Refusal::NullLine => "a line is `null`",
        Refusal::Cycle(_) => "an entry is its own ancestor, and the client loops forever",
        Refusal::NoMessage(_) => "an entry has no message",
        Refusal::InvalidContent(_) => "the content of an entry is not a list of blocks",
        Refusal::NoModel(_) => "an answer does not name its model, and the client hangs",
        Refusal::InvalidAttachment(_) => "an attachment does not match its type",
    }
}

/// Returns the line above the messages, or the reason why the client does not resume.
pub fn preview_line(preview: &PreviewSummary, messages: usize, look: &DisplayOptions) -> String {
    let client = preview.client.version();
    match preview.refusal.map(refusal_text) {
        Some(why) => look.paint(Style::Error, format!("{client} does not resume this session: {why}")),
        None => {
            let n = plural(messages as u64, "message");
            look.paint(Style::Dim, format!("{client} sends {n}, including the new prompt"))
        }
    }
}

/// Returns the lines of a message that is sent, one per block.
pub fn message_lines(message: &WireMessage<'_>, look: &DisplayOptions) -> String {
    let (role, style) = if message.assistant { ("assistant", Style::Model) } else { ("user", Style::Human) };
    let mut name = role;
    let mut lines = String::new();
    for block in &message.blocks {
        let (style, text) = describe(block.json(), style);
        let text = look.truncate(&look.sanitize_line(&text), 11);
        let _ =
            writeln!(lines, "{}  {}", look.paint(Style::Dim, format!("{name:<9}")), look.paint(style, text));
        name = "";
    }
    lines
}

/// Maximum length of a block on its line, in bytes.
const MAX_LINE: usize = 64 << 10;

/// Returns the beginning of a text on one line.
fn line_prefix(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_LINE);
    let mut line = collapse_whitespace(&text[..end]);
    if end < text.len() {
        line.push('…');
    }
    line
}

/// Returns the beginning of a string on one line. Unescapes only that part, because the string may be very
/// long.
fn string_prefix(json: Option<Json<'_>>) -> String {
    let inner = json.and_then(Json::raw_string).unwrap_or_default();
    // An escape has at most six bytes, so a cut escape at the end is never shown.
    line_prefix(&unescape(&inner[..inner.len().min(8 * MAX_LINE)]))
}

/// Summarises a block in a few words.
fn describe(block: Json<'_>, said: Style) -> (Style, String) {
    let text = |key: &str| block.get(key).and_then(Json::as_str).unwrap_or_default();
    let kind = text("type");
    match &*kind {
        "text" => (said, string_prefix(block.get("text"))),
        "thinking" => (Style::Dim, format!("thinking: {}", string_prefix(block.get("thinking")))),
        "redacted_thinking" => (Style::Dim, "thinking, encrypted".to_owned()),
        "tool_use" => {
            let input =
                block.get("input").map_or(Cow::Borrowed(""), |input| String::from_utf8_lossy(input.raw()));
            (Style::Tool, format!("{} {}", text("name"), line_prefix(&input)))
        }
        "tool_result" => {
            let content = block.get("content");
            let words = content.filter(|content| content.is_string()).or_else(|| {
                let items = content.map(Json::items).into_iter().flatten();
                items.into_iter().find_map(|item| item.get("text").filter(|text| text.is_string()))
            });
            let failed = block.get("is_error").is_some_and(|error| error.raw() == b"true");
            let mark = if failed { "error: " } else { "result: " };
            (Style::Tool, format!("{mark}{}", string_prefix(words)))
        }
        _ => (Style::Tool, describe_media(block)),
    }
}

/// A preview without its messages.
#[derive(Debug, Clone, serde::Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct PreviewHead<'a> {
    pub r#type: &'static str,
    pub session: &'a SessionId,
    pub client: &'static str,
    pub accepted: bool,
    pub leaf: Option<&'a str>,
    pub reason: Option<&'static str>,
}

impl<'a> From<&'a PreviewSummary> for PreviewHead<'a> {
    fn from(preview: &'a PreviewSummary) -> Self {
        Self {
            r#type: "preview",
            session: &preview.session,
            client: preview.client.version(),
            accepted: preview.is_accepted(),
            leaf: preview.leaf.as_deref(),
            reason: preview.refusal.map(refusal_text),
        }
    }
}

/// A preview, as `preview --json` prints it.
#[derive(Debug, Clone, serde::Serialize)]
pub struct PreviewDocument<'a> {
    #[serde(flatten)]
    head: PreviewHead<'a>,
    messages: Option<Vec<WireMessageRow<'a>>>,
}

impl<'a> From<&'a Preview<'a>> for PreviewDocument<'a> {
    fn from(preview: &'a Preview<'a>) -> Self {
        let messages = preview.is_accepted().then(|| preview.messages.iter().map(WireMessageRow).collect());
        Self { head: (&preview.summary).into(), messages }
    }
}

/// A message as `preview --json` prints it.
#[derive(Debug, Clone, Copy)]
pub struct WireMessageRow<'a>(pub &'a WireMessage<'a>);

impl Serialize for WireMessageRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(Some(2))?;
        out.serialize_entry("role", if self.0.assistant { "assistant" } else { "user" })?;
        let blocks: Vec<RawJson<'_>> = self.0.blocks.iter().map(|block| RawJson(block.json())).collect();
        out.serialize_entry("content", &blocks)?;
        out.end()
    }
}

/// A value exactly as written in the log; invalid UTF-8 becomes U+FFFD, as in the client.
struct RawJson<'a>(Json<'a>);

impl Serialize for RawJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = self.0.raw();
        let text = std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::from);
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(raw) => raw.serialize(serializer),
            Err(_) => serializer.serialize_str(&text),
        }
    }
}
