//! The logs of a library before they are read: for front ends that show a list at once and fill it in later.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rayon::prelude::*;
use rethread_model::{Session, SessionSummary};

use crate::library::{Library, LogSource};
use crate::ls::{HIDDEN_KINDS, LsOptions, is_of_other_project, severity_of, summarise};

/// The logs of some projects, newest first, with their sizes and times. None of them has been read.
#[derive(Debug, Clone)]
pub struct Catalog {
    /// The logs, most recently changed first. Logs of subagents are not among them.
    pub logs: Vec<LogSource>,
    cwd: Option<PathBuf>,
    live: BTreeSet<String>,
    /// Finds titles in other files.
    library: Library,
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
        Catalog { logs, cwd: options.cwd.clone(), live, library: self.clone() }
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
    /// Reads the summary of a log of this catalog. Returns `None` if a listing leaves it out: the log of a subagent, a
    /// headless run or a file without a conversation, or one of another directory whose project has the same name.
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
        let _turn = log.lock_if_large();
        let (facts, bytes) = log.facts()?;
        let title = self.library.title_of(log, &facts);
        let session = Session::new(facts);
        let mut summary = SessionSummary { title, ..summarise(&session, log, bytes) };
        summary.is_live = self.live.contains(&log.file.id);
        log.add_origin_to(&mut summary);
        let is_other = self.cwd.as_ref().is_some_and(|cwd| is_of_other_project(&summary, cwd));
        if is_other || HIDDEN_KINDS.contains(&summary.kind) {
            return Ok(None);
        }
        summary.severity = Some(severity_of(&session));
        Ok(Some(summary))
    }
}
