//! `secrets`: finds credentials.

use std::ffi::OsString;

use rethread_render::{self as render, SecretRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::clean::RedactionArgs;
use crate::commands::{json_line, library, ls, selectors};
use crate::failure::Failure;
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
Exit status: 0 none found, 1 some found, 2 error.

Examples:
  rethread secrets last
  rethread secrets --all --json | jq -r .rule | sort | uniq -c
  rethread secrets 3f2a --also 'ACME-[0-9]{8}' --allow '^sk_test_'";

pub(crate) fn run(
    args: &SecretsArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let here = if args.all || !args.sessions.is_empty() { None } else { ls::current_project_dir(&library) };
    let sources = library.select(&selectors(&args.sessions)?, here)?;
    if sources.is_empty() {
        // An empty selection must not look like a clean result to somebody who checks before publishing.
        return Err(Failure::new("no sessions to search").hint("`rethread ls --all` lists all sessions"));
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
        return Err(Failure::new(format!("{failed} could not be read, so there may be more secrets")));
    }
    if secrets.is_empty() {
        let sessions = if n_sources == 1 { "1 session" } else { &format!("{n_sources} sessions") };
        terminal.print_note(&format!("no known kinds of secrets in {sessions}; --also adds a pattern"));
        return Ok(CommandOutcome::Success);
    }
    if !global.json {
        let names = args.sessions.iter().map(|name| format!("{} ", name.display()));
        let what: String = names.collect();
        terminal.print_note(&format!("`rethread clean {what}--redact -o DIR` writes copies without them"));
    }
    Ok(CommandOutcome::Negative)
}
