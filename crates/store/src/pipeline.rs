//! One large log, read with all processors: what is read is taken apart on a second thread and made
//! use of on a third.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use memmap2::MmapMut;
use rethread_log::{Finds, Scanner, Sink};

use crate::read::{each_piece, read_fully};

/// How many pieces wait at most.
const WAITING: usize = 4;
const PIECE: usize = 1 << 20;

/// A log in memory of its own, not of the file: in large pages, where the system has them, for a log is
/// read into memory that was never touched, and every page of that costs.
pub struct Whole {
    memory: MmapMut,
    len: usize,
}

impl Whole {
    fn with_room_for(size: u64) -> io::Result<Self> {
        let len = usize::try_from(size).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let memory = MmapMut::map_anon(len.max(1))?;
        // Only a wish.
        #[cfg(target_os = "linux")]
        let _ = memory.advise(memmap2::Advice::HugePage);
        Ok(Self { memory, len })
    }
}

impl std::ops::Deref for Whole {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.len]
    }
}

/// Reads a log into memory, `limit` bytes at most, while `sink` takes its entries; returns also what was
/// found in its pieces.
pub fn read_whole_into(
    path: &Path,
    limit: u64,
    sink: &mut (impl Sink + Send),
) -> io::Result<(Whole, Scanner, Vec<Finds>)> {
    let mut file = File::open(path)?;
    let mut whole = Whole::with_room_for(limit)?;
    let bytes = &mut whole.memory[..whole.len];
    let (give, pieces) = sync_channel::<&[u8]>(WAITING);
    let (give_on, found) = sync_channel::<(&[u8], Finds)>(WAITING);
    let (read, taken) = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut first = true;
            for piece in pieces {
                let _ = give_on.send((piece, Finds::of(piece, std::mem::take(&mut first))));
            }
        });
        let taken = scope.spawn(move || {
            let (mut scanner, mut all) = (Scanner::default(), Vec::new());
            for (piece, finds) in found {
                scanner.take(piece, &finds, sink);
                all.push(finds);
            }
            (scanner, all)
        });
        let read = read_into(&mut file, bytes, &give);
        drop(give);
        (read, taken.join().map_err(|_| io::Error::from(io::ErrorKind::Interrupted)))
    });
    whole.len = read?;
    let (scanner, finds) = taken?;
    Ok((whole, scanner, finds))
}

/// Fills a buffer from a file and gives away what is whole lines; returns how much there was.
fn read_into<'b>(file: &mut File, buffer: &'b mut [u8], give: &SyncSender<&'b [u8]>) -> io::Result<usize> {
    let size = buffer.len();
    let mut rest = buffer;
    // What of `rest` is read, and how much of it holds no end of a line.
    let (mut filled, mut done) = (0, 0);
    loop {
        let want = (filled + PIECE.max(filled)).min(rest.len());
        let got = read_fully(file, &mut rest[filled..want])?;
        let ended = got < want - filled || want == rest.len();
        let newline = memchr::memrchr(b'\n', &rest[filled..filled + got]).map(|at| filled + at + 1);
        filled += got;
        let cut = if ended { filled } else { newline.unwrap_or(0) };
        if cut > 0 {
            let (piece, behind) = rest.split_at_mut(cut);
            let _ = give.send(piece);
            rest = behind;
            filled -= cut;
            done += cut;
        }
        if ended {
            return Ok(done.min(size));
        }
    }
}

/// Reads a log once for two sinks, each on a thread of its own, `limit` bytes at most; returns the
/// scanner and how much was read.
pub fn scan_for_two(
    path: &Path,
    limit: u64,
    one: &mut (impl Sink + Send),
    two: &mut (impl Sink + Send),
) -> io::Result<(Scanner, u64)> {
    let mut file = File::open(path)?;
    type Found = Arc<(Vec<u8>, Finds)>;
    fn take(found: Receiver<Found>, free: &SyncSender<Vec<u8>>, sink: &mut impl Sink) -> Scanner {
        let mut scanner = Scanner::default();
        for found in found {
            scanner.take(&found.0, &found.1, sink);
            // Whoever is the last gives the memory back.
            if let Some((bytes, _)) = Arc::into_inner(found) {
                let _ = free.try_send(bytes);
            }
        }
        scanner
    }
    let (give_one, for_one) = sync_channel::<Found>(WAITING);
    let (give_two, for_two) = sync_channel::<Found>(WAITING);
    let (give_back, free) = sync_channel(2 * WAITING);
    std::thread::scope(|scope| {
        let back = give_back.clone();
        let one = scope.spawn(move || take(for_one, &back, one));
        let two = scope.spawn(move || take(for_two, &give_back, two));
        let mut first = true;
        let read = each_piece(&mut file, limit, |piece| {
            let finds = Finds::of(piece, std::mem::take(&mut first));
            let mut bytes: Vec<u8> = free.try_recv().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(piece);
            let found = Arc::new((bytes, finds));
            let _ = give_one.send(Arc::clone(&found));
            let _ = give_two.send(found);
        });
        drop((give_one, give_two));
        let lost = |_| io::Error::from(io::ErrorKind::Interrupted);
        let scanner = one.join().map_err(lost);
        two.join().map_err(lost)?;
        Ok((scanner?, read?))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rethread_model::Builder;

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

    fn facts(builder: Builder, scanner: &Scanner) -> String {
        format!("{:?}", builder.finish(scanner.lines(), scanner.bad_lines).places)
    }

    #[test]
    fn a_log_is_read_as_on_one_thread() {
        let log = log();
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(&log).expect("it can be written");
        let mut builder = Builder::for_size(0);
        let mut scanner = Scanner::default();
        scanner.scan(&log, &mut builder);
        let expected = facts(builder, &scanner);
        for limit in [log.len(), log.len() + 100] {
            let mut builder = Builder::for_size(0);
            let (bytes, scanner, _) =
                read_whole_into(file.path(), limit as u64, &mut builder).expect("it can be read");
            assert!(*bytes == log[..]);
            assert_eq!(facts(builder, &scanner), expected);
        }
        let (mut one, mut two) = (Builder::for_size(0), Builder::for_size(0));
        let (scanner, read) =
            scan_for_two(file.path(), log.len() as u64, &mut one, &mut two).expect("it can be read");
        assert_eq!(read, log.len() as u64);
        assert_eq!(facts(one, &scanner), expected);
        assert_eq!(facts(two, &scanner), expected);
    }
}
