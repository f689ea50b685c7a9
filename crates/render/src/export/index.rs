//! The page that lists all documents of a directory.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::html::page_start;
use super::safe::{html_escaped, strip_control_codes};
use crate::text::{format_count, plural, truncate};

const INDEX_CSS: &str = include_str!("assets/index.css");
const INDEX_JS: &str = include_str!("assets/index.js");

/// A document in the index.
#[derive(Debug, Clone, Default)]
pub struct IndexRow {
    /// Its files, relative to the index: one per format.
    pub files: Vec<String>,
    /// The session id.
    pub session: String,
    /// Its title.
    pub title: String,
    /// Its project.
    pub project: String,
    /// The first prompt.
    pub prompt: String,
    /// The number of the path, and the number of paths.
    pub path: (usize, usize),
    /// A client would resume it.
    pub active: bool,
    /// The time of the last message, as RFC 3339.
    pub time: Option<String>,
    /// Number of prompts.
    pub turns: u32,
    /// Number of messages.
    pub messages: u32,
}

/// Writes the index: projects and their sessions, newest first.
pub fn write_index(out: &mut dyn Write, rows: &[IndexRow]) -> io::Result<()> {
    let mut projects: std::collections::BTreeMap<&str, Vec<&IndexRow>> = std::collections::BTreeMap::new();
    for row in rows {
        projects.entry(&row.project).or_default().push(row);
    }
    let mut sessions: Vec<&str> = rows.iter().map(|row| row.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    let mut text = page_start("Transcripts", INDEX_CSS, INDEX_JS);
    let _ = write!(
        text,
        "<body class=\"index\"><div class=\"bar\"><span class=\"bar-title\">Transcripts</span>\
         <button id=\"theme\" type=\"button\" aria-label=\"Colours\">◐</button></div>\n<main>\n<h1>Transcripts</h1>\n\
         <p class=\"sum\">{} of {} in {}</p>\n<p class=\"find\"><input id=\"find\" type=\"search\" \
         placeholder=\"Search titles, prompts, projects  ( / )\" aria-label=\"Search\" autocomplete=\"off\"> \
         <span id=\"found\" role=\"status\"></span></p>\n",
        plural(rows.len() as u64, "transcript"),
        plural(sessions.len() as u64, "session"),
        plural(projects.len() as u64, "project")
    );
    let mut projects: Vec<(&str, Vec<&IndexRow>)> = projects.into_iter().collect();
    let newest = |rows: &[&IndexRow]| rows.iter().map(|row| row.time.clone()).max().flatten();
    projects.sort_by_cached_key(|(_, rows)| std::cmp::Reverse(newest(rows)));
    for (project, mut rows) in projects {
        rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.files.cmp(&b.files)));
        let name = if project.is_empty() { "(no project)" } else { project };
        let _ = write!(
            text,
            "<section class=\"project\"><h2>{}</h2> <span class=\"count\">{}</span>\n<table><thead><tr>\
             <th>Title</th><th>When</th><th>Turns</th><th>Messages</th></tr></thead><tbody>\n",
            html_escaped(&strip_control_codes(name)),
            rows.len()
        );
        for row in rows {
            // The HTML page is preferred; the other formats are linked after the title.
            let best = row.files.iter().find(|file| file.ends_with(".html")).or(row.files.first());
            let best = best.map(String::as_str).unwrap_or_default();
            let title = if row.title.is_empty() { "Untitled session" } else { &row.title };
            let prompt = truncate(&strip_control_codes(&row.prompt), 160);
            let _ = write!(
                text,
                "<tr data-find=\"{}\"><td><a href=\"{}\">{}</a>",
                html_escaped(&row.session),
                html_escaped(best),
                html_escaped(&truncate(&strip_control_codes(title), 100))
            );
            if row.path.1 > 1 {
                let status = if row.active { "active" } else { "abandoned" };
                let (n, of) = row.path;
                let _ = write!(text, " <span class=\"badge {status}\">path {n} of {of}, {status}</span>");
            }
            for file in row.files.iter().filter(|file| *file != best) {
                let format = file.rsplit('.').next().unwrap_or_default();
                let _ = write!(
                    text,
                    " <a class=\"format\" href=\"{}\">{}</a>",
                    html_escaped(file),
                    html_escaped(format)
                );
            }
            // A session without a title is named by its first prompt.
            if !prompt.is_empty() && !title.chars().zip(prompt.chars()).take(80).all(|(a, b)| a == b) {
                let _ = write!(text, "<div class=\"prompt\">{}</div>", html_escaped(&prompt));
            }
            let time = row.time.as_deref().map_or_else(String::new, |time| {
                let day = time.get(..10).unwrap_or(time);
                format!("<time datetime=\"{}\">{}</time>", html_escaped(time), html_escaped(day))
            });
            let _ = writeln!(
                text,
                "</td><td>{time}</td><td>{}</td><td>{}</td></tr>",
                format_count(u64::from(row.turns)),
                format_count(u64::from(row.messages))
            );
        }
        text.push_str("</tbody></table></section>\n");
    }
    let _ = write!(text, "</main>\n<script>{INDEX_JS}</script>\n</body></html>\n");
    out.write_all(text.as_bytes())
}
