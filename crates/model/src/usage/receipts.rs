//! The responses of many logs, each counted once.

use std::cmp::Reverse;
use std::path::PathBuf;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::{Cost, MicroDollars, PriceList, ResponseKey, ResponseRecord, Usage, UsageLedger, UsageSource};
use crate::id::Time;
use crate::summary::SessionId;

/// The usage that a log records, and where the log is.
#[derive(Debug, Clone)]
pub struct LogUsage {
    /// The path of the log.
    pub path: PathBuf,
    /// The session that the log belongs to; for a subagent the session that started it.
    pub session: SessionId,
    /// Its project.
    pub project: String,
    /// Set for the log of a subagent.
    pub is_subagent: bool,
    /// Set for a session that was made from another one.
    pub is_copy: bool,
    /// Its responses.
    pub ledger: UsageLedger,
}

/// A response of the API, counted once for all of its copies.
#[derive(Debug, Clone, Copy)]
pub struct Receipt<'l> {
    /// Its identity.
    pub key: ResponseKey,
    /// The log with the row that counts.
    pub counted_log: &'l LogUsage,
    /// The record with the row that counts.
    pub counted: &'l ResponseRecord,
    /// The log of the session that it is billed to: the earliest that has it.
    pub log: &'l LogUsage,
    /// The record in that log.
    pub record: &'l ResponseRecord,
    /// The time of the response.
    pub time: Option<Time>,
    /// The number of rows in all logs.
    pub rows: u64,
    /// The number of logs that have it.
    pub copies: u64,
    /// Its cost; `None` if it has no known price.
    pub price: Option<MicroDollars>,
}

impl Receipt<'_> {
    /// Returns whether the response is only known from progress records, whose counts are from before it was complete.
    pub fn is_progress_only(&self) -> bool {
        self.counted.source == UsageSource::Progress
    }

    /// Returns its cost.
    pub fn cost(&self) -> Cost {
        Cost::of_response(self.price, &self.counted.recorded.usage)
    }

    /// Returns the model, as the log names it.
    pub fn model(&self) -> &str {
        self.counted_log.ledger.model(self.counted)
    }

    /// Returns the id of the session that it is billed to.
    pub fn session(&self) -> &str {
        self.log.session.as_str()
    }
}

/// The place of a record: the number of its log, and its number there.
type Place = (u32, u32);

/// Counts each response of some logs once. The result does not depend on the order of the logs, and copies of logs change
/// no count.
///
/// A response that an answer records is counted from its answers; progress records of it only repeat an early state. Of its
/// rows in all logs the one that counts is chosen as in one log. It is billed to the log that has it first: by time, then
/// the one that does not mark it as a copy, then the one that ended first.
pub fn receipts<'l>(logs: &'l [LogUsage], prices: &PriceList) -> Vec<Receipt<'l>> {
    let mut places: Vec<(ResponseKey, Place)> = Vec::new();
    for (log, usage) in (0..).zip(logs) {
        places.extend((0..).zip(usage.ledger.responses()).map(|(at, record)| (record.key, (log, at))));
    }
    places.par_sort_unstable();
    let mut by_model: FxHashMap<(&str, Option<i64>), Option<super::Price>> = FxHashMap::default();
    let mut found: Vec<Receipt<'l>> = Vec::with_capacity(places.len());
    for copies in places.chunk_by(|a, b| a.0 == b.0) {
        let at = |&(_, (log, at)): &(ResponseKey, Place)| {
            let log = &logs[log as usize];
            (log, &log.ledger.responses()[at as usize])
        };
        let records: Vec<_> = copies.iter().map(at).collect();
        let Some(mut receipt) = count(&records) else { continue };
        // Prices change from day to day at most.
        let day = receipt.time.map(|time| time.millis().div_euclid(86_400_000));
        let price = by_model
            .entry((receipt.counted_log.ledger.model(receipt.counted), day))
            .or_insert_with_key(|(model, _)| prices.find(model, receipt.time));
        let usage = receipt.counted.recorded.usage;
        receipt.price = match price {
            // Nothing costs nothing, whatever the price.
            _ if usage == Usage::default() => Some(MicroDollars(0)),
            Some(price) => price.cost(&usage, receipt.counted.terms),
            None => None,
        };
        found.push(receipt);
    }
    found.par_sort_unstable_by_key(|receipt| (receipt.time.is_none(), receipt.time, receipt.key));
    found
}

/// Makes the receipt of one response from all of its records.
fn count<'l>(records: &[(&'l LogUsage, &'l ResponseRecord)]) -> Option<Receipt<'l>> {
    let is_answer = |record: &ResponseRecord| record.source == UsageSource::Answer;
    let has_answer = records.iter().any(|(_, record)| is_answer(record));
    let counting = || records.iter().copied().filter(|(_, record)| is_answer(record) == has_answer);
    let (counted_log, counted) = counting().max_by(|a, b| rank(*a).cmp(&rank(*b)))?;
    let (log, record) = counting().min_by(|a, b| age(*a).cmp(&age(*b)))?;
    Some(Receipt {
        key: record.key,
        counted_log,
        counted,
        log,
        record,
        time: counting().filter_map(|(_, record)| record.time).min(),
        rows: records.iter().map(|(_, record)| u64::from(record.rows)).sum(),
        copies: counting().count() as u64,
        price: None,
    })
}

/// The order of records: the last one has the row that counts.
type Rank<'l> = (bool, u64, [u64; 6], Reverse<(Option<Time>, &'l PathBuf, u32)>);

/// The order of records: a response is billed to the first one.
type Age<'l> = (bool, Option<Time>, bool, Option<Time>, &'l str, &'l PathBuf);

/// Returns a value that is largest for the record whose row counts: complete, then the largest output. What follows only
/// makes the choice independent of the order of the logs.
fn rank<'l>((log, record): (&'l LogUsage, &'l ResponseRecord)) -> Rank<'l> {
    let usage = record.recorded.usage;
    let rest = [
        usage.input,
        usage.cache_write_5m,
        usage.cache_write_1h,
        usage.cache_read,
        usage.web_searches,
        u64::from(record.terms.is_fast),
    ];
    (record.recorded.is_final, usage.output, rest, Reverse((record.time, &log.path, record.line)))
}

/// Returns a value that is smallest for the record of the session that a response is billed to.
fn age<'l>((log, record): (&'l LogUsage, &'l ResponseRecord)) -> Age<'l> {
    (
        record.time.is_none(),
        record.time,
        record.is_fork_copy || log.is_copy,
        log.ledger.last(),
        log.session.as_str(),
        &log.path,
    )
}
