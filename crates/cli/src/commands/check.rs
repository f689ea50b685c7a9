//! `check`: whether sessions will resume.

use std::ffi::OsString;
use std::io::Write;

use rayon::prelude::*;
use rethread::{CheckOptions, CheckReport, ClientChoice, Library, LogSource};
use rethread_render::{self as render, FindingRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_line, library, ls, selector};
use crate::failure::Failure;
use crate::terminal::Terminal;
use crate::wording::finding_hint;

/// Check whether sessions will resume, and what would be lost
///
/// Checks sessions against the rules of the clients still in use (2.1.112 and newer). Reports parts of
/// the conversation that would not reach the model (loses), content that the client or the API would
/// reject (refuses), and harmless irregularities (odd), each with its line, the affected client versions
/// and a hint.
///
/// The reference is the intended path: the branch that the newest client resumes, with every repairable
/// link restored. If that branch contains only local commands, the reference is the conversation in
/// which they were typed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct CheckArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project, or to all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Include all projects, not only the current directory's
    #[arg(long, short)]
    all: bool,

    /// Check against this client version, or against `all` known versions
    #[arg(long, value_name = "VERSION")]
    client: Option<String>,
}

const AFTER: &str = "\
Exit status: 0 nothing is lost or refused, 1 something is, 2 error.

Examples:
  rethread check last
  rethread check --all --json | jq 'select(.severity != \"odd\")'
  rethread check 3f2a --client 2.1.76";

pub(crate) fn run(
    args: &CheckArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let (clients, note) = match args.client.as_deref() {
        None => (ClientChoice::InUse, None),
        Some("all") => (ClientChoice::All, None),
        Some(version) => {
            let (client, note) = client(Some(version))?;
            (ClientChoice::One(client), note)
        }
    };
    if let Some(note) = note {
        terminal.print_note(&note);
    }
    let library = library(global);
    let (sources, n_unknown) = find_sources(args, &library, terminal)?;
    if sources.is_empty() {
        terminal.print_note("no sessions to check; `rethread ls --all` lists all sessions");
        return Ok(CommandOutcome::Negative);
    }
    let options = CheckOptions::new().clients(clients).now(crate::terminal::now().into());
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum());
    let results: Vec<Result<CheckReport, rethread::Error>> = sources
        .par_iter()
        .map(|source| {
            let checked = library.check(source, &options);
            progress.advance(source.file.bytes);
            checked
        })
        .collect();
    drop(progress);
    let counts = write_reports(results, n_unknown, global, terminal)?;
    if counts.failed > 0 {
        return Err(Failure::new("some sessions could not be found or read"));
    }
    Ok(if counts.harmed > 0 { CommandOutcome::Negative } else { CommandOutcome::Success })
}

/// Finds the sessions to check, and the number of arguments that name none.
fn find_sources(
    args: &CheckArgs,
    library: &Library,
    terminal: &Terminal,
) -> Result<(Vec<LogSource>, usize), Failure> {
    let mut sources = Vec::new();
    let mut n_unknown = 0;
    if args.sessions.is_empty() {
        let here = if args.all { None } else { ls::current_project_dir(library) };
        sources = library.select(&[], here)?;
    }
    for wanted in &args.sessions {
        let found = selector(wanted).and_then(|selector| Ok(library.select(&[selector], None)?));
        match found {
            Ok(found) if !wanted.is_empty() => sources.extend(found),
            Ok(_) => return Err(Failure::new("the session name is empty")),
            Err(error) if args.sessions.len() == 1 => return Err(error),
            Err(error) => {
                terminal.warn(&error);
                n_unknown += 1;
            }
        }
    }
    if sources.len() > 1 {
        // Logs of subagents are never resumed.
        sources.retain(|source| !source.file.is_subagent);
    }
    Ok((sources, n_unknown))
}

/// The number of sessions by the worst finding.
#[derive(Default)]
struct CheckCounts {
    whole: usize,
    odd: usize,
    harmed: usize,
    failed: usize,
}

/// Writes the findings of each session, and for several sessions a summary.
fn write_reports(
    results: Vec<Result<CheckReport, rethread::Error>>,
    n_unknown: usize,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CheckCounts, Failure> {
    let n = results.len();
    let mut out = terminal.output();
    let mut counts = CheckCounts { failed: n_unknown, ..CheckCounts::default() };
    for result in results {
        let checked = match result {
            Ok(checked) => checked,
            Err(error) if n == 1 => return Err(error.into()),
            Err(error) => {
                terminal.warn(&error.into());
                counts.failed += 1;
                continue;
            }
        };
        match checked.has_harmful_findings() {
            true => counts.harmed += 1,
            false if checked.findings.is_empty() => counts.whole += 1,
            false => counts.odd += 1,
        }
        if global.json {
            for finding in &checked.findings {
                json_line(&mut out, &FindingRow::new(&checked.session, finding, &finding_hint))?;
            }
        } else if n == 1 || checked.has_harmful_findings() {
            render::write_check(&mut out, &checked, &finding_hint, &terminal.stdout)?;
        }
    }
    if !global.json && n > 1 {
        let text = format!(
            "{n} sessions: {} without findings, {} with harmless findings, {} with losses or refusals",
            counts.whole, counts.odd, counts.harmed
        );
        writeln!(out, "{}", terminal.stdout.paint(Style::Dim, text))?;
    }
    out.finish()?;
    Ok(counts)
}
