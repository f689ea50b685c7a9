//! Recipes: the edits of a clone.

use rethread_model::Uid;

use super::order::title_line;
use super::{CompressOptions, ToolRecipe};
use crate::ids::IdMap;

/// The edits of a clone.
#[derive(Debug, Clone, Default)]
pub struct Recipe {
    /// Copy only the path with this number, as the newest client numbers them. For another client, a branch of notes may
    /// be an additional path.
    pub path: Option<usize>,
    /// Copy only the path to the message with this number, inclusive.
    pub until: Option<usize>,
    /// Copy only the path to the entry with this id, instead of a path or a message; see
    /// [`normalise_source`](super::normalise_source).
    pub end: Option<Uid>,
    /// Edits of tool calls.
    pub tools: ToolRecipe,
    /// Remove thinking.
    pub strip_thinking: bool,
    /// Condense older turns.
    pub compress: Option<CompressOptions>,
    /// Set this title.
    pub title: Option<String>,
    /// Keep file snapshots, whose backups are copied too.
    pub file_history: bool,
}

impl Recipe {
    /// Returns whether only ids change.
    pub fn is_plain(&self) -> bool {
        !self.is_single_path() && !self.tools.has_edits() && !self.strip_thinking
    }

    /// Returns whether only one path is copied.
    pub(super) fn is_single_path(&self) -> bool {
        self.path.is_some() || self.until.is_some() || self.end.is_some() || self.compress.is_some()
    }

    /// Returns the line that sets the clone's title; empty if it has none.
    pub fn title_line(&self, ids: &IdMap<'_>) -> Vec<u8> {
        title_line(self, ids).unwrap_or_default()
    }

    /// Returns the recipe for the logs of subagents: without the edits that apply to a session only.
    pub fn for_subagents(&self) -> Self {
        let tools = ToolRecipe { keep: None, ..self.tools.clone() };
        Self { tools, strip_thinking: self.strip_thinking, ..Self::default() }
    }
}

/// Named recipes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Shortens long inputs and results of older turns to 2000 characters.
    Light,
    /// Shortens to 400 characters, and keeps fewer turns unchanged.
    Standard,
    /// Removes the calls of older turns.
    Heavy,
    /// Removes all calls and all thinking.
    Extreme,
}

impl Preset {
    /// All presets, from the least to the most aggressive.
    pub const ALL: [Self; 4] = [Self::Light, Self::Standard, Self::Heavy, Self::Extreme];

    /// Returns the name of the preset.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Standard => "standard",
            Self::Heavy => "heavy",
            Self::Extreme => "extreme",
        }
    }

    /// Adds the preset's edits to a recipe; what the recipe sets already takes precedence.
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
