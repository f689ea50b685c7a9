//! The changes of a repair: by finding, and line by line.

use std::collections::BTreeMap;
use std::io::{self, Write};

use rethread_edit::{Change, LineCounts, Repaired};
use rethread_model::FindingKind;

use crate::check::line_numbers;
use crate::fields::{FieldWriter, layout_width};
use crate::text::{DisplayOptions, Style, format_count, truncate};

/// Maximum bytes of a line shown around a change.
const MAX_CONTEXT: usize = 56;
/// Maximum bytes shown of a line that is added or removed as a whole.
const MAX_SHOWN_BYTES: usize = 160;

/// Writes the number of changed lines, and which of them repair which kind of finding.
pub fn write_repair_summary(
    out: &mut dyn Write,
    repaired: &Repaired,
    dry_run: bool,
    look: &DisplayOptions,
) -> io::Result<()> {
    let LineCounts { changed, added, dropped } = repaired.line_counts();
    let verb = match (dry_run, changed) {
        (true, _) => "would be",
        (false, 1) => "was",
        (false, _) => "were",
    };
    let [changed_n, added, dropped] = [changed, added, dropped].map(|n| format_count(n as u64));
    let lines = if changed == 1 { "line" } else { "lines" };
    writeln!(out, "{changed_n} {lines} {verb} changed, {added} added, {dropped} dropped")?;
    if repaired.reordered {
        writeln!(out, "the lines {verb} put in order first; line numbers refer to the reordered log")?;
    }
    let mut by_kind: BTreeMap<(bool, FindingKind), Vec<u32>> = BTreeMap::new();
    for change in &repaired.changes {
        // An added line has no number; that of the finding tells what it is for.
        let line = change.finding_line.filter(|_| change.before.is_none()).unwrap_or(change.line);
        by_kind.entry((is_for_older_clients(change), change.reason)).or_default().push(line);
    }
    let mut fields = FieldWriter { out, look, label_width: LABEL };
    for ((for_older_clients, kind), lines) in by_kind {
        let lines = line_numbers(lines).unwrap_or_default();
        let note = if for_older_clients { OLDER_CLIENTS } else { "" };
        fields.text(&kind.name().replace('_', " "), Style::Plain, &(lines + note))?;
    }
    Ok(())
}

/// Explains a change that repairs no finding for the clients in use.
const OLDER_CLIENTS: &str = ", so that older clients resume the same";

/// Clients in use find all parallel calls.
fn is_for_older_clients(change: &Change) -> bool {
    change.for_older_clients || change.reason == FindingKind::ParallelCalls
}

/// The width of the names of kinds.
const LABEL: usize = 18;

/// Writes the changes, showing only the differing part of each line.
pub fn write_repair(out: &mut dyn Write, changes: &[Change], look: &DisplayOptions) -> io::Result<()> {
    let width = layout_width(look).saturating_sub(4);
    let context = look.width.map_or(MAX_CONTEXT, |_| (width / 3).min(MAX_CONTEXT));
    for change in changes {
        let place = match change.before {
            Some(_) => format!("line {}", change.line),
            None => format!("after line {}", change.line),
        };
        let kind = change.reason.name().replace('_', " ");
        // A line that is only relinked belongs to the finding about another line.
        let of = change.finding_line.filter(|&line| line != change.line);
        let of = match of {
            Some(line) => format!(" of line {line}"),
            None if is_for_older_clients(change) => OLDER_CLIENTS.to_owned(),
            None => String::new(),
        };
        writeln!(out, "{}  {}", look.paint(Style::Id, place), look.paint(Style::Dim, kind + &of))?;
        let (before, after) = match (change.before.as_deref(), change.after.as_deref()) {
            (Some(before), Some(after)) => differing(before, after, context),
            (before, after) => {
                (before.map(|b| cut(b, 0, MAX_SHOWN_BYTES)), after.map(|a| cut(a, 0, MAX_SHOWN_BYTES)))
            }
        };
        for (mark, text, style) in [("-", before, Style::Error), ("+", after, Style::Active)] {
            if let Some(text) = text {
                let text = look.sanitize_line(&text);
                let text = if look.width.is_some() { truncate(&text, width) } else { text };
                writeln!(out, "  {}", look.paint(style, format!("{mark} {text}")))?;
            }
        }
    }
    Ok(())
}

/// Returns the differing parts of two lines, with some context.
fn differing(before: &[u8], after: &[u8], context: usize) -> (Option<String>, Option<String>) {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (rest_before, rest_after) = (&before[same..], &after[same..]);
    let tail = rest_before.iter().rev().zip(rest_after.iter().rev()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(context);
    let end = |line: &[u8]| (line.len() - tail + context).min(line.len());
    let shown = |line: &[u8]| cut(&line[..end(line)], start, MAX_SHOWN_BYTES + 2 * context);
    (Some(shown(before)), Some(shown(after)))
}

fn cut(line: &[u8], start: usize, len: usize) -> String {
    let end = (start + len).min(line.len());
    let text = String::from_utf8_lossy(&line[start..end]);
    let before = if start > 0 { "…" } else { "" };
    let behind = if end < line.len() { "…" } else { "" };
    format!("{before}{}{behind}", text.trim_end())
}
