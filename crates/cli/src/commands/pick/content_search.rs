//! Searches the contents of all sessions in the background.
//!
//! One thread searches for one query at a time. A query that is requested meanwhile replaces the one that waits, because
//! only the newest is of interest. The first search builds the index.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use jiff::tz::TimeZone;
use rethread::{Catalog, Hit, Library, Query, QuerySyntax, SearchLimits, Time};
use rethread_picker::ContentMatch;

use crate::terminal::now;
use crate::time_arg;

/// Maximum number of sessions that are found.
const MAX_SESSIONS: usize = 200;
/// Characters of a text around its match.
const SNIPPET_CHARS: usize = 160;
/// Without an index, larger libraries are not searched: each query would read all logs.
const MAX_SCANNED_BYTES: u64 = 64 << 20;

/// The thread that searches.
pub(super) struct ContentSearcher {
    shared: Arc<SharedSearch>,
    results: Receiver<SearchedQuery>,
    /// For the thread, until it is started.
    sender: Option<Sender<SearchedQuery>>,
}

/// A query, and the logs that it finds, best first.
pub(super) struct SearchedQuery {
    pub(super) query: String,
    found: Vec<(PathBuf, Hit)>,
}

struct SharedSearch {
    request: Mutex<Option<SearchRequest>>,
    has_request: Condvar,
    library: Library,
    /// The zone of times in queries.
    zone: TimeZone,
    /// The bytes that have been read for the first index.
    indexed_bytes: AtomicU64,
    /// All bytes while the first index is built, otherwise 0.
    all_bytes: AtomicU64,
}

struct SearchRequest {
    query: String,
    /// The directory whose project is searched; `None` for all.
    cwd: Option<PathBuf>,
}

impl ContentSearcher {
    pub(super) fn new(library: &Library, zone: &TimeZone) -> Self {
        let (sender, results) = channel();
        let shared = SharedSearch {
            request: Mutex::default(),
            has_request: Condvar::new(),
            library: library.clone(),
            zone: zone.clone(),
            indexed_bytes: AtomicU64::new(0),
            all_bytes: AtomicU64::new(0),
        };
        Self { shared: Arc::new(shared), results, sender: Some(sender) }
    }

    /// Requests a search; one that was requested before and has not begun is dropped.
    pub(super) fn request(&mut self, query: String, cwd: Option<&Path>) {
        let request = SearchRequest { query, cwd: cwd.map(Path::to_owned) };
        *self.shared.request.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
        self.shared.has_request.notify_one();
        if let Some(sender) = self.sender.take() {
            let shared = Arc::clone(&self.shared);
            thread::spawn(move || shared.work(&sender));
        }
    }

    /// Returns the results since the last call.
    pub(super) fn results(&self) -> impl Iterator<Item = SearchedQuery> + '_ {
        self.results.try_iter()
    }

    /// Returns how much of the first index has been built, in percent, while it is built.
    pub(super) fn indexing(&self) -> Option<u8> {
        let all = self.shared.all_bytes.load(Ordering::Relaxed);
        let done = self.shared.indexed_bytes.load(Ordering::Relaxed).min(all);
        u8::try_from(done.saturating_mul(100).checked_div(all)?).ok()
    }
}

impl SearchedQuery {
    /// Returns the sessions of a catalog that were found. What was found in a subagent counts for its session.
    pub(super) fn matches(self, catalog: &Catalog) -> Vec<ContentMatch> {
        // A path takes much longer to hash, part by part.
        let paths = catalog.logs.iter().enumerate().map(|(at, log)| (log.file.path.as_os_str(), at));
        let numbers: HashMap<&OsStr, usize> = paths.collect();
        let with_number =
            |(path, hit): (PathBuf, Hit)| Some(ContentMatch { at: session_of(&path, &numbers)?, path, hit });
        self.found.into_iter().filter_map(with_number).collect()
    }
}

/// Returns the number of a log's session: `<session>/subagents/…/agent-x.jsonl` belongs to `<session>.jsonl`.
fn session_of(log: &Path, numbers: &HashMap<&OsStr, usize>) -> Option<usize> {
    let session = |dir: &Path| {
        let mut name = dir.file_name()?.to_owned();
        name.push(".jsonl");
        numbers.get(dir.with_file_name(name).as_os_str()).copied()
    };
    numbers.get(log.as_os_str()).copied().or_else(|| log.ancestors().skip(1).find_map(session))
}

impl SharedSearch {
    /// Searches until the picker is gone.
    fn work(self: &Arc<Self>, sender: &Sender<SearchedQuery>) {
        let shared = Arc::clone(self);
        let library = self.library.with_progress(move |progress| {
            shared.indexed_bytes.fetch_add(progress.bytes, Ordering::Relaxed);
        });
        loop {
            let request = self.next_request();
            let found = self.search(&library, &request);
            if sender.send(SearchedQuery { query: request.query, found }).is_err() {
                return;
            }
        }
    }

    /// Waits for a request.
    fn next_request(&self) -> SearchRequest {
        let mut request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(request) = request.take() {
                return request;
            }
            request = self.has_request.wait(request).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns the logs that a query finds; none if it is not valid.
    fn search(&self, library: &Library, request: &SearchRequest) -> Vec<(PathBuf, Hit)> {
        let typed = as_typed(&request.query);
        let today = now().to_zoned(self.zone.clone());
        let parse_time = |text: &str| -> Result<Time, String> { time_arg::parse(text, &today) };
        let syntax = QuerySyntax { parse_time: &parse_time };
        let Ok(mut query) = Query::parse(&typed, &syntax) else { return Vec::new() };
        // Regular expressions are compared with all logs, which takes seconds for each keystroke.
        if query.has_patterns() || query.is_empty() && query.filters.is_empty() {
            return Vec::new();
        }
        if let Some(cwd) = request.cwd.as_deref().and_then(Path::to_str)
            && query.add_filter("project", cwd, &syntax).is_err()
        {
            return Vec::new();
        }
        match library.index() {
            None if library.all_bytes() > MAX_SCANNED_BYTES => return Vec::new(),
            Some(index) if !index.exists() => {
                self.indexed_bytes.store(0, Ordering::Relaxed);
                self.all_bytes.store(library.all_bytes().max(1), Ordering::Relaxed);
            }
            _ => {}
        }
        // A title is shown anyway, so the second hit is of more interest.
        let limits = SearchLimits {
            sessions: MAX_SESSIONS,
            hits_per_session: 2,
            snippet_chars: SNIPPET_CHARS,
            no_index: false,
        };
        let outcome = library.search(&query, &typed, &limits);
        self.all_bytes.store(0, Ordering::Relaxed);
        let sessions = outcome.map(|outcome| outcome.results.sessions).unwrap_or_default();
        let existing = sessions.into_iter().filter(|session| !session.is_deleted);
        existing.filter_map(|session| Some((session.path, best_hit(session.hits)?))).collect()
    }
}

/// Returns the best hit in a message, or else the title.
fn best_hit(mut hits: Vec<Hit>) -> Option<Hit> {
    let at = hits.iter().position(|hit| hit.message.is_some()).unwrap_or(0);
    (at < hits.len()).then(|| hits.swap_remove(at))
}

/// Returns the query of a text that is being typed: its last word may not be complete.
fn as_typed(text: &str) -> String {
    let last = text.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_open = last.ends_with(char::is_alphanumeric) && !last.contains(':') && !text.contains('"');
    format!("{text}{}", if is_open { "*" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_of_a_subagent_belongs_to_its_session() {
        let numbers = HashMap::from([(OsStr::new("/c/projects/p/a.b.jsonl"), 7)]);
        let session = |log: &str| session_of(Path::new(log), &numbers);
        assert_eq!(session("/c/projects/p/a.b.jsonl"), Some(7));
        assert_eq!(session("/c/projects/p/a.b/subagents/agent-x.jsonl"), Some(7));
        assert_eq!(session("/c/projects/p/a.b/subagents/workflows/w/agent-x.jsonl"), Some(7));
        assert_eq!(session("/c/projects/p/a.jsonl"), None);
        assert_eq!(session("/c/projects/p/agent-x.jsonl"), None);
    }

    #[test]
    fn last_word_is_a_prefix_unless_it_is_complete() {
        for (text, expected) in [
            ("chec", "chec*"),
            ("lost chec", "lost chec*"),
            ("lost \"check po", "lost \"check po"),
            ("tool:Bash", "tool:Bash"),
            ("check*", "check*"),
            ("C++", "C++"),
        ] {
            assert_eq!(as_typed(text), expected);
        }
    }
}
