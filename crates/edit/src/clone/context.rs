//! The context size of a session: taken from recorded usage where possible.

use rethread_model::{Block, Facts, Node, NodeId, Role, Session, Usage};

use crate::fast_path::newest_client_chain;

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

/// Estimates the tokens of a text from its length in the log.
pub(super) fn tokens_of(bytes: u64) -> u64 {
    bytes.div_ceil(4)
}

pub(super) fn tokens_of_block(block: &Block) -> u64 {
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

pub(super) fn scaled(recorded: u64, before: u64, after: u64) -> u64 {
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
    let chain = newest_client_chain(session);
    let boundary = chain.iter().rposition(|&node| facts.nodes[node].flags.is_boundary()).unwrap_or(0);
    let sent = &chain[boundary..];
    let tokens_in = |nodes: &[NodeId]| -> u64 {
        nodes.iter().flat_map(|&node| facts.blocks_of(node)).map(tokens_of_block).sum()
    };
    let estimate = tokens_in(sent);
    let last = sent.iter().enumerate().rev().find_map(|(at, &node)| Some((at, recorded(facts, node)?)));
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
fn is_api_answer(fact: &Node) -> bool {
    fact.role == Role::Assistant && !fact.flags.is_synthetic() && !fact.flags.is_failure_report()
}

fn total_tokens(usage: Usage) -> Option<u64> {
    let tokens = usage.input + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h + usage.output;
    (tokens > 0).then_some(tokens)
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
}
