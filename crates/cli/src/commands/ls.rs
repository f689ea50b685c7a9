//! `ls`: lists sessions.

use std::ffi::OsString;
use std::path::Path;

use rethread::{Library, Listing, LsOptions, SessionKind, SessionSummary, SortOrder};
use rethread_render::{self as render, ListColumn, ListOptions, SessionRow};

use crate::args::GlobalArgs;
use crate::commands::{json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::SessionScope;
use crate::terminal::{Terminal, now};
use crate::wording::command_on;
use crate::{CommandOutcome, time_arg};

/// List sessions, newest first
///
/// Lists the sessions of the project that contains the current directory, including those of its git worktrees, or
/// else the sessions of all projects. Subagents, headless runs and files without a conversation are hidden but
/// counted. A clone or repair names its source and is as new as it was made.
///
/// ● marks a session that is open in a client, ! a session of which clients lose or refuse a part
/// (`rethread check` explains it).
///
/// TURNS are prompts that a person typed, on all branches; `rethread tree` counts them for each branch. SIZE is that
/// of the log, without its subagents. BRANCHES are the numbered paths of `rethread tree`, shown if there are several.
///
/// On a narrow terminal, columns are left out in this order: SIZE, BRANCHES, TURNS, PROJECT; those that --sort and
/// --branches are about come last.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Projects: a directory, part of its name, or a directory of .jsonl files
    #[arg(value_name = "PROJECT")]
    projects: Vec<OsString>,

    /// List the sessions of all projects
    #[arg(long, short)]
    all: bool,

    /// Also list subagents, headless runs and files without a conversation
    #[arg(long)]
    agents: bool,

    /// Only sessions modified or made since then: `3d`, `2 weeks`, `yesterday`, `2026-01-31`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Only sessions last modified or made before then
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,

    /// Only sessions with several branches
    #[arg(long)]
    branches: bool,

    /// Only sessions whose last git branch is NAME
    #[arg(long, value_name = "NAME")]
    branch: Option<String>,

    /// Only sessions in which a model with this in its name answered
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// List only the first N sessions; 0 lists all
    #[arg(long, short = 'n', value_name = "N", default_value_t = 0)]
    limit: usize,

    /// Sort order
    #[arg(long, value_name = "ORDER", default_value = "recent")]
    sort: SortArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SortArg {
    /// Most recently modified or made first
    Recent,
    /// Largest first
    Size,
    /// Most turns first
    Turns,
}

pub(crate) fn run(
    args: &LsArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let time = |text: &Option<String>| {
        let now = || now().to_zoned(terminal.stdout.zone.clone());
        text.as_deref()
            .map(|text| time_arg::parse(text, &now()))
            .transpose()
            .map_err(|error| Failure::new(error).kind(FailureKind::InvalidValue))
    };
    let mut options = LsOptions::new().agents(args.agents).branched(args.branches).check(!global.json).sort(
        match args.sort {
            SortArg::Recent => SortOrder::Recent,
            SortArg::Size => SortOrder::Size,
            SortArg::Turns => SortOrder::Turns,
        },
    );
    options.projects.clone_from(&args.projects);
    options.since = time(&args.since)?;
    options.until = time(&args.until)?;
    options.git_branch.clone_from(&args.branch);
    options.model.clone_from(&args.model);
    options.limit = Some(args.limit).filter(|&limit| limit > 0);
    let is_scoped = !args.all && args.projects.is_empty();
    let scope = if is_scoped { SessionScope::here(&library) } else { SessionScope::all() };
    let (mut listing, project) = scope.list(options, |options| list(&library, options, terminal));
    for error in std::mem::take(&mut listing.errors) {
        terminal.warn(&error.into());
    }
    for missing in &listing.missing {
        terminal.warn(&Failure::new(format!("no project matches `{}`", missing.display())));
    }
    let mut out = terminal.output();
    if global.json {
        for session in &listing.sessions {
            json_line(&mut out, &SessionRow::from(session))?;
        }
    } else {
        let ids = library.short_ids(args.agents);
        let home = home_dir();
        let options = ListOptions { ids: &ids, home: home.as_deref(), wanted: &wanted_columns(args) };
        render::write_ls(&mut out, &listing.sessions, &options, &terminal.stdout)?;
    }
    out.finish()?;
    if !global.json {
        print_legend(&listing.sessions, &library, global, terminal);
    }
    print_counts(&listing, project.as_deref(), terminal);
    if listing.sessions.is_empty() {
        if !library.has_projects() && !library.is_demo() && args.projects.is_empty() {
            let roots: Vec<_> = library.roots().iter().map(|r| r.display().to_string()).collect();
            terminal.print_note(&format!(
                "no projects under {}; try --config-dir DIR or --demo",
                roots.join(", ")
            ));
        }
        return Ok(CommandOutcome::Negative);
    }
    Ok(CommandOutcome::Success)
}

/// Returns the columns that the options are about.
fn wanted_columns(args: &LsArgs) -> Vec<ListColumn> {
    let sorted_by = match args.sort {
        SortArg::Recent => None,
        SortArg::Size => Some(ListColumn::Size),
        SortArg::Turns => Some(ListColumn::Turns),
    };
    args.branches.then_some(ListColumn::Branches).into_iter().chain(sorted_by).collect()
}

/// Returns the home directory, for naming projects.
pub(crate) fn home_dir() -> Option<String> {
    std::env::home_dir().map(|home| home.to_string_lossy().into_owned())
}

pub(crate) fn list(library: &Library, options: &LsOptions, terminal: &Terminal) -> Listing {
    let progress = terminal.progress(|| library.scope_bytes(options));
    library.with_progress(progress.observer()).ls(options)
}

/// Explains the marks that occur in a table.
pub(crate) fn print_legend(
    sessions: &[SessionSummary],
    library: &Library,
    global: &GlobalArgs,
    terminal: &Terminal,
) {
    if sessions.iter().any(|session| session.is_live) {
        terminal.print_note("● open in a client");
    }
    if let Some(session) = sessions.iter().find(|session| session.is_harmed()) {
        let check = command_on("check", &session.id, &session.path, library, global);
        terminal.print_note(&format!("! clients lose or refuse a part of it: {check}"));
    }
}

/// Prints how many sessions are listed, and how many are not.
pub(crate) fn print_counts(listing: &Listing, project: Option<&Path>, terminal: &Terminal) {
    let name = |kind: SessionKind, n: usize| {
        let s = if n == 1 { "" } else { "s" };
        match kind {
            SessionKind::Agent => format!("{n} subagent{s}"),
            SessionKind::Orphan => format!("{n} subagent{s} of missing sessions"),
            SessionKind::Headless => format!("{n} headless run{s}"),
            SessionKind::Empty => format!("{n} empty file{s}"),
            SessionKind::Summaries => format!("{n} file{s} with only summaries"),
            SessionKind::Pointer => format!("{n} file{s} without a conversation"),
            _ => String::new(),
        }
    };
    let shown = listing.sessions.len();
    let n_all = shown + listing.beyond_limit;
    let sessions = format!("{n_all} session{}", if n_all == 1 { "" } else { "s" });
    let mut text = match project {
        Some(dir) => format!("{sessions} of {}", dir.display()),
        None => sessions,
    };
    if shown < n_all {
        text = format!("{shown} of {text}; --limit 0 for all");
    }
    let hidden = listing.hidden.iter().filter(|(_, n)| *n > 0);
    let hidden: Vec<String> = hidden.map(|&(kind, n)| name(kind, n)).collect();
    if !hidden.is_empty() {
        text += &format!("; hidden: {} (--agents shows them)", hidden.join(", "));
    }
    terminal.print_note(&text);
}
