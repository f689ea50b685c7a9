//! Subagents and the calls that started them.
//!
//! Their entries are in the session's file (before 2.0.28), in `agent-<id>.jsonl` next to it, or in
//! `<session>/subagents/`. Since 2.0 the result of the call names the agent. Before that, the only link is
//! that the subagent's first prompt equals the prompt of the call.

use rustc_hash::FxHashMap;

use crate::index::{CallId, IndexGroups, NodeId, StepId, Table};
use crate::session::Session;

/// A subagent whose entries are in the session's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineSubagent {
    /// Its first entry.
    pub root: NodeId,
    /// The call that started it.
    pub call: Option<CallId>,
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
        let mut by_prompt: FxHashMap<u64, std::collections::VecDeque<CallId>> = FxHashMap::default();
        for (i, call) in self.facts.calls.iter_enumerated() {
            if let Some(prompt) = call.prompt_hash {
                by_prompt.entry(prompt).or_default().push_back(i);
            }
        }
        let roots = self.sidechain_roots();
        let mut sizes: FxHashMap<StepId, usize> = FxHashMap::default();
        for message in &self.facts.messages {
            if let Some(root) = self.tree.step(message.first_node).and_then(|step| roots[step]) {
                *sizes.entry(root).or_default() += 1;
            }
        }
        let prompts: FxHashMap<NodeId, u64> = self.facts.sidechain_roots.iter().copied().collect();
        let is_root = |step: &StepId| roots[*step] == Some(*step);
        let steps = self.tree.steps.keys();
        steps
            .filter(is_root)
            .map(|step| {
                let root = self.tree.first_node(step);
                let call = prompts.get(&root).and_then(|prompt| by_prompt.get_mut(prompt)?.pop_front());
                InlineSubagent { root, call, messages: sizes.get(&step).copied().unwrap_or(0) }
            })
            .collect()
    }

    /// Groups the steps of each subagent in this file by its first step.
    pub fn steps_by_sidechain_root(&self) -> IndexGroups<StepId, StepId> {
        IndexGroups::new(self.tree.steps.len(), &self.sidechain_roots())
    }

    /// Returns the first step of the subagent for each of its steps, and `None` for all other steps.
    pub fn sidechain_roots(&self) -> Table<StepId, Option<StepId>> {
        let mut roots = Table::filled(None, self.tree.steps.len());
        for &step in &self.tree.order {
            if self.tree.steps[step].sidechain {
                let above = self.tree.parent_of(step).and_then(|parent| roots[parent]);
                roots[step] = above.or(Some(step));
            }
        }
        roots
    }
}
