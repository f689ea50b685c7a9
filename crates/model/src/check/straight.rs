//! Sessions of which nothing can be lost, known without asking any client.
//!
//! Where the entries are one line, every call is answered right behind it and nothing is odd, all rules of
//! all clients come to the same: the whole conversation since the last compaction is sent. Most clones are
//! so. Whatever is not quite that plain is left to [`super::check`].

use super::request::{MAX_BYTES, MAX_IMAGE, MAX_IMAGES, too_long};
use super::{Finding, Kind, Severity, check};
use crate::client::Client;
use crate::facts::{Block, Facts, Node, Role, Sort};
use crate::flags::Flags;
use crate::id::Uid;
use crate::resume::{Intended, intended_at};
use crate::session::Session;

/// Finds what some clients would lose or be refused of a session: what is harmful of what [`check`]
/// finds, and sooner where the session is plain.
pub fn harm(session: &Session, clients: &[Client]) -> Vec<Finding> {
    straight_harm(session, clients).unwrap_or_else(|| {
        let mut findings = check(session, clients);
        findings.retain(Finding::is_harmful);
        findings
    })
}

/// Returns the entries that the newest client goes on with, as indices of nodes.
pub fn newest_chain(session: &Session) -> Vec<usize> {
    let facts = &session.facts;
    match session.straight() {
        Some(line) => (line.start..facts.nodes.len()).collect(),
        None => crate::resume::chain(facts, Client::NEWEST),
    }
}

/// Finds the conversation that ends with an entry, or the one that the newest client would go on with: the
/// same as [`intended_at`], and sooner where the session is plain.
pub fn meant_at(session: &Session, end: Option<usize>) -> Intended {
    let facts = &session.facts;
    // Of an end before that, results of its calls may be part, and notes on it.
    let last = facts.nodes.iter().rposition(Node::is_conversation);
    let whole =
        end.is_none_or(|end| Some(end) == last) && last.is_some_and(|last| last + 1 == facts.nodes.len());
    match session.straight().filter(|_| whole) {
        Some(line) => {
            Intended { leaf: last, chain: (line.start..facts.nodes.len()).collect(), ..Intended::default() }
        }
        None => intended_at(facts, end),
    }
}

/// Finds the last entry that the newest client sends, as an index of a node, if that is known at once.
pub(crate) fn newest_tip(session: &Session) -> Option<usize> {
    session.straight()?;
    let facts = &session.facts;
    let last = facts.nodes.iter().rposition(Node::is_conversation)?;
    let silent = |node: &Node| node.role == Role::System && !node.flags.is_local_command();
    let sent = facts.blocks_of(last).iter().any(|block| !block.sort.is_thinking());
    (sent && facts.nodes[last + 1..].iter().all(silent)).then_some(last)
}

/// The same as [`harm`], of a session that is plain.
fn straight_harm(session: &Session, clients: &[Client]) -> Option<Vec<Finding>> {
    let facts = &session.facts;
    let plain = facts.defects.is_empty() && session.tree.defects.is_empty();
    session.straight().filter(|_| plain)?.harm(clients)
}

/// A conversation that is one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct Straight {
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
enum Progress {
    Unseen,
    Open,
    Answered,
}

/// What stood before an entry.
struct Before {
    /// The message whose rows stand right before it, and those of which any stood.
    message: Option<usize>,
    seen: Vec<bool>,
    /// What stood of calls, and how many have no result so far.
    calls: Vec<Progress>,
    n_open: usize,
    /// Somebody spoke since the beginning or the last compaction.
    begun: bool,
    /// What follows the last words stands in the order of time.
    in_time: bool,
    /// The entry right before it.
    above: Option<usize>,
}

/// Looks at a session as it is; nothing if there is anything about it that any client might take in another
/// way.
pub(crate) fn straight_in(facts: &Facts) -> Option<Straight> {
    if facts.null_line.is_some() {
        return None;
    }
    let hangs = |node: usize, on: Option<usize>| {
        facts.nodes[node].parent == on.map_or(Uid::NONE, |on| facts.nodes[on].uid)
    };
    let blocks = |node: usize| facts.blocks_of(node).iter().copied();
    let line = Straight::of(facts, 0..facts.nodes.len(), hangs, blocks)?;
    let told = |at: &crate::facts::Checkpoint| {
        let on_line = at.leaf.is_none_or(|leaf| facts.node_of(leaf).is_some_and(|n| n >= line.start));
        let over = at.after as usize <= line.start && line.start > 0;
        at.is_plain() && (on_line || over)
    };
    facts.checkpoints.iter().all(told).then_some(line)
}

impl Straight {
    /// Looks at entries of a session in the order in which they stand, or are to stand in a file of their
    /// own, with the blocks that they have then; nothing if there is anything about them that any client
    /// might take in another way. `hangs` tells whether an entry hangs on another, or on none.
    ///
    /// What the file says besides of where the conversation stands is not looked at.
    pub fn of<B: Iterator<Item = Block>>(
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
        let mut before = Before {
            message: None,
            seen: vec![false; facts.messages.len()],
            calls: vec![Progress::Unseen; facts.calls.len()],
            n_open: 0,
            begun: false,
            in_time: false,
            above: None,
        };
        // A prompt that was queued behind the last words is not found by every client.
        let mut queued_last = false;
        for (place, at) in rows.enumerate() {
            let node = &facts.nodes[at];
            queued_last = !node.is_conversation() && (queued_last || node.flags.is_queued_prompt());
            let hangs = hangs(at, before.above.filter(|_| !node.flags.is_boundary()));
            let in_time = !node.time.is_none() && (node.time < newest || at == last);
            if !hangs || !in_time || !is_usual(node) {
                return None;
            }
            if node.flags.is_boundary() {
                line = Self { start: place, messages: line.messages, ..Self::default() };
                before.begun = false;
            }
            line.messages += usize::from(before.take(facts, node, blocks(at))?);
            if node.is_conversation() {
                line.take(blocks(at), node.role)?;
            }
            before.above = Some(at);
        }
        (before.n_open == 0 && before.begun && before.in_time && !queued_last).then_some(line)
    }

    /// What clients would be refused of it; nothing if that is not known at once.
    pub fn harm(&self, clients: &[Client]) -> Option<Vec<Finding>> {
        if self.n_images > MAX_IMAGES {
            return None;
        }
        if self.n_bytes <= MAX_BYTES {
            return Some(Vec::new());
        }
        let (kind, severity) = (Kind::ContextTooLong, Severity::Refuses);
        let (detail, clients) = (too_long(self.n_bytes), clients.to_vec());
        Some(vec![Finding { line: None, kind, severity, detail, clients, lost: Vec::new() }])
    }

    fn take(&mut self, blocks: impl Iterator<Item = Block>, role: Role) -> Option<()> {
        let mut any = false;
        for block in blocks {
            any = true;
            match (block.sort, role) {
                (Sort::Text, _) | (Sort::Call, Role::Assistant) | (Sort::Result, Role::User) => {}
                (Sort::Thinking | Sort::Redacted, Role::Assistant) => continue,
                (Sort::Media, Role::User) if block.media <= MAX_IMAGE => self.n_images += 1,
                _ => return None,
            }
            self.n_bytes += u64::from(block.len.saturating_sub(block.media));
        }
        any.then_some(())
    }
}

impl Before {
    /// Takes an entry and tells whether a message begins with it; nothing if it does not stand where every
    /// client expects it.
    fn take(&mut self, facts: &Facts, node: &Node, blocks: impl Iterator<Item = Block>) -> Option<bool> {
        if node.role == Role::Assistant {
            let message = node.message()?;
            let goes_on = self.message == Some(message);
            let begins = !std::mem::replace(&mut self.seen[message], true) && self.n_open == 0;
            if !(self.begun && (goes_on || begins)) {
                return None;
            }
            self.message = Some(message);
            self.in_time = true;
            for call in blocks.filter(|block| block.sort == Sort::Call) {
                let call = &mut self.calls[call.call()?];
                if std::mem::replace(call, Progress::Open) != Progress::Unseen {
                    return None;
                }
                self.n_open += 1;
            }
            return Some(begins);
        }
        self.message = None;
        self.begun |= node.role == Role::User;
        let above = self.above.map(|above| &facts.nodes[above]);
        let notes = !node.is_conversation() && above.is_some_and(|above| !above.is_conversation());
        self.in_time = !notes || self.in_time && above.is_some_and(|above| above.time <= node.time);
        let mut answers = false;
        for result in blocks.filter(|block| block.sort == Sort::Result) {
            let call = &mut self.calls[result.call()?];
            if std::mem::replace(call, Progress::Answered) != Progress::Open {
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
    let usual: &[Flags] = match node.role {
        Role::User => &[
            Flags::META,
            Flags::SUMMARY,
            Flags::HUMAN,
            Flags::COMMAND,
            Flags::INTERRUPT,
            Flags::RESULT,
            Flags::TEXT,
            Flags::MEDIA,
            Flags::STRING,
            Flags::RESULT_COPY,
            Flags::CAVEAT,
            Flags::RECORD,
            Flags::OUTPUT,
            Flags::SLASH,
            Flags::STOPPED,
            Flags::COMPANION,
        ],
        Role::Assistant => &[Flags::CALL, Flags::TEXT, Flags::THINKING, Flags::SYNTHETIC],
        Role::System => &[Flags::META, Flags::BOUNDARY, Flags::LOCAL_COMMAND, Flags::DISPLAY_ONLY],
        Role::Attachment => &[Flags::META, Flags::QUEUED],
        Role::Progress | Role::Other => return false,
    };
    let mut rest = node.flags;
    for &flag in usual.iter().chain(&[Flags::UUID, Flags::PARENT_KEY, Flags::SIDE_KEY, Flags::NO_REQUEST_ID])
    {
        rest.clear(flag);
    }
    rest == Flags::default()
}
