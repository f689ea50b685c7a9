//! Sessions of which nothing can be lost, known without asking any client.
//!
//! Where the entries are one line, every call is answered right behind it and nothing is odd, all rules of
//! all clients come to the same: the whole conversation since the last compaction is sent. Most clones are
//! so. Whatever is not quite that plain is left to [`super::check`].

use super::request::{MAX_IMAGE_BYTES, MAX_IMAGES, MAX_REQUEST_BYTES, too_long_detail};
use super::{Finding, FindingKind, Severity, check};
use crate::client::Client;
use crate::facts::{Block, BlockClass, Facts, Node, Role};
use crate::flags::EntryFlags;
use crate::id::Uid;
use crate::resume::{IntendedPath, intended_path_to};
use crate::session::Session;

/// Finds what some clients would lose or be refused of a session: what is harmful of what [`check`]
/// finds, and sooner where the session is plain.
pub fn harmful_findings(session: &Session, clients: &[Client]) -> Vec<Finding> {
    linear_harmful_findings(session, clients).unwrap_or_else(|| {
        let mut findings = check(session, clients);
        findings.retain(Finding::is_harmful);
        findings
    })
}

/// Returns the entries that the newest client goes on with, as indices of nodes.
pub fn newest_client_chain(session: &Session) -> Vec<usize> {
    let facts = &session.facts;
    match session.linear() {
        Some(line) => (line.start..facts.nodes.len()).collect(),
        None => crate::resume::resumed_chain(facts, Client::NEWEST),
    }
}

/// Finds the conversation that ends with an entry, or the one that the newest client would go on with: the
/// same as [`intended_path_to`], and sooner where the session is plain.
pub fn session_intended_path(session: &Session, end: Option<usize>) -> IntendedPath {
    let facts = &session.facts;
    // Of an end before that, results of its calls may be part, and notes on it.
    let last = facts.nodes.iter().rposition(Node::is_conversation);
    let whole =
        end.is_none_or(|end| Some(end) == last) && last.is_some_and(|last| last + 1 == facts.nodes.len());
    match session.linear().filter(|_| whole) {
        Some(line) => IntendedPath {
            leaf: last,
            chain: (line.start..facts.nodes.len()).collect(),
            ..IntendedPath::default()
        },
        None => intended_path_to(facts, end),
    }
}

/// Finds the last entry that the newest client sends, as an index of a node, if that is known at once.
pub(crate) fn newest_client_tip(session: &Session) -> Option<usize> {
    session.linear()?;
    let facts = &session.facts;
    let last = facts.nodes.iter().rposition(Node::is_conversation)?;
    let silent = |node: &Node| node.role == Role::System && !node.flags.is_local_command();
    let sent = facts.blocks_of(last).iter().any(|block| !block.class.is_thinking());
    (sent && facts.nodes[last + 1..].iter().all(silent)).then_some(last)
}

/// The same as [`harm`], of a session that is plain.
fn linear_harmful_findings(session: &Session, clients: &[Client]) -> Option<Vec<Finding>> {
    let facts = &session.facts;
    let plain = facts.defects.is_empty() && session.tree.defects.is_empty();
    session.linear().filter(|_| plain)?.harmful_findings(clients)
}

/// A conversation that is one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct LinearConversation {
    /// The place of its first entry behind the last compaction, or of all.
    pub start: usize,
    /// How many messages it has, also before that.
    pub messages: usize,
    n_images: usize,
    /// The bytes of what is sent, but for thinking.
    n_bytes: u64,
}

/// How far a call has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallProgress {
    Unseen,
    Open,
    Answered,
}

/// What stood before an entry.
struct PrecedingEntries {
    /// The message whose rows stand right before it, and those of which any stood.
    message: Option<usize>,
    seen: Vec<bool>,
    /// What stood of calls, and how many have no result so far.
    calls: Vec<CallProgress>,
    n_open: usize,
    /// Somebody spoke since the beginning or the last compaction.
    has_user_entry: bool,
    /// What follows the last words stands in the order of time.
    in_time_order: bool,
    /// The entry right before it.
    previous: Option<usize>,
}

/// Looks at a session as it is; nothing if there is anything about it that any client might take in another
/// way.
pub(crate) fn linear_conversation(facts: &Facts) -> Option<LinearConversation> {
    if facts.nodes_before_null.is_some() {
        return None;
    }
    let hangs = |node: usize, on: Option<usize>| {
        facts.nodes[node].parent == on.map_or(Uid::NONE, |on| facts.nodes[on].uid)
    };
    let blocks = |node: usize| facts.blocks_of(node).iter().copied();
    let line = LinearConversation::detect(facts, 0..facts.nodes.len(), hangs, blocks)?;
    let told = |at: &crate::facts::Checkpoint| {
        let on_line = at.leaf.is_none_or(|leaf| facts.node_of(leaf).is_some_and(|n| n >= line.start));
        let over = at.nodes_before as usize <= line.start && line.start > 0;
        at.is_implicit() && (on_line || over)
    };
    facts.checkpoints.iter().all(told).then_some(line)
}

impl LinearConversation {
    /// Looks at entries of a session in the order in which they stand, or are to stand in a file of their
    /// own, with the blocks that they have then; nothing if there is anything about them that any client
    /// might take in another way. `hangs` tells whether an entry hangs on another, or on none.
    ///
    /// What the file says besides of where the conversation stands is not looked at.
    pub fn detect<B: Iterator<Item = Block>>(
        facts: &Facts,
        rows: impl DoubleEndedIterator<Item = usize> + Clone,
        hangs: impl Fn(usize, Option<usize>) -> bool,
        blocks: impl Fn(usize) -> B,
    ) -> Option<Self> {
        let last = rows.clone().next_back()?;
        let newest = facts.nodes[last].time;
        let odd = facts.has_duplicates() || !facts.preserved.is_empty() || !facts.retracted.is_empty();
        if odd || newest.is_none() {
            return None;
        }
        let mut line = Self::default();
        let mut before = PrecedingEntries {
            message: None,
            seen: vec![false; facts.messages.len()],
            calls: vec![CallProgress::Unseen; facts.calls.len()],
            n_open: 0,
            has_user_entry: false,
            in_time_order: false,
            previous: None,
        };
        // A prompt that was queued behind the last words is not found by every client.
        let mut queued_last = false;
        for (place, at) in rows.enumerate() {
            let node = &facts.nodes[at];
            queued_last = !node.is_conversation() && (queued_last || node.flags.is_queued_prompt());
            let hangs = hangs(at, before.previous.filter(|_| !node.flags.is_boundary()));
            let in_time = !node.time.is_none() && (node.time < newest || at == last);
            if !hangs || !in_time || !is_usual(node) {
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

    /// What clients would be refused of it; nothing if that is not known at once.
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
    /// Takes an entry and tells whether a message begins with it; nothing if it does not stand where every
    /// client expects it.
    fn add_entry(&mut self, facts: &Facts, node: &Node, blocks: impl Iterator<Item = Block>) -> Option<bool> {
        if node.role == Role::Assistant {
            let message = node.message()?;
            let goes_on = self.message == Some(message);
            let begins = !std::mem::replace(&mut self.seen[message], true) && self.n_open == 0;
            if !(self.has_user_entry && (goes_on || begins)) {
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

/// Tells whether nothing is true of an entry for which any client would drop it or something before it.
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
