//! The names in logs: of fields, entry types and block types.
//!
//! Names listed here are known. All others pass through and are counted as unknown.

const fn ascii(spelling: &'static [u8]) -> &'static str {
    match std::str::from_utf8(spelling) {
        Ok(name) => name,
        Err(_) => panic!("spellings are ASCII"),
    }
}

/// Declares an enum whose variants each have one name in the logs.
macro_rules! named_enum {
    ($(#[$meta:meta])* $name:ident { $($variant:ident $spelling:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each variant is named after its field or type")]
        #[non_exhaustive]
        pub enum $name { $($variant,)* }

        impl $name {
            /// All variants, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name in the logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => const { ascii($spelling) },)* }
            }

            /// Finds the variant with this name.
            #[inline]
            pub fn from_name(name: &[u8]) -> Option<Self> {
                match name { $($spelling => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

named_enum! {
    /// The envelope fields we read.
    Key {
        Type b"type",
        ParentUuid b"parentUuid",
        Uuid b"uuid",
        Timestamp b"timestamp",
        Message b"message",
        SessionId b"sessionId",
        Version b"version",
        Cwd b"cwd",
        GitBranch b"gitBranch",
        IsSidechain b"isSidechain",
        IsMeta b"isMeta",
        IsCompactSummary b"isCompactSummary",
        IsApiErrorMessage b"isApiErrorMessage",
        AgentId b"agentId",
        ToolUseResult b"toolUseResult",
        SourceToolAssistantUuid b"sourceToolAssistantUUID",
        Subtype b"subtype",
        Content b"content",
        LogicalParentUuid b"logicalParentUuid",
        CompactMetadata b"compactMetadata",
        Attachment b"attachment",
        Data b"data",
        ParentToolUseId b"parentToolUseID",
        Summary b"summary",
        LeafUuid b"leafUuid",
        CustomTitle b"customTitle",
        AiTitle b"aiTitle",
        LastPrompt b"lastPrompt",
        Explicit b"explicit",
        Operation b"operation",
        Snapshot b"snapshot",
        Origin b"origin",
        PromptSource b"promptSource",
        RequestId b"requestId",
        ForkedFrom b"forkedFrom",
        Entrypoint b"entrypoint",
        IsVirtual b"isVirtual",
        ContinuedInSessionId b"continuedInSessionId",
        Rewound b"rewound",
        CutUuid b"cutUuid",
        RetractedMessageUuids b"retractedMessageUuids",
        SourceToolUseId b"sourceToolUseID",
        TurnCompanion b"turnCompanion",
        InterruptedByShutdown b"interruptedByShutdown",
        IsDisplayOnly b"isDisplayOnly",
        ApiError b"apiError",
        QueueTranscriptOnly b"queueTranscriptOnly",
        ToolDenialEndsTurn b"toolDenialEndsTurn",
        Rendered b"rendered",
        RenderedRole b"renderedRole",
        FallbackModel b"fallbackModel",
        ToolUseId b"toolUseID",
        WireToolInputs b"wireToolInputs",
    }
}

/// Envelope fields that are known but not read here. All others are counted as unknown.
const OTHER_KNOWN_FIELDS: &[&str] = &[
    "afterUuid",
    "agentColor",
    "agentName",
    "agentSetting",
    "apiBlockIndex",
    "apiErrorParams",
    "apiErrorStatus",
    "apiErrorType",
    "apiRefusalCategory",
    "apiRefusalExplanation",
    "atis",
    "attributionAgent",
    "attributionMcpServer",
    "attributionMcpTool",
    "attributionPlugin",
    "attributionSkill",
    "backup",
    "base",
    "cacheControl",
    "cause",
    "classifierMetaLines",
    "commandRun",
    "commandUuid",
    "costUSD",
    "deliveryId",
    "direction",
    "durationMs",
    "effort",
    "error",
    "errorDetails",
    "failedResponseHadNoToolCall",
    "frameUrl",
    "hasOutput",
    "hasUnknownModelCost",
    "hash",
    "hookAdditionalContext",
    "hookCount",
    "hookErrors",
    "hookInfos",
    "id",
    "imagePasteIds",
    "interruptedMessageId",
    "isSnapshotUpdate",
    "isVisibleInTranscriptOnly",
    "keep",
    "level",
    "madeBy",
    "maxRetries",
    "mcpMeta",
    "messageCount",
    "messageId",
    "microcompactMetadata",
    "mode",
    "modelUsage",
    "originalModel",
    "params",
    "path",
    "perTurnEffort",
    "permissionDecision",
    "permissionMode",
    "planContent",
    "prNumber",
    "prRepository",
    "prUrl",
    "preventedContinuation",
    "promptCacheRequested",
    "promptId",
    "querySource",
    "queueSkipAttachments",
    "reason",
    "refusedMessageId",
    "refusedUserMessageUuid",
    "refusingModel",
    "relocatedCwd",
    "renderedBesideToolResult",
    "replacements",
    "requestDigest",
    "requestRef",
    "requestedModel",
    "retryAttempt",
    "retryInMs",
    "sandboxed",
    "sessionKind",
    "session_id",
    "shape",
    "shapeHash",
    "slug",
    "snapshotMessageId",
    "source",
    "startTime",
    "stopReason",
    "sum",
    "tag",
    "tail",
    "teamName",
    "thinkingDisplay",
    "thinkingDurationMs",
    "thinkingMetadata",
    "title",
    "todos",
    "toolDenialKind",
    "toolInputStreamMs",
    "tools",
    "totalAPIDuration",
    "totalAPIDurationWithoutRetries",
    "totalCostUSD",
    "totalDuration",
    "totalLinesAdded",
    "totalLinesRemoved",
    "totalToolDuration",
    "trackingPath",
    "trigger",
    "turnOrigin",
    "turnPosition",
    "upgradeNudge",
    "url",
    "userType",
    "worktreeSession",
];

named_enum! {
    /// The entry types that clients are known to write.
    EntryKind {
        User b"user",
        Assistant b"assistant",
        System b"system",
        Attachment b"attachment",
        Progress b"progress",
        Summary b"summary",
        CustomTitle b"custom-title",
        AiTitle b"ai-title",
        LastPrompt b"last-prompt",
        QueueOperation b"queue-operation",
        FileHistorySnapshot b"file-history-snapshot",
        FileHistoryDelta b"file-history-delta",
        Tag b"tag",
        AgentName b"agent-name",
        AgentColor b"agent-color",
        AgentSetting b"agent-setting",
        Mode b"mode",
        PermissionMode b"permission-mode",
        WorktreeState b"worktree-state",
        PrLink b"pr-link",
        AttributionSnapshot b"attribution-snapshot",
        ContentReplacement b"content-replacement",
        SpeculationAccept b"speculation-accept",
        CostState b"cost-state",
        ToolsUsed b"tools-used",
        AtisLatch b"atis-latch",
        ApiRequestShape b"api-request-shape",
        ApiRequestBlob b"api-request-blob",
        ApiRequest b"api-request",
        Relocated b"relocated",
        ContinuedIn b"continued-in",
        EndedByModel b"ended-by-model",
        FrameLink b"frame-link",
        BridgeSession b"bridge-session",
        HistorySuppression b"history-suppression",
        IsolationLatch b"isolation-latch",
        SessionOwner b"session-owner",
        DevMods b"dev-mods",
        MemoryMode b"memory-mode",
        ReplMode b"repl-mode",
        DataFlowRecords b"data-flow-records",
        DataFlowIncomplete b"data-flow-incomplete",
        DerivedFrom b"derived-from",
        ForkContextRef b"fork-context-ref",
        ObserverRef b"observer-ref",
        ArtifactCommentMonitor b"artifact-comment-monitor",
        ArtifactAutoreactLedger b"artifact-autoreact-ledger",
        ResumeHeadVouch b"resume-head-vouch",
        MarbleOrigamiCommit b"marble-origami-commit",
        MarbleOrigamiSnapshot b"marble-origami-snapshot",
        MarbleOrigamiReset b"marble-origami-reset",
    }
}

impl EntryKind {
    /// Returns whether entries of this type are part of the conversation tree.
    pub fn is_in_tree(self) -> bool {
        matches!(self, Self::User | Self::Assistant | Self::System | Self::Attachment | Self::Progress)
    }
}

named_enum! {
    /// The types of content blocks.
    BlockKind {
        Text b"text",
        Thinking b"thinking",
        RedactedThinking b"redacted_thinking",
        ToolUse b"tool_use",
        ToolResult b"tool_result",
        Image b"image",
        Document b"document",
        ServerToolUse b"server_tool_use",
        WebSearchToolResult b"web_search_tool_result",
        WebFetchToolResult b"web_fetch_tool_result",
        McpToolUse b"mcp_tool_use",
        McpToolResult b"mcp_tool_result",
        CodeExecutionToolResult b"code_execution_tool_result",
        ContainerUpload b"container_upload",
        SearchResult b"search_result",
        Fallback b"fallback",
    }
}

/// All known field names: those we read, then the others.
const FIELD_NAMES: [&str; Key::ALL.len() + OTHER_KNOWN_FIELDS.len()] = {
    let mut names = [""; Key::ALL.len() + OTHER_KNOWN_FIELDS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] =
            if i < Key::ALL.len() { Key::ALL[i].name() } else { OTHER_KNOWN_FIELDS[i - Key::ALL.len()] };
        i += 1;
    }
    names
};

const N_SLOTS: usize = 1024;

/// A hash table over [`FIELD_NAMES`] with linear probing. A slot contains the index of a name plus 1, or
/// 0.
const SLOTS: [u8; N_SLOTS] = {
    let mut slots = [0; N_SLOTS];
    let mut i = 0;
    while i < FIELD_NAMES.len() {
        let mut slot = slot_of(FIELD_NAMES[i].as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % N_SLOTS;
        }
        slots[slot] = (i + 1) as u8;
        i += 1;
    }
    slots
};

/// Hashes a name by its length and three of its characters, which distinguish nearly all names.
const fn slot_of(name: &[u8]) -> usize {
    let n = name.len();
    if n == 0 {
        return 0;
    }
    let hash = n * 71 + name[0] as usize * 7 + name[n - 1] as usize * 31 + name[n / 2] as usize * 131;
    hash % N_SLOTS
}

/// Compares two names. Inlined, because names are short and a call would cost more than the comparison.
#[inline(always)]
fn names_equal(a: &[u8], b: &[u8]) -> bool {
    let ends8 = |name: &[u8]| Some((*name.first_chunk::<8>()?, *name.last_chunk::<8>()?));
    let ends4 = |name: &[u8]| Some((*name.first_chunk::<4>()?, *name.last_chunk::<4>()?));
    a.len() == b.len()
        && match a.len() {
            4..8 => ends4(a) == ends4(b),
            8..=16 => ends8(a) == ends8(b),
            _ => a == b,
        }
}

/// Returns the index of a known name in [`FIELD_NAMES`].
#[inline]
pub(crate) fn field_index(name: &[u8]) -> Option<usize> {
    let mut slot = slot_of(name);
    loop {
        let i = (SLOTS[slot] as usize).checked_sub(1)?;
        if names_equal(FIELD_NAMES[i].as_bytes(), name) {
            return Some(i);
        }
        slot = (slot + 1) % N_SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn field_index_finds_exactly_the_known_names() {
        const { assert!(FIELD_NAMES.len() < 255, "the index of a name fits in a byte") };
        for (i, name) in FIELD_NAMES.iter().enumerate() {
            assert_eq!(field_index(name.as_bytes()), Some(i), "{name}");
        }
        for name in ["", "x", "typ", "typeX", "uuidd"] {
            assert_eq!(field_index(name.as_bytes()), None, "{name}");
        }
    }
}
