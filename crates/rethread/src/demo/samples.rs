//! The sample sessions, as the test builders make them.

use std::cmp::Ordering;

use rethread_testkit::{LogBuilder, PendingCall};
use serde_json::{Value, json};

/// Two redos: one conversation with three leaves.
pub(super) fn redos() -> LogBuilder {
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
pub(super) fn parallel() -> LogBuilder {
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
pub(super) fn compacted() -> LogBuilder {
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
pub(super) fn torn() -> LogBuilder {
    let mut log = LogBuilder::new(0xd004);
    log.cwd = "/home/ada/almanac".into();
    log.wait(3 * 86_400).prompt("Rename the chapter on winds.");
    let call = log.call("Edit", &json!({ "file_path": "/home/ada/almanac/winds.md", "old_string": "# Winds", "new_string": "# Winds and weather" }));
    log.result(&call, "The file was updated.");
    log.torn(r#"{"parentUuid":"0000d004-0000-4000-8000-000000000003","isSidechain":false,"type":"assistant","message":{"mod"#);
    log
}

const DRIVER: &str = "/home/ada/kettle/src/driver.rs";

/// A working session: questions, a plan, a list of tasks, edits and a failed run.
pub(super) fn working() -> LogBuilder {
    let mut log = LogBuilder::new(0xd005);
    log.cwd = "/home/ada/kettle".into();
    log.git_branch = "fix/power-up".into();
    log.wait(4 * 86_400 + 8 * 3600);
    investigate(&mut log);
    ask_and_plan(&mut log);
    implement(&mut log);
    check_the_broker(&mut log);
    report(&mut log);
    log.raw(
        &json!({ "type": "ai-title", "aiTitle": "Kettle: reject the power-up reading of 85 °C",
            "sessionId": log.session() })
        .to_string(),
    );
    log
}

/// Adds a message with thinking and a tool call.
fn think_and_call(log: &mut LogBuilder, thought: &str, tool: &str, input: &Value) -> PendingCall {
    let id = format!("toolu_think_{tool}");
    let uuids = log.message(&[
        json!({ "type": "thinking", "thinking": thought, "signature": "c2FtcGxl" }),
        json!({ "type": "tool_use", "id": id, "name": tool, "input": input }),
    ]);
    PendingCall { id, uuid: uuids[1].clone() }
}

/// Adds the result of a call that failed.
fn failed(log: &mut LogBuilder, call: &PendingCall, text: &str) {
    log.back_to(&call.uuid);
    let block = json!({ "tool_use_id": call.id, "type": "tool_result", "content": text, "is_error": true });
    log.entry(
        "user",
        json!({ "message": { "role": "user", "content": [block] }, "toolUseResult": format!("Error: {text}"),
            "sourceToolAssistantUUID": call.uuid }),
    );
}

fn investigate(log: &mut LogBuilder) {
    log.prompt("After power-up the kettle sometimes reports 85 °C although the water is cold. Find out why, and make a plan before you change anything.");
    let call = think_and_call(
        log,
        "85 °C is suspicious: it is the reset value of the DS18B20's scratchpad. If the driver reads before the first conversion is finished, it gets exactly this. Look for where the scratchpad is read.",
        "Grep",
        &json!({ "pattern": "read_scratchpad|convert_t", "path": "src", "output_mode": "content", "-n": true }),
    );
    log.wait(1).result_with(
        &call,
        &json!(FOUND),
        &json!({ "mode": "content", "numFiles": 2, "filenames": [], "content": FOUND, "numLines": 4 }),
    );
    let call = log.call("Read", &json!({ "file_path": DRIVER, "offset": 26, "limit": 14 }));
    let numbered: Vec<String> =
        SOURCE.lines().enumerate().map(|(i, line)| format!("{:>6}\t{line}", i + 27)).collect();
    log.result_with(
        &call,
        &json!(numbered.join("\n")),
        &json!({ "type": "text", "file": { "filePath": DRIVER, "content": SOURCE, "numLines": 10,
            "startLine": 27, "totalLines": 36 } }),
    );
}

fn ask_and_plan(log: &mut LogBuilder) {
    let question = "What should `read` do when the sensor still reports its reset value?";
    let questions = json!([{
        "question": question, "header": "85 °C", "multiSelect": false,
        "options": [
            { "label": "Retry once", "description": "Convert again and fail only if the value stays" },
            { "label": "Return an error", "description": "Let the caller decide; no hidden delay" },
            { "label": "Ignore it", "description": "Keep the old behaviour and document it" },
        ],
    }]);
    let call = think_and_call(
        log,
        "Found it: the delay is 75 ms, not 750. But 85 °C is also a valid temperature, so a check has to be careful. Ask what the caller expects.",
        "AskUserQuestion",
        &json!({ "questions": questions }),
    );
    log.wait(40).result_with(
        &call,
        &json!(format!("User has answered your questions: \"{question}\"=\"Retry once\". You can now continue with the user's answers in mind.")),
        &json!({ "questions": questions, "answers": { question: "Retry once" } }),
    );
    let call = log.call("ExitPlanMode", &json!({ "plan": PLAN }));
    log.wait(25).result_with(
        &call,
        &json!("User has approved your plan. You can now start coding. Start with updating your todo list if applicable"),
        &json!({ "plan": PLAN, "isAgent": false }),
    );
}

const TASKS: [(&str, &str); 5] = [
    ("Wait for the whole conversion", "Waiting for the whole conversion"),
    ("Retry the reset value once", "Retrying the reset value once"),
    ("Test a sensor that needs two conversions", "Testing a sensor that needs two conversions"),
    ("Describe the change in the README", "Describing the change in the README"),
    ("Measure the start-up time", "Measuring the start-up time"),
];

/// Adds a list of tasks of which the first `n` are done.
fn todo(log: &mut LogBuilder, n: usize) {
    let task = |(i, (content, active)): (usize, &(&str, &str))| {
        let status = match i.cmp(&n) {
            Ordering::Less => "completed",
            Ordering::Equal => "in_progress",
            Ordering::Greater => "pending",
        };
        json!({ "content": content, "status": status, "activeForm": active })
    };
    let tasks: Vec<Value> = TASKS.iter().enumerate().map(task).collect();
    let call = log.call("TodoWrite", &json!({ "todos": tasks }));
    log.result_with(
        &call,
        &json!("Todos have been modified successfully. Ensure that you continue to use the todo list to track your progress."),
        &json!({ "oldTodos": [], "newTodos": tasks }),
    );
}

fn edit(log: &mut LogBuilder, old: &str, new: &str, start: usize) {
    let call = log.call("Edit", &json!({ "file_path": DRIVER, "old_string": old, "new_string": new }));
    let lines: Vec<String> = old
        .lines()
        .map(|line| format!("-{line}"))
        .chain(new.lines().map(|line| format!("+{line}")))
        .collect();
    log.result_with(
        &call,
        &json!(format!("The file {DRIVER} has been updated successfully.")),
        &json!({ "filePath": DRIVER, "oldString": old, "newString": new, "userModified": false, "replaceAll": false,
            "structuredPatch": [{ "oldStart": start, "oldLines": old.lines().count(), "newStart": start,
                "newLines": new.lines().count(), "lines": lines }] }),
    );
}

fn implement(log: &mut LogBuilder) {
    todo(log, 0);
    edit(
        log,
        "        self.delay.wait_ms(75).await;",
        "        self.delay.wait_ms(CONVERSION_MS).await;",
        32,
    );
    edit(
        log,
        "        Ok(celsius(&raw))",
        "        match celsius(&raw) {\n            RESET_VALUE if !self.has_been_read => self.retry().await,\n            value => {\n                self.has_been_read = true;\n                Ok(value)\n            }\n        }",
        34,
    );
    let test = json!({ "command": "cargo test driver", "description": "Run the driver tests" });
    let call = log.call("Bash", &test);
    failed(log.wait(9), &call, COMPILE_ERROR);
    log.answer("A float constant is no pattern here. I compare the raw bytes instead, which is also exact.");
    edit(
        log,
        "        match celsius(&raw) {\n            RESET_VALUE if !self.has_been_read => self.retry().await,",
        "        match raw {\n            [0x50, 0x05, ..] if !self.has_been_read => self.retry().await,",
        34,
    );
    let call = log.call("Bash", &test);
    log.wait(11).result(&call, TEST_RUN);
    todo(log, 3);
}

fn check_the_broker(log: &mut LogBuilder) {
    log.wait(300).prompt("Good. Does the kettle still publish to the broker? See https://kettle.example/docs/mqtt for the topics.");
    let call = log.call(
        "Bash",
        &json!({ "command": "./target/debug/kettle once -v", "description": "Publish one reading" }),
    );
    log.wait(3).result(&call, BROKER_OUTPUT);
    let call = log.call(
        "SendMessage",
        &json!({ "to": "reviewer", "summary": "Driver is ready for review", "message": "The power-up fix is on fix/power-up. Please look at `Sensor::retry` first." }),
    );
    log.result_with(
        &call,
        &json!("Message sent to reviewer's inbox"),
        &json!({ "success": true, "message": "Message sent to reviewer's inbox", "routing": { "target": "reviewer" } }),
    );
}

fn report(log: &mut LogBuilder) {
    log.answer(REPORT);
}

/// The result of the search.
const FOUND: &str = "\
src/driver.rs:31:        self.bus.convert_t(&self.rom)?;
src/driver.rs:33:        let raw = self.bus.read_scratchpad(&self.rom)?;
src/bus.rs:58:    pub fn convert_t(&mut self, rom: &Rom) -> Result<(), BusError> {
src/bus.rs:66:    pub fn read_scratchpad(&mut self, rom: &Rom) -> Result<[u8; 9], BusError> {";

/// The part of the driver that is read.
const SOURCE: &str = "\
impl Sensor {
    /// Reads the temperature in degrees Celsius.
    pub async fn read(&mut self) -> Result<f32, SensorError> {
        // The conversion takes up to 750 ms at 12 bits.
        self.bus.convert_t(&self.rom)?;
        self.delay.wait_ms(75).await;
        let raw = self.bus.read_scratchpad(&self.rom)?;
        Ok(celsius(&raw))
    }
}";

/// The plan.
const PLAN: &str = "\
# Reject the power-up reading

1. Wait **750 ms** instead of 75 ms in `Sensor::read`.
2. Treat exactly 85.0 °C *before the first good reading* as the reset value:
   - convert again, once
   - return `SensorError::NotReady` if it stays
3. Add a test with a sensor that needs two conversions.

Out of scope: parasitic power, which needs a strong pull-up.";

/// The output of the failed run.
const COMPILE_ERROR: &str = "\
Exit code 101
   Compiling kettle v0.3.0 (/home/ada/kettle)
error[E0658]: use of an unstable float pattern
  --> src/driver.rs:35:13
   |
35 |             RESET_VALUE if !self.has_been_read => self.retry().await,
   |             ^^^^^^^^^^^

error: could not compile `kettle` (lib) due to 1 previous error";

/// The output of the tests.
const TEST_RUN: &str = r"   Compiling kettle v0.3.0 (/home/ada/kettle)
    Finished `test` profile [unoptimized + debuginfo] target(s) in 6.31s
     Running unittests src/lib.rs

running 4 tests
test driver::tests::negative_temperatures_are_read ... ok
test driver::tests::reset_value_is_read_again ... ok
test driver::tests::reset_value_that_stays_is_an_error ... ok
test driver::tests::wrong_checksum_is_an_error ... ok

test result: ok. 4 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.02s";

/// The output with two invented credentials.
const BROKER_OUTPUT: &str = "\
connecting to mqtt://broker.kettle.example:1883
MQTT_PASSWORD=Zk8-kettle-vQ2mT7x
GITHUB_TOKEN=ghp_7hIsT0k3nB3l0ngsT0N0b0dyAtA11s4mpL3X
published kettle/1/temperature 21.4";

/// The last answer.
const REPORT: &str = "\
## The cause

The driver waited **75 ms** for a conversion that takes up to *750 ms*, and then read the sensor's reset value: `0x0550`, which is 85 °C.

## The fix

- `Sensor::read` waits for the whole conversion.
- The reset value counts as *not ready*:
  - before the first good reading it is read again, once
  - afterwards 85 °C is a temperature like any other
- The retry is a few lines:

```rust
/// Converts again; fails if the sensor still reports its reset value.
async fn retry(&mut self) -> Result<f32, SensorError> {
    self.bus.convert_t(&self.rom)?;
    self.delay.wait_ms(CONVERSION_MS).await;
    match self.bus.read_scratchpad(&self.rom)? {
        [0x50, 0x05, ..] => Err(SensorError::NotReady),
        raw => Ok(celsius(&raw)),
    }
}
```

| resolution | conversion | before | now |
|---|---:|---|---|
| 9 bits | 94 ms | wrong | correct |
| 12 bits | 750 ms | wrong | correct |

A reading was published to the broker, see [the list of topics](https://kettle.example/docs/mqtt). Note that `-v` prints the **password of the broker and a token**; do not paste that output anywhere.

Two tasks are left: the README and the start-up time.";
