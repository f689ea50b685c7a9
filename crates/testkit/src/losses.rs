//! Laws of `check`: every reported loss is one, and every loss is reported. Both compare the log with the
//! JSON that the client would send, without the code that finds losses.

use std::collections::{BTreeMap, BTreeSet};

use rethread_model::{Client, NodeId, Reader, Role, Session, Severity, check, intended_path_to, resume};
use serde_json::{Value, json};

/// Checks both laws for every client.
pub fn check_losses(log: &[u8]) -> Result<(), String> {
    let session = Session::read(log);
    Client::ALL.into_iter().try_for_each(|client| {
        let with_version = |error| format!("{}: {error}", client.version());
        ResumeRequest::new(&session, log, client).compare(client).map_err(with_version)
    })
}

/// A session and the request that a client makes of it.
struct ResumeRequest<'a> {
    session: &'a Session,
    reader: Reader<'a>,
    accepted: bool,
    /// The path that the client resumes.
    chain: BTreeSet<NodeId>,
    /// The content that is sent.
    contents: BTreeSet<String>,
    /// The texts of results by their call: clients fold reminders into them.
    results: BTreeMap<String, Vec<String>>,
    /// The kinds of blocks that are sent for each entry, because clients change some contents.
    of_entry: BTreeSet<(NodeId, String)>,
}

impl<'a> ResumeRequest<'a> {
    fn new(session: &'a Session, log: &'a [u8], client: Client) -> Self {
        let reader = Reader::new(session, log);
        let resumed = resume(&session.facts, client);
        let mut request = Self {
            session,
            reader,
            accepted: resumed.refusal.is_none(),
            chain: resumed.chain.iter().copied().collect(),
            contents: BTreeSet::new(),
            results: BTreeMap::new(),
            of_entry: BTreeSet::new(),
        };
        for block in reader.wire_messages(&resumed, client, "").iter().flat_map(|message| &message.blocks) {
            let Some(node) = block.node else { continue };
            let Ok(value) = serde_json::from_slice::<Value>(block.json().raw()) else { continue };
            let scope = request.scope_of(node);
            request.contents.insert(content_of(&scope, &value));
            request.of_entry.insert((node, id_of(&value)));
            if let Some(text) = value["content"].as_str() {
                request.results.entry(id_of(&value)).or_default().push(text.to_owned());
            }
        }
        request
    }

    fn entry(&self, node: NodeId) -> Value {
        serde_json::from_slice(self.reader.entry_bytes(self.session.facts.nodes[node].entry))
            .unwrap_or_default()
    }

    /// Returns a key for the message of an entry: its id, or the time and content of a user message.
    fn scope_of(&self, node: NodeId) -> String {
        let entry = self.entry(node);
        match entry["message"]["id"].as_str() {
            Some(id) if entry["type"] == "assistant" => id.to_owned(),
            _ => format!("{} {}", entry["timestamp"], entry["message"]["content"]),
        }
    }

    /// Returns the blocks of an entry that have content.
    fn blocks_of(&self, node: NodeId) -> Vec<Value> {
        let blocks = match &self.entry(node)["message"]["content"] {
            Value::String(text) => vec![json!({ "type": "text", "text": text })],
            Value::Array(blocks) => blocks.clone(),
            _ => Vec::new(),
        };
        let has_content = |block: &Value| match block["type"].as_str() {
            Some("text") => {
                let text = block["text"].as_str().unwrap_or_default().trim();
                !["", "(no content)", "[Empty text removed]"].contains(&text) && !is_client_text(text)
            }
            Some("tool_use") => block["id"].is_string(),
            Some("tool_result") => true,
            _ => false,
        };
        blocks.into_iter().filter(has_content).collect()
    }

    fn is_sent(&self, node: NodeId, block: &Value) -> bool {
        let folded = |text: &str| {
            let sent = self.results.get(&id_of(block));
            sent.is_some_and(|sent| sent.iter().any(|sent| sent.starts_with(text.trim())))
        };
        self.contents.contains(&content_of(&self.scope_of(node), block))
            || block["content"].as_str().is_some_and(folded)
    }

    fn compare(&self, client: Client) -> Result<(), String> {
        let facts = &self.session.facts;
        let findings = check(self.session, &[client]);
        let mut at_line: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        for node in facts.nodes.keys() {
            at_line.entry(facts.location(node).line).or_default().push(node);
        }
        for finding in findings.iter().filter(|finding| finding.severity == Severity::Loss) {
            if finding.lost_lines.is_empty() {
                return Err(format!("{:?} is a loss without a lost entry", finding.kind));
            }
            let queued =
                |node: NodeId| facts.nodes[node].flags.is_queued_prompt() && !self.chain.contains(&node);
            let misses = |node: &NodeId| {
                let blocks = self.blocks_of(*node);
                // Images and blocks of unknown kinds are not compared.
                queued(*node) || blocks.is_empty() || !blocks.iter().all(|b| self.is_sent(*node, b))
            };
            let sent = finding.lost_lines.iter().find(|line| !at_line[line].iter().any(misses));
            if let Some(line) = sent {
                return Err(format!("{:?}: line {line} is sent", finding.kind));
            }
        }
        if !self.accepted {
            return Ok(());
        }
        let reported: BTreeSet<u32> =
            findings.iter().flat_map(|finding| &finding.lost_lines).copied().collect();
        for &node in &intended_path_to(facts, self.session.conversation_end()).chain {
            let flags = facts.nodes[node].flags;
            let answer = facts.nodes[node].role == Role::Assistant;
            let of_client = answer && (flags.is_synthetic() || flags.is_failure_report());
            if !facts.nodes[node].is_conversation()
                || flags.is_virtual()
                || of_client
                || flags.is_notification()
            {
                continue;
            }
            for block in self.blocks_of(node) {
                let line = facts.location(node).line;
                let sent = self.is_sent(node, &block) || self.of_entry.contains(&(node, id_of(&block)));
                if !sent && !reported.contains(&line) {
                    return Err(format!("line {line} is not sent and not reported: {block}"));
                }
            }
        }
        Ok(())
    }
}

/// Returns whether `preview` leaves a text out because the client generates it again.
fn is_client_text(text: &str) -> bool {
    text.contains("<system-reminder>")
}

/// Returns a key for a block: its kind and its call.
fn id_of(block: &Value) -> String {
    format!("{} {} {}", block["type"], block["id"], block["tool_use_id"])
}

/// Returns a key for a block: its content, within a message or a call.
fn content_of(scope: &str, block: &Value) -> String {
    match block["type"].as_str() {
        Some("tool_use") => format!("{} {}", id_of(block), block["input"]),
        Some("tool_result") => format!("{} {}", id_of(block), block["content"]),
        Some("text") => format!("{scope} {}", block["text"].as_str().unwrap_or_default().trim()),
        _ => format!("{scope} {block}"),
    }
}
