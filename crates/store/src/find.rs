//! Finding sessions: by id, by prefix, by path, by project.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rethread_log::Json;

use crate::live::{Live, live_sessions};
use crate::project::same_project;

/// A session's log on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionFile {
    /// The file's name without its ending.
    pub id: String,
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// When it was last written.
    pub modified: Option<SystemTime>,
    /// The log of a subagent, by its name and place.
    pub agent: bool,
}

impl SessionFile {
    /// Looks at a file.
    pub fn at(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self {
            agent: id.starts_with("agent-"),
            id,
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
        })
    }

    /// Returns the directory of what lies beside the log: subagents, large results.
    pub fn side_dir(&self) -> PathBuf {
        self.path.with_extension("")
    }

    /// Returns the name of the directory that it lies in.
    pub fn dir_name(&self) -> String {
        let parent = self.path.parent().and_then(Path::file_name);
        parent.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Why a session was not found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    /// Nothing has this id or begins with it.
    #[error("no session matches `{wanted}`")]
    NoMatch {
        /// What was asked for.
        wanted: String,
        /// Where it was looked for.
        roots: Vec<PathBuf>,
    },
    /// Several sessions begin so.
    #[error("`{wanted}` matches {} sessions", .candidates.len())]
    Ambiguous {
        /// What was asked for.
        wanted: String,
        /// What it could be.
        candidates: Vec<SessionFile>,
    },
    /// A file or directory could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory holds no logs.
    #[error("no sessions under {}", .path.display())]
    Nothing {
        /// Which.
        path: PathBuf,
    },
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// One session.
    One(SessionFile),
    /// The logs under a directory.
    Many(Vec<PathBuf>),
}

/// The config roots and the sessions under them.
#[derive(Debug, Clone)]
pub struct Store {
    roots: Vec<PathBuf>,
}

impl Store {
    /// Takes config directories, such as `~/.claude`. They need not exist.
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots }
    }

    /// Returns the config directories.
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns the directories of all projects, sorted.
    pub fn projects(&self) -> Vec<PathBuf> {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for root in &self.roots {
            dirs.extend(list(&root.join("projects")).into_iter().filter(|path| path.is_dir()));
        }
        dirs.sort();
        dirs
    }

    /// Returns the directories that can be the project of `cwd`.
    pub fn projects_of(&self, cwd: &Path) -> Vec<PathBuf> {
        let cwd = cwd.to_string_lossy();
        let is_it =
            |dir: &PathBuf| dir.file_name().is_some_and(|name| same_project(&name.to_string_lossy(), &cwd));
        self.projects().into_iter().filter(is_it).collect()
    }

    /// Returns the sessions of a project: the logs in its directory, and with `agents` those of
    /// subagents too.
    pub fn sessions_in(dir: &Path, agents: bool) -> Vec<SessionFile> {
        let mut found: Vec<SessionFile> = list(dir).iter().filter_map(|path| log_at(path)).collect();
        if agents {
            let beside: Vec<_> = found.iter().flat_map(subagent_files).collect();
            found.extend(beside);
        }
        found.retain(|file| agents || !file.agent);
        found
    }

    /// Returns the sessions of all projects.
    pub fn sessions(&self, agents: bool) -> Vec<SessionFile> {
        self.projects().iter().flat_map(|dir| Self::sessions_in(dir, agents)).collect()
    }

    /// Returns the clients that run, by the session that they have open.
    pub fn live(&self) -> BTreeMap<String, Live> {
        let all = self.roots.iter().flat_map(|root| live_sessions(root));
        all.map(|live| (live.session_id.clone(), live)).collect()
    }

    /// Returns the client that has a session file open.
    pub fn holder(&self, file: &SessionFile) -> Option<Live> {
        // A file that was named by its path may lie under a root that nobody named.
        let own = file.path.canonicalize().ok();
        let own = own.as_deref().and_then(|path| path.ancestors().nth(3)).map(Path::to_owned);
        let roots = self.roots.iter().cloned().chain(own);
        roots.flat_map(|root| live_sessions(&root)).find(|live| live.session_id == file.id)
    }

    /// Finds what a user names: a path to a log or to a directory of logs, an id, or its beginning.
    pub fn find(&self, wanted: &str) -> Result<Found, FindError> {
        let path = Path::new(wanted);
        let looks_like_path = wanted.contains(['/', std::path::MAIN_SEPARATOR]) || wanted.ends_with(".jsonl");
        if path.is_dir() {
            let found = logs_under(path);
            if found.is_empty() {
                return Err(FindError::Nothing { path: path.to_owned() });
            }
            return Ok(Found::Many(found));
        }
        if looks_like_path || path.is_file() {
            return SessionFile::at(path)
                .map(Found::One)
                .map_err(|source| FindError::Read { path: path.to_owned(), source });
        }
        self.find_id(wanted).map(Found::One)
    }

    fn find_id(&self, wanted: &str) -> Result<SessionFile, FindError> {
        let matches = |file: &SessionFile| {
            file.id.starts_with(wanted)
                || file.id.strip_prefix("agent-").is_some_and(|id| id.starts_with(wanted))
        };
        let mut candidates: Vec<SessionFile> = if wanted.is_empty() {
            Vec::new()
        } else {
            self.sessions(false).into_iter().filter(matches).collect()
        };
        // A subagent is meant only if no session is.
        if candidates.is_empty() && !wanted.is_empty() {
            candidates = self.sessions(true).into_iter().filter(matches).collect();
        }
        if let Some(exact) = candidates.iter().position(|file| file.id == wanted) {
            // The same id in two roots is a copy; the one written last is meant.
            let newest = |file: &&SessionFile| file.modified;
            let exact =
                candidates.iter().filter(|f| f.id == wanted).max_by_key(newest).unwrap_or(&candidates[exact]);
            return Ok(exact.clone());
        }
        match candidates.len() {
            0 => Err(FindError::NoMatch { wanted: wanted.to_owned(), roots: self.roots.clone() }),
            1 => Ok(candidates.remove(0)),
            _ => Err(FindError::Ambiguous { wanted: wanted.to_owned(), candidates }),
        }
    }
}

/// Lists a directory, sorted; what cannot be read is empty.
fn list(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "jsonl")
}

fn log_at(path: &Path) -> Option<SessionFile> {
    // `is_file` follows links but leaves out pipes and devices, which could block.
    (is_log(path) && path.is_file()).then(|| SessionFile::at(path).ok()).flatten()
}

/// Returns all logs under a directory, at any depth; links to directories are not followed.
fn logs_under(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(dir) = left.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.filter_map(Result::ok) {
            // What a directory says of its entries costs nothing; only links need a look.
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) => {
                    let path = entry.path();
                    if is_log(&path) && (kind.is_file() || path.is_file()) {
                        found.push(path);
                    }
                }
                Err(_) => {}
            }
        }
    }
    found.sort();
    found
}

/// Returns the logs of a session's subagents in its side directory.
pub(crate) fn subagent_files(session: &SessionFile) -> Vec<SessionFile> {
    let logs = logs_under(&session.side_dir().join("subagents"));
    let agent = |path: &PathBuf| Some(SessionFile { agent: true, ..SessionFile::at(path).ok()? });
    logs.iter().filter_map(agent).collect()
}

/// Which subagents lie beside which session, looked up once for each directory.
///
/// Clients from 2.0.28 to 2.0.77 wrote `agent-<id>.jsonl` into the project's directory; the
/// `sessionId` inside names the session.
#[derive(Debug, Default)]
pub struct Agents {
    by_dir: Mutex<HashMap<PathBuf, Arc<Owners>>>,
}

/// Logs by the session that they belong to.
type Owners = HashMap<String, Vec<SessionFile>>;

impl Agents {
    /// Returns the logs of a session's subagents: in its side directory, and beside it.
    pub fn of(&self, session: &SessionFile) -> Vec<SessionFile> {
        let mut files = subagent_files(session);
        if !session.agent {
            files.extend(self.beside(session).get(&session.id).into_iter().flatten().cloned());
        }
        files
    }

    fn beside(&self, session: &SessionFile) -> Arc<Owners> {
        let dir = session.path.parent().unwrap_or(Path::new("")).to_owned();
        if let Ok(known) = self.by_dir.lock()
            && let Some(owners) = known.get(&dir)
        {
            return Arc::clone(owners);
        }
        let mut owners = Owners::new();
        for file in list(&dir).iter().filter_map(|path| named_agent(path)) {
            let head = crate::read::head(&file.path, 64 * 1024).unwrap_or_default();
            let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
            if let Some(owner) = Json::new(line).get("sessionId").and_then(Json::as_str) {
                owners.entry(owner.into_owned()).or_default().push(file);
            }
        }
        let owners = Arc::new(owners);
        if let Ok(mut known) = self.by_dir.lock() {
            known.insert(dir, Arc::clone(&owners));
        }
        owners
    }
}

fn named_agent(path: &Path) -> Option<SessionFile> {
    let named = path.file_name()?.to_str()?.starts_with("agent-");
    named.then(|| log_at(path)).flatten()
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
    fn sessions_and_subagents_are_told_apart() {
        let (_root, store) = store();
        assert_eq!(ids(&store.sessions(false)), ["aaaa1111", "aaaa2222"]);
        assert_eq!(ids(&store.sessions(true)), ["aaaa1111", "aaaa2222", "agent-ol", "agent-a1", "agent-a2"]);
        let all = store.sessions(false);
        let agents = Agents::default();
        assert_eq!(ids(&agents.of(&all[0])), ["agent-ol"]);
        assert_eq!(ids(&agents.of(&all[1])), ["agent-a1", "agent-a2"]);
        assert_eq!(store.projects_of(Path::new("/home/user/app")).len(), 1);
        assert!(store.projects_of(Path::new("/home/user/other")).is_empty());
    }

    #[test]
    fn ids_prefixes_and_paths_are_found() {
        let (root, store) = store();
        let one = |wanted: &str| match store.find(wanted).map_err(|e| e.to_string())? {
            Found::One(file) => Ok(file.id[..8.min(file.id.len())].to_owned()),
            Found::Many(files) => Ok(format!("{} files", files.len())),
        };
        let err = |text: &str| Err::<String, String>(text.to_owned());
        assert_eq!(one("aaaa1"), Ok("aaaa1111".into()));
        assert_eq!(one("aaaa2222-0000-4000-8000-000000000002"), Ok("aaaa2222".into()));
        assert_eq!(one("aaaa"), err("`aaaa` matches 2 sessions"));
        assert_eq!(one("b"), err("no session matches `b`"));
        assert_eq!(one(""), err("no session matches ``"));
        assert_eq!(one("a2"), Ok("agent-a2".into()));
        let dir = root.path().join("projects");
        assert_eq!(one(&dir.to_string_lossy()), Ok("5 files".into()));
        assert!(one(&dir.join("no.jsonl").to_string_lossy()).is_err());
    }
}
