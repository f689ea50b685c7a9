//! A table of sessions that fits the terminal.
//!
//! The title gets the most room. While fewer than [`MIN_TITLE`] columns remain for it, other columns are left out, in
//! the order of [`ListColumn::DROPPED`]; the id, the time and the title are always shown. Without a width, as in a pipe,
//! every column is shown in full.

use std::io::{self, Write};

use rethread_model::{
    OriginKind, SessionKind, SessionOrigin, SessionSummary, ShortIds, TitleSource, heading, heading_within,
};
use unicode_width::UnicodeWidthStr;

use crate::project_names::project_names;
use crate::text::{DisplayOptions, Style, format_bytes, format_count, pad, pad_left, truncate};

/// The title gets at least this many columns before other columns are shown.
const MIN_TITLE: usize = 40;

/// The space between columns.
const GAP: &str = "  ";

/// A column other than the title.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListColumn {
    /// The id.
    Id,
    /// The time of the last change.
    When,
    /// The number of prompts.
    Turns,
    /// The size of the log.
    Size,
    /// The number of paths.
    Branches,
    /// The name of the project.
    Project,
}

/// Options of a table of sessions.
#[derive(Debug, Clone, Copy)]
pub struct ListOptions<'l> {
    /// The ids of all sessions. On a terminal an id is shortened to what names the session among them.
    pub ids: &'l ShortIds,
    /// The reader's home directory, if it is known.
    pub home: Option<&'l str>,
    /// The columns that were asked for, such as the one by which the sessions are sorted. They are left out last.
    pub wanted: &'l [ListColumn],
}

impl ListColumn {
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

    /// Returns its largest width in a terminal of this width. Names of projects and of logs may be of any length.
    fn max_width(self, terminal: usize) -> Option<usize> {
        match self {
            Self::Id => Some((terminal / 5).clamp(16, 40)),
            Self::Project => Some(max_project_width(terminal)),
            _ => None,
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

/// Writes a table of sessions.
pub fn write_ls(
    out: &mut dyn Write,
    sessions: &[SessionSummary],
    options: &ListOptions<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let ids = options.ids;
    let names = project_names(sessions, options.home, look.width.map(max_project_width));
    let table = SessionTable::new(sessions, &names, options, look);
    let cells = |texts: &dyn Fn(ListColumn) -> String| {
        let columns = table.columns.iter();
        columns
            .map(|&(column, width)| column.align(&truncate(&texts(column), width), width))
            .collect::<Vec<_>>()
    };
    let head = [cells(&|column| column.head().to_owned()), vec![" ".repeat(table.marks) + "TITLE"]].concat();
    writeln!(out, "{}", look.paint(Style::Dim, head.join(GAP)))?;
    for (session, name) in sessions.iter().zip(&names) {
        let texts = cells(&|column| look.sanitize_line(&cell(column, session, name, ids, look)));
        for ((column, _), text) in table.columns.iter().zip(texts) {
            write!(out, "{}{GAP}", look.paint(column.style(), text))?;
        }
        writeln!(out, "{}", table.title_cell(session, ids, look))?;
    }
    Ok(())
}

fn cell(
    column: ListColumn,
    session: &SessionSummary,
    name: &str,
    ids: &ShortIds,
    look: &DisplayOptions,
) -> String {
    match column {
        ListColumn::Id => shown_id(session.id.as_str(), ids, look).to_owned(),
        ListColumn::When => look.format_ago(session.recency()),
        ListColumn::Turns => format_count(session.turns),
        ListColumn::Size => format_bytes(session.bytes),
        ListColumn::Branches if session.paths > 1 => format_count(session.paths),
        ListColumn::Branches => String::new(),
        ListColumn::Project => name.to_owned(),
    }
}

/// The layout of a table.
struct SessionTable {
    /// The columns before the title, with their widths.
    columns: Vec<(ListColumn, usize)>,
    /// The width of the marks before the titles: none, or two columns for each kind that occurs.
    marks: usize,
    any_live: bool,
    any_harmed: bool,
    /// The width of the titles, if it is limited.
    title: Option<usize>,
}

impl SessionTable {
    fn new(
        sessions: &[SessionSummary],
        names: &[String],
        options: &ListOptions<'_>,
        look: &DisplayOptions,
    ) -> Self {
        let any_live = sessions.iter().any(|session| session.is_live);
        let any_harmed = sessions.iter().any(SessionSummary::is_harmed);
        let mut table = Self {
            columns: Vec::new(),
            marks: 2 * (usize::from(any_live) + usize::from(any_harmed)),
            any_live,
            any_harmed,
            title: None,
        };
        for column in ListColumn::ALL {
            if column.is_useful(sessions, names, look) {
                let texts = sessions.iter().zip(names).map(|(session, name)| {
                    look.sanitize_line(&cell(column, session, name, options.ids, look)).width()
                });
                let width = texts.max().unwrap_or(0).max(column.head().len());
                let limit = look.width.and_then(|terminal| column.max_width(terminal));
                table.columns.push((column, limit.map_or(width, |limit| width.min(limit))));
            }
        }
        table.fit(sessions, options, look);
        table
    }

    /// Leaves out columns until the titles have enough room.
    fn fit(&mut self, sessions: &[SessionSummary], options: &ListOptions<'_>, look: &DisplayOptions) {
        let Some(width) = look.width else { return };
        let longest = sessions
            .iter()
            .map(|session| title(session, None).0.width() + origin_label(session, options.ids).width());
        let needed = longest.max().unwrap_or(0).min(MIN_TITLE);
        let is_wanted = |column: &ListColumn| options.wanted.contains(column);
        let mut dropped: Vec<ListColumn> = ListColumn::DROPPED.to_vec();
        dropped.sort_by_key(is_wanted);
        let mut dropped = dropped.into_iter();
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
    fn title_cell(&self, session: &SessionSummary, ids: &ShortIds, look: &DisplayOptions) -> String {
        let mark = |any: bool, is: bool, mark: &str, style: Style| match (any, is) {
            (false, _) => String::new(),
            (true, false) => "  ".to_owned(),
            (true, true) => look.paint(style, mark) + " ",
        };
        let live = mark(self.any_live, session.is_live, "●", Style::Active);
        let harmed = mark(self.any_harmed, session.is_harmed(), "!", Style::Error);
        let (title, style) = title(session, self.title);
        let title = look.sanitize_line(&title);
        let suffix = look.sanitize_line(&origin_label(session, ids));
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
    ((terminal / 5).max(12) + terminal.saturating_sub(120) / 4).min(60)
}

/// Names the source of a clone, repair or fork; empty for other sessions.
pub fn origin_label(session: &SessionSummary, ids: &ShortIds) -> String {
    let Some(SessionOrigin { source, kind, .. }) = &session.origin else { return String::new() };
    let made = match kind {
        OriginKind::Repair => "repaired from",
        OriginKind::Fork => "fork of",
        _ => "clone of",
    };
    format!("({made} {})", ids.shorten(source.as_str()))
}

/// Returns the id of a session as it is listed: whole in a pipe, on a terminal the shortest that names it.
pub fn shown_id<'i>(id: &'i str, ids: &ShortIds, look: &DisplayOptions) -> &'i str {
    if look.width.is_none() { id } else { ids.shorten(id) }
}

/// Returns the title of a session. A title that is the beginning of the first prompt shows more of it if there is room.
fn title(row: &SessionSummary, room: Option<usize>) -> (String, Style) {
    let longer = |room: usize| {
        let prompt = row.first_prompt.as_deref().filter(|prompt| heading(prompt) == row.title.text)?;
        Some(heading_within(prompt, room.max(row.title.text.chars().count())))
    };
    match (row.kind, row.title.source) {
        (SessionKind::Empty, _) => ("(empty)".into(), Style::Dim),
        (SessionKind::Summaries, _) => ("(summaries of other sessions)".into(), Style::Dim),
        (SessionKind::Pointer, _) => ("(no conversation, only client state)".into(), Style::Dim),
        (_, TitleSource::None) => ("(no prompt)".into(), Style::Dim),
        (_, TitleSource::FirstPrompt) => {
            (room.and_then(longer).unwrap_or_else(|| row.title.text.clone()), Style::Plain)
        }
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
        table_with(sessions, width, &[])
    }

    fn table_with(sessions: &[SessionSummary], width: Option<usize>, wanted: &[ListColumn]) -> String {
        let now = "2026-03-10T12:00:00Z".parse().expect("a time");
        let look = DisplayOptions { width, escape: width.is_some(), ..DisplayOptions::plain(now) };
        let mut out = Vec::new();
        let ids = ShortIds::new(sessions.iter().map(|session| session.id.as_str()));
        let options = ListOptions { ids: &ids, home: Some("/home/ada"), wanted };
        write_ls(&mut out, sessions, &options, &look).expect("written");
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
    fn requested_columns_are_left_out_last() {
        let sessions =
            [1, 2].map(|n| session(n, &format!("Session {n} with a title of some length"), "/home/ada/api"));
        let columns = |wanted: &[ListColumn], width: usize| {
            table_with(&sessions, Some(width), wanted).lines().next().unwrap_or_default().to_owned()
        };
        assert!(!columns(&[], 66).contains("SIZE"));
        assert!(columns(&[ListColumn::Size], 66).contains("SIZE"));
        assert!(!columns(&[ListColumn::Size], 66).contains("TURNS"));
        assert!(columns(&[ListColumn::Branches], 66).contains("BRANCHES"));
    }

    #[test]
    fn wide_table_shows_more_of_a_first_prompt() {
        let prompt = "Please look at the kettle and tell me why ".repeat(6);
        let mut long = session(1, &heading(&prompt), "/home/ada/api");
        long.title.source = TitleSource::FirstPrompt;
        long.first_prompt = Some(prompt);
        let sessions = [long, session(2, "Other", "/home/ada/api")];
        let longest = |width: usize| {
            table(&sessions, Some(width)).lines().map(UnicodeWidthStr::width).max().unwrap_or(0)
        };
        assert!(longest(200) > 180 && longest(200) <= 200, "{}", longest(200));
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
