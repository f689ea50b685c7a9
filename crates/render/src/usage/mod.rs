//! Usage in the terminal: a table with a bar per group, and receipts.
//!
//! The key, the cost and the output always have a column. On a narrow terminal the bar, the responses, the cache writes, the
//! input and the cache reads are left out in this order.

mod rows;

use std::io::{self, Write};

use jiff::tz::TimeZone;
use rethread_model::{
    Cost, Time, Usage, UsageAmount, UsageBlock, UsageGroup, UsageGrouping, UsageKey, UsageReport,
};
use unicode_width::UnicodeWidthStr;

pub use rows::{ReceiptLineRow, UsageCostRow, UsageGroupRow, UsageReceiptRow, UsageTotalRow, usage_key_text};

use crate::text::{DisplayOptions, Style, escape, format_amount, pad, pad_left, plural, truncate};

/// The width of a table for a pipe, where lines may have any length.
const PIPE_WIDTH: usize = 120;

/// The smallest and the largest width of the bars.
const BAR: (usize, usize) = (8, 24);

/// The widths between which the column of the keys is kept, if there is room.
const KEY: (usize, usize) = (10, 44);

/// A column with numbers: its heading, and its text for an amount.
struct UsageColumn {
    heading: &'static str,
    text: fn(&UsageAmount) -> String,
    /// Columns with a higher rank are left out first.
    rank: u8,
}

const COLUMNS: [UsageColumn; 6] = [
    UsageColumn { heading: "RESPONSES", text: |sum| format_amount(sum.responses), rank: 4 },
    UsageColumn { heading: "INPUT", text: |sum| format_amount(sum.usage.input), rank: 2 },
    UsageColumn { heading: "OUTPUT", text: |sum| format_amount(sum.usage.output), rank: 0 },
    UsageColumn { heading: "CACHE W", text: |sum| format_amount(sum.usage.cache_write()), rank: 3 },
    UsageColumn { heading: "CACHE R", text: |sum| format_amount(sum.usage.cache_read), rank: 1 },
    UsageColumn { heading: "COST", text: |sum| format_cost(&sum.cost), rank: 0 },
];

/// Formats a cost; what is not priced is not shown as 0.
pub fn format_cost(cost: &Cost) -> String {
    match (cost.is_complete(), cost.known.0) {
        (false, 0) => "unpriced".to_owned(),
        (false, _) => format!("{}+", cost.known),
        (true, _) => cost.known.to_string(),
    }
}

/// The label of a group.
#[derive(Debug, Clone)]
pub struct UsageLabel {
    /// The text.
    pub text: String,
    /// Another text behind it, which may be cut: the title of a session.
    pub detail: String,
}

/// Writes a report as a table. `label` names a group; groups after the first `limit` are added up in one line.
pub fn write_usage_report(
    out: &mut dyn Write,
    report: &UsageReport,
    limit: usize,
    label: &dyn Fn(&UsageKey) -> UsageLabel,
    look: &DisplayOptions,
) -> io::Result<()> {
    let (shown, rest) = split_groups(report, limit);
    let mut lines: Vec<UsageLine> = shown
        .iter()
        .map(|group| UsageLine { label: label(&group.key), amount: group.amount, style: Style::Plain })
        .collect();
    if !rest.is_empty() {
        let mut amount = UsageAmount::default();
        for group in rest {
            amount += group.amount;
        }
        let which = if report.grouping.is_time() { "earlier" } else { "others" };
        let label = UsageLabel { text: format!("{} {which}", rest.len()), detail: String::new() };
        let line = UsageLine { label, amount, style: Style::Dim };
        let at = if report.grouping.is_time() { 0 } else { lines.len() };
        lines.insert(at, line);
    }
    let total = UsageLabel { text: "total".to_owned(), detail: String::new() };
    let total = UsageLine { label: total, amount: report.total, style: Style::Title };
    let table = UsageTable::new(&lines.iter().chain([&total]).collect::<Vec<_>>(), report.grouping, look);
    writeln!(out, "{}", table.heading())?;
    let most = lines.iter().map(|line| weight(&line.amount)).max().unwrap_or(0);
    for line in &lines {
        writeln!(out, "{}", table.line(line, most))?;
    }
    writeln!(out, "{}", table.line(&total, 0))
}

/// Returns the groups to show, at most `limit` unless it is 0, and the others: in the order of time the newest groups are
/// shown, else the largest.
pub fn split_groups(report: &UsageReport, limit: usize) -> (&[UsageGroup], &[UsageGroup]) {
    let hidden = if limit == 0 { 0 } else { report.groups.len().saturating_sub(limit) };
    match report.grouping.is_time() {
        true => (&report.groups[hidden..], &report.groups[..hidden]),
        false => report.groups.split_at(report.groups.len() - hidden),
    }
}

/// Returns the amount that the length of a bar stands for: the cost.
fn weight(amount: &UsageAmount) -> u64 {
    amount.cost.known.0
}

struct UsageLine {
    label: UsageLabel,
    amount: UsageAmount,
    style: Style,
}

/// The widths of a table.
struct UsageTable<'l> {
    look: &'l DisplayOptions,
    key: usize,
    heading: String,
    columns: Vec<(&'static UsageColumn, usize)>,
    bar: usize,
}

impl<'l> UsageTable<'l> {
    fn new(lines: &[&UsageLine], grouping: UsageGrouping, look: &'l DisplayOptions) -> Self {
        let width = look.width.unwrap_or(PIPE_WIDTH);
        let heading = grouping.name().to_uppercase();
        let label_width = |line: &UsageLine| {
            let label = look.sanitize_line(&line.label.text).width();
            let detail = look.sanitize_line(&line.label.detail).width();
            label + if detail > 0 { 2 + detail } else { 0 }
        };
        let wanted = lines.iter().copied().map(label_width).max().unwrap_or(0).max(heading.width());
        let column_width = |column: &UsageColumn| {
            let texts = lines.iter().map(|line| (column.text)(&line.amount).width());
            texts.max().unwrap_or(0).max(column.heading.len())
        };
        let mut columns: Vec<(&'static UsageColumn, usize)> =
            COLUMNS.iter().map(|column| (column, column_width(column))).collect();
        let used =
            |columns: &[(&UsageColumn, usize)]| columns.iter().map(|(_, width)| width + 2).sum::<usize>();
        let least_key = wanted.min(KEY.0 + 8);
        while used(&columns) + least_key > width
            && let Some(rank) = columns.iter().map(|(column, _)| column.rank).max().filter(|rank| *rank > 0)
        {
            columns.retain(|(column, _)| column.rank != rank);
        }
        let room = width.saturating_sub(used(&columns));
        let key = wanted.min(KEY.1.max(room / 2)).min(room.max(KEY.0));
        let left = room.saturating_sub(key + 2);
        let bar = if left >= BAR.0 { left.min(BAR.1) } else { 0 };
        Self { look, key, heading, columns, bar }
    }

    fn heading(&self) -> String {
        let mut line = pad(&self.heading, self.key);
        for (column, width) in &self.columns {
            line += "  ";
            line += &pad_left(column.heading, *width);
        }
        self.look.paint(Style::Dim, line)
    }

    fn line(&self, line: &UsageLine, most: u64) -> String {
        let look = self.look;
        let text = truncate(&look.sanitize_line(&line.label.text), self.key);
        let used = text.width();
        let detail = look.sanitize_line(&line.label.detail);
        let room = self.key.saturating_sub(used + 2);
        let detail = if detail.is_empty() || room < 4 { String::new() } else { truncate(&detail, room) };
        let gap = if detail.is_empty() { "" } else { "  " };
        let padding = self.key.saturating_sub(used + gap.len() + detail.width());
        let label_style = if line.style == Style::Plain { Style::Id } else { line.style };
        let mut out = format!("{}{gap}{detail}{}", look.paint(label_style, text), " ".repeat(padding));
        for (column, width) in &self.columns {
            let cell = pad_left(&(column.text)(&line.amount), *width);
            let style = if column.heading == "COST" && line.style == Style::Plain {
                Style::Title
            } else {
                line.style
            };
            out += "  ";
            out += &look.paint(style, cell);
        }
        if self.bar > 0 && most > 0 && line.style == Style::Plain {
            let bar = bar(weight(&line.amount), most, self.bar);
            if !bar.is_empty() {
                out += "  ";
                out += &look.paint(Style::Active, bar);
            }
        }
        out
    }
}

/// Draws a bar in eighths of a column.
fn bar(value: u64, most: u64, width: usize) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (u128::from(value) * (width as u128 * 8)).div_ceil(u128::from(most.max(1)));
    let eighths = usize::try_from(eighths).unwrap_or(width * 8).min(width * 8);
    "█".repeat(eighths / 8) + PARTS[eighths % 8]
}

/// Returns the lines below a report: what is not in the total, and what a naive sum would say.
pub fn usage_notes(report: &UsageReport) -> Vec<String> {
    let mut notes = Vec::new();
    let progress = &report.progress_only;
    if progress.responses > 0 {
        let Usage { input, output, cache_read, .. } = progress.usage;
        notes.push(format!(
            "seen only in progress records, not in the total: {}, {} input, {} cache writes, {} cache reads, at least {} \
             output, {}",
            plural(progress.responses, "response"),
            format_amount(input),
            format_amount(progress.usage.cache_write()),
            format_amount(cache_read),
            format_amount(output),
            format_cost(&progress.cost),
        ));
    }
    if report.unfinished > 0 {
        notes.push(format!(
            "output may be higher: {} of {} were recorded only before they were complete",
            report.unfinished,
            plural(report.total.responses, "response")
        ));
    }
    if !report.total.cost.is_complete() {
        let models: Vec<String> = report
            .unpriced
            .iter()
            .map(|(model, sum)| {
                let name = if model.is_empty() { "no model".into() } else { escape(model) };
                format!(
                    "{name} ({}, {} tokens)",
                    plural(sum.responses, "response"),
                    format_amount(sum.usage.tokens())
                )
            })
            .collect();
        notes.push(format!("no known price: {}", models.join(", ")));
    }
    notes
}

/// Returns the beginning and the end of a block as text.
pub fn format_block(start: Time, zone: &TimeZone) -> String {
    let block = UsageBlock { start, last: start };
    let zoned = |time: Time| time.timestamp().map(|time| time.to_zoned(zone.clone()));
    match (zoned(start), zoned(block.end())) {
        (Some(start), Some(end)) => {
            format!("{} – {}", start.strftime("%Y-%m-%d %H:%M"), end.strftime("%H:%M"))
        }
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rethread_model::{MicroDollars, UsageGroup};

    use super::*;

    fn amount(micros: u64, output: u64) -> UsageAmount {
        let usage = Usage {
            input: 12_000,
            output,
            cache_write_1h: 2_345_678,
            cache_read: 99_000_000,
            ..Usage::default()
        };
        UsageAmount { responses: 42, usage, cost: Cost { known: MicroDollars(micros), ..Cost::default() } }
    }

    fn report(grouping: UsageGrouping, names: &[(&str, u64)]) -> UsageReport {
        let mut total = UsageAmount::default();
        let groups = names
            .iter()
            .map(|(name, micros)| {
                let amount = amount(*micros, 4_321);
                total += amount;
                let key = UsageKey::Name((*name).to_owned());
                UsageGroup { key, amount, models: Vec::new(), span: None, project: None }
            })
            .collect();
        UsageReport { grouping, groups, total, ..UsageReport::default() }
    }

    fn written(report: &UsageReport, limit: usize, width: usize) -> String {
        let now = "2026-03-10T12:00:00Z".parse().expect("a time");
        let look = DisplayOptions { width: Some(width), escape: true, ..DisplayOptions::plain(now) };
        let label = |key: &UsageKey| UsageLabel { text: usage_key_text(key), detail: String::new() };
        let mut out = Vec::new();
        write_usage_report(&mut out, report, limit, &label, &look).expect("written");
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn narrow_tables_have_fewer_columns() {
        let report = report(
            UsageGrouping::Model,
            &[("claude-opus-5", 12_345_678), ("claude-haiku-4-5-20251001", 1_000_000), ("glm-4.7", 999)],
        );
        for width in [120, 80, 60, 40] {
            insta::assert_snapshot!(format!("models_{width}"), written(&report, 0, width));
        }
        insta::assert_snapshot!("models_limited", written(&report, 1, 80));
    }

    #[test]
    fn what_has_no_price_is_not_zero() {
        let unpriced = Cost { unpriced_responses: 1, unpriced_tokens: 5, ..Cost::default() };
        assert_eq!(format_cost(&unpriced), "unpriced");
        let some = Cost { known: MicroDollars(1_000_000), ..unpriced };
        assert_eq!(format_cost(&some), "$1.00+");
        assert_eq!(format_cost(&Cost::default()), "$0.00");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(name in "[a-z漢🦀\u{1b}\u{202e}]{0,90}", micros in any::<u64>(), width in 40usize..200) {
            let report = report(UsageGrouping::Branch, &[(&name, micros / 4), ("main", 7)]);
            for line in written(&report, 0, width).lines() {
                prop_assert!(line.width() <= width, "{} > {}: {}", line.width(), width, line);
                let is_safe = !line.contains('\u{1b}');
                prop_assert!(is_safe, "{line:?}");
            }
        }
    }
}
