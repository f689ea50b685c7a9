//! Which entries a clone is made of.

use rethread_log::Json;
use rethread_model::{BrokenLink, Client, Path, Role, StepKind, Uid, meant_at};
use rustc_hash::FxHashSet;

use super::{CloneError, Recipe, path_of};
use crate::plan::Plan;
use crate::source::Source;

/// The conversation of a clone.
pub(super) struct Selection {
    /// Its entries from the first on, as indices of nodes: what compactions left behind, then what is
    /// sent.
    pub(super) way: Vec<usize>,
    /// The same with what compactions left behind, also where that is not laid in line.
    pub(super) path: Vec<usize>,
    /// Entries that hang on nothing, because a compaction stands before them.
    starts: FxHashSet<usize>,
    breaks: Vec<BrokenLink>,
    /// Nothing else is kept.
    pub(super) single: bool,
    pub(super) other_paths: usize,
}

impl Selection {
    pub(super) fn new(source: &Source<'_>, recipe: &Recipe) -> Result<Self, CloneError> {
        let session = &source.session;
        let facts = &session.facts;
        let single = recipe.is_single();
        if single && facts.all_sidechain() {
            return Err(CloneError::Subagent);
        }
        let paths = if single { session.paths(Client::NEWEST) } else { Vec::new() };
        let end = end_among(source, recipe, &paths)?;
        let meant = meant_at(session, end.or_else(|| session.conversation_end()));
        if meant.chain.is_empty() {
            // The log of a subagent is no conversation of its own, but has calls and thinking.
            if single || !facts.all_sidechain() {
                return Err(CloneError::Empty);
            }
            let (way, path, starts) = (Vec::new(), Vec::new(), FxHashSet::default());
            return Ok(Self { way, path, starts, breaks: Vec::new(), single, other_paths: 0 });
        }
        let mut path = before(source, &meant.chain);
        let mut starts = FxHashSet::default();
        if single {
            starts.insert(meant.chain[0]);
        }
        path.extend(&meant.chain);
        let way = if single { path.clone() } else { meant.chain.clone() };
        let begins = |node: &&usize| {
            let fact = &facts.nodes[**node];
            fact.flags.is_boundary() || fact.flags.is_summary() && fact.parent.is_none()
        };
        starts.extend(way.iter().filter(begins));
        // A path that was cut is no other one; one that was joined is in the clone.
        let on_way: FxHashSet<usize> = way.iter().copied().collect();
        let n_out = paths.iter().filter(|path| !on_way.contains(&path.tip)).count();
        let other_paths = n_out.min(paths.len().saturating_sub(1));
        Ok(Self { way, path, starts, breaks: meant.breaks, single, other_paths })
    }

    /// Begins the plan: what is not selected goes.
    pub(super) fn plan<'a>(&self, source: &'a Source<'a>) -> Plan<'a> {
        let facts = &source.session.facts;
        let mut plan = Plan::new(facts, source.reader(), self.way.iter().copied(), self.breaks.clone());
        plan.starts.clone_from(&self.starts);
        if self.single {
            let kept = plan.on_way();
            // Of several entries with one id the last is on the way, and stands where the first did.
            let ids = self.way.iter().filter(|_| facts.has_duplicates()).map(|&node| facts.nodes[node].uid);
            let ids: FxHashSet<Uid> = ids.collect();
            for node in (0..kept.len()).filter(|&node| !kept[node] && !ids.contains(&facts.nodes[node].uid)) {
                // Whether a subagent's entries are kept, depends on its call.
                if !facts.nodes[node].flags.is_sidechain() || facts.all_sidechain() {
                    plan.drop_asked(node);
                }
            }
        }
        plan
    }

    /// Tells whether the snapshot of files at a message is kept: the message is.
    pub(super) fn keeps_snapshot(&self, plan: &Plan<'_>, raw: &[u8]) -> bool {
        !self.single || names_kept(plan, raw, "messageId")
    }

    /// Tells whether a summary is about what is kept, or about another session.
    pub(super) fn keeps_summary(&self, plan: &Plan<'_>, raw: &[u8]) -> bool {
        names_kept(plan, raw, "leafUuid")
    }
}

/// Finds the entry that a recipe wants the conversation to end with; nothing if it goes on as it is.
pub(super) fn end_of(source: &Source<'_>, recipe: &Recipe) -> Result<Option<usize>, CloneError> {
    end_among(source, recipe, &source.session.paths(Client::NEWEST))
}

fn end_among(source: &Source<'_>, recipe: &Recipe, paths: &[Path]) -> Result<Option<usize>, CloneError> {
    let session = &source.session;
    let n_messages = session.facts.messages.len();
    if let Some(uid) = recipe.end {
        return session.facts.node_of(uid).map(Some).ok_or(CloneError::NoEnd);
    }
    let path = recipe.path.map(|n| path_of(paths, n)).transpose()?;
    let Some(n) = recipe.until else { return Ok(path.map(|path| path.tip)) };
    let step = session.step_of_message(n).ok_or(CloneError::NoMessage(n, n_messages))?;
    match path {
        Some(path) if !session.beyond(step)[path.step] => Err(CloneError::NotOnPath(n, path.n)),
        _ => Ok(Some(last_of_message(source, n, step))),
    }
}

fn names_kept(plan: &Plan<'_>, raw: &[u8], key: &str) -> bool {
    let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    let id = Json::new(raw[start..].trim_ascii_end()).get(key).and_then(Json::as_str);
    let node = id.and_then(|id| plan.facts.node_of(Uid::new(id.as_bytes())));
    node.is_none_or(|node| !plan.is_dropped(node))
}

/// The last entry of a message, with the results of its calls: a call without its result is no end.
fn last_of_message(source: &Source<'_>, n: usize, step: usize) -> usize {
    let facts = &source.session.facts;
    let nodes = source.session.tree.nodes_by_step();
    let of_step = || nodes.of(step).iter().map(|&node| node as usize);
    let own =
        |node: &usize| facts.nodes[*node].message() == Some(n - 1) && !facts.nodes[*node].flags.is_replay();
    let calls: FxHashSet<usize> = of_step()
        .filter(own)
        .flat_map(|node| facts.blocks_of(node).iter().filter_map(rethread_model::Block::call))
        .collect();
    let answers = |node: &usize| {
        let fact = &facts.nodes[*node];
        let answers = facts.blocks_of(*node).iter().filter_map(rethread_model::Block::call);
        fact.role == Role::User && fact.flags.has_result() && { answers }.any(|call| calls.contains(&call))
    };
    let results = of_step().rfind(answers);
    let assistant = facts.messages[n - 1].assistant;
    let last = if assistant { results } else { None };
    last.or_else(|| of_step().rfind(own)).unwrap_or(facts.messages[n - 1].first as usize)
}

/// What compactions left behind before a conversation, in the order of the file.
fn before(source: &Source<'_>, chain: &[usize]) -> Vec<usize> {
    let session = &source.session;
    let facts = &session.facts;
    let Some(first) = session.tree.step(chain[0]) else { return Vec::new() };
    let compacted = |step: usize| session.tree.steps[step].kind == StepKind::Compaction;
    let steps = session.tree.path_to(first);
    if !compacted(first) || steps.len() < 2 {
        return Vec::new();
    }
    let sent: FxHashSet<usize> = chain.iter().copied().collect();
    let by_step = session.tree.nodes_by_step();
    let mut nodes: Vec<usize> = steps[..steps.len() - 1]
        .iter()
        .flat_map(|&step| by_step.of(step).iter().map(|&node| node as usize))
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
