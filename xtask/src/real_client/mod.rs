//! `cargo xtask real-client`: the real client as an acceptance test.
//!
//! `rethread preview` predicts the request of a client version that resumes a session, and every version must resume
//! the output of `rethread repair` and `rethread clone`. The client itself can confirm that: it is installed, started
//! on a copy of a session in a network with loopback only, and talks to a fake API that records its requests. No data
//! of the user is read or written, and nothing reaches the network.
//!
//! If the client cannot be installed or isolated, the check is skipped with a note, unless `--require` is given.

mod api;
mod check;
mod compare;
mod install;
mod isolate;
mod run;
mod samples;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rethread_testkit::Home;
use serde_json::json;

use self::check::{CLEANED, Check, CheckJob, PROMPT, RECIPES, RECIPES_EACH};
use self::install::{InstalledClient, VERSIONS};
use self::run::ClientHome;
use self::samples::SampleFilter;
use crate::{cargo, target_dir, workspace};

pub(crate) const USAGE: &str = "real-client [--all] [--require] [--jobs N] [--client VERSION] \
    [preview|repair|clone|clean|recorded] [FILTER] | real-client record FILE [--client VERSION] [--prompt TEXT]";

/// The path of the program to check; if it is unset, the program is built.
const RETHREAD: &str = "RETHREAD_BIN";

#[derive(Debug, PartialEq)]
struct RealClientOptions {
    all: bool,
    require: bool,
    jobs: usize,
    versions: Vec<String>,
    prompt: String,
    mode: RunMode,
    filter: Option<String>,
}

#[derive(Debug, PartialEq)]
enum RunMode {
    Checks(Vec<Check>),
    /// Prints the requests of the clients for one log.
    Record(PathBuf),
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = RealClientOptions::parse(args)?;
    if isolate::is_inside() {
        return match isolate::check() {
            Ok(()) => inside(&options),
            Err(error) => report_skipped(&error, options.require),
        };
    }
    let unshare_args = match outside(&options) {
        Ok(unshare_args) => unshare_args,
        Err(error) => return report_skipped(&error, options.require),
    };
    let mut env = Vec::new();
    let mut rethread = std::env::var_os(RETHREAD).map(PathBuf::from);
    if options.runs_rethread() && rethread.is_none() {
        // While the network is still available.
        cargo(&["build", "-p", "rethread-cli"], &[])?;
        rethread = Some(workspace().join(target_dir()).join("debug/rethread"));
    }
    let rethread = rethread.map(std::path::absolute).transpose()?;
    if let Some(rethread) = &rethread {
        env.push((RETHREAD, rethread.as_os_str()));
    }
    let status = isolate::enter(&unshare_args, args, &env)?;
    if !status.success() {
        // The run inside has printed the reason.
        std::process::exit(status.code().unwrap_or(1));
    }
    Ok(())
}

/// Finds or installs the clients, which needs the network.
fn outside(options: &RealClientOptions) -> Result<Vec<&'static str>> {
    let unshare_args = isolate::namespace()?;
    for version in &options.versions {
        install::install(version)?;
    }
    Ok(unshare_args)
}

fn report_skipped(error: &anyhow::Error, require: bool) -> Result<()> {
    if require {
        bail!("the real client was not run: {error:#}");
    }
    println!("SKIPPED: the real client was not run: {error:#}");
    Ok(())
}

fn inside(options: &RealClientOptions) -> Result<()> {
    let clients: Vec<InstalledClient> =
        options.versions.iter().map(|version| install::find(version)).collect::<Result<_>>()?;
    let checks = match &options.mode {
        RunMode::Record(file) => return record(file, &clients, &options.prompt),
        RunMode::Checks(checks) => checks,
    };
    let rethread = std::env::var_os(RETHREAD).map(PathBuf::from).unwrap_or_default();
    let choice = SampleFilter { all: options.all, filter: options.filter.clone() };
    let home = Home::default();
    let has = |check: Check| checks.contains(&check);
    let sessions = if has(Check::Preview) || has(Check::Clone) || has(Check::Clean) {
        samples::sessions(&choice, &home)?
    } else {
        Vec::new()
    };
    let versions = clients.iter().map(|client| client.version.as_str());
    let cases = if has(Check::Repair) || has(Check::Recorded) {
        samples::cases(&choice, versions)
    } else {
        Vec::new()
    };
    let mut jobs = Vec::new();
    let all: Vec<&InstalledClient> = clients.iter().collect();
    for (at, sample) in sessions.iter().enumerate() {
        if has(Check::Preview) {
            jobs.push(CheckJob { check: Check::Preview, sample, clients: all.clone(), recipe: &[] });
        }
        // The recipes rotate, so that each one is tried on many logs.
        for n in (0..RECIPES_EACH).filter(|_| has(Check::Clone)) {
            let recipe = RECIPES[(at * RECIPES_EACH + n) % RECIPES.len()];
            jobs.push(CheckJob { check: Check::Clone, sample, clients: all.clone(), recipe });
        }
        if has(Check::Clean) {
            let recipe = CLEANED[at % CLEANED.len()];
            jobs.push(CheckJob { check: Check::Clean, sample, clients: all.clone(), recipe });
        }
    }
    for sample in &cases {
        if has(Check::Repair) {
            jobs.push(CheckJob { check: Check::Repair, sample, clients: all.clone(), recipe: &[] });
        }
        if has(Check::Recorded) && sample.path.with_extension("received.json").is_file() {
            let recorded =
                clients.iter().filter(|client| sample.name.contains(&format!("/{}/", client.version)));
            jobs.push(CheckJob { check: Check::Recorded, sample, clients: recorded.collect(), recipe: &[] });
        }
    }
    if jobs.is_empty() {
        bail!("nothing to check: no log matches");
    }
    println!("real clients {}: {} checks", options.versions.join(", "), jobs.len());
    match check::run(&jobs, options.jobs, &rethread) {
        0 => Ok(()),
        n => bail!("{n} differences"),
    }
}

/// Prints the request of each client when it resumes a log, one document each.
fn record(file: &Path, clients: &[InstalledClient], prompt: &str) -> Result<()> {
    for client in clients {
        let answer = ClientHome::of(file)?.resume(client, prompt)?;
        let document = json!({ "type": "record", "client": client.version, "accepted": answer.accepted,
            "said": answer.client_output, "messages": answer.messages });
        println!("{document}");
    }
    Ok(())
}

impl RealClientOptions {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            all: false,
            require: false,
            jobs: 2,
            versions: Vec::new(),
            prompt: PROMPT.to_owned(),
            mode: RunMode::Checks(vec![Check::Preview, Check::Repair, Check::Clone, Check::Clean]),
            filter: None,
        };
        let mut words = Vec::new();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--all" => options.all = true,
                "--require" => options.require = true,
                "--jobs" => options.jobs = value()?.parse().context("--jobs needs a number")?,
                "--client" => options.versions.push(value()?.clone()),
                "--prompt" => options.prompt = value()?.clone(),
                word if !word.starts_with('-') => words.push(word),
                _ => bail!("usage: cargo xtask {USAGE}"),
            }
        }
        let mut rest = &words[1.min(words.len())..];
        match words.first().copied() {
            Some("preview") => options.mode = RunMode::Checks(vec![Check::Preview]),
            Some("repair") => options.mode = RunMode::Checks(vec![Check::Repair]),
            Some("clone") => options.mode = RunMode::Checks(vec![Check::Clone]),
            Some("clean") => options.mode = RunMode::Checks(vec![Check::Clean]),
            Some("recorded") => options.mode = RunMode::Checks(vec![Check::Recorded]),
            Some("record") => {
                let (file, after) = rest.split_first().context("`record` needs a file")?;
                options.mode = RunMode::Record(PathBuf::from(file));
                // A recording must not be skipped silently.
                options.require = true;
                rest = after;
            }
            _ => rest = &words,
        }
        options.filter = match (rest, &options.mode) {
            ([], _) => None,
            ([filter], RunMode::Checks(_)) => Some((*filter).to_owned()),
            _ => bail!("usage: cargo xtask {USAGE}"),
        };
        if options.versions.is_empty() {
            options.versions = VERSIONS.map(str::to_owned).to_vec();
        }
        options.jobs = options.jobs.max(1);
        Ok(options)
    }

    fn runs_rethread(&self) -> bool {
        matches!(&self.mode, RunMode::Checks(checks) if checks.iter().any(|&check| check != Check::Recorded))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &str) -> Result<RealClientOptions> {
        RealClientOptions::parse(&args.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_parsed() {
        let options = parse("").expect("no arguments are valid");
        assert_eq!(options.versions, VERSIONS);
        assert_eq!(
            (options.jobs, options.mode),
            (2, RunMode::Checks(vec![Check::Preview, Check::Repair, Check::Clone, Check::Clean]))
        );
        let options = parse("--all repair --jobs 4 d01 --client 2.0.77").expect("valid arguments");
        assert_eq!(options.mode, RunMode::Checks(vec![Check::Repair]));
        assert_eq!((options.all, options.jobs, options.filter.as_deref()), (true, 4, Some("d01")));
        assert_eq!(options.versions, ["2.0.77"]);
        assert_eq!(parse("corpus").expect("valid filter").filter.as_deref(), Some("corpus"));
        let record = parse("record x.jsonl --prompt Hi").expect("valid arguments");
        assert_eq!((record.mode, record.prompt.as_str()), (RunMode::Record(PathBuf::from("x.jsonl")), "Hi"));
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for args in ["--unknown", "--jobs", "--jobs x", "record", "record a b", "preview a b"] {
            assert!(parse(args).is_err(), "{args}");
        }
    }
}
