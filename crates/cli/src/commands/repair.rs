//! `repair`: repairs a session.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use rethread::{CheckOptions, Library, RepairDestination, Repaired, RepairedLog};
use rethread_render::{self as render, RepairRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, library, writable_library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::resume_command::ResumeCommand;
use crate::scope::find_one;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::finding_hint;

/// Repair a session so that every client resumes it
///
/// Repairs what `rethread check` finds with minimal changes: reconnects broken links, puts each object on
/// its own line, adds results for tool calls that have none, and drops data that no client reads. Other
/// lines are kept byte for byte. Defects that cannot be repaired are reported.
///
/// The result is a new session next to the original, which is not modified. A session without defects is
/// left unchanged, and no new one is made.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct RepairArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Show the changes line by line, without writing anything
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Repair the session itself and keep the original next to it
    ///
    /// The original gets the suffix `.bak`. Refused while a client has the session open.
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    in_place: bool,

    /// Write the result to FILE, an identical copy if there is nothing to repair
    #[arg(short, long, value_name = "FILE", conflicts_with = "dry_run")]
    output: Option<PathBuf>,
}

const AFTER: &str = "\
Exit status: 0 repaired or nothing to repair, 1 something could not be repaired, 2 error.";

pub(crate) fn run(
    args: &RepairArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    if args.in_place && args.session.is_none() {
        return Err(Failure::new("--in-place requires a session")
            .kind(FailureKind::Usage)
            .hint("it modifies the session itself"));
    }
    let writes = !args.dry_run && args.output.is_none();
    let library = if writes { writable_library(global, terminal)? } else { library(global) };
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    let to = match (&args.output, args.in_place, args.dry_run) {
        (_, _, true) => RepairDestination::DryRun,
        (_, true, _) => RepairDestination::InPlace,
        (Some(path), ..) => RepairDestination::File(path.clone()),
        _ => RepairDestination::New,
    };
    let repaired = library.repair(&source, &to)?;
    let mut out = terminal.output();
    if global.json {
        json_line(&mut out, &RepairRow::new(&repaired, &finding_hint))?;
    } else {
        write_summary(&mut out, &repaired, args.dry_run, &library, terminal)?;
    }
    out.finish()?;
    Ok(if repaired.remaining.is_empty() { CommandOutcome::Success } else { CommandOutcome::Negative })
}

fn write_summary(
    out: &mut PagedOutput,
    repaired: &Repaired,
    dry_run: bool,
    library: &Library,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let look = &terminal.stdout;
    if repaired.is_unchanged() {
        let text = match repaired.remaining.is_empty() {
            true => "nothing to repair: the session is unchanged",
            false => "nothing could be repaired: the session is unchanged",
        };
        writeln!(out, "{text}")?;
    } else {
        if dry_run {
            render::write_repair(out, &repaired.changes, look)?;
        }
        render::write_repair_summary(out, repaired, dry_run, look)?;
    }
    if let Some(output) = &repaired.output {
        write_output(out, output, library, terminal)?;
    }
    for finding in &repaired.remaining {
        let line = finding.line.map_or(String::new(), |line| format!("line {line}: "));
        let text = look.sanitize_line(&format!("not repaired: {line}{}", finding.detail));
        writeln!(out, "{}", look.paint(Style::Error, text))?;
    }
    Ok(())
}

/// Writes the paths of the repaired log and of its backup, and the command that resumes it.
fn write_output(
    out: &mut PagedOutput,
    output: &RepairedLog,
    library: &Library,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let look = &terminal.stdout;
    let path = |path: &Path| look.sanitize_line(&path.to_string_lossy());
    match &output.backup {
        Some(backup) => {
            writeln!(out, "repaired in place: {}", path(&output.path))?;
            writeln!(out, "the original is kept in {}", path(backup))?;
        }
        None if output.id.is_some() => writeln!(out, "new session: {}", path(&output.path))?,
        None => writeln!(out, "written to {}", path(&output.path))?,
    }
    let checked = library.find_one(&*output.path).and_then(|log| library.check(&log, &CheckOptions::new()));
    if let Ok(report) = checked {
        let (style, verdict) = render::verdict(&report.findings);
        writeln!(out, "checked: {}", look.paint(style, verdict))?;
    }
    if let Some(command) = ResumeCommand::for_written_log(library, &output.path) {
        writeln!(out, "{}", command.advice(library, look))?;
    }
    Ok(())
}
