//! Writing a file whole or not at all.
//!
//! # Replacing a session in place
//!
//! The new bytes are written beside the session and renamed over it, so that a reader sees one or the other. The old file
//! stays under the name of the backup. A process that still had it open for writing would go on writing to the backup and
//! nowhere else; so `/proc` is asked before the rename, and a session that is open for writing is refused. It is asked
//! again after the rename: whoever opened the file in between gets it back under its name. Clients open the log for each
//! entry and close it; what such a one added to the old file in that moment is added to the new one.
//!
//! Writing over the bytes of the old file was rejected: a descriptor would stay valid, but a crash would leave half a
//! session, and a writer that does not append would write into the middle of it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3Default;

use crate::confined::{ConfinedPath, PathRejection, is_not_found, read_all};
use crate::dir::{Dir, FileKind, PART_AFFIXES, PartFile};
use crate::live::{Holder, find_writer_of_open};
use crate::skip::SkippedPaths;

/// The age of a part that a killed run left behind.
const STALE_PART_AGE: Duration = Duration::from_secs(24 * 3600);
/// Files with what was said are readable by their owner alone.
const PRIVATE_MODE: u32 = 0o600;
/// Like any file that a program writes; the user's mask takes away what it shall not allow.
const DEFAULT_MODE: u32 = 0o666;

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDigest {
    /// How many bytes.
    pub bytes: u64,
    /// What they hash to.
    pub hash: u64,
}

/// Writes a file beside its place and moves it there when it is whole. If `write` fails, the disk is
/// full or the process is killed, what was there before is still there. The directory is made if need be.
///
/// The file is not synced: what is made again at will need not outlive a power cut.
pub fn write_atomic(
    path: &ConfinedPath,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<FileDigest> {
    let (dir, name) = path.open_or_create_parent()?;
    let mut part = dir.create_part(DEFAULT_MODE)?;
    let mut counted = HashingWriter { file: &part.file, hash: Xxh3Default::new(), bytes: 0 };
    let mut out = BufWriter::with_capacity(1 << 17, &mut counted);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let written = FileDigest { bytes: counted.bytes, hash: counted.hash.digest() };
    ensure_replaceable(&part.dir, name)?;
    part.persist(name)?;
    Ok(written)
}

/// Fails if a name is taken by something that is not a regular file. A link would be replaced, not followed, but it is
/// not ours to replace.
fn ensure_replaceable(dir: &Dir, name: &OsStr) -> io::Result<()> {
    match dir.kind(name) {
        Ok(kind) => kind.ensure_regular(),
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

struct HashingWriter<'f> {
    file: &'f File,
    hash: Xxh3Default,
    bytes: u64,
}

impl Write for HashingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a session where none is yet, whole or not at all: readable by its owner alone, on the disk
/// before it has its name. A file that is already there is an error, and so is a directory that is not.
pub fn write_session(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = ConfinedPath::of_file(path);
    let (dir, name) = path.open_parent()?;
    let mut part = write_session_part(dir, bytes)?;
    part.persist_new(name)?;
    part.dir.sync();
    Ok(())
}

/// A session that is being written where none is yet.
#[derive(Debug)]
pub struct NewSession {
    part: PartFile,
    name: OsString,
}

impl NewSession {
    /// Begins a session; its directory is made if need be. Nothing has its name until it is whole.
    pub fn begin(path: &ConfinedPath) -> io::Result<Self> {
        let (dir, name) = path.open_or_create_parent()?;
        Ok(Self { part: dir.create_part(PRIVATE_MODE)?, name: name.to_owned() })
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.file.write_all(bytes)
    }

    /// A second hold on the file, to put what was written on the disk while more is written.
    pub fn handle(&self) -> io::Result<File> {
        self.part.file.try_clone()
    }

    /// Writes over bytes that were written.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::Seek;
        self.part.file.seek(io::SeekFrom::Start(offset))?;
        self.part.file.write_all(bytes)
    }

    /// Puts what was written on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.part.file.sync_all()
    }

    /// Gives it its name without waiting for the disk: it can be made again. Anything that is already there
    /// is an error, unless it is a regular file and to be written `over`.
    pub fn finish_unsynced(mut self, over: bool) -> io::Result<()> {
        if over {
            ensure_replaceable(&self.part.dir, &self.name)?;
            self.part.persist(&self.name)
        } else {
            self.part.persist_new(&self.name)
        }
    }

    /// Gives it its name. A file that is already there is an error.
    pub fn finish(mut self) -> io::Result<()> {
        self.sync()?;
        self.part.persist_new(&self.name)?;
        self.part.dir.sync();
        Ok(())
    }
}

/// The reason why a session was not replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// A process has it open, or may have.
    #[error(transparent)]
    Held(#[from] Holder),
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes a session over the one that is there, which is kept as a backup; returns the backup's path.
///
/// Fails if the file is not `before` any more, if a process has it open for writing, or if `holder` finds a client that
/// has it open; `holder` is asked immediately before the new file gets the name, and once more after it. If it has been
/// opened in between, the old file gets its name back. What a writer added to it in that moment is added to the new one.
pub fn replace_session(
    path: &ConfinedPath,
    before: &[u8],
    bytes: &[u8],
    holder: &dyn Fn() -> Option<Holder>,
) -> Result<PathBuf, ReplaceError> {
    let shown = path.path();
    let (dir, name) = path.open_parent()?;
    let old = dir.open_file(name)?;
    if old.metadata()?.permissions().readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only").into());
    }
    // Nothing is written for what a client has open.
    holder().map_or(Ok(()), Err)?;
    let open = [(old.try_clone()?, shown.clone())];
    let held = || holder().or_else(|| find_writer_of_open(&open));
    let mut part = write_session_part(dir, bytes)?;
    let backup = create_backup(&part.dir, name)?;
    let is_before = || -> Result<(), ReplaceError> {
        // The name may have gone to another file, and so may the backup.
        let changed =
            !is_same_file(&part.dir.open_file(name)?, &old)? || !holds(&part.dir.open_file(name)?, before)?;
        if changed || !is_backup(&part.dir, &backup, &old, before)? {
            let error = io::Error::new(io::ErrorKind::ResourceBusy, "the file has changed since it was read");
            return Err(error.into());
        }
        held().map_or(Ok(()), |holder| Err(holder.into()))
    };
    if let Err(error) = is_before().and_then(|()| Ok(part.persist(name)?)) {
        let _ = part.dir.remove(&backup);
        return Err(error);
    }
    let dir = &part.dir;
    let new = dir.open_file(name)?;
    if let Some(holder) = held() {
        // Somebody opened it in this very moment and would write to the backup alone: it gets its name back, with what
        // was added to the new one.
        let added = read_appended(&new, bytes)?;
        restore_backup(dir, &backup, name, &old)?;
        append(dir, name, &added)?;
        return Err(holder.into());
    }
    // What was written to the old file in this very moment belongs to the new one.
    append(dir, name, &read_appended(&old, before)?)?;
    dir.sync();
    Ok(shown.with_file_name(backup))
}

/// Returns whether a file holds these bytes and no others. They may be many, so they are not read at once.
fn holds(file: &File, bytes: &[u8]) -> io::Result<bool> {
    use std::io::Read;
    let mut file = file;
    let mut piece = vec![0; 1 << 16];
    let mut rest = bytes;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(rest.is_empty()),
            Ok(n) => match rest.strip_prefix(&piece[..n]) {
                Some(behind) => rest = behind,
                None => return Ok(false),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns what stands in a file behind what was known of it.
fn read_appended(file: &File, known: &[u8]) -> io::Result<Vec<u8>> {
    use std::io::{Read, Seek};
    let mut file = file;
    file.seek(io::SeekFrom::Start(known.len() as u64))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok(tail)
}

fn append(dir: &Dir, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut file = dir.open_to_append(name)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives the old file its name back.
fn restore_backup(dir: &Dir, backup: &OsStr, name: &OsStr, old: &File) -> io::Result<()> {
    if is_same_file(&dir.open_file(backup)?, old)? {
        return dir.rename(backup, name);
    }
    // The backup is a copy, where files have one name only; the old file is gone, its bytes are not.
    dir.rename(backup, name)?;
    append(dir, name, &read_appended(old, &read_all(&dir.open_file(name)?)?)?)
}

#[cfg(unix)]
fn is_same_file(one: &File, other: &File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

#[cfg(not(unix))]
fn is_same_file(_: &File, _: &File) -> io::Result<bool> {
    Ok(true)
}

/// Returns whether a backup is the old file, or a copy of it.
fn is_backup(dir: &Dir, backup: &OsStr, old: &File, before: &[u8]) -> io::Result<bool> {
    let file = dir.open_file(backup)?;
    Ok(is_same_file(&file, old)? || holds(&file, before)?)
}

fn write_session_part(dir: Dir, bytes: &[u8]) -> io::Result<PartFile> {
    let mut part = dir.create_part(PRIVATE_MODE)?;
    part.file.write_all(bytes)?;
    part.file.sync_all()?;
    Ok(part)
}

/// Gives the bytes of a file a second name that no client takes for a session.
fn create_backup(dir: &Dir, name: &OsStr) -> io::Result<OsString> {
    for n in 1..1000 {
        let mut backup = name.to_owned();
        backup.push(if n == 1 { ".bak".to_owned() } else { format!(".bak{n}") });
        match dir.link(name, &backup) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Some file systems have no second names.
            Err(_) => {
                let mut copy = match dir.create(&backup, PRIVATE_MODE) {
                    Ok(copy) => copy,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                };
                io::copy(&mut dir.open_file(name)?, &mut copy)?;
                copy.sync_all()?;
                return Ok(backup);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many backups"))
}

/// Copies the regular files under a directory that are wanted, by their paths below it; returns how many. A
/// directory that is not there holds nothing; what is not a regular file is noted as skipped.
pub fn copy_files(
    from: &ConfinedPath,
    to: &ConfinedPath,
    wanted: &dyn Fn(&Path) -> bool,
    skips: &SkippedPaths,
) -> io::Result<u64> {
    let mut n_files = 0;
    for file in from.files(skips) {
        let below = file.relative().strip_prefix(from.relative()).unwrap_or(file.relative());
        if wanted(below) && copy_private(&file, &to.join(below), skips)? {
            n_files += 1;
        }
    }
    Ok(n_files)
}

/// Creates a directory and its parents, with the permissions that the user's umask gives.
pub fn create_dir(dir: &Path) -> io::Result<()> {
    std::fs::create_dir_all(dir)
}

/// Removes a directory with everything in it, after a failed write. Links in it are removed, not followed; an error
/// leaves the rest in place.
pub fn remove_tree(dir: &ConfinedPath) {
    if dir.is_dir() {
        let _ = std::fs::remove_dir_all(dir.path());
    }
}

/// Copies what lies beside a session to what lies beside another: subagents and large results. If that
/// fails, nothing of it stays.
pub fn copy_side_dir(from: &ConfinedPath, to: &ConfinedPath, skips: &SkippedPaths) -> io::Result<u64> {
    // Whatever else has the session's name is not its own.
    let own = ["subagents", "tool-results"].into_iter();
    let copied: io::Result<u64> =
        own.map(|dir| copy_files(&from.join(dir), &to.join(dir), &|_| true, skips)).sum();
    copied.inspect_err(|_| {
        remove_tree(to);
    })
}

/// Copies a regular file so that only its owner can read the copy; returns whether it was one. Anything else is noted as
/// skipped; what is not there is not copied.
pub fn copy_private(from: &ConfinedPath, to: &ConfinedPath, skips: &SkippedPaths) -> io::Result<bool> {
    let mut file = match from.open() {
        Ok(file) => file,
        Err(error) if is_not_found(&error) => return Ok(false),
        Err(error) => match PathRejection::from_io_error(&error) {
            Some(reason) => {
                skips.record(from.path(), reason);
                return Ok(false);
            }
            None => return Err(error),
        },
    };
    let (dir, name) = to.open_or_create_parent()?;
    let mut part = dir.create_part(PRIVATE_MODE)?;
    io::copy(&mut file, &mut part.file)?;
    part.persist_new(name)?;
    Ok(true)
}

/// Removes what a killed run left behind in a directory.
pub fn remove_stale_parts(dir: &Path) {
    let Ok(dir) = Dir::open(dir) else { return };
    for (name, kind) in dir.entries().unwrap_or_default() {
        let text = name.to_string_lossy();
        let is_part =
            text.starts_with(PART_AFFIXES.0) && text.ends_with(PART_AFFIXES.1) && kind == FileKind::File;
        let age = || dir.open_file(&name).ok()?.metadata().ok()?.modified().ok()?.elapsed().ok();
        if is_part && age().is_some_and(|age| age > STALE_PART_AGE) {
            let _ = dir.remove(&name);
        }
    }
}

/// Returns something in a directory that is neither a part nor a hidden file.
pub fn first_visible_file(dir: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match Dir::open(dir) {
        Ok(open) => open.entries()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut names = entries.into_iter().map(|(name, _)| name);
    Ok(names.find(|name| !name.to_string_lossy().starts_with('.')).map(|name| dir.join(name)))
}

/// Hashes a file as [`write_atomic`] does.
pub fn hash_file(path: &ConfinedPath) -> io::Result<FileDigest> {
    let mut file = path.open()?;
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut piece = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let got = crate::read::read_fully(&mut file, &mut piece)?;
        hash.update(&piece[..got]);
        bytes += got as u64;
        if got < piece.len() {
            return Ok(FileDigest { bytes, hash: hash.digest() });
        }
    }
}

/// Removes a regular file.
pub fn remove_file(path: &ConfinedPath) -> io::Result<()> {
    let (dir, name) = path.open_parent()?;
    dir.kind(name)?.ensure_regular()?;
    dir.remove(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_session_is_never_written_over_and_kept_when_it_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        write_session(&path, b"one").expect("written");
        let again = write_session(&path, b"two").map_err(|e| e.kind());
        assert_eq!(again, Err(io::ErrorKind::AlreadyExists));
        let replace = |before: &[u8], after: &[u8]| {
            replace_session(&ConfinedPath::of_file(&path), before, after, &|| None)
        };
        let changed = replace(b"other", b"two").map_err(|e| e.to_string());
        assert_eq!(changed, Err("the file has changed since it was read".to_owned()));
        let backup = replace(b"one", b"two").expect("replaced");
        let second = replace(b"two", b"three").expect("replaced");
        let text = |path: &Path| fs::read_to_string(path).expect("read");
        assert_eq!((text(&backup), text(&second), text(&path)), ("one".into(), "two".into(), "three".into()));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(&path).expect("metadata").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 3, "no part is left");
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.md");
        let confined = ConfinedPath::of_file(&path);
        let written = write_atomic(&confined, |out| out.write_all(b"one")).expect("written");
        assert_eq!(written, hash_file(&confined).expect("read"));
        let failed = write_atomic(&confined, |out| {
            out.write_all(&vec![b'x'; 1 << 20])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(fs::read(&path).expect("read"), b"one");
        let left: Vec<_> = fs::read_dir(dir.path()).expect("listed").collect();
        assert_eq!(left.len(), 1, "no part is left: {left:?}");
    }

    /// Replaces `one` by `two`; `step` is called each time a client is asked for.
    fn replace_with_hook(path: &Path, step: impl Fn(usize) -> Option<Holder>) -> Result<PathBuf, String> {
        let asked = std::cell::Cell::new(0);
        let holder = || {
            asked.set(asked.get() + 1);
            step(asked.get())
        };
        replace_session(&ConfinedPath::of_file(path), b"one\n", b"two\n", &holder).map_err(|e| e.to_string())
    }

    fn client() -> Option<Holder> {
        Some(Holder::Client { session: "a".into(), pid: 1 })
    }

    #[cfg(unix)]
    #[test]
    fn what_is_added_while_a_session_is_replaced_is_not_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        let add = |text: &str| {
            let mut file = File::options().append(true).open(&path).expect("opened");
            file.write_all(text.as_bytes()).expect("written");
        };
        let names = || fs::read_dir(dir.path()).expect("listed").count();
        let text = || fs::read_to_string(&path).expect("read");
        // Added between the last look and the rename: it goes to the new file.
        fs::write(&path, "one\n").expect("written");
        let backup = replace_with_hook(&path, |asked| {
            if asked == 2 {
                add("more\n");
            }
            None
        });
        let backup = backup.expect("replaced");
        assert_eq!(
            (text(), fs::read_to_string(&backup).expect("read")),
            ("two\nmore\n".into(), "one\nmore\n".into())
        );
        fs::remove_file(backup).expect("removed");
        // A client that comes in between gets its file back, with what was added to the new one.
        fs::write(&path, "one\n").expect("written");
        let inode = || fs::metadata(&path).map(|m| std::os::unix::fs::MetadataExt::ino(&m)).expect("there");
        let before = inode();
        let refused = replace_with_hook(&path, |asked| {
            (asked == 3).then(|| add("more\n"))?;
            client()
        });
        assert!(refused.is_err_and(|error| error.contains("open in a client")));
        assert_eq!(inode(), before);
        assert_eq!((text(), names()), ("one\nmore\n".into(), 1));
        // A client that is there before is left alone.
        for when in [1, 2] {
            fs::write(&path, "one\n").expect("written");
            let refused = replace_with_hook(&path, |asked| (asked == when).then(client)?);
            assert!(refused.is_err());
            assert_eq!((text(), names()), ("one\n".into(), 1));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_session_that_is_open_for_writing_is_not_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        fs::write(&path, "one\n").expect("written");
        let mut writer = File::options().append(true).open(&path).expect("opened");
        let refused = replace_with_hook(&path, |_| None);
        assert!(refused.is_err_and(|error| error.contains("open for writing")));
        writer.write_all(b"more\n").expect("written");
        assert_eq!(fs::read_to_string(&path).expect("read"), "one\nmore\n");
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_neither_replaced_nor_written_through() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("real")).expect("made");
        fs::write(at("real/f"), "one\n").expect("written");
        std::os::unix::fs::symlink(at("real"), at("dir")).expect("linked");
        std::os::unix::fs::symlink(at("real/f"), at("file")).expect("linked");
        for below in ["dir/f", "file", "../x", "dir/new"] {
            let path = ConfinedPath::new(dir.path(), below);
            assert!(write_atomic(&path, |out| out.write_all(b"two")).is_err(), "{below}");
            assert!(replace_session(&path, b"one\n", b"two\n", &|| None).is_err(), "{below}");
            let new = NewSession::begin(&path).and_then(|new| new.finish_unsynced(true));
            assert!(new.is_err(), "{below}");
            assert!(
                copy_private(&ConfinedPath::new(dir.path(), "real/f"), &path, &SkippedPaths::default())
                    .is_err()
            );
        }
        assert_eq!(fs::read(at("real/f")).expect("read"), b"one\n");
        assert_eq!(
            (
                fs::read_dir(at("real")).expect("listed").count(),
                fs::read_dir(dir.path()).expect("listed").count()
            ),
            (1, 3)
        );
    }
}
