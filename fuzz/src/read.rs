//! Reads arbitrary bytes: the joined entries give the bytes back, and every object for a strict parser is an entry.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rethread::internals::log::{EntryContent, Line, read};

fuzz_target!(|bytes: &[u8]| {
    let log = read(bytes);
    let joined: Vec<u8> = log.entries.iter().flat_map(|entry| entry.raw).copied().collect();
    assert_eq!(joined, bytes);
    let mut line = Line::default();
    for entry in &log.entries {
        assert_eq!(entry.parse(&mut line), entry.content == EntryContent::Object);
        for block in &line.blocks {
            let _ = rethread::internals::log::Json::new(block.whole.bytes_in(entry.raw)).get("text");
        }
    }
    // In a single line, an object for a strict parser is an object for us.
    if !bytes.contains(&b'\n')
        && serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(bytes).is_ok()
    {
        assert!(log.entries.len() == 1 && log.entries[0].content == EntryContent::Object);
    }
});
