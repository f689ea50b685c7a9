//! Removes or shortens tool calls: the call, its result and the client's copy of the result together.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{Block, BlockClass, CallId, NodeId, Role, StepId, Table};
use rustc_hash::{FxHashMap, FxHashSet};

use super::CloneBuilder;
use super::select::Selection;
use crate::plan::{BlockEdit, CopyEdit, EntryEdit};
use crate::shorten::{PartCut, RESULT_COPY};
use crate::source::SourceSession;

/// Edits of tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolRecipe {
    /// Remove calls of these tools, or of all if the list is empty. A name may end in `*`.
    pub strip: Option<Vec<String>>,
    /// Keep calls unchanged in this many last turns that have calls.
    pub keep: Option<usize>,
    /// Shorten strings of more characters than this, in calls that are not removed.
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

/// Ids of removed or changed calls.
pub(super) struct CallIdSet<'f>(FxHashSet<&'f str>);

impl CallIdSet<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether an entry outside of the tree contains one of them.
    pub(super) fn occurs_in(&self, raw: &[u8]) -> bool {
        // Splits at bytes that do not occur in ids, and looks up each piece.
        let separates = |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'));
        raw.split(separates).any(|id| std::str::from_utf8(id).is_ok_and(|id| self.0.contains(id)))
    }
}

impl<'a> CloneBuilder<'_, 'a> {
    /// Removes or shortens calls.
    pub(super) fn edit_tools(&mut self, selection: &Selection) {
        let tools = &self.recipe.tools;
        if !tools.has_edits() {
            return;
        }
        let session = &self.source.session;
        let facts = &session.facts;
        let prompts = session.prompts_of_steps();
        let turn = |node: NodeId| session.tree.step(node).and_then(|step| prompts[step]);
        let kept = self.turns_kept(&selection.full_path, turn);
        let action_at = |node: NodeId, name: &str| match kept.contains(&turn(node)) {
            true => CallAction::Keep,
            false => tools.action_for(name),
        };
        let inline = self.callers_of_sidechains();
        let at_call = |node: NodeId| inline.get(&node).copied().unwrap_or(node);
        let actions: Table<CallId, CallAction> = facts
            .calls
            .iter()
            .map(|call| action_at(at_call(call.node), facts.tools.name(call.tool)))
            .collect();
        self.cloned.unchanged_calls =
            facts.calls.iter().map(|call| kept.contains(&turn(at_call(call.node)))).collect();
        let called = |wanted: &&String| facts.tools.iter().any(|(name, _)| matches_tool(wanted, name));
        let named = tools.strip.iter().flatten();
        self.cloned.unknown_tools = named.filter(|name| !called(name)).cloned().collect();
        let strips_all = |node: NodeId| action_at(at_call(node), "") == CallAction::Strip;
        let server_actions = self.server_call_actions(action_at);
        let plan = &*self.plan;
        let wanted = |node: &NodeId| !plan.is_dropped(*node) && facts.nodes[*node].is_conversation();
        let nodes: Vec<NodeId> = facts.nodes.keys().filter(wanted).collect();
        let action = |node: NodeId, block: &Block| match (block.class, block.call()) {
            (BlockClass::ToolCall | BlockClass::ToolResult, Some(call)) => actions[call],
            (BlockClass::ToolCall | BlockClass::ToolResult, None) if strips_all(node) => CallAction::Strip,
            (BlockClass::ServerCall | BlockClass::ServerResult, _) => block
                .server_call_hash()
                .and_then(|id| server_actions.get(&id).copied())
                .filter(|&action| action == CallAction::Strip)
                .unwrap_or_default(),
            _ => CallAction::Keep,
        };
        self.plan.cuts.limit = tools.shorten.unwrap_or(0);
        let mut block_actions = Vec::new();
        for node in nodes {
            block_actions.clear();
            block_actions.extend(facts.blocks_of(node).iter().map(|block| action(node, block)));
            if block_actions.iter().all(|&action| action == CallAction::Keep) {
                continue;
            }
            if block_actions.iter().all(|&action| action == CallAction::Strip) {
                self.plan.drop_requested(node);
                self.changed_nodes.push(node);
                continue;
            }
            self.shorten(node, &block_actions);
            let changed = self.plan.changes_blocks(node);
            if let Some(edit) = edit_of(self.source, node, &block_actions, changed) {
                self.plan.edits.set(node, edit);
            }
            if self.plan.changes_blocks(node) {
                self.changed_nodes.push(node);
            }
        }
        let stripped = |action: &&CallAction| **action == CallAction::Strip;
        let n_stripped = match selection.single_path {
            true => self.count_stripped(&selection.clone_path, &actions),
            false => actions.iter().filter(stripped).count() as u64,
        };
        self.cloned.counts.calls = n_stripped + server_actions.values().filter(stripped).count() as u64;
        self.cloned.counts.shortened = self.count_shortened(&actions);
        self.cloned.call_actions = actions;
        self.drop_call_notes();
    }

    /// Cuts long strings of calls and results by their actions, and of the client's copy of a result.
    fn shorten(&mut self, node: NodeId, actions: &[CallAction]) {
        let limit = self.recipe.tools.shorten.filter(|_| actions.contains(&CallAction::Shorten));
        let Some(limit) = limit else { return };
        let copy = copy_action(self.source, node, actions);
        let is_shorter = |cut: &PartCut| match cut.part {
            RESULT_COPY => copy == CallAction::Shorten,
            block => actions.get(block as usize) == Some(&CallAction::Shorten),
        };
        let cuts = self.source.cuts(self.plan.node(node).entry, limit);
        let mut cuts = cuts.iter().map(|(_, cut)| *cut).filter(is_shorter).peekable();
        if cuts.peek().is_some() {
            self.plan.cuts.add(node, self.plan.facts.nodes.len(), cuts);
        }
    }

    fn count_stripped(&self, path: &[NodeId], actions: &Table<CallId, CallAction>) -> u64 {
        let facts = self.plan.facts;
        let calls = path.iter().flat_map(|&node| facts.blocks_of(node).iter());
        let calls = calls.filter(|block| block.class == BlockClass::ToolCall).filter_map(Block::call);
        let stripped: FxHashSet<CallId> = calls.filter(|&call| actions[call] == CallAction::Strip).collect();
        stripped.len() as u64
    }

    /// Counts calls with any shortened string.
    fn count_shortened(&self, actions: &Table<CallId, CallAction>) -> u64 {
        let facts = self.plan.facts;
        let mut shorter = Table::filled(false, facts.calls.len());
        for node in facts.nodes.keys() {
            let cuts = self.plan.cuts.of_node(node);
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

    /// Returns the prompts of the last turns with calls, which are kept unchanged.
    fn turns_kept(
        &self,
        path: &[NodeId],
        turn: impl Fn(NodeId) -> Option<StepId>,
    ) -> FxHashSet<Option<StepId>> {
        let mut kept = FxHashSet::default();
        let n = self.recipe.tools.keep.unwrap_or(0);
        for &node in path.iter().rev() {
            let calls = |block: &Block| matches!(block.class, BlockClass::ToolCall | BlockClass::ServerCall);
            if kept.len() >= n && !kept.contains(&turn(node)) {
                break;
            }
            if self.plan.facts.blocks_of(node).iter().any(calls) {
                kept.insert(turn(node));
            }
        }
        kept
    }

    /// Maps entries of subagents in this file to the entry that called them.
    fn callers_of_sidechains(&self) -> FxHashMap<NodeId, NodeId> {
        let session = &self.source.session;
        let callers: FxHashMap<NodeId, NodeId> = session
            .subagents()
            .into_iter()
            .filter_map(|agent| Some((agent.root, session.facts.calls[agent.call?].node)))
            .collect();
        if callers.is_empty() {
            return FxHashMap::default();
        }
        let roots = session.sidechain_roots();
        let caller = |node: NodeId| {
            let root = roots[session.tree.step(node)?]?;
            callers.get(&session.tree.first_node(root)).copied()
        };
        let side = session.facts.nodes.keys().filter(|&n| session.facts.nodes[n].flags.is_sidechain());
        side.filter_map(|node| Some((node, caller(node)?))).collect()
    }

    /// Returns the actions for calls that the API answered itself, by the hash of their ids.
    fn server_call_actions(
        &self,
        action_at: impl Fn(NodeId, &str) -> CallAction,
    ) -> FxHashMap<u32, CallAction> {
        let facts = self.plan.facts;
        let mut actions = FxHashMap::default();
        let mut line = Line::default();
        for node in facts.nodes.keys() {
            let calls = |block: &Block| block.class == BlockClass::ServerCall;
            if !facts.blocks_of(node).iter().any(calls) || self.plan.is_dropped(node) {
                continue;
            }
            let raw = self.plan.reader.entry_bytes(facts.nodes[node].entry);
            parse_entry(raw, &mut line);
            for (block, spans) in facts.blocks_of(node).iter().zip(&line.blocks) {
                if let Some(id) = block.server_call_hash().filter(|_| calls(block)) {
                    let name = Json::new(spans.name.bytes_in(raw)).as_str().unwrap_or_default();
                    actions.insert(id, action_at(node, &name));
                }
            }
        }
        actions
    }

    /// Drops entries about removed calls: hooks, notes, entries that the client inserted.
    fn drop_call_notes(&mut self) {
        let removed = self.call_ids_where(|action| action == CallAction::Strip);
        if removed.0.is_empty() {
            return;
        }
        let facts = self.plan.facts;
        let mut line = Line::default();
        for node in facts.nodes.keys() {
            let fact = &facts.nodes[node];
            let note = !fact.is_conversation() || fact.role == Role::User && !fact.flags.has_result();
            if !note || self.plan.is_dropped(node) {
                continue;
            }
            if !self.source.digests[fact.entry].names_call {
                continue;
            }
            let raw = self.plan.reader.entry_bytes(fact.entry);
            parse_entry(raw, &mut line);
            let nested = Json::new(line.field(Key::Attachment).bytes_in(raw)).get("toolUseID");
            let ids = [Key::ToolUseId, Key::SourceToolUseId, Key::ParentToolUseId]
                .into_iter()
                .map(|key| Json::new(line.field(key).bytes_in(raw)))
                .chain(nested);
            if ids.filter_map(Json::as_str).any(|id| removed.0.contains(&*id)) {
                self.plan.drop_requested(node);
            }
        }
        self.drop_attached_media();
    }

    /// Drops images and documents that a call returned in addition to its result: clients send them in a hidden entry
    /// after it, which names no call.
    fn drop_attached_media(&mut self) {
        let facts = self.plan.facts;
        let stripped = |call: CallId| self.cloned.call_actions.get(call) == Some(&CallAction::Strip);
        let mut removed = FxHashSet::default();
        for (node, fact) in facts.nodes.iter_enumerated() {
            let blocks = facts.blocks_of(node);
            let media = |block: &Block| block.class == BlockClass::Media;
            if fact.role != Role::User || !fact.flags.is_meta() || !blocks.iter().any(media) {
                continue;
            }
            let Some(above) = facts.parent_of(node) else { continue };
            let mut results =
                facts.blocks_of(above).iter().filter(|block| block.class == BlockClass::ToolResult);
            // One file may be several entries.
            let of_stripped = results.next().is_some_and(|first| {
                [first].into_iter().chain(results).all(|block| block.call().is_some_and(stripped))
            });
            if of_stripped || removed.contains(&above) {
                removed.insert(node);
            }
        }
        for node in removed {
            self.plan.drop_requested(node);
        }
    }

    fn call_ids_where(&self, matches: impl Fn(CallAction) -> bool) -> CallIdSet<'a> {
        let facts = self.plan.facts;
        let calls = facts.calls.iter().zip(&self.cloned.call_actions);
        CallIdSet(
            calls.filter(|&(_, &action)| matches(action)).map(|(call, _)| facts.call_id(call)).collect(),
        )
    }

    /// Returns the ids of removed or changed calls.
    pub(super) fn changed_call_ids(&self) -> CallIdSet<'a> {
        let mut ids = self.call_ids_where(|action| action != CallAction::Keep);
        let facts = self.plan.facts;
        let removed = facts.calls.iter().filter(|call| self.plan.is_dropped(call.node));
        ids.0.extend(removed.map(|call| facts.call_id(call)));
        ids
    }

    /// Drops entries of subagents in this file whose call is not kept.
    pub(super) fn keep_sidechains(&mut self, selection: &Selection) {
        let session = &self.source.session;
        let facts = &session.facts;
        if facts.is_all_sidechain() || !facts.nodes.iter().any(|node| node.flags.is_sidechain()) {
            return;
        }
        let on_path = self.plan.on_path();
        let mut kept: FxHashMap<NodeId, bool> = FxHashMap::default();
        for agent in session.subagents() {
            let keeps = match agent.call {
                Some(call) => {
                    let stripped = self.cloned.call_actions.get(call) == Some(&CallAction::Strip);
                    !stripped && !self.plan.is_dropped(facts.calls[call].node)
                }
                None => !selection.single_path,
            };
            kept.insert(agent.root, keeps);
        }
        let roots = session.sidechain_roots();
        for (node, fact) in facts.nodes.iter_enumerated() {
            if !fact.flags.is_sidechain() || on_path[node] {
                continue;
            }
            let root = session.tree.step(node).and_then(|step| roots[step]);
            let root = root.map(|root| session.tree.first_node(root));
            if !root.and_then(|root| kept.get(&root).copied()).unwrap_or(!selection.single_path) {
                self.plan.drop_requested(node);
            }
        }
    }
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
