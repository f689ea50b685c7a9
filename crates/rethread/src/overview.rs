//! A session described for a person.

use rethread_edit::{Measure, context_size};
use rethread_model::{SessionInfo, SessionOverview, Severity};

use crate::check::CheckOptions;
use crate::library::{Library, LogSource};
use crate::ls::summarise;

impl Library {
    /// Describes a session for a person: its summary, its counts, the size of its context, and its findings. Takes
    /// longer than [`Library::info`], because it predicts what clients send.
    ///
    /// ```
    /// use rethread::{CheckOptions, Library};
    ///
    /// let library = Library::demo();
    /// let overview = library.overview(&library.find_one("0000d001")?, &CheckOptions::new())?;
    /// assert_eq!(overview.summary.turns, overview.info.inventory.turns);
    /// assert!(overview.findings.is_empty());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn overview(
        &self,
        source: &LogSource,
        options: &CheckOptions,
    ) -> Result<SessionOverview, crate::Error> {
        let _turn = source.lock_if_large();
        let (session, bytes) = self.read(source)?;
        let info = || SessionInfo::new(source.id(), source.file.path.clone(), &session, bytes);
        let (mut info, findings) = rayon::join(info, || options.findings(source, &session));
        let mut summary = summarise(&session, source, bytes);
        summary.title = self.title_of(source, &session.facts);
        source.add_origin_to(&mut summary);
        let agents = self.agents_of(source).len() as u64;
        info.inventory.subagents += agents;
        summary.subagents += agents;
        let worst = findings.iter().map(|finding| finding.severity).max();
        summary.severity = Some(worst.unwrap_or(Severity::Harmless));
        let context = context_size(&session);
        Ok(SessionOverview {
            summary,
            info,
            context_tokens: context.tokens,
            context_is_recorded: context.measure == Measure::Recorded,
            findings,
        })
    }
}
