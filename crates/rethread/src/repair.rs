//! Mending a session: what is changed, and where the result goes.

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

/// Where a mended session goes.
#[derive(Debug, Clone, Default)]
pub enum RepairDestination {
    /// Beside the old one, as a session of its own.
    #[default]
    New,
    /// In place of the old one, which is kept as a backup.
    InPlace,
    /// To a file.
    File(PathBuf),
    /// Nowhere: only the changes are wanted.
    DryRun,
}

/// Why a session could not be repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// A process has it open, or may have.
    #[error(transparent)]
    InUse(#[from] Holder),
    /// It is no file, so there is no place for the result.
    #[error("there is no place to write the repaired session to")]
    NoDestination,
    /// The result could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A session that was mended, or had nothing to mend.
#[derive(Debug, Clone)]
pub struct Repaired {
    /// What `repair --json` prints.
    pub row: RepairRow,
    /// What was changed, line by line.
    pub changes: Vec<Change>,
}

impl Library {
    /// Mends a session. Nothing is written if there is nothing to mend.
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
                // What lies beside it comes first: a session is there when its log is.
                let beside = ConfinedPath::of_file(&output).with_extension("");
                rethread_store::copy_side_dir(&source.file.confined_side_dir(), &beside, self.skips())
                    .map_err(|e| failed(&output, e))?;
                rethread_store::write_session(&output, &repair.bytes).map_err(|e| {
                    rethread_store::remove_tree(&beside);
                    failed(&output, e)
                })?;
                row.output = Some(output.to_string_lossy().into_owned());
                row.id = Some(id);
            }
            RepairDestination::InPlace if file => {
                // A link was resolved when the session was found; this is the path that is checked and written.
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
    /// Reads a session, and returns what reads it again: the same bytes, or an error if they have changed. A line may be
    /// very long, so they are not kept in between.
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
                let changed = "the session was changed while it was read";
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
