//! Prunes the lists of preserved entries in compaction metadata to those still in the clone.
//!
//! A client places the listed entries after the summary, and ignores the list if one of them is missing.

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{NodeId, Uid};
use rustc_hash::FxHashSet;

use super::CloneBuilder;
use crate::plan::PathItem;

impl CloneBuilder<'_, '_> {
    /// Removes dropped entries from the lists of compactions.
    pub(super) fn prune_preserved_lists(&mut self) {
        let facts = self.plan.facts;
        let boundaries: Vec<NodeId> = facts
            .nodes
            .keys()
            .filter(|&node| facts.nodes[node].flags.is_boundary() && !self.plan.is_dropped(node))
            .collect();
        let path: Vec<PathItem> = self.plan.kept_path();
        let last =
            path.iter().rposition(|item| matches!(item, PathItem::Source(node) if boundaries.contains(node)));
        let after: FxHashSet<PathItem> =
            last.map_or_else(FxHashSet::default, |at| path[at..].iter().copied().collect());
        for node in boundaries {
            let raw = self.plan.reader.entry_bytes(facts.nodes[node].entry);
            let mut line = Line::default();
            parse_entry(raw, &mut line);
            let metadata = Json::new(line.field(Key::CompactMetadata).bytes_in(raw));
            // Entries that the last compaction preserved are sent, so they must follow it.
            let sent = last.is_some_and(|at| path[at] == PathItem::Source(node)).then_some(&after);
            if let Some(pruned) = self.pruned_metadata(metadata, sent) {
                self.plan.requested_edit(node).compact_metadata = Some(pruned);
            }
        }
    }

    fn is_removed(&self, id: Json<'_>, sent: Option<&FxHashSet<PathItem>>) -> bool {
        let node = id.as_str().and_then(|id| self.plan.facts.node_of(Uid::new(id.as_bytes())));
        node.is_some_and(|node| {
            self.plan.is_dropped(node) || sent.is_some_and(|sent| !sent.contains(&PathItem::Source(node)))
        })
    }

    /// Returns the metadata of a compaction without dropped entries; `None` if all are present.
    fn pruned_metadata(&self, metadata: Json<'_>, sent: Option<&FxHashSet<PathItem>>) -> Option<Vec<u8>> {
        let lists = metadata.get("preservedMessages");
        let segment = metadata.get("preservedSegment");
        let listed = lists.and_then(|lists| lists.get("uuids")).into_iter().flat_map(Json::items);
        let mut kept: Vec<Json<'_>> = listed.filter(|id| !self.is_removed(*id, sent)).collect();
        let ends = ["headUuid", "tailUuid"].map(|end| segment.and_then(|segment| segment.get(end)));
        if kept.is_empty() && lists.is_none() {
            kept = ends.into_iter().flatten().filter(|id| !self.is_removed(*id, sent)).collect();
        }
        let any_removed = |list: Json<'_>| list.items().any(|id| self.is_removed(id, sent));
        let names = ["uuids", "allUuids"];
        let changed = names.iter().any(|key| lists.and_then(|lists| lists.get(key)).is_some_and(any_removed))
            || ends.into_iter().flatten().any(|id| self.is_removed(id, sent));
        if !changed {
            return None;
        }
        let id = |id: Json<'_>| -> Vec<u8> {
            let id = id.as_str().unwrap_or_default();
            let known = self.plan.facts.node_of(Uid::new(id.as_bytes())).is_some();
            if known {
                crate::splice::json_string(&self.cloned.id_map.new_entry_id(&id))
            } else {
                crate::splice::json_string(&id)
            }
        };
        let list = |ids: Json<'_>| -> Vec<u8> {
            let left: Vec<Vec<u8>> = ids.items().filter(|id| !self.is_removed(*id, sent)).map(id).collect();
            [b"[", left.join(&b","[..]).as_slice(), b"]"].concat()
        };
        let whole = map_object(metadata, |key, value| match key {
            b"preservedMessages" | b"preservedSegment" if kept.is_empty() => None,
            b"preservedMessages" => Some(map_object(value, |_, value| {
                Some(if value.is_array() { list(value) } else { id(value) })
            })),
            b"preservedSegment" => Some(map_object(value, |key, value| match key {
                b"headUuid" => Some(id(kept[0])),
                b"tailUuid" => Some(id(kept[kept.len() - 1])),
                b"anchorUuid" => Some(id(value)),
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
            out.extend(crate::splice::json_string(&String::from_utf8_lossy(key)));
            out.push(b':');
            out.extend(with);
        }
    });
    out.push(b'}');
    out
}
