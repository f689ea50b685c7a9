//! The bytes of logs that an index reads. The only test of its program, because it counts what the whole process reads.

use std::fs::OpenOptions;
use std::io::Write as _;

use rethread::Library;
use rethread::internals::store::bytes_read;
use rethread_testkit::{Home, LogBuilder};
use serde_json::json;

#[test]
fn index_reads_only_what_was_appended() {
    let home = Home::default();
    let mut log = LogBuilder::new(1);
    for turn in 0..2000 {
        log.prompt(&format!("Prompt {turn} about nothing in particular"));
        log.answer(
            "An answer of some length that fills the log, so that it is longer than what may be read of it.",
        );
    }
    let path = home.add("/home/user/app", &log);
    for number in 2..20 {
        let mut other = LogBuilder::new(number);
        other.prompt("Another session");
        home.add("/home/user/app", &other);
    }
    let library = || Library::builder().root(home.path()).cache_dir(home.path().join("cache")).open();
    let update = || {
        let before = bytes_read();
        let report = library().update_index().expect("an index").expect("updated");
        (report.logs_read, bytes_read() - before)
    };
    assert_eq!(update().0, 19);
    // Logs that were changed just before they were read are compared once more.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(update().0, 0);
    assert_eq!(update(), (0, 0), "nothing has changed");

    for size in [10, 5_000, 100_000, 2_000_000] {
        let before = log.bytes().len();
        let call = log.call("Bash", &json!({ "command": "x" }));
        log.result(&call, &"y ".repeat(size / 4));
        let appended = log.bytes()[before..].to_vec();
        let mut file = OpenOptions::new().append(true).open(&path).expect("opened");
        file.write_all(&appended).expect("written");
        drop(file);
        let (logs, read) = update();
        assert_eq!(logs, 1);
        let limit = appended.len() as u64 + (64 << 10);
        assert!(read <= limit, "read {read} of {} appended", appended.len());
        std::thread::sleep(std::time::Duration::from_millis(200));
        update();
    }
    assert_eq!(update(), (0, 0));
}
