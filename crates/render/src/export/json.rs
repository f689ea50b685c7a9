//! A document as one JSON object, with one item per line.

use std::borrow::Cow;
use std::io::{self, Write};

use rethread_model::{MessageNo, Time, Usage};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Document, DocumentHead, DocumentPart};
use crate::rows::ShowRow;

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
    file: &'a str,
    messages: usize,
    call: Option<String>,
}

fn status(active: bool) -> &'static str {
    if active { "active" } else { "abandoned" }
}

fn head_row(head: &DocumentHead) -> HeadRow<'_> {
    HeadRow {
        r#type: "transcript",
        version: VERSION,
        session: &head.session,
        title: &head.title,
        project: &head.project,
        agent: head.agent.as_deref(),
        path_n: head.path.0,
        paths: head.path.1,
        status: status(head.active),
        fork_point: head.fork.as_ref().map(|(uuid, _)| uuid.as_str()),
        fork_message: head.fork.as_ref().and_then(|(_, n)| *n),
        begins_in: head.begins_in.as_ref().map(|(file, _)| file.as_str()),
        resumes_at: head.resumes_at,
        messages: head.messages,
        turns: head.turns,
        compactions: head.compactions,
        first: head.span.0.and_then(Time::to_iso),
        last: head.span.1.and_then(Time::to_iso),
        models: &head.models,
        versions: &head.versions,
        git_branch: head.git_branch.as_deref(),
        usage: &head.usage,
        branches: head
            .branches
            .iter()
            .map(|branch| BranchRow {
                n: branch.n,
                status: status(branch.active),
                file: branch.file.as_deref(),
                fork_message: branch.fork,
                messages: branch.messages.0,
                last_prompt: &branch.last_prompt,
            })
            .collect(),
        defects: &head.defects,
    }
}

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>) -> io::Result<()> {
    let head = serde_json::to_string(&head_row(document.head)).map_err(io::Error::other)?;
    // The items are streamed into the object that the head opens.
    out.write_all(head.trim_end_matches('}').as_bytes())?;
    out.write_all(b",\"items\":[")?;
    let mut first = true;
    for part in document.parts {
        part.items.for_each_step(|run, _| {
            for item in &run.items {
                let row = ShowRow::from(item);
                let own = part.session == document.head.session;
                let mut row = if own { row } else { row.with_session(part.session) };
                if let ShowRow::Message(message) = &mut row {
                    message.blocks = std::mem::take(&mut message.blocks)
                        .into_iter()
                        .filter_map(|block| visible_block(document, part, block))
                        .collect();
                }
                write_row(out, &row, &mut first)?;
            }
            Ok(())
        })?;
    }
    out.write_all(b"\n],\"subagents\":[")?;
    let mut first = true;
    let called = agent_call_ids(document);
    let lost: FxHashSet<usize> = document.head.unlinked_agents.iter().copied().collect();
    for (index, agent) in document.agents.iter().enumerate() {
        let call = called.get(&index).map(|call| Some((*call).to_owned()));
        let Some(call) = call.or(lost.contains(&index).then_some(None)) else { continue };
        let row = AgentRow {
            r#type: "subagent",
            name: &agent.name,
            file: &agent.file,
            messages: agent.messages,
            call,
        };
        write_row(out, &row, &mut first)?;
    }
    out.write_all(b"\n]}\n")
}

/// Removes hidden content from a block, and inserts the full text of a shortened result.
fn visible_block<'a>(
    document: &Document<'_>,
    part: &DocumentPart<'_>,
    block: Cow<'a, RawValue>,
) -> Option<Cow<'a, RawValue>> {
    let text = block.get();
    // Most blocks are unchanged.
    let thinks = !document.thinking && text.contains("thinking");
    let pictured = !document.images && text.contains("\"data\"");
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
    if let (true, Some(whole)) = (shortened, &part.sidecars.whole_result) {
        let make_whole = |text: &mut Value| {
            let read = |text: &str| whole(text, &|file| document.shown.mark_result_shown(file));
            if let Some(found) = text.as_str().and_then(read) {
                *text = found.into();
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

fn write_row(out: &mut dyn Write, row: &impl Serialize, first: &mut bool) -> io::Result<()> {
    out.write_all(if *first { b"\n" } else { b",\n" })?;
    *first = false;
    serde_json::to_writer(out, row).map_err(io::Error::other)
}

/// Finds the calls of this document that started subagents: their ids, by subagent.
fn agent_call_ids<'d>(document: &'d Document<'_>) -> FxHashMap<usize, &'d str> {
    let mut called: FxHashMap<usize, &str> = FxHashMap::default();
    for part in document.parts {
        let mut calls: Vec<_> =
            part.sidecars.agents.iter().filter(|(call, _)| part.items.makes_call(**call)).collect();
        calls.sort_unstable();
        for (&call, agents) in calls {
            for &agent in agents {
                called.entry(agent).or_insert_with(|| part.items.call_id(call));
            }
        }
    }
    called
}
