//! What changes in one entry, and which rule changes it.

use std::collections::BTreeMap;

use rethread_log::Span;

use super::{Rule, media};
use crate::splice::{include_commas, member_start};

/// Changes of one entry.
#[derive(Default)]
pub(super) struct EntryChanges {
    /// What replaces which bytes, and why.
    pub(super) replacements: Vec<(usize, usize, Vec<u8>, Option<Rule>)>,
    /// Members of objects and items of lists that go, with their commas.
    pub(super) removals: Vec<(usize, usize, Rule)>,
    /// How much of what another rule takes is data.
    pub(super) media_bytes: Vec<(Rule, u64)>,
}

impl EntryChanges {
    pub(super) fn replace(&mut self, span: Span, with: Vec<u8>, rule: Rule) {
        self.replacements.push((span.start(), span.start() + span.len(), with, Some(rule)));
    }

    /// A rule takes a value that may hold data: that is told as data.
    pub(super) fn count_media(&mut self, value: &[u8], rule: Rule) {
        let bytes = media::media_len(value);
        if bytes > 0 {
            self.media_bytes.push((rule, bytes));
        }
    }

    /// Takes a member of an object out, by its value.
    pub(super) fn remove_field(&mut self, raw: &[u8], value: Span, rule: Rule) {
        let name = member_start(raw, value);
        self.removals.push((name, value.start() + value.len(), rule));
    }

    /// Takes an item out of a list.
    pub(super) fn remove_item(&mut self, item: Span, rule: Rule) {
        self.removals.push((item.start(), item.start() + item.len(), rule));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.replacements.is_empty() && self.removals.is_empty()
    }

    /// Adds the commas to what goes.
    fn resolve_removals(&mut self, raw: &[u8]) {
        self.removals.sort_unstable_by_key(|&(start, end, _)| (start, end));
        let places: Vec<(usize, usize)> = self.removals.iter().map(|&(start, end, _)| (start, end)).collect();
        for ((start, end), (.., rule)) in include_commas(raw, &places).into_iter().zip(&self.removals) {
            self.replacements.push((start, end, Vec::new(), Some(*rule)));
        }
        self.removals.clear();
    }

    /// Writes an entry with its changes; tells what each rule took. The entry may be very long, so it is written where
    /// it is wanted.
    pub(super) fn write(&mut self, raw: &[u8], by_rule: &mut BTreeMap<&'static str, u64>, out: &mut Vec<u8>) {
        self.resolve_removals(raw);
        // Of changes that overlap the outer one counts.
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
