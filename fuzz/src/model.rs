//! Any bytes: the model stands, every client's choice is made, every path can be read.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use rethread::{Client, Library, Source};

fuzz_target!(|bytes: &[u8]| {
    let library = Library::demo();
    let source = Source::from_bytes("fuzz", Path::new("fuzz.jsonl"), bytes);
    let loaded = library.load(&source).expect("anything can be read");
    let mut tips = None;
    for client in Client::ALL {
        let paths = loaded.tree(client);
        let n = paths.iter().filter(|path| !path.inner).count();
        assert_eq!(*tips.get_or_insert(n), n, "endings do not depend on the client");
        for path in paths.iter().take(8) {
            loaded.show(&path.path);
        }
    }
    library.info(&source).expect("anything can be counted");
    loaded.subagents();
});
