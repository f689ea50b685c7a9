//! Sessions described for a person, and their inventory, for a terminal.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_model::{
    ByteCounts, Finding, Inventory, LinkCounts, OriginKind, SessionInfo, SessionOverview, Severity, ShortIds,
    Time, ToolCallCounts, Usage,
};
use unicode_width::UnicodeWidthStr;

use crate::check::verdict;
use crate::fields::{FieldWriter, layout_width};
use crate::ls::shown_id;
use crate::text::{
    DisplayOptions, Style, format_amount, format_bytes, format_count, format_duration, pad, pad_left, plural,
    truncate,
};

/// Commands and advice of the front end, ready for printing.
#[derive(Debug, Clone, Default)]
pub struct InfoHints {
    /// The command that resumes the session.
    pub resume: Option<String>,
    /// The reason why it cannot be resumed on this machine.
    pub not_resumable: Option<String>,
    /// The command that lists the findings, if there are any.
    pub findings: Option<String>,
}

/// Writes what a person wants to know about a session.
pub fn write_overview(
    out: &mut dyn Write,
    overview: &SessionOverview,
    hints: &InfoHints,
    look: &DisplayOptions,
) -> io::Result<()> {
    let SessionOverview { summary, info, .. } = overview;
    write_heading(out, overview, look)?;
    writeln!(out)?;
    let mut fields = FieldWriter { out, look, label_width: LABEL };
    fields.lines("project", Style::Plain, [look.sanitize_line(&summary.project())])?;
    if let Some(branch) = &summary.git_branch {
        fields.text("branch", Style::Plain, &look.sanitize_line(branch))?;
    }
    if let (Some(first), Some(last)) = (summary.created, summary.modified) {
        fields.text("active", Style::Plain, &time_span(first, last, look))?;
    }
    let names = |names: &[String]| names.iter().map(|name| look.sanitize_line(name)).collect::<Vec<_>>();
    fields.items("models", &first_items(names(&summary.models)), ", ")?;
    fields.items("clients", &first_items(names(&summary.versions)), ", ")?;
    write_content(&mut fields, &info.inventory)?;
    if overview.context_tokens > 0 {
        let by = if overview.context_is_recorded { "" } else { " (estimated)" };
        let tokens = format_amount(overview.context_tokens);
        fields.text("context", Style::Plain, &format!("{tokens} tokens on resume{by}"))?;
    }
    write_usage(&mut fields, &info.inventory.usage)?;
    write_size(&mut fields, &info.inventory)?;
    if let Some(origin) = summary.origin.as_ref().filter(|origin| origin.kind != OriginKind::Fork) {
        let time = origin.time.map_or_else(String::new, |time| format!(", {}", look.format_time(Some(time))));
        let text = format!("{} ({}{time})", origin.source, origin.kind.name());
        fields.text("made from", Style::Plain, &look.sanitize_line(&text))?;
    }
    for (label, other) in [("fork of", &info.forked_from), ("goes on in", &info.continued_in)] {
        if let Some(other) = other {
            fields.text(label, Style::Id, &look.sanitize_line(other.as_str()))?;
        }
    }
    fields.lines("file", Style::Plain, [look.sanitize_line(&summary.path.to_string_lossy())])?;
    write_findings(&mut fields, &overview.findings, hints)
}

/// The width of the labels.
const LABEL: usize = 10;

/// Writes the title and the id.
fn write_heading(out: &mut dyn Write, overview: &SessionOverview, look: &DisplayOptions) -> io::Result<()> {
    let summary = &overview.summary;
    let width = layout_width(look);
    let line = |text: &str| truncate(&look.sanitize_line(text), width);
    let title = if summary.title.text.is_empty() { "(no title)" } else { &summary.title.text };
    writeln!(out, "{}", look.paint(Style::Title, line(title)))?;
    writeln!(out, "{}", look.paint(Style::Id, line(summary.id.as_str())))?;
    Ok(())
}

/// Describes when a session was active: from, to, and for how long.
fn time_span(first: Time, last: Time, look: &DisplayOptions) -> String {
    let (from, to) = (look.format_time(Some(first)), look.format_time(Some(last)));
    let seconds = last.millis().saturating_sub(first.millis()).max(0) / 1000;
    let ago = Some(look.format_ago(Some(last))).filter(|ago| ago.ends_with("ago") || ago == "yesterday");
    let ago = ago.map_or(String::new(), |ago| format!(" ({ago})"));
    match from == to {
        true => format!("{from}{ago}"),
        // The day is not repeated.
        false => {
            let day = |time: &str| time.rsplit_once(' ').map_or(String::new(), |(day, _)| day.to_owned());
            let to = if day(&from) == day(&to) { to[day(&to).len()..].trim() } else { &to };
            format!("{from} to {to}, {}{ago}", format_duration(seconds))
        }
    }
}

/// Keeps the first items of a list, and counts the others.
fn first_items(mut items: Vec<String>) -> Vec<String> {
    const FIRST: usize = 8;
    let more = items.len().saturating_sub(FIRST);
    items.truncate(FIRST);
    if more > 0 {
        items.push(format!("{more} more"));
    }
    items
}

/// Writes the shape of the conversation, and the most frequent tools.
fn write_content(fields: &mut FieldWriter<'_>, inventory: &Inventory) -> io::Result<()> {
    let branches = if inventory.tips == 1 { "1 branch" } else { &format!("{} branches", inventory.tips) };
    let mut content = vec![
        plural(inventory.turns, "turn").to_string(),
        plural(inventory.messages.total(), "message").to_string(),
        branches.to_owned(),
    ];
    for (n, word) in [
        (inventory.tool_calls.total, "tool call"),
        (inventory.compactions, "compaction"),
        (inventory.subagents, "subagent"),
    ] {
        if n > 0 {
            content.push(plural(n, word).to_string());
        }
    }
    fields.items("content", &content, " · ")?;
    let tools = sorted(&inventory.tool_calls.by_name);
    let look = fields.look;
    let tool = |(name, n): &(&String, u64)| format!("{} {}", look.sanitize_line(name), format_count(*n));
    fields.items("tools", &first_items(tools.iter().map(tool).collect()), ", ")
}

/// Writes the tokens that were used, each message once.
fn write_usage(fields: &mut FieldWriter<'_>, usage: &Usage) -> io::Result<()> {
    if *usage == Usage::default() {
        return Ok(());
    }
    let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
    let mut items = vec![
        format!("{} in", format_amount(usage.input)),
        format!("{} out", format_amount(usage.output)),
        format!("{} written to cache", format_amount(written)),
        format!("{} read from cache", format_amount(usage.cache_read)),
    ];
    if usage.web > 0 {
        items.push(plural(usage.web, "web request").to_string());
    }
    fields.items("tokens", &items, " · ")
}

/// Returns the bytes of a file by kind of content, largest first; everything that only the client reads is one kind.
fn content_sizes(bytes: &ByteCounts) -> Vec<(&'static str, u64)> {
    let of_client = [bytes.envelope, bytes.metadata, bytes.snapshots, bytes.progress, bytes.requests];
    let mut parts = vec![
        ("text", bytes.text),
        ("thinking", bytes.thinking + bytes.signatures),
        ("tool calls", bytes.tool_input),
        ("tool results", bytes.tool_result + bytes.tool_use_result),
        ("images and documents", bytes.media),
        ("attachments", bytes.attachments),
        ("bookkeeping", of_client.iter().sum()),
        ("unreadable", bytes.junk),
    ];
    parts.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    parts
}

/// Writes the size of the file and the largest kinds of content in it.
fn write_size(fields: &mut FieldWriter<'_>, inventory: &Inventory) -> io::Result<()> {
    const LARGEST: usize = 4;
    let parts = content_sizes(&inventory.bytes_by);
    let share = |n: u64| (n as f64 * 100.0 / inventory.bytes.max(1) as f64).round() as u64;
    let shown: Vec<_> = parts.iter().take(LARGEST).filter(|&&(_, n)| share(n) > 0).collect();
    let mut items: Vec<String> = shown.iter().map(|(what, n)| format!("{what} {} %", share(*n))).collect();
    let rest = inventory.bytes.saturating_sub(shown.iter().map(|(_, n)| n).sum());
    if share(rest) > 0 && !items.is_empty() {
        items.push(format!("other {} %", share(rest)));
    }
    match items.first_mut() {
        Some(first) => first.insert_str(0, &format!("{}: ", format_bytes(inventory.bytes))),
        None => items.push(format_bytes(inventory.bytes)),
    }
    fields.items("size", &items, ", ")
}

/// Writes whether the session resumes, and the number of findings by severity.
fn write_findings(fields: &mut FieldWriter<'_>, findings: &[Finding], hints: &InfoHints) -> io::Result<()> {
    let (style, text) = verdict(findings);
    let count = |severity: Severity| {
        let n = findings.iter().filter(|finding| finding.severity == severity).count();
        (n > 0).then(|| format!("{} {}", format_count(n as u64), severity.word()))
    };
    let counts: Vec<String> =
        [Severity::Refusal, Severity::Loss, Severity::Harmless].into_iter().filter_map(count).collect();
    let counts =
        if counts.is_empty() { String::new() } else { format!(" (findings: {})", counts.join(", ")) };
    fields.text("check", style, &format!("{text}{counts}"))?;
    if let Some(hint) = hints.findings.as_ref().filter(|_| !findings.is_empty()) {
        fields.text("", Style::Dim, hint)?;
    }
    if let Some(resume) = &hints.resume {
        fields.lines("resume", Style::Plain, [resume.clone()])?;
    }
    if let Some(reason) = &hints.not_resumable {
        fields.text("resume", Style::Dim, reason)?;
    }
    Ok(())
}

/// Returns counts, largest first.
fn sorted(counts: &BTreeMap<String, u64>) -> Vec<(&String, u64)> {
    let mut counts: Vec<_> = counts.iter().map(|(name, &n)| (name, n)).filter(|&(_, n)| n > 0).collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    counts
}

/// Writes the counts of several sessions together.
pub fn write_total(
    out: &mut dyn Write,
    sessions: usize,
    total: &Inventory,
    look: &DisplayOptions,
) -> io::Result<()> {
    let head = format!("{} in total", plural(sessions as u64, "session"));
    writeln!(out, "{}\n", look.paint(Style::Title, head))?;
    let mut fields = FieldWriter { out, look, label_width: LABEL };
    let names = |counts: &BTreeMap<String, u64>| {
        let real =
            sorted(counts).into_iter().filter(|(name, _)| !matches!(name.as_str(), "None" | "<synthetic>"));
        first_items(real.map(|(name, _)| look.sanitize_line(name)).collect())
    };
    fields.items("models", &names(&total.models), ", ")?;
    fields.items("clients", &names(&total.versions), ", ")?;
    write_content(&mut fields, total)?;
    write_usage(&mut fields, &total.usage)?;
    write_size(&mut fields, total)?;
    match defects_of(total) {
        0 => Ok(()),
        n => fields.text("defects", Style::Error, &format!("{} in the files", format_count(n))),
    }
}

/// Writes everything that was counted: entries, blocks, links, bytes and defects.
pub fn write_statistics(out: &mut dyn Write, inventory: &Inventory, look: &DisplayOptions) -> io::Result<()> {
    writeln!(out, "{}", look.paint(Style::Title, "Statistics"))?;
    let mut fields = FieldWriter { out, look, label_width: WIDE_LABEL };
    let entries: u64 = inventory.entries.values().sum();
    let lines = format!("{}, {} entries", plural(inventory.lines, "line"), format_count(entries));
    fields.text("file", Style::Plain, &format!("{} bytes, {lines}", format_count(inventory.bytes)))?;
    let messages = &inventory.messages;
    let assistant = messages.assistant + messages.assistant_without_id;
    let text = format!("{} user, {} assistant", format_count(messages.user), format_count(assistant));
    fields.text("messages", Style::Plain, &text)?;
    write_counts(&mut fields, "entries", &inventory.entries)?;
    write_counts(&mut fields, "system", &inventory.system)?;
    write_counts(&mut fields, "blocks", &inventory.blocks)?;
    write_calls(&mut fields, &inventory.tool_calls)?;
    write_counts(&mut fields, "models", &inventory.models)?;
    write_counts(&mut fields, "versions", &inventory.versions)?;
    write_counts(&mut fields, "stop reasons", &inventory.stop_reasons)?;
    write_links(&mut fields, &inventory.chain, inventory.forks)?;
    write_exact_usage(&mut fields, &inventory.usage)?;
    write_counts(&mut fields, "unknown types", &inventory.unknown.types)?;
    write_counts(&mut fields, "unknown fields", &inventory.unknown.fields)?;
    write_byte_shares(&mut fields, inventory)?;
    write_defects(&mut fields, inventory)
}

/// The width of the labels of the statistics.
const WIDE_LABEL: usize = 14;

/// Returns the number of defects, listed or not.
fn defects_of(inventory: &Inventory) -> u64 {
    inventory.defects.len() as u64 + inventory.defects_omitted
}

fn write_calls(fields: &mut FieldWriter<'_>, calls: &ToolCallCounts) -> io::Result<()> {
    let mut text = format!("{}, {} with a result", format_count(calls.total), format_count(calls.paired));
    if !calls.orphan_uses.is_empty() {
        text += &format!(", {} without", calls.orphan_uses.len());
    }
    if !calls.multiple_results.is_empty() {
        text += &format!(", {} with several", calls.multiple_results.len());
    }
    if !calls.orphan_results.is_empty() {
        text += &format!("; {} without a call", plural(calls.orphan_results.len() as u64, "result"));
    }
    fields.text("tool calls", Style::Plain, &text)?;
    write_counts(fields, "tools", &calls.by_name)
}

/// Writes the parents of entries by their position, and the forks.
fn write_links(fields: &mut FieldWriter<'_>, chain: &LinkCounts, forks: u64) -> io::Result<()> {
    let links: BTreeMap<String, u64> = [
        ("parent is the previous entry", chain.previous),
        ("parent is another entry", chain.other),
        ("no parent", chain.null),
        ("no parent field", chain.missing),
        ("parent not in the file", chain.dangling),
        ("linked across a compaction", chain.logical),
        ("linked by file order", chain.inferred),
        ("forks", forks),
    ]
    .map(|(name, n)| (name.to_owned(), n))
    .into();
    write_counts(fields, "chain", &links)
}

/// Writes the defects of the file. A total only counts them.
fn write_defects(fields: &mut FieldWriter<'_>, inventory: &Inventory) -> io::Result<()> {
    let look = fields.look;
    let mut label = "defects";
    for defect in &inventory.defects {
        let text = look.sanitize_line(&format!("line {}: {}", defect.line, defect.detail));
        fields.text(label, Style::Error, &text)?;
        label = "";
    }
    match (inventory.defects_omitted, inventory.defects.is_empty()) {
        (0, _) => Ok(()),
        (n, true) => fields.text("defects", Style::Error, &format!("{} in total", format_count(n))),
        (n, false) => fields.text("", Style::Error, &format!("and {} more", format_count(n))),
    }
}

/// Writes counts, largest first.
fn write_counts(fields: &mut FieldWriter<'_>, label: &str, counts: &BTreeMap<String, u64>) -> io::Result<()> {
    // A log can contain any number of distinct names; only the most frequent are listed.
    const MAX_NAMES: usize = 100;
    let counts = sorted(counts);
    let look = fields.look;
    let item = |(what, n): &(&String, u64)| format!("{} {}", look.sanitize_line(what), format_count(*n));
    let mut items: Vec<String> = counts.iter().take(MAX_NAMES).map(item).collect();
    if counts.len() > MAX_NAMES {
        items.push(format!("{} more", counts.len() - MAX_NAMES));
    }
    fields.items(label, &items, ", ")
}

fn write_exact_usage(fields: &mut FieldWriter<'_>, usage: &Usage) -> io::Result<()> {
    if *usage == Usage::default() {
        return Ok(());
    }
    let written = usage.cache_write_5m.saturating_add(usage.cache_write_1h);
    let text = format!(
        "{} in, {} out, {} written to cache, {} read from cache",
        format_count(usage.input),
        format_count(usage.output),
        format_count(written),
        format_count(usage.cache_read),
    );
    fields.text("tokens", Style::Plain, &text)
}

/// Writes the bytes by kind of content, with a bar for each share.
fn write_byte_shares(fields: &mut FieldWriter<'_>, inventory: &Inventory) -> io::Result<()> {
    let mut parts: Vec<_> = inventory.bytes_by.by_label().into_iter().filter(|&(_, n)| n > 0).collect();
    parts.sort_by_key(|&(_, n)| std::cmp::Reverse(n));
    let look = fields.look;
    let room = fields.value_width().saturating_sub(36).min(20);
    let mut label = "bytes";
    for (what, n) in parts {
        let share = n as f64 / inventory.bytes.max(1) as f64;
        let bar = "█".repeat((share * room as f64).round() as usize);
        let (name, size) = (pad(what, 18), pad_left(&format_bytes(n), 7));
        let text = format!("{name} {size} {:>5.1} %  {}", share * 100.0, look.paint(Style::Abandoned, bar));
        fields.lines(label, Style::Plain, [text.trim_end().to_owned()])?;
        label = "";
    }
    Ok(())
}

/// A column of the table of sessions: its head and its cell. The first are the most useful.
type InfoColumn = (&'static str, fn(&Inventory) -> String);

/// The columns, in the order in which they are shown.
const COLUMNS: [InfoColumn; 7] = [
    ("SIZE", |i| format_bytes(i.bytes)),
    ("TURNS", |i| format_count(i.turns)),
    ("BRANCHES", |i| format_count(i.tips)),
    ("DEFECTS", |i| if defects_of(i) > 0 { format_count(defects_of(i)) } else { String::new() }),
    ("MESSAGES", |i| format_count(i.messages.total())),
    ("CALLS", |i| format_count(i.tool_calls.total)),
    ("ENTRIES", |i| format_count(i.entries.values().sum())),
];

/// The width of a column.
const CELL: usize = 8;
/// The head of the ids.
const ID_HEAD: &str = "SESSION";

/// Writes one line per session. Ids are shortened for a terminal to what names the session among `ids`. Columns for
/// which there is no room are left out, last ones first.
pub fn write_info_table(
    out: &mut dyn Write,
    infos: &[SessionInfo],
    ids: &ShortIds,
    look: &DisplayOptions,
) -> io::Result<()> {
    let width = layout_width(look);
    let whole = infos.iter().map(|info| info.id.as_str().width()).max().unwrap_or(0);
    let has_room = whole + COLUMNS.len() * (CELL + 1) <= width;
    let shown = |info: &SessionInfo| match has_room {
        true => look.sanitize_line(info.id.as_str()),
        false => look.sanitize_line(shown_id(info.id.as_str(), ids, look)),
    };
    let id_width = infos.iter().map(|info| shown(info).width()).max().unwrap_or(0).max(ID_HEAD.len());
    let id_width = look.width.map_or(id_width, |_| id_width.min(width.saturating_sub(CELL + 1)));
    let n = (width.saturating_sub(id_width) / (CELL + 1)).clamp(1, COLUMNS.len());
    let columns = &COLUMNS[..n];
    let id = |text: &str| pad(&truncate(text, id_width), id_width);
    let head: String = columns.iter().map(|(head, _)| format!(" {}", pad_left(head, CELL))).collect();
    writeln!(out, "{}", look.paint(Style::Dim, id(ID_HEAD) + &head))?;
    for info in infos {
        let cell = |(_, cell): &InfoColumn| format!(" {}", pad_left(&cell(&info.inventory), CELL));
        let cells: String = columns.iter().map(cell).collect();
        writeln!(out, "{}{}", look.paint(Style::Id, id(&shown(info))), cells.trim_end())?;
    }
    Ok(())
}
