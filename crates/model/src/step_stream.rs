//! A part of a conversation whose text is read while it is shown.
//!
//! A [`StepSequence`] determines from the facts alone which steps are shown and which result belongs to
//! which call. A [`StepStream`] adds the text: it is read from the log in chunks of about a megabyte,
//! converted to items, shown and dropped, so that showing a log of any size needs memory only for its facts
//! and its largest step.

use std::io;

use rethread_log::Line;

use crate::facts::EntryLocation;
use crate::index::{CallId, EntryNo, IndexGroups, MessageNo, NodeId, StepId, Table};
use crate::session::Session;
use crate::step_sequence::{ItemHeader, StepItems, StepSequence, StreamPlace};
use crate::view::{EntrySource, MessageKind, Reader, ShownBlocks, TranscriptItem, message_kind};

/// Random access to the bytes of a log.
pub trait RandomAccessLog: Sync {
    /// Fills a buffer with the bytes from `offset`.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Returns whether an entry still has the bytes that it had when the facts were read.
    fn is_unchanged(&self, number: EntryNo, entry: &[u8]) -> bool;

    /// Returns the whole log if it is in memory; its entries are then not copied.
    fn in_memory(&self) -> Option<&[u8]> {
        None
    }
}

/// The number of bytes that are read at a time, unless one step is larger.
pub(crate) const CHUNK: usize = 1 << 20;
/// The maximum gap between two entries that is read instead of skipped.
const MAX_GAP: u64 = 16 << 10;

/// Some entries of a log.
#[derive(Debug, Default)]
pub struct EntryChunk {
    bytes: Vec<u8>,
    /// The number of each entry and its range in `bytes`, in log order.
    entries: Vec<(EntryNo, usize, usize)>,
}

impl EntrySource for EntryChunk {
    fn entry_bytes(&self, number: EntryNo, _: EntryLocation) -> &[u8] {
        let found = self.entries.binary_search_by_key(&number, |&(number, ..)| number);
        found.map_or(&[], |at| &self.bytes[self.entries[at].1..self.entries[at].2])
    }
}

impl EntryChunk {
    /// Reads the entries of some nodes.
    pub fn load(
        session: &Session,
        text: &dyn RandomAccessLog,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> io::Result<Self> {
        let mut chunk = Self::default();
        chunk.reload(session, text, nodes)?;
        Ok(chunk)
    }

    fn reload(
        &mut self,
        session: &Session,
        text: &dyn RandomAccessLog,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> io::Result<()> {
        let facts = &session.facts;
        let mut numbers: Vec<EntryNo> = nodes.into_iter().map(|node| facts.nodes[node].entry).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.entries.clear();
        // The buffer is reused, but not one that was grown for a huge step.
        if self.bytes.capacity() > 8 * CHUNK {
            self.bytes = Vec::new();
        }
        let location = |number: EntryNo| facts.locations[number];
        let end = |entry: EntryLocation| entry.offset + u64::from(entry.len);
        let near =
            |a: &EntryNo, b: &EntryNo| location(*b).offset.saturating_sub(end(location(*a))) <= MAX_GAP;
        let total =
            numbers.chunk_by(near).map(|run| end(location(run[run.len() - 1])) - location(run[0]).offset);
        let total = usize::try_from(total.sum::<u64>()).map_err(io::Error::other)?;
        self.bytes.resize(total, 0);
        let mut at = 0;
        for run in numbers.chunk_by(near) {
            let start = location(run[0]).offset;
            let len = (end(location(run[run.len() - 1])) - start) as usize;
            text.read_at(start, &mut self.bytes[at..at + len])?;
            for &number in run {
                let from = at + (location(number).offset - start) as usize;
                let to = from + location(number).len as usize;
                if !text.is_unchanged(number, &self.bytes[from..to]) {
                    return Err(io::Error::new(
                        io::ErrorKind::ResourceBusy,
                        "the session changed while it was being read",
                    ));
                }
                self.entries.push((number, from, to));
            }
            at += len;
        }
        Ok(())
    }

    /// Passes runs of nodes in log order, each with the bytes of its entries, forwards or backwards,
    /// until `take` returns false.
    pub fn for_each_chunk(
        session: &Session,
        text: &dyn RandomAccessLog,
        backwards: bool,
        mut take: impl FnMut(Reader<'_>, std::ops::Range<usize>) -> bool,
    ) -> io::Result<()> {
        let n = session.facts.nodes.len();
        let len = |at: usize| session.facts.location(NodeId::from_index(at)).len as usize;
        let mut chunk = Self::default();
        let mut done = 0;
        while done < n {
            let (mut end, mut bytes) = (done, 0);
            let node_at = |at: usize| if backwards { n - 1 - at } else { at };
            while end < n && (end == done || bytes + len(node_at(end)) <= CHUNK) {
                bytes += len(node_at(end));
                end += 1;
            }
            let range = if backwards { n - end..n - done } else { done..end };
            chunk.reload(session, text, range.clone().map(NodeId::from_index))?;
            if !take(Reader::with_entries(session, &chunk), range) {
                break;
            }
            done = end;
        }
        Ok(())
    }
}

/// The nodes of each step, shared by all streams of a session.
#[derive(Debug)]
pub struct StepNodes {
    /// The entries of each step.
    pub(crate) nodes: IndexGroups<StepId, NodeId>,
}

impl StepNodes {
    /// Collects the nodes of each step of a session.
    pub fn new(session: &Session) -> Self {
        Self { nodes: session.tree.nodes_by_step() }
    }

    /// Sums the bytes of the entries shown on the path to each step, including parts of its messages on
    /// other branches.
    pub fn path_bytes_by_step(&self, session: &Session, own: impl Fn(NodeId) -> u64) -> Table<StepId, u64> {
        let tree = &session.tree;
        let sum =
            |step| self.nodes.members_of(step).iter().map(|&node| own(node)).fold(0, u64::saturating_add);
        let steps: Table<StepId, u64> = tree.steps.keys().map(sum).collect();
        let all = steps.iter().copied().fold(0, u64::saturating_add);
        let mut weights = steps.clone();
        for parts in tree.split_messages.chunk_by(|a, b| a.message == b.message) {
            let whole = parts.iter().map(|part| steps[part.step]).fold(0, u64::saturating_add);
            for part in parts.iter().filter(|part| !part.continued) {
                let weight = &mut weights[part.step];
                *weight = weight.saturating_add(whole - steps[part.step]);
            }
        }
        for step in tree.parents_first() {
            let before = tree.parent_of(step).map_or(0, |parent| weights[parent]);
            weights[step] = weights[step].saturating_add(before);
        }
        // No path shows more than the whole session.
        weights.into_iter().map(|weight| weight.min(all)).collect()
    }
}

/// A part of a conversation, with its text.
pub struct StepStream<'a> {
    sequence: StepSequence<'a>,
    text: &'a dyn RandomAccessLog,
    /// The numbers that messages are shown with, if they are not those of this log.
    numbers: Option<&'a Table<MessageNo, Option<MessageNo>>>,
}

impl<'a> StepStream<'a> {
    /// Creates a stream of the path to `step`, after the step `after`. With `joins`, copied messages also
    /// show the parts that they have only on other branches.
    pub fn to_step(
        session: &'a Session,
        layout: &'a StepNodes,
        text: &'a dyn RandomAccessLog,
        (step, after): (StepId, Option<StepId>),
        joins: bool,
    ) -> Self {
        let sequence = StepSequence::to_step(session, layout, (step, after), joins);
        Self { sequence, text, numbers: None }
    }

    /// Creates a stream of a subagent in log order: the one in this file whose first entry is `root`, or
    /// without `root` a whole log of a subagent.
    pub fn of_subagent(
        session: &'a Session,
        layout: &'a StepNodes,
        text: &'a dyn RandomAccessLog,
        root: Option<NodeId>,
        steps_by_root: &IndexGroups<StepId, StepId>,
    ) -> Self {
        let sequence = StepSequence::of_subagent(session, layout, root, steps_by_root);
        Self { sequence, text, numbers: None }
    }

    /// Shows messages with other numbers, where they have one.
    pub fn with_numbers(self, numbers: &'a Table<MessageNo, Option<MessageNo>>) -> Self {
        Self { numbers: Some(numbers), ..self }
    }

    /// Returns whether the stream contains a call.
    pub fn makes_call(&self, call: CallId) -> bool {
        self.sequence.makes_call(call)
    }

    /// Returns the id of a call.
    pub fn call_id(&self, call: CallId) -> &'a str {
        let facts = &self.sequence.session.facts;
        facts.call_id(&facts.calls[call])
    }

    /// Returns whether the stream contains a message.
    pub fn contains_message(&self, n: MessageNo) -> bool {
        self.sequence.place_of_message(n).is_some()
    }

    /// Returns the message at which a reader should start to see message `n`: a result is shown under its
    /// call, so this is the message with the call if it comes before.
    pub fn reading_start(&self, n: MessageNo) -> MessageNo {
        self.sequence.message_with_call(n).unwrap_or(n)
    }

    /// Counts the prompts.
    pub fn prompt_count(&self) -> io::Result<usize> {
        let mut count = 0;
        self.for_each_prompt(|item| {
            let is_prompt =
                matches!(item, TranscriptItem::Message(message) if message.kind == MessageKind::Prompt);
            count += usize::from(is_prompt);
            true
        })?;
        Ok(count)
    }

    /// Returns the items without their text.
    pub fn item_headers(&self) -> impl Iterator<Item = ItemHeader<'a>> + '_ {
        self.sequence.item_headers()
    }

    /// Passes the items with their text, step by step.
    pub fn for_each_step(&self, mut take: impl FnMut(&StepItems<'_>) -> io::Result<()>) -> io::Result<()> {
        let all: Vec<StreamPlace> = self.sequence.places().collect();
        self.for_each_step_at(&all, |nodes| nodes.to_vec(), |step| take(step).map(|()| true))
    }

    /// Passes the prompts and compactions one by one, until `take` returns false.
    pub fn for_each_prompt(&self, mut take: impl FnMut(&TranscriptItem<'_>) -> bool) -> io::Result<()> {
        let facts = &self.sequence.session.facts;
        let wanted = |node: &NodeId| {
            let fact = &facts.nodes[*node];
            let prompt = fact.message().is_some() && message_kind(fact) == MessageKind::Prompt;
            prompt || fact.flags.is_boundary()
        };
        let is_wanted = |place: &StreamPlace| self.sequence.nodes_at(*place).iter().any(wanted);
        let places: Vec<StreamPlace> = self.sequence.places().filter(is_wanted).collect();
        self.for_each_step_at(
            &places,
            |nodes| nodes.iter().copied().filter(wanted).collect(),
            |step| Ok(step.items.iter().all(&mut take)),
        )
    }

    fn for_each_step_at(
        &self,
        places: &[StreamPlace],
        nodes_of: impl Fn(&[NodeId]) -> Vec<NodeId>,
        mut take: impl FnMut(&StepItems<'_>) -> io::Result<bool>,
    ) -> io::Result<()> {
        let (sequence, session) = (&self.sequence, self.sequence.session);
        let (mut line, mut shown) = (Line::default(), ShownBlocks::default());
        let mut chunk = EntryChunk::default();
        let mut rest = places;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(sequence.chunk_len(rest));
            let reader = match self.text.in_memory() {
                Some(bytes) => Reader::new(session, bytes),
                None => {
                    let nodes = now.iter().flat_map(|&place| {
                        let separate = sequence.separate_results_of(place);
                        let separate = separate.flat_map(|other| sequence.nodes_at(other).to_vec());
                        nodes_of(sequence.nodes_at(place)).into_iter().chain(separate)
                    });
                    chunk.reload(session, self.text, nodes)?;
                    Reader::with_entries(session, &chunk)
                }
            };
            for &place in now {
                let nodes = nodes_of(sequence.nodes_at(place));
                let mut step = sequence.read_step(place, &nodes, &reader, &mut line, &mut shown);
                self.renumber(&mut step);
                if !take(&step)? {
                    return Ok(());
                }
            }
            rest = later;
        }
        Ok(())
    }

    /// Replaces the numbers of messages.
    fn renumber(&self, step: &mut StepItems<'_>) {
        let Some(numbers) = self.numbers else { return };
        let number = |n: MessageNo| numbers.get(n).copied().flatten();
        for message in step.messages_mut() {
            message.n = number(message.n).unwrap_or(message.n);
            for block in &mut message.blocks {
                block.partner_message = block.partner_message.and_then(number);
                block.owner = block.owner.map(|n| number(n).unwrap_or(n));
            }
        }
    }
}
