//! Clones of sessions of every shape: laws that hold for each, and the effect of each recipe.

use proptest::prelude::*;
use rethread_edit::{
    ClonePlanError, CloneReading, CompressOptions, IdMap, IdRenamer, Preset, Recipe, RenamedLog,
    SourceSession, ToolRecipe,
};
use rethread_model::{Client, MessageNo, Reader, Session, resume};
use rethread_testkit::clone_laws::{
    self, CLONE_ID, CLONE_LAWS, CloneCase, CloneLaw, SOURCE_ID, check_prediction, clone_by_reading_again,
    clone_of, recipes,
};
use rethread_testkit::{
    AMBIGUOUS_DAMAGES, DAMAGES, LogBuilder, damaged, lines_of, log_of, named_test_cases, test_cases,
};
use serde_json::{Value, json};

/// A step in building a session.
#[derive(Debug, Clone)]
enum SessionStep {
    Prompt,
    Answer,
    Think,
    Call(usize),
    Parallel,
    Rewind(usize),
    Compact,
    Note,
    Meta,
    Attach,
    Progress,
    Picture,
    Queue,
    Agent,
    Fail,
    TextBesideResult,
    UnevenUsage,
    ChildOfThinking,
    Document,
    /// A queued prompt after some other attachments, on the path or off it.
    Queued(usize, bool),
}

fn session_step() -> impl Strategy<Value = SessionStep> {
    prop_oneof![
        4 => Just(SessionStep::Prompt),
        4 => Just(SessionStep::Answer),
        2 => Just(SessionStep::Think),
        4 => (0usize..3).prop_map(SessionStep::Call),
        2 => Just(SessionStep::Parallel),
        1 => (0usize..20).prop_map(SessionStep::Rewind),
        1 => Just(SessionStep::Compact),
        1 => Just(SessionStep::Note),
        1 => Just(SessionStep::Meta),
        1 => Just(SessionStep::Attach),
        1 => Just(SessionStep::Progress),
        1 => Just(SessionStep::Picture),
        1 => Just(SessionStep::Queue),
        1 => Just(SessionStep::Agent),
        1 => Just(SessionStep::Fail),
        1 => Just(SessionStep::TextBesideResult),
        1 => Just(SessionStep::UnevenUsage),
        1 => Just(SessionStep::ChildOfThinking),
        1 => Just(SessionStep::Document),
        2 => (0usize..3, any::<bool>()).prop_map(|(n_before, off_path)| SessionStep::Queued(n_before, off_path)),
    ]
}

fn thinking(n: usize) -> Value {
    json!({ "type": "thinking", "thinking": format!("A secret thought, number {n}, that nobody reads again."),
        "signature": format!("c2lnbmF0dXJl{n}==") })
}

/// Builds a session; the first prompt is always present.
fn session(steps: &[SessionStep]) -> LogBuilder {
    let mut log = LogBuilder::new(1);
    let mut marks = vec![log.prompt("Prompt number 0, the first of all")];
    for (n, step) in steps.iter().enumerate() {
        log.wait(7);
        let mark = match step {
            SessionStep::Prompt => log.prompt(&format!("Prompt number {n} of somebody")),
            SessionStep::Answer => log.answer(&format!("The answer is {n}. It was decided because of `x{n}.rs`.")),
            SessionStep::Think => {
                log.message(&[thinking(n), json!({ "type": "text", "text": format!("I thought {n}.") })]).remove(1)
            }
            SessionStep::Call(tool) => {
                let tool = ["Bash", "Read", "mcp__x__y"][*tool];
                let command = format!("command {n} with an input that is long enough to be found again");
                let message = [
                    thinking(n),
                    json!({ "type": "tool_use", "id": format!("toolu_{n:06}"), "name": tool, "input": { "command": command } }),
                ];
                let mark = log.message(&message).remove(1);
                let call = rethread_testkit::PendingCall { id: format!("toolu_{n:06}"), uuid: mark };
                log.result(&call, &format!("Result {n}: {}", "a line of output\n".repeat(n % 40)))
            }
            SessionStep::Parallel => {
                let calls = log.calls(&[("Bash", json!({ "command": "one" })), ("Read", json!({ "file_path": "/b" }))]);
                for call in &calls {
                    log.result(call, &format!("A parallel result of turn {n}, which is some words long"));
                }
                log.answer(&format!("Both of {n} are done."))
            }
            SessionStep::Rewind(to) => {
                let to = marks[to % marks.len()].clone();
                log.back_to(&to);
                log.prompt(&format!("Once more, at {n}"))
            }
            SessionStep::Compact => log.compact(&format!("Summary {n}")),
            SessionStep::Note => log.system("informational", &format!("note {n}")),
            SessionStep::Meta => log.meta(&format!("<system-reminder>hidden {n}</system-reminder>")),
            SessionStep::Attach => log.entry("attachment", json!({ "attachment": { "type": "date", "date": "2026-01-05" } })),
            SessionStep::Progress => log.entry("progress", json!({ "data": { "type": "bash_progress", "output": format!("progress {n}") } })),
            SessionStep::Picture => log.entry(
                "user",
                json!({ "message": { "role": "user", "content": [
                    { "type": "text", "text": format!("Look at picture {n}") },
                    { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgoAAAANSUhEUgAA".repeat(9) } } ] } }),
            ),
            SessionStep::Queue => {
                let line = json!({ "type": "queue-operation", "operation": "enqueue", "content": format!("queued {n}"),
                    "sessionId": log.session(), "timestamp": "2026-01-05T00:00:00.000Z" });
                log.raw(&line.to_string());
                continue;
            }
            SessionStep::Agent => {
                let call = log.call("Task", &json!({ "prompt": format!("Look for {n}"), "description": "looking" }));
                log.sidechain(Some("a1b2c3d")).restart();
                log.prompt(&format!("Look for {n}"));
                log.answer(&format!("The subagent found {n} behind the kettle"));
                log.sidechain(None).back_to(&call.uuid);
                log.result(&call, &format!("found {n}"))
            }
            SessionStep::Fail => log.entry(
                "assistant",
                json!({ "isApiErrorMessage": true, "message": { "id": format!("err{n}"), "model": "<synthetic>", "role": "assistant",
                    "type": "message", "content": [{ "type": "text", "text": "API Error: 529 overloaded" }], "usage": {} } }),
            ),
            // Text next to a result.
            SessionStep::TextBesideResult => {
                let call = log.call("Bash", &json!({ "command": format!("aside {n}") }));
                log.entry(
                    "user",
                    json!({ "message": { "role": "user", "content": [
                        { "type": "tool_result", "tool_use_id": call.id, "content": format!("The result beside words, {n}") },
                        { "type": "text", "text": format!("Words beside a result, {n}") } ] } }),
                );
                log.answer(&format!("Said after {n}."))
            }
            // A document that is read is written in a hidden entry after the result.
            SessionStep::Document => {
                let call = log.call("Read", &json!({ "file_path": format!("/papers/{n}.pdf") }));
                log.result(&call, &format!("PDF file read: /papers/{n}.pdf (295.5KB)"));
                log.entry(
                    "user",
                    json!({ "isMeta": true, "message": { "role": "user", "content": [{ "type": "document", "source": {
                        "type": "base64", "media_type": "application/pdf", "data": format!("JVBERi0xLjcNCiW1{n:04}").repeat(9) } }] } }),
                )
            }
            // The next entry is a child of the thinking entry, not of the text after it, as 2.0.36 writes it if
            // both have the same time.
            SessionStep::ChildOfThinking => {
                let marks = log.message(&[thinking(n), json!({ "type": "text", "text": format!("Slipped at {n}.") })]);
                log.back_to(&marks[0]);
                marks[0].clone()
            }
            SessionStep::Queued(n_before, off_path) => {
                let at = log.tip();
                for _ in 0..*n_before {
                    log.entry("attachment", json!({ "attachment": { "type": "critical_system_reminder", "content": "x" } }));
                }
                let mark = log.entry("attachment", json!({ "attachment": { "type": "queued_command", "prompt": format!("Queued {n}") } }));
                if *off_path && let Some(at) = at {
                    log.back_to(&at);
                }
                mark
            }
            // The entries of one message differ in usage, and one of them is a failure report.
            SessionStep::UnevenUsage => {
                let row = |text: &str, usage: Option<u64>| {
                    let mut message = json!({ "id": format!("msg_uneven{n}"), "type": "message", "role": "assistant",
                        "model": "claude-opus-4-6", "content": [{ "type": "text", "text": format!("{text} {n}") }] });
                    if let Some(tokens) = usage {
                        message["usage"] = json!({ "input_tokens": tokens, "output_tokens": 7 });
                    }
                    json!({ "message": message, "isApiErrorMessage": text == "Failed" })
                };
                let mut rows = vec![row("First", Some(5000)), row("Second", None), row("Failed", Some(9000))];
                rows.rotate_right(n % 3);
                rows.into_iter().map(|row| log.entry("assistant", row)).last().expect("three entries")
            }
        };
        marks.push(mark);
    }
    log
}

/// Makes a plain clone while the log is read.
fn rename_streamed(bytes: &[u8], id: &str, keep: bool) -> (Vec<u8>, RenamedLog) {
    let names = IdMap::new(id, CLONE_ID, keep);
    let mut out = Vec::new();
    let mut put = |piece: &mut Vec<u8>| {
        out.extend_from_slice(piece);
        Ok(())
    };
    let mut renaming = IdRenamer::new(&names, &mut put);
    rethread_log::Scanner::default().scan_all(bytes, &mut renaming);
    let renamed = renaming.finish(b"").expect("writing to memory cannot fail");
    for (at, name) in &renamed.patches {
        let at = usize::try_from(*at).expect("the offset is in memory");
        out[at..at + name.len()].copy_from_slice(name);
    }
    (out, renamed)
}

/// Checks that a law holds for the clones of a session, by every recipe.
fn check_law(steps: &[SessionStep], law: CloneLaw) -> Result<(), TestCaseError> {
    let log = session(steps);
    let (bytes, id) = (log.bytes(), log.session());
    for (name, recipe) in recipes(&bytes) {
        let result = CloneCase::new(&bytes, &id, &recipe).and_then(|case| law(&case));
        prop_assert!(result.is_ok(), "{}: {:?}", name, result);
    }
    Ok(())
}

macro_rules! laws {
    ($($law:ident)*) => {
        #[test]
        fn every_law_has_a_test() {
            assert_eq!([$(stringify!($law)),*], CLONE_LAWS.map(|(name, _)| name));
        }

        $(
            proptest! {
                #![proptest_config(named_test_cases(stringify!($law), 60))]

                #[test]
                fn $law(steps in prop::collection::vec(session_step(), 0..40)) {
                    check_law(&steps, clone_laws::$law)?;
                }
            }
        )*
    };
}

laws! {
    written_as_predicted
    no_source_id_remains
    only_ids_differ
    all_clients_resume_clone
    kept_entries_unchanged
    no_removed_text_remains
    dialogue_is_kept
    every_prompt_is_sent
    cloning_is_idempotent
}

/// Sessions for which a law once did not hold.
#[test]
fn clone_laws_hold_for_past_regressions() {
    use SessionStep::{
        Agent, Answer, Call, ChildOfThinking, Compact, Fail, Note, Progress, Prompt, Queued, Rewind,
        TextBesideResult, Think,
    };
    let sessions: [&[SessionStep]; 15] = [
        // A note was all that was left of a branch.
        &[Call(2), Call(0), Note, Rewind(13)],
        // Likewise a note after a failure report, on a branch and on the path, or before it.
        &[Agent, Fail, Note, Rewind(0), Rewind(1)],
        &[Agent, Fail, Note, Rewind(0), Rewind(2)],
        &[Call(0), Note, Fail, Rewind(1)],
        &[Call(0), Note, Think, Rewind(1)],
        // Text next to a result.
        &[TextBesideResult],
        // The logical parent of a compaction is removed, and the nearest kept message is a sibling, not an ancestor.
        &[Call(0), ChildOfThinking, Call(0), Compact],
        &[Prompt, Note, ChildOfThinking, Progress, Compact],
        // A child of removed thinking lost its text, before a compaction and on a branch.
        &[ChildOfThinking, Prompt, Compact, Prompt],
        &[ChildOfThinking, Prompt, Rewind(0)],
        // The entry after a queued prompt is removed.
        &[Answer, Queued(1, false), Call(0)],
        &[Call(0), Queued(1, false), Call(1), Call(2)],
        &[Prompt, TextBesideResult, Queued(1, true), Call(0)],
        // A queued prompt ended up next to a result, with the note that it was attached to.
        &[Call(0), Fail, Queued(1, true), Prompt],
        // Text next to a removed result was a child of removed thinking.
        &[ChildOfThinking, TextBesideResult, Rewind(0)],
    ];
    let broken = |(steps, (name, law)): (&[SessionStep], (&str, CloneLaw))| {
        check_law(steps, law).err().map(|error| format!("{name} of {steps:?}: {error}"))
    };
    let tried = sessions.into_iter().flat_map(|steps| CLONE_LAWS.map(|law| (steps, law)));
    let wrong: Vec<String> = tried.filter_map(broken).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

proptest! {
    #![proptest_config(test_cases(60))]

    /// A plain clone made while the log is read equals one made in memory.
    #[test]
    fn streamed_plain_clone_equals_in_memory_clone(steps in prop::collection::vec(session_step(), 0..40), keep: bool, torn: bool) {
        let mut log = session(&steps);
        // A parent later in the file, and a torn line.
        let later = "00000001-0000-4000-8000-00000000ffff";
        log.raw(&json!({ "type": "system", "uuid": "00000001-0000-4000-8000-00000000fffe", "parentUuid": later }).to_string());
        log.raw(&json!({ "type": "system", "uuid": later, "parentUuid": null, "sessionId": "odd name" }).to_string());
        if torn {
            log.torn("{\"type\":\"user\",\"uuid\":\"00000001-0000-40");
        }
        let bytes = log.bytes();
        let (out, renamed) = rename_streamed(&bytes, &log.session(), keep);
        prop_assert!(!renamed.has_non_uuid_ids);
        let whole = clone_of(&bytes, &log.session(), &Recipe::default(), keep).expect("a clone");
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(&whole));
    }

    /// Damage is repaired in an edited clone, unless the intended path is ambiguous.
    #[test]
    fn clone_of_damaged_session_resumes_in_every_client(
        steps in prop::collection::vec(session_step(), 0..20),
        damages in prop::collection::vec((0usize..40, 0..DAMAGES), 1..3),
    ) {
        prop_assume!(damages.iter().all(|(_, how)| !AMBIGUOUS_DAMAGES.contains(how)));
        let log = session(&steps);
        let id = log.session();
        let bytes = log_of(&damaged(lines_of(&log.bytes()), &damages));
        for (name, recipe) in recipes(&bytes) {
            // There may be nothing left to clone.
            let Ok(case) = CloneCase::new(&bytes, &id, &recipe) else { continue };
            let result = clone_laws::all_clients_resume_clone(&case).and_then(|()| clone_laws::written_as_predicted(&case));
            prop_assert!(result.is_ok(), "{}: {:?}", name, result);
            let result = clone_laws::no_source_id_remains(&case)
                .and_then(|()| clone_laws::only_ids_differ(&case));
            prop_assert!(result.is_ok(), "{}: {:?}", name, result);
        }
    }

    #[test]
    fn cloning_arbitrary_bytes_does_not_panic(bytes: Vec<u8>, lines in prop::collection::vec("[{}\"a-z0-9:,\\[\\] ]{0,60}", 0..8)) {
        let text = lines.join("\n").into_bytes();
        for log in [&bytes, &text] {
            for (_, recipe) in recipes(log) {
                let _ = clone_of(log, SOURCE_ID, &recipe, false);
            }
        }
    }
}

fn sent(bytes: &[u8], client: Client) -> Vec<String> {
    let session = Session::read(bytes);
    let resumed = resume(&session.facts, client);
    let wire = Reader::new(&session, bytes).wire_messages(&resumed, client, "");
    wire.iter()
        .flat_map(|m| &m.blocks)
        .map(|b| String::from_utf8_lossy(b.json().raw()).into_owned())
        .collect()
}

fn rows(bytes: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(bytes).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn clone_log(log: &LogBuilder, recipe: &Recipe) -> Vec<u8> {
    clone_of(&log.bytes(), &log.session(), recipe, true).expect("a clone")
}

fn strip(names: &[&str]) -> Recipe {
    let strip = Some(names.iter().map(|&name| name.to_owned()).collect());
    Recipe { tools: ToolRecipe { strip, ..ToolRecipe::default() }, ..Recipe::default() }
}

#[test]
fn abandoned_branch_becomes_a_session() {
    let mut log = LogBuilder::new(1);
    log.prompt("First");
    let fork = log.answer("One");
    log.prompt("Left");
    log.answer("Left behind");
    log.back_to(&fork);
    log.prompt("Taken");
    log.answer("Taken on");
    let bytes = clone_log(&log, &Recipe { path: Some(1), ..Recipe::default() });
    for client in Client::ALL {
        let texts = sent(&bytes, client).join(" ");
        assert!(texts.contains("Left behind") && !texts.contains("Taken"), "{client:?}: {texts}");
    }
    assert!(!String::from_utf8_lossy(&bytes).contains("Taken"), "the other path is removed");
    assert_eq!(Session::read(&bytes).paths(Client::NEWEST).len(), 1);
    let last = rows(&bytes).pop().expect("a line");
    assert_eq!((last["type"].as_str(), last["lastPrompt"].as_str()), (Some("last-prompt"), Some("Left")));
    let none = clone_of(&log.bytes(), SOURCE_ID, &Recipe { path: Some(3), ..Recipe::default() }, true);
    assert_eq!(none, Err(ClonePlanError::NoPath(3, 2).to_string()));
}

#[test]
fn clone_can_end_at_a_duplicated_entry() {
    let mut log = LogBuilder::new(1);
    let prompt = log.prompt("First");
    log.answer("One");
    let text = String::from_utf8(log.bytes()).expect("UTF-8");
    let again =
        text.lines().find(|line| line.contains("First")).expect("the line exists").replace("First", "Edited");
    log.raw(&again);
    let n = Session::read(&log.bytes()).facts.messages.len();
    for until in 1..=n {
        let clone = clone_log(&log, &Recipe { until: Some(until), ..Recipe::default() });
        let texts = sent(&clone, Client::NEWEST).join(" ");
        assert!(texts.contains("Edited"), "until {until}, {prompt}: {texts}");
    }
}

#[test]
fn torn_bytes_before_an_entry_are_copied() {
    let mut log = LogBuilder::new(1);
    log.prompt("First");
    log.torn("{\"type\":\"us");
    log.answer("One");
    let bytes = log.bytes();
    let (out, renamed) = rename_streamed(&bytes, &log.session(), true);
    assert!(!renamed.torn, "the last line is complete");
    assert_eq!(out.len(), bytes.len());
    assert_eq!(out, clone_of(&bytes, &log.session(), &Recipe::default(), true).expect("a clone"));
}

#[test]
fn document_is_removed_with_the_call_that_read_it() {
    let log =
        session(&[SessionStep::Document, SessionStep::Answer, SessionStep::Prompt, SessionStep::Answer]);
    let kept = clone_log(
        &log,
        &Recipe { tools: ToolRecipe { shorten: Some(10), ..ToolRecipe::default() }, ..Recipe::default() },
    );
    assert!(String::from_utf8_lossy(&kept).contains("JVBERi0"), "a document is not shortened");
    let clone = clone_log(&log, &strip(&["Read"]));
    assert!(!String::from_utf8_lossy(&clone).contains("JVBERi0"));
    let other = clone_log(&log, &strip(&["Bash"]));
    assert!(String::from_utf8_lossy(&other).contains("JVBERi0"));
}

#[test]
fn compaction_follows_its_message_after_thinking_is_removed() {
    let mut log = LogBuilder::new(1);
    log.prompt("First");
    let message = log.message(&[thinking(1), json!({ "type": "text", "text": "Said after a thought" })]);
    log.back_to(&message[0]);
    log.compact("A summary");
    log.prompt("Second");
    log.answer("Done");
    let n_paths = |bytes: &[u8]| Session::read(bytes).paths(Client::NEWEST).len();
    assert_eq!(n_paths(&log.bytes()), 1);
    for path in [None, Some(1)] {
        let clone = clone_log(&log, &Recipe { path, strip_thinking: true, ..Recipe::default() });
        assert_eq!(n_paths(&clone), 1, "{}", String::from_utf8_lossy(&clone));
        let boundary = rows(&clone).into_iter().find(|row| row["subtype"] == "compact_boundary");
        assert_eq!(boundary.expect("a boundary")["logicalParentUuid"], message[1].as_str());
    }
}

#[test]
fn clone_until_a_message_includes_results_of_its_calls() {
    let mut log = LogBuilder::new(1);
    log.prompt("Go");
    let calls = log.calls(&[("Bash", json!({ "command": "a" })), ("Bash", json!({ "command": "b" }))]);
    for call in &calls {
        log.result(call, "done");
    }
    log.answer("Both done");
    let bytes = clone_log(&log, &Recipe { until: Some(2), ..Recipe::default() });
    let session = Session::read(&bytes);
    assert_eq!(session.facts.calls.iter().filter(|call| call.first_result().is_some()).count(), 2);
    assert!(!String::from_utf8_lossy(&bytes).contains("Both done"));
    let first = clone_log(&log, &Recipe { until: Some(1), ..Recipe::default() });
    assert_eq!(Session::read(&first).facts.calls.len(), 0);
}

#[test]
fn strip_tools_removes_all_traces_of_a_call() {
    let mut log = LogBuilder::new(1);
    log.prompt("Go");
    let call = log.call("Bash", &json!({ "command": "the secret command" }));
    log.raw(&json!({ "type": "progress", "uuid": "p", "parentUuid": call.uuid, "parentToolUseID": call.id, "data": "the secret progress" }).to_string());
    log.raw(&json!({ "type": "api-request-blob", "hash": "h", "message": "the secret command" }).to_string());
    log.raw(&json!({ "type": "content-replacement", "replacements": [{ "toolUseId": call.id, "replacement": "the secret result" }] }).to_string());
    log.raw(&json!({ "type": "queue-operation", "operation": "enqueue", "content": format!("<tool-use-id>{}</tool-use-id> the secret", call.id) }).to_string());
    log.result(&call, "the secret result");
    log.entry("attachment", json!({ "attachment": { "type": "hook_success", "toolUseID": call.id, "stdout": "the secret hook" } }));
    log.entry("user", json!({ "isMeta": true, "sourceToolUseID": call.id, "message": { "role": "user", "content": "the secret skill" } }));
    log.answer("Done");
    let bytes = clone_log(&log, &strip(&[]));
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("secret"), "{text}");
    let other = clone_log(&log, &strip(&["Read", "mcp__*"]));
    assert!(String::from_utf8_lossy(&other).contains("the secret result"));
}

#[test]
fn thinking_after_a_change_is_removed() {
    let mut log = LogBuilder::new(1);
    log.prompt("One");
    log.message(&[thinking(1), json!({ "type": "text", "text": "A1" })]);
    log.prompt("Two");
    let call = log.call("Bash", &json!({ "command": "x" }));
    log.result(&call, "r");
    log.message(&[thinking(2), json!({ "type": "text", "text": "A2" })]);
    log.prompt("Three");
    log.message(&[thinking(3), json!({ "type": "text", "text": "A3" })]);
    let kept_thinking = |recipe: &Recipe| -> Vec<u32> {
        let text = String::from_utf8_lossy(&clone_log(&log, recipe)).into_owned();
        (1..=3).filter(|n| text.contains(&format!("thought, number {n},"))).collect()
    };
    assert_eq!(kept_thinking(&strip(&[])), [1]);
    assert_eq!(kept_thinking(&strip(&["Read"])), [1, 2, 3], "nothing was removed");
    assert_eq!(kept_thinking(&Recipe { strip_thinking: true, ..Recipe::default() }), [0; 0]);
    let condensed = Recipe {
        compress: Some(CompressOptions { keep: 1, ..CompressOptions::default() }),
        ..Recipe::default()
    };
    assert_eq!(kept_thinking(&condensed), [3], "a compaction begins a new conversation");
}

#[test]
fn last_turns_with_calls_are_kept_and_older_ones_edited() {
    let mut log = LogBuilder::new(1);
    for n in 0..4 {
        log.prompt(&format!("P{n}"));
        if n != 2 {
            let call = log.call("Bash", &json!({ "command": format!("c{n} {}", "long ".repeat(100)) }));
            log.result(&call, &format!("r{n} {}", "words ".repeat(100)));
        }
        log.answer(&format!("A{n}"));
    }
    let tools = ToolRecipe { keep: Some(2), ..ToolRecipe::default() };
    let bytes = clone_log(&log, &Recipe { tools, ..Recipe::default() });
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let kept: Vec<usize> = (0..4).filter(|n| text.contains(&format!("\"r{n} words"))).collect();
    assert_eq!(kept, [1, 3], "turns without calls do not count");
    let tools = ToolRecipe { keep: Some(1), shorten: Some(60), ..ToolRecipe::default() };
    let bytes = clone_log(&log, &Recipe { tools, ..Recipe::default() });
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert_eq!(text.matches("characters cut]").count(), 2 * 3, "input, result and its copy of two turns");
    assert!(text.contains(&format!("\"r3 {}\"", "words ".repeat(100))));
    assert_eq!(Session::read(&bytes).facts.calls.len(), 3);
}

#[test]
fn bytes_before_an_entry_do_not_shift_cuts() {
    let mut log = LogBuilder::new(1);
    log.prompt("P1");
    let call = log.call("Bash", &json!({ "command": "a \"quoted\" naïve\n".repeat(20) }));
    log.result(&call, &"naïve \"quoted\"\n\ttext 😀 ".repeat(20));
    log.answer("A1");
    let bytes = log.bytes();
    let recipe =
        Recipe { tools: ToolRecipe { shorten: Some(60), ..ToolRecipe::default() }, ..Recipe::default() };
    let expected = rows(&clone_of(&bytes, SOURCE_ID, &recipe, true).expect("a clone"));
    assert!(expected.iter().filter(|row| row.to_string().contains("characters cut")).count() == 2);
    for before in [" ", "\t  ", "\0\0\0", "\u{feff}"] {
        let lines: Vec<&[u8]> = bytes.split_inclusive(|&b| b == b'\n').collect();
        let prefixed: Vec<u8> = lines.iter().flat_map(|line| [before.as_bytes(), line].concat()).collect();
        let clone = clone_of(&prefixed, SOURCE_ID, &recipe, true).expect("a clone");
        assert_eq!(rows(&clone), expected, "{before:?}");
    }
}

#[test]
fn branch_without_calls_keeps_prompts_and_drops_notes() {
    let mut log = LogBuilder::new(1);
    let first = log.prompt("P1");
    let call = log.call("Bash", &json!({ "command": "ls" }));
    log.result(&call, "R1");
    log.system("informational", "a note");
    let queued = json!({ "attachment": { "type": "queued_command", "prompt": "also the tests" } });
    log.entry("attachment", queued);
    log.back_to(&first);
    log.answer("A1");
    let clone = clone_log(&log, &strip(&[]));
    let text = String::from_utf8(clone).expect("UTF-8");
    assert!(text.contains("also the tests"));
    let mut log = LogBuilder::new(1);
    let first = log.prompt("P1");
    let call = log.call("Bash", &json!({ "command": "ls" }));
    log.result(&call, "R1");
    log.system("informational", "a note");
    log.back_to(&first);
    log.answer("A1");
    let once = clone_log(&log, &strip(&[]));
    assert!(!String::from_utf8_lossy(&once).contains("a note"), "the note is removed with the call");
}

#[test]
fn older_turns_become_a_compaction() {
    let mut log = LogBuilder::new(1);
    for n in 0..6 {
        log.prompt(&format!("Please do number {n}, \"exactly\" so"));
        let call = log.call("Bash", &json!({ "command": format!("cargo test -p part{n}") }));
        log.result(&call, &format!("running\ntest result: ok. {n} passed; 0 failed"));
        log.answer(&format!(
            "I looked into it. The root cause of {n} was the cache. More words follow here."
        ));
    }
    let recipe = Recipe {
        compress: Some(CompressOptions { keep: 2, ..CompressOptions::default() }),
        ..Recipe::default()
    };
    let bytes = clone_log(&log, &recipe);
    let rows = rows(&bytes);
    assert_eq!(rows[0]["subtype"], "compact_boundary");
    assert_eq!(rows[0]["parentUuid"], Value::Null);
    assert_eq!(rows[1]["isCompactSummary"], true);
    let summary = rows[1]["message"]["content"].as_str().expect("a text");
    for n in 0..4 {
        assert!(summary.contains(&format!("Please do number {n}, \"exactly\" so")), "{summary}");
        assert!(summary.contains(&format!("The root cause of {n} was the cache.")), "{summary}");
        assert!(
            summary.contains(&format!("cargo test -p part{n} → test result: ok. {n} passed")),
            "{summary}"
        );
    }
    for client in Client::ALL {
        let texts = sent(&bytes, client);
        assert!(texts[0].contains("what the user wrote stands in full"), "{client:?}");
        assert_eq!(
            texts.iter().filter(|text| text.contains("cargo test -p part3\"")).count(),
            0,
            "{client:?}"
        );
        assert!(texts.iter().any(|text| text.contains("cargo test -p part4\"")), "{client:?}");
    }
    // The kept turns are unchanged, except for parent links.
    let source = String::from_utf8_lossy(&log.bytes()).into_owned();
    let last: Vec<&str> = source.lines().rev().take(6).collect();
    let now = String::from_utf8_lossy(&bytes).into_owned();
    for line in last {
        let cut = line.split_once("\"isSidechain\"").expect("a key").1.replace(&log.session(), CLONE_ID);
        assert!(now.contains(&cut), "{cut}");
    }
    let few = Recipe {
        compress: Some(CompressOptions { keep: 9, ..CompressOptions::default() }),
        ..Recipe::default()
    };
    assert!(!String::from_utf8_lossy(&clone_log(&log, &few)).contains("compact_boundary"));
}

#[test]
fn summary_respects_budget_and_includes_earlier_summary() {
    let mut log = LogBuilder::new(1);
    log.prompt("The very first wish");
    log.answer("Long ago");
    log.compact("WHAT THE MODEL SUMMED UP ITSELF");
    for n in 0..60 {
        log.prompt(&format!("Wish {n}"));
        log.answer(&"A sentence that says a lot about nothing. ".repeat(60));
    }
    let summary_with = |budget| {
        let compress = Some(CompressOptions { keep: 2, budget, ..CompressOptions::default() });
        let bytes = clone_log(&log, &Recipe { compress, ..Recipe::default() });
        rows(&bytes)[1]["message"]["content"].as_str().expect("a text").to_owned()
    };
    let text = summary_with(2000);
    assert!(text.contains("The very first wish") && text.contains("WHAT THE MODEL SUMMED UP ITSELF"));
    assert!(text.contains("Wish 57") && !text.contains("Wish 58"));
    assert!(text.len() < 2000 * 4 + 61 * 60, "{}", text.len());
    assert!(summary_with(500).len() < text.len());
    assert_eq!(summary_with(2000), text, "the summary is deterministic");
}

#[test]
fn stale_context_size_is_corrected() {
    let mut log = LogBuilder::new(1);
    log.prompt("Go");
    let call = log.call("Read", &json!({ "file_path": "/x" }));
    log.result(&call, &"a long file ".repeat(60_000));
    let mark = log.answer("Read");
    let full = String::from_utf8(log.bytes())
        .expect("UTF-8")
        .replace("\"cache_read_input_tokens\":3000", "\"cache_read_input_tokens\":185000");
    let bytes = clone_of(full.as_bytes(), &log.session(), &strip(&[]), true).expect("a clone");
    let last = rows(&bytes).into_iter().find(|row| row["uuid"] == mark).expect("the answer");
    let usage = &last["message"]["usage"];
    assert_eq!(
        (usage["cache_read_input_tokens"].as_u64(), usage["output_tokens"].as_u64()),
        (Some(0), Some(40))
    );
    assert!(usage["input_tokens"].as_u64().expect("a number") < 20_000, "{usage}");
    let path =
        clone_of(full.as_bytes(), &log.session(), &Recipe { path: Some(1), ..Recipe::default() }, true);
    assert!(
        String::from_utf8_lossy(&path.expect("a clone")).contains("185000"),
        "the recorded size is still correct"
    );
}

#[test]
fn removed_entries_round_trip_through_sidecar_lines() {
    let mut log = LogBuilder::new(1);
    log.prompt("Go");
    let call = log.call("Bash", &json!({ "command": "x" }));
    log.result(&call, "the result");
    log.answer("Done");
    let bytes = log.bytes();
    let source = SourceSession::read(&bytes);
    let cloned = rethread_edit::plan_clone(&source, &strip(&[]), IdMap::new(&log.session(), CLONE_ID, false))
        .expect("a clone");
    let removed: Vec<_> = cloned.removed_entries().collect();
    assert_eq!(removed.iter().map(|entry| entry.message).collect::<Vec<_>>(), [2, 3].map(MessageNo::new));
    for entry in &removed {
        let again = rethread_edit::RemovedEntry::from_line(&entry.to_line()).expect("a line");
        assert_eq!(again.entry, entry.entry.trim_ascii());
        let text = String::from_utf8_lossy(&entry.entry);
        assert!(
            !text.contains(&log.session()) && text.contains(CLONE_ID),
            "the entry has the ids of the clone"
        );
    }
}

#[test]
fn linear_clone_summary_is_predicted() {
    let steps = [
        SessionStep::Call(0),
        SessionStep::Answer,
        SessionStep::Think,
        SessionStep::Prompt,
        SessionStep::Call(1),
        SessionStep::Answer,
        SessionStep::Compact,
        SessionStep::Prompt,
        SessionStep::Answer,
    ];
    let log = session(&steps);
    for (name, recipe) in recipes(&log.bytes()) {
        let clone = clone_by_reading_again(&log.bytes(), &log.bytes(), &log.session(), &recipe, false)
            .expect("a clone");
        let predicted = matches!(clone.expect("the log is in order").1, CloneReading::Predicted(..));
        // Added entries such as a summary or an answer are not predicted.
        if recipe.compress.is_none() && recipe.until.is_none() {
            assert_eq!(predicted, !recipe.is_plain(), "{name}");
        }
    }
}

#[test]
fn prediction_is_correct_when_prompt_or_branch_contains_ids() {
    let id = LogBuilder::new(1).session();
    for prompt in [format!("Look into /x/{id}/tool-results/a.txt"), "Look".to_owned()] {
        let mut log = LogBuilder::new(1);
        log.prompt(&prompt);
        log.entry(
            "user",
            json!({ "gitBranch": id, "message": { "role": "user", "content": "On a branch" } }),
        );
        log.answer("Nothing is there.");
        for (name, recipe) in recipes(&log.bytes()) {
            let clone = clone_of(&log.bytes(), &id, &recipe, false).expect("a clone");
            assert_eq!(
                check_prediction(&log.bytes(), &id, &recipe, false, &clone),
                Ok(()),
                "{name}: {prompt}"
            );
        }
    }
}

#[test]
fn log_changed_during_clone_gives_original_clone_or_error() {
    let steps = [
        SessionStep::Call(0),
        SessionStep::Answer,
        SessionStep::Think,
        SessionStep::Prompt,
        SessionStep::Call(1),
        SessionStep::Parallel,
        SessionStep::Answer,
    ];
    let log = session(&steps).bytes();
    let clone_with =
        |later: &[u8], recipe: &Recipe| clone_by_reading_again(&log, later, SOURCE_ID, recipe, false);
    for (name, recipe) in &recipes(&log) {
        let (clone, _) =
            clone_with(&log, recipe).expect("the log is unchanged").expect("the log is in order");
        assert_eq!(clone, clone_of(&log, SOURCE_ID, recipe, false).expect("the session can be cloned"));
        let more = [&log[..], b"{\"type\":\"user\"}\n"].concat();
        assert_eq!(
            clone_with(&more, recipe).expect("the log only grew").expect("the log is in order").0,
            clone
        );
        assert!(clone_with(&log[..10], recipe).is_err(), "{name}: the log is truncated");
        for at in (0..log.len()).step_by(97) {
            let mut other = log.clone();
            other[at] ^= 1;
            // The changed entry may not be in the clone.
            match clone_with(&other, recipe) {
                Err(error) => assert_eq!(error, "the session changed while it was being read"),
                Ok(other) => assert!(other.expect("it is in order").0 == clone, "{name}: {at}"),
            }
        }
        assert!(clone_with(&log.to_ascii_uppercase(), recipe).is_err(), "{name}");
    }
}

#[test]
fn changed_log_read_as_a_whole_never_gives_a_different_clone() {
    let steps = [
        SessionStep::Call(0),
        SessionStep::Answer,
        SessionStep::Prompt,
        SessionStep::Parallel,
        SessionStep::Answer,
    ];
    let log = String::from_utf8(session(&steps).bytes()).expect("UTF-8");
    let scrambled = log.lines().rev().map(|line| format!("{line}\n")).collect::<String>();
    let non_uuid = log.replace("\"00000001-0000-4000-8000-", "\"odd-");
    assert!(
        clone_by_reading_again(scrambled.as_bytes(), scrambled.as_bytes(), SOURCE_ID, &strip(&[]), false)
            .is_ok_and(|cloned| cloned.is_none())
    );
    for log in [scrambled, non_uuid].map(String::into_bytes) {
        for (name, recipe) in &recipes(&log) {
            let clone =
                clone_by_reading_again(&log, &log, SOURCE_ID, recipe, false).expect("the log is unchanged");
            assert!(
                clone_by_reading_again(&log, &log[..10], SOURCE_ID, recipe, false)
                    .is_ok_and(|cloned| cloned.is_none())
                    == clone.is_none(),
                "{name}"
            );
            for at in (0..log.len()).step_by(397) {
                let mut other = log.clone();
                other[at] ^= 1;
                let cloned = clone_by_reading_again(&log, &other, SOURCE_ID, recipe, false);
                // A log that must be normalised is not cloned here.
                if let (Ok(Some((cloned, _))), Some((clone, _))) = (cloned, &clone) {
                    assert!(cloned == *clone, "{name}: {at}");
                }
            }
        }
    }
}

#[test]
fn presets_set_documented_edits() {
    let of = |preset: Preset| {
        let mut recipe = Recipe::default();
        preset.add_to(&mut recipe);
        (recipe.tools.strip.is_some(), recipe.tools.keep, recipe.tools.shorten, recipe.strip_thinking)
    };
    assert_eq!(of(Preset::Light), (false, Some(20), Some(2000), false));
    assert_eq!(of(Preset::Standard), (false, Some(10), Some(400), false));
    assert_eq!(of(Preset::Heavy), (true, Some(5), None, false));
    assert_eq!(of(Preset::Extreme), (true, None, None, true));
}
