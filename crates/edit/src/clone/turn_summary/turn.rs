//! The content of a turn, and its summary.

use rethread_model::MessageNo;
use rustc_hash::FxHashSet;

use super::sentences::informative_sentences;
use super::start_of;

/// Maximum length of a line about a tool, in characters.
const LINE: usize = 160;

/// Maximum number of files that are listed by name.
const MAX_FILES: usize = 12;

/// The content of one turn.
#[derive(Default)]
pub(super) struct TurnContent {
    /// Its number; 0 is the content before the first prompt.
    pub(super) n: usize,
    /// Numbers of its first and last message.
    pub(super) messages: Option<(MessageNo, MessageNo)>,
    pub(super) events: Vec<TurnEvent>,
}

/// A prompt, an answer, or a call.
pub(super) enum TurnEvent {
    User(String),
    Text(String),
    Call(SummarisedCall),
}

/// A call with its result.
pub(super) struct SummarisedCall {
    pub(super) tool: String,
    /// The file, the command, or the search pattern.
    pub(super) about: String,
    /// The result, if there is one.
    pub(super) result: Option<SummarisedResult>,
}

impl SummarisedCall {
    /// Returns a line about the call, and whether it reports an outcome.
    fn line(&self) -> (bool, String) {
        let outcome = self.result.as_ref().map_or("", |result| &result.outcome);
        let outcome = if outcome.is_empty() { String::new() } else { format!(" → {outcome}") };
        let about = if self.about.is_empty() { String::new() } else { format!(": {}", self.about) };
        let line = format!("- {}{about}{outcome}", self.tool);
        (self.failed() || !outcome.is_empty(), start_of(&line, LINE))
    }

    fn failed(&self) -> bool {
        self.result.as_ref().is_some_and(|ended| ended.failed)
    }
}

/// The result of a call.
pub(super) struct SummarisedResult {
    /// The beginning of the result.
    pub(super) text: String,
    /// The outcome of the call, if the result shows one.
    pub(super) outcome: String,
    pub(super) failed: bool,
}

impl TurnContent {
    /// Adds a message by its number.
    pub(super) fn add_message(&mut self, message: MessageNo) {
        let (first, last) = self.messages.unwrap_or((message, message));
        self.messages = Some((first.min(message), last.max(message)));
    }

    /// Returns the full content, for an external summariser.
    pub(super) fn transcript(&self) -> String {
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
    pub(super) fn summary(&self, tokens: usize) -> String {
        let room = tokens * 4;
        let tools = ToolUses::of(&self.events).lines(room * 2 / 5);
        let used: usize = tools.iter().map(|line| line.len() + 1).sum();
        let mut lines = Vec::new();
        let texts = self.events.iter().filter_map(|event| match event {
            TurnEvent::Text(text) => Some(text.as_str()),
            TurnEvent::User(_) | TurnEvent::Call(_) => None,
        });
        let sentences = informative_sentences(&texts.collect::<Vec<_>>(), room.saturating_sub(used));
        if !sentences.is_empty() {
            lines.push(sentences.join(" "));
        }
        lines.extend(tools);
        lines.join("\n")
    }
}

/// The uses of tools in a turn.
#[derive(Default)]
struct ToolUses<'e> {
    changed_files: Vec<&'e str>,
    read_files: Vec<&'e str>,
    /// A line for each other call, and whether it reports an outcome.
    others: Vec<(bool, String)>,
}

impl<'e> ToolUses<'e> {
    fn of(events: &'e [TurnEvent]) -> Self {
        let mut uses = Self::default();
        let mut seen: FxHashSet<(&str, &str)> = FxHashSet::default();
        for event in events {
            let TurnEvent::Call(call) = event else { continue };
            let (tool, about) = (call.tool.as_str(), call.about.as_str());
            let files = match tool {
                "Edit" | "MultiEdit" | "Write" | "NotebookEdit" | "Update" if !call.failed() => {
                    &mut uses.changed_files
                }
                "Read" | "Glob" | "Grep" | "LS" | "View" if !call.failed() => &mut uses.read_files,
                _ => {
                    uses.others.push(call.line());
                    continue;
                }
            };
            if seen.insert((tool, about)) && !files.contains(&about) {
                files.push(about);
            }
        }
        uses
    }

    /// Returns lines that fit in `room` bytes: changed files, other calls, files that were read.
    fn lines(&self, room: usize) -> Vec<String> {
        let mut out = Vec::new();
        let mut room = room;
        if !self.changed_files.is_empty() {
            let names = file_list("Changed", &self.changed_files);
            let number = format!("- Changed: {} files", self.changed_files.len());
            out.extend([names, number].into_iter().find(|line| line.len() < room));
        }
        room = room.saturating_sub(out.iter().map(|line| line.len() + 1).sum::<usize>());
        let (shown, room) = self.shown_others(room);
        let n_hidden = self.others.len() - shown.len();
        out.extend(shown.into_iter().map(|at| self.others[at].1.clone()));
        if !self.read_files.is_empty() && room > 40 {
            let names = file_list("Looked at", &self.read_files);
            let number = || format!("- Looked at: {} files", self.read_files.len());
            out.push(if names.len() < room { names } else { number() });
        }
        if n_hidden > 0 {
            out.push(format!("- and {n_hidden} more calls"));
        }
        out
    }

    /// Chooses the other calls that fit in `room` bytes; returns their positions and the room that is left.
    fn shown_others(&self, mut room: usize) -> (Vec<usize>, usize) {
        // Lines with an outcome first; the latest of them are the most informative.
        let mut order: Vec<usize> = (0..self.others.len()).collect();
        order.sort_by_key(|&at| (!self.others[at].0, std::cmp::Reverse(at)));
        let mut shown: Vec<usize> = Vec::new();
        for at in order {
            let len = self.others[at].1.len();
            if len < room {
                room -= len + 1;
                shown.push(at);
            }
        }
        shown.sort_unstable();
        (shown, room)
    }
}

/// Returns a line that lists files.
fn file_list(name: &str, files: &[&str]) -> String {
    let shown = files.len().min(MAX_FILES);
    let more = files.len() - shown;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("- {name}: {}{more}", files[..shown].join(", "))
}
