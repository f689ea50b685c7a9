//! Findings about a session and its file: whether and how it will resume.

use std::time::{Duration, SystemTime};

use rethread_model::{CheckReport, Client, Finding, FindingKind, Session, Severity, check, title};

use crate::library::{Library, LogSource};

/// The clients that a session is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientChoice {
    /// Clients that are still in use.
    #[default]
    InUse,
    /// All clients whose rules are known.
    All,
    /// One client.
    One(Client),
}

/// Options of a check.
///
/// ```
/// use std::time::SystemTime;
///
/// use rethread::{CheckOptions, ClientChoice};
///
/// let options = CheckOptions::new().clients(ClientChoice::All).now(SystemTime::now());
/// assert_eq!(options.clients, ClientChoice::All);
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CheckOptions {
    /// The clients whose rules apply.
    pub clients: ClientChoice,
    /// The current time, to predict the client's clean-up; without it, the age of files is ignored.
    pub now: Option<SystemTime>,
}

impl CheckOptions {
    /// Creates the default options: the clients in use, ignoring the age of files.
    ///
    /// ```
    /// assert!(rethread::CheckOptions::new().now.is_none());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the clients whose rules apply.
    ///
    /// ```
    /// use rethread::{CheckOptions, Client, ClientChoice};
    ///
    /// let options = CheckOptions::new().clients(ClientChoice::One(Client::NEWEST));
    /// assert_eq!(options.clients, ClientChoice::One(Client::NEWEST));
    /// ```
    pub fn clients(mut self, clients: ClientChoice) -> Self {
        self.clients = clients;
        self
    }

    /// Sets the current time, to predict the client's clean-up.
    ///
    /// ```
    /// let options = rethread::CheckOptions::new().now(std::time::SystemTime::now());
    /// assert!(options.now.is_some());
    /// ```
    pub fn now(mut self, now: SystemTime) -> Self {
        self.now = Some(now);
        self
    }
}

/// The age at which the client deletes a session, by default.
const CLEANUP: Duration = Duration::from_secs(30 * 24 * 3600);

impl Library {
    /// Checks whether a session will resume, and which content would be lost or refused.
    ///
    /// ```
    /// use rethread::{CheckOptions, FindingKind, Library};
    ///
    /// let library = Library::demo();
    /// let report = library.check(&library.find_one("0000d004")?, &CheckOptions::new())?;
    /// assert!(report.findings.iter().any(|finding| finding.kind == FindingKind::CutShort));
    /// assert!(!report.has_harmful_findings());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn check(&self, source: &LogSource, options: &CheckOptions) -> Result<CheckReport, crate::Error> {
        let _turn = source.lock_if_large();
        let (session, _) = self.read(source)?;
        let findings = options.findings(source, &session);
        Ok(CheckReport { session: source.id(), title: title(&session.facts, None), findings })
    }
}

impl CheckOptions {
    /// Returns the findings about a session and its file.
    pub(crate) fn findings(&self, source: &LogSource, session: &Session) -> Vec<Finding> {
        let mut findings = check_session(session, self);
        findings.extend(self.now.and_then(|now| stale_finding(source, now)));
        findings
    }
}

/// Checks a session, ignoring its file.
pub(crate) fn check_session(session: &Session, options: &CheckOptions) -> Vec<Finding> {
    match options.clients {
        ClientChoice::InUse => check(session, &Client::IN_USE),
        ClientChoice::All => check(session, &Client::ALL),
        ClientChoice::One(client) => check(session, &[client]),
    }
}

/// Returns a finding for a file that was not written to for a month, because the client deletes it.
fn stale_finding(source: &LogSource, now: SystemTime) -> Option<Finding> {
    let age = now.duration_since(source.file.modified?).ok()?;
    (age >= CLEANUP).then(|| Finding {
        line: None,
        kind: FindingKind::Stale,
        severity: Severity::Harmless,
        detail: format!(
            "not modified for {} days; the client deletes sessions after 30 days",
            age.as_secs() / (24 * 3600)
        ),
        clients: Vec::new(),
        lost_lines: Vec::new(),
    })
}
