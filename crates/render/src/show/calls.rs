//! Tool calls and their results.

use std::io;

use rethread_log::Json;
use rethread_model::{CallEvent, ResultEvent, main_argument};

use super::{ConversationWriter, Gutter, TextFormat, ToolDetail, UNLIMITED};
use crate::call_summary::{CallOutcome, CallSummary};
use crate::export::{CallSection, TodoState, describe_call, strip_control_codes};
use crate::prose::{StyledLine, code_lines, cut, expand_tabs, shorten, width};
use crate::text::{Style, plural, truncate};

/// Maximum number of lines of a result or an input on a terminal.
const MAX_LINES: usize = 400;
/// Maximum number of columns of the line of a call, so that its number is not far away on a wide terminal.
const MAX_CALL: usize = 120;
/// The smallest number of columns in which a detail is worth showing.
const MIN_DETAIL: usize = 16;
const INPUT: Gutter = Gutter { text: "      ", style: Style::Plain };
const RESULT: Gutter = Gutter { text: "    │ ", style: Style::Dim };
const QUESTION: Gutter = Gutter { text: "    ", style: Style::Plain };
const PLAN: Gutter = Gutter { text: "    │ ", style: Style::Tool };

impl ConversationWriter<'_> {
    pub(super) fn write_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let mut summary = CallSummary::new(call, self.directory);
        if self.look.width.is_some() && !self.is_after_call && !self.is_empty {
            self.needs_gap = true;
            self.write_gap()?;
        }
        let tool = call.block.tool();
        if self.options.tools == ToolDetail::Brief && matches!(&*tool, "ExitPlanMode" | "AskUserQuestion") {
            // The text follows in full.
            (summary.subject, summary.figures) = (String::new(), String::new());
        }
        if self.options.tools == ToolDetail::Full && is_shell(&tool) && summary.detail.is_empty() {
            // The command follows in full.
            summary.subject.clear();
        }
        self.write_summary(&summary)?;
        self.is_empty = false;
        if self.options.tools == ToolDetail::Full {
            self.write_details(call)?;
        } else {
            match &*tool {
                "ExitPlanMode" => self.write_plan(call)?,
                "AskUserQuestion" => self.write_questions(call)?,
                _ => {}
            }
            if let Some(outcome) = &summary.outcome {
                self.write_outcome(outcome)?;
            }
            // A call has one result; further ones are shown as they are.
            call.results.iter().skip(1).try_for_each(|result| self.write_result(result))?;
        }
        self.is_after_call = true;
        Ok(())
    }

    /// Writes the input and the results of a call.
    fn write_details(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let (tool, input) = (call.block.tool(), call.block.input());
        if !is_in_summary(&tool, input) {
            let view = describe_call(&tool, input, call.result_copy());
            view.sections.iter().try_for_each(|section| self.write_section(section))?;
        }
        if call.results.is_empty() {
            self.put(&[("    ", Style::Plain), ("✗ no result", Style::Error)])?;
        }
        call.results.iter().try_for_each(|result| self.write_result(result))
    }

    fn write_plan(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let plan = call.block.input().get("plan").and_then(Json::as_str);
        plan.map_or(Ok(()), |plan| self.write_text(&plan, PLAN, TextFormat::Markdown, Style::Plain))
    }

    fn write_questions(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        for question in call.block.input().get("questions").into_iter().flat_map(Json::items) {
            let text = question.get("question").and_then(Json::as_str).unwrap_or_default();
            self.write_text(&text, QUESTION, TextFormat::Typed, Style::Plain)?;
        }
        Ok(())
    }

    /// Writes the line of a call: its tool, its subject, and what else there is room for.
    fn write_summary(&mut self, summary: &CallSummary) -> io::Result<()> {
        let look = self.look;
        let number = self.number.take().unwrap_or_default();
        let tool = look.sanitize_prefix(&summary.tool, self.room(0) / 2);
        let used = 6 + width(&tool) + if number.is_empty() { 0 } else { 2 + number.len() };
        let limit = look.width.map_or(UNLIMITED, |columns| columns.min(MAX_CALL));
        let room = limit.saturating_sub(used).max(4);
        let subject_width = width(&look.sanitize_prefix(&summary.subject, room / 2));
        let mut figures =
            look.sanitize_prefix(&summary.figures, room.saturating_sub(subject_width + 3).max(1));
        if !figures.is_empty() && !summary.subject.is_empty() {
            figures.insert_str(0, " · ");
        }
        let subject = look.sanitize_prefix(&summary.subject, room.saturating_sub(width(&figures)).max(1));
        let mut line = StyledLine::default();
        line.push("  ", Style::Plain.ansi());
        line.push(&format!("▸ {tool}"), Style::Tool.ansi());
        line.push(if subject.is_empty() && figures.is_empty() { "" } else { "  " }, Style::Plain.ansi());
        line.push(&subject, Style::Plain.ansi());
        line.push(&figures, Style::Dim.ansi());
        let left = room.saturating_sub(width(&subject) + width(&figures) + 2);
        if !summary.detail.is_empty() && left >= MIN_DETAIL && self.options.tools != ToolDetail::Full {
            line.push("  ", Style::Plain.ansi());
            line.push(&look.sanitize_prefix(&summary.detail, left), Style::Dim.ansi());
        }
        if let Some(columns) = look.width {
            line = shorten(&line, columns);
            let gap = limit.saturating_sub(line.width() + number.len());
            if gap > 0 && !number.is_empty() {
                line.push_spaces(gap);
                line.push(&number, Style::Dim.ansi());
            }
        }
        (self.emit)(&line)
    }

    fn write_outcome(&mut self, outcome: &CallOutcome) -> io::Result<()> {
        let (mark, style) = if outcome.is_error { ("✗", Style::Error) } else { ("↳", Style::Dim) };
        let more = match outcome.more_lines {
            0 => String::new(),
            more => format!("  (+{})", plural(more, "line")),
        };
        let text = self.look.sanitize_prefix(&outcome.text, self.room(6 + width(&more)));
        self.put(&[("    ", Style::Plain), (&format!("{mark} {text}"), style), (&more, Style::Dim)])
    }

    pub(super) fn write_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        if self.options.tools != ToolDetail::Full {
            return self.write_outcome(&CallOutcome::of_result(result));
        }
        let style = if result.block.is_error() { Style::Error } else { Style::Plain };
        let text = result.text();
        let (text, cut) = self.limited(text.trim_matches('\n'));
        if self.look.width.is_none() {
            self.write_source(text, RESULT, style)?;
        } else {
            let text = strip_control_codes(text);
            let styled = |line: &str| StyledLine::new(&expand_tabs(line), style.ansi());
            self.write_block(RESULT, text.split('\n').map(styled))?;
        }
        self.write_cut(cut, RESULT)
    }

    /// Writes lines that are safe to print; long lines are cut and the number of lines is limited.
    fn write_block(&mut self, gutter: Gutter, lines: impl Iterator<Item = StyledLine>) -> io::Result<()> {
        let mut lines = lines.fuse();
        let room = self.room(width(gutter.text));
        for (written, line) in (&mut lines).enumerate() {
            if written == MAX_LINES {
                let more = format!("… {} more", plural(1 + lines.count() as u64, "line"));
                return self.put(&[(gutter.text, gutter.style), (&more, Style::Dim)]);
            }
            for part in cut(line.text(), room) {
                self.line.clear();
                self.line.push(gutter.text, gutter.style.ansi());
                self.line.push_part(&line, part);
                (self.emit)(&self.line)?;
            }
        }
        Ok(())
    }

    fn write_section(&mut self, section: &CallSection) -> io::Result<()> {
        match section {
            CallSection::Code(_, language, text) => self.write_code(language, text),
            CallSection::Diff(text) => self.write_code("diff", text.trim_end()),
            CallSection::Prose(_, text) => self.write_text(text, INPUT, TextFormat::Markdown, Style::Plain),
            CallSection::Todos(items) => items.iter().try_for_each(|(state, text)| {
                let (mark, style) = match state {
                    TodoState::Done => ("[x] ", Style::Active),
                    TodoState::InProgress => ("[~] ", Style::Strong),
                    TodoState::Open => ("[ ] ", Style::Dim),
                };
                let text = truncate(&self.look.sanitize_line(text), self.room(10));
                self.put(&[(INPUT.text, INPUT.style), (mark, style), (&text, Style::Plain)])
            }),
        }
    }

    fn write_code(&mut self, language: &str, text: &str) -> io::Result<()> {
        let (text, cut) = self.limited(text);
        if self.look.width.is_none() {
            self.write_source(text, INPUT, Style::Plain)?;
        } else {
            self.write_block(INPUT, code_lines(language, text, Style::Plain.ansi()).into_iter())?;
        }
        self.write_cut(cut, INPUT)
    }
}

fn is_shell(tool: &str) -> bool {
    matches!(tool, "Bash" | "PowerShell")
}

/// Returns whether the line of a call shows its whole input: a single short text.
fn is_in_summary(tool: &str, input: Json<'_>) -> bool {
    const SHORT: usize = 60;
    let mut members = 0;
    input.for_each_member(|_, _| members += 1);
    members == 1 && input.raw().len() <= SHORT && main_argument(input).is_some() && !is_shell(tool)
}
