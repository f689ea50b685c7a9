//! Clones a session: plans the clone and writes it with its sidecars.

mod outcome;
mod planned;
mod sidecars;
mod streamed;
mod summarise;
mod warnings;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use rethread_edit::{self as edit, ClonePlanError, CloneSummary, IdMap, Recipe};
use rethread_model::{Client, Finding, OriginKind, Session};
use rethread_store::{ConfinedPath, NewSession};

use crate::library::{Library, LogSource, config_root};
use crate::origin::{is_dir_of, recorded_directory, write_origin};
pub use outcome::{Cloned, SessionSize, WrittenClone};
use sidecars::ClonedSidecars;
pub use summarise::{Summariser, SummariserFailure};
use warnings::CloneObservations;
pub use warnings::CloneWarning;
use write::join_thread;

/// Options of a clone.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// The edits to apply.
    pub recipe: Recipe,
    /// Keep entry ids, as the client's own forks do.
    pub keep_ids: bool,
    /// Keep the removed entries in a sidecar of the clone.
    pub keep_removed: bool,
    /// Returns the command that shows a removed message of the session with this id. If removed entries are kept,
    /// the summary of condensed turns mentions it.
    pub show_removed_command: Option<fn(&str) -> String>,
    /// The directory whose project receives the clone; by default that of the source.
    pub to: Option<PathBuf>,
    /// Write nothing.
    pub dry_run: bool,
    /// A command that summarises turns, instead of the built-in summaries.
    pub summariser: Option<Summariser>,
}

/// An error while cloning a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloneError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// The recipe cannot be applied.
    #[error(transparent)]
    Impossible(#[from] ClonePlanError),
    /// It is not a file, so there is no destination for the clone.
    #[error("no destination for the clone")]
    NoDestination,
    /// The destination directory does not exist.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A clone to be made.
struct CloneTask<'t> {
    library: &'t Library,
    source: &'t LogSource,
    options: &'t CloneOptions,
    /// The id of the clone.
    id: String,
    /// The path of the clone; `None` if nothing is to be written.
    target: Option<PathBuf>,
    ids: IdMap<'static>,
}

/// A clone that was written, or would be, with what deserves a warning.
struct MeasuredClone {
    summary: CloneSummary,
    before: SessionSize,
    after: SessionSize,
    observations: CloneObservations,
}

impl Library {
    /// Clones a session. The source is never written to.
    ///
    /// The clone gets a new id and is written next to its source, or into the project of [`CloneOptions::to`].
    /// A source in memory, such as a session of [`Library::demo`], can only be cloned with
    /// [`CloneOptions::dry_run`] or a destination; the log of a subagent cannot be cloned.
    ///
    /// ```
    /// use rethread::{CloneOptions, Library};
    ///
    /// let library = Library::demo();
    /// let options = CloneOptions { dry_run: true, ..CloneOptions::default() };
    /// let clone = library.clone_session(&library.find_one("0000d001")?, &options)?;
    /// assert_eq!(clone.turns, 6);
    /// # Ok::<(), rethread::CloneError>(())
    /// ```
    pub fn clone_session(&self, source: &LogSource, options: &CloneOptions) -> Result<Cloned, CloneError> {
        let task = CloneTask::new(self, source, options)?;
        let mut sidecars = ClonedSidecars::for_source(source);
        let measured = match task.clone_streamed(&mut sidecars)? {
            Some(measured) => measured,
            None => task.clone_planned(&mut sidecars)?,
        };
        Ok(task.into_outcome(measured, sidecars))
    }
}

impl<'t> CloneTask<'t> {
    fn new(
        library: &'t Library,
        source: &'t LogSource,
        options: &'t CloneOptions,
    ) -> Result<Self, CloneError> {
        if source.file.is_subagent {
            return Err(ClonePlanError::Subagent.into());
        }
        let id = uuid::Uuid::new_v4().to_string();
        let target = library.target_of(source, &id, options)?;
        let ids = IdMap::new(&source.file.id, &id, options.keep_ids);
        let ids = match (project_name(&source.file.path), target.as_deref().and_then(project_name)) {
            (Some(from), Some(to)) => ids.in_project(&from, &to),
            _ => ids,
        };
        // Ids that are kept need not be collected.
        let ids = match &source.bytes {
            None if !options.keep_ids => ids.with_entries(library.agent_entry_ids(source)),
            _ => ids,
        };
        Ok(Self { library, source, options, id, target, ids })
    }

    /// Writes the sidecars of a clone and then publishes its log.
    fn publish(
        &self,
        cloned: &sidecars::ClonedSession<'_>,
        path: &Path,
        part: NewSession,
        sidecars: &mut ClonedSidecars,
    ) -> Result<(), CloneError> {
        // Sidecars are written first: a session exists once its log does.
        let written = self.library.write_sidecars(self.source, cloned, path, self.options, sidecars);
        written.and_then(|()| part.finish()).map_err(|source| {
            rethread_store::remove_tree(&ConfinedPath::of_file(path).with_extension(""));
            if let Some(history) = sidecars::file_history_dir(path) {
                rethread_store::remove_tree(&history);
            }
            CloneError::Write { path: path.to_owned(), source }
        })
    }

    /// Adds the clone to the client's index, and describes it.
    fn into_outcome(self, measured: MeasuredClone, sidecars: ClonedSidecars) -> Cloned {
        let MeasuredClone { summary, before, after, mut observations } = measured;
        let removed = observations.report.counts;
        observations.nothing_removed = sidecars.nothing_removed;
        let holder = self.library.store.holder(&self.source.file);
        observations.holder = holder.filter(|_| self.source.bytes.is_none());
        let resume_dir = resume_dir(self.source, self.options, &summary);
        if let Some(path) = &self.target {
            observations.outside_config = config_root(path).is_none();
            observations.index = add_to_client_index(path, &self.id, &summary);
            if self.source.bytes.is_none() {
                // A clone whose source is not recorded is complete.
                let _ = write_origin(path, &self.source.file.id, OriginKind::Clone, resume_dir.as_deref());
            }
        }
        let session = self.target.map(|path| WrittenClone {
            id: self.id.into(),
            path,
            subagents: sidecars.subagents,
            tool_results: sidecars.tool_results,
            removed_entries: sidecars.removed,
        });
        let (source, turns) = (self.source.file.id.clone(), summary.turns);
        let warnings = observations.into_warnings();
        Cloned { source: source.into(), session, before, after, turns, removed, resume_dir, warnings }
    }
}

impl Library {
    /// Returns the path of the clone; `None` if nothing is to be written.
    fn target_of(
        &self,
        source: &LogSource,
        id: &str,
        options: &CloneOptions,
    ) -> Result<Option<PathBuf>, CloneError> {
        let name = format!("{id}.jsonl");
        let Some(to) = &options.to else {
            if options.dry_run {
                return Ok(None);
            }
            if source.bytes.is_some() {
                return Err(CloneError::NoDestination);
            }
            return Ok(Some(source.file.path.with_file_name(name)));
        };
        let cwd = to.canonicalize().ok().filter(|dir| dir.is_dir());
        let cwd = cwd.ok_or_else(|| CloneError::NoDirectory(to.clone()))?;
        if options.dry_run {
            return Ok(None);
        }
        // A session outside the library, such as one in a backup, is cloned into the library.
        let roots = self.store.roots();
        let real = |root: &Path| root.canonicalize().unwrap_or_else(|_| root.to_owned());
        let is_ours = |root: &PathBuf| roots.iter().any(|own| real(own) == real(root));
        let root = config_root(&source.file.path).filter(|root| source.bytes.is_none() && is_ours(root));
        let root = root.or_else(|| roots.first().cloned()).ok_or(CloneError::NoDestination)?;
        Ok(Some(rethread_store::project_dir(&root, &cwd.to_string_lossy()).join(name)))
    }
}

/// Returns the name of the project directory that a log is in.
fn project_name(log: &Path) -> Option<String> {
    Some(log.parent()?.file_name()?.to_string_lossy().into_owned())
}

/// Returns the directory to resume the clone in: clients before 2.1.325 search only that directory's project.
fn resume_dir(source: &LogSource, options: &CloneOptions, summary: &CloneSummary) -> Option<PathBuf> {
    if let Some(to) = &options.to {
        return to.canonicalize().ok();
    }
    let recorded = summary.cwds.iter().find(|cwd| is_dir_of(&source.file, cwd));
    recorded.cloned().or_else(|| recorded_directory(&source.file)).map(PathBuf::from)
}

/// Adds the clone to the session index that some clients keep.
fn add_to_client_index(path: &Path, id: &str, summary: &CloneSummary) -> Option<CloneWarning> {
    let listed = rethread_store::IndexEntry {
        id: id.to_owned(),
        first_prompt: summary.first_prompt.clone().unwrap_or_else(|| "No prompt".into()),
        messages: summary.messages as u64,
        created: summary.span.and_then(|(first, _)| first.to_iso()),
        modified: summary.span.and_then(|(_, last)| last.to_iso()),
        git_branch: summary.branches.last().cloned(),
        project: summary.cwds.first().cloned(),
    };
    rethread_store::add_to_index(path, &listed).err().map(CloneWarning::IndexNotUpdated)
}

/// Summarises a session, and finds content that some of these clients lose or refuse.
fn summarise_and_check(session: &Session, clients: &[Client]) -> (CloneSummary, Vec<Finding>) {
    std::thread::scope(|scope| {
        let summary = scope.spawn(|| CloneSummary::of(session));
        let findings = harmful_findings(session, clients);
        (join_thread(summary), findings)
    })
}

/// Finds content of a clone that some of these clients lose or refuse.
fn harmful_findings(session: &Session, clients: &[Client]) -> Vec<Finding> {
    // The log of a subagent cannot be resumed.
    if session.facts.is_all_sidechain() || session.facts.nodes.is_empty() {
        return Vec::new();
    }
    rethread_model::harmful_findings(session, clients)
}

/// Fails if a log changed since it was first read.
fn ensure_unchanged(read: &edit::SourceSession<'_>, source: &LogSource) -> Result<(), CloneError> {
    match read.failure() {
        Some(error) => Err(source.error(error).into()),
        None => Ok(()),
    }
}

/// Fails for a log that is not a session, or has nothing to resume.
fn ensure_clonable(session: &Session, source: &LogSource) -> Result<(), CloneError> {
    crate::library::reject_non_log(source, &session.facts)?;
    if session.facts.is_all_sidechain() {
        return Err(ClonePlanError::Subagent.into());
    }
    let has_conversation = session.facts.nodes.iter().any(rethread_model::Node::is_conversation);
    if has_conversation { Ok(()) } else { Err(ClonePlanError::Empty.into()) }
}
