//! Repairs a session and writes the result.

use std::borrow::Cow;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_edit::{Change, Repair};
use rethread_render::{FindingRow, RepairRow};
use rethread_store::{ConfinedPath, Holder, ReplaceError};
use xxhash_rust::xxh3::xxh3_128;

use crate::library::{Library, LogSource};

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

/// A repaired session, or one without defects.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// The row that `repair --json` prints.
    pub row: RepairRow,
    /// The changes, line by line.
    pub changes: Vec<Change>,
}

impl Library {
    /// Repairs a session. Writes nothing if there is nothing to repair.
    pub fn repair(&self, source: &LogSource, to: &RepairDestination) -> Result<Repaired, RepairError> {
        let again = self.reload(source)?;
        let repair = rethread_edit::repair_from(&again)?;
        let mut row = row_of(source, &repair);
        if repair.changes.is_empty() && !repair.reordered {
            return Ok(Repaired { row, changes: repair.changes });
        }
        let path = &source.file.path;
        let file = source.bytes.is_none();
        let failed = |path: &Path, source: io::Error| RepairError::Write { path: path.to_owned(), source };
        match to {
            RepairDestination::DryRun => {}
            RepairDestination::File(output) => {
                rethread_store::write_session(output, &repair.bytes).map_err(|e| failed(output, e))?;
                row.output = Some(output.to_string_lossy().into_owned());
            }
            RepairDestination::New if file => {
                let id = uuid::Uuid::new_v4().to_string();
                let output = path.with_file_name(format!("{id}.jsonl"));
                // Sidecars are written first: a session exists once its log does.
                let side_dir = ConfinedPath::of_file(&output).with_extension("");
                rethread_store::copy_side_dir(&source.file.confined_side_dir(), &side_dir, self.skips())
                    .map_err(|e| failed(&output, e))?;
                rethread_store::write_session(&output, &repair.bytes).map_err(|e| {
                    rethread_store::remove_tree(&side_dir);
                    failed(&output, e)
                })?;
                row.output = Some(output.to_string_lossy().into_owned());
                row.id = Some(id);
            }
            RepairDestination::InPlace if file => {
                // A link was resolved when the session was found; this path is checked and written.
                let holder = || self.store.holder(&source.file);
                let place = source.file.confined_path();
                let before = again()?;
                let backup = rethread_store::replace_session(&place, &before, &repair.bytes, &holder);
                let backup = backup.map_err(|error| match error {
                    ReplaceError::Held(holder) => holder.into(),
                    ReplaceError::Write(error) => failed(path, error),
                    _ => failed(path, io::Error::other(error)),
                })?;
                row.output = Some(path.to_string_lossy().into_owned());
                row.id = Some(source.file.id.clone());
                row.backup = Some(backup.to_string_lossy().into_owned());
            }
            RepairDestination::New | RepairDestination::InPlace => return Err(RepairError::NoDestination),
        }
        Ok(Repaired { row, changes: repair.changes })
    }
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

fn row_of(source: &LogSource, repair: &Repair) -> RepairRow {
    let rows = |findings: &[rethread_model::Finding]| -> Vec<FindingRow> {
        findings.iter().map(|finding| FindingRow::new(&source.file.id, finding.clone())).collect()
    };
    let count = |fits: fn(&Change) -> bool| repair.changes.iter().filter(|change| fits(change)).count();
    RepairRow {
        r#type: "repair",
        session: source.file.id.clone(),
        output: None,
        id: None,
        backup: None,
        findings: rows(&repair.findings),
        left: rows(&repair.remaining),
        lines_changed: count(|change| change.before.is_some() && change.after.is_some()),
        lines_dropped: count(|change| change.after.is_none()),
        lines_added: count(|change| change.before.is_none()),
        reordered: repair.reordered,
    }
}
