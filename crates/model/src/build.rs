//! Builds facts from entries, in one pass.
//!
//! [`FactsBuilder`] receives the entries from the scanner and keeps a small fixed record of each. Merging
//! happens here: entries of one `message.id` are one message with every block once, and a message
//! replayed under new uuids is the message it repeats.

mod blocks;
mod flags;

use std::collections::BTreeMap;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use rethread_log::{
    BlockKind, BlockSpans, Defect, DefectKind, Entry, EntryContent, EntryKind, Json, Key, Line, Sink, Span,
    unescape,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use crate::attachment::AttachmentFacts;
use crate::byte_counts::ByteCounts;
use crate::facts::{
    Block, Checkpoint, EntryLocation, Facts, IdField, Message, Node, PreservedList, PreservedMessages, Role,
    ToolCall, ToolReferences,
};
use crate::flags::EntryFlags;
use crate::id::{Time, Uid, fingerprint};
use crate::index::{CallId, EntryNo, MessageNo, NodeId};
use crate::prompt::{Author, author_of_entry, is_blank, is_typed_command, queued_prompt_text, readable_text};
use crate::usage::{RecordedUsage, Usage};
use blocks::{block_fact, class_of_text, content_hash};
use flags::{FINAL_ERRORS, set_block_flags, set_content_flags, set_envelope_flags, set_user_flags};

/// The maximum number of defects that are listed; further ones are only counted.
const MAX_DEFECTS: usize = 1000;

/// The maximum length of a stored prompt or title, in bytes of the log.
pub(crate) const MAX_TEXT: usize = 1000;

/// Builds [`Facts`] from a log, entry by entry.
///
/// Between two entries it can be stored, and continue later with the next entry.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(from = "StoredBuilder")]
pub struct FactsBuilder {
    facts: Facts,
    entry_kind_counts: Vec<u32>,
    block_kind_counts: [[u32; BlockKind::ALL.len()]; 2],
    messages_by_content: FxHashMap<(Time, u64), MessageNo>,
    /// Results whose call has not been read yet: the node, the block, and the id of the call.
    pending_results: Vec<(NodeId, usize, Box<str>)>,
    /// The blocks of messages seen so far, used to count each once.
    seen_blocks: FxHashSet<u64>,
    /// The last text block of a message, used to detect a longer copy of it.
    last_text: Option<LastText>,
    /// Messages with an id, by the hash of the id.
    #[serde(skip)]
    messages_by_id: HashTable<MessageNo>,
    /// Tool calls, by the hash of the id.
    #[serde(skip)]
    calls_by_id: HashTable<CallId>,
    /// The last uuid: its encoded bytes and its value.
    #[serde(skip)]
    last_uuid: (Vec<u8>, Option<Uid>),
    /// The last usage: its encoded bytes and its value.
    #[serde(skip)]
    last_usage: (Vec<u8>, Option<Usage>),
}

/// The stored form of a [`FactsBuilder`], without what follows from the rest.
#[derive(Deserialize)]
struct StoredBuilder {
    facts: Facts,
    entry_kind_counts: Vec<u32>,
    block_kind_counts: [[u32; BlockKind::ALL.len()]; 2],
    messages_by_content: FxHashMap<(Time, u64), MessageNo>,
    pending_results: Vec<(NodeId, usize, Box<str>)>,
    seen_blocks: FxHashSet<u64>,
    last_text: Option<LastText>,
}

impl From<StoredBuilder> for FactsBuilder {
    fn from(stored: StoredBuilder) -> Self {
        let mut builder = Self {
            facts: stored.facts,
            entry_kind_counts: stored.entry_kind_counts,
            block_kind_counts: stored.block_kind_counts,
            messages_by_content: stored.messages_by_content,
            pending_results: stored.pending_results,
            seen_blocks: stored.seen_blocks,
            last_text: stored.last_text,
            ..Self::default()
        };
        builder.facts.index_uuids();
        let Facts { messages, calls, .. } = &builder.facts;
        let hash_of = |message: MessageNo| messages[message].id.map_or(0, Uid::table_hash);
        builder.messages_by_id.reserve(messages.len(), |&message| hash_of(message));
        for (message, _) in messages.iter_enumerated().filter(|(_, message)| message.id.is_some()) {
            builder.messages_by_id.insert_unique(hash_of(message), message, |&message| hash_of(message));
        }
        let hash_of = |call: CallId| hash_call_id(builder.facts.call_id(&calls[call]));
        builder.calls_by_id.reserve(calls.len(), |&call| hash_of(call));
        for call in calls.keys() {
            builder.calls_by_id.insert_unique(hash_of(call), call, |&call| hash_of(call));
        }
        builder
    }
}

/// A text block that the next one may extend.
#[derive(Debug, Serialize, Deserialize)]
struct LastText {
    message: MessageNo,
    node: NodeId,
    len: usize,
    fingerprint: u64,
}

impl Sink for FactsBuilder {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let ends = entry.raw.ends_with(b"\n") || entry.content != EntryContent::Object;
        self.facts.unterminated_line = (!ends).then_some(entry.line);
        self.facts.byte_order_mark |= entry.offset == 0 && entry.raw.starts_with(b"\xef\xbb\xbf");
        match entry.content {
            EntryContent::Object => self.add_object(entry, line),
            EntryContent::Blank => self.facts.bytes.envelope += entry.raw.len() as u64,
            EntryContent::Value => {
                self.facts.bytes.junk += entry.raw.len() as u64;
                if entry.raw.trim_ascii() == b"null" && self.facts.nodes_before_null.is_none() {
                    self.facts.nodes_before_null = Some(self.n_nodes());
                    self.facts.null_line_no = Some(entry.line);
                }
            }
            EntryContent::Junk => self.facts.bytes.junk += entry.raw.len() as u64,
        }
    }

    fn defect(&mut self, defect: Defect) {
        if self.facts.defects.len() < MAX_DEFECTS {
            self.facts.defects.push(defect);
        } else {
            self.facts.defects_omitted += 1;
        }
    }
}

impl FactsBuilder {
    /// Creates a builder with capacity for a log of `bytes` bytes.
    pub fn for_size(bytes: u64) -> Self {
        // An entry has about 2,500 bytes on average; the tables grow if entries are shorter.
        let n = usize::try_from(bytes / 2500).unwrap_or(0).min(1 << 20);
        let mut builder = Self::default();
        let facts = &mut builder.facts;
        facts.nodes.reserve(n);
        facts.locations.reserve(n);
        facts.messages.reserve(n);
        facts.blocks.reserve(n + n / 2);
        facts.block_starts.reserve(n);
        facts.calls.reserve(n / 2);
        facts.call_sites.reserve(n / 2);
        facts.result_sites.reserve(n / 2);
        facts.call_ids.reserve(16 * n);
        facts.by_uid.reserve(n, |_| 0);
        builder.messages_by_id.reserve(n / 2, |_| 0);
        builder.messages_by_content.reserve(n / 2);
        builder.calls_by_id.reserve(n / 2, |_| 0);
        builder.seen_blocks.reserve(n / 2);
        builder
    }

    /// Returns the facts about the entries read so far. Results that precede their calls are not paired yet.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    fn n_nodes(&self) -> u32 {
        u32::try_from(self.facts.nodes.len()).unwrap_or(u32::MAX)
    }

    fn add_object(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        let number = self.facts.locations.push(EntryLocation {
            offset: entry.offset,
            len: u32::try_from(raw.len()).unwrap_or(u32::MAX),
            line: entry.line,
        });
        self.count_type(line, raw);
        self.facts.bytes.add(ByteCounts::of_entry(line, raw));
        self.count_names(line, raw);
        // A title or checkpoint is metadata even if it has a uuid.
        let metadata = matches!(
            line.kind,
            Some(
                EntryKind::CustomTitle
                    | EntryKind::AiTitle
                    | EntryKind::Summary
                    | EntryKind::LastPrompt
                    | EntryKind::ContinuedIn
            )
        );
        if metadata {
            self.add_metadata(line, raw);
        } else if let Some(uuid) = line.string(Key::Uuid, raw).filter(|uuid| !uuid.is_empty()) {
            let usual = Uid::from_canonical_uuid(uuid);
            let uid = usual.unwrap_or_else(|| Uid::new(uuid));
            self.add_tree_entry(entry, number, line, uid, usual.is_some());
        } else if line.kind.is_some_and(EntryKind::is_in_tree) {
            // It cannot have children, but it is content: it gets an id that no entry can name.
            let detail = format!("{} entry without a uuid", line.kind.map_or("", EntryKind::name));
            let uid = Uid::new(format!("entry {}\0", entry.number).as_bytes());
            self.add_tree_entry(entry, number, line, uid, false);
            self.defect(Defect { line: entry.line, kind: DefectKind::Incomplete, detail });
        }
    }

    fn count_type(&mut self, line: &Line, raw: &[u8]) {
        match line.kind {
            Some(kind) => {
                self.entry_kind_counts.resize(EntryKind::ALL.len(), 0);
                self.entry_kind_counts[kind as usize] += 1;
            }
            None => {
                let name = line.string(Key::Type, raw).map_or("(none)".into(), unescape);
                count_bounded(&mut self.facts.types, &name);
            }
        }
        for span in &line.unknown {
            count_bounded(&mut self.facts.unknown_fields, &unescape(span.bytes_in(raw)));
        }
    }

    fn count_names(&mut self, line: &Line, raw: &[u8]) {
        let facts = &mut self.facts;
        for (key, names) in [
            (Key::Version, &mut facts.versions),
            (Key::SessionId, &mut facts.session_ids),
            (Key::Cwd, &mut facts.cwds),
            (Key::GitBranch, &mut facts.git_branches),
            (Key::Entrypoint, &mut facts.entrypoints),
        ] {
            if let Some(name) = line.string(key, raw) {
                names.count(name);
            }
        }
        if line.kind == Some(EntryKind::System)
            && let Some(subtype) = line.string(Key::Subtype, raw)
        {
            facts.subtypes.count(subtype);
        }
    }

    /// Adds an entry without a uuid: a title, a checkpoint or other metadata.
    fn add_metadata(&mut self, line: &Line, raw: &[u8]) {
        let text = |key| line.string(key, raw).map(clip_text);
        let nodes_before = self.n_nodes();
        let facts = &mut self.facts;
        match line.kind {
            Some(EntryKind::CustomTitle) => facts.custom_title = text(Key::CustomTitle),
            Some(EntryKind::AiTitle) => facts.ai_title = text(Key::AiTitle),
            Some(EntryKind::Summary) => {
                if let (Some(leaf), Some(summary)) = (line.string(Key::LeafUuid, raw), text(Key::Summary)) {
                    facts.summaries.push((Uid::new(leaf), summary));
                }
            }
            Some(EntryKind::LastPrompt) => facts.checkpoints.push(Checkpoint {
                leaf: id_field(line, Key::LeafUuid, raw),
                explicit: line.flag(Key::Explicit, raw),
                rewound: line.flag(Key::Rewound, raw),
                cut: id_field(line, Key::CutUuid, raw),
                nodes_before,
            }),
            Some(EntryKind::ContinuedIn) => facts.continued_in = text(Key::ContinuedInSessionId),
            _ => {}
        }
    }

    fn add_tree_entry(&mut self, entry: &Entry<'_>, number: EntryNo, line: &Line, uid: Uid, usual: bool) {
        let raw = entry.raw;
        let index = self.facts.nodes.next_key();
        let first_block = u32::try_from(self.facts.blocks.len()).unwrap_or(u32::MAX);
        self.facts.block_starts.push(first_block);
        let mut node = self.new_node(line, raw, number, uid);
        set_envelope_flags(entry, line, &mut node.flags);
        node.flags.set_if(usual, EntryFlags::CANONICAL_UUID);
        if node.flags.is_sidechain()
            && let Some(agent) = line.string(Key::AgentId, raw)
        {
            self.facts.agent_ids.count(agent);
        }
        match node.role {
            Role::User => self.add_user_entry(entry, line, index, &mut node),
            Role::Assistant => self.add_assistant_entry(entry, line, index, &mut node),
            Role::System => self.add_system_entry(line, raw, index, &mut node),
            Role::Attachment => self.add_attachment_entry(line, raw, index, &mut node),
            Role::Progress => {
                // In every version that writes these, `type` is the first key of `data`.
                let data = line.field(Key::Data).bytes_in(raw);
                let of_tool = TOOL_PROGRESS.iter().any(|start| data.starts_with(start.as_bytes()));
                node.flags.set_if(of_tool, EntryFlags::TOOL_PROGRESS);
            }
            Role::Other => {}
        }
        self.add_references(line, raw, index, &node);
        self.facts.nodes.push(node);
        self.index_uuid(entry, index, uid);
    }

    /// Creates the node of an entry, without flags and message.
    fn new_node(&mut self, line: &Line, raw: &[u8], number: EntryNo, uid: Uid) -> Node {
        let time = line.string(Key::Timestamp, raw).and_then(Time::parse);
        if let Some(time) = time {
            let (first, last) = self.facts.time_span.unwrap_or((time, time));
            self.facts.time_span = Some((first.min(time), last.max(time)));
        }
        let parent = line.string(Key::ParentUuid, raw).and_then(|parent| self.parent_id(parent));
        if let Some(uuid) = line.string(Key::Uuid, raw) {
            self.last_uuid.0.clear();
            self.last_uuid.0.extend_from_slice(uuid);
            self.last_uuid.1 = Some(uid);
        }
        Node {
            uid,
            parent,
            time,
            entry: number,
            message: None,
            flags: EntryFlags::default(),
            model: None,
            role: match line.kind {
                Some(EntryKind::User) => Role::User,
                Some(EntryKind::Assistant) => Role::Assistant,
                Some(EntryKind::System) => Role::System,
                Some(EntryKind::Attachment) => Role::Attachment,
                Some(EntryKind::Progress) => Role::Progress,
                _ => Role::Other,
            },
        }
    }

    fn add_attachment_entry(&mut self, line: &Line, raw: &[u8], index: NodeId, node: &mut Node) {
        let attachment = Json::new(line.field(Key::Attachment).bytes_in(raw));
        let (attached, flags) = AttachmentFacts::read(line, raw);
        node.flags.set(flags);
        self.facts.attachments.insert(index, attached);
        if flags.is_queued_prompt() {
            self.add_queued_prompt(attachment, index, node);
        }
        if let Some(id) = attachment.get("toolUseID").and_then(Json::raw_string)
            && let Some(call) = self.find_call(&clip_call_id(id))
        {
            self.facts.attachment_calls.insert(index, call);
        }
    }

    /// Adds the references of an entry to others, except for its parent.
    fn add_references(&mut self, line: &Line, raw: &[u8], index: NodeId, node: &Node) {
        if self.facts.forked_from.is_none() && !line.field(Key::ForkedFrom).is_empty() {
            let from = Json::new(line.field(Key::ForkedFrom).bytes_in(raw));
            self.facts.forked_from =
                from.get("sessionId").and_then(Json::as_str).map(std::borrow::Cow::into_owned);
        }
        if !line.field(Key::RetractedMessageUuids).is_empty() {
            let uuids = Json::new(line.field(Key::RetractedMessageUuids).bytes_in(raw));
            let uuids = uuids.items().filter_map(Json::raw_string).map(Uid::new).collect();
            self.facts.retracted.insert(index, uuids);
        }
        if let Some(source) = line.string(Key::SourceToolAssistantUuid, raw).map(Uid::new)
            && Some(source) != node.parent
        {
            self.facts.source_assistants.insert(index, source);
        }
    }

    /// Makes a node findable by its uuid, unless an earlier one has the same.
    fn index_uuid(&mut self, entry: &Entry<'_>, index: NodeId, uid: Uid) {
        let Facts { nodes, by_uid, .. } = &mut self.facts;
        let id_of = |&node: &NodeId| nodes[node].uid;
        match by_uid.entry(uid.table_hash(), |node| id_of(node) == uid, |node| id_of(node).table_hash()) {
            Slot::Vacant(slot) => {
                slot.insert(index);
            }
            Slot::Occupied(first) => {
                let first = *first.get();
                self.facts.duplicates.insert(first, index);
                let detail =
                    "the uuid also occurs on an earlier line; clients use the later entry".to_owned();
                self.defect(Defect { line: entry.line, kind: DefectKind::DuplicateUuid, detail });
            }
        }
    }

    /// Returns the id of a parent. It is usually the previous entry, whose id is already parsed.
    fn parent_id(&self, parent: &[u8]) -> Option<Uid> {
        if *parent == *self.last_uuid.0 { self.last_uuid.1 } else { non_empty_uid(parent) }
    }

    fn report_no_message(&mut self, entry: &Entry<'_>, what: &str) {
        let detail = format!("{what} entry without a message");
        self.defect(Defect { line: entry.line, kind: DefectKind::Incomplete, detail });
    }

    fn add_user_entry(&mut self, entry: &Entry<'_>, line: &Line, index: NodeId, node: &mut Node) {
        let raw = entry.raw;
        let Some(message) = line.message else {
            node.flags.set(EntryFlags::NO_MESSAGE);
            return self.report_no_message(entry, "user");
        };
        let content = message.content.bytes_in(raw);
        set_content_flags(content, line, &mut node.flags);
        set_block_flags(&line.blocks, raw, &mut node.flags);
        if let Some(text) = message.content.string_in(raw) {
            node.flags.set(if is_blank(text) { EntryFlags::BLANK } else { EntryFlags::TEXT });
        }

        let replayed = self.assign_user_message(content, index, node);

        self.add_string_content(message.content, raw);
        for block in &line.blocks {
            let at = self.facts.blocks.len();
            self.facts.blocks.push(block_fact(block, raw));
            if block.kind == Some(BlockKind::ToolResult)
                && let Some(id) = block.id.string_in(raw)
            {
                self.add_result(index, at, id, line, raw);
            }
        }
        if !replayed {
            if message.content.string_in(raw).is_some() {
                self.block_kind_counts[0][BlockKind::Text as usize] += 1;
            }
            for block in &line.blocks {
                self.count_block(false, block, raw);
            }
        }

        node.flags.set_if(line.flag(Key::IsCompactSummary, raw), EntryFlags::SUMMARY);
        set_user_flags(line, raw, &mut node.flags);
        if !node.flags.has_result() {
            self.add_author(line, raw, index, node);
        }
    }

    /// Sets the flags that depend on the author of a user entry, and records its text if it is the first.
    fn add_author(&mut self, line: &Line, raw: &[u8], index: NodeId, node: &mut Node) {
        let (author, words) = author_of_entry(line, raw);
        match author {
            Author::Summary => node.flags.set(EntryFlags::SUMMARY),
            Author::Command => {
                node.flags.set(EntryFlags::COMMAND);
                node.flags.set_if(is_typed_command(words), EntryFlags::TYPED_COMMAND);
            }
            Author::Interrupt => node.flags.set(EntryFlags::INTERRUPT),
            Author::Human | Author::TeamLead | Author::Notice | Author::Nobody => {}
        }
        let flags = node.flags;
        if flags.is_sidechain() && node.parent.is_none() {
            self.facts.sidechain_roots.push((index, fingerprint(&[words])));
        }
        let slot = match author {
            Author::Human if flags.is_sidechain() => Some(&mut self.facts.first_task),
            Author::Command if !flags.is_sidechain() => Some(&mut self.facts.first_command),
            _ => None,
        };
        if let Some(slot) = slot.filter(|slot| slot.is_none() && !flags.is_meta()) {
            *slot = Some(readable_text(&clip_text(words)).into_owned()).filter(|words| !words.is_empty());
        }
        let asked = match author {
            Author::Human => is_from_human(line, raw),
            // The lead of a team gives tasks in the place of a person.
            Author::TeamLead => true,
            _ => false,
        };
        if asked && !flags.is_meta() && !flags.is_summary() && !flags.is_sidechain() {
            node.flags.set(EntryFlags::HUMAN);
            self.record_first_prompt(words);
        }
    }

    /// Stores the text of the first prompt that has any.
    fn record_first_prompt(&mut self, words: &[u8]) {
        self.facts.has_wordless_prompt |= words.is_empty();
        if self.facts.first_prompt.is_none() {
            let words = readable_text(&clip_text(words)).into_owned();
            self.facts.first_prompt = Some(words).filter(|words| !words.is_empty());
        }
    }

    /// Assigns a message to a user entry; returns whether it is a copy of an earlier one.
    fn assign_user_message(&mut self, content: &[u8], index: NodeId, node: &mut Node) -> bool {
        let copied = node.time.and_then(|time| {
            // The ends of long content identify it as well as the whole and are cheap to read.
            let ends = content.len().min(256);
            let side = [u8::from(node.flags.is_sidechain())];
            let print = fingerprint(&[
                &side,
                &content[..ends],
                &content[content.len() - ends..],
                &content.len().to_le_bytes(),
            ]);
            let next = self.facts.messages.next_key();
            let mut seen = *self.messages_by_content.entry((time, print)).or_insert(next);
            if seen != next && self.is_descendant(node.parent, seen) {
                // A separate message, which may have copies too.
                let parent = node.parent.map_or([0; 16], Uid::to_bytes);
                let print = fingerprint(&[&print.to_le_bytes(), &parent]);
                seen = *self.messages_by_content.entry((time, print)).or_insert(next);
            }
            (seen != next).then_some(seen)
        });
        node.flags.set_if(copied.is_some(), EntryFlags::REPLAY);
        let message = copied.unwrap_or_else(|| {
            self.facts.messages.push(Message {
                id: None,
                first_node: index,
                assistant: false,
                sidechain: false,
                model: None,
                usage: None,
            })
        });
        node.message = Some(message);
        copied.is_some()
    }

    /// Returns whether an entry with this parent is a near descendant of the first entry of a message:
    /// the same text typed twice at the same moment is not a copy.
    fn is_descendant(&self, mut parent: Option<Uid>, message: MessageNo) -> bool {
        const MAX_STEPS: usize = 64;
        let first = self.facts.messages[message].first_node;
        for _ in 0..MAX_STEPS {
            match parent.and_then(|parent| self.facts.node_of(parent)) {
                Some(node) if node == first => return true,
                Some(node) if node > first => parent = self.facts.nodes[node].parent,
                _ => return false,
            }
        }
        false
    }

    /// Adds a command that was queued while the model was busy. Only text typed by a person is a message.
    fn add_queued_prompt(&mut self, attachment: Json<'_>, index: NodeId, node: &mut Node) {
        let Some(words) = queued_prompt_text(attachment) else { return };
        let Some(prompt) = attachment.get("prompt") else { return };
        self.assign_user_message(prompt.raw(), index, node);
        if !node.flags.is_sidechain() {
            node.flags.set(EntryFlags::TYPED);
            self.record_first_prompt(words);
        }
    }

    fn add_assistant_entry(&mut self, entry: &Entry<'_>, line: &Line, index: NodeId, node: &mut Node) {
        let raw = entry.raw;
        let Some(message) = line.message else {
            node.flags.set(EntryFlags::NO_MESSAGE);
            return self.report_no_message(entry, "assistant");
        };
        set_content_flags(message.content.bytes_in(raw), line, &mut node.flags);
        node.flags.set_if(line.flag(Key::IsApiErrorMessage, raw), EntryFlags::API_ERROR);
        set_block_flags(&line.blocks, raw, &mut node.flags);
        if let Some(text) = message.content.string_in(raw) {
            node.flags.set(if is_blank(text) { EntryFlags::BLANK } else { EntryFlags::TEXT });
        }
        let model = message.model.string_in(raw).map(|model| self.facts.models.count(model));
        node.flags.set_if(model.is_none(), EntryFlags::NO_MODEL);
        node.model = model;
        let refused = message.stop_reason.bytes_in(raw) == br#""refusal""#;
        node.flags.set_if(refused, EntryFlags::REFUSAL);
        let last_word: Option<&[u8]> = line.string(Key::ApiError, raw);
        let last_word = last_word.is_some_and(|error| FINAL_ERRORS.iter().any(|e| e.as_bytes() == error));
        node.flags.set_if(refused || last_word, EntryFlags::FINAL_ERROR);
        node.flags.set_if(
            matches!(line.field(Key::RequestId).bytes_in(raw), b"" | b"null"),
            EntryFlags::NO_REQUEST_ID,
        );
        if message.model.bytes_in(raw) == b"null" {
            self.facts.models.count(b"None");
        }
        node.flags.set_if(message.model.bytes_in(raw) == br#""<synthetic>""#, EntryFlags::SYNTHETIC);
        self.facts.stop_reasons.count(message.stop_reason.string_in(raw).unwrap_or(b"None"));

        let id = message.id.string_in(raw).map(Uid::new);
        node.flags.set_if(id.is_none(), EntryFlags::NO_MESSAGE_ID);
        let number = self.find_or_add_answer(Message {
            id,
            first_node: index,
            assistant: true,
            sidechain: node.flags.is_sidechain(),
            model,
            usage: None,
        });
        node.message = Some(number);
        let is_final = message.stop_reason.string_in(raw).is_some();
        self.record_usage(number, message.usage.bytes_in(raw), is_final);

        let mut new_blocks = 0;
        for block in &line.blocks {
            if self.is_new_block(index, number, block, raw) {
                new_blocks += 1;
                self.count_block(true, block, raw);
            }
            let mut fact = block_fact(block, raw);
            if block.kind == Some(BlockKind::ToolUse) {
                fact.call = self.add_call(index, block, raw);
            }
            self.facts.blocks.push(fact);
        }
        self.add_string_content(message.content, raw);
        if message.content.string_in(raw).is_some() {
            self.block_kind_counts[1][BlockKind::Text as usize] += 1;
        }
        let repeats = new_blocks == 0 && !line.blocks.is_empty();
        node.flags.set_if(repeats, EntryFlags::REPLAY);
    }

    /// Sets the usage of a message, if this row counts instead of those before it.
    fn record_usage(&mut self, message: MessageNo, encoded: &[u8], is_final: bool) {
        // Entries of one message usually repeat its usage byte for byte.
        if *encoded != *self.last_usage.0 {
            self.last_usage.0.clear();
            self.last_usage.0.extend_from_slice(encoded);
            self.last_usage.1 = Usage::parse(Json::new(encoded));
        }
        if let Some(usage) = self.last_usage.1 {
            let Facts { messages, usages, .. } = &mut self.facts;
            let recorded = RecordedUsage { usage, is_final };
            match &mut messages[message].usage {
                Some(known) if recorded.replaces(&usages[*known]) => usages[*known] = recorded,
                Some(_) => {}
                none => *none = Some(usages.push(recorded)),
            }
        }
    }

    fn add_system_entry(&mut self, line: &Line, raw: &[u8], index: NodeId, node: &mut Node) {
        match line.string(Key::Subtype, raw) {
            Some(b"compact_boundary") => node.flags.set(EntryFlags::BOUNDARY),
            Some(b"file_snapshot") => return node.flags.set(EntryFlags::SNAPSHOT),
            Some(b"local_command") => {
                node.flags.set_if(line.flag(Key::IsDisplayOnly, raw), EntryFlags::DISPLAY_ONLY);
                return node.flags.set(EntryFlags::LOCAL_COMMAND);
            }
            Some(b"model_refusal_fallback") => {
                let nameless = line.string(Key::FallbackModel, raw).is_none();
                node.flags.set_if(nameless, EntryFlags::NO_FALLBACK_MODEL);
                return node.flags.set(EntryFlags::FALLBACK);
            }
            _ => return,
        }
        if let Some(parent) = line.string(Key::LogicalParentUuid, raw) {
            self.facts.logical_parents.insert(index, Uid::new(parent));
        }
        let metadata = Json::new(line.field(Key::CompactMetadata).bytes_in(raw));
        let uid = |json: Option<Json<'_>>| json.and_then(Json::raw_string).map(Uid::new);
        let object = |name| metadata.get(name).filter(|p| p.is_object());
        let listed = object("preservedMessages").map(|list| PreservedList {
            anchor: uid(list.get("anchorUuid")),
            uuids: list.get("uuids").map_or(Vec::new(), |u| u.items().map(|u| uid(Some(u))).collect()),
        });
        let segment = object("preservedSegment").map(|ends| PreservedList {
            anchor: uid(ends.get("anchorUuid")),
            uuids: vec![uid(ends.get("headUuid")), uid(ends.get("tailUuid"))],
        });
        if listed.is_some() || segment.is_some() {
            self.facts.preserved.insert(index, PreservedMessages { listed, segment });
        }
    }

    /// Returns the message of an assistant entry: the one with the same id, or a new one.
    fn find_or_add_answer(&mut self, message: Message) -> MessageNo {
        let messages = &mut self.facts.messages;
        let Some(id) = message.id else { return messages.push(message) };
        let same = |&known: &MessageNo| {
            messages[known].id == message.id && messages[known].sidechain == message.sidechain
        };
        if let Some(&known) = self.messages_by_id.find(id.table_hash(), same) {
            return known;
        }
        let new = messages.push(message);
        let hash = |&known: &MessageNo| messages[known].id.map_or(0, Uid::table_hash);
        self.messages_by_id.insert_unique(id.table_hash(), new, hash);
        new
    }

    fn count_block(&mut self, assistant: bool, block: &BlockSpans, raw: &[u8]) {
        match block.kind {
            Some(kind) => self.block_kind_counts[usize::from(assistant)][kind as usize] += 1,
            None => {
                let role = if assistant { "assistant" } else { "user" };
                let name = block.kind_name.string_in(raw).map_or("(none)".into(), unescape);
                count_bounded(&mut self.facts.block_counts, &format!("{role}:{name}"));
            }
        }
    }

    /// Returns whether a block is new in its message. A copy of a block, or a text that grew while it was
    /// streamed, is not.
    fn is_new_block(&mut self, index: NodeId, message: MessageNo, block: &BlockSpans, raw: &[u8]) -> bool {
        let kind = block.kind_name.bytes_in(raw);
        let words = block.text.bytes_in(raw);
        let message_key = message.get().to_le_bytes();
        let print = match block.kind {
            Some(BlockKind::ToolUse) if !block.id.is_empty() => {
                fingerprint(&[&message_key, kind, block.id.bytes_in(raw)])
            }
            // A thinking block without text is identified by its signature.
            Some(BlockKind::Thinking) => {
                fingerprint(&[&message_key, kind, words, block.signature.bytes_in(raw)])
            }
            _ => fingerprint(&[&message_key, kind, block.whole.bytes_in(raw)]),
        };
        let new = self.seen_blocks.insert(print);
        if !new || block.kind != Some(BlockKind::Text) {
            return new;
        }
        let inner = block.text.string_in(raw).unwrap_or_default();
        let now = LastText { message, node: index, len: inner.len(), fingerprint: fingerprint(&[inner]) };
        let grown = self.last_text.replace(now).is_some_and(|last| {
            // Two texts in one entry are distinct.
            let longer = last.node != index && last.len > 0 && last.len < inner.len();
            last.message == message && longer && fingerprint(&[&inner[..last.len]]) == last.fingerprint
        });
        !grown
    }

    /// Adds string content as a single text block, the form in which it is sent.
    fn add_string_content(&mut self, content: Span, raw: &[u8]) {
        if let Some(text) = content.string_in(raw) {
            let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
            self.facts.blocks.push(Block {
                call: None,
                len,
                media_bytes: 0,
                fingerprint: content_hash(&[text]),
                has_string_content: false,
                tool_references: ToolReferences::default(),
                has_caller: false,
                class: class_of_text(Some(text)),
            });
        }
    }

    /// Adds a tool call, if it has an id.
    fn add_call(&mut self, index: NodeId, block: &BlockSpans, raw: &[u8]) -> Option<CallId> {
        let id = clip_call_id(block.id.string_in(raw)?);
        let next = self.facts.calls.next_key();
        let known = self.find_call(&id);
        self.facts.call_sites.push((index, known.unwrap_or(next)));
        if known.is_some() {
            return known;
        }
        let name = block.name.string_in(raw).unwrap_or_default();
        let prompt = is_agent_tool(name)
            .then(|| Json::new(block.input.bytes_in(raw)).get("prompt")?.raw_string())
            .flatten()
            .map(|prompt| fingerprint(&[prompt]));
        let start = u32::try_from(self.facts.call_ids.len()).unwrap_or(u32::MAX);
        let len = u16::try_from(id.len()).unwrap_or(0);
        self.facts.call_ids.push_str(&id);
        self.facts.calls.push(ToolCall {
            id: (start, len),
            tool: self.facts.tools.count(name),
            node: index,
            n_results: 0,
            first_result: None,
            prompt_hash: prompt,
            agent: None,
        });
        let facts = &self.facts;
        let hash = |&call: &CallId| hash_call_id(facts.call_id(&facts.calls[call]));
        self.calls_by_id.insert_unique(hash_call_id(&id), next, hash);
        Some(next)
    }

    fn find_call(&self, id: &str) -> Option<CallId> {
        let same = |&call: &CallId| self.facts.call_id(&self.facts.calls[call]) == id;
        self.calls_by_id.find(hash_call_id(id), same).copied()
    }

    /// Adds a tool result to its call, or to the pending results if the call is not known yet.
    fn add_result(&mut self, index: NodeId, block: usize, id: &[u8], line: &Line, raw: &[u8]) {
        let id = clip_call_id(id);
        match self.find_call(&id) {
            Some(call) => {
                self.facts.blocks[block].call = Some(call);
                let agent = self.started_agent(call, line, raw);
                self.facts.record_result(call, index, agent);
            }
            None => self.pending_results.push((index, block, id.into())),
        }
    }

    /// Finds the subagent named in the result of a call.
    fn started_agent(&self, call: CallId, line: &Line, raw: &[u8]) -> Option<Box<str>> {
        self.facts.calls[call].prompt_hash?;
        let agent = Json::new(line.field(Key::ToolUseResult).bytes_in(raw)).get("agentId")?;
        Some(agent.as_str()?.into())
    }

    /// Returns the facts of all entries.
    pub fn finish(mut self, lines: u32, bad_lines: u32) -> Facts {
        for (node, block, id) in std::mem::take(&mut self.pending_results) {
            match self.find_call(&id) {
                Some(call) => {
                    self.facts.blocks[block].call = Some(call);
                    self.facts.record_result(call, node, None);
                }
                None => self.facts.orphan_results.push((id, node)),
            }
        }
        // A result that precedes its call in the log was added late.
        self.facts.result_sites.sort_by_key(|&(node, _)| node);
        let mut facts = self.facts;
        for (kind, n) in EntryKind::ALL.iter().zip(self.entry_kind_counts) {
            if n > 0 {
                *facts.types.entry(kind.name().to_owned()).or_default() += u64::from(n);
            }
        }
        for (role, counts) in ["user", "assistant"].iter().zip(self.block_kind_counts) {
            for (kind, n) in BlockKind::ALL.iter().zip(counts) {
                if n > 0 {
                    *facts.block_counts.entry(format!("{role}:{}", kind.name())).or_default() += u64::from(n);
                }
            }
        }
        facts.lines = lines;
        facts.bad_lines = bad_lines;
        facts
    }
}

/// Returns an id as text, truncated if it is longer than any client writes.
fn clip_call_id(inner: &[u8]) -> std::borrow::Cow<'_, str> {
    unescape(&inner[..inner.len().min(MAX_TEXT)])
}

fn hash_call_id(id: &str) -> u64 {
    fingerprint(&[id.as_bytes()])
}

/// Converts an id; an empty one means none, like `null`.
fn non_empty_uid(text: &[u8]) -> Option<Uid> {
    (!text.is_empty()).then(|| Uid::new(text))
}

fn id_field(line: &Line, key: Key, raw: &[u8]) -> IdField {
    match line.field(key).bytes_in(raw) {
        b"" => IdField::Absent,
        b"null" => IdField::Null,
        _ => line.string(key, raw).and_then(non_empty_uid).map_or(IdField::Invalid, IdField::Id),
    }
}

/// The first bytes of `data` in the progress of a running command.
const TOOL_PROGRESS: [&str; 3] =
    [r#"{"type":"bash_progress""#, r#"{"type":"powershell_progress""#, r#"{"type":"mcp_progress""#];

/// Returns whether a tool starts a subagent; the names are in the order in which clients used them.
fn is_agent_tool(tool: &[u8]) -> bool {
    matches!(tool, b"dispatch_agent" | b"Task" | b"Agent")
}

/// Returns whether a person wrote a prompt. Newer clients record its origin.
fn is_from_human(line: &Line, raw: &[u8]) -> bool {
    let origin = line.field(Key::Origin);
    if !origin.is_empty() {
        let kind = Json::new(origin.bytes_in(raw)).get("kind");
        return kind.and_then(Json::raw_string).is_none_or(|kind| kind == b"human");
    }
    line.string(Key::PromptSource, raw) != Some(b"system")
}

/// Returns the beginning of a text, cut at a character or escape boundary.
pub(crate) fn clip_text(inner: &[u8]) -> String {
    let mut end = inner.len().min(MAX_TEXT);
    if end < inner.len() {
        while end > 0 && inner[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        // An escape is at most a pair of `\uXXXX`; the cut must not be inside one.
        if let Some(slash) = inner[end.saturating_sub(12)..end].iter().position(|&b| b == b'\\') {
            end = end.saturating_sub(12) + slash;
        }
    }
    unescape(&inner[..end]).into_owned()
}

/// Counts a name from the log. Both the length and the number of names are bounded.
fn count_bounded(counts: &mut BTreeMap<String, u64>, name: &str) {
    let name = clip_name(name);
    let room = counts.len() < 1000 || counts.contains_key(&name);
    *counts.entry(if room { name } else { "(other)".to_owned() }).or_default() += 1;
}

/// Truncates a name from the log, which could have any length.
fn clip_name(name: &str) -> String {
    name.chars().take(100).collect()
}
