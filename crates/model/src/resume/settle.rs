//! From the chain to the rows of a request: what a client drops when it resumes, and what it adds.

use rustc_hash::FxHashSet;

use super::merge::join_users;
use super::request::{MessageId, Part, Row, RowKind, words};
use crate::client::Client;
use crate::facts::{Facts, NONE, Sort};
use crate::flags::Flags;
use crate::id::Time;

/// Makes the rows that are sent before the next prompt out of those of the chain.
pub(super) fn resumed(facts: &Facts, client: Client, chain: &[u32]) -> Vec<Row> {
    let mut rows: Vec<Row> =
        chain.iter().map(|&node| Row::of(facts, node, &facts.nodes[node as usize])).collect();
    if client >= Client::V2_1_200 {
        drop_retracted(facts, client, &mut rows);
    }
    if client >= Client::V2_1_325 {
        rows.retain(|row| row.kind != RowKind::Attachment || !row.flags.is_odd_attachment());
        give_own_ids(&mut rows);
        for row in &mut rows {
            row.parts.retain(|part| part.sort != Sort::Odd);
        }
    }
    if client >= Client::V2_1_112 {
        rows.retain(|row| row.kind != RowKind::Attachment || !row.flags.is_dead_attachment());
    }
    if client >= Client::V2_1_200 {
        rows.retain_mut(|row| {
            let before = row.parts.len();
            row.parts.retain(|part| part.sort != Sort::NoText);
            row.parts.len() == before || !row.parts.is_empty()
        });
    }
    if client <= Client::V2_1_20 {
        resumed_by_blocks(client, rows)
    } else if client <= Client::V2_1_200 {
        resumed_by_rows(facts, client, rows)
    } else {
        resumed_by_newest(facts, client, rows)
    }
}

/// From 2.1.76 to 2.1.200 whole rows are judged, and a turn that was cut is to be continued.
fn resumed_by_rows(facts: &Facts, client: Client, mut rows: Vec<Row>) -> Vec<Row> {
    drop_open_rows(&mut rows, &FxHashSet::default());
    drop_lone_thinking(&mut rows);
    let mut rows = drop_blank(client, rows);
    if is_interrupted(facts, client, &rows) {
        let mut row = Row::put_in(RowKind::User, vec![Part::words(words::CONTINUE)]);
        row.flags.set(Flags::META);
        rows.push(row);
    }
    if let Some(last) = last_said(&rows)
        && rows[last].is_user()
    {
        rows.insert(last + 1, Row::answer(words::NO_REPLY));
    }
    rows
}

/// The last row that is no note of the system.
fn last_said(rows: &[Row]) -> Option<usize> {
    rows.iter().rposition(|row| row.kind != RowKind::System)
}

/// Up to 2.1.20 every block is judged alone.
fn resumed_by_blocks(client: Client, rows: Vec<Row>) -> Vec<Row> {
    let mut single = Vec::with_capacity(rows.len());
    for mut row in rows {
        if !(row.is_user() || row.is_assistant()) {
            single.push(row);
            continue;
        }
        for part in std::mem::take(&mut row.parts) {
            let mut one = Row { parts: vec![part], ..row.clone() };
            if client <= Client::V2_0_36 && one.is_assistant() {
                one.flags.clear(Flags::API_ERROR);
            }
            single.push(one);
        }
    }
    let answered: FxHashSet<u32> = called(single.iter().filter(|row| row.is_user()), Sort::Result);
    single.retain(|row| {
        let part = row.parts.first();
        let open = part.is_some_and(|p| p.sort == Sort::Call && !answered.contains(&p.call));
        !(row.is_assistant() && open)
    });
    if client >= Client::V2_1_20 {
        drop_lone_thinking(&mut single);
    }
    if single.last().is_some_and(Row::is_user) {
        single.push(Row::answer(words::NO_REPLY));
    }
    single
}

/// The calls that rows make or answer.
fn called<'r>(rows: impl Iterator<Item = &'r Row>, sort: Sort) -> FxHashSet<u32> {
    let parts = rows.flat_map(|row| &row.parts).filter(|part| part.sort == sort);
    parts.map(|part| part.call).filter(|&call| call != NONE || sort == Sort::Call).collect()
}

/// Drops what a refused answer took back.
fn drop_retracted(facts: &Facts, client: Client, rows: &mut Vec<Row>) {
    if facts.retracted.is_empty() {
        return;
    }
    let retracts = |row: &Row| {
        row.flags.is_refusal_fallback() || client >= Client::V2_1_325 && row.kind != RowKind::Attachment
    };
    let lists = rows.iter().filter(|row| retracts(row)).filter_map(|row| facts.retracted.get(&row.node));
    let gone: FxHashSet<u128> = lists.flatten().map(|uid| uid.prefix()).collect();
    rows.retain(|row| {
        row.kind == RowKind::System || !gone.contains(&facts.nodes[row.node as usize].uid.prefix())
    });
}

/// 2.1.325 takes answers without an id for messages of their own.
fn give_own_ids(rows: &mut [Row]) {
    for row in rows.iter_mut().filter(|row| row.is_assistant()) {
        if row.id == MessageId::None && row.flags.lacks_request_id() {
            row.id = MessageId::Own(row.node);
        }
    }
}

/// Drops answers all of whose calls have no result.
fn drop_open_rows(rows: &mut Vec<Row>, kept: &FxHashSet<u32>) {
    let said = || rows.iter().filter(|row| row.is_user() || row.is_assistant());
    let answered = called(said(), Sort::Result);
    let open = |call: u32| !answered.contains(&call) && !kept.contains(&call);
    rows.retain(|row| {
        let mut calls = row.parts.iter().filter(|part| part.sort == Sort::Call).peekable();
        !row.is_assistant() || calls.peek().is_none() || !calls.all(|part| open(part.call))
    });
}

/// Messages that hold something for which `counts` says so.
fn full_messages(rows: &[Row], counts: impl Fn(&Part) -> bool) -> FxHashSet<MessageId> {
    let full = rows.iter().filter(|row| row.is_assistant() && row.parts.iter().any(&counts));
    full.map(|row| row.id).filter(|&id| id != MessageId::None).collect()
}

/// Drops answers of nothing but thinking, unless their message holds more elsewhere.
pub(super) fn drop_lone_thinking(rows: &mut Vec<Row>) {
    if !rows.iter().any(|row| row.is_assistant() && row.is_only_thinking()) {
        return;
    }
    let full = full_messages(rows, |part| !part.sort.is_thinking());
    rows.retain(|row| !row.is_assistant() || !row.is_only_thinking() || full.contains(&row.id));
}

/// Drops answers of nothing but blank text; tells whether there were any.
fn drop_blank_rows(client: Client, rows: &mut Vec<Row>) -> bool {
    if !rows.iter().any(|row| row.is_assistant() && row.is_blank(client)) {
        return false;
    }
    let counts = |part: &Part| !part.sort.is_thinking() && !part.is_blank(client);
    let full = if client >= Client::V2_1_112 { full_messages(rows, counts) } else { FxHashSet::default() };
    rows.retain(|row| !row.is_assistant() || full.contains(&row.id) || !row.is_blank(client));
    true
}

/// The same, and joins the user rows that come to stand side by side.
pub(super) fn drop_blank(client: Client, mut rows: Vec<Row>) -> Vec<Row> {
    if !drop_blank_rows(client, &mut rows) {
        return rows;
    }
    let mut joined: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match joined.last_mut() {
            Some(last)
                if row.is_user()
                    && last.is_user()
                    && !(client >= Client::V2_1_325
                        && (row.flags.is_shutdown() || last.flags.is_shutdown())) =>
            {
                join_users(client, last, row);
            }
            _ => joined.push(row),
        }
    }
    joined
}

/// 2.1.325 goes on until nothing more is dropped.
pub(super) fn settle(client: Client, rows: &mut Vec<Row>) {
    loop {
        let before = rows.len();
        drop_lone_thinking(rows);
        drop_blank_rows(client, rows);
        if rows.len() == before {
            return;
        }
    }
}

/// A failure after which the turn is still open.
fn is_passed_over(client: Client, row: &Row) -> bool {
    row.kind == RowKind::System
        || client >= Client::V2_1_112
            && row.is_assistant()
            && row.flags.is_api_error()
            && !(client >= Client::V2_1_200 && row.flags.is_refusal())
}

/// Tells whether the turn was cut after a result or an attachment: 2.1.76 to 2.1.200.
fn is_interrupted(facts: &Facts, client: Client, rows: &[Row]) -> bool {
    let Some(last) = rows.iter().rposition(|row| !is_passed_over(client, row)) else { return false };
    let row = &rows[last];
    let stopped = |row: &Row| client >= Client::V2_1_200 && row.flags.is_stopped();
    match row.kind {
        RowKind::User => {
            !row.flags.is_meta()
                && !row.flags.is_summary()
                && !stopped(row)
                && row.is_result()
                && !ends_with_message_tool(facts, row)
        }
        RowKind::Attachment if client >= Client::V2_1_200 => {
            let before = rows[..last]
                .iter()
                .rev()
                .find(|row| row.kind != RowKind::Attachment && !is_passed_over(client, row));
            before.is_none_or(|row| {
                row.is_user()
                    && !row.flags.is_summary()
                    && !stopped(row)
                    && !(row.is_result() && ends_with_message_tool(facts, row))
            })
        }
        RowKind::Attachment => true,
        _ => false,
    }
}

/// Some tools are the last word of a turn: they speak to the user.
fn ends_with_message_tool(facts: &Facts, row: &Row) -> bool {
    let first = row.parts.first().filter(|part| part.sort == Sort::Result);
    let call = first.and_then(Part::call).map(|call| &facts.calls[call]);
    call.is_some_and(|call| matches!(facts.tools.name(call.tool), "SendUserMessage" | "Brief" | "SendUserFile"))
}

fn resumed_by_newest(facts: &Facts, client: Client, mut rows: Vec<Row>) -> Vec<Row> {
    let open = open_at_the_end(&rows);
    let kept = if open.is_empty() {
        open
    } else {
        let mut settled = rows.clone();
        settle(client, &mut settled);
        calls_of_newest(&settled, &open)
    };
    drop_open_rows(&mut rows, &kept);
    settle(client, &mut rows);
    let cut = is_cut(facts, &rows);
    // Each call that was cut off gets a result that says so.
    let mut made_up = Vec::new();
    for part in rows.iter().filter(|row| row.is_assistant()).flat_map(|row| &row.parts) {
        if part.sort == Sort::Call && kept.contains(&part.call) {
            let result = Part::no_result(part.call, words::CALL_CUT_OFF);
            made_up.push(Row::put_in(RowKind::User, vec![result]));
        }
    }
    rows.append(&mut made_up);
    if let Some(last) = last_said(&rows) {
        let asks = rows[last].is_user() || cut && rows[last].kind == RowKind::Attachment;
        if asks && !ends_with_local_command(facts, &rows, last) {
            rows.insert(last + 1, Row::answer(words::NO_REPLY));
        }
    }
    rows
}

/// Open calls of the last turn.
fn open_at_the_end(rows: &[Row]) -> FxHashSet<u32> {
    let said = || rows.iter().filter(|row| row.is_user() || row.is_assistant());
    let answered = called(said(), Sort::Result);
    let mut start = 0;
    let mut answer_seen = false;
    for (at, row) in rows.iter().enumerate().rev() {
        if row.is_assistant() {
            answer_seen = true;
        } else if row.is_user()
            && !row.has(Sort::Result)
            && !row.flags.is_shutdown()
            && (answer_seen || !row.flags.is_companion())
        {
            start = at + 1;
            break;
        }
    }
    let made = called(rows[start..].iter().filter(|row| row.is_assistant()), Sort::Call);
    made.difference(&answered).copied().collect()
}

/// Of these open calls, those of the newest message; a failure after it ends it.
fn calls_of_newest(rows: &[Row], open: &FxHashSet<u32>) -> FxHashSet<u32> {
    #[derive(PartialEq)]
    enum Gap {
        None,
        Open,
        Passed,
    }
    let mut known: FxHashSet<MessageId> = FxHashSet::default();
    let mut current: Option<MessageId> = None;
    let mut calls: FxHashSet<u32> = FxHashSet::default();
    let mut gap = Gap::Open;
    let mut gap_has_result = false;
    for row in rows {
        let made = || row.parts.iter().filter(|p| p.sort == Sort::Call && open.contains(&p.call)).map(|p| p.call);
        match row.kind {
            RowKind::Assistant if row.flags.is_virtual() => {}
            RowKind::Assistant if row.is_api_error() => {
                current = None;
                calls.clear();
            }
            RowKind::Assistant => {
                if gap == Gap::Open {
                    if !gap_has_result {
                        known.clear();
                    }
                    gap = Gap::Passed;
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
                gap_has_result = false;
            }
            RowKind::User | RowKind::System
                if row.is_user() && !row.flags.is_virtual() || row.flags.is_local_command() =>
            {
                if gap == Gap::None {
                    gap = Gap::Open;
                    gap_has_result = false;
                }
                gap_has_result |= row.has(Sort::Result);
            }
            RowKind::System if row.flags.is_refusal_fallback() => {
                current = None;
                calls.clear();
            }
            _ => {}
        }
    }
    calls
}

/// Tells whether the end is a turn that was cut; asked only where it ends with attachments.
fn is_cut(facts: &Facts, rows: &[Row]) -> bool {
    let passed_over = |row: &Row| is_passed_over(Client::V2_1_325, row);
    let Some(last) = rows.iter().rposition(|row| !passed_over(row)) else { return false };
    if rows[last].kind != RowKind::Attachment {
        return false;
    }
    let before =
        rows[..last].iter().rposition(|row| row.kind != RowKind::Attachment && !passed_over(row));
    let Some(before) = before else { return true };
    let row = &rows[before];
    let ended = row.flags.is_summary() || row.flags.is_stopped();
    row.is_user() && !ended && !ends_with_local_command(facts, rows, before)
}

fn is_of_command(row: &Row) -> bool {
    let flags = row.flags;
    row.is_user()
        && (flags.is_caveat()
            || flags.is_command_record()
            || flags.is_command_output()
            || flags.begins_with_slash())
}

/// Tells whether the conversation ends with a local command that is over.
fn ends_with_local_command(facts: &Facts, rows: &[Row], last: usize) -> bool {
    if !is_of_command(&rows[last]) {
        return false;
    }
    let mut recorded = false;
    let mut all_meta = true;
    // A caveat of before the command is not its own.
    let mut since = Time::NONE;
    for row in rows[..=last].iter().rev().filter(|r| r.is_user() || r.is_assistant()) {
        let time = facts.nodes.get(row.node as usize).map_or(Time::NONE, |node| node.time);
        if row.is_user() && row.flags.is_caveat() {
            return since.is_none() || time >= since;
        }
        if !is_of_command(row) || recorded {
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
