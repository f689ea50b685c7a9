//! Checks the messages that a client sends against the limits of the API.

use rustc_hash::FxHashSet;

use super::{FindingKind, Findings, Severity};
use crate::client::Client;
use crate::facts::{BlockClass, Facts};
use crate::index::{CallId, NodeId};
use crate::resume::{PartOrigin, Resume, SentMessage, SentPart};

/// Maximum size of an image that the API accepts: 5 MB, as base64.
pub const MAX_IMAGE_BYTES: u32 = 5 * 1024 * 1024;
/// Maximum number of images in one request.
pub(super) const MAX_IMAGES: usize = 100;
/// The largest context window of any model, in tokens.
const MAX_TOKENS: u64 = 1_000_000;
/// Maximum size of a request in bytes. Four bytes per token underestimates the tokens of any text, so a
/// larger request is certainly too long.
pub(super) const MAX_REQUEST_BYTES: u64 = MAX_TOKENS * 4 + 3;

/// Describes a request of too many bytes.
pub(super) fn too_long_detail(n_bytes: u64) -> String {
    let (tokens, most) = (n_bytes / 4 / 1000, MAX_TOKENS / 1000);
    format!("about {tokens} thousand tokens; no model accepts more than {most} thousand")
}

impl Findings {
    pub(super) fn check_request(&mut self, facts: &Facts, client: Client, resumed: &Resume) {
        // Clients before 2.1.325 insert a reminder before it, which is a user message.
        if let Some(part) = resumed.messages.first().filter(|m| m.assistant).and_then(|m| m.parts.first()) {
            let line = part.origin.node().map(|node| facts.location(node).line);
            let detail =
                || "earlier messages are missing, and the API requires a user message first".to_owned();
            self.add_for(client, line, FindingKind::BeginsWithAnswer, Severity::Refusal, &detail);
        }
        self.check_pairing(facts, client, &resumed.messages);
        let mut n_images = 0;
        let mut n_bytes = 0;
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            let PartOrigin::Block(node, at) = part.origin else { continue };
            let Some(block) = facts.blocks_of(node).get(at as usize) else { continue };
            // Thinking of finished turns does not count, and not every client sends it.
            if !part.class.is_thinking() {
                n_bytes += u64::from(block.len - block.media_bytes.min(block.len));
            }
            match part.class {
                BlockClass::UnsignedThinking if is_claude_model(facts, node) => {
                    let detail = "the API requires a signature on thinking";
                    self.add_refused_part(facts, client, part, FindingKind::UnsignedThinking, detail);
                }
                BlockClass::Blank | BlockClass::Empty => {
                    let detail = "the API rejects blank text";
                    self.add_refused_part(facts, client, part, FindingKind::BlankText, detail);
                }
                BlockClass::Media => {
                    n_images += 1;
                    if block.media_bytes > MAX_IMAGE_BYTES {
                        let detail = "the API accepts images of up to 5 MB";
                        self.add_refused_part(facts, client, part, FindingKind::ImageTooLarge, detail);
                    }
                }
                _ => {}
            }
        }
        if n_images > MAX_IMAGES {
            let detail = || format!("{n_images} images; the API accepts {MAX_IMAGES} per request");
            self.add_for(client, None, FindingKind::TooManyImages, Severity::Refusal, &detail);
        }
        if n_bytes > MAX_REQUEST_BYTES {
            let detail = || too_long_detail(n_bytes);
            self.add_for(client, None, FindingKind::ContextTooLong, Severity::Refusal, &detail);
        }
    }

    fn add_refused_part(
        &mut self,
        facts: &Facts,
        client: Client,
        part: &SentPart,
        kind: FindingKind,
        detail: &'static str,
    ) {
        let line = part.origin.node().map(|node| facts.location(node).line);
        self.add_for(client, line, kind, Severity::Refusal, &|| detail.to_owned());
    }

    /// Checks that every call is answered exactly once in the next message, and that there are no other
    /// results.
    fn check_pairing(&mut self, facts: &Facts, client: Client, messages: &[SentMessage]) {
        let mut made: FxHashSet<Option<CallId>> = FxHashSet::default();
        for (at, message) in messages.iter().enumerate() {
            let next = messages.get(at + 1).filter(|next| !next.assistant);
            let calls_in = |message: Option<&SentMessage>, class: BlockClass| -> FxHashSet<Option<CallId>> {
                let parts = message.into_iter().flat_map(|message| &message.parts);
                parts.filter(|part| part.class == class).map(|part| part.call).collect()
            };
            if message.assistant {
                let answered = calls_in(next, BlockClass::ToolResult);
                for part in message.parts.iter().filter(|part| part.class == BlockClass::ToolCall) {
                    if !answered.contains(&part.call) {
                        let detail = "the API requires a result after each call";
                        self.add_refused_part(facts, client, part, FindingKind::OpenCall, detail);
                    }
                    if !made.insert(part.call) {
                        let detail = "the API rejects repeated call ids";
                        self.add_refused_part(facts, client, part, FindingKind::RepeatedCall, detail);
                    }
                }
                continue;
            }
            let before = at.checked_sub(1).map(|before| &messages[before]).filter(|m| m.assistant);
            let called = calls_in(before, BlockClass::ToolCall);
            let mut answered = FxHashSet::default();
            for part in message.parts.iter().filter(|part| part.class == BlockClass::ToolResult) {
                if part.call.is_none() || !called.contains(&part.call) {
                    let kind = if part.call.is_some() {
                        FindingKind::MisplacedResult
                    } else {
                        FindingKind::OrphanResult
                    };
                    let detail = "the API requires the call directly before its result";
                    self.add_refused_part(facts, client, part, kind, detail);
                } else if !answered.insert(part.call) {
                    let detail = "the API accepts only one result per call";
                    self.add_refused_part(facts, client, part, FindingKind::SeveralResults, detail);
                }
            }
        }
    }
}

/// Returns whether the model is a Claude model. Others need no signatures.
pub(super) fn is_claude_model(facts: &Facts, node: NodeId) -> bool {
    facts.model_of(node).is_none_or(|model| model.starts_with("claude"))
}
