//! A session that is to be edited: what it is, where its ids stand, and its bytes, which need not be in
//! memory: of a large log little is looked at before all of it is written.

use std::borrow::Cow;
use std::io;
use std::sync::OnceLock;

use rethread_log::{BlockKind, Defect, Entry, Finds, Key, Kind, Line, Scanner, Sink, parse_entry};
use rethread_model::{Builder, Bytes, Entries, Facts, Names, Place, Reader, Session};
use xxhash_rust::xxh3::xxh3_64;

use crate::clone::Recipe;
use crate::ids::{Spot, junk_spots, odd_spots, spots};
use crate::shorten::{COPY, PartCut, cuts};

/// Reads bytes of a log, as many as there is room for, from a place on.
pub type ReadAt<'a> = &'a (dyn Fn(u64, &mut [u8]) -> io::Result<()> + Sync);

/// A session with its bytes.
#[derive(Debug)]
pub struct Source<'a> {
    log: Log<'a>,
    /// What it is.
    pub session: Session,
    /// Where ids stand outside of messages, in the order of the file.
    pub(crate) spots: Vec<Spot>,
    /// What was noted of the entries; of entry number `n` at `n - 1`.
    pub(crate) notes: Vec<Note>,
    /// What entries weigh, one behind the other.
    weights: Vec<(u8, u32)>,
    /// What would be cut out of them.
    shorter: Option<Shorter>,
    /// An entry has an id that is no UUID.
    pub(crate) odd: bool,
}

/// Where the bytes of a log are.
#[derive(Debug)]
enum Log<'a> {
    Here(&'a [u8]),
    Elsewhere(Elsewhere<'a>),
}

/// A log that is read again where its bytes are needed.
struct Elsewhere<'a> {
    read: ReadAt<'a>,
    size: u64,
    /// What the entries hash to: a log may be written to at any time.
    prints: Vec<u64>,
    /// Entries that were asked for.
    entries: Vec<OnceLock<Box<[u8]>>>,
    /// All of it, if that was asked for.
    whole: OnceLock<Vec<u8>>,
    /// Why something could not be read.
    failed: OnceLock<io::Error>,
}

impl std::fmt::Debug for Elsewhere<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elsewhere").field("size", &self.size).finish_non_exhaustive()
    }
}

/// What was noted of an entry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Note {
    pub(crate) kind: Option<Kind>,
    /// It says which call it belongs to.
    pub(crate) names_call: bool,
    /// It has the inputs of its calls a second time.
    pub(crate) has_wire_inputs: bool,
    /// Its working directory and its branch, by their places among the session's, or `u16::MAX`.
    pub(crate) cwd: u16,
    pub(crate) branch: u16,
    /// Where its spots begin.
    spots: u32,
    /// Where its weights begin.
    weights: u32,
}

/// What would be cut out of the calls and results of a log if their strings were cut to `limit`
/// characters, in the order of the entries.
#[derive(Debug, Default)]
struct Shorter {
    limit: usize,
    cuts: Vec<(u32, PartCut)>,
}

/// Notes where the ids of a log stand and what else its edits need to know, while it is read.
#[derive(Default)]
pub struct Noting {
    spots: Vec<Spot>,
    notes: Vec<Note>,
    weights: Vec<(u8, u32)>,
    prints: Option<Vec<u64>>,
    shorter: Option<Shorter>,
    cwds: Names,
    branches: Names,
    odd: bool,
}

impl Noting {
    /// Begins with a log of about so many bytes that is to be edited by a recipe, and whose bytes are read
    /// again then.
    pub fn to_read_again(recipe: &Recipe, bytes: u64) -> Self {
        // Room that is not used costs nothing; tables that grow are moved.
        let n = usize::try_from(bytes / 2000).unwrap_or(0).min(1 << 20);
        let cuts = recipe.tools.shorten.map_or(0, |_| n);
        Self {
            spots: Vec::with_capacity(6 * n),
            notes: Vec::with_capacity(n),
            weights: Vec::with_capacity(4 * n),
            prints: Some(Vec::with_capacity(n)),
            shorter: recipe.tools.shorten.map(|limit| Shorter { limit, cuts: Vec::with_capacity(cuts) }),
            ..Self::default()
        }
    }
}

impl Sink for Noting {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        if entry.number == 0 {
            return junk_spots(raw, entry.offset, &mut self.spots);
        }
        let place = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
        let has = |key: Key| !line.field(key).is_empty();
        let names_call = has(Key::ToolUseId)
            || has(Key::SourceToolUseId)
            || has(Key::ParentToolUseId)
            || has(Key::Attachment) && memchr::memmem::find(raw, b"\"toolUseID\"").is_some();
        self.notes.push(Note {
            kind: line.kind,
            names_call,
            has_wire_inputs: has(Key::WireToolInputs),
            cwd: line.string(Key::Cwd, raw).map_or(u16::MAX, |name| self.cwds.count(name)),
            branch: line.string(Key::GitBranch, raw).map_or(u16::MAX, |name| self.branches.count(name)),
            spots: place(self.spots.len()),
            weights: place(self.weights.len()),
        });
        self.odd |= spots(raw, line, entry.offset, &mut self.spots);
        let parts = Bytes::of(line, raw).by_kind();
        let parts = (0..).zip(parts).filter(|(_, (_, n))| *n > 0);
        self.weights.extend(parts.map(|(kind, (_, n))| (kind, u32::try_from(n).unwrap_or(u32::MAX))));
        if let Some(prints) = &mut self.prints {
            prints.push(xxh3_64(raw));
        }
        if let Some(Shorter { limit, cuts }) = &mut self.shorter {
            cuts_of_entry(raw, line, *limit, |cut| cuts.push((entry.number, cut)));
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// Finds what goes of the calls and results of an entry, block by block, and of the client's copy.
fn cuts_of_entry(raw: &[u8], line: &Line, limit: usize, mut found: impl FnMut(PartCut)) {
    let mut result = false;
    for (part, block) in (0..COPY).zip(&line.blocks) {
        let value = match block.kind {
            Some(BlockKind::ToolUse) => block.input,
            Some(BlockKind::ToolResult) => block.content,
            _ => continue,
        };
        result |= block.kind == Some(BlockKind::ToolResult);
        let cuts = cuts(value.of(raw), limit).into_iter();
        cuts.for_each(|cut| found(PartCut { part, cut: cut.behind(value.start()) }));
    }
    let copy = line.field(Key::ToolUseResult);
    if result {
        let cuts = cuts(copy.of(raw), limit).into_iter();
        cuts.for_each(|cut| found(PartCut { part: COPY, cut: cut.behind(copy.start()) }));
    }
}

/// Gives entries to one that notes and to one that makes facts.
struct Both<'s>(&'s mut Noting, &'s mut Builder);

impl Sink for Both<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        self.0.entry(entry, line);
        self.1.entry(entry, line);
    }

    fn defect(&mut self, defect: Defect) {
        self.1.defect(defect);
    }
}

impl<'a> Source<'a> {
    /// Reads a session.
    pub fn read(bytes: &'a [u8]) -> Self {
        let (mut noting, mut builder) = (Noting::default(), Builder::for_size(bytes.len() as u64));
        let mut scanner = Scanner::default();
        scanner.take(bytes, &Finds::of(bytes, true), &mut Both(&mut noting, &mut builder));
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        Self::new(Log::Here(bytes), noting, facts)
    }

    /// Joins what was noted of a log of so many bytes while it was read with what is in it; its bytes are
    /// read again with `read` where they are needed.
    pub fn to_read_again(read: ReadAt<'a>, size: u64, mut noting: Noting, facts: Facts) -> Self {
        let entries = facts.places.iter().map(|_| OnceLock::new()).collect();
        let prints = noting.prints.take().unwrap_or_default();
        let (whole, failed) = (OnceLock::new(), OnceLock::new());
        let log = Elsewhere { read, size, prints, entries, whole, failed };
        Self::new(Log::Elsewhere(log), noting, facts)
    }

    fn new(log: Log<'a>, noting: Noting, facts: Facts) -> Self {
        let Noting { spots, notes, weights, shorter, odd, .. } = noting;
        let session = Session::new(facts);
        let mut source = Self { log, session, spots, notes, weights, shorter, odd };
        if odd {
            let mut spots = std::mem::take(&mut source.spots);
            odd_spots(source.bytes(), &source.session.facts, &mut spots);
            for (note, place) in source.notes.iter_mut().zip(&source.session.facts.places) {
                let first = spots.partition_point(|spot| spot.at < place.offset);
                note.spots = u32::try_from(first).unwrap_or(u32::MAX);
            }
            source.spots = spots;
        }
        source
    }

    /// How many bytes the log has.
    pub fn size(&self) -> u64 {
        match &self.log {
            Log::Here(bytes) => bytes.len() as u64,
            Log::Elsewhere(log) => log.size,
        }
    }

    /// Why something of the log could not be read again. What is made of it then is worth nothing.
    pub fn failure(&self) -> Option<io::Error> {
        let failed = match &self.log {
            Log::Here(_) => None,
            Log::Elsewhere(log) => log.failed.get(),
        };
        failed.map(|error| io::Error::new(error.kind(), error.to_string()))
    }

    /// The whole log.
    fn bytes(&self) -> &[u8] {
        match &self.log {
            Log::Here(bytes) => bytes,
            Log::Elsewhere(log) => log.whole(&self.session.facts.places),
        }
    }

    /// Returns the log with what every edit depends on in order: its lines, the ids of its messages.
    /// Nothing if that is so already.
    pub fn readied(&self) -> Option<Vec<u8>> {
        crate::repair::readied(&|| self.bytes(), &self.session)
    }

    /// Returns the log without a last line that was cut off while it was written.
    pub(crate) fn whole(&self) -> &[u8] {
        let bytes = self.bytes();
        let end = memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1);
        let last = self.session.facts.places.last().is_some_and(|place| {
            // An object that only lacks the end of its line is whole.
            usize::try_from(place.offset).is_ok_and(|offset| offset >= end)
        });
        let begun = bytes[end..].trim_ascii_start().starts_with(b"{");
        if begun && !last { &bytes[..end] } else { bytes }
    }

    /// Returns a reader over its texts.
    pub fn reader(&self) -> Reader<'_> {
        match &self.log {
            Log::Here(bytes) => Reader::new(&self.session, bytes),
            Log::Elsewhere(log) => Reader::of_entries(&self.session, log),
        }
    }

    pub(crate) fn place(&self, number: u32) -> Place {
        self.session.facts.places[number as usize - 1]
    }

    /// Returns the ids in an entry.
    pub(crate) fn spots_of(&self, number: u32) -> &[Spot] {
        let place = self.place(number);
        let end = place.offset + u64::from(place.len);
        let first = self.notes[number as usize - 1].spots as usize;
        let n = self.spots[first..].iter().take_while(|spot| spot.at < end).count();
        &self.spots[first..first + n]
    }

    /// Adds what an entry weighs.
    pub(crate) fn weigh(&self, number: u32, bytes: &mut Bytes) {
        let start = self.notes[number as usize - 1].weights as usize;
        let end = self.notes.get(number as usize).map_or(self.weights.len(), |next| next.weights as usize);
        for &(kind, n) in &self.weights[start..end] {
            bytes.add_to(kind, u64::from(n));
        }
    }

    /// Returns what would be cut out of the calls and results of an entry.
    pub(crate) fn cuts(&self, number: u32, limit: usize) -> Cow<'_, [(u32, PartCut)]> {
        if let Some(noted) = self.shorter.as_ref().filter(|shorter| shorter.limit == limit) {
            let first = noted.cuts.partition_point(|&(of, _)| of < number);
            let n = noted.cuts[first..].iter().take_while(|&&(of, _)| of == number).count();
            return Cow::Borrowed(&noted.cuts[first..first + n]);
        }
        let raw = self.reader().entry(number);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let mut found = Vec::new();
        cuts_of_entry(raw, &line, limit, |cut| found.push((number, cut)));
        Cow::Owned(found)
    }
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, "the session was changed while it was read")
}

impl Elsewhere<'_> {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        (self.read)(offset, bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => changed(),
            _ => error,
        })
    }

    /// Reads on from a place; what cannot be read is noted, and empty.
    fn load(&self, offset: u64, bytes: &mut Vec<u8>, len: usize) {
        // What is there is written over.
        bytes.truncate(len);
        bytes.resize(len, 0);
        if let Err(error) = self.read_at(offset, bytes) {
            let _ = self.failed.set(error);
            bytes.clear();
        }
    }

    /// Returns an entry that was read again, if it is what it was.
    fn checked<'e>(&self, number: u32, raw: &'e [u8]) -> &'e [u8] {
        if self.prints.get(number as usize - 1) == Some(&xxh3_64(raw)) {
            return raw;
        }
        let _ = self.failed.set(changed());
        &[]
    }

    /// Returns an entry that was read before: it may be very long, so it is not read twice. Nothing once reading has
    /// failed, for then something may stand in for it.
    fn known(&self, number: u32, place: Place) -> Option<&[u8]> {
        let whole = self.whole.get().and_then(|whole| {
            let start = usize::try_from(place.offset).ok()?;
            whole.get(start..start + place.len as usize)
        });
        let entry = || self.entries.get(number as usize - 1)?.get().map(|entry| &**entry);
        // What stands in was put there after the failure was noted.
        whole.or_else(entry).filter(|_| self.failed.get().is_none())
    }

    fn whole(&self, places: &[Place]) -> &[u8] {
        self.whole.get_or_init(|| {
            let mut bytes = Vec::new();
            let size = usize::try_from(self.size).unwrap_or(0);
            self.load(0, &mut bytes, size);
            // The places of entries are places in this.
            bytes.resize(size, b'\n');
            for (number, place) in (1..).zip(places) {
                let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
                let raw = &mut bytes[start..start + place.len as usize];
                if self.checked(number, raw).is_empty() {
                    // Whoever asks takes it for an entry.
                    raw.fill(b' ');
                    raw[..2].copy_from_slice(b"{}");
                }
            }
            bytes
        })
    }
}

impl Entries for Elsewhere<'_> {
    fn entry(&self, number: u32, place: Place) -> &[u8] {
        if let Some(known) = self.known(number, place) {
            return known;
        }
        let Some(slot) = self.entries.get(number as usize - 1) else { return &[] };
        let read = || {
            let mut bytes = Vec::new();
            self.load(place.offset, &mut bytes, place.len as usize);
            if self.checked(number, &bytes).is_empty() {
                // Whoever asks takes it for an entry.
                bytes = b"{}".to_vec();
            }
            bytes.into()
        };
        slot.get_or_init(read)
    }
}

/// A look at a log that goes along it: a stretch of it is read at once, and nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// What is looked at as a whole, from where on and how much; nothing if that is no bytes.
    start: u64,
    len: usize,
    /// That is read already.
    loaded: bool,
    memory: Vec<u8>,
    /// An entry outside of it.
    other: Vec<u8>,
}

impl Window {
    /// Moves to a stretch of the log.
    pub(crate) fn move_to(&mut self, start: u64, len: usize) {
        (self.start, self.len, self.loaded) = (start, len, false);
    }

    /// Returns the bytes of an entry; empty if it could not be read.
    pub(crate) fn entry<'w>(&'w mut self, source: &'w Source<'_>, number: u32) -> &'w [u8] {
        let place = source.place(number);
        let len = place.len as usize;
        let log = match &source.log {
            Log::Here(bytes) => {
                let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
                return &bytes[start..start + len];
            }
            Log::Elsewhere(log) => log,
        };
        if let Some(known) = log.known(number, place) {
            return known;
        }
        let within = place.offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        let Some(at) = within.filter(|&at| at + len <= self.len) else {
            log.load(place.offset, &mut self.other, len);
            return log.checked(number, &self.other);
        };
        if !self.loaded {
            log.load(self.start, &mut self.memory, self.len);
            self.loaded = true;
        }
        log.checked(number, self.memory.get(at..at + len).unwrap_or_default())
    }
}
