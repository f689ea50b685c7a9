//! Token usage as counted by the API: what a log records of it, what counts, and what it costs.
//!
//! ```text
//! rows of a log ─▶ UsageLedger: one record per response ─▶ receipts of a library ─▶ UsageReport
//! ```
//!
//! A response of the API is written to a log once per content block, and again by resumes, forks, compactions and progress
//! records. [`UsageRow`] reads one of these rows, [`UsageLedger`] keeps of each response the row that counts, and
//! [`receipts`] counts each response of a library once.

mod groups;
mod ledger;
mod price_table;
mod prices;
mod receipts;
mod report;
mod row;

use rethread_log::Json;
use serde::{Deserialize, Serialize};

pub use groups::{UsageBlock, UsageGrouping, UsageKey};
pub use ledger::{ResponseKey, ResponseRecord, UsageLedger};
pub use prices::{Cost, LongPrompt, MicroDollars, Price, PriceError, PriceList};
pub use receipts::{LogUsage, Receipt, receipts};
pub use report::{UsageAmount, UsageGroup, UsageReport};
pub use row::{BillingTerms, UsageRow, UsageSource};

/// The tokens of one message, or a sum of many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not cached.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens written to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Tokens written to the cache for an hour.
    pub cache_write_1h: u64,
    /// Tokens read from the cache.
    pub cache_read: u64,
    /// Web searches and fetches.
    pub web: u64,
    /// The web searches among them, which are charged.
    pub web_searches: u64,
}

impl Usage {
    /// Parses `message.usage`. Returns `None` if it is not an object.
    pub fn parse(usage: Json<'_>) -> Option<Self> {
        if !usage.is_object() {
            return None;
        }
        let mut found = Self::default();
        let mut written = 0;
        let number = |value: Json<'_>| value.as_u64().unwrap_or(0);
        usage.for_each_member(|key, value| match key {
            b"input_tokens" => found.input = number(value),
            b"output_tokens" => found.output = number(value),
            b"cache_read_input_tokens" => found.cache_read = number(value),
            b"cache_creation_input_tokens" => written = number(value),
            b"cache_creation" => value.for_each_member(|key, value| match key {
                b"ephemeral_5m_input_tokens" => found.cache_write_5m = number(value),
                b"ephemeral_1h_input_tokens" => found.cache_write_1h = number(value),
                _ => {}
            }),
            b"server_tool_use" => value.for_each_member(|key, value| {
                if matches!(key, b"web_search_requests" | b"web_fetch_requests") {
                    found.web = found.web.saturating_add(number(value));
                }
                if key == b"web_search_requests" {
                    found.web_searches = number(value);
                }
            }),
            _ => {}
        });
        // Clients before 1.0.84 do not record the duration; it was five minutes then.
        found.cache_write_5m = found.cache_write_5m.max(written.saturating_sub(found.cache_write_1h));
        Some(found)
    }

    /// Returns the tokens written to the cache, for any time.
    pub fn cache_write(&self) -> u64 {
        self.cache_write_5m.saturating_add(self.cache_write_1h)
    }

    /// Returns the tokens of the prompt: input, and what was written to the cache and read from it.
    pub fn prompt_tokens(&self) -> u64 {
        self.input.saturating_add(self.cache_write()).saturating_add(self.cache_read)
    }

    /// Returns all tokens.
    pub fn tokens(&self) -> u64 {
        self.prompt_tokens().saturating_add(self.output)
    }
}

/// The usage in one row of a log, and whether the response was complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedUsage {
    /// The usage.
    pub usage: Usage,
    /// Set if the row has a stop reason: its counts are final.
    pub is_final: bool,
}

impl RecordedUsage {
    /// Returns whether this row counts instead of an earlier one of the same response: a final row counts, else the one with
    /// the largest output, else the last. The row is taken whole: counts of two rows are never mixed.
    pub fn replaces(&self, earlier: &Self) -> bool {
        (self.is_final, self.usage.output) >= (earlier.is_final, earlier.usage.output)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write_5m = self.cache_write_5m.saturating_add(other.cache_write_5m);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.web = self.web.saturating_add(other.web);
        self.web_searches = self.web_searches.saturating_add(other.web_searches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_separates_cache_write_durations() {
        let old = Usage::parse(Json::new(br#"{"input_tokens":1,"cache_creation_input_tokens":7}"#));
        assert_eq!(old, Some(Usage { input: 1, cache_write_5m: 7, ..Usage::default() }));
        let new = Usage::parse(Json::new(
            br#"{"output_tokens":2,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":3,"ephemeral_1h_input_tokens":4},"server_tool_use":{"web_search_requests":1}}"#,
        ));
        let expected = Usage {
            output: 2,
            cache_write_5m: 3,
            cache_write_1h: 4,
            web: 1,
            web_searches: 1,
            ..Usage::default()
        };
        assert_eq!(new, Some(expected));
        assert_eq!(Usage::parse(Json::new(b"null")), None);
    }

    #[test]
    fn final_row_counts_then_the_largest_then_the_last() {
        let row = |output, is_final| RecordedUsage { usage: Usage { output, ..Usage::default() }, is_final };
        assert!(row(1, true).replaces(&row(9, false)));
        assert!(!row(9, false).replaces(&row(1, true)));
        assert!(row(9, false).replaces(&row(8, false)));
        assert!(!row(8, true).replaces(&row(9, true)));
        assert!(row(5, false).replaces(&row(5, false)));
    }
}
