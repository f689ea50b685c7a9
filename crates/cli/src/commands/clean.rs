//! `clean`: reduced copies of sessions for sharing.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rethread::{CleanDestination, CleanError, CleanOptions, Cleaned};
use rethread::{Level, RedactOptions, Rule, RuleSet};
use rethread_render::{self as render, CleanedRow};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, library, writable_library};
use crate::failure::Failure;
use crate::failure_kind::FailureKind;
use crate::scope::find_many_to_write;
use crate::terminal::{PagedOutput, Terminal};
use crate::wording::clean_warning;

/// Make small copies of sessions for sharing
///
/// Removes data that makes sessions large and that nobody reads: images and documents, duplicated data
/// and the client's bookkeeping. The copies are sessions too: `rethread --config-dir DIR` reads them, and
/// copies made at level `light` or `standard` resume like the original. Copies made at `strong` or `max` are for
/// reading: clients may load them, but would continue a shortened conversation.
///
/// With --redact, credentials are replaced with [REDACTED:rule] wherever they occur; without it they are
/// kept. Subagent logs and large tool results stored next to a session are cleaned too.
///
/// If content that is sent to the model changes, such as an image, thinking after it is removed as well,
/// because its signature is no longer valid.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER, after_long_help = after())]
pub(crate) struct CleanArgs {
    /// Sessions, files, directories or projects; defaults to the current directory's project
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// Output directory; required unless --dry-run or --in-place is given
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,

    /// The amount to remove
    #[arg(short, long, value_name = "LEVEL", default_value = "standard", conflicts_with = "rules")]
    level: LevelArg,

    /// Apply only this rule; separate several with commas
    #[arg(long = "rule", value_name = "RULE", value_parser = parse_rule, value_delimiter = ',')]
    rules: Vec<Rule>,

    #[command(flatten)]
    redaction: RedactionArgs,

    /// Replace credentials with [REDACTED:rule]
    #[arg(short, long)]
    redact: bool,

    /// Replace user names, host names, home directories and email addresses
    ///
    /// The same name gets the same placeholder everywhere. The user is known by the home directory in which the
    /// session ran; if it ran elsewhere, everyone whose home directory occurs is taken for the user. Names of other
    /// users are replaced in paths only. Host names are taken from prompts such as name@machine. Other names and
    /// network addresses are kept.
    #[arg(long)]
    anonymise: bool,

    /// Clean the sessions themselves and keep backups next to them
    ///
    /// Refused while a client has the session open. The backups contain everything, including secrets.
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    in_place: bool,

    /// Show what would be removed, without writing anything
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Overwrite existing files
    #[arg(long)]
    force: bool,

    /// Include all projects, not only the current directory's
    #[arg(long, short)]
    all: bool,
}

/// Secrets to search for in addition to those that the rules find.
#[derive(Debug, clap::Args)]
pub(super) struct RedactionArgs {
    /// Also treat matches of this pattern, or of its first group, as secrets; can be repeated
    #[arg(long, value_name = "REGEX", value_parser = RedactOptions::pattern)]
    also: Vec<PatternArg>,

    /// Never treat matches of this pattern as secrets; can be repeated
    #[arg(long, value_name = "REGEX", value_parser = RedactOptions::pattern)]
    allow: Vec<PatternArg>,
}

type PatternArg = rethread::RedactPattern;

impl RedactionArgs {
    fn is_set(&self) -> bool {
        !self.also.is_empty() || !self.allow.is_empty()
    }

    pub(super) fn redact(&self, secrets: bool, people: bool) -> RedactOptions {
        RedactOptions { secrets, people, extra: self.also.clone(), allow: self.allow.clone() }
    }
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum LevelArg {
    /// Images, documents and duplicated data
    Light,
    /// Also bookkeeping, and thinking with its signatures
    Standard,
    /// Also data that readers rarely need; the copy is for reading
    Strong,
    /// Everything but the conversation and one line per tool call; the copy is for reading
    Max,
}

fn parse_rule(name: &str) -> Result<Rule, String> {
    Rule::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Rule::ALL.into_iter().map(Rule::name).collect();
        format!("unknown rule; known rules: {}", names.join(", "))
    })
}

const AFTER: &str = "\
Copies are laid out like a config directory: DIR/projects/PROJECT/ID.jsonl. Copies of files from
elsewhere are written to DIR itself.

Exit status: 0 success, 1 nothing to clean, 2 error.";

fn after() -> String {
    let mut text = format!("{AFTER}\n\nRules:\n");
    for level in Level::ALL {
        let own = Rule::ALL.into_iter().filter(|rule| rule.level() == level);
        for rule in own {
            text += &format!("  {:<14} {:<9} {}\n", rule.name(), level.name(), rule.description());
        }
    }
    text += "Each level includes the rules of the levels before it.";
    text
}

pub(crate) fn run(
    args: &CleanArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    if !args.redact && args.redaction.is_set() {
        return Err(Failure::new("--also and --allow require --redact")
            .kind(FailureKind::Usage)
            .hint("add --redact"));
    }
    if args.in_place && args.sessions.is_empty() && !args.all {
        return Err(Failure::new("--in-place requires a session or --all")
            .kind(FailureKind::Usage)
            .hint("it modifies the sessions themselves"));
    }
    if args.output.is_none() && !args.in_place && !args.dry_run {
        return Err(Failure::new("no output directory")
            .kind(FailureKind::Usage)
            .hint("-o DIR writes copies to DIR and leaves the sessions unchanged")
            .hint("--dry-run shows what would be removed; --in-place cleans the sessions themselves"));
    }
    let writes = args.in_place && !args.dry_run;
    let library = if writes { writable_library(global, terminal)? } else { library(global) };
    let sources = find_many_to_write(&library, &args.sessions, args.all, terminal)?;
    if sources.is_empty() {
        terminal.print_note("no sessions to clean; `rethread ls --all` lists all sessions");
        return Ok(CommandOutcome::Negative);
    }
    let level = match args.level {
        LevelArg::Light => Level::Light,
        LevelArg::Standard => Level::Standard,
        LevelArg::Strong => Level::Strong,
        LevelArg::Max => Level::Max,
    };
    let rules = if args.rules.is_empty() { RuleSet::of(level) } else { args.rules.iter().copied().collect() };
    let (users, hosts) = if args.anonymise { local_user_and_host() } else { Default::default() };
    let options = CleanOptions::new(match &args.output {
        Some(dir) if !args.dry_run => CleanDestination::Dir { dir: dir.clone(), over: args.force },
        _ if args.in_place => CleanDestination::InPlace,
        _ => CleanDestination::DryRun,
    });
    let redact = args.redaction.redact(args.redact, args.anonymise);
    let options = options.rules(rules).redact(redact).names(users, hosts);
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let results = library.with_progress(progress.observer()).clean(&sources, &options);
    drop(progress);
    write_results(results, args, global, terminal)
}

/// Writes the result of each session. One that fails is reported, and the others are written.
fn write_results(
    results: Vec<Result<Cleaned, CleanError>>,
    args: &CleanArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    let one = results.len() == 1;
    let mut cleaned = Vec::new();
    let (mut failed, mut there) = (0, 0);
    for result in results {
        match result {
            Ok(session) => cleaned.push(session),
            Err(error) if one => return Err(error.into()),
            Err(CleanError::Write { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                there += 1;
            }
            Err(error) => {
                failed += 1;
                terminal.warn(&error.into());
            }
        }
    }
    for warning in cleaned.iter().flat_map(|session| &session.warnings) {
        terminal.print_note(&clean_warning(warning));
    }
    let mut out = terminal.output();
    if global.json {
        for session in &cleaned {
            json_line(&mut out, &CleanedRow::new(session, &clean_warning))?;
        }
    } else if !cleaned.is_empty() {
        render::write_clean(&mut out, &cleaned, &terminal.stdout)?;
        write_paths(&mut out, &cleaned, terminal)?;
    }
    out.finish()?;
    if !global.json && !cleaned.is_empty() {
        print_notes(&cleaned, args, terminal);
    }
    let failure = |n: usize, what: &str| {
        let rest = if cleaned.is_empty() { "nothing was written" } else { "the rest was cleaned" };
        Failure::new(format!("{n} {what}; {rest}"))
    };
    match (failed, there) {
        (0, 0) => Ok(CommandOutcome::Success),
        (0, n) => Err(failure(n, "of the copies already exist").hint("--force overwrites them")),
        (n, there) => Err(failure(n + there, "could not be cleaned")),
    }
}

/// With more copies than this, only their directory is printed.
const MANY: usize = 20;

/// Writes the paths of the copies, or of cleaned sessions and their backups.
fn write_paths(out: &mut PagedOutput, sessions: &[Cleaned], terminal: &Terminal) -> Result<(), Failure> {
    let written: Vec<_> = sessions.iter().filter_map(|s| Some((s.output.as_ref()?, &s.backup))).collect();
    if written.len() > MANY {
        return Ok(());
    }
    let path = |path: &Path| terminal.stdout.sanitize_line(&path.to_string_lossy());
    for (output, backup) in written {
        match backup {
            None => writeln!(out, "written to {}", path(output))?,
            Some(backup) => {
                writeln!(out, "cleaned in place: {}", path(output))?;
                writeln!(out, "the original is kept in {}", path(backup))?;
            }
        }
    }
    Ok(())
}

/// Prints what was not done, and whether the copies can be resumed.
fn print_notes(sessions: &[Cleaned], args: &CleanArgs, terminal: &Terminal) {
    let n_written = sessions.iter().filter(|session| session.output.is_some()).count();
    match &args.output {
        _ if args.dry_run => terminal.print_note("nothing was written (--dry-run)"),
        Some(dir) if n_written > MANY => terminal.print_note(&format!(
            "{n_written} sessions in {}; `rethread ls --all --config-dir {}` lists them",
            dir.display(),
            render::shell_word(&dir.to_string_lossy()),
        )),
        _ => {}
    }
    if sessions.iter().any(|session| !session.is_resumable) {
        terminal.print_note(
            "this copy is for reading: a client that resumed it would continue a shortened conversation",
        );
    }
    if let Some(dir) = args.output.as_deref().filter(|_| !args.dry_run && args.redact && n_written > 0) {
        let dir = render::shell_word(&dir.to_string_lossy());
        terminal.print_note(&format!("as web pages: rethread export {dir} -f html -o pages"));
    }
    if !args.redact {
        terminal.print_note("credentials were not searched for; --redact replaces them");
    } else if args.in_place {
        terminal.print_note("the backups still contain the secrets");
    }
}

/// Returns the names of the current user and machine.
fn local_user_and_host() -> (Vec<String>, Vec<String>) {
    let users = ["USER", "LOGNAME", "USERNAME"].iter().filter_map(|name| std::env::var(name).ok()).collect();
    #[cfg(unix)]
    let host = Some(rustix::system::uname().nodename().to_string_lossy().into_owned());
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").ok();
    (users, host.into_iter().collect())
}
