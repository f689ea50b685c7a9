//! The work of every command on hostile shapes, counted at two sizes.
//!
//! Work is the number of instructions that valgrind counts, so the figures hardly vary and do not depend on the load
//! of the machine. Without valgrind the check is skipped with a note.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use rethread_testkit::shapes::SHAPES;

use crate::{cargo, target_dir};

/// The size of the small shapes; the large ones have `TIMES` this size.
const SIZE: u32 = 200;
const TIMES: u32 = 4;
/// The maximum ratio of the work; sorting adds a little to linear work.
const MAX_RATIO: f64 = 5.0;
/// Less work than this is not compared.
const MIN_WORK: u64 = 1_000_000;

/// The name and arguments of each command; `SESSION` and `OUT` are filled in.
const COMMANDS: [(&str, &[&str]); 24] = [
    ("ls", &["ls", "--all"]),
    ("info", &["info", "SESSION"]),
    ("tree", &["tree", "SESSION"]),
    ("outline", &["outline", "SESSION"]),
    ("show", &["show", "SESSION"]),
    ("show --at", &["show", "--at", "1", "--around", "3", "--max-chars", "4000", "SESSION"]),
    ("show --json", &["show", "--json", "SESSION"]),
    ("check", &["check", "--client", "all", "SESSION"]),
    ("preview", &["preview", "SESSION"]),
    ("repair", &["repair", "SESSION"]),
    ("clone", &["clone", "SESSION"]),
    ("clone --path", &["clone", "--path", "1", "SESSION"]),
    ("clone --light", &["clone", "--light", "SESSION"]),
    ("clone --standard", &["clone", "--standard", "SESSION"]),
    ("clone --heavy", &["clone", "--heavy", "SESSION"]),
    ("clone --extreme", &["clone", "--extreme", "SESSION"]),
    ("clone --strip-thinking", &["clone", "--strip-thinking", "SESSION"]),
    ("clone --compress", &["clone", "--compress=5", "SESSION"]),
    ("clean", &["clean", "--redact", "-o", "OUT", "SESSION"]),
    ("clean --strong", &["clean", "--level", "strong", "-o", "OUT", "SESSION"]),
    ("secrets", &["secrets", "SESSION"]),
    ("export md", &["export", "-f", "md", "-o", "OUT", "SESSION"]),
    ("export html", &["export", "-f", "html", "-o", "OUT", "SESSION"]),
    ("export json", &["export", "-f", "json", "-o", "OUT", "SESSION"]),
];

/// Counts the work of all commands on all shapes, or of those whose names contain one of `filters`.
pub(crate) fn run(filters: &[String]) -> Result<()> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIPPED: hostile: valgrind is not installed");
        return Ok(());
    }
    let bin = match std::env::var_os("RETHREAD_BIN") {
        Some(bin) => bin.into(),
        None => {
            cargo(&["build", "--release", "-p", "rethread-cli"], &[])?;
            target_dir().join("release/rethread")
        }
    };
    let (every, filters) = match filters {
        [flag, every, filters @ ..] if flag == "--sample" => (every.parse()?, filters),
        filters => (1, filters),
    };
    let wanted =
        |name: &str| filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()));
    let pairs = SHAPES.iter().enumerate().flat_map(|(row, shape)| {
        // Diagonals, so that a sample has every shape and every command.
        COMMANDS
            .iter()
            .enumerate()
            .filter(move |(column, _)| (row + column).is_multiple_of(every))
            .map(move |(_, c)| (shape, c))
    });
    let cases: Vec<_> =
        pairs.filter(|(shape, command)| wanted(&format!("{} {}", shape.0, command.0))).collect();
    let dir = tempfile::tempdir()?;
    let failed: Vec<String> = cases
        .par_iter()
        .enumerate()
        .map(|(n, ((shape, build), (command, args)))| {
            let at = |size: u32| {
                let home = dir.path().join(format!("{n}-{size}"));
                count_instructions(&bin, &home, &build(size).bytes(), args)
                    .with_context(|| format!("{command} of {shape}"))
            };
            let (start, small, large) = (at(1)?, at(SIZE)?, at(SIZE * TIMES)?);
            let ratio = large.saturating_sub(start) as f64 / small.saturating_sub(start).max(MIN_WORK) as f64;
            let report = format!("{shape}, {command}: {small} and {large} instructions, {ratio:.2} times");
            println!("{report}");
            Ok((ratio > MAX_RATIO).then_some(report))
        })
        .collect::<Result<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    if !failed.is_empty() {
        bail!("work grows faster than linear:\n{}", failed.join("\n"));
    }
    println!("hostile: {} cases, the work of each is linear", cases.len());
    Ok(())
}

/// Counts the instructions of one command on one log.
fn count_instructions(bin: &Path, home: &Path, log: &[u8], args: &[&str]) -> Result<u64> {
    let project = home.join("projects/-home-user-app");
    fs::create_dir_all(&project)?;
    let session = project.join("00000001-0000-4000-8000-000000000000.jsonl");
    fs::write(&session, log)?;
    let out = home.join("out");
    let args = args.iter().map(|arg| match *arg {
        "SESSION" => session.as_os_str(),
        "OUT" => out.as_os_str(),
        arg => arg.as_ref(),
    });
    let found = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(bin)
        .args(args)
        .arg("--config-dir")
        .arg(home)
        .env("RETHREAD_NOW", "2026-03-01T00:00:00Z")
        .stdin(Stdio::null())
        .output()?;
    let output = String::from_utf8_lossy(&found.stderr);
    if !matches!(found.status.code(), Some(0 | 1)) {
        bail!("{output}");
    }
    fs::remove_dir_all(home)?;
    let collected = output.lines().filter_map(|line| line.split("Collected :").nth(1)).next_back();
    collected.context("valgrind counted nothing")?.trim().parse().context("valgrind did not print a number")
}
