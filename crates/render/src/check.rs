//! Findings about sessions, for a terminal.

use std::io::{self, Write};

use rethread_model::{CheckReport, Client, Finding, Severity};

use crate::rows::FindingHint;
use crate::text::{DisplayOptions, Style, format_count};

/// Maximum number of findings of one kind that are listed individually.
const MAX_OF_KIND: usize = 3;

/// Writes the findings about a session; `hint` words the advice for each kind.
pub fn write_check(
    out: &mut dyn Write,
    checked: &CheckReport,
    hint: FindingHint<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    write_verdict(out, checked, look)?;
    let mut rest = &checked.findings[..];
    while let Some(first) = rest.first() {
        let same = |finding: &&Finding| {
            (finding.kind, finding.severity, &finding.clients) == (first.kind, first.severity, &first.clients)
        };
        let n = rest.iter().take_while(same).count();
        for finding in &rest[..n.min(MAX_OF_KIND)] {
            write_finding(out, finding, look)?;
        }
        if n > MAX_OF_KIND {
            let more = format_count((n - MAX_OF_KIND) as u64);
            writeln!(out, "           {}", look.paint(Style::Dim, format!("… and {more} more like this")))?;
        }
        writeln!(out, "           {}", look.paint(Style::Dim, hint(first.kind)))?;
        rest = &rest[n..];
    }
    Ok(())
}

/// Writes the line above the findings.
fn write_verdict(out: &mut dyn Write, checked: &CheckReport, look: &DisplayOptions) -> io::Result<()> {
    let (style, verdict) = match checked.severity() {
        Some(Severity::Refusal) => (Style::Error, "does not resume in every client"),
        Some(Severity::Loss) => (Style::Error, "resumes, with losses"),
        Some(Severity::Harmless) if !checked.has_conversation() => (Style::Dim, "nothing to resume"),
        Some(Severity::Harmless) => (Style::Active, "resumes, with harmless findings"),
        None => (Style::Active, "resumes completely"),
    };
    let (id, title) = (checked.session.as_str(), &checked.title.text);
    write!(out, "{}  {}", look.paint(Style::Id, look.sanitize_line(id)), look.paint(style, verdict))?;
    if !title.is_empty() {
        let used = id.chars().count() + verdict.len() + 4;
        write!(out, "  {}", look.paint(Style::Dim, look.truncate(&look.sanitize_line(title), used)))?;
    }
    writeln!(out)
}

fn write_finding(out: &mut dyn Write, finding: &Finding, look: &DisplayOptions) -> io::Result<()> {
    let style = if finding.is_harmful() { Style::Error } else { Style::Dim };
    let severity = look.paint(style, format!("{:<7}", finding.severity.name()));
    let line = finding.line.map_or(String::new(), |line| format!("line {line}: "));
    let clients = client_versions(&finding.clients);
    let clients = if clients.is_empty() { clients } else { format!("  [{clients}]") };
    let text = look.sanitize_line(&format!("{line}{}", finding.detail));
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
