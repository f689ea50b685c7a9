//! Reasons why a clone cannot be made.

/// A reason why a clone cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClonePlanError {
    /// No path with this number, and the number of paths.
    #[error("no path {0}; the session has {1}")]
    NoPath(usize, usize),
    /// No message with this number, and the number of messages.
    #[error("no message {0}; the session has {1}")]
    NoMessage(usize, usize),
    /// The message is not on the path.
    #[error("message {0} is not on path {1}")]
    NotOnPath(usize, usize),
    /// The requested last entry has no id, and the log had to be normalised.
    #[error("the last entry of the clone has no id")]
    EndHasNoId,
    /// The session has no conversation.
    #[error("this session has no conversation")]
    Empty,
    /// The log is a subagent's, which has no paths.
    #[error("this is a subagent log, not a session")]
    Subagent,
}
