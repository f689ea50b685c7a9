//! A part of a conversation whose text is read while it is shown.
//!
//! A [`StepSequence`] determines from the facts alone which steps are shown and which result belongs to
//! which call. A [`StepStream`] adds the text: it is read from the log in chunks of about a megabyte,
//! converted to items, shown and dropped, so that showing a log of any size needs memory only for its facts
//! and its largest step.

use std::io;

use rethread_log::Line;
use rustc_hash::FxHashMap;

use crate::facts::EntryLocation;
use crate::flags::EntryFlags;
use crate::id::Time;
use crate::index::{CallId, EntryNo, IndexGroups, MessageNo, NodeId, StepId, Table, index_type};
use crate::resume::calls_of_node;
use crate::session::Session;
use crate::usage::Usage;
use crate::view::{
    EntrySource, MessageKind, MessageView, OffPathParts, Reader, ShownBlocks, TranscriptItem, is_note,
    message_kind,
};

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
const CHUNK: usize = 1 << 20;
/// The maximum gap between two entries that is read instead of skipped.
const MAX_GAP: u64 = 16 << 10;
/// The maximum number of results of other steps' calls in one entry that are shown under their calls.
/// Beyond it they are shown in place, because the entry would be read again for each of those steps.
const MAX_SEPARATE_RESULTS: u32 = 64;

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
    nodes: IndexGroups<StepId, NodeId>,
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

/// A message or note of a stream, without its text.
#[derive(Debug, Clone, Copy)]
pub struct ItemHeader<'a> {
    /// The kind of a message; `None` for a note.
    pub kind: Option<MessageKind>,
    /// Set for a compaction.
    pub compaction: bool,
    /// The time of the entry.
    pub time: Option<Time>,
    /// The model.
    pub model: Option<&'a str>,
    /// The usage.
    pub usage: Option<Usage>,
}

index_type!(
    /// The position of a step in a stream.
    StreamPlace
);

/// The steps of a part of a conversation, and the call that each of its results belongs to.
pub(crate) struct StepSequence<'a> {
    session: &'a Session,
    step_nodes: &'a StepNodes,
    /// The steps that are shown, in reading order.
    steps: Table<StreamPlace, StepId>,
    /// The entries of steps that also show parts of their messages from other branches, by index in
    /// `steps`.
    merged_nodes: FxHashMap<StreamPlace, Vec<NodeId>>,
    /// The calls, each with the index of its step in `steps` and its message; sorted.
    call_sites: Vec<(CallId, StreamPlace, MessageNo)>,
    /// Steps with results of calls of other steps, by the index of the calling step.
    separate_results: FxHashMap<StreamPlace, Vec<StreamPlace>>,
    /// Messages with too many results of other steps' calls.
    results_in_place: Vec<MessageNo>,
}

/// A part of a conversation, with its text.
pub struct StepStream<'a> {
    sequence: StepSequence<'a>,
    text: &'a dyn RandomAccessLog,
    /// The numbers that messages are shown with, if they are not those of this log.
    numbers: Option<&'a Table<MessageNo, Option<MessageNo>>>,
}

/// One step of a stream, with its text.
pub struct StepItems<'r> {
    /// The items that are shown.
    pub items: Vec<TranscriptItem<'r>>,
    /// Items of other steps that contain results of this step's calls.
    pub separate_results: Vec<TranscriptItem<'r>>,
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

impl<'r> StepItems<'r> {
    /// Returns all messages: those that are shown, then those of other steps.
    fn messages_mut(&mut self) -> impl Iterator<Item = &mut MessageView<'r>> {
        self.items.iter_mut().chain(&mut self.separate_results).filter_map(|item| match item {
            TranscriptItem::Message(message) => Some(message),
            TranscriptItem::Note(_) => None,
        })
    }
}

impl<'a> StepSequence<'a> {
    /// Collects the steps of the path to `step`, after the step `after`.
    pub(crate) fn to_step(
        session: &'a Session,
        layout: &'a StepNodes,
        (step, after): (StepId, Option<StepId>),
        joins: bool,
    ) -> Self {
        let mut path = Vec::new();
        let mut at = Some(step).filter(|&step| Some(step) != after);
        while let Some(step) = at {
            path.push(step);
            at = session.tree.parent_of(step).filter(|&parent| Some(parent) != after);
        }
        path.reverse();
        Self::from_steps(session, layout, path, joins)
    }

    /// Collects the steps of a subagent in log order.
    pub(crate) fn of_subagent(
        session: &'a Session,
        layout: &'a StepNodes,
        root: Option<NodeId>,
        steps_by_root: &IndexGroups<StepId, StepId>,
    ) -> Self {
        let root = root.and_then(|node| session.tree.step(node));
        let steps = match root {
            Some(root) => steps_by_root.members_of(root).to_vec(),
            None => session.tree.steps.keys().collect(),
        };
        Self::from_steps(session, layout, steps, true)
    }

    fn from_steps(session: &'a Session, layout: &'a StepNodes, steps: Vec<StepId>, joins: bool) -> Self {
        let mut sequence = Self {
            session,
            step_nodes: layout,
            steps: steps.into(),
            merged_nodes: FxHashMap::default(),
            call_sites: Vec::new(),
            separate_results: FxHashMap::default(),
            results_in_place: Vec::new(),
        };
        if joins {
            sequence.merge_copies();
        }
        sequence.pair_results();
        sequence
    }

    /// Adds the parts that copied messages have only on other branches.
    fn merge_copies(&mut self) {
        let mut elsewhere = OffPathParts::new(self.session, &self.step_nodes.nodes, self.steps.as_slice());
        for (place, &step) in self.steps.iter_enumerated() {
            if let Some(more) = elsewhere.take(step) {
                let nodes = [self.step_nodes.nodes.members_of(step), &more].concat();
                self.merged_nodes.insert(place, nodes);
            }
        }
    }

    /// Returns the indexes of the steps.
    fn places(&self) -> impl Iterator<Item = StreamPlace> + use<> {
        self.steps.keys()
    }

    fn nodes_at(&self, place: StreamPlace) -> &[NodeId] {
        let own = || self.step_nodes.nodes.members_of(self.steps[place]);
        self.merged_nodes.get(&place).map_or_else(own, Vec::as_slice)
    }

    /// Returns the other steps with results of the calls of a step.
    fn separate_results_of(&self, place: StreamPlace) -> impl Iterator<Item = StreamPlace> + '_ {
        self.separate_results.get(&place).into_iter().flatten().copied()
    }

    /// Finds the calls, and those whose results are in other steps.
    fn pair_results(&mut self) {
        let facts = &self.session.facts;
        let mut uses = std::mem::take(&mut self.call_sites);
        for place in self.places() {
            for &node in self.nodes_at(place) {
                let Some(message) = facts.nodes[node].message() else { continue };
                uses.extend(calls_of_node(&facts.call_sites, node).map(|call| (call, place, message)));
            }
        }
        self.call_sites = uses;
        self.call_sites.sort_unstable();
        self.call_sites.dedup();
        let mut separate: Vec<(StreamPlace, StreamPlace)> = Vec::new();
        let mut in_place = Vec::new();
        for place in self.places() {
            for &node in self.nodes_at(place) {
                let start = separate.len();
                for call in calls_of_node(&facts.result_sites, node) {
                    let used = self.call_site_for(call, place).map(|(_, used, _)| used);
                    separate.extend(used.filter(|&used| used != place).map(|used| (used, place)));
                }
                if separate.len() - start > MAX_SEPARATE_RESULTS as usize {
                    separate.truncate(start);
                    in_place.extend(facts.nodes[node].message());
                }
            }
        }
        in_place.sort_unstable();
        self.results_in_place = in_place;
        for (used, place) in separate {
            let places = self.separate_results.entry(used).or_default();
            if places.last() != Some(&place) {
                places.push(place);
            }
        }
    }

    /// Finds the use of a call that a result at `place` belongs to: the last one before it, otherwise the
    /// first.
    fn call_site_for(&self, call: CallId, place: StreamPlace) -> Option<(CallId, StreamPlace, MessageNo)> {
        let before = self.call_sites.partition_point(|&(used, at, _)| (used, at) <= (call, place));
        let of_call = |used: &&(CallId, StreamPlace, MessageNo)| used.0 == call;
        let last = before.checked_sub(1).and_then(|at| self.call_sites.get(at)).filter(of_call);
        last.or_else(|| self.call_sites.get(before).filter(of_call)).copied()
    }

    fn makes_call(&self, call: CallId) -> bool {
        let at = self.call_sites.partition_point(|&(used, ..)| used < call);
        self.call_sites.get(at).is_some_and(|&(used, ..)| used == call)
    }

    /// Returns the entries of message `n` in a step.
    fn nodes_of_message(&self, place: StreamPlace, n: MessageNo) -> impl Iterator<Item = NodeId> + '_ {
        let facts = &self.session.facts;
        let is_part = move |node: &NodeId| {
            facts.nodes[*node].message() == Some(n) && !facts.duplicates.contains_key(node)
        };
        self.nodes_at(place).iter().copied().filter(is_part)
    }

    /// Returns the index of the first step with message `n`.
    fn place_of_message(&self, n: MessageNo) -> Option<StreamPlace> {
        self.places().find(|&place| self.nodes_of_message(place, n).next().is_some())
    }

    /// Returns the message with the call of the first result in message `n`, if it comes before.
    fn message_with_call(&self, n: MessageNo) -> Option<MessageNo> {
        let facts = &self.session.facts;
        let place = self.place_of_message(n)?;
        let call = self
            .nodes_of_message(place, n)
            .find_map(|node| calls_of_node(&facts.result_sites, node).next())?;
        let (_, at, message) = self.call_site_for(call, place)?;
        // The messages of a step begin with its answer.
        (at <= place).then_some(message)
    }

    fn item_headers(&self) -> impl Iterator<Item = ItemHeader<'a>> + '_ {
        let facts = &self.session.facts;
        self.places().flat_map(move |place| {
            let contents = StepContents::new(self.session, self.nodes_at(place));
            let messages = contents.messages.into_iter().map(move |(message, nodes)| {
                let (fact, first) = (&facts.messages[message], &facts.nodes[nodes[0]]);
                ItemHeader {
                    kind: Some(message_kind(first)),
                    compaction: false,
                    time: first.time,
                    model: fact.model.map(|model| facts.models.name(model)),
                    usage: facts.usage(fact),
                }
            });
            let notes = contents.notes.into_iter().map(move |node| &facts.nodes[node]);
            let notes = notes.filter(|fact| is_note(fact)).map(|fact| {
                let compaction = fact.flags.is_boundary() && !fact.flags.has(EntryFlags::QUEUED);
                ItemHeader { kind: None, compaction, time: fact.time, model: None, usage: None }
            });
            messages.chain(notes).collect::<Vec<_>>()
        })
    }

    /// Returns the number of steps at the beginning of `places` that are read together.
    fn chunk_len(&self, places: &[StreamPlace]) -> usize {
        let bytes = |place: StreamPlace| {
            let len = |&node: &NodeId| self.session.facts.location(node).len as usize;
            self.nodes_at(place).iter().map(len).sum::<usize>()
        };
        let (mut n, mut size) = (0, 0);
        while n < places.len() && (n == 0 || size < CHUNK) {
            size += bytes(places[n]) + self.separate_results_of(places[n]).map(bytes).sum::<usize>();
            n += 1;
        }
        n
    }

    /// Reads all items.
    pub(crate) fn read_items<'r>(&self, reader: &Reader<'r>) -> Vec<TranscriptItem<'r>> {
        let (mut line, mut shown, mut items) = (Line::default(), ShownBlocks::default(), Vec::new());
        for place in self.places() {
            let step = self.read_step(place, self.nodes_at(place), reader, &mut line, &mut shown);
            items.extend(step.items);
        }
        items
    }

    /// Reads the items of some entries of a step, and the results of its calls.
    fn read_step<'r>(
        &self,
        place: StreamPlace,
        nodes: &[NodeId],
        reader: &Reader<'r>,
        line: &mut Line,
        shown: &mut ShownBlocks,
    ) -> StepItems<'r> {
        let mut step = StepItems { items: Vec::new(), separate_results: Vec::new() };
        reader.push_step_items(nodes, line, shown, &mut step.items);
        self.assign_owners(place, &mut step.items);
        for other in self.separate_results_of(place) {
            let start = step.separate_results.len();
            let mut all = ShownBlocks::default();
            reader.push_step_items(self.nodes_at(other), line, &mut all, &mut step.separate_results);
            // The position of a result determines its call.
            self.assign_owners(other, &mut step.separate_results[start..]);
        }
        step.separate_results.retain(|item| matches!(item, TranscriptItem::Message(_)));
        assign_results(&mut step);
        step
    }

    /// Sets the owner of each result at `place`: the message with its call.
    fn assign_owners(&self, place: StreamPlace, items: &mut [TranscriptItem<'_>]) {
        for item in items {
            let TranscriptItem::Message(message) = item else { continue };
            let in_place = self.results_in_place.binary_search(&message.n).is_ok();
            for block in message.blocks.iter_mut().filter(|block| block.is_result()) {
                let site = block.call.and_then(|call| self.call_site_for(call, place));
                let Some((_, at, caller)) = site else { continue };
                block.partner_message = Some(caller);
                block.owner = Some(caller).filter(|_| !in_place || at == place);
            }
        }
    }
}

/// Sets the partner of each call: the message with its first result.
fn assign_results(step: &mut StepItems<'_>) {
    let mut results: FxHashMap<(MessageNo, CallId), MessageNo> = FxHashMap::default();
    for message in step.messages_mut() {
        for block in message.blocks.iter().filter(|block| block.is_result()) {
            if let Some(call) = block.owner.zip(block.call) {
                results.entry(call).or_insert(message.n);
            }
        }
    }
    for message in step.messages_mut().filter(|_| !results.is_empty()) {
        for block in message.blocks.iter_mut().filter(|block| !block.is_result()) {
            let result = block.call.and_then(|call| results.get(&(message.n, call)));
            block.partner_message = result.copied().or(block.partner_message);
        }
    }
}

/// The entries of a step: by message, results in the order of their calls, and notes.
pub(crate) struct StepContents {
    pub(crate) messages: Vec<(MessageNo, Vec<NodeId>)>,
    pub(crate) notes: Vec<NodeId>,
}

impl StepContents {
    pub(crate) fn new(session: &Session, nodes: &[NodeId]) -> Self {
        let facts = &session.facts;
        // Entries by message, in the order of their first occurrence.
        let mut messages: Vec<(MessageNo, Vec<NodeId>)> = Vec::new();
        let mut place_of: FxHashMap<MessageNo, usize> = FxHashMap::default();
        let mut notes = Vec::new();
        for &node in nodes {
            // Of two entries with the same uuid the later one is shown.
            if facts.duplicates.contains_key(&node) {
                continue;
            }
            match facts.nodes[node].message() {
                Some(message) => {
                    let at = *place_of.entry(message).or_insert_with(|| {
                        messages.push((message, Vec::new()));
                        messages.len() - 1
                    });
                    messages[at].1.push(node);
                }
                None => notes.push(node),
            }
        }
        // Answers come first, then results in the order of their calls, then the rest.
        let call_order = |(message, _): &(MessageNo, Vec<NodeId>)| {
            let first = facts.messages[*message].first_node;
            let call = calls_of_node(&facts.result_sites, first).next();
            if facts.messages[*message].assistant {
                (false, false, None)
            } else {
                (true, call.is_none(), call)
            }
        };
        // Consecutive results keep their order.
        let is_result = |node: NodeId| facts.nodes[node].flags.has_result();
        let follows =
            |&node: &NodeId| is_result(node) && session.tree.links[node].target().is_some_and(is_result);
        if nodes.iter().any(follows) {
            messages.sort_by_key(|(message, _)| !facts.messages[*message].assistant);
        } else {
            messages.sort_by_key(call_order);
        }
        Self { messages, notes }
    }
}
