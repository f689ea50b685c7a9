//! Values that are secret because of their name: settings, fields, flags, attributes.
//!
//! `DB_PASSWORD=…`, `"clientSecret": "…"`, `--token …`, `<add key="ApiKey" value="…"/>`. A value must be replaced
//! whole or not at all, so most of this code finds the end of a value: the closing quote, or else a space or a
//! character that starts something new.

mod kinds;
mod value_end;
mod value_start;

use std::ops::Range;

use super::MARK;
use super::value::{SecretName, is_secret};
pub(super) use kinds::{SERVICES, SecretKind, WORDS, kind_of};
use value_end::value_at;
use value_start::value_start;

/// The maximum length of a name on each side of its word.
const REACH: usize = 48;

pub(super) fn is_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')
}

/// Returns the range of the name that contains a word.
pub(super) fn name_around(bytes: &[u8], word: Range<usize>) -> Range<usize> {
    let before = bytes[..word.start].iter().rev().take(REACH).take_while(|b| is_name(**b)).count();
    let after = bytes[word.end..].iter().take(REACH).take_while(|b| is_name(**b)).count();
    let (mut start, mut end) = (word.start - before, word.end + after);
    // The letter of an escape is not part of the name.
    if start > 0 && bytes[start - 1] == b'\\' && start < word.start && b"nrt".contains(&bytes[start]) {
        start += 1;
    }
    // Nor is the end of a terminal colour sequence.
    if start > 0 && matches!(bytes[start - 1], b'[' | b';') {
        let digits = bytes[start..word.start].iter().take_while(|b| b.is_ascii_digit()).count();
        start += if bytes[start..word.start].get(digits) == Some(&b'm') { digits + 1 } else { 0 };
    }
    while end > word.end && matches!(bytes[end - 1], b'.' | b'-') {
        end -= 1;
    }
    start..end
}

/// The range of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ValueSpan {
    pub(super) range: Range<usize>,
    /// The value is quoted, or it is the whole text.
    pub(super) quoted: bool,
}

/// The progress of the search for names and values in a text.
#[derive(Debug, Default)]
pub(super) struct NameProgress {
    /// The end of the last name.
    last_name_end: usize,
    /// The end of the last value.
    last_value_end: usize,
    /// The number of consecutive names inside values that were read already.
    n_nested: usize,
}

impl NameProgress {
    /// Returns the maximum length of a name's value. It keeps a text with names inside the values of others from being
    /// read once for each of them.
    fn limit(&mut self, name: &Range<usize>) -> usize {
        self.n_nested = if name.start < self.last_value_end { self.n_nested + 1 } else { 0 };
        if self.n_nested > 8 { 256 } else { usize::MAX }
    }
}

/// Finds the secret value of a name: its range and the kind of the name.
pub(super) fn find(
    text: &str,
    word: Range<usize>,
    progress: &mut NameProgress,
) -> Option<(Range<usize>, SecretKind)> {
    let bytes = text.as_bytes();
    if word.start < progress.last_name_end || !may_follow(bytes, word.end) {
        return None;
    }
    let name = name_around(bytes, word);
    progress.last_name_end = name.end;
    // A redaction mark contains a name too; it has a value only if `=` or `:` follows.
    let marked = bytes[..name.start].ends_with(MARK.as_bytes()) && bytes.get(name.end) == Some(&b']');
    if marked && !matches!(bytes.get(name.end + 1), Some(b'=' | b':')) {
        return None;
    }
    // Test runners print `PASS:`.
    if &text[name.clone()] == "PASS" && bytes.get(name.end) == Some(&b':') {
        return None;
    }
    let kind = kind_of(&text[name.clone()])?;
    let limit = progress.limit(&name);
    let value = value_of(text, &name, kind, limit)?;
    progress.last_value_end = progress.last_value_end.max(value.range.end);
    let range = text.floor_char_boundary(value.range.start)..text.ceil_char_boundary(value.range.end);
    let named = SecretName { kind, name: &text[name], quoted: value.quoted };
    is_secret(&named, &text[range.clone()]).then_some((range, kind))
}

/// Returns whether a value may follow a word: a fast check, since most words are in prose.
fn may_follow(bytes: &[u8], end: usize) -> bool {
    let rest = &bytes[end..bytes.len().min(end + REACH)];
    let after = rest.iter().copied().find(|b| !is_name(*b));
    after.is_some_and(|b| b"\"'`\\])(=:>?|, \t\n\r&*\xe2\xef".contains(&b))
}

/// Returns the range of a name's value.
fn value_of(text: &str, name: &Range<usize>, kind: SecretKind, limit: usize) -> Option<ValueSpan> {
    let bytes = text.as_bytes();
    let start = value_start(bytes, name, kind)?;
    let value = value_at(&bytes[..bytes.len().min(start.saturating_add(limit))], start, name.start)?;
    (!value.range.is_empty()).then_some(value)
}

/// Skips up to `most` bytes of a set.
fn skip(bytes: &[u8], at: usize, most: usize, set: &[u8]) -> usize {
    at + bytes[at..].iter().take(most).take_while(|b| set.contains(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the raw secret value that the first word of a text names.
    fn value(text: &str) -> Option<&str> {
        let low = text.to_ascii_lowercase();
        let word = WORDS.iter().filter_map(|word| Some((low.find(word)?, word.len()))).min()?;
        let name = name_around(text.as_bytes(), word.0..word.0 + word.1);
        let kind = kind_of(&text[name.clone()])?;
        value_of(text, &name, kind, usize::MAX).map(|value| &text[value.range])
    }

    #[test]
    fn values_end_at_their_delimiter() {
        for (text, expected) in [
            ("DB_PASSWORD=Summer2024$extra&more", "Summer2024$extra&more"),
            ("DB_PASSWORD=a=b.c?\nNEXT=1", "a=b.c?"),
            ("?password=abc&user=bob", "abc"),
            ("Server=x;Password=a;b;Trusted=yes", "a;b"),
            ("password: \"it's \\\"mine\\\" 1\" # x", "it's \\\"mine\\\" 1"),
            (r#"{\"password\": \"ab$c\", \"x\": 1}"#, "ab$c"),
            (r"x\nDB_PASSWORD=abc\nNEXT=1", "abc"),
            ("echo \"TOKEN=abc\" > x", "abc"),
            ("TOKEN=ab\"cd'ef", "ab\"cd'ef"),
            ("f(password=abc)", "abc"),
            ("API_KEY=abc)d(e", "abc)d(e"),
            ("--password abc def", "abc"),
            ("--api-key=abc def", "abc"),
            ("<password>a b</password>", "a"),
            ("<add key=\"DbPassword\" value=\"x y\" />", "x y"),
            ("- name: DB_PASSWORD\n  value: abc", "abc"),
            ("const apiKey: string = 'abc';", "abc"),
            ("os.getenv('DB_PASSWORD', 'abc')", "abc"),
            ("password => b'abc',", "abc"),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }
}
