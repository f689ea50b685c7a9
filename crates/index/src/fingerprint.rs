//! The state of a log file that was read, to recognise what has changed since.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use rethread_store::{FileStat, SessionFile, read_at};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The number of bytes at the beginning, and before the end, that are compared.
const WINDOW: u64 = 8 << 10;

/// A file that changed less than this before it was read may change again without another time: file systems count
/// time in ticks of some milliseconds.
const TICK: Duration = Duration::from_millis(100);

/// The state of a log file that was read up to an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    /// The number of bytes that were read.
    pub(crate) end: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub(crate) modified: i64,
    /// The number of the file.
    pub(crate) inode: i64,
    /// The time at which it was found in this state, in nanoseconds since 1970.
    pub(crate) checked: i64,
    /// A hash of the first bytes.
    pub(crate) head: i64,
    /// A hash of the last bytes that were read.
    pub(crate) tail: i64,
}

/// The difference between a file and what was read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileChange {
    /// Not at all.
    Unchanged,
    /// It seems unchanged, but was read so soon after it was written that its content has to be compared.
    Uncertain,
    /// It is longer; what was read may still be there.
    Longer,
    /// It has another content.
    Rewritten,
}

/// Converts a time to nanoseconds since 1970.
pub(crate) fn nanos(time: Option<SystemTime>) -> i64 {
    let since = time.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or(0)
}

impl Fingerprint {
    /// Describes an open file that was read up to `end`. `checked` is the time at which it was found to be as in `stat`,
    /// before it was read.
    pub(crate) fn new(file: &File, stat: FileStat, end: u64, checked: SystemTime) -> io::Result<Self> {
        let (head, tail) = hash_windows(file, end)?;
        Ok(Self {
            end,
            modified: nanos(stat.modified),
            inode: inode_of(stat.inode),
            checked: nanos(Some(checked)),
            head,
            tail,
        })
    }

    /// Compares with a file that was found, without opening it.
    pub(crate) fn compare(&self, file: &SessionFile) -> FileChange {
        let is_same_file = inode_of(file.inode) == self.inode;
        if file.bytes == self.end && nanos(file.modified) == self.modified {
            // A time in the future is not that of a change.
            let age = self.checked.saturating_sub(self.modified);
            let is_recent = (0..TICK.as_nanos() as i64).contains(&age);
            return if is_recent || !is_same_file { FileChange::Uncertain } else { FileChange::Unchanged };
        }
        match file.bytes > self.end && is_same_file {
            true => FileChange::Longer,
            false => FileChange::Rewritten,
        }
    }

    /// Returns whether an open file still begins with what was read, as far as the ends of it tell.
    pub(crate) fn is_beginning_of(&self, file: &File) -> io::Result<bool> {
        match hash_windows(file, self.end) {
            Ok(found) => Ok(found == (self.head, self.tail)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether a file is the one that was read, under another name.
    pub(crate) fn is_moved_to(&self, file: &SessionFile) -> bool {
        file.bytes == self.end
            && nanos(file.modified) == self.modified
            && inode_of(file.inode) == self.inode
            && self.inode != 0
    }
}

fn inode_of(inode: Option<u64>) -> i64 {
    inode.unwrap_or(0).cast_signed()
}

/// Hashes the first and the last bytes before `end`.
fn hash_windows(file: &File, end: u64) -> io::Result<(i64, i64)> {
    let len = end.min(WINDOW);
    let mut bytes = vec![0; len as usize];
    let mut hash = |start: u64| -> io::Result<i64> {
        read_at(file, start, &mut bytes)?;
        Ok(xxh3_64_with_seed(&bytes, len).cast_signed())
    };
    Ok((hash(0)?, hash(end - len)?))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;
    use std::path::Path;

    use super::*;

    fn print(path: &Path) -> Fingerprint {
        let file = File::open(path).expect("opened");
        let stat = FileStat::from_metadata(&file.metadata().expect("a file"));
        Fingerprint::new(&file, stat, stat.bytes, SystemTime::now()).expect("read")
    }

    fn compare(print: &Fingerprint, path: &Path) -> FileChange {
        print.compare(&SessionFile::from_user_path(path).expect("a file"))
    }

    #[test]
    fn changes_are_recognised() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        fs::write(&path, "0123456789".repeat(3000)).expect("written");
        let mut print = print(&path);
        assert_eq!(compare(&print, &path), FileChange::Uncertain, "read just after it was written");
        print.checked += 1_000_000_000;
        assert_eq!(compare(&print, &path), FileChange::Unchanged);
        fs::hard_link(&path, dir.path().join("b.jsonl")).expect("linked");
        assert_eq!(compare(&print, &path), FileChange::Unchanged, "a link changes nothing");

        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(b"more").expect("written");
        assert_eq!(compare(&print, &path), FileChange::Longer);
        assert!(print.is_beginning_of(&File::open(&path).expect("opened")).expect("read"));
        file.set_len(5).expect("truncated");
        assert_eq!(compare(&print, &path), FileChange::Rewritten);
        assert!(!print.is_beginning_of(&File::open(&path).expect("opened")).expect("read"));

        fs::write(dir.path().join("c.jsonl"), "0123456789".repeat(4000)).expect("written");
        fs::rename(dir.path().join("c.jsonl"), &path).expect("renamed");
        assert_eq!(compare(&print, &path), FileChange::Rewritten, "another file of this name");
    }

    #[test]
    fn changes_at_the_ends_are_noticed() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        let text = "x".repeat(100_000);
        fs::write(&path, &text).expect("written");
        let print = print(&path);
        for at in [0, 8191, 99_999, 92_000] {
            let mut changed = text.clone().into_bytes();
            changed[at] = b'y';
            changed.extend_from_slice(b"more");
            fs::write(&path, &changed).expect("written");
            assert!(!print.is_beginning_of(&File::open(&path).expect("opened")).expect("read"), "{at}");
        }
    }
}
