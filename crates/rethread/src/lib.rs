//! Reads, checks, repairs, clones, cleans and exports Claude Code sessions.
//!
//! # A tour
//!
//! A [`Library`] gives access to the sessions below one or more config directories such as `~/.claude`. The examples use
//! the built-in sample.
//!
//! ```
//! use rethread::{Library, LsOptions};
//!
//! // Or `Library::open([home.join(".claude")])`, or `Library::builder()` for observers.
//! let library = Library::demo();
//! for session in library.ls(&LsOptions::new().project("kettle")).sessions {
//!     println!("{}  {:>3} turns  {}", session.id, session.turns, session.title.text);
//! }
//! ```
//!
//! A [`Selector`] names sessions: an id or its beginning, a path, the newest session of a project, or bytes.
//! [`Library::find_one`] finds the log, and [`Library::load`] reads it with its texts.
//!
//! ```
//! use rethread::{Library, Selector};
//!
//! let library = Library::demo();
//! let newest = library.find_one(Selector::Last { cwd: "/home/ada/kettle".into() })?;
//! let by_id = library.find_one("0000d001")?;
//! let loaded = library.load(&by_id)?;
//! assert_eq!(loaded.session.turns(), 6);
//! # let _ = newest;
//! # Ok::<(), rethread::Error>(())
//! ```
//!
//! A rewind or redo leaves a branch. Every end of the conversation is a numbered path; the client, whose rules depend on
//! its version, would resume one of them.
//!
//! ```
//! use rethread::{Client, Library, PathStatus};
//!
//! # let library = Library::demo();
//! # let loaded = library.load(&library.find_one("0000d001")?)?;
//! for path in library.tree(&loaded, Client::NEWEST) {
//!     println!("path {} is {}", path.n, path.status);
//!     if let Some(message) = path.fork.and_then(|entry| entry.message) {
//!         println!("  it forks after message {message}");
//!     }
//! }
//! # assert_eq!(loaded.tree(Client::NEWEST)[2].status, PathStatus::Active);
//! # Ok::<(), rethread::Error>(())
//! ```
//!
//! `Reader::items` reads a path as messages and notes; tool results are messages of their own, after their calls.
//! [`Library::transcript`] nests results and subagents under their calls and passes them to a [`TranscriptWriter`].
//!
//! ```
//! use rethread::{Client, Library, TranscriptItem};
//!
//! # let library = Library::demo();
//! # let loaded = library.load(&library.find_one("0000d001")?)?;
//! # let mut messages = 0;
//! let path = &loaded.tree(Client::NEWEST)[0].path;
//! for item in loaded.reader().items(path.step) {
//!     if let TranscriptItem::Message(message) = item {
//!         let text: String = message.blocks.iter().map(|block| block.text()).collect();
//!         println!("#{} {}: {text}", message.n, if message.assistant { "assistant" } else { "user" });
//! #       messages += 1;
//!     }
//! }
//! # assert_eq!(messages, 6);
//! # Ok::<(), rethread::Error>(())
//! ```
//!
//! Will a client resume all of it? [`Library::check`] reports what would be lost or refused, as data: a front end words
//! the remedies. [`Library::preview`] computes the request that a client would send.
//!
//! ```
//! use rethread::{CheckOptions, Library};
//!
//! # let library = Library::demo();
//! let report = library.check(&library.find_one("0000d004")?, &CheckOptions::new())?;
//! for finding in report.findings {
//!     println!("line {:?}: {} (repairable: {})", finding.line, finding.detail, finding.kind.is_repairable());
//! }
//! # Ok::<(), rethread::Error>(())
//! ```
//!
//! [`Library::clone_session`] makes a new session, for example from an abandoned path. [`Library::repair`] and
//! [`Library::clean`] work alike: they return what they changed, or would change.
//!
//! ```
//! use rethread::{CloneOptions, Library, Recipe};
//!
//! # let library = Library::demo();
//! let recipe = Recipe { path: Some(1), ..Recipe::default() };
//! let options = CloneOptions { recipe, dry_run: true, ..CloneOptions::default() };
//! let clone = library.clone_session(&library.find_one("0000d001")?, &options)?;
//! assert!(clone.after.bytes < clone.before.bytes);
//! # Ok::<(), rethread::CloneError>(())
//! ```
//!
//! [`Library::export`] writes every path of many sessions as Markdown, HTML or JSON, each message once.
//!
//! ```
//! use rethread::{ExportOptions, Format, Library};
//!
//! # let library = Library::demo();
//! # let dir = tempfile::tempdir()?;
//! # let dir = dir.path().join("transcripts");
//! let options = ExportOptions { format: Format::Html, ..ExportOptions::default() };
//! let exported = library.export(library.select(&[], None)?, &dir, &options)?;
//! assert!(exported.errors.is_empty() && exported.index.is_some());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Promises
//!
//! - Malformed entries are data: they are reported as defects, and reading continues. Unknown entry types and
//!   fields are passed through.
//! - The active path follows the rules of a given [`Client`] version.
//! - A source log is never written to, except by an in-place clean or repair. These keep a backup and refuse
//!   a log that a process has open. A file is written completely or not at all.
//! - Symbolic links inside a session's directory are not followed.
//! - Nothing is printed, and neither standard input nor the current directory nor the environment is read.
//! - Paths are passed through as they are, even if they are not UTF-8.
//!
//! Not in this crate: entries and bytes (`log`), the tree and client rules (`model`), editing (`edit`), files
//! and locks (`store`), text and JSON output (`render`), flags and messages (the `rethread` program).

mod builder;
mod catalog;
mod check;
mod clean;
mod clone;
mod demo;
mod export;
mod library;
mod ls;
mod naming;
mod origin;
mod outline;
mod overview;
mod preview;
mod progress;
mod repair;
mod search;
mod session;
mod sql;
mod titles;
mod transcript;
mod usage;

pub use builder::LibraryBuilder;
pub use catalog::Catalog;
pub use check::{CheckOptions, ClientChoice};
pub use clean::{CleanDestination, CleanError, CleanOptions, SecretScan};
pub use clone::{
    CloneError, CloneOptions, CloneWarning, Cloned, SessionSize, Summariser, SummariserFailure, WrittenClone,
};
pub use export::{
    ExportError, ExportOptions, ExportStatus, Exported, ExportedDocument, ExportedFile, ExportedSubagent,
    ExportedTranscript, FileNaming, PathChoice, ResumableLog, ResumeText,
};
pub use library::{Error, Library, LogSource, Selector, config_root};
pub use ls::{Listing, LsOptions, SortOrder};
pub use naming::NewestSession;
pub use preview::LazyPreview;
pub use progress::Progress;
pub use repair::{RepairDestination, RepairError};
pub use search::{SearchLimits, SearchOutcome};
pub use session::{EarlierSession, LoadedSession, RemovedLog, Subagent};
pub use sql::SqlOutcome;
pub use transcript::{
    LoadedTranscript, TranscriptError, TranscriptOptions, TranscriptPath, TurnBound, TurnRange,
};
pub use usage::{
    DifferenceCause, DropReason, ExplainedReceipt, ForeignTotals, LibraryUsage, ReceiptRow, UsageComparison,
    UsageDifference, UsageFilter, read_usage_file,
};

#[doc(inline)]
pub use rethread_edit::{
    AddedCounts, Change, CleanReport, CleanWarning, Cleaned, CloneCounts, ClonePlanError, CompressOptions,
    ContextSize, Level, LineCounts, Measure, PatternError, Preset, Recipe, RedactOptions, RedactPattern,
    RedactionCounts, Repaired, RepairedLog, Rule, RuleSet, Secret, SecretPlace, ToolRecipe,
};
#[doc(inline)]
pub use rethread_index::{
    FieldValue, Filters, Index, IndexError, IndexLevel, IndexStatus, MessagePlaces, Query, QueryError,
    QueryErrorKind, QuerySyntax, SQL_VIEWS, SqlColumn, SqlError, SqlView, SyncReport, TextSources,
};
#[doc(inline)]
pub use rethread_log::{BlockKind, Json};
#[doc(inline)]
pub use rethread_model::{
    BillingTerms, BlockView, BranchPoint, ByteCounts, CallEvent, CallId, CallSidecars, CheckReport, Client,
    ContinuedFrom, Cost, EntryNo, EntryRef, Finding, FindingKind, Hit, Inventory, InventoryDefect,
    LinkCounts, ListedSubagent, LogSummary, LogUsage, MatchQuality, MessageCounts, MessageEvent, MessageKey,
    MessageKind, MessageName, MessageNo, MessagePlace, MessageView, MicroDollars, NodeId, NoteEvent,
    NoteView, OriginKind, OutlineEntry, OutlineItem, OutlineItemKind, OutlinedPath, PartEvent, Path,
    PathStatus, PathSummary, Preview, PreviewSummary, Price, PriceError, PriceList, ReadWholeResult, Reader,
    Receipt, Refusal, ResultEvent, ResultPart, SearchResults, Session, SessionHits, SessionId, SessionInfo,
    SessionKind, SessionOrigin, SessionOutline, SessionOverview, SessionSummary, Severity, ShortIds,
    SiblingPath, Snippet, SqlRowWriter, SqlValue, StepId, StepStream, SubagentEvent, SubagentNo, TextSource,
    Time, Title, TitleSource, ToolCallCounts, Transcript, TranscriptHeader, TranscriptItem, TranscriptPart,
    TranscriptRange, TranscriptSubagent, TranscriptWriter, UnknownNames, Usage, UsageAmount, UsageBlock,
    UsageGroup, UsageGrouping, UsageKey, UsageLedger, UsageReport, UsageSource, VisibleContent,
    VisibleThinking, Visit, WireBlock, WireMessage, Worktree,
};
#[doc(inline)]
pub use rethread_render::Format;
#[doc(inline)]
pub use rethread_store::{FindError, Holder, PathRejection, SessionFile, SkippedPath, SkippedPaths};

/// Compiles and runs the example in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeExample;

/// The crates that this library is made of, for tools that need more than it offers.
///
/// Unstable: names and types in here change with any release.
pub mod internals {
    pub use rethread_edit as edit;
    pub use rethread_index as index;
    pub use rethread_log as log;
    pub use rethread_model as model;
    pub use rethread_render as render;
    pub use rethread_store as store;
}
