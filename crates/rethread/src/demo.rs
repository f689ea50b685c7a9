//! The sample that `--demo` shows: synthetic logs made with the test builders.

use std::path::Path;

use crate::library::LogSource;

/// The logs, with their ids.
pub(crate) const LOGS: [(&str, &[u8]); 4] = [
    ("0000d001-0000-4000-8000-000000000000", include_bytes!("../demo/redos.jsonl")),
    ("0000d002-0000-4000-8000-000000000000", include_bytes!("../demo/parallel.jsonl")),
    ("0000d003-0000-4000-8000-000000000000", include_bytes!("../demo/compacted.jsonl")),
    ("0000d004-0000-4000-8000-000000000000", include_bytes!("../demo/torn.jsonl")),
];

pub(crate) fn sources() -> Vec<LogSource> {
    let source = |&(id, bytes): &(&str, &[u8])| {
        LogSource::from_bytes(id, Path::new(&format!("demo/{id}.jsonl")), bytes)
    };
    LOGS.iter().map(source).collect()
}

#[cfg(test)]
mod tests {
    use rethread_testkit::LogBuilder;
    use serde_json::json;

    use super::*;

    /// Two redos: one conversation with three leaves.
    fn redos() -> LogBuilder {
        let mut log = LogBuilder::new(0xd001);
        log.cwd = "/home/ada/kettle".into();
        log.raw(r#"{"type":"custom-title","customTitle":"Kettle: choose a sensor","sessionId":"0000d001-0000-4000-8000-000000000000"}"#);
        log.prompt("Which temperature sensor should the kettle use?");
        log.answer("Two fit: a thermistor (cheap, needs a table) or a DS18B20 (digital, slower). What matters more, price or wiring?");
        log.wait(90).prompt("Wiring. Only one pin is free.");
        let choice = log.answer("Then the DS18B20: it speaks 1-Wire and needs just that pin.");
        log.wait(200).prompt("Write the driver in C.");
        log.answer("Here is a driver in C, about 80 lines …");
        log.wait(600).back_to(&choice);
        log.prompt("Write the driver in Rust.");
        let rust = log.answer("Here is a driver in Rust on top of `embedded-hal` …");
        log.wait(60).prompt("Make it blocking.");
        log.answer("Done: `read_blocking()` waits for the conversion.");
        log.wait(300).back_to(&rust);
        log.prompt("Make it async.");
        log.answer("Done: `read().await` sleeps for the 750 ms that the conversion takes.");
        log
    }

    /// Three parallel calls, and a subagent.
    fn parallel() -> LogBuilder {
        let mut log = LogBuilder::new(0xd002);
        log.cwd = "/home/ada/kettle".into();
        log.wait(86_400).prompt("Do the tests pass, and is the README still right?");
        let calls = log.calls(&[
            ("Bash", json!({ "command": "cargo test", "description": "Run the tests" })),
            ("Read", json!({ "file_path": "/home/ada/kettle/README.md" })),
            ("Task", json!({ "description": "Check links", "prompt": "Check every link in README.md.", "subagent_type": "general-purpose" })),
        ]);
        log.wait(4);
        log.result(&calls[1], "# Kettle\n\nBoils water. See [the driver](src/driver.rs).");
        log.result(&calls[0], "running 12 tests\ntest result: ok. 12 passed; 0 failed");
        let tip = log.tip();
        log.sidechain(Some("a1b2c3d")).restart();
        log.prompt("Check every link in README.md.");
        log.answer("One link, and the file is there.");
        log.sidechain(None);
        log.result_with(
            &calls[2],
            &json!("One link, and the file is there."),
            &json!({ "agentId": "a1b2c3d", "status": "completed" }),
        );
        assert!(tip.is_some());
        log.answer("All 12 tests pass and the README is right: its one link leads to an existing file.");
        log
    }

    /// A compaction in the middle.
    fn compacted() -> LogBuilder {
        let mut log = LogBuilder::new(0xd003);
        log.cwd = "/home/ada/almanac".into();
        log.wait(2 * 86_400).prompt("Let us plan the almanac's second edition.");
        log.answer("Gladly. What should be new in it?");
        log.wait(50).prompt("Tide tables for the whole coast.");
        log.answer("Then we need harmonic constants for about forty ports.");
        log.wait(500)
            .compact("The second edition gets tide tables; harmonic constants for forty ports are needed.");
        log.wait(5).prompt("Start with the northern ports.");
        log.answer("Twelve ports lie north of the cape; here is the list …");
        log
    }

    /// A client that was killed while writing.
    fn torn() -> LogBuilder {
        let mut log = LogBuilder::new(0xd004);
        log.cwd = "/home/ada/almanac".into();
        log.wait(3 * 86_400).prompt("Rename the chapter on winds.");
        let call = log.call("Edit", &json!({ "file_path": "/home/ada/almanac/winds.md", "old_string": "# Winds", "new_string": "# Winds and weather" }));
        log.result(&call, "The file was updated.");
        log.torn(r#"{"parentUuid":"0000d004-0000-4000-8000-000000000003","isSidechain":false,"type":"assistant","message":{"mod"#);
        log
    }

    /// Run with `RETHREAD_WRITE_DEMO=1` to regenerate the files.
    #[test]
    fn demo_files_match_the_builders() {
        let logs =
            [("redos", redos()), ("parallel", parallel()), ("compacted", compacted()), ("torn", torn())];
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
        for ((name, log), (id, bytes)) in logs.iter().zip(LOGS) {
            assert_eq!(log.session(), id);
            if std::env::var_os("RETHREAD_WRITE_DEMO").is_some() {
                std::fs::write(dir.join(format!("{name}.jsonl")), log.bytes()).expect("written");
            } else {
                assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&log.bytes()), "{name}");
            }
        }
    }
}
