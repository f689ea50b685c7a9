//! `export`: conversations as documents.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

use rethread::{
    Client, ExportOptions, ExportStatus, Exported, ExportedFile, ExportedSubagent, ExportedTranscript,
    PathChoice,
};
use rethread_render::{self as render, Style, SubagentRow, TranscriptRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_line, library, ls, selectors};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Write transcripts of sessions to a directory
///
/// Writes one document per path of every session, for active paths and for paths abandoned by a rewind.
/// Compactions appear where they happened, tool results and subagents under their calls. A path that
/// continues another file starts with the messages of that file.
///
/// Resuming and forking leave paths whose messages are all contained in another path. They are skipped
/// and reported together with the path that contains them. A second run writes only what has changed.
/// Files written by other programs are never overwritten.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(crate) struct ExportArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project, or to all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Output directory
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "md")]
    format: FormatArg,

    /// Paths to export: `all`, `active`, or a path number from `rethread tree`
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = parse_path_choice)]
    path: PathChoice,

    /// Also write copies: paths whose messages are all contained in another path
    #[arg(long)]
    all_copies: bool,

    /// The part of abandoned paths to write
    #[arg(long, value_name = "HOW", default_value = "full")]
    branches: BranchesArg,

    /// Include all projects, not only the current directory's
    #[arg(long, short)]
    all: bool,

    /// Omit images
    #[arg(long)]
    no_images: bool,

    /// Omit thinking
    #[arg(long)]
    no_thinking: bool,

    /// Mark the path that this client version would resume, instead of the newest known version
    #[arg(long, value_name = "VERSION")]
    client: Option<String>,

    /// Write next to other files in the directory, and overwrite documents that were edited by hand
    #[arg(long)]
    force: bool,
}

const AFTER: &str = "\
Examples:
  rethread export last -o notes                      the newest session, as Markdown
  rethread export --all -f html -o ~/transcripts     everything, as web pages with an index
  rethread export 3f2a --path active -f json -o out  the active path as JSON";

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FormatArg {
    /// GitHub-flavoured Markdown
    Md,
    /// A self-contained web page
    Html,
    /// JSON
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum BranchesArg {
    /// From the beginning
    Full,
    /// From the fork, with a link to the earlier messages
    Fork,
}

fn parse_path_choice(text: &str) -> Result<PathChoice, String> {
    match text {
        "all" => Ok(PathChoice::All),
        "active" => Ok(PathChoice::Active),
        _ => match text.parse() {
            Ok(n) if n > 0 => Ok(PathChoice::Number(n)),
            _ => Err("expected `all`, `active` or a path number such as 2".to_owned()),
        },
    }
}

pub(crate) fn run(
    args: &ExportArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let (client, note) = client(args.client.as_deref())?;
    if let Some(note) = note {
        terminal.print_note(&note);
    }
    let library = library(global);
    let here = if args.all || !args.sessions.is_empty() { None } else { ls::current_project_dir(&library) };
    let sources = library.select(&selectors(&args.sessions)?, here)?;
    if sources.is_empty() {
        terminal.print_note("no sessions to export; `rethread ls --all` lists all sessions");
        return Ok(CommandOutcome::Negative);
    }
    let options = export_options(args, client);
    // Every session is read, and then written.
    let progress = terminal.progress(|| 2 * sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let exported = library.with_progress(progress.observer()).export(sources, &args.output, &options);
    drop(progress);
    let mut exported = exported?;
    let mut errors = std::mem::take(&mut exported.errors);
    if exported.transcripts.is_empty() && errors.len() == 1 {
        return Err(errors.remove(0).into());
    }
    let failed = errors.len();
    for error in errors {
        terminal.warn(&error.into());
    }
    let mut out = terminal.output();
    if global.json {
        for transcript in &exported.transcripts {
            json_line(&mut out, &transcript_row(transcript))?;
        }
        for subagent in &exported.subagents {
            json_line(&mut out, &subagent_row(subagent))?;
        }
    } else {
        write_summary(&mut out, &exported, terminal)?;
    }
    out.finish()?;
    if failed > 0 {
        return Err(Failure::new(format!(
            "{} could not be exported; the rest was written",
            count(failed, "item")
        )));
    }
    let nothing = exported.transcripts.is_empty() && exported.subagents.is_empty();
    if nothing { Ok(CommandOutcome::Negative) } else { Ok(CommandOutcome::Success) }
}

fn export_options(args: &ExportArgs, client: Client) -> ExportOptions {
    ExportOptions {
        format: match args.format {
            FormatArg::Md => rethread::Format::Md,
            FormatArg::Html => rethread::Format::Html,
            FormatArg::Json => rethread::Format::Json,
        },
        paths: args.path,
        all_copies: args.all_copies,
        from_fork: args.branches == BranchesArg::Fork,
        images: !args.no_images,
        thinking: !args.no_thinking,
        client,
        force: args.force,
    }
}

fn transcript_row(transcript: &ExportedTranscript) -> TranscriptRow {
    let file = transcript.file();
    let has_status = |status| file.is_some_and(|file: &ExportedFile| file.status == status);
    TranscriptRow {
        r#type: "transcript",
        session: transcript.session.to_string(),
        path_n: transcript.path_n,
        paths: transcript.paths,
        status: if transcript.active { "active" } else { "abandoned" },
        title: transcript.title.clone(),
        file: file.map(|file| file.path.to_string_lossy().into_owned()),
        messages: transcript.messages,
        unchanged: has_status(ExportStatus::Unchanged),
        refused: has_status(ExportStatus::Refused),
        skipped_as: transcript.contained_in().map(|file| file.to_string_lossy().into_owned()),
    }
}

fn subagent_row(subagent: &ExportedSubagent) -> SubagentRow {
    SubagentRow {
        r#type: "subagent",
        session: subagent.session.to_string(),
        agent: subagent.name.clone(),
        file: subagent.file.path.to_string_lossy().into_owned(),
        unchanged: subagent.file.status == ExportStatus::Unchanged,
    }
}

fn count(n: usize, word: &str) -> String {
    format!("{} {word}{}", render::format_count(n as u64), if n == 1 { "" } else { "s" })
}

/// Writes what was written, what was skipped, and the path to open.
fn write_summary(out: &mut impl Write, exported: &Exported, terminal: &Terminal) -> Result<(), Failure> {
    let look = &terminal.stdout;
    let name = |path: &Path| {
        let name = path.strip_prefix(&exported.dir).unwrap_or(path);
        look.sanitize_line(&name.display().to_string())
    };
    const MANY: usize = 20;
    let written: Vec<_> =
        exported.transcripts.iter().filter_map(|transcript| Some((transcript, transcript.file()?))).collect();
    if written.len() <= MANY {
        for (transcript, file) in &written {
            let file = name(&file.path);
            let title = look.truncate(&look.sanitize_line(&transcript.title), file.len() + 2);
            let title = if title.is_empty() { title } else { look.paint(Style::Dim, format!("  {title}")) };
            writeln!(out, "{file}{title}")?;
        }
    }
    let copies: Vec<_> = exported.transcripts.iter().filter(|row| row.file().is_none()).collect();
    if copies.len() <= MANY {
        for copy in &copies {
            let held = copy.contained_in().map(name).unwrap_or_default();
            let path = if copy.paths > 1 { format!(" path {}", copy.path_n) } else { String::new() };
            let text =
                format!("skipped: {}{path}, contained in {held}", look.sanitize_line(copy.session.as_str()));
            writeln!(out, "{}", look.paint(Style::Dim, text))?;
        }
    }
    write_counts(exported, written.len(), copies.len(), terminal);
    Ok(())
}

/// Prints the number of documents, and the path to open.
fn write_counts(exported: &Exported, written: usize, copies: usize, terminal: &Terminal) {
    let mut text = count(written, "transcript");
    if !exported.subagents.is_empty() {
        text += &format!(" and {}", count(exported.subagents.len(), "subagent"));
    }
    text += &format!(" in {}", exported.dir.display());
    if exported.unchanged > 0 {
        text += &format!(", {} unchanged", render::format_count(exported.unchanged as u64));
    }
    if copies > 0 {
        text += &format!("; {} skipped", count(copies, "copy").replace("copys", "copies"));
    }
    if exported.removed > 0 {
        text += &format!("; {} removed as obsolete", render::format_count(exported.removed as u64));
    }
    if exported.empty_sessions > 0 {
        text += &format!("; {} without messages", count(exported.empty_sessions, "file"));
    }
    terminal.print_note(&text);
    if let Some(index) = &exported.index {
        terminal.print_note(&format!("open {}", index.display()));
    }
}
