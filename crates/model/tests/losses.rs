//! The losses that `check` reports.

use proptest::prelude::*;
use rethread_model::{Client, Finding, FindingKind, Session, Severity, check};
use rethread_testkit::{DAMAGES, LogBuilder, check_losses, damaged, lines_of, log_of, test_cases};
use serde_json::{Value, json};

fn losses(log: &[u8]) -> Vec<Finding> {
    let mut found = check(&Session::read(log), &Client::IN_USE);
    found.retain(|finding| finding.severity == Severity::Loss);
    found
}

fn loss_kinds(log: &[u8]) -> Vec<FindingKind> {
    losses(log).iter().map(|finding| finding.kind).collect()
}

/// Adds a turn with a call and its result.
fn add_tool_turn(log: &mut LogBuilder, n: usize) {
    log.wait(60).prompt(&format!("Prompt {n}"));
    let call = log.call("Bash", &json!({ "command": format!("echo {n}") }));
    log.result(&call, &format!("Result {n}"));
    log.answer(&format!("Answer {n}"));
}

/// Returns the lines of a log followed by the same entries again: with new uuids, in one chain.
fn with_entries_repeated(log: &LogBuilder) -> Vec<Value> {
    let mut lines = lines_of(&log.bytes());
    let mut again = lines.clone();
    let mut parent = log.tip();
    for (n, line) in again.iter_mut().enumerate() {
        let uuid = format!("00000002-0000-4000-8000-{n:012x}");
        line["parentUuid"] = json!(parent);
        line["uuid"] = json!(uuid);
        if line["sourceToolAssistantUUID"].is_string() {
            line["sourceToolAssistantUUID"] = line["parentUuid"].clone();
        }
        parent = Some(uuid);
    }
    lines.append(&mut again);
    lines
}

#[test]
fn history_written_twice_loses_nothing() {
    let mut log = LogBuilder::new(1);
    (0..3).for_each(|n| add_tool_turn(&mut log, n));
    let twice = log_of(&with_entries_repeated(&log));
    assert_eq!(losses(&twice), []);
    assert_eq!(check_losses(&twice), Ok(()));
}

#[test]
fn second_result_of_repeated_call_is_lost() {
    let mut log = LogBuilder::new(1);
    add_tool_turn(&mut log, 0);
    let mut lines = with_entries_repeated(&log);
    let last = lines.iter().rposition(|line| line["toolUseResult"].is_object()).expect("a result");
    lines[last]["message"]["content"][0]["content"] = json!("Another result");
    let log = log_of(&lines);
    let found = losses(&log);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, FindingKind::SeveralResults);
    assert_eq!(found[0].lost_lines, [u32::try_from(last + 1).expect("few lines")]);
    assert_eq!(check_losses(&log), Ok(()));
}

#[test]
fn second_call_with_the_same_id_is_lost() {
    let mut log = LogBuilder::new(1);
    for n in 0..2 {
        log.wait(60).prompt("Go on");
        let call = log.call("Bash", &json!({ "command": format!("echo {n}") }));
        log.result(&call, &format!("Result {n}"));
        log.answer("Done");
    }
    let text = String::from_utf8(log.bytes()).expect("UTF-8");
    let text = text.replace("toolu_000100000300", "toolu_000100000100");
    assert_eq!(check_losses(text.as_bytes()), Ok(()));
    assert_eq!(loss_kinds(text.as_bytes()), [FindingKind::RepeatedCall, FindingKind::SeveralResults]);
}

#[test]
fn result_after_another_message_is_misplaced() {
    let mut log = LogBuilder::new(1);
    log.prompt("Go");
    let first = log.call("Bash", &json!({ "command": "a" }));
    let second = log.call("Bash", &json!({ "command": "b" }));
    log.result(&second, "B");
    let later = log.tip().expect("an entry");
    log.result(&first, "A");
    let mut lines = lines_of(&log.bytes());
    let last = lines.len() - 1;
    lines[last]["parentUuid"] = json!(later);
    let log = log_of(&lines);
    assert_eq!(loss_kinds(&log), [FindingKind::MisplacedResult]);
    assert_eq!(check_losses(&log), Ok(()));
}

#[test]
fn orphan_result_next_to_sent_text_is_lost() {
    let mut log = LogBuilder::new(1);
    add_tool_turn(&mut log, 0);
    let content = json!([
        { "type": "tool_result", "tool_use_id": "toolu_nobody", "content": "Lost" },
        { "type": "text", "text": "Sent" },
    ]);
    log.entry("user", json!({ "message": { "role": "user", "content": content } }));
    log.answer("Yes");
    assert_eq!(loss_kinds(&log.bytes()), [FindingKind::OrphanResult]);
    assert_eq!(check_losses(&log.bytes()), Ok(()));
}

proptest! {
    #![proptest_config(test_cases(400))]

    #[test]
    fn reported_losses_match_actual_losses(
        damages in prop::collection::vec((0usize..40, 0..DAMAGES), 0..4),
        twice in any::<bool>(),
        queued in prop::collection::vec(0usize..16, 0..3),
    ) {
        let mut log = LogBuilder::new(1);
        for n in 0..4 {
            add_tool_turn(&mut log, n);
            for _ in queued.iter().filter(|&&at| at % 4 == n) {
                log.entry("attachment", json!({ "attachment": { "type": "queued_command", "prompt": "Queued" } }));
            }
        }
        let lines = if twice { with_entries_repeated(&log) } else { lines_of(&log.bytes()) };
        let bytes = log_of(&damaged(lines, &damages));
        prop_assert_eq!(check_losses(&bytes), Ok(()));
    }
}
