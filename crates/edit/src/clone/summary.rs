//! The summary of a clone.
//!
//! Most clones are linear, and their summary is known before they are written, except for byte counts. All others
//! are read again for it.

use std::cell::RefCell;

use rethread_log::{EntryKind, Json, Line, parse_entry};
use rethread_model::{
    Block, ByteCounts, Client, EntryNo, Finding, IdField, LinearConversation, MessageNo, NameId, NodeId,
    Role, Session, Table, Time, Usage,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::context::{context_size, is_api_answer, measure_context, recorded, total_tokens};
use super::{CloneLine, ContextSize, PreparedClone};
use crate::ids::is_uuid;
use crate::plan::{EntryEdit, PathItem, Plan};
use crate::shorten::PartCut;

/// Summary of a session, as listed or reported after cloning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CloneSummary {
    /// Number of distinct prompts.
    pub turns: usize,
    /// Number of messages of both sides.
    pub messages: usize,
    /// Bytes by kind of content.
    pub bytes: ByteCounts,
    /// Tokens that a client sends.
    pub context: ContextSize,
    /// The first prompt that a user typed.
    pub first_prompt: Option<String>,
    /// The earliest and the latest time of any entry.
    pub span: Option<(Time, Time)>,
    /// Working directories, in order of first occurrence.
    pub cwds: Vec<String>,
    /// Git branches, in order of first occurrence.
    pub branches: Vec<String>,
}

impl CloneSummary {
    /// Summarises a session.
    pub fn of(session: &Session) -> Self {
        let facts = &session.facts;
        let names =
            |names: &rethread_model::NameCounts| names.iter().map(|(name, _)| name.to_owned()).collect();
        Self {
            turns: session.turns(),
            messages: facts.messages.len(),
            bytes: facts.bytes,
            context: context_size(session),
            first_prompt: facts.first_prompt.clone(),
            span: facts.time_span,
            cwds: names(&facts.cwds),
            branches: names(&facts.git_branches),
        }
    }
}

impl PreparedClone<'_> {
    /// Summarises the clone before it is written, except for byte counts, with what clients would lose or reject;
    /// `None` if it is not linear.
    pub(super) fn predicted_summary(&self) -> Option<(CloneSummary, Vec<Finding>)> {
        let plan = self.plan.as_ref()?;
        let facts = plan.facts;
        if !plan.added.is_empty() || !facts.defects.is_empty() {
            return None;
        }
        let entries = rows_if_only_removed(plan)?;
        let has_parent = |node: NodeId, parent_node: Option<NodeId>| match plan.new_parent(node) {
            Some(parent) => parent == parent_node.map(PathItem::Source),
            None => facts.nodes[node].parent == parent_node.map(|parent| facts.nodes[parent].uid),
        };
        let blocks = |node: NodeId| remaining_blocks(plan, node);
        let line = LinearConversation::detect(facts, entries.iter().copied(), has_parent, blocks)?;
        let harm = line.harmful_findings(&Client::ALL)?;
        if !self.has_plain_checkpoints(&entries, line.start) {
            return None;
        }
        let usages = RecordedUsage::new(plan, &entries);
        let recorded = |node: NodeId| usages.recorded(node);
        let human = |node: &&NodeId| facts.nodes[**node].flags.is_human();
        let times = || entries.iter().filter_map(|&node| facts.nodes[node].time);
        let summary = CloneSummary {
            turns: entries.iter().filter(human).count(),
            messages: line.messages,
            bytes: ByteCounts::default(),
            context: measure_context(facts, &entries[line.start..], blocks, recorded),
            first_prompt: self.first_prompt(entries.iter().copied().filter(|node| human(&node)))?,
            span: times().min().zip(times().max()),
            cwds: self.names_in_order(|digest| digest.cwd, &facts.cwds)?,
            branches: self.names_in_order(|digest| digest.branch, &facts.git_branches)?,
        };
        Some((summary, harm))
    }

    /// Returns the first prompt in the clone; `None` if its text differs from the source.
    fn first_prompt(&self, prompts: impl Iterator<Item = NodeId>) -> Option<Option<String>> {
        let reader = self.source.reader();
        let mut texts = prompts.map(|node| (node, reader.prompt_words(node)));
        let Some((node, text)) = texts.find(|(_, text)| !text.is_empty()) else { return Some(None) };
        let raw = reader.entry_bytes(self.source.session.facts.nodes[node].entry);
        self.id_map.result_path_changes(raw).is_empty().then_some(Some(text))
    }

    /// Returns names of the source that occur in the clone, in order of first occurrence; `None` if one may differ
    /// there.
    fn names_in_order(
        &self,
        name_in: impl Fn(&crate::source::EntryDigest) -> Option<NameId>,
        names: &rethread_model::NameCounts,
    ) -> Option<Vec<String>> {
        let mut seen = FxHashSet::default();
        let mut found = Vec::new();
        for out in &self.order {
            let CloneLine::Entry(number, _) = *out else { continue };
            if let Some(name) = name_in(&self.source.digests[number])
                && seen.insert(name)
            {
                let name = names.name(name);
                // An id, or perhaps a path to large results.
                if is_uuid(name.as_bytes()) || name.contains("tool-results") {
                    return None;
                }
                found.push(name.to_owned());
            }
        }
        Some(found)
    }

    /// Returns whether all checkpoints in the clone name the leaf that every client finds without them.
    fn has_plain_checkpoints(&self, entries: &[NodeId], start: usize) -> bool {
        let facts = &self.source.session.facts;
        let is_checkpoint = |number: EntryNo| self.source.digests[number].kind == Some(EntryKind::LastPrompt);
        let mut kept = self.order.iter().filter_map(|out| match *out {
            CloneLine::Entry(number, None) if is_checkpoint(number) => Some(number),
            _ => None,
        });
        let mut next = kept.next();
        if next.is_none() {
            return true;
        }
        let all = self.source.digests.keys().filter(|&number| is_checkpoint(number));
        for (number, end) in all.zip(&facts.checkpoints) {
            if next != Some(number) {
                continue;
            }
            next = kept.next();
            let place = |leaf| {
                let leaf = facts.node_of(self.id_map.replacement_of(leaf))?;
                entries.binary_search(&leaf).ok()
            };
            let on_line = end.leaf == IdField::Absent
                || end.leaf.uid().and_then(place).is_some_and(|place| place >= start);
            let over = start > 0 && end.nodes_before as usize <= entries[start].index();
            if !end.is_implicit() || !(on_line || over) {
                return false;
            }
        }
        next.is_none()
    }
}

/// Returns the entries of a clone in order, if their order is unchanged and edits only remove parts of them.
fn rows_if_only_removed(plan: &Plan<'_>) -> Option<Vec<NodeId>> {
    let mut last = None;
    for item in &plan.path {
        let PathItem::Source(node) = *item else { return None };
        if !plan.is_dropped(node) {
            last = Some(node).filter(|_| last.is_none_or(|last| last < node));
            last?;
        }
    }
    let only_removes = |&node: &NodeId| {
        let edit = plan.edits.get(node);
        let removes = edit.is_none_or(|edit| edit.only_removes() && keeps_meaning(plan, node, edit));
        removes && !is_picture_cut(plan, node)
    };
    let entries: Vec<NodeId> = plan.facts.nodes.keys().filter(|&node| !plan.is_dropped(node)).collect();
    entries.iter().all(only_removes).then_some(entries)
}

/// Returns whether removing blocks does not change how an entry is classified: the role of a user entry depends on
/// its other blocks, and two entries that differ only in a call may become duplicates.
fn keeps_meaning(plan: &Plan<'_>, node: NodeId, edit: &EntryEdit) -> bool {
    let fact = plan.node(node);
    let blocks = plan.facts.blocks_of(node);
    let thinking = |at: &usize| blocks.get(*at).is_some_and(|block| block.class.is_thinking());
    let alone = || {
        let next = plan.facts.nodes.after(node).first().is_some_and(|next| next.message() == fact.message());
        !next && fact.message().is_some_and(|message| plan.facts.messages[message].first_node == node)
    };
    edit.blocks.is_empty() || fact.role == Role::Assistant && (edit.blocks.keys().all(thinking) || alone())
}

/// Recorded context sizes of the answers in a clone.
struct RecordedUsage<'p> {
    plan: &'p Plan<'p>,
    rows: &'p [NodeId],
    /// For each message, whether any of its entries is removed or changes its usage.
    changed: Table<MessageNo, bool>,
    /// Results for such messages.
    found: RefCell<FxHashMap<MessageNo, Option<u64>>>,
}

impl<'p> RecordedUsage<'p> {
    fn new(plan: &'p Plan<'p>, rows: &'p [NodeId]) -> Self {
        let mut changed = Table::filled(false, plan.facts.messages.len());
        for (node, fact) in plan.facts.nodes.iter_enumerated() {
            if let Some(message) = fact.message() {
                let edited = || plan.edits.get(node).is_some_and(|edit| edit.usage.is_some());
                changed[message] |= plan.is_dropped(node) || edited();
            }
        }
        Self { plan, rows, changed, found: RefCell::default() }
    }

    /// Returns the context size of an answer: the last entry of a message that records one counts for all of them.
    fn recorded(&self, node: NodeId) -> Option<u64> {
        let facts = self.plan.facts;
        let message = facts.nodes[node].message()?;
        if !self.changed[message] {
            return recorded(facts, node);
        }
        let answers = is_api_answer(&facts.nodes[node]);
        let known = || *self.found.borrow_mut().entry(message).or_insert_with(|| self.last_of(message, node));
        answers.then(known).flatten()
    }

    /// Returns the size recorded last in a message. Its entries are contiguous; `node` is one of them.
    fn last_of(&self, message: MessageNo, node: NodeId) -> Option<u64> {
        let facts = self.plan.facts;
        let of_message = |at: &&NodeId| facts.nodes[**at].message() == Some(message);
        let at = self.rows.binary_search(&node).ok()?;
        let after = self.rows[at..].iter().take_while(of_message).count();
        let entries = self.rows[..at + after].iter().rev().take_while(of_message);
        entries.filter_map(|&node| self.usage_of(node)).next().and_then(total_tokens)
    }

    /// Returns the usage that an entry records.
    fn usage_of(&self, node: NodeId) -> Option<Usage> {
        if let Some(usage) = self.plan.edits.get(node).and_then(|edit| edit.usage.as_deref()) {
            return Usage::parse(Json::new(usage));
        }
        let (raw, mut line) = (self.plan.reader.entry_bytes(self.plan.node(node).entry), Line::default());
        parse_entry(raw, &mut line);
        Usage::parse(Json::new(line.message?.usage.bytes_in(raw)))
    }
}

/// Returns whether a block with an image is cut: it is not known how much of the rest is image data.
fn is_picture_cut(plan: &Plan<'_>, node: NodeId) -> bool {
    let blocks = plan.facts.blocks_of(node);
    let pictured = |cut: &PartCut| blocks.get(cut.part as usize).is_some_and(|block| block.media_bytes > 0);
    plan.cuts.of_node(node).iter().any(pictured)
}

/// Returns the blocks that an entry will have.
fn remaining_blocks<'p>(plan: &'p Plan<'_>, node: NodeId) -> impl Iterator<Item = Block> + 'p {
    let edit = plan.edits.get(node);
    plan.facts.blocks_of(node).iter().enumerate().filter_map(move |(at, block)| {
        let mut block = *block;
        if edit.is_some_and(|edit| edit.blocks.contains_key(&at)) {
            return None;
        }
        if let Some(len) = plan.short_len(node, at) {
            block.len = u32::try_from(len).unwrap_or(u32::MAX);
        }
        Some(block)
    })
}
