//! The parts of one entry, found in one pass over its bytes.
//!
//! A [`Line`] says where each known field, the parts of the message and its content blocks stand.
//! It holds spans, not values: [`Span`]s point into the entry's raw bytes, so nothing is copied and
//! whatever we do not know stays where it is.

use crate::json::unescape;
use crate::scan::{Broken, Walker};

/// A range of an entry's raw bytes. An empty span means that there is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn new(start: usize, end: usize) -> Self {
        let narrow = |n| u32::try_from(n).expect("entries over 4 GiB are not parsed");
        Self { start: narrow(start), end: narrow(end) }
    }

    /// Tells whether there is nothing.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns how many bytes it covers.
    pub fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns the bytes it covers.
    pub fn of(self, raw: &[u8]) -> &[u8] {
        raw.get(self.start as usize..self.end as usize).unwrap_or_default()
    }

    /// Returns the bytes between the quotes if it covers a string.
    pub fn string_in(self, raw: &[u8]) -> Option<&[u8]> {
        match self.of(raw) {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }

    /// Returns where it begins.
    pub fn start(self) -> usize {
        self.start as usize
    }
}

const fn ascii(spelling: &'static [u8]) -> &'static str {
    match std::str::from_utf8(spelling) {
        Ok(name) => name,
        Err(_) => panic!("spellings are ASCII"),
    }
}

/// Declares an enum whose variants have one spelling each in the logs.
macro_rules! spelled {
    ($(#[$meta:meta])* $name:ident { $($variant:ident $spelling:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each variant is the field or type of its own name")]
        #[non_exhaustive]
        pub enum $name { $($variant,)* }

        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the spelling in the logs.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => const { ascii($spelling) },)* }
            }

            /// Finds the one spelled so.
            #[inline]
            pub fn from_name(name: &[u8]) -> Option<Self> {
                match name { $($spelling => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

spelled! {
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
        Rewound b"rewound",
        CutUuid b"cutUuid",
        Operation b"operation",
        Snapshot b"snapshot",
        Origin b"origin",
        PromptSource b"promptSource",
        RequestId b"requestId",
        ForkedFrom b"forkedFrom",
        TeamName b"teamName",
        Entrypoint b"entrypoint",
        IsVirtual b"isVirtual",
        ContinuedInSessionId b"continuedInSessionId",
    }
}

/// Envelope fields that are known and not read here; any other is counted as unknown.
const ALSO_KNOWN: &[&str] = &[
    "afterUuid",
    "agentColor",
    "agentName",
    "agentSetting",
    "apiBlockIndex",
    "apiError",
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
    "fallbackModel",
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
    "rendered",
    "renderedBesideToolResult",
    "renderedRole",
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
    "sourceToolUseID",
    "startTime",
    "stopReason",
    "sum",
    "tag",
    "tail",
    "thinkingDisplay",
    "thinkingDurationMs",
    "thinkingMetadata",
    "title",
    "todos",
    "toolDenialKind",
    "toolInputStreamMs",
    "toolUseID",
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
    "turnCompanion",
    "turnOrigin",
    "turnPosition",
    "upgradeNudge",
    "url",
    "userType",
    "wireToolInputs",
    "worktreeSession",
];

spelled! {
    /// The types of entries that clients are known to write.
    Kind {
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

impl Kind {
    /// Tells whether entries of this type stand in the conversation tree.
    pub fn in_tree(self) -> bool {
        matches!(self, Self::User | Self::Assistant | Self::System | Self::Attachment | Self::Progress)
    }
}

spelled! {
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

/// Where the parts of `message` stand.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageSpans {
    /// The whole value of `message`.
    pub whole: Span,
    /// `message.role`
    pub role: Span,
    /// `message.id`
    pub id: Span,
    /// `message.model`
    pub model: Span,
    /// `message.content`
    pub content: Span,
    /// `message.stop_reason`
    pub stop_reason: Span,
    /// `message.usage`
    pub usage: Span,
}

/// Where the parts of a content block stand.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockSpans {
    /// What sort of block it is; `None` for one we do not know.
    pub kind: Option<BlockKind>,
    /// The whole block.
    pub whole: Span,
    /// `type`, as spelled.
    pub kind_name: Span,
    /// The text of a text block, the thinking of a thinking block, the data of a redacted one.
    pub text: Span,
    /// `id` of a call, `tool_use_id` of a result.
    pub id: Span,
    /// `name` of a call.
    pub name: Span,
    /// `input` of a call.
    pub input: Span,
    /// `content` of a result.
    pub content: Span,
    /// `signature` of a thinking block.
    pub signature: Span,
    /// `source` of an image or document.
    pub source: Span,
    /// `is_error` of a result.
    pub is_error: Span,
    /// How many bytes of a result's content are images and documents.
    pub media: u32,
}

/// The parts of one entry. Made once and filled again for every entry, so that reading allocates
/// nothing per line.
#[derive(Debug, Clone)]
pub struct Line {
    fields: [Span; Key::ALL.len()],
    /// The entry's type, if we know it.
    pub kind: Option<Kind>,
    /// The parts of `message`, if there is one and it is an object.
    pub message: Option<MessageSpans>,
    /// The content blocks of `message.content`, if it is a list.
    pub blocks: Vec<BlockSpans>,
    /// The names of fields that no client we know writes.
    pub unknown: Vec<Span>,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            fields: [Span::default(); Key::ALL.len()],
            kind: None,
            message: None,
            blocks: Vec::new(),
            unknown: Vec::new(),
        }
    }
}

impl Line {
    /// Returns where the value of `key` stands.
    #[inline]
    pub fn field(&self, key: Key) -> Span {
        self.fields[key as usize]
    }

    /// Returns the inner bytes of a field that is a string.
    #[inline]
    pub fn string<'r>(&self, key: Key, raw: &'r [u8]) -> Option<&'r [u8]> {
        self.field(key).string_in(raw)
    }

    /// Tells whether a field is `true`.
    #[inline]
    pub fn flag(&self, key: Key, raw: &[u8]) -> bool {
        self.field(key).of(raw) == b"true"
    }

    fn clear(&mut self) {
        self.fields.fill(Span::default());
        self.kind = None;
        self.message = None;
        self.blocks.clear();
        self.unknown.clear();
    }

    /// Fills itself from the object that begins at `at`; returns the index behind it.
    pub(crate) fn parse(&mut self, raw: &[u8], at: usize) -> Result<(usize, bool), Broken> {
        self.clear();
        let mut walker = Walker::new(raw);
        let end = walker.object(at, |walker, key, escaped, value| {
            let name = named(key, escaped, find_name);
            let known = name.and_then(|name| Key::ALL.get(name).copied());
            if known == Some(Key::Message) {
                // Of several keys the last one counts.
                self.message = None;
                self.blocks.clear();
            }
            let end = match known {
                Some(Key::Message) if walker.bytes.get(value) == Some(&b'{') => {
                    self.parse_message(walker, value)?
                }
                _ => walker.value_end(value)?,
            };
            match known {
                Some(key) => self.fields[key as usize] = Span::new(value, end),
                None if name.is_none() => {
                    let start = key.as_ptr().addr() - raw.as_ptr().addr();
                    self.unknown.push(Span::new(start, start + key.len()));
                }
                None => {}
            }
            Ok(end)
        })?;
        let name = self.field(Key::Type).string_in(raw);
        self.kind = name.and_then(|name| named(name, name.contains(&b'\\'), Kind::from_name));
        Ok((end, walker.suspicious))
    }

    fn parse_message(&mut self, walker: &mut Walker<'_>, at: usize) -> Result<usize, Broken> {
        let mut message = MessageSpans::default();
        let end = walker.object(at, |walker, key, escaped, value| {
            let mut nothing = Span::default();
            let slot = match &*plain(key, escaped) {
                b"role" => &mut message.role,
                b"id" => &mut message.id,
                b"model" => &mut message.model,
                b"content" => &mut message.content,
                b"stop_reason" => &mut message.stop_reason,
                b"usage" => &mut message.usage,
                _ => &mut nothing,
            };
            let content = &*plain(key, escaped) == b"content";
            if content {
                self.blocks.clear();
            }
            let end = match walker.bytes.get(value) {
                Some(b'[') if content => {
                    let blocks = &mut self.blocks;
                    walker.array(value, |walker, item| {
                        let (block, end) = parse_block(walker, item)?;
                        blocks.push(block);
                        Ok(end)
                    })?
                }
                Some(b'{') if content => {
                    let (block, end) = parse_block(walker, value)?;
                    self.blocks.push(block);
                    end
                }
                _ => walker.value_end(value)?,
            };
            *slot = Span::new(value, end);
            Ok(end)
        })?;
        message.whole = Span::new(at, end);
        self.message = Some(message);
        Ok(end)
    }
}

fn parse_block(walker: &mut Walker<'_>, at: usize) -> Result<(BlockSpans, usize), Broken> {
    let mut block = BlockSpans::default();
    if walker.bytes.get(at) != Some(&b'{') {
        // No client writes it, but it is content all the same.
        let end = walker.value_end(at)?;
        block.whole = Span::new(at, end);
        return Ok((block, end));
    }
    let end = walker.object(at, |walker, key, escaped, value| {
        let mut nothing = Span::default();
        let slot = match &*plain(key, escaped) {
            b"type" => &mut block.kind_name,
            b"text" | b"thinking" => &mut block.text,
            b"data" => &mut block.text,
            b"id" | b"tool_use_id" => &mut block.id,
            b"name" => &mut block.name,
            b"input" => &mut block.input,
            b"signature" => &mut block.signature,
            b"source" => &mut block.source,
            b"is_error" => &mut block.is_error,
            b"content" if walker.bytes.get(value) == Some(&b'[') => {
                let (media, end) = media_in(walker, value)?;
                block.media = media;
                block.content = Span::new(value, end);
                return Ok(end);
            }
            b"content" => &mut block.content,
            _ => &mut nothing,
        };
        let end = walker.value_end(value)?;
        *slot = Span::new(value, end);
        Ok(end)
    })?;
    block.whole = Span::new(at, end);
    let name = block.kind_name.string_in(walker.bytes).unwrap_or_default();
    block.kind = named(name, name.contains(&b'\\'), BlockKind::from_name);
    Ok((block, end))
}

/// Steps over the list of a tool result and adds up the sources of its images and documents.
fn media_in(walker: &mut Walker<'_>, at: usize) -> Result<(u32, usize), Broken> {
    let mut media = 0;
    let end = walker.array(at, |walker, item| {
        if walker.bytes.get(item) != Some(&b'{') {
            return walker.value_end(item);
        }
        walker.object(item, |walker, key, _, value| {
            let end = walker.value_end(value)?;
            if key == b"source" {
                media += u32::try_from(end - value).unwrap_or(u32::MAX);
            }
            Ok(end)
        })
    })?;
    Ok((media, end))
}

/// Returns the key's bytes with escapes resolved; keys with escapes are legal and never seen.
#[inline(always)]
fn plain(key: &[u8], escaped: bool) -> std::borrow::Cow<'_, [u8]> {
    if escaped { unescape(key).into_owned().into_bytes().into() } else { key.into() }
}

#[inline(always)]
fn named<T>(name: &[u8], escaped: bool, find: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
    find(&plain(name, escaped))
}

/// All known names of fields: those we read, then the others.
const NAMES: [&str; Key::ALL.len() + ALSO_KNOWN.len()] = {
    let mut names = [""; Key::ALL.len() + ALSO_KNOWN.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = if i < Key::ALL.len() { Key::ALL[i].name() } else { ALSO_KNOWN[i - Key::ALL.len()] };
        i += 1;
    }
    names
};

const N_SLOTS: usize = 1024;

/// Where each name is in [`NAMES`], counted from 1, at the slot of its hash or the next free one.
const SLOTS: [u8; N_SLOTS] = {
    let mut slots = [0; N_SLOTS];
    let mut i = 0;
    while i < NAMES.len() {
        let mut slot = slot_of(NAMES[i].as_bytes());
        while slots[slot] != 0 {
            slot = (slot + 1) % N_SLOTS;
        }
        slots[slot] = (i + 1) as u8;
        i += 1;
    }
    slots
};

/// The length and three characters tell nearly all names apart.
const fn slot_of(name: &[u8]) -> usize {
    let n = name.len();
    if n == 0 {
        return 0;
    }
    let hash = n * 71 + name[0] as usize * 7 + name[n - 1] as usize * 31 + name[n / 2] as usize * 131;
    hash % N_SLOTS
}

/// Tells whether two names are the same; names are short, and a call would cost more than comparing.
#[inline(always)]
fn same(a: &[u8], b: &[u8]) -> bool {
    let ends8 = |name: &[u8]| Some((*name.first_chunk::<8>()?, *name.last_chunk::<8>()?));
    let ends4 = |name: &[u8]| Some((*name.first_chunk::<4>()?, *name.last_chunk::<4>()?));
    a.len() == b.len()
        && match a.len() {
            4..8 => ends4(a) == ends4(b),
            8..=16 => ends8(a) == ends8(b),
            _ => a == b,
        }
}

/// Returns the number of a known name.
#[inline]
fn find_name(name: &[u8]) -> Option<usize> {
    let mut slot = slot_of(name);
    loop {
        let i = (SLOTS[slot] as usize).checked_sub(1)?;
        if same(NAMES[i].as_bytes(), name) {
            return Some(i);
        }
        slot = (slot + 1) % N_SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(raw: &str) -> Line {
        let mut line = Line::default();
        let (end, suspicious) = line.parse(raw.as_bytes(), 0).expect("an object");
        assert_eq!(end, raw.len());
        assert!(!suspicious);
        line
    }

    #[test]
    fn every_known_name_is_found() {
        const { assert!(NAMES.len() < 255, "numbers of names fit in a byte") };
        for (i, name) in NAMES.iter().enumerate() {
            assert_eq!(find_name(name.as_bytes()), Some(i), "{name}");
        }
        for name in ["", "x", "typ", "typeX", "uuidd"] {
            assert_eq!(find_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn fields_and_blocks_are_found() {
        let raw = r#"{"parentUuid":null,"type":"assistant","message":{"id":"m1","model":"opus","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"tool_use","id":"t1","name":"Bash","input":{"a":[1]}},"odd",{"type":"new"}],"usage":{"input_tokens":3}},"uuid":"u1","brandNew":1}"#;
        let line = parse(raw);
        let raw = raw.as_bytes();
        assert_eq!(line.kind, Some(Kind::Assistant));
        assert_eq!(line.field(Key::ParentUuid).of(raw), b"null");
        assert_eq!(line.string(Key::Uuid, raw), Some(&b"u1"[..]));
        let message = line.message.expect("a message");
        assert_eq!(message.id.of(raw), br#""m1""#);
        assert_eq!(message.usage.of(raw), br#"{"input_tokens":3}"#);
        let kinds: Vec<_> = line.blocks.iter().map(|b| b.kind).collect();
        assert_eq!(kinds, [Some(BlockKind::Thinking), Some(BlockKind::ToolUse), None, None]);
        assert_eq!(line.blocks[1].input.of(raw), br#"{"a":[1]}"#);
        assert_eq!(line.unknown.iter().map(|s| s.of(raw)).collect::<Vec<_>>(), [b"brandNew"]);
    }

    #[test]
    fn escaped_keys_are_the_same_keys() {
        let raw = r#"{"\u0074ype":"us\u0065r","message":{"\u0063ontent":[{"type":"text","text":"x"}]}}"#;
        let line = parse(raw);
        assert_eq!(line.kind, Some(Kind::User));
        assert_eq!(line.blocks.len(), 1);
    }

    #[test]
    fn of_several_keys_the_last_counts() {
        let line = parse(r#"{"message":{"content":[{"type":"text"}],"content":"new"},"type":"user"}"#);
        assert!(line.blocks.is_empty());
        let line = parse(r#"{"message":{"content":[{"type":"text"}]},"message":null}"#);
        assert!(line.message.is_none() && line.blocks.is_empty());
    }

    #[test]
    fn images_in_results_are_weighed() {
        let line = parse(
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a"},{"type":"image","source":{"data":"AAAA"}}]}]}}"#,
        );
        assert_eq!(line.blocks[0].media as usize, r#"{"data":"AAAA"}"#.len());
    }
}
