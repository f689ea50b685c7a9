//! `usage`: tables, receipts, the status line and errors.

mod common;

use std::fs;

use common::{demo, run, run_with};
use insta::assert_snapshot;
use rethread_testkit::Home;
use serde_json::{Value, json};

const SESSION: &str = "0000aaaa-0000-4000-8000-000000000001";

/// Returns a row with a usage.
fn row(id: &str, time: &str, model: &str, output: u64) -> String {
    let row = json!({
        "type": "assistant", "uuid": format!("{id}-{output}"), "timestamp": time, "sessionId": SESSION, "requestId": "r",
        "cwd": "/home/ada/kettle", "version": "2.1.200",
        "message": {"id": id, "model": model, "role": "assistant", "content": [], "stop_reason": "end_turn",
            "usage": {"input_tokens": 1000, "output_tokens": output}},
    });
    format!("{row}\n")
}

/// Returns a home with one session: today's answers of two models, one of them with an escape sequence in its name.
fn home() -> Home {
    let home = Home::default();
    let project = home.path().join("projects/-home-ada-kettle");
    fs::create_dir_all(&project).expect("created");
    let log = [
        row("msg_0000000000000001", "2026-01-09T09:30:00.000Z", "claude-opus-5", 10),
        row("msg_0000000000000001", "2026-01-09T09:30:00.000Z", "claude-opus-5", 2000),
        row("msg_0000000000000002", "2026-01-08T23:30:00.000Z", "claude-opus-5", 3000),
        row("msg_0000000000000003", "2026-01-09T09:40:00.000Z", "local\u{1b}[31m", 50),
    ];
    fs::write(project.join(format!("{SESSION}.jsonl")), log.concat()).expect("written");
    home
}

#[test]
fn usage_is_shown_by_day_and_by_model() {
    assert_snapshot!(run(&home(), &["usage"]));
    assert_snapshot!(run(
        &home(),
        &["usage", "--by", "model", "--timezone", "Asia/Tokyo", "--since", "2026-01-09"]
    ));
}

#[test]
fn sample_has_usage_by_session() {
    assert_snapshot!(demo(&["usage", "--by", "session", "--limit", "2"]));
}

#[test]
fn receipts_name_the_lines_that_count() {
    assert_snapshot!(run(&home(), &["usage", "--explain", "--model", "opus"]));
}

#[test]
fn json_has_groups_and_a_total() {
    let printed = run(&home(), &["usage", "--json", "--by", "tool"]);
    let rows: Vec<Value> = printed
        .lines()
        .take_while(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["key"], Value::Null);
    assert_eq!(rows[0]["cost_micros"], rows[1]["cost_micros"]);
    assert_eq!(rows[1]["unpriced_messages"], 1);
    assert_eq!(rows[1]["naive"]["output"], 5060);
    assert_eq!(rows[1]["output"], 5050);
}

#[test]
fn status_line_has_the_session_today_and_the_block() {
    let home = home();
    let log = home.path().join(format!("projects/-home-ada-kettle/{SESSION}.jsonl"));
    let input = json!({"transcript_path": log, "model": {"display_name": "Opus\u{1b}]0;x"}, "context_window": {"used_percentage": 41.6}});
    assert_snapshot!(run_with(home.path(), &["usage", "statusline"], &input.to_string()));
    assert_snapshot!(run_with(home.path(), &["usage", "statusline"], "{}"));
    assert_snapshot!(run_with(home.path(), &["usage", "statusline"], "no"));
}

#[test]
fn errors_say_what_would_be_valid() {
    let home = home();
    assert_snapshot!(run(&home, &["usage", "--timezone", "Mars/Base"]));
    assert_snapshot!(run(&home, &["usage", "--by", "modl"]));
    assert_snapshot!(run(&home, &["usage", "--last", "soon"]));
    fs::write(home.path().join("prices.json"), r#"{"opus":1}"#).expect("written");
    let prices = home.path().join("prices.json");
    assert_snapshot!(run(&home, &["usage", "--prices", &prices.to_string_lossy()]));
    assert_snapshot!(run(&home, &["usage", "--compare", &prices.to_string_lossy()]));
    assert_snapshot!(run(&home, &["usage", "--since", "2030-01-01"]));
}
