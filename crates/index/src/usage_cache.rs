//! A cache of the usage that logs record.
//!
//! One file has the ledgers of all logs, each with the fingerprint of its log. It is small (about 0.3 % of the logs), is read
//! as a whole, and replaced as a whole when much is new; what is new since then is read from the ends of the logs each
//! time. SQLite was rejected: a report needs every response, and the copies of one may be in any log.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use rethread_log::Scanner;
use rethread_model::{Time, UsageLedger, UsageRow};
use rethread_store::{CacheDir, FileStat, SessionFile, end_of_last_line, scan_lines_with};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::catalogue::{path_from_blob, path_to_blob};
use crate::fingerprint::{FileChange, Fingerprint};
use crate::index::Index;

/// The name of the file.
const FILE: &str = "usage";

/// The beginning of the file. Change it with every change of what is stored.
const MAGIC: &[u8; 16] = b"rethread usage 3";

/// The size of the checksum after it.
const CHECKSUM: usize = 8;

/// The number of new bytes from which on the file is written again.
const MUCH: u64 = 4 << 20;

/// The number of changed logs from which on the file is written again.
const MANY: usize = 64;

/// The ledger of a log up to a line end, as it is stored. Ledgers are encoded, and decoded only if they are needed.
#[derive(Serialize, Deserialize)]
struct StoredLedger<L> {
    /// The bytes of its path, which need not be text.
    path: Vec<u8>,
    print: Fingerprint,
    scanner: Scanner,
    last: Option<Time>,
    ledger: L,
    /// The ledger of the whole log, if its last line has no end.
    whole: Option<(Fingerprint, L)>,
}

/// A log whose usage was read.
#[derive(Debug)]
pub struct LogLedger {
    /// The log.
    pub file: SessionFile,
    /// Its usage.
    pub ledger: UsageLedger,
}

/// The usage of some logs.
#[derive(Debug, Default)]
pub struct LoadedUsage {
    /// The logs, in their order.
    pub logs: Vec<LogLedger>,
    /// Logs that cannot be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// The number of bytes that were read from logs.
    pub bytes_read: u64,
}

/// A ledger, and the state from which reading its log continues.
struct ReadLedger {
    ledger: UsageLedger,
    /// The form to store, if it differs from what was stored before.
    stored: Option<StoredLedger<Vec<u8>>>,
    bytes_read: u64,
}

impl Index {
    /// Returns the usage that some logs record. Logs are only read as far as the cache does not have them. `progress` is
    /// called with each log that was processed, from any thread.
    pub fn usage(&self, files: &[SessionFile], progress: &(dyn Fn(&SessionFile) + Sync)) -> LoadedUsage {
        let bytes = self.read_usage_file().unwrap_or_default();
        let stored = decode(&bytes);
        let mut loaded = read_all(files, &stored, progress);
        let is_much = loaded.new.len() >= MANY || loaded.usage.bytes_read >= MUCH || stored.is_empty();
        if !loaded.new.is_empty() && is_much {
            let known: FxHashMap<&[u8], &StoredLedger<&[u8]>> =
                stored.iter().map(|stored| (&*stored.path, stored)).collect();
            let kept = files
                .iter()
                .filter(|file| !loaded.new.contains_key(&file.path))
                .filter_map(|file| known.get(path_to_blob(&file.path)).copied());
            // A cache that cannot be written is only slower.
            let _ = self.write_usage_file(kept, loaded.new.values());
        }
        std::mem::take(&mut loaded.usage)
    }

    /// Returns the usage of logs that the cache has rows of since a time, and of some other logs, without looking for
    /// further logs.
    pub fn recent_usage(&self, since: Time, others: &[SessionFile]) -> LoadedUsage {
        let bytes = self.read_usage_file().unwrap_or_default();
        let stored: Vec<StoredLedger<&[u8]>> = decode(&bytes);
        let is_other = |path: &Path| others.iter().any(|file| file.path == path);
        let recent = stored.iter().filter(|log| log.last >= Some(since));
        let recent = recent.map(|log| path_from_blob(log.path.clone())).filter(|path| !is_other(path));
        let mut files: Vec<SessionFile> =
            recent.filter_map(|path| SessionFile::from_user_path(&path).ok()).collect();
        files.extend(others.iter().cloned());
        read_all(&files, &stored, &|_| {}).usage
    }

    fn read_usage_file(&self) -> io::Result<Vec<u8>> {
        CacheDir::open(self.path())?.read_file(FILE)
    }

    fn write_usage_file<'s>(
        &self,
        kept: impl Iterator<Item = &'s StoredLedger<&'s [u8]>>,
        new: impl Iterator<Item = &'s StoredLedger<Vec<u8>>>,
    ) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([0; CHECKSUM]);
        for stored in kept {
            bytes = postcard::to_extend(stored, bytes).map_err(io::Error::other)?;
        }
        for stored in new {
            bytes = postcard::to_extend(stored, bytes).map_err(io::Error::other)?;
        }
        let (head, body) = bytes.split_at_mut(MAGIC.len() + CHECKSUM);
        head[MAGIC.len()..].copy_from_slice(&xxh3_64(body).to_le_bytes());
        CacheDir::create(self.path())?.write_file(FILE, &bytes)
    }
}

/// Returns the usage of some logs, without a cache.
pub fn read_usage(files: &[SessionFile], progress: &(dyn Fn(&SessionFile) + Sync)) -> LoadedUsage {
    read_all(files, &[], progress).usage
}

/// The usage that was read, and the part that the cache does not have.
#[derive(Default)]
struct ReadUsage {
    usage: LoadedUsage,
    new: FxHashMap<PathBuf, StoredLedger<Vec<u8>>>,
}

fn read_all(
    files: &[SessionFile],
    stored: &[StoredLedger<&[u8]>],
    progress: &(dyn Fn(&SessionFile) + Sync),
) -> ReadUsage {
    let known: FxHashMap<&[u8], &StoredLedger<&[u8]>> =
        stored.iter().map(|stored| (&*stored.path, stored)).collect();
    let read = |file: &SessionFile| {
        let result = read_log(file, known.get(path_to_blob(&file.path)).copied());
        progress(file);
        result
    };
    let results: Vec<io::Result<ReadLedger>> = files.par_iter().map(read).collect();
    let mut all = ReadUsage::default();
    for (file, result) in files.iter().zip(results) {
        match result {
            Ok(read) => {
                all.usage.bytes_read += read.bytes_read;
                all.usage.logs.push(LogLedger { file: file.clone(), ledger: read.ledger });
                all.new.extend(read.stored.map(|stored| (file.path.clone(), stored)));
            }
            Err(error) => all.usage.unreadable.push((file.path.clone(), error)),
        }
    }
    all
}

/// Reads the usage of a log, from where the cache ends.
fn read_log(source: &SessionFile, known: Option<&StoredLedger<&[u8]>>) -> io::Result<ReadLedger> {
    let mut file = None;
    if let Some((print, ledger)) = known.and_then(|known| known.whole.as_ref())
        && print.compare(source) == FileChange::Unchanged
        && let Ok(ledger) = postcard::from_bytes(ledger)
    {
        return Ok(ReadLedger { ledger, stored: None, bytes_read: 0 });
    }
    if let Some(known) = known
        && let Some(ledger) = postcard::from_bytes::<UsageLedger>(known.ledger).ok()
    {
        match known.print.compare(source) {
            FileChange::Unchanged => {
                return Ok(ReadLedger { ledger, stored: None, bytes_read: 0 });
            }
            FileChange::Rewritten => {}
            _ => {
                let opened = source.open()?;
                if known.print.is_beginning_of(&opened)? {
                    let scanner = known.scanner.clone();
                    return read_from(source, &opened, scanner, ledger);
                }
                file = Some(opened);
            }
        }
    }
    let file = file.map_or_else(|| source.open(), Ok)?;
    read_from(source, &file, Scanner::default(), UsageLedger::default())
}

fn read_from(
    source: &SessionFile,
    file: &File,
    mut scanner: Scanner,
    mut ledger: UsageLedger,
) -> io::Result<ReadLedger> {
    let checked = SystemTime::now();
    let stat = FileStat::from_metadata(&file.metadata()?);
    let start = scanner.offset();
    let line_end = end_of_last_line(file, stat.bytes)?.max(start);
    let mark = UsageRow::MARK;
    let mut bytes_read = scan_lines_with(file, start..line_end, &mut scanner, mark, &mut ledger)?;
    let encode = |ledger: &UsageLedger| postcard::to_stdvec(ledger).map_err(io::Error::other);
    let mut stored = StoredLedger {
        path: path_to_blob(&source.path).to_vec(),
        print: Fingerprint::new(file, stat, scanner.offset(), checked)?,
        scanner: scanner.clone(),
        last: ledger.last(),
        ledger: encode(&ledger)?,
        whole: None,
    };
    // An entry after the last line end counts, but may still grow.
    let rest = scanner.offset()..stat.bytes;
    if !rest.is_empty() {
        bytes_read += scan_lines_with(file, rest, &mut scanner, mark, &mut ledger)?;
        let print = Fingerprint::new(file, stat, stat.bytes, checked)?;
        stored.whole = Some((print, encode(&ledger)?));
    }
    Ok(ReadLedger { ledger, stored: Some(stored), bytes_read })
}

/// Reads the file; what is damaged or of another version is not there.
fn decode(bytes: &[u8]) -> Vec<StoredLedger<&[u8]>> {
    let Some(rest) = bytes.strip_prefix(MAGIC) else { return Vec::new() };
    let Some((checksum, mut body)) = rest.split_at_checked(CHECKSUM) else { return Vec::new() };
    if xxh3_64(body).to_le_bytes() != checksum {
        return Vec::new();
    }
    let mut stored = Vec::new();
    while !body.is_empty() {
        match postcard::take_from_bytes(body) {
            Ok((next, rest)) => {
                stored.push(next);
                body = rest;
            }
            Err(_) => return Vec::new(),
        }
    }
    stored
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    const ROW: &str = r#"{"type":"assistant","timestamp":"2026-03-10T12:00:00Z","message":{"id":"msg_0123456789abcdef","model":"claude-opus-5","stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":7}}}"#;

    fn load(index: &Index, path: &Path) -> LoadedUsage {
        index.usage(&[SessionFile::from_user_path(path).expect("a log")], &|_| {})
    }

    fn outputs(usage: &LoadedUsage) -> Vec<u64> {
        let ledger = &usage.logs[0].ledger;
        ledger.responses().iter().map(|record| record.recorded.usage.output).collect()
    }

    #[test]
    fn only_what_is_new_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let index = Index::at(dir.path().join("index"));
        let path = dir.path().join("a.jsonl");
        let second = ROW.replace("msg_0", "msg_1");
        fs::write(&path, format!("{ROW}\n{{\"type\":\"user\"}}\n{}", &second[..40])).expect("written");
        let first = load(&index, &path);
        assert_eq!(outputs(&first), [7]);
        // A log that was read just after it was written is read once more.
        std::thread::sleep(std::time::Duration::from_millis(150));
        fs::remove_file(dir.path().join("index").join(FILE)).expect("removed");
        load(&index, &path);
        let again = load(&index, &path);
        assert_eq!((outputs(&again), again.bytes_read), (vec![7], 0), "nothing has changed");

        let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(&second.as_bytes()[40..]).expect("written");
        let grown = load(&index, &path);
        assert_eq!(outputs(&grown), [7, 7], "the last line has no end yet");
        assert!(grown.bytes_read <= second.len() as u64, "{}", grown.bytes_read);

        fs::write(&path, "{}\n").expect("written");
        assert_eq!(outputs(&load(&index, &path)), [0; 0]);
    }

    #[test]
    fn damaged_cache_is_ignored_and_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let index = Index::at(dir.path().join("index"));
        let path = dir.path().join("a.jsonl");
        fs::write(&path, format!("{ROW}\n")).expect("written");
        load(&index, &path);
        let cache = dir.path().join("index").join(FILE);
        let stored = fs::read(&cache).expect("readable");
        for at in [0, MAGIC.len() + 2, stored.len() - 3] {
            let mut damaged = stored.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_empty());
            fs::write(&cache, damaged).expect("written");
            assert_eq!(outputs(&load(&index, &path)), [7]);
            assert_eq!(decode(&fs::read(&cache).expect("readable")).len(), 1);
        }
        assert!(decode(&stored[..stored.len() - 1]).is_empty());
    }
}
