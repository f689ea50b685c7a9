//! A clone by a plan: edited, of a log in memory, or a dry run.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rethread_edit::{self as edit, CloneSummary, ContextSize, PreparedClone, Recipe, SourceSession};
use rethread_model::{ByteCounts, Client, FactsBuilder, Finding, Session};
use rethread_store::{ConfinedPath, NewSession};

use super::sidecars::{ClonedSession, ClonedSidecars};
use super::warnings::CloneObservations;
use super::write::{join_io, join_thread, write_clone};
use super::{
    CloneError, CloneTask, CloneWarning, MeasuredClone, SessionSize, ensure_clonable, ensure_unchanged,
    summarise_and_check,
};
use crate::library::{Library, LogSource};

/// The bytes of a log, in memory or in a file.
enum CloneInput {
    Bytes(Arc<Vec<u8>>),
    /// A file and its size when it was opened.
    File(File, u64),
}

impl CloneInput {
    /// Opens a log for editing.
    fn open(library: &Library, source: &LogSource) -> Result<Self, CloneError> {
        if source.bytes.is_none() {
            let file = source.file.open().map_err(|error| source.error(error))?;
            let len = file.metadata().map_err(|error| source.error(error))?.len();
            return Ok(Self::File(file, len));
        }
        Ok(Self::Bytes(library.bytes_of(source)?))
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Bytes(_) => Err(io::Error::from(io::ErrorKind::Unsupported)),
            Self::File(file, _) => rethread_store::read_at(file, offset, bytes),
        }
    }

    /// Reads it, and collects what the recipe needs.
    fn read<'a>(&'a self, again: edit::ReadAt<'a>, recipe: &Recipe) -> io::Result<SourceSession<'a>> {
        let (file, limit) = match self {
            Self::Bytes(bytes) => return Ok(SourceSession::read(bytes)),
            Self::File(file, limit) => (file, *limit),
        };
        let mut indexer = edit::SourceIndexer::for_lazy_source(recipe, limit);
        let mut builder = FactsBuilder::for_size(limit);
        let (scanner, size) = rethread_store::scan_into_two_sinks(file, limit, &mut indexer, &mut builder)?;
        let facts = builder.finish(scanner.lines(), scanner.bad_lines);
        Ok(SourceSession::lazy(again, size, indexer, facts))
    }
}

/// The source of a clone as it was found, before any repair.
#[derive(Clone, Copy)]
struct OriginalSize {
    bytes: u64,
    content: ByteCounts,
    /// Measured only if the source was repaired.
    context: Option<ContextSize>,
}

/// A planned clone.
struct PlannedClone<'a> {
    clone: PreparedClone<'a>,
    /// Tokens that a client sends for the source.
    context_before: ContextSize,
    summariser: Option<CloneWarning>,
}

/// The bytes of a clone after they were written, or would have been.
struct WrittenBytes {
    bytes: u64,
    summary: CloneSummary,
    findings: Vec<Finding>,
    is_repaired: bool,
}

impl CloneTask<'_> {
    /// Plans a clone and writes it, unless this is a dry run.
    pub(super) fn clone_planned(&self, sidecars: &mut ClonedSidecars) -> Result<MeasuredClone, CloneError> {
        let log = CloneInput::open(self.library, self.source)?;
        let again = |offset: u64, bytes: &mut [u8]| log.read_at(offset, bytes);
        let recipe = &self.options.recipe;
        let read = log.read(&again, recipe).map_err(|error| self.source.error(error))?;
        ensure_clonable(&read.session, self.source)?;
        let original = OriginalSize { bytes: read.size(), content: read.session.facts.bytes, context: None };
        let Some((normalised, recipe)) = edit::normalise_source(&read, recipe)? else {
            return self.clone_from(&read, recipe.clone(), original, sidecars);
        };
        ensure_unchanged(&read, self.source)?;
        let context = Some(edit::context_size(&read.session));
        drop(read);
        let read = SourceSession::read(&normalised);
        self.clone_from(&read, recipe, OriginalSize { context, ..original }, sidecars)
    }

    /// Clones a source in which related entries can be identified.
    fn clone_from(
        &self,
        read: &SourceSession<'_>,
        mut recipe: Recipe,
        original: OriginalSize,
        sidecars: &mut ClonedSidecars,
    ) -> Result<MeasuredClone, CloneError> {
        let PlannedClone { clone, context_before, summariser } =
            self.plan(read, &mut recipe, original.context)?;
        let written = match &self.target {
            None => self.write_nowhere(read, &clone, sidecars)?,
            Some(path) => self.write_to(path, read, &clone, sidecars)?,
        };
        let WrittenBytes { bytes, summary, findings, is_repaired } = written;
        let report = clone.report.clone();
        let changes = recipe.tools.has_edits() || recipe.strip_thinking || report.counts.turns > 0;
        let context_after = match (clone.is_plain(), changes) {
            (true, _) => context_before,
            // Part of a conversation has its own measurement, from when it was the whole context.
            (false, false) => summary.context,
            (false, true) => context_before.with_estimate(summary.context.estimate),
        };
        let observations = CloneObservations {
            report,
            condenses: recipe.compress.is_some(),
            strips: recipe.strip_thinking || recipe.tools.has_edits(),
            is_edited: !clone.is_plain() && self.target.is_some(),
            is_repaired,
            findings,
            summariser,
            ..CloneObservations::default()
        };
        let before =
            SessionSize { bytes: original.bytes, context: context_before, content: original.content };
        let after = SessionSize { bytes, context: context_after, content: summary.bytes };
        Ok(MeasuredClone { summary, before, after, observations })
    }

    /// Plans a clone, twice if a command has to summarise turns first.
    fn plan<'a>(
        &self,
        read: &'a SourceSession<'a>,
        recipe: &mut Recipe,
        context: Option<ContextSize>,
    ) -> Result<PlannedClone<'a>, CloneError> {
        if let Some(compress) = &mut recipe.compress {
            compress.transcripts = self.options.summariser.is_some();
            let command = self.options.show_removed_command.filter(|_| self.options.keep_removed);
            compress.show_command = command.map(|command| command(&self.id));
        }
        let (mut clone, context_before) = std::thread::scope(|scope| {
            let context = scope.spawn(|| context.unwrap_or_else(|| edit::context_size(&read.session)));
            let clone = edit::plan_clone(read, recipe, self.ids.clone());
            clone.map(|clone| (clone, join_thread(context)))
        })?;
        let mut failed = None;
        if let (Some(summariser), Some(compress)) = (&self.options.summariser, &mut recipe.compress)
            && !clone.report.turns.is_empty()
        {
            (compress.summaries, failed) = summariser.summarise(&clone.report.turns);
            clone = edit::plan_clone(read, recipe, self.ids.clone())?;
        }
        Ok(PlannedClone { clone, context_before, summariser: failed })
    }

    /// Builds a clone for its summary only.
    fn write_nowhere(
        &self,
        read: &SourceSession<'_>,
        clone: &PreparedClone<'_>,
        sidecars: &mut ClonedSidecars,
    ) -> Result<WrittenBytes, CloneError> {
        let written = clone.write(&mut |piece: Vec<u8>| {
            sidecars.record_results(&piece);
            Ok(piece)
        });
        ensure_unchanged(read, self.source)?;
        let written = written.map_err(|source| CloneError::Write { path: PathBuf::new(), source })?;
        // It is not written, so it needs no check against every client.
        let session = written.session.as_ref().unwrap_or(&read.session);
        let (summary, findings) = summarise_and_check(session, &Client::IN_USE);
        Ok(WrittenBytes { bytes: written.bytes, summary, findings, is_repaired: false })
    }

    /// Writes a clone, and repairs it if clients would lose something of it.
    fn write_to(
        &self,
        path: &Path,
        read: &SourceSession<'_>,
        clone: &PreparedClone<'_>,
        sidecars: &mut ClonedSidecars,
    ) -> Result<WrittenBytes, CloneError> {
        let failed = |source: io::Error| CloneError::Write { path: path.to_owned(), source };
        let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
        let written = write_clone(clone, &mut part, sidecars);
        ensure_unchanged(read, self.source)?;
        let edit::WriteOutcome { bytes, session, .. } = written.map_err(failed)?;
        // A clone that differs only in its ids needs no check against every client.
        let clients = if clone.is_plain() { &Client::IN_USE[..] } else { &Client::ALL };
        // The clone is checked while it is synced to disk.
        let (synced, (summary, findings)) = std::thread::scope(|scope| {
            let part = &part;
            let synced = scope.spawn(move || part.sync());
            let checked = summarise_and_check(session.as_ref().unwrap_or(&read.session), clients);
            (join_io(synced), checked)
        });
        synced.map_err(failed)?;
        let is_repaired = !clone.is_plain() && findings.iter().any(|finding| finding.kind.is_repairable());
        let mut written = WrittenBytes { bytes, summary, findings, is_repaired };
        if is_repaired {
            (part, written) = self.write_repaired(path, read, clone)?;
        }
        let cloned = ClonedSession {
            session: &read.session,
            names: clone.id_map(),
            cloned: Some(clone).filter(|clone| !clone.is_plain()),
        };
        self.publish(&cloned, path, part, sidecars)?;
        Ok(written)
    }

    /// Writes a clone again, with repairs that its plan could not foresee.
    fn write_repaired(
        &self,
        path: &Path,
        read: &SourceSession<'_>,
        clone: &PreparedClone<'_>,
    ) -> Result<(NewSession, WrittenBytes), CloneError> {
        let failed = |source: io::Error| CloneError::Write { path: path.to_owned(), source };
        let bytes = clone.bytes();
        ensure_unchanged(read, self.source)?;
        let bytes = bytes.map_err(failed)?;
        let repaired = edit::repair(&bytes);
        let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(failed)?;
        part.write(&repaired.bytes).map_err(failed)?;
        let (summary, findings) = summarise_and_check(&Session::read(&repaired.bytes), &Client::ALL);
        let bytes = repaired.bytes.len() as u64;
        Ok((part, WrittenBytes { bytes, summary, findings, is_repaired: true }))
    }
}
