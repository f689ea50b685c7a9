//! Command line arguments.

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::{commands, examples};

/// Read, check, repair, clone, clean and export Claude Code sessions.
///
/// Without a command, opens a list of sessions to filter, preview and resume (F1 lists the keys). In a pipe or with
/// --no-interactive it prints the list.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, max_term_width = 100, arg_required_else_help = false, after_help = AFTER)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

impl CliArgs {
    /// Returns the definition of the program's arguments, with examples.
    pub(crate) fn definition() -> clap::Command {
        examples::with_examples(Self::command())
    }

    /// Parses the arguments of the process.
    pub(crate) fn try_parse_process() -> Result<Self, clap::Error> {
        Self::from_arg_matches(&Self::definition().try_get_matches()?)
    }
}

const AFTER: &str = "\
SESSION is an id or its beginning, part of a title, a path to a .jsonl file or a directory of them,
`last` for the newest session of the project that contains the current directory (else of all), or
`-` for standard input. Without SESSION, commands take that project's sessions, or its newest.

Exit status: 0 success, 1 nothing found or a check found something, 2 error.";

/// Options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// Look for sessions in DIR instead of ~/.claude
    ///
    /// Separate several directories with commas. Without this option, the environment variable
    /// CLAUDE_CONFIG_DIR is used in the same way.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) config_dir: Option<PathBuf>,

    /// Use the built-in sample sessions
    ///
    /// A command that writes, such as `clone`, uses a copy of them in the cache directory.
    #[arg(long, global = true)]
    pub(crate) demo: bool,

    /// Print JSON, one object per line
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// When to use colours
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: ColorArg,

    /// Do not pipe long output through a pager
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,

    /// Never ask or open the interactive list; without a command, print the list of sessions
    #[arg(long, global = true)]
    pub(crate) no_interactive: bool,

    /// Suppress notes and progress
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorArg {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Ls(commands::ls::LsArgs),
    Info(commands::info::InfoArgs),
    Tree(commands::tree::TreeArgs),
    Show(commands::show::ShowArgs),
    Export(commands::export::ExportArgs),
    Resume(commands::resume::ResumeArgs),
    Preview(commands::preview::PreviewArgs),
    Check(commands::check::CheckArgs),
    Repair(commands::repair::RepairArgs),
    Clone(commands::clone::CloneArgs),
    Clean(commands::clean::CleanArgs),
    Secrets(commands::secrets::SecretsArgs),
    Util(commands::util::UtilArgs),
}
