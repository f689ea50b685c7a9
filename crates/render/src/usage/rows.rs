//! Usage as JSON.

use std::borrow::Cow;

use rethread_model::{
    Cost, Receipt, Time, Usage, UsageAmount, UsageGroup, UsageKey, UsageReport, UsageSource,
};
use serde::Serialize;

/// The cost of an amount. Costs are in dollars, and exactly in millionths of a dollar.
#[derive(Debug, Clone, Copy, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct UsageCostRow {
    pub messages: u64,
    pub input: u64,
    pub output: u64,
    pub cache_write_5m: u64,
    pub cache_write_1h: u64,
    pub cache_read: u64,
    pub web: u64,
    pub web_searches: u64,
    pub cost: f64,
    pub cost_micros: u64,
    pub unpriced_messages: u64,
    pub unpriced_tokens: u64,
}

impl From<&UsageAmount> for UsageCostRow {
    fn from(amount: &UsageAmount) -> Self {
        let UsageAmount { responses, usage, cost } = *amount;
        let Usage { input, output, cache_write_5m, cache_write_1h, cache_read, web, web_searches } = usage;
        let Cost { known, unpriced_responses, unpriced_tokens } = cost;
        Self {
            messages: responses,
            input,
            output,
            cache_write_5m,
            cache_write_1h,
            cache_read,
            web,
            web_searches,
            cost: known.0 as f64 / 1e6,
            cost_micros: known.0,
            unpriced_messages: unpriced_responses,
            unpriced_tokens,
        }
    }
}

/// A group of a report.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct UsageGroupRow<'a> {
    pub r#type: &'static str,
    pub by: &'static str,
    pub key: Option<String>,
    pub title: Option<&'a str>,
    pub project: Option<&'a str>,
    pub first: Option<String>,
    pub last: Option<String>,
    #[serde(flatten)]
    pub sum: UsageCostRow,
    pub models: Vec<UsageModelRow<'a>>,
}

/// The share of a model in a group.
#[derive(Debug, Clone, Serialize)]
pub struct UsageModelRow<'a> {
    pub model: &'a str,
    #[serde(flatten)]
    pub sum: UsageCostRow,
}

impl<'a> UsageGroupRow<'a> {
    /// Describes a group; sessions have a title.
    pub fn new(report: &UsageReport, group: &'a UsageGroup, title: Option<&'a str>) -> Self {
        let time = |time: Time| time.to_iso();
        Self {
            r#type: "usage",
            by: report.grouping.name(),
            key: key_json(&group.key),
            title,
            project: group.project.as_deref(),
            first: group.span.and_then(|(first, _)| time(first)),
            last: group.span.and_then(|(_, last)| time(last)),
            sum: (&group.amount).into(),
            models: group
                .models
                .iter()
                .map(|(model, sum)| UsageModelRow { model, sum: sum.into() })
                .collect(),
        }
    }
}

/// The total of a report.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct UsageTotalRow<'a> {
    pub r#type: &'static str,
    #[serde(flatten)]
    pub sum: UsageCostRow,
    pub progress_only: UsageCostRow,
    pub unpriced: Vec<UsageModelRow<'a>>,
    pub rows: u64,
    pub unfinished: u64,
    pub naive: Option<Usage>,
}

impl<'a> UsageTotalRow<'a> {
    /// Describes the total; `naive` is the sum of all rows, if all were asked for.
    pub fn new(report: &'a UsageReport, naive: Option<Usage>) -> Self {
        Self {
            r#type: "usage_total",
            sum: (&report.total).into(),
            progress_only: (&report.progress_only).into(),
            unpriced: report
                .unpriced
                .iter()
                .map(|(model, sum)| UsageModelRow { model, sum: sum.into() })
                .collect(),
            rows: report.rows,
            unfinished: report.unfinished,
            naive,
        }
    }
}

/// A response with the rows that were found for it.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct UsageReceiptRow<'a> {
    pub r#type: &'static str,
    pub id: Option<&'a str>,
    pub time: Option<String>,
    pub session: &'a str,
    pub project: &'a str,
    pub model: &'a str,
    pub source: &'static str,
    #[serde(flatten)]
    pub usage: Usage,
    pub fast: bool,
    pub us: bool,
    pub batch: bool,
    pub cost: Option<f64>,
    pub cost_micros: Option<u64>,
    pub price: Option<String>,
    pub rows: Vec<ReceiptLineRow<'a>>,
}

/// A row of a log.
#[derive(Debug, Clone, Serialize)]
#[expect(missing_docs, reason = "the fields are those of the documented JSON")]
pub struct ReceiptLineRow<'a> {
    pub path: Cow<'a, str>,
    pub line: u32,
    pub counted: bool,
    pub reason: Option<&'static str>,
    #[serde(flatten)]
    pub usage: Usage,
}

impl<'a> UsageReceiptRow<'a> {
    /// Describes a receipt.
    pub fn new(
        receipt: &'a Receipt<'a>,
        id: Option<&'a str>,
        price: Option<String>,
        rows: Vec<ReceiptLineRow<'a>>,
    ) -> Self {
        let terms = receipt.counted.terms;
        Self {
            r#type: "receipt",
            id,
            time: receipt.time.and_then(Time::to_iso),
            session: receipt.session(),
            project: &receipt.log.project,
            model: receipt.model(),
            source: match receipt.counted.source {
                UsageSource::Answer => "answer",
                UsageSource::Progress => "progress",
            },
            usage: receipt.counted.recorded.usage,
            fast: terms.is_fast,
            us: terms.is_us,
            batch: terms.is_batch,
            cost: receipt.price.map(|cost| cost.0 as f64 / 1e6),
            cost_micros: receipt.price.map(|cost| cost.0),
            price,
            rows,
        }
    }
}

fn key_json(key: &UsageKey) -> Option<String> {
    match key {
        UsageKey::None | UsageKey::Unknown => None,
        UsageKey::Block(start) => start.to_iso(),
        key => Some(usage_key_text(key)),
    }
}

/// Returns the key of a group as text.
pub fn usage_key_text(key: &UsageKey) -> String {
    match key {
        UsageKey::Date(date) => date.to_string(),
        UsageKey::Month(year, month) => format!("{year:04}-{month:02}"),
        UsageKey::Block(start) => start.to_iso().unwrap_or_default(),
        UsageKey::Name(name) => name.clone(),
        UsageKey::None => "(none)".to_owned(),
        UsageKey::Unknown => "(unknown)".to_owned(),
    }
}
