//! The moments at which a writer that is killed leaves something behind. Tests stop a sync there.

use crate::error::IndexError;

/// A moment between two changes that become permanent one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// The rows of logs that are gone or rewritten were removed; their texts are still there.
    RowsRemoved,
    /// Logs were marked, nothing was read yet.
    LogsPending,
    /// Logs were read, nothing was committed.
    LogsRead,
    /// Their texts were committed, their rows were not.
    TextsCommitted,
    /// Both were committed; other batches follow.
    BatchCommitted,
    /// The texts of dead logs were removed; the catalogue still lists these logs.
    DeadTextsRemoved,
    /// The text index was merged; the catalogue does not know its new files.
    TextsMerged,
}

/// Passes a boundary. Only tests stop there.
#[cfg(not(test))]
#[inline]
#[expect(clippy::unnecessary_wraps, reason = "a test returns an error")]
pub(crate) fn pass(_: Boundary) -> Result<(), IndexError> {
    Ok(())
}

#[cfg(test)]
pub(crate) use test::pass;

#[cfg(test)]
pub(crate) mod test {
    use std::cell::Cell;

    use super::*;

    impl Boundary {
        pub(crate) const ALL: [Self; 7] = [
            Self::RowsRemoved,
            Self::LogsPending,
            Self::LogsRead,
            Self::TextsCommitted,
            Self::BatchCommitted,
            Self::DeadTextsRemoved,
            Self::TextsMerged,
        ];
    }

    thread_local! {
        static STOP: Cell<Option<Boundary>> = const { Cell::new(None) };
    }

    /// Stops the next sync of this thread at a boundary, as if the process had been killed there.
    pub(crate) fn stop_at(boundary: Option<Boundary>) {
        STOP.set(boundary);
    }

    pub(crate) fn pass(boundary: Boundary) -> Result<(), IndexError> {
        match STOP.get() == Some(boundary) {
            true => Err(IndexError::Busy),
            false => Ok(()),
        }
    }
}
