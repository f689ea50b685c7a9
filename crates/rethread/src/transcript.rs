//! Transcripts of a session: a choice of path and messages, with the earlier files, subagents and header.

use std::collections::VecDeque;
use std::path::PathBuf;

use rethread_model::{
    BranchPoint, CallId, CallSidecars, Client, MessageKind, MessageName, MessageNameError, MessageNo,
    PathIndex, PathSummary, Session, SiblingPath, StepId, StepNodes, StepStream, SubagentNo, Table,
    Transcript, TranscriptHeader, TranscriptItem, TranscriptPart, TranscriptRange, TranscriptSubagent,
    TranscriptTotals, VisibleContent,
};
use rethread_render::truncate;
use rethread_store::SessionFile;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Error;
use crate::library::{Library, LogSource};
use crate::ls::resume_dir_in;
use crate::session::{LoadedSession, RemovedLog, Subagent};

/// Options of a transcript.
#[derive(Debug, Clone, Default)]
pub struct TranscriptOptions {
    /// The path.
    pub path: TranscriptPath,
    /// The turns to show; all if it is `None`.
    pub turns: Option<TurnRange>,
    /// The message to start at. Without a choice of path, a path that contains it is shown.
    pub from: Option<MessageName>,
    /// Show only this number of messages before and after the message to start at. A result is shown with its call.
    pub around: Option<usize>,
    /// The content of messages that is shown.
    pub content: VisibleContent,
    /// The client whose rules determine the active path; the newest if it is `None`.
    pub client: Option<Client>,
}

/// The path that a transcript shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TranscriptPath {
    /// The path that a person would call the conversation: usually the one that the client would resume.
    #[default]
    Main,
    /// The path with this number.
    Number(usize),
}

/// A range of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TurnRange {
    /// The first turn; `None` is the first of the path.
    pub first: Option<TurnBound>,
    /// The last turn; `None` is the last of the path.
    pub last: Option<TurnBound>,
}

/// An end of a range of turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnBound {
    /// The number of a turn, counted from 1.
    FromStart(usize),
    /// The number of a turn counted from the end; the last turn is 1.
    FromEnd(usize),
}

impl TurnBound {
    /// Returns the number of the turn on a path with `total` turns.
    fn resolve(self, total: usize) -> usize {
        match self {
            Self::FromStart(n) => n.max(1),
            Self::FromEnd(n) => (total + 1).saturating_sub(n).max(1),
        }
    }
}

/// An error while choosing the content of a transcript.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// The session could not be read.
    #[error(transparent)]
    Session(#[from] Error),
    /// The session has no conversation.
    #[error("the session has no conversation")]
    NoConversation,
    /// There is no path with this number.
    #[error("no path {n}")]
    NoPath {
        /// The number.
        n: usize,
        /// The number of paths.
        paths: usize,
    },
    /// There is no message with this name.
    #[error("no message {name}")]
    NoMessage {
        /// The name.
        name: MessageName,
        /// The number of messages in the session.
        messages: usize,
    },
    /// The name is the beginning of several uuids.
    #[error("{name} is the beginning of several uuids")]
    AmbiguousMessage {
        /// The name.
        name: MessageName,
        /// The uuids, and the messages that they belong to.
        candidates: Vec<(String, MessageNo)>,
    },
    /// The message is not in the chosen turns.
    #[error("message {n} is not in these turns")]
    NotInTurns {
        /// Its number.
        n: MessageNo,
    },
    /// The message is on another path.
    #[error("message {n} is not on path {path_n}")]
    NotOnPath {
        /// The message.
        n: MessageNo,
        /// The path.
        path_n: usize,
    },
    /// The message belongs to a subagent, or to a branch that contains only commands and notes.
    #[error("message {n} is not on any path")]
    NotOnAnyPath {
        /// The message.
        n: MessageNo,
    },
    /// The range of turns is empty.
    #[error("no turns in the range")]
    NoTurns {
        /// The number of turns on the path.
        turns: usize,
    },
    /// The session is not a clone that kept the entries it removed.
    #[error("content removed from the session was not kept")]
    NotKept,
    /// The message was not removed.
    #[error("message {n} was not removed")]
    NotRemoved {
        /// The message.
        n: MessageNo,
    },
}

/// A transcript and the logs that it is read from.
#[derive(Debug)]
pub struct LoadedTranscript {
    /// The line at which the client would continue, if that is not the end of this path.
    pub resume_line: Option<u32>,
    /// The directory in which a client finds the session.
    pub resume_dir: Option<PathBuf>,
    /// The message that was asked for, or the message with its call.
    pub at: Option<MessageNo>,
    parts: Vec<LoadedPart>,
    header: TranscriptHeader,
    range: TranscriptRange,
    content: VisibleContent,
}

/// A log and the part of it that is shown.
#[derive(Debug)]
struct LoadedPart {
    loaded: LoadedSession,
    layout: StepNodes,
    subagents: Vec<Subagent>,
    shown: ShownSteps,
}

/// The steps of a log that are shown.
#[derive(Debug)]
enum ShownSteps {
    /// The path to a step.
    Path(StepId),
    /// All steps, in log order, with the numbers of their messages.
    All(Table<MessageNo, Option<MessageNo>>),
}

impl LoadedPart {
    fn new(loaded: LoadedSession, shown: ShownSteps) -> Self {
        Self { layout: StepNodes::new(&loaded.session), subagents: loaded.subagents(), loaded, shown }
    }

    fn steps(&self) -> StepStream<'_> {
        let (session, layout, text) = (&self.loaded.session, &self.layout, &self.loaded);
        match &self.shown {
            ShownSteps::Path(step) => StepStream::to_step(session, layout, text, (*step, None), true),
            ShownSteps::All(numbers) => {
                let by_root = session.steps_by_sidechain_root();
                StepStream::of_subagent(session, layout, text, None, &by_root).with_numbers(numbers)
            }
        }
    }

    /// Returns the part of a transcript whose subagents are numbered from `first_subagent`.
    fn transcript_part(&self, anchor_prefix: String, first_subagent: usize) -> TranscriptPart<'_> {
        let mut subagents: FxHashMap<CallId, Vec<SubagentNo>> = FxHashMap::default();
        for (index, subagent) in self.subagents.iter().enumerate() {
            if let Some(call) = subagent.call {
                subagents.entry(call).or_default().push(SubagentNo::from_index(first_subagent + index));
            }
        }
        TranscriptPart {
            session: &self.loaded.source.file.id,
            anchor_prefix,
            steps: self.steps(),
            sidecars: CallSidecars {
                subagents: subagents.into(),
                // A result is shown in full wherever it is shown.
                whole_result: Some(Box::new(|text, _| self.loaded.whole_result(text))),
            },
        }
    }
}

impl Library {
    /// Reads the transcript of a session.
    ///
    /// The earlier files of the conversation are part of it, unless only some of its messages are requested.
    /// Subagents are listed with their logs.
    ///
    /// ```
    /// use rethread::{TranscriptOptions, TranscriptPath};
    ///
    /// # let library = rethread::Library::demo();
    /// let source = library.find_one("0000d001")?;
    /// let options = TranscriptOptions { path: TranscriptPath::Number(1), ..TranscriptOptions::default() };
    /// let loaded = library.transcript(&source, &options)?;
    /// assert_eq!(loaded.transcript().header.path_n, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transcript(
        &self,
        source: &LogSource,
        options: &TranscriptOptions,
    ) -> Result<LoadedTranscript, TranscriptError> {
        let loaded = self.load(source)?;
        let wanted = options.from.as_ref().map(|name| message_named(&loaded, name)).transpose()?;
        let summaries: Table<PathIndex, _> = loaded.tree(options.client.unwrap_or(Client::NEWEST)).into();
        let at = choose_path(&loaded, &summaries, options.path, wanted)?;
        let summary = &summaries[at];
        let is_whole = options.turns.is_none() && options.from.is_none();
        let earlier = if is_whole { self.earlier_sessions(&loaded, &summary.path) } else { Vec::new() };
        let mut parts: Vec<LoadedPart> = earlier
            .into_iter()
            .map(|before| LoadedPart::new(before.loaded, ShownSteps::Path(before.step)))
            .collect();
        let own = LoadedPart::new(loaded, ShownSteps::Path(summary.path.step));
        let range = choose_messages(&own, summary, options, wanted)?;
        parts.push(own);
        let title = self.title(&parts[parts.len() - 1].loaded).text;
        let header = header(&title, &parts, &summaries, at);
        let resume_line = resume_line(summary, &summaries);
        let own = &parts[parts.len() - 1].loaded;
        let resume_dir = resume_dir_in(&own.source.file, &own.session.facts);
        let at = wanted.map(|n| parts[parts.len() - 1].steps().reading_start(n));
        let content = options.content;
        Ok(LoadedTranscript { resume_line, resume_dir, at, parts, header, range, content })
    }

    /// Reads the entries that a clone removed, if it kept them. Message numbers are those of the session that it
    /// was cloned from. With `n`, shows only this message, its calls and results, and all results of those
    /// calls.
    ///
    /// ```
    /// use rethread::{TranscriptError, VisibleContent};
    ///
    /// # let library = rethread::Library::demo();
    /// let source = library.find_one("0000d001")?;
    /// let removed = library.removed_transcript(&source, None, VisibleContent::default());
    /// assert!(matches!(removed, Err(TranscriptError::NotKept)), "not a clone");
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn removed_transcript(
        &self,
        source: &LogSource,
        n: Option<MessageNo>,
        content: VisibleContent,
    ) -> Result<LoadedTranscript, TranscriptError> {
        let loaded = self.load(source)?;
        let Some(RemovedLog { loaded, numbers }) = loaded.removed()? else {
            return Err(TranscriptError::NotKept);
        };
        let header = TranscriptHeader {
            session: loaded.source.file.id.clone(),
            path_n: 1,
            paths: 1,
            ..TranscriptHeader::default()
        };
        let part = LoadedPart::new(loaded, ShownSteps::All(numbers));
        let mut range = TranscriptRange::default();
        if let Some(n) = n {
            range.only = Some(related_messages(&part, n)?);
        }
        Ok(LoadedTranscript {
            resume_line: None,
            resume_dir: None,
            at: n,
            parts: vec![part],
            header,
            range,
            content,
        })
    }
}

impl LoadedTranscript {
    /// Returns the transcript, for a writer.
    ///
    /// ```
    /// use rethread::{MessageEvent, TranscriptOptions, TranscriptWriter};
    ///
    /// /// Prints the number and the kind of each message.
    /// struct Outline;
    ///
    /// impl TranscriptWriter for Outline {
    ///     fn begin_message(&mut self, event: &MessageEvent<'_>) -> std::io::Result<()> {
    ///         println!("#{} {}", event.message.n, event.message.kind.name());
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # let library = rethread::Library::demo();
    /// let source = library.find_one("0000d001")?;
    /// let loaded = library.transcript(&source, &TranscriptOptions::default())?;
    /// loaded.transcript().walk(&mut Outline)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transcript(&self) -> Transcript<'_> {
        let (mut subagents, mut unlinked) = (Vec::new(), Vec::new());
        let parts = transcript_parts(&self.parts);
        for part in &self.parts {
            for (index, subagent) in part.subagents.iter().enumerate() {
                if subagent.call.is_none() {
                    unlinked.push(SubagentNo::from_index(subagents.len()));
                }
                subagents.push(TranscriptSubagent {
                    name: subagent_name(subagent, index),
                    log: subagent.path.clone(),
                    part: None,
                    messages: 0,
                });
            }
        }
        Transcript {
            header: self.header.clone(),
            parts,
            subagents: subagents.into(),
            unlinked,
            range: self.range.clone(),
            content: self.content,
        }
    }

    /// Returns only the messages at most `around` before and after the wanted one; all if none was asked for.
    ///
    /// ```
    /// use rethread::{Library, TranscriptOptions};
    ///
    /// let library = Library::demo();
    /// let options = TranscriptOptions { from: Some("3".into()), around: Some(2), ..TranscriptOptions::default() };
    /// let loaded = library.transcript(&library.find_one("0000d001")?, &options)?;
    /// assert!(loaded.transcript_around(1).range.from > loaded.transcript().range.from);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn transcript_around(&self, around: usize) -> Transcript<'_> {
        let mut transcript = self.transcript();
        if let (Some(n), Some(part)) = (self.at, self.parts.last())
            && let Ok((first, last)) = messages_around(part, n, around)
        {
            transcript.range.from = Some(part.steps().reading_start(first));
            transcript.range.to = Some(last);
        }
        transcript
    }
}

fn transcript_parts(parts: &[LoadedPart]) -> Vec<TranscriptPart<'_>> {
    let mut first_subagent = 0;
    let mut shown = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        shown.push(part.transcript_part(anchor_prefix(i, i + 1 == parts.len()), first_subagent));
        first_subagent += part.subagents.len();
    }
    shown
}

/// Returns the prefix of the anchors in a part; those of the session itself have none.
pub(crate) fn anchor_prefix(index: usize, is_own: bool) -> String {
    if is_own { String::new() } else { format!("e{}-", index + 1) }
}

/// Finds the message with a name.
fn message_named(loaded: &LoadedSession, name: &MessageName) -> Result<MessageNo, TranscriptError> {
    let name_error = |error| match error {
        MessageNameError::Ambiguous(candidates) => {
            TranscriptError::AmbiguousMessage { name: name.clone(), candidates }
        }
        MessageNameError::NotFound => {
            TranscriptError::NoMessage { name: name.clone(), messages: loaded.session.facts.messages.len() }
        }
    };
    loaded.reader().find_message(name).map_err(name_error)
}

/// Finds the path to show, as an index.
fn choose_path(
    loaded: &LoadedSession,
    summaries: &Table<PathIndex, PathSummary>,
    path: TranscriptPath,
    wanted: Option<MessageNo>,
) -> Result<PathIndex, TranscriptError> {
    if let TranscriptPath::Number(n) = path {
        let found = summaries.keys().find(|&path| summaries[path].n == n);
        return found.ok_or(TranscriptError::NoPath { n, paths: summaries.len() });
    }
    let main = summaries.keys().find(|&path| summaries[path].path.main).or(summaries.keys().next_back());
    let Some(n) = wanted else { return main.ok_or(TranscriptError::NoConversation) };
    let layout = StepNodes::new(&loaded.session);
    let contains = |path: &PathIndex| {
        let ends = (summaries[*path].path.step, None);
        StepStream::to_step(&loaded.session, &layout, loaded, ends, true).contains_message(n)
    };
    if let Some(main) = main.filter(contains) {
        return Ok(main);
    }
    let step = loaded.session.step_of_message(n).ok_or(TranscriptError::NotOnAnyPath { n })?;
    let below = loaded.session.descendants_of(step);
    summaries
        .keys()
        .rfind(|&path| below[summaries[path].path.step])
        .ok_or(TranscriptError::NotOnAnyPath { n })
}

/// Resolves the range of messages on a path.
fn choose_messages(
    part: &LoadedPart,
    summary: &PathSummary,
    options: &TranscriptOptions,
    wanted: Option<MessageNo>,
) -> Result<TranscriptRange, TranscriptError> {
    let mut range = TranscriptRange::default();
    if options.turns.is_none() && options.from.is_none() {
        return Ok(range);
    }
    let steps = part.steps();
    if let Some(turns) = options.turns {
        let total = steps.prompt_count().map_err(|error| part.loaded.source.error(error))?;
        let first = turns.first.map_or(1, |bound| bound.resolve(total));
        let last = turns.last.map_or(total, |bound| bound.resolve(total));
        if first > last || first > total.max(1) {
            return Err(TranscriptError::NoTurns { turns: total });
        }
        range.turns = Some(first..=last);
    }
    if let Some(n) = wanted {
        if !steps.contains_message(n) {
            return Err(TranscriptError::NotOnPath { n, path_n: summary.n });
        }
        let window = options.around.map(|around| messages_around(part, n, around)).transpose()?;
        range.to = window.map(|(_, last)| last);
        let from = steps.reading_start(window.map_or(n, |(first, _)| first));
        if range.turns.is_some() && !range.contains_turn(turn_of(part, from)?) {
            return Err(TranscriptError::NotInTurns { n });
        }
        range.from = Some(from);
    }
    Ok(range)
}

/// Returns the messages at most `around` messages before and after a message of the path.
fn messages_around(
    part: &LoadedPart,
    n: MessageNo,
    around: usize,
) -> Result<(MessageNo, MessageNo), TranscriptError> {
    let mut before = VecDeque::new();
    let mut after = None;
    let read = part.steps().for_each_step(|step| {
        for item in &step.items {
            let TranscriptItem::Message(message) = item else { continue };
            match &mut after {
                None => before.push_back(message.n),
                Some((last, left)) if *left > 0 => (*last, *left) = (message.n, *left - 1),
                Some(_) => {}
            }
            if after.is_none() && message.n == n {
                after = Some((n, around));
            } else if after.is_none() && before.len() > around {
                before.pop_front();
            }
        }
        Ok(())
    });
    read.map_err(|error| part.loaded.source.error(error))?;
    Ok((before.front().copied().unwrap_or(n), after.map_or(n, |(last, _)| last)))
}

/// Returns the turn of a message; 0 if it precedes the first prompt.
fn turn_of(part: &LoadedPart, n: MessageNo) -> Result<usize, TranscriptError> {
    let (mut turn, mut found) = (0, None);
    let read = part.steps().for_each_step(|step| {
        for item in &step.items {
            let TranscriptItem::Message(message) = item else { continue };
            turn += usize::from(message.kind == MessageKind::Prompt);
            if message.n == n {
                found.get_or_insert(turn);
            }
        }
        Ok(())
    });
    read.map_err(|error| part.loaded.source.error(error))?;
    Ok(found.unwrap_or(turn))
}

/// Finds the messages of a removed log that belong together: a message with its calls and results, and all
/// results of those calls.
fn related_messages(part: &LoadedPart, n: MessageNo) -> Result<FxHashSet<MessageNo>, TranscriptError> {
    let mut messages: Vec<(MessageNo, Vec<MessageNo>)> = Vec::new();
    let read = part.steps().for_each_step(|step| {
        for item in &step.items {
            let TranscriptItem::Message(message) = item else { continue };
            let partners = message.blocks.iter().filter_map(|block| block.partner_message);
            messages.push((message.n, partners.collect()));
        }
        Ok(())
    });
    read.map_err(|error| part.loaded.source.error(error))?;
    let mut related = FxHashSet::from_iter([n]);
    for _ in 0..2 {
        for (n, partners) in &messages {
            if related.contains(n) {
                related.extend(partners);
            } else if partners.iter().any(|partner| related.contains(partner)) {
                related.insert(*n);
            }
        }
    }
    let is_known = messages.iter().any(|(n, _)| related.contains(n));
    is_known.then_some(related).ok_or(TranscriptError::NotRemoved { n })
}

/// Returns the line at which the client would continue, if that is not the end of this path.
fn resume_line(shown: &PathSummary, summaries: &Table<PathIndex, PathSummary>) -> Option<u32> {
    let active = summaries.iter().find(|summary| summary.path.active)?;
    let is_elsewhere = active.n != shown.n || active.path.resumes_before_end;
    active.resumes_at.as_ref().filter(|_| is_elsewhere).map(|entry| entry.line)
}

/// Builds the header of a path whose last part is the session itself.
fn header(
    title: &str,
    parts: &[LoadedPart],
    summaries: &Table<PathIndex, PathSummary>,
    at: PathIndex,
) -> TranscriptHeader {
    let (own, summary) = (&parts[parts.len() - 1].loaded, &summaries[at]);
    let paths: Vec<_> = summaries.iter().map(|summary| summary.path.clone()).collect();
    let branchings = own.session.branch_points(&paths);
    let totals = TranscriptTotals::new(&transcript_parts(parts));
    let mut header = SessionHeader::new(&own.session, &own.source.file).path_header(
        title,
        summary,
        summaries.len(),
        &totals,
    );
    if parts.len() > 1 {
        (header.messages, header.turns, header.compactions) =
            (totals.messages, totals.turns, totals.compactions);
    }
    let resumes = summary.resumes_at.as_ref().filter(|_| summary.path.resumes_before_end);
    header.resumes_at = resumes.and_then(|entry| entry.message);
    header.siblings = sibling_paths(summaries, &branchings, near(at, summaries.len(), LISTED_AROUND));
    header
}

/// The metadata of a session, shared by the headers of its transcripts.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionHeader {
    /// Its id; for a piped log, the id in its entries.
    pub(crate) id: String,
    pub(crate) project: String,
    pub(crate) versions: Vec<String>,
    pub(crate) git_branch: Option<String>,
    pub(crate) defects: Vec<String>,
}

/// Maximum number of defects that a header lists.
const MAX_DEFECTS: usize = 50;
/// Maximum number of client versions that a header lists.
const MAX_VERSIONS: usize = 50;
/// Number of paths before and after its own that a header lists.
pub(crate) const LISTED_AROUND: usize = 50;

impl SessionHeader {
    pub(crate) fn new(session: &Session, file: &SessionFile) -> Self {
        let facts = &session.facts;
        let is_piped = file.path == std::path::Path::new("-");
        let id = facts.session_ids.first().filter(|id| is_piped && !id.is_empty());
        let versions = facts.versions.iter().map(|(version, _)| version.to_owned());
        Self {
            id: id.map_or_else(|| file.id.clone(), str::to_owned),
            project: facts.cwds.first().map_or_else(|| file.dir_name(), str::to_owned),
            versions: versions.filter(|version| version != "None").take(MAX_VERSIONS).collect(),
            git_branch: facts.git_branches.last().filter(|branch| !branch.is_empty()).map(str::to_owned),
            defects: describe_defects(session),
        }
    }

    /// Builds the header of a path, without its siblings.
    pub(crate) fn path_header(
        &self,
        title: &str,
        summary: &PathSummary,
        paths: usize,
        totals: &TranscriptTotals,
    ) -> TranscriptHeader {
        TranscriptHeader {
            session: self.id.clone(),
            title: title.to_owned(),
            project: self.project.clone(),
            path_n: summary.n,
            paths,
            active: summary.path.active,
            fork_point: summary.fork.as_ref().map(|entry| entry.uuid.clone()),
            fork_message: summary.fork.as_ref().and_then(|entry| entry.message),
            compactions: summary.compactions,
            messages: summary.messages,
            turns: summary.turns,
            span: totals.span,
            models: totals.models.clone(),
            versions: self.versions.clone(),
            git_branch: self.git_branch.clone(),
            usage: totals.usage,
            defects: self.defects.clone(),
            ..TranscriptHeader::default()
        }
    }
}

fn describe_defects(session: &Session) -> Vec<String> {
    let all = session.defects();
    let left_out = (all.len().saturating_sub(MAX_DEFECTS)) as u64 + session.facts.defects_omitted;
    let shown = all.iter().take(MAX_DEFECTS);
    let mut described: Vec<String> =
        shown.map(|defect| format!("line {}: {}", defect.line, defect.detail)).collect();
    if left_out > 0 {
        described.push(format!("and {left_out} more"));
    }
    described
}

/// Returns the range of paths that are listed around one of them.
pub(crate) fn near(path: PathIndex, paths: usize, around: usize) -> impl Iterator<Item = PathIndex> + Clone {
    let at = path.index();
    (at.saturating_sub(around)..paths.min(at + around + 1)).map(PathIndex::from_index)
}

/// Describes some paths of a session; a session with a single path lists none.
pub(crate) fn sibling_paths(
    summaries: &Table<PathIndex, PathSummary>,
    branchings: &Table<PathIndex, Option<BranchPoint>>,
    listed: impl Iterator<Item = PathIndex>,
) -> Vec<SiblingPath> {
    if summaries.len() < 2 {
        return Vec::new();
    }
    let sibling = |path: PathIndex| {
        let (summary, branching) = (&summaries[path], branchings[path]);
        SiblingPath {
            n: summary.n,
            active: summary.path.active,
            fork_message: branching.and_then(|b| b.message),
            parent_path: branching.map(|b| summaries[b.other_path].n),
            messages: summary.messages,
            messages_before_fork: branching.map_or(0, |b| b.messages_before),
            last_prompt: summary.last_prompt.as_deref().map(|words| truncate(words, 100)).unwrap_or_default(),
        }
    };
    listed.map(sibling).collect()
}

/// Returns a unique name for a subagent; the same file name can occur in several directories of one session.
pub(crate) fn subagent_name(subagent: &Subagent, index: usize) -> String {
    match subagent.path.as_deref().and_then(std::path::Path::file_stem) {
        Some(stem) => format!("{}_{}", index + 1, crate::export::safe_name(&stem.to_string_lossy())),
        None => format!("{}_inline", index + 1),
    }
}
