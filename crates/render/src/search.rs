//! Hits of a search, grouped by session, one line each.
//!
//! Hits are numbered as they are printed. A line has the number of the message, who wrote the text, the part of it that
//! matches, and at its end what a reader must know before opening it: the tool, or that the message is not on the active
//! path. Titles of sessions get the room that is left.

use std::io::{self, Write};

use rethread_model::{
    Hit, MessagePlace, SearchResults, SessionHits, SessionSummary, ShortIds, Snippet, TextSource,
};
use unicode_width::UnicodeWidthStr;

use crate::ls::shown_id;
use crate::project_names::project_names;
use crate::text::{DisplayOptions, Style, pad, pad_left, plural, truncate};

/// The width of the names of [`TextSource`]s.
const SOURCE_WIDTH: usize = 8;

/// The width of a list for a pipe, where lines may have any length.
const PIPE_WIDTH: usize = 200;

/// The smallest number of columns for a snippet; what is at the end of the line is left out before.
const MIN_SNIPPET: usize = 20;

/// Returns the number of characters of a snippet that a line has room for.
pub fn snippet_chars(look: &DisplayOptions) -> usize {
    look.width.unwrap_or(PIPE_WIDTH).saturating_sub(SOURCE_WIDTH + 14).max(MIN_SNIPPET)
}

/// Writes the hits of a search. `ids` are those of all sessions. `home` is the reader's home directory, if it is known.
pub fn write_search(
    out: &mut dyn Write,
    results: &SearchResults,
    ids: &ShortIds,
    home: Option<&str>,
    look: &DisplayOptions,
) -> io::Result<()> {
    // Also in a pipe: nobody needs the control characters of a title, and `| head` prints them on a terminal.
    let look = &DisplayOptions { escape: true, ..look.clone() };
    let width = look.width.unwrap_or(PIPE_WIDTH);
    let summaries: Vec<SessionSummary> =
        results.sessions.iter().filter_map(|hits| Some(hits.summary.as_ref()?.summary.clone())).collect();
    let mut names = project_names(&summaries, home, Some(width / 4)).into_iter();
    let shown: usize = results.sessions.iter().map(|session| session.hits.len()).sum();
    let messages = results.hits().filter_map(|(_, hit)| hit.message).map(|n| n.get().to_string().len() + 1);
    let layout = Layout {
        look,
        ids,
        width,
        number: shown.to_string().len(),
        message_width: messages.max().unwrap_or(2),
    };
    let mut n = 0;
    for (at, session) in results.sessions.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        let project = session.summary.as_ref().and_then(|_| names.next()).unwrap_or_default();
        writeln!(out, "{}", layout.heading(session, &project))?;
        for hit in &session.hits {
            n += 1;
            writeln!(out, "{}", layout.hit(n, hit, session))?;
        }
        layout.write_rest(out, session)?;
    }
    Ok(())
}

/// The widths of the columns.
struct Layout<'l> {
    look: &'l DisplayOptions,
    ids: &'l ShortIds,
    width: usize,
    /// The width of the numbers of hits.
    number: usize,
    /// The width of the numbers of messages, with their `#`.
    message_width: usize,
}

impl Layout<'_> {
    /// Returns the line above the hits of a session: project and title, and at the right its id, age and turns.
    fn heading(&self, session: &SessionHits, project: &str) -> String {
        let look = self.look;
        let summary = session.summary.as_ref().map(|known| &known.summary);
        let title = summary.map_or("", |summary| summary.title.text.as_str());
        let mut left = look.sanitize_line(project);
        if !title.is_empty() {
            left += if left.is_empty() { "" } else { " · " };
            left += &look.sanitize_line(title);
        }
        let kind = match (session.is_deleted, session.is_subagent) {
            (true, _) => Some("deleted"),
            (false, true) => Some("subagent"),
            (false, false) => None,
        };
        let age = summary.map_or_else(String::new, |summary| look.format_ago(summary.recency()));
        let turns = summary.map_or_else(String::new, |summary| plural(summary.turns, "turn").to_string());
        let id = look.sanitize_line(shown_id(session.session.as_str(), self.ids, look));
        let mut facts: Vec<&str> = kind.into_iter().chain([age.as_str(), turns.as_str()]).collect();
        facts.retain(|fact| !fact.is_empty());
        // On a narrow terminal the number of turns and then the age are left out.
        while facts.len() > 1 && id.width() + 2 + joined_width(&facts) + MIN_SNIPPET > self.width {
            facts.pop();
        }
        let right = facts.join("  ");
        let used = id.width() + 2 + right.width() + 2;
        let left = truncate(&left, self.width.saturating_sub(used).max(10));
        let gap = match look.width {
            Some(_) => " ".repeat(self.width.saturating_sub(left.width() + used)),
            None => String::new(),
        };
        format!(
            "{}  {gap}{}  {}",
            look.paint(Style::Title, left),
            look.paint(Style::Id, id),
            look.paint(Style::Dim, right)
        )
    }

    /// Returns the line of a hit.
    fn hit(&self, n: usize, hit: &Hit, session: &SessionHits) -> String {
        let look = self.look;
        let message = hit.message.map_or_else(String::new, |n| format!("#{}", n.get()));
        let (label, style) = source_label(hit.source);
        let end = self.end_of_line(hit, session);
        let used = self.number + 1 + self.message_width + 1 + SOURCE_WIDTH + 1;
        let room = self.width.saturating_sub(used);
        let fits = room >= MIN_SNIPPET + 2 + end.width();
        let room = if fits && !end.is_empty() { room - 2 - end.width() } else { room };
        let (text, len) = match &hit.snippet {
            Some(snippet) => self.snippet(snippet, room),
            None => ("(the log no longer exists)".to_owned(), 26),
        };
        let gap = if look.width.is_some() { room.saturating_sub(len) } else { 0 };
        let end = match fits && !end.is_empty() {
            true => format!("{}  {}", " ".repeat(gap), look.paint(end_style(hit), end)),
            false => String::new(),
        };
        format!(
            "{} {} {} {text}{end}",
            look.paint(Style::Dim, pad_left(&n.to_string(), self.number)),
            look.paint(Style::Id, pad(&message, self.message_width)),
            look.paint(style, pad(label, SOURCE_WIDTH)),
        )
    }

    /// Returns what is at the end of the line of a hit: the tool, or the place of the message if it is unusual.
    fn end_of_line(&self, hit: &Hit, session: &SessionHits) -> String {
        let place = match hit.place {
            MessagePlace::Active => "",
            MessagePlace::Abandoned => "abandoned branch",
            MessagePlace::Compacted => "before compaction",
            MessagePlace::Subagent if session.is_subagent => "",
            MessagePlace::Subagent => "subagent",
        };
        let tool = hit.tool.as_deref().map(|tool| truncate(&self.look.sanitize_line(tool), 24));
        match (tool, place) {
            (Some(tool), "") => tool,
            (Some(tool), place) => format!("{tool}, {place}"),
            (None, place) => place.to_owned(),
        }
    }

    /// Returns a snippet of at most `room` columns, with its matches highlighted, and its width.
    fn snippet(&self, snippet: &Snippet, room: usize) -> (String, usize) {
        let look = self.look;
        let mut painter = SnippetPainter { look, room: room.saturating_sub(1), used: 0, text: String::new() };
        if snippet.cut_before {
            painter.push("…", Style::Dim);
        }
        let mut at = 0;
        let mut is_whole = true;
        for range in &snippet.matches {
            is_whole = is_whole
                && painter.push(&snippet.text[at..range.start], Style::Plain)
                && painter.push(&snippet.text[range.clone()], Style::Match);
            at = range.end;
        }
        is_whole = is_whole && painter.push(&snippet.text[at..], Style::Plain);
        if snippet.cut_after || !is_whole {
            painter.room += 1;
            painter.push("…", Style::Dim);
        }
        (painter.text, painter.used)
    }

    /// Writes how many more messages of a session match, and which sessions have copies of them.
    fn write_rest(&self, out: &mut dyn Write, session: &SessionHits) -> io::Result<()> {
        let shown = session.hits.iter().filter(|hit| hit.message.is_some()).count() as u64;
        let indent = " ".repeat(self.number + 1);
        let more = session.total.saturating_sub(shown);
        if more > 0 {
            let text = format!("{indent}and {} more in this session", plural(more, "message"));
            writeln!(out, "{}", self.look.paint(Style::Dim, text))?;
        }
        if !session.copies.is_empty() {
            let ids: Vec<&str> =
                session.copies.iter().map(|id| shown_id(id.as_str(), self.ids, self.look)).collect();
            let text = self.look.sanitize_line(&format!("{indent}copies in {}", ids.join(", ")));
            let text = format!("{indent}{}", truncate(text.trim_start(), self.width - indent.len()));
            writeln!(out, "{}", self.look.paint(Style::Dim, text))?;
        }
        Ok(())
    }
}

/// Writes the parts of a snippet until there is no more room.
struct SnippetPainter<'l> {
    look: &'l DisplayOptions,
    room: usize,
    used: usize,
    text: String,
}

impl SnippetPainter<'_> {
    /// Appends a part; returns whether all of it fits.
    fn push(&mut self, part: &str, style: Style) -> bool {
        let part = self.look.sanitize(part);
        let (mut end, mut width) = (0, 0);
        for (at, c) in part.char_indices() {
            let next = part[..at + c.len_utf8()].width();
            if self.look.width.is_some() && self.used + next > self.room {
                break;
            }
            (end, width) = (at + c.len_utf8(), next);
        }
        self.used += width;
        self.text += &self.look.paint(style, &part[..end]);
        end == part.len()
    }
}

fn joined_width(facts: &[&str]) -> usize {
    facts.iter().map(|fact| fact.width() + 2).sum()
}

/// Returns the name of the author of a text in lists of hits, and its style.
pub fn source_label(source: TextSource) -> (&'static str, Style) {
    match source {
        TextSource::Prompt => ("you", Style::Human),
        TextSource::Answer => ("claude", Style::Model),
        TextSource::Title => ("title", Style::Title),
        TextSource::Input => ("input", Style::Tool),
        TextSource::Output => ("output", Style::Tool),
        TextSource::Thinking => ("thinking", Style::Dim),
        TextSource::Summary => ("summary", Style::Dim),
        TextSource::Command => ("command", Style::Dim),
        TextSource::Note => ("note", Style::Dim),
    }
}

fn end_style(hit: &Hit) -> Style {
    match hit.place {
        MessagePlace::Abandoned | MessagePlace::Compacted => Style::Abandoned,
        _ => Style::Dim,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rethread_model::{MatchQuality, MessageKey, MessageNo, SessionId};

    use super::*;

    fn hit(n: u32, source: TextSource, place: MessagePlace, text: &str, tool: Option<&str>) -> Hit {
        let found = text.find("tree").map(|at| at..at + 4);
        Hit {
            message: MessageNo::new(n),
            key: MessageKey::from_u64(1),
            line: Some(n),
            source,
            place,
            uuid: None,
            time: None,
            tool: tool.map(str::to_owned),
            quality: MatchQuality::Phrase,
            score: 1.0,
            position: (0, 0),
            snippet: Some(Snippet {
                text: text.to_owned(),
                matches: found.into_iter().collect(),
                cut_before: true,
                cut_after: true,
            }),
        }
    }

    fn session(id: &str, hits: Vec<Hit>) -> SessionHits {
        SessionHits {
            session: SessionId::from(id),
            path: "/c/x.jsonl".into(),
            is_subagent: false,
            is_deleted: false,
            summary: None,
            total: hits.len() as u64 + 2,
            hits,
            copies: vec![SessionId::from("51bd07aa-1")],
        }
    }

    fn written(results: &SearchResults, width: Option<usize>) -> String {
        let now = "2026-03-10T12:00:00Z".parse().expect("a time");
        let look = DisplayOptions { width, escape: width.is_some(), ..DisplayOptions::plain(now) };
        let mut out = Vec::new();
        write_search(&mut out, results, &ShortIds::default(), None, &look).expect("written");
        String::from_utf8(out).expect("text")
    }

    fn results() -> SearchResults {
        let prompt = hit(41, TextSource::Prompt, MessagePlace::Active, "is the working tree clean?", None);
        let output = hit(
            444,
            TextSource::Output,
            MessagePlace::Abandoned,
            "nothing to commit, working tree clean, and a rather long text after it",
            Some("Bash"),
        );
        SearchResults {
            sessions: vec![session("9f31c2e0-1", vec![prompt, output])],
            ..SearchResults::default()
        }
    }

    #[test]
    fn hits_have_numbers_and_places() {
        insta::assert_snapshot!(written(&results(), Some(80)));
        insta::assert_snapshot!(written(&results(), None));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_line_is_wider_than_the_terminal(
            text in "[a-z 漢字🦀\u{202e}\u{1b}]{0,150}tree[a-z 漢字🦀\u{200b}\u{1b}]{0,150}",
            tool in "[a-z漢]{0,40}",
            width in 40usize..200,
        ) {
            let found = hit(7, TextSource::Output, MessagePlace::Compacted, &text, Some(&tool));
            let results =
                SearchResults { sessions: vec![session("9f31c2e0-1", vec![found])], ..SearchResults::default() };
            let written = written(&results, Some(width));
            for line in written.lines() {
                prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
            }
            let is_safe = !written.contains(['\u{1b}', '\u{202e}']);
            prop_assert!(is_safe, "{written:?}");
        }
    }
}
