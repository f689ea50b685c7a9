//! The facts about each entry after one pass over a log, without its text.
//!
//! A record contains the location of its entry, from which the text can be read. So the facts of a
//! session of a gigabyte fit in tens of megabytes.

use std::collections::BTreeMap;
use std::ops::Range;

use hashbrown::HashTable;
use rethread_log::Defect;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::attachment::AttachmentFacts;
use crate::byte_counts::ByteCounts;
use crate::flags::EntryFlags;
use crate::id::{Time, Uid};
use crate::index::{CallId, EntryNo, MessageNo, NodeId, Table, UsageId};
use crate::name_counts::{NameCounts, NameId};
use crate::usage::{RecordedUsage, Usage};

/// The role of an entry in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A user entry: a prompt, a tool result, a command …
    User,
    /// A part of a message of the model.
    Assistant,
    /// A `system` entry, written by the client.
    System,
    /// Context attached by the client.
    Attachment,
    /// The progress of a tool or hook.
    Progress,
    /// An unknown type, or one that should not be in the tree.
    Other,
}

/// One entry that has a uuid.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Node {
    /// Its own id.
    pub uid: Uid,
    /// The id of its parent.
    pub parent: Option<Uid>,
    /// The time at which it was written.
    pub time: Option<Time>,
    /// Its entry number.
    pub entry: EntryNo,
    /// The message that it belongs to.
    pub(crate) message: Option<MessageNo>,
    /// Properties of the entry.
    pub flags: EntryFlags,
    /// The model, one of [`Facts::models`].
    pub(crate) model: Option<NameId>,
    /// The role of the entry.
    pub role: Role,
}

// There is one node per entry, and hundreds of thousands of entries in a large log.
const _: () = assert!(size_of::<Node>() == 64);

impl Node {
    /// Returns the message that the entry belongs to.
    pub fn message(&self) -> Option<MessageNo> {
        self.message
    }

    /// Returns whether this is a user or assistant entry.
    pub fn is_conversation(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant)
    }

    /// Returns whether this is an answer of the model without a `message.id`.
    pub fn lacks_message_id(&self) -> bool {
        self.role == Role::Assistant && self.flags.lacks_message_id() && !self.flags.is_synthetic()
    }
}

/// The location of an entry in its file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct EntryLocation {
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u32,
    /// The line, from 1.
    pub line: u32,
}

/// A message: a user entry, or all entries of one `message.id`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Message {
    /// `message.id`.
    pub id: Option<Uid>,
    /// Its first entry in the file.
    pub first_node: NodeId,
    /// Set for a message of the model.
    pub assistant: bool,
    /// Set for a message of a subagent's model.
    pub(crate) sidechain: bool,
    /// The model, one of [`Facts::models`].
    pub model: Option<NameId>,
    /// Its usage.
    pub(crate) usage: Option<UsageId>,
}

/// The class of a content block, as far as the rules of clients distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BlockClass {
    /// Text that is not blank.
    Text,
    /// White space.
    Blank,
    /// Empty text.
    Empty,
    /// A text block without `text`.
    NoText,
    /// The text `(no content)`, which clients insert where there is none.
    NoContent,
    /// The text `[Empty text removed]`, another placeholder.
    EmptyRemoved,
    /// The text `Tool loaded.`, another placeholder.
    ToolLoaded,
    /// Thinking with its signature.
    Thinking,
    /// Thinking without a signature.
    UnsignedThinking,
    /// Encrypted thinking, which only the API can read.
    RedactedThinking,
    /// A tool call.
    ToolCall,
    /// A tool result.
    ToolResult,
    /// An image or document.
    Media,
    /// A tool call that is executed by the API.
    ServerCall,
    /// The result of such a call.
    ServerResult,
    /// A marker that another model answered.
    Fallback,
    /// Any other type of block.
    Other,
    /// A value without a type.
    Untyped,
    /// A string instead of a block.
    BareString,
    /// `null` instead of a block.
    Null,
}

impl BlockClass {
    /// Returns whether this is thinking of any kind.
    pub fn is_thinking(self) -> bool {
        matches!(self, Self::Thinking | Self::UnsignedThinking | Self::RedactedThinking)
    }

    /// Returns whether this is blank text.
    pub fn is_blank(self) -> bool {
        matches!(self, Self::Blank | Self::Empty | Self::NoText)
    }

    /// Returns whether this is a text block.
    pub fn is_text(self) -> bool {
        self.is_blank()
            || matches!(self, Self::Text | Self::NoContent | Self::EmptyRemoved | Self::ToolLoaded)
    }
}

/// The references of a tool result to tools that were searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct ToolReferences {
    /// There is a reference.
    pub(crate) any: bool,
    /// There is a reference to a tool of the newest client.
    pub(crate) known: bool,
    /// There is a reference to a tool that the newest client offers to older models only.
    pub(crate) task_tools: bool,
}

/// A content block of an entry. String content counts as one text block.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Block {
    /// The call that it makes or answers.
    pub(crate) call: Option<CallId>,
    /// Its length in the file.
    pub len: u32,
    /// The part of that length taken by images and documents.
    pub media_bytes: u32,
    /// A hash of its content: of a text, of the name and input of a call, of the content of a result. For a
    /// call executed by the API and its result, a hash of the id, which pairs them.
    pub(crate) fingerprint: u32,
    /// Set for a result whose content is a string.
    pub(crate) has_string_content: bool,
    /// The references of a result to tools.
    pub(crate) tool_references: ToolReferences,
    /// Set for a call with a `caller`.
    pub(crate) has_caller: bool,
    /// The class of the block.
    pub class: BlockClass,
}

impl Block {
    /// Returns the call that it makes or answers.
    pub fn call(&self) -> Option<CallId> {
        self.call
    }

    /// Returns the hash of the id that a call executed by the API and its result share.
    pub fn server_call_hash(&self) -> Option<u32> {
        let of_server = matches!(self.class, BlockClass::ServerCall | BlockClass::ServerResult);
        of_server.then_some(self.fingerprint)
    }
}

/// A tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolCall {
    /// The position of its id in [`Facts::call_ids`].
    pub(crate) id: (u32, u16),
    /// The tool, one of [`Facts::tools`].
    pub tool: NameId,
    /// The entry that contains the call.
    pub node: NodeId,
    /// The number of its results.
    pub n_results: u32,
    /// The entry that contains its first result.
    pub(crate) first_result: Option<NodeId>,
    /// The hash of the subagent's prompt, if the call starts one.
    pub(crate) prompt_hash: Option<u64>,
    /// The subagent that it started, if its result names one.
    pub agent: Option<Box<str>>,
}

impl ToolCall {
    /// Returns the entry that contains its first result.
    pub fn first_result(&self) -> Option<NodeId> {
        self.first_result
    }
}

/// The value of a field for an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdField {
    /// There is no such field.
    Absent,
    /// The value is `null`.
    Null,
    /// The value is empty or not a string.
    Invalid,
    /// The value is an id.
    Id(Uid),
}

impl IdField {
    /// Returns the id.
    pub fn uid(self) -> Option<Uid> {
        match self {
            Self::Id(uid) => Some(uid),
            Self::Absent | Self::Null | Self::Invalid => None,
        }
    }
}

/// A `last-prompt` entry, in which the client records the current end of the conversation.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Checkpoint {
    /// `leafUuid`
    pub leaf: IdField,
    /// `explicit`
    pub explicit: bool,
    /// `rewound`
    pub(crate) rewound: bool,
    /// `cutUuid`
    pub(crate) cut: IdField,
    /// The number of nodes before it in the file.
    pub nodes_before: u32,
}

impl Checkpoint {
    /// Returns whether it only records the end of the conversation, without a choice by the user.
    pub fn is_implicit(&self) -> bool {
        !self.explicit && self.leaf != IdField::Null && !self.rewound && self.cut == IdField::Absent
    }
}

/// All facts about a session after one pass over its log.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Facts {
    /// Entries with a uuid, in file order.
    pub nodes: Table<NodeId, Node>,
    /// The locations of all entries.
    pub locations: Table<EntryNo, EntryLocation>,
    /// The messages, in the order of their first entries.
    pub messages: Table<MessageNo, Message>,
    /// The usage of messages, each from the row that counts.
    pub(crate) usages: Table<UsageId, RecordedUsage>,
    /// The tool calls, each id once.
    pub calls: Table<CallId, ToolCall>,
    /// The ids of the calls, concatenated.
    pub(crate) call_ids: String,
    /// Results whose call is not in the file: the id and the entry.
    pub orphan_results: Vec<(Box<str>, NodeId)>,
    /// Every occurrence of a call, copies included: the node and the call.
    pub(crate) call_sites: Vec<(NodeId, CallId)>,
    /// Every occurrence of a result whose call is in the file: the node and the call.
    pub(crate) result_sites: Vec<(NodeId, CallId)>,
    /// The checkpoints, in file order.
    pub checkpoints: Vec<Checkpoint>,
    /// The number of nodes before the first line that is `null`; some clients stop reading there.
    pub nodes_before_null: Option<u32>,
    /// The number of the first line that is `null`.
    pub null_line_no: Option<u32>,
    /// The last entry, if its line has no newline.
    pub unterminated_line: Option<u32>,
    /// Set if the file begins with a byte order mark.
    pub byte_order_mark: bool,
    /// `logicalParentUuid` of boundaries, by node.
    pub(crate) logical_parents: FxHashMap<NodeId, Uid>,
    /// `preservedMessages` and `preservedSegment` of boundaries, by node.
    pub(crate) preserved: FxHashMap<NodeId, PreservedMessages>,
    /// `retractedMessageUuids`, by node.
    pub(crate) retracted: FxHashMap<NodeId, Vec<Uid>>,
    /// The treatment of attachments by clients, by node.
    pub(crate) attachments: FxHashMap<NodeId, AttachmentFacts>,
    /// Attachments that belong to a call in the file: the node and the call.
    pub(crate) attachment_calls: FxHashMap<NodeId, CallId>,
    /// `sourceToolAssistantUUID`, where it differs from the parent.
    pub(crate) source_assistants: FxHashMap<NodeId, Uid>,
    /// The first entries of subagents inside this file, with the hashes of their prompts.
    pub(crate) sidechain_roots: Vec<(NodeId, u64)>,
    /// `agentId` of sidechain entries in this file.
    pub agent_ids: NameCounts,
    /// Models, by assistant entry.
    pub models: NameCounts,
    /// Client versions, by entry.
    pub versions: NameCounts,
    /// Stop reasons, by assistant entry.
    pub stop_reasons: NameCounts,
    /// Tools, by call.
    pub tools: NameCounts,
    /// `sessionId`s, by entry.
    pub session_ids: NameCounts,
    /// Working directories, by entry.
    pub cwds: NameCounts,
    /// Git branches, by entry.
    pub git_branches: NameCounts,
    /// The `entrypoint` of the client, by entry.
    pub entrypoints: NameCounts,
    /// Subtypes of system entries.
    pub subtypes: NameCounts,
    /// Entries by type.
    pub types: BTreeMap<String, u64>,
    /// Fields that no known client writes, by name.
    pub unknown_fields: BTreeMap<String, u64>,
    /// Content blocks by `role:type`, each block of a message once.
    pub block_counts: BTreeMap<String, u64>,
    /// The content blocks of user and assistant entries, in file order.
    pub(crate) blocks: Vec<Block>,
    /// The index of the first block of each node.
    pub(crate) block_starts: Table<NodeId, u32>,
    /// Bytes by kind of content.
    pub bytes: ByteCounts,
    /// The first prompt that a person typed.
    pub first_prompt: Option<String>,
    /// The first task of a subagent in this file.
    pub(crate) first_task: Option<String>,
    /// The first local command that a person typed.
    pub(crate) first_command: Option<String>,
    /// Set if a person sent an image without text.
    pub(crate) has_wordless_prompt: bool,
    /// The last `custom-title`.
    pub custom_title: Option<String>,
    /// The last `ai-title`.
    pub ai_title: Option<String>,
    /// Summaries with the leaf that they describe, which may be in another file.
    pub summaries: Vec<(Uid, String)>,
    /// The earliest and the latest time of any entry.
    pub time_span: Option<(Time, Time)>,
    /// The defects of the file.
    pub defects: Vec<Defect>,
    /// The number of defects that are not listed.
    pub defects_omitted: u64,
    /// The session that this one was forked from.
    pub forked_from: Option<String>,
    /// The session that continues this one.
    pub continued_in: Option<String>,
    /// The number of lines.
    pub lines: u32,
    /// The number of lines that are not blank and contain no object.
    pub bad_lines: u32,
    /// Nodes by uuid: their indices, by the hash of the id.
    #[serde(skip)]
    pub(crate) by_uid: HashTable<NodeId>,
    /// Uuids that occur more than once: the first node and the last.
    pub(crate) duplicates: FxHashMap<NodeId, NodeId>,
}

/// The entries that a compaction kept: as a list in newer clients, or by the ends of a chain.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PreservedMessages {
    pub(crate) listed: Option<PreservedList>,
    pub(crate) segment: Option<PreservedList>,
}

/// Entries that a compaction kept.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PreservedList {
    /// The entry that they follow.
    pub(crate) anchor: Option<Uid>,
    /// All of them, or the first and the last; `None` for a value that is not a string.
    pub(crate) uuids: Vec<Option<Uid>>,
}

impl Facts {
    /// Returns the node with this uuid; of several, the first in the file.
    pub fn node_of(&self, uid: Uid) -> Option<NodeId> {
        self.by_uid.find(uid.table_hash(), |&node| self.nodes[node].uid == uid).copied()
    }

    /// Makes the nodes findable by their uuids; of several nodes with the same uuid, the first.
    pub(crate) fn index_uuids(&mut self) {
        let Self { nodes, by_uid, .. } = self;
        let id_of = |&node: &NodeId| nodes[node].uid;
        by_uid.reserve(nodes.len(), |node| id_of(node).table_hash());
        for (index, node) in nodes.iter_enumerated() {
            let found = by_uid.entry(
                node.uid.table_hash(),
                |known| id_of(known) == node.uid,
                |known| id_of(known).table_hash(),
            );
            found.or_insert(index);
        }
    }

    /// Returns the parent of a node, if it is in the file.
    pub fn parent_of(&self, node: NodeId) -> Option<NodeId> {
        self.node_of(self.nodes[node].parent?)
    }

    /// Returns the logical parent of a boundary, if it is in the file.
    pub fn logical_parent_of(&self, node: NodeId) -> Option<NodeId> {
        self.node_of(*self.logical_parents.get(&node)?)
    }

    /// Returns the model named in an answer.
    pub fn model_of(&self, node: NodeId) -> Option<&str> {
        self.nodes[node].model.map(|model| self.models.name(model))
    }

    /// Returns the content blocks of a node.
    pub fn blocks_of(&self, node: NodeId) -> &[Block] {
        self.blocks.get(self.block_range(node)).unwrap_or_default()
    }

    /// Returns whether the newest client would reject the content of an entry.
    pub fn has_invalid_content(&self, node: NodeId) -> bool {
        let blocks = self.blocks_of(node);
        let is_invalid = |class: BlockClass| matches!(class, BlockClass::Untyped | BlockClass::Null);
        self.nodes[node].flags.has_malformed_content()
            || !blocks.is_empty() && blocks.iter().all(|block| is_invalid(block.class))
    }

    /// Returns the positions of a node's blocks in [`Facts::blocks`].
    pub(crate) fn block_range(&self, node: NodeId) -> Range<usize> {
        let end = self.block_starts.after(node).first().map_or(self.blocks.len(), |&end| end as usize);
        self.block_starts[node] as usize..end
    }

    /// Returns the approximate size of the facts in memory: the tables that grow with the log.
    pub fn memory_size(&self) -> usize {
        self.nodes.memory_size()
            + self.locations.memory_size()
            + self.messages.memory_size()
            + self.usages.memory_size()
            + self.calls.memory_size()
            + self.block_starts.memory_size()
            + self.call_ids.capacity()
            + size_of_val(self.blocks.as_slice())
            + size_of_val(self.call_sites.as_slice())
            + size_of_val(self.result_sites.as_slice())
            + size_of_val(self.orphan_results.as_slice())
            + size_of_val(self.checkpoints.as_slice())
            + self.attachments.capacity() * size_of::<(NodeId, AttachmentFacts)>()
    }

    /// Returns whether any uuid occurs more than once.
    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Returns the first node with the same uuid as `node`.
    pub(crate) fn first_with_same_uuid(&self, node: NodeId) -> NodeId {
        if self.duplicates.is_empty() {
            return node;
        }
        self.node_of(self.nodes[node].uid).unwrap_or(node)
    }

    /// Records that a node contains a result of a call.
    pub(crate) fn record_result(&mut self, call: CallId, node: NodeId, agent: Option<Box<str>>) {
        self.result_sites.push((node, call));
        let call = &mut self.calls[call];
        call.n_results += 1;
        call.first_result = Some(call.first_result.map_or(node, |first| first.min(node)));
        call.agent = call.agent.take().or(agent);
    }

    /// Returns the usage of a message.
    pub fn usage(&self, message: &Message) -> Option<Usage> {
        message.usage.map(|usage| self.usages[usage].usage)
    }

    /// Returns the row of a message whose usage counts.
    pub(crate) fn recorded_usage(&self, message: &Message) -> Option<RecordedUsage> {
        message.usage.map(|usage| self.usages[usage])
    }

    /// Returns the id of a call.
    pub fn call_id(&self, call: &ToolCall) -> &str {
        let start = call.id.0 as usize;
        self.call_ids.get(start..start + usize::from(call.id.1)).unwrap_or_default()
    }

    /// Returns the location of a node's entry.
    pub fn location(&self, node: NodeId) -> EntryLocation {
        self.locations[self.nodes[node].entry]
    }

    /// Returns whether every entry in the tree belongs to a subagent.
    pub fn is_all_sidechain(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|n| n.flags.is_sidechain())
    }
}
