//! A table of sessions.

use std::io::{self, Write};

use rethread_model::{SessionKind, SessionSummary, TitleSource};

use crate::text::{DisplayOptions, Style, format_bytes, format_count, pad, pad_left};

/// Writes a table of sessions. Ids are shortened to a width that keeps them distinct.
pub fn write_ls(out: &mut dyn Write, sessions: &[SessionSummary], look: &DisplayOptions) -> io::Result<()> {
    if sessions.is_empty() {
        return Ok(());
    }
    let several_projects = sessions.iter().any(|session| session.project() != sessions[0].project());
    let id_width = id_width(sessions);
    let cells: Vec<[String; 5]> = sessions
        .iter()
        .map(|row| {
            [
                look.format_ago(row.modified),
                format_count(row.turns),
                format_bytes(row.bytes),
                if row.paths > 1 { format_count(row.paths) } else { String::new() },
                if several_projects { short_project(row) } else { String::new() },
            ]
        })
        .collect();
    let heads = ["WHEN", "TURNS", "SIZE", "TIPS", "PROJECT"];
    let mut widths: Vec<usize> = heads.iter().map(|head| head.len()).collect();
    for row in &cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(unicode_width::UnicodeWidthStr::width(cell.as_str()));
        }
    }
    widths[4] = if several_projects { widths[4].min(20) } else { 0 };
    let columns = |id: &str, cells: [&str; 5]| {
        let [when, turns, size, tips, project] = cells;
        let mut line = vec![
            pad(id, id_width),
            pad(when, widths[0]),
            pad_left(turns, widths[1]),
            pad_left(size, widths[2]),
            pad_left(tips, widths[3]),
        ];
        if several_projects {
            line.push(pad(&crate::text::truncate(project, widths[4]), widths[4]));
        }
        line
    };
    let used = id_width + widths.iter().sum::<usize>() + 2 * (5 + usize::from(several_projects));
    let head = columns("ID", heads).join("  ") + "  TITLE";
    writeln!(out, "{}", look.paint(Style::Dim, look.truncate(&head, 0)))?;
    for (row, cells) in sessions.iter().zip(&cells) {
        let mut line = columns(
            &look.sanitize(short_id(row.id.as_str(), id_width)),
            [&cells[0], &cells[1], &cells[2], &cells[3], &look.sanitize(&cells[4])],
        );
        line[0] = look.paint(Style::Id, &line[0]);
        line[1] = look.paint(Style::Dim, &line[1]);
        line[4] = look.paint(Style::Abandoned, &line[4]);
        writeln!(out, "{}  {}", line.join("  "), title_cell(row, used, look))?;
    }
    Ok(())
}

/// Returns the title with its marks: ● for an open session, ! for one with defects. The other columns are `used` wide.
fn title_cell(session: &SessionSummary, used: usize, look: &DisplayOptions) -> String {
    let mark = look.paint(Style::Active, if session.is_live { "● " } else { "" });
    let bad = if session.defects > 0 { look.paint(Style::Error, " !") } else { String::new() };
    let marks = 2 * (usize::from(session.is_live) + usize::from(session.defects > 0));
    let (title, style) = title(session);
    let title = look.truncate(&look.sanitize_line(&title), used + marks);
    format!("{mark}{}{bad}", look.paint(style, title))
}

/// Returns the width of the id column. Eight characters distinguish uuids in practice; files with other names
/// need more.
fn id_width(sessions: &[SessionSummary]) -> usize {
    let mut width = 8;
    let mut ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    ids.sort_unstable();
    ids.dedup();
    for pair in ids.windows(2) {
        let common = pair[0].chars().zip(pair[1].chars()).take_while(|(a, b)| a == b).count();
        width = width.max(common + 1);
    }
    // Names with a long common prefix would leave no room for the titles.
    width.min(16)
}

fn short_id(id: &str, width: usize) -> &str {
    id.char_indices().nth(width).map_or(id, |(end, _)| &id[..end])
}

fn short_project(row: &SessionSummary) -> String {
    let project = row.project();
    let name = project.trim_end_matches(['/', '\\']);
    name.rsplit(['/', '\\']).next().unwrap_or(name).to_owned()
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
