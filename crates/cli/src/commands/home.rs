//! `rethread` without a command: an overview for newcomers.

use std::io::Write;

use rethread::LsOptions;
use rethread_render::{self as render, SessionRow, Style};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::ls::{current_project_dir, list, print_hidden};
use crate::commands::{json_line, library};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Number of sessions in the overview.
const SHOWN: usize = 10;

pub(crate) fn run(global: &GlobalArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let mut cwd = current_project_dir(&library);
    let mut options = LsOptions::new();
    options.cwd.clone_from(&cwd);
    let mut listing = list(&library, &options, terminal);
    if cwd.is_some() && listing.is_empty() {
        // The directory only shares its encoded name with another project.
        cwd = None;
        listing = list(&library, &LsOptions::default(), terminal);
    }
    for error in std::mem::take(&mut listing.errors) {
        terminal.warn(&error.into());
    }
    let look = &terminal.stdout;
    let rows = &listing.sessions[..listing.sessions.len().min(SHOWN)];
    let mut out = terminal.output();
    if global.json {
        for session in rows {
            json_line(&mut out, &SessionRow::from(session))?;
        }
        return Ok(out.finish().map(|()| CommandOutcome::Success)?);
    }
    let demo = match &global.config_dir {
        _ if library.is_demo() => " --demo".to_owned(),
        Some(dir) => format!(" --config-dir {}", render::shell_word(&dir.display().to_string())),
        None => String::new(),
    };
    if rows.is_empty() && !listing.is_empty() {
        writeln!(out, "No conversations here, but other logs:\n")?;
        writeln!(out, "  rethread{demo} ls --agents   list them")?;
        out.finish()?;
        print_hidden(&listing.hidden, 0, terminal);
        return Ok(CommandOutcome::Success);
    }
    if rows.is_empty() {
        let roots: Vec<_> = library.roots().iter().map(|root| root.display().to_string()).collect();
        writeln!(out, "No sessions under {}.\n", look.sanitize(&roots.join(", ")))?;
        writeln!(out, "  rethread --demo             explore the built-in sample sessions")?;
        writeln!(out, "  rethread --config-dir DIR   search another directory")?;
        writeln!(out, "  rethread show FILE.jsonl    read a session file")?;
        writeln!(out, "  rethread --help             list all commands")?;
        out.finish()?;
        return Ok(CommandOutcome::Success);
    }
    let heading = match &cwd {
        Some(cwd) => format!("Sessions of {}", cwd.display()),
        None if library.is_demo() => "Sample sessions".to_owned(),
        None => "Sessions of all projects".to_owned(),
    };
    writeln!(out, "{}\n", look.paint(Style::Title, look.sanitize(&heading)))?;
    render::write_ls(&mut out, rows, look)?;
    let more = listing.sessions.len() - rows.len();
    if more > 0 {
        writeln!(out, "{}", look.paint(Style::Dim, format!("… and {more} more: rethread{demo} ls")))?;
    }
    let id = rows[0].id.as_str();
    let id = render::shell_word(id.char_indices().nth(8).map_or(id, |(end, _)| &id[..end]));
    let id = look.sanitize(&id);
    writeln!(out)?;
    for (command, does) in [
        (format!("rethread{demo} show {id}"), "read the conversation"),
        (format!("rethread{demo} tree {id}"), "draw its branches"),
        (format!("rethread{demo} info {id}"), "show statistics"),
        (format!("rethread{demo} ls --all"), "list sessions of all projects"),
        ("rethread --help".to_owned(), "list all commands"),
    ] {
        writeln!(out, "  {command:<32} {}", look.paint(Style::Dim, does))?;
    }
    out.finish()?;
    print_hidden(&listing.hidden, listing.sessions.len(), terminal);
    Ok(CommandOutcome::Success)
}
