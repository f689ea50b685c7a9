//! A cache of what session logs contain.

mod catalogue;
mod error;
mod extract;
mod fingerprint;
mod index;
mod matcher;
mod names;
mod query;
mod search;
mod state;
mod summary;
mod sync;
mod texts;
mod tokens;

pub use catalogue::Level;
pub use error::IndexError;
pub use index::Index;
pub use query::{
    FieldValue, Filters, MessagePlaces, Query, QueryError, QueryErrorKind, QuerySyntax, TextSources,
};
pub use search::{
    Hit, IsProject, LogScanner, MatchQuality, ScannedLog, SearchError, SearchOptions, SearchResults,
    SessionHits, Snippet, search_scanned,
};
pub use summary::LogSummary;
pub use sync::{Describe, SyncOptions, SyncReport};
