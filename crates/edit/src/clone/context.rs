//! The context size of a session: taken from recorded usage where possible.

use rethread_log::Json;
use rethread_model::{Block, Facts, Node, NodeId, Role, Session, Usage, newest_client_chain};

use super::CloneBuilder;
use super::select::Selection;
use crate::plan::{AddedKind, BlockEdit, PathItem};

/// The source of a token count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Measure {
    /// Counted by the API with the last answer.
    Recorded,
    /// Estimated from what is sent: a token is about four bytes of text.
    #[default]
    Estimated,
}

impl Measure {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Estimated => "estimated",
        }
    }
}

/// Tokens that a client sends when it resumes a session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ContextSize {
    /// Number of tokens.
    pub tokens: u64,
    /// The source of that number.
    pub measure: Measure,
    /// Tokens of the messages, estimated from their length.
    pub estimate: u64,
}

/// Approximate number of tokens of an image.
const PICTURE: u64 = 1600;
/// Minimum recorded context that is corrected. Clients refuse to continue, or compact at once, when the last answer
/// reports a nearly full context. No client does so below this.
const MIN_STALE_TOKENS: u64 = 100_000;

/// Estimates the tokens of a text from its length in the log.
pub(super) fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

fn tokens_of_block(block: &Block) -> u64 {
    let picture = if block.media_bytes > 0 { PICTURE } else { 0 };
    tokens_of(u64::from(block.len.saturating_sub(block.media_bytes))) + picture
}

impl ContextSize {
    /// Returns the size when the messages are estimated at `estimate` tokens: the recorded size less the share of the
    /// removed messages. The client's instructions and tools are sent as before.
    pub fn with_estimate(&self, estimate: u64) -> Self {
        let tokens = match self.measure {
            Measure::Recorded => scaled(self.tokens, self.estimate, estimate),
            Measure::Estimated => estimate,
        };
        let measure = if estimate == self.estimate { self.measure } else { Measure::Estimated };
        Self { tokens, measure, estimate }
    }
}

/// Maximum number of tokens that a client sends in addition to the messages.
const MAX_OVERHEAD: u64 = 15_000;

fn scaled(recorded: u64, before: u64, after: u64) -> u64 {
    if after >= before {
        return recorded + (after - before);
    }
    let besides = recorded.saturating_sub(before).min(MAX_OVERHEAD);
    let share = u128::from(recorded - besides) * u128::from(after) / u128::from(before.max(1));
    besides + u64::try_from(share).unwrap_or(u64::MAX)
}

/// Measures what the newest client sends from a session.
pub fn context_size(session: &Session) -> ContextSize {
    let facts = &session.facts;
    let blocks = |node: NodeId| facts.blocks_of(node).iter().copied();
    measure_context(facts, &newest_client_chain(session), blocks, |node| recorded(facts, node))
}

/// Measures what is sent from these entries, given their blocks and recorded sizes.
pub(super) fn measure_context<B: Iterator<Item = Block>>(
    facts: &Facts,
    chain: &[NodeId],
    blocks: impl Fn(NodeId) -> B,
    recorded: impl Fn(NodeId) -> Option<u64>,
) -> ContextSize {
    let boundary = chain.iter().rposition(|&node| facts.nodes[node].flags.is_boundary()).unwrap_or(0);
    let sent = &chain[boundary..];
    let tokens_in = |nodes: &[NodeId]| -> u64 {
        nodes.iter().flat_map(|&node| blocks(node)).map(|block| tokens_of_block(&block)).sum()
    };
    let estimate = tokens_in(sent);
    let last = sent.iter().enumerate().rev().find_map(|(at, &node)| Some((at, recorded(node)?)));
    match last {
        Some((at, tokens)) => {
            let tokens = tokens + tokens_in(&sent[at + 1..]);
            ContextSize { tokens, measure: Measure::Recorded, estimate }
        }
        None => ContextSize { tokens: estimate, measure: Measure::Estimated, estimate },
    }
}

/// Returns the context size of an answer as counted by the API.
pub(super) fn recorded(facts: &Facts, node: NodeId) -> Option<u64> {
    let fact = Some(&facts.nodes[node]).filter(|fact| is_api_answer(fact))?;
    total_tokens(facts.usage(&facts.messages[fact.message()?])?)
}

/// Returns whether an entry is part of an answer from the API.
pub(super) fn is_api_answer(fact: &Node) -> bool {
    fact.role == Role::Assistant && !fact.flags.is_synthetic() && !fact.flags.is_failure_report()
}

pub(super) fn total_tokens(usage: Usage) -> Option<u64> {
    let tokens = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h + usage.output;
    (tokens > 0).then_some(tokens)
}

impl CloneBuilder<'_, '_> {
    /// Corrects the context size that the last answer records if it is far too large now: clients rely on it.
    pub(super) fn correct_usage(&mut self, selection: &Selection) {
        let plan = &*self.plan;
        let facts = plan.facts;
        let path = plan.kept_path();
        let nodes = || {
            path.iter().filter_map(|item| if let PathItem::Source(node) = item { Some(*node) } else { None })
        };
        let Some(answer) = nodes().rfind(|&node| recorded(facts, node).is_some()) else { return };
        let Some(tokens) = recorded(facts, answer).filter(|&tokens| tokens > MIN_STALE_TOKENS) else {
            return;
        };
        let boundary = |item: &PathItem| match *item {
            PathItem::Source(node) => facts.nodes[node].flags.is_boundary(),
            PathItem::Added(new) => matches!(plan.added[new].kind, AddedKind::Boundary { .. }),
        };
        let last = |items: &[PathItem]| items.iter().rposition(boundary).unwrap_or(0);
        let was: Vec<PathItem> = selection.clone_path.iter().map(|&node| PathItem::Source(node)).collect();
        let all =
            |item: &PathItem| if let PathItem::Source(node) = item { facts.blocks_of(*node) } else { &[] };
        let before: u64 = was[last(&was)..].iter().flat_map(all).map(tokens_of_block).sum();
        let after: u64 = path[last(&path)..].iter().map(|item| self.tokens_left(item)).sum();
        if after >= before {
            return;
        }
        let now = scaled(tokens, before, after);
        let message = facts.nodes[answer].message();
        let entries: Vec<NodeId> = nodes().filter(|&node| facts.nodes[node].message() == message).collect();
        for node in entries {
            let raw = self.plan.reader.entry_bytes(facts.nodes[node].entry);
            let mut line = rethread_log::Line::default();
            rethread_log::parse_entry(raw, &mut line);
            let usage = line.message.map(|message| Json::new(message.usage.bytes_in(raw)));
            if let Some(usage) = usage.filter(|usage| usage.is_object()) {
                self.plan.requested_edit(node).usage = Some(with_context(usage, now));
                self.cloned.usage_corrected = true;
            }
        }
    }

    fn tokens_left(&self, item: &PathItem) -> u64 {
        let node = match *item {
            PathItem::Source(node) => node,
            PathItem::Added(new) => {
                return match &self.plan.added[new].kind {
                    AddedKind::Summary { text } => tokens_of(text.len() as u64),
                    _ => 0,
                };
            }
        };
        let edit = self.plan.edits.get(node);
        let left = |(at, block): (usize, &Block)| match edit.and_then(|edit| edit.blocks.get(&at)) {
            Some(BlockEdit::Remove) => 0,
            _ => match self.plan.short_len(node, at) {
                Some(len) => tokens_of(len as u64),
                None => tokens_of_block(block),
            },
        };
        self.plan.facts.blocks_of(node).iter().enumerate().map(left).sum()
    }
}

/// Returns the usage of an answer with another context size.
fn with_context(usage: Json<'_>, tokens: u64) -> Vec<u8> {
    let raw = usage.raw();
    let mut out = Vec::with_capacity(raw.len());
    let mut done = 0;
    usage.for_each_member(|key, value| {
        let with: Vec<u8> = match key {
            b"input_tokens" => tokens.to_string().into_bytes(),
            b"cache_creation_input_tokens" | b"cache_read_input_tokens" => b"0".to_vec(),
            b"cache_creation" => with_zeros(value),
            b"iterations" if value.is_array() => b"[]".to_vec(),
            _ => return,
        };
        let start = value.raw().as_ptr().addr() - raw.as_ptr().addr();
        out.extend_from_slice(&raw[done..start]);
        out.extend(with);
        done = start + value.raw().len();
    });
    out.extend_from_slice(&raw[done..]);
    out
}

fn with_zeros(value: Json<'_>) -> Vec<u8> {
    let mut names = Vec::new();
    value.for_each_member(|key, _| {
        names.push(format!("{}:0", serde_json::json!(String::from_utf8_lossy(key))))
    });
    if value.is_object() { format!("{{{}}}", names.join(",")).into_bytes() } else { value.raw().to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling_shrinks_messages_but_not_overhead() {
        assert_eq!(scaled(3250, 60, 30), 3190 + 30);
        assert_eq!(scaled(535_000, 120_000, 12_000), 15_000 + 52_000);
        assert_eq!(scaled(50_000, 100_000, 25_000), 12_500, "the estimate was too high");
        assert_eq!(scaled(1000, 500, 700), 1200);
        assert_eq!(scaled(1000, 0, 0), 1000);
    }

    #[test]
    fn with_context_changes_only_the_context_size() {
        let usage = br#"{"input_tokens": 3,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":9},"cache_read_input_tokens":180000,"output_tokens":40,"service_tier":"standard"}"#;
        let out = with_context(Json::new(usage), 1234);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            r#"{"input_tokens": 1234,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0},"cache_read_input_tokens":0,"output_tokens":40,"service_tier":"standard"}"#
        );
    }
}
