//! Reads, checks, repairs, clones, cleans and exports Claude Code sessions.
//!
//! A [`Library`] gives access to the sessions below one or more config directories such as `~/.claude`.
//! [`Library::find`] resolves a name to [`LogSource`]s; [`Library::load`] reads one into a [`LoadedSession`],
//! which has the tree of entries, the paths through it and their messages.
//!
//! ```
//! use rethread::{Client, Library};
//!
//! // Or `Library::open(vec![home.join(".claude")])`.
//! let library = Library::demo();
//! for session in library.ls(&Default::default(), &|_| {}).sessions {
//!     println!("{} {}", session.id, session.title);
//!     let loaded = library.load(&library.find(&session.id)?[0])?;
//!     for path in loaded.tree(Client::NEWEST) {
//!         println!("  path {} ends at {}", path.n, path.tip);
//!     }
//! }
//! # Ok::<(), rethread::Error>(())
//! ```
//!
//! Each command of the `rethread` program is a function here with the same name (`clone` is
//! [`Library::clone_session`]) and returns the values that `--json` prints.
//!
//! Promises:
//! - Malformed entries are data: they are reported as defects, and reading continues. Unknown entry types and
//!   fields are passed through.
//! - The active path follows the rules of a given [`Client`] version.
//! - A source log is never written to, except by an in-place clean or repair. These keep a backup and refuse
//!   a log that a process has open. A file is written completely or not at all.
//! - Symbolic links inside a session's directory are not followed.
//!
//! Left to others: entries and bytes (`log`), the tree and client rules (`model`), editing (`edit`), files
//! and locks (`store`), text and JSON output (`render`), flags and messages (the `rethread` program).

mod check;
mod clean;
mod clone;
mod demo;
mod export;
mod library;
mod ls;
mod preview;
mod repair;
mod session;
mod titles;
mod transcript;

pub use check::{CheckOptions, ClientChoice};
pub use clean::{CleanDestination, CleanError, CleanOptions, SecretScan};
pub use clone::{CloneError, CloneOptions, Summariser};
pub use export::{
    ExportError, ExportOptions, ExportStatus, Exported, ExportedDocument, ExportedFile, ExportedSubagent,
    ExportedTranscript, PathChoice,
};
pub use library::{Error, Library, LogSource, Selector};
pub use ls::{Listing, LsOptions, SortOrder};
pub use preview::LazyPreview;
pub use repair::{RepairDestination, RepairError, Repaired};
pub use session::{EarlierSession, LoadedSession, RemovedLog, Subagent, info_total};
pub use transcript::{
    LoadedTranscript, TranscriptError, TranscriptOptions, TranscriptPath, TurnBound, TurnRange,
};

pub use rethread_edit as edit;
pub use rethread_log as log;
pub use rethread_model as model;
pub use rethread_model::{Client, Inventory, Reader, Session, Time, TranscriptItem, Usage};
pub use rethread_render as render;
pub use rethread_render::{
    CheckReport, CleanedRow, CloneRow, FindingRow, Format, InventoryRow, MessageRow, NoteRow, PathRow,
    Preview, RepairRow, SecretRow, SessionKind, SessionRow, SubagentRow, TranscriptRow,
};
pub use rethread_store as store;
