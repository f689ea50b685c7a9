//! An open directory handle.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use crate::confined::PathRejection;

/// The kind of a directory entry; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileKind {
    File,
    Dir,
    Other(PathRejection),
}

impl FileKind {
    /// Returns the kind given by metadata.
    pub(crate) fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        let kind = metadata.file_type();
        if kind.is_file() {
            return Self::File;
        }
        if kind.is_dir() {
            return Self::Dir;
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if kind.is_fifo() {
                return Self::Other(PathRejection::Pipe);
            }
            if kind.is_socket() {
                return Self::Other(PathRejection::Socket);
            }
        }
        Self::Other(if kind.is_symlink() { PathRejection::Link } else { PathRejection::Device })
    }

    /// Fails unless it is a regular file.
    pub(crate) fn ensure_regular(self) -> io::Result<()> {
        match self {
            Self::File => Ok(()),
            Self::Dir => Err(PathRejection::Directory.into()),
            Self::Other(reason) => Err(reason.into()),
        }
    }
}

/// The size of a regular file, and what tells it from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStat {
    /// The number of bytes.
    pub bytes: u64,
    /// The time of the last change of its content.
    pub modified: Option<SystemTime>,
    /// The number of the file in its file system, which a file that replaces it does not have.
    pub inode: Option<u64>,
}

impl FileStat {
    /// Returns the properties given by metadata.
    pub fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        #[cfg(unix)]
        let inode = Some(std::os::unix::fs::MetadataExt::ino(metadata));
        #[cfg(not(unix))]
        let inode = None;
        Self { bytes: metadata.len(), modified: metadata.modified().ok(), inode }
    }
}

/// An open directory. Its entries are reached from the handle, never through a link.
#[derive(Debug)]
pub(crate) struct Dir {
    #[cfg(unix)]
    fd: std::os::fd::OwnedFd,
    path: PathBuf,
}

/// A file that is being written under a temporary unique name; removed unless it is persisted.
#[derive(Debug)]
pub(crate) struct PartFile {
    pub(crate) dir: Dir,
    pub(crate) file: File,
    name: OsString,
    persisted: bool,
}

/// The prefix and suffix of temporary names.
pub(crate) const PART_AFFIXES: (&str, &str) = (".rethread-", ".part");

impl Dir {
    /// Opens a directory below this one. No component may be a link or `..`.
    pub(crate) fn descend(self, below: &Path) -> io::Result<Self> {
        self.walk(below, |dir, name| dir.open_child(name))
    }

    /// Opens a directory below this one as [`Dir::descend`] does; missing ones are created for the owner
    /// alone.
    pub(crate) fn descend_or_create(self, below: &Path) -> io::Result<Self> {
        self.walk(below, |dir, name| match dir.open_child(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                dir.create_child(name)?;
                dir.open_child(name)
            }
            opened => opened,
        })
    }

    fn walk(self, below: &Path, step: impl Fn(&Self, &OsStr) -> io::Result<Self>) -> io::Result<Self> {
        let mut dir = self;
        for component in below.components() {
            dir = match component {
                Component::Normal(name) => step(&dir, name)?,
                Component::CurDir => dir,
                _ => return Err(PathRejection::Outside.into()),
            };
        }
        Ok(dir)
    }

    /// Creates a temporary file in this directory.
    pub(crate) fn create_part(self, mode: u32) -> io::Result<PartFile> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let time = time.map_or(0, |time| time.as_nanos());
            let name = OsString::from(format!(
                "{}{:x}-{n}-{time:x}{}",
                PART_AFFIXES.0,
                std::process::id(),
                PART_AFFIXES.1
            ));
            match self.create(&name, mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // The temporary name means nothing to the caller, so it is left out of the error.
                Err(error) => return Err(io::Error::from(error.kind())),
                Ok(file) => return Ok(PartFile { dir: self, file, name, persisted: false }),
            }
        }
    }
}

impl PartFile {
    /// Renames the file to its final name. A file or link of that name is replaced; the target of a link
    /// is not.
    pub(crate) fn persist(&mut self, name: &OsStr) -> io::Result<()> {
        self.dir.rename(&self.name, name)?;
        self.persisted = true;
        Ok(())
    }

    /// Renames the file to its final name. Fails if the name exists.
    pub(crate) fn persist_new(&mut self, name: &OsStr) -> io::Result<()> {
        self.dir.rename_no_replace(&self.name, name)?;
        self.persisted = true;
        Ok(())
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if !self.persisted {
            let _ = self.dir.remove(&self.name);
        }
    }
}

#[cfg(not(unix))]
pub(crate) use other::{open_file, stat_file};
#[cfg(unix)]
pub(crate) use unix::{open_file, stat_file};

#[cfg(unix)]
mod unix {
    use std::os::fd::AsFd;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::time::Duration;

    use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};

    use super::*;

    const DIR_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

    impl FileKind {
        fn from_file_type(kind: FileType) -> Option<Self> {
            Some(match kind {
                FileType::RegularFile => Self::File,
                FileType::Directory => Self::Dir,
                FileType::Symlink => Self::Other(PathRejection::Link),
                FileType::Fifo => Self::Other(PathRejection::Pipe),
                FileType::Socket => Self::Other(PathRejection::Socket),
                FileType::Unknown => return None,
                _ => Self::Other(PathRejection::Device),
            })
        }
    }

    /// Opens a regular file whose directory may be reached through links.
    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        open_at(CWD, path, OFlags::RDONLY)
    }

    /// Returns the size of a regular file whose directory may be reached through links.
    pub(crate) fn stat_file(path: &Path) -> io::Result<FileStat> {
        stat_at(CWD, path)
    }

    /// Opens a regular file; the last component of its path must not be a link. Does not block: anything
    /// but a regular file is closed again.
    fn open_at(dir: impl AsFd + Copy, path: &Path, how: OFlags) -> io::Result<File> {
        let flags = how | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, path, flags, Mode::empty()) {
            Ok(fd) => {
                kind_of(&rustix::fs::fstat(&fd)?).ensure_regular()?;
                Ok(File::from(fd))
            }
            Err(rustix::io::Errno::NOENT) => Err(io::ErrorKind::NotFound.into()),
            // Links and sockets cannot be opened this way.
            Err(error) => match kind_at(dir, path) {
                Ok(FileKind::Other(reason)) => Err(reason.into()),
                _ => Err(error.into()),
            },
        }
    }

    fn kind_of(stat: &rustix::fs::Stat) -> FileKind {
        FileKind::from_file_type(FileType::from_raw_mode(stat.st_mode))
            .unwrap_or(FileKind::Other(PathRejection::Device))
    }

    fn kind_at(dir: impl AsFd, path: &Path) -> io::Result<FileKind> {
        Ok(kind_of(&rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn stat_at(dir: impl AsFd, path: &Path) -> io::Result<FileStat> {
        let stat = rustix::fs::statat(dir, path, AtFlags::SYMLINK_NOFOLLOW)?;
        kind_of(&stat).ensure_regular()?;
        let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
        let since = u64::try_from(stat.st_mtime).ok().map(|secs| Duration::new(secs, nanos));
        let modified = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Ok(FileStat { bytes, modified, inode: Some(stat.st_ino) })
    }

    impl Dir {
        /// Opens a directory; its path may contain links.
        pub(crate) fn open(path: &Path) -> io::Result<Self> {
            let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            let fd = rustix::fs::openat(CWD, named, DIR_FLAGS, Mode::empty())?;
            Ok(Self { fd, path: path.to_owned() })
        }

        pub(super) fn open_child(&self, name: &OsStr) -> io::Result<Self> {
            match rustix::fs::openat(&self.fd, name, DIR_FLAGS | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(fd) => Ok(Self { fd, path: self.path.join(name) }),
                Err(rustix::io::Errno::NOENT) => Err(io::ErrorKind::NotFound.into()),
                Err(error) => match self.kind(name) {
                    Ok(FileKind::Other(reason)) => Err(reason.into()),
                    _ => Err(error.into()),
                },
            }
        }

        pub(super) fn create_child(&self, name: &OsStr) -> io::Result<()> {
            match rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }

        /// Returns the kind of the entry with this name; links are not followed.
        pub(crate) fn kind(&self, name: &OsStr) -> io::Result<FileKind> {
            kind_at(&self.fd, Path::new(name))
        }

        /// Returns the size of a regular file and the time of its last change.
        pub(crate) fn stat(&self, name: &OsStr) -> io::Result<FileStat> {
            stat_at(&self.fd, Path::new(name))
        }

        /// Opens a regular file for reading. Other files are refused, because reading them could block.
        pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
            self.open_with(name, OFlags::RDONLY)
        }

        /// Opens a regular file for appending.
        pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<File> {
            self.open_with(name, OFlags::WRONLY | OFlags::APPEND)
        }

        fn open_with(&self, name: &OsStr, how: OFlags) -> io::Result<File> {
            open_at(&self.fd, Path::new(name), how)
        }

        /// Lists the directory, sorted by name.
        pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, FileKind)>> {
            let mut found = Vec::new();
            for entry in rustix::fs::Dir::read_from(&self.fd)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                if name == b"." || name == b".." {
                    continue;
                }
                let name = OsStr::from_bytes(name);
                // Some file systems do not report the kind. An entry that has vanished since is not
                // listed.
                let kind = FileKind::from_file_type(entry.file_type()).map_or_else(|| self.kind(name), Ok);
                if let Ok(kind) = kind {
                    found.push((OsString::from_vec(name.as_bytes().to_vec()), kind));
                }
            }
            found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Ok(found)
        }

        /// Creates a file that does not exist yet.
        pub(crate) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(mode as rustix::fs::RawMode);
            Ok(File::from(rustix::fs::openat(&self.fd, name, flags, mode)?))
        }

        pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            Ok(rustix::fs::renameat(&self.fd, from, &self.fd, to)?)
        }

        pub(super) fn rename_no_replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            #[cfg(any(target_os = "linux", target_os = "android", target_os = "macos"))]
            {
                use rustix::io::Errno;
                let flags = rustix::fs::RenameFlags::NOREPLACE;
                match rustix::fs::renameat_with(&self.fd, from, &self.fd, to, flags) {
                    Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
                    done => return Ok(done?),
                }
            }
            // Some file systems cannot rename without replacing.
            self.link(from, to)?;
            self.remove(from)
        }

        /// Creates a hard link to a file.
        pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            Ok(rustix::fs::linkat(&self.fd, from, &self.fd, to, AtFlags::empty())?)
        }

        pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
            Ok(rustix::fs::unlinkat(&self.fd, name, AtFlags::empty())?)
        }

        /// Syncs the directory, where the system supports it.
        pub(crate) fn sync(&self) {
            let _ = rustix::fs::fsync(&self.fd);
        }
    }
}

/// The implementation for systems without directory handles: checks for a link before each step.
#[cfg(not(unix))]
mod other {
    use std::fs;

    use super::*;

    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        FileKind::from_metadata(&fs::symlink_metadata(path)?).ensure_regular()?;
        File::open(path)
    }

    pub(crate) fn stat_file(path: &Path) -> io::Result<FileStat> {
        let metadata = fs::symlink_metadata(path)?;
        FileKind::from_metadata(&metadata).ensure_regular()?;
        Ok(FileStat::from_metadata(&metadata))
    }

    impl Dir {
        pub(crate) fn open(path: &Path) -> io::Result<Self> {
            let named = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            match fs::metadata(named)?.is_dir() {
                true => Ok(Self { path: path.to_owned() }),
                false => Err(io::ErrorKind::NotADirectory.into()),
            }
        }

        pub(super) fn open_child(&self, name: &OsStr) -> io::Result<Self> {
            match self.kind(name)? {
                FileKind::Dir => Ok(Self { path: self.path.join(name) }),
                FileKind::File => Err(io::ErrorKind::NotADirectory.into()),
                FileKind::Other(reason) => Err(reason.into()),
            }
        }

        pub(super) fn create_child(&self, name: &OsStr) -> io::Result<()> {
            fs::create_dir(self.path.join(name))
        }

        pub(crate) fn kind(&self, name: &OsStr) -> io::Result<FileKind> {
            Ok(FileKind::from_metadata(&fs::symlink_metadata(self.path.join(name))?))
        }

        pub(crate) fn stat(&self, name: &OsStr) -> io::Result<FileStat> {
            let metadata = self.open_file(name)?.metadata()?;
            Ok(FileStat::from_metadata(&metadata))
        }

        pub(crate) fn open_file(&self, name: &OsStr) -> io::Result<File> {
            self.kind(name)?.ensure_regular()?;
            File::open(self.path.join(name))
        }

        pub(crate) fn open_to_append(&self, name: &OsStr) -> io::Result<File> {
            self.kind(name)?.ensure_regular()?;
            File::options().append(true).open(self.path.join(name))
        }

        pub(crate) fn entries(&self) -> io::Result<Vec<(OsString, FileKind)>> {
            let mut found = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let name = entry?.file_name();
                if let Ok(kind) = self.kind(&name) {
                    found.push((name, kind));
                }
            }
            found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Ok(found)
        }

        pub(crate) fn create(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
            File::options().read(true).write(true).create_new(true).open(self.path.join(name))
        }

        pub(crate) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            fs::rename(self.path.join(from), self.path.join(to))
        }

        pub(super) fn rename_no_replace(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            self.link(from, to)?;
            self.remove(from)
        }

        pub(crate) fn link(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
            fs::hard_link(self.path.join(from), self.path.join(to))
        }

        pub(crate) fn remove(&self, name: &OsStr) -> io::Result<()> {
            fs::remove_file(self.path.join(name))
        }

        pub(crate) fn sync(&self) {}
    }
}
