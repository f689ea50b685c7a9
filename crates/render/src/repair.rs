//! The changes of a repair, line by line.

use std::io::{self, Write};

use rethread_edit::Change;

use crate::text::{DisplayOptions, Style};

/// Bytes of a line shown around a change.
const CONTEXT_BYTES: usize = 56;
/// Maximum bytes shown of a line that is added or removed as a whole.
const MAX_SHOWN_BYTES: usize = 160;

/// Writes the changes, showing only the differing part of each line.
pub fn write_repair(out: &mut dyn Write, changes: &[Change], look: &DisplayOptions) -> io::Result<()> {
    for change in changes {
        let place = match change.before {
            Some(_) => format!("line {}", change.line),
            None => format!("after line {}", change.line),
        };
        writeln!(out, "{}  {}", look.paint(Style::Id, place), look.paint(Style::Dim, change.reason.name()))?;
        let (before, after) = match (change.before.as_deref(), change.after.as_deref()) {
            (Some(before), Some(after)) => differing(before, after),
            (before, after) => {
                (before.map(|b| cut(b, 0, MAX_SHOWN_BYTES)), after.map(|a| cut(a, 0, MAX_SHOWN_BYTES)))
            }
        };
        for (mark, text, style) in [("-", before, Style::Error), ("+", after, Style::Active)] {
            if let Some(text) = text {
                writeln!(out, "  {}", look.paint(style, format!("{mark} {}", look.sanitize_line(&text))))?;
            }
        }
    }
    Ok(())
}

/// Returns the differing parts of two lines, with some context.
fn differing(before: &[u8], after: &[u8]) -> (Option<String>, Option<String>) {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (rest_before, rest_after) = (&before[same..], &after[same..]);
    let tail = rest_before.iter().rev().zip(rest_after.iter().rev()).take_while(|(a, b)| a == b).count();
    let start = same.saturating_sub(CONTEXT_BYTES);
    let end = |line: &[u8]| (line.len() - tail + CONTEXT_BYTES).min(line.len());
    let shown = |line: &[u8]| cut(&line[..end(line)], start, MAX_SHOWN_BYTES + 2 * CONTEXT_BYTES);
    (Some(shown(before)), Some(shown(after)))
}

fn cut(line: &[u8], start: usize, len: usize) -> String {
    let end = (start + len).min(line.len());
    let text = String::from_utf8_lossy(&line[start..end]);
    let before = if start > 0 { "…" } else { "" };
    let behind = if end < line.len() { "…" } else { "" };
    format!("{before}{}{behind}", text.trim_end())
}
