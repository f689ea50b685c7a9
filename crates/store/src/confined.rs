//! Opens files without following links, for every other module and crate.
//!
//! A [`ConfinedPath`] is a base directory that may be reached through links, such as a project, and a
//! path below it that may not. Each component below the base is opened from the handle of its parent
//! directory, so a link that is swapped in between a check and a use is not followed. Only regular files
//! are opened: a pipe would block, a device can do anything.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use crate::dir::{Dir, FileKind, FileStat, open_file, stat_file};
use crate::skip::SkippedPaths;

/// The maximum depth of nested directories.
pub(crate) const MAX_DEPTH: usize = 64;

/// The reason why a path is neither read nor written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[non_exhaustive]
pub enum PathRejection {
    /// A symbolic link where links are not followed.
    #[error("symbolic link, not followed")]
    Link,
    /// A directory instead of a file.
    #[error("is a directory")]
    Directory,
    /// A named pipe, which would block.
    #[error("is a pipe")]
    Pipe,
    /// A socket.
    #[error("is a socket")]
    Socket,
    /// A device.
    #[error("is a device")]
    Device,
    /// A path that contains `..`.
    #[error("path leads outside its directory")]
    Outside,
    /// A directory that is nested too deeply.
    #[error("more than {MAX_DEPTH} directories deep")]
    TooDeep,
}

impl PathRejection {
    /// Returns the reason contained in an I/O error, if there is one.
    pub fn from_io_error(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl From<PathRejection> for io::Error {
    fn from(reason: PathRejection) -> Self {
        Self::new(io::ErrorKind::InvalidInput, reason)
    }
}

/// A path below a directory, opened without following links.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfinedPath {
    base: PathBuf,
    relative: PathBuf,
}

impl ConfinedPath {
    /// Combines a directory, which may be reached through links, with a path below it.
    pub fn new(base: impl Into<PathBuf>, below: impl Into<PathBuf>) -> Self {
        Self { base: base.into(), relative: below.into() }
    }

    /// Confines a file to its directory, which may be reached through links.
    pub fn of_file(path: &Path) -> Self {
        let base = path.parent().unwrap_or(Path::new(""));
        Self::new(base, path.file_name().unwrap_or_default())
    }

    /// Returns the whole path, for display.
    pub fn path(&self) -> PathBuf {
        self.base.join(&self.relative)
    }

    /// Returns the directory that may be reached through links.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns the part below the base, in which no links are followed.
    pub fn relative(&self) -> &Path {
        &self.relative
    }

    /// Returns the path of something below this one.
    pub fn join(&self, name: impl AsRef<Path>) -> Self {
        Self { base: self.base.clone(), relative: self.relative.join(name) }
    }

    /// Returns the path with another extension.
    pub fn with_extension(&self, extension: &str) -> Self {
        Self { base: self.base.clone(), relative: self.relative.with_extension(extension) }
    }

    /// Opens the parent directory; also returns the file name.
    pub(crate) fn open_parent(&self) -> io::Result<(Dir, &OsStr)> {
        let (above, name) = self.split()?;
        Ok((Dir::open(&self.base)?.descend(above)?, name))
    }

    /// Opens the parent directory and creates it if necessary; also returns the file name.
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

    /// Opens a regular file for reading.
    pub fn open(&self) -> io::Result<File> {
        // A file directly in the base needs no handle of the base: only the last component must not be a
        // link.
        match self.split()? {
            (above, name) if above.as_os_str().is_empty() => open_file(&self.base.join(name)),
            (above, name) => Dir::open(&self.base)?.descend(above)?.open_file(name),
        }
    }

    /// Returns the size of a regular file, the time of its last change and its number.
    pub fn stat(&self) -> io::Result<FileStat> {
        match self.split()? {
            (above, name) if above.as_os_str().is_empty() => stat_file(&self.base.join(name)),
            (above, name) => Dir::open(&self.base)?.descend(above)?.stat(name),
        }
    }

    /// Reads a regular file.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&self.open()?)
    }

    /// Returns whether the path is a regular file.
    pub fn is_file(&self) -> bool {
        self.kind().is_ok_and(|kind| kind == FileKind::File)
    }

    /// Returns whether the path is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind().is_ok_and(|kind| kind == FileKind::Dir)
    }

    /// Returns the kind of file at the path.
    pub(crate) fn kind(&self) -> io::Result<FileKind> {
        let (dir, name) = self.open_parent()?;
        dir.kind(name)
    }

    /// Fails if the path exists and is not a regular file, or if a component of it is a link.
    pub fn ensure_regular(&self) -> io::Result<()> {
        match self.kind() {
            Ok(kind) => kind.ensure_regular(),
            Err(error) if is_not_found(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Lists the regular files below this directory at any depth, sorted; all others are recorded as
    /// skipped. A missing directory counts as empty.
    pub fn files(&self, skips: &SkippedPaths) -> Vec<Self> {
        let mut found = Vec::new();
        self.for_each_file(skips, |_, _, file| found.push(file));
        found.sort();
        found
    }

    /// Passes the regular files below this directory at any depth to `take`, each with the handle of its directory and its
    /// name; all others are recorded as skipped.
    pub(crate) fn for_each_file(&self, skips: &SkippedPaths, mut take: impl FnMut(&Dir, &OsStr, Self)) {
        let mut waiting = vec![(self.clone(), 0)];
        while let Some((at, depth)) = waiting.pop() {
            if depth > MAX_DEPTH {
                skips.record(at.path(), PathRejection::TooDeep);
                continue;
            }
            let Some((dir, entries)) = at.list(skips) else { continue };
            for (name, kind) in entries {
                let item = at.join(&name);
                match kind {
                    FileKind::File => take(&dir, &name, item),
                    FileKind::Dir => waiting.push((item, depth + 1)),
                    FileKind::Other(reason) => skips.record(item.path(), reason),
                }
            }
        }
    }

    /// Lists a directory. One that is missing, or cannot be reached without a link, counts as empty.
    pub(crate) fn entries(&self, skips: &SkippedPaths) -> Vec<(OsString, FileKind)> {
        self.list(skips).map(|(_, entries)| entries).unwrap_or_default()
    }

    /// Opens and lists a directory. Returns `None` if it is missing or cannot be reached without a link.
    pub(crate) fn list(&self, skips: &SkippedPaths) -> Option<(Dir, Vec<(OsString, FileKind)>)> {
        let listed = || {
            let dir = Dir::open(&self.base)?.descend(&self.relative)?;
            let entries = dir.entries()?;
            Ok((dir, entries))
        };
        listed()
            .inspect_err(|error| {
                if let Some(reason) = PathRejection::from_io_error(error) {
                    skips.record(self.path(), reason);
                }
            })
            .ok()
    }
}

/// Opens a regular file for reading; its directory may be reached through links.
pub fn open_regular(path: &Path) -> io::Result<File> {
    ConfinedPath::of_file(path).open()
}

/// Creates a directory and its ancestors, accessible to the owner only.
pub(crate) fn create_private_dir(dir: &Path) -> io::Result<()> {
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

/// Returns whether an error means that the file does not exist.
pub(crate) fn is_not_found(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Reads an open file up to its current length.
pub(crate) fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let len = file.metadata()?.len();
    let mut bytes = Vec::new();
    // A file can claim to be larger than memory.
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
    fn links_are_followed_to_the_base_but_not_below_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("real/a/b")).expect("created");
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
    fn swapped_in_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        fs::create_dir_all(at("base/side")).expect("created");
        fs::create_dir_all(at("outside")).expect("created");
        fs::write(at("base/side/f"), "own").expect("written");
        fs::write(at("outside/f"), "secret").expect("written");
        let held = Dir::open(&at("base")).and_then(|dir| dir.descend(Path::new("side"))).expect("opened");
        fs::rename(at("base/side"), at("base/moved")).expect("moved");
        symlink(at("outside"), at("base/side")).expect("linked");
        let mut own = String::new();
        held.open_file(OsStr::new("f")).expect("opened").read_to_string(&mut own).expect("read");
        assert_eq!(own, "own");
        let mut part = held.create_part(0o600).expect("created");
        part.persist(OsStr::new("f")).expect("renamed");
        assert_eq!(fs::read_to_string(at("outside/f")).expect("read"), "secret");
        assert_eq!(fs::read(at("base/moved/f")).expect("read"), b"");
    }

    #[test]
    fn directory_depth_is_bounded() {
        let dir = tempfile::tempdir().expect("a directory");
        let deep: PathBuf = std::iter::repeat_n("d", MAX_DEPTH + 5).collect();
        fs::create_dir_all(dir.path().join(&deep)).expect("created");
        fs::write(dir.path().join(&deep).join("f"), "x").expect("written");
        let skips = SkippedPaths::default();
        assert_eq!(ConfinedPath::new(dir.path(), "").files(&skips), []);
        assert_eq!(skips.all()[0].reason, PathRejection::TooDeep);
    }
}
