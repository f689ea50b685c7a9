//! The request that a client would send on resume.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;
use rethread_model::{
    Client, Preview, PreviewSummary, Reader, Resume, SentMessage, Session, WireMessage, resume,
};

use crate::library::{Library, LogSource};
use crate::session::LoadedSession;

/// Number of messages that one thread formats at a time, and number of messages buffered before they are
/// passed on.
const BATCH_SIZES: (usize, usize) = (64, 1024);

/// The request that a client would send on resume. Texts are read only when they are sent, so a session of
/// any length is previewed in little memory.
#[derive(Debug)]
pub struct LazyPreview {
    source: LogSource,
    session: Session,
    resume: Resume,
    summary: PreviewSummary,
    whole_log: OnceLock<Vec<u8>>,
}

impl Library {
    /// Computes the request that a client would send to the API on resume.
    ///
    /// ```
    /// use rethread::{Client, Library};
    ///
    /// let library = Library::demo();
    /// let preview = library.preview(&library.find_one("0000d001")?, Client::NEWEST)?;
    /// assert!(preview.is_accepted());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn preview(&self, source: &LogSource, client: Client) -> Result<LazyPreview, crate::Error> {
        let (session, _) = self.read(source)?;
        let resume = resume(&session.facts, client);
        let summary = summary(source, client, &resume, None);
        let (source, whole_log) = (source.clone(), OnceLock::new());
        let mut preview = LazyPreview { source, session, resume, summary, whole_log };
        if let Some(leaf) = preview.resume.leaf {
            let place = preview.session.facts.location(leaf);
            let range = place.offset..place.offset + u64::from(place.len);
            preview.summary.leaf = Some(preview.with_reader(range, |reader| reader.uuid(leaf))?);
        }
        Ok(preview)
    }
}

impl LazyPreview {
    /// Returns whether the client resumes the session at all.
    ///
    /// ```
    /// # use rethread::{Client, Library};
    /// # let library = Library::demo();
    /// let preview = library.preview(&library.find_one("0000d002")?, Client::V2_0_36)?;
    /// assert!(preview.is_accepted());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn is_accepted(&self) -> bool {
        self.summary.is_accepted()
    }

    /// Returns the decisions of the client: everything except the messages.
    ///
    /// ```
    /// # use rethread::{Client, Library};
    /// # let library = Library::demo();
    /// let preview = library.preview(&library.find_one("0000d001")?, Client::NEWEST)?;
    /// assert!(preview.summary().leaf.is_some());
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn summary(&self) -> &PreviewSummary {
        &self.summary
    }

    /// Converts the messages to API form, with `prompt` as the next prompt: `spell` formats batches in
    /// parallel, and `write` receives the results in order.
    ///
    /// ```
    /// # use rethread::{Client, Error, Library};
    /// # let library = Library::demo();
    /// let preview = library.preview(&library.find_one("0000d001")?, Client::NEWEST)?;
    /// let mut sent = 0;
    /// preview.for_each_batch("next", |messages| messages.len(), |n| -> Result<(), Error> {
    ///     sent += n;
    ///     Ok(())
    /// })?;
    /// assert_eq!(sent, 9);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn for_each_batch<T: Send, E: From<crate::Error>>(
        &self,
        prompt: &str,
        spell: impl Fn(&[WireMessage<'_>]) -> T + Sync,
        mut write: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        for held in self.resume.messages.chunks(BATCH_SIZES.1) {
            let spelled: Vec<Result<T, crate::Error>> = held
                .par_chunks(BATCH_SIZES.0)
                .map(|part| {
                    self.with_reader(self.range_of(part), |reader| {
                        spell(&reader.wire_messages_for(&self.resume, part, self.summary.client, prompt))
                    })
                })
                .collect();
            for part in spelled {
                write(part?)?;
            }
        }
        Ok(())
    }

    /// Returns the byte range of the entries of some messages.
    fn range_of(&self, messages: &[SentMessage]) -> Range<u64> {
        let facts = &self.session.facts;
        let parts = || messages.iter().flat_map(|message| &message.parts);
        let nodes = parts().flat_map(|part| part.nodes());
        let (mut start, mut end, mut needed) = (u64::MAX, 0, 0);
        for node in nodes {
            let place = facts.location(node);
            start = start.min(place.offset);
            end = end.max(place.offset + u64::from(place.len));
            needed += u64::from(place.len);
        }
        // For entries that are far apart, reading the whole log once is faster.
        let span = end.saturating_sub(start);
        if span > 4 * needed + (1 << 20) { 0..u64::MAX } else { start.min(end)..end }
    }

    fn with_reader<T>(
        &self,
        range: Range<u64>,
        read: impl FnOnce(Reader<'_>) -> T,
    ) -> Result<T, crate::Error> {
        if let Some(bytes) = self.source.bytes.as_deref().or(self.whole_log.get()) {
            return Ok(read(Reader::new(&self.session, bytes)));
        }
        let failed = |error: io::Error| self.source.error(error);
        if range.end == u64::MAX {
            let bytes = rethread_store::read_whole(&self.source.file).map_err(failed)?;
            let bytes = self.whole_log.get_or_init(|| bytes);
            return Ok(read(Reader::new(&self.session, bytes)));
        }
        let len = range.end.saturating_sub(range.start);
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
        if len > 0 {
            let mut file = self.source.file.open().map_err(failed)?;
            file.seek(SeekFrom::Start(range.start)).map_err(failed)?;
            file.take(len).read_to_end(&mut bytes).map_err(failed)?;
        }
        Ok(read(Reader::with_partial_bytes(&self.session, &bytes, range.start)))
    }
}

impl LoadedSession {
    /// Computes the request that a client would send to the API on resume, with `prompt` as the next prompt.
    ///
    /// ```
    /// # use rethread::{Client, Library};
    /// # let library = Library::demo();
    /// let loaded = library.load(&library.find_one("0000d001")?)?;
    /// let preview = loaded.preview(Client::NEWEST, "Thanks.");
    /// assert!(!preview.messages.last().expect("the prompt").assistant);
    /// # Ok::<(), rethread::Error>(())
    /// ```
    pub fn preview(&self, client: Client, prompt: &str) -> Preview<'_> {
        let resume = resume(&self.session.facts, client);
        let reader = self.reader();
        let leaf = resume.leaf.map(|leaf| reader.uuid(leaf));
        Preview {
            summary: summary(&self.source, client, &resume, leaf),
            messages: reader.wire_messages(&resume, client, prompt),
        }
    }
}

fn summary(source: &LogSource, client: Client, resume: &Resume, leaf: Option<String>) -> PreviewSummary {
    PreviewSummary { session: source.id(), client, leaf, refusal: resume.refusal }
}
