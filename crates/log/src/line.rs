//! The parts of one entry, found in one pass over its bytes.
//!
//! A [`Line`] gives the position of each known field, of the parts of the message and of its content
//! blocks. It contains [`Span`]s into the raw bytes of the entry, not values, so nothing is copied and
//! unknown content is left untouched.

use crate::json::unescape;
use crate::names::{BlockKind, EntryKind, Key, field_index};
use crate::scan::{ScanError, Walker};

/// A range of an entry's raw bytes. An empty span means that the part is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        let narrow = |n| u32::try_from(n).expect("entries over 4 GiB are not parsed");
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Creates the span of `len` bytes from `start`.
    pub fn at(start: usize, len: usize) -> Self {
        Self::new(start, start + len)
    }

    /// Returns the position in `raw` of `part`, which must be a slice of it.
    pub fn of_part(part: &[u8], raw: &[u8]) -> Self {
        let start = part.as_ptr().addr() - raw.as_ptr().addr();
        debug_assert!(start + part.len() <= raw.len(), "the part is not a slice of these bytes");
        Self::at(start, part.len())
    }

    /// Returns whether the span is empty, which means absent.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the number of bytes in the span.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the bytes in the span.
    pub fn bytes_in(self, raw: &[u8]) -> &[u8] {
        raw.get(self.range()).unwrap_or_default()
    }

    /// Returns the bytes between the quotes if the span is a string.
    pub fn string_in(self, raw: &[u8]) -> Option<&[u8]> {
        match self.bytes_in(raw) {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }

    /// Returns the offset of the first byte.
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// Returns the offset after the last byte.
    pub fn end(self) -> usize {
        self.end as usize
    }

    /// Returns the offsets of the bytes.
    pub fn range(self) -> std::ops::Range<usize> {
        self.start()..self.end()
    }
}

/// The positions of the parts of `message`.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageSpans {
    /// The whole value of `message`.
    pub whole: Span,
    /// `message.role`
    pub role: Span,
    /// `message.id`
    pub id: Span,
    /// `message.model`
    pub model: Span,
    /// `message.content`
    pub content: Span,
    /// `message.stop_reason`
    pub stop_reason: Span,
    /// `message.usage`
    pub usage: Span,
}

/// The positions of the parts of a content block.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockSpans {
    /// The type of the block; `None` if it is unknown.
    pub kind: Option<BlockKind>,
    /// The whole block.
    pub whole: Span,
    /// `type`, as written in the log.
    pub kind_name: Span,
    /// The text of a text block, the thinking of a thinking block, the data of a redacted one.
    pub text: Span,
    /// `id` of a tool call, `tool_use_id` of a tool result.
    pub id: Span,
    /// `name` of a tool call.
    pub name: Span,
    /// `input` of a tool call.
    pub input: Span,
    /// `content` of a tool result.
    pub content: Span,
    /// `signature` of a thinking block.
    pub signature: Span,
    /// `source` of an image or document.
    pub source: Span,
    /// `is_error` of a tool result.
    pub is_error: Span,
    /// The bytes of images and documents in the content of a tool result.
    pub media_bytes: u32,
}

/// The parts of one entry. One value is reused for all entries, so that reading allocates nothing per
/// line.
#[derive(Debug, Clone)]
pub struct Line {
    fields: [Span; Key::ALL.len()],
    /// The entry's type, if it is known.
    pub kind: Option<EntryKind>,
    /// The parts of `message`, if it is an object.
    pub message: Option<MessageSpans>,
    /// The content blocks of `message.content`, if it is an array.
    pub blocks: Vec<BlockSpans>,
    /// The names of fields that no known client writes.
    pub unknown: Vec<Span>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            fields: [Span::default(); Key::ALL.len()],
            kind: None,
            message: None,
            blocks: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl Line {
    /// Returns the position of the value of `key`.
    #[inline]
    pub fn field(&self, key: Key) -> Span {
        self.fields[key as usize]
    }

    /// Returns the inner bytes of a field that is a string.
    #[inline]
    pub fn string<'r>(&self, key: Key, raw: &'r [u8]) -> Option<&'r [u8]> {
        self.field(key).string_in(raw)
    }

    /// Returns whether a field is `true`.
    #[inline]
    pub fn flag(&self, key: Key, raw: &[u8]) -> bool {
        self.field(key).bytes_in(raw) == b"true"
    }

    /// Returns the fields that are present, with their positions.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (Key, Span)> + '_ {
        let present = |(_, span): &(&Key, &Span)| !span.is_empty();
        Key::ALL.iter().zip(&self.fields).filter(present).map(|(&key, &span)| (key, span))
    }

    /// Refills the line from parts that were found earlier.
    pub(crate) fn fill(
        &mut self,
        kind: Option<EntryKind>,
        message: Option<MessageSpans>,
        fields: &[(Key, Span)],
        blocks: &[BlockSpans],
        unknown: &[Span],
    ) {
        self.clear();
        for &(key, span) in fields {
            self.fields[key as usize] = span;
        }
        self.kind = kind;
        self.message = message;
        self.blocks.extend_from_slice(blocks);
        self.unknown.extend_from_slice(unknown);
    }

    fn clear(&mut self) {
        self.fields.fill(Span::default());
        self.kind = None;
        self.message = None;
        self.blocks.clear();
        self.unknown.clear();
    }

    /// Refills the line from the object that begins at `at`; returns the index after it.
    pub(crate) fn parse(&mut self, raw: &[u8], at: usize) -> Result<(usize, bool), ScanError> {
        self.clear();
        let mut walker = Walker::new(raw);
        let end = walker.walk_object(at, |walker, key, escaped, value| {
            let name = lookup_name(key, escaped, field_index);
            let known = name.and_then(|name| Key::ALL.get(name).copied());
            if known == Some(Key::Message) {
                // Of duplicate keys the last one counts.
                self.message = None;
                self.blocks.clear();
            }
            let end = match known {
                Some(Key::Message) if walker.bytes.get(value) == Some(&b'{') => {
                    self.parse_message(walker, value)?
                }
                _ => walker.value_end(value)?,
            };
            match known {
                Some(key) => self.fields[key as usize] = Span::new(value, end),
                None if name.is_none() => self.unknown.push(Span::of_part(key, raw)),
                None => {}
            }
            Ok(end)
        })?;
        let name = self.field(Key::Type).string_in(raw);
        self.kind = name.and_then(|name| lookup_name(name, name.contains(&b'\\'), EntryKind::from_name));
        Ok((end, walker.suspicious))
    }

    fn parse_message(&mut self, walker: &mut Walker<'_>, at: usize) -> Result<usize, ScanError> {
        let mut message = MessageSpans::default();
        let end = walker.walk_object(at, |walker, key, escaped, value| {
            let mut nothing = Span::default();
            let slot = match &*unescape_key(key, escaped) {
                b"role" => &mut message.role,
                b"id" => &mut message.id,
                b"model" => &mut message.model,
                b"content" => &mut message.content,
                b"stop_reason" => &mut message.stop_reason,
                b"usage" => &mut message.usage,
                _ => &mut nothing,
            };
            let content = &*unescape_key(key, escaped) == b"content";
            if content {
                self.blocks.clear();
            }
            let end = match walker.bytes.get(value) {
                Some(b'[') if content => {
                    let blocks = &mut self.blocks;
                    walker.walk_array(value, |walker, item| {
                        let (block, end) = parse_block(walker, item)?;
                        blocks.push(block);
                        Ok(end)
                    })?
                }
                Some(b'{') if content => {
                    let (block, end) = parse_block(walker, value)?;
                    self.blocks.push(block);
                    end
                }
                _ => walker.value_end(value)?,
            };
            *slot = Span::new(value, end);
            Ok(end)
        })?;
        message.whole = Span::new(at, end);
        self.message = Some(message);
        Ok(end)
    }
}

fn parse_block(walker: &mut Walker<'_>, at: usize) -> Result<(BlockSpans, usize), ScanError> {
    let mut block = BlockSpans::default();
    if walker.bytes.get(at) != Some(&b'{') {
        // No client writes this, but it is content all the same.
        let end = walker.value_end(at)?;
        block.whole = Span::new(at, end);
        return Ok((block, end));
    }
    let end = walker.walk_object(at, |walker, key, escaped, value| {
        let mut nothing = Span::default();
        let slot = match &*unescape_key(key, escaped) {
            b"type" => &mut block.kind_name,
            b"text" | b"thinking" => &mut block.text,
            b"data" => &mut block.text,
            b"id" | b"tool_use_id" => &mut block.id,
            b"name" => &mut block.name,
            b"input" => &mut block.input,
            b"signature" => &mut block.signature,
            b"source" => &mut block.source,
            b"is_error" => &mut block.is_error,
            b"content" if walker.bytes.get(value) == Some(&b'[') => {
                let (media, end) = sum_media_bytes(walker, value)?;
                block.media_bytes = media;
                block.content = Span::new(value, end);
                return Ok(end);
            }
            b"content" => &mut block.content,
            _ => &mut nothing,
        };
        let end = walker.value_end(value)?;
        *slot = Span::new(value, end);
        Ok(end)
    })?;
    block.whole = Span::new(at, end);
    let name = block.kind_name.string_in(walker.bytes).unwrap_or_default();
    block.kind = lookup_name(name, name.contains(&b'\\'), BlockKind::from_name);
    Ok((block, end))
}

/// Skips the content list of a tool result and adds up the sources of its images and documents.
fn sum_media_bytes(walker: &mut Walker<'_>, at: usize) -> Result<(u32, usize), ScanError> {
    let mut media = 0;
    let end = walker.walk_array(at, |walker, item| {
        if walker.bytes.get(item) != Some(&b'{') {
            return walker.value_end(item);
        }
        walker.walk_object(item, |walker, key, _, value| {
            let end = walker.value_end(value)?;
            if key == b"source" {
                media += u32::try_from(end - value).unwrap_or(u32::MAX);
            }
            Ok(end)
        })
    })?;
    Ok((media, end))
}

/// Returns the key with its escapes resolved. Keys with escapes are legal JSON, but no client writes
/// them.
#[inline(always)]
fn unescape_key(key: &[u8], escaped: bool) -> std::borrow::Cow<'_, [u8]> {
    if escaped { unescape(key).into_owned().into_bytes().into() } else { key.into() }
}

#[inline(always)]
fn lookup_name<T>(name: &[u8], escaped: bool, find: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    find(&unescape_key(name, escaped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Line {
        let mut line = Line::default();
        let (end, suspicious) = line.parse(raw.as_bytes(), 0).expect("an object");
        assert_eq!(end, raw.len());
        assert!(!suspicious);
        line
    }

    #[test]
    fn parse_finds_fields_and_blocks() {
        let raw = r#"{"parentUuid":null,"type":"assistant","message":{"id":"m1","model":"opus","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t1","name":"Bash","input":{"a":[1]}},"odd",{"type":"new"}],"usage":{"input_tokens":3}},"uuid":"u1","brandNew":1}"#;
        let line = parse(raw);
        let raw = raw.as_bytes();
        assert_eq!(line.kind, Some(EntryKind::Assistant));
        assert_eq!(line.field(Key::ParentUuid).bytes_in(raw), b"null");
        assert_eq!(line.string(Key::Uuid, raw), Some(&b"u1"[..]));
        let message = line.message.expect("a message");
        assert_eq!(message.id.bytes_in(raw), br#""m1""#);
        assert_eq!(message.usage.bytes_in(raw), br#"{"input_tokens":3}"#);
        let kinds: Vec<_> = line.blocks.iter().map(|b| b.kind).collect();
        assert_eq!(kinds, [Some(BlockKind::Thinking), Some(BlockKind::ToolUse), None, None]);
        assert_eq!(line.blocks[1].input.bytes_in(raw), br#"{"a":[1]}"#);
        assert_eq!(line.unknown.iter().map(|s| s.bytes_in(raw)).collect::<Vec<_>>(), [b"brandNew"]);
    }

    #[test]
    fn escaped_key_equals_plain_key() {
        let raw = r#"{"\u0074ype":"us\u0065r","message":{"\u0063ontent":[{"type":"text","text":"x"}]}}"#;
        let line = parse(raw);
        assert_eq!(line.kind, Some(EntryKind::User));
        assert_eq!(line.blocks.len(), 1);
    }

    #[test]
    fn last_duplicate_key_wins() {
        let line = parse(r#"{"message":{"content":[{"type":"text"}],"content":"new"},"type":"user"}"#);
        assert!(line.blocks.is_empty());
        let line = parse(r#"{"message":{"content":[{"type":"text"}]},"message":null}"#);
        assert!(line.message.is_none() && line.blocks.is_empty());
    }

    #[test]
    fn images_in_tool_results_count_as_media_bytes() {
        let line = parse(
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]}]}}"#,
        );
        assert_eq!(line.blocks[0].media_bytes as usize, r#"{"data":"AAAA"}"#.len());
    }
}
