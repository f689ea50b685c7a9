//! Command line arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

use crate::commands;

/// Read, check, repair, clone, clean and export Claude Code sessions.
///
/// Without a command, lists the sessions of the current directory's project and suggests next steps.
#[derive(Debug, Parser)]
#[command(name = "rethread", version, max_term_width = 100, arg_required_else_help = false, after_help = AFTER)]
pub(crate) struct CliArgs {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const AFTER: &str = "\
SESSION is a session id or a prefix of one, a path to a .jsonl file or to a directory of them,
`last` for the newest session of the current directory's project, or `-` for standard input.

Exit status: 0 success, 1 nothing found or a check found something, 2 error.

To try it without sessions of your own: rethread --demo ls";

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
    Preview(commands::preview::PreviewArgs),
    Check(commands::check::CheckArgs),
    Repair(commands::repair::RepairArgs),
    Clone(commands::clone::CloneArgs),
    Clean(commands::clean::CleanArgs),
    Secrets(commands::secrets::SecretsArgs),
    Util(commands::util::UtilArgs),
}
