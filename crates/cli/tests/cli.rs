//! The program as a whole: standard output, standard error and exit code together.

mod common;

use std::path::Path;
use std::process::Command;

use common::{demo, rethread, run, run_with};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

#[test]
fn without_a_command_sessions_and_next_steps_are_shown() {
    assert_snapshot!(demo(&[]), @"
    Sample sessions

    ID                                    WHEN        TURNS    SIZE  BRANCHES  PROJECT  TITLE
    0000d005-0000-4000-8000-000000000000  3 h ago         2   33 kB            kettle   Kettle: reject the power-up reading of 85 °C
    0000d004-0000-4000-8000-000000000000  yesterday       1  1.8 kB            almanac  Rename the chapter on winds.
    0000d003-0000-4000-8000-000000000000  2 days ago      3  4.2 kB            almanac  Let us plan the almanac's second edition.
    0000d002-0000-4000-8000-000000000000  3 days ago      1  6.3 kB            kettle   Do the tests pass, and is the README still right?
    0000d001-0000-4000-8000-000000000000  4 days ago      6  6.5 kB         3  kettle   Kettle: choose a sensor

      rethread --demo show 0000d005    read the conversation
      rethread --demo tree 0000d005    draw its branches
      rethread --demo info 0000d005    show statistics
      rethread --demo ls --all         list sessions of all projects
      rethread --help                  list all commands
    ----- stderr
    5 sessions
    ");
    assert_snapshot!(run(&Home::default(), &[]), @"
    No sessions under [home].

      rethread --demo             explore the built-in sample sessions
      rethread --config-dir DIR   search another directory
      rethread show FILE.jsonl    read a session file
      rethread --help             list all commands
    ");
}

#[test]
fn ls_table_fits_the_width() {
    assert_snapshot!(demo(&["ls"]), @"
    ID                                    WHEN        TURNS    SIZE  BRANCHES  PROJECT  TITLE
    0000d005-0000-4000-8000-000000000000  3 h ago         2   33 kB            kettle   Kettle: reject the power-up reading of 85 °C
    0000d004-0000-4000-8000-000000000000  yesterday       1  1.8 kB            almanac  Rename the chapter on winds.
    0000d003-0000-4000-8000-000000000000  2 days ago      3  4.2 kB            almanac  Let us plan the almanac's second edition.
    0000d002-0000-4000-8000-000000000000  3 days ago      1  6.3 kB            kettle   Do the tests pass, and is the README still right?
    0000d001-0000-4000-8000-000000000000  4 days ago      6  6.5 kB         3  kettle   Kettle: choose a sensor
    ----- stderr
    5 sessions
    ");
    let home = Home::default();
    let output = rethread(home.path()).args(["--demo", "ls"]).env("COLUMNS", "72").output().expect("run");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.lines().all(|line| line.chars().count() <= 72), "{text}");
    assert_snapshot!(demo(&["ls", "--sort", "turns", "--since", "2026-01-06T12:00:00Z"]), @"
    ID                                    WHEN        TURNS    SIZE  BRANCHES  PROJECT  TITLE
    0000d003-0000-4000-8000-000000000000  2 days ago      3  4.2 kB            almanac  Let us plan the almanac's second edition.
    0000d005-0000-4000-8000-000000000000  3 h ago         2   33 kB            kettle   Kettle: reject the power-up reading of 85 °C
    0000d004-0000-4000-8000-000000000000  yesterday       1  1.8 kB            almanac  Rename the chapter on winds.
    ----- stderr
    3 sessions
    ");
}

#[test]
fn tree_draws_the_branches() {
    assert_snapshot!(demo(&["tree", "0000d001"]), @"
    Kettle: choose a sensor
    ● #1 Which temperature sensor should the kettle use?  2 turns
    ├─○ #5 Write the driver in C.  1 turn · 4 days ago  path 1 abandoned
    ● #7 Write the driver in Rust.  1 turn
    ├─○ #9 Make it blocking.  1 turn · 4 days ago  path 2 abandoned
    ● #11 Make it async.  1 turn · 4 days ago  path 3 active
    ----- stderr
    to read a path: rethread --demo show 0000d001 --path 1
    ");
    assert_snapshot!(demo(&["tree", "0000d002", "--client", "2.1.79"]), @"
    Do the tests pass, and is the README still right?
    ● #1 Do the tests pass, and is the README still right?  1 turn · 3 days ago  path 1 active
    ----- stderr
    client 2.1.79 is not known; using the rules of 2.1.76, the closest known version
    ");
}

#[test]
fn show_prints_the_conversation() {
    assert_snapshot!(demo(&["show", "0000d002"]), @"
    Do the tests pass, and is the README still right?
    project  /home/ada/kettle (main)
    when     6 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you turn 1 · #1 · 6 Jan 2026 00:00
    Do the tests pass, and is the README still right?

    ▌ claude-opus-5 #2 · 6 Jan 2026 00:00
      ▸ Bash  Run the tests  $ cargo test
        ↳ running 12 tests  (+1 line)
      ▸ Read  README.md · 2 lines
      ▸ Task  Check links · general-purpose
        ↳ One link, and the file is there.
        ↳ subagent, in this file

    ▌ claude-opus-5 #8 · 6 Jan 2026 00:00
    All 12 tests pass and the README is right: its one link leads to an existing file.
    ");
    assert_snapshot!(demo(&["show", "0000d002", "--tools", "full"]), @r#"
    Do the tests pass, and is the README still right?
    project  /home/ada/kettle (main)
    when     6 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you turn 1 · #1 · 6 Jan 2026 00:00
    Do the tests pass, and is the README still right?

    ▌ claude-opus-5 #2 · 6 Jan 2026 00:00
      ▸ Bash  Run the tests
          cargo test
        │ running 12 tests
        │ test result: ok. 12 passed; 0 failed
      ▸ Read  README.md · 2 lines
        │ # Kettle
        │ 
        │ Boils water. See [the driver](src/driver.rs).
      ▸ Task  Check links · general-purpose
          Check every link in README.md.
          {
            "subagent_type": "general-purpose"
          }
        │ One link, and the file is there.
        ↳ subagent, in this file

    ▌ claude-opus-5 #8 · 6 Jan 2026 00:00
    All 12 tests pass and the README is right: its one link leads to an existing file.
    "#);
    assert_snapshot!(demo(&["show", "0000d003", "--turns", "2.."]), @"
    Let us plan the almanac's second edition.
    project  /home/ada/almanac (main)
    when     7 Jan 2026 00:00 – 00:09 · 3 turns · 1 compaction
    model    claude-opus-5

    ▌ you turn 2 · #3 · 7 Jan 2026 00:00
    Tide tables for the whole coast.

    ▌ claude-opus-5 #4 · 7 Jan 2026 00:00
    Then we need harmonic constants for about forty ports.

    ── compacted here · 7 Jan 2026 00:09 ───────────────────────────────────

    ▌ summary of the earlier conversation #5 · 7 Jan 2026 00:09
    This session is being continued from a previous conversation that ran out of context. The second edition gets tide tables; harmonic constants for forty ports are needed.

    ▌ you turn 3 · #6 · 7 Jan 2026 00:09
    Start with the northern ports.

    ▌ claude-opus-5 #7 · 7 Jan 2026 00:09
    Twelve ports lie north of the cape; here is the list …
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--path", "1", "--at", "5"]), @"
    Kettle: choose a sensor
    project  /home/ada/kettle (main)
    when     5 Jan 2026 00:00 – 00:04 · 3 turns
    model    claude-opus-5
    path     1 of 3, abandoned

    ▌ you turn 3 · #5 · 5 Jan 2026 00:04
    Write the driver in C.

    ▌ claude-opus-5 #6 · 5 Jan 2026 00:04
    Here is a driver in C, about 80 lines …
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--at", "5"]), @"
    Kettle: choose a sensor
    project  /home/ada/kettle (main)
    when     5 Jan 2026 00:00 – 00:04 · 3 turns
    model    claude-opus-5
    path     1 of 3, abandoned

    ▌ you turn 3 · #5 · 5 Jan 2026 00:04
    Write the driver in C.

    ▌ claude-opus-5 #6 · 5 Jan 2026 00:04
    Here is a driver in C, about 80 lines …
    ");
}

#[test]
fn json_rows_match_the_documentation() {
    let fields = |args: &[&str]| -> Vec<String> {
        let text = demo(args);
        let line = text.lines().next().expect("a line");
        let value: Value = serde_json::from_str(line).expect("JSON");
        value.as_object().expect("an object").keys().cloned().collect()
    };
    assert_snapshot!(fields(&["ls", "--json"]).join(" "), @"type id path project cwd kind title title_source first_prompt created modified bytes entries messages turns tool_calls tips compactions subagents models versions git_branch live defects repository worktree made_from made_by made");
    assert_snapshot!(fields(&["info", "0000d001", "--json"]).join(" "), @"type id path bytes lines entries system bad_lines messages blocks tool_calls turns stop_reasons versions models forks tips compactions subagents chain bytes_by usage unknown defects defects_omitted");
    assert_snapshot!(fields(&["tree", "0000d001", "--json"]).join(" "), @"type n status tip tip_message tip_line inner main resumes_at resumes_line fork_point fork_message messages turns compactions last_prompt time");
    assert_snapshot!(fields(&["show", "0000d001", "--json"]).join(" "), @"type n role kind entries line time model blocks usage");
    assert_snapshot!(demo(&["tree", "0000d001", "--json", "-q"]), @r#"
    {"type":"path","n":1,"status":"abandoned","tip":"0000d001-0000-4000-8000-000000000006","tip_message":6,"tip_line":7,"inner":false,"main":false,"resumes_at":null,"resumes_line":null,"fork_point":"0000d001-0000-4000-8000-000000000004","fork_message":4,"messages":6,"turns":3,"compactions":0,"last_prompt":"Write the driver in C.","time":"2026-01-05T00:04:56.000Z"}
    {"type":"path","n":2,"status":"abandoned","tip":"0000d001-0000-4000-8000-00000000000a","tip_message":10,"tip_line":11,"inner":false,"main":false,"resumes_at":null,"resumes_line":null,"fork_point":"0000d001-0000-4000-8000-000000000008","fork_message":8,"messages":8,"turns":4,"compactions":0,"last_prompt":"Make it blocking.","time":"2026-01-05T00:16:00.000Z"}
    {"type":"path","n":3,"status":"active","tip":"0000d001-0000-4000-8000-00000000000c","tip_message":12,"tip_line":13,"inner":false,"main":true,"resumes_at":"0000d001-0000-4000-8000-00000000000c","resumes_line":13,"fork_point":"0000d001-0000-4000-8000-000000000008","fork_message":8,"messages":8,"turns":4,"compactions":0,"last_prompt":"Make it async.","time":"2026-01-05T00:21:02.000Z"}
    "#);
    assert_snapshot!(demo(&["show", "0000d002", "--json", "-q"]), @r##"
    {"type":"message","n":1,"role":"user","kind":"prompt","entries":[1],"line":1,"time":"2026-01-06T00:00:01.000Z","model":null,"blocks":[{"type":"text","text":"Do the tests pass, and is the README still right?"}],"usage":null}
    {"type":"message","n":2,"role":"assistant","kind":"answer","entries":[2,3,4],"line":2,"time":"2026-01-06T00:00:02.000Z","model":"claude-opus-5","blocks":[{"type":"tool_use","id":"toolu_5325000000100","name":"Bash","input":{"command":"cargo test","description":"Run the tests"}},{"type":"tool_use","id":"toolu_5325000000101","name":"Read","input":{"file_path":"/home/ada/kettle/README.md"}},{"type":"tool_use","id":"toolu_5325000000102","name":"Task","input":{"description":"Check links","prompt":"Check every link in README.md.","subagent_type":"general-purpose"}}],"pairs":[{"id":"toolu_5325000000100","message":4},{"id":"toolu_5325000000101","message":3},{"id":"toolu_5325000000102","message":7}],"usage":{"input":10,"output":40,"cache_write_5m":200,"cache_write_1h":0,"cache_read":3000,"web":0,"web_searches":0}}
    {"type":"message","n":4,"role":"user","kind":"result","entries":[6],"line":6,"time":"2026-01-06T00:00:10.000Z","model":null,"blocks":[{"tool_use_id":"toolu_5325000000100","type":"tool_result","content":"running 12 tests\ntest result: ok. 12 passed; 0 failed","is_error":false}],"pairs":[{"id":"toolu_5325000000100","message":2}],"usage":null}
    {"type":"message","n":3,"role":"user","kind":"result","entries":[5],"line":5,"time":"2026-01-06T00:00:09.000Z","model":null,"blocks":[{"tool_use_id":"toolu_5325000000101","type":"tool_result","content":"# Kettle\n\nBoils water. See [the driver](src/driver.rs).","is_error":false}],"pairs":[{"id":"toolu_5325000000101","message":2}],"usage":null}
    {"type":"message","n":7,"role":"user","kind":"result","entries":[9],"line":9,"time":"2026-01-06T00:00:13.000Z","model":null,"blocks":[{"tool_use_id":"toolu_5325000000102","type":"tool_result","content":"One link, and the file is there.","is_error":false}],"pairs":[{"id":"toolu_5325000000102","message":2}],"usage":null}
    {"type":"message","n":8,"role":"assistant","kind":"answer","entries":[10],"line":10,"time":"2026-01-06T00:00:14.000Z","model":"claude-opus-5","blocks":[{"type":"text","text":"All 12 tests pass and the README is right: its one link leads to an existing file."}],"usage":{"input":10,"output":40,"cache_write_5m":200,"cache_write_1h":0,"cache_read":3000,"web":0,"web_searches":0}}
    "##);
}

#[test]
fn errors_have_hints() {
    assert_snapshot!(demo(&["show", "nope"]), @"
    ----- stderr
    error: no session matches `nope`
    hint: `rethread --demo ls` lists the sample sessions
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["tree", "0000d"]), @"
    ----- stderr
    error: `0000d` matches 5 sessions
    hint: 0000d001
    hint: 0000d002
    hint: 0000d003
    hint: 0000d004
    hint: 0000d005
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--path", "9"]), @"
    ----- stderr
    error: no path 9
    hint: paths are numbered from 1 to 3; `rethread --demo tree` draws them
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--at", "99"]), @"
    ----- stderr
    error: no message 99
    hint: messages are numbered from 1 to 12
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--path", "1", "--turns", "1", "--at", "5"]), @"
    ----- stderr
    error: message 5 is not in these turns
    hint: omit --turns to show it
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["show", "0000d001", "--turns", "x"]), @"
    ----- stderr
    error: invalid turn range `x`
    hint: try `3`, `2..5`, `4..`, `..2` or `-3..`
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["tree", "0000d001", "--client", "new"]), @"
    ----- stderr
    error: invalid client version `new`
    hint: known versions: 1.0.128, 2.0.36, 2.0.77, 2.1.20, 2.1.76, 2.1.112, 2.1.200, 2.1.325
    ----- exit Some(2)
    ");
    assert_snapshot!(demo(&["ls", "--since", "soon"]), @"
    ----- stderr
    error: invalid time `soon`; try `3d`, `2 weeks`, `yesterday` or `2026-01-31`
    ----- exit Some(2)
    ");
    let home = Home::default();
    home.write("notes.md", b"# Notes\n");
    assert_snapshot!(run(&home, &["info", "./notes.md"]), @"
    ----- stderr
    error: ./notes.md is not a session
    hint: a session is a .jsonl file with one JSON object per line
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["info", "./gone.jsonl"]), @"
    ----- stderr
    error: cannot read ./gone.jsonl: No such file or directory (os error 2)
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["show", "last"]), @"
    ----- stderr
    error: there are no sessions
    hint: --config-dir DIR searches another directory; --demo uses the sample sessions
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["ls"]), @"
    ----- stderr
    0 sessions
    no projects under [home]; try --config-dir DIR or --demo
    ----- exit Some(1)
    ");
}

#[test]
fn any_bytes_are_read_and_defects_listed() {
    let home = Home::default();
    for (name, bytes) in [
        ("empty", &b""[..]),
        ("binary", &[0, 1, 2, 255, 254, 10, 0, 0, 7][..]),
        ("torn", b"{\"type\":\"user\",\"mess"),
        ("null", b"null\nnull\n"),
        ("deep", b"{\"a\":[[[[[[[[[["),
        ("blank", b"\n\n\r\n"),
    ] {
        home.write(&format!("{name}.jsonl"), bytes);
        for command in ["info", "tree", "show"] {
            let output =
                rethread(home.path()).args([command, &format!("./{name}.jsonl")]).output().expect("run");
            let code = output.status.code();
            assert!(matches!(code, Some(0 | 1)), "{command} {name}: {code:?}");
        }
    }
    assert_snapshot!(run(&home, &["info", "./binary.jsonl", "--json", "-q"]), @r#"{"type":"inventory","id":"binary","path":"./binary.jsonl","bytes":9,"lines":2,"entries":{},"system":{},"bad_lines":2,"messages":{"user":0,"assistant":0,"assistant_without_id":0},"blocks":{},"tool_calls":{"total":0,"paired":0,"by_name":{},"orphan_uses":[],"orphan_results":[],"multiple_results":[]},"turns":0,"stop_reasons":{},"versions":{},"models":{},"forks":0,"tips":0,"compactions":0,"subagents":0,"chain":{"previous":0,"other":0,"null":0,"missing":0,"dangling":0,"logical":0,"inferred":0},"bytes_by":{"text":0,"thinking":0,"signatures":0,"tool_input":0,"tool_result":0,"tool_use_result":0,"media":0,"progress":0,"attachments":0,"snapshots":0,"requests":0,"metadata":0,"envelope":0,"junk":9},"usage":{"input":0,"output":0,"cache_write_5m":0,"cache_write_1h":0,"cache_read":0,"web":0,"web_searches":0},"unknown":{"types":{},"fields":{}},"defects":[{"line":1,"kind":"not_json","detail":"line is not JSON"},{"line":1,"kind":"invalid_utf8","detail":"line is not UTF-8"},{"line":2,"kind":"not_json","detail":"line is not JSON"}],"defects_omitted":0}"#);
}

#[test]
fn session_is_read_from_standard_input() {
    let mut log = LogBuilder::new(1);
    log.prompt("from a pipe");
    log.answer("read");
    let home = Home::default();
    let text = String::from_utf8(log.bytes()).expect("text");
    assert_snapshot!(run_with(home.path(), &["show", "-"], &text), @"
    from a pipe
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you turn 1 · #1 · 5 Jan 2026 00:00
    from a pipe

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
    read
    ");
}

#[test]
fn control_sequences_from_a_log_are_escaped() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}evil");
    log.answer("\u{9b}31mred");
    home.add("/home/user/app", &log);
    for args in [&["ls"][..], &["show", "00000001"], &["tree", "00000001"]] {
        let colored = run(&home, &[args, &["--color", "always"]].concat());
        let plain = colored.replace("\u{1b}[", "<").replace("\u{1b}", "ESC");
        assert!(
            !plain.contains("ESC")
                && !plain.contains('\u{7}')
                && !plain.contains('\u{202e}')
                && !plain.contains('\u{9b}')
        );
        assert!(!plain.contains("<2J"), "{plain}");
    }
}

#[test]
fn titles_come_from_the_session_they_belong_to() {
    let home = Home::default();
    let mut titled = LogBuilder::new(1);
    titled.version = "2.0.77".into();
    titled.prompt("first prompt of one");
    let leaf = titled.answer("ok");
    let mut other = LogBuilder::new(2);
    // A summary of the first session, and one of a missing session, in the second one's file.
    other.raw(&json!({ "type": "summary", "summary": "About session one", "leafUuid": leaf }).to_string());
    other.raw(&json!({ "type": "summary", "summary": "About nobody", "leafUuid": "ffffffff-0000-4000-8000-000000000001" }).to_string());
    other.wait(10).prompt("first prompt of two");
    let mut own = LogBuilder::new(3);
    own.wait(20).prompt("first prompt of three");
    let leaf = own.answer("ok");
    own.raw(&json!({ "type": "summary", "summary": "About nobody", "leafUuid": "ffffffff-0000-4000-8000-000000000002" }).to_string());
    own.raw(&json!({ "type": "summary", "summary": "About session three", "leafUuid": leaf }).to_string());
    let mut custom = LogBuilder::new(4);
    custom.wait(30).prompt("first prompt of four");
    custom.raw(r#"{"type":"ai-title","aiTitle":"Made by the model"}"#);
    custom.raw(r#"{"type":"custom-title","customTitle":"Given by the user"}"#);
    for log in [&titled, &other, &own, &custom] {
        home.add("/home/user/app", log);
    }
    home.write("projects/-home-user-app/5f000000-0000-4000-8000-000000000000.jsonl",
        br#"{"type":"summary","summary":"Nothing else here","leafUuid":"ffffffff-0000-4000-8000-000000000003"}"#);
    home.write("projects/-home-user-app/6f000000-0000-4000-8000-000000000000.jsonl", b"");
    home.write(
        "projects/-home-user-app/7f000000-0000-4000-8000-000000000000.jsonl",
        br#"{"type":"last-prompt","lastPrompt":"x","sessionId":"7f000000-0000-4000-8000-000000000000"}"#,
    );
    assert_snapshot!(run(&home, &["ls"]), @"
    ID                                    WHEN        TURNS    SIZE  BRANCHES  TITLE
    00000004-0000-4000-8000-000000000000  4 days ago      1   441 B            Given by the user
    00000003-0000-4000-8000-000000000000  4 days ago      1  1.2 kB            About session three
    00000002-0000-4000-8000-000000000000  4 days ago      1   525 B            first prompt of two
    00000001-0000-4000-8000-000000000000  4 days ago      1   966 B            About session one
    ----- stderr
    4 sessions; hidden: 1 empty file, 1 file with only summaries, 1 file without a conversation (--agents shows them)
    ");
    let drawn = run(&home, &["tree", "00000001"]);
    assert!(drawn.starts_with("About session one"), "{drawn}");
    let rows: Vec<Value> = run(&home, &["ls", "--agents", "--json", "-q"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut titles: Vec<String> = rows
        .iter()
        .map(|row| {
            format!(
                "{} {} {} {}",
                &row["id"].as_str().expect("an id")[..8],
                row["kind"],
                row["title_source"],
                row["title"]
            )
        })
        .collect();
    titles.sort();
    assert_snapshot!(titles.join("\n"), @r#"
    00000001 "conversation" "summary" "About session one"
    00000002 "conversation" "first-prompt" "first prompt of two"
    00000003 "conversation" "summary" "About session three"
    00000004 "conversation" "custom" "Given by the user"
    5f000000 "summaries" "none" ""
    6f000000 "empty" "none" ""
    7f000000 "pointer" "none" ""
    "#);
}

#[test]
fn default_scope_is_the_project_of_the_current_directory() {
    let home = Home::default();
    let work = home.path().join("work/my-app");
    let twin = home.path().join("work/my/app");
    std::fs::create_dir_all(&work).expect("created");
    std::fs::create_dir_all(&twin).expect("created");
    let real = work.canonicalize().expect("there");
    let session = |number, cwd: &Path, text: &str| {
        let mut log = LogBuilder::new(number);
        log.cwd = cwd.to_string_lossy().into_owned();
        log.prompt(text);
        home.add(&log.cwd.clone(), &log);
    };
    session(1, &real, "in this project");
    session(2, &twin.canonicalize().expect("there"), "in the twin");
    session(3, Path::new("/elsewhere"), "in another one");
    let ls = |dir: &Path, args: &[&str]| {
        let output =
            rethread(home.path()).current_dir(dir).arg("ls").args(args).arg("-q").output().expect("run");
        let text = String::from_utf8(output.stdout).expect("text");
        ["in this project", "in the twin", "in another one"].map(|words| u8::from(text.contains(words)))
    };
    assert_eq!(ls(&real, &[]), [1, 0, 0]);
    assert_eq!(ls(&twin, &[]), [0, 1, 0]);
    assert_eq!(ls(home.path(), &[]), [1, 1, 1], "no project here: all");
    assert_eq!(ls(&real, &["--all"]), [1, 1, 1]);
    assert_eq!(ls(&real, &["elsewhere"]), [0, 0, 1]);
    assert_eq!(ls(&real, &["/elsewhere"]), [0, 0, 1]);
    let output = rethread(home.path()).current_dir(&real).args(["show", "last", "-q"]).output().expect("run");
    assert!(String::from_utf8_lossy(&output.stdout).contains("in this project"));
}

#[test]
fn ls_covers_several_roots_and_marks_open_sessions() {
    let (one, two) = (Home::default(), Home::default());
    let mut log = LogBuilder::new(1);
    log.prompt("in the first root");
    one.add("/a", &log);
    let mut log = LogBuilder::new(2);
    log.wait(5).prompt("in the second root");
    two.add("/b", &log);
    let pid = std::process::id();
    two.write("sessions/1.json", json!({ "pid": pid, "sessionId": log.session() }).to_string().as_bytes());
    let roots = format!("{},{}", one.path().display(), two.path().display());
    let output =
        rethread(one.path()).env("CLAUDE_CONFIG_DIR", roots).args(["ls", "-q"]).output().expect("run");
    assert_snapshot!(String::from_utf8_lossy(&output.stdout), @"
    ID                                    WHEN        TURNS   SIZE  BRANCHES    TITLE
    00000002-0000-4000-8000-000000000000  4 days ago      1  331 B            ● in the second root
    00000001-0000-4000-8000-000000000000  4 days ago      1  330 B              in the first root
    ");
}

#[test]
fn subagents_and_large_results_are_found_in_sidecars() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let calls = log.calls(&[("Task", json!({ "prompt": "dig" })), ("Bash", json!({ "command": "make" }))]);
    log.result_with(&calls[0], &json!("dug"), &json!({ "agentId": "a77" }));
    let stub = "<persisted-output>\nOutput too large (90 KB). Full output saved to: /somewhere/tool-results/b12.txt\n\nPreview:\nfirst\n</persisted-output>";
    log.result(&calls[1], stub);
    home.add("/home/user/app", &log);
    let dir = format!("projects/-home-user-app/{}", log.session());
    let mut agent = LogBuilder::new(9);
    agent.sidechain(Some("a77"));
    agent.prompt("dig");
    agent.answer("dug");
    home.write(&format!("{dir}/subagents/agent-a77.jsonl"), &agent.bytes());
    home.write(&format!("{dir}/tool-results/b12.txt"), b"the whole output\nof make\n");
    assert_snapshot!(run(&home, &["show", "00000001", "--no-pager"]), @"
    go
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 1 turn
    model    claude-opus-5

    ▌ you turn 1 · #1 · 5 Jan 2026 00:00
    go

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
      ▸ Task  dig
        ↳ dug
        ↳ subagent: rethread show [home]/projects/-home-user-app/00000001-0000-4000-8000-000000000000/subagents/agent-a77.jsonl
      ▸ Bash  make
        ↳ the whole output  (+1 line)

    ----- stderr
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone 00000001 --to DIR`)
    ");
    assert_snapshot!(run(&home, &["show", "a77"]), @"
    dig
    project  /home/user/app (main)
    when     5 Jan 2026 00:00
    model    claude-opus-5

    ▌ you turn 1 · #1 · 5 Jan 2026 00:00
    dig

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
    dug
    ");
    let info: Value = serde_json::from_str(&run(&home, &["info", "00000001", "--json", "-q"])).expect("JSON");
    assert_eq!(info["subagents"], 1);
    // A stub that points out of the session's own directory is not followed.
    let mut log = LogBuilder::new(2);
    log.prompt("go");
    let call = log.call("Bash", &json!({ "command": "x" }));
    log.result(&call, "<persisted-output>\nsaved to: /x/tool-results/../../../../secret.txt\n");
    home.add("/home/user/app", &log);
    home.write("secret.txt", b"SECRET");
    assert!(!run(&home, &["show", "00000002", "--tools", "full"]).contains("SECRET"));
}

#[test]
fn conversation_continued_in_another_file_is_read_as_one() {
    let home = Home::default();
    let mut first = LogBuilder::new(1);
    first.prompt("asked in the first file");
    let last = first.answer("answered in the first file");
    home.add("/home/user/app", &first);
    let mut second = LogBuilder::new(2);
    second.wait(100).back_to(&last);
    second.compact("A question was asked and answered.");
    second.prompt("asked in the second file");
    let last = second.answer("answered in the second file");
    home.add("/home/user/app", &second);
    let mut third = LogBuilder::new(3);
    third.wait(200).back_to(&last);
    third.system("stop_hook_summary", "");
    third.prompt("asked in the third file");
    home.add("/home/user/app", &third);
    assert_snapshot!(run(&home, &["show", "00000003"]), @"
    asked in the third file
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 – 00:03 · 3 turns · 1 compaction
    model    claude-opus-5

    from session 00000001-0000-4000-8000-000000000000

    ▌ you turn 1 · #1 · 5 Jan 2026 00:00
    asked in the first file

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
    answered in the first file

    from session 00000002-0000-4000-8000-000000000000

    ── compacted here · 5 Jan 2026 00:01 ───────────────────────────────────

    ▌ summary of the earlier conversation #1 · 5 Jan 2026 00:01
    This session is being continued from a previous conversation that ran out of context. A question was asked and answered.

    ▌ you turn 2 · #2 · 5 Jan 2026 00:01
    asked in the second file

    ▌ claude-opus-5 #3 · 5 Jan 2026 00:01
    answered in the second file

    continued in session 00000003-0000-4000-8000-000000000000

    ▌ you turn 3 · #1 · 5 Jan 2026 00:03
    asked in the third file

    ----- stderr
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone 00000003 --to DIR`)
    ");
    assert_snapshot!(run(&home, &["tree", "00000003"]), @"
    asked in the third file
    continues session 00000002-0000-4000-8000-000000000000 after message 3
    ● #1 asked in the third file  1 turn · 4 days ago  path 1 active
    ");
    let rows = run(&home, &["show", "00000003", "--json", "-q"]);
    let messages: Vec<String> = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .filter(|row| row["type"] == "message")
        .map(|row| format!("{} {}", row["session"], row["n"]))
        .collect();
    assert_eq!(messages.len(), 6, "{messages:?}");
    assert!(messages[5].starts_with("null"));
}

#[test]
fn tokens_of_a_message_are_counted_once() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    // Usage grows while a message is streamed; the last entry has the total.
    log.block("m1", &json!({ "type": "text", "text": "a" }));
    log.block("m1", &json!({ "type": "text", "text": "b" }));
    let text = String::from_utf8(log.bytes()).expect("text").replacen(
        "\"output_tokens\":40",
        "\"output_tokens\":1",
        1,
    );
    home.write("a/00000001-0000-4000-8000-000000000000.jsonl", text.as_bytes());
    // A fork copies the message under another session id.
    home.write(
        "a/00000002-0000-4000-8000-000000000000.jsonl",
        text.replace("00000001-", "00000002-").as_bytes(),
    );
    let rows: Vec<Value> = run(&home, &["info", "./a", "--json", "-q"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let output: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row["type"], row["usage"]["output"])).collect();
    assert_eq!(output, ["\"inventory\" 40", "\"inventory\" 40", "\"total\" 40"]);
}

#[test]
fn queued_prompts_are_shown() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("first");
    log.answer("working");
    log.entry("attachment", json!({ "attachment": { "type": "queued_command", "prompt": "and also this" } }));
    log.answer("both done");
    home.add("/home/user/app", &log);
    assert_snapshot!(run(&home, &["show", "00000001"]), @"
    first
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 2 turns
    model    claude-opus-5

    ▌ you turn 1 · #1 · 5 Jan 2026 00:00
    first

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
    working

    ▌ you turn 2 · #3 · 5 Jan 2026 00:00
    and also this

    ▌ claude-opus-5 #4 · 5 Jan 2026 00:00
    both done

    ----- stderr
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone 00000001 --to DIR`)
    ");
}

/// Returns the first row that a command prints.
fn row(home: &Home, args: &[&str]) -> Value {
    serde_json::from_str(run(home, args).lines().next().expect("a row")).expect("JSON")
}

#[test]
fn commands_and_tasks_are_prompts_but_client_messages_are_not() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.meta("<local-command-caveat>Caveat: The messages below</local-command-caveat>");
    log.prompt("<command-name>/clear</command-name> <command-message>clear</command-message> <command-args></command-args>");
    log.prompt("<local-command-stdout>(no content)</local-command-stdout>");
    log.prompt("<command-message>orchestrator</command-message>\n<command-name>/orchestrator</command-name>\n<command-args>create TODO app</command-args>");
    log.answer("on it");
    let blocks = json!([
        { "type": "text", "text": "<ide_opened_file>The user opened a.rs</ide_opened_file>" },
        { "type": "text", "text": "## why **this** file?\nand more" },
    ]);
    log.entry("user", json!({ "message": { "role": "user", "content": blocks } }));
    log.prompt("(no content)");
    log.prompt("<teammate-message teammate_id=\"team-lead\">\nBuild the parser.\n</teammate-message>");
    log.answer("built");
    home.add("/home/user/app", &log);
    assert_snapshot!(run(&home, &["show", "00000001"]), @"
    /orchestrator create TODO app
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 · 3 turns
    model    claude-opus-5

      · /clear

      · (no content)

    ▌ you turn 1 · #4 · 5 Jan 2026 00:00
    /orchestrator create TODO app

    ▌ claude-opus-5 #5 · 5 Jan 2026 00:00
    on it

    ▌ you turn 2 · #6 · 5 Jan 2026 00:00
    ## why **this** file?
    and more

    ▌ you turn 3 · #8 · 5 Jan 2026 00:00
    Build the parser.

    ▌ claude-opus-5 #9 · 5 Jan 2026 00:00
    built

    ----- stderr
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone 00000001 --to DIR`)
    ");
    let row = row(&home, &["ls", "--all", "--json"]);
    assert_eq!((&row["title"], &row["turns"]), (&json!("/orchestrator create TODO app"), &json!(3)));
}

#[test]
fn titles_are_one_line_in_every_command() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt(&format!("\n# **Plan** for `{}`\n\nsecond line", "a very long thing ".repeat(20)));
    log.answer("ok");
    home.add("/home/user/app", &log);
    let row = row(&home, &["ls", "--all", "--json"]);
    let title = row["title"].as_str().expect("a title").to_owned();
    assert!(title.starts_with("Plan for a very long thing") && title.chars().count() <= 80, "{title}");
    assert!(run(&home, &["tree", "00000001"]).starts_with(&title));
    let out = home.path().join("out");
    run(&home, &["export", "00000001", "-f", "json", "-o", &out.to_string_lossy()]);
    let file = std::fs::read_dir(&out).expect("listed").map(|entry| entry.expect("an entry").path());
    let file = { file }.find(|file| file.extension().is_some_and(|ending| ending == "json"));
    let document: Value =
        serde_json::from_slice(&std::fs::read(file.expect("one")).expect("a document")).expect("JSON");
    assert_eq!(document["title"], json!(title));
}

/// A local command at the end, attached to the first entry, is all that clients resume.
#[test]
fn conversation_abandoned_for_a_local_command_is_reported_and_repaired() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    let first = log.meta("<local-command-caveat>Caveat: The messages below</local-command-caveat>");
    for n in 0..3 {
        log.prompt(&format!("question {n}"));
        log.answer(&format!("answer {n}"));
    }
    log.wait(60).back_to(&first);
    log.prompt("<command-name>/export</command-name>");
    log.prompt("<local-command-stdout>exported</local-command-stdout>");
    home.add("/home/user/app", &log);
    let output = |args: &[&str]| rethread(home.path()).args(args).output().expect("ran");
    let findings = output(&["check", "00000001", "--json"]);
    assert_eq!(findings.status.code(), Some(1));
    let finding: Value = serde_json::from_slice(&findings.stdout).expect("one finding");
    assert_eq!((&finding["kind"], &finding["severity"]), (&json!("left_behind"), &json!("loses")));
    assert_eq!((&finding["line"], &finding["lost_lines"]), (&json!(9), &json!([2, 3, 4, 5, 6, 7])));
    let shown = output(&["show", "00000001"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("answer 2"));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("line 9"));
    let repaired = row(&home, &["repair", "00000001", "--json"]);
    let id = repaired["id"].as_str().expect("a session");
    assert!(run(&home, &["preview", id, "--json"]).contains("answer 2"));
    assert_eq!(output(&["check", id]).status.code(), Some(0));
}

#[test]
fn orphan_subagents_are_hidden_but_counted_and_exported() {
    let home = Home::default();
    let mut agent = LogBuilder::new(2);
    agent.sidechain(Some("a1b2c3d"));
    agent.prompt("look behind the kettle");
    agent.answer("nothing there");
    let gone = "projects/-home-user-app/00000009-0000-4000-8000-000000000000/subagents/agent-a1b2c3d.jsonl";
    home.write(gone, &agent.bytes());
    let hidden = rethread(home.path()).args(["ls", "--all", "--json"]).output().expect("ran");
    assert_eq!((hidden.status.code(), String::from_utf8_lossy(&hidden.stdout)), (Some(1), "".into()));
    let counts = String::from_utf8_lossy(&hidden.stderr).into_owned();
    assert!(counts.contains("hidden: 1 subagent of missing sessions (--agents shows them)"), "{counts}");
    let row = row(&home, &["ls", "--all", "--agents", "--json"]);
    assert_eq!((&row["kind"], &row["title"]), (&json!("orphan"), &json!("look behind the kettle")));
    assert!(!run(&home, &["ls", "--all", "--agents"]).contains('!'), "nobody resumes a subagent");
    let out = home.path().join("out");
    run(&home, &["export", "--all", "-o", &out.to_string_lossy()]);
    let written = std::fs::read_dir(&out).expect("documents").filter_map(Result::ok);
    let texts: String = { written }.filter_map(|file| std::fs::read_to_string(file.path()).ok()).collect();
    assert!(texts.contains("nothing there"), "{texts}");
}

#[test]
fn subagent_is_linked_by_its_meta_file() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let call = log.call("Agent", &json!({ "description": "dig", "prompt": "dig" }));
    log.result(&call, "dug");
    home.add("/home/user/app", &log);
    let dir = format!("projects/-home-user-app/{}/subagents", log.session());
    home.write(&format!("{dir}/agent-a5.meta.json"), json!({ "toolUseId": call.id }).to_string().as_bytes());
    let mut agent = LogBuilder::new(9);
    agent.sidechain(Some("a5"));
    agent.prompt("dig");
    home.write(&format!("{dir}/agent-a5.jsonl"), &agent.bytes());
    assert!(run(&home, &["show", "00000001"]).contains("subagent: rethread show [home]/projects"));
}

#[test]
fn ambiguous_prefix_lists_titles() {
    let home = Home::default();
    for (number, text) in [(0xaa01, "fix the login"), (0xaa02, "write release notes")] {
        let mut log = LogBuilder::new(number);
        log.prompt(text);
        home.add("/home/user/app", &log);
    }
    assert_snapshot!(run(&home, &["show", "0000aa"]), @r#"
    ----- stderr
    error: `0000aa` matches 2 sessions
    hint: 0000aa01 "fix the login", app, 4 days ago
    hint: 0000aa02 "write release notes", app, 4 days ago
    ----- exit Some(2)
    "#);
}

#[test]
fn id_in_two_projects_is_ambiguous() {
    let home = Home::default();
    for (project, text) in [("/home/user/app", "fix the login"), ("/home/user/other", "write release notes")]
    {
        let mut log = LogBuilder::new(0xaa01);
        log.prompt(text);
        home.add(project, &log);
    }
    for args in [&["show", "0000aa01"][..], &["repair", "0000aa01-0000-4000-8000-000000000000"]] {
        let refused = run(&home, args);
        assert!(refused.contains("matches 2 sessions") && refused.contains("exit Some(2)"), "{refused}");
        assert!(refused.contains("-home-user-app/") && refused.contains("-home-user-other/"), "{refused}");
    }
}

#[test]
fn closed_pipe_ends_silently() {
    use std::process::Stdio;
    let home = Home::default();
    let mut child = rethread(home.path())
        .args(["--demo", "show", "0000d001", "--tools", "full"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!((output.status.code(), &*String::from_utf8_lossy(&output.stderr)), (Some(0), ""));
}

#[test]
fn cli_reference_matches_the_help() {
    let home = Home::default();
    let output = rethread(home.path()).args(["util", "markdown-help"]).output().expect("run");
    let now = String::from_utf8(output.stdout).expect("text");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-reference.md");
    if std::env::var_os("RETHREAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &now).expect("written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, now, "run the tests with RETHREAD_WRITE_DOCS=1 to write it anew");
}

#[test]
fn completions_and_manual_are_printed() {
    let home = Home::default();
    for args in [&["util", "completions", "bash"][..], &["util", "completions", "zsh"], &["util", "man"]] {
        let output = rethread(home.path()).args(args).output().expect("run");
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).contains("rethread"));
    }
}

#[test]
fn export_prints_what_it_wrote() {
    let home = Home::default();
    home.add("/home/user/app", &rethread_testkit::hostile::redone(1));
    let mut copy = LogBuilder::new(1);
    copy.prompt("Turn 1");
    copy.answer("Answer to 1");
    home.write("projects/-home-user-app/copy of 1.jsonl", &copy.bytes());
    assert_snapshot!(run(&home, &["export", "--all", "-o", "out"]), @"
    transcript_00000001-0000-4000-8000-000000000000_path1_abandoned.md  Turn 1
    transcript_00000001-0000-4000-8000-000000000000_path2_abandoned.md  Turn 1
    transcript_00000001-0000-4000-8000-000000000000_path3.md  Turn 1
    skipped: copy of 1, contained in transcript_00000001-0000-4000-8000-000000000000_path3.md
    ----- stderr
    3 transcripts in out
    1 copy skipped
    open out/README.md
    ");
    assert_snapshot!(run(&home, &["export", "--all", "-o", "out"]), @"
    transcript_00000001-0000-4000-8000-000000000000_path1_abandoned.md  Turn 1
    transcript_00000001-0000-4000-8000-000000000000_path2_abandoned.md  Turn 1
    transcript_00000001-0000-4000-8000-000000000000_path3.md  Turn 1
    skipped: copy of 1, contained in transcript_00000001-0000-4000-8000-000000000000_path3.md
    ----- stderr
    3 transcripts in out
    3 unchanged, 1 copy skipped
    open out/README.md
    ");
    assert_snapshot!(run(&home, &["export", "copy of 1", "0000000", "-o", "json", "--json"]), @r#"
    {"type":"transcript","session":"00000001-0000-4000-8000-000000000000","path_n":1,"paths":3,"status":"abandoned","title":"Turn 1","file":"[home]/json/transcript_00000001-0000-4000-8000-000000000000_path1_abandoned.md","messages":10,"unchanged":false,"skipped_as":null}
    {"type":"transcript","session":"00000001-0000-4000-8000-000000000000","path_n":2,"paths":3,"status":"abandoned","title":"Turn 1","file":"[home]/json/transcript_00000001-0000-4000-8000-000000000000_path2_abandoned.md","messages":14,"unchanged":false,"skipped_as":null}
    {"type":"transcript","session":"00000001-0000-4000-8000-000000000000","path_n":3,"paths":3,"status":"active","title":"Turn 1","file":"[home]/json/transcript_00000001-0000-4000-8000-000000000000_path3.md","messages":14,"unchanged":false,"skipped_as":null}
    {"type":"transcript","session":"copy of 1","path_n":1,"paths":1,"status":"active","title":"Turn 1","file":null,"messages":2,"unchanged":false,"skipped_as":"[home]/json/transcript_00000001-0000-4000-8000-000000000000_path3.md"}
    "#);
    assert_snapshot!(run(&home, &["export", "0000000", "-o", "data", "--path", "2", "-f", "json", "--json"]), @r#"{"type":"transcript","session":"00000001-0000-4000-8000-000000000000","path_n":2,"paths":3,"status":"abandoned","title":"Turn 1","file":"[home]/data/2026-01-05_turn-1_00000001_path2_abandoned.json","messages":14,"unchanged":false,"skipped_as":null}"#);
}

#[test]
fn export_errors_have_hints() {
    let home = Home::default();
    home.add("/home/user/app", &rethread_testkit::hostile::redone(1));
    home.write("mine/thesis.txt", b"years of work");
    home.write("file", b"");
    assert_snapshot!(run(&home, &["export", "-o", "mine"]), @"
    ----- stderr
    error: [home]/mine contains other files, such as thesis.txt
    hint: choose a new or empty directory, or one created by an earlier export
    hint: --force writes next to the existing files; files of other programs are never overwritten
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "-o", "file"]), @"
    ----- stderr
    error: cannot write [home]/file: not a directory
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "nothing-like-it", "-o", "out"]), @"
    ----- stderr
    error: no session matches `nothing-like-it`
    hint: searched in [home]
    hint: `rethread ls --all` lists all sessions; an id, a part of a title or a path to a .jsonl file works
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "0000", "--path", "9", "-o", "out"]), @"
    ----- stderr
    error: session 00000001-0000-4000-8000-000000000000 has no path 9
    hint: `rethread tree` lists the paths of a session
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["export", "0000", "--path", "none", "-o", "out"]), @"
    ----- stderr
    error: invalid value 'none' for '--path <WHICH>': expected `all`, `active` or a path number such as 2

    For more information, try '--help'.
    ----- exit Some(2)
    ");
    let empty = Home::default();
    assert_snapshot!(run(&empty, &["export", "-o", "out"]), @"
    ----- stderr
    no sessions to export; `rethread ls --all` lists all sessions
    ----- exit Some(1)
    ");
}

/// The files of a directory that have their final names.
fn finished(dir: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Default::default() };
    let name = |e: std::io::Result<std::fs::DirEntry>| {
        e.expect("an entry").file_name().to_string_lossy().into_owned()
    };
    let names = entries.map(name).filter(|name| !name.starts_with(".rethread-"));
    names.map(|name| (name.clone(), std::fs::read(dir.join(&name)).expect("read"))).collect()
}

#[test]
fn full_disk_or_kill_leaves_no_partial_document() {
    let home = Home::default();
    for number in 1..=6 {
        home.add("/home/user/app", &rethread_testkit::hostile::long(number, 300));
    }
    run(&home, &["export", "--all", "-q", "-f", "html", "-o", "whole"]);
    let whole = finished(&home.path().join("whole"));
    assert_eq!(whole.len(), 7);
    let check = |out: &str| {
        let found = finished(&home.path().join(out));
        for (name, bytes) in &found {
            assert!(whole.get(name) == Some(bytes), "{name} is not whole in {out}");
        }
        found.len()
    };
    // No file may be longer than a few blocks, as on a full disk.
    let program = assert_cmd::cargo::cargo_bin!("rethread");
    let limited = format!("ulimit -f 100; exec {} export -q -f html -o full", program.display());
    let mut command = Command::new("sh");
    command.env_clear().current_dir(home.path()).env("CLAUDE_CONFIG_DIR", home.path());
    let status = command.args(["-c", &limited]).stderr(std::process::Stdio::null()).status().expect("sh");
    assert!(!status.success());
    assert_eq!(check("full"), 0);
    for moment in 0..40 {
        let out = format!("killed-{moment}");
        let mut child = rethread(home.path())
            .args(["export", "--all", "-q", "-f", "html", "-o", &out])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("started");
        std::thread::sleep(std::time::Duration::from_micros(moment * 700));
        child.kill().expect("ours to kill");
        child.wait().expect("ended");
        check(&out);
        // A second run completes it.
        run(&home, &["export", "--all", "-q", "-f", "html", "-o", &out]);
        assert_eq!(check(&out), 7);
    }
}

#[test]
fn last_is_the_newest_session_whatever_the_modification_times_are() {
    let home = Home::default();
    let mut newest = LogBuilder::new(1);
    newest.wait(100).prompt("the newest entry");
    let mut older = LogBuilder::new(2);
    older.prompt("an older entry");
    let (newest, older) =
        (home.add(&home.path().to_string_lossy(), &newest), home.add(&home.path().to_string_lossy(), &older));
    let set = |path: &Path, seconds: u64| {
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let file = std::fs::File::options().append(true).open(path).expect("opened");
        file.set_modified(time).expect("set");
    };
    // The older session was copied or touched later.
    set(&newest, 1_800_000_000);
    for touched in [1_800_000_100, 1_700_000_000] {
        set(&older, touched);
        assert!(run(&home, &["show", "last"]).contains("the newest entry"));
    }
}
