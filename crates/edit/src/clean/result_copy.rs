//! The client's own copy of a tool result: removes what it repeats, and what only clients display.

use memchr::memmem;
use rethread_log::{Json, Key, Line, Span};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_64;

use super::{EntryChanges, Rule, RuleSet, media};
use crate::shorten::strings;
use crate::splice::{is_escaped, json_string};

/// The minimum length of a duplicate; shorter strings may be equal by chance.
const MIN_MATCH_LEN: usize = 64;
/// Fields of a copy up to this length are kept.
const SHORT_FIELD_LEN: usize = 200;
/// The replacement for a text that is stored elsewhere in the log.
const SEE_RESULT: &[u8] = b"\"[see the result]\"";

/// The replacement for a text that may not be stored elsewhere.
const REMOVED: &[u8] = b"\"[removed]\"";

/// Records the hashes of the texts in a tool input.
pub(super) fn record_inputs(input: &[u8], inputs: &mut FxHashSet<u64>) {
    let texts = strings(input).map(|(start, end)| &input[start + 1..end - 1]);
    inputs.extend(texts.filter(|text| text.len() >= MIN_MATCH_LEN).map(xxh3_64));
}

/// Cleans the copy of a result in an entry.
pub(super) fn clean(
    raw: &[u8],
    line: &Line,
    rules: RuleSet,
    inputs: &FxHashSet<u64>,
    changes: &mut EntryChanges,
) {
    let span = line.field(Key::ToolUseResult);
    let contents: Vec<&[u8]> = line.blocks.iter().map(|block| block.content.bytes_in(raw)).collect();
    let copy = ResultCopyCleaner { contents, rules, inputs };
    let mut waiting = vec![(Json::new(span.bytes_in(raw)), &b""[..])];
    while let Some((value, name)) = waiting.pop() {
        match copy.action(value, name) {
            CopyAction::Replace(with, rule) => {
                if rule == Rule::ResultCopy {
                    changes.count_media(value.raw(), rule);
                }
                changes.replace(Span::of_part(value.raw(), raw), with, rule);
            }
            CopyAction::Keep => {}
            CopyAction::Descend => {
                value.for_each_member(|name, value| waiting.push((value, reborrow_from(raw, name))));
                waiting.extend(value.items().map(|item| (item, name)));
            }
        }
    }
}

/// Returns `part` as a slice of the entry, or an empty slice if it is not one: a key with escapes is unescaped
/// elsewhere.
fn reborrow_from<'r>(raw: &'r [u8], part: &[u8]) -> &'r [u8] {
    let start = part.as_ptr().addr().wrapping_sub(raw.as_ptr().addr());
    raw.get(start..start.saturating_add(part.len())).unwrap_or_default()
}

/// The action for a value of a copy.
enum CopyAction {
    Keep,
    /// Decides on its members or items one by one.
    Descend,
    Replace(Vec<u8>, Rule),
}

/// Decides what is kept of the copy of a result.
struct ResultCopyCleaner<'c> {
    /// The contents of the tool results in the entry.
    contents: Vec<&'c [u8]>,
    rules: RuleSet,
    inputs: &'c FxHashSet<u64>,
}

impl ResultCopyCleaner<'_> {
    fn action(&self, value: Json<'_>, name: &[u8]) -> CopyAction {
        let len = value.raw().len();
        if name == b"structuredPatch" || len < MIN_MATCH_LEN {
            return CopyAction::Keep;
        }
        let original = matches!(name, b"originalFile" | b"originalFileContents");
        if original && self.rules.has(Rule::OriginalFile) {
            return CopyAction::Replace(b"null".to_vec(), Rule::OriginalFile);
        }
        let Some(inner) = value.raw_string() else {
            // A list that repeats the result.
            let list = value.is_array() && len > 2 * SHORT_FIELD_LEN && self.rules.has(Rule::ResultCopy);
            return match list {
                true => CopyAction::Replace(b"[]".to_vec(), Rule::ResultCopy),
                false => CopyAction::Descend,
            };
        };
        if self.rules.has(Rule::Media)
            && len >= media::MIN_DATA_LEN
            && let Some(text) = media::without_data(inner)
        {
            return CopyAction::Replace(json_string(&text), Rule::Media);
        }
        if self.rules.has(Rule::StoredTwice) && self.is_stored_elsewhere(inner) {
            return CopyAction::Replace(SEE_RESULT.to_vec(), Rule::StoredTwice);
        }
        if self.rules.has(Rule::ResultCopy) && len > SHORT_FIELD_LEN {
            return CopyAction::Replace(REMOVED.to_vec(), Rule::ResultCopy);
        }
        CopyAction::Keep
    }

    /// Returns whether a text also occurs in the call or in the result.
    fn is_stored_elsewhere(&self, inner: &[u8]) -> bool {
        let mut text = inner;
        while let Some(rest) = text.strip_suffix(br"\n").or_else(|| text.strip_suffix(b" ")) {
            text = rest;
        }
        text.len() >= MIN_MATCH_LEN
            && (self.inputs.contains(&xxh3_64(inner))
                || self
                    .contents
                    .iter()
                    .any(|content| contains_text(content, text) || is_numbered(text, content)))
    }
}

/// Returns whether `content` contains a text. It searches for the start of the text first, because searching for a
/// long text as a whole is slow.
fn contains_text(content: &[u8], text: &[u8]) -> bool {
    content.len() >= text.len()
        && memmem::find_iter(content, &text[..MIN_MATCH_LEN.min(text.len())])
            .take(8)
            .any(|at| content[at..].starts_with(text))
}

/// Returns whether `content` is a text with a number before each line, as files are shown to the model.
fn is_numbered(text: &[u8], content: &[u8]) -> bool {
    let Some(mut content) = content.strip_prefix(b"\"") else { return false };
    for line in lines(text) {
        let spaces = content.iter().take_while(|b| **b == b' ').count();
        let digits = content[spaces..].iter().take_while(|b| b.is_ascii_digit()).count();
        let rest = &content[spaces + digits..];
        let rest = ["→".as_bytes(), br"\t"].iter().find_map(|sign| rest.strip_prefix(*sign));
        let Some(rest) = rest.filter(|_| digits > 0).and_then(|rest| rest.strip_prefix(line)) else {
            return false;
        };
        content = rest.strip_prefix(br"\n").unwrap_or(rest);
    }
    true
}

/// Iterates over the lines of an escaped text.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memmem::find_iter(text, br"\n").find(|&at| {
            // The backslash before the `n` may itself be escaped.
            !is_escaped(text, at)
        });
        let (line, after) = match end {
            Some(at) => (&text[..at], Some(&text[at + 2..])),
            None => (text, None),
        };
        rest = after;
        Some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_file_matches_its_text() {
        let text = br"fn main() {\n    \\no\n}";
        assert!(is_numbered(
            text,
            "\"     1→fn main() {\\n     2→    \\\\no\\n     3→}\\n\\n<note>\"".as_bytes()
        ));
        assert!(is_numbered(text, br#""1\tfn main() {\n2\t    \\no\n3\t}""#));
        assert!(!is_numbered(text, br#""1\tfn main() {\n2\t    other\n3\t}""#));
    }
}
