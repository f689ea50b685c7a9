//! Writes a plan as bytes, line by line.

use rethread_log::{DefectKind, Entry, EntryContent, ParsedLog, read};
use rethread_model::{EntryNo, FindingKind, NodeId};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Change, ChangePlace, MAX_COPIED_LINE};
use crate::ids::IdMap;
use crate::plan::{AddedKind, PathItem, Plan, checkpoint, write_added, write_edited};

/// The output of a plan.
pub(super) struct Assembly {
    pub(super) changes: Vec<Change>,
    pub(super) bytes: Vec<u8>,
    /// The source line of each output line.
    pub(super) sources: Vec<u32>,
    /// Number of bytes covered by `sources`.
    counted: usize,
    /// Compute only the changes, not the bytes.
    dry: bool,
}

impl Assembly {
    pub(super) fn new(source: &[u8], plan: &Plan<'_>) -> Self {
        Self::make(source, plan, false)
    }

    /// Returns whether a plan changes anything.
    pub(super) fn changes_any(source: &[u8], plan: &Plan<'_>) -> bool {
        !Self::make(source, plan, true).changes.is_empty()
    }

    fn make(source: &[u8], plan: &Plan<'_>, dry: bool) -> Self {
        let ParsedLog { entries, defects, .. } = read(source);
        let torn: FxHashSet<u32> = defects
            .iter()
            .filter(|defect| defect.kind == DefectKind::CutShort)
            .map(|defect| defect.line)
            .collect();
        let names = IdMap::identity();
        let added = added_after(plan);
        let node_of: FxHashMap<EntryNo, NodeId> =
            plan.facts.nodes.iter_enumerated().map(|(node, fact)| (fact.entry, node)).collect();
        let bytes = Vec::with_capacity(if dry { 0 } else { source.len() + 4096 });
        let mut out = Self { changes: Vec::new(), bytes, sources: Vec::new(), counted: 0, dry };
        for entry in &entries {
            // One change is enough.
            if dry && !out.changes.is_empty() {
                return out;
            }
            let node = EntryNo::new(entry.number).and_then(|number| node_of.get(&number).copied());
            match node.filter(|&node| !plan.is_unchanged(node)) {
                Some(node) if plan.is_dropped(node) => {
                    let place = ChangePlace::new(entry.line, plan, plan.cause(node));
                    out.drop_entry(entry, place);
                }
                Some(node) => {
                    let raw = plan.reader.entry_bytes(plan.facts.nodes[plan.content_node(node)].entry);
                    let place = ChangePlace::new(entry.line, plan, plan.cause(node));
                    out.put_object(entry, place, |line| write_edited(plan, raw, node, &names, line));
                }
                None => out.put_unchanged(entry, torn.contains(&entry.line)),
            }
            for new in node.and_then(|node| added.get(&node)).into_iter().flatten() {
                out.end_line();
                let mut lines = Vec::new();
                write_added(plan, &plan.added[*new], &names, &mut lines);
                if matches!(plan.added[*new].kind, AddedKind::End | AddedKind::NoReply) {
                    lines.extend(checkpoint(plan, &plan.added[*new]));
                }
                let place = ChangePlace::new(entry.line, plan, plan.added[*new].cause);
                for line in lines.split_inclusive(|&b| b == b'\n') {
                    out.changes.push(Change::new(place, None, Some(line)));
                }
                out.put(&lines);
            }
            out.count_lines(entry.line);
        }
        out.end_file(&entries);
        out.count_lines(entries.last().map_or(1, |entry| entry.line));
        out
    }

    fn put(&mut self, bytes: &[u8]) {
        // A dry run only needs the last byte.
        let start = if self.dry { bytes.len().saturating_sub(1) } else { 0 };
        self.bytes.extend_from_slice(&bytes[start..]);
    }

    fn count_lines(&mut self, source: u32) {
        let n = self.bytes[self.counted..].iter().filter(|&&b| b == b'\n').count();
        self.sources.extend(std::iter::repeat_n(source, n));
        self.counted = self.bytes.len();
    }

    /// Ends an unterminated line, so that it does not run into the next one.
    fn end_line(&mut self) {
        if self.bytes.last().is_some_and(|&b| b != b'\n') {
            self.bytes.push(b'\n');
        }
    }

    fn drop_entry(&mut self, entry: &Entry<'_>, place: ChangePlace) {
        self.changes.push(Change::new(place, Some(entry.raw), None));
        // Its line end is kept for the object before it on the same line.
        if entry.preceded {
            self.end_line();
        }
    }

    /// Writes an object on a separate line. The line may be very long, so it is written in place.
    fn put_object(&mut self, entry: &Entry<'_>, place: ChangePlace, write: impl FnOnce(&mut Vec<u8>)) {
        self.end_line();
        let start = self.bytes.len();
        write(&mut self.bytes);
        let junk = self.bytes.len() - start - object_line(&self.bytes[start..]).len();
        self.bytes.drain(start..start + junk);
        let (before, after) = (object_line(entry.raw), &self.bytes[start..]);
        if after != before {
            self.changes.push(Change::new(place, Some(before), Some(after)));
        } else if entry.preceded || entry.followed {
            self.record_split(entry);
        }
        if self.dry {
            // A dry run only needs the last byte.
            let len = self.bytes.len();
            self.bytes.drain(start..len.saturating_sub(1).max(start));
        }
        if entry.followed || entry.raw.ends_with(b"\n") {
            self.end_line();
        }
    }

    fn record_split(&mut self, entry: &Entry<'_>) {
        // What shared its line may have been a torn write, which was dropped.
        let dropped =
            self.changes.last().filter(|change| change.line == entry.line && change.after.is_none());
        let kind = dropped.map_or(FindingKind::SeveralObjects, |change| change.reason);
        let (before, after) = (Some(entry.raw), Some(object_line(entry.raw)));
        self.changes.push(Change::new(ChangePlace::at(entry.line, kind), before, after));
    }

    fn put_unchanged(&mut self, entry: &Entry<'_>, is_torn: bool) {
        let at = |kind: FindingKind| ChangePlace::at(entry.line, kind);
        match entry.content {
            EntryContent::Object if entry.preceded || entry.followed => {
                self.put_object(entry, at(FindingKind::SeveralObjects), |line| {
                    line.extend_from_slice(entry.raw)
                });
            }
            EntryContent::Object if entry.raw.starts_with(BOM) => {
                self.put(&entry.raw[BOM.len()..]);
                let (before, after) = (Some(entry.raw), Some(&entry.raw[BOM.len()..]));
                self.changes.push(Change::new(at(FindingKind::ByteOrderMark), before, after));
            }
            EntryContent::Value if entry.raw.trim_ascii() == b"null" => {
                self.drop_entry(entry, at(FindingKind::NullLine));
            }
            EntryContent::Junk if entry.raw.contains(&0) => self.drop_entry(entry, at(FindingKind::NulBytes)),
            EntryContent::Junk if is_torn => self.drop_entry(entry, at(FindingKind::CutShort)),
            _ => self.put(entry.raw),
        }
    }

    fn end_file(&mut self, entries: &[Entry<'_>]) {
        let Some(last) = entries.iter().rev().find(|entry| entry.content != EntryContent::Blank) else {
            return;
        };
        if self.bytes.is_empty() || self.bytes.ends_with(b"\n") {
            return;
        }
        self.end_line();
        if last.content == EntryContent::Object && !last.raw.ends_with(b"\n") {
            let known = self.changes.iter().any(|change| change.line == last.line);
            if !known {
                // The end of a very long line is enough.
                let end = &last.raw[last.raw.len().saturating_sub(MAX_COPIED_LINE)..];
                let after = [end, b"\n"].concat();
                let place = ChangePlace::at(last.line, FindingKind::NoLineBreak);
                self.changes.push(Change::new(place, Some(end), Some(&after)));
            }
        }
    }
}

const BOM: &[u8] = b"\xef\xbb\xbf";

/// Returns the object of an entry without junk that a crash left before it; the line end is kept.
fn object_line(raw: &[u8]) -> &[u8] {
    let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    if raw[..start].contains(&0) || raw.starts_with(BOM) { &raw[start..] } else { raw }
}

/// Maps entries of the source to the added entries that follow them.
fn added_after(plan: &Plan<'_>) -> FxHashMap<NodeId, Vec<usize>> {
    let mut after: FxHashMap<NodeId, Vec<usize>> = FxHashMap::default();
    let mut last = None;
    let last_entry = plan.facts.nodes.keys().next_back();
    for item in &plan.path {
        match *item {
            PathItem::Source(node) if !plan.is_dropped(node) => last = Some(node),
            PathItem::Source(_) => {}
            PathItem::Added(new) => {
                let kind = &plan.added[new].kind;
                let at_end = matches!(kind, AddedKind::End | AddedKind::NoReply);
                let at = last_entry.filter(|_| at_end).or(last).unwrap_or(plan.added[new].template);
                after.entry(at).or_default().push(new);
            }
        }
    }
    after
}
