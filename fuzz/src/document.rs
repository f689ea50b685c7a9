//! Any bytes: every format is written of them as a log, and as a text in a log they stay in their place.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use rethread::model::{Layout, Passage};
use rethread::render::{Document, Format, Head, Part, Shown, Side, write_document};
use rethread::{Client, Library, Source};
use rethread_testkit::Log;
use serde_json::json;

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Md, Format::Html, Format::Json] {
        written(bytes, format);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut log = Log::new(1);
    log.prompt(&text);
    log.message(&[
        json!({ "type": "thinking", "thinking": text, "signature": "x" }),
        json!({ "type": "text", "text": text }),
    ]);
    let call = log.call("Task", &json!({ "prompt": text, "description": text, "other": text }));
    log.result(&call, &text);
    log.compact(&text);
    log.prompt("ZZ last prompt");
    log.answer("ZZ last answer");
    let markdown = written(&log.bytes(), Format::Md);
    assert!(last_headings(&markdown).is_some(), "{markdown}");
    let page = written(&log.bytes(), Format::Html);
    let conversation = page.split_once("<main").map_or("", |(_, rest)| rest);
    let conversation = conversation.split_once("</main>").map_or("", |(main, _)| main);
    assert!(conversation.contains("ZZ last answer"));
    for tag in ["<script", "<img src", "<iframe", "<svg", "<style", "<!--", "<form", "<base", "<meta"] {
        assert!(!conversation.contains(tag), "{tag}");
    }
});

fn written(bytes: &[u8], format: Format) -> String {
    let library = Library::demo();
    let source = Source::from_bytes("fuzz", Path::new("fuzz.jsonl"), bytes);
    let loaded = library.load(&source).expect("anything can be read");
    let layout = Layout::new(&loaded.session);
    let mut all = Vec::new();
    for path in loaded.tree(Client::NEWEST).iter().take(4) {
        let items = Passage::to(&loaded.session, &layout, &loaded, path.path.step, None);
        let parts = [Part { session: "fuzz", prefix: String::new(), items, side: Side::default() }];
        let head = Head { session: "fuzz".into(), path: (path.n, 1), ..Head::default() };
        let shown = Shown::default();
        let document =
            Document { head: &head, parts: &parts, agents: &[], pictures: true, thinking: true, shown };
        let picture = |_: &str, _: &[u8]| Ok("images/x.png".to_owned());
        write_document(&mut all, &document, format, &picture).expect("memory takes everything");
    }
    String::from_utf8(all).expect("what is written is text")
}

/// Finds the last two messages as headings that stand in nothing else.
fn last_headings(markdown: &str) -> Option<()> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut depth = 0;
    let mut headings = Vec::new();
    let mut html_depth = 0i64;
    for event in Parser::new_ext(markdown, options) {
        match event {
            Event::Start(Tag::Heading { .. }) => {
                headings.push((depth, html_depth, String::new()));
                depth += 1;
            }
            Event::End(TagEnd::Heading(_)) => depth -= 1,
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Html(html) | Event::InlineHtml(html) => {
                html_depth += html.matches("<details").count() as i64 - html.matches("</details>").count() as i64;
            }
            Event::Text(text) => {
                if let Some((_, _, words)) = headings.last_mut() {
                    words.push_str(&text);
                }
            }
            _ => {}
        }
    }
    let mut last = headings.iter().rev().filter(|(_, _, words)| words.contains(" · #"));
    let free = |heading: &(i32, i64, String)| heading.0 == 0 && heading.1 == 0;
    (last.next().is_some_and(free) && last.next().is_some_and(free)).then_some(())
}
