//! Opens a library.

use std::path::PathBuf;
use std::sync::Arc;

use rethread_store::{SkippedPath, SkippedPaths, Store, SubagentIndex};

use crate::library::Library;
use crate::progress::{Progress, ProgressObserver};
use crate::search::index_of;

/// Opens a [`Library`] with options.
///
/// ```
/// use rethread::Library;
///
/// let library = Library::builder()
///     .root("/home/ada/.claude")
///     .on_skip(|skipped| eprintln!("skipped {}", skipped.path.display()))
///     .on_progress(|progress| eprintln!("{} bytes", progress.bytes))
///     .open();
/// assert_eq!(library.roots().len(), 1);
/// ```
#[derive(Debug, Default)]
pub struct LibraryBuilder {
    roots: Vec<PathBuf>,
    guard_roots: Vec<PathBuf>,
    skips: SkippedPaths,
    progress: ProgressObserver,
    cache_dir: Option<PathBuf>,
}

impl LibraryBuilder {
    /// Adds a config directory, such as `~/.claude`. It need not exist.
    ///
    /// ```
    /// let library = rethread::Library::builder().root("/home/ada/.claude").open();
    /// assert_eq!(library.roots(), ["/home/ada/.claude"].map(std::path::PathBuf::from));
    /// ```
    pub fn root(self, root: impl Into<PathBuf>) -> Self {
        self.roots([root])
    }

    /// Adds several config directories.
    ///
    /// ```
    /// let library = rethread::Library::builder().roots(["/home/ada/.claude", "/backup/claude"]).open();
    /// assert_eq!(library.roots().len(), 2);
    /// ```
    pub fn roots(mut self, roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.roots.extend(roots.into_iter().map(Into::into));
        self
    }

    /// Adds config directories whose running clients are also checked before a session is changed. Their sessions are not
    /// listed.
    ///
    /// ```
    /// // A session of the backup may be open in a client of the default directory.
    /// let library =
    ///     rethread::Library::builder().root("/backup/claude").guard_roots(["/home/ada/.claude"]).open();
    /// assert_eq!(library.roots().len(), 1);
    /// ```
    pub fn guard_roots(mut self, roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.guard_roots.extend(roots.into_iter().map(Into::into));
        self
    }

    /// Calls a function for each link and other non-regular file that is skipped, up to
    /// [`SkippedPaths::MAX_REPORTED`] of them.
    ///
    /// ```
    /// let skipped = |skipped: &rethread::SkippedPath| eprintln!("{}: {}", skipped.path.display(), skipped.reason);
    /// let library = rethread::Library::builder().root("/home/ada/.claude").on_skip(skipped).open();
    /// assert!(library.skips().all().is_empty());
    /// ```
    pub fn on_skip(mut self, observer: impl Fn(&SkippedPath) + Send + Sync + 'static) -> Self {
        self.skips = SkippedPaths::with_observer(observer);
        self
    }

    /// Calls a function for each session that an operation on many sessions has processed, from any thread.
    ///
    /// ```
    /// let library = rethread::Library::builder()
    ///     .root("/home/ada/.claude")
    ///     .on_progress(|progress| eprintln!("read {}", progress.source.file.path.display()))
    ///     .open();
    /// assert!(library.ls(&Default::default()).is_empty());
    /// ```
    pub fn on_progress(mut self, observer: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        self.progress = ProgressObserver::new(observer);
        self
    }

    /// Keeps an index of the sessions below a directory, for searches and listings. It can be deleted at any time.
    ///
    /// ```
    /// let library =
    ///     rethread::Library::builder().root("/home/ada/.claude").cache_dir("/home/ada/.cache/rethread").open();
    /// assert!(library.index().is_some());
    /// ```
    pub fn cache_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(dir.into());
        self
    }

    /// Opens the library. Nothing is read until it is used.
    ///
    /// ```
    /// let library = rethread::Library::builder().root("/home/ada/.claude").open();
    /// assert!(!library.is_demo());
    /// ```
    pub fn open(self) -> Library {
        let index = self.cache_dir.map(|dir| index_of(&self.roots, &dir));
        let agents = Arc::new(SubagentIndex::with_skips(self.skips.clone()));
        let store = Store::new(self.roots).with_guard_roots(self.guard_roots).with_skips(self.skips);
        Library {
            store,
            demo: None,
            is_demo: false,
            agents,
            summaries: Arc::default(),
            progress: self.progress,
            index,
        }
    }
}
