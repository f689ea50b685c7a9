//! Cleaning levels and their rules.

/// The amount that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Removes images, documents and duplicates.
    Light,
    /// Also removes what no client sends.
    #[default]
    Standard,
    /// Also removes what readers can do without.
    Strong,
    /// Removes everything but the conversation.
    Max,
}

/// A kind of content that is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "`description` documents each rule")]
pub enum Rule {
    Media,
    OriginalFile,
    StoredTwice,
    ResultCopy,
    Progress,
    Requests,
    Bookkeeping,
    Thinking,
    Unreadable,
    Envelope,
    LongResults,
    LongInputs,
    Attachments,
    Tools,
}

impl Level {
    /// All levels, from the least on.
    pub const ALL: [Self; 4] = [Self::Light, Self::Standard, Self::Strong, Self::Max];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Standard => "standard",
            Self::Strong => "strong",
            Self::Max => "max",
        }
    }

    /// Returns whether the result is meant to be resumed: only images, thinking and what clients do not send are removed.
    pub fn is_resumable(self) -> bool {
        self <= Self::Standard
    }
}

impl Rule {
    /// All rules, in the order of reports.
    pub const ALL: [Self; 14] = [
        Self::Media,
        Self::OriginalFile,
        Self::StoredTwice,
        Self::ResultCopy,
        Self::Progress,
        Self::Requests,
        Self::Bookkeeping,
        Self::Thinking,
        Self::Unreadable,
        Self::Envelope,
        Self::LongResults,
        Self::LongInputs,
        Self::Attachments,
        Self::Tools,
    ];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::OriginalFile => "original-file",
            Self::StoredTwice => "stored-twice",
            Self::ResultCopy => "result-copy",
            Self::Progress => "progress",
            Self::Requests => "requests",
            Self::Bookkeeping => "bookkeeping",
            Self::Thinking => "thinking",
            Self::Unreadable => "unreadable",
            Self::Envelope => "envelope",
            Self::LongResults => "long-results",
            Self::LongInputs => "long-inputs",
            Self::Attachments => "attachments",
            Self::Tools => "tools",
        }
    }

    /// Finds a rule by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// Returns a description for users.
    pub fn description(self) -> &'static str {
        match self {
            Self::Media => "images, PDFs and other binary data; type, size and hash are kept",
            Self::OriginalFile => "file contents from before an edit; the edit itself is kept",
            Self::StoredTwice => "data in the client's copy of a result that repeats the call or the result",
            Self::ResultCopy => "the rest of that copy, except short fields and the lines of an edit",
            Self::Progress => "progress entries of tools, hooks and subagents",
            Self::Requests => "recorded requests to the API",
            Self::Bookkeeping => "file snapshots, costs and other internal records of the client",
            Self::Thinking => "thinking and its signatures",
            Self::Unreadable => "lines that are not entries",
            Self::Envelope => "fields that no reader needs, or that repeat the previous entry",
            Self::LongResults => "the middle of results over 2,000 characters",
            Self::LongInputs => "the middle of tool inputs over 2,000 characters",
            Self::Attachments => "client attachments for the model: listings, reminders, changed files",
            Self::Tools => "tool calls and other content that is not text; one line per call stays",
        }
    }

    /// Returns the lowest level that includes the rule.
    pub fn level(self) -> Level {
        match self {
            Self::Media | Self::OriginalFile | Self::StoredTwice => Level::Light,
            Self::ResultCopy
            | Self::Progress
            | Self::Requests
            | Self::Bookkeeping
            | Self::Thinking
            | Self::Unreadable => Level::Standard,
            Self::Envelope | Self::LongResults | Self::LongInputs | Self::Attachments => Level::Strong,
            Self::Tools => Level::Max,
        }
    }
}

/// A set of rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleSet(u32);

impl RuleSet {
    /// Returns the rules of a level.
    pub fn of(level: Level) -> Self {
        Rule::ALL.into_iter().filter(|rule| rule.level() <= level).collect()
    }

    /// Returns whether the set contains a rule.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }

    /// Returns whether the result is meant to be resumed: only images, thinking and what clients do not send are removed.
    pub fn is_resumable(self) -> bool {
        Rule::ALL.into_iter().filter(|&rule| self.has(rule)).all(|rule| rule.level().is_resumable())
    }
}

impl FromIterator<Rule> for RuleSet {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().fold(0, |all, rule| all | 1 << rule as u32))
    }
}
