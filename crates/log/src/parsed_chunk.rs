//! What was found in a piece of a log, to be taken by somebody else later.
//!
//! Taking lines apart needs nothing but the lines, so pieces can be taken apart on several threads at
//! once; what is made of the entries then depends on their order. [`ParsedChunk`] carries what was found from
//! one to the other, in a fraction of the room that a [`Line`] for each entry would take.

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
    /// Where its parts end in the tables.
    fields_end: u32,
    blocks_end: u32,
    unknown_end: u32,
}

/// A place in a table.
fn saturating_u32(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl ParsedChunk {
    /// Takes a piece of whole lines apart; `first` says that a log begins with it.
    pub fn parse(piece: &[u8], first: bool) -> Self {
        let mut finds = Self::default();
        finds.reparse(piece, first);
        finds
    }

    /// The same, in place of what was found before.
    pub fn reparse(&mut self, piece: &[u8], first: bool) {
        let finds = self;
        finds.entries.clear();
        finds.fields.clear();
        finds.blocks.clear();
        finds.unknown.clear();
        finds.defects.clear();
        let mut scanner = if first { Scanner::default() } else { Scanner::after_first_line() };
        let before = scanner.lines();
        scanner.scan_all(piece, finds);
        finds.lines = scanner.lines() - before;
        finds.objects = scanner.objects();
        finds.bad_lines = scanner.bad_lines;
        if !first {
            finds.entries.iter_mut().for_each(|find| find.line -= before);
            finds.defects.iter_mut().for_each(|(_, defect)| defect.line -= before);
        }
    }

    /// Gives everything to a sink, with the numbers that follow what `from` has read.
    pub(crate) fn emit_to(&self, piece: &[u8], from: &mut EmitContext<'_>, sink: &mut impl Sink) {
        let mut defects = self.defects.iter().peekable();
        let mut at = 0;
        for (n, find) in self.entries.iter().enumerate() {
            while let Some((_, defect)) = defects.next_if(|(after, _)| *after <= n) {
                sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
            }
            let line = &mut *from.line_buffer;
            self.fill_line(n, line);
            let entry = Entry {
                number: if find.number > 0 { from.number + find.number } else { 0 },
                line: from.line + find.line,
                offset: from.offset + at as u64,
                raw: &piece[at..at + find.len],
                content: find.content,
                preceded: find.preceded,
                followed: find.followed,
            };
            sink.entry(&entry, line);
            at += find.len;
        }
        for (_, defect) in defects {
            sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
        }
    }
}

impl ParsedChunk {
    /// Returns the parts of an entry, by its place among all.
    fn fill_line(&self, n: usize, line: &mut Line) {
        let find = &self.entries[n];
        let [fields, blocks, unknown] = self.part_starts(n);
        line.fill(
            find.kind,
            find.message,
            &self.fields[fields..find.fields_end as usize],
            &self.blocks[blocks..find.blocks_end as usize],
            &self.unknown[unknown..find.unknown_end as usize],
        );
    }

    /// Where the parts of an entry begin in the tables.
    fn part_starts(&self, n: usize) -> [usize; 3] {
        let before = n.checked_sub(1).map(|before| &self.entries[before]);
        before
            .map_or([0; 3], |find| [find.fields_end, find.blocks_end, find.unknown_end].map(|at| at as usize))
    }
}

/// What was read before a piece, and room for the parts of its entries.
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

    /// Everything that a sink is told.
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
        fn what_was_found_is_told_as_if_it_were_read(
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
            let (mut read, mut given) = (SinkRecorder::default(), SinkRecorder::default());
            let (mut reads, mut gives) = (Scanner::default(), Scanner::default());
            let mut start = 0;
            for cut in cuts {
                let mut piece = lines[start..cut].concat();
                if cut == lines.len() {
                    piece += end;
                }
                start = cut;
                reads.scan(piece.as_bytes(), &mut read);
                gives.scan_parsed(piece.as_bytes(), &ParsedChunk::parse(piece.as_bytes(), gives.lines() == 0), &mut given);
            }
            prop_assert_eq!(read.0, given.0);
            prop_assert_eq!((reads.lines(), reads.bad_lines), (gives.lines(), gives.bad_lines));
        }
    }
}
