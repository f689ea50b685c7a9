//! Simulates the resume of a session by a client: the entry it continues from and the request it sends.
//!
//! The stages follow the client. This module loads the rows, `leaf` chooses the leaf, `kept` relinks the
//! messages preserved by a compaction, `walk` collects the path to the root, and `recover` adds the rows next
//! to it. Then the rows of that chain become messages: `cleanup` drops and adds rows, `merge` joins them,
//! `pair` matches calls with their results.

mod cleanup;
mod intended;
mod kept;
mod leaf;
mod merge;
mod pair;
mod recover;
mod request;
mod v2_1_325;
mod walk;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::attachment::SenderRole;
use crate::client::Client;
use crate::facts::{BlockClass, Checkpoint, Facts, IdField, Node, Role};
use crate::id::{Time, Uid};
use crate::index::{CallId, NodeId, Table, index_type};
use crate::rules::ClientRule;

pub use intended::{BrokenLink, IntendedPath, LinkDefect, intended_path, intended_path_to};
pub use request::{PartOrigin, SentMessage, SentPart};
use request::{RequestRow, RowKind};

/// The reason why a client does not resume a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// There is nothing to resume.
    NoConversation,
    /// The entry to continue from has no valid time.
    NoTime(NodeId),
    /// A line is `null`.
    NullLine,
    /// An entry is its own ancestor; the client loops forever.
    Cycle(NodeId),
    /// An entry has no message.
    NoMessage(NodeId),
    /// The content of an entry is not a list of blocks.
    InvalidContent(NodeId),
    /// An answer does not name its model; the client never returns.
    NoModel(NodeId),
    /// The payload of an attachment does not match its type.
    InvalidAttachment(NodeId),
}

/// The result of resuming a session with a client.
#[derive(Debug, Clone, Default)]
pub struct Resume {
    /// The reason why the client does not resume the session.
    pub refusal: Option<Refusal>,
    /// The entry that the client takes as the last one.
    pub leaf: Option<NodeId>,
    /// The entries of the resumed conversation, from the root on.
    pub chain: Vec<NodeId>,
    /// The messages that are sent, including the new prompt. Empty if the client does not resume.
    pub messages: Vec<SentMessage>,
    /// The model accepts system messages between two turns.
    pub(crate) accepts_system_turns: bool,
}

impl Resume {
    fn refused(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::default() }
    }

    /// Returns the last entry that is sent before the new prompt. Entries that the client drops at the end are
    /// not sent.
    pub fn tip(&self) -> Option<NodeId> {
        let nodes =
            |sent: &SentMessage| sent.parts.iter().filter_map(|part| part.origin.node()).collect::<Vec<_>>();
        let last = self.messages.iter().rev().map(nodes).find(|nodes| !nodes.is_empty())?;
        self.chain.iter().rev().copied().find(|node| last.contains(node))
    }
}

/// Applies a client's rules to a session.
pub fn resume(facts: &Facts, client: Client) -> Resume {
    let mut rows = LoadedEntries::load(facts, client);
    if client.has(ClientRule::RefusesNullLine) && facts.nodes_before_null.is_some() {
        return Resume::refused(Refusal::NullLine);
    }
    let (leaf, chain) = match rows.choose_leaf() {
        Some(leaf) => (Some(leaf), rows.walk(leaf)),
        None if rows.rewound_to_start && client.has(ClientRule::FollowsCheckpoints) => (None, Vec::new()),
        None => {
            let untimed = rows.untimed_leaf.map(|slot| rows.slots[slot].node);
            return Resume::refused(untimed.map_or(Refusal::NoConversation, Refusal::NoTime));
        }
    };
    let node = |slot: SlotId| rows.slots[slot].node;
    let chain: Vec<NodeId> = chain.into_iter().map(node).collect();
    let leaf = leaf.map(node);
    if let Some(refusal) = rows.refusal(&chain) {
        return Resume { refusal: Some(refusal), leaf, chain, ..Resume::default() };
    }
    match build_request(facts, client, &chain, rows.rewound) {
        Ok((messages, turns)) => Resume { refusal: None, leaf, chain, messages, accepts_system_turns: turns },
        Err(refusal) => Resume { refusal: Some(refusal), leaf, chain, ..Resume::default() },
    }
}

/// Returns the entries of the conversation that a client resumes.
pub(crate) fn resumed_chain(facts: &Facts, client: Client) -> Vec<NodeId> {
    let mut rows = LoadedEntries::load(facts, client);
    let chain = rows.choose_leaf().map(|leaf| rows.walk(leaf)).unwrap_or_default();
    chain.into_iter().map(|slot| rows.slots[slot].node).collect()
}

/// Builds the messages of the request from a chain.
fn build_request(
    facts: &Facts,
    client: Client,
    chain: &[NodeId],
    rewound: Option<Uid>,
) -> Result<(Vec<SentMessage>, bool), Refusal> {
    let mut rows = cleanup::resumed_rows(facts, client, chain, rewound);
    let model = request_model(facts, client, &rows)?;
    let reminders = SeenReminders::from_rows(facts, client, &rows);
    rows.push(RequestRow::prompt());
    if let Some(boundary) = rows.iter().rposition(|row| row.flags.is_boundary()) {
        rows.drain(..boundary);
    }
    add_new_attachments(facts, client, &mut rows, &reminders);
    let turns = merge::accepts_system_turns(client, model);
    let rows = merge::merge_messages(facts, client, rows, model, turns);
    let rows = pair::pair_calls_with_results(client, rows);
    let mut sent = Vec::with_capacity(rows.len());
    for mut row in rows {
        if row.kind == RowKind::SystemTurn {
            continue;
        }
        let user = row.is_user();
        if user && !row.has_string_content && client.has(ClientRule::RemovesBlankTextFromUsers) {
            let before = row.parts.len();
            row.parts.retain(|part| !part.class.is_blank());
            if row.parts.is_empty() && before > 0 {
                row.parts.push(SentPart::client_text(request::words::NO_CONTENT));
            }
        }
        if client.has(ClientRule::RemovesFallbackBlocks)
            && row.is_assistant()
            && row.has_block(BlockClass::Fallback)
        {
            row.parts.retain(|part| part.class != BlockClass::Fallback);
            if row.parts.is_empty() {
                row.parts.push(SentPart::client_text(request::words::NO_CONTENT));
            }
        }
        if client.has(ClientRule::KeepsCallFieldsWithoutCaller) {
            let bare = row.parts.iter().any(|part| part.has_caller);
            row.parts.iter_mut().for_each(|part| part.has_caller = bare);
        }
        sent.push(SentMessage { assistant: !user, parts: row.parts });
    }
    Ok((sent, turns))
}

/// Reminders that are already part of the conversation.
struct SeenReminders {
    skills: bool,
    agents: bool,
    /// The task tools have not been used for a long time, and no reminder says so.
    task_reminder_due: bool,
}

impl SeenReminders {
    fn from_rows(facts: &Facts, client: Client, rows: &[RequestRow]) -> Self {
        let has_attachment = |name: &str| {
            let attached = |row: &RequestRow| row.attachment_facts(facts).is_some_and(|a| a.has_type(name));
            rows.iter().any(|row| row.kind == RowKind::Attachment && attached(row))
        };
        let tools: &[&str] = if client.has(ClientRule::RemindsOfTasks) {
            &["TaskCreate", "TaskUpdate"]
        } else {
            &["TodoWrite"]
        };
        let note = if client.has(ClientRule::RemindsOfTasks) { "task_reminder" } else { "todo_reminder" };
        let old = client.has(ClientRule::RemindsEarly);
        let (mut since_use, mut since_note) = (0, 0);
        let (mut used, mut noted) = (false, false);
        for row in rows.iter().rev() {
            if used && noted {
                break;
            }
            if row.is_assistant() && !row.is_only_thinking() {
                let of_tool = |part: &SentPart| {
                    part.class == BlockClass::ToolCall
                        && part.call().is_some_and(|c| tools.contains(&facts.tools.name(facts.calls[c].tool)))
                };
                let uses = row.parts.iter().any(of_tool);
                since_use += u32::from(!used && (old || !uses));
                used |= uses;
                since_note += u32::from(!noted);
            } else if row.kind == RowKind::Attachment {
                noted |= row.attachment_facts(facts).is_some_and(|a| a.has_type(note));
            }
        }
        let (long, quiet) = if old { (7, 3) } else { (10, 10) };
        Self {
            skills: has_attachment("skill_listing"),
            agents: has_attachment("agent_listing_delta"),
            task_reminder_due: since_use >= long && since_note >= quiet,
        }
    }
}

/// Adds the attachments that the client sends with the new prompt.
fn add_new_attachments(facts: &Facts, client: Client, rows: &mut Vec<RequestRow>, reminders: &SeenReminders) {
    let lists = client.has(ClientRule::ListsSkills) && !reminders.skills
        || client.has(ClientRule::ListsAgents) && !reminders.agents;
    if lists || client.has(ClientRule::AlwaysAddsSystemAttachment) || reminders.task_reminder_due {
        rows.push(RequestRow::new_attachment(SenderRole::System));
    }
    if client.has(ClientRule::StartsWithReminder) {
        rows.insert(0, RequestRow::reminder());
    }
    let known =
        |row: &RequestRow| row.attachment_facts(facts).is_some_and(|a| a.has_type("remote_session_change"));
    if client.has(ClientRule::AddsSessionAttachment) && !rows.iter().any(known) {
        rows.push(RequestRow::new_attachment(SenderRole::User));
    }
}

/// Finds the model of the request: that of the newest answer, if the client still offers it.
fn request_model<'f>(
    facts: &'f Facts,
    client: Client,
    rows: &[RequestRow],
) -> Result<Option<&'f str>, Refusal> {
    let Some(default) = client.default_model() else { return Ok(None) };
    let newest = rows.iter().rev().filter(|row| row.is_assistant() && !row.flags.is_meta());
    let newest = newest.into_iter().find(|row| {
        let nameless = row.model.is_none() && client.has(ClientRule::SkipsAnswersWithoutModel);
        !row.flags.is_synthetic() && !nameless
    });
    let Some(row) = newest else { return Ok(Some(default)) };
    if client.has(ClientRule::HangsWithoutModel) {
        let fallback = rows.iter().rev().find(|row| row.flags.is_refusal_fallback());
        let endless = fallback.filter(|row| row.flags.lacks_fallback_model());
        let hanging = if row.model.is_none() { Some(row) } else { endless };
        if let Some(node) = hanging.and_then(|row| row.node) {
            return Err(Refusal::NoModel(node));
        }
    }
    let own = row.model.map_or("", |model| facts.models.name(model));
    let offered = own
        .strip_prefix("claude-")
        .is_some_and(|name| client.offered_models().contains(&merge::without_date(name)));
    Ok(Some(if offered { own } else { default }))
}

index_type!(
    /// An entry that a client has loaded, as an index of [`LoadedEntries::slots`].
    SlotId shown as index
);

/// An entry as loaded by the client. Of several entries with one uuid, the last takes the place of the first.
#[derive(Debug, Clone, Copy)]
struct Slot {
    node: NodeId,
    /// Dropped by a compaction that preserved other entries.
    dropped: bool,
}

/// The entries that a client has loaded, and its state after loading.
struct LoadedEntries<'f> {
    facts: &'f Facts,
    client: Client,
    /// Includes rows that no client reads.
    include_unread: bool,
    slots: Table<SlotId, Slot>,
    /// Parents that differ from those in the file; `None` for a root.
    parent_overrides: FxHashMap<SlotId, Option<Uid>>,
    /// The slot of each uuid, by the first node with that uuid.
    slot_by_node: Table<NodeId, Option<SlotId>>,
    last: Option<SlotId>,
    checkpoint: Option<Uid>,
    /// The checkpoint was set by the user and no entry follows it.
    pinned: bool,
    /// The checkpoint was set by the user.
    explicit: bool,
    /// The user rewound to before the first prompt.
    rewound_to_start: bool,
    /// Some checkpoint named a leaf or an explicit `null`.
    any_checkpoint: bool,
    /// The latest time of an entry, and the entry unless it was discarded.
    newest: Option<(Time, Option<SlotId>)>,
    /// The file ends with file snapshots.
    snapshot_tail: bool,
    /// Entries by time, computed when a parent is missing.
    by_time: Vec<(i64, SlotId)>,
    /// End of the search for an unvisited entry, by position in `by_time`.
    unseen_cache: Vec<usize>,
    /// The parents of progress entries, whose children are reparented to them.
    progress_parents: FxHashMap<Uid, Option<Uid>>,
    /// The slot of the entry without a uuid. A client keeps only the last such entry.
    slot_without_uuid: Option<SlotId>,
    /// A leaf that was rejected because it has no time.
    untimed_leaf: Option<SlotId>,
    /// A row that is its own ancestor, on which the client loops.
    cycle_slot: Option<SlotId>,
    /// The target of a rewind, if no prompt or answer follows it.
    rewound: Option<Uid>,
    /// Notes cut off by a rewind.
    hidden: FxHashSet<Uid>,
}

/// Since 2.1.112, other rules apply to files over this size.
const BIG_FILE: u64 = 5 * 1024 * 1024;

impl<'f> LoadedEntries<'f> {
    fn load(facts: &'f Facts, client: Client) -> Self {
        Self::load_rows(facts, client, None)
    }

    /// Loads the rows that a client reads, or all of the first `upto` rows.
    fn load_rows(facts: &'f Facts, client: Client, upto: Option<usize>) -> Self {
        let all = upto.is_some();
        let mut rows = Self {
            include_unread: all,
            facts,
            client,
            slots: Table::default(),
            parent_overrides: FxHashMap::default(),
            slot_by_node: Table::filled(None, facts.nodes.len()),
            last: None,
            checkpoint: None,
            pinned: false,
            explicit: false,
            rewound_to_start: false,
            any_checkpoint: false,
            newest: None,
            snapshot_tail: false,
            by_time: Vec::new(),
            unseen_cache: Vec::new(),
            progress_parents: FxHashMap::default(),
            slot_without_uuid: None,
            untimed_leaf: None,
            cycle_slot: None,
            rewound: None,
            hidden: FxHashSet::default(),
        };
        let big = facts.bytes.total() > BIG_FILE && client.has(ClientRule::SkipsOldPartOfBigFile) && !all;
        let end = match facts.nodes_before_null {
            Some(at) if client.has(ClientRule::StopsAtNullLine) => at as usize,
            _ => upto.unwrap_or(facts.nodes.len()),
        };
        // Skipped entries, with the parent that their children get instead.
        let mut skipped: FxHashMap<Uid, Option<Uid>> = FxHashMap::default();
        let mut checkpoints = facts.checkpoints.iter().peekable();
        for (i, node) in facts.nodes.iter_enumerated().take(end) {
            while let Some(checkpoint) = checkpoints.next_if(|c| c.nodes_before as usize <= i.index()) {
                rows.load_checkpoint(checkpoint);
            }
            if big && node.flags.is_boundary() && !rows.has_preserved_rows(i) {
                rows.clear_slots();
                skipped.clear();
            }
            if !rows.skips(i, node, &mut skipped) {
                rows.load_node(i, node);
            }
        }
        for checkpoint in checkpoints {
            rows.load_checkpoint(checkpoint);
        }
        if !skipped.is_empty() {
            rows.reparent_over_skipped(&skipped);
        }
        if big && client.has(ClientRule::KeepsOnlyChainsOfBigFile) {
            rows.keep_chains();
        }
        rows
    }

    /// Returns whether a boundary lists preserved rows.
    fn has_preserved_rows(&self, boundary: NodeId) -> bool {
        self.facts.preserved.get(&boundary).is_some_and(|k| {
            k.segment.is_some() || self.client.has(ClientRule::ReadsPreservedList) && k.listed.is_some()
        })
    }

    /// Discards all rows so far. Of a big file, only the part after the last compaction is loaded.
    fn clear_slots(&mut self) {
        self.slots.clear();
        self.parent_overrides.clear();
        self.progress_parents.clear();
        self.slot_by_node.fill(None);
        self.slot_without_uuid = None;
        self.last = None;
        self.newest = self.newest.map(|(time, _)| (time, None));
    }

    /// Keeps only the chains above the last row and the checkpoint, as 2.1.200 does with a big file, unless
    /// one of them is broken or a compaction preserved rows.
    fn keep_chains(&mut self) {
        if self.live_slots().any(|slot| self.has_preserved_rows(self.slots[slot].node)) {
            return;
        }
        let mut keep: Table<SlotId, bool> = Table::filled(false, self.slots.len());
        let mut whole = self.last.is_some();
        for start in [self.last, self.checkpoint.and_then(|uid| self.slot(uid))] {
            let mut at = start;
            while let Some(slot) = at.filter(|&slot| !keep[slot]) {
                keep[slot] = true;
                at = self.parent(slot);
                whole &= at.is_some() || self.parent_id(slot).is_none();
            }
        }
        if whole {
            for (slot, keep) in self.slots.iter_mut().zip(keep) {
                slot.dropped |= !keep;
            }
        }
    }

    /// Reparents children of skipped entries to their nearest ancestor that was loaded.
    fn reparent_over_skipped(&mut self, skipped: &FxHashMap<Uid, Option<Uid>>) {
        // The end of each run of skipped entries, so that none is walked twice.
        let mut ends: FxHashMap<Uid, Option<Uid>> = FxHashMap::default();
        for slot in self.slots.keys() {
            let start = self.parent_id(slot);
            let mut parent = start;
            let mut passed = Vec::new();
            let mut seen = FxHashSet::default();
            while let Some(uid) = parent.filter(|&uid| self.slot(uid).is_none() && seen.insert(uid)) {
                if let Some(&end) = ends.get(&uid) {
                    parent = end;
                    break;
                }
                let Some(&above) = skipped.get(&uid) else { break };
                passed.push(uid);
                parent = above;
            }
            ends.extend(passed.into_iter().map(|uid| (uid, parent)));
            if parent != start {
                self.parent_overrides.insert(slot, parent);
            }
        }
    }

    fn slot(&self, uid: Uid) -> Option<SlotId> {
        let first = self.facts.node_of(uid)?;
        self.slot_by_node[first].filter(|&slot| !self.slots[slot].dropped)
    }

    fn node(&self, slot: SlotId) -> &'f Node {
        &self.facts.nodes[self.slots[slot].node]
    }

    /// Returns the id of the parent, from the file or as changed by the client.
    fn parent_id(&self, slot: SlotId) -> Option<Uid> {
        if !self.parent_overrides.is_empty()
            && let Some(&parent) = self.parent_overrides.get(&slot)
        {
            return parent;
        }
        self.node(slot).parent
    }

    fn parent(&self, slot: SlotId) -> Option<SlotId> {
        self.slot(self.parent_id(slot)?)
    }

    /// Returns whether the client does not load an entry. If its children get another parent, it is recorded.
    fn skips(&mut self, index: NodeId, node: &Node, skipped: &mut FxHashMap<Uid, Option<Uid>>) -> bool {
        let client = self.client;
        // A line with more than one object is lost; since 2.1.200 its first object is read.
        let glued = node.flags.is_preceded_on_line()
            || node.flags.is_followed_on_line() && !client.has(ClientRule::ReadsFirstObjectOfLine);
        if glued && !self.include_unread {
            return true;
        }
        match node.role {
            Role::Other => return true,
            // Clients since 2.1.112 reparent the children of a progress entry to its parent. Only some
            // earlier clients know the type at all.
            Role::Progress if client.has(ClientRule::ReparentsOverProgress) => {
                let above = self.parent_over_progress(node);
                self.progress_parents.insert(node.uid, above);
                return true;
            }
            Role::Progress => {
                let skips_tools = client.has(ClientRule::SkipsToolProgress);
                if !client.has(ClientRule::ReadsProgress) || skips_tools && node.flags.is_tool_progress() {
                    return true;
                }
            }
            _ => {}
        }
        let unsendable = client.has(ClientRule::SkipsUnsendableEntries)
            && node.is_conversation()
            && !is_sendable(self.facts, index, node, self.include_unread);
        if unsendable && self.slot(node.uid).is_none() {
            skipped.insert(node.uid, node.parent);
        }
        unsendable
    }

    fn load_node(&mut self, index: NodeId, node: &Node) {
        let client = self.client;
        // Children of a progress entry that follow it in the file are reparented to its parent.
        let parent = self.parent_over_progress(node);
        let first = self.facts.first_with_same_uuid(index);
        let nameless = node.flags.lacks_uuid() && !self.include_unread;
        let known = if nameless { self.slot_without_uuid } else { self.slot_by_node[first] };
        let new = Slot { node: index, dropped: false };
        let slot = match known {
            Some(slot) => {
                self.slots[slot] = new;
                slot
            }
            None => self.slots.push(new),
        };
        self.slot_by_node[first] = Some(slot);
        if nameless {
            self.slot_without_uuid = Some(slot);
        }
        if parent == node.parent {
            self.parent_overrides.remove(&slot);
        } else {
            self.parent_overrides.insert(slot, parent);
        }
        if node.flags.is_snapshot() && client.has(ClientRule::IgnoresTrailingSnapshots) {
            self.snapshot_tail = true;
        } else if !(node.flags.is_sidechain()
            || node.flags.is_briefing() && client.has(ClientRule::IgnoresTrailingBriefings))
        {
            // An entry without a uuid is loaded but cannot be the last. The intended path ends at the last
            // new entry, not at a rewritten one.
            if !self.include_unread || known.is_none() && !node.flags.lacks_uuid() {
                self.last = (!nameless).then_some(slot);
            }
            self.snapshot_tail = false;
            if let Some(time) = node.time
                && self.newest.is_none_or(|(newest, _)| time > newest)
            {
                self.newest = Some((time, Some(slot)));
            }
            self.pinned = false;
            self.rewound_to_start = false;
            self.rewound = None;
            if !self.hidden.is_empty() {
                self.unhide_above(parent);
            }
        }
        if node.flags.is_boundary() && client.has(ClientRule::FollowsCheckpoints) {
            self.hidden.clear();
            self.checkpoint = None;
            self.pinned = false;
            self.explicit = false;
        }
    }

    /// Returns the parent of an entry; if that is a progress entry before it, the nearest other ancestor.
    fn parent_over_progress(&self, node: &Node) -> Option<Uid> {
        let parent = node.parent?;
        if self.progress_parents.is_empty() {
            return Some(parent);
        }
        self.progress_parents.get(&parent).copied().unwrap_or(Some(parent))
    }

    fn load_checkpoint(&mut self, checkpoint: &Checkpoint) {
        if !self.client.has(ClientRule::FollowsCheckpoints) {
            return;
        }
        if checkpoint.explicit && self.client.has(ClientRule::HidesNotesCutByRewind) {
            self.hide_cut_note(checkpoint);
        }
        if checkpoint.leaf == IdField::Absent {
            return;
        }
        self.any_checkpoint = true;
        if let IdField::Id(leaf) = checkpoint.leaf {
            let same = self.checkpoint == Some(leaf);
            let still = self.rewound.is_some() && same;
            self.rewound = (checkpoint.rewound || still).then_some(leaf);
            self.pinned = checkpoint.explicit || self.pinned && same;
            self.explicit = checkpoint.explicit || self.explicit && same;
            self.checkpoint = Some(leaf);
            self.rewound_to_start = false;
        } else if checkpoint.explicit && checkpoint.leaf == IdField::Null {
            self.rewound_to_start = true;
            self.rewound = None;
            self.checkpoint = None;
            self.pinned = false;
            self.explicit = false;
        }
    }

    /// Hides the note that a rewind cut off, if the checkpoint names one.
    fn hide_cut_note(&mut self, checkpoint: &Checkpoint) {
        if !checkpoint.rewound || checkpoint.cut == IdField::Absent {
            return self.hidden.clear();
        }
        if let Some(cut) = checkpoint.cut.uid()
            && let Some(slot) = self.slot(cut)
        {
            self.unhide_above(self.parent_id(slot));
            if !self.node(slot).is_conversation() {
                self.hidden.insert(cut);
            }
        }
    }

    fn unhide_above(&mut self, parent: Option<Uid>) {
        let mut at = parent.and_then(|parent| self.slot(parent));
        for _ in 0..64 {
            let Some(slot) = at.filter(|&slot| !self.node(slot).is_conversation()) else { break };
            self.hidden.remove(&self.node(slot).uid);
            at = self.parent(slot);
        }
    }

    /// Returns the reason why the client fails on the rows of a chain.
    fn refusal(&self, chain: &[NodeId]) -> Option<Refusal> {
        let client = self.client;
        if let Some(slot) = self.cycle_slot {
            return Some(Refusal::Cycle(self.slots[slot].node));
        }
        if !client.has(ClientRule::RefusesMalformedEntries) {
            return None;
        }
        let node = |index: NodeId| &self.facts.nodes[index];
        let is_answer = |index: NodeId| node(index).role == Role::Assistant;
        if client.has(ClientRule::NeedsTimeOfFirstEntry) {
            // Its statistics need the time of the first row.
            let first = self.live_slots().find(|&slot| !self.node(slot).flags.is_sidechain());
            if let Some(slot) = first.filter(|&slot| self.node(slot).time.is_none()) {
                return Some(Refusal::NoTime(self.slots[slot].node));
            }
        }
        if client.has(ClientRule::RefusesMissingMessageAnywhere)
            && chain.iter().any(|&index| is_answer(index))
        {
            let bad = self.live_slots().map(|slot| self.slots[slot].node).find(|&index| {
                let lacks = node(index).is_conversation() && node(index).flags.lacks_message();
                lacks && (is_answer(index) || node(index).parent.is_some())
            });
            if let Some(index) = bad {
                return Some(Refusal::NoMessage(index));
            }
        }
        for &index in chain {
            let flags = node(index).flags;
            if node(index).is_conversation() {
                if flags.lacks_message() {
                    return Some(Refusal::NoMessage(index));
                }
                if flags.has_malformed_content() || is_answer(index) && flags.has_string_content() {
                    return Some(Refusal::InvalidContent(index));
                }
                let blocks = self.facts.blocks_of(index);
                let judged = client.has(ClientRule::RefusesTextWithoutText) && is_answer(index);
                let no_text = || {
                    let mut rest = blocks
                        .iter()
                        .skip_while(|b| matches!(b.class, BlockClass::Blank | BlockClass::Empty));
                    rest.next().is_some_and(|block| block.class == BlockClass::NoText)
                };
                if blocks.iter().any(|block| block.class == BlockClass::Null) || judged && no_text() {
                    return Some(Refusal::InvalidContent(index));
                }
            } else if node(index).role == Role::Attachment && flags.is_fatal_attachment() {
                return Some(Refusal::InvalidAttachment(index));
            }
        }
        None
    }

    fn live_slots(&self) -> impl Iterator<Item = SlotId> + '_ {
        self.slots.keys().filter(|&s| !self.slots[s].dropped)
    }

    fn message_id(&self, slot: SlotId) -> Option<Uid> {
        let node = self.node(slot);
        let message = node.message().filter(|_| node.role == Role::Assistant)?;
        self.facts.messages[message].id
    }

    /// Returns the calls that an entry makes.
    fn calls_in(&self, slot: SlotId) -> impl Iterator<Item = CallId> + '_ {
        calls_of_node(&self.facts.call_sites, self.slots[slot].node)
    }

    /// Returns the calls that an entry answers.
    fn answered_calls_in(&self, slot: SlotId) -> impl Iterator<Item = CallId> + '_ {
        calls_of_node(&self.facts.result_sites, self.slots[slot].node)
    }
}

/// Returns whether an entry can be sent. 2.1.325 skips those that cannot. With `all`, an entry of bare
/// strings counts as part of the intended path.
fn is_sendable(facts: &Facts, index: NodeId, node: &Node, all: bool) -> bool {
    let flags = node.flags;
    let blocks = facts.blocks_of(index);
    let blank_string = node.role == Role::Assistant
        && flags.has_string_content()
        && blocks.iter().all(|block| block.class.is_blank());
    let all_malformed = !blocks.is_empty()
        && blocks.iter().all(|block| {
            matches!(block.class, BlockClass::Untyped | BlockClass::Null)
                || block.class == BlockClass::BareString && !all
        });
    !flags.lacks_message() && !flags.has_malformed_content() && !blank_string && !all_malformed
}

/// Returns the calls of an entry. The sites must be sorted.
pub(crate) fn calls_of_node(
    sites: &[(NodeId, CallId)],
    node: NodeId,
) -> impl Iterator<Item = CallId> + Clone + '_ {
    let start = sites.partition_point(|&(n, _)| n < node);
    sites[start..].iter().take_while(move |&&(n, _)| n == node).map(|&(_, call)| call)
}
