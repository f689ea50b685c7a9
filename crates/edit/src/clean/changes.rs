//! What changes in one entry, and which rule changes it.

use std::collections::BTreeMap;

use rethread_log::Span;

use super::{Rule, media};
use crate::splice::{member_start, with_commas};

/// Changes of one entry.
#[derive(Default)]
pub(super) struct Changes {
    /// What replaces which bytes, and why.
    pub(super) all: Vec<(usize, usize, Vec<u8>, Option<Rule>)>,
    /// Members of objects and items of lists that go, with their commas.
    pub(super) gone: Vec<(usize, usize, Rule)>,
    /// How much of what another rule takes is data.
    pub(super) data: Vec<(Rule, u64)>,
}

impl Changes {
    pub(super) fn replace(&mut self, span: Span, with: Vec<u8>, rule: Rule) {
        self.all.push((span.start(), span.start() + span.len(), with, Some(rule)));
    }

    /// A rule takes a value that may hold data: that is told as data.
    pub(super) fn note_data(&mut self, value: &[u8], rule: Rule) {
        let bytes = media::weight(value);
        if bytes > 0 {
            self.data.push((rule, bytes));
        }
    }

    /// Takes a member of an object out, by its value.
    pub(super) fn remove_field(&mut self, raw: &[u8], value: Span, rule: Rule) {
        let name = member_start(raw, value);
        self.gone.push((name, value.start() + value.len(), rule));
    }

    /// Takes an item out of a list.
    pub(super) fn remove_item(&mut self, item: Span, rule: Rule) {
        self.gone.push((item.start(), item.start() + item.len(), rule));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty() && self.gone.is_empty()
    }

    /// Adds the commas to what goes.
    fn join_gone(&mut self, raw: &[u8]) {
        self.gone.sort_unstable_by_key(|&(start, end, _)| (start, end));
        let places: Vec<(usize, usize)> = self.gone.iter().map(|&(start, end, _)| (start, end)).collect();
        for ((start, end), (.., rule)) in with_commas(raw, &places).into_iter().zip(&self.gone) {
            self.all.push((start, end, Vec::new(), Some(*rule)));
        }
        self.gone.clear();
    }

    /// Writes an entry with its changes; tells what each rule took. The entry may be very long, so it is written where
    /// it is wanted.
    pub(super) fn write(&mut self, raw: &[u8], by_rule: &mut BTreeMap<&'static str, u64>, out: &mut Vec<u8>) {
        self.join_gone(raw);
        // Of changes that overlap the outer one counts.
        self.all.sort_by_key(|change| (change.0, std::cmp::Reverse(change.1)));
        let mut at = 0;
        for (start, end, with, rule) in self.all.drain(..) {
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
        for (rule, bytes) in self.data.drain(..) {
            let taken = by_rule.entry(rule.name()).or_default();
            *taken = taken.saturating_sub(bytes);
            *by_rule.entry(Rule::Media.name()).or_default() += bytes;
        }
    }
}
