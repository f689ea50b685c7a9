//! Development tasks of the workspace.
//!
//! - `cargo xtask ci` runs all checks.
//! - `cargo xtask bench` measures against reference programs.
//! - `cargo xtask corpus` clones and cleans every available session.
//! - `cargo xtask browser` tests exported pages in a real browser.
//! - `cargo xtask pictures` makes the pictures of the documentation.
//! - `cargo xtask conventions` checks rules that the compiler cannot.
//! - `cargo xtask real-client` compares with the real client.
//! - `cargo xtask hostile` counts the work on hostile sessions.
//! - `cargo xtask hunt` searches for sessions that violate a law.
//! - `cargo xtask fuzz` runs the fuzzers.

mod bench;
mod browser;
mod conventions;
mod corpus;
mod fuzz;
mod generate;
mod hostile;
mod pictures;
mod real_client;
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci(),
        ["bench", ..] => bench::run(&args[1..]),
        ["corpus", ..] => corpus::run(&args[1..]),
        ["browser"] => browser::run(),
        ["pictures", ..] => pictures::run(&args[1..]),
        ["conventions"] => conventions::run(),
        ["real-client", ..] => real_client::run(&args[1..]),
        ["hostile", ..] => hostile::run(&args[1..]),
        ["hunt"] => hunt(1000, None),
        ["hunt", cases] => hunt(cases.parse()?, None),
        ["hunt", cases, test] => hunt(cases.parse()?, Some(test)),
        ["fuzz"] => fuzz::run(&fuzz::Effort::Seconds(60)),
        ["fuzz", seconds] => fuzz::run(&fuzz::Effort::Seconds(seconds.parse()?)),
        _ => bail!(
            "usage: cargo xtask ci | bench [--quick] [info|ls|growth|check|preview|clone|clean|export|picker|search|usage] | corpus [--recipe NAME] [DIR…] | browser | pictures [--binary PATH] [--matrix DIR] | conventions | hostile [--sample N] [FILTER…] | hunt [CASES [TEST]] | fuzz [SECONDS] | {}",
            real_client::USAGE
        ),
    }
}

/// Runs the checks that a change must pass.
fn ci() -> Result<()> {
    cargo(&["fmt", "--all", "--", "--check"], &[])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])?;
    cargo(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])?;
    conventions::run()?;
    // The tests of the picker run in it.
    tools::debian_program(&["tmux"], &["tmux"])?;
    cargo(&["test", "--workspace"], &[])?;
    corpus::run(&[])?;
    // All 704 cases take half an hour of CPU time.
    hostile::run(&["--sample".to_owned(), "8".to_owned()])?;
    browser::run()?;
    real_client::run(&[])?;
    fuzz::run(&fuzz::Effort::Reproducible)
}

/// Runs every property test, or those of one test file, on new cases.
fn hunt(cases: u32, test: Option<&str>) -> Result<()> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let seed = now.subsec_nanos().to_string();
    println!("PROPTEST_RNG_SEED={seed} PROPTEST_CASES={cases}");
    let env = [("PROPTEST_RNG_SEED", seed.as_str()), ("PROPTEST_CASES", &cases.to_string())];
    let mut args = vec!["test", "--workspace"];
    if let Some(test) = test {
        args.extend(["--test", test]);
    }
    cargo(&args, &env)
}

/// Prints and runs a cargo command in the workspace.
fn cargo(args: &[&str], env: &[(&str, &str)]) -> Result<()> {
    println!("$ cargo {}", args.join(" "));
    let status =
        Command::new("cargo").args(args).envs(env.iter().copied()).current_dir(workspace()).status()?;
    if !status.success() {
        bail!("cargo {} failed", args.join(" "));
    }
    Ok(())
}

/// Returns the root of the workspace that the command was started in. `cargo run` sets the variable; the directory
/// of the build is only a fallback, because checkouts can share a target directory, and with it this program.
fn workspace() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let manifest_dir = manifest_dir.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        manifest_dir.parent().expect("xtask is in the workspace").to_owned()
    })
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}
