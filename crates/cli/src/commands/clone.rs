//! `clone`: a session made into another.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rethread::edit::{CompressOptions, Preset, Recipe, ToolRecipe};
use rethread::render;
use rethread::{CloneOptions, Summariser};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::show::message_number;
use crate::commands::{find_one, json_line, library};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Make a new session from one: a copy, one branch, a lighter or a condensed one
///
/// Without options the clone is the session with new ids and nothing else changed, byte for byte. The
/// source is never written to. Options can be combined; the result is checked for every client we know.
///
/// What belongs to the session comes along: the subagents and large results of what is kept, its title,
/// tags and modes.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct CloneArgs {
    /// The session
    #[arg(value_name = "SESSION")]
    session: OsString,

    /// Only path N of `rethread tree`: the undo for a rewind
    #[arg(long, value_name = "N", value_parser = path_number, allow_negative_numbers = true, help_heading = "Which part")]
    path: Option<usize>,

    /// Only what leads to this message, and the message with the results of its calls
    #[arg(long, value_name = "MESSAGE", value_parser = message_number, help_heading = "Which part")]
    until: Option<usize>,

    /// Remove tool calls with their results: all, or those of the tools named (--strip-tools=Bash,Read)
    ///
    /// Several names are separated by commas; a name may end in `*`. Thinking that follows a removed
    /// call goes too: to the API it would not be valid any more.
    #[arg(
        long,
        value_name = "NAME,…",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "*",
        value_parser = tool_names,
        help_heading = "What to leave out"
    )]
    strip_tools: Option<ToolNames>,

    /// Leave the last N turns that have tool calls as they are; without other options, remove the older
    #[arg(long, value_name = "N", help_heading = "What to leave out")]
    keep_tools: Option<usize>,

    /// Shorten strings in tool calls and results to CHARS characters, with a mark where they were cut
    ///
    /// The beginning and the end stay. Pictures, documents and ids are left alone.
    #[arg(long, value_name = "CHARS", help_heading = "What to leave out")]
    shorten_tools: Option<usize>,

    /// Remove all thinking
    #[arg(long, help_heading = "What to leave out")]
    strip_thinking: bool,

    /// Shorten tool calls before the last 20 turns that have any to 2000 characters
    #[arg(long, group = "preset", help_heading = "What to leave out")]
    light: bool,

    /// Shorten tool calls before the last 10 turns that have any to 400 characters
    #[arg(long, group = "preset", help_heading = "What to leave out")]
    standard: bool,

    /// Remove tool calls before the last 5 turns that have any
    #[arg(long, group = "preset", help_heading = "What to leave out")]
    heavy: bool,

    /// Remove all tool calls and all thinking
    #[arg(long, group = "preset", help_heading = "What to leave out")]
    extreme: bool,

    /// Condense all but the last turns (--compress=10; 5 if none are named) into a summary that clients
    /// take for a compaction
    ///
    /// What the user wrote stands in full. What was said and done in answer is summed up by rules,
    /// without any model: the sentences that say most, the files that were changed, the commands and
    /// how they ended.
    #[arg(
        long,
        value_name = "KEEP_TURNS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "5",
        help_heading = "Condensing"
    )]
    compress: Option<usize>,

    /// About how many tokens the summaries of all answers may have together
    #[arg(long, value_name = "TOKENS", default_value_t = CompressOptions::BUDGET, requires = "compress", help_heading = "Condensing")]
    budget: usize,

    /// Let CMD write the summaries: it gets a turn on its standard input
    ///
    /// Where it fails or takes too long, our own summary stands.
    #[arg(long, value_name = "CMD", requires = "compress", help_heading = "Condensing")]
    summarise_with: Option<String>,

    /// How long CMD may take for one turn
    #[arg(long, value_name = "SECONDS", default_value_t = Summariser::TIMEOUT.as_secs(), value_parser = clap::value_parser!(u64).range(1..), requires = "summarise_with", help_heading = "Condensing")]
    summarise_timeout: u64,

    /// Keep the ids of entries, as `claude --fork-session` does
    #[arg(long, help_heading = "The result")]
    keep_ids: bool,

    /// Keep what is left out in a file beside the clone; `rethread show --removed` reads it
    #[arg(long, help_heading = "The result")]
    keep_removed: bool,

    /// Carry the snapshots of files and their backups, so that the clone can undo changes to files
    ///
    /// A clone without any change has them always.
    #[arg(long, help_heading = "The result")]
    file_history: bool,

    /// Put the clone into the project of DIR
    #[arg(long, value_name = "DIR", help_heading = "The result")]
    to: Option<PathBuf>,

    /// Give the clone a title
    #[arg(long, value_name = "TITLE", value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "The result")]
    title: Option<String>,

    /// Show what would become of it, and write nothing
    #[arg(long, short = 'n', help_heading = "The result")]
    dry_run: bool,
}

/// Names of tools; none means all.
#[derive(Debug, Clone)]
struct ToolNames(Vec<String>);

fn tool_names(text: &str) -> Result<ToolNames, &'static str> {
    let names: Vec<String> =
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match names.is_empty() {
        true => Err("no tool is named; --strip-tools alone removes all calls"),
        false if text == "*" => Ok(ToolNames(Vec::new())),
        false => Ok(ToolNames(names)),
    }
}

fn path_number(text: &str) -> Result<usize, &'static str> {
    text.parse().ok().filter(|&n| n > 0).ok_or("paths are numbered from 1; `rethread tree` shows them")
}

const AFTER: &str = "\
Examples:
  rethread clone last                       a copy under a new id
  rethread clone 3f2a --path 2              the branch that was left, as a session of its own
  rethread clone 3f2a --until 40            go back to message 40
  rethread clone 3f2a --heavy --dry-run     what would a lighter one save?
  rethread clone 3f2a --compress=10 --keep-removed
  rethread clone 3f2a --compress --summarise-with 'llm -s \"Sum this turn up in five lines\"'";

pub(crate) fn run(
    args: &CloneArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let library = library(global);
    let source = find_one(&library, &args.session)?;
    if library.is_demo() && !args.dry_run {
        return Err(Failure::new("the sample is not on disk, so there is no place for a clone of it")
            .hint("--dry-run shows what a clone would be"));
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

/// Says how far the summaries are, over and over on one line.
#[expect(clippy::print_stderr, reason = "progress on a terminal")]
fn print_summary_progress(done: usize, of: usize) {
    eprint!("\rsumming up: {done} of {of} turns{}", if done == of { "\n" } else { "" });
}
