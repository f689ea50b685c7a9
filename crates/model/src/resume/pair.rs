//! Every call with its result, right behind it: what clients mend before they send.

use rustc_hash::FxHashSet;

use super::request::{Part, Row, RowKind, words};
use crate::client::Client;
use crate::facts::{NONE, Sort};

/// Brings calls and results together.
pub(super) fn pair(client: Client, rows: Vec<Row>) -> Vec<Row> {
    if client < Client::V2_1_20 {
        return rows;
    }
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    let mut seen: FxHashSet<u32> = FxHashSet::default();
    let mut rows = rows.into_iter().peekable();
    while let Some(mut row) = rows.next() {
        if !row.is_assistant() {
            let behind_answer = out.last().is_some_and(Row::is_assistant);
            if client >= Client::V2_1_76 && row.is_user() && !behind_answer && row.has(Sort::Result) {
                row.parts.retain(|part| part.sort != Sort::Result);
                if row.parts.is_empty() {
                    if !out.is_empty() {
                        continue;
                    }
                    row.parts.push(Part::words(words::ORPHAN_REMOVED));
                }
            }
            out.push(row);
            continue;
        }
        if client < Client::V2_1_112 {
            seen.clear();
        }
        let own = keep_new_calls(client, &mut row, &mut seen);
        out.push(row);
        let next = rows.next_if(Row::is_user);
        let got: Vec<u32> = next
            .iter()
            .flat_map(|row| &row.parts)
            .filter(|p| p.sort == Sort::Result)
            .map(|p| p.call)
            .collect();
        let once: FxHashSet<u32> = got.iter().copied().collect();
        let owned: FxHashSet<u32> = own.iter().copied().collect();
        let missing = own.iter().filter(|call| !once.contains(call));
        let mut parts: Vec<Part> =
            missing.map(|&call| Part::no_result(call, words::RESULT_MISSING)).collect();
        let Some(mut next) = next else {
            if !parts.is_empty() {
                out.push(Row::put_in(RowKind::User, parts));
            }
            continue;
        };
        let mends = client >= Client::V2_1_76;
        let wrong = mends && (got.iter().any(|call| !owned.contains(call)) || once.len() != got.len());
        if parts.is_empty() && !wrong {
            out.push(next);
            continue;
        }
        let mut once = FxHashSet::default();
        for part in std::mem::take(&mut next.parts) {
            let stays = part.sort != Sort::Result || owned.contains(&part.call) && once.insert(part.call);
            if stays || !wrong {
                parts.push(part);
            }
        }
        if !parts.is_empty() {
            next.parts = parts;
            out.push(next);
        } else if client >= Client::V2_1_112 {
            out.push(Row::put_in(RowKind::User, vec![Part::words(words::NO_CONTENT)]));
        }
    }
    out
}

/// Drops calls that were made before; returns those that are left.
fn keep_new_calls(client: Client, row: &mut Row, seen: &mut FxHashSet<u32>) -> Vec<u32> {
    let mut own = Vec::new();
    let parts = std::mem::take(&mut row.parts);
    let thinking = |at: usize| parts.get(at).is_some_and(|part| part.sort.is_thinking());
    let server_results = |part: &Part| part.sort == Sort::ServerResult;
    let answered: FxHashSet<u32> = parts.iter().filter(|p| server_results(p)).map(|p| p.call).collect();
    for (at, part) in parts.iter().enumerate() {
        let again = match part.sort {
            Sort::Call if client >= Client::V2_1_76 && part.call != NONE => {
                let again = !seen.insert(part.call);
                if !again {
                    own.push(part.call);
                }
                again
            }
            Sort::Call => {
                own.push(part.call);
                false
            }
            Sort::Result => client >= Client::V2_1_325,
            Sort::ServerCall => client >= Client::V2_1_112 && !answered.contains(&part.call),
            _ => false,
        };
        if !again {
            row.parts.push(part.clone());
        } else if client >= Client::V2_1_200 && at > 0 && thinking(at - 1) && thinking(at + 1) {
            row.parts.push(Part::words(words::USE_REMOVED));
        }
    }
    if client >= Client::V2_1_112 && row.parts.is_empty() {
        row.parts.push(Part::words(words::USE_INTERRUPTED));
    }
    own
}
