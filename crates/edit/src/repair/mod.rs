//! Mending a session by the least change.
//!
//! What the conversation was meant to be is known ([`rethread_model::intended`]). Every line on its way
//! that some client would lose or choke on is changed, dropped or answered; the way is laid in one line
//! that every client walks; and if the ends still differ, a last entry marks where it goes on. Then the
//! result is read again and checked: what is left is told, never passed over.
//!
//! A session with nothing wrong in it comes out as it is.

mod assemble;
mod calls;
mod content;
mod order;

use std::borrow::Cow;
use std::collections::BTreeMap;

use rethread_log::Key;
use rethread_model::{
    Client, Facts, Finding, Intended, Kind, Node, Part, Reader, Role, Session, Severity, Sort, Time, Uid,
    What, WireBlock, check, intended, resume,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::splice::{Splice, string};
use assemble::Assembly;

/// A mended session.
#[derive(Debug, Clone)]
pub struct Repair {
    /// What was found before.
    pub found: Vec<Finding>,
    /// What was changed, in the order of the lines.
    pub changes: Vec<Change>,
    /// All lines were put in another order first.
    pub reordered: bool,
    /// What could not be mended.
    pub left: Vec<Finding>,
    /// The mended session.
    pub bytes: Vec<u8>,
}

/// A line that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The line in the source; for what was added, the line that it follows.
    pub line: u32,
    /// What it mends.
    pub why: Kind,
    /// What stood there; nothing if it was added.
    pub before: Option<Vec<u8>>,
    /// What stands there now; nothing if it was dropped.
    pub after: Option<Vec<u8>>,
}

/// How often a repair is repeated until nothing more changes.
const MAX_ROUNDS: usize = 4;

/// Mends a session, so that every client resumes it and nothing that can be kept is lost.
///
/// What is mended may bring something to light that was out of sight before, so it is looked at until
/// nothing more changes: to repair a repaired session changes nothing.
pub fn repair(bytes: &[u8]) -> Repair {
    let (mut repair, mut sources) = once(bytes);
    for _ in 1..MAX_ROUNDS {
        if repair.changes.is_empty() && !repair.reordered {
            break;
        }
        let (next, lines) = once(&repair.bytes);
        if next.changes.is_empty() && !next.reordered {
            break;
        }
        let mut changes = next.changes;
        for change in &mut changes {
            let at = (change.line as usize).saturating_sub(1);
            change.line = sources.get(at).copied().unwrap_or(change.line);
        }
        repair.take_over(changes);
        sources = lines
            .iter()
            .map(|&line| sources.get((line as usize).saturating_sub(1)).copied().unwrap_or(line))
            .collect();
        (repair.bytes, repair.left) = (next.bytes, next.left);
        repair.reordered |= next.reordered;
    }
    repair.changes.sort_by_key(|change| change.line);
    if repair.changes.is_empty() && !repair.reordered {
        return repair;
    }
    match lost_words(bytes, &repair.bytes) {
        0 => repair,
        n => {
            let detail = format!("to mend it would lose {n} texts that the newest client sends now");
            let (line, kind, severity) = (None, Kind::WouldLose, Severity::Loses);
            let finding = Finding { line, kind, severity, detail, clients: vec![Client::NEWEST] };
            let left = repair.found.iter().filter(|f| f.is_harmful()).cloned().chain([finding]).collect();
            let (changes, reordered) = (Vec::new(), false);
            Repair { found: repair.found, changes, reordered, left, bytes: bytes.to_vec() }
        }
    }
}

/// Counts what the newest client sends of a session and would not send of the mended one.
fn lost_words(before: &[u8], after: &[u8]) -> usize {
    let words = |bytes: &[u8]| -> FxHashSet<String> {
        let session = Session::read(bytes);
        let resumed = resume(&session.facts, Client::NEWEST);
        let wire = Reader::new(&session, bytes).wire(&resumed, Client::NEWEST, "");
        let said = |block: &WireBlock<'_>| -> Option<String> {
            // What the client puts in itself comes from no entry.
            block.node?;
            let json = block.json();
            let text = json.get("text").or_else(|| json.get("content"))?.as_str()?;
            Some(text.trim().to_owned())
        };
        wire.iter()
            .flat_map(|message| &message.blocks)
            .filter_map(said)
            .filter(|text| !text.is_empty())
            .collect()
    };
    let after = words(after);
    let missing: Vec<String> = words(before).into_iter().filter(|text| !after.contains(text)).collect();
    // A result without its call became part of a text.
    missing.iter().filter(|text| !after.iter().any(|said| said.contains(text.as_str()))).count()
}

impl Repair {
    /// Adds changes to what has been changed already: a line that is changed twice was changed once.
    fn take_over(&mut self, changes: Vec<Change>) {
        let mut by_line: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (at, change) in self.changes.iter().enumerate() {
            by_line.entry(change.line).or_default().push(at);
        }
        let mut undone: FxHashSet<usize> = FxHashSet::default();
        for change in changes {
            let same = |at: &&usize| {
                let after = self.changes[**at].after.as_deref().map(<[u8]>::trim_ascii_end);
                change.before.as_deref().is_some_and(|before| after == Some(before.trim_ascii_end()))
            };
            let earlier = by_line.get(&change.line).and_then(|places| places.iter().find(same)).copied();
            match earlier {
                Some(at) if self.changes[at].before.is_none() && change.after.is_none() => {
                    undone.insert(at);
                }
                Some(at) => self.changes[at].after = change.after,
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

/// Mends what is in sight; returns also which line of the source each line comes from.
fn once(bytes: &[u8]) -> (Repair, Vec<u32>) {
    let session = Session::read(bytes);
    let found = check(&session, &Client::IN_USE);
    let Prepared { bytes: ready, session, meant, changes: prepared, reordered } = prepare(bytes, session);
    let mut plan = Plan::new(&session.facts, Reader::new(&session, &ready), &meant);
    plan.mend();
    let mut assembly = Assembly::new(&ready, &plan);
    let untouched = |found: Vec<Finding>| {
        let left = found.iter().filter(|f| f.is_harmful()).cloned().collect();
        let changes = Vec::new();
        (Repair { found, changes, reordered: false, left, bytes: bytes.to_vec() }, Vec::new())
    };
    let faultless = assembly.changes.is_empty() && prepared.is_empty() && !reordered && !plan.misplaced;
    let harmed = found.iter().any(Finding::is_harmful);
    if meant.chain.is_empty() || faultless && !harmed {
        return untouched(found);
    }
    plan.lay_in_line();
    assembly = Assembly::new(&ready, &plan);
    let (mut left, agree) = look_again(&assembly.bytes);
    if !left.is_empty() || !agree {
        // The clients do not agree on where it ends: a last entry tells them.
        plan.mark_end();
        let marked = Assembly::new(&ready, &plan);
        let (left_then, agree_then) = look_again(&marked.bytes);
        if left_then.len() < left.len() || agree_then && !agree {
            (assembly, left) = (marked, left_then);
        }
    }
    // Without a fault in any entry, only what helps is done.
    let in_use = |finding: &Finding| finding.clients.iter().any(|client| Client::IN_USE.contains(client));
    if faultless && left.iter().any(in_use) {
        return untouched(found);
    }
    let mut whole = Repair { found, changes: prepared, reordered, left, bytes: assembly.bytes };
    whole.take_over(assembly.changes);
    (whole, assembly.sources)
}

/// A session in which it can be told what belongs together.
struct Prepared<'a> {
    bytes: Cow<'a, [u8]>,
    session: Session,
    meant: Intended,
    changes: Vec<Change>,
    reordered: bool,
}

impl Prepared<'_> {
    fn read(&mut self, bytes: Vec<u8>) {
        self.session = Session::read(&bytes);
        self.meant = intended(&self.session.facts);
        self.bytes = bytes.into();
    }
}

/// Mends first what everything else depends on: the order of the lines, the ids of messages, and
/// whether the entries are a subagent's.
fn prepare(bytes: &[u8], session: Session) -> Prepared<'_> {
    let meant = intended(&session.facts);
    let reordered = meant.scrambled;
    let mut ready = Prepared { bytes: bytes.into(), session, meant, changes: Vec::new(), reordered };
    if reordered {
        ready.read(in_order(bytes, &ready.session));
    }
    let (edited, changes) = first_edits(&ready.session, &ready.bytes);
    if !changes.is_empty() {
        ready.read(edited);
        ready.changes = changes;
    }
    ready
}

/// Gives answers without a message id one: rows that hang on each other are one message. If every
/// entry is a subagent's, they become entries of a session of its own.
fn first_edits(session: &Session, bytes: &[u8]) -> (Vec<u8>, Vec<Change>) {
    let facts = &session.facts;
    let all_side = facts.all_sidechain();
    let mut ids: FxHashMap<usize, String> = FxHashMap::default();
    let mut out = Vec::new();
    let mut changes = Vec::new();
    let mut done = 0;
    for (node, fact) in facts.nodes.iter().enumerate() {
        let flags = fact.flags;
        let lacks = fact.role == Role::Assistant && flags.lacks_message_id() && !flags.is_synthetic();
        let lacks = lacks && (all_side || !flags.is_sidechain());
        if !lacks && !all_side {
            continue;
        }
        let place = facts.place(node);
        let start = usize::try_from(place.offset).unwrap_or(usize::MAX);
        let raw = &bytes[start..start + place.len as usize];
        let mut splice = Splice::new(raw);
        if all_side {
            splice.set(Key::IsSidechain, b"false".to_vec());
        }
        if let Some(message) = splice.line.message.filter(|_| lacks) {
            let above = facts.parent_of(node).and_then(|parent| ids.get(&parent)).cloned();
            let id = above.unwrap_or_else(|| message_id(&made_uuid(&format!("message {node}"))));
            splice.set_in_message("id", message.id, string(&id));
            ids.insert(node, id);
        }
        let after = splice.finish();
        out.extend_from_slice(&bytes[done..start]);
        out.extend_from_slice(&after);
        done = start + raw.len();
        let why = if all_side { Kind::AllSidechain } else { Kind::NoMessageId };
        let (before, after) = (Some(raw.to_vec()), Some(after));
        changes.push(Change { line: place.line, why, before, after });
    }
    out.extend_from_slice(&bytes[done..]);
    (out, changes)
}

/// What of a mended session is still lost or refused by any client, and whether all send the same.
fn look_again(bytes: &[u8]) -> (Vec<Finding>, bool) {
    let session = Session::read(bytes);
    let harm = check(&session, &Client::ALL).into_iter().filter(Finding::is_harmful).collect();
    let newest = said_to(&session, Client::NEWEST);
    (harm, Client::ALL.into_iter().all(|client| said_to(&session, client) == newest))
}

/// The conversation that a client sends: whose words, and where they come from. Thinking depends on
/// the model that is asked, and newer clients put results first and calls last.
fn said_to(session: &Session, client: Client) -> Vec<(bool, Vec<What>)> {
    let told = |part: &Part| !part.sort.is_thinking() && !matches!(part.what, What::Note(_));
    let mut said = Vec::new();
    for mut message in resume(&session.facts, client).messages {
        message.parts.retain(told);
        message.parts.sort_by_key(|part| (part.sort != Sort::Result, part.sort == Sort::Call));
        if !message.parts.is_empty() {
            said.push((message.assistant, message.parts.iter().map(|part| part.what).collect()));
        }
    }
    said
}

/// Puts the lines of a log in order whose entries stand before their parents: the other way round if
/// that is all, else by time.
fn in_order(bytes: &[u8], session: &Session) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
    lines.reverse();
    let turned = join_lines(&lines);
    if !intended(&Session::read(&turned).facts).scrambled {
        return turned;
    }
    lines.reverse();
    let mut times = vec![Time::NONE; lines.len()];
    for (node, fact) in session.facts.nodes.iter().enumerate() {
        if let Some(time) = times.get_mut(session.facts.place(node).line as usize - 1) {
            *time = fact.time;
        }
    }
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|&at| times[at]);
    join_lines(&order.into_iter().map(|at| lines[at]).collect::<Vec<_>>())
}

fn join_lines(lines: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        out.extend_from_slice(line);
        if !line.ends_with(b"\n") {
            out.push(b'\n');
        }
    }
    out
}

/// What is to be done, entry by entry.
struct Plan<'a> {
    facts: &'a Facts,
    reader: Reader<'a>,
    meant: &'a Intended,
    /// What becomes of entries, by node.
    edits: FxHashMap<usize, Edit>,
    /// Entries that the plan adds.
    new: Vec<New>,
    /// The conversation, in the order in which it is laid.
    way: Vec<Item>,
    /// The first entry of each uuid, among those that clients take for parts of the tree.
    by_uid: FxHashMap<Uid, usize>,
    /// Added results, each with how far along the way its call is.
    results_behind: Vec<(usize, usize)>,
    /// The ids of calls that are taken, once one is renamed.
    call_names: FxHashSet<String>,
    /// A result stands before its call.
    misplaced: bool,
}

/// One entry of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    /// An entry of the source, as an index of a node.
    Old(usize),
    /// One that is added, as an index of [`Plan::new`].
    New(usize),
}

/// What becomes of an entry.
#[derive(Debug, Clone, Default)]
struct Edit {
    /// Why it is changed, the first reason.
    why: Option<Kind>,
    drop: bool,
    /// A parent other than the one in the file; `Some(None)` is none at all.
    parent: Option<Option<String>>,
    uuid: Option<String>,
    time: Option<String>,
    model: Option<String>,
    /// The content as a whole.
    content: Option<Vec<u8>>,
    /// What becomes of single blocks, by place.
    blocks: BTreeMap<usize, BlockEdit>,
    /// The bytes of a later entry with the same uuid, which take its place.
    replaced_by: Option<usize>,
    /// The client's copy of a result goes, for the result became text.
    no_copy: bool,
}

#[derive(Debug, Clone)]
enum BlockEdit {
    Remove,
    Replace(Vec<Vec<u8>>),
    /// Another id for a call, or for the call that a result answers.
    Rename(String),
}

/// An entry that is added.
#[derive(Debug, Clone)]
struct New {
    kind: NewKind,
    why: Kind,
    uuid: String,
    /// The entry whose surroundings it takes over: session, directory, version.
    like: usize,
    /// When it was written.
    time: Time,
    parent: Option<String>,
}

#[derive(Debug, Clone)]
enum NewKind {
    /// The result of a call that has none.
    Result { call: String },
    /// Something before the first answer.
    Beginning,
    /// The answer that clients put in behind a prompt without one.
    NoReply,
    /// A note that does nothing but stand last.
    End,
}

impl<'a> Plan<'a> {
    fn new(facts: &'a Facts, reader: Reader<'a>, meant: &'a Intended) -> Self {
        let way = meant.chain.iter().map(|&node| Item::Old(node)).collect();
        let mut by_uid = FxHashMap::default();
        for (node, fact) in facts.nodes.iter().enumerate() {
            if !matches!(fact.role, Role::Progress | Role::Other) {
                by_uid.entry(fact.uid).or_insert(node);
            }
        }
        Self {
            facts,
            reader,
            meant,
            edits: FxHashMap::default(),
            new: Vec::new(),
            way,
            by_uid,
            results_behind: Vec::new(),
            call_names: FxHashSet::default(),
            misplaced: false,
        }
    }

    fn node(&self, node: usize) -> &Node {
        &self.facts.nodes[node]
    }

    /// The first entry with the uuid of this one.
    fn first(&self, node: usize) -> usize {
        self.by_uid.get(&self.node(node).uid).copied().unwrap_or(node)
    }

    /// The parent of an entry, if it is in the file.
    fn parent_of(&self, node: usize) -> Option<usize> {
        self.by_uid.get(&self.node(node).parent).copied()
    }

    fn edit(&mut self, node: usize, why: Kind) -> &mut Edit {
        let edit = self.edits.entry(node).or_default();
        edit.why.get_or_insert(why);
        edit
    }

    fn drop_entry(&mut self, node: usize, why: Kind) {
        self.edit(node, why).drop = true;
    }

    fn is_dropped(&self, node: usize) -> bool {
        self.edits.get(&node).is_some_and(|edit| edit.drop)
    }

    /// The uuid that an entry will have.
    fn uuid(&self, item: Item) -> String {
        match item {
            Item::New(new) => self.new[new].uuid.clone(),
            Item::Old(node) => match self.edits.get(&node).and_then(|edit| edit.uuid.clone()) {
                Some(uuid) => uuid,
                None => self.reader.uuid(node),
            },
        }
    }

    /// Decides everything but the order.
    fn mend(&mut self) {
        self.mend_copies();
        self.mend_envelopes();
        self.mend_contents();
        self.mend_calls();
        self.drop_hollow();
        self.mend_beginning();
        self.mend_links();
    }

    /// Of entries with one uuid the later one counts, in the place of the first.
    fn mend_copies(&mut self) {
        let mut last_of: FxHashMap<usize, usize> = FxHashMap::default();
        for node in 0..self.facts.nodes.len() {
            let first = self.first(node);
            if first != node && !matches!(self.node(node).role, Role::Progress | Role::Other) {
                // What could not be sent does not take the place of what can.
                let fact = self.node(node);
                if !fact.is_conversation() || !fact.flags.lacks_message() && !self.is_odd(node) {
                    last_of.insert(first, node);
                }
                self.drop_entry(node, Kind::DuplicateUuid);
            }
        }
        for (first, last) in last_of {
            if self.reader.entry(self.node(first).entry).trim_ascii()
                != self.reader.entry(self.node(last).entry).trim_ascii()
            {
                self.edit(first, Kind::DuplicateUuid).replaced_by = Some(last);
            }
        }
        // On the way stands the later one; it moves to where the first is.
        for item in &mut self.way {
            if let Item::Old(node) = item {
                *node = self.by_uid.get(&self.facts.nodes[*node].uid).copied().unwrap_or(*node);
            }
        }
    }

    /// Entries need an id, a message and a time; answers a message id and a model.
    fn mend_envelopes(&mut self) {
        for node in 0..self.facts.nodes.len() {
            let flags = self.node(self.content_node(node)).flags;
            if self.node(node).is_conversation() && flags.lacks_message() {
                self.drop_entry(node, Kind::Incomplete);
            } else if self.node(node).is_conversation() && !flags.is_sidechain() && self.is_odd(node) {
                // Clients that look for the rows of a message fail on it, wherever it stands.
                self.drop_entry(node, Kind::OddContent);
            } else if flags.lacks_uuid() {
                self.edit(node, Kind::Incomplete).uuid = Some(made_uuid(&format!("uuid {node}")));
            }
        }
        let way = self.old_way();
        let mut time = way.iter().map(|&node| self.node(node).time).find(|time| !time.is_none());
        let mut model: Option<String> = None;
        let first_model = way.iter().find_map(|&node| self.model_of(node));
        for node in way {
            let fact = *self.node(self.content_node(node));
            if fact.time.is_none() {
                if let Some(iso) = time.and_then(|time| time.to_iso()) {
                    self.edit(node, Kind::NoTime).time = Some(iso);
                }
            } else {
                time = Some(fact.time);
            }
            if self.is_dropped(node) {
                continue;
            }
            if fact.role != Role::Assistant {
                if fact.role == Role::Attachment && fact.flags.is_fatal_attachment() {
                    self.drop_entry(node, Kind::OddAttachment);
                }
                continue;
            }
            match self.model_of(node) {
                Some(own) => model = Some(own),
                None if fact.flags.lacks_model() => {
                    let taken = model.clone().or_else(|| first_model.clone());
                    let taken = taken.unwrap_or_else(|| "<synthetic>".to_owned());
                    self.edit(node, Kind::NoModel).model = Some(taken);
                }
                None => {}
            }
        }
    }

    /// Tells whether the content of an entry is nothing that the newest client would take.
    fn is_odd(&self, node: usize) -> bool {
        let from = self.content_node(node);
        let blocks = self.facts.blocks_of(from);
        let odd = |sort: Sort| matches!(sort, Sort::Odd | Sort::Null);
        self.node(from).flags.has_odd_content()
            || !blocks.is_empty() && blocks.iter().all(|block| odd(block.sort))
    }

    fn model_of(&self, node: usize) -> Option<String> {
        let model = self.facts.model_of(self.content_node(node))?;
        (model != "<synthetic>").then(|| model.to_owned())
    }

    /// The entries of the source on the way.
    fn old_way(&self) -> Vec<usize> {
        let old = |item: &Item| match item {
            Item::Old(node) => Some(*node),
            Item::New(_) => None,
        };
        self.way.iter().filter_map(old).collect()
    }

    /// A conversation begins with a user.
    fn mend_beginning(&mut self) {
        let first = self.way.iter().position(|item| match *item {
            Item::Old(node) => self.node(node).is_conversation() && !self.is_dropped(node),
            Item::New(_) => true,
        });
        let Some(at) = first else { return };
        if let Item::Old(node) = self.way[at]
            && self.node(node).role == Role::Assistant
            && !self.node(node).flags.is_failure_report()
        {
            let new = self.add(NewKind::Beginning, Kind::BeginsWithAnswer, node, -1);
            self.way.insert(at, Item::New(new));
        }
    }

    fn add(&mut self, kind: NewKind, why: Kind, like: usize, millis: i64) -> usize {
        let time = Time::from_millis(self.time_of(like).millis().unwrap_or(0) + millis);
        let seed = format!("{:?} {} {}", kind, self.reader.uuid(like), self.new.len());
        self.new.push(New { kind, why, uuid: made_uuid(&seed), like, time, parent: None });
        self.new.len() - 1
    }

    /// The time that an entry will have.
    fn time_of(&self, node: usize) -> Time {
        let given = self.edits.get(&node).and_then(|edit| edit.time.as_deref());
        given.map_or(self.node(node).time, |time| Time::parse(time.as_bytes()))
    }

    /// Broken links lead to what stands in for the lost parent; what hung on an entry that goes, hangs
    /// on the one before it.
    fn mend_links(&mut self) {
        for broken in &self.meant.breaks {
            let parent = broken.parent.map(|parent| self.first(parent));
            let parent = self.kept_above(parent).map(|parent| self.uuid(Item::Old(parent)));
            let why = match broken.why {
                rethread_model::Break::Dangling => Kind::DanglingParent,
                rethread_model::Break::NoParent => Kind::NoParent,
                rethread_model::Break::Cycle => Kind::Cycle,
            };
            let node = self.first(broken.node);
            self.edit(node, why).parent = Some(parent);
        }
        let broken: FxHashSet<usize> =
            self.meant.breaks.iter().map(|broken| self.first(broken.node)).collect();
        for node in 0..self.facts.nodes.len() {
            if broken.contains(&node) || self.is_dropped(node) {
                continue;
            }
            let Some(parent) = self.parent_of(node).filter(|&parent| self.is_dropped(parent)) else {
                continue;
            };
            if self.first(parent) != parent {
                continue;
            }
            let why = self.edits[&parent].why.unwrap_or(Kind::Incomplete);
            let above = self.kept_above(Some(parent)).map(|above| self.uuid(Item::Old(above)));
            self.edit(node, why).parent = Some(above);
        }
        self.link_new();
    }

    /// The nearest entry at or above one that is not dropped.
    fn kept_above(&self, mut at: Option<usize>) -> Option<usize> {
        let mut seen = FxHashSet::default();
        while let Some(node) = at.filter(|&node| seen.insert(node)) {
            if !self.is_dropped(node) {
                return Some(node);
            }
            at = self.parent_of(node);
        }
        None
    }

    /// Added entries hang on the one before them on the way, and the next one on them.
    fn link_new(&mut self) {
        let way = self.kept_way();
        for at in 0..way.len() {
            let before = at.checked_sub(1).map(|before| self.uuid(way[before]));
            let follows_new = at > 0 && matches!(way[at - 1], Item::New(_));
            match way[at] {
                Item::New(new) => self.new[new].parent = before,
                Item::Old(node) if follows_new => {
                    let why = match way[at - 1] {
                        Item::New(new) => self.new[new].why,
                        Item::Old(_) => continue,
                    };
                    self.edit(node, why).parent = Some(before);
                }
                Item::Old(_) => {}
            }
        }
    }

    fn kept_way(&self) -> Vec<Item> {
        let kept = |item: &Item| match *item {
            Item::Old(node) => !self.is_dropped(node),
            Item::New(_) => true,
        };
        self.way.iter().copied().filter(kept).collect()
    }

    /// Lays the way in one line, so that clients without any rule for forks walk it whole.
    fn lay_in_line(&mut self) {
        self.way = self.ordered(&self.kept_way());
        let mut before: Option<String> = None;
        for (at, item) in self.way.clone().into_iter().enumerate() {
            match item {
                Item::New(new) => self.new[new].parent.clone_from(&before),
                Item::Old(node) => {
                    let from = self.content_node(node);
                    let now = match self.edits.get(&node).and_then(|edit| edit.parent.clone()) {
                        Some(parent) => parent,
                        None => self.parent_of(from).map(|parent| self.uuid(Item::Old(parent))),
                    };
                    let named = !self.node(from).parent.is_none();
                    // The first entry keeps what it has, unless that names nothing.
                    let wanted = if at == 0 { now.clone() } else { before.clone() };
                    if wanted != now || at == 0 && now.is_none() && named {
                        self.edit(node, Kind::ParallelCalls).parent = Some(wanted);
                    }
                }
            }
            before = Some(self.uuid(item));
        }
    }

    /// Adds a last entry that is newer than all others, so that every client goes on there.
    fn mark_end(&mut self) {
        let said = |item: &Item| match *item {
            Item::Old(node) => self.node(node).is_conversation(),
            Item::New(_) => true,
        };
        let way = self.kept_way();
        let Some(&last) = way.last() else { return };
        let Some(&Item::Old(like)) = way.iter().rev().find(|item| matches!(item, Item::Old(_))) else {
            return;
        };
        let asks = match way.iter().rev().find(|item| said(item)) {
            Some(&Item::Old(node)) => self.node(node).role == Role::User,
            Some(&Item::New(new)) => {
                matches!(self.new[new].kind, NewKind::Result { .. } | NewKind::Beginning)
            }
            None => false,
        };
        let kind = if asks { NewKind::NoReply } else { NewKind::End };
        let newest = self.facts.nodes.iter().filter_map(|node| node.time.millis()).max();
        let now = self.time_of(like).millis();
        let millis = newest.zip(now).map_or(1, |(newest, now)| newest - now + 2);
        let new = self.add(kind, Kind::OtherBranch, like, millis);
        self.new[new].parent = Some(self.uuid(last));
        self.way.push(Item::New(new));
    }
}

/// Makes the id of a message from a uuid.
fn message_id(uuid: &str) -> String {
    format!("msg_{}", &uuid.replace('-', "")[..24])
}

/// Makes a uuid that is the same in every run.
fn made_uuid(seed: &str) -> String {
    let hash = xxhash_rust::xxh3::xxh3_128(seed.as_bytes());
    let hex = format!("{hash:032x}");
    format!("{}-{}-4{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..])
}
