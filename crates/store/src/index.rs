//! `sessions-index.json`: the list of sessions that clients around 2.1.20 keep in a project.

use std::io::{self, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::confined::ConfinedPath;

/// The entry of a session in the index.
#[derive(Debug, Clone)]
pub struct IndexEntry {
    /// The session id.
    pub id: String,
    /// The first prompt.
    pub first_prompt: String,
    /// The number of messages.
    pub messages: u64,
    /// The time of the first entry, as ISO 8601.
    pub created: Option<String>,
    /// The time of the last entry, as ISO 8601.
    pub modified: Option<String>,
    /// The git branch.
    pub git_branch: Option<String>,
    /// The working directory of the project.
    pub project: Option<String>,
}

/// Adds a session to the index of its project; returns whether it was added. A missing or unknown index
/// is left alone.
pub fn add_to_index(log: &Path, new: &IndexEntry) -> io::Result<bool> {
    let Some(dir) = log.parent() else { return Ok(false) };
    let index = ConfinedPath::new(dir, "sessions-index.json");
    let text = match index.read() {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    let Ok(mut list) = serde_json::from_slice::<Value>(&text) else { return Ok(false) };
    let modified = ConfinedPath::of_file(log).open()?.metadata()?.modified()?;
    let millis = modified.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_millis());
    let is_supported = list.get("version").is_some_and(|version| version == 1);
    let entries = list.get_mut("entries").and_then(Value::as_array_mut).filter(|_| is_supported);
    let Some(entries) = entries else { return Ok(false) };
    if entries.iter().any(|entry| entry.get("sessionId").is_some_and(|id| id == new.id.as_str())) {
        return Ok(false);
    }
    entries.push(json!({
        "sessionId": new.id,
        "fullPath": log.to_string_lossy(),
        "fileMtime": u64::try_from(millis).unwrap_or(0),
        "firstPrompt": new.first_prompt,
        "messageCount": new.messages,
        "created": new.created,
        "modified": new.modified,
        "gitBranch": new.git_branch.clone().unwrap_or_default(),
        "projectPath": new.project.clone().unwrap_or_default(),
        "isSidechain": false,
    }));
    // Indented by two spaces if it was so before, else on one line, as clients write it.
    let pretty = text.contains(&b'\n');
    let bytes = if pretty { serde_json::to_vec_pretty(&list)? } else { serde_json::to_vec(&list)? };
    // If a client has written the index in the meantime, its version wins.
    let (dir, name) = index.open_parent()?;
    let mut part = dir.create_part(0o600)?;
    part.file.write_all(&bytes)?;
    part.file.sync_all()?;
    if index.read()? != text {
        return Ok(false);
    }
    part.persist(name)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn index_entry() -> IndexEntry {
        IndexEntry {
            id: "b".into(),
            first_prompt: "hello".into(),
            messages: 2,
            created: None,
            modified: None,
            git_branch: Some("main".into()),
            project: Some("/p".into()),
        }
    }

    #[test]
    fn session_is_added_only_to_a_valid_index() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("b.jsonl");
        fs::write(&log, "x").expect("written");
        let index = dir.path().join("sessions-index.json");
        assert!(!add_to_index(&log, &index_entry()).expect("index missing"), "no index is created");
        assert!(!index.exists());
        for invalid in [
            "[]",
            "5",
            "\"x\"",
            "null",
            "{\"version\":2,\"entries\":[]}",
            "{\"version\":1,\"entries\":{}}",
            "torn {",
        ] {
            fs::write(&index, invalid).expect("written");
            assert!(!add_to_index(&log, &index_entry()).expect("index read"));
            assert_eq!(fs::read_to_string(&index).expect("read"), invalid);
        }
        fs::write(&index, r#"{"version":1,"more":1.5,"entries":[{"sessionId":"a","x":null}]}"#)
            .expect("written");
        assert!(add_to_index(&log, &index_entry()).expect("added"));
        assert!(!add_to_index(&log, &index_entry()).expect("once only"));
        let text = fs::read_to_string(&index).expect("read");
        assert!(text.starts_with(
            r#"{"version":1,"more":1.5,"entries":[{"sessionId":"a","x":null},{"sessionId":"b""#
        ));
    }
}
