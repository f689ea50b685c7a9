//! Titles that are stored in another file than their session.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use rethread_model::{Facts, LogSummary, SessionSummary, Title, TitleSource, Uid, heading, title};
use rethread_store::{SessionFile, find_uuids, log_contains, read_facts};
use rustc_hash::FxHashMap;

use crate::library::{Library, LogSource};
use crate::session::LoadedSession;

/// The title of a session, according to its own file.
#[derive(Debug, Clone)]
pub(crate) struct TitleInFile {
    file: SessionFile,
    pub(crate) title: Title,
    /// Summaries in this file of other sessions.
    summaries: Vec<(Uid, String)>,
    /// A summary in another file would be a better title.
    accepts_summary: bool,
}

impl TitleInFile {
    /// Determines the title from the log itself.
    pub(crate) fn new(facts: &Facts, file: &SessionFile) -> Self {
        let title = title(facts, None);
        let open = title.source >= TitleSource::FirstPrompt && !facts.locations.is_empty();
        Self { file: file.clone(), title, summaries: facts.summaries.clone(), accepts_summary: open }
    }

    /// Returns the title of a log that was summarised, and the summary.
    pub(crate) fn of_summary(known: LogSummary, file: &SessionFile) -> (Self, SessionSummary) {
        let LogSummary { mut summary, other_titles, accepts_title, .. } = known;
        let none = Title { text: String::new(), source: TitleSource::None };
        let title = std::mem::replace(&mut summary.title, none);
        let titled =
            Self { file: file.clone(), title, summaries: other_titles, accepts_summary: accepts_title };
        (titled, summary)
    }

    fn dir(&self) -> PathBuf {
        self.file.path.parent().map(Path::to_owned).unwrap_or_default()
    }
}

/// The summaries in the logs of each project directory read so far.
pub(crate) type SummaryCache = Mutex<FxHashMap<PathBuf, Arc<FxHashMap<Uid, String>>>>;

impl Library {
    /// Finds the title of a session; clients before 2.1 wrote some into other files of the project.
    ///
    /// ```
    /// let library = rethread::Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// assert_eq!(library.title(&loaded).text, "Kettle: choose a sensor");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn title(&self, loaded: &LoadedSession) -> Title {
        self.title_of(&loaded.source, &loaded.session.facts)
    }

    /// Finds the title of a session whose facts were read.
    pub(crate) fn title_of(&self, source: &LogSource, facts: &Facts) -> Title {
        let own = TitleInFile::new(facts, &source.file);
        let is_old = facts.versions.iter().any(|(version, _)| wrote_titles_elsewhere(version));
        if !own.accepts_summary || source.bytes.is_some() || !is_old {
            return own.title;
        }
        let summaries = self.summaries_in(&own.dir());
        let here = summaries.iter().filter_map(|(uid, text)| Some((facts.node_of(*uid)?, text)));
        let found = here.max().map(|(_, text)| heading(text)).filter(|text| !text.is_empty());
        found.map_or(own.title, |text| Title { text, source: TitleSource::Summary })
    }

    /// Collects the summaries in the logs of a directory, once.
    fn summaries_in(&self, dir: &Path) -> Arc<FxHashMap<Uid, String>> {
        let mut known = self.summaries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(dir) {
            return Arc::clone(found);
        }
        let mut found = FxHashMap::default();
        for file in self.store.sessions_in(dir, false) {
            if log_contains(&file, SUMMARY).unwrap_or(false)
                && let Ok((facts, _)) = read_facts(&file)
            {
                found.extend(facts.summaries);
            }
        }
        let found = Arc::new(found);
        known.insert(dir.to_owned(), Arc::clone(&found));
        found
    }
}

/// Returns whether the title of a log that was summarised may be in another file.
pub(crate) fn may_be_titled_elsewhere(known: &LogSummary) -> bool {
    known.accepts_title && known.summary.versions.iter().any(|version| wrote_titles_elsewhere(version))
}

/// Returns whether clients of a version wrote titles into other files than their sessions.
fn wrote_titles_elsewhere(version: &str) -> bool {
    ["0.", "1.", "2.0."].iter().any(|start| version.starts_with(start))
}

/// A byte sequence that every summary entry contains.
const SUMMARY: &[u8] = b"\"type\":\"summary\"";

/// Applies summaries that old clients wrote into other files than their sessions. A summary that matches no
/// entry in its own file is matched against the untitled sessions of the project.
pub(crate) fn apply_other_summaries<'t>(titled: impl Iterator<Item = &'t mut TitleInFile>) {
    let mut titled: Vec<&mut TitleInFile> = titled.collect();
    let mut by_dir: FxHashMap<PathBuf, FxHashMap<Uid, String>> = FxHashMap::default();
    for titled in titled.iter_mut().filter(|titled| !titled.summaries.is_empty()) {
        by_dir.entry(titled.dir()).or_default().extend(std::mem::take(&mut titled.summaries));
    }
    if by_dir.is_empty() {
        return;
    }
    titled.par_iter_mut().filter(|titled| titled.accepts_summary).for_each(|titled| {
        let Some(summaries) = by_dir.get(&titled.dir()) else { return };
        let here = find_uuids(&titled.file, &|uid| summaries.contains_key(&uid)).unwrap_or_default();
        if let Some(text) = here.last().and_then(|uid| summaries.get(uid)) {
            let text = heading(text);
            if !text.is_empty() {
                titled.title = Title { text, source: TitleSource::Summary };
            }
        }
    });
}
