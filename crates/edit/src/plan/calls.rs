//! Gives every call exactly one result: missing results are added, repeated ids are renamed, results without a
//! call become text.

use std::borrow::Cow;

use rethread_log::{Json, unescape};
use rethread_model::{BlockClass, CallId, FindingKind, NodeId, Role};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{AddedKind, BlockEdit, ChangeCause, CopyEdit, PathItem, Plan};
use crate::splice::{json_string, text_chunks};

/// A block on the path.
#[derive(Debug, Clone, Copy)]
struct BlockPlace {
    /// Position of its entry on the path.
    at: usize,
    node: NodeId,
    block: usize,
    /// The call that it makes or answers, if known.
    call: Option<CallId>,
}

impl Plan<'_> {
    pub(super) fn repair_calls(&mut self) {
        let (mut uses, mut results, mut orphans) = (Vec::new(), Vec::new(), Vec::new());
        for (at, node) in self.path_nodes().into_iter().enumerate() {
            if self.is_dropped(node) {
                continue;
            }
            let role = self.node(node).role;
            let edit = self.edits.get(node);
            for (block, fact) in self.facts.blocks_of(self.content_node(node)).iter().enumerate() {
                if edit.is_some_and(|edit| matches!(edit.blocks.get(&block), Some(BlockEdit::Remove))) {
                    continue;
                }
                let place = BlockPlace { at, node, block, call: fact.call() };
                match (fact.class, fact.call(), role) {
                    (BlockClass::ToolCall, Some(_), Role::Assistant) => uses.push(place),
                    (BlockClass::ToolResult, Some(_), Role::User) => results.push(place),
                    (BlockClass::ToolResult, None, Role::User)
                    | (BlockClass::ToolResult, _, Role::Assistant) => {
                        orphans.push(place);
                    }
                    _ => {}
                }
            }
        }
        // Groups the blocks by call; calls are handled in the order in which they are made.
        uses.sort_by_key(|place| place.call);
        results.sort_by_key(|place| place.call);
        let same = |a: &BlockPlace, b: &BlockPlace| a.call == b.call;
        let mut calls: Vec<&[BlockPlace]> = uses.chunk_by(same).collect();
        calls.sort_by_key(|places| (places[0].at, places[0].block));
        for places in calls {
            let before = results.partition_point(|place| place.call < places[0].call);
            let n = results[before..].partition_point(|place| place.call == places[0].call);
            self.repair_call(places, &results[before..before + n]);
        }
        self.place_added_results();
        // The remaining results answer no call on the path.
        let is_made =
            |place: &&BlockPlace| uses.binary_search_by_key(&place.call, |other| other.call).is_ok();
        let unmade = results.iter().filter(|place| !is_made(place)).copied();
        let mut rest: Vec<BlockPlace> = unmade.chain(orphans).collect();
        rest.sort_by_key(|place| (place.at, place.block));
        for of_entry in rest.chunk_by(|a, b| a.node == b.node) {
            self.results_to_text(of_entry);
        }
    }

    /// Places added results after the last entry of the message that made their call.
    fn place_added_results(&mut self) {
        if self.results_to_place.is_empty() {
            return;
        }
        let mut waiting: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (at, new) in std::mem::take(&mut self.results_to_place) {
            waiting.entry(at).or_default().push(new);
        }
        let path = std::mem::take(&mut self.path);
        let message = |item: Option<&PathItem>| match item {
            Some(&PathItem::Source(node)) => self.node(self.content_node(node)).message(),
            _ => None,
        };
        let (mut placed, mut pending) = (Vec::with_capacity(path.len()), Vec::new());
        let mut old = 0;
        for (at, &item) in path.iter().enumerate() {
            placed.push(item);
            if matches!(item, PathItem::Source(_)) {
                pending.extend(waiting.remove(&old).unwrap_or_default());
                old += 1;
            }
            if message(Some(&item)).is_none() || message(path.get(at + 1)) != message(Some(&item)) {
                placed.extend(pending.drain(..).map(PathItem::Added));
            }
        }
        placed.extend(pending.into_iter().map(PathItem::Added));
        self.path = placed;
    }

    /// Returns the entry whose content a node will have.
    pub(crate) fn content_node(&self, node: NodeId) -> NodeId {
        self.edits.get(node).and_then(|edit| edit.replaced_by).unwrap_or(node)
    }

    fn repair_call(&mut self, uses: &[BlockPlace], answers: &[BlockPlace]) {
        // Most calls are made once and answered once, later on the path.
        if let ([made], [answer]) = (uses, answers) {
            self.misplaced |= answer.at < made.at;
            return;
        }
        let Some(call) = uses[0].call else { return };
        let id = self.facts.call_id(&self.facts.calls[call]).to_owned();
        // The same call twice in one message is one call.
        let mut made: Vec<BlockPlace> = Vec::new();
        let mut messages = FxHashSet::default();
        for &place in uses {
            let message = self.node(self.content_node(place.node)).message();
            if messages.insert(message) {
                made.push(place);
            } else {
                self.block_edit(place, BlockEdit::Remove, FindingKind::RepeatedCall);
            }
        }
        // Both are in path order, so the results between two uses are a contiguous run.
        let mut taken = vec![false; answers.len()];
        for (n, place) in made.iter().enumerate() {
            let next = made.get(n + 1).map_or(usize::MAX, |next| next.at);
            let after = answers.partition_point(|answer| answer.at <= place.at);
            let own = answers.get(after).filter(|answer| answer.at < next).map(|_| after);
            // A result before its call is moved after it.
            let first_free = || taken.iter().position(|taken| !taken).filter(|_| next == usize::MAX);
            let own = own.filter(|&own| !taken[own]).or_else(first_free);
            let own = own.map(|own| {
                taken[own] = true;
                answers[own]
            });
            self.misplaced |= own.is_some_and(|answer| answer.at < place.at);
            let name = if n == 0 { id.clone() } else { self.unused_call_id(&id, n + 1) };
            if n > 0 {
                self.block_edit(*place, BlockEdit::Rename(name.clone()), FindingKind::RepeatedCall);
                if let Some(own) = own {
                    let cause = ChangeCause { kind: FindingKind::RepeatedCall, node: place.node };
                    let edit = self.edit_because(own.node, cause);
                    edit.blocks.insert(own.block, BlockEdit::Rename(name.clone()));
                }
            }
            if own.is_none() {
                let new = self.add(AddedKind::Result { call: name }, FindingKind::OpenCall, place.node, 1);
                self.results_to_place.push((place.at, new));
            }
        }
        for (place, _) in answers.iter().zip(taken).filter(|(_, taken)| !taken) {
            self.block_edit(*place, BlockEdit::Remove, FindingKind::SeveralResults);
        }
    }

    /// Returns a call id that is not in use.
    fn unused_call_id(&mut self, id: &str, n: usize) -> String {
        if self.call_names.is_empty() {
            let ids = self.facts.calls.iter().map(|call| self.facts.call_id(call).to_owned());
            self.call_names = ids.collect();
        }
        let mut name = format!("{id}_{n}");
        while !self.call_names.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    pub(super) fn block_edit_at(&mut self, node: NodeId, block: usize, edit: BlockEdit, why: FindingKind) {
        self.edit(node, why).blocks.insert(block, edit);
    }

    fn block_edit(&mut self, place: BlockPlace, edit: BlockEdit, why: FindingKind) {
        self.block_edit_at(place.node, place.block, edit, why);
    }

    /// Turns the results of an entry whose calls are missing into text.
    fn results_to_text(&mut self, places: &[BlockPlace]) {
        let Some(&BlockPlace { node, .. }) = places.first() else { return };
        let content_node = self.content_node(node);
        let alone = self.facts.blocks_of(content_node).iter().all(|b| b.class == BlockClass::ToolResult);
        for &place in places {
            self.block_edit(place, BlockEdit::LostResult, FindingKind::OrphanResult);
            let edit = self.edit(node, FindingKind::OrphanResult);
            edit.copy = Some(CopyEdit::Null);
            // The entry is not a user's prompt, unless it has other blocks too.
            edit.meta |= alone;
        }
    }

    /// Returns the ids of the calls that a node will make.
    pub(super) fn calls_made(&self, node: NodeId) -> impl Iterator<Item = &str> {
        self.ids_of(node, BlockClass::ToolCall)
    }

    /// Returns the ids of the calls that a node will answer.
    pub(super) fn calls_answered(&self, node: NodeId) -> impl Iterator<Item = &str> {
        self.ids_of(node, BlockClass::ToolResult)
    }

    fn ids_of(&self, node: NodeId, class: BlockClass) -> impl Iterator<Item = &str> {
        let edit = self.edits.get(node);
        let facts = self.facts.blocks_of(self.content_node(node)).iter().enumerate();
        facts.filter(move |(_, block)| block.class == class).filter_map(move |(at, block)| {
            match edit.and_then(|e| e.blocks.get(&at)) {
                Some(BlockEdit::Rename(id)) => Some(id.as_str()),
                Some(_) => None,
                None => Some(self.facts.call_id(&self.facts.calls[block.call()?])),
            }
        })
    }
}

/// The line before the text of a result whose call is missing.
pub(crate) const LOST_CALL: &str = "[The call of this result is not in the session.]";

/// Encodes a result as blocks that need no call, in pieces.
pub(super) fn text_of_result(content: Json<'_>) -> Vec<Cow<'_, [u8]>> {
    let note: Cow<'_, [u8]> = text_block(LOST_CALL).into();
    if let Some(text) = content.raw_string() {
        return if is_blank(text) { vec![note] } else { text_in_pieces(&format!("{LOST_CALL}\n"), text) };
    }
    let is_kept = |item: &Json<'_>| {
        matches!(item.get("type").and_then(Json::raw_string), Some(b"text" | b"image" | b"document"))
    };
    let mut pieces = vec![note];
    for item in content.items().filter(is_kept) {
        pieces.extend([b",".into(), item.raw().into()]);
    }
    pieces
}

/// Encodes a text block of `before` and the inside of a string. The string may be very long: if it is valid JSON, it
/// is not copied.
pub(super) fn text_in_pieces<'a>(before: &str, inner: &'a [u8]) -> Vec<Cow<'a, [u8]>> {
    let mut start = text_block(before);
    start.truncate(start.len() - 2);
    vec![start.into(), spelled(inner), b"\"}".into()]
}

/// Returns the inside of a string, re-encoded if it is not valid JSON.
fn spelled(inner: &[u8]) -> Cow<'_, [u8]> {
    let sound =
        !inner.iter().any(|&b| b < 0x20) && std::str::from_utf8(inner).is_ok() && escapes_are_sound(inner);
    if sound {
        return inner.into();
    }
    let mut encoded = json_string(&unescape(inner));
    encoded.pop();
    encoded.remove(0);
    encoded.into()
}

/// Returns whether every escape is one that all readers accept: a `\u` escape may be half of a surrogate pair.
fn escapes_are_sound(inner: &[u8]) -> bool {
    let mut rest = inner;
    while let Some(slash) = memchr::memchr(b'\\', rest) {
        let sound = match rest.get(slash + 1) {
            Some(b'u') => {
                let unit =
                    rest.get(slash + 2..slash + 6).filter(|unit| unit.iter().all(u8::is_ascii_hexdigit));
                unit.is_some_and(|unit| {
                    !matches!(unit, [b'd' | b'D', b'8'..=b'9' | b'a'..=b'f' | b'A'..=b'F', ..])
                })
            }
            c => c.is_some_and(|c| b"\"\\/bfnrt".contains(c)),
        };
        if !sound {
            return false;
        }
        rest = &rest[slash + 2..];
    }
    true
}

/// Returns whether the inside of a string is white space only.
pub(super) fn is_blank(inner: &[u8]) -> bool {
    text_chunks(inner, 256).all(|text| text.trim().is_empty())
}

/// Encodes a text block.
pub(super) fn text_block(text: &str) -> Vec<u8> {
    [br#"{"type":"text","text":"#, &*json_string(text), b"}"].concat()
}
