//! Fuzzing with libFuzzer on the stable compiler, without further tools.

use std::process::Command;

use anyhow::{Result, bail};

use crate::{target_dir, workspace};

const TARGETS: [&str; 3] = ["read", "model", "document"];

/// Instruments the code for coverage, as the fuzzer needs it.
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Ccodegen-units=1 --cfg fuzzing";

/// Runs every target for a number of seconds; prints a note where the fuzzer cannot run.
pub(crate) fn run(seconds: u64) -> Result<()> {
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
        let corpus = target.join("corpus").join(name);
        let crashes = target.join("crashes").join(name);
        std::fs::create_dir_all(&corpus)?;
        std::fs::create_dir_all(&crashes)?;
        println!("$ {name} for {seconds} s");
        let output = Command::new(target.join(TRIPLE).join("release").join(name))
            .arg(&corpus)
            .arg(fuzz.join("seeds"))
            .arg(format!("-dict={}", fuzz.join("markdown.dict").display()))
            .arg(format!("-max_total_time={seconds}"))
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
