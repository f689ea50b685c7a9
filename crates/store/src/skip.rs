//! Skipped files and directories, for a front end to report.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use crate::PathRejection;

/// A file or directory that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SkippedPath {
    /// The path.
    pub path: PathBuf,
    /// The reason.
    pub reason: PathRejection,
}

type Observer = Arc<dyn Fn(&SkippedPath) + Send + Sync>;

/// Collects skipped paths, each once, and notifies an observer. Clones share one collection.
#[derive(Clone, Default)]
pub struct SkippedPaths {
    seen: Arc<Mutex<BTreeSet<SkippedPath>>>,
    observer: Option<Observer>,
}

impl SkippedPaths {
    /// The maximum number of reported paths.
    pub const MAX_REPORTED: usize = 100;

    /// Creates a collector with an observer, which is called once per path, up to a limit.
    pub fn with_observer(observer: impl Fn(&SkippedPath) + Send + Sync + 'static) -> Self {
        Self { seen: Arc::default(), observer: Some(Arc::new(observer)) }
    }

    /// Records a skipped path.
    pub fn record(&self, path: PathBuf, reason: PathRejection) {
        let skipped = SkippedPath { path, reason };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        // Bounded, because a hostile directory could have any number of them.
        if seen.len() < Self::MAX_REPORTED && seen.insert(skipped.clone()) {
            drop(seen);
            if let Some(observer) = &self.observer {
                observer(&skipped);
            }
        }
    }

    /// Returns the paths skipped so far.
    pub fn all(&self) -> Vec<SkippedPath> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

impl fmt::Debug for SkippedPaths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SkippedPaths").field(&self.all()).finish()
    }
}
