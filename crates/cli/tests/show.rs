//! Conversations and trees as a terminal shows them.

mod common;

use common::{rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::json;

/// Runs a command as on a terminal with this many columns, without colours.
fn on_columns(home: &Home, columns: usize, args: &[&str]) -> String {
    let mut command = rethread(home.path());
    let output = command.env("COLUMNS", columns.to_string()).args(args).output().expect("run");
    String::from_utf8_lossy(&output.stdout).replace(&*home.path().to_string_lossy(), "[home]")
}

fn session() -> Home {
    let mut log = LogBuilder::new(1);
    log.prompt("Fix the *kettle*:\n\t- it must boil   water that is cold, and only then");
    let call = log.call("Bash", &json!({ "command": "make test", "description": "Run the tests" }));
    log.result(&call, "\u{1b}[31mfailed\u{1b}[0m\nsee log");
    let call = log.call("Grep", &json!({ "pattern": "boil", "path": "/home/user/app/src" }));
    log.result_with(&call, &json!("src/a.rs"), &json!({ "mode": "files_with_matches", "numFiles": 1 }));
    let call = log.call(
        "AskUserQuestion",
        &json!({ "questions": [{ "question": "Which pin should the heater use, given that only two are free?" }] }),
    );
    log.result_with(&call, &json!("answered"), &json!({ "answers": { "Which pin": "GPIO 4" } }));
    log.answer("## Cause\nThe pin was **wrong**  \nsee [the docs](https://kettle.example/pins).\n\n| pin | use |\n|--:|---|\n| 4 | heater |\n\n```rust\nlet pin = 4;\n```");
    let home = Home::default();
    home.add("/home/user/app", &log);
    home
}

#[test]
fn conversation_is_laid_out_for_a_terminal() {
    assert_snapshot!(on_columns(&session(), 50, &["show", "00000001"]), @"
    Fix the kettle:
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you  turn 1 · #1 · 5 Jan 2026 00:00
    ▌ Fix the *kettle*:
    ▌         - it must boil   water that is cold, and
    ▌         only then

    ● claude-opus-5  #2 · 00:00
      ▸ Bash  Run the tests  $ make test
        ↳ failed  (+1 line)
      ▸ Grep  boil in src · 1 file                  #4
      ▸ AskUserQuestion                             #6
        Which pin should the heater use, given that
        only two are free?
        ↳ GPIO 4

    ● claude-opus-5  #8 · 00:00
      ## Cause

      The pin was **wrong**
      see the docs (https://kettle.example/pins).

      pin │ use
      ────┼───────
        4 │ heater

          let pin = 4;
    ");
}

#[test]
fn pipe_gets_the_source_of_answers() {
    let text = run(&session(), &["show", "00000001"]);
    assert!(
        text.contains("\n## Cause\nThe pin was **wrong**  \nsee [the docs](https://kettle.example/pins).\n"),
        "{text}"
    );
    assert!(text.contains("\n\t- it must boil   water that is cold, and only then\n"), "{text}");
}

#[test]
fn colours_do_not_change_the_text() {
    let home = session();
    let painted = on_columns(&home, 50, &["show", "00000001", "--color", "always"]);
    assert!(painted.contains("\u{1b}["));
    assert!(!painted.contains("**wrong**"), "{painted}");
    assert!(painted.contains("\u{1b}[1mwrong\u{1b}[0m"), "{painted}");
}

#[test]
fn full_tool_calls_are_readable() {
    assert_snapshot!(on_columns(&session(), 60, &["show", "00000001", "--turns", "1", "--tools", "full"]), @r#"
    Fix the kettle:
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you  turn 1 · #1 · 5 Jan 2026 00:00
    ▌ Fix the *kettle*:
    ▌         - it must boil   water that is cold, and only then

    ● claude-opus-5  #2 · 00:00
      ▸ Bash  Run the tests
          make test
        │ failed
        │ see log
      ▸ Grep  boil in src · 1 file                            #4
          {
            "pattern": "boil",
            "path": "/home/user/app/src"
          }
        │ src/a.rs
      ▸ AskUserQuestion  Which pin should the heater use, g…  #6
          Which pin should the heater use, given that only two
          are free?
        │ answered

    ● claude-opus-5  #8 · 00:00
      ## Cause

      The pin was **wrong**
      see the docs (https://kettle.example/pins).

      pin │ use
      ────┼───────
        4 │ heater

          let pin = 4;
    "#);
}

#[test]
fn no_shown_line_is_wider_than_the_terminal() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    let long = "word ".repeat(40) + &"x".repeat(300) + " 漢字".repeat(60).as_str();
    log.prompt(&long);
    for tool in ["Bash", "Edit", "Grep", "mcp__server__tool", "TodoWrite", &"T".repeat(200)] {
        let input = json!({ "command": long, "description": long, "file_path": long, "pattern": long, "old_string": long, "new_string": "b" });
        let call = log.call(tool, &input);
        log.result(&call, &long);
    }
    log.answer(&format!("# {long}\n\n- {long}\n  - {long}\n\n> {long}\n\n| {long} | b |\n|--|--|\n| c | {long} |\n\n```\n{long}\n```"));
    log.system("informational", &long);
    home.add("/home/user/app", &log);
    for columns in [20, 40, 60, 80, 120, 200] {
        for args in
            [&["show", "00000001"][..], &["show", "00000001", "--tools", "full"], &["tree", "00000001"]]
        {
            let text = on_columns(&home, columns, args);
            let is_command = |line: &str| {
                line.starts_with("resume ")
                    || line.starts_with("         ") && line.contains("claude --resume")
            };
            for line in text.lines().filter(|line| !is_command(line)) {
                assert_eq!(rethread_render::truncate(line, columns), line, "{columns} {args:?}");
            }
        }
    }
}
