//! Tests of `ls`: the table at several widths, marks, limits, and copies.

mod common;

use common::{demo, rethread, run};
use insta::assert_snapshot;
use rethread_testkit::{Home, LogBuilder};

fn at_width(home: &Home, columns: &str, args: &[&str]) -> String {
    let output = rethread(home.path()).env("COLUMNS", columns).args(args).output().expect("ended");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Two projects of the same name, a session with branches, one that no client resumes completely, hostile titles.
fn library() -> Home {
    let home = Home::default();
    let add = |number: u32, cwd: &str, prompt: &str| {
        let mut log = LogBuilder::new(number);
        log.cwd = cwd.to_owned();
        log.wait(u64::from(number) * 3600);
        if number == 3 {
            log.answer("Newer clients refuse a session that begins with an answer.");
        }
        let first = log.prompt(prompt);
        log.answer("Done.");
        if number == 2 {
            log.back_to(&first);
            log.answer("Done differently.");
            log.prompt("And now?");
        }
        home.add(cwd, &log);
    };
    add(
        1,
        "/home/ada/work/api",
        "Refactor the session store so that a write is whole or absent and links are never followed",
    );
    add(
        2,
        "/home/ada/play/api",
        "端末の幅に合わせて表を折り返すための長い題名です、全角文字は二桁を使います",
    );
    add(3, "/home/ada/web", "🦀 fix 👩‍💻 the emoji width");
    add(4, "/home/ada/web", "red \u{1b}[31m title \u{202e}gnp.exe\u{7}\ttab");
    home
}

#[test]
fn columns_drop_out_until_the_title_fits() {
    let home = library();
    let all = ["ls", "--all", "-q", "--color", "always"];
    let plain = |columns: &str| strip_colors(&at_width(&home, columns, &all));
    assert_snapshot!(plain("60"));
    assert_snapshot!(plain("80"));
    assert_snapshot!(plain("120"));
    assert_snapshot!(plain("200"));
}

fn strip_colors(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        out.push_str(&rest[..at]);
        let end = rest[at..].find('m').expect("the end of a colour");
        rest = &rest[at + end + 1..];
    }
    out + rest
}

#[test]
fn marks_have_a_legend() {
    let home = library();
    let text = run(&home, &["ls", "--all"]);
    let marked: Vec<&str> = text.lines().filter(|line| line.contains("! ")).collect();
    let checked = run(&home, &["check", "00000003"]);
    assert!(checked.contains("exit Some(1)"), "{checked}");
    assert!(marked.len() == 2 && marked[0].contains("00000003"), "{text}");
    assert_eq!(marked[1], "! clients lose or refuse a part of it: rethread check 00000003");
}

#[test]
fn limit_says_what_is_not_listed() {
    assert_snapshot!(demo(&["ls", "--limit", "1"]), @"
    ID                                    WHEN     TURNS   SIZE  BRANCHES  TITLE
    0000d005-0000-4000-8000-000000000000  3 h ago      2  33 kB            Kettle: reject the power-up reading of 85 °C
    ----- stderr
    1 of 5 sessions; --limit 0 for all
    ");
    assert!(demo(&["ls", "-n", "0"]).ends_with("5 sessions\n"));
    assert_eq!(demo(&["ls", "-n", "2", "--json", "-q"]).lines().count(), 2);
}

#[test]
fn branches_selects_sessions_with_several() {
    let text = demo(&["ls", "--branches", "--json", "-q"]);
    let rows: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(!rows.is_empty() && rows.iter().all(|row| row["tips"].as_u64() > Some(1)), "{text}");
}

#[test]
fn branch_and_model_select_sessions() {
    let count = |args: &[&str]| demo(&[&["ls", "--json", "-q"], args].concat()).lines().count();
    let rows: Vec<serde_json::Value> =
        demo(&["ls", "--json", "-q"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let with_opus = rows.iter().filter(|row| row["models"].to_string().contains("opus")).count();
    assert_eq!((count(&["--model", "CLAUDE"]), count(&["--model", "OPUS"])), (rows.len(), with_opus));
    let on_main = rows.iter().filter(|row| row["git_branch"] == "main").count();
    assert_eq!(count(&["--branch", "main"]), on_main);
    assert_eq!(demo(&["ls", "-q", "--branch", "mai"]), "----- exit Some(1)\n");
    let home = library();
    let elsewhere = |args: &[&str]| {
        let dir = home.path().join("work/api");
        std::fs::create_dir_all(&dir).expect("created");
        let mut log = LogBuilder::new(9);
        log.cwd = dir.to_string_lossy().into_owned();
        log.prompt("Here");
        log.answer("Yes.");
        home.add(&log.cwd.clone(), &log);
        let output = rethread(home.path()).current_dir(&dir).args(args).output().expect("ended");
        String::from_utf8_lossy(&output.stdout).lines().count()
    };
    assert_eq!(elsewhere(&["ls", "--json", "--branch", "main"]), 1);
    assert_eq!(elsewhere(&["ls", "--json", "--branch", "other"]), 0, "other projects are not listed instead");
}

/// Clones and repairs are made now, so their times are those of the real clock.
#[test]
fn clone_names_its_source_and_is_as_new_as_it_was_made() {
    let home = library();
    assert!(run(&home, &["clone", "00000001", "--json"]).contains("\"type\":\"clone\""));
    let rows: Vec<serde_json::Value> = run(&home, &["ls", "--all", "--json", "-q"])
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let newest = &rows[0];
    assert_eq!(newest["made_from"], "00000001-0000-4000-8000-000000000000");
    assert_eq!((&newest["made_by"], newest["made"].is_string()), (&"clone".into(), true));
    assert_eq!(
        newest["modified"],
        rows.last().expect("a source")["modified"],
        "the entries keep their times"
    );
    assert!(rows[1..].iter().all(|row| row["made_from"].is_null()));
    let listed = run(&home, &["ls", "--all", "--since", "2026-01-08"]);
    assert!(listed.contains("(clone of 00000001)") && listed.ends_with("1 session\n"), "{listed}");
    let listed = run(&home, &["ls", "--all", "--until", "2026-01-08"]);
    assert!(!listed.contains("(clone of 00000001)") && !listed.ends_with("0 sessions\n"), "{listed}");
    assert!(run(&home, &["repair", "00000003", "--json"]).contains("\"type\":\"repair\""));
    assert!(run(&home, &["ls", "--all"]).contains("(repaired from 00000003)"));
}
