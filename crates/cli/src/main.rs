//! The program `rethread`: arguments, terminal, exit codes. The library does the work.

mod args;
mod ascii;
mod bounded;
mod cache;
mod commands;
mod examples;
mod failure;
mod failure_kind;
mod open;
mod resume_command;
mod sample;
mod scope;
mod terminal;
mod time_arg;
mod usage;
mod wording;

use std::process::ExitCode;

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
        Err(error) => return usage::print(&error),
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

fn run(args: &CliArgs, terminal: &Terminal) -> Result<CommandOutcome, Failure> {
    let global = &args.global;
    match &args.command {
        None if commands::pick::is_wanted(global) => commands::pick::run(global, terminal),
        None => commands::home::run(global, terminal),
        Some(Command::Ls(args)) => commands::ls::run(args, global, terminal),
        Some(Command::Info(args)) => commands::info::run(args, global, terminal),
        Some(Command::Tree(args)) => commands::tree::run(args, global, terminal),
        Some(Command::Outline(args)) => commands::outline::run(args, global, terminal),
        Some(Command::Search(args)) => commands::search::run(args, global, terminal),
        Some(Command::Usage(args)) => commands::usage::run(args, global, terminal),
        Some(Command::Index(args)) => commands::index::run(args, global, terminal),
        Some(Command::Sql(args)) => commands::sql::run(args, global, terminal),
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
