//! What clients make of attachments, as far as it decides what is sent.

use rethread_log::Json;

use crate::flags::Flags;

/// Returns what is true of an attachment.
pub(crate) fn flags_of(attachment: Json<'_>) -> Flags {
    let mut flags = Flags::default();
    let kind = attachment.get("type").and_then(Json::inner).unwrap_or_default();
    flags.set_if(!is_sound(attachment, kind), Flags::ODD_ATTACHMENT);
    match kind {
        b"queued_command" => {
            flags.set(Flags::QUEUED);
            let blocks = attachment.get("prompt").is_some_and(Json::is_array);
            flags.set_if(blocks, Flags::QUEUED_BLOCKS);
        }
        b"fork_briefing" => flags.set(Flags::BRIEFING),
        b"compaction_reminder" | b"companion_intro" | b"pen_mode_enter" | b"pen_mode_exit" => {
            flags.set(Flags::DEAD_ATTACHMENT);
        }
        _ => {}
    }
    flags
}

/// Tells whether the payload has the form that its type asks for; 2.1.325 leaves out what has not.
fn is_sound(attachment: Json<'_>, kind: &[u8]) -> bool {
    let all = |list: Option<Json<'_>>, fits: fn(Json<'_>) -> bool| {
        list.is_some_and(|list| list.is_array() && list.items().all(fits))
    };
    let content = attachment.get("content");
    let is_string = |json: Json<'_>| json.inner().is_some();
    match kind {
        b"" => false,
        b"invoked_skills" => all(attachment.get("skills"), |skill| skill.is_object()),
        b"hook_success" => content.is_some_and(is_string),
        b"skill_listing" => match attachment.get("names") {
            None => true,
            Some(names) => names.raw() == b"null" || all(Some(names), |name| name.inner().is_some()),
        },
        b"hook_additional_context" => all(content, |text| text.inner().is_some()),
        b"task_reminder" | b"todo_reminder" => all(content, |item| item.is_object()),
        b"file" | b"already_read_file" => content.is_some_and(Json::is_object),
        _ => true,
    }
}
