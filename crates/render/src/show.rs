//! A conversation as terminal text.

use std::io::{self, Write};

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, CallId, MessageKind, MessageView, NoteView, TranscriptItem, main_argument, readable_text,
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
    /// Show thinking.
    pub thinking: bool,
    /// Returns the full text of a result that was shortened.
    pub whole_result: &'a dyn Fn(&str) -> Option<String>,
    /// Describes the subagent that a call started.
    pub subagent: &'a dyn Fn(CallId) -> Option<String>,
}

/// Writes the conversation on a path.
pub fn write_conversation(
    out: &mut dyn Write,
    items: &[TranscriptItem<'_>],
    options: &ShowOptions<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    // Results are shown under their calls, so they are indexed by call.
    let mut results: rustc_hash::FxHashMap<usize, Vec<&BlockView<'_>>> = rustc_hash::FxHashMap::default();
    for item in items {
        let TranscriptItem::Message(message) = item else { continue };
        for block in message.blocks.iter().filter(|b| b.kind == Some(BlockKind::ToolResult)) {
            if let Some(pair) = block.pair {
                results.entry(pair).or_default().push(block);
            }
        }
    }
    let page = ConversationWriter { options, look, results };
    for item in items {
        match item {
            TranscriptItem::Message(message) => page.write_message(out, message)?,
            TranscriptItem::Note(note) => page.write_note(out, note)?,
        }
    }
    Ok(())
}

struct ConversationWriter<'a, 'b> {
    options: &'a ShowOptions<'a>,
    look: &'a DisplayOptions,
    results: rustc_hash::FxHashMap<usize, Vec<&'b BlockView<'b>>>,
}

impl ConversationWriter<'_, '_> {
    fn write_message(&self, out: &mut dyn Write, message: &MessageView<'_>) -> io::Result<()> {
        match message.kind {
            MessageKind::Prompt => {
                self.write_heading(out, message, Style::Human, "you")?;
                self.write_prompt(out, message)
            }
            MessageKind::Answer => self.write_answer(out, message),
            MessageKind::Result => self.write_orphan_results(out, message),
            MessageKind::Summary => {
                self.write_heading(
                    out,
                    message,
                    Style::Dim,
                    "summary of the earlier conversation, written by the client",
                )?;
                self.write_message_text(out, message, "")
            }
            MessageKind::Command | MessageKind::Note => {
                if message.meta {
                    return Ok(());
                }
                let words: Vec<_> = message.blocks.iter().map(BlockView::readable).collect();
                let words = words.join(" ");
                if words.trim().is_empty() {
                    return Ok(());
                }
                let words =
                    self.look.sanitize_prefix(&words, self.look.width.unwrap_or(160).saturating_sub(4));
                writeln!(out, "{}\n", self.look.paint(Style::Dim, format!("  · {words}")))
            }
        }
    }

    fn write_heading(
        &self,
        out: &mut dyn Write,
        message: &MessageView<'_>,
        style: Style,
        who: &str,
    ) -> io::Result<()> {
        let facts = format!("#{} · {}", message.n, self.look.format_time(message.time));
        writeln!(out, "{} {}", self.look.paint(style, format!("▌ {who}")), self.look.paint(Style::Dim, facts))
    }

    /// Writes the text a person typed, without the markup that the client added.
    fn write_prompt(&self, out: &mut dyn Write, message: &MessageView<'_>) -> io::Result<()> {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => match &*block.readable() {
                    "" => {}
                    text => self.write_text(out, text, "", Style::Plain)?,
                },
                _ => writeln!(
                    out,
                    "{}",
                    self.look.paint(Style::Dim, self.look.sanitize_line(&block.describe()))
                )?,
            }
        }
        writeln!(out)
    }

    fn write_message_text(
        &self,
        out: &mut dyn Write,
        message: &MessageView<'_>,
        indent: &str,
    ) -> io::Result<()> {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => self.write_text(out, &block.text(), indent, Style::Plain)?,
                _ => writeln!(
                    out,
                    "{indent}{}",
                    self.look.paint(Style::Dim, self.look.sanitize_line(&block.describe()))
                )?,
            }
        }
        writeln!(out)
    }

    fn write_text(&self, out: &mut dyn Write, text: &str, indent: &str, style: Style) -> io::Result<()> {
        for line in self.look.sanitize(text.trim_matches('\n')).split('\n') {
            writeln!(out, "{indent}{}", self.look.paint(style, line))?;
        }
        Ok(())
    }

    fn write_answer(&self, out: &mut dyn Write, message: &MessageView<'_>) -> io::Result<()> {
        let shown = |block: &&BlockView<'_>| match block.kind {
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => self.options.thinking,
            Some(BlockKind::ToolUse) => self.options.tools != ToolDetail::None,
            Some(BlockKind::Text) => !block.text().trim().is_empty(),
            _ => true,
        };
        let blocks: Vec<_> = message.blocks.iter().filter(shown).collect();
        if blocks.is_empty() {
            return Ok(());
        }
        self.write_heading(
            out,
            message,
            Style::Model,
            &self.look.sanitize_line(message.model.unwrap_or("assistant")),
        )?;
        for block in blocks {
            match block.kind {
                Some(BlockKind::Text) => self.write_text(out, &block.text(), "", Style::Plain)?,
                Some(BlockKind::Thinking) => {
                    let text = block.text();
                    let text = if text.is_empty() { "(encrypted thinking)" } else { &text };
                    self.write_text(out, text, "  ~ ", Style::Dim)?;
                }
                Some(BlockKind::RedactedThinking) => {
                    self.write_text(out, "(redacted thinking)", "  ~ ", Style::Dim)?
                }
                Some(BlockKind::ToolUse) => self.write_call(out, block)?,
                _ => writeln!(
                    out,
                    "  {}",
                    self.look.paint(Style::Dim, self.look.sanitize_line(&block.describe()))
                )?,
            }
        }
        writeln!(out)
    }

    fn write_call(&self, out: &mut dyn Write, block: &BlockView<'_>) -> io::Result<()> {
        let look = self.look;
        let tool = look.sanitize_line(&block.tool());
        let room = look.width.unwrap_or(160).saturating_sub(6 + tool.chars().count());
        let summary = look.sanitize_prefix(&input_summary(block.input()), room);
        writeln!(out, "  {} {summary}", look.paint(Style::Tool, format!("⏺ {tool}")))?;
        let result = block.pair.and_then(|pair| self.results.get(&pair));
        if self.options.tools == ToolDetail::Full {
            self.write_text(out, &pretty(block.input()), "      ", Style::Dim)?;
        }
        match result {
            None => writeln!(out, "    {}", look.paint(Style::Error, "↳ no result"))?,
            Some(results) => results.iter().try_for_each(|result| self.write_result(out, result))?,
        }
        if let Some(description) = block.call.and_then(|call| (self.options.subagent)(call)) {
            writeln!(
                out,
                "    {}",
                look.paint(Style::Tool, format!("↳ {}", look.sanitize_line(&description)))
            )?;
        }
        Ok(())
    }

    fn write_result(&self, out: &mut dyn Write, result: &BlockView<'_>) -> io::Result<()> {
        let look = self.look;
        let style = if result.is_error() { Style::Error } else { Style::Dim };
        let text = result.result_text();
        let whole = (self.options.whole_result)(&text);
        let text = whole.as_deref().unwrap_or(&text);
        if self.options.tools == ToolDetail::Full {
            return self.write_text(out, text, "    │ ", style);
        }
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let first = lines.next().unwrap_or("(empty)");
        let more = lines.count() as u64;
        let more = if more > 0 { format!("  (+{})", plural(more, "line")) } else { String::new() };
        let room = look.width.unwrap_or(160).saturating_sub(8 + more.chars().count());
        writeln!(out, "    {}", look.paint(style, format!("↳ {}{more}", look.sanitize_prefix(first, room))))
    }

    /// Writes results whose call is not on this path; all others are shown under their call.
    fn write_orphan_results(&self, out: &mut dyn Write, message: &MessageView<'_>) -> io::Result<()> {
        let mut any = false;
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::ToolResult)
                    if block.pair.is_none() && self.options.tools != ToolDetail::None =>
                {
                    let id = self.look.sanitize_line(&block.id());
                    writeln!(
                        out,
                        "  {}",
                        self.look.paint(Style::Error, format!("⏺ result without a call ({id})"))
                    )?;
                    self.write_result(out, block)?;
                    any = true;
                }
                Some(BlockKind::Text) if !block.text().trim().is_empty() => {
                    self.write_text(out, &block.readable(), "  · ", Style::Dim)?;
                    any = true;
                }
                _ => {}
            }
        }
        if any { writeln!(out) } else { Ok(()) }
    }

    fn write_note(&self, out: &mut dyn Write, note: &NoteView<'_>) -> io::Result<()> {
        let look = self.look;
        match &*note.kind {
            "compaction" => {
                let text = format!("── compacted here · {} ", look.format_time(note.time));
                let fill = look.width.unwrap_or(72).saturating_sub(text.chars().count());
                writeln!(out, "{}\n", look.paint(Style::Active, text + &"─".repeat(fill)))
            }
            "turn_duration" | "stop_hook_summary" | "file_snapshot" => Ok(()),
            kind => {
                let text = readable_text(&note.text);
                if text.trim().is_empty() {
                    return Ok(());
                }
                let text = look.sanitize_line(&format!("{kind}: {text}"));
                writeln!(out, "{}\n", look.paint(Style::Dim, format!("  · {}", look.truncate(&text, 4))))
            }
        }
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
