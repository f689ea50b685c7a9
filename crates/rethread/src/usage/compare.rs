//! Explains the difference to the totals of ccusage, response by response.
//!
//! ccusage keys a row on message id and request id, or on message id and time if there is no request id; of two rows with
//! one key it prefers the one outside of subagents, then the one with more tokens. Applying this rule to the same logs gives
//! its totals (measured with 20.0.24), so the differences that it makes are all there are.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use rayon::prelude::*;
use rethread_log::{Defect, Entry, Json, Line, Scanner, Sink};
use rethread_model::{LogUsage, Receipt, ResponseKey, UsageLedger, UsageRow};
use rethread_store::{SessionFile, scan_lines_with};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::LibraryUsage;

/// The totals that ccusage reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ForeignTotals {
    /// Input tokens.
    pub input: i64,
    /// Output tokens.
    pub output: i64,
    /// Tokens written to the cache.
    pub cache_write: i64,
    /// Tokens read from the cache.
    pub cache_read: i64,
}

impl std::ops::AddAssign for ForeignTotals {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.cache_write += other.cache_write;
        self.cache_read += other.cache_read;
    }
}

impl std::ops::Sub for ForeignTotals {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            input: self.input - other.input,
            output: self.output - other.output,
            cache_write: self.cache_write - other.cache_write,
            cache_read: self.cache_read - other.cache_read,
        }
    }
}

impl ForeignTotals {
    /// Reads the totals in the JSON that `ccusage daily --json`, `session --json` and the like print.
    ///
    /// ```
    /// use rethread::ForeignTotals;
    ///
    /// let totals = ForeignTotals::parse(r#"{"totals":{"inputTokens":3,"outputTokens":4}}"#);
    /// assert_eq!(totals.map(|totals| totals.output), Some(4));
    /// assert_eq!(ForeignTotals::parse("[]"), None);
    /// ```
    pub fn parse(json: &str) -> Option<Self> {
        let value: serde_json::Value = serde_json::from_str(json).ok()?;
        let totals = value.get("totals")?.as_object()?;
        let number = |name: &str| totals.get(name).and_then(serde_json::Value::as_i64);
        Some(Self {
            input: number("inputTokens")?,
            output: number("outputTokens")?,
            cache_write: number("cacheCreationTokens").unwrap_or(0),
            cache_read: number("cacheReadTokens").unwrap_or(0),
        })
    }

    fn tokens(&self) -> i64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_read)
    }
}

/// The cause of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DifferenceCause {
    /// A response that is only known from progress records, whose output is not final.
    ProgressOnly,
    /// Without a request id each chunk counts.
    NoRequestId,
    /// A row outside of subagents replaces the final row of a subagent.
    MainBeatsSidechain,
    /// Another row of the response is preferred.
    OtherRow,
    /// A breakdown of cache writes is preferred to their sum, though it is smaller.
    CacheBreakdown,
    /// The rows are not read, because of their spacing, version or missing fields.
    NotRead,
    /// A row that a client wrote itself.
    Synthetic,
}

impl DifferenceCause {
    /// Returns the name used in JSON.
    ///
    /// ```
    /// assert_eq!(rethread::DifferenceCause::NoRequestId.name(), "no_request_id");
    /// ```
    pub fn name(self) -> &'static str {
        match self {
            Self::ProgressOnly => "progress_only",
            Self::NoRequestId => "no_request_id",
            Self::MainBeatsSidechain => "main_beats_sidechain",
            Self::OtherRow => "other_row",
            Self::CacheBreakdown => "cache_breakdown",
            Self::NotRead => "not_read",
            Self::Synthetic => "synthetic",
        }
    }
}

/// A response that ccusage counts in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsageDifference {
    /// `message.id`, if there is one.
    pub message_id: Option<String>,
    /// The log with the row that counts here.
    pub path: PathBuf,
    /// Its line.
    pub line: u32,
    /// The cause.
    pub cause: DifferenceCause,
    /// The tokens that ccusage counts more.
    pub difference: ForeignTotals,
}

/// The comparison with ccusage.
#[derive(Debug, Clone, Default)]
pub struct UsageComparison {
    /// The tokens that are counted here.
    pub ours: ForeignTotals,
    /// The tokens that the rule of ccusage counts.
    pub theirs: ForeignTotals,
    /// The responses that differ, the largest difference first.
    pub differences: Vec<UsageDifference>,
    /// The sums by cause: the number of responses, and what ccusage counts more.
    pub causes: BTreeMap<DifferenceCause, (u64, ForeignTotals)>,
}

/// A row that ccusage reads.
struct ForeignRow {
    /// Its key there; `None` if it always counts.
    foreign_key: Option<u64>,
    key: ResponseKey,
    message_id: Option<String>,
    line: u32,
    is_sidechain: bool,
    is_synthetic: bool,
    counts: ForeignTotals,
}

impl LibraryUsage {
    /// Applies the rule of ccusage to the logs, and compares. Reads all logs; the receipts are those of the whole library.
    ///
    /// ```
    /// use rethread::{Library, PriceList, UsageFilter};
    ///
    /// let usage = Library::demo().usage(false);
    /// let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    /// let comparison = usage.compare(&receipts)?;
    /// assert_eq!(comparison.ours, comparison.theirs);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn compare(&self, receipts: &[Receipt<'_>]) -> io::Result<UsageComparison> {
        let mut logs: Vec<&LogUsage> = self.logs.iter().collect();
        logs.sort_by(|a, b| a.path.cmp(&b.path));
        let read: io::Result<Vec<Vec<ForeignRow>>> = logs.par_iter().map(|log| foreign_rows(log)).collect();
        let mut chosen: FxHashMap<u64, (&LogUsage, ForeignRow)> = FxHashMap::default();
        let mut always: Vec<(&LogUsage, ForeignRow)> = Vec::new();
        for (log, rows) in logs.into_iter().zip(read?) {
            for row in rows {
                let Some(key) = row.foreign_key else {
                    always.push((log, row));
                    continue;
                };
                let replaces =
                    chosen.get(&key).is_none_or(|(_, known)| match known.is_sidechain == row.is_sidechain {
                        true => row.counts.tokens() > known.counts.tokens(),
                        false => known.is_sidechain,
                    });
                if replaces {
                    chosen.insert(key, (log, row));
                }
            }
        }
        let mut by_response: FxHashMap<ResponseKey, Vec<(&LogUsage, ForeignRow)>> = FxHashMap::default();
        for (log, row) in chosen.into_values().chain(always) {
            by_response.entry(row.key).or_default().push((log, row));
        }
        Ok(UsageComparison::new(receipts, by_response))
    }
}

impl UsageComparison {
    fn new(
        receipts: &[Receipt<'_>],
        mut by_response: FxHashMap<ResponseKey, Vec<(&LogUsage, ForeignRow)>>,
    ) -> Self {
        let mut comparison = Self::default();
        for receipt in receipts {
            let rows = by_response.remove(&receipt.key).unwrap_or_default();
            let ours = if receipt.is_progress_only() { ForeignTotals::default() } else { totals_of(receipt) };
            let mut theirs = ForeignTotals::default();
            for (_, row) in &rows {
                theirs += row.counts;
            }
            comparison.ours += ours;
            comparison.theirs += theirs;
            if ours != theirs {
                comparison.add(UsageDifference {
                    message_id: rows.iter().find_map(|(_, row)| row.message_id.clone()),
                    path: receipt.counted_log.path.clone(),
                    line: receipt.counted.line,
                    cause: cause(receipt, &rows),
                    difference: theirs - ours,
                });
            }
        }
        // What is left are rows that clients wrote themselves.
        for (log, row) in by_response.into_values().flatten() {
            comparison.theirs += row.counts;
            if row.counts != ForeignTotals::default() {
                let cause =
                    if row.is_synthetic { DifferenceCause::Synthetic } else { DifferenceCause::OtherRow };
                let path = log.path.clone();
                let message_id = row.message_id;
                comparison.add(UsageDifference {
                    message_id,
                    path,
                    line: row.line,
                    cause,
                    difference: row.counts,
                });
            }
        }
        let size = |difference: &UsageDifference| {
            let ForeignTotals { input, output, cache_write, cache_read } = difference.difference;
            [input, output, cache_write, cache_read].iter().map(|n| n.unsigned_abs()).sum::<u64>()
        };
        comparison
            .differences
            .sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| (&a.path, a.line).cmp(&(&b.path, b.line))));
        comparison
    }

    fn add(&mut self, difference: UsageDifference) {
        let (responses, sum) = self.causes.entry(difference.cause).or_default();
        *responses += 1;
        *sum += difference.difference;
        self.differences.push(difference);
    }
}

fn totals_of(receipt: &Receipt<'_>) -> ForeignTotals {
    let usage = receipt.counted.recorded.usage;
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    ForeignTotals {
        input: signed(usage.input),
        output: signed(usage.output),
        cache_write: signed(usage.cache_write()),
        cache_read: signed(usage.cache_read),
    }
}

/// Returns why the rows that ccusage counts for a response differ from the one that counts here.
fn cause(receipt: &Receipt<'_>, rows: &[(&LogUsage, ForeignRow)]) -> DifferenceCause {
    if receipt.is_progress_only() {
        return DifferenceCause::ProgressOnly;
    }
    let [(_, row)] = rows else {
        return if rows.is_empty() { DifferenceCause::NotRead } else { DifferenceCause::NoRequestId };
    };
    let ours = totals_of(receipt);
    let differs_in_writes = ForeignTotals { cache_write: ours.cache_write, ..row.counts } == ours;
    match row {
        _ if differs_in_writes => DifferenceCause::CacheBreakdown,
        row if receipt.counted.is_sidechain && !row.is_sidechain => DifferenceCause::MainBeatsSidechain,
        _ => DifferenceCause::OtherRow,
    }
}

/// Reads the rows of a log that ccusage reads.
fn foreign_rows(log: &LogUsage) -> io::Result<Vec<ForeignRow>> {
    let file = SessionFile::from_user_path(&log.path).map_err(io::Error::other)?.open()?;
    let end = file.metadata()?.len();
    let mut sink = ForeignSink::default();
    scan_lines_with(&file, 0..end, &mut Scanner::default(), UsageRow::MARK, &mut sink)?;
    Ok(sink.rows)
}

#[derive(Default)]
struct ForeignSink {
    /// Knows the keys of rows.
    ledger: UsageLedger,
    rows: Vec<ForeignRow>,
}

impl Sink for ForeignSink {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        let Some(row) = UsageRow::parse(entry, line) else { return };
        let key = self.ledger.key_of(&row);
        // Only lines in the spacing of the client are read.
        let is_compact = memchr::memmem::find(entry.raw, b"\"usage\":{").is_some();
        let is_version = row.version.is_none_or(is_version);
        let (Some(time), true, true) = (row.time, is_compact, is_version) else { return };
        let Some(counts) = counts_of(row.usage_json) else { return };
        let foreign_key = row.message_id.map(|id| {
            let rest: Vec<u8> = match row.request_id {
                Some(request) => request.to_vec(),
                None => time.millis().to_le_bytes().to_vec(),
            };
            xxh3_64(&[id, b"\0", &rest].concat())
        });
        self.rows.push(ForeignRow {
            foreign_key,
            key,
            message_id: row.message_id.map(|id| String::from_utf8_lossy(id).into_owned()),
            line: row.line,
            is_sidechain: row.is_sidechain,
            is_synthetic: row.is_synthetic(),
            counts,
        });
    }

    fn defect(&mut self, _: Defect) {}
}

/// Returns the counts of a row; `None` if input or output is missing. A breakdown of cache writes replaces their sum.
fn counts_of(usage: Json<'_>) -> Option<ForeignTotals> {
    let number = |value: Option<Json<'_>>| value.and_then(Json::as_u64).and_then(|n| i64::try_from(n).ok());
    let breakdown = usage.get("cache_creation").filter(|breakdown| breakdown.is_object());
    let cache_write = match breakdown {
        Some(parts) => ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"]
            .iter()
            .map(|name| number(parts.get(name)).unwrap_or(0))
            .sum(),
        None => number(usage.get("cache_creation_input_tokens")).unwrap_or(0),
    };
    Some(ForeignTotals {
        input: number(usage.get("input_tokens"))?,
        output: number(usage.get("output_tokens"))?,
        cache_write,
        cache_read: number(usage.get("cache_read_input_tokens")).unwrap_or(0),
    })
}

/// Returns whether a text begins with three numbers separated by points.
fn is_version(text: &[u8]) -> bool {
    let mut parts = text.splitn(3, |&byte| byte == b'.');
    let mut is_number = |whole: bool| {
        parts.next().is_some_and(|part| {
            let digits = part.iter().take_while(|byte| byte.is_ascii_digit()).count();
            digits > 0 && (!whole || digits == part.len())
        })
    };
    is_number(true) && is_number(true) && is_number(false)
}
