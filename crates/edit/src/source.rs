//! A session that is to be edited: its bytes, what they mean, and where its ids stand.

use std::sync::Arc;

use rethread_log::{Defect, Entry, Finds, Kind, Line, Scanner, Sink, parse_entry};
use rethread_model::{Builder, Place, Reader, Session};

use crate::ids::{Spot, junk_spots, odd_spots, spots};

/// A session with its bytes.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// The log.
    pub bytes: &'a [u8],
    /// What it is.
    pub session: Session,
    /// Where ids stand outside of messages, in the order of the file.
    pub(crate) spots: Vec<Spot>,
    /// Where the spots of each entry begin; those of entry number `n` at `n - 1`.
    starts: Vec<u32>,
    /// The parts of its entries, if nothing is wrong with any.
    known: Option<Known>,
    /// The types of the entries; entry number `n` is at `n - 1`.
    pub(crate) kinds: Vec<Option<Kind>>,
    /// An entry has an id that is no UUID.
    pub(crate) odd: bool,
}

/// What was found in the pieces of a log each line of which is an entry.
#[derive(Debug, Clone)]
struct Known {
    pieces: Arc<Vec<Finds>>,
    /// How many entries stand before each piece.
    before: Vec<u32>,
}

impl Known {
    fn new(pieces: Vec<Finds>) -> Option<Self> {
        let mut n = 0;
        let mut before = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            before.push(n);
            n += piece.n_entries()?;
        }
        Some(Self { pieces: Arc::new(pieces), before })
    }

    fn entry(&self, number: u32) -> (&Finds, usize) {
        let piece = self.before.partition_point(|&before| before < number) - 1;
        (&self.pieces[piece], (number - self.before[piece]) as usize - 1)
    }
}

/// Builds the facts of a log and notes where its ids stand, in one pass.
pub struct Noting {
    builder: Builder,
    spots: Vec<Spot>,
    starts: Vec<u32>,
    kinds: Vec<Option<Kind>>,
    /// An entry has an id that is no UUID.
    odd: bool,
}

impl Sink for Noting {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if entry.number > 0 {
            self.kinds.push(line.kind);
            self.starts.push(u32::try_from(self.spots.len()).unwrap_or(u32::MAX));
            self.odd |= spots(entry.raw, line, entry.offset, &mut self.spots);
        } else {
            junk_spots(entry.raw, entry.offset, &mut self.spots);
        }
        self.builder.entry(entry, line);
    }

    fn defect(&mut self, defect: Defect) {
        self.builder.defect(defect);
    }
}

impl Noting {
    /// Begins with a log of about so many bytes.
    pub fn for_size(bytes: u64) -> Self {
        let builder = Builder::for_size(bytes);
        Self { builder, spots: Vec::new(), starts: Vec::new(), kinds: Vec::new(), odd: false }
    }
}

impl<'a> Source<'a> {
    /// Reads a session.
    pub fn read(bytes: &'a [u8]) -> Self {
        let mut noting = Noting::for_size(bytes.len() as u64);
        let mut scanner = Scanner::default();
        let finds = Finds::of(bytes, true);
        scanner.take(bytes, &finds, &mut noting);
        Self::new(bytes, noting, &scanner, vec![finds])
    }

    /// Joins the bytes of a log with what was noted while it was scanned, and with what was found in its
    /// pieces.
    pub fn new(bytes: &'a [u8], noting: Noting, scanner: &Scanner, finds: Vec<Finds>) -> Self {
        let Noting { builder, mut spots, mut starts, kinds, odd } = noting;
        let session = Session::new(builder.finish(scanner.lines(), scanner.bad_lines));
        if odd {
            odd_spots(bytes, &session.facts, &mut spots);
            let begin = |place: &Place| spots.partition_point(|spot| spot.at < place.offset);
            let places = session.facts.places.iter();
            starts = places.map(|place| u32::try_from(begin(place)).unwrap_or(u32::MAX)).collect();
        }
        Self { bytes, session, spots, starts, known: Known::new(finds), kinds, odd }
    }

    /// Returns the log with what every edit depends on in order: its lines, the ids of its messages.
    /// Nothing if that is so already.
    pub fn readied(&self) -> Option<Vec<u8>> {
        crate::repair::readied(self.bytes, &self.session)
    }

    /// Returns the log without a last line that was cut off while it was written.
    pub(crate) fn whole(&self) -> &'a [u8] {
        let end = memchr::memrchr(b'\n', self.bytes).map_or(0, |at| at + 1);
        let last = self.session.facts.places.last().is_some_and(|place| {
            // An object that only lacks the end of its line is whole.
            usize::try_from(place.offset).is_ok_and(|offset| offset >= end)
        });
        let begun = self.bytes[end..].trim_ascii_start().starts_with(b"{");
        if begun && !last { &self.bytes[..end] } else { self.bytes }
    }

    /// Returns a reader over its texts.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.session, self.bytes)
    }

    /// Returns the bytes of an entry, and fills `line` with its parts.
    pub(crate) fn parts(&self, number: u32, line: &mut Line) -> &'a [u8] {
        let raw = self.entry(number).0;
        match self.found(number) {
            Some((finds, n)) => finds.parts(n, line),
            None => parse_entry(raw, line),
        }
        raw
    }

    /// Returns what was found in an entry: the piece that it is part of, and its place there.
    pub(crate) fn found(&self, number: u32) -> Option<(&Finds, usize)> {
        self.known.as_ref().map(|known| known.entry(number))
    }

    /// Returns the bytes of an entry and the ids in it.
    pub(crate) fn entry(&self, number: u32) -> (&'a [u8], u64, &[Spot]) {
        let place = self.session.facts.places[number as usize - 1];
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        let raw = &self.bytes[start..start + place.len as usize];
        let end = place.offset + u64::from(place.len);
        let first = self.starts[number as usize - 1] as usize;
        let n = self.spots[first..].iter().take_while(|spot| spot.at < end).count();
        (raw, place.offset, &self.spots[first..first + n])
    }
}
