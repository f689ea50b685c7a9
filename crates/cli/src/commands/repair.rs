//! `repair`: repairs a session.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use rethread::{LineCounts, RepairDestination, Repaired, RepairedLog};
use rethread_render::{self as render, RepairRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{find_one, json_line, library};
use crate::failure::Failure;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::finding_hint;

/// Repair a session so that every client resumes it
///
/// Repairs what `rethread check` finds with minimal changes: reconnects broken links, puts each object on
/// its own line, adds results for tool calls that have none, and drops data that no client reads. Other
/// lines are kept byte for byte. Defects that cannot be repaired are reported.
///
/// The result is a new session next to the original, which is not modified. A session without defects is
/// left unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct RepairArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: OsString,

    /// Show the changes line by line, without writing anything
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Repair the session itself and keep a backup next to it
    ///
    /// Refused while a client has the session open.
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    in_place: bool,

    /// Write the result to FILE
    #[arg(short, long, value_name = "FILE", conflicts_with = "dry_run")]
    output: Option<PathBuf>,
}

const AFTER: &str = "\
Exit status: 0 repaired or nothing to repair, 1 something could not be repaired, 2 error.

Examples:
  rethread repair last --dry-run
  rethread repair 3f2a              a new session; the original is kept
  rethread repair 3f2a --in-place   the same session, with a backup";

pub(crate) fn run(
    args: &RepairArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let source = find_one(&library, &args.session)?;
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
        write_summary(&mut out, &repaired, args.dry_run, terminal)?;
    }
    out.finish()?;
    Ok(if repaired.remaining.is_empty() { CommandOutcome::Success } else { CommandOutcome::Negative })
}

fn write_summary(
    out: &mut PagedOutput,
    repaired: &Repaired,
    dry_run: bool,
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
        write_changes(out, repaired, dry_run, terminal)?;
    }
    if let Some(output) = &repaired.output {
        write_output(out, output, terminal)?;
    }
    for finding in &repaired.remaining {
        let line = finding.line.map_or(String::new(), |line| format!("line {line}: "));
        let text = look.sanitize_line(&format!("not repaired: {line}{}", finding.detail));
        writeln!(out, "{}", look.paint(Style::Error, text))?;
    }
    Ok(())
}

/// Writes the number of changed lines, and for a dry run the changes themselves.
fn write_changes(
    out: &mut PagedOutput,
    repaired: &Repaired,
    dry_run: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let look = &terminal.stdout;
    if dry_run {
        if repaired.reordered {
            writeln!(out, "lines are put in order first; line numbers refer to the reordered log")?;
        }
        render::write_repair(out, &repaired.changes, look)?;
    }
    let LineCounts { changed, added, dropped } = repaired.line_counts();
    let verb = match (dry_run, changed) {
        (true, _) => "would be",
        (false, 1) => "was",
        (false, _) => "were",
    };
    let lines = if changed == 1 { "line" } else { "lines" };
    let text = format!("{changed} {lines} {verb} changed, {added} added, {dropped} dropped");
    writeln!(out, "{}", look.paint(Style::Dim, text))?;
    Ok(())
}

/// Writes the paths of the repaired log and of its backup, and the command that resumes it.
fn write_output(out: &mut PagedOutput, output: &RepairedLog, terminal: &Terminal) -> Result<(), Failure> {
    let look = &terminal.stdout;
    writeln!(out, "{}", look.sanitize_line(&output.path.to_string_lossy()))?;
    if let Some(backup) = &output.backup {
        writeln!(out, "{}", look.sanitize_line(&format!("backup: {}", backup.to_string_lossy())))?;
    }
    let projects = output.path.parent().and_then(|dir| dir.parent()).and_then(|dir| dir.file_name());
    if let Some(id) = output.id.as_ref().filter(|_| projects.is_some_and(|name| name == "projects")) {
        let command = format!("claude --resume {}", render::shell_word(id.as_str()));
        writeln!(out, "resume it with: {}", look.paint(Style::Id, look.sanitize_line(&command)))?;
    }
    Ok(())
}
