//! Reads and rewrites all strings of a JSON text.
//!
//! Keys are included, because snapshots use file names as keys. Consecutive strings of an array may be the lines of
//! one text, so they are visited as one group.

use std::borrow::Cow;

use rethread_log::unescape;

use crate::base64::is_strict_base64;
use crate::shorten::strings;
use crate::splice::{RangeReplacer, json_string};

/// Consecutive strings of an array, or a single string.
pub(crate) struct TextGroup<'a> {
    /// The name of their field; empty if they are keys.
    pub(crate) name: &'a [u8],
    /// The offset of the first string.
    pub(crate) at: usize,
    pub(crate) texts: Vec<Cow<'a, str>>,
}

impl TextGroup<'_> {
    /// Returns all of them, one per line.
    pub(crate) fn joined(&self) -> String {
        self.texts.join("\n")
    }
}

/// A group of raw strings.
pub(crate) struct StringGroup<'t, 'a> {
    /// The name of their field; empty if they are keys.
    pub(crate) name: &'a [u8],
    tokens: &'t [StringToken<'a>],
    raw: &'a [u8],
}

impl<'a> StringGroup<'_, 'a> {
    /// Returns the raw bytes from the first to the last string.
    pub(crate) fn raw_bytes(&self) -> &'a [u8] {
        &self.raw[self.tokens[0].start..self.tokens[self.tokens.len() - 1].end]
    }

    /// Returns the unescaped strings.
    pub(crate) fn texts(&self) -> TextGroup<'a> {
        let texts = self.tokens.iter().map(|token| unescape(token.inner)).collect();
        TextGroup { name: self.name, at: self.tokens[0].start, texts }
    }
}

/// A string and its range, including the quotes.
struct StringToken<'a> {
    start: usize,
    end: usize,
    inner: &'a [u8],
}

/// Returns whether a field contains only opaque data.
fn is_opaque(name: &[u8]) -> bool {
    matches!(name, b"signature" | b"encrypted_content" | b"encrypted_index" | b"thinkingSignature")
}

/// Visits the strings of a text. A text that is not JSON is visited as one string.
pub(crate) fn each_text<'a>(raw: &'a [u8], mut visit: impl FnMut(&StringGroup<'_, 'a>)) {
    walk(raw, &mut |tokens, name| visit(&StringGroup { name, tokens, raw }));
}

/// Rewrites the strings of a text; returns `None` if nothing changes.
pub(crate) fn rewrite(
    raw: &[u8],
    mut change: impl FnMut(&StringGroup<'_, '_>) -> Option<Vec<Option<String>>>,
) -> Option<Vec<u8>> {
    let mut replacer = RangeReplacer::new(raw);
    walk(raw, &mut |tokens, name| {
        let Some(changed) = change(&StringGroup { name, tokens, raw }) else { return };
        for (token, text) in tokens.iter().zip(changed) {
            if let Some(text) = text {
                replacer.replace(token.start..token.end, &json_string(&text));
            }
        }
    });
    replacer.finish()
}

fn walk<'a>(raw: &'a [u8], visit: &mut dyn FnMut(&[StringToken<'a>], &'a [u8])) {
    let mut name: &[u8] = b"";
    // The value of a `name` or `key` field before a `value` field, a common form of settings.
    let mut label: &[u8] = b"";
    let mut group: Vec<StringToken<'a>> = Vec::new();
    let mut at = 0;
    for (start, end) in strings(raw) {
        let between = &raw[at..start];
        let continues = !group.is_empty() && between.iter().all(|b| *b == b',' || b.is_ascii_whitespace());
        if !continues && !group.is_empty() {
            visit(&group, name);
            group.clear();
        }
        if between.iter().any(|b| matches!(b, b'}' | b']')) {
            name = b"";
            label = b"";
        }
        let token = StringToken { start, end, inner: &raw[start + 1..end - 1] };
        let after = raw[end..].iter().find(|b| !b.is_ascii_whitespace());
        at = end;
        if after == Some(&b':') {
            // The string was not the next line of the group but the next key.
            if !group.is_empty() {
                visit(&group, name);
                group.clear();
            }
            name = if token.inner == b"value" && !label.is_empty() { label } else { token.inner };
            // Most keys are short and plain; file names and addresses are not.
            let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
            if token.inner.len() >= 16 || !token.inner.iter().all(plain) {
                visit(&[token], b"");
            }
        } else if !(is_opaque(name) && is_strict_base64(token.inner)) {
            if matches!(name, b"name" | b"key") {
                label = token.inner;
            }
            group.push(token);
        }
    }
    if !group.is_empty() {
        visit(&group, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_have_the_name_of_their_field() {
        let raw = br#"{"a":"x","list":["1","2\n"],"n":3,"signature":"AAAAaaaa0000","o":{"a rather long name":"y"},"z":"\u0041"}"#;
        let mut seen = Vec::new();
        each_text(raw, |strings| {
            let texts = strings.texts();
            seen.push(format!("{}={}", String::from_utf8_lossy(texts.name), texts.texts.join("|")));
        });
        assert_eq!(seen, ["a=x", "list=1|2\n", "=a rather long name", "a rather long name=y", "z=A"]);
    }

    #[test]
    fn value_field_takes_the_name_next_to_it() {
        let raw = br#"[{"name":"TOKEN","value":"x"},{"value":"y"}]"#;
        let mut seen = Vec::new();
        each_text(raw, |strings| {
            let texts = strings.texts();
            seen.push(format!("{}={}", String::from_utf8_lossy(texts.name), texts.texts.join("|")));
        });
        assert_eq!(seen, ["name=TOKEN", "TOKEN=x", "value=y"]);
    }

    #[test]
    fn rewrite_keeps_unchanged_strings_byte_for_byte() {
        let raw = br#"{ "a" : "\u0041", "b":["x","y"]}"#;
        let out =
            rewrite(raw, |strings| (strings.texts().texts.len() == 2).then(|| vec![None, Some("\"".into())]));
        assert_eq!(out.as_deref(), Some(&br#"{ "a" : "\u0041", "b":["x","\""]}"#[..]));
        assert_eq!(rewrite(raw, |_| None), None);
    }
}
