//! Transcripts as documents.
//!
//! A [`Document`] is a transcript together with the names of the documents that it links to. Each format is a
//! [`rethread_model::TranscriptWriter`]; the description of tool calls is shared, in `tools`. Text from a log is
//! untrusted: control codes are removed and it never becomes active markup.

mod safe;
mod tools;

mod html;
mod index;
mod json;
mod markdown;

use std::io::{self, Write};
use std::sync::Arc;

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, MessageNo, MessageView, ResultPart, SubagentNo, Time, Transcript, Usage, collapse_whitespace,
};
use serde::{Deserialize, Serialize};

pub use index::{IndexFormat, IndexRow, write_index};
pub(crate) use safe::strip_control_codes;
pub(crate) use tools::{CallSection, TodoState, changed_lines, describe_call, edited_lines};

use crate::text::{plural, truncate};

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Markdown.
    #[default]
    Md,
    /// A page for a browser.
    Html,
    /// One JSON object.
    Json,
}

impl Format {
    /// Returns the file extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// A transcript that is written to a file.
pub struct Document<'a> {
    /// The transcript.
    pub transcript: &'a Transcript<'a>,
    /// The documents that it links to.
    pub links: &'a DocumentLinks,
    /// The command that resumes the session, if this is the path that a client would resume.
    pub resume_command: Option<&'a str>,
}

/// The names of the documents that a document links to, relative to the directory of all documents.
#[derive(Debug, Clone, Default)]
pub struct DocumentLinks {
    /// The transcript that a subagent belongs to.
    pub parent: Option<String>,
    /// The document that contains the messages before the fork, if they are not repeated here, and the number
    /// of the last message there.
    pub begins_in: Option<(String, Option<MessageNo>)>,
    /// The documents of the sibling paths, in the order of the header; `None` for paths without one.
    pub siblings: Vec<Option<String>>,
    /// The documents of the subagents, by number; empty for those without one.
    pub subagents: Arc<Vec<String>>,
    /// The relative path to the directory of all documents: empty, or `../`.
    pub root_prefix: &'static str,
    /// Set if that directory has an index.
    pub has_index: bool,
}

impl DocumentLinks {
    /// Returns the document of a sibling path, by its index in the header.
    fn sibling(&self, index: usize) -> Option<&str> {
        self.siblings.get(index)?.as_deref()
    }

    /// Returns the document of a subagent, if it has one.
    fn subagent(&self, number: SubagentNo) -> Option<&str> {
        self.subagents.get(number.index()).map(String::as_str).filter(|file| !file.is_empty())
    }
}

/// Maximum length of a text that is parsed as Markdown; a parsed text needs several times its size in memory.
const MAX_PROSE: usize = 8 << 20;

/// Writes an image file next to a document: takes its media type and its bytes, returns its name.
pub type WriteImage<'w> = &'w dyn Fn(&str, &[u8]) -> io::Result<String>;

/// Writes a document.
pub fn write(
    out: &mut dyn Write,
    document: &Document<'_>,
    format: Format,
    picture: WriteImage<'_>,
) -> io::Result<()> {
    match format {
        Format::Md => markdown::write(out, document, picture),
        Format::Html => html::write(out, document),
        Format::Json => json::write(out, document),
    }
}

/// Maximum length of a heading, in columns.
const MAX_HEADING: usize = 80;

/// Returns the first words of a prompt on one line of at most `width` columns.
fn first_words(message: &MessageView<'_>, width: usize) -> String {
    let text = message.blocks.iter().find(|block| block.kind == Some(BlockKind::Text));
    let text = text.map(BlockView::readable).unwrap_or_default();
    // The text itself may be very long.
    let text = text.trim_start();
    let start = &text[..text.floor_char_boundary(8 * width)];
    truncate_at_word(&collapse_whitespace(&strip_control_codes(start)), width)
}

/// Cuts a text to at most `width` columns, between words if there is a space in the second half.
fn truncate_at_word(text: &str, width: usize) -> String {
    let cut = truncate(text, width);
    if cut.len() == text.len() {
        return cut;
    }
    let words = cut.trim_end_matches('…');
    let end = words.rfind(' ').filter(|&end| end > words.len() / 2).unwrap_or(words.len());
    format!("{}…", words[..end].trim_end_matches([' ', ',', ';', ':', '.']))
}

/// Returns the text of a message, cleaned.
fn said_in(message: &MessageView<'_>) -> String {
    let mut said: Vec<_> = message.blocks.iter().map(BlockView::readable).collect();
    // A single text is not copied, because it may be very long.
    safe::clean_short(if said.len() == 1 { said.swap_remove(0) } else { said.join("\n").into() })
}

/// Counts the lines of a text; a final line feed does not begin another line.
fn line_count(text: &str) -> u64 {
    let feeds = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    feeds + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Describes the length of a result, in lines or attachments.
fn extent(parts: &[ResultPart<'_>]) -> String {
    let lines = |part: &ResultPart<'_>| match part {
        ResultPart::Text(said) => line_count(said),
        ResultPart::Other(_) => 0,
    };
    let others = parts.iter().filter(|part| matches!(part, ResultPart::Other(_))).count() as u64;
    match parts.iter().map(lines).sum::<u64>() {
        0 if others > 0 => plural(others, "attachment").to_string(),
        n => plural(n, "line").to_string(),
    }
}

/// An image in a log.
struct EmbeddedImage<'a> {
    media_type: &'static str,
    base64: &'a str,
}

/// Returns the image in a block, if its media type cannot contain scripts.
fn embedded_image(block: Json<'_>) -> Option<EmbeddedImage<'_>> {
    let source = block.get("source")?;
    let media = source.get("media_type")?.as_str()?;
    let media = ["image/png", "image/jpeg", "image/gif", "image/webp"].into_iter().find(|m| *m == media)?;
    let data = std::str::from_utf8(source.get("data")?.raw_string()?).ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    (!data.is_empty() && data.bytes().all(plain)).then_some(EmbeddedImage { media_type: media, base64: data })
}

/// Formats a time to the second, in UTC.
fn format_time(time: Option<Time>) -> Option<String> {
    let iso = time?.to_iso()?;
    Some(format!("{} {}", iso.get(..10)?, iso.get(11..19)?))
}

/// Formats a number of tokens in few digits.
fn format_tokens(n: u64) -> String {
    match n {
        0..1_000 => n.to_string(),
        1_000..100_000 => format!("{:.1}k", n as f64 / 1e3),
        100_000..1_000_000 => format!("{}k", n / 1000),
        _ => format!("{:.1}M", n as f64 / 1e6),
    }
}

fn input_tokens(usage: &Usage) -> u64 {
    [usage.input, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h]
        .into_iter()
        .fold(0, u64::saturating_add)
}
