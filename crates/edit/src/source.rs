//! A session that is to be edited: its facts, the locations of its ids, and its bytes. The bytes need not be
//! in memory: little of a large log is looked at before all of it is written.

use std::borrow::Cow;
use std::io;
use std::sync::OnceLock;

use rethread_log::{BlockKind, Defect, Entry, EntryKind, Key, Line, ParsedChunk, Scanner, Sink, parse_entry};
use rethread_model::{
    ByteCounts, EntryLocation, EntryNo, EntrySource, Facts, FactsBuilder, NameCounts, NameId, Reader,
    Session, Table,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::clone::Recipe;
use crate::ids::{IdSpan, find_id_spans, find_junk_id_spans, find_non_uuid_ids};
use crate::shorten::{PartCut, RESULT_COPY, cuts};

/// Reads bytes of a log at an offset, filling the buffer.
pub type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) -> io::Result<()> + Sync);

/// A session with its bytes.
#[derive(Debug)]
pub struct SourceSession<'a> {
    log: LogBytes<'a>,
    /// The session's facts, tree and paths.
    pub session: Session,
    /// Ids outside of messages, in file order.
    pub(crate) id_spans: Vec<IdSpan>,
    /// Digests of the entries.
    pub(crate) digests: Table<EntryNo, EntryDigest>,
    /// Byte counts by kind, entry after entry.
    byte_counts: Vec<(u8, u32)>,
    /// Cuts computed while the log was read.
    precomputed_cuts: Option<PrecomputedCuts>,
    /// An entry has an id that is not a UUID.
    pub(crate) has_non_uuid_ids: bool,
}

/// The bytes of a log, in memory or on demand.
#[derive(Debug)]
enum LogBytes<'a> {
    InMemory(&'a [u8]),
    Lazy(LazyLog<'a>),
}

/// A log that is read again where its bytes are needed.
struct LazyLog<'a> {
    read: ReadAt<'a>,
    size: u64,
    /// Hashes of the entries: a log may be written to at any time.
    entry_hashes: Vec<u64>,
    /// Entries that were requested.
    entries: Vec<OnceLock<Box<[u8]>>>,
    /// The whole log, if it was requested.
    all_bytes: OnceLock<Vec<u8>>,
    /// The first read error.
    failed: OnceLock<io::Error>,
}

impl std::fmt::Debug for LazyLog<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elsewhere").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Facts about an entry that edits need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EntryDigest {
    pub(crate) kind: Option<EntryKind>,
    /// The entry names the call that it belongs to.
    pub(crate) names_call: bool,
    /// The entry contains the inputs of its calls a second time.
    pub(crate) has_wire_inputs: bool,
    /// The working directory and the branch, among the session's.
    pub(crate) cwd: Option<NameId>,
    pub(crate) branch: Option<NameId>,
    /// Index of the first id span.
    first_id_span: u32,
    /// Index of the first byte count.
    first_byte_count: u32,
}

/// Cuts in the calls and results of a log when strings are shortened to `limit` characters, in entry order.
#[derive(Debug, Default)]
struct PrecomputedCuts {
    limit: usize,
    cuts: Vec<(EntryNo, PartCut)>,
}

/// Records the ids of a log and other facts that edits need, while the log is read.
#[derive(Default)]
pub struct SourceIndexer {
    id_spans: Vec<IdSpan>,
    digests: Table<EntryNo, EntryDigest>,
    byte_counts: Vec<(u8, u32)>,
    entry_hashes: Option<Vec<u64>>,
    precomputed_cuts: Option<PrecomputedCuts>,
    cwds: NameCounts,
    branches: NameCounts,
    has_non_uuid_ids: bool,
}

impl SourceIndexer {
    /// Creates an indexer for a log of about `bytes` bytes that `recipe` edits and whose bytes are read again
    /// later.
    pub fn for_lazy_source(recipe: &Recipe, bytes: u64) -> Self {
        // Unused capacity costs nothing; growing tables are moved.
        let n = usize::try_from(bytes / 2000).unwrap_or(0).min(1 << 20);
        let cuts = recipe.tools.shorten.map_or(0, |_| n);
        Self {
            id_spans: Vec::with_capacity(6 * n),
            digests: Table::with_capacity(n),
            byte_counts: Vec::with_capacity(4 * n),
            entry_hashes: Some(Vec::with_capacity(n)),
            precomputed_cuts: recipe
                .tools
                .shorten
                .map(|limit| PrecomputedCuts { limit, cuts: Vec::with_capacity(cuts) }),
            ..Self::default()
        }
    }
}

impl Sink for SourceIndexer {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        if entry.number == 0 {
            return find_junk_id_spans(raw, entry.offset, &mut self.id_spans);
        }
        let place = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let has = |key: Key| !line.field(key).is_empty();
        let names_call = has(Key::ToolUseId)
            || has(Key::SourceToolUseId)
            || has(Key::ParentToolUseId)
            || has(Key::Attachment) && memchr::memmem::find(raw, b"\"toolUseID\"").is_some();
        let number = self.digests.push(EntryDigest {
            kind: line.kind,
            names_call,
            has_wire_inputs: has(Key::WireToolInputs),
            cwd: line.string(Key::Cwd, raw).map(|name| self.cwds.count(name)),
            branch: line.string(Key::GitBranch, raw).map(|name| self.branches.count(name)),
            first_id_span: place(self.id_spans.len()),
            first_byte_count: place(self.byte_counts.len()),
        });
        self.has_non_uuid_ids |= find_id_spans(raw, line, entry.offset, &mut self.id_spans);
        let parts = ByteCounts::of_entry(line, raw).by_kind();
        let parts = (0..).zip(parts).filter(|(_, (_, n))| *n > 0);
        self.byte_counts.extend(parts.map(|(kind, (_, n))| (kind, u32::try_from(n).unwrap_or(u32::MAX))));
        if let Some(hashes) = &mut self.entry_hashes {
            hashes.push(xxh3_64(raw));
        }
        if let Some(PrecomputedCuts { limit, cuts }) = &mut self.precomputed_cuts {
            cuts_of_entry(raw, line, *limit, |cut| cuts.push((number, cut)));
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// Finds the cuts in the calls and results of an entry, block by block, and in the client's copy of a result.
fn cuts_of_entry(raw: &[u8], line: &Line, limit: usize, mut found: impl FnMut(PartCut)) {
    let mut result = false;
    for (part, block) in (0..RESULT_COPY).zip(&line.blocks) {
        let value = match block.kind {
            Some(BlockKind::ToolUse) => block.input,
            Some(BlockKind::ToolResult) => block.content,
            _ => continue,
        };
        result |= block.kind == Some(BlockKind::ToolResult);
        let cuts = cuts(value.bytes_in(raw), limit).into_iter();
        cuts.for_each(|cut| found(PartCut { part, cut: cut.shifted(value.start()) }));
    }
    let copy = line.field(Key::ToolUseResult);
    if result {
        let cuts = cuts(copy.bytes_in(raw), limit).into_iter();
        cuts.for_each(|cut| found(PartCut { part: RESULT_COPY, cut: cut.shifted(copy.start()) }));
    }
}

impl<'a> SourceSession<'a> {
    /// Reads a session from memory.
    pub fn read(bytes: &'a [u8]) -> Self {
        let (mut indexer, mut builder) =
            (SourceIndexer::default(), FactsBuilder::for_size(bytes.len() as u64));
        let mut scanner = Scanner::default();
        scanner.scan_parsed(bytes, &ParsedChunk::parse(bytes, true), &mut (&mut indexer, &mut builder));
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        Self::new(LogBytes::InMemory(bytes), indexer, facts)
    }

    /// Builds a session of `size` bytes from what was recorded while its log was read; its bytes are read again
    /// with `read` where they are needed.
    pub fn lazy(read: ReadAt<'a>, size: u64, mut indexer: SourceIndexer, facts: Facts) -> Self {
        let entries = facts.locations.iter().map(|_| OnceLock::new()).collect();
        let entry_hashes = indexer.entry_hashes.take().unwrap_or_default();
        let (all_bytes, failed) = (OnceLock::new(), OnceLock::new());
        let log = LazyLog { read, size, entry_hashes, entries, all_bytes, failed };
        Self::new(LogBytes::Lazy(log), indexer, facts)
    }

    fn new(log: LogBytes<'a>, indexer: SourceIndexer, facts: Facts) -> Self {
        let SourceIndexer { id_spans, digests, byte_counts, precomputed_cuts, has_non_uuid_ids, .. } =
            indexer;
        let session = Session::new(facts);
        let mut source =
            Self { log, session, id_spans, digests, byte_counts, precomputed_cuts, has_non_uuid_ids };
        if has_non_uuid_ids {
            let mut id_spans = std::mem::take(&mut source.id_spans);
            find_non_uuid_ids(source.bytes(), &source.session.facts, &mut id_spans);
            for (digest, place) in source.digests.iter_mut().zip(&source.session.facts.locations) {
                let first = id_spans.partition_point(|span| span.at < place.offset);
                digest.first_id_span = u32::try_from(first).unwrap_or(u32::MAX);
            }
            source.id_spans = id_spans;
        }
        source
    }

    /// Returns the size of the log in bytes.
    pub fn size(&self) -> u64 {
        match &self.log {
            LogBytes::InMemory(bytes) => bytes.len() as u64,
            LogBytes::Lazy(log) => log.size,
        }
    }

    /// Returns the error if part of the log could not be read again. The result of an edit is then unusable.
    pub fn failure(&self) -> Option<io::Error> {
        let failed = match &self.log {
            LogBytes::InMemory(_) => None,
            LogBytes::Lazy(log) => log.failed.get(),
        };
        failed.map(|error| io::Error::new(error.kind(), error.to_string()))
    }

    /// Returns the whole log.
    fn bytes(&self) -> &[u8] {
        match &self.log {
            LogBytes::InMemory(bytes) => bytes,
            LogBytes::Lazy(log) => log.read_all(&self.session.facts.locations),
        }
    }

    /// Returns the log with the order of its lines and the ids of its messages repaired, which every edit depends
    /// on. `None` if they are correct already.
    pub fn normalised_log(&self) -> Option<Vec<u8>> {
        crate::repair::normalise_log(&|| self.bytes(), &self.session)
    }

    /// Returns the log without a torn last line.
    pub(crate) fn complete_lines(&self) -> &[u8] {
        let bytes = self.bytes();
        let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let last = self.session.facts.locations.iter().next_back().is_some_and(|place| {
            // An object that only lacks its line end is complete.
            usize::try_from(place.offset).is_ok_and(|offset| offset >= end)
        });
        let begun = bytes[end..].trim_ascii_start().starts_with(b"{");
        if begun && !last { &bytes[..end] } else { bytes }
    }

    /// Returns a reader for the session's texts.
    pub fn reader(&self) -> Reader<'_> {
        match &self.log {
            LogBytes::InMemory(bytes) => Reader::new(&self.session, bytes),
            LogBytes::Lazy(log) => Reader::with_entries(&self.session, log),
        }
    }

    pub(crate) fn place(&self, number: EntryNo) -> EntryLocation {
        self.session.facts.locations[number]
    }

    /// Returns the ids in an entry.
    pub(crate) fn id_spans_of(&self, number: EntryNo) -> &[IdSpan] {
        let place = self.place(number);
        let end = place.offset + u64::from(place.len);
        let first = self.digests[number].first_id_span as usize;
        let n = self.id_spans[first..].iter().take_while(|span| span.at < end).count();
        &self.id_spans[first..first + n]
    }

    /// Adds the byte counts of an entry to `bytes`.
    pub(crate) fn add_byte_counts(&self, number: EntryNo, bytes: &mut ByteCounts) {
        let start = self.digests[number].first_byte_count as usize;
        let end = self
            .digests
            .after(number)
            .first()
            .map_or(self.byte_counts.len(), |next| next.first_byte_count as usize);
        for &(kind, n) in &self.byte_counts[start..end] {
            bytes.add_to(kind, u64::from(n));
        }
    }

    /// Returns the cuts in the calls and results of an entry.
    pub(crate) fn cuts(&self, number: EntryNo, limit: usize) -> Cow<'_, [(EntryNo, PartCut)]> {
        if let Some(precomputed) = self.precomputed_cuts.as_ref().filter(|cuts| cuts.limit == limit) {
            let first = precomputed.cuts.partition_point(|&(of, _)| of < number);
            let n = precomputed.cuts[first..].iter().take_while(|&&(of, _)| of == number).count();
            return Cow::Borrowed(&precomputed.cuts[first..first + n]);
        }
        let raw = self.reader().entry_bytes(number);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let mut found = Vec::new();
        cuts_of_entry(raw, &line, limit, |cut| found.push((number, cut)));
        Cow::Owned(found)
    }
}

fn changed_error() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the session changed while it was being read")
}

impl LazyLog<'_> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (self.read)(offset, bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed_error(),
            _ => error,
        })
    }

    /// Reads `len` bytes at an offset; on failure records the error and clears the buffer.
    fn load(&self, offset: u64, bytes: &mut Vec<u8>, len: usize) {
        // The old bytes are overwritten.
        bytes.truncate(len);
        bytes.resize(len, 0);
        if let Err(error) = self.read_at(offset, bytes) {
            let _ = self.failed.set(error);
            bytes.clear();
        }
    }

    /// Returns an entry that was read again, or an empty slice if it has changed.
    fn verify_entry<'e>(&self, number: EntryNo, raw: &'e [u8]) -> &'e [u8] {
        if self.entry_hashes.get(number.index()) == Some(&xxh3_64(raw)) {
            return raw;
        }
        let _ = self.failed.set(changed_error());
        &[]
    }

    /// Returns an entry that was read before: it may be very long, so it is not read twice. `None` once a read has
    /// failed, because the entry may then be a placeholder.
    fn known(&self, number: EntryNo, place: EntryLocation) -> Option<&[u8]> {
        let whole = self.all_bytes.get().and_then(|whole| {
            let start = usize::try_from(place.offset).ok()?;
            whole.get(start..start + place.len as usize)
        });
        let entry = || self.entries.get(number.index())?.get().map(|entry| &**entry);
        // A placeholder is stored after the failure is recorded.
        whole.or_else(entry).filter(|_| self.failed.get().is_none())
    }

    fn read_all(&self, places: &Table<EntryNo, EntryLocation>) -> &[u8] {
        self.all_bytes.get_or_init(|| {
            let mut bytes = Vec::new();
            let size = usize::try_from(self.size).unwrap_or(0);
            self.load(0, &mut bytes, size);
            // Entry locations index into this buffer.
            bytes.resize(size, b'\n');
            for (number, place) in places.iter_enumerated() {
                let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
                let raw = &mut bytes[start..start + place.len as usize];
                if self.verify_entry(number, raw).is_empty() {
                    // Callers parse this as an entry.
                    raw.fill(b' ');
                    raw[..2].copy_from_slice(b"{}");
                }
            }
            bytes
        })
    }
}

impl EntrySource for LazyLog<'_> {
    fn entry_bytes(&self, number: EntryNo, place: EntryLocation) -> &[u8] {
        if let Some(known) = self.known(number, place) {
            return known;
        }
        let Some(slot) = self.entries.get(number.index()) else { return &[] };
        let read = || {
            let mut bytes = Vec::new();
            self.load(place.offset, &mut bytes, place.len as usize);
            if self.verify_entry(number, &bytes).is_empty() {
                // Callers parse this as an entry.
                bytes = b"{}".to_vec();
            }
            bytes.into()
        };
        slot.get_or_init(read)
    }
}

/// A sliding window over a log: a range is read at once, and nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The range that is read as a whole; empty if `len` is 0.
    start: u64,
    len: usize,
    /// The range has been read.
    loaded: bool,
    memory: Vec<u8>,
    /// An entry outside of the range.
    other: Vec<u8>,
}

impl Window {
    /// Moves to a range of the log.
    pub(crate) fn move_to(&mut self, start: u64, len: usize) {
        (self.start, self.len, self.loaded) = (start, len, false);
    }

    /// Returns the bytes of an entry; empty if it could not be read.
    pub(crate) fn entry<'w>(&'w mut self, source: &'w SourceSession<'_>, number: EntryNo) -> &'w [u8] {
        let place = source.place(number);
        let len = place.len as usize;
        let log = match &source.log {
            LogBytes::InMemory(bytes) => {
                let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
                return &bytes[start..start + len];
            }
            LogBytes::Lazy(log) => log,
        };
        if let Some(known) = log.known(number, place) {
            return known;
        }
        let within = place.offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let Some(at) = within.filter(|&at| at + len <= self.len) else {
            log.load(place.offset, &mut self.other, len);
            return log.verify_entry(number, &self.other);
        };
        if !self.loaded {
            log.load(self.start, &mut self.memory, self.len);
            self.loaded = true;
        }
        log.verify_entry(number, self.memory.get(at..at + len).unwrap_or_default())
    }
}
