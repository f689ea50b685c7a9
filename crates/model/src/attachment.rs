//! What clients make of attachments, as far as it decides what is sent.

use rethread_log::{Json, Key, Line};

use crate::client::Client;
use crate::flags::Flags;

/// What is known of an attachment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attached {
    /// Its place in [`SORTS`], or none for a type that is never sent.
    sort: Option<u8>,
    /// There is nothing in it to say.
    empty: bool,
    /// It tells of a change that is none, which 2.1.112 tells nevertheless.
    hollow: bool,
    /// It holds pictures.
    pictures: bool,
    /// How the newest client wrote down what it said of it, if it did.
    rendered: Option<Rendered>,
}

#[derive(Debug, Clone, Copy)]
struct Rendered {
    empty: bool,
    pictures: bool,
    role: Option<Voice>,
}

/// As whose words something is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// In a message of the user.
    User,
    /// Between two turns.
    System,
}

/// What a client says of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Saying {
    pub(crate) voice: Voice,
    pub(crate) pictures: bool,
    /// The pictures come in a message of their own.
    pub(crate) apart: bool,
}

impl Saying {
    /// Words of the client alone.
    pub(crate) const PLAIN: Self = Self { voice: Voice::System, pictures: false, apart: false };
}

use Client::{V1_0_128, V2_0_36, V2_0_77, V2_1_20, V2_1_76, V2_1_112, V2_1_200, V2_1_325};

/// The types that are sent, with the first and the last client that does, and whether the newest
/// sends them as the user's words.
const SORTS: &[(&str, Client, Client, bool)] = &[
    ("account_memory_recall", V2_1_325, V2_1_325, true),
    ("agent_listing_delta", V2_1_112, V2_1_325, false),
    ("agent_mention", V1_0_128, V2_1_325, false),
    ("artifact_opening_prefetch", V2_1_325, V2_1_325, true),
    ("async_agent_status", V2_0_36, V2_0_36, false),
    ("async_hook_response", V1_0_128, V2_1_325, false),
    ("auto_mode", V2_1_20, V2_1_325, false),
    ("auto_mode_exit", V2_1_20, V2_1_325, false),
    ("background_remote_session_status", V1_0_128, V2_0_36, false),
    ("background_shell_status", V1_0_128, V2_0_36, false),
    ("budget_usd", V2_0_36, V2_1_325, false),
    ("collab_notification", V2_0_77, V2_0_77, false),
    ("compact_file_reference", V1_0_128, V2_1_325, false),
    ("context_sections", V2_1_325, V2_1_325, true),
    ("coordinator_context", V2_1_325, V2_1_325, true),
    ("cowork_memory_context", V2_1_325, V2_1_325, true),
    ("critical_system_reminder", V2_0_77, V2_1_325, false),
    ("date", V2_1_325, V2_1_325, false),
    ("date_change", V2_1_76, V2_1_325, false),
    ("deferred_tools_delta", V2_1_76, V2_1_325, false),
    ("delegate_mode", V2_0_77, V2_0_77, false),
    ("delegate_mode_exit", V2_0_77, V2_0_77, false),
    ("diagnostics", V1_0_128, V2_1_325, false),
    ("dir_sync_notice", V2_1_325, V2_1_325, true),
    ("directory", V1_0_128, V2_1_325, false),
    ("edited_text_file", V1_0_128, V2_1_325, false),
    ("environment", V2_1_325, V2_1_325, false),
    ("file", V1_0_128, V2_1_325, false),
    ("fork_briefing", V2_1_325, V2_1_325, true),
    ("goals", V2_1_325, V2_1_325, true),
    ("hook_additional_context", V2_0_36, V2_1_325, false),
    ("hook_blocking_error", V2_0_36, V2_1_325, false),
    ("hook_stopped_continuation", V2_0_36, V2_1_325, false),
    ("hook_success", V2_0_36, V2_1_325, false),
    ("instruction_files_not_loaded", V2_1_325, V2_1_325, true),
    ("instructions", V2_1_325, V2_1_325, true),
    ("invoked_skills", V2_0_77, V2_1_325, false),
    ("mcp_dropped_tools_delta", V2_1_325, V2_1_325, false),
    ("mcp_instructions_delta", V2_1_76, V2_1_325, false),
    ("mcp_resource", V1_0_128, V2_1_325, false),
    ("memory", V1_0_128, V2_0_77, false),
    ("memory_update", V2_1_325, V2_1_325, false),
    ("model", V2_1_325, V2_1_325, false),
    ("nested_memory", V1_0_128, V2_1_325, false),
    ("opened_file_in_ide", V1_0_128, V2_1_325, false),
    ("output_style", V1_0_128, V2_1_325, false),
    ("output_token_usage", V2_1_20, V2_1_200, false),
    ("pdf_reference", V2_1_20, V2_1_325, false),
    ("plan_file_reference", V2_0_77, V2_1_325, false),
    ("plan_mode", V1_0_128, V2_1_325, false),
    ("plan_mode_exit", V2_0_77, V2_1_325, false),
    ("plan_mode_reentry", V2_0_77, V2_1_325, false),
    ("poll_events", V2_1_325, V2_1_325, true),
    ("queued_command", V1_0_128, V2_1_325, false),
    ("relevant_memories", V2_1_20, V2_1_325, false),
    ("remote_session_change", V2_1_325, V2_1_325, true),
    ("selected_lines_in_diff", V2_1_325, V2_1_325, false),
    ("selected_lines_in_ide", V1_0_128, V2_1_325, false),
    ("session_context", V2_1_325, V2_1_325, true),
    ("skill_listing", V2_1_76, V2_1_325, false),
    ("task_reminder", V2_1_200, V2_1_325, false),
    ("task_status", V2_0_77, V2_1_325, false),
    ("todo", V1_0_128, V2_0_77, false),
    ("todo_reminder", V1_0_128, V2_1_200, false),
    ("token_usage", V2_0_36, V2_1_325, false),
    ("tool_search_usage_reminder", V2_1_325, V2_1_325, false),
    ("ultramemory", V1_0_128, V2_1_200, false),
    ("ultrathink_effort", V2_1_20, V2_1_200, false),
    ("unknown_command_fallback", V2_1_325, V2_1_325, true),
    ("verify_plan_reminder", V2_1_20, V2_1_200, false),
    ("widget_context_hint", V2_1_325, V2_1_325, true),
];

/// The tools of the newest client that can be looked for.
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
pub(crate) const OLD_TOOLS: [&str; 17] = [
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

/// Those that it has for older models only.
pub(crate) const TASK_TOOLS: [&str; 4] = ["TaskCreate", "TaskGet", "TaskList", "TaskUpdate"];

/// Types that the newest client keeps and never sends.
const NEVER: [&str; 12] = [
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

impl Attached {
    /// Reads an attachment entry.
    pub(crate) fn of(line: &Line, raw: &[u8]) -> (Self, Flags) {
        let attachment = Json::new(line.field(Key::Attachment).of(raw));
        let kind = attachment.get("type").and_then(Json::inner).unwrap_or_default();
        let mut flags = Flags::default();
        let sound = is_sound(attachment, kind);
        flags.set_if(!sound, Flags::ODD_ATTACHMENT);
        let fatal = matches!(kind, b"file" | b"todo_reminder" | b"hook_additional_context");
        flags.set_if(!attachment.is_object() || !sound && fatal, Flags::FATAL_ATTACHMENT);
        flags.set_if(kind == b"queued_command", Flags::QUEUED);
        flags.set_if(kind == b"fork_briefing", Flags::BRIEFING);
        flags.set_if(kind == b"hook_stopped_continuation", Flags::ENDS_TURN);
        let never = NEVER.iter().any(|name| name.as_bytes() == kind);
        let sort = SORTS.iter().position(|(name, ..)| name.as_bytes() == kind);
        let attached = Self {
            sort: sort.and_then(|sort| u8::try_from(sort).ok()),
            empty: is_empty(attachment, kind),
            hollow: kind == b"deferred_tools_delta",
            pictures: has_pictures(attachment, kind),
            rendered: if never { None } else { rendered(line, raw) },
        };
        (attached, flags)
    }

    /// Tells whether it is of this type.
    pub(crate) fn is(self, name: &str) -> bool {
        self.sort.is_some_and(|sort| SORTS[sort as usize].0 == name)
    }

    /// What a client says of it, if anything.
    pub(crate) fn said_by(self, client: Client) -> Option<Saying> {
        let sort = self.sort.map(|sort| &SORTS[sort as usize]);
        let as_user = sort.is_some_and(|&(_, _, _, as_user)| as_user);
        if client >= V2_1_325
            && let Some(rendered) = self.rendered
        {
            let own = if as_user { Voice::User } else { Voice::System };
            let voice = if rendered.pictures { Voice::User } else { rendered.role.unwrap_or(own) };
            return (!rendered.empty).then_some(Saying { voice, pictures: rendered.pictures, apart: false });
        }
        let &(_, since, until, _) = sort.filter(|_| client > V1_0_128)?;
        let empty = self.empty && !(self.hollow && client == V2_1_112);
        if empty || client < since || client > until {
            return None;
        }
        let pictures = self.pictures && client >= V2_0_77;
        let user = pictures || client >= V2_1_325 && as_user;
        Some(Saying {
            voice: if user { Voice::User } else { Voice::System },
            pictures,
            apart: self.is("file"),
        })
    }
}

/// The newest client writes down what it said.
fn rendered(line: &Line, raw: &[u8]) -> Option<Rendered> {
    let list = Json::new(line.field(Key::Rendered).of(raw));
    let contents: Option<Vec<Json<'_>>> = list.items().map(|item| item.get("content")).collect();
    let contents = contents.filter(|_| list.is_array())?;
    let is_picture = |item: Json<'_>| item.get("type").and_then(Json::inner) != Some(b"text");
    let role = match line.string(Key::RenderedRole, raw) {
        Some(b"user") => Some(Voice::User),
        Some(b"system") => Some(Voice::System),
        _ => None,
    };
    let pictures = contents.iter().any(|content| content.items().any(is_picture));
    Some(Rendered { empty: contents.is_empty(), pictures, role })
}

fn is_empty(attachment: Json<'_>, kind: &[u8]) -> bool {
    let text = |key: &str| attachment.get(key).and_then(Json::inner).unwrap_or_default();
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
    let of_kind = |json: Json<'_>, kind: &[u8]| json.get("type").and_then(Json::inner) == Some(kind);
    match kind {
        b"queued_command" => {
            attachment.get("prompt").is_some_and(|prompt| prompt.items().any(|item| of_kind(item, b"image")))
        }
        b"file" => attachment.get("content").is_some_and(|content| of_kind(content, b"image")),
        _ => false,
    }
}

/// Tells whether the payload has the form that its type asks for; 2.1.325 leaves out what has not.
fn is_sound(attachment: Json<'_>, kind: &[u8]) -> bool {
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
    fn the_table_is_sorted_and_fits_its_index() {
        assert!(SORTS.is_sorted_by_key(|(name, ..)| name));
        assert!(SORTS.len() < usize::from(u8::MAX));
    }
}
