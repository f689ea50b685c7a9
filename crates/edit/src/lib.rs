//! Edits of a session: bytes and what is wanted in, a plan of changed lines out. Pure.
//!
//! An edit never touches what it does not name: lines that it leaves alone come out byte for byte, and
//! of a line that it changes only the values that it changes. Nothing here reads or writes a file: of a log
//! that is not in memory, the caller reads what is needed.

mod clean;
mod clone;
mod ids;
mod plan;
mod redact;
mod repair;
mod shorten;
mod source;
mod splice;
mod stream;

pub use clean::{CleanReport, Cleaner, Level, ReparentMap, Rule, RuleSet, entry_part_at};
pub use clone::*;
pub use ids::IdMap;
pub use redact::{
    FoundSecret, NotTextError, PatternError, RedactOptions, RedactPattern, Redaction, RedactionCounts,
};
pub use repair::{Change, Repair, repair, repair_from};
pub use source::{ReadAt, SourceIndexer, SourceSession};
pub use stream::{IdRenamer, RenamedLog};
