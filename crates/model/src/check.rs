//! Will it resume: what a client would lose of a session, what the API would refuse, what is odd.
//!
//! The measure is the conversation as it was meant ([`crate::intended`]): what of it a client does
//! not send is lost, and each loss is told with its cause. Everything is decided on the facts, so a
//! library is checked about as fast as it is counted.

mod kinds;
mod linear;
mod losses;
mod request;

use rethread_log::DefectKind;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::client::Client;
use crate::facts::{BlockClass, Facts, NONE, Role};
use crate::id::Uid;
use crate::resume::{IntendedPath, LinkDefect, Refusal, Resume, intended_path_to, resume};
use crate::session::Session;

pub use kinds::{FindingKind, Severity};
pub use linear::{LinearConversation, harmful_findings, newest_client_chain, session_intended_path};
pub(crate) use linear::{linear_conversation, newest_client_tip};
pub use request::MAX_IMAGE_BYTES;

/// Something about a session that a user should know before resuming it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line that it is about, from 1; none if it is about the whole session.
    pub line: Option<u32>,
    /// What it is.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// The same in words, with figures.
    pub detail: String,
    /// The clients that it concerns, oldest first; none if it does nothing to any of them.
    pub clients: Vec<Client>,
    /// The lines of the entries of which any of these clients does not send something, ascending.
    pub lost_lines: Vec<u32>,
}

impl Finding {
    /// Tells whether it is how older clients are and not a fault of the session.
    pub fn is_by_design(&self) -> bool {
        self.kind.is_by_design()
    }

    /// Tells whether something of the session does not reach the model.
    pub fn is_harmful(&self) -> bool {
        self.severity != Severity::Harmless
    }
}

/// Checks a session against the rules of some clients.
pub fn check(session: &Session, clients: &[Client]) -> Vec<Finding> {
    let facts = &session.facts;
    // The measure is the conversation, not the local command that a client may resume in its place.
    let newest = resume(facts, Client::NEWEST);
    let left = session.abandoned_conversation(&newest);
    let meant = intended_path_to(facts, left.as_ref().map(|left| left.tip));
    let mut findings = Findings::default();
    findings.add_file_findings(session, &meant);
    let found = |client: Client| {
        let mut findings = Findings {
            resume_line: left.as_ref().map(|left| facts.location(left.leaf).line),
            ..Findings::default()
        };
        match client {
            Client::NEWEST => findings.check_client(facts, &meant, client, &newest),
            _ => findings.check_client(facts, &meant, client, &resume(facts, client)),
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
    resume_line: Option<u32>,
    index_by_key: FxHashMap<(Option<u32>, FindingKind, Severity), usize>,
}

impl Findings {
    fn add(
        &mut self,
        line: Option<u32>,
        kind: FindingKind,
        severity: Severity,
        detail: &dyn Fn() -> String,
    ) -> &mut Finding {
        let next = self.all.len();
        let at = *self.index_by_key.entry((line, kind, severity)).or_insert(next);
        if at == next {
            self.all.push(Finding {
                line,
                kind,
                severity,
                detail: detail(),
                clients: Vec::new(),
                lost_lines: Vec::new(),
            });
        }
        &mut self.all[at]
    }

    fn add_for(
        &mut self,
        client: Client,
        line: Option<u32>,
        kind: FindingKind,
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
        for Finding { line, kind, severity, detail, clients, lost_lines } in other.all {
            let finding = self.add(line, kind, severity, &|| detail.clone());
            finding.clients.extend(clients);
            if finding.lost_lines != lost_lines {
                finding.lost_lines.extend(lost_lines);
                finding.lost_lines.sort_unstable();
                finding.lost_lines.dedup();
            }
        }
    }

    fn finish(mut self) -> Vec<Finding> {
        // What does harm need not be called odd too; what is lost is why there is no beginning.
        let harmful: FxHashSet<(Option<u32>, FindingKind)> =
            self.all.iter().filter(|f| f.is_harmful()).map(|f| (f.line, f.kind)).collect();
        let broken = |line| {
            [FindingKind::DanglingParent, FindingKind::NoParent, FindingKind::Cycle]
                .iter()
                .any(|kind| harmful.contains(&(line, *kind)))
        };
        self.all.retain(|f| match f.severity {
            Severity::Harmless => !(f.clients.is_empty() && harmful.contains(&(f.line, f.kind))),
            _ => !(f.kind == FindingKind::BeginsWithAnswer && broken(f.line)),
        });
        self.all.sort_by_key(|f| (std::cmp::Reverse(f.severity), f.kind.is_by_design(), f.line));
        self.all
    }

    /// What is odd about a file, whoever reads it.
    fn add_file_findings(&mut self, session: &Session, meant: &IntendedPath) {
        let facts = &session.facts;
        for defect in facts.defects.iter().chain(&session.tree.defects) {
            let kind = match defect.kind {
                DefectKind::CutShort => FindingKind::CutShort,
                DefectKind::NotJson => FindingKind::NotJson,
                DefectKind::NullLine => FindingKind::NullLine,
                DefectKind::NotObject => FindingKind::NotObject,
                DefectKind::NulBytes => FindingKind::NulBytes,
                DefectKind::SeveralObjects => FindingKind::SeveralObjects,
                DefectKind::InvalidUtf8 => FindingKind::InvalidUtf8,
                DefectKind::TooLong => FindingKind::TooLong,
                DefectKind::DuplicateUuid => FindingKind::DuplicateUuid,
                DefectKind::Incomplete => FindingKind::Incomplete,
                // Told with what is meant.
                _ => continue,
            };
            self.add(Some(defect.line), kind, Severity::Harmless, &|| defect.detail.clone());
        }
        for broken in &meant.broken_links {
            let line = Some(facts.location(broken.node).line);
            let (kind, detail) = match broken.defect {
                LinkDefect::Dangling => (FindingKind::DanglingParent, "its parent is not in the file"),
                LinkDefect::NoParent => {
                    (FindingKind::NoParent, "it has no parent, although it answers something")
                }
                LinkDefect::Cycle => (FindingKind::Cycle, "it is its own ancestor"),
            };
            self.add(line, kind, Severity::Harmless, &|| detail.to_owned());
        }
        if meant.scrambled {
            let detail = "most entries stand before their parents";
            self.add(None, FindingKind::OutOfOrder, Severity::Harmless, &|| detail.to_owned());
        }
        if let Some(line) = facts.unterminated_line {
            let detail = || "the line does not end".to_owned();
            self.add(Some(line), FindingKind::NoLineBreak, Severity::Harmless, &detail);
        }
        if facts.byte_order_mark {
            let detail = || "the file begins with a byte order mark".to_owned();
            self.add(Some(1), FindingKind::ByteOrderMark, Severity::Harmless, &detail);
        }
        self.add_entry_findings(facts, meant);
        self.add_session_findings(facts);
    }

    /// What is odd about the entries of the conversation.
    fn add_entry_findings(&mut self, facts: &Facts, meant: &IntendedPath) {
        let mut full: FxHashSet<Uid> = FxHashSet::default();
        let mut thinking: Vec<(Uid, usize)> = Vec::new();
        for &node in &meant.chain {
            let fact = &facts.nodes[node];
            let flags = fact.flags;
            let is_answer = fact.role == Role::Assistant;
            let mut odd = |kind: FindingKind, detail: &str| {
                let line = Some(facts.location(node).line);
                self.add(line, kind, Severity::Harmless, &|| detail.to_owned());
            };
            if fact.time.is_none() {
                odd(FindingKind::NoTime, "it has no time that can be read");
            }
            if !fact.is_conversation() || flags.lacks_message() || flags.is_failure_report() {
                continue;
            }
            if is_answer && flags.lacks_message_id() && !flags.is_synthetic() {
                odd(FindingKind::NoMessageId, "the answer has no message id");
            }
            if is_answer && flags.lacks_model() {
                odd(FindingKind::NoModel, "the answer does not name its model");
            }
            if is_answer && flags.has_string_content() {
                odd(FindingKind::InvalidContent, "the content of the answer is a string");
            }
            let blocks = facts.blocks_of(node);
            if blocks.is_empty() {
                odd(FindingKind::BlankText, "it says nothing");
            }
            for block in blocks {
                match block.class {
                    BlockClass::Blank | BlockClass::Empty | BlockClass::NoText => {
                        odd(
                            FindingKind::BlankText,
                            "a text without words, which clients drop or the API refuses",
                        );
                    }
                    BlockClass::Untyped | BlockClass::BareString | BlockClass::Null => {
                        odd(FindingKind::InvalidBlock, "something that is no block")
                    }
                    _ => {}
                }
            }
            if let Some(message) = fact.message().filter(|_| is_answer) {
                let id = facts.messages[message].id;
                let id = if id.is_none() { fact.uid } else { id };
                if blocks.iter().all(|block| block.class.is_thinking()) {
                    thinking.push((id, node));
                } else {
                    full.insert(id);
                }
            }
        }
        for (_, node) in thinking.into_iter().filter(|(id, _)| !full.contains(id)) {
            let detail = || "an answer of nothing but thinking, which newer clients drop".to_owned();
            self.add(Some(facts.location(node).line), FindingKind::LoneThinking, Severity::Harmless, &detail);
        }
    }

    fn add_session_findings(&mut self, facts: &Facts) {
        let unknown: Vec<&str> = facts
            .types
            .keys()
            .map(String::as_str)
            .filter(|name| rethread_log::EntryKind::from_name(name.as_bytes()).is_none())
            .collect();
        if !unknown.is_empty() {
            let detail =
                || format!("entries of a type that no client we know writes: {}", unknown.join(", "));
            self.add(None, FindingKind::UnknownType, Severity::Harmless, &detail);
        }
        if facts.session_ids.n_names() > 1 {
            let detail = || format!("the entries name {} sessions", facts.session_ids.n_names());
            self.add(None, FindingKind::SeveralSessions, Severity::Harmless, &detail);
        }
        let foreign = facts.summaries.iter().filter(|(leaf, _)| facts.node_of(*leaf).is_none()).count();
        if foreign > 0 && !facts.nodes.is_empty() {
            let detail = || format!("{foreign} summaries are about entries of other files");
            self.add(None, FindingKind::ForeignSummary, Severity::Harmless, &detail);
        }
    }

    fn check_client(&mut self, facts: &Facts, meant: &IntendedPath, client: Client, resumed: &Resume) {
        if let Some(refusal) = resumed.refusal {
            return self.add_refusal(facts, client, refusal);
        }
        self.check_losses(facts, meant, client, resumed);
        self.check_request(facts, client, resumed);
    }

    fn add_refusal(&mut self, facts: &Facts, client: Client, refusal: Refusal) {
        let line = |node: usize| Some(facts.location(node).line);
        let (at, kind, detail) = match refusal {
            // A file without any conversation is no broken session.
            Refusal::NoConversation if facts.nodes.is_empty() => {
                let detail = || "there is nothing to resume in it".to_owned();
                self.add_for(client, None, FindingKind::NoConversation, Severity::Harmless, &detail);
                return;
            }
            Refusal::NoConversation if facts.is_all_sidechain() => (
                None,
                FindingKind::AllSidechain,
                "every entry is a subagent's, and clients resume none of those",
            ),
            Refusal::NoConversation => {
                (None, FindingKind::NoConversation, "the client finds no conversation in it")
            }
            Refusal::NoTime(node) => {
                (line(node), FindingKind::NoTime, "it has no time, and the client does not resume")
            }
            Refusal::NullLine => (
                facts.null_line_no,
                FindingKind::NullLine,
                "the line is `null`, and the client does not resume",
            ),
            Refusal::Cycle(node) => (line(node), FindingKind::Cycle, "the client goes round for ever"),
            Refusal::NoMessage(node) => {
                (line(node), FindingKind::Incomplete, "it has no message, and the client does not resume")
            }
            Refusal::InvalidContent(node) => (
                line(node),
                FindingKind::InvalidContent,
                "its content is no list of blocks, and the client does not resume",
            ),
            Refusal::NoModel(node) => (
                line(node),
                FindingKind::NoModel,
                "it does not name its model, and the client never comes back",
            ),
            Refusal::InvalidAttachment(node) => (
                line(node),
                FindingKind::InvalidAttachment,
                "it is not what its type says, and the client does not resume",
            ),
        };
        self.add_for(client, at, kind, Severity::Refusal, &|| detail.to_owned());
    }
}

fn index_u32(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(NONE)
}
