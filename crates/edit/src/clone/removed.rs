//! Entries that a clone left out, kept in a sidecar.
//!
//! Each line of the sidecar is one original entry with the number of its message in the source: that number never
//! changes, so a summary can refer to it.

use rethread_log::Json;
use rethread_model::{MessageNo, NodeId};

use super::PreparedClone;
use crate::source::Window;

/// An entry that was left out or shortened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedEntry {
    /// The number of its message in the source.
    pub message: Option<MessageNo>,
    /// Its line in the source.
    pub line: u32,
    /// The original entry, with the ids of the clone.
    pub entry: Vec<u8>,
}

impl RemovedEntry {
    /// Encodes it as a line of the sidecar.
    pub fn to_line(&self) -> Vec<u8> {
        let message = self.message.map_or("null".to_owned(), |n| n.to_string());
        let mut line = format!("{{\"message\":{message},\"line\":{},\"entry\":", self.line).into_bytes();
        line.extend_from_slice(self.entry.trim_ascii());
        line.extend_from_slice(b"}\n");
        line
    }

    /// Parses a line of a sidecar.
    pub fn from_line(line: &[u8]) -> Option<Self> {
        let json = Json::new(line.trim_ascii());
        let entry = json.get("entry").filter(|entry| entry.is_object())?.raw().to_vec();
        let number = |key: &str| json.get(key).and_then(Json::as_u64);
        Some(Self {
            message: number("message").and_then(|n| MessageNo::new(u32::try_from(n).ok()?)),
            line: number("line").and_then(|n| u32::try_from(n).ok())?,
            entry,
        })
    }
}

impl PreparedClone<'_> {
    /// Returns the entries of the conversation that were left out or changed, in file order.
    pub fn removed_entries(&self) -> impl Iterator<Item = RemovedEntry> + '_ {
        let nodes = self.plan.iter().flat_map(|plan| {
            let is_message = |node: &NodeId| plan.node(*node).is_conversation();
            let node_of = move |node: &NodeId| {
                plan.is_dropped(*node) || plan.changes_blocks(*node) || plan.changes_copy(*node)
            };
            plan.facts.nodes.keys().filter(is_message).filter(node_of).map(move |node| (plan, node))
        });
        let names = self.id_map.without_replacements();
        let mut window = Window::default();
        nodes.map(move |(plan, node)| {
            let fact = plan.node(node);
            let raw = window.entry(self.source, fact.entry);
            let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
            let offset = self.source.place(fact.entry).offset + start as u64;
            let mut entry = Vec::with_capacity(raw.len());
            if !raw.is_empty() {
                names.write(&raw[start..], offset, self.source.id_spans_of(fact.entry), &mut entry);
            }
            RemovedEntry { message: fact.message(), line: plan.facts.location(node).line, entry }
        })
    }
}
