//! The usage in one row of a log.

use std::borrow::Cow;

use rethread_log::{BlockKind, Entry, EntryContent, EntryKind, Json, Key, Line, unescape};
use serde::{Deserialize, Serialize};

use super::{RecordedUsage, Usage};
use crate::id::{Time, Uid};

/// The kind of record that a usage was found in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum UsageSource {
    /// An answer of the model.
    Answer,
    /// A progress record, which copies an answer of a subagent while it is still growing.
    Progress,
}

/// The terms that change the price of a response, besides its model and its tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BillingTerms {
    /// Fast mode.
    pub is_fast: bool,
    /// Inference in the United States only.
    pub is_us: bool,
    /// Batch processing.
    pub is_batch: bool,
}

/// A row of a log that has the usage of a response.
#[derive(Debug, Clone)]
pub struct UsageRow<'a> {
    /// The kind of record.
    pub source: UsageSource,
    /// Its line in the log.
    pub line: u32,
    /// The usage.
    pub recorded: RecordedUsage,
    /// The usage as it is written.
    pub usage_json: Json<'a>,
    /// The terms that change its price.
    pub terms: BillingTerms,
    /// `message.id`, if there is one.
    pub message_id: Option<&'a [u8]>,
    /// The id of the row.
    pub uuid: Option<Uid>,
    /// `requestId`
    pub request_id: Option<&'a [u8]>,
    /// The time at which the row was written.
    pub time: Option<Time>,
    /// The model.
    pub model: Option<&'a [u8]>,
    /// `sessionId`
    pub session: Option<&'a [u8]>,
    /// `cwd`
    pub cwd: Option<&'a [u8]>,
    /// `gitBranch`
    pub git_branch: Option<&'a [u8]>,
    /// `agentId`
    pub agent: Option<&'a [u8]>,
    /// `version` of the client.
    pub version: Option<&'a [u8]>,
    /// Set for a row of a subagent.
    pub is_sidechain: bool,
    /// Set if the row was copied from the session that this one was forked from.
    pub is_fork_copy: bool,
    /// The tool calls in the row: id and name.
    pub tools: Vec<(&'a [u8], &'a [u8])>,
}

/// The model of answers that a client wrote itself.
const SYNTHETIC: &[u8] = b"<synthetic>";

impl<'a> UsageRow<'a> {
    /// The text that every row with a usage contains.
    pub const MARK: &'static [u8] = b"\"usage\"";

    /// Reads the usage in an entry, if it has one.
    pub fn parse(entry: &Entry<'a>, line: &Line) -> Option<Self> {
        if entry.content != EntryContent::Object {
            return None;
        }
        let raw = entry.raw;
        let string = |key: Key| line.string(key, raw);
        let row = Self {
            source: UsageSource::Answer,
            line: entry.line,
            recorded: RecordedUsage::default(),
            usage_json: Json::new(b"null"),
            terms: BillingTerms::default(),
            message_id: None,
            uuid: string(Key::Uuid).map(Uid::new),
            request_id: string(Key::RequestId),
            time: string(Key::Timestamp).and_then(Time::parse),
            model: None,
            session: string(Key::SessionId),
            cwd: string(Key::Cwd),
            git_branch: string(Key::GitBranch),
            agent: string(Key::AgentId),
            version: string(Key::Version),
            is_sidechain: line.flag(Key::IsSidechain, raw),
            is_fork_copy: Json::new(line.field(Key::ForkedFrom).bytes_in(raw)).is_object(),
            tools: Vec::new(),
        };
        match line.kind? {
            EntryKind::Assistant => row.with_answer(line, raw),
            EntryKind::Progress => row.with_progress(Json::new(line.field(Key::Data).bytes_in(raw))),
            _ => None,
        }
    }

    /// Reads the message of an answer.
    fn with_answer(mut self, line: &Line, raw: &'a [u8]) -> Option<Self> {
        let message = line.message?;
        let is_final = message.stop_reason.string_in(raw).is_some();
        self.set_usage(Json::new(message.usage.bytes_in(raw)), is_final)?;
        self.message_id = message.id.string_in(raw).filter(|id| !id.is_empty());
        self.model = message.model.string_in(raw);
        let calls = line.blocks.iter().filter(|block| block.kind == Some(BlockKind::ToolUse));
        self.tools = calls
            .filter_map(|call| Some((call.id.string_in(raw).unwrap_or_default(), call.name.string_in(raw)?)))
            .collect();
        Some(self)
    }

    /// Reads the answer of a subagent in a progress record.
    fn with_progress(mut self, data: Json<'a>) -> Option<Self> {
        self.source = UsageSource::Progress;
        let entry = data.get("message")?;
        let mut message = None;
        entry.for_each_member(|key, value| match key {
            b"message" => message = Some(value),
            b"timestamp" => self.time = value.raw_string().and_then(Time::parse).or(self.time),
            b"requestId" => self.request_id = value.raw_string(),
            b"uuid" => self.uuid = value.raw_string().map(Uid::new),
            _ => {}
        });
        data.for_each_member(|key, value| {
            if key == b"agentId" {
                self.agent = value.raw_string();
            }
        });
        let (mut usage, mut is_final, mut content) = (None, false, None);
        message?.for_each_member(|key, value| match key {
            b"id" => self.message_id = value.raw_string().filter(|id| !id.is_empty()),
            b"model" => self.model = value.raw_string(),
            b"stop_reason" => is_final = value.is_string(),
            b"usage" => usage = Some(value),
            b"content" => content = Some(value),
            _ => {}
        });
        self.set_usage(usage?, is_final)?;
        for block in content.into_iter().flat_map(Json::items) {
            let (mut id, mut name, mut is_call) = (None, None, false);
            block.for_each_member(|key, value| match key {
                b"type" => is_call = value.raw_string() == Some(b"tool_use"),
                b"id" => id = value.raw_string(),
                b"name" => name = value.raw_string(),
                _ => {}
            });
            if let (true, Some(name)) = (is_call, name) {
                self.tools.push((id.unwrap_or_default(), name));
            }
        }
        Some(self)
    }

    fn set_usage(&mut self, usage: Json<'a>, is_final: bool) -> Option<()> {
        self.recorded = RecordedUsage { usage: Usage::parse(usage)?, is_final };
        self.usage_json = usage;
        usage.for_each_member(|key, value| match (key, value.raw_string()) {
            (b"speed", Some(b"fast")) => self.terms.is_fast = true,
            (b"inference_geo", Some(b"us")) => self.terms.is_us = true,
            (b"service_tier", Some(b"batch")) => self.terms.is_batch = true,
            _ => {}
        });
        Some(())
    }

    /// Returns whether a client wrote the row itself, without a response of the API.
    pub fn is_synthetic(&self) -> bool {
        self.model == Some(SYNTHETIC)
    }

    /// Returns the name of the model, or nothing if none is recorded.
    pub fn model_name(&self) -> Cow<'a, str> {
        self.model.map_or(Cow::Borrowed(""), unescape)
    }
}

#[cfg(test)]
mod tests {
    use rethread_log::{Defect, Scanner, Sink};

    use super::*;

    /// Source, output, whether it is final, message id, tools.
    type Described = (UsageSource, u64, bool, Option<String>, Vec<String>);

    struct Rows(Vec<Described>);

    impl Sink for Rows {
        fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if let Some(row) = UsageRow::parse(entry, line) {
                let tools = row.tools.iter().map(|(_, name)| text(name)).collect();
                let RecordedUsage { usage, is_final } = row.recorded;
                self.0.push((row.source, usage.output, is_final, row.message_id.map(text), tools));
            }
        }

        fn defect(&mut self, _: Defect) {}
    }

    #[test]
    fn answers_and_progress_records_have_usage() {
        let log = br#"{"type":"assistant","message":{"id":"m1","stop_reason":"end_turn","content":[{"type":"tool_use","id":"t","name":"Bash","input":{"id":null}}],"usage":{"output_tokens":3}}}
{"type":"assistant","message":{"id":null,"content":[],"usage" : {"output_tokens": 4,"cache_creation_input_tokens":null}}}
{"type":"user","toolUseResult":{"usage":{"output_tokens":9}},"message":{"role":"user","content":"x"}}
{"type":"progress","data":{"type":"agent_progress","agentId":"a1","message":{"type":"assistant","message":{"id":"m2","content":[{"type":"tool_use","id":"u","name":"Read","input":{}}],"stop_reason":null,"usage":{"output_tokens":1}}}}}
{"type":"progress","data":{"type":"bash_progress","output":"\"usage\""}}
{"type":"assistant","message":{"id":"m3","usage":null}}
"#;
        let mut rows = Rows(Vec::new());
        Scanner::default().scan(log, &mut rows);
        let id = |id: &str| Some(id.to_owned());
        assert_eq!(
            rows.0,
            [
                (UsageSource::Answer, 3, true, id("m1"), vec!["Bash".to_owned()]),
                (UsageSource::Answer, 4, false, None, vec![]),
                (UsageSource::Progress, 1, false, id("m2"), vec!["Read".to_owned()]),
            ]
        );
    }
}
