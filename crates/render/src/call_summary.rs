//! One line about a tool call and its result, the same in every output.
//!
//! The texts are from a log, on one line but not escaped: whoever prints them escapes them.

use std::borrow::Cow;

use rethread_log::Json;
use rethread_model::{CallEvent, ResultEvent, beginning, collapse_whitespace, main_argument};

use crate::export::{changed_lines, edited_lines, strip_control_codes};
use crate::text::plural;

/// Maximum length of a text that is found in an unknown input and short enough to describe a call.
const SHORT_ARGUMENT: usize = 200;

/// A tool call in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSummary {
    /// The tool; `server: tool` for the tool of an MCP server.
    pub tool: String,
    /// The subject of the call: a file, a description, a question.
    pub subject: String,
    /// Figures about it: lines read, lines added and removed, files found.
    pub figures: String,
    /// More about it, if there is room: the command that a description is about, the current to-do item.
    pub detail: String,
    /// The result; `None` if the figures say everything about it, or there is none.
    pub outcome: Option<CallOutcome>,
}

/// The result of a call in a few words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallOutcome {
    /// Its first line that says something.
    pub text: String,
    /// The number of other lines that are not empty.
    pub more_lines: u64,
    /// The call failed.
    pub is_error: bool,
}

impl CallSummary {
    /// Summarises a call and its results. Files below `directory` are named relative to it.
    pub fn new(call: &CallEvent<'_>, directory: &str) -> Self {
        let (tool, input, copy) = (call.block.tool(), call.block.input(), call.result_copy());
        let mut summary = Self::of_input(&tool, input, copy, directory);
        if call.results.is_empty() {
            let text = "no result".to_owned();
            summary.outcome = Some(CallOutcome { text, is_error: true, ..CallOutcome::default() });
        }
        if let Some(result) = call.results.first() {
            summary.add_result(&tool, result, copy);
        }
        summary
    }

    /// Summarises a call without its result. `copy` is the client's structured copy of the result.
    pub(crate) fn of_input(tool: &str, input: Json<'_>, copy: Json<'_>, directory: &str) -> Self {
        Self::of_fields(tool, &CallFields { input, copy, directory, diff: None })
    }

    /// Summarises a call whose diff is known, if it has one. Files are named by their whole path.
    pub(crate) fn with_diff(tool: &str, input: Json<'_>, copy: Json<'_>, diff: Option<&str>) -> Self {
        Self::of_fields(tool, &CallFields { input, copy, directory: "", diff })
    }

    fn of_fields(tool: &str, fields: &CallFields<'_>) -> Self {
        let mut summary = fields.summary(tool);
        summary.tool = tool_name(tool);
        for text in [&mut summary.subject, &mut summary.figures, &mut summary.detail] {
            *text = collapse_whitespace(&strip_control_codes(text));
        }
        summary
    }

    /// Returns the subject and its figures, without the tool.
    pub fn line(&self) -> String {
        let separator = if self.subject.is_empty() || self.figures.is_empty() { "" } else { " · " };
        [&*self.subject, separator, &*self.figures].concat()
    }

    fn add_result(&mut self, tool: &str, result: &ResultEvent<'_>, copy: Json<'_>) {
        let is_error = result.block.is_error();
        let text = result.text();
        if !is_error && self.figures.is_empty() {
            self.figures = counted_lines(tool, &text);
        }
        if !is_error && is_described_by_figures(tool, &self.figures) {
            return;
        }
        let answers = (tool == "AskUserQuestion" && !is_error).then(|| answers(copy)).flatten();
        self.outcome = Some(match answers {
            Some(text) => CallOutcome { text, ..CallOutcome::default() },
            None => CallOutcome::new(&text, is_error),
        });
    }
}

impl CallOutcome {
    /// Summarises the text of a result.
    pub fn new(text: &str, is_error: bool) -> Self {
        let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
        // A bracket, a rule or a heading of one word says nothing about what follows.
        let first = lines().find(|line| says_something(line)).or_else(|| lines().next());
        let mut first = line_of(first.unwrap_or("no output"));
        let mut shown = 1;
        // The exit code is on a line of its own, before the output; the reason is the first line that names an error.
        if is_error && first.starts_with("Exit code ") {
            let output = || lines().skip(1);
            let reason = output().find(|line| is_error_message(line)).or_else(|| output().next());
            first = first.replacen("Exit", "exit", 1);
            if let Some(reason) = reason {
                first = format!("{first}: {}", line_of(reason));
                shown = 2;
            }
        }
        let more_lines = (lines().count() as u64).saturating_sub(shown);
        Self { text: first, more_lines, is_error }
    }

    /// Summarises a result.
    pub fn of_result(result: &ResultEvent<'_>) -> Self {
        Self::new(&result.text(), result.block.is_error())
    }
}

/// Returns whether a line of output has words, and is not only the heading of a section or the begin of a code block.
fn says_something(line: &str) -> bool {
    let words = line.trim_start_matches('#');
    let is_heading = words.len() < line.len() && words.starts_with(' ');
    let is_bare = is_heading && words.split_whitespace().nth(1).is_none();
    !is_bare && !line.starts_with("```") && line.contains(char::is_alphanumeric)
}

/// Returns whether a line of output begins like the message of an error.
fn is_error_message(line: &str) -> bool {
    let start = line.get(..6).unwrap_or_default();
    start.eq_ignore_ascii_case("error:")
        || start.eq_ignore_ascii_case("error[")
        || start.eq_ignore_ascii_case("fatal:")
}

/// Returns the beginning of a line of a result, without markup of the client.
fn line_of(line: &str) -> String {
    let line = &line[..line.floor_char_boundary(4096)];
    let line = strip_control_codes(line);
    let line = line.strip_prefix("<tool_use_error>").unwrap_or(&line);
    collapse_whitespace(line.strip_suffix("</tool_use_error>").unwrap_or(line))
}

/// Returns the name of a tool as people call it.
fn tool_name(tool: &str) -> String {
    let name = tool.strip_prefix("mcp__").and_then(|rest| rest.split_once("__"));
    let name = name.map_or_else(|| tool.to_owned(), |(server, tool)| format!("{server}: {tool}"));
    collapse_whitespace(&strip_control_codes(&name))
}

/// Returns whether the text of a successful result adds nothing to the figures.
fn is_described_by_figures(tool: &str, figures: &str) -> bool {
    match tool {
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "Read" | "Glob" | "Grep" | "LS" => {
            !figures.is_empty()
        }
        "TodoWrite" | "Skill" | "TaskCreate" | "TaskUpdate" | "SendMessage" | "ExitPlanMode" => true,
        _ => false,
    }
}

/// Returns the number of lines of a result whose text is too long to be quoted.
fn counted_lines(tool: &str, text: &str) -> String {
    let lines = || text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    match tool {
        "Read" | "Grep" if !text.trim().is_empty() => plural(lines(), "line").to_string(),
        "Glob" | "LS" if !text.trim().is_empty() => plural(lines(), "file").to_string(),
        _ => String::new(),
    }
}

/// Returns the answers of a person to questions.
fn answers(copy: Json<'_>) -> Option<String> {
    let mut texts = Vec::new();
    copy.get("answers")?.for_each_member(|_, answer| texts.extend(answer.as_str().map(Cow::into_owned)));
    (!texts.is_empty()).then(|| collapse_whitespace(&strip_control_codes(&texts.join(" · "))))
}

/// The input of a call, with what is known about its result.
struct CallFields<'a> {
    input: Json<'a>,
    copy: Json<'a>,
    directory: &'a str,
    /// The changes of an edit, if the caller has computed them.
    diff: Option<&'a str>,
}

impl CallFields<'_> {
    /// Returns the number of added and removed lines of an edit.
    fn changed_lines(&self) -> Option<(usize, usize)> {
        self.diff.map(changed_lines).or_else(|| edited_lines(self.input, self.copy))
    }

    fn text(&self, key: &str) -> Option<String> {
        let text = self.input.get(key).and_then(beginning)?;
        (!text.trim().is_empty()).then(|| text.into_owned())
    }

    /// Returns the first of these fields that has a text.
    fn first_of(&self, keys: &[&str]) -> String {
        keys.iter().find_map(|key| self.text(key)).unwrap_or_default()
    }

    /// Returns the path of a file, relative to the directory of the session.
    fn path(&self) -> String {
        self.relative(self.first_of(&["file_path", "notebook_path", "path"]))
    }

    fn relative(&self, path: String) -> String {
        let below = path.strip_prefix(self.directory).filter(|_| !self.directory.is_empty());
        match below {
            Some("") => ".".to_owned(),
            Some(below) => below.strip_prefix(['/', '\\']).map_or(path.clone(), str::to_owned),
            None => path,
        }
    }

    fn summary(&self, tool: &str) -> CallSummary {
        let of = |subject: String| CallSummary { subject, ..CallSummary::default() };
        match tool {
            "Bash" | "PowerShell" | "Monitor" => {
                let command = self.first_of(&["command"]);
                match self.text("description") {
                    Some(subject) if command.is_empty() => of(subject),
                    Some(subject) => CallSummary { detail: format!("$ {command}"), ..of(subject) },
                    None => of(command),
                }
            }
            "Read" => CallSummary { figures: self.lines_read(), ..of(self.path()) },
            "Edit" | "MultiEdit" | "NotebookEdit" => {
                CallSummary { figures: self.lines_changed(), ..of(self.path()) }
            }
            "Write" => CallSummary { figures: self.lines_written(), ..of(self.path()) },
            "Grep" | "Glob" => CallSummary { figures: self.files_found(tool), ..of(self.searched()) },
            "TodoWrite" => self.todos(),
            "Task" | "Agent" => {
                let figures = self.first_of(&["subagent_type"]);
                CallSummary { figures, ..of(self.first_of(&["description", "prompt"])) }
            }
            "ExitPlanMode" => of(self.plan_heading()),
            "AskUserQuestion" => self.questions(),
            "SendMessage" => self.sent_message(),
            "Skill" => {
                let skill = self.first_of(&["skill", "command"]);
                CallSummary { detail: self.first_of(&["args"]), ..of(skill) }
            }
            "TaskUpdate" => {
                let status = self.text("status").map_or_else(String::new, |status| format!(" → {status}"));
                of(format!("#{}{status}", self.first_of(&["taskId", "task_id"])))
            }
            "WebFetch" => CallSummary { detail: self.first_of(&["prompt"]), ..of(self.first_of(&["url"])) },
            _ => of(self.any_argument()),
        }
        .or_argument(self)
    }

    /// Returns a description of any input: a known field, or else the first short text.
    fn any_argument(&self) -> String {
        if let Some(text) = main_argument(self.input) {
            return self.relative(text.into_owned());
        }
        let mut found = None;
        let mut members = 0;
        self.input.for_each_member(|_, value| {
            members += 1;
            if found.is_none() && value.raw().len() <= SHORT_ARGUMENT {
                found = value.as_str().filter(|text| !text.trim().is_empty()).map(Cow::into_owned);
            }
        });
        match (found, String::from_utf8_lossy(self.input.raw())) {
            (Some(found), _) => found,
            (None, _) if members == 0 && self.input.is_object() => String::new(),
            (None, raw) if raw.len() <= SHORT_ARGUMENT && self.input.is_object() => self.listed_members(),
            (None, raw) if raw.len() <= SHORT_ARGUMENT => raw.into_owned(),
            (None, _) => format!("({})", plural(members, "field")),
        }
    }

    /// Lists the members of a short input as people write them.
    fn listed_members(&self) -> String {
        let mut members = Vec::new();
        self.input.for_each_member(|name, value| {
            let value = value.as_str().unwrap_or_else(|| String::from_utf8_lossy(value.raw()));
            members.push(format!("{}: {value}", String::from_utf8_lossy(name)));
        });
        members.join(", ")
    }

    fn lines_read(&self) -> String {
        let Some(file) = self.copy.get("file") else { return String::new() };
        let number = |key: &str| file.get(key).and_then(Json::as_u64);
        match (number("numLines"), number("startLine"), number("totalLines")) {
            (Some(lines), Some(start), Some(total)) if lines > 0 && lines < total => {
                format!("lines {start}–{} of {total}", start.saturating_add(lines - 1))
            }
            (Some(lines), ..) => plural(lines, "line").to_string(),
            _ => String::new(),
        }
    }

    fn lines_changed(&self) -> String {
        self.changed_lines().map_or_else(String::new, |(added, removed)| match (added, removed) {
            (0, 0) => "unchanged".to_owned(),
            (added, 0) => format!("+{added}"),
            (0, removed) => format!("−{removed}"),
            (added, removed) => format!("+{added} −{removed}"),
        })
    }

    fn lines_written(&self) -> String {
        let changed = self.copy.get("structuredPatch").and_then(|_| self.changed_lines());
        match (changed, self.input.get("content").and_then(Json::as_str)) {
            (Some((added, removed)), _) if removed > 0 => format!("+{added} −{removed}"),
            (_, Some(content)) => plural(content.lines().count() as u64, "line").to_string(),
            (_, None) => String::new(),
        }
    }

    fn searched(&self) -> String {
        let pattern = self.first_of(&["pattern"]);
        let path = self.text("path").map(|path| self.relative(path)).filter(|path| path != ".");
        let places: Vec<String> =
            path.into_iter().chain(self.text("glob")).chain(self.text("type")).collect();
        if places.is_empty() { pattern } else { format!("{pattern} in {}", places.join(", ")) }
    }

    fn files_found(&self, tool: &str) -> String {
        let number = |key: &str| self.copy.get(key).and_then(Json::as_u64);
        let mode = self.copy.get("mode").and_then(Json::as_str);
        match (mode.as_deref(), number("numFiles"), number("numLines")) {
            (Some("content"), _, Some(lines)) => plural(lines, "line").to_string(),
            (Some("content"), _, None) => String::new(),
            (_, Some(files), _) if tool == "Glob" || mode.is_some() => plural(files, "file").to_string(),
            _ => String::new(),
        }
    }

    fn todos(&self) -> CallSummary {
        let (mut done, mut total, mut current) = (0, 0, None);
        for item in self.input.get("todos").into_iter().flat_map(Json::items) {
            let status = item.get("status").and_then(Json::as_str).unwrap_or_default();
            total += 1;
            done += u64::from(status == "completed");
            if status == "in_progress" && current.is_none() {
                current = item.get("content").and_then(beginning).map(Cow::into_owned);
            }
        }
        let subject = if total == 0 { String::new() } else { format!("{done} of {total} done") };
        let figures = current.map_or_else(String::new, |current| format!("now: {current}"));
        CallSummary { subject, figures, ..CallSummary::default() }
    }

    /// Returns the first line of a plan.
    fn plan_heading(&self) -> String {
        let plan = self.first_of(&["plan"]);
        let line = plan.lines().map(|line| line.trim_start_matches(['#', ' '])).find(|line| !line.is_empty());
        line.unwrap_or("plan").to_owned()
    }

    fn questions(&self) -> CallSummary {
        let mut questions = self.input.get("questions").into_iter().flat_map(Json::items);
        let first = questions.next().and_then(|question| question.get("question").and_then(beginning));
        let more = questions.count() as u64;
        let figures = if more == 0 { String::new() } else { format!("+{}", plural(more, "question")) };
        CallSummary {
            subject: first.map_or_else(String::new, Cow::into_owned),
            figures,
            ..CallSummary::default()
        }
    }

    fn sent_message(&self) -> CallSummary {
        let recipient = self.first_of(&["recipient", "to"]);
        let words = self.first_of(&["summary", "content", "message"]);
        let separator = if recipient.is_empty() || words.is_empty() { "" } else { ": " };
        let recipient = if recipient.is_empty() { recipient } else { format!("to {recipient}") };
        CallSummary { subject: [&*recipient, separator, &*words].concat(), ..CallSummary::default() }
    }
}

impl CallSummary {
    /// Falls back to any argument, if the expected ones are missing.
    fn or_argument(mut self, fields: &CallFields<'_>) -> Self {
        if self.subject.is_empty() {
            self.subject = fields.any_argument();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(tool: &str, input: &str, copy: &str) -> String {
        let (input, copy) = (Json::new(input.as_bytes()), Json::new(copy.as_bytes()));
        let summary = CallSummary::of_input(tool, input, copy, "/home/ada/kettle");
        format!("{} | {} | {}", summary.tool, summary.line(), summary.detail)
    }

    #[test]
    fn summary_of_a_result_is_a_line_that_says_something() {
        let summary = |text: &str| {
            let CallOutcome { text, more_lines, .. } = CallOutcome::new(text, false);
            format!("{text} +{more_lines}")
        };
        assert_eq!(summary("{\n  \"name\": \"kettle\"\n}"), "\"name\": \"kettle\" +2");
        assert_eq!(summary("---\n## Summary\n\nAll is well."), "All is well. +2");
        assert_eq!(summary("## Report of the kettle\nHot."), "## Report of the kettle +1");
        assert_eq!(summary("{}"), "{} +0", "if no line says anything, the first one");
    }

    #[test]
    fn calls_are_described_by_their_subject() {
        let calls = [
            ("Bash", r#"{"command":"cargo test\n","description":"Run the tests"}"#, ""),
            ("Bash", r#"{"command":"cargo test"}"#, ""),
            ("Read", r#"{"file_path":"/home/ada/kettle/src/a.rs"}"#, r#"{"file":{"numLines":12}}"#),
            (
                "Read",
                r#"{"file_path":"/etc/hosts"}"#,
                r#"{"file":{"numLines":10,"startLine":5,"totalLines":90}}"#,
            ),
            ("Edit", r#"{"file_path":"/home/ada/kettle/a","old_string":"a\nb","new_string":"a\nc\nd"}"#, ""),
            ("Write", r#"{"file_path":"/home/ada/kettles/a","content":"x\ny\n"}"#, ""),
            (
                "Grep",
                r#"{"pattern":"fn main","path":"/home/ada/kettle/src","glob":"*.rs"}"#,
                r#"{"mode":"files_with_matches","numFiles":3}"#,
            ),
            ("Glob", r#"{"pattern":"**/*.rs"}"#, r#"{"numFiles":1}"#),
            (
                "TodoWrite",
                r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"in_progress"}]}"#,
                "",
            ),
            ("ExitPlanMode", r##"{"plan":"\n# Fix the kettle\n1. boil"}"##, ""),
            ("AskUserQuestion", r#"{"questions":[{"question":"Which pin?"},{"question":"Why?"}]}"#, ""),
            ("SendMessage", r#"{"recipient":"verify","summary":"done"}"#, ""),
            ("Task", r#"{"description":"Find it","subagent_type":"Explore","prompt":"…"}"#, ""),
            ("TaskUpdate", r#"{"taskId":"3","status":"completed"}"#, ""),
            ("mcp__github__merge", r#"{"pullNumber":54,"owner":"ada"}"#, ""),
            ("TeamDelete", "{}", ""),
            ("Edit", r#""not an object""#, ""),
        ];
        let lines: Vec<String> = calls.iter().map(|(tool, input, copy)| summary(tool, input, copy)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r#"
        Bash | Run the tests | $ cargo test
        Bash | cargo test | 
        Read | src/a.rs · 12 lines | 
        Read | /etc/hosts · lines 5–14 of 90 | 
        Edit | a · +2 −1 | 
        Write | /home/ada/kettles/a · 2 lines | 
        Grep | fn main in src, *.rs · 3 files | 
        Glob | **/*.rs · 1 file | 
        TodoWrite | 1 of 2 done · now: b | 
        ExitPlanMode | Fix the kettle | 
        AskUserQuestion | Which pin? · +1 question | 
        SendMessage | to verify: done | 
        Task | Find it · Explore | 
        TaskUpdate | #3 → completed | 
        github: merge | ada | 
        TeamDelete |  | 
        Edit | "not an object" |
        "#);
    }

    #[test]
    fn outcomes_name_the_exit_code_and_the_first_line() {
        let outcome = |text: &str| CallOutcome::new(text, true).text;
        assert_eq!(outcome("Exit code 1\n\nerror: no\nmore"), "exit code 1: error: no");
        assert_eq!(outcome("Exit code 101\n  Compiling a\nerror[E1]: b"), "exit code 101: error[E1]: b");
        assert_eq!(outcome("<tool_use_error>File not found</tool_use_error>"), "File not found");
        assert_eq!(CallOutcome::new("", false).text, "no output");
        assert_eq!(
            CallOutcome::new("\u{1b}[32mok\u{1b}[0m\n\nb\nc", false),
            CallOutcome { text: "ok".into(), more_lines: 2, is_error: false }
        );
    }
}
