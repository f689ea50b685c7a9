//! `check`: whether sessions will resume.

use std::ffi::OsString;
use std::io::Write;

use rayon::prelude::*;
use rethread::{CheckOptions, CheckReport, ClientChoice};
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
    let here = if args.all || !args.sessions.is_empty() { None } else { ls::current_project_dir(&library) };
    let mut sources = Vec::new();
    let mut failed = None;
    if args.sessions.is_empty() {
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
                failed = Some(Failure::new("some sessions could not be found or read"));
            }
        }
    }
    if sources.len() > 1 {
        // Logs of subagents are never resumed.
        sources.retain(|source| !source.file.is_subagent);
    }
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
    let mut out = terminal.output();
    let mut harmed = 0;
    let (mut n_odd, mut n_whole) = (0, 0);
    for result in results {
        let checked = match result {
            Ok(checked) => checked,
            Err(error) if sources.len() == 1 => return Err(error.into()),
            Err(error) => {
                terminal.warn(&error.into());
                failed = Some(Failure::new("some sessions could not be found or read"));
                continue;
            }
        };
        if checked.has_harmful_findings() {
            harmed += 1;
        } else if checked.findings.is_empty() {
            n_whole += 1;
        } else {
            n_odd += 1;
        }
        if global.json {
            for finding in &checked.findings {
                json_line(&mut out, &FindingRow::new(&checked.session, finding, &finding_hint))?;
            }
        } else if sources.len() == 1 || checked.has_harmful_findings() {
            render::write_check(&mut out, &checked, &finding_hint, &terminal.stdout)?;
        }
    }
    if !global.json && sources.len() > 1 {
        let told = format!(
            "{} sessions: {n_whole} without findings, {n_odd} with harmless findings, {harmed} with losses or refusals",
            sources.len()
        );
        writeln!(out, "{}", terminal.stdout.paint(Style::Dim, told))?;
    }
    out.finish()?;
    match failed {
        Some(failure) => Err(failure),
        None if harmed > 0 => Ok(CommandOutcome::Negative),
        None => Ok(CommandOutcome::Success),
    }
}
