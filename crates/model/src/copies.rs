//! Finds paths that are contained in others, across sessions.
//!
//! A path is contained in another if all of its content is on the other too. The sessions are joined into
//! one forest, in which a root whose parent is in another file becomes a child of that file's step.
//! Within a tree a path is contained in one that passes through its end. Between trees the last content
//! of a path gives the candidates for its copies; only those trees are compared, each once for the whole
//! tree, so that the work is nearly linear in the amount of content and never pairwise.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::content_keys::StepContentKey;
use crate::facts::NONE;
use crate::session::Session;
use crate::tree::IndexGroups;

/// The part of a session that is kept in memory while others are read.
#[derive(Debug, Clone, Default)]
pub struct SessionFingerprint {
    /// The parent of each step.
    parents: Vec<u32>,
    /// The content keys, by step.
    content_keys: Vec<StepContentKey>,
    /// The ends of its paths.
    path_ends: Vec<PathEnd>,
}

/// The end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEnd {
    /// The last step of the path.
    pub step: usize,
    /// Set if the client would resume the path.
    pub active: bool,
}

/// One path among those of several sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId {
    /// The index of the session.
    pub session: usize,
    /// The index of the path in it.
    pub path: usize,
}

/// The point in another session from which a session continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionContinuation {
    /// The index of the session.
    pub session: usize,
    /// Its root.
    pub root: usize,
    /// The index of the other session, and the step there.
    pub continues_from: (usize, usize),
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
        Self { parents, content_keys: keys, path_ends: ends }
    }

    /// Keeps only the given path ends.
    pub fn retain_path_ends(mut self, kept: &[usize]) -> Self {
        self.path_ends = kept.iter().filter_map(|&i| self.path_ends.get(i).copied()).collect();
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
) -> Vec<Vec<Option<PathId>>> {
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
    sessions
        .iter()
        .enumerate()
        .map(|(session, fingerprint)| {
            let container = |path| {
                let id = PathId { session, path };
                Some(kept(id)).filter(|&by| by != id)
            };
            (0..fingerprint.path_ends.len()).map(container).collect()
        })
        .collect()
}

/// A path with its rank in the order of all paths: a contained path comes before its container.
type RankedPath = (u32, Reverse<(bool, PathId)>);

fn id_of(ranked: RankedPath) -> PathId {
    ranked.1.0.1
}

/// All steps of all sessions in one numbering, joined across files.
struct Forest {
    parent: Vec<u32>,
    /// The steps in preorder, one tree after the other.
    order: Vec<u32>,
    /// The index of each step in `order`.
    order_index: Vec<u32>,
    /// The number of descendants of each step, including itself.
    subtree_size: Vec<u32>,
    /// The root of each step's tree.
    root: Vec<u32>,
    /// The root of each step's tree within its own file.
    file_root: Vec<u32>,
    /// The keys of each step, as indices of `key_values`.
    keys_by_step: IndexGroups,
    /// The keys.
    key_values: Vec<u64>,
    /// The number of keys on the path to each step.
    keys_on_path: Vec<u32>,
    /// The path ends at each step.
    ends: Vec<(u32, RankedPath)>,
    /// All occurrences of keys: the key, the tree, the step; sorted.
    key_index: Vec<(u64, u32, u32)>,
}

impl Forest {
    fn new(sessions: &[SessionFingerprint], continuations: &[SessionContinuation]) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(NONE);
        let mut first = Vec::with_capacity(sessions.len());
        let mut parent = Vec::new();
        for fingerprint in sessions {
            let start = number(parent.len());
            first.push(start);
            parent.extend(fingerprint.parents.iter().map(|&p| if p == NONE { NONE } else { start + p }));
        }
        let alone = parent.clone();
        for continuation in continuations {
            let (session, step) = continuation.continues_from;
            let (root, before) =
                (first[continuation.session] as usize + continuation.root, first[session] + number(step));
            if parent[root] == NONE && root != before as usize {
                parent[root] = before;
            }
        }
        let mut forest = Self {
            order: Vec::with_capacity(parent.len()),
            order_index: vec![NONE; parent.len()],
            subtree_size: vec![1; parent.len()],
            root: vec![NONE; parent.len()],
            file_root: vec![NONE; parent.len()],
            keys_by_step: IndexGroups::default(),
            key_values: Vec::new(),
            keys_on_path: vec![0; parent.len()],
            ends: Vec::new(),
            key_index: Vec::new(),
            parent,
        };
        forest.order_steps();
        for &step in &forest.order {
            let above = alone[step as usize];
            forest.file_root[step as usize] =
                if above == NONE { step } else { forest.file_root[above as usize] };
        }
        let mut step_of = Vec::new();
        for (fingerprint, &start) in sessions.iter().zip(&first) {
            step_of.extend(fingerprint.content_keys.iter().map(|content_key| start + content_key.step));
            forest.key_values.extend(fingerprint.content_keys.iter().map(|content_key| content_key.key));
        }
        forest.keys_by_step = IndexGroups::new(forest.parent.len(), &step_of);
        forest.key_index = step_of
            .iter()
            .zip(&forest.key_values)
            .map(|(&s, &key)| (key, forest.root[s as usize], s))
            .collect();
        forest.key_index.sort_unstable();
        for &step in &forest.order {
            let own = number(forest.keys_by_step.members_of(step as usize).len());
            let before = forest.keys_on_path.get(forest.parent[step as usize] as usize).copied().unwrap_or(0);
            forest.keys_on_path[step as usize] = before + own;
        }
        for (session, (fingerprint, &start)) in sessions.iter().zip(&first).enumerate() {
            for (path, end) in fingerprint.path_ends.iter().enumerate() {
                let step = start + number(end.step);
                let id = PathId { session, path };
                forest.ends.push((step, (forest.keys_on_path[step as usize], Reverse((!end.active, id)))));
            }
        }
        forest
    }

    /// Orders the steps so that each tree is contiguous, and removes continuations that form a cycle.
    fn order_steps(&mut self) {
        let children = IndexGroups::new(self.parent.len(), &self.parent);
        let mut stack = Vec::new();
        let roots = (0..self.parent.len()).filter(|&i| self.parent[i] == NONE).collect::<Vec<_>>();
        for start in roots.into_iter().chain(0..self.parent.len()) {
            if self.order_index[start] != NONE {
                continue;
            }
            let root = u32::try_from(start).unwrap_or(NONE);
            self.parent[start] = NONE;
            stack.push(root);
            while let Some(step) = stack.pop() {
                let i = step as usize;
                if self.order_index[i] != NONE {
                    continue;
                }
                self.order_index[i] = u32::try_from(self.order.len()).unwrap_or(NONE);
                self.root[i] = root;
                self.order.push(step);
                stack.extend(children.members_of(i).iter().rev());
            }
        }
        for &step in self.order.iter().rev() {
            let parent = self.parent[step as usize];
            if parent != NONE {
                self.subtree_size[parent as usize] += self.subtree_size[step as usize];
            }
        }
    }

    /// Returns whether `above` is on the path to `below`.
    fn is_ancestor(&self, above: u32, below: u32) -> bool {
        let (start, at) = (self.order_index[above as usize], self.order_index[below as usize]);
        start <= at && at - start < self.subtree_size[above as usize]
    }

    /// Finds for each step the largest path that passes through it.
    fn largest_path_through(&self) -> Vec<Option<RankedPath>> {
        let mut largest: Vec<Option<RankedPath>> = vec![None; self.parent.len()];
        for &(step, ranked) in &self.ends {
            largest[step as usize] = largest[step as usize].max(Some(ranked));
        }
        for &step in self.order.iter().rev() {
            let parent = self.parent[step as usize];
            if parent != NONE {
                largest[parent as usize] = largest[parent as usize].max(largest[step as usize]);
            }
        }
        largest
    }

    /// Finds contained paths within a tree: in a larger path through the same end, or in one that ends
    /// earlier if there is no content in between.
    fn find_within_trees(&self, containers: &mut FxHashMap<PathId, PathId>) {
        let largest = self.largest_path_through();
        let mut same: Vec<Option<RankedPath>> = vec![None; self.parent.len()];
        for &(step, ranked) in &self.ends {
            same[step as usize] = same[step as usize].max(Some(ranked));
        }
        for &step in &self.order {
            let parent = self.parent[step as usize];
            if parent != NONE && self.keys_by_step.members_of(step as usize).is_empty() {
                same[step as usize] = same[step as usize].max(same[parent as usize]);
            }
        }
        for &(step, ranked) in &self.ends {
            let by = largest[step as usize].max(same[step as usize]);
            if let Some(by) = by.filter(|&by| by > ranked) {
                containers.insert(id_of(ranked), id_of(by));
            }
        }
    }

    fn find_across_trees(&self, containers: &mut FxHashMap<PathId, PathId>) {
        let largest = self.largest_path_through();
        // The nearest step with content at or above each step.
        let mut last_with_keys: Vec<u32> = vec![NONE; self.parent.len()];
        for &step in &self.order {
            let above = last_with_keys.get(self.parent[step as usize] as usize).copied().unwrap_or(NONE);
            last_with_keys[step as usize] =
                if self.keys_by_step.members_of(step as usize).is_empty() { above } else { step };
        }
        let mut by_tree: FxHashMap<(u32, u32), Vec<(u32, RankedPath)>> = FxHashMap::default();
        for &(step, ranked) in
            self.ends.iter().filter(|(_, ranked)| !containers.contains_key(&id_of(*ranked)))
        {
            let (root, file_root) = (self.root[step as usize], self.file_root[step as usize]);
            by_tree.entry((root, file_root)).or_default().push((step, ranked));
        }
        for (&(tree, file_tree), ends) in &by_tree {
            // Candidates for copies: other trees, or other files joined to this tree.
            let mut candidates: FxHashMap<(u32, u32), usize> = FxHashMap::default();
            for &(step, _) in ends {
                let Some(last) = self.keys_of(last_with_keys[step as usize]).next() else { continue };
                for &(_, other, occurrence) in self.occurrences(last, None).iter().take(MAX_OCCURRENCES) {
                    let other_root = self.file_root[occurrence as usize];
                    let pair = if other != tree { (tree, other) } else { (file_tree, other_root) };
                    let known = other == tree
                        && (other_root == file_tree || !self.shares_continuation(file_tree, other_root));
                    if !known && largest[pair.1 as usize].is_some() {
                        *candidates.entry(pair).or_default() += 1;
                    }
                }
            }
            let mut candidates: Vec<(usize, (u32, u32))> =
                candidates.into_iter().map(|(pair, n)| (n, pair)).collect();
            candidates.sort_unstable_by_key(|&(n, pair)| (Reverse(n), pair));
            let mut left: Vec<(u32, RankedPath)> = ends.clone();
            for &(_, (from, to)) in candidates.iter().take(MAX_TREES) {
                if left.is_empty() {
                    break;
                }
                let found = self.find_copies_in(from, to);
                let start = self.order_index[from as usize];
                left.retain(|&(step, ranked)| {
                    let at = found[(self.order_index[step as usize] - start) as usize];
                    let by = at.and_then(|at| largest[at as usize]).filter(|&by| by > ranked);
                    if let Some(by) = by {
                        containers.insert(id_of(ranked), id_of(by));
                    }
                    by.is_none()
                });
            }
        }
    }

    /// Returns whether the point from which a file's tree continues is on the path to another's too.
    fn shares_continuation(&self, file_tree: u32, other: u32) -> bool {
        let before = self.parent[file_tree as usize];
        before == NONE || self.is_ancestor(before, other)
    }

    fn keys_of(&self, step: u32) -> impl Iterator<Item = u64> {
        let keys = if step == NONE { &[][..] } else { self.keys_by_step.members_of(step as usize) };
        keys.iter().map(|&content_key| self.key_values[content_key as usize])
    }

    /// Returns the occurrences of a key, in all trees or in one.
    fn occurrences(&self, key: u64, tree: Option<u32>) -> &[(u64, u32, u32)] {
        let from = (key, tree.unwrap_or(0));
        let to = (key, tree.unwrap_or(u32::MAX));
        let start = self.key_index.partition_point(|&(k, t, _)| (k, t) < from);
        let len = self.key_index[start..].partition_point(|&(k, t, _)| (k, t) <= to);
        &self.key_index[start..start + len]
    }

    /// Finds for each step in the subtree of `tree`, in order, a step in that of `other` whose path has
    /// all the keys on the path from `tree` to the step.
    fn find_copies_in(&self, tree: u32, other: u32) -> Vec<Option<u32>> {
        let in_tree = self.root[other as usize];
        let start = self.order_index[tree as usize] as usize;
        let steps = &self.order[start..start + self.subtree_size[tree as usize] as usize];
        // A step without content before it maps to the root.
        let mut found: Vec<Option<u32>> = Vec::with_capacity(steps.len());
        for &step in steps {
            let parent = self.parent[step as usize];
            let before = if step == tree {
                Some(other)
            } else {
                found[self.order_index[parent as usize] as usize - start]
            };
            let mut at = before;
            for key in self.keys_of(step) {
                at = at.and_then(|at| {
                    let deeper = |occurrence: u32| {
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

    /// Builds a session from its steps: the parent and the keys of each.
    fn session_fingerprint(steps: &[(Option<u32>, &[u64])], active: usize) -> SessionFingerprint {
        let parents: Vec<u32> = steps.iter().map(|(parent, _)| parent.unwrap_or(NONE)).collect();
        let keys = steps.iter().enumerate().flat_map(|(i, (_, keys))| {
            keys.iter().map(move |&key| StepContentKey { step: u32::try_from(i).expect("few"), key })
        });
        let is_end = |i: usize| !parents.iter().any(|&p| p as usize == i);
        let ends = (0..steps.len())
            .filter(|&i| is_end(i) || i == active)
            .map(|step| PathEnd { step, active: step == active })
            .collect();
        let mut keys: Vec<StepContentKey> = keys.collect();
        keys.sort_unstable();
        keys.dedup();
        SessionFingerprint { parents, content_keys: keys, path_ends: ends }
    }

    fn check(sessions: &[SessionFingerprint], continuations: &[SessionContinuation]) -> String {
        let describe = |(session, containers): (usize, &Vec<Option<PathId>>)| {
            let path = |(path, by): (usize, &Option<PathId>)| match by {
                Some(by) => format!("{session}.{path} in {}.{}", by.session, by.path),
                None => format!("{session}.{path}"),
            };
            containers.iter().enumerate().map(path).collect::<Vec<_>>()
        };
        containing_paths(sessions, continuations)
            .iter()
            .enumerate()
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
        let continuation = SessionContinuation { session: 1, root: 0, continues_from: (0, 1) };
        insta::assert_snapshot!(check(&[first.clone(), second.clone()], &[continuation]), @"0.0 in 1.0, 1.0");
        // Copies of a continuation in another file are copies.
        let copy = SessionContinuation { session: 2, root: 0, continues_from: (0, 1) };
        let longer = session_fingerprint(&[(None, C), (Some(0), D)], 1);
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), second.clone()], &[continuation, copy]), @"0.0 in 1.0, 1.0, 2.0 in 1.0");
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), longer], &[continuation, copy]), @"0.0 in 2.0, 1.0 in 2.0, 2.0");
        // A cycle of files is broken somewhere.
        let back = SessionContinuation { session: 0, root: 0, continues_from: (1, 0) };
        insta::assert_snapshot!(check(&[first, second], &[continuation, back]), @"0.0 in 1.0, 1.0");
    }

    /// Returns the keys on each path.
    fn keys_by_path(sessions: &[SessionFingerprint]) -> Vec<Vec<BTreeSet<u64>>> {
        let set = |fingerprint: &SessionFingerprint, step: usize| {
            let mut set = BTreeSet::new();
            let mut at = u32::try_from(step).expect("few");
            while at != NONE {
                set.extend(
                    fingerprint
                        .content_keys
                        .iter()
                        .filter(|content_key| content_key.step == at)
                        .map(|content_key| content_key.key),
                );
                at = fingerprint.parents[at as usize];
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
                        prop_assert!(sets[session][path].is_subset(&sets[by.session][by.path]));
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
        assert!(containers[0].iter().all(Option::is_none));
        assert!(containers[1..].iter().flatten().all(|by| by.is_some_and(|by| by.session == 0)));
    }
}
