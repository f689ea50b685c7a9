//! A conversation as terminal text.

use std::io::{self, Write};

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, CallEvent, MessageEvent, MessageKind, NoteEvent, PartEvent, ResultEvent, SubagentEvent,
    Transcript, TranscriptSubagent, TranscriptWriter, describe_media, main_argument, readable_text,
};

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
}

/// Writes a transcript for a terminal.
pub fn write_conversation(
    out: &mut dyn Write,
    transcript: &Transcript<'_>,
    options: &ShowOptions<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    let header = &transcript.header;
    if header.paths > 1 {
        let status = if header.active { "active" } else { "abandoned" };
        let text = format!("path {} of {}, {status}", header.path_n, header.paths);
        writeln!(out, "{}\n", look.paint(Style::Dim, text))?;
    }
    transcript.walk(&mut ConversationWriter { out, options, look, is_empty: true })
}

struct ConversationWriter<'a> {
    out: &'a mut dyn Write,
    options: &'a ShowOptions<'a>,
    look: &'a DisplayOptions,
    /// Nothing of the current message has been written.
    is_empty: bool,
}

impl TranscriptWriter for ConversationWriter<'_> {
    fn begin_part(&mut self, part: &PartEvent<'_>) -> io::Result<()> {
        if part.count == 1 {
            return Ok(());
        }
        let text = if part.index + 1 < part.count { "from session" } else { "continued in session" };
        let text = self.look.sanitize_line(&format!("{text} {}", part.session));
        writeln!(self.out, "{}\n", self.look.paint(Style::Dim, text))
    }

    fn begin_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.is_empty = true;
        match event.message.kind {
            MessageKind::Prompt => self.write_heading(event, Style::Human, "you"),
            MessageKind::Answer => {
                let model = self.look.sanitize_line(event.message.model.unwrap_or("assistant"));
                self.write_heading(event, Style::Model, &model)
            }
            MessageKind::Summary => {
                let who = "summary of the earlier conversation, written by the client";
                self.write_heading(event, Style::Dim, who)
            }
            _ => Ok(()),
        }
    }

    fn text(&mut self, event: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        match event.message.kind {
            // Without the markup that the client added.
            MessageKind::Prompt => match &*block.readable() {
                "" => Ok(()),
                text => self.write_text(text, "", Style::Plain),
            },
            MessageKind::Result if block.text().trim().is_empty() => Ok(()),
            MessageKind::Result => self.write_text(&block.readable(), "  · ", Style::Dim),
            _ => self.write_text(&block.text(), "", Style::Plain),
        }
    }

    fn thinking(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        let text = block.text();
        let text = match block.kind {
            Some(BlockKind::RedactedThinking) => "(redacted thinking)",
            _ if text.is_empty() => "(encrypted thinking)",
            _ => &text,
        };
        self.write_text(text, "  ~ ", Style::Dim)
    }

    fn media(&mut self, event: &MessageEvent<'_>, block: Json<'_>) -> io::Result<()> {
        let indent = match event.message.kind {
            MessageKind::Result => return Ok(()),
            MessageKind::Answer => "  ",
            _ => "",
        };
        let text = self.look.sanitize_line(&describe_media(block));
        writeln!(self.out, "{indent}{}", self.look.paint(Style::Dim, text))
    }

    fn begin_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let look = self.look;
        let tool = look.sanitize_line(&call.block.tool());
        let room = look.width.unwrap_or(160).saturating_sub(6 + tool.chars().count());
        let summary = look.sanitize_prefix(&input_summary(call.block.input()), room);
        writeln!(self.out, "  {} {summary}", look.paint(Style::Tool, format!("⏺ {tool}")))?;
        if self.options.tools == ToolDetail::Full {
            self.write_text(&pretty(call.block.input()), "      ", Style::Dim)?;
        }
        if call.results.is_empty() {
            writeln!(self.out, "    {}", look.paint(Style::Error, "↳ no result"))?;
        }
        call.results.iter().try_for_each(|result| self.write_result(result))
    }

    fn orphan_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        let id = self.look.sanitize_line(&result.block.id());
        let text = self.look.paint(Style::Error, format!("⏺ result without a call ({id})"));
        writeln!(self.out, "  {text}")?;
        self.is_empty = false;
        self.write_result(result)
    }

    fn end_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        if self.is_empty && event.message.kind == MessageKind::Result { Ok(()) } else { writeln!(self.out) }
    }

    fn remark(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        let words: Vec<_> = event.message.blocks.iter().map(BlockView::readable).collect();
        let words = words.join(" ");
        if words.trim().is_empty() {
            return Ok(());
        }
        let words = self.look.sanitize_prefix(&words, self.look.width.unwrap_or(160).saturating_sub(4));
        writeln!(self.out, "{}\n", self.look.paint(Style::Dim, format!("  · {words}")))
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let (look, note) = (self.look, event.note);
        let text = readable_text(&note.text);
        let is_noise = matches!(&*note.kind, "turn_duration" | "stop_hook_summary" | "file_snapshot");
        if is_noise || text.trim().is_empty() {
            return Ok(());
        }
        let text = look.sanitize_line(&format!("{}: {text}", note.kind));
        writeln!(self.out, "{}\n", look.paint(Style::Dim, format!("  · {}", look.truncate(&text, 4))))
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let look = self.look;
        let text = format!("── compacted here · {} ", look.format_time(event.note.time));
        let fill = look.width.unwrap_or(72).saturating_sub(text.chars().count());
        writeln!(self.out, "{}\n", look.paint(Style::Active, text + &"─".repeat(fill)))
    }

    fn linked_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        let text = self.look.sanitize_line(&(self.options.subagent)(event.subagent));
        writeln!(self.out, "    {}", self.look.paint(Style::Tool, format!("↳ {text}")))
    }
}

impl ConversationWriter<'_> {
    fn write_heading(&mut self, event: &MessageEvent<'_>, style: Style, who: &str) -> io::Result<()> {
        let look = self.look;
        let facts = format!("#{} · {}", event.message.n, look.format_time(event.message.time));
        writeln!(self.out, "{} {}", look.paint(style, format!("▌ {who}")), look.paint(Style::Dim, facts))
    }

    fn write_text(&mut self, text: &str, indent: &str, style: Style) -> io::Result<()> {
        for line in self.look.sanitize(text.trim_matches('\n')).split('\n') {
            writeln!(self.out, "{indent}{}", self.look.paint(style, line))?;
        }
        self.is_empty = false;
        Ok(())
    }

    fn write_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        let look = self.look;
        let style = if result.block.is_error() { Style::Error } else { Style::Dim };
        let text = result.text();
        if self.options.tools == ToolDetail::Full {
            return self.write_text(&text, "    │ ", style);
        }
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("(empty)");
        let more = lines.count() as u64;
        let more = if more > 0 { format!("  (+{})", plural(more, "line")) } else { String::new() };
        let room = look.width.unwrap_or(160).saturating_sub(8 + more.chars().count());
        let first = look.sanitize_prefix(first, room);
        writeln!(self.out, "    {}", look.paint(style, format!("↳ {first}{more}")))
    }
}

/// Returns the part of a call's input that summarises it.
pub(crate) fn input_summary(input: Json<'_>) -> String {
    if let Some(text) = main_argument(input) {
        return text.into_owned();
    }
    let mut members = 0;
    input.for_each_member(|_, _| members += 1);
    match String::from_utf8_lossy(input.raw()) {
        raw if raw.len() <= 200 => raw.into_owned(),
        _ => format!("({})", plural(members, "field")),
    }
}

fn pretty(input: Json<'_>) -> String {
    let text = String::from_utf8_lossy(input.raw());
    let value = serde_json::from_str::<serde_json::Value>(&text);
    value.and_then(|value| serde_json::to_string_pretty(&value)).unwrap_or_else(|_| text.into_owned())
}
