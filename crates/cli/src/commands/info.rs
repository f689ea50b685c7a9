//! `info`: the inventory of sessions.

use std::ffi::OsString;
use std::io::Write as _;

use rayon::prelude::*;
use rethread::{LogSource, SessionInfo};
use rethread_render::{self as render, InventoryRow, TotalRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_bytes, json_line, library, selector};
use crate::failure::Failure;
use crate::terminal::{PagedOutput, Terminal};

/// Show statistics of one or more sessions
///
/// Prints entries by type, messages, content blocks, tool calls and their results, models, tokens (each
/// message counted once, even if resuming or forking copied it), bytes by kind of content, and every
/// defect with its line.
#[derive(Debug, clap::Args)]
pub(crate) struct InfoArgs {
    /// Sessions, or directories of sessions
    #[arg(value_name = "SESSION", required = true)]
    sessions: Vec<OsString>,
}

/// With more sessions than this, each gets one line and the total gets the details.
const FEW: usize = 3;

pub(crate) fn run(
    args: &InfoArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let mut sources: Vec<LogSource> = Vec::new();
    for wanted in &args.sessions {
        sources.extend(library.find(selector(wanted)?)?);
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
    let mut infos = Vec::new();
    let mut lines = Vec::new();
    let mut failed = None;
    for result in results {
        match result {
            Ok((info, json)) => {
                infos.push(info);
                lines.push(json);
            }
            Err(error) if sources.len() == 1 => return Err(error.into()),
            Err(error) => {
                terminal.warn(&error.into());
                failed = Some(Failure::new("some sessions could not be read"));
            }
        }
    }
    let mut out = terminal.output();
    if global.json {
        for line in lines {
            out.write_all(&line)?;
        }
        if infos.len() > 1 {
            json_line(&mut out, &TotalRow::new(infos.len(), &SessionInfo::total(&infos)))?;
        }
    } else {
        write_text(&mut out, &infos, terminal)?;
    }
    out.finish()?;
    // The program ends here; dropping the tables of thousands of sessions would only cost time.
    std::mem::forget(infos);
    failed.map_or(Ok(CommandOutcome::Success), Err)
}

/// Writes the details of a few sessions, or one line for each of many; then their total.
fn write_text(out: &mut PagedOutput, infos: &[SessionInfo], terminal: &Terminal) -> Result<(), Failure> {
    if infos.len() <= FEW {
        for (i, info) in infos.iter().enumerate() {
            if i > 0 {
                writeln_blank(out)?;
            }
            render::write_info(out, &info.path.to_string_lossy(), &info.inventory, &terminal.stdout)?;
        }
    } else {
        render::write_info_table(out, infos, &terminal.stdout)?;
    }
    if infos.len() > 1 {
        writeln_blank(out)?;
        let name = format!("{} sessions in total", infos.len());
        render::write_info(out, &name, &SessionInfo::total(infos), &terminal.stdout)?;
    }
    Ok(())
}

fn writeln_blank(out: &mut impl std::io::Write) -> std::io::Result<()> {
    out.write_all(b"\n")
}
