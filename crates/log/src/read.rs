//! Splits bytes into entries.
//!
//! Every byte of a file belongs to exactly one [`Entry`]; joined in order, the entries are the file.
//! Reading never fails. Invalid input is reported as a [`Defect`] next to the data, and the caller
//! decides whether a defect matters.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::line::Line;
use crate::names::EntryKind;
use crate::parsed_chunk::{EmitContext, ParsedChunk};
use crate::scan::{ScanError, Walker};

/// The content of an entry's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryContent {
    /// A JSON object, which can be parsed into a [`Line`].
    Object,
    /// Only white space.
    Blank,
    /// A JSON value other than an object (`null`, a number, an array).
    Value,
    /// Bytes that are not JSON.
    Junk,
}

/// One object of a log with the bytes around it, or a run of bytes without an object.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The number of the object in its file, from 1; 0 if there is no object. Numbers do not change when
    /// the file grows.
    pub number: u32,
    /// The number of its line, from 1.
    pub line: u32,
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// Its bytes, including the newline if it is the last on its line.
    pub raw: &'a [u8],
    /// The kind of content.
    pub content: EntryContent,
    /// Set if other content precedes it on its line: an object, torn bytes, NUL bytes.
    pub preceded: bool,
    /// Set if other content follows it on its line.
    pub followed: bool,
}

impl Entry<'_> {
    /// Parses the object again, for an entry that was kept after reading.
    ///
    /// Returns `false` and leaves `line` empty if the entry is not an object.
    pub fn parse(&self, line: &mut Line) -> bool {
        self.content == EntryContent::Object && line.parse(self.raw, object_start(self.raw)).is_ok()
    }
}

/// Parses the object in the bytes of one entry; leaves `line` empty if there is none.
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

/// Returns the number of bytes before the object: a byte order mark, white space, NUL bytes left by a
/// crash.
fn object_start(raw: &[u8]) -> usize {
    raw.iter().position(|&b| b == b'{').unwrap_or(raw.len())
}

/// The kinds of defects in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DefectKind {
    /// A line ends inside its object: a torn write, or one in progress.
    CutShort,
    /// A line is not JSON.
    NotJson,
    /// A line is JSON, but not an object.
    NotObject,
    /// A line is `null`, which some clients cannot read.
    NullLine,
    /// A line contains NUL bytes outside any object, as left by a crash.
    NulBytes,
    /// A line contains more than one object.
    SeveralObjects,
    /// A line is not UTF-8.
    InvalidUtf8,
    /// A line of 4 GiB or more, which is kept but not parsed.
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

/// A fault in a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Defect {
    /// The number of the line, from 1.
    pub line: u32,
    /// The kind of defect.
    pub kind: DefectKind,
    /// A description for people.
    pub detail: String,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.line, self.detail)
    }
}

/// Receives the entries and defects that a [`Scanner`] finds.
pub trait Sink {
    /// Receives the next entry. `line` contains its parts if it is an object and is empty otherwise.
    fn entry(&mut self, entry: &Entry<'_>, line: &Line);

    /// Receives a defect, after the entry it belongs to.
    fn defect(&mut self, defect: Defect);
}

/// Passes everything to both sinks, to the first one first.
impl<A: Sink, B: Sink> Sink for (&mut A, &mut B) {
    fn entry(&mut self, entry: &Entry<'_>, line: &Line) {
        self.0.entry(entry, line);
        self.1.entry(entry, line);
    }

    fn defect(&mut self, defect: Defect) {
        self.0.defect(defect.clone());
        self.1.defect(defect);
    }
}

/// Reads a log piece by piece, in memory that does not grow with the log.
///
/// Between two pieces it can be stored, and continue later with the next piece.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Scanner {
    line: u32,
    offset: u64,
    number: u32,
    /// The number of lines that are not blank and contain no object.
    pub bad_lines: u32,
    #[serde(skip)]
    parts: Line,
    /// An empty line, passed to the sink for entries without an object.
    #[serde(skip)]
    no_parts: Line,
}

impl Scanner {
    /// Returns the number of lines read so far, including a last line without a newline.
    pub fn lines(&self) -> u32 {
        self.line
    }

    /// Creates a scanner for the part of a log from the beginning of a line on. It counts entries and lines from there.
    pub fn starting_at(offset: u64) -> Self {
        Self { offset, line: u32::from(offset > 0), ..Self::default() }
    }

    /// Returns the number of bytes read so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the number of objects read so far.
    pub(crate) fn objects(&self) -> u32 {
        self.number
    }

    /// Creates a scanner for the middle of a log, after its first line.
    pub(crate) fn after_first_line() -> Self {
        Self { line: 1, ..Self::default() }
    }

    /// Emits the entries of a parsed piece, as if it scanned the piece itself.
    pub fn scan_parsed(&mut self, piece: &[u8], chunk: &ParsedChunk, sink: &mut impl Sink) {
        let (number, line, offset) = (self.number, self.line, self.offset);
        chunk.emit_to(piece, &mut EmitContext { number, line, offset, line_buffer: &mut self.parts }, sink);
        self.number += chunk.objects;
        self.line += chunk.lines;
        self.offset += piece.len() as u64;
        self.bad_lines += chunk.bad_lines;
    }

    /// Reads whole lines. Only the last piece of a file may end without a newline.
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

    /// Reads a whole log in memory, piece by piece, so that each piece is processed while it is in the
    /// CPU cache.
    pub fn scan_all(&mut self, bytes: &[u8], sink: &mut impl Sink) {
        const PIECE: usize = 1 << 17;
        let mut rest = bytes;
        while rest.len() > PIECE {
            // A line longer than a piece becomes one piece.
            let end = memchr::memrchr(b'\n', &rest[..PIECE])
                .or_else(|| memchr::memchr(b'\n', &rest[PIECE..]).map(|at| PIECE + at));
            let Some(end) = end else { break };
            self.scan(&rest[..=end], sink);
            rest = &rest[end + 1..];
        }
        self.scan(rest, sink);
    }

    /// Reads whole lines like [`Self::scan`], but parses only those of interest; the others are counted. `find` returns
    /// a position in the first line of interest. Objects are not numbered, and defects of other lines are not reported.
    pub fn scan_lines_where(
        &mut self,
        mut find: impl FnMut(&[u8]) -> Option<usize>,
        bytes: &[u8],
        sink: &mut impl Sink,
    ) {
        let mut rest = bytes;
        while let Some(found) = find(rest) {
            let start = memchr::memrchr(b'\n', &rest[..found]).map_or(0, |at| at + 1);
            let end = memchr::memchr(b'\n', &rest[found..]).map_or(rest.len(), |at| found + at + 1);
            self.skip_lines(&rest[..start]);
            self.scan_line(&rest[start..end], true, sink);
            rest = &rest[end..];
        }
        self.skip_lines(rest);
    }

    /// Counts lines without parsing them.
    fn skip_lines(&mut self, bytes: &[u8]) {
        let newlines = memchr::memchr_iter(b'\n', bytes).count();
        let lines = newlines + usize::from(bytes.last().is_some_and(|&last| last != b'\n'));
        self.line += lines as u32;
        self.offset += bytes.len() as u64;
    }

    fn scan_line(&mut self, raw: &[u8], clean: bool, sink: &mut impl Sink) {
        self.line += 1;
        let numbered = self.number;
        let bad = if u32::try_from(raw.len()).is_err() {
            self.emit(raw, EntryContent::Junk, (false, false), sink);
            self.report_defect(sink, DefectKind::TooLong, "line is 4 GiB or longer and is not parsed");
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

    /// Splits a line into entries; returns whether any part of it is invalid.
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
                        let detail = "line contains more than one object; clients lose all of them or all but the first";
                        self.report_defect(sink, DefectKind::SeveralObjects, detail);
                    }
                    start += end;
                }
                Err(broken) => {
                    let next = self.entry_after_torn_bytes(rest, first + 1);
                    // Bytes before another entry are a write that was interrupted.
                    let broken = if next.is_some() { ScanError::CutShort } else { broken };
                    self.emit_junk(&rest[..next.unwrap_or(rest.len())], broken, sink);
                    match next {
                        Some(next) => start += next,
                        None => return true,
                    }
                }
            }
        }
    }

    /// Finds a complete entry after torn bytes: one that begins as clients begin entries and extends
    /// to the end of the line. A line without a newline may still grow, so its parts are not split: entry
    /// numbers must never change.
    fn entry_after_torn_bytes(&mut self, line: &[u8], from: usize) -> Option<usize> {
        if !line.ends_with(b"\n") || serde_json::from_slice::<IgnoredAny>(line.trim_ascii()).is_ok() {
            return None;
        }
        // Each attempt costs a pass over the rest of the line, so there are only a few.
        let starts = memchr::memchr_iter(b'{', &line[from..]).map(|at| from + at);
        let starts = starts.filter(|&at| looks_like_entry(&line[at..])).take(8).collect::<Vec<_>>();
        let to_the_end = |end: usize| content_start(&line[end..], false) == line.len() - end;
        starts.into_iter().find(|&at| self.parse_strictly(line, at).is_ok_and(to_the_end))
    }

    fn emit_blank_or_nuls(&mut self, rest: &[u8], preceded: bool, sink: &mut impl Sink) -> bool {
        if rest.is_empty() {
            return false;
        }
        let nuls = rest.contains(&0);
        self.emit(rest, if nuls { EntryContent::Junk } else { EntryContent::Blank }, (preceded, false), sink);
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
            ScanError::CutShort => self.report_defect(sink, DefectKind::CutShort, "line is truncated"),
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

    /// Parses the object at `first`, and validates it with a strict parser if the fast one found it
    /// suspicious.
    fn parse_strictly(&mut self, raw: &[u8], first: usize) -> Result<usize, ScanError> {
        let (end, suspicious) = self.parts.parse(raw, first)?;
        if suspicious && serde_json::from_slice::<IgnoredAny>(&raw[first..end]).is_err() {
            return Err(ScanError::NotJson);
        }
        Ok(end)
    }
}

/// Returns the start of the content: after white space, NUL bytes and, on the first line, a byte order
/// mark.
fn content_start(bytes: &[u8], first_line: bool) -> usize {
    let mark = if first_line && bytes.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let rest = &bytes[mark..];
    mark + rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0)).unwrap_or(rest.len())
}

/// Returns whether bytes begin like an entry: tree entries begin with their parent, all others with their
/// type.
fn looks_like_entry(bytes: &[u8]) -> bool {
    let kind = || {
        let name = bytes.strip_prefix(br#"{"type":""#)?;
        EntryKind::from_name(name.split(|&b| b == b'"').next()?)
    };
    bytes.starts_with(br#"{"parentUuid":"#) || kind().is_some()
}

/// A log in memory, parsed as a whole.
#[derive(Debug, Default)]
pub struct ParsedLog<'a> {
    /// All entries in file order. Their `raw` bytes, joined, are the file.
    pub entries: Vec<Entry<'a>>,
    /// The defects of the log.
    pub defects: Vec<Defect>,
}

/// Parses a log in memory.
pub fn read(bytes: &[u8]) -> ParsedLog<'_> {
    struct EntryCollector<'a> {
        bytes: &'a [u8],
        read: ParsedLog<'a>,
    }
    impl Sink for EntryCollector<'_> {
        fn entry(&mut self, entry: &Entry<'_>, _: &Line) {
            // The entry borrows from the scanner's view; borrow the same bytes from the original.
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

/// Returns the end of the value at the start of `bytes`; used by the fuzzer to compare with a strict
/// parser.
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
    fn invalid_lines_are_kept() {
        assert_snapshot!(check("{}\nnot json\n{\"type\":\"us"),
            @"3 entries, 1 objects; 2: line is not JSON; 3: line is truncated");
    }

    #[test]
    fn malformed_lines_are_reported() {
        assert_snapshot!(check("\u{feff}{\"a\":1}\r\n\r\n  \n{\"b\":2}\r\n"), @"4 entries, 2 objects; ");
        assert_snapshot!(check("null\n[1]\n7\n"),
            @"3 entries, 0 objects; 1: line is `null`, not an object; 2: line is `[1]`, not an object; 3: line is `7`, not an object");
        assert_snapshot!(check("\0\0\0\n\0\0{\"a\":1}\n{\"a\":1}\0\0\n"),
            @"4 entries, 2 objects; 1: NUL bytes instead of an entry; 2: NUL bytes before the entry; 3: NUL bytes instead of an entry");
        assert_snapshot!(check(b"{\"a\":\"\xff\"}\n"), @"1 entries, 1 objects; 1: line is not UTF-8");
        assert_snapshot!(check(r#"{"a":"\ud800"}"#), @"1 entries, 1 objects; ");
    }

    #[test]
    fn several_objects_on_one_line_are_all_read() {
        assert_snapshot!(check("{\"a\":1}{\"b\":2} {\"c\":3}\n{}\n"),
            @"4 entries, 4 objects; 1: line contains more than one object; clients lose all of them or all but the first; 1: line contains more than one object; clients lose all of them or all but the first");
        assert_snapshot!(check("{\"a\":1}{\"type\":\"us\n"),
            @"2 entries, 1 objects; 1: line contains more than one object; clients lose all of them or all but the first; 1: line is truncated");
        assert_snapshot!(check("{\"a\":1}junk\n"), @"2 entries, 1 objects; 1: line is not JSON");
    }

    #[test]
    fn entry_after_torn_bytes_is_found() {
        let torn =
            "{\"parentUuid\":\"p\",\"message\":{\"content\":\"half a sen{\"type\":\"mode\",\"mode\":\"x\"}\n";
        assert_snapshot!(check(torn), @"2 entries, 1 objects; 1: line is truncated");
        let deeper = "{\"parentUuid\":\"p\",\"toolUseResult\":{\"stdout\":\"half {\"parentUuid\":null,\"type\":\"user\"}\n";
        assert_snapshot!(check(deeper), @"2 entries, 1 objects; 1: line is truncated");
        // The blocks of a torn message are not entries, however many there are.
        let blocks = r#"{"type":"text","text":"a"},"#.repeat(12);
        let torn = format!("{{\"parentUuid\":\"p\",\"message\":{{\"content\":[{blocks}{{\"type\":\"te");
        assert_eq!(check(format!("{torn}\n")), "1 entries, 0 objects; 1: line is truncated");
        assert_eq!(
            check(format!("{torn}{{\"parentUuid\":null}}\n")),
            "2 entries, 1 objects; 1: line is truncated"
        );
    }

    #[test]
    fn unfinished_line_is_one_entry_before_and_after_it_grows() {
        let whole = r#"{"parentUuid":"p","snapshot":{"type":"mode"},"data":{"type":"user"}}"#;
        for cut in 1..whole.len() {
            let read = read(&whole.as_bytes()[..cut]);
            assert!(read.entries.len() == 1 && read.entries[0].number == 0, "{cut}");
        }
        assert_snapshot!(check("[{\"type\":\"user\"}]\n"), @"1 entries, 0 objects; 1: line is `[{\"type\":\"user\"}]`, not an object");
    }

    #[test]
    fn invalid_json_is_not_an_entry() {
        for line in
            ["{\"a\":tru}", "{\"a\":01}", "{\"a\":\"raw\ttab\"}", "{\"a\":{\"b\":\"c\"d}}", "{\"a\":1,}"]
        {
            assert!(serde_json::from_str::<IgnoredAny>(line).is_err());
            assert_eq!(check(line), "1 entries, 0 objects; 1: line is not JSON", "{line}");
        }
    }

    #[test]
    fn deeply_nested_and_long_lines_are_read() {
        let deep = format!("{{\"a\":{}{}}}\n", "[".repeat(10_000), "]".repeat(10_000));
        assert_snapshot!(check(deep), @"1 entries, 1 objects; ");
        let long = format!("{{\"a\":\"{}\"}}\n", "x".repeat(5_000_000));
        assert_snapshot!(check(long), @"1 entries, 1 objects; ");
    }

    #[test]
    fn many_torn_starts_cost_few_passes() {
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
        fn no_byte_of_a_log_like_input_is_lost(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "\"", "\\", ":", ",", "[", "]", "\n", "\r\n", "\0", " ", "null", "1", "\u{feff}",
                "{\"type\":\"user\"}", "{\"type\":\"", "{\"parentUuid\":", "\"a\":", "é", "\\u12", "\\ud800",
            ]), 0..60)
        ) {
            check(parts.concat());
        }

        /// A line is one entry exactly if a strict parser accepts it as an object.
        #[test]
        fn agrees_with_a_strict_parser(
            parts in prop::collection::vec(prop::sample::select(vec![
                "{", "}", "\"a\"", ":", ",", "[", "]", "1", "-0.5e1", "tru", "true", "null", "\"\\n\"", " ", "\"",
            ]), 0..12)
        ) {
            let line = parts.concat();
            let strict = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&line).is_ok();
            let read = read(line.as_bytes());
            let is_one_object = read.entries.len() == 1 && read.entries[0].content == EntryContent::Object;
            if strict {
                prop_assert!(is_one_object, "{line}");
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
