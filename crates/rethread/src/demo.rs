//! The sample library: synthetic logs made with the test builders.

use std::io;
use std::path::{Path, PathBuf};

use rethread_store::{create_private_tree, project_dir_name};
use xxhash_rust::xxh3::Xxh3Default;

use crate::library::{Library, LogSource};

#[cfg(test)]
mod samples;

/// A log of the sample.
struct SampleLog {
    id: &'static str,
    /// The directory in which the session was started.
    cwd: &'static str,
    bytes: &'static [u8],
}

const LOGS: [SampleLog; 5] = [
    SampleLog {
        id: "0000d001-0000-4000-8000-000000000000",
        cwd: "/home/ada/kettle",
        bytes: include_bytes!("../demo/redos.jsonl"),
    },
    SampleLog {
        id: "0000d002-0000-4000-8000-000000000000",
        cwd: "/home/ada/kettle",
        bytes: include_bytes!("../demo/parallel.jsonl"),
    },
    SampleLog {
        id: "0000d003-0000-4000-8000-000000000000",
        cwd: "/home/ada/almanac",
        bytes: include_bytes!("../demo/compacted.jsonl"),
    },
    SampleLog {
        id: "0000d004-0000-4000-8000-000000000000",
        cwd: "/home/ada/almanac",
        bytes: include_bytes!("../demo/torn.jsonl"),
    },
    SampleLog {
        id: "0000d005-0000-4000-8000-000000000000",
        cwd: "/home/ada/kettle",
        bytes: include_bytes!("../demo/working.jsonl"),
    },
];

pub(crate) fn sources() -> Vec<LogSource> {
    let source = |log: &SampleLog| {
        LogSource::from_bytes(log.id, Path::new(&format!("demo/{}.jsonl", log.id)), log.bytes)
    };
    LOGS.iter().map(source).collect()
}

impl Library {
    /// Returns a name for a copy of the sample on disk. It changes with the contents of the sample.
    ///
    /// ```
    /// assert!(rethread::Library::demo_name().starts_with("demo-"));
    /// ```
    pub fn demo_name() -> String {
        let mut hash = Xxh3Default::new();
        for log in &LOGS {
            hash.update(log.id.as_bytes());
            hash.update(log.bytes);
        }
        format!("demo-{:08x}", hash.digest() >> 32)
    }

    /// Writes the sample to a directory, completely or not at all, readable for its owner only; returns whether it was
    /// written. A directory that exists is kept as it is.
    ///
    /// ```
    /// use rethread::Library;
    ///
    /// # let temporary = tempfile::tempdir()?;
    /// # let cache = temporary.path();
    /// let dir = cache.join(Library::demo_name());
    /// assert!(Library::write_demo(&dir)?);
    /// assert_eq!(Library::open([&dir]).ls(&Default::default()).sessions.len(), 5);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn write_demo(dir: &Path) -> io::Result<bool> {
        let path = |log: &SampleLog| {
            let project = Path::new("projects").join(project_dir_name(log.cwd));
            project.join(format!("{}.jsonl", log.id))
        };
        let files: Vec<(PathBuf, &[u8])> = LOGS.iter().map(|log| (path(log), log.bytes)).collect();
        create_private_tree(dir, &files)
    }

    /// Opens a copy of the sample that [`write_demo`](Self::write_demo) has written, with all sessions that were added to it.
    ///
    /// ```
    /// use rethread::Library;
    ///
    /// # let temporary = tempfile::tempdir()?;
    /// # let dir = temporary.path().join("sample");
    /// Library::write_demo(&dir)?;
    /// let library = Library::demo_at(&dir);
    /// assert!(library.is_demo());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn demo_at(dir: &Path) -> Self {
        let cache = dir.parent().unwrap_or(dir);
        Self { is_demo: true, ..Self::builder().root(dir).cache_dir(cache).open() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Run with `RETHREAD_WRITE_DEMO=1` to regenerate the files.
    #[test]
    fn demo_files_match_the_builders() {
        let logs = [
            ("redos", samples::redos()),
            ("parallel", samples::parallel()),
            ("compacted", samples::compacted()),
            ("torn", samples::torn()),
            ("working", samples::working()),
        ];
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("demo");
        for ((name, log), SampleLog { id, cwd, bytes }) in logs.iter().zip(LOGS) {
            assert_eq!((log.session().as_str(), log.cwd.as_str()), (id, cwd));
            if std::env::var_os("RETHREAD_WRITE_DEMO").is_some() {
                std::fs::write(dir.join(format!("{name}.jsonl")), log.bytes()).expect("written");
            } else {
                assert_eq!(String::from_utf8_lossy(bytes), String::from_utf8_lossy(&log.bytes()), "{name}");
            }
        }
    }
}
