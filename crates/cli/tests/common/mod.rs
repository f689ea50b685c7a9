//! Helpers shared by the tests of the program.

#![allow(dead_code, reason = "no test file needs all of it")]

use std::path::Path;
use std::process::Command;

use rethread_testkit::Home;

/// Returns a command for the program, isolated from this machine's environment.
pub(crate) fn rethread(home: &Path) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("rethread"));
    command.env_clear().current_dir(home);
    command.env("HOME", home.join("nobody")).env("CLAUDE_CONFIG_DIR", home);
    command.env("TZ", "UTC").env("RETHREAD_NOW", "2026-01-09T12:00:00Z");
    command
}

pub(crate) fn run_with(home: &Path, args: &[&str], input: &str) -> String {
    use std::io::Write;
    let mut command = rethread(home);
    command.args(args);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("started");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("ended");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*home.to_string_lossy(), "[home]");
    let mut all = text(&output.stdout);
    if !output.stderr.is_empty() {
        all += "----- stderr\n";
        all += &text(&output.stderr);
    }
    if output.status.code() != Some(0) {
        all += &format!("----- exit {:?}\n", output.status.code());
    }
    all
}

pub(crate) fn run(home: &Home, args: &[&str]) -> String {
    run_with(home.path(), args, "")
}

pub(crate) fn demo(args: &[&str]) -> String {
    run(&Home::default(), &[&["--demo"], args].concat())
}
