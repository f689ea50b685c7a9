//! Sessions with a very long line: every command keeps it in memory at most three times.
//!
//! The measure is the peak memory of the process, which Linux reports and lets a process reset.

#![cfg(target_os = "linux")]

use std::fs;

use rethread::{ExportOptions, Format, Library, RepairDestination};
use rethread_testkit::{Home, LogBuilder, PendingCall};
use serde_json::json;

/// The length of the line: above the sizes that the allocator retains.
const LONG: usize = 34 << 20;

/// Returns a memory field of this process, in bytes.
fn memory(field: &str) -> usize {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells it");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("the field");
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<usize>().expect("a number") * 1024
}

/// Returns the peak growth of memory while `run` ran; `None` if it cannot be measured here.
fn growth(run: impl FnOnce()) -> Option<usize> {
    fs::write("/proc/self/clear_refs", "5").ok()?;
    let before = memory("VmRSS:");
    run();
    Some(memory("VmHWM:").saturating_sub(before))
}

/// Sessions with one very long line, each with the kind of that line.
fn sessions() -> Vec<(&'static str, LogBuilder)> {
    let plain = "The quick brown fox jumps over the lazy dog. ".repeat(LONG / 45);
    let escaped = "a\n\"b\"\t\\c ".repeat(LONG / 15);
    let marked = "<b>&*_`[x]\n#!|".repeat(LONG / 15);
    let begun = || {
        let mut log = LogBuilder::new(1);
        log.prompt("Begin, please.");
        log
    };
    let answer = |text: &str| {
        let mut log = begun();
        log.answer(text);
        log
    };
    let mut call = begun();
    let id = call.call("Bash", &json!({ "command": escaped }));
    call.result(&id, "done");
    let mut orphan = begun();
    let mark = orphan.answer("Which?");
    orphan.result(&PendingCall { id: "toolu_lost".into(), uuid: mark }, &escaped);
    let mut reversed = begun();
    reversed.answer(&plain);
    let lines: Vec<u8> = reversed.bytes().split_inclusive(|&b| b == b'\n').rev().flatten().copied().collect();
    let mut turned = LogBuilder::new(1);
    turned.raw(std::str::from_utf8(&lines).expect("text").trim_end());
    let sessions = [
        ("marks", answer(&marked)),
        ("call", call),
        ("result without a call", orphan),
        ("lines in another order", turned),
    ];
    sessions
        .into_iter()
        .map(|(name, mut log)| {
            log.answer("That is all.");
            (name, log)
        })
        .collect()
}

// A single test, so that nothing else runs in this process.
#[test]
fn very_long_line_is_in_memory_at_most_three_times() {
    for (name, log) in sessions() {
        let home = Home::default();
        home.add("/home/user/app", &log);
        let len = log.bytes().len();
        drop(log);
        let library = Library::open(vec![home.path().to_owned()]);
        let within = |command: &str, run: &dyn Fn()| {
            let most = growth(run).unwrap_or(0);
            assert!(most <= 3 * len, "{command} of {name}: {:.2} times its length", most as f64 / len as f64);
        };
        let source = || library.select(&[], None).expect("found").remove(0);
        let out = tempfile::tempdir().expect("a directory");
        within("repair", &|| {
            let to = RepairDestination::File(out.path().join("repaired.jsonl"));
            library.repair(&source(), &to).expect("repaired");
        });
        for format in [Format::Md, Format::Html, Format::Json] {
            within(&format!("export {format:?}"), &|| {
                let options = ExportOptions { format, ..ExportOptions::default() };
                let exported = library.export(vec![source()], &out.path().join("all"), &options);
                assert!(exported.expect("exported").errors.is_empty());
            });
        }
    }
}
