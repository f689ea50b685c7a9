//! Repairs envelopes: ids, times and models of entries.

use rethread_model::{FindingKind, NodeId, Role};
use rustc_hash::FxHashMap;

use super::{ChangeCause, PathItem, Plan, deterministic_uuid, in_tree};

impl<'a> Plan<'a> {
    /// Keeps the last of several entries with one uuid, in the place of the first.
    pub(super) fn repair_duplicates(&mut self) {
        let mut last_of: FxHashMap<NodeId, NodeId> = FxHashMap::default();
        let n = if self.by_uid.is_empty() { 0 } else { self.facts.nodes.len() };
        for node in self.facts.nodes.keys().take(n) {
            let first = self.first_with_uuid(node);
            if first != node && in_tree(self.node(node)) {
                // An entry that cannot be sent does not replace one that can.
                let fact = self.node(node);
                if !fact.is_conversation() || !fact.flags.lacks_message() && !self.has_invalid_content(node) {
                    last_of.insert(first, node);
                }
                self.drop_entry(node, FindingKind::DuplicateUuid);
            }
        }
        for (first, last) in last_of {
            if self.reader.entry_bytes(self.node(first).entry).trim_ascii()
                != self.reader.entry_bytes(self.node(last).entry).trim_ascii()
            {
                let cause = ChangeCause { kind: FindingKind::DuplicateUuid, node: last };
                self.edit_because(first, cause).replaced_by = Some(last);
            }
        }
        if self.by_uid.is_empty() {
            return;
        }
        // The path contains the last one; it moves to the place of the first.
        for item in &mut self.path {
            if let PathItem::Source(node) = item {
                *node = self.by_uid.get(&self.facts.nodes[*node].uid).copied().unwrap_or(*node);
            }
        }
    }

    /// Repairs envelopes: entries need an id, a message and a time; answers need a message id and a model.
    pub(super) fn repair_envelopes(&mut self) {
        let mut before = self.facts.nodes.iter().find_map(|fact| fact.time);
        for (node, &on_path) in self.on_path().iter_enumerated() {
            let fact = self.node(self.content_node(node));
            let flags = fact.flags;
            if fact.time.is_some() {
                before = fact.time;
            } else if fact.is_conversation() && !on_path && !self.is_dropped(node) {
                // Some clients fail on a leaf without a time, on any branch.
                if let Some(iso) = before.and_then(|time| time.to_iso()) {
                    self.edit(node, FindingKind::NoTime).time = Some(iso);
                }
            }
            if self.node(node).is_conversation() && flags.lacks_message() {
                self.drop_entry(node, FindingKind::Incomplete);
            } else if self.node(node).is_conversation()
                && !flags.is_sidechain()
                && self.has_invalid_content(node)
            {
                // Clients that collect the entries of a message fail on it, on any branch.
                self.drop_entry(node, FindingKind::InvalidContent);
            } else if flags.lacks_uuid() {
                self.edit(node, FindingKind::Incomplete).uuid =
                    Some(deterministic_uuid(&format!("uuid {node}")));
            }
        }
        let path = self.path_nodes();
        let timed = path.iter().find_map(|&node| self.node(node).time);
        let mut time = timed.or_else(|| path.first().and_then(|&first| self.time_of(first)));
        let mut model: Option<&str> = None;
        let first_model = path.iter().find_map(|&node| self.model_of(node));
        for node in path {
            let fact = *self.node(self.content_node(node));
            if fact.time.is_none() {
                if let Some(iso) = time.and_then(|time| time.to_iso()) {
                    self.edit(node, FindingKind::NoTime).time = Some(iso);
                }
            } else {
                time = fact.time;
            }
            if self.is_dropped(node) {
                continue;
            }
            if fact.role != Role::Assistant {
                if fact.role == Role::Attachment && fact.flags.is_fatal_attachment() {
                    self.drop_entry(node, FindingKind::InvalidAttachment);
                }
                continue;
            }
            match self.model_of(node) {
                Some(own) => model = Some(own),
                None if fact.flags.lacks_model() => {
                    let taken = model.or(first_model).unwrap_or("<synthetic>").to_owned();
                    self.edit(node, FindingKind::NoModel).model = Some(taken);
                }
                None => {}
            }
        }
    }

    /// Returns whether the newest client would reject the content of an entry.
    pub(super) fn has_invalid_content(&self, node: NodeId) -> bool {
        self.facts.has_invalid_content(self.content_node(node))
    }

    fn model_of(&self, node: NodeId) -> Option<&'a str> {
        self.facts.model_of(self.content_node(node)).filter(|&model| model != "<synthetic>")
    }
}
