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
mod bytes;
mod facts;
mod flags;
mod names;
mod steps;
mod tree;

mod client;
mod resume;
mod session;
mod side;

mod check;
mod copies;
mod inventory;
mod keys;
mod passage;
mod title;
mod told;
mod view;
mod wire;

pub use build::Builder;
pub use bytes::Bytes;
pub use check::{Finding, Kind, MAX_IMAGE, Severity, Straight, check, harm, meant_at, newest_chain};
pub use client::Client;
pub use copies::{Ending, Joint, PathId, Sketch, holders};
pub use facts::{Block, Call, Checkpoint, Facts, Message, Node, Place, Role, Sort};
pub use flags::Flags;
pub use id::{Time, Uid};
pub use inventory::{Chain, DefectRow, Inventory, Messages, ToolCalls, Unknown};
pub use keys::{Restamped, Said};
pub use names::Names;
pub use passage::{Brief, Chunk, Layout, LogText, Passage, Run};
pub use prompt::readable;
pub use resume::{
    Break, BrokenLink, Intended, Part, Refusal, Resume, Sent, What, intended, intended_at, resume,
};
pub use session::{Branching, Path, Session};
pub use side::Inline;
pub use steps::{Step, StepKind};
pub use title::{Title, TitleSource, heading, one_line, title};
pub use tree::{Groups, Link, Tree};
pub use usage::Usage;
pub use view::{
    BlockView, Entries, Item, MessageKind, MessageView, NoteView, Reader, ResultPart, beginning,
    describe_media, telling,
};
pub use wire::{WireBlock, WireMessage};
