//! Laws that every clone must satisfy, checked without the code that clones.

use std::collections::{BTreeMap, BTreeSet};

use rethread_edit::{CloneReading, CloneSummary, IdMap, PreparedClone, Recipe, SourceIndexer, SourceSession};
use rethread_log::{BlockKind, Scanner};
use rethread_model::{
    BlockClass, Client, EntryNo, FactsBuilder, Finding, MessageKind, MessageView, NodeId, PartOrigin, Path,
    Session, TranscriptItem, check, resume,
};
use serde_json::Value;

use crate::raw_json::{blocks_of, members_of};

/// The id of the source in these checks if its file has none.
pub const SOURCE_ID: &str = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa";
/// The id of the clone.
pub const CLONE_ID: &str = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb";

/// Clones a log.
pub fn clone_of(log: &[u8], id: &str, recipe: &Recipe, keep_ids: bool) -> Result<Vec<u8>, String> {
    let source = SourceSession::read(log);
    match rethread_edit::normalise_source(&source, recipe).map_err(|error| error.to_string())? {
        Some((log, recipe)) => make_clone(&SourceSession::read(&log), id, &recipe, keep_ids)?.bytes(),
        None => make_clone(&source, id, recipe, keep_ids)?.bytes(),
    }
    .map_err(|error| error.to_string())
}

fn make_clone<'a>(
    source: &'a SourceSession<'a>,
    id: &str,
    recipe: &Recipe,
    keep: bool,
) -> Result<PreparedClone<'a>, String> {
    rethread_edit::plan_clone(source, recipe, IdMap::new(id, CLONE_ID, keep))
        .map_err(|error| error.to_string())
}

/// A clone of a log by a recipe, once with new ids and once with the old ones.
pub struct CloneCase<'l> {
    log: &'l [u8],
    id: &'l str,
    recipe: &'l Recipe,
    with_new_ids: Vec<u8>,
    with_old_ids: Vec<u8>,
}

impl<'l> CloneCase<'l> {
    /// Makes both clones.
    pub fn new(log: &'l [u8], id: &'l str, recipe: &'l Recipe) -> Result<Self, String> {
        let fresh = clone_of(log, id, recipe, false)?;
        let kept = clone_of(log, id, recipe, true)?;
        Ok(Self { log, id, recipe, with_new_ids: fresh, with_old_ids: kept })
    }
}

/// A law that every clone must satisfy.
pub type CloneLaw = fn(&CloneCase<'_>) -> Result<(), String>;

macro_rules! named {
    ($($law:ident),* $(,)?) => { [$((stringify!($law), $law as CloneLaw)),*] };
}

/// All laws by name.
pub const CLONE_LAWS: [(&str, CloneLaw); 9] = named![
    written_as_predicted,
    no_source_id_remains,
    only_ids_differ,
    all_clients_resume_clone,
    kept_entries_unchanged,
    no_removed_text_remains,
    dialogue_is_kept,
    every_prompt_is_sent,
    cloning_is_idempotent,
];

/// Checks all laws for the clone of a log by a recipe; the error names the first violation.
pub fn check_clone(log: &[u8], id: &str, recipe: &Recipe) -> Result<(), String> {
    let case = CloneCase::new(log, id, recipe)?;
    CLONE_LAWS.iter().try_for_each(|(_, law)| law(&case))
}

/// A lazily read log gives the same clone, and the predicted summary and findings are those of the written clone.
pub fn written_as_predicted(case: &CloneCase<'_>) -> Result<(), String> {
    check_prediction(case.log, case.id, case.recipe, false, &case.with_new_ids)?;
    check_prediction(case.log, case.id, case.recipe, true, &case.with_old_ids)
}

/// New ids replace the old ones everywhere and change nothing else. A plain clone equals its source except for ids.
pub fn only_ids_differ(case: &CloneCase<'_>) -> Result<(), String> {
    let ids = &uuids(case.log) | &uuids(&case.with_old_ids);
    same_but_for_ids(&case.with_old_ids, &case.with_new_ids, case.id, &ids)?;
    if case.recipe.is_plain() {
        same_but_for_ids(without_torn_end(case.log), &case.with_new_ids, case.id, &ids)?;
    }
    Ok(())
}

/// No client loses or refuses anything of an edited clone, and all clients send the same content. For a plain clone
/// each client sends what it sends for the source.
pub fn all_clients_resume_clone(case: &CloneCase<'_>) -> Result<(), String> {
    if case.recipe.is_plain() {
        same_findings(case.log, &case.with_new_ids)?;
        return same_previews(case.log, &case.with_new_ids);
    }
    // The log of a subagent cannot be resumed.
    if Session::read(case.log).facts.is_all_sidechain() {
        Ok(())
    } else {
        resumes_everywhere(&case.with_new_ids)
    }
}

/// Clones a lazily read log whose content is `later` on the second read; `None` if it has to be normalised first.
pub fn clone_by_reading_again(
    log: &[u8],
    later: &[u8],
    id: &str,
    recipe: &Recipe,
    keep_ids: bool,
) -> Result<Option<(Vec<u8>, CloneReading)>, String> {
    let (mut noting, mut builder) = (SourceIndexer::for_lazy_source(recipe, 0), FactsBuilder::for_size(0));
    Scanner::default().scan(log, &mut noting);
    let mut scanner = Scanner::default();
    scanner.scan(log, &mut builder);
    let facts = builder.finish(scanner.lines(), scanner.bad_lines);
    let again = |offset: u64, bytes: &mut [u8]| {
        let start = usize::try_from(offset).map_err(std::io::Error::other)?;
        let there = later.get(start..start + bytes.len());
        bytes.copy_from_slice(there.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    };
    let source = SourceSession::lazy(&again, log.len() as u64, noting, facts);
    if rethread_edit::normalise_source(&source, recipe).map_err(|error| error.to_string())?.is_some() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let outcome = make_clone(&source, id, recipe, keep_ids)?.write(&mut |mut piece| {
        bytes.append(&mut piece);
        Ok(piece)
    });
    outcome.map(|outcome| Some((bytes, outcome.reading))).map_err(|error| error.to_string())
}

/// Checks that a lazily read log gives the same clone, and that the predicted summary and findings are those of the
/// written clone.
pub fn check_prediction(
    log: &[u8],
    id: &str,
    recipe: &Recipe,
    keep_ids: bool,
    clone: &[u8],
) -> Result<(), String> {
    let Some((bytes, reading)) = clone_by_reading_again(log, log, id, recipe, keep_ids)? else {
        return Ok(());
    };
    if bytes != clone {
        return Err("the clone of the lazily read log differs".to_owned());
    }
    let CloneReading::Predicted(gist, findings) = reading else { return Ok(()) };
    let session = Session::read(clone);
    let (read, harm) = (CloneSummary::of(&session), crate::harmful_findings_of(&session));
    if *gist != read {
        return Err(format!("{gist:?} was predicted, but it is {read:?}"));
    }
    let debug = |findings: &[Finding]| format!("{findings:?}");
    if debug(&findings) == debug(&harm) { Ok(()) } else { Err(format!("{harm:?} was not predicted")) }
}

fn lines_and_rows(log: &[u8]) -> impl Iterator<Item = (&[u8], Value)> {
    log.split(|&b| b == b'\n')
        .filter_map(|line| Some((line, serde_json::from_slice(line).ok()?)))
        .filter(|(_, row): &(_, Value)| row.is_object())
}

fn rows(log: &[u8]) -> Vec<Value> {
    lines_and_rows(log).map(|(_, row)| row).collect()
}

/// Returns the uuids of all entries, including those on lines that are not valid JSON.
fn uuids(log: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(log);
    let mut found: BTreeSet<String> =
        rows(log).iter().filter_map(|row| row["uuid"].as_str().map(str::to_owned)).collect();
    let uuid = |text: &str| text.get(..36).map(str::to_owned);
    let two = text.lines().filter(|line| serde_json::from_str::<Value>(line).is_err());
    found.extend(two.flat_map(|line| line.split("\"uuid\":\"").skip(1).filter_map(uuid)));
    found
}

/// No uuid of the source is left, and every `sessionId` is that of the clone.
pub fn no_source_id_remains(case: &CloneCase<'_>) -> Result<(), String> {
    let (clone, id) = (&case.with_new_ids, case.id);
    let text = String::from_utf8_lossy(clone);
    let named = rows(case.log).into_iter().filter_map(|row| row["uuid"].as_str().map(str::to_owned));
    for uuid in named.filter(|uuid| uuid.len() == 36) {
        if text.contains(uuid.as_str()) {
            return Err(format!("the uuid {uuid} of the source is left"));
        }
    }
    for row in rows(clone) {
        let own = row["sessionId"].as_str();
        if own.is_some_and(|own| own != CLONE_ID) {
            return Err(format!("the session {} is left (source {id})", row["sessionId"]));
        }
    }
    Ok(())
}

/// Checks that two logs are equal byte for byte except for ids, which are renamed one to one.
fn same_but_for_ids(old: &[u8], new: &[u8], id: &str, ids: &BTreeSet<String>) -> Result<(), String> {
    let mut to: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let mut from: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
    let lines = |log: &[u8]| -> Vec<Vec<u8>> {
        log.split_inclusive(|&b| b == b'\n')
            .map(|line| line.strip_suffix(b"\n").unwrap_or(line).to_vec())
            .collect()
    };
    let (old, new) = (lines(old), lines(new));
    if old.len() != new.len() {
        return Err(format!("{} lines became {}", old.len(), new.len()));
    }
    for (number, (old, new)) in old.iter().zip(&new).enumerate() {
        let (old, new) = (pieces(old), pieces(new));
        if old.len() != new.len() {
            return Err(format!("line {} has another form", number + 1));
        }
        for (a, b) in old.into_iter().zip(new) {
            if a == b {
                let text = String::from_utf8_lossy(&a);
                if ids.contains(&*text) && !to.is_empty() && to.contains_key(&a) {
                    return Err(format!("line {}: {text} was not renamed", number + 1));
                }
                continue;
            }
            let renamed = to.entry(a.clone()).or_insert_with(|| b.clone());
            let back = from.entry(b.clone()).or_insert_with(|| a.clone());
            let text = String::from_utf8_lossy(&a);
            // All session ids in a file become one.
            let session = b == CLONE_ID.as_bytes();
            if !session && (*renamed != b || *back != a) || !(session || ids.contains(&*text) || *text == *id)
            {
                let b = String::from_utf8_lossy(&b);
                return Err(format!("line {}: {} became {}", number + 1, cut(&text), cut(&b)));
            }
        }
    }
    Ok(())
}

/// Returns a log without an incomplete last line, which is not copied.
fn without_torn_end(log: &[u8]) -> &[u8] {
    let end = log.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let torn = log[end..].starts_with(b"{") && serde_json::from_slice::<Value>(&log[end..]).is_err();
    if torn { &log[..end] } else { log }
}

fn cut(text: &str) -> String {
    text.chars().take(120).collect()
}

/// Splits a line at quotes and slashes; slashes because some paths contain a session id.
fn pieces(line: &[u8]) -> Vec<Vec<u8>> {
    line.split(|&b| matches!(b, b'"' | b'/' | b'\\')).map(<[u8]>::to_vec).collect()
}

fn harmful_findings(log: &[u8]) -> Vec<Finding> {
    crate::harmful_findings_of(&Session::read(log))
}

fn same_findings(log: &[u8], clone: &[u8]) -> Result<(), String> {
    let findings = |log: &[u8]| -> Vec<_> {
        let all = check(&Session::read(log), &Client::ALL);
        // A missing final line break is added, and an incomplete last line is removed.
        all.into_iter()
            .filter(|f| {
                !matches!(
                    f.kind,
                    rethread_model::FindingKind::NoLineBreak | rethread_model::FindingKind::CutShort
                )
            })
            // All session ids are one in the clone.
            .filter(|f| f.kind != rethread_model::FindingKind::SeveralSessions)
            .map(|f| (f.line, f.kind, f.severity, f.clients))
            .collect()
    };
    let (before, after) = (findings(log), findings(clone));
    if before == after { Ok(()) } else { Err(format!("findings differ: {before:?} and {after:?}")) }
}

/// Returns the blocks that a client sends.
fn wire(log: &[u8], client: Client) -> Vec<(bool, String)> {
    let session = Session::read(log);
    let resumed = resume(&session.facts, client);
    let wire = rethread_model::Reader::new(&session, log).wire_messages(&resumed, client, "");
    let blocks = wire.iter().flat_map(|m| m.blocks.iter().map(move |block| (m.assistant, block)));
    blocks
        .map(|(assistant, block)| (assistant, String::from_utf8_lossy(block.json().raw()).into_owned()))
        .collect()
}

fn same_previews(log: &[u8], clone: &[u8]) -> Result<(), String> {
    for client in Client::ALL {
        let (before, after) = (wire(log, client), wire(clone, client));
        let same = |(a, b): (&(bool, String), &(bool, String))| {
            a == b || a.0 == b.0 && (a.1.contains("tool-results") || b.1.contains(CLONE_ID))
        };
        if before.len() != after.len() || !before.iter().zip(&after).all(same) {
            return Err(format!("{client:?} would send something else"));
        }
    }
    Ok(())
}

/// Returns the conversation that is sent, in order: prompts, answers, calls and results. Content that clients add, or
/// that only some of them send, is left out: thinking, markers, notes, command records, notices.
fn sent_content(log: &[u8], client: Client) -> Vec<(bool, PartOrigin)> {
    let session = Session::read(log);
    let mut sent = Vec::new();
    for mut message in resume(&session.facts, client).messages {
        message.parts.retain(|part| {
            let of_client = part.origin.node().is_none_or(|node| {
                let fact = &session.facts.nodes[node];
                let flags = fact.flags;
                let in_dialogue = flags.is_human() || flags.has_result() || flags.is_summary();
                fact.role != rethread_model::Role::Assistant && !in_dialogue
            });
            !part.class.is_thinking() && part.class != BlockClass::Fallback && !of_client
        });
        message
            .parts
            .sort_by_key(|part| (part.class != BlockClass::ToolResult, part.class == BlockClass::ToolCall));
        sent.extend(message.parts.iter().map(|part| (message.assistant, part.origin)));
    }
    sent
}

fn resumes_everywhere(clone: &[u8]) -> Result<(), String> {
    if let Some(finding) = harmful_findings(clone).first() {
        return Err(format!("check finds {:?} for {:?}: {}", finding.kind, finding.clients, finding.detail));
    }
    let newest = sent_content(clone, Client::NEWEST);
    for client in Client::ALL {
        if sent_content(clone, client) != newest {
            return Err(format!("{client:?} and the newest client do not send the same"));
        }
    }
    Ok(())
}

/// Returns an entry without its references to other entries, which a clone may change.
fn without_links(row: &Value) -> Value {
    let mut row = row.clone();
    if let Some(row) = row.as_object_mut() {
        row.retain(|key, _| !LINKS.contains(&key.as_str()));
    }
    row
}

/// Fields that a clone may change because they contain ids of other entries.
const LINKS: [&str; 7] = [
    "parentUuid",
    "logicalParentUuid",
    "sessionId",
    "session_id",
    "leafUuid",
    "sourceToolAssistantUUID",
    "compactMetadata",
];

/// Returns the raw members of an entry, without links.
fn raw_members(line: &[u8]) -> Vec<(String, &str)> {
    members_of(line).into_iter().filter(|(key, _)| !LINKS.contains(&key.as_str())).collect()
}

/// Unedited entries keep their bytes, except for links. Edited entries change only as the recipe asks, and where no
/// client would accept them.
pub fn kept_entries_unchanged(case: &CloneCase<'_>) -> Result<(), String> {
    let (log, clone, recipe) = (case.log, &case.with_old_ids, case.recipe);
    if recipe.is_plain() {
        return Ok(());
    }
    let mut before: BTreeMap<String, Vec<(&[u8], Value)>> = BTreeMap::new();
    for (line, row) in lines_and_rows(log) {
        if let Some(uuid) = row["uuid"].as_str() {
            before.entry(uuid.to_owned()).or_default().push((line, row));
        }
    }
    for (line, row) in lines_and_rows(clone) {
        let Some(was) = row["uuid"].as_str().and_then(|uuid| before.get(uuid)) else { continue };
        let now = raw_members(line);
        if was.iter().any(|(was, _)| raw_members(was) == now) {
            continue;
        }
        let (old_line, was) = &was[was.len() - 1];
        let (mut a, mut b) = (without_links(was), without_links(&row));
        for row in [&mut a, &mut b] {
            for key in ["toolUseResult", "wireToolInputs"] {
                row.as_object_mut().map(|row| row.remove(key));
            }
            // Fields that clients need and the entry lacked.
            for key in ["id", "model"] {
                if was["message"][key].is_null() {
                    row["message"].as_object_mut().map(|message| message.remove(key));
                }
            }
            if text_of(&row["message"]["content"]).trim() == "(no content)" {
                row.as_object_mut().map(|row| row.remove("isMeta"));
            }
            if text_of(&row["message"]["content"])
                .contains("[The call of this result is not in the session.]")
            {
                row.as_object_mut().map(|row| row.remove("isMeta"));
            }
            if was["timestamp"].is_null() {
                row.as_object_mut().map(|row| row.remove("timestamp"));
            }
            row["message"].as_object_mut().map(|message| message.remove("usage"));
            row["message"].as_object_mut().map(|message| message.remove("content"));
        }
        let path = text_of(&row["message"]["content"]);
        let results = path.contains("tool-results");
        if a != b && !results {
            return Err(format!("entry {} has changed: {}", row["uuid"], cut(&b.to_string())));
        }
        let (old, new) = (blocks(&was["message"]["content"]), blocks(&row["message"]["content"]));
        let lone = path.contains("[The call of this result is not in the session.]");
        let blank = |content: &Value| ["", "(no content)"].contains(&text_of(content).trim());
        let malformed =
            was["message"]["content"].is_string() || old.iter().any(|block| block["type"].is_null());
        let repaired = lone || malformed || old.iter().any(blank) || new.iter().any(blank);
        let (old, new) = (blocks_of(old_line), blocks_of(line));
        if recipe.tools.shorten.is_none()
            && !results
            && !repaired
            && new.iter().any(|block| !old.contains(block))
        {
            return Err(format!("a block of entry {} has changed", row["uuid"]));
        }
    }
    Ok(())
}

fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.clone(),
        other => vec![other.clone()],
    }
}

fn text_of(content: &Value) -> String {
    let mut all = String::new();
    leaves(content, &mut |text| {
        all.push_str(text);
        all.push('\n');
    });
    all
}

fn leaves(value: &Value, take: &mut impl FnMut(&str)) {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => take(text),
            Value::Array(items) => waiting.extend(items),
            Value::Object(members) => waiting.extend(members.values()),
            _ => {}
        }
    }
}

/// No text of a removed block is left, unless other content has it too. Compressed turns are summarised: no thinking
/// of them is left, and no long text as a whole.
pub fn no_removed_text_remains(case: &CloneCase<'_>) -> Result<(), String> {
    let (log, clone, recipe) = (case.log, &case.with_old_ids, case.recipe);
    if recipe.is_plain() {
        return Ok(());
    }
    let mut left: BTreeSet<String> = BTreeSet::new();
    for row in rows(clone) {
        for block in row["message"]["content"].as_array().into_iter().flatten() {
            left.insert(key_of(block));
        }
    }
    let (mut removed, mut other): (Vec<(bool, String)>, String) = (Vec::new(), String::new());
    let source = rows(log);
    let calls: BTreeSet<String> = source
        .iter()
        .filter(|row| row["type"] == "assistant")
        .flat_map(|row| row["message"]["content"].as_array().cloned().unwrap_or_default())
        .filter_map(|block| block["id"].as_str().map(str::to_owned))
        .collect();
    let by_uuid: BTreeMap<&str, &Value> =
        source.iter().filter_map(|row| Some((row["uuid"].as_str()?, row))).collect();
    let telemetry =
        ["progress", "api-request", "api-request-blob", "api-request-shape", "content-replacement"];
    for row in &source {
        let kind = row["type"].as_str().unwrap_or_default();
        if telemetry.contains(&kind) {
            continue;
        }
        let mut rest = row.clone();
        let above = row["parentUuid"].as_str().and_then(|parent| by_uuid.get(parent));
        let results_above =
            above.into_iter().flat_map(|above| above["message"]["content"].as_array()).flatten();
        let mut results_above = results_above.filter(|block| block["type"] == "tool_result").peekable();
        // Attachments of a call, next to its result, are removed with it; a result without a call becomes text.
        let lone = |block: &Value| block["tool_use_id"].as_str().is_some_and(|id| !calls.contains(id));
        let attached = row["isMeta"] == true
            && results_above.peek().is_some()
            && results_above.all(|block| !left.contains(&key_of(block)) && !lone(block));
        if let Some(blocks) = rest["message"]["content"].as_array_mut() {
            let mut results_gone = false;
            let media = |block: &&Value| block["type"] == "document" || block["type"] == "image";
            if let Some(media) =
                blocks.iter().filter(media).find(|block| attached && left.contains(&key_of(block)))
            {
                return Err(format!("what a call gave is left: {}", cut(&media.to_string())));
            }
            blocks.retain(|block| {
                let kind = block["type"].as_str().unwrap_or_default();
                let judged = ["tool_use", "tool_result", "thinking", "redacted_thinking"].contains(&kind);
                let keep = !judged || lone(block) || left.contains(&key_of(block));
                if !keep {
                    results_gone |= kind == "tool_result";
                    let thought = kind.ends_with("thinking");
                    leaves(block, &mut |text| removed.push((thought, text.to_owned())));
                }
                keep
            });
            if results_gone {
                leaves(&rest["toolUseResult"], &mut |text| removed.push((false, text.to_owned())));
                rest.as_object_mut().map(|row| row.remove("toolUseResult"));
            }
        }
        leaves(&rest, &mut |text| {
            other.push_str(text);
            other.push('\n');
        });
    }
    let mut now = String::new();
    for row in rows(clone) {
        leaves(&row, &mut |text| {
            now.push_str(text);
            now.push('\n');
        });
    }
    let long = |&&(thought, ref text): &&(bool, String)| {
        text.len() >= if recipe.compress.is_some() && !thought { 1000 } else { 40 }
    };
    for (_, text) in removed.iter().filter(long) {
        if now.contains(text.as_str()) && !other.contains(text.as_str()) {
            return Err(format!("removed text is left: {}", cut(text)));
        }
    }
    Ok(())
}

/// Returns a key for a block: its call, its signature or its content.
fn key_of(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or_default();
    let id = block["id"].as_str().or_else(|| block["tool_use_id"].as_str());
    let signature = || block["signature"].as_str().filter(|s| !s.is_empty()).map(str::to_owned);
    format!("{kind} {}", id.map(str::to_owned).or_else(signature).unwrap_or_else(|| block.to_string()))
}

/// The dialogue is kept, each path of it on one path of the clone: on all paths, or on the chosen one, to its end.
/// Compressed turns appear in their summary.
pub fn dialogue_is_kept(case: &CloneCase<'_>) -> Result<(), String> {
    let (log, clone, recipe) = (case.log, &case.with_new_ids, case.recipe);
    if recipe.is_plain() {
        return Ok(());
    }
    let single = recipe.path.is_some() || recipe.until.is_some() || recipe.compress.is_some();
    let chosen = |path: &Path| match recipe.path {
        Some(n) => path.n == n,
        None => !single || path.active,
    };
    let answers = recipe.compress.is_none();
    let in_dialogue = |message: &MessageView<'_>| match message.kind {
        MessageKind::Prompt => !message.meta,
        MessageKind::Answer => answers && message.model.is_some_and(|model| model != "<synthetic>"),
        _ => false,
    };
    let mut before = message_texts(log, chosen, in_dialogue, recipe.until);
    if recipe.compress.is_some() {
        let (mut now, mut whole) = (String::new(), BTreeSet::new());
        for row in rows(clone) {
            leaves(&row, &mut |text| {
                now.push_str(text);
                now.push('\n');
                whole.insert(text.trim().to_owned());
            });
        }
        // Searching all texts is slow, and nearly every text is found whole.
        let kept = |text: &String| whole.contains(text) || now.contains(text.as_str());
        return match before.iter().flatten().find(|text| !kept(text)) {
            Some(lost) => Err(format!("text of the dialogue is lost: {}", cut(lost))),
            None => Ok(()),
        };
    }
    let mut after = message_texts(clone, |path| !single || path.active, |_| true, None);
    if Session::read(log).facts.has_duplicates() {
        // Entries with a duplicate id have no definite position.
        before.iter_mut().chain(&mut after).for_each(|texts| texts.sort_unstable());
    }
    for path in before {
        let mut best = 0;
        for now in &after {
            let mut now = now.iter();
            best = best.max(path.iter().take_while(|text| now.any(|other| other == *text)).count());
            if best == path.len() {
                break;
            }
        }
        if let Some(lost) = path.get(best) {
            return Err(format!("text of the dialogue is lost: {}", cut(lost)));
        }
    }
    Ok(())
}

/// Every prompt that the newest client sends for the source, including queued ones, is sent by each current client for
/// the clone. Only recipes that choose a path or compress turns may omit prompts. For a plain clone each client sends
/// the prompts that it sends for the source.
pub fn every_prompt_is_sent(case: &CloneCase<'_>) -> Result<(), String> {
    let CloneCase { log, recipe, with_new_ids: fresh, .. } = case;
    if recipe.path.is_some() || recipe.until.is_some() || recipe.compress.is_some() {
        return Ok(());
    }
    for client in Client::IN_USE {
        let before = prompts(log, if recipe.is_plain() { client } else { Client::NEWEST });
        let after = prompts(fresh, client);
        if let Some(lost) = before.difference(&after).next() {
            return Err(format!("{} does not send the prompt {}", client.version(), cut(lost)));
        }
    }
    Ok(())
}

/// Returns the prompts that a client sends: typed ones, and those queued while the model was working.
fn prompts(log: &[u8], client: Client) -> BTreeSet<String> {
    let session = Session::read(log);
    let reader = rethread_model::Reader::new(&session, log);
    let resumed = resume(&session.facts, client);
    let typed = resumed.messages.iter().flat_map(|message| &message.parts).filter_map(|p| p.origin.node());
    let typed = typed.filter(|&node| session.facts.nodes[node].flags.is_human());
    let mut found: BTreeSet<String> = typed.map(|node| reader.prompt_words(node).trim().to_owned()).collect();
    let boundary = |node: &NodeId| session.facts.nodes[*node].flags.is_boundary();
    let start = resumed.chain.iter().rposition(boundary).unwrap_or(0);
    let chain = if resumed.refusal.is_none() { &resumed.chain[start..] } else { &[] };
    for &node in chain.iter().filter(|&&node| session.facts.nodes[node].flags.is_queued_prompt()) {
        let entry: Value =
            serde_json::from_slice(reader.entry_bytes(session.facts.nodes[node].entry)).unwrap_or_default();
        found.insert(format!("(queued) {}", entry["attachment"]["prompt"]));
    }
    found
}

/// Returns the texts of messages on each chosen path, to its end or to a message.
fn message_texts(
    log: &[u8],
    chosen: impl Fn(&Path) -> bool,
    included: impl Fn(&MessageView<'_>) -> bool,
    until: Option<usize>,
) -> Vec<Vec<String>> {
    let session = Session::read(log);
    let reader = rethread_model::Reader::new(&session, log);
    let mut all = Vec::new();
    for path in session.paths(Client::NEWEST).iter().filter(|path| chosen(path)) {
        let mut path_texts = Vec::new();
        let chain = chain_of(&session, path.tip);
        for item in reader.items(path.step) {
            let TranscriptItem::Message(message) = item else { continue };
            // A queued prompt off the chain is displayed, but no client finds it; `check` reports it.
            let found =
                message.entries.iter().any(|entry| chain.contains(entry)) || !is_queued(&session, &message);
            if included(&message) && found {
                let texts = message.blocks.iter().filter(|block| block.kind == Some(BlockKind::Text));
                let texts = texts.map(|block| block.text().trim().to_owned());
                // No client accepts an empty text.
                path_texts.extend(texts.filter(|text| !["", "(no content)"].contains(&text.as_str())));
            }
            if until == Some(message.n.get() as usize) {
                break;
            }
        }
        all.push(path_texts);
    }
    all
}

/// Returns the numbers of the entries on the parent chain of a tip.
fn chain_of(session: &Session, tip: NodeId) -> BTreeSet<EntryNo> {
    let mut chain = BTreeSet::new();
    let mut at = Some(tip);
    while let Some(node) = at {
        chain.insert(session.facts.nodes[node].entry);
        at = session.tree.links[node].target();
    }
    chain
}

fn is_queued(session: &Session, message: &MessageView<'_>) -> bool {
    let first = session.facts.messages[message.n].first_node;
    session.facts.nodes[first].flags.is_queued_prompt()
}

/// Cloning a clone by the same recipe changes nothing.
pub fn cloning_is_idempotent(case: &CloneCase<'_>) -> Result<(), String> {
    let (kept, recipe) = (&case.with_old_ids, case.recipe);
    let mut again = recipe.clone();
    // The chosen path is the active one now, and it ends where it was cut.
    let active = Session::read(kept).paths(Client::NEWEST).iter().find(|path| path.active).map(|path| path.n);
    if again.until.take().is_some() || again.path.is_some() {
        again.path = active;
    }
    let twice = clone_of(kept, CLONE_ID, &again, true)?;
    if twice == *kept {
        return Ok(());
    }
    let lines =
        |log: &[u8]| -> Vec<String> { String::from_utf8_lossy(log).lines().map(str::to_owned).collect() };
    let (once, twice) = (lines(kept), lines(&twice));
    let at = once.iter().zip(&twice).position(|(a, b)| a != b).unwrap_or(once.len().min(twice.len()));
    let shown = |lines: &[String]| lines.get(at).map_or("nothing".to_owned(), |line| cut(line));
    Err(format!("twice changes line {} of {}: {} became {}", at + 1, once.len(), shown(&once), shown(&twice)))
}

/// Returns the recipes to try on a log, with their names: each single change, every path, and some combinations.
pub fn recipes(log: &[u8]) -> Vec<(String, Recipe)> {
    use rethread_edit::{CompressOptions, Preset, ToolRecipe};
    let session = Session::read(log);
    let mut all: Vec<(String, Recipe)> = vec![("plain".into(), Recipe::default())];
    let mut add = |name: &str, change: &dyn Fn(&mut Recipe)| {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        all.push((name.to_owned(), recipe));
    };
    let strip = |names: &[&str]| ToolRecipe {
        strip: Some(names.iter().map(|&name| name.to_owned()).collect()),
        ..ToolRecipe::default()
    };
    let compress = |keep| Some(CompressOptions { keep, ..CompressOptions::default() });
    for preset in Preset::ALL {
        add(preset.name(), &|recipe| preset.add_to(recipe));
    }
    add("strip-tools", &|recipe| recipe.tools = strip(&[]));
    add("strip-tools=Bash,Read", &|recipe| recipe.tools = strip(&["Bash", "Read"]));
    add("keep-tools 1", &|recipe| recipe.tools.keep = Some(1));
    add("shorten-tools 100", &|recipe| recipe.tools.shorten = Some(100));
    add("strip-thinking", &|recipe| recipe.strip_thinking = true);
    add("compress=5", &|recipe| recipe.compress = compress(5));
    add("compress=1", &|recipe| recipe.compress = compress(1));
    add("compress=0", &|recipe| recipe.compress = compress(0));
    add("strip-tools strip-thinking", &|recipe| {
        recipe.tools = strip(&[]);
        recipe.strip_thinking = true;
    });
    add("compress=2 strip-thinking", &|recipe| {
        recipe.compress = compress(2);
        recipe.strip_thinking = true;
    });
    add("heavy compress=5", &|recipe| {
        Preset::Heavy.add_to(recipe);
        recipe.compress = compress(5);
    });
    let paths = session.paths(Client::NEWEST);
    for path in &paths {
        add(&format!("path {}", path.n), &|recipe| recipe.path = Some(path.n));
    }
    if let Some(path) = paths.iter().rfind(|path| path.active) {
        add("path strip-tools", &|recipe| {
            recipe.path = Some(path.n);
            recipe.tools = strip(&[]);
        });
        let reader = rethread_model::Reader::new(&session, log);
        let numbers: Vec<usize> = reader
            .items(path.step)
            .iter()
            .filter_map(|item| {
                if let TranscriptItem::Message(message) = item {
                    Some(message.n.get() as usize)
                } else {
                    None
                }
            })
            .collect();
        for part in [1, 2, 3] {
            if let Some(&n) = numbers.get(numbers.len() * part / 4) {
                add(&format!("until {n}"), &|recipe| recipe.until = Some(n));
            }
        }
    }
    all
}
