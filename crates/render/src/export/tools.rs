//! The content of a tool call: a one-line summary, and sections that show it in full.

use std::borrow::Cow;
use std::path::Path;

use rethread_log::Json;
use rethread_model::collapse_whitespace;
use similar::{ChangeTag, TextDiff};

use crate::call_summary::CallSummary;

use super::safe::{LONG, clean_short, strip_control_codes};

/// A section of a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CallSection {
    /// Code, or any preformatted text: a label, the language, the text.
    Code(&'static str, String, String),
    /// Prose in Markdown, with a label.
    Prose(&'static str, String),
    /// Changed lines, each with its `+` or `-` prefix.
    Diff(String),
    /// A to-do list.
    Todos(Vec<(TodoState, String)>),
}

/// The state of a to-do item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TodoState {
    Open,
    InProgress,
    Done,
}

/// A call: its summary and its sections.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallView {
    /// One-line summary.
    pub(crate) summary: String,
    /// Its input.
    pub(crate) sections: Vec<CallSection>,
    /// Short and informative enough to be shown unfolded.
    pub(crate) expanded: bool,
}

/// Maximum number of lines of a diff that is shown unfolded.
const SHORT_DIFF: usize = 40;
/// Maximum length of texts that are compared; longer ones are shown one after the other.
const MAX_COMPARED: usize = 200_000;
/// Maximum number of lines of texts that are compared.
const MAX_LINES: usize = 2_000;

/// Describes a call. `copy` is the client's structured copy of the result.
pub(crate) fn describe_call(tool: &str, input: Json<'_>, copy: Json<'_>) -> CallView {
    let text = |key: &str| input.get(key).and_then(Json::as_str).filter(|t| !t.trim().is_empty());
    let file = || text("file_path").or_else(|| text("notebook_path")).or_else(|| text("path"));
    let mut open = false;
    let pieces = match tool {
        "Bash" | "PowerShell" => {
            let mut pieces = Vec::new();
            let language = if tool == "Bash" { "bash" } else { "powershell" };
            if let Some(command) = text("command") {
                pieces.push(CallSection::Code("Command", language.into(), clean_short(command)));
            }
            push_other_fields(&mut pieces, input, &["command", "description"]);
            pieces
        }
        "Edit" | "MultiEdit" => match diff_of(input, copy) {
            Some(diff) => {
                open = diff.lines().count() <= SHORT_DIFF;
                let mut pieces = vec![CallSection::Diff(diff)];
                let shown = ["file_path", "old_string", "new_string", "edits", "replace_all"];
                push_other_fields(&mut pieces, input, &shown);
                pieces
            }
            None => whole_input(input),
        },
        "Write" | "NotebookEdit" => {
            let key = if tool == "Write" { "content" } else { "new_source" };
            match text(key) {
                Some(content) => {
                    let mut pieces: Vec<CallSection> =
                        patch_of(copy).map(CallSection::Diff).into_iter().collect();
                    let language = language(file().as_deref());
                    pieces.push(CallSection::Code("Content", language, clean_short(content)));
                    push_other_fields(&mut pieces, input, &["file_path", "notebook_path", key]);
                    pieces
                }
                None => whole_input(input),
            }
        }
        "TodoWrite" => match todos(input) {
            Some(list) => {
                open = list.len() <= SHORT_DIFF;
                vec![CallSection::Todos(list)]
            }
            None => whole_input(input),
        },
        "Task" | "Agent" => {
            let mut pieces = Vec::new();
            if let Some(prompt) = text("prompt") {
                pieces.push(CallSection::Prose("Prompt", clean_short(prompt)));
            }
            push_other_fields(&mut pieces, input, &["prompt", "description"]);
            pieces
        }
        "ExitPlanMode" => match text("plan") {
            Some(plan) => {
                open = true;
                let mut pieces = vec![CallSection::Prose("Plan", clean_short(plan))];
                push_other_fields(&mut pieces, input, &["plan"]);
                pieces
            }
            None => whole_input(input),
        },
        "AskUserQuestion" => match questions(input) {
            Some(asked) => {
                open = true;
                vec![CallSection::Prose("Questions", asked)]
            }
            None => whole_input(input),
        },
        _ => whole_input(input),
    };
    let diff = pieces.iter().find_map(|piece| match piece {
        CallSection::Diff(diff) => Some(&**diff),
        _ => None,
    });
    CallView {
        summary: short(&CallSummary::with_diff(tool, input, copy, diff).line()),
        sections: pieces,
        expanded: open,
    }
}

/// Cuts a text for display on one line.
fn short(text: &str) -> String {
    crate::text::truncate(text, 160)
}

/// Returns the whole input as sections; none if it is empty.
fn whole_input(input: Json<'_>) -> Vec<CallSection> {
    let mut pieces = Vec::new();
    push_other_fields(&mut pieces, input, &[]);
    pieces
}

/// Adds the input fields that are not shown otherwise.
fn push_other_fields(pieces: &mut Vec<CallSection>, input: Json<'_>, shown: &[&str]) {
    let mut left = serde_json::Map::new();
    let mut broken = !input.is_object();
    let mut len = 0;
    input.for_each_member(|key, value| {
        let name = String::from_utf8_lossy(key);
        if !shown.contains(&&*name) {
            len += key.len() + value.raw().len();
            if len <= LONG {
                match serde_json::from_slice(value.raw()) {
                    Ok(value) => drop(left.insert(name.into_owned(), value)),
                    Err(_) => broken = true,
                }
            }
        }
    });
    if broken && !input.raw().is_empty() {
        let text = String::from_utf8_lossy(input.raw());
        pieces.push(CallSection::Code("Input", "json".into(), clean_short(text)));
    } else if len > LONG {
        // A very long input is shown as written: parsed, it would take many times its length.
        let mut text = String::with_capacity(len);
        input.for_each_member(|key, value| {
            let name = String::from_utf8_lossy(key);
            if !shown.contains(&&*name) {
                let mark = if text.is_empty() { '{' } else { ',' };
                text.extend([mark, '"']);
                text.push_str(&name);
                text.push_str("\":");
                text.push_str(&String::from_utf8_lossy(value.raw()));
            }
        });
        text.push('}');
        pieces.push(CallSection::Code("Input", "json".into(), clean_short(text.into())));
    } else if !left.is_empty() {
        let text = serde_json::to_string_pretty(&left).unwrap_or_default();
        pieces.push(CallSection::Code("Input", "json".into(), clean_short(text.into())));
    }
}

/// Returns the number of added and removed lines of an edit.
pub(crate) fn edited_lines(input: Json<'_>, copy: Json<'_>) -> Option<(usize, usize)> {
    diff_of(input, copy).as_deref().map(changed_lines)
}

/// Returns the number of added and removed lines of a diff.
pub(crate) fn changed_lines(diff: &str) -> (usize, usize) {
    let count = |mark: u8| diff.lines().filter(|line| line.as_bytes().first() == Some(&mark)).count();
    (count(b'+'), count(b'-'))
}

/// Returns the diff that the client kept, or one computed from the strings of the call.
fn diff_of(input: Json<'_>, copy: Json<'_>) -> Option<String> {
    if let Some(diff) = patch_of(copy) {
        return Some(diff);
    }
    let mut out = String::new();
    let mut edit = |edit: Json<'_>| -> Option<()> {
        let old = edit.get("old_string")?.as_str()?;
        let new = edit.get("new_string")?.as_str()?;
        compare(&strip_control_codes(&old), &strip_control_codes(&new), &mut out);
        Some(())
    };
    match input.get("edits").filter(|edits| edits.is_array()) {
        Some(edits) => edits.items().try_for_each(&mut edit)?,
        None => edit(input)?,
    }
    Some(out).filter(|out| !out.is_empty())
}

fn compare(old: &str, new: &str, out: &mut String) {
    let mut line = |mark: char, text: &str| {
        out.push(mark);
        out.push_str(text.strip_suffix('\n').unwrap_or(text));
        out.push('\n');
    };
    if old.len() + new.len() > MAX_COMPARED || old.lines().count() + new.lines().count() > MAX_LINES {
        old.lines().for_each(|text| line('-', text));
        new.lines().for_each(|text| line('+', text));
        return;
    }
    let diff = TextDiff::configure().algorithm(similar::Algorithm::Patience).diff_lines(old, new);
    for change in diff.iter_all_changes() {
        let mark = match change.tag() {
            ChangeTag::Equal => ' ',
            ChangeTag::Delete => '-',
            ChangeTag::Insert => '+',
        };
        line(mark, change.value());
    }
}

/// Reads `structuredPatch`.
fn patch_of(copy: Json<'_>) -> Option<String> {
    let patch = copy.get("structuredPatch")?;
    let mut out = String::new();
    for hunk in patch.items() {
        let number = |key: &str| hunk.get(key).and_then(Json::as_u64).unwrap_or(0);
        out.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            number("oldStart"),
            number("oldLines"),
            number("newStart"),
            number("newLines")
        ));
        for line in hunk.get("lines")?.items() {
            // A line of a hunk is one line, whatever it contains.
            out.push_str(&strip_control_codes(&line.as_str()?).replace('\n', " "));
            out.push('\n');
        }
    }
    Some(out).filter(|out| !out.is_empty())
}

fn todos(input: Json<'_>) -> Option<Vec<(TodoState, String)>> {
    let todo = |item: Json<'_>| {
        let state = match &*item.get("status")?.as_str()? {
            "completed" => TodoState::Done,
            "in_progress" => TodoState::InProgress,
            _ => TodoState::Open,
        };
        let text = item.get("content")?.as_str()?;
        Some((state, collapse_whitespace(&strip_control_codes(&text))))
    };
    input.get("todos")?.items().map(todo).collect::<Option<Vec<_>>>().filter(|list| !list.is_empty())
}

fn questions(input: Json<'_>) -> Option<String> {
    let mut out = String::new();
    for question in input.get("questions")?.items() {
        out.push_str(&strip_control_codes(&question.get("question")?.as_str()?));
        out.push_str("\n\n");
        for option in question.get("options").into_iter().flat_map(Json::items) {
            let text = |key: &str| option.get(key).and_then(Json::as_str).unwrap_or_default();
            let (label, description) = (text("label"), text("description"));
            out.push_str(&format!(
                "- **{}** {}\n",
                collapse_whitespace(&strip_control_codes(&label)),
                collapse_whitespace(&strip_control_codes(&description))
            ));
        }
        out.push('\n');
    }
    Some(out).filter(|out| !out.is_empty())
}

/// Returns the language of a file, by its extension.
pub(crate) fn language(file: Option<&str>) -> String {
    let path = Path::new(file.unwrap_or_default());
    let name = path.file_name().map(|n| n.to_string_lossy().to_lowercase()).unwrap_or_default();
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default();
    let language = match &*ending {
        "rs" => "rust",
        "py" | "pyi" => "python",
        "js" | "mjs" | "cjs" => "js",
        "ts" | "mts" | "cts" => "ts",
        "rb" => "ruby",
        "sh" | "bash" | "zsh" => "bash",
        "yml" => "yaml",
        "md" | "mdx" => "markdown",
        "htm" => "html",
        "h" | "c" => "c",
        "cc" | "cpp" | "hpp" | "cxx" => "cpp",
        "kt" | "kts" => "kotlin",
        "cfg" | "conf" => "ini",
        "" if name == "dockerfile" || name == "makefile" => &name,
        other => other,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "+#-".contains(c);
    if language.len() <= 20 && language.chars().all(plain) { language.to_owned() } else { String::new() }
}

/// Returns the language of a result, for syntax colouring.
pub(crate) fn result_language(tool: &str, input: Json<'_>) -> String {
    match tool {
        "Read" => language(input.get("file_path").and_then(Json::as_str).as_deref()),
        _ => String::new(),
    }
}

/// Returns the language and text of a block that is not text, a call or an image. Returns `None` if it
/// contains only unreadable data.
pub(crate) fn describe_other_block(block: Json<'_>) -> Option<(&'static str, String)> {
    let source = block.get("source");
    let data = || source.and_then(|source| source.get("data")).and_then(Json::as_str);
    match source.and_then(|source| source.get("type")).and_then(Json::as_str).as_deref() {
        Some("text") => return Some(("", clean_short(data()?))),
        Some("base64") => return None,
        _ => {}
    }
    let mut members = 0;
    block.for_each_member(|_, _| members += 1);
    if members < 2 && !block.is_array() {
        return None;
    }
    if block.raw().len() > LONG {
        return Some(("json", spelled(block)));
    }
    let text = String::from_utf8_lossy(block.raw());
    let pretty = serde_json::from_str::<serde_json::Value>(&text).map(|mut value| {
        shorten_data(&mut value);
        serde_json::to_string_pretty(&value).unwrap_or_default()
    });
    Some(("json", clean_short(pretty.unwrap_or_else(|_| text.into_owned()).into())))
}

/// Returns a very long block as written, without its data: parsed, it would take many times its length.
fn spelled(block: Json<'_>) -> String {
    let mut text = String::new();
    block.for_each_member(|key, value| {
        let mark = if text.is_empty() { '{' } else { ',' };
        text.extend([mark, '"']);
        text.push_str(&String::from_utf8_lossy(key));
        text.push_str("\":");
        match value.raw_string().filter(|_| is_data(key)) {
            Some(data) => text.push_str(&format!("\"({} bytes)\"", data.len())),
            None => text.push_str(&String::from_utf8_lossy(value.raw())),
        }
    });
    if text.is_empty() {
        return String::from_utf8_lossy(block.raw()).into_owned();
    }
    text.push('}');
    text
}

fn is_data(key: &[u8]) -> bool {
    matches!(key, b"data" | b"encrypted_content" | b"signature")
}

/// Removes encrypted and encoded data, which nobody reads.
fn shorten_data(value: &mut serde_json::Value) {
    use serde_json::Value;
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => {
                for (key, value) in members.iter_mut() {
                    let data = is_data(key.as_bytes());
                    match value {
                        Value::String(text) if data && text.len() > 200 => {
                            *text = format!("({} bytes)", text.len());
                        }
                        _ => left.push(value),
                    }
                }
            }
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
}

/// Returns a text of a user entry without client markup and control characters.
pub(crate) fn strip_client_markup<'t>(text: &'t str) -> Cow<'t, str> {
    match rethread_model::readable_text(text) {
        Cow::Borrowed(text) => strip_control_codes(text),
        Cow::Owned(text) => Cow::Owned(strip_control_codes(&text).into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(tool: &str, input: &str) -> String {
        let view = describe_call(tool, Json::new(input.as_bytes()), Json::new(b""));
        let pieces: Vec<String> = view
            .sections
            .iter()
            .map(|piece| match piece {
                CallSection::Code(label, language, text) => format!("{label}({language}): {text}"),
                CallSection::Prose(label, text) => format!("{label}: {text}"),
                CallSection::Diff(text) => format!("diff:\n{text}"),
                CallSection::Todos(list) => format!("{list:?}"),
            })
            .collect();
        format!("{} | {}", view.summary, pieces.join(" | "))
    }

    #[test]
    fn call_summaries_name_their_subject() {
        insta::assert_snapshot!(described("Bash", r#"{"command":"npm test\n","description":"Run"}"#), @"
        Run | Command(bash): npm test
        ");
        insta::assert_snapshot!(described("Edit", r#"{"file_path":"a.rs","old_string":"a\nb\nc","new_string":"a\nB\nc"}"#), @"
        a.rs · +1 −1 | diff:
         a
        -b
        +B
         c
        ");
        insta::assert_snapshot!(described("TodoWrite", r#"{"todos":[{"content":"one","status":"completed"},{"content":"two","status":"pending"}]}"#), @r#"1 of 2 done | [(Done, "one"), (Open, "two")]"#);
        insta::assert_snapshot!(described("Write", r#"{"file_path":"/x/a.py","content":"print(1)"}"#), @"/x/a.py · 1 line | Content(python): print(1)");
        insta::assert_snapshot!(described("mcp__x", r#"{"a":1,"b":[true]}"#), @r#"
        a: 1, b: [true] | Input(json): {
          "a": 1,
          "b": [
            true
          ]
        }
        "#);
        insta::assert_snapshot!(described("Edit", r#""not an object""#), @r#""not an object" | Input(json): "not an object""#);
    }

    #[test]
    fn very_long_input_is_shown_as_written() {
        let list = format!("[{}1]", "1,".repeat(LONG));
        let input = format!("{{\"path\":\"a\",\"list\":{list}}}");
        let view = describe_call("mcp__x", Json::new(input.as_bytes()), Json::new(b""));
        assert_eq!(view.summary, "a");
        assert!(view.sections == [CallSection::Code("Input", "json".into(), input.clone())]);
        let command = format!("{{\"command\":\"echo {}\"}}", "a\\n".repeat(LONG));
        let view = describe_call("Bash", Json::new(command.as_bytes()), Json::new(b""));
        assert!(view.summary.starts_with("echo a a"), "{}", view.summary);
        assert!(matches!(&view.sections[..], [CallSection::Code(_, _, text)] if text.len() == 5 + 2 * LONG));
    }

    #[test]
    fn patch_from_the_client_is_preferred() {
        let copy = br#"{"structuredPatch":[{"oldStart":3,"oldLines":1,"newStart":3,"newLines":1,"lines":["-x","+y"]}]}"#;
        let view =
            describe_call("Edit", Json::new(br#"{"old_string":"x","new_string":"y"}"#), Json::new(copy));
        assert_eq!(view.sections, [CallSection::Diff("@@ -3,1 +3,1 @@\n-x\n+y\n".into())]);
    }
}
