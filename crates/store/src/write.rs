//! Writes files atomically.
//!
//! # Replacing a session in place
//!
//! The new bytes are written next to the session and renamed over it, so that a reader sees either the
//! old or the new file. The old file is kept under the name of the backup. A process that still has it
//! open for writing would write to the backup only; so `/proc` is checked before the rename, and a
//! session that is open for writing is refused. It is checked again after the rename: if a process has
//! opened the old file in between, that file is renamed back. Clients open the log for each entry and
//! close it; anything such a client appended to the old file in that moment is appended to the new one.
//!
//! Overwriting the bytes of the old file was rejected: a descriptor would stay valid, but a crash would
//! leave half a session, and a writer that does not append would write into the middle of it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3Default;

use crate::confined::{ConfinedPath, PathRejection, create_private_dir, is_not_found, read_all};
use crate::dir::{Dir, FileKind, PART_AFFIXES, PartFile};
use crate::find::{SUBAGENTS, TOOL_RESULTS};
use crate::live::{Holder, find_writer_of_open};
use crate::skip::SkippedPaths;

/// The age after which a temporary file counts as left over by a killed run.
const STALE_PART_AGE: Duration = Duration::from_secs(24 * 3600);
/// Files with conversation content are readable by their owner only.
const PRIVATE_MODE: u32 = 0o600;
/// The usual mode of a new file, restricted by the umask.
const DEFAULT_MODE: u32 = 0o666;

/// The size and hash of a written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileDigest {
    /// The number of bytes.
    pub bytes: u64,
    /// The hash of the bytes.
    pub hash: u64,
}

/// Writes a temporary file and renames it when it is complete. If `write` fails, the disk is full or the
/// process is killed, the previous file is unchanged. The directory is created if necessary.
///
/// The file is not synced: content that can be generated again need not survive a power failure.
pub fn write_atomic(
    path: &ConfinedPath,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<FileDigest> {
    let (dir, name) = path.open_or_create_parent()?;
    let mut part = dir.create_part(DEFAULT_MODE)?;
    let mut writer = HashingWriter { file: &part.file, hash: Xxh3Default::new(), bytes: 0 };
    let mut out = BufWriter::with_capacity(1 << 17, &mut writer);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let written = FileDigest { bytes: writer.bytes, hash: writer.hash.digest() };
    ensure_replaceable(&part.dir, name)?;
    part.persist(name)?;
    Ok(written)
}

/// Fails if the name exists and is not a regular file. A link would be replaced, not followed, but it is
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

/// Writes a new session atomically: readable by its owner only, and synced before it gets its name. Fails
/// if the file exists or its directory does not.
pub fn write_session(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let path = ConfinedPath::of_file(path);
    let (dir, name) = path.open_parent()?;
    let mut part = write_session_part(dir, bytes)?;
    part.persist_new(name)?;
    part.dir.sync();
    Ok(())
}

/// A new session that is being written.
#[derive(Debug)]
pub struct NewSession {
    part: PartFile,
    name: OsString,
}

impl NewSession {
    /// Creates the session under a temporary name; its directory is created if necessary.
    pub fn begin(path: &ConfinedPath) -> io::Result<Self> {
        let (dir, name) = path.open_or_create_parent()?;
        Ok(Self { part: dir.create_part(PRIVATE_MODE)?, name: name.to_owned() })
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.file.write_all(bytes)
    }

    /// Returns a second handle of the file, to sync what is written while more is written.
    pub fn handle(&self) -> io::Result<File> {
        self.part.file.try_clone()
    }

    /// Overwrites bytes that were written before.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::Seek;
        self.part.file.seek(io::SeekFrom::Start(offset))?;
        self.part.file.write_all(bytes)
    }

    /// Syncs the bytes written so far.
    pub fn sync(&self) -> io::Result<()> {
        self.part.file.sync_all()
    }

    /// Renames the file to its final name without syncing, for content that can be generated again. Fails
    /// if the name exists, unless `replace` is set and it is a regular file.
    pub fn finish_unsynced(mut self, replace: bool) -> io::Result<()> {
        if replace {
            ensure_replaceable(&self.part.dir, &self.name)?;
            self.part.persist(&self.name)
        } else {
            self.part.persist_new(&self.name)
        }
    }

    /// Syncs the file and renames it to its final name. Fails if the name exists.
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
    /// A process has it open, or may have it open.
    #[error(transparent)]
    Held(#[from] Holder),
    /// The session could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Replaces a session and keeps the old one as a backup; returns the backup's path.
///
/// Fails if the file no longer equals `before`, if a process has it open for writing, or if `holder`
/// finds a client that has it open; `holder` is called immediately before the rename and once more after
/// it. If the file has been opened in between, the old file is renamed back. Bytes that a writer appended
/// to the old file in that moment are appended to the new one.
pub fn replace_session(
    path: &ConfinedPath,
    before: &[u8],
    bytes: &[u8],
    holder: &dyn Fn() -> Option<Holder>,
) -> Result<PathBuf, ReplaceError> {
    let target = path.path();
    let (dir, name) = path.open_parent()?;
    let old = dir.open_file(name)?;
    if old.metadata()?.permissions().readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only").into());
    }
    // Nothing is written if a client has the session open.
    holder().map_or(Ok(()), Err)?;
    let open = [(old.try_clone()?, target.clone())];
    let held = || holder().or_else(|| find_writer_of_open(&open));
    let mut part = write_session_part(dir, bytes)?;
    let backup = create_backup(&part.dir, name)?;
    let check_unchanged = || -> Result<(), ReplaceError> {
        // The name may point to another file by now, and so may the backup.
        let changed = !is_same_file(&part.dir.open_file(name)?, &old)?
            || !has_content(&part.dir.open_file(name)?, before)?;
        if changed || !is_backup(&part.dir, &backup, &old, before)? {
            let error = io::Error::new(io::ErrorKind::ResourceBusy, "the file has changed since it was read");
            return Err(error.into());
        }
        held().map_or(Ok(()), |holder| Err(holder.into()))
    };
    if let Err(error) = check_unchanged().and_then(|()| Ok(part.persist(name)?)) {
        let _ = part.dir.remove(&backup);
        return Err(error);
    }
    let dir = &part.dir;
    let new = dir.open_file(name)?;
    if let Some(holder) = held() {
        // A process opened the old file at this moment and would write to the backup only: the old file
        // is renamed back, with the bytes appended to the new one.
        let added = read_appended(&new, bytes)?;
        restore_backup(dir, &backup, name, &old)?;
        append(dir, name, &added)?;
        return Err(holder.into());
    }
    // Bytes written to the old file at this moment belong to the new one.
    append(dir, name, &read_appended(&old, before)?)?;
    dir.sync();
    Ok(target.with_file_name(backup))
}

/// Returns whether a file consists of exactly these bytes. Reads it piece by piece, because it may be
/// large.
fn has_content(file: &File, bytes: &[u8]) -> io::Result<bool> {
    use std::io::Read;
    let mut file = file;
    let mut piece = vec![0; 1 << 16];
    let mut rest = bytes;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(rest.is_empty()),
            Ok(n) => match rest.strip_prefix(&piece[..n]) {
                Some(remaining) => rest = remaining,
                None => return Ok(false),
            },
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the bytes of a file after the known ones.
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

/// Renames the old file back to its name.
fn restore_backup(dir: &Dir, backup: &OsStr, name: &OsStr, old: &File) -> io::Result<()> {
    if is_same_file(&dir.open_file(backup)?, old)? {
        return dir.rename(backup, name);
    }
    // Without hard links the backup is a copy: the old file has no name any more, but its bytes can be read.
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

/// Returns whether a backup is the old file or a copy of it.
fn is_backup(dir: &Dir, backup: &OsStr, old: &File, before: &[u8]) -> io::Result<bool> {
    let file = dir.open_file(backup)?;
    Ok(is_same_file(&file, old)? || has_content(&file, before)?)
}

fn write_session_part(dir: Dir, bytes: &[u8]) -> io::Result<PartFile> {
    let mut part = dir.create_part(PRIVATE_MODE)?;
    part.file.write_all(bytes)?;
    part.file.sync_all()?;
    Ok(part)
}

/// Links or copies a file under a backup name that no client reads as a session.
fn create_backup(dir: &Dir, name: &OsStr) -> io::Result<OsString> {
    for n in 1..1000 {
        let mut backup = name.to_owned();
        backup.push(if n == 1 { ".bak".to_owned() } else { format!(".bak{n}") });
        match dir.link(name, &backup) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Some file systems do not support hard links.
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
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many backups"))
}

/// Copies the regular files below a directory that `wanted` accepts by relative path; returns their
/// number. A missing directory counts as empty; other kinds of files are recorded as skipped.
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

/// Creates a directory with the given files, for its owner only, and its missing parents. It gets its name when it is
/// complete; returns whether it was created, which it is not if it already exists.
pub fn create_private_tree(dir: &Path, files: &[(PathBuf, &[u8])]) -> io::Result<bool> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    if dir.is_dir() {
        return Ok(false);
    }
    create_private_dir(parent)?;
    let mut part = OsString::from(PART_AFFIXES.0);
    part.push(name);
    part.push(format!("-{}{}", std::process::id(), PART_AFFIXES.1));
    let part = ConfinedPath::new(parent, part);
    remove_tree(&part);
    let written = write_private_files(&part, files).and_then(|()| std::fs::rename(part.path(), dir));
    if written.is_err() {
        remove_tree(&part);
    }
    match written {
        Ok(()) => Ok(true),
        // Another process was faster.
        Err(_) if dir.is_dir() => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_private_files(dir: &ConfinedPath, files: &[(PathBuf, &[u8])]) -> io::Result<()> {
    for (path, bytes) in files {
        let path = dir.path().join(path);
        create_private_dir(path.parent().unwrap_or(&path))?;
        write_session(&path, bytes)?;
    }
    Ok(())
}

/// Removes a directory with everything in it, after a failed write. Links in it are removed, not followed; an error
/// leaves the rest in place.
pub fn remove_tree(dir: &ConfinedPath) {
    if dir.is_dir() {
        let _ = std::fs::remove_dir_all(dir.path());
    }
}

/// Copies the sidecars of a session to those of another: subagents and large results. If that fails,
/// nothing of the copy is kept.
pub fn copy_side_dir(from: &ConfinedPath, to: &ConfinedPath, skips: &SkippedPaths) -> io::Result<u64> {
    // Anything else in the directory does not belong to the session.
    let dirs = [SUBAGENTS, TOOL_RESULTS].into_iter();
    let copied: io::Result<u64> =
        dirs.map(|dir| copy_files(&from.join(dir), &to.join(dir), &|_| true, skips)).sum();
    copied.inspect_err(|_| {
        remove_tree(to);
    })
}

/// Copies a regular file so that only its owner can read the copy; returns whether it was one. Other
/// kinds of files are recorded as skipped; a missing file is not copied.
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

/// Removes the temporary files of killed runs from a directory.
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

/// Returns a file in a directory that is neither temporary nor hidden.
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
    fn private_tree_is_created_once_and_completely() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("cache/sample");
        let files = [(PathBuf::from("projects/a/1.jsonl"), &b"one"[..]), (PathBuf::from("2.jsonl"), b"two")];
        assert!(create_private_tree(&dir, &files).expect("created"));
        fs::write(dir.join("2.jsonl"), "changed").expect("written");
        assert!(!create_private_tree(&dir, &files).expect("kept"));
        assert_eq!(fs::read_to_string(dir.join("2.jsonl")).expect("read"), "changed");
        #[cfg(unix)]
        for (path, mode) in [("cache", 0o700), ("cache/sample", 0o700), ("cache/sample/2.jsonl", 0o600)] {
            use std::os::unix::fs::PermissionsExt;
            let permissions = fs::metadata(base.path().join(path)).expect("metadata").permissions();
            assert_eq!(permissions.mode() & 0o777, mode, "{path}");
        }
        let failing = [(PathBuf::from("a"), &b"one"[..]), (PathBuf::from("a/b"), b"two")];
        assert!(create_private_tree(&base.path().join("other"), &failing).is_err());
        assert_eq!(fs::read_dir(base.path()).expect("read").count(), 1, "a failed tree was left");
    }

    #[test]
    fn replaced_session_is_kept_as_backup() {
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
        assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 3, "no temporary file is left");
    }

    #[test]
    fn failed_write_leaves_the_old_file() {
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
        assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
    }

    /// Replaces `one` by `two`; `step` is called for each check for a client.
    fn replace_with_hook(path: &Path, step: impl Fn(usize) -> Option<Holder>) -> Result<PathBuf, String> {
        let n_checks = std::cell::Cell::new(0);
        let holder = || {
            n_checks.set(n_checks.get() + 1);
            step(n_checks.get())
        };
        replace_session(&ConfinedPath::of_file(path), b"one\n", b"two\n", &holder).map_err(|e| e.to_string())
    }

    fn client() -> Option<Holder> {
        Some(Holder::Client { session: "a".into(), pid: 1 })
    }

    #[cfg(unix)]
    #[test]
    fn entries_appended_during_replacement_are_not_lost() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        let add = |text: &str| {
            let mut file = File::options().append(true).open(&path).expect("opened");
            file.write_all(text.as_bytes()).expect("written");
        };
        let names = || fs::read_dir(dir.path()).expect("listed").count();
        let text = || fs::read_to_string(&path).expect("read");
        // Appended between the last check and the rename: it ends up in the new file.
        fs::write(&path, "one\n").expect("written");
        let backup = replace_with_hook(&path, |n_checks| {
            if n_checks == 2 {
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
        // A client that opens the file in between gets it back, with the bytes appended to the new one.
        fs::write(&path, "one\n").expect("written");
        let inode = || fs::metadata(&path).map(|m| std::os::unix::fs::MetadataExt::ino(&m)).expect("there");
        let before = inode();
        let refused = replace_with_hook(&path, |n_checks| {
            (n_checks == 3).then(|| add("more\n"))?;
            client()
        });
        assert!(refused.is_err_and(|error| error.contains("open in a client")));
        assert_eq!(inode(), before);
        assert_eq!((text(), names()), ("one\nmore\n".into(), 1));
        // The session of a client that was there before is not changed.
        for when in [1, 2] {
            fs::write(&path, "one\n").expect("written");
            let refused = replace_with_hook(&path, |n_checks| (n_checks == when).then(client)?);
            assert!(refused.is_err());
            assert_eq!((text(), names()), ("one\n".into(), 1));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn session_open_for_writing_is_not_replaced() {
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
    fn links_are_neither_replaced_nor_followed() {
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
