//! Errors of queries.

use std::cmp::Reverse;
use std::io;
use std::ops::Range;
use std::time::Duration;

use rusqlite::ErrorCode;
use rustc_hash::FxHashSet;

use crate::error::IndexError;
use crate::query::distance;

/// An error of a query in SQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The index cannot be used.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The query is not understood.
    #[error("{message}")]
    Syntax {
        /// The reason, by SQLite.
        message: String,
        /// The part of the query.
        span: Option<Range<usize>>,
    },
    /// There is no table or column of this name.
    #[error("there is no {kind} `{name}`")]
    UnknownName {
        /// `table` or `column`.
        kind: &'static str,
        /// The name.
        name: String,
        /// The name of that kind that differs least, if one is similar.
        nearest: Option<String>,
        /// The part of the query.
        span: Option<Range<usize>>,
    },
    /// The query is not one that reads the views.
    #[error("queries cannot use {0}")]
    NotAllowed(String),
    /// The text contains several statements.
    #[error("a query is a single statement")]
    SeveralStatements,
    /// The text contains no statement that returns rows.
    #[error("the query returns no rows")]
    NoResult,
    /// The query took too long.
    #[error("the query was stopped after {} s", .0.as_secs_f64())]
    TooLong(Duration),
    /// The query failed while it ran.
    #[error("the query failed: {0}")]
    Failed(String),
    /// The rows could not be written.
    #[error("cannot write the rows")]
    Write(#[from] io::Error),
}

impl SqlError {
    /// Returns what an error of SQLite means. Its messages are stable, and the only place of the names.
    pub(super) fn of(
        query: &str,
        error: rusqlite::Error,
        tables: &FxHashSet<String>,
        columns: &[String],
    ) -> Self {
        let (message, offset) = match error {
            rusqlite::Error::MultipleStatement => return Self::SeveralStatements,
            rusqlite::Error::SqlInputError { msg, offset, .. } => (msg, usize::try_from(offset).ok()),
            // Found before the authorizer is asked.
            rusqlite::Error::SqliteFailure(_, Some(message)) if message.starts_with("cannot modify ") => {
                return Self::NotAllowed("a statement that writes".to_owned());
            }
            // The place of an unknown table is not known.
            rusqlite::Error::SqliteFailure(_, Some(message)) if message.starts_with("no such ") => {
                (message, None)
            }
            rusqlite::Error::SqliteFailure(failure, message) => {
                return match IndexError::from(rusqlite::Error::SqliteFailure(failure, message.clone())) {
                    error if failure.code != ErrorCode::Unknown && error.is_damage() => error.into(),
                    _ => Self::Failed(message.unwrap_or_else(|| failure.to_string())),
                };
            }
            other => return Self::Failed(other.to_string()),
        };
        let unknown = [("table", "no such table: "), ("column", "no such column: ")];
        for (kind, start) in unknown {
            if let Some(name) = message.strip_prefix(start) {
                let last = name.rsplit('.').next().unwrap_or(name);
                let known: Vec<&str> = match kind {
                    "table" => tables.iter().map(String::as_str).collect(),
                    _ => columns.iter().map(String::as_str).collect(),
                };
                let nearest = nearest(last, known).map(str::to_owned);
                let at = offset.or_else(|| query.to_lowercase().find(&last.to_lowercase()));
                return Self::UnknownName { kind, span: span_at(query, at), name: name.to_owned(), nearest };
            }
        }
        Self::Syntax { message, span: span_at(query, offset) }
    }
}

/// Returns the name that differs least from another, if it is similar.
fn nearest<'n>(name: &str, known: Vec<&'n str>) -> Option<&'n str> {
    let name = name.to_lowercase();
    let limit = 1 + name.chars().count() / 4;
    // Of names that differ as much, the one that begins in the same way.
    let begins_alike = |known: &str| name.chars().zip(known.chars()).take_while(|(a, b)| a == b).count();
    let ranked =
        known.into_iter().map(|known| ((distance(&name, known), Reverse(begins_alike(known))), known));
    let ((differs, _), best) = ranked.min()?;
    (differs <= limit).then_some(best)
}

/// Returns the word or character of a query at an offset.
fn span_at(query: &str, offset: Option<usize>) -> Option<Range<usize>> {
    let start = offset.filter(|&at| at <= query.len() && query.is_char_boundary(at))?;
    let rest = &query[start..];
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let len = if len == 0 { rest.chars().next().map_or(0, char::len_utf8) } else { len };
    Some(start..start + len)
}
