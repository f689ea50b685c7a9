//! The parsed entries of one piece of a log, for later use.
//!
//! Parsing a line needs nothing but the line, so several threads can parse pieces at once; building a
//! model from the entries depends on their order. [`ParsedChunk`] carries the parsed entries from one
//! stage to the other, in a fraction of the memory that a [`Line`] per entry would need.

use crate::line::{BlockSpans, Line, MessageSpans, Span};
use crate::names::{EntryKind, Key};
use crate::read::{Defect, Entry, EntryContent, Scanner, Sink};

/// The entries of a piece and their parts.
#[derive(Debug, Default)]
pub struct ParsedChunk {
    entries: Vec<ParsedEntry>,
    fields: Vec<(Key, Span)>,
    blocks: Vec<BlockSpans>,
    unknown: Vec<Span>,
    /// Defects, each with the number of entries before it.
    defects: Vec<(usize, Defect)>,
    pub(crate) lines: u32,
    pub(crate) objects: u32,
    pub(crate) bad_lines: u32,
}

#[derive(Debug, Clone)]
struct ParsedEntry {
    number: u32,
    line: u32,
    len: usize,
    content: EntryContent,
    preceded: bool,
    followed: bool,
    kind: Option<EntryKind>,
    message: Option<MessageSpans>,
    /// The end of its parts in the tables of the piece.
    fields_end: u32,
    blocks_end: u32,
    unknown_end: u32,
}

/// Converts an index into one of the tables.
fn saturating_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl ParsedChunk {
    /// Parses a piece of whole lines. `first` marks the first piece of a log.
    pub fn parse(piece: &[u8], first: bool) -> Self {
        let mut chunk = Self::default();
        chunk.reparse(piece, first);
        chunk
    }

    /// Parses another piece and reuses the memory of this one.
    pub fn reparse(&mut self, piece: &[u8], first: bool) {
        let chunk = self;
        chunk.entries.clear();
        chunk.fields.clear();
        chunk.blocks.clear();
        chunk.unknown.clear();
        chunk.defects.clear();
        let mut scanner = if first { Scanner::default() } else { Scanner::after_first_line() };
        let before = scanner.lines();
        scanner.scan_all(piece, chunk);
        chunk.lines = scanner.lines() - before;
        chunk.objects = scanner.objects();
        chunk.bad_lines = scanner.bad_lines;
        if !first {
            chunk.entries.iter_mut().for_each(|parsed| parsed.line -= before);
            chunk.defects.iter_mut().for_each(|(_, defect)| defect.line -= before);
        }
    }

    /// Passes everything to a sink, with numbers that continue after those of `from`.
    pub(crate) fn emit_to(&self, piece: &[u8], from: &mut EmitContext<'_>, sink: &mut impl Sink) {
        let mut defects = self.defects.iter().peekable();
        let mut at = 0;
        for (n, parsed) in self.entries.iter().enumerate() {
            while let Some((_, defect)) = defects.next_if(|(after, _)| *after <= n) {
                sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
            }
            let line = &mut *from.line_buffer;
            self.fill_line(n, line);
            let entry = Entry {
                number: if parsed.number > 0 { from.number + parsed.number } else { 0 },
                line: from.line + parsed.line,
                offset: from.offset + at as u64,
                raw: &piece[at..at + parsed.len],
                content: parsed.content,
                preceded: parsed.preceded,
                followed: parsed.followed,
            };
            sink.entry(&entry, line);
            at += parsed.len;
        }
        for (_, defect) in defects {
            sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
        }
    }
}

impl ParsedChunk {
    /// Fills `line` with the parts of entry `n` of the piece.
    fn fill_line(&self, n: usize, line: &mut Line) {
        let parsed = &self.entries[n];
        let [fields, blocks, unknown] = self.part_starts(n);
        line.fill(
            parsed.kind,
            parsed.message,
            &self.fields[fields..parsed.fields_end as usize],
            &self.blocks[blocks..parsed.blocks_end as usize],
            &self.unknown[unknown..parsed.unknown_end as usize],
        );
    }

    /// Returns the start of an entry's parts in the tables.
    fn part_starts(&self, n: usize) -> [usize; 3] {
        let before = n.checked_sub(1).map(|before| &self.entries[before]);
        before.map_or([0; 3], |parsed| {
            [parsed.fields_end, parsed.blocks_end, parsed.unknown_end].map(|at| at as usize)
        })
    }
}

/// The state of the scanner before a piece, and a buffer for the parts of an entry.
pub(crate) struct EmitContext<'p> {
    pub(crate) number: u32,
    pub(crate) line: u32,
    pub(crate) offset: u64,
    pub(crate) line_buffer: &'p mut Line,
}

impl Sink for ParsedChunk {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        self.fields.extend(line.fields());
        self.blocks.extend_from_slice(&line.blocks);
        self.unknown.extend_from_slice(&line.unknown);
        self.entries.push(ParsedEntry {
            number: entry.number,
            line: entry.line,
            len: entry.raw.len(),
            content: entry.content,
            preceded: entry.preceded,
            followed: entry.followed,
            kind: line.kind,
            message: line.message,
            fields_end: saturating_u32(self.fields.len()),
            blocks_end: saturating_u32(self.blocks.len()),
            unknown_end: saturating_u32(self.unknown.len()),
        });
    }

    fn defect(&mut self, defect: Defect) {
        self.defects.push((self.entries.len(), defect));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records every call to a sink.
    #[derive(Default)]
    struct SinkRecorder(String);

    impl Sink for SinkRecorder {
        fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
            self.0 += &format!("{entry:?} {line:?}\n");
        }

        fn defect(&mut self, defect: Defect) {
            self.0 += &format!("{defect}\n");
        }
    }

    proptest! {
        #[test]
        fn parsed_chunks_emit_the_same_as_a_direct_scan(
            lines in prop::collection::vec(prop::sample::select(vec![
                "{\"type\":\"user\",\"uuid\":\"a\",\"new\":1,\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}}\n",
                "{\"a\":1}{\"type\":\"mode\"}\n", "\u{feff}{}\n", "null\n", "\n", "\0\0\n", "{\"type\":\"us\n", "  {\"b\":2}\r\n", "é\n",
            ]), 0..20),
            cuts in prop::collection::vec(0..20usize, 0..4),
            end in prop::sample::select(vec!["", "{\"type\":\"as", "{}"]),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(lines.len())).collect();
            cuts.sort_unstable();
            cuts.push(lines.len());
            let (mut scanned, mut emitted) = (SinkRecorder::default(), SinkRecorder::default());
            let (mut scanner, mut emitter) = (Scanner::default(), Scanner::default());
            let mut start = 0;
            for cut in cuts {
                let mut piece = lines[start..cut].concat();
                if cut == lines.len() {
                    piece += end;
                }
                start = cut;
                scanner.scan(piece.as_bytes(), &mut scanned);
                emitter.scan_parsed(piece.as_bytes(), &ParsedChunk::parse(piece.as_bytes(), emitter.lines() == 0), &mut emitted);
            }
            prop_assert_eq!(scanned.0, emitted.0);
            prop_assert_eq!((scanner.lines(), scanner.bad_lines), (emitter.lines(), emitter.bad_lines));
        }
    }
}
