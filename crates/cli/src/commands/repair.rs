//! `repair`: repairs a session.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use rethread::render::{self, Style};
use rethread::{RepairDestination, Repaired};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{find_one, json_line, library};
use crate::failure::Failure;
use crate::terminal::{PagedOutput, Terminal};

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
        json_line(&mut out, &repaired.row)?;
    } else {
        write_summary(&mut out, &repaired, args.dry_run, terminal)?;
    }
    out.finish()?;
    Ok(if repaired.row.left.is_empty() { CommandOutcome::Success } else { CommandOutcome::Negative })
}

fn write_summary<'c>(
    out: &mut PagedOutput,
    repaired: &'c Repaired,
    dry_run: bool,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let look = &terminal.stdout;
    let row = &repaired.row;
    if repaired.changes.is_empty() && !row.reordered {
        let told = match row.left.is_empty() {
            true => "nothing to repair: the session is unchanged",
            false => "nothing could be repaired: the session is unchanged",
        };
        writeln!(out, "{told}")?;
    } else {
        if dry_run {
            let line = |change: &'c rethread::edit::Change| render::LineChange {
                line: change.line,
                reason: change.reason.name(),
                before: change.before.as_deref(),
                after: change.after.as_deref(),
            };
            let lines: Vec<render::LineChange<'_>> = repaired.changes.iter().map(line).collect();
            if row.reordered {
                writeln!(out, "lines are put in order first; line numbers refer to the reordered log")?;
            }
            render::write_repair(out, &lines, look)?;
        }
        let verb = match (dry_run, row.lines_changed) {
            (true, _) => "would be",
            (false, 1) => "was",
            (false, _) => "were",
        };
        let (changed, added, dropped) = (row.lines_changed, row.lines_added, row.lines_dropped);
        let lines = if changed == 1 { "line" } else { "lines" };
        let told = format!("{changed} {lines} {verb} changed, {added} added, {dropped} dropped");
        writeln!(out, "{}", look.paint(Style::Dim, told))?;
    }
    if let Some(output) = &row.output {
        writeln!(out, "{}", look.sanitize_line(output))?;
    }
    if let Some(backup) = &row.backup {
        writeln!(out, "{}", look.sanitize_line(&format!("backup: {backup}")))?;
    }
    let in_project = |output: &String| {
        let project = std::path::Path::new(output).parent().and_then(|dir| dir.parent());
        project.and_then(|dir| dir.file_name()).is_some_and(|name| name == "projects")
    };
    if let Some(id) = row.id.as_ref().filter(|_| row.output.as_ref().is_some_and(in_project)) {
        let command = format!("claude --resume {}", render::shell_word(id));
        writeln!(out, "resume it with: {}", look.paint(Style::Id, look.sanitize_line(&command)))?;
    }
    for finding in &row.left {
        let line = finding.line.map_or(String::new(), |line| format!("line {line}: "));
        let told = look.sanitize_line(&format!("not repaired: {line}{}", finding.detail));
        writeln!(out, "{}", look.paint(Style::Error, told))?;
    }
    Ok(())
}
