//! Decides which documents to write, their names, and which of them are up to date.

use std::collections::BTreeMap;

use rayon::prelude::*;
use rethread_model::{MessageNo, PathId, PathIndex, SessionIndex, SiblingPath, StepId};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::export_dir::{ExportDir, FileRecord};
use super::survey::{Survey, Surveys};
use super::{ExportError, ExportOptions, Exported, PathChoice, REVISION};
use crate::transcript::{LISTED_AROUND, near, sibling_paths, subagent_name};

/// The directory of subagent documents.
const SUBAGENTS: &str = "subagents";
/// Number of paths before and after its own that a document lists when paths begin at their forks; there can be
/// many.
const LISTED_AT_FORKS: usize = 4;
/// The documents of a session are written in full if they show at most this multiple of the session's bytes,
/// plus a small allowance.
const MAX_SIZE_FACTOR: u64 = 8;
const MIN_SIZE_LIMIT: u64 = 4 << 20;

/// The planned documents of a session.
pub(super) struct SessionPlan {
    pub(super) session: SessionIndex,
    pub(super) source: String,
    pub(super) stem: String,
    /// The documents of paths.
    pub(super) documents: BTreeMap<PathIndex, PlannedDocument>,
    /// The documents of all subagents, or none.
    pub(super) agents: Vec<PlannedDocument>,
    /// Abandoned paths begin at their forks, because all of them in full would be too large.
    pub(super) starts_at_forks: bool,
}

/// A planned document.
pub(super) struct PlannedDocument {
    pub(super) file: String,
    pub(super) input_hash: String,
    /// It already exists as it would be written.
    pub(super) is_current: bool,
    /// A foreign file has its name, or somebody changed the document.
    pub(super) refused: bool,
}

impl PlannedDocument {
    fn new(file: String) -> Self {
        Self { file, input_hash: String::new(), is_current: false, refused: false }
    }

    /// Returns whether it needs to be written.
    pub(super) fn needs_write(&self) -> bool {
        !self.is_current && !self.refused
    }
}

impl SessionPlan {
    pub(super) fn record(&self) -> FileRecord {
        FileRecord { source: self.source.clone(), stem: self.stem.clone(), ..FileRecord::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &PlannedDocument> {
        self.documents.values().chain(&self.agents)
    }
}

/// The file names of all documents.
pub(super) struct DocumentFiles {
    by_path: FxHashMap<PathId, String>,
    pub(super) agents: FxHashMap<(SessionIndex, usize), String>,
    /// There is an index of the documents.
    pub(super) with_index: bool,
}

impl DocumentFiles {
    /// Collects the names of the documents; `others` is the number of transcripts already in the directory.
    pub(super) fn new(plans: &[SessionPlan], others: usize) -> Self {
        let mut files =
            Self { by_path: FxHashMap::default(), agents: FxHashMap::default(), with_index: false };
        for plan in plans {
            for (&path, planned) in &plan.documents {
                let id = PathId { session: plan.session, path };
                files.by_path.insert(id, planned.file.clone());
            }
            for (index, planned) in plan.agents.iter().enumerate() {
                files.agents.insert((plan.session, index), planned.file.clone());
            }
        }
        files.with_index = others + files.by_path.len() > 1;
        files
    }

    /// Makes the names for a document that links to no others: its subagents have none.
    pub(super) fn without_links(surveys: &Surveys) -> Self {
        let agents = surveys.sessions.iter_enumerated().flat_map(|(session, survey)| {
            (0..survey.agents.len()).map(move |index| ((session, index), String::new()))
        });
        Self { by_path: FxHashMap::default(), agents: agents.collect(), with_index: false }
    }

    /// Returns the path's own document.
    pub(super) fn own_file(&self, path: PathId) -> Option<&String> {
        self.by_path.get(&path)
    }

    /// Returns the document of a path: its own, or that of the path that contains it.
    pub(super) fn file_of(&self, surveys: &Surveys, path: PathId) -> Option<&String> {
        self.own_file(path).or_else(|| self.own_file(surveys.containing_path(path)?))
    }
}

/// Decides which documents to write, and names them.
pub(super) fn plan(
    surveys: &Surveys,
    options: &ExportOptions,
    output: &ExportDir,
    exported: &mut Exported,
) -> Vec<SessionPlan> {
    let mut names = output.names();
    let mut plans = Vec::new();
    for (session, survey) in surveys.sessions.iter_enumerated().filter(|(_, s)| !s.auxiliary) {
        exported.empty_sessions += usize::from(survey.paths.is_empty());
        let source = source_of(survey);
        let title = &survey.title_in_file.title.text;
        let choices = options.names.stems(&survey.header.id, title, survey.span.map(|(first, _)| first));
        let stem = names.stem(&source, &choices, |stem| possible_names(survey, stem, options));
        let chosen = chosen(surveys, options, session, exported);
        let held =
            survey.paths.keys().any(|path| surveys.containing_path(PathId { session, path }).is_some());
        // Subagents of a copied path are reached through the path that contains it. In a session without
        // messages, subagents are the only content.
        let with_agents = !chosen.is_empty() || held || survey.paths.is_empty();
        let document =
            |path: PathIndex| (path, PlannedDocument::new(document_name(&stem, survey, path, options)));
        let agent = |index: usize| PlannedDocument::new(agent_file(&stem, survey, index, options));
        let agents = if with_agents { 0..survey.agents.len() } else { 0..0 };
        let at_forks = is_too_much(survey, &chosen);
        plans.push(SessionPlan {
            session,
            starts_at_forks: at_forks,
            documents: chosen.into_iter().map(document).collect(),
            agents: agents.map(agent).collect(),
            source,
            stem,
        });
    }
    plans
}

/// Plans the single document of a session that is not written to a directory.
pub(super) fn plan_one(surveys: &Surveys, options: &ExportOptions) -> Result<SessionPlan, ExportError> {
    let requested = surveys.sessions.iter_enumerated().find(|(_, survey)| !survey.auxiliary);
    let (session, survey) =
        requested.filter(|(_, s)| !s.paths.is_empty()).ok_or(ExportError::NoConversation)?;
    let mut exported = Exported::default();
    let chosen = chosen(surveys, options, session, &mut exported);
    if let Some(error) = exported.errors.pop() {
        return Err(error);
    }
    let [path] = chosen[..] else {
        return Err(ExportError::SeveralPaths { session: survey.header.id.clone(), paths: chosen.len() });
    };
    Ok(SessionPlan {
        session,
        source: source_of(survey),
        stem: String::new(),
        documents: [(path, PlannedDocument::new(String::new()))].into(),
        agents: Vec::new(),
        starts_at_forks: false,
    })
}

/// Returns whether these paths in full would be out of proportion to their session, as with many successive
/// forks. Up to eight paths never are: none shows more than the session contains.
fn is_too_much(survey: &Survey, chosen: &[PathIndex]) -> bool {
    let (results, all) = survey.sizes;
    let shown = chosen.iter().map(|&path| survey.path_bytes[path].saturating_add(results));
    shown.fold(0, u64::saturating_add) > MAX_SIZE_FACTOR.saturating_mul(all).saturating_add(MIN_SIZE_LIMIT)
}

/// The start of a document that does not begin at the root of its path.
pub(super) struct DocumentStart {
    /// The last step that is in the other document.
    pub(super) step: StepId,
    /// The document that contains the beginning, and the number of the last message there if it is of this
    /// session.
    pub(super) begins_in: (String, Option<MessageNo>),
}

/// Finds the start of a path's document. The beginning is omitted only if another document contains it.
pub(super) fn document_start(
    surveys: &Surveys,
    options: &ExportOptions,
    plan: &SessionPlan,
    path: PathIndex,
    files: &DocumentFiles,
) -> Option<DocumentStart> {
    let survey = &surveys.sessions[plan.session];
    let wanted = options.from_fork || plan.starts_at_forks;
    let branching = survey.branchings[path].filter(|_| wanted && !survey.paths[path].path.active)?;
    let of = PathId { session: plan.session, path: branching.other_path };
    let own = files.own_file(of).map(|file| (file.clone(), branching.message));
    // The path that it forks from may be a copy that is contained in another session's document.
    let other = || Some((files.file_of(surveys, of).filter(|_| plan.starts_at_forks)?.clone(), None));
    Some(DocumentStart { step: branching.step, begins_in: own.or_else(other)? })
}

/// Identifies a source by its path; piped input by its session id.
fn source_of(survey: &Survey) -> String {
    let file = &survey.source.file;
    let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    let name = if survey.source.bytes.is_some() { survey.header.id.as_str() } else { "" };
    let path = [path.as_os_str().as_encoded_bytes(), name.as_bytes()].concat();
    format!("{:016x}", xxh3_64(&path))
}

/// Returns all names that documents of a session can have in this format.
pub(super) fn possible_names(survey: &Survey, stem: &str, options: &ExportOptions) -> Vec<String> {
    let documents = survey.paths.keys().map(|path| document_name(stem, survey, path, options));
    documents.chain((0..survey.agents.len()).map(|i| agent_file(stem, survey, i, options))).collect()
}

/// Returns `transcript_{id}.md`, or with several paths `…_path1_abandoned.md` and `…_path2.md`.
fn document_name(stem: &str, survey: &Survey, path: PathIndex, options: &ExportOptions) -> String {
    let path = &survey.paths[path];
    let path = match (survey.paths.len(), path.path.active) {
        (1, _) => String::new(),
        (_, true) => format!("_path{}", path.n),
        (_, false) => format!("_path{}_abandoned", path.n),
    };
    format!("{}.{}", options.names.document(stem, &path), options.format.extension())
}

fn agent_file(stem: &str, survey: &Survey, index: usize, options: &ExportOptions) -> String {
    let name = subagent_name(&survey.agents[index], index);
    format!("{SUBAGENTS}/{stem}_{name}.{}", options.format.extension())
}

/// Returns the paths of a session to export.
fn chosen(
    surveys: &Surveys,
    options: &ExportOptions,
    session: SessionIndex,
    exported: &mut Exported,
) -> Vec<PathIndex> {
    let survey = &surveys.sessions[session];
    let kept = |&path: &PathIndex| surveys.containing_path(PathId { session, path }).is_none();
    let all = survey.paths.keys().filter(kept);
    match options.paths {
        PathChoice::All => all.collect(),
        PathChoice::Active => all.filter(|&i| survey.paths[i].path.is_current()).collect(),
        PathChoice::Number(n) => {
            let found: Vec<PathIndex> = all.filter(|&i| survey.paths[i].n == n).collect();
            if found.is_empty() {
                exported.errors.push(ExportError::NoPath { session: survey.header.id.clone(), n });
            }
            found
        }
    }
}

/// Marks documents that are up to date, and those that may not be written.
pub(super) fn mark_unchanged(
    plans: &mut [SessionPlan],
    surveys: &Surveys,
    options: &ExportOptions,
    files: &DocumentFiles,
    output: &ExportDir,
) -> Vec<ExportError> {
    let refused: Vec<Vec<ExportError>> = plans
        .par_iter_mut()
        .map(|plan| {
            let made_of = input_hashes(plan, surveys, options, files);
            let mut refused = Vec::new();
            for (planned, made_of) in plan.documents.values_mut().chain(&mut plan.agents).zip(made_of) {
                planned.is_current = output.is_current(&planned.file, &made_of);
                planned.input_hash = made_of;
                if !planned.is_current
                    && let Err(error) = output.ensure_writable(&planned.file)
                {
                    planned.refused = true;
                    refused.push(error);
                }
            }
            refused
        })
        .collect();
    refused.into_iter().flatten().collect()
}

/// Hashes all inputs of the documents of a session.
fn input_hashes(
    plan: &SessionPlan,
    surveys: &Surveys,
    options: &ExportOptions,
    files: &DocumentFiles,
) -> Vec<String> {
    let survey = &surveys.sessions[plan.session];
    let ExportOptions { format, from_fork, images: pictures, thinking, .. } = options;
    let options_text = format!(
        "{REVISION} {} {format:?} {from_fork} {pictures} {thinking} {}",
        env!("CARGO_PKG_VERSION"),
        files.with_index
    );
    let hash_hex = |facts: String| format!("{:032x}", xxh3_128(facts.as_bytes()));
    // Subagents of another session are shown if they have documents.
    let of = |other: SessionIndex| (surveys.sessions[other].hash, files.agents.contains_key(&(other, 0)));
    let others: Vec<_> = surveys.sessions_with_calls(plan.session).into_iter().map(of).collect();
    let resume = survey.resume_command(options);
    let documents = plan.documents.keys().map(|&path| {
        let before = surveys.predecessors_of(plan.session, path);
        let before: Vec<_> = before.iter().map(|before| (of(before.session), before.step)).collect();
        let siblings = siblings(surveys, plan, path, files);
        let begins = document_start(surveys, options, plan, path, files).map(|cut| cut.begins_in);
        let (title, hash) = (&survey.title_in_file.title.text, survey.hash);
        let path = (path.index(), survey.paths[path].status);
        hash_hex(format!(
            "{options_text} {hash:x} {before:x?} {others:x?} {title} {path:?} {siblings:?} {begins:?} {resume:?}"
        ))
    });
    let parents: Vec<&str> = plan.documents.values().map(|planned| planned.file.as_str()).collect();
    let parents = xxh3_128(format!("{parents:?}").as_bytes());
    let agents = 0..plan.agents.len();
    let agents =
        agents.map(|index| hash_hex(format!("{options_text} {:x} {index} {parents:x}", survey.hash)));
    documents.chain(agents).collect()
}

/// Returns the sessions whose text is needed to write the documents.
pub(super) fn sessions_to_read(plans: &[SessionPlan], surveys: &Surveys) -> FxHashSet<SessionIndex> {
    let mut needed = FxHashSet::default();
    for plan in plans.iter().filter(|plan| plan.all().any(PlannedDocument::needs_write)) {
        needed.insert(plan.session);
        for (&path, _) in plan.documents.iter().filter(|(_, planned)| planned.needs_write()) {
            let before = surveys.predecessors_of(plan.session, path);
            needed.extend(before.iter().map(|before| before.session));
        }
    }
    // Subagents inside the logs of other sessions are read for the calls that started them.
    let has_inline_agent =
        |session: &SessionIndex| surveys.sessions[*session].agents.iter().any(|agent| agent.root.is_some());
    let callers: Vec<SessionIndex> = needed
        .iter()
        .flat_map(|&session| surveys.sessions_with_calls(session))
        .filter(has_inline_agent)
        .collect();
    needed.extend(callers);
    needed
}

/// Lists the paths of a session and their documents; if there are very many, those near `path`.
pub(super) fn siblings(
    surveys: &Surveys,
    plan: &SessionPlan,
    path: PathIndex,
    files: &DocumentFiles,
) -> (Vec<SiblingPath>, Vec<Option<String>>) {
    let survey = &surveys.sessions[plan.session];
    let around = if plan.starts_at_forks { LISTED_AT_FORKS } else { LISTED_AROUND };
    let listed = near(path, survey.paths.len(), around);
    let paths = sibling_paths(&survey.paths, &survey.branchings, listed.clone());
    let file = |path: PathIndex| files.file_of(surveys, PathId { session: plan.session, path }).cloned();
    (paths, listed.map(file).collect())
}

/// Returns every name that documents of these sessions can have now.
pub(super) fn all_possible_names(
    plans: &[SessionPlan],
    surveys: &Surveys,
    options: &ExportOptions,
) -> FxHashSet<String> {
    let of = |plan: &SessionPlan| possible_names(&surveys.sessions[plan.session], &plan.stem, options);
    plans.iter().flat_map(of).collect()
}
