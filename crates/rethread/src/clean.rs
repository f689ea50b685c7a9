//! Reduced copies of sessions for sharing, and the search for secrets in them.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rethread_edit::{
    CleanReport, CleanWarning, Cleaned, Cleaner, FoundSecret, Level, RedactOptions, Redaction, ReparentMap,
    RuleSet, Secret, SecretPlace, secret_place_at,
};
use rethread_log::{Defect, Entry, EntryContent, Line, Scanner, Sink};
use rethread_store::{ConfinedPath, Holder, NewSession, ReplaceError, SessionFile};

use crate::library::{Library, LogSource, config_root};

/// Options of a clean run.
///
/// ```
/// use rethread::{CleanDestination, CleanOptions, Level, RedactOptions, RuleSet};
///
/// let options = CleanOptions::new(CleanDestination::DryRun)
///     .rules(RuleSet::of(Level::Light))
///     .redact(RedactOptions { secrets: true, ..Default::default() });
/// assert!(options.rules.is_resumable());
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CleanOptions {
    /// The content to remove.
    pub rules: RuleSet,
    /// The content to replace.
    pub redact: RedactOptions,
    /// The destination of the results.
    pub to: CleanDestination,
    /// Names of the current user, redacted in addition to those found in the logs.
    pub users: Vec<String>,
    /// Names of the current machine, redacted likewise.
    pub hosts: Vec<String>,
}

impl CleanOptions {
    /// Creates the default options: the rules of the standard level, without redaction.
    ///
    /// ```
    /// use rethread::{CleanDestination, CleanOptions};
    ///
    /// assert!(CleanOptions::new(CleanDestination::DryRun).users.is_empty());
    /// ```
    pub fn new(to: CleanDestination) -> Self {
        let rules = RuleSet::of(Level::Standard);
        Self { rules, redact: RedactOptions::default(), to, users: Vec::new(), hosts: Vec::new() }
    }

    /// Sets the content to remove.
    ///
    /// ```
    /// use rethread::{CleanDestination, CleanOptions, Level, RuleSet};
    ///
    /// let options = CleanOptions::new(CleanDestination::DryRun).rules(RuleSet::of(Level::Max));
    /// assert!(!options.rules.is_resumable());
    /// ```
    pub fn rules(mut self, rules: RuleSet) -> Self {
        self.rules = rules;
        self
    }

    /// Sets the content to replace.
    ///
    /// ```
    /// use rethread::{CleanDestination, CleanOptions, RedactOptions};
    ///
    /// let secrets = RedactOptions { secrets: true, ..Default::default() };
    /// assert!(CleanOptions::new(CleanDestination::DryRun).redact(secrets).redact.secrets);
    /// ```
    pub fn redact(mut self, redact: RedactOptions) -> Self {
        self.redact = redact;
        self
    }

    /// Sets names of the current user and machine, which are redacted in addition to those found in the logs.
    ///
    /// ```
    /// use rethread::{CleanDestination, CleanOptions};
    ///
    /// let options = CleanOptions::new(CleanDestination::DryRun).names(vec!["ada".into()], Vec::new());
    /// assert_eq!(options.users, ["ada"]);
    /// ```
    pub fn names(mut self, users: Vec<String>, hosts: Vec<String>) -> Self {
        (self.users, self.hosts) = (users, hosts);
        self
    }
}

/// The destination of cleaned sessions.
#[derive(Debug, Clone)]
pub enum CleanDestination {
    /// A directory, laid out like the source directory.
    Dir {
        /// The directory.
        dir: PathBuf,
        /// Overwrite existing files.
        over: bool,
    },
    /// Replace the originals, which are kept as backups.
    InPlace,
    /// Nothing is written; only the statistics are returned.
    DryRun,
}

/// An error while cleaning a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// A process has it open, or may have.
    #[error(transparent)]
    InUse(#[from] Holder),
    /// It is not a file, so it cannot be cleaned in place.
    #[error("the input is not a file, so it cannot be cleaned in place")]
    NoDestination,
    /// The copy would overwrite the session itself.
    #[error("{} is the source session itself", .0.display())]
    OutputIsSource(PathBuf),
    /// The result could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Secrets found in a session, and files that could not be scanned.
#[derive(Debug, Default)]
pub struct SecretScan {
    /// The secrets, with their positions.
    pub found: Vec<Secret>,
    /// Sidecars that could not be read, with the cause. Secrets in the paths are redacted.
    pub unread: Vec<(PathBuf, io::Error)>,
}

/// A file of a session: its log or a sidecar.
struct SessionPart {
    path: PathBuf,
    /// The same path, for opening.
    confined: ConfinedPath,
    /// Its path relative to the output directory.
    relative: PathBuf,
    /// It is a log whose entries are cleaned; all other files are treated as text.
    is_log: bool,
    /// Its bytes, if it is not a file.
    bytes: Option<Arc<Vec<u8>>>,
}

impl SessionPart {
    fn input(&self) -> CleanInput<'_> {
        match &self.bytes {
            Some(bytes) => CleanInput::Bytes(bytes),
            None => CleanInput::File(&self.confined),
        }
    }
}

impl Library {
    /// Cleans sessions and their sidecars, in parallel. A failure does not stop the others.
    ///
    /// ```
    /// use rethread::{CleanDestination, CleanOptions, Library};
    ///
    /// let library = Library::demo();
    /// let sources = library.select(&[], None)?;
    /// for cleaned in library.clean(&sources, &CleanOptions::new(CleanDestination::DryRun)) {
    ///     let report = cleaned?.report;
    ///     assert!(report.bytes_after <= report.bytes_before);
    /// }
    /// # Ok::<(), rethread::CleanError>(())
    /// ```
    pub fn clean(&self, sources: &[LogSource], options: &CleanOptions) -> Vec<Result<Cleaned, CleanError>> {
        let mut sources = self.without_owned_agents(sources);
        if let CleanDestination::Dir { dir, .. } = &options.to
            && let Ok(dir) = dir.canonicalize()
        {
            // Results of an earlier run are not sources of this one, unless they are the only ones selected.
            let written =
                |s: &&LogSource| s.file.path.canonicalize().is_ok_and(|path| path.starts_with(&dir));
            let (there, elsewhere): (Vec<_>, Vec<_>) = sources.into_iter().partition(written);
            sources = if elsewhere.is_empty() { there } else { elsewhere };
        }
        let base = common_dir(&sources);
        let clean = |source: &&LogSource| {
            let _turn = source.lock_if_large();
            let cleaned = self.clean_session(source, &base, options);
            self.progress.report(source);
            cleaned
        };
        sources.par_iter().map(clean).collect()
    }

    /// Finds secrets in sessions and their sidecars.
    ///
    /// ```
    /// use rethread::{Library, RedactOptions};
    ///
    /// let library = Library::demo();
    /// let sources = library.find("0000d005")?;
    /// for scan in library.secrets(&sources, &RedactOptions { secrets: true, ..Default::default() }) {
    ///     assert!(!scan?.found.is_empty());
    /// }
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn secrets(
        &self,
        sources: &[LogSource],
        redact: &RedactOptions,
    ) -> Vec<Result<SecretScan, crate::Error>> {
        let sources = self.without_owned_agents(sources);
        let find = |source: &&LogSource| {
            let found = self.secrets_of(source, redact);
            self.progress.report(source);
            found
        };
        sources.par_iter().map(find).collect()
    }

    /// Drops the logs of subagents whose sessions are selected too; they are processed with those.
    fn without_owned_agents<'s>(&self, sources: &'s [LogSource]) -> Vec<&'s LogSource> {
        let sessions = sources.iter().filter(|source| !source.file.is_subagent);
        let parts: BTreeSet<PathBuf> =
            sessions.flat_map(|source| self.agents_of(source)).map(|file| file.path).collect();
        let mut seen = BTreeSet::new();
        let first = |source: &&LogSource| source.bytes.is_some() || seen.insert(source.file.path.clone());
        sources.iter().filter(|source| !parts.contains(&source.file.path)).filter(first).collect()
    }

    /// Returns the files of a session: its log first, then its sidecars. Files outside any config directory
    /// keep their path relative to `base`.
    fn parts_of(&self, source: &LogSource, base: &Path) -> Vec<SessionPart> {
        let path = &source.file.path;
        let dir = path.parent().unwrap_or(Path::new(""));
        let project =
            config_root(path).and_then(|_| dir.file_name()).map(|name| Path::new("projects").join(name));
        let below = || dir.strip_prefix(base).map(Path::to_owned).unwrap_or_default();
        let project = project.unwrap_or_else(below);
        let name = match &source.bytes {
            Some(_) => PathBuf::from(format!("{}.jsonl", source.file.id)),
            None => path.file_name().map(PathBuf::from).unwrap_or_default(),
        };
        let bytes = source.bytes.clone();
        let place = source.file.confined_path();
        let mut parts = vec![SessionPart {
            path: path.clone(),
            confined: place,
            relative: project.join(name),
            is_log: true,
            bytes,
        }];
        if source.bytes.is_some() || source.file.is_subagent {
            return parts;
        }
        let agents = self.agents_of(source).into_iter().map(|file| file.confined_path());
        let sidecars = source.file.confined_side_dir().files(self.skips()).into_iter();
        let sidecars = sidecars.filter(|file| !is_backup_or_partial(file.relative()));
        let files: BTreeMap<PathBuf, ConfinedPath> =
            agents.chain(sidecars).map(|file| (file.path(), file)).collect();
        parts.extend(files.into_iter().filter_map(|(path, place)| {
            let below = project.join(path.strip_prefix(dir).ok()?);
            // Other JSON Lines files were not written by the client.
            let log = path.extension().is_some_and(|ending| ending == "jsonl")
                && (path.iter().any(|name| name == "subagents") || path.parent() == Some(dir));
            Some(SessionPart { path, confined: place, relative: below, is_log: log, bytes: None })
        }));
        parts
    }

    fn clean_session(
        &self,
        source: &LogSource,
        base: &Path,
        options: &CleanOptions,
    ) -> Result<Cleaned, CleanError> {
        let is_in_place = matches!(options.to, CleanDestination::InPlace);
        if is_in_place {
            if source.bytes.is_some() {
                return Err(CleanError::NoDestination);
            }
            self.store.holder(&source.file).map_or(Ok(()), Err)?;
        }
        let parts = self.parts_of(source, base);
        if is_in_place {
            // A session is replaced as a whole or not at all: its sidecars are replaced before the log.
            rethread_store::find_writer(parts.iter().map(|part| &part.confined)).map_or(Ok(()), Err)?;
        }
        let redaction = options.redact.is_enabled().then(|| redaction_for(&parts, options));
        let run = CleanRun { library: self, source, options, redaction: redaction.as_ref() };
        let mut cleaned = Cleaned {
            session: source.id(),
            output: None,
            backup: None,
            report: CleanReport::default(),
            sidecars: parts.len() as u64 - 1,
            is_resumable: options.rules.is_resumable(),
            warnings: Vec::new(),
        };
        let mut names = BTreeSet::new();
        // Sidecars are written first: a session exists once its log does.
        for (at, part) in parts.iter().enumerate().rev() {
            let is_main = at == 0;
            match run.clean_part(part, is_main, &mut names)? {
                CleanedPart::Skipped(warning) => cleaned.warnings.push(warning),
                CleanedPart::Written { report, path, backup } => {
                    cleaned.report.add(&report);
                    if is_main && !matches!(options.to, CleanDestination::DryRun) {
                        (cleaned.output, cleaned.backup) = (Some(path), backup);
                    }
                }
            }
        }
        Ok(cleaned)
    }

    fn secrets_of(&self, source: &LogSource, redact: &RedactOptions) -> Result<SecretScan, crate::Error> {
        let mut secrets = SecretScan::default();
        let redaction = Redaction::new(redact.clone());
        for (at, part) in self.parts_of(source, Path::new("")).iter().enumerate() {
            // The name of a file may contain a secret too, and is shown redacted.
            let path = redaction.rewrite_path(&part.path);
            let mut found = SecretLocator { redaction: &redaction, found: Vec::new() };
            if part.is_log {
                match part.input().scan(&mut found) {
                    Ok(()) => {}
                    Err(error) if at == 0 => return Err(source.error(error)),
                    Err(error) => {
                        secrets.unread.push((path, error));
                        continue;
                    }
                }
            } else {
                match part.confined.read() {
                    Ok(bytes) => {
                        let hits = redaction.find_in_file(&bytes).into_iter();
                        found.found.extend(hits.map(|(n, hit)| (Some(n), SecretPlace::File, hit)));
                    }
                    Err(error) => secrets.unread.push((path.clone(), error)),
                }
            }
            let name = part.relative.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let named = redaction.find_in_text(&name).into_iter();
            found.found.extend(named.map(|(_, hit)| (None, SecretPlace::FileName, hit)));
            secrets.found.extend(found.found.into_iter().map(|(line, place, found)| Secret {
                session: source.id(),
                file: path.clone(),
                line,
                place,
                rule: found.rule.into_owned(),
                masked: found.masked,
            }));
        }
        Ok(secrets)
    }
}

/// The cleaning of one session.
struct CleanRun<'c> {
    library: &'c Library,
    source: &'c LogSource,
    options: &'c CleanOptions,
    redaction: Option<&'c Redaction>,
}

/// The outcome for one file of a session.
enum CleanedPart {
    Written { report: CleanReport, path: PathBuf, backup: Option<PathBuf> },
    Skipped(CleanWarning),
}

impl CleanRun<'_> {
    /// Cleans one file. A sidecar that cannot be cleaned is skipped; `is_main` is set for the log of the session itself.
    fn clean_part(
        &self,
        part: &SessionPart,
        is_main: bool,
        names: &mut BTreeSet<PathBuf>,
    ) -> Result<CleanedPart, CleanError> {
        let (options, source) = (self.options, self.source);
        let mut target = CleanedFile::new(part, options, self.redaction, names)?;
        self.ensure_free(&target)?;
        let is_in_place = matches!(options.to, CleanDestination::InPlace);
        // The file is replaced only if it still has the bytes that were read, so later writes are not lost.
        let before = match is_in_place {
            true => Some(part.confined.read().map_err(|e| source.error(e))?),
            false => None,
        };
        let log = before.as_deref().map_or_else(|| part.input(), CleanInput::Bytes);
        let cleaned = match part.is_log {
            true => clean_log(&log, options, self.redaction, &mut target),
            false => clean_sidecar(&part.confined, before.as_deref(), self.redaction, &mut target),
        };
        let report = match cleaned {
            Ok(Some(report)) if is_main && report.entries == 0 && report.bytes_before > 0 => {
                return Err(crate::Error::NotASession { path: part.path.clone() }.into());
            }
            Ok(Some(report)) => report,
            Ok(None) => {
                let path = self.shown_path(&part.path);
                return Ok(CleanedPart::Skipped(CleanWarning::NotText { path, kept: is_in_place }));
            }
            Err(CleanIoError::Read(error)) if is_main => return Err(source.error(error).into()),
            Err(CleanIoError::Read(error)) => {
                let path = self.shown_path(&part.path);
                return Ok(CleanedPart::Skipped(CleanWarning::Unreadable { path, error }));
            }
            Err(CleanIoError::Write(source)) => {
                return Err(CleanError::Write { path: target.path, source });
            }
        };
        let path = target.path.clone();
        let holder = || self.library.store.holder(&source.file);
        let backup = target.finish(&part.confined, before.as_deref(), &holder);
        let backup = backup.map_err(|error| match error {
            ReplaceError::Held(holder) => holder.into(),
            ReplaceError::Write(source) => CleanError::Write { path: path.clone(), source },
            _ => CleanError::Write { path: path.clone(), source: io::Error::other(error) },
        })?;
        Ok(CleanedPart::Written { report, path, backup })
    }

    /// Fails if the file that is overwritten is a session that a process has open, possibly in another config directory.
    fn ensure_free(&self, target: &CleanedFile) -> Result<(), CleanError> {
        if matches!(self.options.to, CleanDestination::Dir { over: true, .. })
            && let Ok(file) = SessionFile::from_confined(&target.confined)
        {
            self.library.store.holder(&file).map_or(Ok(()), Err)?;
            rethread_store::find_writer(std::iter::once(&target.confined)).map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// Returns a path as it may be shown: the name of a file may contain secrets.
    fn shown_path(&self, path: &Path) -> PathBuf {
        self.redaction.map_or_else(|| path.to_owned(), |redaction| redaction.rewrite_path(path))
    }
}

/// Scans all files of a session, so that a name found in one of them is redacted in all.
fn redaction_for(parts: &[SessionPart], options: &CleanOptions) -> Redaction {
    let mut collector =
        SecretCollector(Redaction::new(options.redact.clone()).with_people(&options.users, &options.hosts));
    for part in parts {
        // A file that cannot be read is not written either; that is reported later.
        if part.is_log {
            let _ = part.input().scan(&mut collector);
        } else if let Ok(bytes) = part.confined.read() {
            collector.0.scan_file(&bytes);
        }
        collector.0.scan_text(&part.path.to_string_lossy());
    }
    collector.0.finish_scan();
    collector.0
}

/// Returns whether a file is a backup or a partially written file.
fn is_backup_or_partial(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let backup = name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(".bak");
    backup || name.starts_with(".rethread-") && name.ends_with(".part")
}

/// Returns the common directory of all files outside config directories.
fn common_dir(sources: &[&LogSource]) -> PathBuf {
    let files =
        sources.iter().filter(|source| source.bytes.is_none() && config_root(&source.file.path).is_none());
    let mut dirs = files.filter_map(|source| source.file.path.parent());
    let mut common = dirs.next().map(Path::to_owned).unwrap_or_default();
    for dir in dirs {
        while !dir.starts_with(&common) && common.pop() {}
    }
    common
}

/// A log to read.
enum CleanInput<'l> {
    Bytes(&'l [u8]),
    File(&'l ConfinedPath),
}

impl CleanInput<'_> {
    fn scan(&self, sink: &mut impl Sink) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => Scanner::default().scan_all(bytes, sink),
            Self::File(path) => {
                let file = SessionFile::from_confined(path)?;
                rethread_store::scan_file(&file, file.bytes, sink)?;
            }
        }
        Ok(())
    }
}

/// Collects names and secrets to redact.
struct SecretCollector(Redaction);

impl Sink for SecretCollector {
    fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
        match entry.content {
            EntryContent::Object => self.0.scan_entry(entry.raw),
            _ => self.0.scan_text(&String::from_utf8_lossy(entry.raw)),
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// Reports the positions of secrets.
struct SecretLocator<'f> {
    redaction: &'f Redaction,
    found: Vec<(Option<u32>, SecretPlace, FoundSecret)>,
}

impl Sink for SecretLocator<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if entry.content == EntryContent::Object {
            let hits = self.redaction.find_in_entry(entry.raw).into_iter();
            let place = |hit: &FoundSecret| secret_place_at(line, hit.at);
            self.found.extend(hits.map(|hit| (Some(entry.line), place(&hit), hit)));
        } else {
            let hits = self.redaction.find_in_text(&String::from_utf8_lossy(entry.raw)).into_iter();
            self.found.extend(hits.map(|(_, hit)| (Some(entry.line), SecretPlace::Unreadable, hit)));
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// Buffers larger than this are moved instead of copied.
const MAX_COPIED_BYTES: usize = 1 << 20;

/// A failed read or write.
enum CleanIoError {
    Read(io::Error),
    Write(io::Error),
}

/// The destination of a cleaned file.
struct CleanedFile {
    path: PathBuf,
    confined: ConfinedPath,
    sink: CleanSink,
}

enum CleanSink {
    File(NewSession, bool),
    Memory(Vec<u8>),
    Discard,
}

impl CleanedFile {
    fn new(
        part: &SessionPart,
        options: &CleanOptions,
        redaction: Option<&Redaction>,
        names: &mut BTreeSet<PathBuf>,
    ) -> Result<Self, CleanError> {
        let CleanDestination::Dir { dir, over } = &options.to else {
            let to = if matches!(options.to, CleanDestination::InPlace) {
                CleanSink::Memory(Vec::new())
            } else {
                CleanSink::Discard
            };
            return Ok(Self { path: part.path.clone(), confined: part.confined.clone(), sink: to });
        };
        // The name of a project directory is a path that contains the user name.
        let below: PathBuf = match redaction {
            Some(redaction) => redaction.rewrite_path(&part.relative),
            None => part.relative.clone(),
        };
        let mut below = below;
        // Distinct names may have become equal.
        for n in 2.. {
            if names.insert(below.clone()) {
                break;
            }
            let name = below.file_name().unwrap_or_default().to_string_lossy().into_owned();
            below = below.with_file_name(format!("{n}-{name}"));
        }
        // Links inside the directory are not followed.
        let place = ConfinedPath::new(dir, below);
        let path = place.path();
        let failed = |source| CleanError::Write { path: path.clone(), source };
        if let (Ok(there), Ok(own)) = (path.canonicalize(), part.path.canonicalize())
            && there == own
        {
            return Err(CleanError::OutputIsSource(path));
        }
        if !over && path.symlink_metadata().is_ok() {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "file already exists")));
        }
        place.ensure_regular().map_err(failed)?;
        let file = NewSession::begin(&place).map_err(failed)?;
        Ok(Self { path, confined: place, sink: CleanSink::File(file, *over) })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.sink {
            CleanSink::File(file, _) => file.write(bytes),
            CleanSink::Memory(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
            CleanSink::Discard => Ok(()),
        }
    }

    /// Writes bytes; takes over the buffer if that saves a copy, because a line may be very long.
    fn write_buffer(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.sink {
            CleanSink::Memory(all) if bytes.len() > all.len().max(MAX_COPIED_BYTES) => {
                bytes.splice(..0, all.drain(..));
                *all = std::mem::take(bytes);
                Ok(())
            }
            _ => self.write(bytes),
        }
    }

    /// Discards everything written so far.
    fn restart(&mut self) -> io::Result<()> {
        match &mut self.sink {
            CleanSink::File(file, _) => *file = NewSession::begin(&self.confined)?,
            CleanSink::Memory(all) => all.clear(),
            CleanSink::Discard => {}
        }
        Ok(())
    }

    /// Moves the file to its final path; returns the path of the backup.
    fn finish(
        self,
        old: &ConfinedPath,
        before: Option<&[u8]>,
        holder: &dyn Fn() -> Option<Holder>,
    ) -> Result<Option<PathBuf>, ReplaceError> {
        match self.sink {
            CleanSink::File(file, over) => Ok(file.finish_unsynced(over).map(|()| None)?),
            CleanSink::Memory(bytes) => {
                let before = before.unwrap_or_default();
                if before == bytes {
                    return Ok(None);
                }
                rethread_store::replace_session(old, before, &bytes, holder).map(Some)
            }
            CleanSink::Discard => Ok(None),
        }
    }
}

fn clean_log(
    log: &CleanInput<'_>,
    options: &CleanOptions,
    redaction: Option<&Redaction>,
    target: &mut CleanedFile,
) -> Result<Option<CleanReport>, CleanIoError> {
    let mut bridges: Option<ReparentMap> = None;
    loop {
        let again = bridges.is_some();
        let mut write = |bytes: &mut Vec<u8>| target.write_buffer(bytes);
        let mut cleaner = Cleaner::new(options.rules, redaction, bridges.take(), &mut write);
        log.scan(&mut cleaner).map_err(CleanIoError::Read)?;
        let mut cleaned = cleaner.finish().map_err(CleanIoError::Write)?;
        bridges = cleaned.rerun_with.take().filter(|_| !again);
        if bridges.is_none() {
            return Ok(Some(cleaned));
        }
        target.restart().map_err(CleanIoError::Write)?;
    }
}

/// Cleans a file that is not a log; returns `None` if it may contain data that cannot be scanned.
fn clean_sidecar(
    path: &ConfinedPath,
    before: Option<&[u8]>,
    redaction: Option<&Redaction>,
    target: &mut CleanedFile,
) -> Result<Option<CleanReport>, CleanIoError> {
    let bytes = before.map_or_else(|| path.read(), |bytes| Ok(bytes.to_vec())).map_err(CleanIoError::Read)?;
    let mut cleaned = CleanReport { bytes_before: bytes.len() as u64, ..CleanReport::default() };
    let out = match redaction.map(|redaction| redaction.rewrite_file(&bytes, &mut cleaned.redactions)) {
        Some(Err(_)) => return Ok(None),
        Some(Ok(out)) => out,
        None => None,
    };
    let out = out.unwrap_or(bytes);
    cleaned.bytes_after = out.len() as u64;
    let taken = cleaned.bytes_before.saturating_sub(cleaned.bytes_after);
    if taken > 0 {
        cleaned.by_rule.insert("redact", taken);
    }
    target.write(&out).map_err(CleanIoError::Write)?;
    Ok(Some(cleaned))
}
