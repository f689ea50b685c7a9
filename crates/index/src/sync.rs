//! Brings the index up to date with the logs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use rayon::prelude::*;
use rethread_model::{
    Client, LogSummary, Session, Severity, TextSource, TitleSource, check, harmful_findings,
};
use rethread_store::{CacheLock, SessionFile};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::catalogue::{Catalogue, IndexLevel, LogId, LogRow, LogRows, ReadPosition};
use crate::error::IndexError;
use crate::extract::{FoundTexts, collect_texts, millis};
use crate::fail_point::{Boundary, pass};
use crate::fingerprint::{FileChange, Fingerprint, nanos};
use crate::index::Index;
use crate::names::NameTable;
use crate::state::{LogState, ReadLog, lock_if_large, read_log};
use crate::texts::{BlockDocument, TextIndex, TextWriter};

/// Summarises a log that was read. The caller knows what a listing shows.
pub type Describe<'d> = dyn Fn(&SessionFile, &Session) -> LogSummary + Sync + 'd;

/// Options of [`Index::sync`].
pub struct SyncOptions<'s> {
    /// The amount that the index must know of each log.
    pub level: IndexLevel,
    /// Set if the logs are all there are, so that others were deleted.
    pub is_complete: bool,
    /// Wait while another process writes.
    pub waits: bool,
    /// Summarises a log. How severe the findings of a check are is added.
    pub describe: &'s Describe<'s>,
    /// Called with each log that was processed, from any thread.
    pub progress: &'s (dyn Fn(&SessionFile) + Sync),
}

/// The result of [`Index::sync`].
#[derive(Debug, Default)]
pub struct SyncReport {
    /// The number of logs that were parsed, in whole or in part.
    pub logs_read: usize,
    /// The number of bytes that were parsed.
    pub bytes_read: u64,
    /// The number of logs that were not known before.
    pub logs_added: usize,
    /// The number of logs that no longer exist.
    pub logs_removed: usize,
    /// The number of logs that have another name now.
    pub logs_renamed: usize,
    /// Logs that cannot be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
    /// The damage because of which the index was made again.
    pub rebuilt: Option<IndexError>,
    /// Set if the rows of logs turned out to be outdated while the logs were read.
    pub(crate) has_outdated: bool,
}

impl SyncReport {
    fn followed_by(self, mut rest: Self) -> Self {
        rest.logs_read += self.logs_read;
        rest.bytes_read += self.bytes_read;
        rest.logs_added += self.logs_added;
        rest.logs_removed += self.logs_removed;
        rest.logs_renamed += self.logs_renamed;
        // Logs that could not be read were tried again.
        rest
    }
}

/// The work that brings the index up to date.
#[derive(Default)]
struct SyncPlan<'f> {
    tasks: Vec<Task<'f>>,
    /// Logs that were compared and have not changed.
    checked: Vec<(LogId, Fingerprint)>,
    /// Logs that no longer exist.
    missing: Vec<LogId>,
    /// Logs whose file has another content; it gets a new number.
    outdated: Vec<LogId>,
}

/// A log that has to be read.
struct Task<'f> {
    file: &'f SessionFile,
    /// Its row, if what was read of it is still valid.
    row: Option<LogRow>,
    is_renamed: bool,
}

impl Task<'_> {
    /// Returns the number of bytes that will be read.
    fn cost(&self) -> u64 {
        self.file.bytes.saturating_sub(self.row.as_ref().map_or(0, |row| row.position))
    }
}

/// The result of reading a log.
struct LogUpdate {
    log: LogId,
    state: Option<Vec<u8>>,
    summary: LogSummary,
    rows: Option<LogRows>,
    read: ReadPosition,
    bytes_read: u64,
}

/// The bytes of logs after which the work done so far is made permanent.
const BATCH_BYTES: u64 = 256 << 20;

/// The size of the texts that are passed on together.
const MAX_DOCUMENTS: usize = 4 << 20;

impl Index {
    /// Reads what is new in some logs. Another process that does the same is waited for, or is an error.
    pub fn sync(&self, files: &[SessionFile], options: &SyncOptions<'_>) -> Result<SyncReport, IndexError> {
        // Most of the time nothing has changed, which is found out without the lock.
        if self.is_current(files, options).unwrap_or(false) {
            return Ok(SyncReport::default());
        }
        let lock = self.lock(options.waits)?;
        match self.sync_locked(&lock, files, options) {
            Err(error) if error.is_damage() => self.rebuild_locked(&lock, error, files, options),
            result => result,
        }
    }

    /// Makes the index again because of damage that was found while it was read.
    pub fn rebuild(
        &self,
        damage: IndexError,
        files: &[SessionFile],
        options: &SyncOptions<'_>,
    ) -> Result<SyncReport, IndexError> {
        let lock = self.lock(options.waits)?;
        self.rebuild_locked(&lock, damage, files, options)
    }

    fn rebuild_locked(
        &self,
        lock: &CacheLock,
        damage: IndexError,
        files: &[SessionFile],
        options: &SyncOptions<'_>,
    ) -> Result<SyncReport, IndexError> {
        self.clear_locked(lock)?;
        let report = self.sync_locked(lock, files, options)?;
        Ok(SyncReport { rebuilt: Some(damage), ..report })
    }

    fn is_current(&self, files: &[SessionFile], options: &SyncOptions<'_>) -> Result<bool, IndexError> {
        let Some(catalogue) = self.open_catalogue()? else { return Ok(false) };
        if options.level >= IndexLevel::Texts {
            open_texts(self, &catalogue)?;
        }
        Ok(SyncPlan::new(files, catalogue.logs()?, options)?.is_empty())
    }

    fn sync_locked(
        &self,
        lock: &CacheLock,
        files: &[SessionFile],
        options: &SyncOptions<'_>,
    ) -> Result<SyncReport, IndexError> {
        let catalogue = self.open_catalogue_to_write(lock)?;
        let texts = if options.level >= IndexLevel::Texts { open_texts(self, &catalogue)? } else { None };
        let plan = SyncPlan::new(files, catalogue.logs()?, options)?;
        let keeps_deleted = self.keeps_deleted(&catalogue)?;
        let mut report = SyncReport::default();
        catalogue.begin()?;
        for (log, print) in &plan.checked {
            catalogue.set_checked(*log, print)?;
        }
        let now = nanos(Some(std::time::SystemTime::now())) / 1_000_000;
        for &log in &plan.missing {
            match keeps_deleted {
                true => catalogue.set_deleted(log, now)?,
                false => catalogue.remove_log(log)?,
            }
            report.logs_removed += 1;
        }
        for &log in &plan.outdated {
            catalogue.remove_log(log)?;
        }
        catalogue.commit()?;
        pass(Boundary::RowsRemoved)?;
        let mut run =
            Run { index: self, names: NameTable::new(catalogue.all_names()?), catalogue, options, report };
        let result = run.process(plan.tasks, texts);
        run.catalogue.roll_back();
        result?;
        let Run { report, catalogue, .. } = run;
        if !report.has_outdated {
            return Ok(report);
        }
        // Their rows are still marked, so they are read from the beginning, under other numbers.
        drop(catalogue);
        let rest = self.sync_locked(lock, files, options)?;
        Ok(report.followed_by(rest))
    }
}

/// Opens the text index, if there is one. Fails if it is not the one that the catalogue describes.
fn open_texts(index: &Index, catalogue: &Catalogue) -> Result<Option<TextIndex>, IndexError> {
    let texts = TextIndex::open(index.path())?;
    let last = match &texts {
        Some(texts) => {
            texts.check_files(index.path(), catalogue)?;
            texts.last_commit()?
        }
        None => None,
    };
    match catalogue.text_commit()?.is_in(last) {
        true => Ok(texts),
        false => Err(IndexError::Damaged("the text index is older than the catalogue")),
    }
}

impl<'f> SyncPlan<'f> {
    fn new(
        files: &'f [SessionFile],
        rows: Vec<LogRow>,
        options: &SyncOptions<'_>,
    ) -> Result<Self, IndexError> {
        let mut plan = Self::default();
        let mut by_path: FxHashMap<OsString, LogRow> =
            rows.into_iter().map(|row| (row.path.clone().into(), row)).collect();
        let mut seen: FxHashSet<&OsStr> = FxHashSet::default();
        let mut new: Vec<&SessionFile> = Vec::new();
        for file in files.iter().filter(|file| seen.insert(file.path.as_os_str())) {
            match by_path.remove(file.path.as_os_str()) {
                Some(row) => plan.add_known(file, row, options.level),
                None => new.push(file),
            }
        }
        // A new name of a log that has not changed.
        let (mut missing, unread): (Vec<LogRow>, Vec<LogRow>) =
            by_path.into_values().partition(|row| row.level.is_some());
        missing.sort_by_key(|row| row.id);
        for file in new {
            let is_moved = |row: &LogRow| {
                row.print.is_moved_to(file) && !row.pending && row.path.symlink_metadata().is_err()
            };
            let row = missing.iter().position(is_moved).map(|at| missing.remove(at));
            plan.tasks.push(Task { file, is_renamed: row.is_some(), row });
        }
        if options.is_complete {
            plan.outdated.extend(unread.iter().map(|row| row.id));
            plan.missing.extend(missing.iter().filter(|row| row.deleted.is_none()).map(|row| row.id));
        }
        // Newest first: if the work is interrupted, what matters most is done.
        plan.tasks.sort_by(|a, b| {
            b.file.modified.cmp(&a.file.modified).then_with(|| a.file.path.cmp(&b.file.path))
        });
        Ok(plan)
    }

    fn is_empty(&self) -> bool {
        self.tasks.is_empty()
            && self.checked.is_empty()
            && self.missing.is_empty()
            && self.outdated.is_empty()
    }

    /// Adds the work on a log that has a row.
    fn add_known(&mut self, file: &'f SessionFile, row: LogRow, level: IndexLevel) {
        let change = if row.pending || row.level.is_none() {
            // The writer was killed; its texts may be in the index or not.
            FileChange::Rewritten
        } else {
            row.print.compare(file)
        };
        let is_valid = || row.is_valid_for(file);
        let is_known = row.level >= Some(level)
            && row.deleted.is_none()
            && (level < IndexLevel::Texts || row.text_end >= row.entries_end);
        let task = |row| Task { file, row: Some(row), is_renamed: false };
        match change {
            FileChange::Unchanged if is_known => {}
            FileChange::Unchanged => self.tasks.push(task(row)),
            FileChange::Uncertain if is_valid() => {
                let checked = nanos(Some(std::time::SystemTime::now()));
                let inode = file.inode.unwrap_or(0).cast_signed();
                self.checked.push((row.id, Fingerprint { checked, inode, ..row.print }));
                if !is_known {
                    self.tasks.push(task(row));
                }
            }
            FileChange::Longer if is_valid() => self.tasks.push(task(row)),
            _ => {
                self.outdated.push(row.id);
                self.tasks.push(Task { file, row: None, is_renamed: false });
            }
        }
    }
}

/// One run of [`Index::sync`] that has something to do.
struct Run<'r> {
    index: &'r Index,
    catalogue: Catalogue,
    names: NameTable,
    options: &'r SyncOptions<'r>,
    report: SyncReport,
}

impl Run<'_> {
    fn process(&mut self, tasks: Vec<Task<'_>>, texts: Option<TextIndex>) -> Result<(), IndexError> {
        let has_texts = self.options.level >= IndexLevel::Texts;
        let dead = self.catalogue.dead_logs()?;
        let mut texts = match has_texts && !(tasks.is_empty() && dead.is_empty()) {
            true => {
                let texts = texts.map_or_else(|| TextIndex::create(self.index.path()), Ok)?;
                Some(TextWriter::new(texts, self.catalogue.text_commit()?)?)
            }
            false => None,
        };
        if let Some(texts) = &texts {
            for &log in &dead {
                texts.remove_log(log);
            }
        }
        let mut waiting = tasks.into_iter().peekable();
        loop {
            let (mut batch, mut bytes) = (Vec::new(), 0);
            while let Some(task) =
                waiting.next_if(|task| batch.is_empty() || bytes + task.cost() <= BATCH_BYTES)
            {
                bytes += task.cost();
                batch.push(task);
            }
            if batch.is_empty() {
                break;
            }
            self.process_batch(batch, texts.as_mut())?;
        }
        texts.map_or(Ok(()), |texts| self.finish(texts, &dead))
    }

    /// Removes the texts of dead logs, and tidies the text index up.
    fn finish(&mut self, mut texts: TextWriter, dead: &[LogId]) -> Result<(), IndexError> {
        let commit = if dead.is_empty() { None } else { Some(texts.commit()?) };
        pass(Boundary::DeadTextsRemoved)?;
        texts.merge_small()?;
        let texts = texts.finish()?;
        pass(Boundary::TextsMerged)?;
        self.catalogue.begin()?;
        if let Some(commit) = commit {
            self.catalogue.set_text_commit(commit)?;
            self.catalogue.forget_dead_logs(dead)?;
        }
        self.catalogue.set_text_files(&texts.files(self.index.path())?)?;
        self.catalogue.commit()
    }

    /// Reads some logs, and makes what they contain permanent.
    fn process_batch(
        &mut self,
        batch: Vec<Task<'_>>,
        mut texts: Option<&mut TextWriter>,
    ) -> Result<(), IndexError> {
        let mut work = Vec::with_capacity(batch.len());
        self.catalogue.begin()?;
        for task in batch {
            let log = self.number_of(&task)?;
            work.push((task, log));
        }
        if texts.is_some() {
            let logs: Vec<LogId> = work.iter().map(|(_, log)| *log).collect();
            self.catalogue.set_pending(&logs)?;
        }
        // The states are read here, because the catalogue has one connection.
        let mut jobs = Vec::with_capacity(work.len());
        for (task, log) in work {
            let state = task.row.as_ref().map(|_| self.catalogue.state(log)).transpose()?.flatten();
            jobs.push((task, log, state));
        }
        self.catalogue.commit()?;
        pass(Boundary::LogsPending)?;
        self.catalogue.begin()?;
        let reader = SyncReader { options: self.options, names: &self.names, texts: texts.as_deref() };
        let (sender, updates) = sync_channel(4);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let sender = sender;
                jobs.into_par_iter().for_each_with(sender, |sender, (task, log, state)| {
                    reader.process(&task, log, state, sender);
                });
            });
            receive(updates, &self.catalogue, &mut self.report)
        })?;
        if let Some(texts) = &mut texts {
            pass(Boundary::LogsRead)?;
            self.catalogue.set_text_commit(texts.commit()?)?;
        }
        self.catalogue.add_names(&self.names.take_new())?;
        pass(Boundary::TextsCommitted)?;
        self.catalogue.commit()?;
        pass(Boundary::BatchCommitted)
    }

    /// Returns the number of a log, and adds a row for a new one.
    fn number_of(&mut self, task: &Task<'_>) -> Result<LogId, IndexError> {
        let file = task.file;
        let Some(row) = &task.row else {
            self.report.logs_added += 1;
            return self.catalogue.add_log(&file.path, &file.id, file.is_subagent);
        };
        if task.is_renamed {
            self.report.logs_renamed += 1;
            self.catalogue.rename_log(row.id, &file.path, &file.id, file.is_subagent)?;
        }
        Ok(row.id)
    }
}

/// A result of reading a log, on its way to the thread that writes.
type ReadResult = Result<Box<LogUpdate>, ReadFailure>;

/// A log that could not be read, or an index that could not be written.
enum ReadFailure {
    /// The index has something of the log that is no longer right. The log has to be read from its beginning.
    Outdated,
    Log(PathBuf, io::Error),
    Index(IndexError),
}

/// Writes what was read to the catalogue.
fn receive(
    updates: Receiver<ReadResult>,
    catalogue: &Catalogue,
    report: &mut SyncReport,
) -> Result<(), IndexError> {
    let mut failure = None;
    for update in updates {
        let applied = match update {
            // After a failure the readers are only drained.
            _ if failure.is_some() => Ok(()),
            Ok(update) => {
                report.logs_read += 1;
                report.bytes_read += update.bytes_read;
                apply(catalogue, &update)
            }
            Err(ReadFailure::Log(path, error)) => {
                report.unreadable.push((path, error));
                Ok(())
            }
            Err(ReadFailure::Outdated) => {
                report.has_outdated = true;
                Ok(())
            }
            Err(ReadFailure::Index(error)) => Err(error),
        };
        failure = failure.or(applied.err());
    }
    failure.map_or(Ok(()), Err)
}

fn apply(catalogue: &Catalogue, update: &LogUpdate) -> Result<(), IndexError> {
    if let Some(state) = &update.state {
        catalogue.set_state(update.log, state)?;
    }
    catalogue.set_summary(update.log, &update.summary)?;
    if let Some(rows) = &update.rows {
        catalogue.add_rows(update.log, rows)?;
    }
    catalogue.set_position(update.log, &update.read)
}

/// Reads logs, on several threads.
struct SyncReader<'r> {
    options: &'r SyncOptions<'r>,
    names: &'r NameTable,
    texts: Option<&'r TextWriter>,
}

impl SyncReader<'_> {
    fn process(&self, task: &Task<'_>, log: LogId, state: Option<Vec<u8>>, updates: &SyncSender<ReadResult>) {
        let _turn = lock_if_large(task.file);
        let update = self.read(task, log, state);
        (self.options.progress)(task.file);
        // The receiver is gone only if the program ends.
        let _ = updates.send(update.map(Box::new));
    }

    fn read(&self, task: &Task<'_>, log: LogId, state: Option<Vec<u8>>) -> Result<LogUpdate, ReadFailure> {
        let unreadable = |error| ReadFailure::Log(task.file.path.clone(), error);
        let position = task.row.as_ref().map_or(0, |row| row.position);
        let state =
            state.and_then(|state| LogState::decode(&state)).filter(|state| state.position() == position);
        let read = read_log(task.file, state.unwrap_or_default(), true).map_err(unreadable)?;
        let mut summary = (self.options.describe)(&read.as_read(task.file), &read.session);
        let findings = match self.texts {
            Some(_) => check(&read.session, &Client::IN_USE),
            None => harmful_findings(&read.session, &Client::IN_USE),
        };
        let worst = findings.iter().map(|finding| finding.severity).max();
        summary.summary.severity = Some(worst.unwrap_or(Severity::Harmless));
        let text_start = task.row.as_ref().map_or(0, |row| row.text_end);
        if self.texts.is_some() && read.has_later_parent(text_start) {
            return Err(ReadFailure::Outdated);
        }
        let rows = match self.texts {
            Some(texts) => {
                self.add_title(texts, task, log, &summary).map_err(ReadFailure::Index)?;
                let rows = self.add_texts(texts, log, &read, text_start).map_err(|error| match error {
                    Ok(error) => unreadable(error),
                    Err(error) => ReadFailure::Index(error),
                })?;
                Some(LogRows { findings: findings.into_iter().map(Into::into).collect(), ..rows })
            }
            None => None,
        };
        let text_end = if rows.is_some() { read.end_of_entries } else { text_start };
        let level = if rows.is_some() { IndexLevel::Texts } else { IndexLevel::Summary };
        Ok(LogUpdate {
            log,
            state: read.state,
            summary,
            rows,
            read: ReadPosition {
                level,
                position: read.position,
                entries_end: read.end_of_entries,
                text_end,
                print: read.print,
            },
            bytes_read: read.bytes_read,
        })
    }

    /// Adds the title of a session to the text index. A title that is its first prompt is found there.
    fn add_title(
        &self,
        texts: &TextWriter,
        task: &Task<'_>,
        log: LogId,
        summary: &LogSummary,
    ) -> Result<(), IndexError> {
        if task.row.is_some() {
            texts.remove_title(log);
        }
        let title = &summary.summary.title;
        if title.source >= TitleSource::FirstPrompt || title.text.is_empty() {
            return Ok(());
        }
        texts.add(vec![BlockDocument {
            text: title.text.clone(),
            log,
            message_n: 0,
            offset: 0,
            block: 0,
            source: TextSource::Title,
            tool: 0,
            model: 0,
            time: summary.summary.modified.map(rethread_model::Time::millis),
            key: rethread_model::MessageKey::from_u64(0),
        }])
    }

    /// Adds the texts of a log from an offset on; returns its rows. An error is one of reading, or one of the index.
    fn add_texts(
        &self,
        texts: &TextWriter,
        log: LogId,
        read: &ReadLog,
        from: u64,
    ) -> Result<LogRows, Result<io::Error, IndexError>> {
        let mut waiting: Vec<BlockDocument> = Vec::new();
        let mut bytes = 0;
        let mut failure = None;
        let rows = collect_texts(read, from, self.names, |found| {
            // The texts of a message stay together, as far as the limit allows.
            if bytes > MAX_DOCUMENTS && failure.is_none() {
                bytes = 0;
                failure = texts.add(std::mem::take(&mut waiting)).err();
            }
            for document in self.documents_of(log, found) {
                bytes += document.text.len();
                waiting.push(document);
            }
        })
        .map_err(Ok)?;
        match failure {
            Some(error) => return Err(Err(error)),
            None => texts.add(waiting).map_err(Err)?,
        }
        Ok(rows)
    }

    fn documents_of(&self, log: LogId, found: FoundTexts<'_>) -> impl Iterator<Item = BlockDocument> {
        let FoundTexts { session, node, offset, texts } = found;
        let facts = &session.facts;
        let message = texts.message;
        let model = message.and_then(|n| facts.messages[n].model);
        let model = model.map_or(0, |model| self.names.number_of(facts.models.name(model)));
        let time = millis(facts, node);
        texts.texts.into_iter().map(move |text| BlockDocument {
            log,
            message_n: message.map_or(0, rethread_model::MessageNo::get),
            offset,
            block: text.block,
            source: text.source,
            tool: text.call.map_or(0, |call| self.names.number_of(facts.tools.name(facts.calls[call].tool))),
            model,
            time,
            key: texts.key,
            text: text.text.into_owned(),
        })
    }
}
