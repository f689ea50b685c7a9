//! Names of messages: numbers, anchors and uuids.
//!
//! A number is short, and stays the same while a log grows. An anchor also finds the copies of a message in clones, forks
//! and resumed files. A uuid is what the log itself uses.

use std::fmt;

use rethread_log::Line;

use crate::facts::Role;
use crate::index::{MessageNo, NodeId};
use crate::search_text::{MessageKey, entry_texts, message_before};
use crate::view::Reader;

/// A name of a message, as typed: its number (`12` or `#12`), its anchor, or the uuid of one of its entries or the
/// beginning of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageName(String);

/// The number of digits from which a number that names no message can be the beginning of a uuid.
const MIN_UUID_DIGITS: usize = 8;

/// The number of entries that are collected for an ambiguous name.
const MAX_CANDIDATES: usize = 100;

impl MessageName {
    /// Returns the number that is named; `None` for any other name.
    pub fn number(&self) -> Option<MessageNo> {
        let text = self.0.strip_prefix('#').unwrap_or(&self.0);
        text.parse().ok().and_then(MessageNo::new)
    }

    /// Returns whether it is written as a number.
    pub fn is_numeric(&self) -> bool {
        let digits = self.0.strip_prefix('#').unwrap_or(&self.0);
        !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
    }

    /// Returns whether only a message number is meant.
    fn is_only_a_number(&self) -> bool {
        self.0.starts_with('#') || self.is_numeric() && self.0.len() < MIN_UUID_DIGITS
    }
}

impl From<&str> for MessageName {
    fn from(text: &str) -> Self {
        Self(text.trim().to_owned())
    }
}

impl From<MessageNo> for MessageName {
    fn from(n: MessageNo) -> Self {
        Self(n.to_string())
    }
}

/// A number as it is, any other name in backticks.
impl fmt::Display for MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_numeric() {
            true => f.write_str(self.0.strip_prefix('#').unwrap_or(&self.0)),
            false => write!(f, "`{}`", self.0),
        }
    }
}

/// The reason why a name does not stand for one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageNameError {
    /// No message has this name.
    NotFound,
    /// The uuids of entries of several messages begin so: the uuids, at most 100, and their messages.
    Ambiguous(Vec<(String, MessageNo)>),
}

impl Reader<'_> {
    /// Finds the message with a name. An entry between messages stands for the message before it.
    pub fn find_message(&self, name: &MessageName) -> Result<MessageNo, MessageNameError> {
        let is_known = |n: &MessageNo| self.session.facts.messages.get(*n).is_some();
        if let Some(n) = name.number().filter(is_known) {
            return Ok(n);
        }
        if name.is_only_a_number() || name.0.is_empty() {
            return Err(MessageNameError::NotFound);
        }
        let anchored = MessageKey::parse(&name.0).and_then(|key| self.message_with_key(key));
        anchored.map_or_else(|| self.message_with_uuid(&name.0), Ok)
    }

    /// Returns the anchor of a message: the same in all copies of it.
    pub fn anchor_of(&self, message: MessageNo) -> MessageKey {
        let facts = &self.session.facts;
        let node = facts.messages[message].first_node;
        let mut line = Line::default();
        let raw = self.parse_node(node, &mut line);
        let texts = entry_texts(facts, node, &line, raw);
        texts.map_or_else(|| MessageKey::of_textless(facts, node), |texts| texts.key)
    }

    /// Returns the first message with a key.
    fn message_with_key(&self, key: MessageKey) -> Option<MessageNo> {
        let facts = &self.session.facts;
        let mut line = Line::default();
        facts.nodes.keys().find_map(|node| {
            let fact = &facts.nodes[node];
            // The key of an answer with an id does not depend on its text.
            if fact.role == Role::Assistant && MessageKey::of_textless(facts, node) == key {
                return fact.message();
            }
            let raw = self.parse_node(node, &mut line);
            match entry_texts(facts, node, &line, raw) {
                Some(texts) => texts.message.filter(|_| texts.key == key),
                None => fact.message().filter(|_| MessageKey::of_textless(facts, node) == key),
            }
        })
    }

    /// Returns the message of the only entries whose uuids begin so, or whose uuid is equal.
    fn message_with_uuid(&self, beginning: &str) -> Result<MessageNo, MessageNameError> {
        let facts = &self.session.facts;
        let message_of = |node: NodeId| facts.nodes[node].message().or_else(|| message_before(facts, node));
        let mut found: Vec<(String, MessageNo)> = Vec::new();
        for node in facts.nodes.keys() {
            let uuid = self.uuid(node);
            let begins =
                uuid.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning));
            let Some(message) = message_of(node).filter(|_| begins) else { continue };
            if uuid.len() == beginning.len() {
                return Ok(message);
            }
            if found.iter().all(|(_, known)| *known != message) && found.len() < MAX_CANDIDATES {
                found.push((uuid, message));
            }
        }
        match found[..] {
            [] => Err(MessageNameError::NotFound),
            [(_, message)] => Ok(message),
            _ => Err(MessageNameError::Ambiguous(found)),
        }
    }
}
