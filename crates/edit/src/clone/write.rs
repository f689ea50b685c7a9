//! Writes a clone in pieces: it need not be in memory as a whole.

use std::io;
use std::num::NonZero;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use rethread_log::{Line, ParsedChunk, Scanner, parse_entry};
use rethread_model::{BlockClass, ByteCounts, EntryNo, FactsBuilder, Finding, NodeId, Session, Uid};

use super::{CloneLine, CloneSummary, PreparedClone};
use crate::ids::{IdRole, is_uuid};
use crate::plan::{Plan, write_added, write_edited};
use crate::source::Window;

/// The result of writing a clone.
#[derive(Debug, Clone)]
pub struct WriteOutcome {
    /// Number of bytes.
    pub bytes: u64,
    /// The facts of the written clone.
    pub reading: CloneReading,
}

/// The facts of a written clone, and how they were obtained.
#[derive(Debug, Clone)]
pub enum CloneReading {
    /// The same as the source's, except for ids.
    SameAsSource,
    /// A linear clone, predicted before it was written; with what clients would lose or reject.
    Predicted(Box<CloneSummary>, Vec<Finding>),
    /// Read again while it was written.
    Reread(Box<Session>),
}

/// Approximate number of bytes that a thread builds at once.
const PIECE: usize = 1 << 18;
/// Maximum number of queued pieces for each thread that builds them.
const WAITING: usize = 4;

/// Consumes bytes and returns a buffer for more.
type BufferSink<'s> = &'s mut (dyn FnMut(Vec<u8>) -> io::Result<Vec<u8>> + Send);

/// Lines that were built.
#[derive(Default)]
struct ClonePiece {
    bytes: Vec<u8>,
    /// Byte counts of the lines, if the summary was predicted; else everything is in `finds`.
    byte_counts: ByteCounts,
    finds: ParsedChunk,
}

/// Reusable buffers.
#[derive(Default)]
struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    fn take(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    fn give_back(&self, buffer: Vec<u8>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }
}

/// Maps items on all processors and passes the results to `take` in item order. Each thread has a workspace `W`. The
/// threads take turns, each a few items ahead of `take`.
fn parallel_in_order<T: Sync, W: Default, M: Send>(
    items: &[T],
    make: impl Fn(&T, &mut W) -> M + Sync,
    mut take: impl FnMut(M) -> io::Result<()>,
) -> io::Result<()> {
    let n = std::thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    let make = &make;
    std::thread::scope(|scope| {
        let turns: Vec<Receiver<M>> = (0..n)
            .map(|first| {
                let (give, results) = sync_channel(WAITING);
                scope.spawn(move || {
                    let mut workspace = W::default();
                    // If the receiver is gone, it failed and reports the error.
                    let mut give = |item| give.send(make(item, &mut workspace)).is_ok();
                    items.iter().skip(first).step_by(n).all(&mut give)
                });
                results
            })
            .collect();
        for results in turns.iter().cycle().take(items.len()) {
            take(results.recv().map_err(|_| io::Error::from(io::ErrorKind::Interrupted))?)?;
        }
        Ok(())
    })
}

impl PreparedClone<'_> {
    /// Passes the clone's bytes to `sink`, in order.
    pub fn write(&self, sink: BufferSink<'_>) -> io::Result<WriteOutcome> {
        let mut bytes = 0;
        let mut sink = |piece: Vec<u8>| {
            bytes += piece.len() as u64;
            sink(piece)
        };
        let reading = match (&self.plan, self.predicted_summary()) {
            (None, _) => {
                self.write_plain(&mut sink)?;
                CloneReading::SameAsSource
            }
            (Some(_), Some((summary, harm))) => {
                let bytes = self.write_predicted(&mut sink)?;
                CloneReading::Predicted(Box::new(CloneSummary { bytes, ..summary }), harm)
            }
            (Some(_), None) => CloneReading::Reread(Box::new(self.write_and_reread(&mut sink)?)),
        };
        match self.source.failure() {
            Some(error) => Err(error),
            None => Ok(WriteOutcome { bytes, reading }),
        }
    }

    /// Returns the clone's bytes as a whole.
    pub fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        self.write(&mut |mut piece| {
            out.append(&mut piece);
            Ok(piece)
        })?;
        Ok(out)
    }

    /// Writes everything unchanged, except for ids.
    fn write_plain(&self, sink: BufferSink<'_>) -> io::Result<()> {
        let bytes = self.source.complete_lines();
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < bytes.len() {
            let most = (start + PIECE).min(bytes.len());
            let end = memchr::memchr(b'\n', &bytes[most..]).map_or(bytes.len(), |at| most + at + 1);
            pieces.push(start..end);
            start = end;
        }
        let build = |range: &std::ops::Range<usize>| {
            let mut out = Vec::with_capacity(range.len() + 4096);
            let piece = &bytes[range.clone()];
            let at = |offset: usize| self.source.id_spans.partition_point(|span| span.at < offset as u64);
            if memchr::memmem::find(piece, b"tool-results").is_none() {
                let spans = &self.source.id_spans[at(range.start)..at(range.end)];
                self.id_map.write(piece, range.start as u64, spans, &mut out);
                return out;
            }
            let mut start = range.start;
            for line in piece.split_inclusive(|&b| b == b'\n') {
                let spans = &self.source.id_spans[at(start)..at(start + line.len())];
                self.id_map.write(line, start as u64, spans, &mut out);
                start += line.len();
            }
            out
        };
        parallel_in_order(&pieces, |range, ()| build(range), |piece| sink(piece).map(drop))?;
        // A line that a client appends must not run into an unterminated one.
        let mut tail = if bytes.last().is_some_and(|&b| b != b'\n') { vec![b'\n'] } else { Vec::new() };
        tail.extend_from_slice(&self.tail);
        if tail.is_empty() { Ok(()) } else { sink(tail).map(drop) }
    }

    /// Builds pieces and passes them to `sink`; returns their byte counts.
    fn write_predicted(&self, sink: BufferSink<'_>) -> io::Result<ByteCounts> {
        let mut byte_counts = ByteCounts::default();
        self.each_piece(true, &mut |piece| {
            byte_counts.add(piece.byte_counts);
            sink(piece.bytes)
        })?;
        Ok(byte_counts)
    }

    /// Builds pieces while another thread reads them and passes them to `sink`.
    fn write_and_reread(&self, sink: BufferSink<'_>) -> io::Result<Session> {
        let size = self.source.size();
        let (give, pieces) = sync_channel::<ClonePiece>(WAITING);
        let (give_back, free) = channel::<Vec<u8>>();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let (mut builder, mut scanner) = (FactsBuilder::for_size(size), Scanner::default());
                for ClonePiece { bytes, finds, .. } in pieces {
                    scanner.scan_parsed(&bytes, &finds, &mut builder);
                    let _ = give_back.send(sink(bytes)?);
                }
                io::Result::Ok(Session::new(builder.finish(scanner.lines(), scanner.bad_lines)))
            });
            // On failure, the reading thread reports the error.
            let _ = self.each_piece(false, &mut |piece| {
                give.send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok(free.try_recv().unwrap_or_default())
            });
            drop(give);
            reading.join().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))
        })
    }

    /// Builds pieces on all processors and passes them to `give` in order, which returns a buffer for more.
    fn each_piece(
        &self,
        predicted: bool,
        give: &mut dyn FnMut(ClonePiece) -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        // Allocating fresh memory costs more than writing to it.
        let buffers = Pool::default();
        parallel_in_order(
            &self.pieces(),
            |outs, window| self.build_piece(outs, predicted, buffers.take(), window),
            |piece| give(piece).map(|buffer| buffers.give_back(buffer)),
        )?;
        if self.tail.is_empty() {
            return Ok(());
        }
        let mut tail = ClonePiece {
            bytes: self.tail.clone(),
            finds: ParsedChunk::parse(&self.tail, false),
            ..ClonePiece::default()
        };
        for line in self.tail.split_inclusive(|&b| b == b'\n') {
            tail.byte_counts.add(byte_counts_of(line, &mut Line::default()));
        }
        give(tail).map(drop)
    }

    /// Splits the lines into pieces of about the same size.
    fn pieces(&self) -> Vec<&[CloneLine]> {
        let mut pieces = Vec::new();
        let (mut start, mut size) = (0, 0);
        for (at, out) in self.order.iter().enumerate() {
            if let CloneLine::Entry(number, _) = out {
                size += self.source.place(*number).len as usize;
            }
            if size >= PIECE {
                pieces.push(&self.order[start..=at]);
                (start, size) = (at + 1, 0);
            }
        }
        pieces.push(&self.order[start..]);
        pieces
    }

    /// Writes lines to a buffer, and parses what was written.
    fn build_piece(
        &self,
        outs: &[CloneLine],
        predicted: bool,
        bytes: Vec<u8>,
        window: &mut Window,
    ) -> ClonePiece {
        let mut piece = ClonePiece { bytes, ..ClonePiece::default() };
        piece.bytes.clear();
        let Some(plan) = &self.plan else { return piece };
        let (size, (start, len)) = self.log_range(outs);
        window.move_to(start, len);
        // Few lines grow: an entry gets a parent, or a line end.
        piece.bytes.reserve(size + size / 64);
        let mut line = Line::default();
        // The entry that was written last: mostly the parent of the next.
        let mut last: Option<Uid> = None;
        for out in outs {
            let start = piece.bytes.len();
            let (same, number) = match *out {
                CloneLine::Added(new) => {
                    write_added(plan, &plan.added[new], &self.id_map, &mut piece.bytes);
                    (false, None)
                }
                CloneLine::Entry(number, node) => {
                    let from = node.map_or(number, |node| plan.facts.nodes[plan.content_node(node)].entry);
                    let raw = window.entry(self.source, from);
                    if raw.is_empty() {
                        // It could not be read again, which is reported at the end.
                        continue;
                    }
                    let own = node.map(|node| plan.facts.nodes[node].uid).or(last);
                    let same = self.write_line(plan, raw, from, node, [own, last], &mut piece.bytes);
                    last = own;
                    (same, Some(from))
                }
            };
            if predicted
                && same
                && let Some(number) = number
            {
                self.source.add_byte_counts(number, &mut piece.byte_counts);
            } else if predicted {
                let written = &piece.bytes[start..];
                if !self.add_shortened_counts(plan, *out, written.len(), &mut piece.byte_counts) {
                    piece.byte_counts.add(byte_counts_of(written, &mut line));
                }
            }
        }
        if !predicted {
            // The output begins without a byte order mark, so no piece is parsed as the first of a file.
            piece.finds = ParsedChunk::parse(&piece.bytes, false);
        }
        piece
    }

    /// Adds the byte counts of an entry that is `len` bytes long now. Returns whether they are known: the entry must be
    /// shortened only.
    fn add_shortened_counts(
        &self,
        plan: &Plan<'_>,
        out: CloneLine,
        len: usize,
        byte_counts: &mut ByteCounts,
    ) -> bool {
        let CloneLine::Entry(number, Some(node)) = out else { return false };
        let (cuts, blocks) = (plan.cuts.of_node(node), plan.facts.blocks_of(node));
        let saved: usize = cuts.iter().map(|cut| cut.cut.saved_bytes()).sum();
        let changed = plan.edits.get(node).is_some_and(|edit| !edit.is_none());
        // Ids of another length change other counts too.
        if cuts.is_empty() || changed || self.source.place(number).len as usize != len + saved {
            return false;
        }
        self.source.add_byte_counts(number, byte_counts);
        for cut in cuts {
            let kind = match blocks.get(cut.part as usize).map(|block| block.class) {
                None => &mut byte_counts.tool_use_result,
                Some(BlockClass::ToolCall) => &mut byte_counts.tool_input,
                Some(_) => &mut byte_counts.tool_result,
            };
            *kind -= cut.cut.saved_bytes() as u64;
        }
        true
    }

    /// Returns the size of these entries, and the range of the log that is read at once for them: from the first to the
    /// last, or empty if most of that is other entries.
    fn log_range(&self, outs: &[CloneLine]) -> (usize, (u64, usize)) {
        let places = outs.iter().filter_map(|out| match *out {
            CloneLine::Entry(number, _) => Some(self.source.place(number)),
            CloneLine::Added(_) => None,
        });
        let (mut start, mut end, mut size) = (u64::MAX, 0, 0);
        for place in places {
            let len = u64::from(place.len);
            (start, end, size) = (start.min(place.offset), end.max(place.offset + len), size + len);
        }
        // Very long entries may be in memory already, so nothing is read around them.
        let near = |all: &u64| *all <= 2 * size && *all <= 16 * PIECE as u64;
        let all = Some(end.saturating_sub(start)).filter(near).unwrap_or(0);
        (usize::try_from(size).unwrap_or(0), (start, usize::try_from(all).unwrap_or(0)))
    }

    /// Writes one entry as a separate line; returns whether all offsets are unchanged.
    fn write_line(
        &self,
        plan: &Plan<'_>,
        whole: &[u8],
        number: EntryNo,
        node: Option<NodeId>,
        near: [Option<Uid>; 2],
        bytes: &mut Vec<u8>,
    ) -> bool {
        let start = whole.iter().position(|&b| b == b'{').unwrap_or(0);
        let (raw, offset) = (&whole[start..], self.source.place(number).offset + start as u64);
        let spans = self.source.id_spans_of(number);
        // Most entries are kept unchanged, only reparented, or only shortened.
        let cuts = match node.and_then(|node| plan.edits.get(node)) {
            Some(edit) if !edit.is_none() => None,
            _ => node.map_or(Some(&[][..]), |node| Some(plan.cuts.of_node(node))),
        };
        let cuts = cuts.filter(|cuts| cuts.is_empty() || start == 0);
        let parent = node.and_then(|node| plan.new_parent(node));
        let name = parent.map(|parent| parent.map(|parent| plan.new_id(parent, &self.id_map)));
        let has_parent = || spans.iter().any(|span| span.role == IdRole::Parent);
        let parent = match &name {
            None => Some(None),
            Some(Some(name)) if is_uuid(name.as_bytes()) && has_parent() => Some(Some(name.as_bytes())),
            Some(_) => None,
        };
        let written = cuts.zip(parent).and_then(|(cuts, parent)| {
            self.id_map.write_edited(raw, offset, spans, near, parent, cuts, bytes)
        });
        let same = match (written, node) {
            (Some(same), _) => same,
            (None, Some(node)) => {
                // Cuts are relative to the start of the line.
                let begin = bytes.len();
                write_edited(plan, whole, node, &self.id_map, bytes);
                bytes.drain(begin..begin + start);
                false
            }
            (None, None) => {
                self.id_map.write(raw, offset, spans, bytes);
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

/// Returns the byte counts of a line.
fn byte_counts_of(written: &[u8], line: &mut Line) -> ByteCounts {
    parse_entry(written, line);
    ByteCounts::of_entry(line, written)
}
