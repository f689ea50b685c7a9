//! Things on disk that were passed over, for a front end to report.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::PathRejection;

/// A file or directory that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedPath {
    /// Which.
    pub path: PathBuf,
    /// The reason.
    pub reason: PathRejection,
}

type Observer = Arc<dyn Fn(&SkippedPath) + Send + Sync>;

/// Collects what was passed over, each path once, and tells an observer; clones share what they collect.
#[derive(Clone, Default)]
pub struct SkippedPaths {
    seen: Arc<Mutex<BTreeSet<SkippedPath>>>,
    observer: Option<Observer>,
}

impl SkippedPaths {
    /// The number of paths that are reported one by one.
    pub const MAX_REPORTED: usize = 100;

    /// Begins with an observer that is told of each path once, up to a bound.
    pub fn with_observer(observer: impl Fn(&SkippedPath) + Send + Sync + 'static) -> Self {
        Self { seen: Arc::default(), observer: Some(Arc::new(observer)) }
    }

    /// Takes note of a path that is passed over.
    pub fn record(&self, path: PathBuf, reason: PathRejection) {
        let skipped = SkippedPath { path, reason };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // What a hostile directory holds is not listed without end.
        if seen.len() < Self::MAX_REPORTED && seen.insert(skipped.clone()) {
            drop(seen);
            if let Some(observer) = &self.observer {
                observer(&skipped);
            }
        }
    }

    /// Returns what was passed over so far.
    pub fn all(&self) -> Vec<SkippedPath> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl fmt::Debug for SkippedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Skips").field(&self.all()).finish()
    }
}
