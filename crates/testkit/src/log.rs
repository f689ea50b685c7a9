//! A builder of logs for tests.
//!
//! Entries have the fields and the key order of a 2.1 client. Ids and times are counters, so the same calls give the
//! same bytes.

use serde_json::{Value, json};

/// The uuid of an entry.
pub type EntryUuid = String;

/// A tool call that waits for its result.
#[derive(Debug, Clone)]
pub struct PendingCall {
    /// The id of the call.
    pub id: String,
    /// The entry that contains it.
    pub uuid: EntryUuid,
}

/// A log under construction.
#[derive(Debug, Clone)]
pub struct LogBuilder {
    number: u32,
    lines: Vec<String>,
    parent: Option<EntryUuid>,
    n_entries: u64,
    n_messages: u64,
    seconds: u64,
    sidechain: Option<String>,
    /// `version` of the following entries.
    pub version: String,
    /// `cwd` of the following entries.
    pub cwd: String,
    /// `gitBranch` of the following entries.
    pub git_branch: String,
    /// `message.model` of the following messages.
    pub model: String,
}

impl LogBuilder {
    /// Starts the log of session number `number`.
    pub fn new(number: u32) -> Self {
        Self {
            number,
            lines: Vec::new(),
            parent: None,
            n_entries: 0,
            n_messages: 0,
            seconds: 0,
            sidechain: None,
            version: "2.1.200".into(),
            cwd: "/home/user/app".into(),
            git_branch: "main".into(),
            model: "claude-opus-5".into(),
        }
    }

    /// Returns the session's id.
    pub fn session(&self) -> String {
        format!("{:08x}-0000-4000-8000-000000000000", self.number)
    }

    /// Returns the log.
    pub fn bytes(&self) -> Vec<u8> {
        self.lines.concat().into_bytes()
    }

    /// Advances the clock.
    pub fn wait(&mut self, seconds: u64) -> &mut Self {
        self.seconds += seconds;
        self
    }

    /// Continues from an earlier entry, as a rewind does.
    pub fn back_to(&mut self, uuid: &str) -> &mut Self {
        self.parent = Some(uuid.to_owned());
        self
    }

    /// Makes the next entry a root.
    pub fn restart(&mut self) -> &mut Self {
        self.parent = None;
        self
    }

    /// Returns the parent of the next entry.
    pub fn tip(&self) -> Option<EntryUuid> {
        self.parent.clone()
    }

    /// Makes the following entries those of a subagent, or of the main conversation again.
    pub fn sidechain(&mut self, agent: Option<&str>) -> &mut Self {
        self.sidechain = agent.map(str::to_owned);
        self
    }

    fn time(&mut self) -> String {
        self.seconds += 1;
        let (days, rest) = (self.seconds / 86_400, self.seconds % 86_400);
        format!("2026-01-{:02}T{:02}:{:02}:{:02}.000Z", 5 + days, rest / 3600, rest / 60 % 60, rest % 60)
    }

    /// Adds an entry of the tree with these fields after the parent, and continues from it.
    pub fn entry(&mut self, kind: &str, fields: Value) -> EntryUuid {
        self.n_entries += 1;
        let uuid = format!("{:08x}-0000-4000-8000-{:012x}", self.number, self.n_entries);
        let time = self.time();
        let mut entry = json!({ "parentUuid": self.parent, "isSidechain": self.sidechain.is_some() });
        if let Some(agent) = &self.sidechain {
            entry["agentId"] = json!(agent);
        }
        entry["type"] = json!(kind);
        if let Value::Object(fields) = fields {
            for (key, value) in fields {
                entry[key] = value;
            }
        }
        entry["uuid"] = json!(uuid);
        entry["timestamp"] = json!(time);
        entry["userType"] = json!("external");
        entry["cwd"] = json!(self.cwd);
        entry["sessionId"] = json!(self.session());
        entry["version"] = json!(self.version);
        entry["gitBranch"] = json!(self.git_branch);
        self.raw(&entry.to_string());
        self.parent = Some(uuid.clone());
        uuid
    }

    /// Adds a line unchanged.
    pub fn raw(&mut self, line: &str) -> &mut Self {
        self.lines.push(format!("{line}\n"));
        self
    }

    /// Adds bytes without a line break.
    pub fn torn(&mut self, bytes: &str) -> &mut Self {
        self.lines.push(bytes.to_owned());
        self
    }

    /// Adds a prompt.
    pub fn prompt(&mut self, text: &str) -> EntryUuid {
        self.entry("user", json!({ "message": { "role": "user", "content": text } }))
    }

    /// Adds a hidden note of the client.
    pub fn meta(&mut self, text: &str) -> EntryUuid {
        self.entry("user", json!({ "message": { "role": "user", "content": text }, "isMeta": true }))
    }

    /// Adds an assistant message with an entry for each block.
    pub fn message(&mut self, blocks: &[Value]) -> Vec<EntryUuid> {
        self.n_messages += 1;
        let id = format!("msg_{:04}{:08}", self.number, self.n_messages);
        blocks.iter().map(|block| self.block(&id, block)).collect()
    }

    /// Adds another block of a message.
    pub fn block(&mut self, message_id: &str, block: &Value) -> EntryUuid {
        let message = json!({
            "model": self.model, "id": message_id, "type": "message", "role": "assistant",
            "content": [block], "stop_reason": null, "stop_sequence": null,
            "usage": { "input_tokens": 10, "cache_creation_input_tokens": 200,
                "cache_read_input_tokens": 3000, "output_tokens": 40 },
        });
        self.entry("assistant", json!({ "message": message, "requestId": format!("req_{message_id}") }))
    }

    /// Adds an answer of one text.
    pub fn answer(&mut self, text: &str) -> EntryUuid {
        self.message(&[json!({ "type": "text", "text": text })]).remove(0)
    }

    /// Adds a message with thinking and a tool call.
    pub fn call(&mut self, tool: &str, input: &Value) -> PendingCall {
        self.calls(&[(tool, input.clone())]).remove(0)
    }

    /// Adds a message that calls several tools at once.
    pub fn calls(&mut self, calls: &[(&str, Value)]) -> Vec<PendingCall> {
        let id = |log: &Self, i: usize| format!("toolu_{:04}{:06}{i:02}", log.number, log.n_messages + 1);
        let blocks: Vec<Value> = calls
            .iter()
            .enumerate()
            .map(|(i, (tool, input))| json!({ "type": "tool_use", "id": id(self, i), "name": tool, "input": input }))
            .collect();
        let ids: Vec<String> = (0..calls.len()).map(|i| id(self, i)).collect();
        let uuids = self.message(&blocks);
        ids.into_iter().zip(uuids).map(|(id, uuid)| PendingCall { id, uuid }).collect()
    }

    /// Adds the result of a call as its child, as clients since 2.0.77 write it.
    pub fn result(&mut self, call: &PendingCall, text: &str) -> EntryUuid {
        self.result_with(call, &json!(text), &json!({ "stdout": text, "stderr": "" }))
    }

    /// Adds the result of a call with this content and this copy for the client.
    pub fn result_with(&mut self, call: &PendingCall, content: &Value, copy: &Value) -> EntryUuid {
        self.back_to(&call.uuid);
        let block =
            json!({ "tool_use_id": call.id, "type": "tool_result", "content": content, "is_error": false });
        self.entry(
            "user",
            json!({ "message": { "role": "user", "content": [block] }, "toolUseResult": copy,
                "sourceToolAssistantUUID": call.uuid }),
        )
    }

    /// Adds a system note of the client.
    pub fn system(&mut self, subtype: &str, content: &str) -> EntryUuid {
        self.entry("system", json!({ "subtype": subtype, "content": content, "level": "info" }))
    }

    /// Compacts: adds a boundary, which is a new root, and the summary after it.
    pub fn compact(&mut self, summary: &str) -> EntryUuid {
        let logical = self.parent.take();
        self.entry(
            "system",
            json!({ "logicalParentUuid": logical, "subtype": "compact_boundary", "content": "Conversation compacted",
                "level": "info", "compactMetadata": { "trigger": "auto", "preTokens": 150_000 } }),
        );
        self.entry(
            "user",
            json!({ "isVisibleInTranscriptOnly": true, "isCompactSummary": true,
                "message": { "role": "user", "content": format!("This session is being continued from a previous conversation that ran out of context. {summary}") } }),
        )
    }
}
