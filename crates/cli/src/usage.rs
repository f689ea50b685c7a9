//! Errors in the arguments, which are printed before the terminal is set up; and the requested help.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use serde_json::Value;

use crate::args::CliArgs;
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::terminal::{self, print_json_error};
use crate::{ascii, commands};

/// Prints what is wrong with the arguments, or the requested help.
#[expect(clippy::print_stderr, reason = "clap's messages are printed before the terminal is set up")]
pub(crate) fn print(error: &clap::Error) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let hint = missing_equals(error, &args).or_else(|| session_hint(error, args.clone()));
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if !asked && wants_json(&args) {
        print_json_error(&as_failure(error, hint).to_json(str::to_owned));
    } else if error.kind() == ErrorKind::InvalidUtf8 {
        let failure = as_failure(error, hint);
        eprintln!("error: {}", failure.error);
        failure.hints.iter().for_each(|hint| eprintln!("hint: {hint}"));
    } else if asked && terminal::stdout_is_ascii() {
        let _ = std::io::stdout().write_all(ascii::to_ascii(&error.render().to_string()).as_bytes());
    } else {
        if !asked && std::io::IsTerminal::is_terminal(&std::io::stderr()) {
            eprint!("{}", usage_for_terminal(error));
        } else {
            let _ = error.print();
        }
        if let Some(hint) = hint {
            eprintln!("hint: {}", rethread_render::escape(&hint));
        }
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Returns whether `--json` is among the options.
fn wants_json(args: &[OsString]) -> bool {
    args.iter().take_while(|arg| *arg != "--").any(|arg| arg == "--json")
}

/// Returns a hint for an option with an optional value, which requires `=` before it.
fn missing_equals(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let wrong = error.get(ContextKind::InvalidArg)?.to_string();
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let is_slip =
        |pair: &&[String]| matches!(pair[0].as_str(), "--compress" | "--strip-tools") && pair[1] == wrong;
    let slip = args.windows(2).find(is_slip).filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    Some(format!("write {}={}", slip[0], slip[1]))
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

/// Returns the error in the form of all others.
fn as_failure(error: &clap::Error, hint: Option<String>) -> Failure {
    if error.kind() == ErrorKind::InvalidUtf8 {
        return Failure::new("an argument is not valid UTF-8")
            .kind(FailureKind::InvalidValue)
            .hint("only session names and paths may contain bytes that are not UTF-8");
    }
    let text = error.render().to_string();
    let message = text.lines().take_while(|line| !line.trim().is_empty());
    let message = message.map(str::trim).collect::<Vec<_>>().join(" ");
    let kind = match error.kind() {
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => FailureKind::InvalidValue,
        _ => FailureKind::Usage,
    };
    let mut failure = Failure::new(message.strip_prefix("error: ").unwrap_or(&message)).kind(kind);
    let tips = text.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    failure.hints.extend(hint.into_iter().chain(tips.map(str::to_owned)));
    if failure.hints.is_empty() {
        failure = failure.hint("`rethread COMMAND --help` lists the options of a command");
    }
    let fields = [
        ("argument", ContextKind::InvalidArg),
        ("value", ContextKind::InvalidValue),
        ("valid", ContextKind::ValidValue),
        ("suggestion", ContextKind::SuggestedArg),
        ("suggestion", ContextKind::SuggestedSubcommand),
        ("suggestion", ContextKind::SuggestedValue),
    ];
    for (name, context) in fields {
        if let Some(value) = error.get(context).and_then(context_value) {
            failure = failure.with(name, value);
        }
    }
    failure
}

fn context_value(value: &ContextValue) -> Option<Value> {
    match value {
        ContextValue::String(text) => Some(text.as_str().into()),
        ContextValue::Strings(texts) => Some(texts.clone().into()),
        _ => None,
    }
}

/// Returns a usage error for a terminal. Control characters in the repeated arguments are escaped, because
/// they may be untrusted file names.
fn usage_for_terminal(error: &clap::Error) -> String {
    error.render().to_string().lines().map(|line| format!("{}\n", rethread_render::escape(line))).collect()
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

    #[test]
    fn json_is_wanted_only_as_an_option() {
        let args = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(wants_json(&args(&["rethread", "ls", "--json"])));
        assert!(!wants_json(&args(&["rethread", "search", "--", "--json"])));
    }
}
