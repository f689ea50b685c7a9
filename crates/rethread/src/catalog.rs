//! The logs of a library before they are read: for front ends that show a list at once and fill it in later.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rethread_model::{Session, SessionSummary};
use rustc_hash::FxHashMap;

use crate::library::{Library, LogSource};
use crate::ls::{
    HIDDEN_KINDS, LsOptions, is_of_other_project, resume_dir_in_sidecar, severity_of, summarise,
};
use crate::titles::may_be_titled_elsewhere;

/// The logs of some projects, newest first, with their sizes and times. None of them has been read.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The logs, most recently changed first. Logs of subagents are not among them.
    pub logs: Vec<LogSource>,
    cwd: Option<PathBuf>,
    live: BTreeSet<String>,
    /// Finds what the index knows, and titles in other files.
    library: Library,
    /// The summaries that the index has and that were not requested yet, by the path of the log; `None` before the first
    /// request.
    known: Arc<Mutex<Option<FxHashMap<PathBuf, SessionSummary>>>>,
}

impl Library {
    /// Finds the logs of a listing without reading them. Of the options, only the directory and the projects apply.
    ///
    /// ```
    /// use rethread::{Library, LsOptions};
    ///
    /// let catalog = Library::demo().catalog(&LsOptions::new());
    /// assert_eq!(catalog.logs.len(), 5);
    /// ```
    pub fn catalog(&self, options: &LsOptions) -> Catalog {
        let mut logs = self.session_logs_in_scope(options);
        logs.par_sort_by(|a, b| {
            b.file.modified.cmp(&a.file.modified).then_with(|| a.file.path.cmp(&b.file.path))
        });
        let live = self.store.live_clients().into_keys().collect();
        let (cwd, library) = (options.cwd.clone(), self.clone());
        Catalog { logs, cwd, live, library, known: Arc::default() }
    }

    fn session_logs_in_scope(&self, options: &LsOptions) -> Vec<LogSource> {
        if self.demo.is_some() || !options.projects.is_empty() {
            let mut logs = self.sources_in_scope(options, &mut Default::default());
            logs.retain(|log| !log.file.is_subagent);
            return logs;
        }
        let dirs = match &options.cwd {
            Some(cwd) => self.store.projects_below(cwd),
            None => self.store.projects(),
        };
        dirs.par_iter().flat_map(|dir| self.store.sessions_in(dir, false)).map(LogSource::from).collect()
    }
}

impl Catalog {
    /// Returns the summary of a log of this catalog, from the index or from the log. Returns `None` if a listing leaves
    /// it out: the log of a subagent, a headless run or a file without a conversation, or one of another directory whose
    /// project has the same name.
    ///
    /// Reading needs memory for the facts of the session, not for its texts. The session is checked against the clients
    /// in use, as a listing does.
    ///
    /// ```
    /// use rethread::{Library, LsOptions};
    ///
    /// let catalog = Library::demo().catalog(&LsOptions::new());
    /// let summary = catalog.summary(&catalog.logs[0])?.expect("a conversation");
    /// assert!(!summary.title.text.is_empty());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn summary(&self, log: &LogSource) -> Result<Option<SessionSummary>, crate::Error> {
        if let Some(known) = self.take_known(log) {
            return Ok(self.listed(known, log));
        }
        let _turn = log.lock_if_large();
        let (facts, bytes) = log.facts()?;
        let title = self.library.title_of(log, &facts);
        let session = Session::new(facts);
        let listed = self.listed(SessionSummary { title, ..summarise(&session, log, bytes) }, log);
        Ok(listed.map(|summary| SessionSummary { severity: Some(severity_of(&session)), ..summary }))
    }

    /// Adds what is not in the log to its summary. Returns `None` if a listing leaves the log out.
    fn listed(&self, mut summary: SessionSummary, log: &LogSource) -> Option<SessionSummary> {
        summary.is_live = self.live.contains(&log.file.id);
        summary.resume_dir = summary.resume_dir.or_else(|| resume_dir_in_sidecar(&log.file));
        log.add_origin_to(&mut summary);
        let is_other = self.cwd.as_ref().is_some_and(|cwd| is_of_other_project(&summary, cwd));
        (!is_other && !HIDDEN_KINDS.contains(&summary.kind)).then_some(summary)
    }

    /// Takes the summary that the index has of a log. The first call reads those of all logs.
    fn take_known(&self, log: &LogSource) -> Option<SessionSummary> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| self.known_summaries()).remove(&log.file.path)
    }

    /// Returns what the index has of all logs, except of those whose titles may be in other files.
    fn known_summaries(&self) -> FxHashMap<PathBuf, SessionSummary> {
        let known = self.library.known_summaries(&self.logs).into_iter().flatten();
        let usable =
            known.filter(|known| known.summary.severity.is_some() && !may_be_titled_elsewhere(known));
        usable.map(|known| (known.summary.path.clone(), known.summary)).collect()
    }
}
