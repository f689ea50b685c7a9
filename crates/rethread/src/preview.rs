//! The request that a client would send on resume.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;
use rethread_model::{Client, Reader, Resume, SentMessage, Session, WireMessage, resume};
use rethread_render::{Preview, PreviewHead};

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
    client: Client,
    resume: Resume,
    leaf: Option<String>,
    whole_log: OnceLock<Vec<u8>>,
}

impl Library {
    /// Computes the request that a client would send to the API on resume.
    pub fn preview(&self, source: &LogSource, client: Client) -> Result<LazyPreview, crate::Error> {
        let (session, _) = self.read(source)?;
        let resume = resume(&session.facts, client);
        let (source, whole) = (source.clone(), OnceLock::new());
        let mut previewed = LazyPreview { source, session, client, resume, leaf: None, whole_log: whole };
        if let Some(leaf) = previewed.resume.leaf {
            let place = previewed.session.facts.location(leaf);
            let range = place.offset..place.offset + u64::from(place.len);
            previewed.leaf = Some(previewed.with_reader(range, |reader| reader.uuid(leaf))?);
        }
        Ok(previewed)
    }
}

impl LazyPreview {
    /// Returns whether the client resumes the session at all.
    pub fn is_accepted(&self) -> bool {
        self.resume.refusal.is_none()
    }

    /// Returns everything except the messages.
    pub fn head(&self) -> PreviewHead<'_> {
        PreviewHead::new(&self.source.file.id, self.client, self.leaf.as_deref(), &self.resume)
    }

    /// Converts the messages to API form, with `prompt` as the next prompt: `spell` formats batches in
    /// parallel, and `write` receives the results in order.
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
                        spell(&reader.wire_messages_for(&self.resume, part, self.client, prompt))
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
    pub fn preview(&self, client: Client, prompt: &str) -> Preview<'_> {
        let resume = resume(&self.session.facts, client);
        let reader = self.reader();
        Preview {
            session: &self.source.file.id,
            client,
            leaf: resume.leaf.map(|leaf| reader.uuid(leaf)),
            messages: reader.wire_messages(&resume, client, prompt),
            resume,
        }
    }
}
