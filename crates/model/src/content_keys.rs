//! What a thing that was said is known by, wherever it was copied to.
//!
//! Resuming, forking and branching copy messages into other files: under the same uuids or new ones,
//! with other session ids, spelled by another JSON writer. What stays is `message.id` and the blocks
//! of what the model said, and the time and the words of what anybody else did. A key is a hash of
//! these. Hidden notes and placeholders of the client are no part of the conversation and have none.

use std::ops::Range;

use rethread_log::{BlockKind, Json, Key, Line, unescape};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed, xxh3_128};

use crate::id::Uid;
use crate::view::Reader;

/// Something that was said on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StepContentKey {
    /// The step that it is part of.
    pub step: u32,
    /// What it is known by.
    pub key: u64,
}

/// The entry that a fork gave a new time to: the last one that it copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestampedCopy {
    /// What it would be known by.
    pub key: u64,
    /// Its words alone.
    pub words_key: u64,
    /// The entry that it is a copy of.
    pub origin: Uid,
}

impl Reader<'_> {
    /// Adds what some entries said on the paths of the session.
    pub fn collect_content_keys(&self, nodes: Range<usize>, said: &mut Vec<StepContentKey>) {
        let facts = &self.session.facts;
        let mut line = Line::default();
        let mut spelled = Vec::new();
        for (i, node) in facts.nodes.iter().enumerate().take(nodes.end).skip(nodes.start) {
            let step = self.session.tree.step(i);
            let (Some(step), Some(message)) = (step, node.message()) else { continue };
            let placeholder = node.flags.is_synthetic() && !node.flags.is_api_error();
            if node.flags.is_meta() || placeholder {
                continue;
            }
            let step = u32::try_from(step).unwrap_or(u32::MAX);
            let raw = self.parse_node(i, &mut line);
            let fact = &facts.messages[message];
            if !fact.assistant || fact.id.is_none() {
                said.push(StepContentKey { step, key: self.timed_words_key(i, &line, raw, &mut spelled) });
                continue;
            }
            let content = line.message.map(|m| m.content).unwrap_or_default();
            let mut add = |block: &[u8]| {
                spelled.clear();
                spelled.extend_from_slice(&fact.id.to_bytes());
                write_canonical(block, &mut spelled);
                said.push(StepContentKey { step, key: xxh3_64(&spelled) });
            };
            if content.string_in(raw).is_some() {
                add(content.bytes_in(raw));
            }
            for block in &line.blocks {
                let thinking = matches!(block.kind, Some(BlockKind::Thinking | BlockKind::RedactedThinking));
                // Clients that copy may leave thinking out; no words are lost with it if it has none.
                if !(thinking
                    && Json::new(block.text.bytes_in(raw)).raw_string().is_none_or(<[u8]>::is_empty))
                {
                    add(block.whole.bytes_in(raw));
                }
            }
        }
    }

    /// Returns the last message among some entries that a fork copied, which the SDKs give a new time.
    pub fn restamped_copy_in(&self, nodes: Range<usize>) -> Option<RestampedCopy> {
        let facts = &self.session.facts;
        facts.forked_from.as_ref()?;
        let mut line = Line::default();
        let copied = |&node: &usize| {
            self.parse_node(node, &mut line);
            facts.nodes[node].message().is_some() && !line.field(Key::ForkedFrom).is_empty()
        };
        let last = nodes.rev().find(copied)?;
        let raw = self.parse_node(last, &mut line);
        let origin = Json::new(line.field(Key::ForkedFrom).bytes_in(raw)).get("messageUuid")?.raw_string()?;
        let mut spelled = Vec::new();
        let key = self.timed_words_key(last, &line, raw, &mut spelled);
        Some(RestampedCopy { key, words_key: words_key(&line, raw, &mut spelled), origin: Uid::new(origin) })
    }

    /// Returns what the words of an entry and their time are known by, and the words alone.
    pub fn entry_keys(&self, node: usize) -> (u64, u64) {
        let mut line = Line::default();
        let raw = self.parse_node(node, &mut line);
        let mut spelled = Vec::new();
        let key = self.timed_words_key(node, &line, raw, &mut spelled);
        (key, words_key(&line, raw, &mut spelled))
    }

    fn timed_words_key(&self, node: usize, line: &Line, raw: &[u8], spelled: &mut Vec<u8>) -> u64 {
        let time = self.session.facts.nodes[node].time.millis().unwrap_or(i64::MIN);
        xxh3_64_with_seed(&time.to_le_bytes(), words_key(line, raw, spelled))
    }
}

fn words_key(line: &Line, raw: &[u8], spelled: &mut Vec<u8>) -> u64 {
    spelled.clear();
    match line.message {
        Some(message) => write_canonical(message.content.bytes_in(raw), spelled),
        None => {
            // The prompt of a queued command; its copies can differ in other fields.
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            write_canonical(prompt.map_or(&[], Json::raw), spelled);
        }
    }
    xxh3_64(spelled)
}

/// Strings with more bytes are spelled by their hash and not copied.
const MAX_INLINE_STRING: usize = 1 << 20;

/// Spells a JSON value without blanks and with its strings unescaped, each with its length before it:
/// two spellings of one value become the same bytes, two values never do.
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
    fn the_writer_does_not_matter_and_the_value_does() {
        let one = r#"[{"type":"text","text":"Grüße \"an\" alle"}]"#;
        let other = r#"[ {"type": "text", "text": "Gr\u00fc\u00dfe \"an\" alle"} ]"#;
        assert_eq!(canonical(one), canonical(other));
        assert_ne!(canonical(r#"["a","b"]"#), canonical(r#"["a\",\"b"]"#));
        assert_ne!(canonical(r#""a b""#), canonical(r#""ab""#));
        assert_eq!(canonical("\"torn"), canonical("\"torn\""));
        assert_eq!(canonical("\"torn\\").len(), 1 + 8 + "torn\u{fffd}".len());
    }
}
