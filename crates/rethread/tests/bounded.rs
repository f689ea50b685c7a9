//! Hostile sessions: the size of their exports is proportional to their size, and nothing is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rethread::{ExportOptions, Format, Library};
use rethread_testkit::{Home, LogBuilder, shapes};
use serde_json::json;

const FORMATS: [Format; 3] = [Format::Md, Format::Html, Format::Json];

/// Exports a home and returns the documents by name.
fn documents(home: &Home, format: Format) -> BTreeMap<String, String> {
    let out = tempfile::tempdir().expect("a directory");
    let library = Library::open(vec![home.path().to_owned()]);
    let sources = || library.select(&[], None).expect("found");
    let options = ExportOptions { format, ..ExportOptions::default() };
    let exported = library.export(sources(), out.path(), &options).expect("exported");
    assert!(exported.errors.is_empty(), "{:?}", exported.errors);
    let again = library.export(sources(), out.path(), &options).expect("exported again");
    assert_eq!((again.written, again.unchanged), (0, exported.written), "nothing changed");
    let mut found = BTreeMap::new();
    for dir in [out.path().to_owned(), out.path().join("subagents")] {
        for entry in fs::read_dir(&dir).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            if path.is_file() && !path.ends_with(".rethread-export.json") {
                let name = path.strip_prefix(out.path()).expect("inside").to_string_lossy().into_owned();
                found.insert(name, fs::read_to_string(&path).expect("text"));
            }
        }
    }
    found
}

fn home_of(log: &LogBuilder) -> Home {
    let home = Home::default();
    home.add("/home/user/app", log);
    home
}

#[test]
fn export_size_is_proportional_to_the_log() {
    for (name, shape) in shapes::SHAPES {
        for format in FORMATS {
            let size =
                |n: u32| documents(&home_of(&shape(n)), format).values().map(String::len).sum::<usize>();
            // Documents list up to a hundred other paths, so there are more than that.
            let (small, large) = (size(150), size(600));
            assert!(large <= 5 * small, "{name} as {format:?}: {small} and {large} bytes");
        }
    }
}

#[test]
fn many_forks_give_documents_that_start_at_the_fork_and_link_back() {
    let n = 120;
    for format in FORMATS {
        let all = documents(&home_of(&shapes::comb(n)), format);
        let holding = |words: &str| {
            all.iter()
                .filter(|(name, text)| {
                    !["index.html", "README.md"].contains(&name.as_str()) && text.contains(words)
                })
                .count()
        };
        for i in [0, 1, n / 2, n - 1] {
            assert_eq!(holding(&format!("Answer {i} on the trunk,")), 1, "{format:?} {i}");
            assert_eq!(holding(&format!("Answer on branch {i}.")), 1, "{format:?} {i}");
        }
        for (name, text) in all.iter().filter(|(name, _)| name.contains("abandoned")) {
            match format {
                Format::Json => {
                    let head: serde_json::Value = serde_json::from_str(text).expect("JSON");
                    let file = head["begins_in"].as_str().expect("a beginning");
                    assert!(all.contains_key(file), "{name} begins in {file}");
                }
                Format::Md | Format::Html => {
                    let (before, quote) = if format == Format::Md {
                        ("](", ')')
                    } else {
                        ("Earlier messages: <a href=\"", '"')
                    };
                    let from = text.find("Earlier messages").expect("a beginning");
                    let link =
                        text[from..].split(before).nth(1).or_else(|| text[from..].split("href=\"").nth(1));
                    let link = link.and_then(|link| link.split(quote).next()).expect("a link");
                    let (file, anchor) = link.split_once('#').expect("an anchor");
                    assert!(all[file].contains(&format!("id=\"{anchor}\"")), "{name} begins at {link}");
                }
            }
        }
    }
}

#[test]
fn eight_paths_are_always_written_in_full() {
    let mut log = LogBuilder::new(1);
    log.prompt(&"A long beginning. ".repeat(60_000));
    let fork = log.answer("Choose.");
    for i in 0..8 {
        log.back_to(&fork);
        log.prompt(&format!("Branch {i}"));
        log.answer(&format!("Answer {i}."));
    }
    let all = documents(&home_of(&log), Format::Md);
    let whole =
        all.values().filter(|text| text.contains("A long beginning.") && text.contains("### ")).count();
    assert_eq!(whole, 8);
}

#[test]
fn results_of_a_reused_call_id_are_each_written_once_in_order() {
    for format in [Format::Md, Format::Html] {
        let all = documents(&home_of(&shapes::reused_call_id(30)), format);
        let text = all.values().find(|text| text.contains("result 29")).expect("the transcript");
        for i in 0..30 {
            assert_eq!(
                text.matches(&format!("result {i}\n")).count()
                    + text.matches(&format!("result {i}<")).count(),
                1
            );
        }
        let places: Vec<_> = (0..30).map(|i| text.find(&format!("result {i}")).expect("there")).collect();
        assert!(places.is_sorted(), "in the order of the log");
    }
}

/// A session in which each of `n` calls names the same large result and the same subagent.
fn shared_sidecars(home: &Home, n: u32) {
    let mut log = LogBuilder::new(1);
    let session = log.session();
    log.prompt("Begin, please.");
    for i in 0..n {
        let mark = log.block(
            &format!("msg_{i}"),
            &json!({ "type": "tool_use", "id": "call_0", "name": "Task", "input": { "prompt": format!("Look {i}") } }),
        );
        let stub = format!(
            "<persisted-output>\nOutput too large (2 MB). Full output saved to: /home/user/.claude/projects/-home-user-app/{session}/tool-results/big.txt\n\nPreview {i}\n</persisted-output>"
        );
        log.result_with(
            &rethread_testkit::PendingCall { id: "call_0".into(), uuid: mark },
            &json!(stub),
            &json!({ "agentId": "a1", "status": "completed" }),
        );
    }
    home.add("/home/user/app", &log);
    let mut agent = LogBuilder::new(1);
    agent.sidechain(Some("a1"));
    agent.prompt("Look into it.");
    agent.answer("The words of the subagent.");
    let side_dir = format!("projects/-home-user-app/{session}");
    home.write(&format!("{side_dir}/subagents/agent-a1.jsonl"), &agent.bytes());
    home.write(&format!("{side_dir}/tool-results/big.txt"), b"The whole of the large result.");
}

#[test]
fn sidecar_named_by_many_calls_is_written_once_per_document() {
    for format in FORMATS {
        let home = Home::default();
        shared_sidecars(&home, 20);
        let all = documents(&home, format);
        let (_, text) = all.iter().find(|(name, _)| name.starts_with("transcript_")).expect("the transcript");
        assert_eq!(text.matches("The whole of the large result.").count(), 1, "{format:?}");
        assert!(text.contains("Preview 19"), "later ones keep what the log has");
        if format != Format::Json {
            assert_eq!(text.matches("The words of the subagent.").count(), 1, "{format:?}");
        }
        let agent = all.iter().find(|(name, _)| Path::new(name).starts_with("subagents"));
        assert!(agent.is_some_and(|(_, text)| text.contains("The words of the subagent.")));
    }
}
