//! `export`: where documents go, their names, and what is printed about them.

mod common;

use common::{rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder, hostile};

fn library() -> Home {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let mut log = LogBuilder::new(2);
    log.prompt("Fix the zsh prompt, see https://example.com/a?b=1&c=2.");
    log.answer("Done.");
    let bytes = String::from_utf8(log.bytes()).expect("text").replace("/home/user/app", "/home/user/my app");
    home.write(&format!("projects/-home-user-my-app/{}.jsonl", log.session()), bytes.as_bytes());
    home
}

#[test]
fn one_path_is_written_to_standard_output() {
    let home = library();
    for (format, start) in
        [("md", "# CLAUDE CODE"), ("html", "<!doctype html>"), ("json", "{\"type\":\"transcript\"")]
    {
        let text = run(&home, &["export", "00000001", "-f", format, "-o", "-"]);
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("Turn 7 redo") && !text.contains("Answer to 5 original"), "the active path");
        assert!(!text.contains("----- stderr"), "{text}");
    }
    let second = run(&home, &["export", "00000001", "--path", "1", "-o", "-"]);
    assert!(second.contains("Answer to 5 original"));
    assert!(!home.path().join("rethread-export").exists() && !home.path().join("-").exists());
}

#[test]
fn output_named_like_a_document_is_refused() {
    let home = library();
    let output = home.path().join("talk.md");
    let printed = run(&home, &["export", "00000002", "-o", &output.to_string_lossy()]);
    assert!(printed.contains("looks like a file") && printed.contains("-o - > "), "{printed}");
    assert!(!output.exists());
    std::fs::create_dir(&output).expect("a directory");
    run(&home, &["export", "00000002", "-o", &output.to_string_lossy()]);
    assert!(std::fs::read_dir(&output).expect("a directory").count() > 0, "a directory may have such a name");
}

#[test]
fn standard_output_takes_one_document() {
    let home = library();
    assert_snapshot!(run(&home, &["export", "--all", "-o", "-"]), @"
    ----- stderr
    error: `-o -` writes one session, not 2
    hint: name one session, for example `last`, or write to a directory: -o DIR
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "00000001", "--path", "all", "-o", "-"]), @"
    ----- stderr
    error: session 00000001-0000-4000-8000-000000000000 has 3 paths
    hint: choose one with --path active or --path N, or write to a directory: -o DIR
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "00000001", "--path", "9", "-o", "-"]), @"
    ----- stderr
    error: session 00000001-0000-4000-8000-000000000000 has no path 9
    hint: `rethread tree` lists the paths of a session
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "00000001", "--json", "-o", "-"]), @r#"
    ----- stderr
    {"type":"error","kind":"usage","message":"--json cannot be combined with `-o -`","hint":"write to a directory: -o DIR"}
    ----- exit Some(2)
    "#);
    // A session with a single path needs no choice.
    assert!(run(&home, &["export", "00000002", "--path", "all", "-o", "-"]).starts_with("# CLAUDE"));
}

#[test]
fn subagents_on_standard_output_have_no_links() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::varied(2));
    for format in ["md", "html"] {
        let text = run(&home, &["export", "00000002", "-f", format, "-o", "-"]);
        assert!(text.contains("nested words"), "{format}");
        assert!(!text.contains("subagents/") && !text.contains("images/"), "{format}");
    }
}

#[test]
fn pages_have_friendly_names_and_a_default_directory() {
    let home = library();
    assert_snapshot!(run(&home, &["export", "--all", "-f", "html"]), @"
    2026-01-05_turn-1_00000001_path1_abandoned.html  Turn 1
    2026-01-05_turn-1_00000001_path2_abandoned.html  Turn 1
    2026-01-05_turn-1_00000001_path3.html  Turn 1
    2026-01-05_fix-the-zsh-prompt-see_00000002.html  Fix the zsh prompt, see https://example.com/a?b=1&c=2.
    ----- stderr
    4 transcripts in rethread-export
    -o DIR writes to another directory, -o - to standard output
    open rethread-export/index.html
    ");
    let page = std::fs::read_to_string(
        home.path().join("rethread-export/2026-01-05_fix-the-zsh-prompt-see_00000002.html"),
    );
    let page = page.expect("written");
    assert!(page.contains("<code id=\"resume\">cd &#39;/home/user/my app&#39; &amp;&amp; claude --resume 00000002-0000-4000-8000-000000000000</code>"), "{page}");
    assert!(page.contains("<a href=\"https://example.com/a?b=1&amp;c=2\" rel=\"noopener noreferrer\">"));
    assert!(!page.contains("class=\"badge"), "a single path has no status");
}

#[test]
fn documents_are_renamed_with_their_session() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("First title");
    log.answer("Yes.");
    home.add("/home/user/app", &log);
    let names = || {
        let entries = std::fs::read_dir(home.path().join("out")).expect("listed");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        names.join(" ")
    };
    run(&home, &["export", "--all", "-f", "html", "-o", "out"]);
    assert_eq!(names(), "2026-01-05_first-title_00000001.html");
    let title = serde_json::json!({ "type": "custom-title", "customTitle": "Second title", "sessionId": log.session() });
    log.raw(&title.to_string());
    home.add("/home/user/app", &log);
    let output = run(&home, &["export", "--all", "-f", "html", "-o", "out"]);
    assert!(output.contains("1 removed as obsolete"), "{output}");
    assert_eq!(names(), "2026-01-05_second-title_00000001.html");
    // Both kinds of names can be chosen for every format.
    run(&home, &["export", "--all", "-f", "html", "--names", "id", "-o", "out"]);
    assert_eq!(names(), "transcript_00000001-0000-4000-8000-000000000000.html");
    run(&home, &["export", "--all", "--names", "friendly", "-o", "out"]);
    let both = "2026-01-05_second-title_00000001.md transcript_00000001-0000-4000-8000-000000000000.html";
    assert_eq!(names(), both);
}

#[test]
fn printed_lines_fit_the_width() {
    let home = library();
    for columns in [40, 60, 80, 120, 200] {
        for format in ["md", "html"] {
            let mut command = rethread(home.path());
            command.env("COLUMNS", columns.to_string());
            let output = command.args(["export", "--all", "-f", format, "-o", "out"]).output().expect("run");
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }
}

#[test]
#[cfg(unix)]
fn result_is_opened_in_the_browser() {
    let home = library();
    home.write("browser", b"#!/bin/sh\nprintf %s \"$1\" > opened\n");
    let program = home.path().join("browser");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("set");
    let open = |browser: &str| {
        let mut command = rethread(home.path());
        command.env("BROWSER", browser).args(["export", "--all", "-f", "html", "-o", "my pages", "--open"]);
        let output = command.output().expect("run");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned()
    };
    assert_eq!(open(&program.to_string_lossy()), "opened 'my pages/index.html'");
    let opened = std::fs::read_to_string(home.path().join("opened")).expect("opened");
    assert_eq!(opened, home.path().join("my pages/index.html").to_string_lossy());
    // On a machine without a browser the path is printed, and the export succeeds.
    assert_eq!(open("/nonexistent"), "found no program to open it with; the file is 'my pages/index.html'");
}

#[test]
fn everything_is_written_only_if_asked_for() {
    let home = library();
    let elsewhere = home.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).expect("a directory");
    for command in ["export", "clean"] {
        let mut run = rethread(home.path());
        let output = run.current_dir(&elsewhere).args([command, "-o", "out"]).output().expect("ended");
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{printed}");
        assert!(printed.contains("--all includes the 2 sessions of all projects"), "{printed}");
        assert!(!elsewhere.join("out").exists());
    }
    let mut run = rethread(home.path());
    let output = run.current_dir(&elsewhere).args(["export", "--all", "-o", "out"]).output().expect("ended");
    assert!(output.status.success() && elsewhere.join("out").exists());
}
