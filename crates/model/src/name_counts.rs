//! Counts names that recur in a log and stores each once.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use rethread_log::unescape;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// The index of a name in its [`NameCounts`], stored as its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NameId(NonZeroU16);

impl NameId {
    const FIRST: Self = Self(NonZeroU16::MIN);
    /// The name shared by all that no longer fit.
    const LAST: Self = Self(NonZeroU16::MAX);

    fn from_index(index: usize) -> Self {
        let index = u16::try_from(index).unwrap_or(u16::MAX);
        Self(NonZeroU16::MIN.saturating_add(index))
    }

    fn index(self) -> usize {
        usize::from(self.0.get()) - 1
    }
}

/// Recurring names, with the number of occurrences of each.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "StoredNames")]
pub struct NameCounts {
    names: Vec<(Box<str>, u32)>,
    last: NameId,
    #[serde(skip)]
    index: FxHashMap<Box<str>, NameId>,
}

/// The stored form of [`NameCounts`].
#[derive(Deserialize)]
struct StoredNames {
    names: Vec<(Box<str>, u32)>,
    last: NameId,
}

impl From<StoredNames> for NameCounts {
    fn from(stored: StoredNames) -> Self {
        let name = |(index, (name, _)): (usize, &(Box<str>, u32))| (name.clone(), NameId::from_index(index));
        let index = stored.names.iter().enumerate().map(name).collect();
        Self { names: stored.names, last: stored.last, index }
    }
}

impl Default for NameCounts {
    fn default() -> Self {
        Self { names: Vec::new(), index: FxHashMap::default(), last: NameId::FIRST }
    }
}

impl NameCounts {
    /// Counts a name, given as the inner bytes of a string, and returns its index.
    pub fn count(&mut self, inner: &[u8]) -> NameId {
        let index = self.find_or_add(inner);
        self.names[index.index()].1 += 1;
        index
    }

    fn find_or_add(&mut self, inner: &[u8]) -> NameId {
        // The same name usually repeats, so the last one is checked first.
        if self.names.get(self.last.index()).is_some_and(|(name, _)| name.as_bytes() == inner) {
            return self.last;
        }
        // A name is a word or a path; anything longer is truncated.
        let name = unescape(&inner[..inner.len().min(4000)]);
        if let Some(&index) = self.index.get(&*name) {
            self.last = index;
            return index;
        }
        // With more than 65,000 distinct names the file is malformed; the rest share one name.
        let full = self.names.len() >= NameId::LAST.index();
        let name: Box<str> = if full { "(other)".into() } else { name.into() };
        let next = NameId::from_index(self.names.len());
        let index = *self.index.entry(name.clone()).or_insert(next);
        if index.index() == self.names.len() {
            self.names.push((name, 0));
        }
        self.last = index;
        index
    }

    /// Returns the name at an index.
    pub fn name(&self, index: NameId) -> &str {
        self.names.get(index.index()).map_or("", |(name, _)| name)
    }

    /// Returns all names with their counts, in the order of their first occurrence.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u32)> {
        self.names.iter().map(|(name, n)| (&**name, *n))
    }

    /// Returns the number of names.
    pub fn n_names(&self) -> usize {
        self.names.len()
    }

    /// Returns the names with their counts, sorted by name.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.iter().filter(|&(_, n)| n > 0).map(|(name, n)| (name.to_owned(), n.into())).collect()
    }

    /// Returns the first name.
    pub fn first(&self) -> Option<&str> {
        self.names.first().map(|(name, _)| &**name)
    }

    /// Returns the name counted last.
    pub fn last(&self) -> Option<&str> {
        self.names.get(self.last.index()).map(|(name, _)| &**name)
    }
}
