//! Writing a file whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use xxhash_rust::xxh3::Xxh3Default;

/// What the names of files begin and end with while they are written.
const PART: (&str, &str) = (".rethread-", ".part");
/// A part that is older than this is what a killed run left behind.
const STALE: Duration = Duration::from_secs(24 * 3600);

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// How many bytes.
    pub bytes: u64,
    /// What they hash to.
    pub hash: u64,
}

/// Writes a file beside its place and moves it there when it is whole. If `write` fails, the disk is
/// full or the process is killed, what was there before is still there.
///
/// The file is not synced: what is made again at will need not outlive a power cut.
pub fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<Written> {
    let dir = dir_of(path);
    let mut builder = tempfile::Builder::new();
    builder.prefix(PART.0).suffix(PART.1);
    #[cfg(unix)]
    {
        // Like any file that a program writes; the user's mask takes away what it shall not allow.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let part = builder.tempfile_in(dir)?;
    let mut counted = Counted { file: part.as_file(), hash: Xxh3Default::new(), bytes: 0 };
    let mut out = BufWriter::with_capacity(1 << 17, &mut counted);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let written = Written { bytes: counted.bytes, hash: counted.hash.digest() };
    part.persist(path).map_err(|error| error.error)?;
    Ok(written)
}

struct Counted<'f> {
    file: &'f File,
    hash: Xxh3Default,
    bytes: u64,
}

impl Write for Counted<'_> {
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
/// before it has its name. A file that is already there is an error.
pub fn write_session(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = session_part(path, bytes)?;
    part.persist_noclobber(path).map_err(|error| error.error)?;
    sync_dir(path);
    Ok(())
}

/// A session that is being written where none is yet.
#[derive(Debug)]
pub struct NewSession {
    part: tempfile::NamedTempFile,
    path: PathBuf,
}

impl NewSession {
    /// Begins a session; its directory is made if need be. Nothing has its name until it is whole.
    pub fn begin(path: &Path) -> io::Result<Self> {
        make_dir(dir_of(path))?;
        Ok(Self { part: part_of(path)?, path: path.to_owned() })
    }

    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.part.write_all(bytes)
    }

    /// A second hold on the file, to put what was written on the disk while more is written.
    pub fn handle(&self) -> io::Result<File> {
        self.part.as_file().try_clone()
    }

    /// Writes over bytes that were written.
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        use std::io::Seek;
        self.part.seek(io::SeekFrom::Start(offset))?;
        self.part.write_all(bytes)
    }

    /// Puts what was written on the disk.
    pub fn sync(&self) -> io::Result<()> {
        self.part.as_file().sync_all()
    }

    /// Gives it its name without waiting for the disk: it can be made again. A file that is already there
    /// is an error, unless it is to be written `over`.
    pub fn finish_soon(self, over: bool) -> io::Result<()> {
        match over {
            true => self.part.persist(&self.path),
            false => self.part.persist_noclobber(&self.path),
        }
        .map(drop)
        .map_err(|error| error.error)
    }

    /// Gives it its name. A file that is already there is an error.
    pub fn finish(self) -> io::Result<()> {
        self.sync()?;
        self.part.persist_noclobber(&self.path).map_err(|error| error.error)?;
        sync_dir(&self.path);
        Ok(())
    }
}

/// Makes a directory, and those above it, that only its owner can look into.
pub fn make_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(dir)
}

/// Writes a session over the one that is there, which is kept as a backup; returns the backup's path.
/// Fails if the file is not `before` any more.
pub fn replace_session(path: &Path, before: &[u8], bytes: &[u8]) -> io::Result<PathBuf> {
    if fs::metadata(path)?.permissions().readonly() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is read-only"));
    }
    let part = session_part(path, bytes)?;
    if fs::read(path)? != before {
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, "the file has changed since it was read"));
    }
    let backup = backup_of(path)?;
    if let Err(error) = part.persist(path) {
        let _ = fs::remove_file(&backup);
        return Err(error.error);
    }
    // What was written to the old file in this very moment belongs to the new one.
    let kept = fs::read(&backup)?;
    if let Some(tail) = kept.strip_prefix(before).filter(|tail| !tail.is_empty()) {
        File::options().append(true).open(path)?.write_all(tail)?;
    }
    sync_dir(path);
    Ok(backup)
}

/// The directory that a file is in.
fn dir_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Begins what is to be a file, beside it. Temporary files are readable by their owner alone, and stay so.
pub(crate) fn part_of(path: &Path) -> io::Result<tempfile::NamedTempFile> {
    let part = tempfile::Builder::new().prefix(PART.0).suffix(PART.1).tempfile_in(dir_of(path));
    // The name of the part is nothing that anybody knows.
    part.map_err(|error| io::Error::from(error.kind()))
}

fn session_part(path: &Path, bytes: &[u8]) -> io::Result<tempfile::NamedTempFile> {
    let mut part = part_of(path)?;
    part.write_all(bytes)?;
    part.as_file().sync_all()?;
    Ok(part)
}

/// Makes a new name durable, where the system can.
fn sync_dir(path: &Path) {
    let dir = dir_of(path);
    if let Ok(dir) = File::open(dir) {
        let _ = dir.sync_all();
    }
}

/// Gives the bytes of a file a second name that no client takes for a session.
fn backup_of(path: &Path) -> io::Result<PathBuf> {
    for n in 1..1000 {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(if n == 1 { ".bak".to_owned() } else { format!(".bak{n}") });
        let backup = path.with_file_name(name);
        match fs::hard_link(path, &backup) {
            Ok(()) => return Ok(backup),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // Some file systems have no second names.
            Err(_) => {
                let mut copy = match File::create_new(&backup) {
                    Ok(copy) => copy,
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                    Err(error) => return Err(error),
                };
                io::copy(&mut File::open(path)?, &mut copy)?;
                copy.sync_all()?;
                return Ok(backup);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "there are too many backups"))
}

/// Copies the files under a directory that are wanted, by their paths below it; returns how many. A
/// directory that is not there holds nothing.
pub fn copy_files(from: &Path, to: &Path, wanted: &dyn Fn(&Path) -> bool) -> io::Result<u64> {
    copy_below(from, to, vec![PathBuf::new()], wanted)
}

/// Copies what lies beside a session to what lies beside another: subagents and large results. If that
/// fails, nothing of it stays.
pub fn copy_beside(from: &Path, to: &Path) -> io::Result<u64> {
    let (from, to) = (from.with_extension(""), to.with_extension(""));
    // Whatever else has the session's name is not its own.
    let own = vec![PathBuf::from("subagents"), PathBuf::from("tool-results")];
    copy_below(&from, &to, own, &|_| true).inspect_err(|_| {
        let _ = fs::remove_dir_all(&to);
    })
}

fn copy_below(
    from: &Path,
    to: &Path,
    mut waiting: Vec<PathBuf>,
    wanted: &dyn Fn(&Path) -> bool,
) -> io::Result<u64> {
    let mut n_files = 0;
    while let Some(below) = waiting.pop() {
        let entries = match fs::read_dir(from.join(&below)) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                continue;
            }
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            let below = below.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() {
                waiting.push(below);
            } else if kind.is_file() && wanted(&below) {
                let target = to.join(&below);
                make_dir(target.parent().unwrap_or(to))?;
                copy_private(&entry.path(), &target)?;
                n_files += 1;
            }
        }
    }
    Ok(n_files)
}

/// Copies a file so that only its owner can read the copy.
pub fn copy_private(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(to, fs::Permissions::from_mode(0o600))?;
    }
    Ok(())
}

/// Removes what a killed run left behind in a directory.
pub fn remove_stale_parts(dir: &Path) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_part = name.starts_with(PART.0) && name.ends_with(PART.1);
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|time| time.elapsed().ok());
        if is_part && age.is_some_and(|age| age > STALE) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Tells whether a directory holds anything but parts and hidden files.
pub fn holds_files(dir: &Path) -> io::Result<Option<PathBuf>> {
    match fs::read_dir(dir) {
        Ok(entries) => {
            let mut names: Vec<PathBuf> = entries.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>()?;
            names
                .retain(|path| path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.')));
            names.sort();
            Ok(names.into_iter().next())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Hashes a file as [`write_whole`] does.
pub fn hash_of(path: &Path) -> io::Result<Written> {
    let mut file = fs::File::open(path)?;
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    let mut piece = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        let got = crate::read::read_fully(&mut file, &mut piece)?;
        hash.update(&piece[..got]);
        bytes += got as u64;
        if got < piece.len() {
            return Ok(Written { bytes, hash: hash.digest() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_never_written_over_and_kept_when_it_is_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("a.jsonl");
        write_session(&path, b"one").expect("written");
        let again = write_session(&path, b"two").map_err(|e| e.kind());
        assert_eq!(again, Err(io::ErrorKind::AlreadyExists));
        let changed = replace_session(&path, b"other", b"two").map_err(|e| e.kind());
        assert_eq!(changed, Err(io::ErrorKind::ResourceBusy));
        let backup = replace_session(&path, b"one", b"two").expect("replaced");
        let second = replace_session(&path, b"two", b"three").expect("replaced");
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
        let written = write_whole(&path, |out| out.write_all(b"one")).expect("written");
        assert_eq!(written, hash_of(&path).expect("read"));
        let failed = write_whole(&path, |out| {
            out.write_all(&vec![b'x'; 1 << 20])?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert_eq!(failed.map_err(|e| e.kind()), Err(io::ErrorKind::StorageFull));
        assert_eq!(fs::read(&path).expect("read"), b"one");
        let left: Vec<_> = fs::read_dir(dir.path()).expect("listed").collect();
        assert_eq!(left.len(), 1, "no part is left: {left:?}");
    }
}
