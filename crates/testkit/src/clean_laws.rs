//! Laws that every cleaned log must satisfy, checked without the code that cleans.

use std::collections::{BTreeMap, BTreeSet};

use rethread_edit::{CleanReport, Cleaner, Level, RedactOptions, Redaction, RuleSet};
use rethread_log::Scanner;
use rethread_model::{Block, Client, NodeId, Path, Session, StepKind};
use serde_json::Value;

/// Cleans a log, with as many passes as needed.
pub fn clean(log: &[u8], rules: RuleSet, redact: &RedactOptions) -> (Vec<u8>, CleanReport) {
    let redaction = redact.is_enabled().then(|| {
        let mut redaction = Redaction::new(redact.clone());
        for line in log.split_inclusive(|&b| b == b'\n') {
            match serde_json::from_slice::<Value>(line) {
                Ok(_) => redaction.scan_entry(line),
                Err(_) => redaction.scan_text(&String::from_utf8_lossy(line)),
            }
        }
        redaction.finish_scan();
        redaction
    });
    let mut reparents = None;
    loop {
        let mut out = Vec::new();
        let mut write = |bytes: &mut Vec<u8>| {
            out.append(bytes);
            Ok(())
        };
        let mut cleaner = Cleaner::new(rules, redaction.as_ref(), reparents.take(), &mut write);
        Scanner::default().scan_all(log, &mut cleaner);
        let mut cleaned = cleaner.finish().expect("writing to memory cannot fail");
        reparents = cleaned.rerun_with.take();
        if reparents.is_none() {
            return (out, cleaned);
        }
    }
}

/// Checks all laws for a log cleaned at a level; the error names the first violation.
pub fn check_clean(log: &[u8], level: Level) -> Result<(), String> {
    let rules = RuleSet::of(level);
    let (out, cleaned) = clean(log, rules, &RedactOptions::default());
    if cleaned.bytes_before != log.len() as u64 || cleaned.bytes_after != out.len() as u64 {
        return Err("the sizes are not those of the files".to_owned());
    }
    let removed: u64 = cleaned.by_rule.values().sum();
    // An id may replace another id or `null`, which changes the length.
    let deviation = (cleaned.bytes_before - cleaned.bytes_after.min(cleaned.bytes_before)).abs_diff(removed);
    if deviation > 40 * (1 + cleaned.dropped) * 4 {
        return Err(format!(
            "the rules removed {removed} of {} bytes",
            cleaned.bytes_before - cleaned.bytes_after
        ));
    }
    check_parents_kept(log, &out)?;
    check_texts_kept(log, &out)?;
    let (twice, _) = clean(&out, rules, &RedactOptions::default());
    if twice != out {
        return Err("cleaning again changes more".to_owned());
    }
    let (before, after) = (Session::read(log), Session::read(&out));
    if before.turns() != after.turns() {
        return Err(format!("{} turns became {}", before.turns(), after.turns()));
    }
    // A branch of nothing but thinking is removed with it.
    let has_content = |session: &Session, node: NodeId| {
        let is_content = |block: &Block| !block.class.is_thinking() && !block.class.is_blank();
        session.facts.blocks_of(node).iter().any(is_content) || session.facts.blocks_of(node).is_empty()
    };
    // The last message of a path may have client notes after it.
    let by_step = before.tree.nodes_by_step();
    let ends_with_content = |path: &&Path| {
        let mut up = std::iter::successors(Some(path.step), |&step| before.tree.parent_of(step));
        let last =
            up.find(|&step| matches!(before.tree.steps[step].kind, StepKind::Prompt | StepKind::Answer));
        let nodes = by_step.members_of(last.unwrap_or(path.step));
        nodes.iter().any(|&node| before.facts.nodes[node].is_conversation() && has_content(&before, node))
    };
    let paths = before.paths(Client::NEWEST);
    let least = paths.iter().filter(ends_with_content).count();
    let left = after.paths(Client::NEWEST).len();
    if level <= Level::Strong && !(least..=paths.len()).contains(&left) {
        return Err(format!("{} paths became {left}", paths.len()));
    }
    if level.is_resumable() { check_no_new_findings(&before, &after) } else { Ok(()) }
}

fn rows(log: &[u8]) -> Vec<Value> {
    // Some lines contain two entries.
    let on_line = |line| serde_json::Deserializer::from_slice(line).into_iter().map_while(Result::ok);
    log.split(|&b| b == b'\n').flat_map(on_line).filter(Value::is_object).collect()
}

/// Checks that the parent of every entry is its nearest kept ancestor, or another entry of the same message as a
/// removed ancestor.
fn check_parents_kept(log: &[u8], out: &[u8]) -> Result<(), String> {
    let mut parents: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut messages: BTreeMap<String, String> = BTreeMap::new();
    for row in rows(log) {
        if let Some(uuid) = row["uuid"].as_str() {
            parents.insert(uuid.to_owned(), row["parentUuid"].as_str().map(str::to_owned));
            messages.extend(row["message"]["id"].as_str().map(|id| (uuid.to_owned(), id.to_owned())));
        }
    }
    let cleaned = rows(out);
    let left: BTreeSet<&str> = cleaned.iter().filter_map(|row| row["uuid"].as_str()).collect();
    for row in &cleaned {
        let Some(uuid) = row["uuid"].as_str() else { continue };
        let Some(mut parent) = parents.get(uuid).cloned() else {
            return Err(format!("{uuid} is new"));
        };
        let mut steps = 0;
        let now = row["parentUuid"].as_str();
        let message = messages.get(uuid);
        while let Some(id) = parent.clone().filter(|id| !left.contains(id.as_str())) {
            let Some(above) = parents.get(&id) else { break };
            let removed = messages.get(&id);
            if removed.is_some() && removed != message && now.is_some_and(|now| messages.get(now) == removed)
            {
                parent = now.map(str::to_owned);
                break;
            }
            steps += 1;
            if steps > parents.len() {
                return Ok(());
            }
            parent = above.clone();
        }
        if now != parent.as_deref() {
            return Err(format!("{uuid} has parent {} instead of {parent:?}", row["parentUuid"]));
        }
    }
    Ok(())
}

/// Checks that the texts of the user and the model are kept, except for data in them.
fn check_texts_kept(log: &[u8], out: &[u8]) -> Result<(), String> {
    let texts = |log: &[u8]| {
        let mut by_uuid: BTreeMap<String, String> = BTreeMap::new();
        for row in rows(log).iter().filter(|row| row["isMeta"] != true) {
            let Some(uuid) = row["uuid"].as_str() else { continue };
            if row["type"] != "user" && row["type"] != "assistant" {
                continue;
            }
            let content = &row["message"]["content"];
            let mut text = content.as_str().unwrap_or_default().to_owned();
            for block in content.as_array().into_iter().flatten().filter(|block| block["type"] == "text") {
                text += block["text"].as_str().unwrap_or_default();
            }
            by_uuid.insert(uuid.to_owned(), text);
        }
        by_uuid
    };
    let after = texts(out);
    for (uuid, text) in texts(log).into_iter().filter(|(_, text)| !text.trim().is_empty()) {
        let left = after.get(&uuid).ok_or(format!("the text of {uuid} is removed"))?;
        // Notes about images and calls may be inserted.
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"+/=\n\r".contains(&b);
        let data = text.contains(";base64,") || text.len() >= 512 && text.bytes().all(plain);
        if !data && !left.contains(&text) && !pieces_in(&text, left) {
            return Err(format!("the text of {uuid} has changed"));
        }
    }
    Ok(())
}

fn pieces_in(text: &str, left: &str) -> bool {
    let mut at = 0;
    text.split_whitespace().all(|word| match left[at..].find(word) {
        Some(found) => {
            at += found + word.len();
            true
        }
        None => false,
    })
}

/// Checks that no client reports a problem that it did not report before.
fn check_no_new_findings(before: &Session, after: &Session) -> Result<(), String> {
    let harm = |session: &Session| -> BTreeSet<(&'static str, Client)> {
        let found = crate::harmful_findings_of(session);
        found.iter().flat_map(|f| f.clients.iter().map(|&client| (f.kind.name(), client))).collect()
    };
    let (was, is) = (harm(before), harm(after));
    // A client that lost something before may lose it for another reason now.
    let lost = |client: Client| was.iter().any(|&(_, of)| of == client);
    let new: Vec<_> =
        is.difference(&was).filter(|(_, client)| Client::IN_USE.contains(client) || !lost(*client)).collect();
    match new.first() {
        Some((kind, client)) => Err(format!("{kind} for {} is new", client.version())),
        None => Ok(()),
    }
}
