//! The kinds of findings, in one table.

use rethread_log::DefectKind;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Severity {
    /// Irregular, but every client sends the same as without it.
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

    /// Returns the word for it in texts. JSON has an older one ([`Severity::name`]).
    pub fn word(self) -> &'static str {
        match self {
            Self::Harmless => "harmless",
            Self::Loss | Self::Refusal => self.name(),
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $repairability:ident,)*) => {
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

            fn repairability(self) -> Repairability {
                match self { $(Self::$variant => Repairability::$repairability,)* }
            }
        }
    };
}

#[derive(PartialEq, Eq)]
enum Repairability {
    /// A repair fixes it.
    Repairable,
    /// It is left unchanged.
    NotRepaired,
    /// It is due to the design of some clients; the session is fine.
    ByDesign,
}

impl FindingKind {
    /// Returns the kind of finding that reports a defect of the file.
    pub fn of_defect(kind: DefectKind) -> Self {
        match kind {
            DefectKind::CutShort => Self::CutShort,
            DefectKind::NotJson => Self::NotJson,
            DefectKind::NullLine => Self::NullLine,
            DefectKind::NotObject => Self::NotObject,
            DefectKind::NulBytes => Self::NulBytes,
            DefectKind::SeveralObjects => Self::SeveralObjects,
            DefectKind::InvalidUtf8 => Self::InvalidUtf8,
            DefectKind::TooLong => Self::TooLong,
            DefectKind::DuplicateUuid => Self::DuplicateUuid,
            DefectKind::DanglingParent => Self::DanglingParent,
            DefectKind::Cycle => Self::Cycle,
            DefectKind::Incomplete => Self::Incomplete,
        }
    }

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
    DanglingParent "dangling_parent" Repairable,
    /// An entry that answers something has no parent.
    NoParent "no_parent" Repairable,
    /// An entry is its own ancestor.
    Cycle "cycle" Repairable,
    /// Most entries precede their parents.
    OutOfOrder "out_of_order" Repairable,

    /// The client resumes a local command instead of the conversation.
    ResumesLocalCommand "left_behind" Repairable,

    /// A line ends inside its object.
    CutShort "cut_short" Repairable,
    /// A line is `null`.
    NullLine "null_line" Repairable,
    /// A line contains more than one object.
    SeveralObjects "several_objects" Repairable,
    /// A line contains NUL bytes.
    NulBytes "nul_bytes" Repairable,
    /// A line is not JSON.
    NotJson "not_json" NotRepaired,
    /// A line is JSON but not an object.
    NotObject "not_object" NotRepaired,
    /// A line is not UTF-8.
    InvalidUtf8 "invalid_utf8" NotRepaired,
    /// A line is too long to be parsed.
    TooLong "too_long" NotRepaired,
    /// The last line has no line break.
    NoLineBreak "no_line_break" Repairable,
    /// The file begins with a byte order mark.
    ByteOrderMark "byte_order_mark" Repairable,

    /// Two entries have the same uuid.
    DuplicateUuid "duplicate_uuid" Repairable,
    /// An entry lacks its uuid or message.
    Incomplete "incomplete" Repairable,
    /// The content of an entry is not a list of blocks.
    InvalidContent "odd_content" Repairable,
    /// An entry has no valid time.
    NoTime "no_time" Repairable,
    /// An answer has no `message.id`.
    NoMessageId "no_message_id" Repairable,
    /// An answer does not name its model.
    NoModel "no_model" Repairable,
    /// The payload of an attachment does not match its type.
    InvalidAttachment "odd_attachment" Repairable,

    /// A call has no result.
    OpenCall "open_call" Repairable,
    /// A result has no call.
    OrphanResult "orphan_result" Repairable,
    /// A call has several results.
    SeveralResults "several_results" Repairable,
    /// Two messages make the same call.
    RepeatedCall "repeated_call" Repairable,
    /// A queued prompt is not on the path.
    QueuedPrompt "queued_prompt" Repairable,
    /// A result does not follow its call.
    MisplacedResult "misplaced_result" Repairable,

    /// An answer contains only thinking.
    LoneThinking "lone_thinking" Repairable,
    /// Thinking without a signature.
    UnsignedThinking "unsigned_thinking" Repairable,
    /// Text that consists of white space.
    BlankText "blank_text" Repairable,
    /// A block without a type.
    InvalidBlock "odd_block" Repairable,
    /// An image exceeds the API's limit.
    ImageTooLarge "image_too_large" Repairable,
    /// More images than the API accepts.
    TooManyImages "too_many_images" NotRepaired,
    /// The conversation begins with an answer.
    BeginsWithAnswer "begins_with_answer" Repairable,
    /// More content than fits into the model's context window.
    ContextTooLong "context_too_long" NotRepaired,
    /// Every entry belongs to a subagent.
    AllSidechain "all_sidechain" Repairable,
    /// A repair would lose something.
    RepairWouldLose "would_lose" NotRepaired,
    /// There is no conversation.
    NoConversation "no_conversation" NotRepaired,

    /// Rows of parallel calls are not found by older clients.
    ParallelCalls "parallel_calls" ByDesign,
    /// A client takes another branch than the newest one.
    OtherBranch "other_branch" ByDesign,
    /// Progress entries in the chain.
    ProgressEntries "progress_entries" ByDesign,
    /// Messages preserved by a compaction.
    KeptMessages "kept_messages" ByDesign,

    /// A type that no known client writes.
    UnknownType "unknown_type" NotRepaired,
    /// Entries of several sessions.
    SeveralSessions "several_sessions" NotRepaired,
    /// Summaries of other sessions.
    ForeignSummary "foreign_summary" NotRepaired,
    /// A file that the client's clean-up will delete.
    Stale "stale" NotRepaired,
}
