//! The messages that a search considers.

use rethread_model::{MessagePlace, TextSource, Time};

use super::QuerySpan;

/// The value of a field as it was typed, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldValue {
    /// The value.
    pub text: String,
    /// Its position in the query; empty if it was not typed in the query.
    pub span: QuerySpan,
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self { text: text.to_owned(), span: 0..0 }
    }
}

/// Conditions on messages. Several values of one field are alternatives; different fields must all apply.
#[derive(Debug, Clone, Default)]
pub struct Filters {
    /// The kinds of text that are searched.
    pub sources: TextSources,
    /// The places of the messages in the tree.
    pub places: MessagePlaces,
    /// Calls of these tools and their results.
    pub tools: Vec<FieldValue>,
    /// Sessions in which these models answered, and of their answers only those by them.
    pub models: Vec<FieldValue>,
    /// Sessions of these projects.
    pub projects: Vec<FieldValue>,
    /// Sessions on these git branches.
    pub git_branches: Vec<FieldValue>,
    /// Sessions that read or changed these files.
    pub files: Vec<FieldValue>,
    /// Sessions whose id begins so.
    pub sessions: Vec<FieldValue>,
    /// Messages written since then.
    pub since: Option<Time>,
    /// Messages written before then.
    pub until: Option<Time>,
}

impl Filters {
    /// Returns whether there are no conditions.
    pub fn is_empty(&self) -> bool {
        let values =
            [&self.tools, &self.models, &self.projects, &self.git_branches, &self.files, &self.sessions];
        self.sources.is_all()
            && self.places.is_all()
            && values.iter().all(|values| values.is_empty())
            && self.since.is_none()
            && self.until.is_none()
    }
}

impl Filters {
    /// Returns whether there are conditions on whole sessions.
    pub(crate) fn has_session_filters(&self) -> bool {
        let values = [&self.models, &self.projects, &self.git_branches, &self.files, &self.sessions];
        values.iter().any(|values| !values.is_empty())
    }
}

/// A set of kinds of text. The empty set means all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextSources(u16);

impl TextSources {
    /// The names of sets, as they are typed.
    pub const NAMES: [&'static str; 10] =
        ["user", "assistant", "tools", "thinking", "text", "input", "output", "summary", "note", "title"];

    /// Returns the set with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        use TextSource::{Answer, Command, Input, Note, Output, Prompt, Summary, Thinking, Title};
        let sources: &[TextSource] = match name {
            "user" => &[Prompt, Command],
            "assistant" | "claude" => &[Answer],
            "tools" | "tool" => &[Input, Output],
            "thinking" => &[Thinking],
            "text" => &[Prompt, Command, Answer],
            "input" => &[Input],
            "output" => &[Output],
            "summary" => &[Summary],
            "note" | "notes" => &[Note],
            "title" => &[Title],
            _ => return None,
        };
        Some(sources.iter().copied().collect())
    }

    /// The names of roles, as they are typed.
    pub const ROLES: [&'static str; 3] = ["user", "assistant", "tool"];

    /// Returns the kinds of text that a role writes.
    pub fn from_role(role: &str) -> Option<Self> {
        use TextSource::{Answer, Input, Thinking};
        match role {
            "assistant" | "claude" => Some([Answer, Thinking, Input].into_iter().collect()),
            "user" | "tool" | "tools" => Self::from_name(role),
            _ => None,
        }
    }

    /// Adds the kinds of another set.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Keeps only what is in both sets.
    pub(crate) fn restrict_to(&mut self, other: Self) {
        self.0 = match (self.0, other.0) {
            (0, all) | (all, 0) => all,
            // A set of nothing must not become a set of everything.
            (a, b) => (a & b) | if a & b == 0 { 1 << 15 } else { 0 },
        };
    }

    /// Returns whether a kind of text is searched.
    pub fn contains(self, source: TextSource) -> bool {
        self.0 == 0 || self.0 & bit(source) != 0
    }

    /// Returns whether all kinds are searched.
    pub fn is_all(self) -> bool {
        self.0 == 0
    }
}

fn bit(source: TextSource) -> u16 {
    1 << source as u16
}

impl FromIterator<TextSource> for TextSources {
    fn from_iter<I: IntoIterator<Item = TextSource>>(sources: I) -> Self {
        Self(sources.into_iter().map(bit).fold(0, |all, bit| all | bit))
    }
}

/// A set of places in the tree. The empty set means all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessagePlaces(u8);

impl MessagePlaces {
    /// The names of places, as they are typed.
    pub const NAMES: [&'static str; 4] = ["active", "abandoned", "compacted", "subagent"];

    /// Returns the place with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let place = match name {
            "live" => MessagePlace::Active,
            "sidechain" => MessagePlace::Subagent,
            name => MessagePlace::from_name(name)?,
        };
        Some(Self(1 << place as u8))
    }

    /// Adds the places of another set.
    pub fn add(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// Returns whether messages at a place are considered.
    pub fn contains(self, place: MessagePlace) -> bool {
        self.0 == 0 || self.0 & 1 << place as u8 != 0
    }

    /// Returns whether all places are considered.
    pub fn is_all(self) -> bool {
        self.0 == 0
    }
}
