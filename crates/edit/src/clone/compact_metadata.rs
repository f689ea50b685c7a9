//! Prunes the lists of preserved entries in compaction metadata to those still in the clone.
//!
//! A client places the listed entries after the summary, and ignores the list if one of them is missing.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{NodeId, Uid};
use rustc_hash::FxHashSet;

use crate::ids::IdMap;
use crate::plan::{PathItem, Plan};
use crate::splice::json_string;

/// Removes dropped entries from the lists of compactions.
pub(super) fn prune_preserved_lists(plan: &mut Plan<'_>, ids: &IdMap<'_>) {
    let facts = plan.facts;
    let boundaries: Vec<NodeId> = facts
        .nodes
        .keys()
        .filter(|&node| facts.nodes[node].flags.is_boundary() && !plan.is_dropped(node))
        .collect();
    let path: Vec<PathItem> = plan.kept_path();
    let last =
        path.iter().rposition(|item| matches!(item, PathItem::Source(node) if boundaries.contains(node)));
    let after: FxHashSet<PathItem> =
        last.map_or_else(FxHashSet::default, |at| path[at..].iter().copied().collect());
    for node in boundaries {
        let raw = plan.reader.entry_bytes(facts.nodes[node].entry);
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        let metadata = Json::new(line.field(Key::CompactMetadata).bytes_in(raw));
        // Entries that the last compaction preserved are sent, so they must follow it.
        let sent = last.is_some_and(|at| path[at] == PathItem::Source(node)).then_some(&after);
        let pruned = PreservedEntries { plan, ids, sent }.pruned(metadata);
        if let Some(pruned) = pruned {
            plan.requested_edit(node).compact_metadata = Some(pruned);
        }
    }
}

/// Decides which of the entries that a compaction lists are in the clone.
struct PreservedEntries<'p> {
    plan: &'p Plan<'p>,
    ids: &'p IdMap<'p>,
    /// The entries from the last compaction on, if this is the last.
    sent: Option<&'p FxHashSet<PathItem>>,
}

impl PreservedEntries<'_> {
    fn node_of(&self, id: &str) -> Option<NodeId> {
        self.plan.facts.node_of(Uid::new(id.as_bytes()))
    }

    fn is_removed(&self, id: Json<'_>) -> bool {
        let node = id.as_str().and_then(|id| self.node_of(&id));
        node.is_some_and(|node| {
            self.plan.is_dropped(node)
                || self.sent.is_some_and(|sent| !sent.contains(&PathItem::Source(node)))
        })
    }

    /// Encodes the new id of an entry.
    fn new_id(&self, id: Json<'_>) -> Vec<u8> {
        let id = id.as_str().unwrap_or_default();
        match self.node_of(&id) {
            Some(_) => json_string(&self.ids.new_entry_id(&id)),
            None => json_string(&id),
        }
    }

    /// Encodes a list of ids without those of dropped entries.
    fn pruned_list(&self, ids: Json<'_>) -> Vec<u8> {
        let left = ids.items().filter(|id| !self.is_removed(*id)).map(|id| self.new_id(id));
        [b"[", left.collect::<Vec<_>>().join(&b","[..]).as_slice(), b"]"].concat()
    }

    /// Returns the metadata of a compaction without dropped entries; `None` if all are present.
    fn pruned(&self, metadata: Json<'_>) -> Option<Vec<u8>> {
        let lists = metadata.get("preservedMessages");
        let segment = metadata.get("preservedSegment");
        let listed = lists.and_then(|lists| lists.get("uuids")).into_iter().flat_map(Json::items);
        let mut kept: Vec<Json<'_>> = listed.filter(|id| !self.is_removed(*id)).collect();
        let ends = ["headUuid", "tailUuid"].map(|end| segment.and_then(|segment| segment.get(end)));
        if kept.is_empty() && lists.is_none() {
            kept = ends.into_iter().flatten().filter(|id| !self.is_removed(*id)).collect();
        }
        let any_removed = |list: Json<'_>| list.items().any(|id| self.is_removed(id));
        let names = ["uuids", "allUuids"];
        let changed = names.iter().any(|key| lists.and_then(|lists| lists.get(key)).is_some_and(any_removed))
            || ends.into_iter().flatten().any(|id| self.is_removed(id));
        if !changed {
            return None;
        }
        let whole = map_object(metadata, |key, value| match key {
            b"preservedMessages" | b"preservedSegment" if kept.is_empty() => None,
            b"preservedMessages" => Some(map_object(value, |_, value| {
                Some(if value.is_array() { self.pruned_list(value) } else { self.new_id(value) })
            })),
            b"preservedSegment" => Some(map_object(value, |key, value| match key {
                b"headUuid" => Some(self.new_id(kept[0])),
                b"tailUuid" => Some(self.new_id(kept[kept.len() - 1])),
                b"anchorUuid" => Some(self.new_id(value)),
                _ => Some(value.raw().to_vec()),
            })),
            _ => Some(value.raw().to_vec()),
        });
        Some(whole)
    }
}

/// Returns an object with mapped values; members for which `value_of` returns `None` are removed.
fn map_object(json: Json<'_>, mut value_of: impl FnMut(&[u8], Json<'_>) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = vec![b'{'];
    json.for_each_member(|key, value| {
        if let Some(with) = value_of(key, value) {
            if out.len() > 1 {
                out.push(b',');
            }
            out.extend(json_string(&String::from_utf8_lossy(key)));
            out.push(b':');
            out.extend(with);
        }
    });
    out.push(b'}');
    out
}
