//! `outline`, run as a program.

mod common;

use common::{demo, rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::Value;

/// Returns the objects of an outline.
fn rows(home: &Home, args: &[&str]) -> Vec<Value> {
    let output = rethread(home.path()).arg("outline").args(args).arg("--json").output().expect("ended");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

fn long_session() -> Home {
    let mut log = LogBuilder::new(11);
    for n in 0..40 {
        log.prompt(&format!("Prompt {n}: {}", "many words ".repeat(30)));
        log.answer("Yes.");
    }
    log.compact("Many prompts.");
    log.prompt("After the compaction.");
    let home = Home::default();
    home.add("/home/user/app", &log);
    home
}

#[test]
fn every_prompt_occurs_once_and_forks_name_their_paths() {
    assert_snapshot!(demo(&["outline", "0000d001"]), @"
    Kettle: choose a sensor

    path 3, active (4 turns)
        5 Jan 2026
     #1 00:00 Which temperature sensor should the kettle use?
     #3 00:01 Wiring. Only one pin is free.
     #4 00:01 ├ path 1 begins here
     #7 00:14 Write the driver in Rust.
     #8 00:14 ├ path 2 begins here
    #11 00:21 Make it async.

    path 1, abandoned, from path 3 after #4 (3 turns)
        5 Jan 2026
     #5 00:04 Write the driver in C.

    path 2, abandoned, from path 3 after #8 (4 turns)
        5 Jan 2026
     #9 00:15 Make it blocking.
    ");
    assert_snapshot!(demo(&["outline", "0000d001", "--path", "1"]), @"
    Kettle: choose a sensor
       5 Jan 2026
    #1 00:00 Which temperature sensor should the kettle use?
    #3 00:01 Wiring. Only one pin is free.
    #5 00:04 Write the driver in C.
    ");
}

#[test]
fn anchors_of_prompts_open_them() {
    let home = long_session();
    let rows = rows(&home, &["0000000b"]);
    for row in rows.iter().filter(|row| row["kind"] == "prompt").step_by(7) {
        let anchor = row["anchor"].as_str().expect("an anchor");
        let text = run(&home, &["show", "0000000b", "--at", anchor, "--around", "0"]);
        assert!(text.contains(&format!("#{} ", row["message"])), "{row}: {text}");
    }
    assert_eq!(rows.iter().filter(|row| row["kind"] == "compaction").count(), 1);
    assert_eq!(rows.last().expect("a last row")["prompts"], 41);
}

#[test]
fn budget_is_kept_and_what_is_left_out_is_said() {
    let home = long_session();
    for max in [400, 2000, 8000, 50_000] {
        let max_chars = max.to_string();
        for json in [&[][..], &["--json"]] {
            let args = [&["outline", "0000000b", "--max-chars", &max_chars], json].concat();
            let output = rethread(home.path()).args(&args).output().expect("ended");
            let text = String::from_utf8(output.stdout).expect("text");
            assert!(text.chars().count() <= max, "{args:?}: {}", text.chars().count());
        }
        let rows = rows(&home, &["0000000b", "--max-chars", &max_chars]);
        let shown = rows.iter().filter(|row| row["type"] == "outline_item").count();
        let last = rows.last().expect("a last row");
        assert_eq!((&last["shown"], &last["items"]), (&shown.into(), &42.into()));
        assert_eq!(last["capped"], shown < 42);
    }
}

#[test]
fn errors_and_empty_sessions() {
    assert_snapshot!(demo(&["outline", "0000d001", "--path", "4"]), @"
    ----- stderr
    error: no path 4
    hint: paths are numbered from 1 to 3; `rethread --demo tree` draws them
    ----- exit Some(2)
    ");
    let home = Home::default();
    home.write("projects/-x/empty.jsonl", b"{\"type\":\"summary\",\"summary\":\"s\",\"leafUuid\":\"x\"}\n");
    assert_snapshot!(run(&home, &["outline", "empty"]), @"
    ----- stderr
    this session has no conversation
    ----- exit Some(1)
    ");
}
