//! Changes inside one line: values are replaced, all other bytes are kept.

use std::borrow::Cow;
use std::ops::Range;

use rethread_log::{Key, Line, Span, parse_entry, unescape};

/// A line whose values are to be changed.
pub(crate) struct Splice<'a> {
    pub(crate) raw: &'a [u8],
    pub(crate) line: Line,
    /// Replacements, unordered.
    changes: Vec<SplicedValue<'a>>,
    /// Removed members, unordered.
    removed: Vec<(usize, usize)>,
}

/// A replacement of some bytes. A value may be very long, so it is not copied where that can be avoided.
struct SplicedValue<'a> {
    start: usize,
    end: usize,
    with: Cow<'a, [u8]>,
    /// Further pieces that follow `with`.
    more: Vec<Cow<'a, [u8]>>,
}

impl<'a> Splice<'a> {
    /// Parses one entry.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        Self { raw, line, changes: Vec::new(), removed: Vec::new() }
    }

    /// Replaces a span.
    pub(crate) fn replace(&mut self, span: Span, with: impl Into<Cow<'a, [u8]>>) {
        self.replace_bytes(span.start(), span.end(), with);
    }

    /// Replaces a span by several pieces in order.
    pub(crate) fn replace_by_pieces(&mut self, span: Span, pieces: Vec<Cow<'a, [u8]>>) {
        let (start, end) = (span.start(), span.end());
        self.changes.push(SplicedValue { start, end, with: Cow::default(), more: pieces });
    }

    /// Replaces a range of bytes.
    pub(crate) fn replace_bytes(&mut self, start: usize, end: usize, with: impl Into<Cow<'a, [u8]>>) {
        self.changes.push(SplicedValue { start, end, with: with.into(), more: Vec::new() });
    }

    fn insert(&mut self, at: usize, key: &str, value: &[u8]) {
        let mut member = format!("\"{key}\":").into_bytes();
        member.extend_from_slice(value);
        member.push(b',');
        self.replace_bytes(at, at, member);
    }

    /// Sets a field of the entry, adding the field if it is missing.
    pub(crate) fn set(&mut self, key: Key, value: Vec<u8>) {
        let span = self.line.field(key);
        if span.is_empty() {
            let start = self.raw.iter().position(|&b| b == b'{').unwrap_or(0);
            self.insert(start + 1, key.name(), &value);
        } else {
            self.replace(span, value);
        }
    }

    /// Sets a field of the message. An entry without a message is not changed.
    pub(crate) fn set_in_message(&mut self, key: &str, span: Span, value: Vec<u8>) {
        let Some(message) = self.line.message else { return };
        if span.is_empty() {
            self.insert(message.whole.start() + 1, key, &value);
        } else {
            self.replace(span, value);
        }
    }

    /// Removes a field, with its key and a comma.
    pub(crate) fn remove(&mut self, key: Key) {
        let span = self.line.field(key);
        if span.is_empty() {
            return;
        }
        self.removed.push((member_start(self.raw, span), span.end()));
    }

    /// Returns the line with its changes.
    #[cfg(test)]
    pub(crate) fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.raw.len() + 64);
        self.write(&mut out);
        out
    }

    /// Writes the line with its changes.
    pub(crate) fn write(mut self, out: &mut Vec<u8>) {
        self.removed.sort_unstable();
        for (start, end) in include_commas(self.raw, &self.removed) {
            self.replace_bytes(start, end, Vec::new());
        }
        apply(self.raw, self.changes, out);
    }
}

/// Returns whether the byte at an offset of a JSON text is escaped: an odd number of backslashes precedes it.
pub(crate) fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|b| **b == b'\\').count() % 2 == 1
}

/// Returns the start of an object member, which is its key, given its value.
pub(crate) fn member_start(raw: &[u8], value: Span) -> usize {
    let before = |end: usize| end - raw[..end].iter().rev().take_while(|b| b.is_ascii_whitespace()).count();
    let colon = before(value.start());
    // The key ends with a quote before the colon, and may contain escaped quotes.
    let mut name = before(colon.saturating_sub(1)).saturating_sub(1);
    while let Some(quote) = memchr::memrchr(b'"', &raw[..name]) {
        name = quote;
        if !is_escaped(raw, quote) {
            break;
        }
    }
    name
}

/// Extends removed members and items, which are in order, by their commas: of a run of removed neighbours, one
/// comma is kept if others remain on both sides.
pub(crate) fn include_commas(raw: &[u8], removed: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let blank = |b: &u8| b.is_ascii_whitespace();
    let separator = |b: &u8| *b == b',' || blank(b);
    let mut out = Vec::with_capacity(removed.len());
    let mut rest = removed;
    while let Some(&(start, _)) = rest.first() {
        let adjacent = |pair: &[(usize, usize)]| {
            pair[1].0 >= pair[0].1 && raw[pair[0].1..pair[1].0].iter().all(separator)
        };
        let n = 1 + rest.windows(2).take_while(|pair| adjacent(pair)).count();
        let (run, others) = rest.split_at(n);
        rest = others;
        let end = run[n - 1].1;
        let after = end + raw[end..].iter().take_while(|b| blank(b)).count();
        let before = start - raw[..start].iter().rev().take_while(|b| blank(b)).count();
        let (mut at, end) = if raw.get(after) == Some(&b',') {
            (start, after + 1)
        } else if raw[..before].ends_with(b",") {
            (before - 1, end)
        } else {
            (start, end)
        };
        for next in run[1..].iter().map(|&(start, _)| start).chain([end]) {
            out.push((at, next));
            at = next;
        }
    }
    out
}

fn apply(raw: &[u8], mut changes: Vec<SplicedValue<'_>>, out: &mut Vec<u8>) {
    // Of two changes to the same bytes the first one counts.
    changes.sort_by_key(|change| (change.start, change.end));
    out.reserve(raw.len() + 64);
    let mut at = 0;
    for change in changes {
        if change.start < at {
            continue;
        }
        out.extend_from_slice(&raw[at..change.start]);
        out.extend_from_slice(&change.with);
        // Each piece is freed once it is written.
        for piece in change.more {
            out.extend_from_slice(&piece);
        }
        at = change.end;
    }
    out.extend_from_slice(&raw[at..]);
}

/// Copies bytes and replaces ranges of them on the way, in order.
pub(crate) struct RangeReplacer<'a> {
    source: &'a [u8],
    out: Vec<u8>,
    /// The end of the source bytes that were copied or replaced.
    done: usize,
}

impl<'a> RangeReplacer<'a> {
    pub(crate) fn new(source: &'a [u8]) -> Self {
        Self::with_capacity(source, 0)
    }

    /// Creates a replacer whose result has about `n` bytes.
    pub(crate) fn with_capacity(source: &'a [u8], n: usize) -> Self {
        Self { source, out: Vec::with_capacity(n), done: 0 }
    }

    /// Replaces a range that is not empty and does not begin before the end of the last one.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: &[u8]) {
        self.out.extend_from_slice(&self.source[self.done..range.start]);
        self.out.extend_from_slice(with);
        self.done = range.end;
    }

    /// Returns the result, or `None` if nothing was replaced.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        if self.done == 0 {
            return None;
        }
        self.out.extend_from_slice(&self.source[self.done..]);
        Some(self.out)
    }
}

/// Decodes the inside of a string in chunks: it may be very long.
pub(crate) fn text_chunks(inner: &[u8], size: usize) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = inner;
    std::iter::from_fn(move || {
        let (chunk, tail) = rest.split_at_checked(chunk_end(rest, size)).filter(|_| !rest.is_empty())?;
        rest = tail;
        Some(unescape(chunk))
    })
}

/// Returns the end of the first chunk of a string: not inside an escape or a character.
fn chunk_end(inner: &[u8], size: usize) -> usize {
    let limit = size.min(inner.len());
    let mut at = 0;
    while at < limit {
        let Some(slash) = memchr::memchr(b'\\', &inner[at..limit]) else {
            at = limit;
            break;
        };
        at += slash;
        let is_unit = |at: usize| inner.get(at..at + 2) == Some(b"\\u");
        let first_of_two =
            matches!(inner.get(at + 2..at + 4), Some([b'd' | b'D', b'8'..=b'9' | b'a'..=b'b' | b'A'..=b'B']));
        at += match is_unit(at) {
            true if first_of_two && is_unit(at + 6) => 12,
            true => 6,
            false => 2,
        };
    }
    let at = at.min(inner.len());
    at + inner[at..].iter().take_while(|&&b| b & 0xc0 == 0x80).count()
}

/// Encodes a text as a JSON string.
pub(crate) fn json_string(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_fields_change() {
        let raw = br#"{"b" : 1.50, "parentUuid":null,"message":{"content":[{"x":1},2]},"e":"\u00e9"}"#;
        let mut splice = Splice::new(raw);
        splice.set(Key::ParentUuid, json_string("p"));
        splice.set(Key::Uuid, json_string("u"));
        splice.set_in_message("id", Span::default(), json_string("m"));
        let out = String::from_utf8(splice.finish()).expect("UTF-8");
        assert_eq!(
            out,
            r#"{"uuid":"u","b" : 1.50, "parentUuid":"p","message":{"id":"m","content":[{"x":1},2]},"e":"\u00e9"}"#
        );
    }

    #[test]
    fn chunks_of_a_string_join_to_the_same_text() {
        let inner = r#"a\n\ud83d\ude00é\\\"漢\u00e9\ud83d b"#.repeat(3);
        for size in 1..40 {
            let pieces: Vec<_> = text_chunks(inner.as_bytes(), size).collect();
            assert_eq!(pieces.concat(), unescape(inner.as_bytes()), "{size}");
            assert!(pieces.iter().all(|piece| piece.len() < size + 12), "{size}");
        }
        assert_eq!(text_chunks(b"", 4).count(), 0);
        assert_eq!(text_chunks(b"ab\\", 1).collect::<String>(), "ab\u{fffd}");
    }

    #[test]
    fn removed_neighbours_leave_no_stray_comma() {
        let raw = br#"{"sessionId":"s","uuid":"u", "toolUseResult":{"a":1},"sourceToolAssistantUUID":"x"}"#;
        let without = |keys: &[Key]| {
            let mut splice = Splice::new(raw);
            keys.iter().for_each(|&key| splice.remove(key));
            String::from_utf8(splice.finish()).expect("UTF-8")
        };
        assert_eq!(
            without(&[Key::ToolUseResult, Key::SourceToolAssistantUuid]),
            r#"{"sessionId":"s","uuid":"u"}"#
        );
        assert_eq!(
            without(&[Key::SessionId, Key::ToolUseResult]),
            r#"{"uuid":"u", "sourceToolAssistantUUID":"x"}"#
        );
        assert_eq!(
            without(&[Key::SessionId, Key::Uuid, Key::ToolUseResult, Key::SourceToolAssistantUuid]),
            "{}"
        );
    }
}
