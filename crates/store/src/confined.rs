//! Opening files without following links, for every other module and crate.
//!
//! A [`ConfinedPath`] is a directory that may be reached through links, such as a project, and a path below it that may
//! not. Each component below is opened from the handle of the directory above it, so a link that is swapped in between a
//! look and a use leads nowhere. Only regular files are opened: a pipe would block, a device can do anything.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use crate::dir::{Dir, FileKind, open_file, stat_file};
use crate::skip::SkippedPaths;

/// How many directories are looked into below one another.
pub(crate) const MAX_DEPTH: usize = 64;

/// The reason why something on disk is neither read nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum PathRejection {
    /// A symbolic link where links are not followed.
    #[error("it is a symbolic link, which is not followed here")]
    Link,
    /// A directory in place of a file.
    #[error("it is a directory")]
    Directory,
    /// A named pipe, which would block.
    #[error("it is a pipe")]
    Pipe,
    /// A socket.
    #[error("it is a socket")]
    Socket,
    /// A device.
    #[error("it is a device")]
    Device,
    /// A path with `..` in it.
    #[error("its path leads out of its directory")]
    Outside,
    /// A directory below too many others.
    #[error("it lies more than {MAX_DEPTH} directories deep")]
    TooDeep,
}

impl PathRejection {
    /// Returns the reason in an error of reading or writing, if that is one.
    pub fn from_io_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<PathRejection> for io::Error {
    fn from(reason: PathRejection) -> Self {
        Self::new(io::ErrorKind::InvalidInput, reason)
    }
}

/// A path below a directory, reached from there without following a link.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfinedPath {
    base: PathBuf,
    relative: PathBuf,
}

impl ConfinedPath {
    /// Takes a directory, which may be reached through links, and a path below it.
    pub fn new(base: impl Into<PathBuf>, below: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), relative: below.into() }
    }

    /// Takes a file whose directory may be reached through links.
    pub fn of_file(path: &Path) -> Self {
        let base = path.parent().unwrap_or(Path::new(""));
        Self::new(base, path.file_name().unwrap_or_default())
    }

    /// Returns the whole path, to be shown.
    pub fn path(&self) -> PathBuf {
        self.base.join(&self.relative)
    }

    /// Returns the directory that may be reached through links.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the part that is reached without links.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns the path of something below this one.
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { base: self.base.clone(), relative: self.relative.join(name) }
    }

    /// Returns the path with another ending.
    pub fn with_extension(&self, ending: &str) -> Self {
        Self { base: self.base.clone(), relative: self.relative.with_extension(ending) }
    }

    /// Opens the directory that it lies in; returns its own name too.
    pub(crate) fn open_parent(&self) -> io::Result<(Dir, &OsStr)> {
        let (above, name) = self.split()?;
        Ok((Dir::open(&self.base)?.descend(above)?, name))
    }

    /// Opens the directory that it lies in, which is made if need be.
    pub(crate) fn open_or_create_parent(&self) -> io::Result<(Dir, &OsStr)> {
        let (above, name) = self.split()?;
        create_private_dir(&self.base)?;
        Ok((Dir::open(&self.base)?.descend_or_create(above)?, name))
    }

    fn split(&self) -> io::Result<(&Path, &OsStr)> {
        match self.relative.components().next_back() {
            Some(Component::Normal(name)) => Ok((self.relative.parent().unwrap_or(Path::new("")), name)),
            _ => Err(PathRejection::Outside.into()),
        }
    }

    /// Opens a regular file to read it.
    pub fn open(&self) -> io::Result<File> {
        // What lies in the base itself needs no handle of it: only the last component must not be a link.
        match self.split()? {
            (above, name) if above.as_os_str().is_empty() => open_file(&self.base.join(name)),
            (above, name) => Dir::open(&self.base)?.descend(above)?.open_file(name),
        }
    }

    /// Returns the size of a regular file, and when it was last written.
    pub fn stat(&self) -> io::Result<(u64, Option<SystemTime>)> {
        match self.split()? {
            (above, name) if above.as_os_str().is_empty() => stat_file(&self.base.join(name)),
            (above, name) => Dir::open(&self.base)?.descend(above)?.stat(name),
        }
    }

    /// Reads a regular file.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&self.open()?)
    }

    /// Returns whether a regular file is there.
    pub fn is_file(&self) -> bool {
        self.kind().is_ok_and(|kind| kind == FileKind::File)
    }

    /// Returns whether a directory is there.
    pub fn is_dir(&self) -> bool {
        self.kind().is_ok_and(|kind| kind == FileKind::Dir)
    }

    /// Returns what is there, if anything is.
    pub(crate) fn kind(&self) -> io::Result<FileKind> {
        let (dir, name) = self.open_parent()?;
        dir.kind(name)
    }

    /// Fails with the reason if something is there that is not a regular file, or if the way to it is a link.
    pub fn ensure_regular(&self) -> io::Result<()> {
        match self.kind() {
            Ok(kind) => kind.ensure_regular(),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists the regular files below this directory at any depth, sorted; everything else is noted as skipped. A
    /// directory that is not there holds nothing.
    pub fn files(&self, skips: &SkippedPaths) -> Vec<Self> {
        let mut found = Vec::new();
        let mut waiting = vec![(self.clone(), 0)];
        while let Some((at, depth)) = waiting.pop() {
            if depth > MAX_DEPTH {
                skips.record(at.path(), PathRejection::TooDeep);
                continue;
            }
            for (name, kind) in at.entries(skips) {
                let item = at.join(&name);
                match kind {
                    FileKind::File => found.push(item),
                    FileKind::Dir => waiting.push((item, depth + 1)),
                    FileKind::Other(reason) => skips.record(item.path(), reason),
                }
            }
        }
        found.sort();
        found
    }

    /// Lists a directory. One that is not there, or cannot be reached without a link, holds nothing.
    pub(crate) fn entries(&self, skips: &SkippedPaths) -> Vec<(OsString, FileKind)> {
        let listed = Dir::open(&self.base).and_then(|dir| dir.descend(&self.relative)?.entries());
        match listed {
            Ok(entries) => entries,
            Err(error) => {
                if let Some(reason) = PathRejection::from_io_error(&error) {
                    skips.record(self.path(), reason);
                }
                Vec::new()
            }
        }
    }
}

/// Opens a regular file to read it; its directory may be reached through links.
pub fn open_regular(path: &Path) -> io::Result<File> {
    ConfinedPath::of_file(path).open()
}

/// Makes a directory, and those above it, that only its owner can look into.
fn create_private_dir(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().is_empty() || dir.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(dir)
}

/// Returns whether an error says that there is nothing.
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads an open file to the length that it has now.
pub(crate) fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    // A file can say that it is larger than any memory.
    let wanted = usize::try_from(len).unwrap_or(usize::MAX);
    bytes.try_reserve_exact(wanted).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn reason(read: &io::Result<Vec<u8>>) -> Option<PathRejection> {
        read.as_ref().err().and_then(PathRejection::from_io_error)
    }

    #[test]
    fn links_lead_to_the_base_and_no_further() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("real/a/b")).expect("made");
        fs::write(at("real/a/b/f"), "x").expect("written");
        fs::write(at("outside"), "secret").expect("written");
        symlink(at("real"), at("base")).expect("linked");
        symlink(at("real/a"), at("real/l")).expect("linked");
        symlink(at("outside"), at("real/a/g")).expect("linked");
        let read = |below: &str| ConfinedPath::new(at("base"), below).read();
        assert_eq!(read("a/b/f").expect("read"), b"x");
        assert_eq!(read("./a/b/f").expect("read"), b"x");
        for below in ["l/b/f", "a/g"] {
            assert_eq!(reason(&read(below)), Some(PathRejection::Link), "{below}");
        }
        let absolute = at("outside");
        for below in ["../outside", "a/../../outside", "a/..", "", "/", &absolute.to_string_lossy()] {
            assert_eq!(reason(&read(below)), Some(PathRejection::Outside), "{below}");
        }
        assert_eq!(reason(&read("a")), Some(PathRejection::Directory));
        assert_eq!(read("a/none").map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        let skips = SkippedPaths::default();
        let files = ConfinedPath::new(at("base"), "").files(&skips);
        assert_eq!(files, [ConfinedPath::new(at("base"), "a/b/f")]);
        let skipped: Vec<PathBuf> = skips.all().into_iter().map(|skipped| skipped.path).collect();
        assert_eq!(skipped, [at("base/a/g"), at("base/l")]);
    }

    #[test]
    fn a_link_that_is_swapped_in_leads_nowhere() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("base/side")).expect("made");
        fs::create_dir_all(at("outside")).expect("made");
        fs::write(at("base/side/f"), "own").expect("written");
        fs::write(at("outside/f"), "secret").expect("written");
        let held = Dir::open(&at("base")).and_then(|dir| dir.descend(Path::new("side"))).expect("opened");
        fs::rename(at("base/side"), at("base/moved")).expect("moved");
        symlink(at("outside"), at("base/side")).expect("linked");
        let mut own = String::new();
        held.open_file(OsStr::new("f")).expect("opened").read_to_string(&mut own).expect("read");
        assert_eq!(own, "own");
        let mut part = held.create_part(0o600).expect("begun");
        part.persist(OsStr::new("f")).expect("named");
        assert_eq!(fs::read_to_string(at("outside/f")).expect("read"), "secret");
        assert_eq!(fs::read(at("base/moved/f")).expect("read"), b"");
    }

    #[test]
    fn directories_are_not_followed_for_ever() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 5).collect();
        fs::create_dir_all(dir.path().join(&deep)).expect("made");
        fs::write(dir.path().join(&deep).join("f"), "x").expect("written");
        let skips = SkippedPaths::default();
        assert_eq!(ConfinedPath::new(dir.path(), "").files(&skips), []);
        assert_eq!(skips.all()[0].reason, PathRejection::TooDeep);
    }
}
