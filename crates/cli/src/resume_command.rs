//! The command that resumes a session, to be printed or run.

use std::convert::Infallible;
use std::env;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use rethread::{Library, SessionId, SessionKind, SessionSummary};
use rethread_render::{DisplayOptions, Style, shell_word};

use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::wording::session_name;

/// The program that resumes sessions.
const CLIENT: &str = "claude";

/// The variable that names the client's config directory.
const CONFIG_VARIABLE: &str = "CLAUDE_CONFIG_DIR";

/// The client's command line for resuming a session. It displays as one line for `sh`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResumeCommand {
    /// The directory to run it in.
    pub(crate) dir: Option<PathBuf>,
    /// The config directory, unless it is the one that the client uses in this environment anyway.
    pub(crate) config_dir: Option<PathBuf>,
    /// The session.
    pub(crate) id: SessionId,
    /// Its log.
    pub(crate) log: PathBuf,
    /// Continue in a copy that the client makes.
    pub(crate) fork: bool,
}

impl ResumeCommand {
    /// Makes the command for a session; fails if no client can resume it.
    pub(crate) fn new(library: &Library, session: &SessionSummary) -> Result<Self, Failure> {
        let id = &session.id;
        let name = || shell_word(&session_name(id, &session.path, library));
        match session.kind {
            SessionKind::Agent | SessionKind::Orphan => {
                return Err(Failure::new(format!(
                    "`{id}` is the log of a subagent, which cannot be resumed"
                ))
                .kind(FailureKind::Unsuitable)
                .hint(format!("`rethread repair {}` converts it into a session", name())));
            }
            SessionKind::Empty | SessionKind::Summaries | SessionKind::Pointer => {
                return Err(Failure::new(format!("`{id}` contains no conversation to resume"))
                    .kind(FailureKind::Unsuitable));
            }
            _ => {}
        }
        Self::for_log(&session.path, id, library.resume_dir(session)).ok_or_else(|| {
            let path = session.path.display();
            Failure::new(format!("clients do not find {path}"))
                .kind(FailureKind::Unsuitable)
                .hint("they find only logs named by a UUID in a project of a config directory")
                .hint(format!("`rethread clone {} --to DIR` copies it to the project of DIR", name()))
        })
    }

    /// Makes the command for a log; `None` if clients would not find it there.
    ///
    /// A name that is not a UUID is no session for a client, and might be read as one of its options.
    pub(crate) fn for_log(log: &Path, id: &SessionId, dir: Option<PathBuf>) -> Option<Self> {
        let log = absolute_log(log)?;
        let root = rethread::config_root(&log)?;
        let id = Some(id.clone()).filter(is_uuid)?;
        let is_default = default_config_dir().is_some_and(|default| is_same_dir(&default, &root));
        let config_dir = (!is_default).then_some(root);
        Some(Self { dir, config_dir, id, log, fork: false })
    }

    /// Makes the command for a log that was just written.
    pub(crate) fn for_written_log(library: &Library, log: &Path) -> Option<Self> {
        Self::new(library, &library.find_one(log).ok()?.summary().ok()?).ok()
    }

    /// Formats the command for the terminal. Line ends in names are escaped too, so that it stays on one line.
    pub(crate) fn paint(&self, look: &DisplayOptions) -> String {
        let text = self.to_string();
        let text = look.sanitize(&text);
        look.paint(Style::Id, if look.escape { text.replace('\n', "\\n") } else { text.into_owned() })
    }

    /// Returns the line that says how to resume the session, or why that is not possible on this machine.
    pub(crate) fn advice(&self, library: &Library, look: &DisplayOptions) -> String {
        match self.existing_dir(library) {
            Ok(_) => format!("resume it with: {}", self.paint(look)),
            Err(failure) => look.sanitize_line(&not_resumable(&failure)),
        }
    }

    /// Runs the client in place of this process, in the directory of the session.
    pub(crate) fn run(&self, library: &Library) -> Result<Infallible, Failure> {
        let mut command = Command::new(CLIENT);
        command.args(self.args()).current_dir(self.existing_dir(library)?);
        if let Some(dir) = &self.config_dir {
            command.env(CONFIG_VARIABLE, dir);
        }
        let here = env::current_dir();
        let error = replace_process(&mut command);
        // The process has changed its directory, even if the program could not be started.
        let _ = here.map(env::set_current_dir);
        Err(match error {
            error if error.kind() == io::ErrorKind::NotFound => {
                Failure::new(format!("`{CLIENT}` was not found in PATH"))
                    .kind(FailureKind::NoClient)
                    .hint("install Claude Code, or print the command with --print and run it elsewhere")
            }
            error => Failure::new(format!("cannot run `{CLIENT}`: {error}")).kind(FailureKind::NoClient),
        })
    }

    /// Returns the directory to run it in; fails if it is unknown or does not exist.
    pub(crate) fn existing_dir(&self, library: &Library) -> Result<PathBuf, Failure> {
        let found = self.dir.as_deref().and_then(existing_dir);
        found.ok_or_else(|| self.missing_dir(library))
    }

    fn args(&self) -> Vec<&str> {
        let mut args = vec!["--resume", self.id.as_str()];
        args.extend(self.fork.then_some("--fork-session"));
        args
    }

    fn missing_dir(&self, library: &Library) -> Failure {
        let name = session_name(&self.id, &self.log, library);
        let clone = format!("`rethread clone {} --to DIR`", shell_word(&name));
        match &self.dir {
            _ if library.is_demo() => {
                sample_failure().hint(format!("copy it to the project of a directory: {clone}"))
            }
            None => {
                Failure::new("no directory of this machine is known in which clients would find the session")
                    .hint(format!("copy it to the project of a directory: {clone}"))
            }
            Some(dir) => {
                Failure::new(format!("the directory of the session does not exist: {}", dir.display()))
                    .hint(format!("create it again, or copy the session to another project: {clone}"))
            }
        }
    }
}

/// Words that a session of the sample library cannot be resumed.
pub(crate) fn sample_failure() -> Failure {
    Failure::new("sample sessions cannot be resumed: their directories do not exist")
}

/// Words the reason why a session cannot be resumed, and what to do about it, as one line.
pub(crate) fn not_resumable(failure: &Failure) -> String {
    let hints: String = failure.hints.iter().map(|hint| format!(" ({hint})")).collect();
    format!("not resumable here: {}{hints}", failure.error)
}

impl fmt::Display for ResumeCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(dir) = &self.dir {
            write!(f, "cd {} && ", shell_word(&dir.to_string_lossy()))?;
        }
        if let Some(dir) = &self.config_dir {
            write!(f, "{CONFIG_VARIABLE}={} ", shell_word(&dir.to_string_lossy()))?;
        }
        write!(f, "{CLIENT} {}", self.args().join(" "))
    }
}

/// Returns a directory that exists. A log cannot record a name that is not UTF-8, so a recorded name with replaced
/// characters also matches the current directory.
fn existing_dir(dir: &Path) -> Option<PathBuf> {
    if dir.is_dir() {
        return Some(dir.to_owned());
    }
    env::current_dir().ok().filter(|here| here.to_string_lossy() == dir.to_string_lossy())
}

/// Returns the absolute path of a log. Parts such as `..` are resolved, because its directories tell its project.
fn absolute_log(log: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(log).ok()?;
    let is_plain = !absolute.components().any(|part| part == Component::ParentDir);
    if is_plain { Some(absolute) } else { Some(log.parent()?.canonicalize().ok()?.join(log.file_name()?)) }
}

/// Returns the config directory that the client uses in this environment, wherever it is started.
fn default_config_dir() -> Option<PathBuf> {
    let named = env::var_os(CONFIG_VARIABLE).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(env::home_dir()?.join(".claude"))).filter(|dir| dir.is_absolute())
}

fn is_same_dir(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(a) == real(b)
}

fn is_uuid(id: &SessionId) -> bool {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    let bytes = id.as_str().as_bytes();
    bytes.len() == 36
        && bytes
            .iter()
            .enumerate()
            .all(|(at, b)| if is_dash(at) { *b == b'-' } else { b.is_ascii_hexdigit() })
}

/// Replaces this process; returns only if that fails.
#[cfg(unix)]
fn replace_process(command: &mut Command) -> io::Error {
    use std::os::unix::process::CommandExt;
    command.exec()
}

/// Runs a program and exits with its status; returns only if it cannot be started.
#[cfg(not(unix))]
fn replace_process(command: &mut Command) -> io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(2)),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0000000a-0000-4000-8000-000000000000";

    fn command(log: &str, dir: Option<&str>) -> Option<ResumeCommand> {
        let id = Path::new(log).file_stem()?.to_str()?.into();
        ResumeCommand::for_log(Path::new(log), &id, dir.map(PathBuf::from))
    }

    #[test]
    fn command_is_quoted_for_a_shell() {
        let log = format!("/backup of ada/projects/-x/{ID}.jsonl");
        let found = command(&log, Some("/home/ada/it's here")).expect("a session");
        assert_eq!(
            found.to_string(),
            format!(
                r"cd '/home/ada/it'\''s here' && CLAUDE_CONFIG_DIR='/backup of ada' claude --resume {ID}"
            )
        );
        let forked = ResumeCommand { dir: None, config_dir: None, fork: true, ..found };
        assert_eq!(forked.to_string(), format!("claude --resume {ID} --fork-session"));
    }

    #[test]
    fn logs_that_clients_do_not_find_have_no_command() {
        for log in [
            format!("/config/projects/-x/{ID}/subagents/agent-1.jsonl"),
            "/config/projects/-x/--dangerously-skip-permissions.jsonl".to_owned(),
            format!("/config/projects/-x/{}.jsonl", ID.replace('-', "0")),
            format!("/downloads/{ID}.jsonl"),
        ] {
            assert_eq!(command(&log, None), None, "{log}");
        }
    }
}
