//! Views as text: for a terminal, and as the JSON that scripts read.
//!
//! Nothing is decided here; a view is chosen elsewhere and printed. Text from a log is never trusted:
//! on a terminal every control character and every hidden one in it is spelled out.

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

pub use check::{CheckReport, write_check};
pub use clean::{write_clean, write_secrets};
pub use clone::write_clone;
pub use export::{
    BranchLink, CallSidecars, Document, DocumentAgent, DocumentHead, DocumentPart, Format, IndexRow,
    ShownSidecars, WriteImage, write as write_document, write_index,
};
pub use hidden::{can_begin_hidden, is_hidden};
pub use info::{write_info, write_info_table};
pub use ls::write_ls;
pub use preview::{Preview, PreviewHead, WireMessageRow, message_lines, preview_line, refusal_text};
pub use repair::{LineChange, write_repair};
pub use rows::{
    BytesByKind, CallPair, CleanedRow, CloneRow, ContinuedFrom, FindingRow, InventoryRow, MessageRow,
    NoteRow, PathRow, RepairRow, SecretRow, SessionKind, SessionRow, ShowRow, SubagentRow, TokenSources,
    TranscriptRow,
};
pub use show::{ShowOptions, ToolDetail, write_conversation};
pub use text::{DisplayOptions, Style, escape, format_ago, format_bytes, format_count, shell_word, truncate};
pub use tree::write_tree;
