//! Finds paths that are contained in others, across sessions.
//!
//! A path is contained in another if all of its content is on the other too. The sessions are joined into
//! one forest, in which a root whose parent is in another file becomes a child of that file's step.
//! Within a tree a path is contained in one that passes through its end. Between trees the last content
//! of a path gives the candidates for its copies; only those trees are compared, each once for the whole
//! tree, so that the work is nearly linear in the amount of content and never pairwise.

use std::cmp::{Ordering, Reverse};

use rustc_hash::FxHashMap;

use crate::content_keys::StepContentKey;
use crate::index::{IndexGroups, PathIndex, SessionIndex, StepId, Table, index_type};
use crate::session::Session;

/// The part of a session that is kept in memory while others are read.
#[derive(Debug, Clone, Default)]
pub struct SessionFingerprint {
    /// The parent of each step.
    parents: Table<StepId, Option<StepId>>,
    /// The content keys, by step.
    content_keys: Vec<StepContentKey>,
    /// The ends of its paths.
    path_ends: Table<PathIndex, PathEnd>,
}

/// The end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEnd {
    /// The last step of the path.
    pub step: StepId,
    /// Set if the client would resume the path.
    pub active: bool,
}

/// One path among those of several sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId {
    /// The session.
    pub session: SessionIndex,
    /// The path in it.
    pub path: PathIndex,
}

/// The point in another session from which a session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionContinuation {
    /// The session.
    pub session: SessionIndex,
    /// Its root.
    pub root: StepId,
    /// The other session, and the step there.
    pub continues_from: (SessionIndex, StepId),
}

/// The maximum number of trees that are searched for copies of one tree.
const MAX_TREES: usize = 16;
/// The maximum number of occurrences of one key that are considered.
const MAX_OCCURRENCES: usize = 64;

impl SessionFingerprint {
    /// Creates a fingerprint; duplicate keys of a step are dropped.
    pub fn new(session: &Session, mut keys: Vec<StepContentKey>, ends: Vec<PathEnd>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        keys.shrink_to_fit();
        let parents = session.tree.steps.iter().map(|step| step.parent).collect();
        Self { parents, content_keys: keys, path_ends: ends.into() }
    }

    /// Keeps only the given path ends.
    pub fn retain_path_ends(mut self, kept: &[PathIndex]) -> Self {
        self.path_ends = kept.iter().filter_map(|&path| self.path_ends.get(path).copied()).collect();
        self
    }

    /// Replaces a content key by another.
    pub fn replace_key(&mut self, from: u64, to: u64) {
        for content_key in &mut self.content_keys {
            if content_key.key == from {
                content_key.key = to;
            }
        }
    }
}

/// Finds for each path of each session the kept path that contains it, or `None` if it is kept itself.
///
/// Of paths that contain each other one is kept: preferably one that a client would resume, then the one
/// of the earlier session.
pub fn containing_paths(
    sessions: &[SessionFingerprint],
    continuations: &[SessionContinuation],
) -> Table<SessionIndex, Table<PathIndex, Option<PathId>>> {
    let forest = Forest::new(sessions, continuations);
    let mut containers: FxHashMap<PathId, PathId> = FxHashMap::default();
    forest.find_within_trees(&mut containers);
    forest.find_across_trees(&mut containers);
    let kept = |mut at: PathId| {
        // Each container is larger in one total order of all paths, so this terminates.
        while let Some(&by) = containers.get(&at) {
            at = by;
        }
        at
    };
    let containers_of = |(index, fingerprint): (usize, &SessionFingerprint)| {
        let container = |path| {
            let id = PathId { session: SessionIndex::from_index(index), path };
            Some(kept(id)).filter(|&by| by != id)
        };
        fingerprint.path_ends.keys().map(container).collect()
    };
    sessions.iter().enumerate().map(containers_of).collect()
}

/// A path with its rank in the order of all paths: a contained path comes before its container.
type RankedPath = (u32, Reverse<(bool, PathId)>);

fn id_of(ranked: RankedPath) -> PathId {
    ranked.1.0.1
}

index_type!(
    /// A step of any session, as an index of [`Forest::parent`].
    ForestStep
);
index_type!(
    /// A content key on a step, as an index of [`Forest::key_values`].
    KeyId
);

/// All steps of all sessions in one numbering, joined across files.
struct Forest {
    parent: Table<ForestStep, Option<ForestStep>>,
    /// The steps in preorder, one tree after the other.
    order: Vec<ForestStep>,
    /// The position of each step in `order`.
    order_index: Table<ForestStep, u32>,
    /// The number of descendants of each step, including itself.
    subtree_size: Table<ForestStep, u32>,
    /// The root of each step's tree.
    root: Table<ForestStep, ForestStep>,
    /// The root of each step's tree within its own file.
    file_root: Table<ForestStep, ForestStep>,
    /// The keys of each step.
    keys_by_step: IndexGroups<ForestStep, KeyId>,
    /// The keys.
    key_values: Table<KeyId, u64>,
    /// The number of keys on the path to each step.
    keys_on_path: Table<ForestStep, u32>,
    /// The path ends at each step.
    ends: Vec<(ForestStep, RankedPath)>,
    /// All occurrences of keys: the key, the tree, the step; sorted.
    key_index: Vec<(u64, ForestStep, ForestStep)>,
}

/// Returns a step of the session whose steps begin at `start`.
fn step_in_forest(start: usize, step: StepId) -> ForestStep {
    ForestStep::from_index(start + step.index())
}

impl Forest {
    fn new(sessions: &[SessionFingerprint], continuations: &[SessionContinuation]) -> Self {
        let mut first: Table<SessionIndex, usize> = Table::with_capacity(sessions.len());
        let mut alone: Table<ForestStep, Option<ForestStep>> = Table::default();
        for fingerprint in sessions {
            let start = alone.len();
            first.push(start);
            for parent in &fingerprint.parents {
                alone.push(parent.map(|parent| step_in_forest(start, parent)));
            }
        }
        let mut parent = alone.clone();
        for continuation in continuations {
            let (session, step) = continuation.continues_from;
            let root = step_in_forest(first[continuation.session], continuation.root);
            let before = step_in_forest(first[session], step);
            if parent[root].is_none() && root != before {
                parent[root] = Some(before);
            }
        }
        let n = parent.len();
        let mut forest = Self {
            order: Vec::with_capacity(n),
            order_index: Table::filled(0, n),
            subtree_size: Table::filled(1, n),
            root: parent.keys().collect(),
            file_root: parent.keys().collect(),
            keys_by_step: IndexGroups::default(),
            key_values: Table::default(),
            keys_on_path: Table::filled(0, n),
            ends: Vec::new(),
            key_index: Vec::new(),
            parent,
        };
        forest.order_steps();
        for &step in &forest.order {
            if let Some(above) = alone[step] {
                forest.file_root[step] = forest.file_root[above];
            }
        }
        forest.add_keys(sessions, &first);
        for (fingerprint, (session, &start)) in sessions.iter().zip(first.iter_enumerated()) {
            for (path, end) in fingerprint.path_ends.iter_enumerated() {
                let step = step_in_forest(start, end.step);
                let id = PathId { session, path };
                forest.ends.push((step, (forest.keys_on_path[step], Reverse((!end.active, id)))));
            }
        }
        forest
    }

    /// Adds the content keys of the sessions, whose steps begin at `first`.
    fn add_keys(&mut self, sessions: &[SessionFingerprint], first: &Table<SessionIndex, usize>) {
        let mut step_of: Table<KeyId, Option<ForestStep>> = Table::default();
        for (fingerprint, &start) in sessions.iter().zip(first) {
            for content_key in &fingerprint.content_keys {
                let step = step_in_forest(start, content_key.step);
                step_of.push(Some(step));
                self.key_values.push(content_key.key);
                self.key_index.push((content_key.key, self.root[step], step));
            }
        }
        self.keys_by_step = IndexGroups::new(self.parent.len(), &step_of);
        self.key_index.sort_unstable();
        for &step in &self.order {
            let own = u32::try_from(self.keys_by_step.members_of(step).len()).unwrap_or(u32::MAX);
            let before = self.parent[step].map_or(0, |parent| self.keys_on_path[parent]);
            self.keys_on_path[step] = before + own;
        }
    }

    /// Orders the steps so that each tree is contiguous, and removes continuations that form a cycle.
    fn order_steps(&mut self) {
        let children = IndexGroups::new(self.parent.len(), &self.parent);
        let mut visited = Table::filled(false, self.parent.len());
        let mut stack = Vec::new();
        let roots: Vec<ForestStep> = self.parent.keys().filter(|&step| self.parent[step].is_none()).collect();
        for start in roots.into_iter().chain(self.parent.keys()) {
            if visited[start] {
                continue;
            }
            self.parent[start] = None;
            stack.push(start);
            while let Some(step) = stack.pop() {
                if std::mem::replace(&mut visited[step], true) {
                    continue;
                }
                self.order_index[step] = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
                self.root[step] = start;
                self.order.push(step);
                stack.extend(children.members_of(step).iter().rev());
            }
        }
        for &step in self.order.iter().rev() {
            if let Some(parent) = self.parent[step] {
                self.subtree_size[parent] += self.subtree_size[step];
            }
        }
    }

    /// Returns whether `above` is on the path to `below`.
    fn is_ancestor(&self, above: ForestStep, below: ForestStep) -> bool {
        let (start, at) = (self.order_index[above], self.order_index[below]);
        start <= at && at - start < self.subtree_size[above]
    }

    /// Finds for each step the largest path that passes through it.
    fn largest_path_through(&self) -> Table<ForestStep, Option<RankedPath>> {
        let mut largest: Table<ForestStep, Option<RankedPath>> = Table::filled(None, self.parent.len());
        for &(step, ranked) in &self.ends {
            largest[step] = largest[step].max(Some(ranked));
        }
        for &step in self.order.iter().rev() {
            if let Some(parent) = self.parent[step] {
                largest[parent] = largest[parent].max(largest[step]);
            }
        }
        largest
    }

    /// Finds contained paths within a tree: in a larger path through the same end, or in one that ends
    /// earlier if there is no content in between.
    fn find_within_trees(&self, containers: &mut FxHashMap<PathId, PathId>) {
        let largest = self.largest_path_through();
        let mut same: Table<ForestStep, Option<RankedPath>> = Table::filled(None, self.parent.len());
        for &(step, ranked) in &self.ends {
            same[step] = same[step].max(Some(ranked));
        }
        for &step in &self.order {
            if let Some(parent) = self.parent[step]
                && self.keys_by_step.members_of(step).is_empty()
            {
                same[step] = same[step].max(same[parent]);
            }
        }
        for &(step, ranked) in &self.ends {
            let by = largest[step].max(same[step]);
            if let Some(by) = by.filter(|&by| by > ranked) {
                containers.insert(id_of(ranked), id_of(by));
            }
        }
    }

    fn find_across_trees(&self, containers: &mut FxHashMap<PathId, PathId>) {
        let largest = self.largest_path_through();
        // The nearest step with content at or above each step.
        let mut last_with_keys: Table<ForestStep, Option<ForestStep>> =
            Table::filled(None, self.parent.len());
        for &step in &self.order {
            let above = self.parent[step].and_then(|parent| last_with_keys[parent]);
            last_with_keys[step] =
                if self.keys_by_step.members_of(step).is_empty() { above } else { Some(step) };
        }
        let mut by_tree: FxHashMap<(ForestStep, ForestStep), Vec<(ForestStep, RankedPath)>> =
            FxHashMap::default();
        for &(step, ranked) in
            self.ends.iter().filter(|(_, ranked)| !containers.contains_key(&id_of(*ranked)))
        {
            let (root, file_root) = (self.root[step], self.file_root[step]);
            by_tree.entry((root, file_root)).or_default().push((step, ranked));
        }
        for (&(tree, file_tree), ends) in &by_tree {
            // Candidates for copies: other trees, or other files joined to this tree.
            let mut candidates: FxHashMap<(ForestStep, ForestStep), usize> = FxHashMap::default();
            for &(step, _) in ends {
                let last = last_with_keys[step].and_then(|step| self.keys_of(step).next());
                let Some(last) = last else { continue };
                for &(_, other, occurrence) in self.occurrences(last, None).iter().take(MAX_OCCURRENCES) {
                    let other_root = self.file_root[occurrence];
                    let pair = if other != tree { (tree, other) } else { (file_tree, other_root) };
                    let known = other == tree
                        && (other_root == file_tree || !self.shares_continuation(file_tree, other_root));
                    if !known && largest[pair.1].is_some() {
                        *candidates.entry(pair).or_default() += 1;
                    }
                }
            }
            let mut candidates: Vec<(usize, (ForestStep, ForestStep))> =
                candidates.into_iter().map(|(pair, n)| (n, pair)).collect();
            candidates.sort_unstable_by_key(|&(n, pair)| (Reverse(n), pair));
            let mut left: Vec<(ForestStep, RankedPath)> = ends.clone();
            for &(_, (from, to)) in candidates.iter().take(MAX_TREES) {
                if left.is_empty() {
                    break;
                }
                let found = self.find_copies_in(from, to);
                let start = self.order_index[from];
                left.retain(|&(step, ranked)| {
                    let at = found[(self.order_index[step] - start) as usize];
                    let by = at.and_then(|at| largest[at]).filter(|&by| by > ranked);
                    if let Some(by) = by {
                        containers.insert(id_of(ranked), id_of(by));
                    }
                    by.is_none()
                });
            }
        }
    }

    /// Returns whether the point from which a file's tree continues is on the path to another's too.
    fn shares_continuation(&self, file_tree: ForestStep, other: ForestStep) -> bool {
        self.parent[file_tree].is_none_or(|before| self.is_ancestor(before, other))
    }

    fn keys_of(&self, step: ForestStep) -> impl Iterator<Item = u64> {
        self.keys_by_step.members_of(step).iter().map(|&key| self.key_values[key])
    }

    /// Returns the occurrences of a key, in all trees or in one.
    fn occurrences(&self, key: u64, tree: Option<ForestStep>) -> &[(u64, ForestStep, ForestStep)] {
        let rank = |&(k, t, _): &(u64, ForestStep, ForestStep)| {
            k.cmp(&key).then_with(|| tree.map_or(Ordering::Equal, |tree| t.cmp(&tree)))
        };
        let start = self.key_index.partition_point(|at| rank(at).is_lt());
        let len = self.key_index[start..].partition_point(|at| rank(at).is_eq());
        &self.key_index[start..start + len]
    }

    /// Finds for each step in the subtree of `tree`, in order, a step in that of `other` whose path has
    /// all the keys on the path from `tree` to the step.
    fn find_copies_in(&self, tree: ForestStep, other: ForestStep) -> Vec<Option<ForestStep>> {
        let in_tree = self.root[other];
        let start = self.order_index[tree] as usize;
        let steps = &self.order[start..start + self.subtree_size[tree] as usize];
        // A step without content before it maps to the root.
        let mut found: Vec<Option<ForestStep>> = Vec::with_capacity(steps.len());
        for &step in steps {
            let mut at = match self.parent[step] {
                Some(parent) if step != tree => found[self.order_index[parent] as usize - start],
                _ => Some(other),
            };
            for key in self.keys_of(step) {
                at = at.and_then(|at| {
                    let deeper = |occurrence: ForestStep| {
                        if self.is_ancestor(occurrence, at) {
                            Some(at)
                        } else {
                            self.is_ancestor(at, occurrence).then_some(occurrence)
                        }
                    };
                    self.occurrences(key, Some(in_tree))
                        .iter()
                        .find_map(|&(_, _, occurrence)| deeper(occurrence))
                });
            }
            found.push(at);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn number(index: usize) -> SessionIndex {
        SessionIndex::from_index(index)
    }

    /// Builds a session from its steps: the parent and the keys of each.
    fn session_fingerprint(steps: &[(Option<u32>, &[u64])], active: usize) -> SessionFingerprint {
        let step_of = |parent: u32| StepId::from_index(parent as usize);
        let parents: Table<StepId, Option<StepId>> =
            steps.iter().map(|(parent, _)| parent.map(step_of)).collect();
        let keys = steps.iter().enumerate().flat_map(|(i, (_, keys))| {
            keys.iter().map(move |&key| StepContentKey { step: StepId::from_index(i), key })
        });
        let is_end = |step: StepId| !parents.iter().any(|&parent| parent == Some(step));
        let ends = parents
            .keys()
            .filter(|&step| is_end(step) || step.index() == active)
            .map(|step| PathEnd { step, active: step.index() == active })
            .collect();
        let mut keys: Vec<StepContentKey> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        SessionFingerprint { parents, content_keys: keys, path_ends: ends }
    }

    fn check(sessions: &[SessionFingerprint], continuations: &[SessionContinuation]) -> String {
        let describe = |(session, containers): (SessionIndex, &Table<PathIndex, Option<PathId>>)| {
            let path = |(path, by): (PathIndex, &Option<PathId>)| match by {
                Some(by) => format!("{session}.{path} in {}.{}", by.session, by.path),
                None => format!("{session}.{path}"),
            };
            containers.iter_enumerated().map(path).collect::<Vec<_>>()
        };
        containing_paths(sessions, continuations)
            .iter_enumerated()
            .flat_map(describe)
            .collect::<Vec<_>>()
            .join(", ")
    }

    const A: &[u64] = &[1];
    const B: &[u64] = &[2, 3];
    const C: &[u64] = &[4];
    const D: &[u64] = &[5];

    #[test]
    fn copy_is_contained_in_its_original() {
        let one = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        let longer = session_fingerprint(&[(None, A), (Some(0), B), (Some(1), C)], 2);
        let other = session_fingerprint(&[(None, A), (Some(0), D)], 1);
        insta::assert_snapshot!(check(&[one.clone(), longer.clone()], &[]), @"0.0 in 1.0, 1.0");
        insta::assert_snapshot!(check(&[one.clone(), one.clone(), one.clone()], &[]), @"0.0, 1.0 in 0.0, 2.0 in 0.0");
        insta::assert_snapshot!(check(&[one.clone(), other, longer.clone()], &[]), @"0.0 in 2.0, 1.0, 2.0");
        // A copy that lacks the beginning, and one that lacks the middle.
        let tail = session_fingerprint(&[(None, B), (Some(0), C)], 1);
        let gap = session_fingerprint(&[(None, A), (Some(0), C)], 1);
        insta::assert_snapshot!(check(&[tail, gap, longer], &[]), @"0.0 in 2.0, 1.0 in 2.0, 2.0");
    }

    #[test]
    fn each_branch_contains_its_copy() {
        let forked = session_fingerprint(&[(None, A), (Some(0), B), (Some(0), C), (Some(2), D)], 3);
        let left = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        let right = session_fingerprint(&[(None, A), (Some(0), C)], 1);
        let both = session_fingerprint(&[(None, A), (Some(0), B), (Some(1), C)], 2);
        insta::assert_snapshot!(check(&[left, right, both, forked], &[]), @"0.0 in 2.0, 1.0 in 2.0, 2.0, 3.0 in 2.0, 3.1");
    }

    #[test]
    fn active_path_is_kept_among_equals() {
        let abandoned = session_fingerprint(&[(None, A), (Some(0), B), (Some(0), C)], 2);
        let alive = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        insta::assert_snapshot!(check(&[abandoned, alive], &[]), @"0.0 in 1.0, 0.1, 1.0");
    }

    #[test]
    fn inner_end_is_contained_in_the_longer_path() {
        let inner = session_fingerprint(&[(None, A), (Some(0), B)], 0);
        insta::assert_snapshot!(check(&[inner], &[]), @"0.0 in 0.1, 0.1");
    }

    #[test]
    fn continuation_in_another_file_is_one_path() {
        let first = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        let second = session_fingerprint(&[(None, C)], 0);
        let [root, tip] = [0, 1].map(StepId::from_index);
        let continuation = SessionContinuation { session: number(1), root, continues_from: (number(0), tip) };
        insta::assert_snapshot!(check(&[first.clone(), second.clone()], &[continuation]), @"0.0 in 1.0, 1.0");
        // Copies of a continuation in another file are copies.
        let copy = SessionContinuation { session: number(2), root, continues_from: (number(0), tip) };
        let longer = session_fingerprint(&[(None, C), (Some(0), D)], 1);
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), second.clone()], &[continuation, copy]), @"0.0 in 1.0, 1.0, 2.0 in 1.0");
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), longer], &[continuation, copy]), @"0.0 in 2.0, 1.0 in 2.0, 2.0");
        // A cycle of files is broken somewhere.
        let back = SessionContinuation { session: number(0), root, continues_from: (number(1), root) };
        insta::assert_snapshot!(check(&[first, second], &[continuation, back]), @"0.0 in 1.0, 1.0");
    }

    /// Returns the keys on each path.
    fn keys_by_path(sessions: &[SessionFingerprint]) -> Vec<Vec<BTreeSet<u64>>> {
        let set = |fingerprint: &SessionFingerprint, step: StepId| {
            let mut set = BTreeSet::new();
            let mut next = Some(step);
            while let Some(at) = next {
                set.extend(
                    fingerprint
                        .content_keys
                        .iter()
                        .filter(|content_key| content_key.step == at)
                        .map(|content_key| content_key.key),
                );
                next = fingerprint.parents[at];
            }
            set
        };
        sessions.iter().map(|s| s.path_ends.iter().map(|end| set(s, end.step)).collect()).collect()
    }

    fn any_session() -> impl Strategy<Value = SessionFingerprint> {
        // Few keys, so that sessions overlap; a key is once on each step and mostly once in a session.
        let step = (any::<prop::sample::Index>(), prop::collection::vec(0..12u64, 0..3));
        prop::collection::vec(step, 1..8).prop_map(|steps| {
            let steps: Vec<(Option<u32>, Vec<u64>)> = steps
                .into_iter()
                .enumerate()
                .map(|(i, (parent, keys))| (i.checked_sub(1).map(|_| parent.index(i) as u32), keys))
                .collect();
            let borrowed: Vec<(Option<u32>, &[u64])> = steps.iter().map(|(p, k)| (*p, &k[..])).collect();
            let active = borrowed.len() - 1;
            session_fingerprint(&borrowed, active)
        })
    }

    proptest! {
        #![proptest_config(rethread_testkit::test_cases(2000))]

        #[test]
        fn content_of_dropped_paths_is_on_kept_paths(sessions in prop::collection::vec(any_session(), 1..6)) {
            let containers = containing_paths(&sessions, &[]);
            let sets = keys_by_path(&sessions);
            for (session, containers) in containers.iter().enumerate() {
                for (path, by) in containers.iter().enumerate() {
                    if let Some(by) = by {
                        prop_assert!(sets[session][path].is_subset(&sets[by.session.index()][by.path.index()]));
                    }
                }
            }
            let kept: Vec<&BTreeSet<u64>> = sets.iter().zip(&containers)
                .flat_map(|(sets, containers)| sets.iter().zip(containers))
                .filter(|(_, by)| by.is_none()).map(|(set, _)| set).collect();
            let all: BTreeSet<u64> = sets.iter().flatten().flatten().copied().collect();
            let of_kept: BTreeSet<u64> = kept.iter().copied().flatten().copied().collect();
            prop_assert_eq!(all, of_kept);
        }

        /// Realistic copies: the same content in the same order, truncated somewhere.
        #[test]
        fn truncated_copies_are_dropped(lengths in prop::collection::vec(1..30usize, 1..20)) {
            let line = |n: usize| {
                let steps: Vec<(Option<u32>, Vec<u64>)> =
                    (0..n).map(|i| (i.checked_sub(1).map(|p| p as u32), vec![i as u64 * 2, i as u64 * 2 + 1])).collect();
                let borrowed: Vec<(Option<u32>, &[u64])> = steps.iter().map(|(p, k)| (*p, &k[..])).collect();
                session_fingerprint(&borrowed, n - 1)
            };
            let sessions: Vec<SessionFingerprint> = lengths.iter().map(|&n| line(n)).collect();
            let kept = containing_paths(&sessions, &[]).iter().flatten().filter(|by| by.is_none()).count();
            prop_assert_eq!(kept, 1);
        }
    }

    #[test]
    fn thousand_copies_of_a_thousand_branches_are_found() {
        let n = 1000u32;
        let steps: Vec<(Option<u32>, Vec<u64>)> =
            (0..n).map(|i| (i.checked_sub(1).map(|p| p / 2), vec![u64::from(i)])).collect();
        let borrowed: Vec<(Option<u32>, &[u64])> = steps.iter().map(|(p, k)| (*p, &k[..])).collect();
        let sessions = vec![session_fingerprint(&borrowed, 999); 1000];
        let containers = containing_paths(&sessions, &[]);
        assert!(containers[number(0)].iter().all(Option::is_none));
        assert!(
            containers
                .after(number(0))
                .iter()
                .flatten()
                .all(|by| by.is_some_and(|by| by.session == number(0)))
        );
    }
}
