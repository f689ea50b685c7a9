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
pub fn newest_chain(facts: &Facts) -> Vec<usize> {
    match Line::of(facts) {
        Some(line) => (line.start..facts.nodes.len()).collect(),
        None => crate::resume::chain(facts, Client::NEWEST),
    }
}

/// Finds the last entry that the newest client sends, as an index of a node, if that is known at once.
pub(crate) fn newest_tip(facts: &Facts) -> Option<usize> {
    Line::of(facts)?;
    let last = facts.nodes.iter().rposition(Node::is_conversation)?;
    let silent = |node: &Node| node.role == Role::System && !node.flags.is_local_command();
    let sent = facts.blocks_of(last).iter().any(|block| !block.sort.is_thinking());
    (sent && facts.nodes[last + 1..].iter().all(silent)).then_some(last)
}

/// The same as [`harm`], of a session that is plain.
fn straight_harm(session: &Session, clients: &[Client]) -> Option<Vec<Finding>> {
    let facts = &session.facts;
    let plain = facts.defects.is_empty() && session.tree.defects.is_empty();
    let line = Line::of(facts).filter(|_| plain)?;
    if line.n_images > MAX_IMAGES {
        return None;
    }
    if line.n_bytes <= MAX_BYTES {
        return Some(Vec::new());
    }
    let (kind, severity) = (Kind::ContextTooLong, Severity::Refuses);
    let (detail, clients) = (too_long(line.n_bytes), clients.to_vec());
    Some(vec![Finding { line: None, kind, severity, detail, clients }])
}

/// A conversation that is one line.
#[derive(Default)]
struct Line {
    /// Its first entry behind the last compaction, or of all.
    start: usize,
    n_images: usize,
    /// The bytes of what is sent, but for thinking.
    n_bytes: u64,
}

/// What stood before an entry.
#[derive(Default)]
struct Before {
    /// The message whose rows stand right before it.
    message: Option<usize>,
    /// Calls without a result so far, and how many they are.
    open: Vec<bool>,
    n_open: usize,
    /// Somebody spoke since the beginning or the last compaction.
    begun: bool,
    /// What follows the last words stands in the order of time.
    in_time: bool,
}

impl Line {
    /// Looks at a session; nothing if there is anything about it that any client might take in another way.
    fn of(facts: &Facts) -> Option<Self> {
        let newest = facts.nodes.last()?.time;
        let once =
            facts.uses.len() == facts.calls.len() && facts.calls.iter().all(|call| call.n_results == 1);
        let odd = facts.null_line.is_some()
            || facts.has_duplicates()
            || !facts.preserved.is_empty()
            || !facts.retracted.is_empty()
            || !facts.orphan_results.is_empty();
        if odd || !once || newest.is_none() {
            return None;
        }
        let mut line = Self::default();
        let mut before = Before { open: vec![false; facts.calls.len()], ..Before::default() };
        let n_nodes = facts.nodes.len();
        for (at, node) in facts.nodes.iter().enumerate() {
            let above = at.checked_sub(1).map(|above| facts.nodes[above].uid);
            let hangs = match above {
                Some(above) if !node.flags.is_boundary() => node.parent == above,
                _ => node.parent.is_none(),
            };
            let in_time = !node.time.is_none() && (node.time < newest || at + 1 == n_nodes);
            if !hangs || !in_time || !is_usual(node) {
                return None;
            }
            if node.flags.is_boundary() {
                line = Self { start: at, ..Self::default() };
                before.begun = false;
            }
            before.take(facts, at, node)?;
            if node.is_conversation() {
                line.take(facts.blocks_of(at), node.role)?;
            }
        }
        let told = |at: &crate::facts::Checkpoint| {
            let on_line = at.leaf.is_none_or(|leaf| facts.node_of(leaf).is_some_and(|n| n >= line.start));
            let over = at.after as usize <= line.start && line.start > 0;
            !at.explicit && !at.null && !at.rewound && at.cut.is_none() && (on_line || over)
        };
        (before.n_open == 0 && before.begun && before.in_time && facts.checkpoints.iter().all(told))
            .then_some(line)
    }

    fn take(&mut self, blocks: &[Block], role: Role) -> Option<()> {
        if blocks.is_empty() {
            return None;
        }
        for block in blocks {
            match (block.sort, role) {
                (Sort::Text, _) | (Sort::Call, Role::Assistant) | (Sort::Result, Role::User) => {}
                (Sort::Thinking | Sort::Redacted, Role::Assistant) => continue,
                (Sort::Media, Role::User) if block.media <= MAX_IMAGE => self.n_images += 1,
                _ => return None,
            }
            self.n_bytes += u64::from(block.len.saturating_sub(block.media));
        }
        Some(())
    }
}

impl Before {
    /// Takes an entry; nothing if it does not stand where every client expects it.
    fn take(&mut self, facts: &Facts, at: usize, node: &Node) -> Option<()> {
        let blocks = facts.blocks_of(at);
        if node.role == Role::Assistant {
            let message = node.message()?;
            let goes_on = self.message == Some(message);
            let begins = facts.messages[message].first as usize == at && self.n_open == 0;
            if !(self.begun && (goes_on || begins)) {
                return None;
            }
            self.message = Some(message);
            self.in_time = true;
            for call in blocks.iter().filter(|block| block.sort == Sort::Call) {
                self.open[call.call()?] = true;
                self.n_open += 1;
            }
            return Some(());
        }
        self.message = None;
        self.begun |= node.role == Role::User;
        let above = at.checked_sub(1).map(|above| &facts.nodes[above]);
        let notes = !node.is_conversation() && above.is_some_and(|above| !above.is_conversation());
        self.in_time = !notes || self.in_time && above.is_some_and(|above| above.time <= node.time);
        for result in blocks.iter().filter(|block| block.sort == Sort::Result) {
            if !std::mem::replace(&mut self.open[result.call()?], false) {
                return None;
            }
            self.n_open -= 1;
        }
        (self.n_open == 0 || node.role == Role::User && node.flags.has_result()).then_some(())
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
    for &flag in usual.iter().chain(&[Flags::PARENT_KEY, Flags::SIDE_KEY, Flags::NO_REQUEST_ID]) {
        rest.clear(flag);
    }
    rest == Flags::default()
}
