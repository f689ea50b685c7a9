//! Reduces entries to the conversation: the texts of the user and the model, and one line for each tool call.

use rethread_log::{BlockKind, EntryKind, Json, Key, Line};
use rethread_model::main_argument;

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

pub(super) fn is_queued_prompt(raw: &[u8], line: &Line) -> bool {
    let attachment = Json::new(line.field(Key::Attachment).bytes_in(raw));
    attachment.get("type").and_then(Json::as_str).as_deref() == Some("queued_command")
}

pub(super) fn reduce_to_text(raw: &[u8], line: &Line) -> TextOnly {
    match line.kind {
        Some(EntryKind::User | EntryKind::Assistant) => {}
        // Prompts queued while the model was working, compaction boundaries and titles are kept.
        Some(EntryKind::Attachment) if is_queued_prompt(raw, line) => return TextOnly::Keep,
        Some(EntryKind::System) if line.string(Key::Subtype, raw) == Some(b"compact_boundary") => {
            return TextOnly::Keep;
        }
        Some(
            EntryKind::Summary
            | EntryKind::CustomTitle
            | EntryKind::AiTitle
            | EntryKind::LastPrompt
            | EntryKind::Tag,
        ) => {
            return TextOnly::Keep;
        }
        _ => return TextOnly::Remove,
    }
    if line.flag(Key::IsMeta, raw) {
        return TextOnly::Remove;
    }
    let Some(message) = &line.message else { return TextOnly::Remove };
    if line.blocks.is_empty() {
        let is_string = Json::new(message.content.bytes_in(raw)).is_string();
        let without = super::media::replace_if_long(message.content.bytes_in(raw));
        return match (is_string, without) {
            (true, Some(content)) => TextOnly::Replace(content),
            (true, None) => TextOnly::Keep,
            (false, _) => TextOnly::Remove,
        };
    }
    let mut out = b"[".to_vec();
    for block in &line.blocks {
        let text = match block.kind {
            Some(BlockKind::Text) => {
                let text = block.whole.bytes_in(raw);
                super::media::replace_if_long(text).unwrap_or_else(|| text.to_vec())
            }
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => {
                let name = Json::new(block.name.bytes_in(raw)).as_str().unwrap_or_default();
                let about = main_argument(Json::new(block.input.bytes_in(raw))).unwrap_or_default();
                let about: String =
                    about.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
                text_block(&if about.is_empty() { format!("[{name}]") } else { format!("[{name}: {about}]") })
            }
            Some(BlockKind::Image | BlockKind::Document) => text_block(&format!(
                "[{}]",
                rethread_model::describe_media(Json::new(block.whole.bytes_in(raw))).trim_matches(['[', ']'])
            )),
            _ => continue,
        };
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend(text);
    }
    if out.len() == 1 {
        return TextOnly::Remove;
    }
    out.push(b']');
    TextOnly::Replace(out)
}

fn text_block(text: &str) -> Vec<u8> {
    [br#"{"type":"text","text":"#, &*json_string(text), b"}"].concat()
}
