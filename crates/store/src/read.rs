//! Reads a log from disk, piece by piece.
//!
//! Each thread reuses one buffer for all files. Its read position is page-aligned: the kernel copies
//! several times slower to an address that is off by a few bytes, and fresh memory costs a page fault per
//! page.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rethread_log::{Defect, Entry, Key, Line, Scanner, Sink};
use rethread_model::{Facts, FactsBuilder, Uid};

use crate::confined::read_all;
use crate::find::SessionFile;

/// The number of bytes of logs that this process has read, wherever it did: reading less is what an index is for, and
/// tests compare it.
static BYTES_READ: AtomicU64 = AtomicU64::new(0);

/// Returns the number of bytes that this process has read from logs at given offsets.
pub fn bytes_read() -> u64 {
    BYTES_READ.load(Ordering::Relaxed)
}

const PAGE: usize = 4096;
const PIECE: usize = 1 << 20;

/// A buffer for one piece, with room before it for the rest of the previous one.
#[derive(Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    /// The position that pieces are read to: the start of a page.
    read_start: usize,
    /// The range of the current piece.
    piece: Range<usize>,
}

thread_local! {
    static BUFFER: RefCell<Buffer> = const { RefCell::new(Buffer { memory: Vec::new(), read_start: 0, piece: 0..0 }) };
}

impl Buffer {
    /// Returns the current piece.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.memory[self.piece.clone()]
    }

    /// Puts the rest of the previous piece before the read position, and makes room for `len` bytes after
    /// it.
    fn prepare(&mut self, left: &[u8], len: usize) {
        if left.len() > self.read_start || self.memory.len() < self.read_start + len {
            let head = (left.len() * 2).next_multiple_of(PAGE).max(16 * PAGE);
            self.memory = vec![0; head + PAGE + len];
            self.read_start = head + self.memory[head..].as_ptr().align_offset(PAGE).min(PAGE);
        }
        self.memory[self.read_start - left.len()..self.read_start].copy_from_slice(left);
    }

    /// Grows the memory to at least `len` bytes.
    fn make_room(&mut self, len: usize) {
        if self.memory.len() < len {
            self.memory.reserve_exact(len - self.memory.len());
            self.memory.resize(len, 0);
        }
    }

    /// Returns whether the buffer should be reused: the memory of a huge line is freed.
    pub(crate) fn is_reusable(&self) -> bool {
        self.memory.len() <= 8 * PIECE
    }
}

/// Passes the bytes of `source` to `take` in buffers of whole lines of about `piece` bytes each, up to
/// `limit` bytes in total. `take` returns the next buffer.
pub(crate) fn for_each_buffer(
    source: &mut impl Read,
    limit: u64,
    piece: usize,
    mut buffer: Buffer,
    mut take: impl FnMut(Buffer) -> Buffer,
) -> io::Result<(u64, Buffer)> {
    let mut total = 0u64;
    let mut left: Vec<u8> = Vec::new();
    loop {
        buffer.prepare(&left, piece);
        let start = buffer.read_start - left.len();
        let mut at = buffer.read_start;
        let mut want = piece;
        let cut = loop {
            let room = usize::try_from(limit - total).unwrap_or(usize::MAX).min(want);
            buffer.make_room(at + room);
            let got = read_fully(source, &mut buffer.memory[at..at + room])?;
            total += got as u64;
            let end = at + got;
            if got < room || total == limit {
                buffer.piece = start..end;
                buffer = take(buffer);
                return Ok((total, if buffer.is_reusable() { buffer } else { Buffer::default() }));
            }
            let newline = memchr::memrchr(b'\n', &buffer.memory[at..end]);
            at = end;
            if let Some(newline) = newline {
                break end - room + newline + 1;
            }
            // A line longer than a piece is continued in place, in growing steps, so that it is moved a
            // bounded number of times and never kept twice.
            want = piece.max((at - start) / 2);
        };
        left.clear();
        left.extend_from_slice(&buffer.memory[cut..at]);
        buffer.piece = start..cut;
        buffer = take(buffer);
        if !buffer.is_reusable() {
            buffer = Buffer::default();
        }
    }
}

/// Reads until the buffer is full or the source ends.
pub(crate) fn read_fully(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while got < buffer.len() {
        match source.read(&mut buffer[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(got)
}

/// Fills a buffer with the bytes of a file from `offset`.
pub fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    BYTES_READ.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let mut got = 0;
        while got < bytes.len() {
            match std::os::windows::fs::FileExt::seek_read(file, &mut bytes[got..], offset + got as u64) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof)),
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Passes the bytes of `source` to `take` in pieces of whole lines, up to `limit` bytes in total.
fn for_each_piece(source: &mut impl Read, limit: u64, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
    BUFFER.with_borrow_mut(|kept| {
        let (total, buffer) = for_each_buffer(source, limit, PIECE, std::mem::take(kept), |buffer| {
            take(buffer.piece());
            buffer
        })?;
        *kept = buffer;
        Ok(total)
    })
}

fn scan(source: &mut impl Read, limit: u64, sink: &mut impl Sink) -> io::Result<(Scanner, u64)> {
    let mut scanner = Scanner::default();
    let total = for_each_piece(source, limit, |piece| scanner.scan(piece, sink))?;
    Ok((scanner, total))
}

/// Reads a log piece by piece, up to `limit` bytes; returns the scanner and the number of bytes read.
pub fn scan_file(file: &SessionFile, limit: u64, sink: &mut impl Sink) -> io::Result<(Scanner, u64)> {
    scan(&mut file.open()?, limit, sink)
}

/// Reads an open log piece by piece to its current length, up to `limit` bytes; returns the scanner and the
/// number of bytes read.
pub fn scan_to_length(mut file: &File, limit: u64, sink: &mut impl Sink) -> io::Result<(Scanner, u64)> {
    let limit = limit.min(file.metadata()?.len());
    scan(&mut file, limit, sink)
}

/// Reads a part of an open log, whole lines except perhaps the last one, and continues with `scanner`; returns the
/// number of bytes read.
pub fn scan_range(
    file: &File,
    range: Range<u64>,
    scanner: &mut Scanner,
    sink: &mut impl Sink,
) -> io::Result<u64> {
    for_each_piece_of(file, range, |piece| scanner.scan(piece, sink))
}

/// Reads a part of an open log like [`scan_range`], but parses only the lines that contain a text.
pub fn scan_lines_with(
    file: &File,
    range: Range<u64>,
    scanner: &mut Scanner,
    text: &[u8],
    sink: &mut impl Sink,
) -> io::Result<u64> {
    let finder = memchr::memmem::Finder::new(text);
    for_each_piece_of(file, range, |piece| {
        scanner.scan_lines_where(|lines| finder.find(lines), piece, sink);
    })
}

/// Passes a part of an open log to `take` in pieces of whole lines, except perhaps the last one; returns the number of
/// bytes read.
pub fn for_each_piece_of(file: &File, range: Range<u64>, take: impl FnMut(&[u8])) -> io::Result<u64> {
    let mut source = PositionedFile { file, at: range.start };
    for_each_piece(&mut source, range.end.saturating_sub(range.start), take)
}

/// Reads a text file that the user names; at most `max_bytes`.
pub fn read_user_text(path: &Path, max_bytes: u64) -> io::Result<String> {
    let file = File::open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut text = String::new();
    if file.take(max_bytes.saturating_add(1)).read_to_string(&mut text)? as u64 > max_bytes {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

/// Returns the offset after the last newline among the first `len` bytes of a file.
pub fn end_of_last_line(file: &File, len: u64) -> io::Result<u64> {
    const STEP: u64 = 16 << 10;
    let mut end = len;
    let mut bytes = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(STEP);
        bytes.resize((end - start) as usize, 0);
        read_at(file, start, &mut bytes)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(start + newline as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Reads a file from a position of its own, so that several threads can read one file.
struct PositionedFile<'f> {
    file: &'f File,
    at: u64,
}

impl Read for PositionedFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(self.file, buffer, self.at)?;
        self.at += read as u64;
        BYTES_READ.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads the facts of a log and its size, to its current length.
pub fn read_facts(file: &SessionFile) -> io::Result<(Facts, u64)> {
    let mut file = file.open()?;
    let limit = file.metadata()?.len();
    read_facts_from(&mut file, limit)
}

/// Reads the facts of a log from any reader, up to `limit` bytes.
pub fn read_facts_from(source: &mut impl Read, limit: u64) -> io::Result<(Facts, u64)> {
    let mut builder = FactsBuilder::for_size(if limit == u64::MAX { 0 } else { limit });
    let (scanner, total) = scan(source, limit, &mut builder)?;
    Ok((builder.finish(scanner.lines(), scanner.bad_lines), total))
}

/// Reads a whole log into memory, to its current length.
pub fn read_whole(file: &SessionFile) -> io::Result<Vec<u8>> {
    read_all(&file.open()?)
}

/// Finds the uuids of entries in a log for which `wanted` returns true.
pub fn find_uuids(file: &SessionFile, wanted: &dyn Fn(Uid) -> bool) -> io::Result<Vec<Uid>> {
    struct EntryUuidFinder<'w>(&'w dyn Fn(Uid) -> bool, Vec<Uid>);
    impl Sink for EntryUuidFinder<'_> {
        fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
            let uid = line.string(Key::Uuid, entry.raw).map(Uid::new);
            self.1.extend(uid.filter(|&uid| (self.0)(uid)));
        }

        fn defect(&mut self, _: Defect) {}
    }
    // Most logs have none, which a search for anything that looks like a uuid shows quickly. A hit may be
    // quoted in the output of a tool, so the entries are parsed then.
    if !may_contain_uuid(file, wanted)? {
        return Ok(Vec::new());
    }
    let mut file = file.open()?;
    let limit = file.metadata()?.len();
    let mut uuids = EntryUuidFinder(wanted, Vec::new());
    scan(&mut file, limit, &mut uuids)?;
    Ok(uuids.1)
}

/// Returns whether `test` returns true for any piece of a log. Pieces are whole lines; after the first one for which it
/// does, the rest is not tested.
pub fn any_piece(file: &SessionFile, test: &mut dyn FnMut(&[u8]) -> bool) -> io::Result<bool> {
    let mut found = false;
    let mut file = file.open()?;
    let limit = file.metadata()?.len();
    for_each_piece(&mut file, limit, |piece| found = found || test(piece))?;
    Ok(found)
}

/// Reads the rest of the line that contains an offset, without the newline.
pub fn read_line_at(file: &File, offset: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    let mut source = PositionedFile { file, at: offset };
    let mut step = 16 << 10;
    loop {
        let start = line.len();
        line.resize(start + step, 0);
        let read = read_fully(&mut source, &mut line[start..])?;
        line.truncate(start + read);
        if let Some(newline) = memchr::memchr(b'\n', &line[start..]) {
            line.truncate(start + newline);
            return Ok(line);
        }
        if read < step {
            return Ok(line);
        }
        step = line.len();
    }
}

/// Returns whether a line of a log contains these bytes.
pub fn log_contains(file: &SessionFile, wanted: &[u8]) -> io::Result<bool> {
    let finder = memchr::memmem::Finder::new(wanted);
    any_piece(file, &mut |piece| finder.find(piece).is_some())
}

fn may_contain_uuid(file: &SessionFile, wanted: &dyn Fn(Uid) -> bool) -> io::Result<bool> {
    let finder = memchr::memmem::Finder::new(b"\"uuid\":");
    let mut found = false;
    let mut file = file.open()?;
    let limit = file.metadata()?.len();
    for_each_piece(&mut file, limit, |piece| {
        found = found
            || finder.find_iter(piece).any(|at| {
                let rest = piece[at + 7..].trim_ascii_start();
                let id = rest.strip_prefix(b"\"").and_then(|id| id.split(|&b| b == b'"').next());
                id.is_some_and(|id| wanted(Uid::new(id)))
            });
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(bytes: &[u8], limit: u64) -> (Vec<u8>, bool) {
        let mut joined = Vec::new();
        let mut whole_lines = true;
        let mut last = true;
        for_each_piece(&mut &bytes[..], limit, |piece| {
            whole_lines &= last;
            last = piece.ends_with(b"\n");
            joined.extend_from_slice(piece);
        })
        .expect("reading memory does not fail");
        (joined, whole_lines)
    }

    #[test]
    fn lines_longer_than_a_piece_are_not_split() {
        let mut log = Vec::new();
        for len in [10, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE, 3] {
            log.extend(std::iter::repeat_n(b'x', len));
            log.push(b'\n');
        }
        log.extend_from_slice(b"no end");
        assert_eq!(pieces(&log, u64::MAX), (log.clone(), true));
        assert_eq!(pieces(&log, log.len() as u64), (log.clone(), true));
        let limit = 2 * PIECE + 5;
        assert_eq!(pieces(&log, limit as u64).0, &log[..limit], "no byte after the limit is read");
    }

    #[test]
    fn last_line_ends_after_the_last_newline() {
        use std::io::Write as _;
        let mut file = tempfile::tempfile().expect("a file");
        let long = "x".repeat(40_000);
        let text = format!("one\n{long}\n{long}");
        file.write_all(text.as_bytes()).expect("written");
        let end = |len: u64| end_of_last_line(&file, len).expect("read");
        assert_eq!([end(text.len() as u64), end(40_004), end(4), end(3), end(0)], [40_005, 4, 4, 0, 0]);
    }

    #[test]
    fn ranges_joined_are_the_whole() {
        use std::io::Write as _;
        struct Starts(Vec<(u32, u64)>);
        impl Sink for Starts {
            fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
                self.0.push((entry.number, entry.offset));
            }

            fn defect(&mut self, _: Defect) {}
        }
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"{}\n{\"a\":1}\n\n{}\n{}").expect("written");
        let (mut scanner, mut starts) = (Scanner::default(), Starts(Vec::new()));
        for range in [0..3, 3..12, 12..100] {
            scan_range(&file, range, &mut scanner, &mut starts).expect("read");
        }
        assert_eq!(starts.0, [(1, 0), (2, 3), (0, 11), (3, 12), (4, 15)]);
        assert_eq!(scanner.offset(), 17);
    }

    proptest! {
        #[test]
        fn pieces_joined_are_the_input(log: Vec<u8>) {
            prop_assert_eq!(pieces(&log, u64::MAX), (log.clone(), true));
        }
    }
}
