//! The indexes of a directory: a page, and a Markdown file.

use std::fmt::Write as _;
use std::io::{self, Write};

use super::Format;
use super::html::page_start;
use super::markdown::write_markdown_index;
use super::safe::{html_escaped, strip_control_codes};
use crate::project_names::{shortest_names, trim};
use crate::text::{format_count, plural, truncate};

const INDEX_CSS: &str = include_str!("assets/index.css");
const INDEX_JS: &str = include_str!("assets/index.js");

/// The format of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexFormat {
    /// A page for a browser.
    Html,
    /// A Markdown file that code hosts show with the directory.
    Markdown,
}

impl IndexFormat {
    /// Returns the index that documents of a format link to.
    pub fn of(format: Format) -> Self {
        if format == Format::Md { Self::Markdown } else { Self::Html }
    }

    /// Returns its file name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Html => "index.html",
            Self::Markdown => "README.md",
        }
    }

    /// Returns whether a document is of a format that links to this index.
    pub fn lists(self, row: &IndexRow) -> bool {
        let is_markdown = |file: &String| file.ends_with(".md");
        row.files.iter().any(|file| is_markdown(file) == (self == Self::Markdown))
    }
}

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

impl IndexRow {
    /// Returns its file with an ending, or any other, and the rest.
    pub(super) fn best_file(&self, ending: &str) -> (&str, impl Iterator<Item = &String>) {
        let best = self.files.iter().find(|file| file.ends_with(ending)).or(self.files.first());
        let best = best.map(String::as_str).unwrap_or_default();
        (best, self.files.iter().filter(move |file| *file != best))
    }

    /// Returns its title.
    pub(super) fn title(&self) -> String {
        let title = if self.title.is_empty() { "Untitled session" } else { &self.title };
        truncate(&strip_control_codes(title), 100)
    }

    /// Returns the day of its last message.
    pub(super) fn day(&self) -> Option<&str> {
        self.time.as_deref().map(|time| time.get(..10).unwrap_or(time))
    }

    /// Describes its path, if the session has several.
    pub(super) fn path_status(&self) -> Option<(&'static str, String)> {
        let (n, of) = self.path;
        let status = if self.active { "active" } else { "abandoned" };
        (of > 1).then(|| (status, format!("path {n} of {of}, {status}")))
    }
}

/// A project and its documents, newest first.
pub(super) struct IndexProject<'r> {
    /// Its directory.
    pub(super) dir: &'r str,
    /// The end of its directory that distinguishes it from other projects.
    pub(super) name: String,
    pub(super) rows: Vec<&'r IndexRow>,
}

/// Groups documents by project; the project with the newest document is first.
pub(super) fn index_projects(rows: &[IndexRow]) -> Vec<IndexProject<'_>> {
    let mut by_dir: std::collections::BTreeMap<&str, Vec<&IndexRow>> = std::collections::BTreeMap::new();
    for row in rows {
        by_dir.entry(&row.project).or_default().push(row);
    }
    let names = distinct_names(by_dir.keys().copied());
    let mut projects: Vec<IndexProject<'_>> = { by_dir.into_iter().zip(names) }
        .map(|((dir, mut rows), name)| {
            rows.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.files.cmp(&b.files)));
            let name = if name.is_empty() { "(no project)" } else { name };
            IndexProject { dir, name: strip_control_codes(name).into_owned(), rows }
        })
        .collect();
    projects.sort_by_cached_key(|project| {
        std::cmp::Reverse(project.rows.first().and_then(|row| row.time.clone()))
    });
    projects
}

/// Returns the last part of each directory; where these are equal the last two parts, or else all of it.
fn distinct_names<'d>(dirs: impl Iterator<Item = &'d str> + Clone) -> Vec<&'d str> {
    let names = shortest_names(dirs.clone().map(trim).collect(), 2);
    dirs.map(|dir| names.get(trim(dir)).copied().unwrap_or(dir)).collect()
}

/// Describes the extent of an index.
pub(super) fn index_summary(rows: &[IndexRow], projects: &[IndexProject<'_>]) -> String {
    let mut sessions: Vec<&str> = rows.iter().map(|row| row.session.as_str()).collect();
    sessions.sort_unstable();
    sessions.dedup();
    format!(
        "{} of {} in {}",
        plural(rows.len() as u64, "transcript"),
        plural(sessions.len() as u64, "session"),
        plural(projects.len() as u64, "project")
    )
}

/// Writes an index: projects and their sessions, newest first.
pub fn write_index(out: &mut dyn Write, format: IndexFormat, rows: &[IndexRow]) -> io::Result<()> {
    match format {
        IndexFormat::Html => write_html_index(out, rows),
        IndexFormat::Markdown => write_markdown_index(out, rows),
    }
}

fn write_html_index(out: &mut dyn Write, rows: &[IndexRow]) -> io::Result<()> {
    let projects = index_projects(rows);
    let mut text = page_start("Transcripts", INDEX_CSS, INDEX_JS);
    let with_list = if projects.len() > 1 { " listed" } else { "" };
    let _ = writeln!(
        text,
        "<body class=\"index{with_list}\"><div class=\"bar\"><span class=\"bar-title\">Transcripts</span>\
         <button id=\"theme\" type=\"button\" aria-label=\"Colours\">◐</button></div>",
    );
    if projects.len() > 1 {
        write_project_list(&mut text, &projects);
    }
    let _ = write!(
        text,
        "<main>\n<h1>Transcripts</h1>\n<p class=\"sum\">{}</p>\n\
         <p class=\"find\"><input id=\"find\" type=\"search\" placeholder=\"Filter: title, project, date  ( / )\" \
         aria-label=\"Filter\" autocomplete=\"off\"> <span id=\"found\" role=\"status\"></span></p>\n",
        index_summary(rows, &projects),
    );
    for (i, project) in projects.iter().enumerate() {
        write_project(&mut text, i + 1, project);
    }
    let _ = write!(text, "</main>\n<script>{INDEX_JS}</script>\n</body></html>\n");
    out.write_all(text.as_bytes())
}

/// Writes the list of projects beside the index.
fn write_project_list(text: &mut String, projects: &[IndexProject<'_>]) {
    text.push_str("<nav id=\"projects\" aria-label=\"Projects\"><details><summary>Projects</summary><ol>\n");
    for (i, project) in projects.iter().enumerate() {
        let _ = writeln!(
            text,
            "<li><a href=\"#p{}\" title=\"{}\"><span>{}</span> <span class=\"count\">{}</span></a></li>",
            i + 1,
            html_escaped(&strip_control_codes(project.dir)),
            html_escaped(&truncate(&project.name, 60)),
            project.rows.len()
        );
    }
    text.push_str("</ol></details></nav>\n");
}

fn write_project(text: &mut String, n: usize, project: &IndexProject<'_>) {
    let dir = strip_control_codes(project.dir);
    let _ = write!(
        text,
        "<details class=\"project\" id=\"p{n}\" open><summary><h2>{}</h2> <span class=\"count\">{}</span>",
        html_escaped(&project.name),
        project.rows.len()
    );
    if dir != project.name && !dir.is_empty() {
        let _ = write!(text, " <span class=\"dir\">{}</span>", html_escaped(&dir));
    }
    text.push_str(
        "</summary>\n<table><thead><tr><th>Title</th><th>When</th><th>Turns</th><th>Messages</th></tr></thead><tbody>\n",
    );
    for row in &project.rows {
        write_row(text, row);
    }
    text.push_str("</tbody></table></details>\n");
}

fn write_row(text: &mut String, row: &IndexRow) {
    // The HTML page is preferred; the other formats are linked after the title.
    let (best, others) = row.best_file(".html");
    let (title, prompt) = (row.title(), truncate(&strip_control_codes(&row.prompt), 160));
    let day = row.day().unwrap_or_default();
    let _ = write!(
        text,
        "<tr data-find=\"{} {}\"><td><a href=\"{}\">{}</a>",
        html_escaped(&row.session),
        html_escaped(day),
        html_escaped(best),
        html_escaped(&title)
    );
    if let Some((status, path)) = row.path_status() {
        let _ = write!(text, " <span class=\"badge {status}\">{path}</span>");
    }
    for file in others {
        let format = html_escaped(file.rsplit('.').next().unwrap_or_default());
        let _ = write!(text, " <a class=\"format\" href=\"{}\">{format}</a>", html_escaped(file));
    }
    // A session without a title is named by its first prompt.
    if !prompt.is_empty() && !title.chars().zip(prompt.chars()).take(80).all(|(a, b)| a == b) {
        let _ = write!(text, "<div class=\"prompt\">{}</div>", html_escaped(&prompt));
    }
    let time = row.time.as_deref().map_or_else(String::new, |time| {
        format!("<time datetime=\"{}\">{}</time>", html_escaped(time), html_escaped(day))
    });
    let (turns, messages) = (format_count(u64::from(row.turns)), format_count(u64::from(row.messages)));
    let _ = writeln!(text, "</td><td>{time}</td><td>{turns}</td><td>{messages}</td></tr>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(file: &str, project: &str, title: &str) -> IndexRow {
        IndexRow {
            files: vec![file.to_owned()],
            session: "0a".into(),
            title: title.to_owned(),
            project: project.to_owned(),
            path: (1, 1),
            time: Some("2026-07-13T10:00:00.000Z".into()),
            turns: 2,
            messages: 1234,
            ..IndexRow::default()
        }
    }

    #[test]
    fn projects_with_equal_names_are_told_apart() {
        let dirs = ["/x/app", "/y/app", "C:\\z\\tool\\", "/a/b/c", "/d/b/c", "", "/"];
        assert_eq!(distinct_names(dirs.into_iter()), ["x/app", "y/app", "tool", "/a/b/c", "/d/b/c", "", "/"]);
    }

    #[test]
    fn markdown_index_lists_projects_and_transcripts() {
        let mut abandoned = row("transcript_b_path1_abandoned.md", "/x/app", "A [b](c) <d> `e`\n# f");
        abandoned.path = (1, 2);
        abandoned.files.push("b.html".into());
        let rows = [row("transcript_a.md", "/x/tool", "Fix it"), abandoned];
        let mut text = Vec::new();
        write_index(&mut text, IndexFormat::Markdown, &rows).expect("written");
        insta::assert_snapshot!(String::from_utf8(text).expect("text"), @r"
        # Transcripts

        2 transcripts of 1 session in 2 projects

        ## app

        `/x/app`

        - 2026-07-13 [A \[b\](c) &lt;d> \`e\` \# f](transcript_b_path1_abandoned.md) ([html](b.html)) · 2 turns, 1,234 messages, path 1 of 2, abandoned

        ## tool

        `/x/tool`

        - 2026-07-13 [Fix it](transcript_a.md) · 2 turns, 1,234 messages
        ");
    }
}
