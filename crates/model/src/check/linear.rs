//! A fast path for sessions in which nothing can be lost, decided without simulating any client.
//!
//! If the entries form one chain, every call is answered directly after it and nothing is irregular, the
//! rules of all clients give the same result: the whole conversation since the last compaction is sent. Most
//! clones are like this. All other sessions are left to [`super::check`].

use super::request::{MAX_IMAGE_BYTES, MAX_IMAGES, MAX_REQUEST_BYTES, too_long_detail};
use super::{Finding, FindingKind, Severity, check};
use crate::client::Client;
use crate::facts::{Block, BlockClass, Facts, IdField, Node, Role};
use crate::flags::EntryFlags;
use crate::index::{CallId, MessageNo, NodeId, Table};
use crate::resume::{IntendedPath, intended_path_to};
use crate::session::Session;

/// Returns the harmful findings of [`check`] for some clients, faster if the session is linear.
pub fn harmful_findings(session: &Session, clients: &[Client]) -> Vec<Finding> {
    linear_harmful_findings(session, clients).unwrap_or_else(|| {
        let mut findings = check(session, clients);
        findings.retain(Finding::is_harmful);
        findings
    })
}

/// Returns the entries that the newest client resumes.
pub fn newest_client_chain(session: &Session) -> Vec<NodeId> {
    let facts = &session.facts;
    match session.linear() {
        Some(line) => facts.nodes.keys().skip(line.start).collect(),
        None => crate::resume::resumed_chain(facts, Client::NEWEST),
    }
}

/// Finds the path that ends at `end`, or the one that the newest client would resume. Same as
/// [`intended_path_to`], but faster if the session is linear.
pub fn session_intended_path(session: &Session, end: Option<NodeId>) -> IntendedPath {
    let facts = &session.facts;
    // With an earlier end, results of its calls and notes after it may be part of the path.
    let last = last_conversation_node(facts);
    let whole = end.is_none_or(|end| Some(end) == last)
        && last.is_some_and(|last| facts.nodes.after(last).is_empty());
    match session.linear().filter(|_| whole) {
        Some(line) => IntendedPath {
            leaf: last,
            chain: facts.nodes.keys().skip(line.start).collect(),
            ..IntendedPath::default()
        },
        None => intended_path_to(facts, end),
    }
}

/// Finds the last entry that the newest client sends, if the session is linear.
pub(crate) fn newest_client_tip(session: &Session) -> Option<NodeId> {
    session.linear()?;
    let facts = &session.facts;
    let last = last_conversation_node(facts)?;
    let silent = |node: &Node| node.role == Role::System && !node.flags.is_local_command();
    let sent = facts.blocks_of(last).iter().any(|block| !block.class.is_thinking());
    (sent && facts.nodes.after(last).iter().all(silent)).then_some(last)
}

fn last_conversation_node(facts: &Facts) -> Option<NodeId> {
    facts.nodes.keys().rfind(|&node| facts.nodes[node].is_conversation())
}

/// Returns the [`harmful_findings`] of a linear session.
fn linear_harmful_findings(session: &Session, clients: &[Client]) -> Option<Vec<Finding>> {
    let facts = &session.facts;
    let plain = facts.defects.is_empty() && session.tree.defects.is_empty();
    session.linear().filter(|_| plain)?.harmful_findings(clients)
}

/// A conversation without forks.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinearConversation {
    /// The position of the first entry after the last compaction, or of the first entry.
    pub start: usize,
    /// The number of messages, including those before the compaction.
    pub messages: usize,
    n_images: usize,
    /// The size of the sent content in bytes, without thinking.
    n_bytes: u64,
}

/// The state of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallProgress {
    Unseen,
    Open,
    Answered,
}

/// State of the entries before the current one.
struct PrecedingEntries {
    /// The message of the entry directly before, and the messages seen so far.
    message: Option<MessageNo>,
    seen: Table<MessageNo, bool>,
    /// The state of each call, and the number of calls without a result so far.
    calls: Table<CallId, CallProgress>,
    n_open: usize,
    /// A user entry was seen since the beginning or the last compaction.
    has_user_entry: bool,
    /// The notes after the last user or assistant entry are in time order.
    in_time_order: bool,
    /// The entry directly before.
    previous: Option<NodeId>,
}

/// Examines a session as it is. Returns `None` if any client might treat some part of it differently.
pub(crate) fn linear_conversation(facts: &Facts) -> Option<LinearConversation> {
    if facts.nodes_before_null.is_some() {
        return None;
    }
    let is_child = |node: NodeId, parent: Option<NodeId>| {
        facts.nodes[node].parent == parent.map(|parent| facts.nodes[parent].uid)
    };
    let blocks = |node: NodeId| facts.blocks_of(node).iter().copied();
    let line = LinearConversation::detect(facts, facts.nodes.keys(), is_child, blocks)?;
    let is_consistent = |at: &crate::facts::Checkpoint| {
        let leaf = at.leaf.uid().and_then(|leaf| facts.node_of(leaf));
        let on_line = at.leaf == IdField::Absent || leaf.is_some_and(|leaf| leaf.index() >= line.start);
        let over = at.nodes_before as usize <= line.start && line.start > 0;
        at.is_implicit() && (on_line || over)
    };
    facts.checkpoints.iter().all(is_consistent).then_some(line)
}

impl LinearConversation {
    /// Examines entries of a session in file order, or in the order of a file to be written, with the blocks
    /// that they will have. Returns `None` if any client might treat some part of them differently.
    /// `is_child` returns whether an entry has the given parent, or none.
    ///
    /// Checkpoints are not examined.
    pub fn detect<B: Iterator<Item = Block>>(
        facts: &Facts,
        rows: impl DoubleEndedIterator<Item = NodeId> + Clone,
        is_child: impl Fn(NodeId, Option<NodeId>) -> bool,
        blocks: impl Fn(NodeId) -> B,
    ) -> Option<Self> {
        let last = rows.clone().next_back()?;
        let newest = facts.nodes[last].time;
        let irregular = facts.has_duplicates() || !facts.preserved.is_empty() || !facts.retracted.is_empty();
        if irregular || newest.is_none() {
            return None;
        }
        let mut line = Self::default();
        let mut before = PrecedingEntries {
            message: None,
            seen: Table::filled(false, facts.messages.len()),
            calls: Table::filled(CallProgress::Unseen, facts.calls.len()),
            n_open: 0,
            has_user_entry: false,
            in_time_order: false,
            previous: None,
        };
        // Not every client finds a prompt queued after the last user or assistant entry.
        let mut queued_last = false;
        for (place, at) in rows.enumerate() {
            let node = &facts.nodes[at];
            queued_last = !node.is_conversation() && (queued_last || node.flags.is_queued_prompt());
            let is_child = is_child(at, before.previous.filter(|_| !node.flags.is_boundary()));
            let in_time = node.time.is_some() && (node.time < newest || at == last);
            if !is_child || !in_time || !is_usual(node) {
                return None;
            }
            if node.flags.is_boundary() {
                line = Self { start: place, messages: line.messages, ..Self::default() };
                before.has_user_entry = false;
            }
            line.messages += usize::from(before.add_entry(facts, node, blocks(at))?);
            if node.is_conversation() {
                line.add_blocks(blocks(at), node.role)?;
            }
            before.previous = Some(at);
        }
        (before.n_open == 0 && before.has_user_entry && before.in_time_order && !queued_last).then_some(line)
    }

    /// Returns the findings that clients would be refused for, or `None` if [`check`] has to decide.
    pub fn harmful_findings(&self, clients: &[Client]) -> Option<Vec<Finding>> {
        if self.n_images > MAX_IMAGES {
            return None;
        }
        if self.n_bytes <= MAX_REQUEST_BYTES {
            return Some(Vec::new());
        }
        let (kind, severity) = (FindingKind::ContextTooLong, Severity::Refusal);
        let (detail, clients) = (too_long_detail(self.n_bytes), clients.to_vec());
        Some(vec![Finding { line: None, kind, severity, detail, clients, lost_lines: Vec::new() }])
    }

    fn add_blocks(&mut self, blocks: impl Iterator<Item = Block>, role: Role) -> Option<()> {
        let mut any = false;
        for block in blocks {
            any = true;
            match (block.class, role) {
                (BlockClass::Text, _)
                | (BlockClass::ToolCall, Role::Assistant)
                | (BlockClass::ToolResult, Role::User) => {}
                (BlockClass::Thinking | BlockClass::RedactedThinking, Role::Assistant) => continue,
                (BlockClass::Media, Role::User) if block.media_bytes <= MAX_IMAGE_BYTES => self.n_images += 1,
                _ => return None,
            }
            self.n_bytes += u64::from(block.len.saturating_sub(block.media_bytes));
        }
        any.then_some(())
    }
}

impl PrecedingEntries {
    /// Adds an entry and returns whether it starts a message; `None` if a client might not expect it here.
    fn add_entry(&mut self, facts: &Facts, node: &Node, blocks: impl Iterator<Item = Block>) -> Option<bool> {
        if node.role == Role::Assistant {
            let message = node.message()?;
            let continues = self.message == Some(message);
            let begins = !std::mem::replace(&mut self.seen[message], true) && self.n_open == 0;
            if !(self.has_user_entry && (continues || begins)) {
                return None;
            }
            self.message = Some(message);
            self.in_time_order = true;
            for call in blocks.filter(|block| block.class == BlockClass::ToolCall) {
                let call = &mut self.calls[call.call()?];
                if std::mem::replace(call, CallProgress::Open) != CallProgress::Unseen {
                    return None;
                }
                self.n_open += 1;
            }
            return Some(begins);
        }
        self.message = None;
        self.has_user_entry |= node.role == Role::User;
        let above = self.previous.map(|above| &facts.nodes[above]);
        let notes = !node.is_conversation() && above.is_some_and(|above| !above.is_conversation());
        self.in_time_order =
            !notes || self.in_time_order && above.is_some_and(|above| above.time <= node.time);
        let mut answers = false;
        for result in blocks.filter(|block| block.class == BlockClass::ToolResult) {
            let call = &mut self.calls[result.call()?];
            if std::mem::replace(call, CallProgress::Answered) != CallProgress::Open {
                return None;
            }
            self.n_open -= 1;
            answers = true;
        }
        (self.n_open == 0 || node.role == Role::User && answers).then_some(node.role == Role::User)
    }
}

/// Returns whether an entry has only flags for which no client drops it or an entry before it.
fn is_usual(node: &Node) -> bool {
    let usual: &[EntryFlags] = match node.role {
        Role::User => &[
            EntryFlags::META,
            EntryFlags::SUMMARY,
            EntryFlags::HUMAN,
            EntryFlags::COMMAND,
            EntryFlags::INTERRUPT,
            EntryFlags::RESULT,
            EntryFlags::TEXT,
            EntryFlags::MEDIA,
            EntryFlags::STRING,
            EntryFlags::RESULT_COPY,
            EntryFlags::CAVEAT,
            EntryFlags::COMMAND_RECORD,
            EntryFlags::COMMAND_OUTPUT,
            EntryFlags::SLASH,
            EntryFlags::INTERRUPT_ONLY,
            EntryFlags::COMPANION,
        ],
        Role::Assistant => &[EntryFlags::CALL, EntryFlags::TEXT, EntryFlags::THINKING, EntryFlags::SYNTHETIC],
        Role::System => {
            &[EntryFlags::META, EntryFlags::BOUNDARY, EntryFlags::LOCAL_COMMAND, EntryFlags::DISPLAY_ONLY]
        }
        Role::Attachment => &[EntryFlags::META, EntryFlags::QUEUED],
        Role::Progress | Role::Other => return false,
    };
    let mut rest = node.flags;
    for &flag in usual.iter().chain(&[
        EntryFlags::CANONICAL_UUID,
        EntryFlags::PARENT_KEY,
        EntryFlags::SIDECHAIN_KEY,
        EntryFlags::NO_REQUEST_ID,
    ]) {
        rest.clear(flag);
    }
    rest == EntryFlags::default()
}
