//! A temporary config directory for one test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::LogBuilder;

/// A temporary config directory; nothing outside it is touched.
#[derive(Debug)]
pub struct Home {
    dir: tempfile::TempDir,
}

impl Default for Home {
    fn default() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }
}

impl Home {
    /// Returns the config directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a log into the project of `cwd` and returns its path.
    pub fn add(&self, cwd: &str, log: &LogBuilder) -> PathBuf {
        let dir: String = cwd.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        self.write(&format!("projects/{dir}/{}.jsonl", log.session()), &log.bytes())
    }

    /// Writes a file below the config directory and returns its path.
    pub fn write(&self, path: &str, bytes: &[u8]) -> PathBuf {
        let path = self.dir.path().join(path);
        fs::create_dir_all(path.parent().expect("below the directory")).expect("directories");
        fs::write(&path, bytes).expect("the file");
        path
    }
}
