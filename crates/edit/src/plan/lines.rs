//! Writes the lines of a plan.

use rethread_model::NodeId;
use std::borrow::Cow;

use rethread_log::{BlockKind, Json, Key, MessageSpans, Span};
use rustc_hash::FxHashSet;

use super::calls::{text_in_pieces, text_of_result};
use super::{AddedEntry, AddedKind, BlockEdit, ContentEdit, CopyEdit, EntryEdit, PathItem, Plan, message_id};
use crate::ids::IdMap;
use crate::shorten::{apply_cuts, cuts, cuts_of_block, cuts_within};
use crate::splice::{Splice, json_string};

/// Returns the line of an entry with its changes.
pub(crate) fn edited_line(plan: &Plan<'_>, raw: &[u8], node: NodeId, names: &IdMap<'_>) -> Vec<u8> {
    let mut line = Vec::new();
    write_edited(plan, raw, node, names, &mut line);
    line
}

/// Writes the line of an entry with its changes. It may be very long, so it is not copied first.
pub(crate) fn write_edited(plan: &Plan<'_>, raw: &[u8], node: NodeId, names: &IdMap<'_>, out: &mut Vec<u8>) {
    let mut splice = Splice::new(raw);
    if let Some(parent) = plan.new_parent(node) {
        splice.set(Key::ParentUuid, parent_id_json(plan, parent, names));
    }
    let none = EntryEdit::default();
    edit_fields(plan, &mut splice, node, plan.edits.get(node).unwrap_or(&none), names);
    names.rename_ids(&mut splice);
    splice.write(out);
}

fn edit_fields<'s>(
    plan: &Plan<'_>,
    splice: &mut Splice<'s>,
    node: NodeId,
    edit: &'s EntryEdit,
    names: &IdMap<'_>,
) {
    if let Some(follows) = edit.logical_parent {
        splice.set(Key::LogicalParentUuid, json_string(&plan.new_id(PathItem::Source(follows), names)));
    }
    if let Some(uuid) = &edit.uuid {
        splice.set(Key::Uuid, json_string(&names.new_entry_id(uuid)));
    }
    if let Some(time) = &edit.time {
        splice.set(Key::Timestamp, json_string(time));
    }
    if let Some(compaction) = &edit.compact_metadata {
        splice.set(Key::CompactMetadata, compaction.clone());
    }
    if edit.meta {
        splice.set(Key::IsMeta, b"true".to_vec());
    }
    for &key in &edit.removed_fields {
        splice.remove(key);
    }
    if let Some(message) = splice.line.message {
        edit_message(plan, splice, message, node, edit, names);
    }
}

fn edit_message<'s>(
    plan: &Plan<'_>,
    splice: &mut Splice<'s>,
    message: MessageSpans,
    node: NodeId,
    edit: &'s EntryEdit,
    names: &IdMap<'_>,
) {
    if let Some(model) = &edit.model {
        splice.set_in_message("model", message.model, json_string(model));
    }
    if let Some(usage) = &edit.usage {
        splice.set_in_message("usage", message.usage, usage.clone());
    }
    if !splice.line.field(Key::ToolUseResult).is_empty() {
        match &edit.copy {
            Some(CopyEdit::Null) => splice.set(Key::ToolUseResult, b"null".to_vec()),
            Some(CopyEdit::Remove) => splice.remove(Key::ToolUseResult),
            None if plan.changes_copy(node) => {
                let span = splice.line.field(Key::ToolUseResult);
                let copy = span.bytes_in(splice.raw);
                let short = match edit.replaced_by {
                    // The copy is that of the replacing entry, so recorded cuts do not apply.
                    Some(_) => apply_cuts(copy, &cuts(copy, plan.cuts.limit)),
                    None => apply_cuts(copy, &cuts_within(span, plan.cuts.of_node(node))),
                };
                splice.set(Key::ToolUseResult, names.rewrite_result_paths(short.into()).into_owned());
            }
            None => {}
        }
    }
    match &edit.content {
        Some(ContentEdit::Replace(content)) => return splice.replace(message.content, content),
        Some(ContentEdit::List) => {
            let pieces = [br#"[{"type":"text","text":"#, message.content.bytes_in(splice.raw), b"}]"];
            return splice.replace_by_pieces(message.content, pieces.map(Cow::from).into());
        }
        None => {}
    }
    if plan.changes_blocks(node) {
        edit_blocks(plan, splice, message.content, node, edit, names);
    }
}

fn edit_blocks<'s>(
    plan: &Plan<'_>,
    splice: &mut Splice<'s>,
    content: Span,
    node: NodeId,
    edit: &'s EntryEdit,
    names: &IdMap<'_>,
) {
    let raw: &'s [u8] = splice.raw;
    let cut_out = plan.cuts.of_node(node);
    let short: FxHashSet<usize> = cut_out.iter().filter_map(|cut| usize::try_from(cut.part).ok()).collect();
    let is_short = |at: usize| short.contains(&at);
    let whole = edit.blocks.values().any(|change| !matches!(change, BlockEdit::Rename(_)));
    let spans = std::mem::take(&mut splice.line.blocks);
    // A block may be very long, so blocks are borrowed from the line where possible.
    let mut list: Vec<Cow<'s, [u8]>> = Vec::new();
    for (at, span) in spans.iter().enumerate() {
        let block = || -> Cow<'s, [u8]> {
            let raw = span.whole.bytes_in(raw);
            // Thinking is signed and is not changed.
            let signed = matches!(span.kind, Some(BlockKind::Thinking | BlockKind::RedactedThinking));
            match is_short(at) {
                true if edit.replaced_by.is_some() => {
                    names.rewrite_result_paths(apply_cuts(raw, &cuts_of_block(raw, plan.cuts.limit)).into())
                }
                true => names.rewrite_result_paths(apply_cuts(raw, &cuts_within(span.whole, cut_out)).into()),
                false if signed => raw.into(),
                false => names.rewrite_result_paths(raw.into()),
            }
        };
        let pieces: Vec<Cow<'s, [u8]>> = match edit.blocks.get(&at) {
            Some(BlockEdit::Remove) => continue,
            Some(BlockEdit::Replace(block)) => vec![block.into()],
            Some(BlockEdit::Text) => {
                text_in_pieces("", Json::new(span.whole.bytes_in(raw)).raw_string().unwrap_or_default())
            }
            Some(BlockEdit::LostResult) => text_of_result(Json::new(span.content.bytes_in(raw))),
            Some(BlockEdit::Rename(id)) => with_id(block(), id),
            None if whole || is_short(at) => vec![block()],
            None => continue,
        };
        if whole {
            list.push(if list.is_empty() { b"[".into() } else { b",".into() });
            list.extend(pieces);
        } else {
            splice.replace_by_pieces(span.whole, pieces);
        }
    }
    splice.line.blocks = spans;
    if whole {
        list.push(if list.is_empty() { b"[]".into() } else { b"]".into() });
        splice.replace_by_pieces(content, list);
    }
}

/// Returns a call or a result with another id, in pieces.
fn with_id<'s>(block: Cow<'s, [u8]>, id: &str) -> Vec<Cow<'s, [u8]>> {
    let json = Json::new(&block);
    let old = json.get("tool_use_id").or_else(|| json.get("id"));
    let Some(old) = old.filter(|old| !old.raw().is_empty()) else { return vec![block] };
    let start = old.raw().as_ptr().addr() - block.as_ptr().addr();
    let end = start + old.raw().len();
    match block {
        Cow::Borrowed(block) => vec![block[..start].into(), json_string(id).into(), block[end..].into()],
        Cow::Owned(block) => vec![[&block[..start], &json_string(id), &block[end..]].concat().into()],
    }
}

fn parent_id_json(plan: &Plan<'_>, item: Option<PathItem>, names: &IdMap<'_>) -> Vec<u8> {
    item.map_or(b"null".to_vec(), |item| json_string(&plan.new_id(item, names)))
}

/// Writes the line of an added entry.
pub(crate) fn write_added(plan: &Plan<'_>, new: &AddedEntry, names: &IdMap<'_>, line: &mut Vec<u8>) {
    line.push(b'{');
    let mut members = ObjectWriter { line, first: true };
    let mut member = |key: &str, value: &[u8]| members.add(key, value);
    member("parentUuid", &parent_id_json(plan, new.parent, names));
    member("isSidechain", b"false");
    member("userType", b"\"external\"");
    for (key, value) in &new.envelope.fields {
        member(key.name(), if *key == Key::SessionId { names.quoted_session(value) } else { value });
    }
    let time = new.time.to_iso().unwrap_or_default();
    match &new.kind {
        AddedKind::Result { call } => {
            let result = serde_json::json!({
                "role": "user",
                "content": [{
                    "type": "tool_result",
                    "tool_use_id": call,
                    "content": "[The result of this call is not in the session.]",
                    "is_error": true,
                }],
            });
            member("type", b"\"user\"");
            member("message", result.to_string().as_bytes());
        }
        AddedKind::Beginning => {
            let message = serde_json::json!({
                "role": "user",
                "content": "[What was said before is not in this conversation.]",
            });
            member("type", b"\"user\"");
            member("isMeta", b"true");
            member("message", message.to_string().as_bytes());
        }
        AddedKind::NoReply => {
            let message = serde_json::json!({
                "id": message_id(&new.uuid),
                "type": "message",
                "role": "assistant",
                "model": "<synthetic>",
                "content": [{ "type": "text", "text": "No response requested." }],
                "stop_reason": "stop_sequence",
                "stop_sequence": "",
                "usage": { "input_tokens": 0, "output_tokens": 0 },
            });
            member("type", b"\"assistant\"");
            member("message", message.to_string().as_bytes());
        }
        AddedKind::End => {
            member("type", b"\"system\"");
            member("subtype", b"\"informational\"");
            member("content", b"\"The conversation goes on from here.\"");
            member("level", b"\"info\"");
            member("isMeta", b"false");
        }
        AddedKind::Boundary { tokens } => {
            let metadata = serde_json::json!({ "trigger": "manual", "preTokens": tokens });
            member("type", b"\"system\"");
            member("subtype", b"\"compact_boundary\"");
            member("content", b"\"Conversation compacted\"");
            member("isMeta", b"false");
            member("level", b"\"info\"");
            member("compactMetadata", metadata.to_string().as_bytes());
        }
        AddedKind::Summary { text } => {
            member("type", b"\"user\"");
            // It may be very long, so it is encoded in place.
            members.begin("message");
            members.line.extend_from_slice(b"{\"role\":\"user\",\"content\":");
            let written = serde_json::to_writer(&mut *members.line, text);
            debug_assert!(written.is_ok(), "writing to memory cannot fail");
            members.line.push(b'}');
            members.add("isVisibleInTranscriptOnly", b"true");
            members.add("isCompactSummary", b"true");
        }
    }
    members.add("uuid", &json_string(&names.new_entry_id(&new.uuid)));
    members.add("timestamp", &json_string(&time));
    line.extend_from_slice(b"}\n");
}

/// Writes the members of an object.
struct ObjectWriter<'l> {
    line: &'l mut Vec<u8>,
    first: bool,
}

impl ObjectWriter<'_> {
    /// Starts a member; its value follows.
    fn begin(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.line.push(b',');
        }
        self.line.push(b'"');
        self.line.extend_from_slice(key.as_bytes());
        self.line.extend_from_slice(b"\":");
    }

    fn add(&mut self, key: &str, value: &[u8]) {
        self.begin(key);
        self.line.extend_from_slice(String::from_utf8_lossy(value).as_bytes());
    }
}

/// Returns the line that tells clients since 2.1.200 that the conversation is at an added end.
pub(crate) fn checkpoint(plan: &Plan<'_>, new: &AddedEntry) -> Vec<u8> {
    let answer = new.parent.filter(|_| matches!(new.kind, AddedKind::End));
    let leaf = answer.map_or_else(|| new.uuid.clone(), |answer| plan.new_id(answer, &IdMap::identity()));
    let mut line = br#"{"type":"last-prompt","leafUuid":"#.to_vec();
    line.extend(json_string(&leaf));
    if let Some((_, session)) = new.envelope.fields.iter().find(|(key, _)| *key == Key::SessionId) {
        line.extend_from_slice(b",\"sessionId\":");
        line.extend_from_slice(session);
    }
    line.extend_from_slice(b"}\n");
    line
}
