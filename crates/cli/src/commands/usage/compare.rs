//! `usage --compare`: the difference to ccusage.

use std::io::Write;
use std::path::Path;

use rethread::{DifferenceCause, ForeignTotals, LibraryUsage, Receipt, UsageComparison};
use rethread_render::{Style, format_count, plural};
use serde::Serialize;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::json_line;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// A response, or a sum, as JSON.
#[derive(Serialize)]
struct DifferenceRow<'d> {
    r#type: &'static str,
    cause: Option<&'static str>,
    id: Option<&'d str>,
    path: Option<String>,
    line: Option<u32>,
    responses: u64,
    input: i64,
    output: i64,
    cache_write: i64,
    cache_read: i64,
}

impl<'d> DifferenceRow<'d> {
    fn new(r#type: &'static str, responses: u64, sum: ForeignTotals) -> Self {
        let ForeignTotals { input, output, cache_write, cache_read } = sum;
        Self {
            r#type,
            cause: None,
            id: None,
            path: None,
            line: None,
            responses,
            input,
            output,
            cache_write,
            cache_read,
        }
    }
}

pub(super) fn run(
    file: &Path,
    usage: &LibraryUsage,
    receipts: &[Receipt<'_>],
    limit: usize,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let shown = file.display();
    let json = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    let reported = ForeignTotals::parse(&json).ok_or_else(|| {
        Failure::new(format!("{shown} has no totals of ccusage"))
            .hint("`ccusage daily --json > FILE` writes them; leave out --since and --until")
    })?;
    let comparison = usage
        .compare(receipts)
        .map_err(|error| Failure::new(format!("cannot read the logs again: {error}")))?;
    let rest = reported - comparison.theirs;
    let mut out = terminal.output();
    match global.json {
        true => write_json(&mut out, &comparison, reported, rest)?,
        false => write_text(&mut out, &comparison, reported, limit, terminal)?,
    }
    out.finish()?;
    if rest == ForeignTotals::default() {
        terminal.print_note("the causes explain the difference to the last token");
        return Ok(CommandOutcome::Success);
    }
    terminal.print_note(&format!(
        "not explained: {} input, {} output, {} cache writes, {} cache reads",
        signed(rest.input),
        signed(rest.output),
        signed(rest.cache_write),
        signed(rest.cache_read)
    ));
    terminal.print_note("was the file made from the same directories, without --since, and just now?");
    Ok(CommandOutcome::Negative)
}

fn write_json(
    out: &mut impl Write,
    comparison: &UsageComparison,
    reported: ForeignTotals,
    rest: ForeignTotals,
) -> Result<(), Failure> {
    for difference in &comparison.differences {
        let row = DifferenceRow {
            cause: Some(difference.cause.name()),
            id: difference.message_id.as_deref(),
            path: Some(difference.path.to_string_lossy().into_owned()),
            line: Some(difference.line),
            ..DifferenceRow::new("difference", 1, difference.difference)
        };
        json_line(out, &row)?;
    }
    for (cause, (responses, sum)) in &comparison.causes {
        json_line(
            out,
            &DifferenceRow { cause: Some(cause.name()), ..DifferenceRow::new("cause", *responses, *sum) },
        )?;
    }
    for (name, sum) in [
        ("ours", comparison.ours),
        ("computed", comparison.theirs),
        ("reported", reported),
        ("unexplained", rest),
    ] {
        json_line(out, &DifferenceRow::new(name, 0, sum))?;
    }
    Ok(())
}

fn write_text(
    out: &mut impl Write,
    comparison: &UsageComparison,
    reported: ForeignTotals,
    limit: usize,
    terminal: &Terminal,
) -> std::io::Result<()> {
    let look = &terminal.stdout;
    let line = |name: &str, responses: &str, sum: &ForeignTotals, sign: fn(i64) -> String| {
        let ForeignTotals { input, output, cache_write, cache_read } = *sum;
        let cells = [input, output, cache_write, cache_read].map(sign);
        format!("{name:<26}{responses:>10}{:>14}{:>14}{:>15}{:>17}", cells[0], cells[1], cells[2], cells[3])
    };
    let heading = format!(
        "{:<26}{:>10}{:>14}{:>14}{:>15}{:>17}",
        "", "RESPONSES", "INPUT", "OUTPUT", "CACHE WRITE", "CACHE READ"
    );
    writeln!(out, "{}", look.paint(Style::Dim, heading))?;
    writeln!(out, "{}", line("rethread", "", &comparison.ours, signless))?;
    for (cause, (responses, sum)) in &comparison.causes {
        writeln!(out, "{}", line(cause_text(*cause), &format_count(*responses), sum, signed))?;
    }
    writeln!(out, "{}", line("ccusage, by its rule", "", &comparison.theirs, signless))?;
    writeln!(out, "{}", line("ccusage, as reported", "", &reported, signless))?;
    let limit = if limit == 0 { usize::MAX } else { limit };
    if !comparison.differences.is_empty() {
        writeln!(out)?;
    }
    for difference in comparison.differences.iter().take(limit) {
        let ForeignTotals { input, output, cache_write, cache_read } = difference.difference;
        let id = look.sanitize_line(difference.message_id.as_deref().unwrap_or("(no id)"));
        let place = look.sanitize_line(&format!("{}:{}", difference.path.display(), difference.line));
        writeln!(
            out,
            "{}  {}: {} input, {} output, {} cache write, {} cache read\n  {}",
            look.paint(Style::Id, id),
            cause_text(difference.cause),
            signed(input),
            signed(output),
            signed(cache_write),
            signed(cache_read),
            look.paint(Style::Dim, place)
        )?;
    }
    if comparison.differences.len() > limit {
        let n = plural(comparison.differences.len() as u64, "response");
        terminal.print_note(&format!("the {limit} largest differences of {n}; --limit 0 shows all"));
    }
    Ok(())
}

/// Names a cause for people.
fn cause_text(cause: DifferenceCause) -> &'static str {
    match cause {
        DifferenceCause::ProgressOnly => "only in progress records",
        DifferenceCause::NoRequestId => "each chunk counted",
        DifferenceCause::MainBeatsSidechain => "partial row preferred",
        DifferenceCause::OtherRow => "other row preferred",
        DifferenceCause::CacheBreakdown => "breakdown preferred",
        DifferenceCause::NotRead => "not read",
        DifferenceCause::Synthetic => "written by the client",
    }
}

fn signless(n: i64) -> String {
    format_count(n.unsigned_abs())
}

fn signed(n: i64) -> String {
    match n {
        0 => "0".to_owned(),
        n => format!("{}{}", if n < 0 { '-' } else { '+' }, format_count(n.unsigned_abs())),
    }
}
