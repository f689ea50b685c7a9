//! Will it resume: what a client would lose of a session, what the API would refuse, what is odd.
//!
//! The measure is the conversation as it was meant ([`crate::intended`]): what of it a client does
//! not send is lost, and each loss is told with its cause. Everything is decided on the facts, so a
//! library is checked about as fast as it is counted.

mod kinds;
mod losses;
mod request;
mod straight;

use rethread_log::DefectKind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::client::Client;
use crate::facts::{Facts, NONE, Role, Sort};
use crate::id::Uid;
use crate::resume::{Break, Intended, Refusal, Resume, intended_at, resume};
use crate::session::Session;

pub use kinds::{Kind, Severity};
pub use request::MAX_IMAGE;
pub use straight::{Straight, harm, meant_at, newest_chain};
pub(crate) use straight::{newest_tip, straight_in};

/// Something about a session that a user should know before resuming it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line that it is about, from 1; none if it is about the whole session.
    pub line: Option<u32>,
    /// What it is.
    pub kind: Kind,
    /// How bad it is.
    pub severity: Severity,
    /// The same in words, with figures.
    pub detail: String,
    /// The clients that it concerns, oldest first; none if it does nothing to any of them.
    pub clients: Vec<Client>,
    /// The lines of the entries of which any of these clients does not send something, ascending.
    pub lost: Vec<u32>,
}

impl Finding {
    /// Tells whether it is how older clients are and not a fault of the session.
    pub fn is_by_design(&self) -> bool {
        self.kind.is_by_design()
    }

    /// Tells whether something of the session does not reach the model.
    pub fn is_harmful(&self) -> bool {
        self.severity != Severity::Odd
    }
}

/// Checks a session against the rules of some clients.
pub fn check(session: &Session, clients: &[Client]) -> Vec<Finding> {
    let facts = &session.facts;
    // The measure is the conversation, not the local command that a client may resume in its place.
    let newest = resume(facts, Client::NEWEST);
    let left = session.left_behind(&newest);
    let meant = intended_at(facts, left.as_ref().map(|left| left.tip));
    let mut findings = Findings::default();
    findings.odd(session, &meant);
    let found = |client: Client| {
        let mut findings = Findings {
            left_at: left.as_ref().map(|left| facts.place(left.leaf).line),
            ..Findings::default()
        };
        match client {
            Client::NEWEST => findings.of_client(facts, &meant, client, &newest),
            _ => findings.of_client(facts, &meant, client, &resume(facts, client)),
        }
        findings
    };
    for pair in clients.chunks(2) {
        // Two at once: more would hold more in memory than they save in time.
        let (first, second) = rayon::join(|| found(pair[0]), || pair.get(1).map(|&client| found(client)));
        findings.join(first);
        findings.join(second.unwrap_or_default());
    }
    findings.finish()
}

/// Findings in the making: the same one for several clients is one.
#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    /// The line after which clients resume in place of the conversation.
    left_at: Option<u32>,
    at: FxHashMap<(Option<u32>, Kind, Severity), usize>,
}

impl Findings {
    fn add(
        &mut self,
        line: Option<u32>,
        kind: Kind,
        severity: Severity,
        detail: &dyn Fn() -> String,
    ) -> &mut Finding {
        let next = self.all.len();
        let at = *self.at.entry((line, kind, severity)).or_insert(next);
        if at == next {
            self.all.push(Finding {
                line,
                kind,
                severity,
                detail: detail(),
                clients: Vec::new(),
                lost: Vec::new(),
            });
        }
        &mut self.all[at]
    }

    fn add_for(
        &mut self,
        client: Client,
        line: Option<u32>,
        kind: Kind,
        severity: Severity,
        detail: &dyn Fn() -> String,
    ) -> &mut Finding {
        let finding = self.add(line, kind, severity, detail);
        if finding.clients.last() != Some(&client) {
            finding.clients.push(client);
        }
        finding
    }

    /// Adds what was found for another client.
    fn join(&mut self, other: Self) {
        for Finding { line, kind, severity, detail, clients, lost } in other.all {
            let finding = self.add(line, kind, severity, &|| detail.clone());
            finding.clients.extend(clients);
            if finding.lost != lost {
                finding.lost.extend(lost);
                finding.lost.sort_unstable();
                finding.lost.dedup();
            }
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        // What does harm need not be called odd too; what is lost is why there is no beginning.
        let harmful: FxHashSet<(Option<u32>, Kind)> =
            self.all.iter().filter(|f| f.is_harmful()).map(|f| (f.line, f.kind)).collect();
        let broken = |line| {
            [Kind::DanglingParent, Kind::NoParent, Kind::Cycle]
                .iter()
                .any(|kind| harmful.contains(&(line, *kind)))
        };
        self.all.retain(|f| match f.severity {
            Severity::Odd => !(f.clients.is_empty() && harmful.contains(&(f.line, f.kind))),
            _ => !(f.kind == Kind::BeginsWithAnswer && broken(f.line)),
        });
        self.all.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.kind.is_by_design(), f.line));
        self.all
    }

    /// What is odd about a file, whoever reads it.
    fn odd(&mut self, session: &Session, meant: &Intended) {
        let facts = &session.facts;
        for defect in facts.defects.iter().chain(&session.tree.defects) {
            let kind = match defect.kind {
                DefectKind::CutShort => Kind::CutShort,
                DefectKind::NotJson => Kind::NotJson,
                DefectKind::NotObject if defect.detail.contains("`null`") => Kind::NullLine,
                DefectKind::NotObject => Kind::NotObject,
                DefectKind::NulBytes => Kind::NulBytes,
                DefectKind::SeveralObjects => Kind::SeveralObjects,
                DefectKind::InvalidUtf8 => Kind::InvalidUtf8,
                DefectKind::TooLong => Kind::TooLong,
                DefectKind::DuplicateUuid => Kind::DuplicateUuid,
                DefectKind::Incomplete => Kind::Incomplete,
                // Told with what is meant.
                _ => continue,
            };
            self.add(Some(defect.line), kind, Severity::Odd, &|| defect.detail.clone());
        }
        for broken in &meant.breaks {
            let line = Some(facts.place(broken.node).line);
            let (kind, detail) = match broken.why {
                Break::Dangling => (Kind::DanglingParent, "its parent is not in the file"),
                Break::NoParent => (Kind::NoParent, "it has no parent, although it answers something"),
                Break::Cycle => (Kind::Cycle, "it is its own ancestor"),
            };
            self.add(line, kind, Severity::Odd, &|| detail.to_owned());
        }
        if meant.scrambled {
            let detail = "most entries stand before their parents";
            self.add(None, Kind::OutOfOrder, Severity::Odd, &|| detail.to_owned());
        }
        if let Some(line) = facts.open_end {
            let detail = || "the line does not end".to_owned();
            self.add(Some(line), Kind::NoLineBreak, Severity::Odd, &detail);
        }
        if facts.byte_order_mark {
            let detail = || "the file begins with a byte order mark".to_owned();
            self.add(Some(1), Kind::ByteOrderMark, Severity::Odd, &detail);
        }
        self.odd_entries(facts, meant);
        self.odd_names(facts);
    }

    /// What is odd about the entries of the conversation.
    fn odd_entries(&mut self, facts: &Facts, meant: &Intended) {
        let mut full: FxHashSet<Uid> = FxHashSet::default();
        let mut thinking: Vec<(Uid, usize)> = Vec::new();
        for &node in &meant.chain {
            let fact = &facts.nodes[node];
            let flags = fact.flags;
            let is_answer = fact.role == Role::Assistant;
            let mut odd = |kind: Kind, detail: &str| {
                let line = Some(facts.place(node).line);
                self.add(line, kind, Severity::Odd, &|| detail.to_owned());
            };
            if fact.time.is_none() {
                odd(Kind::NoTime, "it has no time that can be read");
            }
            if !fact.is_conversation() || flags.lacks_message() || flags.is_failure_report() {
                continue;
            }
            if is_answer && flags.lacks_message_id() && !flags.is_synthetic() {
                odd(Kind::NoMessageId, "the answer has no message id");
            }
            if is_answer && flags.lacks_model() {
                odd(Kind::NoModel, "the answer does not name its model");
            }
            if is_answer && flags.has_string_content() {
                odd(Kind::OddContent, "the content of the answer is a string");
            }
            let blocks = facts.blocks_of(node);
            if blocks.is_empty() {
                odd(Kind::BlankText, "it says nothing");
            }
            for block in blocks {
                match block.sort {
                    Sort::Blank | Sort::Empty | Sort::NoText => {
                        odd(Kind::BlankText, "a text without words, which clients drop or the API refuses");
                    }
                    Sort::Odd | Sort::Bare | Sort::Null => odd(Kind::OddBlock, "something that is no block"),
                    _ => {}
                }
            }
            if let Some(message) = fact.message().filter(|_| is_answer) {
                let id = facts.messages[message].id;
                let id = if id.is_none() { fact.uid } else { id };
                if blocks.iter().all(|block| block.sort.is_thinking()) {
                    thinking.push((id, node));
                } else {
                    full.insert(id);
                }
            }
        }
        for (_, node) in thinking.into_iter().filter(|(id, _)| !full.contains(id)) {
            let detail = || "an answer of nothing but thinking, which newer clients drop".to_owned();
            self.add(Some(facts.place(node).line), Kind::LoneThinking, Severity::Odd, &detail);
        }
    }

    fn odd_names(&mut self, facts: &Facts) {
        let unknown: Vec<&str> = facts
            .types
            .keys()
            .map(String::as_str)
            .filter(|name| rethread_log::Kind::from_name(name.as_bytes()).is_none())
            .collect();
        if !unknown.is_empty() {
            let detail =
                || format!("entries of a type that no client we know writes: {}", unknown.join(", "));
            self.add(None, Kind::UnknownType, Severity::Odd, &detail);
        }
        if facts.session_ids.n_names() > 1 {
            let detail = || format!("the entries name {} sessions", facts.session_ids.n_names());
            self.add(None, Kind::SeveralSessions, Severity::Odd, &detail);
        }
        let foreign = facts.summaries.iter().filter(|(leaf, _)| facts.node_of(*leaf).is_none()).count();
        if foreign > 0 && !facts.nodes.is_empty() {
            let detail = || format!("{foreign} summaries are about entries of other files");
            self.add(None, Kind::ForeignSummary, Severity::Odd, &detail);
        }
    }

    fn of_client(&mut self, facts: &Facts, meant: &Intended, client: Client, resumed: &Resume) {
        if let Some(refusal) = resumed.refusal {
            return self.refused(facts, client, refusal);
        }
        self.losses(facts, meant, client, resumed);
        self.request(facts, client, resumed);
    }

    fn refused(&mut self, facts: &Facts, client: Client, refusal: Refusal) {
        let line = |node: usize| Some(facts.place(node).line);
        let (at, kind, detail) = match refusal {
            // A file without any conversation is no broken session.
            Refusal::NoConversation if facts.nodes.is_empty() => {
                let detail = || "there is nothing to resume in it".to_owned();
                self.add_for(client, None, Kind::NoConversation, Severity::Odd, &detail);
                return;
            }
            Refusal::NoConversation if facts.all_sidechain() => {
                (None, Kind::AllSidechain, "every entry is a subagent's, and clients resume none of those")
            }
            Refusal::NoConversation => (None, Kind::NoConversation, "the client finds no conversation in it"),
            Refusal::NoTime(node) => {
                (line(node), Kind::NoTime, "it has no time, and the client does not resume")
            }
            Refusal::NullLine => {
                (facts.null_at, Kind::NullLine, "the line is `null`, and the client does not resume")
            }
            Refusal::Cycle(node) => (line(node), Kind::Cycle, "the client goes round for ever"),
            Refusal::NoMessage(node) => {
                (line(node), Kind::Incomplete, "it has no message, and the client does not resume")
            }
            Refusal::OddContent(node) => (
                line(node),
                Kind::OddContent,
                "its content is no list of blocks, and the client does not resume",
            ),
            Refusal::NoModel(node) => {
                (line(node), Kind::NoModel, "it does not name its model, and the client never comes back")
            }
            Refusal::OddAttachment(node) => (
                line(node),
                Kind::OddAttachment,
                "it is not what its type says, and the client does not resume",
            ),
        };
        self.add_for(client, at, kind, Severity::Refuses, &|| detail.to_owned());
    }
}

fn index(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(NONE)
}
