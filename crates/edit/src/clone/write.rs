//! A clone written, piece by piece: it need not be in memory as a whole.

use std::io;
use std::sync::mpsc::sync_channel;

use rayon::prelude::*;
use rethread_log::{Finds, Scanner};
use rethread_model::{Builder, Session};

use super::{Cloned, Out};
use crate::plan::{Edit, Plan, edited, spelled};

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

/// What takes the bytes.
type Sink<'s> = &'s mut (dyn FnMut(Vec<u8>) -> io::Result<()> + Send);

/// What is written is read again: it begins without a mark, so no piece is like the first of a file.
fn taken_apart(piece: Vec<u8>) -> (Vec<u8>, Finds) {
    let finds = Finds::of(&piece, false);
    (piece, finds)
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
        let _ = self.write(&mut |piece| {
            out.extend(piece);
            Ok(())
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
        if tail.is_empty() { Ok(()) } else { sink(tail) }
    }

    /// Makes pieces on all threads while another reads what was made and gives it away.
    ///
    /// The threads that make pieces are shared with whoever else works on sessions. So they are never
    /// waited for by one of their own, only the one that reads is.
    fn write_planned(&self, sink: Sink<'_>) -> io::Result<Session> {
        let size = self.source.bytes.len() as u64;
        let (give, made) = sync_channel::<(Vec<u8>, Finds)>(2 * AT_ONCE);
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let (mut builder, mut scanner) = (Builder::for_size(size), Scanner::default());
                for (piece, finds) in made {
                    scanner.take(&piece, &finds, &mut builder);
                    sink(piece)?;
                }
                io::Result::Ok(Session::new(builder.finish(scanner.lines(), scanner.bad_lines)))
            });
            let pieces = self.pieces();
            let made = |outs: &&[Out]| taken_apart(self.lines(outs));
            let all = pieces
                .chunks(AT_ONCE)
                .flat_map(|some| some.par_iter().map(made).collect::<Vec<_>>())
                .chain([taken_apart(self.tail.clone())]);
            for piece in all.filter(|(piece, _)| !piece.is_empty()) {
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

    fn lines(&self, outs: &[Out]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(PIECE);
        let Some(plan) = &self.plan else { return bytes };
        for out in outs {
            match *out {
                Out::New(new) => bytes.extend(spelled(plan, &plan.new[new], &self.names)),
                Out::Entry(number, node) => {
                    let edit = node.and_then(|node| plan.edits.get(&(node as usize)));
                    let from = edit.and_then(|edit| edit.replaced_by);
                    let number = from.map_or(number, |from| plan.facts.nodes[from].entry);
                    self.line(plan, number, edit, &mut bytes);
                }
            }
        }
        bytes
    }

    /// One entry on a line of its own.
    fn line(&self, plan: &Plan<'_>, number: u32, edit: Option<&Edit>, bytes: &mut Vec<u8>) {
        let (raw, offset, spots) = self.source.entry(number);
        let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
        let raw = &raw[start..];
        match edit {
            Some(edit) => bytes.extend(edited(plan, raw, edit, &self.names)),
            None => self.names.write(raw, offset + start as u64, spots, bytes),
        }
        if bytes.last() != Some(&b'\n') {
            bytes.push(b'\n');
        }
    }
}
