//! A log as an export reads it: its facts are kept, its text is read again where it is shown.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rethread_log::{Defect, Entry, Line, Sink};
use rethread_model::{
    Client, EntryChunk, EntryNo, FactsBuilder, IndexGroups, NodeId, PathSummary, RandomAccessLog,
    RestampedCopy, Session, StepContentKey, StepId, StepNodes, StepStream, Table,
};
use rethread_store::{SessionFile, SubagentIndex};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use crate::Error;
use crate::library::{Library, LogSource, reject_non_log};
use crate::session::{LoadedSession, RESULTS, parent_dir_name};

/// A log without its text.
pub(crate) struct ExportLog {
    /// The session; its bytes are not kept.
    pub(crate) loaded: LoadedSession,
    layout: StepNodes,
    text: HashedLogText,
    /// The length of the log, and its hash.
    pub(crate) bytes: u64,
    pub(crate) hash: u128,
    /// The names of directories that contain its large results.
    pub(crate) result_dirs: Vec<String>,
}

/// Reads the logs of an export. It keeps a few files open and, within a budget, the facts of logs.
pub(crate) struct LogReader {
    agents: Arc<SubagentIndex>,
    files: Arc<OpenFiles>,
    /// Bytes that the facts of further logs may take.
    facts_left: AtomicU64,
}

/// Total size of the facts that an export keeps from its first pass for its second one.
const FACTS_BUDGET: u64 = 256 << 20;
/// Size of what is kept of an entry besides its facts: its link, step and hash.
const TREE_PER_ENTRY: usize = 80;

/// The files that were read last. A log is read in several places; opening it each time is slow.
#[derive(Default)]
struct OpenFiles(Mutex<VecDeque<(PathBuf, Arc<File>)>>);

/// Number of files that are kept open. A process may have a thousand, and a session as many subagents.
const MAX_OPEN_FILES: usize = 16;

impl OpenFiles {
    /// Adds an open file. Nobody else may read it from its beginning: on Windows all reads move its position.
    fn add(&self, file: &SessionFile, opened: File) -> Arc<File> {
        let opened = Arc::new(opened);
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|(path, _)| *path != file.path);
        files.truncate(MAX_OPEN_FILES - 1);
        files.push_front((file.path.clone(), Arc::clone(&opened)));
        opened
    }

    /// Returns a file for reads at any place, and opens it if necessary.
    fn get(&self, file: &SessionFile) -> io::Result<Arc<File>> {
        let files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = files.iter().find(|(path, _)| *path == file.path).map(|(_, opened)| Arc::clone(opened));
        drop(files);
        known.map_or_else(|| Ok(self.add(file, file.open()?)), Ok)
    }
}

/// The bytes of a log and the hashes of its entries, because a log can change at any time.
struct HashedLogText {
    source: LogSource,
    entry_hashes: Vec<u64>,
    files: Arc<OpenFiles>,
}

impl RandomAccessLog for HashedLogText {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match &self.source.bytes {
            Some(log) => {
                let start = usize::try_from(offset).map_err(io::Error::other)?;
                let found = start.checked_add(bytes.len()).and_then(|end| log.get(start..end));
                bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            None => rethread_store::read_at(&*self.files.get(&self.source.file)?, offset, bytes),
        }
    }

    fn is_unchanged(&self, number: EntryNo, entry: &[u8]) -> bool {
        let print = self.entry_hashes.get(number.index());
        print.is_none_or(|&print| print == xxh3_64(entry))
    }

    fn in_memory(&self) -> Option<&[u8]> {
        self.source.bytes.as_ref().map(|bytes| bytes.as_slice())
    }
}

/// Collects hashes of entries and the result directories that they name.
struct EntryHasher {
    entry_hashes: Vec<u64>,
    hash: Xxh3,
    results: memchr::memmem::Finder<'static>,
    dirs: FxHashSet<String>,
}

impl Sink for EntryHasher {
    fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
        let print = xxh3_64(entry.raw);
        if entry.number > 0 {
            self.entry_hashes.push(print);
        }
        self.hash.update(&print.to_le_bytes());
        self.hash.update(&(entry.raw.len() as u64).to_le_bytes());
        for at in self.results.find_iter(entry.raw) {
            if let Some(name) = parent_dir_name(entry.raw, at) {
                self.dirs.insert(name);
            }
        }
    }

    fn defect(&mut self, _: Defect) {}
}

impl LogReader {
    pub(crate) fn new(library: &Library) -> Self {
        let agents = Arc::clone(&library.agents);
        Self { agents, files: Arc::default(), facts_left: AtomicU64::new(FACTS_BUDGET) }
    }

    /// Keeps the facts of a log, if there is room.
    pub(crate) fn keep(&self, log: Arc<ExportLog>) -> Option<Arc<ExportLog>> {
        let facts = &log.session().facts;
        let size = (facts.memory_size() + TREE_PER_ENTRY * facts.locations.len()) as u64;
        let take = |left: u64| left.checked_sub(size);
        let is_kept = self.facts_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        is_kept.then_some(log)
    }

    /// Reads the facts of a log, at most `limit` bytes of it.
    pub(crate) fn read(&self, source: &LogSource, limit: u64) -> Result<Arc<ExportLog>, Error> {
        let size = source.file.bytes.min(limit);
        let mut builder = FactsBuilder::for_size(size);
        let mut hasher = EntryHasher {
            entry_hashes: Vec::with_capacity(usize::try_from(size / 2000).unwrap_or(0).min(1 << 20)),
            hash: Xxh3::new(),
            results: memchr::memmem::Finder::new(RESULTS),
            dirs: FxHashSet::default(),
        };
        let mut both = (&mut hasher, &mut builder);
        let (scanner, bytes) = match &source.bytes {
            Some(bytes) => {
                let end = usize::try_from(limit).unwrap_or(usize::MAX).min(bytes.len());
                let mut scanner = rethread_log::Scanner::default();
                scanner.scan(&bytes[..end], &mut both);
                (scanner, end as u64)
            }
            None => {
                let file = source.file.open().map_err(|error| source.error(error))?;
                let scanned = rethread_store::scan_to_length(&file, limit, &mut both)
                    .map_err(|error| source.error(error))?;
                self.files.add(&source.file, file);
                scanned
            }
        };
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        reject_non_log(source, &facts)?;
        let session = Session::new(facts);
        let layout = StepNodes::new(&session);
        let mut result_dirs: Vec<String> = hasher.dirs.into_iter().collect();
        result_dirs.sort();
        let (hash, agents) = (hasher.hash.digest128(), Arc::clone(&self.agents));
        let loaded = LoadedSession { source: source.clone(), session, bytes: Arc::default(), agents };
        hasher.entry_hashes.shrink_to_fit();
        let files = Arc::clone(&self.files);
        let text = HashedLogText { source: source.clone(), entry_hashes: hasher.entry_hashes, files };
        Ok(Arc::new(ExportLog { loaded, layout, text, bytes, hash, result_dirs }))
    }
}

impl ExportLog {
    pub(crate) fn session(&self) -> &Session {
        &self.loaded.session
    }

    fn error(&self, source: io::Error) -> Error {
        self.loaded.source.error(source)
    }

    /// Returns the items on the path to a step, optionally only those after another step. With `joins`,
    /// copied messages also show blocks that exist only on other branches.
    pub(crate) fn path_stream(&self, step: StepId, after: Option<StepId>, joins: bool) -> StepStream<'_> {
        StepStream::to_step(self.session(), &self.layout, &self.text, (step, after), joins)
    }

    /// Returns the items of a subagent.
    pub(crate) fn subagent_stream(
        &self,
        root: Option<NodeId>,
        steps: &IndexGroups<StepId, StepId>,
    ) -> StepStream<'_> {
        StepStream::of_subagent(self.session(), &self.layout, &self.text, root, steps)
    }

    /// Sums the bytes shown on the path to each step, including those of sidecars by entry.
    pub(crate) fn path_bytes_by_step(&self, extra_bytes: impl Fn(NodeId) -> u64) -> Table<StepId, u64> {
        let facts = &self.session().facts;
        self.layout.path_bytes_by_step(self.session(), |node| {
            u64::from(facts.location(node).len) + extra_bytes(node)
        })
    }

    /// Returns its paths; `client` determines the active one.
    pub(crate) fn path_summaries(&self, client: Client) -> Result<Vec<PathSummary>, Error> {
        /// Number of paths whose prompts are read at a time.
        const AT_ONCE: usize = 256;
        let session = self.session();
        let paths = session.paths(client);
        let mut summaries = Vec::with_capacity(paths.len());
        for some in paths.chunks(AT_ONCE) {
            let nodes = some.iter().flat_map(|path| [Some(path.tip), path.fork_point, path.last_prompt]);
            let chunk =
                EntryChunk::load(session, &self.text, nodes.flatten()).map_err(|error| self.error(error))?;
            let reader = rethread_model::Reader::with_entries(session, &chunk);
            summaries.extend(some.iter().map(|path| PathSummary::new(&reader, session, path.clone())));
        }
        Ok(summaries)
    }

    /// Returns the content keys on its paths, by step.
    pub(crate) fn content_keys(&self) -> Result<Vec<StepContentKey>, Error> {
        let mut keys = Vec::new();
        let read = EntryChunk::for_each_chunk(self.session(), &self.text, false, |reader, nodes| {
            reader.collect_content_keys(nodes, &mut keys);
            true
        });
        read.map_err(|error| self.error(error))?;
        Ok(keys)
    }

    /// Returns the last copied message of a fork.
    pub(crate) fn restamped(&self) -> Result<Option<RestampedCopy>, Error> {
        let mut found = None;
        if self.session().facts.forked_from.is_some() {
            let read = EntryChunk::for_each_chunk(self.session(), &self.text, true, |reader, nodes| {
                found = reader.restamped_copy_in(nodes);
                found.is_none()
            });
            read.map_err(|error| self.error(error))?;
        }
        Ok(found)
    }

    /// Returns the keys of an entry and of its text.
    pub(crate) fn entry_keys(&self, node: NodeId) -> Result<(u64, u64), Error> {
        let chunk =
            EntryChunk::load(self.session(), &self.text, [node]).map_err(|error| self.error(error))?;
        Ok(rethread_model::Reader::with_entries(self.session(), &chunk).entry_keys(node))
    }
}
