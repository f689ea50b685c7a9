//! Numbers for names that recur in many logs: tools and models.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

/// The numbers of names. Threads that read logs share it; new names are stored with the rows that use them.
#[derive(Debug, Default)]
pub(crate) struct NameTable(Mutex<Numbers>);

#[derive(Debug, Default)]
struct Numbers {
    by_name: FxHashMap<String, i64>,
    /// Names that are not stored yet.
    new: Vec<(i64, String)>,
    last: i64,
}

impl NameTable {
    /// Creates a table with the stored names.
    pub(crate) fn new(stored: FxHashMap<i64, String>) -> Self {
        let last = stored.keys().copied().max().unwrap_or(0);
        let by_name = stored.into_iter().map(|(number, name)| (name, number)).collect();
        Self(Mutex::new(Numbers { by_name, new: Vec::new(), last }))
    }

    /// Returns the number of a name, from 1.
    pub(crate) fn number_of(&self, name: &str) -> i64 {
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&number) = numbers.by_name.get(name) {
            return number;
        }
        numbers.last += 1;
        let number = numbers.last;
        numbers.by_name.insert(name.to_owned(), number);
        numbers.new.push((number, name.to_owned()));
        number
    }

    /// Returns the names that are not stored yet, and counts them as stored.
    pub(crate) fn take_new(&self) -> Vec<(i64, String)> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner).new)
    }
}
