//! The responses that one log records.

use rethread_log::{Defect, Entry, Line, Sink};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use super::{BillingTerms, RecordedUsage, Usage, UsageRow, UsageSource};
use crate::id::{Time, Uid};
use crate::name_counts::{NameCounts, NameId};

/// Identifies a response of the API in all its copies.
///
/// It is `message.id`, which is unique: a request id is not, because a retried request has the same one. Programs other
/// than the client write short ids such as `msg_004` again in the next session; these count together with the time of the
/// response. A row without an id is identified by its time, its request and its counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResponseKey(u64);

/// Ids up to this length may occur again for another response.
const MAX_SHORT_ID: usize = 12;

/// A response of the API, as one log records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseRecord {
    /// Its identity.
    pub key: ResponseKey,
    /// The kind of record that it was found in.
    pub source: UsageSource,
    /// The line of the row that counts.
    pub line: u32,
    /// The usage in that row.
    pub recorded: RecordedUsage,
    /// The terms that change its price.
    pub terms: BillingTerms,
    /// The time of its first row.
    pub time: Option<Time>,
    /// The number of its rows in this log.
    pub rows: u32,
    /// Set if it was copied from the session that this one was forked from.
    pub is_fork_copy: bool,
    /// Set if a subagent received it.
    pub is_sidechain: bool,
    model: Option<NameId>,
    git_branch: Option<NameId>,
    agent: Option<NameId>,
    /// Its tool calls: a hash of the id, and the tool.
    tools: Vec<(u32, NameId)>,
}

/// The responses that a log records, each once. It is a [`Sink`], which needs only the lines that contain
/// [`UsageRow::MARK`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(from = "LedgerParts")]
pub struct UsageLedger {
    responses: Vec<ResponseRecord>,
    names: NameCounts,
    /// The working directories, in the order of their first rows.
    cwds: NameCounts,
    /// The sessions that rows name, in the order of their first rows.
    sessions: NameCounts,
    /// The time of the last row.
    last: Option<Time>,
    /// The sum of all rows of answers, as a program would get that counts each.
    naive: Usage,
    /// The number of all rows.
    rows: u64,
    /// The number of rows that clients wrote themselves.
    synthetic: u64,
    /// The responses by key. Short ids have an entry for the id alone, which leads to the key.
    #[serde(skip)]
    index: FxHashMap<(ResponseKey, UsageSource), u32>,
    /// The tool calls that are known, by response.
    #[serde(skip)]
    calls: FxHashSet<(u32, u32)>,
    /// The times that are part of the keys of short ids, by the hash of the id.
    short_ids: FxHashMap<u64, Option<Time>>,
}

/// The stored form of [`UsageLedger`].
#[derive(Deserialize)]
struct LedgerParts {
    responses: Vec<ResponseRecord>,
    names: NameCounts,
    cwds: NameCounts,
    sessions: NameCounts,
    last: Option<Time>,
    naive: Usage,
    rows: u64,
    synthetic: u64,
    short_ids: FxHashMap<u64, Option<Time>>,
}

impl From<LedgerParts> for UsageLedger {
    fn from(stored: LedgerParts) -> Self {
        let LedgerParts { responses, names, cwds, sessions, last, naive, rows, synthetic, short_ids } =
            stored;
        // The index is made when a row is added; most ledgers are only read.
        Self {
            responses,
            names,
            cwds,
            sessions,
            last,
            naive,
            rows,
            synthetic,
            short_ids,
            index: FxHashMap::default(),
            calls: FxHashSet::default(),
        }
    }
}

impl Sink for UsageLedger {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if let Some(row) = UsageRow::parse(entry, line) {
            self.add(&row);
        }
    }

    fn defect(&mut self, _: Defect) {}
}

impl UsageLedger {
    /// Adds a row. Rows are added in the order of the log.
    pub fn add(&mut self, row: &UsageRow<'_>) {
        if self.index.len() < self.responses.len() {
            let entry = |(at, record): (usize, &ResponseRecord)| ((record.key, record.source), at as u32);
            self.index = self.responses.iter().enumerate().map(entry).collect();
            let calls = |(at, record): (u32, &ResponseRecord)| -> Vec<(u32, u32)> {
                record.tools.iter().map(|(id, _)| (at, *id)).collect()
            };
            self.calls = (0..).zip(&self.responses).flat_map(calls).collect();
        }
        self.rows += 1;
        self.last = self.last.max(row.time);
        if let Some(cwd) = row.cwd {
            self.cwds.count(cwd);
        }
        if let Some(session) = row.session {
            self.sessions.count(session);
        }
        if row.is_synthetic() {
            self.synthetic += 1;
            return;
        }
        if row.source == UsageSource::Answer {
            self.naive += row.recorded.usage;
        }
        let key = self.key_of(row);
        let next = self.responses.len() as u32;
        let at = *self.index.entry((key, row.source)).or_insert(next);
        if at == next {
            let record = self.new_record(key, row);
            self.responses.push(record);
        }
        let name = |names: &mut NameCounts, name: Option<&[u8]>| name.map(|name| names.count(name));
        let record = &mut self.responses[at as usize];
        record.rows += 1;
        record.time = match (record.time, row.time) {
            (Some(known), Some(time)) => Some(known.min(time)),
            (known, time) => known.or(time),
        };
        if record.rows == 1 || row.recorded.replaces(&record.recorded) {
            record.recorded = row.recorded;
            record.line = row.line;
            record.terms = row.terms;
            record.model = name(&mut self.names, row.model);
        }
        for (id, tool) in &row.tools {
            let id = xxh3_64(id) as u32;
            if self.calls.insert((at, id)) {
                record.tools.push((id, self.names.count(tool)));
            }
        }
    }

    fn new_record(&mut self, key: ResponseKey, row: &UsageRow<'_>) -> ResponseRecord {
        let mut name = |name: Option<&[u8]>| name.map(|name| self.names.count(name));
        ResponseRecord {
            key,
            source: row.source,
            line: row.line,
            recorded: row.recorded,
            terms: row.terms,
            time: row.time,
            rows: 0,
            is_fork_copy: row.is_fork_copy,
            is_sidechain: row.is_sidechain || row.source == UsageSource::Progress,
            model: name(row.model),
            git_branch: name(row.git_branch),
            agent: name(row.agent),
            tools: Vec::new(),
        }
    }

    /// Returns the identity of the response that a row belongs to.
    pub fn key_of(&mut self, row: &UsageRow<'_>) -> ResponseKey {
        match row.message_id {
            Some(id) if id.len() > MAX_SHORT_ID => ResponseKey(xxh3_64(id)),
            Some(id) => {
                let first = *self.short_ids.entry(xxh3_64(id)).or_insert(row.time);
                ResponseKey(hash(&[b"short", id, &first.map_or(0, Time::millis).to_le_bytes()]))
            }
            None => key_without_id(row),
        }
    }

    /// Returns the responses, in the order of their first rows.
    pub fn responses(&self) -> &[ResponseRecord] {
        &self.responses
    }

    /// Returns the time of the last row.
    pub fn last(&self) -> Option<Time> {
        self.last
    }

    /// Returns the sum of all answers, with repeated rows counted again.
    pub fn naive(&self) -> Usage {
        self.naive
    }

    /// Returns the number of rows that have a usage.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of rows that clients wrote themselves, without a response of the API.
    pub fn synthetic(&self) -> u64 {
        self.synthetic
    }

    /// Returns the model of a response, as the log names it.
    pub fn model(&self, record: &ResponseRecord) -> &str {
        self.name(record.model)
    }

    /// Returns the session that the first row names.
    pub fn session(&self) -> Option<&str> {
        self.sessions.first()
    }

    /// Returns the working directories, in the order of their first rows.
    pub fn cwds(&self) -> impl Iterator<Item = &str> {
        self.cwds.iter().map(|(cwd, _)| cwd)
    }

    /// Returns the git branch that was checked out.
    pub fn git_branch(&self, record: &ResponseRecord) -> &str {
        self.name(record.git_branch)
    }

    /// Returns the id of the subagent that received a response; empty for the main conversation, and for subagents without
    /// an id.
    pub fn agent(&self, record: &ResponseRecord) -> &str {
        self.name(record.agent)
    }

    /// Returns the tools that a response calls, one per call.
    pub fn tools<'l>(&'l self, record: &'l ResponseRecord) -> impl ExactSizeIterator<Item = &'l str> {
        record.tools.iter().map(|(_, tool)| self.names.name(*tool))
    }

    fn name(&self, id: Option<NameId>) -> &str {
        id.map_or("", |id| self.names.name(id))
    }
}

fn key_without_id(row: &UsageRow<'_>) -> ResponseKey {
    let Some(time) = row.time else {
        let uuid = row.uuid.map_or([0; 16], Uid::to_bytes);
        return ResponseKey(hash(&[b"uuid", &uuid, &row.line.to_le_bytes()]));
    };
    let usage = row.recorded.usage;
    let counts = [usage.input, usage.output, usage.cache_write_5m, usage.cache_write_1h, usage.cache_read];
    let counts: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    let model = row.model.unwrap_or_default();
    let request = row.request_id.unwrap_or_default();
    ResponseKey(hash(&[b"none", &time.millis().to_le_bytes(), &counts, model, request]))
}

fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = Xxh3::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.digest()
}
