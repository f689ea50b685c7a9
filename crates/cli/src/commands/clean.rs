//! `clean`: small copies of sessions that can be shared.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use rethread::edit::{Level, RedactOptions, Rule, RuleSet};
use rethread::render;
use rethread::{CleanDestination, CleanError, CleanOptions};

use crate::CommandOutcome;
use crate::args::GlobalArgs;
use crate::commands::{json_line, library, ls};
use crate::failure::Failure;
use crate::terminal::{PagedOutput, Terminal};

/// Make small copies of sessions that can be shared
///
/// Takes out what makes sessions large and nobody reads: pictures and documents, what is stored twice,
/// the client's bookkeeping. What is left is a session again: `rethread --config-dir DIR` reads the
/// copies, and after `light` and `standard` clients can go on with them.
///
/// With --redact credentials are replaced by [REDACTED:rule], wherever they stand; without it they stay.
/// Subagents' logs and large results that lie beside a session are cleaned with it.
///
/// Where something changes that is sent to the model, such as a picture, thinking behind it goes too:
/// its signature is not valid any more.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER, after_long_help = after())]
pub(crate) struct CleanArgs {
    /// Sessions, files, directories or projects; without any, this directory's project, else all
    #[arg(value_name = "SESSION|PATH")]
    sessions: Vec<OsString>,

    /// The directory to write to
    #[arg(short, long, value_name = "DIR", required_unless_present_any = ["in_place", "dry_run"])]
    output: Option<PathBuf>,

    /// How much to take out
    #[arg(short, long, value_name = "LEVEL", default_value = "standard", conflicts_with = "rules")]
    level: LevelArg,

    /// Take out only this; several are separated by commas
    #[arg(long = "rule", value_name = "RULE", value_parser = parse_rule, value_delimiter = ',')]
    rules: Vec<Rule>,

    #[command(flatten)]
    redaction: RedactionArgs,

    /// Replace credentials by [REDACTED:rule]
    #[arg(short, long)]
    redact: bool,

    /// Replace names of users and machines, home directories and mail addresses
    ///
    /// The same name has the same placeholder everywhere. Users are known from their home directories,
    /// machines from prompts such as name@machine. Other names, and addresses of networks, stay.
    #[arg(long)]
    anonymise: bool,

    /// Clean the sessions themselves and keep backups beside them
    ///
    /// Refused while a client has the session open. The backups hold everything, secrets too.
    #[arg(long, conflicts_with_all = ["dry_run", "output"])]
    in_place: bool,

    /// Show what would be taken out, and write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,

    /// Write over files that are there
    #[arg(long)]
    force: bool,

    /// Take all projects, also where this directory is one
    #[arg(long, short)]
    all: bool,
}

/// Which texts are secret, beside those that rules know.
#[derive(Debug, clap::Args)]
pub(super) struct RedactionArgs {
    /// Also take for a secret what this pattern fits, or its first group; may be given more than once
    #[arg(long, value_name = "REGEX", value_parser = RedactOptions::pattern)]
    also: Vec<PatternArg>,

    /// Never take for a secret what this pattern fits; may be given more than once
    #[arg(long, value_name = "REGEX", value_parser = RedactOptions::pattern)]
    allow: Vec<PatternArg>,
}

type PatternArg = rethread::edit::RedactPattern;

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
    /// Pictures and documents, and what is stored twice
    Light,
    /// And what no client sends: bookkeeping, thinking with its signatures
    Standard,
    /// And what readers can do without; to be read, not resumed
    Strong,
    /// The conversation only, a line for each tool call; to be read, not resumed
    Max,
}

fn parse_rule(name: &str) -> Result<Rule, String> {
    Rule::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = Rule::ALL.into_iter().map(Rule::name).collect();
        format!("there is no such rule; there are {}", names.join(", "))
    })
}

const AFTER: &str = "\
Copies lie in DIR as their sessions lie in a config directory: DIR/projects/PROJECT/ID.jsonl. Those of
files from elsewhere lie in DIR itself.

Exit status: 0 all is done, 1 there is nothing to clean, 2 an error.

Examples:
  rethread clean last -o share --redact --anonymise   a copy of the newest session to give away
  rethread clean --all -o backup -l light             everything, without what is stored twice
  rethread clean 3f2a --dry-run -l max                what each rule would take
  rethread clean 3f2a --rule media -o out             only without pictures and documents";

fn after() -> String {
    let mut text = format!("{AFTER}\n\nRules:\n");
    for level in Level::ALL {
        let own = Rule::ALL.into_iter().filter(|rule| rule.level() == level);
        for rule in own {
            text += &format!("  {:<14} {:<9} {}\n", rule.name(), level.name(), rule.description());
        }
    }
    text += "Each level has its own rules and those of the levels before it.";
    text
}

pub(crate) fn run(
    args: &CleanArgs,
    global: &GlobalArgs,
    terminal: &Terminal,
) -> Result<CommandOutcome, Failure> {
    if !args.redact && args.redaction.is_set() {
        return Err(
            Failure::new("--also and --allow say what --redact takes for a secret").hint("add --redact")
        );
    }
    if args.in_place && args.sessions.is_empty() && !args.all {
        return Err(Failure::new("--in-place changes the sessions themselves")
            .hint("name them; --all takes all that there are"));
    }
    let library = library(global);
    let here = if args.all || !args.sessions.is_empty() { None } else { ls::current_project_dir(&library) };
    let sources = library.select(&args.sessions, here)?;
    if sources.is_empty() {
        terminal.print_note("no sessions to clean; `rethread ls --all` lists all that are found");
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
    let options = CleanOptions {
        rules,
        redact: args.redaction.redact(args.redact, args.anonymise),
        to: match &args.output {
            Some(dir) if !args.dry_run => CleanDestination::Dir { dir: dir.clone(), over: args.force },
            _ if args.in_place => CleanDestination::InPlace,
            _ => CleanDestination::DryRun,
        },
        users,
        hosts,
    };
    let progress = terminal.progress(|| sources.iter().map(|source| source.file.bytes).sum::<u64>());
    let results = library.clean(&sources, &options, &|n| progress.advance(n));
    drop(progress);
    let one = results.len() == 1;
    let mut rows = Vec::new();
    let (mut failed, mut there) = (0, 0);
    for result in results {
        match result {
            Ok(row) => rows.push(row),
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
    for warning in rows.iter().flat_map(|row| &row.warnings) {
        terminal.print_note(warning);
    }
    let mut out = terminal.output();
    if global.json {
        for row in &rows {
            json_line(&mut out, row)?;
        }
    } else if !rows.is_empty() {
        render::write_clean(&mut out, &rows, &terminal.stdout)?;
        write_summary(&mut out, &rows, args, rules, terminal)?;
    }
    out.finish()?;
    let told = |n: usize, what: &str| {
        let rest = if rows.is_empty() { "nothing is written" } else { "the rest is done" };
        Failure::new(format!("{n} {what}; {rest}"))
    };
    match (failed, there) {
        (0, 0) => Ok(CommandOutcome::Success),
        (0, n) => Err(told(n, "of the copies are there already").hint("--force writes over them")),
        (n, there) => Err(told(n + there, "could not be cleaned")),
    }
}

/// Says where to look, and what the copies are good for.
fn write_summary(
    out: &mut PagedOutput,
    rows: &[rethread::CleanedRow],
    args: &CleanArgs,
    rules: RuleSet,
    terminal: &Terminal,
) -> Result<(), Failure> {
    const MANY: usize = 20;
    let look = &terminal.stdout;
    let written: Vec<_> = rows.iter().filter(|row| row.file.is_some()).collect();
    for row in written.iter().take(if written.len() <= MANY { MANY } else { 0 }) {
        writeln!(out, "{}", look.sanitize_line(row.file.as_deref().unwrap_or_default()))?;
        if let Some(backup) = &row.backup {
            writeln!(out, "{}", look.sanitize_line(&format!("the session as it was: {backup}")))?;
        }
    }
    match &args.output {
        _ if args.dry_run => terminal.print_note("nothing is written (--dry-run)"),
        Some(dir) if written.len() > MANY => terminal.print_note(&format!(
            "{} sessions in {}; `rethread ls --all --config-dir DIR` lists them",
            written.len(),
            dir.display(),
        )),
        _ => {}
    }
    if !rules.is_resumable() {
        terminal.print_note("what is left is for reading: not all that clients need to go on is there");
    }
    if !args.redact {
        terminal.print_note("credentials were not looked for: --redact replaces them");
    } else if args.in_place {
        terminal.print_note("the backups still hold the secrets");
    }
    Ok(())
}

/// The names of the user and the machine at hand.
fn local_user_and_host() -> (Vec<String>, Vec<String>) {
    let users = ["USER", "LOGNAME", "USERNAME"].iter().filter_map(|name| std::env::var(name).ok()).collect();
    #[cfg(unix)]
    let host = Some(rustix::system::uname().nodename().to_string_lossy().into_owned());
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").ok();
    (users, host.into_iter().collect())
}
