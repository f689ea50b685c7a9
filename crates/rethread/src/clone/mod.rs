//! A session cloned: planned, written beside others, with what belongs to it.

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

/// What is wanted of a clone.
#[derive(Debug, Clone, Default)]
pub struct CloneOptions {
    /// What it is to be.
    pub recipe: Recipe,
    /// Keep the ids of entries, as the client's own forks do.
    pub keep_ids: bool,
    /// Keep what is cut in a file beside the clone.
    pub keep_removed: bool,
    /// The directory whose project it goes to; without one, that of the source.
    pub to: Option<PathBuf>,
    /// Write nothing.
    pub dry_run: bool,
    /// A command that sums turns up, in place of our own summaries.
    pub summariser: Option<Summariser>,
}

/// Why a session could not be cloned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloneError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// There is no such clone.
    #[error(transparent)]
    Impossible(#[from] Unmakable),
    /// It is no file, so there is no place for the clone.
    #[error("there is no place to write the clone to")]
    NoDestination,
    /// The directory that it is to go to is not there.
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// It could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Where the bytes of a log are.
enum CloneInput {
    Bytes(Arc<Vec<u8>>),
    /// In a file that had so many when it was opened.
    File(File, u64),
}

impl CloneInput {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Bytes(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            Self::File(file, _) => rethread_store::read_at(file, offset, bytes),
        }
    }

    /// Reads it, and notes what the recipe needs to know.
    fn read<'a>(&'a self, again: edit::ReadAt<'a>, recipe: &Recipe) -> io::Result<edit::SourceSession<'a>> {
        let (file, limit) = match self {
            Self::Bytes(bytes) => return Ok(edit::SourceSession::read(bytes)),
            Self::File(file, limit) => (file, *limit),
        };
        let mut noting = edit::SourceIndexer::for_lazy_source(recipe, limit);
        let mut builder = FactsBuilder::for_size(limit);
        let (scanner, size) = rethread_store::scan_into_two_sinks(file, limit, &mut noting, &mut builder)?;
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        Ok(edit::SourceSession::lazy(again, size, noting, facts))
    }
}

/// A clone that was written, or would be.
struct CloneReport {
    /// What a reader makes of the clone.
    summary: CloneSummary,
    before: ContextSize,
    after: ContextSize,
    bytes: (u64, u64),
    bytes_before: rethread_model::ByteCounts,
    counts: edit::CloneCounts,
}

impl Library {
    /// Clones a session. The source is never written to.
    pub fn clone_session(&self, source: &LogSource, options: &CloneOptions) -> Result<CloneRow, CloneError> {
        if source.file.is_subagent {
            return Err(Unmakable::Subagent.into());
        }
        let id = uuid::Uuid::new_v4().to_string();
        let target = self.target_of(source, &id, options)?;
        let names = self.id_map_for(source, &id, target.as_deref(), options);
        let mut beside = ClonedSidecars::for_source(source);
        let plain = options.recipe.is_plain() && source.bytes.is_none();
        // Ids that stay need not be known.
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
            beside.warnings.push(format!("the session {open}: the clone is what was written so far"));
        }
        if target.as_deref().is_some_and(|path| config_root(path).is_none()) {
            beside.warnings.push(
                "the clone is in no config directory, where clients look (--to DIR puts it there)".into(),
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

    /// Writes a clone in which only ids change, while the source is read; nothing if that cannot be
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
        // It is looked at while it goes to the disk.
        let (session, (gist, harm)) = std::thread::scope(|scope| {
            let part = &part;
            let synced = scope.spawn(move || part.sync());
            let session = Session::new(facts);
            // Nothing was changed, so nothing is proved: the newest client is asked, for a warning.
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
            beside
                .warnings
                .push("the last line was cut off while it was written, and is not in the clone".into());
        }
        Ok(Some(CloneReport {
            before: gist.context,
            after: gist.context,
            bytes: (limit, renamed.bytes),
            bytes_before: session.facts.bytes,
            counts: edit::CloneCounts::default(),
            summary: gist,
        }))
    }

    /// Writes what lies beside a clone and gives the clone its name.
    fn finish(
        &self,
        source: &LogSource,
        made: &sidecars::ClonedSession<'_>,
        path: &Path,
        part: NewSession,
        options: &CloneOptions,
        beside: &mut ClonedSidecars,
    ) -> Result<(), CloneError> {
        // What lies beside it comes first: a session is there when its log is.
        let written = self.write_sidecars(source, made, path, options, beside).and_then(|()| part.finish());
        written.map_err(|source| {
            rethread_store::remove_tree(&ConfinedPath::of_file(path).with_extension(""));
            if let Some(history) = sidecars::file_history_dir(path) {
                rethread_store::remove_tree(&history);
            }
            CloneError::Write { path: path.to_owned(), source }
        })
    }

    /// Opens a log that is to be edited.
    fn log_of(&self, source: &LogSource) -> Result<CloneInput, CloneError> {
        if source.bytes.is_none() {
            let file = source.file.open().map_err(|error| source.error(error))?;
            let len = file.metadata().map_err(|error| source.error(error))?.len();
            return Ok(CloneInput::File(file, len));
        }
        Ok(CloneInput::Bytes(self.bytes_of(source)?))
    }

    /// Plans a clone and writes it, if it is to be written.
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
        // Of what is its source but for the ids, and of what is not written, nothing is to be proved.
        let clients = if plain || target.is_none() { &Client::IN_USE[..] } else { &Client::ALL };
        let look = |reading: CloneReading| match reading {
            CloneReading::Predicted(gist, harm) => (*gist, harm),
            CloneReading::Reread(session) => summarise_and_check(&session, clients),
            CloneReading::SameAsSource => summarise_and_check(&read.session, clients),
        };
        let mut late = Vec::new();
        let (gist, bytes) = match target {
            None => {
                let sink = &mut |piece: Vec<u8>| {
                    beside.record_results(&piece);
                    Ok(piece)
                };
                let written = cloned.write(sink);
                ensure_unchanged(&read, source)?;
                let failed = |source| CloneError::Write { path: PathBuf::new(), source };
                let outcome = written.map_err(failed)?;
                let (gist, harm) = look(outcome.reading);
                late = harm;
                (gist, outcome.bytes)
            }
            Some(path) => {
                let failed = |source: io::Error| CloneError::Write { path: path.to_owned(), source };
                let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
                let written = write_clone(&cloned, &mut part, beside);
                ensure_unchanged(&read, source)?;
                let edit::WriteOutcome { mut bytes, reading, .. } = written.map_err(failed)?;
                // It is looked at while it goes to the disk.
                let (synced, (mut gist, harm)) = std::thread::scope(|scope| {
                    let part = &part;
                    let synced = scope.spawn(move || part.sync());
                    let looked = look(reading);
                    (join_io(synced), looked)
                });
                synced.map_err(failed)?;
                if !plain && harm.iter().any(|finding| finding.kind.is_repairable()) {
                    // What the recipe cannot see, the repair does.
                    let made = cloned.bytes();
                    ensure_unchanged(&read, source)?;
                    let made = made.map_err(failed)?;
                    let repaired = edit::repair(&made);
                    part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
                    part.write(&repaired.bytes).map_err(failed)?;
                    beside.warnings.push("the session was broken, and the clone was repaired".into());
                    let (repaired_gist, harm) =
                        summarise_and_check(&Session::read(&repaired.bytes), &Client::ALL);
                    push_finding_warning(&harm, &mut beside.warnings);
                    (gist, bytes) = (repaired_gist, repaired.bytes.len() as u64);
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
                (gist, bytes)
            }
        };
        push_clone_warnings(&cloned, &recipe, &mut beside.warnings);
        push_finding_warning(&late, &mut beside.warnings);
        let counts = cloned.counts;
        let changes = recipe.tools.has_edits() || recipe.strip_thinking || counts.turns > 0;
        let after = match (plain, changes) {
            (true, _) => before,
            // A part of a conversation was measured when it was all there was.
            (false, false) => gist.context,
            (false, true) => before.with_estimate(gist.context.estimate),
        };
        Ok(CloneReport { summary: gist, before, after, bytes: (size, bytes), bytes_before, counts })
    }

    /// Finds where the clone goes; nothing if nothing is to be written.
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
        // A session that lies elsewhere, as in a backup, becomes one of the library.
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

/// Where the clone is to be resumed: clients before 2.1.325 look in the directory's own project.
fn resume_dir(source: &LogSource, options: &CloneOptions, gist: &CloneSummary) -> Option<String> {
    if let Some(to) = &options.to {
        return to.canonicalize().ok().map(|dir| dir.to_string_lossy().into_owned());
    }
    let project = source.file.path.parent()?.file_name()?.to_string_lossy().into_owned();
    gist.cwds.iter().find(|cwd| rethread_store::is_project_dir_for(&project, cwd)).cloned()
}

/// Adds the clone to the list that some clients keep.
fn add_to_client_index(path: &Path, id: &str, gist: &CloneSummary, warnings: &mut Vec<String>) {
    let listed = rethread_store::IndexEntry {
        id: id.to_owned(),
        first_prompt: gist.first_prompt.clone().unwrap_or_else(|| "No prompt".into()),
        messages: gist.messages as u64,
        created: gist.span.and_then(|(first, _)| first.to_iso()),
        modified: gist.span.and_then(|(_, last)| last.to_iso()),
        git_branch: gist.branches.last().cloned(),
        project: gist.cwds.first().cloned(),
    };
    if let Err(error) = rethread_store::add_to_index(path, &listed) {
        warnings.push(format!("sessions-index.json was not updated: {error}"));
    }
}

/// Sums a session up, and finds what of it is lost or refused by some of these clients.
fn summarise_and_check(session: &Session, clients: &[Client]) -> (CloneSummary, Vec<Finding>) {
    std::thread::scope(|scope| {
        let gist = scope.spawn(|| CloneSummary::of(session));
        let harm = harmful_findings(session, clients);
        (join_thread(gist), harm)
    })
}

/// What of a clone is lost or refused by some of these clients.
fn harmful_findings(session: &Session, clients: &[Client]) -> Vec<Finding> {
    // The log of a subagent is nothing to resume.
    if session.facts.is_all_sidechain() || session.facts.nodes.is_empty() {
        return Vec::new();
    }
    rethread_model::harmful_findings(session, clients)
}

/// Fails if a log could not be read again as it was.
fn ensure_unchanged(read: &edit::SourceSession<'_>, source: &LogSource) -> Result<(), CloneError> {
    match read.failure() {
        Some(error) => Err(source.error(error).into()),
        None => Ok(()),
    }
}

/// A clone is something to resume.
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
