//! Texts with escapes, percent-encoding or base64 decoded, and the mapping back to the source.
//!
//! A secret may be encoded in a way that no pattern matches: in JSON inside JSON, in a query string, in base64. A
//! [`DecodedText`] is a text with one such encoding removed. It maps each byte to its origin, so that a match can
//! be replaced in the source text.

use std::borrow::Cow;
use std::ops::Range;

/// A decoded text.
pub(super) struct DecodedText {
    pub(super) text: String,
    /// The source offset of each byte, and the source length at the end.
    offsets: Vec<u32>,
}

impl DecodedText {
    fn with_capacity(n: usize) -> Self {
        Self { text: String::with_capacity(n), offsets: Vec::with_capacity(n + 1) }
    }

    /// Returns the source range of a part of the text.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        let at = |n: usize| self.offsets.get(n).map_or(0, |&from| from as usize);
        at(range.start)..at(range.end)
    }

    /// Returns the source range of a part of the text, without what was removed after it.
    pub(super) fn kept(&self, range: Range<usize>) -> Range<usize> {
        let last = self.source(range.end.saturating_sub(1)..range.end).start;
        let start = self.source(range.clone()).start;
        if range.is_empty() { start..start } else { start..last + 1 }
    }

    fn copy(&mut self, text: &str, range: Range<usize>) {
        self.text.push_str(&text[range.clone()]);
        self.offsets.extend(range.map(|at| u32::try_from(at).unwrap_or(u32::MAX)));
    }

    fn push(&mut self, c: char, at: usize) {
        self.text.push(c);
        self.offsets.resize(self.text.len(), u32::try_from(at).unwrap_or(u32::MAX));
    }

    fn end(mut self, at: usize) -> Self {
        self.offsets.push(u32::try_from(at).unwrap_or(u32::MAX));
        self
    }
}

/// Texts are decoded in pieces of this size, so that a long text needs little memory.
const PIECE: usize = 1 << 20;
/// The overlap between pieces; no secret is longer.
const OVERLAP: usize = 1 << 15;

/// Splits a text into the pieces that are decoded one at a time.
pub(super) fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = Some(0);
    std::iter::from_fn(move || {
        let start = at?;
        let end = text.ceil_char_boundary((start + PIECE + OVERLAP).min(text.len()));
        at = (end < text.len()).then(|| text.floor_char_boundary(start + PIECE));
        Some(start..end)
    })
}

/// Decodes the escapes of string literals; `None` if there are none.
pub(super) fn unescaped(text: &str) -> Option<DecodedText> {
    let bytes = text.as_bytes();
    let is_escape = |&at: &usize| bytes.get(at + 1).is_some_and(|b| b"\"'nrtbfu/\\x".contains(b));
    memchr::memchr_iter(b'\\', bytes).find(is_escape)?;
    let mut view = DecodedText::with_capacity(text.len());
    let mut done = 0;
    while let Some(slash) = memchr::memchr(b'\\', &bytes[done..]).map(|at| done + at) {
        view.copy(text, done..slash);
        let (c, used) = escape(&bytes[slash..]);
        view.push(c, slash);
        done = slash + used;
    }
    view.copy(text, done..text.len());
    Some(view.end(text.len()))
}

/// Returns the character of an escape and its length; a backslash that starts no escape stands for itself.
fn escape(bytes: &[u8]) -> (char, usize) {
    let simple = match bytes.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b' | b'f') => ' ',
        Some(&b @ (b'"' | b'\'' | b'/' | b'\\')) => b as char,
        Some(b'u') => return parse_unicode_escape(bytes).unwrap_or(('\\', 1)),
        Some(b'x') => {
            let c = hex(bytes.get(2..4)).and_then(char::from_u32).filter(char::is_ascii);
            return c.map_or(('\\', 1), |c| (c, 4));
        }
        _ => return ('\\', 1),
    };
    (simple, 2)
}

/// Parses `\uXXXX`, or a surrogate pair of them.
fn parse_unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let first = hex(bytes.get(2..6))?;
    if let Some(c) = char::from_u32(first) {
        return Some((c, 6));
    }
    let second = bytes.get(6..8).filter(|more| more == b"\\u").and_then(|_| hex(bytes.get(8..12)));
    let both = second.filter(|second| (0xdc00..0xe000).contains(second) && first < 0xdc00);
    let c = both.and_then(|second| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)));
    Some(c.map_or((char::REPLACEMENT_CHARACTER, 6), |c| (c, 12)))
}

fn hex(digits: Option<&[u8]>) -> Option<u32> {
    let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Decodes percent-encoding and visits each line that has some, with its range.
pub(super) fn each_percent(text: &str, mut visit: impl FnMut(Range<usize>, DecodedText)) {
    let bytes = text.as_bytes();
    let mut done = 0;
    while let Some(sign) = memchr::memchr(b'%', &bytes[done..]).map(|at| done + at) {
        if hex(bytes.get(sign + 1..sign + 3)).is_none() {
            done = sign + 1;
            continue;
        }
        let start = memchr::memrchr(b'\n', &bytes[done..sign]).map_or(done, |at| done + at + 1);
        let start = text.ceil_char_boundary(start.max(sign.saturating_sub(OVERLAP)));
        let end = memchr::memchr(b'\n', &bytes[sign..]).map_or(bytes.len(), |at| sign + at);
        let end = text.floor_char_boundary(end.min(sign + PIECE));
        visit(start..end, percent(&text[start..end]));
        done = end;
    }
}

fn percent(line: &str) -> DecodedText {
    let bytes = line.as_bytes();
    let mut view = DecodedText::with_capacity(line.len());
    let mut done = 0;
    for sign in memchr::memchr_iter(b'%', bytes) {
        if sign < done {
            continue;
        }
        let Some((c, used)) = percent_char(&bytes[sign..]) else { continue };
        view.copy(line, done..sign);
        view.push(c, sign);
        done = sign + used;
    }
    view.copy(line, done..line.len());
    view.end(line.len())
}

/// Returns the character that a percent-encoded sequence stands for, and the length of the sequence.
fn percent_char(bytes: &[u8]) -> Option<(char, usize)> {
    let byte = |n: usize| {
        let digits = bytes.get(3 * n..3 * n + 3)?.strip_prefix(b"%")?;
        hex(Some(digits)).and_then(|byte| u8::try_from(byte).ok())
    };
    let first = byte(0)?;
    let n = match first {
        0..0x80 => return Some((char::from(first), 3)),
        0xc2..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf5 => 4,
        _ => return None,
    };
    let mut all = [0; 4];
    for (at, slot) in all[..n].iter_mut().enumerate() {
        *slot = byte(at)?;
    }
    let c = std::str::from_utf8(&all[..n]).ok()?.chars().next()?;
    Some((c, 3 * n))
}

/// Removes the line numbers of a file listing; `None` if there are none, or if no secret in it can span several
/// lines.
pub(super) fn unnumbered(text: &str) -> Option<DecodedText> {
    const SPANS: [&str; 10] = [
        "kind: Secret",
        "value:",
        ": |",
        ": >",
        "Password,",
        "PRIVATE KEY",
        "Private-Lines",
        "machine ",
        "variable \"",
        "assword:",
    ];
    line_number_len(text)?;
    if !SPANS.iter().any(|word| memchr::memmem::find(text.as_bytes(), word.as_bytes()).is_some()) {
        return None;
    }
    let mut view = DecodedText::with_capacity(text.len());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        view.copy(text, at + line_number_len(line).unwrap_or(0)..at + line.len());
        at += line.len();
    }
    Some(view.end(text.len()))
}

/// Returns the length of the number before a line, including the separator.
fn line_number_len(line: &str) -> Option<usize> {
    let digits = line.trim_start_matches(' ');
    let after = digits.trim_start_matches(|c: char| c.is_ascii_digit());
    let sign = ["→", "\t"].iter().find(|sign| after.starts_with(**sign))?;
    (after.len() < digits.len()).then(|| line.len() - after.len() + sign.len())
}

/// Returns whether a text may contain escapes or terminal colours: a fast check, since most texts have neither.
pub(super) fn may_resolve(text: &str) -> bool {
    memchr::memchr3(0x1b, b'\\', b'^', text.as_bytes()).is_some()
}

/// Removes terminal colours and other control sequences; `None` if there are none.
pub(super) fn uncoloured(text: &str) -> Option<DecodedText> {
    let bytes = text.as_bytes();
    let mut view: Option<DecodedText> = None;
    let mut done = 0;
    for sign in memchr::memchr3_iter(0x1b, b'\\', b'^', bytes) {
        let n = if sign < done { 0 } else { control(&bytes[sign..]) };
        if n > 0 {
            view.get_or_insert_with(|| DecodedText::with_capacity(text.len())).copy(text, done..sign);
            done = sign + n;
        }
    }
    let mut view = view?;
    view.copy(text, done..text.len());
    Some(view.end(text.len()))
}

/// Returns the length of the control sequence at the start of a text, raw or as written in source code; 0 if there
/// is none.
fn control(bytes: &[u8]) -> usize {
    const SIGNS: [&[u8]; 4] = [b"\x1b", b"\\033", b"\\e", b"^["];
    let Some(sign) = SIGNS.iter().find(|sign| bytes.starts_with(sign)) else { return 0 };
    match &bytes[sign.len()..] {
        // Selects a character set.
        [b'(' | b')', b'0' | b'A' | b'B', ..] if sign.len() == 1 => sign.len() + 2,
        [b'[', rest @ ..] => {
            let n = rest.iter().take(64).take_while(|b| matches!(b, b' '..=b'?')).count();
            rest.get(n).filter(|last| matches!(last, b'@'..=b'~')).map_or(0, |_| sign.len() + n + 2)
        }
        _ => 0,
    }
}

/// The shortest base64 that is decoded, in characters.
const MIN_BASE64: usize = 24;
/// The distance between the sampled blocks; a block has `MIN_BASE64 - STEP` bytes.
const STEP: usize = 16;
/// At most this much of a run is decoded.
const MAX_BASE64: usize = 64 * 1024 / 3 * 4;
/// Marks a byte that is not a base64 digit.
const NONE: u8 = 0xff;

const DIGITS: [u8; 256] = {
    let mut digits = [NONE; 256];
    let mut n = 0;
    while n < 26 {
        digits[b'A' as usize + n as usize] = n;
        digits[b'a' as usize + n as usize] = n + 26;
        n += 1;
    }
    let mut n = 0;
    while n < 10 {
        digits[b'0' as usize + n as usize] = n + 52;
        n += 1;
    }
    digits[b'+' as usize] = 62;
    digits[b'-' as usize] = 62;
    digits[b'/' as usize] = 63;
    digits[b'_' as usize] = 63;
    digits
};

fn is_digit(b: u8) -> bool {
    DIGITS[usize::from(b)] != NONE
}

/// Decodes base64 in a text, one level deep, and visits each result that is text, with its range.
pub(super) fn each_base64(text: &str, mut visit: impl FnMut(Range<usize>, &str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    // A run that is long enough covers one of the sampled blocks.
    while let Some(block) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        if has_space(*block) || !block.iter().all(|b| is_digit(*b)) {
            at += STEP;
            continue;
        }
        let start = at - bytes[..at].iter().rev().take_while(|b| is_digit(**b)).count();
        let mut end = run_end(bytes, at + block.len());
        if end - start < MIN_BASE64 {
            at = end.next_multiple_of(STEP);
            continue;
        }
        let mut digits = Cow::Borrowed(&bytes[start..end.min(start + MAX_BASE64)]);
        // Long base64 is wrapped.
        while let Some(line) = next_line(bytes, start, end) {
            if digits.len() < MAX_BASE64 {
                digits.to_mut().extend_from_slice(&bytes[line.clone()]);
            }
            end = line.end;
        }
        let padding = bytes[end..].iter().take(2).take_while(|b| **b == b'=').count();
        each_decoded_text(&digits, |decoded| visit(start..end + padding, decoded));
        at = (end + padding).next_multiple_of(STEP);
    }
}

/// Returns whether one of eight bytes is a space or another character below the base64 digits. Most blocks of text
/// have one, and this check needs no loop over the bytes.
fn has_space(block: [u8; MIN_BASE64 - STEP]) -> bool {
    const EACH: u64 = u64::from_le_bytes([1; 8]);
    let block = u64::from_le_bytes(block);
    block.wrapping_sub(EACH * b'+' as u64) & !block & (EACH << 7) != 0
}

fn run_end(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|b| is_digit(**b)).count()
}

/// Returns the next line of wrapped base64 whose last line ends at `end`.
fn next_line(bytes: &[u8], start: usize, end: usize) -> Option<Range<usize>> {
    let line = memchr::memrchr(b'\n', &bytes[start..end]).map_or(start, |at| start + at + 1);
    if end - line < 40 || !(end - line).is_multiple_of(4) {
        return None;
    }
    let breaks = match &bytes[end..] {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return None,
    };
    let next = end + breaks;
    let next_end = run_end(bytes, next);
    (next_end > next && next_end - next <= end - line).then_some(next..next_end)
}

/// Decodes digits at each of the four possible alignments and visits the results that are text.
fn each_decoded_text(digits: &[u8], mut visit: impl FnMut(&str)) {
    for shift in 0..4.min(digits.len()) {
        let digits = &digits[shift..];
        let head = digits.chunks_exact(4).take(4);
        let last = digits.len() / 4 * 4;
        let tail = digits[last.saturating_sub(16)..last].chunks_exact(4);
        if digits.len() >= 16 && (is_text(head) || is_text(tail)) {
            let decoded: Vec<u8> = digits.chunks(4).flat_map(decode).filter(|b| *b != 0).collect();
            visit(&String::from_utf8_lossy(&decoded));
        }
    }
}

/// Decodes up to three bytes; missing digits produce none.
fn decode(digits: &[u8]) -> impl Iterator<Item = u8> + use<> {
    let value = |at: usize| digits.get(at).map_or(0, |b| u32::from(DIGITS[usize::from(*b)]));
    let all = value(0) << 18 | value(1) << 12 | value(2) << 6 | value(3);
    all.to_be_bytes().into_iter().skip(1).take(digits.len().saturating_sub(1))
}

/// Returns whether all decoded bytes are printable; zero bytes are allowed because of UTF-16.
fn is_text<'d>(mut digits: impl Iterator<Item = &'d [u8]>) -> bool {
    digits.all(|four| decode(four).all(|b| matches!(b, 0 | b'\t' | b'\n' | b'\r' | b' '..=b'~')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoded_ranges_map_back_to_the_source() {
        let text = r#"a\n\"b\u0041c\" \ud83d\ude00 d\q"#;
        let view = unescaped(text).expect("text has escapes");
        assert_eq!(view.text, "a\n\"bAc\" 😀 d\\q");
        let at = view.text.find("bAc").expect("decoded text contains it");
        assert_eq!(&text[view.source(at..at + 3)], r"b\u0041c");
        let at = view.text.find('😀').expect("decoded text contains it");
        assert_eq!(&text[view.source(at..at + 4)], r"\ud83d\ude00");
        assert_eq!(view.source(0..view.text.len()), 0..text.len());
        assert!(unescaped("C:\\Data\\").is_none());
    }

    #[test]
    fn colours_are_removed_from_the_decoded_text_only() {
        let text = "a\x1b[1;38;2;255;0;0mb\x1b[0m\x1b(B c\\033[31md\\e[0m ^[[1me \x1b[ü";
        let view = uncoloured(text).expect("text has colours");
        assert_eq!(view.text, "ab cd e \x1b[ü");
        assert_eq!(&text[view.kept(1..2)], "b");
        assert_eq!(&text[view.kept(0..2)], "a\x1b[1;38;2;255;0;0mb");
        assert!(uncoloured("C:\\each [31m x^[1] \x1b").is_none());
    }

    #[test]
    fn percent_encoding_is_decoded_per_line() {
        let text = "x\na%3Db%26c 100%\ny";
        let mut seen = Vec::new();
        each_percent(text, |place, view| {
            let at = view.text.find('=').expect("line is decoded");
            seen.push((text[place.clone()].to_owned(), view.text.clone(), view.source(at..at + 1)));
        });
        assert_eq!(seen, [("a%3Db%26c 100%".to_owned(), "a=b&c 100%".to_owned(), 1..4)]);
        let view = percent("x%C3%B1%E5%AF%86%F0%9F%98%80%C3%28%ff");
        assert_eq!(view.text, "xñ密😀%C3(%ff");
        assert_eq!(view.source(1..3), 1..7);
    }

    #[test]
    fn base64_of_text_is_decoded_at_any_alignment() {
        let all = |text: &str| {
            let mut seen = Vec::new();
            each_base64(text, |place, decoded| seen.push((text[place].to_owned(), decoded.to_owned())));
            seen
        };
        let encoded = "VGhlIHNlY3JldCBvZiB0aGUgd29ybGQ=";
        let seen = all(&format!("x {encoded} y"));
        assert!(seen.contains(&(encoded.to_owned(), "The secret of the world".to_owned())), "{seen:?}");
        // A prefix of base64 digits shifts the alignment.
        let seen = all(&format!("https://h/a/{encoded}"));
        assert!(seen.iter().any(|(_, text)| text.contains("The secret of the world")), "{seen:?}");
        assert!(all("getElementByIdAndSomethingElse /usr/local/share/something/else").is_empty());
        let lines = "VGhlIHNlY3JldCBvZiB0aGUgd29ybGQgaXMgdGhhdCB0\naGVyZSBpcyBub25lIGF0IGFsbA==";
        let seen = all(lines);
        assert_eq!(seen[0].1, "The secret of the world is that there is none at all");
    }

    #[test]
    fn shortest_base64_is_found_at_every_offset() {
        let encoded = "VGhlIHNlY3JldCBvZiBpdCBh";
        assert_eq!(encoded.len(), MIN_BASE64);
        for n in 0..2 * STEP {
            let (text, mut found) = (format!("{}{encoded}{}", ".".repeat(n), " ".repeat(n % 3)), Vec::new());
            each_base64(&text, |place, decoded| found.push((place, decoded.to_owned())));
            assert!(found.contains(&(n..n + MIN_BASE64, "The secret of it a".to_owned())), "{text}");
        }
        for b in 0..=u8::MAX {
            let block = [b'z', b'0', b, b'/', b'A', b'_', b'-', b'+'];
            assert_eq!(has_space(block), b < b'+', "{b}");
        }
    }

    #[test]
    fn pieces_cover_the_text_and_overlap() {
        let text = "ä".repeat(PIECE);
        let all: Vec<_> = pieces(&text).collect();
        assert!(all[0].start == 0 && all.last().is_some_and(|last| last.end == text.len()));
        assert!(all.windows(2).all(|two| two[1].start + OVERLAP / 2 < two[0].end));
        assert_eq!(pieces("").count(), 1);
    }
}
