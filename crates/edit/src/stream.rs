//! A plain clone in one pass, in memory that does not grow with the texts.
//!
//! Whether an id names an entry is known when all entries are. Nearly always the entry stands before
//! what names it; where it does not, the place is noted and set right at the end.

use std::io;

use rethread_log::{Content, Defect, Entry, Key, Line, Sink};
use rethread_model::Uid;
use rustc_hash::FxHashSet;

use crate::ids::{Names, Spot, junk_spots, spots};

/// What takes the bytes of a clone.
type Write<'w> = &'w mut (dyn FnMut(&mut Vec<u8>) -> io::Result<()> + Send);

/// Renames the ids of a log while it is read.
pub struct Renaming<'n> {
    names: &'n Names<'n>,
    known: FxHashSet<Uid>,
    /// Ids that named nothing yet, and where they stand in the clone.
    late: Vec<(u64, Uid)>,
    spots: Vec<Spot>,
    out: Vec<u8>,
    written: u64,
    write: Write<'n>,
    failed: Option<io::Error>,
    odd: bool,
    open: bool,
    /// Bytes that may be a last line that was cut off: nothing stands behind them yet.
    torn: Vec<u8>,
}

/// A log whose ids were renamed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Renamed {
    /// How many bytes were written.
    pub bytes: u64,
    /// What is still to be written over what, by place.
    pub late: Vec<(u64, [u8; 36])>,
    /// Some ids are no UUIDs, so not all were found: the clone must be made in another way.
    pub odd: bool,
    /// The last line was cut off while it was written, and is not copied.
    pub torn: bool,
}

/// How much is written at once.
const PIECE: usize = 1 << 18;

impl<'n> Renaming<'n> {
    /// Begins a clone; `write` takes its bytes and leaves the buffer empty.
    pub fn new(names: &'n Names<'n>, write: Write<'n>) -> Self {
        Self {
            names,
            known: FxHashSet::default(),
            late: Vec::new(),
            spots: Vec::new(),
            out: Vec::with_capacity(2 * PIECE),
            written: 0,
            write,
            failed: None,
            odd: false,
            open: false,
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

    /// Writes the rest, and `tail` behind it.
    pub fn finish(mut self, tail: &[u8]) -> io::Result<Renamed> {
        // What a client writes behind it must not run into a line that does not end.
        if self.open {
            self.out.push(b'\n');
        }
        self.out.extend_from_slice(tail);
        self.flush();
        let known = |(at, uid): (u64, Uid)| {
            let name = self.known.contains(&uid).then(|| self.names.fresh(uid)).flatten();
            Some((at, name?))
        };
        let late = self.late.iter().copied().filter_map(known).collect();
        match self.failed {
            Some(error) => Err(error),
            None => Ok(Renamed { bytes: self.written, late, odd: self.odd, torn: !self.torn.is_empty() }),
        }
    }
}

impl Renaming<'_> {
    /// Writes bytes with the ids that were found in them renamed.
    fn put(&mut self, raw: &[u8]) {
        let start = self.out.len();
        let (known, names) = (&self.known, self.names);
        let (late, written) = (&mut self.late, self.written);
        let mut missing = |out: &[u8], uid: Uid| late.push((written + out.len() as u64, uid));
        self.names.write_knowing(
            raw,
            &self.spots,
            &mut self.out,
            &|uid| known.contains(&uid) || names.knows(uid),
            &mut missing,
        );
        self.open = self.out[start..].last().map_or(self.open, |&b| b != b'\n');
        if self.out.len() >= PIECE {
            self.flush();
        }
    }

    fn put_junk(&mut self, raw: &[u8]) {
        self.spots.clear();
        junk_spots(raw, 0, &mut self.spots);
        self.put(raw);
    }
}

impl Sink for Renaming<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let raw = entry.raw;
        let torn = std::mem::take(&mut self.torn);
        if !torn.is_empty() {
            self.put_junk(&torn);
        }
        if entry.content == Content::Object {
            self.spots.clear();
            self.odd |= spots(raw, line, 0, &mut self.spots);
            if let Some(uuid) = line.string(Key::Uuid, raw) {
                self.known.insert(Uid::new(uuid));
            }
            self.put(raw);
        } else if !raw.ends_with(b"\n") && raw.trim_ascii_start().starts_with(b"{") {
            // A last line that was cut off while it was written is not copied; whether it is the last, is seen then.
            self.torn.extend_from_slice(raw);
        } else {
            self.put_junk(raw);
        }
    }

    fn defect(&mut self, _: Defect) {}
}
