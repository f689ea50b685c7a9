//! Paths are chains of parents, on generated logs of every shape that clients have written.

use proptest::prelude::*;
use proptest::sample::Index;
use rethread_testkit::{LogBuilder, broken_path_laws, test_cases};
use serde_json::{Value, json};

/// An event in a log, as clients write them.
#[derive(Debug, Clone)]
enum LogEvent {
    Prompt,
    Answer,
    /// A message of several parts, with a prompt or another message between two of them.
    Interleaved {
        parts: u8,
        between: u8,
    },
    /// Calls with their results: chained, or each a child of its call.
    Calls {
        n: u8,
        fan_out: bool,
        reused_ids: bool,
    },
    /// A call, a queued prompt, and the result after it.
    QueuedBeforeResult(bool),
    /// A result whose parent is not its call, or that has no parent.
    MisplacedResult(Index, bool),
    Queued,
    Attachment,
    Progress,
    Notes,
    Compact(bool),
    /// Continues from an earlier entry.
    GoBack(Index),
    Restart,
    LostParent,
    /// Writes entries again under new ids, after an earlier entry or as a new root.
    Copy {
        from: Index,
        n: u8,
        to: Option<Index>,
    },
    Duplicate(Index),
    Sidechain,
    Failure,
}

#[derive(Default)]
struct EventWriter {
    uuids: Vec<String>,
    lines: Vec<Value>,
    n: usize,
}

impl EventWriter {
    fn add(&mut self, log: &mut LogBuilder, kind: &str, fields: Value) -> String {
        let mark = log.entry(kind, fields);
        self.uuids.push(mark.clone());
        let last = String::from_utf8(log.bytes()).expect("text");
        self.lines.push(serde_json::from_str(last.lines().last().expect("a line")).expect("an entry"));
        mark
    }

    fn add_block(&mut self, log: &mut LogBuilder, id: &str, block: &Value) -> String {
        let message = json!({ "model": "claude-opus-5", "id": id, "type": "message", "role": "assistant",
            "content": [block], "usage": { "input_tokens": 1, "output_tokens": 1 } });
        self.add(log, "assistant", json!({ "message": message }))
    }

    fn text(&mut self, log: &mut LogBuilder, id: &str) -> String {
        self.n += 1;
        self.add_block(log, id, &json!({ "type": "text", "text": format!("t{}", self.n) }))
    }

    fn prompt(&mut self, log: &mut LogBuilder) -> String {
        self.n += 1;
        self.add(log, "user", json!({ "message": { "role": "user", "content": format!("p{}", self.n) } }))
    }

    fn result(&mut self, log: &mut LogBuilder, id: &str) -> String {
        let block = json!({ "type": "tool_result", "tool_use_id": id, "content": "r" });
        self.add(log, "user", json!({ "message": { "role": "user", "content": [block] } }))
    }

    fn next_message_id(&mut self) -> String {
        self.n += 1;
        format!("msg_{}", self.n)
    }

    fn write(&mut self, log: &mut LogBuilder, event: &LogEvent) {
        match event {
            LogEvent::Prompt => drop(self.prompt(log)),
            LogEvent::Answer => {
                let id = self.next_message_id();
                self.text(log, &id);
            }
            LogEvent::Interleaved { parts, between } => {
                let (one, other) = (self.next_message_id(), self.next_message_id());
                for part in 0..=parts % 3 {
                    self.text(log, &one);
                    match between.wrapping_add(part) % 4 {
                        0 => drop(self.prompt(log)),
                        1 => drop(self.text(log, &other)),
                        2 => drop(self.add(log, "system", json!({ "subtype": "x" }))),
                        _ => {}
                    }
                }
            }
            LogEvent::Calls { n, fan_out, reused_ids } => {
                let id = self.next_message_id();
                let n = n % 4 + 1;
                let call_id =
                    |i: u8| if *reused_ids { format!("call_{i}") } else { format!("toolu_{id}_{i}") };
                let calls: Vec<(String, String)> = (0..n)
                    .map(|i| {
                        let block = json!({ "type": "tool_use", "id": call_id(i), "name": "T", "input": {} });
                        (call_id(i), self.add_block(log, &id, &block))
                    })
                    .collect();
                for (call, mark) in &calls {
                    if *fan_out {
                        log.back_to(mark);
                    }
                    self.result(log, call);
                }
            }
            LogEvent::QueuedBeforeResult(attached) => {
                let id = self.next_message_id();
                let call = format!("toolu_{id}");
                let block = json!({ "type": "tool_use", "id": call, "name": "T", "input": {} });
                self.add_block(log, &id, &block);
                if *attached {
                    self.write(log, &LogEvent::Queued);
                } else {
                    self.prompt(log);
                }
                self.result(log, &call);
            }
            LogEvent::MisplacedResult(parent, rooted) => {
                let Some(call) = self.lines.iter().rev().find_map(|line| {
                    let block = &line["message"]["content"][0];
                    (block["type"] == "tool_use").then(|| block["id"].as_str().unwrap_or_default().to_owned())
                }) else {
                    return;
                };
                let tip = log.tip();
                if *rooted {
                    log.restart();
                } else if !self.uuids.is_empty() {
                    log.back_to(&self.uuids[parent.index(self.uuids.len())]);
                }
                self.result(log, &call);
                if let Some(tip) = tip {
                    log.back_to(&tip);
                }
            }
            LogEvent::Queued => {
                self.n += 1;
                let prompt = format!("q{}", self.n);
                let attachment =
                    json!({ "type": "queued_command", "prompt": prompt, "commandMode": "prompt" });
                self.add(log, "attachment", json!({ "attachment": attachment }));
            }
            LogEvent::Attachment => {
                self.add(log, "attachment", json!({ "attachment": { "type": "file", "content": {} } }));
            }
            LogEvent::Progress => {
                self.add(log, "progress", json!({ "data": { "type": "hook_progress" } }));
            }
            LogEvent::Notes => {
                for text in
                    ["<command-name>/cost</command-name>", "<local-command-stdout>0</local-command-stdout>"]
                {
                    self.add(log, "user", json!({ "message": { "role": "user", "content": text } }));
                }
            }
            LogEvent::Compact(linked) => {
                let parent = if *linked { log.tip() } else { None };
                log.restart();
                self.add(
                    log,
                    "system",
                    json!({ "subtype": "compact_boundary", "logicalParentUuid": parent }),
                );
                let summary = "This session is being continued from a previous conversation";
                self.add(
                    log,
                    "user",
                    json!({ "isCompactSummary": true, "message": { "role": "user", "content": summary } }),
                );
            }
            LogEvent::GoBack(to) if !self.uuids.is_empty() => {
                log.back_to(&self.uuids[to.index(self.uuids.len())]);
            }
            LogEvent::GoBack(_) | LogEvent::Restart => {
                log.restart();
            }
            LogEvent::LostParent => {
                log.wait(60).back_to("gone");
            }
            LogEvent::Copy { from, n, to } => self.copy(log, from, usize::from(n % 6) + 1, to.as_ref()),
            LogEvent::Duplicate(of) if !self.lines.is_empty() => {
                log.raw(&of.get(&self.lines).to_string());
            }
            LogEvent::Duplicate(_) => {}
            LogEvent::Sidechain => {
                let tip = log.tip();
                log.sidechain(Some("s")).restart();
                log.prompt("side");
                log.answer("SIDE");
                log.sidechain(None).restart();
                if let Some(tip) = tip {
                    log.back_to(&tip);
                }
            }
            LogEvent::Failure => {
                let message = json!({ "model": "<synthetic>", "id": "x", "role": "assistant",
                    "content": [{ "type": "text", "text": "API Error" }] });
                self.add(log, "assistant", json!({ "isApiErrorMessage": true, "message": message }));
            }
        }
    }

    /// Writes a run of entries again, each the child of the previous one.
    fn copy(&mut self, log: &mut LogBuilder, from: &Index, n: usize, to: Option<&Index>) {
        if self.lines.is_empty() {
            return;
        }
        let start = from.index(self.lines.len());
        let copied: Vec<Value> = self.lines[start..].iter().take(n).cloned().collect();
        match to {
            Some(to) => log.back_to(&self.uuids[to.index(self.uuids.len())]),
            None => log.restart(),
        };
        for mut line in copied {
            self.n += 1;
            let uuid = format!("cccccccc-0000-4000-8000-{:012x}", self.n);
            line["parentUuid"] = json!(log.tip());
            line["uuid"] = json!(uuid);
            line["sessionId"] = json!("99999999-0000-4000-8000-000000000000");
            log.raw(&line.to_string()).back_to(&uuid);
            self.uuids.push(uuid);
            self.lines.push(line);
        }
    }
}

fn event() -> impl Strategy<Value = LogEvent> {
    prop_oneof![
        5 => Just(LogEvent::Prompt),
        5 => Just(LogEvent::Answer),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(parts, between)| LogEvent::Interleaved { parts, between }),
        4 => (any::<u8>(), any::<bool>(), any::<bool>())
            .prop_map(|(n, fan_out, reused_ids)| LogEvent::Calls { n, fan_out, reused_ids }),
        2 => any::<bool>().prop_map(LogEvent::QueuedBeforeResult),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(parent, rooted)| LogEvent::MisplacedResult(parent, rooted)),
        2 => Just(LogEvent::Queued),
        1 => Just(LogEvent::Attachment),
        1 => Just(LogEvent::Progress),
        2 => Just(LogEvent::Notes),
        1 => any::<bool>().prop_map(LogEvent::Compact),
        3 => any::<Index>().prop_map(LogEvent::GoBack),
        1 => Just(LogEvent::Restart),
        1 => Just(LogEvent::LostParent),
        2 => (any::<Index>(), any::<u8>(), prop::option::of(any::<Index>()))
            .prop_map(|(from, n, to)| LogEvent::Copy { from, n, to }),
        1 => any::<Index>().prop_map(LogEvent::Duplicate),
        1 => Just(LogEvent::Sidechain),
        1 => Just(LogEvent::Failure),
    ]
}

/// Events that create neither a fork nor a second root.
fn linear_event() -> impl Strategy<Value = LogEvent> {
    prop_oneof![
        5 => Just(LogEvent::Prompt),
        5 => Just(LogEvent::Answer),
        3 => (any::<u8>(), any::<u8>()).prop_map(|(parts, between)| LogEvent::Interleaved { parts, between }),
        4 => (any::<u8>(), any::<bool>())
            .prop_map(|(n, reused_ids)| LogEvent::Calls { n, fan_out: false, reused_ids }),
        2 => any::<bool>().prop_map(LogEvent::QueuedBeforeResult),
        2 => Just(LogEvent::Queued),
        1 => Just(LogEvent::Attachment),
        1 => Just(LogEvent::Progress),
        2 => Just(LogEvent::Notes),
        1 => Just(LogEvent::Failure),
    ]
}

fn log_of_events(events: &[LogEvent]) -> Vec<u8> {
    let mut log = LogBuilder::new(7);
    let mut writer = EventWriter::default();
    for event in events {
        writer.write(&mut log, event);
    }
    log.bytes()
}

/// Formats the entries of a log, one short line each.
fn outline(bytes: &[u8]) -> String {
    let short = |value: &Value| {
        let text = value.as_str().unwrap_or("-");
        text[text.len().saturating_sub(5)..].to_owned()
    };
    let lines = bytes.split(|&b| b == b'\n').filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let format_entry = |(i, entry): (usize, Value)| {
        let content = entry["message"]["content"].to_string();
        let content: String = content.chars().take(70).collect();
        let (uuid, parent, id) = (&entry["uuid"], &entry["parentUuid"], &entry["message"]["id"]);
        format!("{} {} {} < {} {} {content}\n", i + 1, entry["type"], short(uuid), short(parent), short(id))
    };
    lines.enumerate().map(format_entry).collect()
}

proptest! {
    #![proptest_config(test_cases(256))]

    #[test]
    fn paths_are_chains_of_parents(events in prop::collection::vec(event(), 1..40)) {
        let bytes = log_of_events(&events);
        let broken = broken_path_laws(&bytes);
        prop_assert!(broken.is_empty(), "{broken:#?}\n{}", outline(&bytes));
    }

    #[test]
    fn linear_log_has_one_path(events in prop::collection::vec(linear_event(), 1..40)) {
        let bytes = log_of_events(&events);
        let broken = broken_path_laws(&bytes);
        prop_assert!(broken.is_empty(), "{broken:#?}\n{}", outline(&bytes));
    }
}
