//! `secrets`: finds credentials.

use std::ffi::OsString;

use rethread_render::{self as render, SecretRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::clean::RedactionArgs;
use crate::commands::{json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::find_many;
use crate::terminal::Terminal;
use crate::wording::unreadable;

/// Find credentials in sessions
///
/// Searches everything that a session contains: messages, tool inputs and both copies of tool results,
/// recorded requests, titles, file names, subagent logs and large tool results. Prints the beginning of
/// each secret and its location; `rethread clean --redact` writes a copy without them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct SecretsArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project, or to all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    #[command(flatten)]
    redaction: RedactionArgs,

    /// Include all projects, not only the current directory's
    #[arg(long, short)]
    all: bool,
}

const AFTER: &str = "\
Exit status: 0 none found, 1 some found, 2 error.";

pub(crate) fn run(
    args: &SecretsArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let sources = find_many(&library, &args.sessions, args.all, terminal)?;
    if sources.is_empty() {
        // An empty selection must not look like a clean result to somebody who checks before publishing.
        return Err(Failure::new("no sessions to search")
            .kind(FailureKind::NotFound)
            .hint("`rethread ls --all` lists all sessions"));
    }
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let redact = args.redaction.redact(true, false);
    let found = library.with_progress(progress.observer()).secrets(&sources, &redact);
    drop(progress);
    let n_sources = found.len();
    let mut secrets = Vec::new();
    let mut failed = 0;
    for found in found {
        match found {
            Ok(scan) => {
                secrets.extend(scan.found);
                for (path, error) in scan.unread {
                    failed += 1;
                    terminal.warn(&Failure::new(unreadable(&path, &error)));
                }
            }
            Err(error) if n_sources == 1 => return Err(error.into()),
            Err(error) => {
                failed += 1;
                terminal.warn(&error.into());
            }
        }
    }
    let mut out = terminal.output();
    if global.json {
        for secret in &secrets {
            json_line(&mut out, &SecretRow::from(secret))?;
        }
    } else {
        render::write_secrets(&mut out, &secrets, &terminal.stdout)?;
    }
    out.finish()?;
    if failed > 0 {
        return Err(Failure::new(format!("{failed} could not be read, so there may be more secrets"))
            .kind(FailureKind::Unreadable));
    }
    if secrets.is_empty() {
        let sessions = if n_sources == 1 { "1 session" } else { &format!("{n_sources} sessions") };
        terminal.print_note(&format!("no known kinds of secrets in {sessions}; --also adds a pattern"));
        return Ok(CommandOutcome::Success);
    }
    if !global.json {
        let named = args.sessions.iter().map(|name| render::shell_word(&name.to_string_lossy()) + " ");
        let what: String = named.chain(args.all.then(|| "--all ".to_owned())).collect();
        terminal.print_note(
            "revoke secrets that somebody else may have read: removing them from the log is not enough",
        );
        terminal.print_note(&format!("`rethread clean {what}--redact -o DIR` writes copies without them"));
    }
    Ok(CommandOutcome::Negative)
}
