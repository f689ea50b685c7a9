//! Subagents: which call started which.
//!
//! Their entries stand in the session's own file (before 2.0.28), in `agent-<id>.jsonl` beside it, or
//! in `<session>/subagents/`. The result of the call names the agent since 2.0; before that, the only
//! link is that the subagent's first prompt is the prompt of the call.

use rustc_hash::FxHashMap;

use crate::facts::NONE;
use crate::session::Session;

/// A subagent whose entries stand in the session's own file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inline {
    /// Its first entry, as an index of a node.
    pub root: usize,
    /// The call that started it, as an index of a call.
    pub call: Option<usize>,
    /// How many messages it has.
    pub messages: usize,
}

impl Session {
    /// Counts the subagents whose entries stand in this file.
    pub fn inline_subagents(&self) -> usize {
        if self.facts.all_sidechain() { 0 } else { self.facts.side_roots.len() }
    }

    /// Returns the subagents whose entries stand in this file, each with the call that started it.
    pub fn subagents(&self) -> Vec<Inline> {
        if self.facts.all_sidechain() {
            return Vec::new();
        }
        // Calls with the same prompt are taken in turn.
        let mut by_prompt: FxHashMap<u64, std::collections::VecDeque<usize>> = FxHashMap::default();
        for (i, call) in self.facts.calls.iter().enumerate() {
            if let Some(prompt) = call.prompt {
                by_prompt.entry(prompt).or_default().push_back(i);
            }
        }
        let sizes = self.messages_by_root();
        let inline = |&(root, prompt): &(u32, u64)| Inline {
            root: root as usize,
            call: by_prompt.get_mut(&prompt).and_then(std::collections::VecDeque::pop_front),
            messages: sizes.get(&root).copied().unwrap_or(0),
        };
        self.facts.side_roots.iter().map(inline).collect()
    }

    /// Returns the call that started the subagent with this id, if its result says so.
    pub fn call_of_agent(&self, agent: &str) -> Option<usize> {
        self.facts.calls.iter().position(|call| call.agent.as_deref() == Some(agent))
    }

    /// Counts the messages under each root of the tree.
    fn messages_by_root(&self) -> FxHashMap<u32, usize> {
        let mut root = vec![NONE; self.facts.nodes.len()];
        let mut trail = Vec::new();
        let mut sizes = FxHashMap::default();
        for message in &self.facts.messages {
            let mut at = message.first;
            while root[at as usize] == NONE {
                trail.push(at);
                match self.tree.links[at as usize].target() {
                    Some(above) => at = above,
                    None => break,
                }
            }
            let found = if root[at as usize] == NONE { at } else { root[at as usize] };
            for node in trail.drain(..) {
                root[node as usize] = found;
            }
            *sizes.entry(found).or_default() += 1;
        }
        sizes
    }
}
