//! Clones a session: plans the clone and writes it with its sidecars.

mod sidecars;
mod summarise;
mod warnings;
mod write;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_edit::{
    self as edit, ClonePlanError as Unmakable, CloneReading, CloneSummary, CompressOptions, ContextSize,
    IdMap, Recipe,
};
use rethread_model::{Client, FactsBuilder, Finding, Session};
use rethread_render::{BytesByKind, CloneRow, TokenSources};
use rethread_store::{ConfinedPath, Holder, NewSession};

use crate::library::{Library, LogSource, config_root};
use sidecars::ClonedSidecars;
pub use summarise::Summariser;
use warnings::{push_clone_warnings, push_finding_warning};
use write::{join_io, join_thread, write_clone, write_renamed};

/// Options of a clone.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// The edits to apply.
    pub recipe: Recipe,
    /// Keep entry ids, as the client's own forks do.
    pub keep_ids: bool,
    /// Keep the removed entries in a sidecar of the clone.
    pub keep_removed: bool,
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
    Impossible(#[from] Unmakable),
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

/// The bytes of a log, in memory or in a file.
enum CloneInput {
    Bytes(Arc<Vec<u8>>),
    /// A file and its size when it was opened.
    File(File, u64),
}

impl CloneInput {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Bytes(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            Self::File(file, _) => rethread_store::read_at(file, offset, bytes),
        }
    }

    /// Reads it, and collects what the recipe needs.
    fn read<'a>(&'a self, again: edit::ReadAt<'a>, recipe: &Recipe) -> io::Result<edit::SourceSession<'a>> {
        let (file, limit) = match self {
            Self::Bytes(bytes) => return Ok(edit::SourceSession::read(bytes)),
            Self::File(file, limit) => (file, *limit),
        };
        let mut indexer = edit::SourceIndexer::for_lazy_source(recipe, limit);
        let mut builder = FactsBuilder::for_size(limit);
        let (scanner, size) = rethread_store::scan_into_two_sinks(file, limit, &mut indexer, &mut builder)?;
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        Ok(edit::SourceSession::lazy(again, size, indexer, facts))
    }
}

/// A clone that was written, or would be.
struct CloneReport {
    /// Summary of the cloned session.
    summary: CloneSummary,
    before: ContextSize,
    after: ContextSize,
    bytes: (u64, u64),
    bytes_before: rethread_model::ByteCounts,
    counts: edit::CloneCounts,
}

impl Library {
    /// Clones a session. The source is never written to.
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
    pub fn clone_session(&self, source: &LogSource, options: &CloneOptions) -> Result<CloneRow, CloneError> {
        if source.file.is_subagent {
            return Err(Unmakable::Subagent.into());
        }
        let id = uuid::Uuid::new_v4().to_string();
        let target = self.target_of(source, &id, options)?;
        let names = self.id_map_for(source, &id, target.as_deref(), options);
        let mut beside = ClonedSidecars::for_source(source);
        let plain = options.recipe.is_plain() && source.bytes.is_none();
        // Ids that are kept need not be collected.
        let names = match &source.bytes {
            None if !options.keep_ids => names.with_entries(self.agent_entry_ids(source)),
            _ => names,
        };
        let streamed = match &target {
            Some(path) if plain => self.write_plain(source, path, &names, options, &mut beside)?,
            _ => None,
        };
        let made = match streamed {
            Some(made) => made,
            None => self.write_planned(source, target.as_deref(), &id, &names, options, &mut beside)?,
        };
        let CloneReport { summary, before, after, bytes, bytes_before, counts } = made;
        if let Some(live) = self.store.holder(&source.file).filter(|_| source.bytes.is_none()) {
            let open = match live {
                Holder::Client { pid, .. } => format!("is open in a client (process {pid})"),
                _ => "may be open in a client".to_owned(),
            };
            beside.warnings.push(format!("the session {open}: the clone contains what was written so far"));
        }
        if target.as_deref().is_some_and(|path| config_root(path).is_none()) {
            beside.warnings.push(
                "the clone is outside the config directories, so clients do not find it (--to DIR writes it to a project)".into(),
            );
        }
        if let Some(path) = &target {
            add_to_client_index(path, &id, &summary, &mut beside.warnings);
        }
        Ok(CloneRow {
            r#type: "clone",
            source: source.file.id.clone(),
            id: target.is_some().then(|| id.clone()),
            bytes_before: bytes.0,
            bytes_after: bytes.1,
            tokens_before: before.tokens,
            tokens_after: after.tokens,
            tokens_by: TokenSources { before: before.measure.name(), after: after.measure.name() },
            turns: summary.turns as u64,
            removed: counts,
            bytes_by: bytes_by_kind(&bytes_before, &summary.bytes),
            subagents: target.is_some().then_some(beside.subagents),
            tool_results: target.is_some().then_some(beside.tool_results),
            removed_file: beside.removed.map(|path| path.to_string_lossy().into_owned()),
            warnings: beside.warnings,
            cwd: resume_dir(source, options, &summary),
            resume: target.as_ref().map(|_| format!("claude --resume {}", rethread_render::shell_word(&id))),
            path: target.map(|path| path.to_string_lossy().into_owned()),
        })
    }

    /// Writes a clone in which only ids change, while the source is read; returns `None` if that cannot be
    /// done in one pass.
    fn write_plain(
        &self,
        source: &LogSource,
        path: &Path,
        names: &IdMap<'_>,
        options: &CloneOptions,
        beside: &mut ClonedSidecars,
    ) -> Result<Option<CloneReport>, CloneError> {
        let read = |error: io::Error| CloneError::from(source.error(error));
        let written = |error: io::Error| CloneError::Write { path: path.to_owned(), source: error };
        let file = source.file.open().map_err(read)?;
        let limit = file.metadata().map_err(read)?.len();
        let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(written)?;
        let tail = options.recipe.title_line(names);
        let (renamed, facts) = write_renamed(&file, limit, names, &tail, &mut part).map_err(written)?;
        let facts = facts.map_err(read)?;
        // The clone is checked while it is synced to disk.
        let (session, (clone_summary, harm)) = std::thread::scope(|scope| {
            let part = &part;
            let synced = scope.spawn(move || part.sync());
            let session = Session::new(facts);
            // No entry was edited, so only the newest client is checked, for a warning.
            let looked = summarise_and_check(&session, &[Client::NEWEST]);
            join_io(synced).map(|()| (session, looked))
        })
        .map_err(written)?;
        crate::library::reject_non_log(source, &session.facts)?;
        ensure_clonable(&session)?;
        if renamed.has_non_uuid_ids {
            return Ok(None);
        }
        let made = sidecars::ClonedSession { session: &session, names, cloned: None };
        self.finish(source, &made, path, part, options, beside)?;
        push_finding_warning(&harm, &mut beside.warnings);
        if renamed.torn {
            beside.warnings.push("the last line was only partly written and is not in the clone".into());
        }
        Ok(Some(CloneReport {
            before: clone_summary.context,
            after: clone_summary.context,
            bytes: (limit, renamed.bytes),
            bytes_before: session.facts.bytes,
            counts: edit::CloneCounts::default(),
            summary: clone_summary,
        }))
    }

    /// Writes the sidecars of a clone and then publishes its log.
    fn finish(
        &self,
        source: &LogSource,
        made: &sidecars::ClonedSession<'_>,
        path: &Path,
        part: NewSession,
        options: &CloneOptions,
        beside: &mut ClonedSidecars,
    ) -> Result<(), CloneError> {
        // Sidecars are written first: a session exists once its log does.
        let written = self.write_sidecars(source, made, path, options, beside).and_then(|()| part.finish());
        written.map_err(|source| {
            rethread_store::remove_tree(&ConfinedPath::of_file(path).with_extension(""));
            if let Some(history) = sidecars::file_history_dir(path) {
                rethread_store::remove_tree(&history);
            }
            CloneError::Write { path: path.to_owned(), source }
        })
    }

    /// Opens a log for editing.
    fn log_of(&self, source: &LogSource) -> Result<CloneInput, CloneError> {
        if source.bytes.is_none() {
            let file = source.file.open().map_err(|error| source.error(error))?;
            let len = file.metadata().map_err(|error| source.error(error))?.len();
            return Ok(CloneInput::File(file, len));
        }
        Ok(CloneInput::Bytes(self.bytes_of(source)?))
    }

    /// Plans a clone and writes it, unless this is a dry run.
    fn write_planned(
        &self,
        source: &LogSource,
        target: Option<&Path>,
        id: &str,
        names: &IdMap<'_>,
        options: &CloneOptions,
        beside: &mut ClonedSidecars,
    ) -> Result<CloneReport, CloneError> {
        let log = self.log_of(source)?;
        let again = |offset: u64, bytes: &mut [u8]| log.read_at(offset, bytes);
        let mut recipe = options.recipe.clone();
        let mut read = log.read(&again, &recipe).map_err(|error| source.error(error))?;
        crate::library::reject_non_log(source, &read.session.facts)?;
        ensure_clonable(&read.session)?;
        let (size, bytes_before) = (read.size(), read.session.facts.bytes);
        let plain = recipe.is_plain();
        let ready = edit::normalise_source(&read, &recipe)?;
        let mut before = None;
        if let Some((ready, for_it)) = &ready {
            ensure_unchanged(&read, source)?;
            before = Some(edit::context_size(&read.session));
            read = edit::SourceSession::read(ready);
            recipe = for_it.clone();
        }
        if let Some(compress) = &mut recipe.compress {
            compress.transcripts = options.summariser.is_some();
            compress.show_command = options.keep_removed.then(|| format!("rethread show {id} --removed"));
        }
        let (mut cloned, before) = std::thread::scope(|scope| {
            let context = scope.spawn(|| before.unwrap_or_else(|| edit::context_size(&read.session)));
            let cloned = edit::plan_clone(&read, &recipe, names.clone());
            cloned.map(|cloned| (cloned, join_thread(context)))
        })?;
        if let (Some(summariser), Some(compress)) = (&options.summariser, &mut recipe.compress)
            && !cloned.turns.is_empty()
        {
            let (summaries, failed) = summariser.summarise(&cloned.turns);
            beside.warnings.extend(failed);
            *compress = CompressOptions { summaries, ..compress.clone() };
            cloned = edit::plan_clone(&read, &recipe, names.clone())?;
        }
        // A clone that differs only in its ids, or is not written, needs no check against every client.
        let clients = if plain || target.is_none() { &Client::IN_USE[..] } else { &Client::ALL };
        let look = |reading: CloneReading| match reading {
            CloneReading::Predicted(clone_summary, harm) => (*clone_summary, harm),
            CloneReading::Reread(session) => summarise_and_check(&session, clients),
            CloneReading::SameAsSource => summarise_and_check(&read.session, clients),
        };
        let mut late = Vec::new();
        let (clone_summary, bytes) = match target {
            None => {
                let sink = &mut |piece: Vec<u8>| {
                    beside.record_results(&piece);
                    Ok(piece)
                };
                let written = cloned.write(sink);
                ensure_unchanged(&read, source)?;
                let failed = |source| CloneError::Write { path: PathBuf::new(), source };
                let outcome = written.map_err(failed)?;
                let (clone_summary, harm) = look(outcome.reading);
                late = harm;
                (clone_summary, outcome.bytes)
            }
            Some(path) => {
                let failed = |source: io::Error| CloneError::Write { path: path.to_owned(), source };
                let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
                let written = write_clone(&cloned, &mut part, beside);
                ensure_unchanged(&read, source)?;
                let edit::WriteOutcome { mut bytes, reading, .. } = written.map_err(failed)?;
                // The clone is checked while it is synced to disk.
                let (synced, (mut clone_summary, harm)) = std::thread::scope(|scope| {
                    let part = &part;
                    let synced = scope.spawn(move || part.sync());
                    let looked = look(reading);
                    (join_io(synced), looked)
                });
                synced.map_err(failed)?;
                if !plain && harm.iter().any(|finding| finding.kind.is_repairable()) {
                    // Repair what the recipe could not foresee.
                    let made = cloned.bytes();
                    ensure_unchanged(&read, source)?;
                    let made = made.map_err(failed)?;
                    let repaired = edit::repair(&made);
                    part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
                    part.write(&repaired.bytes).map_err(failed)?;
                    beside.warnings.push("the session had defects; the clone was repaired".into());
                    let (repaired_summary, harm) =
                        summarise_and_check(&Session::read(&repaired.bytes), &Client::ALL);
                    push_finding_warning(&harm, &mut beside.warnings);
                    (clone_summary, bytes) = (repaired_summary, repaired.bytes.len() as u64);
                } else if plain {
                    late = harm;
                } else {
                    push_finding_warning(&harm, &mut beside.warnings);
                }
                let made = sidecars::ClonedSession {
                    session: &read.session,
                    names: cloned.id_map(),
                    cloned: Some(&cloned).filter(|cloned| !cloned.is_plain()),
                };
                self.finish(source, &made, path, part, options, beside)?;
                (clone_summary, bytes)
            }
        };
        push_clone_warnings(&cloned, &recipe, &mut beside.warnings);
        push_finding_warning(&late, &mut beside.warnings);
        let counts = cloned.counts;
        let changes = recipe.tools.has_edits() || recipe.strip_thinking || counts.turns > 0;
        let after = match (plain, changes) {
            (true, _) => before,
            // Part of a conversation has its own measurement, from when it was the whole context.
            (false, false) => clone_summary.context,
            (false, true) => before.with_estimate(clone_summary.context.estimate),
        };
        Ok(CloneReport { summary: clone_summary, before, after, bytes: (size, bytes), bytes_before, counts })
    }

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

    fn id_map_for<'n>(
        &self,
        source: &LogSource,
        id: &str,
        target: Option<&Path>,
        options: &CloneOptions,
    ) -> IdMap<'n> {
        let names = IdMap::new(&source.file.id, id, options.keep_ids);
        let project = |path: &Path| Some(path.parent()?.file_name()?.to_string_lossy().into_owned());
        match (project(&source.file.path), target.and_then(project)) {
            (Some(from), Some(to)) => names.in_project(&from, &to),
            _ => names,
        }
    }
}

/// Returns the directory to resume the clone in: clients before 2.1.325 search only that directory's project.
fn resume_dir(source: &LogSource, options: &CloneOptions, clone_summary: &CloneSummary) -> Option<String> {
    if let Some(to) = &options.to {
        return to.canonicalize().ok().map(|dir| dir.to_string_lossy().into_owned());
    }
    let project = source.file.path.parent()?.file_name()?.to_string_lossy().into_owned();
    clone_summary.cwds.iter().find(|cwd| rethread_store::is_project_dir_for(&project, cwd)).cloned()
}

/// Adds the clone to the session index that some clients keep.
fn add_to_client_index(path: &Path, id: &str, clone_summary: &CloneSummary, warnings: &mut Vec<String>) {
    let listed = rethread_store::IndexEntry {
        id: id.to_owned(),
        first_prompt: clone_summary.first_prompt.clone().unwrap_or_else(|| "No prompt".into()),
        messages: clone_summary.messages as u64,
        created: clone_summary.span.and_then(|(first, _)| first.to_iso()),
        modified: clone_summary.span.and_then(|(_, last)| last.to_iso()),
        git_branch: clone_summary.branches.last().cloned(),
        project: clone_summary.cwds.first().cloned(),
    };
    if let Err(error) = rethread_store::add_to_index(path, &listed) {
        warnings.push(format!("sessions-index.json was not updated: {error}"));
    }
}

/// Summarises a session, and finds content that some of these clients lose or refuse.
fn summarise_and_check(session: &Session, clients: &[Client]) -> (CloneSummary, Vec<Finding>) {
    std::thread::scope(|scope| {
        let clone_summary = scope.spawn(|| CloneSummary::of(session));
        let harm = harmful_findings(session, clients);
        (join_thread(clone_summary), harm)
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

/// Fails for a session that has nothing to resume.
fn ensure_clonable(session: &Session) -> Result<(), Unmakable> {
    if session.facts.is_all_sidechain() {
        return Err(Unmakable::Subagent);
    }
    let said = session.facts.nodes.iter().any(rethread_model::Node::is_conversation);
    if said { Ok(()) } else { Err(Unmakable::Empty) }
}

fn bytes_by_kind(
    before: &rethread_model::ByteCounts,
    after: &rethread_model::ByteCounts,
) -> Vec<BytesByKind> {
    let (before, after) = (before.by_kind(), after.by_kind());
    let both = before.into_iter().zip(after);
    let is_sent = |kind: &str| {
        matches!(kind, "text" | "thinking" | "tool_input" | "tool_result" | "media" | "attachments")
    };
    both.map(|((kind, before), (_, after))| BytesByKind { kind, before, after, sent: is_sent(kind) })
        .collect()
}
