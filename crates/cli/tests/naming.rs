//! Tests of how sessions are named: by a part of a title, by `last`, and by the current directory.

mod common;

use std::fs;
use std::path::PathBuf;

use common::{demo, rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};

/// A session of a project, `wait` seconds after the others.
fn add(home: &Home, number: u32, cwd: &str, prompt: &str, wait: u64) -> PathBuf {
    let mut log = LogBuilder::new(number);
    log.cwd = cwd.to_owned();
    log.wait(wait);
    log.prompt(prompt);
    log.answer("Done.");
    home.add(cwd, &log)
}

#[test]
fn part_of_a_title_names_a_session() {
    let home = Home::default();
    add(&home, 1, "/w/api", "Fix the LOGIN flow", 0);
    add(&home, 2, "/w/web", "Write release notes", 10);
    add(&home, 3, "/w/web", "Rename things\n\nalso in the login form", 20);
    let shown = run(&home, &["info", "login FLOW", "--json"]);
    assert!(shown.contains("00000001-0000"), "{shown}");
    assert!(run(&home, &["show", "login"]).contains("Fix the LOGIN flow"), "titles come before prompts");
    assert!(run(&home, &["show", "login form"]).contains("Rename things"), "prompts come next");
    assert_snapshot!(run(&home, &["show", "no such words"]), @"
    ----- stderr
    error: no session matches `no such words`
    hint: searched in [home]
    hint: `rethread ls --all` lists all sessions; an id, a part of a title or a path to a .jsonl file works
    ----- exit Some(2)
    ");
}

#[test]
fn every_command_knows_a_title_in_another_file() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.version = "1.0.17".to_owned();
    log.prompt("/init");
    let leaf = log.answer("Done.");
    home.add("/w/api", &log);
    let mut other = LogBuilder::new(2);
    other.raw(&format!(r#"{{"type":"summary","summary":"Initial setup","leafUuid":"{leaf}"}}"#));
    home.add("/w/api", &other);
    for command in [["ls", "--all"], ["info", "00000001"], ["show", "00000001"], ["tree", "00000001"]] {
        let printed = run(&home, &command);
        assert!(printed.contains("Initial setup"), "{command:?}: {printed}");
    }
}

#[test]
fn ambiguous_title_lists_the_newest_candidates() {
    let home = Home::default();
    for n in 1..8 {
        add(&home, n, "/w/api", &format!("Fix login attempt {n}"), u64::from(n) * 3600);
    }
    assert_snapshot!(run(&home, &["show", "login"]), @r#"
    ----- stderr
    error: `login` matches the titles of 7 sessions
    hint: 00000007 "Fix login attempt 7", api, 4 days ago
    hint: 00000006 "Fix login attempt 6", api, 4 days ago
    hint: 00000005 "Fix login attempt 5", api, 4 days ago
    hint: 00000004 "Fix login attempt 4", api, 4 days ago
    hint: 00000003 "Fix login attempt 3", api, 4 days ago
    hint: and 2 more; `rethread ls --all` lists their ids
    ----- exit Some(2)
    "#);
    add(&home, 9, "/w/api", "login", 0);
    assert!(run(&home, &["tree", "Login"]).starts_with("login\n"), "a whole title comes first");
}

#[test]
fn name_of_a_project_is_not_mistaken_for_a_word_in_a_title() {
    let home = Home::default();
    add(&home, 1, "/w/kettle", "Fix the login", 0);
    add(&home, 2, "/w/kettle", "Write release notes", 10);
    add(&home, 3, "/w/other", "Buy a kettle", 20);
    let checked =
        |name: &str| run(&home, &["info", name, "--json"]).matches("\"type\":\"inventory\"").count();
    assert_eq!((checked("kettle"), checked("a kettle"), checked("kett")), (2, 1, 1));
    assert_eq!(checked("othe"), 1, "a part of a project's name");
}

#[test]
fn last_walks_up_to_the_project_and_falls_back_to_all() {
    let home = Home::default();
    let root = home.path().canonicalize().expect("exists");
    let (project, other) = (root.join("code/kettle"), root.join("code/other"));
    fs::create_dir_all(project.join("src/deep")).expect("created");
    fs::create_dir_all(&other).expect("created");
    add(&home, 1, &project.to_string_lossy(), "Fix the kettle", 0);
    add(&home, 2, "/elsewhere", "Something newer", 3600);
    let run_in = |dir: &PathBuf, args: &[&str]| {
        let output = rethread(home.path()).current_dir(dir).args(args).output().expect("ended");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        text.concat().replace(&*root.to_string_lossy(), "[root]")
    };
    let deep = project.join("src/deep");
    assert_snapshot!(run_in(&deep, &["resume", "last", "--print"]), @"cd [root]/code/kettle && claude --resume 00000001-0000-4000-8000-000000000000");
    assert_snapshot!(run_in(&deep, &["resume", "--print"]), @r#"
    cd [root]/code/kettle && claude --resume 00000001-0000-4000-8000-000000000000
    00000001 "Fix the kettle", newest of [root]/code/kettle
    "#);
    assert_snapshot!(run_in(&other, &["resume", "last", "--print"]), @r#"
    cd /elsewhere && claude --resume 00000002-0000-4000-8000-000000000000
    last: 00000002 "Something newer", newest of all projects
    not resumable here: the directory of the session does not exist: /elsewhere (create it again, or copy the session to another project: `rethread clone 00000002 --to DIR`)
    "#);
    assert!(run_in(&deep, &["ls"]).ends_with("1 session of [root]/code/kettle\n"));
    assert!(run_in(&other, &["ls"]).ends_with("\n2 sessions\n"));
    assert_eq!(run_in(&deep, &["info", "--json"]).lines().count(), 1);
    assert_eq!(run_in(&other, &["info", "--json", "-q"]).lines().count(), 3, "two sessions and their total");
}

#[test]
fn every_command_on_one_session_takes_the_newest() {
    for command in ["show", "tree", "preview", "resume"] {
        let text = demo(&[command]);
        assert!(text.contains("0000d005 \"Kettle: reject the power-up"), "{command}: {text}");
        assert!(text.contains("newest of all projects"), "{command}: {text}");
    }
    let dry = demo(&["clone", "--dry-run"]) + &demo(&["repair", "--dry-run"]);
    assert_eq!(dry.matches("newest of all projects").count(), 2, "{dry}");
    assert_snapshot!(demo(&["repair", "--in-place"]), @"
    ----- stderr
    error: --in-place requires a session
    hint: it modifies the session itself
    ----- exit Some(2)
    ");
}

#[test]
fn sessions_of_worktrees_belong_to_their_repository() {
    let home = Home::default();
    let root = home.path().canonicalize().expect("exists");
    let (repository, linked) = (root.join("kettle"), root.join("trees/linked"));
    let made = repository.join(".claude/worktrees/quick-fix");
    let admin = repository.join(".git/worktrees/linked");
    for dir in [&made, &admin, &linked] {
        fs::create_dir_all(dir).expect("created");
    }
    fs::write(linked.join(".git"), format!("gitdir: {}\n", admin.display())).expect("written");
    fs::write(admin.join("gitdir"), format!("{}\n", linked.join(".git").display())).expect("written");
    for (n, (dir, prompt)) in
        [(&repository, "In the repository"), (&made, "Made by the client"), (&linked, "Linked")]
            .into_iter()
            .enumerate()
    {
        add(&home, 1 + n as u32, &dir.to_string_lossy(), prompt, 10 * n as u64);
    }
    let ls = |dir: &PathBuf| {
        let output = rethread(home.path()).current_dir(dir).args(["ls", "-q"]).output().expect("ended");
        String::from_utf8(output.stdout).expect("text")
    };
    // The sizes depend on the path of the temporary directory.
    let listed = ls(&repository);
    let names: Vec<&str> = listed.lines().filter_map(|line| line.get(line.find("kettle")?..)).collect();
    assert_snapshot!(names.join("\n"), @"
    kettle (worktree linked)     Linked
    kettle (worktree quick-fix)  Made by the client
    kettle                       In the repository
    ");
    assert_eq!(ls(&made).lines().count(), 2, "a worktree lists its own sessions");
    assert!(ls(&linked).contains("Linked") && ls(&linked).lines().count() == 2);
    fs::remove_dir_all(home.path().join("projects").join(rethread_project(&linked))).expect("removed");
    assert_eq!(ls(&linked).lines().count(), 3, "without sessions of its own, those of the repository");
}

fn rethread_project(dir: &std::path::Path) -> String {
    dir.to_string_lossy().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

#[test]
fn several_titles_are_not_taken_for_part_of_a_project() {
    let home = Home::default();
    add(&home, 1, "/p/app-server", "Something else", 0);
    add(&home, 2, "/p/x", "Start the service", 10);
    add(&home, 3, "/p/x", "Serve the files", 20);
    for command in [&["show", "serv"][..], &["clean", "-n", "serv"], &["check", "serv"]] {
        let printed = run(&home, command);
        assert!(printed.contains("error") && !printed.contains("Something else"), "{command:?}: {printed}");
    }
}

#[test]
fn worktrees_of_a_directory_with_the_same_encoded_name_are_not_listed() {
    let home = Home::default();
    let base = home.path().canonicalize().expect("exists");
    let (ours, theirs) = (base.join("my/app"), base.join("my-app"));
    std::fs::create_dir_all(&ours).expect("a directory");
    add(&home, 1, &ours.to_string_lossy(), "Ours", 0);
    add(&home, 2, &format!("{}/.claude/worktrees/fix", theirs.display()), "Theirs", 10);
    let output = common::rethread(home.path()).current_dir(&ours).args(["ls"]).output().expect("ended");
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(listed.contains("Ours") && !listed.contains("Theirs"), "{listed}");
}

#[test]
fn printed_names_find_their_sessions() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("Fix the kettle");
    log.answer("Done.");
    let bytes = String::from_utf8(log.bytes()).expect("text");
    for (project, id) in [
        ("a", "kettle-session-one"),
        ("a", "kettle-session-two"),
        ("b", "kettle-session-two"),
        ("b", "session.one.two"),
        ("b", "3f2a1b0c-0000-4000-8000-000000000001"),
        ("b", "3f2a1b0c-0000-4000-8000-000000000002"),
    ] {
        home.write(&format!("projects/-w-{project}/{id}.jsonl"), bytes.as_bytes());
    }
    assert_snapshot!(run(&home, &["show", "kettle"]), @r#"
    ----- stderr
    error: `kettle` matches 3 sessions
    hint: kettle-session-o "Fix the kettle", app, 4 days ago
    hint: [home]/projects/-w-a/kettle-session-two.jsonl "Fix the kettle", app, 4 days ago
    hint: [home]/projects/-w-b/kettle-session-two.jsonl "Fix the kettle", app, 4 days ago
    ----- exit Some(2)
    "#);
    let listed = run(&home, &["ls", "--all", "-q"]);
    assert!(listed.contains("3f2a1b0c-0000-4000-8000-000000000001"), "a pipe gets whole ids: {listed}");
    let found = run(&home, &["search", "kettle", "--limit", "0"]);
    let (_, hint) = found.split_once("to read hit 1: rethread show ").expect("a hint");
    let name =
        hint.split_whitespace().next().expect("a name").replace("[home]", &home.path().to_string_lossy());
    assert!(run(&home, &["show", &name]).contains("Fix the kettle"), "{name}");
    for id in ["3F2A1B0C-0000-4000-8000-000000000002", "Kettle-Session-O"] {
        assert!(run(&home, &["show", id]).contains("Fix the kettle"), "{id}");
    }
}

#[test]
fn session_instead_of_a_command_is_recognised() {
    let home = Home::default();
    add(&home, 1, "/w/api", "Fix the login", 0);
    let printed = run(&home, &["00000001"]);
    assert!(printed.contains("hint: did you mean `rethread show 00000001`?"), "{printed}");
    assert!(!run(&home, &["shwo"]).contains("did you mean `rethread show"));
}

#[test]
fn standard_input_is_not_a_name() {
    let mut log = LogBuilder::new(1);
    log.prompt("A prompt - with a dash");
    log.answer("Done.");
    let text = String::from_utf8(log.bytes()).expect("text");
    let printed = common::run_with(Home::default().path(), &["show", "-"], &text);
    assert!(printed.contains("with a dash") && !printed.contains("found in the first prompt"), "{printed}");
}
