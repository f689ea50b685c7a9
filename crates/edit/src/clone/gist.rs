//! What a clone comes to.
//!
//! Most clones are one line, and what is in it is known before it is written: all but what its lines
//! weigh. All others are read again for it.

use rethread_log::{Kind, Line, parse_entry};
use rethread_model::{Block, Bytes, Client, Finding, Session, Straight, Time};

use super::context::{context, measured, recorded, recorded_in};
use super::{Cloned, Context, Out};
use crate::plan::{BlockEdit, CopyEdit, Edit, Item, Plan};
use crate::shorten::PartCut;

/// What is said of a session when it is listed, or after it was made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Gist {
    /// Distinct prompts.
    pub turns: usize,
    /// Messages of both sides.
    pub messages: usize,
    /// Bytes by what they hold.
    pub bytes: Bytes,
    /// What a client sends of it.
    pub context: Context,
    /// The first prompt that somebody typed.
    pub first_prompt: Option<String>,
    /// The earliest and the latest time of any entry.
    pub span: Option<(Time, Time)>,
    /// Working directories, each where it is first named.
    pub cwds: Vec<String>,
    /// Git branches, each where it is first named.
    pub branches: Vec<String>,
}

impl Gist {
    /// Sums a session up.
    pub fn of(session: &Session) -> Self {
        let facts = &session.facts;
        let names = |names: &rethread_model::Names| names.iter().map(|(name, _)| name.to_owned()).collect();
        Self {
            turns: session.turns(),
            messages: facts.messages.len(),
            bytes: facts.bytes,
            context: context(session),
            first_prompt: facts.first_prompt.clone(),
            span: facts.span,
            cwds: names(&facts.cwds),
            branches: names(&facts.branches),
        }
    }
}

impl Cloned<'_> {
    /// Sums the clone up before it is written, but for what its lines weigh, with what clients would be
    /// refused of it; nothing if it is not one line.
    pub(super) fn foreseen(&self) -> Option<(Gist, Vec<Finding>)> {
        let plan = self.plan.as_ref()?;
        let facts = plan.facts;
        if !plan.new.is_empty() || !facts.defects.is_empty() {
            return None;
        }
        let rows = rows_of(plan)?;
        let hangs = |node: usize, on: Option<usize>| match plan.new_parent(node) {
            Some(parent) => parent == on.map(Item::Old),
            None => facts.nodes[node].parent == on.map_or_else(Default::default, |on| facts.nodes[on].uid),
        };
        let blocks = |node: usize| left(plan, node);
        let line = Straight::of(facts, rows.iter().copied(), hangs, blocks)?;
        let harm = line.harm(&Client::ALL)?;
        if !self.ends_are_plain(&rows, line.start) {
            return None;
        }
        let cut_short = cut_short(plan);
        let recorded = |node: usize| {
            if let Some(usage) = plan.edits.get(node).and_then(|edit| edit.usage.as_deref()) {
                return recorded_in(usage);
            }
            let tokens = recorded(facts, node)?;
            if !cut_short[facts.nodes[node].message()?] {
                return Some(tokens);
            }
            let (raw, mut line) = (plan.reader.entry(facts.nodes[node].entry), Line::default());
            parse_entry(raw, &mut line);
            recorded_in(line.message?.usage.of(raw))
        };
        let human = |node: &&usize| facts.nodes[**node].flags.is_human();
        let times = || rows.iter().map(|&node| facts.nodes[node].time);
        let gist = Gist {
            turns: rows.iter().filter(human).count(),
            messages: line.messages,
            bytes: Bytes::default(),
            context: measured(facts, &rows[line.start..], blocks, recorded),
            first_prompt: { rows.iter().filter(human) }
                .map(|&node| plan.reader.words(node))
                .find(|words| !words.is_empty()),
            span: times().min().zip(times().max()),
            cwds: self.named(|note| note.cwd, &facts.cwds),
            branches: self.named(|note| note.branch, &facts.branches),
        };
        Some((gist, harm))
    }

    /// Names of the source that stand in the clone, each where it is first named.
    fn named(
        &self,
        name_in: impl Fn(&crate::source::Note) -> u16,
        names: &rethread_model::Names,
    ) -> Vec<String> {
        let mut seen = vec![false; names.n_names()];
        let mut found = Vec::new();
        for out in &self.order {
            let Out::Entry(number, _) = *out else { continue };
            let name = name_in(&self.source.notes[number as usize - 1]);
            if seen.get(usize::from(name)) == Some(&false) {
                seen[usize::from(name)] = true;
                found.push(names.name(name).to_owned());
            }
        }
        found
    }

    /// Tells whether all that the clone says of where the conversation stands is what every client finds
    /// itself.
    fn ends_are_plain(&self, rows: &[usize], start: usize) -> bool {
        let facts = &self.source.session.facts;
        let ends = |number: u32| self.source.notes[number as usize - 1].kind == Some(Kind::LastPrompt);
        let mut kept = self.order.iter().filter_map(|out| match *out {
            Out::Entry(number, None) if ends(number) => Some(number),
            _ => None,
        });
        let mut next = kept.next();
        if next.is_none() {
            return true;
        }
        let all = (1..).zip(&self.source.notes).filter(|&(number, _)| ends(number)).map(|(number, _)| number);
        for (number, end) in all.zip(&facts.checkpoints) {
            if next != Some(number) {
                continue;
            }
            next = kept.next();
            let place = |leaf| {
                let leaf = facts.node_of(self.names.moved_to(leaf))?;
                rows.binary_search(&leaf).ok()
            };
            let on_line = end.leaf.is_none_or(|leaf| place(leaf).is_some_and(|place| place >= start));
            let over = start > 0 && end.after as usize <= rows[start];
            if !end.is_plain() || !(on_line || over) {
                return false;
            }
        }
        next.is_none()
    }
}

/// The entries of a clone in their order, if they are all on the way, stand as they stood, and nothing
/// happens to any but that parts of it go.
fn rows_of(plan: &Plan<'_>) -> Option<Vec<usize>> {
    let mut rows = Vec::with_capacity(plan.way.len());
    for item in &plan.way {
        let Item::Old(node) = *item else { return None };
        if plan.is_dropped(node) {
            continue;
        }
        let after = rows.last().is_none_or(|&last| last < node);
        if !after || !plan.edits.get(node).is_none_or(only_less) || is_picture_cut(plan, node) {
            return None;
        }
        rows.push(node);
    }
    let n_kept = (0..plan.facts.nodes.len()).filter(|&node| !plan.is_dropped(node)).count();
    (n_kept == rows.len()).then_some(rows)
}

/// For each message whether its last entry goes, which says what it cost.
fn cut_short(plan: &Plan<'_>) -> Vec<bool> {
    let mut cut_short = vec![false; plan.facts.messages.len()];
    for (node, fact) in plan.facts.nodes.iter().enumerate() {
        if let Some(message) = fact.message() {
            cut_short[message] = plan.is_dropped(node);
        }
    }
    cut_short
}

/// Tells whether an entry only loses blocks, parts of texts, or what is not sent.
fn only_less(edit: &Edit) -> bool {
    let Edit {
        follows,
        uuid,
        time,
        model,
        content,
        blocks,
        replaced_by,
        copy,
        meta,
        without: _,
        usage: _,
        compaction,
    } = edit;
    let other = follows.is_some()
        || uuid.is_some()
        || time.is_some()
        || model.is_some()
        || content.is_some()
        || replaced_by.is_some()
        || matches!(copy, Some(CopyEdit::Null))
        || *meta
        || compaction.is_some();
    !other && blocks.values().all(|edit| matches!(edit, BlockEdit::Remove))
}

/// Tells whether anything is cut out of a block with a picture: how much of what is left is one is not known.
fn is_picture_cut(plan: &Plan<'_>, node: usize) -> bool {
    let blocks = plan.facts.blocks_of(node);
    let pictured = |cut: &PartCut| blocks.get(cut.part as usize).is_some_and(|block| block.media > 0);
    plan.shorts.of(node).iter().any(pictured)
}

/// The blocks that an entry will have.
fn left<'p>(plan: &'p Plan<'_>, node: usize) -> impl Iterator<Item = Block> + 'p {
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
