//! The strings of a JSON text, wherever they stand, read and rewritten.
//!
//! Keys are strings too: the names of files are keys in snapshots. Strings that follow each other in a
//! list may be the lines of one text, so they come together.

use std::borrow::Cow;

use rethread_log::unescape;

use crate::shorten::{is_strict_base64, strings};
use crate::splice::json_string;

/// Strings that follow each other in a list, or a single one.
pub(crate) struct TextGroup<'a> {
    /// The name that they stand under; nothing if they are names themselves.
    pub(crate) name: &'a [u8],
    /// Where the first begins.
    pub(crate) at: usize,
    pub(crate) texts: Vec<Cow<'a, str>>,
}

impl TextGroup<'_> {
    /// All of them, each on a line.
    pub(crate) fn joined(&self) -> String {
        self.texts.join("\n")
    }
}

/// Strings as they are spelled.
pub(crate) struct StringGroup<'t, 'a> {
    /// The name that they stand under; nothing if they are names themselves.
    pub(crate) name: &'a [u8],
    tokens: &'t [StringToken<'a>],
    raw: &'a [u8],
}

impl<'a> StringGroup<'_, 'a> {
    /// All of them, with what is between them.
    pub(crate) fn spelled(&self) -> &'a [u8] {
        &self.raw[self.tokens[0].start..self.tokens[self.tokens.len() - 1].end]
    }

    /// What they say.
    pub(crate) fn texts(&self) -> TextGroup<'a> {
        let texts = self.tokens.iter().map(|token| unescape(token.inner)).collect();
        TextGroup { name: self.name, at: self.tokens[0].start, texts }
    }
}

/// A string and where it stands, with its quotes.
struct StringToken<'a> {
    start: usize,
    end: usize,
    inner: &'a [u8],
}

/// Fields that hold nothing that anybody wrote.
fn is_sealed(name: &[u8]) -> bool {
    matches!(name, b"signature" | b"encrypted_content" | b"encrypted_index" | b"thinkingSignature")
}

/// Visits the strings of a text. What is no JSON is one text.
pub(crate) fn each_text<'a>(raw: &'a [u8], mut visit: impl FnMut(&StringGroup<'_, 'a>)) {
    walk(raw, &mut |tokens, name| visit(&StringGroup { name, tokens, raw }));
}

/// Rewrites the strings of a text; returns nothing if none changes.
pub(crate) fn rewrite(
    raw: &[u8],
    mut change: impl FnMut(&StringGroup<'_, '_>) -> Option<Vec<Option<String>>>,
) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut done = 0;
    walk(raw, &mut |tokens, name| {
        let Some(changed) = change(&StringGroup { name, tokens, raw }) else { return };
        for (token, text) in tokens.iter().zip(changed) {
            if let Some(text) = text {
                out.extend_from_slice(&raw[done..token.start]);
                out.extend(json_string(&text));
                done = token.end;
            }
        }
    });
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&raw[done..]);
    Some(out)
}

fn walk<'a>(raw: &'a [u8], visit: &mut dyn FnMut(&[StringToken<'a>], &'a [u8])) {
    let mut name: &[u8] = b"";
    // What a `name` or `key` says before a `value`: settings are often written so.
    let mut label: &[u8] = b"";
    let mut list: Vec<StringToken<'a>> = Vec::new();
    let mut at = 0;
    for (start, end) in strings(raw) {
        let between = &raw[at..start];
        let goes_on = !list.is_empty() && between.iter().all(|b| *b == b',' || b.is_ascii_whitespace());
        if !goes_on && !list.is_empty() {
            visit(&list, name);
            list.clear();
        }
        if between.iter().any(|b| matches!(b, b'}' | b']')) {
            name = b"";
            label = b"";
        }
        let token = StringToken { start, end, inner: &raw[start + 1..end - 1] };
        let behind = raw[end..].iter().find(|b| !b.is_ascii_whitespace());
        at = end;
        if behind == Some(&b':') {
            // What looked like the next line was the next field.
            if !list.is_empty() {
                visit(&list, name);
                list.clear();
            }
            name = if token.inner == b"value" && !label.is_empty() { label } else { token.inner };
            // Most names are short and plain; those of files and addresses are not.
            let plain = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
            if token.inner.len() >= 16 || !token.inner.iter().all(plain) {
                visit(&[token], b"");
            }
        } else if !(is_sealed(name) && is_strict_base64(token.inner)) {
            if matches!(name, b"name" | b"key") {
                label = token.inner;
            }
            list.push(token);
        }
    }
    if !list.is_empty() {
        visit(&list, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_with_their_names() {
        let raw = br#"{"a":"x","list":["1","2\n"],"n":3,"signature":"AAAAaaaa0000","o":{"a rather long name":"y"},"z":"\u0041"}"#;
        let mut seen = Vec::new();
        each_text(raw, |strings| {
            let texts = strings.texts();
            seen.push(format!("{}={}", String::from_utf8_lossy(texts.name), texts.texts.join("|")));
        });
        assert_eq!(seen, ["a=x", "list=1|2\n", "=a rather long name", "a rather long name=y", "z=A"]);
    }

    #[test]
    fn a_value_stands_under_the_name_beside_it() {
        let raw = br#"[{"name":"TOKEN","value":"x"},{"value":"y"}]"#;
        let mut seen = Vec::new();
        each_text(raw, |strings| {
            let texts = strings.texts();
            seen.push(format!("{}={}", String::from_utf8_lossy(texts.name), texts.texts.join("|")));
        });
        assert_eq!(seen, ["name=TOKEN", "TOKEN=x", "value=y"]);
    }

    #[test]
    fn only_what_changes_is_spelled_anew() {
        let raw = br#"{ "a" : "\u0041", "b":["x","y"]}"#;
        let out =
            rewrite(raw, |strings| (strings.texts().texts.len() == 2).then(|| vec![None, Some("\"".into())]));
        assert_eq!(out.as_deref(), Some(&br#"{ "a" : "\u0041", "b":["x","\""]}"#[..]));
        assert_eq!(rewrite(raw, |_| None), None);
    }
}
