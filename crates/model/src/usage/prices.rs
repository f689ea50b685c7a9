//! The price of a response.

use std::borrow::Cow;
use std::fmt;
use std::ops::AddAssign;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};

use super::price_table::{PRICES, base_prices};
use super::{BillingTerms, Usage};
use crate::id::Time;

/// An amount of money, in millionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MicroDollars(pub u64);

impl fmt::Display for MicroDollars {
    /// Formats the amount in dollars and cents; less than a cent with as many digits as it needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cents = self.0.saturating_add(5_000) / 10_000;
        if cents == 0 && self.0 > 0 {
            let digits = format!("{:06}", self.0);
            return write!(f, "$0.{}", digits.trim_end_matches('0'));
        }
        write!(f, "${}.{:02}", cents / 100, cents % 100)
    }
}

/// The cost of some responses, and how much of them has no known price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The cost of the responses with a known price.
    pub known: MicroDollars,
    /// The number of responses without one.
    pub unpriced_responses: u64,
    /// Their tokens.
    pub unpriced_tokens: u64,
}

impl Cost {
    /// Returns the cost of one response with a price, or without.
    pub fn of_response(price: Option<MicroDollars>, usage: &Usage) -> Self {
        match price {
            Some(known) => Self { known, ..Self::default() },
            None => Self { unpriced_responses: 1, unpriced_tokens: usage.tokens(), ..Self::default() },
        }
    }

    /// Returns whether every response has a price.
    pub fn is_complete(&self) -> bool {
        self.unpriced_responses == 0
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.known.0 = self.known.0.saturating_add(other.known.0);
        self.unpriced_responses += other.unpriced_responses;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
    }
}

/// The prices of a model in a period. Prices are in millionths of a dollar for a million tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The model, without a date.
    pub model: Cow<'static, str>,
    /// The first day on which they apply; `None` for all days before `until`.
    pub from: Option<Date>,
    /// The first day on which they no longer apply.
    pub until: Option<Date>,
    /// Input that is not cached.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Writes to the cache for five minutes.
    pub cache_write_5m: u64,
    /// Writes to the cache for an hour.
    pub cache_write_1h: u64,
    /// Reads from the cache.
    pub cache_read: u64,
    /// Other prices for long prompts.
    pub long_prompt: Option<LongPrompt>,
    /// The price in fast mode, in percent; `None` if the model has none that is known.
    pub fast_percent: Option<u32>,
    /// The price of inference in the United States, in percent; `None` if the model has none that is known.
    pub us_percent: Option<u32>,
    /// The origin of the prices.
    pub source: Cow<'static, str>,
    /// The day on which they were read there.
    pub checked: Option<Date>,
}

/// The prices of a request with a long prompt. They apply to all of its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongPrompt {
    /// The tokens of the prompt above which it is long.
    pub above: u64,
    /// The price of the prompt, in percent.
    pub prompt_percent: u32,
    /// The price of the output, in percent.
    pub output_percent: u32,
}

/// The price of a web search.
const WEB_SEARCH: u64 = 10_000;

/// The price of batch processing, in percent.
const BATCH_PERCENT: u32 = 50;

impl Price {
    /// Returns the cost of a response, rounded to a millionth of a dollar; `None` if its terms have no known price.
    pub fn cost(&self, usage: &Usage, terms: BillingTerms) -> Option<MicroDollars> {
        let tier = self.long_prompt.filter(|tier| usage.prompt_tokens() > tier.above);
        let (prompt_percent, output_percent) =
            tier.map_or((100, 100), |tier| (tier.prompt_percent, tier.output_percent));
        let cost = |tokens: u64, price: u64| u128::from(tokens) * u128::from(price);
        let prompt = cost(usage.input, self.input)
            + cost(usage.cache_write_5m, self.cache_write_5m)
            + cost(usage.cache_write_1h, self.cache_write_1h)
            + cost(usage.cache_read, self.cache_read);
        let mut scaled = prompt * u128::from(prompt_percent)
            + cost(usage.output, self.output) * u128::from(output_percent);
        // A million tokens, and a percentage.
        let mut divisor: u128 = 1_000_000 * 100;
        let conditions = [
            (terms.is_fast, self.fast_percent),
            (terms.is_us, self.us_percent),
            (terms.is_batch, Some(BATCH_PERCENT)),
        ];
        for (_, percent) in conditions.into_iter().filter(|(applies, _)| *applies) {
            scaled = scaled.saturating_mul(percent?.into());
            divisor *= 100;
        }
        let rounded = scaled.saturating_add(divisor / 2) / divisor;
        let searches = u128::from(usage.web_searches) * u128::from(WEB_SEARCH);
        Some(MicroDollars(u64::try_from(rounded + searches).unwrap_or(u64::MAX)))
    }

    /// Returns whether the prices apply on a day. Without a day, the last prices do.
    fn applies_on(&self, day: Option<Date>) -> bool {
        match day {
            Some(day) => {
                self.from.is_none_or(|from| day >= from) && self.until.is_none_or(|until| day < until)
            }
            None => self.until.is_none(),
        }
    }
}

/// The known prices.
#[derive(Debug, Clone, Default)]
pub struct PriceList {
    /// Prices that replace those of the program for their models.
    overrides: Vec<Price>,
}

/// An error in a file of prices.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriceError {
    /// It is not JSON of the right form.
    Syntax(String),
    /// A price is negative or not a number.
    InvalidPrice {
        /// The model.
        model: String,
        /// The field.
        field: &'static str,
    },
    /// A day is not a date.
    InvalidDate {
        /// The model.
        model: String,
        /// The text.
        text: String,
    },
}

impl fmt::Display for PriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => write!(f, "not a list of prices: {reason}"),
            Self::InvalidPrice { model, field } => {
                write!(f, "the price `{field}` of `{model}` is not a number of dollars")
            }
            Self::InvalidDate { model, text } => write!(f, "`{text}`, for `{model}`, is not a date"),
        }
    }
}

impl std::error::Error for PriceError {}

/// Prices of a model in a file. All are in dollars for a million tokens.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceEntry {
    model: String,
    from: Option<String>,
    until: Option<String>,
    input: f64,
    output: f64,
    cache_write_5m: Option<f64>,
    cache_write_1h: Option<f64>,
    cache_read: Option<f64>,
}

impl PriceList {
    /// Returns the prices in the program.
    pub fn built_in() -> impl Iterator<Item = Price> {
        PRICES.iter().map(base_prices)
    }

    /// Reads prices from JSON: an array of objects with `model`, `input`, `output`, and optionally `cache_write_5m`,
    /// `cache_write_1h`, `cache_read`, `from` and `until`, in dollars for a million tokens. Models that it names have only
    /// these prices.
    pub fn with_overrides(json: &str) -> Result<Self, PriceError> {
        let entries: Vec<PriceEntry> =
            serde_json::from_str(json).map_err(|error| PriceError::Syntax(error.to_string()))?;
        let overrides = entries.into_iter().map(Price::try_from).collect::<Result<_, _>>()?;
        Ok(Self { overrides })
    }

    /// Finds the prices of a model, as a log names it, at a time.
    pub fn find(&self, model: &str, time: Option<Time>) -> Option<Price> {
        let day = time.and_then(Time::timestamp).map(|time| time.to_zoned(TimeZone::UTC).date());
        let plain = plain_name(model);
        let of_model = |price: &&Price| price.model == model || price.model == plain;
        if self.overrides.iter().any(|price| of_model(&price)) {
            return self.overrides.iter().filter(of_model).find(|price| price.applies_on(day)).cloned();
        }
        let listed = PRICES.iter().filter(|row| row.models.contains(&&*plain)).map(base_prices);
        listed.into_iter().find(|price| price.applies_on(day))
    }
}

impl TryFrom<PriceEntry> for Price {
    type Error = PriceError;

    fn try_from(entry: PriceEntry) -> Result<Self, PriceError> {
        let price = |field: &'static str, value: f64| -> Result<u64, PriceError> {
            let micros = (value * 1e6).round();
            if (0.0..=1e15).contains(&micros) {
                return Ok(micros as u64);
            }
            Err(PriceError::InvalidPrice { model: entry.model.clone(), field })
        };
        let date = |text: &Option<String>| -> Result<Option<Date>, PriceError> {
            let Some(text) = text else { return Ok(None) };
            let invalid = || PriceError::InvalidDate { model: entry.model.clone(), text: text.clone() };
            text.parse().map(Some).map_err(|_| invalid())
        };
        let input = price("input", entry.input)?;
        // What a provider does not list separately costs as much as other input.
        let or_input = |field, value: Option<f64>| value.map_or(Ok(input), |value| price(field, value));
        Ok(Self {
            from: date(&entry.from)?,
            until: date(&entry.until)?,
            input,
            output: price("output", entry.output)?,
            cache_write_5m: or_input("cache_write_5m", entry.cache_write_5m)?,
            cache_write_1h: or_input("cache_write_1h", entry.cache_write_1h)?,
            cache_read: or_input("cache_read", entry.cache_read)?,
            long_prompt: None,
            fast_percent: None,
            us_percent: None,
            source: "a file of the user".into(),
            checked: None,
            model: entry.model.into(),
        })
    }
}

/// Removes what a provider or a client adds to the name of a model: its own prefix, the date, the size of the context.
/// What is left must be in the list: a part of a name proves nothing.
fn plain_name(model: &str) -> Cow<'_, str> {
    let mut name = model.trim();
    if let Some((base, _)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) {
        name = base;
    }
    name = name.rsplit('/').next().unwrap_or(name);
    for region in ["us.", "eu.", "apac.", "global."] {
        name = name.strip_prefix(region).unwrap_or(name);
    }
    name = name.strip_prefix("anthropic.").unwrap_or(name);
    name = name.split(['@', ':']).next().unwrap_or(name);
    let is_version = |end: &str| end.strip_prefix('v').is_some_and(|n| n.len() == 1 && is_number(n));
    let is_date = |end: &str| end.len() == 8 && is_number(end);
    while let Some((start, end)) = name.rsplit_once('-')
        && (is_version(end) || is_date(end) || end == "latest")
    {
        name = start;
    }
    if name.contains('.') { Cow::Owned(name.replace('.', "-")) } else { Cow::Borrowed(name) }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, day: &str, usage: Usage, terms: BillingTerms) -> Option<u64> {
        let time = Time::parse(format!("{day}T12:00:00Z").as_bytes());
        let price = PriceList::default().find(model, time)?;
        price.cost(&usage, terms).map(|cost| cost.0)
    }

    const MILLION: Usage = Usage {
        input: 1_000_000,
        output: 1_000_000,
        cache_write_5m: 1_000_000,
        cache_write_1h: 1_000_000,
        cache_read: 1_000_000,
        web: 0,
        web_searches: 0,
    };

    #[test]
    fn kinds_of_tokens_have_their_own_price() {
        let expected = 15.0 + 75.0 + 18.75 + 30.0 + 1.5;
        let found = cost("claude-opus-4-1-20250805", "2025-09-01", MILLION, BillingTerms::default());
        assert_eq!(found, Some((expected * 1e6) as u64));
        let searches = Usage { web: 5, web_searches: 3, ..Usage::default() };
        assert_eq!(cost("claude-opus-5", "2026-09-01", searches, BillingTerms::default()), Some(30_000));
    }

    #[test]
    fn long_prompts_cost_more_until_the_price_changed() {
        let long = Usage { input: 200_001, output: 1_000, ..Usage::default() };
        let short = Usage { input: 200_000, output: 1_000, ..Usage::default() };
        let terms = BillingTerms::default();
        assert_eq!(cost("claude-opus-4-6", "2026-03-12", long, terms), Some(2_000_010 + 37_500));
        assert_eq!(cost("claude-opus-4-6", "2026-03-12", short, terms), Some(1_000_000 + 25_000));
        assert_eq!(cost("claude-opus-4-6", "2026-03-13", long, terms), Some(1_000_005 + 25_000));
        let haiku = Usage { input: 100_001, output: 1_000, ..Usage::default() };
        assert_eq!(cost("claude-haiku-5-5", "2026-11-01", haiku, terms), Some(50_001 + 2_500));
    }

    #[test]
    fn terms_change_the_price_and_unknown_ones_have_none() {
        let usage = Usage { input: 1_000_000, ..Usage::default() };
        let fast = BillingTerms { is_fast: true, ..BillingTerms::default() };
        let us = BillingTerms { is_us: true, ..BillingTerms::default() };
        let batch = BillingTerms { is_batch: true, ..BillingTerms::default() };
        assert_eq!(cost("claude-opus-5-5", "2026-11-01", usage, fast), Some(8_000_000));
        assert_eq!(cost("claude-opus-5-5", "2026-11-01", usage, us), Some(4_400_000));
        assert_eq!(cost("claude-opus-5-5", "2026-11-01", usage, batch), Some(2_000_000));
        let all = BillingTerms { is_fast: true, is_us: true, is_batch: true };
        assert_eq!(cost("claude-opus-5-5", "2026-11-01", usage, all), Some(4_400_000));
        assert_eq!(cost("claude-opus-4-5", "2026-11-01", usage, fast), None);
    }

    #[test]
    fn names_of_models_are_exact_without_date_and_provider() {
        for name in [
            "claude-opus-4-5",
            "claude-opus-4-5-20251101",
            "claude-opus-4-5[1m]",
            "us.anthropic.claude-opus-4-5-20251101-v1:0",
            "anthropic/claude-opus-4.5",
            "claude-opus-4-5@20251101",
        ] {
            assert_eq!(plain_name(name), "claude-opus-4-5", "{name}");
        }
        let price = |name: &str| PriceList::default().find(name, None);
        assert!(price("claude-3-5-haiku-20241022").is_some());
        assert!(price("claude-sonnet-4-20250514").is_some_and(|price| price.input == 3_000_000));
        for unknown in ["glm-4.7", "claude-opus-9", "my-claude-opus-4-5", "", "claude-opus-4-5-mini"] {
            assert_eq!(price(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn prices_in_a_file_replace_those_of_the_program() {
        let list = PriceList::with_overrides(
            r#"[{"model":"glm-4.7","input":0.6,"output":2.2,"cache_read":0.11},
                {"model":"claude-opus-5","input":1,"output":1,"until":"2026-10-01"}]"#,
        )
        .expect("prices");
        let glm = list.find("glm-4.7", None).expect("a price");
        assert_eq!((glm.input, glm.cache_write_1h, glm.cache_read), (600_000, 600_000, 110_000));
        let day = |day: &str| Time::parse(format!("{day}T00:00:00Z").as_bytes());
        assert_eq!(list.find("claude-opus-5", day("2026-09-30")).map(|price| price.input), Some(1_000_000));
        assert_eq!(list.find("claude-opus-5", day("2026-10-01")), None);
        assert!(list.find("claude-opus-4-8", day("2026-10-01")).is_some());
        let error = |json: &str| PriceList::with_overrides(json).expect_err("invalid").to_string();
        insta::assert_snapshot!(error(r#"[{"model":"x","input":-1,"output":1}]"#), @"the price `input` of `x` is not a number of dollars");
        insta::assert_snapshot!(error(r#"[{"model":"x","input":1,"output":1,"from":"soon"}]"#), @"`soon`, for `x`, is not a date");
        assert!(error("{}").starts_with("not a list of prices"));
    }

    #[test]
    fn amounts_are_shown_in_dollars_and_cents() {
        let shown = |micros| MicroDollars(micros).to_string();
        assert_eq!(shown(0), "$0.00");
        assert_eq!(shown(1_234_567), "$1.23");
        assert_eq!(shown(5_000), "$0.01");
        assert_eq!(shown(1_230), "$0.00123");
        assert_eq!(shown(12_345_678_900), "$12345.68");
    }

    #[test]
    fn periods_of_a_model_do_not_overlap_and_every_price_has_a_source() {
        let all: Vec<Price> = PriceList::built_in().collect();
        for (at, price) in all.iter().enumerate() {
            assert!(!price.source.is_empty() && price.checked.is_some(), "{}", price.model);
            for other in all[at + 1..].iter().filter(|other| other.model == price.model) {
                assert!(price.until.is_some() && price.until <= other.from, "{}", price.model);
            }
        }
    }
}
