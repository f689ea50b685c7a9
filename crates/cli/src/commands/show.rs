//! `show`: a conversation in the terminal.

use std::ffi::OsString;
use std::io::{self, Write};

use rethread::{
    Library, LoadedTranscript, LogSource, MessageEvent, MessageNo, NoteEvent, Transcript, TranscriptError,
    TranscriptHeader, TranscriptOptions, TranscriptPath, TranscriptSubagent, TranscriptWriter, TurnBound,
    TurnRange, VisibleContent, VisibleThinking, Visit,
};
use rethread_render::{self as render, MessageRow, NextStep, NoteRow, ShowOptions};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, library};
use crate::failure::Failure;
use crate::resume_command::{ResumeCommand, not_resumable};
use crate::scope::find_one;
use crate::terminal::Terminal;
use crate::wording::command_on;

/// Show the conversation of a session
///
/// Prints the path that the client would resume. If that path contains only local commands, the
/// conversation is shown instead, with a note. `rethread tree` lists the other paths. Compactions appear
/// where they happened, tool results under their calls. #12 is message 12: message numbers never change
/// and can be passed to --at.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Show path N of `rethread tree`
    #[arg(long, visible_alias = "branch", value_name = "N")]
    path: Option<usize>,

    /// Start at this message, on a path that contains it
    #[arg(long, value_name = "MESSAGE", value_parser = message_number)]
    at: Option<usize>,

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
    #[arg(long, conflicts_with_all = ["path", "turns"])]
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
    let from = args.at.map(existing_number).transpose()?;
    let content = VisibleContent {
        thinking: if args.thinking { VisibleThinking::All } else { VisibleThinking::Hidden },
        tools: !matches!(args.tools, ToolsArg::None),
        images: true,
    };
    let loaded = if args.removed {
        library.removed_transcript(&source, from, content)
    } else {
        let options = TranscriptOptions {
            path: args.path.map_or(TranscriptPath::Main, TranscriptPath::Number),
            turns: args.turns.as_deref().map(parse_turns).transpose()?,
            from,
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
    let mut out = terminal.output();
    let transcript = loaded.transcript();
    if global.json {
        transcript.walk(&mut RowWriter { out: &mut out, transcript: &transcript })?;
    } else {
        let is_own = !args.removed && !global.demo;
        let next =
            is_own.then(|| next_step(&source, &loaded, &transcript.header, &library, global, terminal));
        let next = next.flatten();
        let options = ShowOptions { tools: args.tools.into(), subagent: &describe_subagent, next };
        render::write_conversation(&mut out, &transcript, &options, &terminal.stdout)?;
    }
    out.finish()?;
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

/// Converts the number of a message. No session has message 0, or one of more than 32 bits.
fn existing_number(n: usize) -> Result<MessageNo, Failure> {
    let number = u32::try_from(n).ok().and_then(MessageNo::new);
    number.ok_or_else(|| Failure::new(format!("no message {n}")).hint("messages are numbered from 1"))
}

/// Writes a transcript as one JSON object per message and note.
struct RowWriter<'a, W> {
    out: &'a mut W,
    transcript: &'a Transcript<'a>,
}

impl<W: Write> TranscriptWriter for RowWriter<'_, W> {
    fn raw_message(&mut self, event: &MessageEvent<'_>) -> io::Result<Visit> {
        let mut row = MessageRow::from(event.message);
        let own = self.transcript.parts.last().map(|part| part.session);
        row.session = Some(event.session()).filter(|id| Some(*id) != own).map(str::to_owned);
        json_line(self.out, &row)?;
        Ok(Visit::Skip)
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        json_line(self.out, &NoteRow::from(event.note))
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        self.note(event)
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

/// Returns the command that continues the shown path: a client resumes the active one, a clone any other.
fn next_step(
    source: &LogSource,
    loaded: &LoadedTranscript,
    header: &TranscriptHeader,
    library: &Library,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Option<NextStep> {
    let id = source.file.id.as_str().into();
    let resume = ResumeCommand::for_log(&source.file.path, &id, loaded.resume_dir.clone());
    let resume = resume.filter(|_| !source.file.is_subagent)?;
    if !header.active {
        let clone = command_on("clone", &resume.id, &source.file.path, library, global);
        let clone = format!("{clone} --path {}", header.path_n);
        return Some(NextStep { label: "clone", commands: vec![clone] });
    }
    if let Err(failure) = resume.existing_dir(library) {
        terminal.print_note(&not_resumable(&failure));
        return None;
    }
    let enter = resume.dir.as_ref().map(|dir| format!("cd {}", render::shell_word(&dir.to_string_lossy())));
    let client = ResumeCommand { dir: None, ..resume }.to_string();
    Some(NextStep { label: "resume", commands: enter.into_iter().chain([client]).collect() })
}

/// Describes a subagent under the call that started it.
fn describe_subagent(subagent: &TranscriptSubagent<'_>) -> String {
    match &subagent.log {
        Some(path) => format!("subagent: rethread show {}", render::shell_word(&path.to_string_lossy())),
        None => "subagent, in this file".to_owned(),
    }
}

/// Words an error.
fn failure(error: TranscriptError, args: &ShowArgs) -> Failure {
    let hint = match &error {
        TranscriptError::NoPath { paths, .. } => {
            format!("paths are numbered from 1 to {paths}; `rethread tree` draws them")
        }
        TranscriptError::NoMessage { messages, .. } => format!("messages are numbered from 1 to {messages}"),
        TranscriptError::NotInTurns { .. } => "omit --turns to show it".to_owned(),
        TranscriptError::NotOnPath { .. } => "omit --path to show a path that contains it".to_owned(),
        TranscriptError::NotOnAnyPath { .. } => {
            "it belongs to a subagent, or to a branch that contains only commands and notes".to_owned()
        }
        TranscriptError::NotKept => {
            return Failure::new("content removed from this session was not kept")
                .hint("`rethread clone --keep-removed` keeps it");
        }
        TranscriptError::NotRemoved { .. } => {
            "message numbers are those of the session that this one was cloned from".to_owned()
        }
        TranscriptError::NoTurns { turns } => {
            let range = args.turns.as_deref().unwrap_or_default();
            return Failure::new(format!("no turns in range `{range}`"))
                .hint(format!("this path has {turns} turns"));
        }
        _ => {
            return match error {
                TranscriptError::Session(error) => error.into(),
                error => Failure::new(error.to_string()),
            };
        }
    };
    Failure::new(error.to_string()).hint(hint)
}

/// Parses `3`, `2..5`, `4..`, `..2` or `-3..`.
fn parse_turns(text: &str) -> Result<TurnRange, Failure> {
    let invalid = || {
        Failure::new(format!("invalid turn range `{text}`")).hint("try `3`, `2..5`, `4..`, `..2` or `-3..`")
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
