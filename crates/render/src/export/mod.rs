//! Transcripts: a path of a conversation as a document.
//!
//! A [`Document`] is what is written: facts of the path, its items, the subagents that its calls
//! started. Each format is one function that writes it; what a tool call is about is worked out once,
//! in `tools`. Nothing of the log is trusted: text is cleaned of what a terminal obeys and never
//! becomes markup.

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
    BlockView, MessageView, ResultPart, StepItems, StepStream, Time, TranscriptItem, Usage,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

pub use index::{IndexRow, write_index};

use crate::text::plural;

/// How a document is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Markdown.
    #[default]
    Md,
    /// A page for a browser.
    Html,
    /// Data.
    Json,
}

impl Format {
    /// Returns the ending of a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Md => "md",
            Self::Html => "html",
            Self::Json => "json",
        }
    }
}

/// What is known of a path.
#[derive(Debug, Clone, Default)]
pub struct DocumentHead {
    /// The session's id.
    pub session: String,
    /// What it is called.
    pub title: String,
    /// Where it was held.
    pub project: String,
    /// The subagent, if this is what one did.
    pub agent: Option<String>,
    /// The transcript that a subagent belongs to.
    pub parent: Option<String>,
    /// The number of the path, and how many there are.
    pub path: (usize, usize),
    /// A client would resume it.
    pub active: bool,
    /// The uuid of the last entry that it shares with another path, and the number of its message.
    pub fork: Option<(String, Option<usize>)>,
    /// The document that has what came before, if only what follows the fork is written, and the number
    /// of the last message there.
    pub begins_in: Option<(String, Option<usize>)>,
    /// The message inside this path after which a client would go on.
    pub resumes_at: Option<usize>,
    /// Subagents of which no call is known: indexes of [`Document::agents`].
    pub unlinked_agents: Vec<usize>,
    /// Compactions on it.
    pub compactions: u32,
    /// Messages on it.
    pub messages: u32,
    /// Prompts on it.
    pub turns: u32,
    /// When it began and ended.
    pub span: (Time, Time),
    /// The models that spoke.
    pub models: Vec<String>,
    /// The client's versions.
    pub versions: Vec<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// What it cost.
    pub usage: Usage,
    /// The paths of the session; of very many, those around this one.
    pub branches: Vec<BranchLink>,
    /// What could not be read.
    pub defects: Vec<String>,
    /// The way to the directory of all documents: empty, or `../`.
    pub root_prefix: &'static str,
    /// An index lies there.
    pub has_index: bool,
}

/// A path of the session that a document is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BranchLink {
    /// Its number.
    pub n: usize,
    /// A client would resume it.
    pub active: bool,
    /// Its document, if it has one.
    pub file: Option<String>,
    /// The number of the message that it leaves the others at.
    pub fork: Option<usize>,
    /// The path that it leaves there.
    pub parent_path: Option<usize>,
    /// Messages on it, and how many of these come before the fork.
    pub messages: (u32, u32),
    /// Its last prompt.
    pub last_prompt: String,
}

/// A run of items from one log.
pub struct DocumentPart<'a> {
    /// The session that it stands in.
    pub session: &'a str,
    /// What is put before the numbers of its messages in links.
    pub prefix: String,
    /// What was said.
    pub items: StepStream<'a>,
    /// What its calls started and where its results lie.
    pub sidecars: CallSidecars<'a>,
}

/// Reads the whole text of a result that was shortened, if the function it is given says so of the file.
type ReadWholeResult<'a> = Box<dyn Fn(&str, &dyn Fn(&Path) -> bool) -> Option<String> + 'a>;

/// What belongs to the calls of a log.
#[derive(Default)]
pub struct CallSidecars<'a> {
    /// The subagents, by call: indexes of [`Document::agents`].
    pub agents: Arc<FxHashMap<usize, Vec<usize>>>,
    /// Reads the whole text of a result that was shortened.
    pub whole_result: Option<ReadWholeResult<'a>>,
}

/// A subagent.
pub struct DocumentAgent<'a> {
    /// What it is called.
    pub name: String,
    /// Its document.
    pub file: String,
    /// How many messages it has.
    pub messages: usize,
    /// What was said.
    pub part: DocumentPart<'a>,
}

/// A path with everything that is to be written of it.
pub struct Document<'a> {
    /// What is known of it.
    pub head: &'a DocumentHead,
    /// Its items, those of earlier files first.
    pub parts: &'a [DocumentPart<'a>],
    /// The subagents of its sessions.
    pub agents: &'a [DocumentAgent<'a>],
    /// Show pictures.
    pub images: bool,
    /// Show thinking.
    pub thinking: bool,
    /// What it has shown so far.
    pub shown: ShownSidecars,
}

/// What a document shows once, however often it is referred to.
#[derive(Debug, Default)]
pub struct ShownSidecars {
    agents: RefCell<FxHashSet<usize>>,
    results: RefCell<FxHashSet<std::path::PathBuf>>,
}

impl ShownSidecars {
    /// Returns whether a subagent is to be shown here: the first time.
    fn mark_agent_shown(&self, agent: usize) -> bool {
        self.agents.borrow_mut().insert(agent)
    }

    /// Returns whether the file of a large result is to be shown here: the first time.
    fn mark_result_shown(&self, file: &Path) -> bool {
        self.results.borrow_mut().insert(file.to_owned())
    }
}

/// A text longer than this is shown as it is, not as Markdown: a parsed text is held several times.
const MAX_PROSE: usize = 8 << 20;

/// How deep subagents of subagents are shown; deeper ones are linked.
const MAX_NESTING: usize = 4;

/// Writes a picture beside a document: takes its media type and its bytes, returns its name.
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
    /// Tells whether anything of a block of an answer is shown.
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

/// The parts of a result, with the whole of a text that was shortened.
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
    // One of them may be very long.
    safe::clean_short(if said.len() == 1 { said.swap_remove(0) } else { said.join("\n").into() })
}

/// Counts the lines of a text; a line feed at its end begins no other line.
fn line_count(text: &str) -> u64 {
    let feeds = memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64;
    feeds + u64::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Returns the length of a result, in lines or attachments.
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
    /// It is the first result of its message: that one bears the message's number in links.
    first: bool,
}

/// The results of the calls of a run, each under one call.
struct CallResults<'p, 'a>(RefCell<FxHashMap<(usize, usize), Vec<CallResult<'p, 'a>>>>);

impl<'p, 'a> CallResults<'p, 'a> {
    fn new(run: &'p StepItems<'a>) -> Self {
        let mut answers: FxHashMap<(usize, usize), Vec<CallResult<'p, 'a>>> = FxHashMap::default();
        for item in run.items.iter().chain(&run.separate_results) {
            let TranscriptItem::Message(message) = item else { continue };
            let mut first = true;
            for block in message.blocks.iter().filter(|block| block.is_result()) {
                // What is called on another path or not at all is shown where it stands.
                if let Some(key) = block.owner.zip(block.call) {
                    answers.entry(key).or_default().push(CallResult { message, block, first });
                }
                first = false;
            }
        }
        Self(RefCell::new(answers))
    }

    /// Returns the results of a call that a message makes; a call that stands there twice has them once.
    fn for_call(&self, message: &MessageView<'_>, call: Option<usize>) -> Vec<CallResult<'p, 'a>> {
        call.and_then(|call| self.0.borrow_mut().remove(&(message.n, call))).unwrap_or_default()
    }
}

/// Tells whether a result is shown under its call.
fn is_under_call(block: &BlockView<'_>) -> bool {
    block.is_result() && block.owner.is_some()
}

/// A picture in a log.
struct EmbeddedImage<'a> {
    media_type: &'static str,
    base64: &'a str,
}

/// Takes the picture out of a block; only sorts that show and never run.
fn embedded_image(block: Json<'_>) -> Option<EmbeddedImage<'_>> {
    let source = block.get("source")?;
    let media = source.get("media_type")?.as_str()?;
    let media = ["image/png", "image/jpeg", "image/gif", "image/webp"].into_iter().find(|m| *m == media)?;
    let data = std::str::from_utf8(source.get("data")?.raw_string()?).ok()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=');
    (!data.is_empty() && data.bytes().all(plain)).then_some(EmbeddedImage { media_type: media, base64: data })
}

/// Tells a time to the second, in UTC.
fn format_time(time: Time) -> Option<String> {
    let iso = time.to_iso()?;
    Some(format!("{} {}", iso.get(..10)?, iso.get(11..19)?))
}

/// Tells a number of tokens in few digits.
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
