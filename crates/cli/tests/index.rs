//! The index of the program: damaged, unusable, deleted, and written by several processes at once.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rethread_testkit::hostile::hostile;
use rethread_testkit::{Home, LogBuilder};

/// Returns a command that keeps an index in a directory of the test.
fn rethread(home: &Path, args: &[&str]) -> Command {
    let mut command = common::rethread(home);
    command.env("XDG_CACHE_HOME", home.join("cache")).args(args);
    command.stdin(Stdio::null());
    command
}

/// Runs a command; returns what it prints, and its messages.
fn output_of(command: &mut Command) -> (String, String) {
    let output = command.output().expect("started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr))
}

/// Returns the messages that a search finds, sorted. Scores and order depend on how often words are in the index.
fn hits(json: &str) -> Vec<String> {
    let rows = json.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let hits = rows.filter(|row| row["type"] == "hit").map(|row| {
        let field = |name: &str| row[name].to_string();
        [field("path"), field("message"), field("key"), field("uuid"), field("snippet")].join(" ")
    });
    let mut hits: Vec<String> = hits.collect();
    hits.sort();
    hits
}

const SEARCH: [&str; 7] = ["search", "--json", "--limit", "0", "--hits", "0", "tree"];

fn found(home: &Path) -> (Vec<String>, String) {
    let (json, messages) = output_of(&mut rethread(home, &SEARCH));
    (hits(&json), messages)
}

fn found_without_index(home: &Path) -> Vec<String> {
    let (json, messages) = output_of(rethread(home, &SEARCH).arg("--no-index"));
    assert_eq!(messages, "");
    hits(&json)
}

/// Writes sessions with many messages about trees.
fn library(n_sessions: u32, turns: u32) -> Home {
    let home = Home::default();
    for number in 1..=n_sessions {
        let mut log = LogBuilder::new(number);
        for turn in 0..turns {
            log.prompt(&format!("Is working tree {number}.{turn} clean?"));
            let call = log.call("Bash", &serde_json::json!({ "command": format!("git status {turn}") }));
            log.result(&call, &format!("nothing to commit, working tree clean {number}.{turn}"));
            log.answer("It is clean.");
        }
        home.add(if number % 2 == 0 { "/home/user/app" } else { "/home/user/web" }, &log);
    }
    home
}

/// Returns all files of the index.
fn index_files(home: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut dirs = vec![home.join("cache")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.file_type().expect("known").is_dir() {
                true => dirs.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort();
    files
}

fn index_dir(home: &Path) -> PathBuf {
    let catalogue = index_files(home).into_iter().find(|path| path.ends_with("catalogue.db"));
    catalogue.expect("an index").parent().expect("a directory").to_owned()
}

/// Something that happens to a file.
type Damage = fn(&Path);

#[test]
fn damaged_index_is_made_again() {
    let home = library(3, 4);
    let expected = found_without_index(home.path());
    assert_eq!(expected.len(), 3 * 4 * 2);
    let damages: [(&str, Damage); 3] = [
        ("truncated", |path| {
            let file = fs::OpenOptions::new().write(true).open(path).expect("opened");
            file.set_len(file.metadata().expect("a file").len() / 2).expect("truncated");
        }),
        ("overwritten", |path| {
            let len = fs::metadata(path).expect("a file").len() as usize;
            let noise = (0..len as u64).map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8);
            fs::write(path, noise.collect::<Vec<u8>>()).expect("written");
        }),
        ("removed", |path| fs::remove_file(path).expect("removed")),
    ];
    assert_eq!(found(home.path()), (expected.clone(), String::new()));
    let names: Vec<String> = index_files(home.path())
        .iter()
        .map(|path| path.extension().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    for wanted in ["db", "json", "idx", "pos", "term", "fast", "fieldnorm"] {
        assert!(names.iter().any(|name| name == wanted), "{wanted} in {names:?}");
    }
    for name in &names {
        for (damage, apply) in &damages {
            let path = index_files(home.path()).into_iter().find(|path| {
                path.extension().unwrap_or_default().to_string_lossy() == *name && path.is_file()
            });
            let Some(path) = path else { continue };
            apply(&path);
            let (found, messages) = self::found(home.path());
            assert_eq!(found, expected, "{damage} {}: {messages}", path.display());
            assert!(messages.lines().count() <= 1, "{damage} {}: {messages}", path.display());
            let is_silent =
                ["lock", "shm", "wal", "db"].iter().any(|end| path.to_string_lossy().ends_with(end));
            let is_told = messages.starts_with("warning: the index was made again because it was damaged: ");
            assert!(is_told || is_silent || messages.is_empty(), "{damage} {}: {messages}", path.display());
            assert_eq!(self::found(home.path()), (expected.clone(), String::new()), "made again");
        }
    }
}

#[test]
fn missing_text_index_is_made_again() {
    let home = library(2, 2);
    let expected = found_without_index(home.path());
    found(home.path());
    fs::remove_dir_all(index_dir(home.path()).join("texts")).expect("removed");
    let (found, messages) = self::found(home.path());
    assert_eq!(found, expected);
    assert!(messages.contains("made again"), "{messages}");
    fs::remove_file(index_dir(home.path()).join("catalogue.db")).expect("removed");
    assert_eq!(self::found(home.path()), (expected, String::new()), "its text index is of no use");
}

#[test]
fn search_does_without_an_unusable_index() {
    let home = library(2, 2);
    let expected = found_without_index(home.path());
    let dir = {
        found(home.path());
        index_dir(home.path())
    };
    let check = |what: &str, n_messages: usize| {
        let (found, messages) = self::found(home.path());
        assert_eq!(found, expected, "{what}: {messages}");
        assert_eq!(messages.lines().count(), n_messages, "{what}: {messages}");
    };
    fs::remove_dir_all(&dir).expect("removed");
    fs::write(&dir, "a file").expect("written");
    check("a file", 1);
    assert_eq!(fs::read_to_string(&dir).expect("read"), "a file");
    fs::remove_file(&dir).expect("removed");
    #[cfg(unix)]
    {
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir(&elsewhere).expect("created");
        std::os::unix::fs::symlink(&elsewhere, &dir).expect("linked");
        check("a link", 1);
        assert_eq!(
            fs::read_dir(&elsewhere).expect("a directory").count(),
            0,
            "nothing is written through a link"
        );
        fs::remove_file(&dir).expect("removed");
    }
    fs::remove_dir_all(home.path().join("cache")).expect("removed");
    fs::write(home.path().join("cache"), "a file").expect("written");
    check("no directory for the cache", 1);
    let mut homeless = rethread(home.path(), &SEARCH);
    let (json, messages) = output_of(homeless.env_remove("XDG_CACHE_HOME").env_remove("HOME"));
    assert_eq!((hits(&json), messages), (expected, String::new()), "nowhere to keep an index");
}

/// A limit on the size of files fails the same way as a full disk: in the middle of a write.
#[cfg(unix)]
#[test]
fn search_answers_when_the_disk_is_full() {
    let home = library(6, 30);
    let expected = found_without_index(home.path());
    for blocks in [1, 8, 40, 100, 300] {
        let program = rethread(home.path(), &[]);
        let mut limited = Command::new("/bin/sh");
        limited.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        limited.current_dir(home.path()).stdin(Stdio::null());
        limited.args(["-c", "trap '' XFSZ; ulimit -f \"$1\"; shift; exec \"$@\"", "sh", &blocks.to_string()]);
        limited.arg(program.get_program()).args(SEARCH);
        let (json, messages) = output_of(&mut limited);
        assert_eq!(hits(&json), expected, "{blocks}: {messages}");
        assert!(messages.lines().count() <= 1, "{blocks}: {messages}");
    }
    assert_eq!(found(home.path()).0, expected, "there is room again");
}

#[test]
fn killed_update_leaves_a_usable_index() {
    let home = library(12, 12);
    let expected = found_without_index(home.path());
    for delay in [0, 5, 10, 20, 40, 60, 90, 130, 180, 250] {
        let mut update = rethread(home.path(), &["index", "update"]);
        let mut child = update.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().expect("killed");
        child.wait().expect("ended");
        assert_eq!(found(home.path()), (expected.clone(), String::new()), "killed after {delay} ms");
        if delay % 20 == 0 {
            fs::remove_dir_all(index_dir(home.path())).expect("removed");
        }
    }
}

#[test]
fn many_processes_use_one_index() {
    let home = library(8, 6);
    let fixed = found_without_index(home.path());
    let path = home.path();
    let grown = path.join("projects/-home-user-app/grown.jsonl");
    std::thread::scope(|scope| {
        // Two processes write while a session grows, and are killed now and then.
        for writer in 0..2u64 {
            let grown = &grown;
            scope.spawn(move || {
                for round in 0..12u64 {
                    if writer == 0 {
                        let mut log = LogBuilder::new(99);
                        (0..=round).for_each(|n| drop(log.prompt(&format!("A growing wood, {n}"))));
                        fs::write(grown, log.bytes()).expect("written");
                    }
                    let command = if round % 5 == 4 { "rebuild" } else { "update" };
                    let mut update = rethread(path, &["index", command]);
                    let mut child =
                        update.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
                    if (round + writer) % 3 == 0 {
                        std::thread::sleep(Duration::from_millis(17 * (round + 1) % 97));
                        child.kill().expect("killed");
                    }
                    child.wait().expect("ended");
                }
            });
        }
        for reader in 0..10u64 {
            let fixed = &fixed;
            scope.spawn(move || {
                for round in 0..4u64 {
                    if (reader + round) % 5 == 0 {
                        let mut search = rethread(path, &SEARCH);
                        let mut child =
                            search.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("started");
                        std::thread::sleep(Duration::from_millis(13 * reader % 71));
                        child.kill().expect("killed");
                        child.wait().expect("ended");
                    }
                    let (found, messages) = found(path);
                    assert_eq!(&found, fixed, "reader {reader}, round {round}: {messages}");
                    assert_eq!(messages, "", "reader {reader}, round {round}");
                }
            });
        }
    });
    let search = |query: &str| {
        let (json, messages) = output_of(&mut rethread(path, &["search", "--json", "--hits", "0", query]));
        assert_eq!(messages, "");
        hits(&json)
    };
    let kept = (search("tree"), search("growing"));
    assert_eq!(kept.1.len(), 12);
    output_of(&mut rethread(path, &["index", "rebuild"]));
    assert_eq!(kept, (search("tree"), search("growing")));
}

#[test]
fn index_deleted_during_a_search_is_not_missed() {
    let home = library(6, 8);
    let expected = found_without_index(home.path());
    std::thread::scope(|scope| {
        let searching = scope.spawn(|| {
            for round in 0..15 {
                let (found, messages) = found(home.path());
                assert_eq!(found, expected, "round {round}: {messages}");
            }
        });
        while !searching.is_finished() {
            // What another process writes at the same time may stop the removal half-way.
            let _ = fs::remove_dir_all(home.path().join("cache"));
            std::thread::sleep(Duration::from_millis(7));
        }
    });
}

#[test]
fn closed_pipe_ends_a_search_silently() {
    let home = library(8, 30);
    let mut search = rethread(home.path(), &SEARCH);
    let mut child = search.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn nothing_in_a_log_controls_the_terminal_or_leaves_the_cache() {
    let home = Home::default();
    let mut log = hostile(1);
    log.cwd = "/../../escape\u{1b}[2J".into();
    log.raw(
        &serde_json::json!({ "type": "custom-title", "customTitle": "\u{1b}]0;owned\u{7}\u{9b}31m title",
        "sessionId": log.session() })
        .to_string(),
    );
    home.add("/home/user/app", &log);
    home.write("projects/-x/..%2f..%2fescape.jsonl", &log.bytes());
    let before: Vec<PathBuf> = rethread_testkit::logs_under(home.path());
    for query in ["behind", "red", "title", "window", "file:etc x", "-F \u{1b}[31m", "in:title owned"] {
        for json in [false, true] {
            let mut search = rethread(home.path(), &["search", "--limit", "0", "--hits", "0"]);
            if json {
                search.arg("--json");
            }
            let (text, messages) = output_of(search.args(query.split(' ')));
            let is_control = |c: char| c.is_control() && c != '\n';
            assert!(
                !text.contains(is_control),
                "{query}: {:?}",
                text.lines().find(|line| line.contains(is_control))
            );
            assert!(!messages.contains(is_control), "{query}: {messages:?}");
        }
    }
    assert_eq!(rethread_testkit::logs_under(home.path()), before);
    let outside: Vec<_> =
        fs::read_dir(home.path()).expect("a directory").flatten().map(|e| e.file_name()).collect();
    assert_eq!(outside.len(), 2, "the library and the cache: {outside:?}");
}
