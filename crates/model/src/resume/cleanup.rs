//! Builds the rows of a request from the chain: rows that a client drops or adds when it resumes.

use rustc_hash::FxHashSet;

use super::merge::join_users;
use super::request::{MessageId, RequestRow, RowKind, SentPart, words};
use super::v2_1_325;
use crate::client::Client;
use crate::facts::{BlockClass, Facts};
use crate::flags::EntryFlags;
use crate::id::Uid;
use crate::index::{CallId, NodeId};
use crate::rules::ClientRule;

/// Builds the rows that are sent before the next prompt from those of the chain.
///
/// `rewound` is the target of a rewind, if no prompt or answer follows it.
pub(super) fn resumed_rows(
    facts: &Facts,
    client: Client,
    chain: &[NodeId],
    rewound: Option<Uid>,
) -> Vec<RequestRow> {
    let mut rows: Vec<RequestRow> =
        chain.iter().map(|&node| RequestRow::from_node(facts, node, &facts.nodes[node])).collect();
    if client.has(ClientRule::DropsRetractedRows) {
        drop_retracted(facts, client, &mut rows);
    }
    if client.has(ClientRule::DropsMalformedAttachments) {
        rows.retain(|row| row.kind != RowKind::Attachment || !row.flags.is_malformed_attachment());
    }
    if client.has(ClientRule::SplitsAnswersWithoutId) {
        give_own_ids(&mut rows);
    }
    if client.has(ClientRule::DropsMalformedBlocks) {
        for row in &mut rows {
            row.parts.retain(|part| {
                !matches!(part.class, BlockClass::Untyped | BlockClass::BareString | BlockClass::Null)
            });
        }
    }
    if client.has(ClientRule::DropsBlocksWithoutText) {
        rows.retain_mut(|row| {
            let before = row.parts.len();
            row.parts.retain(|part| part.class != BlockClass::NoText);
            row.parts.len() == before || !row.parts.is_empty()
        });
    }
    if client.has(ClientRule::CleansEachBlock) {
        resumed_by_blocks(client, rows)
    } else if !client.has(ClientRule::AnswersInterruptedCalls) {
        resumed_by_rows(facts, client, rows, rewound)
    } else {
        v2_1_325::resumed_rows(facts, client, rows, rewound)
    }
}

/// Applies the rules of 2.1.76 to 2.1.200, which drop whole rows and continue an interrupted turn.
fn resumed_by_rows(
    facts: &Facts,
    client: Client,
    mut rows: Vec<RequestRow>,
    rewound: Option<Uid>,
) -> Vec<RequestRow> {
    drop_open_rows(&mut rows);
    drop_lone_thinking(&mut rows);
    let mut rows = drop_blank_and_join(client, rows);
    let is_rewound = rewound.is_some() && rewound == last_conversation_uid(facts, &rows);
    if is_interrupted(facts, client, &rows) && !is_rewound {
        let mut row = RequestRow::inserted(RowKind::User, vec![SentPart::client_text(words::CONTINUE)]);
        row.flags.set(EntryFlags::META);
        rows.push(row);
    }
    if let Some(last) = last_non_system_row(&rows)
        && rows[last].is_user()
    {
        rows.insert(last + 1, RequestRow::inserted_answer(words::NO_REPLY));
    }
    rows
}

/// Returns the id of the last user or assistant entry.
pub(super) fn last_conversation_uid(facts: &Facts, rows: &[RequestRow]) -> Option<Uid> {
    let last = rows.iter().rev().find(|row| row.is_user() || row.is_assistant())?;
    last.node.map(|node| facts.nodes[node].uid)
}

/// Returns the index of the last row that is not a `system` row.
pub(super) fn last_non_system_row(rows: &[RequestRow]) -> Option<usize> {
    rows.iter().rposition(|row| row.kind != RowKind::System)
}

/// Applies the rules up to 2.1.20, which decide about each block separately.
fn resumed_by_blocks(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let mut single = Vec::with_capacity(rows.len());
    for mut row in rows {
        if !(row.is_user() || row.is_assistant()) {
            single.push(row);
            continue;
        }
        for part in std::mem::take(&mut row.parts) {
            let mut one = RequestRow { parts: vec![part], ..row.clone() };
            if client.has(ClientRule::SendsApiErrors) && one.is_assistant() {
                one.flags.clear(EntryFlags::API_ERROR);
            }
            single.push(one);
        }
    }
    let answered = calls_in_rows(single.iter().filter(|row| row.is_user()), BlockClass::ToolResult);
    single.retain(|row| {
        let part = row.parts.first();
        let open = part.is_some_and(|p| p.class == BlockClass::ToolCall && !answered.contains(&p.call));
        !(row.is_assistant() && open)
    });
    if client.has(ClientRule::DropsLoneThinking) {
        drop_lone_thinking(&mut single);
    }
    if single.last().is_some_and(RequestRow::is_user) {
        single.push(RequestRow::inserted_answer(words::NO_REPLY));
    }
    single
}

/// Returns the calls made by the rows (`ToolCall`) or answered by them (`ToolResult`).
pub(super) fn calls_in_rows<'r>(
    rows: impl Iterator<Item = &'r RequestRow>,
    class: BlockClass,
) -> FxHashSet<Option<CallId>> {
    let parts = rows.flat_map(|row| &row.parts).filter(|part| part.class == class);
    parts.map(|part| part.call).filter(|call| call.is_some() || class == BlockClass::ToolCall).collect()
}

/// Drops the rows retracted by a refused answer.
fn drop_retracted(facts: &Facts, client: Client, rows: &mut Vec<RequestRow>) {
    if facts.retracted.is_empty() {
        return;
    }
    let retracts = |row: &RequestRow| {
        row.flags.is_refusal_fallback()
            || client.has(ClientRule::RetractsByAnyRow) && row.kind != RowKind::Attachment
    };
    let lists = rows.iter().filter(|row| retracts(row)).filter_map(|row| facts.retracted.get(&row.node?));
    let retracted: FxHashSet<u128> = lists.flatten().map(|uid| uid.prefix()).collect();
    rows.retain(|row| {
        let is_retracted = |node: NodeId| retracted.contains(&facts.nodes[node].uid.prefix());
        row.kind == RowKind::System || !row.node.is_some_and(is_retracted)
    });
}

/// Treats each answer without an id as a separate message, as 2.1.325 does.
fn give_own_ids(rows: &mut [RequestRow]) {
    for row in rows.iter_mut().filter(|row| row.is_assistant()) {
        if row.id == MessageId::None && row.flags.lacks_request_id() {
            row.id = MessageId::PerRow(row.node);
        }
    }
}

/// Drops answers whose calls all lack a result.
fn drop_open_rows(rows: &mut Vec<RequestRow>) {
    let conversation = rows.iter().filter(|row| row.is_user() || row.is_assistant());
    let answered = calls_in_rows(conversation, BlockClass::ToolResult);
    rows.retain(|row| {
        let mut calls = row.parts.iter().filter(|part| part.class == BlockClass::ToolCall).peekable();
        !row.is_assistant() || calls.peek().is_none() || !calls.all(|part| !answered.contains(&part.call))
    });
}

/// Returns the messages that contain a part accepted by `counts`.
fn messages_with_content(rows: &[RequestRow], counts: impl Fn(&SentPart) -> bool) -> FxHashSet<MessageId> {
    let full = rows.iter().filter(|row| row.is_assistant() && row.parts.iter().any(&counts));
    full.map(|row| row.id).filter(|&id| id != MessageId::None).collect()
}

/// Drops answers that contain only thinking, unless another row of their message contains more.
pub(super) fn drop_lone_thinking(rows: &mut Vec<RequestRow>) {
    if !rows.iter().any(|row| row.is_assistant() && row.is_only_thinking()) {
        return;
    }
    let full = messages_with_content(rows, |part| !part.class.is_thinking());
    rows.retain(|row| !row.is_assistant() || !row.is_only_thinking() || full.contains(&row.id));
}

/// Drops answers that contain only blank text. Returns whether there were any.
fn drop_blank_rows(client: Client, rows: &mut Vec<RequestRow>) -> bool {
    if !rows.iter().any(|row| row.is_assistant() && row.is_blank(client)) {
        return false;
    }
    let counts = |part: &SentPart| !part.class.is_thinking() && !part.is_blank(client);
    let full = if client.has(ClientRule::KeepsBlankRowsOfFullMessages) {
        messages_with_content(rows, counts)
    } else {
        FxHashSet::default()
    };
    rows.retain(|row| !row.is_assistant() || full.contains(&row.id) || !row.is_blank(client));
    true
}

/// Drops blank answers, then joins user rows that have become adjacent.
pub(super) fn drop_blank_and_join(client: Client, mut rows: Vec<RequestRow>) -> Vec<RequestRow> {
    if !drop_blank_rows(client, &mut rows) {
        return rows;
    }
    let mut joined: Vec<RequestRow> = Vec::with_capacity(rows.len());
    for row in rows {
        match joined.last_mut() {
            Some(last)
                if row.is_user()
                    && last.is_user()
                    && !(client.has(ClientRule::KeepsShutdownRowsApart)
                        && (row.flags.is_cut_by_shutdown() || last.flags.is_cut_by_shutdown())) =>
            {
                join_users(client, last, row);
            }
            _ => joined.push(row),
        }
    }
    joined
}

/// Drops rows until nothing changes, as 2.1.325 does.
pub(super) fn drop_until_stable(client: Client, rows: &mut Vec<RequestRow>) {
    loop {
        let before = rows.len();
        drop_lone_thinking(rows);
        drop_blank_rows(client, rows);
        if rows.len() == before {
            return;
        }
    }
}

/// Returns whether the search for the last row skips a row: the turn is still open after it.
fn is_skipped_at_end(client: Client, row: &RequestRow) -> bool {
    row.kind == RowKind::System
        || client.has(ClientRule::LooksPastApiErrors)
            && row.is_assistant()
            && row.flags.is_api_error()
            && !(client.has(ClientRule::EndsTurnAtRefusal) && row.flags.is_refusal())
}

/// Returns whether the turn was interrupted after a result or an attachment (2.1.76 to 2.1.200).
fn is_interrupted(facts: &Facts, client: Client, rows: &[RequestRow]) -> bool {
    let Some(last) = rows.iter().rposition(|row| !is_skipped_at_end(client, row)) else { return false };
    let row = &rows[last];
    let stopped =
        |row: &RequestRow| client.has(ClientRule::EndsTurnAtInterruption) && row.flags.is_interrupt_only();
    match row.kind {
        RowKind::User => {
            !row.flags.is_meta()
                && !row.flags.is_summary()
                && !stopped(row)
                && row.is_result()
                && !ends_with_message_tool(facts, row)
        }
        RowKind::Attachment if client.has(ClientRule::LooksPastAttachments) => {
            let before = rows[..last]
                .iter()
                .rev()
                .find(|row| row.kind != RowKind::Attachment && !is_skipped_at_end(client, row));
            before.is_none_or(|row| {
                let last_word = row.is_result() && ends_with_message_tool(facts, row);
                row.is_user() && !row.flags.is_summary() && !stopped(row) && !last_word
            })
        }
        RowKind::Attachment => true,
        _ => false,
    }
}

/// Returns whether a row is the result of a tool that addresses the user, which ends a turn.
pub(super) fn ends_with_message_tool(facts: &Facts, row: &RequestRow) -> bool {
    let first = row.parts.first().filter(|part| part.class == BlockClass::ToolResult);
    let call = first.and_then(SentPart::call).map(|call| &facts.calls[call]);
    call.is_some_and(|call| {
        matches!(facts.tools.name(call.tool), "SendUserMessage" | "Brief" | "SendUserFile")
    })
}
