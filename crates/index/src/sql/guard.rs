//! Limits what a query can do.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rustc_hash::FxHashSet;

use super::error::SqlError;
use crate::error::IndexError;

/// The number of steps of SQLite's machine between two looks at the clock: less than a millisecond.
const STEPS: i32 = 20_000;

/// Functions that read files or change the connection.
const FORBIDDEN_FUNCTIONS: [&str; 5] =
    ["load_extension", "readfile", "writefile", "fts3_tokenizer", "sqlite_compileoption_get"];

/// Table-valued functions that read only their arguments.
const TABLE_FUNCTIONS: [&str; 2] = ["json_each", "json_tree"];

/// Keeps a query from doing anything but reading the views, and records what it tried.
pub(super) struct Guard {
    readable: Arc<ReadableTables>,
    denied: Arc<Mutex<Option<String>>>,
    is_late: Arc<AtomicBool>,
    max_time: Option<Duration>,
}

/// The tables that a query may read.
struct ReadableTables {
    /// The views, and temporary tables.
    tables: FxHashSet<String>,
    /// Tables that only the views may read.
    internal: FxHashSet<String>,
    /// The names in the query, in lower case.
    named: BTreeSet<String>,
    /// The columns of the readable tables that the query names, or of all.
    columns: Vec<String>,
}

impl Guard {
    /// Allows only queries that read the views and the temporary tables of a connection, for a limited time. `named` are
    /// the names in the query.
    pub(super) fn new(
        db: &Connection,
        named: BTreeSet<String>,
        max_time: Option<Duration>,
    ) -> Result<Self, IndexError> {
        let readable = Arc::new(ReadableTables::new(db, named)?);
        let guard = Self { readable, denied: Arc::default(), is_late: Arc::default(), max_time };
        guard.limit_time(db)?;
        guard.limit_actions(db)?;
        Ok(guard)
    }

    fn limit_time(&self, db: &Connection) -> Result<(), IndexError> {
        let Some(max_time) = self.max_time else { return Ok(()) };
        let is_late = Arc::clone(&self.is_late);
        let started = Instant::now();
        let check = move || {
            let late = started.elapsed() > max_time;
            is_late.fetch_or(late, Ordering::Relaxed);
            late
        };
        Ok(db.progress_handler(STEPS, Some(check))?)
    }

    fn limit_actions(&self, db: &Connection) -> Result<(), IndexError> {
        let (readable, denied) = (Arc::clone(&self.readable), Arc::clone(&self.denied));
        let authorize = move |context: AuthContext<'_>| match forbidden(&context, &readable) {
            None => Authorization::Allow,
            Some(what) => {
                denied.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
                Authorization::Deny
            }
        };
        Ok(db.authorizer(Some(authorize))?)
    }

    /// Returns what an error of SQLite means.
    pub(super) fn explain(&self, query: &str, error: rusqlite::Error) -> SqlError {
        if self.is_late.load(Ordering::Relaxed) {
            return SqlError::TooLong(self.max_time.unwrap_or_default());
        }
        if let Some(what) = self.denied.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return SqlError::NotAllowed(what);
        }
        SqlError::of(query, error, &self.readable.tables, &self.readable.columns)
    }
}

impl ReadableTables {
    fn new(db: &Connection, named: BTreeSet<String>) -> rusqlite::Result<Self> {
        let names = |sql: &str| -> rusqlite::Result<Vec<String>> {
            db.prepare(sql)?.query_map([], |row| row.get(0))?.collect()
        };
        let tables = names(
            "SELECT name FROM sqlite_schema WHERE type = 'view'
            UNION SELECT name FROM sqlite_temp_schema WHERE type IN ('table', 'view')",
        )?;
        let internal = names("SELECT name FROM sqlite_schema WHERE type = 'table'")?;
        let is_any_named = tables.iter().any(|table| named.contains(table));
        let mut columns = Vec::new();
        for table in tables.iter().filter(|table| !is_any_named || named.contains(*table)) {
            let mut select = db.prepare("SELECT name FROM pragma_table_info(?)")?;
            let found = select.query_map([table], |row| row.get(0))?;
            columns.extend(found.collect::<rusqlite::Result<Vec<String>>>()?);
        }
        Ok(Self {
            tables: tables.into_iter().collect(),
            internal: internal.into_iter().collect(),
            named,
            columns,
        })
    }
}

/// Describes what is not allowed in an action.
fn forbidden(context: &AuthContext<'_>, readable: &ReadableTables) -> Option<String> {
    match context.action {
        AuthAction::Select | AuthAction::Recursive => None,
        AuthAction::Read { table_name, column_name } => {
            let can_read = match table_name {
                name if readable.tables.contains(name) || TABLE_FUNCTIONS.contains(&name) => true,
                // What the query does not name is read by a view.
                name if readable.internal.contains(name) => !readable.named.contains(&name.to_lowercase()),
                // A table of the query itself (`WITH`) of which no column is read; or a module of SQLite, whose number of
                // rows tells nothing.
                name => column_name.is_empty() && !name.starts_with("sqlite_"),
            };
            (!can_read).then(|| format!("the table `{table_name}`"))
        }
        AuthAction::Function { function_name } => {
            let is_forbidden =
                FORBIDDEN_FUNCTIONS.iter().any(|name| name.eq_ignore_ascii_case(function_name));
            is_forbidden.then(|| format!("the function `{function_name}`"))
        }
        AuthAction::Pragma { pragma_name, .. } => Some(format!("`PRAGMA {pragma_name}`")),
        AuthAction::Attach { .. } | AuthAction::Detach { .. } => Some("another database".to_owned()),
        AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => Some("a transaction".to_owned()),
        _ => Some("a statement that writes".to_owned()),
    }
}
