//! Reads sessions in the background.
//!
//! One or two threads take jobs from one queue: the preview of the selected session first, then visible rows, then the rest,
//! newest first, with very large logs at the end. Each thread holds at most one session in memory.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use rethread::{
    Catalog, CheckOptions, Client, Error, Library, LogSource, SessionSummary, TextSource, TranscriptOptions,
    TranscriptSubagent, TurnBound, TurnRange,
};
use rethread_picker::{ContentMatch, HitExcerpt, SessionPreview};
use rethread_render::{
    DisplayOptions, ShowOptions, StyledLine, ToolDetail, conversation_lines, format_bytes,
};

/// Maximum number of threads. One core is left for the keys.
const MAX_THREADS: usize = 2;
/// Logs of this size are read after all others.
const LARGE_BYTES: u64 = 32 << 20;
/// Logs larger than this have no preview, because it would hold them in memory.
const MAX_PREVIEW_BYTES: u64 = 256 << 20;
/// Results that wait for the picker; the threads pause when there are more.
const MAX_WAITING: usize = 1024;
/// Lines of the preview at the beginning and at the end of a conversation.
const FIRST_LINES: usize = 60;
const LAST_LINES: usize = 100;
/// Lines that are formatted to find the last ones of a turn.
const MAX_LINES: usize = 5000;
/// Lines of the preview from the message of a hit on.
const MAX_HIT_LINES: usize = 1000;
/// Turns at the end of a conversation.
const LAST_TURNS: usize = 2;

/// The result of a job. Sessions are numbered as in the catalog.
pub(super) enum LoadResult {
    Summary(usize, Box<Result<Option<SessionSummary>, Error>>),
    Preview(usize, Result<Box<SessionPreview>, String>),
}

/// The threads that read sessions.
pub(super) struct Loader {
    shared: Arc<SharedQueue>,
    results: Receiver<(u32, LoadResult)>,
    /// For the threads, until they are started.
    sender: Option<SyncSender<(u32, LoadResult)>>,
    generation: u32,
}

struct SharedQueue {
    queue: Mutex<LoadQueue>,
    has_jobs: Condvar,
    library: Library,
    /// Colours and times of previews.
    display: DisplayOptions,
}

struct LoadQueue {
    catalog: Arc<Catalog>,
    /// The number of catalogs before this one; results of an earlier one are dropped.
    generation: u32,
    /// The preview that was requested.
    preview: Option<PreviewRequest>,
    /// Visible rows.
    urgent: VecDeque<usize>,
    rest: VecDeque<usize>,
    /// Set for each session that has been read or is being read.
    is_taken: Vec<bool>,
}

/// A session whose preview was requested, the width of its lines, and the hit at which it opens.
struct PreviewRequest {
    at: usize,
    width: usize,
    hit: Option<ContentMatch>,
}

/// A log to read.
enum LoadJob {
    Summary(usize),
    Preview(PreviewRequest),
}

impl Loader {
    pub(super) fn new(library: &Library, catalog: &Arc<Catalog>, display: &DisplayOptions) -> Self {
        let (sender, results) = sync_channel(MAX_WAITING);
        let all = (0..catalog.logs.len()).collect();
        let queue = Mutex::new(LoadQueue::new(Arc::clone(catalog), 0, all));
        let (library, display) = (library.clone(), display.clone());
        let shared = Arc::new(SharedQueue { queue, has_jobs: Condvar::new(), library, display });
        Self { shared, results, sender: Some(sender), generation: 0 }
    }

    /// Starts reading, once. The first frame is drawn before, with all cores.
    pub(super) fn start(&mut self) {
        let Some(sender) = self.sender.take() else { return };
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..n_cores.saturating_sub(1).clamp(1, MAX_THREADS) {
            let (shared, sender) = (Arc::clone(&self.shared), sender.clone());
            thread::spawn(move || shared.work(&sender));
        }
    }

    /// Continues with another catalog, of which these logs have not been read.
    pub(super) fn replace(&mut self, catalog: &Arc<Catalog>, unread: Vec<usize>) {
        self.generation += 1;
        *self.shared.lock() = LoadQueue::new(Arc::clone(catalog), self.generation, unread);
        self.shared.has_jobs.notify_all();
    }

    /// Sets the sessions to read before others.
    pub(super) fn set_urgent(&self, urgent: Vec<usize>) {
        self.shared.lock().urgent = urgent.into();
    }

    /// Requests a preview; one that was requested before and has not been begun is dropped.
    pub(super) fn request_preview(&self, at: usize, width: usize, hit: Option<ContentMatch>) {
        self.shared.lock().preview = Some(PreviewRequest { at, width, hit });
        self.shared.has_jobs.notify_one();
    }

    /// Returns what has been read since the last call.
    pub(super) fn results(&self) -> impl Iterator<Item = LoadResult> + '_ {
        let is_current = |(generation, _): &(u32, LoadResult)| *generation == self.generation;
        self.results.try_iter().take(MAX_WAITING).filter(is_current).map(|(_, result)| result)
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, LoadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until the picker is gone.
    fn work(&self, sender: &SyncSender<(u32, LoadResult)>) {
        loop {
            let (catalog, generation, job) = self.next_job();
            let result = match job {
                LoadJob::Summary(at) => {
                    let mut summary = catalog.summary(&catalog.logs[at]);
                    if let Ok(Some(summary)) = &mut summary {
                        // Possibly long, and not shown.
                        summary.first_prompt = None;
                    }
                    LoadResult::Summary(at, Box::new(summary))
                }
                LoadJob::Preview(PreviewRequest { at, width, hit }) => {
                    let display = DisplayOptions { width: Some(width), escape: true, ..self.display.clone() };
                    let preview = read_preview(&self.library, &catalog.logs[at], hit.as_ref(), &display);
                    LoadResult::Preview(at, preview.map(Box::new))
                }
            };
            if sender.send((generation, result)).is_err() {
                return;
            }
        }
    }

    /// Waits for a job.
    fn next_job(&self) -> (Arc<Catalog>, u32, LoadJob) {
        let mut queue = self.lock();
        loop {
            if let Some(job) = queue.pop() {
                return (Arc::clone(&queue.catalog), queue.generation, job);
            }
            queue = self.has_jobs.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl LoadQueue {
    fn new(catalog: Arc<Catalog>, generation: u32, unread: Vec<usize>) -> Self {
        let mut is_taken = vec![true; catalog.logs.len()];
        for &at in &unread {
            is_taken[at] = false;
        }
        let (large, usual): (Vec<usize>, Vec<usize>) =
            unread.into_iter().partition(|&at| catalog.logs[at].file.bytes >= LARGE_BYTES);
        let rest = usual.into_iter().chain(large).collect();
        Self { catalog, generation, preview: None, urgent: VecDeque::new(), rest, is_taken }
    }

    fn pop(&mut self) -> Option<LoadJob> {
        if let Some(request) = self.preview.take() {
            return Some(LoadJob::Preview(request));
        }
        let Self { urgent, rest, is_taken, .. } = self;
        let urgent = std::iter::from_fn(|| urgent.pop_front()).find(|&at| !is_taken[at]);
        let at = urgent.or_else(|| std::iter::from_fn(|| rest.pop_front()).find(|&at| !is_taken[at]))?;
        self.is_taken[at] = true;
        Some(LoadJob::Summary(at))
    }
}

/// Reads what the preview shows of a session.
fn read_preview(
    library: &Library,
    log: &LogSource,
    hit: Option<&ContentMatch>,
    display: &DisplayOptions,
) -> Result<SessionPreview, String> {
    if log.file.bytes > MAX_PREVIEW_BYTES {
        return Err(format!("{} are too large for a preview; ^S shows it", format_bytes(log.file.bytes)));
    }
    let loaded = library.load(log).map_err(|error| error.to_string())?;
    let mut summary = log.summary().map_err(|error| error.to_string())?;
    summary.title = library.title(&loaded);
    summary.is_live = library.holder(log).is_some();
    let options = CheckOptions::new().now(crate::terminal::now().into());
    let report = library.check(log, &options).ok();
    let paths = library.tree(&loaded, Client::NEWEST);
    let turns = paths.iter().find(|path| path.path.main).map(|path| path.turns as usize);
    let mut preview = SessionPreview {
        summary,
        paths,
        report,
        beginning: Vec::new(),
        omitted_turns: 0,
        end: Vec::new(),
        excerpt: hit.and_then(|hit| read_excerpt(library, log, hit, display)),
    };
    if preview.excerpt.is_some() {
        return Ok(preview);
    }
    let Some(turns) = turns else { return Ok(preview) };
    let n_shown = 1 + LAST_TURNS;
    if turns <= n_shown {
        preview.beginning = lines(library, log, TurnRange::default(), display);
        let n = preview.beginning.len();
        if n > FIRST_LINES + LAST_LINES {
            preview.beginning.drain(FIRST_LINES..n - LAST_LINES);
        }
        return Ok(preview);
    }
    let first = TurnRange { first: None, last: Some(TurnBound::FromStart(1)) };
    preview.beginning = lines(library, log, first, display);
    preview.beginning.truncate(FIRST_LINES);
    preview.omitted_turns = turns - n_shown;
    let last = TurnRange { first: Some(TurnBound::FromEnd(LAST_TURNS)), last: None };
    preview.end = lines(library, log, last, display);
    preview.end.drain(..preview.end.len().saturating_sub(LAST_LINES));
    Ok(preview)
}

/// Formats some turns of the conversation; nothing if they cannot be read.
fn lines(library: &Library, log: &LogSource, turns: TurnRange, display: &DisplayOptions) -> Vec<StyledLine> {
    let options = TranscriptOptions { turns: Some(turns), ..TranscriptOptions::default() };
    transcript_lines(library, log, &options, ToolDetail::Brief, MAX_LINES, display).unwrap_or_default()
}

/// Reads the conversation from the message of a hit on; `None` if it is not on any path.
fn read_excerpt(
    library: &Library,
    log: &LogSource,
    found: &ContentMatch,
    display: &DisplayOptions,
) -> Option<HitExcerpt> {
    let message = found.hit.message?;
    let is_subagent = found.path != log.file.path;
    let log = if is_subagent { &library.find_one(&found.path).ok()? } else { log };
    let tools = match found.hit.source {
        TextSource::Input | TextSource::Output => ToolDetail::Full,
        _ => ToolDetail::Brief,
    };
    let options = TranscriptOptions { from: Some(message.into()), ..TranscriptOptions::default() };
    let lines = transcript_lines(library, log, &options, tools, MAX_HIT_LINES, display)?;
    Some(HitExcerpt { message, is_subagent, lines })
}

/// Formats the beginning of a transcript; `None` if it cannot be read.
fn transcript_lines(
    library: &Library,
    log: &LogSource,
    options: &TranscriptOptions,
    tools: ToolDetail,
    max_lines: usize,
    display: &DisplayOptions,
) -> Option<Vec<StyledLine>> {
    let loaded = library.transcript(log, options).ok()?;
    let subagent = |_: &TranscriptSubagent<'_>| "subagent".to_owned();
    let options = ShowOptions { tools, subagent: &subagent, next: None, limit: None };
    conversation_lines(&loaded.transcript(), &options, display, max_lines).ok()
}
