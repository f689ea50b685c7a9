//! Long strings in fewer words.
//!
//! Of a string that is too long its beginning and its end stay, with a mark between them that says how
//! much is missing. What is no text is left alone: pictures and documents are worth nothing in part,
//! and ids and signatures name something.

use rethread_log::{Json, Span, unescape};

use crate::splice::is_escaped;

/// What a mark is longer than: to cut less would make the string longer.
const MIN_CUT: usize = 40;

/// How a mark begins and ends, as we spell it and as somebody else may have spelled it again.
const MARKS: [[&str; 2]; 2] = [["… [", " characters cut] …"], [r"\u2026 [", r" characters cut] \u2026"]];

/// A piece of a string that goes: where it begins and ends, and of how many characters it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StringCut {
    start: usize,
    end: usize,
    n: usize,
}

impl StringCut {
    /// What stands in its place.
    pub(crate) fn mark(&self) -> String {
        format!("… [{} characters cut] …", self.n)
    }

    /// How long that is.
    fn mark_len(&self) -> usize {
        const AROUND: usize = "… [ characters cut] …".len();
        AROUND + self.n.checked_ilog10().map_or(1, |digits| digits as usize + 1)
    }

    /// By how much it makes the text shorter; never less than nothing.
    pub(crate) fn saved_bytes(&self) -> usize {
        (self.end - self.start).saturating_sub(self.mark_len())
    }

    /// The bytes that go.
    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.start..self.end
    }

    /// The same in something longer, in which the value begins at `start`.
    pub(crate) fn shifted(self, start: usize) -> Self {
        Self { start: self.start + start, end: self.end + start, ..self }
    }
}

/// A cut in a part of an entry; it is counted from the beginning of the entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartCut {
    /// The block that it is in, by place, or [`COPY`].
    pub(crate) part: u32,
    pub(crate) cut: StringCut,
}

/// The client's copy of a result.
pub(crate) const RESULT_COPY: u32 = u32::MAX;

/// Finds what goes of the strings of a JSON value that have more characters than `limit`.
pub(crate) fn cuts(value: &[u8], limit: usize) -> Vec<StringCut> {
    let mut cuts = Vec::new();
    if value.len() <= limit + MIN_CUT {
        return cuts;
    }
    let mut key: &[u8] = b"";
    let mut at = 0;
    // Most values are a string and nothing else.
    let alone = (value.starts_with(b"\"") && value.ends_with(b"\"")).then_some((0, value.len()));
    let several = alone.is_none().then(|| strings(value)).into_iter().flatten();
    for (start, end) in alone.into_iter().chain(several) {
        let inner = &value[start + 1..end - 1];
        // What stands behind a closing bracket is not that object's.
        if value[at..start].iter().any(|b| matches!(b, b'}' | b']')) {
            key = b"";
        }
        let behind = value[end..].iter().find(|b| !b.is_ascii_whitespace());
        if behind == Some(&b':') {
            key = inner;
        } else if inner.len() > limit + MIN_CUT && !is_identifier_key(key) {
            cuts.extend(cut(inner, limit).map(|cut| cut.shifted(start + 1)));
        }
        at = end;
    }
    cuts
}

/// The same of a block: of what a call was given, or of what a result says.
pub(crate) fn cuts_of_block(block: &[u8], limit: usize) -> Vec<StringCut> {
    let json = Json::new(block);
    let Some(value) = json.get("input").or_else(|| json.get("content")) else { return Vec::new() };
    let start = value.raw().as_ptr().addr() - block.as_ptr().addr();
    let cuts = cuts(value.raw(), limit);
    cuts.into_iter().map(|cut| cut.shifted(start)).collect()
}

/// What is cut out of a part of something, as if that stood alone.
pub(crate) fn cuts_within(span: Span, cuts: &[PartCut]) -> Vec<StringCut> {
    let (start, end) = (span.start(), span.start() + span.len());
    // They are in the order of their bytes and do not overlap.
    let first = cuts.partition_point(|cut| cut.cut.start < start);
    let inside = cuts[first..].iter().map(|cut| cut.cut).take_while(|cut| cut.end <= end);
    inside.map(|cut| StringCut { start: cut.start - start, end: cut.end - start, n: cut.n }).collect()
}

/// How long something is without what is cut out of it.
pub(crate) fn len_without<'c>(len: usize, cuts: impl IntoIterator<Item = &'c StringCut>) -> usize {
    len - cuts.into_iter().map(StringCut::saved_bytes).sum::<usize>()
}

/// A value with marks in place of what is cut out of it.
pub(crate) fn apply_cuts(value: &[u8], cuts: &[StringCut]) -> Vec<u8> {
    let mut out = Vec::with_capacity(len_without(value.len(), cuts));
    let mut done = 0;
    for cut in cuts {
        out.extend_from_slice(&value[done..cut.start]);
        out.extend_from_slice(cut.mark().as_bytes());
        done = cut.end;
    }
    out.extend_from_slice(&value[done..]);
    out
}

/// Shortens all strings of a JSON value that have more characters than `limit`; returns nothing if
/// there is none.
pub(crate) fn shorten(value: &[u8], limit: usize) -> Option<Vec<u8>> {
    Some(cuts(value, limit)).filter(|cuts| !cuts.is_empty()).map(|cuts| apply_cuts(value, &cuts))
}

/// Shortens what a call was given, or what a result says; returns nothing if that is short.
pub(crate) fn shorten_block(block: &[u8], limit: usize) -> Option<Vec<u8>> {
    Some(cuts_of_block(block, limit)).filter(|cuts| !cuts.is_empty()).map(|cuts| apply_cuts(block, &cuts))
}

/// The strings of a JSON value, names too: where each begins and ends, with its quotes.
pub(crate) fn strings(value: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', &value[at..])?;
        at = string_end(value, start)?;
        Some((start, at))
    })
}

/// The place behind the string that begins with a quote at `start`.
fn string_end(value: &[u8], start: usize) -> Option<usize> {
    let inside = value.get(start + 1..)?;
    memchr::memchr_iter(b'"', inside)
        .find(|&quote| !is_escaped(inside, quote))
        .map(|quote| start + 1 + quote + 1)
}

/// Fields whose strings are names, not texts.
fn is_identifier_key(key: &[u8]) -> bool {
    let names =
        [&b"id"[..], b"ids", b"uuid", b"type", b"signature", b"encrypted_content", b"encrypted_index"];
    let ends = [&b"_id"[..], b"Id", b"ID", b"_ids", b"Ids", b"Uuid", b"UUID", b"_type", b"Type"];
    names.contains(&key) || ends.iter().any(|end| key.ends_with(end))
}

/// Finds what goes of the inside of a string, as it is spelled.
fn cut(inner: &[u8], limit: usize) -> Option<StringCut> {
    let n = n_chars(inner);
    if n <= limit + MIN_CUT || is_base64(inner) {
        return None;
    }
    let (head, tail) = (limit - limit / 3, limit / 3);
    let start = char_offset(inner, head);
    // What was cut so before stays so.
    for [begins, ends] in MARKS {
        let marked = inner[start..].strip_prefix(begins.as_bytes());
        let end = marked.and_then(|marked| {
            let at = memchr::memmem::find(marked, ends.as_bytes())?;
            Some(&marked[at + ends.len()..])
        });
        if end.is_some_and(|end| n_chars(end) == tail) {
            return None;
        }
    }
    let near = tail_start(inner, start, tail);
    let end = near.unwrap_or_else(|| start + char_offset(&inner[start..], n - head - tail));
    Some(StringCut { start, end, n: n - limit })
}

/// Finds where the last `tail` characters begin, not before `start`, without going over all of a string;
/// nothing if that cannot be told.
fn tail_start(inner: &[u8], start: usize, tail: usize) -> Option<usize> {
    let from = inner.len().checked_sub(2 * tail + 256).filter(|&from| from > start)?;
    // No escape goes over a space.
    let from = from + memchr::memchr(b' ', &inner[from..from + 128])?;
    let n = n_chars(&inner[from..]);
    Some(from + char_offset(&inner[from..], n.checked_sub(tail)?))
}

/// How many characters the inside of a string stands for.
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

/// The same of a text all of whose escapes have two bytes, none of them a backslash's; nothing of others.
///
/// Escapes stand close together in many logs, so they are counted and not looked for.
fn n_simple(inner: &[u8]) -> Option<usize> {
    let mut n = 0;
    let mut odd = false;
    // So few at once that a byte can count them, which is what makes this fast.
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
        odd |= others != 0;
    }
    (!odd).then_some(n)
}

/// How many characters a text without escapes has: bytes that begin one.
fn n_plain(text: &[u8]) -> usize {
    let begins = |some: &[u8]| some.iter().fold(0u8, |n, &b| n + u8::from((b & 0xc0) != 0x80));
    text.chunks(255).map(|some| usize::from(begins(some))).sum()
}

/// Where the character number `n` of the inside of a string begins, or its end.
fn char_offset(inner: &[u8], mut n: usize) -> usize {
    let mut at = 0;
    while n > 0 && at < inner.len() {
        // No character has less than a byte, so pieces of so many are passed over as a whole.
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

/// How many bytes the first character of the inside of a string is spelled with.
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

/// Tells whether bytes are base64 and nothing else, all kinds of letters among them.
pub(crate) fn is_strict_base64(bytes: &[u8]) -> bool {
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    padding <= 2
        && body.chunks(256).all(|piece| piece.iter().fold(true, |all, &b| all & is_base64_digit(b)))
        && body.iter().any(u8::is_ascii_uppercase)
        && body.iter().any(u8::is_ascii_lowercase)
        && body.iter().any(u8::is_ascii_digit)
}

/// Without a branch, so that many are looked at at once.
fn is_base64_digit(b: u8) -> bool {
    ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'/') < 11) | (b == b'+')
}

/// Tells whether the inside of a string is data in disguise.
fn is_base64(inner: &[u8]) -> bool {
    let named = inner.strip_prefix(b"data:");
    let named = named.and_then(|rest| Some(&rest[memchr::memmem::find(rest, b";base64,")? + 8..]));
    let data = named.unwrap_or(inner);
    let plain = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    // Words have spaces, so most texts are known by their first ones.
    if !data.trim_ascii_end().iter().all(|b| plain(b) || *b == b'\\') {
        return false;
    }
    let text = unescape(data);
    let text = text.trim_end();
    // Lines of base64 are long.
    text.bytes().all(|b| plain(&b) || matches!(b, b'\n' | b'\r'))
        && text.lines().map(str::len).max().unwrap_or(0) >= 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(value: &serde_json::Value, limit: usize) -> serde_json::Value {
        let bytes = value.to_string().into_bytes();
        let once = shorten(&bytes, limit).unwrap_or(bytes);
        assert_eq!(shorten(&once, limit), None, "twice changes nothing more");
        serde_json::from_slice(&once).expect("JSON")
    }

    #[test]
    fn texts_are_cut_and_data_and_ids_are_not() {
        let long = "wörd \"x\" ".repeat(50);
        let data = "iVBORw0KGgo".repeat(40);
        let value = serde_json::json!({
            "command": long, "id": "x y ".repeat(60), "list": [long, 1.50, null, "short"],
            "source": { "data": data, "type": "base64" }, "url": format!("data:image/png;base64,{data}"),
        });
        let cut = short(&value, 60);
        let wanted = format!(
            "{}… [390 characters cut] …{}",
            &long.chars().take(40).collect::<String>(),
            &long.chars().skip(430).collect::<String>()
        );
        assert_eq!(cut["command"], wanted);
        assert_eq!(cut["list"], serde_json::json!([wanted, 1.50, null, "short"]));
        for same in ["id", "source", "url"] {
            assert_eq!(cut[same], value[same]);
        }
    }

    #[test]
    fn any_limit_is_stable() {
        for limit in [0, 1, 2, 3, 7, 50] {
            let cut = short(&serde_json::json!("a b c d ".repeat(40)), limit);
            assert!(cut.as_str().expect("a string").chars().count() <= limit + MIN_CUT, "{cut}");
        }
        assert_eq!(short(&serde_json::json!("x".repeat(59)), 20), "x".repeat(59));
    }

    #[test]
    fn a_name_is_only_what_is_called_so() {
        let long = "some words ".repeat(20);
        let value = serde_json::json!({ "grid": long, "list": [{ "id": "x" }, long], "agentId": long });
        let cut = short(&value, 20);
        assert_ne!(cut["grid"], long);
        assert_ne!(cut["list"][1], long);
        assert_eq!(cut["agentId"], long);
    }

    #[test]
    fn what_is_left_is_spelled_as_it_was() {
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
    fn what_is_no_json_is_left_alone() {
        assert_eq!(shorten(b"\"abc", 1), None);
        assert_eq!(shorten(b"", 1), None);
    }
}
