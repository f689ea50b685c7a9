//! A table of sessions that fits the terminal.
//!
//! The title gets the most room. While fewer than [`MIN_TITLE`] columns remain for it, other columns are left out, in
//! the order of [`Column::DROPPED`]; the id, the time and the title are always shown. Without a width, as in a pipe,
//! every column is shown in full.

use std::io::{self, Write};

use rethread_model::{OriginKind, SessionKind, SessionOrigin, SessionSummary, TitleSource};
use unicode_width::UnicodeWidthStr;

use crate::project_names::project_names;
use crate::text::{DisplayOptions, Style, format_bytes, format_count, pad, pad_left, truncate};

/// The title gets at least this many columns before other columns are shown.
const MIN_TITLE: usize = 40;

/// The space between columns.
const GAP: &str = "  ";

/// A column other than the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Id,
    When,
    Turns,
    Size,
    Branches,
    Project,
}

impl Column {
    const ALL: [Self; 6] = [Self::Id, Self::When, Self::Turns, Self::Size, Self::Branches, Self::Project];

    /// The columns that are left out if the title needs the room, first one first.
    const DROPPED: [Self; 4] = [Self::Size, Self::Branches, Self::Turns, Self::Project];

    fn head(self) -> &'static str {
        match self {
            Self::Id => "ID",
            Self::When => "WHEN",
            Self::Turns => "TURNS",
            Self::Size => "SIZE",
            Self::Branches => "BRANCHES",
            Self::Project => "PROJECT",
        }
    }

    fn style(self) -> Style {
        match self {
            Self::Id => Style::Id,
            Self::When => Style::Dim,
            Self::Branches => Style::Abandoned,
            _ => Style::Plain,
        }
    }

    fn align(self, text: &str, width: usize) -> String {
        match self {
            Self::Turns | Self::Size | Self::Branches => pad_left(text, width),
            _ => pad(text, width),
        }
    }

    /// Returns whether it is worth showing if there is room. In a pipe, only the project depends on the sessions.
    fn is_useful(self, sessions: &[SessionSummary], names: &[String], look: &DisplayOptions) -> bool {
        match self {
            Self::Branches => look.width.is_none() || sessions.iter().any(|session| session.paths > 1),
            Self::Project => names.iter().any(|name| *name != names[0]),
            _ => true,
        }
    }
}

/// Writes a table of sessions. Ids are shortened to a width that keeps them distinct. `home` is the reader's home
/// directory, if it is known.
pub fn write_ls(
    out: &mut dyn Write,
    sessions: &[SessionSummary],
    home: Option<&str>,
    look: &DisplayOptions,
) -> io::Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let names = project_names(sessions, home, look.width.map(max_project_width));
    let table = SessionTable::new(sessions, &names, look);
    let cells = |texts: &dyn Fn(Column) -> String| {
        let columns = table.columns.iter();
        columns
            .map(|&(column, width)| column.align(&truncate(&texts(column), width), width))
            .collect::<Vec<_>>()
    };
    let head = [cells(&|column| column.head().to_owned()), vec![" ".repeat(table.marks) + "TITLE"]].concat();
    writeln!(out, "{}", look.paint(Style::Dim, head.join(GAP)))?;
    for (session, name) in sessions.iter().zip(&names) {
        let texts = cells(&|column| look.sanitize_line(&cell(column, session, name, &table, look)));
        for ((column, _), text) in table.columns.iter().zip(texts) {
            write!(out, "{}{GAP}", look.paint(column.style(), text))?;
        }
        writeln!(out, "{}", table.title_cell(session, look))?;
    }
    Ok(())
}

fn cell(
    column: Column,
    session: &SessionSummary,
    name: &str,
    table: &SessionTable,
    look: &DisplayOptions,
) -> String {
    match column {
        Column::Id => id_start(session.id.as_str(), table.id_width).to_owned(),
        Column::When => look.format_ago(session.recency()),
        Column::Turns => format_count(session.turns),
        Column::Size => format_bytes(session.bytes),
        Column::Branches if session.paths > 1 => format_count(session.paths),
        Column::Branches => String::new(),
        Column::Project => name.to_owned(),
    }
}

/// The layout of a table.
struct SessionTable {
    /// The columns before the title, with their widths.
    columns: Vec<(Column, usize)>,
    id_width: usize,
    /// The width of the marks before the titles: none, or two columns for each kind that occurs.
    marks: usize,
    any_live: bool,
    any_harmed: bool,
    /// The width of the titles, if it is limited.
    title: Option<usize>,
}

impl SessionTable {
    fn new(sessions: &[SessionSummary], names: &[String], look: &DisplayOptions) -> Self {
        let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
        let any_live = sessions.iter().any(|session| session.is_live);
        let any_harmed = sessions.iter().any(SessionSummary::is_harmed);
        let mut table = Self {
            columns: Vec::new(),
            id_width: id_width(&ids),
            marks: 2 * (usize::from(any_live) + usize::from(any_harmed)),
            any_live,
            any_harmed,
            title: None,
        };
        for column in Column::ALL {
            if column.is_useful(sessions, names, look) {
                let texts = sessions.iter().zip(names).map(|(session, name)| {
                    look.sanitize_line(&cell(column, session, name, &table, look)).width()
                });
                let width = texts.max().unwrap_or(0).max(column.head().len());
                let limit = look.width.filter(|_| column == Column::Project).map_or(width, max_project_width);
                table.columns.push((column, width.min(limit)));
            }
        }
        table.fit(sessions, look);
        table
    }

    /// Leaves out columns until the titles have enough room.
    fn fit(&mut self, sessions: &[SessionSummary], look: &DisplayOptions) {
        let Some(width) = look.width else { return };
        let longest = sessions.iter().map(|session| title(session).0.width() + origin_label(session).width());
        let needed = longest.max().unwrap_or(0).min(MIN_TITLE);
        let mut dropped = Column::DROPPED.into_iter();
        loop {
            let used: usize = self.columns.iter().map(|(_, width)| width + GAP.len()).sum();
            let left = width.saturating_sub(used + self.marks);
            self.title = Some(left);
            if left >= needed {
                return;
            }
            let Some(column) = dropped.next() else { return };
            self.columns.retain(|(known, _)| *known != column);
        }
    }

    /// Returns the marks and the title; for a copy also its source. The source is left out before the title is cut
    /// to less than [`MIN_TITLE`] columns.
    fn title_cell(&self, session: &SessionSummary, look: &DisplayOptions) -> String {
        let mark = |any: bool, is: bool, mark: &str, style: Style| match (any, is) {
            (false, _) => String::new(),
            (true, false) => "  ".to_owned(),
            (true, true) => look.paint(style, mark) + " ",
        };
        let live = mark(self.any_live, session.is_live, "●", Style::Active);
        let harmed = mark(self.any_harmed, session.is_harmed(), "!", Style::Error);
        let (title, style) = title(session);
        let title = look.sanitize_line(&title);
        let suffix = look.sanitize_line(&origin_label(session));
        let gap = usize::from(!suffix.is_empty());
        let (title, suffix) = match self.title {
            None => (title, suffix),
            Some(width) if title.width() + gap + suffix.width() <= width => (title, suffix),
            Some(width) if width >= gap + suffix.width() + MIN_TITLE / 2 => {
                (truncate(&title, width - gap - suffix.width()), suffix)
            }
            Some(width) => (truncate(&title, width), String::new()),
        };
        let suffix = if suffix.is_empty() { suffix } else { format!(" {}", look.paint(Style::Dim, suffix)) };
        format!("{live}{harmed}{}{suffix}", look.paint(style, title))
    }
}

/// Returns the largest width of the project column in a terminal of this width.
fn max_project_width(terminal: usize) -> usize {
    (terminal / 5).clamp(12, 32)
}

/// Names the source of a clone, repair or fork; empty for other sessions.
pub fn origin_label(session: &SessionSummary) -> String {
    let Some(SessionOrigin { source, kind, .. }) = &session.origin else { return String::new() };
    let made = match kind {
        OriginKind::Repair => "repaired from",
        OriginKind::Fork => "fork of",
        _ => "clone of",
    };
    format!("({made} {})", short_id(source.as_str()))
}

/// Returns the number of characters that distinguish ids. Eight distinguish uuids in practice; files with other names
/// need more.
pub fn id_width(ids: &[&str]) -> usize {
    let mut width = SHORT_ID;
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    for pair in ids.windows(2) {
        let common = pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
        width = width.max(common + 1);
    }
    // Names with a long common prefix would leave no room for the titles.
    width.min(16)
}

/// Returns the beginning of an id that distinguishes UUIDs in practice, and that people can read out.
pub fn short_id(id: &str) -> &str {
    id_start(id, SHORT_ID)
}

/// The number of characters of a short id.
const SHORT_ID: usize = 8;

fn id_start(id: &str, width: usize) -> &str {
    id.char_indices().nth(width).map_or(id, |(end, _)| &id[..end])
}

fn title(row: &SessionSummary) -> (String, Style) {
    match (row.kind, row.title.source) {
        (SessionKind::Empty, _) => ("(empty)".into(), Style::Dim),
        (SessionKind::Summaries, _) => ("(summaries of other sessions)".into(), Style::Dim),
        (SessionKind::Pointer, _) => ("(no conversation, only client state)".into(), Style::Dim),
        (_, TitleSource::None) => ("(no prompt)".into(), Style::Dim),
        (_, TitleSource::FirstPrompt) => (row.title.text.clone(), Style::Plain),
        _ => (row.title.text.clone(), Style::Title),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use proptest::prelude::*;
    use rethread_model::{Severity, Time, Title, Worktree};

    use super::*;

    fn session(n: usize, title: &str, cwd: &str) -> SessionSummary {
        SessionSummary {
            id: format!("{n:08x}-0000-4000-8000-000000000000").into(),
            path: PathBuf::from(format!("/c/projects/-x/{n}.jsonl")),
            kind: SessionKind::Conversation,
            title: Title { text: title.to_owned(), source: TitleSource::Custom },
            cwd: Some(cwd.to_owned()),
            resume_dir: None,
            first_prompt: None,
            created: None,
            modified: Time::parse(b"2026-03-10T09:00:00.000Z"),
            bytes: 1234 * n as u64,
            entries: 1,
            messages: 1,
            turns: n as u64,
            tool_calls: 0,
            paths: 1 + n as u64 % 3,
            compactions: 0,
            subagents: 0,
            models: Vec::new(),
            versions: Vec::new(),
            git_branch: None,
            is_live: false,
            defects: 0,
            worktree: None,
            origin: None,
            severity: None,
        }
    }

    fn table(sessions: &[SessionSummary], width: Option<usize>) -> String {
        let now = "2026-03-10T12:00:00Z".parse().expect("a time");
        let look = DisplayOptions { width, escape: width.is_some(), ..DisplayOptions::plain(now) };
        let mut out = Vec::new();
        write_ls(&mut out, sessions, Some("/home/ada"), &look).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn source_is_left_out_before_the_title_becomes_unreadable() {
        let mut copy = session(1, "A title that is rather long, as titles of sessions tend to be", "/x");
        copy.origin = Some(SessionOrigin {
            source: "3f2a1b0c-1".into(),
            kind: OriginKind::Clone,
            time: None,
            directory: None,
        });
        copy.severity = Some(Severity::Loss);
        let sessions = [copy, session(2, "Short", "/x")];
        insta::assert_snapshot!(table(&sessions, Some(80)));
        insta::assert_snapshot!(table(&sessions, Some(50)));
    }

    #[test]
    fn home_and_worktrees_have_names() {
        let mut tree = session(3, "In a worktree", "/home/ada/api/.claude/worktrees/fix");
        tree.worktree = Some(Worktree { repository: "/home/ada/api".into(), name: "fix".to_owned() });
        let sessions = [session(1, "At home", "/home/ada"), session(2, "API", "/home/ada/api/"), tree];
        insta::assert_snapshot!(table(&sessions, Some(100)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn no_line_exceeds_the_width(
            titles in prop::collection::vec("[a-z 漢字🦀\u{200b}\u{202e}\u{1b}\u{301}]{0,90}", 1..5),
            dirs in prop::collection::vec("(/[a-z漢 ]{0,40}){0,4}", 5),
            width in 40usize..=200,
            marks in any::<(bool, bool, bool)>(),
        ) {
            let sessions: Vec<SessionSummary> = titles.iter().zip(&dirs).enumerate().map(|(n, (title, dir))| {
                let mut session = session(n + 1, title, dir);
                session.is_live = marks.0;
                session.severity = marks.1.then_some(Severity::Refusal);
                session.origin = marks.2.then(|| SessionOrigin { source: "0a".into(), kind: OriginKind::Fork, time: None, directory: None });
                session
            }).collect();
            for line in table(&sessions, Some(width)).lines() {
                prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
            }
            prop_assert_eq!(table(&sessions, Some(width)).lines().count(), sessions.len() + 1);
        }
    }
}
