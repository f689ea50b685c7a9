//! The facts about content blocks.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rethread_log::{BlockKind, BlockSpans, Json, unescape};

use crate::attachment;
use crate::facts::{Block, BlockClass, ToolReferences};
use crate::id::fingerprint;
use crate::prompt::{is_blank, trim_escaped_start};

pub(super) fn class_of_text(inner: Option<&[u8]>) -> BlockClass {
    match inner {
        None => BlockClass::NoText,
        Some(b"") => BlockClass::Empty,
        Some(text) if is_blank(text) => BlockClass::Blank,
        Some(text) => match trim_escaped_start(text) {
            rest if rest.starts_with(b"Tool loaded.") => BlockClass::ToolLoaded,
            rest @ [b'(' | b'[', ..] if rest.len() < 64 => match unescape(rest).trim_end() {
                "(no content)" => BlockClass::NoContent,
                "[Empty text removed]" => BlockClass::EmptyRemoved,
                _ => BlockClass::Text,
            },
            _ => BlockClass::Text,
        },
    }
}

pub(super) fn block_fact(block: &BlockSpans, raw: &[u8]) -> Block {
    let sort = match block.kind {
        _ if block.whole.bytes_in(raw) == b"null" => BlockClass::Null,
        _ if block.whole.string_in(raw).is_some_and(|text| !is_blank(text)) => BlockClass::BareString,
        _ if block.kind_name.string_in(raw).is_none() => BlockClass::Untyped,
        Some(BlockKind::Text) => class_of_text(block.text.string_in(raw)),
        Some(BlockKind::Thinking) if block.signature.string_in(raw).is_none_or(<[u8]>::is_empty) => {
            BlockClass::UnsignedThinking
        }
        Some(BlockKind::Thinking) => BlockClass::Thinking,
        Some(BlockKind::RedactedThinking) => BlockClass::RedactedThinking,
        Some(BlockKind::ToolUse) => BlockClass::ToolCall,
        Some(BlockKind::ToolResult) => BlockClass::ToolResult,
        Some(BlockKind::Image | BlockKind::Document) => BlockClass::Media,
        Some(BlockKind::ServerToolUse | BlockKind::McpToolUse) => BlockClass::ServerCall,
        Some(BlockKind::Fallback) => BlockClass::Fallback,
        _ if block.id.string_in(raw).is_some() => BlockClass::ServerResult,
        _ => BlockClass::Other,
    };
    let media = u32::try_from(block.source.len()).unwrap_or(u32::MAX).saturating_add(block.media_bytes);
    Block {
        call: None,
        len: u32::try_from(block.whole.len()).unwrap_or(u32::MAX),
        media_bytes: media,
        fingerprint: block_fingerprint(sort, block, raw),
        has_string_content: sort == BlockClass::ToolResult && block.content.string_in(raw).is_some(),
        tool_references: if sort == BlockClass::ToolResult {
            tool_references_in(block.content.bytes_in(raw))
        } else {
            ToolReferences::default()
        },
        has_caller: sort == BlockClass::ToolCall && has_caller(block, raw),
        class: sort,
    }
}

/// Hashes the content of a block, to find copies of it within the same message or call.
pub(super) fn block_fingerprint(sort: BlockClass, block: &BlockSpans, raw: &[u8]) -> u32 {
    match sort {
        BlockClass::ToolCall => content_hash(&[block.name.bytes_in(raw), block.input.bytes_in(raw)]),
        // A result without a call is identified by the id that it names.
        BlockClass::ToolResult => content_hash(&[block.id.bytes_in(raw), block.content.bytes_in(raw)]),
        // The result names the id of its call.
        BlockClass::ServerCall | BlockClass::ServerResult => content_hash(&[block.id.bytes_in(raw)]),
        sort if sort.is_text() => content_hash(&[block.text.string_in(raw).unwrap_or_default()]),
        _ => content_hash(&[block.whole.bytes_in(raw)]),
    }
}

/// Hashes texts; of a long one both ends and its length. No client writes two results of one call that
/// differ only in between, and hashing everything made `info` 4 % slower.
pub(super) fn content_hash(parts: &[&[u8]]) -> u32 {
    const END: usize = 1024;
    let mut hash = 0_u64;
    for part in parts {
        hash = match part.len() {
            len if len > 2 * END => {
                fingerprint(&[&hash.to_le_bytes(), &len.to_le_bytes(), &part[..END], &part[len - END..]])
            }
            _ => fingerprint(&[&hash.to_le_bytes(), part]),
        };
    }
    #[expect(clippy::cast_possible_truncation, reason = "a hash")]
    {
        hash as u32
    }
}

pub(super) fn tool_references_in(content: &[u8]) -> ToolReferences {
    static REFERENCE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\"tool_reference\""));
    let mut found = ToolReferences::default();
    // Such a result is a short list; long text is not searched.
    let short = content.first() == Some(&b'[') && content.len() < 1 << 16;
    if !short || REFERENCE.find(content).is_none() {
        return found;
    }
    for item in Json::new(content).items() {
        if item.get("type").and_then(Json::raw_string) == Some(b"tool_reference") {
            let name = item.get("tool_name").and_then(Json::as_str).unwrap_or_default();
            found.any = true;
            found.known |= name.is_empty() || attachment::OFFERED_TOOLS.contains(&&*name);
            found.task_tools |= attachment::TASK_TOOLS.contains(&&*name);
        }
    }
    found
}

pub(super) fn has_caller(block: &BlockSpans, raw: &[u8]) -> bool {
    static CALLER: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\"caller\""));
    // The input is by far the longest part of a call; only the bytes around it are searched.
    let whole = block.whole.bytes_in(raw);
    let input = block.input.start().saturating_sub(block.whole.start()).min(whole.len());
    let (before, after) = whole.split_at(input);
    let after = &after[block.input.len().min(after.len())..];
    let names = |part: &[u8]| CALLER.find(part).is_some();
    (names(before) || names(after)) && Json::new(whole).get("caller").is_some_and(|c| !c.is_null())
}
