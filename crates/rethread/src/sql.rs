//! Queries in SQL over the catalogue of a library.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rethread_index::{IndexError, IndexLevel, SqlError};
use rethread_model::{PriceList, Receipt, SqlRowWriter};

use crate::library::Library;
use crate::usage::UsageFilter;

/// The result of [`Library::sql`].
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct SqlOutcome {
    /// Set if another process was writing to the index, so that the newest entries may be missing.
    pub is_stale: bool,
    /// Logs that could not be read.
    pub unreadable: Vec<(PathBuf, io::Error)>,
}

impl Library {
    /// Runs a query in SQL over the views of the catalogue (`docs/sql.md`), which is brought up to date first. The query can
    /// only read. It is stopped after `max_time`, if there is one.
    ///
    /// ```
    /// use rethread::{Library, SqlError, SqlRowWriter, SqlValue};
    ///
    /// struct Printer;
    ///
    /// impl SqlRowWriter for Printer {
    ///     fn columns(&mut self, names: &[String]) -> std::io::Result<()> {
    ///         Ok(println!("{names:?}"))
    ///     }
    ///     fn row(&mut self, values: &[SqlValue<'_>]) -> std::io::Result<()> {
    ///         Ok(println!("{values:?}"))
    ///     }
    ///     fn end(&mut self) -> std::io::Result<()> {
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let home = tempfile::tempdir()?;
    /// let library = Library::builder().root(home.path()).cache_dir(home.path().join("cache")).open();
    /// library.sql("SELECT count(*) FROM sessions", None, &mut Printer)?;
    /// let refused = library.sql("DELETE FROM sessions", None, &mut Printer);
    /// assert!(matches!(refused, Err(SqlError::NotAllowed(_))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sql(
        &self,
        query: &str,
        max_time: Option<Duration>,
        writer: &mut dyn SqlRowWriter,
    ) -> Result<SqlOutcome, SqlError> {
        let index = self.index.as_ref().ok_or(IndexError::Missing)?;
        let mut outcome = SqlOutcome::default();
        match self.sync(index, &self.distinct_logs(), IndexLevel::Texts, true, false) {
            Ok(report) => outcome.unreadable = report.unreadable,
            Err(IndexError::Busy) => outcome.is_stale = true,
            Err(error) => return Err(error.into()),
        }
        let receipts = |take: &mut dyn FnMut(&[Receipt<'_>])| {
            let usage = self.usage(false);
            take(&usage.receipts(&PriceList::default(), &UsageFilter::default()));
        };
        index.sql(query, max_time, &receipts, writer)?;
        Ok(outcome)
    }
}
