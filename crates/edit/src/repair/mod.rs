//! Repairs a session by the smallest change.
//!
//! The intended path is known ([`rethread_model::intended_path`]). Every line on it that some client would lose or
//! reject is changed, dropped or answered; the path is made linear, so that every client follows it; and if the
//! clients still resume different leaves, an added entry marks the end. Then the result is read again and checked:
//! all remaining findings are reported.
//!
//! A session without defects is returned unchanged.

mod assemble;
mod attribution;

use std::borrow::Cow;
use std::collections::VecDeque;

use rethread_log::{Json, Key, Line, parse_entry};
use rethread_model::{
    BlockClass, Client, Facts, Finding, FindingKind, IntendedPath, Node, NodeId, PartOrigin, Reader,
    SentPart, Session, Severity, Time, check, intended_path, resume,
};
use rustc_hash::{FxHashMap, FxHashSet};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::fast_path::{harmful_findings, session_intended_path};
use crate::plan::{ChangeCause, LOST_CALL, Plan, deterministic_uuid, message_id};
use crate::splice::{Splice, json_string, text_chunks};
use assemble::Assembly;
use attribution::attribute;

/// A repaired session.
#[derive(Debug, Clone)]
pub struct Repair<'a> {
    /// Findings before the repair.
    pub findings: Vec<Finding>,
    /// Changed lines, in order.
    pub changes: Vec<Change>,
    /// All lines were reordered first.
    pub reordered: bool,
    /// Findings that could not be repaired.
    pub remaining: Vec<Finding>,
    /// The repaired session; the source itself if nothing was changed.
    pub bytes: Cow<'a, [u8]>,
}

/// A line that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The line in the source; for an added line, the one that it follows.
    pub line: u32,
    /// The kind of finding that the change repairs.
    pub reason: FindingKind,
    /// The line of that finding, which may be another one; `None` if it concerns the whole session.
    pub finding_line: Option<u32>,
    /// Clients in use resume the session without this change: it is for older ones, which do not find entries next to
    /// parallel calls, or choose another end. Only a check for all clients finds such a loss, and only if no worse
    /// defect hides it.
    pub for_older_clients: bool,
    /// The old line; `None` if the line was added. Of a very long line only the part that differs, with some context.
    pub before: Option<Vec<u8>>,
    /// The new line; `None` if the line was dropped. Also only a part of a very long line.
    pub after: Option<Vec<u8>>,
    /// Hashes of the old and the new line.
    hashes: (u128, u128),
}

/// Longer lines are not copied.
const MAX_COPIED_LINE: usize = 1 << 20;
/// Bytes of a very long line that are kept around a difference.
const AROUND: usize = 1 << 10;

impl Change {
    fn new(place: ChangePlace, before: Option<&[u8]>, after: Option<&[u8]>) -> Self {
        let hash = |line: Option<&[u8]>| line.map_or(0, |line| xxh3_128(line.trim_ascii_end()));
        let hashes = (hash(before), hash(after));
        let (from, to) = (before.unwrap_or_default(), after.unwrap_or_default());
        let (mut start, mut tail) = (0, 0);
        if before.is_some() && after.is_some() && from.len().max(to.len()) > MAX_COPIED_LINE {
            start = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            let (from, to) = (&from[start..], &to[start..]);
            tail = from.iter().rev().zip(to.iter().rev()).take_while(|(a, b)| a == b).count();
        }
        let part = |line: &[u8]| {
            let end = (line.len() - tail + AROUND).min(line.len());
            let part = &line[start.saturating_sub(AROUND)..end];
            part[..part.len().min(MAX_COPIED_LINE)].to_vec()
        };
        let ChangePlace { line, reason, finding_line } = place;
        let (before, after) = (before.map(part), after.map(part));
        let finding_line = Some(finding_line);
        Self { line, reason, finding_line, for_older_clients: false, before, after, hashes }
    }
}

/// The line of a change, and the finding that it repairs.
#[derive(Clone, Copy)]
struct ChangePlace {
    line: u32,
    reason: FindingKind,
    finding_line: u32,
}

impl ChangePlace {
    /// Creates the place of a change that repairs a finding about the same line.
    fn at(line: u32, reason: FindingKind) -> Self {
        Self { line, reason, finding_line: line }
    }

    fn new(line: u32, plan: &Plan<'_>, cause: ChangeCause) -> Self {
        Self { line, reason: cause.kind, finding_line: plan.facts.location(cause.node).line }
    }
}

/// Maximum number of rounds until nothing more changes.
const MAX_ROUNDS: usize = 4;

/// Repairs a session, so that every client resumes it and nothing that can be kept is lost.
///
/// A repair may expose further defects, so rounds are repeated until nothing changes: repairing a repaired session
/// changes nothing.
pub fn repair(bytes: &[u8]) -> Repair<'_> {
    match repair_from(&|| Ok::<_, std::convert::Infallible>(bytes.into())) {
        Ok(repair) => repair,
        Err(never) => match never {},
    }
}

/// Repairs a session that is read again when needed instead of being kept: a line may be very long. `source` returns
/// the same bytes each time, or fails.
pub fn repair_from<'a, E>(source: &dyn Fn() -> Result<Cow<'a, [u8]>, E>) -> Result<Repair<'a>, E> {
    let Round { found, changes, reordered, left, bytes, mut sources } = repair_once(source()?);
    let bytes = bytes.map_or_else(source, Ok)?;
    let mut repair = Repair { findings: found, changes, reordered, remaining: left, bytes };
    if repair.changes.is_empty() && !repair.reordered {
        return Ok(repair);
    }
    for _ in 1..MAX_ROUNDS {
        let Round { mut changes, reordered, left, bytes, sources: lines, .. } =
            repair_once(Cow::Borrowed(&repair.bytes));
        let Some(repaired) = bytes.filter(|_| !changes.is_empty() || reordered).map(Cow::into_owned) else {
            break;
        };
        let source_line = |line: u32| sources.get((line as usize).saturating_sub(1)).copied().unwrap_or(line);
        for change in &mut changes {
            change.line = source_line(change.line);
            change.finding_line = change.finding_line.map(source_line);
        }
        repair.merge_changes(changes);
        sources = lines.iter().map(|&line| source_line(line)).collect();
        (repair.bytes, repair.remaining) = (repaired.into(), left);
        repair.reordered |= reordered;
    }
    repair.changes.sort_by_key(|change| change.line);
    if repair.changes.is_empty() && !repair.reordered {
        return Ok(repair);
    }
    let bytes = source()?;
    if !attribute(&mut repair.changes, &check(&Session::read(&bytes), &Client::ALL)) {
        let Repair { findings, remaining, .. } = repair;
        return Ok(Repair { findings, changes: Vec::new(), reordered: false, remaining, bytes });
    }
    // A client that loses the conversation sends local commands instead, which need not be kept.
    if repair.findings.iter().any(|finding| finding.kind == FindingKind::ResumesLocalCommand) {
        return Ok(repair);
    }
    match count_lost_texts(&bytes, &repair.bytes) {
        0 => Ok(repair),
        n => {
            let detail = format!("repairing it would lose {n} texts that the newest client currently sends");
            let (line, kind, severity) = (None, FindingKind::RepairWouldLose, Severity::Loss);
            let (clients, lost) = (vec![Client::NEWEST], Vec::new());
            let finding = Finding { line, kind, severity, detail, clients, lost_lines: lost };
            let left = repair.findings.iter().filter(|f| f.is_harmful()).cloned().chain([finding]).collect();
            let (changes, reordered) = (Vec::new(), false);
            Ok(Repair { findings: repair.findings, changes, reordered, remaining: left, bytes })
        }
    }
}

/// Counts the texts that the newest client sends from a session and would not send from the repaired one.
fn count_lost_texts(before: &[u8], after: &[u8]) -> usize {
    let mut kept: FxHashSet<u128> = FxHashSet::default();
    each_text(after, |text| {
        kept.insert(text.hash());
        // A result without its call became part of a text.
        kept.extend(text.after_lost_call().map(Sent::hash));
    });
    let mut missing: Vec<String> = Vec::new();
    let mut n_long = 0;
    each_text(before, |text| {
        if kept.insert(text.hash()) {
            match text {
                Sent::Text(text) => missing.push(text.to_owned()),
                Sent::Long(_) => n_long += 1,
            }
        }
    });
    n_long + missing.len() - if missing.is_empty() { 0 } else { count_contained_texts(&missing, after) }
}

/// Maximum number of texts with the same first line that are searched for in other texts.
const MAX_CANDIDATES: usize = 64;

/// Counts the texts that are sent as whole lines of longer ones, because clients join texts.
fn count_contained_texts(missing: &[String], after: &[u8]) -> usize {
    let first_line = |text: &str| hash_of(text.lines().next().unwrap_or_default().trim());
    let mut wanted: FxHashMap<u128, Vec<usize>> = FxHashMap::default();
    for (at, text) in missing.iter().enumerate() {
        let places = wanted.entry(first_line(text)).or_default();
        if places.len() < MAX_CANDIDATES {
            places.push(at);
        }
    }
    let mut found: FxHashSet<usize> = FxHashSet::default();
    each_text(after, |text| {
        let Sent::Text(text) = text else { return };
        let lines: FxHashSet<u128> = text.lines().map(|line| hash_of(line.trim())).collect();
        let candidates = lines.iter().filter_map(|line| wanted.get(line)).flatten();
        found.extend(candidates.filter(|&&at| text.contains(missing[at].as_str())));
    });
    found.len()
}

fn hash_of(text: &str) -> u128 {
    xxh3_128(text.as_bytes())
}

/// A text that a client sends.
#[derive(Clone, Copy)]
enum Sent<'a> {
    Text(&'a str),
    /// A very long text, as written between its quotes.
    Long(&'a [u8]),
}

impl<'a> Sent<'a> {
    fn hash(self) -> u128 {
        match self {
            Self::Text(text) => hash_of(text),
            Self::Long(inner) => {
                let mut hash = Xxh3::new();
                text_chunks(inner, MAX_COPIED_LINE).for_each(|text| hash.update(text.as_bytes()));
                hash.digest128()
            }
        }
    }

    /// Returns the original text of a result that became text because its call is missing.
    fn after_lost_call(self) -> Option<Self> {
        match self {
            Self::Text(text) => Some(Self::Text(text.strip_prefix(LOST_CALL)?.trim())),
            Self::Long(inner) => {
                Some(Self::Long(inner.strip_prefix(LOST_CALL.as_bytes())?.strip_prefix(b"\\n")?))
            }
        }
    }
}

/// Passes each entry text that the newest client sends from a session to `take`.
fn each_text(bytes: &[u8], mut take: impl FnMut(Sent<'_>)) {
    let session = Session::read(bytes);
    let mut resumed = resume(&session.facts, Client::NEWEST);
    let reader = Reader::new(&session, bytes);
    let mut long = LongBlocks { facts: &session.facts, reader, line: Line::default(), parsed: None };
    for message in &mut resumed.messages {
        message.parts.retain(|part| match long.of(part) {
            Some(text) => {
                text.into_iter().for_each(|text| take(Sent::Long(text)));
                false
            }
            None => true,
        });
    }
    for some in resumed.messages.chunks(MESSAGES_AT_ONCE) {
        let wire = reader.wire_messages_for(&resumed, some, Client::NEWEST, "");
        for block in wire.iter().flat_map(|message| &message.blocks) {
            // Text that the client generates comes from no entry.
            if block.node.is_none() {
                continue;
            }
            let json = block.json();
            let text = json.get("text").or_else(|| json.get("content")).and_then(Json::as_str);
            if let Some(text) = text.as_deref().map(str::trim).filter(|text| !text.is_empty()) {
                take(Sent::Text(text));
            }
        }
    }
}

/// Finds blocks that are too long to be copied.
struct LongBlocks<'a> {
    facts: &'a Facts,
    reader: Reader<'a>,
    line: Line,
    /// The entry that `line` was parsed from.
    parsed: Option<NodeId>,
}

impl<'a> LongBlocks<'a> {
    /// Returns the text of a very long block, as written between its quotes, or `Some(None)` if it has no text. `None`
    /// if the block is not very long.
    fn of(&mut self, part: &SentPart) -> Option<Option<&'a [u8]>> {
        let node = part.origin.node()?;
        let raw = self.reader.entry_bytes(self.facts.nodes[node].entry);
        if raw.len() <= MAX_COPIED_LINE {
            return None;
        }
        if self.parsed.replace(node) != Some(node) {
            parse_entry(raw, &mut self.line);
        }
        let line = &self.line;
        let value = match (part.origin, line.message) {
            (PartOrigin::Block(_, at), Some(message)) => {
                let block = line
                    .blocks
                    .get(at as usize)
                    .filter(|_| !Json::new(message.content.bytes_in(raw)).is_string());
                Json::new(block.map_or(message.content, |block| block.whole).bytes_in(raw))
            }
            (PartOrigin::Command(_), _) => Json::new(line.field(Key::Content).bytes_in(raw)),
            _ => Json::new(raw),
        };
        let text = || value.get("text").or_else(|| value.get("content")).and_then(Json::raw_string);
        (value.raw().len() > MAX_COPIED_LINE)
            .then(|| if value.is_string() { value.raw_string() } else { text() })
    }
}

/// Number of messages rendered at a time.
const MESSAGES_AT_ONCE: usize = 16;

impl Repair<'_> {
    /// Copies the session if nothing was changed, so that the source is no longer needed.
    pub fn into_owned(self) -> Repair<'static> {
        let Self { findings: found, changes, reordered, remaining, bytes } = self;
        Repair { findings: found, changes, reordered, remaining, bytes: bytes.into_owned().into() }
    }

    /// Merges further changes: two changes of one line become one.
    fn merge_changes(&mut self, changes: Vec<Change>) {
        // The current content of each line. Thousands of entries may have been added after one line.
        let mut current: FxHashMap<(u32, u128), VecDeque<usize>> = FxHashMap::default();
        for (at, change) in self.changes.iter().enumerate() {
            if change.after.is_some() {
                current.entry((change.line, change.hashes.1)).or_default().push_back(at);
            }
        }
        let mut undone: FxHashSet<usize> = FxHashSet::default();
        for change in changes {
            let before = change.before.as_ref().map(|_| (change.line, change.hashes.0));
            let earlier = before.and_then(|before| current.get_mut(&before)?.pop_front());
            match earlier {
                Some(at) if self.changes[at].before.is_none() && change.after.is_none() => {
                    undone.insert(at);
                }
                Some(at) => {
                    self.changes[at].after = change.after;
                    self.changes[at].hashes.1 = change.hashes.1;
                }
                None => self.changes.push(change),
            }
        }
        let mut at = 0;
        self.changes.retain(|_| {
            at += 1;
            !undone.contains(&(at - 1))
        });
    }
}

/// The result of one round.
struct Round<'a> {
    found: Vec<Finding>,
    changes: Vec<Change>,
    reordered: bool,
    left: Vec<Finding>,
    /// The current session; `None` if nothing was changed and the source was dropped.
    bytes: Option<Cow<'a, [u8]>>,
    /// The source line of each line.
    sources: Vec<u32>,
}

/// Repairs the defects that are visible now.
fn repair_once(bytes: Cow<'_, [u8]>) -> Round<'_> {
    let session = Session::read(&bytes);
    let found = check(&session, &Client::IN_USE);
    let PreparedSession { bytes: ready, session, intended, changes: prepared, reordered } =
        prepare(bytes, session);
    let same = prepared.is_empty() && !reordered;
    let Some(RepairedSession { assembly, left }) = repair_entries(&ready, &session, &intended, &found, same)
    else {
        let left = found.iter().filter(|f| f.is_harmful()).cloned().collect();
        let (changes, sources, bytes) = (Vec::new(), Vec::new(), Some(ready).filter(|_| same));
        return Round { found, changes, reordered: false, left, bytes, sources };
    };
    let mut repair = Repair {
        findings: found,
        changes: prepared,
        reordered,
        remaining: left,
        bytes: assembly.bytes.into(),
    };
    repair.merge_changes(assembly.changes);
    let Repair { findings: found, changes, reordered, remaining, bytes } = repair;
    Round { found, changes, reordered, left: remaining, bytes: Some(bytes), sources: assembly.sources }
}

/// The repaired entries and the remaining findings.
struct RepairedSession {
    assembly: Assembly,
    left: Vec<Finding>,
}

/// Repairs the entries of a session; `None` if nothing changes. `same` means that nothing was repaired before.
fn repair_entries(
    ready: &[u8],
    session: &Session,
    intended: &IntendedPath,
    found: &[Finding],
    same: bool,
) -> Option<RepairedSession> {
    let reader = Reader::new(session, ready);
    let mut plan =
        Plan::new(&session.facts, reader, intended.chain.iter().copied(), intended.broken_links.clone());
    plan.repair();
    let faultless = !Assembly::changes_any(ready, &plan) && same && !plan.misplaced;
    let harmed = found.iter().any(Finding::is_harmful);
    if intended.chain.is_empty() || faultless && !harmed {
        return None;
    }
    let mut assembly = Some(Assembly::new(ready, &plan)).filter(|_| !plan.misplaced);
    let mut outcome = assembly.as_ref().map_or_else(CheckedRepair::default, Assembly::check);
    // What is changed only for older clients.
    let mut for_older = Vec::new();
    if !outcome.is_complete() {
        // To repair the reported lines is not enough: the whole path is made linear.
        for_older.extend(outcome.suffices_in_use.then_some(FindingKind::ParallelCalls));
        drop(assembly.take());
        plan.linearise();
        outcome = assembly.insert(Assembly::new(ready, &plan)).check();
    }
    if !outcome.is_complete() {
        // The clients do not agree on the end: an added entry marks it. Only one of the two results is in memory.
        drop(assembly.take());
        plan.mark_end();
        let marked = Assembly::new(ready, &plan);
        let then = marked.check();
        if then.left.len() < outcome.left.len() || then.agree && !outcome.agree {
            for_older.extend(outcome.suffices_in_use.then_some(FindingKind::OtherBranch));
            (assembly, outcome) = (Some(marked), then);
        } else {
            plan.unmark_end();
        }
    }
    // If no entry has a defect, the result is used only if it helps.
    if faultless && outcome.left.iter().any(concerns_client_in_use) {
        return None;
    }
    let mut assembly = assembly.unwrap_or_else(|| Assembly::new(ready, &plan));
    for change in &mut assembly.changes {
        change.for_older_clients = for_older.contains(&change.reason);
    }
    Some(RepairedSession { assembly, left: outcome.left })
}

/// A session in which related entries can be identified.
struct PreparedSession<'a> {
    bytes: Cow<'a, [u8]>,
    session: Session,
    intended: IntendedPath,
    changes: Vec<Change>,
    reordered: bool,
}

impl PreparedSession<'_> {
    fn reload(&mut self, bytes: Vec<u8>) {
        self.session = Session::read(&bytes);
        self.intended = session_intended_path(&self.session, self.session.conversation_end());
        self.bytes = bytes.into();
    }
}

/// First repairs what everything else depends on: the order of the lines, the ids of messages, and whether all
/// entries are a subagent's.
fn prepare(bytes: Cow<'_, [u8]>, session: Session) -> PreparedSession<'_> {
    let intended = session_intended_path(&session, session.conversation_end());
    let reordered = intended.scrambled;
    let mut ready = PreparedSession { bytes, session, intended, changes: Vec::new(), reordered };
    if reordered {
        ready.reload(reorder_lines(&ready.bytes, &ready.session));
    }
    if let Some((edited, changes)) = normalise_entries(&ready.session, &ready.bytes, true) {
        ready.reload(edited);
        ready.changes = changes;
    }
    ready
}

/// Repairs what every edit depends on: the order of the lines, the ids of messages. Returns `None` if they are
/// correct.
pub(crate) fn normalise_log<'b>(bytes: &dyn Fn() -> &'b [u8], session: &Session) -> Option<Vec<u8>> {
    let facts = &session.facts;
    let scrambled = session_intended_path(session, None).scrambled;
    if !scrambled && !facts.nodes.iter().any(Node::lacks_message_id) {
        return None;
    }
    if !scrambled {
        return normalise_entries(session, bytes(), false).map(|(edited, _)| edited);
    }
    let ordered = reorder_lines(bytes(), session);
    let edited = normalise_entries(&Session::read(&ordered), &ordered, false);
    Some(edited.map_or(ordered, |(edited, _)| edited))
}

/// Adds missing message ids to answers: entries that are parent and child are one message. If every entry is a
/// subagent's and `own` is set, the sidechain flag is cleared, so that they become a session. Returns `None` if
/// nothing changes.
fn normalise_entries(session: &Session, bytes: &[u8], own: bool) -> Option<(Vec<u8>, Vec<Change>)> {
    let facts = &session.facts;
    let all_side = own && facts.is_all_sidechain();
    let mut ids: FxHashMap<NodeId, String> = FxHashMap::default();
    let mut out = Vec::new();
    let mut changes: Vec<Change> = Vec::new();
    let mut done = 0;
    for (node, fact) in facts.nodes.iter_enumerated() {
        let flags = fact.flags;
        let lacks = fact.lacks_message_id() && (all_side || !flags.is_sidechain());
        if !lacks && !all_side {
            continue;
        }
        let place = facts.location(node);
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        let raw = &bytes[start..start + place.len as usize];
        let mut splice = Splice::new(raw);
        if all_side {
            splice.set(Key::IsSidechain, b"false".to_vec());
        }
        if let Some(message) = splice.line.message.filter(|_| lacks) {
            let above = facts.parent_of(node).and_then(|parent| ids.get(&parent)).cloned();
            let id = above.unwrap_or_else(|| message_id(&deterministic_uuid(&format!("message {node}"))));
            splice.set_in_message("id", message.id, json_string(&id));
            ids.insert(node, id);
        }
        if changes.is_empty() {
            out.reserve(bytes.len() + 4096);
        }
        out.extend_from_slice(&bytes[done..start]);
        let written = out.len();
        splice.write(&mut out);
        done = start + raw.len();
        let why = if all_side { FindingKind::AllSidechain } else { FindingKind::NoMessageId };
        changes.push(Change::new(ChangePlace::at(place.line, why), Some(raw), Some(&out[written..])));
    }
    if changes.is_empty() {
        return None;
    }
    out.extend_from_slice(&bytes[done..]);
    Some((out, changes))
}

/// The result of checking a repaired session.
#[derive(Default)]
struct CheckedRepair {
    /// The findings of any client that are left.
    left: Vec<Finding>,
    /// All clients send the same.
    agree: bool,
    /// The clients in use lose and reject nothing, and send the same.
    suffices_in_use: bool,
}

impl CheckedRepair {
    fn is_complete(&self) -> bool {
        self.left.is_empty() && self.agree
    }
}

impl Assembly {
    fn check(&self) -> CheckedRepair {
        let session = Session::read(&self.bytes);
        let left = harmful_findings(&session, &Client::ALL);
        let newest = sent_parts(&session, Client::NEWEST);
        let agree = |clients: &[Client]| clients.iter().all(|&client| sent_parts(&session, client) == newest);
        let suffices_in_use = !left.iter().any(concerns_client_in_use) && agree(&Client::IN_USE);
        CheckedRepair { agree: agree(&Client::ALL), suffices_in_use, left }
    }
}

fn concerns_client_in_use(finding: &Finding) -> bool {
    finding.clients.iter().any(|client| Client::IN_USE.contains(client))
}

/// Returns the conversation that a client sends: role and origin of each part. Thinking is left out, because it
/// depends on the model; parts are sorted, because newer clients put results first and calls last.
fn sent_parts(session: &Session, client: Client) -> Vec<(bool, Vec<PartOrigin>)> {
    let is_compared =
        |part: &SentPart| !part.class.is_thinking() && !matches!(part.origin, PartOrigin::Reminder(_));
    let mut sent = Vec::new();
    for mut message in resume(&session.facts, client).messages {
        message.parts.retain(is_compared);
        message
            .parts
            .sort_by_key(|part| (part.class != BlockClass::ToolResult, part.class == BlockClass::ToolCall));
        if !message.parts.is_empty() {
            sent.push((message.assistant, message.parts.iter().map(|part| part.origin).collect()));
        }
    }
    sent
}

/// Orders the lines of a log whose entries precede their parents: reversed if that is sufficient, else by time.
fn reorder_lines(bytes: &[u8], session: &Session) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
    lines.reverse();
    let reversed = join_lines(&lines);
    if !intended_path(&Session::read(&reversed).facts).scrambled {
        return reversed;
    }
    drop(reversed);
    lines.reverse();
    let mut times: Vec<Option<Time>> = vec![None; lines.len()];
    for (node, fact) in session.facts.nodes.iter_enumerated() {
        if let Some(time) = times.get_mut(session.facts.location(node).line as usize - 1) {
            *time = fact.time;
        }
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|&at| times[at]);
    join_lines(&order.into_iter().map(|at| lines[at]).collect::<Vec<_>>())
}

fn join_lines(lines: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out
}
