//! `clean` and `secrets`, run as programs.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{demo, rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

const TOKEN: &str = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";

/// A session with an image, a file that is stored twice, and a token in its log and in a sidecar.
fn home() -> (Home, PathBuf) {
    let mut log = LogBuilder::new(7);
    log.cwd = "/home/marianne/app".into();
    let picture = "iVBORw0KGgo7Aa1B".repeat(400);
    let image = json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": picture } });
    log.entry("user", json!({ "message": { "role": "user", "content": [{ "type": "text", "text": "What is this?" }, image] } }));
    let text = "a line of the file that is long enough to be worth something\n".repeat(20);
    let call = log.call("Bash", &json!({ "command": format!("cat notes; export GITHUB_TOKEN={TOKEN}") }));
    log.result(&call, &text);
    log.entry("progress", json!({ "data": { "type": "bash_progress", "output": text } }));
    log.answer("It is a file.");
    let home = Home::default();
    let path = home.add("/home/marianne/app", &log);
    let results = path.with_extension("").join("tool-results");
    fs::create_dir_all(&results).expect("made");
    fs::write(results.join("a.txt"), format!("token {TOKEN}\n")).expect("written");
    (home, path)
}

fn rows(home: &Home, args: &[&str]) -> Vec<Value> {
    let output = rethread(home.path()).args(args).arg("--json").output().expect("ended");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The contents of all files below a directory, concatenated.
fn everything(dir: &Path) -> String {
    let mut all = String::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("a directory").flatten() {
            all += &entry.path().to_string_lossy();
            match entry.path().is_dir() {
                true => dirs.push(entry.path()),
                false => all += &String::from_utf8_lossy(&fs::read(entry.path()).expect("read")),
            }
        }
    }
    all
}

#[test]
fn clean_writes_a_small_copy_and_reports_what_it_removed() {
    let (home, path) = home();
    let before = fs::read(&path).expect("read");
    assert_snapshot!(run(&home, &["clean", "00000007", "-o", "share", "--redact"]), @"
    before                  13 kB  100.0 %
    media                 −6.4 kB   49.6 %
    stored-twice          −1.2 kB    9.5 %
    progress              −1.6 kB   12.4 %
    redact                  −34 B    0.3 %
    after                  3.7 kB   28.3 %
    replaced github-token              2 times
    written to share/projects/-home-marianne-app/00000007-0000-4000-8000-000000000000.jsonl
    ----- stderr
    as web pages: rethread export share -f html -o pages
    ");
    assert_eq!(fs::read(&path).expect("read"), before, "the session is as it was");
    let share = home.path().join("share");
    assert!(!everything(&share).contains(TOKEN));
    assert!(everything(&share).contains("[REDACTED:github-token]"));
    let shown = run(&home, &["--config-dir", "share", "show", "00000007", "--no-pager"]);
    assert!(shown.contains("It is a file.") && shown.contains("image/png"), "{shown}");
    assert_snapshot!(run(&home, &["clean", "00000007", "-o", "share"]), @"
    ----- stderr
    error: cannot write share/projects/-home-marianne-app/00000007-0000-4000-8000-000000000000/tool-results/a.txt: file already exists
    hint: choose another directory; --force overwrites existing files
    ----- exit Some(2)
    ");
    assert_snapshot!(run(&home, &["--config-dir", "share", "check", "00000007"]), @"00000007-0000-4000-8000-000000000000  resumes completely, no findings");
}

#[test]
fn json_rows_have_the_documented_fields() {
    let (home, _) = home();
    let rows = rows(&home, &["clean", "00000007", "-o", "share", "--redact", "--anonymise"]);
    let row = &rows[0];
    assert_eq!(
        (&row["type"], &row["resumable"], &row["beside"]),
        (&json!("cleaned"), &json!(true), &json!(1))
    );
    let size = |key: &str| row[key].as_u64().expect(key);
    assert!(size("raw") > size("without_base64") && size("without_base64") > size("cleaned"));
    assert!(row["by_rule"]["media"].as_u64().expect("media") > 6000);
    assert_eq!(row["redactions"]["github-token"], 2);
    let file = row["file"].as_str().expect("a file");
    assert!(home.path().join(file).is_file() && !file.contains("marianne"), "{file}");
    assert!(!everything(&home.path().join("share")).contains("marianne"));
}

#[test]
fn secrets_are_reported_masked() {
    let (home, _) = home();
    assert_snapshot!(run(&home, &["secrets", "00000007"]), @"
    00000007-0000-4000-8000-000000000000  1 secret
      github-token             ghp_… (40 characters)      line 2 (tool input), and 1 more place
    1 secret of 1 kind in 2 places of 1 session
    ----- stderr
    revoke secrets that somebody else may have read: removing them from the log is not enough
    `rethread clean 00000007 --redact -o DIR` writes copies without them
    ----- exit Some(1)
    ");
    let rows = rows(&home, &["secrets", "00000007"]);
    assert!(rows.iter().all(|row| row["type"] == "secret" && !row.to_string().contains(TOKEN)));
    let places: Vec<&str> = rows.iter().filter_map(|row| row["where"].as_str()).collect();
    assert_eq!(places, ["tool_input", "file"]);
    assert_snapshot!(run(&home, &["secrets", "00000007", "--allow", "^ghp_"]), @"
    ----- stderr
    no known kinds of secrets in 1 session; --also adds a pattern
    ");
    let nothing = run(&home, &["--config-dir", "nowhere", "secrets"]);
    assert!(nothing.contains("exit Some(2)"), "{nothing}");
}

#[test]
fn secrets_are_found_in_every_kind_of_sidecar() {
    use rethread_testkit::credentials::{FILES, entry, file, planted_credentials};
    let (home, path) = home();
    let side = path.with_extension("");
    fs::create_dir_all(side.join("subagents")).expect("made");
    let all = planted_credentials(3);
    let some: Vec<_> = all.iter().step_by(29).collect();
    let mut agent = String::new();
    for (n, one) in some.iter().enumerate() {
        agent += &entry("subagent", &one.text, n);
        for (k, kind) in FILES.iter().enumerate() {
            fs::write(side.join(format!("tool-results/{n}-{k}.txt")), file(kind, &one.text))
                .expect("written");
        }
    }
    fs::write(side.join("subagents/agent-a1b2c3d4.jsonl"), agent).expect("written");
    fs::write(side.join(format!("tool-results/{TOKEN}.txt")), "nothing").expect("written");
    let output = run(&home, &["clean", "00000007", "-o", "share", "-l", "light", "--redact"]);
    let left = everything(&home.path().join("share"));
    let narrow = left.replace('\0', "");
    for one in &some {
        assert!(!narrow.contains(&one.secret), "{} is left\n{output}", one.kind);
    }
    assert!(!left.contains(TOKEN) && narrow.contains("last line"), "{output}");
    let found = rows(&home, &["secrets", "00000007"]);
    assert!(found.iter().any(|row| row["where"] == "file_name"));
    let files: std::collections::BTreeSet<&str> =
        found.iter().filter_map(|row| row["file"].as_str()).collect();
    assert!(files.len() >= some.len() * FILES.len(), "{} files", files.len());
}

#[test]
fn secrets_in_file_names_are_masked_and_extensions_kept() {
    let (home, path) = home();
    let token = "glpat-Zk3vQ8rT1xW5yB7nM2pL4sD6";
    let side = path.with_extension("");
    fs::create_dir_all(side.join("subagents")).expect("made");
    let mut agent = LogBuilder::new(8);
    agent.answer("done");
    fs::write(side.join(format!("subagents/agent-{token}.jsonl")), agent.bytes()).expect("written");
    fs::write(side.join(format!("tool-results/{TOKEN}.bin")), b"\x80\xff\x00").expect("written");
    for args in [
        &["secrets", "00000007"][..],
        &["secrets", "00000007", "--json"],
        &["clean", "00000007", "-o", "share", "--redact"],
    ] {
        let output = run(&home, args);
        assert!(!output.contains(token) && !output.contains(TOKEN), "{args:?}: {output}");
    }
    let written = everything(&home.path().join("share"));
    assert!(written.contains("agent-[REDACTED:gitlab-token].jsonl"), "{written}");
    assert!(!written.contains(token) && !written.contains(TOKEN));
}

#[test]
fn in_place_keeps_a_backup_and_ignores_it_later() {
    let (home, path) = home();
    let before = fs::read(&path).expect("read");
    run(&home, &["clean", "00000007", "--in-place", "--redact"]);
    let after = fs::read(&path).expect("read");
    assert!(after.len() < before.len() / 2);
    let backup = path.with_extension("jsonl.bak");
    assert_eq!(fs::read(&backup).expect("kept"), before);
    assert!(path.with_extension("").join("tool-results/a.txt.bak").is_file());
    run(&home, &["clean", "00000007", "--in-place", "--redact"]);
    assert_eq!(fs::read(&path).expect("read"), after, "twice changes nothing more");
    assert!(!path.with_extension("jsonl.bak2").exists());
    let again = run(&home, &["clean", "00000007", "-o", "share", "--redact"]);
    assert!(!everything(&home.path().join("share")).contains(TOKEN), "{again}");
}

#[test]
fn harmful_arguments_are_refused() {
    let (home, path) = home();
    let before = fs::read(&path).expect("read");
    let refused = |args: &[&str]| {
        let output = run(&home, args);
        assert!(output.contains("exit Some(2)"), "{output}");
        assert_eq!(fs::read(&path).expect("read"), before);
        output
    };
    let config = home.path().to_string_lossy().into_owned();
    assert!(
        refused(&["clean", "00000007", "-o", &config, "--force"]).contains("is the source session itself")
    );
    refused(&["clean", "", "--in-place"]);
    refused(&["clean", "--in-place"]);
    refused(&["clean", "00000007"]);
    refused(&["clean", "00000007", "-n", "--also", "x+"]);
    refused(&["clean", "00000007", "-n", "--redact", "--also", "("]);
    refused(&["clean", "00000007", "-n", "--rule", "nothing"]);
    fs::write(home.path().join("notes.txt"), "my notes\n").expect("written");
    refused(&["clean", "notes.txt", "--in-place"]);
    assert_eq!(fs::read_to_string(home.path().join("notes.txt")).expect("read"), "my notes\n");
}

#[test]
fn copies_do_not_replace_an_open_session() {
    let (home, path) = home();
    let (other, open) = self::home();
    let live = json!({ "pid": std::process::id(), "sessionId": path.file_stem().and_then(|id| id.to_str()) });
    other.write("sessions/1.json", live.to_string().as_bytes());
    let before = fs::read(&open).expect("read");
    let into = other.path().to_string_lossy().into_owned();
    let refused = run(&home, &["clean", "00000007", "-o", &into, "--force"]);
    assert!(refused.contains("is open in a client") && refused.contains("exit Some(2)"), "{refused}");
    assert_eq!(fs::read(&open).expect("read"), before);
    fs::remove_file(other.path().join("sessions/1.json")).expect("removed");
    let done = run(&home, &["clean", "00000007", "-o", &into, "--force"]);
    assert!(!done.contains("exit Some"), "{done}");
    assert_ne!(fs::read(&open).expect("read"), before);
}

#[test]
fn demo_can_be_cleaned() {
    assert_snapshot!(demo(&["clean", "--all", "-n", "-l", "max"]), @"
    before                  52 kB  100.0 %
    unreadable             −107 B    0.2 %
    envelope               −11 kB   21.1 %
    tools                  −23 kB   45.0 %
    after                   17 kB   33.7 %
    ----- stderr
    nothing was written (--dry-run)
    this copy is for reading: a client that resumed it would continue a shortened conversation
    credentials were not searched for; --redact replaces them
    ");
}
