//! Edits of a session: repair, clone, clean and redact. Pure: bytes and options in, changed bytes out.
//!
//! - [`repair()`] fixes a log by the smallest change, so that every client resumes the intended path.
//! - [`SourceSession`] and a [`Recipe`] describe a clone: the chosen path, edited, in a new session.
//!   [`IdRenamer`] makes a clone without edits in one pass, in memory that does not grow with the texts.
//! - [`Cleaner`] removes what a set of [`Rule`]s names from a log.
//! - [`Redaction`] replaces secrets.
//!
//! Repairs and clones share a plan: the action for each entry (keep, remove, change, reparent), the added
//! entries, and the order of the path. The plan is complete before a line is written.
//!
//! Promises:
//! - Lines that an edit does not name are written byte for byte. Of a changed line, only the changed values
//!   differ. Unknown types and fields pass through.
//! - The same input gives the same output, generated ids included.
//! - A repair reads its result again and reports the findings that remain.
//!
//! Left to others: nothing here reads or writes a file. `store` does all disk access; for a log that is not
//! in memory, the caller supplies a [`ReadAt`] function. The front ends word findings and warnings.
//!
//! Rejected alternatives:
//! - Parsing an entry and serialising it again. This loses key order, number formats and escapes, so lines are
//!   spliced instead.
//! - A table from old ids to new ones. A new id is a hash of the old id and the new session's id, so the log
//!   of a subagent gets the same ids without sharing a table.

mod base64;
mod clean;
mod clone;
mod fast_path;
mod ids;
mod outcome;
mod plan;
mod redact;
mod repair;
mod shorten;
mod source;
mod splice;

pub use clean::{CleanReport, Cleaner, Level, ReparentMap, Rule, RuleSet, secret_place_at};
pub use clone::*;
pub use fast_path::{IdRenamer, RenamedLog};
pub use ids::IdMap;
pub use outcome::{CleanWarning, Cleaned, LineCounts, Repaired, RepairedLog, Secret, SecretPlace};
pub use redact::{
    FoundSecret, NotTextError, PatternError, RedactOptions, RedactPattern, Redaction, RedactionCounts,
};
pub use repair::{Change, Repair, repair, repair_from};
pub use source::{ReadAt, SourceIndexer, SourceSession};

/// A function that receives the bytes of an edited log, and may keep their buffer.
pub(crate) type WritePiece<'w> = &'w mut (dyn FnMut(&mut Vec<u8>) -> std::io::Result<()> + Send);
