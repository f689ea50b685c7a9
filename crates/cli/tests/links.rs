//! Links and other non-regular files, in place of every file that is opened, for every command.

#![cfg(unix)]

mod common;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use common::rethread;
use rethread_testkit::{Home, LogBuilder};
use serde_json::json;

/// Contained in every file outside of the config directory; must never be read.
const SECRET: &str = "words-from-outside";

/// A replacement for a file or a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trap {
    /// A copy of the target, to prove that it would be read.
    Control,
    Link,
    /// A link whose target contains `..`.
    LinkUp,
    Dangling,
    Loop,
    Pipe,
    Socket,
    /// A directory in place of a file, or a file in place of a directory.
    OtherKind,
}

impl Trap {
    const ALL: [Self; 8] = [
        Self::Control,
        Self::Link,
        Self::LinkUp,
        Self::Dangling,
        Self::Loop,
        Self::Pipe,
        Self::Socket,
        Self::OtherKind,
    ];

    /// Creates the trap at a path, with a target `outside`.
    fn set(self, at: &Path, outside: &Path) {
        fs::create_dir_all(at.parent().expect("a directory")).expect("made");
        match self {
            Self::Control => copy_all(outside, at),
            Self::Link => symlink(outside, at).expect("linked"),
            Self::LinkUp => {
                let depth = at.parent().expect("a directory").components().count() - 1;
                let up: PathBuf = std::iter::repeat_n("..", depth).collect();
                symlink(up.join(outside.strip_prefix("/").expect("absolute")), at).expect("linked");
            }
            Self::Dangling => symlink("/nonexistent/of/rethread", at).expect("linked"),
            Self::Loop => symlink(at.file_name().expect("a name"), at).expect("linked"),
            Self::Pipe => {
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, mode, 0).expect("made");
            }
            Self::Socket => {
                // Bound at a short path and moved, because socket paths are limited.
                let dir = Home::default();
                drop(std::os::unix::net::UnixListener::bind(dir.path().join("s")).expect("bound"));
                fs::rename(dir.path().join("s"), at).expect("moved");
            }
            Self::OtherKind if outside.is_dir() => fs::write(at, "not a directory").expect("written"),
            Self::OtherKind => fs::create_dir(at).expect("made"),
        }
    }
}

fn copy_all(from: &Path, to: &Path) {
    if from.is_file() {
        fs::copy(from, to).expect("copied");
        return;
    }
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}

/// Paths below a project, with `ID` for the session, and the outside target that is put there.
const PLACES: [(&str, &str); 13] = [
    ("projects/-a/ID", "side"),
    ("projects/-a/ID/subagents", "side/subagents"),
    ("projects/-a/ID/subagents/agent-abc.jsonl", "side/subagents/agent-abc.jsonl"),
    ("projects/-a/ID/subagents/agent-abc.meta.json", "side/subagents/agent-abc.meta.json"),
    ("projects/-a/ID/subagents/workflows", "side/subagents"),
    ("projects/-a/ID/tool-results", "side/tool-results"),
    ("projects/-a/ID/tool-results/r1.txt", "side/tool-results/r1.txt"),
    ("projects/-a/ID/removed.jsonl", "side/removed.jsonl"),
    ("projects/-a/ID/custom-title.json", "side/custom-title.json"),
    ("projects/-a/agent-ID.jsonl", "side/subagents/agent-abc.jsonl"),
    ("file-history/ID", "history"),
    ("file-history/ID/0123456789abcdef@v1", "history/0123456789abcdef@v1"),
    ("projects/-a/ID/subagents/agent-named.jsonl", "side/subagents/agent-abc.jsonl"),
];

/// A session whose second prompt is missing, with a subagent and a large result.
fn session(number: usize) -> LogBuilder {
    let mut log = LogBuilder::new(u32::try_from(number).expect("small"));
    log.prompt("Begin.");
    let task = log.call("Task", &json!({ "description": "Look", "prompt": "Look around." }));
    let id = log.session();
    let stub = format!("<persisted-output>\nFull output saved to: /x/{id}/tool-results/r1.txt");
    log.result_with(&task, &json!(stub), &json!({ "agentId": "abc" }));
    log.entry("file-history-snapshot", json!({ "snapshot": { "trackedFileBackups": {} } }));
    log.answer("Done.");
    log.prompt("LOST");
    log.answer("Again.");
    log
}

fn bytes_of(log: &LogBuilder) -> Vec<u8> {
    let text = String::from_utf8(log.bytes()).expect("text");
    text.split_inclusive('\n').filter(|line| !line.contains("LOST")).collect::<String>().into_bytes()
}

/// A directory outside of the config directory, with every kind of file that a session has, each with
/// [`SECRET`].
fn outside() -> Home {
    let out = Home::default();
    let mut agent = LogBuilder::new(900);
    agent.sidechain(Some("abc"));
    agent.prompt("Look around.");
    agent.answer(SECRET);
    out.write("side/subagents/agent-abc.jsonl", &agent.bytes());
    let meta = json!({ "toolUseId": "x", "agentType": SECRET }).to_string();
    out.write("side/subagents/agent-abc.meta.json", meta.as_bytes());
    out.write("side/tool-results/r1.txt", SECRET.as_bytes());
    let mut removed = LogBuilder::new(901);
    removed.prompt(SECRET);
    let text = String::from_utf8(removed.bytes()).expect("text");
    let line = json!({ "line": 1, "entry": serde_json::from_str::<serde_json::Value>(&text).expect("JSON") });
    out.write("side/removed.jsonl", format!("{line}\n").as_bytes());
    out.write("side/custom-title.json", json!({ "customTitle": SECRET }).to_string().as_bytes());
    out.write("history/0123456789abcdef@v1", SECRET.as_bytes());
    let mut log = LogBuilder::new(902);
    log.prompt(SECRET);
    log.answer(SECRET);
    out.write("logs/secret.jsonl", &log.bytes());
    out
}

/// All regular files below a directory, without following links.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            if kind.is_dir() {
                waiting.push(entry.path());
            } else if kind.is_file() {
                found.insert(entry.path(), fs::read(entry.path()).expect("read"));
            }
        }
    }
    found
}

fn holds_secret(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains(SECRET)
}

/// Runs the program; fails if it does not terminate.
fn run_to_end(home: &Path, args: &[impl AsRef<OsStr>]) -> Output {
    let mut command = rethread(home);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("started");
    // The output is read concurrently, so that the program never blocks on it.
    let read = |mut from: Box<dyn std::io::Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            from.read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let out = read(Box::new(child.stdout.take().expect("piped")));
    let err = read(Box::new(child.stderr.take().expect("piped")));
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("asked") {
            break status;
        }
        if began.elapsed() > Duration::from_secs(120) {
            child.kill().expect("killed");
            let args: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy().into_owned()).collect();
            panic!("{args:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let joined = |reader: std::thread::JoinHandle<std::io::Result<Vec<u8>>>| {
        reader.join().expect("no panic").expect("read")
    };
    Output { status, stdout: joined(out), stderr: joined(err) }
}

/// A config directory in which each session has a trap at a different place.
fn trapped(trap: Trap, out: &Home) -> (Home, Vec<PathBuf>) {
    let home = Home::default();
    let mut traps = Vec::new();
    for (n, (place, of)) in PLACES.iter().enumerate() {
        let log = session(n + 1);
        home.write(&format!("projects/-a/{}.jsonl", log.session()), &bytes_of(&log));
        let at = home.path().join(place.replace("ID", &log.session()));
        if place.ends_with(".meta.json") {
            let agent = LogBuilder::new(800);
            home.write(&format!("projects/-a/{}/subagents/agent-abc.jsonl", log.session()), &agent.bytes());
        }
        trap.set(&at, &out.path().join(of));
        traps.push(at);
    }
    (home, traps)
}

/// Runs every command on every session, then on all at once; commands that change sessions come last.
fn all_commands(home: &Home, out: &Path) -> Vec<(Vec<String>, Output)> {
    let mut done = Vec::new();
    let mut run = |args: &[&str]| {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let output = run_to_end(home.path(), &args);
        done.push((args, output));
    };
    for number in 1..=PLACES.len() {
        let id = LogBuilder::new(u32::try_from(number).expect("small")).session();
        run(&["tree", &id]);
        run(&["show", &id, "--tools", "full", "--thinking", "--no-pager"]);
        run(&["show", &id, "--removed", "--json"]);
        run(&["preview", &id, "--json"]);
    }
    let to = |name: &str| out.join(name).to_string_lossy().into_owned();
    run(&["ls", "--all", "--agents"]);
    run(&["check", "--all"]);
    run(&["info", &home.path().join("projects").to_string_lossy(), "--json"]);
    run(&["export", "--all", "-o", &to("export"), "-f", "md"]);
    run(&["secrets", "--all"]);
    run(&["clean", "--all", "-o", &to("clean"), "--redact", "-l", "light"]);
    run(&["export", &home.path().to_string_lossy(), "-o", &to("by-dir"), "-f", "json"]);
    for number in 1..=PLACES.len() {
        let id = LogBuilder::new(u32::try_from(number).expect("small")).session();
        run(&["clone", &id]);
        run(&["clone", &id, "--standard", "--keep-removed", "--file-history"]);
        run(&["repair", &id]);
        run(&["repair", &id, "--in-place"]);
    }
    run(&["clean", "--all", "--in-place", "--redact", "--anonymise"]);
    done
}

#[test]
fn files_outside_are_not_read_copied_or_changed() {
    for trap in Trap::ALL {
        let out = outside();
        let before = snapshot(out.path());
        let (home, traps) = trapped(trap, &out);
        let results = Home::default();
        let done = all_commands(&home, results.path());
        assert_eq!(snapshot(out.path()), before, "{trap:?}: something outside changed");
        let shown: Vec<&Vec<String>> = done
            .iter()
            .filter(|(_, o)| holds_secret(&o.stdout) || holds_secret(&o.stderr))
            .map(|(a, _)| a)
            .collect();
        let files = [snapshot(home.path()), snapshot(results.path())].concat_maps();
        let copied: Vec<&PathBuf> = files.iter().filter(|(_, b)| holds_secret(b)).map(|(p, _)| p).collect();
        if trap == Trap::Control {
            assert!(shown.iter().any(|args| args[0] == "show") && copied.len() > 20, "{shown:?} {copied:?}");
            continue;
        }
        assert!(shown.is_empty() && copied.is_empty(), "{trap:?}: {shown:?} {copied:?}");
        let stderr: String =
            done.iter().map(|(_, o)| String::from_utf8_lossy(&o.stderr).into_owned()).collect();
        for (at, (place, _)) in traps.iter().zip(PLACES) {
            // A file in place of a directory is ignored; a directory in place of a file is empty.
            if trap != Trap::OtherKind {
                assert!(stderr.contains(&format!("skipped {}", at.display())), "{trap:?} {place}: {stderr}");
            }
        }
        for (args, output) in &done {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(!stderr.contains("panicked") && output.status.code().is_some(), "{args:?}: {stderr}");
        }
    }
}

trait ConcatMaps {
    fn concat_maps(self) -> BTreeMap<PathBuf, Vec<u8>>;
}

impl<const N: usize> ConcatMaps for [BTreeMap<PathBuf, Vec<u8>>; N] {
    fn concat_maps(self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn non_regular_logs_are_skipped_or_refused() {
    for trap in Trap::ALL.into_iter().filter(|trap| *trap != Trap::Control) {
        let out = outside();
        let before = snapshot(out.path());
        let home = Home::default();
        let other = session(1);
        home.write(&format!("projects/-a/{}.jsonl", other.session()), &bytes_of(&other));
        let id = LogBuilder::new(2).session();
        let at = home.path().join(format!("projects/-a/{id}.jsonl"));
        trap.set(&at, &out.path().join("logs/secret.jsonl"));
        let path = at.to_string_lossy().into_owned();
        let results = Home::default();
        let to = |name: &str| results.path().join(name).to_string_lossy().into_owned();
        for args in [
            &["ls", "--all"][..],
            &["export", "--all", "-o", &to("e")],
            &["secrets", "--all"],
            &["check", "--all"],
            &["clean", "--all", "-o", &to("c")],
            &["clean", "--all", "--in-place"],
        ] {
            let output = run_to_end(home.path(), args);
            assert_ne!(output.status.code(), Some(101), "{args:?}");
            assert!(!holds_secret(&output.stdout), "{trap:?} {args:?}");
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(stderr.contains(&format!("skipped {path}")), "{trap:?} {args:?}: {stderr}");
        }
        let followed = matches!(trap, Trap::Link | Trap::LinkUp);
        if !followed {
            for args in
                [&["show", &path][..], &["info", &path], &["clone", &path], &["repair", &path, "--in-place"]]
            {
                let output = run_to_end(home.path(), args);
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(2), "{trap:?} {args:?}: {stderr}");
            }
        }
        assert_eq!(snapshot(out.path()), before, "{trap:?}");
        assert!(!snapshot(results.path()).values().any(|bytes| holds_secret(bytes)), "{trap:?}");
    }
}

#[test]
fn linked_sidecars_are_refused_when_named() {
    for id in [LogBuilder::new(1).session(), "conversation".to_owned()] {
        let home = Home::default();
        home.write(&format!("projects/-a/{id}.jsonl"), &bytes_of(&session(1)));
        let out = outside();
        let before = snapshot(out.path());
        let side = home.path().join(format!("projects/-a/{id}"));
        Trap::Link.set(&side.join("subagents/agent-abc.jsonl"), &out.path().join("logs/secret.jsonl"));
        Trap::Link.set(&side.join("subagents/dir"), &out.path().join("side/subagents"));
        for name in ["subagents/agent-abc.jsonl", "subagents/dir/agent-abc.jsonl"] {
            let path = side.join(name).to_string_lossy().into_owned();
            for args in [
                &["show", &path][..],
                &["repair", &path],
                &["repair", &path, "--in-place"],
                &["clean", &path, "--in-place", "-l", "max"],
                &["clone", &path],
            ] {
                let output = run_to_end(home.path(), args);
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
                assert!(stderr.contains("symbolic link") && stderr.contains("hint:"), "{args:?}: {stderr}");
                assert!(!holds_secret(&output.stdout), "{args:?}");
            }
        }
        assert_eq!(snapshot(out.path()), before);
        assert!(!snapshot(home.path()).values().any(|bytes| holds_secret(bytes)));
    }
}

#[test]
fn projects_and_config_directories_may_be_links() {
    let real = Home::default();
    let log = session(1);
    real.write(&format!("store/{}.jsonl", log.session()), &bytes_of(&log));
    real.write(&format!("store/{}/tool-results/r1.txt", log.session()), b"all of the result");
    let linked = Home::default();
    fs::create_dir_all(linked.path().join("real/projects")).expect("made");
    symlink(real.path().join("store"), linked.path().join("real/projects/-a")).expect("linked");
    symlink(linked.path().join("real"), linked.path().join("config")).expect("linked");
    let config = linked.path().join("config");
    let shown = run_to_end(&config, &["show", "-q", "00000001", "--tools", "full"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("all of the result"), "{shown:?}");
    assert!(shown.stderr.is_empty(), "{shown:?}");
    let repaired = run_to_end(&config, &["repair", "00000001", "--in-place"]);
    assert_eq!(repaired.status.code(), Some(0), "{repaired:?}");
    let written = real.path().join(format!("store/{}.jsonl", log.session()));
    assert_ne!(fs::read(written).expect("read"), bytes_of(&log));
}

/// A config directory with a session, and with client files that report `held` as open.
fn home_with_open_session(held: &str, content: &str) -> (Home, PathBuf) {
    let home = Home::default();
    let log = session(1);
    let path = home.write(&format!("projects/-a/{}.jsonl", log.session()), &bytes_of(&log));
    home.write(&format!("projects/-a/{}/tool-results/r1.txt", log.session()), b"token=abc");
    let content = content.replace("PID", &std::process::id().to_string()).replace("ID", held);
    home.write(&format!("sessions/{}.json", std::process::id()), content.as_bytes());
    (home, path)
}

fn refuses(home: &Path, args: &[&str], files: &Path) {
    let before = snapshot(files);
    let output = run_to_end(home, args);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(stderr.contains("open") && stderr.contains("hint:"), "{args:?}: {stderr}");
    assert_eq!(snapshot(files), before, "{args:?}: {stderr}");
}

#[test]
fn open_sessions_are_not_changed_through_any_path() {
    let id = LogBuilder::new(1).session();
    let (home, path) = home_with_open_session(&id, r#"{"pid":PID,"sessionId":"ID"}"#);
    let agent = home.write(&format!("projects/-a/{id}/subagents/agent-x.jsonl"), &bytes_of(&session(5)));
    let old =
        String::from_utf8(bytes_of(&session(6))).expect("text").replace(&LogBuilder::new(6).session(), &id);
    let old = home.write("projects/-a/agent-old.jsonl", old.as_bytes());
    let elsewhere = Home::default();
    let link = elsewhere.path().join("alias.jsonl");
    symlink(&path, &link).expect("linked");
    let alias = home.path().join(format!("projects/-a/{}.jsonl", LogBuilder::new(3).session()));
    symlink(&path, &alias).expect("linked");
    // The directory of another session links to that of the open one.
    let other = session(4);
    let other_path = home.write(&format!("projects/-a/{}.jsonl", other.session()), &bytes_of(&other));
    fs::create_dir_all(other_path.with_extension("")).expect("made");
    symlink(path.with_extension("").join("subagents"), other_path.with_extension("").join("subagents"))
        .expect("linked");
    let dir = elsewhere.path().join("dir");
    symlink(agent.parent().expect("a directory"), &dir).expect("linked");
    let names = [
        id.clone(),
        path.to_string_lossy().into_owned(),
        link.to_string_lossy().into_owned(),
        alias.to_string_lossy().into_owned(),
        LogBuilder::new(3).session(),
        agent.to_string_lossy().into_owned(),
        old.to_string_lossy().into_owned(),
        dir.join("agent-x.jsonl").to_string_lossy().into_owned(),
    ];
    for name in &names {
        for config in [home.path(), elsewhere.path()] {
            if config == elsewhere.path() && !name.contains('/') {
                continue;
            }
            refuses(config, &["repair", name, "--in-place"], home.path());
            refuses(config, &["clean", name, "--in-place", "-l", "max"], home.path());
        }
    }
    let before = snapshot(&path.with_extension(""));
    run_to_end(home.path(), &["clean", &other.session(), "--in-place", "-l", "max"]);
    assert_eq!(snapshot(&path.with_extension("")), before);
}

#[test]
fn malformed_client_files_lock_all_sessions() {
    let id = LogBuilder::new(1).session();
    for content in ["", "{", r#"{"pid":PID"#, r#"{"pid":PID,"sessionId":"00000001-00"#, "[]", "null", "{}"] {
        let (home, _) = home_with_open_session("", content);
        refuses(home.path(), &["repair", &id, "--in-place"], home.path());
        refuses(home.path(), &["clean", &id, "--in-place", "--redact"], home.path());
    }
    for trap in [Trap::Link, Trap::Dangling, Trap::Loop, Trap::Pipe, Trap::Socket] {
        for place in ["sessions", &format!("sessions/{}.json", std::process::id())] {
            let (home, _) = home_with_open_session("x", "{}");
            fs::remove_dir_all(home.path().join("sessions")).expect("removed");
            let out = outside();
            trap.set(&home.path().join(place), &out.path().join("side"));
            refuses(home.path(), &["repair", &id, "--in-place"], home.path());
            for args in [&["ls", "--all"][..], &["clone", &id], &["show", &id]] {
                assert_eq!(run_to_end(home.path(), args).status.code(), Some(0), "{trap:?} {place} {args:?}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_open_for_writing_are_not_replaced() {
    let id = LogBuilder::new(1).session();
    let (home, path) =
        home_with_open_session("99999999-0000-4000-8000-000000000000", r#"{"pid":PID,"sessionId":"ID"}"#);
    let writer = fs::File::options().append(true).open(&path).expect("opened");
    refuses(home.path(), &["repair", &id, "--in-place"], home.path());
    refuses(home.path(), &["clean", &id, "--in-place", "-l", "max"], home.path());
    drop(writer);
    // A process that only reads does no harm.
    let _reader = fs::File::open(&path).expect("opened");
    assert_eq!(run_to_end(home.path(), &["repair", &id, "--in-place"]).status.code(), Some(0));
}

#[test]
fn nothing_is_written_through_links_in_the_output() {
    let home = Home::default();
    let log = session(1);
    home.write(&format!("projects/-a/{}.jsonl", log.session()), &bytes_of(&log));
    let id = log.session();
    let out = outside();
    let before = snapshot(out.path());
    let secret = out.path().join("logs/secret.jsonl");
    for (place, of, args) in [
        ("projects", "side", &["clean", "--all", "--force", "-o", "DIR"][..]),
        ("projects/-a", "side", &["clean", "--all", "-o", "DIR"]),
        (
            &format!("projects/-a/{id}.jsonl"),
            "logs/secret.jsonl",
            &["clean", "--all", "--force", "-o", "DIR"],
        ),
        (&format!("projects/-a/{id}.jsonl"), "gone", &["clean", "--all", "-o", "DIR"]),
        (&format!("transcript_{id}.md"), "logs/secret.jsonl", &["export", "--all", "--force", "-o", "DIR"]),
        (".rethread-export.json", "logs/secret.jsonl", &["export", "--all", "--force", "-o", "DIR"]),
        (".rethread-export.json", "gone", &["export", "--all", "--force", "-o", "DIR"]),
        ("out.jsonl", "logs/secret.jsonl", &["repair", &id, "-o", "DIR/out.jsonl"]),
        ("out.jsonl", "gone", &["repair", &id, "-o", "DIR/out.jsonl"]),
    ] {
        let dir = Home::default();
        Trap::Link.set(&dir.path().join(place), &out.path().join(of));
        let args: Vec<String> =
            args.iter().map(|arg| arg.replace("DIR", &dir.path().to_string_lossy())).collect();
        let output = run_to_end(home.path(), &args);
        assert_eq!(output.status.code(), Some(2), "{place} {args:?}: {output:?}");
        assert_eq!(snapshot(out.path()), before, "{place} {args:?}");
        assert!(dir.path().join(place).is_symlink(), "{place} {args:?}: the link is not ours to replace");
    }
    assert!(secret.is_file());
}

/// A path that is not UTF-8.
fn non_utf8_path(text: &str) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(&[text.as_bytes(), b"-\xff\xfe"].concat()))
}

#[test]
fn non_utf8_names_work() {
    let home = Home::default();
    let log = session(1);
    let config = home.path().join(non_utf8_path("config"));
    let project = config.join("projects/-a");
    fs::create_dir_all(&project).expect("made");
    fs::write(project.join(format!("{}.jsonl", log.session())), bytes_of(&log)).expect("written");
    let mut file = home.path().join(non_utf8_path("log")).into_os_string();
    file.push(".jsonl");
    fs::write(&file, bytes_of(&log)).expect("written");
    // Set in the environment, alone and in a list, or by an option.
    let list = [OsStr::from_bytes(b"/nonexistent, "), config.as_os_str()].concat_os();
    for dirs in [config.as_os_str(), &list] {
        let listed =
            rethread(home.path()).env("CLAUDE_CONFIG_DIR", dirs).args(["ls", "--all", "--json"]).output();
        let listed = listed.expect("ended");
        assert!(String::from_utf8_lossy(&listed.stdout).contains("00000001"), "{listed:?}");
        let listed = run_to_end(
            home.path(),
            &[OsStr::new("ls"), OsStr::new("--all"), OsStr::new("--config-dir"), dirs],
        );
        assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    }
    let out = home.path().join(non_utf8_path("out"));
    let sessions: [&[&OsStr]; 12] = [
        &[OsStr::new("ls"), &file],
        &[OsStr::new("info"), &file],
        &[OsStr::new("tree"), &file],
        &[OsStr::new("show"), &file],
        &[OsStr::new("preview"), &file],
        &[OsStr::new("check"), &file],
        &[OsStr::new("secrets"), &file],
        &[OsStr::new("export"), &file, OsStr::new("-o"), out.as_os_str()],
        &[OsStr::new("clean"), &file, OsStr::new("-n")],
        &[OsStr::new("clone"), &file],
        &[OsStr::new("repair"), &file],
        &[OsStr::new("clean"), &file, OsStr::new("--in-place"), OsStr::new("-l"), OsStr::new("max")],
    ];
    for args in sessions {
        let output = run_to_end(home.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{args:?}: {stderr}");
    }
    let last = rethread(home.path()).env("CLAUDE_CONFIG_DIR", &config).args(["show", "00000001"]).output();
    assert_eq!(last.expect("ended").status.code(), Some(0));
    // Arguments that must be text are refused, and nothing panics.
    let bad = OsStr::from_bytes(b"\xff");
    for args in [
        &[OsStr::new("clone"), &file, OsStr::new("--title"), bad][..],
        &[OsStr::new("tree"), &file, OsStr::new("--client"), bad],
        &[OsStr::new("show"), bad],
        &[bad],
        &[OsStr::new("ls"), OsStr::new("--sort"), bad],
    ] {
        let output = run_to_end(home.path(), args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.starts_with("error:") && !stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

trait ConcatOs {
    fn concat_os(self) -> std::ffi::OsString;
}

impl<const N: usize> ConcatOs for [&OsStr; N] {
    fn concat_os(self) -> std::ffi::OsString {
        let mut all = std::ffi::OsString::new();
        self.into_iter().for_each(|part| all.push(part));
        all
    }
}

#[test]
fn only_the_store_opens_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a directory of crates");
    let opens = [
        "File::open",
        "File::create",
        "File::options",
        "OpenOptions",
        "fs::read",
        "fs::write",
        "fs::copy",
        "fs::rename",
        "fs::hard_link",
        "fs::remove_file",
    ];
    for name in ["log", "model", "edit", "render", "rethread", "cli"] {
        let sources = snapshot(&crates.join(name).join("src"));
        assert!(!sources.is_empty(), "{name}");
        for (path, bytes) in sources {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let found: Vec<&str> =
                code.lines().filter(|line| opens.iter().any(|open| line.contains(open))).collect();
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
}
