//! The steps of a part of a conversation, determined from the facts alone.

use rethread_log::Line;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::flags::EntryFlags;
use crate::id::Time;
use crate::index::{CallId, IndexGroups, MessageNo, NodeId, StepId, Table, index_type};
use crate::resume::calls_of_node;
use crate::session::Session;
use crate::step_stream::{CHUNK, StepNodes};
use crate::usage::Usage;
use crate::view::{
    MessageKind, MessageView, OffPathParts, Reader, ShownBlocks, TranscriptItem, is_note, message_kind,
};

/// The maximum number of results of other steps' calls in one entry that are shown under their calls.
/// Beyond it they are shown in place, because the entry would be read again for each of those steps.
const MAX_SEPARATE_RESULTS: u32 = 64;

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
    pub(crate) StreamPlace
);

/// The steps of a part of a conversation, and the call that each of its results belongs to.
pub(crate) struct StepSequence<'a> {
    pub(crate) session: &'a Session,
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

/// One step of a stream, with its text.
pub struct StepItems<'r> {
    /// The items that are shown.
    pub items: Vec<TranscriptItem<'r>>,
    /// Items of other steps that contain results of this step's calls.
    pub separate_results: Vec<TranscriptItem<'r>>,
}

impl<'r> StepItems<'r> {
    /// Returns all messages: those that are shown, then those of other steps.
    pub(crate) fn messages_mut(&mut self) -> impl Iterator<Item = &mut MessageView<'r>> {
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
    pub(crate) fn places(&self) -> impl Iterator<Item = StreamPlace> + use<> {
        self.steps.keys()
    }

    pub(crate) fn nodes_at(&self, place: StreamPlace) -> &[NodeId] {
        let own = || self.step_nodes.nodes.members_of(self.steps[place]);
        self.merged_nodes.get(&place).map_or_else(own, Vec::as_slice)
    }

    /// Returns the other steps with results of the calls of a step.
    pub(crate) fn separate_results_of(&self, place: StreamPlace) -> impl Iterator<Item = StreamPlace> + '_ {
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
        uses.sort_unstable();
        uses.dedup();
        if !self.session.tree.split_messages.is_empty() {
            // A block that a message repeats in another step is shown once, where it first occurs.
            let mut known = FxHashSet::default();
            uses.retain(|&(call, _, message)| known.insert((call, message)));
        }
        self.call_sites = uses;
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

    pub(crate) fn makes_call(&self, call: CallId) -> bool {
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
    pub(crate) fn place_of_message(&self, n: MessageNo) -> Option<StreamPlace> {
        self.places().find(|&place| self.nodes_of_message(place, n).next().is_some())
    }

    /// Returns the message with the call of the first result in message `n`, if it comes before.
    pub(crate) fn message_with_call(&self, n: MessageNo) -> Option<MessageNo> {
        let facts = &self.session.facts;
        let place = self.place_of_message(n)?;
        let call = self
            .nodes_of_message(place, n)
            .find_map(|node| calls_of_node(&facts.result_sites, node).next())?;
        let (_, at, message) = self.call_site_for(call, place)?;
        // The messages of a step begin with its answer.
        (at <= place).then_some(message)
    }

    pub(crate) fn item_headers(&self) -> impl Iterator<Item = ItemHeader<'a>> + '_ {
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
    pub(crate) fn chunk_len(&self, places: &[StreamPlace]) -> usize {
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
    pub(crate) fn read_step<'r>(
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
