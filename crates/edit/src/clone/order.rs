//! The fourth stage: the lines of a clone, in order.

use std::ops::Range;

use rethread_log::EntryKind;
use rethread_model::{EntryNo, NodeId, Session, Table, collapse_whitespace};

use super::Recipe;
use super::call_notes::CallIdSet;
use super::normalise::NormalisedPlan;
use super::select::Selection;
use crate::ids::IdMap;
use crate::plan::{AddedKind, PathItem, Plan, edited_line};
use crate::source::{SourceSession, Window};
use crate::splice::json_string;

/// A line of a clone.
#[derive(Debug)]
pub(super) enum OutputLine {
    /// Lines of the source as a range of bytes, of which only ids change.
    Unedited(Range<usize>),
    /// An entry outside of the tree, of which only ids change.
    Record(EntryNo),
    /// An entry of the tree, with the changes that the plan lists.
    Entry(NodeId),
    /// An entry that the plan adds, as an index into [`Plan::added`].
    Added(usize),
    /// A title or a checkpoint.
    Text(Vec<u8>),
}

/// The lines of an edited clone.
pub(super) struct OrderedLines {
    pub(super) lines: Vec<OutputLine>,
    /// Number of entries outside of the tree that are kept.
    pub(super) n_records: usize,
    /// File snapshots are left out.
    pub(super) without_history: bool,
}

/// Lists the lines of an edited clone: the conversation in path order, everything else in its place, then the title
/// and the checkpoint.
pub(super) fn order_lines(
    source: &SourceSession<'_>,
    recipe: &Recipe,
    selection: &Selection,
    ids: &IdMap<'_>,
    normalised: &NormalisedPlan<'_>,
) -> OrderedLines {
    let plan = &normalised.plan;
    let all_records = records(source);
    let records = kept_records(source, recipe, selection, normalised, &all_records);
    let mut lines = entries_and_records(plan, &records);
    lines.extend(title_line(recipe, ids).map(OutputLine::Text));
    let condensed = normalised.condensed.n_turns > 0;
    let prompt = selection.first_prompt.filter(|_| condensed && !has_title(source, recipe));
    lines.extend(prompt.map(|prompt| OutputLine::Text(generated_title(plan, prompt, ids))));
    lines.extend(checkpoint(source, plan, &records, ids).map(OutputLine::Text));
    let without_history = !recipe.file_history && all_records.iter().any(|&(_, kind)| is_snapshot(kind));
    OrderedLines { lines, n_records: records.len(), without_history }
}

/// Orders the kept entries, added ones included, and records.
fn entries_and_records(plan: &Plan<'_>, records: &[EntryNo]) -> Vec<OutputLine> {
    let facts = plan.facts;
    let mut keyed: Vec<(u32, u32, OutputLine)> =
        records.iter().map(|&n| (n.get(), 0, OutputLine::Record(n))).collect();
    let (mut at, mut step) = (0, 0);
    for item in plan.kept_path() {
        step += 1;
        let (place, line) = match item {
            PathItem::Source(node) => (facts.nodes[node].entry.get(), OutputLine::Entry(node)),
            PathItem::Added(new) => {
                let last = matches!(plan.added[new].kind, AddedKind::End | AddedKind::NoReply);
                (if last { u32::MAX } else { 0 }, OutputLine::Added(new))
            }
        };
        at = at.max(place);
        keyed.push((at, step, line));
    }
    for (node, &on_path) in plan.on_path().iter_enumerated() {
        if !on_path && !plan.is_dropped(node) {
            keyed.push((facts.nodes[node].entry.get(), 0, OutputLine::Entry(node)));
        }
    }
    keyed.sort_by_key(|&(place, step, _)| (place, step));
    keyed.into_iter().map(|(.., line)| line).collect()
}

/// Returns the entries outside of the tree, with their kinds.
fn records(source: &SourceSession<'_>) -> Vec<(EntryNo, Option<EntryKind>)> {
    let mut is_node = Table::filled(false, source.digests.len());
    for node in &source.session.facts.nodes {
        is_node[node.entry] = true;
    }
    let records = source.digests.iter_enumerated().filter(|&(number, _)| !is_node[number]);
    records.map(|(number, digest)| (number, digest.kind)).collect()
}

/// Returns the records that are kept. Only those that may refer to something are read.
fn kept_records(
    source: &SourceSession<'_>,
    recipe: &Recipe,
    selection: &Selection,
    normalised: &NormalisedPlan<'_>,
    records: &[(EntryNo, Option<EntryKind>)],
) -> Vec<EntryNo> {
    let plan = &normalised.plan;
    let changed_calls = CallIdSet::changed(plan, &normalised.calls);
    let mut window = Window::default();
    let mut keeps = |number: EntryNo, kind: Option<EntryKind>| match kind {
        Some(kind) if is_derived(kind) => false,
        Some(EntryKind::User | EntryKind::Assistant) => false,
        kind if is_snapshot(kind) => {
            recipe.file_history && selection.keeps_snapshot(plan, window.entry(source, number))
        }
        Some(EntryKind::LastPrompt | EntryKind::QueueOperation) if selection.single_path => false,
        Some(EntryKind::Summary) if selection.single_path => {
            selection.keeps_summary(plan, window.entry(source, number))
        }
        _ => changed_calls.is_empty() || !changed_calls.occurs_in(window.entry(source, number)),
    };
    records.iter().filter(|&&(number, kind)| keeps(number, kind)).map(|&(number, _)| number).collect()
}

fn is_snapshot(kind: Option<EntryKind>) -> bool {
    matches!(kind, Some(EntryKind::FileHistorySnapshot | EntryKind::FileHistoryDelta))
}

/// Returns whether a client derives such an entry from the bytes of the source. Requests contain the whole
/// conversation.
fn is_derived(kind: EntryKind) -> bool {
    matches!(
        kind,
        EntryKind::ApiRequest
            | EntryKind::ApiRequestBlob
            | EntryKind::ApiRequestShape
            | EntryKind::ResumeHeadVouch
            | EntryKind::SpeculationAccept
            | EntryKind::AttributionSnapshot
            | EntryKind::MarbleOrigamiCommit
            | EntryKind::MarbleOrigamiSnapshot
            | EntryKind::MarbleOrigamiReset
            | EntryKind::DataFlowRecords
            | EntryKind::DataFlowIncomplete
    )
}

/// Lists the lines of a clone without edits: all of the source in pieces of about `piece` bytes, then the title.
pub(super) fn unedited_lines(
    source: &SourceSession<'_>,
    recipe: &Recipe,
    ids: &IdMap<'_>,
    piece: usize,
) -> Vec<OutputLine> {
    let bytes = source.complete_lines();
    let mut lines = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let most = (start + piece).min(bytes.len());
        let end = memchr::memchr(b'\n', &bytes[most..]).map_or(bytes.len(), |at| most + at + 1);
        lines.push(OutputLine::Unedited(start..end));
        start = end;
    }
    lines.extend(title_line(recipe, ids).map(OutputLine::Text));
    lines
}

/// Returns the line that sets the title of a recipe.
pub(super) fn title_line(recipe: &Recipe, ids: &IdMap<'_>) -> Option<Vec<u8>> {
    recipe.title.as_ref().map(|title| record_line("custom-title", &[("customTitle", title)], ids))
}

fn has_title(source: &SourceSession<'_>, recipe: &Recipe) -> bool {
    let facts = &source.session.facts;
    recipe.title.is_some() || facts.custom_title.is_some() || facts.ai_title.is_some()
}

/// Returns a title from the first prompt: a session without a title is listed by that prompt, which is in the summary
/// now.
fn generated_title(plan: &Plan<'_>, prompt: NodeId, ids: &IdMap<'_>) -> Vec<u8> {
    let words = plan.reader.prompt_words(prompt);
    let short: String = collapse_whitespace(&words).chars().take(80).collect();
    record_line("ai-title", &[("aiTitle", &short)], ids)
}

/// Returns a checkpoint that names the last message, unless a kept one names it.
fn checkpoint(
    source: &SourceSession<'_>,
    plan: &Plan<'_>,
    records: &[EntryNo],
    ids: &IdMap<'_>,
) -> Option<Vec<u8>> {
    let path = plan.kept_path();
    let is_message = |item: &&PathItem| match **item {
        PathItem::Source(node) => plan.node(node).is_conversation(),
        PathItem::Added(new) => !matches!(plan.added[new].kind, AddedKind::End),
    };
    let leaf = *path.iter().rev().find(is_message)?;
    if leaf.source().is_some_and(|leaf| is_named_by_last_checkpoint(source, plan, records, leaf)) {
        return None;
    }
    let prompt = path.iter().rev().find_map(|item| prompt_of(plan, *item));
    let prompt: Option<String> = prompt
        .map(|prompt| prompt.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(200).collect());
    let leaf = plan.new_id(leaf, ids);
    let prompt = prompt.as_deref().map(|prompt| ("lastPrompt", prompt));
    let members: Vec<(&str, &str)> = prompt.into_iter().chain([("leafUuid", leaf.as_str())]).collect();
    Some(record_line("last-prompt", &members, ids))
}

/// Returns whether the last checkpoint of the source is kept and names this entry.
fn is_named_by_last_checkpoint(
    source: &SourceSession<'_>,
    plan: &Plan<'_>,
    records: &[EntryNo],
    leaf: NodeId,
) -> bool {
    let digests = &source.digests;
    let last = digests.keys().rfind(|&number| digests[number].kind == Some(EntryKind::LastPrompt));
    let is_kept = last.is_some_and(|number| records.binary_search(&number).is_ok());
    let checkpoint = plan.facts.checkpoints.last().filter(|_| is_kept);
    checkpoint.is_some_and(|at| at.leaf.uid() == Some(plan.node(leaf).uid))
}

/// Returns the prompt in an entry. An entry that loses its results becomes a prompt.
fn prompt_of(plan: &Plan<'_>, item: PathItem) -> Option<String> {
    let node = item.source()?;
    if plan.node(node).flags.is_human() {
        return Some(plan.reader.prompt_words(node));
    }
    let loses = plan.edits.get(node).is_some_and(|edit| !edit.blocks.is_empty());
    if !loses || !plan.node(node).flags.has_result() {
        return None;
    }
    let raw = plan.reader.entry_bytes(plan.node(node).entry);
    Session::read(&edited_line(plan, raw, node, &IdMap::identity())).facts.first_prompt
}

/// Returns the line of an entry outside of the tree, with these strings.
fn record_line(kind: &str, members: &[(&str, &str)], ids: &IdMap<'_>) -> Vec<u8> {
    let mut line = format!("{{\"type\":\"{kind}\"").into_bytes();
    for (key, value) in members {
        line.extend_from_slice(format!(",\"{key}\":").as_bytes());
        line.extend(json_string(value));
    }
    line.extend_from_slice(br#","sessionId":"#);
    line.extend_from_slice(ids.quoted_session(b"null"));
    line.extend_from_slice(b"}\n");
    line
}
