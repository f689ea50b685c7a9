//! Reading a log in parts, with the state stored in between.

use proptest::prelude::*;
use rethread_log::Scanner;
use rethread_model::{Facts, FactsBuilder};
use rethread_testkit::bulky_session::bulky_session;
use rethread_testkit::hostile::{hostile, varied};
use rethread_testkit::shapes::SHAPES;
use rethread_testkit::{DAMAGES, damaged, lines_of, log_of, logs_under, shared, test_cases};

/// Reads a log in parts that end at these offsets, which must be line ends; stores the state after each part.
fn facts_in_parts(log: &[u8], ends: &[usize]) -> Facts {
    let mut stored: Option<Vec<u8>> = None;
    let mut start = 0;
    for &end in ends.iter().chain([&log.len()]) {
        let (mut scanner, mut builder) = match &stored {
            Some(bytes) => postcard::from_bytes(bytes).expect("the state can be read back"),
            None => (Scanner::default(), FactsBuilder::default()),
        };
        scanner.scan(&log[start..end], &mut builder);
        assert_eq!(scanner.offset(), end as u64);
        stored = Some(postcard::to_stdvec(&(&scanner, &builder)).expect("the state can be stored"));
        start = end;
    }
    let (scanner, builder): (Scanner, FactsBuilder) =
        postcard::from_bytes(&stored.expect("there is a last part")).expect("the state can be read back");
    builder.finish(scanner.lines(), scanner.bad_lines)
}

/// Returns the ends of some lines of a log.
fn line_ends(log: &[u8], picks: &[prop::sample::Index]) -> Vec<usize> {
    let all: Vec<usize> =
        log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let mut ends: Vec<usize> = picks.iter().filter(|_| !all.is_empty()).map(|pick| *pick.get(&all)).collect();
    ends.sort_unstable();
    ends
}

fn check_parts(log: &[u8], ends: &[usize]) -> Result<(), String> {
    let mut scanner = Scanner::default();
    let mut builder = FactsBuilder::for_size(log.len() as u64);
    scanner.scan(log, &mut builder);
    let whole = builder.finish(scanner.lines(), scanner.bad_lines);
    let parts = facts_in_parts(log, ends);
    let value = |facts: &Facts| serde_json::to_value(facts).expect("facts have string keys");
    if value(&whole) != value(&parts) {
        return Err(format!("facts differ when the log is read in parts that end at {ends:?}"));
    }
    match whole.nodes.iter().find(|node| whole.node_of(node.uid) != parts.node_of(node.uid)) {
        Some(node) => Err(format!("{node:?} is not found")),
        None => Ok(()),
    }
}

#[test]
fn every_shape_can_be_read_in_parts() {
    for (name, build) in SHAPES {
        let log = build(6).bytes();
        let ends: Vec<usize> =
            log.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        for end in ends {
            check_parts(&log, &[end]).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn real_logs_can_be_read_in_parts() {
    let dirs = ["corpus", "oracle"].into_iter().filter_map(shared);
    for path in dirs.flat_map(|dir| logs_under(&dir)) {
        let log = std::fs::read(&path).expect("a readable log");
        let end = |from: usize| log[from..].iter().position(|&byte| byte == b'\n').map(|at| from + at + 1);
        let ends: Vec<usize> = [log.len() / 3, log.len() / 2].into_iter().filter_map(end).collect();
        check_parts(&log, &ends).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

proptest! {
    #![proptest_config(test_cases(200))]

    #[test]
    fn facts_do_not_depend_on_the_parts_of_a_log(
        number in 0u32..3,
        damages in prop::collection::vec((any::<usize>(), 0..DAMAGES), 0..6),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let log = match number {
            0 => varied(1),
            1 => bulky_session(1, 4),
            _ => hostile(1),
        };
        let log = log_of(&damaged(lines_of(&log.bytes()), &damages));
        let ends = line_ends(&log, &picks);
        prop_assert_eq!(check_parts(&log, &ends), Ok(()));
    }
}
