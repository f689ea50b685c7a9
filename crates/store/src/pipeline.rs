//! Reads one large log on several threads: one reads and parses, two process the entries.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rethread_log::{ParsedChunk, Scanner, Sink};

use crate::read::{Buffer, for_each_buffer};

/// The maximum number of queued pieces.
const MAX_QUEUED_PIECES: usize = 4;
/// The size of a piece: all pieces in flight should fit in the CPU cache.
const PIECE: usize = 1 << 18;

/// Reads a log once for two sinks, each on its own thread, up to `limit` bytes; returns the scanner and
/// the number of bytes read.
pub fn scan_into_two_sinks(
    mut file: &File,
    limit: u64,
    one: &mut (impl Sink + Send),
    two: &mut (impl Sink + Send),
) -> io::Result<(Scanner, u64)> {
    type SharedChunk = Arc<(Buffer, ParsedChunk)>;
    fn drain_into(
        chunks: Receiver<SharedChunk>,
        free: &SyncSender<(Buffer, ParsedChunk)>,
        sink: &mut impl Sink,
    ) -> Scanner {
        let mut scanner = Scanner::default();
        for chunk in chunks {
            scanner.scan_parsed(chunk.0.piece(), &chunk.1, sink);
            // The last user returns the memory.
            if let Some(chunk) = Arc::into_inner(chunk).filter(|(buffer, _)| buffer.is_reusable()) {
                let _ = free.try_send(chunk);
            }
        }
        scanner
    }
    let (sender_one, receiver_one) = sync_channel::<SharedChunk>(MAX_QUEUED_PIECES);
    let (sender_two, receiver_two) = sync_channel::<SharedChunk>(MAX_QUEUED_PIECES);
    let (return_sender, free) = sync_channel(2 * MAX_QUEUED_PIECES);
    std::thread::scope(|scope| {
        let return_sender_one = return_sender.clone();
        let one = scope.spawn(move || drain_into(receiver_one, &return_sender_one, one));
        let two = scope.spawn(move || drain_into(receiver_two, &return_sender, two));
        let mut first = true;
        let mut chunk = ParsedChunk::default();
        let read = for_each_buffer(&mut file, limit, PIECE, Buffer::default(), |buffer| {
            chunk.reparse(buffer.piece(), std::mem::take(&mut first));
            let shared = Arc::new((buffer, std::mem::take(&mut chunk)));
            let _ = sender_one.send(Arc::clone(&shared));
            let _ = sender_two.send(shared);
            let (buffer, empty) = free.try_recv().unwrap_or_default();
            chunk = empty;
            buffer
        });
        drop((sender_one, sender_two));
        let panicked = |_| io::Error::from(io::ErrorKind::Interrupted);
        let scanner = one.join().map_err(panicked);
        two.join().map_err(panicked)?;
        Ok((scanner?, read?.0))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rethread_model::FactsBuilder;

    use super::*;

    /// Builds a log with lines of all lengths, the last without a newline.
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
    fn two_sinks_receive_the_same_as_one_thread() {
        let log = log();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&log).expect("written");
        let mut builder = FactsBuilder::for_size(0);
        let mut scanner = Scanner::default();
        scanner.scan(&log, &mut builder);
        let expected = facts(builder, &scanner);
        for limit in [log.len(), log.len() + 100] {
            let file = File::open(file.path()).expect("opened");
            let (mut one, mut two) = (FactsBuilder::for_size(0), FactsBuilder::for_size(0));
            let (scanner, read) = scan_into_two_sinks(&file, limit as u64, &mut one, &mut two).expect("read");
            assert_eq!(read, log.len() as u64);
            assert_eq!(facts(one, &scanner), expected);
            assert_eq!(facts(two, &scanner), expected);
        }
    }
}
