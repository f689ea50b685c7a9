//! Queries in SQL over the catalogue.
//!
//! A query is one statement that reads the documented views. It cannot write, reach other files or read internal tables: the
//! connection is opened for reading, `query_only` is set, and an authorizer allows the views and nothing else. The time of a
//! query and the size of its values are limited.
//!
//! Internal tables are read by the views, so the authorizer has to allow that. SQLite tells it which view reads a table, but
//! a `WITH` of the same name passes for the view, and the view is forgotten when SQLite merges it into the query. Instead, an
//! internal table can be read unless the query names it.

mod columns;
mod error;
mod guard;
mod names;
mod temporary;

use std::time::Duration;

use rethread_model::{SqlRowWriter, SqlValue};
use rusqlite::Connection;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;

pub use columns::{SQL_VIEWS, SqlColumn, SqlView};
pub use error::SqlError;
pub use temporary::ListReceipts;

use self::guard::Guard;
use crate::error::IndexError;
use crate::index::Index;

/// The maximum size of a query, and of a value, in bytes.
const MAX_QUERY: i32 = 1 << 20;
const MAX_VALUE: i32 = 64 << 20;

/// The memory that queries may take.
const MAX_MEMORY: u64 = 1 << 30;

impl Index {
    /// Runs a query over the views of the catalogue, and passes its rows to `writer`. `receipts` is called if the query names
    /// the usage.
    pub fn sql(
        &self,
        query: &str,
        max_time: Option<Duration>,
        receipts: &ListReceipts<'_>,
        writer: &mut dyn SqlRowWriter,
    ) -> Result<(), SqlError> {
        let catalogue = self.open_catalogue()?.ok_or(IndexError::Missing)?;
        let db = catalogue.into_connection();
        db.execute_batch(&format!("PRAGMA temp_store = MEMORY; PRAGMA hard_heap_limit = {MAX_MEMORY}"))
            .map_err(IndexError::from)?;
        let names = names::possible_table_names(query);
        temporary::add_temporary_tables(&db, &names, receipts)?;
        for (limit, value) in [
            (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_QUERY),
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
        ] {
            db.set_limit(limit, value).map_err(IndexError::from)?;
        }
        db.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;").map_err(IndexError::from)?;
        let guard = Guard::new(&db, names, max_time)?;
        run(&db, query, writer).map_err(|failure| match failure {
            RunFailure::Sql(error) => guard.explain(query, error),
            RunFailure::Query(error) => error,
        })
    }
}

/// An error while a query runs.
enum RunFailure {
    Sql(rusqlite::Error),
    Query(SqlError),
}

impl From<rusqlite::Error> for RunFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

fn run(db: &Connection, query: &str, writer: &mut dyn SqlRowWriter) -> Result<(), RunFailure> {
    let written = |result: std::io::Result<()>| result.map_err(|error| RunFailure::Query(error.into()));
    let mut statement = db.prepare(query)?;
    if statement.column_count() == 0 {
        return Err(RunFailure::Query(SqlError::NoResult));
    }
    if !statement.readonly() {
        return Err(RunFailure::Query(SqlError::NotAllowed("a statement that writes".to_owned())));
    }
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let mut rows = statement.raw_query();
    let mut is_first = true;
    while let Some(row) = rows.next()? {
        if std::mem::take(&mut is_first) {
            written(writer.columns(&names))?;
        }
        // A text need not be valid UTF-8: SQL can make one of any bytes.
        let mut texts = Vec::with_capacity(names.len());
        for at in 0..names.len() {
            texts.push(match row.get_ref(at)? {
                ValueRef::Text(text) => Some(String::from_utf8_lossy(text)),
                _ => None,
            });
        }
        let mut values = Vec::with_capacity(names.len());
        for (at, text) in texts.iter().enumerate() {
            values.push(match (row.get_ref(at)?, text) {
                (_, Some(text)) => SqlValue::Text(text),
                (ValueRef::Integer(number), _) => SqlValue::Integer(number),
                (ValueRef::Real(number), _) => SqlValue::Real(number),
                (ValueRef::Blob(bytes), _) => SqlValue::Blob(bytes),
                _ => SqlValue::Null,
            });
        }
        written(writer.row(&values))?;
    }
    if is_first {
        written(writer.columns(&names))?;
    }
    written(writer.end())
}
