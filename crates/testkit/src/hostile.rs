//! Sessions full of what a document must withstand.

use serde_json::json;

use crate::Log;

/// The smallest picture that a browser shows.
pub const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Texts that would run, load or break something if they were taken for markup.
pub const ATTACKS: [&str; 19] = [
    "<script>window.owned = 1</script>",
    "<img src=x onerror=\"window.owned = 2\">",
    "[click](javascript:window.owned=3) and [this](JaVaScRiPt:window.owned=3)",
    "<svg onload=\"window.owned = 4\"><script>window.owned = 4</script></svg>",
    "![remote](http://127.0.0.1:9/track.png) and <http://127.0.0.1:9/>",
    "</script></div></details></article></main><h1 id=\"main\">broken out</h1>",
    "<!-- everything behind this is gone",
    "```\nan open fence ```` and more `````` than three\n~~~",
    "<iframe src=\"http://127.0.0.1:9/\"></iframe><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "<style>* { display: none }</style><base href=\"http://127.0.0.1:9/\"><meta http-equiv=refresh content=0>",
    "\u{202e}txet desrever\u{202c} \u{2066}isolated \u{feff}\u{200f}",
    "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7} \u{8}\u{0}\r\u{9b}31m",
    "<details open><summary>forged</summary>\n\n</details>\n\n</details>\n\n# forged heading\n\n---\n",
    "<a href=\"data:text/html,<script>window.owned=5</script>\">x</a> [y](data:text/html;base64,eA==)",
    "<?php ?> <![CDATA[ x ]]> &lt;b&gt; &#60;script&#62; &amp;amp; \" ' onmouseover=window.owned=6 x='",
    "| a | b |\n|---|---|\n| <script>window.owned=7</script> | `</code><script>window.owned=8</script>` |",
    "\t<!-- behind a tab",
    "a <![CDATA[] > <!-- ]]> x[0]",
    "[x]: http://127.0.0.1:9/ \"t\"\n[open]: javascript:window.owned=13\n\n[^1]: a footnote",
];

/// A session in which every text is an attack, in every place where a text can stand.
pub fn hostile(number: u32) -> Log {
    let mut log = Log::new(number);
    log.cwd = "/home/<script>window.owned=9</script>/app\"onload=\"x".into();
    log.model = "claude-\"><script>window.owned=10</script>".into();
    let attack = |i: usize| ATTACKS[i % ATTACKS.len()];
    let long = "unbroken".repeat(400);
    log.prompt(attack(0));
    log.raw(&json!({ "type": "ai-title", "aiTitle": "</title><script>window.owned=11</script>", "sessionId": log.session() }).to_string());
    for (i, attack) in ATTACKS.iter().enumerate() {
        log.prompt(&format!("{attack}\n\nbehind prompt {i}"));
        log.message(&[
            json!({ "type": "thinking", "thinking": format!("{attack}\n\nbehind thinking {i}"), "signature": "x" }),
            json!({ "type": "text", "text": format!("{attack}\n\nbehind answer {i}") }),
        ]);
        let calls = log.calls(&[
            ("Bash", json!({ "command": attack, "description": attack })),
            ("Edit", json!({ "file_path": attack, "old_string": attack, "new_string": format!("{attack}\n{attack}") })),
            ("Write", json!({ "file_path": format!("/x/{attack}.html"), "content": attack })),
            ("TodoWrite", json!({ "todos": [{ "content": attack, "status": "in_progress", "activeForm": attack }] })),
            (*attack, json!({ "key": attack, *attack: 1 })),
        ]);
        for (n, call) in calls.iter().enumerate() {
            let content = json!([{ "type": "text", "text": format!("{attack} behind result {i}.{n}") },
                { "type": "image", "source": { "type": "base64", "media_type": "image/svg+xml", "data": "PHN2Zz4=" } },
                { "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": format!("{}\" onerror=\"window.owned=12", PIXEL) } },
                { "type": "tool_reference", "tool_name": attack }]);
            log.result_with(
                call,
                &content,
                &json!({ "structuredPatch": [{ "oldStart": 1, "oldLines": 1, "newStart": 1,
                "newLines": 1, "lines": [format!("-{attack}"), format!("+{attack}")] }] }),
            );
        }
        log.system("informational", attack);
        log.prompt(&format!("<command-name>/{attack}</command-name><command-args>{attack}</command-args>"));
    }
    log.answer(&format!(
        "{long}\n\n    {long}\n\n`{long}`\n\n| {long} | b |\n|---|---|\n| c | {long} |\n\nthe very end"
    ));
    log
}

/// A session that shows every sort of thing once.
pub fn varied(number: u32) -> Log {
    let mut log = Log::new(number);
    log.prompt("Add a retry to the fetcher, please.\nKeep it small.");
    log.message(&[
        json!({ "type": "thinking", "thinking": "The fetcher has **one** call site.", "signature": "x" }),
        json!({ "type": "text", "text": "I will look first.\n\n| file | lines |\n|---|---|\n| fetch.rs | 40 |\n\n```rust\nfn main() { println!(\"hi\"); } // a comment\n```\n" }),
    ]);
    let calls = log.calls(&[
        ("Bash", json!({ "command": "cargo test", "description": "Run the tests" })),
        ("Read", json!({ "file_path": "/home/user/app/src/fetch.rs" })),
    ]);
    log.result(&calls[1], "fn fetch() {}");
    log.result(&calls[0], "test result: ok. 3 passed");
    let edit = log.call("Edit", &json!({ "file_path": "/home/user/app/src/fetch.rs", "old_string": "one\ntwo\nthree", "new_string": "one\n2\nthree" }));
    log.result(&edit, "The file has been updated.");
    let todo = log.call(
        "TodoWrite",
        &json!({ "todos": [
        { "content": "Write the retry", "status": "completed", "activeForm": "x" },
        { "content": "Test it", "status": "in_progress", "activeForm": "x" },
        { "content": "Document it", "status": "pending", "activeForm": "x" }] }),
    );
    log.result(&todo, "Todos have been modified.");
    let task = log.call("Task", &json!({ "description": "Check the docs", "prompt": "Read all the docs.", "subagent_type": "general-purpose" }));
    let tip = log.tip();
    log.sidechain(Some("a1b2c3")).restart();
    log.prompt("Read all the docs.");
    log.answer("I have read all the docs; nested words.");
    log.sidechain(None).back_to(&tip.unwrap_or_default());
    log.result(&task, "They are fine.");
    let shot = log.call("Screenshot", &json!({}));
    log.result_with(
        &shot,
        &json!([{ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": PIXEL } }]),
        &json!({}),
    );
    log.compact("The retry is written.");
    log.prompt("And now the words after the compaction?");
    log.answer("They are here.");
    log
}

/// A session of many messages, with one word on the last of its pages.
pub fn long(number: u32, turns: u32) -> Log {
    let mut log = Log::new(number);
    for turn in 1..=turns {
        log.prompt(&format!("Question {turn}"));
        log.answer(&format!("Answer {turn}.\n\n{}", "Some words to fill the page with. ".repeat(20)));
    }
    log.prompt("Where is the needle?");
    log.answer("The xylophone needle is on the last page.");
    log
}

/// The example with two redos: three paths.
pub fn redone(number: u32) -> Log {
    let mut log = Log::new(number);
    let turn = |log: &mut Log, name: &str| {
        log.prompt(&format!("Turn {name}"));
        log.answer(&format!("Answer to {name}"))
    };
    turn(&mut log, "1");
    turn(&mut log, "2");
    let three = turn(&mut log, "3");
    turn(&mut log, "4 original");
    turn(&mut log, "5 original");
    log.back_to(&three);
    turn(&mut log, "4 redo");
    turn(&mut log, "5 after redo");
    let six = turn(&mut log, "6");
    turn(&mut log, "7 first");
    log.back_to(&six);
    turn(&mut log, "7 redo");
    log
}
