//! Parses session logs into entries, without losing a byte.
//!
//! [`read()`] parses a log in memory; [`Scanner`] is fed pieces of whole lines and passes each [`Entry`]
//! and its [`Line`] to a [`Sink`]. An entry borrows its bytes. [`Line`] and [`Json`] offer typed access
//! to them, so entries of a newer client than we know pass through unchanged. [`ParsedChunk`] carries the
//! result of parsing between threads.
//!
//! Two promises hold for any input: the bytes of all entries, joined, are the file; and nothing here
//! fails or recurses. Invalid input is reported as a [`Defect`] next to the data.
//!
//! There is no I/O here (see `rethread-store`), and no relation between entries is known (see
//! `rethread-model`).
//!
//! Deserialising entries into structs was rejected: unknown fields, duplicate keys and the encoding of
//! numbers would be lost, and most of a log is long strings that nobody asks for.

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
