//! The paths of conversations of various shapes.

use insta::assert_snapshot;
use proptest::prelude::*;
use rethread_log::Scanner;
use rethread_model::{Client, FactsBuilder, MessageKind, Reader, Session, Table, TranscriptItem};
use rethread_testkit::LogBuilder;
use serde_json::json;

fn session(bytes: &[u8]) -> Session {
    let mut builder = FactsBuilder::default();
    let mut scanner = Scanner::default();
    scanner.scan(bytes, &mut builder);
    Session::new(builder.finish(scanner.lines(), scanner.bad_lines))
}

/// Formats the text of each path, messages in order, the active one marked.
fn describe_paths(bytes: &[u8]) -> String {
    let session = session(bytes);
    let reader = Reader::new(&session, bytes);
    let mut text = String::new();
    for path in session.paths(Client::NEWEST) {
        text += if path.active { "* " } else { "- " };
        let mut words = Vec::new();
        for item in reader.items(path.step) {
            match item {
                TranscriptItem::Message(message) => {
                    let blocks: Vec<String> = message
                        .blocks
                        .iter()
                        .map(|block| match (message.kind, &*block.tool()) {
                            (MessageKind::Result, _) => format!("={}", block.result_text()),
                            (_, "") => block.text().into_owned(),
                            (_, tool) => format!("{tool}!"),
                        })
                        .collect();
                    words.push(blocks.join("+"));
                }
                TranscriptItem::Note(note) => words.push(format!("({})", note.kind)),
            }
        }
        text += &format!("{}. {}\n", path.n, words.join(" | "));
    }
    text
}

/// The worked example: two redos, the second one inside the first.
fn two_redos() -> LogBuilder {
    let mut log = LogBuilder::new(1);
    let turn = |log: &mut LogBuilder, words: &str| {
        log.prompt(words);
        log.answer(&words.to_uppercase())
    };
    turn(&mut log, "t1");
    turn(&mut log, "t2");
    let three = turn(&mut log, "t3");
    turn(&mut log, "t4a");
    turn(&mut log, "t5a");
    log.back_to(&three);
    turn(&mut log, "t4b");
    turn(&mut log, "t5b");
    let six = turn(&mut log, "t6b");
    turn(&mut log, "t7b1");
    log.back_to(&six);
    turn(&mut log, "t7b2");
    log
}

#[test]
fn two_redos_give_three_paths() {
    let bytes = two_redos().bytes();
    assert_snapshot!(describe_paths(&bytes), @"
    - 1. t1 | T1 | t2 | T2 | t3 | T3 | t4a | T4A | t5a | T5A
    - 2. t1 | T1 | t2 | T2 | t3 | T3 | t4b | T4B | t5b | T5B | t6b | T6B | t7b1 | T7B1
    * 3. t1 | T1 | t2 | T2 | t3 | T3 | t4b | T4B | t5b | T5B | t6b | T6B | t7b2 | T7B2
    ");
    let session = session(&bytes);
    let forks: Vec<String> = session
        .paths(Client::NEWEST)
        .iter()
        .map(|path| {
            let node = path.fork_point.expect("every path forks");
            let message = session.facts.nodes[node].message().expect("a message");
            format!("path {} leaves the others at message {message}, {} turns", path.n, path.turns)
        })
        .collect();
    assert_snapshot!(forks.join("\n"), @"
    path 1 leaves the others at message 6, 5 turns
    path 2 leaves the others at message 16, 7 turns
    path 3 leaves the others at message 16, 7 turns
    ");
    assert_eq!((session.tree.forks(), session.turns()), (2, 10));
}

#[test]
fn parallel_calls_are_one_step_with_results_in_call_order() {
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let calls = log.calls(&[("A", json!({})), ("B", json!({})), ("C", json!({}))]);
    log.result(&calls[2], "c");
    log.result(&calls[0], "a");
    log.result(&calls[1], "b");
    log.answer("done");
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. go | A!+B!+C! | =a | =b | =c | done");
}

#[test]
fn results_between_calls_of_one_message_do_not_branch() {
    // Clients before 2.0 write each result before the next call of the same message.
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let call = |id: &str, tool: &str| json!({ "type": "tool_use", "id": id, "name": tool, "input": {} });
    let result = |id: &str, text: &str| json!({ "message": { "role": "user", "content": [{ "type": "tool_result", "tool_use_id": id, "content": text }] } });
    log.block("m1", &call("t1", "A"));
    log.entry("user", result("t1", "a"));
    log.block("m1", &call("t2", "B"));
    log.entry("user", result("t2", "b"));
    log.answer("done");
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. go | A!+B! | =a | =b | done");
}

#[test]
fn hooks_progress_and_commands_do_not_create_paths() {
    let mut log = LogBuilder::new(1);
    let first = log.entry("progress", json!({ "data": { "type": "hook_progress" } }));
    log.prompt("go");
    let call = log.call("Bash", &json!({ "command": "ls" }));
    log.entry("progress", json!({ "data": { "type": "bash_progress" } }));
    log.entry("progress", json!({ "data": { "type": "bash_progress" } }));
    log.result(&call, "a.txt");
    let done = log.answer("done");
    log.system("stop_hook_summary", "");
    let meta = log.meta("<local-command-caveat>x</local-command-caveat>");
    log.prompt("<command-name>/cost</command-name>");
    log.back_to(&meta);
    log.prompt("<local-command-stdout>$1</local-command-stdout>");
    log.back_to(&meta);
    log.prompt("next");
    log.answer("DONE");
    log.back_to(&done);
    log.entry("attachment", json!({ "attachment": { "type": "hook_success" } }));
    log.back_to(&first);
    log.entry("progress", json!({ "data": { "type": "hook_progress" } }));
    let session = session(&log.bytes());
    assert_eq!((session.tree.forks(), session.tree.tips().len()), (0, 1));
}

#[test]
fn eight_compactions_are_one_path() {
    let mut log = LogBuilder::new(1);
    for i in 0..9 {
        log.prompt(&format!("p{i}"));
        log.answer(&format!("a{i}"));
        match i {
            8 => {}
            // Linked by its logical parent.
            0 | 3 | 6 => {
                log.compact("…");
            }
            // The logical parent is in no file.
            1 | 4 | 7 => {
                log.back_to("ffffffff-0000-4000-8000-000000000000");
                log.compact("…");
            }
            // Before 1.0.109: just a new root.
            _ => {
                log.restart();
                log.prompt(
                    "This session is being continued from a previous conversation that ran out of context.",
                );
            }
        }
    }
    let session = session(&log.bytes());
    let all = session.paths(Client::NEWEST);
    assert_eq!((all.len(), all[0].turns, all[0].compactions, all[0].active), (1, 9, 8, true));
    assert_eq!(session.compactions(), 8);
    let text = describe_paths(&log.bytes());
    for i in 0..9 {
        assert!(text.contains(&format!("p{i} | a{i}")), "{text}");
    }
}

#[test]
fn replayed_conversation_is_merged_with_its_original() {
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let call = log.call("A", &json!({}));
    log.result(&call, "a");
    log.answer("done");
    let original = String::from_utf8(log.bytes()).expect("text");
    // The same entries again under new uuids, and a new turn after the copy.
    let copy = original.replace("00000001-0000", "00000002-0000");
    let mut more = LogBuilder::new(3);
    more.back_to("00000002-0000-4000-8000-000000000004").wait(100);
    more.prompt("more");
    more.answer("MORE");
    let all = [original.as_bytes(), copy.as_bytes(), &more.bytes()].concat();
    assert_snapshot!(describe_paths(&all), @"* 1. go | A! | =a | done | more | MORE");
    let session = session(&all);
    assert_eq!((session.turns(), session.facts.messages.len()), (2, 6));
}

#[test]
fn messages_copied_after_a_summary_keep_it_on_the_path() {
    let mut log = LogBuilder::new(1);
    log.prompt("one");
    log.answer("ONE");
    let before = String::from_utf8(log.bytes()).expect("text");
    let summary = log.compact("…");
    // The same two messages again, under new uuids, after the summary.
    let copy = before
        .replace("00000001-0000", "00000002-0000")
        .replace("\"parentUuid\":null", &format!("\"parentUuid\":\"{summary}\""));
    let mut more = LogBuilder::new(3);
    more.back_to("00000002-0000-4000-8000-000000000002").wait(100);
    more.prompt("two");
    let all = [&log.bytes(), copy.as_bytes(), &more.bytes()].concat();
    let session = session(&all);
    let paths = session.paths(Client::NEWEST);
    assert_eq!((paths.len(), paths[0].compactions, paths[0].turns), (1, 1, 2));
}

#[test]
fn repeated_blocks_are_counted_once() {
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let text = |text: &str| json!({ "type": "text", "text": text });
    log.block("m1", &json!({ "type": "thinking", "thinking": "hm", "signature": "s" }));
    log.block("m1", &text("Hel"));
    log.block("m1", &text("Hello"));
    log.block("m1", &text("Hello"));
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. go | hm+Hello");
    let session = session(&log.bytes());
    assert_eq!(session.facts.block_counts["assistant:text"], 1);
    assert_eq!(session.facts.block_counts["assistant:thinking"], 1);
}

#[test]
fn broken_links_lose_no_message() {
    // A cycle, a child before its parent, a missing parent.
    let mut log = LogBuilder::new(1);
    let first = log.prompt("aa");
    log.answer("bb");
    log.wait(60).back_to("00000001-0000-4000-8000-000000000004");
    log.prompt("child before its parent");
    log.back_to(&first);
    log.answer("its parent");
    log.wait(60).back_to("gone");
    log.prompt("orphan");
    let bytes = String::from_utf8(log.bytes()).expect("text");
    let cyclic =
        bytes.replacen("\"parentUuid\":null", "\"parentUuid\":\"00000001-0000-4000-8000-000000000002\"", 1);
    for log in [bytes, cyclic] {
        let text = describe_paths(log.as_bytes());
        for words in ["aa", "bb", "child before its parent", "its parent", "orphan"] {
            assert!(text.contains(words), "{words} is lost:\n{text}");
        }
    }
}

#[test]
fn later_entry_with_the_same_uuid_wins() {
    let mut log = LogBuilder::new(1);
    log.prompt("before");
    log.answer("ok");
    let original = String::from_utf8(log.bytes()).expect("text");
    let changed = original.replace("\"before\"", "\"after\"").replace("00:00:01", "00:10:01");
    let again = changed.lines().next().expect("a line");
    assert_snapshot!(describe_paths(format!("{original}{again}\n").as_bytes()), @"* 1. after | ok");
}

#[test]
fn checkpoint_inside_the_conversation_is_not_a_path() {
    let mut log = LogBuilder::new(1);
    log.prompt("one");
    let one = log.answer("ONE");
    log.prompt("two");
    log.answer("TWO");
    log.raw(&json!({ "type": "last-prompt", "leafUuid": one, "explicit": true }).to_string());
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. one | ONE | two | TWO");
    let session = session(&log.bytes());
    let path = session.paths(Client::NEWEST).remove(0);
    assert!(path.resumes_before_end && path.main);
    assert_eq!((path.resumes_at.map(|node| node.index()), path.tip.index()), (Some(1), 3));
    log.raw(&json!({ "type": "last-prompt", "leafUuid": null, "explicit": true }).to_string());
    assert_snapshot!(describe_paths(&log.bytes()), @"- 1. one | ONE | two | TWO");
}

#[test]
fn inline_subagents_are_matched_to_their_calls() {
    let mut log = LogBuilder::new(1);
    log.prompt("go");
    let calls = log.calls(&[("Task", json!({ "prompt": "first" })), ("Task", json!({ "prompt": "second" }))]);
    log.sidechain(Some("a1")).restart();
    log.prompt("second");
    log.answer("SECOND");
    log.restart();
    log.prompt("first");
    log.answer("FIRST");
    log.sidechain(None);
    log.result(&calls[0], "1");
    log.result(&calls[1], "2");
    log.answer("done");
    let session = session(&log.bytes());
    let started_by = session.subagents().into_iter().map(|agent| agent.call.map(|call| call.index()));
    assert_eq!(started_by.collect::<Vec<_>>(), [Some(1), Some(0)]);
    assert_eq!(session.inline_subagent_count(), 2);
    assert_eq!(session.turns(), 1, "a subagent's prompt is not a turn");
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. go | Task!+Task! | =1 | =2 | done");
}

#[test]
fn log_of_only_commands_has_a_path() {
    let mut log = LogBuilder::new(1);
    log.prompt("<command-name>/clear</command-name>");
    log.prompt("<local-command-stdout></local-command-stdout>");
    assert_snapshot!(describe_paths(&log.bytes()), @"* 1. <command-name>/clear</command-name> | <local-command-stdout></local-command-stdout>");
    assert_eq!(session(&log.bytes()).turns(), 0);
}

#[test]
fn large_logs_of_any_shape_are_read_in_linear_time() {
    let uuid = |n: u64| format!("00000000-0000-4000-8000-{n:012x}");
    let line = |n: u64, parent: Option<u64>, kind: &str| {
        let message = match kind {
            "user" => json!({ "role": "user", "content": format!("p{n}") }),
            _ => {
                json!({ "role": "assistant", "id": format!("m{n}"), "model": "m", "content": [{ "type": "text", "text": "a" }] })
            }
        };
        let (h, m, s, ms) = (n / 3_600_000 % 24, n / 60_000 % 60, n / 1000 % 60, n % 1000);
        json!({ "parentUuid": parent.map(uuid), "type": kind, "message": message, "uuid": uuid(n),
            "timestamp": format!("2026-01-01T{h:02}:{m:02}:{s:02}.{ms:03}Z") })
        .to_string()
            + "\n"
    };
    let kind = |n: u64| if n % 2 == 1 { "user" } else { "assistant" };
    let chain: String = (1..=100_000).map(|n| line(n, (n > 1).then_some(n - 1), kind(n))).collect();
    let all = session(chain.as_bytes()).paths(Client::NEWEST);
    assert_eq!((all.len(), all[0].messages, all[0].turns), (1, 100_000, 50_000));

    let star: String = (1..=20_001).map(|n| line(n, (n > 1).then_some(1), "user")).collect();
    let all = session(star.as_bytes());
    assert_eq!((all.paths(Client::NEWEST).len(), all.tree.forks()), (20_000, 1));

    // A trunk of 5,001 answers; a prompt branches off from each except the last.
    let forks: String = (1..=5_000u64)
        .map(|n| {
            line(2 * n, (n > 1).then_some(2 * n - 2), "assistant") + &line(2 * n + 1, Some(2 * n), "user")
        })
        .chain([line(10_002, Some(10_000), "assistant")])
        .collect();
    let all = session(forks.as_bytes());
    assert_eq!((all.paths(Client::NEWEST).len(), all.tree.forks()), (5_001, 5_000));
}

/// Shapes on which a search from each entry would visit the same entries repeatedly.
#[test]
fn thousands_of_notes_and_missing_parents_are_linear() {
    let uuid = |n: u64| format!("00000000-0000-4000-8000-{n:012x}");
    let note = |n: u64, parent: Option<String>, time: &str| {
        json!({ "parentUuid": parent, "type": "system", "subtype": "x", "uuid": uuid(n), "timestamp": time })
            .to_string()
            + "\n"
    };
    let moment = "2026-01-01T00:00:00.000Z";
    // A long chain of notes, with another note as a child of each.
    let chain = (1..=20_000).map(|n| note(n, (n > 1).then(|| uuid(n - 1)), moment));
    let leaves = (1..=20_000).map(|n| note(n + 20_000, Some(uuid(n)), moment));
    let notes: String = chain.chain(leaves).collect();
    // Entries at one moment whose parents are all missing.
    let lost: String = (1..=50_000).map(|n| note(n, Some(format!("gone {n}")), moment)).collect();
    // A fork at the end of each of many notes.
    let mut forks = String::from(
        "{\"parentUuid\":null,\"type\":\"user\",\"message\":{\"content\":\"p\"},\"uuid\":\"p\"}\n",
    );
    for n in 1..=10_000u64 {
        forks += &note(n, Some(if n == 1 { "p".into() } else { uuid(n - 1) }), moment);
        let prompt = json!({ "parentUuid": uuid(n), "type": "user", "message": { "content": format!("q{n}") }, "uuid": uuid(n + 90_000) });
        forks += &format!("{prompt}\n");
    }
    for (log, tips) in [(notes, 0), (lost, 0), (forks, 10_000)] {
        let session = session(log.as_bytes());
        for client in Client::ALL {
            assert_eq!(session.paths(client).len(), tips);
        }
        assert_eq!(session.roots_by_step().len(), session.tree.steps.len());
    }
}

/// A step of a random log.
#[derive(Debug, Clone)]
enum LogStep {
    Prompt,
    Answer,
    Calls(u8),
    GoBack(prop::sample::Index),
    Restart,
    Compact,
    Note,
    Sidechain,
    Torn,
}

fn random_log(steps: &[LogStep]) -> Vec<u8> {
    let mut log = LogBuilder::new(7);
    let mut marks: Vec<String> = Vec::new();
    for (i, step) in steps.iter().enumerate() {
        match step {
            LogStep::Prompt => marks.push(log.prompt(&format!("p{i}"))),
            LogStep::Answer => marks.push(log.answer(&format!("a{i}"))),
            LogStep::Calls(n) => {
                let calls: Vec<_> = (0..*n % 4 + 1).map(|_| ("T", json!({}))).collect();
                for call in log.calls(&calls).iter().rev() {
                    marks.push(log.result(call, "r"));
                }
            }
            LogStep::GoBack(to) if !marks.is_empty() => {
                let mark: &String = to.get(&marks);
                log.back_to(mark);
            }
            LogStep::GoBack(_) | LogStep::Restart => {
                log.restart();
            }
            LogStep::Compact => marks.push(log.compact("…")),
            LogStep::Note => marks.push(log.system("informational", "x")),
            LogStep::Sidechain => {
                let tip = log.tip();
                log.sidechain(Some("s")).restart();
                log.prompt("side");
                log.answer("SIDE");
                log.sidechain(None).restart();
                if let Some(tip) = tip {
                    log.back_to(&tip);
                }
            }
            LogStep::Torn => {
                log.torn("{\"type\":\"user\",\"uu").raw("");
            }
        }
    }
    log.bytes()
}

fn step() -> impl Strategy<Value = LogStep> {
    prop_oneof![
        4 => Just(LogStep::Prompt),
        4 => Just(LogStep::Answer),
        2 => any::<u8>().prop_map(LogStep::Calls),
        2 => any::<prop::sample::Index>().prop_map(LogStep::GoBack),
        1 => Just(LogStep::Restart),
        1 => Just(LogStep::Compact),
        1 => Just(LogStep::Note),
        1 => Just(LogStep::Sidechain),
        1 => Just(LogStep::Torn),
    ]
}

proptest! {
    /// Every message of the main conversation is on some path, and at most once on each.
    #[test]
    fn every_message_is_on_a_path(steps in prop::collection::vec(step(), 1..60)) {
        let bytes = random_log(&steps);
        let session = session(&bytes);
        let reader = Reader::new(&session, &bytes);
        let mut shown = Table::filled(false, session.facts.messages.len());
        let all = session.paths(Client::NEWEST);
        for path in &all {
            let mut on_path = Vec::new();
            for item in reader.items(path.step) {
                if let TranscriptItem::Message(message) = item {
                    shown[message.n] = true;
                    on_path.push(message.n);
                }
            }
            let distinct: std::collections::BTreeSet<_> = on_path.iter().collect();
            prop_assert_eq!(distinct.len(), on_path.len(), "a message is on a path only once");
        }
        for (n, message) in session.facts.messages.iter_enumerated() {
            let side = session.facts.nodes[message.first_node].flags.is_sidechain();
            let side = side && !session.facts.is_all_sidechain();
            let off_path = session.off_path_nodes().contains(&message.first_node);
            prop_assert!(off_path || shown[n] != side, "message {n} is lost or shown by mistake");
        }
        prop_assert!(all.iter().filter(|path| path.active).count() <= 1);
        for client in Client::ALL {
            let n = session.paths(client).len();
            prop_assert!((session.tree.tips().len()..=session.tree.tips().len() + 1).contains(&n));
        }
    }

    /// Entries and messages keep their numbers when a file grows.
    #[test]
    fn numbers_do_not_change_when_a_log_grows(steps in prop::collection::vec(step(), 1..40), cut in 0usize..40) {
        let whole = random_log(&steps);
        let part = random_log(&steps[..cut.min(steps.len())]);
        prop_assert!(whole.starts_with(&part));
        let (part, whole) = (session(&part), session(&whole));
        for (a, b) in part.facts.messages.iter().zip(&whole.facts.messages) {
            prop_assert_eq!((a.id, a.first_node), (b.id, b.first_node));
        }
        for (a, b) in part.facts.nodes.iter().zip(&whole.facts.nodes) {
            prop_assert_eq!((a.uid, a.entry), (b.uid, b.entry));
        }
    }

    /// Reading terminates without a panic, whatever the links.
    #[test]
    fn any_graph_of_links_is_read(
        parents in prop::collection::vec(prop::option::of(0u8..20), 1..20),
        kinds in prop::collection::vec(0usize..5, 20),
    ) {
        let uuid = |n: usize| format!("00000000-0000-4000-8000-{n:012x}");
        let mut log = String::new();
        for (i, parent) in parents.iter().enumerate() {
            let kind = ["user", "assistant", "system", "attachment", "progress"][kinds[i]];
            let entry = json!({ "parentUuid": parent.map(|p| uuid(p.into())), "type": kind, "uuid": uuid(i % 15),
                "subtype": if i % 4 == 0 { "compact_boundary" } else { "x" },
                "message": { "role": kind, "id": format!("m{}", i % 6), "content": [{ "type": "text", "text": "t" }] },
                "timestamp": format!("2026-01-01T00:00:{:02}.000Z", i * 7 % 20) });
            log += &format!("{entry}\n");
        }
        let session = session(log.as_bytes());
        let reader = Reader::new(&session, log.as_bytes());
        for client in Client::ALL {
            for path in session.paths(client) {
                reader.items(path.step);
            }
        }
    }
}
