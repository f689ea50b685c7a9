//! A session described for a person.

use crate::check::Finding;
use crate::summary::{SessionInfo, SessionSummary};

/// A session for a person: what it is about, how large it is, and whether it resumes.
#[derive(Debug, Clone)]
pub struct SessionOverview {
    /// Its title, project, times and models.
    pub summary: SessionSummary,
    /// Its counts, and its relations to other sessions.
    pub info: SessionInfo,
    /// The tokens that the newest client sends on resume.
    pub context_tokens: u64,
    /// Set if the API counted these tokens; otherwise they are estimated.
    pub context_is_recorded: bool,
    /// The findings about resuming it, most severe first.
    pub findings: Vec<Finding>,
}
