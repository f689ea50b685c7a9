//! `index`: the cache that makes searches and listings fast.

use rethread::{Index, IndexStatus, Library};
use rethread_render::{IndexStatusRow, format_bytes, format_count, plural};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, writable_library};
use crate::failure::{Failure, with_causes};
use crate::failure_kind::FailureKind;
use crate::terminal::Terminal;
use crate::wording::{self, unreadable};

/// Show, update or delete the index of the sessions
///
/// The index is a cache: it is made when it is first needed, kept up to date by every search, and can be deleted at any
/// time. It contains titles, numbers and words, but not the texts themselves; treat it as confidential as the logs.
#[derive(Debug, clap::Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    action: Option<IndexAction>,
}

#[derive(Debug, clap::Subcommand)]
enum IndexAction {
    /// Show where the index is, its size, and what is not in it yet (the default)
    Status,
    /// Read what is new in the sessions
    Update {
        /// Keep sessions findable whose logs are deleted from now on; their texts cannot be shown
        #[arg(long, conflicts_with = "drop_deleted")]
        keep_deleted: bool,

        /// Forget deleted sessions, now and from now on
        #[arg(long)]
        drop_deleted: bool,
    },
    /// Make the index again from nothing; deleted sessions that were kept are lost
    Rebuild,
    /// Delete the index
    Clear,
}

pub(crate) fn run(
    args: &IndexArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = writable_library(global, terminal)?;
    let index = library.index().ok_or_else(|| {
        Failure::new("there is no cache directory for an index")
            .kind(FailureKind::Index)
            .hint("set XDG_CACHE_HOME to a directory")
    })?;
    let failed = |error: rethread::IndexError| {
        Failure::new(with_causes(&error))
            .kind(FailureKind::Index)
            .hint("XDG_CACHE_HOME names another cache directory; no session is affected")
    };
    match &args.action {
        None | Some(IndexAction::Status) => {}
        Some(IndexAction::Update { keep_deleted, drop_deleted }) => {
            if *keep_deleted || *drop_deleted {
                index.keep_deleted(*keep_deleted).map_err(failed)?;
            }
            update(&library, terminal)?;
        }
        Some(IndexAction::Rebuild) => {
            index.clear().map_err(failed)?;
            update(&library, terminal)?;
        }
        Some(IndexAction::Clear) => {
            index.clear().map_err(failed)?;
            terminal.print_note(&format!("deleted the index in {}", index.path().display()));
            return Ok(CommandOutcome::Success);
        }
    }
    print_status(index, &library, global, terminal)
}

fn update(library: &Library, terminal: &Terminal) -> Result<(), Failure> {
    let progress = terminal.progress(|| library.all_bytes());
    let updated = library.with_progress(progress.observer()).update_index();
    drop(progress);
    let report = match updated {
        Some(Ok(report)) => report,
        Some(Err(error)) => return Err(Failure::new(with_causes(&error)).kind(FailureKind::Index)),
        None => return Ok(()),
    };
    for (path, error) in &report.unreadable {
        terminal.warn(&Failure::new(unreadable(path, error)));
    }
    if let Some(damage) = &report.rebuilt {
        terminal.warn(&Failure::new(wording::rebuilt(damage)));
    }
    let mut text =
        format!("read {} of {}", format_bytes(report.bytes_read), plural(report.logs_read as u64, "log"));
    for (n, change) in [(report.logs_renamed, "renamed"), (report.logs_removed, "deleted")] {
        if n > 0 {
            text += &format!(", {n} {change}");
        }
    }
    terminal.print_note(&text);
    Ok(())
}

fn print_status(
    index: &Index,
    library: &Library,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let status =
        library.index_status().ok_or_else(|| Failure::new("there is no index").kind(FailureKind::Index))?;
    let status = status.map_err(|error| {
        let hint = match error.is_damage() {
            true => "`rethread index rebuild` makes it again",
            false => "XDG_CACHE_HOME names another cache directory; --no-index does without",
        };
        Failure::new(with_causes(&error)).kind(FailureKind::Index).hint(hint)
    })?;
    let mut out = terminal.output();
    if global.json {
        let row = IndexStatusRow {
            r#type: "index",
            path: index.path().to_string_lossy(),
            exists: status.exists,
            bytes: status.bytes,
            log_bytes: status.log_bytes,
            logs: status.logs,
            messages: status.messages,
            stale: status.stale,
            deleted: status.deleted,
            keeps_deleted: status.keeps_deleted,
        };
        json_line(&mut out, &row)?;
    } else {
        write_status(&mut out, index, &status, terminal)?;
    }
    out.finish()?;
    Ok(CommandOutcome::Success)
}

fn write_status(
    out: &mut dyn std::io::Write,
    index: &Index,
    status: &IndexStatus,
    terminal: &Terminal,
) -> std::io::Result<()> {
    let line = |name: &str, text: String| format!("{name:<10}{}", terminal.stdout.sanitize_line(&text));
    writeln!(out, "{}", line("directory", index.path().display().to_string()))?;
    if !status.exists {
        return writeln!(out, "{}", line("state", "not made yet; the first search makes it".to_owned()));
    }
    let share = status.bytes as f64 / (status.log_bytes.max(1)) as f64;
    writeln!(
        out,
        "{}",
        line("size", format!("{}, {share:.2} times that of the logs", format_bytes(status.bytes)))
    )?;
    let logs = format!("{} with {}", plural(status.logs, "log"), plural(status.messages, "message"));
    writeln!(out, "{}", line("contains", logs))?;
    let state = match status.stale {
        0 => "up to date".to_owned(),
        n => format!("{} changed since; the next search reads them", plural(n, "log")),
    };
    writeln!(out, "{}", line("state", state))?;
    let deleted = match (status.deleted, status.keeps_deleted) {
        (0, false) => "not kept".to_owned(),
        (n, true) => format!("kept: {}", format_count(n)),
        (n, false) => format_count(n),
    };
    writeln!(out, "{}", line("deleted", deleted))
}
