//! Finds lines that cannot match a query, without parsing them.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, packed};
use memchr::memmem;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use crate::query::{Clause, Query};

/// Texts of which a line must contain one to be of interest.
#[derive(Debug)]
pub(crate) struct Prefilter {
    literals: LiteralFinder,
    folding: Folding,
    /// Finds [`MARKS`], and characters that fold to one of ASCII if they are few.
    marks: LiteralFinder,
}

/// The beginnings of what stands in a log otherwise than it is searched: escapes, and titles, which may have Markdown.
const MARKS: [&[u8]; 3] = [b"\\u", b"Title\":", b"\"summary\":"];

/// The element around a message between agents, which may be JSON inside a text.
const TEAM_MESSAGE: &[u8] = b"<teammate-message";

/// Returns what a log has instead of a text if the client's markup is in the middle of it: `/deploy now` is the name and the
/// arguments of a command, `! ls` is in an element.
fn joints(literal: &[u8]) -> Vec<Vec<u8>> {
    let spaces = literal.iter().enumerate().filter(|(_, byte)| **byte == b' ');
    let mut joints: Vec<Vec<u8>> = spaces.map(|(at, _)| [&literal[..at], b"</command-"].concat()).collect();
    if matches!(literal.first(), Some(b' ' | b'!' | b'#')) {
        joints.extend([b"<bash-input".to_vec(), b"<user-memory-input".to_vec()]);
    }
    joints
}

/// Looks for several texts at once.
#[derive(Debug)]
enum LiteralFinder {
    /// Compares many bytes at a time.
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

impl LiteralFinder {
    fn new(literals: &[Vec<u8>], ignores_case: bool) -> Option<Self> {
        let packed = if ignores_case { None } else { packed::Searcher::new(literals) };
        let automaton = || AhoCorasickBuilder::new().ascii_case_insensitive(ignores_case).build(literals);
        packed.map(Self::Packed).or_else(|| automaton().ok().map(Self::Automaton))
    }

    fn find(&self, bytes: &[u8]) -> Option<usize> {
        match self {
            Self::Packed(searcher) => searcher.find(bytes).map(|found| found.start()),
            Self::Automaton(automaton) => automaton.find(bytes).map(|found| found.start()),
        }
    }
}

/// The characters beyond ASCII that can stand for one of ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Folding {
    /// None: a text is compared as it is.
    Exact,
    /// The long s and the Kelvin sign, because case does not count.
    Case,
    /// Any, because compatibility forms do not count, and some characters are ignored.
    Compatibility,
}

/// The shortest text that is worth looking for.
const MIN_LITERAL: usize = 2;

/// The maximum number of texts to look for.
const MAX_LITERALS: usize = 64;

impl Prefilter {
    /// Returns the filter of a query; `None` if every line may be of interest.
    pub(crate) fn new(query: &Query) -> Option<Self> {
        if query.groups.is_empty() {
            return None;
        }
        let wanted = query.groups.iter().flatten().chain(&query.excluded);
        let (mut literals, mut folding) = (Vec::new(), Folding::Exact);
        for &clause in wanted {
            match &query.clauses[clause] {
                Clause::Words(words) => {
                    let ascii = words.tokens.iter().filter(|token| token.is_ascii());
                    literals.push(ascii.max_by_key(|token| token.len())?.clone().into_bytes());
                    folding = Folding::Compatibility;
                }
                Clause::Pattern(pattern) => {
                    literals.extend(required_literals(pattern.as_str(), query.ignores_case)?);
                    folding = folding.max(if query.ignores_case { Folding::Case } else { Folding::Exact });
                }
            }
        }
        if literals.is_empty()
            || literals.len() > MAX_LITERALS
            || literals.iter().any(|text| text.len() < MIN_LITERAL)
        {
            return None;
        }
        let joints: Vec<Vec<u8>> = literals.iter().flat_map(|literal| joints(literal)).collect();
        literals.extend(joints);
        literals.push(TEAM_MESSAGE.to_vec());
        let literals = LiteralFinder::new(&literals, folding > Folding::Exact)?;
        let folds = if folding == Folding::Case { &CASE_FOLDS[..] } else { &[] };
        let marks = MARKS.into_iter().chain(folds.iter().map(|c| c.as_bytes()));
        let marks = LiteralFinder::new(&marks.map(<[u8]>::to_vec).collect::<Vec<_>>(), false)?;
        Some(Self { literals, folding, marks })
    }

    /// Returns whether some bytes of a log, whole lines, may match.
    pub(crate) fn may_match(&self, lines: &[u8]) -> bool {
        self.literals.find(lines).is_some()
            || self.find_mark(lines).is_some()
            || self.folding == Folding::Compatibility && !lines.is_ascii()
    }

    /// Begins to look for lines that may match.
    pub(crate) fn lines(&self) -> LineFinder<'_> {
        let [literal, mark, folded] = <[NextPlace; 3]>::default();
        LineFinder { filter: self, literal, mark, folded }
    }

    /// Finds a character that may fold to one of ASCII, if any can.
    fn find_folded(&self, lines: &[u8]) -> Option<usize> {
        match self.folding {
            Folding::Compatibility => lines.iter().position(|byte| !byte.is_ascii()),
            Folding::Exact | Folding::Case => None,
        }
    }

    /// Finds an escape, a title or a character that may stand for a text.
    fn find_mark(&self, lines: &[u8]) -> Option<usize> {
        let mut start = 0;
        while let Some(found) = self.marks.find(&lines[start..]) {
            let at = start + found;
            let is_of_interest = match lines[at] {
                b'\\' => is_escape_at(lines, at, |code| self.is_of_interest(code)),
                0x80.. => true,
                _ => has_markup_at(&lines[at..]),
            };
            if is_of_interest {
                return Some(at);
            }
            start = at + 1;
        }
        None
    }

    /// Returns whether an escaped character can be part of a text that is looked for.
    fn is_of_interest(&self, code: u16) -> bool {
        match self.folding {
            _ if (0x20..0x7f).contains(&code) => true,
            Folding::Exact => false,
            Folding::Case => CASE_FOLDS.iter().any(|c| c.encode_utf16().eq([code])),
            Folding::Compatibility => code >= 0x7f,
        }
    }
}

/// The characters beyond ASCII that are letters of ASCII in the other case.
const CASE_FOLDS: [&str; 2] = ["\u{17f}", "\u{212a}"];

/// Returns whether a `\u` in JSON is the escape of a character of interest, or broken.
fn is_escape_at(lines: &[u8], at: usize, is_of_interest: impl Fn(u16) -> bool) -> bool {
    let backslashes = lines[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
    let digits = lines.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
    let code = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    backslashes % 2 == 0 && code.is_none_or(is_of_interest)
}

/// Returns whether the value of a field may have Markdown, or white space that is shown as a single blank.
fn has_markup_at(field: &[u8]) -> bool {
    let Some(colon) = memchr::memchr(b':', field) else { return false };
    let value = field[colon + 1..].trim_ascii_start();
    let Some(text) = value.strip_prefix(b"\"") else { return false };
    let text = &text[..memchr::memchr(b'"', text).unwrap_or(text.len())];
    let is_markup =
        |byte: &u8| matches!(byte, b'*' | b'_' | b'`' | b'~' | b'[' | b'\\' | b'<' | b'#' | b'>' | b'|');
    text.iter().any(is_markup) || memmem::find(text, b"  ").is_some()
}

/// Finds the lines of some bytes that may match, one after the other, in a time that is linear in their length.
#[derive(Debug)]
pub(crate) struct LineFinder<'p> {
    filter: &'p Prefilter,
    literal: NextPlace,
    mark: NextPlace,
    folded: NextPlace,
}

impl LineFinder<'_> {
    /// Returns a place in the first line that may match. `rest` is the end of what was passed before.
    pub(crate) fn find(&mut self, rest: &[u8]) -> Option<usize> {
        let literal = self.literal.find(rest, |rest| self.filter.literals.find(rest));
        let mark = self.mark.find(rest, |rest| self.filter.find_mark(rest));
        let folded = self.folded.find(rest, |rest| self.filter.find_folded(rest));
        literal.into_iter().chain(mark).chain(folded).min()
    }
}

/// A place that was found, and is passed later.
#[derive(Debug, Default)]
enum NextPlace {
    #[default]
    Unknown,
    /// The number of bytes from it to the end.
    BeforeEnd(usize),
    Nowhere,
}

impl NextPlace {
    fn find(&mut self, rest: &[u8], find: impl Fn(&[u8]) -> Option<usize>) -> Option<usize> {
        let is_ahead = match self {
            Self::Unknown => false,
            Self::BeforeEnd(distance) => *distance <= rest.len(),
            Self::Nowhere => true,
        };
        if !is_ahead {
            *self = find(rest).map_or(Self::Nowhere, |at| Self::BeforeEnd(rest.len() - at));
        }
        match self {
            Self::BeforeEnd(distance) => Some(rest.len() - *distance),
            _ => None,
        }
    }
}

/// Returns texts of which every match of a pattern contains one, as they are in a log.
fn required_literals(pattern: &str, ignores_case: bool) -> Option<Vec<Vec<u8>>> {
    // With the options with which patterns are compiled: case also changes what a set of characters contains.
    let mut parser =
        regex_syntax::ParserBuilder::new().multi_line(true).case_insensitive(ignores_case).build();
    let hir = parser.parse(pattern).ok()?;
    required_in(&hir, 0)
}

/// The depth of a pattern beyond which nothing is looked for.
const MAX_DEPTH: usize = 50;

fn required_in(hir: &Hir, depth: usize) -> Option<Vec<Vec<u8>>> {
    if depth > MAX_DEPTH {
        return None;
    }
    match hir.kind() {
        HirKind::Literal(literal) => longest_plain(&literal.0).map(|text| vec![text.to_vec()]),
        HirKind::Capture(capture) => required_in(&capture.sub, depth + 1),
        HirKind::Repetition(repetition) if repetition.min > 0 => required_in(&repetition.sub, depth + 1),
        HirKind::Concat(parts) => {
            let of_parts = parts.iter().filter_map(|part| required_in(part, depth + 1));
            let of_runs = (0..parts.len().min(MAX_RUNS)).filter_map(|start| beginnings(&parts[start..]));
            of_parts.chain(of_runs).max_by_key(|texts| texts.iter().map(Vec::len).min())
        }
        HirKind::Alternation(parts) => {
            let found: Option<Vec<_>> = parts.iter().map(|part| required_in(part, depth + 1)).collect();
            found.map(|texts| texts.concat()).filter(|texts| texts.len() <= MAX_LITERALS)
        }
        _ => None,
    }
}

/// The maximum number of parts of a pattern at which a literal may begin, and that it may consist of.
const MAX_RUNS: usize = 20;

/// Returns the texts with which a match of adjacent parts of a pattern can begin, if they are few: `work(ing|ed) t` begins
/// with `working t` or `worked t`.
fn beginnings(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let run = Hir::concat(parts.iter().take(MAX_RUNS).cloned().collect());
    let found = Extractor::new().limit_total(MAX_LITERALS).extract(&run);
    let texts = found.literals()?.iter().map(|text| longest_plain(text.as_bytes()).map(<[u8]>::to_vec));
    let texts: Vec<Vec<u8>> = texts.collect::<Option<_>>()?;
    (!texts.is_empty()).then_some(texts)
}

/// Returns the longest part of a text that no JSON writer escapes, except as `\u`.
fn longest_plain(text: &[u8]) -> Option<&[u8]> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\' | b'/');
    text.split(|&byte| !is_plain(byte)).filter(|part| part.len() >= MIN_LITERAL).max_by_key(|part| part.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn required(pattern: &str) -> String {
        let mut found = required_literals(pattern, false).unwrap_or_default();
        found.sort();
        found.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn literals_are_required_by_every_match() {
        for (pattern, expected) in [
            ("ckpt_[a-z]+_id", "ckpt_"),
            ("(foo|barbaz)+qux", "qux"),
            ("work(ing|ed) tree[s.]", "worked tree.|worked trees|working tree.|working trees"),
            (r"\w+(a|b)cd\w+", "acd|bcd"),
            (r"[ab]\n(c|d)e", "ce|de"),
            ("(foo|barbaz)x*", "barbaz|barbazx|foo|foox"),
            ("(foo|[a-z])x*", ""),
            ("a?bcd", "bcd"),
            ("(?i)fo", "FO|Fo|fO|fo"),
            ("(?i)ks", ""),
            (r#"say \"hello\""#, "hello"),
            ("naïve text", "ve text"),
            ("x", ""),
            ("foo{0,3}", "fo|foo"),
            (r"\bword\b", "word"),
        ] {
            assert_eq!(required(pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn lines_that_may_match_are_found_in_their_order() {
        let filter =
            Prefilter::new(&Query::pattern("worktree", false).expect("a pattern")).expect("a filter");
        let lines =
            b"none\na worktree\nnone\n\\u0077orktree\nworktree worktree\n\\u0041 \\u0041\nnone\nworktree";
        let (mut finder, mut rest, mut found) = (filter.lines(), &lines[..], Vec::new());
        while let Some(at) = finder.find(rest) {
            let end =
                rest[at..].iter().position(|&byte| byte == b'\n').map_or(rest.len(), |end| at + end + 1);
            found.push(rest.len() - end);
            rest = &rest[end..];
        }
        let line_ends: Vec<usize> = (0..lines.len()).filter(|&at| lines[at] == b'\n').collect();
        let expected = [1, 3, 4, 5].map(|line| lines.len() - line_ends[line] - 1);
        assert_eq!(found, [&expected[..], &[0]].concat());
    }

    #[test]
    fn lines_in_other_spellings_are_kept() {
        let pattern =
            Prefilter::new(&Query::pattern("worktree", false).expect("a pattern")).expect("a filter");
        assert!(pattern.may_match(b"the worktree"));
        assert!(!pattern.may_match(b"the Worktree \xc3\xa9"));
        assert!(pattern.may_match(b"the w\\u006frktree"));
        assert!(pattern.may_match(b"the w\\\\\\u006frktree"), "after an escaped backslash");
        assert!(pattern.may_match(b"the w\\u00"), "not JSON");
        for other in
            [&b"\\u001b[1m"[..], b"w\\\\u006frktree", "wor\u{212a}tree".as_bytes(), b"wor\\u212Atree"]
        {
            assert!(!pattern.may_match(other), "{}", other.escape_ascii());
        }
        let any_case =
            Prefilter::new(&Query::pattern("worktree", true).expect("a pattern")).expect("a filter");
        assert!(any_case.may_match(b"the WorkTree"));
        assert!(any_case.may_match("wor\u{212a}tree".as_bytes()), "the Kelvin sign is a K");
        assert!(any_case.may_match(b"wor\\u212Atree"));
        assert!(!any_case.may_match("wörk\u{2026} \\u001b \\u2026".as_bytes()));
    }
}
