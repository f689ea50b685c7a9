//! Tests of `resume`, with a stand-in for the client.

#![cfg(unix)]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};

/// A config directory with one session of a project whose directory exists, and a program that acts as the client.
struct Place {
    home: Home,
    project: PathBuf,
    bin: PathBuf,
}

impl Place {
    fn new(project: &str) -> Self {
        let home = Home::default();
        let project = home.path().canonicalize().expect("exists").join(project);
        fs::create_dir_all(&project).expect("a directory");
        let mut log = LogBuilder::new(0xa);
        log.cwd = project.to_string_lossy().into_owned();
        log.prompt("Fix the zsh prompt");
        log.answer("Done.");
        home.add(&log.cwd.clone(), &log);
        let script = "#!/bin/sh\npwd\necho \"config $CLAUDE_CONFIG_DIR\"\necho \"args $*\"\nexit 7\n";
        let client = home.write("bin/claude", script.as_bytes());
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).expect("executable");
        let bin = client.parent().expect("a directory").to_owned();
        Self { home, project, bin }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = rethread(self.home.path());
        command.env("PATH", format!("{}:/usr/bin:/bin", self.bin.display())).args(args);
        command
    }

    /// Returns the output and the exit status, with the temporary directory replaced.
    fn printed(&self, command: &mut Command) -> String {
        let output = command.output().expect("ended");
        let all = [output.stdout, output.stderr].concat();
        let mut text = String::from_utf8_lossy(&all).into_owned();
        for name in [self.home.path().canonicalize().expect("exists"), self.home.path().to_owned()] {
            text = text.replace(&*name.to_string_lossy(), "[home]");
        }
        format!("{text}exit {:?}", output.status.code())
    }
}

#[test]
fn resume_runs_the_client_in_the_directory_of_the_session() {
    let place = Place::new("it's here");
    assert_snapshot!(place.printed(&mut place.command(&["resume", "0000000a"])), @r#"
    [home]/it's here
    config [home]
    args --resume 0000000a-0000-4000-8000-000000000000
    resuming 0000000a-0000-4000-8000-000000000000 "Fix the zsh prompt" in [home]/it's here
    exit Some(7)
    "#);
    let forked = place.printed(&mut place.command(&["resume", "-q", "0000000a", "--fork"]));
    assert!(forked.contains("--fork-session") && !forked.contains("resuming"), "{forked}");
}

#[test]
fn printed_command_does_the_same_in_a_shell() {
    let place = Place::new("it's  here");
    let printed = place.command(&["resume", "0000000a", "--print"]).output().expect("ended").stdout;
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(OsStr::from_bytes(&printed))
        .env("PATH", format!("{}:/usr/bin:/bin", place.bin.display()));
    shell.env("CLAUDE_CONFIG_DIR", place.home.path());
    let run = place.command(&["resume", "-q", "0000000a"]).output().expect("ended").stdout;
    assert_eq!(
        String::from_utf8_lossy(&shell.output().expect("ended").stdout),
        String::from_utf8_lossy(&run)
    );
}

#[test]
fn config_directory_of_an_option_is_passed_on() {
    let place = Place::new("app");
    let config = place.home.path().to_string_lossy().into_owned();
    let args = ["--config-dir", &config, "resume", "0000000a"];
    let printed = place.printed(place.command(&args).env_remove("CLAUDE_CONFIG_DIR").arg("--print"));
    assert_snapshot!(printed, @"
    cd [home]/app && CLAUDE_CONFIG_DIR=[home] claude --resume 0000000a-0000-4000-8000-000000000000
    exit Some(0)
    ");
    let run = place.printed(place.command(&args).env_remove("CLAUDE_CONFIG_DIR"));
    assert!(run.contains("config [home]\n"), "{run}");
    assert_snapshot!(place.printed(&mut place.command(&["resume", "0000000a", "--json"])), @r#"
    {"type":"resume","id":"0000000a-0000-4000-8000-000000000000","dir":"[home]/app","command":"cd [home]/app && claude --resume 0000000a-0000-4000-8000-000000000000"}
    exit Some(0)
    "#);
}

#[test]
fn resume_explains_why_it_cannot() {
    let place = Place::new("app");
    let no_client =
        place.printed(place.command(&["resume", "-q", "0000000a"]).env("PATH", place.home.path()));
    assert_snapshot!(no_client, @"
    error: `claude` was not found in PATH
    hint: install Claude Code, or print the command with --print and run it elsewhere
    exit Some(2)
    ");
    place.home.write(
        "sessions/1.json",
        format!(r#"{{"pid":{},"sessionId":"0000000a-0000-4000-8000-000000000000"}}"#, std::process::id())
            .as_bytes(),
    );
    fs::rename(
        place.home.path().join("sessions/1.json"),
        place.home.path().join(format!("sessions/{}.json", std::process::id())),
    )
    .expect("renamed");
    let open = place
        .printed(&mut place.command(&["resume", "0000000a"]))
        .replace(&std::process::id().to_string(), "[pid]");
    assert_snapshot!(open, @"
    error: session 0000000a-0000-4000-8000-000000000000 is open in a client (process [pid])
    hint: close the session in the client, or continue in a copy with --fork
    exit Some(2)
    ");
    fs::remove_dir_all(place.home.path().join("sessions")).expect("removed");
    fs::remove_dir(&place.project).expect("removed");
    assert_snapshot!(place.printed(&mut place.command(&["resume", "-q", "0000000a"])), @"
    error: the directory of the session does not exist: [home]/app
    hint: create it again, or copy the session to another project: `rethread clone 0000000a --to DIR`
    exit Some(2)
    ");
}

#[test]
fn subagents_and_files_outside_projects_are_not_resumed() {
    let home = Home::default();
    let mut log = LogBuilder::new(0xb);
    log.sidechain(Some("abc"));
    log.prompt("Count the files");
    log.answer("Three.");
    home.write("projects/-x/agent-abc.jsonl", &log.bytes());
    let mut log = LogBuilder::new(0xc);
    log.prompt("Hello");
    home.write("backup/0000000c-0000-4000-8000-000000000000.jsonl", &log.bytes());
    assert_snapshot!(run(&home, &["resume", "agent-abc"]), @"
    ----- stderr
    error: `agent-abc` is the log of a subagent, which cannot be resumed
    hint: `rethread repair agent-ab` converts it into a session
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["resume", "backup/0000000c-0000-4000-8000-000000000000.jsonl"]), @"
    ----- stderr
    error: clients do not find backup/0000000c-0000-4000-8000-000000000000.jsonl
    hint: they find only logs named by a UUID in a project of a config directory
    hint: `rethread clone backup/0000000c-0000-4000-8000-000000000000.jsonl --to DIR` copies it to the project of DIR
    ----- exit Some(2)
    ");
}

#[test]
fn directory_name_that_is_not_utf_8_survives() {
    let home = Home::default();
    let project = home.path().canonicalize().expect("exists").join(OsStr::from_bytes(b"caf\xe9"));
    if fs::create_dir(&project).is_err() {
        return; // This file system has only UTF-8 names.
    }
    let place = Place { bin: Place::new("x").bin, home, project };
    let mut log = LogBuilder::new(0xa);
    log.cwd = place.project.to_string_lossy().into_owned();
    log.prompt("Hello");
    place.home.add(&log.cwd.clone(), &log);
    let script = place.home.write("bin/claude", b"#!/bin/sh\npwd\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let place = Place { bin: script.parent().map(Path::to_owned).expect("a directory"), ..place };
    let output =
        place.command(&["resume", "-q", "0000000a"]).current_dir(&place.project).output().expect("ended");
    assert_eq!(output.stdout, [place.project.as_os_str().as_bytes(), b"\n"].concat());
}

#[test]
fn relative_names_of_a_log_lead_to_the_same_command() {
    let place = Place::new("app");
    let project =
        fs::read_dir(place.home.path().join("projects")).expect("read").next().expect("one").expect("read");
    let name = project.file_name().to_string_lossy().into_owned();
    let log = "0000000a-0000-4000-8000-000000000000.jsonl";
    let wanted = place.command(&["resume", "0000000a", "--print"]).output().expect("ended").stdout;
    for (dir, path) in [
        (place.home.path().to_owned(), format!("projects/{name}/{log}")),
        (project.path(), log.to_owned()),
        (project.path(), format!("../{name}/{log}")),
    ] {
        let printed =
            place.command(&["resume", &path, "--print"]).current_dir(dir).output().expect("ended").stdout;
        assert_eq!(String::from_utf8_lossy(&printed), String::from_utf8_lossy(&wanted), "{path}");
    }
}

#[test]
fn relative_config_directory_is_found_from_the_directory_of_the_session() {
    let place = Place::new("app");
    let parent = place.home.path().parent().expect("a parent").to_owned();
    let name = place.home.path().file_name().expect("a name").to_owned();
    let mut command = place.command(&["resume", "-q", "0000000a"]);
    let printed = place.printed(command.current_dir(parent).env("CLAUDE_CONFIG_DIR", name));
    assert!(printed.contains("config [home]\n"), "{printed}");
}

#[test]
fn clone_in_another_project_is_resumed_there() {
    let place = Place::new("app");
    let other = place.home.path().canonicalize().expect("exists").join("other");
    fs::create_dir(&other).expect("a directory");
    let cloned = place.command(&["clone", "0000000a", "--to", &other.to_string_lossy(), "--json"]).output();
    let row: serde_json::Value = serde_json::from_slice(&cloned.expect("ended").stdout).expect("JSON");
    let id = row["id"].as_str().expect("an id");
    let printed = place.printed(&mut place.command(&["resume", "-q", id]));
    assert!(printed.starts_with("[home]/other\n"), "{printed}");
    for command in ["show", "info"] {
        let printed = place.printed(place.command(&[command, id]).env("COLUMNS", "200"));
        assert!(printed.contains("cd [home]/other && claude --resume"), "{command}: {printed}");
        let names_source = printed.contains("made from   0000000a-0000-4000-8000-000000000000 (clone, ");
        assert!(names_source || command != "info", "{printed}");
    }
    let listed = place.printed(place.command(&["ls", "--all"]).env("COLUMNS", "120"));
    assert!(listed.contains("other"), "{listed}");
}

#[test]
fn session_without_a_directory_of_this_machine_is_not_resumed_elsewhere() {
    let home = Home::default();
    let mut log = LogBuilder::new(0xc);
    log.cwd = "relative/dir".into();
    log.prompt("Hello");
    log.answer("Hello.");
    home.add("relative/dir", &log);
    let printed = run(&home, &["resume", "0000000c"]);
    assert!(
        printed.contains("no directory of this machine is known") && printed.contains("--to DIR"),
        "{printed}"
    );
}

#[test]
fn page_names_no_config_directory() {
    let place = Place::new("app");
    let config = place.home.path().to_string_lossy().into_owned();
    let page = |command: &mut Command| {
        let output = command.args(["export", "0000000a", "-f", "html", "-o", "-"]).output().expect("ended");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let own = page(&mut place.command(&[]));
    assert!(own.contains("claude --resume 0000000a"), "{own}");
    let other = page(place.command(&["--config-dir", &config]).env_remove("CLAUDE_CONFIG_DIR"));
    assert!(!other.contains("CLAUDE_CONFIG_DIR") && !other.contains("claude --resume"), "{other}");
}

#[test]
fn clone_of_a_clone_keeps_the_directory_of_its_project() {
    let place = Place::new("app");
    let other = place.home.path().canonicalize().expect("exists").join("other");
    fs::create_dir(&other).expect("a directory");
    let clone = |args: &[&str]| {
        let output = place.command(&[&["clone", "--json"], args].concat()).output().expect("ended");
        let row: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        row["id"].as_str().expect("an id").to_owned()
    };
    let first = clone(&["0000000a", "--to", &other.to_string_lossy()]);
    for options in [&[][..], &["--path", "1"]] {
        let second = clone(&[&[&*first], options].concat());
        let printed = place.printed(&mut place.command(&["clone", &second]));
        assert!(printed.contains("resume it with: cd [home]/other && claude --resume"), "{printed}");
        let listed = place.command(&["ls", "--all", "--json"]).output().expect("ended").stdout;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let row = listed.lines().find(|line| line.contains(&second)).expect("listed");
        assert!(row.contains(&format!("\"project\":\"{}\"", other.display())), "{row}");
    }
}

#[test]
fn every_command_says_why_a_session_cannot_be_resumed_here() {
    let place = Place::new("app");
    fs::remove_dir(&place.project).expect("removed");
    let reason = "not resumable here: the directory of the session does not exist: [home]/app";
    let advice = "`rethread clone 0000000a --to DIR`";
    for args in [&["show", "0000000a"][..], &["info", "0000000a"], &["resume", "0000000a", "--print"]] {
        let printed = place.printed(place.command(args).env("COLUMNS", "300"));
        assert!(printed.contains(reason) && printed.contains(advice), "{args:?}: {printed}");
        assert!(printed.contains("claude --resume") == (args[0] == "resume"), "{args:?}: {printed}");
    }
    let cloned = place.printed(&mut place.command(&["clone", "0000000a"]));
    assert!(cloned.contains(reason) && !cloned.contains("claude --resume"), "{cloned}");
    let demo = place.printed(&mut place.command(&["--demo", "clone", "0000d001"]));
    assert!(demo.contains("sample sessions cannot be resumed"), "{demo}");
}
