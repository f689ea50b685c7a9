//! `tree`: the branches of a conversation.

use std::ffi::{OsStr, OsString};
use std::io::Write;

use rethread::{Client, LoadedSession};
use rethread_render::{self as render, PathRow, Style, shell_word};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_line, library};
use crate::failure::Failure;
use crate::scope::find_one;
use crate::terminal::Terminal;

/// Draw the branches of a session
///
/// Every end of the conversation is a numbered path, which `rethread show --path N` prints. ● marks the
/// path that the client would resume, ○ a path abandoned by a rewind or redo. If the client would resume
/// a local command outside the conversation, both paths are labelled. Parallel tool calls, hooks and
/// progress entries do not create branches.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Mark the path that this client version would resume, instead of the newest known version
    #[arg(long, value_name = "VERSION")]
    client: Option<String>,
}

pub(crate) fn run(
    args: &TreeArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let (client, note) = client(args.client.as_deref())?;
    let library = library(global);
    let loaded = library.load(&find_one(&library, args.session.as_deref(), terminal)?)?;
    let paths = library.tree(&loaded, client);
    if let Some(note) = note {
        terminal.print_note(&note);
    }
    let mut out = terminal.output();
    if global.json {
        for path in &paths {
            json_line(&mut out, &PathRow::from(path))?;
        }
    } else {
        let look = &terminal.stdout;
        let text = library.title(&loaded).text;
        if !text.is_empty() {
            writeln!(out, "{}", look.paint(Style::Title, look.truncate(&look.sanitize_line(&text), 0)))?;
        }
        if let Some(continues) = paths.iter().find_map(|path| path.continues.as_ref()) {
            let message = continues.message.map_or(String::new(), |n| format!(" after message {n}"));
            let text = look.sanitize_line(&format!("continues session {}{message}", continues.session));
            writeln!(out, "{}", look.paint(Style::Dim, text))?;
        }
        render::write_tree(&mut out, &loaded.session, &loaded.reader(), &paths, look)?;
    }
    out.finish()?;
    if let Some(path) =
        paths.iter().find(|path| !path.path.active).filter(|_| paths.len() > 1 && !global.json)
    {
        let demo = if global.demo { "--demo " } else { "" };
        let session = shell_word(&args.session.as_deref().unwrap_or(OsStr::new("last")).to_string_lossy());
        terminal.print_note(&format!("to read a path: rethread {demo}show {session} --path {}", path.n));
    }
    let off_path = loaded.session.off_path_nodes().len();
    if off_path > 0 && !global.json {
        let entries = if off_path == 1 { "1 entry".to_owned() } else { format!("{off_path} entries") };
        terminal
            .print_note(&format!("not shown: {entries} on branches that contain only commands and notes"));
    }
    if paths.is_empty() {
        terminal.print_note("this session has no conversation");
    } else if !paths.iter().any(|path| path.path.active) {
        terminal.print_note("the client would resume none of these paths");
    } else if let Some(note) = differing_clients(&loaded, client) {
        terminal.print_note(&note);
    }
    Ok(if paths.is_empty() { CommandOutcome::Negative } else { CommandOutcome::Success })
}

/// Describes the clients that would continue at another leaf.
fn differing_clients(loaded: &LoadedSession, client: Client) -> Option<String> {
    let tip = |client: Client| {
        let active = loaded.session.paths(client).into_iter().find(|path| path.active);
        active.map(|path| loaded.session.tree.step(path.tip))
    };
    let here = tip(client);
    let others: Vec<&str> =
        Client::ALL.into_iter().filter(|&c| tip(c) != here).map(Client::version).collect();
    (!others.is_empty()).then(|| {
        format!(
            "other client versions would resume elsewhere: {} (--client VERSION shows where)",
            others.join(", ")
        )
    })
}
