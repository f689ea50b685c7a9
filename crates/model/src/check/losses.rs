//! Parts of the conversation that a client does not send, and the causes.
//!
//! A part counts as sent if the client sends the same block, or another with the same content in the same
//! message or for the same call: if history was written twice, clients send one of the two.

use std::cell::{OnceCell, RefCell};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{FindingKind, Findings, Severity};
use crate::client::Client;
use crate::facts::{Block, BlockClass, Facts, Role};
use crate::id::{Time, Uid};
use crate::index::{CallId, MessageNo, NodeId, Table};
use crate::resume::{IntendedPath, PartOrigin, Resume, calls_of_node};
use crate::rules::ClientRule;

/// Losses with the same cause.
struct Loss {
    line: Option<u32>,
    kind: FindingKind,
    /// The lines of the entries that are lost completely or in part.
    lines: Vec<u32>,
    /// More is lost than unanswered calls.
    has_content: bool,
}

/// An entry of the conversation that is not sent completely.
struct MissingEntry {
    node: NodeId,
    /// Its blocks that are not sent. Empty for a queued prompt.
    blocks: Vec<Block>,
}

impl Findings {
    pub(super) fn check_losses(
        &mut self,
        facts: &Facts,
        intended: &IntendedPath,
        client: Client,
        resumed: &Resume,
    ) {
        let sent = SentContent::new(facts, client, resumed);
        let missing = sent.missing_entries(intended);
        if missing.is_empty() {
            return;
        }
        let causes = LossCauses {
            resume_line: self.resume_line,
            ..LossCauses::new(facts, intended, client, resumed, sent)
        };
        let mut losses: Vec<Loss> = Vec::new();
        let mut known: FxHashMap<(Option<u32>, FindingKind), usize> = FxHashMap::default();
        let last_prompt = intended.chain.iter().rposition(|&node| facts.nodes[node].flags.is_human());
        let before: FxHashSet<NodeId> = intended.chain[..last_prompt.unwrap_or(0)].iter().copied().collect();
        for missing in missing {
            let (line, kind) = causes.cause_of(&missing);
            // An unanswered call at the end of the session is not a loss.
            let only_calls = missing.blocks.iter().all(|block| block.class == BlockClass::ToolCall);
            let counts = kind != FindingKind::OpenCall || !only_calls || before.contains(&missing.node);
            let at = *known.entry((line, kind)).or_insert(losses.len());
            if at == losses.len() {
                losses.push(Loss { line, kind, lines: Vec::new(), has_content: counts });
            }
            losses[at].lines.push(facts.location(missing.node).line);
            losses[at].has_content |= counts;
        }
        for Loss { line, kind, mut lines, has_content } in losses {
            lines.sort_unstable();
            lines.dedup();
            let n = lines.len();
            let entries = if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
            let detail = || format!("{}: {entries} of the conversation not sent", loss_description(kind));
            let severity = if has_content { Severity::Loss } else { Severity::Harmless };
            self.add_for(client, line, kind, severity, &detail).lost_lines = lines;
        }
    }
}

/// The scope of a block. Two blocks of one scope with the same content are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum BlockScope {
    Call(CallId),
    ResultOf(Option<CallId>),
    /// A message of the model, by its id.
    Message(Uid),
    /// A message without an id, by the time of its entry.
    AtTime(Time),
    /// A message with neither.
    Unidentified(MessageNo),
}

type BlockIdentity = (BlockScope, u32);

fn block_identity(facts: &Facts, node: NodeId, block: &Block) -> Option<BlockIdentity> {
    let scope = match block.class {
        BlockClass::ToolCall => BlockScope::Call(block.call?),
        BlockClass::ToolResult => BlockScope::ResultOf(block.call),
        _ => {
            let message = facts.nodes[node].message()?;
            match (facts.messages[message].id, facts.nodes[node].time) {
                (Some(id), _) => BlockScope::Message(id),
                (None, Some(time)) => BlockScope::AtTime(time),
                (None, None) => BlockScope::Unidentified(message),
            }
        }
    };
    Some((scope, block.fingerprint))
}

/// The sent blocks by content and by call.
#[derive(Default)]
struct SentIndex {
    contents: FxHashSet<BlockIdentity>,
    /// Calls that are sent.
    made: FxHashSet<Option<CallId>>,
    /// Calls that are answered with a result of the session.
    answered: FxHashSet<Option<CallId>>,
}

/// The parts of a session that a client sends.
struct SentContent<'a> {
    facts: &'a Facts,
    client: Client,
    /// Flags of the sent blocks, indexed like [`Facts::blocks`].
    blocks: Vec<bool>,
    /// Computed only if a block is not sent itself, which is rare.
    index: OnceCell<SentIndex>,
    /// Entries after the last compaction of the client's chain.
    entries: Table<NodeId, bool>,
}

impl<'a> SentContent<'a> {
    fn new(facts: &'a Facts, client: Client, resumed: &Resume) -> Self {
        let mut sent = Self {
            facts,
            client,
            blocks: vec![false; facts.blocks.len()],
            index: OnceCell::new(),
            entries: Table::filled(false, facts.nodes.len()),
        };
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            match part.origin {
                PartOrigin::Block(node, at) => sent.add(node, at as usize),
                // The client sends the text of this entry as a reminder.
                PartOrigin::Reminder(Some(node)) => {
                    for (at, block) in facts.blocks_of(node).iter().enumerate() {
                        if block.class.is_text() {
                            sent.add(node, at);
                        }
                    }
                }
                _ => {}
            }
        }
        let is_boundary = |node: &NodeId| facts.nodes[*node].flags.is_boundary();
        let start = resumed.chain.iter().rposition(is_boundary).unwrap_or(0);
        for &node in &resumed.chain[start..] {
            sent.entries[node] = true;
        }
        sent
    }

    fn add(&mut self, node: NodeId, at: usize) {
        if let Some(at) = self.facts.block_range(node).nth(at) {
            self.blocks[at] = true;
        }
    }

    /// Returns the sent blocks by content and by call.
    fn index(&self) -> &SentIndex {
        self.index.get_or_init(|| {
            let mut index = SentIndex::default();
            for node in self.facts.nodes.keys() {
                for (at, block) in self.facts.block_range(node).zip(self.facts.blocks_of(node)) {
                    if !self.blocks[at] {
                        continue;
                    }
                    index.contents.extend(block_identity(self.facts, node, block));
                    match block.class {
                        BlockClass::ToolCall => index.made.insert(block.call),
                        BlockClass::ToolResult => index.answered.insert(block.call),
                        _ => false,
                    };
                }
            }
            index
        })
    }

    /// Finds the entries of a path that are not sent completely.
    fn missing_entries(&self, intended: &IntendedPath) -> Vec<MissingEntry> {
        let missing = |&node: &NodeId| {
            let blocks = self.missing_blocks(node);
            (!blocks.is_empty() || self.misses_queued(node)).then_some(MissingEntry { node, blocks })
        };
        intended.chain.iter().filter_map(missing).collect()
    }

    /// Finds the blocks of an entry that have content and are not sent.
    fn missing_blocks(&self, node: NodeId) -> Vec<Block> {
        let fact = &self.facts.nodes[node];
        let flags = fact.flags;
        let of_client = fact.role == Role::Assistant && (flags.is_synthetic() || flags.is_failure_report());
        if !fact.is_conversation() || flags.is_virtual() || of_client {
            return Vec::new();
        }
        let is_content = |block: &Block| {
            matches!(
                block.class,
                BlockClass::Text
                    | BlockClass::ToolCall
                    | BlockClass::ToolResult
                    | BlockClass::Media
                    | BlockClass::Other
            )
        };
        let blocks = self.facts.block_range(node).zip(self.facts.blocks_of(node));
        let missing = blocks.filter(|(at, block)| {
            let same = || {
                block_identity(self.facts, node, block)
                    .is_some_and(|key| self.index().contents.contains(&key))
            };
            is_content(block) && !self.blocks[*at] && !same()
        });
        missing.map(|(_, block)| *block).collect()
    }

    /// Returns whether an entry is a queued prompt that is not on the client's path although the client knows
    /// the type.
    fn misses_queued(&self, node: NodeId) -> bool {
        let flags = self.facts.nodes[node].flags;
        flags.is_queued_prompt() && !flags.is_sidechain() && !self.entries[node] && {
            let attached = self.facts.attachments.get(&node);
            attached.is_some_and(|attached| attached.delivery_by(self.client).is_some())
        }
    }
}

/// Returns a description of the cause.
fn loss_description(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::DanglingParent => "its parent is not in the file",
        FindingKind::NoParent => "it has no parent",
        FindingKind::Cycle => "it is its own ancestor",
        FindingKind::NullLine => "the client stops reading at a line that is `null`",
        FindingKind::SeveralObjects => "the line contains more than one object",
        FindingKind::DuplicateUuid => "the uuid occurs twice",
        FindingKind::Incomplete => "the entry lacks its uuid or message",
        FindingKind::OpenCall => "the call has no result",
        FindingKind::OrphanResult => "the result has no call",
        FindingKind::SeveralResults => "the call has another result",
        FindingKind::MisplacedResult => "the result does not follow its call",
        FindingKind::QueuedPrompt => "the queued prompt is not on the client's path",
        FindingKind::RepeatedCall => "another message made the same call",
        FindingKind::InvalidContent => "the content is not a list of blocks",
        FindingKind::NoMessageId => "the answer has no message id, so its other entries are not found",
        FindingKind::ParallelCalls => "the client does not find entries next to parallel calls",
        FindingKind::ProgressEntries => "a progress entry breaks the chain",
        FindingKind::KeptMessages => "the client does not know which messages a compaction kept",
        FindingKind::OutOfOrder => "most entries come before their parents",
        FindingKind::ResumesLocalCommand => {
            "the client resumes after this entry, which is outside the conversation"
        }
        _ => "the client takes another branch",
    }
}

struct LossCauses<'a> {
    facts: &'a Facts,
    client: Client,
    in_chain: Table<NodeId, bool>,
    /// The entry at which the client's path ends although the conversation continues above it.
    broken_at: Option<(u32, FindingKind)>,
    /// The messages with rows on the client's path.
    message_on_path: Table<MessageNo, bool>,
    scrambled: bool,
    /// The line after which clients resume instead of the conversation.
    resume_line: Option<u32>,
    sent: SentContent<'a>,
    /// For entries between queued prompts and the user or assistant entry above them: whether that entry is
    /// on the client's path. Cached, because thousands of queued prompts may form one chain.
    follows_chain_cache: RefCell<FxHashMap<NodeId, bool>>,
}

impl<'a> LossCauses<'a> {
    fn new(
        facts: &'a Facts,
        intended: &IntendedPath,
        client: Client,
        resumed: &Resume,
        sent: SentContent<'a>,
    ) -> Self {
        let mut in_chain = Table::filled(false, facts.nodes.len());
        let mut message_on_path = Table::filled(false, facts.messages.len());
        for &node in &resumed.chain {
            in_chain[node] = true;
            if let Some(message) = facts.nodes[node].message() {
                message_on_path[message] = true;
            }
        }
        let broken_at =
            intended.chain.windows(2).rev().find(|pair| in_chain[pair[1]] && !in_chain[pair[0]]).and_then(
                |pair| Some((facts.location(pair[1]).line, break_cause(facts, intended, pair[1])?)),
            );
        Self {
            facts,
            client,
            in_chain,
            broken_at,
            message_on_path,
            scrambled: intended.scrambled,
            resume_line: None,
            sent,
            follows_chain_cache: RefCell::default(),
        }
    }

    fn cause_of(&self, missing: &MissingEntry) -> (Option<u32>, FindingKind) {
        let &MissingEntry { node, ref blocks } = missing;
        let facts = self.facts;
        let fact = &facts.nodes[node];
        let line = Some(facts.location(node).line);
        if fact.flags.is_preceded_on_line()
            || fact.flags.is_followed_on_line() && !self.client.has(ClientRule::ReadsFirstObjectOfLine)
        {
            return (line, FindingKind::SeveralObjects);
        }
        if facts.nodes_before_null.is_some_and(|after| {
            self.client.has(ClientRule::StopsAtNullLine) && node.index() >= after as usize
        }) {
            return (facts.null_line_no, FindingKind::NullLine);
        }
        if self.in_chain[node] {
            let kind = self.drop_cause(node, blocks);
            return (line.filter(|_| !kind.is_by_design()), kind);
        }
        let open = |b: &Block| b.class == BlockClass::ToolCall && self.is_open(b.call);
        if blocks.iter().any(open) && blocks.iter().all(|b| b.class != BlockClass::ToolCall || open(b)) {
            return (line, FindingKind::OpenCall);
        }
        if self.scrambled {
            return (None, FindingKind::OutOfOrder);
        }
        let host = match fact.role {
            Role::Assistant => fact.message(),
            _ => calls_of_node(&facts.result_sites, node)
                .next()
                .and_then(|call| facts.nodes[facts.calls[call].node].message()),
        };
        if host.is_some_and(|message| self.message_on_path[message]) {
            return (None, FindingKind::ParallelCalls);
        }
        if fact.flags.is_queued_prompt() && self.follows_chain(node) {
            return (line, FindingKind::QueuedPrompt);
        }
        match self.broken_at {
            Some((line, kind)) => (Some(line), kind),
            None if self.resume_line.is_some() => (self.resume_line, FindingKind::ResumesLocalCommand),
            None if !facts.preserved.is_empty() => (None, FindingKind::KeptMessages),
            None => (None, FindingKind::OtherBranch),
        }
    }

    /// Returns whether the nearest user or assistant ancestor of an entry is on the client's path.
    fn follows_chain(&self, node: NodeId) -> bool {
        let mut known = self.follows_chain_cache.borrow_mut();
        let mut trail = Vec::new();
        let mut at = self.facts.parent_of(node);
        let follows = loop {
            match at {
                None => break false,
                Some(above) if self.facts.nodes[above].is_conversation() => break self.in_chain[above],
                Some(above) => {
                    if let Some(&follows) = known.get(&above) {
                        break follows;
                    }
                    // A cycle does not lead to the path.
                    known.insert(above, false);
                    trail.push(above);
                    at = self.facts.parent_of(above);
                }
            }
        };
        known.extend(trail.into_iter().map(|passed| (passed, follows)));
        follows
    }

    /// Returns the reason why blocks of an entry on the client's path are not sent.
    fn drop_cause(&self, node: NodeId, blocks: &[Block]) -> FindingKind {
        let any = |class: BlockClass| blocks.iter().any(|block| block.class == class);
        if any(BlockClass::ToolCall) {
            let calls = || blocks.iter().filter(|block| block.class == BlockClass::ToolCall);
            let result_off_path = |b: &Block| {
                let result = b.call.and_then(|call| self.facts.calls[call].first_result());
                result.is_some_and(|result| !self.in_chain[result])
            };
            return match () {
                () if calls().any(|b| self.is_open(b.call)) => FindingKind::OpenCall,
                () if self.facts.nodes[node].flags.lacks_message_id() => FindingKind::NoMessageId,
                () if calls().any(|b| self.sent.index().made.contains(&b.call)) => FindingKind::RepeatedCall,
                () if calls().any(result_off_path) => FindingKind::ParallelCalls,
                () => FindingKind::MisplacedResult,
            };
        }
        if any(BlockClass::ToolResult) {
            let results = || blocks.iter().filter(|block| block.class == BlockClass::ToolResult);
            return match () {
                () if results().any(|b| b.call.is_none()) => FindingKind::OrphanResult,
                () if results().any(|b| self.sent.index().answered.contains(&b.call)) => {
                    FindingKind::SeveralResults
                }
                () => FindingKind::MisplacedResult,
            };
        }
        FindingKind::OtherBranch
    }

    fn is_open(&self, call: Option<CallId>) -> bool {
        call.is_none_or(|call| self.facts.calls[call].first_result().is_none())
    }
}

/// Returns the reason why the client's path ends above an entry.
fn break_cause(facts: &Facts, intended: &IntendedPath, node: NodeId) -> Option<FindingKind> {
    let broken = intended.broken_links.iter().find(|broken| broken.node == node).map(|broken| broken.defect);
    if let Some(broken) = broken {
        return Some(match broken {
            crate::resume::LinkDefect::Dangling => {
                let parent = facts.parent_of(node);
                let progress = parent.is_some_and(|p| facts.nodes[p].role == Role::Progress);
                if progress { FindingKind::ProgressEntries } else { FindingKind::DanglingParent }
            }
            crate::resume::LinkDefect::NoParent => FindingKind::NoParent,
            crate::resume::LinkDefect::Cycle => FindingKind::Cycle,
        });
    }
    let parent = facts.parent_of(node)?;
    match facts.nodes[parent].role {
        Role::Progress => Some(FindingKind::ProgressEntries),
        Role::User | Role::Assistant if facts.nodes[parent].flags.lacks_message() => {
            Some(FindingKind::Incomplete)
        }
        _ if facts.first_with_same_uuid(node) != node || facts.duplicates.contains_key(&parent) => {
            Some(FindingKind::DuplicateUuid)
        }
        _ => None,
    }
}
