//! `clone`: makes a new session from another.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rethread::{CloneOptions, Summariser};
use rethread::{CompressOptions, Preset, Recipe, ToolRecipe};
use rethread_render as render;

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::show::message_number;
use crate::commands::{find_one, json_line, library};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Create a new session from another: a copy, a single branch, or a lighter or condensed version
///
/// Without options, the clone differs from its source only in its ids, byte for byte. The source is never
/// modified. Options can be combined; the result is checked against the rules of every known client.
///
/// Data that belongs to the session is copied too: subagents and large tool results of the entries that
/// are kept, title, tags and modes.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct CloneArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: OsString,

    /// Keep only path N of `rethread tree`, for example to undo a rewind
    #[arg(long, value_name = "N", value_parser = path_number, allow_negative_numbers = true, help_heading = "Selection")]
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

const AFTER: &str = "\
Examples:
  rethread clone last                       a copy with a new id
  rethread clone 3f2a --path 2              an abandoned branch as a separate session
  rethread clone 3f2a --until 40            go back to message 40
  rethread clone 3f2a --heavy --dry-run     how much would a lighter clone save?
  rethread clone 3f2a --compress=10 --keep-removed
  rethread clone 3f2a --compress --summarise-with 'llm -s \"Summarise this turn in five lines\"'";

pub(crate) fn run(
    args: &CloneArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let source = find_one(&library, &args.session)?;
    if library.is_demo() && !args.dry_run {
        return Err(Failure::new("the built-in sample sessions cannot be cloned to disk")
            .hint("--dry-run shows what the clone would contain"));
    }
    let options = options(args, terminal);
    let row = library.clone_session(&source, &options)?;
    let mut out = terminal.output();
    if global.json {
        json_line(&mut out, &row)?;
    } else {
        render::write_clone(&mut out, &row, args.dry_run, &terminal.stdout)?;
    }
    out.finish()?;
    if !global.json {
        for warning in &row.warnings {
            terminal.print_note(&format!("note: {warning}"));
        }
    }
    Ok(CommandOutcome::Success)
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
