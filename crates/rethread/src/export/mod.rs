//! Exports transcripts of many sessions to a directory.
//!
//! Works in two passes. The first reads every session and keeps a fingerprint of it, to determine which paths
//! are contained in others, which sessions continue others, and the name of each document. The second reads
//! changed sessions again and writes their documents, one session at a time per core.

mod agents;
mod export_dir;
mod head;
mod images;
mod log;
mod plan;
mod survey;

use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rethread_model::{Client, PathId};
use rethread_render::{
    Document, DocumentPart, Format, ShownSidecars, SubagentRow, TranscriptRow, write_document, write_index,
};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use self::agents::{OwnSession, SubagentSet, call_sidecars};
use self::export_dir::{ExportDir, FileRecord};
use self::images::ImageWriter;
use self::log::ExportLog;
use self::plan::{DocumentFiles, PlannedDocument, SessionPlan};
use self::survey::Surveys;
use crate::library::{Library, LogSource};

/// Incremented when the output changes, so that documents by an older version are written again.
const REVISION: u32 = 4;

/// Options of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportOptions {
    /// The output format.
    pub format: Format,
    /// The paths to export.
    pub paths: PathChoice,
    /// Also write paths that are contained in others.
    pub all_copies: bool,
    /// Write only the part of an abandoned path after its fork.
    pub from_fork: bool,
    /// Show images.
    pub images: bool,
    /// Show thinking.
    pub thinking: bool,
    /// The client whose rules determine the active path.
    pub client: Client,
    /// Write into a directory that contains other files, and overwrite documents that somebody changed.
    pub force: bool,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: Format::Md,
            paths: PathChoice::All,
            all_copies: false,
            from_fork: false,
            images: true,
            thinking: true,
            client: Client::NEWEST,
            force: false,
        }
    }
}

/// The paths of a session to export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// All that are not contained in others.
    #[default]
    All,
    /// The path that the client would resume.
    Active,
    /// The path with this number.
    Number(usize),
}

/// The result of an export.
#[derive(Debug, Default)]
pub struct Exported {
    /// The directory.
    pub dir: PathBuf,
    /// The paths: written, unchanged, or skipped because another contains them.
    pub transcripts: Vec<TranscriptRow>,
    /// The documents of subagents.
    pub subagents: Vec<SubagentRow>,
    /// Number of documents written by this run.
    pub written: usize,
    /// Number of documents that were up to date.
    pub unchanged: usize,
    /// Number of obsolete documents of an earlier export that were removed.
    pub removed: usize,
    /// The index, if there is one.
    pub index: Option<PathBuf>,
    /// Number of sessions without messages.
    pub empty_sessions: usize,
    /// Sessions that could not be read and documents that could not be written.
    pub errors: Vec<ExportError>,
}

/// An error while exporting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A session could not be read.
    #[error(transparent)]
    Session(#[from] crate::Error),
    /// The directory contains other files.
    #[error("{} contains other files, such as {}", .dir.display(), .found.file_name().unwrap_or_default().display())]
    ForeignDirectory {
        /// The directory.
        dir: PathBuf,
        /// One of these files.
        found: PathBuf,
    },
    /// A foreign file has the name of a document.
    #[error("{} already exists and was not written by this export", .path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// A document was changed after it was written.
    #[error("{} was modified after it was exported", .path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The manifest cannot be parsed.
    #[error("{} is not a valid export manifest", .path.display())]
    BrokenManifest {
        /// The file.
        path: PathBuf,
    },
    /// A session was rewritten between the two passes.
    #[error("{} changed while it was being exported", .path.display())]
    Moved {
        /// The file.
        path: PathBuf,
    },
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A session has no path with this number.
    #[error("session {session} has no path {n}")]
    NoPath {
        /// The session.
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

impl Library {
    /// Writes transcripts of sessions into a directory.
    ///
    /// Errors in one session or document are listed in [`Exported::errors`] and the export continues; it
    /// fails if the directory is not ours to write to.
    ///
    /// ```
    /// use rethread::{ExportOptions, Library};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("transcripts");
    /// let library = Library::demo();
    /// let exported = library.export(library.find("0000d001")?, &dir, &ExportOptions::default())?;
    /// assert_eq!(exported.written, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn export(
        &self,
        sources: Vec<LogSource>,
        dir: &Path,
        options: &ExportOptions,
    ) -> Result<Exported, ExportError> {
        let mut output = ExportDir::open(dir, options.force)?;
        let mut surveys = Surveys::new(self, sources, options);
        let mut exported = Exported { dir: output.dir().to_owned(), ..Exported::default() };
        exported.errors.extend(std::mem::take(&mut surveys.errors).into_iter().map(ExportError::from));
        let mut plans = plan::plan(&surveys, options, &output, &mut exported);
        let sources: FxHashSet<String> = plans.iter().map(|plan| plan.source.clone()).collect();
        let files = DocumentFiles::new(&plans, output.transcripts_of_others(&sources));
        exported.errors.extend(plan::mark_unchanged(&mut plans, &surveys, options, &files, &output));
        output.claim(plans.iter().flat_map(|plan| {
            plan.all()
                .filter(|planned| planned.needs_write())
                .map(|planned| (planned.file.clone(), plan.record()))
        }))?;
        let export = Exporter { library: self, options, surveys: &surveys, files: &files, output: &output };
        // Largest first, so that no core is idle at the end.
        let mut order: Vec<&SessionPlan> = plans.iter().collect();
        order.sort_by_key(|plan| std::cmp::Reverse(surveys.sessions[plan.session].source.file.bytes));
        let done: Vec<SessionExport> = order
            .into_par_iter()
            .with_max_len(1)
            .map(|plan| {
                let done = export.write(plan);
                self.progress.report(&surveys.sessions[plan.session].source);
                done
            })
            .collect();
        export.report(&plans, &mut exported);
        for done in done {
            exported.written += done.written;
            exported.unchanged += done.unchanged;
            exported.errors.extend(done.errors);
            output.record_written(done.records);
        }
        let possible = plan::all_possible_names(&plans, &surveys, options);
        let made: FxHashSet<&str> =
            plans.iter().flat_map(SessionPlan::all).map(|planned| planned.file.as_str()).collect();
        // Documents of paths that were not selected are kept if they are not obsolete.
        let keep = |file: &str| match options.paths {
            PathChoice::All => made.contains(file),
            _ => possible.contains(file),
        };
        exported.removed = output.remove_others(&sources, options.format.extension(), keep);
        let saved = output.save();
        exported.errors.extend(saved.err());
        update_index(&mut output, &mut exported);
        Ok(exported)
    }
}

/// Writes the index if there is more than one document.
fn update_index(output: &mut ExportDir, exported: &mut Exported) {
    const INDEX: &str = "index.html";
    let rows = output.index_rows();
    if rows.len() < 2 {
        if output.is_own_file(INDEX) && output.remove(INDEX) {
            exported.errors.extend(output.save().err());
        }
        return;
    }
    let mut write = || -> Result<(), ExportError> {
        let mut text = Vec::new();
        write_index(&mut text, &rows).map_err(|e| ExportError::write(&output.path(INDEX), e))?;
        let made_of = format!("{:032x}", xxh3_128(&text));
        if !output.is_current(INDEX, &made_of) {
            output.ensure_writable(INDEX)?;
            output.claim([(INDEX.to_owned(), FileRecord::default())])?;
            let hash = output.write(INDEX, |out| out.write_all(&text))?;
            let record = FileRecord { made_of: Some(made_of), hash: Some(hash), ..FileRecord::default() };
            output.record_written(vec![(INDEX.to_owned(), record)]);
            output.save()?;
        }
        Ok(())
    };
    match write() {
        Ok(()) => exported.index = Some(output.path(INDEX)),
        Err(error) => exported.errors.push(error),
    }
}

/// The result for one session.
#[derive(Default)]
struct SessionExport {
    written: usize,
    unchanged: usize,
    records: Vec<(String, FileRecord)>,
    errors: Vec<ExportError>,
}

struct Exporter<'e> {
    library: &'e Library,
    options: &'e ExportOptions,
    surveys: &'e Surveys,
    files: &'e DocumentFiles,
    output: &'e ExportDir,
}

impl Exporter<'_> {
    /// Writes the missing and changed documents of a session.
    fn write(&self, plan: &SessionPlan) -> SessionExport {
        let mut done = SessionExport::default();
        for planned in plan.all().filter(|planned| planned.is_current) {
            done.unchanged += 1;
            done.records.push((planned.file.clone(), self.output.record(&planned.file)));
        }
        if plan.all().any(PlannedDocument::needs_write) {
            let _turn = self.surveys.sessions[plan.session].source.lock_if_large();
            if let Err(error) = self.write_session(plan, &mut done) {
                done.errors.push(error);
            }
        }
        done
    }

    /// Reads a session again, as it was in the first pass.
    fn load(&self, session: usize) -> Result<ExportLog, ExportError> {
        let survey = &self.surveys.sessions[session];
        let log = self.library.export_log(&survey.source, survey.bytes)?;
        if log.hash != survey.log_hash {
            return Err(ExportError::Moved { path: survey.source.file.path.clone() });
        }
        Ok(log)
    }

    fn write_session(&self, plan: &SessionPlan, done: &mut SessionExport) -> Result<(), ExportError> {
        let surveys = self.surveys;
        let survey = &surveys.sessions[plan.session];
        let own = OwnSession::new(self.load(plan.session)?);
        let due = || plan.documents.iter().filter(|planned| planned.needs_write());
        let mut earlier: FxHashMap<usize, ExportLog> = FxHashMap::default();
        for before in due().flat_map(|planned| surveys.predecessors_of(plan.session, planned.index)) {
            if let std::collections::hash_map::Entry::Vacant(place) = earlier.entry(before.session) {
                place.insert(self.load(before.session)?);
            }
        }
        let cast = SubagentSet::new(self.library, surveys, self.files, plan.session, earlier.keys().copied());
        let agents = cast.agents(&own);
        let started = cast.agents_by_call(&own.log);
        let started_before: FxHashMap<usize, _> =
            earlier.iter().map(|(&session, log)| (session, cast.agents_by_call(log))).collect();
        let lost = cast.unlinked(plan.session);
        let pictures = ImageWriter::new(self.output);
        for planned in due() {
            let row = &survey.paths[planned.index];
            let cut = plan::document_start(surveys, self.options, plan, planned.index, self.files);
            let before = surveys.predecessors_of(plan.session, planned.index);
            let before = if cut.is_some() { Vec::new() } else { before };
            let mut parts: Vec<DocumentPart<'_>> = Vec::new();
            for (i, before) in before.iter().enumerate() {
                let log = &earlier[&before.session];
                parts.push(DocumentPart {
                    session: &log.loaded.source.file.id,
                    prefix: format!("e{}-", i + 1),
                    items: log.passage(before.step, None, true),
                    sidecars: call_sidecars(log, &started_before[&before.session]),
                });
            }
            let after = cut.as_ref().map(|cut| cut.step);
            // If full paths would be too large, these blocks are left to the documents of the other branches.
            let joins = !plan.starts_at_forks || row.path.is_current();
            parts.push(DocumentPart {
                session: &survey.name,
                prefix: String::new(),
                items: own.log.passage(row.path.step, after, joins),
                sidecars: call_sidecars(&own.log, &started),
            });
            let mut head = head::path_head(survey, row, &parts, &before, cut.is_some());
            head.has_index = self.files.with_index;
            head.branches = plan::branches(surveys, plan, planned.index, self.files);
            head.resumes_at = head::resumes_at(surveys, plan.session, planned.index);
            // If there are very many documents, only complete ones list them.
            let lists_lost = !(plan.starts_at_forks && cut.is_some());
            head.unlinked_agents = if lists_lost { lost.clone() } else { Vec::new() };
            head.begins_in = cut.map(|cut| cut.begins_in);
            let record = FileRecord { row: Some(head::index_row(survey, &head)), ..plan.record() };
            let document = self.document(&head, &parts, &agents);
            self.write_document(planned, &document, &pictures, record, done);
        }
        let active = |planned: &&PlannedDocument| survey.paths[planned.index].path.active;
        let parent = plan.documents.iter().find(active).or(plan.documents.last());
        for planned in plan.agents.iter().filter(|planned| planned.needs_write()) {
            let Some((n, part)) = cast.standalone_part(&own, plan.session, planned.index) else { continue };
            let head = head::agent_head(survey, &agents[n], parent, self.files.with_index);
            let document = self.document(&head, std::slice::from_ref(&part), &agents);
            self.write_document(planned, &document, &pictures, plan.record(), done);
        }
        done.records.extend(pictures.into_records());
        Ok(())
    }

    fn document<'d>(
        &self,
        head: &'d rethread_render::DocumentHead,
        parts: &'d [DocumentPart<'d>],
        agents: &'d [rethread_render::DocumentAgent<'d>],
    ) -> Document<'d> {
        let (pictures, thinking) = (self.options.images, self.options.thinking);
        Document { head, parts, agents, images: pictures, thinking, shown: ShownSidecars::default() }
    }

    fn write_document(
        &self,
        planned: &PlannedDocument,
        document: &Document<'_>,
        pictures: &ImageWriter<'_>,
        record: FileRecord,
        done: &mut SessionExport,
    ) {
        let picture = |media: &str, bytes: &[u8]| pictures.write(media, bytes);
        let write = |out: &mut dyn io::Write| write_document(out, document, self.options.format, &picture);
        let written = self.output.write(&planned.file, write);
        let pictures = pictures.take_shown();
        match written {
            Ok(hash) => {
                done.written += 1;
                let (made_of, hash) = (Some(planned.input_hash.clone()), Some(hash));
                done.records.push((planned.file.clone(), FileRecord { made_of, hash, pictures, ..record }));
            }
            Err(error) => done.errors.push(error),
        }
    }

    /// Adds a row for each path.
    fn report(&self, plans: &[SessionPlan], exported: &mut Exported) {
        let show = |file: &str| self.output.path(file).to_string_lossy().into_owned();
        for plan in plans {
            let survey = &self.surveys.sessions[plan.session];
            for (i, row) in survey.paths.iter().enumerate() {
                let planned = plan.documents.binary_search_by_key(&i, |planned| planned.index);
                let planned = planned.ok().map(|at| &plan.documents[at]);
                let holder = self.surveys.containing_path(PathId { session: plan.session, path: i });
                if planned.is_none() && holder.is_none() {
                    continue;
                }
                let before = self.surveys.predecessors_of(plan.session, i);
                exported.transcripts.push(TranscriptRow {
                    r#type: "transcript",
                    session: survey.name.clone(),
                    path_n: row.n,
                    paths: survey.paths.len(),
                    status: row.status.name(),
                    title: survey.title_in_file.title.text.clone(),
                    file: planned.map(|planned| show(&planned.file)),
                    messages: row.messages + before.iter().map(|before| before.counts.0).sum::<u32>(),
                    unchanged: planned.is_some_and(|planned| planned.is_current),
                    refused: planned.is_some_and(|planned| planned.refused),
                    skipped_as: holder.and_then(|by| self.files.own_file(by)).map(|file| show(file)),
                });
            }
            for planned in &plan.agents {
                exported.subagents.push(SubagentRow {
                    r#type: "subagent",
                    session: survey.name.clone(),
                    agent: agents::name_of(&survey.agents[planned.index], planned.index),
                    file: show(&planned.file),
                    unchanged: planned.is_current,
                });
            }
        }
    }
}
