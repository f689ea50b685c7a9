//! The library of sessions, and the resolution of session names.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rethread_index::Index;
use rethread_model::{Facts, Session, SessionId, SessionSummary, ShortIds};
use rethread_store::{
    FindError, FoundSessions, SessionFile, SkippedPaths, Store, SubagentIndex, read_facts, read_facts_from,
    read_whole,
};

use crate::builder::LibraryBuilder;
use crate::demo;
use crate::progress::{Progress, ProgressObserver};
use crate::session::LoadedSession;
use crate::titles::SummaryCache;

/// An error while finding or reading a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session was not found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// Its file could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Several sessions have a title that contains the name.
    #[error("`{wanted}` matches the titles of {} sessions", .candidates.len())]
    AmbiguousTitle {
        /// The requested name.
        wanted: String,
        /// The sessions, newest first.
        candidates: Vec<SessionSummary>,
        /// The ids of all sessions, for naming these.
        ids: ShortIds,
    },
    /// There is no session at all.
    #[error("there are no sessions")]
    NoLastSession {
        /// The directory.
        cwd: PathBuf,
    },
    /// One session is wanted, and the selector names none or several.
    #[error("`{}` contains {n} sessions", .wanted.display())]
    NotOne {
        /// The selector.
        wanted: OsString,
        /// The number of sessions.
        n: usize,
    },
    /// The file is not a log.
    #[error("{} is not a session", .path.display())]
    NotASession {
        /// The file.
        path: PathBuf,
    },
}

/// Names one or several sessions. Front ends make it from their arguments; only they know standard input, the current
/// directory and the environment.
///
/// ```
/// use rethread::Selector;
///
/// assert_eq!(Selector::from("0000d001"), Selector::Named("0000d001".into()));
/// let newest_of_a_project = Selector::Last { cwd: "/home/ada/kettle".into() };
/// let piped = Selector::Bytes { name: "stdin".into(), bytes: b"{}\n".to_vec() };
/// # let _ = (newest_of_a_project, piped);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selector {
    /// An id, the beginning of an id, a path to a log or a directory of logs, or a part of a title.
    Named(OsString),
    /// The newest session of the project that contains a directory; see [`Library::newest`].
    Last {
        /// The directory.
        cwd: PathBuf,
    },
    /// A log in memory, such as standard input.
    Bytes {
        /// The id of the session in output and errors.
        name: String,
        /// The whole log.
        bytes: Vec<u8>,
    },
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for Selector {
    fn from(named: &T) -> Self {
        Self::Named(named.as_ref().to_owned())
    }
}

/// A log: a file, or bytes from another source.
#[derive(Debug, Clone)]
pub struct LogSource {
    /// Its id and path.
    pub file: SessionFile,
    /// Its bytes, if it is not a file.
    pub(crate) bytes: Option<Arc<Vec<u8>>>,
}

impl From<SessionFile> for LogSource {
    fn from(file: SessionFile) -> Self {
        Self { file, bytes: None }
    }
}

impl LogSource {
    /// Creates a log source from bytes in memory.
    ///
    /// ```
    /// use rethread::{Library, LogSource};
    ///
    /// let log = br#"{"type":"user","uuid":"1","message":{"role":"user","content":"Hello"}}"#;
    /// let source = LogSource::from_bytes("a", "a.jsonl".as_ref(), log);
    /// assert_eq!(Library::demo().info(&source)?.inventory.turns, 1);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn from_bytes(id: &str, path: &Path, bytes: &[u8]) -> Self {
        Self::from_vec(id, path, bytes.to_vec())
    }

    fn from_vec(id: &str, path: &Path, bytes: Vec<u8>) -> Self {
        let file = SessionFile {
            id: id.to_owned(),
            path: path.to_owned(),
            base: path.parent().unwrap_or(Path::new("")).to_owned(),
            bytes: bytes.len() as u64,
            modified: None,
            inode: None,
            is_subagent: id.starts_with("agent-"),
            is_alone: false,
        };
        Self { file, bytes: Some(Arc::new(bytes)) }
    }

    pub(crate) fn error(&self, source: io::Error) -> Error {
        Error::Read { path: self.file.path.clone(), source }
    }

    /// Serialises the reading of large logs, so that memory is bounded by one of them.
    pub(crate) fn lock_if_large(&self) -> Option<MutexGuard<'static, ()>> {
        static LARGE: Mutex<()> = Mutex::new(());
        const LARGE_BYTES: u64 = 128 << 20;
        (self.file.bytes >= LARGE_BYTES).then(|| LARGE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the id of its session.
    ///
    /// ```
    /// let source = rethread::Library::demo().find_one("0000d002")?;
    /// assert_eq!(source.id().as_str(), "0000d002-0000-4000-8000-000000000000");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn id(&self) -> SessionId {
        SessionId::from(self.file.id.as_str())
    }

    /// Reads its facts, in memory that does not grow with its texts; also returns its size.
    pub(crate) fn facts(&self) -> Result<(Facts, u64), Error> {
        match &self.bytes {
            Some(bytes) => read_facts_from(&mut &bytes[..], u64::MAX),
            None => read_facts(&self.file),
        }
        .map_err(|source| self.error(source))
    }
}

/// The sessions under some config directories.
#[derive(Debug, Clone)]
pub struct Library {
    pub(crate) store: Store,
    /// The built-in sample, used instead of directories.
    pub(crate) demo: Option<Vec<LogSource>>,
    /// Set for the sample, built in or on disk.
    pub(crate) is_demo: bool,
    pub(crate) agents: Arc<SubagentIndex>,
    pub(crate) summaries: Arc<SummaryCache>,
    pub(crate) progress: ProgressObserver,
    /// The cache of what is known of the logs, if there is a cache directory.
    pub(crate) index: Option<Index>,
}

impl Library {
    /// Opens config directories, such as `~/.claude`. They need not exist.
    ///
    /// ```
    /// let library = rethread::Library::open(["/home/ada/.claude"]);
    /// assert!(!library.has_projects());
    /// ```
    pub fn open(roots: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self::builder().roots(roots).open()
    }

    /// Returns a builder, for a library with observers or other options.
    ///
    /// ```
    /// let library = rethread::Library::builder().root("/home/ada/.claude").open();
    /// assert_eq!(library.roots().len(), 1);
    /// ```
    pub fn builder() -> LibraryBuilder {
        LibraryBuilder::default()
    }

    /// Opens a small sample that is built into the program.
    ///
    /// ```
    /// assert_eq!(rethread::Library::demo().ls(&Default::default()).sessions.len(), 5);
    /// ```
    pub fn demo() -> Self {
        Self { demo: Some(demo::sources()), is_demo: true, ..Self::builder().open() }
    }

    /// Returns whether this is the sample, built in or on disk.
    ///
    /// ```
    /// assert!(rethread::Library::demo().is_demo());
    /// ```
    pub fn is_demo(&self) -> bool {
        self.is_demo
    }

    /// Returns the same library with an observer, which is called for each session that an operation on many sessions
    /// has processed, from any thread.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// use rethread::Library;
    ///
    /// let bytes = Arc::new(AtomicU64::new(0));
    /// let counter = Arc::clone(&bytes);
    /// let library = Library::demo().with_progress(move |progress| {
    ///     counter.fetch_add(progress.bytes, Ordering::Relaxed);
    /// });
    /// let options = Default::default();
    /// library.ls(&options);
    /// assert_eq!(bytes.load(Ordering::Relaxed), library.scope_bytes(&options));
    /// ```
    pub fn with_progress(&self, observer: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self { progress: ProgressObserver::new(observer), ..self.clone() }
    }

    /// Returns the same library without observers of progress and of skipped paths.
    ///
    /// ```
    /// let library = rethread::Library::builder().root("/home/ada/.claude").on_skip(|_| panic!()).open();
    /// assert_eq!(library.without_observers().roots(), library.roots());
    /// ```
    pub fn without_observers(&self) -> Self {
        let library = Self::open(self.roots());
        Self { demo: self.demo.clone(), is_demo: self.is_demo, index: self.index.clone(), ..library }
    }

    /// Returns the config directories.
    ///
    /// ```
    /// assert!(rethread::Library::demo().roots().is_empty());
    /// ```
    pub fn roots(&self) -> &[PathBuf] {
        self.store.roots()
    }

    /// Returns whether the config directories contain any project.
    ///
    /// ```
    /// assert!(!rethread::Library::open(["/nowhere"]).has_projects());
    /// ```
    pub fn has_projects(&self) -> bool {
        !self.store.projects().is_empty()
    }

    /// Returns whether sessions were started in a directory or in a worktree of it.
    ///
    /// ```
    /// assert!(!rethread::Library::open(["/nowhere"]).has_project("/home/ada/kettle".as_ref()));
    /// ```
    pub fn has_project(&self, cwd: &Path) -> bool {
        !self.store.projects_below(cwd).is_empty()
    }

    /// Returns the links and other non-regular files that were skipped so far.
    ///
    /// ```
    /// assert!(rethread::Library::demo().skips().all().is_empty());
    /// ```
    pub fn skips(&self) -> &SkippedPaths {
        self.store.skips()
    }

    /// Finds the logs that a selector names.
    ///
    /// ```
    /// use rethread::{Library, Selector};
    ///
    /// let library = Library::demo();
    /// assert_eq!(library.find("0000d001")?.len(), 1);
    /// let newest = library.find(Selector::Last { cwd: "/home/ada/kettle".into() })?;
    /// assert_eq!(newest.len(), 1);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn find(&self, selector: impl Into<Selector>) -> Result<Vec<LogSource>, Error> {
        match selector.into() {
            Selector::Bytes { name, bytes } => Ok(vec![LogSource::from_vec(&name, Path::new("-"), bytes)]),
            Selector::Last { cwd } => self.newest(&cwd).map(|newest| vec![newest.source]),
            Selector::Named(wanted) => self.find_named(&wanted).or_else(|error| match error {
                Error::Find(unknown @ FindError::NoMatch { .. }) => {
                    self.find_one_titled(&wanted.to_string_lossy(), unknown).map(|source| vec![source])
                }
                error => Err(error),
            }),
        }
    }

    /// Finds the log that a selector names; fails if it names none or several.
    ///
    /// ```
    /// use rethread::{Error, Library};
    ///
    /// let library = Library::demo();
    /// let source = library.find_one("0000d001")?;
    /// assert_eq!(source.file.path.extension(), Some("jsonl".as_ref()));
    /// assert!(matches!(library.find_one("0000"), Err(Error::Find(_))));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn find_one(&self, selector: impl Into<Selector>) -> Result<LogSource, Error> {
        let selector = selector.into();
        let wanted = match &selector {
            Selector::Named(wanted) => wanted.clone(),
            Selector::Last { cwd } => cwd.clone().into(),
            Selector::Bytes { name, .. } => name.into(),
        };
        let mut sources = self.find(selector)?;
        match (sources.pop(), sources.len()) {
            (Some(source), 0) => Ok(source),
            (last, n) => Err(Error::NotOne { wanted, n: n + usize::from(last.is_some()) }),
        }
    }

    /// Finds the logs with an id or at a path.
    pub(crate) fn find_named(&self, wanted: &OsStr) -> Result<Vec<LogSource>, Error> {
        let in_demo = self.find_demo(wanted)?;
        match (in_demo, self.demo.is_some() && !Path::new(wanted).exists()) {
            (Some(source), _) => Ok(vec![source]),
            (None, true) => {
                let wanted = wanted.to_string_lossy().into_owned();
                Err(FindError::NoMatch { wanted, roots: Vec::new() }.into())
            }
            (None, false) => Ok(match self.store.find(wanted)? {
                FoundSessions::One(file) => vec![file.into()],
                FoundSessions::Many(files) => files.into_iter().map(LogSource::from).collect(),
            }),
        }
    }

    fn find_demo(&self, wanted: &OsStr) -> Result<Option<LogSource>, Error> {
        let Some(demo) = &self.demo else { return Ok(None) };
        let path = Path::new(wanted);
        let wanted = wanted.to_str().unwrap_or_default();
        let is_named = |source: &&LogSource| {
            let id = source.file.id.get(..wanted.len());
            let is_id = id.is_some_and(|beginning| beginning.eq_ignore_ascii_case(wanted));
            !wanted.is_empty() && (is_id || source.file.path == path)
        };
        let matching: Vec<&LogSource> = demo.iter().filter(is_named).collect();
        match matching[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => {
                let candidates = matching.iter().map(|s| s.file.clone()).collect();
                Err(FindError::Ambiguous { wanted: wanted.to_owned(), candidates }.into())
            }
        }
    }

    /// Reads a session with its texts.
    ///
    /// ```
    /// use rethread::{Client, Library};
    ///
    /// let library = Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// assert_eq!(loaded.tree(Client::NEWEST).len(), 3);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn load(&self, source: &LogSource) -> Result<LoadedSession, Error> {
        let bytes = self.bytes_of(source)?;
        let session = Session::read(&bytes);
        reject_non_log(source, &session.facts)?;
        Ok(LoadedSession { source: source.clone(), session, bytes, agents: Arc::clone(&self.agents) })
    }

    /// Reads the bytes of a log.
    pub(crate) fn bytes_of(&self, source: &LogSource) -> Result<Arc<Vec<u8>>, Error> {
        match &source.bytes {
            Some(bytes) => Ok(Arc::clone(bytes)),
            None => read_whole(&source.file).map(Arc::new).map_err(|e| source.error(e)),
        }
    }

    /// Returns the logs of a session's subagents.
    pub(crate) fn agents_of(&self, source: &LogSource) -> Vec<SessionFile> {
        if source.bytes.is_some() { Vec::new() } else { self.agents.logs_of(&source.file) }
    }

    /// Reads a session without its texts; also returns its size.
    pub(crate) fn read(&self, source: &LogSource) -> Result<(Session, u64), Error> {
        let (facts, bytes) = source.facts()?;
        reject_non_log(source, &facts)?;
        Ok((Session::new(facts), bytes))
    }
}

/// Rejects a file that was named by mistake: one without a single entry and without the name of a log. Any
/// other log is accepted, however malformed or truncated.
pub(crate) fn reject_non_log(source: &LogSource, facts: &Facts) -> Result<(), Error> {
    let named_so =
        source.file.path.extension().is_some_and(|ending| ending == "jsonl") || source.bytes.is_some();
    if facts.locations.is_empty() && facts.lines > 0 && !named_so {
        return Err(Error::NotASession { path: source.file.path.clone() });
    }
    Ok(())
}

/// Returns the config directory of a session, as in `<root>/projects/<project>/<id>.jsonl`; `None` for a log that no
/// client would find.
///
/// ```
/// let root = rethread::config_root("/home/ada/.claude/projects/-x/1.jsonl".as_ref());
/// assert_eq!(root, Some("/home/ada/.claude".into()));
/// assert_eq!(rethread::config_root("/tmp/1.jsonl".as_ref()), None);
/// ```
pub fn config_root(path: &Path) -> Option<PathBuf> {
    let projects = path.parent()?.parent()?;
    projects
        .parent()
        .filter(|_| projects.file_name().is_some_and(|name| name == "projects"))
        .map(Path::to_owned)
}
