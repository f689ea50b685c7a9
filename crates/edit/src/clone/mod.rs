//! Clones a session: with new ids, optionally a single path, without tools or thinking, or with older turns
//! condensed.
//!
//! A [`Recipe`] describes the edits. Without edits a clone equals its source byte for byte, except for ids. With
//! edits it is a plan like a repair: first the requested edits are decided, then whatever some client would reject
//! is repaired, the path is made linear, and its end is marked where clients would not agree on it.

mod compact_metadata;
mod compress;
mod context;
mod recipe;
mod removed;
mod select;
mod summary;
mod thinking;
mod tools;
mod turn_summary;
mod write;

use rethread_log::EntryKind;
use rethread_model::{CallId, EntryNo, Node, NodeId, Path, Role, Session, Table, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

pub use compress::{CompressOptions, CondensedTurn, OverBudget};
pub use context::{ContextSize, Measure, context_size};
pub use recipe::{Preset, Recipe};
pub use removed::RemovedEntry;
pub use summary::CloneSummary;
pub use tools::ToolRecipe;
pub use write::{CloneReading, WriteOutcome};

use crate::ids::{IdMap, Replacement};
use crate::plan::{AddedKind, EditExtent, PathItem, Plan, edited_line};
use crate::source::{SourceSession, Window};
use select::Selection;

/// A reason why a clone cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClonePlanError {
    /// No path with this number, and the number of paths.
    NoPath(usize, usize),
    /// No message with this number, and the number of messages.
    NoMessage(usize, usize),
    /// The message is not on the path.
    NotOnPath(usize, usize),
    /// The requested last entry has no id, and the log had to be normalised.
    EndHasNoId,
    /// The session has no conversation.
    Empty,
    /// The log is a subagent's, which has no paths.
    Subagent,
}

impl std::fmt::Display for ClonePlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPath(n, of) => write!(f, "no path {n}; the session has {of}"),
            Self::NoMessage(n, of) => write!(f, "no message {n}; the session has {of}"),
            Self::NotOnPath(n, path) => write!(f, "message {n} is not on path {path}"),
            Self::EndHasNoId => write!(f, "the last entry of the clone has no id"),
            Self::Empty => write!(f, "this session has no conversation"),
            Self::Subagent => write!(f, "this is a subagent log, not a session"),
        }
    }
}

impl std::error::Error for ClonePlanError {}

/// Counts of what a clone left out or changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CloneCounts {
    /// Entries of the conversation that are not in the clone.
    pub entries: u64,
    /// Other entries: progress, recorded requests, snapshots, and entries that belonged to removed calls.
    pub records: u64,
    /// Turns that were condensed.
    pub turns: u64,
    /// Calls that were removed, with their results.
    pub calls: u64,
    /// Calls that were shortened, with their results.
    pub shortened: u64,
    /// Thinking blocks that were removed.
    pub thinking: u64,
    /// Entries that were repaired so that every client accepts them.
    pub mended: u64,
    /// Entries that were added for the same reason.
    pub added: u64,
    /// Lines that are not entries.
    pub unreadable: u64,
}

/// A clone that is ready to be written.
#[derive(Debug)]
pub struct PreparedClone<'a> {
    source: &'a SourceSession<'a>,
    id_map: IdMap<'a>,
    /// The plan; `None` if only ids change.
    plan: Option<Plan<'a>>,
    /// The lines to write, in order.
    order: Vec<CloneLine>,
    /// Lines after all others.
    tail: Vec<u8>,
    /// Counts of what is left out or changed.
    pub counts: CloneCounts,
    /// The action for each call.
    call_actions: Table<CallId, tools::CallAction>,
    /// Calls in turns that are kept unchanged, by call.
    unchanged_calls: Table<CallId, bool>,
    /// Thinking was removed because content before it changed.
    pub thinking_invalidated: bool,
    /// The turns that were condensed.
    pub turns: Vec<CondensedTurn>,
    /// Turns whose summaries exceed the budget.
    pub over_budget: OverBudget,
    /// The first prompt of the conversation.
    first_prompt: Option<NodeId>,
    /// Tools that the recipe names and the session never calls.
    pub unknown_tools: Vec<String>,
    /// The context size that the last answer records was corrected.
    pub usage_corrected: bool,
    /// File snapshots were left out.
    pub without_history: bool,
    /// Number of paths of the source that are not in the clone.
    pub other_paths: usize,
}

/// A line of the clone.
#[derive(Debug, Clone, Copy)]
enum CloneLine {
    /// An entry of the source by its number, with its node if it has one.
    Entry(EntryNo, Option<NodeId>),
    /// An added entry.
    Added(usize),
}

/// Repairs what every edit depends on: the order of the lines, the ids of messages. Returns the repaired log and
/// the recipe for it: numbers of paths and messages in `recipe` refer to the source. `None` if nothing needs repair,
/// or if only ids change.
pub fn normalise_source(
    source: &SourceSession<'_>,
    recipe: &Recipe,
) -> Result<Option<(Vec<u8>, Recipe)>, ClonePlanError> {
    if recipe.is_plain() {
        return Ok(None);
    }
    let Some(log) = source.normalised_log() else { return Ok(None) };
    let end = select::end_of(source, recipe)?.map(|node| source.session.facts.nodes[node].uid);
    Ok(Some((log, Recipe { path: None, until: None, end, ..recipe.clone() })))
}

/// Plans a clone of a session.
pub fn plan_clone<'a>(
    source: &'a SourceSession<'a>,
    recipe: &Recipe,
    names: IdMap<'a>,
) -> Result<PreparedClone<'a>, ClonePlanError> {
    let names = names.with_log(&source.session.facts).with_non_uuid_ids(source.has_non_uuid_ids);
    let mut cloned = PreparedClone {
        source,
        id_map: names,
        plan: None,
        order: Vec::new(),
        tail: Vec::new(),
        counts: CloneCounts::default(),
        call_actions: Table::default(),
        unchanged_calls: Table::default(),
        thinking_invalidated: false,
        turns: Vec::new(),
        over_budget: OverBudget::default(),
        first_prompt: None,
        unknown_tools: Vec::new(),
        usage_corrected: false,
        without_history: false,
        other_paths: 0,
    };
    if recipe.is_plain() {
        cloned.add_title(recipe);
        return Ok(cloned);
    }
    let selection = Selection::new(source, recipe)?;
    cloned.other_paths = selection.other_paths;
    let human = |node: &&NodeId| source.session.facts.nodes[**node].flags.is_human();
    cloned.first_prompt = selection.full_path.iter().find(human).copied();
    let mut plan = selection.plan(source);
    let (changed_nodes, condensed) = (Vec::new(), FxHashSet::default());
    let mut builder =
        CloneBuilder { source, recipe, plan: &mut plan, cloned: &mut cloned, changed_nodes, condensed };
    builder.drop_progress_and_errors();
    builder.edit_tools(&selection);
    builder.compress();
    builder.keep_sidechains(&selection);
    builder.edit_thinking();
    builder.drop_orphaned_notes();
    builder.drop_trailing_attachments();
    builder.drop_duplicates(&selection);
    let requested: Table<NodeId, EditExtent> =
        builder.plan.facts.nodes.keys().map(|n| builder.plan.edit_extent(n)).collect();
    builder.plan.repair();
    builder.plan.place_queued_prompts();
    builder.plan.linearise();
    builder.prune_preserved_lists();
    builder.correct_usage(&selection);
    builder.mark_end(&selection);
    let metadata = builder.choose_records(&selection);
    builder.order_lines(&metadata);
    builder.count(&requested);
    if !selection.clone_path.is_empty() && plan.kept_path().is_empty() {
        return Err(ClonePlanError::Empty);
    }
    let replacements = plan.replacements(&plan.nearest_kept());
    let facts = &source.session.facts;
    // Of several entries with one id, one may be kept.
    let kept: FxHashSet<Uid> = facts
        .nodes
        .keys()
        .filter(|&node| facts.has_duplicates() && !plan.is_dropped(node))
        .map(|node| facts.nodes[node].uid)
        .collect();
    let removed = |node: NodeId| {
        let is_kept = !plan.is_dropped(node) || kept.contains(&facts.nodes[node].uid);
        replacements[node].filter(|_| !is_kept)
    };
    let keeps_ids = cloned.id_map.keeps_ids();
    let replacement = |node: NodeId| match plan.edits.get(node).and_then(|edit| edit.uuid.as_deref()) {
        // It had no id and was given one.
        Some(uuid) => {
            Replacement { uid: Uid::new(uuid.as_bytes()), text: keeps_ids.then(|| uuid.to_owned()) }
        }
        None => Replacement {
            uid: facts.nodes[node].uid,
            text: keeps_ids.then(|| escaped_id(&plan.reader.uuid(node))),
        },
    };
    let by_removed: FxHashMap<Uid, Replacement> = facts
        .nodes
        .keys()
        .filter_map(|node| Some((facts.nodes[node].uid, replacement(removed(node)?))))
        .collect();
    cloned.id_map = cloned.id_map.with_replacements(by_removed);
    cloned.plan = Some(plan);
    cloned.add_title(recipe);
    cloned.add_checkpoint();
    Ok(cloned)
}

/// State while a clone is planned.
struct CloneBuilder<'m, 'a> {
    source: &'a SourceSession<'a>,
    recipe: &'m Recipe,
    plan: &'m mut Plan<'a>,
    cloned: &'m mut PreparedClone<'a>,
    /// Entries whose calls were removed or shortened.
    changed_nodes: Vec<NodeId>,
    /// Entries whose turns were condensed.
    condensed: FxHashSet<NodeId>,
}

impl CloneBuilder<'_, '_> {
    /// Drops tool progress, which is never sent and breaks some clients, and failure reports on the path, which only
    /// the oldest clients send.
    fn drop_progress_and_errors(&mut self) {
        let on_path = self.plan.on_path();
        for (node, &on_path) in on_path.iter_enumerated() {
            let fact = self.plan.node(node);
            let failure = fact.role == Role::Assistant && fact.flags.is_failure_report();
            if fact.role == Role::Progress || failure && on_path {
                self.plan.drop_requested(node);
            }
        }
    }

    /// Drops notes that are all that is left of a branch: without the entries they belong to, clients would treat them
    /// as part of the conversation that the branch forked from.
    fn drop_orphaned_notes(&mut self) {
        let facts = self.plan.facts;
        let on_path = self.plan.on_path();
        let is_note = |node: &Node| matches!(node.role, Role::System | Role::Attachment);
        let is_candidate = |(node, fact): (NodeId, &Node)| {
            let flags = fact.flags;
            let is_message = flags.is_queued_prompt() || flags.is_local_command();
            !on_path[node] && is_note(fact) && !is_message && !flags.is_boundary() && !flags.is_sidechain()
        };
        if !facts.nodes.iter_enumerated().any(is_candidate) {
            return;
        }
        let none: Table<NodeId, bool> = Table::filled(false, facts.nodes.len());
        let order = self.plan.top_down();
        // Whether the nearest message above is removed.
        let mut removed_above = none.clone();
        for &node in &order {
            let Some(above) = self.plan.effective_parent(node) else { continue };
            let is_message = facts.nodes[above].is_conversation();
            removed_above[node] = if is_message { self.plan.is_dropped(above) } else { removed_above[above] };
        }
        // Whether there is a message below, and whether anything below is kept.
        let (mut message_below, mut kept_below) = (none.clone(), none);
        for &node in order.iter().rev() {
            let alone = !kept_below[node] && (removed_above[node] || message_below[node]);
            if alone && is_candidate((node, &facts.nodes[node])) {
                self.plan.drop_requested(node);
            }
            if let Some(above) = self.plan.effective_parent(node) {
                message_below[above] |= message_below[node] || facts.nodes[node].is_conversation();
                kept_below[above] |= kept_below[node] || !self.plan.is_dropped(node);
            }
        }
    }

    /// Drops attachments after the last message: some clients treat them as waiting for an answer, and all clients
    /// attach again what they need.
    fn drop_trailing_attachments(&mut self) {
        let path = self.plan.kept_path();
        let trails = |item: &&PathItem| match **item {
            PathItem::Source(node) => {
                !self.plan.node(node).is_conversation() && !self.plan.node(node).flags.is_queued_prompt()
            }
            PathItem::Added(_) => false,
        };
        let trailing: Vec<PathItem> = path.iter().rev().take_while(trails).copied().collect();
        for item in trailing {
            if let PathItem::Source(node) = item
                && self.plan.node(node).role == Role::Attachment
            {
                self.plan.drop_requested(node);
            }
        }
    }

    /// Drops duplicates of removed entries: of several entries with one id the last is on the path, and the others are
    /// kept only with it.
    fn drop_duplicates(&mut self, selection: &Selection) {
        let facts = self.plan.facts;
        if !facts.has_duplicates() {
            return;
        }
        let removed = selection.clone_path.iter().filter(|&&node| self.plan.is_dropped(node));
        let removed: FxHashSet<Uid> = removed.map(|&node| facts.nodes[node].uid).collect();
        for (node, _) in facts.nodes.iter_enumerated().filter(|(_, fact)| removed.contains(&fact.uid)) {
            self.plan.drop_requested(node);
        }
    }

    /// Marks the end where clients would not agree on it: the leaf must be the last and newest entry.
    fn mark_end(&mut self, selection: &Selection) {
        let plan = &mut *self.plan;
        let path = plan.kept_path();
        let Some(&PathItem::Source(leaf)) = path.last() else {
            if !path.is_empty() {
                plan.mark_end();
            }
            return;
        };
        let time = plan.final_time(leaf);
        let mut agreed = time.is_some();
        let on_path = plan.on_path();
        for (node, &on_path) in on_path.iter_enumerated() {
            if node == leaf || plan.is_dropped(node) {
                continue;
            }
            let late = node > leaf && !(selection.single_path && on_path);
            // Some clients even resume a subagent's entry.
            agreed &= plan.final_time(node) < time && !late;
        }
        agreed &= plan.added.iter().all(|new| Some(new.time) < time);
        // Clients also differ in what they add after an unanswered prompt or result.
        agreed &= plan.ends_with_answer();
        if !agreed {
            plan.mark_end();
        }
    }

    /// Orders the kept lines for writing: the conversation in path order, everything else in its place.
    fn order_lines(&mut self, records: &[EntryNo]) {
        let facts = self.plan.facts;
        let mut keyed: Vec<(u32, u32, CloneLine)> =
            records.iter().map(|&n| (n.get(), 0, CloneLine::Entry(n, None))).collect();
        let on_path = self.plan.on_path();
        let (mut at, mut step) = (0, 0);
        for item in self.plan.kept_path() {
            step += 1;
            let (place, out) = match item {
                PathItem::Source(node) => {
                    let entry = facts.nodes[node].entry;
                    (entry.get(), CloneLine::Entry(entry, Some(node)))
                }
                PathItem::Added(new) => {
                    let last = matches!(self.plan.added[new].kind, AddedKind::End | AddedKind::NoReply);
                    (if last { u32::MAX } else { 0 }, CloneLine::Added(new))
                }
            };
            at = at.max(place);
            keyed.push((at, step, out));
        }
        for (node, fact) in facts.nodes.iter_enumerated() {
            if !on_path[node] && !self.plan.is_dropped(node) {
                keyed.push((fact.entry.get(), 0, CloneLine::Entry(fact.entry, Some(node))));
            }
        }
        keyed.sort_by_key(|&(place, step, _)| (place, step));
        self.cloned.order = keyed.into_iter().map(|(.., out)| out).collect();
    }

    /// Chooses which entries outside of the tree are kept, by number.
    fn choose_records(&mut self, selection: &Selection) -> Vec<EntryNo> {
        let mut is_node = Table::filled(false, self.source.digests.len());
        for node in &self.plan.facts.nodes {
            is_node[node.entry] = true;
        }
        let removed = self.changed_call_ids();
        let mut kept = Vec::new();
        let mut window = Window::default();
        for (number, digest) in self.source.digests.iter_enumerated().filter(|&(number, _)| !is_node[number])
        {
            let keep = match digest.kind {
                // Complete requests, with the whole conversation.
                Some(EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape) => false,
                // Derived by a client from the bytes of the source.
                Some(
                    EntryKind::ResumeHeadVouch
                    | EntryKind::SpeculationAccept
                    | EntryKind::AttributionSnapshot
                    | EntryKind::MarbleOrigamiCommit
                    | EntryKind::MarbleOrigamiSnapshot
                    | EntryKind::MarbleOrigamiReset
                    | EntryKind::DataFlowRecords
                    | EntryKind::DataFlowIncomplete,
                ) => false,
                Some(EntryKind::FileHistorySnapshot | EntryKind::FileHistoryDelta) => {
                    let keep = self.recipe.file_history && {
                        selection.keeps_snapshot(self.plan, window.entry(self.source, number))
                    };
                    self.cloned.without_history |= !self.recipe.file_history;
                    keep
                }
                Some(EntryKind::LastPrompt | EntryKind::QueueOperation) if selection.single_path => false,
                Some(EntryKind::Summary) if selection.single_path => {
                    selection.keeps_summary(self.plan, window.entry(self.source, number))
                }
                Some(EntryKind::User | EntryKind::Assistant) => false,
                _ => removed.is_empty() || !removed.occurs_in(window.entry(self.source, number)),
            };
            if keep {
                kept.push(number);
            }
        }
        kept
    }

    /// Counts what is no longer in the clone.
    fn count(&mut self, requested: &Table<NodeId, EditExtent>) {
        let plan = &*self.plan;
        let facts = plan.facts;
        let counts = &mut self.cloned.counts;
        let mut n_records = self.source.digests.len() - facts.nodes.len();
        for out in &self.cloned.order {
            n_records -= usize::from(matches!(out, CloneLine::Entry(_, None)));
        }
        for (node, fact) in facts.nodes.iter_enumerated() {
            if plan.is_dropped(node) {
                match fact.is_conversation() {
                    true => counts.entries += 1,
                    false => n_records += 1,
                }
            }
            let repaired = plan.edit_extent(node) != requested[node];
            let edit = plan.edits.get(node).filter(|_| !plan.is_dropped(node));
            let other = edit.is_some_and(|e| e.uuid.is_some() || e.time.is_some() || e.model.is_some());
            let (was_removed, ..) = requested[node];
            counts.mended += u64::from(!was_removed && (repaired || other));
        }
        let added = |new: &&crate::plan::AddedEntry| {
            !matches!(new.kind, AddedKind::Boundary { .. } | AddedKind::Summary { .. })
        };
        counts.added = plan.added.iter().filter(added).count() as u64;
        counts.records += n_records as u64;
        counts.unreadable = u64::from(facts.bad_lines);
    }
}

impl PreparedClone<'_> {
    /// Adds the title of the clone.
    fn add_title(&mut self, recipe: &Recipe) {
        self.tail.extend(recipe.title_line(&self.id_map));
        let facts = &self.source.session.facts;
        let first = self.plan.as_ref().and_then(|plan| Some(plan.reader.prompt_words(self.first_prompt?)));
        let titled = recipe.title.is_some() || facts.custom_title.is_some() || facts.ai_title.is_some();
        // A session without a title is listed by its first prompt, which is in the summary now.
        if let Some(prompt) = first.filter(|_| self.counts.turns > 0 && !titled) {
            let short: String = rethread_model::collapse_whitespace(&prompt).chars().take(80).collect();
            self.tail.extend(record("ai-title", &[("aiTitle", &short)], &self.id_map));
        }
    }

    /// Adds a checkpoint that names the leaf, unless a kept one names it.
    fn add_checkpoint(&mut self) {
        let Some(plan) = &self.plan else { return };
        let path = plan.kept_path();
        let is_message = |item: &&PathItem| match **item {
            PathItem::Source(node) => plan.node(node).is_conversation(),
            PathItem::Added(new) => !matches!(plan.added[new].kind, AddedKind::End),
        };
        let Some(&leaf) = path.iter().rev().find(is_message) else { return };
        let kept = |number: EntryNo| {
            self.order.iter().any(|out| matches!(out, CloneLine::Entry(n, None) if *n == number))
        };
        let digests = &self.source.digests;
        let last = digests.keys().rfind(|&number| digests[number].kind == Some(EntryKind::LastPrompt));
        let last = last.filter(|&number| kept(number));
        if let (Some(_), PathItem::Source(node)) = (last, leaf) {
            let checkpoint = plan.facts.checkpoints.last();
            if checkpoint.is_some_and(|at| at.leaf.uid() == Some(plan.node(node).uid)) {
                return;
            }
        }
        let prompt_of = |item: &PathItem| match *item {
            PathItem::Source(node) if plan.node(node).flags.is_human() => {
                Some(plan.reader.prompt_words(node))
            }
            PathItem::Source(node) => prompt_beside_results(plan, node),
            PathItem::Added(_) => None,
        };
        let short = |prompt: String| -> String {
            prompt.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
        };
        let prompt = path.iter().rev().find_map(prompt_of).map(short);
        let name = plan.new_id(leaf, &self.id_map);
        let last_prompt = prompt.as_deref().map(|prompt| ("lastPrompt", prompt));
        let members: Vec<(&str, &str)> =
            last_prompt.into_iter().chain([("leafUuid", name.as_str())]).collect();
        self.tail.extend(record("last-prompt", &members, &self.id_map));
    }

    /// Returns whether a call of the source is in the clone, unchanged or shortened.
    pub fn keeps_call(&self, call: CallId) -> bool {
        let Some(plan) = &self.plan else { return true };
        let node = plan.facts.calls[call].node;
        !plan.is_dropped(node)
            && self.call_actions.get(call).is_none_or(|action| !matches!(action, tools::CallAction::Strip))
    }

    /// Returns whether a call is in a turn that the recipe keeps unchanged.
    pub fn keeps_call_unchanged(&self, call: CallId) -> bool {
        self.keeps_call(call) && self.unchanged_calls.get(call).is_some_and(|&unchanged| unchanged)
    }

    /// Returns the error if part of the source could not be read again.
    pub fn failure(&self) -> Option<std::io::Error> {
        self.source.failure()
    }

    /// Returns the tools that the source calls.
    pub fn tools(&self) -> Vec<&str> {
        self.source.session.facts.tools.iter().map(|(name, _)| name).collect()
    }

    /// Returns the id map, for sidecars.
    pub fn id_map(&self) -> &IdMap<'_> {
        &self.id_map
    }

    /// Returns whether only ids change.
    pub fn is_plain(&self) -> bool {
        self.plan.is_none()
    }
}

/// Returns an id escaped for JSON, without quotes.
fn escaped_id(id: &str) -> String {
    let quoted = String::from_utf8(crate::splice::json_string(id)).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// Returns the text of an entry that loses its results: without them it is a prompt.
fn prompt_beside_results(plan: &Plan<'_>, node: NodeId) -> Option<String> {
    let loses = plan.edits.get(node).is_some_and(|edit| !edit.blocks.is_empty());
    if !loses || !plan.node(node).flags.has_result() {
        return None;
    }
    let raw = plan.reader.entry_bytes(plan.node(node).entry);
    Session::read(&edited_line(plan, raw, node, &IdMap::identity())).facts.first_prompt
}

/// Returns the line of an entry outside of the tree, with these strings.
fn record(kind: &str, members: &[(&str, &str)], names: &IdMap<'_>) -> Vec<u8> {
    let mut line = format!("{{\"type\":\"{kind}\"").into_bytes();
    for (key, value) in members {
        line.extend_from_slice(format!(",\"{key}\":").as_bytes());
        line.extend(crate::splice::json_string(value));
    }
    line.extend_from_slice(br#","sessionId":"#);
    line.extend_from_slice(names.quoted_session(b"null"));
    line.extend_from_slice(b"}\n");
    line
}

/// Finds a path by its number.
fn path_of(paths: &[Path], n: usize) -> Result<&Path, ClonePlanError> {
    paths.iter().find(|path| path.n == n).ok_or(ClonePlanError::NoPath(n, paths.len()))
}
