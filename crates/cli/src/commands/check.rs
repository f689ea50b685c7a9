//! `check`: whether sessions will resume.

use std::ffi::OsString;
use std::io::Write;

use rayon::prelude::*;
use rethread::{
    CheckOptions, CheckReport, ClientChoice, Finding, FindingKind, Library, LogSource, RepairDestination,
};
use rethread_render::{self as render, DisplayOptions, FindingRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::find_many;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::{command_on, finding_hint};

/// Check whether sessions will resume, and what would be lost
///
/// Checks sessions against the rules of the clients still in use (2.1.112 and newer). Findings of one
/// kind are listed together, worst first, with their lines, the affected client versions and a hint.
///
/// Every defect of a file (`rethread info --verbose`) is a finding, `rethread ls` marks sessions with
/// findings that lose or refuse something, and `rethread repair` changes only what is a finding.
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
Severities:
  refuses   the client or the API rejects the session: it does not resume
  loses     it resumes, but part of the conversation does not reach the model
  harmless  something is irregular, but nothing is lost (`odd` in JSON)

Exit status: 0 nothing is lost or refused, 1 something is, or the only session has nothing to resume, 2 error.";

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
    let results = sources.iter().zip(results).collect();
    let counts = write_reports(&library, results, n_unknown, global, terminal)?;
    if counts.failed > 0 {
        return Err(Failure::new("some sessions could not be found or read").kind(FailureKind::Unreadable));
    }
    let is_negative = counts.harmed > 0 || counts.nothing_to_resume;
    Ok(if is_negative { CommandOutcome::Negative } else { CommandOutcome::Success })
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
        sources = find_many(library, &[], args.all, terminal)?;
    }
    for wanted in &args.sessions {
        let found = find_many(library, std::slice::from_ref(wanted), false, terminal);
        match found {
            Ok(found) if !wanted.is_empty() => sources.extend(found),
            Ok(_) => return Err(Failure::new("the session name is empty").kind(FailureKind::InvalidValue)),
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
    /// There is one session, and it has no conversation.
    nothing_to_resume: bool,
}

impl CheckCounts {
    /// Returns the number of sessions by their worst finding, as one line.
    fn summary(&self, n: usize) -> String {
        let Self { whole, odd, harmed, .. } = self;
        match (odd, harmed) {
            (0, 0) => format!("{n} sessions resume completely, no findings"),
            _ => format!(
                "{n} sessions: {whole} without findings, {odd} with harmless findings, {harmed} with losses or refusals"
            ),
        }
    }
}

/// Returns whether a repair would leave the session unchanged, although its findings are of kinds that it repairs: not
/// every harmless finding needs a change.
fn needs_no_repair(library: &Library, source: &LogSource, checked: &CheckReport) -> bool {
    let is_repairable = checked.findings.iter().any(|finding| finding.kind.is_repairable());
    is_repairable
        && !checked.has_harmful_findings()
        && library.repair(source, &RepairDestination::DryRun).is_ok_and(|repaired| repaired.is_unchanged())
}

/// Writes the findings of a session, and the command that repairs it, if there is something to repair.
fn write_report(
    out: &mut PagedOutput,
    library: &Library,
    checked: &CheckReport,
    source: &LogSource,
    global: &GlobalArgs,
    look: &DisplayOptions,
    needs_no_repair: bool,
) -> Result<(), Failure> {
    let hint = |kind: FindingKind| match kind.is_repairable() && needs_no_repair {
        true => "no client needs a change here, so `rethread repair` leaves it",
        false => finding_hint(kind),
    };
    render::write_check(out, checked, &hint, look)?;
    if !needs_no_repair && checked.findings.iter().any(|finding| finding.kind.is_repairable()) {
        let command = command_on("repair", &checked.session, &source.file.path, library, global);
        let command = look.sanitize_line(&command);
        writeln!(out, "repair it with: {}", look.paint(Style::Id, command))?;
    }
    Ok(())
}

/// Writes the findings of each session, and for several sessions a summary.
fn write_reports(
    library: &Library,
    results: Vec<(&LogSource, Result<CheckReport, rethread::Error>)>,
    n_unknown: usize,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CheckCounts, Failure> {
    let n = results.len();
    let mut out = terminal.output();
    let mut counts = CheckCounts { failed: n_unknown, ..CheckCounts::default() };
    for (source, result) in results {
        let checked = match result {
            Ok(checked) => checked,
            Err(error) if n == 1 => return Err(error.into()),
            Err(error) => {
                terminal.warn(&error.into());
                counts.failed += 1;
                continue;
            }
        };
        let is_empty = |finding: &Finding| finding.kind == FindingKind::NoConversation;
        counts.nothing_to_resume = n == 1 && checked.findings.iter().any(is_empty);
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
            let needs_no_repair = n == 1 && needs_no_repair(library, source, &checked);
            write_report(&mut out, library, &checked, source, global, &terminal.stdout, needs_no_repair)?;
            if n > 1 {
                writeln!(out)?;
            }
        }
    }
    if !global.json && n > 1 {
        render::write_wrapped(&mut out, Style::Dim, &counts.summary(n), &terminal.stdout)?;
    }
    out.finish()?;
    Ok(counts)
}
