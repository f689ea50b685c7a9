//! The sample library on disk, and terminals that are not like others.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{rethread, run};
use rethread_testkit::Home;

/// Returns the copy of the sample, if there is one.
fn copy(home: &Home) -> Option<PathBuf> {
    let cache = home.path().join("nobody/.cache/rethread");
    let mut names = fs::read_dir(cache).ok()?.map(|entry| entry.expect("an entry").path());
    let found = names.next();
    assert_eq!(names.next(), None, "more than the copy was left");
    found
}

#[test]
fn commands_that_write_copy_the_sample_to_the_cache() {
    let home = Home::default();
    for args in [
        &["ls"][..],
        &["show", "0000d005"],
        &["clone", "0000d001", "-n"],
        &["repair", "0000d004", "-n"],
        &["clean", "0000d005", "-n"],
        &["clean", "0000d005", "-o", "share"],
        &["export", "-o", "notes"],
    ] {
        let output = run(&home, &[&["--demo"], args].concat());
        assert!(!output.contains("----- exit"), "{output}");
        assert_eq!(copy(&home), None, "{args:?}");
    }
    let cloned = run(&home, &["--demo", "clone", "0000d001", "--path", "1", "--title", "The driver in C"]);
    let dir = copy(&home).expect("a copy");
    assert!(cloned.contains("the sample sessions are now in"), "{cloned}");
    assert!(dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("demo-")));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&dir).expect("metadata").permissions().mode() & 0o777, 0o700);
    }
    let repaired = run(&home, &["--demo", "repair", "0000d004"]);
    assert!(!repaired.contains("are now in") && !repaired.contains("----- exit"), "{repaired}");
    let cleaned = run(&home, &["--demo", "clean", "0000d005", "--redact", "--in-place"]);
    assert!(!cleaned.contains("----- exit"), "{cleaned}");
    let listed = run(&home, &["--demo", "ls", "-q"]);
    assert!(listed.contains("The driver in C"), "{listed}");
    assert!(!run(&home, &["--demo", "secrets", "0000d005"]).contains("ghp_"));
}

#[test]
fn sample_that_cannot_be_written_is_an_error_with_a_hint() {
    let home = Home::default();
    home.write("file", b"");
    let output = rethread(home.path())
        .args(["--demo", "clone", "0000d001"])
        .env("XDG_CACHE_HOME", home.path().join("file"))
        .output()
        .expect("run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("cannot write the sample sessions") && text.contains("hint: "), "{text}");
}

#[test]
fn printed_commands_name_the_sample() {
    let home = Home::default();
    let output = run(&home, &["--demo", "secrets", "0000d005"]);
    assert!(output.contains("`rethread --demo clean "), "{output}");
}

/// Runs the program on a terminal, if `script` can make one.
#[cfg(target_os = "linux")]
fn on_a_terminal(home: &Path, args: &str, env: &[(&str, &str)]) -> Option<String> {
    let program = rethread(home);
    let line = format!("{} --demo {args}", program.get_program().to_string_lossy());
    let mut command = Command::new("script");
    command.args(["-qec", &line, "/dev/null"]).env_clear().current_dir(home);
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", std::env::var_os("PATH")?).env("SHELL", "/bin/sh").env("TERM", "xterm");
    command.env("PAGER", "cat").envs(env.iter().copied()).stdin(std::process::Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn terminal_without_utf8_gets_ascii() {
    let home = Home::default();
    let run = |args, env| on_a_terminal(home.path(), args, env);
    let Some(utf8) = run("tree 0000d001", &[("LC_ALL", "C.UTF-8")]) else { return };
    assert!(utf8.contains('●') && utf8.contains('\u{1b}'), "{utf8}");
    for args in ["tree 0000d001", "show 0000d005 --tools full", "ls", "check", "--help", "show nope; true"] {
        let ascii = run(args, &[("LC_ALL", "C")]).expect("a terminal");
        assert!(ascii.is_ascii(), "{ascii}");
    }
    let dumb = run("tree 0000d001", &[("TERM", "dumb")]).expect("a terminal");
    assert!(dumb.is_ascii() && !dumb.contains('\u{1b}'), "{dumb}");
    let dumb = run("tree 0000d001", &[("TERM", "dumb"), ("LANG", "de_DE.UTF-8")]).expect("a terminal");
    assert!(dumb.contains('●') && !dumb.contains('\u{1b}'), "{dumb}");
}
