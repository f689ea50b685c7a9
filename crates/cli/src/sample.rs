//! The place of the sample library.
//!
//! Commands that only read use the sample that is built into the program. The first command that needs files writes a
//! copy to the cache directory, and from then on all commands use that copy, so that a clone of a sample session can be
//! listed and read like any other. The name of the copy contains a hash of the sample: a new version of the program does
//! not mix its sample with an old copy.

use std::path::PathBuf;

use rethread::Library;

use crate::cache::cache_dir;
use crate::failure::Failure;
use crate::terminal::Terminal;

/// Opens the sample for reading: the copy if there is one, otherwise the built-in sessions.
pub(crate) fn open() -> Library {
    match directory().filter(|dir| dir.is_dir()) {
        Some(dir) => Library::demo_at(&dir),
        None => Library::demo(),
    }
}

/// Opens the copy of the sample for writing; makes it if necessary.
pub(crate) fn open_writable(terminal: &Terminal) -> Result<Library, Failure> {
    let dir = directory().ok_or_else(|| {
        Failure::new("no cache directory for a copy of the sample sessions").hint("set XDG_CACHE_HOME")
    })?;
    let is_new = Library::write_demo(&dir).map_err(|error| {
        Failure::new(format!("cannot write the sample sessions to {}: {error}", dir.display()))
            .hint("set XDG_CACHE_HOME to a directory that you can write to")
    })?;
    if is_new {
        terminal.print_note(&format!(
            "the sample sessions are now in {}; delete the directory to start again",
            dir.display()
        ));
    }
    Ok(Library::demo_at(&dir))
}

/// Returns the directory of the copy, which need not exist.
fn directory() -> Option<PathBuf> {
    Some(cache_dir()?.join(Library::demo_name()))
}
