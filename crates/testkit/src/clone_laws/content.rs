//! Laws about content: what is kept is unchanged, and nothing is left of what is removed.

use std::collections::{BTreeMap, BTreeSet};

use rethread_edit::Recipe;
use serde_json::Value;

use super::{CloneCase, cut, for_each_text, lines_and_rows, rows};
use crate::raw_json::{blocks_of, members_of};

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

/// Types of entries that record the work of a client; their copies of texts are not compared.
const TELEMETRY: [&str; 5] =
    ["progress", "api-request", "api-request-blob", "api-request-shape", "content-replacement"];

/// The note that a clone adds to a result whose call is not in the session.
const LONE_RESULT_NOTE: &str = "[The call of this result is not in the session.]";

/// Returns the raw members of an entry, without links.
fn raw_members(line: &[u8]) -> Vec<(String, &str)> {
    members_of(line).into_iter().filter(|(key, _)| !LINKS.contains(&key.as_str())).collect()
}

/// Unedited entries keep their bytes, except for links. Edited entries change only as the recipe asks, and where no
/// client would accept them.
pub fn kept_entries_unchanged(case: &CloneCase<'_>) -> Result<(), String> {
    if case.recipe.is_plain() {
        return Ok(());
    }
    let mut before: BTreeMap<String, Vec<(&[u8], Value)>> = BTreeMap::new();
    for (line, row) in lines_and_rows(case.log) {
        if let Some(uuid) = row["uuid"].as_str() {
            before.entry(uuid.to_owned()).or_default().push((line, row));
        }
    }
    for (line, row) in lines_and_rows(&case.with_old_ids) {
        let Some(old) = row["uuid"].as_str().and_then(|uuid| before.get(uuid)) else { continue };
        let members = raw_members(line);
        if !old.iter().any(|(old, _)| raw_members(old) == members) {
            // Of several entries with one uuid the last one counts.
            let (old_line, old) = &old[old.len() - 1];
            check_changed_entry((old_line, old), (line, &row), case.recipe)?;
        }
    }
    Ok(())
}

/// Checks an entry that changed, given as its line and its value.
fn check_changed_entry(
    (old_line, old): (&[u8], &Value),
    (new_line, new): (&[u8], &Value),
    recipe: &Recipe,
) -> Result<(), String> {
    let (old_content, new_content) = (&old["message"]["content"], &new["message"]["content"]);
    let text = text_of(new_content);
    let has_result_path = text.contains("tool-results");
    let comparable = without_expected_changes(new, old);
    if without_expected_changes(old, old) != comparable && !has_result_path {
        return Err(format!("entry {} has changed: {}", new["uuid"], cut(&comparable.to_string())));
    }
    let (old_blocks, new_blocks) = (blocks(old_content), blocks(new_content));
    let blank = |content: &Value| ["", "(no content)"].contains(&text_of(content).trim());
    let malformed = old_content.is_string() || old_blocks.iter().any(|block| block["type"].is_null());
    let repaired = text.contains(LONE_RESULT_NOTE)
        || malformed
        || old_blocks.iter().any(blank)
        || new_blocks.iter().any(blank);
    let old_blocks = blocks_of(old_line);
    if recipe.tools.shorten.is_none()
        && !has_result_path
        && !repaired
        && blocks_of(new_line).iter().any(|block| !old_blocks.contains(block))
    {
        return Err(format!("a block of entry {} has changed", new["uuid"]));
    }
    Ok(())
}

/// Returns an entry without its content and the fields that a clone may change; `old` is the entry of the source.
fn without_expected_changes(row: &Value, old: &Value) -> Value {
    let text = text_of(&row["message"]["content"]);
    let mut row = row.clone();
    let Some(fields) = row.as_object_mut() else { return row };
    fields.retain(|key, _| {
        !LINKS.contains(&key.as_str()) && !matches!(key.as_str(), "toolUseResult" | "wireToolInputs")
    });
    if text.trim() == "(no content)" || text.contains(LONE_RESULT_NOTE) {
        fields.remove("isMeta");
    }
    // Fields that clients need and the entry lacked.
    if old["timestamp"].is_null() {
        fields.remove("timestamp");
    }
    let added = |key: &str| matches!(key, "id" | "model") && old["message"][key].is_null();
    if let Some(message) = fields.get_mut("message").and_then(Value::as_object_mut) {
        message.retain(|key, _| !matches!(key.as_str(), "usage" | "content") && !added(key));
    }
    row
}

fn blocks(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.clone(),
        other => vec![other.clone()],
    }
}

/// Returns all strings in a value, one per line.
fn text_of(content: &Value) -> String {
    let mut all = String::new();
    add_texts(content, &mut all);
    all
}

fn add_texts(value: &Value, all: &mut String) {
    for_each_text(value, &mut |text| {
        all.push_str(text);
        all.push('\n');
    });
}

/// No text of a removed block is left, unless other content has it too. Compressed turns are summarised: no thinking
/// of them is left, and no long text as a whole.
pub fn no_removed_text_remains(case: &CloneCase<'_>) -> Result<(), String> {
    if case.recipe.is_plain() {
        return Ok(());
    }
    let (source, clone) = (rows(case.log), rows(&case.with_old_ids));
    let filter = BlockFilter::new(&source, &clone);
    let mut texts = SourceTexts::default();
    for row in &source {
        if !TELEMETRY.contains(&row["type"].as_str().unwrap_or_default()) {
            texts.add_entry(row, &filter)?;
        }
    }
    let mut left = String::new();
    clone.iter().for_each(|row| add_texts(row, &mut left));
    let min_len = |thinking: bool| if case.recipe.compress.is_some() && !thinking { 1000 } else { 40 };
    for (thinking, text) in &texts.removed {
        if text.len() >= min_len(*thinking) && left.contains(text) && !texts.kept.contains(text) {
            return Err(format!("removed text is left: {}", cut(text)));
        }
    }
    Ok(())
}

/// The texts of a source, by whether the clone keeps the blocks that contain them.
#[derive(Default)]
struct SourceTexts {
    /// Texts of removed blocks, each with whether it is thinking.
    removed: Vec<(bool, String)>,
    /// All other texts, one per line.
    kept: String,
}

impl SourceTexts {
    fn add_entry(&mut self, row: &Value, filter: &BlockFilter<'_>) -> Result<(), String> {
        let mut rest = row.clone();
        if let Some(blocks) = rest["message"]["content"].as_array_mut() {
            let is_media = |block: &&Value| block["type"] == "document" || block["type"] == "image";
            if filter.is_attached_to_removed_call(row)
                && let Some(media) = blocks.iter().filter(is_media).find(|block| filter.is_left(block))
            {
                return Err(format!("output of a removed call is left: {}", cut(&media.to_string())));
            }
            let mut result_removed = false;
            blocks.retain(|block| {
                let keep = filter.keeps(block);
                if !keep {
                    let kind = block["type"].as_str().unwrap_or_default();
                    result_removed |= kind == "tool_result";
                    self.add_removed(block, kind.ends_with("thinking"));
                }
                keep
            });
            if result_removed {
                self.add_removed(&rest["toolUseResult"], false);
                rest.as_object_mut().map(|row| row.remove("toolUseResult"));
            }
        }
        add_texts(&rest, &mut self.kept);
        Ok(())
    }

    fn add_removed(&mut self, value: &Value, thinking: bool) {
        for_each_text(value, &mut |text| self.removed.push((thinking, text.to_owned())));
    }
}

/// Decides for the blocks of a source whether its clone keeps them.
struct BlockFilter<'r> {
    /// The keys of the blocks in the clone.
    left: BTreeSet<String>,
    /// The ids of the calls in the source.
    calls: BTreeSet<&'r str>,
    /// The entries of the source.
    by_uuid: BTreeMap<&'r str, &'r Value>,
}

impl<'r> BlockFilter<'r> {
    fn new(source: &'r [Value], clone: &[Value]) -> Self {
        let assistant = source.iter().filter(|row| row["type"] == "assistant");
        Self {
            left: clone.iter().flat_map(block_list).map(key_of).collect(),
            calls: assistant.flat_map(block_list).filter_map(|block| block["id"].as_str()).collect(),
            by_uuid: source.iter().filter_map(|row| Some((row["uuid"].as_str()?, row))).collect(),
        }
    }

    /// Returns whether the clone contains a block.
    fn is_left(&self, block: &Value) -> bool {
        self.left.contains(&key_of(block))
    }

    /// Returns whether a block is a result without a call, which becomes text.
    fn is_lone_result(&self, block: &Value) -> bool {
        block["tool_use_id"].as_str().is_some_and(|id| !self.calls.contains(id))
    }

    fn keeps(&self, block: &Value) -> bool {
        let kind = block["type"].as_str().unwrap_or_default();
        let removable = ["tool_use", "tool_result", "thinking", "redacted_thinking"].contains(&kind);
        !removable || self.is_lone_result(block) || self.is_left(block)
    }

    /// Returns whether an entry is an attachment of a removed call: it is next to the result and removed with it.
    fn is_attached_to_removed_call(&self, row: &Value) -> bool {
        let parent = row["parentUuid"].as_str().and_then(|parent| self.by_uuid.get(parent));
        let blocks = parent.into_iter().flat_map(|parent| block_list(parent));
        let mut results = blocks.filter(|block| block["type"] == "tool_result").peekable();
        row["isMeta"] == true
            && results.peek().is_some()
            && results.all(|block| !self.is_left(block) && !self.is_lone_result(block))
    }
}

/// Iterates over the blocks of an entry.
fn block_list(row: &Value) -> impl Iterator<Item = &Value> {
    row["message"]["content"].as_array().into_iter().flatten()
}

/// Returns a key for a block: its call, its signature or its content.
fn key_of(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or_default();
    let id = block["id"].as_str().or_else(|| block["tool_use_id"].as_str());
    let signature = || block["signature"].as_str().filter(|s| !s.is_empty()).map(str::to_owned);
    format!("{kind} {}", id.map(str::to_owned).or_else(signature).unwrap_or_else(|| block.to_string()))
}
