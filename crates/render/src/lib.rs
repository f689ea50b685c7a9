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

mod call_summary;
mod hidden;
mod project_names;
mod prose;
mod rows;
mod text;

mod check;
mod clean;
mod clone;
mod cut_text;
mod export;
mod fields;
mod info;
mod ls;
mod outline;
mod preview;
mod repair;
mod search;
mod show;
mod sql;
mod tree;
mod usage;

pub use call_summary::{CallOutcome, CallSummary};
pub use check::{verdict, write_check};
pub use clean::{write_clean, write_secrets};
pub use clone::write_clone;
pub use export::{
    Document, DocumentLinks, Format, IndexFormat, IndexRow, WriteImage, write as write_document, write_index,
};
pub use fields::{wrap_message, write_wrapped};
pub use hidden::{can_begin_hidden, is_hidden};
pub use info::{InfoHints, write_info_table, write_overview, write_statistics, write_total};
pub use ls::{ListColumn, ListOptions, origin_label, shown_id, write_ls};
pub use outline::write_outline;
pub use preview::{PreviewDocument, PreviewHead, WireMessageRow, message_lines, preview_line, refusal_text};
pub use prose::StyledLine;
pub use repair::{write_repair, write_repair_summary};
pub use rows::{
    BytesByKind, CallPair, CleanedRow, CloneRow, ContinuedFromRow, FindingHint, FindingRow, HitRow,
    IndexStatusRow, InventoryRow, MessageRow, NoteRow, OutlineItemRow, OutlinePathRow, OutlineRow, PathRow,
    RemovedCounts, RepairRow, ResumeRow, SearchRow, SecretRow, SessionRow, ShownRow, SqlJsonRow, SubagentRow,
    TokenSources, TotalRow, TranscriptRow, distinct_names,
};
pub use search::{snippet_chars, source_label, write_search};
pub use show::{NextStep, ShowOptions, TextLimit, ToolDetail, conversation_lines, write_conversation};
pub use sql::{SqlCsv, SqlTable};
pub use text::{
    DisplayOptions, Style, escape, format_ago, format_bytes, format_count, plural, shell_word, text_width,
    truncate,
};
pub use tree::write_tree;
pub use usage::{
    ReceiptLineRow, UsageCostRow, UsageGroupRow, UsageLabel, UsageReceiptRow, UsageTotalRow, format_block,
    format_cost, split_groups, usage_key_text, usage_notes, write_usage_report,
};
