//! Messages by number, anchor and uuid, and excerpts of a limited size.

mod common;

use std::fs;

use common::{rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

/// Two turns with a call, and an abandoned branch.
fn conversation() -> LogBuilder {
    let mut log = LogBuilder::new(9);
    log.prompt("Where is the walrus kept?");
    let fork = log.answer("In the northern basin.");
    log.wait(60).prompt("Feed it herring.");
    log.answer("Fed with herring.");
    log.back_to(&fork);
    log.wait(60).prompt("Feed it mussels.");
    let call = log.call("Bash", &json!({ "command": "feed --with mussels" }));
    log.result(&call, "the basin reports: eaten");
    log.answer("It ate the mussels.");
    log
}

/// Returns the objects that a command prints.
fn rows(home: &Home, args: &[&str]) -> Vec<Value> {
    let output = rethread(home.path()).args(args).arg("--json").output().expect("ended");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

/// Returns the first hit of a search.
fn hit(home: &Home, query: &str) -> Value {
    rows(home, &["search", query]).swap_remove(0)
}

/// Returns the text of the first message that `show` prints from a message on.
fn text_at(home: &Home, session: &str, at: &str) -> String {
    let shown = rows(home, &["show", session, "--at", at, "--around", "0"]);
    let block = &shown.last().expect("a message")["blocks"][0];
    let text = ["text", "content"].iter().find_map(|key| block[key].as_str());
    text.map_or_else(|| block["input"].to_string(), str::to_owned)
}

const WORDS: [&str; 4] = ["northern", "herring", "mussels", "eaten"];

#[test]
fn names_of_a_hit_open_its_message_after_the_log_has_grown_was_cloned_and_was_moved() {
    let home = Home::default();
    let mut log = conversation();
    let path = home.add("/home/user/app", &log);
    let found: Vec<Value> = WORDS.iter().map(|word| hit(&home, word)).collect();
    let names = |hit: &Value| {
        let number = hit["message"].to_string();
        [format!("#{number}"), number, hit["anchor"].as_str().map_or_else(String::new, str::to_owned)]
    };
    let check = |session: &str, names: &dyn Fn(&Value) -> Vec<String>| {
        for (hit, word) in found.iter().zip(WORDS) {
            for name in names(hit) {
                let text = text_at(&home, session, &name);
                assert!(text.contains(word), "{session} {name}: {text}");
            }
        }
    };
    let all =
        |hit: &Value| [names(hit).to_vec(), vec![hit["uuid"].as_str().expect("a uuid").to_owned()]].concat();
    check("00000009", &all);

    log.wait(60).prompt("And a herring for the northern walrus?");
    log.answer("Eaten as well: mussels and herring.");
    home.add("/home/user/app", &log);
    check("00000009", &all);

    let plain = rows(&home, &["clone", "00000009"]).remove(0);
    check(plain["id"].as_str().expect("an id"), &|hit| names(hit).to_vec());
    let branch = rows(&home, &["clone", "00000009", "--path", "1"]).remove(0);
    let branch = branch["id"].as_str().expect("an id");
    for (hit, word) in found.iter().zip(WORDS).take(2) {
        let text = text_at(&home, branch, hit["anchor"].as_str().expect("an anchor"));
        assert!(text.contains(word), "{word}: {text}");
    }

    let moved = home.path().join("projects/-home-user-ocean");
    fs::create_dir_all(&moved).expect("a directory");
    fs::rename(&path, moved.join(path.file_name().expect("a name"))).expect("moved");
    check("00000009", &all);
}

#[test]
fn command_that_search_prints_opens_the_hit() {
    let home = Home::default();
    home.add("/home/user/app", &conversation());
    for word in WORDS {
        let printed = run(&home, &["search", word]);
        let command = printed.split("to read hit 1: rethread ").nth(1).expect("a command");
        let words: Vec<&str> =
            command.split(',').next().expect("it ends at a comma").split_whitespace().collect();
        assert!(run(&home, &words).contains(word), "{words:?}");
    }
}

#[test]
fn unknown_and_ambiguous_names_are_errors() {
    let home = Home::default();
    home.add("/home/user/app", &conversation());
    let show = |at: &str| run(&home, &["show", "00000009", "--at", at]);
    assert_snapshot!(show("99"), @"
    ----- stderr
    error: no message 99
    hint: messages are numbered from 1 to 8
    ----- exit Some(2)
    ");
    assert_snapshot!(show("deadbeefdeadbeef"), @"
    ----- stderr
    error: no message `deadbeefdeadbeef`
    hint: a message is named by its number, its anchor, or a uuid or the beginning of it
    ----- exit Some(2)
    ");
    assert_snapshot!(show("00000009-"), @"
    ----- stderr
    error: `00000009-` is the beginning of several uuids
    hint: 00000009-0000-4000-8000-000000000001 (#1), 00000009-0000-4000-8000-000000000002 (#2), 00000009-0000-4000-8000-000000000003 (#3), 00000009-0000-4000-8000-000000000004 (#4)
    ----- exit Some(2)
    ");
    for odd in ["", "#", "0", "#0", "-", "99999999999999999999", "\u{1b}[2J", "漢"] {
        let text = show(&format!("{odd} "));
        assert!(text.contains("error: ") && text.contains("exit Some(2)"), "{odd:?}: {text}");
    }
}

#[test]
fn messages_around_one_are_shown_with_the_calls_of_their_results() {
    let home = Home::default();
    home.add("/home/user/app", &conversation());
    let numbers = |around: &str, at: &str| -> Vec<u64> {
        let shown = rows(&home, &["show", "00000009", "--at", at, "--around", around]);
        shown.iter().filter_map(|row| row["n"].as_u64()).collect()
    };
    assert_eq!(numbers("0", "5"), [5]);
    assert_eq!(numbers("1", "5"), [2, 5, 6], "3 and 4 are on the other path");
    assert_eq!(numbers("1", "3"), [2, 3, 4]);
    assert_eq!(numbers("0", "7"), [6, 7], "the call of the result");
    assert_eq!(numbers("100", "5"), [1, 2, 5, 6, 7, 8]);
    let text = run(&home, &["show", "00000009", "--at", "7", "--around", "0"]);
    assert!(text.contains("▸ Bash") && text.contains("eaten") && !text.contains("It ate"), "{text}");
}

/// A turn with a very long result and thinking with a signature.
fn long_conversation() -> LogBuilder {
    let mut log = LogBuilder::new(10);
    log.prompt("Read the tide table.");
    let call = log.call("Bash", &json!({ "command": "cat tides.txt" }));
    log.result(&call, &"high water, low water; ".repeat(400));
    log.answer(&"The tide is high. ".repeat(100));
    for n in 0..30 {
        log.prompt(&format!("And on day {n}?"));
        log.answer(&format!("On day {n} the tide is low. "));
    }
    log
}

#[test]
fn budget_is_kept_and_what_is_cut_is_named() {
    let home = Home::default();
    home.add("/home/user/app", &long_conversation());
    for max in [600, 2000, 8000, 20_000, 100_000] {
        let max_chars = max.to_string();
        for extra in [&[][..], &["--at", "3", "--around", "2"], &["--at", "20"]] {
            let args = [&["show", "0000000a", "--max-chars", &max_chars], extra].concat();
            for json in [&[][..], &["--json"]] {
                let output = rethread(home.path()).args(&args).args(json).output().expect("ended");
                let text = String::from_utf8(output.stdout).expect("text");
                assert!(text.chars().count() <= max, "{args:?} {}", text.chars().count());
            }
            let rows = rows(&home, &args);
            let last = rows.last().expect("a last row");
            let cut: u64 = rows[..rows.len() - 1].iter().filter_map(|row| row["cut_chars"].as_u64()).sum();
            assert_eq!(last["type"], "shown");
            assert_eq!(last["cut_chars"], cut);
            assert_eq!(last["capped"], cut > 0 || !last["next"].is_null(), "{last}");
        }
    }
}

#[test]
fn printed_commands_show_the_rest() {
    let home = Home::default();
    home.add("/home/user/app", &long_conversation());
    let run_printed = |command: &Value| {
        let words: Vec<&str> = command.as_str().expect("a command").split(' ').collect();
        assert_eq!(words.last(), Some(&"--json"));
        rows(&home, &words[1..words.len() - 1])
    };
    let cut = rows(&home, &["show", "0000000a", "--at", "3", "--around", "0", "--max-chars", "2000"]);
    let row = cut.iter().find(|row| row["rest"].is_string()).expect("a cut row");
    let whole = run_printed(&row["rest"]);
    let text = whole.last().expect("the result")["blocks"][0]["content"].as_str().expect("text").to_owned();
    assert!(text.chars().count() > 9000);
    // Page by page, every message is shown once.
    let mut seen: Vec<u64> = Vec::new();
    let mut page = rows(&home, &["show", "0000000a", "--max-chars", "3000"]);
    loop {
        seen.extend(page.iter().filter_map(|row| row["n"].as_u64()));
        let next = page.last().expect("the last row")["next"].clone();
        if next.is_null() {
            break;
        }
        page = run_printed(&next);
    }
    assert_eq!(seen, (1..=64).collect::<Vec<u64>>());
}

#[test]
fn text_says_how_much_is_cut() {
    let home = Home::default();
    home.add("/home/user/app", &long_conversation());
    assert_snapshot!(run(&home, &["show", "0000000a", "--at", "4", "--around", "1", "--max-chars", "800"]), @"
    Read the tide table.
    project  /home/user/app (main)
    when     5 Jan 2026 00:00 – 00:01 · 31 turns
    model    claude-opus-5

    ▌ claude-opus-5 #2 · 5 Jan 2026 00:00
      ▸ Bash  cat tides.txt
        ↳ high water, low water; high water, low water; high water, low water; high water, low water; high water, low water; high water, low water; high water, low…

    ▌ claude-opus-5 #4 · 5 Jan 2026 00:00
    The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is high. The tide is
      … 1,465 characters more

    ▌ you turn 2 · #5 · 5 Jan 2026 00:00
    And on day 0?

    ----- stderr
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone 0000000a --to DIR`)
    texts are cut to 335 characters; `rethread show 0000000a --at N --around 0` shows message N in full
    ");
}
