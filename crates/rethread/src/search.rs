//! Searches the texts of a library.

use std::collections::hash_map::Entry;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rethread_index::{
    Index, IndexError, IndexLevel, IndexSnapshot, IndexStatus, LogScanner, Query, QueryError, ScannedLog,
    SearchError, SyncOptions, SyncReport, search_scanned,
};
use rethread_model::{LogSummary, SearchResults, Session};
use rethread_store::{SessionFile, project_dir_name};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use crate::library::{Library, LogSource};
use crate::ls::describe;

/// Options of [`Library::search`].
///
/// ```
/// use rethread::SearchLimits;
///
/// let limits = SearchLimits { sessions: 5, ..SearchLimits::default() };
/// assert_eq!(limits.hits_per_session, 3);
/// ```
#[derive(Debug, Clone)]
pub struct SearchLimits {
    /// The maximum number of sessions; 0 for all.
    pub sessions: usize,
    /// The maximum number of hits that are returned for a session; 0 for all.
    pub hits_per_session: usize,
    /// The maximum number of characters of a snippet.
    pub snippet_chars: usize,
    /// Read all logs and neither use nor update the index.
    pub no_index: bool,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self { sessions: 20, hits_per_session: 3, snippet_chars: 160, no_index: false }
    }
}

/// The result of [`Library::search`].
#[derive(Debug)]
#[non_exhaustive]
pub struct SearchOutcome {
    /// The hits.
    pub results: SearchResults,
    /// Set if the index could not be used, so that all logs were read.
    pub index_error: Option<IndexError>,
    /// The damage because of which the index was made again.
    pub rebuilt: Option<IndexError>,
    /// Logs that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl Library {
    /// Searches the texts of all sessions. The index is built or brought up to date first; what it does not have is read
    /// from the logs.
    ///
    /// ```
    /// use rethread::{Library, Query, QuerySyntax, SearchLimits};
    ///
    /// let library = Library::open(["/home/ada/.claude"]);
    /// let syntax = QuerySyntax { parse_time: &|text| Err(format!("no time: {text}")) };
    /// let query = Query::parse("sensor -test", &syntax)?;
    /// let found = library.search(&query, "sensor -test", &SearchLimits::default())?;
    /// for session in &found.results.sessions {
    ///     println!("{}: {} messages", session.session, session.total);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn search(
        &self,
        query: &Query,
        typed: &str,
        limits: &SearchLimits,
    ) -> Result<SearchOutcome, QueryError> {
        let files = self.distinct_logs();
        let options = rethread_index::SearchOptions {
            max_sessions: limits.sessions,
            max_hits: limits.hits_per_session,
            snippet_chars: limits.snippet_chars,
            is_project: &is_project,
            typed,
        };
        let index = self.index.as_ref().filter(|_| !limits.no_index);
        let mut outcome = SearchOutcome {
            results: SearchResults::default(),
            index_error: None,
            rebuilt: None,
            unreadable: Vec::new(),
        };
        if let Some(index) = index {
            let mut found = self.search_index(index, &files, query, &options, &mut outcome);
            if let Err(SearchError::Index(damage)) = found {
                found = match damage.is_damage() && outcome.rebuilt.is_none() {
                    true => self.search_rebuilt(index, damage, &files, query, &options, &mut outcome),
                    false => Err(damage.into()),
                };
            }
            match found {
                Ok(Some(results)) => {
                    outcome.results = results;
                    return Ok(outcome);
                }
                Err(SearchError::Query(error)) => return Err(error),
                Err(SearchError::Index(error)) => outcome.index_error = Some(error),
                // Another process is making the index; or an error of a kind that is not known here.
                Ok(None) | Err(_) => {}
            }
        }
        let scanned = self.scan_logs(&files.iter().collect::<Vec<_>>(), query, None, &mut outcome);
        match search_scanned(query, scanned, &options) {
            Ok(results) => outcome.results = results,
            Err(SearchError::Query(error)) => return Err(error),
            Err(_) => {}
        }
        Ok(outcome)
    }

    /// Makes a damaged index again and searches it. If another process writes to it, it cannot be used.
    fn search_rebuilt(
        &self,
        index: &Index,
        damage: IndexError,
        files: &[SessionFile],
        query: &Query,
        options: &rethread_index::SearchOptions<'_>,
        outcome: &mut SearchOutcome,
    ) -> Result<Option<SearchResults>, SearchError> {
        let rebuilt = self
            .with_sync_options(IndexLevel::Texts, true, false, |sync| index.rebuild(damage, files, sync))?;
        outcome.rebuilt = rebuilt.rebuilt;
        outcome.unreadable.clear();
        self.search_index(index, files, query, options, outcome)
    }

    /// Searches the index after bringing it up to date; `None` if there is none yet.
    fn search_index(
        &self,
        index: &Index,
        files: &[SessionFile],
        query: &Query,
        options: &rethread_index::SearchOptions<'_>,
        outcome: &mut SearchOutcome,
    ) -> Result<Option<SearchResults>, SearchError> {
        let take = || Ok(index.snapshot()?.map(|mut snapshot| (snapshot.compare(files), snapshot)));
        // Most of the time nothing has changed. Damage is found again by what follows.
        let current = take().unwrap_or_else(|_: IndexError| None);
        let current = current.filter(|(_, snapshot)| snapshot.is_up_to_date());
        let snapshot = match current {
            Some(current) => Some(current),
            None => {
                match self.sync(index, files, IndexLevel::Texts, true, false) {
                    Ok(report) => {
                        outcome.unreadable = report.unreadable;
                        outcome.rebuilt = outcome.rebuilt.take().or(report.rebuilt);
                    }
                    // Another process is at it; what it has not done yet is read from the logs.
                    Err(IndexError::Busy) => {}
                    // Without damage, what is there can be read, even if nothing can be written.
                    Err(error) if error.is_damage() || !index.exists() => return Err(error.into()),
                    Err(_) => {}
                }
                take()?
            }
        };
        let Some((stale, snapshot)) = snapshot else { return Ok(None) };
        let wanted = if query.has_patterns() { files.iter().collect() } else { stale };
        let scanned = self.scan_logs(&wanted, query, Some(&snapshot), outcome);
        snapshot.search(query, scanned, options).map(Some)
    }

    /// Brings the index up to date.
    pub(crate) fn sync(
        &self,
        index: &Index,
        files: &[SessionFile],
        level: IndexLevel,
        is_complete: bool,
        waits: bool,
    ) -> Result<SyncReport, IndexError> {
        self.with_sync_options(level, is_complete, waits, |options| index.sync(files, options))
    }

    fn with_sync_options<T>(
        &self,
        level: IndexLevel,
        is_complete: bool,
        waits: bool,
        run: impl FnOnce(&SyncOptions<'_>) -> T,
    ) -> T {
        run(&SyncOptions {
            level,
            is_complete,
            waits,
            describe: &describe_log,
            progress: &|file| self.progress.report(&LogSource::from(file.clone())),
        })
    }

    /// Compares logs with a query. With an index, only what it does not have of them.
    fn scan_logs(
        &self,
        files: &[&SessionFile],
        query: &Query,
        snapshot: Option<&IndexSnapshot>,
        outcome: &mut SearchOutcome,
    ) -> Vec<ScannedLog> {
        let scanner = LogScanner::new(query, &describe_log, &is_project);
        let scan = |file: &&SessionFile| {
            let scanned = match snapshot.filter(|_| !query.has_patterns()) {
                Some(snapshot) => scanner.scan_tail(snapshot, file),
                None => scanner.scan(file),
            };
            scanned.map_err(|error| (file.path.clone(), error))
        };
        let results: Vec<Result<Option<ScannedLog>, (PathBuf, io::Error)>> =
            files.par_iter().map(scan).collect();
        let mut scanned = Vec::new();
        for result in results {
            match result {
                Ok(found) => scanned.extend(found),
                Err(failed) => outcome.unreadable.push(failed),
            }
        }
        scanned
    }

    /// Returns all logs, each once. One that is also reached by a link has its own name.
    pub(crate) fn distinct_logs(&self) -> Vec<SessionFile> {
        let is_own = |file: &SessionFile| file.path.file_stem().is_some_and(|stem| stem == file.id.as_str());
        let mut logs: Vec<SessionFile> = Vec::new();
        let mut known: FxHashMap<OsString, usize> = FxHashMap::default();
        for file in self.store.sessions(true) {
            match known.entry(file.path.clone().into()) {
                Entry::Vacant(entry) => {
                    entry.insert(logs.len());
                    logs.push(file);
                }
                Entry::Occupied(entry) if is_own(&file) => logs[*entry.get()] = file,
                Entry::Occupied(_) => {}
            }
        }
        logs
    }

    /// Returns the index of this library, if it has a cache directory.
    ///
    /// ```
    /// assert!(rethread::Library::open(["/home/ada/.claude"]).index().is_none());
    /// ```
    pub fn index(&self) -> Option<&Index> {
        self.index.as_ref()
    }

    /// Builds the index, or brings it up to date. Waits while another process does.
    ///
    /// ```
    /// let library = rethread::Library::open(["/home/ada/.claude"]);
    /// assert!(library.update_index().is_none(), "it has no cache directory");
    /// ```
    pub fn update_index(&self) -> Option<Result<SyncReport, IndexError>> {
        let index = self.index.as_ref()?;
        Some(self.sync(index, &self.distinct_logs(), IndexLevel::Texts, true, true))
    }

    /// Describes the index, and how many logs are not completely in it.
    ///
    /// ```
    /// let library = rethread::Library::open(["/home/ada/.claude"]);
    /// assert!(library.index_status().is_none(), "it has no cache directory");
    /// ```
    pub fn index_status(&self) -> Option<Result<IndexStatus, IndexError>> {
        Some(self.index.as_ref()?.status(&self.distinct_logs()))
    }

    /// Returns the size of all logs, subagents included.
    ///
    /// ```
    /// assert_eq!(rethread::Library::open(["/home/ada/.claude"]).all_bytes(), 0);
    /// ```
    pub fn all_bytes(&self) -> u64 {
        self.store.sessions(true).iter().map(|file| file.bytes).sum()
    }
}

/// Returns the index of a library in a cache directory: each set of config directories has its own.
pub(crate) fn index_of(roots: &[PathBuf], cache_dir: &Path) -> Index {
    let mut names = Vec::new();
    for root in roots {
        let real = root.canonicalize().unwrap_or_else(|_| root.clone());
        names.extend_from_slice(real.as_os_str().as_encoded_bytes());
        names.push(0);
    }
    Index::at(cache_dir.join("index").join(format!("{:016x}", xxh3_64(&names))))
}

/// Summarises a log.
fn describe_log(file: &SessionFile, session: &Session) -> LogSummary {
    describe(session, &LogSource::from(file.clone()), file.bytes)
}

/// Returns whether a project is meant by a name: a directory, or a part of one.
pub(crate) fn is_project(project: &str, wanted: &str) -> bool {
    let wanted = project_dir_name(wanted.trim_end_matches('/')).to_lowercase();
    project_dir_name(project).to_lowercase().contains(&wanted)
}
