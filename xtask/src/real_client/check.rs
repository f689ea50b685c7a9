//! Compares the predictions of `rethread` with the behaviour of a client.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;

use super::compare::{SentRequest, parse};
use super::install::InstalledClient;
use super::run::ClientHome;
use super::samples::Sample;

/// The prompt for a resumed session. No log contains it already.
pub(crate) const PROMPT: &str = "Where did we stop? (asked by cargo xtask real-client)";

/// The kind of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Check {
    /// A client sends what `rethread preview` predicts.
    Preview,
    /// Every client accepts the output of `rethread repair` and sends it as `preview` predicts.
    Repair,
    /// Every client accepts the output of `rethread clone` and sends it as `preview` predicts.
    Clone,
    /// Every client accepts the output of `rethread clean` and sends it as `preview` predicts.
    Clean,
    /// A client sends what was recorded of it: a check of this program, not of `rethread`.
    Recorded,
}

/// A check of one log with all clients that it concerns.
pub(crate) struct CheckJob<'a> {
    pub(crate) check: Check,
    pub(crate) sample: &'a Sample,
    pub(crate) clients: Vec<&'a InstalledClient>,
    /// The arguments of `clone` or `clean`.
    pub(crate) recipe: &'a [&'a str],
}

/// The recipes for clones: each single one, each preset, and some combinations.
pub(crate) const RECIPES: &[&[&str]] = &[
    &[],
    &["--strip-tools"],
    &["--compress=2"],
    &["--keep-ids"],
    &["--until", "4"],
    &["--extreme"],
    &["--path", "1"],
    &["--light"],
    &["--shorten-tools", "80", "--strip-thinking"],
    &["--compress=1", "--strip-tools=Bash"],
    &["--standard"],
    &["--strip-thinking"],
    &["--heavy", "--compress=5"],
    &["--keep-tools", "1"],
    &["--path", "1", "--strip-tools", "--strip-thinking"],
    &["--until", "7", "--keep-ids"],
    &["--heavy"],
];
/// The arguments for cleaned sessions that can be resumed.
pub(crate) const CLEANED: &[&[&str]] =
    &[&["--level", "light", "--redact"], &["--level", "standard", "--redact", "--anonymise"]];
/// The number of recipes that are tried on each log.
pub(crate) const RECIPES_EACH: usize = 4;

/// Runs all jobs, `n_threads` at a time, and prints each difference; returns the number of differences.
pub(crate) fn run(jobs: &[CheckJob<'_>], n_threads: usize, rethread: &Path) -> usize {
    let next = AtomicUsize::new(0);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    job.run(rethread, &tally);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_default();
    tally.print();
    tally.counts.values().map(|count| count.different).sum()
}

impl CheckJob<'_> {
    fn run(&self, rethread: &Path, tally: &Mutex<Tally>) {
        let repaired = match self.check {
            Check::Repair => self.repair(rethread),
            Check::Clone => self.make_clone(rethread),
            Check::Clean => self.clean(rethread),
            Check::Preview | Check::Recorded => Ok(None),
        };
        for client in &self.clients {
            let started = Instant::now();
            let difference = match (&repaired, self.check) {
                (Err(error), _) => Ok(Some(format!("{error:#}"))),
                (Ok(repaired), Check::Repair) => self.resume_repaired(repaired.as_ref(), rethread, client),
                (Ok(Some((_, output))), Check::Clone | Check::Clean) => {
                    self.resume_output(output, rethread, client)
                }
                // There is no such clone: the session is empty, or it has no such path.
                (Ok(None), Check::Clone | Check::Clean) => Ok(None),
                (Ok(_), Check::Preview) => self.preview(rethread, client),
                (Ok(_), Check::Recorded) => self.compare_recorded(client),
            };
            // A failed run counts as a difference.
            let difference = difference.unwrap_or_else(|error| Some(format!("{error:#}")));
            if let Some(difference) = &difference {
                let recipe = self.recipe.join(" ");
                println!(
                    "{} {} {} {recipe}: {difference}",
                    client.version,
                    self.check.name(),
                    self.sample.name
                );
            }
            if let Ok(mut tally) = tally.lock() {
                tally.add(self.check, &client.version, difference.is_none(), started.elapsed());
            }
        }
    }

    fn preview(&self, rethread: &Path, client: &InstalledClient) -> Result<Option<String>> {
        let home = ClientHome::of(&self.sample.path)?;
        let predicted = home.preview(rethread, &client.version, PROMPT)?;
        Ok(predicted.difference_from(&home.resume(client, PROMPT)?))
    }

    /// Repairs the log; the new session is in the returned home.
    fn repair(&self, rethread: &Path) -> Result<Option<(ClientHome, PathBuf)>> {
        let home = ClientHome::of(&self.sample.path)?;
        Ok(home.repair(rethread)?.map(|output| (home, output)))
    }

    /// Clones the log; the clone is in the returned home.
    fn make_clone(&self, rethread: &Path) -> Result<Option<(ClientHome, PathBuf)>> {
        let home = ClientHome::of(&self.sample.path)?;
        Ok(home.make_clone(rethread, self.recipe)?.map(|output| (home, output)))
    }

    /// Cleans a copy of the log.
    fn clean(&self, rethread: &Path) -> Result<Option<(ClientHome, PathBuf)>> {
        let home = ClientHome::of(&self.sample.path)?;
        let cleaned = home.clean(rethread, self.recipe)?;
        Ok(Some((home, cleaned)))
    }

    fn resume_output(
        &self,
        output: &Path,
        rethread: &Path,
        client: &InstalledClient,
    ) -> Result<Option<String>> {
        let home = ClientHome::of(output)?;
        let predicted = home.preview(rethread, &client.version, PROMPT)?;
        let sent = home.resume(client, PROMPT)?;
        if !sent.accepted && predicted.accepted {
            let command = self.check.name();
            return Ok(Some(format!("after `{command}` the client refused it: {}", sent.client_output)));
        }
        Ok(predicted.difference_from(&sent))
    }

    fn resume_repaired(
        &self,
        repaired: Option<&(ClientHome, PathBuf)>,
        rethread: &Path,
        client: &InstalledClient,
    ) -> Result<Option<String>> {
        let home = ClientHome::of(repaired.map_or(self.sample.path.as_path(), |(_, output)| output))?;
        let predicted = home.preview(rethread, &client.version, PROMPT)?;
        let sent = home.resume(client, PROMPT)?;
        // A session without messages can neither be repaired nor resumed.
        if !sent.accepted && (predicted.accepted || has_messages(&fs::read(&self.sample.path)?)) {
            let state = if repaired.is_some() { "repaired" } else { "unchanged" };
            return Ok(Some(format!("{state}, and the client refused it: {}", sent.client_output)));
        }
        Ok(predicted.difference_from(&sent))
    }

    fn compare_recorded(&self, client: &InstalledClient) -> Result<Option<String>> {
        let recorded = self.sample.path.with_extension("received.json");
        let recorded = parse(&fs::read(&recorded).with_context(|| recorded.display().to_string())?)?;
        let expected = SentRequest::from_json(&recorded);
        // The prompt was the last block that was sent.
        let last = expected.messages.last().and_then(|message| message["content"].as_array()?.last());
        let prompt = last.and_then(|block| block["text"].as_str()).unwrap_or(PROMPT);
        Ok(expected.difference_from(&ClientHome::of(&self.sample.path)?.resume(client, prompt)?))
    }
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Preview => "preview",
            Self::Repair => "repair",
            Self::Clone => "clone",
            Self::Clean => "clean",
            Self::Recorded => "recorded",
        }
    }
}

/// Returns whether a log has user or assistant entries.
fn has_messages(log: &[u8]) -> bool {
    let mut lines = log.split(|&byte| byte == b'\n').filter_map(|line| parse(line).ok());
    lines.any(|line: Value| line["type"] == "user" || line["type"] == "assistant")
}

#[derive(Default)]
struct Tally {
    counts: BTreeMap<(Check, String), CheckCount>,
}

#[derive(Default)]
struct CheckCount {
    same: usize,
    different: usize,
    time: Duration,
}

impl Tally {
    fn add(&mut self, check: Check, version: &str, same: bool, time: Duration) {
        let count = self.counts.entry((check, version.to_owned())).or_default();
        count.same += usize::from(same);
        count.different += usize::from(!same);
        count.time += time;
    }

    fn print(&self) {
        for ((check, version), count) in &self.counts {
            let runs = count.same + count.different;
            let each = count.time.as_secs_f64() / runs as f64;
            println!("{version} {}: {} of {runs} agree, {each:.1} s each", check.name(), count.same);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::has_messages;

    #[test]
    fn logs_without_messages_are_recognised() {
        assert!(!has_messages(b""));
        assert!(!has_messages(b"{\"type\":\"summary\"}\nnot json\n"));
        assert!(has_messages(b"not json\n{\"type\":\"user\"}"));
    }
}
