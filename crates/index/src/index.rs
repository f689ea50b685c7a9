//! The directory of an index.

use std::path::{Path, PathBuf};

use rethread_store::{CacheDir, CacheLock, SessionFile};

use crate::catalogue::Catalogue;
use crate::error::IndexError;
use crate::texts::TextIndex;

/// The index of a library, in a directory of its own. Nothing is created before it is needed.
#[derive(Debug, Clone)]
pub struct Index {
    path: PathBuf,
}

/// The content of an index.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct IndexStatus {
    /// Set if it was made, by this version of the program.
    pub exists: bool,
    /// Its size.
    pub bytes: u64,
    /// The size of all logs.
    pub log_bytes: u64,
    /// The number of logs that it knows.
    pub logs: u64,
    /// The number of messages that it knows.
    pub messages: u64,
    /// The number of logs that are not completely in it.
    pub stale: u64,
    /// The number of its logs that no longer exist.
    pub deleted: u64,
    /// Set if logs that are deleted stay findable.
    pub keeps_deleted: bool,
}

/// The setting that keeps texts of deleted logs.
const KEEP_DELETED: &str = "keep-deleted";

impl Index {
    /// Returns the index in a directory, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether it was made.
    pub fn exists(&self) -> bool {
        self.path.is_dir()
    }

    /// Describes the index of these logs.
    pub fn status(&self, files: &[SessionFile]) -> Result<IndexStatus, IndexError> {
        let mut status =
            IndexStatus { log_bytes: files.iter().map(|file| file.bytes).sum(), ..IndexStatus::default() };
        let Some(catalogue) = self.open_catalogue()? else {
            status.stale = files.len() as u64;
            return Ok(status);
        };
        status.exists = true;
        status.bytes = CacheDir::open(&self.path).map_err(|source| self.unusable(source))?.bytes();
        for row in catalogue.logs()? {
            status.logs += 1;
            status.deleted += u64::from(row.deleted.is_some());
        }
        status.messages = catalogue.message_count()?;
        status.keeps_deleted = self.keeps_deleted(&catalogue)?;
        drop(catalogue);
        let snapshot = self.snapshot()?;
        status.stale = snapshot.map_or(files.len(), |mut snapshot| snapshot.compare(files).len()) as u64;
        Ok(status)
    }

    /// Opens the catalogue for reading, if there is one.
    pub(crate) fn open_catalogue(&self) -> Result<Option<Catalogue>, IndexError> {
        if self.path.symlink_metadata().is_err() {
            return Ok(None);
        }
        // Another user may have made the directory.
        CacheDir::open(&self.path).map_err(|source| self.unusable(source))?;
        Catalogue::open(&self.path)
    }

    pub(crate) fn lock(&self, waits: bool) -> Result<CacheLock, IndexError> {
        let dir = self.prepare_dir()?;
        let locked = if waits { dir.lock().map(Some) } else { dir.try_lock() };
        locked.map_err(|source| self.unusable(source))?.ok_or(IndexError::Busy)
    }

    fn prepare_dir(&self) -> Result<CacheDir, IndexError> {
        CacheDir::create(&self.path).map_err(|source| self.unusable(source))
    }

    /// Returns the error of an index in which no file can be locked.
    pub(crate) fn not_writable(&self) -> IndexError {
        self.unusable(std::io::ErrorKind::PermissionDenied.into())
    }

    fn unusable(&self, source: std::io::Error) -> IndexError {
        IndexError::Directory { path: self.path.clone(), source }
    }

    /// Opens the catalogue for writing. One of another version is replaced.
    pub(crate) fn open_catalogue_to_write(&self, lock: &CacheLock) -> Result<Catalogue, IndexError> {
        // Without a catalogue, what is left of a text index belongs to another one.
        if Catalogue::exists_in(&self.path)
            && let Some(catalogue) = Catalogue::open_to_write(&self.path)?
        {
            self.create_text_dir()?;
            return Ok(catalogue);
        }
        self.clear_locked(lock)?;
        self.create_text_dir()?;
        Catalogue::open_to_write(&self.path)?
            .ok_or(IndexError::Damaged("a new catalogue has another version"))
    }

    fn create_text_dir(&self) -> Result<(), IndexError> {
        self.prepare_dir()?.create_child(TextIndex::dir_name()).map_err(|source| self.unusable(source))?;
        Ok(())
    }

    /// Removes everything in the index.
    pub(crate) fn clear_locked(&self, lock: &CacheLock) -> Result<(), IndexError> {
        self.prepare_dir()?.clear(lock).map_err(|source| self.unusable(source))
    }

    /// Removes the index. Waits while another process writes.
    pub fn clear(&self) -> Result<(), IndexError> {
        if !self.path.exists() {
            return Ok(());
        }
        let lock = self.lock(true)?;
        self.clear_locked(&lock)
    }

    pub(crate) fn keeps_deleted(&self, catalogue: &Catalogue) -> Result<bool, IndexError> {
        Ok(catalogue.setting(KEEP_DELETED)?.is_some_and(|value| value == "yes"))
    }

    /// Keeps texts of logs that are deleted from now on, or no longer keeps them.
    pub fn keep_deleted(&self, keep: bool) -> Result<(), IndexError> {
        let lock = self.lock(true)?;
        let catalogue = self.open_catalogue_to_write(&lock)?;
        catalogue.set_setting(KEEP_DELETED, if keep { "yes" } else { "no" })?;
        if !keep {
            catalogue.begin()?;
            for row in catalogue.logs()?.iter().filter(|row| row.deleted.is_some()) {
                catalogue.remove_log(row.id)?;
            }
            catalogue.commit()?;
        }
        Ok(())
    }
}
