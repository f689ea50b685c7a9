//! Turns candidates into ranked hits.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::PoisonError;

use rethread_log::Line;
use rethread_model::{
    Hit, LogSummary, MatchQuality, MessageKey, MessageNo, MessagePlace, SearchResults, SessionHits,
    SessionId, TextSource, Time, entry_block_text,
};
use rethread_store::SessionFile;
use rustc_hash::FxHashMap;

use super::candidates::{Candidate, LogNo, join_messages};
use super::places::OtherPlaces;
use super::scan::ScannedLog;
use super::scope::{ScannedPart, Scope, ScopeError};
use super::segments::find_candidates;
use super::snippet::make_snippet;
use super::{SearchError, SearchOptions};
use crate::catalogue::{Catalogue, LogId, LogRow};
use crate::error::IndexError;
use crate::matcher::QueryMatcher;
use crate::query::Query;
use crate::snapshot::IndexSnapshot;

/// Messages whose numbers differ by no more than this are next to each other.
const NEAR: u32 = 3;

/// Up to this number of copies, places are looked up one by one.
const MAX_LOOKUPS: usize = 2000;

/// A hit before its text is read.
#[derive(Debug, Clone, Copy)]
struct RankedHit {
    candidate: Candidate,
    quality: MatchQuality,
}

/// The logs of a search, in and outside the index.
struct Logs<'s> {
    scope: Option<Scope<'s>>,
    catalogue: Option<Catalogue>,
    scanned: Vec<ScannedLog>,
    /// The scanned logs by their number.
    scanned_by_no: FxHashMap<LogNo, usize>,
}

pub(super) fn search(
    snapshot: Option<IndexSnapshot>,
    query: &Query,
    scanned: Vec<ScannedLog>,
    options: &SearchOptions<'_>,
) -> Result<SearchResults, SearchError> {
    let (mut logs, mut candidates) = match snapshot {
        Some(snapshot) => search_index(snapshot, query, scanned, options)?,
        None => {
            (Logs { scope: None, catalogue: None, scanned, scanned_by_no: FxHashMap::default() }, Vec::new())
        }
    };
    logs.number_scanned(&mut candidates);
    let mut messages = join_messages(candidates);
    if !query.filters.places.is_all() {
        let places = logs.other_places()?;
        messages.retain(|found| query.filters.places.contains(logs.place_in(&places, found)));
    }
    let spread = spread_hits(&messages, query);
    messages.retain(Candidate::is_hit);
    let quality = |candidate: Candidate| RankedHit { candidate, quality: quality_of(&candidate, query) };
    let hits: Vec<RankedHit> = messages.into_iter().map(quality).collect();
    let (hits, copies) = logs.fold_copies(hits)?;
    let sessions = group_by_log(hits, spread);
    let ranked = logs.rank(sessions, options)?;
    Presenter { query, options, logs: &logs, matcher: QueryMatcher::new(query) }.present(ranked, &copies)
}

/// Searches the index, apart from logs that were scanned as a whole.
fn search_index<'q>(
    mut snapshot: IndexSnapshot,
    query: &'q Query,
    scanned: Vec<ScannedLog>,
    options: &SearchOptions<'_>,
) -> Result<(Logs<'q>, Vec<Candidate>), SearchError> {
    let part_of = |at: usize| if scanned[at].from == 0 { ScannedPart::Whole } else { ScannedPart::Tail };
    let parts: FxHashMap<&Path, ScannedPart> =
        (0..scanned.len()).map(|at| (scanned[at].file.path.as_path(), part_of(at))).collect();
    let mut rows: Vec<LogRow> = std::mem::take(&mut snapshot.rows).into_values().collect();
    rows.sort_unstable_by_key(|row| row.id);
    let scope = {
        let scanned_part = |row: &LogRow| match parts.get(row.path.as_path()) {
            Some(&part) => part,
            None if snapshot.is_outdated(row.id) => ScannedPart::Whole,
            None => ScannedPart::Nothing,
        };
        let (catalogue, is_complete) = (snapshot.catalogue(), snapshot.is_complete());
        Scope::new(query, &catalogue, rows, is_complete, &scanned_part, options.is_project)
            .map_err(|error| wrap(error, options.typed))?
    };
    let IndexSnapshot { catalogue, texts, .. } = snapshot;
    let candidates = match &texts {
        Some(texts) => find_candidates(&texts.index, &texts.searcher, query, &scope)?,
        None => Vec::new(),
    };
    let catalogue = Some(catalogue.into_inner().unwrap_or_else(PoisonError::into_inner));
    let logs = Logs { scope: Some(scope), catalogue, scanned, scanned_by_no: FxHashMap::default() };
    Ok((logs, candidates))
}

fn wrap(error: ScopeError, typed: &str) -> SearchError {
    match error.into_query_error(typed) {
        Ok(error) => SearchError::Query(error),
        Err(error) => SearchError::Index(error),
    }
}

fn quality_of(candidate: &Candidate, query: &Query) -> MatchQuality {
    if candidate.masks.has_phrase || query.groups.len() < 2 {
        MatchQuality::Phrase
    } else if candidate.masks.in_one_block == candidate.all {
        MatchQuality::Block
    } else {
        MatchQuality::Message
    }
}

/// Finds the sessions that contain all words only in different messages. For each of them, the message that matches
/// most is the hit. `messages` must be sorted.
fn spread_hits(messages: &[Candidate], query: &Query) -> Vec<RankedHit> {
    if query.groups.len() < 2 {
        return Vec::new();
    }
    let mut found = Vec::new();
    for session in messages.chunk_by(|a, b| a.log == b.log) {
        let parts: Vec<&Candidate> =
            session.iter().filter(|candidate| !candidate.masks.is_excluded).collect();
        let matched = parts.iter().fold(0, |all, candidate| all | candidate.masks.groups);
        if matched != query.all_groups() || parts.iter().any(|candidate| candidate.is_hit()) {
            continue;
        }
        let is_near = parts.iter().enumerate().any(|(at, first)| {
            let near = parts[at..].iter().take_while(|other| other.message_n - first.message_n <= NEAR);
            near.fold(0, |all, candidate| all | candidate.masks.groups) == query.all_groups()
        });
        let rank = |candidate: &&&Candidate| {
            (candidate.masks.groups.count_ones(), Reverse(candidate.source), Reverse(candidate.message_n))
        };
        let quality = if is_near { MatchQuality::Near } else { MatchQuality::Session };
        let best = parts.iter().filter(|candidate| candidate.masks.groups != 0).max_by_key(rank);
        found.extend(best.map(|&&candidate| RankedHit { candidate, quality }));
    }
    found
}

/// The hits of a log.
struct LogHits {
    log: LogNo,
    hits: Vec<RankedHit>,
    /// Set if the words are in different messages.
    is_spread: bool,
}

fn group_by_log(mut hits: Vec<RankedHit>, spread: Vec<RankedHit>) -> Vec<LogHits> {
    hits.sort_by_key(|hit| hit.candidate.log);
    let mut sessions: Vec<LogHits> = hits
        .chunk_by(|a, b| a.candidate.log == b.candidate.log)
        .map(|hits| LogHits { log: hits[0].candidate.log, hits: hits.to_vec(), is_spread: false })
        .collect();
    sessions.extend(spread.into_iter().map(|hit| LogHits {
        log: hit.candidate.log,
        hits: vec![hit],
        is_spread: true,
    }));
    sessions
}

/// The logs with copies of the hits of a log.
type CopiesByLog = BTreeMap<LogNo, Vec<LogNo>>;

impl Logs<'_> {
    fn n_indexed(&self) -> LogNo {
        self.scope.as_ref().map_or(0, |scope| LogNo::try_from(scope.logs.len()).unwrap_or(LogNo::MAX))
    }

    /// Numbers the logs that were scanned, and adds what was found in them.
    fn number_scanned(&mut self, candidates: &mut Vec<Candidate>) {
        let mut next = self.n_indexed();
        for (at, log) in self.scanned.iter().enumerate() {
            // A log that has grown keeps its number.
            let known = self.scope.as_ref().filter(|_| log.from > 0).and_then(|scope| {
                let found = scope.logs.iter().position(|known| known.row.path == log.file.path);
                found.and_then(|no| LogNo::try_from(no).ok())
            });
            let no = known.unwrap_or_else(|| {
                next += 1;
                next - 1
            });
            self.scanned_by_no.insert(no, at);
            candidates.extend(log.candidates.iter().map(|candidate| Candidate { log: no, ..*candidate }));
        }
    }

    fn scanned(&self, log: LogNo) -> Option<&ScannedLog> {
        self.scanned_by_no.get(&log).map(|&at| &self.scanned[at])
    }

    fn id(&self, log: LogNo) -> Option<LogId> {
        self.scope.as_ref().filter(|_| log < self.n_indexed()).map(|scope| scope.id(log))
    }

    fn other_places(&self) -> Result<OtherPlaces, IndexError> {
        self.catalogue.as_ref().map_or(Ok(OtherPlaces::default()), OtherPlaces::read)
    }

    fn place_in(&self, places: &OtherPlaces, found: &Candidate) -> MessagePlace {
        match (self.scanned(found.log), self.id(found.log)) {
            (Some(log), _) => log.place_and_line(found.message_n).0,
            (None, Some(id)) => places.place_of(id, found.message_n),
            (None, None) => MessagePlace::Active,
        }
    }

    /// Returns the place and the line of a message.
    fn place_and_line(&self, log: LogNo, message_n: u32) -> Result<(MessagePlace, Option<u32>), IndexError> {
        if let Some(scanned) = self.scanned(log) {
            return Ok(scanned.place_and_line(message_n));
        }
        let found = match (&self.catalogue, self.id(log)) {
            (Some(catalogue), Some(id)) => catalogue.place_and_line(id, message_n)?,
            _ => None,
        };
        Ok(found.map_or((MessagePlace::Active, None), |(place, line)| (place, Some(line))))
    }

    /// Keeps one of several copies of a message: one on an active path, in the oldest session.
    fn fold_copies(&self, hits: Vec<RankedHit>) -> Result<(Vec<RankedHit>, CopiesByLog), IndexError> {
        let mut first: FxHashMap<MessageKey, usize> = FxHashMap::default();
        first.reserve(hits.len());
        let mut groups: FxHashMap<MessageKey, Vec<usize>> = FxHashMap::default();
        for (at, hit) in hits.iter().enumerate() {
            if hit.candidate.message_n == 0 {
                continue;
            }
            let known = *first.entry(hit.candidate.key).or_insert(at);
            // Two messages of one log are not copies of each other.
            if hits[known].candidate.log != hit.candidate.log {
                groups.entry(hit.candidate.key).or_insert_with(|| vec![known]).push(at);
            }
        }
        if groups.is_empty() {
            return Ok((hits, CopiesByLog::new()));
        }
        let created = self.creation_times()?;
        let n_members: usize = groups.values().map(Vec::len).sum();
        let places = match &self.catalogue {
            Some(catalogue) if n_members <= MAX_LOOKUPS => {
                let members = groups.values().flatten().map(|&at| &hits[at].candidate);
                let members = members.filter_map(|found| Some((self.id(found.log)?, found.message_n)));
                OtherPlaces::of(catalogue, members)?
            }
            _ => self.other_places()?,
        };
        let mut is_copy = vec![false; hits.len()];
        let mut copies = CopiesByLog::new();
        for group in groups.values() {
            let rank = |&&at: &&usize| {
                let found = &hits[at].candidate;
                let time = created.get(&found.log).copied().unwrap_or(i64::MAX);
                let place = self.place_in(&places, found);
                (place != MessagePlace::Active, time, self.path(found.log).to_owned(), found.message_n)
            };
            let Some(&kept) = group.iter().min_by_key(rank) else { continue };
            for &at in group {
                let (other, log) = (hits[at].candidate.log, hits[kept].candidate.log);
                if other != log {
                    is_copy[at] = true;
                    let known = copies.entry(log).or_default();
                    if !known.contains(&other) {
                        known.push(other);
                    }
                }
            }
        }
        let mut at = 0..;
        let mut hits = hits;
        hits.retain(|_| at.next().is_some_and(|at| !is_copy[at]));
        Ok((hits, copies))
    }

    /// Returns the times at which sessions began.
    fn creation_times(&self) -> Result<FxHashMap<LogNo, i64>, IndexError> {
        let mut times: FxHashMap<LogNo, i64> = FxHashMap::default();
        if let (Some(catalogue), Some(scope)) = (&self.catalogue, &self.scope) {
            let by_id = catalogue.creation_times()?;
            for (no, log) in (0..).zip(&scope.logs) {
                times.extend(by_id.get(&log.row.id.0).map(|&time| (no, time)));
            }
        }
        for (&no, &at) in &self.scanned_by_no {
            times.extend(self.scanned[at].summary.summary.created.map(|time| (no, time.millis())));
        }
        Ok(times)
    }

    fn path(&self, log: LogNo) -> &Path {
        match (self.scanned(log), &self.scope) {
            (Some(scanned), _) => &scanned.file.path,
            (None, Some(scope)) => &scope.logs[log as usize].row.path,
            (None, None) => Path::new(""),
        }
    }

    fn session(&self, log: LogNo) -> &str {
        match (self.scanned(log), &self.scope) {
            (Some(scanned), _) => &scanned.file.id,
            (None, Some(scope)) => &scope.logs[log as usize].row.session,
            (None, None) => "",
        }
    }

    fn summary(&self, log: LogNo) -> Result<Option<LogSummary>, IndexError> {
        if let Some(scanned) = self.scanned(log) {
            return Ok(Some(scanned.summary.clone()));
        }
        match (&self.catalogue, self.id(log)) {
            (Some(catalogue), Some(id)) => catalogue.summary(id),
            _ => Ok(None),
        }
    }

    /// Sorts the hits of each session, and the sessions by their best hits.
    fn rank(
        &self,
        sessions: Vec<LogHits>,
        options: &SearchOptions<'_>,
    ) -> Result<RankedSessions, IndexError> {
        let mut ranked = RankedSessions::default();
        for session in &sessions {
            match session.is_spread {
                true => ranked.total_spread += 1,
                false => {
                    ranked.total_sessions += 1;
                    let messages = session.hits.iter().filter(|hit| hit.candidate.message_n > 0).count();
                    ranked.total_messages += messages as u64;
                }
            }
        }
        let best = sessions.iter().flat_map(|session| &session.hits).map(|hit| hit.candidate.score);
        let best = best.fold(0.0, f32::max);
        // The place of a message is looked up only for hits that may be shown.
        let early = |hit: &RankedHit| hit.rank(best, MessagePlace::Active);
        let mut sessions = sessions;
        for session in &mut sessions {
            session.hits.sort_by_cached_key(&early);
        }
        sessions.sort_by_cached_key(|session| early(&session.hits[0]));
        let limit = if options.max_sessions == 0 { sessions.len() } else { options.max_sessions };
        sessions.truncate(limit.saturating_mul(4).max(limit.saturating_add(100)));
        let max_hits = if options.max_hits == 0 { usize::MAX } else { options.max_hits };
        let mut found = Vec::with_capacity(sessions.len());
        for session in sessions {
            let mut placed = Vec::new();
            for hit in session.hits.iter().take(max_hits.saturating_mul(4).max(100)) {
                let (place, line) = self.place_and_line(session.log, hit.candidate.message_n)?;
                placed.push(PlacedHit { hit: *hit, place, line });
            }
            placed.sort_by_cached_key(|placed| placed.hit.rank(best, placed.place));
            placed.truncate(max_hits);
            let total = session.hits.iter().filter(|hit| hit.candidate.message_n > 0).count() as u64;
            let order = placed.first().map(|placed| {
                let id = self.session(session.log).to_owned();
                (placed.hit.rank(best, placed.place), id)
            });
            found.push((order, session.log, placed, total));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        found.truncate(limit);
        ranked.sessions = found.into_iter().map(|(_, log, hits, total)| (log, hits, total)).collect();
        Ok(ranked)
    }
}

/// The sessions that are shown, and the counts of all.
#[derive(Default)]
struct RankedSessions {
    sessions: Vec<(LogNo, Vec<PlacedHit>, u64)>,
    total_messages: u64,
    total_sessions: u64,
    total_spread: u64,
}

/// A hit with its place.
struct PlacedHit {
    hit: RankedHit,
    place: MessagePlace,
    line: Option<u32>,
}

impl RankedHit {
    /// Returns the order of hits, the best first: how well it matches, who wrote it, the words, whether it is on a live
    /// branch, and then the newest.
    fn rank(&self, best: f32, place: MessagePlace) -> impl Ord + use<> {
        /// Scores that differ by less are equal.
        const STEPS: f32 = 12.0;
        let score = if best > 0.0 { (self.candidate.score / best * STEPS).round() } else { 0.0 };
        // Prompts and answers are as important as each other.
        let class = self.candidate.source.max(TextSource::Answer);
        let place = match place {
            MessagePlace::Active => 0,
            MessagePlace::Compacted | MessagePlace::Subagent => 1,
            MessagePlace::Abandoned => 2,
        };
        (
            self.quality,
            class,
            Reverse(score as i32),
            place,
            Reverse(self.candidate.time),
            self.candidate.log,
            self.candidate.message_n,
        )
    }
}

/// Reads the texts of the hits that are shown.
struct Presenter<'p> {
    query: &'p Query,
    options: &'p SearchOptions<'p>,
    logs: &'p Logs<'p>,
    matcher: QueryMatcher<'p>,
}

impl Presenter<'_> {
    fn present(&self, ranked: RankedSessions, copies: &CopiesByLog) -> Result<SearchResults, SearchError> {
        let mut results = SearchResults {
            total_messages: ranked.total_messages,
            total_sessions: ranked.total_sessions,
            total_spread: ranked.total_spread,
            ..SearchResults::default()
        };
        for (log, hits, total) in ranked.sessions {
            let mut summary = self.logs.summary(log)?;
            let row = self.logs.scope.as_ref().and_then(|scope| scope.logs.get(log as usize));
            let path = self.logs.path(log).to_owned();
            if let Some(known) = &mut summary {
                known.summary.path.clone_from(&path);
            }
            let is_deleted = row.is_some_and(|log| log.row.deleted.is_some());
            let reader = match is_deleted {
                true => None,
                false => SessionFile::from_user_path(&path).ok().and_then(|file| file.open().ok()),
            };
            let hits = hits.iter().map(|hit| self.hit(hit, reader.as_ref(), summary.as_ref())).collect();
            let of_copies = copies.get(&log).into_iter().flatten();
            results.sessions.push(SessionHits {
                session: SessionId::from(self.logs.session(log)),
                is_subagent: match (self.logs.scanned(log), row) {
                    (Some(scanned), _) => scanned.file.is_subagent,
                    (None, row) => row.is_some_and(|log| log.row.is_subagent),
                },
                path,
                is_deleted,
                summary,
                hits,
                total,
                copies: of_copies.map(|&log| SessionId::from(self.logs.session(log))).collect(),
            });
        }
        Ok(results)
    }

    fn hit(&self, placed: &PlacedHit, log: Option<&std::fs::File>, summary: Option<&LogSummary>) -> Hit {
        let candidate = &placed.hit.candidate;
        let entry = log.and_then(|log| rethread_store::read_line_at(log, candidate.offset).ok());
        let mut line = Line::default();
        let (mut text, mut tool, mut uuid) = (None, None, None);
        if candidate.source == TextSource::Title {
            text = summary.map(|summary| summary.summary.title.text.as_str().into());
        } else if let Some(entry) = &entry {
            rethread_log::parse_entry(entry, &mut line);
            text = entry_block_text(&line, entry, candidate.block);
            tool = self.tool_of(candidate, &line, entry);
            let id = rethread_log::Json::new(line.field(rethread_log::Key::Uuid).bytes_in(entry)).as_str();
            uuid = id.map(std::borrow::Cow::into_owned);
        }
        let snippet = text.map(|text| {
            let matches = self.matcher.find(&text);
            make_snippet(&text, &matches, self.query.whole_phrase, self.options.snippet_chars)
        });
        Hit {
            message: MessageNo::new(candidate.message_n),
            key: candidate.key,
            line: placed.line,
            source: candidate.source,
            place: placed.place,
            uuid,
            time: candidate.time.map(Time::from_millis),
            tool,
            quality: placed.hit.quality,
            score: candidate.score,
            position: (candidate.offset, candidate.block),
            snippet,
        }
    }

    /// Returns the tool of a call. The output of a call does not name it, but the catalogue knows.
    fn tool_of(&self, candidate: &Candidate, line: &Line, entry: &[u8]) -> Option<String> {
        match candidate.source {
            TextSource::Input => {
                let block = line.blocks.get(candidate.block as usize)?;
                let name = rethread_log::Json::new(block.name.bytes_in(entry)).as_str();
                name.map(std::borrow::Cow::into_owned)
            }
            TextSource::Output => {
                let (catalogue, log) = (self.logs.catalogue.as_ref()?, self.logs.id(candidate.log)?);
                catalogue.tool_of_result(log, candidate.message_n).ok()?
            }
            _ => None,
        }
    }
}

impl ScannedLog {
    fn place_and_line(&self, message_n: u32) -> (MessagePlace, Option<u32>) {
        let found = (message_n as usize).checked_sub(1).and_then(|at| self.messages.get(at));
        found.map_or((MessagePlace::Active, None), |(place, line)| (*place, Some(*line)))
    }
}
