//! The changes to one entry, each with the rule that makes it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use rethread_log::Span;

use super::{Rule, media};
use crate::splice::{include_commas, member_start};

/// A replaced range of an entry.
struct ReplacedRange {
    range: Range<usize>,
    with: Vec<u8>,
    /// The rule that the saved bytes count for; `None` for ids.
    rule: Option<Rule>,
}

/// The pending changes to one entry.
#[derive(Default)]
pub(super) struct EntryChanges {
    replacements: Vec<ReplacedRange>,
    /// Object members and array items to remove; their commas are added later.
    removals: Vec<(usize, usize, Rule)>,
    /// Bytes of media in values that another rule removes.
    media_bytes: Vec<(Rule, u64)>,
}

impl EntryChanges {
    pub(super) fn replace(&mut self, span: Span, with: Vec<u8>, rule: Rule) {
        self.replacements.push(ReplacedRange { range: span.range(), with, rule: Some(rule) });
    }

    /// Replaces a reference to another entry.
    pub(super) fn replace_reference(&mut self, range: Range<usize>, with: Vec<u8>) {
        self.replacements.push(ReplacedRange { range, with, rule: None });
    }

    /// Counts the media in a value that `rule` removes, so that the report attributes it to media.
    pub(super) fn count_media(&mut self, value: &[u8], rule: Rule) {
        let bytes = media::media_len(value);
        if bytes > 0 {
            self.count_media_bytes(bytes, rule);
        }
    }

    /// Attributes bytes that `rule` removes to media.
    pub(super) fn count_media_bytes(&mut self, bytes: u64, rule: Rule) {
        self.media_bytes.push((rule, bytes));
    }

    /// Removes a member of an object, given the span of its value.
    pub(super) fn remove_field(&mut self, raw: &[u8], value: Span, rule: Rule) {
        self.removals.push((member_start(raw, value), value.end(), rule));
    }

    /// Removes an item of an array.
    pub(super) fn remove_item(&mut self, item: Span, rule: Rule) {
        self.removals.push((item.start(), item.end(), rule));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replacements.is_empty() && self.removals.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.replacements.clear();
        self.removals.clear();
        self.media_bytes.clear();
    }

    /// Turns removals into replacements that include their commas.
    fn resolve_removals(&mut self, raw: &[u8]) {
        self.removals.sort_unstable_by_key(|&(start, end, _)| (start, end));
        let places: Vec<(usize, usize)> = self.removals.iter().map(|&(start, end, _)| (start, end)).collect();
        for ((start, end), (.., rule)) in include_commas(raw, &places).into_iter().zip(&self.removals) {
            let removed = ReplacedRange { range: start..end, with: Vec::new(), rule: Some(*rule) };
            self.replacements.push(removed);
        }
        self.removals.clear();
    }

    /// Writes an entry with its changes and adds the bytes that each rule removed to `by_rule`. The entry may be very
    /// long, so it is written directly to `out`.
    pub(super) fn write(&mut self, raw: &[u8], by_rule: &mut BTreeMap<&'static str, u64>, out: &mut Vec<u8>) {
        self.resolve_removals(raw);
        // When changes overlap, the outer one wins.
        self.replacements.sort_by_key(|change| (change.range.start, Reverse(change.range.end)));
        let mut done = 0;
        for ReplacedRange { range, with, rule } in self.replacements.drain(..) {
            if range.start < done {
                continue;
            }
            out.extend_from_slice(&raw[done..range.start]);
            out.extend_from_slice(&with);
            if let Some(rule) = rule {
                *by_rule.entry(rule.name()).or_default() += range.len().saturating_sub(with.len()) as u64;
            }
            done = range.end;
        }
        out.extend_from_slice(&raw[done..]);
        for (rule, bytes) in self.media_bytes.drain(..) {
            let removed = by_rule.entry(rule.name()).or_default();
            *removed = removed.saturating_sub(bytes);
            *by_rule.entry(Rule::Media.name()).or_default() += bytes;
        }
    }
}
