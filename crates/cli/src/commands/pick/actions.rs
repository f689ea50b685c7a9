//! Runs the actions of the picker: the commands of the same names, in a process of their own.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::Command;

use rethread::{Library, LogSource};

use rethread_picker::ContentMatch;

use super::screen::{PickerScreen, wait_for_key};
use crate::args::{ColorArg, GlobalArgs};
use crate::commands::search::show_options;
use crate::failure::Failure;
use crate::resume_command::{ResumeCommand, sample_failure};

/// Runs commands on sessions.
pub(super) struct ActionRunner<'a> {
    pub(super) global: &'a GlobalArgs,
    pub(super) library: &'a Library,
}

impl ActionRunner<'_> {
    /// Replaces the program with a client that resumes a session. Returns the reason if that is not possible.
    pub(super) fn resume(&self, log: &LogSource, screen: &mut PickerScreen) -> io::Result<Failure> {
        let command = match self.resume_command(log) {
            Ok(command) => command,
            Err(failure) => return Ok(failure),
        };
        screen.leave_for(|| match command.run(self.library) {
            Err(failure) => failure,
        })
    }

    fn resume_command(&self, log: &LogSource) -> Result<ResumeCommand, Failure> {
        if self.library.is_demo() {
            return Err(sample_failure());
        }
        if let Some(holder) = self.library.holder(log) {
            return Err(Failure::new(holder.to_string()));
        }
        ResumeCommand::new(self.library, &log.summary()?)
    }

    pub(super) fn show(
        &self,
        log: &LogSource,
        path: Option<usize>,
        screen: &mut PickerScreen,
    ) -> io::Result<()> {
        let path = path.map(|n| format!("--path={n}"));
        self.run_paged(&[&["show"], path.as_deref().as_slice()].concat(), &log.file.path, screen)
    }

    /// Shows a conversation from the message of a hit on.
    pub(super) fn show_hit(&self, found: &ContentMatch, screen: &mut PickerScreen) -> io::Result<()> {
        let options = show_options(&found.hit);
        let options = options.iter().map(String::as_str);
        self.run_paged(&std::iter::once("show").chain(options).collect::<Vec<_>>(), &found.path, screen)
    }

    pub(super) fn tree(&self, log: &LogSource, screen: &mut PickerScreen) -> io::Result<()> {
        self.run_paged(&["tree"], &log.file.path, screen)
    }

    pub(super) fn check(&self, log: &LogSource, screen: &mut PickerScreen) -> io::Result<()> {
        self.run_and_wait(&["check"], log, screen)
    }

    pub(super) fn export(&self, log: &LogSource, screen: &mut PickerScreen) -> io::Result<()> {
        self.run_and_wait(&["export", "--format=html"], log, screen)
    }

    pub(super) fn clone_path(
        &self,
        log: &LogSource,
        path: usize,
        screen: &mut PickerScreen,
    ) -> io::Result<()> {
        self.run_and_wait(&["clone", &format!("--path={path}")], log, screen)
    }

    /// Runs a command that prints into a pager, which stays open until the user closes it.
    fn run_paged(&self, args: &[&str], log: &Path, screen: &mut PickerScreen) -> io::Result<()> {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_own_pager = set("RETHREAD_PAGER") || set("PAGER") || self.global.no_pager;
        screen.leave_for(|| {
            let mut command = self.command(args, log);
            if !has_own_pager {
                // It must not quit when the text fits on the screen.
                command.env("RETHREAD_PAGER", "less -R -+F");
            }
            let ran = run(&mut command);
            // Another pager may quit at once, and without any the text has only been printed.
            if has_own_pager || !ran || !is_installed("less") { wait_for_key() } else { Ok(()) }
        })?
    }

    /// Runs a command that prints a few lines, and waits for a key.
    fn run_and_wait(&self, args: &[&str], log: &LogSource, screen: &mut PickerScreen) -> io::Result<()> {
        screen.leave_for(|| {
            run(self.command(args, &log.file.path).arg("--no-pager"));
            wait_for_key()
        })?
    }

    /// Returns a command of this program on a log.
    fn command(&self, args: &[&str], log: &Path) -> Command {
        let program = std::env::current_exe().unwrap_or_else(|_| "rethread".into());
        let mut command = Command::new(program);
        if let Some(dir) = &self.global.config_dir {
            let mut option = OsString::from("--config-dir=");
            option.push(dir);
            command.arg(option);
        }
        command.args(self.global.demo.then_some("--demo"));
        match self.global.color {
            ColorArg::Auto => {}
            ColorArg::Always => _ = command.arg("--color=always"),
            ColorArg::Never => _ = command.arg("--color=never"),
        }
        // The path names the log even if another project has a session with the same id.
        let id = log.file_stem().filter(|_| self.library.is_demo());
        let name = id.unwrap_or(log.as_os_str());
        command.args(args).arg(session_arg(name));
        command
    }
}

/// Returns the name of a session as an argument that is not an option.
fn session_arg(name: &OsStr) -> OsString {
    let mut arg = OsString::from(if name.as_encoded_bytes().starts_with(b"-") { "./" } else { "" });
    arg.push(name);
    arg
}

/// Returns whether a program is in `PATH`.
fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// Runs a command. Returns whether it printed what was asked for; the reason has been printed otherwise.
fn run(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            let program = command.get_program().to_string_lossy();
            let text = format!("cannot run {program}: {error}");
            anstream::eprintln!("error: {}", rethread_render::escape(&text));
            false
        }
    }
}
