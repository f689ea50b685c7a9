//! A conversation as terminal text.
//!
//! On a terminal, answers are rendered as Markdown and prompts are shown as typed, both wrapped to the width; a
//! bar marks prompts. Without a width, as in a pipe, texts are written unchanged.

mod calls;
mod header;

use std::cell::Cell;
use std::io::{self, Write};

use anstyle::Style as Ansi;
use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, CallEvent, MessageEvent, MessageKind, MessageNo, NoteEvent, PartEvent, ResultEvent,
    SubagentEvent, Transcript, TranscriptSubagent, TranscriptWriter, describe_media, readable_text,
};

use crate::prose::{EmitLine, ProseOptions, StyledLine, markdown_lines, shorten, typed_lines, width};
use crate::text::{DisplayOptions, Style, plural};

/// The amount of detail shown for tool calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolDetail {
    /// Inputs and results in full.
    Full,
    /// One line for each call, and one for its result.
    #[default]
    Brief,
    /// No tool calls.
    None,
}

/// Options for showing a conversation.
pub struct ShowOptions<'a> {
    /// Detail of tool calls.
    pub tools: ToolDetail,
    /// Describes the subagent that a call started.
    pub subagent: &'a dyn Fn(&TranscriptSubagent<'_>) -> String,
    /// The command that continues the conversation, for the header.
    pub next: Option<NextStep>,
    /// Cuts long texts.
    pub limit: Option<TextLimit<'a>>,
}

/// A limit of the texts of a conversation.
#[derive(Debug, Clone, Copy)]
pub struct TextLimit<'a> {
    /// The maximum number of characters of a text.
    pub chars: usize,
    /// Receives the message that is being written.
    pub current: &'a Cell<Option<MessageNo>>,
}

/// A command for a shell, and the reason to run it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextStep {
    /// The reason, in a word.
    pub label: &'static str,
    /// The commands; each is run if the one before it succeeds.
    pub commands: Vec<String>,
}

/// Columns of a line that has no limit otherwise.
const UNLIMITED: usize = 160;

/// Writes a transcript for a terminal, with a header.
pub fn write_conversation(
    out: &mut dyn Write,
    transcript: &Transcript<'_>,
    options: &ShowOptions<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    let mut emit = |line: &StyledLine| line.write(out, look);
    header::write(&transcript.header, options.next.as_ref(), look, &mut emit)?;
    transcript.walk(&mut ConversationWriter::new(transcript, options, look, &mut emit))
}

/// Returns the lines of a transcript without a header, at most `max_lines` of them.
pub fn conversation_lines(
    transcript: &Transcript<'_>,
    options: &ShowOptions<'_>,
    look: &DisplayOptions,
    max_lines: usize,
) -> io::Result<Vec<StyledLine>> {
    let mut lines = Vec::new();
    let mut emit = |line: &StyledLine| {
        if lines.len() == max_lines {
            return Err(io::ErrorKind::WriteZero.into());
        }
        lines.push(line.clone());
        Ok(())
    };
    let walked = transcript.walk(&mut ConversationWriter::new(transcript, options, look, &mut emit));
    if lines.len() < max_lines {
        walked?;
    }
    Ok(lines)
}

struct ConversationWriter<'a> {
    emit: EmitLine<'a>,
    options: &'a ShowOptions<'a>,
    look: &'a DisplayOptions,
    /// The directory of the session, which paths are relative to.
    directory: &'a str,
    /// The line that is being written.
    line: StyledLine,
    /// Nothing of the current message has been written.
    is_empty: bool,
    /// An empty line comes before the next text.
    needs_gap: bool,
    /// The last line belongs to a tool call of an answer.
    is_after_call: bool,
    /// The number of a message without a heading, until it is shown.
    number: Option<String>,
    /// The model of the last answer, if nothing else followed.
    answering: Option<String>,
    /// The day of the last heading.
    day: String,
}

/// The beginning of each line of a text.
#[derive(Clone, Copy)]
struct Gutter {
    text: &'static str,
    style: Style,
}

impl Gutter {
    const NONE: Self = Self { text: "", style: Style::Plain };
    const PROMPT: Self = Self { text: "▌ ", style: Style::Human };
    const ANSWER: Self = Self { text: "  ", style: Style::Plain };
    const SUMMARY: Self = Self { text: "▌ ", style: Style::Dim };
    const THINKING: Self = Self { text: "  ~ ", style: Style::Dim };
    const REMARK: Self = Self { text: "  · ", style: Style::Dim };
}

/// A reading of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TextFormat {
    Markdown,
    Typed,
}

impl TranscriptWriter for ConversationWriter<'_> {
    fn begin_part(&mut self, part: &PartEvent<'_>) -> io::Result<()> {
        if part.count == 1 {
            return Ok(());
        }
        let text = if part.index + 1 < part.count { "from session" } else { "continued in session" };
        let text = self.look.sanitize_line(&format!("{text} {}", part.session));
        self.write_note("", &text)
    }

    fn begin_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.is_empty = true;
        if let Some(limit) = self.options.limit {
            limit.current.set(Some(event.message.n));
        }
        match event.message.kind {
            MessageKind::Prompt => self.write_heading(event, "▌", Style::Human, "you"),
            MessageKind::Answer => self.begin_answer(event),
            MessageKind::Summary => {
                let who = "summary of the earlier conversation";
                self.write_heading(event, "▌", Style::Dim, who)
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, event: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        match event.message.kind {
            // Without the markup that the client added.
            MessageKind::Prompt => match &*block.readable() {
                "" => Ok(()),
                text => self.write_text(text, Gutter::PROMPT, TextFormat::Typed, Style::Plain),
            },
            MessageKind::Result if block.text().trim().is_empty() => Ok(()),
            MessageKind::Result => {
                self.write_text(&block.readable(), Gutter::REMARK, TextFormat::Typed, Style::Dim)
            }
            MessageKind::Summary => {
                self.write_text(&block.text(), Gutter::SUMMARY, TextFormat::Markdown, Style::Plain)
            }
            _ => {
                self.end_calls()?;
                self.write_text(&block.text(), Gutter::ANSWER, TextFormat::Markdown, Style::Plain)
            }
        }
    }

    fn thinking(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        let text = block.text();
        let text = match block.kind {
            Some(BlockKind::RedactedThinking) => "(redacted thinking)",
            _ if text.is_empty() => "(encrypted thinking)",
            _ => &text,
        };
        self.end_calls()?;
        self.write_text(text, Gutter::THINKING, TextFormat::Markdown, Style::Dim)
    }

    fn media(&mut self, event: &MessageEvent<'_>, block: Json<'_>) -> io::Result<()> {
        let gutter = match event.message.kind {
            MessageKind::Result => return Ok(()),
            MessageKind::Answer => Gutter::ANSWER,
            MessageKind::Prompt if self.look.width.is_some() => Gutter::PROMPT,
            _ => Gutter::NONE,
        };
        let text = self.look.sanitize_prefix(&describe_media(block), self.room(width(gutter.text)));
        self.put(&[(gutter.text, gutter.style), (&text, Style::Dim)])
    }

    fn begin_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        self.write_call(call)
    }

    fn orphan_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        let id = self.look.sanitize_prefix(&result.block.id(), self.room(30));
        self.put(&[("  ", Style::Plain), (&format!("▸ result without a call ({id})"), Style::Error)])?;
        self.is_empty = false;
        self.write_result(result)
    }

    fn end_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.needs_gap |= !(self.is_empty && event.message.kind == MessageKind::Result);
        if event.message.kind != MessageKind::Result {
            self.number = None;
        }
        Ok(())
    }

    fn remark(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        let words: Vec<_> = event.message.blocks.iter().map(BlockView::readable).collect();
        let words = words.join(" ");
        if words.trim().is_empty() {
            return Ok(());
        }
        let words = self.look.sanitize_prefix(&words, self.room(4));
        self.write_note(Gutter::REMARK.text, &words)
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let (look, note) = (self.look, event.note);
        let text = readable_text(&note.text);
        let is_noise = matches!(&*note.kind, "turn_duration" | "stop_hook_summary" | "file_snapshot");
        if is_noise || text.trim().is_empty() {
            return Ok(());
        }
        let text = look.sanitize_line(&format!("{}: {text}", note.kind));
        self.write_note(Gutter::REMARK.text, &look.truncate(&text, 4))
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let look = self.look;
        let text = format!("── compacted here · {} ", look.format_time(event.note.time));
        let fill = look.width.unwrap_or(72).saturating_sub(width(&text));
        self.begin_other()?;
        self.put(&[(&(text + &"─".repeat(fill)), Style::Active)])?;
        self.needs_gap = true;
        Ok(())
    }

    fn linked_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        // A command is never cut, so that it can be pasted.
        let text = self.look.sanitize_line(&(self.options.subagent)(event.subagent));
        self.put(&[("    ", Style::Plain), (&format!("↳ {text}"), Style::Tool)])
    }

    fn end(&mut self, _: &[rethread_model::ListedSubagent<'_>]) -> io::Result<()> {
        if self.look.width.is_none() { self.write_gap() } else { Ok(()) }
    }
}

impl<'a> ConversationWriter<'a> {
    fn new(
        transcript: &'a Transcript<'_>,
        options: &'a ShowOptions<'a>,
        look: &'a DisplayOptions,
        emit: EmitLine<'a>,
    ) -> Self {
        Self {
            emit,
            options,
            look,
            directory: &transcript.header.project,
            line: StyledLine::default(),
            is_empty: true,
            needs_gap: false,
            is_after_call: false,
            number: None,
            answering: None,
            day: String::new(),
        }
    }

    /// Returns the columns that are left beside `used` ones.
    fn room(&self, used: usize) -> usize {
        self.look.width.unwrap_or(UNLIMITED).saturating_sub(used).max(4)
    }

    /// Writes a line of pieces, which are safe to print.
    fn put(&mut self, pieces: &[(&str, Style)]) -> io::Result<()> {
        self.line.clear();
        for (text, style) in pieces {
            self.line.push(text, style.ansi());
        }
        (self.emit)(&self.line)
    }

    /// Writes the empty line before the next text.
    fn write_gap(&mut self) -> io::Result<()> {
        self.is_after_call = false;
        if std::mem::take(&mut self.needs_gap) { self.put(&[]) } else { Ok(()) }
    }

    /// Begins something that is not an answer.
    fn begin_other(&mut self) -> io::Result<()> {
        self.answering = None;
        self.write_gap()
    }

    /// Separates text of an answer from calls before it.
    fn end_calls(&mut self) -> io::Result<()> {
        if self.is_after_call && self.look.width.is_some() {
            self.needs_gap = true;
            self.write_gap()?;
        }
        Ok(())
    }

    fn write_note(&mut self, gutter: &str, text: &str) -> io::Result<()> {
        self.begin_other()?;
        self.put(&[(gutter, Style::Dim), (text, Style::Dim)])?;
        self.needs_gap = true;
        Ok(())
    }

    /// Begins an answer. On a terminal, an answer that continues with tool calls has no heading of its own.
    fn begin_answer(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        let model = event.message.model.unwrap_or("assistant");
        let is_call = |block: &&BlockView<'_>| block.kind == Some(BlockKind::ToolUse);
        let only_calls = event.message.blocks.iter().all(|block| is_call(&block) || is_thinking(block));
        let continues = self.look.width.is_some() && only_calls && self.answering.as_deref() == Some(model);
        if continues {
            self.needs_gap &= !self.is_after_call;
            self.write_gap()?;
            self.number = Some(format!("#{}", event.message.n));
            return Ok(());
        }
        let name = self.look.sanitize_line(model);
        let mark = if self.look.width.is_some() { "●" } else { "▌" };
        self.write_heading(event, mark, Style::Model, &name)?;
        self.answering = Some(model.to_owned());
        Ok(())
    }

    fn write_heading(
        &mut self,
        event: &MessageEvent<'_>,
        mark: &str,
        style: Style,
        who: &str,
    ) -> io::Result<()> {
        self.begin_other()?;
        let look = self.look;
        let time = look.format_time(event.message.time);
        // The date is repeated only when the day changes.
        let (day, clock) = time.rsplit_once(' ').unwrap_or(("", &time));
        let is_same_day = look.width.is_some() && day == self.day;
        let is_prompt = event.message.kind == MessageKind::Prompt;
        let turn =
            event.turn.filter(|_| is_prompt).map_or_else(String::new, |turn| format!("turn {turn} · "));
        let facts = format!("{turn}#{} · {}", event.message.n, if is_same_day { clock } else { &*time });
        self.day = day.to_owned();
        let separator = if look.width.is_some() { "  " } else { " " };
        let mut heading = StyledLine::default();
        heading.push(&format!("{mark} {who}"), style.ansi());
        heading.push(separator, Ansi::new());
        heading.push(&facts, Style::Dim.ansi());
        match look.width {
            Some(width) => (self.emit)(&shorten(&heading, width)),
            None => (self.emit)(&heading),
        }
    }

    /// Writes a text from the log, cut to the limit.
    fn write_text(&mut self, text: &str, gutter: Gutter, format: TextFormat, style: Style) -> io::Result<()> {
        self.is_empty = false;
        self.is_after_call = false;
        let (text, cut) = self.limited(text.trim_matches('\n'));
        self.write_whole_text(text, gutter, format, style)?;
        self.write_cut(cut, gutter)
    }

    /// Returns the beginning of a text that the limit allows, and the number of characters after it.
    fn limited<'t>(&self, text: &'t str) -> (&'t str, usize) {
        let end = self.options.limit.and_then(|limit| text.char_indices().nth(limit.chars));
        let end = end.map_or(text.len(), |(at, _)| at);
        (&text[..end], text[end..].chars().count())
    }

    /// Writes how much of a text was cut, if anything was.
    fn write_cut(&mut self, cut: usize, gutter: Gutter) -> io::Result<()> {
        if cut == 0 {
            return Ok(());
        }
        self.put(&[
            (gutter.text, gutter.style),
            (&format!("… {} more", plural(cut as u64, "character")), Style::Dim),
        ])
    }

    /// Writes a text from the log, laid out if there is a width.
    fn write_whole_text(
        &mut self,
        text: &str,
        gutter: Gutter,
        format: TextFormat,
        style: Style,
    ) -> io::Result<()> {
        let Some(columns) = self.look.width else { return self.write_source(text, gutter, style) };
        let options = ProseOptions {
            width: columns.saturating_sub(width(gutter.text)).max(8),
            markers: !self.look.color,
            base: style.ansi(),
        };
        let (line, emit) = (&mut self.line, &mut *self.emit);
        let mut emit = |text: &StyledLine| {
            line.clear();
            line.push(gutter.text, gutter.style.ansi());
            line.push_line(text);
            emit(line)
        };
        match format {
            TextFormat::Markdown => markdown_lines(text, options, &mut emit),
            TextFormat::Typed => typed_lines(text, options, &mut emit),
        }
    }

    /// Writes a text unchanged.
    fn write_source(&mut self, text: &str, gutter: Gutter, style: Style) -> io::Result<()> {
        let is_marked = !matches!(gutter.text, "▌ " | "  ");
        let prefix = if is_marked { gutter.text } else { "" };
        for line in self.look.sanitize(text).split('\n') {
            self.put(&[(prefix, gutter.style), (line, style)])?;
        }
        Ok(())
    }
}

fn is_thinking(block: &BlockView<'_>) -> bool {
    matches!(block.kind, Some(BlockKind::Thinking | BlockKind::RedactedThinking))
}
