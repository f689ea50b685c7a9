//! Copies the sidecars of a session to its clone: subagents, large results, file backups, and the entries
//! that the clone removed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rethread_edit::{self as edit, IdMap};
use rethread_model::{Session, Uid};
use rethread_store::{ConfinedPath, NewSession, SessionFile, SkippedPaths};
use rustc_hash::FxHashSet;

use super::CloneOptions;
use crate::library::{Library, LogSource, config_root};
use crate::session::{REMOVED, RESULTS, SubagentCalls, SubagentMeta};

/// Returns the directory with the file backups of a session.
pub(super) fn file_history_dir(log: &Path) -> Option<ConfinedPath> {
    Some(ConfinedPath::new(config_root(log)?, Path::new("file-history").join(log.file_stem()?)))
}

/// Collects entry ids.
#[derive(Default)]
struct EntryIdCollector(FxHashSet<Uid>);

impl rethread_log::Sink for EntryIdCollector {
    fn entry(&mut self, entry: &rethread_log::Entry<'_>, line: &rethread_log::Line) {
        self.0.extend(line.string(rethread_log::Key::Uuid, entry.raw).map(Uid::new));
    }

    fn defect(&mut self, _: rethread_log::Defect) {}
}

/// The parts of a clone that determine its sidecars.
pub(super) struct ClonedSession<'m> {
    /// The source.
    pub(super) session: &'m Session,
    pub(super) names: &'m IdMap<'m>,
    /// The edited entries; none if only ids changed.
    pub(super) cloned: Option<&'m edit::PreparedClone<'m>>,
}

/// The sidecars of a clone: references found and results of copying.
#[derive(Debug, Default)]
pub(super) struct ClonedSidecars {
    /// Names of large results that the clone refers to; none if the source has no large results.
    results: Option<BTreeSet<String>>,
    pub(super) subagents: u64,
    pub(super) tool_results: u64,
    /// The file with the removed entries.
    pub(super) removed: Option<PathBuf>,
    /// Removed entries were to be kept, but there are none.
    pub(super) nothing_removed: bool,
}

impl ClonedSidecars {
    /// Starts without any reference.
    pub(super) fn for_source(source: &LogSource) -> Self {
        let any = source.bytes.is_none() && source.file.confined_side_dir().join(RESULTS).is_dir();
        Self { results: any.then(BTreeSet::new), ..Self::default() }
    }

    /// Records the large results that a piece of the clone refers to.
    pub(super) fn record_results(&mut self, piece: &[u8]) {
        let Some(results) = &mut self.results else { return };
        for at in memchr::memmem::find_iter(piece, RESULTS) {
            let rest = &piece[at + RESULTS.len()..];
            let rest = rest.strip_prefix(b"/").or_else(|| rest.strip_prefix(b"\\\\"));
            let plain = |b: &&u8| b.is_ascii_alphanumeric() || b"._-".contains(*b);
            let name: Vec<u8> = rest.unwrap_or_default().iter().take_while(plain).copied().collect();
            if let Ok(name) = String::from_utf8(name) {
                results.insert(name.trim_end_matches('.').to_owned());
            }
        }
    }

    /// Returns whether a large result belongs to the clone. Some are in a subdirectory.
    fn refers_to(&self, below: &Path) -> bool {
        let names = below.iter().map(|name| name.to_string_lossy());
        let mut stems = names.flat_map(|name| {
            let stem = name.split('.').next().unwrap_or_default().to_owned();
            [name.into_owned(), stem]
        });
        stems.any(|name| self.results.as_ref().is_some_and(|results| results.contains(&name)))
    }
}

impl Library {
    /// Writes the sidecars of a clone.
    pub(super) fn write_sidecars(
        &self,
        source: &LogSource,
        cloned_session: &ClonedSession<'_>,
        path: &Path,
        options: &CloneOptions,
        sidecars: &mut ClonedSidecars,
    ) -> io::Result<()> {
        let side = ConfinedPath::of_file(path).with_extension("");
        if options.keep_removed {
            let file = side.join(REMOVED);
            let mut removed =
                cloned_session.cloned.iter().flat_map(|cloned| cloned.removed_entries()).peekable();
            if removed.peek().is_some() {
                let mut part = NewSession::begin(&file)?;
                for removed in removed {
                    let line = removed.to_line();
                    sidecars.record_results(&line);
                    part.write(&line)?;
                }
                if let Some(error) = cloned_session.cloned.and_then(edit::PreparedClone::failure) {
                    return Err(error);
                }
                part.finish()?;
                sidecars.removed = Some(file.path());
            } else {
                sidecars.nothing_removed = true;
            }
        }
        if source.bytes.is_some() {
            return Ok(());
        }
        self.write_subagents(source, cloned_session, &side, options, sidecars)?;
        let from = source.file.confined_side_dir();
        let skips = self.skips();
        let all = cloned_session.cloned.is_none();
        let wanted = |below: &Path| all || sidecars.refers_to(below);
        sidecars.tool_results =
            rethread_store::copy_files(&from.join(RESULTS), &side.join(RESULTS), &wanted, skips)?;
        // Entries that an earlier clone removed are still missing.
        if all && sidecars.removed.is_none() {
            rethread_store::copy_private(&from.join(REMOVED), &side.join(REMOVED), skips)?;
        }
        const TITLE: &str = "custom-title.json";
        if options.recipe.title.is_none() {
            rethread_store::copy_private(&from.join(TITLE), &side.join(TITLE), skips)?;
        }
        if (all || options.recipe.file_history)
            && let (Some(from), Some(to)) = (file_history_dir(&source.file.path), file_history_dir(path))
        {
            rethread_store::copy_files(&from, &to, &|_| true, skips)?;
        }
        Ok(())
    }

    /// Returns the ids of all entries of a session's subagents: its own log may refer to them.
    pub(super) fn agent_entry_ids(&self, source: &LogSource) -> FxHashSet<Uid> {
        let mut found = EntryIdCollector::default();
        for file in self.agents_of(source) {
            // A file that cannot be read here cannot be copied either; that is reported later.
            let _ = rethread_store::scan_file(&file, file.bytes, &mut found);
        }
        found.0
    }

    /// Clones the logs of subagents whose calls are in the clone.
    fn write_subagents(
        &self,
        source: &LogSource,
        cloned_session: &ClonedSession<'_>,
        side: &ConfinedPath,
        options: &CloneOptions,
        sidecars: &mut ClonedSidecars,
    ) -> io::Result<()> {
        let files = self.agents_of(source);
        if files.is_empty() {
            return Ok(());
        }
        let calls = SubagentCalls::new(cloned_session.session);
        let own = source.file.side_dir();
        let mut carried: FxHashSet<String> = FxHashSet::default();
        // A nested subagent follows the one that started it, but files are listed in no particular order.
        let started = |file: SessionFile| (SubagentMeta::new(&file, self.skips()), file);
        let mut waiting: Vec<_> = files.into_iter().map(started).collect();
        loop {
            let n_waiting = waiting.len();
            let mut later = Vec::new();
            for (started, file) in waiting {
                let call = calls.starting_call(&started);
                let (keep, whole) = match (cloned_session.cloned, call, &started.parent) {
                    (None, ..) => (true, true),
                    (Some(cloned), Some(call), _) => {
                        (cloned.keeps_call(call), cloned.keeps_call_unchanged(call))
                    }
                    (_, None, Some(parent)) if !carried.contains(parent) => {
                        later.push((started, file));
                        continue;
                    }
                    (_, None, Some(_)) => (true, false),
                    (_, None, None) => (false, false),
                };
                if !keep {
                    continue;
                }
                let name = match file.path.strip_prefix(&own) {
                    Ok(below) => side.join(below),
                    // Before 2.1 they are next to the session.
                    Err(_) => side.join("subagents").join(file.path.file_name().unwrap_or_default()),
                };
                write_subagent(&file, &name, cloned_session, options, whole, sidecars, self.skips())?;
                sidecars.subagents += 1;
                carried.insert(started.id);
            }
            waiting = later;
            if waiting.is_empty() || waiting.len() == n_waiting {
                break;
            }
        }
        Ok(())
    }
}

/// Clones the log of one subagent.
fn write_subagent(
    from: &SessionFile,
    to: &ConfinedPath,
    cloned_session: &ClonedSession<'_>,
    options: &CloneOptions,
    whole: bool,
    sidecars: &mut ClonedSidecars,
    skips: &SkippedPaths,
) -> io::Result<()> {
    let log = rethread_store::read_whole(from)?;
    let agent = edit::SourceSession::read(&log);
    let asked = options.recipe.for_subagents();
    let plain = edit::Recipe::default();
    let recipe = match cloned_session.cloned {
        None => plain.clone(),
        // A call in an unchanged turn keeps its subagent, except for thinking that is stripped.
        Some(_) if whole => edit::Recipe { strip_thinking: asked.strip_thinking, ..plain.clone() },
        Some(_) => asked,
    };
    let names = cloned_session.names.for_other_log().with_log(&cloned_session.session.facts);
    let cloned =
        edit::plan_clone(&agent, &recipe, names.clone()).or_else(|_| edit::plan_clone(&agent, &plain, names));
    let Ok(cloned) = cloned else { return Ok(()) };
    let mut part = NewSession::begin(to)?;
    cloned.write(&mut |piece| {
        sidecars.record_results(&piece);
        part.write(&piece)?;
        Ok(piece)
    })?;
    part.finish()?;
    let meta = from.confined_path().with_extension("meta.json");
    rethread_store::copy_private(&meta, &to.with_extension("meta.json"), skips)?;
    Ok(())
}
