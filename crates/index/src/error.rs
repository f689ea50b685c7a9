//! Errors of the index.

use std::io;
use std::path::PathBuf;

/// An error of the index. The logs are not affected; a search can do without the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The directory of the index cannot be used.
    #[error("cannot use {}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The catalogue cannot be read or written.
    #[error("the catalogue cannot be used")]
    Catalogue(#[from] rusqlite::Error),
    /// The text index cannot be read or written.
    #[error("the text index cannot be used")]
    Text(#[from] tantivy::TantivyError),
    /// The index is damaged.
    #[error("the index is damaged: {0}")]
    Damaged(&'static str),
    /// There is no index.
    #[error("there is no index")]
    Missing,
    /// Another process is writing to the index.
    #[error("another process is writing to the index")]
    Busy,
}

impl IndexError {
    /// Returns whether building the index again would help.
    pub fn is_damage(&self) -> bool {
        use rusqlite::ErrorCode;
        match self {
            Self::Damaged(_) => true,
            Self::Catalogue(rusqlite::Error::SqliteFailure(error, _)) => {
                matches!(error.code, ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
            }
            // A table or a value that is not as expected.
            Self::Catalogue(error) => {
                !matches!(error, rusqlite::Error::SqliteFailure(..)) || is_schema_error(error)
            }
            Self::Text(error) => !matches!(
                error,
                tantivy::TantivyError::IoError(_)
                    | tantivy::TantivyError::LockFailure(..)
                    | tantivy::TantivyError::OpenWriteError(_)
            ),
            Self::Directory { .. } | Self::Missing | Self::Busy => false,
        }
    }
}

fn is_schema_error(error: &rusqlite::Error) -> bool {
    matches!(error, rusqlite::Error::SqliteFailure(failure, _) if failure.extended_code == rusqlite::ffi::SQLITE_ERROR)
}
