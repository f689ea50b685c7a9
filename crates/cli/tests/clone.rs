//! `clone`, run as a program.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

const ID: &str = "00000007-0000-4000-8000-000000000000";

/// Three turns; the second has a call, and there is an abandoned branch.
fn conversation() -> LogBuilder {
    let mut log = LogBuilder::new(7);
    log.prompt("How warm is the kettle?");
    let fork = log.answer("It is cold.");
    log.wait(60).prompt("Heat it in C.");
    log.answer("Heating in Celsius.");
    log.back_to(&fork);
    log.wait(60).prompt("Heat it.");
    let call = log.call("Bash", &json!({ "command": "heater on --target 81" }));
    log.result(&call, "heating to 81 degrees");
    log.answer("It heats now.");
    log.wait(600).prompt("And now?");
    log.answer("81 degrees.");
    log
}

fn home() -> (Home, PathBuf) {
    let home = Home::default();
    let path = home.add("/home/user/app", &conversation());
    (home, path)
}

/// Runs `clone --json` and returns its output.
fn clone(home: &Home, args: &[&str]) -> Value {
    let output = rethread(home.path()).args(["clone", "--json"]).args(args).output().expect("ended");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn path_of(row: &Value) -> PathBuf {
    PathBuf::from(row["path"].as_str().expect("a path"))
}

/// Returns the output, with the new id replaced by a placeholder.
fn printed(home: &Home, args: &[&str]) -> String {
    let text = run(home, args);
    let mut logs = text.lines().rev().filter_map(|line| line.strip_suffix(".jsonl")?.rsplit('/').next());
    let id = logs.next().filter(|id| id.len() == 36).map(str::to_owned);
    id.map_or(text.clone(), |id| text.replace(&id, "[new]").replace(&id[..8], "[new]"))
}

#[test]
fn plain_clone_changes_only_ids() {
    let (home, path) = home();
    let before = fs::read(&path).expect("read");
    assert_snapshot!(printed(&home, &["clone", "00000007"]), @"
    size     5.3 kB → 5.3 kB
    context  3,250 → 3,250 tokens (recorded)
    content  4 turns
    [home]/projects/-home-user-app/[new].jsonl
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone [new] --to DIR`)
    ");
    let row = clone(&home, &["00000007"]);
    assert_eq!(fs::read(&path).expect("read"), before, "the source is as it was");
    let (new, id) = (path_of(&row), row["id"].as_str().expect("an id"));
    assert_eq!(new, path.with_file_name(format!("{id}.jsonl")));
    let text = fs::read_to_string(&new).expect("read");
    assert!(!text.contains("00000007-0000") && text.matches(id).count() == text.lines().count());
    assert_eq!(row["bytes_before"], row["bytes_after"]);
    assert_eq!(row["resume"], format!("claude --resume {id}"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&new).expect("metadata").permissions().mode() & 0o777, 0o600);
    }
    let kept = clone(&home, &["00000007", "--keep-ids", "--title", "The \"kettle\""]);
    let text = fs::read_to_string(path_of(&kept)).expect("read");
    let source = String::from_utf8(before).expect("UTF-8").replace(ID, kept["id"].as_str().expect("an id"));
    let title = json!({ "type": "custom-title", "customTitle": "The \"kettle\"", "sessionId": kept["id"] });
    assert_eq!(text, format!("{source}{title}\n"));
}

#[test]
fn dry_run_and_options_report_what_is_removed() {
    let (home, path) = home();
    assert_snapshot!(run(&home, &["clone", "00000007", "--extreme", "--dry-run"]), @"
                           before      after     ≈ tokens        after
    text                    214 B      214 B           53           53
    tool calls              103 B        0 B           25            0
    tool results            108 B        0 B           27            0
    copies of results        46 B        0 B            –            –
    metadata                  0 B      148 B            –            –
    entry fields           4.8 kB     3.8 kB            –            –
    token counts are for the whole file; `context` is what is sent

    size     5.3 kB → 4.1 kB
    context  3,250 → 3,197 tokens (recorded, then estimated)
    content  4 turns
    removed  1 tool call, 2 conversation entries
    ----- stderr
    nothing was written (--dry-run)
    note: the usage recorded in the clone is that of the source
    ");
    assert_snapshot!(printed(&home, &["clone", "00000007", "--path", "1"]), @"
    size     5.3 kB → 2.1 kB
    context  3,250 → 3,250 tokens (recorded)
    content  2 turns
    removed  6 conversation entries
    [home]/projects/-home-user-app/[new].jsonl
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone [new] --to DIR`)
    ----- stderr
    note: 1 other path is not in the clone
    ");
    assert_snapshot!(printed(&home, &["clone", "00000007", "--compress=1", "--keep-removed"]), @"
    size     5.3 kB → 2.6 kB
    context  3,250 → 3,291 tokens (recorded, then estimated)
    content  1 turn
    removed  2 turns (condensed), 8 conversation entries
    kept in  [home]/projects/-home-user-app/[new]/removed.jsonl
    [home]/projects/-home-user-app/[new].jsonl
    not resumable here: the directory of the session does not exist: /home/user/app (create it again, or copy the session to another project: `rethread clone [new] --to DIR`)
    ----- stderr
    note: 1 other path is not in the clone
    note: the usage recorded in the clone is that of the source
    ");
    let dry = clone(&home, &["00000007", "--dry-run"]);
    assert_eq!((&dry["id"], &dry["path"], &dry["resume"]), (&Value::Null, &Value::Null, &Value::Null));
    let dir = path.parent().expect("a directory");
    assert_eq!(fs::read_dir(dir).expect("listed").count(), 5, "two clones with their directories");
}

#[test]
fn clone_errors_have_hints() {
    let (home, _) = home();
    assert_snapshot!(run(&home, &["clone", "00000007", "--path", "7"]), @"
    ----- stderr
    error: no path 7; the session has 2
    hint: `rethread tree` lists the paths
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["clone", "00000007", "--until", "99"]), @"
    ----- stderr
    error: no message 99; the session has 10
    hint: `rethread show` prints message numbers
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["clone", "00000007", "--path", "1", "--until", "6"]), @"
    ----- stderr
    error: message 6 is not on path 1
    hint: omit --path
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["clone", "00000007", "--to", "nowhere"]), @"
    ----- stderr
    error: nowhere is not a directory
    hint: --to takes the working directory of a project
    ----- exit Some(2)
    ");
    for (args, expected) in [
        (&["--compress", "3"][..], "hint: write --compress=3"),
        (&["--strip-tools", "Bash"], "hint: write --strip-tools=Bash"),
        (&["--strip-tools="], "no tool name given; --strip-tools without a value removes all calls"),
        (&["--path", "-1"], "paths are numbered from 1"),
        (&["--compress", "--summarise-with", "cat", "--summarise-timeout", "0"], "0 is not in 1.."),
    ] {
        let output = run(&home, &[&["clone", "00000007"], args].concat());
        assert!(output.contains(expected) && output.contains("exit Some(2)"), "{output}");
    }
}

#[test]
fn json_row_has_the_documented_fields() {
    let (home, _) = home();
    let row = clone(&home, &["00000007", "--strip-tools", "--until", "6"]);
    let keys: Vec<&String> = row.as_object().expect("an object").keys().collect();
    for key in [
        "type",
        "source",
        "id",
        "path",
        "bytes_before",
        "bytes_after",
        "tokens_before",
        "tokens_after",
        "turns",
        "removed",
        "warnings",
        "resume",
    ] {
        assert!(keys.iter().any(|known| *known == key), "{key}");
    }
    assert_eq!((&row["type"], &row["source"]), (&json!("clone"), &json!(ID)));
    assert_eq!(row["removed"]["calls"], 1);
    assert_eq!(row["turns"], 2);
}

#[test]
fn clone_is_written_to_the_project_that_the_client_searches() {
    let (home, _) = home();
    let deep = home.path().join("work").join("é😀 ".repeat(30)).join("x".repeat(120));
    fs::create_dir_all(&deep).expect("made");
    for to in [home.path().to_owned(), deep] {
        let row = clone(&home, &["00000007", "--to", &to.to_string_lossy()]);
        let real = to.canonicalize().expect("there");
        let name = project_dir_name(&real.to_string_lossy());
        let dir = path_of(&row).parent().expect("a directory").to_owned();
        assert_eq!(dir.file_name().expect("a name").to_string_lossy(), name);
        assert_eq!(row["cwd"], real.to_string_lossy().as_ref());
    }
}

#[test]
fn session_outside_the_library_is_cloned_into_it() {
    let ((home, _), (backup, path)) = (home(), home());
    let to = home.path().to_string_lossy().into_owned();
    let id = path.file_stem().expect("a name").to_string_lossy().into_owned();
    backup.write(&format!("file-history/{id}/0123@v1"), b"before");
    let row = clone(&home, &[&path.to_string_lossy(), "--to", &to]);
    assert!(path_of(&row).starts_with(home.path().join("projects")), "{row}");
    let kept = home.path().join("file-history").join(row["id"].as_str().expect("an id")).join("0123@v1");
    assert_eq!(fs::read(kept).expect("carried"), b"before");
    let logs = |home: &Home| fs::read_dir(home.path().join("projects")).expect("projects").count();
    assert_eq!((logs(&home), logs(&backup)), (2, 1));
}

/// The client's rule, implemented independently: UTF-16 units, and a hash beyond 200.
fn project_dir_name(cwd: &str) -> String {
    let units: Vec<u16> = cwd.encode_utf16().collect();
    let plain = |unit: &u16| match char::from_u32(u32::from(*unit)) {
        Some(c) if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let name: String = units.iter().map(plain).collect();
    if units.len() <= 200 {
        return name;
    }
    let mut hash: i64 = 0;
    for unit in &units {
        hash = (hash * 31 + i64::from(*unit)) & 0xffff_ffff;
    }
    let signed = if hash >= 1 << 31 { (hash - (1 << 32)).abs() } else { hash };
    let (mut n, mut digits) = (signed, String::new());
    while n > 0 {
        digits.insert(0, char::from_digit(u32::try_from(n % 36).expect("a digit"), 36).expect("a digit"));
        n /= 36;
    }
    format!("{}-{digits}", &name[..200])
}

#[test]
fn sidecars_are_copied_with_the_clone() {
    let home = Home::default();
    let mut log = LogBuilder::new(7);
    log.prompt("Look twice.");
    for (n, agent) in ["aaaa111", "bbbb222"].iter().enumerate() {
        let call = log.call("Task", &json!({ "prompt": format!("look {n}"), "description": "d" }));
        let copy = json!({ "agentId": agent, "content": "found" });
        log.result_with(&call, &json!("found"), &copy);
        log.prompt(&format!("Next {n}"));
    }
    let call = log.call("Bash", &json!({ "command": "big" }));
    let stub = format!(
        "<persisted-output>\nsaved to: /c/projects/-home-user-app/{ID}/tool-results/big.txt\n</persisted-output>"
    );
    log.result_with(
        &call,
        &json!(stub),
        &json!({ "persistedOutputPath": format!("/c/{ID}/tool-results/big.txt") }),
    );
    log.answer("Done.");
    let path = home.add("/home/user/app", &log);
    let side = path.with_extension("");
    fs::create_dir_all(side.join("subagents")).expect("made");
    fs::create_dir_all(side.join("tool-results")).expect("made");
    for agent in ["aaaa111", "bbbb222"] {
        let mut own = LogBuilder::new(8);
        own.sidechain(Some(agent)).prompt("look");
        let call = own.call("Bash", &json!({ "command": "grep kettle" }));
        own.result(&call, "a line about the kettle");
        own.answer("found");
        let text = String::from_utf8(own.bytes()).expect("UTF-8").replace(&own.session(), ID);
        fs::write(side.join(format!("subagents/agent-{agent}.jsonl")), text).expect("written");
        fs::write(side.join(format!("subagents/agent-{agent}.meta.json")), "{}").expect("written");
    }
    fs::write(side.join("tool-results/big.txt"), "all of it").expect("written");
    fs::write(side.join("tool-results/old.txt"), "of no call").expect("written");
    let history = home.path().join("file-history").join(ID);
    fs::create_dir_all(&history).expect("made");
    fs::write(history.join("0123456789abcdef@v1"), "before").expect("written");
    let index = path.with_file_name("sessions-index.json");
    fs::write(&index, "{\"version\":1,\"entries\":[]}").expect("written");

    let row = clone(&home, &["00000007"]);
    let (new, id) = (path_of(&row), row["id"].as_str().expect("an id").to_owned());
    let side_dir = new.with_extension("");
    assert_eq!((&row["subagents"], &row["tool_results"]), (&json!(2), &json!(2)));
    let text = fs::read_to_string(&new).expect("read");
    assert!(text.contains(&format!("{id}/tool-results/big.txt")) && !text.contains(ID));
    let agent = fs::read_to_string(side_dir.join("subagents/agent-aaaa111.jsonl")).expect("read");
    assert!(agent.contains(&id) && !agent.contains(ID) && !agent.contains("00000008-0000"), "{agent}");
    assert!(side_dir.join("subagents/agent-aaaa111.meta.json").exists());
    assert!(home.path().join("file-history").join(&id).join("0123456789abcdef@v1").exists());
    let index = fs::read_to_string(&index).expect("read");
    assert!(index.contains(&format!("\"sessionId\":\"{id}\"")) && index.contains("Look twice."), "{index}");

    // Only the sidecars of the part that is kept.
    let row = clone(&home, &["00000007", "--until", "3"]);
    let side_dir = path_of(&row).with_extension("");
    assert_eq!((&row["subagents"], &row["tool_results"]), (&json!(1), &json!(0)), "{row}");
    assert!(side_dir.join("subagents/agent-aaaa111.jsonl").exists());
    let row = clone(&home, &["00000007", "--strip-tools=Bash"]);
    let side_dir = path_of(&row).with_extension("");
    let agent = fs::read_to_string(side_dir.join("subagents/agent-bbbb222.jsonl")).expect("read");
    assert!(!agent.contains("grep kettle") && agent.contains("found"), "{agent}");
    assert!(!side_dir.join("tool-results").exists());
    let row = clone(&home, &["00000007", "--extreme"]);
    assert_eq!(row["subagents"], 0);
    // Subagents cannot be cloned alone.
    let agent = side.join("subagents/agent-aaaa111.jsonl");
    assert!(run(&home, &["clone", &agent.to_string_lossy()]).contains("a subagent log"));
}

#[test]
fn removed_entries_can_be_shown() {
    let (home, _) = home();
    let row = clone(&home, &["00000007", "--strip-tools", "--keep-removed"]);
    let id = row["id"].as_str().expect("an id");
    assert_snapshot!(run(&home, &["show", id, "--removed", "--tools", "full"]), @"
    ▌ claude-opus-5 #6 · 5 Jan 2026 00:02
      ▸ Bash
          heater on --target 81
        │ heating to 81 degrees
    ");
    let copy = clone(&home, &[id]);
    let copy = run(&home, &["show", copy["id"].as_str().expect("an id"), "--removed"]);
    assert!(copy.contains("heater on"), "a copy has it too: {copy}");
    assert_snapshot!(run(&home, &["show", id, "--removed", "--at", "1"]), @"
    ----- stderr
    error: message 1 was not removed
    hint: message numbers are those of the session that this one was cloned from
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["show", "00000007", "--removed"]), @"
    ----- stderr
    error: content removed from this session was not kept
    hint: `rethread clone --keep-removed` keeps it
    ----- exit Some(2)
    ");
}

#[test]
fn summaries_can_be_written_by_a_command() {
    let (home, _) = home();
    let summary = |args: &[&str]| {
        let row = clone(&home, &[&["00000007", "--compress=1"], args].concat());
        let text = fs::read_to_string(path_of(&row)).expect("read");
        let line = text.lines().find(|line| line.contains("isCompactSummary")).expect("a summary").to_owned();
        (line, row["warnings"].to_string())
    };
    let (line, warnings) = summary(&["--summarise-with", "grep -c . | sed 's/^/LINES: /'"]);
    assert!(line.contains("LINES: ") && line.contains("How warm is the kettle?"), "{line}");
    assert!(!warnings.contains("command failed"), "{warnings}");
    // An unrelated process must not be affected.
    let mut bystander = std::process::Command::new("sleep").arg("300").spawn().expect("started");
    for (command, why) in [
        ("false", "exit status: 1"),
        ("cat >/dev/null", "wrote nothing"),
        ("sleep 60", "longer than 1 second"),
        ("sleep 60 & echo hi", "longer than 1 second"),
        ("echo oh no >&2; exit 3", "exit status: 3: oh no"),
        ("head -c 3000000 /dev/zero | tr '\\0' x", "more than 1 MB"),
    ] {
        let (line, warnings) = summary(&["--summarise-with", command, "--summarise-timeout", "1"]);
        assert!(line.contains("It heats now."), "the built-in summary is used: {line}");
        assert!(warnings.contains(why), "{command}: {warnings}");
    }
    let noise = "head -c 100000 /dev/zero | tr '\\0' x; printf '\\033[31m'";
    let (line, warnings) = summary(&["--summarise-with", noise, "--budget", "100"]);
    assert!(line.len() < 2000 && !line.contains("u001b"), "{line}");
    assert!(warnings.contains("cut to fit --budget"), "{warnings}");
    assert!(bystander.try_wait().expect("asked").is_none(), "only the command is stopped");
    bystander.kill().expect("ended");
    bystander.wait().expect("ended");
}

/// The summary command runs between the two readings, so it can act as a client that writes.
#[test]
fn session_changed_during_clone_is_cloned_as_read_or_refused() {
    let (home, path) = home();
    let log = path.to_string_lossy().into_owned();
    let grow = format!("echo '{{\"type\":\"mode\"}}' >> '{log}'; echo summed up");
    let row = clone(&home, &["00000007", "--compress=1", "--summarise-with", &grow]);
    let cloned = path_of(&row);
    assert!(fs::read_to_string(&cloned).expect("read").contains("summed up"));
    fs::remove_file(cloned).expect("removed");
    let over = format!("tr 8 9 < '{log}' > '{log}.new'; cat '{log}.new' > '{log}'");
    for change in [over, format!(": > '{log}'")] {
        let home = Home::default();
        let path = home.add("/home/user/app", &conversation());
        let change = change.replace(&log, &path.to_string_lossy());
        let command = format!("{change}; echo summed up");
        let asked = ["clone", "00000007", "--compress=1", "--summarise-with", &command];
        let output = rethread(home.path()).args(asked).output().expect("ended");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains("the session changed while it was being read"), "{stderr}");
        assert!(stderr.contains("close it and try again"), "{stderr}");
        let dir = fs::read_dir(path.parent().expect("a project")).expect("read");
        let sessions = dir.flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "jsonl"));
        assert_eq!(sessions.count(), 1, "nothing was written");
    }
}

/// Killed at any moment of a write, a clone leaves the source unchanged and no partial file with a session's
/// name.
#[test]
fn killed_clone_leaves_no_partial_session() {
    let home = Home::default();
    let mut log = conversation();
    for n in 0..12_000 {
        log.prompt(&format!("Prompt number {n}"));
        log.answer("An answer of some length, so that there is something to write.");
    }
    let bytes = log.bytes();
    let path = home.write(&format!("projects/-a/{ID}.jsonl"), &bytes);
    let dir = path.parent().expect("a directory").to_owned();
    // The duration on this machine, so that the kills are spread over all of it.
    let started = std::time::Instant::now();
    clone(&home, &["00000007", "--strip-thinking"]);
    let whole = started.elapsed();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let (mut killed, mut done) = (0, 0);
    for n in 0..100 {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let recipe: &[&str] = if n % 2 == 0 { &[] } else { &["--strip-thinking"] };
        let mut child = rethread(home.path())
            .args(["clone", "00000007", "-q"])
            .args(recipe)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("started");
        std::thread::sleep(whole.mul_f64((seed % 1000) as f64 / 1000.0));
        killed += usize::from(child.kill().is_ok() && !child.wait().expect("ended").success());
        for file in logs_in(&dir).into_iter().filter(|file| *file != path) {
            let text = fs::read(&file).expect("read");
            let lines = text.iter().filter(|&&b| b == b'\n').count();
            assert!(
                lines >= bytes.iter().filter(|&&b| b == b'\n').count(),
                "half a file: {}",
                file.display()
            );
            done += 1;
            fs::remove_file(file).expect("removed");
        }
        assert_eq!(fs::read(&path).expect("read"), bytes, "the source is as it was");
    }
    assert!(killed > 0 && done > 0, "killed {killed}, done {done}");
}

fn logs_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry").path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl")).collect()
}

#[test]
fn recipe_without_effect_is_reported() {
    let (home, _) = home();
    let says_nothing = |args: &[&str]| {
        let warnings = clone(&home, args)["warnings"].to_string();
        warnings.contains("nothing was removed")
    };
    assert!(says_nothing(&[ID, "--light"]) && says_nothing(&[ID, "--strip-thinking"]));
    assert!(!says_nothing(&[ID]) && !says_nothing(&[ID, "--extreme"]) && !says_nothing(&[ID, "--path", "2"]));
}
