//! The skeleton of a session, one line per item.

use std::io::{self, Write};

use rethread_model::{OutlineItem, OutlineItemKind, OutlinedPath, SessionOutline, Time};

use crate::text::{DisplayOptions, Style, pad_left, plural, truncate};

/// The columns of a prompt in a pipe.
const PIPE_WIDTH: usize = 120;

/// The columns of `12:34`.
const CLOCK: usize = 5;

/// Writes an outline. Prompts are cut to `limit` characters, or else to the width.
pub fn write_outline(
    out: &mut dyn Write,
    outline: &SessionOutline,
    limit: Option<usize>,
    has_anchors: bool,
    look: &DisplayOptions,
) -> io::Result<()> {
    let numbers = outline.paths.iter().flat_map(|path| &path.items).filter_map(|item| item.message);
    let number = numbers.max().map_or(1, |n| n.to_string().len()) + 1;
    let mut writer = OutlineWriter { out, look, limit, has_anchors, number, day: String::new() };
    if !outline.title.is_empty() {
        let title = look.truncate(&look.sanitize_line(&outline.title), 0);
        writeln!(writer.out, "{}", look.paint(Style::Title, title))?;
    }
    for path in &outline.paths {
        if outline.paths.len() > 1 {
            writer.write_path(path)?;
        }
        path.items.iter().try_for_each(|item| writer.write_item(item))?;
    }
    Ok(())
}

struct OutlineWriter<'a> {
    out: &'a mut dyn Write,
    look: &'a DisplayOptions,
    limit: Option<usize>,
    has_anchors: bool,
    /// The columns of the numbers of messages.
    number: usize,
    /// The day that was written last.
    day: String,
}

impl OutlineWriter<'_> {
    /// Writes the heading of a path.
    fn write_path(&mut self, path: &OutlinedPath) -> io::Result<()> {
        let (look, summary) = (self.look, &path.summary);
        let from = match path.fork {
            Some((n, Some(message))) => format!(", from path {n} after #{message}"),
            Some((n, None)) => format!(", from path {n}"),
            None => String::new(),
        };
        let turns = plural(summary.turns.into(), "turn");
        let text = format!("path {}, {}{from} ({turns})", summary.n, summary.status);
        let style = if summary.path.active { Style::Active } else { Style::Abandoned };
        self.day.clear();
        writeln!(self.out, "\n{}", look.paint(style, look.truncate(&text, 0)))
    }

    fn write_item(&mut self, item: &OutlineItem) -> io::Result<()> {
        let time = self.write_day(item.time)?;
        let number = item.message.map_or_else(String::new, |n| format!("#{n}"));
        let number = self.look.paint(Style::Id, pad_left(&number, self.number));
        let mut used = self.number + 1 + CLOCK + 1;
        let mut anchor = String::new();
        if let (true, OutlineItemKind::Prompt { key, .. }) = (self.has_anchors, &item.kind) {
            anchor = format!("{} ", self.look.paint(Style::Dim, key));
            used += 17;
        }
        let (text, style) = self.describe(&item.kind);
        let room = self.look.width.unwrap_or(PIPE_WIDTH).saturating_sub(used).max(10);
        let text = self.look.paint(style, truncate(&text, room));
        writeln!(self.out, "{number} {} {anchor}{text}", self.look.paint(Style::Dim, pad_left(&time, CLOCK)))
    }

    /// Writes the day of an item if it is another than before, and returns the time of day.
    fn write_day(&mut self, time: Option<Time>) -> io::Result<String> {
        let text = self.look.format_time(time);
        let Some((day, clock)) = text.rsplit_once(' ') else { return Ok(String::new()) };
        if day != self.day {
            let indent = " ".repeat(self.number + 1);
            writeln!(self.out, "{indent}{}", self.look.paint(Style::Dim, day))?;
            day.clone_into(&mut self.day);
        }
        Ok(clock.to_owned())
    }

    fn describe(&self, kind: &OutlineItemKind) -> (String, Style) {
        match kind {
            OutlineItemKind::Prompt { text, .. } if text.is_empty() => ("(no text)".to_owned(), Style::Dim),
            OutlineItemKind::Prompt { text, .. } => {
                let limit = self.limit.unwrap_or(OutlineItemKind::MAX_TEXT);
                (truncate(&self.look.sanitize_line(text), limit), Style::Plain)
            }
            OutlineItemKind::Compaction => ("── compacted here".to_owned(), Style::Active),
            OutlineItemKind::Fork { path } => (format!("├ path {path} begins here"), Style::Abandoned),
            OutlineItemKind::Subagent { log } => {
                let name = log.as_deref().and_then(std::path::Path::file_stem);
                let name = name
                    .map_or_else(|| "in this file".to_owned(), |name| name.to_string_lossy().into_owned());
                (self.look.sanitize_line(&format!("↳ subagent {name}")), Style::Tool)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rethread_model::{MessageKey, MessageNo};
    use unicode_width::UnicodeWidthStr;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_line_of_an_item_is_wider_than_the_terminal(
            text in "[a-z 漢字🦀\u{202e}\u{1b}]{0,300}",
            n in 1u32..100_000,
            has_anchors in any::<bool>(),
            width in 40usize..200,
        ) {
            let look = DisplayOptions { width: Some(width), escape: true, ..DisplayOptions::plain("2026-03-10T12:00:00Z".parse().expect("a time")) };
            let kinds = [
                OutlineItemKind::Prompt { key: MessageKey::from_u64(u64::MAX), chars: text.chars().count(), text: text.clone() },
                OutlineItemKind::Compaction,
                OutlineItemKind::Fork { path: 123_456 },
                OutlineItemKind::Subagent { log: Some(format!("/x/agent-{text}.jsonl").into()) },
            ];
            let mut out = Vec::new();
            let mut writer = OutlineWriter { out: &mut out, look: &look, limit: None, has_anchors, number: 7, day: String::new() };
            for kind in kinds {
                let item = OutlineItem { message: MessageNo::new(n), line: 1, time: Some(Time::from_millis(0)), kind };
                writer.write_item(&item).expect("written");
            }
            let written = String::from_utf8(out).expect("text");
            for line in written.lines() {
                prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
            }
            let is_safe = !written.contains(['\u{1b}', '\u{202e}']);
            prop_assert!(is_safe, "{written:?}");
        }
    }
}
