//! The conversation as a tree, and the paths through it.
//!
//! The log's own tree has one node per entry and forks at every parallel tool call, hook and
//! progress note. This one has a node per *step*: a prompt, or a message of the model together with
//! the results of its calls, or a compaction. Entries of a step never fork it, and what is no message
//! (attachments, progress, notes) belongs to the step it hangs on. What still forks was a choice: a
//! rewind, a redo, a retry.
//!
//! A branch counts only if something was said on it by a person or the model; a branch of nothing
//! but command records and notes hangs beside the path and makes no path of its own.
//!
//! Everything here is linear in the number of entries and nothing recurses.

use rethread_log::{Defect, DefectKind};

use crate::facts::{Facts, NONE, Role};
use crate::flags::Flags;
use crate::id::{Time, Uid};

/// How an entry is joined to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It has no parent.
    Root,
    /// By `parentUuid`.
    Parent(u32),
    /// By `logicalParentUuid`: a compaction lies between.
    Logical(u32),
    /// By the order of the file: a compaction lies between that no uuid links.
    Inferred(u32),
    /// By the nearest entry before it in time, as clients since 2.1.112 do for a lost parent.
    Bridged(u32),
    /// Its parent is not in the file.
    Dangling,
}

impl Link {
    /// Returns the entry that it leads to.
    pub fn target(self) -> Option<u32> {
        match self {
            Self::Parent(node) | Self::Logical(node) | Self::Inferred(node) | Self::Bridged(node) => {
                Some(node)
            }
            Self::Root | Self::Dangling => None,
        }
    }
}

/// What a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Something a person wrote.
    Prompt,
    /// A message of the model, with the results of its calls.
    Answer,
    /// The boundary of a compaction, or the summary that stands for one.
    Compaction,
    /// Anything else in a user's or the model's place: commands, notices, interruptions, errors.
    Note,
}

/// A node of the conversation.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What it is.
    pub kind: StepKind,
    /// The step before it.
    pub(crate) parent: u32,
    /// The entry of the step before that it hangs on.
    pub(crate) from: u32,
    /// Its first entry.
    pub(crate) head: u32,
    /// It belongs to a subagent.
    pub side: bool,
    /// Something was said here or further on.
    pub(crate) spoken: bool,
    /// How many of the steps after it count.
    pub(crate) branches: u32,
}

/// Links between entries, and the steps they make.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// How each node is joined.
    pub links: Vec<Link>,
    /// The steps, in the order of their first entries.
    pub steps: Vec<Step>,
    /// The step of each node: its own, or the one it hangs on.
    pub(crate) step_of: Vec<u32>,
    /// What is wrong with the links.
    pub defects: Vec<Defect>,
    /// The steps in an order in which every one comes after the step before it.
    pub(crate) order: Vec<u32>,
}

/// Five seconds: how far back a client since 2.1.112 looks for a lost parent.
pub(crate) const BRIDGE_MILLIS: i64 = 5000;

impl Tree {
    /// Builds the tree of a session.
    pub fn new(facts: &Facts) -> Self {
        let mut tree = Self { links: links(facts), ..Self::default() };
        tree.report(facts);
        tree.break_cycles(facts);
        tree.make_steps(facts);
        tree.join_steps(facts);
        tree.count_branches();
        tree
    }

    /// Returns the step that an entry belongs to.
    pub fn step(&self, node: usize) -> Option<usize> {
        let step = *self.step_of.get(node)?;
        (step != NONE).then_some(step as usize)
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

    /// Returns the nodes of each step: its own entries and what hangs on them, in the file's order.
    pub fn nodes_by_step(&self) -> Groups {
        Groups::new(self.steps.len(), &self.step_of)
    }

    fn report(&mut self, facts: &Facts) {
        for (node, link) in self.links.iter().enumerate() {
            // Files of subagents begin with a parent in another file; that is how they are.
            let expected = facts.nodes[node].flags.is_sidechain();
            if matches!(link, Link::Dangling | Link::Bridged(_)) && !expected {
                let detail = match link {
                    Link::Bridged(_) => "parent is not in the file; joined to the entry before it in time",
                    _ => "parent is not in the file",
                };
                let line = facts.place(node).line;
                self.defects.push(Defect { line, kind: DefectKind::DanglingParent, detail: detail.into() });
            }
        }
    }

    /// Cuts each cycle at its first entry in the file.
    fn break_cycles(&mut self, facts: &Facts) {
        let next: Vec<u32> = self.links.iter().map(|link| link.target().unwrap_or(NONE)).collect();
        for node in cycles(&next) {
            self.links[node as usize] = Link::Root;
            let line = facts.place(node as usize).line;
            let detail = "entry is its own ancestor".to_owned();
            self.defects.push(Defect { line, kind: DefectKind::Cycle, detail });
        }
    }

    /// Gives every message and boundary its step, and every tool result the step of its call.
    fn make_steps(&mut self, facts: &Facts) {
        let mut step_of_message = vec![NONE; facts.messages.len()];
        let mut hosts: Vec<u32> = vec![NONE; facts.nodes.len()];
        for &(result, call) in &facts.answers {
            let call = &facts.calls[call as usize];
            hosts[result as usize] = facts.nodes[call.node as usize].message;
        }
        self.step_of = vec![NONE; facts.nodes.len()];
        let everything_side = facts.all_sidechain();
        let mut make = |steps: &mut Vec<Step>, message: u32, head: u32, kind: StepKind, side: bool| {
            let index = u32::try_from(steps.len()).unwrap_or(NONE);
            steps.push(Step { kind, parent: NONE, from: NONE, head, side, spoken: false, branches: 0 });
            if message != NONE {
                step_of_message[message as usize] = index;
            }
            index
        };
        // Calls first: a result may stand before its call in the file.
        for (i, node) in facts.nodes.iter().enumerate() {
            if facts.first_of(i) != i {
                continue;
            }
            let side = node.flags.is_sidechain() && !everything_side;
            let index = u32::try_from(i).unwrap_or(NONE);
            if node.flags.is_boundary() {
                self.step_of[i] = make(&mut self.steps, NONE, index, StepKind::Compaction, side);
            } else if node.message != NONE
                && hosts[i] == NONE
                && facts.messages[node.message as usize].first == index
            {
                make(&mut self.steps, node.message, index, kind_of(node.flags, node.role), side);
            }
        }
        for (i, node) in facts.nodes.iter().enumerate() {
            if node.message == NONE {
                continue;
            }
            let message = if hosts[i] == NONE { node.message } else { hosts[i] };
            self.step_of[i] = step_of_message[message as usize];
        }
        for i in 0..facts.nodes.len() {
            let first = facts.first_of(i);
            if first != i {
                self.step_of[i] = self.step_of[first];
            }
        }
        // An error becomes an answer when the model did speak in the same message after all.
        for (i, node) in facts.nodes.iter().enumerate() {
            let step = self.step_of[i];
            if step != NONE
                && node.role == Role::Assistant
                && kind_of(node.flags, node.role) == StepKind::Answer
            {
                self.steps[step as usize].kind = StepKind::Answer;
            }
        }
    }

    /// Finds the step before each step.
    fn join_steps(&mut self, facts: &Facts) {
        let own = self.step_of.clone();
        let replayed = self.hang_on(facts);
        for (i, node) in facts.nodes.iter().enumerate() {
            let step = own[i];
            if step == NONE || node.flags.is_replay() && self.steps[step as usize].head as usize != i {
                continue;
            }
            // A result is laid under its call wherever it hangs, so it joins nothing.
            let is_result = node.flags.has_result() && self.steps[step as usize].head as usize != i;
            if is_result || self.steps[step as usize].parent != NONE {
                continue;
            }
            let Some(parent) = self.links[i].target() else { continue };
            let before = replayed.get(parent as usize).copied().unwrap_or(NONE);
            let before = if before == NONE { self.step_of[parent as usize] } else { before };
            if before != NONE && before != step {
                self.steps[step as usize].parent = before;
                self.steps[step as usize].from = parent;
            }
        }
        let parents: Vec<u32> = self.steps.iter().map(|step| step.parent).collect();
        for step in cycles(&parents) {
            self.steps[step as usize].parent = NONE;
        }
    }

    /// Gives entries that are no message the step they hang on.
    ///
    /// Returns, for copies that a compaction laid behind its summary, the step of that summary: what
    /// follows such a copy follows the compaction, not the original.
    fn hang_on(&mut self, facts: &Facts) -> Vec<u32> {
        let mut behind =
            vec![NONE; if facts.nodes.iter().any(|n| n.flags.is_replay()) { facts.nodes.len() } else { 0 }];
        let mut state = vec![false; facts.nodes.len()];
        let mut stack: Vec<u32> = Vec::new();
        for start in 0..facts.nodes.len() {
            let mut at = u32::try_from(start).unwrap_or(NONE);
            // Go up until something is known, then come down again.
            while !state[at as usize] {
                state[at as usize] = true;
                stack.push(at);
                match self.links[at as usize].target() {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            while let Some(node) = stack.pop() {
                let i = node as usize;
                let parent = self.links[i].target();
                let above = parent.map_or(NONE, |p| self.step_of[p as usize]);
                if self.step_of[i] == NONE {
                    self.step_of[i] = above;
                }
                if behind.is_empty() {
                    continue;
                }
                let flags = facts.nodes[i].flags;
                let from_above = parent.map_or(NONE, |p| {
                    if behind[p as usize] != NONE {
                        behind[p as usize]
                    } else if above != NONE && self.steps[above as usize].kind == StepKind::Compaction {
                        above
                    } else {
                        NONE
                    }
                });
                if flags.is_replay()
                    || facts.nodes[i].message == NONE && parent.is_some_and(|p| behind[p as usize] != NONE)
                {
                    behind[i] = from_above;
                }
            }
        }
        behind
    }

    /// Finds which steps anything was said on, and how many ways lead on from each.
    fn count_branches(&mut self) {
        self.order = topological(&self.steps);
        let said = |kind: StepKind| matches!(kind, StepKind::Prompt | StepKind::Answer);
        // A session of nothing but commands and notes is shown as what it is.
        let main = |step: &Step| !step.side;
        let nothing_said = !self.steps.iter().any(|s| main(s) && said(s.kind));
        for &i in self.order.iter().rev() {
            let step = self.steps[i as usize];
            let spoken = step.spoken || said(step.kind) || nothing_said && main(&step);
            self.steps[i as usize].spoken = spoken;
            if let Some(parent) = self.steps.get_mut(step.parent as usize)
                && spoken
                && parent.side == step.side
            {
                parent.spoken = true;
                parent.branches += 1;
            }
        }
    }

    /// Returns the step before a step.
    pub fn parent_of(&self, step: usize) -> Option<usize> {
        let parent = self.steps[step].parent;
        (parent != NONE).then_some(parent as usize)
    }

    /// Returns the steps in an order in which every one comes after the step before it.
    pub fn in_order(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().map(|&step| step as usize)
    }

    /// Returns the first entry of a step, as an index of a node.
    pub fn first_entry(&self, step: usize) -> usize {
        self.steps[step].head as usize
    }

    /// Tells whether a step is part of a path of the main conversation.
    pub fn counts(&self, step: usize) -> bool {
        self.steps[step].spoken && !self.steps[step].side
    }

    /// Returns the steps in an order in which every one comes before the step that it hangs on.
    pub fn from_the_tips(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().rev().map(|&step| step as usize)
    }

    /// Returns the tips: the last steps of the main conversation's paths, in the order of the file.
    pub fn tips(&self) -> Vec<usize> {
        let tip = |step: &Step| !step.side && step.spoken && step.branches == 0;
        (0..self.steps.len()).filter(|&i| tip(&self.steps[i])).collect()
    }

    /// Returns the number of steps from which more than one path leads on.
    pub fn forks(&self) -> usize {
        self.steps.iter().filter(|step| !step.side && step.branches > 1).count()
    }
}

fn kind_of(flags: Flags, role: Role) -> StepKind {
    match role {
        Role::User if flags.is_summary() => StepKind::Compaction,
        Role::User if flags.is_human() => StepKind::Prompt,
        // The first entry of a subagent is its prompt, though no person wrote it.
        Role::User if flags.is_sidechain() && !flags.has_result() => StepKind::Prompt,
        Role::Assistant if !flags.is_api_error() && !flags.is_synthetic() => StepKind::Answer,
        _ => StepKind::Note,
    }
}

/// Resolves the parent of every entry.
fn links(facts: &Facts) -> Vec<Link> {
    let mut links = Vec::with_capacity(facts.nodes.len());
    let mut by_time: Option<Vec<(Time, u32)>> = None;
    // The last entry of the conversation so far, for joining what no uuid links.
    let mut last_said = NONE;
    for (i, node) in facts.nodes.iter().enumerate() {
        let index = u32::try_from(i).unwrap_or(NONE);
        // Of two entries with one uuid the later one counts, at the place of the first.
        let node = facts.duplicates.get(&index).map_or(node, |&later| &facts.nodes[later as usize]);
        let restarts = node.flags.is_boundary() || node.flags.is_summary();
        let link = if node.parent.is_none() || node.flags.is_boundary() {
            let logical = facts.logical_parents.get(&index).and_then(|&uid| facts.node_of(uid));
            let parent = facts.node_of(node.parent);
            match (logical.or(parent), restarts && last_said != NONE) {
                (Some(parent), _) if parent != i => Link::Logical(u32::try_from(parent).unwrap_or(NONE)),
                (_, true) => Link::Inferred(last_said),
                _ => Link::Root,
            }
        } else if let Some(parent) = facts.node_of(node.parent).and_then(|parent| u32::try_from(parent).ok())
        {
            Link::Parent(parent)
        } else {
            let by_time = by_time.get_or_insert_with(|| sorted_by_time(facts));
            bridge(facts, by_time, index).map_or(Link::Dangling, Link::Bridged)
        };
        links.push(link);
        if node.is_conversation() && !node.flags.is_sidechain() {
            last_said = index;
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

/// Finds the entry that a client takes for a lost parent: the latest one that is not newer and at
/// most five seconds older. Only entries earlier in the file are taken, so no cycle comes of it.
fn bridge(facts: &Facts, by_time: &[(Time, u32)], index: u32) -> Option<u32> {
    let node = &facts.nodes[index as usize];
    let millis = node.time.millis()?;
    let end = by_time.partition_point(|&(time, _)| time <= node.time);
    by_time[..end]
        .iter()
        .rev()
        .take_while(|(time, _)| time.millis().is_some_and(|t| millis - t <= BRIDGE_MILLIS))
        // A crowd within the same moment must not make this quadratic.
        .take(64)
        .find(|&&(_, other)| {
            let same_side = facts.nodes[other as usize].flags.is_sidechain() == node.flags.is_sidechain();
            other < index && same_side && facts.nodes[other as usize].uid != Uid::NONE
        })
        .map(|&(_, other)| other)
}

/// Returns one node of each cycle of a graph in which every node has at most one successor: the
/// smallest.
pub(crate) fn cycles(next: &[u32]) -> Vec<u32> {
    let mut found = Vec::new();
    // 0: not seen; otherwise the number of the walk that saw it first.
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
            // The walk ran into itself: go round once to find the smallest.
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

fn topological(steps: &[Step]) -> Vec<u32> {
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

/// Numbers sorted into groups, without a list for each.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    starts: Vec<u32>,
    members: Vec<u32>,
}

impl Groups {
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

    /// Returns the members of a group, in their order.
    pub fn of(&self, group: usize) -> &[u32] {
        match self.starts.get(group..group + 2) {
            Some(&[start, end]) => &self.members[start as usize..end as usize],
            _ => &[],
        }
    }
}
