//! The last stage: writes the lines of a clone in pieces. It need not be in memory as a whole.

use std::io;
use std::num::NonZero;
use std::ops::Range;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Mutex, PoisonError};

use rethread_log::{ParsedChunk, Scanner};
use rethread_model::{EntryNo, FactsBuilder, NodeId, Session, Uid};

use super::PreparedClone;
use super::order::OutputLine;
use crate::ids::{IdRole, is_uuid};
use crate::plan::{Plan, write_added, write_edited};
use crate::source::Window;

/// The result of writing a clone.
#[derive(Debug, Clone)]
pub struct WriteOutcome {
    /// Number of bytes.
    pub bytes: u64,
    /// The written clone, read again; `None` if it equals its source except for ids.
    pub session: Option<Session>,
}

/// Approximate number of bytes that a thread builds at once.
pub(super) const PIECE: usize = 1 << 18;
/// Maximum number of queued pieces for each thread that builds them.
const WAITING: usize = 4;

/// Consumes bytes and returns a buffer for more.
type BufferSink<'s> = &'s mut (dyn FnMut(Vec<u8>) -> io::Result<Vec<u8>> + Send);

/// Lines that were built.
#[derive(Default)]
struct ClonePiece {
    bytes: Vec<u8>,
    /// The result of scanning them; empty if only ids change.
    parsed: ParsedChunk,
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
        let session = if self.is_plain() {
            self.each_piece(&mut |piece| sink(piece.bytes))?;
            None
        } else {
            Some(self.write_and_reread(&mut sink)?)
        };
        match self.source.failure() {
            Some(error) => Err(error),
            None => Ok(WriteOutcome { bytes, session }),
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

    /// Builds pieces while another thread reads them and passes them to `sink`.
    fn write_and_reread(&self, sink: BufferSink<'_>) -> io::Result<Session> {
        let size = self.source.size();
        let (give, pieces) = sync_channel::<ClonePiece>(WAITING);
        let (give_back, free) = channel::<Vec<u8>>();
        std::thread::scope(|scope| {
            let reading = scope.spawn(move || {
                let (mut builder, mut scanner) = (FactsBuilder::for_size(size), Scanner::default());
                for ClonePiece { bytes, parsed } in pieces {
                    scanner.scan_parsed(&bytes, &parsed, &mut builder);
                    let _ = give_back.send(sink(bytes)?);
                }
                io::Result::Ok(Session::new(builder.finish(scanner.lines(), scanner.bad_lines)))
            });
            // On failure, the reading thread reports the error.
            let _ = self.each_piece(&mut |piece| {
                give.send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
                Ok(free.try_recv().unwrap_or_default())
            });
            drop(give);
            reading.join().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))
        })
    }

    /// Builds pieces on all processors and passes them to `give` in order, which returns a buffer for more.
    fn each_piece(&self, give: &mut dyn FnMut(ClonePiece) -> io::Result<Vec<u8>>) -> io::Result<()> {
        // Allocating fresh memory costs more than writing to it.
        let buffers = Pool::default();
        parallel_in_order(
            &self.pieces(),
            |lines, window| self.build_piece(lines, buffers.take(), window),
            |piece| give(piece).map(|buffer| buffers.give_back(buffer)),
        )
    }

    /// Splits the lines into pieces of about the same size.
    fn pieces(&self) -> Vec<&[OutputLine]> {
        let mut pieces = Vec::new();
        let (mut start, mut size) = (0, 0);
        for (at, line) in self.lines.iter().enumerate() {
            size += match line {
                OutputLine::Unedited(range) => range.len(),
                line => self.number_of(line).map_or(0, |number| self.source.place(number).len as usize),
            };
            if size >= PIECE {
                pieces.push(&self.lines[start..=at]);
                (start, size) = (at + 1, 0);
            }
        }
        if start < self.lines.len() {
            pieces.push(&self.lines[start..]);
        }
        pieces
    }

    /// Returns the number of the source's entry in a line.
    fn number_of(&self, line: &OutputLine) -> Option<EntryNo> {
        match *line {
            OutputLine::Record(number) => Some(number),
            OutputLine::Entry(node) => Some(self.source.session.facts.nodes[node].entry),
            OutputLine::Unedited(_) | OutputLine::Added(_) | OutputLine::Text(_) => None,
        }
    }

    /// Writes lines to a buffer, and parses what was written unless only ids change.
    fn build_piece(&self, lines: &[OutputLine], mut bytes: Vec<u8>, window: &mut Window) -> ClonePiece {
        bytes.clear();
        let (size, (start, len)) = self.log_range(lines);
        window.move_to(start, len);
        // Few lines grow: an entry gets a parent, or a line end.
        bytes.reserve(size + size / 64);
        // The entry that was written last: mostly the parent of the next.
        let mut last: Option<Uid> = None;
        for line in lines {
            self.write_line(line, &mut last, window, &mut bytes);
        }
        // The output begins without a byte order mark, so no piece is parsed as the first of a file.
        let parsed = if self.is_plain() { ParsedChunk::default() } else { ParsedChunk::parse(&bytes, false) };
        ClonePiece { bytes, parsed }
    }

    fn write_line(
        &self,
        line: &OutputLine,
        last: &mut Option<Uid>,
        window: &mut Window,
        bytes: &mut Vec<u8>,
    ) {
        match (line, &self.plan) {
            (OutputLine::Unedited(range), _) => self.write_unedited(range.clone(), bytes),
            (OutputLine::Text(text), _) => bytes.extend_from_slice(text),
            (&OutputLine::Added(new), Some(plan)) => write_added(plan, &plan.added[new], &self.ids, bytes),
            (&OutputLine::Record(number), _) => {
                self.write_record(number, window.entry(self.source, number), bytes);
            }
            (&OutputLine::Entry(node), Some(plan)) => {
                let raw = window.entry(self.source, plan.node(plan.content_node(node)).entry);
                let own = Some(plan.node(node).uid);
                // If it could not be read again, it is empty, which is reported at the end.
                if !raw.is_empty() {
                    self.write_entry(plan, raw, node, [own, *last], bytes);
                    *last = own;
                }
            }
            // Only a plan adds or edits entries.
            (OutputLine::Added(_) | OutputLine::Entry(_), None) => {}
        }
    }

    /// Writes lines of the source, of which only ids change.
    fn write_unedited(&self, range: Range<usize>, bytes: &mut Vec<u8>) {
        let piece = &self.source.complete_lines()[range.clone()];
        let spans = &self.source.id_spans;
        let at = |offset: usize| spans.partition_point(|span| span.at < offset as u64);
        if memchr::memmem::find(piece, b"tool-results").is_none() {
            let spans = &spans[at(range.start)..at(range.end)];
            self.ids.write(piece, range.start as u64, spans, bytes);
        } else {
            let mut start = range.start;
            for line in piece.split_inclusive(|&b| b == b'\n') {
                let spans = &spans[at(start)..at(start + line.len())];
                self.ids.write(line, start as u64, spans, bytes);
                start += line.len();
            }
        }
        end_line(bytes);
    }

    /// Returns the size of these entries, and the range of the log that is read at once for them: from the first to the
    /// last, or empty if most of that is other entries.
    fn log_range(&self, lines: &[OutputLine]) -> (usize, (u64, usize)) {
        let (mut start, mut end, mut size) = (u64::MAX, 0, 0);
        for number in lines.iter().filter_map(|line| self.number_of(line)) {
            let place = self.source.place(number);
            let len = u64::from(place.len);
            (start, end, size) = (start.min(place.offset), end.max(place.offset + len), size + len);
        }
        // Very long entries may be in memory already, so nothing is read around them.
        let near = |all: &u64| *all <= 2 * size && *all <= 16 * PIECE as u64;
        let all = Some(end.saturating_sub(start)).filter(near).unwrap_or(0);
        (usize::try_from(size).unwrap_or(0), (start, usize::try_from(all).unwrap_or(0)))
    }

    /// Writes an entry outside of the tree as a separate line.
    fn write_record(&self, number: EntryNo, whole: &[u8], bytes: &mut Vec<u8>) {
        if whole.is_empty() {
            return;
        }
        let start = start_of_object(whole);
        let offset = self.source.place(number).offset + start as u64;
        self.ids.write(&whole[start..], offset, self.source.id_spans_of(number), bytes);
        end_line(bytes);
    }

    /// Writes an entry as a separate line; `whole` are the bytes of its content node.
    fn write_entry(
        &self,
        plan: &Plan<'_>,
        whole: &[u8],
        node: NodeId,
        near: [Option<Uid>; 2],
        bytes: &mut Vec<u8>,
    ) {
        let start = start_of_object(whole);
        if !self.write_simple_edit(plan, whole, start, node, near, bytes) {
            // Cuts are relative to the start of the line.
            let begin = bytes.len();
            write_edited(plan, whole, node, &self.ids, bytes);
            bytes.drain(begin..begin + start);
        }
        end_line(bytes);
    }

    /// Writes an entry that is unchanged, only reparented, or only shortened, as most are. Writes nothing and returns
    /// `false` for others.
    fn write_simple_edit(
        &self,
        plan: &Plan<'_>,
        whole: &[u8],
        start: usize,
        node: NodeId,
        near: [Option<Uid>; 2],
        bytes: &mut Vec<u8>,
    ) -> bool {
        let cuts = plan.cuts.of_node(node);
        let edited = plan.edits.get(node).is_some_and(|edit| !edit.is_none());
        if edited || !cuts.is_empty() && start > 0 {
            return false;
        }
        let number = plan.node(plan.content_node(node)).entry;
        let spans = self.source.id_spans_of(number);
        let parent = match plan.new_parent(node) {
            None => None,
            Some(None) => return false,
            Some(Some(parent)) => Some(plan.new_id(parent, &self.ids)),
        };
        let has_parent = || spans.iter().any(|span| span.role == IdRole::Parent);
        if parent.as_ref().is_some_and(|id| !is_uuid(id.as_bytes()) || !has_parent()) {
            return false;
        }
        let offset = self.source.place(number).offset + start as u64;
        let parent = parent.as_ref().map(|id| id.as_bytes());
        self.ids.write_edited(&whole[start..], offset, spans, near, parent, cuts, bytes)
    }
}

/// Returns the position of an entry's object in its line.
fn start_of_object(line: &[u8]) -> usize {
    line.iter().position(|&b| b == b'{').unwrap_or(0)
}

/// Ends the last line: a line that follows must not run into it.
fn end_line(bytes: &mut Vec<u8>) {
    if bytes.last() != Some(&b'\n') {
        bytes.push(b'\n');
    }
}
