//! Parts of the conversation that a client does not send, and why.
//!
//! A part counts as sent if the client sends that very block, or another with the same content in the same
//! message or for the same call: where history was written twice, clients send one of the two.

use std::cell::RefCell;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Findings, Kind, Severity, index};
use crate::client::Client;
use crate::facts::{Block, Facts, NONE, Role, Sort};
use crate::id::{Time, Uid};
use crate::resume::{Intended, Resume, What, places_of};

/// Losses of one cause.
struct Loss {
    line: Option<u32>,
    kind: Kind,
    /// The lines of the entries that are lost, whole or in part.
    lines: Vec<u32>,
    /// More than calls that nobody answered.
    words: bool,
}

/// An entry of the conversation of which something is not sent.
struct Missing {
    node: usize,
    /// Its blocks that are not sent; none of a queued prompt.
    blocks: Vec<Block>,
}

impl Findings {
    pub(super) fn losses(&mut self, facts: &Facts, meant: &Intended, client: Client, resumed: &Resume) {
        let sent = Sent::new(facts, client, resumed);
        let missing = sent.missing_of(meant);
        if missing.is_empty() {
            return;
        }
        let causes = Causes { left_at: self.left_at, ..Causes::new(facts, meant, client, resumed, sent) };
        let mut losses: Vec<Loss> = Vec::new();
        let mut known: FxHashMap<(Option<u32>, Kind), usize> = FxHashMap::default();
        let asked = meant.chain.iter().rposition(|&node| facts.nodes[node].flags.is_human());
        let before: FxHashSet<usize> = meant.chain[..asked.unwrap_or(0)].iter().copied().collect();
        for missing in missing {
            let (line, kind) = causes.of(&missing);
            // That a call which the end of the session cut off is not made again is no loss.
            let only_calls = missing.blocks.iter().all(|block| block.sort == Sort::Call);
            let words = kind != Kind::OpenCall || !only_calls || before.contains(&missing.node);
            let at = *known.entry((line, kind)).or_insert(losses.len());
            if at == losses.len() {
                losses.push(Loss { line, kind, lines: Vec::new(), words });
            }
            losses[at].lines.push(facts.place(missing.node).line);
            losses[at].words |= words;
        }
        for Loss { line, kind, mut lines, words } in losses {
            lines.sort_unstable();
            lines.dedup();
            let n = lines.len();
            let entries = if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
            let detail = || format!("{}: {entries} of the conversation not sent", loss_of(kind));
            let severity = if words { Severity::Loses } else { Severity::Odd };
            self.add_for(client, line, kind, severity, &detail).lost = lines;
        }
    }
}

/// What a block belongs to. Two blocks of one scope with the same content are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scope {
    Call(u32),
    ResultOf(u32),
    /// A message of the model, by its id.
    Message(Uid),
    /// A message without an id, by the time of its entry.
    At(Time),
    /// A message with neither.
    Nameless(u32),
}

type ContentKey = (Scope, u32);

fn content_key(facts: &Facts, node: usize, block: &Block) -> Option<ContentKey> {
    let scope = match block.sort {
        Sort::Call => Scope::Call(block.call().and(Some(block.call))?),
        Sort::Result => Scope::ResultOf(block.call),
        _ => {
            let message = facts.nodes[node].message()?;
            let (id, time) = (facts.messages[message].id, facts.nodes[node].time);
            match (id.is_none(), time.is_none()) {
                (false, _) => Scope::Message(id),
                (true, false) => Scope::At(time),
                (true, true) => Scope::Nameless(index(message)),
            }
        }
    };
    Some((scope, block.print))
}

/// The parts of a session that a client sends.
struct Sent<'a> {
    facts: &'a Facts,
    client: Client,
    /// By place in [`Facts::blocks`].
    blocks: Vec<bool>,
    contents: FxHashSet<ContentKey>,
    /// Calls that are made, and those that are answered with a result of the session.
    made: FxHashSet<u32>,
    answered: FxHashSet<u32>,
    /// Entries behind the last compaction of the client's chain.
    entries: Vec<bool>,
}

impl<'a> Sent<'a> {
    fn new(facts: &'a Facts, client: Client, resumed: &Resume) -> Self {
        let mut sent = Self {
            facts,
            client,
            blocks: vec![false; facts.blocks.len()],
            contents: FxHashSet::default(),
            made: FxHashSet::default(),
            answered: FxHashSet::default(),
            entries: vec![false; facts.nodes.len()],
        };
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            match part.what {
                What::Block(node, at) => sent.add(node as usize, at as usize),
                // The client tells the words of this entry as its own.
                What::Note(Some(node)) if (node as usize) < facts.nodes.len() => {
                    for (at, block) in facts.blocks_of(node as usize).iter().enumerate() {
                        if block.sort.is_text() {
                            sent.add(node as usize, at);
                        }
                    }
                }
                _ => {}
            }
        }
        let is_boundary = |node: &usize| facts.nodes[*node].flags.is_boundary();
        let start = resumed.chain.iter().rposition(is_boundary).unwrap_or(0);
        for &node in &resumed.chain[start..] {
            sent.entries[node] = true;
        }
        sent
    }

    fn add(&mut self, node: usize, at: usize) {
        let Some(block) = self.facts.blocks_of(node).get(at) else { return };
        self.blocks[self.facts.block_starts[node] as usize + at] = true;
        self.contents.extend(content_key(self.facts, node, block));
        match block.sort {
            Sort::Call => self.made.insert(block.call),
            Sort::Result => self.answered.insert(block.call),
            _ => false,
        };
    }

    /// Finds what of a conversation is not sent.
    fn missing_of(&self, meant: &Intended) -> Vec<Missing> {
        let missing = |&node: &usize| {
            let blocks = self.missing_blocks(node);
            (!blocks.is_empty() || self.misses_queued(node)).then_some(Missing { node, blocks })
        };
        meant.chain.iter().filter_map(missing).collect()
    }

    /// Finds the blocks of an entry that say something and are not sent.
    fn missing_blocks(&self, node: usize) -> Vec<Block> {
        let fact = &self.facts.nodes[node];
        let flags = fact.flags;
        let of_client = fact.role == Role::Assistant && (flags.is_synthetic() || flags.is_failure_report());
        if !fact.is_conversation() || flags.is_virtual() || of_client {
            return Vec::new();
        }
        let start = self.facts.block_starts[node] as usize;
        let says = |block: &Block| {
            matches!(block.sort, Sort::Text | Sort::Call | Sort::Result | Sort::Media | Sort::Other)
        };
        let blocks = self.facts.blocks_of(node).iter().enumerate();
        let missing = blocks.filter(|(at, block)| {
            let same =
                || content_key(self.facts, node, block).is_some_and(|key| self.contents.contains(&key));
            says(block) && !self.blocks[start + at] && !same()
        });
        missing.map(|(_, block)| *block).collect()
    }

    /// Returns whether an entry is a prompt that was queued and the client, which knows such entries, does not
    /// come by it.
    fn misses_queued(&self, node: usize) -> bool {
        let flags = self.facts.nodes[node].flags;
        flags.is_queued_prompt() && !flags.is_sidechain() && !self.entries[node] && {
            let attached = self.facts.attachments.get(&index(node));
            attached.is_some_and(|attached| attached.said_by(self.client).is_some())
        }
    }
}

/// What the client does, in words.
fn loss_of(kind: Kind) -> &'static str {
    match kind {
        Kind::DanglingParent => "its parent is not in the file",
        Kind::NoParent => "it has no parent",
        Kind::Cycle => "it is its own ancestor",
        Kind::NullLine => "the client reads no further than a line that is `null`",
        Kind::SeveralObjects => "the line holds more than one object",
        Kind::DuplicateUuid => "the uuid stands twice",
        Kind::Incomplete => "the entry lacks its uuid or message",
        Kind::OpenCall => "the call has no result",
        Kind::OrphanResult => "the result has no call",
        Kind::SeveralResults => "the call has another result",
        Kind::MisplacedResult => "the result does not stand behind its call",
        Kind::QueuedPrompt => "the client does not find a queued prompt beside its path",
        Kind::RepeatedCall => "another message made the same call",
        Kind::OddContent => "the content is no list of blocks",
        Kind::NoMessageId => "the answer has no message id, so its rows are not found",
        Kind::ParallelCalls => "the client does not find what stands beside parallel calls",
        Kind::ProgressEntries => "a progress entry breaks the chain",
        Kind::KeptMessages => "the client does not know what a compaction kept",
        Kind::OutOfOrder => "most entries stand before their parents",
        Kind::LeftBehind => "the client resumes after this entry, which is beside the conversation",
        _ => "the client takes another branch",
    }
}

struct Causes<'a> {
    facts: &'a Facts,
    client: Client,
    in_chain: Vec<bool>,
    /// The entry at which the client's way up ends although the conversation goes on.
    broken_at: Option<(u32, Kind)>,
    /// The messages with rows on the client's way.
    on_way: Vec<bool>,
    scrambled: bool,
    /// The line after which clients resume in place of the conversation.
    left_at: Option<u32>,
    sent: Sent<'a>,
    /// Entries between queued prompts and the words that they were attached to, and whether those are on the client's
    /// path: thousands of prompts may hang on each other.
    followed: RefCell<FxHashMap<usize, bool>>,
}

impl<'a> Causes<'a> {
    fn new(facts: &'a Facts, meant: &Intended, client: Client, resumed: &Resume, sent: Sent<'a>) -> Self {
        let mut in_chain = vec![false; facts.nodes.len()];
        let mut on_way = vec![false; facts.messages.len()];
        for &node in &resumed.chain {
            in_chain[node] = true;
            if let Some(message) = facts.nodes[node].message() {
                on_way[message] = true;
            }
        }
        let broken_at = meant
            .chain
            .windows(2)
            .rev()
            .find(|pair| in_chain[pair[1]] && !in_chain[pair[0]])
            .and_then(|pair| Some((facts.place(pair[1]).line, break_at(facts, meant, pair[1])?)));
        Self {
            facts,
            client,
            in_chain,
            broken_at,
            on_way,
            scrambled: meant.scrambled,
            left_at: None,
            sent,
            followed: RefCell::default(),
        }
    }

    fn of(&self, missing: &Missing) -> (Option<u32>, Kind) {
        let &Missing { node, ref blocks } = missing;
        let facts = self.facts;
        let fact = &facts.nodes[node];
        let line = Some(facts.place(node).line);
        if fact.flags.stands_behind() || fact.flags.stands_before() && self.client < Client::V2_1_200 {
            return (line, Kind::SeveralObjects);
        }
        if facts.null_line.is_some_and(|after| self.client.stops_at_null() && node >= after as usize) {
            return (facts.null_at, Kind::NullLine);
        }
        if self.in_chain[node] {
            let kind = self.dropped(node, blocks);
            return (line.filter(|_| !kind.is_by_design()), kind);
        }
        let open = |b: &Block| b.sort == Sort::Call && self.is_open(b.call);
        if blocks.iter().any(open) && blocks.iter().all(|b| b.sort != Sort::Call || open(b)) {
            return (line, Kind::OpenCall);
        }
        if self.scrambled {
            return (None, Kind::OutOfOrder);
        }
        let host = match fact.role {
            Role::Assistant => fact.message(),
            _ => places_of(&facts.answers, index(node))
                .next()
                .and_then(|call| facts.nodes[facts.calls[call as usize].node as usize].message()),
        };
        if host.is_some_and(|message| self.on_way[message]) {
            return (None, Kind::ParallelCalls);
        }
        if fact.flags.is_queued_prompt() && self.follows_chain(node) {
            return (line, Kind::QueuedPrompt);
        }
        match self.broken_at {
            Some((line, kind)) => (Some(line), kind),
            None if self.left_at.is_some() => (self.left_at, Kind::LeftBehind),
            None if !facts.preserved.is_empty() => (None, Kind::KeptMessages),
            None => (None, Kind::OtherBranch),
        }
    }

    /// Returns whether the words that an entry was attached to are on the client's path.
    fn follows_chain(&self, node: usize) -> bool {
        let mut known = self.followed.borrow_mut();
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
                    // A way that comes back here leads nowhere.
                    known.insert(above, false);
                    trail.push(above);
                    at = self.facts.parent_of(above);
                }
            }
        };
        known.extend(trail.into_iter().map(|passed| (passed, follows)));
        follows
    }

    /// Returns why blocks of an entry on the client's path are not sent.
    fn dropped(&self, node: usize, blocks: &[Block]) -> Kind {
        let any = |sort: Sort| blocks.iter().any(|block| block.sort == sort);
        if any(Sort::Call) {
            let calls = || blocks.iter().filter(|block| block.sort == Sort::Call);
            let beside = |b: &Block| {
                let call = self.facts.calls.get(b.call as usize);
                call.and_then(|c| c.result()).is_some_and(|r| !self.in_chain[r])
            };
            return match () {
                () if calls().any(|b| self.is_open(b.call)) => Kind::OpenCall,
                () if self.facts.nodes[node].flags.lacks_message_id() => Kind::NoMessageId,
                () if calls().any(|b| self.sent.made.contains(&b.call)) => Kind::RepeatedCall,
                () if calls().any(beside) => Kind::ParallelCalls,
                () => Kind::MisplacedResult,
            };
        }
        if any(Sort::Result) {
            let results = || blocks.iter().filter(|block| block.sort == Sort::Result);
            return match () {
                () if results().any(|b| b.call == NONE) => Kind::OrphanResult,
                () if results().any(|b| self.sent.answered.contains(&b.call)) => Kind::SeveralResults,
                () => Kind::MisplacedResult,
            };
        }
        Kind::OtherBranch
    }

    fn is_open(&self, call: u32) -> bool {
        self.facts.calls.get(call as usize).is_none_or(|call| call.result().is_none())
    }
}

/// Why the client's way ends above an entry.
fn break_at(facts: &Facts, meant: &Intended, node: usize) -> Option<Kind> {
    let broken = meant.breaks.iter().find(|broken| broken.node == node).map(|broken| broken.why);
    if let Some(broken) = broken {
        return Some(match broken {
            crate::resume::Break::Dangling => {
                let parent = facts.node_of(facts.nodes[node].parent);
                let progress = parent.is_some_and(|p| facts.nodes[p].role == Role::Progress);
                if progress { Kind::ProgressEntries } else { Kind::DanglingParent }
            }
            crate::resume::Break::NoParent => Kind::NoParent,
            crate::resume::Break::Cycle => Kind::Cycle,
        });
    }
    let parent = facts.node_of(facts.nodes[node].parent)?;
    match facts.nodes[parent].role {
        Role::Progress => Some(Kind::ProgressEntries),
        Role::User | Role::Assistant if facts.nodes[parent].flags.lacks_message() => Some(Kind::Incomplete),
        _ if facts.first_of(node) != node || facts.duplicates.contains_key(&index(parent)) => {
            Some(Kind::DuplicateUuid)
        }
        _ => None,
    }
}
