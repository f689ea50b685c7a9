//! The corpus of real logs and the recorded answers of real clients, if available.

use std::path::{Path, PathBuf};

/// Returns a directory of `../shared`, next to the workspace; prints a note to stderr if it is missing.
#[expect(clippy::print_stderr, reason = "a skipped test must say that it was")]
pub fn shared(name: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("crates/testkit");
    let dir = workspace.join("../shared").join(name);
    if dir.exists() {
        return Some(dir);
    }
    eprintln!("note: ../shared/{name} is missing, so this test checks nothing");
    None
}

/// Returns all `.jsonl` files under a directory, sorted.
pub fn logs_under(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in std::fs::read_dir(&dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}
