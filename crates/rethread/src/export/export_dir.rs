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
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use super::ExportError;
use super::names::{DocumentNames, safe_name};

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
            names.add(file, &record.source, &record.stem);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_manifest_are_inside_the_directory() {
        assert!(is_inside_dir("subagents/a.md"));
        for name in ["../a", "a/b/c", "/etc/x", ""] {
            assert!(!is_inside_dir(name), "{name}");
        }
    }
}
