//! Exports transcripts of many sessions to a directory.
//!
//! Works in two passes. The first reads every session and keeps a fingerprint of it, to determine which paths
//! are contained in others, which sessions continue others, and the name of each document; it also keeps the
//! facts while they fit into memory. The second streams the text of changed sessions as transcripts to their
//! documents, one session at a time per core.

mod agents;
mod export_dir;
mod head;
mod images;
mod log;
mod plan;
mod survey;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rethread_model::{
    CallId, Client, PathId, SubagentNo, Transcript, TranscriptPart, TranscriptRange, TranscriptSubagent,
    VisibleContent, VisibleThinking,
};
use rethread_render::{Document, DocumentLinks, Format, write_document, write_index};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::xxh3_128;

use self::agents::{OwnSession, SubagentSet, call_sidecars};
use self::export_dir::{ExportDir, FileRecord};
use self::images::ImageWriter;
use self::log::ExportLog;
use self::plan::{DocumentFiles, PlannedDocument, SessionPlan};
use self::survey::{Predecessor, Surveys};
use crate::library::{Library, LogSource};
use crate::transcript::{anchor_prefix, subagent_name};

pub(crate) use self::export_dir::safe_name;

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
    pub transcripts: Vec<ExportedTranscript>,
    /// The documents of subagents.
    pub subagents: Vec<ExportedSubagent>,
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

/// A path of an exported session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedTranscript {
    /// The session's id.
    pub session: String,
    /// The number of the path.
    pub path_n: usize,
    /// The number of paths of the session.
    pub paths: usize,
    /// Set if the client would resume it.
    pub active: bool,
    /// The title of the session.
    pub title: String,
    /// Number of messages on the path, including those of earlier files.
    pub messages: u32,
    /// Its document.
    pub document: ExportedDocument,
}

impl ExportedTranscript {
    /// Returns its own document.
    pub fn file(&self) -> Option<&ExportedFile> {
        match &self.document {
            ExportedDocument::File(file) => Some(file),
            ExportedDocument::ContainedIn(_) => None,
        }
    }

    /// Returns the document of the path that contains it, if it was skipped as a copy.
    pub fn contained_in(&self) -> Option<&Path> {
        match &self.document {
            ExportedDocument::File(_) => None,
            ExportedDocument::ContainedIn(file) => file.as_deref(),
        }
    }
}

/// The document that shows a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportedDocument {
    /// Its own.
    File(ExportedFile),
    /// The path was skipped, because the path of this document contains it; `None` if that path was not
    /// exported.
    ContainedIn(Option<PathBuf>),
}

/// The document of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedSubagent {
    /// The session that it belongs to.
    pub session: String,
    /// Its name.
    pub name: String,
    /// Its document.
    pub file: ExportedFile,
}

/// A document of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its path.
    pub path: PathBuf,
    /// The result of this run.
    pub status: ExportStatus,
}

/// The result of an export for one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportStatus {
    /// It was written. If that failed, [`Exported::errors`] contains the reason.
    Written,
    /// It was up to date.
    Unchanged,
    /// It was not written, because another program wrote or changed the file.
    Refused,
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
    /// Writes transcripts of sessions into a directory. `progress` is called twice per session: after it was
    /// read and after its documents were written.
    ///
    /// Errors in one session or document are listed in [`Exported::errors`] and the export continues; it
    /// fails if the directory is not ours to write to.
    pub fn export(
        &self,
        sources: Vec<LogSource>,
        dir: &Path,
        options: &ExportOptions,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Exported, ExportError> {
        let mut output = ExportDir::open(dir, options.force)?;
        let mut surveys = Surveys::new(self, sources, options, progress);
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
        surveys.keep_logs(&plan::sessions_to_read(&plans, &surveys));
        let export = Exporter { library: self, options, surveys: &surveys, files: &files, output: &output };
        // Largest first, so that no core is idle at the end.
        let mut order: Vec<&SessionPlan> = plans.iter().collect();
        order.sort_by_key(|plan| std::cmp::Reverse(surveys.sessions[plan.session].source.file.bytes));
        let done: Vec<SessionExport> = order
            .into_par_iter()
            .with_max_len(1)
            .map(|plan| {
                let done = export.write(plan);
                progress(surveys.sessions[plan.session].source.file.bytes);
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

    /// Returns the log of a session, if it is still the one of the first pass.
    fn load(&self, session: usize) -> Result<Arc<ExportLog>, ExportError> {
        let survey = &self.surveys.sessions[session];
        let log = self.surveys.log(session)?;
        if log.hash != survey.log_hash {
            return Err(ExportError::Moved { path: survey.source.file.path.clone() });
        }
        Ok(log)
    }

    /// Reads the sessions that the documents to be written continue from.
    fn load_earlier(&self, plan: &SessionPlan) -> Result<FxHashMap<usize, Arc<ExportLog>>, ExportError> {
        let mut earlier = FxHashMap::default();
        for planned in plan.documents.iter().filter(|planned| planned.needs_write()) {
            for before in self.surveys.predecessors_of(plan.session, planned.index) {
                if let std::collections::hash_map::Entry::Vacant(place) = earlier.entry(before.session) {
                    place.insert(self.load(before.session)?);
                }
            }
        }
        Ok(earlier)
    }

    fn write_session(&self, plan: &SessionPlan, done: &mut SessionExport) -> Result<(), ExportError> {
        let own = OwnSession::new(self.load(plan.session)?);
        let earlier = self.load_earlier(plan)?;
        let set = SubagentSet::new(
            self.library.skips(),
            self.surveys,
            self.files,
            plan.session,
            earlier.keys().copied(),
        );
        let started_before =
            earlier.iter().map(|(&session, log)| (session, set.agents_by_call(log))).collect();
        let logs = SessionLogs {
            started: set.agents_by_call(&own.log),
            subagents: Arc::new(set.subagents(&own)),
            files: Arc::new(set.files()),
            unlinked: set.unlinked(plan.session),
            own: &own,
            earlier: &earlier,
            started_before,
        };
        let images = ImageWriter::new(self.output);
        for planned in plan.documents.iter().filter(|planned| planned.needs_write()) {
            self.write_path(plan, planned, &logs, &images, done);
        }
        for planned in plan.agents.iter().filter(|planned| planned.needs_write()) {
            if let Some((number, part)) = set.standalone_part(&own, plan.session, planned.index) {
                self.write_subagent(plan, planned, (number, part), &logs, &images, done);
            }
        }
        done.records.extend(images.into_records());
        Ok(())
    }

    /// Writes the document of a path.
    fn write_path(
        &self,
        plan: &SessionPlan,
        planned: &PlannedDocument,
        logs: &SessionLogs<'_>,
        images: &ImageWriter<'_>,
        done: &mut SessionExport,
    ) {
        let surveys = self.surveys;
        let survey = &surveys.sessions[plan.session];
        let row = &survey.paths[planned.index];
        let cut = plan::document_start(surveys, self.options, plan, planned.index, self.files);
        let before = surveys.predecessors_of(plan.session, planned.index);
        let before = if cut.is_some() { Vec::new() } else { before };
        let mut parts: Vec<TranscriptPart<'_>> =
            before.iter().enumerate().map(|(i, before)| logs.earlier_part(i, before)).collect();
        // If full paths would be too large, these blocks are left to the documents of the other branches.
        let joins = !plan.starts_at_forks || row.path.is_current();
        parts.push(TranscriptPart {
            session: &survey.header.id,
            anchor_prefix: String::new(),
            steps: logs.own.log.passage(row.path.step, cut.as_ref().map(|cut| cut.step), joins),
            sidecars: call_sidecars(&logs.own.log, &logs.started),
        });
        let mut header = head::path_header(survey, row, &parts, &before, cut.is_some());
        header.resumes_at = head::resumes_at(surveys, plan.session, planned.index);
        let (siblings, sibling_files) = plan::siblings(surveys, plan, planned.index, self.files);
        header.siblings = siblings;
        let record = FileRecord { row: Some(head::index_row(survey, &header)), ..plan.record() };
        // If there are very many documents, only complete ones list them.
        let lists_unlinked = !(plan.starts_at_forks && cut.is_some());
        let links = DocumentLinks {
            begins_in: cut.map(|cut| cut.begins_in),
            siblings: sibling_files,
            subagents: Arc::clone(&logs.files),
            has_index: self.files.with_index,
            ..DocumentLinks::default()
        };
        let mut transcript = self.transcript(header, parts, logs);
        transcript.unlinked = if lists_unlinked { logs.unlinked.clone() } else { Vec::new() };
        self.write_document(
            planned,
            &Document { transcript: &transcript, links: &links },
            images,
            record,
            done,
        );
    }

    /// Writes the document of a subagent.
    fn write_subagent<'d>(
        &self,
        plan: &SessionPlan,
        planned: &PlannedDocument,
        (number, part): (SubagentNo, TranscriptPart<'d>),
        logs: &SessionLogs<'d>,
        images: &ImageWriter<'_>,
        done: &mut SessionExport,
    ) {
        let survey = &self.surveys.sessions[plan.session];
        let is_active = |planned: &&PlannedDocument| survey.paths[planned.index].path.active;
        let parent = plan.documents.iter().find(is_active).or(plan.documents.last());
        let header = head::subagent_header(survey, &logs.subagents[number.0].name, &part);
        let links = DocumentLinks {
            parent: parent.map(|planned| planned.file.clone()),
            subagents: Arc::clone(&logs.files),
            root_prefix: "../",
            has_index: self.files.with_index,
            ..DocumentLinks::default()
        };
        let transcript = self.transcript(header, vec![part], logs);
        let document = Document { transcript: &transcript, links: &links };
        self.write_document(planned, &document, images, plan.record(), done);
    }

    fn transcript<'d>(
        &self,
        header: rethread_model::TranscriptHeader,
        parts: Vec<TranscriptPart<'d>>,
        logs: &SessionLogs<'d>,
    ) -> Transcript<'d> {
        let thinking =
            if self.options.thinking { VisibleThinking::Readable } else { VisibleThinking::Hidden };
        Transcript {
            header,
            parts,
            subagents: Arc::clone(&logs.subagents),
            unlinked: Vec::new(),
            range: TranscriptRange::default(),
            content: VisibleContent { thinking, tools: true, images: self.options.images },
        }
    }

    fn write_document(
        &self,
        planned: &PlannedDocument,
        document: &Document<'_>,
        images: &ImageWriter<'_>,
        record: FileRecord,
        done: &mut SessionExport,
    ) {
        let write_image = |media: &str, bytes: &[u8]| images.write(media, bytes);
        let write =
            |out: &mut dyn io::Write| write_document(out, document, self.options.format, &write_image);
        let written = self.output.write(&planned.file, write);
        let pictures = images.take_shown();
        match written {
            Ok(hash) => {
                done.written += 1;
                let (made_of, hash) = (Some(planned.input_hash.clone()), Some(hash));
                done.records.push((planned.file.clone(), FileRecord { made_of, hash, pictures, ..record }));
            }
            Err(error) => done.errors.push(error),
        }
    }

    /// Reports each path and subagent.
    fn report(&self, plans: &[SessionPlan], exported: &mut Exported) {
        for plan in plans {
            let survey = &self.surveys.sessions[plan.session];
            for (i, row) in survey.paths.iter().enumerate() {
                let Some(document) = self.exported_document(plan, i) else { continue };
                let before = self.surveys.predecessors_of(plan.session, i);
                exported.transcripts.push(ExportedTranscript {
                    session: survey.header.id.clone(),
                    path_n: row.n,
                    paths: survey.paths.len(),
                    active: row.path.active,
                    title: survey.title_in_file.title.text.clone(),
                    messages: row.messages + before.iter().map(|before| before.counts.0).sum::<u32>(),
                    document,
                });
            }
            exported.subagents.extend(plan.agents.iter().map(|planned| ExportedSubagent {
                session: survey.header.id.clone(),
                name: subagent_name(&survey.agents[planned.index], planned.index),
                file: self.exported_file(planned),
            }));
        }
    }

    /// Returns the document that shows a path; `None` if the path was not requested.
    fn exported_document(&self, plan: &SessionPlan, path: usize) -> Option<ExportedDocument> {
        if let Ok(at) = plan.documents.binary_search_by_key(&path, |planned| planned.index) {
            return Some(ExportedDocument::File(self.exported_file(&plan.documents[at])));
        }
        let holder = self.surveys.containing_path(PathId { session: plan.session, path })?;
        let file = self.files.own_file(holder).map(|file| self.output.path(file));
        Some(ExportedDocument::ContainedIn(file))
    }

    fn exported_file(&self, planned: &PlannedDocument) -> ExportedFile {
        let status = match planned {
            PlannedDocument { is_current: true, .. } => ExportStatus::Unchanged,
            PlannedDocument { refused: true, .. } => ExportStatus::Refused,
            _ => ExportStatus::Written,
        };
        ExportedFile { path: self.output.path(&planned.file), status }
    }
}

/// The logs of a session, of those that it continues from, and of their subagents.
struct SessionLogs<'d> {
    own: &'d OwnSession,
    earlier: &'d FxHashMap<usize, Arc<ExportLog>>,
    subagents: Arc<Vec<TranscriptSubagent<'d>>>,
    /// The documents of the subagents.
    files: Arc<Vec<String>>,
    /// The subagents that calls of the session started.
    started: Arc<FxHashMap<CallId, Vec<SubagentNo>>>,
    /// The same for the earlier sessions.
    started_before: FxHashMap<usize, Arc<FxHashMap<CallId, Vec<SubagentNo>>>>,
    unlinked: Vec<SubagentNo>,
}

impl<'d> SessionLogs<'d> {
    /// Returns the part of an earlier session that a path continues.
    fn earlier_part(&self, index: usize, before: &Predecessor) -> TranscriptPart<'d> {
        let log = &self.earlier[&before.session];
        TranscriptPart {
            session: &log.loaded.source.file.id,
            anchor_prefix: anchor_prefix(index, false),
            steps: log.passage(before.step, None, true),
            sidecars: call_sidecars(log, &self.started_before[&before.session]),
        }
    }
}
