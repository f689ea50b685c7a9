//! Searches of a library, with the index and without it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use proptest::prelude::*;
use rethread::{Hit, Library, Query, QuerySyntax, SearchLimits, SessionHits};
use rethread_testkit::{Home, LogBuilder, named_test_cases};
use serde_json::json;

fn library(home: &Home) -> Library {
    Library::builder().root(home.path()).cache_dir(home.path().join("cache")).open()
}

/// Returns something about each hit, in the order in which they are shown; the same with the index and without it.
fn search<T: PartialEq + Ord + std::fmt::Debug>(
    home: &Home,
    query: &Query,
    describe: impl Fn(&SessionHits, &Hit) -> T,
) -> Vec<T> {
    let find = |no_index| {
        let limits = SearchLimits { sessions: 0, hits_per_session: 0, no_index, ..SearchLimits::default() };
        let outcome = library(home).search(query, "", &limits).expect("searched");
        assert!(outcome.index_error.is_none() && outcome.rebuilt.is_none(), "{:?}", outcome.index_error);
        outcome.results.hits().map(|(session, hit)| describe(session, hit)).collect::<Vec<T>>()
    };
    let (found, mut sorted, mut scanned) = (find(false), find(false), find(true));
    sorted.sort();
    scanned.sort();
    assert_eq!(sorted, scanned, "{query:?}");
    found
}

fn parse(typed: &str) -> Query {
    Query::parse(typed, &QuerySyntax { parse_time: &|_| Err("no times".to_owned()) }).expect("a query")
}

/// Returns the matches that are shown for what was typed.
fn matches(home: &Home, typed: &str) -> Vec<String> {
    search(home, &parse(typed), |_, hit| {
        let snippet = hit.snippet.as_ref().expect("readable");
        snippet.matches.iter().map(|range| &snippet.text[range.clone()]).collect::<Vec<_>>().join("|")
    })
}

#[test]
fn text_of_any_kind_is_found() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("请检查点设置，然后继续");
    log.answer("Is it C++ [foo] or not?");
    log.prompt("see a.go:12:5 for the cause");
    log.answer("the working\n\n    tree is clean");
    let call =
        log.call("Edit", &json!({ "file_path": "x.rs", "new_string": "resolveGradientStopReferences()" }));
    log.result(&call, "Дерево чистое");
    home.add("/home/user/app", &log);
    for (typed, expected) in [
        ("点设", vec!["点设"]),
        ("检查", vec!["检查"]),
        ("设点", vec![]),
        ("C++ [", vec!["C"]),
        ("\"C++ [foo\"", vec!["C++ [foo"]),
        ("a.go:12", vec!["a.go:12"]),
        ("a.go:13", vec![]),
        ("\"working tree\"", vec!["working tree"]),
        ("GradientStop", vec!["GradientStop"]),
        ("gradient_stop", vec!["GradientStop"]),
        ("resolvegradientstopreferences", vec!["resolveGradientStopReferences"]),
        ("дерево", vec!["Дерево"]),
        ("дерев*", vec!["Дерево"]),
    ] {
        assert_eq!(matches(&home, typed), expected, "{typed}");
    }
}

/// Returns the number of messages that an exact search finds.
fn count_exactly(home: &Home, text: &str) -> usize {
    search(home, &Query::fixed(text, false).expect("a text"), |_, hit| {
        hit.message.map(rethread::MessageNo::get)
    })
    .len()
}

#[test]
fn exact_searches_find_texts_that_a_log_has_in_another_form() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("<command-message>deploy</command-message>\n<command-name>/deploy</command-name>\n<command-args>staging now</command-args>");
    log.answer("done");
    log.prompt("<bash-input>ls -la</bash-input>");
    log.prompt("<user-memory-input>use tabs</user-memory-input>");
    log.prompt(r#"<teammate-message teammate_id="lead">{"type":"task_assignment","subject":"fix \u003cdiv> now","description":"x"}</teammate-message>"#);
    log.raw(r#"{"type":"custom-title","customTitle":"fix **the** `bug`","sessionId":"00000001-0000-4000-8000-000000000000"}"#);
    home.add("/home/user/app", &log);
    for text in ["deploy staging", "loy stag", "! ls -la", "# use tabs", "fix <div> now", "fix the bug"] {
        assert_eq!(count_exactly(&home, text), 1, "{text}");
    }
    assert_eq!(count_exactly(&home, "deploy production"), 0);
    let not = search(&home, &parse("-staging"), |_, hit| hit.message.map(rethread::MessageNo::get));
    assert!(!not.is_empty() && not.len() < 6, "{not:?}");
}

#[test]
fn case_changes_what_a_set_of_characters_contains() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("a bfoo");
    home.add("/home/user/app", &log);
    let query = Query::pattern("[[abc]&&[Bc]]foo", true).expect("a pattern");
    assert_eq!(search(&home, &query, |_, _| ()).len(), 1);
}

#[test]
fn changes_of_files_are_noticed() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("first");
    log.answer("second");
    let path = home.add("/home/user/app", &log);
    let mut other = LogBuilder::new(2);
    other.prompt("something else");
    home.add("/home/user/app", &other);
    let update = || library(&home).update_index().expect("an index").expect("updated");
    assert_eq!((update().logs_read, update().logs_read), (2, 0));

    fs::hard_link(&path, home.path().join("backup.jsonl")).expect("linked");
    assert_eq!(update().logs_read, 0, "a link is no change");

    let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
    let before = log.bytes().len();
    log.prompt("third");
    file.write_all(&log.bytes()[before..]).expect("written");
    assert_eq!(matches(&home, "third"), ["third"]);

    file.set_len(before as u64 / 2).expect("truncated");
    assert_eq!(matches(&home, "second third first"), [""; 0]);
    assert_eq!(matches(&home, "first"), ["first"]);
    fs::remove_file(&path).expect("removed");
    assert_eq!(matches(&home, "first"), [""; 0]);
}

#[test]
fn note_belongs_to_its_message_also_if_its_parent_comes_later() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    log.prompt("first");
    let before = log.bytes().len();
    log.answer("the parent of the note");
    let parent = log.bytes()[before..].to_vec();
    let after = log.bytes().len();
    log.system("informational", "a lonely note");
    let mut bytes = log.bytes()[..before].to_vec();
    bytes.extend_from_slice(&log.bytes()[after..]);
    let path = home.write("projects/-home-user-app/00000001-0000-4000-8000-000000000000.jsonl", &bytes);
    let message = |_: &SessionHits, hit: &Hit| hit.message.map(rethread::MessageNo::get);
    let alone = search(&home, &parse("lonely"), message);
    OpenOptions::new().append(true).open(&path).expect("opened").write_all(&parent).expect("written");
    let found = search(&home, &parse("lonely"), message);
    assert_ne!(alone, found, "it is a note of another message now");
}

/// Patterns that need what JSON escapes, and characters that fold to others.
const PATTERNS: [&str; 10] =
    [r"ab+", r"[a-c]\s", r"a\nb", r"^b", r"(?i)é", r#""|\\"#, r"\x1b\[", r"检.?查", r"K|ſ", r"a.*\n.*b"];

proptest! {
    #![proptest_config(named_test_cases("exact searches", 24))]

    #[test]
    fn exact_searches_find_what_a_comparison_of_all_texts_finds(
        texts in prop::collection::vec("x[abKkſsSéÉ检查 \\n\\t\"\\\\/{\\[\u{1b}\u{7}\u{202e}\u{1f600}]{0,14}y", 1..12),
        at in any::<prop::sample::Index>(),
        cut in any::<(prop::sample::Index, prop::sample::Index)>(),
    ) {
        let home = Home::default();
        for (number, texts) in (1..).zip(texts.chunks(4)) {
            let mut log = LogBuilder::new(number);
            for (n, text) in texts.iter().enumerate() {
                if n % 2 == 0 { log.prompt(text) } else { log.answer(text) };
            }
            home.add("/home/user/app", &log);
        }
        let place = |session: &SessionHits, hit: &Hit| {
            let session: usize = usize::from_str_radix(&session.session.as_str()[..8], 16).expect("a number");
            (session - 1) * 4 + hit.message.expect("a message").index()
        };
        let check = |query: &Query, is_match: &dyn Fn(&str) -> bool| {
            let mut found = search(&home, query, place);
            found.sort_unstable();
            let expected: Vec<usize> = (0..texts.len()).filter(|&n| is_match(&texts[n])).collect();
            prop_assert_eq!(found, expected, "{:?}", query);
            Ok(())
        };
        let chars: Vec<char> = at.get(&texts).chars().collect();
        let (a, b) = (cut.0.index(chars.len()), cut.1.index(chars.len()));
        let literal: String = chars[a.min(b)..=a.max(b)].iter().collect();
        check(&Query::fixed(&literal, false).expect("a text"), &|text| text.contains(&literal))?;
        for pattern in PATTERNS {
            for ignore_case in [false, true] {
                let mut regex = regex::RegexBuilder::new(pattern);
                let regex = regex.multi_line(true).case_insensitive(ignore_case).build().expect("a pattern");
                let query = Query::pattern(pattern, ignore_case).expect("a pattern");
                check(&query, &|text| regex.is_match(text))?;
            }
        }
        // Phrases: equal to those of a scan, which `search` compares.
        search(&home, &parse(&format!("\"{}\"", literal.replace('"', " "))), place);
    }
}
