//! The second pass: writes the documents of each session, and reports them.

use std::io;
use std::sync::Arc;

use rethread_model::{
    CallId, PathId, PathIndex, SessionIndex, SubagentNo, Transcript, TranscriptHeader, TranscriptPart,
    TranscriptRange, TranscriptSubagent, VisibleContent, VisibleThinking,
};
use rethread_render::{Document, DocumentLinks, write_document};
use rustc_hash::FxHashMap;

use super::agents::{OwnSession, SubagentSet, call_sidecars};
use super::export_dir::{ExportDir, FileRecord, IndexRecord};
use super::images::ImageWriter;
use super::log::ExportLog;
use super::plan::{self, DocumentFiles, PlannedDocument, SessionPlan};
use super::survey::{Predecessor, Surveys};
use super::{
    ExportError, ExportOptions, ExportStatus, Exported, ExportedDocument, ExportedFile, ExportedSubagent,
    ExportedTranscript, head,
};
use crate::library::Library;
use crate::transcript::{anchor_prefix, subagent_name};

/// The result for one session.
#[derive(Default)]
pub(super) struct SessionExport {
    pub(super) written: usize,
    pub(super) unchanged: usize,
    pub(super) records: Vec<(String, FileRecord)>,
    pub(super) errors: Vec<ExportError>,
}

/// Builds documents of planned sessions.
pub(super) struct DocumentBuilder<'e> {
    pub(super) library: &'e Library,
    pub(super) options: &'e ExportOptions,
    pub(super) surveys: &'e Surveys,
    pub(super) files: &'e DocumentFiles,
}

/// Writes documents to a directory.
pub(super) struct Exporter<'e> {
    pub(super) documents: DocumentBuilder<'e>,
    pub(super) output: &'e ExportDir,
}

impl DocumentBuilder<'_> {
    /// Writes the only document of a plan.
    pub(super) fn write_one(&self, plan: &SessionPlan, out: &mut dyn io::Write) -> Result<(), ExportError> {
        let Some((&path, _)) = plan.documents.first_key_value() else { return Ok(()) };
        let no_image = |_: &str, _: &[u8]| Err(io::ErrorKind::Unsupported.into());
        self.with_logs(plan, |logs, _| {
            self.with_path_document(plan, path, logs, |document, _| {
                write_document(out, document, self.options.format, &no_image)
            })
            .map_err(|source| ExportError::write("-".as_ref(), source))
        })
    }

    /// Reads the sessions that the documents to be written continue from.
    fn load_earlier(
        &self,
        plan: &SessionPlan,
    ) -> Result<FxHashMap<SessionIndex, Arc<ExportLog>>, ExportError> {
        let mut earlier = FxHashMap::default();
        for (&path, _) in plan.documents.iter().filter(|(_, planned)| planned.needs_write()) {
            for before in self.surveys.predecessors_of(plan.session, path) {
                if let std::collections::hash_map::Entry::Vacant(place) = earlier.entry(before.session) {
                    place.insert(self.surveys.log(before.session)?);
                }
            }
        }
        Ok(earlier)
    }

    /// Opens the logs of a session for as long as `write` runs.
    fn with_logs<R>(
        &self,
        plan: &SessionPlan,
        write: impl for<'d> FnOnce(&SessionLogs<'d>, &'d SubagentSet) -> Result<R, ExportError>,
    ) -> Result<R, ExportError> {
        let own = OwnSession::new(self.surveys.log(plan.session)?);
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
        write(&logs, &set)
    }

    /// Builds the document of a path and its row in the index for `write`.
    fn with_path_document<R>(
        &self,
        plan: &SessionPlan,
        path: PathIndex,
        logs: &SessionLogs<'_>,
        write: impl FnOnce(&Document<'_>, IndexRecord) -> R,
    ) -> R {
        let surveys = self.surveys;
        let survey = &surveys.sessions[plan.session];
        let summary = &survey.paths[path];
        let cut = plan::document_start(surveys, self.options, plan, path, self.files);
        let before = surveys.predecessors_of(plan.session, path);
        let before = if cut.is_some() { Vec::new() } else { before };
        let mut parts: Vec<TranscriptPart<'_>> =
            before.iter().enumerate().map(|(i, before)| logs.earlier_part(i, before)).collect();
        // If full paths would be too large, these blocks are left to the documents of the other branches.
        let joins = !plan.starts_at_forks || summary.path.is_current();
        parts.push(TranscriptPart {
            session: &survey.header.id,
            anchor_prefix: String::new(),
            steps: logs.own.log.path_stream(summary.path.step, cut.as_ref().map(|cut| cut.step), joins),
            sidecars: call_sidecars(&logs.own.log, &logs.started),
        });
        let mut header = head::path_header(survey, summary, &parts, &before, cut.is_some());
        header.resumes_at = head::resumes_at(surveys, plan.session, path);
        let (siblings, sibling_files) = plan::siblings(surveys, plan, path, self.files);
        header.siblings = siblings;
        let row = head::index_row(survey, &header);
        // If there are very many documents, only complete ones list them.
        let lists_unlinked = !(plan.starts_at_forks && cut.is_some());
        let links = DocumentLinks {
            begins_in: cut.map(|cut| cut.begins_in),
            siblings: sibling_files,
            subagents: Arc::clone(&logs.files),
            has_index: self.files.with_index,
            ..DocumentLinks::default()
        };
        // A client resumes the active path, whichever page the command is copied from.
        let resumes = header.active || header.resumes_at.is_some();
        let resume_command = survey.resume_command(self.options).filter(|_| resumes);
        let mut transcript = self.transcript(header, parts, logs);
        transcript.unlinked = if lists_unlinked { logs.unlinked.clone() } else { Vec::new() };
        let resume_command = resume_command.as_deref();
        write(&Document { transcript: &transcript, links: &links, resume_command }, row)
    }

    /// Builds the document of a subagent for `write`.
    fn with_subagent_document<'d, R>(
        &self,
        plan: &SessionPlan,
        (number, part): (SubagentNo, TranscriptPart<'d>),
        logs: &SessionLogs<'d>,
        write: impl FnOnce(&Document<'_>) -> R,
    ) -> R {
        let survey = &self.surveys.sessions[plan.session];
        let is_active = |(path, _): &(&PathIndex, &PlannedDocument)| survey.paths[**path].path.active;
        let parent = plan.documents.iter().find(is_active).or(plan.documents.last_key_value());
        let header = head::subagent_header(survey, &logs.subagents[number.index()].name, &part);
        let links = DocumentLinks {
            parent: parent.map(|(_, planned)| planned.file.clone()),
            subagents: Arc::clone(&logs.files),
            root_prefix: "../",
            has_index: self.files.with_index,
            ..DocumentLinks::default()
        };
        let transcript = self.transcript(header, vec![part], logs);
        write(&Document { transcript: &transcript, links: &links, resume_command: None })
    }

    fn transcript<'d>(
        &self,
        header: TranscriptHeader,
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
}

impl Exporter<'_> {
    /// Writes the missing and changed documents of a session.
    pub(super) fn write(&self, plan: &SessionPlan) -> SessionExport {
        let mut done = SessionExport::default();
        for planned in plan.all().filter(|planned| planned.is_current) {
            done.unchanged += 1;
            done.records.push((planned.file.clone(), self.output.record(&planned.file)));
        }
        if plan.all().any(PlannedDocument::needs_write) {
            let _turn = self.documents.surveys.sessions[plan.session].source.lock_if_large();
            if let Err(error) = self.write_session(plan, &mut done) {
                done.errors.push(error);
            }
        }
        done
    }

    fn write_session(&self, plan: &SessionPlan, done: &mut SessionExport) -> Result<(), ExportError> {
        let images = ImageWriter::new(self.output);
        self.documents.with_logs(plan, |logs, set| {
            for (&path, planned) in plan.documents.iter().filter(|(_, planned)| planned.needs_write()) {
                self.documents.with_path_document(plan, path, logs, |document, row| {
                    let record = FileRecord { row: Some(row), ..plan.record() };
                    self.write_document(planned, document, &images, record, done);
                });
            }
            for (index, planned) in plan.agents.iter().enumerate().filter(|(_, p)| p.needs_write()) {
                let Some(subagent) = set.standalone_part(logs.own, plan.session, index) else { continue };
                self.documents.with_subagent_document(plan, subagent, logs, |document| {
                    self.write_document(planned, document, &images, plan.record(), done);
                });
            }
            Ok(())
        })?;
        done.records.extend(images.into_records());
        Ok(())
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
        let write = |out: &mut dyn io::Write| {
            write_document(out, document, self.documents.options.format, &write_image)
        };
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
    pub(super) fn report(&self, plans: &[SessionPlan], exported: &mut Exported) {
        for plan in plans {
            let survey = &self.documents.surveys.sessions[plan.session];
            for (path, summary) in survey.paths.iter_enumerated() {
                let Some(document) = self.exported_document(plan, path) else { continue };
                let before = self.documents.surveys.predecessors_of(plan.session, path);
                exported.transcripts.push(ExportedTranscript {
                    session: survey.header.id.as_str().into(),
                    path_n: summary.n,
                    paths: survey.paths.len(),
                    active: summary.path.active,
                    title: survey.title_in_file.title.text.clone(),
                    messages: summary.messages + before.iter().map(|before| before.counts.0).sum::<u32>(),
                    document,
                });
            }
            exported.subagents.extend(plan.agents.iter().enumerate().map(|(index, planned)| {
                ExportedSubagent {
                    session: survey.header.id.as_str().into(),
                    name: subagent_name(&survey.agents[index], index),
                    file: self.exported_file(planned),
                }
            }));
        }
    }

    /// Returns the document that shows a path; `None` if the path was not requested.
    fn exported_document(&self, plan: &SessionPlan, path: PathIndex) -> Option<ExportedDocument> {
        if let Some(planned) = plan.documents.get(&path) {
            return Some(ExportedDocument::File(self.exported_file(planned)));
        }
        let holder = self.documents.surveys.containing_path(PathId { session: plan.session, path })?;
        let file = self.documents.files.own_file(holder).map(|file| self.output.path(file));
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
    earlier: &'d FxHashMap<SessionIndex, Arc<ExportLog>>,
    subagents: Arc<Vec<TranscriptSubagent<'d>>>,
    /// The documents of the subagents.
    files: Arc<Vec<String>>,
    /// The subagents that calls of the session started.
    started: Arc<FxHashMap<CallId, Vec<SubagentNo>>>,
    /// The same for the earlier sessions.
    started_before: FxHashMap<SessionIndex, Arc<FxHashMap<CallId, Vec<SubagentNo>>>>,
    unlinked: Vec<SubagentNo>,
}

impl<'d> SessionLogs<'d> {
    /// Returns the part of an earlier session that a path continues.
    fn earlier_part(&self, index: usize, before: &Predecessor) -> TranscriptPart<'d> {
        let log = &self.earlier[&before.session];
        TranscriptPart {
            session: &log.loaded.source.file.id,
            anchor_prefix: anchor_prefix(index, false),
            steps: log.path_stream(before.step, None, true),
            sidecars: call_sidecars(log, &self.started_before[&before.session]),
        }
    }
}
