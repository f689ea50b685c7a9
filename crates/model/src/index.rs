//! Typed indices, and the tables that they index.
//!
//! An index is stored as its successor in a `NonZeroU32`, so that an `Option` of it takes four bytes and no
//! number means none. A [`Table`] can be indexed only by the type of its own keys.

use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The type of the keys of a [`Table`].
pub trait TableKey: Copy + Ord {
    /// Creates the key of the element at a position, from 0.
    fn from_index(index: usize) -> Self;

    /// Returns the position, from 0.
    fn index(self) -> usize;
}

/// Defines an index type with the methods of [`TableKey`].
macro_rules! index_type {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
        )]
        #[serde(transparent)]
        $visibility struct $name(std::num::NonZeroU32);

        impl $name {
            /// Creates the index of a position, from 0.
            #[inline]
            $visibility fn from_index(index: usize) -> Self {
                Self($crate::index::successor(index))
            }

            /// Returns the position, from 0.
            #[inline]
            $visibility fn index(self) -> usize {
                self.0.get() as usize - 1
            }
        }

        impl $crate::index::TableKey for $name {
            #[inline]
            fn from_index(index: usize) -> Self {
                Self::from_index(index)
            }

            #[inline]
            fn index(self) -> usize {
                self.index()
            }
        }
    };
    // An index that is shown.
    ($(#[$doc:meta])* $visibility:vis $name:ident shown as $shown:ident) => {
        $crate::index::index_type!($(#[$doc])* $visibility $name);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&self.$shown(), f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.$shown(), f)
            }
        }
    };
}
pub(crate) use index_type;

/// Defines the methods of a number that users see, which counts from 1.
macro_rules! number_type {
    ($(#[$doc:meta])* $visibility:vis $name:ident) => {
        index_type!($(#[$doc])* $visibility $name shown as get);

        impl $name {
            /// Creates the number `n`; 0 is none.
            #[inline]
            $visibility fn new(n: u32) -> Option<Self> {
                NonZeroU32::new(n).map(Self)
            }

            /// Returns the number.
            #[inline]
            $visibility fn get(self) -> u32 {
                self.0.get()
            }
        }
    };
}

/// Returns the stored form of an index. No log has four billion entries; if one had, the last would share an
/// index.
#[inline]
pub(crate) fn successor(index: usize) -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(u32::try_from(index).unwrap_or(u32::MAX))
}

index_type!(
    /// An entry with a uuid, as an index of [`Facts::nodes`](crate::Facts::nodes).
    pub NodeId shown as index
);
index_type!(
    /// A step, as an index of [`Tree::steps`](crate::Tree::steps).
    pub StepId shown as index
);
index_type!(
    /// A tool call, as an index of [`Facts::calls`](crate::Facts::calls).
    pub CallId shown as index
);
index_type!(
    /// A session among several, as a position in their list.
    pub SessionIndex shown as index
);
index_type!(
    /// A path of a session, as a position in the list of its paths.
    pub PathIndex shown as index
);
index_type!(
    /// The usage of a message, as an index of `Facts::usages`.
    pub(crate) UsageId shown as index
);
number_type!(
    /// The number of a message in its session, from 1. It never changes when a log grows.
    pub MessageNo
);
number_type!(
    /// The number of an entry in its log, from 1. Lines without an object are not counted.
    pub EntryNo
);

/// A vector that is indexed by one type of key.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Table<K, V> {
    values: Vec<V>,
    #[serde(skip)]
    key: PhantomData<fn(K)>,
}

impl<K: TableKey, V> Table<K, V> {
    /// Creates a table with the same value for each of `len` keys.
    pub fn filled(value: V, len: usize) -> Self
    where
        V: Clone,
    {
        vec![value; len].into()
    }

    /// Creates an empty table with room for `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        Vec::with_capacity(capacity).into()
    }

    pub(crate) fn reserve(&mut self, additional: usize) {
        self.values.reserve(additional);
    }

    /// Appends a value and returns its key.
    #[inline]
    pub fn push(&mut self, value: V) -> K {
        let key = self.next_key();
        self.values.push(value);
        key
    }

    /// Returns the key that the next value will have.
    #[inline]
    pub fn next_key(&self) -> K {
        K::from_index(self.values.len())
    }

    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }

    /// Sets all values.
    pub(crate) fn fill(&mut self, value: V)
    where
        V: Clone,
    {
        self.values.fill(value);
    }

    /// Returns the size of the table in memory.
    pub(crate) fn memory_size(&self) -> usize {
        self.values.capacity() * size_of::<V>()
    }

    /// Returns the number of values.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Returns the value of a key; `None` for a key of a longer table.
    #[inline]
    pub fn get(&self, key: K) -> Option<&V> {
        self.values.get(key.index())
    }

    /// Returns all keys, in order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + Clone + use<K, V> {
        (0..self.values.len()).map(K::from_index)
    }

    /// Returns all values, in the order of their keys.
    pub fn iter(&self) -> std::slice::Iter<'_, V> {
        self.values.iter()
    }

    /// Returns all values for modification, in the order of their keys.
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.values.iter_mut()
    }

    /// Returns all values with their keys, in order.
    pub fn iter_enumerated(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator {
        self.values.iter().enumerate().map(|(index, value)| (K::from_index(index), value))
    }

    /// Returns the values as a slice, for code that counts positions.
    pub fn as_slice(&self) -> &[V] {
        &self.values
    }

    /// Returns the values after a key.
    pub fn after(&self, key: K) -> &[V] {
        self.values.get(key.index() + 1..).unwrap_or_default()
    }
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<K, V> From<Vec<V>> for Table<K, V> {
    fn from(values: Vec<V>) -> Self {
        Self { values, key: PhantomData }
    }
}

impl<K, V: std::fmt::Debug> std::fmt::Debug for Table<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.values.fmt(f)
    }
}

impl<K: TableKey, V> Index<K> for Table<K, V> {
    type Output = V;

    #[inline]
    fn index(&self, key: K) -> &V {
        &self.values[key.index()]
    }
}

impl<K: TableKey, V> IndexMut<K> for Table<K, V> {
    #[inline]
    fn index_mut(&mut self, key: K) -> &mut V {
        &mut self.values[key.index()]
    }
}

impl<K, V> FromIterator<V> for Table<K, V> {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        Vec::from_iter(values).into()
    }
}

impl<'t, K, V> IntoIterator for &'t Table<K, V> {
    type Item = &'t V;
    type IntoIter = std::slice::Iter<'t, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.iter()
    }
}

impl<K, V> IntoIterator for Table<K, V> {
    type Item = V;
    type IntoIter = std::vec::IntoIter<V>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

/// Keys sorted into groups, without a `Vec` per group.
#[derive(Debug, Clone)]
pub struct IndexGroups<G, M> {
    starts: Vec<u32>,
    members: Vec<M>,
    group: PhantomData<fn(G)>,
}

impl<G, M> Default for IndexGroups<G, M> {
    fn default() -> Self {
        Self { starts: Vec::new(), members: Vec::new(), group: PhantomData }
    }
}

impl<G: TableKey, M: TableKey> IndexGroups<G, M> {
    /// Groups the keys of a table by its values; keys without a value are in no group.
    pub(crate) fn new(n_groups: usize, group_of: &Table<M, Option<G>>) -> Self {
        let mut starts = vec![0u32; n_groups + 1];
        for group in group_of.iter().flatten() {
            starts[group.index() + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut members = vec![M::from_index(0); starts.last().map_or(0, |&n| n as usize)];
        for (member, group) in group_of.iter_enumerated() {
            if let Some(group) = group {
                let at = &mut next[group.index()];
                members[*at as usize] = member;
                *at += 1;
            }
        }
        Self { starts, members, group: PhantomData }
    }

    /// Returns the members of a group, in order.
    pub fn members_of(&self, group: G) -> &[M] {
        let group = group.index();
        match self.starts.get(group..group + 2) {
            Some(&[start, end]) => &self.members[start as usize..end as usize],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_indices_take_four_bytes() {
        assert_eq!(size_of::<Option<NodeId>>(), 4);
        assert_eq!(size_of::<Option<MessageNo>>(), 4);
    }

    #[test]
    fn numbers_count_from_one_and_indices_from_zero() {
        let first = MessageNo::from_index(0);
        assert_eq!((first.get(), first.index(), MessageNo::new(1)), (1, 0, Some(first)));
        assert_eq!(MessageNo::new(0), None);
        assert_eq!(format!("{first} {first:?}"), "1 1");
        let node = NodeId::from_index(3);
        assert_eq!(format!("{node} {node:?}"), "3 3");
        assert_eq!(serde_json::to_string(&first).expect("a number"), "1");
    }

    #[test]
    fn members_are_grouped_in_order() {
        let step = |index| Some(StepId::from_index(index));
        let group_of: Table<NodeId, _> = vec![step(1), None, step(0), step(1)].into();
        let groups = IndexGroups::new(3, &group_of);
        let members = |index| {
            let members = groups.members_of(StepId::from_index(index));
            members.iter().map(|member| member.index()).collect::<Vec<_>>()
        };
        assert_eq!([members(0), members(1), members(2), members(3)], [vec![2], vec![0, 3], vec![], vec![]]);
    }
}
