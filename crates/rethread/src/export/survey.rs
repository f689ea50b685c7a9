//! The first pass over all sessions: their paths, which of these are contained in others, and which sessions
//! continue others.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rethread_model::{
    BranchPoint, Client, NodeId, PathEnd, PathId, PathIndex, PathSummary, RestampedCopy, SessionContinuation,
    SessionFingerprint, SessionId, SessionIndex, StepId, Table, Time, Uid, containing_paths,
};
use rethread_render::Format;
use rethread_store::{ConfinedPath, FileStat, SessionFile, find_uuids, hash_file};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::log::{ExportLog, LogReader};
use super::resume::ResumableLog;
use super::{ExportError, ExportOptions, PathChoice};
use crate::Error;
use crate::library::{Library, LogSource};
use crate::ls::resume_dir_in;
use crate::session::Subagent;
use crate::titles::{self, TitleInFile};
use crate::transcript::SessionHeader;

/// Maximum number of files that a conversation is followed back.
const MAX_ROUNDS: usize = 50;

/// The data kept of a session while others are read.
pub(crate) struct Survey {
    pub(crate) source: LogSource,
    /// Its facts, if there is room for them until its documents are written.
    pub(crate) log: Option<Arc<ExportLog>>,
    /// The metadata that its documents show.
    pub(crate) header: SessionHeader,
    /// The length of its log, and its hash.
    pub(crate) bytes: u64,
    pub(crate) log_hash: u128,
    /// Hash of everything that its documents show: the log and its sidecars.
    pub(crate) hash: u128,
    /// It is read only because others continue it; its own documents are not requested.
    pub(crate) auxiliary: bool,
    pub(crate) paths: Table<PathIndex, PathSummary>,
    /// Bytes of the log and its subagents shown on each path.
    pub(crate) path_bytes: Table<PathIndex, u64>,
    /// Bytes of the session's large results, and of all its files.
    pub(crate) sizes: (u64, u64),
    pub(crate) branchings: Table<PathIndex, Option<BranchPoint>>,
    /// The root of each path.
    roots: Table<PathIndex, StepId>,
    pub(crate) title_in_file: TitleInFile,
    pub(crate) first_prompt: String,
    pub(crate) span: Option<(Time, Time)>,
    /// The directory in which a client resumes it.
    resume_dir: Option<PathBuf>,
    pub(crate) agents: Vec<Subagent>,
    /// The ids of the calls that started them.
    pub(crate) agent_calls: Vec<Option<String>>,
    /// Hashes of the calls in the log itself.
    calls: Vec<u64>,
    forked_from: Option<String>,
    restamped: Option<RestampedCopy>,
    fingerprint: SessionFingerprint,
    /// Roots whose parents are in other files.
    missing_parents: Vec<(StepId, Uid)>,
}

impl Survey {
    /// Returns the command that resumes the session, if the documents show it.
    pub(crate) fn resume_command(&self, options: &ExportOptions) -> Option<String> {
        // Only pages show it.
        let word = options.resume_command.as_ref().filter(|_| options.format == Format::Html)?;
        let id = SessionId::from(self.header.id.as_str());
        let log = ResumableLog { path: &self.source.file.path, id: &id, dir: self.resume_dir.as_deref() };
        word.word(&log)
    }
}

/// All sessions of an export.
pub(crate) struct Surveys {
    pub(crate) sessions: Table<SessionIndex, Survey>,
    /// Reads their logs.
    pub(crate) logs: LogReader,
    /// For each skipped path, the one that contains it.
    contained_in: FxHashMap<PathId, PathId>,
    /// The sessions that have subagents, by hash of the id of the starting call.
    sessions_by_call: FxHashMap<u64, Vec<SessionIndex>>,
    predecessors: FxHashMap<(SessionIndex, StepId), Predecessor>,
    pub(crate) errors: Vec<Error>,
}

/// The predecessor of a root: a session, a step of it, and the counts on the path to it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Predecessor {
    pub(crate) session: SessionIndex,
    pub(crate) step: StepId,
    pub(crate) counts: (u32, u32, u32),
    root: StepId,
}

impl Surveys {
    /// Reads all sessions. Logs of subagents whose session is selected too are left to that session.
    pub(crate) fn new(library: &Library, sources: Vec<LogSource>, options: &ExportOptions) -> Self {
        let client = options.client;
        let sources = without_owned_agents(library, sources);
        let logs = LogReader::new(library);
        let read: Vec<Result<Survey, Error>> = sources
            .par_iter()
            .map(|source| {
                let survey = survey(library, &logs, source, client);
                library.progress.report(source);
                survey
            })
            .collect();
        let mut surveys = Self {
            sessions: Table::default(),
            logs,
            contained_in: FxHashMap::default(),
            sessions_by_call: FxHashMap::default(),
            predecessors: FxHashMap::default(),
            errors: Vec::new(),
        };
        let mut sessions = Vec::new();
        for survey in read {
            match survey {
                Ok(survey) => sessions.push(survey),
                Err(error) => surveys.errors.push(error),
            }
        }
        titles::apply_other_summaries(sessions.iter_mut().map(|survey| &mut survey.title_in_file));
        // Originals come before copies, so that of equal paths the original is kept.
        sessions.sort_by_cached_key(|s| (s.forked_from.is_some(), s.source.file.path.clone()));
        surveys.sessions = sessions.into();
        surveys.link_predecessors(library, client);
        surveys.match_restamped_forks();
        surveys.find_contained_paths(options);
        for (session, survey) in surveys.sessions.iter_enumerated() {
            for id in survey.agent_calls.iter().flatten() {
                surveys.sessions_by_call.entry(hash_of_id(id)).or_default().push(session);
            }
        }
        surveys
    }

    /// Returns the log of a session as it was in the survey. It is read again if its facts were not kept; fails
    /// if it has changed.
    pub(crate) fn log(&self, session: SessionIndex) -> Result<Arc<ExportLog>, ExportError> {
        let survey = &self.sessions[session];
        if let Some(log) = &survey.log {
            return Ok(Arc::clone(log));
        }
        let log = self.logs.read(&survey.source, survey.bytes)?;
        if log.hash != survey.log_hash {
            return Err(ExportError::Moved { path: survey.source.file.path.clone() });
        }
        Ok(log)
    }

    /// Releases the facts of all other sessions.
    pub(crate) fn keep_logs(&mut self, needed: &FxHashSet<SessionIndex>) {
        for session in self.sessions.keys() {
            let survey = &mut self.sessions[session];
            survey.log = survey.log.take().filter(|_| needed.contains(&session));
        }
    }

    /// Returns the path that contains a skipped path.
    pub(crate) fn containing_path(&self, path: PathId) -> Option<PathId> {
        self.contained_in.get(&path).copied()
    }

    /// Returns the other sessions whose subagents a session shows under copies of their calls.
    pub(crate) fn sessions_with_calls(&self, session: SessionIndex) -> Vec<SessionIndex> {
        let calls = self.sessions[session].calls.iter();
        let started = calls.filter_map(|call| self.sessions_by_call.get(call)).flatten().copied();
        let mut others: Vec<SessionIndex> = started.filter(|&other| other != session).collect();
        others.sort_unstable();
        others.dedup();
        others
    }

    /// Finds the predecessors of roots in other files.
    fn link_predecessors(&mut self, library: &Library, client: Client) {
        let mut open: Vec<SessionIndex> = self.sessions.keys().collect();
        for _ in 0..MAX_ROUNDS {
            // Wanted ids, by directory: every file is searched once per round.
            let mut by_dir: FxHashMap<PathBuf, FxHashMap<Uid, Vec<(SessionIndex, StepId)>>> =
                FxHashMap::default();
            for session in open {
                let survey = &self.sessions[session];
                let Some(dir) = dir_of(&survey.source) else { continue };
                for &(root, uid) in &survey.missing_parents {
                    by_dir.entry(dir.clone()).or_default().entry(uid).or_default().push((session, root));
                }
            }
            let known = self.sessions.len();
            let mut dirs: Vec<_> = by_dir.into_iter().collect();
            dirs.sort_by(|a, b| a.0.cmp(&b.0));
            for (dir, wanted) in dirs {
                self.find_predecessors_in(library, client, &dir, &wanted);
            }
            open = self.sessions.keys().skip(known).collect();
            if open.is_empty() {
                return;
            }
        }
    }

    fn find_predecessors_in(
        &mut self,
        library: &Library,
        client: Client,
        dir: &Path,
        wanted: &FxHashMap<Uid, Vec<(SessionIndex, StepId)>>,
    ) {
        let holds =
            |file: &SessionFile| find_uuids(file, &|uid| wanted.contains_key(&uid)).unwrap_or_default();
        let found: Vec<(SessionFile, Vec<Uid>)> = library
            .store
            .sessions_in(dir, false)
            .into_par_iter()
            .map(|file| {
                let uids = holds(&file);
                (file, uids)
            })
            .filter(|(_, uids)| !uids.is_empty())
            .collect();
        let mut known: FxHashSet<Uid> = FxHashSet::default();
        let mut by_path: FxHashMap<PathBuf, SessionIndex> =
            self.sessions.iter_enumerated().map(|(i, s)| (s.source.file.path.clone(), i)).collect();
        for (file, mut uids) in found {
            uids.retain(|uid| known.insert(*uid));
            let known_log = by_path.get(&file.path).map(|&at| self.log(at));
            let log = known_log.unwrap_or_else(|| Ok(self.logs.read(&file.clone().into(), u64::MAX)?));
            let Ok(log) = log else { continue };
            let session = log.session();
            let (roots, counts) = (session.roots_by_step(), session.counts_by_step());
            for uid in uids {
                let step = session.facts.node_of(uid).and_then(|node| session.tree.step(node));
                let Some(step) = step else { continue };
                let at = match by_path.get(&file.path) {
                    Some(&at) => at,
                    None => {
                        let Ok(mut survey) = survey_of(library, &log, client) else { continue };
                        survey.auxiliary = true;
                        survey.log = self.logs.keep(Arc::clone(&log));
                        let added = self.sessions.push(survey);
                        by_path.insert(file.path.clone(), added);
                        added
                    }
                };
                let before = Predecessor { session: at, step, counts: counts[step], root: roots[step] };
                for &(session, from) in &wanted[&uid] {
                    if session != at {
                        self.predecessors.insert((session, from), before);
                    }
                }
            }
        }
    }

    /// Matches the last message of a fork to its original, because the SDKs give it a new timestamp.
    fn match_restamped_forks(&mut self) {
        let by_id: FxHashMap<String, SessionIndex> =
            self.sessions.iter_enumerated().rev().map(|(i, s)| (s.source.file.id.clone(), i)).collect();
        // The original key of each copied message; a fork of a fork is resolved repeatedly.
        let mut known_as: FxHashMap<u64, u64> = FxHashMap::default();
        let mut by_origin: FxHashMap<SessionIndex, Vec<RestampedCopy>> = FxHashMap::default();
        for fork in &self.sessions {
            let of = fork.forked_from.as_ref().and_then(|from| by_id.get(from));
            if let Some((restamped, &of)) = fork.restamped.zip(of) {
                by_origin.entry(of).or_default().push(restamped);
            }
        }
        for (of, forks) in by_origin {
            let Ok(log) = self.log(of) else { continue };
            for restamped in forks {
                let Some(node) = log.session().facts.node_of(restamped.origin) else { continue };
                let Ok((key, words)) = log.entry_keys(node) else { continue };
                if words == restamped.words_key && key != restamped.key {
                    known_as.insert(restamped.key, key);
                }
            }
        }
        for fork in self.sessions.iter_mut() {
            let Some(restamped) = fork.restamped else { continue };
            let mut key = restamped.key;
            for _ in 0..MAX_ROUNDS {
                match known_as.get(&key) {
                    Some(&origin) => key = origin,
                    None => break,
                }
            }
            fork.fingerprint.replace_key(restamped.key, key);
        }
    }

    fn find_contained_paths(&mut self, options: &ExportOptions) {
        let fingerprints: Vec<SessionFingerprint> =
            self.sessions.iter_mut().map(|s| std::mem::take(&mut s.fingerprint)).collect();
        // A path selected by number is written even if another contains it.
        if options.all_copies || matches!(options.paths, PathChoice::Number(_)) {
            return;
        }
        let only_active = options.paths == PathChoice::Active;
        // The requested paths of each session; what follows counts only these.
        let asked = |survey: &Survey| -> Table<PathIndex, PathIndex> {
            let all = survey.paths.iter_enumerated().filter(|_| !survey.auxiliary);
            let all = all.filter(|(_, path)| !only_active || path.path.is_current());
            all.map(|(index, _)| index).collect()
        };
        let asked: Table<SessionIndex, _> = self.sessions.iter().map(asked).collect();
        let fingerprints: Vec<SessionFingerprint> = fingerprints
            .into_iter()
            .zip(&asked)
            .map(|(fingerprint, asked)| fingerprint.retain_path_ends(asked.as_slice()))
            .collect();
        let continuations: Vec<SessionContinuation> = self
            .predecessors
            .iter()
            .map(|(&(session, root), before)| SessionContinuation {
                session,
                root,
                continues_from: (before.session, before.step),
            })
            .collect();
        let real = |id: PathId| PathId { session: id.session, path: asked[id.session][id.path] };
        for (session, containers) in containing_paths(&fingerprints, &continuations).iter_enumerated() {
            for (path, &by) in containers.iter_enumerated() {
                if let Some(by) = by {
                    self.contained_in.insert(real(PathId { session, path }), real(by));
                }
            }
        }
    }

    /// Returns the predecessors of a path in other files, oldest first.
    pub(crate) fn predecessors_of(&self, session: SessionIndex, path: PathIndex) -> Vec<Predecessor> {
        let mut found = Vec::new();
        let mut at = (session, self.sessions[session].roots[path]);
        let mut visited = vec![session];
        while let Some(&before) = self.predecessors.get(&at) {
            if visited.contains(&before.session) || found.len() >= MAX_ROUNDS {
                break;
            }
            visited.push(before.session);
            found.push(before);
            at = (before.session, before.root);
        }
        found.reverse();
        found
    }
}

fn dir_of(source: &LogSource) -> Option<PathBuf> {
    let dir = source.file.path.parent().filter(|_| source.bytes.is_none() && !source.file.is_subagent)?;
    Some(dir.to_owned())
}

/// Drops the logs of subagents whose sessions are selected too, and duplicates.
fn without_owned_agents(library: &Library, mut sources: Vec<LogSource>) -> Vec<LogSource> {
    let real = |source: &LogSource| match &source.bytes {
        Some(_) => source.file.path.join(&source.file.id),
        None => source.file.path.canonicalize().unwrap_or_else(|_| source.file.path.clone()),
    };
    let mut seen = FxHashSet::default();
    sources.retain(|source| seen.insert(real(source)));
    let owned: FxHashSet<PathBuf> =
        sources.iter().flat_map(|source| library.agents_of(source)).map(|file| real(&file.into())).collect();
    sources.retain(|source| !owned.contains(&real(source)));
    sources
}

fn survey(library: &Library, logs: &LogReader, source: &LogSource, client: Client) -> Result<Survey, Error> {
    let _turn = source.lock_if_large();
    let log = logs.read(source, u64::MAX)?;
    let mut survey = survey_of(library, &log, client)?;
    survey.log = logs.keep(log);
    Ok(survey)
}

fn survey_of(library: &Library, log: &ExportLog, client: Client) -> Result<Survey, Error> {
    let loaded = &log.loaded;
    let paths: Table<PathIndex, PathSummary> = log.path_summaries(client)?.into();
    let session = log.session();
    let roots = session.roots_by_step();
    let of_paths: Vec<_> = paths.iter().map(|summary| summary.path.clone()).collect();
    let ending = |summary: &PathSummary| PathEnd { step: summary.path.step, active: summary.path.active };
    let of_paths_roots: Table<PathIndex, StepId> =
        paths.iter().map(|summary| roots[summary.path.step]).collect();
    let distinct: FxHashSet<StepId> = of_paths_roots.iter().copied().collect();
    let wanted = |root: StepId| Some((root, loaded.external_root_parent(root)?));
    let wanted: Vec<(StepId, Uid)> = distinct.into_iter().filter_map(wanted).collect();
    let agents = loaded.subagents();
    let titled = TitleInFile::new(&session.facts, &loaded.source.file);
    let facts = &session.facts;
    let call_id = |agent: &Subagent| Some(facts.call_id(&facts.calls[agent.call?]).to_owned());
    let calls = facts.calls.iter().map(|call| hash_of_id(facts.call_id(call))).collect();
    let digest = SidecarDigest::read(library, log);
    let started = |agent: &Subagent| {
        let bytes = *digest.agents.get(agent.path.as_ref()?)?;
        Some((facts.calls[agent.call?].node, bytes))
    };
    let mut started_at: FxHashMap<NodeId, u64> = FxHashMap::default();
    for (node, bytes) in agents.iter().filter_map(started) {
        *started_at.entry(node).or_default() += bytes;
    }
    let weights = log.path_bytes_by_step(|node| started_at.get(&node).copied().unwrap_or(0));
    let agent_bytes: u64 = digest.agents.values().sum();
    Ok(Survey {
        header: SessionHeader::new(session, &loaded.source.file),
        bytes: log.bytes,
        log_hash: log.hash,
        hash: digest.hash,
        path_bytes: paths.iter().map(|summary| weights[summary.path.step]).collect(),
        sizes: (digest.results, log.bytes + agent_bytes + digest.results),
        agent_calls: agents.iter().map(call_id).collect(),
        calls,
        auxiliary: false,
        branchings: session.branch_points(&of_paths),
        roots: of_paths_roots,
        fingerprint: SessionFingerprint::new(
            session,
            log.content_keys()?,
            paths.iter().map(ending).collect(),
        ),
        restamped: log.restamped()?,
        title_in_file: titled,
        first_prompt: session.facts.first_prompt.clone().unwrap_or_default(),
        span: session.facts.time_span,
        resume_dir: resume_dir_in(&loaded.source.file, facts),
        forked_from: session.facts.forked_from.clone(),
        agents,
        missing_parents: wanted,
        paths,
        source: loaded.source.clone(),
        log: None,
    })
}

fn hash_of_id(id: &str) -> u64 {
    xxh3_64(id.as_bytes())
}

/// The sidecars of a session that are shown in its documents.
struct SidecarDigest {
    /// Hash of the log and all sidecars.
    hash: u128,
    /// The size of each subagent's log.
    agents: FxHashMap<PathBuf, u64>,
    /// Bytes of large results.
    results: u64,
}

impl SidecarDigest {
    fn read(library: &Library, log: &ExportLog) -> Self {
        let mut digest = Self { hash: 0, agents: FxHashMap::default(), results: 0 };
        let mut hashes: Vec<u8> = log.hash.to_le_bytes().to_vec();
        let name = |path: &ConfinedPath| {
            xxh3_64(path.relative().file_name().unwrap_or_default().as_encoded_bytes()).to_le_bytes()
        };
        let mut look = |path: &ConfinedPath| {
            hashes.extend_from_slice(&name(path));
            let Ok(FileStat { bytes: size, modified, .. }) = path.stat() else { return 0 };
            let time = modified.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
            hashes.extend_from_slice(&size.to_le_bytes());
            hashes.extend_from_slice(&time.map_or(0, |t| t.as_nanos()).to_le_bytes());
            size
        };
        let agents = library.agents_of(&log.loaded.source);
        for file in &agents {
            look(&file.confined_path().with_extension("meta.json"));
        }
        for dir in log.loaded.result_dirs(&log.result_dirs) {
            digest.results += dir.files(library.skips()).iter().map(&mut look).sum::<u64>();
        }
        for file in agents {
            let log = file.confined_path();
            hashes.extend_from_slice(&name(&log));
            // A log that cannot be read is treated as empty.
            let (bytes, hash) = hash_file(&log).map_or((0, 0), |read| (read.bytes, read.hash));
            hashes.extend_from_slice(&hash.to_le_bytes());
            digest.agents.insert(file.path, bytes);
        }
        digest.hash = xxh3_128(&hashes);
        digest
    }
}
