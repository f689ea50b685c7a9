//! The conversation as a tree, and the paths through it.
//!
//! The tree in the log has one node per entry and forks at every parallel tool call, hook and progress
//! entry. This one has a node per *step*: a prompt, a message of the model together with the results of
//! its calls, or a compaction. Steps follow the chain of entries (see [`crate::steps`]), so a step forks
//! only where a person or a client chose to: a rewind, a redo, a retry.
//!
//! A branch counts only if it has a prompt or an answer; a branch of nothing but command records and
//! notes is not a path.
//!
//! Everything here is linear in the number of entries and nothing recurses.

use rethread_log::{Defect, DefectKind};
use rustc_hash::FxHashMap;

use crate::facts::{Facts, Role};
use crate::id::Time;
use crate::index::{CallId, IndexGroups, MessageNo, NodeId, StepId, Table, TableKey};
use crate::steps::{Step, StepKind, Steps};

/// The link from an entry to its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// No parent.
    Root,
    /// By `parentUuid`.
    Parent(NodeId),
    /// By `logicalParentUuid`, across a compaction.
    Logical(NodeId),
    /// By file order, across a compaction that has no uuid link.
    Inferred(NodeId),
    /// By time: the nearest earlier entry, which clients since 2.1.112 use for a missing parent.
    Bridged(NodeId),
    /// Its parent is not in the file.
    Dangling,
}

impl Link {
    /// Returns the predecessor.
    pub fn target(self) -> Option<NodeId> {
        match self {
            Self::Parent(node) | Self::Logical(node) | Self::Inferred(node) | Self::Bridged(node) => {
                Some(node)
            }
            Self::Root | Self::Dangling => None,
        }
    }
}

/// The links between entries, and the steps they form.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// The link of each node.
    pub links: Table<NodeId, Link>,
    /// The steps, roughly in the order of their first entries, because a parent comes before its
    /// children.
    pub steps: Table<StepId, Step>,
    /// The step of each node: its own, or that of its nearest ancestor that has one.
    pub(crate) step_of: Table<NodeId, Option<StepId>>,
    /// Entries that were moved to a step other than that of their parent, sorted.
    pub(crate) moved: Vec<NodeId>,
    /// Results in another step than their call: the step of the call, the step of the result, the entry.
    pub(crate) separate_results: Vec<(StepId, StepId, NodeId)>,
    /// Messages whose entries are in more than one step.
    pub(crate) split_messages: Vec<SplitMessagePart>,
    /// The defects of the links.
    pub defects: Vec<Defect>,
    /// The steps in topological order, parents first.
    pub(crate) order: Vec<StepId>,
}

/// A part of a message whose entries are in more than one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SplitMessagePart {
    pub(crate) message: MessageNo,
    pub(crate) step: StepId,
    /// Set if an ancestor of the step has a part of the same message.
    pub(crate) continued: bool,
}

/// The maximum age difference of a bridged link, five seconds, as in clients since 2.1.112.
pub(crate) const BRIDGE_MILLIS: i64 = 5000;

impl Tree {
    /// Builds the tree of a session.
    pub fn new(facts: &Facts) -> Self {
        let mut tree = Self { links: resolve_links(facts), ..Self::default() };
        tree.report_dangling(facts);
        tree.break_cycles(facts);
        let Steps { steps, step_of } = Steps::new(facts, &tree.links);
        (tree.steps, tree.step_of) = (steps, step_of);
        tree.count_branches(facts);
        tree.move_off_path_entries(facts);
        tree.find_separate_results(facts);
        tree.find_split_messages(facts);
        tree
    }

    /// Returns the step of an entry.
    pub fn step(&self, node: NodeId) -> Option<StepId> {
        self.step_of[node]
    }

    /// Returns the step of an entry; for a moved entry, the step of its parent.
    pub(crate) fn step_on_chain(&self, node: NodeId) -> Option<StepId> {
        let mut at = node;
        while self.moved.binary_search(&at).is_ok() {
            at = self.links[at].target()?;
        }
        self.step(at)
    }

    /// Returns the steps from the root to `step`.
    pub fn path_to(&self, step: StepId) -> Vec<StepId> {
        let mut path: Vec<StepId> = self.ancestors(step).collect();
        path.reverse();
        path
    }

    /// Returns a step and its ancestors, up to the root.
    pub fn ancestors(&self, step: StepId) -> impl Iterator<Item = StepId> {
        std::iter::successors(Some(step), |&step| self.parent_of(step))
    }

    /// Returns the nodes of each step: its entries and their attachments, in file order.
    pub fn nodes_by_step(&self) -> IndexGroups<StepId, NodeId> {
        IndexGroups::new(self.steps.len(), &self.step_of)
    }

    fn report_dangling(&mut self, facts: &Facts) {
        for (node, link) in self.links.iter_enumerated() {
            // A subagent's file normally begins with a parent in another file.
            let expected = facts.nodes[node].flags.is_sidechain();
            if matches!(link, Link::Dangling | Link::Bridged(_)) && !expected {
                let detail = match link {
                    Link::Bridged(_) => "parent is not in the file; linked to the nearest earlier entry",
                    _ => "parent is not in the file",
                };
                let line = facts.location(node).line;
                self.defects.push(Defect { line, kind: DefectKind::DanglingParent, detail: detail.into() });
            }
        }
    }

    /// Breaks each cycle at its first entry in the file.
    fn break_cycles(&mut self, facts: &Facts) {
        let found = self.cycles();
        if found.is_empty() {
            return;
        }
        let by_time = sorted_by_time(facts);
        for node in found {
            // As for a missing parent, clients use the nearest earlier entry in time.
            self.links[node] = find_bridge(facts, &by_time, node).map_or(Link::Root, Link::Bridged);
            let line = facts.location(node).line;
            let detail = "entry is its own ancestor".to_owned();
            self.defects.push(Defect { line, kind: DefectKind::Cycle, detail });
        }
        for node in self.cycles() {
            self.links[node] = Link::Root;
        }
    }

    fn cycles(&self) -> Vec<NodeId> {
        find_cycles(&self.links.iter().map(|link| link.target()).collect())
    }

    /// Finds the steps whose subtree has content, and counts the branches.
    fn count_branches(&mut self, facts: &Facts) {
        self.order = topological_order(&self.steps);
        // If a session has nothing but commands and notes, they are its conversation.
        let is_conversation = |step: &Step| !step.sidechain && facts.nodes[step.first_node].is_conversation();
        let typed =
            |step: &Step| step.kind.makes_path() || facts.nodes[step.first_node].flags.is_typed_command();
        let nothing_typed = !self.steps.iter().any(|step| !step.sidechain && typed(step));
        for &i in self.order.iter().rev() {
            self.steps[i].subtree_makes_path |= self.steps[i].kind.makes_path();
            let step = self.steps[i];
            let has_content =
                step.subtree_has_content || typed(&step) || nothing_typed && is_conversation(&step);
            self.steps[i].subtree_has_content = has_content;
            if let Some(parent) = step.parent.map(|parent| &mut self.steps[parent])
                && has_content
                && parent.sidechain == step.sidechain
            {
                parent.subtree_has_content = true;
                parent.subtree_makes_path |= step.subtree_makes_path;
                parent.branches += 1;
            }
        }
    }

    /// Moves results and queued prompts that are on no path to the step they belong to.
    ///
    /// Parallel results can be children of an entry before their call, or have no parent at all: they are
    /// moved to the step of their call, which is how clients resume them. A queued prompt off the path is
    /// moved to the step that it was attached to.
    fn move_off_path_entries(&mut self, facts: &Facts) {
        let movable = |step: &Step| {
            let result = step.kind == StepKind::Note && facts.nodes[step.first_node].flags.has_result();
            !step.subtree_has_content && !step.sidechain && (result || step.kind == StepKind::Queued)
        };
        if !self.steps.iter().any(movable) {
            return;
        }
        let on_paths = self.ancestors_of(&self.path_ends());
        let mut children: Table<StepId, u32> = Table::filled(0, self.steps.len());
        for parent in self.steps.iter().filter_map(|step| step.parent) {
            children[parent] += 1;
        }
        let uses = self.call_steps_of_results(facts);
        let nearest = self.nearest_on_path(&on_paths);
        let mut hosts: FxHashMap<StepId, StepId> = FxHashMap::default();
        for &i in self.order.iter().rev() {
            let step = self.steps[i];
            if on_paths[i] || children[i] > 0 || !movable(&step) {
                continue;
            }
            let host = match step.kind {
                StepKind::Queued => step.parent.and_then(|parent| nearest[parent]),
                _ => uses.get(&step.first_node).copied().filter(|&host| !self.steps[host].sidechain),
            };
            if let Some(host) = host {
                hosts.insert(i, host);
                self.steps[i].emptied = true;
                if let Some(parent) = step.parent {
                    children[parent] -= 1;
                }
            }
        }
        for node in self.step_of.keys() {
            if let Some(&host) = self.step_of[node].and_then(|step| hosts.get(&step)) {
                self.step_of[node] = Some(host);
                self.moved.push(node);
            }
        }
    }

    /// Finds the results that are in another step than their call.
    fn find_separate_results(&mut self, facts: &Facts) {
        let is_apart = |step: &Step| {
            step.kind == StepKind::Note && !step.emptied && facts.nodes[step.first_node].flags.has_result()
        };
        if !self.steps.iter().any(is_apart) {
            return;
        }
        for (node, host) in self.call_steps_of_results(facts) {
            if let Some(step) = self.step_of[node]
                && step != host
                && is_apart(&self.steps[step])
            {
                self.separate_results.push((host, step, node));
            }
        }
        self.separate_results.sort_unstable();
    }

    /// Returns the results that belong to calls of a step but are in other steps, with their step and
    /// entry.
    pub(crate) fn separate_results_of(&self, step: StepId) -> &[(StepId, StepId, NodeId)] {
        let start = self.separate_results.partition_point(|&(host, ..)| host < step);
        let end = self.separate_results.partition_point(|&(host, ..)| host <= step);
        &self.separate_results[start..end]
    }

    /// Returns the nearest step on a path at or above each step.
    fn nearest_on_path(&self, on_paths: &Table<StepId, bool>) -> Table<StepId, Option<StepId>> {
        let mut nearest = Table::filled(None, self.steps.len());
        for &step in &self.order {
            let above = self.parent_of(step).and_then(|parent| nearest[parent]);
            nearest[step] = if on_paths[step] { Some(step) } else { above };
        }
        nearest
    }

    /// Finds the step of the call for each entry with results: the nearest such call before it, otherwise
    /// the first one.
    fn call_steps_of_results(&self, facts: &Facts) -> FxHashMap<NodeId, StepId> {
        let mut uses: FxHashMap<CallId, Vec<NodeId>> = FxHashMap::default();
        for &(node, call) in &facts.call_sites {
            uses.entry(call).or_default().push(node);
        }
        let mut found = FxHashMap::default();
        for &(node, call) in &facts.result_sites {
            let Some(uses) = uses.get(&call) else { continue };
            let before = uses.partition_point(|&used| used < node);
            let used = uses.get(before.saturating_sub(1));
            if let Some(step) = used.and_then(|&used| self.step_of[used]) {
                found.entry(node).or_insert(step);
            }
        }
        found
    }

    /// Returns the last steps of the paths of the main conversation: for each tip the last note after it.
    pub fn path_ends(&self) -> Vec<StepId> {
        let last = self.last_trailing_notes();
        self.tips().into_iter().map(|tip| last[tip]).collect()
    }

    /// Returns for each step the last in the file of the step and the notes after it.
    fn last_trailing_notes(&self) -> Table<StepId, StepId> {
        let mut last: Table<StepId, StepId> = self.steps.keys().collect();
        // A queued prompt can be moved, a user or assistant entry cannot.
        let rank = |step: StepId| (self.steps[step].is_conversation, self.steps[step].first_node);
        for &i in self.order.iter().rev() {
            let step = &self.steps[i];
            let Some(parent) = step.parent else { continue };
            let known = last[parent];
            let later = known == parent || rank(last[i]) > rank(known);
            let same_side = self.steps[parent].sidechain == step.sidechain;
            if !step.subtree_has_content && !step.emptied && same_side && later {
                last[parent] = last[i];
            }
        }
        last
    }

    /// Returns the last in the file of a step and the notes after it.
    pub(crate) fn last_trailing_note(&self, step: StepId) -> StepId {
        self.last_trailing_notes()[step]
    }

    /// Returns for each step whether it is one of `steps` or an ancestor of one.
    pub(crate) fn ancestors_of(&self, steps: &[StepId]) -> Table<StepId, bool> {
        let mut found = Table::filled(false, self.steps.len());
        for &step in steps {
            let mut at = Some(step);
            while let Some(step) = at.filter(|&step| !found[step]) {
                found[step] = true;
                at = self.parent_of(step);
            }
        }
        found
    }

    /// Returns whether there is content after `step` on the path that ends with `end`.
    pub(crate) fn has_more_after(&self, step: StepId, end: StepId) -> bool {
        let mut after = self.ancestors(end).take_while(|&at| at != step);
        after.any(|at| self.steps[at].kind.makes_path())
    }

    /// Finds the messages whose entries are in more than one step.
    fn find_split_messages(&mut self, facts: &Facts) {
        let mut spread: Vec<SplitMessagePart> = Vec::new();
        let mut add = |message, step| spread.push(SplitMessagePart { message, step, continued: false });
        for (i, node) in facts.nodes.iter_enumerated() {
            let (Some(message), Some(step)) = (node.message, self.step_of[i]) else { continue };
            let first = self.step_of[facts.messages[message].first_node];
            if first != Some(step) {
                add(message, step);
                first.into_iter().for_each(|first| add(message, first));
            }
        }
        if spread.is_empty() {
            return;
        }
        let visits = self.preorder_ranges();
        // Within a message, ancestors come before their descendants.
        let start = |step: StepId| visits[step].0;
        spread.sort_unstable_by_key(|part| (part.message, start(part.step)));
        spread.dedup();
        let mut within: Option<(MessageNo, u32)> = None;
        for part in &mut spread {
            let at = start(part.step);
            match within {
                Some((message, end)) if message == part.message && at < end => part.continued = true,
                _ => within = Some((part.message, visits[part.step].1)),
            }
        }
        spread.sort_unstable();
        self.split_messages = spread;
    }

    /// Returns whether a step only continues a message that one of its ancestors has a part of.
    pub(crate) fn is_continuation(&self, step: StepId, message: MessageNo) -> bool {
        let at = self.split_messages.partition_point(|part| (part.message, part.step) < (message, step));
        self.split_messages
            .get(at)
            .is_some_and(|part| (part.message, part.step) == (message, step) && part.continued)
    }

    /// Returns whether the entries of a message are in more than one step.
    pub(crate) fn is_split(&self, message: MessageNo) -> bool {
        let at = self.split_messages.partition_point(|part| part.message < message);
        self.split_messages.get(at).is_some_and(|part| part.message == message)
    }

    /// Returns the parts of a message whose entries are in more than one step.
    pub(crate) fn parts_of_split(&self, message: MessageNo) -> &[SplitMessagePart] {
        let start = self.split_messages.partition_point(|part| part.message < message);
        let end = self.split_messages.partition_point(|part| part.message <= message);
        &self.split_messages[start..end]
    }

    /// Returns for each step its index in a preorder walk, and the index after its last descendant.
    fn preorder_ranges(&self) -> Table<StepId, (u32, u32)> {
        let mut size: Table<StepId, u32> = Table::filled(1, self.steps.len());
        for &i in self.order.iter().rev() {
            if let Some(parent) = self.parent_of(i) {
                size[parent] += size[i];
            }
        }
        let mut next = 0;
        let mut free: Table<StepId, u32> = Table::filled(0, self.steps.len());
        let mut visits = Table::filled((0, 0), self.steps.len());
        for &i in &self.order {
            let slot = self.parent_of(i).map_or(&mut next, |parent| &mut free[parent]);
            let start = *slot;
            *slot += size[i];
            free[i] = start + 1;
            visits[i] = (start, start + size[i]);
        }
        visits
    }

    /// Returns the parent of a step.
    pub fn parent_of(&self, step: StepId) -> Option<StepId> {
        self.steps[step].parent
    }

    /// Returns the steps in topological order, parents first.
    pub fn parents_first(&self) -> impl Iterator<Item = StepId> + '_ {
        self.order.iter().copied()
    }

    /// Returns the first entry of a step.
    pub fn first_node(&self, step: StepId) -> NodeId {
        self.steps[step].first_node
    }

    /// Returns the steps in reverse topological order, children first.
    pub fn children_first(&self) -> impl Iterator<Item = StepId> + '_ {
        self.order.iter().rev().copied()
    }

    /// Returns the tips: the last steps of the paths of the main conversation, in file order.
    pub fn tips(&self) -> Vec<StepId> {
        let tip = |step: &Step| !step.sidechain && step.subtree_has_content && step.branches == 0;
        self.steps.keys().filter(|&i| tip(&self.steps[i])).collect()
    }

    /// Returns the number of steps with more than one branch.
    pub fn forks(&self) -> usize {
        self.steps.iter().filter(|step| !step.sidechain && step.branches > 1).count()
    }
}

/// Resolves the parent of every entry.
fn resolve_links(facts: &Facts) -> Table<NodeId, Link> {
    let mut links = Table::with_capacity(facts.nodes.len());
    let mut by_time: Option<Vec<(Time, NodeId)>> = None;
    // The last user or assistant entry so far, the target of inferred links.
    let mut last_conversation_node = None;
    for (index, node) in facts.nodes.iter_enumerated() {
        // Of two entries with the same uuid the later one counts, at the position of the first.
        let node = facts.duplicates.get(&index).map_or(node, |&later| &facts.nodes[later]);
        let parent = node.parent.and_then(|parent| facts.node_of(parent));
        let restarts = node.flags.is_boundary() || node.flags.is_summary();
        let link = if node.parent.is_none() || node.flags.is_boundary() {
            match (facts.logical_parent_of(index).or(parent), last_conversation_node) {
                (Some(parent), _) if parent != index => Link::Logical(parent),
                (_, Some(before)) if restarts => Link::Inferred(before),
                _ => Link::Root,
            }
        } else if let Some(parent) = parent {
            Link::Parent(parent)
        } else {
            let by_time = by_time.get_or_insert_with(|| sorted_by_time(facts));
            let bridge = find_bridge(facts, by_time, index);
            bridge.map_or(Link::Dangling, |other| Link::Bridged(facts.first_with_same_uuid(other)))
        };
        links.push(link);
        if node.is_conversation() && !node.flags.is_sidechain() {
            last_conversation_node = Some(facts.first_with_same_uuid(index));
        }
    }
    links
}

fn sorted_by_time(facts: &Facts) -> Vec<(Time, NodeId)> {
    let timed = |(index, node): (NodeId, &crate::facts::Node)| {
        let in_tree = !matches!(node.role, Role::Other | Role::Progress);
        Some((node.time.filter(|_| in_tree)?, index))
    };
    let mut times: Vec<_> = facts.nodes.iter_enumerated().filter_map(timed).collect();
    times.sort_unstable();
    times
}

/// Finds the entry that a client uses for a missing parent: the latest one that is not newer and at most
/// five seconds older. Only earlier entries of the file are considered, so there can be no cycle.
fn find_bridge(facts: &Facts, by_time: &[(Time, NodeId)], index: NodeId) -> Option<NodeId> {
    let node = &facts.nodes[index];
    let now = node.time?;
    let end = by_time.partition_point(|&(time, _)| time <= now);
    by_time[..end]
        .iter()
        .rev()
        .take_while(|(time, _)| now.millis() - time.millis() <= BRIDGE_MILLIS)
        // Many entries at the same moment must not make this quadratic.
        .take(64)
        .find(|&&(_, other)| {
            let same_side = facts.nodes[other].flags.is_sidechain() == node.flags.is_sidechain();
            other < index && same_side
        })
        .map(|&(_, other)| other)
}

/// Returns the smallest key of each cycle of a graph in which every key has at most one successor.
pub(crate) fn find_cycles<K: TableKey>(next: &Table<K, Option<K>>) -> Vec<K> {
    let mut found = Vec::new();
    // The start of the walk that visited a key first.
    let mut visited_by = Table::filled(None, next.len());
    for start in next.keys() {
        let mut at = start;
        while visited_by[at].is_none() {
            visited_by[at] = Some(start);
            match next[at] {
                Some(above) => at = above,
                None => break,
            }
        }
        if visited_by[at] == Some(start)
            && let Some(mut round) = next[at]
        {
            // The walk met itself: follow the cycle once to find its smallest key.
            let mut smallest = at;
            while round != at {
                smallest = smallest.min(round);
                round = next[round].unwrap_or(at);
            }
            found.push(smallest);
        }
    }
    found
}

fn topological_order(steps: &Table<StepId, Step>) -> Vec<StepId> {
    let mut order = Vec::with_capacity(steps.len());
    let mut done = Table::filled(false, steps.len());
    let mut stack = Vec::new();
    for start in steps.keys() {
        let mut at = Some(start);
        while let Some(step) = at.filter(|&step| !done[step]) {
            done[step] = true;
            stack.push(step);
            at = steps[step].parent;
        }
        while let Some(step) = stack.pop() {
            order.push(step);
        }
    }
    order
}
