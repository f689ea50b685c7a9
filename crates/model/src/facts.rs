//! What is known of each entry after one pass over a log, without its text.
//!
//! The texts stay in the log: a record says where its entry stands, and whoever has the bytes can
//! show it. So the facts of a session of a gigabyte fit in some tens of megabytes.

use std::collections::BTreeMap;

use hashbrown::HashTable;
use rethread_log::Defect;
use rustc_hash::FxHashMap;

use crate::attachment::AttachmentFacts;
use crate::byte_counts::ByteCounts;
use crate::flags::EntryFlags;
use crate::id::{Time, Uid};
use crate::name_counts::NameCounts;
use crate::usage::Usage;

/// No index: the thing does not exist.
pub(crate) const NONE: u32 = u32::MAX;

/// What an entry in the tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A user entry: a prompt, a tool result, a command …
    User,
    /// A piece of a message of the model.
    Assistant,
    /// A note of the client.
    System,
    /// Context that the client attached.
    Attachment,
    /// The progress of a tool or hook.
    Progress,
    /// A type that we do not know, or one that should not stand in the tree.
    Other,
}

/// One entry that has a uuid.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// Its own id.
    pub uid: Uid,
    /// The id of its parent.
    pub parent: Uid,
    /// When it was written.
    pub time: Time,
    /// Its entry number.
    pub entry: u32,
    /// The index of its message, or none.
    pub(crate) message: u32,
    /// What is true of it.
    pub flags: EntryFlags,
    /// The model, as an index of [`Facts::models`], or `u16::MAX`.
    pub(crate) model: u16,
    /// What it is.
    pub role: Role,
}

impl Node {
    /// Returns the index of the message that it is part of.
    pub fn message(&self) -> Option<usize> {
        (self.message != NONE).then_some(self.message as usize)
    }

    /// Tells whether it is a user or assistant entry.
    pub fn is_conversation(&self) -> bool {
        matches!(self.role, Role::User | Role::Assistant)
    }
}

/// Where an entry stands in its file.
#[derive(Debug, Clone, Copy)]
pub struct EntryLocation {
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub len: u32,
    /// The line, from 1.
    pub line: u32,
}

/// What one side said: a user entry, or all entries of one `message.id`.
#[derive(Debug, Clone, Copy)]
pub struct Message {
    /// `message.id`, or nothing.
    pub id: Uid,
    /// Its first entry in the file, as an index of a node.
    pub first_node: u32,
    /// Whether the model said it.
    pub assistant: bool,
    /// Whether a subagent's model said it.
    pub(crate) sidechain: bool,
    /// The model's name, as an index of [`Facts::models`].
    pub model: Option<u16>,
    /// What it cost, as an index of [`Facts::usages`].
    pub(crate) usage: u32,
}

/// What a content block is, as far as the rules of clients ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockClass {
    /// Words.
    Text,
    /// White space.
    Blank,
    /// A text of no length.
    Empty,
    /// A text block without a text.
    NoText,
    /// The text `(no content)`, which clients put in where there is none.
    NoContent,
    /// The text `[Empty text removed]`, another of these.
    EmptyRemoved,
    /// The text `Tool loaded.`, another of these.
    ToolLoaded,
    /// Thinking with its signature.
    Thinking,
    /// Thinking without a signature.
    UnsignedThinking,
    /// Thinking that only the API can read.
    RedactedThinking,
    /// A call of a tool.
    ToolCall,
    /// The result of a call.
    ToolResult,
    /// A picture or document.
    Media,
    /// A call that the API itself answers.
    ServerCall,
    /// The API's answer to one.
    ServerResult,
    /// A mark that another model answered.
    Fallback,
    /// A block of another sort.
    Other,
    /// No block at all: nothing with a type.
    Untyped,
    /// A string in place of a block.
    BareString,
    /// `null` in place of a block.
    Null,
}

impl BlockClass {
    /// Tells whether it is thinking of any form.
    pub fn is_thinking(self) -> bool {
        matches!(self, Self::Thinking | Self::UnsignedThinking | Self::RedactedThinking)
    }

    /// Tells whether it is text without any words.
    pub fn is_blank(self) -> bool {
        matches!(self, Self::Blank | Self::Empty | Self::NoText)
    }

    /// Tells whether it is a text block.
    pub fn is_text(self) -> bool {
        self.is_blank()
            || matches!(self, Self::Text | Self::NoContent | Self::EmptyRemoved | Self::ToolLoaded)
    }
}

/// How a result refers to tools that were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ToolReferences {
    /// It does.
    pub(crate) any: bool,
    /// To one that the newest client has.
    pub(crate) known: bool,
    /// To one that it has for older models only.
    pub(crate) task_tools: bool,
}

/// A content block of an entry; a content that is a string is one block of text.
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// The call that it makes or answers, as an index of [`Facts::calls`], or none; of calls that the
    /// API answers, a hash of the id.
    pub(crate) call: u32,
    /// Its length in the file.
    pub len: u32,
    /// How much of that are pictures and documents.
    pub media_bytes: u32,
    /// A hash of its content: of a text, of a call's name and input, of what a result holds.
    pub(crate) fingerprint: u32,
    /// A result whose content is a string.
    pub(crate) has_string_content: bool,
    /// How a result refers to tools.
    pub(crate) tool_references: ToolReferences,
    /// A call that says who made it.
    pub(crate) has_caller: bool,
    /// What it is.
    pub class: BlockClass,
}

impl Block {
    /// Returns the call that it makes or answers.
    pub fn call(&self) -> Option<usize> {
        (self.call != NONE).then_some(self.call as usize)
    }
}

/// A call of a tool.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Where its id stands in [`Facts::call_ids`].
    pub(crate) id: (u32, u16),
    /// The tool, as an index of [`Facts::tools`].
    pub tool: u16,
    /// The entry that holds the call, as an index of a node.
    pub node: u32,
    /// How many results it has.
    pub n_results: u32,
    /// The entry that holds its first result.
    pub(crate) first_result: u32,
    /// What the prompt of a subagent hashes to, if this starts one.
    pub(crate) prompt_hash: Option<u64>,
    /// The subagent that it started, if its result says so.
    pub agent: Option<Box<str>>,
}

impl ToolCall {
    /// Returns the entry that holds its first result, as an index of a node.
    pub fn first_result(&self) -> Option<usize> {
        (self.first_result != NONE).then_some(self.first_result as usize)
    }
}

/// A `last-prompt` entry: the client's note of where the conversation stands.
#[derive(Debug, Clone, Copy)]
pub struct Checkpoint {
    /// `leafUuid`: absent, naming nothing, or an id.
    pub leaf: Option<Uid>,
    /// `leafUuid` is `null`.
    pub leaf_is_null: bool,
    /// `explicit`
    pub explicit: bool,
    /// `rewound`
    pub(crate) rewound: bool,
    /// `cutUuid`, if the key is there.
    pub(crate) cut: Option<Uid>,
    /// How many nodes stand before it in the file.
    pub nodes_before: u32,
}

impl Checkpoint {
    /// Tells whether it only says where the conversation stands, and that nobody chose another place.
    pub fn is_implicit(&self) -> bool {
        !self.explicit && !self.leaf_is_null && !self.rewound && self.cut.is_none()
    }
}

/// Everything known of a session after one pass over its log.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Entries with a uuid, in the order of the file.
    pub nodes: Vec<Node>,
    /// The places of all entries; entry number `n` is at `n - 1`.
    pub locations: Vec<EntryLocation>,
    /// The messages, in the order of their first entries; message number `n` is at `n - 1`.
    pub messages: Vec<Message>,
    /// What messages cost, each from the last entry that says so.
    pub(crate) usages: Vec<Usage>,
    /// The tool calls, each id once.
    pub calls: Vec<ToolCall>,
    /// The ids of the calls, one behind the other.
    pub(crate) call_ids: String,
    /// Results whose call is not in the file: the id and the entry.
    pub orphan_results: Vec<(Box<str>, u32)>,
    /// Every place of a call, copies too: the node and the index of the call.
    pub(crate) call_sites: Vec<(u32, u32)>,
    /// Every place of a result whose call is in the file: the node and the index of the call.
    pub(crate) result_sites: Vec<(u32, u32)>,
    /// Where the client said that the conversation stands, in the order of the file.
    pub checkpoints: Vec<Checkpoint>,
    /// The number of nodes before the first line that is `null`; some clients read no further.
    pub nodes_before_null: Option<u32>,
    /// That line.
    pub null_line_no: Option<u32>,
    /// The last entry, if its line does not end.
    pub unterminated_line: Option<u32>,
    /// The file begins with a byte order mark.
    pub byte_order_mark: bool,
    /// `logicalParentUuid` of boundaries, by node.
    pub(crate) logical_parents: FxHashMap<u32, Uid>,
    /// `preservedMessages` and `preservedSegment` of boundaries, by node.
    pub(crate) preserved: FxHashMap<u32, PreservedMessages>,
    /// `retractedMessageUuids`, by node.
    pub(crate) retracted: FxHashMap<u32, Vec<Uid>>,
    /// What clients make of attachments, by node.
    pub(crate) attachments: FxHashMap<u32, AttachmentFacts>,
    /// Attachments that belong to a call in the file: the node and the index of the call.
    pub(crate) attachment_calls: FxHashMap<u32, u32>,
    /// `sourceToolAssistantUUID`, where it is not the parent.
    pub(crate) source_assistants: FxHashMap<u32, Uid>,
    /// The first entries of subagents inside this file, with what their prompts hash to.
    pub(crate) sidechain_roots: Vec<(u32, u64)>,
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
    /// How the client was started, by entry.
    pub entrypoints: NameCounts,
    /// Subtypes of system entries.
    pub subtypes: NameCounts,
    /// Entries by type.
    pub types: BTreeMap<String, u64>,
    /// Fields that no client we know writes, by name.
    pub unknown_fields: BTreeMap<String, u64>,
    /// Content blocks by `role:type`, each block of a message once.
    pub block_counts: BTreeMap<String, u64>,
    /// The content blocks of user and assistant entries, as they stand in the file.
    pub(crate) blocks: Vec<Block>,
    /// Where the blocks of each node begin.
    pub(crate) block_starts: Vec<u32>,
    /// Bytes by what they hold.
    pub bytes: ByteCounts,
    /// The first prompt that somebody typed.
    pub first_prompt: Option<String>,
    /// The first task of a subagent in this file.
    pub(crate) first_task: Option<String>,
    /// The first local command that somebody typed.
    pub(crate) first_command: Option<String>,
    /// Somebody sent a picture without words.
    pub(crate) has_wordless_prompt: bool,
    /// The last `custom-title`.
    pub custom_title: Option<String>,
    /// The last `ai-title`.
    pub ai_title: Option<String>,
    /// Summaries with the leaf that they are about, which may be in another file.
    pub summaries: Vec<(Uid, String)>,
    /// The earliest and the latest time of any entry.
    pub time_span: Option<(Time, Time)>,
    /// What is wrong with the file.
    pub defects: Vec<Defect>,
    /// How many more defects there are than are listed.
    pub defects_omitted: u64,
    /// The session that this one was forked from.
    pub forked_from: Option<String>,
    /// The session that continues this one.
    pub continued_in: Option<String>,
    /// Lines in the file.
    pub lines: u32,
    /// Lines that are not blank and gave no object.
    pub bad_lines: u32,
    /// Nodes by their uuid: numbers of nodes, found by the hash of the node's own id.
    pub(crate) by_uid: HashTable<u32>,
    /// Uuids that stand twice: the first node and the last.
    pub(crate) duplicates: FxHashMap<u32, u32>,
}

/// Which rows a compaction kept: listed, as newer clients write it, or by the ends of a chain.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreservedMessages {
    pub(crate) listed: Option<PreservedList>,
    pub(crate) segment: Option<PreservedList>,
}

/// Rows that a compaction kept.
#[derive(Debug, Clone, Default)]
pub(crate) struct PreservedList {
    /// The row behind which they follow.
    pub(crate) anchor: Uid,
    /// All of them, or the first and the last.
    pub(crate) uuids: Vec<Uid>,
}

impl Facts {
    /// Returns the node with this uuid; of several, the first in the file.
    pub fn node_of(&self, uid: Uid) -> Option<usize> {
        let same = |&node: &u32| self.nodes[node as usize].uid == uid;
        self.by_uid.find(uid.table_hash(), same).map(|&node| node as usize)
    }

    /// Returns the parent of a node, if it is in the file.
    pub fn parent_of(&self, node: usize) -> Option<usize> {
        let parent = self.nodes[node].parent;
        if parent.is_none() { None } else { self.node_of(parent) }
    }

    /// Returns the entry that a compaction says it follows, if it is in the file.
    pub fn logical_parent_of(&self, node: usize) -> Option<usize> {
        let node = u32::try_from(node).ok()?;
        self.node_of(*self.logical_parents.get(&node)?)
    }

    /// Returns the model that an answer names.
    pub fn model_of(&self, node: usize) -> Option<&str> {
        let model = self.nodes[node].model;
        (model != u16::MAX).then(|| self.models.name(model))
    }

    /// Returns the content blocks of a node.
    pub fn blocks_of(&self, node: usize) -> &[Block] {
        let start = self.block_starts.get(node).map_or(0, |&start| start as usize);
        let end = self.block_starts.get(node + 1).map_or(self.blocks.len(), |&end| end as usize);
        self.blocks.get(start..end).unwrap_or_default()
    }

    /// Returns the call in the file that an attachment belongs to.
    pub fn attached_to(&self, node: usize) -> Option<usize> {
        let node = u32::try_from(node).ok()?;
        self.attachment_calls.get(&node).map(|&call| call as usize)
    }

    /// Tells whether a uuid stands twice.
    pub fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Returns the first node with the same uuid as `node`.
    pub(crate) fn first_with_same_uuid(&self, node: usize) -> usize {
        if self.duplicates.is_empty() {
            return node;
        }
        self.node_of(self.nodes[node].uid).unwrap_or(node)
    }

    /// Notes that a node answers a call.
    pub(crate) fn record_result(&mut self, call: u32, node: u32, agent: Option<Box<str>>) {
        self.result_sites.push((node, call));
        let call = &mut self.calls[call as usize];
        call.n_results += 1;
        call.first_result = call.first_result.min(node);
        call.agent = call.agent.take().or(agent);
    }

    /// Returns what a message cost.
    pub fn usage(&self, message: &Message) -> Option<Usage> {
        self.usages.get(message.usage as usize).copied()
    }

    /// Returns the id of a call.
    pub fn call_id(&self, call: &ToolCall) -> &str {
        let start = call.id.0 as usize;
        self.call_ids.get(start..start + usize::from(call.id.1)).unwrap_or_default()
    }

    /// Returns where a node's entry stands.
    pub fn location(&self, node: usize) -> EntryLocation {
        self.locations[self.nodes[node].entry as usize - 1]
    }

    /// Tells whether every entry of the tree belongs to a subagent.
    pub fn is_all_sidechain(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|n| n.flags.is_sidechain())
    }
}
