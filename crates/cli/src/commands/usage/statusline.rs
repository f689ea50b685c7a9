//! `usage statusline`: one line for the status line of Claude Code.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rethread::{Cost, Receipt, Time, UsageBlock, UsageFilter};
use rethread_render as render;
use serde::Deserialize;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::library;
use crate::failure::Failure;
use crate::terminal::{Terminal, now};

/// Print the cost of the session, of today and of the current block
///
/// Configure it in settings.json: {"statusLine": {"type": "command", "command": "rethread usage statusline"}}.
/// Other sessions count as of the last `rethread usage`; the current one is always read.
#[derive(Debug, clap::Args)]
pub(super) struct StatuslineArgs {
    /// Prices that replace those in the program: a JSON file
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,
}

/// The fields of the client's status that are used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusInput {
    transcript_path: Option<PathBuf>,
    model: StatusModel,
    context_window: StatusContext,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusModel {
    display_name: Option<String>,
    id: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StatusContext {
    used_percentage: Option<f64>,
}

/// The largest input that is read.
const MAX_INPUT: u64 = 1 << 20;

/// The time that is remembered for today and the current block.
const RECENT: i64 = 48 * 3_600_000;

pub(super) fn run(
    args: &StatuslineArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().lock().take(MAX_INPUT).read_to_end(&mut bytes)?;
    let input: StatusInput = serde_json::from_slice(&bytes).map_err(|error| {
        Failure::new(format!("standard input is not the status of Claude Code: {error}"))
            .hint("`rethread usage statusline` is meant for `statusLine` in settings.json; `rethread usage` is for people")
    })?;
    let prices = super::price_list(args.prices.as_deref())?;
    let library = library(global);
    let now = Time::from_millis(now().as_millisecond());
    let since = Time::from_millis(now.millis().saturating_sub(RECENT));
    let usage = library.recent_usage(input.transcript_path.as_deref(), since);
    let receipts = usage.receipts(&prices, &UsageFilter::default());
    let line = status_line(&input, &receipts, now, terminal);
    let mut out = terminal.output();
    writeln!(out, "{line}")?;
    out.finish()?;
    Ok(CommandOutcome::Success)
}

fn status_line(input: &StatusInput, receipts: &[Receipt<'_>], now: Time, terminal: &Terminal) -> String {
    let look = &terminal.stdout;
    let mut parts = Vec::new();
    let name = input.model.display_name.as_deref().or(input.model.id.as_deref());
    parts
        .extend(name.map(|name| render::truncate(&render::escape(&name.replace(char::is_control, " ")), 40)));
    let counted = || receipts.iter().filter(|receipt| !receipt.is_progress_only());
    if let Some(session) = input.transcript_path.as_deref().and_then(Path::file_stem) {
        let session = session.to_string_lossy();
        let cost = sum(counted().filter(|receipt| receipt.session() == session));
        parts.push(format!("{} session", render::format_cost(&cost)));
    }
    let today = now.timestamp().and_then(|time| time.to_zoned(look.zone.clone()).start_of_day().ok());
    if let Some(today) = today {
        let midnight = Time::from_millis(today.timestamp().as_millisecond());
        let cost = sum(counted().filter(|receipt| receipt.time >= Some(midnight)));
        parts.push(format!("{} today", render::format_cost(&cost)));
    }
    let mut block = None;
    for time in counted().filter_map(|receipt| receipt.time) {
        block = Some(UsageBlock::next(block, time));
    }
    if let Some(block) = block.filter(|block: &UsageBlock| block.contains(now)) {
        let cost = sum(counted().filter(|receipt| receipt.time >= Some(block.start)));
        let left = (block.end().millis() - now.millis()) / 60_000;
        parts.push(format!("{} block, {} h {} min left", render::format_cost(&cost), left / 60, left % 60));
    }
    parts.extend(input.context_window.used_percentage.map(|used| format!("{used:.0} % context")));
    parts.join(" · ")
}

fn sum<'r>(receipts: impl Iterator<Item = &'r Receipt<'r>>) -> Cost {
    let mut sum = Cost::default();
    for receipt in receipts {
        sum += receipt.cost();
    }
    sum
}
