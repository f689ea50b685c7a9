//! `clone`: makes a new session from another.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rethread::{
    CloneOptions, CloneWarning, Cloned, CompressOptions, Holder, Preset, Recipe, Summariser, ToolRecipe,
};
use rethread_render::{self as render, BytesByKind, CloneRow, RemovedCounts, TokenSources};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::show::message_number;
use crate::commands::{json_line, library, writable_library};
use crate::failure::Failure;
use crate::resume_command::ResumeCommand;
use crate::scope::find_one;
use crate::terminal::Terminal;

/// Create a new session from another: a copy, a single branch, or a lighter or condensed version
///
/// Without options, the clone differs from its source only in its ids, byte for byte. The source is never
/// modified. Options can be combined; the result is checked against the rules of every known client.
///
/// Data that belongs to the session is copied too: subagents and large tool results of the entries that
/// are kept, title, tags and modes.
#[derive(Debug, clap::Args)]
pub(crate) struct CloneArgs {
    /// The session; defaults to the newest one of the current directory's project, or of all
    #[arg(value_name = "SESSION")]
    session: Option<OsString>,

    /// Keep only path N of `rethread tree`, for example to undo a rewind
    #[arg(long, visible_alias = "branch", value_name = "N", value_parser = path_number, allow_negative_numbers = true, help_heading = "Selection")]
    path: Option<usize>,

    /// Keep only the path to this message, including the results of its tool calls
    #[arg(long, value_name = "MESSAGE", value_parser = message_number, help_heading = "Selection")]
    until: Option<usize>,

    /// Remove tool calls and their results: all, or those of the named tools (--strip-tools=Bash,Read)
    ///
    /// Separate several names with commas; a name may end in `*`. Thinking that follows a removed call is
    /// removed too, because the API no longer accepts it.
    #[arg(
        long,
        value_name = "NAME,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        value_parser = tool_names,
        help_heading = "Removal"
    )]
    strip_tools: Option<ToolNames>,

    /// Keep the last N turns with tool calls unchanged; without other options, remove older tool calls
    #[arg(long, value_name = "N", help_heading = "Removal")]
    keep_tools: Option<usize>,

    /// Shorten strings in tool calls and results to CHARS characters and mark the cuts
    ///
    /// The beginning and the end are kept. Images, documents and ids are not shortened.
    #[arg(long, value_name = "CHARS", help_heading = "Removal")]
    shorten_tools: Option<usize>,

    /// Remove all thinking
    #[arg(long, help_heading = "Removal")]
    strip_thinking: bool,

    /// Shorten tool calls to 2000 characters, except in the last 20 turns with tool calls
    #[arg(long, group = "preset", help_heading = "Removal")]
    light: bool,

    /// Shorten tool calls to 400 characters, except in the last 10 turns with tool calls
    #[arg(long, group = "preset", help_heading = "Removal")]
    standard: bool,

    /// Remove tool calls, except in the last 5 turns with tool calls
    #[arg(long, group = "preset", help_heading = "Removal")]
    heavy: bool,

    /// Remove all tool calls and all thinking
    #[arg(long, group = "preset", help_heading = "Removal")]
    extreme: bool,

    /// Condense all but the last KEEP_TURNS turns (default 5) into a summary that clients treat as a
    /// compaction
    ///
    /// Prompts are kept in full. Answers are summarised by rules, without a model: the most informative
    /// sentences, the files that were changed, and the commands with their outcome.
    #[arg(
        long,
        value_name = "KEEP_TURNS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        help_heading = "Condensing"
    )]
    compress: Option<usize>,

    /// Approximate token limit for all summaries together
    #[arg(long, value_name = "TOKENS", default_value_t = CompressOptions::BUDGET, requires = "compress", help_heading = "Condensing")]
    budget: usize,

    /// Let CMD write the summaries; it reads one turn from its standard input
    ///
    /// If it fails or takes too long, the built-in summary is used.
    #[arg(long, value_name = "CMD", requires = "compress", help_heading = "Condensing")]
    summarise_with: Option<String>,

    /// Time limit of CMD per turn
    #[arg(long, value_name = "SECONDS", default_value_t = Summariser::TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(1..), requires = "summarise_with", help_heading = "Condensing")]
    summarise_timeout: u64,

    /// Keep entry ids, as `claude --fork-session` does
    #[arg(long, help_heading = "Output")]
    keep_ids: bool,

    /// Keep removed content in a file next to the clone; `rethread show --removed` reads it
    #[arg(long, help_heading = "Output")]
    keep_removed: bool,

    /// Copy file snapshots and their backups, so that the clone can undo file changes
    ///
    /// An unmodified clone always includes them.
    #[arg(long, help_heading = "Output")]
    file_history: bool,

    /// Write the clone to the project of DIR
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    to: Option<PathBuf>,

    /// Set the title of the clone
    #[arg(long, value_name = "TITLE", value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "Output")]
    title: Option<String>,

    /// Show what would change, without writing anything
    #[arg(long, short = 'n', help_heading = "Output")]
    dry_run: bool,
}

/// Tool names; empty means all tools.
#[derive(Debug, Clone)]
struct ToolNames(Vec<String>);

fn tool_names(text: &str) -> Result<ToolNames, &'static str> {
    let names: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match names.is_empty() {
        true => Err("no tool name given; --strip-tools without a value removes all calls"),
        false if text == "*" => Ok(ToolNames(Vec::new())),
        false => Ok(ToolNames(names)),
    }
}

fn path_number(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|&n| n > 0).ok_or("paths are numbered from 1; `rethread tree` shows them")
}

pub(crate) fn run(
    args: &CloneArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = if args.dry_run { library(global) } else { writable_library(global, terminal)? };
    let source = find_one(&library, args.session.as_deref(), terminal)?;
    let options = options(args, terminal);
    let cloned = library.clone_session(&source, &options)?;
    let row = clone_row(&cloned);
    let mut out = terminal.output();
    if global.json {
        json_line(&mut out, &row)?;
    } else {
        let resume = resume_command(&cloned).map(|command| command.advice(&library, &terminal.stdout));
        render::write_clone(&mut out, &row, args.dry_run, resume.as_deref(), &terminal.stdout)?;
    }
    out.finish()?;
    if !global.json {
        if args.dry_run {
            terminal.print_note("nothing was written (--dry-run)");
        }
        for warning in &row.warnings {
            terminal.print_note(&format!("note: {warning}"));
        }
    }
    Ok(CommandOutcome::Success)
}

/// Returns the command that resumes a clone, if clients find it.
fn resume_command(cloned: &Cloned) -> Option<ResumeCommand> {
    let session = cloned.session.as_ref()?;
    ResumeCommand::for_log(&session.path, &session.id, cloned.resume_dir.clone())
}

/// Describes a clone for the user.
fn clone_row(cloned: &Cloned) -> CloneRow {
    let Cloned { before, after, .. } = cloned;
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let session = cloned.session.as_ref();
    CloneRow {
        r#type: "clone",
        id: session.map(|session| session.id.to_string()),
        path: session.map(|session| text(&session.path)),
        bytes_before: before.bytes,
        bytes_after: after.bytes,
        tokens_before: before.context.tokens,
        tokens_after: after.context.tokens,
        tokens_by: TokenSources {
            before: before.context.measure.name(),
            after: after.context.measure.name(),
        },
        turns: cloned.turns as u64,
        removed: RemovedCounts::from(&cloned.removed),
        bytes_by: BytesByKind::compare(&before.content, &after.content),
        subagents: session.map(|session| session.subagents),
        tool_results: session.map(|session| session.tool_results),
        removed_file: session.and_then(|session| session.removed_entries.as_deref()).map(text),
        warnings: cloned.warnings.iter().map(warning_text).collect(),
        cwd: cloned.resume_dir.as_deref().map(text),
        resume: session.map(|session| format!("claude --resume {}", render::shell_word(session.id.as_str()))),
        source: cloned.source.to_string(),
    }
}

/// Words a warning.
fn warning_text(warning: &CloneWarning) -> String {
    match warning {
        CloneWarning::SummariserFailed { turns, of, first } => format!(
            "the command failed for {turns} of {of} turns, which have built-in summaries instead: {first}"
        ),
        CloneWarning::Repaired => "the session had defects; the clone was repaired".into(),
        CloneWarning::Problem(finding) => {
            let hint = if finding.kind.is_repairable() { " (`rethread repair` repairs it)" } else { "" };
            format!("`rethread check` reports a problem in the clone: {}{hint}", finding.detail)
        }
        CloneWarning::NothingRemoved => "nothing was removed, so there is nothing to keep".into(),
        CloneWarning::TornLine => "the last line was only partly written and is not in the clone".into(),
        CloneWarning::SourceOpen(holder) => {
            let open = match holder {
                Holder::Client { pid, .. } => format!("is open in a client (process {pid})"),
                _ => "may be open in a client".to_owned(),
            };
            format!("the session {open}: the clone contains what was written so far")
        }
        CloneWarning::OutsideConfigDir => {
            "the clone is outside the config directories, so clients do not find it (--to DIR writes it to a project)"
                .into()
        }
        CloneWarning::IndexNotUpdated(error) => format!("sessions-index.json was not updated: {error}"),
        warning => effect_text(warning),
    }
}

/// Words a warning about an effect of the recipe.
fn effect_text(warning: &CloneWarning) -> String {
    match warning {
        CloneWarning::UnreadableLines(n) => {
            count(*n, "unreadable line is", "unreadable lines are") + " not in the clone"
        }
        CloneWarning::RepairedEntries(n) => {
            count(*n, "entry was", "entries were") + " repaired so that every client accepts the clone"
        }
        CloneWarning::AddedEntries(n) => {
            let kinds = [
                (n.results, "missing result", "missing results"),
                (n.beginnings, "beginning", "beginnings"),
                (n.answers, "answer to the last prompt", "answers to last prompts"),
                (n.ends, "end marker", "end markers"),
            ];
            let kinds = kinds.into_iter().filter(|(n, ..)| *n > 0).map(|(n, one, many)| count(n, one, many));
            let kinds = kinds.collect::<Vec<_>>().join(", ");
            count(n.total(), "entry was", "entries were")
                + " added so that every client accepts the clone: "
                + &kinds
        }
        CloneWarning::UnknownTools { named, called } => {
            let calls = if called.is_empty() { "no tools".to_owned() } else { called.join(", ") };
            format!("the session does not call {}; it calls {calls}", named.join(", "))
        }
        CloneWarning::ThinkingInvalidated => {
            "thinking after removed or shortened calls was removed too: it is no longer valid".into()
        }
        CloneWarning::OtherPaths(n) => {
            count(*n as u64, "other path is", "other paths are") + " not in the clone"
        }
        CloneWarning::NoFileHistory => {
            "file snapshots are not copied: the clone cannot undo file changes (--file-history copies them)"
                .into()
        }
        CloneWarning::SourceUsage { corrected } => {
            let but = if *corrected { ", except for the context size of the last answer" } else { "" };
            format!("the usage recorded in the clone is that of the source{but}")
        }
        CloneWarning::TurnsWithoutSummary(n) => {
            let turns = count(*n as u64, "turn has", "turns have");
            format!("the oldest {turns} no summary, only the prompt (a larger --budget includes one)")
        }
        CloneWarning::SummariesCut(n) => {
            count(*n as u64, "summary was", "summaries were") + " cut to fit --budget"
        }
        CloneWarning::NothingToCondense => "there are no older turns to condense".into(),
        CloneWarning::NothingToRemove => {
            "nothing was removed: the options apply to no tool call and no thinking of this session; --keep-tools sets how many turns are kept unchanged".into()
        }
        // A warning of a newer library.
        other => format!("{other:?}"),
    }
}

fn count(n: u64, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}

fn options(args: &CloneArgs, terminal: &Terminal) -> CloneOptions {
    let mut recipe = Recipe {
        path: args.path,
        until: args.until,
        tools: ToolRecipe {
            strip: args.strip_tools.as_ref().map(|names| names.0.clone()),
            keep: args.keep_tools,
            shorten: args.shorten_tools,
        },
        strip_thinking: args.strip_thinking,
        end: None,
        compress: args.compress.map(|keep| CompressOptions {
            keep,
            budget: args.budget,
            ..CompressOptions::default()
        }),
        title: args.title.clone(),
        file_history: args.file_history,
    };
    let presets = [args.light, args.standard, args.heavy, args.extreme];
    for (preset, _) in Preset::ALL.iter().zip(presets).filter(|(_, chosen)| *chosen) {
        preset.add_to(&mut recipe);
    }
    CloneOptions {
        recipe,
        keep_ids: args.keep_ids,
        keep_removed: args.keep_removed,
        show_removed_command: Some(|id| format!("rethread show {id} --removed --at N")),
        to: args.to.clone(),
        dry_run: args.dry_run,
        summariser: args.summarise_with.clone().map(|command| Summariser {
            command,
            timeout: Duration::from_secs(args.summarise_timeout),
            jobs: Summariser::DEFAULT_JOBS,
            on_progress: if terminal.is_interactive() { print_summary_progress } else { |_, _| {} },
        }),
    }
}

/// Shows the progress of summaries, repeatedly on one line.
#[expect(clippy::print_stderr, reason = "progress on a terminal")]
fn print_summary_progress(done: usize, of: usize) {
    eprint!("\rsummarising: {done} of {of} turns{}", if done == of { "\n" } else { "" });
}
