//! The changes of a repair, line by line.

use std::io::{self, Write};

use crate::text::{DisplayOptions, Style};

/// A line that is changed, removed or added.
#[derive(Debug, Clone, Copy)]
pub struct LineChange<'a> {
    /// The line in the source, or the one after which it is added.
    pub line: u32,
    /// The defect that it repairs.
    pub reason: &'a str,
    /// The original line; none if it is added.
    pub before: Option<&'a [u8]>,
    /// The new line; none if it is removed.
    pub after: Option<&'a [u8]>,
}

/// Bytes of a line shown around a change.
const CONTEXT_BYTES: usize = 56;
/// Maximum bytes shown of a line that is added or removed as a whole.
const MAX_SHOWN_BYTES: usize = 160;

/// Writes the changes, showing only the differing part of each line.
pub fn write_repair(out: &mut dyn Write, lines: &[LineChange<'_>], look: &DisplayOptions) -> io::Result<()> {
    for line in lines {
        let place = match line.before {
            Some(_) => format!("line {}", line.line),
            None => format!("after line {}", line.line),
        };
        writeln!(out, "{}  {}", look.paint(Style::Id, place), look.paint(Style::Dim, line.reason))?;
        let (before, after) = match (line.before, line.after) {
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
