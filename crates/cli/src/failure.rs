//! Errors as a user meets them: one line, and what to do about it.

use std::io;

use rethread::store::{FindError, Holder, PathRejection, SkippedPath};
use rethread::{CleanError, CloneError, ExportError, RepairError};

/// Something went wrong; printed once, in `main`.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) error: String,
    /// What may help.
    pub(crate) hints: Vec<String>,
    kind: Option<io::ErrorKind>,
}

impl Failure {
    pub(crate) fn new(error: impl Into<String>) -> Self {
        Self { error: error.into(), hints: Vec::new(), kind: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.kind == Some(io::ErrorKind::BrokenPipe)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self { kind: Some(error.kind()), ..Self::new(error.to_string()) }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}

/// Names a session as its user knows it.
fn session_label(file: &rethread::store::SessionFile) -> String {
    let source = rethread::LogSource::from(file.clone());
    let Ok((facts, _)) = source.facts() else { return file.id.clone() };
    let title = rethread::model::title(&facts, None).text;
    let when = facts.time_span.and_then(|(_, last)| last.timestamp());
    let when = when.map_or(String::new(), |time| {
        format!(
            ", {}",
            rethread::render::format_ago(time, crate::terminal::now(), &jiff::tz::TimeZone::system())
        )
    });
    let title = rethread::render::truncate(&title, 50);
    if title.is_empty() { file.id.clone() } else { format!("{} is \"{title}\"{when}", file.id) }
}

/// Says what to do about a process that has a session open.
fn holder_hint(holder: &Holder, instead: &str) -> String {
    match holder {
        Holder::Unknown { path } => {
            format!("end the client, or remove {} if none runs; or {instead}", path.display())
        }
        Holder::Writer { pid, .. } => format!("end process {pid}, or {instead}"),
        _ => format!("close it there, or {instead}"),
    }
}

/// Says what to do about something that is not a regular file.
fn not_regular_hint(reason: PathRejection) -> &'static str {
    match reason {
        PathRejection::Link => {
            "in a session's own directories no link is followed; name the file it leads to"
        }
        PathRejection::Pipe | PathRejection::Device | PathRejection::Socket => {
            "a session is a regular file; `-` reads standard input"
        }
        _ => "a session is a regular file",
    }
}

impl From<&SkippedPath> for Failure {
    fn from(skipped: &SkippedPath) -> Self {
        Self::new(format!("skipped {}: {}", skipped.path.display(), skipped.reason))
    }
}

/// Tells an error with everything that caused it.
fn with_causes(error: &dyn std::error::Error) -> String {
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
        let failure = Self::new(with_causes(&error));
        match error {
            ExportError::ForeignDirectory { .. } => failure
                .hint("choose a new or an empty directory, or one that an earlier export made")
                .hint("--force writes beside what is there; no other file is overwritten"),
            ExportError::ForeignFile { .. } => failure.hint("move it away, or choose another directory"),
            ExportError::Changed { .. } => failure.hint("move it away to keep it; --force writes over it"),
            ExportError::BrokenManifest { .. } => failure.hint("choose another directory"),
            ExportError::NoPath { .. } => failure.hint("`rethread tree` shows the paths of a session"),
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
        let failure = Self::new(with_causes(&error));
        match &error {
            RepairError::InUse(holder) => {
                failure.hint(holder_hint(holder, "repair into a new session without --in-place"))
            }
            RepairError::NoDestination => failure.hint("name a file for the result with -o"),
            RepairError::Write { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists => failure.hint("name a file that is not there yet"),
                io::ErrorKind::ResourceBusy => failure.hint("something writes to it; close it and try again"),
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
        let failure = Self::new(with_causes(&error));
        match &error {
            CleanError::InUse(holder) => failure.hint(holder_hint(holder, "write a copy with -o DIR")),
            CleanError::NoDestination => failure.hint("write a copy with -o DIR"),
            CleanError::OutputIsSource(_) => {
                failure.hint("choose another directory; --in-place cleans it there, with a backup")
            }
            CleanError::Write { source, .. } => match source.kind() {
                io::ErrorKind::AlreadyExists => {
                    failure.hint("choose another directory; --force writes over what is there")
                }
                io::ErrorKind::ResourceBusy => failure.hint("something writes to it; close it and try again"),
                _ => failure,
            },
            _ => failure,
        }
    }
}

impl From<CloneError> for Failure {
    fn from(error: CloneError) -> Self {
        use rethread::edit::ClonePlanError as Unmakable;
        let error = match error {
            CloneError::Read(error) => return error.into(),
            error => error,
        };
        let failure = Self::new(with_causes(&error));
        match &error {
            CloneError::NoDestination => failure.hint("--to DIR puts the clone into the project of DIR"),
            CloneError::NoDirectory(_) => failure.hint("--to names the directory that the work is done in"),
            CloneError::Impossible(Unmakable::NoPath(..)) => failure.hint("`rethread tree` shows the paths"),
            CloneError::Impossible(Unmakable::NoMessage(..)) => {
                failure.hint("`rethread show` shows messages with their numbers")
            }
            CloneError::Impossible(Unmakable::NotOnPath(..)) => failure.hint("leave --path out"),
            CloneError::Impossible(Unmakable::Subagent) => {
                failure.hint("`rethread repair` makes a session of it")
            }
            CloneError::Impossible(Unmakable::EndHasNoId) => {
                failure.hint("`rethread repair` gives every entry an id; clone what it makes")
            }
            CloneError::Write { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => failure
                    .hint("the clone goes beside its source; --to DIR puts it into the project of another directory"),
                io::ErrorKind::StorageFull => failure.hint("nothing was left behind; make room and try again"),
                _ => failure,
            },
            _ => failure,
        }
    }
}

impl From<rethread::Error> for Failure {
    fn from(error: rethread::Error) -> Self {
        let failure = Self::new(with_causes(&error));
        match &error {
            rethread::Error::Find(FindError::NoMatch { roots, .. }) if roots.is_empty() => {
                failure.hint("`rethread --demo ls` lists the sessions of the sample")
            }
            rethread::Error::Find(FindError::NoMatch { roots, .. }) => {
                let places: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
                failure
                    .hint(format!("looked in {}", places.join(", ")))
                    .hint("`rethread ls --all` lists all sessions; a path to a .jsonl file works too")
            }
            rethread::Error::Find(FindError::Ambiguous { candidates, .. }) => {
                let mut failure = failure;
                let same_id = candidates.windows(2).all(|pair| pair[0].id == pair[1].id);
                for candidate in candidates.iter().take(10) {
                    failure = failure.hint(match same_id {
                        true => candidate.path.display().to_string(),
                        false => session_label(candidate),
                    });
                }
                match candidates.len().saturating_sub(10) {
                    0 => failure,
                    more => failure.hint(format!("and {more} more")),
                }
            }
            rethread::Error::NoLastSession { cwd } => failure
                .hint(format!("this directory is {}; `rethread ls --all` lists all sessions", cwd.display())),
            rethread::Error::Read { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                failure.hint("something writes to it; close it and try again")
            }
            rethread::Error::Read { source, .. } | rethread::Error::Find(FindError::Read { source, .. })
                if PathRejection::from_io_error(source).is_some() =>
            {
                failure.hint(PathRejection::from_io_error(source).map_or("", not_regular_hint))
            }
            rethread::Error::NotASession { .. } => {
                failure.hint("a session is a .jsonl file with one JSON object per line")
            }
            _ => failure,
        }
    }
}
