//! Findings about sessions, for a terminal.

use std::io::{self, Write};

use rethread_model::{Client, FindingKind, Severity};

use crate::rows::FindingRow;
use crate::text::{DisplayOptions, Style, format_count};

/// A session and its findings.
#[derive(Debug, Clone)]
pub struct CheckReport {
    /// The name to print: id or file.
    pub session: String,
    /// Its title, if there is one.
    pub title: String,
    /// The findings, most severe first.
    pub findings: Vec<FindingRow>,
}

impl CheckReport {
    fn is_empty(&self) -> bool {
        self.findings.iter().any(|row| row.finding.kind == FindingKind::NoConversation)
    }

    /// Returns whether any finding keeps content from the model.
    pub fn has_harmful_findings(&self) -> bool {
        self.findings.iter().any(|row| row.finding.is_harmful())
    }
}

/// Maximum number of findings of one kind that are listed individually.
const MAX_OF_KIND: usize = 3;

/// Writes the findings about a session.
pub fn write_check(out: &mut dyn Write, checked: &CheckReport, look: &DisplayOptions) -> io::Result<()> {
    let worst = checked.findings.iter().map(|row| row.finding.severity).max();
    let (style, verdict) = match worst {
        Some(Severity::Refusal) => (Style::Error, "does not resume in every client"),
        Some(Severity::Loss) => (Style::Error, "resumes, with losses"),
        Some(Severity::Harmless) if checked.is_empty() => (Style::Dim, "nothing to resume"),
        Some(Severity::Harmless) => (Style::Active, "resumes, with harmless findings"),
        None => (Style::Active, "resumes completely"),
    };
    let id = look.paint(Style::Id, look.sanitize_line(&checked.session));
    write!(out, "{id}  {}", look.paint(style, verdict))?;
    if !checked.title.is_empty() {
        let used = checked.session.chars().count() + verdict.len() + 4;
        write!(
            out,
            "  {}",
            look.paint(Style::Dim, look.truncate(&look.sanitize_line(&checked.title), used))
        )?;
    }
    writeln!(out)?;
    let mut rest = &checked.findings[..];
    while let Some(first) = rest.first() {
        let same = |row: &&FindingRow| {
            (row.kind, row.severity, &row.clients) == (first.kind, first.severity, &first.clients)
        };
        let n = rest.iter().take_while(same).count();
        for row in &rest[..n.min(MAX_OF_KIND)] {
            write_finding(out, row, look)?;
        }
        if n > MAX_OF_KIND {
            let more = format_count((n - MAX_OF_KIND) as u64);
            writeln!(out, "           {}", look.paint(Style::Dim, format!("… and {more} more like this")))?;
        }
        writeln!(out, "           {}", look.paint(Style::Dim, first.hint))?;
        rest = &rest[n..];
    }
    Ok(())
}

fn write_finding(out: &mut dyn Write, row: &FindingRow, look: &DisplayOptions) -> io::Result<()> {
    let style = if row.finding.is_harmful() { Style::Error } else { Style::Dim };
    let severity = look.paint(style, format!("{:<7}", row.severity));
    let line = row.line.map_or(String::new(), |line| format!("line {line}: "));
    let clients = client_versions(&row.finding.clients);
    let clients = if clients.is_empty() { clients } else { format!("  [{clients}]") };
    let text = look.sanitize_line(&format!("{line}{}", row.detail));
    writeln!(out, "  {severity}  {text}{}", look.paint(Style::Dim, clients))
}

/// Describes a set of clients: all, a range of versions, or a list.
fn client_versions(clients: &[Client]) -> String {
    let all = Client::ALL;
    let place = |client: &Client| all.iter().position(|c| c == client);
    match clients {
        [] => String::new(),
        [one] => one.version().to_owned(),
        _ if clients.len() == all.len() => "all clients".to_owned(),
        [first, .., last] => {
            let (from, to) = (place(first).unwrap_or(0), place(last).unwrap_or(0));
            if to - from + 1 == clients.len() {
                format!("{} to {}", first.version(), last.version())
            } else {
                clients.iter().map(|client| client.version()).collect::<Vec<_>>().join(", ")
            }
        }
    }
}
