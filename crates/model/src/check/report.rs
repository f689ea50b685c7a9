//! The findings about one session.

use super::{Finding, FindingKind, Severity};
use crate::summary::SessionId;
use crate::title::Title;

/// A session and its findings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckReport {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: Title,
    /// The findings, most severe first.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    /// Returns the severity of the worst finding.
    pub fn severity(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// Returns whether any finding keeps content from the model.
    pub fn has_harmful_findings(&self) -> bool {
        self.findings.iter().any(Finding::is_harmful)
    }

    /// Returns whether there is anything to resume.
    pub fn has_conversation(&self) -> bool {
        !self.findings.iter().any(|finding| finding.kind == FindingKind::NoConversation)
    }
}
