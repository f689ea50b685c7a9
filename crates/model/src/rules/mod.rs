//! The rules in which clients differ, in one table.
//!
//! A [`ClientRule`] names one behaviour. [`table`] gives the clients that have it, the reason, and the recorded
//! case or test that shows it. The code asks by name, `client.has(ClientRule::BridgesLostParents)`, and never
//! compares versions. A new client has every rule without an end, so that supporting it means adding a variant
//! to [`Client`] and the rules in which it differs.
//!
//! Comparing versions in place was rejected: a comparison does not say which behaviour it stands for, and
//! nobody could list what changed in a version.

mod table;

pub use table::{CLIENT_RULES, ClientRule};

use crate::client::Client;

/// A contiguous range of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRange {
    /// The first client in the range, or `None` if the oldest is.
    pub since: Option<Client>,
    /// The first client after the range, or `None` if the newest is in it.
    pub until: Option<Client>,
}

impl ClientRange {
    pub(crate) const ALL: Self = Self { since: None, until: None };

    /// Returns whether the range includes a client.
    pub const fn contains(self, client: Client) -> bool {
        let follows_start = match self.since {
            Some(since) => since as u8 <= client as u8,
            None => true,
        };
        let precedes_end = match self.until {
            Some(until) => (client as u8) < until as u8,
            None => true,
        };
        follows_start && precedes_end
    }
}

/// Returns the range that starts with a client.
pub(crate) const fn since(client: Client) -> ClientRange {
    ClientRange { since: Some(client), until: None }
}

/// Returns the range of all clients older than `client`.
pub(crate) const fn until(client: Client) -> ClientRange {
    ClientRange { since: None, until: Some(client) }
}

/// Returns the range from `since` to the client before `until`.
pub(crate) const fn between(since: Client, until: Client) -> ClientRange {
    ClientRange { since: Some(since), until: Some(until) }
}

/// The stage of a resume that a rule belongs to. The variants are in the order in which clients run the stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleStage {
    /// Reading the file.
    Loading,
    /// Choosing the leaf.
    Leaf,
    /// Walking to the root.
    Walk,
    /// Dropping and adding rows.
    Cleanup,
    /// Merging rows into messages.
    Merge,
    /// Pairing calls with results.
    Pairing,
    /// Encoding the blocks.
    Encoding,
    /// Sending attachments.
    Attachments,
    /// Wording reminders.
    Reminders,
}

/// A row of the table of rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleInfo {
    /// The rule.
    pub rule: ClientRule,
    /// The name of the rule.
    pub name: &'static str,
    /// The step to which it belongs.
    pub stage: RuleStage,
    /// The clients that have it.
    pub clients: ClientRange,
    /// The behaviour, in a sentence.
    pub reason: &'static str,
    /// The recorded cases or the tests that show it. Empty if only runs of real clients did.
    pub case: &'static str,
}

/// The clients that have each rule, as bits, so that a query is one lookup.
const HOLDERS: [u16; CLIENT_RULES.len()] = {
    let mut holders = [0; CLIENT_RULES.len()];
    let mut rule = 0;
    while rule < CLIENT_RULES.len() {
        let mut at = 0;
        while at < Client::ALL.len() {
            if CLIENT_RULES[rule].clients.contains(Client::ALL[at]) {
                holders[rule] |= 1 << Client::ALL[at] as u16;
            }
            at += 1;
        }
        rule += 1;
    }
    holders
};

impl Client {
    /// Returns whether the client has a rule.
    #[inline]
    pub const fn has(self, rule: ClientRule) -> bool {
        HOLDERS[rule as usize] >> self as u16 & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_rule_holds_in_one_contiguous_range() {
        for info in &CLIENT_RULES {
            let holds = Client::ALL.map(|client| client.has(info.rule));
            let changes = holds.windows(2).filter(|pair| pair[0] != pair[1]).count();
            let ends = usize::from(info.clients.since.is_some()) + usize::from(info.clients.until.is_some());
            assert!(holds.contains(&true) && holds.contains(&false), "{}", info.name);
            assert_eq!(changes, ends, "{}", info.name);
            for client in Client::ALL {
                assert_eq!(client.has(info.rule), info.clients.contains(client), "{}", info.name);
            }
        }
    }

    #[test]
    fn table_is_sorted_by_stage_and_name_without_duplicates() {
        assert!(CLIENT_RULES.is_sorted_by(|a, b| (a.stage, a.name) < (b.stage, b.name)));
        let mut names = CLIENT_RULES.map(|info| info.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn rule_is_the_index_of_its_row() {
        for (at, info) in CLIENT_RULES.iter().enumerate() {
            assert_eq!(info.rule as usize, at);
            assert_eq!(format!("{:?}", info.rule), info.name);
        }
    }

    #[test]
    fn reason_is_one_sentence() {
        for info in &CLIENT_RULES {
            assert!(info.reason.ends_with('.') && !info.reason.contains(". "), "{}", info.name);
            assert!(!info.reason.contains('|') && !info.case.contains('|'), "{}", info.name);
        }
    }

    fn table_in_markdown() -> String {
        let mut out =
            "| stage | rule | since | until | behaviour | shown by |\n|---|---|---|---|---|---|\n".to_owned();
        for info in &CLIENT_RULES {
            let version = |client: Option<Client>| client.map_or("", Client::version);
            let (since, until) = (version(info.clients.since), version(info.clients.until));
            let case = if info.case.is_empty() { "(no recorded case)" } else { info.case };
            let stage = format!("{:?}", info.stage).to_lowercase();
            let _ =
                writeln!(out, "| {stage} | `{}` | {since} | {until} | {} | {case} |", info.name, info.reason);
        }
        out.replace("|  |", "| |").replace("|  |", "| |")
    }

    #[test]
    fn format_page_contains_the_table() {
        const START: &str = "<!-- rules -->\n";
        const END: &str = "<!-- end of rules -->\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let page = std::fs::read_to_string(path).expect("docs/format.md");
        let (before, rest) = page.split_once(START).expect("start of the table");
        let (_, after) = rest.split_once(END).expect("end of the table");
        let now = format!("{before}{START}{}{END}{after}", table_in_markdown());
        if std::env::var_os("RETHREAD_WRITE_DOCS").is_some() {
            std::fs::write(path, &now).expect("docs/format.md can be written");
            return;
        }
        assert_eq!(page, now, "run the tests with RETHREAD_WRITE_DOCS=1 to write the table again");
    }
}
