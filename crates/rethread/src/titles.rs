//! Titles that stand in another file than the session they are about.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use rethread_model::{Facts, Title, TitleSource, Uid, heading, title};
use rethread_store::{SessionFile, contains, read_facts, uuids_in};
use rustc_hash::FxHashMap;

use crate::library::{Library, Source};

/// What a session is called, as far as its own file tells.
#[derive(Debug, Clone)]
pub(crate) struct Titled {
    file: SessionFile,
    pub(crate) title: Title,
    /// What the file says of other sessions.
    summaries: Vec<(Uid, String)>,
    /// A summary in another file would be a better title.
    open: bool,
}

impl Titled {
    /// Takes the title that a log has itself.
    pub(crate) fn new(facts: &Facts, file: &SessionFile) -> Self {
        let title = title(facts, None);
        let open = title.source >= TitleSource::FirstPrompt && !facts.places.is_empty();
        Self { file: file.clone(), title, summaries: facts.summaries.clone(), open }
    }

    fn dir(&self) -> PathBuf {
        self.file.path.parent().map(Path::to_owned).unwrap_or_default()
    }
}

impl Library {
    /// Finds the title of a session; clients before 2.1 wrote some into other files of the project.
    pub fn title(&self, source: &Source, facts: &Facts) -> Title {
        let mut own = Titled::new(facts, &source.file);
        let is_old = |version: &str| ["0.", "1.", "2.0."].iter().any(|start| version.starts_with(start));
        if own.open && source.bytes.is_none() && facts.versions.iter().any(|(version, _)| is_old(version)) {
            let files = self.store.sessions_in(&own.dir(), false);
            let summaries_of = |file: &SessionFile| {
                let other = file.path != source.file.path && contains(file, SUMMARY).ok()?;
                let (facts, _) = other.then(|| read_facts(file).ok()).flatten()?;
                Some(Titled { open: false, ..Titled::new(&facts, file) })
            };
            let mut others: Vec<Titled> = files.par_iter().filter_map(summaries_of).collect();
            from_elsewhere(others.iter_mut().chain([&mut own]));
        }
        own.title
    }
}

/// What every summary entry of a client contains.
const SUMMARY: &[u8] = b"\"type\":\"summary\"";

/// Summaries of old clients lie in other files than the sessions that they are about. Those that
/// found no entry in their own file are looked for in the sessions of the project without a title.
pub(crate) fn from_elsewhere<'t>(titled: impl Iterator<Item = &'t mut Titled>) {
    let mut titled: Vec<&mut Titled> = titled.collect();
    let mut by_dir: FxHashMap<PathBuf, FxHashMap<Uid, String>> = FxHashMap::default();
    for titled in titled.iter_mut().filter(|titled| !titled.summaries.is_empty()) {
        by_dir.entry(titled.dir()).or_default().extend(std::mem::take(&mut titled.summaries));
    }
    if by_dir.is_empty() {
        return;
    }
    titled.par_iter_mut().filter(|titled| titled.open).for_each(|titled| {
        let Some(summaries) = by_dir.get(&titled.dir()) else { return };
        let here = uuids_in(&titled.file, &|uid| summaries.contains_key(&uid)).unwrap_or_default();
        if let Some(text) = here.last().and_then(|uid| summaries.get(uid)) {
            let text = heading(text);
            if !text.is_empty() {
                titled.title = Title { text, source: TitleSource::Summary };
            }
        }
    });
}
