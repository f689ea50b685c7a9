//! The bytes of a clone on their way to the disk.

use std::fs::File;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::ScopedJoinHandle;

use rethread_edit::{self as edit, IdMap};
use rethread_model::{Facts, FactsBuilder};
use rethread_store::NewSession;

use super::sidecars::ClonedSidecars;

/// Renames the ids of a log and writes it, and makes out what is in it; both may fail.
pub(super) fn write_renamed(
    from: &File,
    limit: u64,
    names: &IdMap<'_>,
    tail: &[u8],
    part: &mut NewSession,
) -> io::Result<(edit::RenamedLog, io::Result<Facts>)> {
    let (renamed, facts) = with_writer_thread(part, &mut |_| {}, |write| {
        let mut put = |bytes: &mut Vec<u8>| {
            *bytes = write(std::mem::take(bytes))?;
            Ok(())
        };
        let mut renaming = edit::IdRenamer::new(names, &mut put);
        let mut builder = FactsBuilder::for_size(limit);
        let read = rethread_store::scan_into_two_sinks(from, limit, &mut renaming, &mut builder);
        let facts = read.and_then(|(scanner, size)| match size == limit {
            true => Ok(builder.finish(scanner.lines(), scanner.bad_lines)),
            false => Err(io::Error::new(io::ErrorKind::ResourceBusy, "it became shorter while it was read")),
        });
        Ok((renaming.finish(tail)?, facts))
    })?;
    for (at, name) in &renamed.patches {
        part.write_at(*at, name)?;
    }
    Ok((renamed, facts))
}

/// Writes a planned clone, and notes what it refers to.
pub(super) fn write_clone(
    cloned: &edit::PreparedClone<'_>,
    part: &mut NewSession,
    beside: &mut ClonedSidecars,
) -> io::Result<edit::WriteOutcome> {
    with_writer_thread(part, &mut |piece| beside.record_results(piece), |write| cloned.write(write))
}

/// Takes a piece to write, and gives an empty buffer for the next.
type WriteBuffer<'w> = &'w mut (dyn FnMut(Vec<u8>) -> io::Result<Vec<u8>> + Send);

/// How much is written before it is put on the disk.
const SYNC_INTERVAL_BYTES: usize = 8 << 20;

/// Does work whose pieces are written on a thread of its own, which also gives them to `note`. Yet another puts them on the disk, so that
/// little is left to wait for at the end.
fn with_writer_thread<T>(
    part: &mut NewSession,
    note: &mut (impl FnMut(&[u8]) + Send),
    work: impl FnOnce(WriteBuffer<'_>) -> io::Result<T>,
) -> io::Result<T> {
    // Whoever makes pieces makes some at once, and is not to wait until they are written.
    let (give, take) = sync_channel::<Vec<u8>>(8);
    let (give_back, free) = sync_channel::<Vec<u8>>(16);
    let (ask, asked) = sync_channel::<()>(1);
    let file = part.handle()?;
    std::thread::scope(|scope| {
        // If that fails, so does the last one, which says so.
        scope.spawn(move || asked.into_iter().for_each(|()| drop(file.sync_data())));
        let writer = scope.spawn(move || {
            let mut waiting = 0;
            for mut piece in take {
                part.write(&piece)?;
                note(&piece);
                waiting += piece.len();
                if waiting >= SYNC_INTERVAL_BYTES && ask.try_send(()).is_ok() {
                    waiting = 0;
                }
                piece.clear();
                let _ = give_back.try_send(piece);
            }
            Ok(())
        });
        let mut put = move |piece| {
            give.send(piece).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(free.try_recv().unwrap_or_default())
        };
        let done = work(&mut put);
        // The writer waits for pieces as long as there is somebody to give them.
        drop(put);
        join_io(writer).and(done)
    })
}

/// Waits for a thread that reads or writes.
pub(super) fn join_io<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))
}

/// Waits for a thread that cannot fail.
pub(super) fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
