//! Repairs of sessions that were damaged in every known way.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rethread_edit::{CompressOptions, Recipe, Repair, repair};
use rethread_log::Json;
use rethread_model::{BlockClass, Client, PartOrigin, Reader, Session, harmful_findings, resume};
use rethread_testkit::{
    DAMAGES, LogBuilder, clone_laws, damaged, harmful_findings_of, lines_of, log_of, test_cases,
};
use serde_json::{Value, json};

/// Prompts, answers with thinking, one call, parallel calls and a last answer.
fn healthy() -> LogBuilder {
    let mut log = LogBuilder::new(1);
    log.prompt("P1");
    log.answer("A1");
    log.wait(60).prompt("P2");
    let call = log.call("Bash", &json!({ "command": "ls" }));
    log.result(&call, "R1");
    log.answer("A2");
    log.wait(60).prompt("P3");
    let calls = log.calls(&[("Bash", json!({ "command": "a" })), ("Bash", json!({ "command": "b" }))]);
    for (n, call) in calls.iter().enumerate() {
        log.result(call, &format!("PAR{n}"));
    }
    log.answer("A3");
    log.wait(60).prompt("P4");
    log.answer("A4");
    log
}

fn lines(log: &LogBuilder) -> Vec<Value> {
    lines_of(&log.bytes())
}

/// Returns all texts that a client sends, without the new prompt.
fn sent(bytes: &[u8], client: Client) -> Vec<String> {
    let session = Session::read(bytes);
    let resumed = resume(&session.facts, client);
    let reader = Reader::new(&session, bytes);
    let text = |json: Json<'_>| {
        let of = |key: &str| json.get(key).and_then(Json::as_str).map(std::borrow::Cow::into_owned);
        of("text").or_else(|| of("content")).or_else(|| of("name"))
    };
    let wire = reader.wire_messages(&resumed, client, "");
    wire.iter().flat_map(|message| &message.blocks).filter_map(|block| text(block.json())).collect()
}

/// Returns the origins of all parts that a client sends. Sorted, because newer clients put results first and calls
/// last.
fn sent_parts(bytes: &[u8], client: Client) -> Vec<(bool, Vec<PartOrigin>)> {
    let session = Session::read(bytes);
    let mut parts = Vec::new();
    for mut message in resume(&session.facts, client).messages {
        message
            .parts
            .retain(|part| !part.class.is_thinking() && !matches!(part.origin, PartOrigin::Reminder(_)));
        message
            .parts
            .sort_by_key(|part| (part.class != BlockClass::ToolResult, part.class == BlockClass::ToolCall));
        if !message.parts.is_empty() {
            parts.push((message.assistant, message.parts.iter().map(|part| part.origin).collect()));
        }
    }
    parts
}

/// Checks what must hold for every repair.
fn check_repair(source: &[u8], result: &Repair) -> Result<(), String> {
    let of =
        |bytes: &[u8]| -> BTreeSet<Vec<u8>> { bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect() };
    let mut allowed = of(source);
    for change in &result.changes {
        allowed.extend(change.after.as_deref().map(of).into_iter().flatten());
    }
    let foreign: Vec<_> = of(&result.bytes).difference(&allowed).cloned().collect();
    if !foreign.is_empty() {
        return Err(format!("a changed line that is not reported: {}", String::from_utf8_lossy(&foreign[0])));
    }
    let again = repair(&result.bytes);
    if !again.changes.is_empty() || again.bytes != result.bytes {
        return Err(format!("a second repair changes: {:?}", again.changes));
    }
    let session = Session::read(&result.bytes);
    let harm = harmful_findings_of(&session);
    if !harm.is_empty() && !result.changes.is_empty() {
        return Err(format!("harmful findings remain: {harm:?}"));
    }
    if !result.changes.is_empty() {
        let newest = sent_parts(&result.bytes, Client::NEWEST);
        for client in Client::ALL {
            if sent_parts(&result.bytes, client) != newest {
                let texts = (sent(&result.bytes, Client::NEWEST), sent(&result.bytes, client));
                return Err(format!("{} sends something else: {texts:?}", client.version()));
            }
        }
    }
    Ok(())
}

#[track_caller]
fn repaired(lines: &[Value]) -> Repair<'static> {
    let bytes = log_of(lines);
    let result = repair(&bytes);
    assert!(!result.changes.is_empty(), "nothing was repaired");
    assert_eq!(check_repair(&bytes, &result), Ok(()));
    result.into_owned()
}

const ALL_TEXTS: [&str; 13] =
    ["P1", "A1", "P2", "R1", "A2", "P3", "PAR0", "PAR1", "A3", "P4", "A4", "Bash", "Bash"];

#[track_caller]
fn assert_sends_all_but(repair: &Repair, missing: &[&str]) {
    for client in Client::ALL {
        let sent = sent(&repair.bytes, client);
        for text in ALL_TEXTS.iter().filter(|text| !missing.contains(text)) {
            let found = sent.iter().any(|other| other.contains(text));
            assert!(found, "{text} is missing in {}: {sent:?}", client.version());
        }
    }
}

fn line_with(lines: &[Value], text: &str) -> usize {
    lines.iter().position(|line| line["message"].to_string().contains(text)).expect("the line exists")
}

#[test]
fn healthy_session_is_unchanged() {
    let bytes = healthy().bytes();
    let repair = repair(&bytes);
    assert_eq!(repair.changes, []);
    assert_eq!(repair.bytes, bytes);
    assert!(repair.remaining.is_empty());
}

#[test]
fn lost_line_in_the_middle_is_bridged() {
    let mut lines = lines(&healthy());
    lines.remove(line_with(&lines, "\"P3\""));
    assert_sends_all_but(&repaired(&lines), &["P3"]);
}

#[test]
fn missing_parents_become_preceding_entries() {
    let mut lines = lines(&healthy());
    for line in &mut lines[1..] {
        line["parentUuid"] = Value::Null;
    }
    assert_sends_all_but(&repaired(&lines), &[]);
}

#[test]
fn cycles_are_broken() {
    let mut lines = lines(&healthy());
    let last = lines.last().expect("a line")["uuid"].clone();
    let (second, third) = (line_with(&lines, "\"P2\""), line_with(&lines, "\"P1\""));
    lines[third]["parentUuid"] = last;
    lines[second]["parentUuid"] = lines[second]["uuid"].clone();
    assert_sends_all_but(&repaired(&lines), &[]);
}

#[test]
fn open_calls_are_answered_and_orphan_results_are_kept() {
    let mut without = lines(&healthy());
    let removed = line_with(&without, "\"R1\"");
    let parent = without[removed]["parentUuid"].clone();
    without[removed + 1]["parentUuid"] = parent;
    without.remove(removed);
    let repair = repaired(&without);
    assert_sends_all_but(&repair, &["R1"]);
    let mut orphan = lines(&healthy());
    let removed = line_with(&orphan, "\"ls\"");
    let parent = orphan[removed]["parentUuid"].clone();
    orphan[removed + 1]["parentUuid"] = parent;
    orphan.remove(removed);
    let repair = repaired(&orphan);
    assert_sends_all_but(&repair, &["Bash"]);
}

#[test]
fn repeated_call_id_in_two_messages_is_two_calls() {
    let mut lines = lines(&healthy());
    let (use_at, result_at) = (line_with(&lines, "\"ls\""), line_with(&lines, "\"R1\""));
    let id = lines[use_at]["message"]["content"][0]["id"].clone();
    let other = line_with(&lines, "\"a\"");
    let theirs = lines[other]["message"]["content"].clone();
    let block =
        theirs.as_array().expect("blocks").iter().position(|b| b["type"] == "tool_use").expect("a call");
    let old = lines[other]["message"]["content"][block]["id"].clone();
    lines[other]["message"]["content"][block]["id"] = id.clone();
    let answer =
        lines.iter().position(|l| l["message"]["content"][0]["tool_use_id"] == old).expect("a result");
    lines[answer]["message"]["content"][0]["tool_use_id"] = id;
    assert!(use_at < result_at && result_at < other);
    assert_sends_all_but(&repaired(&lines), &[]);
}

#[test]
fn joined_lines_are_split() {
    let mut bytes = healthy().bytes();
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').collect();
    bytes.remove(ends[4]);
    let repair = repair(&bytes);
    assert_eq!(check_repair(&bytes, &repair), Ok(()));
    assert_sends_all_but(&repair, &[]);
}

#[test]
fn unreadable_lines_are_removed() {
    let mut bytes = healthy().bytes();
    let first = bytes.iter().position(|&b| b == b'\n').expect("a line") + 1;
    bytes.splice(first..first, b"null\n\0\0\0\n".iter().copied());
    bytes.extend_from_slice(br#"{"parentUuid":"torn","typ"#);
    let repair = repair(&bytes);
    assert_eq!(check_repair(&bytes, &repair), Ok(()));
    assert_sends_all_but(&repair, &[]);
    assert_eq!(repair.bytes, assert_object_lines(&repair.bytes));
    assert!(!repair.bytes.contains(&0) && repair.bytes.ends_with(b"\n"));
}

/// Returns the same bytes after checking that every line is an object.
fn assert_object_lines(bytes: &[u8]) -> Vec<u8> {
    for line in bytes.split(|&b| b == b'\n').filter(|line| !line.is_empty()) {
        assert!(serde_json::from_slice::<Value>(line).is_ok_and(|value| value.is_object()));
    }
    bytes.to_vec()
}

#[test]
fn reversed_log_is_reordered() {
    let mut lines = lines(&healthy());
    lines.reverse();
    let bytes = log_of(&lines);
    let repair = repair(&bytes);
    assert!(repair.reordered);
    assert_eq!(check_repair(&bytes, &repair), Ok(()));
    assert_sends_all_but(&repair, &[]);
}

#[test]
fn subagent_log_becomes_a_session() {
    let mut lines = lines(&healthy());
    for line in &mut lines {
        line["isSidechain"] = json!(true);
    }
    assert_sends_all_but(&repaired(&lines), &[]);
}

#[test]
fn last_duplicate_replaces_the_first() {
    let mut lines = lines(&healthy());
    let mut copy = lines[line_with(&lines, "\"A1\"")].clone();
    copy["message"]["content"] = json!([{ "type": "text", "text": "A1 again" }]);
    lines.push(copy);
    assert_sends_all_but(&repaired(&lines), &[]);
}

proptest! {
    #![proptest_config(test_cases(400))]

    #[test]
    fn fast_check_agrees_with_full_check(
        compress in any::<bool>(),
        damages in prop::collection::vec((0usize..40, 0..DAMAGES), 0..3),
        nameless in prop::option::of(0usize..8),
        notes in prop::collection::vec(0u32..60, 0..5),
    ) {
        let compress = compress.then(|| CompressOptions { keep: 2, ..CompressOptions::default() });
        let recipe = Recipe { path: Some(1), compress, ..Recipe::default() };
        let line = clone_laws::clone_of(&log_of(&lines(&healthy())), clone_laws::SOURCE_ID, &recipe, false).expect("a clone");
        prop_assert!(harmful_findings(&Session::read(&line), &Client::ALL).is_empty());
        let mut lines = damaged(lines_of(&line), &damages);
        let mut answers = lines.iter_mut().filter(|line| line["type"] == "assistant");
        let blocks = nameless.and_then(|n| answers.nth(n)?["message"]["content"].as_array_mut());
        if let Some(blocks) = blocks {
            blocks.push(json!({ "type": "tool_use", "name": "Bash", "input": {} }));
        }
        let mut parent = lines.iter().rev().find_map(|line| line["uuid"].as_str().map(str::to_owned));
        for (n, minute) in notes.into_iter().enumerate() {
            let uuid = format!("00000001-0000-4000-8000-00000000ff0{n}");
            lines.push(json!({ "type": "system", "subtype": "informational", "content": "x", "uuid": uuid,
                "parentUuid": parent, "isSidechain": false, "timestamp": format!("2027-01-05T00:{minute:02}:00.000Z") }));
            parent = Some(uuid);
        }
        harmful_findings_of(&Session::read(&log_of(&lines)));
    }

    #[test]
    fn every_client_resumes_a_repaired_session(
        damages in prop::collection::vec((0usize..40, 0..DAMAGES), 1..3),
    ) {
        let lines = damaged(lines(&healthy()), &damages);
        let bytes = log_of(&lines);
        let result = repair(&bytes);
        prop_assert_eq!(check_repair(&bytes, &result), Ok(()));
        // Nothing that the newest client would have sent is lost; a subagent's entries are not part of it.
        prop_assume!(!lines.iter().any(|line| line["isSidechain"] == true));
        let after = sent(&result.bytes, Client::NEWEST);
        for text in sent(&bytes, Client::NEWEST) {
            let known = ALL_TEXTS.iter().find(|known| text.contains(*known));
            if let Some(known) = known {
                prop_assert!(after.iter().any(|other| other.contains(known)), "{} is lost", known);
            }
        }
    }

    #[test]
    fn repair_accepts_arbitrary_bytes_and_is_idempotent(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let result = repair(&bytes);
        let again = repair(&result.bytes);
        prop_assert_eq!(&again.bytes, &result.bytes);
    }
}
