//! `show`: a conversation in the terminal.

mod output;
mod rows;

use std::ffi::OsString;

use rethread::{
    LoadedTranscript, MessageName, MessageNo, TranscriptError, TranscriptOptions, TranscriptPath, TurnBound,
    TurnRange, VisibleContent, VisibleThinking,
};
use rethread_render as render;
use serde_json::json;

use self::output::ShownConversation;
use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::library;
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::find_one;
use crate::terminal::Terminal;

/// Show the conversation of a session
///
/// Prints the path that the client would resume. If that path contains only local commands, the
/// conversation is shown instead, with a note. `rethread tree` lists the other paths. Compactions appear
/// where they happened, tool results under their calls. #12 is message 12: message numbers never change
/// and can be passed to --at.
///
/// For scripts and agents: --at MESSAGE --around 3 shows a message in its surroundings, and --max-chars keeps the output
/// small. An anchor, as `search --json` and `outline --json` print it, also finds the message in clones and forks.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Show path N of `rethread tree`
    #[arg(long, visible_alias = "branch", value_name = "N")]
    path: Option<usize>,

    /// Start at this message, on a path that contains it: its number, its anchor, or a uuid or the beginning of it
    #[arg(long, value_name = "MESSAGE")]
    at: Option<String>,

    /// Show only N messages before and after --at; a result is shown with its call
    #[arg(long, value_name = "N", requires = "at", conflicts_with = "turns")]
    around: Option<usize>,

    /// Print at most N characters: cut long texts to the same length, and stop where even short ones do not fit
    #[arg(long, value_name = "N")]
    max_chars: Option<usize>,

    /// Show only these turns: `3`, `2..5`, `4..`, `..2`; negative numbers count from the end
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    turns: Option<String>,

    /// The detail of tool calls
    #[arg(long, value_name = "HOW", default_value = "brief")]
    tools: ToolsArg,

    /// Also show thinking
    #[arg(long)]
    thinking: bool,

    /// Show what a clone removed, if it was kept; message numbers are those of the source session
    #[arg(long, conflicts_with_all = ["path", "turns", "around"])]
    removed: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ToolsArg {
    /// Full inputs and results
    Full,
    /// One line each
    Brief,
    /// Nothing
    None,
}

/// Parses `12` or `#12`, as message numbers are printed.
pub(crate) fn message_number(text: &str) -> Result<usize, String> {
    let number = text.strip_prefix('#').unwrap_or(text);
    number.parse().map_err(|_| "expected a message number such as 12".to_owned())
}

pub(crate) fn run(
    args: &ShowArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    let from = args.at.as_deref().map(MessageName::from);
    let content = VisibleContent {
        thinking: if args.thinking { VisibleThinking::All } else { VisibleThinking::Hidden },
        tools: !matches!(args.tools, ToolsArg::None),
        images: true,
    };
    let loaded = if args.removed {
        let n = from.as_ref().map(|name| name.number().ok_or_else(|| not_a_number(name))).transpose()?;
        library.removed_transcript(&source, n, content)
    } else {
        let options = TranscriptOptions {
            path: args.path.map_or(TranscriptPath::Main, TranscriptPath::Number),
            turns: args.turns.as_deref().map(parse_turns).transpose()?,
            from,
            around: args.around,
            content,
            client: None,
        };
        library.transcript(&source, &options)
    };
    let loaded = match loaded {
        Err(TranscriptError::NoConversation) => {
            terminal.print_note("this session has no conversation");
            return Ok(CommandOutcome::Negative);
        }
        loaded => loaded.map_err(|error| failure(error, args))?,
    };
    if args.path.is_none() && args.at.is_none() {
        print_resume_point(&loaded, terminal);
    }
    let shown = ShownConversation::new(args, global, terminal, &library, &source, &loaded);
    match args.max_chars {
        Some(max_chars) => shown.print_bounded(max_chars)?,
        None => shown.print()?,
    }
    Ok(CommandOutcome::Success)
}

impl From<ToolsArg> for render::ToolDetail {
    fn from(arg: ToolsArg) -> Self {
        match arg {
            ToolsArg::Full => Self::Full,
            ToolsArg::Brief => Self::Brief,
            ToolsArg::None => Self::None,
        }
    }
}

/// Notes that the client would not continue at the end of the shown path.
fn print_resume_point(loaded: &LoadedTranscript, terminal: &Terminal) {
    if let Some(line) = loaded.resume_line {
        terminal.print_note(&format!(
            "the client would resume at line {line}, not at the end of this conversation (`rethread check` shows what would be lost)"
        ));
    }
}

/// Words the refusal of an anchor or a uuid with `--removed`.
fn not_a_number(name: &MessageName) -> Failure {
    Failure::new(format!("{name} is not the number of a message"))
        .kind(FailureKind::InvalidValue)
        .hint("with --removed, messages have the numbers of the session that this one was cloned from")
}

/// The number of uuids that a hint lists.
const MAX_CANDIDATES: usize = 4;

/// Words an error.
fn failure(error: TranscriptError, args: &ShowArgs) -> Failure {
    let hint = match &error {
        TranscriptError::NoPath { paths, .. } => {
            format!("paths are numbered from 1 to {paths}; `rethread tree` draws them")
        }
        TranscriptError::NoMessage { name, messages } if name.is_numeric() => {
            format!("messages are numbered from 1 to {messages}")
        }
        TranscriptError::NoMessage { .. } => {
            "a message is named by its number, its anchor, or a uuid or the beginning of it".to_owned()
        }
        TranscriptError::AmbiguousMessage { candidates, .. } => {
            let shown = candidates.iter().take(MAX_CANDIDATES).map(|(uuid, n)| format!("{uuid} (#{n})"));
            shown.collect::<Vec<_>>().join(", ")
        }
        TranscriptError::NotInTurns { .. } => "omit --turns to show it".to_owned(),
        TranscriptError::NotOnPath { .. } => "omit --path to show a path that contains it".to_owned(),
        TranscriptError::NotOnAnyPath { .. } => {
            "it belongs to a subagent, which `rethread export` shows under its call, or to a branch of commands and notes".to_owned()
        }
        TranscriptError::NotKept => {
            return Failure::new("content removed from this session was not kept")
                .kind(FailureKind::NotFound)
                .hint("`rethread clone --keep-removed` keeps it");
        }
        TranscriptError::NotRemoved { .. } => {
            "message numbers are those of the session that this one was cloned from".to_owned()
        }
        TranscriptError::NoTurns { turns } => {
            let range = args.turns.as_deref().unwrap_or_default();
            return Failure::new(format!("no turns in range `{range}`"))
                .kind(FailureKind::NotFound)
                .with("turns", (*turns).into())
                .hint(format!("this path has {turns} turns"));
        }
        _ => {
            return match error {
                TranscriptError::Session(error) => error.into(),
                error => Failure::new(error.to_string()),
            };
        }
    };
    let failure = Failure::new(error.to_string()).kind(FailureKind::NotFound).hint(hint);
    match &error {
        TranscriptError::NoPath { paths, .. } => failure.with("paths", (*paths).into()),
        TranscriptError::NoMessage { messages, .. } => failure.with("messages", (*messages).into()),
        TranscriptError::AmbiguousMessage { candidates, .. } => {
            let row = |(uuid, n): &(String, MessageNo)| json!({ "uuid": uuid, "message": n.get() });
            failure.kind(FailureKind::Ambiguous).with("candidates", candidates.iter().map(row).collect())
        }
        TranscriptError::NotInTurns { .. } => failure.kind(FailureKind::InvalidValue),
        _ => failure,
    }
}

/// Parses `3`, `2..5`, `4..`, `..2` or `-3..`.
fn parse_turns(text: &str) -> Result<TurnRange, Failure> {
    let invalid = || {
        Failure::new(format!("invalid turn range `{text}`"))
            .kind(FailureKind::InvalidValue)
            .hint("try `3`, `2..5`, `4..`, `..2` or `-3..`")
    };
    let bound = |text: &str| match text.parse::<i64>() {
        Ok(0) | Err(_) => Err(invalid()),
        Ok(n) => {
            let turn = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
            Ok(if n > 0 { TurnBound::FromStart(turn) } else { TurnBound::FromEnd(turn) })
        }
    };
    let optional = |text: &str| if text.is_empty() { Ok(None) } else { bound(text).map(Some) };
    match text.split_once("..") {
        Some((first, last)) => {
            Ok(TurnRange { first: optional(first)?, last: optional(last.trim_start_matches('='))? })
        }
        None => bound(text).map(|turn| TurnRange { first: Some(turn), last: Some(turn) }),
    }
}
