//! `usage`: tokens and cost, each response of the API once.

mod compare;
mod explain;
mod prices;
mod statusline;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use jiff::Zoned;
use jiff::tz::TimeZone;
use rethread::{
    Library, LibraryUsage, PriceList, Receipt, SessionId, Time, UsageFilter, UsageGrouping, UsageKey,
    UsageReport,
};
use rethread_render::{self as render, UsageGroupRow, UsageLabel, UsageTotalRow, plural};

use crate::args::GlobalArgs;
use crate::commands::{json_line, writable_library};
use crate::failure::Failure;
use crate::scope::find_many;
use crate::terminal::{Terminal, now};
use crate::wording::unreadable;
use crate::{CommandOutcome, time_arg};

/// Count tokens and cost, each response of the API once
///
/// Logs repeat the usage of a response: in each content block, in resumed and forked sessions, after compactions and in
/// progress records. Here a response counts once, with the row that is final, and is billed to the session that has it
/// first; so copying, forking or moving a session changes no total. --explain shows the rows and why they count or not.
///
/// Costs are computed from the prices in the program (`rethread usage prices`), which were valid at the time of the response.
/// They are the prices of the API, also for those who pay a flat rate. A model without a known price is listed, not counted
/// as 0. Subagents are included.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct UsageArgs {
    #[command(subcommand)]
    action: Option<UsageAction>,

    /// Only responses that are billed to these sessions; defaults to all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Group by this
    #[arg(long, short, value_enum, default_value = "day")]
    by: GroupingArg,

    /// Only responses since then: `3d`, `2 weeks`, `yesterday`, `2026-01-31`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only responses before then
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only the last days, from midnight on: `7d`, `4 weeks`, `1mo`
    #[arg(long, value_name = "SPAN", conflicts_with = "since")]
    last: Option<String>,

    /// Only sessions of this project: a directory, or part of its name
    #[arg(long, value_name = "NAME")]
    project: Vec<String>,

    /// Only models whose name contains this
    #[arg(long, value_name = "NAME")]
    model: Vec<String>,

    /// The time zone in which days begin, such as `UTC` or `Europe/Berlin`; defaults to that of this machine
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,

    /// Show at most N groups or receipts, the last or the largest ones; 0 for all, the default with --json; otherwise 30
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,

    /// Prices that replace those in the program: a JSON file, see docs/usage.md
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,

    /// List each response with the rows that were found for it, and why each counts or not
    #[arg(long)]
    explain: bool,

    /// Compare with the output of `ccusage daily --json`, and explain each difference
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sessions", "since", "until", "last", "project", "model", "explain"])]
    compare: Option<PathBuf>,

    /// Read all logs and neither use nor update what is remembered of them
    #[arg(long)]
    no_index: bool,
}

#[derive(Debug, clap::Subcommand)]
enum UsageAction {
    /// Print one line for the status line of Claude Code, whose JSON is read from standard input
    Statusline(statusline::StatuslineArgs),
    /// List the prices in the program, with their periods and sources
    Prices,
}

/// The property by which usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum GroupingArg {
    /// By day
    Day,
    /// By week, from Monday on
    Week,
    /// By month
    Month,
    /// By session, the most expensive first
    Session,
    /// By project
    Project,
    /// By model
    Model,
    /// By tool; a response with several calls is divided among them
    Tool,
    /// By git branch
    Branch,
    /// By subagent, and the main conversations
    Subagent,
    /// By block of five hours, the period of limits
    Block,
}

impl From<GroupingArg> for UsageGrouping {
    fn from(arg: GroupingArg) -> Self {
        match arg {
            GroupingArg::Day => Self::Day,
            GroupingArg::Week => Self::Week,
            GroupingArg::Month => Self::Month,
            GroupingArg::Session => Self::Session,
            GroupingArg::Project => Self::Project,
            GroupingArg::Model => Self::Model,
            GroupingArg::Tool => Self::Tool,
            GroupingArg::Branch => Self::Branch,
            GroupingArg::Subagent => Self::Subagent,
            GroupingArg::Block => Self::Block,
        }
    }
}

/// The number of groups or receipts that are shown on a terminal if nothing else is asked for.
const DEFAULT_LIMIT: usize = 30;

pub(crate) fn run(
    args: &UsageArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    match &args.action {
        Some(UsageAction::Statusline(args)) => return statusline::run(args, global, terminal),
        Some(UsageAction::Prices) => return prices::run(global, terminal),
        None => {}
    }
    let limit = args.limit.unwrap_or(if global.json { 0 } else { DEFAULT_LIMIT });
    let zone = time_zone(args.timezone.as_deref(), terminal)?;
    let prices = price_list(args.prices.as_deref())?;
    let library = writable_library(global, terminal)?;
    let filter = filter(args, &library, &zone, terminal)?;
    let progress = terminal.progress(|| library.all_bytes());
    let usage = library.with_progress(progress.observer()).usage(args.no_index);
    drop(progress);
    for (path, error) in &usage.unreadable {
        terminal.warn(&Failure::new(unreadable(path, error)));
    }
    let receipts = usage.receipts(&prices, &filter);
    if let Some(file) = &args.compare {
        return compare::run(file, &usage, &receipts, limit, global, terminal);
    }
    let report = UsageReport::new(&receipts, args.by.into(), &zone);
    if args.explain {
        return explain::run(
            &explain::Explained {
                usage: &usage,
                receipts: &receipts,
                prices: &prices,
                report: &report,
                zone: &zone,
                limit,
            },
            global,
            terminal,
        );
    }
    let is_whole = args.sessions.is_empty()
        && filter.since.is_none()
        && filter.until.is_none()
        && filter.projects.is_empty()
        && filter.models.is_empty();
    let titles = titles(&library, &usage, &receipts, &report, limit);
    let naive = is_whole.then(|| UsageReport::naive(&usage.logs));
    let mut out = terminal.output();
    if global.json {
        for group in render::split_groups(&report, limit).0 {
            let title = match &group.key {
                UsageKey::Name(name) => titles.get(name.as_str()).map(String::as_str),
                _ => None,
            };
            json_line(&mut out, &UsageGroupRow::new(&report, group, title))?;
        }
        json_line(&mut out, &UsageTotalRow::new(&report, naive))?;
        out.finish()?;
    } else if report.total.responses > 0 {
        let ids = library.short_ids(true);
        let label = |key: &UsageKey| match (report.grouping, key) {
            (UsageGrouping::Session, UsageKey::Name(id)) => UsageLabel {
                text: render::shown_id(id, &ids, &terminal.stdout).to_owned(),
                detail: titles.get(id).cloned().unwrap_or_default(),
            },
            (grouping, key) => label(key, grouping, &zone),
        };
        render::write_usage_report(&mut out, &report, limit, &label, &terminal.stdout)?;
        out.finish()?;
    }
    print_notes(&report, naive, terminal);
    let is_empty = report.total.responses == 0 && report.progress_only.responses == 0;
    Ok(if is_empty { CommandOutcome::Negative } else { CommandOutcome::Success })
}

/// Prints what is not in the total, and how it was counted.
fn print_notes(report: &UsageReport, naive: Option<rethread::Usage>, terminal: &Terminal) {
    if report.total.responses == 0 && report.progress_only.responses == 0 {
        terminal.print_note("no usage is recorded in the selected sessions and time");
        return;
    }
    for note in render::usage_notes(report) {
        terminal.print_note(&note);
    }
    if !report.total.cost.is_complete() {
        terminal.print_note("`rethread usage prices` lists what is known; --prices FILE adds prices");
    }
    if let Some(naive) = naive {
        let (once, all) = (report.total.usage.tokens(), naive.tokens());
        let more = all.saturating_sub(once).saturating_mul(100) / once.max(1);
        terminal.print_note(&format!(
            "{} counted once; adding up all {} would give {more} % more tokens",
            plural(report.total.responses, "response"),
            plural(report.rows, "row"),
        ));
    }
}

/// Returns the time zone in which days begin.
fn time_zone(named: Option<&str>, terminal: &Terminal) -> Result<TimeZone, Failure> {
    match named {
        None => Ok(terminal.stdout.zone.clone()),
        Some(name) if name.eq_ignore_ascii_case("utc") => Ok(TimeZone::UTC),
        Some(name) => TimeZone::get(name).map_err(|_| {
            Failure::new(format!("`{name}` is not a time zone"))
                .hint("zones are named like `Europe/Berlin` or `UTC`")
        }),
    }
}

/// Returns the known prices, with those of a file.
fn price_list(file: Option<&std::path::Path>) -> Result<PriceList, Failure> {
    let Some(path) = file else { return Ok(PriceList::default()) };
    let shown = path.display();
    let json = rethread::read_usage_file(path)
        .map_err(|error| Failure::new(format!("cannot read {shown}: {error}")))?;
    PriceList::with_overrides(&json).map_err(|error| {
        Failure::new(format!("{shown}: {error}"))
            .hint(r#"prices are like [{"model":"name","input":3,"output":15,"cache_read":0.3}], in dollars for a million tokens"#)
    })
}

fn filter(
    args: &UsageArgs,
    library: &Library,
    zone: &TimeZone,
    terminal: &Terminal,
) -> Result<UsageFilter, Failure> {
    let today = now().to_zoned(zone.clone());
    let parse = |text: &Option<String>| -> Result<Option<Time>, Failure> {
        text.as_deref().map(|text| time_arg::parse(text, &today)).transpose().map_err(Failure::new)
    };
    let last = parse(&args.last)?.map(|time| midnight(time, &today));
    let sessions = match args.sessions.is_empty() {
        true => Vec::new(),
        false => find_many(library, &args.sessions, false, terminal)?.iter().map(|log| log.id()).collect(),
    };
    Ok(UsageFilter {
        since: parse(&args.since)?.or(last),
        until: parse(&args.until)?,
        sessions,
        projects: args.project.clone(),
        models: args.model.clone(),
    })
}

/// Returns the beginning of the day of a time.
fn midnight(time: Time, today: &Zoned) -> Time {
    let zoned = time.timestamp().map(|time| time.to_zoned(today.time_zone().clone()));
    let start = zoned.and_then(|zoned| zoned.start_of_day().ok());
    start.map_or(time, |start| Time::from_millis(start.timestamp().as_millisecond()))
}

/// Returns the titles of the sessions that are shown.
fn titles(
    library: &Library,
    usage: &LibraryUsage,
    receipts: &[Receipt<'_>],
    report: &UsageReport,
    limit: usize,
) -> BTreeMap<String, String> {
    if report.grouping != UsageGrouping::Session {
        return BTreeMap::new();
    }
    let limit = if limit == 0 { usize::MAX } else { limit };
    let shown = report.groups.iter().take(limit).filter_map(|group| match &group.key {
        UsageKey::Name(name) => Some(SessionId::from(name.as_str())),
        _ => None,
    });
    let title = |id: SessionId| {
        let is_log = |log: &&rethread::LogUsage| log.session == id && !log.is_subagent;
        let billed = receipts.iter().map(|receipt| receipt.log).find(is_log);
        let log = billed.or_else(|| usage.logs.iter().find(is_log))?;
        let source = library.find(&log.path).ok()?.into_iter().next()?;
        Some((id.as_str().to_owned(), library.summary(&source).ok()?.title.text))
    };
    shown.filter_map(title).collect()
}

/// Names a group for people.
fn label(key: &UsageKey, grouping: UsageGrouping, zone: &TimeZone) -> UsageLabel {
    let text = match (grouping, key) {
        (_, UsageKey::Block(start)) => render::format_block(*start, zone),
        (UsageGrouping::Tool, UsageKey::None) => "no tool call".to_owned(),
        (UsageGrouping::Subagent, UsageKey::None) => "main conversations".to_owned(),
        (UsageGrouping::Subagent, UsageKey::Unknown) => "subagents without id".to_owned(),
        (UsageGrouping::Branch, UsageKey::None) => "no branch".to_owned(),
        (_, key) => render::usage_key_text(key),
    };
    UsageLabel { text, detail: String::new() }
}
