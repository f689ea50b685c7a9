//! Entries of subagents in the session's own file, as clients before 2.1 write them.

use rethread_model::{NodeId, Session};
use rustc_hash::FxHashMap;

use super::select::Selection;
use super::tools::CallEdits;
use crate::plan::Plan;
use crate::source::SourceSession;

/// Maps entries of subagents in this file to the entry that called them.
pub(super) fn callers_of_sidechains(session: &Session) -> FxHashMap<NodeId, NodeId> {
    let callers: FxHashMap<NodeId, NodeId> = session
        .subagents()
        .into_iter()
        .filter_map(|agent| Some((agent.root, session.facts.calls[agent.call?].node)))
        .collect();
    if callers.is_empty() {
        return FxHashMap::default();
    }
    let first_of = sidechain_starts(session);
    let side = session.facts.nodes.keys().filter(|&n| session.facts.nodes[n].flags.is_sidechain());
    side.filter_map(|node| Some((node, callers.get(&first_of(node)?).copied()?))).collect()
}

/// Returns a function from an entry of a subagent to the subagent's first entry.
fn sidechain_starts(session: &Session) -> impl Fn(NodeId) -> Option<NodeId> {
    let roots = session.sidechain_roots();
    move |node| {
        let root = roots[session.tree.step(node)?]?;
        Some(session.tree.first_node(root))
    }
}

/// Drops entries of subagents in this file whose call is not kept.
pub(super) fn drop_unused_sidechains(
    source: &SourceSession<'_>,
    selection: &Selection,
    edits: &CallEdits,
    plan: &mut Plan<'_>,
) {
    let session = &source.session;
    let facts = &session.facts;
    if facts.is_all_sidechain() || !facts.nodes.iter().any(|node| node.flags.is_sidechain()) {
        return;
    }
    let on_path = plan.on_path();
    let mut kept: FxHashMap<NodeId, bool> = FxHashMap::default();
    for agent in session.subagents() {
        let keeps = match agent.call {
            Some(call) => !edits.removes(call) && !plan.is_dropped(facts.calls[call].node),
            None => !selection.single_path,
        };
        kept.insert(agent.root, keeps);
    }
    let first_of = sidechain_starts(session);
    for (node, fact) in facts.nodes.iter_enumerated() {
        if !fact.flags.is_sidechain() || on_path[node] {
            continue;
        }
        let keeps = first_of(node).and_then(|first| kept.get(&first).copied());
        if !keeps.unwrap_or(!selection.single_path) {
            plan.drop_requested(node);
        }
    }
}
