//! One correct model of a session, without I/O.
//!
//! [`Builder`] takes the entries of a log and makes [`Facts`] of them; [`Session`] joins the facts
//! into a tree of steps and finds its paths; [`Reader`] brings the bytes back for what is shown.
//! [`resume()`] tells which path a given client would go on with.
//!
//! Every entry has one place, in the tree or among the loose ones; a path runs from a root to an
//! ending; the same bytes give the same model. What is wrong with a log is told as defects; nothing
//! here fails.

mod id;
mod prompt;
mod usage;

mod attachment;
mod build;
mod byte_counts;
mod facts;
mod flags;
mod name_counts;
mod steps;
mod tree;

mod client;
mod resume;
mod session;
mod subagents;

mod check;
mod content_keys;
mod copies;
mod inventory;
mod reminders;
mod step_stream;
mod title;
mod view;
mod wire;

pub use build::FactsBuilder;
pub use byte_counts::ByteCounts;
pub use check::{
    Finding, FindingKind, LinearConversation, MAX_IMAGE_BYTES, Severity, check, harmful_findings,
    newest_client_chain, session_intended_path,
};
pub use client::Client;
pub use content_keys::{RestampedCopy, StepContentKey};
pub use copies::{PathEnd, PathId, SessionContinuation, SessionFingerprint, containing_paths};
pub use facts::{Block, BlockClass, Checkpoint, EntryLocation, Facts, Message, Node, Role, ToolCall};
pub use flags::EntryFlags;
pub use id::{Time, Uid};
pub use inventory::{Inventory, InventoryDefect, LinkCounts, MessageCounts, ToolCallCounts, UnknownNames};
pub use name_counts::NameCounts;
pub use prompt::readable_text;
pub use resume::{
    BrokenLink, IntendedPath, LinkDefect, PartOrigin, Refusal, Resume, SentMessage, SentPart, intended_path,
    intended_path_to, resume,
};
pub use session::{BranchPoint, Path, Session};
pub use step_stream::{EntryChunk, ItemHeader, RandomAccessLog, StepItems, StepNodes, StepStream};
pub use steps::{Step, StepKind};
pub use subagents::InlineSubagent;
pub use title::{Title, TitleSource, collapse_whitespace, heading, title};
pub use tree::{IndexGroups, Link, Tree};
pub use usage::Usage;
pub use view::{
    BlockView, EntrySource, MessageKind, MessageView, NoteView, Reader, ResultPart, TranscriptItem,
    beginning, describe_media, main_argument,
};
pub use wire::{WireBlock, WireMessage};
