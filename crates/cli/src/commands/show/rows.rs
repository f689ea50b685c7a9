//! A conversation as JSON, one object per message and note.

use std::io::{self, Write};

use rethread::{MessageEvent, MessageNo, NoteEvent, Transcript, TranscriptHeader, TranscriptWriter, Visit};
use rethread_render::{MessageRow, NoteRow, ShownRow};

use crate::commands::json_line;

/// Names the command that prints a message in full, by the session and the message.
pub(super) type RestCommand<'c> = &'c dyn Fn(&str, MessageNo) -> Option<String>;

/// Writes a transcript as one JSON object per message and note.
pub(super) struct RowWriter<'a, W> {
    pub(super) out: &'a mut W,
    pub(super) transcript: &'a Transcript<'a>,
    /// The number of characters to which texts are cut.
    pub(super) limit: Option<usize>,
    pub(super) rest: RestCommand<'a>,
    pub(super) counts: &'a mut RowCounts,
}

/// The messages that were written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RowCounts {
    pub(super) messages: usize,
    pub(super) cut_chars: usize,
    pub(super) first: Option<MessageNo>,
    pub(super) last: Option<MessageNo>,
    /// The message that was written last, or that did not fit.
    pub(super) current: Option<MessageNo>,
}

impl RowCounts {
    /// Returns the row about them. `next` is the command that prints what follows.
    pub(super) fn row(&self, header: &TranscriptHeader, next: Option<String>, is_cut_off: bool) -> ShownRow {
        ShownRow {
            r#type: "shown",
            session: header.session.clone(),
            path: header.path_n,
            first: self.first,
            last: self.last,
            messages: self.messages,
            cut_chars: self.cut_chars,
            capped: is_cut_off || self.cut_chars > 0,
            next,
        }
    }
}

impl<W: Write> TranscriptWriter for RowWriter<'_, W> {
    fn raw_message(&mut self, event: &MessageEvent<'_>) -> io::Result<Visit> {
        let n = event.message.n;
        self.counts.current = Some(n);
        let mut row = MessageRow::from(event.message);
        let own = self.transcript.parts.last().map(|part| part.session);
        row.session = Some(event.session()).filter(|id| Some(*id) != own).map(str::to_owned);
        if self.limit.is_some_and(|limit| row.cut_to(limit)) {
            row.rest = (self.rest)(event.session(), n);
        }
        json_line(self.out, &row)?;
        self.counts.messages += 1;
        self.counts.cut_chars += row.cut_chars;
        self.counts.first.get_or_insert(n);
        self.counts.last = Some(n);
        Ok(Visit::Skip)
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let mut row = NoteRow::from(event.note);
        if let Some(limit) = self.limit {
            row.cut_to(limit);
        }
        json_line(self.out, &row)?;
        self.counts.cut_chars += row.cut_chars;
        Ok(())
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        self.note(event)
    }
}
