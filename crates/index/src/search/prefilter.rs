//! Finds lines that cannot match a query, without parsing them.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use memchr::memmem;
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use crate::query::{Clause, Query};

/// Texts of which a line must contain one to be of interest.
#[derive(Debug)]
pub(crate) struct Prefilter {
    literals: AhoCorasick,
    folding: Folding,
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
                    literals.extend(required_literals(pattern.as_str())?);
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
        let ignores_case = folding > Folding::Exact;
        let literals = AhoCorasickBuilder::new().ascii_case_insensitive(ignores_case).build(literals).ok()?;
        Some(Self { literals, folding })
    }

    /// Returns whether some bytes of a log, whole lines, may match.
    pub(crate) fn may_match(&self, lines: &[u8]) -> bool {
        self.literals.is_match(lines) || self.has_other_spellings(lines)
    }

    /// Returns whether some bytes may contain a text in another spelling: escaped, or with characters that fold to it.
    fn has_other_spellings(&self, lines: &[u8]) -> bool {
        let folds = match self.folding {
            Folding::Exact => false,
            Folding::Case => CASE_FOLDS.iter().any(|c| memmem::find(lines, c.as_bytes()).is_some()),
            Folding::Compatibility => !lines.is_ascii(),
        };
        folds || has_escape(lines, |code| self.is_of_interest(code))
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

/// Returns whether JSON contains a `\u` escape of a character of interest, or a broken one.
fn has_escape(lines: &[u8], is_of_interest: impl Fn(u16) -> bool) -> bool {
    memmem::find_iter(lines, b"\\u").any(|at| {
        let backslashes = lines[..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
        let digits = lines.get(at + 2..at + 6).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
        backslashes % 2 == 0 && code.is_none_or(&is_of_interest)
    })
}

/// Returns texts of which every match of a pattern contains one, as they are in a log.
fn required_literals(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let hir = regex_syntax::Parser::new().parse(pattern).ok()?;
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
        let found = required_literals(pattern).unwrap_or_default();
        found.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect::<Vec<_>>().join("|")
    }

    #[test]
    fn literals_are_required_by_every_match() {
        for (pattern, expected) in [
            ("ckpt_[a-z]+_id", "ckpt_"),
            ("(foo|barbaz)+qux", "qux"),
            ("work(ing|ed) tree[s.]", "working trees|working tree.|worked trees|worked tree."),
            (r"\w+(a|b)cd\w+", "acd|bcd"),
            (r"[ab]\n(c|d)e", "ce|de"),
            ("(foo|barbaz)x*", "foo|barbaz"),
            ("(foo|[a-z])x*", ""),
            ("a?bcd", "bcd"),
            ("(?i)fo", "FO|Fo|fO|fo"),
            ("(?i)ks", ""),
            (r#"say \"hello\""#, "hello"),
            ("naïve text", "ve text"),
            ("x", ""),
            ("foo{0,3}", "fo"),
            (r"\bword\b", "word"),
        ] {
            assert_eq!(required(pattern), expected, "{pattern}");
        }
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
        for other in [&b"\\u001b[1m"[..], b"w\\\\u006frktree", "wor\u{212a}tree".as_bytes(), b"wor\\u212Atree"] {
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
