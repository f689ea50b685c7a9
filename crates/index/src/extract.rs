//! Collects the texts and rows of the part of a log that is not indexed yet.

use std::io;

use rethread_log::{BlockKind, Defect, Entry, EntryContent, Json, Line, Sink};
use rethread_model::{
    CallId, EntryTexts, Facts, Finding, MessageKey, MessageNo, NodeId, Session, entry_texts,
};
use rustc_hash::FxHashMap;

use crate::catalogue::{CallRow, FileRow, LogRows, StoredCallResult, StoredFinding, StoredMessage};
use crate::names::NameTable;
use crate::state::ReadLog;

/// The texts of one entry, and where it is.
pub(crate) struct FoundTexts<'a> {
    pub(crate) session: &'a Session,
    pub(crate) node: NodeId,
    pub(crate) offset: u64,
    pub(crate) texts: EntryTexts<'a>,
}

/// Passes the texts of the entries from an offset on to `take`, and returns the rows of that part of the log.
pub(crate) fn collect_texts(
    log: &ReadLog,
    from: u64,
    names: &NameTable,
    take: impl FnMut(FoundTexts<'_>),
) -> io::Result<LogRows> {
    let facts = &log.session.facts;
    let mut sink = TextSink {
        session: &log.session,
        from,
        next: 0,
        keys: FxHashMap::default(),
        rows: LogRows::default(),
        take,
    };
    // Reading begins at a line, whose entries before `from` are skipped.
    let start = log.line_before(from)?;
    sink.next = facts.nodes.as_slice().partition_point(|node| facts.locations[node.entry].offset < start);
    log.scan_from(from, &mut sink)?;
    let TextSink { keys, mut rows, .. } = sink;
    rows.add_messages(&log.session, from, &keys, names);
    rows.add_calls(facts, from, names);
    rows.places = log.session.message_places().iter().copied().collect();
    Ok(rows)
}

struct TextSink<'a, F> {
    session: &'a Session,
    from: u64,
    /// The position of the next node.
    next: usize,
    keys: FxHashMap<MessageNo, MessageKey>,
    rows: LogRows,
    take: F,
}

impl<F: FnMut(FoundTexts<'_>)> Sink for TextSink<'_, F> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if entry.content != EntryContent::Object {
            return;
        }
        let facts = &self.session.facts;
        let offset_of =
            |at: usize| facts.nodes.as_slice().get(at).map(|node| facts.locations[node.entry].offset);
        while offset_of(self.next).is_some_and(|offset| offset < entry.offset) {
            self.next += 1;
        }
        if offset_of(self.next) != Some(entry.offset) || entry.offset < self.from {
            return;
        }
        let node = NodeId::from_index(self.next);
        self.rows.add_blocks(facts, node, line, entry.raw);
        let Some(texts) = entry_texts(facts, node, line, entry.raw) else { return };
        if let Some(message) = facts.nodes[node].message() {
            self.keys.entry(message).or_insert(texts.key);
        }
        (self.take)(FoundTexts { session: self.session, node, offset: entry.offset, texts });
    }

    fn defect(&mut self, _: Defect) {}
}

/// Returns the time of a node in milliseconds.
pub(crate) fn millis(facts: &Facts, node: NodeId) -> Option<i64> {
    facts.nodes[node].time.map(rethread_model::Time::millis)
}

/// The tools that read and change files, with what they do. Their input names the file.
const FILE_TOOLS: [(&str, &str); 7] = [
    ("Read", "read"),
    ("NotebookRead", "read"),
    ("Edit", "edit"),
    ("MultiEdit", "edit"),
    ("NotebookEdit", "edit"),
    ("Update", "edit"),
    ("Write", "write"),
];

/// The longest path that is stored.
const MAX_PATH: usize = 4096;

impl LogRows {
    fn add_messages(
        &mut self,
        session: &Session,
        from: u64,
        keys: &FxHashMap<MessageNo, MessageKey>,
        names: &NameTable,
    ) {
        let facts = &session.facts;
        for (n, message) in facts.messages.iter_enumerated() {
            let first = message.first_node;
            let place = facts.location(first);
            if place.offset < from {
                continue;
            }
            self.messages.push(StoredMessage {
                n: n.get(),
                key: keys.get(&n).copied().unwrap_or_else(|| MessageKey::of_textless(facts, first)),
                line: place.line,
                time: millis(facts, first),
                kind: session.message_kind(n),
                model: message.model.map(|model| names.number_of(facts.models.name(model))),
            });
        }
    }

    fn add_calls(&mut self, facts: &Facts, from: u64, names: &NameTable) {
        let files: FxHashMap<u32, String> =
            self.files.iter().rev().map(|file| (file.call_n, file.path.clone())).collect();
        for (call, fact) in facts.calls.iter_enumerated() {
            let place = facts.location(fact.node);
            if place.offset < from {
                continue;
            }
            let n = number(call);
            self.calls.push(CallRow {
                n,
                message_n: facts.nodes[fact.node].message().map_or(0, MessageNo::get),
                line: place.line,
                time: millis(facts, fact.node),
                tool: names.number_of(facts.tools.name(fact.tool)),
                file: files.get(&n).cloned(),
            });
        }
    }

    /// Adds the files that the calls of an entry name, and the results that it contains.
    fn add_blocks(&mut self, facts: &Facts, node: NodeId, line: &Line, raw: &[u8]) {
        for (spans, fact) in line.blocks.iter().zip(facts.blocks_of(node)) {
            let Some(call) = fact.call() else { continue };
            match spans.kind {
                Some(BlockKind::ToolUse) if facts.calls[call].node == node => {
                    let tool = facts.tools.name(facts.calls[call].tool);
                    let Some((_, action)) = FILE_TOOLS.iter().find(|(name, _)| *name == tool) else {
                        continue;
                    };
                    let input = Json::new(spans.input.bytes_in(raw));
                    let named = ["file_path", "notebook_path", "path"].iter().find_map(|key| input.get(key));
                    let path = named.and_then(Json::as_str).filter(|path| path.len() <= MAX_PATH);
                    self.files.extend(path.map(|path| FileRow {
                        call_n: number(call),
                        path: path.into_owned(),
                        action,
                    }));
                }
                Some(BlockKind::ToolResult) if facts.calls[call].first_result() == Some(node) => {
                    let result = StoredCallResult {
                        message_n: facts.nodes[node].message().map_or(0, MessageNo::get),
                        time: millis(facts, node),
                        bytes: spans.content.len() as u64,
                        is_error: spans.is_error.bytes_in(raw) == b"true",
                    };
                    self.results.push((number(call), result));
                }
                _ => {}
            }
        }
    }
}

/// Returns the number of a call in its log, from 1.
fn number(call: CallId) -> u32 {
    u32::try_from(call.index() + 1).unwrap_or(u32::MAX)
}

impl From<Finding> for StoredFinding {
    fn from(finding: Finding) -> Self {
        Self {
            line: finding.line,
            kind: finding.kind.name(),
            severity: finding.severity.name(),
            detail: finding.detail,
        }
    }
}
