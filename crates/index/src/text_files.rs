//! Recognises damaged files of the text index before they are read.
//!
//! tantivy trusts its files: a damaged one can make it panic. It never changes a file of a segment after it was written,
//! so the catalogue records their sizes and times. Only a file that differs is compared with the checksum at its end,
//! which takes as long as reading it.

use std::path::Path;

use tantivy::Index as TantivyIndex;

use crate::error::IndexError;
use crate::fingerprint::nanos;

/// A file of the text index as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFile {
    /// The id of its segment, and its extension.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// The time of the last change, in nanoseconds since 1970.
    pub(crate) modified: i64,
}

impl TextFile {
    fn stat(dir: &Path, name: &str) -> Option<Self> {
        let metadata = dir.join(name).symlink_metadata().ok().filter(std::fs::Metadata::is_file)?;
        Some(Self { name: name.to_owned(), bytes: metadata.len(), modified: nanos(metadata.modified().ok()) })
    }

    fn segment(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

/// Returns the ids of the segments that are searched.
fn segments_of(texts: &TantivyIndex) -> Result<Vec<String>, IndexError> {
    Ok(texts.searchable_segment_metas()?.iter().map(|segment| segment.id().uuid_string()).collect())
}

/// Returns the files of the segments in a directory that are searched.
pub(crate) fn files_of(texts: &TantivyIndex, dir: &Path) -> Result<Vec<TextFile>, IndexError> {
    let segments = segments_of(texts)?;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let files = names.filter_map(|name| TextFile::stat(dir, &name));
    Ok(files.filter(|file| segments.iter().any(|segment| segment == file.segment())).collect())
}

/// Fails if a segment has a file that is not as it was written. `known` are the files that were recorded; a segment
/// without records was written by a process that was killed before it could record them.
pub(crate) fn check(texts: &TantivyIndex, dir: &Path, known: &[TextFile]) -> Result<(), IndexError> {
    let segments = segments_of(texts)?;
    let mut searched = known.iter().filter(|file| segments.iter().any(|segment| segment == file.segment()));
    if searched.all(|file| TextFile::stat(dir, &file.name).as_ref() == Some(file)) {
        return Ok(());
    }
    match texts.validate_checksum()?.is_empty() {
        true => Ok(()),
        false => Err(IndexError::Damaged("a file of the text index has changed")),
    }
}

/// Fails if a segment is not as long as the list of segments says.
pub(crate) fn check_lengths(searcher: &tantivy::Searcher) -> Result<(), IndexError> {
    for segment in searcher.segment_readers() {
        if segment.fast_fields().u64("log")?.num_docs() != segment.max_doc() {
            return Err(IndexError::Damaged("a segment of the text index has another length"));
        }
    }
    Ok(())
}
