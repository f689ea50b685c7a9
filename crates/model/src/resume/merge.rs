//! Merges rows into messages and orders their parts.

use rustc_hash::{FxHashMap, FxHashSet};

use super::cleanup::{drop_blank_and_join, drop_lone_thinking, drop_until_stable};
use super::request::{MessageId, RequestRow, RowKind, SentPart, words};
use crate::attachment::SenderRole;
use crate::client::Client;
use crate::facts::{BlockClass, Facts};
use crate::rules::ClientRule;

/// Merges the rows of a request into messages.
pub(super) fn merge_messages(
    facts: &Facts,
    client: Client,
    mut rows: Vec<RequestRow>,
    model: Option<&str>,
    turns: bool,
) -> Vec<RequestRow> {
    if client.has(ClientRule::RemovesThinkingOfOtherModels) {
        strip_thinking(facts, client, &mut rows, model);
    }
    if client.has(ClientRule::DropsEmptyRowsBeforeMerge) {
        drop_until_stable(client, &mut rows);
    }
    let rows = move_attachments_up(client, rows);
    let mut out = MessageMerger::new(client, turns, rows.len());
    let mut turn_pending = false;
    for mut row in rows {
        match row.kind {
            RowKind::System => {
                let sent = client.has(ClientRule::SendsLocalCommands)
                    && row.flags.is_local_command()
                    && !row.flags.is_display_only();
                if let Some(node) = row.node.filter(|_| sent) {
                    out.add_user(RequestRow::command(node));
                }
            }
            RowKind::User => {
                let has_no_blocks = row.parts.is_empty() && row.node.is_some();
                if has_no_blocks && client.has(ClientRule::DropsUserRowsWithoutBlocks) {
                    continue;
                }
                if row.flags.is_notification() && client.has(ClientRule::SendsNotificationsAsReminders) {
                    replace_with_reminder(&mut row);
                }
                let loaded = |part: &SentPart| part.references_known_tool(turns);
                if client.has(ClientRule::AnnouncesLoadedTools)
                    && row.parts.iter().any(loaded)
                    && !row.has_block(BlockClass::ToolLoaded)
                {
                    row.parts.push(SentPart::client_text(words::TOOL_LOADED));
                }
                out.add_user(row);
            }
            RowKind::Assistant if row.is_api_error() => {}
            RowKind::Assistant => match out.same_message(row.id) {
                Some(at) => out.join_answer(at, row),
                None => {
                    out.flush_system_turn(&mut turn_pending);
                    if client.has(ClientRule::MovesCallsLast) {
                        move_calls_last(&mut row.parts);
                    }
                    out.push(row);
                }
            },
            RowKind::Attachment => {
                let known = row.attachment_facts(facts);
                let delivery = known.map_or(Some(row.delivery), |attached| attached.delivery_by(client));
                let Some(delivery) = delivery else { continue };
                if turns && delivery.role == SenderRole::System {
                    turn_pending = true;
                    continue;
                }
                let pictures = row.node.filter(|_| delivery.pictures).map(SentPart::pictures);
                let (apart, within) =
                    if delivery.separate_pictures { (pictures, None) } else { (None, pictures) };
                let parts = std::iter::once(SentPart::reminder(row.node)).chain(within).collect();
                // A new attachment in the user role stays with the new prompt.
                let folds = row.node.is_some() || delivery.role == SenderRole::System;
                out.add_note(parts, folds);
                if let Some(pictures) = apart {
                    out.add_note(vec![pictures], folds);
                }
            }
            RowKind::SystemTurn => {}
        }
    }
    out.flush_system_turn(&mut turn_pending);
    let mut out = out.finish();
    if client.has(ClientRule::RemovesEmptyTextFromAnswers) {
        out = drop_empty_text(client, out);
    }
    if client.has(ClientRule::DropsLoneThinking) {
        let before = out.len();
        drop_lone_thinking(&mut out);
        if client.has(ClientRule::JoinsUsersAfterLoneThinking) && out.len() != before {
            out = join_adjacent_users(client, out);
        }
    }
    if client.has(ClientRule::DropsBlankAnswers) {
        out = drop_blank_and_join(client, out);
    }
    if client.has(ClientRule::FillsEmptyAnswers) {
        let last = out.len().saturating_sub(1);
        for row in out[..last].iter_mut().filter(|row| row.is_assistant() && row.parts.is_empty()) {
            row.parts.push(SentPart::client_text(words::NO_CONTENT));
        }
    }
    if turns { place_system_turns(client, out) } else { out }
}

/// Returns whether the model accepts system messages between two turns. Newer models do.
pub(super) fn accepts_system_turns(client: Client, model: Option<&str>) -> bool {
    const WITHOUT: [&str; 9] = [
        "claude-3-",
        "claude-opus-4-0",
        "claude-opus-4-1",
        "claude-opus-4-5",
        "claude-opus-4-6",
        "claude-opus-4-7",
        "claude-opus-4-2025",
        "claude-sonnet-4-",
        "claude-haiku-4-5",
    ];
    client.has(ClientRule::SendsSystemTurns)
        && model.is_some_and(|m| !WITHOUT.iter().any(|old| m.starts_with(old)))
}

/// Removes thinking of other models, which is not sent. 2.1.325 ignores the date in a model's name.
fn strip_thinking(facts: &Facts, client: Client, rows: &mut [RequestRow], model: Option<&str>) {
    let family = |name: &str| -> String {
        if client.has(ClientRule::IgnoresDateOfModel) {
            without_date(name).to_owned()
        } else {
            name.to_owned()
        }
    };
    let wanted = model.map(family);
    for row in rows.iter_mut().filter(|row| row.is_assistant() && !row.flags.is_synthetic()) {
        let own = row.model.map(|model| family(facts.models.name(model)));
        if own != wanted || own.is_none() {
            row.parts
                .retain(|part| !matches!(part.class, BlockClass::Thinking | BlockClass::RedactedThinking));
        }
    }
}

/// Returns the name of a model without its date.
pub(super) fn without_date(name: &str) -> &str {
    match name.rsplit_once("-20") {
        Some((family, date)) if date.len() == 6 && date.bytes().all(|b| b.is_ascii_digit()) => family,
        _ => name,
    }
}

/// Replaces the notification of a background task by a reminder.
fn replace_with_reminder(row: &mut RequestRow) {
    row.has_string_content = false;
    row.parts.retain(|part| !part.class.is_text());
    row.parts.insert(0, SentPart::reminder(row.node));
}

/// Moves attachments up to directly after the nearest answer or result, and drops virtual rows.
fn move_attachments_up(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let mut moved = Vec::with_capacity(rows.len());
    let mut waiting = Vec::new();
    for row in rows.into_iter().rev() {
        if row.kind == RowKind::Attachment {
            waiting.push(row);
            continue;
        }
        if row.is_assistant() || row.begins_with_result() {
            moved.append(&mut waiting);
        }
        let is_conversation = row.is_user() || row.is_assistant();
        if !(client.has(ClientRule::DropsVirtualRows) && is_conversation && row.flags.is_virtual()) {
            moved.push(row);
        }
    }
    moved.append(&mut waiting);
    moved.reverse();
    moved
}

/// The messages so far, and the indices that find the message of a row.
struct MessageMerger {
    client: Client,
    /// The model accepts system messages between two turns.
    accepts_system_turns: bool,
    rows: Vec<RequestRow>,
    /// The last message with each id.
    by_id: FxHashMap<MessageId, usize>,
    /// User messages without a result, oldest first. Rows of an answer are not joined across them.
    fences: Vec<usize>,
    last_answer: Option<usize>,
    /// Merge state of the answers that contain a blank text or a call, which may be removed or moved.
    answers: FxHashMap<usize, AnswerMerger>,
}

impl MessageMerger {
    fn new(client: Client, turns: bool, n: usize) -> Self {
        let rows = Vec::with_capacity(n);
        Self {
            client,
            accepts_system_turns: turns,
            rows,
            by_id: FxHashMap::default(),
            fences: Vec::new(),
            last_answer: None,
            answers: FxHashMap::default(),
        }
    }

    /// Finds the message that a row of an answer belongs to. 1.0.128 and 2.0.36 check only the previous
    /// message, 2.0.77 and 2.1.20 search across results, and later clients across other answers too.
    fn same_message(&self, id: MessageId) -> Option<usize> {
        let at = *self.by_id.get(&id)?;
        let near = match self.client {
            client if !client.has(ClientRule::JoinsAnswersAcrossResults) => at + 1 == self.rows.len(),
            client if !client.has(ClientRule::JoinsAnswersAcrossAnswers) => self.last_answer == Some(at),
            _ => true,
        };
        (near && self.fences.last().is_none_or(|&fence| fence < at)).then_some(at)
    }

    fn push(&mut self, row: RequestRow) {
        let at = self.rows.len();
        match row.kind {
            RowKind::User if !row.has_block(BlockClass::ToolResult) => self.fences.push(at),
            RowKind::Assistant => {
                if row.parts.iter().any(may_reorder) {
                    self.answers.insert(at, AnswerMerger::new(self.client, &row.parts));
                }
                self.by_id.insert(row.id, at);
                self.last_answer = Some(at);
            }
            _ => {}
        }
        self.rows.push(row);
    }

    /// Joins a row of an answer to its message.
    fn join_answer(&mut self, at: usize, mut row: RequestRow) {
        let parts = &mut self.rows[at].parts;
        if row.parts.iter().any(may_reorder) {
            self.answers.entry(at).or_insert_with(|| AnswerMerger::new(self.client, parts));
        }
        match self.answers.get_mut(&at) {
            Some(answer) => answer.join(self.client, parts, row.parts),
            None => parts.append(&mut row.parts),
        }
    }

    /// Returns the messages, with the calls that were kept separate appended to each.
    fn finish(mut self) -> Vec<RequestRow> {
        for (at, mut answer) in self.answers {
            self.rows[at].parts.append(&mut answer.calls);
        }
        self.rows
    }

    fn add_user(&mut self, row: RequestRow) {
        match self.rows.last_mut().filter(|last| last.is_user()) {
            Some(last) => {
                let result = row.has_block(BlockClass::ToolResult);
                join_users(self.client, last, row);
                // Answers may be joined across a message that contains a result.
                if result && self.fences.last() == Some(&(self.rows.len() - 1)) {
                    self.fences.pop();
                }
            }
            None => self.push(row),
        }
    }

    /// Adds the content of an attachment. If it `folds`, it may become part of the preceding result.
    fn add_note(&mut self, parts: Vec<SentPart>, folds: bool) {
        let mut note = RequestRow::reminder();
        note.parts = parts;
        match self.rows.last_mut().filter(|last| last.is_user()) {
            Some(last) if folds => join_note(self.client, self.accepts_system_turns, last, note),
            Some(last) => {
                last.has_string_content = false;
                append_results_first(self.client, &mut last.parts, &mut note.parts);
            }
            None => self.push(note),
        }
    }

    fn flush_system_turn(&mut self, waits: &mut bool) {
        if !std::mem::take(waits) {
            return;
        }
        match self.rows.last().map(|row| row.kind) {
            Some(RowKind::SystemTurn) => {}
            Some(RowKind::User) => self.push(RequestRow::inserted(RowKind::SystemTurn, Vec::new())),
            _ => self.push(RequestRow::reminder()),
        }
    }
}

/// Returns whether a part can cause parts of an answer to be moved or removed.
fn may_reorder(part: &SentPart) -> bool {
    matches!(part.class, BlockClass::Blank | BlockClass::ToolCall)
}

/// Joins two user rows into one message.
pub(super) fn join_users(client: Client, into: &mut RequestRow, mut row: RequestRow) {
    if client.has(ClientRule::AddsLineBreakBetweenTexts)
        && let (Some(last), Some(next)) = (into.parts.last_mut(), row.parts.first())
        && last.class.is_text()
        && next.class.is_text()
    {
        last.adds_line_break = true;
    }
    into.has_string_content = false;
    append_results_first(client, &mut into.parts, &mut row.parts);
}

/// Appends `parts` and moves results before all other parts. Most parts are already in this order.
fn append_results_first(client: Client, into: &mut Vec<SentPart>, parts: &mut Vec<SentPart>) {
    let is_result = |part: &SentPart| part.class == BlockClass::ToolResult;
    let only_results = into.last().is_none_or(is_result);
    let in_order = !parts.iter().any(is_result) || only_results && parts.iter().all(is_result);
    into.append(parts);
    if client.has(ClientRule::PutsResultsFirst) && !in_order {
        into.sort_by_key(|part| part.class != BlockClass::ToolResult);
    }
}

/// Joins an attachment to the preceding result, if that is plain text. 2.1.325 also adds it to lists, unless
/// they refer to a tool that still exists.
fn join_note(client: Client, turns: bool, into: &mut RequestRow, mut row: RequestRow) {
    into.has_string_content = false;
    if let Some(last) = into.parts.last_mut()
        && last.class == BlockClass::ToolResult
        && (last.has_string_content
            || client.has(ClientRule::MergesIntoListResults) && !last.references_known_tool(turns))
        && row.parts.iter().all(|part| part.class.is_text())
    {
        last.attachments.push(row.parts[0].origin.attachment());
    } else {
        append_results_first(client, &mut into.parts, &mut row.parts);
    }
}

/// The state of an answer while rows are joined to it.
///
/// With each added row, blank texts are removed and calls move after all other parts. An answer may have
/// thousands of rows, so all parts are examined once, and after that only the new ones: a kept part remains
/// kept.
#[derive(Default)]
struct AnswerMerger {
    /// The calls that follow the other parts, if some had to move; [`MessageMerger::finish`] appends them.
    calls: Vec<SentPart>,
    /// The order is final: the client does not move calls, or moving them would make thinking blocks
    /// adjacent.
    order_fixed: bool,
    /// Some part is neither thinking nor a blank text to remove. Until then blank texts are kept.
    has_content: bool,
    /// Any blank texts have been removed.
    blanks_removed: bool,
}

impl AnswerMerger {
    fn new(client: Client, parts: &[SentPart]) -> Self {
        let is_call = |part: &SentPart| part.class == BlockClass::ToolCall;
        let calls_end = parts.iter().skip_while(|part| !is_call(part)).all(is_call);
        let is_content = |at: usize| is_kept(client, None, parts, at) && !parts[at].class.is_thinking();
        Self {
            calls: Vec::new(),
            order_fixed: !client.has(ClientRule::MovesCallsLast) || !calls_end,
            has_content: (0..parts.len()).any(is_content),
            blanks_removed: false,
        }
    }

    /// Adds the parts of a row to those of the message.
    fn join(&mut self, client: Client, into: &mut Vec<SentPart>, mut row: Vec<SentPart>) {
        let is_call = |part: &SentPart| part.class == BlockClass::ToolCall;
        if !client.has(ClientRule::RemovesBlankTextFromAnswers) {
            return into.append(&mut row);
        }
        if row.iter().all(is_call) && self.calls.last().or(into.last()).is_some_and(is_call) {
            let end = if self.calls.is_empty() { into } else { &mut self.calls };
            return end.append(&mut row);
        }
        if self.blanks_removed {
            let before = self.calls.last().or(into.last()).map(|part| part.class);
            retain_kept(client, before, &mut row);
            return self.add(into, row);
        }
        // The next parts may decide that the last part so far is kept.
        let start = into.len().saturating_sub(1);
        let before = start.checked_sub(1).and_then(|at| into.get(at)).map(|part| part.class);
        into.append(&mut row);
        let new = &into[start..];
        self.has_content |=
            (0..new.len()).any(|at| is_kept(client, before, new, at) && !new[at].class.is_thinking());
        if !self.has_content {
            return;
        }
        retain_kept(client, None, into);
        self.blanks_removed = true;
        if client.has(ClientRule::MovesCallsLast) {
            move_calls_last(into);
            self.order_fixed = !into.iter().skip_while(|part| !is_call(part)).all(is_call);
        }
    }

    /// Adds kept parts. Calls go last, unless that makes thinking blocks adjacent.
    fn add(&mut self, into: &mut Vec<SentPart>, mut row: Vec<SentPart>) {
        if self.order_fixed {
            return into.append(&mut row);
        }
        if self.calls.is_empty() {
            let n_calls = into.iter().rev().take_while(|part| part.class == BlockClass::ToolCall).count();
            self.calls = into.split_off(into.len() - n_calls);
        }
        let mut order = CallOrder { seen_call: !self.calls.is_empty(), ..CallOrder::default() };
        order.calls_since_last = order.seen_call;
        order.was_thinking = into.last().is_some_and(|part| part.class.is_thinking());
        row.iter().for_each(|part| order.observe(part));
        if order.joins_thinking {
            self.order_fixed = true;
            into.append(&mut self.calls);
            return into.append(&mut row);
        }
        let (mut calls, mut others) = row.into_iter().partition(|part| part.class == BlockClass::ToolCall);
        self.calls.append(&mut calls);
        into.append(&mut others);
    }
}

/// Returns whether a part is kept in an answer. Blank texts are removed, but since 2.1.200 not between two
/// thinking blocks. `before` is the class of the part before `parts`.
fn is_kept(client: Client, before: Option<BlockClass>, parts: &[SentPart], at: usize) -> bool {
    let before = at.checked_sub(1).map_or(before, |at| Some(parts[at].class));
    let thinking = |class: Option<BlockClass>| class.is_some_and(BlockClass::is_thinking);
    let between = || thinking(before) && thinking(parts.get(at + 1).map(|part| part.class));
    parts[at].class != BlockClass::Blank || client.has(ClientRule::KeepsBlankTextBetweenThinking) && between()
}

fn retain_kept(client: Client, before: Option<BlockClass>, parts: &mut Vec<SentPart>) {
    if !parts.iter().any(|part| part.class == BlockClass::Blank) {
        return;
    }
    let keeps: Vec<bool> = (0..parts.len()).map(|at| is_kept(client, before, parts, at)).collect();
    let mut keeps = keeps.into_iter();
    parts.retain(|_| keeps.next().unwrap_or(true));
}

/// The order of calls and other parts observed so far.
#[derive(Default)]
struct CallOrder {
    seen_call: bool,
    /// Another part follows a call.
    part_follows_call: bool,
    /// Two thinking blocks are separated only by calls.
    joins_thinking: bool,
    /// The last part other than a call is thinking.
    was_thinking: bool,
    /// Calls follow the last other part.
    calls_since_last: bool,
}

impl CallOrder {
    fn observe(&mut self, part: &SentPart) {
        if part.class == BlockClass::ToolCall {
            self.seen_call = true;
            self.calls_since_last = true;
        } else {
            self.part_follows_call |= self.seen_call;
            let thinking = part.class.is_thinking();
            self.joins_thinking |= thinking && self.was_thinking && self.calls_since_last;
            self.was_thinking = thinking;
            self.calls_since_last = false;
        }
    }
}

/// Moves calls to the end, unless that makes two thinking blocks adjacent.
fn move_calls_last(parts: &mut [SentPart]) {
    let mut order = CallOrder::default();
    parts.iter().for_each(|part| order.observe(part));
    if order.part_follows_call && !order.joins_thinking {
        parts.sort_by_key(|part| part.class == BlockClass::ToolCall);
    }
}

fn join_adjacent_users(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let mut out: Vec<RequestRow> = Vec::with_capacity(rows.len());
    for row in rows {
        match out.last_mut() {
            Some(last) if row.is_user() && last.is_user() => join_users(client, last, row),
            _ => out.push(row),
        }
    }
    out
}

/// Drops empty texts from answers, as 2.1.325 does. Between two thinking blocks a placeholder replaces them.
fn drop_empty_text(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let empty = |part: &SentPart| part.class == BlockClass::Empty;
    let concerned = |row: &RequestRow| row.is_assistant() && row.parts.iter().any(empty);
    if !rows.iter().any(concerned) {
        return rows;
    }
    let mut n_rows: FxHashMap<MessageId, u32> = FxHashMap::default();
    let mut full = FxHashSet::default();
    for row in rows.iter().filter(|row| row.is_assistant()) {
        *n_rows.entry(row.id).or_default() += 1;
        if row.parts.iter().any(|part| !part.class.is_thinking() && !empty(part)) {
            full.insert(row.id);
        }
    }
    let n_before = rows.len();
    let mut out = Vec::with_capacity(rows.len());
    for mut row in rows {
        if !concerned(&row) || row.is_blank(client) && n_rows[&row.id] == 1 {
            out.push(row);
            continue;
        }
        let parts = std::mem::take(&mut row.parts);
        // Backwards, because the next part decides.
        let mut thinking_follows = false;
        for (at, part) in parts.iter().enumerate().rev() {
            if !empty(part) {
                thinking_follows = part.class.is_thinking();
                row.parts.push(part.clone());
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| parts.get(before));
            let between = thinking_follows && before.is_some_and(|part| part.class.is_thinking());
            if full.contains(&row.id) && between {
                row.parts.push(SentPart::client_text(words::EMPTY_REMOVED));
            }
        }
        row.parts.reverse();
        if !row.parts.is_empty() {
            out.push(row);
        }
    }
    if out.len() == n_before { out } else { join_adjacent_users(client, out) }
}

/// Keeps a system turn only between a user message and an answer or the end. Anywhere else it becomes a
/// reminder.
fn place_system_turns(client: Client, rows: Vec<RequestRow>) -> Vec<RequestRow> {
    let mut out: Vec<RequestRow> = Vec::with_capacity(rows.len());
    let mut changed = false;
    let kinds: Vec<RowKind> = rows.iter().map(|row| row.kind).collect();
    for (at, row) in rows.into_iter().enumerate() {
        if row.kind != RowKind::SystemTurn {
            out.push(row);
            continue;
        }
        let before = out.last().map(|row| row.kind);
        let fits = matches!(kinds.get(at + 1), None | Some(RowKind::Assistant | RowKind::SystemTurn));
        match before {
            Some(RowKind::SystemTurn) => changed = true,
            Some(RowKind::User) if fits => out.push(row),
            _ => {
                changed = true;
                out.push(RequestRow::reminder());
            }
        }
    }
    if changed { join_adjacent_users(client, out) } else { out }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::request::PartOrigin;
    use super::*;
    use crate::index::NodeId;

    fn part(class: BlockClass, n: usize) -> SentPart {
        let origin = PartOrigin::Block(NodeId::from_index(n), 0);
        SentPart { class, origin, ..SentPart::client_text("") }
    }

    /// Joins a row in the simplest way, by examining all parts again.
    fn join_naively(client: Client, parts: &mut Vec<SentPart>, mut row: Vec<SentPart>) {
        let calls = row.iter().all(|part| part.class == BlockClass::ToolCall);
        let follows_calls = calls && parts.last().is_some_and(|part| part.class == BlockClass::ToolCall);
        parts.append(&mut row);
        if follows_calls || !client.has(ClientRule::RemovesBlankTextFromAnswers) {
            return;
        }
        let keeps = |at: usize| is_kept(client, None, parts, at);
        if (0..parts.len()).any(|at| keeps(at) && !parts[at].class.is_thinking()) {
            retain_kept(client, None, parts);
        }
        if client.has(ClientRule::MovesCallsLast) {
            move_calls_last(parts);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn incremental_join_matches_naive_join(
            rows in proptest::collection::vec(proptest::collection::vec(0..5usize, 1..4), 1..9),
        ) {
            const CLASSES: [BlockClass; 5] = [BlockClass::Text, BlockClass::Thinking, BlockClass::RedactedThinking, BlockClass::ToolCall, BlockClass::Blank];
            for client in [Client::V2_1_76, Client::V2_1_112, Client::V2_1_200, Client::V2_1_325] {
                let mut n = 0;
                let mut rows: Vec<Vec<SentPart>> = rows
                    .iter()
                    .map(|row| row.iter().map(|&class| { n += 1; part(CLASSES[class], n) }).collect())
                    .collect();
                let mut out = MessageMerger::new(client, false, 1);
                let mut plain = rows.remove(0);
                if client.has(ClientRule::MovesCallsLast) {
                    move_calls_last(&mut plain);
                }
                out.push(RequestRow::inserted(RowKind::Assistant, plain.clone()));
                for row in rows {
                    join_naively(client, &mut plain, row.clone());
                    out.join_answer(0, RequestRow::inserted(RowKind::Assistant, row));
                }
                let found = out.finish().remove(0).parts;
                let order = |parts: &[SentPart]| parts.iter().map(|part| part.origin).collect::<Vec<_>>();
                prop_assert_eq!(order(&found), order(&plain));
            }
        }
    }
}
