//! What the bytes of a log hold.

use rethread_log::{BlockKind, Key, Kind, Line};

/// Bytes of a file by what they hold; the sum is the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "each field is what it is called")]
pub struct Bytes {
    pub text: u64,
    pub thinking: u64,
    pub signatures: u64,
    pub tool_input: u64,
    pub tool_result: u64,
    pub tool_use_result: u64,
    pub media: u64,
    pub progress: u64,
    pub attachments: u64,
    pub snapshots: u64,
    pub requests: u64,
    pub metadata: u64,
    pub envelope: u64,
    pub junk: u64,
}

impl Bytes {
    /// Tells what the bytes of an entry hold.
    pub fn of(line: &Line, raw: &[u8]) -> Self {
        let mut bytes = Self::default();
        let total = raw.len() as u64;
        let whole = match line.kind {
            Some(Kind::User | Kind::Assistant | Kind::System) => None,
            Some(Kind::Progress) => Some(&mut bytes.progress),
            Some(Kind::Attachment) => Some(&mut bytes.attachments),
            Some(Kind::FileHistorySnapshot | Kind::FileHistoryDelta | Kind::AttributionSnapshot) => {
                Some(&mut bytes.snapshots)
            }
            Some(Kind::ApiRequest | Kind::ApiRequestBlob | Kind::ApiRequestShape) => {
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
            let media = u64::from(block.media) + block.source.len() as u64;
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

    /// Returns the kinds by name, in their order.
    pub fn by_kind(&self) -> [(&'static str, u64); 14] {
        [
            ("text", self.text),
            ("thinking", self.thinking),
            ("signatures", self.signatures),
            ("tool_input", self.tool_input),
            ("tool_result", self.tool_result),
            ("tool_use_result", self.tool_use_result),
            ("media", self.media),
            ("progress", self.progress),
            ("attachments", self.attachments),
            ("snapshots", self.snapshots),
            ("requests", self.requests),
            ("metadata", self.metadata),
            ("envelope", self.envelope),
            ("junk", self.junk),
        ]
    }

    /// Returns one of the kinds, by its place among them.
    pub fn of_kind(&mut self, kind: u8) -> &mut u64 {
        match kind {
            0 => &mut self.text,
            1 => &mut self.thinking,
            2 => &mut self.signatures,
            3 => &mut self.tool_input,
            4 => &mut self.tool_result,
            5 => &mut self.tool_use_result,
            6 => &mut self.media,
            7 => &mut self.progress,
            8 => &mut self.attachments,
            9 => &mut self.snapshots,
            10 => &mut self.requests,
            11 => &mut self.metadata,
            12 => &mut self.envelope,
            _ => &mut self.junk,
        }
    }

    /// Returns the length of the file.
    pub fn total(&self) -> u64 {
        self.parts().iter().map(|(_, bytes)| bytes).sum()
    }

    /// Returns the parts with their names, in the order of their declaration.
    pub fn parts(&self) -> [(&'static str, u64); 14] {
        [
            ("text", self.text),
            ("thinking", self.thinking),
            ("signatures", self.signatures),
            ("tool input", self.tool_input),
            ("tool results", self.tool_result),
            ("copies of results", self.tool_use_result),
            ("images, documents", self.media),
            ("progress", self.progress),
            ("attachments", self.attachments),
            ("snapshots", self.snapshots),
            ("API requests", self.requests),
            ("metadata", self.metadata),
            ("envelope", self.envelope),
            ("junk", self.junk),
        ]
    }

    /// Adds those of something else.
    pub fn add(&mut self, other: Self) {
        for (kind, (_, n)) in (0..).zip(other.by_kind()) {
            *self.of_kind(kind) += n;
        }
    }
}
