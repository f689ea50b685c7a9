//! Steps: entries grouped into prompts, answers and compactions, along the chain of parents.
//!
//! An entry joins the step of its parent if it is another part of the same message, or the result of one
//! of its calls. All other content begins a new step, a child of its parent's step. So a path through the
//! steps has the messages of a chain of parents, in order, and parallel calls with their results are one
//! step.
//!
//! A message can be in several steps: a prompt that was queued while it was streamed is an entry between
//! two of its parts. Clients also write history again under new uuids. Siblings that are parts or copies
//! of one message are one step, so that a history written twice is one path.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::facts::{Facts, Node, Role};
use crate::flags::EntryFlags;
use crate::index::{CallId, MessageNo, NodeId, StepId, Table};
use crate::tree::Link;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// A prompt written by a person.
    Prompt,
    /// A prompt that was typed while the model was busy and attached to its turn.
    Queued,
    /// A message of the model, with the results of its calls.
    Answer,
    /// The boundary of a compaction, or the summary after one.
    Compaction,
    /// Any other user or assistant entry: commands, notices, interruptions, errors.
    Note,
}

impl StepKind {
    /// Returns whether a branch with such a step is a path.
    ///
    /// A queued prompt is not enough: until an answer follows it, it is part of the turn it was attached
    /// to.
    pub(crate) fn makes_path(self) -> bool {
        matches!(self, Self::Prompt | Self::Answer)
    }

    /// Returns whether such a step begins a turn.
    pub fn is_prompt(self) -> bool {
        matches!(self, Self::Prompt | Self::Queued)
    }

    fn classify(flags: EntryFlags, role: Role) -> Self {
        match role {
            Role::Attachment => Self::Queued,
            Role::User if flags.is_summary() => Self::Compaction,
            Role::User if flags.is_human() => Self::Prompt,
            // The first entry of a subagent is its prompt, though no person wrote it.
            Role::User if flags.is_task() => Self::Prompt,
            Role::Assistant if !flags.is_api_error() && !flags.is_synthetic() => Self::Answer,
            _ => Self::Note,
        }
    }
}

/// A node of the conversation.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The kind of the step.
    pub kind: StepKind,
    /// The parent step.
    pub(crate) parent: Option<StepId>,
    /// The entry in the parent step that is its parent.
    pub(crate) parent_node: Option<NodeId>,
    /// Its first entry.
    pub(crate) first_node: NodeId,
    /// Its message, or the message that its results answer; `None` for a boundary.
    message: Option<MessageNo>,
    /// Set if its first entry is a user or assistant entry.
    pub(crate) is_conversation: bool,
    /// Set if it belongs to a subagent.
    pub sidechain: bool,
    /// Set if this step or a descendant has content.
    pub(crate) subtree_has_content: bool,
    /// Set if this step or a descendant is a prompt or an answer.
    pub(crate) subtree_makes_path: bool,
    /// Set if its only entry was moved to another step.
    pub(crate) emptied: bool,
    /// The number of its children that count as branches.
    pub(crate) branches: u32,
}

/// The steps of a session, and the step of each node.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) steps: Table<StepId, Step>,
    pub(crate) step_of: Table<NodeId, Option<StepId>>,
}

impl Steps {
    /// Groups the entries of a log. `links` must have no cycles.
    pub(crate) fn new(facts: &Facts, links: &Table<NodeId, Link>) -> Self {
        let mut grouping = StepBuilder::new(facts);
        let mut visited = Table::filled(false, facts.nodes.len());
        let mut pending: Vec<NodeId> = Vec::new();
        for start in facts.nodes.keys() {
            // Go up to the first ancestor that has a step, then come down again.
            let mut at = Some(start);
            while let Some(node) = at.filter(|&node| !visited[node]) {
                visited[node] = true;
                pending.push(node);
                at = links[node].target();
            }
            while let Some(node) = pending.pop() {
                grouping.assign_step(node, links[node].target());
            }
        }
        grouping.assign_duplicates();
        grouping.assign_leading(links);
        grouping.found
    }
}

struct StepBuilder<'f> {
    facts: &'f Facts,
    found: Steps,
    all_sidechain: bool,
    /// The first step of each message.
    first_step: Table<MessageNo, Option<StepId>>,
    /// The other steps of messages, by message and parent step.
    other_steps: FxHashMap<(MessageNo, Option<StepId>), StepId>,
    /// Calls whose id several messages use, with each message except the first.
    reused_calls: FxHashSet<(CallId, Option<MessageNo>)>,
}

impl<'f> StepBuilder<'f> {
    fn new(facts: &'f Facts) -> Self {
        let message_of = |node: NodeId| facts.nodes[node].message;
        let first_use = |call: CallId| message_of(facts.calls[call].node);
        let reused = facts.call_sites.iter().map(|&(node, call)| (call, message_of(node)));
        Self {
            facts,
            found: Steps { steps: Table::default(), step_of: Table::filled(None, facts.nodes.len()) },
            all_sidechain: facts.is_all_sidechain(),
            first_step: Table::filled(None, facts.messages.len()),
            other_steps: FxHashMap::default(),
            reused_calls: reused.filter(|&(call, message)| first_use(call) != message).collect(),
        }
    }

    /// Finds the step of an entry whose parent has one.
    fn assign_step(&mut self, index: NodeId, parent: Option<NodeId>) {
        if self.facts.first_with_same_uuid(index) != index {
            return;
        }
        let node = &self.facts.nodes[index];
        let above = parent.and_then(|parent| self.found.step_of[parent]);
        let side = node.flags.is_sidechain() && !self.all_sidechain;
        let step = if node.flags.is_boundary() {
            Some(self.add_step(index, parent, above, side, StepKind::Compaction))
        } else if let Some(message) = node.message
            && !self.joins_parent_step(index, above, side)
        {
            let sibling = self.find_sibling(message, above, side);
            let kind = StepKind::classify(node.flags, node.role);
            sibling.or_else(|| Some(self.add_step(index, parent, above, side, kind)))
        } else {
            above
        };
        self.found.step_of[index] = step;
        // An error becomes an answer if the model did respond in the same message after all.
        if let Some(step) = step.filter(|_| is_answer(node)) {
            self.found.steps[step].kind = StepKind::Answer;
        }
    }

    /// Returns whether an entry joins its parent's step: as part of the same message, or as a result of
    /// it.
    fn joins_parent_step(&self, index: NodeId, above: Option<StepId>, side: bool) -> bool {
        let above = above.map(|above| &self.found.steps[above]);
        let Some(step) = above.filter(|step| step.sidechain == side) else {
            return false;
        };
        let node = &self.facts.nodes[index];
        step.message == node.message
            || node.flags.has_result()
                && node.role == Role::User
                && crate::resume::calls_of_node(&self.facts.result_sites, index)
                    .any(|call| self.makes_call(step.message, call))
    }

    fn makes_call(&self, message: Option<MessageNo>, call: CallId) -> bool {
        let first = self.facts.calls[call].node;
        self.facts.nodes[first].message == message || self.reused_calls.contains(&(call, message))
    }

    /// Finds a sibling step that is another part, or a copy, of the same message.
    fn find_sibling(&self, message: MessageNo, above: Option<StepId>, side: bool) -> Option<StepId> {
        let first = self.first_step[message]?;
        let known = |&step: &StepId| {
            let step = &self.found.steps[step];
            step.parent == above && step.sidechain == side
        };
        Some(first).filter(known).or_else(|| self.other_steps.get(&(message, above)).copied().filter(known))
    }

    fn add_step(
        &mut self,
        index: NodeId,
        parent: Option<NodeId>,
        above: Option<StepId>,
        side: bool,
        kind: StepKind,
    ) -> StepId {
        let message = self.facts.nodes[index].message;
        let step = self.found.steps.push(Step {
            kind,
            parent: above,
            parent_node: above.and(parent),
            first_node: index,
            message,
            is_conversation: self.facts.nodes[index].is_conversation(),
            sidechain: side,
            subtree_has_content: false,
            subtree_makes_path: false,
            emptied: false,
            branches: 0,
        });
        if let Some(message) = message {
            match &mut self.first_step[message] {
                Some(_) => drop(self.other_steps.insert((message, above), step)),
                first => *first = Some(step),
            }
        }
        step
    }

    /// Assigns entries above the first message of a chain to the step that follows them.
    fn assign_leading(&mut self, links: &Table<NodeId, Link>) {
        for (index, link) in links.iter_enumerated() {
            let step = self.found.step_of[index];
            let mut at = link.target().filter(|_| step.is_some());
            while let Some(parent) = at.filter(|&parent| self.found.step_of[parent].is_none()) {
                self.found.step_of[parent] = step;
                at = links[parent].target();
            }
        }
    }

    /// Assigns an entry with a duplicate uuid to the step of the first entry with that uuid.
    fn assign_duplicates(&mut self) {
        if !self.facts.has_duplicates() {
            return;
        }
        for index in self.facts.nodes.keys() {
            let first = self.facts.first_with_same_uuid(index);
            self.found.step_of[index] = self.found.step_of[first];
        }
    }
}

fn is_answer(node: &Node) -> bool {
    node.role == Role::Assistant
        && node.message.is_some()
        && StepKind::classify(node.flags, node.role) == StepKind::Answer
}
