//! Finds sessions by title, and the newest session of a project.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use rethread_model::{SessionKind, SessionSummary, ShortIds, Time};
use rethread_store::FindError;

use crate::library::{Error, Library, LogSource};
use crate::ls::LsOptions;

/// The newest session of a project, or of all projects.
#[derive(Debug, Clone)]
pub struct NewestSession {
    /// Its log.
    pub source: LogSource,
    /// Its summary.
    pub summary: SessionSummary,
    /// The directory whose project it is the newest session of; `None` if it is the newest of all projects.
    pub project: Option<PathBuf>,
}

impl Library {
    /// Returns the directories that contain `cwd` and in which sessions were started, nearest first.
    ///
    /// ```
    /// assert!(rethread::Library::open(["/nowhere"]).projects_around("/home/ada/kettle".as_ref()).is_empty());
    /// ```
    pub fn projects_around(&self, cwd: &Path) -> Vec<PathBuf> {
        if self.is_demo() {
            return Vec::new();
        }
        let repository = rethread_store::worktree_of(cwd).map(|worktree| worktree.repository);
        let mut dirs: Vec<PathBuf> = cwd.ancestors().map(Path::to_owned).collect();
        // A worktree outside its repository has no sessions above it; those of the repository come next.
        dirs.splice(1..1, repository.filter(|repository| !cwd.starts_with(repository)));
        dirs.retain(|dir| self.has_project(dir));
        dirs
    }

    /// Finds the newest session of the project that contains a directory: of the nearest directory above it in which
    /// sessions were started. Without such a project, finds the newest of all.
    ///
    /// ```
    /// let newest = rethread::Library::demo().newest("/home/ada".as_ref())?;
    /// assert_eq!(newest.project, None, "newest of all");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn newest(&self, cwd: &Path) -> Result<NewestSession, Error> {
        let dirs = self.projects_around(cwd).into_iter().map(Some).chain([None]);
        let found = { dirs }.find_map(|project| {
            let (source, summary) = self.newest_of(project.as_deref())?;
            Some(NewestSession { source, summary, project })
        });
        found.ok_or_else(|| Error::NoLastSession { cwd: cwd.to_owned() })
    }

    /// Finds the newest session of a project or of all.
    ///
    /// An entry is not newer than its file, up to the error of clocks, so files are read by their modification time,
    /// newest first, until no other one can be newer. Usually that is a single file.
    fn newest_of(&self, project: Option<&Path>) -> Option<(LogSource, SessionSummary)> {
        let mut sources = self.select(&[], project.map(Path::to_owned)).ok()?;
        sources.sort_by(|a, b| {
            b.file.modified.cmp(&a.file.modified).then_with(|| a.file.path.cmp(&b.file.path))
        });
        let mut newest: Option<(LogSource, SessionSummary)> = None;
        for source in sources {
            let modified = source.file.modified.and_then(Time::from_system).map(Time::millis);
            let known = newest.as_ref().and_then(|(_, summary)| summary.recency()).map(Time::millis);
            if known
                .zip(modified)
                .is_some_and(|(known, modified)| known > modified.saturating_add(CLOCK_ERROR_MILLIS))
            {
                break;
            }
            let Some(summary) = self.listed_summary(&source, project) else { continue };
            // Of sessions with the same time, `ls` lists the one with the smaller path first.
            let is_newer = |(_, known): &(LogSource, SessionSummary)| {
                (summary.recency(), &known.path) > (known.recency(), &summary.path)
            };
            if newest.as_ref().is_none_or(is_newer) {
                newest = Some((source, summary));
            }
        }
        newest
    }

    /// Finds the sessions whose title contains a text, ignoring case, newest first; if there is none, those whose
    /// first prompt contains it. A title that equals the text excludes the others, and conversations exclude other
    /// logs.
    ///
    /// ```
    /// let found = rethread::Library::demo().find_titled("choose a");
    /// assert_eq!(found[0].title.text, "Kettle: choose a sensor");
    /// ```
    pub fn find_titled(&self, text: &str) -> Vec<SessionSummary> {
        let wanted = text.trim().to_lowercase();
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut sessions = self.ls(&LsOptions::new().agents(true)).sessions;
        let is_conversation = |session: &SessionSummary| session.kind == SessionKind::Conversation;
        let title = |session: &SessionSummary| session.title.text.to_lowercase();
        let prompt = |session: &SessionSummary| session.first_prompt.as_deref().unwrap_or("").to_lowercase();
        let rules: [&dyn Fn(&SessionSummary) -> bool; 5] = [
            &|session| is_conversation(session) && title(session) == wanted,
            &|session| is_conversation(session) && title(session).contains(&wanted),
            &|session| is_conversation(session) && prompt(session).contains(&wanted),
            &|session| title(session).contains(&wanted),
            &|session| prompt(session).contains(&wanted),
        ];
        let rule = rules.into_iter().find(|rule| sessions.iter().any(rule));
        sessions.retain(|session| rule.is_some_and(|rule| rule(session)));
        sessions
    }

    /// Returns the ids of all sessions, or with `agents` also those of subagents, for shortening them.
    ///
    /// ```
    /// let ids = rethread::Library::demo().short_ids(false);
    /// assert_eq!(ids.shorten("0000d001-0000-4000-8000-000000000000"), "0000d001");
    /// ```
    pub fn short_ids(&self, agents: bool) -> ShortIds {
        match &self.demo {
            Some(demo) => ShortIds::new(demo.iter().map(|source| source.file.id.as_str())),
            None => ShortIds::new(self.store.named_ids(agents)),
        }
    }

    /// Returns the shortest id by which a log is found, of at least eight characters; `None` if only its path names it:
    /// the log is elsewhere, or another one has the same id.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let log = library.find_one("0000d001")?.file;
    /// assert_eq!(library.short_name(&log.id, &log.path).as_deref(), Some("0000d001"));
    /// assert_eq!(library.short_name(&log.id, "/elsewhere/0000d001.jsonl".as_ref()), None);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn short_name(&self, id: &str, log: &Path) -> Option<String> {
        self.short_name_among(&self.short_ids(id.starts_with("agent-")), id, log)
    }

    /// Returns the same, given the result of [`Library::short_ids`].
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let (ids, log) = (library.short_ids(true), library.find_one("0000d001")?.file);
    /// assert_eq!(library.short_name_among(&ids, &log.id, &log.path).as_deref(), Some("0000d001"));
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn short_name_among(&self, ids: &ShortIds, id: &str, log: &Path) -> Option<String> {
        let name = ids.shorten(id);
        // A title is tried only if no id matches, so `find` would find the log, too.
        let found = self.find_named(name.as_ref()).ok()?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_found =
            matches!(&found[..], [one] if one.file.path == log || real(&one.file.path) == real(log));
        (is_found && ids.is_unique(id)).then(|| name.to_owned())
    }

    /// Returns whether an id, its beginning or a path names one session. Titles are not read.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// assert!(library.is_named("0000d001".as_ref()) && !library.is_named("choose a".as_ref()));
    /// ```
    pub fn is_named(&self, wanted: &OsStr) -> bool {
        self.find_named(wanted).is_ok_and(|found| found.len() == 1)
    }

    /// Finds the only session with a title that contains a text. `unknown` is the error if there is none.
    pub(crate) fn find_one_titled(&self, wanted: &str, unknown: FindError) -> Result<LogSource, Error> {
        if is_part_of_an_id(wanted) {
            return Err(unknown.into());
        }
        let mut candidates = self.find_titled(wanted);
        match candidates.pop() {
            None => Err(unknown.into()),
            Some(session) if candidates.is_empty() => self.source_at(&session.path),
            Some(session) => {
                candidates.push(session);
                let ids = self.short_ids(true);
                Err(Error::AmbiguousTitle { wanted: wanted.to_owned(), candidates, ids })
            }
        }
    }

    /// Opens a log that a listing has found.
    fn source_at(&self, path: &Path) -> Result<LogSource, Error> {
        let in_demo = self.demo.iter().flatten().find(|source| source.file.path == path).cloned();
        let open = || rethread_store::SessionFile::from_user_path(path).map(LogSource::from);
        in_demo.map_or_else(open, Ok).map_err(|source| Error::Read { path: path.to_owned(), source })
    }
}

/// Returns whether a text can only be meant as an id. Reading all titles would only delay the error.
fn is_part_of_an_id(text: &str) -> bool {
    text.len() >= 8
        && text.bytes().any(|b| b.is_ascii_digit())
        && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// The largest difference between the clock of a client and that of a file system. FAT rounds to two seconds.
const CLOCK_ERROR_MILLIS: i64 = 5000;
