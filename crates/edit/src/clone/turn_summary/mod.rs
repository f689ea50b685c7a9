//! Summarises turns without a model: the same text for the same turns.
//!
//! Prompts are kept in full. Of the model's text the most informative sentences are kept: the first and the last
//! ones, and those that report a decision, a finding or an action. Of tool calls the changed files, the commands,
//! and the outcomes of tests and commands are kept.

mod read;
mod sentences;
mod turn;

use rayon::prelude::*;
use rethread_model::{Facts, Node, NodeId, Reader};
use rustc_hash::FxHashMap;

use super::compress::{CompressOptions, CondensedTurn, OverBudget};
use crate::plan::EntryEdits;
use read::{TurnPart, TurnReader};
use turn::{TurnContent, TurnEvent};

/// Turns that are to be condensed.
pub(super) struct OlderTurns {
    turns: Vec<TurnContent>,
    /// The summary of an earlier compaction, and the number of turns that it covers.
    earlier_summary: Option<(String, usize)>,
}

/// Minimum and maximum number of tokens of a turn's summary.
const TURN_TOKENS: (usize, usize) = (30, 400);
/// Characters of a result that an external summariser gets.
const RESULT: usize = 2000;
impl OlderTurns {
    /// Reads the turns of these entries.
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
        let mut open_calls = FxHashMap::default();
        for (&node, parts) in nodes.iter().zip(parts) {
            old.add_entry(&facts.nodes[node], parts, &mut open_calls);
        }
        if old.turns[0].events.is_empty() {
            old.turns.remove(0);
            old.earlier_summary = old.earlier_summary.map(|(text, covered)| (text, covered - 1));
        }
        old
    }

    /// Adds an entry; `open_calls` are the calls without a result, by id, as a turn and an event in it.
    fn add_entry(
        &mut self,
        fact: &Node,
        parts: Vec<TurnPart>,
        open_calls: &mut FxHashMap<String, (usize, usize)>,
    ) {
        if fact.flags.is_human() {
            self.turns.push(TurnContent { n: self.turns.len(), ..TurnContent::default() });
        }
        let at = self.turns.len() - 1;
        if let Some(message) = fact.message() {
            self.turns[at].add_message(message);
        }
        for part in parts {
            match part {
                TurnPart::Event(event) => self.turns[at].events.push(event),
                TurnPart::Call(id, call) => {
                    open_calls.insert(id, (at, self.turns[at].events.len()));
                    self.turns[at].events.push(TurnEvent::Call(call));
                }
                TurnPart::Result(id, result) => {
                    let Some((turn, at)) = open_calls.remove(&id) else { continue };
                    if let Some(TurnEvent::Call(call)) = self.turns[turn].events.get_mut(at) {
                        call.result = Some(result);
                    }
                }
                TurnPart::EarlierSummary(text) => self.earlier_summary = Some((text, self.turns.len())),
            }
        }
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
            let text = if compress.transcripts { content.transcript() } else { String::new() };
            CondensedTurn {
                n: content.n,
                messages: content.messages,
                text,
                summary: given.or_else(generated),
            }
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
            text.push_str(&format!(" The numbers are those of the messages; `{command}` shows one in full."));
        }
        for (at, (content, turn)) in self.turns.iter().zip(turns).enumerate() {
            if let Some((earlier, covered)) = &self.earlier_summary
                && *covered == at
            {
                text.push_str(&format!("\n\n## Summary of everything up to here\n\n{}", earlier.trim()));
            }
            let numbers = match turn.messages {
                None => "#0".to_owned(),
                Some((first, last)) if first == last => format!("#{first}"),
                Some((first, last)) => format!("#{first} to #{last}"),
            };
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
}
