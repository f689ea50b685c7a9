//! Selects the entries of a clone.

use rethread_log::Json;
use rethread_model::{
    BrokenLink, CallId, Client, MessageNo, NodeId, Path, Role, StepId, StepKind, Uid, session_intended_path,
};
use rustc_hash::FxHashSet;

use super::{ClonePlanError, Recipe, path_of};
use crate::plan::Plan;
use crate::source::SourceSession;

/// The conversation of a clone.
pub(super) struct Selection {
    /// Its entries from the first on: for a single path those before compactions, then those that
    /// are sent.
    pub(super) clone_path: Vec<NodeId>,
    /// The same, always with the entries before compactions.
    pub(super) full_path: Vec<NodeId>,
    /// Entries without a parent, because a compaction precedes them.
    path_starts: FxHashSet<NodeId>,
    broken_links: Vec<BrokenLink>,
    /// Drop everything else.
    pub(super) single_path: bool,
    pub(super) other_paths: usize,
}

impl Selection {
    pub(super) fn new(source: &SourceSession<'_>, recipe: &Recipe) -> Result<Self, ClonePlanError> {
        let session = &source.session;
        let facts = &session.facts;
        let single = recipe.is_single_path();
        if single && facts.is_all_sidechain() {
            return Err(ClonePlanError::Subagent);
        }
        let paths = if single { session.paths(Client::NEWEST) } else { Vec::new() };
        let end = end_among(source, recipe, &paths)?;
        let intended = session_intended_path(session, end.or_else(|| session.conversation_end()));
        if intended.chain.is_empty() {
            // The log of a subagent has no intended path, but has calls and thinking.
            if single || !facts.is_all_sidechain() {
                return Err(ClonePlanError::Empty);
            }
            let (clone_path, path, starts) = (Vec::new(), Vec::new(), FxHashSet::default());
            return Ok(Self {
                clone_path,
                full_path: path,
                path_starts: starts,
                broken_links: Vec::new(),
                single_path: single,
                other_paths: 0,
            });
        }
        let mut path = nodes_before_compaction(source, &intended.chain);
        let mut starts = FxHashSet::default();
        if single {
            starts.insert(intended.chain[0]);
        }
        path.extend(&intended.chain);
        let clone_path = if single { path.clone() } else { intended.chain.clone() };
        let begins = |node: &&NodeId| {
            let fact = &facts.nodes[**node];
            fact.flags.is_boundary() || fact.flags.is_summary() && fact.parent.is_none()
        };
        starts.extend(clone_path.iter().filter(begins));
        // A path that was cut does not count as another one; one that was joined is in the clone.
        let on_path: FxHashSet<NodeId> = clone_path.iter().copied().collect();
        let n_out = paths.iter().filter(|path| !on_path.contains(&path.tip)).count();
        let other_paths = n_out.min(paths.len().saturating_sub(1));
        Ok(Self {
            clone_path,
            full_path: path,
            path_starts: starts,
            broken_links: intended.broken_links,
            single_path: single,
            other_paths,
        })
    }

    /// Creates the plan, in which unselected entries are dropped.
    pub(super) fn plan<'a>(&self, source: &'a SourceSession<'a>) -> Plan<'a> {
        let facts = &source.session.facts;
        let mut plan =
            Plan::new(facts, source.reader(), self.clone_path.iter().copied(), self.broken_links.clone());
        plan.path_starts.clone_from(&self.path_starts);
        if self.single_path {
            let kept = plan.on_path();
            // Of several entries with one id the last is on the path, in the place of the first.
            let ids =
                self.clone_path.iter().filter(|_| facts.has_duplicates()).map(|&node| facts.nodes[node].uid);
            let ids: FxHashSet<Uid> = ids.collect();
            for node in kept.keys().filter(|&node| !kept[node] && !ids.contains(&facts.nodes[node].uid)) {
                // A subagent's entries are kept or dropped with its call.
                if !facts.nodes[node].flags.is_sidechain() || facts.is_all_sidechain() {
                    plan.drop_requested(node);
                }
            }
        }
        plan
    }

    /// Returns whether a file snapshot is kept: its message is.
    pub(super) fn keeps_snapshot(&self, plan: &Plan<'_>, raw: &[u8]) -> bool {
        !self.single_path || refers_to_kept(plan, raw, "messageId")
    }

    /// Returns whether a summary is about kept entries or another session.
    pub(super) fn keeps_summary(&self, plan: &Plan<'_>, raw: &[u8]) -> bool {
        refers_to_kept(plan, raw, "leafUuid")
    }
}

/// Finds the last entry of the conversation that a recipe asks for; `None` if the end is unchanged.
pub(super) fn end_of(source: &SourceSession<'_>, recipe: &Recipe) -> Result<Option<NodeId>, ClonePlanError> {
    end_among(source, recipe, &source.session.paths(Client::NEWEST))
}

fn end_among(
    source: &SourceSession<'_>,
    recipe: &Recipe,
    paths: &[Path],
) -> Result<Option<NodeId>, ClonePlanError> {
    let session = &source.session;
    let n_messages = session.facts.messages.len();
    if let Some(uid) = recipe.end {
        return session.facts.node_of(uid).map(Some).ok_or(ClonePlanError::EndHasNoId);
    }
    let path = recipe.path.map(|n| path_of(paths, n)).transpose()?;
    let Some(n) = recipe.until else { return Ok(path.map(|path| path.tip)) };
    let message = u32::try_from(n).ok().and_then(MessageNo::new);
    let found = message.and_then(|message| Some((message, session.step_of_message(message)?)));
    let (message, step) = found.ok_or(ClonePlanError::NoMessage(n, n_messages))?;
    match path {
        Some(path) if !session.descendants_of(step)[path.step] => Err(ClonePlanError::NotOnPath(n, path.n)),
        _ => Ok(Some(last_of_message(source, message, step))),
    }
}

fn refers_to_kept(plan: &Plan<'_>, raw: &[u8], key: &str) -> bool {
    let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    let id = Json::new(raw[start..].trim_ascii_end()).get(key).and_then(Json::as_str);
    let node = id.and_then(|id| plan.facts.node_of(Uid::new(id.as_bytes())));
    node.is_none_or(|node| !plan.is_dropped(node))
}

/// Returns the last entry of a message, results of its calls included: a call without its result is not an end.
fn last_of_message(source: &SourceSession<'_>, message: MessageNo, step: StepId) -> NodeId {
    let facts = &source.session.facts;
    let nodes = source.session.tree.nodes_by_step();
    let of_step = || nodes.members_of(step).iter().copied();
    let own = |node: &NodeId| {
        facts.nodes[*node].message() == Some(message) && !facts.nodes[*node].flags.is_replay()
    };
    let calls: FxHashSet<CallId> = of_step()
        .filter(own)
        .flat_map(|node| facts.blocks_of(node).iter().filter_map(rethread_model::Block::call))
        .collect();
    let answers = |node: &NodeId| {
        let fact = &facts.nodes[*node];
        let answers = facts.blocks_of(*node).iter().filter_map(rethread_model::Block::call);
        fact.role == Role::User && fact.flags.has_result() && { answers }.any(|call| calls.contains(&call))
    };
    let results = of_step().rfind(answers);
    let assistant = facts.messages[message].assistant;
    let last = if assistant { results } else { None };
    last.or_else(|| of_step().rfind(own)).unwrap_or(facts.messages[message].first_node)
}

/// Returns the entries before compactions that precede a conversation, in file order.
fn nodes_before_compaction(source: &SourceSession<'_>, chain: &[NodeId]) -> Vec<NodeId> {
    let session = &source.session;
    let facts = &session.facts;
    let Some(first) = session.tree.step(chain[0]) else { return Vec::new() };
    let compacted = |step: StepId| session.tree.steps[step].kind == StepKind::Compaction;
    let steps = session.tree.path_to(first);
    if !compacted(first) || steps.len() < 2 {
        return Vec::new();
    }
    let sent: FxHashSet<NodeId> = chain.iter().copied().collect();
    let by_step = session.tree.nodes_by_step();
    let mut nodes: Vec<NodeId> = steps[..steps.len() - 1]
        .iter()
        .flat_map(|&step| by_step.members_of(step).iter().copied())
        .filter(|node| {
            let fact = &facts.nodes[*node];
            !sent.contains(node)
                && !fact.flags.is_replay()
                && !fact.flags.is_sidechain()
                && !matches!(fact.role, Role::Progress | Role::Other)
        })
        .collect();
    nodes.sort_unstable();
    nodes
}
