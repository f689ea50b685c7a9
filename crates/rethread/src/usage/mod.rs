//! The usage of a library: every response of the API once.

mod compare;
mod explain;

use std::io;
use std::path::{Path, PathBuf};

use rethread_index::{LoadedUsage, LogLedger, read_usage};
use rethread_model::{LogUsage, PriceList, Receipt, SessionId, Time, receipts};
use rethread_store::{SessionFile, project_dir_name, read_user_text};

pub use compare::{DifferenceCause, ForeignTotals, UsageComparison, UsageDifference};
pub use explain::{DropReason, ExplainedReceipt, ReceiptRow};

use crate::library::{Library, LogSource};
use crate::origin::read_origin;

/// The largest file of prices or totals that is read.
const MAX_FILE: u64 = 64 << 20;

/// Reads a file of prices, or of totals to compare with.
///
/// ```
/// assert!(rethread::read_usage_file("/nowhere".as_ref()).is_err());
/// ```
pub fn read_usage_file(path: &Path) -> io::Result<String> {
    read_user_text(path, MAX_FILE)
}

/// The usage that the logs of a library record.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LibraryUsage {
    /// The logs, subagents included.
    pub logs: Vec<LogUsage>,
    /// Logs that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

/// Selects responses. An empty filter selects all.
///
/// ```
/// use rethread::UsageFilter;
///
/// let filter = UsageFilter { models: vec!["opus".into()], ..UsageFilter::default() };
/// assert!(filter.since.is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct UsageFilter {
    /// Only responses at or after this time.
    pub since: Option<Time>,
    /// Only responses before this time.
    pub until: Option<Time>,
    /// Only responses that are billed to one of these sessions.
    pub sessions: Vec<SessionId>,
    /// Only projects with one of these names: a directory, or a part of one.
    pub projects: Vec<String>,
    /// Only models whose names contain one of these texts.
    pub models: Vec<String>,
}

impl UsageFilter {
    /// Returns whether a response is selected.
    ///
    /// ```
    /// use rethread::{Library, PriceList, UsageFilter};
    ///
    /// let usage = Library::demo().usage(false);
    /// let filter = UsageFilter { models: vec!["opus".into()], ..UsageFilter::default() };
    /// let all = usage.receipts(&PriceList::default(), &UsageFilter::default());
    /// assert!(all.iter().filter(|receipt| filter.matches(receipt)).count() <= all.len());
    /// ```
    pub fn matches(&self, receipt: &Receipt<'_>) -> bool {
        let any = |wanted: &[String], is: &dyn Fn(&str) -> bool| {
            wanted.is_empty() || wanted.iter().any(|wanted| is(wanted))
        };
        self.since.is_none_or(|since| receipt.time >= Some(since))
            && self.until.is_none_or(|until| receipt.time.is_some_and(|time| time < until))
            && (self.sessions.is_empty()
                || self.sessions.iter().any(|session| session.as_str() == receipt.session()))
            && any(&self.projects, &|wanted| crate::search::is_project(&receipt.log.project, wanted))
            && any(&self.models, &|wanted| receipt.model().to_lowercase().contains(&wanted.to_lowercase()))
    }
}

impl LibraryUsage {
    /// Counts each response once, in the order of time. Copies in logs that a filter would exclude are recognised, too.
    ///
    /// ```
    /// use rethread::{Library, PriceList, UsageAmount, UsageFilter};
    ///
    /// let usage = Library::demo().usage(false);
    /// let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    /// let mut total = UsageAmount::default();
    /// for receipt in &receipts {
    ///     total += UsageAmount::of(receipt);
    /// }
    /// assert_eq!(total.responses, receipts.len() as u64);
    /// ```
    pub fn receipts(&self, prices: &PriceList, filter: &UsageFilter) -> Vec<Receipt<'_>> {
        let mut found = receipts(&self.logs, prices);
        found.retain(|receipt| filter.matches(receipt));
        found
    }

    fn from_loaded(loaded: LoadedUsage) -> Self {
        let logs = loaded.logs.into_iter().map(log_usage).collect();
        Self { logs, unreadable: loaded.unreadable }
    }
}

impl Library {
    /// Reads the usage that the logs of this library record. What was read before is kept in the cache directory, if there
    /// is one and `no_index` is not set.
    ///
    /// ```
    /// let usage = rethread::Library::demo().usage(false);
    /// assert!(usage.unreadable.is_empty());
    /// ```
    pub fn usage(&self, no_index: bool) -> LibraryUsage {
        let files = self.distinct_logs();
        let progress = |file: &SessionFile| self.progress.report(&LogSource::from(file.clone()));
        LibraryUsage::from_loaded(match &self.index {
            Some(index) if !no_index => index.usage(&files, &progress),
            _ => read_usage(&files, &progress),
        })
    }

    /// Reads the usage of one session with its subagents, and what is remembered of others since a time, without looking
    /// for new sessions. It takes some milliseconds in a library of any size.
    ///
    /// ```
    /// use rethread::{Library, Time};
    ///
    /// let usage = Library::open(["/home/ada/.claude"]).recent_usage(None, Time::from_millis(0));
    /// assert!(usage.logs.is_empty());
    /// ```
    pub fn recent_usage(&self, log: Option<&Path>, since: Time) -> LibraryUsage {
        let session = log.and_then(|path| SessionFile::from_user_path(path).ok());
        let mut files = Vec::new();
        if let Some(session) = session {
            files.extend(self.agents.logs_of(&session));
            files.push(session);
        }
        LibraryUsage::from_loaded(match &self.index {
            Some(index) => index.recent_usage(since, &files),
            None => read_usage(&files, &|_| {}),
        })
    }
}

/// Names the project and the session of a log.
fn log_usage(log: LogLedger) -> LogUsage {
    let LogLedger { file, ledger } = log;
    let project_dir = project_dir_of(&file);
    let name = project_dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let cwd = ledger.cwds().find(|cwd| project_dir_name(cwd) == name).or_else(|| ledger.cwds().next());
    let project = cwd.map_or_else(|| name.clone(), str::to_owned);
    let session = session_of(&file, &project_dir).or_else(|| ledger.session().map(str::to_owned));
    let session = session.unwrap_or_else(|| file.id.clone());
    LogUsage {
        session: SessionId::from(session.as_str()),
        project,
        is_subagent: file.is_subagent,
        is_copy: read_origin(&file).is_some(),
        ledger,
        path: file.path,
    }
}

/// Returns the session of a log, as far as its path tells: the log of a subagent is below the directory of its session, but
/// older clients wrote it next to the others.
fn session_of(file: &SessionFile, project_dir: &Path) -> Option<String> {
    if !file.is_subagent {
        return Some(file.id.clone());
    }
    let mut below = file.path.strip_prefix(project_dir).ok()?.iter();
    let first = below.next()?;
    below.next()?;
    Some(first.to_string_lossy().into_owned())
}

/// Returns the project directory of a log.
fn project_dir_of(file: &SessionFile) -> PathBuf {
    let parent = file.path.parent().unwrap_or(Path::new(""));
    match parent.ancestors().find(|dir| dir.file_name().is_some_and(|name| name == "subagents")) {
        Some(subagents) => subagents.ancestors().nth(2).unwrap_or(parent).to_owned(),
        None => parent.to_owned(),
    }
}
