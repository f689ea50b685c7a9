//! The model compared with real logs, an independent count, and the recorded behaviour of real clients.

#![expect(clippy::print_stdout, reason = "the counts are shown with --nocapture")]

use std::collections::BTreeMap;
use std::path::Path;

use rethread::internals::log::{EntryContent, read};
use rethread::internals::render::PreviewDocument;
use rethread::{Client, Library, PathStatus};
use rethread_testkit::{logs_under, shared};
use serde_json::{Value, json};

fn library() -> Library {
    Library::builder().open()
}

#[test]
fn every_real_log_round_trips() {
    let mut n_files = 0;
    let mut n_bytes = 0;
    for name in ["corpus", "oracle/sessions", "oracle/cases"] {
        let Some(dir) = shared(name) else { continue };
        for path in logs_under(&dir) {
            let bytes = std::fs::read(&path).expect("readable");
            let read = read(&bytes);
            let mut at = 0;
            for entry in &read.entries {
                assert_eq!(entry.offset, at as u64);
                assert_eq!(entry.raw, &bytes[at..at + entry.raw.len()], "{}", path.display());
                at += entry.raw.len();
            }
            assert_eq!(at, bytes.len(), "{}", path.display());
            let numbers: Vec<u32> =
                read.entries.iter().filter(|e| e.content == EntryContent::Object).map(|e| e.number).collect();
            assert!(numbers.iter().copied().eq(1..=u32::try_from(numbers.len()).expect("few")));
            n_files += 1;
            n_bytes += bytes.len();
        }
    }
    println!("{n_files} logs, {n_bytes} bytes");
}

/// Returns `info` with the keys of the independent count.
fn info_counts(path: &Path) -> Value {
    let library = library();
    let source = &library.find(path).expect("found")[0];
    let info = library.info(source).expect("readable").inventory;
    json!({
        "bytes": info.bytes,
        "lines": info.lines,
        "bad_lines": info.bad_lines,
        "entries": info.entries,
        "system": info.system,
        "versions": info.versions,
        "assistant_messages": info.messages.assistant,
        "blocks": info.blocks,
        "models_by_entry": info.models,
        "stop_reasons_by_entry": info.stop_reasons,
        "tool_calls": {
            "total": info.tool_calls.total,
            "paired": info.tool_calls.paired,
            "by_name": info.tool_calls.by_name,
            "orphan_uses": info.tool_calls.orphan_uses.len(),
            "orphan_results": info.tool_calls.orphan_results.len(),
            "multiple_results": info.tool_calls.multiple_results.len(),
        },
    })
}

#[test]
fn info_agrees_with_an_independent_count() {
    let Some(dir) = shared("corpus") else { return };
    let expected = std::fs::read_to_string(dir.join("expected.jsonl")).expect("the count");
    let mut differences = Vec::new();
    let mut n_files = 0;
    for line in expected.lines() {
        let mut expected: Value = serde_json::from_str(line).expect("JSON");
        let file = expected.as_object_mut().expect("an object").remove("file").expect("its file");
        let file = file.as_str().expect("a name");
        let counted = info_counts(&dir.join(file));
        for (key, value) in expected.as_object().expect("an object") {
            if counted[key] != *value {
                differences.push(format!("{file}: {key}: expected {value}, counted {}", counted[key]));
            }
        }
        n_files += 1;
    }
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    println!("{n_files} files agree");
}

/// Returns the identifying parts of a message: its texts, and the ids of calls and results.
fn message_marks(content: &Value) -> Vec<String> {
    let blocks = match content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    blocks
        .iter()
        .filter_map(|block| match block["type"].as_str()? {
            "text" => Some(text(&block["text"])),
            "thinking" => Some(format!("thinking {}", text(&block["thinking"]))),
            "redacted_thinking" => Some(format!("redacted {}", text(&block["data"]))),
            "tool_use" => Some(format!("call {}", text(&block["id"]))),
            "tool_result" => {
                let made_up = text(&block["content"]).starts_with("[Tool ");
                (!made_up).then(|| format!("result {}", text(&block["tool_use_id"])))
            }
            other => Some(other.to_owned()),
        })
        .collect()
}

/// Texts that the client inserts, and the prompt that the session was resumed with.
const CLIENT_TEXTS: &[&str] =
    &["No response requested.", "Continue from where you left off.", "(no content)"];

/// Returns the text of the last prompt that the client sent before the new one. Two answers in the recorded
/// cases have the same text; the preceding prompt distinguishes them.
fn last_prompt_received(received: &Value) -> Option<String> {
    let messages = received["messages"].as_array()?.iter().filter(|message| message["role"] == "user");
    let mut texts = messages.flat_map(|message| message_marks(&message["content"]));
    let typed = |mark: &String| {
        !CLIENT_TEXTS.contains(&mark.as_str())
            && !mark.contains("ORACLE-PROMPT")
            && !mark.starts_with("result ")
    };
    texts.rfind(typed)
}

fn last_received(received: &Value) -> Vec<String> {
    let messages = received["messages"].as_array().expect("messages");
    messages
        .iter()
        .rev()
        .map(|message| {
            let mut marks = message_marks(&message["content"]);
            marks.retain(|mark| !CLIENT_TEXTS.contains(&mark.as_str()) && !mark.contains("ORACLE-PROMPT"));
            marks
        })
        .find(|marks| !marks.is_empty())
        .unwrap_or_default()
}

/// Compares the preview with the recorded requests of a real client.
#[test]
fn preview_matches_the_real_client() {
    let cases = match std::env::var_os("RETHREAD_CASES") {
        Some(dir) => dir.into(),
        None => match shared("oracle/cases") {
            Some(dir) => dir,
            None => return,
        },
    };
    let library = library();
    let mut wrong = Vec::new();
    let mut n_right: BTreeMap<String, usize> = BTreeMap::new();
    for recorded in files_under(&cases, "received.json") {
        let name = recorded.to_string_lossy().replace(".received.json", "");
        // A `.source` file names the path of a session stored elsewhere.
        let path = match std::fs::read_to_string(format!("{name}.source")) {
            Ok(path) => path.trim().to_owned(),
            Err(_) => format!("{name}.jsonl"),
        };
        let received: Value =
            serde_json::from_slice(&std::fs::read(&recorded).expect("readable")).expect("JSON");
        let version = recorded.parent().and_then(Path::file_name).expect("a version").to_string_lossy();
        let client = Client::for_version(&version).expect("a known version");
        let loaded = library.load(&library.find(&path).expect("found")[0]).expect("readable");
        let preview = loaded.preview(client, "@@do:text ORACLE-PROMPT");
        let preview = serde_json::to_value(PreviewDocument::from(&preview)).expect("JSON");
        let same = received["accepted"] == preview["accepted"] && received["messages"] == preview["messages"];
        if same {
            *n_right.entry(version.into_owned()).or_default() += 1;
            continue;
        }
        let first = first_difference(&received["messages"], &preview["messages"]);
        wrong.push(format!(
            "{version} {}: accepted {} and {}\n{first}",
            name.rsplit('/').next().unwrap_or_default(),
            received["accepted"],
            preview["accepted"]
        ));
    }
    println!("the same: {n_right:?}");
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
}

fn first_difference(theirs: &Value, ours: &Value) -> String {
    let empty = Vec::new();
    let list = |value: &Value| value.as_array().unwrap_or(&empty).clone();
    let (theirs, ours) = (list(theirs), list(ours));
    let cut = |value: Option<&Value>| -> String {
        value.map_or("nothing".to_owned(), ToString::to_string).chars().take(700).collect()
    };
    let at = theirs.iter().zip(&ours).take_while(|(a, b)| a == b).count();
    format!("   message {at}\n   client: {}\n   we:     {}", cut(theirs.get(at)), cut(ours.get(at)))
}

fn files_under(dir: &Path, ending: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut waiting = vec![dir.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// `RETHREAD_CASES` selects another directory of cases with the same layout.
#[test]
fn active_tip_matches_the_real_client() {
    let cases = match std::env::var_os("RETHREAD_CASES") {
        Some(dir) => dir.into(),
        None => match shared("oracle/cases") {
            Some(dir) => dir,
            None => return,
        },
    };
    let mut wrong = Vec::new();
    let mut n_right: BTreeMap<String, usize> = BTreeMap::new();
    for path in logs_under(&cases) {
        let Ok(received) = std::fs::read(path.with_extension("received.json")) else { continue };
        let received: Value = serde_json::from_slice(&received).expect("JSON");
        if received["accepted"] != json!(true) {
            continue;
        }
        let version = path.parent().and_then(Path::file_name).expect("a version").to_string_lossy();
        let client = Client::for_version(&version).expect("a known version");
        let library = library();
        let loaded = library.load(&library.find(&path).expect("found")[0]).expect("readable");
        let paths = loaded.tree(client);
        let active = paths.iter().find(|path| path.status == PathStatus::Active);
        let tip = active.map(|path| {
            let node = path.path.resumes_at.expect("an active path resumes somewhere");
            let entry: Value =
                serde_json::from_slice(loaded.reader().entry_bytes(loaded.session.facts.nodes[node].entry))
                    .unwrap_or_default();
            let content =
                if entry["type"] == "system" { &entry["content"] } else { &entry["message"]["content"] };
            message_marks(content)
        });
        let expected = last_received(&received);
        let resumed = rethread::internals::model::resume(&loaded.session.facts, client);
        let tip_node = resumed.tip();
        let prompt = resumed.chain.iter().take_while(|&&node| Some(node) != tip_node).chain(&tip_node);
        let prompt = prompt
            .filter_map(|&node| {
                let raw = loaded.reader().entry_bytes(loaded.session.facts.nodes[node].entry);
                let entry: Value = serde_json::from_slice(raw).ok()?;
                if entry["type"] == "system" && entry["subtype"] == "compact_boundary" {
                    return Some(String::new());
                }
                let typed = |mark: &String| !mark.starts_with("result ");
                let user = entry["type"] == "user";
                user.then(|| message_marks(&entry["message"]["content"]).into_iter().rfind(typed)).flatten()
            })
            .last();
        let same_prompt = match (prompt, last_prompt_received(&received)) {
            (Some(ours), Some(theirs)) => ours.is_empty() || ours == theirs,
            _ => true,
        };
        let right = same_prompt
            && match &tip {
                None => expected.is_empty(),
                Some(tip) => {
                    tip.iter().any(|mark| expected.contains(mark)) || tip.is_empty() && expected.is_empty()
                }
            };
        if right {
            *n_right.entry(version.into_owned()).or_default() += 1;
        } else {
            let case = path.file_stem().expect("a name").to_string_lossy();
            wrong.push(format!("{version} {case}: tip {tip:?}, the client went on from {expected:?}"));
        }
    }
    println!("right: {n_right:?}");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// All of the main conversation is on some path, and every result whose call is in the file is attached to
/// it.
#[test]
fn real_messages_are_on_a_path_with_results_at_their_calls() {
    let (mut n_messages, mut n_results, mut n_paths, mut n_files) = (0, 0, 0, 0);
    for name in ["corpus", "oracle/sessions"] {
        let Some(dir) = shared(name) else { continue };
        for path in logs_under(&dir) {
            let library = library();
            let loaded = library.load(&library.find(&path).expect("found")[0]).expect("readable");
            let facts = &loaded.session.facts;
            let known: std::collections::HashSet<&str> =
                facts.calls.iter().map(|call| facts.call_id(call)).collect();
            let mut shown = rethread::internals::model::Table::filled(false, facts.messages.len());
            let paths = loaded.session.paths(Client::NEWEST);
            for path in &paths {
                for item in loaded.reader().items(path.step) {
                    let rethread::TranscriptItem::Message(message) = item else { continue };
                    shown[message.n] = true;
                    for block in &message.blocks {
                        let result = block.kind == Some(rethread::internals::log::BlockKind::ToolResult);
                        if result && known.contains(&*block.id()) {
                            assert!(
                                block.call.is_some() && block.partner_message.is_some(),
                                "{} is loose",
                                block.id()
                            );
                            n_results += 1;
                        }
                    }
                }
            }
            let off_path = loaded.session.off_path_nodes();
            for (n, message) in facts.messages.iter_enumerated() {
                let side = facts.nodes[message.first_node].flags.is_sidechain() && !facts.is_all_sidechain();
                let is_off_path = off_path.contains(&message.first_node);
                assert!(shown[n] || side || is_off_path, "{}: message {n} is on no path", path.display(),);
            }
            n_messages += facts.messages.len();
            n_paths += paths.len();
            n_files += 1;
        }
    }
    println!("{n_files} logs, {n_messages} messages, {n_paths} paths, {n_results} results at their calls");
}

/// Paths of real logs, and of deliberately damaged ones, are chains of parents.
#[test]
fn paths_of_every_log_are_chains_of_parents() {
    let (mut n_files, mut broken) = (0, Vec::new());
    for name in ["corpus", "oracle"] {
        let Some(dir) = shared(name) else { continue };
        for path in logs_under(&dir) {
            let laws = rethread_testkit::broken_path_laws(&std::fs::read(&path).expect("readable"));
            broken.extend(laws.into_iter().map(|law| format!("{}: {law}", path.display())));
            n_files += 1;
        }
    }
    println!("{n_files} logs");
    assert!(broken.is_empty(), "{} laws broken\n{}", broken.len(), broken.join("\n"));
}

/// Every loss that `check` reports for a real log is one, and every loss is reported.
#[test]
fn reported_losses_of_real_logs_are_exact() {
    let mut wrong = Vec::new();
    for name in ["corpus", "oracle/sessions", "oracle/cases"] {
        let Some(dir) = shared(name) else { continue };
        for path in logs_under(&dir) {
            let log = std::fs::read(&path).expect("readable");
            if let Err(error) = rethread_testkit::check_losses(&log) {
                wrong.push(format!("{}: {error}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Every broken case is repaired so that every client resumes it and sends the same messages.
#[test]
fn repaired_cases_resume_in_every_client() {
    let Some(cases) = shared("oracle/cases") else { return };
    let mut wrong = Vec::new();
    let (mut n_repaired, mut n_whole) = (0, 0);
    for path in logs_under(&cases) {
        let name = path.strip_prefix(&cases).expect("below").display().to_string();
        let bytes = std::fs::read(&path).expect("readable");
        let repair = rethread::internals::edit::repair(&bytes);
        if repair.changes.is_empty() {
            n_whole += 1;
            assert_eq!(repair.bytes, bytes);
            continue;
        }
        n_repaired += 1;
        let kinds: Vec<&str> = repair.changes.iter().map(|change| change.reason.name()).collect();
        for finding in &repair.remaining {
            wrong.push(format!("{name}: left {finding:?} after {kinds:?}"));
        }
        let again = rethread::internals::edit::repair(&repair.bytes);
        if !again.changes.is_empty() {
            wrong.push(format!("{name}: not the same when repaired again"));
        }
        let source = rethread::LogSource::from_bytes("case", &path, &repair.bytes);
        let loaded = library().load(&source).expect("readable");
        let sent = |client: Client| {
            let preview = loaded.preview(client, "next");
            (
                preview.is_accepted(),
                without_thinking(
                    &serde_json::to_value(PreviewDocument::from(&preview)).expect("JSON")["messages"],
                ),
            )
        };
        let newest = sent(Client::NEWEST);
        for client in Client::ALL {
            let ours = sent(client);
            if ours != newest {
                let first = first_difference(&newest.1, &ours.1);
                wrong.push(format!("{name}: {} differs after {kinds:?}\n{first}", client.version()));
            }
        }
    }
    println!("{n_repaired} repaired, {n_whole} unchanged");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Real sessions: one without defects is unchanged, and every repair is stable.
#[test]
fn real_sessions_without_defects_are_not_changed_by_repair() {
    let mut wrong = Vec::new();
    let (mut n_whole, mut n_repaired, mut n_left) = (0, 0, 0);
    for name in ["corpus", "oracle/sessions"] {
        let Some(dir) = shared(name) else { continue };
        for path in logs_under(&dir) {
            let name = path.strip_prefix(&dir).expect("below").display().to_string();
            let bytes = std::fs::read(&path).expect("readable");
            if name.contains("agent") || name.contains("expected.jsonl") {
                continue;
            }
            let repair = rethread::internals::edit::repair(&bytes);
            let faults = repair.findings.iter().any(|finding| finding.kind.is_repairable());
            if repair.changes.is_empty() {
                n_whole += 1;
                if repair.bytes != bytes {
                    wrong.push(format!("{name}: bytes differ without a recorded change"));
                }
                continue;
            }
            n_repaired += 1;
            n_left += usize::from(!repair.remaining.is_empty());
            if !faults {
                let kinds: Vec<&str> = repair.changes.iter().map(|change| change.reason.name()).collect();
                wrong.push(format!("{name}: changed without a defect: {kinds:?}"));
            }
            if rethread::internals::edit::repair(&repair.bytes).bytes != repair.bytes {
                wrong.push(format!("{name}: not the same when repaired again"));
            }
            let lines = |bytes: &[u8]| -> std::collections::HashSet<Vec<u8>> {
                bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
            };
            let mut known = lines(&bytes);
            known.extend(repair.changes.iter().filter_map(|c| c.after.as_deref()).flat_map(lines));
            if !lines(&repair.bytes).is_subset(&known) {
                wrong.push(format!("{name}: a line without a recorded change"));
            }
        }
    }
    println!("{n_whole} unchanged, {n_repaired} repaired, {n_left} of these only partly");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

/// Returns messages without thinking, which depends on the model, and without the line breaks that newer
/// clients insert between texts.
fn without_thinking(messages: &Value) -> Value {
    let mut messages = messages.clone();
    for message in messages.as_array_mut().into_iter().flatten() {
        let blocks = message["content"].as_array_mut().expect("blocks");
        blocks.retain(|block| !block["type"].as_str().is_some_and(|kind| kind.contains("thinking")));
        for block in blocks {
            if let Some(text) = block["text"].as_str() {
                block["text"] = json!(text.trim_end());
            }
            if let Some(object) = block.as_object_mut() {
                object.remove("caller");
            }
        }
    }
    messages
}
