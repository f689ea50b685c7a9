//! Counting usage: the cases that logs contain, and the laws that hold for any library.

#![expect(clippy::print_stdout, reason = "a test says when its files are not there")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use rethread::internals::model::receipts;
use rethread::{CloneOptions, Library, PriceList, UsageAmount, UsageFilter, UsageGrouping, UsageReport};
use rethread_testkit::{logs_under, shared};
use serde_json::{Value, json};

const SESSION: &str = "0000aaaa-0000-4000-8000-000000000001";

/// A row of a log, with defaults.
fn row(id: &str, changes: Value) -> Value {
    let mut row = json!({
        "type": "assistant", "uuid": format!("{id}-row"), "timestamp": "2026-03-10T12:00:00.000Z",
        "sessionId": SESSION, "requestId": "req_1", "version": "2.1.200", "cwd": "/home/ada/kettle",
        "message": {
            "id": id, "model": "claude-opus-5", "role": "assistant", "content": [], "stop_reason": null,
            "usage": {"input_tokens": 3, "output_tokens": 10, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20},
        },
    });
    merge(&mut row, changes);
    row
}

fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, value) => *into = value,
    }
}

fn output(id: &str, tokens: u64) -> Value {
    row(id, json!({"message": {"usage": {"output_tokens": tokens}}}))
}

fn finished(mut row: Value) -> Value {
    merge(&mut row, json!({"message": {"stop_reason": "end_turn"}}));
    row
}

/// A progress record that repeats an answer.
fn progress(answer: &Value) -> Value {
    json!({
        "type": "progress", "uuid": "p", "timestamp": "2026-03-10T12:00:01.000Z", "sessionId": SESSION,
        "data": {"type": "agent_progress", "agentId": "a1", "message": {
            "type": "assistant", "timestamp": answer["timestamp"], "requestId": answer["requestId"],
            "uuid": answer["uuid"], "message": answer["message"],
        }},
    })
}

/// Writes logs of some sessions and counts their usage: responses, input, output, cache writes, and responses that are
/// only known from progress records.
fn count(logs: &[(&str, &[Value])]) -> Counts {
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("projects/-home-ada-kettle");
    fs::create_dir_all(&project).expect("created");
    for (name, rows) in logs {
        let text: String = rows.iter().map(|row| format!("{row}\n")).collect();
        fs::write(project.join(format!("{name}.jsonl")), text).expect("written");
    }
    let report = report_of(&Library::open([dir.path()]), UsageGrouping::Day);
    let usage = report.total.usage;
    (report.total.responses, usage.input, usage.output, usage.cache_write(), report.progress_only.responses)
}

fn report_of(library: &Library, grouping: UsageGrouping) -> UsageReport {
    let usage = library.usage(true);
    assert!(usage.unreadable.is_empty(), "{:?}", usage.unreadable);
    let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    UsageReport::new(&receipts, grouping, &jiff::tz::TimeZone::UTC)
}

const LONG: &str = "msg_0123456789abcdef";

#[test]
fn copy_that_a_repair_makes_is_billed_to_its_source() {
    for source in ["00000000", "ffffffff"] {
        let dir = tempfile::tempdir().expect("a directory");
        let project = dir.path().join("projects/-home-ada-kettle");
        fs::create_dir_all(project.join("77777777")).expect("created");
        for name in [source, "77777777"] {
            fs::write(project.join(format!("{name}.jsonl")), format!("{}\n", output(LONG, 5)))
                .expect("written");
        }
        let origin = json!({"source": source, "kind": "repair", "time": "2026-03-11T00:00:00.000Z"});
        fs::write(project.join("77777777/origin.json"), origin.to_string()).expect("written");
        let report = report_of(&Library::open([dir.path()]), UsageGrouping::Session);
        let keys: Vec<String> = report.groups.iter().map(|group| format!("{:?}", group.key)).collect();
        assert!(keys.len() == 1 && keys[0].contains(source), "{keys:?}");
        assert_eq!(report.unfinished, 1);
    }
}

/// Responses, input, output, cache writes, and responses that are only known from progress records.
type Counts = (u64, u64, u64, u64, u64);

#[test]
fn each_response_counts_once() {
    let with = |changes| row(LONG, changes);
    let side = |row: Value| {
        let mut row = row;
        merge(&mut row, json!({"isSidechain": true, "agentId": "a1"}));
        row
    };
    let without_request = |tokens| {
        let mut row = output(LONG, tokens);
        merge(&mut row, json!({"requestId": null}));
        row
    };
    let cases: &[(&str, Vec<Value>, Counts)] = &[
        (
            "growing chunks",
            vec![output(LONG, 1), output(LONG, 5), finished(output(LONG, 30))],
            (1, 3, 30, 20, 0),
        ),
        ("no request id", vec![without_request(1), without_request(2), without_request(3)], (1, 3, 3, 20, 0)),
        ("equal times", vec![output(LONG, 4), output(LONG, 9), output(LONG, 7)], (1, 3, 9, 20, 0)),
        (
            "progress and own rows",
            vec![progress(&output(LONG, 1)), finished(output(LONG, 30))],
            (1, 3, 30, 20, 0),
        ),
        ("progress only", vec![progress(&output(LONG, 1)), progress(&output(LONG, 2))], (0, 0, 0, 0, 1)),
        ("main and sidechain", vec![output(LONG, 5), side(output(LONG, 5))], (1, 3, 5, 20, 0)),
        (
            "finished sidechain, partial main",
            vec![side(finished(output(LONG, 30))), output(LONG, 2)],
            (1, 3, 30, 20, 0),
        ),
        ("two request ids", vec![output(LONG, 5), with(json!({"requestId": "req_2"}))], (1, 3, 10, 20, 0)),
        (
            "one request id, two responses",
            vec![output(LONG, 5), output("msg_1123456789abcdef", 7)],
            (2, 6, 12, 40, 0),
        ),
        (
            "breakdown of zeros",
            vec![with(
                json!({"message": {"usage": {"cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}}}}),
            )],
            (1, 3, 10, 20, 0),
        ),
        (
            "input that shrinks",
            vec![
                with(json!({"message": {"usage": {"input_tokens": 29_121, "output_tokens": 0}}})),
                finished(with(json!({"message": {"usage": {"input_tokens": 2_050, "output_tokens": 40}}}))),
            ],
            (1, 2_050, 40, 20, 0),
        ),
        (
            "synthetic",
            vec![with(json!({"message": {"model": "<synthetic>", "usage": {"output_tokens": 0}}}))],
            (0, 0, 0, 0, 0),
        ),
        (
            "no id",
            vec![
                with(json!({"message": {"id": null}})),
                with(json!({"message": {"id": null}, "timestamp": "2026-03-10T12:00:09Z"})),
            ],
            (2, 6, 20, 40, 0),
        ),
        (
            "null id in a tool input",
            vec![with(
                json!({"message": {"content": [{"type": "tool_use", "id": "t", "name": "X", "input": {"id": null}}]}}),
            )],
            (1, 3, 10, 20, 0),
        ),
        ("odd version", vec![with(json!({"version": "dev"}))], (1, 3, 10, 20, 0)),
        (
            "null cache field",
            vec![with(json!({"message": {"usage": {"cache_creation_input_tokens": null}}}))],
            (1, 3, 10, 0, 0),
        ),
        ("no time", vec![with(json!({"timestamp": null}))], (1, 3, 10, 20, 0)),
        ("written again", vec![output(LONG, 5), output(LONG, 5)], (1, 3, 5, 20, 0)),
    ];
    for (name, rows, expected) in cases {
        assert_eq!(count(&[(SESSION, rows)]), *expected, "{name}");
    }
}

#[test]
fn spaces_in_json_change_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("projects/-p");
    fs::create_dir_all(&project).expect("created");
    let spaced = output(LONG, 5).to_string().replace("\":", "\" : ");
    fs::write(project.join("a.jsonl"), spaced).expect("written");
    assert_eq!(report_of(&Library::open([dir.path()]), UsageGrouping::Day).total.usage.output, 5);
}

#[test]
fn copies_in_other_sessions_count_once_and_are_billed_to_the_first() {
    let original = [output(LONG, 1), finished(output(LONG, 30))];
    let resumed: Vec<Value> = original
        .iter()
        .map(|row| {
            let mut row = row.clone();
            merge(&mut row, json!({"uuid": "other", "sessionId": "0000aaaa-0000-4000-8000-000000000002"}));
            row
        })
        .chain([output("msg_1123456789abcdef", 7)])
        .collect();
    let later: Vec<Value> = original
        .iter()
        .map(|row| {
            let mut row = row.clone();
            merge(&mut row, json!({"timestamp": "2026-03-11T09:00:00.000Z"}));
            row
        })
        .collect();
    let logs: [(&str, &[Value]); 3] = [(SESSION, &original), ("resumed", &resumed), ("later", &later)];
    assert_eq!(count(&logs), (2, 6, 37, 40, 0));
    let short = |time: &str, tokens| {
        let mut row = output("msg_004", tokens);
        merge(&mut row, json!({"timestamp": time}));
        row
    };
    let (first, second) = ([short("2026-03-10T12:00:00Z", 5)], [short("2026-03-12T12:00:00Z", 6)]);
    assert_eq!(count(&[("a", &first), ("b", &second)]).2, 11, "short ids are used again");
    assert_eq!(count(&[("a", &first), ("b", &first)]).2, 5, "but copies of them are copies");
}

/// A response of a generated session.
#[derive(Debug, Clone)]
struct Response {
    id: usize,
    outputs: Vec<u64>,
    minute: u32,
    model: &'static str,
    tools: usize,
    is_progress: bool,
}

fn response() -> impl Strategy<Value = Response> {
    let models = prop_oneof![Just("claude-opus-5"), Just("claude-haiku-4-5-20251001"), Just("glm-4.7")];
    (
        0..40usize,
        prop::collection::vec(0..5_000u64, 1..4),
        0..20_000u32,
        models,
        0..4usize,
        prop::bool::weighted(0.1),
    )
        .prop_map(|(id, outputs, minute, model, tools, is_progress)| Response {
            id,
            outputs,
            minute,
            model,
            tools,
            is_progress,
        })
}

fn rows_of(session: &str, responses: &[Response]) -> Vec<Value> {
    let mut rows = Vec::new();
    for response in responses {
        let time = format!(
            "2026-03-{:02}T{:02}:{:02}:00.000Z",
            1 + response.minute / 1440,
            response.minute / 60 % 24,
            response.minute % 60
        );
        let last = response.outputs.len() - 1;
        for (at, tokens) in response.outputs.iter().enumerate() {
            let calls: Vec<Value> = (0..response.tools)
                .map(|call| json!({"type": "tool_use", "id": format!("t{}-{at}-{call}", response.id), "name": (["Bash", "Read", "Edit"])[call % 3], "input": {}}))
                .collect();
            let mut row = row(
                &format!("msg_{:020}", response.id),
                json!({
                    "uuid": format!("{session}-{}", rows.len()), "sessionId": session, "timestamp": time, "gitBranch": "main",
                    "message": {"model": response.model, "content": calls, "usage": {"output_tokens": tokens, "input_tokens": 17 * response.id}},
                }),
            );
            if at == last && tokens % 2 == 0 {
                row = finished(row);
            }
            rows.push(if response.is_progress { progress(&row) } else { row });
        }
    }
    rows
}

fn write(path: &Path, rows: &[Value]) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("created");
    fs::write(path, rows.iter().map(|row| format!("{row}\n")).collect::<String>()).expect("written");
}

/// Sums the groups of every grouping, which must be the total.
fn check_groupings(library: &Library) -> UsageAmount {
    let mut total = None;
    for grouping in UsageGrouping::ALL {
        let report = report_of(library, grouping);
        let mut sum = UsageAmount::default();
        let mut models: BTreeMap<String, UsageAmount> = BTreeMap::new();
        for group in &report.groups {
            sum += group.amount;
            for (model, amount) in &group.models {
                *models.entry(model.clone()).or_default() += *amount;
            }
        }
        assert_eq!(sum, report.total, "{}", grouping.name());
        let mut by_model = UsageAmount::default();
        for amount in models.into_values() {
            by_model += amount;
        }
        assert_eq!(by_model, report.total, "models by {}", grouping.name());
        assert_eq!(*total.get_or_insert(report.total), report.total);
    }
    total.unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn copies_of_sessions_change_no_total(
        sessions in prop::collection::vec(prop::collection::vec(response(), 1..8), 1..4),
        copied in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let projects = dir.path().join("projects");
        let mut all = Vec::new();
        for (n, responses) in sessions.iter().enumerate() {
            let id = format!("0000bbbb-0000-4000-8000-{n:012}");
            let rows = rows_of(&id, responses);
            write(&projects.join(format!("-home-ada-kettle/{id}.jsonl")), &rows);
            all.push((id, rows));
        }
        let library = Library::open([dir.path()]);
        let total = check_groupings(&library);

        // A resumed session: new ids, the same messages, perhaps only the first of them.
        let (id, rows) = &all[copied.index(all.len())];
        let rename = |rows: &[Value], to: &str, more: &Value| -> Vec<Value> {
            rows.iter().enumerate().map(|(n, row)| {
                let mut row = row.clone();
                merge(&mut row, json!({"sessionId": to, "uuid": format!("{to}-{n}")}));
                merge(&mut row, more.clone());
                row
            }).collect()
        };
        let some = &rows[..=cut.index(rows.len())];
        let resumed = "0000cccc-0000-4000-8000-000000000001";
        write(&projects.join(format!("-home-ada-kettle/{resumed}.jsonl")), &rename(some, resumed, &json!({})));
        prop_assert_eq!(check_groupings(&library), total, "resume");
        let forked = "0000cccc-0000-4000-8000-000000000002";
        let from = json!({"forkedFrom": {"sessionId": id, "messageUuid": "x"}});
        write(&projects.join(format!("-home-ada-kettle/{forked}.jsonl")), &rename(some, forked, &from));
        prop_assert_eq!(check_groupings(&library), total, "fork");
        let moved = projects.join(format!("-home-ada-moved/{id}.jsonl"));
        write(&moved, rows);
        prop_assert_eq!(check_groupings(&library), total, "moved copy");
        let source = library.find(&*projects.join(format!("-home-ada-kettle/{id}.jsonl")).to_string_lossy())
            .expect("found");
        if let Some(source) = source.first() {
            library.clone_session(source, &CloneOptions::default()).expect("cloned");
            prop_assert_eq!(check_groupings(&library), total, "clone");
        }
        fs::remove_file(projects.join(format!("-home-ada-kettle/{id}.jsonl"))).expect("removed");
        prop_assert_eq!(check_groupings(&library), total, "moved");

        // The order of the logs does not matter.
        let mut usage = library.usage(true);
        let before: Vec<_> = receipts(&usage.logs, &PriceList::default()).iter().map(|r| (r.key, r.session().to_owned(), r.price)).collect();
        usage.logs.reverse();
        let after: Vec<_> = receipts(&usage.logs, &PriceList::default()).iter().map(|r| (r.key, r.session().to_owned(), r.price)).collect();
        prop_assert_eq!(before, after);
    }
}

#[test]
fn receipts_have_a_row_for_every_line_and_one_that_counts() {
    let Some(corpus) = shared("corpus") else {
        println!("not run: ../shared/corpus is not there");
        return;
    };
    let dir = library_of(&corpus);
    let library = Library::open([dir.path()]);
    let usage = library.usage(true);
    let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    let explained = usage.explain(&receipts).expect("readable");
    assert_eq!(explained.len(), receipts.len());
    for (receipt, explained) in receipts.iter().zip(&explained) {
        assert_eq!(explained.rows.len() as u64, receipt.rows);
        let counted: Vec<_> = explained.rows.iter().filter(|row| row.dropped.is_none()).collect();
        assert_eq!(counted.len(), 1, "{:?}", explained.rows);
        assert_eq!(counted[0].usage, receipt.counted.recorded.usage);
    }
    check_groupings(&library);
}

#[test]
fn corpus_total_equals_an_independent_count() {
    let Some(corpus) = shared("corpus") else {
        println!("not run: ../shared/corpus is not there");
        return;
    };
    let dir = library_of(&corpus);
    let expected = independent_count(dir.path());
    let total = report_of(&Library::open([dir.path()]), UsageGrouping::Month).total;
    let usage = total.usage;
    assert_eq!([usage.input, usage.output, usage.cache_write(), usage.cache_read], expected);
    println!("{} responses, {expected:?}", total.responses);
}

/// Copies logs into the directory layout of a client.
fn library_of(corpus: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let project = dir.path().join("projects/-corpus");
    fs::create_dir_all(&project).expect("created");
    for (n, path) in logs_under(corpus).into_iter().enumerate() {
        fs::copy(&path, project.join(format!("{n:04}.jsonl"))).expect("copied");
    }
    dir
}

/// Counts with a strict JSON parser and one table: the row with a stop reason, else the largest output, else the last.
fn independent_count(dir: &Path) -> [u64; 4] {
    let mut chosen: BTreeMap<String, ((bool, u64), [u64; 4])> = BTreeMap::new();
    for path in logs_under(dir) {
        let bytes = fs::read(&path).expect("readable");
        for (n, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let Ok(entry) = serde_json::from_slice::<Value>(line) else { continue };
            let (message, usage) = (&entry["message"], &entry["message"]["usage"]);
            if entry["type"] != "assistant" || !usage.is_object() || message["model"] == "<synthetic>" {
                continue;
            }
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let parts = &usage["cache_creation"];
            let written =
                number(&parts["ephemeral_5m_input_tokens"]) + number(&parts["ephemeral_1h_input_tokens"]);
            let counts = [
                number(&usage["input_tokens"]),
                number(&usage["output_tokens"]),
                written.max(number(&usage["cache_creation_input_tokens"])),
                number(&usage["cache_read_input_tokens"]),
            ];
            let id = message["id"].as_str().map_or_else(|| format!("{}:{n}", path.display()), str::to_owned);
            let rank = (message["stop_reason"].is_string(), counts[1]);
            let known = chosen.entry(id).or_insert((rank, counts));
            if rank >= known.0 {
                *known = (rank, counts);
            }
        }
    }
    chosen.values().fold([0; 4], |sum, (_, counts)| std::array::from_fn(|at| sum[at] + counts[at]))
}

#[test]
fn differences_to_ccusage_add_up() {
    let rows = [
        finished(output(LONG, 30)),
        row("msg_2123456789abcdef", json!({"requestId": null, "timestamp": "2026-03-10T12:00:01Z"})),
        row("msg_2123456789abcdef", json!({"requestId": null, "timestamp": "2026-03-10T12:00:02Z"})),
        progress(&output("msg_3123456789abcdef", 1)),
        row("msg_4123456789abcdef", json!({"version": "dev"})),
    ];
    let dir = tempfile::tempdir().expect("a directory");
    write(&dir.path().join(format!("projects/-p/{SESSION}.jsonl")), &rows);
    let library = Library::open([dir.path()]);
    let usage = library.usage(true);
    let receipts = usage.receipts(&PriceList::default(), &UsageFilter::default());
    let comparison = usage.compare(&receipts).expect("readable");
    let causes: Vec<(&str, u64, i64)> =
        comparison.causes.iter().map(|(cause, (n, sum))| (cause.name(), *n, sum.output)).collect();
    assert_eq!(causes, [("progress_only", 1, 1), ("no_request_id", 1, 10), ("not_read", 1, -10)]);
    let mut sum = comparison.ours;
    for difference in &comparison.differences {
        sum += difference.difference;
    }
    assert_eq!(sum, comparison.theirs);
}
