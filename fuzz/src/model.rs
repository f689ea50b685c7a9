//! Reads arbitrary bytes as a log: the model is built, every client resumes it, every path can be read, and a repair
//! is consistent.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rethread::internals::render::PreviewDocument;
use rethread::{CheckOptions, Client, ClientChoice, Library, LogSource};

fuzz_target!(|bytes: &[u8]| {
    let library = Library::demo();
    let source = LogSource::from_bytes("fuzz", Path::new("fuzz.jsonl"), bytes);
    let loaded = library.load(&source).expect("anything can be read");
    // A branch of notes is an additional path for the clients that would resume it.
    let tips = loaded.session.tree.tips().len();
    for client in Client::ALL {
        let preview = loaded.preview(client, "next");
        let preview = serde_json::to_string(&PreviewDocument::from(&preview)).expect("valid JSON");
        serde_json::from_str::<serde_json::Value>(&preview).expect("one document");
        let paths = loaded.tree(client);
        assert!((tips..=tips + 1).contains(&paths.len()), "{} paths of {tips} endings", paths.len());
        for path in paths.iter().take(8) {
            loaded.reader().items(path.path.step);
        }
    }
    let options = CheckOptions::new().clients(ClientChoice::All);
    library.check(&source, &options).expect("anything can be checked");
    let repaired = rethread::internals::edit::repair(bytes);
    assert!(!repaired.changes.is_empty() || repaired.reordered || repaired.bytes == bytes);
    library.info(&source).expect("anything can be counted");
    loaded.subagents();
});
