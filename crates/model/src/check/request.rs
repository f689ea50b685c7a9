//! What the API would refuse of the messages that a client sends.

use rustc_hash::FxHashSet;

use super::{Findings, Kind, Severity};
use crate::client::Client;
use crate::facts::{Facts, Sort};
use crate::resume::{Part, Resume, Sent, What};

/// The API takes pictures up to 5 MB, as base64.
pub const MAX_IMAGE: u32 = 5 * 1024 * 1024;
/// And so many of them in one request.
pub(super) const MAX_IMAGES: usize = 100;
/// The largest window of any model, in tokens.
const MAX_TOKENS: u64 = 1_000_000;
/// Four bytes to a token is few for any text: what is over the limit even so is over it.
pub(super) const MAX_BYTES: u64 = MAX_TOKENS * 4 + 3;

/// Says that so many bytes are too many.
pub(super) fn too_long(n_bytes: u64) -> String {
    let (tokens, most) = (n_bytes / 4 / 1000, MAX_TOKENS / 1000);
    format!("about {tokens} thousand tokens; no model takes more than {most} thousand")
}

impl Findings {
    pub(super) fn request(&mut self, facts: &Facts, client: Client, resumed: &Resume) {
        // Clients before 2.1.325 put a reminder before it, which is a user's message.
        if let Some(part) = resumed.messages.first().filter(|m| m.assistant).and_then(|m| m.parts.first()) {
            let line = part.what.node().map(|node| facts.place(node).line);
            let detail =
                || "what was said before it is missing, and the API asks for a user first".to_owned();
            self.add_for(client, line, Kind::BeginsWithAnswer, Severity::Refuses, &detail);
        }
        self.pairing(facts, client, &resumed.messages);
        let mut n_images = 0;
        let mut n_bytes = 0;
        for part in resumed.messages.iter().flat_map(|message| &message.parts) {
            let What::Block(node, at) = part.what else { continue };
            let Some(block) = facts.blocks_of(node as usize).get(at as usize) else { continue };
            // Thinking of turns that are over does not count, and not every client sends it.
            if !part.sort.is_thinking() {
                n_bytes += u64::from(block.len - block.media.min(block.len));
            }
            match part.sort {
                Sort::Unsigned if is_of_claude(facts, node) => {
                    let detail = "the API asks for the signature of thinking";
                    self.refused_part(facts, client, part, Kind::UnsignedThinking, detail);
                }
                Sort::Blank | Sort::Empty => {
                    let detail = "the API refuses a text without words";
                    self.refused_part(facts, client, part, Kind::BlankText, detail);
                }
                Sort::Media => {
                    n_images += 1;
                    if block.media > MAX_IMAGE {
                        let detail = "the API takes pictures of up to 5 MB";
                        self.refused_part(facts, client, part, Kind::ImageTooLarge, detail);
                    }
                }
                _ => {}
            }
        }
        if n_images > MAX_IMAGES {
            let detail = || format!("{n_images} pictures; the API takes {MAX_IMAGES} in one request");
            self.add_for(client, None, Kind::TooManyImages, Severity::Refuses, &detail);
        }
        if n_bytes > MAX_BYTES {
            let detail = || too_long(n_bytes);
            self.add_for(client, None, Kind::ContextTooLong, Severity::Refuses, &detail);
        }
    }

    fn refused_part(&mut self, facts: &Facts, client: Client, part: &Part, kind: Kind, detail: &'static str) {
        let line = part.what.node().map(|node| facts.place(node).line);
        self.add_for(client, line, kind, Severity::Refuses, &|| detail.to_owned());
    }

    /// Every call is answered once in the message behind it, and nothing else is.
    fn pairing(&mut self, facts: &Facts, client: Client, messages: &[Sent]) {
        let mut made: FxHashSet<u32> = FxHashSet::default();
        for (at, message) in messages.iter().enumerate() {
            let next = messages.get(at + 1).filter(|next| !next.assistant);
            let calls_in = |message: Option<&Sent>, sort: Sort| -> FxHashSet<u32> {
                let parts = message.into_iter().flat_map(|message| &message.parts);
                parts.filter(|part| part.sort == sort).map(|part| part.call).collect()
            };
            if message.assistant {
                let answered = calls_in(next, Sort::Result);
                for part in message.parts.iter().filter(|part| part.sort == Sort::Call) {
                    if !answered.contains(&part.call) {
                        let detail = "the API asks for a result behind each call";
                        self.refused_part(facts, client, part, Kind::OpenCall, detail);
                    }
                    if !made.insert(part.call) {
                        let detail = "the API takes a call's id once";
                        self.refused_part(facts, client, part, Kind::RepeatedCall, detail);
                    }
                }
                continue;
            }
            let before = at.checked_sub(1).map(|before| &messages[before]).filter(|m| m.assistant);
            let called = calls_in(before, Sort::Call);
            let mut answered = FxHashSet::default();
            for part in message.parts.iter().filter(|part| part.sort == Sort::Result) {
                if part.call().is_none() || !called.contains(&part.call) {
                    let kind = if part.call().is_some() { Kind::MisplacedResult } else { Kind::OrphanResult };
                    let detail = "the API asks for the call right before its result";
                    self.refused_part(facts, client, part, kind, detail);
                } else if !answered.insert(part.call) {
                    let detail = "the API takes one result for a call";
                    self.refused_part(facts, client, part, Kind::SeveralResults, detail);
                }
            }
        }
    }
}

/// Other models do without signatures.
fn is_of_claude(facts: &Facts, node: u32) -> bool {
    let model = facts.nodes[node as usize].model;
    model == u16::MAX || facts.models.name(model).starts_with("claude")
}
