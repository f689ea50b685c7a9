//! Which paths are held by others, across sessions.
//!
//! A path is held by another if everything that was said on it was said on the other too. The
//! sessions are joined into one forest, where a root whose parent is in another file hangs on that
//! file's step. Inside a tree a path is held by one that runs through its ending. Between trees the
//! last thing said on a path tells where its copies can be; only those trees are looked at, each
//! once for the whole tree, so that the work is near-linear in what was said and never pairwise.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use crate::content_keys::StepContentKey;
use crate::facts::NONE;
use crate::session::Session;
use crate::tree::IndexGroups;

/// What is kept of a session while others are read.
#[derive(Debug, Clone, Default)]
pub struct SessionFingerprint {
    /// The step before each step.
    parents: Vec<u32>,
    /// What was said, by step.
    content_keys: Vec<StepContentKey>,
    /// The endings of its paths.
    path_ends: Vec<PathEnd>,
}

/// The ending of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathEnd {
    /// The step that the path ends with.
    pub step: usize,
    /// The client would resume it.
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

/// Where a session goes on from in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionContinuation {
    /// The index of the session.
    pub session: usize,
    /// Its root.
    pub root: usize,
    /// The index of the other session, and the step there.
    pub continues_from: (usize, usize),
}

/// How many trees are looked at for copies of one tree.
const MAX_TREES: usize = 16;
/// How many places of one thing said are looked at.
const MAX_OCCURRENCES: usize = 64;

impl SessionFingerprint {
    /// Keeps of a session what is needed to find copies; what was said counts once on each step.
    pub fn new(session: &Session, mut said: Vec<StepContentKey>, endings: Vec<PathEnd>) -> Self {
        said.sort_unstable();
        said.dedup();
        said.shrink_to_fit();
        let parents = session.tree.steps.iter().map(|step| step.parent).collect();
        Self { parents, content_keys: said, path_ends: endings }
    }

    /// Leaves these of its endings.
    pub fn retain_path_ends(mut self, kept: &[usize]) -> Self {
        self.path_ends = kept.iter().filter_map(|&i| self.path_ends.get(i).copied()).collect();
        self
    }

    /// Says that something was said under another key.
    pub fn replace_key(&mut self, from: u64, to: u64) {
        for said in &mut self.content_keys {
            if said.key == from {
                said.key = to;
            }
        }
    }
}

/// Finds for each path of each session the one that holds it, if it is not to be kept itself.
///
/// Of paths that hold each other one is kept: one that a client would resume before others, then the
/// one of the earlier session.
pub fn containing_paths(
    sessions: &[SessionFingerprint],
    joints: &[SessionContinuation],
) -> Vec<Vec<Option<PathId>>> {
    let forest = Forest::new(sessions, joints);
    let mut held: FxHashMap<PathId, PathId> = FxHashMap::default();
    forest.find_within_trees(&mut held);
    forest.find_across_trees(&mut held);
    let kept = |mut at: PathId| {
        // Each holder is larger in one order of all paths, so this ends.
        while let Some(&by) = held.get(&at) {
            at = by;
        }
        at
    };
    sessions
        .iter()
        .enumerate()
        .map(|(session, sketch)| {
            let holder = |path| {
                let id = PathId { session, path };
                Some(kept(id)).filter(|&by| by != id)
            };
            (0..sketch.path_ends.len()).map(holder).collect()
        })
        .collect()
}

/// A path with its place in the order of all paths: one that is held comes before its holder.
type RankedPath = (u32, Reverse<(bool, PathId)>);

fn id_of(ranked: RankedPath) -> PathId {
    ranked.1.0.1
}

/// All steps of all sessions in one numbering, joined across files.
struct Forest {
    parent: Vec<u32>,
    /// The steps, each before what follows it, trees one behind the other.
    order: Vec<u32>,
    /// The place of each step in the order.
    order_index: Vec<u32>,
    /// How many steps follow each, itself included.
    subtree_size: Vec<u32>,
    /// The first step of each step's tree.
    root: Vec<u32>,
    /// The first step of each step's tree in its own file.
    file_root: Vec<u32>,
    /// What was said on each step.
    keys_by_step: IndexGroups,
    /// The keys, by the numbers that `keys` gives.
    key_values: Vec<u64>,
    /// How many things were said on the way to each step.
    keys_on_path: Vec<u32>,
    /// The endings at each step.
    ends: Vec<(u32, RankedPath)>,
    /// Everything that was said: the key, the tree, the step; sorted.
    key_index: Vec<(u64, u32, u32)>,
}

impl Forest {
    fn new(sessions: &[SessionFingerprint], joints: &[SessionContinuation]) -> Self {
        let number = |n: usize| u32::try_from(n).unwrap_or(NONE);
        let mut first = Vec::with_capacity(sessions.len());
        let mut parent = Vec::new();
        for sketch in sessions {
            let start = number(parent.len());
            first.push(start);
            parent.extend(sketch.parents.iter().map(|&p| if p == NONE { NONE } else { start + p }));
        }
        let alone = parent.clone();
        for joint in joints {
            let (session, step) = joint.continues_from;
            let (root, before) = (first[joint.session] as usize + joint.root, first[session] + number(step));
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
        for (sketch, &start) in sessions.iter().zip(&first) {
            step_of.extend(sketch.content_keys.iter().map(|said| start + said.step));
            forest.key_values.extend(sketch.content_keys.iter().map(|said| said.key));
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
        for (session, (sketch, &start)) in sessions.iter().zip(&first).enumerate() {
            for (path, end) in sketch.path_ends.iter().enumerate() {
                let step = start + number(end.step);
                let id = PathId { session, path };
                forest.ends.push((step, (forest.keys_on_path[step as usize], Reverse((!end.active, id)))));
            }
        }
        forest
    }

    /// Puts the steps in an order in which each tree is one run, and cuts joints that make a circle.
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

    /// Tells whether the way to `below` leads through `above`.
    fn is_ancestor(&self, above: u32, below: u32) -> bool {
        let (start, at) = (self.order_index[above as usize], self.order_index[below as usize]);
        start <= at && at - start < self.subtree_size[above as usize]
    }

    /// Finds for each step the largest path that runs through it.
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

    /// A path is held by a larger one that runs through its ending, and by one that ends before it if
    /// nothing was said between.
    fn find_within_trees(&self, held: &mut FxHashMap<PathId, PathId>) {
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
                held.insert(id_of(ranked), id_of(by));
            }
        }
    }

    fn find_across_trees(&self, held: &mut FxHashMap<PathId, PathId>) {
        let largest = self.largest_path_through();
        // The step that last said something, on the way to each.
        let mut spoke: Vec<u32> = vec![NONE; self.parent.len()];
        for &step in &self.order {
            let above = spoke.get(self.parent[step as usize] as usize).copied().unwrap_or(NONE);
            spoke[step as usize] =
                if self.keys_by_step.members_of(step as usize).is_empty() { above } else { step };
        }
        let mut by_tree: FxHashMap<(u32, u32), Vec<(u32, RankedPath)>> = FxHashMap::default();
        for &(step, ranked) in self.ends.iter().filter(|(_, ranked)| !held.contains_key(&id_of(*ranked))) {
            let (root, file_root) = (self.root[step as usize], self.file_root[step as usize]);
            by_tree.entry((root, file_root)).or_default().push((step, ranked));
        }
        for (&(tree, file_tree), ends) in &by_tree {
            // Where copies can be: in other trees, or in other files that are joined to this one.
            let mut candidates: FxHashMap<(u32, u32), usize> = FxHashMap::default();
            for &(step, _) in ends {
                let Some(last) = self.keys_of(spoke[step as usize]).next() else { continue };
                for &(_, other, place) in self.occurrences(last, None).iter().take(MAX_OCCURRENCES) {
                    let beside = self.file_root[place as usize];
                    let pair = if other != tree { (tree, other) } else { (file_tree, beside) };
                    let known = other == tree
                        && (beside == file_tree || !self.shares_continuation(file_tree, beside));
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
                        held.insert(id_of(ranked), id_of(by));
                    }
                    by.is_none()
                });
            }
        }
    }

    /// Tells whether what a file's tree goes on from is on the way to another's too.
    fn shares_continuation(&self, file_tree: u32, other: u32) -> bool {
        let before = self.parent[file_tree as usize];
        before == NONE || self.is_ancestor(before, other)
    }

    fn keys_of(&self, step: u32) -> impl Iterator<Item = u64> {
        let keys = if step == NONE { &[][..] } else { self.keys_by_step.members_of(step as usize) };
        keys.iter().map(|&said| self.key_values[said as usize])
    }

    /// Returns where a thing was said, in all trees or in one.
    fn occurrences(&self, key: u64, tree: Option<u32>) -> &[(u64, u32, u32)] {
        let from = (key, tree.unwrap_or(0));
        let to = (key, tree.unwrap_or(u32::MAX));
        let start = self.key_index.partition_point(|&(k, t, _)| (k, t) < from);
        let len = self.key_index[start..].partition_point(|&(k, t, _)| (k, t) <= to);
        &self.key_index[start..start + len]
    }

    /// Finds for each step from `tree` on, in order, a step from `other` on, on whose way everything was
    /// said that was said on the way from `tree` to the step.
    fn find_copies_in(&self, tree: u32, other: u32) -> Vec<Option<u32>> {
        let in_tree = self.root[other as usize];
        let start = self.order_index[tree as usize] as usize;
        let steps = &self.order[start..start + self.subtree_size[tree as usize] as usize];
        // Nothing said yet is everywhere: at the root.
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
                    let deeper = |place: u32| {
                        if self.is_ancestor(place, at) {
                            Some(at)
                        } else {
                            self.is_ancestor(at, place).then_some(place)
                        }
                    };
                    self.occurrences(key, Some(in_tree)).iter().find_map(|&(_, _, place)| deeper(place))
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

    /// A session by its steps: the step before each, and what was said on it.
    fn session_fingerprint(steps: &[(Option<u32>, &[u64])], active: usize) -> SessionFingerprint {
        let parents: Vec<u32> = steps.iter().map(|(parent, _)| parent.unwrap_or(NONE)).collect();
        let said = steps.iter().enumerate().flat_map(|(i, (_, keys))| {
            keys.iter().map(move |&key| StepContentKey { step: u32::try_from(i).expect("few"), key })
        });
        let is_end = |i: usize| !parents.iter().any(|&p| p as usize == i);
        let endings = (0..steps.len())
            .filter(|&i| is_end(i) || i == active)
            .map(|step| PathEnd { step, active: step == active })
            .collect();
        let mut said: Vec<StepContentKey> = said.collect();
        said.sort_unstable();
        said.dedup();
        SessionFingerprint { parents, content_keys: said, path_ends: endings }
    }

    fn check(sessions: &[SessionFingerprint], joints: &[SessionContinuation]) -> String {
        let told = |(session, held): (usize, &Vec<Option<PathId>>)| {
            let path = |(path, by): (usize, &Option<PathId>)| match by {
                Some(by) => format!("{session}.{path} in {}.{}", by.session, by.path),
                None => format!("{session}.{path}"),
            };
            held.iter().enumerate().map(path).collect::<Vec<_>>()
        };
        containing_paths(sessions, joints).iter().enumerate().flat_map(told).collect::<Vec<_>>().join(", ")
    }

    const A: &[u64] = &[1];
    const B: &[u64] = &[2, 3];
    const C: &[u64] = &[4];
    const D: &[u64] = &[5];

    #[test]
    fn copies_are_held_by_what_they_are_copies_of() {
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
    fn of_two_branches_each_holds_its_own_copy() {
        let forked = session_fingerprint(&[(None, A), (Some(0), B), (Some(0), C), (Some(2), D)], 3);
        let left = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        let right = session_fingerprint(&[(None, A), (Some(0), C)], 1);
        let both = session_fingerprint(&[(None, A), (Some(0), B), (Some(1), C)], 2);
        insta::assert_snapshot!(check(&[left, right, both, forked], &[]), @"0.0 in 2.0, 1.0 in 2.0, 2.0, 3.0 in 2.0, 3.1");
    }

    #[test]
    fn what_the_client_would_resume_is_kept_of_equals() {
        let abandoned = session_fingerprint(&[(None, A), (Some(0), B), (Some(0), C)], 2);
        let alive = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        insta::assert_snapshot!(check(&[abandoned, alive], &[]), @"0.0 in 1.0, 0.1, 1.0");
    }

    #[test]
    fn an_ending_inside_another_path_is_held_by_it() {
        let inner = session_fingerprint(&[(None, A), (Some(0), B)], 0);
        insta::assert_snapshot!(check(&[inner], &[]), @"0.0 in 0.1, 0.1");
    }

    #[test]
    fn what_goes_on_in_another_file_is_one_path() {
        let first = session_fingerprint(&[(None, A), (Some(0), B)], 1);
        let second = session_fingerprint(&[(None, C)], 0);
        let joint = SessionContinuation { session: 1, root: 0, continues_from: (0, 1) };
        insta::assert_snapshot!(check(&[first.clone(), second.clone()], &[joint]), @"0.0 in 1.0, 1.0");
        // Copies of what goes on in another file are copies.
        let copy = SessionContinuation { session: 2, root: 0, continues_from: (0, 1) };
        let longer = session_fingerprint(&[(None, C), (Some(0), D)], 1);
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), second.clone()], &[joint, copy]), @"0.0 in 1.0, 1.0, 2.0 in 1.0");
        insta::assert_snapshot!(check(&[first.clone(), second.clone(), longer], &[joint, copy]), @"0.0 in 2.0, 1.0 in 2.0, 2.0");
        // A circle of files is cut somewhere.
        let back = SessionContinuation { session: 0, root: 0, continues_from: (1, 0) };
        insta::assert_snapshot!(check(&[first, second], &[joint, back]), @"0.0 in 1.0, 1.0");
    }

    /// What was said on each path.
    fn keys_by_path(sessions: &[SessionFingerprint]) -> Vec<Vec<BTreeSet<u64>>> {
        let set = |sketch: &SessionFingerprint, step: usize| {
            let mut set = BTreeSet::new();
            let mut at = u32::try_from(step).expect("few");
            while at != NONE {
                set.extend(sketch.content_keys.iter().filter(|said| said.step == at).map(|said| said.key));
                at = sketch.parents[at as usize];
            }
            set
        };
        sessions.iter().map(|s| s.path_ends.iter().map(|end| set(s, end.step)).collect()).collect()
    }

    fn any_session() -> impl Strategy<Value = SessionFingerprint> {
        // Few keys, so that sessions overlap; a key once on each step and mostly once in a session.
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
        fn what_is_left_out_is_all_in_what_is_kept(sessions in prop::collection::vec(any_session(), 1..6)) {
            let held = containing_paths(&sessions, &[]);
            let sets = keys_by_path(&sessions);
            for (session, held) in held.iter().enumerate() {
                for (path, by) in held.iter().enumerate() {
                    if let Some(by) = by {
                        prop_assert!(sets[session][path].is_subset(&sets[by.session][by.path]));
                    }
                }
            }
            let kept: Vec<&BTreeSet<u64>> = sets.iter().zip(&held)
                .flat_map(|(sets, held)| sets.iter().zip(held))
                .filter(|(_, by)| by.is_none()).map(|(set, _)| set).collect();
            let all: BTreeSet<u64> = sets.iter().flatten().flatten().copied().collect();
            let of_kept: BTreeSet<u64> = kept.iter().copied().flatten().copied().collect();
            prop_assert_eq!(all, of_kept);
        }

        /// Copies as they really are: the same things in the same order, cut at some place.
        #[test]
        fn no_copy_is_kept(lengths in prop::collection::vec(1..30usize, 1..20)) {
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
    fn a_thousand_copies_of_a_session_with_a_thousand_branches_take_no_time() {
        let n = 1000u32;
        let steps: Vec<(Option<u32>, Vec<u64>)> =
            (0..n).map(|i| (i.checked_sub(1).map(|p| p / 2), vec![u64::from(i)])).collect();
        let borrowed: Vec<(Option<u32>, &[u64])> = steps.iter().map(|(p, k)| (*p, &k[..])).collect();
        let sessions = vec![session_fingerprint(&borrowed, 999); 1000];
        let held = containing_paths(&sessions, &[]);
        assert!(held[0].iter().all(Option::is_none));
        assert!(held[1..].iter().flatten().all(|by| by.is_some_and(|by| by.session == 0)));
    }
}
