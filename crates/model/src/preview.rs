//! The request that a client would send on resume.

use crate::client::Client;
use crate::resume::Refusal;
use crate::summary::SessionId;
use crate::wire::WireMessage;

/// The decisions of a client on resuming a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreviewSummary {
    /// The session.
    pub session: SessionId,
    /// The client version whose rules were applied.
    pub client: Client,
    /// The uuid of the entry that it selects as the leaf.
    pub leaf: Option<String>,
    /// The reason why it does not resume the session, if it does not.
    pub refusal: Option<Refusal>,
}

impl PreviewSummary {
    /// Returns whether the client resumes the session at all.
    pub fn is_accepted(&self) -> bool {
        self.refusal.is_none()
    }
}

/// The request that a client would send to the API on resume.
#[derive(Debug, Clone)]
pub struct Preview<'a> {
    /// The decisions of the client.
    pub summary: PreviewSummary,
    /// The messages, including the new prompt; empty if the client does not resume.
    pub messages: Vec<WireMessage<'a>>,
}

impl Preview<'_> {
    /// Returns whether the client resumes the session at all.
    pub fn is_accepted(&self) -> bool {
        self.summary.is_accepted()
    }
}
