//! One session: the facts of its log, its tree and its paths.

use std::sync::OnceLock;

use rethread_log::Defect;
use rustc_hash::FxHashMap;

use crate::check::{LinearConversation, linear_conversation, newest_client_tip};
use crate::client::Client;
use crate::facts::{BlockClass, Facts, Role};
use crate::id::{Time, Uid};
use crate::index::{MessageNo, NodeId, PathIndex, StepId, Table};
use crate::resume::{Resume, resume};
use crate::steps::StepKind;
use crate::tree::Tree;

/// A session without its text.
#[derive(Debug, Clone)]
pub struct Session {
    /// The facts about its entries.
    pub facts: Facts,
    /// The links between its entries.
    pub tree: Tree,
    /// The result of [`Session::linear`], which has several callers.
    linear: OnceLock<Option<LinearConversation>>,
}

/// A conversation from a root to one of its ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its number, from 1, in the order of the ends in the file.
    pub n: usize,
    /// Set if the client would resume this path.
    pub active: bool,
    /// Set if the client would resume this path before its end.
    pub resumes_before_end: bool,
    /// Set for the path that a person would call the conversation: the active path, unless the client
    /// would resume a branch of local commands.
    pub main: bool,
    /// Its last step.
    pub step: StepId,
    /// The last user or assistant entry, or a queued prompt after it.
    pub tip: NodeId,
    /// On the active path, the last entry that the client would send.
    pub resumes_at: Option<NodeId>,
    /// The last entry that it shares with another path.
    pub fork_point: Option<NodeId>,
    /// The step of the fork point.
    pub fork_step: Option<StepId>,
    /// The number of messages on it.
    pub messages: u32,
    /// The number of prompts on it.
    pub turns: u32,
    /// The number of compactions on it.
    pub compactions: u32,
    /// Its last prompt.
    pub last_prompt: Option<NodeId>,
    /// The time of its tip.
    pub time: Option<Time>,
}

impl Path {
    /// Returns whether the path is active or main.
    pub fn is_current(&self) -> bool {
        self.active || self.main
    }
}

/// A conversation that a client does not resume.
pub(crate) struct AbandonedConversation {
    /// The last entry of the conversation.
    pub(crate) tip: NodeId,
    /// The entry from which the client resumes instead.
    pub(crate) leaf: NodeId,
}

/// The point at which a path leaves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BranchPoint {
    /// The other path.
    pub other_path: PathIndex,
    /// The last step that they share.
    pub step: StepId,
    /// The last message that they share.
    pub message: Option<MessageNo>,
    /// The number of messages up to that point.
    pub messages_before: u32,
}

/// Sums over the steps from the root to each step.
#[derive(Clone, Copy, Default)]
struct StepTotals {
    messages: u32,
    turns: u32,
    compactions: u32,
    last_prompt: Option<NodeId>,
    /// The last step with another branch, and the entry at which it forks.
    fork: Option<(StepId, NodeId)>,
}

impl Session {
    /// Reads a session in memory.
    pub fn read(bytes: &[u8]) -> Self {
        let mut builder = crate::FactsBuilder::for_size(bytes.len() as u64);
        let mut scanner = rethread_log::Scanner::default();
        scanner.scan_all(bytes, &mut builder);
        Self::new(builder.finish(scanner.lines(), scanner.bad_lines))
    }

    /// Builds the tree from the facts.
    pub fn new(facts: Facts) -> Self {
        let tree = Tree::new(&facts);
        Self { facts, tree, linear: OnceLock::new() }
    }

    /// Returns the conversation if it is linear, so that every client resumes it in the same way.
    pub(crate) fn linear(&self) -> Option<LinearConversation> {
        *self.linear.get_or_init(|| linear_conversation(&self.facts))
    }

    /// Returns the paths; the active one follows the rules of `client`.
    pub fn paths(&self, client: Client) -> Vec<Path> {
        let known = if client == Client::NEWEST { newest_client_tip(self) } else { None };
        let (leaf, sent) = known.map_or_else(
            || {
                let resumed = resume(&self.facts, client);
                (resumed.leaf, self.last_sent(&resumed))
            },
            |tip| (Some(tip), Some(tip)),
        );
        self.paths_with(leaf.filter(|_| sent.is_some()), sent)
    }

    /// Returns the last entry that a client sends: one on the chain of its leaf, if possible, because it
    /// also sends parts and results from other branches.
    fn last_sent(&self, resumed: &Resume) -> Option<NodeId> {
        let end = resumed.leaf.and_then(|leaf| self.tree.step_on_chain(leaf));
        let on_path = end.map(|end| self.tree.ancestors_of(&[end]));
        let sent = resumed.messages.iter().rev().flat_map(|sent| sent.parts.iter().rev());
        let mut nodes = sent.filter_map(|part| part.origin.node());
        nodes
            .find(|&node| {
                self.tree.step(node).zip(on_path.as_ref()).is_some_and(|(step, on_path)| on_path[step])
            })
            .or_else(|| resumed.tip())
    }

    /// Returns the paths. The active one ends at `leaf`, the leaf chosen by a client, and `resumes_at` is
    /// the last entry that it sends.
    fn paths_with(&self, leaf: Option<NodeId>, resumes_at: Option<NodeId>) -> Vec<Path> {
        let sums = self.step_totals();
        let mut ends = self.tree.path_ends();
        let on_paths = self.tree.ancestors_of(&ends);
        let last = self.last_entries();
        ends.sort_by_key(|&step| last[step]);
        let at = leaf.and_then(|node| self.tree.step_on_chain(node));
        let sent_at = resumes_at.and_then(|node| self.tree.step(node));
        let off_path = at.filter(|&step| !on_paths[step]);
        let main = match at {
            Some(at) if self.is_leaf_chosen() => self.last_path_through(at, &ends),
            Some(at) => self.conversation_at(at, &ends, &last),
            None => ends.last().copied(),
        };
        // A branch of nothing but notes is a path if the client would resume it.
        let added = off_path
            .filter(|&step| !self.tree.steps[step].sidechain)
            .map(|step| self.tree.last_trailing_note(step));
        ends.extend(added);
        ends.sort_by_key(|&step| last[step]);
        let main = main.or(added);
        let active =
            if off_path.is_some() { added } else { at.and_then(|at| self.last_path_through(at, &ends)) };
        let mut nearest_conversation_node = self.nearest_conversation_node();
        ends.iter()
            .enumerate()
            .map(|(i, &step)| {
                let sums = &sums[step];
                let resumes_at = resumes_at.filter(|_| active == Some(step));
                let tip = last[step].unwrap_or(self.tree.first_node(step));
                Path {
                    n: i + 1,
                    active: active == Some(step),
                    resumes_before_end: resumes_at.is_some()
                        && sent_at.is_some_and(|at| self.tree.has_more_after(at, step)),
                    main: main == Some(step),
                    step,
                    tip,
                    resumes_at,
                    fork_point: sums.fork.map(|(_, from)| nearest_conversation_node(from)),
                    fork_step: sums.fork.map(|(step, _)| step),
                    messages: sums.messages,
                    turns: sums.turns,
                    compactions: sums.compactions,
                    last_prompt: sums.last_prompt,
                    time: self.facts.nodes[tip].time,
                }
            })
            .collect()
    }

    /// Returns whether the user chose the leaf by a checkpoint. Such a leaf is always intended.
    fn is_leaf_chosen(&self) -> bool {
        self.facts.checkpoints.last().is_some_and(|last| last.explicit)
    }

    /// Finds the conversation that a client abandons by resuming a branch of nothing but commands and
    /// notes, which the user did not choose.
    pub(crate) fn abandoned_conversation(&self, resumed: &Resume) -> Option<AbandonedConversation> {
        let leaf = resumed.leaf?;
        let mut branch =
            std::iter::successors(self.tree.step_on_chain(leaf), |&step| self.tree.parent_of(step))
                .map(|step| &self.tree.steps[step])
                .take_while(|step| !step.subtree_makes_path && !step.sidechain);
        // An entry without text, or a placeholder in the place of the model, does not abandon anything.
        let has_user_text = |step: &crate::steps::Step| {
            let has_words = |block: &crate::facts::Block| block.class == BlockClass::Text;
            let head = step.first_node;
            self.facts.nodes[head].role == Role::User
                && !self.facts.nodes[head].flags.is_summary()
                && !self.facts.nodes[head].flags.is_meta()
                && self.facts.blocks_of(head).iter().any(has_words)
        };
        if self.is_leaf_chosen() || !branch.any(has_user_text) {
            return None;
        }
        let paths = self.paths_with(Some(leaf), Some(leaf));
        let conversation = paths.iter().find(|path| path.main && !path.active)?;
        Some(AbandonedConversation { tip: conversation.tip, leaf })
    }

    /// Returns the last entry of the conversation, if the newest client does not resume there.
    pub fn conversation_end(&self) -> Option<NodeId> {
        if self.linear().is_some() {
            return None;
        }
        self.abandoned_conversation(&resume(&self.facts, Client::NEWEST)).map(|left| left.tip)
    }

    /// Returns the last path that contains a step; `ends` must be sorted.
    fn last_path_through(&self, step: StepId, ends: &[StepId]) -> Option<StepId> {
        let is_descendant = self.descendants_of(step);
        ends.iter().copied().rfind(|&end| is_descendant[end])
    }

    /// Finds the path that a person would call the conversation when a client resumes at a step: the last
    /// one that contains it. If the step is on a branch of nothing but notes, this is the last of the
    /// conversations that the branch leaves; if that branch has its own root, the last conversation
    /// written before it.
    fn conversation_at(
        &self,
        step: StepId,
        ends: &[StepId],
        last: &Table<StepId, Option<NodeId>>,
    ) -> Option<StepId> {
        // The tip of a path is above the notes after it.
        let is_conversation = |end: &StepId| {
            let mut up = self.tree.ancestors(*end);
            up.find(|&at| self.tree.steps[at].subtree_has_content)
                .is_some_and(|tip| self.tree.steps[tip].subtree_makes_path)
        };
        let conversations: Vec<StepId> = ends.iter().copied().filter(is_conversation).collect();
        if conversations.is_empty() {
            return self.last_path_through(step, ends).or(ends.last().copied());
        }
        let mut branch = self.tree.ancestors(step);
        if let Some(above) = branch.find(|&at| self.tree.steps[at].subtree_makes_path) {
            return self.last_path_through(above, &conversations);
        }
        let before = |&end: &StepId| last[end] < Some(self.tree.steps[step].first_node);
        conversations.iter().copied().rfind(before).or(conversations.last().copied())
    }

    /// Finds where each path leaves another, starting with the main one, for a drawing of the branches in
    /// which every step occurs once.
    pub fn branch_points(&self, paths: &[Path]) -> Table<PathIndex, Option<BranchPoint>> {
        let sums = self.step_totals();
        let mut nearest_conversation_node = self.nearest_conversation_node();
        // The path that each step was drawn with.
        let mut drawn: Table<StepId, Option<PathIndex>> = Table::filled(None, self.tree.steps.len());
        let mut found: Table<PathIndex, Option<BranchPoint>> = Table::filled(None, paths.len());
        let mut order: Vec<PathIndex> = found.keys().collect();
        order.sort_by_key(|path| !paths[path.index()].main);
        for path in order {
            let mut at = paths[path.index()].step;
            let mut below = None;
            while drawn[at].is_none() {
                drawn[at] = Some(path);
                below = Some(at);
                match self.tree.parent_of(at) {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            if let Some(other_path) = drawn[at].filter(|&other| other != path) {
                let from = below.and_then(|below| self.tree.steps[below].parent_node);
                let message =
                    from.and_then(|from| self.facts.nodes[nearest_conversation_node(from)].message());
                found[path] =
                    Some(BranchPoint { other_path, step: at, message, messages_before: sums[at].messages });
            }
        }
        found
    }

    /// Counts the messages, prompts and compactions on the path to each step.
    pub fn counts_by_step(&self) -> Table<StepId, (u32, u32, u32)> {
        self.step_totals().iter().map(|sum| (sum.messages, sum.turns, sum.compactions)).collect()
    }

    /// Returns for each step whether it is on one of these paths.
    pub fn steps_on_paths<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Table<StepId, bool> {
        self.tree.ancestors_of(&paths.map(|path| path.step).collect::<Vec<_>>())
    }

    /// Returns the user and assistant entries that are on no path: branches of nothing but commands and
    /// notes.
    pub fn off_path_nodes(&self) -> Vec<NodeId> {
        let on_paths = self.tree.ancestors_of(&self.tree.path_ends());
        let off_path = |&node: &NodeId| {
            let step = self.tree.step(node);
            let main = step.is_some_and(|step| !self.tree.steps[step].sidechain);
            main && self.facts.nodes[node].is_conversation() && step.is_some_and(|step| !on_paths[step])
        };
        self.facts.nodes.keys().filter(off_path).collect()
    }

    /// Returns the id that a root names as its predecessor.
    pub fn parent_of_root(&self, step: StepId) -> Option<Uid> {
        // Notes may precede the first message; the link is at the first of them.
        let mut node = self.tree.first_node(step);
        while let Some(above) = self.tree.links[node].target() {
            node = above;
        }
        self.facts.logical_parents.get(&node).copied().or(self.facts.nodes[node].parent)
    }

    /// Returns the step of a message, if there is one with this number.
    pub fn step_of_message(&self, message: MessageNo) -> Option<StepId> {
        self.tree.step(self.facts.messages.get(message)?.first_node)
    }

    /// Returns for each step whether it is `step` or a descendant of it.
    pub fn descendants_of(&self, step: StepId) -> Table<StepId, bool> {
        let mut is_descendant = Table::filled(false, self.tree.steps.len());
        for &at in &self.tree.order {
            let above = self.tree.parent_of(at).is_some_and(|parent| is_descendant[parent]);
            is_descendant[at] = at == step || above;
        }
        is_descendant
    }

    /// Returns for each step the prompt of its turn, as a step; turns of subagents have none.
    pub fn prompts_of_steps(&self) -> Table<StepId, Option<StepId>> {
        let mut prompts = Table::filled(None, self.tree.steps.len());
        for step in self.tree.parents_first() {
            // A queued prompt belongs to the turn that was running.
            let human = self.facts.nodes[self.tree.first_node(step)].flags.is_human();
            let asks = self.tree.steps[step].kind == StepKind::Prompt && human;
            let above = self.tree.parent_of(step).and_then(|parent| prompts[parent]);
            prompts[step] = if asks { Some(step) } else { above };
        }
        prompts
    }

    /// Counts distinct prompts; copies count once.
    pub fn turns(&self) -> usize {
        self.facts.messages.iter().filter(|m| self.facts.nodes[m.first_node].flags.is_prompt()).count()
    }

    /// Counts compactions: boundaries, and summaries without a boundary.
    pub fn compactions(&self) -> usize {
        self.tree.steps.keys().filter(|&step| self.is_compaction(step)).count()
    }

    /// Returns all defects of the file, in line order.
    pub fn defects(&self) -> Vec<Defect> {
        let mut defects = self.facts.defects.clone();
        defects.extend(self.tree.defects.iter().cloned());
        defects.sort_by_key(|defect| defect.line);
        defects
    }

    /// Returns whether a step is a compaction of the main conversation; the summary after a boundary
    /// belongs to the same compaction.
    pub fn is_compaction(&self, step: StepId) -> bool {
        let at = &self.tree.steps[step];
        let begins = |step: StepId| self.facts.nodes[self.tree.first_node(step)].flags.is_boundary();
        at.kind == StepKind::Compaction && !at.sidechain && (begins(step) || !at.parent.is_some_and(begins))
    }

    fn step_totals(&self) -> Table<StepId, StepTotals> {
        let own = self.count_messages_by_step();
        let mut queued: Table<StepId, u32> = Table::filled(0, self.tree.steps.len());
        for &node in &self.tree.moved {
            let fact = &self.facts.nodes[node];
            if let Some(step) = self.tree.step(node).filter(|_| fact.flags.is_typed_while_busy()) {
                queued[step] += 1;
            }
        }
        let mut sums: Table<StepId, StepTotals> = Table::filled(StepTotals::default(), self.tree.steps.len());
        for &i in &self.tree.order {
            let step = &self.tree.steps[i];
            let mut sum = step.parent.map_or_else(StepTotals::default, |parent| sums[parent]);
            if let (Some(parent), Some(from)) = (step.parent, step.parent_node)
                && self.tree.steps[parent].branches > 1
            {
                sum.fork = Some((parent, from));
            }
            sum.messages += own[i];
            sum.turns += queued[i];
            sum.compactions += u32::from(self.is_compaction(i));
            let head = &self.facts.nodes[step.first_node];
            if step.kind.is_prompt() && !head.message.is_some_and(|m| self.tree.is_continuation(i, m)) {
                // The prompt of a subagent does not begin a turn.
                sum.turns += u32::from(head.flags.is_prompt());
                sum.last_prompt = Some(step.first_node);
            }
            sums[i] = sum;
        }
        sums
    }

    /// Counts the messages that begin in each step.
    fn count_messages_by_step(&self) -> Table<StepId, u32> {
        let mut own: Table<StepId, u32> = Table::filled(0, self.tree.steps.len());
        for message in &self.facts.messages {
            if let Some(step) = self.tree.step(message.first_node) {
                own[step] += 1;
            }
        }
        for part in &self.tree.split_messages {
            let first = self.facts.messages[part.message].first_node;
            match (self.tree.step(first) == Some(part.step), part.continued) {
                (true, true) => own[part.step] -= 1,
                (false, false) => own[part.step] += 1,
                _ => {}
            }
        }
        own
    }

    /// Returns the last message entry of each step; for a step without one, that of its parent.
    fn last_entries(&self) -> Table<StepId, Option<NodeId>> {
        let mut last = Table::filled(None, self.tree.steps.len());
        for (index, node) in self.facts.nodes.iter_enumerated() {
            // An entry that was moved here is not on the chain of parents.
            let own = node.message.is_some() && self.tree.moved.binary_search(&index).is_err();
            if let Some(step) = self.tree.step(index).filter(|_| own) {
                last[step] = Some(index);
            }
        }
        for step in self.tree.parents_first() {
            let above = self.tree.parent_of(step).and_then(|parent| last[parent]);
            last[step] = last[step].or(above);
        }
        last
    }

    /// Finds the nearest user or assistant entry at or above given nodes, in one pass over the log.
    fn nearest_conversation_node(&self) -> impl FnMut(NodeId) -> NodeId + '_ {
        let mut known: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        move |node| {
            let mut trail = Vec::new();
            let mut at = node;
            while !self.facts.nodes[at].is_conversation() {
                if let Some(&found) = known.get(&at) {
                    at = found;
                    break;
                }
                trail.push(at);
                match self.tree.links[at].target() {
                    Some(above) => at = above,
                    None => break,
                }
            }
            known.extend(trail.into_iter().map(|passed| (passed, at)));
            at
        }
    }

    /// Returns the root of each step.
    pub fn roots_by_step(&self) -> Table<StepId, StepId> {
        let mut roots: Table<StepId, StepId> = self.tree.steps.keys().collect();
        for &step in &self.tree.order {
            if let Some(parent) = self.tree.parent_of(step) {
                roots[step] = roots[parent];
            }
        }
        roots
    }
}
