//! Images that are written next to the documents, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;

use xxhash_rust::xxh3::xxh3_128;

use super::export_dir::{ExportDir, FileRecord};

/// The directory of images.
const IMAGES: &str = "images";

pub(super) struct ImageWriter<'o> {
    output: &'o ExportDir,
    state: Mutex<ImageState>,
}

#[derive(Default)]
struct ImageState {
    written: BTreeMap<String, FileRecord>,
    /// The images shown by the current document.
    shown: BTreeSet<String>,
}

impl<'o> ImageWriter<'o> {
    pub(super) fn new(output: &'o ExportDir) -> Self {
        Self { output, state: Mutex::default() }
    }

    /// Writes an image and returns its name.
    pub(super) fn write(&self, media: &str, bytes: &[u8]) -> io::Result<String> {
        let ending = match media {
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/gif" => "gif",
            _ => "webp",
        };
        // Named by content: an image that is shown twice is one file.
        let made_of = format!("{:032x}", xxh3_128(bytes));
        let file = format!("{IMAGES}/{}.{ending}", &made_of[..20]);
        let mut state = self.state.lock().map_err(|_| io::Error::other("a writer failed"))?;
        state.shown.insert(file.clone());
        if state.written.contains_key(&file) {
            return Ok(file);
        }
        let hash = if self.output.has_image(&file, bytes)? {
            self.output.record(&file).hash
        } else {
            Some(self.output.write(&file, |out| out.write_all(bytes)).map_err(io::Error::other)?)
        };
        state
            .written
            .insert(file.clone(), FileRecord { made_of: Some(made_of), hash, ..FileRecord::default() });
        Ok(file)
    }

    /// Takes the names of the images shown by the document just written.
    pub(super) fn take_shown(&self) -> Vec<String> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.shown).into_iter().collect()
    }

    /// Returns the records of all images that were written.
    pub(super) fn into_records(self) -> impl Iterator<Item = (String, FileRecord)> {
        self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).written.into_iter()
    }
}
