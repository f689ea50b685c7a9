//! Repairs content into a form that every client accepts: a list of blocks, none of them blank.

use rethread_log::Json;
use rethread_model::{BlockClass, FindingKind, MAX_IMAGE_BYTES, MessageNo, NodeId, Role, Table};

use super::calls::{is_blank, text_block};
use super::{BlockEdit, ContentEdit, Plan};
use crate::splice::{Splice, json_string};

impl Plan<'_> {
    pub(super) fn repair_contents(&mut self) {
        // Older clients fail on `null` blocks, also off the path.
        for node in self.facts.nodes.keys() {
            let side = self.node(node).flags.is_sidechain() || !self.node(node).is_conversation();
            if side || self.is_dropped(node) {
                continue;
            }
            for at in 0..self.facts.blocks_of(self.content_node(node)).len() {
                if self.facts.blocks_of(self.content_node(node))[at].class == BlockClass::Null {
                    self.block_edit_at(node, at, BlockEdit::Remove, FindingKind::InvalidBlock);
                }
            }
        }
        for node in self.path_nodes() {
            let fact = *self.node(self.content_node(node));
            let sent =
                fact.is_conversation() && !fact.flags.lacks_message() && !fact.flags.is_failure_report();
            if !sent || self.is_dropped(node) {
                continue;
            }
            let from = self.content_node(node);
            let flags = self.node(from).flags;
            if flags.has_string_content() {
                self.repair_string_content(node, from, fact.role);
            } else {
                self.repair_blocks(node, from, fact.role);
            }
        }
    }

    /// Repairs content that is not a list.
    fn repair_string_content(&mut self, node: NodeId, from: NodeId, role: Role) {
        let is_text = |block: &rethread_model::Block| block.class == BlockClass::Text;
        if role == Role::User && self.facts.blocks_of(from).iter().any(is_text) {
            return;
        }
        let raw = self.reader.entry_bytes(self.node(from).entry);
        let splice = Splice::new(raw);
        let Some(message) = splice.line.message else { return };
        let content = Json::new(message.content.bytes_in(raw));
        let blank = content.raw_string().is_some_and(is_blank);
        match (role, content.is_string()) {
            (Role::User, true) if blank => {
                let edit = self.edit(node, FindingKind::BlankText);
                edit.content = Some(ContentEdit::Replace(json_string("(no content)")));
                edit.meta = true;
            }
            (Role::User, true) => {}
            (_, true) if blank => self.drop_entry(node, FindingKind::BlankText),
            (_, true) => self.edit(node, FindingKind::InvalidContent).content = Some(ContentEdit::List),
            (_, false) => {}
        }
    }

    fn repair_blocks(&mut self, node: NodeId, from: NodeId, role: Role) {
        let blocks = self.facts.blocks_of(from);
        if blocks.is_empty() {
            return self.drop_entry(node, FindingKind::BlankText);
        }
        let is_valid = |class: BlockClass| {
            matches!(
                class,
                BlockClass::Text
                    | BlockClass::Thinking
                    | BlockClass::RedactedThinking
                    | BlockClass::ToolCall
                    | BlockClass::ToolResult
            )
        };
        let whole = self.edits.get(node).is_none_or(|edit| edit.blocks.is_empty());
        if whole && blocks.iter().all(|block| is_valid(block.class)) {
            return;
        }
        let is_claude = self.facts.model_of(from).is_none_or(|model| model.starts_with("claude"));
        let is_removed = |at: usize| {
            let edit = self.edits.get(node);
            edit.is_some_and(|edit| matches!(edit.blocks.get(&at), Some(BlockEdit::Remove)))
        };
        let removed: Vec<bool> = (0..blocks.len()).map(is_removed).collect();
        let mut n_left = removed.iter().filter(|&&removed| !removed).count();
        for (at, block) in blocks.iter().enumerate().filter(|&(at, _)| !removed[at]) {
            let (edit, why) = match block.class {
                BlockClass::Blank | BlockClass::Empty | BlockClass::NoText => {
                    (BlockEdit::Remove, FindingKind::BlankText)
                }
                BlockClass::Null => (BlockEdit::Remove, FindingKind::InvalidBlock),
                BlockClass::Untyped | BlockClass::BareString => {
                    (self.repair_untyped_block(from, at), FindingKind::InvalidBlock)
                }
                BlockClass::UnsignedThinking if is_claude => {
                    (BlockEdit::Remove, FindingKind::UnsignedThinking)
                }
                BlockClass::Media if block.media_bytes > MAX_IMAGE_BYTES => {
                    let note = format!("[A picture of {} MB stood here.]", block.media_bytes / 1_400_000);
                    (BlockEdit::Replace(text_block(&note)), FindingKind::ImageTooLarge)
                }
                _ => continue,
            };
            if matches!(edit, BlockEdit::Remove) {
                n_left -= 1;
            }
            self.block_edit_at(node, at, edit, why);
        }
        if n_left == 0 {
            let why = self.reason(node).unwrap_or(FindingKind::BlankText);
            if role == Role::User {
                let edit = self.edit(node, why);
                edit.blocks.clear();
                edit.content = Some(ContentEdit::Replace(json_string("(no content)")));
                edit.meta = true;
            } else {
                self.drop_entry(node, why);
            }
        }
    }

    /// Converts a bare string among the blocks to text; removes anything else without a type.
    fn repair_untyped_block(&self, from: NodeId, at: usize) -> BlockEdit {
        let raw = self.reader.entry_bytes(self.node(from).entry);
        let splice = Splice::new(raw);
        let text = splice.line.blocks.get(at).and_then(|b| Json::new(b.whole.bytes_in(raw)).raw_string());
        if text.is_some_and(|text| !is_blank(text)) { BlockEdit::Text } else { BlockEdit::Remove }
    }

    /// Drops entries without content, and answers that contain only thinking.
    pub(super) fn drop_empty_entries(&mut self) {
        let path = self.path_nodes();
        let mut full = Table::filled(false, self.facts.messages.len());
        let mut thinking: Vec<(MessageNo, NodeId)> = Vec::new();
        for node in path {
            let fact = *self.node(node);
            let replaced = self.edits.get(node).is_some_and(|edit| edit.content.is_some());
            if !fact.is_conversation() || self.is_dropped(node) || replaced {
                if let Some(message) = fact.message().filter(|_| replaced) {
                    full[message] = true;
                }
                continue;
            }
            let (any, all_thinking) = self.remaining_content(node);
            if !any && !self.node(self.content_node(node)).flags.has_string_content() {
                let why = self.reason(node).unwrap_or(FindingKind::BlankText);
                self.drop_entry(node, why);
                continue;
            }
            let Some(message) = fact.message().filter(|_| fact.role == Role::Assistant) else { continue };
            if all_thinking {
                thinking.push((message, node));
            } else {
                full[message] = true;
            }
        }
        let lone = thinking.into_iter().filter(|&(message, _)| !full[message]).map(|(_, node)| node);
        let mut lone: Vec<NodeId> = lone.collect();
        lone.sort_unstable();
        for node in lone {
            self.drop_entry(node, FindingKind::LoneThinking);
        }
    }

    /// Returns whether an entry keeps any block, and whether all blocks it keeps are thinking.
    fn remaining_content(&self, node: NodeId) -> (bool, bool) {
        let edit = self.edits.get(node);
        let blocks = self.facts.blocks_of(self.content_node(node)).iter().enumerate();
        let left = blocks.filter_map(|(at, block)| match edit.and_then(|e| e.blocks.get(&at)) {
            Some(BlockEdit::Remove) => None,
            Some(BlockEdit::Replace(_) | BlockEdit::Text | BlockEdit::LostResult) => Some(BlockClass::Text),
            _ => Some(block.class),
        });
        left.fold((false, true), |(_, all), class| (true, all && class.is_thinking()))
    }
}
