//! `preview`: what a client would send on resume.

use rethread::render;

use crate::Done;
use crate::args::Global;
use crate::commands::{client, json_line, library, load_one};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Show what the client would send to the API on resume
///
/// The messages that the model would see if you resumed the session now and typed TEXT: after the
/// client has chosen a branch, dropped what it drops, joined what it joins and put in its own words.
/// Reminders that the client writes anew with every prompt are left out.
///
/// The rules differ between versions of the client; those of 1.0.128 to 2.1.325 are known from runs
/// of the real programs.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The session
    #[arg(value_name = "SESSION")]
    session: String,

    /// By the rules of this version of the client, instead of the newest known one
    #[arg(long, value_name = "VERSION")]
    client: Option<String>,

    /// The next prompt
    #[arg(long, value_name = "TEXT", default_value = "(the next prompt)")]
    prompt: String,
}

const AFTER: &str = "\
Exit status: 0 the client resumes the session, 1 it does not, 2 an error.

Examples:
  rethread preview last
  rethread preview 3f2a --client 2.1.112 --json | jq .messages";

pub(crate) fn run(args: &Args, global: &Global, terminal: &Terminal) -> Result<Done, Failure> {
    let (client, note) = client(args.client.as_deref())?;
    let library = library(global);
    let loaded = load_one(&library, &args.session)?;
    if let Some(note) = note {
        terminal.say(&note);
    }
    let preview = loaded.preview(client, &args.prompt);
    let mut out = terminal.output();
    if global.json {
        json_line(&mut out, &preview)?;
    } else {
        render::preview(&mut out, &preview, &terminal.look)?;
    }
    out.finish()?;
    Ok(if preview.accepted() { Done::Well } else { Done::Nothing })
}
