//! Checks whether a session resumes: content that a client would lose, requests that the API would refuse,
//! and harmless irregularities.
//!
//! The reference is the intended path ([`crate::intended_path`]). Content of it that a client does not send
//! is lost, and each loss is reported with its cause. All checks use only the facts, so checking a library
//! takes about as long as counting it.

mod kinds;
mod linear;
mod losses;
mod report;
mod request;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::client::Client;
use crate::facts::{Block, BlockClass, Facts, Role};
use crate::index::{MessageNo, NodeId};
use crate::resume::{IntendedPath, LinkDefect, Refusal, Resume, intended_path_to, resume};
use crate::session::Session;

pub use kinds::{FindingKind, Severity};
pub(crate) use linear::{LinearConversation, linear_conversation, newest_client_tip};
pub use linear::{harmful_findings, newest_client_chain, session_intended_path};
pub use report::CheckReport;
pub use request::MAX_IMAGE_BYTES;
use request::is_claude_model;

/// Something that a user should know before resuming a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line concerned, from 1; `None` if the finding concerns the whole session.
    pub line: Option<u32>,
    /// The kind of finding.
    pub kind: FindingKind,
    /// The severity.
    pub severity: Severity,
    /// A description with figures.
    pub detail: String,
    /// The affected clients, oldest first; empty if no client is affected.
    pub clients: Vec<Client>,
    /// The lines of entries that some of these clients do not send completely, ascending.
    pub lost_lines: Vec<u32>,
}

impl Finding {
    /// Returns whether it is due to the design of older clients and not a fault of the session.
    pub fn is_by_design(&self) -> bool {
        self.kind.is_by_design()
    }

    /// Returns whether part of the session does not reach the model.
    pub fn is_harmful(&self) -> bool {
        self.severity != Severity::Harmless
    }
}

/// Checks a session against the rules of some clients.
pub fn check(session: &Session, clients: &[Client]) -> Vec<Finding> {
    let facts = &session.facts;
    // The reference is the conversation, not the local command that a client may resume instead.
    let newest = resume(facts, Client::NEWEST);
    let abandoned = session.abandoned_conversation(&newest);
    let intended = intended_path_to(facts, abandoned.as_ref().map(|abandoned| abandoned.tip));
    let mut findings = Findings::default();
    findings.add_file_findings(session, &intended);
    let found = |client: Client| {
        let mut findings = Findings {
            resume_line: abandoned.as_ref().map(|abandoned| facts.location(abandoned.leaf).line),
            ..Findings::default()
        };
        match client {
            Client::NEWEST => findings.check_client(facts, &intended, client, &newest),
            _ => findings.check_client(facts, &intended, client, &resume(facts, client)),
        }
        findings
    };
    for pair in clients.chunks(2) {
        // Two at a time: more would need more memory than the time saved is worth.
        let (first, second) = rayon::join(|| found(pair[0]), || pair.get(1).map(|&client| found(client)));
        findings.join(first);
        findings.join(second.unwrap_or_default());
    }
    findings.finish()
}

/// Findings collected so far. The same finding for several clients is merged into one.
#[derive(Default)]
struct Findings {
    all: Vec<Finding>,
    /// The line after which clients resume instead of the conversation.
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

    /// Adds the findings for another client.
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
        // A harmful finding replaces a harmless one of the same kind. A broken link already explains a
        // missing beginning.
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

    /// Adds the findings about a file, independent of the client.
    fn add_file_findings(&mut self, session: &Session, intended: &IntendedPath) {
        let facts = &session.facts;
        for broken in &intended.broken_links {
            let line = Some(facts.location(broken.node).line);
            let (kind, detail) = match broken.defect {
                LinkDefect::Dangling => (FindingKind::DanglingParent, "its parent is not in the file"),
                LinkDefect::NoParent => (FindingKind::NoParent, "it has no parent, although it is a reply"),
                LinkDefect::Cycle => (FindingKind::Cycle, "it is its own ancestor"),
            };
            self.add(line, kind, Severity::Harmless, &|| detail.to_owned());
        }
        for defect in facts.defects.iter().chain(&session.tree.defects) {
            let kind = FindingKind::of_defect(defect.kind);
            self.add(Some(defect.line), kind, Severity::Harmless, &|| defect.detail.clone());
        }
        if intended.scrambled {
            let detail = "most entries come before their parents";
            self.add(None, FindingKind::OutOfOrder, Severity::Harmless, &|| detail.to_owned());
        }
        if let Some(line) = facts.unterminated_line {
            let detail = || "the line has no line break".to_owned();
            self.add(Some(line), FindingKind::NoLineBreak, Severity::Harmless, &detail);
        }
        if facts.byte_order_mark {
            let detail = || "the file begins with a byte order mark".to_owned();
            self.add(Some(1), FindingKind::ByteOrderMark, Severity::Harmless, &detail);
        }
        self.add_entry_findings(facts, intended);
        self.add_branch_findings(facts);
        self.add_session_findings(facts);
    }

    /// Adds the findings about entries on any branch: some clients read all of them.
    fn add_branch_findings(&mut self, facts: &Facts) {
        for (node, fact) in facts.nodes.iter_enumerated().filter(|(_, fact)| fact.is_conversation()) {
            let mut report = |kind: FindingKind, detail: &str| {
                let line = Some(facts.location(node).line);
                self.add(line, kind, Severity::Harmless, &|| detail.to_owned());
            };
            if fact.time.is_none() {
                report(FindingKind::NoTime, "it has no valid time");
            }
            if fact.flags.is_sidechain() {
                continue;
            }
            if fact.lacks_message_id() {
                report(FindingKind::NoMessageId, "the answer has no message id");
            }
            if fact.flags.lacks_message() {
                continue;
            }
            if facts.has_invalid_content(node) {
                report(FindingKind::InvalidContent, "its content is not a list of blocks");
            } else if facts.blocks_of(node).iter().any(|block| block.class == BlockClass::Null) {
                report(FindingKind::InvalidBlock, "an item that is not a block");
            }
        }
    }

    /// Adds the findings about the entries of the conversation.
    fn add_entry_findings(&mut self, facts: &Facts, intended: &IntendedPath) {
        let mut full: FxHashSet<MessageNo> = FxHashSet::default();
        let mut thinking: Vec<(MessageNo, NodeId)> = Vec::new();
        for &node in &intended.chain {
            let fact = &facts.nodes[node];
            let flags = fact.flags;
            let is_answer = fact.role == Role::Assistant;
            let mut report = |kind: FindingKind, detail: &str| {
                let line = Some(facts.location(node).line);
                self.add(line, kind, Severity::Harmless, &|| detail.to_owned());
            };
            if fact.time.is_none() {
                report(FindingKind::NoTime, "it has no valid time");
            }
            if flags.is_fatal_attachment() {
                report(FindingKind::InvalidAttachment, "it does not match its type");
            }
            if !fact.is_conversation() || flags.lacks_message() || flags.is_failure_report() {
                continue;
            }
            if is_answer && flags.lacks_model() {
                report(FindingKind::NoModel, "the answer does not name its model");
            }
            if is_answer && flags.has_string_content() {
                report(FindingKind::InvalidContent, "the content of the answer is a string");
            }
            let blocks = facts.blocks_of(node);
            if blocks.is_empty() {
                report(FindingKind::BlankText, "it has no content");
            }
            let faults = blocks.iter().map(|block| block_fault(facts, node, block));
            faults.clone().flatten().for_each(|(kind, detail)| report(kind, detail));
            if let Some(message) = fact.message().filter(|_| is_answer) {
                let mut sound = blocks.iter().zip(faults).filter(|(_, fault)| fault.is_none());
                if sound.clone().count() > 0 && sound.all(|(block, _)| block.class.is_thinking()) {
                    thinking.push((message, node));
                } else {
                    full.insert(message);
                }
            }
        }
        for (_, node) in thinking.into_iter().filter(|(message, _)| !full.contains(message)) {
            let detail = || "an answer with only thinking, which newer clients drop".to_owned();
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
            let detail = || format!("entries of unknown types: {}", unknown.join(", "));
            self.add(None, FindingKind::UnknownType, Severity::Harmless, &detail);
        }
        if facts.session_ids.n_names() > 1 {
            let detail = || format!("the entries belong to {} sessions", facts.session_ids.n_names());
            self.add(None, FindingKind::SeveralSessions, Severity::Harmless, &detail);
        }
        let foreign = facts.summaries.iter().filter(|(leaf, _)| facts.node_of(*leaf).is_none()).count();
        if foreign > 0 && !facts.nodes.is_empty() {
            let detail = || format!("{foreign} summaries refer to entries of other files");
            self.add(None, FindingKind::ForeignSummary, Severity::Harmless, &detail);
        }
    }

    fn check_client(&mut self, facts: &Facts, intended: &IntendedPath, client: Client, resumed: &Resume) {
        if let Some(refusal) = resumed.refusal {
            return self.add_refusal(facts, client, refusal);
        }
        self.check_losses(facts, intended, client, resumed);
        self.check_request(facts, client, resumed);
    }

    fn add_refusal(&mut self, facts: &Facts, client: Client, refusal: Refusal) {
        let line = |node: NodeId| Some(facts.location(node).line);
        let (at, kind, detail) = match refusal {
            // A file without any conversation is not a broken session.
            Refusal::NoConversation if facts.nodes.is_empty() => {
                let detail = || "there is nothing to resume".to_owned();
                self.add_for(client, None, FindingKind::NoConversation, Severity::Harmless, &detail);
                return;
            }
            Refusal::NoConversation if facts.is_all_sidechain() => (
                None,
                FindingKind::AllSidechain,
                "every entry belongs to a subagent, and clients do not resume those",
            ),
            Refusal::NoConversation => {
                (None, FindingKind::NoConversation, "the client finds no conversation")
            }
            Refusal::NoTime(node) => {
                (line(node), FindingKind::NoTime, "it has no time, and the client does not resume")
            }
            Refusal::NullLine => (
                facts.null_line_no,
                FindingKind::NullLine,
                "the line is `null`, and the client does not resume",
            ),
            Refusal::Cycle(node) => (line(node), FindingKind::Cycle, "the client loops forever"),
            Refusal::NoMessage(node) => {
                (line(node), FindingKind::Incomplete, "it has no message, and the client does not resume")
            }
            Refusal::InvalidContent(node) => (
                line(node),
                FindingKind::InvalidContent,
                "its content is not a list of blocks, and the client does not resume",
            ),
            Refusal::NoModel(node) => {
                (line(node), FindingKind::NoModel, "it does not name its model, and the client hangs")
            }
            Refusal::InvalidAttachment(node) => (
                line(node),
                FindingKind::InvalidAttachment,
                "it does not match its type, and the client does not resume",
            ),
        };
        self.add_for(client, at, kind, Severity::Refusal, &|| detail.to_owned());
    }
}

/// Returns the finding about a block that some client drops or the API rejects.
fn block_fault(facts: &Facts, node: NodeId, block: &Block) -> Option<(FindingKind, &'static str)> {
    Some(match block.class {
        BlockClass::Blank | BlockClass::Empty | BlockClass::NoText => {
            (FindingKind::BlankText, "blank text, which clients drop or the API rejects")
        }
        BlockClass::Untyped | BlockClass::BareString | BlockClass::Null => {
            (FindingKind::InvalidBlock, "an item that is not a block")
        }
        BlockClass::UnsignedThinking if is_claude_model(facts, node) => {
            (FindingKind::UnsignedThinking, "thinking without a signature")
        }
        BlockClass::Media if block.media_bytes > MAX_IMAGE_BYTES => {
            (FindingKind::ImageTooLarge, "an image of more than 5 MB")
        }
        _ => return None,
    })
}
