//! `info`, and the other commands that describe a session in words.

mod common;

use common::{demo, rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::json;
use unicode_width::UnicodeWidthStr;

#[test]
fn info_describes_a_session() {
    assert_snapshot!(demo(&["info", "0000d002"]), @"
    Do the tests pass, and is the README still right?
    0000d002-0000-4000-8000-000000000000

      project     /home/ada/kettle
      branch      main
      active      6 Jan 2026 00:00 (3 days ago)
      models      claude-opus-5
      clients     2.1.200
      content     1 turn · 8 messages · 1 branch · 3 tool calls · 1 subagent
      tools       Bash 1, Read 1, Task 1
      context     3,250 tokens on resume
      tokens      30 in · 120 out · 600 written to cache · 9,000 read from cache
      size        6.3 kB: bookkeeping 80 %, tool results 10 %, tool calls 6 %, text 4 %
      file        demo/0000d002-0000-4000-8000-000000000000.jsonl
      check       resumes completely, no findings
    ");
}

#[test]
fn info_counts_findings_and_says_how_to_list_them() {
    assert_snapshot!(demo(&["info", "0000d004"]), @"
    Rename the chapter on winds.
    0000d004-0000-4000-8000-000000000000

      project     /home/ada/almanac
      branch      main
      active      8 Jan 2026 00:00 (yesterday)
      models      claude-opus-5
      clients     2.1.200
      content     1 turn · 3 messages · 1 branch · 1 tool call
      tools       Edit 1
      context     3,278 tokens on resume
      tokens      10 in · 40 out · 200 written to cache · 3,000 read from cache
      size        1.8 kB: bookkeeping 75 %, tool calls 9 %, tool results 9 %, unreadable 6 %, other 2 %
      file        demo/0000d004-0000-4000-8000-000000000000.jsonl
      check       resumes completely (findings: 1 harmless)
                  `rethread --demo check 0000d004` lists them
    ");
}

#[test]
fn verbose_info_has_statistics_and_defects() {
    assert_snapshot!(demo(&["info", "0000d004", "--verbose"]), @"
    Rename the chapter on winds.
    0000d004-0000-4000-8000-000000000000

      project     /home/ada/almanac
      branch      main
      active      8 Jan 2026 00:00 (yesterday)
      models      claude-opus-5
      clients     2.1.200
      content     1 turn · 3 messages · 1 branch · 1 tool call
      tools       Edit 1
      context     3,278 tokens on resume
      tokens      10 in · 40 out · 200 written to cache · 3,000 read from cache
      size        1.8 kB: bookkeeping 75 %, tool calls 9 %, tool results 9 %, unreadable 6 %, other 2 %
      file        demo/0000d004-0000-4000-8000-000000000000.jsonl
      check       resumes completely (findings: 1 harmless)
                  `rethread --demo check 0000d004` lists them

    Statistics
      file            1,821 bytes, 4 lines, 3 entries
      messages        2 user, 1 assistant
      entries         user 2, assistant 1
      blocks          assistant:tool_use 1, user:text 1, user:tool_result 1
      tool calls      1, 1 with a result
      tools           Edit 1
      models          claude-opus-5 1
      versions        2.1.200 3
      stop reasons    None 1
      chain           parent is the previous entry 2, no parent 1
      tokens          10 in, 40 out, 200 written to cache, 3,000 read from cache
      bytes           entry fields        1.4 kB  74.7 %  ███████████████
                      tool calls           169 B   9.3 %  ██
                      tool results         109 B   6.0 %  █
                      unreadable           107 B   5.9 %  █
                      copies of results     46 B   2.5 %  █
                      text                  30 B   1.6 %
      defects         line 4: line is truncated
    ");
}

#[test]
fn info_of_many_sessions_is_a_table_and_a_total() {
    assert_snapshot!(demo(&["info", "0000d001", "0000d002", "0000d003", "0000d004"]), @"
    SESSION                                  SIZE    TURNS BRANCHES  DEFECTS MESSAGES    CALLS  ENTRIES
    0000d001-0000-4000-8000-000000000000   6.5 kB        6        3                12        0       13
    0000d002-0000-4000-8000-000000000000   6.3 kB        1        1                 8        3       10
    0000d003-0000-4000-8000-000000000000   4.2 kB        3        1                 7        0        8
    0000d004-0000-4000-8000-000000000000   1.8 kB        1        1        1        3        1        3

    4 sessions in total

      models      claude-opus-5
      clients     2.1.200
      content     11 turns · 30 messages · 6 branches · 4 tool calls · 1 compaction · 1 subagent
      tools       Bash 1, Edit 1, Read 1, Task 1
      tokens      130 in · 520 out · 2,600 written to cache · 39k read from cache
      size        19 kB: bookkeeping 84 %, text 8 %, tool results 4 %, tool calls 3 %, other 1 %
      defects     1 in the files
    ");
}

/// A session with several kinds of findings and long names.
fn damaged(prompt: &str) -> LogBuilder {
    let mut log = LogBuilder::new(7);
    log.prompt(prompt);
    for n in 0..12 {
        let name = format!("mcp__a_server_with_a_long_name__tool_{n}");
        log.call(&name, &json!({ "command": "sensor read" }));
        log.prompt("And now?");
    }
    log.answer("Still 81 degrees.");
    log.raw(r#"{"type":"user","uuid":"x","#);
    log.prompt("My key is ghp_0123456789abcdefghijklmnopqrstuvwxyz");
    log
}

#[test]
fn output_fits_the_terminal() {
    let home = Home::default();
    let hostile = "\u{1b}[31mHow warm is the kettle, \u{202e}and why does this question have so many words?";
    home.add("/a", &damaged(hostile));
    home.add("/a", &LogBuilder::new(8));
    for width in ["60", "80", "120", "200"] {
        for args in [
            &["info", "00000007"][..],
            &["info", "00000007", "--verbose"],
            &["info", "00000007", "00000007", "00000007", "00000007"],
            &["check", "00000007"],
            &["check"],
            &["repair", "00000007", "--dry-run"],
            &["preview", "00000007"],
            &["secrets", "00000007"],
            &["clean", "00000007", "--dry-run"],
        ] {
            let mut command = rethread(home.path());
            let output = command.args(["--color", "always"]).args(args).env("COLUMNS", width).output();
            let text = String::from_utf8(output.expect("run").stdout).expect("UTF-8");
            for line in text.lines() {
                let plain = anstream::adapter::strip_str(line).to_string();
                // Paths and commands are printed whole, so that they can be copied.
                let is_whole = [&*home.path().to_string_lossy(), "rethread repair", "claude --resume"]
                    .iter()
                    .any(|whole| plain.contains(whole));
                let fits = plain.width() <= width.parse().expect("a number");
                assert!(is_whole || fits, "{args:?}, {width}: {plain}");
                assert!(!plain.contains(['\u{1b}', '\u{202e}']), "{plain}");
            }
        }
    }
}

#[test]
fn check_groups_findings_and_ends_with_the_next_command() {
    let home = Home::default();
    home.add("/a", &damaged("How warm is the kettle?"));
    assert_snapshot!(run(&home, &["check", "00000007"]), @"
    00000007-0000-4000-8000-000000000000  How warm is the kettle?
    resumes, with losses
      loses     the call has no result: 1 entry of the conversation not sent (and 11 more like this)
                lines 2, 4, 6, 8, 10, 12 and 6 more · clients 2.1.112 to 2.1.325
                `rethread repair` adds a result that says the original is missing
      harmless  line is truncated
                line 27
                a write was interrupted; `rethread repair` drops the unreadable part
    repair it with: rethread repair 00000007
    ----- exit Some(1)
    ");
}

#[test]
fn repair_says_what_it_changed_and_how_to_resume() {
    let home = Home::default();
    home.add("/a", &damaged("How warm is the kettle?"));
    let text = run(&home, &["repair", "00000007"]);
    let ids = without_new_ids(&text);
    assert_snapshot!(ids, @"
    12 lines were changed, 12 added, 1 dropped
      cut short           line 27
      open call           lines 2, 3, 4, 5, 6, 7 and 18 more
    new session: [home]/projects/-a/[new].jsonl
    checked: resumes completely, no findings
    not resumable here: no directory of this machine is known in which clients would find the session (copy it to the project of a directory: `rethread clone [new] --to DIR`)
    ");
    assert_snapshot!(run(&home, &["repair", "00000007", "--in-place"]), @"
    12 lines were changed, 12 added, 1 dropped
      cut short           line 27
      open call           lines 2, 3, 4, 5, 6, 7 and 18 more
    repaired in place: [home]/projects/-a/00000007-0000-4000-8000-000000000000.jsonl
    the original is kept in [home]/projects/-a/00000007-0000-4000-8000-000000000000.jsonl.bak
    checked: resumes completely, no findings
    not resumable here: no directory of this machine is known in which clients would find the session (copy it to the project of a directory: `rethread clone 00000007 --to DIR`)
    ");
}

/// Replaces the ids of new sessions.
fn without_new_ids(text: &str) -> String {
    let is_hex = |word: &str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let is_new = |word: &str| is_hex(word) && word != "00000007";
    let is_id =
        |word: &str| is_new(word) || word.len() == 36 && word.bytes().filter(|&b| b == b'-').count() == 4;
    let split = text.split_inclusive(['/', ' ', '\n', '.']);
    let name = |part: &str| {
        let end = part.len() - 1;
        if is_id(&part[..end]) { format!("[new]{}", &part[end..]) } else { part.to_owned() }
    };
    split.map(name).collect()
}

#[test]
fn secrets_are_masked_and_followed_by_advice() {
    let home = Home::default();
    home.add("/a", &damaged("How warm is the kettle?"));
    assert_snapshot!(run(&home, &["secrets", "00000007"]), @"
    00000007-0000-4000-8000-000000000000  1 secret
      github-token             ghp_… (40 characters)      line 28 (user text)
    1 secret of 1 kind in 1 place of 1 session
    ----- stderr
    revoke secrets that somebody else may have read: removing them from the log is not enough
    `rethread clean 00000007 --redact -o DIR` writes copies without them
    ----- exit Some(1)
    ");
}

#[test]
fn clean_without_output_explains_the_choices() {
    assert_snapshot!(demo(&["clean", "0000d001"]), @"
    ----- stderr
    error: no output directory
    hint: -o DIR writes copies to DIR and leaves the sessions unchanged
    hint: --dry-run shows what would be removed; --in-place cleans the sessions themselves
    ----- exit Some(2)
    ");
}
