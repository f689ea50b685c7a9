//! Lists and selects sessions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rethread_model::{
    Client, Facts, LogSummary, MessageCounts, OriginKind, Session, SessionKind, SessionOrigin,
    SessionSummary, Severity, Time, TitleSource, Worktree, harmful_findings, title,
};
use rethread_store::{FindError, Holder, LiveClient, SessionFile, client_worktree, project_dir_name};
use rustc_hash::FxHashMap;

use crate::library::{Library, LogSource, Selector};
use crate::origin::{is_dir_of, recorded_directory};
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
    /// Only sessions with entries since then, or made since then from another.
    pub since: Option<Time>,
    /// Only sessions whose last entry, or whose making from another, is before then.
    pub until: Option<Time>,
    /// Only sessions with several paths.
    pub branched: bool,
    /// Only sessions in which a model with this in its name answered, whatever the case.
    pub model: Option<String>,
    /// Only sessions whose last git branch is this one.
    pub git_branch: Option<String>,
    /// The order of the sessions.
    pub sort: SortOrder,
    /// Check each session against the clients in use ([`SessionSummary::severity`]). Logs of subagents are not
    /// checked, because nobody resumes them.
    pub check: bool,
    /// List at most this many sessions.
    pub limit: Option<usize>,
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

    /// Lists only sessions with no entry since then.
    ///
    /// ```
    /// use rethread::{Library, LsOptions, Time};
    ///
    /// let past = Time::parse(b"2000-01-01T00:00:00.000Z").expect("a valid time");
    /// assert!(Library::demo().ls(&LsOptions::new().until(past)).sessions.is_empty());
    /// ```
    pub fn until(mut self, until: Time) -> Self {
        self.until = Some(until);
        self
    }

    /// Lists only sessions with several paths.
    ///
    /// ```
    /// let sessions = rethread::Library::demo().ls(&rethread::LsOptions::new().branched(true)).sessions;
    /// assert!(!sessions.is_empty() && sessions.iter().all(|session| session.paths > 1));
    /// ```
    pub fn branched(mut self, branched: bool) -> Self {
        self.branched = branched;
        self
    }

    /// Lists only sessions in which a model with this in its name answered, whatever the case.
    ///
    /// ```
    /// let sessions = rethread::Library::demo().ls(&rethread::LsOptions::new().model("Claude-")).sessions;
    /// assert_eq!(sessions.len(), 5);
    /// ```
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Lists only sessions whose last git branch is this one.
    ///
    /// ```
    /// let options = rethread::LsOptions::new().git_branch("no-such-branch");
    /// assert!(rethread::Library::demo().ls(&options).sessions.is_empty());
    /// ```
    pub fn git_branch(mut self, branch: impl Into<String>) -> Self {
        self.git_branch = Some(branch.into());
        self
    }

    /// Returns whether a session has the content that is wanted.
    fn selects(&self, summary: &SessionSummary) -> bool {
        let has_model = |wanted: &String| {
            let wanted = wanted.to_lowercase();
            summary.models.iter().any(|model| model.to_lowercase().contains(&wanted))
        };
        (!self.branched || summary.paths > 1)
            && self.model.as_ref().is_none_or(has_model)
            && self.git_branch.as_ref().is_none_or(|branch| summary.git_branch.as_ref() == Some(branch))
    }

    /// Checks each session against the clients in use, as [`Library::check`] does.
    ///
    /// ```
    /// let options = rethread::LsOptions::new().check(true);
    /// assert!(rethread::Library::demo().ls(&options).sessions.iter().all(|session| session.severity.is_some()));
    /// ```
    pub fn check(mut self, check: bool) -> Self {
        self.check = check;
        self
    }

    /// Lists at most `n` sessions, the first in order.
    ///
    /// ```
    /// let listing = rethread::Library::demo().ls(&rethread::LsOptions::new().limit(2));
    /// assert_eq!((listing.sessions.len(), listing.beyond_limit), (2, 3));
    /// ```
    pub fn limit(mut self, n: usize) -> Self {
        self.limit = Some(n);
        self
    }

    /// Returns whether a session of this kind is checked, if it is listed.
    fn checks(&self, kind: SessionKind, source: &LogSource) -> bool {
        self.check && (self.agents || !HIDDEN_KINDS.contains(&kind)) && !source.file.is_subagent
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
    /// The number of sessions that were left out because of their time, branches or models.
    pub out_of_range: usize,
    /// The number of sessions beyond the limit.
    pub beyond_limit: usize,
    /// Requested projects that were not found.
    pub missing: Vec<OsString>,
    /// Files that could not be read.
    pub errors: Vec<crate::Error>,
}

impl Listing {
    /// Returns whether nothing was found, not even hidden sessions or such of other times.
    ///
    /// ```
    /// assert!(rethread::Library::open(["/nowhere"]).ls(&Default::default()).is_empty());
    /// ```
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.out_of_range == 0 && self.hidden.iter().all(|(_, n)| *n == 0)
    }
}

/// The kinds of files that are counted, not listed, unless asked for.
pub(crate) const HIDDEN_KINDS: [SessionKind; 6] = [
    SessionKind::Agent,
    SessionKind::Orphan,
    SessionKind::Headless,
    SessionKind::Empty,
    SessionKind::Summaries,
    SessionKind::Pointer,
];

/// A session of a listing whose title may be in another file.
struct ListedSession {
    /// Its title is empty.
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
        let known = self.known_summaries(&sources);
        let listed: Vec<Result<ListedSession, crate::Error>> = sources
            .par_iter()
            .zip(known)
            .map(|(source, known)| {
                let listed = known.map_or_else(|| self.read_summary(source, options), Ok);
                self.progress.report(source);
                Ok(self.listed(listed?, source, options, &live))
            })
            .collect();
        let mut found = Vec::new();
        for result in listed {
            match result {
                Ok(listed) => found.push(listed),
                Err(error) => listing.errors.push(error),
            }
        }
        titles::apply_other_summaries(found.iter_mut().map(|listed| &mut listed.title_in_file));
        let mut worktrees: FxHashMap<String, Option<Worktree>> = FxHashMap::default();
        for ListedSession { mut summary, title_in_file } in found {
            summary.title = title_in_file.title;
            if options.cwd.as_ref().is_some_and(|cwd| is_of_other_project(&summary, cwd)) {
                continue;
            }
            let is_older = options.since.is_some_and(|since| summary.recency() < Some(since));
            let is_newer =
                options.until.is_some_and(|until| summary.recency().is_none_or(|time| time >= until));
            if is_older || is_newer {
                listing.out_of_range += 1;
                continue;
            }
            if !options.selects(&summary) {
                listing.out_of_range += 1;
                continue;
            }
            match listing.hidden.iter_mut().find(|(kind, _)| *kind == summary.kind) {
                Some((_, n)) if !options.agents => *n += 1,
                _ => {
                    summary.worktree = self.worktree_of(&summary, &mut worktrees);
                    listing.sessions.push(summary);
                }
            }
        }
        listing.sessions.sort_by(|a, b| {
            let order = match options.sort {
                SortOrder::Recent => b.recency().cmp(&a.recency()),
                SortOrder::Size => b.bytes.cmp(&a.bytes),
                SortOrder::Turns => b.turns.cmp(&a.turns),
            };
            order.then_with(|| a.path.cmp(&b.path))
        });
        if let Some(limit) = options.limit {
            listing.beyond_limit = listing.sessions.len().saturating_sub(limit);
            listing.sessions.truncate(limit);
            if options.check {
                self.check_listed(&sources, &mut listing.sessions);
            }
        }
        listing
    }

    /// Checks the sessions of a listing of which no result of a check is known. One that can no longer be read stays
    /// unchecked.
    fn check_listed(&self, sources: &[LogSource], sessions: &mut [SessionSummary]) {
        let sources: FxHashMap<&Path, &LogSource> =
            sources.iter().map(|source| (source.file.path.as_path(), source)).collect();
        let unchecked = sessions.par_iter_mut().filter(|session| session.severity.is_none());
        unchecked.for_each(|session| {
            let source = sources.get(session.path.as_path()).filter(|source| !source.file.is_subagent);
            let Some(source) = source else { return };
            let _turn = source.lock_if_large();
            session.severity = source.facts().ok().map(|(facts, _)| severity_of(&Session::new(facts)));
        });
    }

    /// Returns the worktree of a session. Most sessions share their directory with others.
    fn worktree_of(
        &self,
        session: &SessionSummary,
        known: &mut FxHashMap<String, Option<Worktree>>,
    ) -> Option<Worktree> {
        let cwd = session.cwd.as_ref().filter(|_| !self.is_demo())?;
        if let Some(worktree) = known.get(cwd) {
            return worktree.clone();
        }
        let worktree = rethread_store::worktree_of(Path::new(cwd));
        known.insert(cwd.clone(), worktree.clone());
        worktree
    }

    /// Returns the number of bytes that [`Library::ls`] would read.
    ///
    /// ```
    /// assert!(rethread::Library::demo().scope_bytes(&Default::default()) > 0);
    /// ```
    pub fn scope_bytes(&self, options: &LsOptions) -> u64 {
        self.sources_in_scope(options, &mut Listing::default()).iter().map(|source| source.file.bytes).sum()
    }

    /// Summarises one session, with its title even if it is stored in another file. Sidecars and clients that have it
    /// open are ignored.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let summary = library.summary(&library.find_one("0000d001")?)?;
    /// assert_eq!(summary.title.text, "Kettle: choose a sensor");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn summary(&self, source: &LogSource) -> Result<SessionSummary, crate::Error> {
        let (facts, bytes) = source.facts()?;
        let title = self.title_of(source, &facts);
        Ok(SessionSummary { title, ..summarise(&Session::new(facts), source, bytes) })
    }

    /// Returns the directory in which clients find a session. A session that was moved to another project does not
    /// record it; then it is the directory of another session of the project.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let summary = library.find_one("0000d001")?.summary()?;
    /// assert_eq!(library.resume_dir(&summary), summary.resume_dir);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn resume_dir(&self, session: &SessionSummary) -> Option<PathBuf> {
        session.resume_dir.clone().or_else(|| {
            let project = session.path.parent().filter(|_| !self.is_demo())?;
            let neighbours = self.store.sessions_in(project, false);
            neighbours.iter().find_map(|file| resume_dir_in(file, &rethread_store::read_facts(file).ok()?.0))
        })
    }

    /// Returns a process that has a session open, or may have it open.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// assert!(library.holder(&library.find_one("0000d001")?).is_none());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn holder(&self, source: &LogSource) -> Option<Holder> {
        self.store.holder(&source.file).filter(|_| source.bytes.is_none())
    }

    /// Summarises a log; returns `None` if it is not a session that is listed for a directory or for all.
    pub(crate) fn listed_summary(
        &self,
        source: &LogSource,
        project: Option<&Path>,
    ) -> Option<SessionSummary> {
        let options = LsOptions::default();
        let known = self.known_summaries(std::slice::from_ref(source)).pop().flatten();
        let known = known.map_or_else(|| self.read_summary(source, &options), Ok).ok()?;
        let listed = self.listed(known, source, &options, &BTreeMap::new());
        let summary = SessionSummary { title: listed.title_in_file.title, ..listed.summary };
        let is_listed = !HIDDEN_KINDS.contains(&summary.kind)
            && !project.is_some_and(|project| is_of_other_project(&summary, project));
        is_listed.then_some(summary)
    }

    /// Returns what the catalogue has of logs, if it has a catalogue. It only saves time, so errors are ignored.
    pub(crate) fn known_summaries(&self, sources: &[LogSource]) -> Vec<Option<LogSummary>> {
        let files: Vec<&SessionFile> = sources.iter().map(|source| &source.file).collect();
        let known = self.index.as_ref().map(|index| index.known_summaries(&files));
        known.and_then(Result::ok).unwrap_or_else(|| vec![None; sources.len()])
    }

    /// Summarises a log by reading it. It is checked only if the listing shows that.
    fn read_summary(&self, source: &LogSource, options: &LsOptions) -> Result<LogSummary, crate::Error> {
        let _turn = source.lock_if_large();
        let (facts, bytes) = source.facts()?;
        let session = Session::new(facts);
        let mut known = describe(&session, source, bytes);
        // With a limit, the order decides which sessions are checked.
        if options.limit.is_none() && options.checks(self.listed_kind(known.summary.kind, source), source) {
            known.summary.severity = Some(severity_of(&session));
        }
        Ok(known)
    }

    /// Adds what is not in the log to its summary.
    fn listed(
        &self,
        known: LogSummary,
        source: &LogSource,
        options: &LsOptions,
        live: &BTreeMap<String, LiveClient>,
    ) -> ListedSession {
        let (title_in_file, mut summary) = TitleInFile::of_summary(known, &source.file);
        summary.kind = self.listed_kind(summary.kind, source);
        summary.resume_dir = summary.resume_dir.or_else(|| resume_dir_in_sidecar(&source.file));
        summary.subagents += self.agents_of(source).len() as u64;
        summary.is_live = live.contains_key(&source.file.id);
        summary.severity = summary.severity.filter(|_| options.checks(summary.kind, source));
        source.add_origin_to(&mut summary);
        ListedSession { summary, title_in_file }
    }

    /// Returns the kind of a log, judged by other files too.
    fn listed_kind(&self, kind: SessionKind, source: &LogSource) -> SessionKind {
        let is_orphan = kind == SessionKind::Agent && self.store.is_orphan_subagent(&source.file);
        if is_orphan { SessionKind::Orphan } else { kind }
    }

    pub(crate) fn sources_in_scope(&self, options: &LsOptions, listing: &mut Listing) -> Vec<LogSource> {
        if let Some(demo) = &self.demo {
            return self.demo_scope(demo, options, listing);
        }
        if let Some(cwd) = &options.cwd {
            return self.logs_of(&self.store.projects_below(cwd));
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
    /// assert_eq!(library.select(&[], None)?.len(), 5);
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
            sources.extend(self.select_named(wanted)?);
        }
        Ok(sources)
    }

    /// Finds the logs of an id, a path, a project of this name, a single session with this in its title, or projects
    /// with this in their names; the first that exists. So a project is not mistaken for a word in a title, nor a
    /// title for a part of some project's name.
    fn select_named(&self, wanted: &OsStr) -> Result<Vec<LogSource>, crate::Error> {
        let unknown = match self.find_named(wanted) {
            Err(crate::Error::Find(unknown @ FindError::NoMatch { .. })) => unknown,
            found => return found,
        };
        let projects = self.sources_in_scope(&LsOptions::new().project(wanted), &mut Listing::default());
        if !projects.is_empty() && self.is_project_name(wanted) {
            return Ok(projects);
        }
        match self.find_one_titled(&wanted.to_string_lossy(), unknown) {
            Ok(source) => Ok(vec![source]),
            Err(crate::Error::Find(FindError::NoMatch { .. })) if !projects.is_empty() => Ok(projects),
            // Several titles: whoever meant one of them did not mean a project.
            Err(error) => Err(error),
        }
    }

    /// Returns whether a project has this name, as far as the names of project directories tell.
    fn is_project_name(&self, wanted: &OsStr) -> bool {
        let ending = format!("-{}", project_dir_name(&wanted.to_string_lossy()).to_lowercase());
        let has_name = |project: &str| project.to_lowercase().ends_with(&ending);
        match &self.demo {
            Some(demo) => demo
                .iter()
                .filter_map(|source| source.facts().ok())
                .any(|(facts, _)| facts.cwds.first().is_some_and(|cwd| has_name(&project_dir_name(cwd)))),
            None => self
                .store
                .projects()
                .iter()
                .any(|dir| dir.file_name().is_some_and(|name| has_name(&name.to_string_lossy()))),
        }
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
        let files = projects.par_iter().flat_map_iter(|dir| self.store.sessions_in(dir, true));
        files.map(LogSource::from).collect()
    }
}

/// Returns whether a session began in another directory with the same encoded name (`/a/b-c` and `/a/b/c`), or in a
/// worktree of such a directory.
pub(crate) fn is_of_other_project(session: &SessionSummary, cwd: &Path) -> bool {
    let Some(theirs) = &session.cwd else { return false };
    let ours = cwd.to_string_lossy();
    let is_other = |theirs: &str| theirs != ours && project_dir_name(theirs) == project_dir_name(&ours);
    let repository = client_worktree(theirs).map(|worktree| worktree.repository);
    is_other(theirs) || repository.is_some_and(|repository| is_other(&repository.to_string_lossy()))
}

/// Returns the severity of the worst finding of a check against the clients in use.
pub(crate) fn severity_of(session: &Session) -> Severity {
    let findings = harmful_findings(session, &Client::IN_USE);
    findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Harmless)
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

/// Summarises a log as far as the summary follows from the log alone. It is not checked.
pub(crate) fn describe(session: &Session, source: &LogSource, bytes: u64) -> LogSummary {
    let summary = summarise(session, source, bytes);
    LogSummary {
        project: summary.project().into_owned(),
        other_titles: session.facts.summaries.clone(),
        accepts_title: summary.title.source >= TitleSource::FirstPrompt
            && !session.facts.locations.is_empty(),
        summary: SessionSummary { resume_dir: recorded_resume_dir(&source.file, &session.facts), ..summary },
    }
}

pub(crate) fn summarise(session: &Session, source: &LogSource, bytes: u64) -> SessionSummary {
    let facts = &session.facts;
    let last = facts.time_span.map(|(_, last)| last);
    let answered = |model: &str| model != "<synthetic>" && model != "None";
    SessionSummary {
        id: source.id(),
        path: source.file.path.clone(),
        kind: kind_of(facts, &source.file),
        title: title(facts, None),
        cwd: facts.cwds.first().map(str::to_owned),
        resume_dir: resume_dir_in(&source.file, facts),
        first_prompt: facts.first_prompt.clone(),
        created: facts.time_span.map(|(first, _)| first),
        modified: last.or_else(|| Time::from_system(source.file.modified?)),
        bytes,
        entries: facts.locations.len() as u64,
        messages: MessageCounts::new(facts).total(),
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
        worktree: None,
        origin: facts.forked_from.as_deref().map(|from| SessionOrigin {
            source: from.into(),
            kind: OriginKind::Fork,
            time: None,
            directory: None,
        }),
        severity: None,
    }
}

/// Returns the first directory that a log records and whose project contains the log. A clone that was put into another
/// project records its directory in a sidecar.
pub(crate) fn resume_dir_in(file: &SessionFile, facts: &Facts) -> Option<PathBuf> {
    recorded_resume_dir(file, facts).or_else(|| resume_dir_in_sidecar(file))
}

fn recorded_resume_dir(file: &SessionFile, facts: &Facts) -> Option<PathBuf> {
    // A directory of another machine, or one that a log makes up, may not be a path here.
    let recorded = facts.cwds.iter().map(|(cwd, _)| cwd).find(|cwd| is_dir_of(file, cwd));
    recorded.map(PathBuf::from)
}

pub(crate) fn resume_dir_in_sidecar(file: &SessionFile) -> Option<PathBuf> {
    recorded_directory(file).map(PathBuf::from)
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
