//! Finds the end of the value of a name.

use super::value_start::value_on_next_line;
use super::{ValueSpan, is_name, skip};

/// Parses the value of a name that starts at `pos`.
pub(super) fn value_at(bytes: &[u8], pos: usize, name: usize) -> Option<ValueSpan> {
    let mut pos = skip(bytes, pos, 8, b" \t");
    // Markdown emphasis may close after the colon: `**Password:** …`.
    if bytes[pos..].starts_with(b"** ") {
        pos = skip(bytes, pos + 2, 8, b" \t");
    }
    if let Some(b'\r' | b'\n') = bytes.get(pos) {
        pos = value_on_next_line(bytes, pos)?;
    }
    // In YAML it may be on the next line.
    if let Some(b'|' | b'>') = bytes.get(pos) {
        let end = skip(bytes, pos + 1, 3, b"-+ \r");
        pos = if bytes.get(end) == Some(&b'\n') { skip(bytes, end, 40, b" \t\r\n+") } else { pos };
    }
    let prefix = bytes[pos..].iter().take(3).take_while(|b| b"bfruBFRU@$".contains(b)).count();
    let open = if matches!(bytes.get(pos + prefix), Some(b'"' | b'\'')) { pos + prefix } else { pos };
    let slashes = bytes[open..].iter().take_while(|b| **b == b'\\').count();
    match bytes.get(open + slashes) {
        Some(&quote @ (b'"' | b'\'' | b'`')) => {
            let run = bytes[open + slashes..].iter().take(3).take_while(|b| **b == quote).count();
            // An empty string.
            if run == 2 {
                return None;
            }
            let start = open + slashes + run;
            Some(ValueSpan { range: start..quoted_end(bytes, start, quote, slashes), quoted: true })
        }
        _ => Some(ValueSpan { range: pos..plain_end(bytes, pos, name), quoted: false }),
    }
}

/// Returns the end of a quoted value: the next quote with no more backslashes before it than the opening one.
fn quoted_end(bytes: &[u8], start: usize, quote: u8, slashes: usize) -> usize {
    let mut pos = start;
    while let Some(end) = memchr::memchr3(quote, b'\n', b'\\', &bytes[pos..]).map(|found| pos + found) {
        match bytes[end] {
            b'\\' => {
                let run = bytes[end..].iter().take_while(|b| **b == b'\\').count();
                let after = bytes.get(end + run);
                let closes = if slashes == 0 { run.is_multiple_of(2) } else { run <= slashes };
                let line = slashes > 0 && run <= slashes && matches!(after, Some(b'n' | b'r'));
                if after == Some(&quote) && closes || line {
                    return if slashes == 0 { end + run } else { end };
                }
                pos = end + run + usize::from(after == Some(&quote));
            }
            _ => return end,
        }
        if pos >= bytes.len() {
            break;
        }
    }
    bytes.len()
}

/// Returns the end of an unquoted value.
fn plain_end(bytes: &[u8], start: usize, name: usize) -> usize {
    let line = memchr::memrchr(b'\n', &bytes[name.saturating_sub(400)..name])
        .map_or(name.saturating_sub(400), |pos| name.saturating_sub(400) + pos + 1);
    let before = &bytes[line..name];
    // A quote opened before the name ends the value.
    let opened = |quote: u8| before.iter().filter(|b| **b == quote).count() % 2 == 1;
    let inside = [opened(b'"'), opened(b'\''), opened(b'`')];
    // So does a bracket.
    let open = |open: u8, close: u8| {
        let count = |b: u8| before.iter().filter(|a| **a == b).count();
        count(open) > count(close)
    };
    let within = [open(b'(', b')'), open(b'[', b']'), open(b'{', b'}')];
    // In a query string other names follow.
    let query = before.last().is_some_and(|b| b"?&".contains(b));
    let lead: &[u8] = before.trim_ascii();
    // In a setting alone on its line, a final `|` is part of the value.
    let alone = lead.is_empty() || [&b"export"[..], b"set", b"-", b"+", b"ENV", b"ARG", b"$"].contains(&lead);
    // Brackets opened inside the value.
    let mut inner = [0_usize; 3];
    let mut pos = start;
    while let Some(&b) = bytes.get(pos) {
        let next = bytes.get(pos + 1).copied();
        let ends = match b {
            b if b <= b' ' || b == 0x7f => true,
            b'"' => inside[0],
            b'\'' => inside[1],
            b'`' => inside[2],
            b'\\' => next.is_none_or(|next| b"nrt\"'\\u".contains(&next)),
            b'<' => next.is_some_and(|next| next == b'/' || next.is_ascii_alphabetic()),
            b'(' | b'[' | b'{' => {
                inner[bracket(b)] += 1;
                false
            }
            b')' | b']' | b'}' => {
                let own = inner[bracket(b)] > 0;
                inner[bracket(b)] -= usize::from(own);
                !own && within[bracket(b)]
            }
            b'&' => {
                query && begins_name(&bytes[pos + 1..])
                    || next == Some(b'&') && bytes.get(pos + 2).is_none_or(u8::is_ascii_whitespace)
            }
            b';' | b',' | b'|' => {
                let last = next.is_none_or(|next| next.is_ascii_whitespace() || b"\"'`)]}".contains(&next));
                last && !(alone && b == b'|') || b != b'|' && begins_name(&bytes[pos + 1..])
            }
            _ => false,
        };
        if ends {
            break;
        }
        pos += 1;
    }
    pos
}

/// Returns the index of a kind of bracket.
fn bracket(b: u8) -> usize {
    match b {
        b'(' | b')' => 0,
        b'[' | b']' => 1,
        _ => 2,
    }
}

/// Returns whether another name with a separator starts here.
fn begins_name(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"amp;").unwrap_or(bytes);
    let n = bytes.iter().take(40).take_while(|b| is_name(**b) || matches!(b, b'"' | b'\'' | b' ')).count();
    n > 0 && matches!(bytes.get(n), Some(b'=' | b':'))
}
