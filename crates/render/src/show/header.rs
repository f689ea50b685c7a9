//! The header of a conversation.

use std::io;

use rethread_model::TranscriptHeader;

use super::NextStep;
use crate::prose::{EmitLine, StyledLine, shorten, width};
use crate::text::{DisplayOptions, Style, plural};

/// Columns of the labels.
const LABEL: usize = 9;

/// Writes the title and the facts of a conversation that are known, and an empty line.
pub(super) fn write(
    header: &TranscriptHeader,
    next: Option<&NextStep>,
    look: &DisplayOptions,
    emit: EmitLine<'_>,
) -> io::Result<()> {
    let mut lines = Vec::new();
    let mut add = |label: &str, text: String, style: Style| {
        let mut line = StyledLine::default();
        if !label.is_empty() {
            line.push(&format!("{label:LABEL$}"), Style::Dim.ansi());
        }
        line.push(&look.sanitize_line(&text), style.ansi());
        lines.push(look.width.map_or_else(|| line.clone(), |width| shorten(&line, width)));
    };
    if !header.title.trim().is_empty() {
        add("", header.title.clone(), Style::Title);
    }
    if !header.project.is_empty() {
        let branch = header.git_branch.as_deref().filter(|branch| !branch.is_empty());
        add(
            "project",
            header.project.clone() + &branch.map_or_else(String::new, |b| format!(" ({b})")),
            Style::Plain,
        );
    }
    let facts = facts(header, look);
    if !facts.is_empty() {
        add("when", facts.join(" · "), Style::Plain);
    }
    if !header.models.is_empty() {
        add("model", header.models.join(", "), Style::Plain);
    }
    if header.paths > 1 {
        let (status, style) =
            if header.active { ("active", Style::Active) } else { ("abandoned", Style::Abandoned) };
        add("path", format!("{} of {}, {status}", header.path_n, header.paths), style);
    }
    if let Some(next) = next {
        lines.extend(command_lines(next, look));
    }
    if lines.is_empty() {
        return Ok(());
    }
    lines.iter().try_for_each(&mut *emit)?;
    emit(&StyledLine::default())
}

/// Returns the time span and the counts.
fn facts(header: &TranscriptHeader, look: &DisplayOptions) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some((first, last)) = header.span {
        let (first, last) = (look.format_time(Some(first)), look.format_time(Some(last)));
        facts.push(match (first.rsplit_once(' '), last.rsplit_once(' ')) {
            _ if first == last => first,
            (Some((day, _)), Some((last_day, time))) if day == last_day => format!("{first} – {time}"),
            _ => format!("{first} – {last}"),
        });
    }
    if header.turns > 0 {
        facts.push(plural(header.turns.into(), "turn").to_string());
    }
    if header.compactions > 0 {
        facts.push(plural(header.compactions.into(), "compaction").to_string());
    }
    facts
}

/// Returns a command on one line, or one line for each of its steps if it is too long. It is never cut.
fn command_lines(next: &NextStep, look: &DisplayOptions) -> Vec<StyledLine> {
    let label = format!("{:LABEL$}", next.label);
    let command = |text: &str| look.sanitize_line(text);
    let joined = command(&next.commands.join(" && "));
    let is_short = look.width.is_none_or(|columns| width(&label) + width(&joined) <= columns);
    let commands: Vec<String> = match is_short {
        true => vec![joined],
        false => {
            let last = next.commands.len().saturating_sub(1);
            let line = |(i, text): (usize, &String)| command(text) + if i < last { " &&" } else { "" };
            next.commands.iter().enumerate().map(line).collect()
        }
    };
    let styled = |(i, text): (usize, &String)| {
        let mut line = StyledLine::new(if i == 0 { &label } else { "         " }, Style::Dim.ansi());
        line.push(text, Style::Id.ansi());
        line
    };
    commands.iter().enumerate().map(styled).collect()
}
