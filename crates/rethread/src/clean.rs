//! Small copies of sessions that can be shared, and what in them must not be.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rethread_edit::{Bridges, Cleaned, Cleaner, Redact, Redaction, Rules, place_in};
use rethread_log::{Content, Defect, Entry, Line, Scanner, Sink};
use rethread_render::{CleanedRow, SecretRow};
use rethread_store::{ConfinedPath, Holder, NewSession, ReplaceError};

use crate::library::{Library, Source, root_of};

/// What is wanted of cleaned sessions.
#[derive(Debug, Clone)]
pub struct CleanOptions {
    /// What is taken out.
    pub rules: Rules,
    /// What is replaced.
    pub redact: Redact,
    /// Where the results go.
    pub to: CleanTo,
    /// Names of the user and the machine at hand, to be replaced with those that are found.
    pub users: Vec<String>,
    /// The same for machines.
    pub hosts: Vec<String>,
}

/// Where cleaned sessions go.
#[derive(Debug, Clone)]
pub enum CleanTo {
    /// To a directory, laid out like the one that they come from.
    Dir {
        /// Which.
        dir: PathBuf,
        /// Write over files that are there.
        over: bool,
    },
    /// In place of the old ones, which are kept as backups.
    InPlace,
    /// Nowhere: only the figures are wanted.
    Nowhere,
}

/// Why a session could not be cleaned.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CleanError {
    /// It could not be found or read.
    #[error(transparent)]
    Read(#[from] crate::Error),
    /// A process has it open, or may have.
    #[error(transparent)]
    Held(#[from] Holder),
    /// It is no file, so it cannot be cleaned in place.
    #[error("there is no file to clean in place")]
    NoPlace,
    /// The copy would take the place of the session itself.
    #[error("{} is the session itself", .0.display())]
    OverItself(PathBuf),
    /// The result could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What must not be shared in a session, and what of it could not be looked at.
#[derive(Debug, Clone, Default)]
pub struct Secrets {
    /// Each, where it stands.
    pub found: Vec<SecretRow>,
    /// Files that could not be read.
    pub unread: Vec<String>,
}

/// A file of a session.
struct Part {
    path: PathBuf,
    /// The same, to be opened.
    place: ConfinedPath,
    /// Where it goes below the directory that is written to.
    below: PathBuf,
    /// Its entries are cleaned; all other files are texts.
    log: bool,
    /// Its bytes, if it is no file.
    bytes: Option<Arc<Vec<u8>>>,
}

impl Part {
    fn to_read(&self) -> Log<'_> {
        match &self.bytes {
            Some(bytes) => Log::Bytes(bytes),
            None => Log::File(&self.place),
        }
    }
}

impl Library {
    /// Cleans sessions with what lies beside them, all at once. `progress` is told how many bytes were
    /// read of each. What fails does not hold up the others.
    pub fn clean(
        &self,
        sources: &[Source],
        options: &CleanOptions,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Result<CleanedRow, CleanError>> {
        let mut sources = self.without_parts(sources);
        if let CleanTo::Dir { dir, .. } = &options.to
            && let Ok(dir) = dir.canonicalize()
        {
            // What an earlier run wrote there is no session of this one, unless nothing else is meant.
            let written = |s: &&Source| s.file.path.canonicalize().is_ok_and(|path| path.starts_with(&dir));
            let (there, elsewhere): (Vec<_>, Vec<_>) = sources.into_iter().partition(written);
            sources = if elsewhere.is_empty() { there } else { elsewhere };
        }
        let base = common_dir(&sources);
        let clean = |source: &&Source| {
            let _turn = source.turn();
            let row = self.clean_session(source, &base, options);
            progress(source.file.bytes);
            row
        };
        sources.par_iter().map(clean).collect()
    }

    /// Finds what must not be shared, in sessions and what lies beside them.
    pub fn secrets(
        &self,
        sources: &[Source],
        redact: &Redact,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Vec<Result<Secrets, crate::Error>> {
        let sources = self.without_parts(sources);
        let find = |source: &&Source| {
            let rows = self.secrets_of(source, redact);
            progress(source.file.bytes);
            rows
        };
        sources.par_iter().map(find).collect()
    }

    /// Leaves out the logs of subagents whose sessions are there too: they come with those.
    fn without_parts<'s>(&self, sources: &'s [Source]) -> Vec<&'s Source> {
        let sessions = sources.iter().filter(|source| !source.file.agent);
        let parts: BTreeSet<PathBuf> =
            sessions.flat_map(|source| self.agents_of(source)).map(|file| file.path).collect();
        let mut seen = BTreeSet::new();
        let first = |source: &&Source| source.bytes.is_some() || seen.insert(source.file.path.clone());
        sources.iter().filter(|source| !parts.contains(&source.file.path)).filter(first).collect()
    }

    /// The files of a session: its log first, then what lies beside it. What is in no config directory
    /// keeps its place below `base`.
    fn parts_of(&self, source: &Source, base: &Path) -> Vec<Part> {
        let path = &source.file.path;
        let dir = path.parent().unwrap_or(Path::new(""));
        let project =
            root_of(path).and_then(|_| dir.file_name()).map(|name| Path::new("projects").join(name));
        let below = || dir.strip_prefix(base).map(Path::to_owned).unwrap_or_default();
        let project = project.unwrap_or_else(below);
        let name = match &source.bytes {
            Some(_) => PathBuf::from(format!("{}.jsonl", source.file.id)),
            None => path.file_name().map(PathBuf::from).unwrap_or_default(),
        };
        let bytes = source.bytes.clone();
        let place = source.file.confined();
        let mut parts = vec![Part { path: path.clone(), place, below: project.join(name), log: true, bytes }];
        if source.bytes.is_some() || source.file.agent {
            return parts;
        }
        let agents = self.agents_of(source).into_iter().map(|file| file.confined());
        let beside = source.file.side().files(self.skips()).into_iter();
        let beside = beside.filter(|file| !is_ours(file.below()));
        let files: BTreeMap<PathBuf, ConfinedPath> =
            agents.chain(beside).map(|file| (file.path(), file)).collect();
        parts.extend(files.into_iter().filter_map(|(path, place)| {
            let below = project.join(path.strip_prefix(dir).ok()?);
            // Other files with lines of JSON hold what somebody else wrote.
            let log = path.extension().is_some_and(|ending| ending == "jsonl")
                && (path.iter().any(|name| name == "subagents") || path.parent() == Some(dir));
            Some(Part { path, place, below, log, bytes: None })
        }));
        parts
    }

    fn clean_session(
        &self,
        source: &Source,
        base: &Path,
        options: &CleanOptions,
    ) -> Result<CleanedRow, CleanError> {
        if matches!(options.to, CleanTo::InPlace) {
            if source.bytes.is_some() {
                return Err(CleanError::NoPlace);
            }
            self.store.holder(&source.file).map_or(Ok(()), Err)?;
        }
        let parts = self.parts_of(source, base);
        if matches!(options.to, CleanTo::InPlace) {
            // All or nothing of a session: what lies beside it is replaced before the log is.
            rethread_store::writer_of(parts.iter().map(|part| &part.place)).map_or(Ok(()), Err)?;
        }
        let mut warnings = Vec::new();
        let redaction = options.redact.any().then(|| redaction_for(&parts, options));
        let redaction = redaction.as_ref();
        // The name of a file may hold what must not be shown.
        let shown = |path: &Path| {
            redaction
                .map_or_else(|| path.to_owned(), |redaction| redaction.rewrite_path(path))
                .display()
                .to_string()
        };
        let mut row = CleanedRow {
            r#type: "cleaned",
            session: source.file.id.clone(),
            file: None,
            raw: 0,
            without_base64: 0,
            cleaned: 0,
            by_rule: Default::default(),
            redactions: Default::default(),
            beside: parts.len() as u64 - 1,
            resumable: options.rules.are_resumable(),
            backup: None,
            warnings: Vec::new(),
        };
        let mut all = Cleaned::default();
        let mut names = BTreeSet::new();
        // What lies beside it comes first: a session is there when its log is.
        for (at, part) in parts.iter().enumerate().rev() {
            let mut target = Target::new(part, options, redaction, &mut names)?;
            if let (CleanTo::Dir { over: true, .. }, Ok(file)) =
                (&options.to, rethread_store::SessionFile::confined_at(&target.place))
            {
                // What is written over may be a session of another config directory.
                self.store.holder(&file).map_or(Ok(()), Err)?;
                rethread_store::writer_of(std::iter::once(&target.place)).map_or(Ok(()), Err)?;
            }
            // What is written in place is what was read, and nothing that came later is lost.
            let before = match &options.to {
                CleanTo::InPlace => Some(part.place.read().map_err(|e| source.error(e))?),
                _ => None,
            };
            let log = before.as_deref().map_or_else(|| part.to_read(), Log::Bytes);
            let cleaned = match part.log {
                true => clean_log(&log, options, redaction, &mut target),
                false => clean_text(&part.place, before.as_deref(), redaction, &mut target),
            };
            match cleaned {
                Ok(Some(cleaned)) if at == 0 && cleaned.entries == 0 && cleaned.raw > 0 => {
                    return Err(crate::Error::NotASession { path: part.path.clone() }.into());
                }
                Ok(Some(cleaned)) => all.add(&cleaned),
                Ok(None) => {
                    let stays = matches!(options.to, CleanTo::InPlace);
                    let told = if stays { "stays as it is" } else { "is left out" };
                    warnings.push(format!("{} is no text and {told}", shown(&part.path)));
                    continue;
                }
                Err(Fault::Read(error)) if at == 0 => return Err(source.error(error).into()),
                Err(Fault::Read(error)) => {
                    warnings.push(format!("{} cannot be read: {error}", shown(&part.path)));
                    continue;
                }
                Err(Fault::Write(source)) => return Err(CleanError::Write { path: target.path, source }),
            }
            let path = target.path.clone();
            let holder = || self.store.holder(&source.file);
            let backup = target.finish(&part.place, before.as_deref(), &holder);
            let backup = backup.map_err(|error| match error {
                ReplaceError::Held(holder) => holder.into(),
                ReplaceError::Write(source) => CleanError::Write { path: path.clone(), source },
                _ => CleanError::Write { path: path.clone(), source: io::Error::other(error) },
            })?;
            if at == 0 && !matches!(options.to, CleanTo::Nowhere) {
                row.file = Some(path.to_string_lossy().into_owned());
                row.backup = backup.map(|backup| backup.to_string_lossy().into_owned());
            }
        }
        row.without_base64 = all.without_base64();
        (row.raw, row.cleaned) = (all.raw, all.cleaned);
        (row.by_rule, row.redactions) = (all.by_rule, all.redactions);
        row.warnings = warnings;
        Ok(row)
    }

    fn secrets_of(&self, source: &Source, redact: &Redact) -> Result<Secrets, crate::Error> {
        let mut secrets = Secrets::default();
        let redaction = Redaction::new(redact.clone());
        for (at, part) in self.parts_of(source, Path::new("")).iter().enumerate() {
            // The name of a file may be a secret too, and is shown without it.
            let path = redaction.rewrite_path(&part.path);
            let mut found = Finding { redaction: &redaction, rows: Vec::new() };
            if part.log {
                match part.to_read().scan(&mut found) {
                    Ok(()) => {}
                    Err(error) if at == 0 => return Err(source.error(error)),
                    Err(error) => {
                        secrets.unread.push(format!("{}: {error}", path.display()));
                        continue;
                    }
                }
            } else {
                match part.place.read() {
                    Ok(bytes) => {
                        let hits = redaction.find_in_file(&bytes).into_iter();
                        found.rows.extend(hits.map(|(n, hit)| (n, "file", hit)));
                    }
                    Err(error) => secrets.unread.push(format!("{}: {error}", path.display())),
                }
            }
            let name = part.below.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let named = redaction.find_in_text(&name);
            found.rows.extend(named.into_iter().map(|(_, hit)| (0, "file_name", hit)));
            secrets.found.extend(found.rows.into_iter().map(|(line, place, found)| SecretRow {
                r#type: "secret",
                session: source.file.id.clone(),
                file: path.to_string_lossy().into_owned(),
                line,
                r#where: place,
                rule: found.rule.into_owned(),
                masked: found.masked,
            }));
        }
        Ok(secrets)
    }
}

/// Looks at everything that belongs to a session, so that what is found in one place is known in all.
fn redaction_for(parts: &[Part], options: &CleanOptions) -> Redaction {
    let mut noting =
        Noting(Redaction::new(options.redact.clone()).knowing_people(&options.users, &options.hosts));
    for part in parts {
        // What cannot be read is not written either, and that is told then.
        if part.log {
            let _ = part.to_read().scan(&mut noting);
        } else if let Ok(bytes) = part.place.read() {
            noting.0.note_file(&bytes);
        }
        noting.0.note_text(&part.path.to_string_lossy());
    }
    noting.0.settle();
    noting.0
}

/// Tells whether a file is a backup, or half of a file that is being written.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let backup = name.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(".bak");
    backup || name.starts_with(".rethread-") && name.ends_with(".part")
}

/// The directory that holds all files that are in no config directory.
fn common_dir(sources: &[&Source]) -> PathBuf {
    let files =
        sources.iter().filter(|source| source.bytes.is_none() && root_of(&source.file.path).is_none());
    let mut dirs = files.filter_map(|source| source.file.path.parent());
    let mut common = dirs.next().map(Path::to_owned).unwrap_or_default();
    for dir in dirs {
        while !dir.starts_with(&common) && common.pop() {}
    }
    common
}

/// A log to read.
enum Log<'l> {
    Bytes(&'l [u8]),
    File(&'l ConfinedPath),
}

impl Log<'_> {
    fn scan(&self, sink: &mut impl Sink) -> io::Result<()> {
        match self {
            Self::Bytes(bytes) => Scanner::default().scan_all(bytes, sink),
            Self::File(path) => {
                let file = rethread_store::SessionFile::confined_at(path)?;
                rethread_store::scan_file(&file, file.bytes, sink)?;
            }
        }
        Ok(())
    }
}

/// Takes note of what must not be shared.
struct Noting(Redaction);

impl Sink for Noting {
    fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
        match entry.content {
            Content::Object => self.0.note_entry(entry.raw),
            _ => self.0.note_text(&String::from_utf8_lossy(entry.raw)),
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// Tells where it stands.
struct Finding<'f> {
    redaction: &'f Redaction,
    rows: Vec<(u32, &'static str, rethread_edit::Found)>,
}

impl Sink for Finding<'_> {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        if entry.content == Content::Object {
            let found = self.redaction.find_in_entry(entry.raw);
            self.rows.extend(found.into_iter().map(|found| (entry.line, place_in(line, found.at), found)));
        } else {
            let found = self.redaction.find_in_text(&String::from_utf8_lossy(entry.raw));
            self.rows.extend(found.into_iter().map(|(_, found)| (entry.line, "unreadable", found)));
        }
    }

    fn defect(&mut self, _: Defect) {}
}

/// A buffer with more bytes than this is not copied.
const LONG: usize = 1 << 20;

/// What went wrong.
enum Fault {
    Read(io::Error),
    Write(io::Error),
}

/// Where the bytes of a cleaned file go.
struct Target {
    path: PathBuf,
    place: ConfinedPath,
    to: To,
}

enum To {
    File(NewSession, bool),
    Memory(Vec<u8>),
    Nowhere,
}

impl Target {
    fn new(
        part: &Part,
        options: &CleanOptions,
        redaction: Option<&Redaction>,
        names: &mut BTreeSet<PathBuf>,
    ) -> Result<Self, CleanError> {
        let CleanTo::Dir { dir, over } = &options.to else {
            let to =
                if matches!(options.to, CleanTo::InPlace) { To::Memory(Vec::new()) } else { To::Nowhere };
            return Ok(Self { path: part.path.clone(), place: part.place.clone(), to });
        };
        // The name of a project is a path, with the user's name in it.
        let below: PathBuf = match redaction {
            Some(redaction) => redaction.rewrite_path(&part.below),
            None => part.below.clone(),
        };
        let mut below = below;
        // Different names may have become one.
        for n in 2.. {
            if names.insert(below.clone()) {
                break;
            }
            let name = below.file_name().unwrap_or_default().to_string_lossy().into_owned();
            below = below.with_file_name(format!("{n}-{name}"));
        }
        // Below the directory no link is followed.
        let place = ConfinedPath::new(dir, below);
        let path = place.path();
        let failed = |source| CleanError::Write { path: path.clone(), source };
        if let (Ok(there), Ok(own)) = (path.canonicalize(), part.path.canonicalize())
            && there == own
        {
            return Err(CleanError::OverItself(path));
        }
        if !over && path.symlink_metadata().is_ok() {
            return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, "it is there already")));
        }
        place.check().map_err(failed)?;
        let file = NewSession::begin(&place).map_err(failed)?;
        Ok(Self { path, place, to: To::File(file, *over) })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.to {
            To::File(file, _) => file.write(bytes),
            To::Memory(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
            To::Nowhere => Ok(()),
        }
    }

    /// Writes bytes; the buffer is kept if that saves a copy, for a line may be very long.
    fn take(&mut self, bytes: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.to {
            To::Memory(all) if bytes.len() > all.len().max(LONG) => {
                bytes.splice(..0, all.drain(..));
                *all = std::mem::take(bytes);
                Ok(())
            }
            _ => self.write(bytes),
        }
    }

    /// Forgets what was written.
    fn restart(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::File(file, _) => *file = NewSession::begin(&self.place)?,
            To::Memory(all) => all.clear(),
            To::Nowhere => {}
        }
        Ok(())
    }

    /// Puts it in its place; returns where the old file is kept.
    fn finish(
        self,
        old: &ConfinedPath,
        before: Option<&[u8]>,
        holder: &dyn Fn() -> Option<Holder>,
    ) -> Result<Option<PathBuf>, ReplaceError> {
        match self.to {
            To::File(file, over) => Ok(file.finish_soon(over).map(|()| None)?),
            To::Memory(bytes) => {
                let before = before.unwrap_or_default();
                if before == bytes {
                    return Ok(None);
                }
                rethread_store::replace_session(old, before, &bytes, holder).map(Some)
            }
            To::Nowhere => Ok(None),
        }
    }
}

fn clean_log(
    log: &Log<'_>,
    options: &CleanOptions,
    redaction: Option<&Redaction>,
    target: &mut Target,
) -> Result<Option<Cleaned>, Fault> {
    let mut bridges: Option<Bridges> = None;
    loop {
        let again = bridges.is_some();
        let mut write = |bytes: &mut Vec<u8>| target.take(bytes);
        let mut cleaner = Cleaner::new(options.rules, redaction, bridges.take(), &mut write);
        log.scan(&mut cleaner).map_err(Fault::Read)?;
        let mut cleaned = cleaner.finish().map_err(Fault::Write)?;
        bridges = cleaned.again.take().filter(|_| !again);
        if bridges.is_none() {
            return Ok(Some(cleaned));
        }
        target.restart().map_err(Fault::Write)?;
    }
}

/// Cleans a file that is no log; nothing if it may hold what cannot be looked for.
fn clean_text(
    path: &ConfinedPath,
    before: Option<&[u8]>,
    redaction: Option<&Redaction>,
    target: &mut Target,
) -> Result<Option<Cleaned>, Fault> {
    let bytes = before.map_or_else(|| path.read(), |bytes| Ok(bytes.to_vec())).map_err(Fault::Read)?;
    let mut cleaned = Cleaned { raw: bytes.len() as u64, ..Cleaned::default() };
    let out = match redaction.map(|redaction| redaction.rewrite_file(&bytes, &mut cleaned.redactions)) {
        Some(Err(_)) => return Ok(None),
        Some(Ok(out)) => out,
        None => None,
    };
    let out = out.unwrap_or(bytes);
    cleaned.cleaned = out.len() as u64;
    let taken = cleaned.raw.saturating_sub(cleaned.cleaned);
    if taken > 0 {
        cleaned.by_rule.insert("redact", taken);
    }
    target.write(&out).map_err(Fault::Write)?;
    Ok(Some(cleaned))
}
