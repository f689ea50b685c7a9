//! Laws of the index: kept up to date in any way, it equals one that was built from nothing, and both find what a scan
//! of the logs finds.

mod library;
mod state;

use proptest::prelude::*;
use proptest::sample::Index as Choice;
use rethread_testkit::named_test_cases;

use library::{Append, Library};

use crate::catalogue::IndexLevel;
use crate::fail_point::Boundary;
use crate::fail_point::test::stop_at;

/// Something that happens to a library. Positions select one of its logs.
#[derive(Debug, Clone)]
enum Operation {
    Create {
        is_subagent: bool,
    },
    Append(Choice, Append),
    /// Appends an entry whose last bytes are missing.
    Tear(Choice, Append, Choice),
    /// Writes the rest of a torn entry.
    Complete(Choice),
    Truncate(Choice, Choice),
    /// Replaces a word in the whole log by one of the same length, or of another.
    Rewrite {
        log: Choice,
        same_size: bool,
        new_file: bool,
    },
    Rename(Choice),
    Delete(Choice),
    /// Copies a log, as a fork of a client or a clone does.
    Copy {
        log: Choice,
        new_ids: bool,
    },
    Link(Choice),
    Touch(Choice),
    /// Brings the index up to date. The process can be killed while it does, and logs can change after they were listed.
    Sync {
        level: IndexLevel,
        killed_at: Option<Boundary>,
        changed: Option<(Choice, Append)>,
    },
}

fn append() -> impl Strategy<Value = Append> {
    prop_oneof![
        4 => any::<u8>().prop_map(Append::Prompt),
        3 => any::<u8>().prop_map(Append::Answer),
        3 => any::<u8>().prop_map(Append::Call),
        1 => any::<u8>().prop_map(Append::LateResult),
        1 => any::<u8>().prop_map(Append::Compaction),
        2 => any::<Choice>().prop_map(Append::Rewind),
        1 => any::<Choice>().prop_map(Append::Replay),
        1 => any::<u8>().prop_map(Append::Title),
        1 => any::<u8>().prop_map(Append::Note),
        1 => any::<u8>().prop_map(Append::Garbage),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    let choice = any::<Choice>;
    let boundary = prop::sample::select(&Boundary::ALL[..]);
    let level = prop_oneof![1 => Just(IndexLevel::Summary), 5 => Just(IndexLevel::Texts)];
    let changed = prop::option::weighted(0.2, (choice(), append()));
    prop_oneof![
        2 => any::<bool>().prop_map(|is_subagent| Operation::Create { is_subagent }),
        8 => (choice(), append()).prop_map(|(log, what)| Operation::Append(log, what)),
        2 => (choice(), append(), choice()).prop_map(|(log, what, at)| Operation::Tear(log, what, at)),
        2 => choice().prop_map(Operation::Complete),
        1 => (choice(), choice()).prop_map(|(log, at)| Operation::Truncate(log, at)),
        2 => (choice(), any::<bool>(), any::<bool>())
            .prop_map(|(log, same_size, new_file)| Operation::Rewrite { log, same_size, new_file }),
        1 => choice().prop_map(Operation::Rename),
        1 => choice().prop_map(Operation::Delete),
        1 => (choice(), any::<bool>()).prop_map(|(log, new_ids)| Operation::Copy { log, new_ids }),
        1 => choice().prop_map(Operation::Link),
        1 => choice().prop_map(Operation::Touch),
        4 => (level, prop::option::weighted(0.3, boundary), changed)
            .prop_map(|(level, killed_at, changed)| Operation::Sync { level, killed_at, changed }),
    ]
}

fn apply(library: &mut Library, operation: &Operation) {
    match operation {
        Operation::Create { is_subagent } => library.create(*is_subagent),
        Operation::Append(log, what) => library.append(*log, what),
        Operation::Tear(log, what, at) => library.tear(*log, what, *at),
        Operation::Complete(log) => library.complete(*log),
        Operation::Truncate(log, at) => library.truncate(*log, *at),
        Operation::Rewrite { log, same_size, new_file } => library.rewrite(*log, *same_size, *new_file),
        Operation::Rename(log) => library.rename(*log),
        Operation::Delete(log) => library.delete(*log),
        Operation::Copy { log, new_ids } => library.copy(*log, *new_ids),
        Operation::Link(log) => library.link(*log),
        Operation::Touch(log) => library.touch(*log),
        Operation::Sync { level, killed_at, changed } => {
            let listed = library.files();
            if let Some((log, what)) = changed {
                library.append(*log, what);
            }
            stop_at(*killed_at);
            let synced = library.sync(&listed, *level);
            stop_at(None);
            assert!(killed_at.is_some() || synced.is_ok(), "{synced:?}");
        }
    }
}

/// Returns the lines that only one of two lists has.
fn difference(left: &[String], right: &[String]) -> String {
    let only = |a: &[String], b: &[String], mark: &str| -> String {
        a.iter().filter(|line| !b.contains(line)).map(|line| format!("\n{mark} {line}")).collect()
    };
    only(left, right, "-") + &only(right, left, "+")
}

proptest! {
    #![proptest_config(named_test_cases("index laws", 25))]

    #[test]
    fn index_kept_up_to_date_equals_one_built_from_nothing(
        operations in prop::collection::vec(operation(), 20..60),
    ) {
        let mut library = Library::default();
        library.create(false);
        for operation in &operations {
            apply(&mut library, operation);
            if let Operation::Sync { .. } = operation {
                // At any time, even after a writer was killed, a search finds what is in the logs.
                let (found, scanned) = (state::found(&library, 2), state::found_without_index(&library, 2));
                prop_assert_eq!(difference(&found, &scanned), "");
            }
        }
        library.sync(&library.files(), IndexLevel::Texts).expect("synchronised");
        prop_assert!(state::is_current(&library));
        let (rows, found) = (state::rows(&library), state::found(&library, usize::MAX));
        let scanned = state::found_without_index(&library, usize::MAX);
        prop_assert_eq!(difference(&found, &scanned), "");
        library.forget_index();
        library.sync(&library.files(), IndexLevel::Texts).expect("synchronised");
        prop_assert_eq!(difference(&rows, &state::rows(&library)), "");
        prop_assert_eq!(difference(&found, &state::found(&library, usize::MAX)), "");
    }
}
