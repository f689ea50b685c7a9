//! Every example in the help, in README.md and in docs/ runs as printed.
//!
//! The examples see the sample library twice: with `--demo`, and as the sessions of a user who is in one of its
//! projects.

#[allow(dead_code, reason = "the test needs only the table")]
#[path = "../src/examples.rs"]
mod examples;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use examples::EXAMPLES;
use rethread::Library;
use rethread::internals::store::project_dir_name;
use rethread_testkit::Home;

/// Lines of the documentation that exit with 1, because they find something.
const FINDINGS: &[&str] =
    &["rethread secrets last", "rethread --demo secrets 0000d005", "rethread check --all"];

/// A few hours after the newest sample session.
const SOON: &str = "2026-01-09T12:00:00Z";
/// Months after it, as for a reader of the documentation.
const LATER: &str = "2026-11-18T12:00:00Z";

/// A user's home directory with the sample as the user's sessions.
struct Sandbox {
    home: Home,
}

impl Sandbox {
    fn new() -> Self {
        let home = Home::default();
        let root = home.path().canonicalize().expect("a directory");
        let sample = root.join("sample");
        Library::write_demo(&sample).expect("written");
        for project in ["kettle", "almanac"] {
            let here = root.join("ada").join(project);
            fs::create_dir_all(&here).expect("created");
            let from = sample.join("projects").join(format!("-home-ada-{project}"));
            for log in fs::read_dir(from).expect("a project") {
                let log = log.expect("an entry");
                let text = fs::read_to_string(log.path()).expect("a log");
                let text = text.replace("/home/ada", &root.join("ada").to_string_lossy());
                let dir = project_dir_name(&here.to_string_lossy());
                let name = log.file_name().into_string().expect("text");
                home.write(&format!("ada/.claude/projects/{dir}/{name}"), text.as_bytes());
            }
        }
        let client = home.write("bin/claude", b"#!/bin/sh\necho client \"$@\"\n");
        make_executable(&client);
        fs::create_dir_all(root.join("work")).expect("created");
        Self { home }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().canonicalize().expect("a directory").join(name)
    }

    /// Runs a line in a shell, in the directory of a project; returns its output and its exit status.
    fn run(&self, line: &str, now: &str) -> (String, i32) {
        let program = assert_cmd::cargo::cargo_bin!("rethread");
        let usual = std::env::var_os("PATH").unwrap_or_default();
        let dirs = [self.path("bin"), program.parent().expect("a directory").to_owned()];
        let path: OsString =
            std::env::join_paths(dirs.into_iter().chain(std::env::split_paths(&usual))).expect("a path");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{{ {line}\n}} 2>&1")]).env_clear().current_dir(self.path("ada/kettle"));
        command.env("PATH", path).env("HOME", self.path("ada")).env("XDG_CACHE_HOME", self.path("cache"));
        command.env("TZ", "UTC").env("RETHREAD_NOW", now).env("COLUMNS", "100");
        let output = command.stdin(Stdio::null()).output().expect("sh");
        (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code().unwrap_or(-1))
    }
}

fn make_executable(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
    }
}

/// Returns whether the programs that a line pipes into are installed.
fn is_runnable(line: &str) -> bool {
    ["jq", "man"].iter().all(|program| {
        let is_used = line.contains(&format!("| {program} "));
        !is_used || Command::new(program).arg("--version").output().is_ok()
    })
}

#[test]
fn every_example_of_the_help_runs() {
    let mut failures = Vec::new();
    for example in EXAMPLES.iter().flat_map(|(_, examples)| *examples).filter(|e| is_runnable(e.line)) {
        let (output, status) = Sandbox::new().run(example.line, SOON);
        if status != example.status {
            failures.push(format!("$ {}\n{output}exit {status}, not {}\n", example.line, example.status));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_command_has_examples_in_both_helps() {
    let sandbox = Sandbox::new();
    let (help, _) = sandbox.run("rethread --help", SOON);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A line that is indented further continues a description.
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !matches!(*name, "" | "help"));
    for name in names.chain([""]) {
        let examples = EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, examples)| *examples);
        let examples = examples.unwrap_or_else(|| panic!("`{name}` has no examples"));
        assert!((2..=4).contains(&examples.len()), "`{name}` has {} examples", examples.len());
        for option in ["-h", "--help"] {
            let (help, _) = sandbox.run(&format!("rethread {name} {option}"), SOON);
            assert!(examples.iter().all(|example| help.contains(example.line)), "{name} {option}: {help}");
            assert!(help.lines().all(|line| line.chars().count() <= 100), "{name} {option}: {help}");
        }
    }
}

/// A line of the documentation with the output printed below it.
struct DocumentedLine {
    line: String,
    output: Option<String>,
}

/// Returns the command lines of a document: `$ rethread …` in console blocks with their output, and `rethread …  # purpose`
/// in blocks for a shell.
fn documented_lines(text: &str) -> Vec<DocumentedLine> {
    let mut found: Vec<DocumentedLine> = Vec::new();
    let mut block: Option<&str> = None;
    for line in text.lines() {
        if let Some(language) = line.strip_prefix("```") {
            block = if block.is_some() { None } else { Some(language) };
        } else if block == Some("console") {
            match (line.strip_prefix("$ "), found.last_mut()) {
                (Some(command), _) => {
                    let line = without_comment(command).to_owned();
                    found.push(DocumentedLine { line, output: Some(String::new()) });
                }
                (None, Some(last)) => {
                    last.output.get_or_insert_default().push_str(&format!("{line}\n"));
                }
                _ => {}
            }
        } else if block == Some("sh") || block.is_none() && line.starts_with("    rethread ") {
            found.push(DocumentedLine { line: without_comment(line.trim()).to_owned(), output: None });
        }
    }
    found
}

fn without_comment(line: &str) -> &str {
    line.split_once(" # ").map_or(line, |(command, _)| command).trim()
}

#[test]
fn every_example_of_the_documentation_runs_as_printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs")).expect("docs").map(|entry| entry.expect("an entry").path());
    let files = docs.chain([root.join("README.md"), root.join("CONTRIBUTING.md")]);
    let mut failures = Vec::new();
    for file in files.filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        // Lines of a document build on each other.
        let sandbox = Sandbox::new();
        for DocumentedLine { line, output } in documented_lines(&fs::read_to_string(&file).expect("text")) {
            if !line.starts_with("rethread") || !is_runnable(&line) {
                continue;
            }
            let expected = i32::from(FINDINGS.contains(&line.as_str()));
            let (printed, status) = sandbox.run(&line, LATER);
            if status != expected {
                failures.push(format!("{}: $ {line}\n{printed}exit {status}", file.display()));
            }
            if let Some(output) = output.filter(|output| !output.is_empty() && *output != printed) {
                failures.push(format!("{}: $ {line}\n{printed}instead of\n{output}", file.display()));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
