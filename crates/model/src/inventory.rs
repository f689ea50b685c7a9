//! The counts of a session.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::byte_counts::ByteCounts;
use crate::client::Client;
use crate::facts::Facts;
use crate::id::Uid;
use crate::session::Session;
use crate::tree::Link;
use crate::usage::{RecordedUsage, Usage};

/// The counts of one session, or of several together.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Inventory {
    /// The size of the file in bytes.
    pub bytes: u64,
    /// Lines, including blank ones.
    pub lines: u64,
    /// Entries by type.
    pub entries: BTreeMap<String, u64>,
    /// System entries by subtype.
    pub system: BTreeMap<String, u64>,
    /// Lines that are neither blank nor contain an object.
    pub bad_lines: u64,
    /// Messages by role.
    pub messages: MessageCounts,
    /// Content blocks by `role:type`, each block of a message once.
    pub blocks: BTreeMap<String, u64>,
    /// Tool calls.
    pub tool_calls: ToolCallCounts,
    /// Prompts typed by a person.
    pub turns: u64,
    /// Stop reasons, by assistant entry; `None` if the entry has none.
    pub stop_reasons: BTreeMap<String, u64>,
    /// Client versions, by entry.
    pub versions: BTreeMap<String, u64>,
    /// Models, by assistant entry.
    pub models: BTreeMap<String, u64>,
    /// Steps with more than one branch.
    pub forks: u64,
    /// Ends of the conversation.
    pub tips: u64,
    /// Compactions.
    pub compactions: u64,
    /// Subagents, in this file and in sidecars.
    pub subagents: u64,
    /// Links between entries.
    pub chain: LinkCounts,
    /// Bytes by kind of content.
    pub bytes_by: ByteCounts,
    /// Tokens, each message once.
    pub usage: Usage,
    /// Types and fields that no known client writes.
    pub unknown: UnknownNames,
    /// Defects of the file.
    pub defects: Vec<InventoryDefect>,
    /// The number of defects that are not listed.
    pub defects_omitted: u64,
}

/// Messages by role.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct MessageCounts {
    /// User entries; replays count once.
    pub user: u64,
    /// Messages of the model, by distinct `message.id`.
    pub assistant: u64,
    /// Messages of the model without an id, by entry.
    pub assistant_without_id: u64,
}

/// Tool calls, by distinct id.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ToolCallCounts {
    /// Calls.
    pub total: u64,
    /// Calls with a result.
    pub paired: u64,
    /// Calls by tool.
    pub by_name: BTreeMap<String, u64>,
    /// Ids of calls without a result.
    pub orphan_uses: Vec<String>,
    /// Ids of results without a call.
    pub orphan_results: Vec<String>,
    /// Ids of calls with several results.
    pub multiple_results: Vec<String>,
}

/// The parents of entries, by their position in the file.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct LinkCounts {
    /// The parent is the previous entry.
    pub previous: u64,
    /// The parent is another entry of the file.
    pub other: u64,
    /// The parent is `null`.
    pub null: u64,
    /// There is no `parentUuid`.
    pub missing: u64,
    /// The parent is not in the file.
    pub dangling: u64,
    /// Linked across a compaction by `logicalParentUuid`.
    pub logical: u64,
    /// Linked across a compaction by the order of the file.
    pub inferred: u64,
}

/// Unknown types and fields.
#[derive(Debug, Clone, Default, Serialize)]
#[expect(missing_docs, reason = "the field names are self-explanatory")]
pub struct UnknownNames {
    pub types: BTreeMap<String, u64>,
    pub fields: BTreeMap<String, u64>,
}

/// A defect as reported.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the field names are self-explanatory")]
pub struct InventoryDefect {
    pub line: u32,
    pub kind: &'static str,
    pub detail: String,
}

impl Inventory {
    /// Counts the content of a session. `bytes` is the size of its file. The caller adds subagents in
    /// sidecars.
    pub fn new(session: &Session, bytes: u64) -> Self {
        let facts = &session.facts;
        let known = |name: &str| rethread_log::EntryKind::from_name(name.as_bytes()).is_some();
        let paths = session.paths(Client::NEWEST);
        Self {
            bytes,
            lines: facts.lines.into(),
            entries: facts.types.clone(),
            system: facts.subtypes.counts(),
            bad_lines: facts.bad_lines.into(),
            messages: MessageCounts::new(facts),
            blocks: facts.block_counts.clone(),
            tool_calls: count_tool_calls(facts),
            turns: session.turns() as u64,
            stop_reasons: facts.stop_reasons.counts(),
            versions: facts.versions.counts(),
            models: facts.models.counts(),
            forks: session.tree.forks() as u64,
            tips: paths.len() as u64,
            compactions: session.compactions() as u64,
            subagents: session.inline_subagent_count() as u64,
            chain: count_links(session),
            bytes_by: facts.bytes,
            usage: sum_usage(facts),
            unknown: UnknownNames {
                types: facts
                    .types
                    .iter()
                    .filter(|(name, _)| !known(name))
                    .map(|(k, v)| (k.clone(), *v))
                    .collect(),
                fields: facts.unknown_fields.clone(),
            },
            defects: session
                .defects()
                .into_iter()
                .map(|d| InventoryDefect { line: d.line, kind: d.kind.name(), detail: d.detail })
                .collect(),
            defects_omitted: facts.defects_omitted,
        }
    }

    /// Adds the counts of another session. Lists of ids and defects are not merged, only counted if there is
    /// a count. The caller adds usage, because it knows which messages are copies.
    pub fn add(&mut self, other: &Self) {
        let sum = |into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
            for (name, n) in from {
                match into.get_mut(name) {
                    Some(sum) => *sum += n,
                    None => drop(into.insert(name.clone(), *n)),
                }
            }
        };
        self.bytes += other.bytes;
        self.lines += other.lines;
        self.bad_lines += other.bad_lines;
        self.messages.user += other.messages.user;
        self.messages.assistant += other.messages.assistant;
        self.messages.assistant_without_id += other.messages.assistant_without_id;
        self.turns += other.turns;
        self.forks += other.forks;
        self.tips += other.tips;
        self.compactions += other.compactions;
        self.subagents += other.subagents;
        self.tool_calls.total += other.tool_calls.total;
        self.tool_calls.paired += other.tool_calls.paired;
        self.defects_omitted += other.defects_omitted + other.defects.len() as u64;
        for (into, from) in [
            (&mut self.entries, &other.entries),
            (&mut self.system, &other.system),
            (&mut self.blocks, &other.blocks),
            (&mut self.stop_reasons, &other.stop_reasons),
            (&mut self.versions, &other.versions),
            (&mut self.models, &other.models),
            (&mut self.tool_calls.by_name, &other.tool_calls.by_name),
            (&mut self.unknown.types, &other.unknown.types),
            (&mut self.unknown.fields, &other.unknown.fields),
        ] {
            sum(into, from);
        }
        self.chain.add(other.chain);
        self.bytes_by.add(other.bytes_by);
    }
}

impl LinkCounts {
    fn add(&mut self, other: Self) {
        let Self { previous, other: elsewhere, null, missing, dangling, logical, inferred } = other;
        self.previous += previous;
        self.other += elsewhere;
        self.null += null;
        self.missing += missing;
        self.dangling += dangling;
        self.logical += logical;
        self.inferred += inferred;
    }
}

impl MessageCounts {
    /// Counts the messages of a log. One that is both in the main conversation and in a subagent counts once.
    pub fn new(facts: &Facts) -> Self {
        let mut messages = Self::default();
        let mut seen = rustc_hash::FxHashSet::default();
        let may_repeat = facts.nodes.iter().any(|node| node.flags.is_sidechain());
        for message in &facts.messages {
            match (message.assistant, message.id.is_none()) {
                (false, _) => messages.user += 1,
                (true, false) => {
                    messages.assistant += u64::from(!may_repeat || seen.insert(message.id));
                }
                (true, true) => messages.assistant_without_id += 1,
            }
        }
        messages
    }

    /// Returns the number of all messages.
    pub fn total(&self) -> u64 {
        self.user + self.assistant + self.assistant_without_id
    }
}

/// Sums the usage of the messages. A message that is both in the main conversation and in a subagent of the
/// same file counts once.
fn sum_usage(facts: &Facts) -> Usage {
    let mut by_id: FxHashMap<Uid, RecordedUsage> = FxHashMap::default();
    let mut sum = Usage::default();
    for message in &facts.messages {
        let Some(recorded) = facts.recorded_usage(message) else { continue };
        let Some(id) = message.id else {
            sum += recorded.usage;
            continue;
        };
        let known = by_id.entry(id).or_insert(recorded);
        if recorded.replaces(known) {
            *known = recorded;
        }
    }
    for recorded in by_id.into_values() {
        sum += recorded.usage;
    }
    sum
}

fn count_tool_calls(facts: &Facts) -> ToolCallCounts {
    let ids = |calls: &mut dyn Iterator<Item = &crate::facts::ToolCall>| {
        calls.map(|call| facts.call_id(call).to_owned()).collect::<Vec<_>>()
    };
    let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
    for call in &facts.calls {
        *by_name.entry(facts.tools.name(call.tool).to_owned()).or_default() += 1;
    }
    let mut orphan_results: Vec<String> = facts.orphan_results.iter().map(|(id, _)| id.to_string()).collect();
    orphan_results.sort_unstable();
    orphan_results.dedup();
    ToolCallCounts {
        total: facts.calls.len() as u64,
        paired: facts.calls.iter().filter(|call| call.n_results > 0).count() as u64,
        by_name,
        orphan_uses: ids(&mut facts.calls.iter().filter(|call| call.n_results == 0)),
        orphan_results,
        multiple_results: ids(&mut facts.calls.iter().filter(|call| call.n_results > 1)),
    }
}

fn count_links(session: &Session) -> LinkCounts {
    let mut chain = LinkCounts::default();
    let mut previous = None;
    for (node, link) in session.facts.nodes.iter().zip(&session.tree.links) {
        match link {
            Link::Logical(_) => chain.logical += 1,
            Link::Inferred(_) => chain.inferred += 1,
            Link::Root | Link::Parent(_) | Link::Bridged(_) | Link::Dangling => {}
        }
        let count = match node.parent {
            None if node.flags.has_parent_key() => &mut chain.null,
            None => &mut chain.missing,
            Some(_) if node.parent == previous => &mut chain.previous,
            Some(parent) if session.facts.node_of(parent).is_some() => &mut chain.other,
            Some(_) => &mut chain.dangling,
        };
        *count += 1;
        previous = Some(node.uid);
    }
    chain
}
