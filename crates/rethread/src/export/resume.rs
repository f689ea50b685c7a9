//! The command that resumes a session, as documents show it. Only a front end can word it.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rethread_model::SessionId;

/// A log whose documents show how to resume it.
#[derive(Debug, Clone, Copy)]
pub struct ResumableLog<'a> {
    /// The file.
    pub path: &'a Path,
    /// The session's id.
    pub id: &'a SessionId,
    /// The directory in which a client finds it.
    pub dir: Option<&'a Path>,
}

type WordCommand = dyn Fn(&ResumableLog<'_>) -> Option<String> + Send + Sync;

/// Words the command that resumes a session.
#[derive(Clone)]
pub struct ResumeText(Arc<WordCommand>);

impl ResumeText {
    /// Makes it from a function, which returns `None` for logs that no client can resume.
    ///
    /// ```
    /// use rethread::{ExportOptions, ResumeText};
    ///
    /// let text = ResumeText::new(|log| Some(format!("my-client {}", log.id)));
    /// let options = ExportOptions { resume_command: Some(text), ..ExportOptions::default() };
    /// ```
    pub fn new(word: impl Fn(&ResumableLog<'_>) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(word))
    }

    /// Returns the command for a log.
    pub(super) fn word(&self, log: &ResumableLog<'_>) -> Option<String> {
        (self.0)(log)
    }
}

impl fmt::Debug for ResumeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResumeText")
    }
}
