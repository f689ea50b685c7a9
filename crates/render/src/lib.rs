//! Turns typed views into text: for a terminal, as JSON rows (`--json`), and as documents (Markdown, HTML,
//! JSON).
//!
//! This crate chooses nothing: the caller selects the session, the path and the options, and passes a writer.
//! The modules named after commands write terminal text; `rows` contains the JSON shapes, which are
//! documented and versioned separately from the model; `export` writes transcripts as documents and their
//! index.
//!
//! Promises:
//! - Text from a log is untrusted. On a terminal every control character and hidden character in it is
//!   escaped; in a document it never becomes active markup.
//! - The same view and options give the same bytes. Time and time zone come from [`DisplayOptions`].
//! - Long blocks are written piece by piece and are not copied as a whole where that can be avoided.
//!
//! Left to others: reading logs (`model`), finding and selecting sessions (`rethread`), flags, terminal
//! detection and paging (`cli`).
//!
//! Rejected: printing the model types as JSON, because every change of the model would change the output;
//! relying on how one renderer parses Markdown, because renderers disagree on where code, HTML and links begin.

mod hidden;
mod rows;
mod text;

mod check;
mod clean;
mod clone;
mod export;
mod info;
mod ls;
mod preview;
mod repair;
mod show;
mod tree;

pub use check::write_check;
pub use clean::{write_clean, write_secrets};
pub use clone::write_clone;
pub use export::{
    Document, DocumentLinks, Format, IndexRow, WriteImage, write as write_document, write_index,
};
pub use hidden::{can_begin_hidden, is_hidden};
pub use info::{write_info, write_info_table};
pub use ls::write_ls;
pub use preview::{PreviewDocument, PreviewHead, WireMessageRow, message_lines, preview_line, refusal_text};
pub use repair::write_repair;
pub use rows::{
    BytesByKind, CallPair, CleanedRow, CloneRow, ContinuedFromRow, FindingHint, FindingRow, InventoryRow,
    MessageRow, NoteRow, PathRow, RemovedCounts, RepairRow, SecretRow, SessionRow, SubagentRow, TokenSources,
    TotalRow, TranscriptRow,
};
pub use show::{ShowOptions, ToolDetail, write_conversation};
pub use text::{DisplayOptions, Style, escape, format_ago, format_bytes, format_count, shell_word, truncate};
pub use tree::write_tree;
