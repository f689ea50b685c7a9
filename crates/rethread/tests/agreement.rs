//! Commands agree with each other: what one counts, the others count too, and a repair changes only what a check reports.

use std::collections::BTreeSet;
use std::path::Path;

use rethread::internals::edit::{Change, repair};
use rethread::internals::model::{Session, check, harmful_findings};
use rethread::{Client, Finding, FindingKind, Library, LogSource};
use rethread_testkit::shapes::{self, SHAPES};
use rethread_testkit::{DAMAGES, damaged, hostile, lines_of, log_of, logs_under, shared};
use serde_json::Value;

/// Bytes of the largest real log that is tested. Larger ones have the same shapes.
const MAX_REAL_LOG: usize = 400_000;

/// Returns built logs of every shape, hostile logs, and logs with one or two kinds of damage.
fn built_logs() -> Vec<(String, Vec<u8>)> {
    let mut logs: Vec<(String, Vec<u8>)> =
        SHAPES.iter().map(|(name, shape)| ((*name).to_owned(), shape(6).bytes())).collect();
    logs.push(("hostile".to_owned(), hostile::hostile(1).bytes()));
    for (name, log) in [
        ("varied", hostile::varied(1)),
        ("redone", hostile::redone(1)),
        ("calls", shapes::interleaved(3)),
        ("branches", shapes::comb(3)),
        ("compactions", shapes::compactions(2)),
        ("agents", shapes::inline_agents(2)),
        ("queued", shapes::queued_prompts(2)),
    ] {
        let lines = lines_of(&log.bytes());
        logs.push((name.to_owned(), log.bytes()));
        for kind in 0..DAMAGES {
            for at in (0..lines.len()).step_by(lines.len() / STEPS + 1) {
                let one = [(at, kind)];
                let two = [(at, kind), (at * 7 + 3, (kind * 5 + 3) % DAMAGES)];
                for damages in [&one[..], &two[..]] {
                    let name = format!("{name} with damage {damages:?}");
                    logs.push((name, log_of(&damaged(lines.clone(), damages))));
                }
            }
        }
    }
    logs
}

/// Number of lines per log that are damaged.
const STEPS: usize = 6;

/// Returns real logs and recorded cases, if they are available.
fn real_logs() -> Vec<(String, Vec<u8>)> {
    let dirs = ["corpus", "oracle/sessions", "oracle/cases"].into_iter().filter_map(shared);
    let logs = dirs.flat_map(|dir| logs_under(&dir)).map(|path| {
        let bytes = std::fs::read(&path).expect("readable");
        (path.display().to_string(), bytes)
    });
    logs.filter(|(_, bytes)| bytes.len() <= MAX_REAL_LOG).collect()
}

/// Returns whether two lines differ only in their links.
fn differs_in_links_only(change: &Change) -> bool {
    let without_links = |line: &[u8]| {
        let mut line: Value = serde_json::from_slice(line).ok()?;
        for key in ["parentUuid", "logicalParentUuid"] {
            line.as_object_mut()?.remove(key);
        }
        Some(line)
    };
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => without_links(before) == without_links(after),
        (None, Some(_)) => true,
        _ => false,
    }
}

/// Checks that each change is explained by a finding of its kind: one about its line, or about another line or the
/// whole session if only links change or a line is added. What is changed only for older clients says so; it is a link
/// or an added line, next to other changes.
fn broken_repair_law(bytes: &[u8]) -> Option<String> {
    let found = check(&Session::read(bytes), &Client::ALL);
    let repaired = repair(bytes);
    // Lines of a reordered log have other numbers.
    let whole_session = |finding: &Finding| {
        matches!(finding.kind, FindingKind::AllSidechain | FindingKind::OutOfOrder) || repaired.reordered
    };
    for change in &repaired.changes {
        if change.for_older_clients {
            let is_alone =
                !repaired.reordered && repaired.changes.iter().all(|change| change.for_older_clients);
            let kinds = [FindingKind::ParallelCalls, FindingKind::OtherBranch];
            if is_alone || !kinds.contains(&change.reason) || !differs_in_links_only(change) {
                return Some(format!("not only for older clients: {change:?}"));
            }
            continue;
        }
        let finding = found
            .iter()
            .find(|f| f.kind == change.reason && (f.line == change.finding_line || repaired.reordered));
        let describe = |what: &str| {
            let text = |line: &Option<Vec<u8>>| {
                line.as_deref().map_or(String::new(), |line| String::from_utf8_lossy(line).into_owned())
            };
            let kinds: Vec<_> = found.iter().map(|f| (f.kind, f.line, &f.lost_lines)).collect();
            let (line, kind) = (change.line, change.reason);
            format!(
                "{what}: line {line}, {kind:?}\n  - {}\n  + {}\n  {kinds:?}",
                text(&change.before),
                text(&change.after)
            )
        };
        let Some(finding) = finding else { return Some(describe("no such finding")) };
        let names_line = finding.line.is_some() || finding.lost_lines.contains(&change.line);
        if !names_line && !whole_session(finding) && !differs_in_links_only(change) {
            return Some(describe("content changes on a line that no finding names"));
        }
    }
    let is_repairable = |f: &Finding| f.kind.is_repairable() || f.is_harmful();
    if !found.iter().any(is_repairable) && repaired.bytes != bytes {
        return Some("changed without a finding that a repair fixes".to_owned());
    }
    None
}

/// Checks that every defect of the file is a finding.
fn broken_defect_law(bytes: &[u8]) -> Option<String> {
    let session = Session::read(bytes);
    let found = check(&session, &Client::IN_USE);
    // The listing marks the sessions with harmful findings, which it finds in a faster way.
    if harmful_findings(&session, &Client::IN_USE).is_empty() == found.iter().any(Finding::is_harmful) {
        return Some(format!("the listing and the check disagree: {found:?}"));
    }
    let found: BTreeSet<_> = found.iter().map(|finding| (finding.line, finding.kind)).collect();
    let missing = |defect: &rethread::internals::log::Defect| {
        !found.contains(&(Some(defect.line), FindingKind::of_defect(defect.kind)))
    };
    session.defects().into_iter().find(missing).map(|defect| format!("no finding for {defect:?}; {found:?}"))
}

/// Checks that the listing, the inventory and the tree of a session have the same counts.
fn broken_count_law(bytes: &[u8]) -> Option<String> {
    let library = Library::demo();
    let source = LogSource::from_bytes("counted", Path::new("counted.jsonl"), bytes);
    let listed = source.summary().expect("in memory");
    let info = library.info(&source).expect("in memory").inventory;
    let paths = library.load(&source).expect("in memory").tree(Client::NEWEST);
    let counts = [
        ("defects", listed.defects, info.defects.len() as u64 + info.defects_omitted),
        ("turns", listed.turns, info.turns),
        ("messages", listed.messages, info.messages.total()),
        ("entries", listed.entries, info.entries.values().sum()),
        ("tool calls", listed.tool_calls, info.tool_calls.total),
        ("paths", listed.paths, info.tips),
        ("paths of the tree", listed.paths, paths.len() as u64),
        ("compactions", listed.compactions, info.compactions),
        ("subagents", listed.subagents, info.subagents),
    ];
    let different = counts.into_iter().find(|(_, listed, counted)| listed != counted);
    if let Some((what, listed, counted)) = different {
        return Some(format!("{what}: {listed} listed, {counted} counted"));
    }
    None
}

#[track_caller]
fn assert_law(logs: &[(String, Vec<u8>)], law: fn(&[u8]) -> Option<String>) {
    let broken = |(name, bytes): &(String, Vec<u8>)| law(bytes).map(|broken| format!("{name}: {broken}"));
    let broken: Vec<String> = logs.iter().filter_map(broken).collect();
    let shown: Vec<String> = broken.iter().take(5).map(|text| text.chars().take(2000).collect()).collect();
    assert!(broken.is_empty(), "{} of {} logs\n{}", broken.len(), logs.len(), shown.join("\n"));
}

#[test]
fn repair_changes_only_what_check_reports() {
    assert_law(&built_logs(), broken_repair_law);
}

#[test]
fn repair_of_real_logs_changes_only_what_check_reports() {
    assert_law(&real_logs(), broken_repair_law);
}

#[test]
fn every_defect_is_a_finding() {
    assert_law(&built_logs(), broken_defect_law);
    assert_law(&real_logs(), broken_defect_law);
}

#[test]
fn commands_count_the_same() {
    assert_law(&built_logs(), broken_count_law);
    assert_law(&real_logs(), broken_count_law);
}
