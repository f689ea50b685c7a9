//! The kinds of findings, in one table.

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Irregular, but nothing is lost.
    Harmless,
    /// Content of the conversation does not reach the model.
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
    ($($(#[$doc:meta])* $variant:ident $name:literal $repairability:ident $hint:literal,)*) => {
        /// The kind of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum FindingKind { $($(#[$doc])* $variant,)* }

        impl FindingKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name used in JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns a hint for the user.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }

            fn repairability(self) -> Repairability {
                match self { $(Self::$variant => Repairability::$repairability,)* }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Repairability {
    /// `repair` fixes it.
    Repairable,
    /// It is left unchanged.
    NotRepaired,
    /// It is due to the design of some clients; the session is fine.
    ByDesign,
}

impl FindingKind {
    /// Returns whether a repair fixes it.
    pub fn is_repairable(self) -> bool {
        self.repairability() == Repairability::Repairable
    }

    /// Returns whether it is due to the design of older clients and not a fault of the session.
    pub fn is_by_design(self) -> bool {
        self.repairability() == Repairability::ByDesign
    }
}

kinds! {
    /// The parent of an entry is not in the file.
    DanglingParent "dangling_parent" Repairable "`rethread repair` links it to the previous entry",
    /// An entry that answers something has no parent.
    NoParent "no_parent" Repairable "`rethread repair` links it to the previous entry",
    /// An entry is its own ancestor.
    Cycle "cycle" Repairable "`rethread repair` breaks the cycle",
    /// Most entries precede their parents.
    OutOfOrder "out_of_order" Repairable "`rethread repair` marks the end of the conversation",

    /// The client resumes a local command instead of the conversation.
    ResumesLocalCommand "left_behind" Repairable "`rethread repair` makes clients resume the conversation; `rethread clone --path N` copies it to a new session",

    /// A line ends inside its object.
    CutShort "cut_short" Repairable "a write was interrupted; `rethread repair` drops the unreadable part",
    /// A line is `null`.
    NullLine "null_line" Repairable "`rethread repair` drops the line",
    /// A line contains more than one object.
    SeveralObjects "several_objects" Repairable "`rethread repair` puts each object on its own line",
    /// A line contains NUL bytes.
    NulBytes "nul_bytes" Repairable "left by a crash; `rethread repair` removes them",
    /// A line is not JSON.
    NotJson "not_json" NotRepaired "clients skip it",
    /// A line is JSON but not an object.
    NotObject "not_object" NotRepaired "clients skip it",
    /// A line is not UTF-8.
    InvalidUtf8 "invalid_utf8" NotRepaired "clients read the invalid bytes as U+FFFD",
    /// A line is too long to be parsed.
    TooLong "too_long" NotRepaired "it is kept unchanged",
    /// The last line has no line break.
    NoLineBreak "no_line_break" Repairable "some clients would append the next entry to the same line; `rethread repair` adds a line break",
    /// The file begins with a byte order mark.
    ByteOrderMark "byte_order_mark" Repairable "clients before 2.0.77 lose the first line; `rethread repair` removes the mark",

    /// Two entries have the same uuid.
    DuplicateUuid "duplicate_uuid" Repairable "`rethread repair` keeps the later entry, as clients do, in the position of the first",
    /// An entry lacks its uuid or message.
    Incomplete "incomplete" Repairable "`rethread repair` adds an id, or drops the entry if it is empty",
    /// The content of an entry is not a list of blocks.
    InvalidContent "odd_content" Repairable "`rethread repair` converts it to a block",
    /// An entry has no valid time.
    NoTime "no_time" Repairable "`rethread repair` copies the time of the previous entry",
    /// An answer has no `message.id`.
    NoMessageId "no_message_id" Repairable "`rethread repair` adds a message id",
    /// An answer does not name its model.
    NoModel "no_model" Repairable "`rethread repair` takes the model from neighbouring answers",
    /// The payload of an attachment does not match its type.
    InvalidAttachment "odd_attachment" Repairable "`rethread repair` drops it; clients send the model what it needs again",

    /// A call has no result.
    OpenCall "open_call" Repairable "`rethread repair` adds a result that says the original is missing",
    /// A result has no call.
    OrphanResult "orphan_result" Repairable "`rethread repair` keeps its content as text",
    /// A call has several results.
    SeveralResults "several_results" Repairable "`rethread repair` keeps the first, as clients do",
    /// Two messages make the same call.
    RepeatedCall "repeated_call" Repairable "`rethread repair` gives the second call its own id",
    /// A queued prompt is not on the path.
    QueuedPrompt "queued_prompt" Repairable "`rethread repair` moves it onto the path",
    /// A result does not follow its call.
    MisplacedResult "misplaced_result" Repairable "`rethread repair` moves it after its call",

    /// An answer contains only thinking.
    LoneThinking "lone_thinking" Repairable "newer clients do not send it; `rethread repair` removes it from the path",
    /// Thinking without a signature.
    UnsignedThinking "unsigned_thinking" Repairable "the API requires a signature; `rethread repair` drops the block",
    /// Text that consists of white space.
    BlankText "blank_text" Repairable "the API rejects blank text; `rethread repair` drops the block",
    /// A block without a type.
    InvalidBlock "odd_block" Repairable "`rethread repair` converts it to text or drops it",
    /// An image exceeds the API's limit.
    ImageTooLarge "image_too_large" Repairable "`rethread repair` replaces it with a note",
    /// More images than the API accepts.
    TooManyImages "too_many_images" NotRepaired "resume from an earlier point, or compact",
    /// The conversation begins with an answer.
    BeginsWithAnswer "begins_with_answer" Repairable "`rethread repair` inserts a note before it",
    /// More content than fits into the model's context window.
    ContextTooLong "context_too_long" NotRepaired "compact it in the client, or resume from an earlier point",
    /// Every entry belongs to a subagent.
    AllSidechain "all_sidechain" Repairable "this is a subagent log; `rethread repair` converts it into a session",
    /// A repair would lose something.
    RepairWouldLose "would_lose" NotRepaired "inspect it with `rethread show` and `rethread tree` before you continue",
    /// There is no conversation.
    NoConversation "no_conversation" NotRepaired "there is nothing to resume",

    /// Rows of parallel calls are not found by older clients.
    ParallelCalls "parallel_calls" ByDesign "clients since 2.1.112 find them",
    /// A client takes another branch than the newest one.
    OtherBranch "other_branch" ByDesign "client versions choose branches by different rules; `rethread tree --client VERSION` shows the choice",
    /// Progress entries in the chain.
    ProgressEntries "progress_entries" ByDesign "clients since 2.1.112 skip them",
    /// Messages preserved by a compaction.
    KeptMessages "kept_messages" ByDesign "older clients do not know which messages a compaction kept",

    /// A type that no known client writes.
    UnknownType "unknown_type" NotRepaired "a newer client may have written it; it is preserved",
    /// Entries of several sessions.
    SeveralSessions "several_sessions" NotRepaired "harmless: resuming and forking copy entries",
    /// Summaries of other sessions.
    ForeignSummary "foreign_summary" NotRepaired "they are not used as titles",
    /// A file that the client's clean-up will delete.
    Stale "stale" NotRepaired "resume it, touch the file, or raise `cleanupPeriodDays` in the client's settings",
}
