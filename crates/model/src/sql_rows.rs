//! Rows of a table with any columns.

use std::io;

/// A value in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SqlValue<'v> {
    /// No value.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Real(f64),
    /// A text. It is untrusted, as everything that comes from a log.
    Text(&'v str),
    /// Bytes that are not a text.
    Blob(&'v [u8]),
}

/// Receives the rows of a table, one after the other.
pub trait SqlRowWriter {
    /// Called once, before the rows.
    fn columns(&mut self, names: &[String]) -> io::Result<()>;

    /// Called for each row, with a value for each column.
    fn row(&mut self, values: &[SqlValue<'_>]) -> io::Result<()>;

    /// Called after the last row.
    fn end(&mut self) -> io::Result<()>;
}
