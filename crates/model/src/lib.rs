//! The typed model of a session: entries, messages, tool calls, steps and paths.
//!
//! [`FactsBuilder`] collects [`Facts`] from the entries of a log; [`Session`] joins them into a tree of
//! steps and finds its paths; [`Reader`] reads the text of messages back from the log. [`resume()`]
//! determines the path that a given client would resume, and [`check()`] lists what a user should know
//! before that.
//!
//! Promises: every entry is in the tree or among the metadata, exactly once; a path leads from a root to
//! one end of the conversation; the same bytes give the same model. Nothing here fails: faults in a log
//! are reported as defects.
//!
//! There is no I/O here. Parsing is left to `rethread-log`, disk access to `rethread-store`, changes to
//! `rethread-edit` and output formats to `rethread-render`.
//!
//! Keeping the text of entries in memory was rejected: facts refer to bytes of the log, so that a log of
//! a gigabyte needs tens of megabytes.

mod id;
mod index;
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
mod rules;
mod session;
mod subagents;

mod check;
mod content_keys;
mod copies;
mod inventory;
mod message_name;
mod overview;
mod path_summary;
mod preview;
mod reminders;
mod search_results;
mod search_text;
mod session_outline;
mod short_ids;
mod sql_rows;
mod step_sequence;
mod step_stream;
mod summary;
mod title;
mod transcript;
mod view;
mod wire;

pub use build::FactsBuilder;
pub use byte_counts::ByteCounts;
pub use check::{
    CheckReport, Finding, FindingKind, MAX_IMAGE_BYTES, Severity, check, harmful_findings,
    newest_client_chain, session_intended_path,
};
pub use client::Client;
pub use content_keys::{RestampedCopy, StepContentKey};
pub use copies::{PathEnd, PathId, SessionContinuation, SessionFingerprint, containing_paths};
pub use facts::{
    Block, BlockClass, Checkpoint, EntryLocation, Facts, IdField, Message, Node, Role, ToolCall,
};
pub use flags::EntryFlags;
pub use id::{Time, Uid};
pub use index::{
    CallId, EntryNo, IndexGroups, MessageNo, NodeId, PathIndex, SessionIndex, StepId, Table, TableKey,
};
pub use inventory::{Inventory, InventoryDefect, LinkCounts, MessageCounts, ToolCallCounts, UnknownNames};
pub use message_name::{MessageName, MessageNameError};
pub use name_counts::{NameCounts, NameId};
pub use overview::SessionOverview;
pub use path_summary::{ContinuedFrom, EntryRef, PathStatus, PathSummary};
pub use preview::{Preview, PreviewSummary};
pub use prompt::readable_text;
pub use resume::{
    BrokenLink, IntendedPath, LinkDefect, PartOrigin, Refusal, Resume, SentMessage, SentPart, intended_path,
    intended_path_to, resume,
};
pub use rules::{CLIENT_RULES, ClientRange, ClientRule, RuleInfo, RuleStage};
pub use search_results::{Hit, LogSummary, MatchQuality, SearchResults, SessionHits, Snippet};
pub use search_text::{
    EntryTexts, MessageKey, MessagePlace, SearchText, TextSource, entry_block_text, entry_texts,
};
pub use session::{BranchPoint, Path, Session};
pub use session_outline::{OutlineItem, OutlineItemKind, OutlinedPath, SessionOutline};
pub use short_ids::ShortIds;
pub use sql_rows::{SqlRowWriter, SqlValue};
pub use step_sequence::{ItemHeader, StepItems};
pub use step_stream::{EntryChunk, RandomAccessLog, StepNodes, StepStream};
pub use steps::{Step, StepKind};
pub use subagents::InlineSubagent;
pub use summary::{OriginKind, SessionId, SessionInfo, SessionKind, SessionOrigin, SessionSummary, Worktree};
pub use title::{Title, TitleSource, collapse_whitespace, heading, heading_within, title};
pub use transcript::{
    CallEvent, CallSidecars, ListedSubagent, MessageEvent, NoteEvent, OutlineEntry, PartEvent,
    ReadWholeResult, ResultEvent, SiblingPath, SubagentEvent, SubagentNo, Transcript, TranscriptHeader,
    TranscriptPart, TranscriptRange, TranscriptSubagent, TranscriptTotals, TranscriptWriter, VisibleContent,
    VisibleThinking, Visit,
};
pub use tree::{Link, Tree};
pub use usage::{
    BillingTerms, Cost, LogUsage, LongPrompt, MicroDollars, Price, PriceError, PriceList, Receipt,
    RecordedUsage, ResponseKey, ResponseRecord, Usage, UsageAmount, UsageBlock, UsageGroup, UsageGrouping,
    UsageKey, UsageLedger, UsageReport, UsageRow, UsageSource, receipts,
};
pub use view::{
    BlockView, EntrySource, MessageKind, MessageView, NoteView, Reader, ResultPart, TranscriptItem,
    beginning, describe_media, main_argument,
};
pub use wire::{WireBlock, WireMessage};
