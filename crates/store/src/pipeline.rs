//! One large log, read with all processors: what is read is taken apart on a second thread and made
//! use of on a third.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rethread_log::{ParsedChunk, Scanner, Sink};

use crate::read::{Buffer, for_each_buffer};

/// How many pieces wait at most.
const MAX_QUEUED_PIECES: usize = 4;
/// How large they are: all that are on their way should fit in what a processor has nearest to it.
const PIECE: usize = 1 << 18;

/// Reads a log once for two sinks, each on a thread of its own, `limit` bytes at most; returns the
/// scanner and how much was read.
pub fn scan_into_two_sinks(
    mut file: &File,
    limit: u64,
    one: &mut (impl Sink + Send),
    two: &mut (impl Sink + Send),
) -> io::Result<(Scanner, u64)> {
    type SharedChunk = Arc<(Buffer, ParsedChunk)>;
    fn drain_into(
        found: Receiver<SharedChunk>,
        free: &SyncSender<(Buffer, ParsedChunk)>,
        sink: &mut impl Sink,
    ) -> Scanner {
        let mut scanner = Scanner::default();
        for found in found {
            scanner.scan_parsed(found.0.piece(), &found.1, sink);
            // Whoever is the last gives the memory back.
            if let Some(found) = Arc::into_inner(found).filter(|(buffer, _)| buffer.is_reusable()) {
                let _ = free.try_send(found);
            }
        }
        scanner
    }
    let (give_one, for_one) = sync_channel::<SharedChunk>(MAX_QUEUED_PIECES);
    let (give_two, for_two) = sync_channel::<SharedChunk>(MAX_QUEUED_PIECES);
    let (give_back, free) = sync_channel(2 * MAX_QUEUED_PIECES);
    std::thread::scope(|scope| {
        let back = give_back.clone();
        let one = scope.spawn(move || drain_into(for_one, &back, one));
        let two = scope.spawn(move || drain_into(for_two, &give_back, two));
        let mut first = true;
        let mut finds = ParsedChunk::default();
        let read = for_each_buffer(&mut file, limit, PIECE, Buffer::default(), |buffer| {
            finds.reparse(buffer.piece(), std::mem::take(&mut first));
            let found = Arc::new((buffer, std::mem::take(&mut finds)));
            let _ = give_one.send(Arc::clone(&found));
            let _ = give_two.send(found);
            let (buffer, empty) = free.try_recv().unwrap_or_default();
            finds = empty;
            buffer
        });
        drop((give_one, give_two));
        let lost = |_| io::Error::from(io::ErrorKind::Interrupted);
        let scanner = one.join().map_err(lost);
        two.join().map_err(lost)?;
        Ok((scanner?, read?.0))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rethread_model::FactsBuilder;

    use super::*;

    /// A log with lines of all lengths, the last without an end.
    fn log() -> Vec<u8> {
        let mut log = Vec::new();
        for (n, len) in [10, PIECE - 60, PIECE, 3, 3 * PIECE, 7].into_iter().enumerate() {
            let text = "x".repeat(len);
            log.extend(
                format!("{{\"type\":\"user\",\"uuid\":\"{n}\",\"message\":{{\"content\":\"{text}\"}}}}\n")
                    .bytes(),
            );
        }
        log.extend_from_slice(b"{\"type\":\"us");
        log
    }

    fn facts(builder: FactsBuilder, scanner: &Scanner) -> String {
        format!("{:?}", builder.finish(scanner.lines(), scanner.bad_lines).locations)
    }

    #[test]
    fn a_log_is_read_as_on_one_thread() {
        let log = log();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&log).expect("it can be written");
        let mut builder = FactsBuilder::for_size(0);
        let mut scanner = Scanner::default();
        scanner.scan(&log, &mut builder);
        let expected = facts(builder, &scanner);
        for limit in [log.len(), log.len() + 100] {
            let file = File::open(file.path()).expect("it can be opened");
            let (mut one, mut two) = (FactsBuilder::for_size(0), FactsBuilder::for_size(0));
            let (scanner, read) =
                scan_into_two_sinks(&file, limit as u64, &mut one, &mut two).expect("it can be read");
            assert_eq!(read, log.len() as u64);
            assert_eq!(facts(one, &scanner), expected);
            assert_eq!(facts(two, &scanner), expected);
        }
    }
}
