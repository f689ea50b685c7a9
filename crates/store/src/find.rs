//! Finds sessions by id, prefix, path or project.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirEntry, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rayon::prelude::*;

use crate::confined::{ConfinedPath, MAX_DEPTH, PathRejection};
use crate::dir::{FileKind, FileStat};
use crate::live::{
    Holder, LiveClient, UUID_LEN, config_roots_above, holder_in, live_clients_in, owner_session_id,
    session_ids_in_path,
};
use crate::project::is_project_dir_for;
use crate::skip::SkippedPaths;
use crate::worktree::{client_worktree_prefix, linked_worktrees};

/// A session's log on disk.
#[derive(Debug, Clone)]
pub struct SessionFile {
    /// The file name without its extension; for a log named through a link, the name of the link.
    pub id: String,
    /// The path of the log; for a log named through a link, the path of the target.
    pub path: PathBuf,
    /// The directory that may be reached through links. Below it none is followed.
    pub base: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// The time of the last change.
    pub modified: Option<SystemTime>,
    /// The number of the file in its file system.
    pub inode: Option<u64>,
    /// Set for the log of a subagent, judged by its name and location.
    pub is_subagent: bool,
    /// Set if its directory was listed, and has neither a sidecar directory of it nor logs of subagents. Most sessions
    /// have none, and looking for them takes longer than finding the logs.
    pub is_alone: bool,
}

/// Two values are equal if they are the same state of the same file, whether it was found by listing or by its path.
impl PartialEq for SessionFile {
    fn eq(&self, other: &Self) -> bool {
        let key = |file: &Self| (file.bytes, file.modified, file.inode, file.is_subagent);
        (&self.id, &self.path, &self.base, key(self)) == (&other.id, &other.path, &other.base, key(other))
    }
}

impl Eq for SessionFile {}

impl SessionFile {
    /// Opens a path given by a user. A link is resolved, but is an error inside a session's sidecar
    /// directory.
    pub fn from_user_path(path: &Path) -> io::Result<Self> {
        if let Some(confined) = confine_to_side_dir(path) {
            return Self::from_confined(&confined);
        }
        let named = ConfinedPath::of_file(path);
        match named.kind()? {
            FileKind::Other(PathRejection::Link) => {
                // A link such as /dev/stdin leads to something without a path.
                FileKind::from_metadata(&fs::metadata(path)?).ensure_regular()?;
                let real = path.canonicalize()?;
                // The user did not name the target of the link, so it is checked as well.
                let file = match confine_to_side_dir(&real) {
                    Some(confined) => Self::from_confined(&confined)?,
                    None => Self::from_confined(&ConfinedPath::of_file(&real))?,
                };
                let id = id_of(path);
                Ok(Self { is_subagent: file.is_subagent || id.starts_with(AGENT), id, ..file })
            }
            _ => Self::from_confined(&named),
        }
    }

    /// Stats a regular file.
    pub fn from_confined(confined: &ConfinedPath) -> io::Result<Self> {
        Ok(Self::new(confined, confined.stat()?))
    }

    fn new(confined: &ConfinedPath, stat: FileStat) -> Self {
        let FileStat { bytes, modified, inode } = stat;
        let path = confined.path();
        let id = id_of(&path);
        Self {
            is_subagent: id.starts_with(AGENT) || confined.relative().iter().any(|name| name == SUBAGENTS),
            id,
            base: confined.base().to_owned(),
            path,
            bytes,
            modified,
            inode,
            is_alone: false,
        }
    }

    /// Returns the path of the file, confined to its base.
    pub fn confined_path(&self) -> ConfinedPath {
        match self.path.strip_prefix(&self.base) {
            Ok(below) => ConfinedPath::new(&self.base, below),
            Err(_) => ConfinedPath::of_file(&self.path),
        }
    }

    /// Opens the log.
    pub fn open(&self) -> io::Result<File> {
        self.confined_path().open()
    }

    /// Returns the sidecar directory of the log: subagents, large results.
    pub fn side_dir(&self) -> PathBuf {
        self.path.with_extension("")
    }

    /// Returns the sidecar directory of the log as a confined path.
    pub fn confined_side_dir(&self) -> ConfinedPath {
        self.confined_path().with_extension("")
    }

    /// Returns the name of the directory that contains the log.
    pub fn dir_name(&self) -> String {
        // A log in the current directory may be named without it.
        let path = if self.path.is_relative() { std::path::absolute(&self.path).ok() } else { None };
        let parent = path.as_ref().unwrap_or(&self.path).parent().and_then(Path::file_name);
        parent.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The beginning of the ids of subagents.
const AGENT: &str = "agent-";

/// The name of the directory of subagent logs.
pub(crate) const SUBAGENTS: &str = "subagents";

/// The name of the directory of tool results that are too large for the log.
pub(crate) const TOOL_RESULTS: &str = "tool-results";

/// Returns whether a directory is a sidecar directory, judged by its name and the files next to it.
fn is_side_dir(name: &OsStr, siblings: &[(OsString, FileKind)]) -> bool {
    let log = log_of_side_dir(name);
    name == SUBAGENTS
        || name == TOOL_RESULTS
        || is_uuid(name)
        || siblings.binary_search_by(|(other, _)| other.cmp(&log)).is_ok()
}

/// Returns the name or path of the log that a sidecar directory belongs to.
fn log_of_side_dir(dir: impl Into<OsString>) -> OsString {
    let mut log = dir.into();
    log.push(".jsonl");
    log
}

fn is_uuid(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() == UUID_LEN && name.iter().all(|&b| b == b'-' || b.is_ascii_hexdigit())
}

fn id_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Confines a path into a sidecar directory: links may lead to that directory, but not further.
fn confine_to_side_dir(path: &Path) -> Option<ConfinedPath> {
    let names: Vec<&OsStr> = path.iter().collect();
    let join = |names: &[&OsStr]| names.iter().collect::<PathBuf>();
    let is_side = |&at: &usize| {
        let has_log = || Path::new(&log_of_side_dir(join(&names[..=at]))).symlink_metadata().is_ok();
        (names[at + 1] == SUBAGENTS || names[at + 1] == TOOL_RESULTS) && (is_uuid(names[at]) || has_log())
    };
    let at = (0..names.len().saturating_sub(1)).find(is_side)?;
    Some(ConfinedPath::new(join(&names[..at]), join(&names[at..])))
}

/// The reason why a session was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// No session has this id or prefix.
    #[error("no session matches `{wanted}`")]
    NoMatch {
        /// The requested name.
        wanted: String,
        /// The config directories that were searched.
        roots: Vec<PathBuf>,
    },
    /// Several sessions have this prefix.
    #[error("`{wanted}` matches {} sessions", .candidates.len())]
    Ambiguous {
        /// The requested name.
        wanted: String,
        /// The sessions that match.
        candidates: Vec<SessionFile>,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A directory contains no logs.
    #[error("no sessions under {}", .path.display())]
    NoSessions {
        /// The directory.
        path: PathBuf,
    },
}

/// The result of [`Store::find`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundSessions {
    /// One session.
    One(SessionFile),
    /// The logs under a directory.
    Many(Vec<SessionFile>),
}

/// The config directories and the sessions in them.
#[derive(Debug, Clone)]
pub struct Store {
    roots: Vec<PathBuf>,
    /// Config directories whose sessions are not searched, but whose clients are checked before a change.
    guard_roots: Vec<PathBuf>,
    skips: SkippedPaths,
}

impl Store {
    /// Creates a store for config directories such as `~/.claude`. They need not exist.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, guard_roots: Vec::new(), skips: SkippedPaths::default() }
    }

    /// Records skipped paths in `skips`.
    pub fn with_skips(self, skips: SkippedPaths) -> Self {
        Self { skips, ..self }
    }

    /// Adds config directories whose running clients are also checked before a session is changed.
    pub fn with_guard_roots(self, guards: Vec<PathBuf>) -> Self {
        Self { guard_roots: guards, ..self }
    }

    /// Returns the config directories.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the collector of skipped paths.
    pub fn skips(&self) -> &SkippedPaths {
        &self.skips
    }

    /// Returns the directories of all projects, sorted. A project directory may be a link.
    pub fn projects(&self) -> Vec<PathBuf> {
        let is_dir = |entry: &DirEntry| match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        let mut parents: Vec<PathBuf> = self.roots.iter().map(|root| root.join("projects")).collect();
        parents.sort();
        let mut dirs = Vec::new();
        for parent in parents {
            let entries = fs::read_dir(&parent).into_iter().flatten().flatten();
            let mut names: Vec<OsString> = entries.filter(is_dir).map(|entry| entry.file_name()).collect();
            names.sort_unstable();
            dirs.extend(names.iter().map(|name| parent.join(name)));
        }
        dirs
    }

    /// Returns the possible project directories of `cwd`.
    pub fn projects_of(&self, cwd: &Path) -> Vec<PathBuf> {
        let cwd = cwd.to_string_lossy();
        let is_project = |dir: &PathBuf| {
            dir.file_name().is_some_and(|name| is_project_dir_for(&name.to_string_lossy(), &cwd))
        };
        self.projects().into_iter().filter(is_project).collect()
    }

    /// Returns the project directories of `cwd` and, if it is a git repository, those of its worktrees.
    pub fn projects_below(&self, cwd: &Path) -> Vec<PathBuf> {
        let mut dirs = vec![cwd.to_string_lossy().into_owned()];
        dirs.extend(linked_worktrees(cwd).iter().map(|dir| dir.to_string_lossy().into_owned()));
        let made_by_client = client_worktree_prefix(cwd);
        let is_project = |dir: &PathBuf| {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&made_by_client) || dirs.iter().any(|cwd| is_project_dir_for(&name, cwd))
        };
        self.projects().into_iter().filter(is_project).collect()
    }

    /// Returns the sessions of a project: the logs in its directory, and with `agents` those of subagents
    /// too.
    pub fn sessions_in(&self, dir: &Path, agents: bool) -> Vec<SessionFile> {
        self.logs_in(dir, agents, false, &|_| true)
    }

    /// Returns the logs in a project whose ids are wanted; the others are not looked at.
    fn logs_in(
        &self,
        dir: &Path,
        agents: bool,
        named: bool,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Vec<SessionFile> {
        let project = ConfinedPath::new(dir, "");
        let mut found: Vec<SessionFile> = Vec::new();
        let Some((handle, entries)) = project.list(&self.skips) else { return found };
        let (logs, others): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(name, _)| is_log(name));
        let has_entry = |name: &OsStr| kind_in(&others, name).or_else(|| kind_in(&logs, name)).is_some();
        let has_agents = logs.iter().any(|(name, _)| is_legacy_agent_log(name));
        for (name, kind) in &logs {
            let stem = Path::new(name).file_stem().unwrap_or_default();
            // The subagents of a session may be wanted without it.
            if !agents && !is_wanted(&stem.to_string_lossy()) {
                continue;
            }
            let log = project.join(name);
            if *kind == FileKind::File {
                let has_sidecars = has_entry(stem);
                // Faster than by its path, which the system would resolve for each log.
                found.extend(handle.stat(name).ok().map(|stat| SessionFile {
                    is_alone: !has_agents && !has_sidecars,
                    ..SessionFile::new(&log, stat)
                }));
            } else {
                found.extend(resolve_listed_log(&log, *kind, named, &self.skips));
            }
        }
        if agents {
            let mut subagents = Vec::new();
            for session in found.iter().filter(|session| !session.is_alone) {
                let side_dir = session.side_dir();
                let is_here = side_dir.parent() == Some(dir);
                // A sidecar directory here is in the list, if there is one.
                if !is_here || side_dir.file_name().is_some_and(has_entry) {
                    subagents.extend(subagent_files(session, &self.skips));
                }
            }
            // Subagents of sessions whose log no longer exists.
            let mut dirs = others.iter().filter(|(_, kind)| *kind == FileKind::Dir).peekable();
            if dirs.peek().is_some() {
                let side_dirs =
                    found.iter().map(SessionFile::side_dir).filter(|side| side.parent() == Some(dir));
                let known: HashSet<OsString> =
                    side_dirs.filter_map(|side| Some(side.file_name()?.to_owned())).collect();
                for (dir, _) in dirs.filter(|(dir, _)| !known.contains(dir)) {
                    subagents.extend(subagent_logs_in(&project.join(dir), &self.skips));
                }
            }
            found.extend(subagents);
        }
        found.retain(|file| (agents || !file.is_subagent) && is_wanted(&file.id));
        found
    }

    /// Returns the ids of the logs in a project that [`Store::find`] finds by them, without looking at the files.
    fn ids_in(&self, dir: &Path, agents: bool) -> Vec<String> {
        let project = ConfinedPath::new(dir, "");
        let mut ids = Vec::new();
        let entries = project.entries(&self.skips);
        let has_log = |dir: &OsStr| kind_in(&entries, &log_of_side_dir(dir)).is_some();
        for (name, kind) in &entries {
            let item = project.join(name);
            match *kind {
                FileKind::File if is_log(name) => ids.push(id_of(item.relative())),
                FileKind::Dir if agents && (!is_log(name) || has_log(name)) => {
                    item.join(SUBAGENTS).for_each_file(&self.skips, |_, name, file| {
                        ids.extend(is_log(name).then(|| id_of(file.relative())));
                    });
                }
                FileKind::Other(_) if is_log(name) => {
                    let Some(session) = resolve_listed_log(&item, *kind, true, &self.skips) else { continue };
                    if agents {
                        ids.extend(subagent_files(&session, &self.skips).into_iter().map(|file| file.id));
                    }
                    ids.push(session.id);
                }
                _ => {}
            }
        }
        ids.retain(|id| agents || !id.starts_with(AGENT));
        ids
    }

    /// Returns whether a file is the log of a subagent whose session no longer has a log.
    pub fn is_orphan_subagent(&self, file: &SessionFile) -> bool {
        if !file.is_subagent {
            return false;
        }
        let names: Vec<&OsStr> = file.path.iter().collect();
        let log = match names.iter().rposition(|name| *name == SUBAGENTS) {
            Some(at) if at > 0 => names[..at].iter().collect::<PathBuf>(),
            _ => match owner_session_id(&file.confined_path()) {
                Some(owner) => file.path.with_file_name(owner),
                None => return true,
            },
        };
        Path::new(&log_of_side_dir(log)).symlink_metadata().is_err()
    }

    /// Returns the sessions of all projects.
    pub fn sessions(&self, agents: bool) -> Vec<SessionFile> {
        self.projects().par_iter().flat_map_iter(|dir| self.sessions_in(dir, agents)).collect()
    }

    /// Returns the ids by which [`Store::find`] finds logs: those of all projects, also of logs that are links to others
    /// elsewhere, and with `agents` those of subagents too.
    pub fn named_ids(&self, agents: bool) -> Vec<String> {
        self.projects().par_iter().flat_map_iter(|dir| self.ids_in(dir, agents)).collect()
    }

    /// Returns the running clients by the session that they have open.
    pub fn live_clients(&self) -> BTreeMap<String, LiveClient> {
        let all = self.roots.iter().flat_map(|root| live_clients_in(root, &self.skips));
        all.map(|live| (live.session_id.clone(), live)).collect()
    }

    /// Returns a client that has a session file open, or may have it open.
    ///
    /// Checks every config directory that the file may belong to: those of the store, and those on its
    /// path, both as given and as resolved. The file belongs to every session whose id is on that path.
    pub fn holder(&self, file: &SessionFile) -> Option<Holder> {
        let mut paths = vec![std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone())];
        paths.extend(file.path.canonicalize().ok());
        let mut ids = vec![file.id.clone()];
        ids.extend(paths.iter().flat_map(|path| session_ids_in_path(path)));
        if file.is_subagent {
            ids.extend(owner_session_id(&file.confined_path()));
        }
        let on_path = paths.iter().flat_map(|path| config_roots_above(path));
        let mut roots: Vec<PathBuf> = self.roots.iter().cloned().chain(on_path).collect();
        roots.sort();
        roots.dedup();
        let guards = || {
            let open =
                self.guard_roots.iter().flat_map(|root| live_clients_in(root, &SkippedPaths::default()));
            let mut open = open.filter(|live| ids.contains(&live.session_id));
            open.next().map(|live| Holder::Client { session: live.session_id, pid: live.pid })
        };
        roots.iter().find_map(|root| holder_in(root, &ids)).or_else(guards)
    }

    /// Finds the session that a user names: by the path of a log or of a directory of logs, by id, or by
    /// prefix.
    pub fn find(&self, wanted: impl AsRef<OsStr>) -> Result<FoundSessions, FindError> {
        let wanted = wanted.as_ref();
        let path = Path::new(wanted);
        let looks_like_path = path.components().count() > 1
            || wanted.as_encoded_bytes().contains(&b'/')
            || path.extension().is_some_and(|extension| extension == "jsonl");
        if path.is_dir() {
            let found = self.logs_under(path);
            if found.is_empty() {
                return Err(FindError::NoSessions { path: path.to_owned() });
            }
            return Ok(FoundSessions::Many(found));
        }
        // A pipe of this name is not a session, but it is what the user named, so it is reported.
        if looks_like_path || path.metadata().is_ok() {
            return SessionFile::from_user_path(path)
                .map(FoundSessions::One)
                .map_err(|source| FindError::Read { path: path.to_owned(), source });
        }
        self.find_id(&wanted.to_string_lossy()).map(FoundSessions::One)
    }

    fn find_id(&self, wanted: &str) -> Result<SessionFile, FindError> {
        let begins =
            |id: &str| id.get(..wanted.len()).is_some_and(|beginning| beginning.eq_ignore_ascii_case(wanted));
        let matches = |id: &str| begins(id) || id.strip_prefix(AGENT).is_some_and(begins);
        let sessions = |agents: bool| -> Vec<SessionFile> {
            { self.projects() }
                .par_iter()
                .flat_map_iter(|dir| self.logs_in(dir, agents, true, &matches))
                .collect()
        };
        let mut candidates: Vec<SessionFile> = if wanted.is_empty() { Vec::new() } else { sessions(false) };
        // Subagents are considered only if no session matches.
        if candidates.is_empty() && !wanted.is_empty() {
            candidates = sessions(true);
        }
        // An id in the same case is meant before one in another.
        let is_exact = |file: &SessionFile| file.id.starts_with(wanted);
        if candidates.iter().any(is_exact) {
            candidates.retain(is_exact);
        }
        if candidates.iter().any(|file| file.id == wanted) {
            candidates.retain(|file| file.id == wanted);
            // The same id in two config directories is a copy; the newest one is chosen.
            if candidates.iter().all(|file| project_name(file) == project_name(&candidates[0])) {
                let newest = candidates.into_iter().max_by_key(|file| file.modified);
                candidates = newest.into_iter().collect();
            }
        }
        match candidates.len() {
            0 => Err(FindError::NoMatch { wanted: wanted.to_owned(), roots: self.roots.clone() }),
            1 => Ok(candidates.remove(0)),
            _ => Err(FindError::Ambiguous { wanted: wanted.to_owned(), candidates }),
        }
    }

    /// Returns all logs below a directory, at any depth. Listed links to directories are not followed; a directory
    /// that is not a session's own may become a link before its logs are opened, as any project may be one.
    fn logs_under(&self, dir: &Path) -> Vec<SessionFile> {
        let mut found = Vec::new();
        let mut waiting = vec![(ConfinedPath::new(dir, ""), 0)];
        while let Some((at, depth)) = waiting.pop() {
            let entries = at.entries(&self.skips);
            for (name, kind) in &entries {
                let (item, kind) = (at.join(name), *kind);
                match kind {
                    FileKind::Dir if depth == MAX_DEPTH => {
                        self.skips.record(item.path(), PathRejection::TooDeep)
                    }
                    FileKind::Dir if !at.relative().as_os_str().is_empty() || is_side_dir(name, &entries) => {
                        waiting.push((item, depth + 1));
                    }
                    // Links may lead to a project. Its logs can then be opened with one call each, not
                    // one per component.
                    FileKind::Dir => waiting.push((ConfinedPath::new(item.path(), ""), depth + 1)),
                    _ if is_log(name) => found.extend(resolve_listed_log(&item, kind, false, &self.skips)),
                    FileKind::Other(PathRejection::Link) if item.path().is_dir() => {
                        self.skips.record(item.path(), PathRejection::Link);
                    }
                    _ => {}
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

/// Returns the name of the project directory of a session; for a log named through a link, that of the target.
fn project_name(file: &SessionFile) -> Option<OsString> {
    Some(file.path.parent()?.file_name()?.to_owned())
}

fn is_log(name: &OsStr) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "jsonl")
}

/// Returns whether a file in a project is the log of a subagent as old clients named it.
fn is_legacy_agent_log(name: &OsStr) -> bool {
    is_log(name) && name.as_encoded_bytes().starts_with(b"agent-")
}

/// Resolves a log found in a directory listing. A link is followed if it leads to a session of some
/// project, or, if it is `named`, to any log; never from a sidecar directory, and never to the log of a
/// subagent.
fn resolve_listed_log(
    item: &ConfinedPath,
    kind: FileKind,
    named: bool,
    skips: &SkippedPaths,
) -> Option<SessionFile> {
    let path = item.path();
    let reason = match kind {
        FileKind::File => return SessionFile::from_confined(item).ok(),
        FileKind::Dir => PathRejection::Directory,
        FileKind::Other(PathRejection::Link) => {
            let real = path.canonicalize().ok();
            let fits = |real: &Path| {
                let in_project = real.ancestors().nth(2).and_then(Path::file_name);
                is_log(real.file_name().unwrap_or_default())
                    && (named || in_project.is_some_and(|name| name == "projects"))
            };
            let is_agent = id_of(&path).starts_with(AGENT) || confine_to_side_dir(&path).is_some();
            let resolved = (!is_agent && real.is_some_and(|real| fits(&real)))
                .then(|| SessionFile::from_user_path(&path).ok())
                .flatten();
            match resolved {
                Some(file) => return Some(file),
                None => PathRejection::Link,
            }
        }
        FileKind::Other(reason) => reason,
    };
    skips.record(path, reason);
    None
}

/// Returns the logs of a session's subagents in its sidecar directory.
pub(crate) fn subagent_files(session: &SessionFile, skips: &SkippedPaths) -> Vec<SessionFile> {
    if session.is_alone || session.side_dir().symlink_metadata().is_err() {
        return Vec::new();
    }
    subagent_logs_in(&session.confined_side_dir(), skips)
}

/// Returns the logs of subagents in a sidecar directory.
fn subagent_logs_in(side: &ConfinedPath, skips: &SkippedPaths) -> Vec<SessionFile> {
    let mut logs = Vec::new();
    side.join(SUBAGENTS).for_each_file(skips, |dir, name, file| {
        let stat = if is_log(name) { dir.stat(name).ok() } else { None };
        logs.extend(stat.map(|stat| SessionFile { is_subagent: true, ..SessionFile::new(&file, stat) }));
    });
    logs.sort_by(|a, b| a.path.cmp(&b.path));
    logs
}

/// Returns the kind of an entry of a sorted list.
fn kind_in(entries: &[(OsString, FileKind)], name: &OsStr) -> Option<FileKind> {
    entries.binary_search_by(|(other, _)| other.as_os_str().cmp(name)).ok().map(|at| entries[at].1)
}

/// The subagent logs of each session, looked up once per directory.
///
/// Clients from 2.0.28 to 2.0.77 wrote `agent-<id>.jsonl` into the project directory; the `sessionId`
/// inside names the session.
#[derive(Debug, Default)]
pub struct SubagentIndex {
    by_dir: Mutex<HashMap<PathBuf, Arc<LogsBySession>>>,
    skips: SkippedPaths,
}

/// Logs by the session that they belong to.
type LogsBySession = HashMap<String, Vec<SessionFile>>;

impl SubagentIndex {
    /// Records skipped paths in `skips`.
    pub fn with_skips(skips: SkippedPaths) -> Self {
        Self { by_dir: Mutex::default(), skips }
    }

    /// Returns the collector of skipped paths.
    pub fn skips(&self) -> &SkippedPaths {
        &self.skips
    }

    /// Returns the logs of a session's subagents, both in its sidecar directory and next to it.
    pub fn logs_of(&self, session: &SessionFile) -> Vec<SessionFile> {
        if session.is_alone {
            return Vec::new();
        }
        let mut files = subagent_files(session, &self.skips);
        if !session.is_subagent {
            files.extend(self.legacy_logs(session).get(&session.id).into_iter().flatten().cloned());
        }
        files
    }

    fn legacy_logs(&self, session: &SessionFile) -> Arc<LogsBySession> {
        let dir = session.path.parent().unwrap_or(Path::new("")).to_owned();
        if let Ok(known) = self.by_dir.lock()
            && let Some(owners) = known.get(&dir)
        {
            return Arc::clone(owners);
        }
        let mut owners = LogsBySession::new();
        let project = ConfinedPath::new(&dir, "");
        let named = |(name, kind): (OsString, FileKind)| {
            is_legacy_agent_log(&name)
                .then(|| resolve_listed_log(&project.join(&name), kind, false, &self.skips))
                .flatten()
        };
        for file in project.entries(&self.skips).into_iter().filter_map(named) {
            if let Some(owner) = owner_session_id(&file.confined_path()) {
                owners.entry(owner).or_default().push(file);
            }
        }
        let owners = Arc::new(owners);
        if let Ok(mut known) = self.by_dir.lock() {
            known.insert(dir, Arc::clone(&owners));
        }
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let root = tempfile::tempdir().expect("a directory");
        let project = root.path().join("projects/-home-user-app");
        let write = |path: &str, text: &str| {
            let path = project.join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("created");
            fs::write(path, text).expect("written");
        };
        write("aaaa1111-0000-4000-8000-000000000001.jsonl", "{}\n");
        write("aaaa2222-0000-4000-8000-000000000002.jsonl", "{}\n");
        write("aaaa2222-0000-4000-8000-000000000002/subagents/agent-a1.jsonl", "{}\n");
        write("aaaa2222-0000-4000-8000-000000000002/subagents/workflows/w/agent-a2.jsonl", "{}\n");
        write("agent-old.jsonl", "{\"sessionId\":\"aaaa1111-0000-4000-8000-000000000001\"}\n");
        write("notes.txt", "");
        let store = Store::new(vec![root.path().to_owned(), root.path().join("missing")]);
        (root, store)
    }

    fn ids(files: &[SessionFile]) -> Vec<&str> {
        files.iter().map(|file| &file.id[..8.min(file.id.len())]).collect()
    }

    #[test]
    fn subagent_logs_are_not_listed_as_sessions() {
        let (_root, store) = store();
        assert_eq!(ids(&store.sessions(false)), ["aaaa1111", "aaaa2222"]);
        assert_eq!(ids(&store.sessions(true)), ["aaaa1111", "aaaa2222", "agent-ol", "agent-a1", "agent-a2"]);
        let all = store.sessions(false);
        let agents = SubagentIndex::default();
        assert_eq!(ids(&agents.logs_of(&all[0])), ["agent-ol"]);
        assert_eq!(ids(&agents.logs_of(&all[1])), ["agent-a1", "agent-a2"]);
        assert_eq!(store.projects_of(Path::new("/home/user/app")).len(), 1);
        assert!(store.projects_of(Path::new("/home/user/other")).is_empty());
    }

    #[test]
    fn subagents_are_listed_however_their_directory_is_named() {
        let (root, store) = store();
        let project = root.path().join("projects/-home-user-app");
        for (log, agent) in
            [("x.jsonl.jsonl", "x.jsonl/subagents/agent-b1.jsonl"), ("", "gone/subagents/agent-b2.jsonl")]
        {
            let agent = project.join(agent);
            fs::create_dir_all(agent.parent().expect("has one")).expect("created");
            fs::write(agent, "{}\n").expect("written");
            if !log.is_empty() {
                fs::write(project.join(log), "{}\n").expect("written");
            }
        }
        let mut listed: Vec<String> = store.sessions(true).into_iter().map(|file| file.id).collect();
        let mut named = store.named_ids(true);
        listed.sort();
        named.sort();
        assert!(
            ["agent-b1", "agent-b2"].iter().all(|agent| listed.iter().any(|id| id == agent)),
            "{listed:?}"
        );
        assert_eq!(listed, named);
    }

    #[test]
    fn find_accepts_ids_prefixes_and_paths() {
        let (root, store) = store();
        let one = |wanted: &str| match store.find(wanted).map_err(|e| e.to_string())? {
            FoundSessions::One(file) => Ok(file.id[..8.min(file.id.len())].to_owned()),
            FoundSessions::Many(files) => Ok(format!("{} files", files.len())),
        };
        let err = |text: &str| Err::<String, String>(text.to_owned());
        assert_eq!(one("aaaa1"), Ok("aaaa1111".into()));
        assert_eq!(one("aaaa2222-0000-4000-8000-000000000002"), Ok("aaaa2222".into()));
        assert_eq!(one("aaaa"), err("`aaaa` matches 2 sessions"));
        assert_eq!(one("b"), err("no session matches `b`"));
        assert_eq!(one(""), err("no session matches ``"));
        assert_eq!(one("a2"), Ok("agent-a2".into()));
        assert_eq!(one("AAAA1"), Ok("aaaa1111".into()), "people type ids in capitals, too");
        assert_eq!(one("Agent-A1"), Ok("agent-a1".into()));
        let dir = root.path().join("projects");
        assert_eq!(one(&dir.to_string_lossy()), Ok("5 files".into()));
        assert!(one(&dir.join("no.jsonl").to_string_lossy()).is_err());
    }
}
