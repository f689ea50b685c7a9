//! The resume rules of 2.1.325: it regroups the rows of a reply, answers calls that were cut off, and decides
//! whether the last turn is finished.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cleanup::{
    calls_in_rows, drop_until_stable, ends_with_message_tool, last_conversation_uid, last_non_system_row,
};
use super::request::{MessageId, RequestRow, RowKind, SentPart, words};
use crate::client::Client;
use crate::facts::{BlockClass, Facts};
use crate::id::{Time, Uid};
use crate::index::CallId;

pub(super) fn resumed_rows(
    facts: &Facts,
    client: Client,
    rows: Vec<RequestRow>,
    rewound: Option<Uid>,
) -> Vec<RequestRow> {
    let is_there = |rows: &[RequestRow]| rewound.is_some() && rewound == last_conversation_uid(facts, rows);
    let mut is_rewound = is_there(&rows);
    let rows = regroup(rows);
    let open = open_calls_of_last_turn(&rows);
    let (mut out, rows) = if open.is_empty() { (rows, Vec::new()) } else { (rows.clone(), rows) };
    let failed_before = ends_with_failure(if open.is_empty() { &out } else { &rows });
    drop_open(&mut out, &FxHashSet::default());
    drop_until_stable(client, &mut out);
    is_rewound |= is_there(&out);
    let cut = is_turn_cut_off(facts, &out);
    // A turn that an API failure ended some hours ago is not continued.
    let stale = cut && (ends_with_failure(&out) || failed_before);
    let mut asks_after_notes = cut;
    let mut kept = None;
    if is_rewound || stale {
        asks_after_notes &= out.iter().any(RequestRow::is_assistant);
    } else if cut && !open.is_empty() {
        kept = Some((open.clone(), calls_of_newest_message(client, &rows, &open, false)));
    }
    if kept.is_none() && !open.is_empty() && !is_rewound {
        let own = calls_of_newest_message(client, &rows, &open, true);
        kept = (!own.is_empty()).then(|| (own.clone(), own));
    }
    if let Some((kept, answered)) = kept {
        out = answer_calls(client, rows, &kept, &answered);
    }
    if let Some(last) = last_non_system_row(&out) {
        let row = &out[last];
        let asks = row.is_user() || asks_after_notes && row.kind == RowKind::Attachment;
        let over = is_finished_command(facts, &out, last) || !cut && row.flags.is_record_only();
        if asks && !over {
            out.insert(last + 1, RequestRow::inserted_answer(words::NO_REPLY));
        }
    }
    out
}

/// Adds a result to each call that was cut off.
fn answer_calls(
    client: Client,
    mut rows: Vec<RequestRow>,
    kept: &FxHashSet<Option<CallId>>,
    answered: &FxHashSet<Option<CallId>>,
) -> Vec<RequestRow> {
    drop_open(&mut rows, kept);
    drop_until_stable(client, &mut rows);
    let calls = rows.iter().filter(|row| row.is_assistant()).flat_map(|row| &row.parts);
    let calls = calls.filter(|part| part.class == BlockClass::ToolCall && answered.contains(&part.call));
    let result = |part: &SentPart| {
        let mut row = RequestRow::inserted(
            RowKind::User,
            vec![SentPart::missing_result(part.call, words::CALL_CUT_OFF)],
        );
        row.flags.set(crate::flags::EntryFlags::RESULT_COPY);
        row
    };
    let mut results: Vec<RequestRow> = calls.map(result).collect();
    rows.append(&mut results);
    rows
}

/// Returns the position after the last row before `end` that started a turn.
fn turn_start(rows: &[RequestRow], end: usize) -> usize {
    let mut answer_seen = false;
    for at in (0..end).rev() {
        let row = &rows[at];
        if row.is_assistant() {
            answer_seen = true;
        } else if row.is_user()
            && !row.has_block(BlockClass::ToolResult)
            && !row.flags.is_cut_by_shutdown()
            && (answer_seen || !row.flags.is_companion())
        {
            return at + 1;
        }
    }
    0
}

/// Returns the open calls of the last turn.
fn open_calls_of_last_turn(rows: &[RequestRow]) -> FxHashSet<Option<CallId>> {
    let conversation = rows.iter().filter(|row| row.is_user() || row.is_assistant());
    let answered = calls_in_rows(conversation, BlockClass::ToolResult);
    let start = turn_start(rows, rows.len());
    let made = calls_in_rows(rows[start..].iter().filter(|row| row.is_assistant()), BlockClass::ToolCall);
    made.difference(&answered).copied().collect()
}

/// Drops answers whose calls all lack a result. If the client asked to continue after such a turn, the other
/// rows of the answer are dropped too, and so are the results that a shutdown added.
fn drop_open(rows: &mut Vec<RequestRow>, kept: &FxHashSet<Option<CallId>>) {
    let mut rescued = vec![false; rows.len()];
    for (at, _) in rows.iter().enumerate().filter(|(_, row)| row.is_user() && row.flags.is_continue_request())
    {
        rescued[turn_start(rows, at)..at].fill(true);
    }
    let is_placeholder = |at: usize, row: &RequestRow| {
        rescued[at]
            && row.is_user()
            && row.flags.is_cut_by_shutdown()
            && row.has_block(BlockClass::ToolResult)
    };
    let conversation =
        rows.iter().enumerate().filter(|(at, row)| !is_placeholder(*at, row)).map(|(_, row)| row);
    let answered =
        calls_in_rows(conversation.filter(|row| row.is_user() || row.is_assistant()), BlockClass::ToolResult);
    let (mut broken, mut whole) = (FxHashSet::default(), FxHashSet::default());
    let mut keeps = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter().enumerate() {
        let mut calls = row.parts.iter().filter(|part| part.class == BlockClass::ToolCall).peekable();
        let has_calls = row.is_assistant() && calls.peek().is_some();
        let open = |part: &SentPart| !answered.contains(&part.call) && !kept.contains(&part.call);
        let all_open = has_calls && calls.all(open);
        let id = Some(row.id).filter(|id| *id != MessageId::None);
        if all_open && rescued[at] {
            broken.extend(id);
        } else if has_calls && !all_open {
            whole.extend(id);
        }
        keeps.push(!all_open && !is_placeholder(at, row));
    }
    let mut keeps = keeps.into_iter();
    rows.retain(|_| keeps.next().unwrap_or(true));
    broken.retain(|id| !whole.contains(id));
    if !broken.is_empty() {
        rows.retain(|row| {
            !(row.is_assistant() && broken.contains(&row.id) && !row.has_block(BlockClass::ToolCall))
        });
    }
}

/// Returns the calls in `open` that belong to the newest message. If `strict`, a later failure ends it.
fn calls_of_newest_message(
    client: Client,
    rows: &[RequestRow],
    open: &FxHashSet<Option<CallId>>,
    strict: bool,
) -> FxHashSet<Option<CallId>> {
    #[derive(PartialEq)]
    enum Gap {
        None,
        Open,
        Judged,
    }
    let mut settled = rows.to_vec();
    drop_until_stable(client, &mut settled);
    let mut known: FxHashSet<MessageId> = FxHashSet::default();
    let mut current: Option<MessageId> = None;
    let mut calls: FxHashSet<Option<CallId>> = FxHashSet::default();
    let (mut gap, mut gap_has_result) = (Gap::Open, false);
    for row in &settled {
        let made = || {
            let calls =
                row.parts.iter().filter(|p| p.class == BlockClass::ToolCall && open.contains(&p.call));
            calls.map(|part| part.call)
        };
        let ends = row.is_api_error() || row.kind == RowKind::System && row.flags.is_refusal_fallback();
        if row.is_assistant() && !row.flags.is_virtual() && !row.is_api_error() {
            if gap == Gap::Open {
                if !gap_has_result {
                    known.clear();
                }
                gap = Gap::Judged;
            }
            if !known.insert(row.id) {
                if current == Some(row.id) {
                    calls.extend(made());
                }
                continue;
            }
            current = Some(row.id);
            calls = made().collect();
            gap = Gap::None;
        } else if row.is_user() && !row.flags.is_virtual()
            || row.kind == RowKind::System && row.flags.is_local_command()
        {
            if gap == Gap::None {
                (gap, gap_has_result) = (Gap::Open, false);
            }
            gap_has_result |= row.is_user() && row.has_block(BlockClass::ToolResult);
        } else if strict && ends {
            current = None;
            calls.clear();
        }
    }
    calls
}

/// The role of a row relative to a reply that may be split.
#[derive(PartialEq)]
enum ReplyNeighbour {
    SameReply,
    Result,
    Note,
    /// No row moves across it.
    Fence,
}

fn reply_id(row: &RequestRow) -> Option<Uid> {
    match row.id {
        MessageId::Known(id) if row.is_assistant() && !row.flags.is_virtual() => Some(id),
        _ => None,
    }
}

fn neighbour_kind(row: &RequestRow, id: Uid) -> ReplyNeighbour {
    match row.kind {
        RowKind::Assistant if reply_id(row) == Some(id) => ReplyNeighbour::SameReply,
        RowKind::Assistant => ReplyNeighbour::Fence,
        RowKind::User if row.has_block(BlockClass::ToolResult) => ReplyNeighbour::Result,
        RowKind::User if row.flags.is_companion() => ReplyNeighbour::Note,
        RowKind::User => ReplyNeighbour::Fence,
        RowKind::System if row.flags.is_boundary() || row.flags.is_local_command() => ReplyNeighbour::Fence,
        _ => ReplyNeighbour::Note,
    }
}

#[derive(Default)]
struct ReplySpan {
    first: usize,
    last: usize,
    n_rows: usize,
    fenced: bool,
    split: bool,
    /// Results that precede it, with their notes.
    early: Vec<usize>,
}

/// Maximum distance between a call and a result that precedes it.
const MAX_RESULT_DISTANCE: usize = 4096;

/// Moves the rows of one reply together if notes separate them, and moves results that precede their call
/// after it.
fn regroup(rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let mut spans: FxHashMap<Uid, ReplySpan> = FxHashMap::default();
    let mut owners: FxHashMap<Option<CallId>, Option<Uid>> = FxHashMap::default();
    let mut order: Vec<Uid> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let Some(id) = reply_id(row) else { continue };
        let span = spans.entry(id).or_insert_with(|| {
            order.push(id);
            ReplySpan { first: at, ..ReplySpan::default() }
        });
        span.last = at;
        span.n_rows += 1;
        for part in row.parts.iter().filter(|part| part.class == BlockClass::ToolCall) {
            owners
                .entry(part.call)
                .and_modify(|owner| *owner = owner.filter(|o| *o == id))
                .or_insert(Some(id));
        }
    }
    for (&id, span) in &mut spans {
        if span.last - span.first + 1 == span.n_rows {
            continue;
        }
        for row in &rows[span.first + 1..span.last] {
            match neighbour_kind(row, id) {
                ReplyNeighbour::Fence => {
                    span.fenced = true;
                    break;
                }
                ReplyNeighbour::Note => span.split = true,
                ReplyNeighbour::SameReply | ReplyNeighbour::Result => {}
            }
        }
        span.split &= !span.fenced;
    }
    let mut early: FxHashSet<usize> = FxHashSet::default();
    for (at, row) in
        rows.iter().enumerate().filter(|(_, row)| row.is_user() && row.has_block(BlockClass::ToolResult))
    {
        let mut calls =
            row.parts.iter().filter(|p| p.class == BlockClass::ToolResult).map(|p| owners.get(&p.call));
        let Some(Some(Some(id))) = calls.next().map(Option::<&Option<Uid>>::copied) else { continue };
        if calls.any(|other| other != Some(&Some(id))) {
            continue;
        }
        let Some(span) = spans.get_mut(&id).filter(|span| !span.fenced && at < span.first) else { continue };
        let between = &rows[at + 1..span.first];
        let fence =
            |row: &RequestRow| !row.is_assistant() && neighbour_kind(row, id) == ReplyNeighbour::Fence;
        if between.len() > MAX_RESULT_DISTANCE || between.iter().any(fence) {
            continue;
        }
        span.early.push(at);
        early.insert(at);
        for (following, _) in
            between.iter().enumerate().take_while(|(_, row)| neighbour_kind(row, id) == ReplyNeighbour::Note)
        {
            span.early.push(at + 1 + following);
            early.insert(at + 1 + following);
        }
    }
    if early.is_empty() && !spans.values().any(|span| span.split) {
        return rows;
    }
    reorder(rows, &spans, &early)
}

fn reorder(
    rows: Vec<RequestRow>,
    spans: &FxHashMap<Uid, ReplySpan>,
    early: &FxHashSet<usize>,
) -> Vec<RequestRow> {
    let mut order: Vec<usize> = Vec::with_capacity(rows.len());
    let mut done = vec![false; rows.len()];
    let mut waiting: Vec<usize> = (0..rows.len()).rev().filter(|at| !early.contains(at)).collect();
    while let Some(at) = waiting.pop() {
        if std::mem::replace(&mut done[at], true) {
            continue;
        }
        order.push(at);
        let span = reply_id(&rows[at]).and_then(|id| spans.get(&id)).filter(|span| span.first == at);
        let Some(span) = span.filter(|span| span.split || !span.early.is_empty()) else { continue };
        let id = reply_id(&rows[at]);
        let mut later = Vec::new();
        for following in at + 1..=span.last {
            if done[following] || early.contains(&following) {
                continue;
            }
            if !span.split || reply_id(&rows[following]) == id {
                order.push(following);
                done[following] = true;
            } else {
                later.push(following);
            }
        }
        for &before in &span.early {
            order.push(before);
            done[before] = true;
        }
        waiting.extend(later.into_iter().rev());
    }
    if order.len() != rows.len() {
        return rows;
    }
    let mut rows: Vec<Option<RequestRow>> = rows.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| rows[at].take()).collect()
}

/// Returns whether a row is a failure that interrupted its turn without ending it.
fn is_failure(row: &RequestRow) -> bool {
    row.is_assistant() && row.flags.is_api_error() && !row.flags.is_final_error()
}

fn is_note(row: &RequestRow) -> bool {
    row.kind == RowKind::System || row.is_user() && row.flags.is_record_only()
}

/// Returns whether the rows end with a failure.
fn ends_with_failure(rows: &[RequestRow]) -> bool {
    for row in rows.iter().rev() {
        if is_failure(row) {
            return true;
        }
        if is_note(row) {
            continue;
        }
        // After an attachment, the search continues across other attachments.
        if row.kind != RowKind::Attachment {
            return false;
        }
    }
    false
}

/// Returns whether the last turn was cut off: not answered and not ended on purpose.
fn is_turn_cut_off(facts: &Facts, rows: &[RequestRow]) -> bool {
    let is_skipped = |row: &RequestRow| is_note(row) || is_failure(row);
    let Some(last) = rows.iter().rposition(|row| !is_skipped(row)) else { return false };
    let row = &rows[last];
    if row.is_assistant() {
        return false;
    }
    if row.is_user() {
        if is_finished_command(facts, rows, last) || row.flags.is_meta() || row.flags.is_summary() {
            return false;
        }
        if row.flags.is_interrupt_only() {
            return row.flags.is_cut_by_shutdown();
        }
        if row.is_result() {
            return !result_ends_turn(facts, rows, last, last);
        }
        if row.flags.is_task_report() {
            return true;
        }
        if row.flags.is_bash_input() {
            return false;
        }
        if row.flags.is_bash_output() {
            return !follows_bash_input(rows, last);
        }
        return rows[last + 1..].iter().any(|row| row.kind != RowKind::System);
    }
    let before = rows[..last].iter().rposition(|row| row.kind != RowKind::Attachment && !is_skipped(row));
    let Some(before) = before else { return true };
    let row = &rows[before];
    if row.is_assistant() || row.flags.is_summary() {
        return false;
    }
    if row.flags.is_interrupt_only() {
        return row.flags.is_cut_by_shutdown();
    }
    if is_finished_command(facts, rows, before) {
        return false;
    }
    if row.is_result() && result_ends_turn(facts, rows, before, last) {
        return false;
    }
    !stopped_by_hook(rows, last)
}

fn follows_bash_input(rows: &[RequestRow], output: usize) -> bool {
    let mut before = rows[..output].iter().rev().filter(|row| row.is_user() || row.is_assistant());
    let typed = before.next().is_some_and(|row| row.is_user() && row.flags.is_bash_input());
    typed && before.next().is_some_and(|row| row.is_user() && row.flags.is_caveat())
}

/// Returns whether the client stops after a result.
fn result_ends_turn(facts: &Facts, rows: &[RequestRow], at: usize, last: usize) -> bool {
    let row = &rows[at];
    if ends_with_message_tool(facts, row) || row.flags.ends_turn() {
        return true;
    }
    let results = rows[..=at].iter().rev().take_while(|row| !row.is_assistant());
    if results.into_iter().any(|row| row.is_result() && row.flags.ends_turn_by_denial()) {
        return true;
    }
    stopped_by_hook(rows, last)
}

fn stopped_by_hook(rows: &[RequestRow], last: usize) -> bool {
    let mut stopped = false;
    for row in rows[..=last].iter().rev() {
        if row.is_result() {
            if stopped {
                return true;
            }
        } else if row.is_assistant()
            || row.is_user() && !row.flags.is_companion()
            || !stopped && row.kind == RowKind::Attachment && row.flags.is_queued_prompt()
        {
            return false;
        }
        stopped |= row.kind == RowKind::Attachment && row.flags.ends_turn();
    }
    false
}

fn is_command_row(row: &RequestRow) -> bool {
    let flags = row.flags;
    row.is_user()
        && (flags.is_caveat()
            || flags.is_command_record()
            || flags.is_command_output()
            || flags.begins_with_slash())
}

/// Returns whether a row is the end of a finished local command.
fn is_finished_command(facts: &Facts, rows: &[RequestRow], last: usize) -> bool {
    if !is_command_row(&rows[last]) {
        return false;
    }
    let mut recorded = false;
    let mut all_meta = true;
    // A caveat from before the command belongs to another one.
    let mut since: Option<Time> = None;
    for row in rows[..=last].iter().rev().filter(|r| r.is_user() || r.is_assistant()) {
        let time = row.node.and_then(|node| facts.nodes[node].time);
        if row.is_user() && row.flags.is_caveat() {
            return since.is_none() || time >= since;
        }
        if !is_command_row(row) || recorded {
            break;
        }
        recorded = row.flags.is_command_record() || row.flags.begins_with_slash();
        if row.flags.begins_with_slash() {
            since = time;
        }
        all_meta &= row.flags.is_meta();
    }
    all_meta
}
