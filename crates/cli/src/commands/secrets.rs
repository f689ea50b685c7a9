//! `secrets`: where credentials stand.

use std::ffi::OsString;

use rethread::render;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::clean::RedactionArgs;
use crate::commands::{json_line, library, ls};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Find credentials in sessions
///
/// Looks at everything that a session holds: what was said, what tools were given and gave back, both
/// copies of it, recorded requests, titles, names of files, subagents' logs and large results. Shows
/// the beginning of each and where it stands; `rethread clean --redact` makes a copy without them.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct SecretsArgs {
    /// Sessions, files, directories or projects; without any, this directory's project, else all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    #[command(flatten)]
    redaction: RedactionArgs,

    /// Take all projects, also where this directory is one
    #[arg(long, short)]
    all: bool,
}

const AFTER: &str = "\
Exit status: 0 none was found, 1 some were, 2 an error.

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
    let sources = library.select(&args.sessions, here)?;
    if sources.is_empty() {
        // Whoever asks before publishing must not be told that all is well.
        return Err(Failure::new("there are no sessions to look at")
            .hint("`rethread ls --all` lists all that are found"));
    }
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let found = library.secrets(&sources, &args.redaction.redact(true, false), &|n| progress.advance(n));
    drop(progress);
    let n_sources = found.len();
    let mut rows = Vec::new();
    let mut failed = 0;
    for found in found {
        match found {
            Ok(secrets) => {
                rows.extend(secrets.found);
                for file in secrets.unread {
                    failed += 1;
                    terminal.warn(&Failure::new(format!("cannot read {file}")));
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
        for row in &rows {
            json_line(&mut out, row)?;
        }
    } else {
        render::write_secrets(&mut out, &rows, &terminal.stdout)?;
    }
    out.finish()?;
    if failed > 0 {
        return Err(Failure::new(format!("{failed} could not be read, so there may be more")));
    }
    if rows.is_empty() {
        let sessions = if n_sources == 1 { "1 session" } else { &format!("{n_sources} sessions") };
        terminal.print_note(&format!("no secrets that rules know in {sessions}; --also adds a rule"));
        return Ok(CommandOutcome::Success);
    }
    if !global.json {
        let names = args.sessions.iter().map(|name| format!("{} ", name.display()));
        let what: String = names.collect();
        terminal.print_note(&format!("`rethread clean {what}--redact -o DIR` makes copies without them"));
    }
    Ok(CommandOutcome::Negative)
}
