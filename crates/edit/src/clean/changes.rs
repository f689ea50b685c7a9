//! The changes to one entry, each with the rule that makes it.

use std::collections::BTreeMap;

use rethread_log::Span;

use super::{Rule, media};
use crate::splice::{include_commas, member_start};

/// The pending changes to one entry.
#[derive(Default)]
pub(super) struct EntryChanges {
    /// Byte ranges (start, end) with their replacement and the rule that asked for it.
    pub(super) replacements: Vec<(usize, usize, Vec<u8>, Option<Rule>)>,
    /// Object members and array items to remove; their commas are added later.
    pub(super) removals: Vec<(usize, usize, Rule)>,
    /// Bytes of media in values that another rule removes.
    pub(super) media_bytes: Vec<(Rule, u64)>,
}

impl EntryChanges {
    pub(super) fn replace(&mut self, span: Span, with: Vec<u8>, rule: Rule) {
        self.replacements.push((span.start(), span.start() + span.len(), with, Some(rule)));
    }

    /// Counts the media in a value that `rule` removes, so that the report attributes it to media.
    pub(super) fn count_media(&mut self, value: &[u8], rule: Rule) {
        let bytes = media::media_len(value);
        if bytes > 0 {
            self.media_bytes.push((rule, bytes));
        }
    }

    /// Removes a member of an object, given the span of its value.
    pub(super) fn remove_field(&mut self, raw: &[u8], value: Span, rule: Rule) {
        let name = member_start(raw, value);
        self.removals.push((name, value.start() + value.len(), rule));
    }

    /// Removes an item of an array.
    pub(super) fn remove_item(&mut self, item: Span, rule: Rule) {
        self.removals.push((item.start(), item.start() + item.len(), rule));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replacements.is_empty() && self.removals.is_empty()
    }

    /// Turns removals into replacements that include their commas.
    fn resolve_removals(&mut self, raw: &[u8]) {
        self.removals.sort_unstable_by_key(|&(start, end, _)| (start, end));
        let places: Vec<(usize, usize)> = self.removals.iter().map(|&(start, end, _)| (start, end)).collect();
        for ((start, end), (.., rule)) in include_commas(raw, &places).into_iter().zip(&self.removals) {
            self.replacements.push((start, end, Vec::new(), Some(*rule)));
        }
        self.removals.clear();
    }

    /// Writes an entry with its changes and adds the bytes that each rule removed to `by_rule`. The entry may be very
    /// long, so it is written directly to `out`.
    pub(super) fn write(&mut self, raw: &[u8], by_rule: &mut BTreeMap<&'static str, u64>, out: &mut Vec<u8>) {
        self.resolve_removals(raw);
        // When changes overlap, the outer one wins.
        self.replacements.sort_by_key(|change| (change.0, std::cmp::Reverse(change.1)));
        let mut at = 0;
        for (start, end, with, rule) in self.replacements.drain(..) {
            if start < at {
                continue;
            }
            out.extend_from_slice(&raw[at..start]);
            out.extend_from_slice(&with);
            if let Some(rule) = rule {
                let taken = ((end - start) as u64).saturating_sub(with.len() as u64);
                *by_rule.entry(rule.name()).or_default() += taken;
            }
            at = end;
        }
        out.extend_from_slice(&raw[at..]);
        for (rule, bytes) in self.media_bytes.drain(..) {
            let taken = by_rule.entry(rule.name()).or_default();
            *taken = taken.saturating_sub(bytes);
            *by_rule.entry(Rule::Media.name()).or_default() += bytes;
        }
    }
}
