//! The prices of models, with the period and the source of each.
//!
//! Prices are in hundredths of a cent for a million tokens, so that all are whole numbers. To add a model, add a row. To
//! change a price, end the old row with `until` and add one with `from`: old sessions keep their old price.

use jiff::civil::{Date, date};

use super::prices::{LongPrompt, Price};

/// A row of the table.
pub(super) struct PriceRow {
    /// The names of the model; the first is the usual one.
    pub(super) models: &'static [&'static str],
    from: Option<Date>,
    until: Option<Date>,
    /// Input, output, cache writes for five minutes and for an hour, cache reads: in hundredths of a cent.
    prices: [u64; 5],
    long_prompt: Option<LongPrompt>,
    fast_percent: Option<u32>,
    us_percent: Option<u32>,
    source: &'static str,
}

/// Both lists agree.
const BOTH: &str = "LiteLLM 1.108.4 and genai-prices 0.2.3";

/// Only this list has the model: it was retired, or is new.
const GENAI: &str = "genai-prices 0.2.3";

/// Only this list has the model.
const LITELLM: &str = "LiteLLM 1.108.4";

/// The day on which the lists were read.
const CHECKED: Date = date(2026, 11, 19);

/// Until 2026 a prompt of more than 200,000 tokens cost twice as much, and its answer one and a half times.
const LONG: Option<LongPrompt> =
    Some(LongPrompt { above: 200_000, prompt_percent: 200, output_percent: 150 });

const OPUS_3: [u64; 5] = [150_000, 750_000, 187_500, 300_000, 15_000];
const OPUS_4_5: [u64; 5] = [50_000, 250_000, 62_500, 100_000, 5_000];
const SONNET: [u64; 5] = [30_000, 150_000, 37_500, 60_000, 3_000];
const FABLE: [u64; 5] = [100_000, 500_000, 125_000, 200_000, 10_000];
const FABLE_5_1: [u64; 5] = [100_000, 500_000, 125_000, 200_000, 2_500];
const FABLE_5_2: [u64; 5] = [80_000, 400_000, 100_000, 160_000, 2_000];

const fn row(models: &'static [&'static str], prices: [u64; 5], source: &'static str) -> PriceRow {
    PriceRow {
        models,
        from: None,
        until: None,
        prices,
        long_prompt: None,
        fast_percent: None,
        us_percent: None,
        source,
    }
}

impl PriceRow {
    const fn from(self, day: Date) -> Self {
        Self { from: Some(day), ..self }
    }

    const fn until(self, day: Date) -> Self {
        Self { until: Some(day), ..self }
    }

    const fn long(self, long_prompt: Option<LongPrompt>) -> Self {
        Self { long_prompt, ..self }
    }

    /// Adds the price of inference in the United States, which all models from 4.6 on have.
    const fn us(self) -> Self {
        Self { us_percent: Some(110), ..self }
    }

    const fn fast(self) -> Self {
        Self { fast_percent: Some(200), ..self }
    }
}

/// The prices, newest models first.
pub(super) static PRICES: &[PriceRow] = &[
    row(&["claude-opus-5-5"], [40_000, 200_000, 50_000, 80_000, 2_000], BOTH).us().fast(),
    row(&["claude-opus-5", "claude-opus-5-0"], OPUS_4_5, BOTH).us().fast(),
    row(&["claude-opus-4-8"], OPUS_4_5, BOTH).us().fast(),
    row(&["claude-opus-4-7"], OPUS_4_5, BOTH).us(),
    row(&["claude-opus-4-6"], OPUS_4_5, GENAI).us().until(date(2026, 3, 13)).long(LONG),
    row(&["claude-opus-4-6"], OPUS_4_5, BOTH).us().from(date(2026, 3, 13)),
    row(&["claude-opus-4-5"], OPUS_4_5, BOTH),
    row(&["claude-opus-4-1"], OPUS_3, GENAI),
    row(&["claude-opus-4", "claude-opus-4-0", "claude-4-opus"], OPUS_3, GENAI),
    row(&["claude-3-opus", "claude-opus-3"], OPUS_3, GENAI),
    row(&["claude-sonnet-5-5"], [20_000, 100_000, 25_000, 40_000, 1_000], BOTH).us(),
    row(&["claude-sonnet-5", "claude-sonnet-5-0"], [20_000, 100_000, 25_000, 40_000, 2_000], BOTH).us(),
    row(&["claude-sonnet-4-6"], SONNET, GENAI).us().until(date(2026, 3, 13)).long(LONG),
    row(&["claude-sonnet-4-6"], SONNET, BOTH).us().from(date(2026, 3, 13)),
    row(&["claude-sonnet-4-5"], SONNET, GENAI).until(date(2026, 5, 1)).long(LONG),
    row(&["claude-sonnet-4-5"], SONNET, LITELLM).from(date(2026, 5, 1)),
    row(&["claude-sonnet-4", "claude-sonnet-4-0", "claude-4-sonnet"], SONNET, GENAI),
    row(&["claude-3-7-sonnet", "claude-sonnet-3-7"], SONNET, GENAI),
    row(&["claude-3-5-sonnet", "claude-sonnet-3-5"], SONNET, GENAI),
    row(&["claude-3-sonnet"], SONNET, GENAI),
    row(&["claude-haiku-5-5"], [1_000, 5_000, 1_250, 2_000, 100], BOTH).us().long(Some(LongPrompt {
        above: 100_000,
        prompt_percent: 500,
        output_percent: 500,
    })),
    row(&["claude-haiku-4-5"], [10_000, 50_000, 12_500, 20_000, 1_000], BOTH),
    row(&["claude-3-5-haiku", "claude-haiku-3-5"], [8_000, 40_000, 10_000, 16_000, 800], GENAI),
    row(&["claude-3-haiku"], [2_500, 12_500, 3_000, 5_000, 300], GENAI),
    row(&["claude-fable-5-2"], FABLE_5_2, GENAI),
    row(&["claude-fable-5-1"], FABLE_5_1, BOTH).us(),
    row(&["claude-fable-5"], FABLE, BOTH).us(),
    row(&["claude-mythos-5-2"], FABLE_5_2, GENAI),
    row(&["claude-mythos-5-1"], FABLE_5_1, LITELLM).us(),
    row(&["claude-mythos-5", "claude-mythos-preview"], FABLE, LITELLM).us(),
];

/// Returns the prices in a row.
pub(super) fn base_prices(row: &PriceRow) -> Price {
    let [input, output, cache_write_5m, cache_write_1h, cache_read] = row.prices.map(|price| price * 100);
    Price {
        model: row.models.first().copied().unwrap_or_default().into(),
        from: row.from,
        until: row.until,
        input,
        output,
        cache_write_5m,
        cache_write_1h,
        cache_read,
        long_prompt: row.long_prompt,
        fast_percent: row.fast_percent,
        us_percent: row.us_percent,
        source: row.source.into(),
        checked: Some(CHECKED),
    }
}
