//! One session, read and understood: the facts of its log, its tree and its paths.

use std::sync::OnceLock;

use rethread_log::Defect;
use rustc_hash::FxHashMap;

use crate::check::{Straight, newest_tip, straight_in};
use crate::client::Client;
use crate::facts::{Facts, NONE};
use crate::id::{Time, Uid};
use crate::resume::resume;
use crate::tree::{Groups, StepKind, Tree};

/// A session without its texts.
#[derive(Debug, Clone)]
pub struct Session {
    /// What is known of its entries.
    pub facts: Facts,
    /// How they hang together.
    pub tree: Tree,
    /// The step on whose path each step is shown: itself, or for what makes no path the step beside.
    home: Vec<u32>,
    /// Whether it is one line; asked for by several in turn.
    straight: OnceLock<Option<Straight>>,
}

/// A way through the conversation, from a root to an ending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its number, from 1, in the order in which the endings stand in the file.
    pub n: usize,
    /// It is the one that the client would resume.
    pub active: bool,
    /// The client would resume it here, though the conversation went on from here.
    pub inner: bool,
    /// The step that it ends with.
    pub step: usize,
    /// The last user or assistant entry, as an index of a node.
    pub tip: usize,
    /// The last entry that it shares with another path.
    pub fork_point: Option<usize>,
    /// The fork point's step.
    pub fork_step: Option<usize>,
    /// Messages on it.
    pub messages: u32,
    /// Prompts on it.
    pub turns: u32,
    /// Compactions on it.
    pub compactions: u32,
    /// Its last prompt, as an index of a node.
    pub last_prompt: Option<usize>,
    /// When its last entry was written.
    pub time: Time,
}

/// Where a path leaves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branching {
    /// The index of the other path.
    pub of: usize,
    /// The last step that they share.
    pub step: usize,
    /// The number of the last message that they share.
    pub message: Option<usize>,
    /// Messages on the way to there.
    pub messages_before: u32,
}

/// Sums along the way from the root to each step.
#[derive(Clone, Copy, Default)]
struct Sums {
    messages: u32,
    turns: u32,
    compactions: u32,
    last_prompt: Option<usize>,
    fork: Option<(usize, u32)>,
}

impl Session {
    /// Reads a session that is in memory.
    pub fn read(bytes: &[u8]) -> Self {
        let mut builder = crate::Builder::for_size(bytes.len() as u64);
        let mut scanner = rethread_log::Scanner::default();
        scanner.scan_all(bytes, &mut builder);
        Self::new(builder.finish(scanner.lines(), scanner.bad_lines))
    }

    /// Builds the tree of the facts.
    pub fn new(facts: Facts) -> Self {
        let tree = Tree::new(&facts);
        let home = homes(&tree);
        Self { facts, tree, home, straight: OnceLock::new() }
    }

    /// Tells whether it is one line that every client takes in the same way.
    pub(crate) fn straight(&self) -> Option<Straight> {
        *self.straight.get_or_init(|| straight_in(&self.facts))
    }

    /// Returns the paths, the active one by the rule of `client`.
    pub fn paths(&self, client: Client) -> Vec<Path> {
        let known = if client == Client::NEWEST { newest_tip(self) } else { None };
        self.paths_with(known.or_else(|| resume(&self.facts, client).tip()))
    }

    /// Returns the paths, with the one active that the entry `tip` is on.
    fn paths_with(&self, tip: Option<usize>) -> Vec<Path> {
        let sums = self.sums();
        let last = self.last_entries();
        let tips = self.tree.tips();
        let active = tip.and_then(|tip| self.tree.step(tip)).map(|step| self.home[step]);
        let mut ends: Vec<(usize, bool)> = tips.iter().map(|&step| (step, false)).collect();
        if let Some(step) = active.filter(|&step| step != NONE) {
            let step = step as usize;
            // Clients before 2.0 may even go on with a subagent's entries.
            if tips.binary_search(&step).is_err() {
                ends.push((step, true));
            }
        }
        ends.sort_by_key(|&(step, inner)| (last[step], inner));
        let mut said_above = self.said_above();
        ends.iter()
            .enumerate()
            .map(|(i, &(step, inner))| {
                let sums = &sums[step];
                let is_active = active.is_some_and(|a| a as usize == step);
                let tip = match tip {
                    Some(tip) if is_active => tip,
                    _ => last[step].unwrap_or(self.tree.steps[step].head) as usize,
                };
                Path {
                    n: i + 1,
                    active: is_active,
                    inner,
                    step,
                    tip,
                    fork_point: sums.fork.map(|(_, from)| said_above(from)),
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

    /// Finds where each path leaves another, the active one being whole: a picture of the branches, in
    /// which every step is drawn once.
    pub fn branchings(&self, paths: &[Path]) -> Vec<Option<Branching>> {
        let sums = self.sums();
        let mut said_above = self.said_above();
        let mut drawn = vec![NONE; self.tree.steps.len()];
        let mut found = vec![None; paths.len()];
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.sort_by_key(|&i| !paths[i].active);
        for i in order {
            let mut at = paths[i].step;
            let mut below = None;
            while drawn[at] == NONE {
                drawn[at] = u32::try_from(i).unwrap_or(NONE);
                below = Some(at);
                match self.tree.parent_of(at) {
                    Some(parent) => at = parent,
                    None => break,
                }
            }
            let of = drawn[at] as usize;
            if of != i {
                let from = below.map(|below| self.tree.steps[below].from).filter(|&from| from != NONE);
                let message = from.and_then(|from| self.facts.nodes[said_above(from)].message());
                found[i] = Some(Branching {
                    of,
                    step: at,
                    message: message.map(|m| m + 1),
                    messages_before: sums[at].messages,
                });
            }
        }
        found
    }

    /// Counts the messages, the prompts and the compactions on the way to each step.
    pub fn counts(&self) -> Vec<(u32, u32, u32)> {
        self.sums().iter().map(|sum| (sum.messages, sum.turns, sum.compactions)).collect()
    }

    /// Returns the steps that are shown on the way to `step`, with what hangs beside the way; if a step
    /// of the way is given, those that come after it.
    pub fn steps_shown(&self, step: usize, after: Option<usize>) -> Vec<usize> {
        let shown = self.shown_with();
        let path = self.tree.path_to(step);
        let skip = after.and_then(|after| path.iter().position(|&s| s == after)).map_or(0, |at| at + 1);
        path[skip..].iter().flat_map(|&s| shown.of(s).iter().map(|&s| s as usize)).collect()
    }

    /// Returns for each step of a path the steps that are shown with it.
    pub(crate) fn shown_with(&self) -> Groups {
        Groups::new(self.home.len(), &self.home)
    }

    /// Returns the step on whose path a step is shown.
    pub(crate) fn home_of(&self, step: usize) -> Option<usize> {
        self.home.get(step).copied().filter(|&home| home != NONE).map(|home| home as usize)
    }

    /// Returns the id that a root names as what came before it.
    pub fn parent_of_root(&self, step: usize) -> Option<Uid> {
        // Notes may stand before the first message; the link is at the top of them.
        let mut node = self.tree.first_entry(step);
        while let Some(above) = self.tree.links[node].target() {
            node = above as usize;
        }
        let logical = u32::try_from(node).ok().and_then(|node| self.facts.logical_parents.get(&node));
        let uid = logical.copied().unwrap_or(self.facts.nodes[node].parent);
        (!uid.is_none()).then_some(uid)
    }

    /// Returns the step that message number `n` is part of.
    pub fn step_of_message(&self, n: usize) -> Option<usize> {
        let message = self.facts.messages.get(n.checked_sub(1)?)?;
        self.tree.step(message.first as usize)
    }

    /// Returns for each step whether the way to it shows `step`.
    pub fn beyond(&self, step: usize) -> Vec<bool> {
        let shown_with = self.home[step];
        let mut beyond = vec![false; self.tree.steps.len()];
        for &at in &self.tree.order {
            let above = self.tree.parent_of(at as usize).is_some_and(|parent| beyond[parent]);
            beyond[at as usize] = at == shown_with || above;
        }
        beyond
    }

    /// Returns for each step the prompt of its turn, as a step; a turn of a subagent is none.
    pub fn prompts_of_steps(&self) -> Vec<Option<usize>> {
        let mut prompts = vec![None; self.tree.steps.len()];
        for step in self.tree.in_order() {
            let human = self.facts.nodes[self.tree.first_entry(step)].flags.is_human();
            let asks = self.tree.steps[step].kind == StepKind::Prompt && human;
            let above = self.tree.parent_of(step).and_then(|parent| prompts[parent]);
            prompts[step] = if asks { Some(step) } else { above };
        }
        prompts
    }

    /// Counts distinct prompts, replays once.
    pub fn turns(&self) -> usize {
        self.facts.messages.iter().filter(|m| self.facts.nodes[m.first as usize].flags.is_human()).count()
    }

    /// Counts compactions: boundaries, and summaries that stand without one.
    pub fn compactions(&self) -> usize {
        (0..self.tree.steps.len()).filter(|&i| self.is_compaction(i)).count()
    }

    /// Returns everything that is wrong with the file, in the order of its lines.
    pub fn defects(&self) -> Vec<Defect> {
        let mut defects = self.facts.defects.clone();
        defects.extend(self.tree.defects.iter().cloned());
        defects.sort_by_key(|defect| defect.line);
        defects
    }

    /// Tells whether a step is a compaction of the main conversation; the summary behind a boundary
    /// is part of the same one.
    pub fn is_compaction(&self, step: usize) -> bool {
        let at = &self.tree.steps[step];
        let boundary = self.facts.nodes[at.head as usize].flags.is_boundary();
        let behind_one = self
            .tree
            .steps
            .get(at.parent as usize)
            .is_some_and(|before| self.facts.nodes[before.head as usize].flags.is_boundary());
        at.kind == StepKind::Compaction && !at.side && (boundary || !behind_one)
    }

    fn sums(&self) -> Vec<Sums> {
        let mut own = vec![0u32; self.tree.steps.len()];
        for message in &self.facts.messages {
            let step = self.tree.step_of[message.first as usize];
            if let Some(&home) = self.home.get(step as usize)
                && home != NONE
            {
                own[home as usize] += 1;
            }
        }
        let mut sums = vec![Sums::default(); self.tree.steps.len()];
        for &i in &self.tree.order {
            let i = i as usize;
            let step = &self.tree.steps[i];
            let mut sum = sums.get(step.parent as usize).copied().unwrap_or_default();
            if let Some(parent) = self.tree.steps.get(step.parent as usize)
                && parent.branches > 1
            {
                sum.fork = Some((step.parent as usize, step.from));
            }
            sum.messages += own[i];
            sum.compactions += u32::from(self.is_compaction(i));
            if step.kind == StepKind::Prompt {
                // The prompt of a subagent is nobody's turn.
                sum.turns += u32::from(self.facts.nodes[step.head as usize].flags.is_human());
                sum.last_prompt = Some(step.head as usize);
            }
            sums[i] = sum;
        }
        sums
    }

    /// Returns the last user or assistant entry shown with each step.
    fn last_entries(&self) -> Vec<Option<u32>> {
        let mut last = vec![None; self.tree.steps.len()];
        for (i, node) in self.facts.nodes.iter().enumerate() {
            let step = self.tree.step_of[i];
            if node.is_conversation() && step != NONE && !node.flags.is_replay() {
                last[step as usize] = u32::try_from(i).ok();
            }
        }
        last
    }

    /// Finds the user or assistant entry at or above each of some nodes, in one pass over the log.
    fn said_above(&self) -> impl FnMut(u32) -> usize + '_ {
        let mut known: FxHashMap<u32, u32> = FxHashMap::default();
        move |node| {
            let mut trail = Vec::new();
            let mut at = node;
            while !self.facts.nodes[at as usize].is_conversation() {
                if let Some(&found) = known.get(&at) {
                    at = found;
                    break;
                }
                trail.push(at);
                match self.tree.links[at as usize].target() {
                    Some(above) => at = above,
                    None => break,
                }
            }
            known.extend(trail.into_iter().map(|passed| (passed, at)));
            at as usize
        }
    }

    /// Returns for each step the root that it goes back to.
    pub fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = (0..self.tree.steps.len()).collect();
        for &step in &self.tree.order {
            if let Some(parent) = self.tree.parent_of(step as usize) {
                roots[step as usize] = roots[parent];
            }
        }
        roots
    }
}

/// Finds for each step the one on whose path it is shown.
fn homes(tree: &Tree) -> Vec<u32> {
    let mut home = vec![NONE; tree.steps.len()];
    for &i in &tree.order {
        let step = &tree.steps[i as usize];
        home[i as usize] =
            if step.spoken { i } else { home.get(step.parent as usize).copied().unwrap_or(NONE) };
    }
    // What hangs on nothing is shown with what stands before it in the file, or with the first.
    let first = (0..tree.steps.len()).find(|&i| tree.steps[i].spoken && !tree.steps[i].side);
    let mut before = first.map_or(NONE, |i| u32::try_from(i).unwrap_or(NONE));
    for (home, step) in home.iter_mut().zip(&tree.steps) {
        if *home == NONE && !step.side {
            *home = before;
        } else if step.spoken && !step.side {
            before = *home;
        }
    }
    home
}
