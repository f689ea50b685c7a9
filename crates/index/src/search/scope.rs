//! The logs that a search considers, and the conditions that documents must meet.

use std::path::Path;

use rethread_model::{LogSummary, TextSource};
use rethread_store::SessionFile;
use rustc_hash::{FxHashMap, FxHashSet};

use super::candidates::LogNo;
use crate::catalogue::{Catalogue, LogId, LogRow};
use crate::error::IndexError;
use crate::query::{FieldValue, Filters, Query, QueryError, QueryErrorKind};

/// The part of a log that was read directly, because the index does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ScannedPart {
    Nothing,
    /// The part that was appended, and the title.
    Tail,
    Whole,
}

/// A log of a search.
#[derive(Debug)]
pub(super) struct ScopeLog {
    pub(super) row: LogRow,
    /// Set if the log passes the filters on sessions.
    is_wanted: bool,
    scanned: ScannedPart,
}

/// The logs of a search, and its filters with the numbers of names.
#[derive(Debug)]
pub(super) struct Scope<'s> {
    pub(super) filters: &'s Filters,
    pub(super) logs: Vec<ScopeLog>,
    by_id: FxHashMap<i64, LogNo>,
    /// The tools whose calls and results are wanted.
    pub(super) tools: Option<FxHashSet<i64>>,
    /// The models whose answers are wanted.
    pub(super) models: Option<FxHashSet<i64>>,
    /// The times of the last entries of sessions, for messages without a time.
    session_times: FxHashMap<i64, i64>,
}

/// Decides whether a project is meant by a name; the caller knows how projects are named.
pub type IsProject<'p> = dyn Fn(&str, &str) -> bool + 'p;

impl<'s> Scope<'s> {
    /// Determines the scope of a query in some logs. `scanned` tells which logs were read directly. A name that the catalogue does not
    /// know is an error if the catalogue is complete.
    pub(super) fn new(
        query: &'s Query,
        catalogue: &Catalogue,
        rows: Vec<LogRow>,
        is_complete: bool,
        scanned: &dyn Fn(&LogRow) -> ScannedPart,
        is_project: &IsProject<'_>,
    ) -> Result<Self, ScopeError> {
        let filters = &query.filters;
        let has_names = !filters.tools.is_empty() || !filters.models.is_empty();
        let names = if has_names { catalogue.all_names()? } else { FxHashMap::default() };
        let tools = numbers_of("tool", &filters.tools, &names, is_complete)?;
        let models = numbers_of("model", &filters.models, &names, is_complete)?;
        let sessions = ScopeFilter::new(filters, catalogue, &rows, is_complete, is_project)?;
        let logs: Vec<ScopeLog> = rows
            .into_iter()
            .map(|row| ScopeLog { is_wanted: sessions.accepts(&row), scanned: scanned(&row), row })
            .collect();
        let by_id = (0..).zip(&logs).map(|(no, log)| (log.row.id.0, no)).collect();
        let has_limits = filters.since.is_some() || filters.until.is_some();
        let session_times = if has_limits { catalogue.session_times()? } else { FxHashMap::default() };
        Ok(Self { filters, logs, by_id, tools, models, session_times })
    }

    /// Returns the log with this number, if its documents count.
    pub(super) fn log_of(&self, id: i64) -> Option<LogNo> {
        let no = *self.by_id.get(&id)?;
        let log = &self.logs[no as usize];
        (log.is_wanted && log.scanned != ScannedPart::Whole && !log.row.pending).then_some(no)
    }

    /// Returns whether a document at an offset of a log counts.
    pub(super) fn is_visible(&self, log: LogNo, offset: u64, source: TextSource) -> bool {
        let log = &self.logs[log as usize];
        let has_newer_title = source == TextSource::Title && log.scanned == ScannedPart::Tail;
        offset < log.row.text_end && !has_newer_title
    }

    pub(super) fn has_time_limits(&self) -> bool {
        self.filters.since.is_some() || self.filters.until.is_some()
    }

    /// Returns whether a message was written in the wanted time. One without a time is as old as its session.
    pub(super) fn contains_time(&self, log: LogNo, time: Option<i64>) -> bool {
        let session = || self.session_times.get(&self.logs[log as usize].row.id.0).copied();
        time.or_else(session).is_some_and(|time| is_in_time(self.filters, time))
    }

    pub(super) fn id(&self, log: LogNo) -> LogId {
        self.logs[log as usize].row.id
    }
}

/// Returns whether a time is between the limits.
pub(super) fn is_in_time(filters: &Filters, time: i64) -> bool {
    filters.since.is_none_or(|since| time >= since.millis())
        && filters.until.is_none_or(|until| time < until.millis())
}

/// An error in a query that only the index can find, or of the index.
pub(super) enum ScopeError {
    Query(QueryErrorKind, FieldValue),
    Index(IndexError),
}

impl From<IndexError> for ScopeError {
    fn from(error: IndexError) -> Self {
        Self::Index(error)
    }
}

impl ScopeError {
    /// Points at the value in the query.
    pub(super) fn into_query_error(self, typed: &str) -> Result<QueryError, IndexError> {
        match self {
            Self::Query(kind, value) => {
                let is_typed = typed.get(value.span.clone()) == Some(&value.text);
                let (query, span) = match is_typed && !value.text.is_empty() {
                    true => (typed.to_owned(), value.span),
                    false => (value.text.clone(), 0..value.text.len()),
                };
                Ok(QueryError { query, span, kind })
            }
            Self::Index(error) => Err(error),
        }
    }
}

/// Returns whether a name is meant by a value: the same without case, a part of a model's name, or, with `*` at its
/// end, a name that begins so.
fn is_meant(value: &str, name: &str, by_part: bool) -> bool {
    let (value, name) = (value.to_lowercase(), name.to_lowercase());
    match value.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == value || by_part && name.contains(&value),
    }
}

/// Returns the numbers of the names that are meant by some values.
fn numbers_of(
    field: &'static str,
    values: &[FieldValue],
    names: &FxHashMap<i64, String>,
    is_complete: bool,
) -> Result<Option<FxHashSet<i64>>, ScopeError> {
    if values.is_empty() {
        return Ok(None);
    }
    let by_part = field == "model";
    let mut numbers = FxHashSet::default();
    for value in values {
        let meant = names.iter().filter(|(_, name)| is_meant(&value.text, name, by_part));
        let meant: Vec<i64> = meant.map(|(&number, _)| number).collect();
        numbers.extend(&meant);
        if is_complete && meant.is_empty() {
            let is_model = |name: &&String| name.contains('-') && !name.starts_with("mcp_");
            let valid = names.values().filter(|name| is_model(name) == by_part).cloned();
            return Err(ScopeError::Query(QueryErrorKind::unknown(field, &value.text, valid), value.clone()));
        }
    }
    Ok(Some(numbers))
}

/// The filters that apply to whole sessions.
struct ScopeFilter {
    /// The logs that pass; `None` if there is no filter.
    logs: Option<FxHashSet<i64>>,
}

impl ScopeFilter {
    fn new(
        filters: &Filters,
        catalogue: &Catalogue,
        rows: &[LogRow],
        is_complete: bool,
        is_project: &IsProject<'_>,
    ) -> Result<Self, ScopeError> {
        let mut wanted = Self { logs: None };
        if !filters.projects.is_empty() {
            let sessions = catalogue.session_fields("project")?;
            for value in &filters.projects {
                if is_complete && !sessions.iter().any(|(_, project)| is_project(project, &value.text)) {
                    let valid = sessions.iter().map(|(_, project)| last_part(project).to_owned());
                    let valid: FxHashSet<String> = valid.collect();
                    let kind = QueryErrorKind::unknown("project", &value.text, valid);
                    return Err(ScopeError::Query(kind, value.clone()));
                }
            }
            let is_wanted =
                |project: &str| filters.projects.iter().any(|value| is_project(project, &value.text));
            wanted
                .restrict_to(sessions.iter().filter(|(_, project)| is_wanted(project)).map(|(log, _)| *log));
        }
        if !filters.git_branches.is_empty() {
            let sessions = catalogue.session_fields("git_branch")?;
            for value in &filters.git_branches {
                if is_complete && !sessions.iter().any(|(_, branch)| is_meant(&value.text, branch, false)) {
                    let places = super::MessagePlaces::NAMES.iter().map(|&name| name.to_owned());
                    let branches = sessions.iter().map(|(_, branch)| branch.clone());
                    let valid: FxHashSet<String> = places.chain(branches).collect();
                    let kind = QueryErrorKind::unknown("branch", &value.text, valid);
                    return Err(ScopeError::Query(kind, value.clone()));
                }
            }
            let is_wanted =
                |branch: &str| filters.git_branches.iter().any(|value| is_meant(&value.text, branch, false));
            wanted.restrict_to(sessions.iter().filter(|(_, branch)| is_wanted(branch)).map(|(log, _)| *log));
        }
        if !filters.models.is_empty() {
            let sessions = catalogue.session_fields("models")?;
            let is_wanted = |models: &str| {
                let mut models = models.split(", ");
                models.any(|model| filters.models.iter().any(|value| is_meant(&value.text, model, true)))
            };
            wanted.restrict_to(sessions.iter().filter(|(_, models)| is_wanted(models)).map(|(log, _)| *log));
        }
        if !filters.files.is_empty() {
            let mut logs = FxHashSet::default();
            for value in &filters.files {
                logs.extend(catalogue.logs_with_file(&value.text)?);
            }
            wanted.restrict_to(logs.into_iter());
        }
        if !filters.sessions.is_empty() {
            let is_wanted = |row: &LogRow| {
                let is_meant = |id: &str| is_of_session(&row.session, &row.path, row.is_subagent, id);
                filters.sessions.iter().any(|value| is_meant(&value.text))
            };
            wanted.restrict_to(rows.iter().filter(|row| is_wanted(row)).map(|row| row.id.0));
        }
        Ok(wanted)
    }

    fn restrict_to(&mut self, logs: impl Iterator<Item = i64>) {
        let logs: FxHashSet<i64> = logs.collect();
        self.logs = Some(match self.logs.take() {
            Some(before) => before.intersection(&logs).copied().collect(),
            None => logs,
        });
    }

    fn accepts(&self, row: &LogRow) -> bool {
        self.logs.as_ref().is_none_or(|logs| logs.contains(&row.id.0))
    }
}

/// Returns whether a log is that of a session, or of a subagent in its directory.
fn is_of_session(session: &str, path: &Path, is_subagent: bool, id: &str) -> bool {
    let starts = |name: &std::ffi::OsStr| name.as_encoded_bytes().starts_with(id.as_bytes());
    session.starts_with(id) || is_subagent && path.iter().any(starts)
}

/// Returns the last part of a project's directory.
fn last_part(project: &str) -> &str {
    project.rsplit(['/', '\\']).next().unwrap_or(project)
}

/// Returns whether a path is meant by a value: it is the same, or ends with it at a separator.
pub(crate) fn is_file_meant(value: &str, path: &str) -> bool {
    let is_separator = |byte: u8| matches!(byte, b'/' | b'\\');
    let is_same = |(a, b): (&u8, &u8)| a == b || is_separator(*a) && is_separator(*b);
    let (value, path) = (value.trim_start_matches("./").as_bytes(), path.as_bytes());
    let Some(before) = path.len().checked_sub(value.len()) else { return false };
    let begins_part = || before.checked_sub(1).is_none_or(|last| is_separator(path[last]));
    !value.is_empty() && path[before..].iter().zip(value).all(is_same) && begins_part()
}

/// Returns whether the filters on sessions accept a log that is not in the catalogue. Files are left out.
pub(super) fn accepts_log(
    filters: &Filters,
    file: &SessionFile,
    log: &LogSummary,
    is_project: &IsProject<'_>,
) -> bool {
    let any = |values: &[FieldValue], accepts: &dyn Fn(&str) -> bool| {
        values.is_empty() || values.iter().any(|value| accepts(&value.text))
    };
    let branch = log.summary.git_branch.as_deref();
    any(&filters.projects, &|value| is_project(&log.project, value))
        && any(&filters.git_branches, &|value| branch.is_some_and(|branch| is_meant(value, branch, false)))
        && any(&filters.models, &|value| log.summary.models.iter().any(|model| is_meant(value, model, true)))
        && any(&filters.sessions, &|id| is_of_session(&file.id, &file.path, file.is_subagent, id))
}

/// Returns whether a name is meant by one of some values; no values mean all names.
pub(super) fn is_any_meant(values: &[FieldValue], name: &str, by_part: bool) -> bool {
    values.is_empty() || values.iter().any(|value| is_meant(&value.text, name, by_part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_files_are_recognised() {
        assert!(is_meant("bash", "Bash", false) && !is_meant("bas", "Bash", false));
        assert!(is_meant("mcp__git*", "mcp__github__x", false));
        assert!(is_meant("opus", "claude-opus-5", true));
        assert!(is_file_meant("src/main.rs", "/home/ada/kettle/src/main.rs"));
        assert!(is_file_meant("./main.rs", "C:\\x\\main.rs"));
        assert!(is_file_meant("x/main.rs", "C:\\x\\main.rs") && is_file_meant("x\\main.rs", "x/main.rs"));
        assert!(is_file_meant("/x/main.rs", "/x/main.rs") && !is_file_meant("", "/x/main.rs"));
        assert!(!is_file_meant("main.rs", "/x/domain.rs"));
    }
}
