//! A loaded session: its inventory, its tree, its messages.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;
use rethread_model::{
    CallId, Client, ContinuedFrom, EntryNo, MessageNo, NodeId, Path, PathSummary, RandomAccessLog, Reader,
    Session, SessionInfo, StepId, Table, Uid,
};
use rethread_store::{ConfinedPath, PathRejection, SessionFile, SkippedPaths};
use rustc_hash::FxHashMap;

use crate::library::{Library, LogSource};

/// A session with its texts.
#[derive(Debug, Clone)]
pub struct LoadedSession {
    /// Its source.
    pub source: LogSource,
    /// The parsed session.
    pub session: Session,
    /// Shared as read: an `Arc<[u8]>` would need a copy.
    pub(crate) bytes: Arc<Vec<u8>>,
    pub(crate) agents: Arc<rethread_store::SubagentIndex>,
}

/// A subagent of a session.
#[derive(Debug, Clone)]
pub struct Subagent {
    /// The call that started it, as an index into the session's calls.
    pub call: Option<CallId>,
    /// Its log, if it has a separate one.
    pub path: Option<PathBuf>,
    /// The same log, for opening.
    pub file: Option<SessionFile>,
    /// Its first entry in the session's own log.
    pub root: Option<NodeId>,
}

/// The earlier part of a session, in another file.
#[derive(Debug, Clone)]
pub struct EarlierSession {
    /// The session that contains it.
    pub loaded: LoadedSession,
    /// The step that the later session continues from.
    pub step: StepId,
    /// The number of the message that the later session continues from.
    pub message: Option<MessageNo>,
}

/// Maximum number of files that a conversation is followed back.
const MAX_FILES: usize = 50;

impl Library {
    /// Returns the paths of a session as [`LoadedSession::tree`] does, with their continuation from other
    /// files.
    ///
    /// ```
    /// use rethread::Client;
    ///
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// let paths = library.tree(&loaded, Client::NEWEST);
    /// assert!(paths.iter().all(|path| path.continues.is_none()));
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn tree(&self, loaded: &LoadedSession, client: Client) -> Vec<PathSummary> {
        let mut paths = loaded.tree(client);
        // All paths of one root continue from the same entry.
        let roots = loaded.session.roots_by_step();
        let mut known: FxHashMap<StepId, Option<ContinuedFrom>> = FxHashMap::default();
        for path in &mut paths {
            let root = roots[path.path.step];
            // A log with many unresolved roots is malformed; searching all files for each of them would take
            // long.
            if known.len() >= 8 && !known.contains_key(&root) {
                continue;
            }
            let found = known.entry(root).or_insert_with(|| {
                let earlier = self.earlier_sessions(loaded, &path.path).pop()?;
                Some(ContinuedFrom { session: earlier.loaded.source.id(), message: earlier.message })
            });
            path.continues.clone_from(found);
        }
        paths
    }

    /// Finds the earlier parts of a path in other files of its project, oldest first.
    ///
    /// A compaction, or a client that continued in a new file, leaves a root whose parent is in another file.
    /// Logs of subagents begin in the same way; they are separate conversations and are not followed.
    ///
    /// ```
    /// use rethread::Client;
    ///
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// let path = &loaded.tree(Client::NEWEST)[0].path;
    /// assert!(library.earlier_sessions(&loaded, path).is_empty());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn earlier_sessions(&self, loaded: &LoadedSession, path: &Path) -> Vec<EarlierSession> {
        let mut found: Vec<EarlierSession> = Vec::new();
        let mut visited = vec![loaded.source.file.path.clone()];
        let mut wanted = loaded.external_parent(path.step);
        while let Some(uid) = wanted.filter(|_| found.len() < MAX_FILES) {
            let Some(earlier) = self.session_with_entry(uid, &loaded.source, &visited) else { break };
            visited.push(earlier.loaded.source.file.path.clone());
            wanted = earlier.loaded.external_parent(earlier.step);
            found.push(earlier);
        }
        found.reverse();
        found
    }

    /// Finds the session of the same project that contains an entry.
    fn session_with_entry(
        &self,
        uid: Uid,
        source: &LogSource,
        visited: &[PathBuf],
    ) -> Option<EarlierSession> {
        let dir = source.file.path.parent().filter(|_| source.bytes.is_none())?;
        let files = self.store.sessions_in(dir, false);
        let holds = |file: &&rethread_store::SessionFile| {
            !visited.contains(&file.path)
                && rethread_store::find_uuids(file, &|found| found == uid)
                    .is_ok_and(|found| !found.is_empty())
        };
        let file = files.par_iter().find_first(holds)?;
        let loaded = self.load(&file.clone().into()).ok()?;
        let node = loaded.session.facts.node_of(uid)?;
        let step = loaded.session.tree.step(node)?;
        let message = loaded.session.facts.nodes[node].message();
        Some(EarlierSession { loaded, step, message })
    }

    /// Counts the content of a session.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let info = library.info(&library.find_one("0000d002")?)?;
    /// assert_eq!(info.inventory.tool_calls.by_name["Bash"], 1);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn info(&self, source: &LogSource) -> Result<SessionInfo, crate::Error> {
        let _turn = source.lock_if_large();
        let (session, bytes) = self.read(source)?;
        let mut info = SessionInfo::new(source.id(), source.file.path.clone(), &session, bytes);
        info.inventory.subagents += self.agents_of(source).len() as u64;
        Ok(info)
    }
}

impl LoadedSession {
    /// Returns the id that the path to a step continues from, if it is not in this file.
    fn external_parent(&self, step: StepId) -> Option<Uid> {
        self.external_root_parent(*self.session.tree.path_to(step).first()?)
    }

    /// Returns the id that a root continues from, if it is not in this file.
    pub(crate) fn external_root_parent(&self, root: StepId) -> Option<Uid> {
        let uid = self.session.parent_of_root(root)?;
        (!self.source.file.is_subagent && self.session.facts.node_of(uid).is_none()).then_some(uid)
    }

    /// Returns a reader over its texts.
    ///
    /// ```
    /// use rethread::Client;
    ///
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// let path = &loaded.session.paths(Client::NEWEST)[0];
    /// assert_eq!(loaded.reader().items(path.step).len(), 6);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(&self.session, &self.bytes)
    }

    /// Returns its paths; `client` determines the active one.
    ///
    /// ```
    /// use rethread::Client;
    ///
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// for path in loaded.tree(Client::NEWEST) {
    ///     println!("path {} is {}; its last prompt is {:?}", path.n, path.status, path.last_prompt);
    /// }
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn tree(&self, client: Client) -> Vec<PathSummary> {
        let reader = self.reader();
        let paths = self.session.paths(client).into_iter();
        paths.map(|path| PathSummary::new(&reader, &self.session, path)).collect()
    }

    /// Returns its subagents, each with the call that started it if known.
    ///
    /// ```
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d002")?)?;
    /// assert!(loaded.subagents()[0].call.is_some());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn subagents(&self) -> Vec<Subagent> {
        let mut found: Vec<Subagent> = self
            .session
            .subagents()
            .into_iter()
            .map(|inline| Subagent { call: inline.call, path: None, file: None, root: Some(inline.root) })
            .collect();
        if self.source.bytes.is_none() {
            let files = self.agents.logs_of(&self.source.file);
            let calls =
                if files.is_empty() { SubagentCalls::default() } else { SubagentCalls::new(&self.session) };
            for file in files {
                let call = calls.starting_call(&SubagentMeta::new(&file, self.agents.skips()));
                found.push(Subagent { call, path: Some(file.path.clone()), file: Some(file), root: None });
            }
        }
        found
    }

    /// Reads the file that a shortened result refers to, if it is a sidecar of the session.
    ///
    /// The result names an absolute path on the machine that wrote it. Only its file name is used, and only
    /// files in the session's own `tool-results` are read.
    ///
    /// ```
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d002")?)?;
    /// assert_eq!(loaded.whole_result("a result that is in the log"), None);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn whole_result(&self, text: &str) -> Option<String> {
        self.whole_result_if(text, &|_| true)
    }

    /// Reads the file that a shortened result refers to, if it is a sidecar of the session and `wanted`
    /// accepts it.
    pub(crate) fn whole_result_if(
        &self,
        text: &str,
        wanted: &dyn Fn(&std::path::Path) -> bool,
    ) -> Option<String> {
        if self.source.bytes.is_some() || !text.trim_start().starts_with("<persisted-output>") {
            return None;
        }
        // The line that names the file; the directory name can also occur earlier in the path.
        let line = text.lines().find(|line| line.contains(RESULTS))?;
        let start = line.rfind(RESULTS)?;
        let name = line[start + RESULTS.len()..].trim_start_matches(['/', '\\']);
        let name: String = name.chars().take_while(|&c| is_file_name_char(c)).collect();
        let name = name.trim_end_matches('.');
        if name.is_empty() || name.starts_with('.') {
            return None;
        }
        let named = safe_file_name(&line[..start]);
        let read = |dir: ConfinedPath| {
            let file = dir.join(name);
            // A file that is not wanted is not searched for in other directories.
            (file.is_file() && !wanted(&file.path()))
                .then_some(None)
                .or_else(|| self.read_sidecar(&file).map(Some))
        };
        let bytes = self.result_dirs_of(named).into_iter().find_map(read)??;
        Some(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
    }

    /// Reads a sidecar. One that is not a regular file, or is reached through a link, is recorded as skipped.
    fn read_sidecar(&self, file: &ConfinedPath) -> Option<Vec<u8>> {
        file.read()
            .inspect_err(|error| {
                if let Some(reason) = PathRejection::from_io_error(error) {
                    self.agents.skips().record(file.path(), reason);
                }
            })
            .ok()
    }

    /// Returns the directories that may contain large results of this log: its own, or that of the session
    /// `named` in the same project. A copy of a session still names the directory of the original, and a
    /// subagent that of its session.
    fn result_dirs_of(&self, named: Option<&str>) -> Vec<ConfinedPath> {
        let file = &self.source.file;
        let mut dirs = vec![file.confined_side_dir().join(RESULTS)];
        dirs.extend(
            named.map(|named| ConfinedPath::new(&file.base, self.project().join(named).join(RESULTS))),
        );
        dirs
    }

    /// Returns the project's directory, relative to the directory that may be reached through links.
    fn project(&self) -> PathBuf {
        let below = self.source.file.confined_path().relative().to_owned();
        // A subagent's log is in the directory of its session.
        let names: Vec<&OsStr> = below.iter().collect();
        let side = names.windows(2).position(|pair| pair[1] == "subagents");
        names[..side.unwrap_or(names.len().saturating_sub(1))].iter().collect()
    }

    /// Returns all directories that contain large results of this log, given the session names in its paths.
    pub(crate) fn result_dirs(&self, names: &[String]) -> Vec<ConfinedPath> {
        if self.source.bytes.is_some() {
            return Vec::new();
        }
        let mut dirs = self.result_dirs_of(None);
        for name in names {
            dirs.extend(self.result_dirs_of(Some(name)).into_iter().filter(ConfinedPath::is_dir));
        }
        dirs.sort();
        dirs.dedup();
        dirs
    }
}

impl RandomAccessLog for LoadedSession {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> std::io::Result<()> {
        let start = usize::try_from(offset).map_err(std::io::Error::other)?;
        let found = start.checked_add(bytes.len()).and_then(|end| self.bytes.get(start..end));
        bytes.copy_from_slice(found.ok_or(std::io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn is_unchanged(&self, _: EntryNo, _: &[u8]) -> bool {
        true
    }

    fn in_memory(&self) -> Option<&[u8]> {
        Some(&self.bytes)
    }
}

/// Returns the name of the directory before `tool-results` in a path inside an entry.
pub(crate) fn parent_dir_name(entry: &[u8], at: usize) -> Option<String> {
    let before = String::from_utf8_lossy(&entry[at.saturating_sub(100)..at]);
    safe_file_name(&before).map(str::to_owned)
}

/// The entries that a clone removed, kept in a sidecar.
#[derive(Debug, Clone)]
pub struct RemovedLog {
    /// The removed entries, as a log.
    pub loaded: LoadedSession,
    /// The numbers of its messages in the source.
    pub(crate) numbers: Table<MessageNo, Option<MessageNo>>,
}

impl LoadedSession {
    /// Reads the entries that this session removed, if it is a clone that kept them.
    ///
    /// ```
    /// # let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// assert!(loaded.removed()?.is_none(), "not a clone");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn removed(&self) -> Result<Option<RemovedLog>, crate::Error> {
        let kept = self.source.file.confined_side_dir().join(REMOVED);
        if self.source.bytes.is_some() {
            return Ok(None);
        }
        let Some(file) = self.read_sidecar(&kept) else { return Ok(None) };
        let lines: Vec<rethread_edit::RemovedEntry> =
            file.split(|&b| b == b'\n').filter_map(rethread_edit::RemovedEntry::from_line).collect();
        let mut log = Vec::new();
        for line in &lines {
            log.extend_from_slice(&line.entry);
            log.push(b'\n');
        }
        let mut source = LogSource::from_bytes(&self.source.file.id, &self.source.file.path, &[]);
        source.bytes = Some(Arc::new(log));
        let bytes = source.bytes.clone().unwrap_or_default();
        let session = Session::read(&bytes);
        let number = |message: &rethread_model::Message| {
            let entry = session.facts.nodes[message.first_node].entry;
            lines.get(entry.index()).and_then(|line| line.message)
        };
        let numbers = session.facts.messages.iter().map(number).collect();
        let loaded = Self { source, session, bytes, agents: Arc::clone(&self.agents) };
        Ok(Some(RemovedLog { loaded, numbers }))
    }
}

/// The directory of results that were too large for the log.
pub(crate) const RESULTS: &str = "tool-results";
/// The sidecar of a clone that contains the removed entries.
pub(crate) const REMOVED: &str = "removed.jsonl";

fn is_file_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-".contains(c)
}

/// Returns the last component of a path, if it is a plain file name.
fn safe_file_name(path: &str) -> Option<&str> {
    let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next()?;
    (!name.is_empty() && name.chars().all(is_file_name_char) && !name.starts_with('.')).then_some(name)
}

/// The calls of a log, indexed by the keys that link subagents to the calls that started them.
#[derive(Default)]
pub(crate) struct SubagentCalls<'s> {
    pub(crate) by_agent: FxHashMap<&'s str, CallId>,
    pub(crate) by_id: FxHashMap<&'s str, CallId>,
}

impl<'s> SubagentCalls<'s> {
    pub(crate) fn new(session: &'s Session) -> Self {
        let facts = &session.facts;
        let calls = || facts.calls.iter_enumerated().rev();
        Self {
            by_agent: calls().filter_map(|(i, call)| Some((call.agent.as_deref()?, i))).collect(),
            by_id: calls().map(|(i, call)| (facts.call_id(call), i)).collect(),
        }
    }

    /// Finds the call that started a subagent: either its result names the agent, or the agent names the
    /// call.
    pub(crate) fn starting_call(&self, agent: &SubagentMeta) -> Option<CallId> {
        let named = self.by_agent.get(agent.id.as_str());
        named.or_else(|| self.by_id.get(agent.call_id.as_deref()?)).copied()
    }
}

/// The links of a subagent that has a separate log.
pub(crate) struct SubagentMeta {
    pub(crate) id: String,
    /// Newer clients write `toolUseId` into `agent-<id>.meta.json`.
    pub(crate) call_id: Option<String>,
    /// The subagent that started it, if any.
    pub(crate) parent: Option<String>,
}

impl SubagentMeta {
    pub(crate) fn new(log: &SessionFile, skips: &SkippedPaths) -> Self {
        const MAX_BYTES: u64 = 1 << 20;
        let name = log.path.file_stem().unwrap_or_default().to_string_lossy();
        let file = log.confined_path().with_extension("meta.json");
        let meta = match file.stat() {
            Ok(stat) if stat.bytes < MAX_BYTES => file.read().unwrap_or_default(),
            Ok(_) => Vec::new(),
            Err(error) => {
                if let Some(reason) = PathRejection::from_io_error(&error) {
                    skips.record(file.path(), reason);
                }
                Vec::new()
            }
        };
        let field = |key: &str| Some(rethread_log::Json::new(&meta).get(key)?.as_str()?.into_owned());
        let id = name.strip_prefix("agent-").unwrap_or(&name).to_owned();
        Self { id, call_id: field("toolUseId"), parent: field("parentAgentId") }
    }
}
