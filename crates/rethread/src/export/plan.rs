//! Which documents there are to be, what they are called, and which of them are there already.

use rayon::prelude::*;
use rethread_model::PathId;
use rethread_render::{Branch, fit};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::agents::name_of;
use super::output::{Output, Record};
use super::survey::{Survey, Surveys};
use super::{ExportError, ExportOptions, Exported, PathChoice, REVISION};

/// The directory of what subagents did.
const SUBAGENTS: &str = "subagents";
/// How many paths before and after its own a document lists; fewer if paths begin at their forks, for then there
/// are many.
const AROUND: usize = 50;
const AROUND_AT_FORKS: usize = 4;
/// The documents of a session are written in full if they show at most so many times the bytes that the session has,
/// and a little more.
const MAX_TIMES: u64 = 8;
const ALWAYS: u64 = 4 << 20;

/// The documents of a session that are to be made.
pub(super) struct Plan {
    pub(super) session: usize,
    pub(super) source: String,
    pub(super) stem: String,
    pub(super) documents: Vec<Planned>,
    pub(super) agents: Vec<Planned>,
    /// Abandoned paths begin at their forks, for all of them in full would be too much.
    pub(super) at_forks: bool,
}

/// A document that is to be made.
pub(super) struct Planned {
    /// Which path, or which subagent.
    pub(super) index: usize,
    pub(super) file: String,
    pub(super) made_of: String,
    /// It is there already as it would be written.
    pub(super) current: bool,
    /// Somebody else has the name, or changed the document.
    pub(super) refused: bool,
}

impl Planned {
    fn new(index: usize, file: String) -> Self {
        Self { index, file, made_of: String::new(), current: false, refused: false }
    }

    /// Tells whether it is to be written.
    pub(super) fn is_due(&self) -> bool {
        !self.current && !self.refused
    }
}

impl Plan {
    pub(super) fn record(&self) -> Record {
        Record { source: self.source.clone(), stem: self.stem.clone(), ..Record::default() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Planned> {
        self.documents.iter().chain(&self.agents)
    }
}

/// The names of all documents.
pub(super) struct Files {
    by_path: FxHashMap<PathId, String>,
    pub(super) agents: FxHashMap<(usize, usize), String>,
    /// There is an index of them.
    pub(super) with_index: bool,
}

impl Files {
    /// Names the documents; so many others are in the directory already.
    pub(super) fn new(plans: &[Plan], others: usize) -> Self {
        let mut files =
            Self { by_path: FxHashMap::default(), agents: FxHashMap::default(), with_index: false };
        for plan in plans {
            for planned in &plan.documents {
                let id = PathId { session: plan.session, path: planned.index };
                files.by_path.insert(id, planned.file.clone());
            }
            for planned in &plan.agents {
                files.agents.insert((plan.session, planned.index), planned.file.clone());
            }
        }
        files.with_index = others + files.by_path.len() > 1;
        files
    }

    /// Returns the document of a path itself.
    pub(super) fn own(&self, path: PathId) -> Option<&String> {
        self.by_path.get(&path)
    }

    /// Returns the document of a path: its own, or that of the path that holds it.
    pub(super) fn of(&self, surveys: &Surveys, path: PathId) -> Option<&String> {
        self.own(path).or_else(|| self.own(surveys.holder(path)?))
    }
}

/// Decides which documents there are to be and what they are called.
pub(super) fn plan(
    surveys: &Surveys,
    options: &ExportOptions,
    output: &Output,
    exported: &mut Exported,
) -> Vec<Plan> {
    let mut names = output.names();
    let mut plans = Vec::new();
    for (session, survey) in surveys.sessions.iter().enumerate().filter(|(_, s)| !s.auxiliary) {
        exported.silent += usize::from(survey.paths.is_empty());
        let source = source_of(survey);
        let stem = names.stem(&source, &survey.name, |stem| possible_names(survey, stem, options));
        let ending = options.format.ending();
        let chosen = chosen(surveys, options, session, exported);
        let held = (0..survey.paths.len()).any(|path| surveys.holder(PathId { session, path }).is_some());
        // What was started from a copy is found through the path that holds it; where nothing was said,
        // what subagents did is all there is.
        let with_agents = !chosen.is_empty() || held || survey.paths.is_empty();
        let document = |index: usize| Planned::new(index, document_name(&stem, survey, index, ending));
        let agent = |index: usize| Planned::new(index, agent_file(&stem, survey, index, ending));
        let agents = if with_agents { 0..survey.agents.len() } else { 0..0 };
        let at_forks = is_too_much(survey, &chosen);
        plans.push(Plan {
            session,
            at_forks,
            documents: chosen.into_iter().map(document).collect(),
            agents: agents.map(agent).collect(),
            source,
            stem,
        });
    }
    plans
}

/// Returns whether these paths of a session in full would be out of proportion to it, as those of a comb of forks
/// are. Up to eight paths never are: none shows more than the session has.
fn is_too_much(survey: &Survey, chosen: &[usize]) -> bool {
    let (results, all) = survey.sizes;
    let shown = chosen.iter().map(|&path| survey.weights[path].saturating_add(results));
    shown.fold(0, u64::saturating_add) > MAX_TIMES.saturating_mul(all).saturating_add(ALWAYS)
}

/// Where a document begins, if not at the beginning of its path.
pub(super) struct Cut {
    /// The last step that is in the other document.
    pub(super) step: usize,
    /// The document that has the beginning, and the number of the last message there if it is of this session.
    pub(super) begins_in: (String, Option<usize>),
}

/// Finds where the document of a path begins. The beginning is left out only where another document has it.
pub(super) fn cut(
    surveys: &Surveys,
    options: &ExportOptions,
    plan: &Plan,
    path: usize,
    files: &Files,
) -> Option<Cut> {
    let survey = &surveys.sessions[plan.session];
    let wanted = options.from_fork || plan.at_forks;
    let branching = survey.branchings[path].filter(|_| wanted && !survey.paths[path].path.active)?;
    let of = PathId { session: plan.session, path: branching.of };
    let own = files.own(of).map(|file| (file.clone(), branching.message));
    // The path that it leaves may be a copy that another session's document holds.
    let other = || Some((files.of(surveys, of).filter(|_| plan.at_forks)?.clone(), None));
    Some(Cut { step: branching.step, begins_in: own.or_else(other)? })
}

/// Tells sources apart by where they are; what is piped in, by what it says it is.
fn source_of(survey: &Survey) -> String {
    let file = &survey.source.file;
    let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
    let name = if survey.source.bytes.is_some() { survey.name.as_str() } else { "" };
    let path = [path.as_os_str().as_encoded_bytes(), name.as_bytes()].concat();
    format!("{:016x}", xxh3_64(&path))
}

/// Returns all names that documents of a session can have in this format.
pub(super) fn possible_names(survey: &Survey, stem: &str, options: &ExportOptions) -> Vec<String> {
    let ending = options.format.ending();
    let documents = (0..survey.paths.len()).map(|i| document_name(stem, survey, i, ending));
    documents.chain((0..survey.agents.len()).map(|i| agent_file(stem, survey, i, ending))).collect()
}

/// `transcript_{id}.md`, or with several paths `…_path1_abandoned.md` and `…_path2.md`.
fn document_name(stem: &str, survey: &Survey, index: usize, ending: &str) -> String {
    let row = &survey.paths[index];
    if survey.paths.len() == 1 {
        return format!("transcript_{stem}.{ending}");
    }
    let status = if row.path.active { "" } else { "_abandoned" };
    format!("transcript_{stem}_path{}{status}.{ending}", row.n)
}

fn agent_file(stem: &str, survey: &Survey, index: usize, ending: &str) -> String {
    format!("{SUBAGENTS}/{stem}_{}.{ending}", name_of(&survey.agents[index], index))
}

/// Returns the paths of a session that are to be written.
fn chosen(surveys: &Surveys, options: &ExportOptions, session: usize, exported: &mut Exported) -> Vec<usize> {
    let survey = &surveys.sessions[session];
    let kept = |&path: &usize| surveys.holder(PathId { session, path }).is_none();
    let all = (0..survey.paths.len()).filter(kept);
    match options.paths {
        PathChoice::All => all.collect(),
        PathChoice::Active => all.filter(|&i| survey.paths[i].path.is_current()).collect(),
        PathChoice::Number(n) => {
            let found: Vec<usize> = all.filter(|&i| survey.paths[i].n == n).collect();
            if found.is_empty() {
                exported.errors.push(ExportError::NoPath { session: survey.name.clone(), n });
            }
            found
        }
    }
}

/// Finds out which documents are there already as they would be written, and which may not be.
pub(super) fn look_for_changes(
    plans: &mut [Plan],
    surveys: &Surveys,
    options: &ExportOptions,
    files: &Files,
    output: &Output,
) -> Vec<ExportError> {
    let refused: Vec<Vec<ExportError>> = plans
        .par_iter_mut()
        .map(|plan| {
            let made_of = made_of(plan, surveys, options, files);
            let mut refused = Vec::new();
            for (planned, made_of) in plan.documents.iter_mut().chain(&mut plan.agents).zip(made_of) {
                planned.current = output.is_current(&planned.file, &made_of);
                planned.made_of = made_of;
                if !planned.current
                    && let Err(error) = output.check(&planned.file)
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

/// Hashes everything that the documents of a session are made of.
fn made_of(plan: &Plan, surveys: &Surveys, options: &ExportOptions, files: &Files) -> Vec<String> {
    let survey = &surveys.sessions[plan.session];
    let ExportOptions { format, from_fork, pictures, thinking, .. } = options;
    let how = format!(
        "{REVISION} {} {format:?} {from_fork} {pictures} {thinking} {}",
        env!("CARGO_PKG_VERSION"),
        files.with_index
    );
    let spell = |facts: String| format!("{:032x}", xxh3_128(facts.as_bytes()));
    // Subagents of another session are shown if they have documents.
    let of = |other: usize| (surveys.sessions[other].hash, files.agents.contains_key(&(other, 0)));
    let others: Vec<_> = surveys.starters(plan.session).into_iter().map(of).collect();
    let documents = plan.documents.iter().map(|planned| {
        let before = surveys.before(plan.session, planned.index);
        let before: Vec<_> = before.iter().map(|before| (of(before.session), before.step)).collect();
        let branches = branches(surveys, plan, planned.index, files);
        let begins = cut(surveys, options, plan, planned.index, files).map(|cut| cut.begins_in);
        let (title, hash) = (&survey.titled.title.text, survey.hash);
        let path = (planned.index, survey.paths[planned.index].status);
        spell(format!("{how} {hash:x} {before:x?} {others:x?} {title} {path:?} {branches:?} {begins:?}"))
    });
    let parents: Vec<&str> = plan.documents.iter().map(|planned| planned.file.as_str()).collect();
    let parents = xxh3_128(format!("{parents:?}").as_bytes());
    let agents =
        plan.agents.iter().map(|p| spell(format!("{how} {:x} {} {parents:x}", survey.hash, p.index)));
    documents.chain(agents).collect()
}

/// Lists the paths of a session with their documents: of thousands those around `path`.
pub(super) fn branches(surveys: &Surveys, plan: &Plan, path: usize, files: &Files) -> Vec<Branch> {
    let (session, around) = (plan.session, if plan.at_forks { AROUND_AT_FORKS } else { AROUND });
    let survey = &surveys.sessions[session];
    if survey.paths.len() < 2 {
        return Vec::new();
    }
    let branch = |i: usize| {
        let row = &survey.paths[i];
        let branching = survey.branchings[i];
        Branch {
            n: row.n,
            active: row.path.active,
            file: files.of(surveys, PathId { session, path: i }).cloned(),
            fork: branching.and_then(|b| b.message),
            from: branching.map(|b| survey.paths[b.of].n),
            messages: (row.messages, branching.map_or(0, |b| b.messages_before)),
            last_prompt: row.last_prompt.as_deref().map(|words| fit(words, 100)).unwrap_or_default(),
        }
    };
    let end = survey.paths.len().min(path + around + 1);
    (path.saturating_sub(around)..end).map(branch).collect()
}

/// Returns every name that documents of these sessions can have now.
pub(super) fn all_possible(plans: &[Plan], surveys: &Surveys, options: &ExportOptions) -> FxHashSet<String> {
    let of = |plan: &Plan| possible_names(&surveys.sessions[plan.session], &plan.stem, options);
    plans.iter().flat_map(of).collect()
}
