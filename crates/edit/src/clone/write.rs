//! A clone written, piece by piece: it need not be in memory as a whole.

use std::io;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;

use rayon::prelude::*;
use rethread_log::{Finds, Scanner};
use rethread_model::{Builder, Session};

use super::{Cloned, Out};
use crate::ids::{Named, is_uuid};
use crate::plan::{Plan, edited, spelled};

/// What was written.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How many bytes.
    pub bytes: u64,
    /// What a reader makes of it; nothing if it is its source but for the ids.
    pub session: Option<Session>,
}

/// About how much is made at once by each thread.
const PIECE: usize = 1 << 18;
/// How many pieces are made at once.
const AT_ONCE: usize = 8;

/// What takes the bytes, and gives a buffer for more.
type Sink<'s> = &'s mut (dyn FnMut(Vec<u8>) -> io::Result<Vec<u8>> + Send);

/// Lines and what is in them.
#[derive(Default)]
struct Piece {
    bytes: Vec<u8>,
    finds: Finds,
    /// How much was taken apart.
    known: usize,
}

impl Piece {
    /// Takes the rest apart. What is written begins without a mark, so no piece is like the first of a file.
    fn take_apart(&mut self, upto: usize) {
        if self.known < upto {
            self.finds.append(Finds::of(&self.bytes[self.known..upto], false));
            self.known = upto;
        }
    }
}

impl Cloned<'_> {
    /// Gives the clone's bytes to `sink`, in their order.
    pub fn write(&self, sink: Sink<'_>) -> io::Result<Outcome> {
        let mut bytes = 0;
        let mut sink = |piece: Vec<u8>| {
            bytes += piece.len() as u64;
            sink(piece)
        };
        let session = match &self.plan {
            None => {
                self.write_plain(&mut sink)?;
                None
            }
            Some(_) => Some(self.write_planned(&mut sink)?),
        };
        Ok(Outcome { bytes, session })
    }

    /// Returns the clone's bytes as a whole.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let _ = self.write(&mut |mut piece| {
            out.append(&mut piece);
            Ok(piece)
        });
        out
    }

    /// Writes everything as it is, but for the ids.
    fn write_plain(&self, sink: Sink<'_>) -> io::Result<()> {
        let bytes = self.source.whole();
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let most = (start + PIECE).min(bytes.len());
            let end = memchr::memchr(b'\n', &bytes[most..]).map_or(bytes.len(), |at| most + at + 1);
            pieces.push(start..end);
            start = end;
        }
        let made = |range: &std::ops::Range<usize>| {
            let mut out = Vec::with_capacity(range.len() + 4096);
            let piece = &bytes[range.clone()];
            let at = |offset: usize| self.source.spots.partition_point(|spot| spot.at < offset as u64);
            if memchr::memmem::find(piece, b"tool-results").is_none() {
                let spots = &self.source.spots[at(range.start)..at(range.end)];
                self.names.write(piece, range.start as u64, spots, &mut out);
                return out;
            }
            let mut start = range.start;
            for line in piece.split_inclusive(|&b| b == b'\n') {
                let spots = &self.source.spots[at(start)..at(start + line.len())];
                self.names.write(line, start as u64, spots, &mut out);
                start += line.len();
            }
            out
        };
        for some in pieces.chunks(AT_ONCE) {
            for piece in some.par_iter().map(made).collect::<Vec<_>>() {
                sink(piece)?;
            }
        }
        // What a client writes behind it must not run into a line that does not end.
        let mut tail = if bytes.last().is_some_and(|&b| b != b'\n') { vec![b'\n'] } else { Vec::new() };
        tail.extend_from_slice(&self.tail);
        if tail.is_empty() { Ok(()) } else { sink(tail).map(drop) }
    }

    /// Makes pieces on all threads while another reads what was made and gives it away.
    ///
    /// The threads that make pieces are shared with whoever else works on sessions. So they are never
    /// waited for by one of their own, only the one that reads is.
    fn write_planned(&self, sink: Sink<'_>) -> io::Result<Session> {
        let size = self.source.bytes.len() as u64;
        // Fresh memory costs more than what is written to it.
        let free: Mutex<Vec<Vec<u8>>> = Mutex::default();
        let (give, made) = sync_channel::<Piece>(AT_ONCE);
        std::thread::scope(|scope| {
            let back = &free;
            let reading = scope.spawn(move || {
                let (mut builder, mut scanner) = (Builder::for_size(size), Scanner::default());
                for Piece { bytes, finds, .. } in made {
                    scanner.take(&bytes, &finds, &mut builder);
                    let empty = sink(bytes)?;
                    if let Ok(mut free) = back.lock() {
                        free.push(empty);
                    }
                }
                io::Result::Ok(Session::new(builder.finish(scanner.lines(), scanner.bad_lines)))
            });
            let pieces = self.pieces();
            let made = |outs: &&[Out]| {
                let mut bytes = free.lock().ok().and_then(|mut free| free.pop()).unwrap_or_default();
                bytes.clear();
                self.lines(outs, bytes)
            };
            let all = pieces
                .chunks(AT_ONCE)
                .flat_map(|some| some.par_iter().map(made).collect::<Vec<_>>())
                .chain([self.tail()]);
            for piece in all.filter(|piece| !piece.bytes.is_empty()) {
                if give.send(piece).is_err() {
                    // It failed, and says why.
                    break;
                }
            }
            drop(give);
            reading.join().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))
        })
    }

    /// What is written, in pieces of about the same size.
    fn pieces(&self) -> Vec<&[Out]> {
        let mut pieces = Vec::new();
        let (mut start, mut size) = (0, 0);
        for (at, out) in self.order.iter().enumerate() {
            if let Out::Entry(number, _) = out {
                size += self.source.session.facts.places[*number as usize - 1].len as usize;
            }
            if size >= PIECE {
                pieces.push(&self.order[start..=at]);
                (start, size) = (at + 1, 0);
            }
        }
        pieces.push(&self.order[start..]);
        pieces
    }

    /// Writes lines to a buffer, and takes apart what was changed in more than its ids: the form of all
    /// others is known.
    fn lines(&self, outs: &[Out], bytes: Vec<u8>) -> Piece {
        let mut piece = Piece { bytes, ..Piece::default() };
        let Some(plan) = &self.plan else { return piece };
        for out in outs {
            match *out {
                Out::New(new) => piece.bytes.extend(spelled(plan, &plan.new[new], &self.names)),
                Out::Entry(number, node) => {
                    let node = node.map(|node| node as usize);
                    let from = node.map_or(number, |node| plan.facts.nodes[plan.content_node(node)].entry);
                    let start = piece.bytes.len();
                    let same = self.line(plan, from, node, &mut piece.bytes);
                    if let Some((finds, n)) = self.source.found(from).filter(|_| same) {
                        piece.take_apart(start);
                        piece.finds.repeat(finds, n);
                        piece.known = piece.bytes.len();
                    }
                }
            }
        }
        piece.take_apart(piece.bytes.len());
        piece
    }

    /// What stands behind all others.
    fn tail(&self) -> Piece {
        let mut piece = Piece { bytes: self.tail.clone(), ..Piece::default() };
        piece.take_apart(piece.bytes.len());
        piece
    }

    /// Writes one entry on a line of its own; tells whether everything in it stands where it stood.
    fn line(&self, plan: &Plan<'_>, number: u32, node: Option<usize>, bytes: &mut Vec<u8>) -> bool {
        let (whole, offset, spots) = self.source.entry(number);
        let start = whole.iter().position(|&b| b == b'{').unwrap_or(0);
        let (raw, offset) = (&whole[start..], offset + start as u64);
        // Most entries stay as they are, only hang on another, or are only shorter.
        let cuts = match node.and_then(|node| plan.edits.get(&node)) {
            Some(edit) => edit.only_cuts().filter(|cuts| cuts.is_empty() || start == 0),
            None => Some(&[][..]),
        };
        let parent = node.and_then(|node| plan.new_parent(node));
        let name = parent.map(|parent| parent.map(|parent| plan.name(parent, &self.names)));
        let named = || spots.iter().any(|spot| spot.names == Named::Parent);
        let parent = match &name {
            None => Some(None),
            Some(Some(name)) if is_uuid(name.as_bytes()) && named() => Some(Some(name.as_bytes())),
            Some(_) => None,
        };
        let written = cuts
            .zip(parent)
            .and_then(|(cuts, parent)| self.names.write_with(raw, offset, spots, parent, cuts, bytes));
        let same = match (written, node) {
            (Some(same), _) => same,
            (None, Some(node)) => {
                // What is cut is counted from the beginning of the line.
                bytes.extend_from_slice(&edited(plan, whole, node, &self.names)[start..]);
                false
            }
            (None, None) => {
                self.names.write(raw, offset, spots, bytes);
                false
            }
        };
        if bytes.last() == Some(&b'\n') {
            return same && start == 0;
        }
        bytes.push(b'\n');
        false
    }
}
