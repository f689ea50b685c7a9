//! What is wanted of a clone.

use rethread_model::Uid;

use super::{CompressOptions, ToolRecipe, record};
use crate::ids::IdMap;

/// What a clone is to be.
#[derive(Debug, Clone, Default)]
pub struct Recipe {
    /// Only this path, by its number.
    pub path: Option<usize>,
    /// Only what leads to this message, by its number, and that message.
    pub until: Option<usize>,
    /// Only what leads to the entry with this id, in place of a path or a message; see [`normalise_source`](super::normalise_source).
    pub end: Option<Uid>,
    /// What becomes of tool calls.
    pub tools: ToolRecipe,
    /// Without thinking.
    pub strip_thinking: bool,
    /// With older turns condensed.
    pub compress: Option<CompressOptions>,
    /// With this title.
    pub title: Option<String>,
    /// With the snapshots of files, whose backups are copied along.
    pub file_history: bool,
}

impl Recipe {
    /// Tells whether nothing but ids changes.
    pub fn is_plain(&self) -> bool {
        !self.is_single_path() && !self.tools.has_edits() && !self.strip_thinking
    }

    /// Tells whether only one path is wanted.
    pub(super) fn is_single_path(&self) -> bool {
        self.path.is_some() || self.until.is_some() || self.end.is_some() || self.compress.is_some()
    }

    /// The line that gives a clone its title; nothing if it has none.
    pub fn title_line(&self, names: &IdMap<'_>) -> Vec<u8> {
        let spell = |title: &String| record("custom-title", &[("customTitle", title)], names);
        self.title.as_ref().map(spell).unwrap_or_default()
    }

    /// What is asked of the logs of its subagents: the same, but for what only a session has.
    pub fn for_subagents(&self) -> Self {
        let tools = ToolRecipe { keep: None, ..self.tools.clone() };
        Self { tools, strip_thinking: self.strip_thinking, ..Self::default() }
    }
}

/// Recipes with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Long inputs and results of older turns are shortened to 2000 characters.
    Light,
    /// The same to 400 characters, and fewer turns stay as they are.
    Standard,
    /// Calls of older turns are removed.
    Heavy,
    /// All calls and all thinking are removed.
    Extreme,
}

impl Preset {
    /// All of them, from the least to the most.
    pub const ALL: [Self; 4] = [Self::Light, Self::Standard, Self::Heavy, Self::Extreme];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Standard => "standard",
            Self::Heavy => "heavy",
            Self::Extreme => "extreme",
        }
    }

    /// Adds what it asks for to a recipe; what the recipe says itself counts more.
    pub fn add_to(self, recipe: &mut Recipe) {
        let (strip, keep, shorten) = match self {
            Self::Light => (false, Some(20), Some(2000)),
            Self::Standard => (false, Some(10), Some(400)),
            Self::Heavy => (true, Some(5), None),
            Self::Extreme => (true, None, None),
        };
        let tools = &mut recipe.tools;
        if tools.strip.is_none() && strip {
            tools.strip = Some(Vec::new());
        }
        tools.keep = tools.keep.or(keep);
        tools.shorten = tools.shorten.or(shorten);
        recipe.strip_thinking |= self == Self::Extreme;
    }
}
