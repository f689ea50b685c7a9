//! `rethread` without a command: an overview for newcomers.

use std::io::{self, Write};

use rethread::{Library, LsOptions, SessionSummary};
use rethread_render::{self as render, ListOptions, SessionRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::ls::{home_dir, list, print_counts, print_legend};
use crate::commands::{json_line, library, library_options};
use crate::failure::Failure;
use crate::scope::SessionScope;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::{command_on_named, name_or_path};

/// Number of sessions in the overview.
const SHOWN: usize = 10;

pub(crate) fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let options = LsOptions::new().check(!global.json).limit(SHOWN);
    let scope = SessionScope::here(&library);
    let (mut listing, cwd) = scope.list(options, |options| list(&library, options, terminal));
    for error in std::mem::take(&mut listing.errors) {
        terminal.warn(&error.into());
    }
    let look = &terminal.stdout;
    let rows = &listing.sessions;
    let mut out = terminal.output();
    if global.json {
        for session in rows {
            json_line(&mut out, &SessionRow::from(session))?;
        }
        return Ok(out.finish().map(|()| CommandOutcome::Success)?);
    }
    let options = library_options(global);
    if listing.is_empty() {
        write_welcome(&mut out, &library, terminal)?;
        out.finish()?;
        return Ok(CommandOutcome::Success);
    }
    if rows.is_empty() {
        writeln!(out, "No conversations here, but other logs:\n")?;
        writeln!(out, "  rethread{options} ls --agents   list them")?;
    } else {
        let heading = match &cwd {
            Some(cwd) => format!("Sessions of {}", cwd.display()),
            None if library.is_demo() => "Sample sessions".to_owned(),
            None => "Sessions of all projects".to_owned(),
        };
        writeln!(out, "{}\n", look.paint(Style::Title, look.sanitize(&heading)))?;
        let ids = library.short_ids(false);
        let home = home_dir();
        let table = ListOptions { ids: &ids, home: home.as_deref(), wanted: &[] };
        render::write_ls(&mut out, rows, &table, look)?;
        let more = listing.beyond_limit;
        if more > 0 {
            writeln!(out, "{}", look.paint(Style::Dim, format!("… and {more} more: rethread{options} ls")))?;
        }
        let SessionSummary { id, path, .. } = &rows[0];
        let name = name_or_path(library.short_name_among(&ids, id.as_str(), path), id, path);
        let on_newest = |command: &str| command_on_named(command, &name, global);
        write_next_steps(&mut out, &on_newest, &options, terminal)?;
    }
    out.finish()?;
    print_legend(rows, &library, global, terminal);
    print_counts(&listing, cwd.as_deref(), terminal);
    Ok(CommandOutcome::Success)
}

/// Writes what to do without any sessions.
fn write_welcome(out: &mut PagedOutput, library: &Library, terminal: &Terminal) -> io::Result<()> {
    let roots: Vec<_> = library.roots().iter().map(|root| root.display().to_string()).collect();
    writeln!(out, "No sessions under {}.\n", terminal.stdout.sanitize(&roots.join(", ")))?;
    writeln!(out, "  rethread --demo             explore the built-in sample sessions")?;
    writeln!(out, "  rethread --config-dir DIR   search another directory")?;
    writeln!(out, "  rethread show FILE.jsonl    read a session file")?;
    writeln!(out, "  rethread --help             list all commands")
}

/// Writes commands to try, some of them on the newest session; `options` select the library.
fn write_next_steps(
    out: &mut PagedOutput,
    on_newest: &dyn Fn(&str) -> String,
    options: &str,
    terminal: &Terminal,
) -> io::Result<()> {
    let look = &terminal.stdout;
    writeln!(out)?;
    for (command, does) in [
        (on_newest("show"), "read the conversation"),
        (on_newest("tree"), "draw its branches"),
        (on_newest("info"), "show statistics"),
        (format!("rethread{options} ls --all"), "list sessions of all projects"),
        ("rethread --help".to_owned(), "list all commands"),
    ] {
        writeln!(out, "  {:<32} {}", look.sanitize_line(&command), look.paint(Style::Dim, does))?;
    }
    Ok(())
}
