//! Exports arbitrary bytes as a log in every format, and as text in a log, where it must not escape its place.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rethread::internals::render::{Document, DocumentLinks, Format, write_document};
use rethread::{Library, LogSource, TranscriptOptions, TranscriptPath};
use rethread_testkit::{LogBuilder, markdown};
use serde_json::json;

fuzz_target!(|bytes: &[u8]| {
    for format in [Format::Md, Format::Html, Format::Json] {
        export(bytes, format);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut log = LogBuilder::new(1);
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
    let exported = export(&log.bytes(), Format::Md);
    let parsed = markdown::parse_markdown(&exported);
    assert!(parsed.unexpected.is_empty(), "{:?} in {exported}", parsed.unexpected);
    let messages: Vec<_> = parsed.headings.iter().filter(|heading| heading.level == 3).collect();
    let last = messages.iter().rev().take(2).filter(|heading| heading.text.contains(" · #")).count();
    assert!(last == 2, "{exported}");
    let page = export(&log.bytes(), Format::Html);
    let conversation = page.split_once("<main").map_or("", |(_, rest)| rest);
    let conversation = conversation.split_once("</main>").map_or("", |(main, _)| main);
    assert!(conversation.contains("ZZ last answer"));
    for tag in ["<script", "<img src", "<iframe", "<svg", "<style", "<!--", "<form", "<base", "<meta"] {
        assert!(!conversation.contains(tag), "{tag}");
    }
});

fn export(bytes: &[u8], format: Format) -> String {
    let library = Library::demo();
    let source = LogSource::from_bytes("fuzz", Path::new("fuzz.jsonl"), bytes);
    let mut all = Vec::new();
    for n in 1..=4 {
        let options = TranscriptOptions { path: TranscriptPath::Number(n), ..TranscriptOptions::default() };
        let Ok(loaded) = library.transcript(&source, &options) else { break };
        let document = Document { transcript: &loaded.transcript(), links: &DocumentLinks::default(), resume_command: None };
        let picture = |_: &str, _: &[u8]| Ok("images/x.png".to_owned());
        write_document(&mut all, &document, format, &picture).expect("writing to memory cannot fail");
    }
    String::from_utf8(all).expect("an export is UTF-8")
}
