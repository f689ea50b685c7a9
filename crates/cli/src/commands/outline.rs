//! `outline`: the skeleton of a session.

use std::ffi::OsString;
use std::io::{self, Write};

use rethread::{SessionOutline, TranscriptError};
use rethread_render::{self as render, OutlineItemRow, OutlinePathRow, OutlineRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::bounded::{Fitted, fit, fit_beginning};
use crate::commands::{json_bytes, json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::find_one;
use crate::terminal::Terminal;

/// List the prompts of a session, and where it forks
///
/// Prints a line for each prompt, compaction, fork and subagent, with the numbers that `rethread show --at` takes. The
/// conversation comes first, then what the other paths have of their own. A long session becomes a page that shows
/// where to read on.
#[derive(Debug, clap::Args)]
pub(crate) struct OutlineArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Only path N of `rethread tree`, from its beginning
    #[arg(long, value_name = "N")]
    path: Option<usize>,

    /// Also print the anchors of prompts, which find them in clones and forks, too; --json always has them
    #[arg(long)]
    anchors: bool,

    /// Print at most N characters: cut prompts to the same length, and stop where even short ones do not fit
    #[arg(long, value_name = "N")]
    max_chars: Option<usize>,
}

/// The number of characters to which prompts are cut at most so that all items fit.
const MIN_TEXT: usize = 24;

/// The number of characters of a prompt that JSON has without a limit.
const JSON_TEXT: usize = 200;

pub(crate) fn run(
    args: &OutlineArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    let outline = library.outline(&source, args.path).map_err(failure)?;
    let max_chars = args.max_chars.unwrap_or(usize::MAX);
    if global.json {
        print_rows(&outline, max_chars, terminal)?;
    } else {
        print_text(&outline, args.anchors, max_chars, terminal)?;
    }
    if outline.paths.is_empty() {
        terminal.print_note("this session has no conversation");
        return Ok(CommandOutcome::Negative);
    }
    Ok(CommandOutcome::Success)
}

fn print_text(
    outline: &SessionOutline,
    anchors: bool,
    max_chars: usize,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let write = |out: &mut dyn Write, limit: Option<usize>| {
        render::write_outline(out, outline, limit, anchors, &terminal.stdout)
    };
    let fitted = match fit(max_chars, MIN_TEXT, &mut |out, limit| write(out, limit))? {
        Some((fitted, ())) => fitted,
        None => fit_beginning(max_chars, MIN_TEXT, &mut |out, limit| write(out, limit))?,
    };
    print(&fitted, &[], terminal)?;
    if fitted.is_cut_off {
        terminal.print_note("not everything is listed: a larger --max-chars or --path N lists more");
    }
    Ok(())
}

fn print_rows(outline: &SessionOutline, max_chars: usize, terminal: &Terminal) -> Result<(), Failure> {
    let mut last = OutlineRow::new(outline);
    last.shown = last.items;
    let room = max_chars.saturating_sub(json_bytes(&last)?.len() + 1);
    let shown = std::cell::Cell::new(0);
    let write = |out: &mut dyn Write, limit: Option<usize>| -> io::Result<()> {
        shown.set(0);
        for path in &outline.paths {
            json_line(&mut &mut *out, &OutlinePathRow::from(path))?;
            for item in &path.items {
                json_line(&mut &mut *out, &OutlineItemRow::new(path, item, limit.unwrap_or(JSON_TEXT)))?;
                shown.set(shown.get() + 1);
            }
        }
        Ok(())
    };
    let fitted = match fit(room, MIN_TEXT, &mut |out, limit| write(out, limit))? {
        Some((fitted, ())) => fitted,
        None => fit_beginning(room, MIN_TEXT, &mut |out, limit| write(out, limit))?,
    };
    last.shown = shown.get();
    last.capped = fitted.is_cut_off;
    print(&fitted, &json_bytes(&last)?, terminal)
}

fn print(fitted: &Fitted, last: &[u8], terminal: &Terminal) -> Result<(), Failure> {
    let mut out = terminal.output();
    out.write_all(&fitted.text)?;
    out.write_all(last)?;
    out.finish()?;
    Ok(())
}

/// Words an error.
fn failure(error: TranscriptError) -> Failure {
    match error {
        TranscriptError::Session(error) => error.into(),
        TranscriptError::NoPath { paths, .. } => Failure::new(error.to_string())
            .kind(FailureKind::NotFound)
            .with("paths", paths.into())
            .hint(format!("paths are numbered from 1 to {paths}; `rethread tree` draws them")),
        error => Failure::new(error.to_string()),
    }
}
