//! Reads the catalogue.

use std::path::Path;

use rethread_model::{LogSummary, MessagePlace};
use rusqlite::{OptionalExtension, Row};
use rustc_hash::FxHashMap;

use super::{Catalogue, IndexLevel, LogId, LogRow, Result, path_from_blob, path_to_blob};
use crate::checksum::without_checksum;
use crate::error::IndexError;
use crate::fingerprint::Fingerprint;
use crate::search::is_file_meant;
use crate::text_files::TextFile;
use crate::texts::TextCommit;

const LOG_COLUMNS: &str =
    "id, path, session, is_subagent, level, position, entries_end, text_end, pending, deleted,
    end, modified, inode, checked, head, tail";

impl Catalogue {
    /// Begins to read one state of the catalogue, until the catalogue is dropped.
    pub(crate) fn begin_reading(&self) -> Result<()> {
        self.db.execute_batch("BEGIN")?;
        Ok(())
    }

    /// Returns all logs.
    pub(crate) fn logs(&self) -> Result<Vec<LogRow>> {
        let mut select = self.db.prepare_cached(&format!("SELECT {LOG_COLUMNS} FROM logs ORDER BY id"))?;
        let rows = select.query_map([], read_log)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the summary of a log.
    pub(crate) fn summary(&self, log: LogId) -> Result<Option<LogSummary>> {
        let mut select = self.db.prepare_cached("SELECT summary FROM summaries WHERE log = ?")?;
        let bytes: Option<Vec<u8>> = select.query_row([log.0], |row| row.get(0)).optional()?;
        bytes.map(|bytes| decode_summary(&bytes)).transpose()
    }

    /// Passes the path, the fingerprint and the stored summary of each log that has one to `take`.
    pub(crate) fn for_each_summary(&self, mut take: impl FnMut(&[u8], &Fingerprint, &[u8])) -> Result<()> {
        let mut select = self.db.prepare(&format!("{SELECT_SUMMARIES} ORDER BY id"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            pass_summary(row, &mut take)?;
        }
        Ok(())
    }

    /// Passes the same of one log to `take`.
    pub(crate) fn summary_at(
        &self,
        path: &Path,
        mut take: impl FnMut(&[u8], &Fingerprint, &[u8]),
    ) -> Result<()> {
        let mut select = self.db.prepare_cached(&format!("{SELECT_SUMMARIES} WHERE path = ?"))?;
        let mut rows = select.query([path_to_blob(path)])?;
        while let Some(row) = rows.next()? {
            pass_summary(row, &mut take)?;
        }
        Ok(())
    }

    /// Returns the state from which reading a log continues.
    pub(crate) fn state(&self, log: LogId) -> Result<Option<Vec<u8>>> {
        let mut select = self.db.prepare_cached("SELECT state FROM states WHERE log = ?")?;
        Ok(select.query_row([log.0], |row| row.get(0)).optional()?)
    }

    /// Returns the names by their numbers.
    pub(crate) fn all_names(&self) -> Result<FxHashMap<i64, String>> {
        let mut select = self.db.prepare_cached("SELECT id, name FROM names")?;
        let names = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(names.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the times of the last entries of sessions, by log.
    pub(crate) fn session_times(&self) -> Result<FxHashMap<i64, i64>> {
        self.times("modified")
    }

    /// Returns the times of the first entries of sessions, by log.
    pub(crate) fn creation_times(&self) -> Result<FxHashMap<i64, i64>> {
        self.times("created")
    }

    fn times(&self, column: &'static str) -> Result<FxHashMap<i64, i64>> {
        let mut select = self
            .db
            .prepare_cached(&format!("SELECT log, {column} FROM session_rows WHERE {column} IS NOT NULL"))?;
        let times = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(times.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns a text of each session that has one, with its log.
    pub(crate) fn session_fields(&self, column: &'static str) -> Result<Vec<(i64, String)>> {
        let mut select = self
            .db
            .prepare_cached(&format!("SELECT log, {column} FROM session_rows WHERE {column} IS NOT NULL"))?;
        let fields = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(fields.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the logs whose calls name a file.
    pub(crate) fn logs_with_file(&self, wanted: &str) -> Result<Vec<i64>> {
        let mut select = self.db.prepare_cached("SELECT DISTINCT log, path FROM file_rows")?;
        let mut rows = select.query([])?;
        let mut logs = Vec::new();
        while let Some(row) = rows.next()? {
            if is_file_meant(wanted, row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?) {
                logs.push(row.get(0)?);
            }
        }
        Ok(logs)
    }

    /// Returns the messages that are not on the active path of their session.
    pub(crate) fn messages_off_active_path(&self) -> Result<Vec<((LogId, u32), MessagePlace)>> {
        let mut select = self.db.prepare_cached("SELECT log, n, place FROM message_rows WHERE place <> 0")?;
        let rows =
            select.query_map([], |row| Ok(((LogId(row.get(0)?), row.get(1)?), place_of(row.get(2)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns the place and the line of a message.
    pub(crate) fn place_and_line(&self, log: LogId, n: u32) -> Result<Option<(MessagePlace, u32)>> {
        let mut select =
            self.db.prepare_cached("SELECT place, line FROM message_rows WHERE log = ? AND n = ?")?;
        let found = select.query_row([log.0, n.into()], |row| Ok((place_of(row.get(0)?), row.get(1)?)));
        Ok(found.optional()?)
    }

    /// Returns the number of messages whose texts are indexed.
    pub(crate) fn message_count(&self) -> Result<u64> {
        let count = self.db.query_row("SELECT count(*) FROM message_rows", [], |row| row.get::<_, i64>(0))?;
        Ok(count.cast_unsigned())
    }

    /// Returns the tool whose result is a message, if there is one such tool.
    pub(crate) fn tool_of_result(&self, log: LogId, message_n: u32) -> Result<Option<String>> {
        let mut select = self.db.prepare_cached(
            "SELECT DISTINCT names.name FROM call_rows JOIN names ON names.id = call_rows.tool
            WHERE call_rows.log = ? AND call_rows.result_message = ? LIMIT 2",
        )?;
        let tools = select.query_map([log.0, message_n.into()], |row| row.get(0))?;
        let tools = tools.collect::<rusqlite::Result<Vec<String>>>()?;
        Ok(<[String; 1]>::try_from(tools).ok().map(|[tool]| tool))
    }

    /// Returns the last commit of the text index that the catalogue knows.
    pub(crate) fn text_commit(&self) -> Result<TextCommit> {
        let read = |row: &Row<'_>| Ok(TextCommit { catalogue: row.get(0)?, number: row.get(1)? });
        Ok(self.db.query_row("SELECT catalogue, number FROM text_commit", [], read)?)
    }

    /// Returns the files of the text index as they were written.
    pub(crate) fn text_files(&self) -> Result<Vec<TextFile>> {
        let mut select = self.db.prepare_cached("SELECT name, bytes, modified FROM text_files")?;
        let files = select.query_map([], |row| {
            let bytes = row.get::<_, i64>(1)?.cast_unsigned();
            Ok(TextFile { name: row.get(0)?, bytes, modified: row.get(2)? })
        })?;
        Ok(files.collect::<rusqlite::Result<_>>()?)
    }

    /// Returns a setting of the user.
    pub(crate) fn setting(&self, name: &str) -> Result<Option<String>> {
        let mut select = self.db.prepare_cached("SELECT value FROM settings WHERE name = ?")?;
        Ok(select.query_row([name], |row| row.get(0)).optional()?)
    }
}

/// Returns the place with a stored number.
fn place_of(number: i64) -> MessagePlace {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    MessagePlace::ALL.get(index).copied().unwrap_or(MessagePlace::Abandoned)
}

/// Reads a stored summary.
pub(crate) fn decode_summary(stored: &[u8]) -> Result<LogSummary> {
    let plain = without_checksum(stored).ok_or(IndexError::Damaged("a summary cannot be read"))?;
    postcard::from_bytes(plain).map_err(|_| IndexError::Damaged("a summary cannot be read"))
}

/// The columns that [`pass_summary`] reads.
const SELECT_SUMMARIES: &str = "SELECT path, end, modified, inode, checked, head, tail, summary
    FROM logs JOIN summaries ON summaries.log = logs.id";

fn pass_summary(row: &Row<'_>, take: &mut impl FnMut(&[u8], &Fingerprint, &[u8])) -> Result<()> {
    let blob = |at: usize| row.get_ref(at)?.as_blob().map_err(rusqlite::Error::from);
    take(blob(0)?, &read_print(row, 1)?, blob(7)?);
    Ok(())
}

fn read_log(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
    Ok(LogRow {
        id: LogId(row.get(0)?),
        path: path_from_blob(row.get(1)?),
        session: row.get(2)?,
        is_subagent: row.get(3)?,
        level: IndexLevel::from_number(row.get(4)?),
        position: number(5)?,
        entries_end: number(6)?,
        text_end: number(7)?,
        pending: row.get(8)?,
        deleted: row.get(9)?,
        print: read_print(row, 10)?,
    })
}

/// Reads a fingerprint, whose columns begin at `first`.
fn read_print(row: &Row<'_>, first: usize) -> rusqlite::Result<Fingerprint> {
    Ok(Fingerprint {
        end: row.get::<_, i64>(first)?.cast_unsigned(),
        modified: row.get(first + 1)?,
        inode: row.get(first + 2)?,
        checked: row.get(first + 3)?,
        head: row.get(first + 4)?,
        tail: row.get(first + 5)?,
    })
}
