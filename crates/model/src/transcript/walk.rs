//! The walker over a transcript, and the events that it emits.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use rethread_log::{BlockKind, Json};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{SubagentNo, Transcript, TranscriptPart, TranscriptRange, TranscriptSubagent};
use crate::index::{CallId, MessageNo};
use crate::step_sequence::StepItems;
use crate::view::{
    BlockView, MessageKind, MessageView, NoteView, ResultPart, TranscriptItem, join_result_parts,
};

/// Maximum nesting of subagents that are shown inside; deeper ones are linked.
const MAX_NESTING: usize = 4;

/// Receives the events of a transcript in reading order. All methods do nothing by default.
///
/// Events of the messages of a subagent come between [`Self::begin_subagent`] and [`Self::end_subagent`], inside
/// the call that started it; their depth is one more than that of the call.
pub trait TranscriptWriter {
    /// Begins the messages of one log.
    fn begin_part(&mut self, _part: &PartEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Takes a message as the log has it, whether it is shown or not, with results in place. Returns whether the
    /// events for its visible content should follow.
    fn raw_message(&mut self, _message: &MessageEvent<'_>) -> io::Result<Visit> {
        Ok(Visit::Content)
    }

    /// Begins a prompt, an answer, a summary, or a message with results that are not under a call.
    fn begin_message(&mut self, _message: &MessageEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a text block.
    fn text(&mut self, _message: &MessageEvent<'_>, _block: &BlockView<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a thinking block.
    fn thinking(&mut self, _message: &MessageEvent<'_>, _block: &BlockView<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes an image, a document or a block of another type.
    fn media(&mut self, _message: &MessageEvent<'_>, _block: Json<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Begins a tool call, with its results; its subagents follow.
    fn begin_call(&mut self, _call: &CallEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Ends a tool call.
    fn end_call(&mut self, _call: &CallEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a result whose call is not in the transcript.
    fn orphan_result(&mut self, _result: &ResultEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Ends a message.
    fn end_message(&mut self, _message: &MessageEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a command, its output, or a notice of the client: a message that is shown like a note.
    fn remark(&mut self, _message: &MessageEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a note.
    fn note(&mut self, _note: &NoteEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Writes a compaction.
    fn compaction(&mut self, _note: &NoteEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Begins a subagent that is shown inside the call that started it.
    fn begin_subagent(&mut self, _subagent: &SubagentEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Ends a subagent.
    fn end_subagent(&mut self, _subagent: &SubagentEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Links a subagent that is not shown here: it was shown before, is nested too deeply, or has no messages.
    fn linked_subagent(&mut self, _subagent: &SubagentEvent<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Ends a message or note at some depth, whether it is shown or not. A writer can flush here.
    fn end_item(&mut self, _depth: usize) -> io::Result<()> {
        Ok(())
    }

    /// Ends the transcript.
    fn end(&mut self, _subagents: &[ListedSubagent<'_>]) -> io::Result<()> {
        Ok(())
    }
}

/// The answer of a writer to [`TranscriptWriter::raw_message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visit {
    /// The visible content of the message follows.
    Content,
    /// Nothing else of the message is needed.
    Skip,
}

/// The beginning of a part.
#[derive(Debug, Clone, Copy)]
pub struct PartEvent<'e> {
    /// The session that it belongs to.
    pub session: &'e str,
    /// Its index.
    pub index: usize,
    /// The number of parts.
    pub count: usize,
}

/// A message of a transcript.
#[derive(Clone, Copy)]
pub struct MessageEvent<'e> {
    /// The message.
    pub message: &'e MessageView<'e>,
    /// The number of subagents that it is nested in.
    pub depth: usize,
    /// The number of its turn, as [`TranscriptRange`] counts them; `None` before the first prompt and in subagents.
    pub turn: Option<usize>,
    part: &'e TranscriptPart<'e>,
    shown: &'e ShownSidecars,
}

impl<'e> MessageEvent<'e> {
    /// Returns its anchor, unique in the transcript.
    pub fn anchor(&self) -> String {
        self.part.anchor(self.message)
    }

    /// Returns the session that it belongs to.
    pub fn session(&self) -> &'e str {
        self.part.session
    }

    /// Reads the full text of a result that was shortened, unless it was shown before.
    pub fn whole_result(&self, text: &str) -> Option<String> {
        let read = self.part.sidecars.whole_result.as_ref()?;
        read(text, &|file| self.shown.mark_result_shown(file))
    }

    fn result(
        &self,
        message: &'e MessageView<'e>,
        block: &'e BlockView<'e>,
        has_anchor: bool,
    ) -> ResultEvent<'e> {
        let mut parts = block.result_parts();
        for part in &mut parts {
            if let ResultPart::Text(text) = part
                && let Some(whole) = self.whole_result(text)
            {
                *text = whole.into();
            }
        }
        ResultEvent { message: Self { message, ..*self }, block, parts, has_anchor }
    }
}

/// A tool call and its results.
pub struct CallEvent<'e> {
    /// The message with the call.
    pub message: MessageEvent<'e>,
    /// The call.
    pub block: &'e BlockView<'e>,
    /// Its results.
    pub results: Vec<ResultEvent<'e>>,
}

impl<'e> CallEvent<'e> {
    /// Returns the client's own copy of the first result, which has more structure.
    pub fn result_copy(&self) -> Json<'e> {
        self.results.first().map_or(Json::new(b""), |result| result.message.message.tool_use_result)
    }
}

/// A tool result.
pub struct ResultEvent<'e> {
    /// The message with the result.
    pub message: MessageEvent<'e>,
    /// The result.
    pub block: &'e BlockView<'e>,
    /// Its parts, with the full text where the log has a shortened one.
    pub parts: Vec<ResultPart<'e>>,
    /// Set for the first result of its message, which represents the message in links.
    pub has_anchor: bool,
}

impl ResultEvent<'_> {
    /// Returns its text, with placeholders for images and documents.
    pub fn text(&self) -> Cow<'_, str> {
        join_result_parts(&self.parts)
    }
}

/// A note of a transcript.
#[derive(Debug, Clone, Copy)]
pub struct NoteEvent<'e> {
    /// The note.
    pub note: &'e NoteView<'e>,
    /// The number of subagents that it is nested in.
    pub depth: usize,
}

/// A subagent under the call that started it.
#[derive(Clone, Copy)]
pub struct SubagentEvent<'e> {
    /// Its number.
    pub number: SubagentNo,
    /// The subagent.
    pub subagent: &'e TranscriptSubagent<'e>,
}

/// A subagent at the end of a transcript.
#[derive(Clone, Copy)]
pub struct ListedSubagent<'e> {
    /// Its number.
    pub number: SubagentNo,
    /// The subagent.
    pub subagent: &'e TranscriptSubagent<'e>,
    /// The id of the call that started it; `None` if it is unknown.
    pub call_id: Option<&'e str>,
}

/// Sidecars that a transcript shows once, however often they are referenced.
#[derive(Default)]
struct ShownSidecars {
    subagents: RefCell<FxHashSet<SubagentNo>>,
    results: RefCell<FxHashSet<PathBuf>>,
}

impl ShownSidecars {
    /// Marks a subagent as shown. Returns whether this is the first time.
    fn mark_subagent_shown(&self, number: SubagentNo) -> bool {
        self.subagents.borrow_mut().insert(number)
    }

    /// Marks the file of a large result as shown. Returns whether this is the first time.
    fn mark_result_shown(&self, file: &Path) -> bool {
        self.results.borrow_mut().insert(file.to_owned())
    }
}

impl Transcript<'_> {
    /// Passes the transcript to a writer, in reading order. One step is in memory at a time.
    pub fn walk(&self, writer: &mut dyn TranscriptWriter) -> io::Result<()> {
        let walker = TranscriptWalker { transcript: self, shown: ShownSidecars::default() };
        let mut range = RangeFilter::new(&self.range);
        for (index, part) in self.parts.iter().enumerate() {
            writer.begin_part(&PartEvent { session: part.session, index, count: self.parts.len() })?;
            part.steps
                .for_each_step(|step| walker.step(writer, part, step, 0, &mut |item| range.turn_of(item)))?;
        }
        writer.end(&self.listed_subagents())
    }
}

/// Selects the items of a [`TranscriptRange`].
struct RangeFilter<'t> {
    range: &'t TranscriptRange,
    turn: usize,
    /// The first message has been reached.
    has_begun: bool,
    /// The last message has been passed.
    has_ended: bool,
}

impl<'t> RangeFilter<'t> {
    fn new(range: &'t TranscriptRange) -> Self {
        Self { range, turn: 0, has_begun: range.from.is_none(), has_ended: false }
    }

    /// Returns the number of an item's turn, 0 before the first; `None` if the item is outside the range.
    fn turn_of(&mut self, item: &TranscriptItem<'_>) -> Option<usize> {
        let (number, is_prompt) = match item {
            TranscriptItem::Message(message) => (Some(message.n), message.kind == MessageKind::Prompt),
            TranscriptItem::Note(_) => (None, false),
        };
        self.turn += usize::from(is_prompt);
        self.has_begun |= number.is_some() && number == self.range.from;
        let is_named = self.range.only.as_ref().is_none_or(|only| number.is_some_and(|n| only.contains(&n)));
        let is_inside = self.has_begun && !self.has_ended;
        self.has_ended |= self.has_begun && number.is_some() && number == self.range.to;
        (is_inside && self.range.contains_turn(self.turn) && is_named).then_some(self.turn)
    }
}

struct TranscriptWalker<'t> {
    transcript: &'t Transcript<'t>,
    shown: ShownSidecars,
}

impl TranscriptWalker<'_> {
    fn step(
        &self,
        writer: &mut dyn TranscriptWriter,
        part: &TranscriptPart<'_>,
        step: &StepItems<'_>,
        depth: usize,
        turn_of: &mut dyn FnMut(&TranscriptItem<'_>) -> Option<usize>,
    ) -> io::Result<()> {
        let mut results = CallResults::new(step);
        for item in &step.items {
            let Some(turn) = turn_of(item) else { continue };
            match item {
                TranscriptItem::Message(message) => {
                    let turn = Some(turn).filter(|turn| *turn > 0);
                    let event = MessageEvent { message, depth, turn, part, shown: &self.shown };
                    self.message(writer, &event, &mut results)?;
                }
                TranscriptItem::Note(note) if note.is_compaction() => {
                    writer.compaction(&NoteEvent { note, depth })?
                }
                TranscriptItem::Note(note) => writer.note(&NoteEvent { note, depth })?,
            }
            writer.end_item(depth)?;
        }
        Ok(())
    }

    fn message<'e>(
        &self,
        writer: &mut dyn TranscriptWriter,
        event: &MessageEvent<'e>,
        results: &mut CallResults<'e>,
    ) -> io::Result<()> {
        if writer.raw_message(event)? == Visit::Skip {
            return Ok(());
        }
        match event.message.kind {
            MessageKind::Prompt | MessageKind::Summary => {
                writer.begin_message(event)?;
                event.message.blocks.iter().try_for_each(|block| text_or_media(writer, event, block))?;
                writer.end_message(event)
            }
            MessageKind::Answer => self.answer(writer, event, results),
            MessageKind::Result => self.result_message(writer, event),
            MessageKind::Command | MessageKind::Note if event.message.meta => Ok(()),
            MessageKind::Command | MessageKind::Note => writer.remark(event),
        }
    }

    fn answer<'e>(
        &self,
        writer: &mut dyn TranscriptWriter,
        event: &MessageEvent<'e>,
        results: &mut CallResults<'e>,
    ) -> io::Result<()> {
        let is_shown = |block: &&BlockView<'_>| self.transcript.content.shows(block);
        let mut blocks = event.message.blocks.iter().filter(is_shown).peekable();
        if blocks.peek().is_none() {
            return Ok(());
        }
        writer.begin_message(event)?;
        for block in blocks {
            match block.kind {
                Some(BlockKind::Thinking | BlockKind::RedactedThinking) => writer.thinking(event, block)?,
                Some(BlockKind::ToolUse) => {
                    let results = results.take(event.message, block);
                    let result =
                        |result: CallResult<'e>| event.result(result.message, result.block, result.is_first);
                    let results = results.into_iter().map(result).collect();
                    self.call(writer, &CallEvent { message: *event, block, results })?;
                }
                _ => text_or_media(writer, event, block)?,
            }
        }
        writer.end_message(event)
    }

    fn call(&self, writer: &mut dyn TranscriptWriter, call: &CallEvent<'_>) -> io::Result<()> {
        writer.begin_call(call)?;
        let subagents = &call.message.part.sidecars.subagents;
        for &number in call.block.call.and_then(|call| subagents.get(&call)).into_iter().flatten() {
            self.subagent(writer, number, call.message.depth)?;
        }
        writer.end_call(call)
    }

    fn subagent(
        &self,
        writer: &mut dyn TranscriptWriter,
        number: SubagentNo,
        depth: usize,
    ) -> io::Result<()> {
        let subagent = &self.transcript.subagents[number.index()];
        let event = SubagentEvent { number, subagent };
        let part = subagent.part.as_ref().filter(|_| depth < MAX_NESTING);
        let Some(part) = part.filter(|_| self.shown.mark_subagent_shown(number)) else {
            return writer.linked_subagent(&event);
        };
        writer.begin_subagent(&event)?;
        part.steps.for_each_step(|step| self.step(writer, part, step, depth + 1, &mut |_| Some(0)))?;
        writer.end_subagent(&event)
    }

    /// Passes what is not shown under a call: results without one, and text beside results.
    fn result_message(&self, writer: &mut dyn TranscriptWriter, event: &MessageEvent<'_>) -> io::Result<()> {
        let is_shown = |block: &&BlockView<'_>| {
            if block.is_result() { block.owner.is_none() && self.transcript.content.tools } else { true }
        };
        let mut blocks = event.message.blocks.iter().filter(is_shown).peekable();
        if blocks.peek().is_none() {
            return Ok(());
        }
        writer.begin_message(event)?;
        let mut has_anchor = true;
        for block in blocks {
            if block.is_result() {
                writer.orphan_result(&event.result(event.message, block, has_anchor))?;
                has_anchor = false;
            } else {
                text_or_media(writer, event, block)?;
            }
        }
        writer.end_message(event)
    }
}

fn text_or_media(
    writer: &mut dyn TranscriptWriter,
    event: &MessageEvent<'_>,
    block: &BlockView<'_>,
) -> io::Result<()> {
    match block.kind {
        Some(BlockKind::Text) => writer.text(event, block),
        _ => writer.media(event, block.json()),
    }
}

/// A result under its call.
struct CallResult<'e> {
    message: &'e MessageView<'e>,
    block: &'e BlockView<'e>,
    /// Set for the first result of its message.
    is_first: bool,
}

/// The results of the calls of a step, by the message of the call and the call.
struct CallResults<'e>(FxHashMap<(MessageNo, CallId), Vec<CallResult<'e>>>);

impl<'e> CallResults<'e> {
    fn new(step: &'e StepItems<'e>) -> Self {
        let mut results: FxHashMap<(MessageNo, CallId), Vec<CallResult<'e>>> = FxHashMap::default();
        for item in step.items.iter().chain(&step.separate_results) {
            let TranscriptItem::Message(message) = item else { continue };
            for (i, block) in message.blocks.iter().filter(|block| block.is_result()).enumerate() {
                // A result whose call is on another path or missing is shown in place.
                if let Some(call) = block.owner.zip(block.call) {
                    results.entry(call).or_default().push(CallResult { message, block, is_first: i == 0 });
                }
            }
        }
        Self(results)
    }

    /// Takes the results of a call in a message; a repeated call gets them only once.
    fn take(&mut self, message: &MessageView<'_>, block: &BlockView<'_>) -> Vec<CallResult<'e>> {
        block.call.and_then(|call| self.0.remove(&(message.n, call))).unwrap_or_default()
    }
}
