//! Writes the bytes of a clone to disk.

use std::fs::File;
use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::ScopedJoinHandle;

use rethread_edit::{self as edit, IdMap};
use rethread_model::{Facts, FactsBuilder};
use rethread_store::NewSession;

use super::sidecars::ClonedSidecars;

/// Renames the ids of a log, writes it and parses the result; either can fail.
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
            false => {
                Err(io::Error::new(io::ErrorKind::ResourceBusy, "file was truncated while it was being read"))
            }
        });
        Ok((renaming.finish(tail)?, facts))
    })?;
    for (at, name) in &renamed.patches {
        part.write_at(*at, name)?;
    }
    Ok((renamed, facts))
}

/// Writes a planned clone, and records the results that it refers to.
pub(super) fn write_clone(
    cloned: &edit::PreparedClone<'_>,
    part: &mut NewSession,
    sidecars: &mut ClonedSidecars,
) -> io::Result<edit::WriteOutcome> {
    with_writer_thread(part, &mut |piece| sidecars.record_results(piece), |write| cloned.write(write))
}

/// Takes a buffer to write, and returns an empty one for the next piece.
type WriteBuffer<'w> = &'w mut (dyn FnMut(Vec<u8>) -> io::Result<Vec<u8>> + Send);

/// Bytes written between two syncs.
const SYNC_INTERVAL_BYTES: usize = 8 << 20;

/// Runs `work`, whose buffers are written on a separate thread and also passed to `note`. A third thread
/// syncs them to disk, so that the final sync is short.
fn with_writer_thread<T>(
    part: &mut NewSession,
    note: &mut (impl FnMut(&[u8]) + Send),
    work: impl FnOnce(WriteBuffer<'_>) -> io::Result<T>,
) -> io::Result<T> {
    // The producer emits several buffers at a time and should not wait until they are written.
    let (give, take) = sync_channel::<Vec<u8>>(8);
    let (give_back, free) = sync_channel::<Vec<u8>>(16);
    let (ask, asked) = sync_channel::<()>(1);
    let file = part.handle()?;
    std::thread::scope(|scope| {
        // If this fails, so does the final sync, which reports the error.
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
        // The writer stops once all senders are dropped.
        drop(put);
        join_io(writer).and(done)
    })
}

/// Joins a thread that reads or writes.
pub(super) fn join_io<T>(thread: ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    thread.join().unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))
}

/// Joins a thread that cannot fail.
pub(super) fn join_thread<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
