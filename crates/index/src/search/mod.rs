//! Searches: messages that match a query, ranked, one hit for each logical message.

mod candidates;
mod places;
mod prefilter;
mod rank;
mod scan;
mod scope;
mod segments;
mod snippet;

use rethread_model::SearchResults;

use crate::error::IndexError;
use crate::query::{MessagePlaces, Query, QueryError};
use crate::snapshot::IndexSnapshot;
pub use scan::{LogScanner, ScannedLog};
pub use scope::IsProject;
pub(crate) use scope::is_file_meant;

/// Options of a search.
pub struct SearchOptions<'s> {
    /// The maximum number of sessions; 0 for all.
    pub max_sessions: usize,
    /// The maximum number of hits that are shown for a session; 0 for all.
    pub max_hits: usize,
    /// The maximum number of characters of a snippet.
    pub snippet_chars: usize,
    /// Decides whether a project is meant by a name.
    pub is_project: &'s IsProject<'s>,
    /// The query as it was typed, to point at errors.
    pub typed: &'s str,
}

/// An error of a search.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// The query has an unknown value.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The index cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl IndexSnapshot {
    /// Searches the index, and logs that were scanned because the index does not have them.
    pub fn search(
        self,
        query: &Query,
        scanned: Vec<ScannedLog>,
        options: &SearchOptions<'_>,
    ) -> Result<SearchResults, SearchError> {
        rank::search(Some(self), query, scanned, options)
    }
}

/// Searches logs that were scanned, without an index.
pub fn search_scanned(
    query: &Query,
    scanned: Vec<ScannedLog>,
    options: &SearchOptions<'_>,
) -> Result<SearchResults, SearchError> {
    rank::search(None, query, scanned, options)
}
