//! What the API would refuse of the messages that a client sends.

use rustc_hash::FxHashSet;

use super::{FindingKind, Findings, Severity};
use crate::client::Client;
use crate::facts::{BlockClass, Facts};
use crate::resume::{PartOrigin, Resume, SentMessage, SentPart};

/// The API takes pictures up to 5 MB, as base64.
pub const MAX_IMAGE_BYTES: u32 = 5 * 1024 * 1024;
/// And so many of them in one request.
pub(super) const MAX_IMAGES: usize = 100;
/// The largest window of any model, in tokens.
const MAX_TOKENS: u64 = 1_000_000;
/// Four bytes to a token is few for any text: what is over the limit even so is over it.
pub(super) const MAX_REQUEST_BYTES: u64 = MAX_TOKENS * 4 + 3;

/// Says that so many bytes are too many.
pub(super) fn too_long_detail(n_bytes: u64) -> String {
    let (tokens, most) = (n_bytes / 4 / 1000, MAX_TOKENS / 1000);
    format!("about {tokens} thousand tokens; no model takes more than {most} thousand")
}

impl Findings {
    pub(super) fn check_request(&mut self, facts: &Facts, client: Client, resumed: &Resume) {
        // Clients before 2.1.325 put a reminder before it, which is a user's message.
        if let Some(part) = resumed.messages.first().filter(|m| m.assistant).and_then(|m| m.parts.first()) {
            let line = part.origin.node().map(|node| facts.location(node).line);
            let detail =
                || "what was said before it is missing, and the API asks for a user first".to_owned();
            self.add_for(client, line, FindingKind::BeginsWithAnswer, Severity::Refusal, &detail);
        }
        self.check_pairing(facts, client, &resumed.messages);
        let mut n_images = 0;
        let mut n_bytes = 0;
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            let PartOrigin::Block(node, at) = part.origin else { continue };
            let Some(block) = facts.blocks_of(node as usize).get(at as usize) else { continue };
            // Thinking of turns that are over does not count, and not every client sends it.
            if !part.class.is_thinking() {
                n_bytes += u64::from(block.len - block.media_bytes.min(block.len));
            }
            match part.class {
                BlockClass::UnsignedThinking if is_claude_model(facts, node) => {
                    let detail = "the API asks for the signature of thinking";
                    self.add_refused_part(facts, client, part, FindingKind::UnsignedThinking, detail);
                }
                BlockClass::Blank | BlockClass::Empty => {
                    let detail = "the API refuses a text without words";
                    self.add_refused_part(facts, client, part, FindingKind::BlankText, detail);
                }
                BlockClass::Media => {
                    n_images += 1;
                    if block.media_bytes > MAX_IMAGE_BYTES {
                        let detail = "the API takes pictures of up to 5 MB";
                        self.add_refused_part(facts, client, part, FindingKind::ImageTooLarge, detail);
                    }
                }
                _ => {}
            }
        }
        if n_images > MAX_IMAGES {
            let detail = || format!("{n_images} pictures; the API takes {MAX_IMAGES} in one request");
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

    /// Every call is answered once in the message behind it, and nothing else is.
    fn check_pairing(&mut self, facts: &Facts, client: Client, messages: &[SentMessage]) {
        let mut made: FxHashSet<u32> = FxHashSet::default();
        for (at, message) in messages.iter().enumerate() {
            let next = messages.get(at + 1).filter(|next| !next.assistant);
            let calls_in = |message: Option<&SentMessage>, sort: BlockClass| -> FxHashSet<u32> {
                let parts = message.into_iter().flat_map(|message| &message.parts);
                parts.filter(|part| part.class == sort).map(|part| part.call).collect()
            };
            if message.assistant {
                let answered = calls_in(next, BlockClass::ToolResult);
                for part in message.parts.iter().filter(|part| part.class == BlockClass::ToolCall) {
                    if !answered.contains(&part.call) {
                        let detail = "the API asks for a result behind each call";
                        self.add_refused_part(facts, client, part, FindingKind::OpenCall, detail);
                    }
                    if !made.insert(part.call) {
                        let detail = "the API takes a call's id once";
                        self.add_refused_part(facts, client, part, FindingKind::RepeatedCall, detail);
                    }
                }
                continue;
            }
            let before = at.checked_sub(1).map(|before| &messages[before]).filter(|m| m.assistant);
            let called = calls_in(before, BlockClass::ToolCall);
            let mut answered = FxHashSet::default();
            for part in message.parts.iter().filter(|part| part.class == BlockClass::ToolResult) {
                if part.call().is_none() || !called.contains(&part.call) {
                    let kind = if part.call().is_some() {
                        FindingKind::MisplacedResult
                    } else {
                        FindingKind::OrphanResult
                    };
                    let detail = "the API asks for the call right before its result";
                    self.add_refused_part(facts, client, part, kind, detail);
                } else if !answered.insert(part.call) {
                    let detail = "the API takes one result for a call";
                    self.add_refused_part(facts, client, part, FindingKind::SeveralResults, detail);
                }
            }
        }
    }
}

/// Other models do without signatures.
fn is_claude_model(facts: &Facts, node: u32) -> bool {
    let model = facts.nodes[node as usize].model;
    model == u16::MAX || facts.models.name(model).starts_with("claude")
}
