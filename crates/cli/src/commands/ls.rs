//! `ls`: lists sessions.

use std::ffi::OsString;

use rethread::{Library, Listing, LsOptions, SessionKind, SortOrder};
use rethread_render::{self as render, SessionRow};

use crate::args::GlobalArgs;
use crate::commands::{json_line, library};
use crate::failure::Failure;
use crate::terminal::{Terminal, now};
use crate::{CommandOutcome, time_arg};

/// List sessions, newest first
///
/// Lists the sessions of the current directory's project if it has any, and of all projects otherwise.
/// Subagents, headless runs and files without a conversation are hidden but counted.
///
/// ● marks a session that is open in a client, ! a session with defects (`rethread info` lists them).
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

    /// Only sessions modified since then: `3d`, `2 weeks`, `yesterday`, `2026-01-31`
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,

    /// Sort order
    #[arg(long, value_name = "ORDER", default_value = "recent")]
    sort: SortArg,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum SortArg {
    /// Most recently modified first
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
    let since = args
        .since
        .as_deref()
        .map(|text| time_arg::parse(text, &now().to_zoned(terminal.stdout.zone.clone())))
        .transpose();
    let mut options = LsOptions::new().agents(args.agents).sort(match args.sort {
        SortArg::Recent => SortOrder::Recent,
        SortArg::Size => SortOrder::Size,
        SortArg::Turns => SortOrder::Turns,
    });
    options.projects.clone_from(&args.projects);
    options.since = since.map_err(Failure::new)?;
    if !args.all && args.projects.is_empty() {
        options.cwd = current_project_dir(&library);
    }
    let mut listing = list(&library, &options, terminal);
    if options.cwd.is_some() && listing.is_empty() {
        // The directory only shares its encoded name with another project.
        options.cwd = None;
        listing = list(&library, &options, terminal);
    }
    for error in listing.errors {
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
        render::write_ls(&mut out, &listing.sessions, &terminal.stdout)?;
    }
    out.finish()?;
    print_hidden(&listing.hidden, listing.sessions.len(), terminal);
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

/// Returns the current directory if it is a project with sessions.
pub(crate) fn current_project_dir(library: &Library) -> Option<std::path::PathBuf> {
    let cwd = std::env::current_dir().ok()?;
    library.has_project(&cwd).then_some(cwd)
}

pub(crate) fn list(library: &Library, options: &LsOptions, terminal: &Terminal) -> Listing {
    let progress = terminal.progress(|| library.scope_bytes(options));
    library.with_progress(progress.observer()).ls(options)
}

pub(crate) fn print_hidden(hidden: &[(SessionKind, usize)], shown: usize, terminal: &Terminal) {
    let name = |kind: SessionKind, n: usize| {
        let s = if n == 1 { "" } else { "s" };
        match kind {
            SessionKind::Agent => format!("{n} subagent{s}"),
            SessionKind::Headless => format!("{n} headless run{s}"),
            SessionKind::Empty => format!("{n} empty file{s}"),
            SessionKind::Summaries => format!("{n} file{s} with only summaries"),
            SessionKind::Pointer => format!("{n} file{s} without a conversation"),
            _ => String::new(),
        }
    };
    let parts: Vec<String> = hidden.iter().filter(|(_, n)| *n > 0).map(|&(kind, n)| name(kind, n)).collect();
    let sessions = format!("{shown} session{}", if shown == 1 { "" } else { "s" });
    if parts.is_empty() {
        terminal.print_note(&sessions);
    } else {
        terminal.print_note(&format!("{sessions}; hidden: {} (--agents shows them)", parts.join(", ")));
    }
}
