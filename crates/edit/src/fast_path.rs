//! Shortcuts: faster code for results that the general code produces too. Everything else in this crate is written
//! without regard to them, and tests run both ways.
//!
//! | shortcut | instead of | measured |
//! |---|---|---|
//! | [`IdRenamer`]: a clone without edits is written while its source is read | planning it as unedited lines | 200 MB: 332 ms instead of 613 ms (46 % less), and memory that does not grow with the log |
//! | linear sessions: what clients send is known without simulating them | simulating every client | `clone --path 1` of 60 MB: 194 ms instead of 334 ms (42 % less); `--light` 49 %, `--strip-thinking` 38 %, `--heavy` 25 % less |
//!
//! Release build, 2 cores, both ways in one run, sessions generated as for `cargo xtask bench clone`. A shortcut that
//! saves less than a third of the time of a typical command is deleted. The last one was to predict the summary of an
//! edited clone from its plan: it saved nothing for `--heavy` and at most a quarter for `--path`.
//!
//! # Linear sessions
//!
//! [`harmful_findings`], [`newest_client_chain`] and [`session_intended_path`] decide in one pass over the entries. They
//! are in `model` (`check/linear.rs`), because paths, `ls` and `info` use them too. The general code is
//! `rethread_model::check` and `rethread_model::resume`.
//!
//! # A clone without edits in one pass
//!
//! It needs memory that does not grow with the texts. An id is renamed only if it names an entry of the log. Nearly
//! always the entry precedes the reference; where it does not, the offset is recorded and patched at the end.

use std::io;

use rethread_log::{Defect, Entry, EntryContent, Key, Line, Sink};
use rethread_model::Uid;
pub(crate) use rethread_model::{harmful_findings, newest_client_chain, session_intended_path};
use rustc_hash::FxHashSet;

use crate::WritePiece;
use crate::ids::{IdMap, IdSpan, find_id_spans, find_junk_id_spans};

/// Renames the ids of a log while it is read.
pub struct IdRenamer<'n> {
    id_map: &'n IdMap<'n>,
    known: FxHashSet<Uid>,
    /// Ids that named no entry yet, with their offsets in the clone.
    unresolved: Vec<(u64, Uid)>,
    id_spans: Vec<IdSpan>,
    out: Vec<u8>,
    written: u64,
    write: WritePiece<'n>,
    failed: Option<io::Error>,
    has_non_uuid_ids: bool,
    has_open_line: bool,
    /// Bytes of a possibly torn last line: nothing has followed them yet.
    torn: Vec<u8>,
}

/// A log whose ids were renamed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RenamedLog {
    /// Number of bytes written.
    pub bytes: u64,
    /// Ids still to be overwritten, by offset.
    pub patches: Vec<(u64, [u8; 36])>,
    /// Some ids are not UUIDs, so not all were found: the clone must be made in another way.
    pub has_non_uuid_ids: bool,
    /// The last line is torn and was not copied.
    pub torn: bool,
}

/// Bytes that are buffered before a write.
const PIECE: usize = 1 << 18;

impl<'n> IdRenamer<'n> {
    /// Starts a clone; `write` consumes its bytes and leaves the buffer empty.
    pub fn new(id_map: &'n IdMap<'n>, write: WritePiece<'n>) -> Self {
        Self {
            id_map,
            known: FxHashSet::default(),
            unresolved: Vec::new(),
            id_spans: Vec::new(),
            out: Vec::with_capacity(2 * PIECE),
            written: 0,
            write,
            failed: None,
            has_non_uuid_ids: false,
            has_open_line: false,
            torn: Vec::new(),
        }
    }

    fn flush(&mut self) {
        if self.failed.is_none() {
            self.written += self.out.len() as u64;
            self.failed = (self.write)(&mut self.out).err();
        }
        self.out.clear();
    }

    /// Writes the rest, followed by `tail`.
    pub fn finish(mut self, tail: &[u8]) -> io::Result<RenamedLog> {
        // A line that a client appends must not run into an unterminated one.
        if self.has_open_line {
            self.out.push(b'\n');
        }
        self.out.extend_from_slice(tail);
        self.flush();
        let known = |(at, uid): (u64, Uid)| {
            let name = self.known.contains(&uid).then(|| self.id_map.generated_id(uid)).flatten();
            Some((at, name?))
        };
        let patches = self.unresolved.iter().copied().filter_map(known).collect();
        match self.failed {
            Some(error) => Err(error),
            None => Ok(RenamedLog {
                bytes: self.written,
                patches,
                has_non_uuid_ids: self.has_non_uuid_ids,
                torn: !self.torn.is_empty(),
            }),
        }
    }
}

impl IdRenamer<'_> {
    /// Writes bytes, renaming the ids found in them.
    fn put(&mut self, raw: &[u8]) {
        let start = self.out.len();
        let (known, id_map) = (&self.known, self.id_map);
        let (unresolved, written) = (&mut self.unresolved, self.written);
        let mut missing = |out: &[u8], uid: Uid| unresolved.push((written + out.len() as u64, uid));
        self.id_map.write_with_lookup(
            raw,
            &self.id_spans,
            &mut self.out,
            &|uid| known.contains(&uid) || id_map.is_copied(uid),
            &mut missing,
        );
        self.has_open_line = self.out[start..].last().map_or(self.has_open_line, |&b| b != b'\n');
        if self.out.len() >= PIECE {
            self.flush();
        }
    }

    fn put_junk(&mut self, raw: &[u8]) {
        self.id_spans.clear();
        find_junk_id_spans(raw, 0, &mut self.id_spans);
        self.put(raw);
    }
}

impl Sink for IdRenamer<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        let torn = std::mem::take(&mut self.torn);
        if !torn.is_empty() {
            self.put_junk(&torn);
        }
        if entry.content == EntryContent::Object {
            self.id_spans.clear();
            self.has_non_uuid_ids |= find_id_spans(raw, line, 0, &mut self.id_spans);
            if let Some(uuid) = line.string(Key::Uuid, raw) {
                self.known.insert(Uid::new(uuid));
            }
            self.put(raw);
        } else if !raw.ends_with(b"\n") && raw.trim_ascii_start().starts_with(b"{") {
            // A torn last line is not copied; whether it is the last is known only when the next line arrives.
            self.torn.extend_from_slice(raw);
        } else {
            self.put_junk(raw);
        }
    }

    fn defect(&mut self, _: Defect) {}
}
