//! Errors as shown to the user: one line, and hints; or as one JSON object.

use std::io;
use std::path::Path;

use serde_json::{Value, json};

use rethread::{CleanError, CloneError, ExportError, RepairError};
use rethread::{FindError, Holder, PathRejection, ShortIds, SkippedPath};

use crate::failure_kind::FailureKind;

/// An error; printed once, in `main`.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error message.
    pub(crate) error: String,
    /// Lines below the message that point at a place in the input.
    pub(crate) pointer: Option<String>,
    /// Hints on how to proceed.
    pub(crate) hints: Vec<String>,
    kind: FailureKind,
    /// More fields of the JSON object.
    data: Vec<(&'static str, Value)>,
    io_kind: Option<io::ErrorKind>,
}

impl Failure {
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            pointer: None,
            hints: Vec::new(),
            kind: FailureKind::Failed,
            data: Vec::new(),
            io_kind: None,
        }
    }

    /// Sets the kind, for programs.
    pub(crate) fn kind(self, kind: FailureKind) -> Self {
        Self { kind, ..self }
    }

    /// Adds a field to the JSON object.
    pub(crate) fn with(mut self, name: &'static str, value: Value) -> Self {
        self.data.push((name, value));
        self
    }

    /// Adds lines below the message that point at a place in the input.
    pub(crate) fn pointing_at(self, lines: String) -> Self {
        Self { pointer: Some(lines), ..self }
    }

    /// Returns the error as one JSON object. `edit` edits its texts.
    pub(crate) fn to_json(&self, edit: impl Fn(&str) -> String) -> Value {
        let hint = (!self.hints.is_empty()).then(|| edit(&self.hints.join("; ")));
        let mut object = json!({
            "type": "error",
            "kind": self.kind.name(),
            "message": edit(&self.error),
            "hint": hint,
        });
        for (name, value) in &self.data {
            object[*name] = value.clone();
        }
        object
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.io_kind == Some(io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { io_kind: Some(error.kind()), ..Self::new(error.to_string()) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// The number of sessions that are listed if a name matches several.
const MAX_CANDIDATES: usize = 5;

/// Adds a hint for each session that a name matches.
fn with_candidates(mut failure: Failure, shown: Vec<String>, n: usize) -> Failure {
    let more = n.saturating_sub(shown.len());
    for session in shown {
        failure = failure.hint(session);
    }
    if more == 0 {
        failure
    } else {
        failure.hint(format!("and {more} more; `rethread ls --all` lists their ids"))
    }
}

/// Describes a log for the user, by an id that names it or else by its path.
fn session_label(file: &rethread::SessionFile, ids: &ShortIds) -> String {
    match rethread::LogSource::from(file.clone()).summary() {
        Ok(session) => summary_label(&session, ids),
        Err(_) => candidate_name(&file.id, &file.path, ids),
    }
}

/// Names one of several sessions: by the shortest id, or by its path if another one has the same id.
fn candidate_name(id: &str, path: &Path, ids: &ShortIds) -> String {
    if ids.is_unique(id) { ids.shorten(id).to_owned() } else { path.display().to_string() }
}

/// Describes a session by its name, title, project, age and origin.
fn summary_label(session: &rethread::SessionSummary, ids: &ShortIds) -> String {
    let id = candidate_name(session.id.as_str(), &session.path, ids);
    let when = session.created.and(session.recency()).and_then(|time| time.timestamp());
    let when = when.map_or(String::new(), |time| {
        format!(
            ", {}",
            rethread_render::format_ago(time, crate::terminal::now(), &jiff::tz::TimeZone::system())
        )
    });
    let project =
        session.cwd.as_deref().and_then(|cwd| cwd.rsplit(['/', '\\']).find(|part| !part.is_empty()));
    let project = project.map_or(String::new(), |name| format!(", {name}"));
    let origin = session
        .origin
        .as_ref()
        .map_or(String::new(), |origin| format!(", made from {}", ids.shorten(origin.source.as_str())));
    let title = rethread_render::truncate(&session.title.text, 50);
    let title = if title.is_empty() { String::new() } else { format!(" \"{title}\"") };
    format!("{id}{title}{project}{when}{origin}")
}

/// Returns a hint for a session that a process has open.
pub(crate) fn holder_hint(holder: &Holder, instead: &str) -> String {
    match holder {
        Holder::Unknown { path } => {
            format!("exit the client (or remove {} if none is running), or {instead}", path.display())
        }
        Holder::Writer { pid, .. } => format!("stop process {pid}, or {instead}"),
        _ => format!("close the session in the client, or {instead}"),
    }
}

/// Returns a hint for a path that is not a regular file.
fn not_regular_hint(reason: PathRejection) -> &'static str {
    match reason {
        PathRejection::Link => {
            "symbolic links inside session directories are not followed; pass the path of the target file"
        }
        PathRejection::Pipe | PathRejection::Device | PathRejection::Socket => {
            "a session must be a regular file; use `-` to read standard input"
        }
        _ => "a session must be a regular file",
    }
}

impl From<&SkippedPath> for Failure {
    fn from(skipped: &SkippedPath) -> Self {
        Self::new(format!("skipped {}: {}", skipped.path.display(), skipped.reason))
    }
}

/// Formats an error with all of its causes.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text += &format!(": {source}");
        cause = source.source();
    }
    text
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let error = match error {
            ExportError::Session(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            ExportError::ForeignDirectory { .. }
            | ExportError::ForeignFile { .. }
            | ExportError::Changed { .. } => FailureKind::Exists,
            ExportError::Write { source, .. } => source.into(),
            ExportError::NoPath { .. } => FailureKind::NotFound,
            ExportError::Moved { .. } => FailureKind::InUse,
            _ => FailureKind::Failed,
        };
        let failure = Self::new(with_causes(&error)).kind(kind);
        match error {
            ExportError::ForeignDirectory { .. } => failure
                .hint("choose a new or empty directory, or one created by an earlier export")
                .hint("--force writes next to the existing files; files of other programs are never overwritten"),
            ExportError::ForeignFile { .. } => failure.hint("move it, or choose another directory"),
            ExportError::Changed { .. } => failure.hint("move it to keep it; --force overwrites it"),
            ExportError::BrokenManifest { .. } => failure.hint("choose another directory"),
            ExportError::NoPath { .. } => failure.hint("`rethread tree` lists the paths of a session"),
            _ => failure,
        }
    }
}

impl From<RepairError> for Failure {
    fn from(error: RepairError) -> Self {
        let error = match error {
            RepairError::Read(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            RepairError::InUse(_) => FailureKind::InUse,
            RepairError::NoDestination => FailureKind::Usage,
            RepairError::Write { source, .. } => source.into(),
            _ => FailureKind::Failed,
        };
        let failure = Self::new(with_causes(&error)).kind(kind);
        match &error {
            RepairError::InUse(holder) => {
                failure.hint(holder_hint(holder, "omit --in-place to write a new session"))
            }
            RepairError::NoDestination => failure.hint("name an output file with -o FILE"),
            RepairError::Write { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists => failure.hint("choose a file that does not exist yet"),
                io::ErrorKind::ResourceBusy => {
                    failure.hint("another process is writing to it; close it and try again")
                }
                _ => failure,
            },
            _ => failure,
        }
    }
}

impl From<CleanError> for Failure {
    fn from(error: CleanError) -> Self {
        let error = match error {
            CleanError::Read(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            CleanError::InUse(_) => FailureKind::InUse,
            CleanError::NoDestination => FailureKind::Usage,
            CleanError::OutputIsSource(_) => FailureKind::Exists,
            CleanError::Write { source, .. } => source.into(),
            _ => FailureKind::Failed,
        };
        let failure = Self::new(with_causes(&error)).kind(kind);
        match &error {
            CleanError::InUse(holder) => failure.hint(holder_hint(holder, "write a copy with -o DIR")),
            CleanError::NoDestination => failure.hint("write a copy with -o DIR"),
            CleanError::OutputIsSource(_) => failure.hint(
                "choose another directory, or use --in-place to clean the session itself and keep a backup",
            ),
            CleanError::Write { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists => {
                    failure.hint("choose another directory; --force overwrites existing files")
                }
                io::ErrorKind::ResourceBusy => {
                    failure.hint("another process is writing to it; close it and try again")
                }
                _ => failure,
            },
            _ => failure,
        }
    }
}

impl From<CloneError> for Failure {
    fn from(error: CloneError) -> Self {
        use rethread::ClonePlanError as Unmakable;
        let error = match error {
            CloneError::Read(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            CloneError::NoDestination => FailureKind::Usage,
            CloneError::NoDirectory(_) => FailureKind::InvalidValue,
            CloneError::Impossible(
                Unmakable::NoPath(..) | Unmakable::NoMessage(..) | Unmakable::NotOnPath(..),
            ) => FailureKind::NotFound,
            CloneError::Impossible(_) => FailureKind::Unsuitable,
            CloneError::Write { source, .. } => source.into(),
            _ => FailureKind::Failed,
        };
        let failure = Self::new(with_causes(&error)).kind(kind);
        match &error {
            CloneError::NoDestination => failure.hint("--to DIR writes the clone to the project of DIR"),
            CloneError::NoDirectory(_) => failure.hint("--to takes the working directory of a project"),
            CloneError::Impossible(Unmakable::NoPath(..)) => failure.hint("`rethread tree` lists the paths"),
            CloneError::Impossible(Unmakable::NoMessage(..)) => {
                failure.hint("`rethread show` prints message numbers")
            }
            CloneError::Impossible(Unmakable::NotOnPath(..)) => failure.hint("omit --path"),
            CloneError::Impossible(Unmakable::Subagent) => {
                failure.hint("`rethread repair` converts it into a session")
            }
            CloneError::Impossible(Unmakable::EndHasNoId) => {
                failure.hint("`rethread repair` gives every entry an id; clone the repaired session")
            }
            CloneError::Write { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => failure
                    .hint("the clone is written next to its source; --to DIR writes it to the project of another directory"),
                io::ErrorKind::StorageFull => failure.hint("partial files were removed; free some space and try again"),
                _ => failure,
            },
            _ => failure,
        }
    }
}

/// Returns the kind of an error while finding or reading a session.
fn kind_of(error: &rethread::Error) -> FailureKind {
    match error {
        rethread::Error::Find(FindError::Ambiguous { .. })
        | rethread::Error::AmbiguousTitle { .. }
        | rethread::Error::NotOne { .. } => FailureKind::Ambiguous,
        rethread::Error::Read { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
            FailureKind::InUse
        }
        rethread::Error::Read { .. } | rethread::Error::Find(FindError::Read { .. }) => {
            FailureKind::Unreadable
        }
        rethread::Error::Find(_) | rethread::Error::NoLastSession { .. } => FailureKind::NotFound,
        rethread::Error::NotASession { .. } => FailureKind::NotASession,
        _ => FailureKind::Failed,
    }
}

impl From<rethread::Error> for Failure {
    fn from(error: rethread::Error) -> Self {
        let failure = Self::new(with_causes(&error)).kind(kind_of(&error));
        match &error {
            rethread::Error::Find(FindError::NoMatch { roots, .. }) if roots.is_empty() => {
                failure.hint("`rethread --demo ls` lists the sample sessions")
            }
            rethread::Error::Find(FindError::NoMatch { roots, .. }) => {
                let places: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
                failure
                    .hint(format!("searched in {}", places.join(", ")))
                    .hint("`rethread ls --all` lists all sessions; an id, a part of a title or a path to a .jsonl file works")
            }
            rethread::Error::Find(FindError::Ambiguous { candidates, .. }) => {
                // All ids with this beginning are among the candidates.
                let ids = ShortIds::new(candidates.iter().map(|candidate| candidate.id.as_str()));
                let shown = candidates.iter().take(MAX_CANDIDATES).map(|file| session_label(file, &ids));
                let rows = candidates
                    .iter()
                    .map(|file| json!({ "session": file.id, "path": file.path.to_string_lossy() }));
                let failure = failure.with("candidates", rows.collect());
                with_candidates(failure, shown.collect(), candidates.len())
            }
            rethread::Error::AmbiguousTitle { candidates, ids, .. } => {
                let shown = candidates.iter().take(MAX_CANDIDATES).map(|session| summary_label(session, ids));
                let row = |session: &rethread::SessionSummary| {
                    json!({
                        "session": session.id.as_str(),
                        "path": session.path.to_string_lossy(),
                        "title": session.title.text,
                    })
                };
                let failure = failure.with("candidates", candidates.iter().map(row).collect());
                with_candidates(failure, shown.collect(), candidates.len())
            }
            rethread::Error::NoLastSession { .. } => {
                failure.hint("--config-dir DIR searches another directory; --demo uses the sample sessions")
            }
            rethread::Error::Read { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                failure.hint("another process is writing to it; close it and try again")
            }
            rethread::Error::Read { source, .. } | rethread::Error::Find(FindError::Read { source, .. })
                if PathRejection::from_io_error(source).is_some() =>
            {
                failure.hint(PathRejection::from_io_error(source).map_or("", not_regular_hint))
            }
            rethread::Error::NotOne { .. } => failure.hint("name one of them; `rethread ls DIR` lists them"),
            rethread::Error::NotASession { .. } => {
                failure.hint("a session is a .jsonl file with one JSON object per line")
            }
            _ => failure,
        }
    }
}
