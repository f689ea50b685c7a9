//! A cache of what session logs contain.

mod catalogue;
mod checksum;
mod error;
mod extract;
mod fail_point;
mod fingerprint;
mod index;
mod known_summaries;
#[cfg(test)]
mod laws;
mod matcher;
mod names;
mod query;
mod search;
mod snapshot;
mod sql;
mod state;
mod sync;
mod text_files;
mod texts;
mod tokens;
mod usage_cache;

pub use catalogue::IndexLevel;
pub use error::IndexError;
pub use index::{Index, IndexStatus};
pub use query::{
    FieldValue, Filters, MessagePlaces, Query, QueryError, QueryErrorKind, QuerySyntax, TextSources,
};
pub use search::{IsProject, LogScanner, ScannedLog, SearchError, SearchOptions, search_scanned};
pub use snapshot::IndexSnapshot;
pub use sql::{ListReceipts, SQL_VIEWS, SqlColumn, SqlError, SqlView};
pub use sync::{Describe, SyncOptions, SyncReport};
pub use usage_cache::{LoadedUsage, LogLedger, read_usage};
