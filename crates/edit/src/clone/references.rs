//! References to removed entries: they move to another entry.

use rethread_model::{NodeId, Uid};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::{IdMap, Replacement};
use crate::plan::Plan;
use crate::splice::json_string;

/// Makes references to removed entries lead to their replacements.
pub(super) fn redirect_references<'a>(plan: &Plan<'_>, ids: IdMap<'a>) -> IdMap<'a> {
    let facts = plan.facts;
    let replacements = plan.replacements(&plan.nearest_kept());
    // Of several entries with one id, one may be kept.
    let kept: FxHashSet<Uid> = facts
        .nodes
        .keys()
        .filter(|&node| facts.has_duplicates() && !plan.is_dropped(node))
        .map(|node| facts.nodes[node].uid)
        .collect();
    let is_removed = |node: NodeId| plan.is_dropped(node) && !kept.contains(&facts.nodes[node].uid);
    let keeps_ids = ids.keeps_ids();
    let by_removed: FxHashMap<Uid, Replacement> = facts
        .nodes
        .keys()
        .filter(|&node| is_removed(node))
        .filter_map(|node| Some((facts.nodes[node].uid, reference_to(plan, replacements[node]?, keeps_ids))))
        .collect();
    ids.with_replacements(by_removed)
}

/// Returns a reference to an entry of the clone.
fn reference_to(plan: &Plan<'_>, node: NodeId, keeps_ids: bool) -> Replacement {
    match plan.edits.get(node).and_then(|edit| edit.uuid.as_deref()) {
        // It had no id and was given one.
        Some(uuid) => {
            Replacement { uid: Uid::new(uuid.as_bytes()), text: keeps_ids.then(|| uuid.to_owned()) }
        }
        None => Replacement {
            uid: plan.node(node).uid,
            text: keeps_ids.then(|| escaped_id(&plan.reader.uuid(node))),
        },
    }
}

/// Returns an id escaped for JSON, without quotes.
fn escaped_id(id: &str) -> String {
    let quoted = String::from_utf8(json_string(id)).unwrap_or_default();
    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned()
}
