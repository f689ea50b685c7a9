//! The program `rethread`: arguments, terminal, exit codes. The library does the work.

mod args;
mod ascii;
mod cache;
mod commands;
mod examples;
mod failure;
mod open;
mod resume_command;
mod sample;
mod scope;
mod terminal;
mod time_arg;
mod wording;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};

use crate::args::{CliArgs, Command};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The outcome of a command that did not fail.
pub(crate) enum CommandOutcome {
    /// It did what was requested.
    Success,
    /// Nothing was found, or a check found something.
    Negative,
}

fn main() -> ExitCode {
    let args = match CliArgs::try_parse_process() {
        Ok(args) => args,
        Err(error) => return print_usage_error(&error),
    };
    let terminal = Terminal::new(&args.global);
    let done = run(&args, &terminal);
    match done {
        Ok(CommandOutcome::Success) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Negative) => ExitCode::from(1),
        // The reader closed the pipe.
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            terminal.print_error(&failure);
            ExitCode::from(2)
        }
    }
}

/// Prints what is wrong with the arguments, or the requested help.
#[expect(clippy::print_stderr, reason = "clap's messages are printed before the terminal is set up")]
fn print_usage_error(error: &clap::Error) -> ExitCode {
    if error.kind() == ErrorKind::InvalidUtf8 {
        eprintln!("error: an argument is not valid UTF-8");
        eprintln!("hint: only session names and paths may contain bytes that are not UTF-8");
        return ExitCode::from(2);
    }
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked && terminal::stdout_is_ascii() {
        let _ = std::io::stdout().write_all(ascii::to_ascii(&error.render().to_string()).as_bytes());
    } else if !asked && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        eprint!("{}", usage_for_terminal(error));
    } else {
        let _ = error.print();
    }
    // Options with an optional value require `=` before it.
    let args: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let slip = args.windows(2).find(|pair| {
        let wrong = error.get(ContextKind::InvalidArg).is_some_and(|wrong| wrong.to_string() == pair[1]);
        matches!(pair[0].as_str(), "--compress" | "--strip-tools") && wrong
    });
    if let Some([option, value]) = slip.filter(|_| error.kind() == ErrorKind::UnknownArgument) {
        eprintln!("hint: write {option}={value}");
    }
    if let Some(hint) = session_hint(error, std::env::args_os().collect()) {
        eprintln!("hint: {}", rethread_render::escape(&hint));
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Suggests `show` if a word that is no command names a session.
fn session_hint(error: &clap::Error, mut words: Vec<OsString>) -> Option<String> {
    let named = error.get(ContextKind::InvalidSubcommand)?.to_string();
    // Anyone may mistype a command; a short word is hardly an id.
    if named.chars().count() < MIN_ID_WORD {
        return None;
    }
    let at = words.iter().position(|word| *word == *named)?;
    words.truncate(at);
    let global = CliArgs::try_parse_words(words).ok()?.global;
    let is_session = commands::library(&global).is_named(named.as_ref());
    let options = commands::library_options(&global);
    is_session
        .then(|| format!("did you mean `rethread{options} show {}`?", rethread_render::shell_word(&named)))
}

/// The number of characters of the shortest word that is taken for an id.
const MIN_ID_WORD: usize = 4;

/// Returns a usage error for a terminal. Control characters in the repeated arguments are escaped, because
/// they may be untrusted file names.
fn usage_for_terminal(error: &clap::Error) -> String {
    error.render().to_string().lines().map(|line| format!("{}\n", rethread_render::escape(line))).collect()
}

fn run(args: &CliArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let global = &args.global;
    match &args.command {
        None if commands::pick::is_wanted(global) => commands::pick::run(global, terminal),
        None => commands::home::run(global, terminal),
        Some(Command::Ls(args)) => commands::ls::run(args, global, terminal),
        Some(Command::Info(args)) => commands::info::run(args, global, terminal),
        Some(Command::Tree(args)) => commands::tree::run(args, global, terminal),
        Some(Command::Search(args)) => commands::search::run(args, global, terminal),
        Some(Command::Index(args)) => commands::index::run(args, global, terminal),
        Some(Command::Show(args)) => commands::show::run(args, global, terminal),
        Some(Command::Export(args)) => commands::export::run(args, global, terminal),
        Some(Command::Resume(args)) => commands::resume::run(args, global, terminal),
        Some(Command::Preview(args)) => commands::preview::run(args, global, terminal),
        Some(Command::Check(args)) => commands::check::run(args, global, terminal),
        Some(Command::Clone(args)) => commands::clone::run(args, global, terminal),
        Some(Command::Clean(args)) => commands::clean::run(args, global, terminal),
        Some(Command::Secrets(args)) => commands::secrets::run(args, global, terminal),
        Some(Command::Repair(args)) => commands::repair::run(args, global, terminal),
        Some(Command::Util(args)) => commands::util::run(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn usage_errors_escape_repeated_arguments() {
        for args in [["rethread", "--\u{1b}[2Jx"], ["rethread", "\u{9b}31m\u{202e}"]] {
            let error = CliArgs::try_parse_from(args).expect_err("no such argument");
            let text = usage_for_terminal(&error);
            assert!(!text.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{text}");
            assert!(text.starts_with("error: ") && text.lines().count() > 1, "{text}");
        }
    }
}
