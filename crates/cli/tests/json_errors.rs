//! Errors with `--json`.

mod common;

use common::rethread;
use rethread_testkit::{Home, LogBuilder};
use serde_json::{Value, json};

/// Runs a command that fails, and returns its error. Nothing else is printed.
fn error(home: &Home, args: &[&str]) -> Value {
    let output = rethread(home.path()).args(args).arg("--json").output().expect("ended");
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    assert!(output.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    serde_json::from_str(&stderr).expect("an object")
}

fn home() -> Home {
    let home = Home::default();
    for n in [0x1a, 0x1b] {
        let mut log = LogBuilder::new(n);
        log.prompt("Count the puffins.");
        log.answer("There are nine.");
        home.add("/home/user/app", &log);
    }
    home
}

#[test]
fn errors_have_a_kind_and_data() {
    let home = home();
    let cases: [(&[&str], &str); 14] = [
        (&["show", "ffffffff"], "not_found"),
        (&["show", "0000001a", "--at", "9"], "not_found"),
        (&["show", "0000001a", "--path", "9"], "not_found"),
        (&["outline", "0000001a", "--path", "9"], "not_found"),
        (&["clone", "0000001a", "--path", "9"], "not_found"),
        (&["show", "0000001"], "ambiguous"),
        (&["show", "0000001a", "--at", "0000001a"], "ambiguous"),
        (&["search", "in:thinkin x"], "invalid_query"),
        (&["search", ""], "invalid_query"),
        (&["ls", "--since", "when"], "invalid_value"),
        (&["tree", "0000001a", "--client", "x"], "invalid_value"),
        (&["show", "--nonsense"], "usage"),
        (&["nonsense"], "usage"),
        (&["ls", "--color", "pink"], "invalid_value"),
    ];
    for (args, kind) in cases {
        let error = error(&home, args);
        assert_eq!((&error["type"], &error["kind"]), (&json!("error"), &json!(kind)), "{args:?}: {error}");
        let message = error["message"].as_str().expect("a message");
        assert!(!message.is_empty() && !message.contains('\n') && !message.starts_with("error"), "{error}");
        // The message about a time says what to write.
        assert_eq!(error["hint"].is_string(), args[0] != "ls" || args[1] != "--since", "{args:?}: {error}");
    }
}

#[test]
fn data_of_errors_can_be_used() {
    let home = home();
    let ambiguous = error(&home, &["show", "0000001"]);
    let ids: Vec<&str> = ambiguous["candidates"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|row| row["session"].as_str())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(ids.contains(&"0000001a-0000-4000-8000-000000000000"), "{ids:?}");

    let query = error(&home, &["search", "é in:thinkin x"]);
    assert_eq!(query["query"], "é in:thinkin x");
    assert_eq!(query["span"], json!([5, 12]));
    assert_eq!(query["valid"][0], "thinking");

    let usage = error(&home, &["shwo"]);
    assert_eq!((&usage["argument"], &usage["suggestion"][0]), (&json!(null), &json!("show")), "{usage}");
    let colour = error(&home, &["ls", "--color", "pink"]);
    assert_eq!((&colour["value"], &colour["valid"]), (&json!("pink"), &json!(["auto", "always", "never"])));
}

#[test]
fn hidden_characters_in_errors_are_escaped() {
    let home = home();
    for name in ["\u{1b}[2J", "\u{202e}x"] {
        for args in [["show", name], ["search", &format!("/({name}/")], ["--x", name]] {
            let output = rethread(home.path()).args(args).arg("--json").output().expect("ended");
            let stderr = String::from_utf8(output.stderr).expect("text");
            assert!(!stderr.contains(['\u{1b}', '\u{202e}']), "{args:?}: {stderr:?}");
        }
    }
}
