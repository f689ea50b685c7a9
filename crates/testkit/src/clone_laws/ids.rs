//! Laws about ids: a clone has new ones everywhere, and they are its only difference from a clone with the old ids.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{CLONE_ID, CloneCase, cut, rows};

/// New ids replace the old ones everywhere and change nothing else. A plain clone equals its source except for ids.
pub fn only_ids_differ(case: &CloneCase<'_>) -> Result<(), String> {
    let ids = &uuids(case.log) | &uuids(&case.with_old_ids);
    same_but_for_ids(&case.with_old_ids, &case.with_new_ids, case.id, &ids)?;
    if case.recipe.is_plain() {
        same_but_for_ids(without_torn_end(case.log), &case.with_new_ids, case.id, &ids)?;
    }
    Ok(())
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
    let (old, new) = (lines(old), lines(new));
    if old.len() != new.len() {
        return Err(format!("{} lines became {}", old.len(), new.len()));
    }
    let mut renames = Renames::default();
    for (number, (old, new)) in (1..).zip(old.into_iter().zip(new)) {
        let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (pieces(old).collect(), pieces(new).collect());
        if old.len() != new.len() {
            return Err(format!("line {number} has another form"));
        }
        for (old, new) in old.into_iter().zip(new) {
            renames.check(old, new, id, ids).map_err(|error| format!("line {number}: {error}"))?;
        }
    }
    Ok(())
}

fn lines(log: &[u8]) -> Vec<&[u8]> {
    log.split_inclusive(|&b| b == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line)).collect()
}

/// Splits a line at quotes and slashes; slashes because some paths contain a session id.
fn pieces(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| matches!(b, b'"' | b'/' | b'\\'))
}

/// The renamed ids, in both directions.
#[derive(Default)]
struct Renames<'l> {
    new_ids: BTreeMap<&'l [u8], &'l [u8]>,
    old_ids: BTreeMap<&'l [u8], &'l [u8]>,
}

impl<'l> Renames<'l> {
    /// Checks that two pieces of a line are equal, or that both are ids and the renaming is one to one.
    fn check(
        &mut self,
        old: &'l [u8],
        new: &'l [u8],
        id: &str,
        ids: &BTreeSet<String>,
    ) -> Result<(), String> {
        let text = String::from_utf8_lossy(old);
        if old == new {
            let renamed_before = ids.contains(&*text) && self.new_ids.contains_key(old);
            return if renamed_before { Err(format!("{text} was not renamed")) } else { Ok(()) };
        }
        let renamed = *self.new_ids.entry(old).or_insert(new);
        let back = *self.old_ids.entry(new).or_insert(old);
        // All session ids in a file become one.
        let session = new == CLONE_ID.as_bytes();
        let one_to_one = session || renamed == new && back == old;
        let is_id = session || ids.contains(&*text) || *text == *id;
        if one_to_one && is_id {
            return Ok(());
        }
        Err(format!("{} became {}", cut(&text), cut(&String::from_utf8_lossy(new))))
    }
}

/// Returns a log without an incomplete last line, which is not copied.
fn without_torn_end(log: &[u8]) -> &[u8] {
    let end = log.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
    let torn = log[end..].starts_with(b"{") && serde_json::from_slice::<Value>(&log[end..]).is_err();
    if torn { &log[..end] } else { log }
}
