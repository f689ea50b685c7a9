//! Outlines of sessions.

use std::io;
use std::path::PathBuf;

use rethread_model::{
    BlockView, CallId, Client, MessageNo, MessageView, NodeId, OutlineItem, OutlineItemKind, OutlinedPath,
    PathIndex, SessionOutline, StepId, StepNodes, StepStream, Table, TranscriptItem, collapse_whitespace,
};
use rustc_hash::FxHashMap;

use crate::library::{Library, LogSource};
use crate::session::LoadedSession;
use crate::transcript::TranscriptError;

impl Library {
    /// Returns the skeleton of a session: its prompts, compactions, forks and subagents on all paths, or all of those on
    /// path `only`.
    ///
    /// ```
    /// # let library = rethread::Library::demo();
    /// let outline = library.outline(&library.find_one("0000d001")?, None)?;
    /// assert_eq!(outline.paths.len(), 3);
    /// assert_eq!(outline.prompts(), 6, "each prompt occurs once");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn outline(
        &self,
        source: &LogSource,
        only: Option<usize>,
    ) -> Result<SessionOutline, TranscriptError> {
        let loaded = self.load(source)?;
        let summaries: Table<PathIndex, _> = loaded.tree(Client::NEWEST).into();
        let paths: Vec<_> = summaries.iter().map(|summary| summary.path.clone()).collect();
        let forks = loaded.session.branch_points(&paths);
        let mut order: Vec<PathIndex> =
            summaries.keys().filter(|&path| only.is_none_or(|n| n == summaries[path].n)).collect();
        if let Some(n) = only.filter(|_| order.is_empty()) {
            return Err(TranscriptError::NoPath { n, paths: summaries.len() });
        }
        order.sort_by_key(|&path| !summaries[path].path.main);
        let builder = OutlineBuilder::new(&loaded);
        let mut forks_of: FxHashMap<PathIndex, Vec<PathIndex>> = FxHashMap::default();
        for path in summaries.keys() {
            if let Some(fork) = forks[path] {
                forks_of.entry(fork.other_path).or_default().push(path);
            }
        }
        let mut outlined = Vec::new();
        for path in order {
            let (summary, fork) = (summaries[path].clone(), forks[path]);
            let after = fork.map(|fork| fork.step).filter(|_| only.is_none());
            let mut items = builder
                .items(summary.path.step, after)
                .map_err(|error| TranscriptError::Session(source.error(error)))?;
            for &other in forks_of.get(&path).into_iter().flatten() {
                items.extend(
                    builder.fork_item(summaries[other].n, forks[other].and_then(|fork| fork.message)),
                );
            }
            items.sort_by_key(|(position, _)| *position);
            outlined.push(OutlinedPath {
                summary,
                fork: fork.map(|fork| (summaries[fork.other_path].n, fork.message)),
                items: items.into_iter().map(|(_, item)| item).collect(),
            });
        }
        let title = self.title(&loaded).text;
        Ok(SessionOutline { session: loaded.source.id(), title, paths: outlined })
    }
}

/// An item, and the line that determines its place.
type PlacedItem = (u32, OutlineItem);

/// Collects the items of the paths of a session.
struct OutlineBuilder<'a> {
    loaded: &'a LoadedSession,
    layout: StepNodes,
    /// The calls that started subagents, by step.
    subagents: FxHashMap<StepId, Vec<(CallId, Option<PathBuf>)>>,
}

impl<'a> OutlineBuilder<'a> {
    fn new(loaded: &'a LoadedSession) -> Self {
        let (facts, tree) = (&loaded.session.facts, &loaded.session.tree);
        let mut subagents: FxHashMap<StepId, Vec<_>> = FxHashMap::default();
        for subagent in loaded.subagents() {
            let Some(call) = subagent.call else { continue };
            if let Some(step) = tree.step(facts.calls[call].node) {
                subagents.entry(step).or_default().push((call, subagent.path));
            }
        }
        Self { loaded, layout: StepNodes::new(&loaded.session), subagents }
    }

    /// Returns the prompts, compactions and subagents on the path to a step, after another one.
    fn items(&self, step: StepId, after: Option<StepId>) -> io::Result<Vec<PlacedItem>> {
        let session = &self.loaded.session;
        let mut items: Vec<PlacedItem> = Vec::new();
        StepStream::to_step(session, &self.layout, self.loaded, (step, after), false).for_each_prompt(
            |item| {
                let item = match item {
                    TranscriptItem::Message(message) => self.prompt_item(message),
                    TranscriptItem::Note(note) => OutlineItem {
                        message: None,
                        line: note.line,
                        time: note.time,
                        kind: OutlineItemKind::Compaction,
                    },
                };
                // An entry may be before its parent in the log.
                let position = items.last().map_or(0, |(position, _)| *position).max(item.line);
                items.push((position, item));
                true
            },
        )?;
        let facts = &session.facts;
        let own_steps = session.tree.ancestors(step).take_while(|&at| Some(at) != after);
        for (call, log) in own_steps.filter_map(|step| self.subagents.get(&step)).flatten() {
            let node = facts.calls[*call].node;
            let kind = OutlineItemKind::Subagent { log: log.clone() };
            items.push(self.item_at(node, facts.nodes[node].message(), kind));
        }
        Ok(items)
    }

    fn prompt_item(&self, message: &MessageView<'_>) -> OutlineItem {
        let texts: Vec<_> = message.blocks.iter().map(BlockView::readable).collect();
        let text = collapse_whitespace(&texts.join(" "));
        OutlineItem {
            message: Some(message.n),
            line: message.line,
            time: message.time,
            kind: OutlineItemKind::Prompt {
                key: self.loaded.reader().anchor_of(message.n),
                chars: text.chars().count(),
                text: text.chars().take(OutlineItemKind::MAX_TEXT).collect(),
            },
        }
    }

    /// Returns the item for the beginning of another path after a message.
    fn fork_item(&self, path: usize, message: Option<MessageNo>) -> Option<PlacedItem> {
        let node = self.loaded.session.facts.messages[message?].first_node;
        Some(self.item_at(node, message, OutlineItemKind::Fork { path }))
    }

    fn item_at(&self, node: NodeId, message: Option<MessageNo>, kind: OutlineItemKind) -> PlacedItem {
        let facts = &self.loaded.session.facts;
        let line = facts.location(node).line;
        (line, OutlineItem { message, line, time: facts.nodes[node].time, kind })
    }
}
