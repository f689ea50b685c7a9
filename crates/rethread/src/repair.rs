//! Repairs a session and writes the result.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_edit::{Repaired, RepairedLog};
use rethread_model::{OriginKind, SessionId};
use rethread_store::{ConfinedPath, Holder, ReplaceError};
use xxhash_rust::xxh3::xxh3_128;

use crate::library::{Library, LogSource};
use crate::origin::{recorded_directory, write_origin};

/// The destination of a repaired session.
#[derive(Debug, Clone, Default)]
pub enum RepairDestination {
    /// Next to the original, as a new session.
    #[default]
    New,
    /// Replaces the original, which is kept as a backup.
    InPlace,
    /// A file.
    File(PathBuf),
    /// Nothing is written; only the changes are returned.
    DryRun,
}

/// An error while repairing a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// A process has it open, or may have.
    #[error(transparent)]
    InUse(#[from] Holder),
    /// It is not a file, so there is no destination for the result.
    #[error("no destination for the repaired session")]
    NoDestination,
    /// The result could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Library {
    /// Repairs a session. If there is nothing to repair, writes nothing, except an identical copy to a file that was
    /// named.
    ///
    /// ```
    /// use rethread::{Library, RepairDestination};
    ///
    /// let library = Library::demo();
    /// let repaired = library.repair(&library.find_one("0000d004")?, &RepairDestination::DryRun)?;
    /// assert_eq!(repaired.line_counts().dropped, 1);
    /// assert!(repaired.remaining.is_empty());
    /// # Ok::<(), rethread::RepairError>(())
    /// ```
    pub fn repair(&self, source: &LogSource, to: &RepairDestination) -> Result<Repaired, RepairError> {
        let again = self.reload(source)?;
        let repair = rethread_edit::repair_from(&again)?;
        let mut repaired = Repaired {
            session: source.id(),
            output: None,
            findings: repair.findings,
            remaining: repair.remaining,
            changes: repair.changes,
            reordered: repair.reordered,
        };
        if repaired.is_unchanged() && !matches!(to, RepairDestination::File(_)) {
            return Ok(repaired);
        }
        let is_file = source.bytes.is_none();
        repaired.output = match to {
            RepairDestination::DryRun => None,
            RepairDestination::File(output) => {
                rethread_store::write_session(output, &repair.bytes).map_err(|e| failed(output, e))?;
                Some(RepairedLog { path: output.clone(), id: None, backup: None })
            }
            RepairDestination::New if is_file => Some(self.write_new(source, &repair.bytes)?),
            RepairDestination::InPlace if is_file => {
                Some(self.replace_log(source, &again()?, &repair.bytes)?)
            }
            RepairDestination::New | RepairDestination::InPlace => return Err(RepairError::NoDestination),
        };
        Ok(repaired)
    }

    /// Writes a repaired log and copies of its sidecars next to the original.
    fn write_new(&self, source: &LogSource, log: &[u8]) -> Result<RepairedLog, RepairError> {
        let id = uuid::Uuid::new_v4().to_string();
        let path = source.file.path.with_file_name(format!("{id}.jsonl"));
        // Sidecars are written first: a session exists once its log does.
        let side_dir = ConfinedPath::of_file(&path).with_extension("");
        rethread_store::copy_side_dir(&source.file.confined_side_dir(), &side_dir, self.skips())
            .map_err(|e| failed(&path, e))?;
        rethread_store::write_session(&path, log).map_err(|e| {
            rethread_store::remove_tree(&side_dir);
            failed(&path, e)
        })?;
        // A repaired session whose source is not recorded is complete.
        let directory = recorded_directory(&source.file);
        let _ = write_origin(&path, &source.file.id, OriginKind::Repair, directory.as_deref().map(Path::new));
        Ok(RepairedLog { path, id: Some(SessionId::from(id)), backup: None })
    }

    /// Replaces a log, if it is still the same as `before`, and keeps a backup.
    fn replace_log(&self, source: &LogSource, before: &[u8], log: &[u8]) -> Result<RepairedLog, RepairError> {
        // A link was resolved when the session was found; this path is checked and written.
        let holder = || self.store.holder(&source.file);
        let path = source.file.path.clone();
        let backup = rethread_store::replace_session(&source.file.confined_path(), before, log, &holder);
        let backup = backup.map_err(|error| match error {
            ReplaceError::Held(holder) => holder.into(),
            ReplaceError::Write(error) => failed(&path, error),
            _ => failed(&path, io::Error::other(error)),
        })?;
        Ok(RepairedLog { path, id: Some(source.id()), backup: Some(backup) })
    }
}

fn failed(path: &Path, source: io::Error) -> RepairError {
    RepairError::Write { path: path.to_owned(), source }
}

impl Library {
    /// Reads a session, and returns a function that reads it again: the same bytes, or an error if they have
    /// changed. The bytes are not kept in between, because a line may be very long.
    fn reload<'s>(
        &self,
        source: &'s LogSource,
    ) -> Result<impl Fn() -> Result<Cow<'s, [u8]>, crate::Error>, crate::Error> {
        let loaded = self.load(source)?;
        let print = xxh3_128(&loaded.bytes);
        let first = Cell::new(source.bytes.is_none().then_some(loaded.bytes));
        Ok(move || {
            if let Some(bytes) = &source.bytes {
                return Ok(Cow::Borrowed(bytes.as_slice()));
            }
            if let Some(bytes) = first.take() {
                return Ok(Arc::unwrap_or_clone(bytes).into());
            }
            let bytes = rethread_store::read_whole(&source.file).map_err(|error| source.error(error))?;
            if xxh3_128(&bytes) != print {
                let changed = "the session changed while it was being read";
                return Err(source.error(io::Error::new(io::ErrorKind::ResourceBusy, changed)));
            }
            Ok(bytes.into())
        })
    }
}
