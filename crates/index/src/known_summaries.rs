//! Summaries of logs that have not changed since they were indexed.

use std::ops::Range;

use rayon::prelude::*;
use rethread_model::LogSummary;
use rethread_store::SessionFile;
use rustc_hash::FxHashMap;

use crate::catalogue::{decode_summary, path_to_blob};
use crate::error::IndexError;
use crate::fingerprint::{FileChange, Fingerprint};
use crate::index::Index;

/// Up to this number of logs are looked up one by one. Beyond it, one pass over all summaries takes less time.
const MAX_LOOKUPS: usize = 200;

impl Index {
    /// Returns the summaries of the logs that have not changed since they were indexed, in the order of the logs; `None`
    /// for all others. Nothing is written. Paths and sizes are those of the files; what is not in the log is left out.
    pub fn known_summaries(&self, files: &[&SessionFile]) -> Result<Vec<Option<LogSummary>>, IndexError> {
        let Some(catalogue) = self.open_catalogue()? else { return Ok(vec![None; files.len()]) };
        let mut found = StoredSummaries { bytes: Vec::new(), of_files: vec![None; files.len()] };
        if files.len() <= MAX_LOOKUPS {
            for (at, file) in files.iter().enumerate() {
                catalogue.summary_at(&file.path, |_, print, summary| found.add(at, file, print, summary))?;
            }
        } else {
            let by_path: FxHashMap<&[u8], usize> =
                files.iter().enumerate().map(|(at, file)| (path_to_blob(&file.path), at)).collect();
            catalogue.for_each_summary(|path, print, summary| {
                if let Some(&at) = by_path.get(path) {
                    found.add(at, files[at], print, summary);
                }
            })?;
        }
        found.decode(files)
    }
}

/// The stored summaries of some files, one after the other.
struct StoredSummaries {
    bytes: Vec<u8>,
    /// The place of the summary of each file that has one.
    of_files: Vec<Option<Range<usize>>>,
}

impl StoredSummaries {
    /// Adds the summary of a file, unless the file has changed since.
    fn add(&mut self, at: usize, file: &SessionFile, print: &Fingerprint, summary: &[u8]) {
        if print.compare(file) == FileChange::Unchanged {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(summary);
            self.of_files[at] = Some(start..self.bytes.len());
        }
    }

    fn decode(self, files: &[&SessionFile]) -> Result<Vec<Option<LogSummary>>, IndexError> {
        let decode = |(range, file): (Option<Range<usize>>, &&SessionFile)| {
            let Some(range) = range else { return Ok(None) };
            let mut known = decode_summary(&self.bytes[range])?;
            // The path is not stored, and a link may name the log otherwise than when it was indexed.
            known.summary.path.clone_from(&file.path);
            known.summary.id = file.id.as_str().into();
            known.summary.bytes = file.bytes;
            Ok(Some(known))
        };
        self.of_files.into_par_iter().zip(files).map(decode).collect()
    }
}
