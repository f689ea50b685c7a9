//! What of the conversation a client does not send, and why.

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Findings, Kind, Severity, index, says_something};
use crate::client::Client;
use crate::facts::{Facts, NONE, Role, Sort};
use crate::resume::{Intended, Resume, What, places_of};

/// Losses of one cause.
struct Loss {
    line: Option<u32>,
    kind: Kind,
    n: usize,
    /// More than calls that nobody answered.
    words: bool,
}

impl Findings {
    pub(super) fn losses(&mut self, facts: &Facts, meant: &Intended, client: Client, resumed: &Resume) {
        let mut sent = vec![false; facts.nodes.len()];
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            if let What::Block(node, _) | What::Note(Some(node)) = part.what
                && let Some(sent) = sent.get_mut(node as usize)
            {
                *sent = true;
            }
        }
        let lost: Vec<usize> =
            meant.chain.iter().copied().filter(|&n| !sent[n] && says_something(facts, n)).collect();
        if lost.is_empty() {
            return;
        }
        let causes = Causes::new(facts, meant, client, resumed);
        let mut losses: Vec<Loss> = Vec::new();
        let mut known: FxHashMap<(Option<u32>, Kind), usize> = FxHashMap::default();
        let asked = meant.chain.iter().rposition(|&node| facts.nodes[node].flags.is_human());
        let before: FxHashSet<usize> = meant.chain[..asked.unwrap_or(0)].iter().copied().collect();
        for node in lost {
            let (line, kind) = causes.of(node);
            // That a call which the end of the session cut off is not made again is no loss.
            let only_calls = facts.blocks_of(node).iter().all(|b| b.sort == Sort::Call || b.sort.is_blank());
            let words = kind != Kind::OpenCall || !only_calls || before.contains(&node);
            let at = *known.entry((line, kind)).or_insert(losses.len());
            if at == losses.len() {
                losses.push(Loss { line, kind, n: 0, words });
            }
            losses[at].n += 1;
            losses[at].words |= words;
        }
        for Loss { line, kind, n, words } in losses {
            let entries = if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
            let detail = || format!("{}: {entries} of the conversation not sent", loss_of(kind));
            self.add_for(client, line, kind, if words { Severity::Loses } else { Severity::Odd }, &detail);
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
        Kind::RepeatedCall => "another message made the same call",
        Kind::OddContent => "the content is no list of blocks",
        Kind::NoMessageId => "the answer has no message id, so its rows are not found",
        Kind::ParallelCalls => "the client does not find what stands beside parallel calls",
        Kind::ProgressEntries => "a progress entry breaks the chain",
        Kind::KeptMessages => "the client does not know what a compaction kept",
        Kind::OutOfOrder => "most entries stand before their parents",
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
}

impl<'a> Causes<'a> {
    fn new(facts: &'a Facts, meant: &Intended, client: Client, resumed: &Resume) -> Self {
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
        Self { facts, client, in_chain, broken_at, on_way, scrambled: meant.scrambled }
    }

    fn of(&self, node: usize) -> (Option<u32>, Kind) {
        let facts = self.facts;
        let fact = &facts.nodes[node];
        let line = Some(facts.place(node).line);
        let blocks = facts.blocks_of(node);
        if fact.flags.stands_behind() || fact.flags.stands_before() && self.client < Client::V2_1_200 {
            return (line, Kind::SeveralObjects);
        }
        if facts.null_line.is_some_and(|after| self.client.stops_at_null() && node >= after as usize) {
            return (facts.null_at, Kind::NullLine);
        }
        if self.in_chain[node] {
            let kind = self.dropped(node);
            return (line.filter(|_| !kind.is_by_design()), kind);
        }
        let open = |b: &crate::facts::Block| b.sort == Sort::Call && self.is_open(b.call);
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
        match self.broken_at {
            Some((line, kind)) => (Some(line), kind),
            None if !facts.preserved.is_empty() => (None, Kind::KeptMessages),
            None => (None, Kind::OtherBranch),
        }
    }

    /// Why an entry on the client's way is not sent.
    fn dropped(&self, node: usize) -> Kind {
        let blocks = self.facts.blocks_of(node);
        let any = |sort: Sort| blocks.iter().any(|block| block.sort == sort);
        if any(Sort::Call) {
            let open = blocks.iter().any(|b| b.sort == Sort::Call && self.is_open(b.call));
            let beside = |b: &crate::facts::Block| {
                let call = self.facts.calls.get(b.call as usize);
                b.sort == Sort::Call && call.and_then(|c| c.result()).is_some_and(|r| !self.in_chain[r])
            };
            return match open {
                true => Kind::OpenCall,
                false if self.facts.nodes[node].flags.lacks_message_id() => Kind::NoMessageId,
                false if blocks.iter().any(beside) => Kind::ParallelCalls,
                false => Kind::RepeatedCall,
            };
        }
        if any(Sort::Result) {
            let orphan = blocks.iter().any(|b| b.sort == Sort::Result && b.call == NONE);
            return if orphan { Kind::OrphanResult } else { Kind::SeveralResults };
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
