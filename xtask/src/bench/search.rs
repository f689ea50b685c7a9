//! Benchmarks of the index and of search: against cv, claude-history and `rg` on the same gigabyte of logs.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::{GB, Measurement, best, lay_out, measure, row};
use crate::tools::{cargo_program, copy_dir, debian_program, node_package};
use crate::{cargo, target_dir};

/// A word in few logs, one in most logs, a phrase, and the beginning of a word.
const QUERIES: [(&str, &str); 4] = [
    ("rare word", "deadlock"),
    ("common word", "error"),
    ("phrase", "\"working tree\""),
    ("prefix", "checkpoi*"),
];

/// A regular expression without a literal that an index could look up.
const PATTERN: &str = "ckpt_[a-z]+_[0-9]+|work(ing|ed) tree[s.]";

/// Measures the index, queries and the growth of a log.
pub(super) fn run(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let bench = SearchBench::new(rethread, dir)?;
    bench.first_index(rounds.min(3))?;
    bench.queries(rounds)?;
    bench.in_process()?;
    bench.scan(rounds)?;
    bench.growth(rounds)?;
    bench.listing(dir, rounds)
}

/// Measures `usage`, cold and warm, against ccusage.
pub(super) fn usage(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let bench = SearchBench::new(rethread, dir)?;
    let ours = || bench.ours(&["usage", "--json", "-q"]);
    if !ours().stderr(Stdio::null()).status()?.success() {
        println!("| `usage` | - | this program has no such command | - | - |");
        return Ok(());
    }
    // Newer versions have no program for this platform in every registry.
    let ccusage = match node_package(dir, "ccusage", "ccusage@20.0.24") {
        Ok(package) => package,
        Err(error) => {
            println!("| `usage` | - | no ccusage: {error} | - | - |");
            return Ok(());
        }
    };
    let theirs =
        || bench.other(&ccusage.dir.join("node_modules/.bin/ccusage"), &["daily", "--json", "--offline"]);
    let cold = || {
        bench.forget();
        ours()
    };
    row("`usage`, 1 GB of logs, first; ccusage", &cold, &theirs, rounds.min(3))?;
    row("`usage`, 1 GB of logs, again; ccusage", &ours, &theirs, rounds)
}

/// A home directory with a gigabyte of logs, in which all programs keep their caches.
struct SearchBench {
    rethread: PathBuf,
    home: PathBuf,
    log_bytes: u64,
    cv: Option<PathBuf>,
    claude_history: Option<PathBuf>,
}

impl SearchBench {
    fn new(rethread: &Path, dir: &Path) -> Result<Self> {
        let home = dir.join("search-home");
        let projects = home.join(".claude/projects");
        if !projects.exists() {
            let part = dir.join("search-home.part");
            let _ = fs::remove_dir_all(&part);
            fill(&part.join(".claude/projects"), dir)?;
            fs::rename(&part, &home)?;
        }
        let log_bytes = size_of(&projects);
        let program =
            |name: &str, package: &str, options: &[&str]| match cargo_program(dir, name, package, options) {
                Ok(program) => Some(program),
                Err(error) => {
                    println!("| {package} | - | it cannot be installed: {error} | - | - |");
                    None
                }
            };
        Ok(Self {
            rethread: rethread.to_owned(),
            home,
            log_bytes,
            cv: program("cv", "clustervision", &[]),
            claude_history: program(
                "claude-history",
                "claude-history",
                // By default its build downloads a library for semantic search.
                &["--features", "release-dynamic-ort"],
            ),
        })
    }

    /// Returns a command with this home directory and no other settings.
    fn other(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.home).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null()).env("HOME", &self.home);
        for name in
            ["CLAUDE_CONFIG_DIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"]
        {
            command.env_remove(name);
        }
        command
    }

    fn ours(&self, args: &[&str]) -> Command {
        self.other(&self.rethread, args)
    }

    /// Returns the other programs with a name and the command that finds a query.
    fn others(&self, query: &str) -> Vec<(&'static str, Command)> {
        let mut all = Vec::new();
        if let Some(cv) = &self.cv {
            all.push(("cv", self.other(cv, &["search", query])));
        }
        if let Some(program) = &self.claude_history {
            all.push(("claude-history", self.other(program, &["agent", "search", query])));
        }
        if let Ok(rg) = debian_program(&["rg"], &["ripgrep"]) {
            let literal = query.trim_matches('"').trim_end_matches('*');
            all.push(("rg", self.other(&rg, &["-uu", "-i", "-c", "-F", literal, ".claude/projects"])));
        }
        all
    }

    /// Removes all caches.
    fn forget(&self) {
        for entry in fs::read_dir(&self.home).into_iter().flatten().flatten() {
            if entry.file_name() != ".claude" {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }

    fn first_index(&self, rounds: usize) -> Result<()> {
        let mut programs = vec![("rethread", self.ours(&["index", "update", "-q"]))];
        if let Some(cv) = &self.cv {
            programs.push(("cv", self.other(cv, &["index"])));
        }
        if let Some(program) = &self.claude_history {
            programs.push(("claude-history", self.other(program, &["agent", "search", "deadlock"])));
        }
        let mut found: Vec<Option<(Measurement, u64)>> = programs.iter().map(|_| None).collect();
        for _ in 0..rounds {
            for ((_, command), best) in programs.iter_mut().zip(&mut found) {
                self.forget();
                let run = measure(copy_of(command))?;
                let peak = best.map_or(0, |(known, _)| known.peak).max(run.peak);
                let wall = best.map_or(run.wall, |(known, _)| known.wall.min(run.wall));
                *best = Some((Measurement { wall, peak }, size_of(&self.home) - self.log_bytes));
            }
        }
        let ours = found.first().copied().flatten().context("no rounds")?;
        for ((name, _), found) in programs.iter().zip(found) {
            let (run, bytes) = found.context("no rounds")?;
            println!(
                "| first index of {:.2} GB, {name} | {:.1?} | - | {:.2} | {} MB; on disk {} MB, {:.2} of the logs |",
                self.log_bytes as f64 / 1e9,
                run.wall,
                ours.0.wall.as_secs_f64() / run.wall.as_secs_f64(),
                run.peak / 1000,
                bytes / 1_000_000,
                bytes as f64 / self.log_bytes as f64
            );
        }
        Ok(())
    }

    /// Fills the caches of all programs.
    fn index_all(&self) -> Result<()> {
        let mut commands = vec![self.ours(&["index", "update", "-q"])];
        commands.extend(self.cv.as_ref().map(|cv| self.other(cv, &["index"])));
        commands.extend(self.others("deadlock").into_iter().map(|(_, command)| command));
        for mut command in commands {
            if !command.status()?.success() {
                bail!("{command:?} failed");
            }
        }
        Ok(())
    }

    fn queries(&self, rounds: usize) -> Result<()> {
        self.index_all()?;
        for (kind, query) in QUERIES {
            for (name, theirs) in self.others(query) {
                let ours = || self.ours(&["search", "-q", query]);
                let title = format!("`search`, 1 GB of logs, {kind}; {name}");
                // A program that does not know prefixes finds nothing, which is no error here.
                if let Err(error) = row(&title, &ours, &|| copy_of(&theirs), rounds) {
                    println!("| {title} | - | {error} | - | - |");
                }
            }
        }
        Ok(())
    }

    /// Measures queries in one process, where the index is opened anew for each.
    fn in_process(&self) -> Result<()> {
        cargo(&["build", "--release", "-p", "rethread", "--example", "search_times"], &[])?;
        let example = target_dir().join("release/examples/search_times");
        let (config, cache) = (self.home.join(".claude"), self.home.join(".cache/rethread"));
        let mut command = self.other(&example, &[&config.to_string_lossy(), &cache.to_string_lossy()]);
        let output = command.args(QUERIES.map(|(_, query)| query)).stdout(Stdio::piped()).output()?;
        for (line, (kind, _)) in String::from_utf8_lossy(&output.stdout).lines().zip(QUERIES) {
            println!("| `Library::search`, 1 GB of logs, {kind}, in process | {line} | - | - | - |");
        }
        Ok(())
    }

    fn scan(&self, rounds: usize) -> Result<()> {
        let rg = debian_program(&["rg"], &["ripgrep"])?;
        let ours = || self.ours(&["search", "-q", "--no-index", "--regex", PATTERN]);
        let theirs = || self.other(&rg, &["-uu", "-c", PATTERN, ".claude/projects"]);
        row("`search --no-index --regex`, 1 GB of logs; `rg -c`", &ours, &theirs, rounds)
    }

    /// Measures the time from an appended turn to a search that finds it.
    fn growth(&self, rounds: usize) -> Result<()> {
        let log = rethread_testkit::logs_under(&self.home.join(".claude/projects"))
            .into_iter()
            .max_by_key(|path| path.metadata().map_or(0, |metadata| metadata.len()))
            .context("no logs")?;
        let mut walls = Vec::new();
        for round in 0..rounds {
            let word = format!("quokka{}{round}", std::process::id());
            let entry = serde_json::json!({ "type": "user", "uuid": format!("00000000-0000-4000-9000-{:012x}", round),
                "parentUuid": null, "isSidechain": false, "sessionId": "x", "version": "2.1.50",
                "timestamp": "2026-11-01T00:00:00.000Z", "message": { "role": "user", "content": word } });
            writeln!(OpenOptions::new().append(true).open(&log)?, "{entry}")?;
            let started = Instant::now();
            let output = self.ours(&["search", "-q", "--json", &word]).stdout(Stdio::piped()).output()?;
            walls.push(started.elapsed());
            if !String::from_utf8_lossy(&output.stdout).contains(&word) {
                bail!("an appended turn was not found");
            }
        }
        let best = walls.iter().min().context("no rounds")?;
        let bytes = log.metadata()?.len() as f64 / 1e6;
        println!("| `search` for a turn appended to a log of {bytes:.0} MB | {best:.1?} | - | - | - |");
        Ok(())
    }

    /// Measures listings of 20,000 sessions with an index.
    fn listing(&self, dir: &Path, rounds: usize) -> Result<()> {
        let config = super::picker::library(&dir.join("many"))?;
        let cache = dir.join("many-cache");
        let ours = |args: &[&str]| {
            let mut command = self.ours(args);
            command.env("CLAUDE_CONFIG_DIR", &config).env("XDG_CACHE_HOME", &cache);
            command
        };
        if !ours(&["index", "update", "-q"]).status()?.success() {
            bail!("the index cannot be made");
        }
        for (title, args) in [
            ("`ls --all`", &["ls", "--all", "-q"][..]),
            ("`ls --all --json`", &["ls", "--all", "-q", "--json"]),
            ("`rethread` in a pipe", &["-q"]),
        ] {
            let run = best(&|| ours(args), rounds)?;
            println!(
                "| {title}, 20,000 sessions, indexed | {:.1?} | - | - | {} MB |",
                run.wall,
                run.peak / 1000
            );
        }
        Ok(())
    }
}

fn copy_of(command: &Command) -> Command {
    let mut copy = Command::new(command.get_program());
    copy.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    copy.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => copy.env(name, value),
            None => copy.env_remove(name),
        };
    }
    copy
}

/// Returns the size of all files below a directory.
fn size_of(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => size_of(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Fills a directory with a gigabyte: the corpus again and again, each copy in projects of its own, with ids and times of its
/// own. So no program takes one for a copy of another.
fn fill(projects: &Path, dir: &Path) -> Result<()> {
    let once = dir.join("projects");
    if !once.exists() {
        let part = dir.join("projects.part");
        let _ = fs::remove_dir_all(&part);
        lay_out(&part)?;
        fs::rename(&part, &once)?;
    }
    let mut total = 0;
    for round in 0_u16.. {
        for project in fs::read_dir(&once)? {
            let project = project?;
            let to = projects.join(format!("-home-ada-{round:03}-{}", project.file_name().to_string_lossy()));
            copy_dir(&project.path(), &to)?;
            for log in rethread_testkit::logs_under(&to) {
                let mut bytes = fs::read(&log)?;
                renumber(&mut bytes, round);
                total += bytes.len() as u64;
                fs::write(&log, bytes)?;
            }
            rename_sessions(&to, round)?;
        }
        if total >= GB {
            break;
        }
    }
    Ok(())
}

/// Gives the logs and sidecar directories of a project the ids that are inside.
fn rename_sessions(dir: &Path, round: u16) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let mut name = path.file_name().unwrap_or_default().to_string_lossy().into_owned().into_bytes();
        renumber(&mut name, round);
        fs::rename(&path, path.with_file_name(String::from_utf8(name)?))?;
    }
    Ok(())
}

/// Changes every UUID, every id of a message or tool call, and the milliseconds of every time, in place.
fn renumber(bytes: &mut [u8], round: u16) {
    let hex = format!("{round:03x}").into_bytes();
    let decimal = format!("{:03}", round % 1000).into_bytes();
    let is_hex = |part: &[u8]| part.iter().all(u8::is_ascii_hexdigit);
    for at in 0..bytes.len() {
        let (before, rest) = bytes.split_at(at);
        let is_uuid = rest.first() == Some(&b'-')
            && [5, 10, 15].iter().all(|&after| rest.get(after) == Some(&b'-'))
            && at >= 8
            && is_hex(&before[at - 8..])
            && is_hex(&rest[1..5]);
        let is_id = rest.first() == Some(&b'_')
            && (before.ends_with(b"msg") || before.ends_with(b"toolu"))
            && rest.len() > 8
            && rest[1..9].iter().all(u8::is_ascii_alphanumeric);
        // "timestamp":"2026-01-31T08:00:00.000Z"
        let is_time = rest.starts_with(b"\"timestamp\":\"2")
            && (rest.get(32), rest.get(36)) == (Some(&b'.'), Some(&b'Z'));
        if is_uuid {
            bytes[at - 3..at].copy_from_slice(&hex);
        } else if is_id {
            bytes[at + 6..at + 9].copy_from_slice(&hex);
        } else if is_time {
            bytes[at + 33..at + 36].copy_from_slice(&decimal);
        }
    }
}
