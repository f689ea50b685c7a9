//! Searches logs without the index, or what is not in it yet.

use std::io;

use rethread_log::{Defect, Entry, EntryContent, Line, Sink};
use rethread_model::{LogSummary, MessageNo, MessagePlace, NodeId, Session, TextSource, entry_texts};
use rethread_store::SessionFile;

use super::candidates::{Candidate, MatchMasks};
use super::is_file_meant;
use super::prefilter::Prefilter;
use super::scope::{accepts_log, is_any_meant, is_in_time};
use crate::extract::millis;
use crate::matcher::QueryMatcher;
use crate::query::Query;
use crate::snapshot::IndexSnapshot;
use crate::state::{LogState, ReadLog, lock_if_large, read_log};
use crate::sync::Describe;

/// A log that was searched without the index, as a whole or from an offset on.
#[derive(Debug)]
pub struct ScannedLog {
    pub(super) file: SessionFile,
    pub(super) summary: LogSummary,
    /// The texts before this offset are in the index.
    pub(super) from: u64,
    /// The messages that match a part of the query. The number of the log is not known yet.
    pub(super) candidates: Vec<Candidate>,
    /// The place and the first line of each message.
    pub(super) messages: Vec<(MessagePlace, u32)>,
}

/// Scans logs for one query.
pub struct LogScanner<'s> {
    query: &'s Query,
    matcher: QueryMatcher<'s>,
    prefilter: Option<Prefilter>,
    describe: &'s Describe<'s>,
    is_project: &'s (dyn Fn(&str, &str) -> bool + Sync),
}

impl<'s> LogScanner<'s> {
    /// Prepares the search for a query.
    pub fn new(
        query: &'s Query,
        describe: &'s Describe<'s>,
        is_project: &'s (dyn Fn(&str, &str) -> bool + Sync),
    ) -> Self {
        Self {
            query,
            matcher: QueryMatcher::new(query),
            prefilter: Prefilter::new(query),
            describe,
            is_project,
        }
    }

    /// Scans a whole log; returns `None` if nothing in it matches.
    pub fn scan(&self, file: &SessionFile) -> io::Result<Option<ScannedLog>> {
        let _turn = lock_if_large(file);
        if !self.may_match(file)? {
            return Ok(None);
        }
        self.scan_from(file, LogState::default(), 0)
    }

    /// Scans what is not in the index of a log that has grown; returns the log also if nothing in it matches.
    pub fn scan_tail(
        &self,
        snapshot: &IndexSnapshot,
        file: &SessionFile,
    ) -> Result<Option<ScannedLog>, io::Error> {
        // What was appended can decide whether the filters on sessions accept what was there before.
        if self.query.filters.has_session_filters() {
            return self.scan(file);
        }
        let _turn = lock_if_large(file);
        match snapshot.indexed_part(file) {
            Some(part) => self.scan_from(file, part.state, part.text_end),
            None => self.scan_from(file, LogState::default(), 0),
        }
    }

    /// Returns whether any line of a log may match.
    fn may_match(&self, file: &SessionFile) -> io::Result<bool> {
        let Some(prefilter) = &self.prefilter else { return Ok(true) };
        rethread_store::any_piece(file, &mut |piece| prefilter.may_match(piece))
    }

    fn scan_from(&self, file: &SessionFile, state: LogState, from: u64) -> io::Result<Option<ScannedLog>> {
        let read = read_log(file, state, false)?;
        if read.has_later_parent(from) {
            return self.scan_from(file, LogState::default(), 0);
        }
        let file = &read.as_read(file);
        let summary = (self.describe)(file, &read.session);
        if !accepts_log(&self.query.filters, file, &summary, self.is_project) {
            return Ok(None);
        }
        let candidates = self.candidates(&read, &summary, from)?;
        if candidates.is_empty() && from == 0 {
            return Ok(None);
        }
        let facts = &read.session.facts;
        let places = read.session.message_places();
        let line = |n: MessageNo| facts.location(facts.messages[n].first_node).line;
        let messages = places.iter_enumerated().map(|(n, place)| (*place, line(n))).collect();
        Ok(Some(ScannedLog { file: file.clone(), summary, from, candidates, messages }))
    }

    fn candidates(&self, read: &ReadLog, summary: &LogSummary, from: u64) -> io::Result<Vec<Candidate>> {
        let facts = &read.session.facts;
        let start = read.line_before(from)?;
        let mut sink = MatchSink {
            scanner: self,
            session: &read.session,
            from,
            next: facts.nodes.as_slice().partition_point(|node| facts.locations[node.entry].offset < start),
            session_time: summary.summary.modified.map(rethread_model::Time::millis),
            found: Vec::new(),
        };
        match &self.prefilter {
            Some(filter) => read.for_each_piece_from(from, |piece, scanner| {
                let mut lines = filter.lines();
                scanner.scan_lines_where(|rest| lines.find(rest), piece, &mut sink);
            })?,
            None => read.scan_from(from, &mut sink)?,
        }
        let mut found = sink.found;
        found.extend(self.title_candidate(summary));
        if !self.query.filters.files.is_empty() && !self.touches_files(read) {
            found.clear();
        }
        Ok(found)
    }

    /// Returns the candidate for the title of a session. A title that is its first prompt is found there.
    fn title_candidate(&self, summary: &LogSummary) -> Option<Candidate> {
        let title = &summary.summary.title;
        let filters = &self.query.filters;
        let is_searched = filters.sources.contains(TextSource::Title)
            && filters.tools.is_empty()
            && title.source < rethread_model::TitleSource::FirstPrompt;
        let time = summary.summary.modified.map(rethread_model::Time::millis);
        let is_in_limits = (filters.since.is_none() && filters.until.is_none())
            || time.is_some_and(|time| is_in_time(filters, time));
        if !is_searched || !is_in_limits {
            return None;
        }
        let (masks, score) = self.match_text(&title.text)?;
        Some(Candidate {
            log: 0,
            message_n: 0,
            key: rethread_model::MessageKey::from_u64(0),
            masks,
            score,
            source: TextSource::Title,
            offset: 0,
            block: 0,
            time,
            all: self.query.all_groups(),
        })
    }

    /// Returns whether a call of a session names one of the wanted files.
    fn touches_files(&self, read: &ReadLog) -> bool {
        let names = crate::names::NameTable::default();
        let rows = crate::extract::collect_texts(read, 0, &names, |_| {}).unwrap_or_default();
        let wanted = &self.query.filters.files;
        rows.files.iter().any(|file| wanted.iter().any(|value| is_file_meant(&value.text, &file.path)))
    }

    /// Compares a text with the query; returns `None` if it has nothing to do with it.
    fn match_text(&self, text: &str) -> Option<(MatchMasks, f32)> {
        let query = self.query;
        if query.is_empty() {
            return Some((MatchMasks { groups: 1, in_one_block: 1, ..MatchMasks::default() }, 1.0));
        }
        let matches = self.matcher.find(text);
        let mut masks = MatchMasks::default();
        if query.groups.is_empty() {
            // Only excluded words: every other message is a match.
            masks.groups = 1;
        }
        for (at, group) in query.groups.iter().enumerate() {
            if matches.iter().any(|found| group.contains(&found.clause)) {
                masks.groups |= 1 << at;
            }
        }
        masks.in_one_block = masks.groups;
        masks.is_excluded = matches.iter().any(|found| query.excluded.contains(&found.clause));
        masks.has_phrase = matches.iter().any(|found| Some(found.clause) == query.whole_phrase);
        if masks == MatchMasks::default() {
            return None;
        }
        // Rare words are not known without an index; more of them in a shorter text are better.
        let n = matches.len() as f32;
        let score = n / (n + 1.0) * (1.0 + 1000.0 / (1000.0 + text.len() as f32));
        Some((masks, score))
    }
}

/// Compares the texts of a log with a query.
struct MatchSink<'a> {
    scanner: &'a LogScanner<'a>,
    session: &'a Session,
    from: u64,
    /// The position of the next node.
    next: usize,
    session_time: Option<i64>,
    found: Vec<Candidate>,
}

impl Sink for MatchSink<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if entry.content != EntryContent::Object {
            return;
        }
        let facts = &self.session.facts;
        let offset_of =
            |at: usize| facts.nodes.as_slice().get(at).map(|node| facts.locations[node.entry].offset);
        while offset_of(self.next).is_some_and(|offset| offset < entry.offset) {
            self.next += 1;
        }
        let is_node = offset_of(self.next) == Some(entry.offset) && entry.offset >= self.from;
        if is_node {
            self.add(NodeId::from_index(self.next), entry, line);
        }
    }

    fn defect(&mut self, _: Defect) {}
}

impl MatchSink<'_> {
    fn add(&mut self, node: NodeId, entry: &Entry<'_>, line: &Line) {
        let facts = &self.session.facts;
        let filters = &self.scanner.query.filters;
        let Some(texts) = entry_texts(facts, node, line, entry.raw) else { return };
        let time = millis(facts, node);
        let has_limits = filters.since.is_some() || filters.until.is_some();
        let in_time = || time.or(self.session_time).is_some_and(|time| is_in_time(filters, time));
        if has_limits && !in_time() {
            return;
        }
        let model = texts.message.and_then(|n| facts.messages[n].model);
        let model = model.map_or("", |model| facts.models.name(model));
        for text in &texts.texts {
            let tool = || text.call.map_or("", |call| facts.tools.name(facts.calls[call].tool));
            let is_by_model =
                matches!(text.source, TextSource::Answer | TextSource::Thinking | TextSource::Input);
            let is_of_tool = || text.call.is_some() && is_any_meant(&filters.tools, tool(), false);
            let passes = filters.sources.contains(text.source)
                && (filters.tools.is_empty() || is_of_tool())
                && (!is_by_model || is_any_meant(&filters.models, model, true));
            let matched = if passes { self.scanner.match_text(&text.text) } else { None };
            let Some((masks, score)) = matched else { continue };
            let candidate = Candidate {
                log: 0,
                message_n: texts.message.map_or(0, MessageNo::get),
                key: texts.key,
                masks,
                score,
                source: text.source,
                offset: entry.offset,
                block: text.block,
                time,
                all: self.scanner.query.all_groups(),
            };
            match self.found.last_mut() {
                Some(last) if last.is_same_message(&candidate) => last.merge(&candidate),
                _ => self.found.push(candidate),
            }
        }
    }
}
