//! Removes envelope fields that no reader needs.

use rethread_log::{Json, Key, Line, Span};
use rustc_hash::FxHashMap;

use super::{EntryChanges, Rule};

/// Fields that most entries repeat.
const REPEATED: [Key; 4] = [Key::Cwd, Key::Version, Key::GitBranch, Key::Entrypoint];

/// Removes fields that readers do not use, and fields that repeat the value of an earlier entry.
pub(super) fn clean_envelope(
    raw: &[u8],
    line: &Line,
    repeated: &mut FxHashMap<Key, Vec<u8>>,
    changes: &mut EntryChanges,
) {
    let mut removed: Vec<Span> = Vec::new();
    let start = raw.iter().position(|&b| b == b'{').unwrap_or(0);
    let entry = Json::new(raw[start..].trim_ascii_end());
    entry.for_each_member(|name, value| {
        let known = Key::ALL.iter().copied().find(|key| key.name().as_bytes() == name);
        let keep = match known {
            None => matches!(name, b"title" | b"mode" | b"tag" | b"prUrl" | b"messageId"),
            Some(Key::RequestId) => false,
            Some(key) if REPEATED.contains(&key) => {
                let before = repeated.insert(key, value.raw().to_vec());
                before.as_deref() != Some(value.raw())
            }
            Some(_) => value.raw() != b"false",
        };
        if !keep {
            removed.push(Span::of_part(value.raw(), raw));
        }
    });
    if let Some(message) = &line.message {
        Json::new(message.whole.bytes_in(raw)).for_each_member(|name, value| {
            if !matches!(name, b"role" | b"id" | b"model" | b"content") {
                removed.push(Span::of_part(value.raw(), raw));
            }
        });
    }
    for span in removed {
        changes.remove_field(raw, span, Rule::Envelope);
    }
}
