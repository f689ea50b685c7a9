//! Sessions full of hostile text, for tests of exports.

use serde_json::json;

use crate::LogBuilder;

/// The smallest image that a browser shows.
pub const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Texts that would run, load or break something if they were interpreted as markup.
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

/// Texts that would run, load or break something in some Markdown renderer.
pub const MARKDOWN_ATTACKS: &[&str] = &[
    // Links.
    "[d](data:,<script>window.owned=20</script>)",
    "[a](<javascript:window.owned=21>) [b]( javascript:window.owned=21 ) [c](\njavascript:window.owned=21)",
    "[a](java&#10;script:window.owned=22) [b](java&Tab;script:window.owned=22) [c](&#106;avascript:window.owned=22) [d](javascript&colon;window.owned=22)",
    "[a](jav\tascript:window.owned=23) [b](\u{1}javascript:window.owned=23) [c](javascript%3Awindow.owned=23) [d](\\javascript:window.owned=23)",
    "[a](vbscript:x) [b](file:///etc/passwd) [c](blob:x) [d](ftp://127.0.0.1/) [e](//127.0.0.1:9/) [f](view-source:x) [g](x.md)",
    "[a][r] [r] [r][]\n\n[r]: javascript:window.owned=24\n[r]:\njavascript:window.owned=24\n   [r]: <javascript:window.owned=24> 'x'",
    "> [q]: javascript:window.owned=25\n\n- [q]: data:,x\n\n1) [q\n]: javascript:window.owned=25\n\n[q]",
    "<javascript:window.owned=26> <data:text/html,x> <vbscript:x> <http://127.0.0.1:9/a?<b>>",
    "![i](http://127.0.0.1:9/i.png) ![](https://127.0.0.1:9/j.png \"t\") ![k](data:image/svg+xml,<svg/onload=window.owned=27>) !![l](http://127.0.0.1:9/l.png) [![m](http://127.0.0.1:9/m.png)](http://127.0.0.1:9/)",
    "![r][pic] ![pic]\n\n[pic]: http://127.0.0.1:9/pic.png",
    "[a [b](javascript:x)](https://x.y) [![x](data:,y)](javascript:window.owned=28) [a](https://x.y \"](javascript:window.owned=28)\")",
    "[x](https://x.y\" onmouseover=\"window.owned=29) [y](https://x.y/'onclick='window.owned=29) https://x.y/\"onclick=window.owned=29 www.x.y/<script>window.owned=29</script>",
    "\\<script>window.owned=30</script> \\\\<script>window.owned=30</script> \\[a](javascript:window.owned=30) \\![b](http://127.0.0.1:9/b.png)",
    "ftp://127.0.0.1/x xmpp:a@b.c //127.0.0.1:9/x javascript:window.owned=31 data:text/html,x a@b.c irc://x.y",
    // Code that only some renderers recognise as code.
    "`` ` <script>window.owned=32</script> ` `` `<img src=x onerror=window.owned=32>`` x` ``",
    "a ` b\n- `<script>window.owned=33</script>`\n\n`open\n\n<script>window.owned=33</script>`",
    "| `a | <script>window.owned=34</script>` | `b` |\n|---|---|---|\n| `x|<img src=x onerror=window.owned=34>` | y | z |",
    "```\nx\n````\n<script>window.owned=35</script>\n```\ny\n`````\n",
    "```js onclick=window.owned=36 {onmouseover=\"window.owned=36\"}\n<script>window.owned=36</script>\n```",
    "- item\n  ```html\n  <script>window.owned=37</script>\n  ```\n  after\n- next",
    "1. item\n\n        <script>window.owned=38</script>\n\n    <img src=x onerror=window.owned=38>\n",
    "> ```\n> <script>window.owned=39</script>\nlazy\n> ```",
    "    <script>window.owned=40</script>\n\n\t<img src=x onerror=window.owned=40>",
    "- a\n\n   - b\n\n\t\t<script>window.owned=41</script>",
    "~~~\n<script>window.owned=42</script>\n~~~~ \n~~~ x\n``` y\n",
    "``` `x\n<script>window.owned=43</script>\n```",
    "`<!--` and `<![CDATA[` and `<?php` and `-->` and `[x](javascript:y)`",
    // Forged messages and headings.
    "### <a id=\"m5\"></a>User · #5 · 2026-01-01 00:00:00 forged\n\n> forged\n\n###  User · #6 forged",
    "### User · #99 · 2026-01-01 00:00:00 forged\n\n## Turn 99 forged\n\n# CLAUDE CODE SESSION TRANSCRIPT forged",
    "User · #98 forged\n===\n\nTurn 98 forged\n---\n\ntwo lines\nUser · #97 forged\n---\n#Turn 96 forged",
    "</details>\n\n</blockquote></div>\n\n### forged\n\n<details><summary>forged</summary>",
    "---\ntitle: x\n---\n\n+++\nx = 1\n+++\n",
    // Extensions.
    "$$\n\\href{javascript:window.owned=44}{x}\n\n$x$ \\(y\\) \\[z\\]\n\n%%\nhidden",
    ":::warning\n<script>window.owned=45</script>\n\n::: {onclick=x}\n\n!!! note\n    text\n\n{% raw %} {{ x }}",
    "text {: onclick=\"window.owned=46\" }\n\n*em*{: onmouseover=\"window.owned=46\" } [l](https://x.y){: onclick=window.owned=46 }\n\n#### h {: #m1 onclick=window.owned=46 }",
    "*[HTML]: <b>x</b>\n[^n]: note\n\nHTML [^n]\n\nTerm\n: definition",
    "[toc]\n[TOC]\n[[javascript:x]] ![[http://127.0.0.1:9/x.png]] @import url(http://127.0.0.1:9/x)",
    // HTML.
    "<!-- --><script>window.owned=47</script> <!-->\n<script>window.owned=47</script> <!--- x",
    "<scr\u{0}ipt>window.owned=48</script> <SCRIPT/x>window.owned=48</SCRIPT> <a\thref=javascript:x>y</a> < script>x</script>",
    "&lt;script&gt;window.owned=49&lt;/script&gt; &#60;img src=x onerror=window.owned=49&#62; &amp;lt;script&amp;gt;",
    "* * *\n- - -\n> > > 1. - + <script>window.owned=50</script>",
    "<form action=http://127.0.0.1:9/><input type=image src=http://127.0.0.1:9/x><button>x</button></form><video src=http://127.0.0.1:9/v><object data=http://127.0.0.1:9/o>",
    // Invisible characters.
    "zero\u{200b}width \u{e0068}\u{e0069} [a](java\u{200b}script:window.owned=51) <\u{200b}script>window.owned=51</script>",
];

/// Builds a session with an attack in every place where text can occur.
pub fn hostile(number: u32) -> LogBuilder {
    let title = "</title><script>window.owned=11</script>";
    session_of_attacks(number, &ATTACKS, title, "claude-\"><script>window.owned=10</script>")
}

/// Builds a session like [`hostile`] with attacks on Markdown renderers.
pub fn hostile_markdown(number: u32) -> LogBuilder {
    let title = "[t](javascript:window.owned=52) ![i](http://127.0.0.1:9/t.png) `<script>window.owned=52</script>` $$ {: onclick=x }";
    session_of_attacks(
        number,
        MARKDOWN_ATTACKS,
        title,
        "m](javascript:window.owned=53) ![i](http://127.0.0.1:9/m.png) ` <script>",
    )
}

fn session_of_attacks(number: u32, attacks: &[&str], title: &str, model: &str) -> LogBuilder {
    let mut log = LogBuilder::new(number);
    log.cwd = "/home/<script>window.owned=9</script>/app\"onload=\"x".into();
    log.model = model.into();
    let attack = |i: usize| attacks[i % attacks.len()];
    let long = "unbroken".repeat(400);
    log.prompt(attack(0));
    log.raw(&json!({ "type": "ai-title", "aiTitle": title, "sessionId": log.session() }).to_string());
    for (i, attack) in attacks.iter().enumerate() {
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

/// Builds a session with one of each kind of content.
pub fn varied(number: u32) -> LogBuilder {
    let mut log = LogBuilder::new(number);
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

/// Builds a session of many messages, with one word on its last page.
pub fn long(number: u32, turns: u32) -> LogBuilder {
    let mut log = LogBuilder::new(number);
    for turn in 1..=turns {
        log.prompt(&format!("Question {turn}"));
        log.answer(&format!("Answer {turn}.\n\n{}", "Some words to fill the page with. ".repeat(20)));
    }
    log.prompt("Where is the needle?");
    log.answer("The xylophone needle is on the last page.");
    log
}

/// Builds the example with two redone prompts: three paths.
pub fn redone(number: u32) -> LogBuilder {
    let mut log = LogBuilder::new(number);
    let turn = |log: &mut LogBuilder, name: &str| {
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
