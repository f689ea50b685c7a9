//! Benchmarks: rethread and the reference alternate in one run; the best of several rounds counts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::generate;
use crate::{cargo, target_dir, workspace};

const GB: u64 = 1_000_000_000;

/// One measured run.
#[derive(Clone, Copy)]
struct Measurement {
    wall: Duration,
    /// The peak memory of the process, in kB.
    peak: u64,
}

pub(crate) fn run(args: &[String]) -> Result<()> {
    let quick = args.iter().any(|arg| arg == "--quick");
    let rounds = if quick { 2 } else { 7 };
    let only = args.iter().find(|arg| !arg.starts_with("--")).map(String::as_str);
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    cargo(&["build", "--release", "-p", "rethread-cli"], &[])?;
    let us = target_dir().join("release/rethread");
    let dir = target_dir().join("bench");
    fs::create_dir_all(&dir)?;
    println!("| what | rethread | reference | ratio | peak memory |");
    println!("|---|---|---|---|---|");
    if wanted("info") {
        info(&us, &dir, rounds)?;
    }
    if wanted("ls") {
        ls(&us, &dir, rounds)?;
    }
    if wanted("growth") {
        growth(&us, &dir, rounds.min(3))?;
    }
    if wanted("check") {
        check(&us, &dir, rounds)?;
    }
    if wanted("preview") {
        preview(&us, &dir, rounds.min(5))?;
    }
    if wanted("clone") {
        clone(&us, &dir, rounds)?;
    }
    if wanted("clean") {
        clean(&us, &dir, rounds)?;
    }
    if wanted("export") {
        export(&us, &dir, rounds.min(3))?;
    }
    Ok(())
}

/// Compares `export` of the corpus to HTML with the two best-known exporters from PyPI.
fn export(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let projects = dir.join("projects");
    if !projects.exists() {
        let partial = dir.join("projects.part");
        let _ = fs::remove_dir_all(&partial);
        lay_out(&partial)?;
        fs::rename(&partial, &projects)?;
    }
    let python = match python(dir, "exporters", &["claude-code-log", "claude-code-transcripts"]) {
        Ok(python) => python,
        Err(error) => {
            println!("| `export`, HTML | - | no exporters: {error} | - | - |");
            return Ok(());
        }
    };
    let work = dir.join("export");
    // Both exporters keep caches, so every run starts with fresh directories. Only the run itself is timed.
    let fresh = |name: &str| -> PathBuf {
        let path = work.join(name);
        let _ = fs::remove_dir_all(&path);
        let _ = fs::create_dir_all(&work);
        path
    };
    let tool = |name: &str, args: &[&str]| {
        let mut theirs = command(&python.with_file_name(name), args);
        theirs.env("HOME", fresh("home")).env("CLAUDE_CONFIG_DIR", work.join("home")).stderr(Stdio::null());
        theirs
    };
    let ours = |format: &str| {
        let (projects, out) = (projects.to_string_lossy(), fresh("ours"));
        command(us, &["export", &projects, "-q", "--json", "-f", format, "-o", &out.to_string_lossy()])
    };
    let log = |format: &str| {
        let copy = fresh("copy");
        copy_all(&projects, &copy).expect("corpus can be copied");
        tool("claude-code-log", &["convert", &copy.to_string_lossy(), "--all-projects", "--format", format])
    };
    let transcripts = || {
        let out = fresh("theirs");
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
    for log in logs_in(&corpus)? {
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

fn copy_all(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_all(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Compares `check` over 1 GB of the corpus with our own `info` over the same files.
fn check(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let logs = gigabyte(dir)?;
    let ours = || command(us, &["check", "--json", "-q", &logs.to_string_lossy()]);
    let info = || command(us, &["info", "--json", "-q", &logs.to_string_lossy()]);
    row("`check`, 1 GB of logs; `info` of the same", &ours, &info, rounds)
}

/// Compares `preview` of a session of 60 MB with the functions of the official SDKs that read its messages.
fn preview(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    const ID: &str = "0000003c-0000-4000-8000-000000000000";
    let config = dir.join("one");
    let project = config.join("projects/-home-user-app");
    let log = project.join(format!("{ID}.jsonl"));
    generated(&log, 60_000_000, 60)?;
    let ours = || command(us, &["preview", "--json", "-q", &log.to_string_lossy()]);
    match python(dir, "sdk", &["claude-agent-sdk"]) {
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
    match node(dir, "sdk-ts", "@anthropic-ai/claude-agent-sdk") {
        Ok((node, modules)) => {
            let script = format!(
                "import {{ getSessionMessages }} from '@anthropic-ai/claude-agent-sdk'; \
                 if (!(await getSessionMessages('{ID}')).length) process.exit(9);"
            );
            let theirs = || {
                let mut theirs = command(&node, &["--input-type=module", "-e", &script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config).current_dir(&modules);
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

/// Compares `clone` with copying the file, with ccs-cloner, which strips tools too, and with the forks of the SDKs.
fn clone(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    const BIG: &str = "000000c8-0000-4000-8000-000000000000";
    const ID: &str = "0000003c-0000-4000-8000-000000000000";
    let make_session = |name: &str, id: &str, bytes: u64| -> Result<(PathBuf, PathBuf)> {
        let config = dir.join(name);
        let log = config.join("projects/-home-user-app").join(format!("{id}.jsonl"));
        generated(&log, bytes, 60)?;
        Ok((config, log))
    };
    // Remove the output of earlier runs.
    let clear = |log: &Path| {
        let entries = log.parent().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).filter(|path| path != log) {
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    };
    let (_, big) = make_session("clone-200", BIG, 200_000_000)?;
    let ours = || {
        clear(&big);
        command(us, &["clone", "-q", &big.to_string_lossy()])
    };
    let copy = big.with_file_name("copy");
    let script = format!("cp '{}' '{}' && sync '{}'", big.display(), copy.display(), copy.display());
    let theirs = || {
        clear(&big);
        command(Path::new("sh"), &["-c", &script])
    };
    row("`clone`, 200 MB; `cp` and `sync`", &ours, &theirs, rounds)?;
    clear(&big);

    let (config, log) = make_session("clone-60", ID, 60_000_000)?;
    let config_dir = config.to_string_lossy().into_owned();
    let recipes: [(&str, &[&str], &str); 9] = [
        ("", &[], ""),
        ("--keep-ids", &["--keep-ids"], ""),
        ("--path 1", &["--path", "1"], ""),
        ("--light", &["--light"], "default"),
        ("--standard", &["--standard"], "default"),
        ("--heavy", &["--heavy"], "heavy"),
        ("--extreme", &["--extreme"], "extreme"),
        ("--strip-thinking", &["--strip-thinking"], "default"),
        ("--compress=5", &["--compress=5"], "extreme"),
    ];
    let ours = |recipe: &[&str]| {
        clear(&log);
        let mut ours = command(us, &[&["clone", "-q", &log.to_string_lossy()], recipe].concat());
        ours.env("CLAUDE_CONFIG_DIR", &config);
        ours
    };
    match node(dir, "ccs-cloner", "ccs-cloner") {
        Ok((node, modules)) => {
            let program = modules.join("node_modules/ccs-cloner/dist/cli.js").to_string_lossy().into_owned();
            for (name, recipe, preset) in recipes {
                let strip = format!("--strip-tools={preset}");
                let theirs = || {
                    clear(&log);
                    let mut args = vec![program.as_str(), "clone", ID, "--claude-dir", &config_dir];
                    args.extend(Some(strip.as_str()).filter(|_| !preset.is_empty()));
                    command(&node, &args)
                };
                let what = format!("`clone {name}`, 60 MB; ccs-cloner {preset}");
                row(&what, &|| ours(recipe), &theirs, rounds.min(5))?;
            }
        }
        Err(error) => println!("| `clone`, 60 MB | - | no ccs-cloner: {error} | - | - |"),
    }
    match node(dir, "sdk-ts", "@anthropic-ai/claude-agent-sdk") {
        Ok((node, modules)) => {
            let script = format!(
                "import {{ forkSession }} from '@anthropic-ai/claude-agent-sdk'; await forkSession('{ID}');"
            );
            let theirs = || {
                clear(&log);
                let mut theirs = command(&node, &["--input-type=module", "-e", &script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config).current_dir(&modules);
                theirs
            };
            for (name, recipe, _) in recipes {
                let what = format!("`clone {name}`, 60 MB; SDK for TypeScript `forkSession`");
                row(&what, &|| ours(recipe), &theirs, rounds.min(3))?;
            }
        }
        Err(error) => println!("| `clone`, 60 MB | - | no SDK: {error} | - | - |"),
    }
    match python(dir, "sdk", &["claude-agent-sdk"]) {
        Ok(python) => {
            let script = format!("from claude_agent_sdk import fork_session; assert fork_session('{ID}')");
            let theirs = || {
                clear(&log);
                let mut theirs = command(&python, &["-c", &script]);
                theirs.env("CLAUDE_CONFIG_DIR", &config);
                theirs
            };
            row("`clone`, 60 MB; SDK for Python `fork_session`", &|| ours(&[]), &theirs, rounds.min(3))?;
        }
        Err(error) => println!("| `clone`, 60 MB | - | no SDK: {error} | - | - |"),
    }
    clear(&log);
    Ok(())
}

/// Installs an npm package into its own directory, once.
fn node(dir: &Path, name: &str, package: &str) -> Result<(PathBuf, PathBuf)> {
    let (node, npm) = (which("node")?, which("npm")?);
    let modules = dir.join(name);
    if !modules.join("installed").exists() {
        fs::create_dir_all(&modules)?;
        let status = Command::new(npm)
            .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
            .arg(&modules)
            .arg(package)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            bail!("it cannot be installed");
        }
        fs::write(modules.join("installed"), "")?;
    }
    Ok((node, modules))
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
fn info(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let logs = gigabyte(dir)?;
    let Ok(rg) = which("rg") else {
        println!("| `info`, 1 GB | - | rg is not installed | - | - |");
        return Ok(());
    };
    let ours = || command(us, &["info", "--json", "-q", &logs.to_string_lossy()]);
    let theirs = || command(&rg, &["-uu", "-c", "\"parentUuid\"", &logs.to_string_lossy()]);
    row("`info`, 1 GB of logs; `rg -c '\"parentUuid\"'`", &ours, &theirs, rounds)
}

/// Fills a directory with copies of the corpus, or with generated logs if there is none.
fn fill(dir: &Path) -> Result<()> {
    let corpus = workspace().join("../shared/corpus");
    let mut total = 0;
    for round in 0.. {
        let to = dir.join(format!("{round:03}"));
        fs::create_dir_all(&to)?;
        if corpus.is_dir() {
            for (i, log) in logs_in(&corpus)?.iter().enumerate() {
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

fn logs_in(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(logs_in(&path)?);
        } else if path.extension().is_some_and(|e| e == "jsonl")
            && path.file_name().is_some_and(|n| n != "expected.jsonl")
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Compares `ls` of 1,000 sessions of 250 kB with `list_sessions` of the official SDK.
fn ls(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
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
    let ours = || command(us, &["--config-dir", &config.to_string_lossy(), "ls", "--all", "--json", "-q"]);
    match python(dir, "sdk", &["claude-agent-sdk"]) {
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
fn clean(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    let hoards = dir.join("hoards");
    if !hoards.exists() {
        let part = dir.join("hoards.part");
        fs::create_dir_all(&part)?;
        for n in 0..20 {
            fs::write(
                part.join(format!("{n}.jsonl")),
                rethread_testkit::bulky_session::bulky_session(n, 24).bytes(),
            )?;
        }
        fs::rename(&part, &hoards)?;
    }
    let texts = dir.join("texts");
    for n in 0..20 {
        generated(&texts.join(format!("{n}.jsonl")), 10_000_000, n)?;
    }
    for (name, sessions) in [("pictures and files", &hoards), ("texts", &texts)] {
        let sessions = sessions.to_string_lossy();
        let out = dir.join("cleaned").to_string_lossy().into_owned();
        for more in [&[][..], &["--redact"]] {
            let ours = || {
                let _ = fs::remove_dir_all(&out);
                command(us, &[&["clean", "-q", "-l", "standard", "-o", &out, &sessions], more].concat())
            };
            let theirs = || command(us, &["info", "-q", "--json", &sessions]);
            let what = format!("`clean {}`, 200 MB of {name}; our `info`", more.join(" "));
            row(&what, &ours, &theirs, rounds)?;
        }
    }
    let few = dir.join("few");
    if !few.exists() {
        fs::create_dir_all(&few)?;
        let corpus =
            rethread_testkit::shared("corpus").map(|dir| logs_in(&dir)).transpose()?.unwrap_or_default();
        for (n, log) in corpus.iter().enumerate().step_by(12) {
            fs::copy(log, few.join(format!("{n}.jsonl")))?;
        }
        if corpus.is_empty() {
            generated(&few.join("a.jsonl"), 4_000_000, 77)?;
        }
    }
    match python(dir, "detect-secrets", &["detect-secrets"]) {
        Ok(python) => {
            let files = few.to_string_lossy().into_owned();
            let ours = || command(us, &["secrets", "-q", &files]);
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

/// Installs PyPI packages into their own environment, once.
fn python(dir: &Path, name: &str, packages: &[&str]) -> Result<PathBuf> {
    let env = dir.join(name);
    let python = env.join("bin/python");
    if !env.join("installed").exists() {
        let python3 = which("python3")?;
        let quiet = |command: &mut Command| -> Result<()> {
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            if !status.success() {
                bail!("they cannot be installed");
            }
            Ok(())
        };
        quiet(Command::new(python3).args(["-m", "venv"]).arg(&env))?;
        quiet(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))?;
        fs::write(env.join("installed"), "")?;
    }
    Ok(python)
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
fn growth(us: &Path, dir: &Path, rounds: usize) -> Result<()> {
    for bytes in [GB / 100, GB / 10, GB] {
        let path = dir.join(format!("one-{}.jsonl", bytes / 1_000_000));
        generated(&path, bytes, 4711)?;
        let best = best(&|| command(us, &["info", "--json", "-q", &path.to_string_lossy()]), rounds)?;
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

pub(crate) fn which(name: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").context("no PATH")?;
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| format!("{name} is not installed"))
}

fn row(what: &str, ours: &dyn Fn() -> Command, theirs: &dyn Fn() -> Command, rounds: usize) -> Result<()> {
    let (mut us, mut them): (Option<Measurement>, Option<Measurement>) = (None, None);
    let better = |best: &mut Option<Measurement>, run: Measurement| match best {
        Some(known) if known.wall <= run.wall => known.peak = known.peak.max(run.peak),
        _ => *best = Some(run),
    };
    for _ in 0..rounds {
        better(&mut us, measure(ours())?);
        better(&mut them, measure(theirs())?);
    }
    let (us, them) = us.zip(them).context("no rounds")?;
    let ratio = us.wall.as_secs_f64() / them.wall.as_secs_f64();
    println!("| {what} | {:.3?} | {:.3?} | {ratio:.2} | {} MB |", us.wall, them.wall, us.peak / 1000);
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
