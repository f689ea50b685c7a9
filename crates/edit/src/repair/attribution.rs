//! Labels each change of a repair with the finding that it repairs.

use std::collections::BTreeMap;

use rethread_model::{Finding, FindingKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::Change;

/// Labels the changes with findings of the original session: kind and line of each label are those of a finding.
///
/// The label of a change is usually right already. It is not if the defect became visible only by another repair, if
/// check explains the same loss by another cause, or if an entry is relinked to make the whole path linear. Then the
/// label is the finding that concerns the line, or else one about the whole session, or else the nearest one. What is
/// changed only for older clients keeps its own label, because it repairs none of the findings. Returns `false` if there
/// is no finding to repair.
pub(super) fn attribute(changes: &mut [Change], findings: &[Finding]) -> bool {
    let index = FindingIndex::new(findings);
    for change in changes {
        if change.for_older_clients {
            change.finding_line = None;
            continue;
        }
        let Some(found) = index.find(change) else { return false };
        (change.reason, change.finding_line) = found;
    }
    index.worst.is_some()
}

/// The kind and the line of a finding.
type FindingPlace = (FindingKind, Option<u32>);

/// The findings that a repair can explain its changes by.
struct FindingIndex {
    places: FxHashSet<FindingPlace>,
    /// The findings of a kind by the lines that they lose.
    by_loss: FxHashMap<(FindingKind, u32), FindingPlace>,
    /// The worst finding that concerns a line.
    by_line: BTreeMap<u32, FindingPlace>,
    /// The same for findings that are harmful.
    harm_by_line: BTreeMap<u32, FindingPlace>,
    /// The worst finding about the whole session.
    of_session: Option<FindingPlace>,
    worst: Option<FindingPlace>,
}

impl FindingIndex {
    fn new(findings: &[Finding]) -> Self {
        let place = |finding: &Finding| (finding.kind, finding.line);
        let mut index = Self {
            places: findings.iter().map(place).collect(),
            by_loss: FxHashMap::default(),
            by_line: BTreeMap::new(),
            harm_by_line: BTreeMap::new(),
            of_session: None,
            worst: None,
        };
        // The findings are sorted, worst first.
        for finding in findings.iter().filter(|finding| finding.kind.is_repairable() || finding.is_harmful())
        {
            let place = place(finding);
            index.worst.get_or_insert(place);
            if finding.line.is_none() {
                index.of_session.get_or_insert(place);
            }
            for &line in &finding.lost_lines {
                index.by_loss.entry((finding.kind, line)).or_insert(place);
            }
            for &line in finding.line.iter().chain(&finding.lost_lines) {
                index.by_line.entry(line).or_insert(place);
                if finding.is_harmful() {
                    index.harm_by_line.entry(line).or_insert(place);
                }
            }
        }
        index
    }

    fn find(&self, change: &Change) -> Option<FindingPlace> {
        let lines = [change.finding_line, Some(change.line)];
        let own = lines.into_iter().chain([None]).map(|line| (change.reason, line));
        let own = own.into_iter().find(|place| self.places.contains(place));
        let lost = || lines.into_iter().flatten().find_map(|line| self.by_loss.get(&(change.reason, line)));
        own.or_else(|| lost().copied())
            .or_else(|| self.by_line.get(&change.line).copied())
            .or(self.of_session)
            .or_else(|| nearest(&self.harm_by_line, change.line))
            .or_else(|| nearest(&self.by_line, change.line))
    }
}

/// Returns the finding about the line that is nearest to another.
fn nearest(by_line: &BTreeMap<u32, FindingPlace>, line: u32) -> Option<FindingPlace> {
    let (before, after) = (by_line.range(..=line).next_back(), by_line.range(line..).next());
    let found = before.into_iter().chain(after).min_by_key(|(at, _)| at.abs_diff(line));
    found.map(|(_, place)| *place)
}
