//! The skeleton of a session: its prompts, compactions, forks and subagents.

use std::path::PathBuf;

use crate::id::Time;
use crate::index::MessageNo;
use crate::path_summary::PathSummary;
use crate::search_text::MessageKey;
use crate::summary::SessionId;

/// The skeleton of a session, in which every prompt occurs once.
#[derive(Debug, Clone)]
pub struct SessionOutline {
    /// The session.
    pub session: SessionId,
    /// Its title.
    pub title: String,
    /// Its paths: first the one that a person would call the conversation, then the others from where they begin.
    pub paths: Vec<OutlinedPath>,
}

impl SessionOutline {
    /// Returns the number of prompts.
    pub fn prompts(&self) -> usize {
        let is_prompt = |item: &&OutlineItem| matches!(item.kind, OutlineItemKind::Prompt { .. });
        self.paths.iter().flat_map(|path| &path.items).filter(is_prompt).count()
    }
}

/// A path, and what it does not share with the paths before it.
#[derive(Debug, Clone)]
pub struct OutlinedPath {
    /// The path.
    pub summary: PathSummary,
    /// The path from which it forks, and the last message that they share.
    pub fork: Option<(usize, Option<MessageNo>)>,
    /// Its items, in reading order.
    pub items: Vec<OutlineItem>,
}

/// An item of an outline.
#[derive(Debug, Clone)]
pub struct OutlineItem {
    /// The message; for a fork, the last one that the paths share; `None` for a compaction.
    pub message: Option<MessageNo>,
    /// The line of its entry.
    pub line: u32,
    /// Its time.
    pub time: Option<Time>,
    /// The kind of item.
    pub kind: OutlineItemKind,
}

/// The kind of an item of an outline.
#[derive(Debug, Clone)]
pub enum OutlineItemKind {
    /// A prompt.
    Prompt {
        /// Its anchor.
        key: MessageKey,
        /// Its text in one line: all of it, or at least the first [`OutlineItemKind::MAX_TEXT`] characters.
        text: String,
        /// The number of characters of the whole text.
        chars: usize,
    },
    /// A compaction.
    Compaction,
    /// The beginning of another path.
    Fork {
        /// The number of that path.
        path: usize,
    },
    /// A call that started a subagent.
    Subagent {
        /// Its log, if it has a separate one.
        log: Option<PathBuf>,
    },
}

impl OutlineItemKind {
    /// The number of characters of a prompt that are kept.
    pub const MAX_TEXT: usize = 1000;

    /// Returns the name used in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Prompt { .. } => "prompt",
            Self::Compaction => "compaction",
            Self::Fork { .. } => "fork",
            Self::Subagent { .. } => "subagent",
        }
    }
}
