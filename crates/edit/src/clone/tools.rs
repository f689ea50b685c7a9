//! Tool calls taken out or shortened: the call, its result and the client's copy of that together.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{Block, Role, Sort};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Making;
use super::select::Selection;
use crate::plan::{BlockEdit, CopyEdit, Edit};
use crate::shorten::{COPY, PartCut};
use crate::source::Source;

/// What becomes of tool calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tools {
    /// Remove calls of these tools, or of all if none is named. A name may end in `*`.
    pub strip: Option<Vec<String>>,
    /// The last so many turns that have calls keep them as they are.
    pub keep: Option<usize>,
    /// Shorten strings of more characters than this, in calls that are not removed.
    pub shorten: Option<usize>,
}

impl Tools {
    /// Tells whether anything is asked for.
    pub fn any(&self) -> bool {
        self.strip.is_some() || self.keep.is_some() || self.shorten.is_some()
    }

    /// What becomes of a call outside of the turns that are kept.
    fn fate(&self, name: &str) -> Fate {
        let fits = |wanted: &String| fits(wanted, name);
        // To keep some means to remove the others, unless they are to be shortened.
        let all = self.strip.is_none() && self.keep.is_some() && self.shorten.is_none();
        let named = self.strip.as_ref().is_some_and(|names| names.is_empty() || names.iter().any(fits));
        match (all || named, self.shorten) {
            (true, _) => Fate::Strip,
            (false, Some(_)) => Fate::Shorten,
            (false, None) => Fate::Keep,
        }
    }
}

/// Tells whether a tool is meant by a name, which may end in `*`.
fn fits(wanted: &str, name: &str) -> bool {
    wanted.strip_suffix('*').map_or(name == wanted, |start| name.starts_with(start))
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Fate {
    #[default]
    Keep,
    Shorten,
    Strip,
}

/// The ids of calls that are not as they were.
pub(super) struct Ids<'f>(FxHashSet<&'f str>);

impl Ids<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether an entry outside of the tree names one of them.
    pub(super) fn named_in(&self, raw: &[u8]) -> bool {
        // Ids are made of these; what stands between others is looked up.
        let parts = |b: &u8| !(b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':'));
        raw.split(parts).any(|id| std::str::from_utf8(id).is_ok_and(|id| self.0.contains(id)))
    }
}

impl<'a> Making<'_, 'a> {
    /// Takes calls out, or shortens them.
    pub(super) fn edit_tools(&mut self, selection: &Selection) {
        let tools = &self.recipe.tools;
        if !tools.any() {
            return;
        }
        let session = &self.source.session;
        let facts = &session.facts;
        let prompts = session.prompts_of_steps();
        let turn = |node: usize| session.tree.step(node).and_then(|step| prompts[step]);
        let kept = self.turns_kept(&selection.path, turn);
        let fate_at = |node: usize, name: &str| match kept.contains(&turn(node)) {
            true => Fate::Keep,
            false => tools.fate(name),
        };
        let inline = self.calls_of_side_entries();
        let at_call = |node: usize| inline.get(&node).copied().unwrap_or(node);
        let fates: Vec<Fate> = facts
            .calls
            .iter()
            .map(|call| fate_at(at_call(call.node as usize), facts.tools.name(call.tool)))
            .collect();
        self.cloned.spared =
            facts.calls.iter().map(|call| kept.contains(&turn(at_call(call.node as usize)))).collect();
        let called = |wanted: &&String| facts.tools.iter().any(|(name, _)| fits(wanted, name));
        let named = tools.strip.iter().flatten();
        self.cloned.unknown_tools = named.filter(|name| !called(name)).cloned().collect();
        let strips_all = |node: usize| fate_at(at_call(node), "") == Fate::Strip;
        let served = self.served(fate_at);
        let plan = &*self.plan;
        let wanted = |node: &usize| !plan.is_dropped(*node) && facts.nodes[*node].is_conversation();
        let nodes: Vec<usize> = (0..facts.nodes.len()).filter(wanted).collect();
        let fate = |node: usize, block: &Block| match (block.sort, block.call()) {
            (Sort::Call | Sort::Result, Some(call)) => fates.get(call).copied().unwrap_or_default(),
            (Sort::Call | Sort::Result, None) if strips_all(node) => Fate::Strip,
            (Sort::ServerCall | Sort::ServerResult, Some(id)) => {
                served.get(&id).copied().filter(|&fate| fate == Fate::Strip).unwrap_or_default()
            }
            _ => Fate::Keep,
        };
        self.plan.shorts.limit = tools.shorten.unwrap_or(0);
        let mut of_blocks = Vec::new();
        for node in nodes {
            of_blocks.clear();
            of_blocks.extend(facts.blocks_of(node).iter().map(|block| fate(node, block)));
            if of_blocks.iter().all(|&fate| fate == Fate::Keep) {
                continue;
            }
            if of_blocks.iter().all(|&fate| fate == Fate::Strip) {
                self.plan.drop_asked(node);
                self.touched.push(node);
                continue;
            }
            self.shorten(node, &of_blocks);
            let changed = self.plan.changes_blocks(node);
            if let Some(edit) = edit_of(self.source, node, &of_blocks, changed) {
                self.plan.edits.set(node, edit);
            }
            if self.plan.changes_blocks(node) {
                self.touched.push(node);
            }
        }
        let stripped = |fate: &&Fate| **fate == Fate::Strip;
        let n_stripped = match selection.single {
            true => self.stripped_on(&selection.way, &fates),
            false => fates.iter().filter(stripped).count() as u64,
        };
        self.cloned.counts.calls = n_stripped + served.values().filter(stripped).count() as u64;
        self.cloned.counts.shortened = self.shortened(&fates);
        self.cloned.fates = fates;
        self.drop_belongings();
    }

    /// Cuts long strings of calls and results with these fates, and of the client's copy of them.
    fn shorten(&mut self, node: usize, fates: &[Fate]) {
        let limit = self.recipe.tools.shorten.filter(|_| fates.contains(&Fate::Shorten));
        let Some(limit) = limit else { return };
        let copy = fate_of_copy(self.source, node, fates);
        let is_shorter = |cut: &PartCut| match cut.part {
            COPY => copy == Fate::Shorten,
            block => fates.get(block as usize) == Some(&Fate::Shorten),
        };
        let cuts = self.source.cuts(self.plan.node(node).entry, limit);
        let mut cuts = cuts.iter().map(|(_, cut)| *cut).filter(is_shorter).peekable();
        if cuts.peek().is_some() {
            self.plan.shorts.add(node, self.plan.facts.nodes.len(), cuts);
        }
    }

    fn stripped_on(&self, way: &[usize], fates: &[Fate]) -> u64 {
        let facts = self.plan.facts;
        let calls = way.iter().flat_map(|&node| facts.blocks_of(node).iter());
        let calls = calls.filter(|block| block.sort == Sort::Call).filter_map(Block::call);
        let stripped: FxHashSet<usize> = calls.filter(|&call| fates[call] == Fate::Strip).collect();
        stripped.len() as u64
    }

    /// Counts calls of which anything is shorter now.
    fn shortened(&self, fates: &[Fate]) -> u64 {
        let facts = self.plan.facts;
        let mut shorter = vec![false; facts.calls.len()];
        for node in 0..facts.nodes.len() {
            let cuts = self.plan.shorts.of(node);
            let cut = |part: u32| cuts.binary_search_by_key(&part, |cut| cut.part).is_ok();
            let blocks = if cuts.is_empty() { &[] } else { facts.blocks_of(node) };
            for (at, block) in (0..).zip(blocks) {
                let changed = cut(at) || cut(COPY) && block.sort == Sort::Result;
                let fits = |call: &usize| changed && fates.get(*call) == Some(&Fate::Shorten);
                if let Some(call) = block.call().filter(fits) {
                    shorter[call] = true;
                }
            }
        }
        shorter.into_iter().filter(|&shorter| shorter).count() as u64
    }

    /// The prompts of the last turns that have calls, which stay as they are.
    fn turns_kept(&self, way: &[usize], turn: impl Fn(usize) -> Option<usize>) -> FxHashSet<Option<usize>> {
        let mut kept = FxHashSet::default();
        let n = self.recipe.tools.keep.unwrap_or(0);
        for &node in way.iter().rev() {
            let calls = |block: &Block| matches!(block.sort, Sort::Call | Sort::ServerCall);
            if kept.len() >= n && !kept.contains(&turn(node)) {
                break;
            }
            if self.plan.facts.blocks_of(node).iter().any(calls) {
                kept.insert(turn(node));
            }
        }
        kept
    }

    /// For entries of subagents in this file the entry that called them.
    fn calls_of_side_entries(&self) -> FxHashMap<usize, usize> {
        let session = &self.source.session;
        let callers: FxHashMap<usize, usize> = session
            .subagents()
            .into_iter()
            .filter_map(|agent| Some((agent.root, session.facts.calls[agent.call?].node as usize)))
            .collect();
        if callers.is_empty() {
            return FxHashMap::default();
        }
        let roots = session.side_roots();
        let caller = |node: usize| {
            let root = roots[session.tree.step(node)?]? as usize;
            callers.get(&session.tree.first_entry(root)).copied()
        };
        let side = (0..session.facts.nodes.len()).filter(|&n| session.facts.nodes[n].flags.is_sidechain());
        side.filter_map(|node| Some((node, caller(node)?))).collect()
    }

    /// What becomes of calls that the API itself answered, by what their ids hash to.
    fn served(&self, fate_at: impl Fn(usize, &str) -> Fate) -> FxHashMap<usize, Fate> {
        let facts = self.plan.facts;
        let mut fates = FxHashMap::default();
        let mut line = Line::default();
        for node in 0..facts.nodes.len() {
            let calls = |block: &Block| block.sort == Sort::ServerCall;
            if !facts.blocks_of(node).iter().any(calls) || self.plan.is_dropped(node) {
                continue;
            }
            let raw = self.plan.reader.entry(facts.nodes[node].entry);
            parse_entry(raw, &mut line);
            for (block, spans) in facts.blocks_of(node).iter().zip(&line.blocks) {
                if let Some(id) = block.call().filter(|_| calls(block)) {
                    let name = Json::new(spans.name.of(raw)).as_str().unwrap_or_default();
                    fates.insert(id, fate_at(node, &name));
                }
            }
        }
        fates
    }

    /// Drops what says something about a call that is gone: hooks, notes, what the client put in.
    fn drop_belongings(&mut self) {
        let removed = self.ids_with(|fate| fate == Fate::Strip);
        if removed.0.is_empty() {
            return;
        }
        let facts = self.plan.facts;
        let mut line = Line::default();
        for node in 0..facts.nodes.len() {
            let fact = &facts.nodes[node];
            let note = !fact.is_conversation() || fact.role == Role::User && !fact.flags.has_result();
            if !note || self.plan.is_dropped(node) {
                continue;
            }
            if !self.source.notes[fact.entry as usize - 1].names_call {
                continue;
            }
            let raw = self.plan.reader.entry(fact.entry);
            parse_entry(raw, &mut line);
            let nested = Json::new(line.field(Key::Attachment).of(raw)).get("toolUseID");
            let ids = [Key::ToolUseId, Key::SourceToolUseId, Key::ParentToolUseId]
                .into_iter()
                .map(|key| Json::new(line.field(key).of(raw)))
                .chain(nested);
            if ids.filter_map(Json::as_str).any(|id| removed.0.contains(&*id)) {
                self.plan.drop_asked(node);
            }
        }
        self.drop_attached_media();
    }

    /// Drops pictures and documents that a call gave beside its result: clients send them in a hidden entry behind
    /// it, which names no call.
    fn drop_attached_media(&mut self) {
        let facts = self.plan.facts;
        let stripped = |call: usize| self.cloned.fates.get(call) == Some(&Fate::Strip);
        let mut gone = FxHashSet::default();
        for (node, fact) in facts.nodes.iter().enumerate() {
            let blocks = facts.blocks_of(node);
            let media = |block: &Block| block.sort == Sort::Media;
            if fact.role != Role::User || !fact.flags.is_meta() || !blocks.iter().any(media) {
                continue;
            }
            let Some(above) = facts.parent_of(node) else { continue };
            let mut results = facts.blocks_of(above).iter().filter(|block| block.sort == Sort::Result);
            // One file may be several entries.
            let of_stripped = results.next().is_some_and(|first| {
                [first].into_iter().chain(results).all(|block| block.call().is_some_and(stripped))
            });
            if of_stripped || gone.contains(&above) {
                gone.insert(node);
            }
        }
        for node in gone {
            self.plan.drop_asked(node);
        }
    }

    fn ids_with(&self, wanted: impl Fn(Fate) -> bool) -> Ids<'a> {
        let facts = self.plan.facts;
        let calls = facts.calls.iter().zip(&self.cloned.fates);
        Ids(calls.filter(|&(_, &fate)| wanted(fate)).map(|(call, _)| facts.call_id(call)).collect())
    }

    /// The ids of calls that are gone or not as they were.
    pub(super) fn removed_ids(&self) -> Ids<'a> {
        let mut ids = self.ids_with(|fate| fate != Fate::Keep);
        let facts = self.plan.facts;
        let gone = facts.calls.iter().filter(|call| self.plan.is_dropped(call.node as usize));
        ids.0.extend(gone.map(|call| facts.call_id(call)));
        ids
    }

    /// Entries of subagents in this file stay with the calls that started them.
    pub(super) fn keep_side_entries(&mut self, selection: &Selection) {
        let session = &self.source.session;
        let facts = &session.facts;
        if facts.all_sidechain() || !facts.nodes.iter().any(|node| node.flags.is_sidechain()) {
            return;
        }
        let on_way = self.plan.on_way();
        let mut kept: FxHashMap<usize, bool> = FxHashMap::default();
        for agent in session.subagents() {
            let keeps = match agent.call {
                Some(call) => {
                    let stripped = self.cloned.fates.get(call) == Some(&Fate::Strip);
                    !stripped && !self.plan.is_dropped(facts.calls[call].node as usize)
                }
                None => !selection.single,
            };
            kept.insert(agent.root, keeps);
        }
        let roots = session.side_roots();
        for (node, fact) in facts.nodes.iter().enumerate() {
            if !fact.flags.is_sidechain() || on_way[node] {
                continue;
            }
            let root = session.tree.step(node).and_then(|step| roots[step]);
            let root = root.map(|root| session.tree.first_entry(root as usize));
            if !root.and_then(|root| kept.get(&root).copied()).unwrap_or(!selection.single) {
                self.plan.drop_asked(node);
            }
        }
    }
}

/// What changes of an entry when calls or results of it go; `changed` tells whether others are shorter.
fn edit_of(source: &Source<'_>, node: usize, fates: &[Fate], changed: bool) -> Option<Box<Edit>> {
    let number = source.session.facts.nodes[node].entry;
    let strips = fates.contains(&Fate::Strip);
    let wired = (strips || changed) && source.notes[number as usize - 1].has_wire_inputs;
    if !strips && !wired {
        return None;
    }
    let mut edit = Box::<Edit>::default();
    for (at, _) in fates.iter().enumerate().filter(|&(_, &fate)| fate == Fate::Strip) {
        edit.blocks.insert(at, BlockEdit::Remove);
    }
    if fate_of_copy(source, node, fates) == Fate::Strip {
        edit.copy = Some(CopyEdit::Remove);
        edit.without.push(Key::SourceToolAssistantUuid);
    }
    if wired {
        edit.without.push(Key::WireToolInputs);
    }
    Some(edit)
}

/// What becomes of the client's copy of results: what becomes of the one of them that fares worst.
fn fate_of_copy(source: &Source<'_>, node: usize, fates: &[Fate]) -> Fate {
    let blocks = source.session.facts.blocks_of(node).iter().zip(fates);
    let results = blocks.filter(|(block, _)| block.sort == Sort::Result);
    results.map(|(_, &fate)| fate).max().unwrap_or_default()
}
