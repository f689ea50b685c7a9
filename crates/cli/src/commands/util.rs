//! `util`: what other programs need.

use std::io::{self, Write};

use clap::{CommandFactory, Subcommand};
use clap_complete::Shell;

use crate::CommandOutcome;
use crate::failure::Failure;

/// Print completions and manual pages
#[derive(Debug, clap::Args)]
pub(crate) struct UtilArgs {
    #[command(subcommand)]
    command: UtilCommand,
}

#[derive(Debug, Subcommand)]
enum UtilCommand {
    /// Print completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page
    Man,
    /// Print the help of every command as Markdown
    MarkdownHelp,
}

pub(crate) fn run(args: &UtilArgs) -> Result<CommandOutcome, Failure> {
    let mut command = crate::args::CliArgs::command();
    let mut out = io::stdout().lock();
    match args.command {
        UtilCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command, "rethread", &mut script);
            out.write_all(&script)?;
        }
        UtilCommand::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            out.write_all(&page)?;
        }
        UtilCommand::MarkdownHelp => out.write_all(markdown(command).as_bytes())?,
    }
    out.flush()?;
    Ok(CommandOutcome::Success)
}

/// The help of every command, as `docs/cli-reference.md` holds it.
fn markdown(mut command: clap::Command) -> String {
    command.build();
    let mut text = String::from("# Commands\n\nMade by `rethread util markdown-help`; a test compares it.\n");
    let mut left = vec![("rethread".to_owned(), command)];
    while let Some((name, mut command)) = left.pop() {
        let help = command.render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        text += &format!("\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim());
        let mut below: Vec<_> = command
            .get_subcommands()
            .filter(|sub| sub.get_name() != "help")
            .map(|sub| (format!("{name} {}", sub.get_name()), sub.clone()))
            .collect();
        below.reverse();
        left.extend(below);
    }
    text
}
