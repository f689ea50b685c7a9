//! `usage prices`: the prices in the program.

use std::io::Write;

use rethread::{Price, PriceList};
use rethread_render::Style;
use serde::Serialize;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::json_line;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// A price as JSON, in dollars for a million tokens.
#[derive(Serialize)]
struct PriceJson<'p> {
    r#type: &'static str,
    model: &'p str,
    from: Option<String>,
    until: Option<String>,
    input: f64,
    output: f64,
    cache_write_5m: f64,
    cache_write_1h: f64,
    cache_read: f64,
    long_prompt_above: Option<u64>,
    long_prompt_input_percent: Option<u32>,
    long_prompt_output_percent: Option<u32>,
    fast_percent: Option<u32>,
    us_percent: Option<u32>,
    source: &'p str,
    checked: Option<String>,
}

pub(super) fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let mut out = terminal.output();
    let look = &terminal.stdout;
    if !global.json {
        let heading = format!(
            "{:<18}{:>8}{:>8}{:>9}{:>9}{:>8}  {}",
            "MODEL", "INPUT", "OUTPUT", "WRITE 5M", "WRITE 1H", "READ", "CONDITIONS"
        );
        writeln!(out, "{}", look.paint(Style::Dim, heading))?;
    }
    for price in PriceList::built_in() {
        match global.json {
            true => json_line(&mut out, &row(&price))?,
            false => writeln!(out, "{}", line(&price))?,
        }
    }
    out.finish()?;
    if !global.json {
        terminal.print_note(
            "dollars for a million tokens; a thousand web searches cost $10, batches half of the price",
        );
        let checked = PriceList::built_in().find_map(|price| price.checked);
        if let Some(day) = checked {
            terminal.print_note(&format!(
                "read on {day} from LiteLLM and genai-prices; --json lists the source of each"
            ));
        }
    }
    Ok(CommandOutcome::Success)
}

fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn row(price: &Price) -> PriceJson<'_> {
    let tier = price.long_prompt;
    PriceJson {
        r#type: "price",
        model: &price.model,
        from: price.from.map(|day| day.to_string()),
        until: price.until.map(|day| day.to_string()),
        input: dollars(price.input),
        output: dollars(price.output),
        cache_write_5m: dollars(price.cache_write_5m),
        cache_write_1h: dollars(price.cache_write_1h),
        cache_read: dollars(price.cache_read),
        long_prompt_above: tier.map(|tier| tier.above),
        long_prompt_input_percent: tier.map(|tier| tier.prompt_percent),
        long_prompt_output_percent: tier.map(|tier| tier.output_percent),
        fast_percent: price.fast_percent,
        us_percent: price.us_percent,
        source: &price.source,
        checked: price.checked.map(|day| day.to_string()),
    }
}

fn line(price: &Price) -> String {
    let amount = |micros: u64| {
        let text = format!("{:.3}", dollars(micros));
        match text.strip_suffix('0') {
            Some(short) => short.to_owned(),
            None => text,
        }
    };
    let mut conditions = Vec::new();
    if let Some(from) = price.from {
        conditions.push(format!("from {from}"));
    }
    if let Some(until) = price.until {
        conditions.push(format!("until {until}"));
    }
    if let Some(tier) = price.long_prompt {
        conditions.push(format!(
            "above {}k: {} % / {} %",
            tier.above / 1000,
            tier.prompt_percent,
            tier.output_percent
        ));
    }
    conditions.extend(price.fast_percent.map(|percent| format!("fast {percent} %")));
    conditions.extend(price.us_percent.map(|percent| format!("us {percent} %")));
    let text = format!(
        "{:<18}{:>8}{:>8}{:>9}{:>9}{:>8}  {}",
        price.model,
        amount(price.input),
        amount(price.output),
        amount(price.cache_write_5m),
        amount(price.cache_write_1h),
        amount(price.cache_read),
        conditions.join(", ")
    );
    text.trim_end().to_owned()
}
