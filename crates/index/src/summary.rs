//! What the catalogue knows of a session.

use rethread_model::{SessionSummary, Severity, Uid};
use serde::{Deserialize, Serialize};

/// The summary of a log, as far as it follows from the log alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LogSummary {
    /// What a listing shows. Its path is not stored.
    pub summary: SessionSummary,
    /// The project in which it is listed.
    pub project: String,
    /// The worst of what clients in use would do with it.
    pub severity: Severity,
    /// Summaries of conversations that may be in other files.
    pub other_titles: Vec<(Uid, String)>,
    /// Set if a summary in another file would be a better title.
    pub accepts_title: bool,
}
