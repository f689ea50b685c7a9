//! Transcripts: what is written, what is skipped, and which files are never changed.

#![expect(clippy::print_stdout, reason = "the counts are shown with --nocapture")]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use rethread::{
    Client, ExportError, ExportOptions, Exported, Format, Library, LogSource, PathChoice, TranscriptItem,
};
use rethread_testkit::{Home, LogBuilder, hostile, shared};
use serde_json::{Value, json};

fn export(home: &Home, out: &Path, options: &ExportOptions) -> Result<Exported, ExportError> {
    let library = Library::open(vec![home.path().to_owned()]);
    let sources = library.select(&[], None).expect("found");
    library.export(sources, out, options)
}

fn html() -> ExportOptions {
    ExportOptions { format: Format::Html, ..ExportOptions::default() }
}

/// The files of a directory with their contents, except the manifest.
fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(at) = left.pop() {
        for entry in fs::read_dir(&at).expect("listed") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(dir).expect("inside").to_string_lossy().into_owned();
            if path.is_dir() {
                left.push(path);
            } else if name != ".rethread-export.json" {
                found.insert(name, fs::read(&path).expect("read"));
            }
        }
    }
    found
}

fn names(dir: &Path) -> Vec<String> {
    files(dir).into_keys().collect()
}

fn text(dir: &Path, name: &str) -> String {
    String::from_utf8(fs::read(dir.join(name)).expect("written")).expect("text")
}

/// The short id of a session.
fn short(name: &str) -> String {
    name.replace("-0000-4000-8000-000000000000", "")
}

#[test]
fn headings_of_turns_have_the_first_words_of_their_prompts() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt(
        "  Make it\n**async**, please, and rename everything that is named after the old behaviour of it",
    );
    log.answer("# Done\n\n## Details");
    log.prompt("# [x](y) {#z} ##");
    home.add("/home/user/app", &log);
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let text = text(out.path(), "transcript_00000001-0000-4000-8000-000000000000.md");
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    insta::assert_snapshot!(headings.join("\n"), @r#"
    # CLAUDE CODE SESSION TRANSCRIPT
    ## Turn 1: Make it \*\*async\*\*, please, and rename everything that is…
    ### <a id="m1"></a>User · #1 · 2026-01-05 00:00:01
    ### <a id="m2"></a>Assistant · claude-opus-5 · #2 · 2026-01-05 00:00:02
    #### Done
    ##### Details
    ## Turn 2: \# \[x\](y) &#123;\#z&#125; \#\#
    ### <a id="m3"></a>User · #3 · 2026-01-05 00:00:03
    "#);
}

#[test]
fn two_redos_give_three_documents_with_the_legacy_header() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let out = tempfile::tempdir().expect("a directory");
    let exported = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let id = "00000001-0000-4000-8000-000000000000";
    let names = names(out.path());
    assert_eq!(
        names,
        [
            "README.md".to_owned(),
            format!("transcript_{id}_path1_abandoned.md"),
            format!("transcript_{id}_path2_abandoned.md"),
            format!("transcript_{id}_path3.md"),
        ]
    );
    let head = |name: &str| {
        let text = text(out.path(), name);
        let head = text.split_once("\n\n- ").map_or("", |(head, _)| head);
        // Every line but the last ends with a hard break.
        let lines: Vec<&str> = head.lines().skip(2).collect();
        assert!(lines.split_last().is_some_and(|(_, lines)| lines.iter().all(|line| line.ends_with("  "))));
        head.lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>()
    };
    insta::assert_snapshot!(head(&names[1]), @"
    # CLAUDE CODE SESSION TRANSCRIPT

    Session ID: 00000001-0000-4000-8000-000000000000
    Path: 1 of 3
    Status: ABANDONED
    Fork Point: 00000001-0000-4000-8000-000000000006
    Total Messages: 10
    ");
    insta::assert_snapshot!(head(&names[3]), @"
    # CLAUDE CODE SESSION TRANSCRIPT

    Session ID: 00000001-0000-4000-8000-000000000000
    Path: 3 of 3
    Status: ACTIVE
    Total Messages: 14
    ");
    let turns = |name: &str| {
        let text = text(out.path(), name);
        text.lines().filter_map(|l| l.strip_prefix("> Turn ")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(turns(&names[1]), "1, 2, 3, 4 original, 5 original");
    assert_eq!(turns(&names[2]), "1, 2, 3, 4 redo, 5 after redo, 6, 7 first");
    assert_eq!(turns(&names[3]), "1, 2, 3, 4 redo, 5 after redo, 6, 7 redo");
    let rows = exported.transcripts.iter().map(|r| (r.path_n, r.paths, r.active, r.messages));
    assert!(rows.eq([(1, 3, false, 10), (2, 3, false, 14), (3, 3, true, 14)]));
}

#[test]
fn from_fork_starts_abandoned_branches_at_their_forks() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let out = tempfile::tempdir().expect("a directory");
    let options = ExportOptions { from_fork: true, ..ExportOptions::default() };
    export(&home, out.path(), &options).expect("exported");
    let summary = |name: &str| {
        let text = text(out.path(), &format!("transcript_00000001-0000-4000-8000-000000000000_{name}"));
        let shown = |l: &&str| l.starts_with("> ") || l.starts_with("*Earlier") || l.starts_with("Total");
        short(&text.lines().filter(shown).collect::<Vec<_>>().join("\n"))
    };
    insta::assert_snapshot!(summary("path1_abandoned.md"), @"
    Total Messages: 4
    *Earlier messages are in [message #6 of transcript_00000001_path3.md](transcript_00000001_path3.md#m6).*
    > Turn 4 original
    > Turn 5 original
    ");
    insta::assert_snapshot!(summary("path2_abandoned.md"), @"
    Total Messages: 2
    *Earlier messages are in [message #16 of transcript_00000001_path3.md](transcript_00000001_path3.md#m16).*
    > Turn 7 first
    ");
    assert_eq!(summary("path3.md").matches("> Turn").count(), 7);
}

/// A session and copies of it, as made by the different ways to continue it.
fn copies(home: &Home) {
    let session = |log: &LogBuilder, number: u32| {
        let other = LogBuilder::new(number).session();
        let text = String::from_utf8(log.bytes()).expect("text").replace(&log.session(), &other);
        home.write(&format!("projects/-home-user-app/{other}.jsonl"), text.as_bytes());
    };
    let mut log = LogBuilder::new(1);
    log.prompt("Grüße, \"one\"");
    let call = log.call("Bash", &json!({ "command": "ls", "description": "List" }));
    log.result(&call, "a\nb");
    log.answer("two");
    home.add("/home/user/app", &log);
    // As `--fork-session` writes it: the same entries under another session id.
    session(&log, 2);
    // As the SDKs write it: new uuids, different JSON formatting, the last entry with a new time.
    log.prompt("last words");
    home.add("/home/user/app", &log);
    let lines: Vec<Value> = String::from_utf8(log.bytes())
        .expect("text")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut fork = String::new();
    for (i, line) in lines.iter().enumerate() {
        let mut entry = line.clone();
        entry["forkedFrom"] = json!({ "sessionId": log.session(), "messageUuid": entry["uuid"] });
        for key in ["uuid", "parentUuid"] {
            if let Some(uuid) = entry[key].as_str() {
                entry[key] = json!(uuid.replace("00000001-", "0000beef-"));
            }
        }
        entry["sessionId"] = json!(LogBuilder::new(3).session());
        if i + 1 == lines.len() {
            entry["timestamp"] = json!("2026-02-02T00:00:00.000Z");
        }
        let spelled = serde_json::to_string_pretty(&entry).expect("JSON").replace('\n', "");
        let ascii: String = spelled
            .chars()
            .map(|c| if c.is_ascii() { c.to_string() } else { format!("\\u{:04x}", u32::from(c)) })
            .collect();
        fork += &format!("{ascii}\n");
    }
    home.write(&format!("projects/-home-user-app/{}.jsonl", LogBuilder::new(3).session()), fork.as_bytes());
    // Resumed and continued.
    let mut longer = log.clone();
    longer.answer("three");
    session(&longer, 4);
    // Another conversation with the same text at another time.
    let mut other = LogBuilder::new(5);
    other.wait(9).prompt("Grüße, \"one\"");
    home.add("/home/user/app", &other);
}

#[test]
fn copied_paths_are_exported_once() {
    let home = Home::default();
    copies(&home);
    let out = tempfile::tempdir().expect("a directory");
    let exported = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let rows = |exported: &Exported| {
        let name = |file: Option<&Path>| {
            file.map(|file| short(&file.file_name().unwrap_or_default().to_string_lossy()))
        };
        let row = |r: &rethread::ExportedTranscript| {
            let file = r.file().map(|file| file.path.as_path());
            format!(
                "{} {} {:?} {:?}\n",
                short(r.session.as_str()),
                r.messages,
                name(file),
                name(r.contained_in())
            )
        };
        let mut rows: Vec<String> = exported.transcripts.iter().map(row).collect();
        rows.sort();
        rows.concat()
    };
    insta::assert_snapshot!(rows(&exported), @r#"
    00000001 5 None Some("transcript_00000004.md")
    00000002 4 None Some("transcript_00000004.md")
    00000003 5 None Some("transcript_00000004.md")
    00000004 6 Some("transcript_00000004.md") None
    00000005 1 Some("transcript_00000005.md") None
    "#);
    let out = tempfile::tempdir().expect("a directory");
    let options = ExportOptions { all_copies: true, ..ExportOptions::default() };
    let exported = export(&home, out.path(), &options).expect("exported");
    assert_eq!(exported.transcripts.iter().filter(|r| r.file().is_some()).count(), 5);
    assert!(exported.transcripts.iter().all(|r| r.contained_in().is_none()));
}

#[test]
fn conversation_continued_in_another_file_is_one_document() {
    let home = Home::default();
    let mut first = LogBuilder::new(1);
    first.prompt("begun in the first file");
    let last = first.answer("yes");
    let mut second = LogBuilder::new(2);
    second.back_to(&last).wait(60).prompt("and gone on with in the second");
    second.answer("indeed");
    home.add("/home/user/app", &first);
    home.add("/home/user/app", &second);
    let out = tempfile::tempdir().expect("a directory");
    let exported = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    assert_eq!(names(out.path()), ["transcript_00000002-0000-4000-8000-000000000000.md"]);
    let text = text(out.path(), &names(out.path())[0]);
    assert!(text.contains("Total Messages: 4"));
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is missing"));
    assert!(place("begun in the first file") < place("Continued in session"));
    assert!(place("Continued in session") < place("> and gone on with in the second"));
    let held: Vec<bool> = exported.transcripts.iter().map(|r| r.contained_in().is_some()).collect();
    assert_eq!(held, [true, false]);
    // Exported alone, it still includes its beginning.
    let library = Library::open(vec![home.path().to_owned()]);
    let alone = tempfile::tempdir().expect("a directory");
    let sources = library.find("00000002").expect("found");
    library.export(sources, alone.path(), &ExportOptions::default()).expect("exported");
    assert!(self::text(alone.path(), &names(alone.path())[0]).contains("begun in the first file"));
}

#[test]
fn document_shows_every_kind_of_block() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::varied(2));
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let picture = &names(out.path())[0];
    assert_eq!(
        names(out.path()).iter().map(|n| short(n)).collect::<Vec<_>>(),
        [picture, "subagents/00000002_1_inline.md", "transcript_00000002.md"]
    );
    assert!(picture.starts_with("images/") && picture.ends_with(".png"));
    let text = text(out.path(), "transcript_00000002-0000-4000-8000-000000000000.md");
    let text = text.replace(picture, "images/[hash].png");
    insta::assert_snapshot!(text);
}

#[test]
fn unchanged_input_gives_equal_bytes_and_is_not_rewritten() {
    for options in [ExportOptions::default(), html(), ExportOptions { format: Format::Json, ..html() }] {
        let home = Home::default();
        home.add("/home/user/app", &hostile::redone(1));
        home.add("/home/user/app", &hostile::varied(2));
        let (one, two) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let first = export(&home, one.path(), &options).expect("exported");
        export(&home, two.path(), &options).expect("exported");
        assert_eq!(files(one.path()), files(two.path()));
        assert_eq!((first.written, first.unchanged), (5, 0));
        let stamps = |dir: &Path| -> BTreeMap<String, std::time::SystemTime> {
            let time = |name: &String| dir.join(name).metadata().and_then(|m| m.modified()).expect("a time");
            names(dir).into_iter().map(|name| (name.clone(), time(&name))).collect()
        };
        let before = stamps(one.path());
        let again = export(&home, one.path(), &options).expect("exported again");
        assert_eq!((again.written, again.unchanged), (0, 5));
        assert_eq!(stamps(one.path()), before);
        // One session grows: its path is no longer the only one, so its document gets another name.
        let mut varied = hostile::varied(2);
        varied.back_to("00000002-0000-4000-8000-000000000001").prompt("Something else instead.");
        varied.answer("Gladly.");
        home.add("/home/user/app", &varied);
        let grown = export(&home, one.path(), &options).expect("exported again");
        assert_eq!((grown.written, grown.unchanged, grown.removed), (3, 3, 1));
        let lost = one.path().join(names(two.path()).last().expect("some"));
        assert!(!lost.exists(), "{} was not removed", lost.display());
    }
}

#[test]
fn single_document_has_no_index_and_is_not_rewritten() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::long(3, 2));
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &html()).expect("exported");
    let before = files(out.path());
    assert_eq!(before.len(), 1);
    let again = export(&home, out.path(), &html()).expect("exported");
    assert_eq!((again.written, again.index, files(out.path())), (0, None, before));
    // A second one adds an index of both.
    let other = Home::default();
    other.add("/home/user/app", &hostile::long(4, 2));
    export(&other, out.path(), &html()).expect("exported");
    let index = text(out.path(), "index.html");
    assert_eq!((names(out.path()).len(), index.matches("<tr data-find=").count()), (3, 2));
}

#[test]
fn foreign_files_are_not_changed() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let out = tempfile::tempdir().expect("a directory");
    fs::write(out.path().join("thesis.txt"), "years of work").expect("written");
    let options = ExportOptions::default();
    let refused = export(&home, out.path(), &options);
    assert!(matches!(refused, Err(ExportError::ForeignDirectory { .. })), "{refused:?}");
    assert_eq!(names(out.path()), ["thesis.txt"]);
    // Even with `force` no foreign file is overwritten.
    let taken = out.path().join("transcript_00000001-0000-4000-8000-000000000000_path3.md");
    fs::write(&taken, "mine").expect("written");
    let force = ExportOptions { force: true, ..options.clone() };
    let refused = export(&home, out.path(), &force).expect("the others are written").errors;
    assert!(matches!(refused[..], [ExportError::ForeignFile { .. }]), "{refused:?}");
    assert_eq!(fs::read(&taken).expect("read"), b"mine");
    assert_eq!(names(out.path()).len(), 5);
    fs::remove_file(&taken).expect("removed");
    assert_eq!(export(&home, out.path(), &force).expect("exported").written, 1);
    assert_eq!(fs::read(out.path().join("thesis.txt")).expect("read"), b"years of work");
    // A document that somebody edited is not overwritten.
    fs::write(&taken, "annotated").expect("written");
    let changed = ExportOptions { thinking: false, ..options.clone() };
    let refused = export(&home, out.path(), &changed).expect("the others are written");
    assert!(matches!(refused.errors[..], [ExportError::Changed { .. }]), "{:?}", refused.errors);
    assert_eq!((refused.written, fs::read(&taken).expect("read")), (2, b"annotated".to_vec()));
    export(&home, out.path(), &ExportOptions { force: true, ..changed }).expect("exported");
    assert!(text(out.path(), &taken.file_name().expect("a name").to_string_lossy()).contains("Turn 7 redo"));
}

#[test]
fn foreign_index_is_not_overwritten() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let out = tempfile::tempdir().expect("a directory");
    fs::write(out.path().join("README.md"), "my project").expect("written");
    let force = ExportOptions { force: true, ..ExportOptions::default() };
    let exported = export(&home, out.path(), &force).expect("exported");
    assert!(matches!(exported.errors[..], [ExportError::ForeignFile { .. }]), "{:?}", exported.errors);
    assert_eq!((exported.written, text(out.path(), "README.md")), (3, "my project".to_owned()));
    // The next run recognises the documents.
    let again = export(&home, out.path(), &force).expect("exported");
    assert_eq!((again.written, again.unchanged), (0, 3));
    #[cfg(unix)]
    {
        let elsewhere = tempfile::tempdir().expect("a directory");
        home.add("/home/user/app", &hostile::varied(2));
        std::os::unix::fs::symlink(elsewhere.path(), out.path().join("subagents")).expect("linked");
        export(&home, out.path(), &force).expect("exported");
        assert_eq!(names(elsewhere.path()), [""; 0], "nothing is written through a link");
    }
}

#[test]
fn colliding_names_are_made_distinct() {
    let home = Home::default();
    home.write("projects/-a/x.jsonl", &hostile::redone(1).bytes());
    home.write("projects/-a/x_path3.jsonl", &hostile::long(2, 1).bytes());
    home.write("projects/-b/X_path3.jsonl", &hostile::long(3, 1).bytes());
    let out = tempfile::tempdir().expect("a directory");
    let exported = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    assert_eq!(names(out.path()).len(), 6);
    let distinct: BTreeSet<String> = names(out.path()).iter().map(|n| n.to_lowercase()).collect();
    assert_eq!((distinct.len(), exported.written), (6, 5));
    assert_eq!(export(&home, out.path(), &ExportOptions::default()).expect("exported").unchanged, 5);
}

#[test]
fn missing_images_are_rewritten_and_unused_ones_removed() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::varied(2));
    let out = tempfile::tempdir().expect("a directory");
    let options = ExportOptions::default();
    export(&home, out.path(), &options).expect("exported");
    let picture = names(out.path()).remove(0);
    fs::remove_file(out.path().join(&picture)).expect("removed");
    assert_eq!(export(&home, out.path(), &options).expect("exported").written, 1);
    assert!(out.path().join(&picture).exists());
    let without = ExportOptions { images: false, ..options };
    export(&home, out.path(), &without).expect("exported");
    assert!(!out.path().join(&picture).exists());
}

/// A session with a subagent and a large result as sidecars, and a copy of it that continues.
fn add_copy_with_sidecars(home: &Home) {
    let mut log = LogBuilder::new(1);
    log.prompt("Begin.");
    let task = log.call("Task", &json!({ "description": "Look", "prompt": "Look around." }));
    let stub =
        format!("<persisted-output>\nFull output saved to: /elsewhere/{}/tool-results/r1.txt", log.session());
    log.result_with(&task, &json!(stub), &json!({ "agentId": "abc" }));
    log.answer("Done.");
    home.add("/home/user/app", &log);
    let mut agent = LogBuilder::new(7);
    agent.sidechain(Some("abc"));
    agent.prompt("Look around.");
    agent.answer("words of the subagent");
    let side = format!("projects/-home-user-app/{}", log.session());
    home.write(&format!("{side}/subagents/agent-abc.jsonl"), &agent.bytes());
    let mut orphan = LogBuilder::new(8);
    orphan.sidechain(Some("lost"));
    orphan.prompt("Who called?");
    home.write(&format!("{side}/subagents/agent-lost.jsonl"), &orphan.bytes());
    home.write(&format!("{side}/tool-results/r1.txt"), b"the whole of the result");
    log.prompt("Go on.");
    let other = LogBuilder::new(2).session();
    let text = String::from_utf8(log.bytes()).expect("text");
    let text =
        text.replace(&format!("\"sessionId\":\"{}\"", log.session()), &format!("\"sessionId\":\"{other}\""));
    home.write(&format!("projects/-home-user-app/{other}.jsonl"), text.as_bytes());
}

#[test]
fn sidecars_of_the_original_are_shown_with_its_copy() {
    let home = Home::default();
    add_copy_with_sidecars(&home);
    for format in [Format::Md, Format::Html, Format::Json] {
        let out = tempfile::tempdir().expect("a directory");
        let options = ExportOptions { format, ..ExportOptions::default() };
        let exported = export(&home, out.path(), &options).expect("exported");
        let written: Vec<&Path> =
            exported.transcripts.iter().filter_map(|r| Some(r.file()?.path.as_path())).collect();
        assert_eq!((written.len(), exported.subagents.len()), (1, 2));
        let document = fs::read_to_string(written[0]).expect("read");
        assert!(document.contains("the whole of the result"), "{format:?}");
        assert!(document.contains("subagents/00000001-"), "{format:?}");
        if format != Format::Json {
            assert!(document.contains("words of the subagent"), "{format:?}");
        }
        let subagents =
            exported.subagents.iter().map(|row| fs::read_to_string(&row.file.path).expect("read"));
        assert!(subagents.collect::<String>().contains("words of the subagent"));
    }
    // Exported without the original, and then with it: the subagent is added.
    let library = Library::open(vec![home.path().to_owned()]);
    let out = tempfile::tempdir().expect("a directory");
    let alone = library.find("00000002").expect("found");
    library.export(alone, out.path(), &ExportOptions::default()).expect("exported");
    let name = "transcript_00000002-0000-4000-8000-000000000000.md";
    assert!(!text(out.path(), name).contains("words of the subagent"));
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    assert!(text(out.path(), name).contains("words of the subagent"));
    // A subagent whose call is unknown is listed in the document of its own session.
    let out = tempfile::tempdir().expect("a directory");
    let all = ExportOptions { all_copies: true, ..ExportOptions::default() };
    export(&home, out.path(), &all).expect("exported");
    let text = text(out.path(), "transcript_00000001-0000-4000-8000-000000000000.md");
    assert!(text.contains("## Subagents whose call is not known"), "{text}");
}

#[test]
fn json_export_omits_thinking_and_images_on_request() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::varied(2));
    let out = tempfile::tempdir().expect("a directory");
    let options =
        ExportOptions { format: Format::Json, thinking: false, images: false, ..ExportOptions::default() };
    export(&home, out.path(), &options).expect("exported");
    let text = text(out.path(), "transcript_00000002-0000-4000-8000-000000000000.json");
    assert!(!text.contains("call site") && !text.contains(hostile::PIXEL));
    serde_json::from_str::<Value>(&text).expect("JSON");
}

#[test]
fn copies_are_skipped_with_active_paths_only() {
    let home = Home::default();
    copies(&home);
    let out = tempfile::tempdir().expect("a directory");
    let active = ExportOptions { paths: PathChoice::Active, ..ExportOptions::default() };
    let exported = export(&home, out.path(), &active).expect("exported");
    assert_eq!(exported.transcripts.iter().filter(|r| r.file().is_some()).count(), 2);
}

#[test]
fn export_recovers_from_a_killed_run() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    // Killed after the names were claimed: the manifest has the names, but no hashes.
    let note = out.path().join(".rethread-export.json");
    let mut claimed: Value = serde_json::from_slice(&fs::read(&note).expect("read")).expect("JSON");
    for (_, record) in claimed["files"].as_object_mut().expect("files") {
        let record = record.as_object_mut().expect("a record");
        record.remove("hash");
        record.remove("made_of");
    }
    fs::write(&note, claimed.to_string()).expect("written");
    fs::remove_file(out.path().join("README.md")).expect("removed");
    let again = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    assert_eq!((again.written, again.errors.len()), (3, 0));
    // A manifest entry outside the directory is rejected.
    claimed["files"]["../outside.md"] = json!({ "source": "x", "stem": "x" });
    fs::write(&note, claimed.to_string()).expect("written");
    let refused = export(&home, out.path(), &ExportOptions::default());
    assert!(matches!(refused, Err(ExportError::BrokenManifest { .. })), "{refused:?}");
}

#[test]
fn export_selects_paths_and_omits_thinking() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::redone(1));
    home.add("/home/user/app", &hostile::varied(2));
    let written = |options: ExportOptions| {
        let out = tempfile::tempdir().expect("a directory");
        let exported = export(&home, out.path(), &options).expect("exported");
        let names: Vec<String> = names(out.path()).iter().map(|n| short(n)).collect();
        (names.join(" "), exported.errors.len())
    };
    let active = ExportOptions { paths: PathChoice::Active, images: false, ..ExportOptions::default() };
    let (names, errors) = written(active);
    assert_eq!(
        (&*names, errors),
        ("README.md subagents/00000002_1_inline.md transcript_00000001_path3.md transcript_00000002.md", 0)
    );
    let second = ExportOptions { paths: PathChoice::Number(2), ..ExportOptions::default() };
    assert_eq!(written(second), ("transcript_00000001_path2_abandoned.md".to_owned(), 1));
    let out = tempfile::tempdir().expect("a directory");
    let options = ExportOptions { thinking: false, ..html() };
    export(&home, out.path(), &options).expect("exported");
    let page = text(out.path(), "transcript_00000002-0000-4000-8000-000000000000.html");
    assert!(!page.contains("one</strong> call site"), "thinking is left out");
}

/// Asserts that a document contains only elements of our documents, and only our headings.
#[track_caller]
fn assert_inert(markdown: &str) {
    let seen = rethread_testkit::markdown::parse_markdown(markdown);
    assert_eq!(seen.unexpected, [] as [String; 0]);
    let ours = seen.headings.iter().filter(|heading| heading.level <= 3);
    // The heading of a turn quotes its prompt; a forged one would have the number of another.
    let (turns, ours): (Vec<_>, Vec<_>) = ours.partition(|heading| heading.text.starts_with("Turn "));
    let numbers = turns.iter().map(|turn| turn.text[5..].split(':').next().unwrap_or_default().to_owned());
    assert!(numbers.eq((1..=turns.len()).map(|n| n.to_string())), "{turns:?}");
    let (messages, others): (Vec<_>, Vec<_>) = { ours }.into_iter().partition(|h| h.text.contains(" · #"));
    assert!(messages.len() > 40);
    assert!(messages.iter().all(|heading| !heading.text.contains("forged")), "{messages:?}");
    for other in others {
        let known = ["CLAUDE CODE SESSION TRANSCRIPT", "User, while the model was busy"];
        assert!(known.iter().any(|known| other.text.starts_with(known)), "{other:?}");
        assert!(!other.text.contains("forged"), "{other:?}");
    }
}

#[test]
fn markdown_attacks_are_rendered_as_text() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::hostile_markdown(7));
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let markdown = text(out.path(), "transcript_00000007-0000-4000-8000-000000000000.md");
    assert_inert(&markdown);
    for i in 0..hostile::MARKDOWN_ATTACKS.len() {
        for behind in ["prompt", "answer", "thinking"] {
            assert!(markdown.contains(&format!("behind {behind} {i}")), "{behind} {i}");
        }
    }
}

#[test]
fn hostile_text_is_confined_to_its_message() {
    let home = Home::default();
    home.add("/home/user/app", &hostile::hostile(4));
    let out = tempfile::tempdir().expect("a directory");
    export(&home, out.path(), &ExportOptions::default()).expect("exported");
    let name = "transcript_00000004-0000-4000-8000-000000000000.md";
    let markdown = text(out.path(), name);
    assert!(!markdown.contains(['\u{1b}', '\u{202e}', '\0', '\r']));
    // Parsed as Markdown, every message still has its own heading and no text of a log is active.
    assert_inert(&markdown);
    for i in 0..hostile::ATTACKS.len() {
        for behind in ["prompt", "answer", "thinking"] {
            assert!(markdown.contains(&format!("behind {behind} {i}")), "{behind} {i}");
        }
    }
}

#[test]
fn defects_are_noted_in_the_export() {
    let home = Home::default();
    let mut bytes = hostile::redone(1).bytes();
    bytes.extend_from_slice(b"not json\n\0\0\0\n{\"type\":\"us");
    home.write("projects/-home-user-app/00000001-0000-4000-8000-000000000000.jsonl", &bytes);
    home.write("projects/-home-user-app/empty.jsonl", b"");
    let out = tempfile::tempdir().expect("a directory");
    let exported = export(&home, out.path(), &ExportOptions::default()).expect("exported");
    assert_eq!((exported.errors.len(), exported.empty_sessions), (0, 1));
    let text = text(out.path(), &names(out.path())[3]);
    assert!(text.contains("The log has defects; the readable part is shown"));
    assert!(text.contains("- line 21: "), "{text}");
}

/// Keys for the blocks of an item: role, time and content. The time of a model message is ignored, because it
/// is that of its first entry on the path.
fn block_keys(role: &str, time: Option<&str>, blocks: &[Value]) -> Vec<String> {
    let time = if role == "user" { time.unwrap_or("") } else { "" };
    blocks.iter().map(|block| format!("{role} {time} {block}")).collect()
}

/// Returns whether a row belongs to the conversation; placeholders and hidden notes do not.
fn is_conversation_row(row: &Value) -> bool {
    row["type"] == "message" && row["model"] != "<synthetic>"
}

fn block_key_set(path: &Path) -> BTreeSet<String> {
    let document: Value = serde_json::from_slice(&fs::read(path).expect("read")).expect("JSON");
    assert_eq!((&document["type"], &document["version"]), (&json!("transcript"), &json!(1)));
    let rows = document["items"].as_array().expect("items");
    let of_row = |row: &Value| {
        let blocks = row["blocks"].as_array().expect("blocks");
        block_keys(row["role"].as_str().expect("a role"), row["time"].as_str(), blocks)
    };
    rows.iter().filter(|row| is_conversation_row(row)).flat_map(of_row).collect()
}

#[test]
fn corpus_export_is_complete_and_free_of_duplicates() {
    let Some(corpus) = shared("corpus") else { return };
    let library = Library::builder().open();
    let mut sources: Vec<LogSource> = library.find(&corpus).expect("found");
    sources.retain(|source| !source.file.path.ends_with("expected.jsonl"));
    let n_sessions = sources.len();
    let out = tempfile::tempdir().expect("a directory");
    let write = |format: Format| {
        let dir = out.path().join(format.extension());
        let options = ExportOptions { format, ..ExportOptions::default() };
        let exported = library.export(sources.clone(), &dir, &options).expect("exported");
        assert_eq!(exported.errors.len(), 0, "{:?}", exported.errors);
        exported
    };
    let exported = write(Format::Json);
    let documents: Vec<PathBuf> =
        exported.transcripts.iter().filter_map(|r| Some(r.file()?.path.clone())).collect();
    let sets: Vec<BTreeSet<String>> = documents.iter().map(|path| block_key_set(path)).collect();
    let subagents: Vec<BTreeSet<String>> =
        exported.subagents.iter().map(|row| block_key_set(&row.file.path)).collect();

    // Nothing is lost: every block found by an independent reader is in some document.
    let all: HashSet<&str> = sets.iter().chain(&subagents).flatten().map(|s| strip_time(s)).collect();
    let (mut n_blocks, mut missing) = (0, Vec::new());
    for source in &sources {
        for block in blocks_in(&source.file.path) {
            n_blocks += 1;
            if !all.contains(&*block) && !is_partial_text(&block, &all) {
                missing.push(format!("{}: {}", source.file.path.display(), block.len()));
            }
        }
    }
    assert!(missing.is_empty(), "{} of {n_blocks} blocks are missing: {missing:#?}", missing.len());

    // Nothing is duplicated: no document contains another.
    for (i, one) in sets.iter().enumerate() {
        for (j, other) in sets.iter().enumerate() {
            assert!(
                i == j || one.is_empty() || !one.is_subset(other),
                "{} is all in {}",
                documents[i].display(),
                documents[j].display()
            );
        }
    }

    // Every leaf of every session is one of the documents or contained in one.
    let mut endings = 0;
    for source in &sources {
        let loaded = library.load(source).expect("readable");
        for path in loaded.tree(Client::NEWEST) {
            let items = loaded.reader().items(path.path.step);
            let of_item = |item: &TranscriptItem<'_>| {
                let TranscriptItem::Message(message) = item else { return Vec::new() };
                let row = serde_json::to_value(rethread::internals::render::MessageRow::from(message))
                    .expect("JSON");
                if !is_conversation_row(&row) || message.meta {
                    return Vec::new();
                }
                block_keys(
                    row["role"].as_str().expect("a role"),
                    row["time"].as_str(),
                    row["blocks"].as_array().expect("blocks"),
                )
            };
            let set: BTreeSet<String> = items.iter().flat_map(of_item).collect();
            assert!(
                sets.iter().chain(&subagents).any(|document| set.is_subset(document)),
                "path {} of {} is in no document",
                path.n,
                source.file.path.display()
            );
            endings += 1;
        }
    }
    // The number is the same in Markdown and in HTML.
    for format in [Format::Md, Format::Html] {
        write(format);
        let dir = out.path().join(format.extension());
        let ending = format!(".{}", format.extension());
        let n = names(&dir).iter().filter(|n| n.starts_with("transcript_") && n.ends_with(&ending)).count();
        assert_eq!(n, documents.len(), "{format:?}");
    }
    println!(
        "{n_sessions} logs with {endings} endings: {} documents, {} of subagents, {n_blocks} blocks, none lost",
        documents.len(),
        subagents.len()
    );
}

/// Returns the block of a key.
fn strip_time(key: &str) -> &str {
    key.splitn(3, ' ').nth(2).unwrap_or_default()
}

/// Returns whether a longer version of a text exists: a text that was logged while it was streamed occurs
/// more than once, and only the longest is shown.
fn is_partial_text(block: &str, all: &HashSet<&str>) -> bool {
    let text = |block: &str| -> Option<String> {
        let value: Value = serde_json::from_str(block).ok()?;
        Some(value["text"].as_str()?.to_owned())
    };
    let Some(beginning) = text(block) else { return false };
    all.iter().filter_map(|other| text(other)).any(|other| other.starts_with(&beginning))
}

/// Reads the blocks of a log line by line, independently of our parser.
fn blocks_in(path: &Path) -> Vec<String> {
    let bytes = fs::read(path).expect("read");
    let mut found = Vec::new();
    for line in bytes.split(|&b| b == b'\n') {
        let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
        let is_message = entry["type"] == "user" || entry["type"] == "assistant";
        let hidden = entry["isMeta"] == true || entry["message"]["model"] == "<synthetic>";
        if !is_message || hidden || entry["uuid"].is_null() {
            continue;
        }
        match &entry["message"]["content"] {
            Value::String(text) => found.push(json!({ "type": "text", "text": text }).to_string()),
            Value::Array(blocks) => found.extend(blocks.iter().map(ToString::to_string)),
            _ => {}
        }
    }
    found
}
