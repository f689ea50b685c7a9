//! A clone without edits, written while its source is read; see `rethread_edit::IdRenamer`.

use std::io;

use rethread_model::{Client, Session};
use rethread_store::{ConfinedPath, NewSession};

use super::sidecars::{ClonedSession, ClonedSidecars};
use super::warnings::CloneObservations;
use super::write::{join_io, write_renamed};
use super::{CloneError, CloneTask, MeasuredClone, SessionSize, ensure_clonable, summarise_and_check};

impl CloneTask<'_> {
    /// Writes a clone in which only ids change; returns `None` if it has edits, is not written to a file, or cannot
    /// be made in one pass.
    pub(super) fn clone_streamed(
        &self,
        sidecars: &mut ClonedSidecars,
    ) -> Result<Option<MeasuredClone>, CloneError> {
        let path = match &self.target {
            Some(path) if self.options.recipe.is_plain() && self.source.bytes.is_none() => path,
            _ => return Ok(None),
        };
        let read = |error: io::Error| CloneError::from(self.source.error(error));
        let written = |error: io::Error| CloneError::Write { path: path.clone(), source: error };
        let file = self.source.file.open().map_err(read)?;
        let limit = file.metadata().map_err(read)?.len();
        let mut part = NewSession::begin(&ConfinedPath::of_file(path)).map_err(written)?;
        let title = self.options.recipe.title_line(&self.ids);
        let (renamed, facts) = write_renamed(&file, limit, &self.ids, &title, &mut part).map_err(written)?;
        let facts = facts.map_err(read)?;
        // The clone is checked while it is synced to disk.
        let (session, (summary, findings)) = std::thread::scope(|scope| {
            let part = &part;
            let synced = scope.spawn(move || part.sync());
            let session = Session::new(facts);
            // No entry was edited, so only the newest client is checked, for a warning.
            let checked = summarise_and_check(&session, &[Client::NEWEST]);
            join_io(synced).map(|()| (session, checked))
        })
        .map_err(written)?;
        ensure_clonable(&session, self.source)?;
        if renamed.has_non_uuid_ids {
            return Ok(None);
        }
        let cloned = ClonedSession { session: &session, names: &self.ids, cloned: None };
        self.publish(&cloned, path, part, sidecars)?;
        let observations =
            CloneObservations { findings, torn_line: renamed.torn, ..CloneObservations::default() };
        let before = SessionSize { bytes: limit, context: summary.context, content: session.facts.bytes };
        let after = SessionSize { bytes: renamed.bytes, content: summary.bytes, ..before };
        Ok(Some(MeasuredClone { summary, before, after, observations }))
    }
}
