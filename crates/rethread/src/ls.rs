//! Lists and selects sessions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use rethread_model::{Client, Facts, Session, SessionKind, SessionSummary, Time, title};
use rethread_store::{FindError, LiveClient, SessionFile, project_dir_name};

use crate::library::{Library, LogSource, Selector};
use crate::titles::{self, TitleInFile};

/// Options of a listing.
///
/// ```
/// use rethread::{Library, LsOptions, SortOrder};
///
/// let options = LsOptions::new().project("kettle").sort(SortOrder::Turns);
/// let listing = Library::demo().ls(&options);
/// assert_eq!(listing.sessions[0].title.text, "Kettle: choose a sensor");
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LsOptions {
    /// Only sessions of this directory's project.
    pub cwd: Option<PathBuf>,
    /// Only these projects: directories, or parts of their names. Files and directories of logs outside any
    /// config directory are accepted too.
    pub projects: Vec<OsString>,
    /// Include subagents, headless runs and files without a conversation.
    pub agents: bool,
    /// Only sessions with entries since then.
    pub since: Option<Time>,
    /// The order of the sessions.
    pub sort: SortOrder,
}

impl LsOptions {
    /// Creates the default options: all conversations of all projects, newest first.
    ///
    /// ```
    /// assert!(rethread::LsOptions::new().projects.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists only sessions of the project of a directory.
    ///
    /// ```
    /// let options = rethread::LsOptions::new().cwd("/home/ada/kettle");
    /// assert_eq!(options.cwd, Some("/home/ada/kettle".into()));
    /// ```
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Lists only sessions of this project, and of others that are added.
    ///
    /// ```
    /// let options = rethread::LsOptions::new().project("kettle").project("almanac");
    /// assert_eq!(options.projects.len(), 2);
    /// ```
    pub fn project(mut self, project: impl Into<OsString>) -> Self {
        self.projects.push(project.into());
        self
    }

    /// Includes subagents, headless runs and files without a conversation.
    ///
    /// ```
    /// let options = rethread::LsOptions::new().agents(true);
    /// assert!(rethread::Library::demo().ls(&options).hidden.iter().all(|(_, n)| *n == 0));
    /// ```
    pub fn agents(mut self, agents: bool) -> Self {
        self.agents = agents;
        self
    }

    /// Lists only sessions with entries since then.
    ///
    /// ```
    /// use rethread::{Library, LsOptions, Time};
    ///
    /// let future = Time::parse(b"2100-01-01T00:00:00.000Z").expect("a valid time");
    /// let options = LsOptions::new().since(future);
    /// assert!(Library::demo().ls(&options).sessions.is_empty());
    /// ```
    pub fn since(mut self, since: Time) -> Self {
        self.since = Some(since);
        self
    }

    /// Sorts the sessions.
    ///
    /// ```
    /// use rethread::{Library, LsOptions, SortOrder};
    ///
    /// let sessions = Library::demo().ls(&LsOptions::new().sort(SortOrder::Size)).sessions;
    /// assert!(sessions.is_sorted_by(|a, b| a.bytes >= b.bytes));
    /// ```
    pub fn sort(mut self, sort: SortOrder) -> Self {
        self.sort = sort;
        self
    }
}

/// The order in which sessions are listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// Most recently written first.
    #[default]
    Recent,
    /// Largest first.
    Size,
    /// Most turns first.
    Turns,
}

/// The sessions of a listing, and the number of hidden ones.
#[derive(Debug, Default)]
pub struct Listing {
    /// The sessions, in order.
    pub sessions: Vec<SessionSummary>,
    /// Numbers of hidden subagents, headless runs and files without a conversation.
    pub hidden: Vec<(SessionKind, usize)>,
    /// Requested projects that were not found.
    pub missing: Vec<OsString>,
    /// Files that could not be read.
    pub errors: Vec<crate::Error>,
}

impl Listing {
    /// Returns whether nothing was found, not even hidden sessions.
    ///
    /// ```
    /// assert!(rethread::Library::open(["/nowhere"]).ls(&Default::default()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.hidden.iter().all(|(_, n)| *n == 0)
    }
}

/// The kinds of files that are counted, not listed, unless asked for.
const HIDDEN_KINDS: [SessionKind; 5] = [
    SessionKind::Agent,
    SessionKind::Headless,
    SessionKind::Empty,
    SessionKind::Summaries,
    SessionKind::Pointer,
];

struct ScannedSession {
    summary: SessionSummary,
    title_in_file: TitleInFile,
}

impl Library {
    /// Lists sessions.
    ///
    /// ```
    /// use rethread::{Library, LsOptions};
    ///
    /// for session in Library::demo().ls(&LsOptions::new()).sessions {
    ///     println!("{}  {}  {}", session.id, session.turns, session.title.text);
    /// }
    /// ```
    pub fn ls(&self, options: &LsOptions) -> Listing {
        let hidden = HIDDEN_KINDS.map(|kind| (kind, 0)).to_vec();
        let mut listing = Listing { hidden, ..Listing::default() };
        let sources = self.sources_in_scope(options, &mut listing);
        let live = self.store.live_clients();
        let scanned: Vec<Result<ScannedSession, crate::Error>> = sources
            .par_iter()
            .map(|source| {
                let scanned = scan(self, source, &live);
                self.progress.report(source);
                scanned
            })
            .collect();
        let mut found = Vec::new();
        for result in scanned {
            match result {
                Ok(scanned) => found.push(scanned),
                Err(error) => listing.errors.push(error),
            }
        }
        titles::apply_other_summaries(found.iter_mut().map(|scanned| &mut scanned.title_in_file));
        for ScannedSession { mut summary, title_in_file } in found {
            summary.title = title_in_file.title;
            if options.cwd.as_ref().is_some_and(|cwd| is_of_other_project(&summary, cwd))
                || options.since.is_some_and(|since| summary.modified < Some(since))
            {
                continue;
            }
            match listing.hidden.iter_mut().find(|(kind, _)| *kind == summary.kind) {
                Some((_, n)) if !options.agents => *n += 1,
                _ => listing.sessions.push(summary),
            }
        }
        listing.sessions.sort_by(|a, b| {
            let order = match options.sort {
                SortOrder::Recent => b.modified.cmp(&a.modified),
                SortOrder::Size => b.bytes.cmp(&a.bytes),
                SortOrder::Turns => b.turns.cmp(&a.turns),
            };
            order.then_with(|| a.path.cmp(&b.path))
        });
        listing
    }

    /// Returns the number of bytes that [`Library::ls`] would read.
    ///
    /// ```
    /// assert!(rethread::Library::demo().scope_bytes(&Default::default()) > 0);
    /// ```
    pub fn scope_bytes(&self, options: &LsOptions) -> u64 {
        self.sources_in_scope(options, &mut Listing::default()).iter().map(|source| source.file.bytes).sum()
    }

    /// Returns the time of the last entry of a log; `None` if it is not a session that is listed for `cwd`.
    pub(crate) fn last_time_in(&self, source: &LogSource, cwd: &Path) -> Option<Option<Time>> {
        let summary = scan(self, source, &BTreeMap::new()).ok()?.summary;
        let is_listed = !HIDDEN_KINDS.contains(&summary.kind) && !is_of_other_project(&summary, cwd);
        is_listed.then_some(summary.modified)
    }

    fn sources_in_scope(&self, options: &LsOptions, listing: &mut Listing) -> Vec<LogSource> {
        if let Some(demo) = &self.demo {
            return self.demo_scope(demo, options, listing);
        }
        if let Some(cwd) = &options.cwd {
            return self.logs_of(&self.store.projects_of(cwd));
        }
        if options.projects.is_empty() {
            return self.logs_of(&self.store.projects());
        }
        let mut sources = Vec::new();
        for wanted in &options.projects {
            let found = self.project(wanted);
            if found.is_empty() {
                listing.missing.push(wanted.clone());
            }
            sources.extend(found);
        }
        sources.sort_by(|a, b| a.file.path.cmp(&b.file.path));
        sources.dedup_by(|a, b| a.file.path == b.file.path);
        sources
    }

    fn demo_scope(&self, demo: &[LogSource], options: &LsOptions, listing: &mut Listing) -> Vec<LogSource> {
        if options.projects.is_empty() {
            return demo.to_vec();
        }
        let mut sources = Vec::new();
        for wanted in &options.projects {
            let in_project = |source: &&LogSource| {
                source.facts().is_ok_and(|(facts, _)| {
                    facts.cwds.first().is_some_and(|cwd| cwd.contains(&*wanted.to_string_lossy()))
                })
            };
            let found: Vec<LogSource> = demo.iter().filter(in_project).cloned().collect();
            if found.is_empty() {
                listing.missing.push(wanted.clone());
            }
            sources.extend(found);
        }
        sources
    }

    /// Finds the logs that several selectors name: sessions, files, directories, projects. Without selectors, finds
    /// those of the project of `cwd`, or without `cwd` the whole library.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// assert_eq!(library.select(&["0000d001".into(), "almanac".into()], None)?.len(), 3);
    /// assert_eq!(library.select(&[], None)?.len(), 4);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn select(&self, wanted: &[Selector], cwd: Option<PathBuf>) -> Result<Vec<LogSource>, crate::Error> {
        if wanted.is_empty() {
            let options = LsOptions { cwd, ..LsOptions::default() };
            return Ok(self.sources_in_scope(&options, &mut Listing::default()));
        }
        let mut sources = Vec::new();
        for selector in wanted {
            let Selector::Named(wanted) = selector else {
                sources.extend(self.find(selector.clone())?);
                continue;
            };
            let text = wanted.to_string_lossy();
            // An empty argument, such as an unset variable, selects nothing.
            if text.trim().is_empty() {
                let roots = self.store.roots().to_vec();
                return Err(FindError::NoMatch { wanted: text.into_owned(), roots }.into());
            }
            match self.find(wanted) {
                Ok(found) => sources.extend(found),
                Err(error) if !matches!(error, crate::Error::Find(FindError::NoMatch { .. })) => {
                    return Err(error);
                }
                Err(error) => {
                    let options = LsOptions::new().project(wanted);
                    let found = self.sources_in_scope(&options, &mut Listing::default());
                    if found.is_empty() {
                        return Err(error);
                    }
                    sources.extend(found);
                }
            }
        }
        Ok(sources)
    }

    /// Finds the sessions of a project by its directory, its name or a part of it, or the logs below any
    /// other directory.
    fn project(&self, wanted: &OsStr) -> Vec<LogSource> {
        let path = Path::new(wanted);
        if let Ok(real) = path.canonicalize() {
            let found = self.logs_of(&self.store.projects_of(&real));
            if !found.is_empty() {
                return found;
            }
            if let Ok(found) = self.find(wanted) {
                return found;
            }
        }
        // The path of a project that no longer exists on disk.
        let gone = self.logs_of(&self.store.projects_of(path));
        if !gone.is_empty() {
            return gone;
        }
        let part = project_dir_name(&wanted.to_string_lossy()).to_lowercase();
        let mut dirs = self.store.projects();
        dirs.retain(|dir| {
            dir.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().contains(&part))
        });
        self.logs_of(&dirs)
    }

    /// Returns the logs of projects, including those of subagents.
    fn logs_of(&self, projects: &[PathBuf]) -> Vec<LogSource> {
        projects.iter().flat_map(|dir| self.store.sessions_in(dir, true)).map(LogSource::from).collect()
    }
}

/// Returns whether a session began in another directory with the same encoded name (`/a/b-c` and `/a/b/c`).
fn is_of_other_project(session: &SessionSummary, cwd: &Path) -> bool {
    let Some(theirs) = &session.cwd else { return false };
    let ours = cwd.to_string_lossy();
    *theirs != ours && project_dir_name(theirs) == project_dir_name(&ours)
}

fn scan(
    library: &Library,
    source: &LogSource,
    live: &BTreeMap<String, LiveClient>,
) -> Result<ScannedSession, crate::Error> {
    let _turn = source.lock_if_large();
    let (facts, bytes) = source.facts()?;
    let session = Session::new(facts);
    let title_in_file = TitleInFile::new(&session.facts, &source.file);
    let mut summary = summarise(&session, source, bytes);
    if summary.kind == SessionKind::Agent && library.store.is_orphan_subagent(&source.file) {
        summary.kind = SessionKind::Orphan;
    }
    summary.subagents += library.agents_of(source).len() as u64;
    summary.is_live = live.contains_key(&source.file.id);
    Ok(ScannedSession { summary, title_in_file })
}

impl LogSource {
    /// Summarises the log on its own: a title in another file, sidecars and clients that have it open are ignored.
    ///
    /// ```
    /// let source = rethread::Library::demo().find_one("0000d001")?;
    /// assert_eq!(source.summary()?.paths, 3);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn summary(&self) -> Result<SessionSummary, crate::Error> {
        let (facts, bytes) = self.facts()?;
        Ok(summarise(&Session::new(facts), self, bytes))
    }
}

fn summarise(session: &Session, source: &LogSource, bytes: u64) -> SessionSummary {
    let facts = &session.facts;
    let last = facts.time_span.map(|(_, last)| last);
    let answered = |model: &str| model != "<synthetic>" && model != "None";
    SessionSummary {
        id: source.id(),
        path: source.file.path.clone(),
        kind: kind_of(facts, &source.file),
        title: title(facts, None),
        cwd: facts.cwds.first().map(str::to_owned),
        first_prompt: facts.first_prompt.clone(),
        created: facts.time_span.map(|(first, _)| first),
        modified: last.or_else(|| Some(Time::from_millis(millis(source.file.modified?)?))),
        bytes,
        entries: facts.locations.len() as u64,
        messages: facts.messages.len() as u64,
        turns: session.turns() as u64,
        tool_calls: facts.calls.len() as u64,
        paths: session.paths(Client::NEWEST).len() as u64,
        compactions: session.compactions() as u64,
        subagents: session.inline_subagent_count() as u64,
        models: facts.models.iter().map(|(m, _)| m.to_owned()).filter(|m| answered(m)).collect(),
        versions: facts.versions.iter().map(|(v, _)| v.to_owned()).collect(),
        git_branch: facts.git_branches.last().filter(|b| !b.is_empty()).map(str::to_owned),
        is_live: false,
        defects: session.defects().len() as u64 + facts.defects_omitted,
    }
}

fn millis(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn kind_of(facts: &Facts, file: &SessionFile) -> SessionKind {
    if facts.locations.is_empty() {
        SessionKind::Empty
    } else if facts.messages.is_empty() {
        let summaries = facts.types.get("summary").copied().unwrap_or(0);
        if summaries == facts.locations.len() as u64 { SessionKind::Summaries } else { SessionKind::Pointer }
    } else if file.is_subagent || facts.is_all_sidechain() {
        SessionKind::Agent
    } else if facts.entrypoints.iter().next().is_some_and(|(name, _)| name.starts_with("sdk")) {
        SessionKind::Headless
    } else {
        SessionKind::Conversation
    }
}
