//! The properties of an entry that clients depend on.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rethread_log::{BlockKind, BlockSpans, Entry, Json, Key, Line};

use crate::flags::EntryFlags;
use crate::prompt::{is_blank, trim_escaped_start};

/// Sets the flags that an entry of any type can have.
pub(super) fn set_envelope_flags(entry: &Entry<'_>, line: &Line, flags: &mut EntryFlags) {
    let raw = entry.raw;
    flags.set_if(line.flag(Key::IsSidechain, raw), EntryFlags::SIDECHAIN);
    flags.set_if(!line.field(Key::IsSidechain).is_empty(), EntryFlags::SIDECHAIN_KEY);
    flags.set_if(line.flag(Key::IsMeta, raw), EntryFlags::META);
    flags.set_if(entry.preceded, EntryFlags::PRECEDED);
    flags.set_if(entry.followed, EntryFlags::FOLLOWED);
    flags.set_if(line.flag(Key::IsVirtual, raw), EntryFlags::VIRTUAL);
    flags.set_if(!line.field(Key::ParentUuid).is_empty(), EntryFlags::PARENT_KEY);
    flags.set_if(line.string(Key::Uuid, raw).is_none_or(<[u8]>::is_empty), EntryFlags::NO_UUID);
}

pub(super) fn set_content_flags(content: &[u8], line: &Line, flags: &mut EntryFlags) {
    match content.first() {
        Some(b'"') => flags.set(EntryFlags::STRING),
        Some(b'[') => {
            let empty = content[1..content.len() - 1].trim_ascii().is_empty();
            flags.set_if(line.blocks.is_empty() && !empty, EntryFlags::MALFORMED_CONTENT);
        }
        _ => flags.set(EntryFlags::MALFORMED_CONTENT),
    }
}

/// Errors after which a turn is not continued.
pub(super) const FINAL_ERRORS: [&str; 3] =
    ["dlp_request_denied", "safety_monitor_blocked", "unattended_start_limit"];

/// The first words of hidden user entries that belong to the running turn.
const COMPANION_STARTS: [&str; 13] = [
    "[structured-output-enforce]",
    "[projects-reply-gate]",
    "You ended the turn without calling",
    "Linked in your reply but not sent:",
    "Goal check-in: «",
    "The previous response failed to produce a valid tool call",
    "Your tool call was malformed",
    "[Your previous response had no visible output",
    "The PermissionDenied hook indicated",
    "Stop hook feedback:",
    "TeammateIdle hook feedback:",
    "TaskCreated hook feedback:",
    "TaskCompleted hook feedback:",
];

/// The first words of the result of a call that was interrupted by a message.
const YIELDED_RESULT_START: &[u8] = b"[Tool call did not complete: the turn was ended to deliver the message";

/// Sets the flags of a result that ends its turn.
pub(super) fn set_turn_end_flags(line: &Line, raw: &[u8], flags: &mut EntryFlags) {
    let yielded = !line.blocks.is_empty()
        && line.blocks.iter().all(|block| {
            block.kind == Some(BlockKind::ToolResult)
                && block.content.string_in(raw).is_some_and(|text| text.starts_with(YIELDED_RESULT_START))
        });
    static ABORTED: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\"backgroundedByTurnAbort\":true"));
    // The flag is at one end of the copy, before or after the output of the tool.
    let copy = line.field(Key::ToolUseResult).bytes_in(raw);
    let ends = copy.len().min(1024);
    let names = |part: &[u8]| ABORTED.find(part).is_some();
    let aborted = || names(&copy[..ends]) || names(&copy[copy.len() - ends..]);
    flags.set_if(yielded || flags.has_result() && aborted(), EntryFlags::ENDS_TURN);
    flags.set_if(line.flag(Key::ToolDenialEndsTurn, raw), EntryFlags::DENIAL);
}

/// Sets the other flags of a user entry that clients depend on.
pub(super) fn set_user_flags(line: &Line, raw: &[u8], flags: &mut EntryFlags) {
    let copy = line.field(Key::ToolUseResult).bytes_in(raw);
    flags.set_if(!matches!(copy, b"" | b"null" | b"false" | b"0" | b"\"\""), EntryFlags::RESULT_COPY);
    flags.set_if(line.flag(Key::InterruptedByShutdown, raw), EntryFlags::SHUTDOWN);
    let companion = line.flag(Key::TurnCompanion, raw) || line.string(Key::SourceToolUseId, raw).is_some();
    flags.set_if(companion, EntryFlags::COMPANION);
    let whole = line.message.and_then(|m| m.content.string_in(raw));
    let only = match &line.blocks[..] {
        [block] if block.kind == Some(BlockKind::Text) => block.text.string_in(raw),
        _ => whole,
    };
    let stopped: [&[u8]; 2] =
        [b"[Request interrupted by user]", b"[Request interrupted by user for tool use]"];
    flags.set_if(only.is_some_and(|text| stopped.contains(&text)), EntryFlags::INTERRUPT_ONLY);
    set_turn_end_flags(line, raw, flags);
    if flags.is_meta() {
        let rescue = only == Some(b"Continue from where you left off.");
        flags.set_if(rescue, EntryFlags::CONTINUE_REQUEST);
        let begins = |text: &[u8]| COMPANION_STARTS.iter().any(|start| text.starts_with(start.as_bytes()));
        flags.set_if(only.is_some_and(begins), EntryFlags::COMPANION);
    }
    let origin = Json::new(line.field(Key::Origin).bytes_in(raw));
    if origin.get("kind").and_then(Json::raw_string) == Some(b"task-notification") {
        let subkind = origin.get("subkind").and_then(Json::raw_string);
        let own = matches!(subkind, Some(b"scheduled-trigger" | b"projects-relay"));
        flags.set_if(!own, EntryFlags::NOTIFICATION);
        let report = only.is_some_and(|text| text.starts_with(b"<task-notification>"));
        flags.set_if(report, EntryFlags::TASK_REPORT);
        flags.set_if(report && line.flag(Key::QueueTranscriptOnly, raw), EntryFlags::RECORD_ONLY);
    }
    if !matches!(line.field(Key::PromptSource).bytes_in(raw), b"" | b"null") {
        return;
    }
    let mut texts = line.blocks.iter().filter(|b| b.kind == Some(BlockKind::Text));
    let last_text = whole.or_else(|| texts.next_back().and_then(|b| b.text.string_in(raw)));
    let starts = [
        ("<local-command-caveat>", EntryFlags::CAVEAT),
        ("<command-name>", EntryFlags::COMMAND_RECORD),
        ("<local-command-stdout>", EntryFlags::COMMAND_OUTPUT),
        ("<local-command-stderr>", EntryFlags::COMMAND_OUTPUT),
        ("<bash-input>", EntryFlags::BASH_INPUT),
        ("<bash-stdout>", EntryFlags::BASH_OUTPUT),
        ("<bash-stderr>", EntryFlags::BASH_OUTPUT),
    ];
    let begins = |text: &[u8], start: &str| text.starts_with(start.as_bytes());
    match starts.iter().find(|(start, _)| last_text.is_some_and(|text| begins(text, start))) {
        Some(&(_, EntryFlags::CAVEAT)) if !flags.is_meta() => {}
        Some(&(_, flag)) => return flags.set(flag),
        None => {}
    }
    let last = line.blocks.last().filter(|b| b.kind == Some(BlockKind::Text));
    let last = whole.or_else(|| last.and_then(|b| b.text.string_in(raw)));
    let slash = last.is_some_and(|text| trim_escaped_start(text).first() == Some(&b'/'));
    flags.set_if(slash && !flags.is_meta(), EntryFlags::SLASH);
}

/// Sets the flags of the kinds of blocks in an entry.
pub(super) fn set_block_flags(blocks: &[BlockSpans], raw: &[u8], flags: &mut EntryFlags) {
    for block in blocks {
        flags.set(match block.kind {
            Some(BlockKind::Text) => {
                let blank = is_blank(block.text.string_in(raw).unwrap_or_default());
                if blank { EntryFlags::BLANK } else { EntryFlags::TEXT }
            }
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => EntryFlags::THINKING,
            Some(BlockKind::ToolUse) => EntryFlags::CALL,
            Some(BlockKind::ToolResult) => EntryFlags::RESULT,
            _ => EntryFlags::MEDIA,
        });
    }
}
