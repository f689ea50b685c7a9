//! Summarises turns without a model: the same text for the same turns.
//!
//! Prompts are kept in full. Of the model's text the most informative sentences are kept: the first and the last
//! ones, and those that report a decision, a finding or an action. Of tool calls the changed files, the commands,
//! and the outcomes of tests and commands are kept.

use rayon::prelude::*;
use rethread_log::{BlockKind, Json, Line, parse_entry};
use rethread_model::{Facts, NodeId, Reader, Role, describe_media, main_argument};
use rustc_hash::{FxHashMap, FxHashSet};

use super::compress::{CompressOptions, CondensedTurn, OverBudget};
use crate::plan::{BlockEdit, EntryEdit, EntryEdits};

/// Turns that are to be condensed.
pub(super) struct OlderTurns {
    turns: Vec<TurnContent>,
    /// The summary of an earlier compaction, and the number of turns that it covers.
    earlier_summary: Option<(String, usize)>,
}

/// The content of one turn.
#[derive(Default)]
struct TurnContent {
    /// Its number; 0 is the content before the first prompt.
    n: usize,
    messages: Option<(usize, usize)>,
    events: Vec<TurnEvent>,
}

enum TurnEvent {
    User(String),
    Text(String),
    Call(SummarisedCall),
}

struct SummarisedCall {
    tool: String,
    /// The file, the command, or the search pattern.
    about: String,
    /// The result, if there is one.
    result: Option<SummarisedResult>,
}

impl SummarisedCall {
    fn failed(&self) -> bool {
        self.result.as_ref().is_some_and(|ended| ended.failed)
    }
}

/// Minimum and maximum number of tokens of a turn's summary.
const TURN_TOKENS: (usize, usize) = (30, 400);
/// Characters of a result that an external summariser gets.
const RESULT: usize = 2000;
/// Maximum length of a line about a tool, in characters.
const LINE: usize = 160;

/// Content of an entry, before it is assigned to a turn and a call.
enum TurnPart {
    Event(TurnEvent),
    /// A call, with its id.
    Call(String, SummarisedCall),
    /// The result of the call with this id.
    Result(String, SummarisedResult),
    /// The summary of an earlier compaction.
    EarlierSummary(String),
}

struct SummarisedResult {
    /// The beginning of the result.
    text: String,
    /// The outcome of the call, if the result shows one.
    outcome: String,
    failed: bool,
}

impl OlderTurns {
    pub(super) fn new(
        facts: &Facts,
        reader: Reader<'_>,
        edits: &EntryEdits,
        nodes: &[NodeId],
        compress: &CompressOptions,
    ) -> Self {
        let transcripts = compress.transcripts;
        let turn_reader =
            TurnReader { facts, reader, max_result_chars: if transcripts { RESULT } else { 0 } };
        // Of turns that are too old for a summary only the prompts are needed.
        let is_prompt = |node: &NodeId| facts.nodes[*node].flags.is_human();
        let prompts: Vec<usize> = (0..nodes.len()).filter(|&at| is_prompt(&nodes[at])).collect();
        let n_summarised = if transcripts { usize::MAX } else { compress.budget / TURN_TOKENS.0 };
        let first = prompts.first().copied().unwrap_or(nodes.len());
        let from = prompts.len().checked_sub(n_summarised.saturating_add(1)).map_or(0, |n| prompts[n]);
        let parts: Vec<Vec<TurnPart>> = (0..nodes.len())
            .into_par_iter()
            .map(|at| {
                if (first..from).contains(&at) && !turn_reader.may_hold_user_text(nodes[at]) {
                    return Vec::new();
                }
                turn_reader.read_entry(edits.get(nodes[at]), nodes[at])
            })
            .collect();
        let mut old = Self { turns: vec![TurnContent::default()], earlier_summary: None };
        let mut open: FxHashMap<String, (usize, usize)> = FxHashMap::default();
        let mut n = 0;
        for (&node, parts) in nodes.iter().zip(parts) {
            let fact = &facts.nodes[node];
            if fact.flags.is_human() {
                n += 1;
                old.turns.push(TurnContent { n, ..TurnContent::default() });
            }
            let at = old.turns.len() - 1;
            if let Some(message) = fact.message() {
                let n = message.get() as usize;
                let (first, last) = old.turns[at].messages.unwrap_or((n, n));
                old.turns[at].messages = Some((first.min(n), last.max(n)));
            }
            for part in parts {
                match part {
                    TurnPart::Event(event) => old.turns[at].events.push(event),
                    TurnPart::Call(id, call) => {
                        open.insert(id, (at, old.turns[at].events.len()));
                        old.turns[at].events.push(TurnEvent::Call(call));
                    }
                    TurnPart::Result(id, ended) => {
                        let Some((turn, at)) = open.remove(&id) else { continue };
                        if let Some(TurnEvent::Call(call)) = old.turns[turn].events.get_mut(at) {
                            call.result = Some(ended);
                        }
                    }
                    TurnPart::EarlierSummary(text) => old.earlier_summary = Some((text, old.turns.len())),
                }
            }
        }
        if old.turns[0].events.is_empty() {
            old.turns.remove(0);
            old.earlier_summary = old.earlier_summary.map(|(text, covered)| (text, covered - 1));
        }
        old
    }

    /// Returns the turns with their summaries, and those that exceed the budget.
    pub(super) fn turns(&self, compress: &CompressOptions) -> (Vec<CondensedTurn>, OverBudget) {
        let covered = self.earlier_summary.as_ref().map_or(0, |&(_, covered)| covered);
        let own = self.turns.len() - covered.min(self.turns.len());
        let share = (compress.budget / own.max(1)).clamp(TURN_TOKENS.0, TURN_TOKENS.1);
        // If there are more turns than the budget allows, the oldest have no summary.
        let n_summarised = compress.budget / share;
        let lens = compress.summaries.iter().flatten().map(|text| text.chars().count()).collect();
        let most = fair_limit(lens, compress.budget.saturating_mul(4));
        let late = |at: usize| at + n_summarised >= self.turns.len();
        let turn = |(at, content): (usize, &TurnContent)| {
            let given =
                compress.summaries.get(at).and_then(Option::as_deref).map(|text| start_of(text, most));
            let late = late(at);
            let generated =
                || (at >= covered && late).then(|| content.summary(share)).filter(|text| !text.is_empty());
            let (first, last) = content.messages.unwrap_or_default();
            let text = if compress.transcripts { content.transcript() } else { String::new() };
            CondensedTurn { n: content.n, messages: (first, last), text, summary: given.or_else(generated) }
        };
        let turns: Vec<CondensedTurn> = self.turns.par_iter().enumerate().map(turn).collect();
        let wants = |&(at, turn): &(usize, &CondensedTurn)| turn.n > 0 && at >= covered && !late(at);
        let without_summary =
            turns.iter().enumerate().filter(wants).filter(|(_, turn)| turn.summary.is_none()).count();
        let cut = compress.summaries.iter().flatten().filter(|text| text.chars().count() > most).count();
        (turns, OverBudget { without_summary, cut })
    }

    /// Returns the text that replaces the turns.
    pub(super) fn summary(&self, turns: &[CondensedTurn], compress: &CompressOptions) -> String {
        let n = self.turns.iter().filter(|content| content.n > 0).count();
        let first = if n == 1 { "turn is".to_owned() } else { format!("{n} turns are") };
        let mut text = format!(
            "This session goes on from an earlier conversation. Its first {first} condensed below: \
             what the user wrote stands in full, what was said and done in answer is summed up."
        );
        if let Some(command) = &compress.show_command {
            text.push_str(&format!(
                " The numbers are those of the messages; `{command} --at N` shows one in full."
            ));
        }
        for (at, (content, turn)) in self.turns.iter().zip(turns).enumerate() {
            if let Some((earlier, covered)) = &self.earlier_summary
                && *covered == at
            {
                text.push_str(&format!("\n\n## Summary of everything up to here\n\n{}", earlier.trim()));
            }
            let (first, last) = turn.messages;
            let numbers = if first == last { format!("#{first}") } else { format!("#{first} to #{last}") };
            let head = if content.n == 0 {
                "Before the first prompt".to_owned()
            } else {
                format!("Turn {}", content.n)
            };
            text.push_str(&format!("\n\n## {head} ({numbers})"));
            for event in &content.events {
                if let TurnEvent::User(prompt) = event {
                    text.push_str("\n\nUser:\n");
                    text.push_str(prompt);
                }
            }
            if let Some(summary) = &turn.summary {
                text.push_str(&format!("\n\nAssistant:\n{}", summary.trim()));
            }
        }
        if let Some((earlier, covered)) = &self.earlier_summary
            && *covered >= self.turns.len()
        {
            text.push_str(&format!("\n\n## Summary of everything up to here\n\n{}", earlier.trim()));
        }
        text
    }
}

impl TurnContent {
    /// Returns the full content, for an external summariser.
    fn transcript(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            match event {
                TurnEvent::User(prompt) => text.push_str(&format!("## User\n\n{prompt}\n\n")),
                TurnEvent::Text(answer) => text.push_str(&format!("## Assistant\n\n{answer}\n\n")),
                TurnEvent::Call(call) => {
                    let result = call.result.as_ref().map_or("", |ended| &ended.text);
                    let failed = if call.failed() { " (failed)" } else { "" };
                    text.push_str(&format!(
                        "## Tool: {}{failed}\n\n{}\n\n{result}\n\n",
                        call.tool, call.about
                    ));
                }
            }
        }
        text
    }

    /// Summarises the model's text and calls in about `tokens` tokens.
    fn summary(&self, tokens: usize) -> String {
        let room = tokens * 4;
        let tools = self.tool_lines(room * 2 / 5);
        let used: usize = tools.iter().map(|line| line.len() + 1).sum();
        let mut lines = Vec::new();
        let sentences = self.sentences(room.saturating_sub(used));
        if !sentences.is_empty() {
            lines.push(sentences.join(" "));
        }
        lines.extend(tools);
        lines.join("\n")
    }

    /// Returns the most informative sentences, in order.
    fn sentences(&self, room: usize) -> Vec<String> {
        let texts: Vec<&String> = self
            .events
            .iter()
            .filter_map(|e| if let TurnEvent::Text(text) = e { Some(text) } else { None })
            .collect();
        let mut found: Vec<(usize, i32, String)> = Vec::new();
        let mut known: FxHashSet<String> = FxHashSet::default();
        for (nth, text) in texts.iter().enumerate() {
            let sentences = sentences_of(text);
            for (at, sentence) in sentences.into_iter().enumerate() {
                let mut weight = match at {
                    0 => 4,
                    1 => 2,
                    2 => 1,
                    _ => 0,
                };
                weight += if nth + 1 == texts.len() { 4 } else { 0 };
                weight += if is_informative(&sentence) { 3 } else { 0 };
                if known.insert(sentence.clone()) {
                    found.push((found.len(), weight, sentence));
                }
            }
        }
        let mut by_weight: Vec<usize> = (0..found.len()).collect();
        by_weight.sort_by_key(|&at| (-found[at].1, found[at].0));
        let mut left = room;
        let mut chosen: Vec<usize> = Vec::new();
        for at in by_weight {
            let len = found[at].2.len() + 1;
            if len <= left {
                left -= len;
                chosen.push(at);
            } else if chosen.is_empty() {
                return vec![start_of(&found[at].2, room.saturating_sub(4) / 2)];
            }
        }
        chosen.sort_unstable();
        chosen.into_iter().map(|at| found[at].2.clone()).collect()
    }

    /// Returns a line for each use of a tool.
    fn tool_lines(&self, room: usize) -> Vec<String> {
        let mut changed: Vec<&str> = Vec::new();
        let mut read: Vec<&str> = Vec::new();
        let mut lines: Vec<(bool, String)> = Vec::new();
        let mut seen: FxHashSet<(&str, &str)> = FxHashSet::default();
        let calls =
            self.events.iter().filter_map(|e| if let TurnEvent::Call(call) = e { Some(call) } else { None });
        for call in calls {
            let files = match call.tool.as_str() {
                "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "Update" if !call.failed() => {
                    Some(&mut changed)
                }
                "Read" | "Glob" | "Grep" | "LS" | "View" if !call.failed() => Some(&mut read),
                _ => None,
            };
            match files {
                Some(files) => {
                    if seen.insert((call.tool.as_str(), call.about.as_str()))
                        && !files.contains(&call.about.as_str())
                    {
                        files.push(&call.about);
                    }
                }
                None => {
                    let end = call.result.as_ref().map_or("", |ended| &ended.outcome);
                    let end = if end.is_empty() { String::new() } else { format!(" → {end}") };
                    let about =
                        if call.about.is_empty() { String::new() } else { format!(": {}", call.about) };
                    let line = format!("- {}{about}{end}", call.tool);
                    lines.push((call.failed() || !end.is_empty(), start_of(&line, LINE)));
                }
            }
        }
        let mut out = Vec::new();
        let mut left = room;
        let mut add = |line: String| {
            let fits = line.len() < left;
            if fits {
                left -= line.len() + 1;
                out.push(line);
            }
            fits
        };
        let list = |name: &str, files: &[&str]| {
            let shown = files.len().min(12);
            let more = files.len() - shown;
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("- {name}: {}{more}", files[..shown].join(", "))
        };
        if !changed.is_empty() && !add(list("Changed", &changed)) {
            add(format!("- Changed: {} files", changed.len()));
        }
        // Lines with an outcome first; the latest of them are the most informative.
        let mut order: Vec<usize> = (0..lines.len()).collect();
        order.sort_by_key(|&at| (!lines[at].0, std::cmp::Reverse(at)));
        let mut shown: Vec<usize> = Vec::new();
        let mut room = room.saturating_sub(out.iter().map(|line| line.len() + 1).sum::<usize>());
        for at in order {
            if lines[at].1.len() < room {
                room -= lines[at].1.len() + 1;
                shown.push(at);
            }
        }
        shown.sort_unstable();
        let n_hidden = lines.len() - shown.len();
        out.extend(shown.into_iter().map(|at| lines[at].1.clone()));
        if !read.is_empty() && room > 40 {
            let line = list("Looked at", &read);
            out.push(if line.len() < room { line } else { format!("- Looked at: {} files", read.len()) });
        }
        if n_hidden > 0 {
            out.push(format!("- and {n_hidden} more calls"));
        }
        out
    }
}

/// Reads the content of entries.
struct TurnReader<'a> {
    facts: &'a Facts,
    reader: Reader<'a>,
    /// Characters of a result that are kept.
    max_result_chars: usize,
}

impl TurnReader<'_> {
    /// Returns whether an entry may contain a prompt, or a summary that does.
    fn may_hold_user_text(&self, node: NodeId) -> bool {
        let fact = &self.facts.nodes[node];
        fact.role != Role::Assistant && (fact.flags.is_human() || !fact.flags.has_result())
    }

    /// Returns the content of an entry.
    fn read_entry(&self, edit: Option<&EntryEdit>, node: NodeId) -> Vec<TurnPart> {
        let fact = &self.facts.nodes[node];
        let raw = self.reader.entry_bytes(fact.entry);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let user = |text: String| vec![TurnPart::Event(TurnEvent::User(text))];
        if fact.flags.is_summary() {
            return vec![TurnPart::EarlierSummary(texts(&line, raw).join("\n\n"))];
        }
        if fact.flags.is_queued_prompt() {
            let prompt = Json::new(line.field(rethread_log::Key::Attachment).bytes_in(raw)).get("prompt");
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
    let ended = |block: &rethread_log::BlockSpans| {
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
    let text = |block: &rethread_log::BlockSpans| match block.kind {
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

/// Returns the sentences of a text, without code.
fn sentences_of(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            code = !code;
            continue;
        }
        let line = line.trim_start_matches(['#', '-', '*', '>', ' ', '•']);
        if code || line.is_empty() || line.starts_with('|') {
            continue;
        }
        let mut start = 0;
        for (at, _) in line.match_indices(['.', '!', '?', '。', '！', '？']) {
            let end = at + line[at..].chars().next().map_or(1, char::len_utf8);
            let ends =
                line[end..].chars().next().is_none_or(char::is_whitespace) || !line[at..end].is_ascii();
            if ends && end - start > 12 {
                found.push(line[start..end].trim().to_owned());
                start = end;
            }
        }
        let rest = line[start..].trim();
        if rest.chars().count() > 2 {
            found.push(rest.to_owned());
        }
    }
    found.iter().map(|sentence| start_of(sentence, 300)).collect()
}

/// Returns whether a sentence reports a decision, a finding or an action.
fn is_informative(sentence: &str) -> bool {
    const CUES: &[&str] = &[
        "because",
        "instead",
        "decid",
        "root cause",
        "the problem",
        "the issue",
        "the fix",
        "fixed",
        "turns out",
        "turned out",
        "chose",
        "will use",
        "we use",
        "must ",
        "never ",
        "should ",
        "done",
        "implemented",
        "added",
        "removed",
        "changed",
        "created",
        "now ",
        "pass",
        "fail",
        "error",
        "bug",
        "todo",
        "next",
        "remaining",
        "`",
    ];
    let low = sentence.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

fn one_line(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    start_of(&line, most)
}

/// Returns the maximum length of each text so that all fit in `room`: short texts leave room for long ones.
fn fair_limit(mut lens: Vec<usize>, mut room: usize) -> usize {
    lens.sort_unstable();
    let n = lens.len();
    for (at, len) in lens.into_iter().enumerate() {
        let fair = room / (n - at);
        if len > fair {
            return fair;
        }
        room -= len;
    }
    usize::MAX
}

/// Returns the beginning of a text, with a mark if it was cut.
fn start_of(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", text[..at].trim_end()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_leave_room_for_long_ones() {
        assert_eq!(fair_limit(vec![10, 20, 30], 60), usize::MAX);
        assert_eq!(fair_limit(vec![100, 10, 100], 60), 25);
        assert_eq!(fair_limit(vec![100; 4], 2), 0);
        assert_eq!(fair_limit(Vec::new(), 0), usize::MAX);
    }

    #[test]
    fn sentences_are_found_outside_code() {
        let text =
            "I looked at it. The root cause is v1.2 of `x`.\n```\ncode. More.\n```\n- done!\n| a | b |";
        assert_eq!(sentences_of(text), ["I looked at it.", "The root cause is v1.2 of `x`.", "done!"]);
        assert!(is_informative("The root cause is v1.2 of `x`."));
    }

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
