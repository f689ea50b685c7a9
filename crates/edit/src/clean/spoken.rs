//! What was said, and nothing else: the texts of people and of the model, a line for each call.

use rethread_log::{BlockKind, Json, Key, Kind, Line};
use rethread_model::telling;

use crate::splice::string;

/// What is left of an entry.
pub(super) enum Spoken {
    /// Nothing.
    Gone,
    /// All of it.
    AsItIs,
    /// This, as the content of its message.
    Content(Vec<u8>),
}

pub(super) fn is_queued_prompt(raw: &[u8], line: &Line) -> bool {
    let attachment = Json::new(line.field(Key::Attachment).of(raw));
    attachment.get("type").and_then(Json::as_str).as_deref() == Some("queued_command")
}

pub(super) fn spoken(raw: &[u8], line: &Line) -> Spoken {
    match line.kind {
        Some(Kind::User | Kind::Assistant) => {}
        // What the user typed while the model was at work, where the conversation was condensed, and
        // what the session is called.
        Some(Kind::Attachment) if is_queued_prompt(raw, line) => return Spoken::AsItIs,
        Some(Kind::System) if line.string(Key::Subtype, raw) == Some(b"compact_boundary") => {
            return Spoken::AsItIs;
        }
        Some(Kind::Summary | Kind::CustomTitle | Kind::AiTitle | Kind::LastPrompt | Kind::Tag) => {
            return Spoken::AsItIs;
        }
        _ => return Spoken::Gone,
    }
    if line.flag(Key::IsMeta, raw) {
        return Spoken::Gone;
    }
    let Some(message) = &line.message else { return Spoken::Gone };
    if line.blocks.is_empty() {
        let said = Json::new(message.content.of(raw)).is_string();
        let without = super::media::within(message.content.of(raw));
        return match (said, without) {
            (true, Some(content)) => Spoken::Content(content),
            (true, None) => Spoken::AsItIs,
            (false, _) => Spoken::Gone,
        };
    }
    let mut out = b"[".to_vec();
    for block in &line.blocks {
        let text = match block.kind {
            Some(BlockKind::Text) => {
                let text = block.whole.of(raw);
                super::media::within(text).unwrap_or_else(|| text.to_vec())
            }
            Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => {
                let name = Json::new(block.name.of(raw)).as_str().unwrap_or_default();
                let about = telling(Json::new(block.input.of(raw))).unwrap_or_default();
                let about: String =
                    about.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect();
                text_block(&if about.is_empty() { format!("[{name}]") } else { format!("[{name}: {about}]") })
            }
            Some(BlockKind::Image | BlockKind::Document) => text_block(&format!(
                "[{}]",
                rethread_model::describe_media(Json::new(block.whole.of(raw))).trim_matches(['[', ']'])
            )),
            _ => continue,
        };
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend(text);
    }
    if out.len() == 1 {
        return Spoken::Gone;
    }
    out.push(b']');
    Spoken::Content(out)
}

fn text_block(text: &str) -> Vec<u8> {
    [br#"{"type":"text","text":"#, &*string(text), b"}"].concat()
}
