//! Places of a log, and kinds of files, in which text can occur.

use serde_json::{Value, json};

/// Places of a log where text can occur.
pub const PLACES: [&str; 30] = [
    "user text",
    "user string",
    "assistant text",
    "tool input",
    "tool result",
    "result copy",
    "edit lines",
    "request",
    "queue",
    "snapshot",
    "title",
    "last prompt",
    "attachment",
    "progress",
    "escaped",
    "torn line",
    "nested lines",
    "coloured",
    "named value",
    "thinking",
    "summary",
    "system note",
    "request blob",
    "subagent",
    "environment file",
    "indented file",
    "escaped twice",
    "base64",
    "base64 lines",
    "percent signs",
];

/// Kinds of sidecar files.
pub const FILES: [&str; 8] = [
    "text",
    "carriage returns",
    "JSON",
    "JSON lines",
    "UTF-16",
    "UTF-16, big end first",
    "UTF-32",
    "UTF-32, big end first",
];

/// Returns the bytes of a sidecar file that contains a text.
pub fn file(kind: &str, text: &str) -> Vec<u8> {
    let content = format!("first line\n{text}\nlast line\n");
    match kind {
        "text" => content.into_bytes(),
        "carriage returns" => content.replace('\n', "\r\n").into_bytes(),
        "JSON" => json!({ "items": [{ "text": content }] }).to_string().into_bytes(),
        "JSON lines" => format!("{}\n{}\n", json!({ "n": 1 }), json!({ "log": content })).into_bytes(),
        "UTF-16" => format!("\u{feff}{content}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        "UTF-32" => format!("\u{feff}{content}").chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        "UTF-32, big end first" => content.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
        _ => content.encode_utf16().flat_map(u16::to_be_bytes).collect(),
    }
}

/// Encodes a text as base64, in lines of `columns` characters.
pub fn base64(text: &str, columns: usize) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let all = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            let digit = DIGITS[(all >> (18 - 6 * at) & 63) as usize];
            out.push(if at <= three.len() { digit as char } else { '=' });
        }
    }
    let lines: Vec<&[u8]> = out.as_bytes().chunks(columns).collect();
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

/// Percent-encodes a text.
pub fn percent(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// Returns an entry with a text in a place; for a torn line, the last line of a log.
pub fn entry(place: &str, text: &str, n: usize) -> String {
    let content = format!("before {text} after");
    let entries = EntryTemplate { n, uuid: uuid(n) };
    let entry = entries
        .message(place, text, &content)
        .or_else(|| entries.encoded(place, text, &content))
        .or_else(|| entries.metadata(place, &content));
    if let Some(entry) = entry {
        return entry.to_string() + "\n";
    }
    if place == "escaped" {
        let escaped: String = content.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        let line = entries.user(&json!("MARK"), json!({})).to_string();
        return line.replace("\"MARK\"", &format!("\"{escaped}\"")) + "\n";
    }
    // A torn line.
    let line = entries.user(&json!(content), json!({})).to_string();
    line[..line.len() - 40].to_owned()
}

fn uuid(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}

/// Builds the entry with a number.
struct EntryTemplate {
    n: usize,
    uuid: String,
}

impl EntryTemplate {
    /// Returns an entry of the tree with further fields.
    fn node(&self, kind: &str, more: Value) -> Value {
        let n = self.n;
        let mut row = json!({
            "parentUuid": n.checked_sub(1).map(uuid), "isSidechain": false, "type": kind, "uuid": self.uuid,
            "sessionId": "s", "timestamp": format!("2026-01-01T00:{:02}:{:02}.000Z", n / 60 % 60, n % 60),
            "version": "2.1.112",
        });
        add_fields(&mut row, more);
        row
    }

    /// Returns a user entry with further fields.
    fn user(&self, content: &Value, more: Value) -> Value {
        let mut row = self.node("user", json!({"message": {"role": "user", "content": content}}));
        add_fields(&mut row, more);
        row
    }

    fn assistant(&self, content: &Value) -> Value {
        let id = format!("msg_{}", self.n);
        let message = json!({"role": "assistant", "id": id, "model": "claude-opus-5", "content": content});
        self.node("assistant", json!({ "message": message }))
    }

    /// Returns the entry with the result of a tool call.
    fn result(&self, content: &str) -> Value {
        self.result_with_copy(content, json!({}))
    }

    fn result_with_copy(&self, content: &str, copy: Value) -> Value {
        let id = format!("toolu_{}", self.n);
        self.user(&json!([{"type": "tool_result", "tool_use_id": id, "content": content}]), copy)
    }

    /// Returns the entry for a place in a message.
    fn message(&self, place: &str, text: &str, content: &str) -> Option<Value> {
        Some(match place {
            "user text" => self.user(&json!([{"type": "text", "text": content}]), json!({})),
            "user string" => self.user(&json!(content), json!({})),
            "subagent" => self.user(&json!(content), json!({"isSidechain": true, "agentId": "a1b2c3d4"})),
            "assistant text" => self.assistant(&json!([{"type": "text", "text": content}])),
            "thinking" => self.assistant(&json!([
                {"type": "thinking", "thinking": content, "signature": "c2ln"}, {"type": "text", "text": "ok"},
            ])),
            "tool input" => {
                let id = format!("toolu_{}", self.n);
                self.assistant(
                    &json!([{"type": "tool_use", "id": id, "name": "Bash", "input": {"command": content}}]),
                )
            }
            "tool result" => self.result(content),
            "result copy" => {
                let stdout = json!({"log": content}).to_string();
                self.result_with_copy("ok", json!({"toolUseResult": {"stdout": stdout, "stderr": ""}}))
            }
            "named value" => self.result_with_copy("ok", json!({"toolUseResult": {"env": {"A": text}}})),
            "edit lines" => {
                let lines: Vec<String> = content.lines().map(|line| format!("+{line}")).collect();
                let patch = json!({"toolUseResult": {"structuredPatch": [{"lines": lines}]}});
                self.result_with_copy("ok", patch)
            }
            _ => return None,
        })
    }

    /// Returns the entry for a place in which the text is part of other text, or encoded.
    fn encoded(&self, place: &str, text: &str, content: &str) -> Option<Value> {
        Some(match place {
            "coloured" => self.result(&format!("\u{1b}[32m{text}\u{1b}[0m")),
            "environment file" => self.result(&format!("# settings\nDEBUG=1\n{text}\nPORT=80\n")),
            "indented file" => {
                let lines: Vec<String> = text.lines().map(|line| format!("    {line}")).collect();
                self.result(&format!("settings:\n  a: 1\n{}\n  b: 2\n", lines.join("\n")))
            }
            "nested lines" => {
                let inner = json!({ "text": format!("x\n{text}\ny") }).to_string();
                self.result(&json!({ "log": inner }).to_string())
            }
            "escaped twice" => {
                let inner = json!({ "c": json!({ "d": content }).to_string() }).to_string();
                self.user(&json!(json!({ "b": inner }).to_string()), json!({}))
            }
            "base64" => self.result(&format!("x={} y", base64(content, usize::MAX))),
            "base64 lines" => self.result(&format!("$ base64 x\n{}\n$", base64(content, 76))),
            "percent signs" => {
                let url = format!("see https://host.internal/cb?n=1&note={}", percent(content));
                self.user(&json!(url), json!({}))
            }
            _ => return None,
        })
    }

    /// Returns the entry for a place outside of messages.
    fn metadata(&self, place: &str, content: &str) -> Option<Value> {
        Some(match place {
            "request" => {
                let body = json!({"messages": [{"role": "user", "content": content}]});
                json!({"type": "api-request", "sessionId": "s", "body": body})
            }
            "request blob" => {
                json!({"type": "api-request-blob", "sessionId": "s", "hash": "0", "content": content})
            }
            "queue" => {
                json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "s", "content": content})
            }
            "snapshot" => {
                let snapshot = json!({"trackedFileBackups": {content: {"version": 1}}});
                json!({"type": "file-history-snapshot", "messageId": self.uuid, "snapshot": snapshot})
            }
            "title" => json!({"type": "custom-title", "customTitle": content, "sessionId": "s"}),
            "last prompt" => json!({"type": "last-prompt", "lastPrompt": content, "sessionId": "s"}),
            "summary" => json!({"type": "summary", "summary": content, "leafUuid": self.uuid}),
            "attachment" => {
                let attachment = json!({"type": "edited_text_file", "filename": "/a", "snippet": content});
                self.node("attachment", json!({ "attachment": attachment }))
            }
            "progress" => {
                self.node("progress", json!({"data": {"type": "bash_progress", "output": content}}))
            }
            "system note" => {
                self.node("system", json!({"subtype": "informational", "content": content, "level": "info"}))
            }
            _ => return None,
        })
    }
}

fn add_fields(row: &mut Value, more: Value) {
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
}
