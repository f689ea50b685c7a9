//! Transcripts of many sessions in a directory.
//!
//! Two passes. The first reads every session and keeps a sketch of it: then it is known which paths
//! are held by others, what goes on from where, and what each document is called. The second reads
//! again what has changed and writes it, a session at a time on each core.

mod output;
mod survey;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rayon::prelude::*;
use rethread_log::Json;
use rethread_model::{Client, Item, MessageKind, PathId, Time, Usage, one_line};
use rethread_render::{
    Agent, Branch, Document, Format, Head, Part, Side, SubagentRow, TranscriptRow, fit, index, write_document,
};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use self::output::{Output, Record, Row, safe_name};
use self::survey::{Before, Survey, Surveys};
use crate::library::{Library, Source};
use crate::session::{Loaded, Subagent};

/// Grows when documents are written differently, so that those of an older program are written again.
const REVISION: u32 = 1;
/// The directory of what subagents did.
const SUBAGENTS: &str = "subagents";
/// The directory of pictures.
const IMAGES: &str = "images";
/// How many paths before and after its own a document lists.
const AROUND: usize = 50;

/// What to write, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// As what.
    pub format: Format,
    /// Which paths.
    pub paths: PathChoice,
    /// Write paths that others hold too.
    pub all_copies: bool,
    /// Write of an abandoned path only what follows the fork.
    pub from_fork: bool,
    /// Show pictures.
    pub pictures: bool,
    /// Show thinking.
    pub thinking: bool,
    /// The client whose rule tells which path is active.
    pub client: Client,
    /// Write into a directory that holds other files, and over documents that somebody changed.
    pub force: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: Format::Md,
            paths: PathChoice::All,
            all_copies: false,
            from_fork: false,
            pictures: true,
            thinking: true,
            client: Client::NEWEST,
            force: false,
        }
    }
}

/// Which paths of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// All that are not held by others.
    #[default]
    All,
    /// The one that the client would resume.
    Active,
    /// The one with this number.
    Number(usize),
}

/// What was written.
#[derive(Debug, Default)]
pub struct Exported {
    /// The directory.
    pub dir: PathBuf,
    /// The paths: written, unchanged, or left out and held by another.
    pub transcripts: Vec<TranscriptRow>,
    /// The documents of subagents.
    pub subagents: Vec<SubagentRow>,
    /// How many documents were written now.
    pub written: usize,
    /// How many were there already.
    pub unchanged: usize,
    /// How many of an earlier export are no longer made and were removed.
    pub removed: usize,
    /// The index, if there is one.
    pub index: Option<PathBuf>,
    /// Sessions without anything said.
    pub silent: usize,
    /// Sessions that could not be read and documents that could not be written.
    pub errors: Vec<ExportError>,
}

/// Why something could not be exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A session could not be read.
    #[error(transparent)]
    Session(#[from] crate::Error),
    /// The directory holds something else.
    #[error("{} holds other files, such as {}", .dir.display(), .found.file_name().unwrap_or_default().display())]
    ForeignDirectory {
        /// The directory.
        dir: PathBuf,
        /// One of them.
        found: PathBuf,
    },
    /// A file that is not ours has the name of a document.
    #[error("{} is there already and was not made by this export", .path.display())]
    ForeignFile {
        /// Which.
        path: PathBuf,
    },
    /// A document was changed after it was written.
    #[error("{} was changed since it was exported", .path.display())]
    Changed {
        /// Which.
        path: PathBuf,
    },
    /// The note of what was exported cannot be understood.
    #[error("{} does not say what was exported", .path.display())]
    BrokenNote {
        /// Which.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A session has no path of this number.
    #[error("session {session} has no path {n}")]
    NoPath {
        /// Which session.
        session: String,
        /// The number.
        n: usize,
    },
}

impl ExportError {
    fn write(path: &Path, source: io::Error) -> Self {
        Self::Write { path: path.to_owned(), source }
    }
}

/// The documents of a session that are to be made.
struct Plan {
    session: usize,
    source: String,
    stem: String,
    documents: Vec<Planned>,
    agents: Vec<Planned>,
}

/// A document that is to be made.
struct Planned {
    /// Which path, or which subagent.
    index: usize,
    file: String,
    made_of: String,
    current: bool,
}

/// What a document says of its path beside the text.
struct Facts<'s> {
    survey: &'s Survey,
    before: Vec<Before>,
    /// The path that holds the beginning, if only what follows the fork is written.
    cut: Option<usize>,
}

impl Library {
    /// Writes transcripts of sessions into a directory. `progress` is told of each session twice: when
    /// it has been read and when its documents have been written.
    pub fn export(
        &self,
        sources: Vec<Source>,
        dir: &Path,
        options: &ExportOptions,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Exported, ExportError> {
        let mut output = Output::open(dir, options.force)?;
        // One path of many sessions, or the active ones, are asked for by name: no copy is left out.
        let all_copies = options.all_copies || options.paths != PathChoice::All;
        let mut surveys = Surveys::new(self, sources, options.client, all_copies, progress);
        let mut exported = Exported { dir: output.dir().to_owned(), ..Exported::default() };
        exported.errors.extend(std::mem::take(&mut surveys.errors).into_iter().map(ExportError::from));
        let export = Export { library: self, options, surveys: &surveys };
        let mut plans = export.plan(&output, &mut exported);
        let sources: FxHashSet<&str> = plans.iter().map(|plan| plan.source.as_str()).collect();
        let files = Files::new(&plans, output.transcripts_of_others(&sources));
        export.look_for_changes(&mut plans, &files, &output);
        let plans = plans;
        let claims: Vec<(String, Record)> = plans
            .iter()
            .flat_map(|plan| plan.documents.iter().chain(&plan.agents).map(move |planned| (plan, planned)))
            .filter(|(_, planned)| !planned.current)
            .map(|(plan, planned)| (planned.file.clone(), plan.record()))
            .collect();
        output.claim(&claims)?;
        // The largest first, so that no core waits for another at the end.
        let mut order: Vec<&Plan> = plans.iter().collect();
        order.sort_by_key(|plan| std::cmp::Reverse(surveys.sessions[plan.session].source.file.bytes));
        let done: Vec<Done> = order
            .into_par_iter()
            .with_max_len(1)
            .map(|plan| {
                let done = export.write(plan, &files, &output);
                progress(surveys.sessions[plan.session].source.file.bytes);
                done
            })
            .collect();
        for done in done {
            exported.written += done.written;
            exported.unchanged += done.unchanged;
            exported.errors.extend(done.errors);
            output.written(done.records);
        }
        exported.removed = export.remove_others(&mut output, &plans);
        export.report(&plans, &files, &output, &mut exported);
        let rows = output.rows();
        if rows.len() > 1 || output.path("index.html").exists() {
            self.write_index(&mut output, &rows, &mut exported)?;
        }
        output.save()?;
        Ok(exported)
    }

    fn write_index(
        &self,
        output: &mut Output,
        rows: &[rethread_render::IndexRow],
        exported: &mut Exported,
    ) -> Result<(), ExportError> {
        let mut text = Vec::new();
        index(&mut text, rows).map_err(|e| ExportError::write(&output.path("index.html"), e))?;
        let made_of = format!("{:032x}", xxh3_128(&text));
        if !output.is_current("index.html", &made_of) {
            output.claim(&[("index.html".into(), Record::default())])?;
            let hash = output.write("index.html", |out| out.write_all(&text))?;
            let record = Record { made_of: Some(made_of), hash: Some(hash), ..Record::default() };
            output.written(vec![("index.html".into(), record)]);
        }
        exported.index = Some(output.path("index.html"));
        Ok(())
    }
}

impl Plan {
    fn record(&self) -> Record {
        Record { source: self.source.clone(), stem: self.stem.clone(), ..Record::default() }
    }
}

/// What came of a session.
#[derive(Default)]
struct Done {
    written: usize,
    unchanged: usize,
    records: Vec<(String, Record)>,
    errors: Vec<ExportError>,
}

struct Export<'e> {
    library: &'e Library,
    options: &'e ExportOptions,
    surveys: &'e Surveys,
}

impl Export<'_> {
    /// Decides which documents there are to be and what they are called.
    fn plan(&self, output: &Output, exported: &mut Exported) -> Vec<Plan> {
        let surveys = &self.surveys.sessions;
        let asked: Vec<usize> = (0..surveys.len()).filter(|&i| !surveys[i].auxiliary).collect();
        let sources: Vec<(String, String)> = asked
            .iter()
            .map(|&i| {
                let file = &surveys[i].source.file;
                let path = std::path::absolute(&file.path).unwrap_or_else(|_| file.path.clone());
                (format!("{:016x}", xxh3_64(path.as_os_str().as_encoded_bytes())), file.id.clone())
            })
            .collect();
        let stems = output.stems(&sources);
        let mut plans: Vec<Plan> = Vec::with_capacity(asked.len());
        for ((session, (source, _)), stem) in asked.into_iter().zip(sources).zip(stems) {
            let survey = &surveys[session];
            exported.silent += usize::from(survey.paths.is_empty());
            let ending = self.options.format.ending();
            let document = |index: usize| Planned {
                index,
                file: document_name(&stem, survey, index, ending),
                made_of: String::new(),
                current: false,
            };
            let chosen = self.chosen(session, exported);
            let documents: Vec<Planned> = chosen.into_iter().map(document).collect();
            let agents = if documents.is_empty() { &[][..] } else { &survey.agents[..] };
            let agent = |index: usize| Planned {
                index,
                file: format!("{SUBAGENTS}/{stem}_{}.{ending}", agent_name(&survey.agents[index], index)),
                made_of: String::new(),
                current: false,
            };
            let agents = (0..agents.len()).map(agent).collect();
            plans.push(Plan { session, source, stem, documents, agents });
        }
        plans
    }

    /// Finds out which documents are there already as they would be written.
    fn look_for_changes(&self, plans: &mut [Plan], files: &Files, output: &Output) {
        plans.par_iter_mut().for_each(|plan| {
            let made_of = self.made_of(plan, files);
            let planned = plan.documents.iter_mut().chain(&mut plan.agents);
            for (planned, made_of) in planned.zip(made_of) {
                planned.current = output.is_current(&planned.file, &made_of);
                planned.made_of = made_of;
            }
        });
    }

    /// Returns the paths of a session that are to be written.
    fn chosen(&self, session: usize, exported: &mut Exported) -> Vec<usize> {
        let survey = &self.surveys.sessions[session];
        let all = 0..survey.paths.len();
        match self.options.paths {
            PathChoice::All => all.filter(|&i| self.surveys.held[session][i].is_none()).collect(),
            PathChoice::Active => all.filter(|&i| survey.paths[i].path.active).collect(),
            PathChoice::Number(n) => {
                let found: Vec<usize> = all.filter(|&i| survey.paths[i].n == n).collect();
                if found.is_empty() {
                    let session = survey.source.file.id.clone();
                    exported.errors.push(ExportError::NoPath { session, n });
                }
                found
            }
        }
    }

    /// Hashes everything that a document is made of.
    fn made_of(&self, plan: &Plan, files: &Files) -> Vec<String> {
        let survey = &self.surveys.sessions[plan.session];
        let options =
            format!("{REVISION} {} {:?} {}", env!("CARGO_PKG_VERSION"), self.options, files.with_index);
        let spell = |facts: String| format!("{:032x}", xxh3_128(facts.as_bytes()));
        let documents = plan.documents.iter().map(|planned| {
            let before: Vec<(u128, usize)> = self
                .surveys
                .before(plan.session, planned.index)
                .iter()
                .map(|before| (self.surveys.sessions[before.session].hash, before.step))
                .collect();
            let branches = self.branches(plan.session, planned.index, files);
            let title = &survey.titled.title.text;
            spell(format!("{options} {:x} {before:x?} {title} {} {branches:?}", survey.hash, planned.index))
        });
        let agents =
            plan.agents.iter().map(|planned| spell(format!("{options} {:x} {}", survey.hash, planned.index)));
        documents.chain(agents).collect()
    }

    /// Lists the paths of a session with their documents: of thousands those around `path`.
    fn branches(&self, session: usize, path: usize, files: &Files) -> Vec<Branch> {
        let survey = &self.surveys.sessions[session];
        if survey.paths.len() < 2 {
            return Vec::new();
        }
        let branch = |i: usize| {
            let row = &survey.paths[i];
            let branching = survey.branchings[i];
            let id = PathId { session, path: i };
            Branch {
                n: row.n,
                active: row.path.active,
                file: files.of(self.surveys, id).cloned(),
                fork: branching.and_then(|b| b.message),
                from: branching.map(|b| survey.paths[b.of].n),
                messages: (row.messages, branching.map_or(0, |b| b.messages_before)),
                last_prompt: row.last_prompt.as_deref().map(|words| fit(words, 100)).unwrap_or_default(),
            }
        };
        let end = survey.paths.len().min(path + AROUND + 1);
        (path.saturating_sub(AROUND)..end).map(branch).collect()
    }

    /// Writes what is not there yet of a session.
    fn write(&self, plan: &Plan, files: &Files, output: &Output) -> Done {
        let mut done = Done::default();
        let survey = &self.surveys.sessions[plan.session];
        let all = || plan.documents.iter().chain(&plan.agents);
        for planned in all().filter(|planned| planned.current) {
            done.unchanged += 1;
            done.records.push((planned.file.clone(), output.record(&planned.file)));
        }
        if all().all(|planned| planned.current) {
            return done;
        }
        let _turn = survey.source.turn();
        if let Err(error) = self.write_session(plan, files, output, &mut done) {
            done.errors.push(error);
        }
        done
    }

    fn write_session(
        &self,
        plan: &Plan,
        files: &Files,
        output: &Output,
        done: &mut Done,
    ) -> Result<(), ExportError> {
        let surveys = &self.surveys.sessions;
        let survey = &surveys[plan.session];
        let loaded = self.library.load(&survey.source)?;
        let gathered = Gathered::new(self.library, &survey.agents);
        let agents = gathered.agents(&loaded, plan);
        let pictures = Pictures { output, plan, made: Mutex::default() };
        let mut earlier: FxHashMap<usize, Loaded> = FxHashMap::default();
        for planned in plan.documents.iter().filter(|planned| !planned.current) {
            for before in self.surveys.before(plan.session, planned.index) {
                if let std::collections::hash_map::Entry::Vacant(place) = earlier.entry(before.session) {
                    place.insert(self.library.load(&surveys[before.session].source)?);
                }
            }
        }
        for planned in plan.documents.iter().filter(|planned| !planned.current) {
            let branching = survey.branchings[planned.index];
            let row = &survey.paths[planned.index];
            let cut = branching.filter(|_| self.options.from_fork && !row.path.active);
            let facts = Facts {
                survey,
                before: if cut.is_some() {
                    Vec::new()
                } else {
                    self.surveys.before(plan.session, planned.index)
                },
                cut: cut.map(|cut| cut.of),
            };
            let mut parts: Vec<Part<'_>> = Vec::new();
            for (i, before) in facts.before.iter().enumerate() {
                let loaded = &earlier[&before.session];
                parts.push(Part {
                    session: &loaded.source.file.id,
                    prefix: format!("e{}-", i + 1),
                    items: loaded.reader().items(before.step),
                    side: side(loaded, FxHashMap::default()),
                });
            }
            parts.push(Part {
                session: &loaded.source.file.id,
                prefix: String::new(),
                items: loaded.reader().items_after(row.path.step, cut.map(|cut| cut.step)),
                side: side(&loaded, gathered.calls_of(None)),
            });
            let mut head = facts.head(row, &parts);
            head.index = files.with_index;
            head.branches = self.branches(plan.session, planned.index, files);
            let holder = facts.cut.map(|of| PathId { session: plan.session, path: of });
            head.begins_in = holder.and_then(|of| files.of(self.surveys, of).cloned());
            let record = facts.record(&head);
            let record = Record { row: Some(record), ..plan.record() };
            let write = Writing { head: &head, parts: &parts, agents: &agents, pictures: &pictures, record };
            self.write_document(planned, write, output, done);
        }
        for planned in plan.agents.iter().filter(|planned| !planned.current) {
            let agent = &agents[planned.index];
            let head = agent_head(survey, agent, plan, files.with_index);
            let part = gathered.part(&loaded, planned.index, String::new());
            let parts = std::slice::from_ref(&part);
            let write =
                Writing { head: &head, parts, agents: &agents, pictures: &pictures, record: plan.record() };
            self.write_document(planned, write, output, done);
        }
        done.records.extend(pictures.made.into_inner().unwrap_or_default());
        Ok(())
    }

    fn write_document(&self, planned: &Planned, writing: Writing<'_>, output: &Output, done: &mut Done) {
        let picture = |media: &str, bytes: &[u8]| writing.pictures.write(media, bytes);
        let document = Document {
            head: writing.head,
            parts: writing.parts,
            agents: writing.agents,
            picture: &picture,
            pictures: self.options.pictures,
            thinking: self.options.thinking,
        };
        match output.write(&planned.file, |out| write_document(out, &document, self.options.format)) {
            Ok(hash) => {
                done.written += 1;
                let made_of = Some(planned.made_of.clone());
                done.records
                    .push((planned.file.clone(), Record { made_of, hash: Some(hash), ..writing.record }));
            }
            Err(error) => done.errors.push(error),
        }
    }

    /// Removes what earlier exports made of these sessions in this format and what is not made now.
    fn remove_others(&self, output: &mut Output, plans: &[Plan]) -> usize {
        if self.options.paths != PathChoice::All {
            return 0;
        }
        let made: FxHashSet<&str> = plans
            .iter()
            .flat_map(|plan| plan.documents.iter().chain(&plan.agents))
            .map(|planned| planned.file.as_str())
            .collect();
        let ending = format!(".{}", self.options.format.ending());
        let sources: FxHashSet<&str> = plans.iter().map(|plan| plan.source.as_str()).collect();
        output.remove_others(&sources, |file| made.contains(file) || !file.ends_with(&ending))
    }

    /// Says what became of each path.
    fn report(&self, plans: &[Plan], files: &Files, output: &Output, exported: &mut Exported) {
        let show = |file: &str| output.path(file).to_string_lossy().into_owned();
        for plan in plans {
            let survey = &self.surveys.sessions[plan.session];
            for (i, row) in survey.paths.iter().enumerate() {
                let planned = plan.documents.binary_search_by_key(&i, |planned| planned.index);
                let planned = planned.ok().map(|at| &plan.documents[at]);
                let id = PathId { session: plan.session, path: i };
                let skipped_as = self.surveys.held[plan.session].get(i).copied().flatten();
                if planned.is_none() && skipped_as.is_none() {
                    continue;
                }
                let before: u32 =
                    self.surveys.before(plan.session, i).iter().map(|before| before.counts.0).sum();
                exported.transcripts.push(TranscriptRow {
                    r#type: "transcript",
                    session: survey.source.file.id.clone(),
                    path_n: row.n,
                    paths: survey.paths.len(),
                    status: row.status,
                    title: survey.titled.title.text.clone(),
                    file: planned.map(|planned| show(&planned.file)),
                    messages: row.messages + before,
                    unchanged: planned.is_some_and(|planned| planned.current),
                    skipped_as: skipped_as.and_then(|_| files.of(self.surveys, id)).map(|file| show(file)),
                });
            }
            for planned in &plan.agents {
                exported.subagents.push(SubagentRow {
                    r#type: "subagent",
                    session: survey.source.file.id.clone(),
                    agent: agent_name(&survey.agents[planned.index], planned.index),
                    file: show(&planned.file),
                    unchanged: planned.current,
                });
            }
        }
    }
}

/// What one document is written of.
struct Writing<'d> {
    head: &'d Head,
    parts: &'d [Part<'d>],
    agents: &'d [Agent<'d>],
    pictures: &'d Pictures<'d>,
    record: Record,
}

/// The documents of paths.
struct Files {
    by_path: FxHashMap<PathId, String>,
    /// There is an index of them.
    with_index: bool,
}

impl Files {
    /// Names the documents; so many others are in the directory already.
    fn new(plans: &[Plan], others: usize) -> Self {
        let mut by_path = FxHashMap::default();
        for plan in plans {
            for planned in &plan.documents {
                by_path.insert(PathId { session: plan.session, path: planned.index }, planned.file.clone());
            }
        }
        Self { with_index: others + by_path.len() > 1, by_path }
    }

    /// Returns the document of a path: its own, or that of the path that holds it.
    fn of(&self, surveys: &Surveys, path: PathId) -> Option<&String> {
        self.by_path.get(&path).or_else(|| {
            let holder = surveys.held.get(path.session)?.get(path.path).copied().flatten()?;
            self.by_path.get(&holder)
        })
    }
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

fn agent_name(agent: &Subagent, index: usize) -> String {
    match agent.path.as_deref().and_then(Path::file_stem) {
        // The same name can lie in several directories of one session.
        Some(stem) => format!("{}_{}", index + 1, safe_name(&stem.to_string_lossy())),
        None => format!("{}_inline", index + 1),
    }
}

/// The subagents of a session, read.
struct Gathered<'a> {
    agents: Vec<Gathering<'a>>,
}

struct Gathering<'a> {
    subagent: &'a Subagent,
    /// Its own log, if it has one.
    loaded: Option<Loaded>,
    /// The subagent whose call started it, if it was not the session itself.
    of: Option<usize>,
    call: Option<usize>,
}

impl<'a> Gathered<'a> {
    fn new(library: &Library, subagents: &'a [Subagent]) -> Self {
        let load = |subagent: &'a Subagent| {
            let file = subagent.path.as_deref().and_then(|p| rethread_store::SessionFile::at(p).ok());
            let loaded = file.and_then(|file| library.load(&file.into()).ok());
            Gathering { subagent, loaded, of: None, call: subagent.call }
        };
        let mut agents: Vec<Gathering<'a>> = subagents.iter().map(load).collect();
        // What no call of the session started was started by another subagent.
        for i in 0..agents.len() {
            if agents[i].call.is_some() {
                continue;
            }
            let Some(path) = &agents[i].subagent.path else { continue };
            let found =
                agents.iter().enumerate().filter(|(other, _)| *other != i).find_map(|(other, agent)| {
                    Some((other, agent.loaded.as_ref()?.call_that_started(path)?))
                });
            if let Some((other, call)) = found {
                agents[i].of = Some(other);
                agents[i].call = Some(call);
            }
        }
        Self { agents }
    }

    /// Returns the subagents that the session itself started, or that a subagent did, by call.
    fn calls_of(&self, of: Option<usize>) -> FxHashMap<usize, Vec<usize>> {
        let mut calls: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
        for (i, agent) in self.agents.iter().enumerate() {
            if let Some(call) = agent.call.filter(|_| agent.of == of) {
                calls.entry(call).or_default().push(i);
            }
        }
        calls
    }

    /// Returns what a subagent said and did.
    fn part<'p>(&'p self, session: &'p Loaded, index: usize, prefix: String) -> Part<'p> {
        let agent = &self.agents[index];
        let log = agent.loaded.as_ref().unwrap_or(session);
        let items = match (&agent.loaded, agent.subagent.root) {
            (Some(loaded), _) => loaded.reader().side_items(None),
            (None, Some(root)) => session.reader().side_items(Some(root)),
            (None, None) => Vec::new(),
        };
        Part { session: &log.source.file.id, prefix, items, side: side(log, self.calls_of(Some(index))) }
    }

    fn agents<'p>(&'p self, session: &'p Loaded, plan: &Plan) -> Vec<Agent<'p>> {
        let agent = |index: usize| {
            let part = self.part(session, index, format!("a{}-", index + 1));
            Agent {
                name: agent_name(self.agents[index].subagent, index),
                file: plan.agents[index].file.clone(),
                messages: part.items.iter().filter(|item| matches!(item, Item::Message(_))).count(),
                part,
            }
        };
        (0..plan.agents.len()).map(agent).collect()
    }
}

fn side<'a>(loaded: &'a Loaded, agents: FxHashMap<usize, Vec<usize>>) -> Side<'a> {
    Side { agents, whole_result: Some(Box::new(|text: &str| loaded.whole_result(text))) }
}

impl Facts<'_> {
    fn head(&self, row: &rethread_render::PathRow, parts: &[Part<'_>]) -> Head {
        let sums = Sums::new(parts);
        let survey = self.survey;
        let sum = |of: fn(&Before) -> u32| self.before.iter().map(of).sum::<u32>();
        let cut = self.cut.is_some();
        Head {
            session: survey.source.file.id.clone(),
            title: survey.titled.title.text.clone(),
            project: survey.project.clone(),
            agent: None,
            parent: None,
            path: (row.n, survey.paths.len()),
            active: row.path.active,
            fork: row.fork_point.clone().map(|uuid| (uuid, row.fork_message)),
            begins_in: None,
            compactions: if cut { sums.compactions } else { row.compactions + sum(|b| b.counts.2) },
            messages: if cut { sums.messages } else { row.messages + sum(|b| b.counts.0) },
            turns: if cut { sums.turns } else { row.turns + sum(|b| b.counts.1) },
            span: sums.span,
            models: sums.models,
            versions: survey.versions.clone(),
            git_branch: survey.git_branch.clone(),
            usage: sums.usage,
            branches: Vec::new(),
            defects: survey.defects.clone(),
            up: "",
            index: false,
        }
    }

    fn record(&self, head: &Head) -> Row {
        Row {
            session: head.session.clone(),
            title: head.title.clone(),
            project: head.project.clone(),
            prompt: one_line(&self.survey.first_prompt).chars().take(200).collect(),
            path: head.path,
            active: head.active,
            time: head.span.1.to_iso().or_else(|| self.survey.span.and_then(|(_, last)| last.to_iso())),
            turns: head.turns,
            messages: head.messages,
        }
    }
}

fn agent_head(survey: &Survey, agent: &Agent<'_>, plan: &Plan, index: bool) -> Head {
    let active = |planned: &&Planned| survey.paths[planned.index].path.active;
    let parent = plan.documents.iter().find(active).or(plan.documents.last());
    let sums = Sums::new(std::slice::from_ref(&agent.part));
    let first = agent.part.items.iter().find_map(|item| match item {
        Item::Message(message) if message.kind == MessageKind::Prompt => {
            message.blocks.first().map(|block| one_line(&block.text().chars().take(400).collect::<String>()))
        }
        _ => None,
    });
    Head {
        session: survey.source.file.id.clone(),
        title: first.unwrap_or_else(|| agent.name.clone()).chars().take(120).collect(),
        project: survey.project.clone(),
        agent: Some(agent.name.clone()),
        parent: parent.map(|planned| planned.file.clone()),
        path: (1, 1),
        active: true,
        messages: sums.messages,
        turns: sums.turns,
        compactions: sums.compactions,
        span: sums.span,
        models: sums.models,
        versions: survey.versions.clone(),
        usage: sums.usage,
        up: "../",
        index,
        ..Head::default()
    }
}

/// Sums over the items of a document, each message once.
#[derive(Default)]
struct Sums {
    messages: u32,
    turns: u32,
    compactions: u32,
    span: (Time, Time),
    models: Vec<String>,
    usage: Usage,
}

impl Sums {
    fn new(parts: &[Part<'_>]) -> Self {
        let mut sums = Self::default();
        for item in parts.iter().flat_map(|part| &part.items) {
            let time = match item {
                Item::Message(message) => {
                    sums.messages += 1;
                    sums.turns += u32::from(message.kind == MessageKind::Prompt);
                    if let Some(usage) = message.usage {
                        sums.usage += usage;
                    }
                    let model = message.model.filter(|model| *model != "<synthetic>");
                    if let Some(model) = model.filter(|model| !sums.models.iter().any(|known| known == model))
                    {
                        sums.models.push(model.to_owned());
                    }
                    message.time
                }
                Item::Note(note) => {
                    sums.compactions += u32::from(note.kind == "compaction");
                    note.time
                }
            };
            if !time.is_none() {
                sums.span.0 = if sums.span.0.is_none() { time } else { sums.span.0.min(time) };
                sums.span.1 = sums.span.1.max(time);
            }
        }
        sums
    }
}

/// Writes pictures beside the documents, each once.
struct Pictures<'o> {
    output: &'o Output,
    plan: &'o Plan,
    made: Mutex<Vec<(String, Record)>>,
}

impl Pictures<'_> {
    fn write(&self, media: &str, bytes: &[u8]) -> io::Result<String> {
        let ending = match media {
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/gif" => "gif",
            _ => "webp",
        };
        // Named by what is in it: a picture that is shown twice is one file.
        let made_of = format!("{:032x}", xxh3_128(bytes));
        let file = format!("{IMAGES}/{}.{ending}", &made_of[..20]);
        let mut made = self.made.lock().map_err(|_| io::Error::other("a writer failed"))?;
        if made.iter().any(|(name, _)| *name == file) || self.output.is_picture(&file, bytes)? {
            return Ok(file);
        }
        let hash = self.output.write(&file, |out| out.write_all(bytes)).map_err(io::Error::other)?;
        let record = Record { made_of: Some(made_of), hash: Some(hash), ..self.plan.record() };
        made.push((file.clone(), record));
        Ok(file)
    }
}

/// Reads the id of the call that a subagent's note beside its log names.
pub(crate) fn tool_use_id_beside(log: &Path) -> Option<String> {
    let meta = std::fs::read(log.with_extension("meta.json")).ok().filter(|m| m.len() < 1 << 20)?;
    Some(Json::new(&meta).get("toolUseId")?.as_str()?.into_owned())
}
