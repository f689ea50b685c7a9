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

use crate::facts::{Facts, NONE, Role};
use crate::id::{Time, Uid};
use crate::steps::{Step, StepKind, Steps};

/// The link from an entry to its predecessor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// No parent.
    Root,
    /// By `parentUuid`.
    Parent(u32),
    /// By `logicalParentUuid`, across a compaction.
    Logical(u32),
    /// By file order, across a compaction that has no uuid link.
    Inferred(u32),
    /// By time: the nearest earlier entry, which clients since 2.1.112 use for a missing parent.
    Bridged(u32),
    /// Its parent is not in the file.
    Dangling,
}

impl Link {
    /// Returns the predecessor.
    pub fn target(self) -> Option<u32> {
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
    pub links: Vec<Link>,
    /// The steps, roughly in the order of their first entries, because a parent comes before its
    /// children.
    pub steps: Vec<Step>,
    /// The step of each node: its own, or that of its nearest ancestor that has one.
    pub(crate) step_of: Vec<u32>,
    /// Entries that were moved to a step other than that of their parent, sorted.
    pub(crate) moved: Vec<u32>,
    /// Results in another step than their call: the step of the call, the step of the result, the entry.
    pub(crate) separate_results: Vec<(u32, u32, u32)>,
    /// Messages whose entries are in more than one step.
    pub(crate) split_messages: Vec<SplitMessagePart>,
    /// The defects of the links.
    pub defects: Vec<Defect>,
    /// The steps in topological order, parents first.
    pub(crate) order: Vec<u32>,
}

/// A part of a message whose entries are in more than one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SplitMessagePart {
    pub(crate) message: u32,
    pub(crate) step: u32,
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
    pub fn step(&self, node: usize) -> Option<usize> {
        let step = *self.step_of.get(node)?;
        (step != NONE).then_some(step as usize)
    }

    /// Returns the step of an entry; for a moved entry, the step of its parent.
    pub(crate) fn step_on_chain(&self, node: usize) -> Option<usize> {
        let mut at = node;
        while u32::try_from(at).is_ok_and(|at| self.moved.binary_search(&at).is_ok()) {
            at = self.links[at].target()? as usize;
        }
        self.step(at)
    }

    /// Returns the steps from the root to `step`.
    pub fn path_to(&self, step: usize) -> Vec<usize> {
        let mut path = Vec::new();
        let mut at = u32::try_from(step).unwrap_or(NONE);
        while let Some(step) = self.steps.get(at as usize) {
            path.push(at as usize);
            at = step.parent;
        }
        path.reverse();
        path
    }

    /// Returns the nodes of each step: its entries and their attachments, in file order.
    pub fn nodes_by_step(&self) -> IndexGroups {
        IndexGroups::new(self.steps.len(), &self.step_of)
    }

    fn report_dangling(&mut self, facts: &Facts) {
        for (node, link) in self.links.iter().enumerate() {
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
        let next: Vec<u32> = self.links.iter().map(|link| link.target().unwrap_or(NONE)).collect();
        let found = find_cycles(&next);
        if found.is_empty() {
            return;
        }
        let by_time = sorted_by_time(facts);
        for node in found {
            // As for a missing parent, clients use the nearest earlier entry in time.
            self.links[node as usize] = find_bridge(facts, &by_time, node).map_or(Link::Root, Link::Bridged);
            let line = facts.location(node as usize).line;
            let detail = "entry is its own ancestor".to_owned();
            self.defects.push(Defect { line, kind: DefectKind::Cycle, detail });
        }
        let next: Vec<u32> = self.links.iter().map(|link| link.target().unwrap_or(NONE)).collect();
        for node in find_cycles(&next) {
            self.links[node as usize] = Link::Root;
        }
    }

    /// Finds the steps whose subtree has content, and counts the branches.
    fn count_branches(&mut self, facts: &Facts) {
        self.order = topological_order(&self.steps);
        // If a session has nothing but commands and notes, they are its conversation.
        let is_conversation =
            |step: &Step| !step.sidechain && facts.nodes[step.first_node as usize].is_conversation();
        let typed = |step: &Step| {
            step.kind.makes_path() || facts.nodes[step.first_node as usize].flags.is_typed_command()
        };
        let nothing_typed = !self.steps.iter().any(|step| !step.sidechain && typed(step));
        for &i in self.order.iter().rev() {
            self.steps[i as usize].subtree_makes_path |= self.steps[i as usize].kind.makes_path();
            let step = self.steps[i as usize];
            let has_content =
                step.subtree_has_content || typed(&step) || nothing_typed && is_conversation(&step);
            self.steps[i as usize].subtree_has_content = has_content;
            if let Some(parent) = self.steps.get_mut(step.parent as usize)
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
            let result =
                step.kind == StepKind::Note && facts.nodes[step.first_node as usize].flags.has_result();
            !step.subtree_has_content && !step.sidechain && (result || step.kind == StepKind::Queued)
        };
        if !self.steps.iter().any(movable) {
            return;
        }
        let on_paths = self.ancestors_of(&self.path_ends());
        let mut children = vec![0u32; self.steps.len()];
        for step in &self.steps {
            if let Some(n) = children.get_mut(step.parent as usize) {
                *n += 1;
            }
        }
        let uses = self.call_steps_of_results(facts);
        let nearest = self.nearest_on_path(&on_paths);
        let mut hosts: FxHashMap<u32, u32> = FxHashMap::default();
        for &i in self.order.iter().rev() {
            let step = self.steps[i as usize];
            if on_paths[i as usize] || children[i as usize] > 0 || !movable(&step) {
                continue;
            }
            let host = match step.kind {
                StepKind::Queued => nearest.get(step.parent as usize).copied().filter(|&host| host != NONE),
                _ => uses.get(&step.first_node).copied().filter(|&host| !self.steps[host as usize].sidechain),
            };
            if let Some(host) = host {
                hosts.insert(i, host);
                self.steps[i as usize].emptied = true;
                if let Some(n) = children.get_mut(step.parent as usize) {
                    *n -= 1;
                }
            }
        }
        for node in 0..self.step_of.len() {
            if let Some(&host) = hosts.get(&self.step_of[node]) {
                self.step_of[node] = host;
                self.moved.push(u32::try_from(node).unwrap_or(NONE));
            }
        }
    }

    /// Finds the results that are in another step than their call.
    fn find_separate_results(&mut self, facts: &Facts) {
        let is_apart = |step: &Step| {
            step.kind == StepKind::Note
                && !step.emptied
                && facts.nodes[step.first_node as usize].flags.has_result()
        };
        if !self.steps.iter().any(is_apart) {
            return;
        }
        for (node, host) in self.call_steps_of_results(facts) {
            let step = self.step_of[node as usize];
            if step != NONE && step != host && is_apart(&self.steps[step as usize]) {
                self.separate_results.push((host, step, node));
            }
        }
        self.separate_results.sort_unstable();
    }

    /// Returns the results that belong to calls of a step but are in other steps, with their step and
    /// entry.
    pub(crate) fn separate_results_of(&self, step: u32) -> &[(u32, u32, u32)] {
        let start = self.separate_results.partition_point(|&(host, ..)| host < step);
        let end = self.separate_results.partition_point(|&(host, ..)| host <= step);
        &self.separate_results[start..end]
    }

    /// Returns the nearest step on a path at or above each step, or none.
    fn nearest_on_path(&self, on_paths: &[bool]) -> Vec<u32> {
        let mut nearest = vec![NONE; self.steps.len()];
        for &step in &self.order {
            let above = nearest.get(self.steps[step as usize].parent as usize).copied().unwrap_or(NONE);
            nearest[step as usize] = if on_paths[step as usize] { step } else { above };
        }
        nearest
    }

    /// Finds the step of the call for each entry with results: the nearest such call before it, otherwise
    /// the first one.
    fn call_steps_of_results(&self, facts: &Facts) -> FxHashMap<u32, u32> {
        let mut uses: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for &(node, call) in &facts.call_sites {
            uses.entry(call).or_default().push(node);
        }
        let mut found = FxHashMap::default();
        for &(node, call) in &facts.result_sites {
            let Some(uses) = uses.get(&call) else { continue };
            let before = uses.partition_point(|&used| used < node);
            if let Some(&used) = uses.get(before.saturating_sub(1)) {
                let step = self.step_of[used as usize];
                if step != NONE {
                    found.entry(node).or_insert(step);
                }
            }
        }
        found
    }

    /// Returns the last steps of the paths of the main conversation: for each tip the last note after it.
    pub fn path_ends(&self) -> Vec<usize> {
        let last = self.last_trailing_notes();
        self.tips().into_iter().map(|tip| last[tip] as usize).collect()
    }

    /// Returns for each step the last in the file of the step and the notes after it.
    fn last_trailing_notes(&self) -> Vec<u32> {
        let mut last: Vec<u32> = (0..self.steps.len()).map(|i| u32::try_from(i).unwrap_or(NONE)).collect();
        // A queued prompt can be moved, a user or assistant entry cannot.
        let rank =
            |step: u32| (self.steps[step as usize].is_conversation, self.steps[step as usize].first_node);
        for &i in self.order.iter().rev() {
            let step = &self.steps[i as usize];
            let Some(parent) = self.steps.get(step.parent as usize) else { continue };
            let known = last[step.parent as usize];
            let later = known == step.parent || rank(last[i as usize]) > rank(known);
            if !step.subtree_has_content && !step.emptied && parent.sidechain == step.sidechain && later {
                last[step.parent as usize] = last[i as usize];
            }
        }
        last
    }

    /// Returns the last in the file of a step and the notes after it.
    pub(crate) fn last_trailing_note(&self, step: usize) -> usize {
        self.last_trailing_notes()[step] as usize
    }

    /// Returns for each step whether it is one of `steps` or an ancestor of one.
    pub(crate) fn ancestors_of(&self, steps: &[usize]) -> Vec<bool> {
        let mut found = vec![false; self.steps.len()];
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
    pub(crate) fn has_more_after(&self, step: usize, end: usize) -> bool {
        let mut at = Some(end);
        while let Some(here) = at.filter(|&here| here != step) {
            if self.steps[here].kind.makes_path() {
                return true;
            }
            at = self.parent_of(here);
        }
        false
    }

    /// Finds the messages whose entries are in more than one step.
    fn find_split_messages(&mut self, facts: &Facts) {
        let mut spread: Vec<SplitMessagePart> = Vec::new();
        let mut add =
            |message: u32, step: u32| spread.push(SplitMessagePart { message, step, continued: false });
        for (i, node) in facts.nodes.iter().enumerate() {
            let step = self.step_of[i];
            if node.message == NONE || step == NONE {
                continue;
            }
            let first = self.step_of[facts.messages[node.message as usize].first_node as usize];
            if first != step {
                add(node.message, step);
                add(node.message, first);
            }
        }
        if spread.is_empty() {
            return;
        }
        let visits = self.preorder_ranges();
        // Within a message, ancestors come before their descendants.
        let start = |step: u32| visits.get(step as usize).map_or(0, |&(start, _)| start);
        spread.sort_unstable_by_key(|part| (part.message, start(part.step)));
        spread.dedup();
        let mut within: Option<(u32, u32)> = None;
        for part in &mut spread {
            let at = start(part.step);
            match within {
                Some((message, end)) if message == part.message && at < end => part.continued = true,
                _ => within = visits.get(part.step as usize).map(|&(_, end)| (part.message, end)),
            }
        }
        spread.sort_unstable();
        self.split_messages = spread;
    }

    /// Returns whether a step only continues a message that one of its ancestors has a part of.
    pub(crate) fn is_continuation(&self, step: usize, message: u32) -> bool {
        let step = u32::try_from(step).unwrap_or(NONE);
        let at = self.split_messages.partition_point(|part| (part.message, part.step) < (message, step));
        self.split_messages
            .get(at)
            .is_some_and(|part| (part.message, part.step) == (message, step) && part.continued)
    }

    /// Returns whether the entries of a message are in more than one step.
    pub(crate) fn is_split(&self, message: u32) -> bool {
        let at = self.split_messages.partition_point(|part| part.message < message);
        self.split_messages.get(at).is_some_and(|part| part.message == message)
    }

    /// Returns the parts of a message whose entries are in more than one step.
    pub(crate) fn parts_of_split(&self, message: u32) -> &[SplitMessagePart] {
        let start = self.split_messages.partition_point(|part| part.message < message);
        let end = self.split_messages.partition_point(|part| part.message <= message);
        &self.split_messages[start..end]
    }

    /// Returns for each step its index in a preorder walk, and the index after its last descendant.
    fn preorder_ranges(&self) -> Vec<(u32, u32)> {
        let mut size = vec![1u32; self.steps.len()];
        for &i in self.order.iter().rev() {
            if let Some(parent) = size.get(self.steps[i as usize].parent as usize).copied() {
                size[self.steps[i as usize].parent as usize] = parent + size[i as usize];
            }
        }
        let mut next = 0;
        let mut free = vec![0u32; self.steps.len()];
        let mut visits = vec![(0, 0); self.steps.len()];
        for &i in &self.order {
            let parent = self.steps[i as usize].parent;
            let slot = free.get_mut(parent as usize).unwrap_or(&mut next);
            let start = *slot;
            *slot += size[i as usize];
            free[i as usize] = start + 1;
            visits[i as usize] = (start, start + size[i as usize]);
        }
        visits
    }

    /// Returns the parent of a step.
    pub fn parent_of(&self, step: usize) -> Option<usize> {
        let parent = self.steps[step].parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// Returns the steps in topological order, parents first.
    pub fn parents_first(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().map(|&step| step as usize)
    }

    /// Returns the first entry of a step, as the index of a node.
    pub fn first_node(&self, step: usize) -> usize {
        self.steps[step].first_node as usize
    }

    /// Returns the steps in reverse topological order, children first.
    pub fn children_first(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().rev().map(|&step| step as usize)
    }

    /// Returns the tips: the last steps of the paths of the main conversation, in file order.
    pub fn tips(&self) -> Vec<usize> {
        let tip = |step: &Step| !step.sidechain && step.subtree_has_content && step.branches == 0;
        (0..self.steps.len()).filter(|&i| tip(&self.steps[i])).collect()
    }

    /// Returns the number of steps with more than one branch.
    pub fn forks(&self) -> usize {
        self.steps.iter().filter(|step| !step.sidechain && step.branches > 1).count()
    }
}

/// Resolves the parent of every entry.
fn resolve_links(facts: &Facts) -> Vec<Link> {
    let mut links = Vec::with_capacity(facts.nodes.len());
    let mut by_time: Option<Vec<(Time, u32)>> = None;
    let first_of = |node: u32| u32::try_from(facts.first_with_same_uuid(node as usize)).unwrap_or(NONE);
    // The last user or assistant entry so far, the target of inferred links.
    let mut last_conversation_node = NONE;
    for (i, node) in facts.nodes.iter().enumerate() {
        let index = u32::try_from(i).unwrap_or(NONE);
        // Of two entries with the same uuid the later one counts, at the position of the first.
        let node = facts.duplicates.get(&index).map_or(node, |&later| &facts.nodes[later as usize]);
        let restarts = node.flags.is_boundary() || node.flags.is_summary();
        let link = if node.parent.is_none() || node.flags.is_boundary() {
            let logical = facts.logical_parents.get(&index).and_then(|&uid| facts.node_of(uid));
            let parent = facts.node_of(node.parent);
            match (logical.or(parent), restarts && last_conversation_node != NONE) {
                (Some(parent), _) if parent != i => Link::Logical(u32::try_from(parent).unwrap_or(NONE)),
                (_, true) => Link::Inferred(last_conversation_node),
                _ => Link::Root,
            }
        } else if let Some(parent) = facts.node_of(node.parent).and_then(|parent| u32::try_from(parent).ok())
        {
            Link::Parent(parent)
        } else {
            let by_time = by_time.get_or_insert_with(|| sorted_by_time(facts));
            find_bridge(facts, by_time, index).map_or(Link::Dangling, |other| Link::Bridged(first_of(other)))
        };
        links.push(link);
        if node.is_conversation() && !node.flags.is_sidechain() {
            last_conversation_node = first_of(index);
        }
    }
    links
}

fn sorted_by_time(facts: &Facts) -> Vec<(Time, u32)> {
    let timed = |(i, node): (usize, &crate::facts::Node)| {
        let in_tree = !matches!(node.role, Role::Other | Role::Progress);
        (in_tree && !node.time.is_none()).then(|| (node.time, u32::try_from(i).unwrap_or(NONE)))
    };
    let mut times: Vec<_> = facts.nodes.iter().enumerate().filter_map(timed).collect();
    times.sort_unstable();
    times
}

/// Finds the entry that a client uses for a missing parent: the latest one that is not newer and at most
/// five seconds older. Only earlier entries of the file are considered, so there can be no cycle.
fn find_bridge(facts: &Facts, by_time: &[(Time, u32)], index: u32) -> Option<u32> {
    let node = &facts.nodes[index as usize];
    let millis = node.time.millis()?;
    let end = by_time.partition_point(|&(time, _)| time <= node.time);
    by_time[..end]
        .iter()
        .rev()
        .take_while(|(time, _)| time.millis().is_some_and(|t| millis - t <= BRIDGE_MILLIS))
        // Many entries at the same moment must not make this quadratic.
        .take(64)
        .find(|&&(_, other)| {
            let same_side = facts.nodes[other as usize].flags.is_sidechain() == node.flags.is_sidechain();
            other < index && same_side && facts.nodes[other as usize].uid != Uid::NONE
        })
        .map(|&(_, other)| other)
}

/// Returns the smallest node of each cycle of a graph in which every node has at most one successor.
pub(crate) fn find_cycles(next: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    // 0: not visited; otherwise the number of the walk that visited it first.
    let mut seen = vec![0u32; next.len()];
    for start in 0..next.len() {
        let walk = u32::try_from(start).unwrap_or(NONE - 1) + 1;
        let mut at = start;
        while seen[at] == 0 {
            seen[at] = walk;
            match next.get(next[at] as usize) {
                Some(_) => at = next[at] as usize,
                None => break,
            }
        }
        if seen[at] == walk && next.get(next[at] as usize).is_some() {
            // The walk met itself: follow the cycle once to find its smallest node.
            let mut smallest = at;
            let mut round = next[at] as usize;
            while round != at {
                smallest = smallest.min(round);
                round = next[round] as usize;
            }
            found.push(u32::try_from(smallest).unwrap_or(NONE));
        }
    }
    found
}

fn topological_order(steps: &[Step]) -> Vec<u32> {
    let mut order = Vec::with_capacity(steps.len());
    let mut done = vec![false; steps.len()];
    let mut stack = Vec::new();
    for start in 0..steps.len() {
        let mut at = start;
        while !done[at] {
            done[at] = true;
            stack.push(u32::try_from(at).unwrap_or(NONE));
            match steps.get(steps[at].parent as usize) {
                Some(_) => at = steps[at].parent as usize,
                None => break,
            }
        }
        while let Some(step) = stack.pop() {
            order.push(step);
        }
    }
    order
}

/// Indices sorted into groups, without a `Vec` per group.
#[derive(Debug, Clone, Default)]
pub struct IndexGroups {
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl IndexGroups {
    pub(crate) fn new(n_groups: usize, group_of: &[u32]) -> Self {
        let mut starts = vec![0u32; n_groups + 1];
        for &group in group_of.iter().filter(|&&g| g != NONE) {
            starts[group as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut at = starts.clone();
        let mut members = vec![0; starts.last().map_or(0, |&n| n as usize)];
        for (member, &group) in group_of.iter().enumerate().filter(|&(_, &g)| g != NONE) {
            members[at[group as usize] as usize] = u32::try_from(member).unwrap_or(NONE);
            at[group as usize] += 1;
        }
        Self { starts, members }
    }

    /// Returns the members of a group, in order.
    pub fn members_of(&self, group: usize) -> &[u32] {
        match self.starts.get(group..group + 2) {
            Some(&[start, end]) => &self.members[start as usize..end as usize],
            _ => &[],
        }
    }
}
