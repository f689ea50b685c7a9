//! Fuzzing with libFuzzer on the stable compiler, without further tools.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{target_dir, workspace};

const TARGETS: [&str; 3] = ["read", "model", "document"];

/// Instruments the code for coverage, as the fuzzer needs it.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 --cfg fuzzing";

/// The inputs that every target is run on.
pub(crate) enum Effort {
    /// A fixed number of inputs from a fixed seed, starting from the kept inputs only: the same code gives
    /// the same result on every machine.
    Reproducible,
    /// New inputs for a number of seconds, starting from everything that earlier runs found.
    Seconds(u64),
}

/// Number of inputs of a reproducible run; less than a minute per target.
const RUNS: u32 = 50_000;

/// Runs every target; prints a note where the fuzzer cannot run.
pub(crate) fn run(effort: &Effort) -> Result<()> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        println!("SKIPPED: the fuzzer runs on x86-64 Linux only");
        return Ok(());
    }
    const TRIPLE: &str = "x86_64-unknown-linux-gnu";
    let fuzz = workspace().join("fuzz");
    let target = target_dir().join("fuzz");
    println!("$ cargo build --release (in fuzz/)");
    // With an explicit target the flags do not apply to build scripts.
    let built = Command::new("cargo")
        .args(["build", "--release", "--target", TRIPLE])
        .current_dir(&fuzz)
        .env("RUSTFLAGS", FLAGS)
        .env("CARGO_TARGET_DIR", &target)
        .status()?;
    if !built.success() {
        bail!("the fuzz targets do not build");
    }
    for name in TARGETS {
        let (corpus, limit) = match effort {
            Effort::Reproducible => {
                let corpus = target.join("reproducible").join(name);
                let _ = std::fs::remove_dir_all(&corpus);
                (corpus, vec!["-seed=1".to_owned(), format!("-runs={RUNS}")])
            }
            Effort::Seconds(seconds) => {
                (target.join("corpus").join(name), vec![format!("-max_total_time={seconds}")])
            }
        };
        let crashes = target.join("crashes").join(name);
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&crashes)?;
        println!("$ {name} {}", limit.join(" "));
        let output = Command::new(target.join(TRIPLE).join("release").join(name))
            .arg(&corpus)
            .arg(fuzz.join("seeds"))
            .arg(format!("-dict={}", fuzz.join("markdown.dict").display()))
            .args(&limit)
            .arg(format!("-artifact_prefix={}/", crashes.display()))
            .args([
                "-timeout=10",
                "-rss_limit_mb=2048",
                "-max_len=4096",
                "-print_final_stats=1",
                "-verbosity=0",
            ])
            .output()?;
        // The fuzzer is verbose; if it found nothing, only its counts matter.
        let stderr = String::from_utf8_lossy(&output.stderr);
        for line in stderr.lines().filter(|line| line.starts_with("stat::") || !output.status.success()) {
            println!("{line}");
        }
        if !output.status.success() {
            bail!("the fuzzer found a failure in `{name}`; the input is under {}", crashes.display());
        }
    }
    Ok(())
}
