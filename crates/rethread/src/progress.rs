//! Progress of operations on many sessions.

use std::fmt;
use std::sync::Arc;

use crate::library::LogSource;

/// A step of an operation on many sessions: one of them was processed. An export reports each session twice, after
/// reading it and after writing its documents.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// The session.
    pub source: &'a LogSource,
    /// The size of its log.
    pub bytes: u64,
}

type ObserveProgress = dyn Fn(Progress<'_>) + Send + Sync;

/// The function that receives progress, if there is one.
#[derive(Clone, Default)]
pub(crate) struct ProgressObserver(Option<Arc<ObserveProgress>>);

impl ProgressObserver {
    pub(crate) fn new(observer: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observer)))
    }

    /// Reports that a session was processed.
    pub(crate) fn report(&self, source: &LogSource) {
        if let Some(observer) = &self.0 {
            observer(Progress { source, bytes: source.file.bytes });
        }
    }
}

impl fmt::Debug for ProgressObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressObserver").field(&self.0.is_some()).finish()
    }
}
