//! Removes or shortens tool calls: the call, its result and the client's copy of the result together.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{Block, BlockClass, CallId, NodeId, Session, StepId, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use super::call_notes::drop_call_notes;
use super::select::Selection;
use super::sidechains::callers_of_sidechains;
use crate::plan::{BlockEdit, CopyEdit, EntryEdit, Plan};
use crate::shorten::{PartCut, RESULT_COPY};
use crate::source::SourceSession;

/// Edits of tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRecipe {
    /// Remove calls of these tools, or of all if the list is empty. A name may end in `*`.
    pub strip: Option<Vec<String>>,
    /// Leave the calls of this many most recent turns with calls unchanged.
    pub keep: Option<usize>,
    /// Shorten strings longer than this many characters, in calls that are not removed.
    pub shorten: Option<usize>,
}

impl ToolRecipe {
    /// Returns whether there is any edit.
    pub fn has_edits(&self) -> bool {
        self.strip.is_some() || self.keep.is_some() || self.shorten.is_some()
    }

    /// Returns the action for a call outside of the kept turns.
    fn action_for(&self, name: &str) -> CallAction {
        let matches = |pattern: &String| matches_tool(pattern, name);
        // `keep` alone means to remove the other calls, unless they are to be shortened.
        let all = self.strip.is_none() && self.keep.is_some() && self.shorten.is_none();
        let named = self.strip.as_ref().is_some_and(|names| names.is_empty() || names.iter().any(matches));
        match (all || named, self.shorten) {
            (true, _) => CallAction::Strip,
            (false, Some(_)) => CallAction::Shorten,
            (false, None) => CallAction::Keep,
        }
    }
}

/// Returns whether a tool matches a pattern, which may end in `*`.
fn matches_tool(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(name == pattern, |start| name.starts_with(start))
}

/// The action for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum CallAction {
    #[default]
    Keep,
    Shorten,
    Strip,
}

/// The edits of all calls.
#[derive(Debug, Default)]
pub(super) struct CallEdits {
    /// The action for each call; empty if the recipe edits no calls.
    actions: Table<CallId, CallAction>,
    /// Calls in turns that are kept unchanged.
    unchanged: Table<CallId, bool>,
    /// Entries whose calls or results are removed or shortened.
    pub(super) changed_nodes: Vec<NodeId>,
    /// Tools that the recipe names and the session never calls.
    pub(super) unknown_tools: Vec<String>,
    pub(super) n_removed: u64,
    pub(super) n_shortened: u64,
}

impl CallEdits {
    /// Returns the action for a call.
    pub(super) fn action(&self, call: CallId) -> CallAction {
        self.actions.get(call).copied().unwrap_or_default()
    }

    /// Returns whether a call is removed.
    pub(super) fn removes(&self, call: CallId) -> bool {
        self.action(call) == CallAction::Strip
    }

    /// Returns whether a call is in a turn that the recipe keeps unchanged.
    pub(super) fn is_unchanged(&self, call: CallId) -> bool {
        self.unchanged.get(call).is_some_and(|&unchanged| unchanged)
    }
}

/// Removes or shortens calls, with the entries about removed ones.
pub(super) fn edit_calls(
    source: &SourceSession<'_>,
    tools: &ToolRecipe,
    selection: &Selection,
    plan: &mut Plan<'_>,
) -> CallEdits {
    if !tools.has_edits() {
        return CallEdits::default();
    }
    let facts = &source.session.facts;
    let turns = TurnActions::new(source, tools, selection);
    let server_actions = turns.server_call_actions(plan);
    let called = |wanted: &&String| facts.tools.iter().any(|(name, _)| matches_tool(wanted, name));
    let mut edits = CallEdits {
        actions: turns.call_actions(),
        unchanged: facts.calls.iter().map(|call| turns.keeps(turns.caller(call.node))).collect(),
        unknown_tools: tools.strip.iter().flatten().filter(|name| !called(name)).cloned().collect(),
        ..CallEdits::default()
    };
    let actions = BlockActions { turns: &turns, calls: &edits.actions, server_calls: &server_actions };
    edits.changed_nodes = edit_entries(source, tools.shorten, &actions, plan);
    edits.n_removed = count_removed(selection, plan, &actions);
    edits.n_shortened = count_shortened(plan, &edits.actions);
    drop_call_notes(source, &edits, plan);
    edits
}

/// The actions for calls by the turn they are made in.
struct TurnActions<'s> {
    session: &'s Session,
    tools: &'s ToolRecipe,
    /// The prompt of each step.
    prompts: Table<StepId, Option<StepId>>,
    /// Prompts of the turns that are kept unchanged.
    kept: FxHashSet<Option<StepId>>,
    /// The calling entry for each entry of a subagent in this file.
    callers: FxHashMap<NodeId, NodeId>,
}

impl<'s> TurnActions<'s> {
    fn new(source: &'s SourceSession<'_>, tools: &'s ToolRecipe, selection: &Selection) -> Self {
        let session = &source.session;
        let (prompts, callers) = (session.prompts_of_steps(), callers_of_sidechains(session));
        let mut turns = Self { session, tools, prompts, kept: FxHashSet::default(), callers };
        turns.kept = turns.last_turns_with_calls(&selection.full_path);
        turns
    }

    /// Returns the prompts of the last turns with calls, which are kept unchanged.
    fn last_turns_with_calls(&self, path: &[NodeId]) -> FxHashSet<Option<StepId>> {
        let mut kept = FxHashSet::default();
        let n = self.tools.keep.unwrap_or(0);
        for &node in path.iter().rev() {
            let calls = |block: &Block| matches!(block.class, BlockClass::ToolCall | BlockClass::ServerCall);
            if kept.len() >= n && !kept.contains(&self.turn_of(node)) {
                break;
            }
            if self.session.facts.blocks_of(node).iter().any(calls) {
                kept.insert(self.turn_of(node));
            }
        }
        kept
    }

    fn turn_of(&self, node: NodeId) -> Option<StepId> {
        self.session.tree.step(node).and_then(|step| self.prompts[step])
    }

    /// Returns whether the turn of an entry is kept unchanged.
    fn keeps(&self, node: NodeId) -> bool {
        self.kept.contains(&self.turn_of(node))
    }

    /// Returns the entry that called the subagent of this entry, or the entry itself.
    fn caller(&self, node: NodeId) -> NodeId {
        self.callers.get(&node).copied().unwrap_or(node)
    }

    /// Returns the action for the calls of a tool in an entry.
    fn action_at(&self, node: NodeId, tool: &str) -> CallAction {
        if self.keeps(node) { CallAction::Keep } else { self.tools.action_for(tool) }
    }

    /// Returns the action for each call.
    fn call_actions(&self) -> Table<CallId, CallAction> {
        let facts = &self.session.facts;
        let calls = facts.calls.iter();
        calls.map(|call| self.action_at(self.caller(call.node), facts.tools.name(call.tool))).collect()
    }

    /// Returns the actions for calls that the API answered itself, by the hash of their ids.
    fn server_call_actions(&self, plan: &Plan<'_>) -> FxHashMap<u32, CallAction> {
        let facts = plan.facts;
        let mut actions = FxHashMap::default();
        let mut line = Line::default();
        for node in facts.nodes.keys() {
            let calls = |block: &Block| block.class == BlockClass::ServerCall;
            if !facts.blocks_of(node).iter().any(calls) || plan.is_dropped(node) {
                continue;
            }
            let raw = plan.reader.entry_bytes(facts.nodes[node].entry);
            parse_entry(raw, &mut line);
            for (block, spans) in facts.blocks_of(node).iter().zip(&line.blocks) {
                if let Some(id) = block.server_call_hash().filter(|_| calls(block)) {
                    let name = Json::new(spans.name.bytes_in(raw)).as_str().unwrap_or_default();
                    actions.insert(id, self.action_at(node, &name));
                }
            }
        }
        actions
    }
}

/// The actions for the blocks of calls and results.
struct BlockActions<'s> {
    turns: &'s TurnActions<'s>,
    calls: &'s Table<CallId, CallAction>,
    server_calls: &'s FxHashMap<u32, CallAction>,
}

impl BlockActions<'_> {
    fn action(&self, node: NodeId, block: &Block) -> CallAction {
        match (block.class, block.call()) {
            (BlockClass::ToolCall | BlockClass::ToolResult, Some(call)) => self.calls[call],
            // A result without a call is removed only with all calls.
            (BlockClass::ToolCall | BlockClass::ToolResult, None) => {
                match self.turns.action_at(self.turns.caller(node), "") {
                    CallAction::Strip => CallAction::Strip,
                    CallAction::Shorten | CallAction::Keep => CallAction::Keep,
                }
            }
            // What the API answered itself is removed or kept, but not shortened.
            (BlockClass::ServerCall | BlockClass::ServerResult, _) => {
                match block.server_call_hash().and_then(|id| self.server_calls.get(&id)) {
                    Some(CallAction::Strip) => CallAction::Strip,
                    _ => CallAction::Keep,
                }
            }
            _ => CallAction::Keep,
        }
    }
}

/// Plans the edits of all entries with calls or results; returns those that change.
fn edit_entries(
    source: &SourceSession<'_>,
    limit: Option<usize>,
    actions: &BlockActions<'_>,
    plan: &mut Plan<'_>,
) -> Vec<NodeId> {
    let facts = plan.facts;
    plan.cuts.limit = limit.unwrap_or(0);
    let mut changed = Vec::new();
    let mut of_blocks = Vec::new();
    for node in facts.nodes.keys() {
        if plan.is_dropped(node) || !facts.nodes[node].is_conversation() {
            continue;
        }
        of_blocks.clear();
        of_blocks.extend(facts.blocks_of(node).iter().map(|block| actions.action(node, block)));
        if of_blocks.iter().all(|&action| action == CallAction::Keep) {
            continue;
        }
        if of_blocks.iter().all(|&action| action == CallAction::Strip) {
            plan.drop_requested(node);
            changed.push(node);
            continue;
        }
        if let Some(limit) = limit.filter(|_| of_blocks.contains(&CallAction::Shorten)) {
            shorten_entry(source, limit, node, &of_blocks, plan);
        }
        if let Some(edit) = edit_of(source, node, &of_blocks, plan.changes_blocks(node)) {
            plan.edits.set(node, edit);
        }
        if plan.changes_blocks(node) {
            changed.push(node);
        }
    }
    changed
}

/// Cuts long strings of calls and results by their actions, and of the client's copy of a result.
fn shorten_entry(
    source: &SourceSession<'_>,
    limit: usize,
    node: NodeId,
    actions: &[CallAction],
    plan: &mut Plan<'_>,
) {
    let copy = copy_action(source, node, actions);
    let is_shorter = |cut: &PartCut| match cut.part {
        RESULT_COPY => copy == CallAction::Shorten,
        block => actions.get(block as usize) == Some(&CallAction::Shorten),
    };
    let cuts = source.cuts(plan.node(node).entry, limit);
    let mut cuts = cuts.iter().map(|(_, cut)| *cut).filter(is_shorter).peekable();
    if cuts.peek().is_some() {
        plan.cuts.add(node, plan.facts.nodes.len(), cuts);
    }
}

/// Counts removed calls: on a single path only those on it.
fn count_removed(selection: &Selection, plan: &Plan<'_>, actions: &BlockActions<'_>) -> u64 {
    let facts = plan.facts;
    let is_removed = |action: &&CallAction| **action == CallAction::Strip;
    let on_server = actions.server_calls.values().filter(is_removed).count() as u64;
    if !selection.single_path {
        return on_server + actions.calls.iter().filter(is_removed).count() as u64;
    }
    let blocks = selection.clone_path.iter().flat_map(|&node| facts.blocks_of(node));
    let calls = blocks.filter(|block| block.class == BlockClass::ToolCall).filter_map(Block::call);
    let removed: FxHashSet<CallId> = calls.filter(|&call| actions.calls[call] == CallAction::Strip).collect();
    on_server + removed.len() as u64
}

/// Counts calls with any shortened string.
fn count_shortened(plan: &Plan<'_>, actions: &Table<CallId, CallAction>) -> u64 {
    let facts = plan.facts;
    let mut shorter = Table::filled(false, facts.calls.len());
    for node in facts.nodes.keys() {
        let cuts = plan.cuts.of_node(node);
        let cut = |part: u32| cuts.binary_search_by_key(&part, |cut| cut.part).is_ok();
        let blocks = if cuts.is_empty() { &[] } else { facts.blocks_of(node) };
        for (at, block) in (0..).zip(blocks) {
            let changed = cut(at) || cut(RESULT_COPY) && block.class == BlockClass::ToolResult;
            let fits = |call: &CallId| changed && actions[*call] == CallAction::Shorten;
            if let Some(call) = block.call().filter(fits) {
                shorter[call] = true;
            }
        }
    }
    shorter.into_iter().filter(|&shorter| shorter).count() as u64
}

/// Returns the edit of an entry that loses calls or results; `changed` means that others are shortened.
fn edit_of(
    source: &SourceSession<'_>,
    node: NodeId,
    actions: &[CallAction],
    changed: bool,
) -> Option<Box<EntryEdit>> {
    let number = source.session.facts.nodes[node].entry;
    let strips = actions.contains(&CallAction::Strip);
    let wired = (strips || changed) && source.digests[number].has_wire_inputs;
    if !strips && !wired {
        return None;
    }
    let mut edit = Box::<EntryEdit>::default();
    for (at, _) in actions.iter().enumerate().filter(|&(_, &action)| action == CallAction::Strip) {
        edit.blocks.insert(at, BlockEdit::Remove);
    }
    if copy_action(source, node, actions) == CallAction::Strip {
        edit.copy = Some(CopyEdit::Remove);
        edit.removed_fields.push(Key::SourceToolAssistantUuid);
    }
    if wired {
        edit.removed_fields.push(Key::WireToolInputs);
    }
    Some(edit)
}

/// Returns the action for the client's copy of results: the strongest action for any of them.
fn copy_action(source: &SourceSession<'_>, node: NodeId, actions: &[CallAction]) -> CallAction {
    let blocks = source.session.facts.blocks_of(node).iter().zip(actions);
    let results = blocks.filter(|(block, _)| block.class == BlockClass::ToolResult);
    results.map(|(_, &action)| action).max().unwrap_or_default()
}
