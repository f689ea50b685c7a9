//! Shortening of long strings.
//!
//! The beginning and the end of a string that is too long are kept, with a mark between them that gives the
//! number of missing characters. Strings that are not text are left alone: part of an image or document is
//! useless, and ids and signatures must match exactly.

use rethread_log::{Json, Span};

use crate::base64::is_loose_base64_string;
use crate::splice::{RangeReplacer, is_escaped};

/// More characters than a mark has: cutting fewer would make the string longer.
const MIN_CUT: usize = 40;

/// Start and end of a mark, as we write it and as another program may have re-encoded it.
const MARKS: [[&str; 2]; 2] = [["… [", " characters cut] …"], [r"\u2026 [", r" characters cut] \u2026"]];

/// A removed piece of a string: start, end and number of characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StringCut {
    start: usize,
    end: usize,
    n: usize,
}

impl StringCut {
    /// Returns the mark that replaces it.
    pub(crate) fn mark(&self) -> String {
        format!("… [{} characters cut] …", self.n)
    }

    /// Returns the length of the mark in bytes.
    fn mark_len(&self) -> usize {
        const AROUND: usize = "… [ characters cut] …".len();
        AROUND + self.n.checked_ilog10().map_or(1, |digits| digits as usize + 1)
    }

    /// Returns the number of bytes saved, at least 0.
    pub(crate) fn saved_bytes(&self) -> usize {
        (self.end - self.start).saturating_sub(self.mark_len())
    }

    /// Returns the removed bytes.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// Returns the cut relative to a larger text in which the value begins at `start`.
    pub(crate) fn shifted(self, start: usize) -> Self {
        Self { start: self.start + start, end: self.end + start, ..self }
    }
}

/// A cut in a part of an entry, relative to the start of the entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartCut {
    /// Index of the block that it is in, or [`RESULT_COPY`].
    pub(crate) part: u32,
    pub(crate) cut: StringCut,
}

/// The client's copy of a result.
pub(crate) const RESULT_COPY: u32 = u32::MAX;

/// Finds the cuts in strings of a JSON value that have more than `limit` characters.
pub(crate) fn cuts(value: &[u8], limit: usize) -> Vec<StringCut> {
    let mut cuts = Vec::new();
    if value.len() <= limit + MIN_CUT {
        return cuts;
    }
    let mut key: &[u8] = b"";
    let mut at = 0;
    // Most values are a single string.
    let single = (value.starts_with(b"\"") && value.ends_with(b"\"")).then_some((0, value.len()));
    let others = single.is_none().then(|| strings(value)).into_iter().flatten();
    for (start, end) in single.into_iter().chain(others) {
        let inner = &value[start + 1..end - 1];
        // A value after a closing bracket does not belong to the last key.
        if value[at..start].iter().any(|b| matches!(b, b'}' | b']')) {
            key = b"";
        }
        let next = value[end..].iter().find(|b| !b.is_ascii_whitespace());
        if next == Some(&b':') {
            key = inner;
        } else if inner.len() > limit + MIN_CUT && !is_identifier_key(key) {
            cuts.extend(cut(inner, limit).map(|cut| cut.shifted(start + 1)));
        }
        at = end;
    }
    cuts
}

/// Finds the cuts in a block: in the input of a call or the content of a result.
pub(crate) fn cuts_of_block(block: &[u8], limit: usize) -> Vec<StringCut> {
    let json = Json::new(block);
    let Some(value) = json.get("input").or_else(|| json.get("content")) else { return Vec::new() };
    let start = Span::of_part(value.raw(), block).start();
    let cuts = cuts(value.raw(), limit);
    cuts.into_iter().map(|cut| cut.shifted(start)).collect()
}

/// Returns the cuts inside `span`, relative to its start.
pub(crate) fn cuts_within(span: Span, cuts: &[PartCut]) -> Vec<StringCut> {
    let (start, end) = (span.start(), span.end());
    // They are in byte order and do not overlap.
    let first = cuts.partition_point(|cut| cut.cut.start < start);
    let inside = cuts[first..].iter().map(|cut| cut.cut).take_while(|cut| cut.end <= end);
    inside.map(|cut| StringCut { start: cut.start - start, end: cut.end - start, n: cut.n }).collect()
}

/// Returns a length after cuts are applied.
pub(crate) fn len_without<'c>(len: usize, cuts: impl IntoIterator<Item = &'c StringCut>) -> usize {
    len - cuts.into_iter().map(StringCut::saved_bytes).sum::<usize>()
}

/// Applies cuts to a value.
pub(crate) fn apply_cuts(value: &[u8], cuts: &[StringCut]) -> Vec<u8> {
    let mut replacer = RangeReplacer::with_capacity(value, len_without(value.len(), cuts));
    for cut in cuts {
        replacer.replace(cut.range(), cut.mark().as_bytes());
    }
    replacer.finish().unwrap_or_else(|| value.to_vec())
}

/// Shortens all strings of a JSON value that have more than `limit` characters; `None` if there are none.
pub(crate) fn shorten(value: &[u8], limit: usize) -> Option<Vec<u8>> {
    Some(cuts(value, limit)).filter(|cuts| !cuts.is_empty()).map(|cuts| apply_cuts(value, &cuts))
}

/// Shortens the input of a call or the content of a result; `None` if all its strings are short.
pub(crate) fn shorten_block(block: &[u8], limit: usize) -> Option<Vec<u8>> {
    Some(cuts_of_block(block, limit)).filter(|cuts| !cuts.is_empty()).map(|cuts| apply_cuts(block, &cuts))
}

/// Iterates over the strings of a JSON value, keys included: start and end of each, with its quotes.
pub(crate) fn strings(value: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', &value[at..])?;
        at = string_end(value, start)?;
        Some((start, at))
    })
}

/// Returns the offset after the string that begins with a quote at `start`.
fn string_end(value: &[u8], start: usize) -> Option<usize> {
    let inside = value.get(start + 1..)?;
    memchr::memchr_iter(b'"', inside)
        .find(|&quote| !is_escaped(inside, quote))
        .map(|quote| start + 1 + quote + 1)
}

/// Returns whether strings under this key are identifiers, not text.
fn is_identifier_key(key: &[u8]) -> bool {
    let names =
        [&b"id"[..], b"ids", b"uuid", b"type", b"signature", b"encrypted_content", b"encrypted_index"];
    let ends = [&b"_id"[..], b"Id", b"ID", b"_ids", b"Ids", b"Uuid", b"UUID", b"_type", b"Type"];
    names.contains(&key) || ends.iter().any(|end| key.ends_with(end))
}

/// Finds the cut in the inside of a string as written in JSON.
fn cut(inner: &[u8], limit: usize) -> Option<StringCut> {
    let n = n_chars(inner);
    if n <= limit + MIN_CUT || is_loose_base64_string(inner) {
        return None;
    }
    let (head, tail) = (limit - limit / 3, limit / 3);
    let start = char_offset(inner, head);
    // A string that was cut to this limit before is kept.
    for [mark_start, mark_end] in MARKS {
        let marked = inner[start..].strip_prefix(mark_start.as_bytes());
        let end = marked.and_then(|marked| {
            let at = memchr::memmem::find(marked, mark_end.as_bytes())?;
            Some(&marked[at + mark_end.len()..])
        });
        if end.is_some_and(|end| n_chars(end) == tail) {
            return None;
        }
    }
    let near = tail_start(inner, start, tail);
    let end = near.unwrap_or_else(|| start + char_offset(&inner[start..], n - head - tail));
    Some(StringCut { start, end, n: n - limit })
}

/// Finds the start of the last `tail` characters, not before `start`, without scanning the whole string; `None`
/// if it cannot be determined.
fn tail_start(inner: &[u8], start: usize, tail: usize) -> Option<usize> {
    let from = inner.len().checked_sub(2 * tail + 256).filter(|&from| from > start)?;
    // No escape spans a space.
    let from = from + memchr::memchr(b' ', &inner[from..from + 128])?;
    let n = n_chars(&inner[from..]);
    Some(from + char_offset(&inner[from..], n.checked_sub(tail)?))
}

/// Returns the number of characters that the inside of a string encodes.
fn n_chars(inner: &[u8]) -> usize {
    if let Some(n) = n_simple(inner) {
        return n;
    }
    let (mut n, mut at) = (0, 0);
    while let Some(escape) = memchr::memchr(b'\\', &inner[at..]).map(|escape| at + escape) {
        n += n_plain(&inner[at..escape]) + 1;
        at = escape + char_len(&inner[escape..]);
    }
    n + n_plain(&inner[at..])
}

/// Returns the number of characters of a text whose escapes all have two bytes and none of which is an escaped
/// backslash; otherwise `None`.
///
/// Escapes are dense in many logs, so they are counted, not searched for.
fn n_simple(inner: &[u8]) -> Option<usize> {
    let mut n = 0;
    let mut complex = false;
    // Chunks are so small that a byte can count them, which makes this fast.
    for (at, some) in inner.chunks(255).enumerate() {
        let next = inner.get(at * 255 + 1..).unwrap_or_default();
        let (mut begin, mut escapes, mut others) = (0u8, 0u8, 0u8);
        for (&b, &then) in some.iter().zip(next) {
            begin += u8::from((b & 0xc0) != 0x80);
            escapes += u8::from(b == b'\\');
            others |= u8::from(b == b'\\') & u8::from((then == b'\\') | (then == b'u'));
        }
        if next.len() < some.len() {
            begin += u8::from((some[some.len() - 1] & 0xc0) != 0x80);
        }
        n += usize::from(begin) - usize::from(escapes);
        complex |= others != 0;
    }
    (!complex).then_some(n)
}

/// Returns the number of characters of a text without escapes: bytes that begin one.
fn n_plain(text: &[u8]) -> usize {
    let begins = |some: &[u8]| some.iter().fold(0u8, |n, &b| n + u8::from((b & 0xc0) != 0x80));
    text.chunks(255).map(|some| usize::from(begins(some))).sum()
}

/// Returns the offset of character number `n` of the inside of a string, or its end.
fn char_offset(inner: &[u8], mut n: usize) -> usize {
    let mut at = 0;
    while n > 0 && at < inner.len() {
        // Every character has at least one byte, so `n` bytes can be skipped as a whole.
        let mut end = inner.len().min(at + n.min(512));
        end = (end + usize::from(is_escaped(&inner[at..], end - at))).min(inner.len());
        while inner.get(end).is_some_and(|b| b & 0xc0 == 0x80) {
            end += 1;
        }
        match n_simple(&inner[at..end]) {
            Some(passed) => {
                n -= passed.min(n);
                at = end;
            }
            None => {
                while n > 0 && at < end {
                    at += char_len(&inner[at..]);
                    n -= 1;
                }
            }
        }
    }
    at
}

/// Returns the encoded length in bytes of the first character of the inside of a string.
fn char_len(inner: &[u8]) -> usize {
    let surrogate = |at: usize, of: &[u8]| {
        let digits = inner.get(at..at + 4).filter(|rest| rest[..2] == *b"\\u");
        digits.is_some_and(|d| matches!(d[2], b'd' | b'D') && of.contains(&d[3].to_ascii_lowercase()))
    };
    let len = match inner {
        [b'\\', b'u', ..] if surrogate(0, b"89ab") && surrogate(6, b"cdef") => 12,
        [b'\\', b'u', ..] => 6,
        [b'\\', ..] => 2,
        _ => 1 + inner[1..].iter().take_while(|b| **b & 0xc0 == 0x80).count(),
    };
    len.min(inner.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(value: &serde_json::Value, limit: usize) -> serde_json::Value {
        let bytes = value.to_string().into_bytes();
        let once = shorten(&bytes, limit).unwrap_or(bytes);
        assert_eq!(shorten(&once, limit), None, "shortening twice changes nothing");
        serde_json::from_slice(&once).expect("JSON")
    }

    #[test]
    fn text_is_cut_but_data_and_ids_are_not() {
        let long = "wörd \"x\" ".repeat(50);
        let data = "iVBORw0KGgo".repeat(40);
        let value = serde_json::json!({
            "command": long, "id": "x y ".repeat(60), "list": [long, 1.50, null, "short"],
            "source": { "data": data, "type": "base64" }, "url": format!("data:image/png;base64,{data}"),
        });
        let cut = short(&value, 60);
        let expected = format!(
            "{}… [390 characters cut] …{}",
            &long.chars().take(40).collect::<String>(),
            &long.chars().skip(430).collect::<String>()
        );
        assert_eq!(cut["command"], expected);
        assert_eq!(cut["list"], serde_json::json!([expected, 1.50, null, "short"]));
        for same in ["id", "source", "url"] {
            assert_eq!(cut[same], value[same]);
        }
    }

    #[test]
    fn shortening_is_idempotent_for_any_limit() {
        for limit in [0, 1, 2, 3, 7, 50] {
            let cut = short(&serde_json::json!("a b c d ".repeat(40)), limit);
            assert!(cut.as_str().expect("a string").chars().count() <= limit + MIN_CUT, "{cut}");
        }
        assert_eq!(short(&serde_json::json!("x".repeat(59)), 20), "x".repeat(59));
    }

    #[test]
    fn identifier_keys_match_exactly() {
        let long = "some words ".repeat(20);
        let value = serde_json::json!({ "grid": long, "list": [{ "id": "x" }, long], "agentId": long });
        let cut = short(&value, 20);
        assert_ne!(cut["grid"], long);
        assert_ne!(cut["list"][1], long);
        assert_eq!(cut["agentId"], long);
    }

    #[test]
    fn kept_text_keeps_its_escapes() {
        let text = r#"a\/b \u00e9\ud83d\ude00 é😀 \"q\" \\ \ud800 "#.repeat(40);
        let value = format!("{{\"x\":\"{text}\"}}");
        let whole: String =
            serde_json::from_str(&format!("\"{}\"", text.replace("\\ud800", "?"))).expect("JSON");
        let n = whole.chars().count();
        assert_eq!(n_chars(text.as_bytes()), n);
        for limit in 0..n - MIN_CUT - 1 {
            let cuts = cuts(value.as_bytes(), limit);
            let cut = cuts[0];
            assert_eq!(cuts.len(), 1, "{limit}");
            assert_eq!(cut.n, n - limit);
            let (head, tail) = (limit - limit / 3, limit / 3);
            assert_eq!(n_chars(&value.as_bytes()[6..cut.start]), head, "{limit}");
            assert_eq!(n_chars(&value.as_bytes()[cut.end..value.len() - 2]), tail, "{limit}");
            let short = apply_cuts(value.as_bytes(), &cuts);
            assert_eq!(short.len(), len_without(value.len(), &cuts));
            let lone = String::from_utf8(short).expect("UTF-8").replace("\\ud800", "?");
            serde_json::from_str::<serde_json::Value>(&lone).expect("JSON");
        }
    }

    #[test]
    fn invalid_json_is_not_shortened() {
        assert_eq!(shorten(b"\"abc", 1), None);
        assert_eq!(shorten(b"", 1), None);
    }
}
