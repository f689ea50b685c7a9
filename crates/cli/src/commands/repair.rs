//! `repair`: mend a session.

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

/// Mend a session so that every client resumes it
///
/// Mends what `rethread check` finds, by the least change: joins broken links, gives each object its
/// line, answers calls that have no result, drops what no client reads. Lines with nothing wrong stay
/// as they are, byte for byte. What cannot be mended is said.
///
/// The result is a new session beside the old one, which stays untouched. A session with nothing
/// wrong is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct RepairArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: OsString,

    /// Show what would be changed, line by line, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Mend the session itself and keep a backup beside it
    ///
    /// Refused while a client has the session open.
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    in_place: bool,

    /// Write the result to FILE
    #[arg(short, long, value_name = "FILE", conflicts_with = "dry_run")]
    output: Option<PathBuf>,
}

const AFTER: &str = "\
Exit status: 0 all is mended or nothing had to be, 1 something could not be mended, 2 an error.

Examples:
  rethread repair last --dry-run
  rethread repair 3f2a              a new session; the old one stays as it is
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
            true => "nothing to mend: the session is as it was",
            false => "nothing could be mended: the session is as it was",
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
                writeln!(out, "all lines are put in order first; line numbers are those after it")?;
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
        writeln!(out, "{}", look.sanitize_line(&format!("the session as it was: {backup}")))?;
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
        let told = look.sanitize_line(&format!("not mended: {line}{}", finding.detail));
        writeln!(out, "{}", look.paint(Style::Error, told))?;
    }
    Ok(())
}
