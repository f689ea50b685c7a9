//! Transcripts: a path of a conversation as a document.
//!
//! A [`Document`] contains the metadata of a path, its items, and the subagents that its calls started. Each
//! format is one function that writes it; the description of tool calls is shared, in `tools`. Text from a
//! log is untrusted: control codes are removed and it never becomes active markup.

mod safe;
mod tools;

mod html;
mod index;
mod json;
mod markdown;

use std::cell::RefCell;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, CallId, MessageNo, MessageView, ResultPart, StepItems, StepStream, Time, TranscriptItem, Usage,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

pub use index::{IndexRow, write_index};

use crate::text::plural;

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

/// The metadata of a path.
#[derive(Debug, Clone, Default)]
pub struct DocumentHead {
    /// The session's id.
    pub session: String,
    /// The title of the session.
    pub title: String,
    /// The project of the session.
    pub project: String,
    /// The subagent, if this is the transcript of one.
    pub agent: Option<String>,
    /// The transcript that a subagent belongs to.
    pub parent: Option<String>,
    /// The number of the path, and the number of paths.
    pub path: (usize, usize),
    /// A client would resume it.
    pub active: bool,
    /// The uuid of the last entry that it shares with another path, and the number of its message.
    pub fork: Option<(String, Option<MessageNo>)>,
    /// The document that contains the messages before the fork, if they are not repeated here, and the number
    /// of the last message there.
    pub begins_in: Option<(String, Option<MessageNo>)>,
    /// The message inside this path after which a client would continue.
    pub resumes_at: Option<MessageNo>,
    /// Subagents whose call is unknown: indexes into [`Document::agents`].
    pub unlinked_agents: Vec<usize>,
    /// Number of compactions on it.
    pub compactions: u32,
    /// Number of messages on it.
    pub messages: u32,
    /// Number of prompts on it.
    pub turns: u32,
    /// Its start and end time.
    pub span: (Option<Time>, Option<Time>),
    /// The models that answered.
    pub models: Vec<String>,
    /// The client versions that wrote it.
    pub versions: Vec<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// Its token usage.
    pub usage: Usage,
    /// The paths of the session; if there are very many, those near this one.
    pub branches: Vec<BranchLink>,
    /// Parts of the log that could not be read.
    pub defects: Vec<String>,
    /// The relative path to the directory of all documents: empty, or `../`.
    pub root_prefix: &'static str,
    /// That directory has an index.
    pub has_index: bool,
}

/// A path of the session, as listed in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchLink {
    /// Its number.
    pub n: usize,
    /// A client would resume it.
    pub active: bool,
    /// Its document, if it has one.
    pub file: Option<String>,
    /// The number of the message at which it leaves its parent path.
    pub fork: Option<MessageNo>,
    /// The path that it forks from.
    pub parent_path: Option<usize>,
    /// Number of messages on it, and how many of these precede the fork.
    pub messages: (u32, u32),
    /// Its last prompt.
    pub last_prompt: String,
}

/// A run of items from one log.
pub struct DocumentPart<'a> {
    /// The session that it belongs to.
    pub session: &'a str,
    /// Prefix of its message numbers in links.
    pub prefix: String,
    /// The messages and notes.
    pub items: StepStream<'a>,
    /// The sidecars of its calls.
    pub sidecars: CallSidecars<'a>,
}

/// Reads the full text of a result that was shortened, if the given predicate accepts its file.
type ReadWholeResult<'a> = Box<dyn Fn(&str, &dyn Fn(&Path) -> bool) -> Option<String> + 'a>;

/// The sidecars of the calls of a log: subagents and large results.
#[derive(Default)]
pub struct CallSidecars<'a> {
    /// The subagents, by call: indexes into [`Document::agents`].
    pub agents: Arc<FxHashMap<CallId, Vec<usize>>>,
    /// Reads the full text of a result that was shortened.
    pub whole_result: Option<ReadWholeResult<'a>>,
}

/// A subagent.
pub struct DocumentAgent<'a> {
    /// Its name.
    pub name: String,
    /// Its document.
    pub file: String,
    /// Number of messages in it.
    pub messages: usize,
    /// Its messages and notes.
    pub part: DocumentPart<'a>,
}

/// A path and everything that is written of it.
pub struct Document<'a> {
    /// Its metadata.
    pub head: &'a DocumentHead,
    /// Its items, those of earlier files first.
    pub parts: &'a [DocumentPart<'a>],
    /// The subagents of its sessions.
    pub agents: &'a [DocumentAgent<'a>],
    /// Show images.
    pub images: bool,
    /// Show thinking.
    pub thinking: bool,
    /// The sidecars shown so far.
    pub shown: ShownSidecars,
}

/// Sidecars that a document shows once, however often they are referenced.
#[derive(Debug, Default)]
pub struct ShownSidecars {
    agents: RefCell<FxHashSet<usize>>,
    results: RefCell<FxHashSet<std::path::PathBuf>>,
}

impl ShownSidecars {
    /// Marks a subagent as shown. Returns whether this is the first time.
    fn mark_agent_shown(&self, agent: usize) -> bool {
        self.agents.borrow_mut().insert(agent)
    }

    /// Marks the file of a large result as shown. Returns whether this is the first time.
    fn mark_result_shown(&self, file: &Path) -> bool {
        self.results.borrow_mut().insert(file.to_owned())
    }
}

/// Maximum length of a text that is parsed as Markdown; a parsed text needs several times its size in memory.
const MAX_PROSE: usize = 8 << 20;

/// Maximum nesting of subagents that are shown inline; deeper ones are linked.
const MAX_NESTING: usize = 4;

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

impl Document<'_> {
    /// Returns whether anything of an answer's block is shown.
    fn is_visible(&self, block: &BlockView<'_>) -> bool {
        match block.kind {
            Some(BlockKind::Text) => !block.text().trim().is_empty(),
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.thinking && !block.text().trim().is_empty()
            }
            _ => true,
        }
    }
}

/// Returns the parts of a result, with shortened text replaced by the full text.
fn whole_parts<'a>(
    shown: &ShownSidecars,
    part: &DocumentPart<'_>,
    block: &BlockView<'a>,
) -> Vec<ResultPart<'a>> {
    let mut parts = block.result_parts();
    if let Some(whole_result) = &part.sidecars.whole_result {
        for piece in &mut parts {
            if let ResultPart::Text(said) = piece
                && let Some(whole) = whole_result(said, &|file| shown.mark_result_shown(file))
            {
                *said = whole.into();
            }
        }
    }
    parts
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

/// A result under its call.
struct CallResult<'p, 'a> {
    message: &'p MessageView<'a>,
    block: &'p BlockView<'a>,
    /// It is the first result of its message, the one that has the message's anchor.
    first: bool,
}

/// The results of the calls of a run, each under one call.
struct CallResults<'p, 'a>(RefCell<FxHashMap<(MessageNo, CallId), Vec<CallResult<'p, 'a>>>>);

impl<'p, 'a> CallResults<'p, 'a> {
    fn new(run: &'p StepItems<'a>) -> Self {
        let mut answers: FxHashMap<(MessageNo, CallId), Vec<CallResult<'p, 'a>>> = FxHashMap::default();
        for item in run.items.iter().chain(&run.separate_results) {
            let TranscriptItem::Message(message) = item else { continue };
            let mut first = true;
            for block in message.blocks.iter().filter(|block| block.is_result()) {
                // A result whose call is on another path or missing is shown in place.
                if let Some(key) = block.owner.zip(block.call) {
                    answers.entry(key).or_default().push(CallResult { message, block, first });
                }
                first = false;
            }
        }
        Self(RefCell::new(answers))
    }

    /// Takes the results of a call in a message; a repeated call gets them only once.
    fn for_call(&self, message: &MessageView<'_>, call: Option<CallId>) -> Vec<CallResult<'p, 'a>> {
        call.and_then(|call| self.0.borrow_mut().remove(&(message.n, call))).unwrap_or_default()
    }
}

/// Returns whether a result is shown under its call.
fn is_under_call(block: &BlockView<'_>) -> bool {
    block.is_result() && block.owner.is_some()
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
