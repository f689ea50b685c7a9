//! A plan made into bytes, line by line.

use rethread_log::{Content, Entry, read};
use rethread_model::Kind;
use rustc_hash::FxHashMap;

use super::Change;
use crate::ids::Names;
use crate::plan::{Item, NewKind, Plan, checkpoint, edited, spell};

/// The bytes that a plan gives.
pub(super) struct Assembly {
    pub(super) changes: Vec<Change>,
    pub(super) bytes: Vec<u8>,
    /// The line of the source that each line comes from.
    pub(super) sources: Vec<u32>,
    /// How many bytes the lines in `sources` have.
    counted: usize,
}

impl Assembly {
    pub(super) fn new(source: &[u8], plan: &Plan<'_>) -> Self {
        let entries = read(source).entries;
        let names = Names::same();
        let added = added_behind(plan);
        let node_of: FxHashMap<u32, usize> =
            plan.facts.nodes.iter().enumerate().map(|(node, fact)| (fact.entry, node)).collect();
        let bytes = Vec::with_capacity(source.len() + 4096);
        let mut out = Self { changes: Vec::new(), bytes, sources: Vec::new(), counted: 0 };
        for entry in &entries {
            let node = node_of.get(&entry.number).copied().filter(|_| entry.number > 0);
            match node.filter(|&node| !plan.is_same(node)) {
                Some(node) if plan.is_dropped(node) => {
                    out.dropped(entry, plan.why(node).unwrap_or(Kind::Incomplete));
                }
                Some(node) => {
                    let raw = plan.reader.entry(plan.facts.nodes[plan.content_node(node)].entry);
                    let line = edited(plan, raw, node, &names);
                    out.object(entry, &line, plan.why(node).unwrap_or(Kind::Incomplete));
                }
                None => out.untouched(entry),
            }
            for new in node.and_then(|node| added.get(&node)).into_iter().flatten() {
                out.end_line();
                let mut lines = Vec::new();
                spell(plan, &plan.new[*new], &names, &mut lines);
                if matches!(plan.new[*new].kind, NewKind::End | NewKind::NoReply) {
                    lines.extend(checkpoint(plan, &plan.new[*new]));
                }
                let why = plan.new[*new].why;
                for line in lines.split_inclusive(|&b| b == b'\n') {
                    let (before, after) = (None, Some(line.to_vec()));
                    out.changes.push(Change { line: entry.line, why, before, after });
                }
                out.bytes.extend_from_slice(&lines);
            }
            out.count_lines(entry.line);
        }
        out.end_file(&entries);
        out.count_lines(entries.last().map_or(1, |entry| entry.line));
        out
    }

    fn count_lines(&mut self, source: u32) {
        let n = self.bytes[self.counted..].iter().filter(|&&b| b == b'\n').count();
        self.sources.extend(std::iter::repeat_n(source, n));
        self.counted = self.bytes.len();
    }

    /// Whatever stands before must not run into what follows.
    fn end_line(&mut self) {
        if self.bytes.last().is_some_and(|&b| b != b'\n') {
            self.bytes.push(b'\n');
        }
    }

    fn dropped(&mut self, entry: &Entry<'_>, why: Kind) {
        let before = Some(entry.raw.to_vec());
        self.changes.push(Change { line: entry.line, why, before, after: None });
        // The end of its line stays with what stands before it on the same line.
        if entry.behind {
            self.end_line();
        }
    }

    /// An object with a line of its own.
    fn object(&mut self, entry: &Entry<'_>, line: &[u8], why: Kind) {
        let cut = own_line(line);
        let before = own_line(entry.raw);
        self.end_line();
        self.bytes.extend_from_slice(cut);
        if entry.before || entry.raw.ends_with(b"\n") {
            self.end_line();
        }
        if cut != before {
            let (before, after) = (Some(before.to_vec()), Some(cut.to_vec()));
            self.changes.push(Change { line: entry.line, why, before, after });
        } else if entry.behind || entry.before {
            self.told_apart(entry);
        }
    }

    fn told_apart(&mut self, entry: &Entry<'_>) {
        let (before, after) = (Some(entry.raw.to_vec()), Some(own_line(entry.raw).to_vec()));
        self.changes.push(Change { line: entry.line, why: Kind::SeveralObjects, before, after });
    }

    fn untouched(&mut self, entry: &Entry<'_>) {
        match entry.content {
            Content::Object if entry.behind || entry.before => {
                let line = entry.raw.to_vec();
                self.object(entry, &line, Kind::SeveralObjects);
            }
            Content::Object if entry.raw.starts_with(MARK) => {
                self.bytes.extend_from_slice(&entry.raw[MARK.len()..]);
                let (before, after) = (Some(entry.raw.to_vec()), Some(entry.raw[MARK.len()..].to_vec()));
                self.changes.push(Change { line: 1, why: Kind::ByteOrderMark, before, after });
            }
            Content::Value if entry.raw.trim_ascii() == b"null" => self.dropped(entry, Kind::NullLine),
            Content::Junk if entry.raw.contains(&0) => self.dropped(entry, Kind::NulBytes),
            // What begins like an object and does not end is a write that was cut off.
            Content::Junk if entry.raw.trim_ascii().starts_with(b"{") => self.dropped(entry, Kind::CutShort),
            _ => self.bytes.extend_from_slice(entry.raw),
        }
    }

    fn end_file(&mut self, entries: &[Entry<'_>]) {
        let Some(last) = entries.iter().rev().find(|entry| entry.content != Content::Blank) else { return };
        if self.bytes.is_empty() || self.bytes.ends_with(b"\n") {
            return;
        }
        self.end_line();
        if last.content == Content::Object && !last.raw.ends_with(b"\n") {
            let before = last.raw.to_vec();
            let mut after = before.clone();
            after.push(b'\n');
            let known = self.changes.iter().any(|change| change.line == last.line);
            if !known {
                let (before, after) = (Some(before), Some(after));
                self.changes.push(Change { line: last.line, why: Kind::NoLineBreak, before, after });
            }
        }
    }
}

const MARK: &[u8] = b"\xef\xbb\xbf";

/// The object of an entry without what a crash left before it; its line's end as it is.
fn own_line(raw: &[u8]) -> &[u8] {
    let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    if raw[..start].contains(&0) || raw.starts_with(MARK) { &raw[start..] } else { raw }
}

/// Which added entries stand behind which of the source.
fn added_behind(plan: &Plan<'_>) -> FxHashMap<usize, Vec<usize>> {
    let mut behind: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    let mut last = None;
    let last_entry = plan.facts.nodes.len().checked_sub(1);
    for item in &plan.way {
        match *item {
            Item::Old(node) if !plan.is_dropped(node) => last = Some(node),
            Item::Old(_) => {}
            Item::New(new) => {
                let kind = &plan.new[new].kind;
                let at_end = matches!(kind, NewKind::End | NewKind::NoReply);
                let at = if at_end { last_entry } else { last.or(Some(plan.new[new].like)) };
                behind.entry(at.unwrap_or(0)).or_default().push(new);
            }
        }
    }
    behind
}
