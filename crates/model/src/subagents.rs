//! Subagents and the calls that started them.
//!
//! Their entries are in the session's file (before 2.0.28), in `agent-<id>.jsonl` next to it, or in
//! `<session>/subagents/`. Since 2.0 the result of the call names the agent. Before that, the only link is
//! that the subagent's first prompt equals the prompt of the call.

use rustc_hash::FxHashMap;

use crate::facts::NONE;
use crate::session::Session;
use crate::tree::IndexGroups;

/// A subagent whose entries are in the session's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineSubagent {
    /// Its first entry, as a node index.
    pub root: usize,
    /// The call that started it, as an index into the session's calls.
    pub call: Option<usize>,
    /// The number of its messages.
    pub messages: usize,
}

impl Session {
    /// Counts the subagents whose entries are in this file.
    pub fn inline_subagent_count(&self) -> usize {
        if self.facts.is_all_sidechain() { 0 } else { self.facts.sidechain_roots.len() }
    }

    /// Returns the subagents whose entries are in this file, each with the call that started it.
    pub fn subagents(&self) -> Vec<InlineSubagent> {
        if self.facts.is_all_sidechain() {
            return Vec::new();
        }
        // Calls with the same prompt are assigned in order.
        let mut by_prompt: FxHashMap<u64, std::collections::VecDeque<usize>> = FxHashMap::default();
        for (i, call) in self.facts.calls.iter().enumerate() {
            if let Some(prompt) = call.prompt_hash {
                by_prompt.entry(prompt).or_default().push_back(i);
            }
        }
        let roots = self.sidechain_roots();
        let mut sizes: FxHashMap<u32, usize> = FxHashMap::default();
        for message in &self.facts.messages {
            let step = self.tree.step_of[message.first_node as usize];
            if let Some(Some(root)) = roots.get(step as usize) {
                *sizes.entry(*root).or_default() += 1;
            }
        }
        let prompts: FxHashMap<u32, u64> = self.facts.sidechain_roots.iter().copied().collect();
        let is_root = |step: &usize| roots[*step].is_some_and(|root| root as usize == *step);
        (0..self.tree.steps.len())
            .filter(is_root)
            .map(|step| {
                let root = self.tree.first_node(step);
                let prompt = u32::try_from(root).ok().and_then(|root| prompts.get(&root));
                let call = prompt.and_then(|prompt| by_prompt.get_mut(prompt)?.pop_front());
                let messages = u32::try_from(step).ok().and_then(|step| sizes.get(&step)).copied();
                InlineSubagent { root, call, messages: messages.unwrap_or(0) }
            })
            .collect()
    }

    /// Groups the steps of each subagent in this file by its first step.
    pub fn steps_by_sidechain_root(&self) -> IndexGroups {
        let roots: Vec<u32> = self.sidechain_roots().into_iter().map(|root| root.unwrap_or(NONE)).collect();
        IndexGroups::new(roots.len(), &roots)
    }

    /// Returns the first step of the subagent for each of its steps, and `None` for all other steps.
    pub fn sidechain_roots(&self) -> Vec<Option<u32>> {
        let mut roots = vec![None; self.tree.steps.len()];
        for &step in &self.tree.order {
            if self.tree.steps[step as usize].sidechain {
                let above = self.tree.parent_of(step as usize).and_then(|parent| roots[parent]);
                roots[step as usize] = above.or(Some(step));
            }
        }
        roots
    }
}
