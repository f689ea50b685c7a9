//! `clean`: small copies of sessions that can be shared.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use rethread::edit::{Level, Redact, Rule, Rules};
use rethread::render;
use rethread::{CleanError, CleanOptions, CleanTo};

use crate::Done;
use crate::args::Global;
use crate::commands::{json_line, library, ls};
use crate::failure::Failure;
use crate::terminal::{Output, Terminal};

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
pub(crate) struct Args {
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
    #[arg(long = "rule", value_name = "RULE", value_parser = rule, value_delimiter = ',')]
    rules: Vec<Rule>,

    #[command(flatten)]
    redaction: Redaction,

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
pub(super) struct Redaction {
    /// Also take for a secret what this pattern fits, or its first group; may be given more than once
    #[arg(long, value_name = "REGEX", value_parser = Redact::pattern)]
    also: Vec<Pattern>,

    /// Never take for a secret what this pattern fits; may be given more than once
    #[arg(long, value_name = "REGEX", value_parser = Redact::pattern)]
    allow: Vec<Pattern>,
}

type Pattern = rethread::edit::Pattern;

impl Redaction {
    fn any(&self) -> bool {
        !self.also.is_empty() || !self.allow.is_empty()
    }

    pub(super) fn redact(&self, secrets: bool, people: bool) -> Redact {
        Redact { secrets, people, also: self.also.clone(), allow: self.allow.clone() }
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

fn rule(name: &str) -> Result<Rule, String> {
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
            text += &format!("  {:<14} {:<9} {}\n", rule.name(), level.name(), rule.about());
        }
    }
    text += "Each level has its own rules and those of the levels before it.";
    text
}

pub(crate) fn run(args: &Args, global: &Global, terminal: &Terminal) -> Result<Done, Failure> {
    if !args.redact && args.redaction.any() {
        return Err(
            Failure::new("--also and --allow say what --redact takes for a secret").hint("add --redact")
        );
    }
    if args.in_place && args.sessions.is_empty() && !args.all {
        return Err(Failure::new("--in-place changes the sessions themselves")
            .hint("name them; --all takes all that there are"));
    }
    let library = library(global);
    let here = if args.all || !args.sessions.is_empty() { None } else { ls::here(&library) };
    let sources = library.select(&args.sessions, here)?;
    if sources.is_empty() {
        terminal.say("no sessions to clean; `rethread ls --all` lists all that are found");
        return Ok(Done::Nothing);
    }
    let level = match args.level {
        LevelArg::Light => Level::Light,
        LevelArg::Standard => Level::Standard,
        LevelArg::Strong => Level::Strong,
        LevelArg::Max => Level::Max,
    };
    let rules = if args.rules.is_empty() { Rules::of(level) } else { args.rules.iter().copied().collect() };
    let (users, hosts) = if args.anonymise { at_hand() } else { Default::default() };
    let options = CleanOptions {
        rules,
        redact: args.redaction.redact(args.redact, args.anonymise),
        to: match &args.output {
            Some(dir) if !args.dry_run => CleanTo::Dir { dir: dir.clone(), over: args.force },
            _ if args.in_place => CleanTo::InPlace,
            _ => CleanTo::Nowhere,
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
        terminal.say(warning);
    }
    let mut out = terminal.output();
    if global.json {
        for row in &rows {
            json_line(&mut out, row)?;
        }
    } else if !rows.is_empty() {
        render::clean(&mut out, &rows, &terminal.look)?;
        tell(&mut out, &rows, args, rules, terminal)?;
    }
    out.finish()?;
    let told = |n: usize, what: &str| {
        let rest = if rows.is_empty() { "nothing is written" } else { "the rest is done" };
        Failure::new(format!("{n} {what}; {rest}"))
    };
    match (failed, there) {
        (0, 0) => Ok(Done::Well),
        (0, n) => Err(told(n, "of the copies are there already").hint("--force writes over them")),
        (n, there) => Err(told(n + there, "could not be cleaned")),
    }
}

/// Says where to look, and what the copies are good for.
fn tell(
    out: &mut Output,
    rows: &[rethread::CleanedRow],
    args: &Args,
    rules: Rules,
    terminal: &Terminal,
) -> Result<(), Failure> {
    const MANY: usize = 20;
    let look = &terminal.look;
    let written: Vec<_> = rows.iter().filter(|row| row.file.is_some()).collect();
    for row in written.iter().take(if written.len() <= MANY { MANY } else { 0 }) {
        writeln!(out, "{}", look.line(row.file.as_deref().unwrap_or_default()))?;
        if let Some(backup) = &row.backup {
            writeln!(out, "{}", look.line(&format!("the session as it was: {backup}")))?;
        }
    }
    match &args.output {
        _ if args.dry_run => terminal.say("nothing is written (--dry-run)"),
        Some(dir) if written.len() > MANY => terminal.say(&format!(
            "{} sessions in {}; `rethread ls --all --config-dir DIR` lists them",
            written.len(),
            dir.display(),
        )),
        _ => {}
    }
    if !rules.are_resumable() {
        terminal.say("what is left is for reading: not all that clients need to go on is there");
    }
    if !args.redact {
        terminal.say("credentials were not looked for: --redact replaces them");
    } else if args.in_place {
        terminal.say("the backups still hold the secrets");
    }
    Ok(())
}

/// The names of the user and the machine at hand.
fn at_hand() -> (Vec<String>, Vec<String>) {
    let users = ["USER", "LOGNAME", "USERNAME"].iter().filter_map(|name| std::env::var(name).ok()).collect();
    #[cfg(unix)]
    let host = Some(rustix::system::uname().nodename().to_string_lossy().into_owned());
    #[cfg(not(unix))]
    let host = std::env::var("COMPUTERNAME").ok();
    (users, host.into_iter().collect())
}
