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
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
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
    let bytes = fs::read(path)?;
    Ok(Written { bytes: bytes.len() as u64, hash: xxhash_rust::xxh3::xxh3_64(&bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

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
