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
mod names;
mod plan;
mod resume;
mod survey;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rethread_model::{Client, SessionId};
use rethread_render::{Format, IndexFormat, IndexRow, write_index};
use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use self::export_dir::{ExportDir, FileRecord};
use self::plan::{DocumentFiles, SessionPlan};
use self::survey::Surveys;
use self::write::{DocumentBuilder, Exporter, SessionExport};
use crate::library::{Library, LogSource};

pub use self::names::FileNaming;
pub use self::resume::{ResumableLog, ResumeText};

pub(crate) use self::names::safe_name;

/// Incremented when the output changes, so that documents by an older version are written again.
const REVISION: u32 = 8;

/// Options of an export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// The output format.
    pub format: Format,
    /// The file names.
    pub names: FileNaming,
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
    /// Shows how to resume the session, on pages of active paths.
    pub resume_command: Option<ResumeText>,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: Format::Md,
            names: FileNaming::Id,
            paths: PathChoice::All,
            all_copies: false,
            from_fork: false,
            images: true,
            thinking: true,
            client: Client::NEWEST,
            force: false,
            resume_command: None,
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
    pub session: SessionId,
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
    ///
    /// ```
    /// # use rethread::{ExportOptions, Library};
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("transcripts");
    /// # let library = Library::demo();
    /// let exported = library.export(library.find("0000d001")?, &dir, &ExportOptions::default())?;
    /// assert!(exported.transcripts.iter().all(|transcript| transcript.file().is_some()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn file(&self) -> Option<&ExportedFile> {
        match &self.document {
            ExportedDocument::File(file) => Some(file),
            ExportedDocument::ContainedIn(_) => None,
        }
    }

    /// Returns the document of the path that contains it, if it was skipped as a copy.
    ///
    /// ```
    /// # use rethread::{ExportOptions, Library};
    /// # let dir = tempfile::tempdir()?;
    /// # let dir = dir.path().join("transcripts");
    /// # let library = Library::demo();
    /// let exported = library.export(library.find("0000d001")?, &dir, &ExportOptions::default())?;
    /// assert!(exported.transcripts.iter().all(|transcript| transcript.contained_in().is_none()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
    pub session: SessionId,
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
    /// A single document was requested, but several paths.
    #[error("session {session} has {paths} paths")]
    SeveralPaths {
        /// The session.
        session: String,
        /// The number of paths.
        paths: usize,
    },
    /// The session has no messages.
    #[error("the session has no conversation")]
    NoConversation,
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
        surveys.keep_logs(&plan::sessions_to_read(&plans, &surveys));
        let documents = DocumentBuilder { library: self, options, surveys: &surveys, files: &files };
        let export = Exporter { documents, output: &output };
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
        update_indexes(&mut output, options.format, &mut exported);
        Ok(exported)
    }

    /// Writes the transcript of one path of a session, without links to other documents.
    ///
    /// Subagents are shown under their calls. Markdown has no images, because it cannot contain them. Fails if
    /// [`ExportOptions::paths`] selects several paths.
    ///
    /// ```
    /// use rethread::{ExportOptions, Library, PathChoice};
    ///
    /// let library = Library::demo();
    /// let options = ExportOptions { paths: PathChoice::Active, ..ExportOptions::default() };
    /// let mut markdown = Vec::new();
    /// library.write_transcript(&library.find_one("0000d001")?, &options, &mut markdown)?;
    /// assert!(markdown.starts_with(b"# CLAUDE CODE SESSION TRANSCRIPT"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_transcript(
        &self,
        source: &LogSource,
        options: &ExportOptions,
        out: &mut dyn io::Write,
    ) -> Result<(), ExportError> {
        let images = options.images && options.format != Format::Md;
        let options = &ExportOptions { all_copies: true, from_fork: false, images, ..options.clone() };
        let mut surveys = Surveys::new(self, vec![source.clone()], options);
        if let Some(error) = surveys.errors.pop() {
            return Err(error.into());
        }
        let plan = plan::plan_one(&surveys, options)?;
        let files = DocumentFiles::without_links(&surveys);
        let documents = DocumentBuilder { library: self, options, surveys: &surveys, files: &files };
        documents.write_one(&plan, out)
    }
}

/// Writes the indexes of a directory with more than one transcript: a page, and a Markdown file if there is
/// Markdown. Removes those that are obsolete.
fn update_indexes(output: &mut ExportDir, format: Format, exported: &mut Exported) {
    let rows = output.index_rows();
    for index in [IndexFormat::Html, IndexFormat::Markdown] {
        let file = index.file_name();
        if rows.len() < 2 || !rows.iter().any(|row| index.lists(row)) {
            if output.is_own_file(file) && output.remove(file) {
                exported.errors.extend(output.save().err());
            }
            continue;
        }
        match write_index_file(output, index, &rows) {
            Ok(()) if index == IndexFormat::of(format) => exported.index = Some(output.path(file)),
            Ok(()) => {}
            Err(error) => exported.errors.push(error),
        }
    }
}

/// Writes an index, unless it is current.
fn write_index_file(
    output: &mut ExportDir,
    index: IndexFormat,
    rows: &[IndexRow],
) -> Result<(), ExportError> {
    let file = index.file_name();
    let mut text = Vec::new();
    write_index(&mut text, index, rows).map_err(|e| ExportError::write(&output.path(file), e))?;
    let made_of = format!("{:032x}", xxh3_128(&text));
    if output.is_current(file, &made_of) {
        return Ok(());
    }
    output.ensure_writable(file)?;
    output.claim([(file.to_owned(), FileRecord::default())])?;
    let hash = output.write(file, |out| out.write_all(&text))?;
    let record = FileRecord { made_of: Some(made_of), hash: Some(hash), ..FileRecord::default() };
    output.record_written(vec![(file.to_owned(), record)]);
    output.save()
}
