//! Counts the bytes of a log by kind of content.

use rethread_log::{BlockKind, EntryKind, Key, Line};

macro_rules! kinds {
    ($($field:ident $shown:literal,)*) => {
        /// The bytes of a file by kind of content. Their sum is the size of the file.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[expect(missing_docs, reason = "the field names are self-explanatory")]
        pub struct ByteCounts {
            $(pub $field: u64,)*
        }

        impl ByteCounts {
            /// The number of kinds.
            pub const N_KINDS: usize = [$($shown),*].len();

            /// Returns the counts with the names of their fields, in order.
            pub fn by_kind(&self) -> [(&'static str, u64); Self::N_KINDS] {
                [$((stringify!($field), self.$field),)*]
            }

            /// Returns the label of a kind for people.
            pub fn label(kind: &str) -> Option<&'static str> {
                [$((stringify!($field), $shown),)*].into_iter().find(|(name, _)| *name == kind).map(|(_, shown)| shown)
            }

            /// Returns the counts with labels for people, in order.
            pub fn by_label(&self) -> [(&'static str, u64); Self::N_KINDS] {
                [$(($shown, self.$field),)*]
            }

            /// Adds `n` bytes to a kind, given by its index.
            pub fn add_to(&mut self, kind: u8, n: u64) {
                let all = [$(&mut self.$field,)*];
                if let Some(bytes) = all.into_iter().nth(usize::from(kind)) {
                    *bytes += n;
                }
            }

            /// Adds other counts.
            pub fn add(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }

            /// Returns the length of the file.
            pub fn total(&self) -> u64 {
                let Self { $($field,)* } = self;
                0 $(+ $field)*
            }
        }
    };
}

kinds! {
    text "text",
    thinking "thinking",
    signatures "signatures",
    tool_input "tool calls",
    tool_result "tool results",
    tool_use_result "copies of results",
    media "images, documents",
    progress "progress",
    attachments "attachments",
    snapshots "snapshots",
    requests "API requests",
    metadata "metadata",
    envelope "entry fields",
    junk "unreadable",
}

impl ByteCounts {
    /// Counts the bytes of an entry.
    pub fn of_entry(line: &Line, raw: &[u8]) -> Self {
        let mut bytes = Self::default();
        let total = raw.len() as u64;
        let whole = match line.kind {
            Some(EntryKind::User | EntryKind::Assistant | EntryKind::System) => None,
            Some(EntryKind::Progress) => Some(&mut bytes.progress),
            Some(EntryKind::Attachment) => Some(&mut bytes.attachments),
            Some(
                EntryKind::FileHistorySnapshot | EntryKind::FileHistoryDelta | EntryKind::AttributionSnapshot,
            ) => Some(&mut bytes.snapshots),
            Some(EntryKind::ApiRequest | EntryKind::ApiRequestBlob | EntryKind::ApiRequestShape) => {
                Some(&mut bytes.requests)
            }
            _ => Some(&mut bytes.metadata),
        };
        if let Some(whole) = whole {
            *whole += total;
            return bytes;
        }
        let copy = line.field(Key::ToolUseResult).len() as u64;
        bytes.tool_use_result += copy;
        let mut inside = copy;
        if line.blocks.is_empty() {
            let text = line.message.map_or(line.field(Key::Content), |m| m.content).len() as u64;
            bytes.text += text;
            inside += text;
        }
        for block in &line.blocks {
            let len = block.whole.len() as u64;
            let signature = block.signature.len() as u64;
            let media = u64::from(block.media_bytes) + block.source.len() as u64;
            bytes.signatures += signature;
            bytes.media += media;
            let rest = len - (signature + media).min(len);
            match block.kind {
                Some(BlockKind::Text) => bytes.text += rest,
                Some(BlockKind::Thinking | BlockKind::RedactedThinking) => bytes.thinking += rest,
                Some(BlockKind::ToolUse | BlockKind::ServerToolUse | BlockKind::McpToolUse) => {
                    bytes.tool_input += rest;
                }
                Some(BlockKind::Image | BlockKind::Document) => bytes.media += rest,
                Some(_) => bytes.tool_result += rest,
                None => bytes.text += rest,
            }
            inside += len;
        }
        bytes.envelope += total - inside.min(total);
        bytes
    }
}
