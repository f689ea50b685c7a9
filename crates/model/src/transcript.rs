//! A transcript: one path of a conversation with everything that a reader of it needs.
//!
//! A [`Transcript`] has a header, the parts of the path (one per log, those of earlier files first) and the
//! subagents that its calls started. [`Transcript::walk`] passes it to a [`TranscriptWriter`] as a sequence of
//! events in reading order. The walker decides what is shown and where: hidden messages and blocks, results
//! under their calls, subagents inside or linked. A writer only formats.

mod walk;

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_log::BlockKind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::id::Time;
use crate::index::{CallId, MessageNo, index_type};
use crate::step_stream::StepStream;
use crate::usage::Usage;
use crate::view::{BlockView, MessageKind, MessageView, TranscriptItem};

pub use self::walk::{
    CallEvent, ListedSubagent, MessageEvent, NoteEvent, PartEvent, ResultEvent, SubagentEvent,
    TranscriptWriter, Visit,
};

/// A path of a conversation, with all that is shown of it.
pub struct Transcript<'a> {
    /// Its metadata.
    pub header: TranscriptHeader,
    /// Its parts, those of earlier files first.
    pub parts: Vec<TranscriptPart<'a>>,
    /// The subagents of its sessions. Several transcripts of one session share them.
    pub subagents: Arc<Vec<TranscriptSubagent<'a>>>,
    /// The subagents whose call is unknown.
    pub unlinked: Vec<SubagentNo>,
    /// The messages that are shown.
    pub range: TranscriptRange,
    /// The content of messages that is shown.
    pub content: VisibleContent,
}

index_type!(
    /// A subagent, as a position in [`Transcript::subagents`].
    pub SubagentNo shown as index
);

/// The metadata of a path.
#[derive(Debug, Clone, Default)]
pub struct TranscriptHeader {
    /// The session's id.
    pub session: String,
    /// The title of the session.
    pub title: String,
    /// The project of the session.
    pub project: String,
    /// The subagent, if this is the transcript of one.
    pub subagent: Option<String>,
    /// The number of the path.
    pub path_n: usize,
    /// The number of paths of the session.
    pub paths: usize,
    /// Set if a client would resume it.
    pub active: bool,
    /// The uuid of the last entry that it shares with another path.
    pub fork_point: Option<String>,
    /// The message of that entry.
    pub fork_message: Option<MessageNo>,
    /// The message inside this path after which a client would continue.
    pub resumes_at: Option<MessageNo>,
    /// Number of compactions on it.
    pub compactions: u32,
    /// Number of messages on it.
    pub messages: u32,
    /// Number of prompts on it.
    pub turns: u32,
    /// Its start and end time.
    pub span: Option<(Time, Time)>,
    /// The models that answered.
    pub models: Vec<String>,
    /// The client versions that wrote it.
    pub versions: Vec<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// Its token usage.
    pub usage: Usage,
    /// The paths of the session; if there are very many, those near this one.
    pub siblings: Vec<SiblingPath>,
    /// Parts of the log that could not be read.
    pub defects: Vec<String>,
}

/// A path of the session, as listed in a header.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiblingPath {
    /// Its number.
    pub n: usize,
    /// Set if a client would resume it.
    pub active: bool,
    /// The message at which it leaves its parent path.
    pub fork_message: Option<MessageNo>,
    /// The path that it forks from.
    pub parent_path: Option<usize>,
    /// Number of messages on it.
    pub messages: u32,
    /// Number of messages before the fork.
    pub messages_before_fork: u32,
    /// Its last prompt.
    pub last_prompt: String,
}

/// A run of items from one log.
pub struct TranscriptPart<'a> {
    /// The session that it belongs to.
    pub session: &'a str,
    /// Prefix of its message numbers in anchors, unique in the transcript.
    pub anchor_prefix: String,
    /// The messages and notes.
    pub steps: StepStream<'a>,
    /// The sidecars of its calls.
    pub sidecars: CallSidecars<'a>,
}

/// Reads the full text of a result that was shortened, if the given predicate accepts its file.
pub type ReadWholeResult<'a> = Box<dyn Fn(&str, &dyn Fn(&Path) -> bool) -> Option<String> + Send + Sync + 'a>;

/// The sidecars of the calls of a log: subagents and large results.
#[derive(Default)]
pub struct CallSidecars<'a> {
    /// The subagents, by call.
    pub subagents: Arc<FxHashMap<CallId, Vec<SubagentNo>>>,
    /// Reads the full text of a result that was shortened.
    pub whole_result: Option<ReadWholeResult<'a>>,
}

/// A subagent of a transcript.
pub struct TranscriptSubagent<'a> {
    /// Its name.
    pub name: String,
    /// Its log, if it has a separate one.
    pub log: Option<PathBuf>,
    /// Its messages and notes; without them it is only linked.
    pub part: Option<TranscriptPart<'a>>,
    /// Number of messages in `part`.
    pub messages: usize,
}

/// The messages of a transcript that are shown: those that satisfy all conditions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TranscriptRange {
    /// The turns, counted from 1. Everything before the first prompt belongs to turn 1.
    pub turns: Option<RangeInclusive<usize>>,
    /// The first message.
    pub from: Option<MessageNo>,
    /// The last message.
    pub to: Option<MessageNo>,
    /// The messages.
    pub only: Option<FxHashSet<MessageNo>>,
}

impl TranscriptRange {
    /// Returns whether a turn is shown; 0 is everything before the first prompt.
    pub fn contains_turn(&self, turn: usize) -> bool {
        let contains =
            |turns: &RangeInclusive<usize>| turns.contains(&turn.max(usize::from(*turns.start() == 1)));
        self.turns.as_ref().is_none_or(contains)
    }
}

/// The content of messages that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VisibleContent {
    /// The thinking blocks.
    pub thinking: VisibleThinking,
    /// Tool calls and their results.
    pub tools: bool,
    /// Images.
    pub images: bool,
}

impl Default for VisibleContent {
    fn default() -> Self {
        Self { thinking: VisibleThinking::Readable, tools: true, images: true }
    }
}

/// The thinking blocks that are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VisibleThinking {
    /// None.
    Hidden,
    /// Those with text.
    Readable,
    /// All, including encrypted and redacted ones.
    All,
}

impl VisibleContent {
    /// Returns whether a block of an answer is shown.
    pub fn shows(&self, block: &BlockView<'_>) -> bool {
        let has_text = || !block.text().trim().is_empty();
        match block.kind {
            Some(BlockKind::Text) => has_text(),
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => match self.thinking {
                VisibleThinking::Hidden => false,
                VisibleThinking::Readable => has_text(),
                VisibleThinking::All => true,
            },
            Some(BlockKind::ToolUse) => self.tools,
            _ => true,
        }
    }
}

/// A line of the outline of a transcript.
pub enum OutlineEntry<'e> {
    /// A prompt, with its anchor.
    Prompt {
        /// The message.
        message: &'e MessageView<'e>,
        /// Its anchor.
        anchor: String,
    },
    /// A compaction.
    Compaction,
}

impl Transcript<'_> {
    /// Passes the prompts and compactions of the whole path, whatever the range, reading no other text.
    pub fn outline(&self, mut take: impl FnMut(OutlineEntry<'_>)) -> io::Result<()> {
        for part in &self.parts {
            part.steps.for_each_prompt(|item| {
                match item {
                    TranscriptItem::Message(message) if message.kind == MessageKind::Prompt => {
                        take(OutlineEntry::Prompt { message, anchor: part.anchor(message) });
                    }
                    TranscriptItem::Note(note) if note.is_compaction() => take(OutlineEntry::Compaction),
                    _ => {}
                }
                true
            })?;
        }
        Ok(())
    }

    /// Returns the subagents that calls of this transcript started, and those whose call is unknown.
    fn listed_subagents(&self) -> Vec<ListedSubagent<'_>> {
        let mut calls: FxHashMap<SubagentNo, Option<&str>> = FxHashMap::default();
        for part in &self.parts {
            let mut started: Vec<_> =
                part.sidecars.subagents.iter().filter(|(call, _)| part.steps.makes_call(**call)).collect();
            started.sort_unstable();
            for (&call, subagents) in started {
                for &number in subagents {
                    calls.entry(number).or_insert_with(|| Some(part.steps.call_id(call)));
                }
            }
        }
        for &number in &self.unlinked {
            calls.entry(number).or_insert(None);
        }
        let listed = |(at, subagent)| {
            let number = SubagentNo::from_index(at);
            Some(ListedSubagent { number, subagent, call_id: *calls.get(&number)? })
        };
        self.subagents.iter().enumerate().filter_map(listed).collect()
    }
}

impl TranscriptPart<'_> {
    /// Returns the anchor of a message, unique in the transcript.
    pub fn anchor(&self, message: &MessageView<'_>) -> String {
        format!("{}m{}", self.anchor_prefix, message.n)
    }
}

/// The totals of some parts, each message once.
#[derive(Debug, Clone, Default)]
pub struct TranscriptTotals {
    /// Number of messages.
    pub messages: u32,
    /// Number of prompts.
    pub turns: u32,
    /// Number of compactions.
    pub compactions: u32,
    /// The first and the last time.
    pub span: Option<(Time, Time)>,
    /// The models that answered, in order.
    pub models: Vec<String>,
    /// The token usage.
    pub usage: Usage,
}

impl TranscriptTotals {
    /// Adds up the messages of some parts, without reading their text.
    pub fn new(parts: &[TranscriptPart<'_>]) -> Self {
        let mut totals = Self::default();
        let mut known = FxHashSet::default();
        for item in parts.iter().flat_map(|part| part.steps.item_headers()) {
            totals.messages += u32::from(item.kind.is_some());
            totals.turns += u32::from(item.kind == Some(MessageKind::Prompt));
            totals.compactions += u32::from(item.compaction);
            if let Some(usage) = item.usage {
                totals.usage += usage;
            }
            let model = item.model.filter(|model| *model != "<synthetic>");
            if let Some(model) = model.filter(|model| known.insert(*model)) {
                totals.models.push(model.to_owned());
            }
            if let Some(time) = item.time {
                let (first, last) = totals.span.unwrap_or((time, time));
                totals.span = Some((first.min(time), last.max(time)));
            }
        }
        totals
    }
}
