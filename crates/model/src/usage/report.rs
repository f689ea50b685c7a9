//! Sums of receipts.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::AddAssign;

use jiff::tz::TimeZone;

use super::groups::Grouper;
use super::{Cost, LogUsage, MicroDollars, Receipt, Usage, UsageGrouping, UsageKey};
use crate::id::Time;

/// The usage of some responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsageAmount {
    /// The number of responses.
    pub responses: u64,
    /// Their tokens.
    pub usage: Usage,
    /// Their cost.
    pub cost: Cost,
}

impl AddAssign for UsageAmount {
    fn add_assign(&mut self, other: Self) {
        self.responses += other.responses;
        self.usage += other.usage;
        self.cost += other.cost;
    }
}

impl UsageAmount {
    /// Returns the usage of one response.
    pub fn of(receipt: &Receipt<'_>) -> Self {
        Self { responses: 1, usage: receipt.counted.recorded.usage, cost: receipt.cost() }
    }

    /// Divides the usage into equal parts. Their sum is the whole: what is left over goes to the first parts.
    fn divide(self, parts: u64) -> impl Iterator<Item = Self> {
        (0..parts).map(move |at| {
            let part = |whole: u64| whole / parts + u64::from(at < whole % parts);
            let Usage { input, output, cache_write_5m, cache_write_1h, cache_read, web, web_searches } =
                self.usage;
            Self {
                responses: part(self.responses),
                usage: Usage {
                    input: part(input),
                    output: part(output),
                    cache_write_5m: part(cache_write_5m),
                    cache_write_1h: part(cache_write_1h),
                    cache_read: part(cache_read),
                    web: part(web),
                    web_searches: part(web_searches),
                },
                cost: Cost {
                    known: MicroDollars(part(self.cost.known.0)),
                    unpriced_responses: part(self.cost.unpriced_responses),
                    unpriced_tokens: part(self.cost.unpriced_tokens),
                },
            }
        })
    }
}

/// The usage of a group.
#[derive(Debug, Clone)]
pub struct UsageGroup {
    /// Its key.
    pub key: UsageKey,
    /// Its usage.
    pub amount: UsageAmount,
    /// The usage by model, the most expensive first.
    pub models: Vec<(String, UsageAmount)>,
    /// The times of its first and last response.
    pub span: Option<(Time, Time)>,
    /// The project of a session.
    pub project: Option<String>,
}

/// The usage of a library, in groups.
#[derive(Debug, Clone, Default)]
pub struct UsageReport {
    /// The property by which it is grouped.
    pub grouping: UsageGrouping,
    /// The groups: in the order of time, or the most expensive first.
    pub groups: Vec<UsageGroup>,
    /// The sum of all groups.
    pub total: UsageAmount,
    /// Responses of subagents that are only known from progress records. Their output is a lower bound, so they are not
    /// part of the total.
    pub progress_only: UsageAmount,
    /// The models without a known price, with their responses and tokens.
    pub unpriced: Vec<(String, UsageAmount)>,
    /// The number of rows with a usage that were read for these responses.
    pub rows: u64,
    /// The number of responses in the total without a row that has a stop reason. Their output is a lower bound.
    pub unfinished: u64,
}

impl UsageReport {
    /// Adds up receipts, which are in the order of time. Days begin at midnight in a time zone.
    pub fn new<'r, 'l: 'r>(
        receipts: impl IntoIterator<Item = &'r Receipt<'l>>,
        grouping: UsageGrouping,
        zone: &TimeZone,
    ) -> Self {
        let mut report = Self { grouping, ..Self::default() };
        let mut grouper = Grouper::new(grouping, zone);
        let mut groups: BTreeMap<UsageKey, GroupSum> = BTreeMap::new();
        let mut unpriced: BTreeMap<&str, UsageAmount> = BTreeMap::new();
        for receipt in receipts {
            let amount = UsageAmount::of(receipt);
            report.rows += receipt.rows;
            if receipt.is_progress_only() {
                report.progress_only += amount;
                continue;
            }
            report.total += amount;
            report.unfinished += u64::from(!receipt.counted.recorded.is_final);
            if receipt.price.is_none() {
                *unpriced.entry(receipt.model()).or_default() += amount;
            }
            let keys = grouper.keys(receipt);
            for (key, part) in keys.iter().zip(amount.divide(keys.len() as u64)) {
                groups.entry(key.clone()).or_default().add(receipt, part);
            }
        }
        report.groups = groups.into_iter().map(|(key, sum)| sum.finish(key, grouping)).collect();
        if !grouping.is_time() {
            report.groups.sort_by(|a, b| by_cost(&a.amount, &b.amount).then_with(|| a.key.cmp(&b.key)));
        }
        report.unpriced = unpriced.into_iter().map(|(model, sum)| (model.to_owned(), sum)).collect();
        report.unpriced.sort_by_key(|(_, sum)| Reverse(sum.usage.tokens()));
        report
    }

    /// Returns the sum of all rows of the logs, as a program would get that counts each.
    pub fn naive(logs: &[LogUsage]) -> Usage {
        let mut sum = Usage::default();
        for log in logs {
            sum += log.ledger.naive();
        }
        sum
    }
}

/// Orders by falling cost, then by falling number of tokens.
fn by_cost(a: &UsageAmount, b: &UsageAmount) -> std::cmp::Ordering {
    (b.cost.known, b.usage.tokens()).cmp(&(a.cost.known, a.usage.tokens()))
}

/// A group while it is summed up.
#[derive(Default)]
struct GroupSum {
    amount: UsageAmount,
    models: BTreeMap<String, UsageAmount>,
    span: Option<(Time, Time)>,
    project: Option<String>,
}

impl GroupSum {
    fn add(&mut self, receipt: &Receipt<'_>, part: UsageAmount) {
        self.amount += part;
        match self.models.get_mut(receipt.model()) {
            Some(sum) => *sum += part,
            None => {
                self.models.insert(receipt.model().to_owned(), part);
            }
        }
        if let Some(time) = receipt.time {
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
        if self.project.is_none() {
            self.project = Some(receipt.log.project.clone());
        }
    }

    fn finish(self, key: UsageKey, grouping: UsageGrouping) -> UsageGroup {
        let mut models: Vec<(String, UsageAmount)> = self.models.into_iter().collect();
        models.sort_by(|a, b| by_cost(&a.1, &b.1).then_with(|| a.0.cmp(&b.0)));
        let project = self.project.filter(|_| grouping == UsageGrouping::Session);
        UsageGroup { key, amount: self.amount, models, span: self.span, project }
    }
}
