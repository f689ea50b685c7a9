//! `resume`: continues a session in the client.

use std::ffi::OsString;
use std::io::Write;

use rethread::Holder;
use rethread_render::ResumeRow;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, writable_library};
use crate::failure::{Failure, holder_hint};
use crate::failure_kind::FailureKind;
use crate::resume_command::{ResumeCommand, not_resumable};
use crate::scope::find_one;
use crate::terminal::Terminal;

/// Continue a session in the client, in its own directory
///
/// Runs `claude --resume` in the directory in which the session was started, wherever you are. If that directory does
/// not exist on this machine, nothing is run; `rethread clone SESSION --to DIR` copies the session to another project.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Print the command instead of running it
    #[arg(long, short)]
    print: bool,

    /// Continue in a copy with a new id; the client leaves the session unchanged
    #[arg(long)]
    fork: bool,
}

pub(crate) fn run(
    args: &ResumeArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = writable_library(global, terminal)?;
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    let session = library.summary(&source)?;
    let command = ResumeCommand { fork: args.fork, ..ResumeCommand::new(&library, &session)? };
    if global.json || args.print {
        // The command may be meant for another machine.
        if let Err(failure) = command.existing_dir(&library) {
            terminal.print_note(&not_resumable(&failure));
        }
        let mut out = terminal.output();
        if global.json {
            let dir = command.dir.as_deref().map(|dir| dir.to_string_lossy().into_owned());
            let row = ResumeRow { r#type: "resume", id: &command.id, dir, command: command.to_string() };
            json_line(&mut out, &row)?;
        } else {
            writeln!(out, "{}", command.paint(&terminal.stdout))?;
        }
        out.finish()?;
        return Ok(CommandOutcome::Success);
    }
    if let Some(holder) = library.holder(&source).filter(|_| !args.fork) {
        return Err(in_use(&holder));
    }
    let dir = command.existing_dir(&library)?;
    let title = rethread_render::truncate(&session.title.text, 60);
    terminal.print_note(&format!("resuming {} \"{title}\" in {}", command.id, dir.display()));
    match command.run(&library)? {}
}

fn in_use(holder: &Holder) -> Failure {
    Failure::new(holder.to_string())
        .kind(FailureKind::InUse)
        .hint(holder_hint(holder, "continue in a copy with --fork"))
}
