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
use super::export_dir::{ExportDir, FileRecord};
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

/// Everything that the second pass needs to know.
pub(super) struct Exporter<'e> {
    pub(super) library: &'e Library,
    pub(super) options: &'e ExportOptions,
    pub(super) surveys: &'e Surveys,
    pub(super) files: &'e DocumentFiles,
    pub(super) output: &'e ExportDir,
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
            let _turn = self.surveys.sessions[plan.session].source.lock_if_large();
            if let Err(error) = self.write_session(plan, &mut done) {
                done.errors.push(error);
            }
        }
        done
    }

    /// Returns the log of a session, if it is still the one of the first pass.
    fn load(&self, session: SessionIndex) -> Result<Arc<ExportLog>, ExportError> {
        self.surveys.log(session)
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
        for (&path, planned) in plan.documents.iter().filter(|(_, planned)| planned.needs_write()) {
            self.write_path(plan, (path, planned), &logs, &images, done);
        }
        for (index, planned) in plan.agents.iter().enumerate().filter(|(_, planned)| planned.needs_write()) {
            if let Some((number, part)) = set.standalone_part(&own, plan.session, index) {
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
        (path, planned): (PathIndex, &PlannedDocument),
        logs: &SessionLogs<'_>,
        images: &ImageWriter<'_>,
        done: &mut SessionExport,
    ) {
        let surveys = self.surveys;
        let survey = &surveys.sessions[plan.session];
        let row = &survey.paths[path];
        let cut = plan::document_start(surveys, self.options, plan, path, self.files);
        let before = surveys.predecessors_of(plan.session, path);
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
        header.resumes_at = head::resumes_at(surveys, plan.session, path);
        let (siblings, sibling_files) = plan::siblings(surveys, plan, path, self.files);
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
        let document = Document { transcript: &transcript, links: &links };
        self.write_document(planned, &document, images, plan.record(), done);
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
    pub(super) fn report(&self, plans: &[SessionPlan], exported: &mut Exported) {
        for plan in plans {
            let survey = &self.surveys.sessions[plan.session];
            for (path, row) in survey.paths.iter_enumerated() {
                let Some(document) = self.exported_document(plan, path) else { continue };
                let before = self.surveys.predecessors_of(plan.session, path);
                exported.transcripts.push(ExportedTranscript {
                    session: survey.header.id.as_str().into(),
                    path_n: row.n,
                    paths: survey.paths.len(),
                    active: row.path.active,
                    title: survey.title_in_file.title.text.clone(),
                    messages: row.messages + before.iter().map(|before| before.counts.0).sum::<u32>(),
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
            steps: log.passage(before.step, None, true),
            sidecars: call_sidecars(log, &self.started_before[&before.session]),
        }
    }
}
