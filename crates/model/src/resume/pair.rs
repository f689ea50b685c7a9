//! Pairs every call with a result directly after it, as clients do before they send.

use rustc_hash::FxHashSet;

use super::request::{RequestRow, RowKind, SentPart, words};
use crate::client::Client;
use crate::facts::BlockClass;
use crate::index::CallId;
use crate::rules::ClientRule;

/// Pairs calls with results.
pub(super) fn pair_calls_with_results(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    if !client.has(ClientRule::AddsMissingResults) {
        return rows;
    }
    let mut out: Vec<RequestRow> = Vec::with_capacity(rows.len());
    let mut seen: FxHashSet<CallId> = FxHashSet::default();
    let mut rows = rows.into_iter().peekable();
    while let Some(mut row) = rows.next() {
        if !row.is_assistant() {
            let follows_answer = out.last().is_some_and(RequestRow::is_assistant);
            if client.has(ClientRule::RemovesResultsWithoutAnswer)
                && row.is_user()
                && !follows_answer
                && row.has_block(BlockClass::ToolResult)
            {
                row.parts.retain(|part| part.class != BlockClass::ToolResult);
                if row.parts.is_empty() {
                    if !out.is_empty() {
                        continue;
                    }
                    row.parts.push(SentPart::client_text(words::ORPHAN_REMOVED));
                }
            }
            out.push(row);
            continue;
        }
        if !client.has(ClientRule::FindsRepeatedCallsAnywhere) {
            seen.clear();
        }
        let own = keep_new_calls(client, &mut row, &mut seen);
        out.push(row);
        let next = rows.next_if(RequestRow::is_user);
        let got: Vec<Option<CallId>> = next
            .iter()
            .flat_map(|row| &row.parts)
            .filter(|p| p.class == BlockClass::ToolResult)
            .map(|p| p.call)
            .collect();
        let once: FxHashSet<Option<CallId>> = got.iter().copied().collect();
        let owned: FxHashSet<Option<CallId>> = own.iter().copied().collect();
        let missing = own.iter().filter(|call| !once.contains(call));
        let mut parts: Vec<SentPart> =
            missing.map(|&call| SentPart::missing_result(call, words::RESULT_MISSING)).collect();
        let Some(mut next) = next else {
            if !parts.is_empty() {
                out.push(RequestRow::inserted(RowKind::User, parts));
            }
            continue;
        };
        let repairs = client.has(ClientRule::RemovesExtraResults);
        let wrong = repairs && (got.iter().any(|call| !owned.contains(call)) || once.len() != got.len());
        if parts.is_empty() && !wrong {
            out.push(next);
            continue;
        }
        let mut once = FxHashSet::default();
        for part in std::mem::take(&mut next.parts) {
            let is_kept =
                part.class != BlockClass::ToolResult || owned.contains(&part.call) && once.insert(part.call);
            if is_kept || !wrong {
                parts.push(part);
            }
        }
        if !parts.is_empty() {
            next.parts = parts;
            out.push(next);
        } else if client.has(ClientRule::FillsEmptiedUserMessages) {
            out.push(RequestRow::inserted(RowKind::User, vec![SentPart::client_text(words::NO_CONTENT)]));
        }
    }
    out
}

/// Drops calls that were already made. Returns the remaining ones.
fn keep_new_calls(client: Client, row: &mut RequestRow, seen: &mut FxHashSet<CallId>) -> Vec<Option<CallId>> {
    let mut own = Vec::new();
    let parts = std::mem::take(&mut row.parts);
    let thinking = |at: usize| parts.get(at).is_some_and(|part| part.class.is_thinking());
    let server_results = |part: &SentPart| part.class == BlockClass::ServerResult;
    let answered: FxHashSet<u32> =
        parts.iter().filter(|p| server_results(p)).map(|p| p.fingerprint).collect();
    for (at, part) in parts.iter().enumerate() {
        let again = match part.class {
            BlockClass::ToolCall => {
                let repeats = |call| client.has(ClientRule::RemovesRepeatedCalls) && !seen.insert(call);
                let again = part.call.is_some_and(repeats);
                if !again {
                    own.push(part.call);
                }
                again
            }
            BlockClass::ToolResult => client.has(ClientRule::RemovesResultsInAnswers),
            BlockClass::ServerCall => {
                client.has(ClientRule::RemovesOpenServerCalls) && !answered.contains(&part.fingerprint)
            }
            _ => false,
        };
        if !again {
            row.parts.push(part.clone());
        } else if client.has(ClientRule::SeparatesThinkingByPlaceholder)
            && at > 0
            && thinking(at - 1)
            && thinking(at + 1)
        {
            row.parts.push(SentPart::client_text(words::USE_REMOVED));
        }
    }
    if client.has(ClientRule::FillsEmptiedAnswers) && row.parts.is_empty() {
        row.parts.push(SentPart::client_text(words::USE_INTERRUPTED));
    }
    own
}
