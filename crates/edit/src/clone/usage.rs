//! Corrects the context size that the last answer of a clone records.

use rethread_log::{Json, Line, parse_entry};
use rethread_model::{Block, NodeId};

use super::context::{recorded, scaled, tokens_of, tokens_of_block};
use super::select::Selection;
use crate::plan::{AddedKind, BlockEdit, PathItem, Plan};

/// Minimum recorded context that is corrected. Clients refuse to continue, or compact at once, when the last answer
/// reports a nearly full context. No client does so below this.
const MIN_STALE_TOKENS: u64 = 100_000;

/// Corrects the context size that the last answer records if it is far too large now: clients rely on it. Returns
/// whether it was corrected.
pub(super) fn correct_usage(plan: &mut Plan<'_>, selection: &Selection) -> bool {
    let facts = plan.facts;
    let path = plan.kept_path();
    let nodes = || path.iter().filter_map(|item| item.source());
    let Some(answer) = nodes().rfind(|&node| recorded(facts, node).is_some()) else { return false };
    let stale = recorded(facts, answer).filter(|&tokens| tokens > MIN_STALE_TOKENS);
    let Some(tokens) = stale.and_then(|tokens| remaining_tokens(plan, selection, &path, tokens)) else {
        return false;
    };
    let message = facts.nodes[answer].message();
    let mut corrected = false;
    for node in nodes().filter(|&node| facts.nodes[node].message() == message) {
        let raw = plan.reader.entry_bytes(facts.nodes[node].entry);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let usage = line.message.map(|message| Json::new(message.usage.bytes_in(raw)));
        if let Some(usage) = usage.filter(|usage| usage.is_object()) {
            plan.requested_edit(node).usage = Some(with_context(usage, tokens));
            corrected = true;
        }
    }
    corrected
}

/// Returns the context size of a path whose source recorded `tokens`; `None` if it has not become smaller.
fn remaining_tokens(plan: &Plan<'_>, selection: &Selection, path: &[PathItem], tokens: u64) -> Option<u64> {
    let facts = plan.facts;
    let is_boundary = |item: &PathItem| match *item {
        PathItem::Source(node) => facts.nodes[node].flags.is_boundary(),
        PathItem::Added(new) => matches!(plan.added[new].kind, AddedKind::Boundary { .. }),
    };
    let first_sent = selection.clone_path.iter().rposition(|&node| facts.nodes[node].flags.is_boundary());
    let sent = &selection.clone_path[first_sent.unwrap_or(0)..];
    let before: u64 = sent.iter().flat_map(|&node| facts.blocks_of(node)).map(tokens_of_block).sum();
    let first_sent = path.iter().rposition(is_boundary).unwrap_or(0);
    let after: u64 = path[first_sent..].iter().map(|item| tokens_left(plan, *item)).sum();
    (after < before).then(|| scaled(tokens, before, after))
}

/// Estimates the tokens of an entry after its edit.
fn tokens_left(plan: &Plan<'_>, item: PathItem) -> u64 {
    let node: NodeId = match item {
        PathItem::Source(node) => node,
        PathItem::Added(new) => {
            return match &plan.added[new].kind {
                AddedKind::Summary { text } => tokens_of(text.len() as u64),
                _ => 0,
            };
        }
    };
    let edit = plan.edits.get(node);
    let left = |(at, block): (usize, &Block)| match edit.and_then(|edit| edit.blocks.get(&at)) {
        Some(BlockEdit::Remove) => 0,
        _ => match plan.short_len(node, at) {
            Some(len) => tokens_of(len as u64),
            None => tokens_of_block(block),
        },
    };
    plan.facts.blocks_of(node).iter().enumerate().map(left).sum()
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
    fn with_context_changes_only_the_context_size() {
        let usage = br#"{"input_tokens": 3,"cache_creation_input_tokens":9,"cache_creation":{"ephemeral_5m_input_tokens":9},"cache_read_input_tokens":180000,"output_tokens":40,"service_tier":"standard"}"#;
        let out = with_context(Json::new(usage), 1234);
        assert_eq!(
            String::from_utf8(out).expect("UTF-8"),
            r#"{"input_tokens": 1234,"cache_creation_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0},"cache_read_input_tokens":0,"output_tokens":40,"service_tier":"standard"}"#
        );
    }
}
