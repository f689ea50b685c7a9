//! `info`: sessions described for a person, and their inventory.

use std::ffi::OsString;
use std::io::Write as _;

use rayon::prelude::*;
use rethread::{CheckOptions, Finding, Library, LogSource, SessionInfo, SessionOverview};
use rethread_render::{self as render, DisplayOptions, InfoHints, InventoryRow, TotalRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_bytes, json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::resume_command::{ResumeCommand, not_resumable};
use crate::scope::find_many;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::command_on;

/// Describe sessions: title, times, models, content, size, and whether they resume
///
/// Prints title, project and branch, times, models, the content of the conversation, the tokens that a
/// client sends on resume (context) and those used so far (each message counted once, even if resuming
/// or forking copied it), what the file is made of, and what `rethread check` finds.
///
/// With --verbose, also prints entries by type, content blocks, stop reasons, links, bytes by kind of
/// content, unknown fields, and every defect of the file with its line. A defect is a fault in the file;
/// `rethread check --help` explains what it means for resuming.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project, or to all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Also print statistics of the file and all its defects
    #[arg(long, short)]
    verbose: bool,
}

/// With more sessions than this, each gets one line and the total gets the details.
const FEW: usize = 3;

pub(crate) fn run(
    args: &InfoArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let sources = find_many(&library, &args.sessions, false, terminal)?;
    if sources.is_empty() {
        terminal.print_note("no sessions; `rethread ls --all` lists all sessions");
        return Ok(CommandOutcome::Negative);
    }
    if !global.json && sources.len() <= FEW {
        return run_few(&library, &sources, args, global, terminal);
    }
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum());
    // JSON is serialised on the reading threads, so that only writing is sequential.
    let results: Vec<Result<(SessionInfo, Vec<u8>), rethread::Error>> = sources
        .par_iter()
        .map(|source| {
            let info = library.info(source);
            progress.advance(source.file.bytes);
            info.map(|info| {
                let json = || json_bytes(&InventoryRow::from(&info)).unwrap_or_default();
                let json = if global.json { json() } else { Vec::new() };
                (info, json)
            })
        })
        .collect();
    drop(progress);
    let (read, failed) = readable(results, terminal)?;
    let (infos, lines): (Vec<SessionInfo>, Vec<Vec<u8>>) = read.into_iter().unzip();
    let mut out = terminal.output();
    if global.json {
        for line in lines {
            out.write_all(&line)?;
        }
        if infos.len() > 1 {
            json_line(&mut out, &TotalRow::new(infos.len(), &SessionInfo::total(&infos)))?;
        }
    } else {
        write_text(&mut out, &infos, &library, args, terminal)?;
    }
    out.finish()?;
    // The program ends here; dropping the tables of thousands of sessions would only cost time.
    std::mem::forget(infos);
    failed.map_or(Ok(CommandOutcome::Success), Err)
}

/// Writes the details of a few sessions, or one line for each of many; then their total.
fn write_text(
    out: &mut PagedOutput,
    infos: &[SessionInfo],
    library: &Library,
    args: &InfoArgs,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let look = &terminal.stdout;
    render::write_info_table(out, infos, &library.short_ids(true), look)?;
    writeln!(out)?;
    let total = SessionInfo::total(infos);
    render::write_total(out, infos.len(), &total, look)?;
    if args.verbose {
        writeln!(out)?;
        render::write_statistics(out, &total, look)?;
    }
    Ok(())
}

/// Describes a few sessions; for several also their total.
fn run_few(
    library: &Library,
    sources: &[LogSource],
    args: &InfoArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let options = CheckOptions::new().now(crate::terminal::now().into());
    let results = sources.iter().map(|source| library.overview(source, &options)).collect();
    let (overviews, failed) = readable(results, terminal)?;
    let mut out = terminal.output();
    let look = &terminal.stdout;
    for (n, overview) in overviews.iter().enumerate() {
        if n > 0 {
            writeln!(out)?;
        }
        render::write_overview(&mut out, overview, &hints(library, overview, global, look), look)?;
        if args.verbose {
            writeln!(out)?;
            render::write_statistics(&mut out, &overview.info.inventory, look)?;
        }
    }
    if overviews.len() > 1 {
        writeln!(out)?;
        let total = SessionInfo::total(overviews.iter().map(|overview| &overview.info));
        render::write_total(&mut out, overviews.len(), &total, look)?;
    }
    out.finish()?;
    failed.map_or(Ok(CommandOutcome::Success), Err)
}

/// Returns what could be read, and the error to end with if something could not. It is the result of the only session,
/// and a warning for one of several.
fn readable<T>(
    results: Vec<Result<T, rethread::Error>>,
    terminal: &Terminal,
) -> Result<(Vec<T>, Option<Failure>), Failure> {
    let n = results.len();
    let mut read = Vec::with_capacity(n);
    let mut failed = None;
    for result in results {
        match result {
            Ok(value) => read.push(value),
            Err(error) if n == 1 => return Err(error.into()),
            Err(error) => {
                terminal.warn(&error.into());
                failed = Some(Failure::new("some sessions could not be read").kind(FailureKind::Unreadable));
            }
        }
    }
    Ok((read, failed))
}

/// Words what to do next with a session.
fn hints(
    library: &Library,
    overview: &SessionOverview,
    global: &GlobalArgs,
    look: &DisplayOptions,
) -> InfoHints {
    let check = command_on("check", &overview.summary.id, &overview.summary.path, library, global);
    let is_damaged = overview.findings.iter().any(Finding::is_harmful);
    let command = ResumeCommand::new(library, &overview.summary).ok().filter(|_| !is_damaged);
    let failure = command.as_ref().and_then(|command| command.existing_dir(library).err());
    InfoHints {
        resume: command.filter(|_| failure.is_none()).map(|command| command.paint(look)),
        not_resumable: failure.map(|failure| not_resumable(&failure)),
        findings: Some(format!("`{}` lists them", look.sanitize_line(&check))),
    }
}
