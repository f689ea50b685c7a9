//! Small sessions that are expensive where work is not linear: one function per shape, each with a size.
//!
//! The log of a shape grows in proportion to its size, and so must the work of every command on it.
//! `cargo xtask hostile` counts the work at two sizes.

use serde_json::{Value, json};

use crate::{LogBuilder, PendingCall};

/// A shape: its name and the function that builds it.
pub type Shape = (&'static str, fn(u32) -> LogBuilder);

/// All shapes.
pub const SHAPES: [Shape; 32] = [
    ("line", line),
    ("open_calls", open_calls),
    ("open_calls_apart", open_calls_apart),
    ("orphan_results", orphan_results),
    ("orphan_results_apart", orphan_results_apart),
    ("many_results", many_results),
    ("reused_call_id", reused_call_id),
    ("one_message", one_message),
    ("growing_text", growing_text),
    ("same_blocks", same_blocks),
    ("same_uuid", same_uuid),
    ("comb", comb),
    ("star", star),
    ("roots", roots),
    ("compactions", compactions),
    ("titles", titles),
    ("summaries", summaries),
    ("attachments", attachments),
    ("queued_prompts", queued_prompts),
    ("progress", progress),
    ("dangling_parents", dangling_parents),
    ("reversed", reversed),
    ("inline_agents", inline_agents),
    ("torn_lines", torn_lines),
    ("texts_and_calls", texts_and_calls),
    ("thoughts_and_calls", thoughts_and_calls),
    ("copies_on_branches", copies_on_branches),
    ("copies_with_roots", copies_with_roots),
    ("stray_results", misplaced_results),
    ("queued_beside", queued_side_chain),
    ("interleaved", interleaved),
    ("commands_beside", commands_at_root),
];

fn call_block(id: &str) -> Value {
    json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": format!("echo {id}") } })
}

fn result_block(id: &str, text: &str) -> Value {
    json!({ "type": "tool_result", "tool_use_id": id, "content": text })
}

/// Adds a message of the model as one entry with these blocks.
fn answer_of(log: &mut LogBuilder, id: &str, blocks: &[Value]) -> String {
    let message = json!({ "model": "claude-opus-5", "id": id, "type": "message", "role": "assistant",
        "content": blocks, "stop_reason": null, "usage": { "input_tokens": 1, "output_tokens": 1 } });
    log.entry("assistant", json!({ "message": message }))
}

/// Adds a user entry with these blocks.
fn user_of(log: &mut LogBuilder, blocks: &[Value]) -> String {
    log.entry("user", json!({ "message": { "role": "user", "content": blocks } }))
}

fn new_log_with_prompt() -> LogBuilder {
    let mut log = LogBuilder::new(1);
    log.prompt("Begin, please.");
    log
}

fn with_final_turn(mut log: LogBuilder) -> LogBuilder {
    log.prompt("And now the end?");
    log.answer("This is the end.");
    log
}

/// A plain conversation of `n` turns with one call each, as the baseline.
pub fn line(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for turn in 0..n {
        let call = log.call("Bash", &json!({ "command": format!("echo {turn}") }));
        log.result(&call, &format!("result {turn}"));
        log.answer(&format!("Answer {turn}."));
        log.prompt(&format!("Question {turn}"));
    }
    with_final_turn(log)
}

/// `n` calls without results in one entry.
pub fn open_calls(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let blocks: Vec<Value> = (0..n).map(|i| call_block(&format!("toolu_{i}"))).collect();
    answer_of(&mut log, "msg_1", &blocks);
    with_final_turn(log)
}

/// `n` calls without results in `n` entries of one message.
pub fn open_calls_apart(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.block("msg_1", &call_block(&format!("toolu_{i}")));
    }
    with_final_turn(log)
}

/// `n` results without calls in one entry.
pub fn orphan_results(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    log.answer("Nothing was called.");
    let blocks: Vec<Value> =
        (0..n).map(|i| result_block(&format!("toolu_{i}"), &format!("result {i}"))).collect();
    user_of(&mut log, &blocks);
    with_final_turn(log)
}

/// `n` results without calls in `n` entries.
pub fn orphan_results_apart(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    log.answer("Nothing was called.");
    for i in 0..n {
        user_of(&mut log, &[result_block(&format!("toolu_{i}"), &format!("result {i}"))]);
    }
    with_final_turn(log)
}

/// `n` different results of one call.
pub fn many_results(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let call = log.call("Bash", &json!({ "command": "echo" }));
    for i in 0..n {
        log.result(&call, &format!("result {i}"));
    }
    with_final_turn(log)
}

/// The same call id in each of `n` messages, as some proxies write it.
pub fn reused_call_id(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        let uuid = answer_of(&mut log, &format!("msg_{i}"), &[call_block("call_0")]);
        log.result(&PendingCall { id: "call_0".into(), uuid }, &format!("result {i}"));
    }
    with_final_turn(log)
}

/// `n` different entries of one message id.
pub fn one_message(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.block("msg_1", &json!({ "type": "text", "text": format!("Text {i}.") }));
    }
    with_final_turn(log)
}

/// A text that starts long and grows by a word with each of `n` entries.
pub fn growing_text(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.block(
            "msg_1",
            &json!({ "type": "text", "text": format!("beginning {:>1$}", "x", 1 + i as usize % 50) }),
        );
    }
    with_final_turn(log)
}

/// `n` blocks of one entry with the same start.
pub fn same_blocks(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let text = |i: u32| json!({ "type": "text", "text": format!("{}{i}", "the same beginning ".repeat(4)) });
    let blocks: Vec<Value> = (0..n).map(text).collect();
    answer_of(&mut log, "msg_1", &blocks);
    with_final_turn(log)
}

/// `n` entries with one uuid.
pub fn same_uuid(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let mut entry = log.clone();
    entry.answer("The same?");
    let all = String::from_utf8(entry.bytes()).unwrap_or_default();
    let one = all.lines().last().unwrap_or_default().to_owned();
    for i in 0..n {
        log.raw(&one.replace("The same?", &format!("The same {i}?")));
    }
    with_final_turn(log)
}

/// A trunk of `n` turns with a branch of one turn at each.
pub fn comb(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        let trunk = log.answer(&format!("Answer {i} on the trunk, in a few words."));
        log.prompt(&format!("Branch {i}"));
        log.answer(&format!("Answer on branch {i}."));
        log.back_to(&trunk);
        log.prompt(&format!("Trunk {i}"));
    }
    with_final_turn(log)
}

/// `n` branches at one entry.
pub fn star(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let centre = log.answer("Choose.");
    for i in 0..n {
        log.back_to(&centre);
        log.prompt(&format!("Branch {i}"));
        log.answer(&format!("Answer on branch {i}."));
    }
    log
}

/// `n` conversations without a common root.
pub fn roots(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.restart();
        log.prompt(&format!("Beginning {i}"));
        log.answer(&format!("Answer {i}."));
    }
    log
}

/// `n` compactions.
pub fn compactions(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.answer(&format!("Answer {i}."));
        log.compact(&format!("Summary {i}."));
    }
    with_final_turn(log)
}

/// `n` titles.
pub fn titles(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.raw(
            &json!({ "type": "ai-title", "aiTitle": format!("Title {i}"), "sessionId": log.session() })
                .to_string(),
        );
        log.raw(&json!({ "type": "custom-title", "customTitle": format!("Name {i}"), "sessionId": log.session() }).to_string());
    }
    with_final_turn(log)
}

/// `n` summaries of different entries.
pub fn summaries(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        let leaf = log.answer(&format!("Answer {i}."));
        log.raw(
            &json!({ "type": "summary", "summary": format!("Summary {i}"), "leafUuid": leaf }).to_string(),
        );
    }
    with_final_turn(log)
}

/// `n` attachments after one result.
pub fn attachments(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let call = log.call("Bash", &json!({ "command": "echo" }));
    log.result(&call, "result");
    for i in 0..n {
        log.entry(
            "attachment",
            json!({ "attachment": { "type": "hook_success", "hookName": format!("PostToolUse:{i}"),
                "toolUseID": call.id, "hookEvent": "PostToolUse", "content": "ok", "stdout": "ok", "stderr": "" } }),
        );
    }
    with_final_turn(log)
}

/// `n` prompts queued while the model was busy.
pub fn queued_prompts(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let call = log.call("Bash", &json!({ "command": "echo" }));
    log.result(&call, "result");
    for i in 0..n {
        let prompt = format!("Queued {i}");
        let queue = |operation: &str| {
            json!({ "type": "queue-operation", "operation": operation,
            "timestamp": "2026-01-05T00:00:00.000Z", "sessionId": log.session(), "content": prompt })
        };
        let (enqueue, remove) = (queue("enqueue"), queue("remove"));
        log.raw(&enqueue.to_string());
        log.raw(&remove.to_string());
        log.entry(
            "attachment",
            json!({ "attachment": { "type": "queued_command", "prompt": prompt, "commandMode": "prompt" } }),
        );
    }
    with_final_turn(log)
}

/// `n` progress entries after one call.
pub fn progress(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let call = log.call("Bash", &json!({ "command": "echo" }));
    for i in 0..n {
        log.entry("progress", json!({ "data": { "type": "bash_progress", "output": i }, "toolUseID": format!("bash-{i}"), "parentToolUseID": call.id }));
    }
    log.result(&call, "result");
    with_final_turn(log)
}

/// `n` entries whose parents are not in the file.
pub fn dangling_parents(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.back_to(&format!("dddddddd-0000-4000-8000-{i:012x}"));
        log.answer(&format!("Answer {i}."));
    }
    with_final_turn(log)
}

/// A conversation of `n` turns with its lines in reverse order.
pub fn reversed(n: u32) -> LogBuilder {
    let forward = line(n / 3);
    let mut log = LogBuilder::new(1);
    for line in String::from_utf8(forward.bytes()).unwrap_or_default().lines().rev() {
        log.raw(line);
    }
    log
}

/// `n` subagents in the session's own log, all with the same prompt.
pub fn inline_agents(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        let call = log.call(
            "Task",
            &json!({ "description": "Look", "prompt": "Look into it.", "subagent_type": "general-purpose" }),
        );
        let tip = log.tip().unwrap_or_default();
        log.sidechain(Some(&format!("a{i}"))).restart();
        log.prompt("Look into it.");
        log.answer(&format!("Looked {i}."));
        log.sidechain(None).back_to(&tip);
        log.result(&call, &format!("looked {i}"));
    }
    with_final_turn(log)
}

/// `n` incomplete lines.
pub fn torn_lines(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.raw(&format!("{{\"type\":\"user\",\"uuid\":\"torn {i}\",\"message\":{{\"content\":\"cut"));
        log.answer(&format!("Answer {i}."));
    }
    with_final_turn(log)
}

/// One message with texts and calls alternating, `n` entries of each.
pub fn texts_and_calls(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.block("msg_1", &json!({ "type": "text", "text": format!("Text {i}.") }));
        log.block("msg_1", &call_block(&format!("toolu_{i}")));
    }
    with_final_turn(log)
}

/// One message with thinking, blank texts and calls alternating, `n` entries of each.
pub fn thoughts_and_calls(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.block(
            "msg_1",
            &json!({ "type": "thinking", "thinking": format!("Thought {i}."), "signature": "s" }),
        );
        log.block("msg_1", &json!({ "type": "text", "text": " " }));
        log.block("msg_1", &call_block(&format!("toolu_{i}")));
    }
    with_final_turn(log)
}

/// One message on each of `n` branches, each time with a different text and result.
pub fn copies_on_branches(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let centre = log.answer("Choose.");
    for i in 0..n {
        log.back_to(&centre);
        log.prompt(&format!("Branch {i}"));
        copy(&mut log, i);
    }
    log
}

/// One message in each of `n` conversations without a common root, each time with a different text.
pub fn copies_with_roots(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        log.restart();
        log.prompt(&format!("Beginning {i}"));
        copy(&mut log, i);
    }
    log
}

fn copy(log: &mut LogBuilder, i: u32) {
    log.block("msg_1", &json!({ "type": "text", "text": format!("Copy {i}.") }));
    let id = format!("toolu_{i}");
    let uuid = log.block("msg_1", &call_block(&id));
    log.result(&PendingCall { id, uuid }, &format!("result {i}"));
    log.answer(&format!("Answer {i}."));
}

/// `n` calls of one message whose results are children of the prompt before it.
pub fn misplaced_results(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let prompt = log.tip().unwrap_or_default();
    for i in 0..n {
        log.block("msg_1", &call_block(&format!("toolu_{i}")));
    }
    let answer = log.tip().unwrap_or_default();
    for i in 0..n {
        log.back_to(&prompt);
        user_of(&mut log, &[result_block(&format!("toolu_{i}"), &format!("result {i}"))]);
    }
    log.back_to(&answer);
    with_final_turn(log)
}

/// A chain of `n` queued prompts off the conversation.
pub fn queued_side_chain(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let call = log.call("Bash", &json!({ "command": "echo" }));
    let result = log.result(&call, "result");
    for i in 0..n {
        log.entry(
            "attachment",
            json!({ "attachment": { "type": "queued_command", "prompt": format!("Queued {i}"), "commandMode": "prompt" } }),
        );
    }
    log.back_to(&result);
    with_final_turn(log)
}

/// A chain of two alternating messages with `n` entries each.
pub fn interleaved(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    for i in 0..n {
        for id in ["msg_1", "msg_2"] {
            log.block(id, &json!({ "type": "text", "text": format!("Text {i} of {id}.") }));
        }
    }
    with_final_turn(log)
}

/// `n` local commands attached to the first entry, at the end of the log.
pub fn commands_at_root(n: u32) -> LogBuilder {
    let mut log = new_log_with_prompt();
    let first = log.tip().unwrap_or_default();
    log.answer("Answered.");
    for i in 0..n {
        log.back_to(&first);
        let text = format!("<command-name>/export</command-name>\n<command-args>{i}.txt</command-args>");
        log.entry("user", json!({ "message": { "role": "user", "content": text } }));
        let output = format!("<local-command-stdout>Exported {i}</local-command-stdout>");
        log.entry("user", json!({ "message": { "role": "user", "content": output } }));
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_grow_in_proportion_to_their_size() {
        for (name, shape) in SHAPES {
            let (small, large) = (shape(50).bytes().len(), shape(200).bytes().len());
            assert!(large > 2 * small && large < 5 * small, "{name}: {small} and {large} bytes");
        }
    }
}
