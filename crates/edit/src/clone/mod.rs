//! A session made into another: with new ids, one of its paths alone, without tools or thinking, its
//! older turns condensed.
//!
//! A [`Recipe`] says what is wanted. Without any change a clone is its source but for the ids, byte for
//! byte. With one, it is a plan like a repair: what was asked for is decided first, then what no client
//! would take is mended, the conversation is laid in one line, and its end is marked where clients
//! would not agree on it.

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
use rethread_model::{Node, Path, Role, Session, Uid};
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

/// Why a clone cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClonePlanError {
    /// There is no such path; there are so many.
    NoPath(usize, usize),
    /// There is no such message; there are so many.
    NoMessage(usize, usize),
    /// The message is not on the path.
    NotOnPath(usize, usize),
    /// The entry that it is to end with has no id, and the log had to be put in order.
    EndHasNoId,
    /// Nothing was said in the session.
    Empty,
    /// It is the log of a subagent, which has no paths.
    Subagent,
}

impl std::fmt::Display for ClonePlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoPath(n, of) => write!(f, "there is no path {n}: the session has {of}"),
            Self::NoMessage(n, of) => write!(f, "there is no message {n}: the session has {of}"),
            Self::NotOnPath(n, path) => write!(f, "message {n} is not on path {path}"),
            Self::EndHasNoId => write!(f, "the entry at the end of it has no id"),
            Self::Empty => write!(f, "nothing was said in this session"),
            Self::Subagent => write!(f, "this is the log of a subagent, not a session"),
        }
    }
}

impl std::error::Error for ClonePlanError {}

/// What a clone left out or changed, counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct CloneCounts {
    /// Entries of the conversation that are not in the clone.
    pub entries: u64,
    /// Other entries: progress, recorded requests, snapshots, and what belonged to removed calls.
    pub records: u64,
    /// Turns that were condensed.
    pub turns: u64,
    /// Calls that were removed, with their results.
    pub calls: u64,
    /// Calls that were shortened, with their results.
    pub shortened: u64,
    /// Blocks of thinking.
    pub thinking: u64,
    /// Entries that were changed so that every client takes them.
    pub mended: u64,
    /// Entries that were added for the same reason.
    pub added: u64,
    /// Lines that are no entries.
    pub unreadable: u64,
}

/// A clone that can be written.
#[derive(Debug)]
pub struct PreparedClone<'a> {
    source: &'a SourceSession<'a>,
    id_map: IdMap<'a>,
    /// What becomes of its entries; nothing if only ids change.
    plan: Option<Plan<'a>>,
    /// What of it is written, in this order.
    order: Vec<CloneLine>,
    /// Lines behind all others.
    tail: Vec<u8>,
    /// What is left out.
    pub counts: CloneCounts,
    /// What becomes of each call.
    call_actions: Vec<tools::CallAction>,
    /// Which calls are in turns that stay as they are.
    unchanged_calls: Vec<bool>,
    /// Why thinking went: because what was said before it changed.
    pub thinking_invalidated: bool,
    /// The turns that were condensed.
    pub turns: Vec<CondensedTurn>,
    /// What of their summaries the budget had no room for.
    pub over_budget: OverBudget,
    /// The first prompt of the conversation, as an index of a node.
    first_prompt: Option<usize>,
    /// Tools that were named and never called.
    pub unknown_tools: Vec<String>,
    /// The size of the context that the last answer records was put right.
    pub usage_corrected: bool,
    /// Snapshots of files were left out.
    pub without_history: bool,
    /// How many paths the source has beside the one in the clone.
    pub other_paths: usize,
}

/// What is written.
#[derive(Debug, Clone, Copy)]
enum CloneLine {
    /// An entry of the source, by its number, with the node that it is.
    Entry(u32, Option<u32>),
    /// An added one.
    Added(usize),
}

/// Puts in order what every edit depends on: the lines of a log, the ids of its messages. Returns the log
/// so mended, and the recipe for it: numbers of paths and messages are those of the source. Nothing if
/// all is in order, or if nothing but ids changes.
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
        call_actions: Vec::new(),
        unchanged_calls: Vec::new(),
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
    let human = |node: &&usize| source.session.facts.nodes[**node].flags.is_human();
    cloned.first_prompt = selection.full_path.iter().find(human).copied();
    let mut plan = selection.plan(source);
    let (touched, condensed) = (Vec::new(), FxHashSet::default());
    let mut making = CloneBuilder {
        source,
        recipe,
        plan: &mut plan,
        cloned: &mut cloned,
        changed_nodes: touched,
        condensed,
    };
    making.drop_progress_and_errors();
    making.edit_tools(&selection);
    making.compress();
    making.keep_sidechains(&selection);
    making.edit_thinking();
    making.drop_orphaned_notes();
    making.drop_trailing_attachments();
    making.drop_duplicates(&selection);
    let asked: Vec<EditExtent> =
        (0..making.plan.facts.nodes.len()).map(|n| making.plan.edit_extent(n)).collect();
    making.plan.repair();
    making.plan.place_queued_prompts();
    making.plan.linearise();
    making.prune_preserved_lists();
    making.correct_usage(&selection);
    making.mark_end(&selection);
    let metadata = making.choose_records(&selection);
    making.order_lines(&metadata);
    making.count(&asked);
    if !selection.clone_path.is_empty() && plan.kept_path().is_empty() {
        return Err(ClonePlanError::Empty);
    }
    let stand_ins = plan.replacements(&plan.nearest_kept());
    let facts = &source.session.facts;
    // Of several entries with one id one may be left.
    let kept: FxHashSet<Uid> = (0..facts.nodes.len())
        .filter(|&node| facts.has_duplicates() && !plan.is_dropped(node))
        .map(|node| facts.nodes[node].uid)
        .collect();
    let gone = |node: usize| {
        let stays = !plan.is_dropped(node) || kept.contains(&facts.nodes[node].uid);
        stand_ins[node].filter(|_| !stays)
    };
    let keeps = cloned.id_map.keeps_ids();
    let instead = |node: usize| match plan.edits.get(node).and_then(|edit| edit.uuid.as_deref()) {
        // It had no id, and got one.
        Some(uuid) => Replacement { uid: Uid::new(uuid.as_bytes()), text: keeps.then(|| uuid.to_owned()) },
        None => Replacement {
            uid: facts.nodes[node].uid,
            text: keeps.then(|| escaped_id(&plan.reader.uuid(node))),
        },
    };
    let moved: FxHashMap<Uid, Replacement> = (0..facts.nodes.len())
        .filter_map(|node| Some((facts.nodes[node].uid, instead(gone(node)?))))
        .collect();
    cloned.id_map = cloned.id_map.with_replacements(moved);
    cloned.plan = Some(plan);
    cloned.add_title(recipe);
    cloned.add_checkpoint();
    Ok(cloned)
}

/// A clone in the making.
struct CloneBuilder<'m, 'a> {
    source: &'a SourceSession<'a>,
    recipe: &'m Recipe,
    plan: &'m mut Plan<'a>,
    cloned: &'m mut PreparedClone<'a>,
    /// Entries whose calls were removed or shortened.
    changed_nodes: Vec<usize>,
    /// Entries whose turns were condensed.
    condensed: FxHashSet<usize>,
}

impl CloneBuilder<'_, '_> {
    /// The progress of tools says nothing that is sent, and some clients stumble over it. Reports of
    /// failures on the way are sent by the oldest clients alone.
    fn drop_progress_and_errors(&mut self) {
        let on_way = self.plan.on_path();
        for (node, on_way) in on_way.into_iter().enumerate() {
            let fact = self.plan.node(node);
            let failure = fact.role == Role::Assistant && fact.flags.is_failure_report();
            if fact.role == Role::Progress || failure && on_way {
                self.plan.drop_requested(node);
            }
        }
    }

    /// Drops notes that are all that is left of a branch: without what they were about, clients would take
    /// them for part of the conversation that the branch left.
    fn drop_orphaned_notes(&mut self) {
        let facts = self.plan.facts;
        let on_way = self.plan.on_path();
        let is_note = |node: &Node| matches!(node.role, Role::System | Role::Attachment);
        let left = |(node, fact): (usize, &Node)| {
            let flags = fact.flags;
            let said = flags.is_queued_prompt() || flags.is_local_command();
            !on_way[node] && is_note(fact) && !said && !flags.is_boundary() && !flags.is_sidechain()
        };
        if !facts.nodes.iter().enumerate().any(left) {
            return;
        }
        let none = vec![false; facts.nodes.len()];
        let order = self.plan.top_down();
        // Whether the nearest words above are gone.
        let mut gone_above = none.clone();
        for &node in &order {
            let Some(above) = self.plan.effective_parent(node) else { continue };
            let said = facts.nodes[above].is_conversation();
            gone_above[node] = if said { self.plan.is_dropped(above) } else { gone_above[above] };
        }
        // Whether something was said below, and whether anything stays there.
        let (mut said_below, mut stays_below) = (none.clone(), none);
        for &node in order.iter().rev() {
            let alone = !stays_below[node] && (gone_above[node] || said_below[node]);
            if alone && left((node, &facts.nodes[node])) {
                self.plan.drop_requested(node);
            }
            if let Some(above) = self.plan.effective_parent(node) {
                said_below[above] |= said_below[node] || facts.nodes[node].is_conversation();
                stays_below[above] |= stays_below[node] || !self.plan.is_dropped(node);
            }
        }
    }

    /// Drops what the client attached behind the last words: some clients take it for something that
    /// waits for an answer, and all attach again what they need.
    fn drop_trailing_attachments(&mut self) {
        let way = self.plan.kept_path();
        let trails = |item: &&PathItem| match **item {
            PathItem::Source(node) => {
                !self.plan.node(node).is_conversation() && !self.plan.node(node).flags.is_queued_prompt()
            }
            PathItem::Added(_) => false,
        };
        let trailing: Vec<PathItem> = way.iter().rev().take_while(trails).copied().collect();
        for item in trailing {
            if let PathItem::Source(node) = item
                && self.plan.node(node).role == Role::Attachment
            {
                self.plan.drop_requested(node);
            }
        }
    }

    /// Drops what has the id of an entry that goes: of several with one id the last is on the way, and the others
    /// are kept with it alone.
    fn drop_duplicates(&mut self, selection: &Selection) {
        let facts = self.plan.facts;
        if !facts.has_duplicates() {
            return;
        }
        let gone = selection.clone_path.iter().filter(|&&node| self.plan.is_dropped(node));
        let gone: FxHashSet<Uid> = gone.map(|&node| facts.nodes[node].uid).collect();
        for (node, _) in facts.nodes.iter().enumerate().filter(|(_, fact)| gone.contains(&fact.uid)) {
            self.plan.drop_requested(node);
        }
    }

    /// Marks the end where clients would not agree on it: it must stand last and be the newest.
    fn mark_end(&mut self, selection: &Selection) {
        let plan = &mut *self.plan;
        let way = plan.kept_path();
        let Some(&PathItem::Source(leaf)) = way.last() else {
            if !way.is_empty() {
                plan.mark_end();
            }
            return;
        };
        let time = plan.final_time(leaf);
        let mut agreed = !time.is_none();
        let on_way = plan.on_path();
        for (node, &on_way) in on_way.iter().enumerate() {
            if node == leaf || plan.is_dropped(node) {
                continue;
            }
            let late = node > leaf && !(selection.single_path && on_way);
            // Some clients even go on with a subagent's entry.
            agreed &= plan.final_time(node) < time && !late;
        }
        agreed &= plan.added.iter().all(|new| new.time < time);
        // What clients put behind a prompt or a result without an answer, they do not agree on either.
        agreed &= plan.ends_with_answer();
        if !agreed {
            plan.mark_end();
        }
    }

    /// Puts what is kept in the order in which it is written: the conversation in its order, all else
    /// where it stood.
    fn order_lines(&mut self, records: &[u32]) {
        let facts = self.plan.facts;
        let mut keyed: Vec<(u32, u32, CloneLine)> =
            records.iter().map(|&n| (n, 0, CloneLine::Entry(n, None))).collect();
        let on_way = self.plan.on_path();
        let (mut at, mut step) = (0, 0);
        for item in self.plan.kept_path() {
            step += 1;
            let (place, out) = match item {
                PathItem::Source(node) => {
                    let entry = facts.nodes[node].entry;
                    (entry, CloneLine::Entry(entry, u32::try_from(node).ok()))
                }
                PathItem::Added(new) => {
                    let last = matches!(self.plan.added[new].kind, AddedKind::End | AddedKind::NoReply);
                    (if last { u32::MAX } else { 0 }, CloneLine::Added(new))
                }
            };
            at = at.max(place);
            keyed.push((at, step, out));
        }
        for (node, fact) in facts.nodes.iter().enumerate() {
            if !on_way[node] && !self.plan.is_dropped(node) {
                keyed.push((fact.entry, 0, CloneLine::Entry(fact.entry, u32::try_from(node).ok())));
            }
        }
        keyed.sort_by_key(|&(place, step, _)| (place, step));
        self.cloned.order = keyed.into_iter().map(|(.., out)| out).collect();
    }

    /// Chooses which entries outside of the tree are kept, by number.
    fn choose_records(&mut self, selection: &Selection) -> Vec<u32> {
        let mut is_node = vec![false; self.source.digests.len()];
        for node in &self.plan.facts.nodes {
            is_node[node.entry as usize - 1] = true;
        }
        let removed = self.changed_call_ids();
        let mut kept = Vec::new();
        let mut window = Window::default();
        for (at, note) in self.source.digests.iter().enumerate().filter(|&(at, _)| !is_node[at]) {
            let number = u32::try_from(at + 1).unwrap_or(0);
            let keep = match note.kind {
                // Whole requests, with everything that was ever said.
                Some(EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape) => false,
                // What a client worked out from the bytes that were there.
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
                    let with = self.recipe.file_history && {
                        selection.keeps_snapshot(self.plan, window.entry(self.source, number))
                    };
                    self.cloned.without_history |= !self.recipe.file_history;
                    with
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

    /// Counts what is not in the clone any more.
    fn count(&mut self, asked: &[EditExtent]) {
        let plan = &*self.plan;
        let facts = plan.facts;
        let counts = &mut self.cloned.counts;
        let mut n_records = self.source.digests.len() - facts.nodes.len();
        for out in &self.cloned.order {
            n_records -= usize::from(matches!(out, CloneLine::Entry(_, None)));
        }
        for (node, fact) in facts.nodes.iter().enumerate() {
            if plan.is_dropped(node) {
                match fact.is_conversation() {
                    true => counts.entries += 1,
                    false => n_records += 1,
                }
            }
            let mended = plan.edit_extent(node) != asked[node];
            let edit = plan.edits.get(node).filter(|_| !plan.is_dropped(node));
            let other = edit.is_some_and(|e| e.uuid.is_some() || e.time.is_some() || e.model.is_some());
            let (was_gone, ..) = asked[node];
            counts.mended += u64::from(!was_gone && (mended || other));
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
    /// Gives the clone its title.
    fn add_title(&mut self, recipe: &Recipe) {
        self.tail.extend(recipe.title_line(&self.id_map));
        let facts = &self.source.session.facts;
        let first = self.plan.as_ref().and_then(|plan| Some(plan.reader.prompt_words(self.first_prompt?)));
        let named = recipe.title.is_some() || facts.custom_title.is_some() || facts.ai_title.is_some();
        // A session without a title goes by its first prompt, which is in the summary now.
        if let Some(prompt) = first.filter(|_| self.counts.turns > 0 && !named) {
            let short: String = rethread_model::collapse_whitespace(&prompt).chars().take(80).collect();
            self.tail.extend(record("ai-title", &[("aiTitle", &short)], &self.id_map));
        }
    }

    /// Says where the conversation stands, unless that is said.
    fn add_checkpoint(&mut self) {
        let Some(plan) = &self.plan else { return };
        let way = plan.kept_path();
        let said = |item: &&PathItem| match **item {
            PathItem::Source(node) => plan.node(node).is_conversation(),
            PathItem::Added(new) => !matches!(plan.added[new].kind, AddedKind::End),
        };
        let Some(&leaf) = way.iter().rev().find(said) else { return };
        let kept = |number: u32| {
            self.order.iter().any(|out| matches!(out, CloneLine::Entry(n, None) if *n == number))
        };
        let last = self.source.digests.iter().rposition(|note| note.kind == Some(EntryKind::LastPrompt));
        let last = last.and_then(|at| u32::try_from(at + 1).ok()).filter(|&number| kept(number));
        if let (Some(_), PathItem::Source(node)) = (last, leaf) {
            let checkpoint = plan.facts.checkpoints.last();
            if checkpoint.is_some_and(|at| at.leaf == Some(plan.node(node).uid) && !at.leaf_is_null) {
                return;
            }
        }
        let asked = |item: &PathItem| match *item {
            PathItem::Source(node) if plan.node(node).flags.is_human() => {
                Some(plan.reader.prompt_words(node))
            }
            PathItem::Source(node) => prompt_beside_results(plan, node),
            PathItem::Added(_) => None,
        };
        let short = |prompt: String| -> String {
            prompt.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect()
        };
        let prompt = way.iter().rev().find_map(asked).map(short);
        let name = plan.new_id(leaf, &self.id_map);
        let said = prompt.as_deref().map(|prompt| ("lastPrompt", prompt));
        let members: Vec<(&str, &str)> = said.into_iter().chain([("leafUuid", name.as_str())]).collect();
        self.tail.extend(record("last-prompt", &members, &self.id_map));
    }

    /// Tells whether a call of the source is in the clone, as it was or shortened.
    pub fn keeps_call(&self, call: usize) -> bool {
        let Some(plan) = &self.plan else { return true };
        let node = plan.facts.calls[call].node as usize;
        !plan.is_dropped(node)
            && self.call_actions.get(call).is_none_or(|fate| !matches!(fate, tools::CallAction::Strip))
    }

    /// Tells whether a call of the source is in the clone as it was, whatever was asked for others.
    pub fn keeps_call_unchanged(&self, call: usize) -> bool {
        self.keeps_call(call) && self.unchanged_calls.get(call).is_some_and(|&spared| spared)
    }

    /// Why something of the source could not be read again.
    pub fn failure(&self) -> Option<std::io::Error> {
        self.source.failure()
    }

    /// Returns the tools that the source calls.
    pub fn tools(&self) -> Vec<&str> {
        self.source.session.facts.tools.iter().map(|(name, _)| name).collect()
    }

    /// Returns the names of its ids, for what lies beside it.
    pub fn id_map(&self) -> &IdMap<'_> {
        &self.id_map
    }

    /// Tells whether nothing but ids changes.
    pub fn is_plain(&self) -> bool {
        self.plan.is_none()
    }
}

/// An id as it stands between quotes.
fn escaped_id(id: &str) -> String {
    let quoted = String::from_utf8(crate::splice::json_string(id)).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}

/// What somebody said in an entry that loses the results beside it: without them it is a prompt.
fn prompt_beside_results(plan: &Plan<'_>, node: usize) -> Option<String> {
    let loses = plan.edits.get(node).is_some_and(|edit| !edit.blocks.is_empty());
    if !loses || !plan.node(node).flags.has_result() {
        return None;
    }
    let raw = plan.reader.entry_bytes(plan.node(node).entry);
    Session::read(&edited_line(plan, raw, node, &IdMap::identity())).facts.first_prompt
}

/// The line of an entry outside of the tree, with these strings.
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

/// Finds the path with a number.
fn path_of(paths: &[Path], n: usize) -> Result<&Path, ClonePlanError> {
    paths.iter().find(|path| path.n == n).ok_or(ClonePlanError::NoPath(n, paths.len()))
}
