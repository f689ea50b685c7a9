//! From rows to messages: what is joined, and in which order the parts stand.

use rustc_hash::{FxHashMap, FxHashSet};

use super::request::{MessageId, Part, Row, RowKind, words};
use super::settle::{drop_blank, drop_lone_thinking, settle};
use crate::attachment::Voice;
use crate::client::Client;
use crate::facts::{Facts, NONE, Sort};

/// Makes messages of the rows of a request.
pub(super) fn messages(
    facts: &Facts,
    client: Client,
    mut rows: Vec<Row>,
    model: Option<&str>,
    turns: bool,
) -> Vec<Row> {
    if client >= Client::V2_1_200 {
        strip_thinking(facts, client, &mut rows, model);
    }
    if client >= Client::V2_1_325 {
        settle(client, &mut rows);
    }
    let rows = move_attachments_up(client, rows);
    let mut out = Out::new(client, turns, rows.len());
    let mut turn_waits = false;
    for mut row in rows {
        match row.kind {
            RowKind::System => {
                let sent =
                    client >= Client::V2_1_76 && row.flags.is_local_command() && !row.flags.is_display_only();
                if sent {
                    out.add_user(Row::command(row.node));
                }
            }
            RowKind::User => {
                if client >= Client::V2_1_325 {
                    if row.parts.is_empty() && row.node != NONE {
                        continue;
                    }
                    if row.flags.is_notification() {
                        hide_words(&mut row);
                    }
                    let loaded = |part: &Part| part.is_loaded(turns);
                    if row.parts.iter().any(loaded) && !row.has(Sort::ToolLoaded) {
                        row.parts.push(Part::words(words::TOOL_LOADED));
                    }
                }
                out.add_user(row);
            }
            RowKind::Assistant if row.is_api_error() => {}
            RowKind::Assistant => match out.same_message(row.id) {
                Some(at) => out.join_answer(at, row),
                None => {
                    out.flush_turn(&mut turn_waits);
                    if client >= Client::V2_1_200 {
                        calls_last(&mut row.parts);
                    }
                    out.push(row);
                }
            },
            RowKind::Attachment => {
                let known = facts.attachments.get(&row.node);
                let saying = known.map_or(Some(row.saying), |attached| attached.said_by(client));
                let Some(saying) = saying else { continue };
                if turns && saying.voice == Voice::System {
                    turn_waits = true;
                    continue;
                }
                let mut parts = vec![Part::note(Some(row.node))];
                if saying.pictures && !saying.apart {
                    parts.push(Part::pictures(row.node));
                }
                // What is told anew in the user's voice stays with the new prompt.
                let folds = row.node != NONE || saying.voice == Voice::System;
                out.add_note(parts, folds);
                if saying.pictures && saying.apart {
                    out.add_note(vec![Part::pictures(row.node)], folds);
                }
            }
            RowKind::Turn => {}
        }
    }
    out.flush_turn(&mut turn_waits);
    let mut out = out.rows;
    if client >= Client::V2_1_325 {
        out = drop_empty_text(client, out);
    }
    if client >= Client::V2_1_20 {
        let before = out.len();
        drop_lone_thinking(&mut out);
        if client >= Client::V2_1_325 && out.len() != before {
            out = join_neighbours(client, out);
        }
    }
    if client >= Client::V2_1_76 {
        out = drop_blank(client, out);
        let last = out.len().saturating_sub(1);
        for row in out[..last].iter_mut().filter(|row| row.is_assistant() && row.parts.is_empty()) {
            row.parts.push(Part::words(words::NO_CONTENT));
        }
    }
    if turns { place_turns(client, out) } else { out }
}

/// Newer models take messages of the client between two turns.
pub(super) fn takes_turns(client: Client, model: Option<&str>) -> bool {
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
    client >= Client::V2_1_200 && model.is_some_and(|m| !WITHOUT.iter().any(|old| m.starts_with(old)))
}

/// Thinking of another model is not sent; 2.1.325 does not look at the date in a model's name.
fn strip_thinking(facts: &Facts, client: Client, rows: &mut [Row], model: Option<&str>) {
    let family = |name: &str| -> String {
        if client >= Client::V2_1_325 { without_date(name).to_owned() } else { name.to_owned() }
    };
    let wanted = model.map(family);
    for row in rows.iter_mut().filter(|row| row.is_assistant() && !row.flags.is_synthetic()) {
        let own = (row.model != u16::MAX).then(|| family(facts.models.name(row.model)));
        if own != wanted || own.is_none() {
            row.parts.retain(|part| !matches!(part.sort, Sort::Thinking | Sort::Redacted));
        }
    }
}

/// The name of a model without its date.
pub(super) fn without_date(name: &str) -> &str {
    match name.rsplit_once("-20") {
        Some((family, date)) if date.len() == 6 && date.bytes().all(|b| b.is_ascii_digit()) => family,
        _ => name,
    }
}

/// What a background task said in the user's place is told as a reminder.
fn hide_words(row: &mut Row) {
    row.plain = false;
    row.parts.retain(|part| !part.sort.is_text());
    row.parts.insert(0, Part::note(Some(row.node)));
}

/// Moves attachments up to just behind the nearest answer or result; what is virtual is left out.
fn move_attachments_up(client: Client, rows: Vec<Row>) -> Vec<Row> {
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
        let said = row.is_user() || row.is_assistant();
        if !(client >= Client::V2_1_112 && said && row.flags.is_virtual()) {
            moved.push(row);
        }
    }
    moved.append(&mut waiting);
    moved.reverse();
    moved
}

/// The messages so far, with what is needed to find the one that a row belongs to.
struct Out {
    client: Client,
    /// The model takes messages of the client between two turns.
    turns: bool,
    rows: Vec<Row>,
    /// The last message with each id.
    by_id: FxHashMap<MessageId, usize>,
    /// User messages without any result, which no answer is joined over, oldest first.
    fences: Vec<usize>,
    last_answer: Option<usize>,
    /// The messages that hold a blank text or a call, whose parts are looked at whenever one is added.
    with_calls: FxHashSet<usize>,
}

impl Out {
    fn new(client: Client, turns: bool, n: usize) -> Self {
        let rows = Vec::with_capacity(n);
        Self {
            client,
            turns,
            rows,
            by_id: FxHashMap::default(),
            fences: Vec::new(),
            last_answer: None,
            with_calls: FxHashSet::default(),
        }
    }

    /// Finds the message that a row of an answer belongs to: 1.0.128 and 2.0.36 look at the one before,
    /// 2.0.77 and 2.1.20 over results, later ones over other answers too.
    fn same_message(&self, id: MessageId) -> Option<usize> {
        let at = *self.by_id.get(&id)?;
        let near = match self.client {
            client if client < Client::V2_0_77 => at + 1 == self.rows.len(),
            client if client < Client::V2_1_76 => self.last_answer == Some(at),
            _ => true,
        };
        (near && self.fences.last().is_none_or(|&fence| fence < at)).then_some(at)
    }

    fn push(&mut self, row: Row) {
        let at = self.rows.len();
        match row.kind {
            RowKind::User if !row.has(Sort::Result) => self.fences.push(at),
            RowKind::Assistant => {
                if row.parts.iter().any(moves_others) {
                    self.with_calls.insert(at);
                }
                self.by_id.insert(row.id, at);
                self.last_answer = Some(at);
            }
            _ => {}
        }
        self.rows.push(row);
    }

    /// Joins a row of an answer to its message. Thousands of rows may be joined, so that all parts are looked at
    /// again only where some may move or go.
    fn join_answer(&mut self, at: usize, mut row: Row) {
        if row.parts.iter().any(moves_others) {
            self.with_calls.insert(at);
        }
        if self.with_calls.contains(&at) {
            join_answers(self.client, &mut self.rows[at], row);
        } else {
            self.rows[at].parts.append(&mut row.parts);
        }
    }

    fn add_user(&mut self, row: Row) {
        match self.rows.last_mut().filter(|last| last.is_user()) {
            Some(last) => {
                let result = row.has(Sort::Result);
                join_users(self.client, last, row);
                // With a result in it, it is joined over.
                if result && self.fences.last() == Some(&(self.rows.len() - 1)) {
                    self.fences.pop();
                }
            }
            None => self.push(row),
        }
    }

    /// Adds what is said about an attachment; if it `folds`, it may become part of the result before it.
    fn add_note(&mut self, parts: Vec<Part>, folds: bool) {
        let mut note = Row::hidden();
        note.parts = parts;
        match self.rows.last_mut().filter(|last| last.is_user()) {
            Some(last) if folds => join_note(self.client, self.turns, last, note),
            Some(last) => {
                last.plain = false;
                append_results_first(self.client, &mut last.parts, &mut note.parts);
            }
            None => self.push(note),
        }
    }

    fn flush_turn(&mut self, waits: &mut bool) {
        if !std::mem::take(waits) {
            return;
        }
        match self.rows.last().map(|row| row.kind) {
            Some(RowKind::Turn) => {}
            Some(RowKind::User) => self.push(Row::put_in(RowKind::Turn, Vec::new())),
            _ => self.push(Row::hidden()),
        }
    }
}

/// Returns whether parts of an answer may move or go because of a part.
fn moves_others(part: &Part) -> bool {
    matches!(part.sort, Sort::Blank | Sort::Call)
}

/// Joins two user rows into one message.
pub(super) fn join_users(client: Client, into: &mut Row, mut row: Row) {
    if client >= Client::V2_1_112
        && let (Some(last), Some(next)) = (into.parts.last_mut(), row.parts.first())
        && last.sort.is_text()
        && next.sort.is_text()
    {
        last.broken = true;
    }
    into.plain = false;
    append_results_first(client, &mut into.parts, &mut row.parts);
}

/// Results stand before everything else; most often they do so anyway.
fn append_results_first(client: Client, into: &mut Vec<Part>, parts: &mut Vec<Part>) {
    let is_result = |part: &Part| part.sort == Sort::Result;
    let only_results = into.last().is_none_or(is_result);
    let in_order = !parts.iter().any(is_result) || only_results && parts.iter().all(is_result);
    into.append(parts);
    if client >= Client::V2_0_36 && !in_order {
        into.sort_by_key(|part| part.sort != Sort::Result);
    }
}

/// Joins what is said about an attachment: into the result before it, if that is plain text. 2.1.325 also puts it
/// into lists, unless they refer to a tool that is still there.
fn join_note(client: Client, turns: bool, into: &mut Row, mut row: Row) {
    into.plain = false;
    if let Some(last) = into.parts.last_mut()
        && last.sort == Sort::Result
        && (last.plain || client >= Client::V2_1_325 && !last.is_loaded(turns))
        && row.parts.iter().all(|part| part.sort.is_text())
    {
        last.notes.push(row.parts[0].what.note().unwrap_or(NONE));
    } else {
        append_results_first(client, &mut into.parts, &mut row.parts);
    }
}

fn join_answers(client: Client, into: &mut Row, mut row: Row) {
    // Calls behind what was in order before need no second look.
    let blank = |part: &Part| part.sort == Sort::Blank;
    let calls = row.parts.iter().all(|part| part.sort == Sort::Call);
    if calls && into.parts.last().is_some_and(|part| part.sort == Sort::Call) {
        return into.parts.append(&mut row.parts);
    }
    if client < Client::V2_1_200 && !into.parts.iter().any(blank) && !row.parts.iter().any(blank) {
        return into.parts.append(&mut row.parts);
    }
    into.parts.append(&mut row.parts);
    let parts = &mut into.parts;
    if client >= Client::V2_1_112 {
        let thinking = |at: usize| parts.get(at).is_some_and(|part| part.sort.is_thinking());
        let keeps: Vec<bool> = (0..parts.len())
            .map(|at| {
                let parts_them = client >= Client::V2_1_200 && at > 0 && thinking(at - 1) && thinking(at + 1);
                parts[at].sort != Sort::Blank || parts_them
            })
            .collect();
        if parts.iter().zip(&keeps).any(|(part, &keep)| keep && !part.sort.is_thinking()) {
            let mut keeps = keeps.into_iter();
            parts.retain(|_| keeps.next().unwrap_or(true));
        }
    }
    if client >= Client::V2_1_200 {
        calls_last(parts);
    }
}

/// Moves calls to the end, unless that would bring two thinking blocks together.
fn calls_last(parts: &mut [Part]) {
    let (mut called, mut after, mut clash) = (false, false, false);
    let (mut was_thinking, mut between) = (false, false);
    for part in parts.iter() {
        if part.sort == Sort::Call {
            called = true;
            between = true;
        } else {
            after |= called;
            let thinking = part.sort.is_thinking();
            clash |= thinking && was_thinking && between;
            was_thinking = thinking;
            between = false;
        }
    }
    if after && !clash {
        parts.sort_by_key(|part| part.sort == Sort::Call);
    }
}

fn join_neighbours(client: Client, rows: Vec<Row>) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match out.last_mut() {
            Some(last) if row.is_user() && last.is_user() => join_users(client, last, row),
            _ => out.push(row),
        }
    }
    out
}

/// 2.1.325 drops texts of no length from answers; between two thinking blocks a word takes its place.
fn drop_empty_text(client: Client, rows: Vec<Row>) -> Vec<Row> {
    let empty = |part: &Part| part.sort == Sort::Empty;
    let concerned = |row: &Row| row.is_assistant() && row.parts.iter().any(empty);
    if !rows.iter().any(concerned) {
        return rows;
    }
    let mut n_rows: FxHashMap<MessageId, u32> = FxHashMap::default();
    let mut full = FxHashSet::default();
    for row in rows.iter().filter(|row| row.is_assistant()) {
        *n_rows.entry(row.id).or_default() += 1;
        if row.parts.iter().any(|part| !part.sort.is_thinking() && !empty(part)) {
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
        // From the back, for what follows decides.
        let mut thinking_follows = false;
        for (at, part) in parts.iter().enumerate().rev() {
            if !empty(part) {
                thinking_follows = part.sort.is_thinking();
                row.parts.push(part.clone());
                continue;
            }
            let before = at.checked_sub(1).and_then(|before| parts.get(before));
            let between = thinking_follows && before.is_some_and(|part| part.sort.is_thinking());
            if full.contains(&row.id) && between {
                row.parts.push(Part::words(words::EMPTY_REMOVED));
            }
        }
        row.parts.reverse();
        if !row.parts.is_empty() {
            out.push(row);
        }
    }
    if out.len() == n_before { out } else { join_neighbours(client, out) }
}

/// A turn of the client follows a user and precedes an answer or the end; anywhere else it becomes
/// a hidden text.
fn place_turns(client: Client, rows: Vec<Row>) -> Vec<Row> {
    let mut out: Vec<Row> = Vec::with_capacity(rows.len());
    let mut changed = false;
    let kinds: Vec<RowKind> = rows.iter().map(|row| row.kind).collect();
    for (at, row) in rows.into_iter().enumerate() {
        if row.kind != RowKind::Turn {
            out.push(row);
            continue;
        }
        let before = out.last().map(|row| row.kind);
        let fits = matches!(kinds.get(at + 1), None | Some(RowKind::Assistant | RowKind::Turn));
        match before {
            Some(RowKind::Turn) => changed = true,
            Some(RowKind::User) if fits => out.push(row),
            _ => {
                changed = true;
                out.push(Row::hidden());
            }
        }
    }
    if changed { join_neighbours(client, out) } else { out }
}
