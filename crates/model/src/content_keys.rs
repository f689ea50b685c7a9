//! Content fingerprints, used to detect copied messages.
//!
//! Resuming, forking and branching copy messages into other files: under the same uuids or new ones, with
//! other session ids, encoded by another JSON writer. Copies keep `message.id` and the blocks of
//! assistant messages, and the time and text of all others. A key is a hash of these. Hidden notes and
//! placeholders of the client are not part of the conversation and have no key.

use std::ops::Range;

use rethread_log::{BlockKind, Json, Key, Line, unescape};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

use crate::id::{Time, Uid};
use crate::index::{NodeId, StepId};
use crate::view::Reader;

/// A content key on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepContentKey {
    /// The step.
    pub step: StepId,
    /// The hash of the content.
    pub key: u64,
}

/// The last entry that a fork copied, which got a new time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestampedCopy {
    /// Its key with the new time.
    pub key: u64,
    /// The key of its text alone.
    pub words_key: u64,
    /// The entry that it is a copy of.
    pub origin: Uid,
}

impl Reader<'_> {
    /// Adds the keys of some entries that are on paths of the session.
    pub fn collect_content_keys(&self, nodes: Range<usize>, keys: &mut Vec<StepContentKey>) {
        let facts = &self.session.facts;
        let mut line = Line::default();
        let mut encoded = Vec::new();
        for (i, node) in facts.nodes.iter_enumerated().take(nodes.end).skip(nodes.start) {
            let step = self.session.tree.step(i);
            let (Some(step), Some(message)) = (step, node.message()) else { continue };
            let placeholder = node.flags.is_synthetic() && !node.flags.is_api_error();
            if node.flags.is_meta() || placeholder {
                continue;
            }
            let raw = self.parse_node(i, &mut line);
            let fact = &facts.messages[message];
            let Some(id) = fact.id.filter(|_| fact.assistant) else {
                keys.push(StepContentKey { step, key: self.timed_words_key(i, &line, raw, &mut encoded) });
                continue;
            };
            let content = line.message.map(|m| m.content).unwrap_or_default();
            let mut add = |block: &[u8]| {
                encoded.clear();
                encoded.extend_from_slice(&id.to_bytes());
                write_canonical(block, &mut encoded);
                keys.push(StepContentKey { step, key: xxh3_64(&encoded) });
            };
            if content.string_in(raw).is_some() {
                add(content.bytes_in(raw));
            }
            for block in &line.blocks {
                let thinking = matches!(block.kind, Some(BlockKind::Thinking | BlockKind::RedactedThinking));
                // Clients may omit thinking from copies; thinking without text is no loss.
                if !(thinking
                    && Json::new(block.text.bytes_in(raw)).raw_string().is_none_or(<[u8]>::is_empty))
                {
                    add(block.whole.bytes_in(raw));
                }
            }
        }
    }

    /// Returns the last of some entries that a fork copied; the SDKs give it a new time.
    pub fn restamped_copy_in(&self, nodes: Range<usize>) -> Option<RestampedCopy> {
        let facts = &self.session.facts;
        facts.forked_from.as_ref()?;
        let mut line = Line::default();
        let copied = |&node: &NodeId| {
            self.parse_node(node, &mut line);
            facts.nodes[node].message().is_some() && !line.field(Key::ForkedFrom).is_empty()
        };
        let last = nodes.rev().map(NodeId::from_index).find(copied)?;
        let raw = self.parse_node(last, &mut line);
        let origin = Json::new(line.field(Key::ForkedFrom).bytes_in(raw)).get("messageUuid")?.raw_string()?;
        let mut encoded = Vec::new();
        let key = self.timed_words_key(last, &line, raw, &mut encoded);
        Some(RestampedCopy { key, words_key: words_key(&line, raw, &mut encoded), origin: Uid::new(origin) })
    }

    /// Returns the key of an entry's text and time, and the key of its text alone.
    pub fn entry_keys(&self, node: NodeId) -> (u64, u64) {
        let mut line = Line::default();
        let raw = self.parse_node(node, &mut line);
        let mut encoded = Vec::new();
        let key = self.timed_words_key(node, &line, raw, &mut encoded);
        (key, words_key(&line, raw, &mut encoded))
    }

    fn timed_words_key(&self, node: NodeId, line: &Line, raw: &[u8], encoded: &mut Vec<u8>) -> u64 {
        let time = self.session.facts.nodes[node].time.map_or(i64::MIN, Time::millis);
        xxh3_64_with_seed(&time.to_le_bytes(), words_key(line, raw, encoded))
    }
}

fn words_key(line: &Line, raw: &[u8], encoded: &mut Vec<u8>) -> u64 {
    encoded.clear();
    match line.message {
        Some(message) => write_canonical(message.content.bytes_in(raw), encoded),
        None => {
            // The prompt of a queued command; its copies can differ in other fields.
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            write_canonical(prompt.map_or(&[], Json::raw), encoded);
        }
    }
    xxh3_64(encoded)
}

/// Longer strings are written as their hash instead of being copied.
const MAX_INLINE_STRING: usize = 1 << 20;

/// Writes a JSON value without white space and with unescaped, length-prefixed strings, so that white space
/// and escapes make no difference. The order of keys and the spelling of numbers do.
fn write_canonical(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(quote) = memchr::memchr(b'"', rest) {
        write_without_space(&rest[..quote], out);
        rest = &rest[quote + 1..];
        let mut end = 0;
        loop {
            match memchr::memchr2(b'"', b'\\', &rest[end..]) {
                Some(at) if rest[end + at] == b'\\' => end = (end + at + 2).min(rest.len()),
                Some(at) => break end += at,
                None => break end = rest.len(),
            }
        }
        let text = unescape(&rest[..end]);
        out.push(b'"');
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        if text.len() > MAX_INLINE_STRING {
            out.extend_from_slice(&xxh3_128(text.as_bytes()).to_le_bytes());
        } else {
            out.extend_from_slice(text.as_bytes());
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    write_without_space(rest, out);
}

fn write_without_space(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend(bytes.iter().filter(|b| !b.is_ascii_whitespace()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(value: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_canonical(value.as_bytes(), &mut out);
        out
    }

    #[test]
    fn canonical_form_depends_only_on_the_value() {
        let one = r#"[{"type":"text","text":"Grüße \"an\" alle"}]"#;
        let other = r#"[ {"type": "text", "text": "Gr\u00fc\u00dfe \"an\" alle"} ]"#;
        assert_eq!(canonical(one), canonical(other));
        assert_ne!(canonical(r#"["a","b"]"#), canonical(r#"["a\",\"b"]"#));
        assert_ne!(canonical(r#""a b""#), canonical(r#""ab""#));
        assert_eq!(canonical("\"torn"), canonical("\"torn\""));
        assert_eq!(canonical("\"torn\\").len(), 1 + 8 + "torn\u{fffd}".len());
    }
}
