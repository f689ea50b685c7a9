//! Session logs as entries, read without losing any of them.
//!
//! An [`Entry`] borrows its bytes and offers typed access on top ([`Line`], [`Json`]), so a line from
//! a newer writer than we know passes through unchanged. There is no I/O here: [`Scanner`] is fed
//! pieces of whole lines, [`read()`] takes a log that is in memory.
//!
//! Two promises hold for any bytes at all: the entries' bytes joined give the file back, and nothing
//! here fails or recurses. What could not be understood is a [`Defect`] beside the data.

mod scan;

mod json;
mod line;
mod names;
mod parsed_chunk;
mod read;

pub use json::{Json, unescape};
pub use line::{BlockSpans, Line, MessageSpans, Span};
pub use names::{BlockKind, EntryKind, Key};
pub use parsed_chunk::ParsedChunk;
#[doc(hidden)]
pub use read::value_end;
pub use read::{Defect, DefectKind, Entry, EntryContent, ParsedLog, Scanner, Sink, parse_entry, read};
