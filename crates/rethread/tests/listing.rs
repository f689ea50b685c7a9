//! A listing and a check agree on which sessions clients resume completely.

use rethread::{CheckOptions, Library, LogSource, LsOptions};
use rethread_testkit::{DAMAGES, Home, LogBuilder, damaged, lines_of, log_of, logs_under, shapes, shared};

/// Compares the mark of each listed session with the findings of a check.
fn disagreements(library: &Library) -> Vec<String> {
    let listing = library.ls(&LsOptions::new().agents(true).check(true));
    assert!(listing.errors.is_empty() && !listing.sessions.is_empty());
    let differs = |session: &&rethread::SessionSummary| {
        let source: LogSource = library.find_one(session.path.as_os_str()).expect("listed");
        let report = library.check(&source, &CheckOptions::new()).expect("read");
        report.has_harmful_findings() != session.is_harmed()
    };
    listing.sessions.iter().filter(differs).map(|session| session.path.display().to_string()).collect()
}

#[test]
fn mark_means_what_check_reports() {
    let home = Home::default();
    for (n, (_, shape)) in shapes::SHAPES.iter().enumerate() {
        let log = shape(40).bytes();
        home.write(&format!("projects/-a/{n:08x}-0000-4000-8000-000000000000.jsonl"), &log);
    }
    let mut log = LogBuilder::new(1);
    for n in 0..6 {
        log.prompt(&format!("prompt {n}"));
        let call = log.call("Bash", &serde_json::json!({"command": "ls"}));
        log.result(&call, "a\nb");
        log.answer("Done.");
    }
    for damage in 0..DAMAGES {
        let log = log_of(&damaged(lines_of(&log.bytes()), &[(3, damage)]));
        home.write(&format!("projects/-b/{damage:08x}-0000-4000-8000-000000000000.jsonl"), &log);
    }
    let library = Library::open([home.path()]);
    assert_eq!(disagreements(&library), [] as [String; 0]);
    let harmed = library.ls(&LsOptions::new().check(true)).sessions;
    let marks = |sessions: &[rethread::SessionSummary]| -> Vec<_> {
        sessions.iter().map(|session| (session.path.clone(), session.severity)).collect()
    };
    for limit in [0, 1, harmed.len() / 2, harmed.len(), harmed.len() + 1] {
        let limited = library.ls(&LsOptions::new().check(true).limit(limit));
        assert_eq!(marks(&limited.sessions), marks(&harmed[..limit.min(harmed.len())]));
        assert_eq!(limited.sessions.len() + limited.beyond_limit, harmed.len());
    }
    let n_harmed = harmed.iter().filter(|session| session.is_harmed()).count();
    assert!(n_harmed > 0 && n_harmed < harmed.len(), "both kinds occur: {n_harmed} of {}", harmed.len());
}

#[test]
fn mark_means_what_check_reports_for_real_logs() {
    let Some(corpus) = shared("corpus") else { return };
    let home = Home::default();
    for (n, path) in logs_under(&corpus).iter().enumerate() {
        let log = std::fs::read(path).expect("read");
        home.write(&format!("projects/-a/{n:08x}-0000-4000-8000-000000000000.jsonl"), &log);
    }
    assert_eq!(disagreements(&Library::open([home.path()])), [] as [String; 0]);
}
