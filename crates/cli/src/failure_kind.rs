//! The kinds of errors, for programs that read them as JSON.

/// The kind of an error, as `--json` prints it. `docs/json.md` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// There is no session, path, message or hit with this name.
    NotFound,
    /// A name stands for several things.
    Ambiguous,
    /// A query cannot be read, or names a value that does not exist.
    InvalidQuery,
    /// An option or argument has a value that it cannot have.
    InvalidValue,
    /// An option or command does not exist, is missing, or cannot be combined with another.
    Usage,
    /// A file cannot be read.
    Unreadable,
    /// A file is not a session.
    NotASession,
    /// A process has the session open, or is writing to it.
    InUse,
    /// The session cannot be used for what was asked.
    Unsuitable,
    /// A file or directory is in the way.
    Exists,
    /// A file cannot be written.
    Unwritable,
    /// The client cannot be started.
    NoClient,
    /// The index cannot be used.
    Index,
    /// Anything else.
    Failed,
}

impl FailureKind {
    /// All kinds.
    #[cfg(test)]
    const ALL: [Self; 14] = [
        Self::NotFound,
        Self::Ambiguous,
        Self::InvalidQuery,
        Self::InvalidValue,
        Self::Usage,
        Self::Unreadable,
        Self::NotASession,
        Self::InUse,
        Self::Unsuitable,
        Self::Exists,
        Self::Unwritable,
        Self::NoClient,
        Self::Index,
        Self::Failed,
    ];

    /// Returns the name used in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::Ambiguous => "ambiguous",
            Self::InvalidQuery => "invalid_query",
            Self::InvalidValue => "invalid_value",
            Self::Usage => "usage",
            Self::Unreadable => "unreadable",
            Self::NotASession => "not_a_session",
            Self::InUse => "in_use",
            Self::Unsuitable => "unsuitable",
            Self::Exists => "exists",
            Self::Unwritable => "unwritable",
            Self::NoClient => "no_client",
            Self::Index => "index",
            Self::Failed => "failed",
        }
    }
}

/// Returns the kind of a failure to write a file.
impl From<&std::io::Error> for FailureKind {
    fn from(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::AlreadyExists => Self::Exists,
            std::io::ErrorKind::ResourceBusy => Self::InUse,
            _ => Self::Unwritable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_documented() {
        let docs = include_str!("../../../docs/json.md");
        let section = docs.split("\n## Errors").nth(1).expect("a section about errors");
        let section = section.split("\n## ").next().expect("its text");
        for kind in FailureKind::ALL {
            assert!(section.contains(&format!("| `{}` |", kind.name())), "{kind:?}");
        }
        let documented = section.lines().filter(|line| line.starts_with("| `")).count();
        assert!(documented >= FailureKind::ALL.len());
    }
}
