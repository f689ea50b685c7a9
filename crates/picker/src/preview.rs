//! The preview of a session: what it is, whether it will resume, its branches, and how it begins and ends.

use std::ops::Range;

use ratatui::text::{Line, Span};
use rethread::{CheckReport, MessageNo, PathStatus, PathSummary, SessionSummary, Severity};
use rethread_render::{Style as Role, StyledLine, format_bytes, plural, truncate};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::content::find_ignoring_case;
use crate::look::PickerLook;

/// A session as the preview shows it.
#[derive(Debug)]
pub struct SessionPreview {
    /// Its summary.
    pub summary: SessionSummary,
    /// Its paths.
    pub paths: Vec<PathSummary>,
    /// Findings about resuming it; `None` if they could not be determined.
    pub report: Option<CheckReport>,
    /// The beginning of the conversation; all of it if no turns are omitted.
    pub beginning: Vec<StyledLine>,
    /// The number of turns between the beginning and the end.
    pub omitted_turns: usize,
    /// The end of the conversation.
    pub end: Vec<StyledLine>,
    /// The excerpt that is shown in place of beginning and end if the session was found by its contents.
    pub excerpt: Option<HitExcerpt>,
}

/// A conversation from the message of a hit on.
#[derive(Debug)]
pub struct HitExcerpt {
    /// The message.
    pub message: MessageNo,
    /// Set if it is in the log of a subagent.
    pub is_subagent: bool,
    /// The conversation.
    pub lines: Vec<StyledLine>,
}

impl SessionPreview {
    /// Formats the preview for a width. Returns also the number of the first line with one of the matching texts, which
    /// are highlighted.
    pub(crate) fn lines(
        &self,
        look: &PickerLook,
        width: usize,
        matched: &[&str],
    ) -> (Vec<Line<'static>>, Option<usize>) {
        let mut lines = self.head(look, width);
        lines.push(Line::default());
        lines.extend(self.verdict(look, width));
        if self.paths.len() > 1 {
            lines.push(Line::default());
            lines.push(heading(look, "Branches"));
            lines.extend(self.paths.iter().map(|path| path_line(path, look, width)));
        }
        lines.push(Line::default());
        if let Some(excerpt) = &self.excerpt {
            let of = if excerpt.is_subagent { " of a subagent" } else { "" };
            let text = format!("⋯ from message #{}{of} on", excerpt.message.get());
            lines.extend([Line::styled(text, look.style(Role::Dim)), Line::default()]);
            let start = lines.len();
            let (highlighted, hit) = highlight(&excerpt.lines, matched, look);
            lines.extend(highlighted);
            return (lines, Some(start + hit));
        }
        lines.extend(self.beginning.iter().map(|line| styled(line, look)));
        if self.omitted_turns > 0 {
            let text = format!("⋯ {} not shown", plural(self.omitted_turns as u64, "turn"));
            lines.extend([Line::styled(text, look.style(Role::Dim)), Line::default()]);
        }
        lines.extend(self.end.iter().map(|line| styled(line, look)));
        (lines, None)
    }

    fn head(&self, look: &PickerLook, width: usize) -> Vec<Line<'static>> {
        let summary = &self.summary;
        let display = &look.display;
        let title = if summary.title.text.is_empty() { "(no prompt)" } else { &summary.title.text };
        let mut lines: Vec<Line<'static>> = wrap(&look.line(title), width, 2)
            .into_iter()
            .map(|text| Line::styled(text, look.style(Role::Title)))
            .collect();
        let mut push = |text: String| {
            lines.push(Line::styled(truncate(&look.line(&text), width), look.style(Role::Dim)));
        };
        push(summary.project().into_owned());
        push(match summary.created.filter(|_| summary.created != summary.modified) {
            Some(created) => {
                format!("{} – {}", display.format_time(Some(created)), display.format_time(summary.modified))
            }
            None => display.format_time(summary.modified),
        });
        let mut parts = vec![
            plural(summary.turns, "turn").to_string(),
            format_bytes(summary.bytes),
            summary.models.join(", "),
            summary.git_branch.clone().unwrap_or_default(),
        ];
        parts.retain(|part| !part.is_empty());
        push(parts.join(" · "));
        push(summary.id.to_string());
        lines
    }

    /// Says whether the session will resume.
    fn verdict(&self, look: &PickerLook, width: usize) -> Vec<Line<'static>> {
        let Some(report) = &self.report else { return Vec::new() };
        let worst = report.findings.iter().filter(|finding| finding.is_harmful()).max_by_key(|f| f.severity);
        let (mark, role, text) = match worst {
            _ if self.summary.is_live => ("●", Role::Active, "open in a client".to_owned()),
            None => ("●", Role::Active, "will resume completely".to_owned()),
            Some(finding) => {
                let verb = if finding.severity == Severity::Refusal { "refused" } else { "loses content" };
                ("!", Role::Error, format!("{verb}: {}", look.line(&finding.detail)))
            }
        };
        let texts = wrap(&text, width.saturating_sub(2), 3);
        let marks = std::iter::once(mark).chain(std::iter::repeat(" "));
        marks
            .zip(texts)
            .map(|(mark, text)| {
                Line::from(vec![Span::styled(format!("{mark} "), look.style(role)), Span::raw(text)])
            })
            .collect()
    }
}

fn heading(look: &PickerLook, text: &str) -> Line<'static> {
    Line::styled(text.to_owned(), look.style(Role::Title))
}

/// Formats a path: its mark, number, turns and last prompt.
pub(crate) fn path_line(path: &PathSummary, look: &PickerLook, width: usize) -> Line<'static> {
    let (mark, role) = match path.status {
        PathStatus::Active => ("●", Role::Active),
        PathStatus::Abandoned => ("○", Role::Abandoned),
    };
    let number = format!("{mark} {:<2}", path.n);
    let turns = format!(" {:>9}  ", plural(u64::from(path.turns), "turn").to_string());
    let room = width.saturating_sub(number.width() + turns.width());
    let words = look.line(path.last_prompt.as_deref().unwrap_or_default());
    Line::from(vec![
        Span::styled(number, look.style(role)),
        Span::styled(turns, look.style(Role::Dim)),
        Span::raw(truncate(&words, room)),
    ])
}

/// Converts a line of a conversation.
fn styled(line: &StyledLine, look: &PickerLook) -> Line<'static> {
    line.spans().map(|(text, style)| Span::styled(text.to_owned(), look.converted(style))).collect()
}

/// Converts the lines of a conversation and highlights texts. Returns also the number of the first line with one of
/// them, or 0.
fn highlight(lines: &[StyledLine], texts: &[&str], look: &PickerLook) -> (Vec<Line<'static>>, usize) {
    let is_in = |texts: &[&str]| {
        lines
            .iter()
            .position(|line| texts.iter().any(|text| !find_ignoring_case(&line_text(line), text).is_empty()))
    };
    // The lines are wrapped, so a phrase may be on two of them, and only its words are found.
    let words: Vec<&str>;
    let (texts, first) = match is_in(texts) {
        Some(first) => (texts, Some(first)),
        None => {
            words = texts.iter().flat_map(|text| text.split_whitespace()).collect();
            (&words[..], is_in(&words))
        }
    };
    let highlighted = lines.iter().map(|line| {
        let text = line_text(line);
        let ranges: Vec<_> = texts.iter().flat_map(|word| find_ignoring_case(&text, word)).collect();
        if ranges.is_empty() { styled(line, look) } else { styled_with(line, &ranges, look) }
    });
    (highlighted.collect(), first.unwrap_or(0))
}

fn line_text(line: &StyledLine) -> String {
    line.spans().map(|(text, _)| text).collect()
}

/// Converts a line of a conversation and highlights some bytes of its text.
fn styled_with(line: &StyledLine, ranges: &[Range<usize>], look: &PickerLook) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut at = 0;
    for (text, style) in line.spans() {
        let style = look.converted(style);
        for c in text.chars() {
            let is_match = ranges.iter().any(|range| range.contains(&at));
            let style = if is_match { style.patch(look.matched()) } else { style };
            match spans.last_mut() {
                Some(last) if last.style == style => last.content.to_mut().push(c),
                _ => spans.push(Span::styled(c.to_string(), style)),
            }
            at += c.len_utf8();
        }
    }
    spans.into()
}

/// Wraps a text at spaces to at most `max` lines of a width. A cut is marked with an ellipsis.
pub(crate) fn wrap(text: &str, width: usize, max: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    'paragraphs: for paragraph in text.lines() {
        let paragraph = paragraph.replace('\t', "    ");
        let mut rest = paragraph.trim_end();
        loop {
            if lines.len() == max {
                break 'paragraphs;
            }
            let fits = fitting(rest, width);
            if fits == rest.len() {
                lines.push(rest.to_owned());
                break;
            }
            let at_space = rest[..fits].rfind(' ').filter(|&at| !rest[..at].trim().is_empty());
            let cut = if rest[fits..].starts_with(' ') { fits } else { at_space.unwrap_or(fits) };
            lines.push(rest[..cut].trim_end().to_owned());
            rest = rest[cut..].trim_start();
        }
    }
    let shown: usize = lines.iter().map(String::len).sum();
    if lines.len() == max
        && shown + max < text.trim_end().len()
        && let Some(last) = lines.last_mut()
    {
        *last = truncate(&format!("{last} …"), width);
    }
    lines
}

/// Returns the length of the longest beginning of a text that fits a width; at least one character.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width && at > 0 {
            return at;
        }
    }
    text.len()
}
