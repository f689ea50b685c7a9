//! Tables that are computed when a query names them.

use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::error::IndexError;

/// Adds the temporary tables that a query names. `mentioned` are all words of the query, in lower case.
///
/// A table is created with `CREATE TEMP TABLE`; queries may read every temporary table. Its columns are documented in
/// `SQL_VIEWS`.
pub(super) fn add_temporary_tables(db: &Connection, mentioned: &BTreeSet<String>) -> Result<(), IndexError> {
    for (name, fill) in TEMPORARY_TABLES {
        if mentioned.contains(*name) {
            fill(db)?;
        }
    }
    Ok(())
}

/// Creates and fills a table.
type FillTable = fn(&Connection) -> Result<(), IndexError>;

/// The temporary tables by their names.
const TEMPORARY_TABLES: &[(&str, FillTable)] = &[];
