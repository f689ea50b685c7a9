//! The content of a request: rows with their blocks, the resulting messages, and texts inserted by a client.

use crate::attachment::{AttachmentDelivery, AttachmentFacts, SenderRole};
use crate::client::Client;
use crate::facts::{Block, BlockClass, Facts, Node, Role, ToolReferences};
use crate::flags::EntryFlags;
use crate::id::Uid;
use crate::index::{CallId, NodeId};
use crate::name_counts::NameId;
use crate::rules::ClientRule;

/// Texts that clients insert into a conversation.
pub(super) mod words {
    pub(crate) const NO_REPLY: &str = "No response requested.";
    pub(crate) const CONTINUE: &str = "Continue from where you left off.";
    pub(crate) const NO_CONTENT: &str = "(no content)";
    pub(crate) const EMPTY_REMOVED: &str = "[Empty text removed]";
    pub(crate) const TOOL_LOADED: &str = "Tool loaded.";
    pub(crate) const USE_REMOVED: &str = "[Tool use removed]";
    pub(crate) const USE_INTERRUPTED: &str = "[Tool use interrupted]";
    pub(crate) const ORPHAN_REMOVED: &str = "[Orphaned tool result removed due to conversation resume]";
    pub(crate) const RESULT_MISSING: &str = "[Tool result missing due to internal error]";
    pub(crate) const CALL_CUT_OFF: &str = "[Tool call interrupted: the session ended before this call's result was recorded, so its outcome is unknown. Check whether it took effect before relying on it or running it again.]";
}

/// A message as it is sent.
#[derive(Debug, Clone)]
pub struct SentMessage {
    /// The model is its author.
    pub assistant: bool,
    /// Its parts.
    pub parts: Vec<SentPart>,
}

/// A block of a message as it is sent.
#[derive(Debug, Clone)]
pub struct SentPart {
    /// The origin of the content.
    pub origin: PartOrigin,
    /// The class of the block.
    pub class: BlockClass,
    pub(crate) call: Option<CallId>,
    /// The content hash of the block, which pairs calls executed by the API with their results.
    pub(super) fingerprint: u32,
    /// A result whose content is a string.
    pub(super) has_string_content: bool,
    /// References to tools in a result.
    pub(crate) tool_references: ToolReferences,
    /// A call with the key `caller`. The calls of such a message are sent without additional fields.
    pub(crate) has_caller: bool,
    /// Ends with a line break that the client inserted before the next text.
    pub adds_line_break: bool,
    /// Attachments whose text was merged into this result; `None` for one that the client creates anew.
    pub attachments: Vec<Option<NodeId>>,
}

/// The origin of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartOrigin {
    /// A block of an entry: the node and the position among its blocks.
    Block(NodeId, u32),
    /// The content of a system entry.
    Command(NodeId),
    /// The client's text for an attachment, or a reminder that it repeats with every prompt.
    Reminder(Option<NodeId>),
    /// The images of a queued prompt.
    Pictures(NodeId),
    /// The new prompt.
    Prompt,
    /// A text inserted by the client.
    ClientText(&'static str),
    /// A result that the client adds for a call; `None` for a call without an id.
    MissingResult(Option<CallId>, &'static str),
}

impl PartOrigin {
    /// Returns the entry that it comes from.
    pub fn node(self) -> Option<NodeId> {
        match self {
            Self::Block(node, _) | Self::Command(node) | Self::Pictures(node) => Some(node),
            Self::Reminder(_) | Self::Prompt | Self::ClientText(_) | Self::MissingResult(..) => None,
        }
    }

    /// Returns the attachment that it describes.
    pub(super) fn attachment(self) -> Option<NodeId> {
        match self {
            Self::Reminder(node) => node,
            _ => None,
        }
    }
}

impl SentPart {
    fn new(origin: PartOrigin, class: BlockClass) -> Self {
        Self {
            origin,
            class,
            call: None,
            fingerprint: 0,
            has_string_content: false,
            tool_references: ToolReferences::default(),
            has_caller: false,
            adds_line_break: false,
            attachments: Vec::new(),
        }
    }

    pub(super) fn block(node: NodeId, at: usize, block: &Block) -> Self {
        let origin = PartOrigin::Block(node, u32::try_from(at).unwrap_or(u32::MAX));
        let &Block {
            call,
            fingerprint,
            has_string_content: plain,
            tool_references: references,
            has_caller: caller,
            class,
            ..
        } = block;
        Self {
            call,
            fingerprint,
            has_string_content: plain,
            tool_references: references,
            has_caller: caller,
            ..Self::new(origin, class)
        }
    }

    pub(super) fn client_text(words: &'static str) -> Self {
        let class = if words == words::NO_CONTENT { BlockClass::NoContent } else { BlockClass::Text };
        Self::new(PartOrigin::ClientText(words), class)
    }

    pub(super) fn missing_result(call: Option<CallId>, words: &'static str) -> Self {
        Self {
            call,
            has_string_content: true,
            ..Self::new(PartOrigin::MissingResult(call, words), BlockClass::ToolResult)
        }
    }

    pub(super) fn reminder(node: Option<NodeId>) -> Self {
        Self::new(PartOrigin::Reminder(node), BlockClass::Text)
    }

    pub(super) fn pictures(node: NodeId) -> Self {
        Self::new(PartOrigin::Pictures(node), BlockClass::Media)
    }

    /// Returns the entries that it consists of.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        let own = self.origin.node().or(self.origin.attachment());
        own.into_iter().chain(self.attachments.iter().flatten().copied())
    }

    /// Returns the call that it makes or answers.
    pub fn call(&self) -> Option<CallId> {
        self.call
    }

    /// Returns whether it is a result that refers to an existing tool.
    pub(crate) fn references_known_tool(&self, turns: bool) -> bool {
        self.tool_references.known || self.tool_references.task_tools && !turns
    }

    /// Returns whether the client treats the text as blank.
    pub(super) fn is_blank(&self, client: Client) -> bool {
        match self.class {
            BlockClass::NoContent => client.has(ClientRule::TreatsNoContentAsBlank),
            BlockClass::EmptyRemoved => client.has(ClientRule::TreatsRemovedTextAsBlank),
            class => class.is_blank(),
        }
    }
}

/// The kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowKind {
    User,
    Assistant,
    Attachment,
    System,
    /// A system message between two turns, which newer models accept.
    SystemTurn,
}

/// The id shared by the rows of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum MessageId {
    None,
    Known(Uid),
    /// A row without an id that is a separate message.
    PerRow(Option<NodeId>),
}

/// A row of a request.
#[derive(Debug, Clone)]
pub(super) struct RequestRow {
    /// Its entry; `None` for a row inserted by the client.
    pub(super) node: Option<NodeId>,
    pub(super) kind: RowKind,
    pub(super) id: MessageId,
    pub(super) flags: EntryFlags,
    pub(super) model: Option<NameId>,
    /// Its content is a string.
    pub(super) has_string_content: bool,
    /// The delivery of an attachment that the client creates anew.
    pub(super) delivery: AttachmentDelivery,
    pub(super) parts: Vec<SentPart>,
}

impl RequestRow {
    pub(super) fn from_node(facts: &Facts, index: NodeId, node: &Node) -> Self {
        let kind = match node.role {
            Role::User => RowKind::User,
            Role::Assistant => RowKind::Assistant,
            Role::Attachment => RowKind::Attachment,
            Role::System | Role::Progress | Role::Other => RowKind::System,
        };
        let id = match node.message().and_then(|message| facts.messages[message].id) {
            Some(id) if kind == RowKind::Assistant => MessageId::Known(id),
            _ => MessageId::None,
        };
        let blocks = facts.blocks_of(index).iter().enumerate();
        let parts = blocks.map(|(at, block)| SentPart::block(index, at, block)).collect();
        let plain = node.flags.has_string_content();
        let delivery = AttachmentDelivery::SYSTEM_TEXT;
        Self {
            node: Some(index),
            kind,
            id,
            flags: node.flags,
            model: node.model,
            has_string_content: plain,
            delivery,
            parts,
        }
    }

    /// Creates a row inserted by the client.
    pub(super) fn inserted(kind: RowKind, parts: Vec<SentPart>) -> Self {
        let (id, flags) = (MessageId::None, EntryFlags::default());
        let delivery = AttachmentDelivery::SYSTEM_TEXT;
        Self { node: None, kind, id, flags, model: None, has_string_content: false, delivery, parts }
    }

    /// Creates an answer inserted by the client.
    pub(super) fn inserted_answer(words: &'static str) -> Self {
        let mut row = Self::inserted(RowKind::Assistant, vec![SentPart::client_text(words)]);
        row.id = MessageId::PerRow(None);
        row.flags.set(EntryFlags::SYNTHETIC);
        row
    }

    pub(super) fn prompt() -> Self {
        Self::inserted(RowKind::User, vec![SentPart::new(PartOrigin::Prompt, BlockClass::Text)])
    }

    /// Creates a reminder, which the client repeats and the user does not see.
    pub(super) fn reminder() -> Self {
        let mut row = Self::inserted(RowKind::User, vec![SentPart::reminder(None)]);
        row.flags.set(EntryFlags::META);
        row
    }

    /// Creates an attachment for the new prompt.
    pub(super) fn new_attachment(role: SenderRole) -> Self {
        let mut row = Self::inserted(RowKind::Attachment, Vec::new());
        row.delivery.role = role;
        row
    }

    pub(super) fn command(node: NodeId) -> Self {
        let mut row =
            Self::inserted(RowKind::User, vec![SentPart::new(PartOrigin::Command(node), BlockClass::Text)]);
        row.node = Some(node);
        row
    }

    /// Returns the facts of an attachment in the file.
    pub(super) fn attachment_facts<'f>(&self, facts: &'f Facts) -> Option<&'f AttachmentFacts> {
        facts.attachments.get(&self.node?)
    }

    pub(super) fn is_user(&self) -> bool {
        self.kind == RowKind::User
    }

    pub(super) fn is_assistant(&self) -> bool {
        self.kind == RowKind::Assistant
    }

    pub(super) fn has_block(&self, class: BlockClass) -> bool {
        self.parts.iter().any(|part| part.class == class)
    }

    pub(super) fn begins_with_result(&self) -> bool {
        self.is_user() && self.parts.first().is_some_and(|part| part.class == BlockClass::ToolResult)
    }

    /// Returns whether it is a result, or a row with the client's copy of one.
    pub(super) fn is_result(&self) -> bool {
        self.begins_with_result() || self.is_user() && self.flags.has_result_copy()
    }

    /// Returns whether it reports a failure, which is never sent again.
    pub(super) fn is_api_error(&self) -> bool {
        self.is_assistant() && self.flags.is_failure_report()
    }

    pub(super) fn is_only_thinking(&self) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|part| part.class.is_thinking())
    }

    /// Returns whether it contains only blank text. For 2.1.325 thinking may precede it.
    pub(super) fn is_blank(&self, client: Client) -> bool {
        let skipped = if client.has(ClientRule::IgnoresThinkingBeforeBlankText) {
            self.parts.iter().take_while(|part| part.class.is_thinking()).count()
        } else {
            0
        };
        let rest = &self.parts[skipped..];
        !rest.is_empty() && rest.iter().all(|part| part.is_blank(client))
    }
}
