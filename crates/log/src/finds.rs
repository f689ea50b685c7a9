//! What was found in a piece of a log, to be taken by somebody else later.
//!
//! Taking lines apart needs nothing but the lines, so pieces can be taken apart on several threads at
//! once; what is made of the entries then depends on their order. [`Finds`] carries what was found from
//! one to the other, in a fraction of the room that a [`Line`] for each entry would take.

use crate::line::{BlockSpans, Line, MessageSpans, Span};
use crate::names::{Key, Kind};
use crate::read::{Content, Defect, Entry, Scanner, Sink};

/// The entries of a piece and their parts.
#[derive(Debug, Default)]
pub struct Finds {
    entries: Vec<Find>,
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
struct Find {
    number: u32,
    line: u32,
    len: usize,
    content: Content,
    behind: bool,
    before: bool,
    kind: Option<Kind>,
    message: Option<MessageSpans>,
    /// Where its parts end in the tables.
    fields: u32,
    blocks: u32,
    unknown: u32,
}

/// A place in a table.
fn place(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Finds {
    /// Takes a piece of whole lines apart; `first` says that a log begins with it.
    pub fn of(piece: &[u8], first: bool) -> Self {
        let mut finds = Self::default();
        finds.look_at(piece, first);
        finds
    }

    /// The same, in place of what was found before.
    pub fn look_at(&mut self, piece: &[u8], first: bool) {
        let finds = self;
        finds.entries.clear();
        finds.fields.clear();
        finds.blocks.clear();
        finds.unknown.clear();
        finds.defects.clear();
        let mut scanner = if first { Scanner::default() } else { Scanner::inside() };
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
    pub(crate) fn give(&self, piece: &[u8], from: &mut Giving<'_>, sink: &mut impl Sink) {
        let mut defects = self.defects.iter().peekable();
        let mut at = 0;
        for (n, find) in self.entries.iter().enumerate() {
            while let Some((_, defect)) = defects.next_if(|(after, _)| *after <= n) {
                sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
            }
            let line = &mut *from.parts;
            self.parts(n, line);
            let entry = Entry {
                number: if find.number > 0 { from.number + find.number } else { 0 },
                line: from.line + find.line,
                offset: from.offset + at as u64,
                raw: &piece[at..at + find.len],
                content: find.content,
                behind: find.behind,
                before: find.before,
            };
            sink.entry(&entry, line);
            at += find.len;
        }
        for (_, defect) in defects {
            sink.defect(Defect { line: from.line + defect.line, ..defect.clone() });
        }
    }
}

impl Finds {
    /// Returns the parts of an entry, by its place among all.
    fn parts(&self, n: usize, line: &mut Line) {
        let find = &self.entries[n];
        let [fields, blocks, unknown] = self.starts(n);
        line.fill(
            find.kind,
            find.message,
            &self.fields[fields..find.fields as usize],
            &self.blocks[blocks..find.blocks as usize],
            &self.unknown[unknown..find.unknown as usize],
        );
    }

    /// Where the parts of an entry begin in the tables.
    fn starts(&self, n: usize) -> [usize; 3] {
        let before = n.checked_sub(1).map(|before| &self.entries[before]);
        before.map_or([0; 3], |find| [find.fields, find.blocks, find.unknown].map(|at| at as usize))
    }
}

/// What was read before a piece, and room for the parts of its entries.
pub(crate) struct Giving<'p> {
    pub(crate) number: u32,
    pub(crate) line: u32,
    pub(crate) offset: u64,
    pub(crate) parts: &'p mut Line,
}

impl Sink for Finds {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        self.fields.extend(line.fields());
        self.blocks.extend_from_slice(&line.blocks);
        self.unknown.extend_from_slice(&line.unknown);
        self.entries.push(Find {
            number: entry.number,
            line: entry.line,
            len: entry.raw.len(),
            content: entry.content,
            behind: entry.behind,
            before: entry.before,
            kind: line.kind,
            message: line.message,
            fields: place(self.fields.len()),
            blocks: place(self.blocks.len()),
            unknown: place(self.unknown.len()),
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
    struct Told(String);

    impl Sink for Told {
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
            let (mut read, mut given) = (Told::default(), Told::default());
            let (mut reads, mut gives) = (Scanner::default(), Scanner::default());
            let mut start = 0;
            for cut in cuts {
                let mut piece = lines[start..cut].concat();
                if cut == lines.len() {
                    piece += end;
                }
                start = cut;
                reads.scan(piece.as_bytes(), &mut read);
                gives.take(piece.as_bytes(), &Finds::of(piece.as_bytes(), gives.lines() == 0), &mut given);
            }
            prop_assert_eq!(read.0, given.0);
            prop_assert_eq!((reads.lines(), reads.bad_lines), (gives.lines(), gives.bad_lines));
        }
    }
}
