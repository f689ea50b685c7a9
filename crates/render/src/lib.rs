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

pub use check::{Checked, check};
pub use clean::{clean, secrets};
pub use clone::clone;
pub use export::{
    Agent, Branch, Document, Format, Head, IndexRow, Part, Shown, Side, WritePicture, index,
    write as write_document,
};
pub use hidden::{can_begin, hides};
pub use info::{info, info_many};
pub use ls::ls;
pub use preview::{Preview, PreviewHead, SentRow, preview_line, refusal, sent_lines};
pub use repair::{Line, repair};
pub use rows::{
    BytesBy, CleanedRow, CloneRow, Continues, FindingRow, InventoryRow, MessageRow, NoteRow, Pair, PathRow,
    RepairRow, Row, SecretRow, SessionKind, SessionRow, SubagentRow, TokensBy, TranscriptRow,
};
pub use show::{ShowOptions, Tools, show};
pub use text::{Look, Style, ago, bytes, count, escape, fit, shell_word};
pub use tree::tree;
