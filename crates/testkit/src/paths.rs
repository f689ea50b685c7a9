//! Laws of paths: a path shows what the parent chain of its tip contains.
//!
//! The laws are checked against the log itself, parsed with `serde_json`. The link of the model is used only where
//! an entry names no parent in the file: after a compaction or with a lost parent.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use rethread_model::{
    BlockView, CallId, Client, EntryNo, Link, MessageKind, MessageNo, NodeId, Reader, Session, StepId,
    TranscriptItem, resume,
};
use serde_json::Value;

/// An entry of the tree with the facts that the laws need.
struct GraphEntry {
    /// Its node in the model.
    node: NodeId,
    conversation: bool,
    side: bool,
    message_id: Option<String>,
    calls: Vec<String>,
    results: Vec<String>,
    parent: Option<usize>,
}

impl GraphEntry {
    /// Creates an entry without its parent.
    fn new(node: NodeId, value: &Value) -> Self {
        let role = value["type"].as_str().unwrap_or_default();
        let (user, assistant) = (role == "user", role == "assistant");
        let ids = |kind: &str, key: &str| -> Vec<String> {
            let blocks = value["message"]["content"].as_array().into_iter().flatten();
            let of_kind = blocks.filter(|block| block["type"] == kind);
            of_kind.filter_map(|block| Some(block[key].as_str()?.to_owned())).collect()
        };
        Self {
            node,
            conversation: user || assistant,
            side: value["isSidechain"] == true,
            message_id: value["message"]["id"].as_str().filter(|_| assistant).map(str::to_owned),
            calls: if assistant { ids("tool_use", "id") } else { Vec::new() },
            results: if user { ids("tool_result", "tool_use_id") } else { Vec::new() },
            parent: None,
        }
    }
}

/// Parses the first object in the bytes of an entry.
fn parse(raw: &[u8]) -> Option<Value> {
    let text = String::from_utf8_lossy(raw);
    let start = text.find('{').unwrap_or(0);
    serde_json::Deserializer::from_str(&text[start..]).into_iter().next()?.ok()
}

/// Checks the paths of a log against its parent chains; returns the violations.
pub fn broken_path_laws(bytes: &[u8]) -> Vec<String> {
    let session = Session::read(bytes);
    let reader = Reader::new(&session, bytes);
    let graph = EntryGraph::new(&session, bytes);
    let mut broken = Vec::new();
    let paths = session.paths(Client::NEWEST);
    let leaves = graph.leaves();
    if paths.len() > leaves {
        broken.push(format!("{} paths, but only {leaves} entries without descendants", paths.len()));
    }
    if graph.is_linear() && graph.entries.iter().any(|entry| entry.conversation) {
        if paths.len() != 1 {
            broken.push(format!("{} paths in a log without a fork", paths.len()));
        }
        let shown: usize = paths.iter().map(|path| path.messages as usize).sum();
        if shown != session.facts.messages.len() {
            let all = session.facts.messages.len();
            broken.push(format!("{shown} of {all} messages on the path of a log without a fork"));
        }
    }
    for path in &paths {
        let items = reader.items(path.step);
        broken.extend(
            graph
                .chain_differences(&session, &items, path.tip)
                .map(|what| format!("path {}: {what}", path.n)),
        );
        // Content borrowed from another branch for a copied message is not counted.
        let steps: HashSet<StepId> = session.tree.path_to(path.step).into_iter().collect();
        let own: HashSet<MessageNo> = session
            .facts
            .nodes
            .iter_enumerated()
            .filter(|&(node, _)| session.tree.step(node).is_some_and(|step| steps.contains(&step)))
            .filter_map(|(_, node)| node.message())
            .collect();
        let distinct: BTreeSet<MessageNo> =
            items.iter().filter_map(number).filter(|n| own.contains(n)).collect();
        if distinct.len() != path.messages as usize {
            broken.push(format!(
                "path {}: {} messages shown, {} counted",
                path.n,
                distinct.len(),
                path.messages
            ));
        }
    }
    broken.extend(graph.lost_messages(&session, &reader));
    broken.extend(sent_off_path(&session, &reader));
    broken
}

fn number(item: &TranscriptItem<'_>) -> Option<MessageNo> {
    match item {
        TranscriptItem::Message(message) => Some(message.n),
        TranscriptItem::Note(_) => None,
    }
}

/// Checks that everything the newest client sends is on the active path.
///
/// For a lost parent or a cut cycle, the client searches a replacement among all entries near in time, the tree only
/// among those before it in the file (docs/limits.md).
fn sent_off_path(session: &Session, reader: &Reader<'_>) -> Option<String> {
    if !session.tree.defects.is_empty() {
        return None;
    }
    let resumed = resume(&session.facts, Client::NEWEST);
    let paths = session.paths(Client::NEWEST);
    let path = paths.iter().find(|path| path.active)?;
    let items = reader.items(path.step);
    let shown: HashSet<MessageNo> = items.iter().filter_map(number).collect();
    // Of two results of one call, either may be shown.
    let mut results: HashSet<(CallId, String)> = HashSet::new();
    for item in &items {
        let TranscriptItem::Message(message) = item else { continue };
        let of_call = |block: &BlockView<'_>| Some((block.call?, block.result_text().into_owned()));
        results.extend(message.blocks.iter().filter_map(of_call));
    }
    let is_shown_result = |node: NodeId| {
        let entry = reader.entry_bytes(session.facts.nodes[node].entry);
        let Ok(entry) = serde_json::from_slice::<Value>(entry) else { return false };
        let blocks = entry["message"]["content"].as_array().cloned().unwrap_or_default();
        let calls = session.facts.blocks_of(node).iter().map(rethread_model::Block::call);
        blocks.iter().zip(calls).any(|(block, call)| {
            let text = block["content"].as_str().unwrap_or_default();
            call.is_some_and(|call| results.contains(&(call, text.to_owned())))
        })
    };
    let sent = resumed.messages.iter().flat_map(|sent| &sent.parts).filter_map(|part| part.origin.node());
    let missing = { sent }.find(|&node| {
        let fact = &session.facts.nodes[node];
        let main = !fact.flags.is_sidechain() || session.facts.is_all_sidechain();
        main && fact.message().is_some_and(|message| !shown.contains(&message)) && !is_shown_result(node)
    })?;
    let line = session.facts.location(missing).line;
    Some(format!("line {line} is sent, and is not on the active path {}", path.n))
}

struct EntryGraph {
    entries: Vec<GraphEntry>,
    by_node: HashMap<NodeId, usize>,
    n_children: Vec<usize>,
}

impl EntryGraph {
    fn new(session: &Session, bytes: &[u8]) -> Self {
        let facts = &session.facts;
        let reader = Reader::new(session, bytes);
        let all_side = facts.is_all_sidechain();
        let mut by_uuid: HashMap<String, usize> = HashMap::new();
        let mut entries: Vec<GraphEntry> = Vec::new();
        let mut parents: Vec<Option<String>> = Vec::new();
        let mut duplicates: Vec<(NodeId, usize)> = Vec::new();
        for (node, fact) in facts.nodes.iter_enumerated() {
            let Some(value) = parse(reader.entry_bytes(fact.entry)) else { continue };
            let text = |key: &str| value[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
            let mut entry = GraphEntry::new(node, &value);
            entry.side &= !all_side;
            let boundary = value["type"] == "system" && value["subtype"] == "compact_boundary";
            let parent = text("parentUuid").filter(|_| !boundary);
            match text("uuid").and_then(|uuid| by_uuid.get(&uuid).copied()) {
                // Of two entries with one uuid the later one counts, at the position of the first.
                Some(first) => {
                    duplicates.push((node, first));
                    let node = entries[first].node;
                    entries[first] = GraphEntry { node, ..entry };
                    parents[first] = parent;
                }
                None => {
                    if let Some(uuid) = text("uuid") {
                        by_uuid.insert(uuid, entries.len());
                    }
                    entries.push(entry);
                    parents.push(parent);
                }
            }
        }
        let mut by_node: HashMap<NodeId, usize> =
            entries.iter().enumerate().map(|(i, e)| (e.node, i)).collect();
        by_node.extend(duplicates);
        for i in 0..entries.len() {
            let link = session.tree.links[entries[i].node].target().and_then(|node| by_node.get(&node));
            let named = parents[i].as_ref().and_then(|parent| by_uuid.get(parent));
            // The model cuts cycles and bridges the cut.
            let by_parent = matches!(session.tree.links[entries[i].node], Link::Parent(_) | Link::Logical(_));
            entries[i].parent = named.filter(|_| by_parent).or(link).copied();
        }
        let mut n_children = vec![0; entries.len()];
        for parent in entries.iter().filter_map(|entry| entry.parent) {
            n_children[parent] += 1;
        }
        Self { entries, by_node, n_children }
    }

    /// Counts the user and assistant entries without user and assistant descendants.
    fn leaves(&self) -> usize {
        let mut above = vec![false; self.entries.len()];
        for entry in self.entries.iter().filter(|entry| entry.conversation && !entry.side) {
            let mut at = entry.parent;
            while let Some(parent) = at.filter(|&parent| !above[parent]) {
                above[parent] = true;
                at = self.entries[parent].parent;
            }
        }
        let leaf = |(i, entry): &(usize, &GraphEntry)| entry.conversation && !entry.side && !above[*i];
        self.entries.iter().enumerate().filter(leaf).count()
    }

    fn is_linear(&self) -> bool {
        let roots = self.entries.iter().filter(|entry| entry.parent.is_none()).count();
        roots == 1 && self.n_children.iter().all(|&n| n <= 1) && !self.entries.iter().any(|entry| entry.side)
    }

    fn is_below(&self, entry: usize, is_on_chain: &dyn Fn(usize) -> bool) -> bool {
        let mut at = self.entries[entry].parent;
        while let Some(parent) = at.filter(|&parent| !is_on_chain(parent)) {
            at = self.entries[parent].parent;
        }
        at.is_some()
    }

    /// Returns the chain of parents of an entry, from its root on.
    fn chain_to(&self, entry: Option<usize>) -> Vec<usize> {
        let mut chain: Vec<usize> =
            std::iter::successors(entry, |&entry| self.entries[entry].parent).collect();
        chain.reverse();
        chain
    }

    /// Returns the ids of the calls in messages with these ids and in the entries of a chain.
    fn calls_of(&self, message_ids: &HashSet<&str>, on_chain: &HashSet<usize>) -> HashSet<&str> {
        let included = |entry: &&GraphEntry| {
            entry.message_id.as_deref().is_some_and(|id| message_ids.contains(id))
                || on_chain.contains(&self.by_node[&entry.node])
        };
        let entries = self.entries.iter().filter(included);
        entries.flat_map(|entry| entry.calls.iter().map(String::as_str)).collect()
    }

    /// Compares the entries that a path shows with the chain of its tip.
    fn chain_differences<'g>(
        &'g self,
        session: &'g Session,
        items: &[TranscriptItem<'_>],
        tip: NodeId,
    ) -> impl Iterator<Item = String> + use<'g> {
        let mut broken = Vec::new();
        let line = |entry: usize| session.facts.location(self.entries[entry].node).line;
        let chain = self.chain_to(self.by_node.get(&tip).copied());
        let message_of = |entry: usize| session.facts.nodes[self.entries[entry].node].message();
        let place: HashMap<MessageNo, usize> =
            items.iter().enumerate().rev().filter_map(|(at, item)| Some((number(item)?, at))).collect();
        let on_chain: HashSet<usize> = chain.iter().copied().collect();
        // Everything on the chain is shown, in order.
        let mut last = 0;
        let mut seen = HashSet::new();
        for &entry in
            chain.iter().filter(|&&entry| self.entries[entry].conversation && !self.entries[entry].side)
        {
            let Some(message) = message_of(entry) else { continue };
            let Some(&at) = place.get(&message) else {
                broken.push(format!("line {} is on the chain and not shown", line(entry)));
                continue;
            };
            if self.entries[entry].results.is_empty() && seen.insert(message) {
                if at < last {
                    broken.push(format!("line {} is shown before its ancestor", line(entry)));
                }
                last = at;
            }
        }
        // Everything shown is on the chain, or is a part or a result of an entry on it.
        let ids: HashSet<&str> =
            chain.iter().filter_map(|&e| self.entries[e].message_id.as_deref()).collect();
        let messages: HashSet<MessageNo> = chain.iter().filter_map(|&e| message_of(e)).collect();
        let calls = self.calls_of(&ids, &on_chain);
        let by_number: HashMap<EntryNo, usize> =
            self.by_node.iter().map(|(&node, &i)| (session.facts.nodes[node].entry, i)).collect();
        for item in items {
            let TranscriptItem::Message(message) = item else { continue };
            for entry in message.entries.iter().filter_map(|number| by_number.get(number)).copied() {
                let fact = &self.entries[entry];
                let part = fact.message_id.as_deref().is_some_and(|id| ids.contains(id))
                    || fact.results.iter().any(|id| calls.contains(id.as_str()))
                    || message_of(entry).is_some_and(|message| messages.contains(&message))
                    // A queued prompt off the chain belongs to the turn that it was attached to.
                    || !fact.conversation && self.is_below(entry, &|above| {
                        on_chain.contains(&above) || message_of(above).is_some_and(|m| messages.contains(&m))
                    });
                if !on_chain.contains(&entry) && !part {
                    broken.push(format!("line {} is shown and not on the chain", line(entry)));
                }
            }
        }
        broken.into_iter()
    }

    /// Finds messages that are on no path although their branch has content.
    fn lost_messages(&self, session: &Session, reader: &Reader<'_>) -> Vec<String> {
        let mut kinds: BTreeMap<MessageNo, MessageKind> = BTreeMap::new();
        for path in session.paths(Client::NEWEST) {
            for item in reader.items(path.step) {
                if let TranscriptItem::Message(message) = item {
                    kinds.insert(message.n, message.kind);
                }
            }
        }
        let off_path: HashSet<NodeId> = session.off_path_nodes().into_iter().collect();
        let mut broken = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.conversation && !entry.side) {
            let Some(message) = session.facts.nodes[entry.node].message() else { continue };
            let has_content = entry.message_id.is_some()
                && !session.facts.nodes[entry.node].flags.is_synthetic()
                || session.facts.nodes[entry.node].flags.is_prompt();
            let line = session.facts.location(entry.node).line;
            if !kinds.contains_key(&message) && (has_content || !off_path.contains(&entry.node)) {
                broken.push(format!("line {line} is on no path"));
            }
        }
        broken
    }
}
