//! Kinds of damage to a log.

use serde_json::{Value, json};

/// Parses the lines of a log; all must be JSON.
pub fn lines_of(log: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(log).expect("log is UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("line is JSON")).collect()
}

/// Joins lines into a log.
pub fn log_of(lines: &[Value]) -> Vec<u8> {
    lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect()
}

/// The number of kinds of damage.
pub const DAMAGES: u8 = 19;

/// The kinds of damage after which the intended conversation is unclear: cycles, entries without a message, an answer or an error
/// without a model, a subagent in the conversation, thinking in a user entry.
pub const AMBIGUOUS_DAMAGES: [u8; 5] = [3, 6, 8, 15, 16];

/// Damages lines of a log; each item is the index of a line and the kind of damage.
pub fn damaged(mut lines: Vec<Value>, damages: &[(usize, u8)]) -> Vec<Value> {
    for &(at, kind) in damages {
        if lines.len() > 2 {
            damage(&mut lines, at, kind);
        }
    }
    lines
}

fn damage(lines: &mut Vec<Value>, at: usize, kind: u8) {
    let n = lines.len();
    let at = at % n;
    let last = lines[n - 1]["uuid"].clone();
    let line = &mut lines[at];
    let blocks = |line: &mut Value| line["message"]["content"].as_array().cloned().unwrap_or_default();
    match kind {
        0 => drop(lines.remove(at)),
        // A prompt without a parent is a valid root, as a rewind to the start leaves it.
        1 if !line["message"]["content"].is_string() => line["parentUuid"] = Value::Null,
        1 | 2 => line["parentUuid"] = json!("11111111-2222-4333-8444-555555555555"),
        3 => line["parentUuid"] = last,
        4 => {
            let copy = line.clone();
            lines.push(copy);
        }
        5 => drop(line.as_object_mut().map(|line| line.remove("timestamp"))),
        6 => drop(line.as_object_mut().map(|line| line.remove("message"))),
        7 => drop(line["message"].as_object_mut().map(|message| message.remove("id"))),
        8 => drop(line["message"].as_object_mut().map(|message| message.remove("model"))),
        9 => line["message"]["content"] = json!("plain"),
        10 => line["message"]["content"] = json!([]),
        11 => line["message"]["content"] = json!([{ "type": "text", "text": "  " }]),
        12 => line["message"]["content"] = Value::Null,
        13 => {
            let mut content = blocks(line);
            content.push(json!("bare"));
            line["message"]["content"] = json!(content);
        }
        14 => drop(line.as_object_mut().map(|line| line.remove("uuid"))),
        15 => line["isSidechain"] = json!(true),
        16 => {
            let content = json!([{ "type": "thinking", "thinking": "hm", "signature": "" }]);
            line["message"]["content"] = content;
        }
        17 => {
            let content = json!([{ "type": "tool_result", "tool_use_id": "nobody", "content": "x" }]);
            line["message"]["content"] = content;
        }
        _ => line["type"] = json!("something-new"),
    }
}
