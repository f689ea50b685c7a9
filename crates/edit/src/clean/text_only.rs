//! Reduces entries to the conversation: the texts of the user and the model, and one line for each tool call.

use rethread_log::{BlockKind, BlockSpans, EntryKind, Json, Key, Line};
use rethread_model::{describe_media, main_argument};

use super::media;
use crate::splice::json_string;

/// The action for an entry.
pub(super) enum TextOnly {
    /// Removes the entry.
    Remove,
    /// Keeps the entry unchanged.
    Keep,
    /// Replaces the content of its message by this.
    Replace(Vec<u8>),
}

/// The maximum number of characters shown of the main argument of a call.
const MAX_ARGUMENT_CHARS: usize = 160;

pub(super) fn is_queued_prompt(raw: &[u8], line: &Line) -> bool {
    let attachment = Json::new(line.field(Key::Attachment).bytes_in(raw));
    attachment.get("type").and_then(Json::as_str).as_deref() == Some("queued_command")
}

/// Returns the action for an entry.
pub(super) fn reduce_to_text(raw: &[u8], line: &Line) -> TextOnly {
    if !matches!(line.kind, Some(EntryKind::User | EntryKind::Assistant)) {
        return if is_part_of_conversation(raw, line) { TextOnly::Keep } else { TextOnly::Remove };
    }
    let Some(message) = line.message.filter(|_| !line.flag(Key::IsMeta, raw)) else {
        return TextOnly::Remove;
    };
    if line.blocks.is_empty() {
        return reduce_string(message.content.bytes_in(raw));
    }
    let mut content = b"[".to_vec();
    for block in line.blocks.iter().filter_map(|block| reduce_block(raw, block)) {
        if content.len() > 1 {
            content.push(b',');
        }
        content.extend(block);
    }
    if content.len() == 1 {
        return TextOnly::Remove;
    }
    content.push(b']');
    TextOnly::Replace(content)
}

/// Returns whether an entry other than a message is part of the conversation: a prompt queued while the model was
/// working, a compaction boundary or a title.
fn is_part_of_conversation(raw: &[u8], line: &Line) -> bool {
    match line.kind {
        Some(EntryKind::Attachment) => is_queued_prompt(raw, line),
        Some(EntryKind::System) => line.string(Key::Subtype, raw) == Some(b"compact_boundary"),
        Some(
            EntryKind::Summary
            | EntryKind::CustomTitle
            | EntryKind::AiTitle
            | EntryKind::LastPrompt
            | EntryKind::Tag,
        ) => true,
        _ => false,
    }
}

/// Returns the action for a message whose content is not a list of blocks.
fn reduce_string(content: &[u8]) -> TextOnly {
    if !Json::new(content).is_string() {
        return TextOnly::Remove;
    }
    media::replace_if_long(content).map_or(TextOnly::Keep, TextOnly::Replace)
}

/// Returns the text block that represents a block; `None` if it is removed.
fn reduce_block(raw: &[u8], block: &BlockSpans) -> Option<Vec<u8>> {
    let whole = block.whole.bytes_in(raw);
    match block.kind? {
        BlockKind::Text => Some(media::replace_if_long(whole).unwrap_or_else(|| whole.to_vec())),
        BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse => {
            let name = Json::new(block.name.bytes_in(raw)).as_str().unwrap_or_default();
            let argument = main_argument(Json::new(block.input.bytes_in(raw))).unwrap_or_default();
            let argument = argument.split_whitespace().collect::<Vec<_>>().join(" ");
            let argument: String = argument.chars().take(MAX_ARGUMENT_CHARS).collect();
            let separator = if argument.is_empty() { "" } else { ": " };
            Some(text_block(&format!("[{name}{separator}{argument}]")))
        }
        BlockKind::Image | BlockKind::Document => {
            let description = describe_media(Json::new(whole));
            Some(text_block(&format!("[{}]", description.trim_matches(['[', ']']))))
        }
        _ => None,
    }
}

fn text_block(text: &str) -> Vec<u8> {
    [br#"{"type":"text","text":"#, &*json_string(text), b"}"].concat()
}
