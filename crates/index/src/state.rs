//! The state of reading a log, from which reading continues when the log has grown.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use rethread_log::{Scanner, Sink};
use rethread_model::{FactsBuilder, Session};
use rethread_store::{FileStat, SessionFile, end_of_last_line, for_each_piece_of, read_at, scan_range};

use crate::checksum::{CHECKSUM, add_checksum, without_checksum};
use crate::fingerprint::Fingerprint;

/// A log that was read up to a line end.
#[derive(Debug, Default)]
pub(crate) struct LogState {
    scanner: Scanner,
    builder: FactsBuilder,
}

/// The compression of states: the fastest one.
const ZSTD_LEVEL: i32 = 1;

impl LogState {
    /// Returns the offset up to which the log was read.
    pub(crate) fn position(&self) -> u64 {
        self.scanner.offset()
    }

    /// Returns the form in which the state is stored.
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        let plain = postcard::to_stdvec(&(&self.scanner, &self.builder)).map_err(io::Error::other)?;
        let mut stored = vec![0; CHECKSUM];
        zstd::stream::copy_encode(&plain[..], &mut stored, ZSTD_LEVEL)?;
        add_checksum(&mut stored);
        Ok(stored)
    }

    /// Reads a stored state; returns `None` if it is damaged.
    pub(crate) fn decode(stored: &[u8]) -> Option<Self> {
        let plain = zstd::stream::decode_all(without_checksum(stored)?).ok()?;
        let (scanner, builder) = postcard::from_bytes(&plain).ok()?;
        Some(Self { scanner, builder })
    }
}

/// A log that was read to its end.
#[derive(Debug)]
pub(crate) struct ReadLog {
    /// Its open file.
    pub(crate) file: File,
    /// The session.
    pub(crate) session: Session,
    /// The state at the end of the last whole line, in its stored form, if it was asked for.
    pub(crate) state: Option<Vec<u8>>,
    /// The offset of that line end.
    pub(crate) position: u64,
    /// The offset after the last entry that is an object.
    pub(crate) end_of_entries: u64,
    /// Identifies what was read.
    pub(crate) print: Fingerprint,
    /// The properties of the file just before it was read.
    stat: FileStat,
    tail: LogTail,
    /// The number of bytes that were read.
    pub(crate) bytes_read: u64,
}

/// The bytes that were read of a log. They are kept if they are few, so that appended bytes are read once.
#[derive(Debug)]
struct LogTail {
    /// The offset of the line at which reading began.
    start: u64,
    /// The bytes from there to the end; `None` if they are many.
    bytes: Option<Vec<u8>>,
}

/// The maximum number of bytes that are kept.
const MAX_TAIL: u64 = 4 << 20;

impl LogTail {
    fn read(file: &File, start: u64, end: u64) -> io::Result<Self> {
        let len = end.saturating_sub(start);
        // Of a whole log, reading is cheaper than keeping.
        if start == 0 || len > MAX_TAIL {
            return Ok(Self { start, bytes: None });
        }
        let mut bytes = vec![0; len as usize];
        match read_at(file, start, &mut bytes) {
            // It was truncated meanwhile.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Self { start, bytes: None }),
            read => read.map(|()| Self { start, bytes: Some(bytes) }),
        }
    }

    /// Returns the offset after the last line break before `end`, or the start.
    fn end_of_last_line(&self, file: &File, end: u64) -> io::Result<u64> {
        match &self.bytes {
            Some(bytes) => Ok(self.start + memchr::memrchr(b'\n', bytes).map_or(0, |at| at as u64 + 1)),
            None => Ok(end_of_last_line(file, end)?.max(self.start)),
        }
    }

    fn scan(
        &self,
        file: &File,
        range: Range<u64>,
        scanner: &mut Scanner,
        sink: &mut impl Sink,
    ) -> io::Result<()> {
        let bytes = self.bytes.as_deref().filter(|_| range.start >= self.start);
        let at = |offset: u64| (offset - self.start) as usize;
        match bytes.and_then(|bytes| bytes.get(at(range.start)..at(range.end.max(range.start)))) {
            Some(bytes) => scanner.scan(bytes, sink),
            None => drop(scan_range(file, range, scanner, sink)?),
        }
        Ok(())
    }
}

impl ReadLog {
    /// Returns whether an entry before an offset has its parent after it. Then it belongs to another message than it did
    /// without what follows.
    pub(crate) fn has_later_parent(&self, before: u64) -> bool {
        let facts = &self.session.facts;
        let nodes = facts.nodes.iter_enumerated().map(|(node, _)| node);
        { nodes }
            .take_while(|&node| facts.location(node).offset < before)
            .any(|node| facts.parent_of(node).is_some_and(|parent| facts.location(parent).offset >= before))
    }

    /// Scans the entries from the line on that contains an offset, or from an earlier one.
    pub(crate) fn scan_from(&self, offset: u64, sink: &mut impl Sink) -> io::Result<()> {
        let start = self.line_before(offset)?;
        self.tail.scan(&self.file, start..self.print.end, &mut Scanner::starting_at(start), sink)
    }

    /// Passes whole lines to `take`, with the scanner that is to read them, from the line on that contains an offset, or
    /// from an earlier one.
    pub(crate) fn for_each_piece_from(
        &self,
        offset: u64,
        mut take: impl FnMut(&[u8], &mut Scanner),
    ) -> io::Result<()> {
        let start = self.line_before(offset)?;
        let mut scanner = Scanner::starting_at(start);
        for_each_piece_of(&self.file, start..self.print.end, |piece| take(piece, &mut scanner))?;
        Ok(())
    }

    /// Returns the start of the line that contains an offset, or of an earlier one.
    pub(crate) fn line_before(&self, offset: u64) -> io::Result<u64> {
        // Reading began at a line.
        if offset >= self.tail.start { Ok(self.tail.start) } else { end_of_last_line(&self.file, offset) }
    }

    /// Returns the file as it was when it was read, which may be later than it was found.
    pub(crate) fn as_read(&self, source: &SessionFile) -> SessionFile {
        let FileStat { bytes, modified, inode } = self.stat;
        SessionFile { bytes, modified, inode, ..source.clone() }
    }
}

/// Reads a log from a state to its end. The new state is kept if it will be stored.
pub(crate) fn read_log(source: &SessionFile, from: LogState, keeps_state: bool) -> io::Result<ReadLog> {
    let file = source.open()?;
    let checked = SystemTime::now();
    let stat = FileStat::from_metadata(&file.metadata()?);
    let LogState { mut scanner, mut builder } = from;
    let start = scanner.offset();
    let tail = LogTail::read(&file, start, stat.bytes)?;
    let line_end = tail.end_of_last_line(&file, stat.bytes)?;
    tail.scan(&file, start..line_end, &mut scanner, &mut builder)?;
    let position = scanner.offset();
    let state = LogState { scanner, builder };
    let stored = if keeps_state { Some(state.encode()?) } else { None };
    let LogState { mut scanner, mut builder } = state;
    tail.scan(&file, position..stat.bytes, &mut scanner, &mut builder)?;
    let end = scanner.offset();
    let print = Fingerprint::new(&file, stat, end, checked)?;
    let session = Session::new(builder.finish(scanner.lines(), scanner.bad_lines));
    let last = session.facts.locations.iter().next_back();
    let end_of_entries = last.map_or(0, |last| last.offset + u64::from(last.len)).max(position);
    let bytes_read = end - start;
    Ok(ReadLog { file, session, state: stored, position, end_of_entries, print, stat, tail, bytes_read })
}

/// Serialises the reading of large logs, so that memory is bounded by one of them.
pub(crate) fn lock_if_large(source: &SessionFile) -> Option<MutexGuard<'static, ()>> {
    static LARGE: Mutex<()> = Mutex::new(());
    const LARGE_BYTES: u64 = 128 << 20;
    (source.bytes >= LARGE_BYTES).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rethread_testkit::LogBuilder;

    use super::*;

    #[test]
    fn only_appended_bytes_are_read() {
        let mut log = LogBuilder::new(1);
        log.prompt("Is the working tree clean?");
        log.answer("Yes.");
        let whole = log.bytes();
        let mut file = tempfile::NamedTempFile::with_suffix(".jsonl").expect("a file");
        file.write_all(&whole[..whole.len() - 20]).expect("written");
        let path = file.path().to_owned();
        let source = || SessionFile::from_user_path(&path).expect("a log");
        let first = read_log(&source(), LogState::default(), true).expect("read");
        assert_eq!(first.session.facts.messages.len(), 1);
        assert!(first.position < first.print.end, "the last line is torn");
        assert_eq!(first.end_of_entries, first.position);

        file.write_all(&whole[whole.len() - 20..]).expect("written");
        let state = LogState::decode(first.state.as_ref().expect("kept")).expect("not damaged");
        assert_eq!(state.position(), first.position);
        let second = read_log(&source(), state, false).expect("read");
        assert_eq!(second.session.facts.messages.len(), 2);
        assert_eq!(second.bytes_read, whole.len() as u64 - first.position);
        assert_eq!(second.position, whole.len() as u64);
    }

    #[test]
    fn damaged_states_are_refused() {
        let state = LogState::default().encode().expect("encoded");
        assert!(LogState::decode(&state).is_some());
        for at in 0..state.len() {
            let mut damaged = state.clone();
            damaged[at] ^= 1;
            assert!(LogState::decode(&damaged).is_none());
        }
        assert!(LogState::decode(b"short").is_none());
    }
}
