//! Findings about sessions, for a terminal.

use std::io::{self, Write};

use rethread_model::{CheckReport, Client, Finding, FindingKind, Severity};

use crate::fields::{FieldWriter, layout_width, wrap_items};
use crate::rows::FindingHint;
use crate::text::{DisplayOptions, Style, format_count, truncate};

/// Writes the findings about a session, those of one kind together, worst first; `hint` words the advice for each
/// kind.
pub fn write_check(
    out: &mut dyn Write,
    checked: &CheckReport,
    hint: FindingHint<'_>,
    look: &DisplayOptions,
) -> io::Result<()> {
    write_head(out, checked, look)?;
    let mut groups: Vec<(FindingKind, Severity, Vec<&Finding>)> = Vec::new();
    for finding in &checked.findings {
        let key = (finding.kind, finding.severity);
        match groups.iter_mut().find(|(kind, severity, _)| (*kind, *severity) == key) {
            Some((.., group)) => group.push(finding),
            None => groups.push((finding.kind, finding.severity, vec![finding])),
        }
    }
    // The verdict says that there is no conversation.
    let is_said = |kind: FindingKind| kind == FindingKind::NoConversation && !checked.has_harmful_findings();
    for (kind, severity, group) in groups {
        if is_said(kind) {
            continue;
        }
        let mut fields = FieldWriter { out, look, label_width: LABEL };
        write_group(&mut fields, severity, &group)?;
        fields.text("", Style::Dim, hint(kind))?;
    }
    Ok(())
}

/// The width of the severities.
const LABEL: usize = 8;

/// Returns a sentence on whether a session with these findings resumes.
pub fn verdict(findings: &[Finding]) -> (Style, &'static str) {
    let has_conversation = !findings.iter().any(|finding| finding.kind == FindingKind::NoConversation);
    match findings.iter().map(|finding| finding.severity).max() {
        Some(Severity::Refusal) => (Style::Error, "does not resume in every client"),
        Some(Severity::Loss) => (Style::Error, "resumes, with losses"),
        Some(Severity::Harmless) if !has_conversation => {
            (Style::Dim, "nothing to resume: there are no messages")
        }
        Some(Severity::Harmless) => (Style::Active, "resumes completely"),
        None => (Style::Active, "resumes completely, no findings"),
    }
}

/// Writes the verdict on a session, its id and its title.
fn write_head(out: &mut dyn Write, checked: &CheckReport, look: &DisplayOptions) -> io::Result<()> {
    let (style, verdict) = verdict(&checked.findings);
    let id = look.sanitize_line(checked.session.as_str());
    let title = look.sanitize_line(&checked.title.text);
    if checked.findings.is_empty() {
        return writeln!(out, "{}  {}", look.paint(Style::Id, id), look.paint(style, verdict));
    }
    let used = id.chars().count() + 2;
    write!(out, "{}", look.paint(Style::Id, &id))?;
    // A title that does not fit next to the id gets a line of its own.
    match layout_width(look).saturating_sub(used) {
        _ if title.is_empty() => writeln!(out)?,
        room if room >= 30 => writeln!(out, "  {}", look.paint(Style::Title, truncate(&title, room)))?,
        room => writeln!(out, "\n{}", look.paint(Style::Title, truncate(&title, room + used)))?,
    }
    writeln!(out, "{}", look.paint(style, verdict))
}

/// Writes findings of one kind: the first description, the lines, and the affected clients.
fn write_group(fields: &mut FieldWriter<'_>, severity: Severity, group: &[&Finding]) -> io::Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let look = fields.look;
    let style = if first.is_harmful() { Style::Error } else { Style::Plain };
    let more = match group.len() {
        1 => String::new(),
        n => format!(" (and {} more like this)", format_count(n as u64 - 1)),
    };
    let text = look.sanitize_line(&format!("{}{more}", first.detail));
    fields.text(severity.word(), style, &text)?;
    let lines = line_numbers(group.iter().filter_map(|finding| finding.line).collect());
    let mut places: Vec<String> = lines.into_iter().collect();
    let mut clients: Vec<Client> = group.iter().flat_map(|finding| finding.clients.iter().copied()).collect();
    clients.sort_by_key(|client| place_of(*client));
    clients.dedup();
    places.extend(Some(client_versions(&clients)).filter(|clients| !clients.is_empty()));
    let width = fields.value_width();
    fields.lines("", Style::Dim, wrap_items(places.iter().map(String::as_str), " · ", width))
}

/// Lists the first of some lines, and the number of others.
pub(crate) fn line_numbers(mut lines: Vec<u32>) -> Option<String> {
    const FIRST: usize = 6;
    lines.sort_unstable();
    lines.dedup();
    let shown: Vec<String> = lines.iter().take(FIRST).map(u32::to_string).collect();
    let shown = shown.join(", ");
    match lines.len() {
        0 => None,
        1 => Some(format!("line {shown}")),
        n if n > FIRST => Some(format!("lines {shown} and {} more", format_count((n - FIRST) as u64))),
        _ => Some(format!("lines {shown}")),
    }
}

fn place_of(client: Client) -> usize {
    Client::ALL.iter().position(|c| *c == client).unwrap_or(0)
}

/// Describes a set of clients: all, a range of versions, or a list.
fn client_versions(clients: &[Client]) -> String {
    match clients {
        [] => String::new(),
        [one] => format!("client {}", one.version()),
        _ if clients.len() == Client::ALL.len() => "all clients".to_owned(),
        [first, .., last] => {
            let (from, to) = (place_of(*first), place_of(*last));
            if to - from + 1 == clients.len() {
                format!("clients {} to {}", first.version(), last.version())
            } else {
                let versions: Vec<_> = clients.iter().map(|client| client.version()).collect();
                format!("clients {}", versions.join(", "))
            }
        }
    }
}
