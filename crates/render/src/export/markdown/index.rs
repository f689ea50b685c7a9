//! The index of a directory in Markdown.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::escape::{code, escape_inline, link_address};
use crate::export::index::{IndexProject, IndexRow, index_projects, index_summary};
use crate::text::plural;

/// Writes an index with a section per project and a line per document.
pub(in crate::export) fn write_markdown_index(out: &mut dyn Write, rows: &[IndexRow]) -> io::Result<()> {
    let projects = index_projects(rows);
    let mut text = format!("# Transcripts\n\n{}\n", index_summary(rows, &projects));
    for project in &projects {
        write_project(&mut text, project);
    }
    out.write_all(text.as_bytes())
}

fn write_project(text: &mut String, project: &IndexProject<'_>) {
    let _ = write!(text, "\n## {}\n\n", escape_inline(&project.name));
    if project.dir != project.name && !project.dir.is_empty() {
        let _ = write!(text, "{}\n\n", code(project.dir));
    }
    for row in &project.rows {
        let (best, others) = row.best_file(".md");
        let day = row.day().map(|day| format!("{} ", escape_inline(day))).unwrap_or_default();
        let _ = write!(text, "- {day}[{}]({})", escape_inline(&row.title()), link_address(best));
        for file in others {
            let format = escape_inline(file.rsplit('.').next().unwrap_or_default());
            let _ = write!(text, " ([{format}]({}))", link_address(file));
        }
        let path = row.path_status().map(|(_, path)| format!(", {path}")).unwrap_or_default();
        let (turns, messages) = (u64::from(row.turns), u64::from(row.messages));
        let _ = writeln!(text, " · {}, {}{path}", plural(turns, "turn"), plural(messages, "message"));
    }
}
