//! `export`: conversations as documents.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rethread::{
    Client, ExportError, ExportOptions, ExportStatus, Exported, ExportedFile, ExportedSubagent,
    ExportedTranscript, FileNaming, Format, Library, LogSource, PathChoice, ResumableLog, ResumeText,
};
use rethread_render::{self as render, Style, SubagentRow, TranscriptRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{client, json_line, library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::open::open_file;
use crate::resume_command::ResumeCommand;
use crate::scope::find_many_to_write;
use crate::terminal::Terminal;

/// Write transcripts of sessions to a directory
///
/// Writes one document per path of every session, for active paths and for paths abandoned by a rewind.
/// Compactions appear where they happened, tool results and subagents under their calls. A path that
/// continues another file starts with the messages of that file.
///
/// A directory with several transcripts gets an index: `index.html` for pages, `README.md` for Markdown.
///
/// Resuming and forking leave paths whose messages are all contained in another path. They are skipped
/// and reported together with the path that contains them. A second run writes only what has changed.
/// Files written by other programs are never overwritten.
///
/// The hidden file `.rethread-export.json` remembers what was written, with titles, prompts and paths of logs. Leave
/// it out when you share the directory.
#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Output directory, or `-` to write a single transcript to standard output [default: rethread-export]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "md")]
    format: FormatArg,

    /// Open the result in a browser or viewer
    #[arg(long)]
    open: bool,

    /// File names [default: id for Markdown, friendly for HTML and JSON]
    #[arg(long, value_name = "KIND")]
    names: Option<NamesArg>,

    /// Paths to export: `all`, `active`, or a path number from `rethread tree` [default: all; with `-o -` active]
    #[arg(long, visible_alias = "branch", value_name = "WHICH", value_parser = parse_path_choice)]
    path: Option<PathChoice>,

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

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum FormatArg {
    /// GitHub-flavoured Markdown
    Md,
    /// A self-contained web page
    Html,
    /// JSON
    Json,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Md => Self::Md,
            FormatArg::Html => Self::Html,
            FormatArg::Json => Self::Json,
        }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum NamesArg {
    /// Date, title and the beginning of the id
    Friendly,
    /// `transcript_` and the session id
    Id,
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
    let sources = find_many_to_write(&library, &args.sessions, args.all, terminal)?;
    if sources.is_empty() {
        terminal.print_note("no sessions to export; `rethread ls --all` lists all sessions");
        return Ok(CommandOutcome::Negative);
    }
    let options = export_options(args, client);
    if args.output.as_deref() == Some(Path::new("-")) {
        return write_to_stdout(args, global, &library, &sources, &options);
    }
    let dir = args.output.as_deref().unwrap_or(Path::new(DEFAULT_DIR));
    reject_file_name(dir)?;
    if args.output.is_none() && dir.is_symlink() {
        return Err(Failure::new(format!("{DEFAULT_DIR} is a symbolic link"))
            .kind(FailureKind::Exists)
            .hint("-o DIR names the directory to write to"));
    }
    // Every session is read, and then written.
    let progress = terminal.progress(|| 2 * sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let exported = library.with_progress(progress.observer()).export(sources, dir, &options);
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
    print_exported(args, global, &exported, terminal)?;
    print_result(args, global, &exported, terminal);
    if failed > 0 {
        return Err(Failure::new(format!(
            "{} could not be exported; the rest was written",
            count(failed, "item")
        )));
    }
    let nothing = exported.transcripts.is_empty() && exported.subagents.is_empty();
    if nothing { Ok(CommandOutcome::Negative) } else { Ok(CommandOutcome::Success) }
}

/// Fails if the name of the output is that of a document and no such directory exists.
fn reject_file_name(dir: &Path) -> Result<(), Failure> {
    let extension = dir.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if dir.is_dir() || !["md", "html", "json"].contains(&extension.to_lowercase().as_str()) {
        return Ok(());
    }
    Err(Failure::new(format!("-o names a directory, but {} looks like a file", dir.display()))
        .kind(FailureKind::InvalidValue)
        .hint(format!("`-o -` writes one session to standard output: -o - > {}", shell_path(dir))))
}

/// Prints what was written: rows, or lines for people.
fn print_exported(
    args: &ExportArgs,
    global: &GlobalArgs,
    exported: &Exported,
    terminal: &Terminal,
) -> Result<(), Failure> {
    let mut out = terminal.output();
    if global.json {
        for transcript in &exported.transcripts {
            json_line(&mut out, &transcript_row(transcript))?;
        }
        for subagent in &exported.subagents {
            json_line(&mut out, &subagent_row(subagent))?;
        }
        return Ok(out.finish()?);
    }
    write_summary(&mut out, exported, terminal)?;
    out.finish()?;
    print_counts(exported, terminal);
    if args.output.is_none() {
        terminal.print_note("-o DIR writes to another directory, -o - to standard output");
    }
    Ok(())
}

/// The output directory if none is named.
const DEFAULT_DIR: &str = "rethread-export";

fn export_options(args: &ExportArgs, client: Client) -> ExportOptions {
    let format = args.format.into();
    let is_stdout = args.output.as_deref() == Some(Path::new("-"));
    ExportOptions {
        format,
        names: match args.names {
            Some(NamesArg::Friendly) => FileNaming::Friendly,
            Some(NamesArg::Id) => FileNaming::Id,
            None => FileNaming::usual_for(format),
        },
        paths: args.path.unwrap_or(if is_stdout { PathChoice::Active } else { PathChoice::All }),
        all_copies: args.all_copies,
        from_fork: args.branches == BranchesArg::Fork,
        images: !args.no_images,
        thinking: !args.no_thinking,
        client,
        force: args.force,
        resume_command: Some(ResumeText::new(resume_text)),
    }
}

/// Returns the command that resumes a session, if the client of this environment finds it. A document never names a
/// config directory: it is no content of the session, and its path may contain the name that a cleaned copy hides.
fn resume_text(log: &ResumableLog<'_>) -> Option<String> {
    let command = ResumeCommand::for_log(log.path, log.id, log.dir.map(Path::to_owned))?;
    command.config_dir.is_none().then(|| command.to_string())
}

/// Writes the only document to standard output, without a pager.
fn write_to_stdout(
    args: &ExportArgs,
    global: &GlobalArgs,
    library: &Library,
    sources: &[LogSource],
    options: &ExportOptions,
) -> Result<CommandOutcome, Failure> {
    if args.open || global.json {
        let other = if args.open { "--open" } else { "--json" };
        return Err(Failure::new(format!("{other} cannot be combined with `-o -`"))
            .kind(FailureKind::Usage)
            .hint("write to a directory: -o DIR"));
    }
    let [source] = sources else {
        return Err(Failure::new(format!("`-o -` writes one session, not {}", sources.len()))
            .kind(FailureKind::Usage)
            .hint("name one session, for example `last`, or write to a directory: -o DIR"));
    };
    let mut out = io::BufWriter::with_capacity(1 << 16, io::stdout());
    match library.write_transcript(source, options, &mut out) {
        Ok(()) => out.flush()?,
        Err(ExportError::Write { source, .. }) => return Err(source.into()),
        Err(error @ ExportError::SeveralPaths { .. }) => {
            return Err(Failure::from(error)
                .hint("choose one with --path active or --path N, or write to a directory: -o DIR"));
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandOutcome::Success)
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
    render::plural(n as u64, word).to_string()
}

/// Lists what was written and what was skipped. No line is wider than the terminal.
fn write_summary(out: &mut impl Write, exported: &Exported, terminal: &Terminal) -> Result<(), Failure> {
    let look = &terminal.stdout;
    let name = |path: &Path| {
        let name = path.strip_prefix(&exported.dir).unwrap_or(path);
        look.sanitize_line(&name.display().to_string())
    };
    const MANY: usize = 20;
    const MIN_TITLE: usize = 12;
    let written: Vec<_> =
        exported.transcripts.iter().filter_map(|transcript| Some((transcript, transcript.file()?))).collect();
    if written.len() <= MANY {
        for (transcript, file) in &written {
            let file = look.truncate(&name(&file.path), 0);
            let used = file.chars().count() + 2;
            let has_room = look.width.is_none_or(|width| width >= used + MIN_TITLE);
            let title = look.truncate(&look.sanitize_line(&transcript.title), used);
            let title = if has_room && !title.is_empty() { format!("  {title}") } else { String::new() };
            writeln!(out, "{file}{}", look.paint(Style::Dim, title))?;
        }
    }
    let copies: Vec<_> = exported.transcripts.iter().filter(|row| row.file().is_none()).collect();
    if copies.len() <= MANY {
        for copy in &copies {
            let held = copy.contained_in().map(name).unwrap_or_default();
            let path = if copy.paths > 1 { format!(" path {}", copy.path_n) } else { String::new() };
            let text =
                format!("skipped: {}{path}, contained in {held}", look.sanitize_line(copy.session.as_str()));
            writeln!(out, "{}", look.paint(Style::Dim, look.truncate(&text, 0)))?;
        }
    }
    Ok(())
}

/// Prints the number of documents and their directory, and what else happened to them.
fn print_counts(exported: &Exported, terminal: &Terminal) {
    let documents = || exported.transcripts.iter().filter_map(ExportedTranscript::file);
    let copies = exported.transcripts.len() - documents().count();
    let written = documents().filter(|file| file.status != ExportStatus::Refused).count();
    let mut text = count(written, "transcript");
    if !exported.subagents.is_empty() {
        text += &format!(" and {}", count(exported.subagents.len(), "subagent"));
    }
    terminal.print_note(&format!("{text} in {}", shell_path(&exported.dir)));
    let number = |n: usize| render::format_count(n as u64);
    let others = [
        (exported.unchanged, format!("{} unchanged", number(exported.unchanged))),
        (copies, format!("{} {} skipped", number(copies), if copies == 1 { "copy" } else { "copies" })),
        (exported.removed, format!("{} removed as obsolete", number(exported.removed))),
        (exported.empty_sessions, format!("{} without messages", count(exported.empty_sessions, "file"))),
    ];
    let others: Vec<String> = others.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
    if !others.is_empty() {
        terminal.print_note(&others.join(", "));
    }
}

/// Opens the index or the only document, or prints its path.
fn print_result(args: &ExportArgs, global: &GlobalArgs, exported: &Exported, terminal: &Terminal) {
    let is_ours = |file: &&ExportedFile| file.status != ExportStatus::Refused;
    let files = exported.transcripts.iter().filter_map(ExportedTranscript::file).filter(is_ours);
    let mut files = files.map(|file| &file.path);
    let Some(result) = exported.index.as_ref().or_else(|| files.next()) else { return };
    let path = shell_path(result);
    if !args.open {
        if !global.json {
            terminal.print_note(&format!("open {path}"));
        }
    } else if open_file(result) {
        terminal.print_note(&format!("opened {path}"));
    } else {
        terminal.print_note(&format!("found no program to open it with; the file is {path}"));
    }
}

/// Returns a path for a shell, relative to the current directory if it is inside.
fn shell_path(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let relative = here.and_then(|here| path.strip_prefix(here).ok());
    let path = relative.filter(|path| !path.as_os_str().is_empty()).unwrap_or(path);
    render::shell_word(&path.to_string_lossy())
}
