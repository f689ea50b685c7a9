//! Command line arguments.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::{commands, examples};

/// Read, check, repair, clone, clean and export Claude Code sessions.
///
/// Without a command, opens a list of sessions to filter, search, preview and resume (F1 lists the keys). In a pipe or with
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
        Self::try_parse_words(std::env::args_os().collect())
    }

    /// Parses arguments. In a query, `-word` excludes a word: what is not an option of `search` is a part of the query.
    pub(crate) fn try_parse_words(mut words: Vec<OsString>) -> Result<Self, clap::Error> {
        let first_error = match Self::definition().try_get_matches_from(&words) {
            Ok(found) => return Self::from_arg_matches(&found),
            Err(error) => error,
        };
        if !words.iter().any(|word| word == "search") {
            return Err(first_error);
        }
        let mut error = first_error;
        while let Some(at) = excluded_word(&error, &words) {
            words[at] = [OsStr::new(EXCLUDED), &words[at]].into_iter().collect();
            match Self::definition().try_get_matches_from(&words) {
                Ok(found) => return Self::from_arg_matches(&found),
                Err(next) => error = next,
            }
        }
        Err(error)
    }
}

/// Marks an argument that begins with `-` and is not an option. No typed argument begins so.
pub(crate) const EXCLUDED: &str = "\u{1}";

/// Returns the argument that an error takes for an unknown option, if it can be an excluded word.
fn excluded_word(error: &clap::Error, words: &[OsString]) -> Option<usize> {
    let ContextValue::String(option) = error.get(ContextKind::InvalidArg)? else { return None };
    let is_word = |word: &OsString| {
        let word = word.to_string_lossy();
        word.len() > 2 && !word.starts_with("--") && word.starts_with(option.as_str())
    };
    words.iter().position(is_word).filter(|_| error.kind() == ErrorKind::UnknownArgument)
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
    Outline(commands::outline::OutlineArgs),
    Search(commands::search::SearchArgs),
    Show(commands::show::ShowArgs),
    Export(commands::export::ExportArgs),
    Resume(commands::resume::ResumeArgs),
    Preview(commands::preview::PreviewArgs),
    Check(commands::check::CheckArgs),
    Repair(commands::repair::RepairArgs),
    Clone(commands::clone::CloneArgs),
    Clean(commands::clean::CleanArgs),
    Secrets(commands::secrets::SecretsArgs),
    Usage(commands::usage::UsageArgs),
    Sql(commands::sql::SqlArgs),
    Index(commands::index::IndexArgs),
    Util(commands::util::UtilArgs),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(words: &[&str]) -> Option<String> {
        let words = ["rethread", "search"].iter().chain(words).map(OsString::from).collect();
        match CliArgs::try_parse_words(words).ok()?.command? {
            Command::Search(args) => Some(args.typed()),
            _ => None,
        }
    }

    #[test]
    fn options_of_search_are_not_words_and_words_are_not_options() {
        assert_eq!(query(&["retry", "-test", "-n", "2"]).as_deref(), Some("retry -test"));
        assert_eq!(query(&["-n2", "-test", "a", "-übung", "--hits", "3"]).as_deref(), Some("-test a -übung"));
        assert_eq!(query(&["a", "--", "-n", "--x"]).as_deref(), Some("a -n --x"));
        assert_eq!(query(&["a", "--nonsense"]), None);
        assert_eq!(query(&["a", "-n"]), None);
    }
}
