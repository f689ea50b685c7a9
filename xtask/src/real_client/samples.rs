//! Chooses the sessions that the clients are run on: the same ones on every machine.
//!
//! They come from `../shared`: `oracle/sessions` has config directories that real clients wrote, `corpus` has logs of
//! real work, `oracle/cases` has edited logs and the requests of clients for them. Without it, `rethread-testkit`
//! builds a few.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use rethread_testkit::{Home, hostile, logs_under};

use super::run::is_uuid;
use crate::workspace;

const PER_CONFIG_DIR: usize = 5;
const FROM_CORPUS: usize = 30;
/// The maximum size of a log; a client takes too long for larger ones.
const MAX_BYTES: u64 = 6 << 20;

/// A log with its name for output.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

/// The selection of samples.
pub(crate) struct SampleFilter {
    pub(crate) all: bool,
    pub(crate) filter: Option<String>,
}

impl SampleFilter {
    /// Returns `n` samples, evenly spread, or all matching ones if there is a filter.
    fn take(&self, samples: Vec<Sample>, n: usize) -> Vec<Sample> {
        match &self.filter {
            Some(filter) => {
                samples.into_iter().filter(|sample| sample.name.contains(filter.as_str())).collect()
            }
            None if self.all || samples.len() <= n => samples,
            None => {
                let count = samples.len();
                // Includes the first and the last.
                (0..n).map(|i| samples[i * (count - 1) / (n - 1)].clone()).collect()
            }
        }
    }
}

/// Returns the sessions to preview.
pub(crate) fn sessions(choice: &SampleFilter, home: &Home) -> Result<Vec<Sample>> {
    let Some(shared) = shared() else {
        println!("note: ../shared is missing, so the clients are run on a few generated sessions only");
        let cwd = "/home/user/app";
        let logs =
            [("redone", hostile::redone(1)), ("varied", hostile::varied(2)), ("long", hostile::long(3, 60))];
        let samples =
            logs.map(|(name, log)| Sample { name: format!("testkit/{name}"), path: home.add(cwd, &log) });
        return Ok(choice.take(samples.into(), usize::MAX));
    };
    let logs = |dir: &str| -> Vec<Sample> {
        let dir = shared.join(dir);
        let logs = if dir.is_dir() { logs_under(&dir) } else { Vec::new() };
        let main_logs = logs.into_iter().filter(|path| is_main(path));
        main_logs.map(|path| Sample { name: name(&shared, &path), path }).collect()
    };
    let mut samples = Vec::new();
    let sessions: Vec<Sample> =
        logs("oracle/sessions").into_iter().filter(|sample| in_project(&sample.path)).collect();
    for group in sessions.chunk_by(|a, b| config_dir(&a.path) == config_dir(&b.path)) {
        samples.extend(choice.take(group.to_vec(), PER_CONFIG_DIR));
    }
    let mut corpus = Vec::new();
    for sample in logs("corpus") {
        let bytes = fs::metadata(&sample.path)?.len();
        if bytes <= MAX_BYTES && !sample.name.ends_with("expected.jsonl") {
            corpus.push((version(&sample.path)?, bytes, sample));
        }
    }
    // Sorted by version and then by size, so that an even spread covers both.
    corpus.sort_by(|a, b| (&a.0, a.1, &a.2.name).cmp(&(&b.0, b.1, &b.2.name)));
    samples.extend(choice.take(corpus.into_iter().map(|(_, _, sample)| sample).collect(), FROM_CORPUS));
    Ok(samples)
}

/// Returns the edited logs of these versions.
pub(crate) fn cases<'a>(choice: &SampleFilter, versions: impl Iterator<Item = &'a str>) -> Vec<Sample> {
    let Some(shared) = shared() else {
        println!("note: ../shared is missing, so there are no cases");
        return Vec::new();
    };
    let dirs = versions.map(|version| shared.join("oracle/cases").join(version)).filter(|dir| dir.is_dir());
    let cases = dirs.flat_map(|dir| logs_under(&dir));
    choice.take(cases.map(|path| Sample { name: name(&shared, &path), path }).collect(), usize::MAX)
}

fn shared() -> Option<PathBuf> {
    let shared = workspace().join("../shared");
    shared.is_dir().then_some(shared)
}

fn name(shared: &Path, path: &Path) -> String {
    path.strip_prefix(shared).unwrap_or(path).display().to_string()
}

/// Returns whether a log is a session and not that of a subagent.
fn is_main(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    !name.starts_with("agent-") && !path.components().any(|part| part.as_os_str() == "subagents")
}

/// Returns whether a log is where a client searches for sessions: `projects/<project>/<id>.jsonl`.
fn in_project(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| is_uuid(&stem.to_string_lossy()))
        && path.ancestors().nth(2).is_some_and(|dir| dir.ends_with("projects"))
}

fn config_dir(path: &Path) -> Option<&Path> {
    path.ancestors().nth(3)
}

/// Returns the first version that a log names, as numbers.
fn version(path: &Path) -> Result<Vec<u32>> {
    let text = fs::read(path)?;
    let text = String::from_utf8_lossy(&text);
    let version = text.split("\"version\":\"").nth(1).and_then(|after| after.split('"').next());
    Ok(version.unwrap_or_default().split('.').filter_map(|number| number.parse().ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_spread_evenly_and_a_filter_returns_all_matches() {
        let samples: Vec<_> =
            (0..100).map(|n| Sample { name: format!("s{n}"), path: PathBuf::new() }).collect();
        let names = |all, filter: Option<&str>, n| -> Vec<String> {
            let choice = SampleFilter { all, filter: filter.map(str::to_owned) };
            choice.take(samples.clone(), n).into_iter().map(|sample| sample.name).collect()
        };
        assert_eq!(names(false, None, 4), ["s0", "s33", "s66", "s99"]);
        assert_eq!(names(true, None, 4).len(), 100);
        assert_eq!(names(false, Some("s9"), 4).len(), 11);
    }

    #[test]
    fn subagent_logs_are_not_sessions() {
        assert!(is_main(Path::new("c/projects/p/0.jsonl")));
        assert!(!is_main(Path::new("c/projects/p/agent-1.jsonl")));
        assert!(!is_main(Path::new("c/projects/p/0/subagents/x.jsonl")));
        let id = "0a1b2c3d-0000-4000-8000-00000000000f";
        assert!(in_project(Path::new(&format!("c/projects/p/{id}.jsonl"))));
        assert!(!in_project(Path::new("c/history.jsonl")));
    }
}
