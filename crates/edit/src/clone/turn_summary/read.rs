//! Reads the content of entries for a summary.

use rethread_log::{BlockKind, BlockSpans, Json, Key, Line, parse_entry};
use rethread_model::{Facts, NodeId, Reader, Role, describe_media, main_argument};

use super::turn::{SummarisedCall, SummarisedResult, TurnEvent};
use super::{one_line, start_of};
use crate::plan::{BlockEdit, EntryEdit};

/// Content of an entry, before it is assigned to a turn and a call.
pub(super) enum TurnPart {
    Event(TurnEvent),
    /// A call, with its id.
    Call(String, SummarisedCall),
    /// The result of the call with this id.
    Result(String, SummarisedResult),
    /// The summary of an earlier compaction.
    EarlierSummary(String),
}

/// Reads the content of entries.
pub(super) struct TurnReader<'a> {
    pub(super) facts: &'a Facts,
    pub(super) reader: Reader<'a>,
    /// Characters of a result that are kept.
    pub(super) max_result_chars: usize,
}

impl TurnReader<'_> {
    /// Returns whether an entry may contain a prompt, or a summary that does.
    pub(super) fn may_hold_user_text(&self, node: NodeId) -> bool {
        let fact = &self.facts.nodes[node];
        fact.role != Role::Assistant && (fact.flags.is_human() || !fact.flags.has_result())
    }

    /// Returns the content of an entry.
    pub(super) fn read_entry(&self, edit: Option<&EntryEdit>, node: NodeId) -> Vec<TurnPart> {
        let fact = &self.facts.nodes[node];
        let raw = self.reader.entry_bytes(fact.entry);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let user = |text: String| vec![TurnPart::Event(TurnEvent::User(text))];
        if fact.flags.is_summary() {
            return vec![TurnPart::EarlierSummary(texts(&line, raw).join("\n\n"))];
        }
        if fact.flags.is_queued_prompt() {
            let prompt = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("prompt");
            let text = |block: Json<'_>| match block.get("text").and_then(Json::as_str) {
                Some(text) => text.into_owned(),
                None => describe_media(block),
            };
            let words = prompt.and_then(Json::as_str).map(|text| text.into_owned());
            let blocks = || prompt.into_iter().flat_map(Json::items).map(text).collect::<Vec<_>>().join("\n");
            return user(words.unwrap_or_else(blocks));
        }
        match fact.role {
            Role::User if fact.flags.is_human() => user(joined(texts(&line, raw))),
            // A command is typed too; its text is in markup.
            Role::User if fact.flags.is_command() && !fact.flags.is_command_output() => {
                typed_command(&texts(&line, raw).join("\n")).map(user).unwrap_or_default()
            }
            Role::User if fact.flags.has_result() => result_parts(&line, raw, self.max_result_chars),
            Role::Assistant if !fact.flags.is_synthetic() && !fact.flags.is_failure_report() => {
                assistant_parts(&line, raw, edit, self.max_result_chars > 0)
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the model's text and calls in an entry.
fn assistant_parts(line: &Line, raw: &[u8], edit: Option<&EntryEdit>, whole: bool) -> Vec<TurnPart> {
    let text = |json: Json<'_>| json.as_str().unwrap_or_default().into_owned();
    let removed = |at: usize| edit.is_some_and(|e| matches!(e.blocks.get(&at), Some(BlockEdit::Remove)));
    let kept = line.blocks.iter().enumerate().filter(|&(at, _)| !removed(at));
    kept.filter_map(|(_, block)| match block.kind? {
        BlockKind::Text => {
            let text = text(Json::new(block.text.bytes_in(raw)));
            Some(TurnPart::Event(TurnEvent::Text(if whole { text } else { ends_of(text) })))
        }
        BlockKind::ToolUse => {
            let tool = text(Json::new(block.name.bytes_in(raw)));
            let about = subject(Json::new(block.input.bytes_in(raw)));
            Some(TurnPart::Call(
                text(Json::new(block.id.bytes_in(raw))),
                SummarisedCall { tool, about, result: None },
            ))
        }
        _ => None,
    })
    .collect()
}

/// Bytes of an answer that are considered for a summary.
const MAX_ANSWER: usize = 1 << 20;

/// Returns both ends of a very long text.
fn ends_of(text: String) -> String {
    if text.len() <= MAX_ANSWER {
        return text;
    }
    let start = text.floor_char_boundary(MAX_ANSWER / 2);
    let end = text.ceil_char_boundary(text.len() - MAX_ANSWER / 2);
    format!("{}\n{}", &text[..start], &text[end..])
}

/// Joins texts by line breaks.
fn joined(mut texts: Vec<String>) -> String {
    if texts.len() == 1 { texts.remove(0) } else { texts.join("\n") }
}

/// Returns the results of calls.
fn result_parts(line: &Line, raw: &[u8], most: usize) -> Vec<TurnPart> {
    let blocks = line.blocks.iter().filter(|block| block.kind == Some(BlockKind::ToolResult));
    let ended = |block: &BlockSpans| {
        let content = Json::new(block.content.bytes_in(raw));
        let text = |item: Json<'_>| item.get("text").and_then(Json::as_str).map(|t| t.into_owned());
        let result = match content.as_str() {
            Some(text) => text,
            None => content.items().filter_map(text).collect::<Vec<_>>().join("\n").into(),
        };
        let failed = block.is_error.bytes_in(raw) == b"true";
        let outcome = outcome(&result, failed);
        let id = Json::new(block.id.bytes_in(raw)).as_str().unwrap_or_default().into_owned();
        TurnPart::Result(
            id,
            SummarisedResult {
                text: if most > 0 { start_of(&result, most) } else { String::new() },
                outcome,
                failed,
            },
        )
    };
    blocks.map(ended).collect()
}

/// Returns the text of an entry; images and documents are named.
fn texts(line: &Line, raw: &[u8]) -> Vec<String> {
    let Some(message) = line.message else { return Vec::new() };
    if let Some(text) = Json::new(message.content.bytes_in(raw)).as_str() {
        return vec![text.into_owned()];
    }
    let text = |block: &BlockSpans| match block.kind {
        Some(BlockKind::Text) => Json::new(block.text.bytes_in(raw)).as_str().map(|text| text.into_owned()),
        Some(BlockKind::Image | BlockKind::Document) => {
            Some(describe_media(Json::new(block.whole.bytes_in(raw))))
        }
        _ => None,
    };
    line.blocks.iter().filter_map(text).collect()
}

/// Returns a typed command: its name and arguments.
fn typed_command(text: &str) -> Option<String> {
    let part = |tag: &str| {
        let rest = text.split_once(&format!("<{tag}>"))?.1;
        let words = rest.split_once(&format!("</{tag}>")).map_or(rest, |(words, _)| words).trim();
        (!words.is_empty()).then(|| words.to_owned())
    };
    let shell = part("bash-input").map(|command| format!("! {command}"));
    let command =
        [part("command-name"), part("command-args")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    shell.or_else(|| (!command.is_empty()).then_some(command))
}

/// Describes the subject of a call in a line.
fn subject(input: Json<'_>) -> String {
    if let Some(text) = main_argument(input) {
        return one_line(&text, 100);
    }
    let mut first = None;
    input.for_each_member(|_, value| {
        if first.is_none() {
            first = value.as_str().map(|text| one_line(&text, 100));
        }
    });
    first.unwrap_or_default()
}

/// Describes the outcome of a call, if the result shows one.
fn outcome(result: &str, failed: bool) -> String {
    let shows_outcome = |line: &&str| {
        let low = line.to_ascii_lowercase();
        let counts = low.bytes().any(|b| b.is_ascii_digit());
        counts && (low.contains(" passed") || low.contains(" failed") || low.contains(" failing"))
            || low.contains("test result:")
            || low.starts_with("error")
            || low.contains("build succe")
            || low.contains("build fail")
            || low.starts_with("fatal:")
            || low.contains("panicked at")
    };
    let line = result.lines().map(str::trim).rfind(shows_outcome);
    let line = line.or_else(|| {
        let first = result.lines().map(str::trim).find(|line| !line.is_empty());
        first.filter(|_| failed)
    });
    match (line, failed) {
        (Some(line), true) => format!("failed: {}", one_line(line, 100)),
        (Some(line), false) => one_line(line, 100),
        (None, true) => "failed".to_owned(),
        (None, false) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcome_of_a_command_is_found() {
        let passed = "test result: ok. 3 passed; 0 failed";
        assert_eq!(outcome(&format!("a\n{passed}\n\n"), false), passed);
        assert_eq!(outcome("no such file\nx", true), "failed: no such file");
        assert_eq!(outcome("hello", false), "");
        let typed = "<command-name>/fix</command-name>\n<command-args>the footer</command-args>";
        assert_eq!(typed_command(typed).as_deref(), Some("/fix the footer"));
        assert_eq!(typed_command("<bash-input>ls</bash-input>").as_deref(), Some("! ls"));
    }
}
