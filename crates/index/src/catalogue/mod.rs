//! The catalogue: what is known of each log, in SQLite.

mod read;
mod rows;
mod schema;
mod write;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::IndexError;
use crate::fingerprint::Fingerprint;
pub(crate) use read::decode_summary;
pub(crate) use rows::{
    CallRow, FileRow, LogRows, ReadPosition, StoredCallResult, StoredFinding, StoredMessage,
};
use rusqlite::{Connection, OpenFlags};

type Result<T> = std::result::Result<T, IndexError>;

/// The number of a log in the index. It is never used again, not even for the same file after it was rewritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LogId(pub(crate) i64);

/// The amount that the catalogue knows of a log. Each level includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum IndexLevel {
    /// Its summary, and the state from which reading continues.
    Summary,
    /// Its messages, calls and files as rows, and its texts. A log that has grown loses this level until these are read,
    /// too.
    Texts,
}

impl IndexLevel {
    fn from_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Summary),
            2 => Some(Self::Texts),
            _ => None,
        }
    }

    fn number(level: Option<Self>) -> i64 {
        match level {
            None => 0,
            Some(Self::Summary) => 1,
            Some(Self::Texts) => 2,
        }
    }
}

/// The row of a log.
#[derive(Debug, Clone)]
pub(crate) struct LogRow {
    pub(crate) id: LogId,
    pub(crate) path: PathBuf,
    pub(crate) session: String,
    pub(crate) is_subagent: bool,
    /// `None` if nothing is known yet.
    pub(crate) level: Option<IndexLevel>,
    /// The end of the last whole line that was read, at which the state was stored.
    pub(crate) position: u64,
    /// The offset after the last entry that was read.
    pub(crate) entries_end: u64,
    /// Texts that begin before this offset are in the text index.
    pub(crate) text_end: u64,
    /// Set while the texts of the log are being written.
    pub(crate) pending: bool,
    /// The time at which the file was found to be missing, in milliseconds since 1970.
    pub(crate) deleted: Option<i64>,
    pub(crate) print: Fingerprint,
}

/// The catalogue.
#[derive(Debug)]
pub(crate) struct Catalogue {
    pub(crate) db: Connection,
}

/// The name of the file of the catalogue.
const FILE: &str = "catalogue.db";

/// The time to wait for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

impl Catalogue {
    /// Returns whether a directory has a file of this name.
    pub(crate) fn exists_in(dir: &Path) -> bool {
        dir.join(FILE).is_file()
    }

    /// Opens the catalogue in a directory for reading; `None` if there is none of this version.
    pub(crate) fn open(dir: &Path) -> Result<Option<Self>> {
        if !Self::exists_in(dir) {
            return Ok(None);
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = match Connection::open_with_flags(dir.join(FILE), flags) {
            // Another process has cleared the index just now.
            Err(_) if !Self::exists_in(dir) => return Ok(None),
            opened => opened?,
        };
        db.busy_timeout(BUSY_TIMEOUT)?;
        let catalogue = Self { db };
        Ok(catalogue.is_current()?.then_some(catalogue))
    }

    /// Opens the catalogue in a directory for writing, and creates it if there is none. The directory must be locked.
    pub(crate) fn open_to_write(dir: &Path) -> Result<Option<Self>> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(dir.join(FILE), flags)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        let is_new = db.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?;
        if is_new {
            db.execute_batch("PRAGMA page_size = 8192; PRAGMA journal_mode = WAL;")?;
            db.execute_batch(&schema::create())?;
        }
        // Without a sync after each transaction, a loss of power loses the last ones, which are then repeated.
        db.execute_batch(
            "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -16000;",
        )?;
        db.set_prepared_statement_cache_capacity(64);
        let catalogue = Self { db };
        Ok(catalogue.is_current()?.then_some(catalogue))
    }

    /// Returns the connection, for queries of the user.
    pub(crate) fn into_connection(self) -> Connection {
        self.db
    }

    /// Returns whether the file is a catalogue of this version.
    fn is_current(&self) -> Result<bool> {
        let pragma = |name: &str| self.db.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        Ok(pragma("application_id")? == schema::APPLICATION_ID && pragma("user_version")? == schema::FORMAT)
    }
}

pub(crate) fn path_to_blob(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

pub(crate) fn path_from_blob(bytes: Vec<u8>) -> PathBuf {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStringExt;
        std::ffi::OsString::from_vec(bytes).into()
    }
    #[cfg(not(unix))]
    {
        String::from_utf8_lossy(&bytes).into_owned().into()
    }
}
