//! Bytes to entries.
//!
//! Every byte of a file belongs to exactly one [`Entry`]: joined in order they are the file again.
//! Reading never fails. What could not be understood is told as a [`Defect`] beside the data, and it
//! is the caller who decides whether a defect matters.

use serde::de::IgnoredAny;

use crate::line::Line;
use crate::names::EntryKind;
use crate::parsed_chunk::{EmitContext, ParsedChunk};
use crate::scan::{ScanError, Walker};

/// What an entry's bytes turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryContent {
    /// A JSON object: the entry can be parsed into a [`Line`].
    Object,
    /// Nothing but white space.
    Blank,
    /// A JSON value that is no object (`null`, a number, a list).
    Value,
    /// Bytes that are not JSON.
    Junk,
}

/// One object of a log with the bytes around it, or a stretch of bytes that holds none.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The number of the object in its file, from 1; 0 for what holds no object. A file that grows
    /// never renumbers.
    pub number: u32,
    /// The line it stands on, from 1.
    pub line: u32,
    /// Where its bytes begin in the file.
    pub offset: u64,
    /// Its bytes, with the line's end if it is the last on its line.
    pub raw: &'a [u8],
    /// What the bytes are.
    pub content: EntryContent,
    /// Something else than white space stands on its line before it: an object, torn bytes, NUL bytes.
    pub preceded: bool,
    /// Something else than white space stands on its line behind it.
    pub followed: bool,
}

impl Entry<'_> {
    /// Finds the parts of the object again, for an entry that was kept after reading.
    ///
    /// Returns `false` and leaves `line` empty if the entry is no object.
    pub fn parse(&self, line: &mut Line) -> bool {
        self.content == EntryContent::Object && line.parse(self.raw, object_start(self.raw)).is_ok()
    }
}

/// Finds the parts of the object that the bytes of one entry hold; leaves `line` empty if there is none.
pub fn parse_entry(raw: &[u8], line: &mut Line) {
    let entry = Entry {
        number: 1,
        line: 1,
        offset: 0,
        raw,
        content: EntryContent::Object,
        preceded: false,
        followed: false,
    };
    entry.parse(line);
}

/// The number of bytes before the object: a byte order mark, white space, the NUL bytes of a crash.
fn object_start(raw: &[u8]) -> usize {
    raw.iter().position(|&b| b == b'{').unwrap_or(raw.len())
}

/// What can be wrong with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DefectKind {
    /// A line ends inside its object: a torn write, or one still under way.
    CutShort,
    /// A line is not JSON.
    NotJson,
    /// A line is JSON, but no object.
    NotObject,
    /// A line is `null`, which some clients cannot read.
    NullLine,
    /// A line holds NUL bytes outside any object, as a crash leaves them.
    NulBytes,
    /// A line holds more than one object.
    SeveralObjects,
    /// A line is not UTF-8.
    InvalidUtf8,
    /// A line has 4 GiB or more; it is kept and not looked into.
    TooLong,
    /// Two entries have the same uuid.
    DuplicateUuid,
    /// An entry's parent is not in the file.
    DanglingParent,
    /// An entry is its own ancestor.
    Cycle,
    /// A user or assistant entry has no uuid or no message.
    Incomplete,
}

impl DefectKind {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::CutShort => "cut_short",
            Self::NotJson => "not_json",
            Self::NotObject | Self::NullLine => "not_object",
            Self::NulBytes => "nul_bytes",
            Self::SeveralObjects => "several_objects",
            Self::InvalidUtf8 => "invalid_utf8",
            Self::TooLong => "too_long",
            Self::DuplicateUuid => "duplicate_uuid",
            Self::DanglingParent => "dangling_parent",
            Self::Cycle => "cycle",
            Self::Incomplete => "incomplete",
        }
    }
}

/// Something in a log that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Defect {
    /// The line it was seen on, from 1.
    pub line: u32,
    /// What is wrong.
    pub kind: DefectKind,
    /// The same in words.
    pub detail: String,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.line, self.detail)
    }
}

/// Takes what a [`Scanner`] finds.
pub trait Sink {
    /// Takes the next entry. `line` has its parts if it is an object and is empty otherwise.
    fn entry(&mut self, entry: &Entry<'_>, line: &Line);

    /// Takes a defect, after the entry it belongs to.
    fn defect(&mut self, defect: Defect);
}

/// Reads a log piece by piece, in memory that does not grow with it.
#[derive(Debug, Default)]
pub struct Scanner {
    line: u32,
    offset: u64,
    number: u32,
    /// How many lines gave no object though they were not blank.
    pub bad_lines: u32,
    parts: Line,
    /// The parts of no object, lent for what holds none.
    no_parts: Line,
}

impl Scanner {
    /// Returns the number of lines read so far; a last line without an end counts.
    pub fn lines(&self) -> u32 {
        self.line
    }

    /// Returns the number of objects read so far.
    pub(crate) fn objects(&self) -> u32 {
        self.number
    }

    /// Begins somewhere inside of a log, behind its first line.
    pub(crate) fn after_first_line() -> Self {
        Self { line: 1, ..Self::default() }
    }

    /// Takes what was found in a piece, as if it read it.
    pub fn scan_parsed(&mut self, piece: &[u8], finds: &ParsedChunk, sink: &mut impl Sink) {
        let (number, line, offset) = (self.number, self.line, self.offset);
        finds.emit_to(piece, &mut EmitContext { number, line, offset, line_buffer: &mut self.parts }, sink);
        self.number += finds.objects;
        self.line += finds.lines;
        self.offset += piece.len() as u64;
        self.bad_lines += finds.bad_lines;
    }

    /// Reads whole lines; only the last piece of a file may end without a line's end.
    pub fn scan(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        let clean = simdutf8::basic::from_utf8(bytes).is_ok();
        let mut start = 0;
        for end in memchr::memchr_iter(b'\n', bytes) {
            self.scan_line(&bytes[start..=end], clean, sink);
            start = end + 1;
        }
        if start < bytes.len() {
            self.scan_line(&bytes[start..], clean, sink);
        }
    }

    /// Reads a whole log that is in memory, a piece at a time, so that each is looked at while it is in
    /// the processor's cache.
    pub fn scan_all(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        const PIECE: usize = 1 << 17;
        let mut rest = bytes;
        while rest.len() > PIECE {
            // A line longer than a piece is a piece of its own.
            let end = memchr::memrchr(b'\n', &rest[..PIECE])
                .or_else(|| memchr::memchr(b'\n', &rest[PIECE..]).map(|at| PIECE + at));
            let Some(end) = end else { break };
            self.scan(&rest[..=end], sink);
            rest = &rest[end + 1..];
        }
        self.scan(rest, sink);
    }

    fn scan_line(&mut self, raw: &[u8], clean: bool, sink: &mut impl Sink) {
        self.line += 1;
        let numbered = self.number;
        let bad = if u32::try_from(raw.len()).is_err() {
            self.emit(raw, EntryContent::Junk, (false, false), sink);
            self.report_defect(sink, DefectKind::TooLong, "line has 4 GiB or more and is not looked into");
            true
        } else {
            self.scan_objects(raw, sink)
        };
        if bad && self.number == numbered {
            self.bad_lines += 1;
        }
        if !clean && simdutf8::basic::from_utf8(raw).is_err() {
            self.report_defect(sink, DefectKind::InvalidUtf8, "line is not UTF-8");
        }
    }

    /// Takes a line apart; returns whether any of it could not be understood.
    fn scan_objects(&mut self, raw: &[u8], sink: &mut impl Sink) -> bool {
        let mut start = 0;
        loop {
            let rest = &raw[start..];
            let first = content_start(rest, self.line == 1 && start == 0);
            if first == rest.len() {
                return self.emit_blank_or_nuls(rest, start > 0, sink);
            }
            let parsed =
                if rest[first] == b'{' { self.parse_strictly(rest, first) } else { Err(ScanError::NotJson) };
            match parsed {
                Ok(end) => {
                    let nuls = rest[..first].contains(&0);
                    let after = content_start(&rest[end..], false);
                    let alone = end + after == rest.len() && !rest[end..].contains(&0);
                    let piece = if alone { rest } else { &rest[..end] };
                    self.emit(piece, EntryContent::Object, (start > 0 || nuls, !alone), sink);
                    if nuls {
                        self.report_defect(sink, DefectKind::NulBytes, "NUL bytes before the entry");
                    }
                    if alone {
                        return false;
                    }
                    if rest.get(end + after) == Some(&b'{') {
                        let detail = "line holds more than one object; clients lose all or all but the first";
                        self.report_defect(sink, DefectKind::SeveralObjects, detail);
                    }
                    start += end;
                }
                Err(broken) => {
                    let next = self.entry_after_torn_bytes(rest, first + 1);
                    self.emit_junk(&rest[..next.unwrap_or(rest.len())], broken, sink);
                    match next {
                        Some(next) => start += next,
                        None => return true,
                    }
                }
            }
        }
    }

    /// Finds the entry that a torn line runs into: one that begins as clients begin them and goes to
    /// the end of the line. A line without an end may still be written to, so nothing is made of its
    /// parts: the numbers of entries never change.
    fn entry_after_torn_bytes(&mut self, line: &[u8], from: usize) -> Option<usize> {
        if !line.ends_with(b"\n") || serde_json::from_slice::<IgnoredAny>(line.trim_ascii()).is_ok() {
            return None;
        }
        // Each try costs a pass over the rest of the line, so there are few.
        let starts = memchr::memchr_iter(b'{', &line[from..]).map(|at| from + at);
        let starts = starts.filter(|&at| looks_like_entry(&line[at..])).take(8).collect::<Vec<_>>();
        let to_the_end = |end: usize| content_start(&line[end..], false) == line.len() - end;
        starts.into_iter().find(|&at| self.parse_strictly(line, at).is_ok_and(to_the_end))
    }

    fn emit_blank_or_nuls(&mut self, rest: &[u8], glued: bool, sink: &mut impl Sink) -> bool {
        if rest.is_empty() {
            return false;
        }
        let nuls = rest.contains(&0);
        self.emit(rest, if nuls { EntryContent::Junk } else { EntryContent::Blank }, (glued, false), sink);
        if nuls {
            self.report_defect(sink, DefectKind::NulBytes, "NUL bytes instead of an entry");
        }
        nuls
    }

    fn emit_junk(&mut self, piece: &[u8], broken: ScanError, sink: &mut impl Sink) {
        let trimmed = piece.trim_ascii();
        if serde_json::from_slice::<IgnoredAny>(trimmed).is_ok() {
            self.emit(piece, EntryContent::Value, (false, false), sink);
            let shown = String::from_utf8_lossy(&trimmed[..trimmed.len().min(20)]).into_owned();
            let kind = if trimmed == b"null" { DefectKind::NullLine } else { DefectKind::NotObject };
            self.report_defect(sink, kind, &format!("line is `{shown}`, not an object"));
            return;
        }
        self.emit(piece, EntryContent::Junk, (false, false), sink);
        match broken {
            ScanError::CutShort => self.report_defect(sink, DefectKind::CutShort, "line is cut short"),
            ScanError::NotJson => self.report_defect(sink, DefectKind::NotJson, "line is not JSON"),
        }
    }

    fn emit(&mut self, raw: &[u8], content: EntryContent, around: (bool, bool), sink: &mut impl Sink) {
        let object = content == EntryContent::Object;
        self.number += u32::from(object);
        let entry = Entry {
            number: if object { self.number } else { 0 },
            line: self.line,
            offset: self.offset,
            raw,
            content,
            preceded: around.0,
            followed: around.1,
        };
        sink.entry(&entry, if object { &self.parts } else { &self.no_parts });
        self.offset += raw.len() as u64;
    }

    fn report_defect(&self, sink: &mut impl Sink, kind: DefectKind, detail: &str) {
        sink.defect(Defect { line: self.line, kind, detail: detail.to_owned() });
    }

    /// Parses the object at `first`; asks a strict parser where the quick one saw something odd.
    fn parse_strictly(&mut self, raw: &[u8], first: usize) -> Result<usize, ScanError> {
        let (end, suspicious) = self.parts.parse(raw, first)?;
        if suspicious && serde_json::from_slice::<IgnoredAny>(&raw[first..end]).is_err() {
            return Err(ScanError::NotJson);
        }
        Ok(end)
    }
}

/// Returns where content begins: behind white space, NUL bytes and, at the start of a file, a byte
/// order mark.
fn content_start(bytes: &[u8], first_line: bool) -> usize {
    let mark = if first_line && bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let rest = &bytes[mark..];
    mark + rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0)).unwrap_or(rest.len())
}

/// Entries of the tree begin with their parent, all others with their type.
fn looks_like_entry(bytes: &[u8]) -> bool {
    let kind = || {
        let name = bytes.strip_prefix(br#"{"type":""#)?;
        EntryKind::from_name(name.split(|&b| b == b'"').next()?)
    };
    bytes.starts_with(br#"{"parentUuid":"#) || kind().is_some()
}

/// A log in memory, read as a whole.
#[derive(Debug, Default)]
pub struct ParsedLog<'a> {
    /// Everything in the file, in order: the `raw` parts joined are the file.
    pub entries: Vec<Entry<'a>>,
    /// What could not be understood.
    pub defects: Vec<Defect>,
}

/// Reads a log that is in memory.
pub fn read(bytes: &[u8]) -> ParsedLog<'_> {
    struct EntryCollector<'a> {
        bytes: &'a [u8],
        read: ParsedLog<'a>,
    }
    impl Sink for EntryCollector<'_> {
        fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
            // The entry borrows the scanner's view; take the same bytes from the original.
            let start = usize::try_from(entry.offset).expect("it is in memory");
            let raw = &self.bytes[start..start + entry.raw.len()];
            self.read.entries.push(Entry { raw, ..*entry });
        }

        fn defect(&mut self, defect: Defect) {
            self.read.defects.push(defect);
        }
    }
    let mut collect = EntryCollector { bytes, read: ParsedLog::default() };
    Scanner::default().scan(bytes, &mut collect);
    collect.read
}

/// Steps over one value and tells whether bytes follow it; used by the fuzzer to compare with a
/// strict parser.
#[doc(hidden)]
pub fn value_end(bytes: &[u8]) -> Option<usize> {
    Walker::new(bytes).value_end(0).ok()
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn check(log: impl AsRef<[u8]>) -> String {
        let log = log.as_ref();
        let read = read(log);
        let joined: Vec<u8> = read.entries.iter().flat_map(|e| e.raw).copied().collect();
        assert_eq!(joined, log, "no byte is lost");
        let objects = read.entries.iter().filter(|e| e.content == EntryContent::Object).count();
        let defects: Vec<_> = read.defects.iter().map(ToString::to_string).collect();
        format!("{} entries, {objects} objects; {}", read.entries.len(), defects.join("; "))
    }

    #[test]
    fn keeps_what_it_cannot_parse() {
        assert_snapshot!(check("{}\nnot json\n{\"type\":\"us"),
            @"3 entries, 1 objects; 2: line is not JSON; 3: line is cut short");
    }

    #[test]
    fn odd_lines_are_named() {
        assert_snapshot!(check("\u{feff}{\"a\":1}\r\n\r\n  \n{\"b\":2}\r\n"), @"4 entries, 2 objects; ");
        assert_snapshot!(check("null\n[1]\n7\n"),
            @"3 entries, 0 objects; 1: line is `null`, not an object; 2: line is `[1]`, not an object; 3: line is `7`, not an object");
        assert_snapshot!(check("\0\0\0\n\0\0{\"a\":1}\n{\"a\":1}\0\0\n"),
            @"4 entries, 2 objects; 1: NUL bytes instead of an entry; 2: NUL bytes before the entry; 3: NUL bytes instead of an entry");
        assert_snapshot!(check(b"{\"a\":\"\xff\"}\n"), @"1 entries, 1 objects; 1: line is not UTF-8");
        assert_snapshot!(check(r#"{"a":"\ud800"}"#), @"1 entries, 1 objects; ");
    }

    #[test]
    fn objects_on_one_line_are_all_read() {
        assert_snapshot!(check("{\"a\":1}{\"b\":2} {\"c\":3}\n{}\n"),
            @"4 entries, 4 objects; 1: line holds more than one object; clients lose all or all but the first; 1: line holds more than one object; clients lose all or all but the first");
        assert_snapshot!(check("{\"a\":1}{\"type\":\"us\n"),
            @"2 entries, 1 objects; 1: line holds more than one object; clients lose all or all but the first; 1: line is cut short");
        assert_snapshot!(check("{\"a\":1}junk\n"), @"2 entries, 1 objects; 1: line is not JSON");
    }

    #[test]
    fn an_entry_behind_a_torn_line_is_found() {
        let torn =
            "{\"parentUuid\":\"p\",\"message\":{\"content\":\"half a sen{\"type\":\"mode\",\"mode\":\"x\"}\n";
        assert_snapshot!(check(torn), @"2 entries, 1 objects; 1: line is not JSON");
        let deeper = "{\"parentUuid\":\"p\",\"toolUseResult\":{\"stdout\":\"half {\"parentUuid\":null,\"type\":\"user\"}\n";
        assert_snapshot!(check(deeper), @"2 entries, 1 objects; 1: line is cut short");
        // The blocks of a torn message are not entries, however many there are.
        let blocks = r#"{"type":"text","text":"a"},"#.repeat(12);
        let torn = format!("{{\"parentUuid\":\"p\",\"message\":{{\"content\":[{blocks}{{\"type\":\"te");
        assert_eq!(check(format!("{torn}\n")), "1 entries, 0 objects; 1: line is cut short");
        assert_eq!(
            check(format!("{torn}{{\"parentUuid\":null}}\n")),
            "2 entries, 1 objects; 1: line is not JSON"
        );
    }

    #[test]
    fn a_line_that_is_still_written_is_one_entry_then_and_later() {
        let whole = r#"{"parentUuid":"p","snapshot":{"type":"mode"},"data":{"type":"user"}}"#;
        for cut in 1..whole.len() {
            let read = read(&whole.as_bytes()[..cut]);
            assert!(read.entries.len() == 1 && read.entries[0].number == 0, "{cut}");
        }
        assert_snapshot!(check("[{\"type\":\"user\"}]\n"), @"1 entries, 0 objects; 1: line is `[{\"type\":\"user\"}]`, not an object");
    }

    #[test]
    fn what_no_strict_parser_takes_is_not_an_entry() {
        for line in
            ["{\"a\":tru}", "{\"a\":01}", "{\"a\":\"raw\ttab\"}", "{\"a\":{\"b\":\"c\"d}}", "{\"a\":1,}"]
        {
            assert!(serde_json::from_str::<IgnoredAny>(line).is_err());
            assert_eq!(check(line), "1 entries, 0 objects; 1: line is not JSON", "{line}");
        }
    }

    #[test]
    fn depth_and_length_are_no_obstacle() {
        let deep = format!("{{\"a\":{}{}}}\n", "[".repeat(10_000), "]".repeat(10_000));
        assert_snapshot!(check(deep), @"1 entries, 1 objects; ");
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(5_000_000));
        assert_snapshot!(check(long), @"1 entries, 1 objects; ");
    }

    #[test]
    fn many_torn_starts_cost_no_more_than_a_few_passes() {
        let line = r#"{"type":""#.repeat(100_000);
        let read = read(line.as_bytes());
        assert!(read.entries.len() < 20);
    }

    proptest! {
        #[test]
        fn no_byte_is_lost(log: Vec<u8>) {
            check(log);
        }

        #[test]
        fn no_byte_of_something_like_a_log_is_lost(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "\"", "\\", ":", ",", "[", "]", "\n", "\r\n", "\0", " ", "null", "1", "\u{feff}",
                "{\"type\":\"user\"}", "{\"type\":\"", "{\"parentUuid\":", "\"a\":", "é", "\\u12", "\\ud800",
            ]), 0..60)
        ) {
            check(parts.concat());
        }

        /// Whatever a strict parser takes as an object is one entry, and nothing else on a line is.
        #[test]
        fn agrees_with_a_strict_parser(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "\"a\"", ":", ",", "[", "]", "1", "-0.5e1", "tru", "true", "null", "\"\\n\"", " ", "\"",
            ]), 0..12)
        ) {
            let line = parts.concat();
            let strict = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&line).is_ok();
            let read = read(line.as_bytes());
            let whole = read.entries.len() == 1 && read.entries[0].content == EntryContent::Object;
            if strict {
                prop_assert!(whole, "{line}");
            }
        }

        #[test]
        fn pieces_read_like_the_whole(lines in prop::collection::vec("[{}\"a:, \0]{0,12}", 0..20), cut: prop::sample::Index) {
            let text: String = lines.iter().map(|l| format!("{l}\n")).collect();
            let cut: usize = lines[..cut.index(lines.len() + 1)].iter().map(|l| l.len() + 1).sum();
            struct EntryRecorder(String);
            impl Sink for EntryRecorder {
                fn entry(&mut self, e: &Entry<'_>, _: &Line) {
                    self.0 += &format!("{} {} {} {:?} {:?}\n", e.number, e.line, e.offset, e.content, e.raw);
                }
                fn defect(&mut self, d: Defect) { self.0 += &format!("{d}\n"); }
            }
            let mut whole = EntryRecorder(String::new());
            Scanner::default().scan(text.as_bytes(), &mut whole);
            let mut pieces = EntryRecorder(String::new());
            let mut scanner = Scanner::default();
            scanner.scan(&text.as_bytes()[..cut], &mut pieces);
            scanner.scan(&text.as_bytes()[cut..], &mut pieces);
            prop_assert_eq!(whole.0, pieces.0);
        }
    }
}
