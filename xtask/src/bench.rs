//! Benchmarks: rethread and the reference alternate in one run; the best of several rounds counts.

mod clone;
mod picker;
mod search;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::tools::{copy_dir, node_package, python_packages, which};
use crate::{cargo, generate, target_dir, workspace};

const GB: u64 = 1_000_000_000;

/// One measured run.
#[derive(Clone, Copy)]
struct Measurement {
    wall: Duration,
    /// The peak memory of the process, in kB.
    peak: u64,
}

/// A part of the benchmarks: gets the program, a directory for data, and the number of rounds.
type BenchPart = fn(&Path, &Path, usize) -> Result<()>;

/// The parts, each with its name and its maximum number of rounds.
const PARTS: [(&str, BenchPart, usize); 11] = [
    ("info", info, 7),
    ("ls", ls, 7),
    ("growth", growth, 3),
    ("check", check, 7),
    ("preview", preview, 5),
    ("clone", clone::run, 7),
    ("clean", clean, 7),
    ("export", export, 3),
    ("picker", picker::run, 7),
    ("search", search::run, 7),
    ("usage", search::usage, 5),
];

pub(crate) fn run(args: &[String]) -> Result<()> {
    let quick = args.iter().any(|arg| arg == "--quick");
    let rounds = if quick { 2 } else { 7 };
    let only: Vec<&str> = args.iter().map(String::as_str).filter(|arg| !arg.starts_with("--")).collect();
    cargo(&["build", "--release", "-p", "rethread-cli"], &[])?;
    let rethread = target_dir().join("release/rethread");
    let dir = target_dir().join("bench");
    fs::create_dir_all(&dir)?;
    println!("| what | rethread | reference | ratio | peak memory |");
    println!("|---|---|---|---|---|");
    for (name, part, max_rounds) in PARTS {
        if only.is_empty() || only.contains(&name) {
            part(&rethread, &dir, rounds.min(max_rounds))?;
        }
    }
    Ok(())
}

/// Compares `export` of the corpus to HTML with the two best-known exporters from PyPI.
fn export(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let projects = dir.join("projects");
    if !projects.exists() {
        let partial = dir.join("projects.part");
        let _ = fs::remove_dir_all(&partial);
        lay_out(&partial)?;
        fs::rename(&partial, &projects)?;
    }
    let python = match python_packages(dir, "exporters", &["claude-code-log", "claude-code-transcripts"]) {
        Ok(python) => python,
        Err(error) => {
            println!("| `export`, HTML | - | no exporters: {error} | - | - |");
            return Ok(());
        }
    };
    let work = dir.join("export");
    // Both exporters keep caches, so every run starts with empty directories. Only the run itself is timed.
    let emptied = |name: &str| -> PathBuf {
        let path = work.join(name);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::create_dir_all(&work);
        path
    };
    let tool = |name: &str, args: &[&str]| {
        let mut theirs = command(&python.with_file_name(name), args);
        theirs.env("HOME", emptied("home")).env("CLAUDE_CONFIG_DIR", work.join("home")).stderr(Stdio::null());
        theirs
    };
    let ours = |format: &str| {
        let (projects, out) = (projects.to_string_lossy(), emptied("ours"));
        command(rethread, &["export", &projects, "-q", "--json", "-f", format, "-o", &out.to_string_lossy()])
    };
    let log = |format: &str| {
        let copy = emptied("copy");
        copy_dir(&projects, &copy).expect("corpus can be copied");
        tool("claude-code-log", &["convert", &copy.to_string_lossy(), "--all-projects", "--format", format])
    };
    let transcripts = || {
        let out = emptied("theirs");
        let (projects, out) = (projects.to_string_lossy(), out.to_string_lossy());
        tool("claude-code-transcripts", &["all", "--source", &projects, "-o", &out])
    };
    row("`export` of the corpus, HTML; claude-code-log", &|| ours("html"), &|| log("html"), rounds)?;
    row("`export` of the corpus, Markdown; claude-code-log", &|| ours("md"), &|| log("md"), rounds)?;
    row("`export` of the corpus, HTML; claude-code-transcripts", &|| ours("html"), &transcripts, rounds)
}

/// Copies the corpus, or generated logs, in the layout of a client: one directory for each project.
fn lay_out(dir: &Path) -> Result<()> {
    let corpus = workspace().join("../shared/corpus");
    if !corpus.is_dir() {
        for i in 0..60 {
            let project = dir.join(format!("project-{}", i % 6));
            fs::create_dir_all(&project)?;
            generate::session(
                &project.join(format!("{i:08x}-0000-4000-8000-000000000000.jsonl")),
                1_000_000,
                i,
            )?;
        }
        return Ok(());
    }
    for log in logs_in(&corpus) {
        let parts: Vec<_> = log.strip_prefix(&corpus)?.iter().collect();
        let [project, .., name] = parts[..] else { continue };
        let agents = parts.iter().rposition(|part| *part == "subagents" || *part == "agents");
        let mut to = dir.join(project);
        if let Some(at) = agents.filter(|at| *at > 1) {
            to = to.join(parts[at - 1]).join("subagents");
        }
        fs::create_dir_all(&to)?;
        let mut path = to.join(name);
        for n in 2.. {
            if !path.exists() {
                break;
            }
            path = to.join(format!("{n}-{}", name.to_string_lossy()));
        }
        fs::copy(&log, path)?;
    }
    Ok(())
}

/// Compares `check` over 1 GB of the corpus with our own `info` over the same files.
fn check(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let logs = gigabyte(dir)?;
    let ours = || command(rethread, &["check", "--json", "-q", &logs.to_string_lossy()]);
    let info = || command(rethread, &["info", "--json", "-q", &logs.to_string_lossy()]);
    row("`check`, 1 GB of logs; `info` of the same", &ours, &info, rounds)
}

/// Compares `preview` of a session of 60 MB with the functions of the official SDKs that read its messages.
fn preview(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    const ID: &str = "0000003c-0000-4000-8000-000000000000";
    let config = dir.join("one");
    let project = config.join("projects/-home-user-app");
    let log = project.join(format!("{ID}.jsonl"));
    generated(&log, 60_000_000, 60)?;
    let ours = || command(rethread, &["preview", "--json", "-q", &log.to_string_lossy()]);
    match python_packages(dir, "sdk", &["claude-agent-sdk"]) {
        Ok(python) => {
            let script = format!(
                "from claude_agent_sdk import get_session_messages; assert get_session_messages('{ID}')"
            );
            let theirs = || {
                let mut theirs = command(&python, &["-c", &script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config);
                theirs
            };
            row("`preview`, 60 MB; SDK for Python `get_session_messages`", &ours, &theirs, rounds)?;
        }
        Err(error) => println!("| `preview`, 60 MB | - | no SDK: {error} | - | - |"),
    }
    match node_package(dir, "sdk-ts", "@anthropic-ai/claude-agent-sdk") {
        Ok(sdk) => {
            let script = format!(
                "import {{ getSessionMessages }} from '@anthropic-ai/claude-agent-sdk'; \
                 if (!(await getSessionMessages('{ID}')).length) process.exit(9);"
            );
            let theirs = || {
                let mut theirs = command(&sdk.node, &["--input-type=module", "-e", &script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config).current_dir(&sdk.dir);
                theirs
            };
            row("`preview`, 60 MB; SDK for TypeScript `getSessionMessages`", &ours, &theirs, rounds)
        }
        Err(error) => {
            println!("| `preview`, 60 MB | - | no SDK: {error} | - | - |");
            Ok(())
        }
    }
}

/// Returns 1 GB of logs: copies of the corpus, or generated logs.
fn gigabyte(dir: &Path) -> Result<PathBuf> {
    let logs = dir.join("logs");
    if !logs.exists() {
        let partial = dir.join("logs.part");
        let _ = fs::remove_dir_all(&partial);
        fill(&partial)?;
        fs::rename(&partial, &logs)?;
    }
    Ok(logs)
}

/// Compares `info` over 1 GB of logs with `rg -c` over the same files.
fn info(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let logs = gigabyte(dir)?;
    let Ok(rg) = which("rg") else {
        println!("| `info`, 1 GB | - | rg is not installed | - | - |");
        return Ok(());
    };
    let ours = || command(rethread, &["info", "--json", "-q", &logs.to_string_lossy()]);
    let theirs = || command(&rg, &["-uu", "-c", "\"parentUuid\"", &logs.to_string_lossy()]);
    row("`info`, 1 GB of logs; `rg -c '\"parentUuid\"'`", &ours, &theirs, rounds)
}

/// Fills a directory with 1 GB of copies of the corpus, or with generated logs if there is none.
fn fill(dir: &Path) -> Result<()> {
    let corpus = workspace().join("../shared/corpus");
    let mut total = 0;
    for round in 0.. {
        let to = dir.join(format!("{round:03}"));
        fs::create_dir_all(&to)?;
        if corpus.is_dir() {
            for (i, log) in logs_in(&corpus).iter().enumerate() {
                total += fs::copy(
                    log,
                    to.join(format!("{i:03}-{}", log.file_name().unwrap_or_default().to_string_lossy())),
                )?;
            }
        } else {
            for i in 0..20 {
                generate::session(&to.join(format!("{i}.jsonl")), 1_000_000, round * 20 + i)?;
                total += 1_000_000;
            }
        }
        if total >= GB {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the logs of the corpus under a directory.
fn logs_in(dir: &Path) -> Vec<PathBuf> {
    let mut logs = rethread_testkit::logs_under(dir);
    logs.retain(|path| path.file_name().is_some_and(|name| name != "expected.jsonl"));
    logs
}

/// Compares `ls` of 1,000 sessions of 250 kB with `list_sessions` of the official SDK.
fn ls(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let config = dir.join("config");
    let project = config.join("projects/-home-user-app");
    if !project.join("done").exists() {
        fs::create_dir_all(&project)?;
        for i in 0..1000u64 {
            generate::session(
                &project.join(format!("{i:08x}-0000-4000-8000-000000000000.jsonl")),
                250_000,
                i,
            )?;
        }
        fs::write(project.join("done"), "")?;
    }
    let ours =
        || command(rethread, &["--config-dir", &config.to_string_lossy(), "ls", "--all", "--json", "-q"]);
    match python_packages(dir, "sdk", &["claude-agent-sdk"]) {
        Ok(python) => {
            let script = "from claude_agent_sdk import list_sessions; assert len(list_sessions()) == 1000";
            let theirs = || {
                let mut theirs = command(&python, &["-c", script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config);
                theirs
            };
            row("`ls`, 1,000 sessions, 250 MB; SDK `list_sessions`", &ours, &theirs, rounds)
        }
        Err(error) => {
            let best = best(&ours, rounds)?;
            println!(
                "| `ls`, 1,000 sessions, 250 MB | {:.2?} | no SDK: {error} | - | {} MB |",
                best.wall,
                best.peak / 1000
            );
            Ok(())
        }
    }
}

/// Compares `clean` with `info` on the same sessions, and `secrets` with detect-secrets.
fn clean(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let bulky = dir.join("hoards");
    if !bulky.exists() {
        let part = dir.join("hoards.part");
        fs::create_dir_all(&part)?;
        for n in 0..20 {
            fs::write(
                part.join(format!("{n}.jsonl")),
                rethread_testkit::bulky_session::bulky_session(n, 24).bytes(),
            )?;
        }
        fs::rename(&part, &bulky)?;
    }
    let texts = dir.join("texts");
    for n in 0..20 {
        generated(&texts.join(format!("{n}.jsonl")), 10_000_000, n)?;
    }
    for (name, sessions) in [("pictures and files", &bulky), ("texts", &texts)] {
        let sessions = sessions.to_string_lossy();
        let out = dir.join("cleaned").to_string_lossy().into_owned();
        for more in [&[][..], &["--redact"]] {
            let ours = || {
                let _ = fs::remove_dir_all(&out);
                command(rethread, &[&["clean", "-q", "-l", "standard", "-o", &out, &sessions], more].concat())
            };
            let theirs = || command(rethread, &["info", "-q", "--json", &sessions]);
            let title = format!("`clean {}`, 200 MB of {name}; our `info`", more.join(" "));
            row(&title, &ours, &theirs, rounds)?;
        }
    }
    let few = dir.join("few");
    if !few.exists() {
        fs::create_dir_all(&few)?;
        let corpus = rethread_testkit::shared("corpus").map(|dir| logs_in(&dir)).unwrap_or_default();
        for (n, log) in corpus.iter().enumerate().step_by(12) {
            fs::copy(log, few.join(format!("{n}.jsonl")))?;
        }
        if corpus.is_empty() {
            generated(&few.join("a.jsonl"), 4_000_000, 77)?;
        }
    }
    match python_packages(dir, "detect-secrets", &["detect-secrets"]) {
        Ok(python) => {
            let files = few.to_string_lossy().into_owned();
            let ours = || command(rethread, &["secrets", "-q", &files]);
            // Inside a repository it scans only files of the repository.
            let theirs = || {
                let mut theirs = command(&python, &["-m", "detect_secrets", "scan", "--all-files", "."]);
                theirs.current_dir(&few);
                theirs
            };
            row("`secrets`, some MB; detect-secrets", &ours, &theirs, rounds.min(3))
        }
        Err(error) => {
            println!("| `secrets`, some MB | - | no detect-secrets: {error} | - | - |");
            Ok(())
        }
    }
}

/// Generates a session of a size, once.
fn generated(path: &Path, bytes: u64, seed: u64) -> Result<()> {
    if !path.exists() {
        fs::create_dir_all(path.parent().context("a directory")?)?;
        let part = path.with_extension("part");
        generate::session(&part, bytes, seed)?;
        fs::rename(&part, path)?;
    }
    Ok(())
}

/// Measures `info` of one session of 10 MB, 100 MB and 1 GB.
fn growth(rethread: &Path, dir: &Path, rounds: usize) -> Result<()> {
    for bytes in [GB / 100, GB / 10, GB] {
        let path = dir.join(format!("one-{}.jsonl", bytes / 1_000_000));
        generated(&path, bytes, 4711)?;
        let best = best(&|| command(rethread, &["info", "--json", "-q", &path.to_string_lossy()]), rounds)?;
        let speed = bytes as f64 / best.wall.as_secs_f64() / 1e9;
        println!(
            "| `info`, one session of {} MB | {:.3?} | {speed:.2} GB/s | - | {} MB |",
            bytes / 1_000_000,
            best.wall,
            best.peak / 1000
        );
    }
    Ok(())
}

fn command(program: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).env("CLAUDE_CONFIG_DIR", "/nonexistent").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// Measures both programs in turn and prints a row of the table.
fn row(title: &str, ours: &dyn Fn() -> Command, theirs: &dyn Fn() -> Command, rounds: usize) -> Result<()> {
    let (mut us, mut them): (Option<Measurement>, Option<Measurement>) = (None, None);
    let record = |best: &mut Option<Measurement>, run: Measurement| match best {
        Some(known) if known.wall <= run.wall => known.peak = known.peak.max(run.peak),
        _ => *best = Some(run),
    };
    for _ in 0..rounds {
        record(&mut us, measure(ours())?);
        record(&mut them, measure(theirs())?);
    }
    let (us, them) = us.zip(them).context("no rounds")?;
    let ratio = us.wall.as_secs_f64() / them.wall.as_secs_f64();
    println!("| {title} | {:.3?} | {:.3?} | {ratio:.2} | {} MB |", us.wall, them.wall, us.peak / 1000);
    Ok(())
}

fn best(make: &dyn Fn() -> Command, rounds: usize) -> Result<Measurement> {
    let mut runs = (0..rounds).map(|_| measure(make())).collect::<Result<Vec<_>>>()?;
    runs.sort_by_key(|run| run.wall);
    runs.first().copied().context("no rounds")
}

/// Runs a command and samples its memory; sampling more often would slow it down.
fn measure(mut command: Command) -> Result<Measurement> {
    let started = Instant::now();
    let mut child = command.spawn()?;
    let status = PathBuf::from(format!("/proc/{}/status", child.id()));
    let (ended, watch) = std::sync::mpsc::channel::<()>();
    let watcher = std::thread::spawn(move || {
        let mut peak = 0;
        // The kernel keeps the peak, so the last sample before the end is enough.
        while watch.recv_timeout(Duration::from_millis(10)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let mark = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kb = mark.and_then(|mark| mark.trim().trim_end_matches(" kB").parse().ok());
            peak = peak.max(kb.unwrap_or(0));
        }
        peak
    });
    let status = child.wait()?;
    let wall = started.elapsed();
    drop(ended);
    // A check with findings exits with 1.
    let found = status.code() == Some(1)
        && command.get_args().next().is_some_and(|arg| arg == "check" || arg == "secrets");
    if !status.success() && !found {
        bail!("{command:?} failed");
    }
    Ok(Measurement { wall, peak: watcher.join().unwrap_or(0) })
}
