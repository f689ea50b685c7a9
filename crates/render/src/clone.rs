//! The result of a clone, for a terminal and as JSON.

use std::io::{self, Write};

use rethread_edit::CloneCounts;
use rethread_model::ByteCounts;

use crate::rows::{BytesByKind, CloneRow, RemovedCounts};
use crate::text::{DisplayOptions, Style, format_bytes, format_count};

/// Writes the summary of a clone, before and after. `resume` says how to resume it, ready for printing.
pub fn write_clone(
    out: &mut dyn Write,
    row: &CloneRow,
    dry_run: bool,
    resume: Option<&str>,
    look: &DisplayOptions,
) -> io::Result<()> {
    if dry_run {
        write_byte_table(out, row, look)?;
    }
    let size = format!("{} → {}", format_bytes(row.bytes_before), format_bytes(row.bytes_after));
    let by = match (row.tokens_by.before, row.tokens_by.after) {
        (before, after) if before == after => before.to_owned(),
        (before, after) => format!("{before}, then {after}"),
    };
    let context =
        format!("{} → {} tokens ({by})", format_count(row.tokens_before), format_count(row.tokens_after));
    writeln!(out, "{}  {size}", look.paint(Style::Dim, "size   "))?;
    writeln!(out, "{}  {context}", look.paint(Style::Dim, "context"))?;
    let turns =
        if row.turns == 1 { "1 turn".to_owned() } else { format!("{} turns", format_count(row.turns)) };
    writeln!(out, "{}  {turns}{}", look.paint(Style::Dim, "content"), sidecar_counts(row))?;
    let left_out = removed_counts(row);
    if !left_out.is_empty() {
        writeln!(out, "{}  {}", look.paint(Style::Dim, "removed"), left_out.join(", "))?;
    }
    if let Some(removed) = &row.removed_file {
        writeln!(out, "{}  {}", look.paint(Style::Dim, "kept in"), look.sanitize_line(removed))?;
    }
    if let Some(path) = &row.path {
        writeln!(out, "{}", look.sanitize_line(path))?;
    }
    if let Some(resume) = resume {
        writeln!(out, "{resume}")?;
    }
    Ok(())
}

fn sidecar_counts(row: &CloneRow) -> String {
    let some = |n: Option<u64>, one: &str, many: &str| match n {
        None | Some(0) => String::new(),
        Some(1) => format!(", 1 {one}"),
        Some(n) => format!(", {} {many}", format_count(n)),
    };
    let results = some(row.tool_results, "large result", "large results");
    format!("{}{results}", some(row.subagents, "subagent", "subagents"))
}

fn removed_counts(row: &CloneRow) -> Vec<String> {
    let removed = &row.removed;
    [
        (removed.turns, "turn (condensed)", "turns (condensed)"),
        (removed.calls, "tool call", "tool calls"),
        (removed.shortened, "tool call in part", "tool calls in part"),
        (removed.thinking, "thinking block", "thinking blocks"),
        (removed.entries, "conversation entry", "conversation entries"),
        (removed.records, "other entry", "other entries"),
    ]
    .into_iter()
    .filter(|(n, ..)| *n > 0)
    .map(|(n, one, many)| format!("{} {}", format_count(n), if n == 1 { one } else { many }))
    .collect()
}

/// Writes a table of bytes by kind of content.
fn write_byte_table(out: &mut dyn Write, row: &CloneRow, look: &DisplayOptions) -> io::Result<()> {
    let head = format!("{:<18} {:>10} {:>10} {:>12} {:>12}", "", "before", "after", "≈ tokens", "after");
    writeln!(out, "{}", look.paint(Style::Dim, head.trim_end()))?;
    for kind in row.bytes_by.iter().filter(|kind| kind.before + kind.after > 0) {
        let name = ByteCounts::label(kind.kind).unwrap_or(kind.kind);
        // The token cost of an image or document does not depend on its bytes.
        let tokens = |n: u64| match (kind.sent, kind.kind) {
            (true, "media") if n > 0 => "?".to_owned(),
            (true, _) => format_count(n / 4),
            (false, _) => "–".to_owned(),
        };
        let (before, after) = (format_bytes(kind.before), format_bytes(kind.after));
        let (tokens_before, tokens_after) = (tokens(kind.before), tokens(kind.after));
        writeln!(out, "{name:<18} {before:>10} {after:>10} {tokens_before:>12} {tokens_after:>12}")?;
    }
    let text = "token counts are for the whole file; `context` is what is sent";
    writeln!(out, "{}\n", look.paint(Style::Dim, text))
}

impl From<&CloneCounts> for RemovedCounts {
    fn from(counts: &CloneCounts) -> Self {
        Self {
            entries: counts.entries,
            records: counts.records,
            turns: counts.turns,
            calls: counts.calls,
            shortened: counts.shortened,
            thinking: counts.thinking,
            mended: counts.repaired,
            added: counts.added.total(),
            unreadable: counts.unreadable,
        }
    }
}

impl BytesByKind {
    /// Compares the content of a session before and after.
    pub fn compare(before: &ByteCounts, after: &ByteCounts) -> Vec<Self> {
        let is_sent = |kind: &str| {
            matches!(kind, "text" | "thinking" | "tool_input" | "tool_result" | "media" | "attachments")
        };
        let both = before.by_kind().into_iter().zip(after.by_kind());
        both.map(|((kind, before), (_, after))| Self { kind, before, after, sent: is_sent(kind) }).collect()
    }
}
