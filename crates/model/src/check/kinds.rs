//! The kinds of findings, in one table.

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Not as it should be, but nothing is lost.
    Harmless,
    /// Something that was said does not reach the model.
    Loss,
    /// The client or the API refuses the session.
    Refusal,
}

impl Severity {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Harmless => "odd",
            Self::Loss => "loses",
            Self::Refusal => "refuses",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $mend:ident $hint:literal,)*) => {
        /// What a finding is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FindingKind { $($(#[$doc])* $variant,)* }

        impl FindingKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name used in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Says what can be done about it.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }

            fn repairability(self) -> Repairability {
                match self { $(Self::$variant => Repairability::$mend,)* }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Repairability {
    /// `repair` mends it.
    Repairable,
    /// It is left as it is.
    NotRepaired,
    /// It is how some clients are, and nothing is wrong with the session.
    ByDesign,
}

impl FindingKind {
    /// Tells whether a repair mends it.
    pub fn is_repairable(self) -> bool {
        self.repairability() == Repairability::Repairable
    }

    /// Tells whether it is how older clients are and not a fault of the session.
    pub fn is_by_design(self) -> bool {
        self.repairability() == Repairability::ByDesign
    }
}

kinds! {
    /// The parent of an entry is not in the file.
    DanglingParent "dangling_parent" Repairable "`rethread repair` joins it to the entry before it",
    /// An entry that answers something has no parent.
    NoParent "no_parent" Repairable "`rethread repair` joins it to the entry before it",
    /// An entry is its own ancestor.
    Cycle "cycle" Repairable "`rethread repair` cuts the circle",
    /// Most entries stand before their parents.
    OutOfOrder "out_of_order" Repairable "`rethread repair` marks where the conversation ends",

    /// The client resumes a local command beside the conversation.
    ResumesLocalCommand "left_behind" Repairable "`rethread repair` makes the conversation the one that is resumed; `rethread clone --path N` makes a session of it",

    /// A line ends inside its object.
    CutShort "cut_short" Repairable "a write was cut off; `rethread repair` drops what cannot be read",
    /// A line is `null`.
    NullLine "null_line" Repairable "`rethread repair` drops the line",
    /// A line holds more than one object.
    SeveralObjects "several_objects" Repairable "`rethread repair` gives each object its line",
    /// A line holds NUL bytes.
    NulBytes "nul_bytes" Repairable "a crash leaves them; `rethread repair` takes them out",
    /// A line is not JSON.
    NotJson "not_json" NotRepaired "clients pass over it",
    /// A line is JSON, but no object.
    NotObject "not_object" NotRepaired "clients pass over it",
    /// A line is not UTF-8.
    InvalidUtf8 "invalid_utf8" NotRepaired "clients read the broken letters as U+FFFD",
    /// A line is too long to be looked into.
    TooLong "too_long" NotRepaired "it is kept as it is",
    /// The last line has no line break.
    NoLineBreak "no_line_break" Repairable "some clients would write the next entry onto the same line; `rethread repair` ends it",
    /// The file begins with a byte order mark.
    ByteOrderMark "byte_order_mark" Repairable "clients before 2.0.77 lose the first line; `rethread repair` drops the mark",

    /// Two entries have the same uuid.
    DuplicateUuid "duplicate_uuid" Repairable "`rethread repair` keeps the later one, as clients do, in the place of the first",
    /// An entry lacks its uuid or message.
    Incomplete "incomplete" Repairable "`rethread repair` gives it an id, or drops it if it holds nothing",
    /// The content of an entry is no list of blocks.
    InvalidContent "odd_content" Repairable "`rethread repair` makes a block of it",
    /// An entry has no time that can be read.
    NoTime "no_time" Repairable "`rethread repair` gives it the time of the entry before it",
    /// An answer has no `message.id`.
    NoMessageId "no_message_id" Repairable "`rethread repair` gives its message an id",
    /// An answer does not name its model.
    NoModel "no_model" Repairable "`rethread repair` takes the model of the answers around it",
    /// An attachment is not what its type says.
    InvalidAttachment "odd_attachment" Repairable "`rethread repair` drops it; clients tell the model anew what it needs",

    /// A call has no result.
    OpenCall "open_call" Repairable "`rethread repair` adds a result that says that it is missing",
    /// A result has no call.
    OrphanResult "orphan_result" Repairable "`rethread repair` keeps its words as text",
    /// A call has several results.
    SeveralResults "several_results" Repairable "`rethread repair` keeps the first, as clients do",
    /// Two messages make the same call.
    RepeatedCall "repeated_call" Repairable "`rethread repair` gives the second an id of its own",
    /// A queued prompt stands beside the path.
    QueuedPrompt "queued_prompt" Repairable "`rethread repair` lays it on the path",
    /// A result does not stand behind its call.
    MisplacedResult "misplaced_result" Repairable "`rethread repair` lays it behind its call",

    /// An answer of nothing but thinking.
    LoneThinking "lone_thinking" Repairable "no newer client sends it; `rethread repair` takes it off the path",
    /// Thinking without a signature.
    UnsignedThinking "unsigned_thinking" Repairable "the API asks for the signature; `rethread repair` drops the block",
    /// Text of white space only.
    BlankText "blank_text" Repairable "the API refuses blank text; `rethread repair` drops the block",
    /// A block without a type.
    InvalidBlock "odd_block" Repairable "`rethread repair` makes text of it or drops it",
    /// A picture over the API's limit.
    ImageTooLarge "image_too_large" Repairable "`rethread repair` puts a note in its place",
    /// More pictures than the API takes.
    TooManyImages "too_many_images" NotRepaired "go on from an earlier point, or compact",
    /// The conversation begins with an answer.
    BeginsWithAnswer "begins_with_answer" Repairable "`rethread repair` puts a note before it",
    /// More than the model's window holds.
    ContextTooLong "context_too_long" NotRepaired "compact it in the client, or go on from an earlier point",
    /// Every entry is a subagent's.
    AllSidechain "all_sidechain" Repairable "it is the log of a subagent; `rethread repair` makes a session of it",
    /// A repair would lose something.
    RepairWouldLose "would_lose" NotRepaired "look at it with `rethread show` and `rethread tree` before you go on",
    /// There is no conversation.
    NoConversation "no_conversation" NotRepaired "there is nothing to resume",

    /// Rows of parallel calls that older clients do not find.
    ParallelCalls "parallel_calls" ByDesign "clients since 2.1.112 find them",
    /// Another branch than the newest client's.
    OtherBranch "other_branch" ByDesign "each client has its own rule; `rethread tree --client VERSION` shows which branch it takes",
    /// Progress entries in the chain.
    ProgressEntries "progress_entries" ByDesign "clients since 2.1.112 step over them",
    /// Messages that a compaction kept.
    KeptMessages "kept_messages" ByDesign "older clients do not know what a compaction kept",

    /// A type that no client we know writes.
    UnknownType "unknown_type" NotRepaired "a newer client may have written it; it is carried along",
    /// Entries of several sessions.
    SeveralSessions "several_sessions" NotRepaired "resuming and forking copy entries; that is harmless",
    /// Summaries of other sessions.
    ForeignSummary "foreign_summary" NotRepaired "titles are not taken from them",
    /// A file that the client's clean-up will delete.
    Stale "stale" NotRepaired "resume it, touch the file, or raise `cleanupPeriodDays` in the client's settings",
}
