//! The output directory of an export, and the manifest of the files written to it.
//!
//! The manifest identifies our files, so that a foreign file is never overwritten; it identifies unchanged
//! documents, so that they are not written again; and it keeps names stable. Names are claimed in it before
//! the first document is written, so a killed run leaves nothing that the next one would treat as foreign.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rethread_render::IndexRow;
use rethread_store::{
    ConfinedPath, FileDigest, PathRejection, first_visible_file, hash_file, remove_stale_parts, write_atomic,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};

use super::ExportError;

/// The file name of the manifest.
const MANIFEST: &str = ".rethread-export.json";
/// Its version.
const MANIFEST_VERSION: u32 = 1;

/// A file that we wrote or are about to write.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    /// The source of the document.
    pub(crate) source: String,
    /// The common prefix of the names of all files of that source.
    pub(crate) stem: String,
    /// Hash of its inputs; none if the name is only claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) made_of: Option<String>,
    /// Hash of its bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<String>,
    /// The images that it shows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pictures: Vec<String>,
    /// Its row in the index, if it is a transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) row: Option<IndexRecord>,
}

/// The index row of a transcript.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexRecord {
    pub(crate) session: String,
    pub(crate) title: String,
    pub(crate) project: String,
    pub(crate) prompt: String,
    pub(crate) path: (usize, usize),
    pub(crate) active: bool,
    pub(crate) time: Option<String>,
    pub(crate) turns: u32,
    pub(crate) messages: u32,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct ExportManifest {
    r#type: String,
    version: u32,
    files: BTreeMap<String, FileRecord>,
}

/// The output directory of an export.
pub(crate) struct ExportDir {
    dir: PathBuf,
    files: BTreeMap<String, FileRecord>,
    force: bool,
}

impl ExportDir {
    /// Opens a directory that is empty, does not exist yet, or is ours.
    pub(crate) fn open(dir: &Path, force: bool) -> Result<Self, ExportError> {
        let dir = std::path::absolute(dir).map_err(|e| ExportError::write(dir, e))?;
        if dir.exists() && !dir.is_dir() {
            return Err(ExportError::write(&dir, io::ErrorKind::NotADirectory.into()));
        }
        let files = match ConfinedPath::new(&dir, MANIFEST).read() {
            Ok(bytes) => match serde_json::from_slice::<ExportManifest>(&bytes) {
                Ok(note) if note.r#type == "export" && note.version == MANIFEST_VERSION => note.files,
                _ => return Err(ExportError::BrokenManifest { path: dir.join(MANIFEST) }),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let found = first_visible_file(&dir).map_err(|e| ExportError::write(&dir, e))?;
                if let Some(found) = found.filter(|_| !force) {
                    return Err(ExportError::ForeignDirectory { dir, found });
                }
                BTreeMap::new()
            }
            Err(error) => return Err(ExportError::write(&dir.join(MANIFEST), error)),
        };
        // Files named in the manifest are replaced and removed; none may be outside the directory.
        if let Some(name) = files.keys().find(|name| !is_inside_dir(name)) {
            return Err(ExportError::BrokenManifest { path: dir.join(name) });
        }
        Ok(Self { dir, files, force })
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Returns a file for opening; links inside the directory are not followed.
    fn confined(&self, file: &str) -> ConfinedPath {
        ConfinedPath::new(&self.dir, file)
    }

    /// Returns the names that are in use.
    pub(crate) fn names(&self) -> DocumentNames {
        let mut names = DocumentNames::default();
        for (file, record) in &self.files {
            names.owner.insert(file.to_lowercase(), record.source.clone());
            if !record.stem.is_empty() {
                names.previous_stems.insert(record.source.clone(), record.stem.clone());
            }
        }
        names
    }

    /// Returns whether a document exists exactly as it would be written.
    pub(crate) fn is_current(&self, file: &str, made_of: &str) -> bool {
        let Some(record) = self.files.get(file) else { return false };
        let is_there = |picture: &String| self.confined(picture).is_file();
        record.made_of.as_deref() == Some(made_of)
            && record.pictures.iter().all(is_there)
            && hash_file(&self.confined(file)).is_ok_and(|found| record.hash == Some(hash_text(found)))
    }

    /// Returns the manifest record of a document.
    pub(crate) fn record(&self, file: &str) -> FileRecord {
        self.files.get(file).cloned().unwrap_or_default()
    }

    /// Returns whether an image already exists. Fails if another file has its name.
    pub(crate) fn has_image(&self, file: &str, bytes: &[u8]) -> io::Result<bool> {
        match self.confined(file).read() {
            Ok(found) if found == bytes => Ok(true),
            Ok(_) if self.files.contains_key(file) => Ok(false),
            Ok(_) => {
                Err(io::Error::other(format!("{} was not written by this export", self.path(file).display())))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Claims names before they are written.
    pub(crate) fn claim(
        &mut self,
        files: impl IntoIterator<Item = (String, FileRecord)>,
    ) -> Result<(), ExportError> {
        rethread_store::create_dir(&self.dir).map_err(|e| ExportError::write(&self.dir, e))?;
        remove_stale_parts(&self.dir);
        for (file, record) in files {
            self.files.insert(file, FileRecord { made_of: None, hash: None, ..record });
        }
        self.save()
    }

    /// Returns whether a file is one of ours.
    pub(crate) fn is_own_file(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    /// Fails if a foreign file has this name, or if our file was changed by somebody else.
    pub(crate) fn ensure_writable(&self, file: &str) -> Result<(), ExportError> {
        let path = self.path(file);
        let hash = match hash_file(&self.confined(file)) {
            Ok(hash) => hash,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            // Links and other non-regular files were not created by us.
            Err(error) if PathRejection::from_io_error(&error).is_some() => {
                return Err(ExportError::ForeignFile { path });
            }
            Err(error) => return Err(ExportError::write(&path, error)),
        };
        let Some(record) = self.files.get(file) else {
            return Err(ExportError::ForeignFile { path });
        };
        match &record.hash {
            Some(known) if *known != hash_text(hash) && !self.force => Err(ExportError::Changed { path }),
            _ => Ok(()),
        }
    }

    /// Writes a document completely or not at all.
    pub(crate) fn write(
        &self,
        file: &str,
        write: impl FnOnce(&mut dyn io::Write) -> io::Result<()>,
    ) -> Result<String, ExportError> {
        let path = self.path(file);
        write_atomic(&self.confined(file), write).map(hash_text).map_err(|error| {
            match PathRejection::from_io_error(&error) {
                // A link would lead out of the directory.
                Some(_) => ExportError::ForeignFile { path },
                None => ExportError::write(&path, error),
            }
        })
    }

    /// Records that documents were written.
    pub(crate) fn record_written(&mut self, files: Vec<(String, FileRecord)>) {
        self.files.extend(files);
    }

    /// Removes documents of these sources that are obsolete, and images that no document shows, except those
    /// that somebody changed.
    pub(crate) fn remove_others(
        &mut self,
        sources: &FxHashSet<String>,
        ending: &str,
        keep: impl Fn(&str) -> bool,
    ) -> usize {
        let ending = format!(".{ending}");
        let gone = |(file, record): (&String, &FileRecord)| {
            let ours = sources.contains(&record.source) && file.ends_with(&ending);
            (ours && !keep(file)).then(|| file.clone())
        };
        let gone: Vec<String> = self.files.iter().filter_map(gone).collect();
        let removed = gone.iter().filter(|file| self.remove(file)).count();
        let shown: FxHashSet<String> =
            self.files.values().flat_map(|record| record.pictures.iter().cloned()).collect();
        let unseen = |file: &&String| file.starts_with("images/") && !shown.contains(*file);
        let unseen: Vec<String> = self.files.keys().filter(unseen).cloned().collect();
        for file in &unseen {
            self.remove(file);
        }
        removed
    }

    /// Removes a file of ours; one that somebody changed is kept, and remains in the manifest.
    pub(crate) fn remove(&mut self, file: &str) -> bool {
        let place = self.confined(file);
        let Some(record) = self.files.get_mut(file) else { return false };
        match hash_file(&place) {
            Ok(found) if record.hash.as_ref().is_some_and(|hash| *hash != hash_text(found)) => {
                record.row = None;
                record.made_of = None;
                false
            }
            found => {
                self.files.remove(file);
                found.is_ok() && rethread_store::remove_file(&place).is_ok()
            }
        }
    }

    /// Counts the transcripts of other sources.
    pub(crate) fn transcripts_of_others(&self, sources: &FxHashSet<String>) -> usize {
        let other = |record: &&FileRecord| record.row.is_some() && !sources.contains(&record.source);
        self.files.values().filter(other).count()
    }

    /// Returns the rows of the index: one per path, with all of its formats.
    pub(crate) fn index_rows(&self) -> Vec<IndexRow> {
        let mut rows: BTreeMap<(&str, usize), IndexRow> = BTreeMap::new();
        for (file, record) in &self.files {
            let Some(row) = record.row.clone() else { continue };
            let listed = rows.entry((&record.source, row.path.0)).or_insert_with(|| IndexRow {
                files: Vec::new(),
                session: row.session,
                title: row.title,
                project: row.project,
                prompt: row.prompt,
                path: row.path,
                active: row.active,
                time: row.time,
                turns: row.turns,
                messages: row.messages,
            });
            listed.files.push(file.clone());
        }
        rows.into_values().collect()
    }

    /// Writes the manifest.
    pub(crate) fn save(&self) -> Result<(), ExportError> {
        let note =
            ExportManifest { r#type: "export".into(), version: MANIFEST_VERSION, files: self.files.clone() };
        let write = |out: &mut dyn io::Write| serde_json::to_writer(out, &note).map_err(io::Error::other);
        self.write(MANIFEST, write).map(|_| ())
    }
}

fn hash_text(written: FileDigest) -> String {
    format!("{:016x}", written.hash)
}

/// Returns whether a name refers to a file in the directory or in one of its subdirectories.
fn is_inside_dir(name: &str) -> bool {
    name.matches('/').count() <= 1 && name.split('/').all(|part| safe_name(part) == part)
}

/// The file names in a directory, and the sources that they belong to.
#[derive(Debug, Default)]
pub(crate) struct DocumentNames {
    /// The source of each file, by its lower-case name.
    owner: FxHashMap<String, String>,
    /// The stems from earlier runs, by source.
    previous_stems: FxHashMap<String, String>,
}

impl DocumentNames {
    /// Returns the stem of a source's file names: its earlier one, or one for which no file of it (listed by
    /// `files_of`) has the name of another source's file.
    pub(crate) fn stem(&mut self, source: &str, id: &str, files_of: impl Fn(&str) -> Vec<String>) -> String {
        let base = safe_name(id);
        let known = self.previous_stems.get(source).filter(|stem| is_stem_of(stem, id)).cloned();
        let numbered = (2..).map(|n| format!("{base}_copy{n}"));
        for stem in known.into_iter().chain([base.clone()]).chain(numbered) {
            let files: Vec<String> = files_of(&stem).iter().map(|file| file.to_lowercase()).collect();
            if files.iter().all(|file| self.owner.get(file).is_none_or(|owner| owner == source)) {
                self.owner.extend(files.into_iter().map(|file| (file, source.to_owned())));
                return stem;
            }
        }
        unreachable!("there is always a higher number")
    }
}

/// Returns whether a stem could have been made for this session.
fn is_stem_of(stem: &str, id: &str) -> bool {
    let base = safe_name(id);
    stem.strip_prefix(&base).is_some_and(|rest| rest.is_empty() || rest.starts_with("_copy"))
}

/// Returns a portable file name: letters, digits, `-`, `_` and inner dots, of limited length. A name that had
/// to be changed gets a hash to keep it distinct.
pub(crate) fn safe_name(name: &str) -> String {
    const MAX: usize = 120;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let safe: String = name.chars().take(MAX).map(|c| if plain(c) { c } else { '_' }).collect();
    let safe = safe.trim_matches('.');
    if safe == name && !name.is_empty() {
        return name.to_owned();
    }
    let hash = xxhash_rust::xxh3::xxh3_64(name.as_bytes()) & 0xffff_ffff;
    format!("{}-{hash:08x}", &safe[..safe.len().min(MAX - 20)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn safe_names_are_portable_and_distinct() {
        assert_eq!(safe_name("0a1b-2c_3.d"), "0a1b-2c_3.d");
        assert_eq!(safe_name("a/../b"), "a_.._b-a3d5c1a0".replace("a3d5c1a0", &safe_name("a/../b")[7..]));
        assert_ne!(safe_name("a?b"), safe_name("a*b"));
        assert!(safe_name(&"x".repeat(4000)).len() <= 120);
        assert!(safe_name("ä".repeat(300).as_str()).is_ascii());
        assert!(!safe_name("..").contains(".."));
        assert!(!safe_name("").is_empty());
        assert!(
            is_inside_dir("subagents/a.md")
                && !is_inside_dir("../a")
                && !is_inside_dir("a/b/c")
                && !is_inside_dir("/etc/x")
        );
    }

    #[test]
    fn source_names_are_stable_and_unique() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut output = ExportDir::open(dir.path(), false).expect("opened");
        let mut names = output.names();
        let one = |stem: &str| vec![format!("transcript_{stem}.md")];
        let two =
            |stem: &str| vec![format!("transcript_{stem}_path1.md"), format!("transcript_{stem}_path2.md")];
        assert_eq!(names.stem("1", "x", one), "x");
        assert_eq!(names.stem("2", "X", one), "X_copy2");
        assert_eq!(names.stem("3", "y", two), "y");
        assert_eq!(names.stem("4", "y_path2", one), "y_path2_copy2");
        let record = FileRecord { source: "2".into(), stem: "X_copy2".into(), ..FileRecord::default() };
        output.claim([("transcript_X_copy2.md".to_owned(), record)]).expect("claimed");
        let again = ExportDir::open(dir.path(), false).expect("opened again");
        assert_eq!(again.names().stem("2", "X", one), "X_copy2");
        assert_eq!(again.names().stem("5", "x_copy2", one), "x_copy2_copy2");
    }
}
