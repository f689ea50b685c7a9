//! The record of the session that a clone or repair was made from.
//!
//! It is a small sidecar, `<id>/origin.json`: a clone differs from its source only in ids, so the log has no room for
//! it, and clients ignore files there that they do not know. It is written after the log. A session without it is
//! complete, only its source is not known.

use std::io;
use std::path::Path;
use std::time::SystemTime;

use rethread_log::Json;
use rethread_model::{OriginKind, SessionOrigin, SessionSummary, Time};
use rethread_store::{ConfinedPath, SessionFile, is_project_dir_for};

use crate::library::LogSource;

/// The name of the sidecar.
const ORIGIN: &str = "origin.json";

/// The maximum size of the sidecar.
const MAX_BYTES: u64 = 4 << 10;

/// Returns the directory in whose project a log is, if it is recorded next to the log.
///
/// A log that was put into another project does not contain that directory, and neither do copies of it.
pub(crate) fn recorded_directory(log: &SessionFile) -> Option<String> {
    read_origin(log)?.directory.filter(|dir| is_dir_of(log, dir))
}

/// Returns whether a directory is one of this machine whose project contains a log.
pub(crate) fn is_dir_of(log: &SessionFile, dir: &str) -> bool {
    Path::new(dir).is_absolute() && is_project_dir_for(&log.dir_name(), dir)
}

/// Records that a session was made now from another, in the project of a directory.
pub(crate) fn write_origin(
    log: &Path,
    source: &str,
    kind: OriginKind,
    directory: Option<&Path>,
) -> io::Result<()> {
    let file = ConfinedPath::of_file(log).with_extension("").join(ORIGIN);
    let now = Time::from_system(SystemTime::now()).and_then(Time::to_iso);
    let record = serde_json::json!({ "source": source, "kind": kind.name(), "time": now,
        "directory": directory.and_then(Path::to_str) });
    rethread_store::write_atomic(&file, |out| writeln!(out, "{record}")).map(|_| ())
}

impl LogSource {
    /// Adds the recorded origin to a summary of the log. It takes precedence over what the entries tell.
    pub(crate) fn add_origin_to(&self, summary: &mut SessionSummary) {
        if self.bytes.is_none() && !self.file.is_subagent {
            summary.origin = read_origin(&self.file).or(summary.origin.take());
        }
    }
}

/// Reads the record of a session, if it has one.
pub(crate) fn read_origin(log: &SessionFile) -> Option<SessionOrigin> {
    if log.is_alone {
        return None;
    }
    let file = log.confined_side_dir().join(ORIGIN);
    let bytes = file.stat().ok()?.bytes;
    let record = (bytes <= MAX_BYTES).then(|| file.read().ok()).flatten()?;
    let field = |key: &str| Some(Json::new(&record).get(key)?.as_str()?.into_owned());
    Some(SessionOrigin {
        source: field("source")?.into(),
        kind: OriginKind::from_name(&field("kind")?)?,
        time: field("time").and_then(|time| Time::parse(time.as_bytes())),
        directory: field("directory"),
    })
}
