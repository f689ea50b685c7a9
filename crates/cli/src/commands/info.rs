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
use crate::terminal::Terminal;

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
    let infos: Vec<Result<(SessionInfo, Vec<u8>), rethread::Error>> = sources
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
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let mut failed = None;
    for info in infos {
        match info {
            Ok((row, json)) => {
                rows.push(row);
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
    } else if rows.len() <= FEW {
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                writeln_blank(&mut out)?;
            }
            render::write_info(&mut out, &row.path.to_string_lossy(), &row.inventory, &terminal.stdout)?;
        }
    } else {
        render::write_info_table(&mut out, &rows, &terminal.stdout)?;
    }
    if rows.len() > 1 {
        let total = SessionInfo::total(&rows);
        if global.json {
            json_line(&mut out, &TotalRow::new(rows.len(), &total))?;
        } else {
            writeln_blank(&mut out)?;
            render::write_info(
                &mut out,
                &format!("{} sessions in total", rows.len()),
                &total,
                &terminal.stdout,
            )?;
        }
    }
    out.finish()?;
    // The program ends here; dropping the tables of thousands of sessions would only cost time.
    std::mem::forget(rows);
    failed.map_or(Ok(CommandOutcome::Success), Err)
}

fn writeln_blank(out: &mut impl std::io::Write) -> std::io::Result<()> {
    out.write_all(b"\n")
}
