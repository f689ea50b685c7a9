//! `usage --explain`: receipts with the rows of the logs.

use std::collections::BTreeMap;
use std::io::Write;

use jiff::tz::TimeZone;
use rethread::{
    DropReason, ExplainedReceipt, LibraryUsage, PriceList, Receipt, Usage, UsageReport, UsageSource,
};
use rethread_render::{
    self as render, DisplayOptions, ReceiptLineRow, Style, UsageReceiptRow, UsageTotalRow, plural,
};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::json_line;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The receipts to explain, and their context.
pub(super) struct Explained<'u> {
    pub(super) usage: &'u LibraryUsage,
    pub(super) receipts: &'u [Receipt<'u>],
    pub(super) prices: &'u PriceList,
    pub(super) report: &'u UsageReport,
    pub(super) zone: &'u TimeZone,
    pub(super) limit: usize,
}

pub(super) fn run(
    explained: &Explained<'_>,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let Explained { usage, receipts, report, limit, .. } = explained;
    let hidden = if *limit == 0 { 0 } else { receipts.len().saturating_sub(*limit) };
    let shown = usage
        .explain(&receipts[hidden..])
        .map_err(|error| Failure::new(format!("cannot read the logs again: {error}")))?;
    let mut out = terminal.output();
    let mut naive = Usage::default();
    let mut dropped: BTreeMap<DropReason, u64> = BTreeMap::new();
    for receipt in &shown {
        for row in &receipt.rows {
            if let Some(reason) = row.dropped {
                *dropped.entry(reason).or_default() += 1;
            }
            if row.dropped != Some(DropReason::Progress) && !receipt.receipt.is_progress_only() {
                naive += row.usage;
            }
        }
        match global.json {
            true => write_json(&mut out, receipt, explained.prices)?,
            false => write_text(&mut out, receipt, explained, &terminal.stdout)?,
        }
    }
    if global.json {
        json_line(&mut out, &UsageTotalRow::new(report, Some(naive)))?;
    }
    out.finish()?;
    if hidden > 0 {
        terminal.print_note(&format!(
            "the last {} of {}; --limit 0 shows all",
            shown.len(),
            plural(receipts.len() as u64, "receipt")
        ));
    }
    let reasons: Vec<String> =
        dropped.iter().map(|(reason, n)| plural(*n, reason_text(*reason)).to_string()).collect();
    if !reasons.is_empty() {
        terminal.print_note(&format!("not counted here: {}", reasons.join(", ")));
    }
    let total = report.total;
    terminal.print_note(&format!(
        "all {}: {}",
        plural(total.responses, "response"),
        render::format_cost(&total.cost)
    ));
    for note in render::usage_notes(report) {
        terminal.print_note(&note);
    }
    Ok(if receipts.is_empty() { CommandOutcome::Negative } else { CommandOutcome::Success })
}

/// Names a reason for people.
fn reason_text(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Chunk => "other chunk",
        DropReason::Reappended => "row written again",
        DropReason::ResumeCopy => "resume copy row",
        DropReason::ForkCopy => "fork copy row",
        DropReason::LogCopy => "log copy row",
        DropReason::Progress => "progress record",
    }
}

/// Describes the price that was applied.
fn price_text(receipt: &Receipt<'_>, prices: &PriceList) -> Option<String> {
    let price = prices.find(receipt.model(), receipt.time)?;
    receipt.price?;
    let mut text = price.model.to_string();
    if let Some(from) = price.from {
        text += &format!(" from {from}");
    }
    if let Some(until) = price.until {
        text += &format!(" until {until}");
    }
    let usage = receipt.counted.recorded.usage;
    let is_long = price.long_prompt.is_some_and(|tier| usage.prompt_tokens() > tier.above);
    let terms = receipt.counted.terms;
    let conditions =
        [(is_long, "long prompt"), (terms.is_fast, "fast"), (terms.is_us, "us"), (terms.is_batch, "batch")];
    for (_, condition) in conditions.iter().filter(|(applies, _)| *applies) {
        text += &format!(", {condition}");
    }
    Some(text)
}

fn write_json(
    out: &mut impl Write,
    explained: &ExplainedReceipt<'_>,
    prices: &PriceList,
) -> Result<(), Failure> {
    let rows = explained.rows.iter().map(|row| ReceiptLineRow {
        path: row.path.to_string_lossy(),
        line: row.line,
        counted: row.dropped.is_none(),
        reason: row.dropped.map(DropReason::name),
        usage: row.usage,
    });
    let price = price_text(&explained.receipt, prices);
    json_line(
        out,
        &UsageReceiptRow::new(&explained.receipt, explained.message_id.as_deref(), price, rows.collect()),
    )?;
    Ok(())
}

fn write_text(
    out: &mut dyn Write,
    explained: &ExplainedReceipt<'_>,
    context: &Explained<'_>,
    look: &DisplayOptions,
) -> std::io::Result<()> {
    let receipt = &explained.receipt;
    let look_here = DisplayOptions { zone: context.zone.clone(), ..look.clone() };
    let id = look.sanitize_line(explained.message_id.as_deref().unwrap_or("(no id)"));
    let model = match receipt.model() {
        "" => "no model".to_owned(),
        model => look.sanitize_line(model),
    };
    let progress = match receipt.counted.source {
        UsageSource::Progress => "  progress only",
        UsageSource::Answer => "",
    };
    writeln!(
        out,
        "{}  {}  {model}  {}{}",
        look.paint(Style::Id, id),
        look_here.format_time(receipt.time),
        look.paint(
            Style::Title,
            receipt.price.map_or_else(
                || "unpriced".to_owned(),
                |cost| format!("${}.{:06}", cost.0 / 1_000_000, cost.0 % 1_000_000)
            )
        ),
        look.paint(Style::Dim, progress),
    )?;
    if let Some(price) = price_text(receipt, context.prices) {
        writeln!(out, "  {}", look.paint(Style::Dim, format!("price of {price}")))?;
    }
    for row in &explained.rows {
        let mark = row.dropped.map_or("counted", reason_text);
        let style = if row.dropped.is_none() { Style::Active } else { Style::Dim };
        let place = look.sanitize_line(&format!("{}:{}", row.path.display(), row.line));
        writeln!(out, "  {}  {}", look.paint(style, format!("{mark:<18}")), place)?;
        let is_new = row.dropped.is_none() || row.usage != receipt.counted.recorded.usage;
        if is_new {
            writeln!(out, "  {:<18}  {}", "", look.paint(Style::Dim, usage_text(&row.usage)))?;
        }
    }
    writeln!(out)
}

/// Lists the tokens of a row.
fn usage_text(usage: &Usage) -> String {
    let mut parts = vec![
        format!("{} in", render::format_count(usage.input)),
        format!("{} out", render::format_count(usage.output)),
    ];
    let rest = [
        (usage.cache_write_5m, "cache write 5m"),
        (usage.cache_write_1h, "cache write 1h"),
        (usage.cache_read, "cache read"),
        (usage.web_searches, "web searches"),
    ];
    parts.extend(
        rest.iter().filter(|(n, _)| *n > 0).map(|(n, name)| format!("{} {name}", render::format_count(*n))),
    );
    parts.join(" · ")
}
