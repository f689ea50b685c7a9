//! A document as one JSON object, with one item per line.

use std::borrow::Cow;
use std::io::{self, Write};

use rethread_model::{
    ListedSubagent, MessageEvent, MessageNo, NoteEvent, SiblingPath, TranscriptWriter, Usage,
    VisibleThinking, Visit,
};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Document;
use crate::rows::{MessageRow, NoteRow};

/// The version of the format; incremented when the meaning of a field changes.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct HeadRow<'a> {
    r#type: &'static str,
    version: u32,
    session: &'a str,
    title: &'a str,
    project: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    path_n: usize,
    paths: usize,
    status: &'static str,
    fork_point: Option<&'a str>,
    fork_message: Option<MessageNo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    begins_in: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resumes_at: Option<MessageNo>,
    messages: u32,
    turns: u32,
    compactions: u32,
    first: Option<String>,
    last: Option<String>,
    models: &'a [String],
    versions: &'a [String],
    git_branch: Option<&'a str>,
    usage: &'a Usage,
    branches: Vec<BranchRow<'a>>,
    defects: &'a [String],
}

#[derive(Serialize)]
struct BranchRow<'a> {
    n: usize,
    status: &'static str,
    file: Option<&'a str>,
    fork_message: Option<MessageNo>,
    messages: u32,
    last_prompt: &'a str,
}

/// A subagent that a call of the document started.
#[derive(Serialize)]
struct AgentRow<'a> {
    r#type: &'static str,
    name: &'a str,
    file: Option<&'a str>,
    messages: usize,
    call: Option<&'a str>,
}

fn status(active: bool) -> &'static str {
    if active { "active" } else { "abandoned" }
}

fn head_row<'d>(document: &Document<'d>) -> HeadRow<'d> {
    let (head, links) = (&document.transcript.header, document.links);
    HeadRow {
        r#type: "transcript",
        version: VERSION,
        session: &head.session,
        title: &head.title,
        project: &head.project,
        agent: head.subagent.as_deref(),
        path_n: head.path_n,
        paths: head.paths,
        status: status(head.active),
        fork_point: head.fork_point.as_deref(),
        fork_message: head.fork_message,
        begins_in: links.begins_in.as_ref().map(|(file, _)| file.as_str()),
        resumes_at: head.resumes_at,
        messages: head.messages,
        turns: head.turns,
        compactions: head.compactions,
        first: head.span.and_then(|(first, _)| first.to_iso()),
        last: head.span.and_then(|(_, last)| last.to_iso()),
        models: &head.models,
        versions: &head.versions,
        git_branch: head.git_branch.as_deref(),
        usage: &head.usage,
        branches: branch_rows(document),
        defects: &head.defects,
    }
}

fn branch_rows<'d>(document: &Document<'d>) -> Vec<BranchRow<'d>> {
    let row = |(i, sibling): (usize, &'d SiblingPath)| BranchRow {
        n: sibling.n,
        status: status(sibling.active),
        file: document.links.sibling(i),
        fork_message: sibling.fork_message,
        messages: sibling.messages,
        last_prompt: &sibling.last_prompt,
    };
    document.transcript.header.siblings.iter().enumerate().map(row).collect()
}

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>) -> io::Result<()> {
    let head = serde_json::to_string(&head_row(document)).map_err(io::Error::other)?;
    // The items are streamed into the object that the head opens.
    out.write_all(head.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"items\":[")?;
    document.transcript.walk(&mut JsonWriter { document, out, is_first: true })
}

struct JsonWriter<'a> {
    document: &'a Document<'a>,
    out: &'a mut dyn Write,
    is_first: bool,
}

impl JsonWriter<'_> {
    fn write_row(&mut self, row: &impl Serialize) -> io::Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut *self.out, row).map_err(io::Error::other)
    }
}

impl TranscriptWriter for JsonWriter<'_> {
    fn raw_message(&mut self, event: &MessageEvent<'_>) -> io::Result<Visit> {
        let mut row = MessageRow::from(event.message);
        row.session = Some(event.session())
            .filter(|id| *id != self.document.transcript.header.session)
            .map(str::to_owned);
        let blocks = std::mem::take(&mut row.blocks).into_iter();
        row.blocks = blocks.filter_map(|block| visible_block(self.document, event, block)).collect();
        self.write_row(&row)?;
        Ok(Visit::Skip)
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        self.write_row(&NoteRow::from(event.note))
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        self.note(event)
    }

    fn end(&mut self, subagents: &[ListedSubagent<'_>]) -> io::Result<()> {
        self.out.write_all(b"\n],\"subagents\":[")?;
        self.is_first = true;
        for listed in subagents {
            self.write_row(&AgentRow {
                r#type: "subagent",
                name: &listed.subagent.name,
                file: self.document.links.subagent(listed.number),
                messages: listed.subagent.messages,
                call: listed.call_id,
            })?;
        }
        self.out.write_all(b"\n]}\n")
    }
}

/// Removes hidden content from a block, and inserts the full text of a shortened result.
fn visible_block<'a>(
    document: &Document<'_>,
    event: &MessageEvent<'_>,
    block: Cow<'a, RawValue>,
) -> Option<Cow<'a, RawValue>> {
    let text = block.get();
    // Most blocks are unchanged.
    let content = &document.transcript.content;
    let thinks = content.thinking == VisibleThinking::Hidden && text.contains("thinking");
    let pictured = !content.images && text.contains("\"data\"");
    let shortened = text.contains("<persisted-output>");
    if !thinks && !pictured && !shortened {
        return Some(block);
    }
    let Ok(mut value) = serde_json::from_str::<Value>(text) else { return Some(block) };
    if thinks && matches!(value["type"].as_str(), Some("thinking" | "redacted_thinking")) {
        return None;
    }
    if pictured {
        remove_media_data(&mut value);
    }
    if shortened {
        let make_whole = |text: &mut Value| {
            if let Some(whole) = text.as_str().and_then(|text| event.whole_result(text)) {
                *text = whole.into();
            }
        };
        match value.get_mut("content") {
            Some(Value::Array(items)) => {
                items.iter_mut().filter_map(|item| item.get_mut("text")).for_each(make_whole);
            }
            Some(content) => make_whole(content),
            None => {}
        }
    }
    serde_json::value::to_raw_value(&value).ok().map(Cow::Owned)
}

/// Removes the data of images and documents from a block.
fn remove_media_data(block: &mut Value) {
    let of_source = |item: &mut Value| {
        if let Some(source) = item.get_mut("source").and_then(Value::as_object_mut)
            && source.get("type").is_some_and(|kind| kind == "base64")
        {
            source.insert("data".into(), "".into());
        }
    };
    if let Some(items) = block.get_mut("content").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(of_source);
    }
    of_source(block);
}
