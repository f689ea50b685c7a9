//! Lists and selects sessions.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rayon::prelude::*;
use rethread_model::{Client, Facts, Session, Time, TitleSource};
use rethread_render::{SessionKind, SessionRow};
use rethread_store::{FindError, SessionFile, project_dir_name};

use crate::library::{Library, LogSource, Selector};
use crate::titles::{self, TitleInFile};

/// Options of a listing.
#[derive(Debug, Clone, Default)]
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
    pub sessions: Vec<SessionRow>,
    /// Numbers of hidden subagents, headless runs and files without a conversation.
    pub folded: [(SessionKind, usize); 5],
    /// Requested projects that were not found.
    pub missing: Vec<String>,
    /// Files that could not be read.
    pub errors: Vec<crate::Error>,
}

impl Listing {
    /// Returns whether nothing was found, not even hidden sessions.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty() && self.folded.iter().all(|(_, n)| *n == 0)
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
    row: SessionRow,
    title_in_file: TitleInFile,
}

impl Library {
    /// Lists sessions, newest first. `progress` is called for each file after it was read.
    pub fn ls(&self, options: &LsOptions, progress: &(dyn Fn(u64) + Sync)) -> Listing {
        let mut listing = Listing { folded: HIDDEN_KINDS.map(|kind| (kind, 0)), ..Listing::default() };
        let sources = self.sources_in_scope(options, &mut listing);
        let live = self.store.live_clients();
        let scanned: Vec<Result<ScannedSession, crate::Error>> = sources
            .par_iter()
            .map(|source| {
                let scanned = scan(self, source, &live);
                progress(source.file.bytes);
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
        for ScannedSession { mut row, title_in_file } in found {
            row.title = title_in_file.title.text;
            row.title_source = title_in_file.title.source;
            if options.cwd.as_ref().is_some_and(|cwd| is_of_other_project(&row, cwd)) {
                continue;
            }
            if options.since.is_some_and(|since| row.last_time < Some(since)) {
                continue;
            }
            match listing.folded.iter_mut().find(|(kind, _)| *kind == row.kind) {
                Some((_, n)) if !options.agents => *n += 1,
                _ => listing.sessions.push(row),
            }
        }
        listing.sessions.sort_by(|a, b| {
            let order = match options.sort {
                SortOrder::Recent => b.last_time.cmp(&a.last_time),
                SortOrder::Size => b.bytes.cmp(&a.bytes),
                SortOrder::Turns => b.turns.cmp(&a.turns),
            };
            order.then_with(|| a.path.cmp(&b.path))
        });
        listing
    }

    /// Returns the number of bytes that [`Library::ls`] would read.
    pub fn scope_bytes(&self, options: &LsOptions) -> u64 {
        self.sources_in_scope(options, &mut Listing::default()).iter().map(|source| source.file.bytes).sum()
    }

    /// Returns the time of the last entry of a log; `None` if it is not a session that is listed for `cwd`.
    pub(crate) fn last_time_in(&self, source: &LogSource, cwd: &Path) -> Option<Option<Time>> {
        let row = scan(self, source, &BTreeMap::new()).ok()?.row;
        let is_listed = !HIDDEN_KINDS.contains(&row.kind) && !is_of_other_project(&row, cwd);
        is_listed.then_some(row.last_time)
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
                listing.missing.push(wanted.to_string_lossy().into_owned());
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
                listing.missing.push(wanted.to_string_lossy().into_owned());
            }
            sources.extend(found);
        }
        sources
    }

    /// Resolves the arguments of a command for many sessions: sessions, files, directories, projects. Without
    /// arguments, selects the project of `cwd`, or without `cwd` the whole library.
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
                    let options = LsOptions { projects: vec![wanted.to_owned()], ..LsOptions::default() };
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
fn is_of_other_project(row: &SessionRow, cwd: &Path) -> bool {
    let Some(theirs) = &row.cwd else { return false };
    let ours = cwd.to_string_lossy();
    *theirs != ours && project_dir_name(theirs) == project_dir_name(&ours)
}

fn scan(
    library: &Library,
    source: &LogSource,
    live: &std::collections::BTreeMap<String, rethread_store::LiveClient>,
) -> Result<ScannedSession, crate::Error> {
    let _turn = source.lock_if_large();
    let (facts, bytes) = source.facts()?;
    let file = source.file.clone();
    let session = Session::new(facts);
    let titled = TitleInFile::new(&session.facts, &file);
    let facts = &session.facts;
    let kind = match kind_of(facts, &file) {
        SessionKind::Agent if library.store.is_orphan_subagent(&file) => SessionKind::Orphan,
        kind => kind,
    };
    let written =
        facts.time_span.map(|(_, last)| last).or_else(|| Some(Time::from_millis(millis(file.modified?)?)));
    let beside = library.agents_of(source).len();
    let row = SessionRow {
        r#type: "session",
        id: file.id.clone(),
        path: file.path.to_string_lossy().into_owned(),
        project: facts.cwds.first().map_or_else(|| file.dir_name(), str::to_owned),
        cwd: facts.cwds.first().map(str::to_owned),
        kind,
        title: String::new(),
        title_source: TitleSource::None,
        first_prompt: facts.first_prompt.clone(),
        created: facts.time_span.and_then(|(first, _)| first.to_iso()),
        modified: written.and_then(Time::to_iso),
        bytes,
        entries: facts.locations.len() as u64,
        messages: facts.messages.len() as u64,
        turns: session.turns() as u64,
        tool_calls: facts.calls.len() as u64,
        tips: session.paths(Client::NEWEST).len() as u64,
        compactions: session.compactions() as u64,
        subagents: (session.inline_subagent_count() + beside) as u64,
        models: facts
            .models
            .iter()
            .map(|(m, _)| m.to_owned())
            .filter(|m| m != "<synthetic>" && m != "None")
            .collect(),
        versions: facts.versions.iter().map(|(v, _)| v.to_owned()).collect(),
        git_branch: facts.git_branches.last().filter(|b| !b.is_empty()).map(str::to_owned),
        live: live.contains_key(&file.id),
        defects: session.defects().len() as u64 + facts.defects_omitted,
        last_time: written,
    };
    Ok(ScannedSession { row, title_in_file: titled })
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
