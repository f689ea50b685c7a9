//! Pictures that are written beside the documents, each once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Mutex;

use xxhash_rust::xxh3::xxh3_128;

use super::output::{Output, Record};

/// The directory of pictures.
const IMAGES: &str = "images";

pub(super) struct Pictures<'o> {
    output: &'o Output,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    made: BTreeMap<String, Record>,
    /// Those that the document shows that is being written.
    shown: BTreeSet<String>,
}

impl<'o> Pictures<'o> {
    pub(super) fn new(output: &'o Output) -> Self {
        Self { output, state: Mutex::default() }
    }

    /// Writes a picture and returns its name.
    pub(super) fn write(&self, media: &str, bytes: &[u8]) -> io::Result<String> {
        let ending = match media {
            "image/png" => "png",
            "image/jpeg" => "jpg",
            "image/gif" => "gif",
            _ => "webp",
        };
        // Named by what is in it: a picture that is shown twice is one file.
        let made_of = format!("{:032x}", xxh3_128(bytes));
        let file = format!("{IMAGES}/{}.{ending}", &made_of[..20]);
        let mut state = self.state.lock().map_err(|_| io::Error::other("a writer failed"))?;
        state.shown.insert(file.clone());
        if state.made.contains_key(&file) {
            return Ok(file);
        }
        let hash = if self.output.is_picture(&file, bytes)? {
            self.output.record(&file).hash
        } else {
            Some(self.output.write(&file, |out| out.write_all(bytes)).map_err(io::Error::other)?)
        };
        state.made.insert(file.clone(), Record { made_of: Some(made_of), hash, ..Record::default() });
        Ok(file)
    }

    /// Returns what the document shows that was just written.
    pub(super) fn shown(&self) -> Vec<String> {
        let mut state = self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        std::mem::take(&mut state.shown).into_iter().collect()
    }

    /// Returns all that were written.
    pub(super) fn made(self) -> impl Iterator<Item = (String, Record)> {
        self.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).made.into_iter()
    }
}
