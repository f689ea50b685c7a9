//! The delivery of attachments by clients, as far as it affects the conversation that is sent.

use rethread_log::{Json, Key, Line};
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::flags::EntryFlags;
use crate::rules::{ClientRange, ClientRule, between, since, until};

/// Facts about an attachment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct AttachmentFacts {
    /// The position in [`SENT_TYPES`], or `None` for a type that is never sent.
    type_index: Option<u8>,
    /// It has no content to send.
    empty: bool,
    /// It may report a change although there is none, which 2.1.112 sends nevertheless.
    sent_when_empty: bool,
    /// It contains images.
    pictures: bool,
    /// The rendering recorded by the newest client, if any.
    rendered: Option<Rendered>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Rendered {
    empty: bool,
    pictures: bool,
    role: Option<SenderRole>,
}

/// The role in which a text is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum SenderRole {
    /// In a user message.
    User,
    /// Between two turns.
    System,
}

/// The form in which a client sends an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttachmentDelivery {
    pub(crate) role: SenderRole,
    pub(crate) pictures: bool,
    /// The images are in a separate message.
    pub(crate) separate_pictures: bool,
}

impl AttachmentDelivery {
    /// Text of the client only.
    pub(crate) const SYSTEM_TEXT: Self =
        Self { role: SenderRole::System, pictures: false, separate_pictures: false };
}

use Client::{V2_0_36, V2_0_77, V2_1_20, V2_1_76, V2_1_112, V2_1_200, V2_1_325};

/// The types that are sent, with the clients that send them, and whether the newest sends them in the user
/// role.
const SENT_TYPES: &[(&str, ClientRange, bool)] = &[
    ("account_memory_recall", since(V2_1_325), true),
    ("agent_listing_delta", since(V2_1_112), false),
    ("agent_mention", ClientRange::ALL, false),
    ("artifact_opening_prefetch", since(V2_1_325), true),
    ("async_agent_status", between(V2_0_36, V2_0_77), false),
    ("async_hook_response", ClientRange::ALL, false),
    ("auto_mode", since(V2_1_20), false),
    ("auto_mode_exit", since(V2_1_20), false),
    ("background_remote_session_status", until(V2_0_77), false),
    ("background_shell_status", until(V2_0_77), false),
    ("budget_usd", since(V2_0_36), false),
    ("collab_notification", between(V2_0_77, V2_1_20), false),
    ("compact_file_reference", ClientRange::ALL, false),
    ("context_sections", since(V2_1_325), true),
    ("coordinator_context", since(V2_1_325), true),
    ("cowork_memory_context", since(V2_1_325), true),
    ("critical_system_reminder", since(V2_0_77), false),
    ("date", since(V2_1_325), false),
    ("date_change", since(V2_1_76), false),
    ("deferred_tools_delta", since(V2_1_76), false),
    ("delegate_mode", between(V2_0_77, V2_1_20), false),
    ("delegate_mode_exit", between(V2_0_77, V2_1_20), false),
    ("diagnostics", ClientRange::ALL, false),
    ("dir_sync_notice", since(V2_1_325), true),
    ("directory", ClientRange::ALL, false),
    ("edited_text_file", ClientRange::ALL, false),
    ("environment", since(V2_1_325), false),
    ("file", ClientRange::ALL, false),
    ("fork_briefing", since(V2_1_325), true),
    ("goals", since(V2_1_325), true),
    ("hook_additional_context", since(V2_0_36), false),
    ("hook_blocking_error", since(V2_0_36), false),
    ("hook_stopped_continuation", since(V2_0_36), false),
    ("hook_success", since(V2_0_36), false),
    ("instruction_files_not_loaded", since(V2_1_325), true),
    ("instructions", since(V2_1_325), true),
    ("invoked_skills", since(V2_0_77), false),
    ("mcp_dropped_tools_delta", since(V2_1_325), false),
    ("mcp_instructions_delta", since(V2_1_76), false),
    ("mcp_resource", ClientRange::ALL, false),
    ("memory", until(V2_1_20), false),
    ("memory_update", since(V2_1_325), false),
    ("model", since(V2_1_325), false),
    ("nested_memory", ClientRange::ALL, false),
    ("opened_file_in_ide", ClientRange::ALL, false),
    ("output_style", ClientRange::ALL, false),
    ("output_token_usage", between(V2_1_20, V2_1_325), false),
    ("pdf_reference", since(V2_1_20), false),
    ("plan_file_reference", since(V2_0_77), false),
    ("plan_mode", ClientRange::ALL, false),
    ("plan_mode_exit", since(V2_0_77), false),
    ("plan_mode_reentry", since(V2_0_77), false),
    ("poll_events", since(V2_1_325), true),
    ("queued_command", ClientRange::ALL, false),
    ("relevant_memories", since(V2_1_20), false),
    ("remote_session_change", since(V2_1_325), true),
    ("selected_lines_in_diff", since(V2_1_325), false),
    ("selected_lines_in_ide", ClientRange::ALL, false),
    ("session_context", since(V2_1_325), true),
    ("skill_listing", since(V2_1_76), false),
    ("task_reminder", since(V2_1_200), false),
    ("task_status", since(V2_0_77), false),
    ("todo", until(V2_1_20), false),
    ("todo_reminder", until(V2_1_325), false),
    ("token_usage", since(V2_0_36), false),
    ("tool_search_usage_reminder", since(V2_1_325), false),
    ("ultramemory", until(V2_1_325), false),
    ("ultrathink_effort", between(V2_1_20, V2_1_325), false),
    ("unknown_command_fallback", since(V2_1_325), true),
    ("verify_plan_reminder", between(V2_1_20, V2_1_325), false),
    ("widget_context_hint", since(V2_1_325), true),
];

/// The tools of the newest client that can be searched for.
pub(crate) const OFFERED_TOOLS: [&str; 23] = [
    "Agent",
    "Task",
    "Bash",
    "Edit",
    "Read",
    "Write",
    "Skill",
    "Workflow",
    "ToolSearch",
    "ScheduleWakeup",
    "CronCreate",
    "CronDelete",
    "CronList",
    "EnterWorktree",
    "ExitWorktree",
    "Monitor",
    "NotebookEdit",
    "SendMessage",
    "TaskStop",
    "KillShell",
    "KillBash",
    "WebFetch",
    "WebSearch",
];

/// The tools of 2.1.20.
pub(crate) const TOOLS_OF_2_1_20: [&str; 17] = [
    "AskUserQuestion",
    "Bash",
    "Edit",
    "EnterPlanMode",
    "ExitPlanMode",
    "Glob",
    "Grep",
    "NotebookEdit",
    "Read",
    "Skill",
    "Task",
    "TaskOutput",
    "TaskStop",
    "TodoWrite",
    "WebFetch",
    "WebSearch",
    "Write",
];

/// Tools that the newest client offers to older models only.
pub(crate) const TASK_TOOLS: [&str; 4] = ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// Types that the newest client stores and never sends.
const NEVER_SENT_TYPES: [&str; 12] = [
    "thinking_drop",
    "tool_results_cut",
    "credential_org",
    "prompt_snapshot",
    "prompt_render_point",
    "deferred_tools_record",
    "batching_reminder",
    "secondary_reminder",
    "compaction_reminder",
    "companion_intro",
    "pen_mode_enter",
    "pen_mode_exit",
];

impl AttachmentFacts {
    /// Reads an attachment entry.
    pub(crate) fn read(line: &Line, raw: &[u8]) -> (Self, EntryFlags) {
        let attachment = Json::new(line.field(Key::Attachment).bytes_in(raw));
        let kind = attachment.get("type").and_then(Json::raw_string).unwrap_or_default();
        let mut flags = EntryFlags::default();
        let well_formed = is_well_formed(attachment, kind);
        flags.set_if(!well_formed, EntryFlags::MALFORMED_ATTACHMENT);
        let fatal = matches!(kind, b"file" | b"todo_reminder" | b"hook_additional_context");
        flags.set_if(!attachment.is_object() || !well_formed && fatal, EntryFlags::FATAL_ATTACHMENT);
        flags.set_if(kind == b"queued_command", EntryFlags::QUEUED);
        flags.set_if(kind == b"fork_briefing", EntryFlags::BRIEFING);
        flags.set_if(kind == b"hook_stopped_continuation", EntryFlags::ENDS_TURN);
        let never = NEVER_SENT_TYPES.iter().any(|name| name.as_bytes() == kind);
        let row = SENT_TYPES.iter().position(|(name, ..)| name.as_bytes() == kind);
        let attached = Self {
            type_index: row.and_then(|row| u8::try_from(row).ok()),
            empty: is_empty(attachment, kind),
            sent_when_empty: kind == b"deferred_tools_delta",
            pictures: has_pictures(attachment, kind),
            rendered: if never { None } else { read_rendered(line, raw) },
        };
        (attached, flags)
    }

    /// Returns whether it has this type.
    pub(crate) fn has_type(self, name: &str) -> bool {
        self.type_index.is_some_and(|row| SENT_TYPES[row as usize].0 == name)
    }

    /// Returns the form in which a client sends it, if it does.
    pub(crate) fn delivery_by(self, client: Client) -> Option<AttachmentDelivery> {
        let row = self.type_index.map(|row| &SENT_TYPES[row as usize]);
        let as_user = row.is_some_and(|&(_, _, as_user)| as_user);
        if client.has(ClientRule::SendsRecordedRendering)
            && let Some(rendered) = self.rendered
        {
            let own = if as_user { SenderRole::User } else { SenderRole::System };
            let role = if rendered.pictures { SenderRole::User } else { rendered.role.unwrap_or(own) };
            return (!rendered.empty).then_some(AttachmentDelivery {
                role,
                pictures: rendered.pictures,
                separate_pictures: false,
            });
        }
        let &(_, clients, _) = row.filter(|_| client.has(ClientRule::SendsAttachments))?;
        let empty = self.empty && !(self.sent_when_empty && client.has(ClientRule::SendsEmptyToolChange));
        if empty || !clients.contains(client) {
            return None;
        }
        let pictures = self.pictures && client.has(ClientRule::SendsAttachedPictures);
        let user = pictures || client.has(ClientRule::SendsAttachmentsAsUser) && as_user;
        Some(AttachmentDelivery {
            role: if user { SenderRole::User } else { SenderRole::System },
            pictures,
            separate_pictures: self.has_type("file"),
        })
    }
}

/// Reads the rendering that the newest client records.
fn read_rendered(line: &Line, raw: &[u8]) -> Option<Rendered> {
    let list = Json::new(line.field(Key::Rendered).bytes_in(raw));
    let contents: Option<Vec<Json<'_>>> = list.items().map(|item| item.get("content")).collect();
    let contents = contents.filter(|_| list.is_array())?;
    let is_picture = |item: Json<'_>| item.get("type").and_then(Json::raw_string) != Some(b"text");
    let role = match line.string(Key::RenderedRole, raw) {
        Some(b"user") => Some(SenderRole::User),
        Some(b"system") => Some(SenderRole::System),
        _ => None,
    };
    let pictures = contents.iter().any(|content| content.items().any(is_picture));
    Some(Rendered { empty: contents.is_empty(), pictures, role })
}

fn is_empty(attachment: Json<'_>, kind: &[u8]) -> bool {
    let text = |key: &str| attachment.get(key).and_then(Json::raw_string).unwrap_or_default();
    let none = |key: &str| attachment.get(key).is_none_or(|list| list.items().next().is_none());
    match kind {
        b"queued_command" => {
            attachment.get("renderedByBatchHead").is_some_and(|v| !matches!(v.raw(), b"false" | b"null"))
        }
        b"hook_additional_context" => none("content"),
        b"hook_success" => {
            !matches!(text("hookEvent"), b"SessionStart" | b"UserPromptSubmit") || text("content").is_empty()
        }
        b"skill_listing" => text("content").is_empty(),
        b"diagnostics" => none("files"),
        b"deferred_tools_delta" => none("addedLines") && none("removedNames") && none("pendingMcpServers"),
        _ => false,
    }
}

fn has_pictures(attachment: Json<'_>, kind: &[u8]) -> bool {
    let of_kind = |json: Json<'_>, kind: &[u8]| json.get("type").and_then(Json::raw_string) == Some(kind);
    match kind {
        b"queued_command" => {
            attachment.get("prompt").is_some_and(|prompt| prompt.items().any(|item| of_kind(item, b"image")))
        }
        b"file" => attachment.get("content").is_some_and(|content| of_kind(content, b"image")),
        _ => false,
    }
}

/// Returns whether the payload matches its type. 2.1.325 skips attachments that do not.
fn is_well_formed(attachment: Json<'_>, kind: &[u8]) -> bool {
    let all = |list: Option<Json<'_>>, fits: fn(Json<'_>) -> bool| {
        list.is_some_and(|list| list.is_array() && list.items().all(fits))
    };
    let content = attachment.get("content");
    match kind {
        b"" => false,
        b"invoked_skills" => all(attachment.get("skills"), |skill| skill.is_object()),
        b"hook_success" => content.is_some_and(Json::is_string),
        b"skill_listing" => match attachment.get("names") {
            None => true,
            Some(names) => names.is_null() || all(Some(names), |name| name.is_string()),
        },
        b"hook_additional_context" => all(content, |text| text.is_string()),
        b"task_reminder" | b"todo_reminder" => all(content, |item| item.is_object()),
        b"file" | b"already_read_file" => content.is_some_and(Json::is_object),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sent_types_are_sorted_and_fit_a_u8_index() {
        assert!(SENT_TYPES.is_sorted_by_key(|(name, ..)| name));
        assert!(SENT_TYPES.len() < usize::from(u8::MAX));
    }
}
