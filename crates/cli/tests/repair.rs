//! `preview`, `check` and `repair`, run as programs.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{demo, rethread, run, run_with};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

/// A conversation with one call.
fn conversation() -> LogBuilder {
    let mut log = LogBuilder::new(7);
    log.prompt("How warm is the kettle?");
    let call = log.call("Bash", &json!({ "command": "sensor read" }));
    log.result(&call, "81 degrees");
    log.answer("It is at 81 degrees.");
    log.wait(600).prompt("And now?");
    log.answer("Still 81 degrees.");
    log
}

/// The same with the line of the second prompt missing: the parent of its answer does not exist.
fn broken() -> Vec<u8> {
    let bytes = conversation().bytes();
    let lines = bytes.split_inclusive(|&b| b == b'\n').filter(|line| !has(line, "And now?"));
    lines.collect::<Vec<_>>().concat()
}

fn has(line: &[u8], text: &str) -> bool {
    String::from_utf8_lossy(line).contains(text)
}

fn with_broken() -> (Home, PathBuf) {
    let home = Home::default();
    let path = home.write("projects/-a/00000007-0000-4000-8000-000000000000.jsonl", &broken());
    (home, path)
}

fn sessions(home: &Home) -> Vec<PathBuf> {
    let dir = home.path().join("projects/-a");
    let mut found: Vec<PathBuf> =
        fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry").path()).collect();
    found.sort();
    found
}

#[test]
fn preview_shows_the_request() {
    let home = Home::default();
    home.add("/a", &conversation());
    assert_snapshot!(run(&home, &["preview", "00000007", "--prompt", "And tomorrow?"]), @r#"
    2.1.325 sends 7 messages, including the new prompt
    user       How warm is the kettle?
    assistant  Bash {"command":"sensor read"}
    user       result: 81 degrees
    assistant  It is at 81 degrees.
    user       And now?
    assistant  Still 81 degrees.
    user       And tomorrow?
    "#);
    assert_snapshot!(demo(&["preview", "0000d004", "--client", "2.1.79"]), @r##"
    2.1.76 sends 5 messages, including the new prompt
    user       Rename the chapter on winds.
    assistant  Edit {"file_path":"/home/ada/almanac/winds.md","old_string":"# Winds","new_string":"# Winds and weather"}
    user       result: The file was updated.
               Continue from where you left off.
    assistant  No response requested.
    user       (the next prompt)
    ----- stderr
    client 2.1.79 is not known; using the rules of 2.1.76, the closest known version
    "##);
}

#[test]
fn preview_json_is_one_document() {
    let home = Home::default();
    home.add("/a", &conversation());
    let preview: Value =
        serde_json::from_str(&run(&home, &["preview", "00000007", "--json", "--prompt", "?"])).expect("JSON");
    let keys: Vec<&String> = preview.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["type", "session", "client", "accepted", "leaf", "reason", "messages"]);
    assert_eq!(
        preview["messages"][6],
        json!({ "role": "user", "content": [{ "type": "text", "text": "?" }] })
    );
    assert_eq!(preview["messages"].as_array().map(Vec::len), Some(7));
    let empty = run_with(home.path(), &["preview", "-", "--json"], "");
    assert_snapshot!(empty, @r#"
    {"type":"preview","session":"stdin","client":"2.1.325","accepted":false,"leaf":null,"reason":"it finds no conversation","messages":null}
    ----- exit Some(1)
    "#);
}

#[test]
fn check_reports_losses_with_hints() {
    let (home, _) = with_broken();
    assert_snapshot!(run(&home, &["check", "00000007"]), @"
    00000007-0000-4000-8000-000000000000  How warm is the kettle?
    resumes, with losses
      loses     its parent is not in the file: 4 entries of the conversation not sent
                line 5 · clients 2.1.112 to 2.1.325
                `rethread repair` links it to the previous entry
    repair it with: rethread repair 00000007
    ----- exit Some(1)
    ");
    assert_snapshot!(run(&home, &["check", "00000007", "--client", "2.1.76"]), @"
    00000007-0000-4000-8000-000000000000  How warm is the kettle?
    resumes, with losses
      loses     its parent is not in the file: 4 entries of the conversation not sent
                line 5 · client 2.1.76
                `rethread repair` links it to the previous entry
    repair it with: rethread repair 00000007
    ----- exit Some(1)
    ");
    let home = Home::default();
    home.add("/a", &conversation());
    assert_snapshot!(run(&home, &["check", "00000007"]), @"00000007-0000-4000-8000-000000000000  resumes completely, no findings");
    assert_snapshot!(demo(&["check", "--client", "all"]), @"
    0000d002-0000-4000-8000-000000000000  Do the tests pass, and is the README still right?
    resumes, with losses
      loses     the client does not find entries next to parallel calls: 4 entries of the conversation
                not sent
                clients 1.0.128 to 2.1.76
                clients since 2.1.112 find them

    5 sessions: 3 without findings, 1 with harmless findings, 1 with losses or refusals
    ----- exit Some(1)
    ");
}

#[test]
fn check_finds_broken_sessions_of_a_library() {
    let (home, _) = with_broken();
    let mut other = conversation();
    other.wait(5).prompt("Another day.");
    home.write("projects/-b/00000008-0000-4000-8000-000000000000.jsonl", &other.bytes());
    assert_snapshot!(run(&home, &["check", "--all"]), @"
    00000007-0000-4000-8000-000000000000  How warm is the kettle?
    resumes, with losses
      loses     its parent is not in the file: 4 entries of the conversation not sent
                line 5 · clients 2.1.112 to 2.1.325
                `rethread repair` links it to the previous entry
    repair it with: rethread repair 00000007

    2 sessions: 1 without findings, 0 with harmless findings, 1 with losses or refusals
    ----- exit Some(1)
    ");
    let rows = run(&home, &["check", "--all", "--json"]);
    let first: Value = serde_json::from_str(rows.lines().next().expect("a row")).expect("JSON");
    let keys: Vec<&String> = first.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        ["type", "session", "line", "kind", "severity", "detail", "hint", "clients", "lost_lines"]
    );
}

#[test]
fn repair_writes_a_new_session_and_keeps_the_source() {
    let (home, path) = with_broken();
    home.write("projects/-a/00000007-0000-4000-8000-000000000000/tool-results/a.txt", b"large");
    assert_snapshot!(run(&home, &["repair", "00000007", "--dry-run"]), @r#"
    line 5  dangling parent
      - {"parentUuid":"00000007-0000-4000-8000-000000000005","isSidechain":false,"type":"assistant","message":{"mod
      + {"parentUuid":"00000007-0000-4000-8000-000000000004","isSidechain":false,"type":"assistant","message":{"mod
    1 line would be changed, 0 added, 0 dropped
      dangling parent     line 5
    "#);
    assert_eq!(sessions(&home).len(), 2, "nothing is written");
    let row: Value = serde_json::from_str(&run(&home, &["repair", "00000007", "--json"])).expect("JSON");
    assert_eq!(fs::read(&path).expect("read"), broken(), "the source is untouched");
    let output = row["output"].as_str().expect("a path").replace("[home]", &home.path().to_string_lossy());
    let output = PathBuf::from(output);
    assert_eq!(output.parent(), path.parent());
    assert_eq!(output.file_stem().and_then(|id| id.to_str()), row["id"].as_str());
    assert_eq!(fs::read(output.with_extension("").join("tool-results/a.txt")).expect("carried"), b"large");
    let id = row["id"].as_str().expect("an id");
    assert_snapshot!(run(&home, &["check", id, "--client", "all"]).replace(id, "[id]"), @"[id]  resumes completely, no findings");
    assert_snapshot!(run(&home, &["repair", id]), @"nothing to repair: the session is unchanged");
    assert_eq!(row["lines_changed"], 1);
    assert_eq!((&row["lines_dropped"], &row["left"]), (&json!(0), &json!([])));
}

#[test]
fn repair_in_place_keeps_a_backup() {
    let (home, path) = with_broken();
    assert_snapshot!(run(&home, &["repair", "00000007", "--in-place"]), @"
    1 line was changed, 0 added, 0 dropped
      dangling parent     line 5
    repaired in place: [home]/projects/-a/00000007-0000-4000-8000-000000000000.jsonl
    the original is kept in [home]/projects/-a/00000007-0000-4000-8000-000000000000.jsonl.bak
    checked: resumes completely, no findings
    not resumable here: no directory of this machine is known in which clients would find the session (copy it to the project of a directory: `rethread clone 00000007 --to DIR`)
    ");
    assert_eq!(fs::read(path.with_extension("jsonl.bak")).expect("kept"), broken());
    assert_snapshot!(run(&home, &["repair", "00000007", "--in-place"]), @"nothing to repair: the session is unchanged");
    assert_eq!(sessions(&home).len(), 2);
}

#[test]
fn open_session_is_not_repaired() {
    let (home, path) = with_broken();
    let live = json!({ "pid": std::process::id(), "sessionId": "00000007-0000-4000-8000-000000000000" });
    home.write("sessions/1.json", live.to_string().as_bytes());
    let output = run(&home, &["repair", "00000007", "--in-place"]);
    assert_snapshot!(output.replace(&std::process::id().to_string(), "[pid]"), @"
    ----- stderr
    error: session 00000007-0000-4000-8000-000000000000 is open in a client (process [pid])
    hint: close the session in the client, or omit --in-place to write a new session
    ----- exit Some(2)
    ");
    // By its path, under a config directory that was not named.
    let elsewhere = Home::default();
    let output = run(&elsewhere, &["repair", &path.to_string_lossy(), "--in-place"]);
    assert!(output.contains("is open in a client"), "{output}");
    assert_eq!(fs::read(&path).expect("read"), broken());
    assert_eq!(sessions(&home).len(), 1);
}

#[test]
fn repair_writes_to_the_output_and_overwrites_nothing() {
    let (home, path) = with_broken();
    let text = String::from_utf8(broken()).expect("UTF-8");
    assert_snapshot!(run_with(home.path(), &["repair", "-"], &text), @"
    ----- stderr
    error: no destination for the repaired session
    hint: name an output file with -o FILE
    ----- exit Some(2)
    ");
    assert_snapshot!(run_with(home.path(), &["repair", "-", "-o", "repaired.jsonl"], &text), @"
    1 line was changed, 0 added, 0 dropped
      dangling parent     line 5
    written to repaired.jsonl
    checked: resumes completely, no findings
    ");
    let again = run_with(home.path(), &["repair", "-", "-o", "repaired.jsonl"], &text);
    assert!(again.contains("choose a file that does not exist yet"), "{again}");
    assert_eq!(fs::read(&path).expect("read"), broken());
    let repaired = fs::read(home.path().join("repaired.jsonl")).expect("written");
    let changed: Vec<_> = repaired.split(|&b| b == b'\n').filter(|line| !in_lines(&broken(), line)).collect();
    assert_eq!(changed.len(), 1, "only the line with the lost parent changed");
}

fn in_lines(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.split(|&b| b == b'\n').any(|line| line == wanted)
}

/// Killed at any moment, a repair leaves the source unchanged and no partial session.
#[test]
fn killed_repair_leaves_no_partial_session() {
    let home = Home::default();
    let mut log = conversation();
    for n in 0..20_000 {
        log.prompt(&format!("Prompt number {n}"));
        log.answer("An answer of some length, so that there is something to write.");
    }
    let whole = log.bytes();
    let gap = whole.split_inclusive(|&b| b == b'\n').filter(|line| !has(line, "Prompt number 7000\""));
    let bytes = gap.collect::<Vec<_>>().concat();
    let path = home.write("projects/-a/00000009-0000-4000-8000-000000000000.jsonl", &bytes);
    for n in 0..12u64 {
        let mut child = rethread(home.path())
            .args(["repair", "00000009", "-q"])
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("started");
        std::thread::sleep(std::time::Duration::from_millis(n * 25));
        let _ = child.kill();
        child.wait().expect("ended");
        for file in sessions(&home).iter().filter(|file| is_log(file) && **file != path) {
            let written = fs::read(file).expect("read");
            assert!(written.len() >= bytes.len() && written.ends_with(b"}\n"), "{}", file.display());
            fs::remove_file(file).expect("removed");
        }
        assert_eq!(fs::read(&path).expect("read"), bytes);
    }
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

#[test]
fn check_offers_a_repair_only_if_it_would_change_something() {
    let whole = conversation().bytes();
    let second_line = whole.iter().position(|&b| b == b'\n').expect("a line") + 1;
    let torn = [&whole[..], b"{\"type\":\"us"].concat();
    let mut offered = Vec::new();
    for log in [whole.clone(), whole[second_line..].to_vec(), torn, broken()] {
        let home = Home::default();
        home.write("projects/-a/00000007-0000-4000-8000-000000000000.jsonl", &log);
        let offers = run(&home, &["check", "00000007"]).contains("repair it with");
        let repairs = !run(&home, &["repair", "-n", "00000007"]).contains("nothing to repair");
        assert_eq!(offers, repairs, "{}", String::from_utf8_lossy(&log));
        offered.push(offers);
    }
    assert!(offered.contains(&true) && offered.contains(&false), "{offered:?}");
}

#[test]
fn healthy_session_is_copied_to_the_output() {
    let home = Home::default();
    let log = home.add("/a", &conversation());
    let copy = home.path().join("copy.jsonl");
    let printed = run(&home, &["repair", "00000007", "-o", &copy.to_string_lossy()]);
    assert!(printed.contains("nothing to repair") && printed.contains("written to"), "{printed}");
    assert_eq!(fs::read(&copy).expect("written"), fs::read(&log).expect("a log"));
}

#[test]
fn file_without_messages_has_nothing_to_resume() {
    let home = Home::default();
    home.write("garbage.jsonl", b"garbage\n");
    home.write("empty.jsonl", b"");
    assert_snapshot!(run(&home, &["check", "garbage.jsonl"]), @"
    garbage
    nothing to resume: there are no messages
      harmless  line is not JSON
                line 1
                clients skip it
    ----- exit Some(1)
    ");
    assert_snapshot!(run(&home, &["check", "empty.jsonl"]), @"
    empty
    nothing to resume: there are no messages
    ----- exit Some(1)
    ");
}
