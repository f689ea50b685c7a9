//! One state of the index, as it is read while another process may write to it.

use std::ffi::OsString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rethread_store::SessionFile;
use rustc_hash::{FxHashMap, FxHashSet};
use tantivy::{IndexReader, ReloadPolicy, Searcher, TantivyError};

use crate::catalogue::{Catalogue, IndexLevel, LogId, LogRow};
use crate::error::IndexError;
use crate::fingerprint::FileChange;
use crate::index::Index;
use crate::state::LogState;
use crate::text_files;
use crate::texts::{TextCommit, TextIndex};

/// The number of times that a snapshot is tried because a writer has committed, or cleared the index, while it was taken.
const MAX_TRIES: usize = 20;

/// The number of times that it is tried again because something seemed to be damaged, which a writer may just have removed.
const MAX_DAMAGED_TRIES: usize = 2;

/// One state of the index. Later changes by other processes do not affect it.
///
/// The text index is opened before the catalogue. So it has everything that the catalogue knows, provided that its
/// last commit is not older than the one that the catalogue names; and the catalogue knows of every log whose texts
/// were removed.
#[derive(Debug)]
pub struct IndexSnapshot {
    pub(crate) catalogue: Mutex<Catalogue>,
    pub(crate) texts: Option<SearchedTexts>,
    /// The logs of the catalogue, by their paths. A path takes much longer to hash, part by part.
    pub(crate) rows: FxHashMap<OsString, LogRow>,
    /// Logs whose files are missing or have changed. Their rows count only for logs whose new end was read.
    outdated: FxHashSet<LogId>,
    /// The number of logs that the catalogue does not know.
    n_unknown: usize,
    /// Set if [`Index::sync`] would write something, even if all texts are there.
    needs_sync: bool,
}

/// The text index of a snapshot.
pub(crate) struct SearchedTexts {
    pub(crate) index: TextIndex,
    pub(crate) searcher: Searcher,
    /// Its last commit, if there was one.
    commit: Option<TextCommit>,
}

impl std::fmt::Debug for SearchedTexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SearchedTexts").field("commit", &self.commit).finish_non_exhaustive()
    }
}

/// The part of a log that the index has.
#[derive(Debug)]
pub(crate) struct IndexedPart {
    /// The state after the last whole line that was read.
    pub(crate) state: LogState,
    /// The texts before this offset are in the index.
    pub(crate) text_end: u64,
}

/// The result of trying to take a snapshot.
enum Attempt {
    Taken(Box<IndexSnapshot>),
    NoIndex,
    /// The catalogue and the text index do not belong together.
    Torn,
}

impl Index {
    /// Takes a snapshot; `None` if there is no index yet.
    pub fn snapshot(&self) -> Result<Option<Box<IndexSnapshot>>, IndexError> {
        let mut n_damaged = 0;
        for _ in 0..MAX_TRIES {
            match self.try_snapshot() {
                Ok(Attempt::Taken(snapshot)) => return Ok(Some(snapshot)),
                Ok(Attempt::NoIndex) => return Ok(None),
                Ok(Attempt::Torn) => {}
                Err(error) if error.is_damage() && n_damaged < MAX_DAMAGED_TRIES => n_damaged += 1,
                Err(error) => return Err(error),
            }
            std::thread::yield_now();
        }
        Err(IndexError::Damaged("the text index is older than the catalogue"))
    }

    fn try_snapshot(&self) -> Result<Attempt, IndexError> {
        let Some(catalogue) = self.open_catalogue()? else { return Ok(Attempt::NoIndex) };
        let texts = SearchedTexts::open(self, &catalogue)?;
        // What is read of the catalogue from here on is one state of it.
        catalogue.begin_reading()?;
        let known = catalogue.text_commit()?;
        if !known.is_in(texts.as_ref().and_then(|texts| texts.commit)) {
            return Ok(Attempt::Torn);
        }
        let rows = catalogue.logs()?.into_iter().map(|row| (row.path.clone().into(), row)).collect();
        let catalogue = Mutex::new(catalogue);
        let outdated = FxHashSet::default();
        let snapshot = IndexSnapshot { catalogue, texts, rows, outdated, n_unknown: 0, needs_sync: false };
        Ok(Attempt::Taken(Box::new(snapshot)))
    }
}

impl SearchedTexts {
    fn open(index: &Index, catalogue: &Catalogue) -> Result<Option<Self>, IndexError> {
        let Some(texts) = TextIndex::open(index.path())? else { return Ok(None) };
        texts.check_files(index.path(), catalogue)?;
        // The commit is read first: what is searched may be newer.
        let commit = texts.last_commit()?;
        let reader = texts.index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into();
        // Readers lock a file, so that no segment is removed before it is open.
        let reader: IndexReader = reader.map_err(|error| match error {
            TantivyError::LockFailure(..) => index.not_writable(),
            error => error.into(),
        })?;
        let searcher = reader.searcher();
        text_files::check_lengths(&searcher)?;
        Ok(Some(Self { index: texts, searcher, commit }))
    }
}

impl IndexSnapshot {
    pub(crate) fn catalogue(&self) -> MutexGuard<'_, Catalogue> {
        self.catalogue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the logs whose texts are not completely in the index. `files` are all logs there are; others are not found
    /// unless they are kept.
    pub fn compare<'f>(&mut self, files: &'f [SessionFile]) -> Vec<&'f SessionFile> {
        let (mut stale, mut existing) = (Vec::new(), FxHashSet::default());
        for file in files {
            let Some(row) = self.rows.get(file.path.as_os_str()) else {
                self.n_unknown += 1;
                stale.push(file);
                continue;
            };
            existing.insert(row.id);
            // A log that was deleted is there again.
            self.needs_sync |= row.deleted.is_some();
            match row.has_all_texts().then(|| row.print.compare(file)) {
                Some(FileChange::Unchanged) => {}
                Some(FileChange::Uncertain) if row.is_valid_for(file) => self.needs_sync = true,
                _ => {
                    self.outdated.insert(row.id);
                    stale.push(file);
                }
            }
        }
        let is_missing = |row: &&LogRow| row.deleted.is_none() && !existing.contains(&row.id);
        self.outdated.extend(self.rows.values().filter(is_missing).map(|row| row.id));
        stale
    }

    /// Returns whether [`Index::sync`] would have nothing to do for the logs that were compared.
    pub fn is_up_to_date(&self) -> bool {
        self.is_complete() && !self.needs_sync
    }

    /// Returns whether the index knows every log as it is.
    pub(crate) fn is_complete(&self) -> bool {
        self.outdated.is_empty() && self.n_unknown == 0
    }

    /// Returns whether the file of a log is missing or has changed.
    pub(crate) fn is_outdated(&self, log: LogId) -> bool {
        self.outdated.contains(&log)
    }

    /// Returns what the index has of a log, if that is still valid.
    pub(crate) fn indexed_part(&self, file: &SessionFile) -> Option<IndexedPart> {
        let row = self.rows.get(file.path.as_os_str())?;
        let is_same = row.print.compare(file) != FileChange::Rewritten && !row.pending;
        if !is_same || !row.is_valid_for(file) {
            return None;
        }
        let state = LogState::decode(&self.catalogue().state(row.id).ok()??)?;
        (state.position() == row.position).then_some(IndexedPart { state, text_end: row.text_end })
    }
}

impl LogRow {
    /// Returns whether a file still begins with what was read, as far as the ends of that tell.
    pub(crate) fn is_valid_for(&self, file: &SessionFile) -> bool {
        let is_valid = |opened: std::fs::File| {
            // An entry without a line end was indexed as it is. Text after it on the same line changes it.
            let has_torn_entry = self.entries_end > self.position && file.bytes > self.print.end;
            Ok((!has_torn_entry || is_line_end_at(&opened, self.print.end)?)
                && self.print.is_beginning_of(&opened)?)
        };
        file.open().and_then(is_valid).unwrap_or(false)
    }

    /// Returns whether all texts of the log, as far as it was read, are in the index.
    fn has_all_texts(&self) -> bool {
        !self.pending && self.level == Some(IndexLevel::Texts) && self.text_end >= self.entries_end
    }
}

fn is_line_end_at(file: &std::fs::File, offset: u64) -> std::io::Result<bool> {
    let mut byte = [0];
    rethread_store::read_at(file, offset, &mut byte)?;
    Ok(byte == *b"\n")
}
