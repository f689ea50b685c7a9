//! Compares the request that was predicted with the one that was sent.
//!
//! Both are normalised first. Content that a client adds again at every start (mid-conversation system messages,
//! reminders, cache markers) is not part of the session and is removed.

use serde_json::{Map, Value, json};

/// The maximum length of a value in a printed difference.
const SHOWN: usize = 200;

/// The request of a client on resume, sent or predicted.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct SentRequest {
    pub(crate) accepted: bool,
    /// The normalised messages; empty if the session was not accepted.
    pub(crate) messages: Vec<Value>,
    /// The explanation for people.
    pub(crate) client_output: String,
}

impl SentRequest {
    /// Reads a request from a document with `accepted` and `messages`.
    pub(crate) fn from_json(document: &Value) -> Self {
        let output = ["reason", "client_says", "said"].iter().find_map(|name| document[name].as_str());
        let accepted = document["accepted"] == true;
        let messages = document["messages"].as_array().filter(|_| accepted);
        Self {
            accepted,
            messages: messages.map_or_else(Vec::new, |messages| normalise(messages)),
            client_output: output.unwrap_or_default().to_owned(),
        }
    }

    /// Describes how this prediction differs from the request that was sent; `None` if it does not.
    pub(crate) fn difference_from(&self, sent: &Self) -> Option<String> {
        match (self.accepted, sent.accepted) {
            (false, false) => None,
            (true, false) => Some(format!("the client refused it: {}", shorten(&sent.client_output, 0))),
            (false, true) => Some(format!(
                "the client accepted it; we predicted a refusal: {}",
                shorten(&self.client_output, 0)
            )),
            (true, true) => first_difference(&self.messages, &sent.messages),
        }
    }
}

/// Describes the first difference between two conversations in one line.
fn first_difference(ours: &[Value], theirs: &[Value]) -> Option<String> {
    let none = Value::Null;
    let n = (0..ours.len().max(theirs.len()))
        .find(|&n| !same(ours.get(n).unwrap_or(&none), theirs.get(n).unwrap_or(&none)))?;
    let text = |messages: &[Value]| {
        messages.get(n).map_or_else(|| "nothing".to_owned(), |message| sorted(message).to_string())
    };
    let (ours_text, theirs_text) = (text(ours), text(theirs));
    let common = ours_text.chars().zip(theirs_text.chars()).take_while(|(a, b)| a == b).count();
    Some(format!(
        "message {} (ours of {}, the client's of {}): {} | {}",
        n + 1,
        ours.len(),
        theirs.len(),
        shorten(&ours_text, common),
        shorten(&theirs_text, common)
    ))
}

/// Shortens a text so that the character at `at` is still visible.
fn shorten(text: &str, at: usize) -> String {
    let text = text.trim().replace('\n', "\\n");
    let start = if at < SHOWN / 2 { 0 } else { at - SHOWN / 4 };
    let shown: String = text.chars().skip(start).take(SHOWN).collect();
    let before = if start > 0 { "…" } else { "" };
    let after = if text.chars().count() > start + SHOWN { "…" } else { "" };
    format!("{before}{shown}{after}")
}

/// Returns whether two values are equal. Numbers are compared as a client reads them: 1.0 is 1.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

/// Returns the value with its keys sorted, since their order has no meaning.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            Value::Object(keys.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(values) => values.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// Removes the parts of a conversation that do not come from the session.
pub(crate) fn normalise(messages: &[Value]) -> Vec<Value> {
    let messages = messages.iter().filter(|message| message["role"] != "system");
    let kept = messages.filter_map(|message| {
        let blocks = match &message["content"] {
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            _ => Vec::new(),
        };
        let content: Vec<Value> = blocks.into_iter().filter_map(block).collect();
        (!content.is_empty()).then(|| json!({ "role": message["role"], "content": content }))
    });
    kept.collect()
}

fn block(block: Value) -> Option<Value> {
    let Value::Object(fields) = block else { return Some(block) };
    let mut fields: Map<String, Value> =
        fields.into_iter().filter(|(key, _)| key != "cache_control" && key != "citations").collect();
    if fields.get("type").is_some_and(|kind| kind == "text")
        && let Some(Value::String(text)) = fields.get_mut("text")
        && text.contains(OPENING)
    {
        *text = without_reminders(text);
        if text.trim().is_empty() {
            return None;
        }
    }
    Some(Value::Object(fields))
}

const OPENING: &str = "<system-reminder>";
const CLOSING: &str = "</system-reminder>";

/// Removes reminders, each with the white space after it. An unclosed one is kept.
fn without_reminders(text: &str) -> String {
    let (mut kept, mut rest) = (String::new(), text);
    while let Some((before, reminder)) = rest.split_once(OPENING)
        && let Some((_, after)) = reminder.split_once(CLOSING)
    {
        kept.push_str(before);
        rest = after.trim_start();
    }
    kept + rest
}

/// Parses JSON as a client writes it: with lone surrogates, which become U+FFFD.
pub(crate) fn parse(json: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(json).or_else(|error| match std::str::from_utf8(json) {
        Ok(text) => serde_json::from_str(&without_lone_surrogates(text)),
        Err(_) => Err(error),
    })
}

fn without_lone_surrogates(json: &str) -> String {
    /// Returns the code of an escape `\uXXXX` at the start of the text.
    fn escape(text: &str) -> Option<u32> {
        u32::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
    }
    let (mut out, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = match escape(from) {
            Some(0xd800..=0xdbff) if matches!(from.get(6..).and_then(escape), Some(0xdc00..=0xdfff)) => 12,
            Some(0xd800..=0xdfff) => {
                out.push('\u{fffd}');
                rest = &from[6..];
                continue;
            }
            Some(_) => 6,
            // The escaped character may be a backslash, which does not start another escape.
            None => 1 + from[1..].chars().next().map_or(0, char::len_utf8),
        };
        out.push_str(&from[..length]);
        rest = &from[length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(content: Value) -> Value {
        normalise(&[json!({ "role": "user", "content": content })])
            .pop()
            .map_or(Value::Null, |message| message["content"].clone())
    }

    #[test]
    fn text_content_becomes_a_block() {
        assert_eq!(normal(json!("hello")), json!([{ "type": "text", "text": "hello" }]));
        assert_eq!(normal(json!("")), json!([{ "type": "text", "text": "" }]));
    }

    #[test]
    fn system_messages_and_cache_markers_are_removed() {
        let messages = [
            json!({ "role": "system", "content": "note" }),
            json!({ "role": "user", "content": [
                { "type": "text", "text": "a", "cache_control": { "type": "ephemeral" }, "citations": null },
                { "type": "tool_result", "tool_use_id": "t", "content": "<system-reminder>stays</system-reminder>" },
            ] }),
            json!({ "role": "assistant", "content": [] }),
        ];
        assert_eq!(
            normalise(&messages),
            [json!({ "role": "user", "content": [
                { "type": "text", "text": "a" },
                { "type": "tool_result", "tool_use_id": "t", "content": "<system-reminder>stays</system-reminder>" },
            ] })]
        );
        assert_eq!(normalise(&normalise(&messages)), normalise(&messages));
    }

    #[test]
    fn reminders_are_removed_from_texts() {
        let text = |text: &str| {
            let content = normal(json!([{ "type": "text", "text": text }]));
            content[0]["text"].as_str().map(str::to_owned)
        };
        let reminder = "<system-reminder>\none\ntwo</system-reminder>";
        assert_eq!(text(&format!("a {reminder}\n\n b{reminder}")).as_deref(), Some("a b"));
        assert_eq!(text(&format!("{reminder}\n")), None);
        assert_eq!(text("<system-reminder>open").as_deref(), Some("<system-reminder>open"));
        assert_eq!(text(&format!("{reminder} <system-reminder>")).as_deref(), Some("<system-reminder>"));
        assert_eq!(text(" ").as_deref(), Some(" "));
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        let parsed =
            |text: &str| parse(text.as_bytes()).map(|value| value.as_str().unwrap_or("?").to_owned());
        assert_eq!(parsed(r#""a\ud83d""#).expect("valid JSON"), "a\u{fffd}");
        assert_eq!(parsed(r#""\ude00\ud83d\ude00\\ud83d""#).expect("JSON"), "\u{fffd}😀\\ud83d");
        assert_eq!(parsed(r#""\ud83d\u0041\"""#).expect("JSON"), "\u{fffd}A\"");
        assert!(parsed(r#""\ud83d"#).is_err());
        assert!(parsed("\"\\").is_err());
    }

    fn answer(messages: &[&str]) -> SentRequest {
        let messages = messages.iter().map(|text| json!({ "role": "user", "content": text })).collect();
        SentRequest::from_json(&json!({ "accepted": true, "messages": Value::Array(messages) }))
    }

    #[test]
    fn first_difference_is_shown_and_shortened() {
        assert_eq!(answer(&["a", "b"]).difference_from(&answer(&["a", "b"])), None);
        let difference = answer(&["a", "b"]).difference_from(&answer(&["a"])).expect("lengths differ");
        assert!(difference.starts_with("message 2 (ours of 2, the client's of 1): {"), "{difference}");
        assert!(difference.ends_with(" | nothing"), "{difference}");
        let long = "x".repeat(5000);
        let difference =
            answer(&[&format!("{long}1{long}")]).difference_from(&answer(&[&format!("{long}2{long}")]));
        let difference = difference.expect("a character differs");
        assert!(difference.contains("xxx1xxx") && difference.contains("xxx2xxx"), "{difference}");
        assert!(difference.chars().count() < 500, "{difference}");
    }

    #[test]
    fn refusal_is_reported_with_its_reason() {
        let refused =
            SentRequest::from_json(&json!({ "accepted": false, "reason": "empty", "messages": null }));
        assert_eq!(refused.difference_from(&refused), None);
        assert_eq!(
            refused.difference_from(&answer(&[])).expect("answers differ"),
            "the client accepted it; we predicted a refusal: empty"
        );
        assert_eq!(
            answer(&[]).difference_from(&refused).expect("answers differ"),
            "the client refused it: empty"
        );
    }

    #[test]
    fn numbers_are_compared_as_a_client_reads_them() {
        let value = |text| parse(text).expect("JSON");
        assert!(same(&value(br#"{"a":[1.0],"b":2}"#), &value(br#"{"b":2,"a":[1]}"#)));
        assert!(!same(&value(b"1"), &value(b"2")));
        assert!(!same(&value(br#"{"a":null}"#), &value(b"{}")));
    }
}
