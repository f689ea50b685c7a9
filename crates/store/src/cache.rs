//! A directory of files that can be computed again, for their owner only.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::confined::create_private_dir;

/// The name of the file that the one writer holds locked.
const LOCK: &str = "lock";

/// A directory of files that can be computed again. Only its owner can access it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDir {
    path: PathBuf,
}

/// The right to write to a cache directory, until it is dropped or the process ends.
#[derive(Debug)]
pub struct CacheLock {
    /// The operating system releases the lock when it closes the file.
    _file: File,
}

impl CacheDir {
    /// Opens a directory and creates it if necessary. Fails if it is a link or belongs to someone else.
    pub fn create(path: &Path) -> io::Result<Self> {
        create_private_dir(path)?;
        Self::open(path)
    }

    /// Opens an existing directory. Fails if it is a link or belongs to someone else.
    pub fn open(path: &Path) -> io::Result<Self> {
        let metadata = path.symlink_metadata()?;
        if !metadata.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, PermissionsExt};
            if metadata.uid() != rustix::process::geteuid().as_raw() {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            if metadata.mode() & 0o077 != 0 {
                fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
            }
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the directory for writing; returns `None` if another process has it locked.
    pub fn try_lock(&self) -> io::Result<Option<CacheLock>> {
        let file = self.open_lock()?;
        match file.try_lock() {
            Ok(()) => Ok(Some(CacheLock { _file: file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Locks the directory for writing; waits while another process has it locked.
    pub fn lock(&self) -> io::Result<CacheLock> {
        let file = self.open_lock()?;
        file.lock()?;
        Ok(CacheLock { _file: file })
    }

    fn open_lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(self.path.join(LOCK))
    }

    /// Removes everything in the directory except the lock.
    pub fn clear(&self, _lock: &CacheLock) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() == OsStr::new(LOCK) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        Ok(())
    }

    /// Removes the directory with everything in it.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)
    }

    /// Creates a directory in this one, if it does not exist.
    pub fn create_child(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(name);
        create_private_dir(&path)?;
        Ok(path)
    }

    /// Reads a file of the directory.
    pub fn read_file(&self, name: &str) -> io::Result<Vec<u8>> {
        let path = self.path.join(name);
        if !path.symlink_metadata()?.is_file() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        fs::read(path)
    }

    /// Writes a file of the directory completely or not at all. Of two processes that write it, the last one wins.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.create_new(true).write(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let temporary = self.path.join(format!("{name}.{}.tmp", std::process::id()));
        // Left by a process with the same number that was killed.
        let _ = fs::remove_file(&temporary);
        let mut file = options.open(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&temporary, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Returns the size of all files in the directory.
    pub fn bytes(&self) -> u64 {
        let mut bytes = 0;
        let mut pending = vec![self.path.clone()];
        while let Some(dir) = pending.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                match entry.metadata() {
                    Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                    Ok(metadata) => bytes += metadata.len(),
                    Err(_) => {}
                }
            }
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_writer_has_the_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = CacheDir::create(&dir.path().join("a/b")).expect("created");
        let lock = cache.try_lock().expect("lockable").expect("not locked");
        assert!(cache.try_lock().expect("lockable").is_none());
        drop(lock);
        assert!(cache.try_lock().expect("lockable").is_some());
    }

    #[test]
    fn clearing_removes_everything_but_the_lock() {
        let dir = tempfile::tempdir().expect("a directory");
        let cache = CacheDir::create(&dir.path().join("c")).expect("created");
        let lock = cache.lock().expect("locked");
        fs::write(cache.create_child("sub").expect("created").join("x"), "1234").expect("written");
        assert_eq!(cache.bytes(), 4);
        cache.clear(&lock).expect("cleared");
        assert_eq!(cache.bytes(), 0);
        assert!(cache.try_lock().expect("lockable").is_none(), "still locked");
        cache.remove().expect("removed");
    }

    #[cfg(unix)]
    #[test]
    fn directory_is_private_and_not_a_link() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().join("real");
        fs::create_dir(&real).expect("created");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).expect("changed");
        CacheDir::create(&real).expect("opened");
        let mode = real.metadata().expect("exists").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        std::os::unix::fs::symlink(&real, dir.path().join("link")).expect("linked");
        assert!(CacheDir::create(&dir.path().join("link")).is_err());
    }
}
