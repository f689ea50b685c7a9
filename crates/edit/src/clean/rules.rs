//! Levels, and the rules they are made of.

/// How much is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Level {
    /// Pictures and documents, and what is stored twice.
    Light,
    /// What no client sends.
    #[default]
    Standard,
    /// What readers can do without.
    Strong,
    /// Everything but the conversation.
    Max,
}

/// One thing that is taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each has a description of its own")]
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

    /// Tells whether a client can go on with what is left.
    pub fn is_resumable(self) -> bool {
        self <= Self::Standard
    }
}

impl Rule {
    /// All rules, in the order in which they are told.
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

    /// Says what it does.
    pub fn description(self) -> &'static str {
        match self {
            Self::Media => "pictures, PDFs and other data: their type, size and hash stay",
            Self::OriginalFile => "whole files as they were before an edit; the edit itself stays",
            Self::StoredTwice => "what the client's copy of a result repeats of the call or the result",
            Self::ResultCopy => "the rest of that copy but for short fields and the lines of an edit",
            Self::Progress => "progress notes of tools, hooks and subagents",
            Self::Requests => "recorded requests to the API",
            Self::Bookkeeping => "snapshots of files, costs and other notes that the client keeps for itself",
            Self::Thinking => "thinking, with its signatures",
            Self::Unreadable => "lines that are no entries",
            Self::Envelope => "fields that no reader needs, or that repeat the entry before",
            Self::LongResults => "the middle of results of more than 2,000 characters",
            Self::LongInputs => "the middle of what calls were given, over 2,000 characters",
            Self::Attachments => "what the client attaches for the model: listings, reminders, changed files",
            Self::Tools => "tools and everything else that was not said: a line for each call stays",
        }
    }

    /// The least level that it is part of.
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

/// Some rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleSet(u32);

impl RuleSet {
    /// The rules of a level.
    pub fn of(level: Level) -> Self {
        Rule::ALL.into_iter().filter(|rule| rule.level() <= level).collect()
    }

    /// Tells whether a rule is among them.
    pub fn has(self, rule: Rule) -> bool {
        self.0 & (1 << rule as u32) != 0
    }

    /// Tells whether a client can go on with what they leave.
    pub fn is_resumable(self) -> bool {
        Rule::ALL.into_iter().filter(|&rule| self.has(rule)).all(|rule| rule.level().is_resumable())
    }
}

impl FromIterator<Rule> for RuleSet {
    fn from_iter<T: IntoIterator<Item = Rule>>(rules: T) -> Self {
        Self(rules.into_iter().fold(0, |all, rule| all | 1 << rule as u32))
    }
}
