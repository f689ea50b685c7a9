//! Attachments after a tool result as clients send them, and calls that newer versions encode differently.
//! Every expectation was recorded with the real client of that version.

use rethread_model::{Client, Reader, Session, resume};
use rethread_testkit::LogBuilder;
use serde_json::{Value, json};

const PROMPT: &str = "Next";

/// Returns the blocks that a client sends, by message.
fn sent_blocks(log: &LogBuilder, client: Client) -> Vec<Vec<Value>> {
    let bytes = log.bytes();
    let session = Session::read(&bytes);
    let resumed = resume(&session.facts, client);
    let block = |block: &rethread_model::WireBlock<'_>| serde_json::from_slice(block.json().raw());
    let wire = Reader::new(&session, &bytes).wire_messages(&resumed, client, PROMPT);
    wire.iter().map(|message| message.blocks.iter().map(|b| block(b).expect("JSON")).collect()).collect()
}

/// Returns the content of the result that is sent for a session with a call, its result, attachments
/// after it and an answer.
fn sent_result_content(client: Client, content: &Value, attachments: &[Value]) -> Value {
    let mut log = LogBuilder::new(1);
    // Newer models get reminders between two turns.
    "claude-opus-4-6".clone_into(&mut log.model);
    log.prompt("Go");
    let call = log.call("ToolSearch", &json!({ "query": "x" }));
    log.result_with(&call, content, &json!({}));
    for attachment in attachments {
        log.entry("attachment", json!({ "attachment": attachment }));
    }
    log.answer("Done");
    sent_blocks(&log, client)[2][0]["content"].clone()
}

fn reminder(text: &str) -> String {
    format!("<system-reminder>\n{text}\n</system-reminder>")
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

const TOOLS_UNAVAILABLE: &str = "[Tool references removed - tools no longer available]";

#[test]
fn newest_client_drops_old_fields_of_send_message() {
    let old = json!({ "type": "message", "recipient": "bob", "content": "hi" });
    let input = |client: Client, more: Value| {
        let mut input = old.clone();
        for (key, value) in more.as_object().expect("an object") {
            input[key] = value.clone();
        }
        let mut log = LogBuilder::new(1);
        log.prompt("Go");
        let call = log.call("SendMessage", &input);
        log.result(&call, "sent");
        log.answer("Done");
        sent_blocks(&log, client)[1][0]["input"].clone()
    };
    let both = json!({ "to": null, "message": "m" });
    assert_eq!(input(Client::V2_1_325, both.clone()), both);
    let to = input(Client::V2_1_325, json!({ "to": "bob" }));
    assert_eq!(to["recipient"], "bob", "both keys are asked for: {to}");
    assert_eq!(input(Client::V2_1_200, both)["recipient"], "bob");
}

#[test]
fn reminder_is_folded_into_result_with_missing_tool_references() {
    let note = json!({ "type": "critical_system_reminder", "content": "Mind" });
    let reference = |name: &str| json!({ "type": "tool_reference", "tool_name": name });
    let gone = json!([reference("mcp__a__b")]);
    let folded = json!([text(&format!("{TOOLS_UNAVAILABLE}\n")), text(&reminder("Mind"))]);
    assert_eq!(sent_result_content(Client::V2_1_325, &gone, std::slice::from_ref(&note)), folded);
    assert_eq!(sent_result_content(Client::V2_1_325, &gone, &[]), json!([text(TOOLS_UNAVAILABLE)]));
    let there = json!([reference("WebFetch"), reference("mcp__a__b")]);
    let left = json!([reference("WebFetch")]);
    assert_eq!(sent_result_content(Client::V2_1_325, &there, &[note]), left);
}

#[test]
fn only_2_1_112_reports_an_empty_tools_delta() {
    let none =
        json!({ "type": "deferred_tools_delta", "addedNames": [], "addedLines": [], "removedNames": [] });
    let sent = format!("R\n\n{}", reminder("(no content)"));
    let of = |client| sent_result_content(client, &json!("R"), std::slice::from_ref(&none));
    assert_eq!(of(Client::V2_1_112), sent);
    assert_eq!(of(Client::V2_1_200), "R");
    assert_eq!(of(Client::V2_1_325), "R");
}

#[test]
fn mode_reminders_follow_the_tool_result() {
    let of = |client, attachment: Value| {
        let sent = sent_result_content(client, &json!("R"), &[attachment]);
        sent.as_str().expect("a string").to_owned()
    };
    let plan = |reminder: &str, subagent: bool, exists: bool| {
        json!({ "type": "plan_mode", "reminderType": reminder, "isSubAgent": subagent,
            "planFilePath": "/p.md", "planExists": exists })
    };
    for client in Client::IN_USE {
        let full = of(client, plan("full", false, false));
        assert!(full.starts_with("R\n\n<system-reminder>\nPlan mode is active."), "{full}");
        assert!(full.contains(
            "\nNo plan file exists yet. You should create your plan at /p.md using the Write tool.\n"
        ));
        assert_eq!(full.contains("identified by agents"), client == Client::V2_1_112);
        let there = of(client, plan("full", true, true));
        assert!(there.contains(
            "at /p.md. You can read it and make incremental edits using the Edit tool if you need to."
        ));
        let brief = of(client, plan("sparse", false, true));
        assert!(brief.contains("Read-only except plan file (/p.md)."), "{brief}");
        let again = of(client, json!({ "type": "plan_mode_reentry", "planFilePath": "/p.md" }));
        assert!(again.contains("A plan file exists at /p.md from"), "{again}");
        let auto = of(client, json!({ "type": "auto_mode", "reminderType": "sparse" }));
        assert_eq!(auto.contains("Auto mode still active"), client == Client::V2_1_112, "{auto}");
        for sent in [full, there, brief, again, auto] {
            assert!(sent.ends_with("\n</system-reminder>") && !sent.contains('{'), "{sent}");
        }
    }
}

#[test]
fn reminders_of_a_new_prompt_add_a_newline_to_a_list_result() {
    let failed = |content: &Value, model: &str| {
        let mut log = LogBuilder::new(1);
        model.clone_into(&mut log.model);
        log.prompt("Go");
        let call = log.call("Bash", &json!({ "command": "x" }));
        log.result_with(&call, content, &json!({}));
        log.entry(
            "assistant",
            json!({ "isApiErrorMessage": true, "message": { "id": "error", "model": "<synthetic>",
                "role": "assistant", "type": "message", "content": [text("API Error: 529")] } }),
        );
        sent_blocks(&log, Client::V2_1_325)[2].clone()
    };
    let list = json!([text("R")]);
    let blocks = failed(&list, "claude-opus-4-6");
    assert_eq!(blocks[0]["content"], json!([text("R\n")]));
    assert_eq!(blocks[1], text(PROMPT));
    // Newer models get the reminders between two turns.
    assert_eq!(failed(&list, "claude-opus-5-5")[0]["content"], list);
    assert_eq!(failed(&json!("R"), "claude-opus-4-6")[0]["content"], "R");
}
