//! Tests of `sql`: output, limits, errors, and its documentation.

mod common;

use std::path::Path;

use common::{demo, rethread, run, run_with};
use rethread::SQL_VIEWS;
use rethread_testkit::{Home, LogBuilder};

fn library() -> Home {
    let home = Home::default();
    for number in 1..4 {
        let mut log = LogBuilder::new(number);
        log.cwd = "/home/ada/api".to_owned();
        log.prompt(&format!("=1+{number} \u{1b}[31m \u{202e}, \"quoted\""));
        let call = log.call("Read", &serde_json::json!({"file_path": "/home/ada/api/a.rs"}));
        log.result(&call, "fn main() {}");
        log.answer("Done.");
        home.add("/home/ada/api", &log);
    }
    home
}

#[test]
fn rows_are_printed_as_a_table_json_and_csv() {
    let home = library();
    let query =
        "select substr(id, 1, 8) as id, turns, null as none, x'00ff' as bytes from sessions order by id";
    insta::assert_snapshot!(run(&home, &["sql", query]));
    insta::assert_snapshot!(run(&home, &["sql", "--json", query]));
    assert_eq!(
        run(&home, &["sql", "--csv", query]),
        "id,turns,none,bytes\r\n00000001,1,,00ff\r\n00000002,1,,00ff\r\n00000003,1,,00ff\r\n"
    );
    assert_eq!(run_with(home.path(), &["sql", "-q", "-"], "select 1 as one"), "one\n  1\n");
    let names = run(&home, &["sql", "--json", "select 1 as a, 2 as a, 3 as a"]);
    assert_eq!(names, "{\"a\":1,\"a_2\":2,\"a_3\":3}\n");
    let none = run(&home, &["sql", "select id from sessions where 0"]);
    assert_eq!(none, "id\n----- stderr\n0 rows\n----- exit Some(1)\n");
}

#[test]
fn text_from_logs_does_not_control_the_terminal() {
    let home = library();
    let query = "select first_prompt from sessions";
    let command = |args: &[&str]| {
        let output =
            rethread(home.path()).args(args).env("COLUMNS", "60").args(["--color", "always"]).output();
        String::from_utf8(output.expect("run").stdout).expect("text")
    };
    for text in [command(&["sql", query]), command(&["sql", "--json", query])] {
        assert!(!text.replace("\u{1b}[2m", "").replace("\u{1b}[0m", "").contains('\u{1b}'), "{text:?}");
    }
    let csv = run(&home, &["sql", "--csv", query]);
    assert!(
        csv.contains("\"=1+1 \u{1b}[31m \u{202e}, \"\"quoted\"\"\"\r\n"),
        "files get what the log has: {csv:?}"
    );
}

#[test]
fn queries_only_read_the_views() {
    let home = library();
    run(&home, &["sql", "select 1"]);
    let outside = home.path().join("outside.db").to_string_lossy().into_owned();
    for query in [
        "delete from sessions",
        "insert into message_rows (log, n) values (1, 1)",
        "update logs set session = 'x'",
        "drop view sessions",
        "create table x (a)",
        "create temp table x (a)",
        "create temp view v as select * from logs",
        "select * from logs",
        "select path from logs",
        "select count(*) from logs",
        "select count(*) from 'logs'",
        "select 1 in logs",
        "with sessions as (select * from logs) select * from sessions",
        "select * from sessions, main . [Logs]",
        "select 1 from states",
        "select * from sessions where log in (select id from logs)",
        "with x as (select * from summaries) select * from x",
        "select * from sqlite_schema",
        "select * from sqlite_master",
        "select * from pragma_table_info('logs')",
        "pragma journal_mode = delete",
        "pragma user_version",
        "pragma query_only = off",
        &format!("attach '{outside}' as other"),
        "detach main",
        "vacuum",
        &format!("vacuum into '{outside}'"),
        "begin",
        "analyze",
        "reindex",
        "select load_extension('x')",
        "explain select * from logs",
    ] {
        let text = run(&home, &["sql", query]);
        assert!(
            text.starts_with("----- stderr\nerror: ") && text.ends_with("----- exit Some(2)\n"),
            "{query}: {text}"
        );
        assert!(text.contains("hint: "), "{query}: {text}");
    }
    assert!(!Path::new(&outside).exists());
    for query in ["select count(*) as logs from sessions", "select id from sessions where title <> 'logs'"] {
        assert!(!run(&home, &["sql", query]).contains("error"), "{query}");
    }
    assert!(run(&home, &["sql", "select count(*) as n from sessions"]).starts_with("n\n3\n"));
    let nested = "with recursive t(n) as (select 1 union all select n + 1 from t where n < 4)
        select count(*) as n from t, json_each('[1,2]') j join sessions s on s.turns = j.value";
    assert!(run(&home, &["sql", nested]).starts_with(" n\n12\n"));
}

#[test]
fn errors_name_the_place_and_the_nearest_name() {
    let home = library();
    insta::assert_snapshot!(run(&home, &["sql", "select titel from sessions"]));
    insta::assert_snapshot!(run(&home, &["sql", "select * from mesages"]));
    insta::assert_snapshot!(run(&home, &["sql", "select id form sessions"]));
    insta::assert_snapshot!(run(&home, &["sql", "select 1; select 2"]));
    insta::assert_snapshot!(run(&home, &["sql", ""]));
    insta::assert_snapshot!(run(&home, &["sql", "select '"]));
    insta::assert_snapshot!(run(&home, &["sql", "select abs(-9223372036854775808)"]));
}

#[test]
fn endless_and_huge_queries_are_stopped() {
    let home = library();
    let endless = "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t";
    insta::assert_snapshot!(run(&home, &["sql", "--timeout", "1", endless]));
    insta::assert_snapshot!(run(&home, &["sql", "select zeroblob(1000000000)"]));
}

#[test]
fn sql_needs_a_cache_directory() {
    let home = library();
    let mut command = rethread(home.path());
    command.env_remove("HOME").env("XDG_CACHE_HOME", "/dev/null").args(["sql", "select 1"]);
    let output = command.output().expect("run");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn schema_is_printed() {
    let text = demo(&["sql", "--schema"]);
    assert!(SQL_VIEWS.iter().all(|view| text.contains(view.purpose)), "{text}");
    assert!(demo(&["sql", "--schema", "--json"]).contains(r#""view":"messages","column":"place""#));
}

#[test]
fn documentation_describes_every_column() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sql.md");
    let page = std::fs::read_to_string(&path).expect("docs/sql.md");
    let start = page.find("## Views\n").expect("a section");
    let mut now = page[..start].to_owned() + "## Views\n";
    for view in SQL_VIEWS {
        now += &format!("\n### `{}`\n\n{}\n\n| column | content |\n|---|---|\n", view.name, view.purpose);
        for column in view.columns {
            now += &format!("| `{}` | {} |\n", column.name, column.meaning);
        }
    }
    if std::env::var_os("RETHREAD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &now).expect("written");
    }
    let written = std::fs::read_to_string(&path).expect("docs/sql.md");
    assert_eq!(written, now, "run the tests with RETHREAD_WRITE_DOCS=1 to write the tables again");
}

#[test]
fn documented_columns_are_those_of_the_views() {
    let home = library();
    for view in SQL_VIEWS {
        let header = run(&home, &["sql", "--csv", &format!("select * from {} limit 0", view.name)]);
        let names: Vec<&str> = view.columns.iter().map(|column| column.name).collect();
        assert_eq!(header.lines().next(), Some(&*names.join(",")), "{}", view.name);
    }
}
