//! Finds lines that cannot match a query, without parsing them.

use aho_corasick::{AhoCorasick, AhoCorasickBuilder};
use memchr::memmem;
use regex_syntax::hir::{Hir, HirKind};

use crate::query::{Clause, Query};

/// Texts of which a line must contain one to be of interest.
#[derive(Debug)]
pub(crate) struct Prefilter {
    literals: AhoCorasick,
    /// Set if a character beyond ASCII can stand for one of ASCII, because case or compatibility forms do not count.
    folds: bool,
}

/// The shortest text that is worth looking for.
const MIN_LITERAL: usize = 2;

/// The maximum number of texts to look for.
const MAX_LITERALS: usize = 64;

impl Prefilter {
    /// Returns the filter of a query; `None` if every line may be of interest.
    pub(crate) fn new(query: &Query) -> Option<Self> {
        let wanted = query.groups.iter().flatten().chain(&query.excluded);
        let (mut literals, mut folds) = (Vec::new(), false);
        for &clause in wanted {
            match &query.clauses[clause] {
                Clause::Words(words) => {
                    let ascii = words.tokens.iter().filter(|token| token.is_ascii());
                    literals.push(ascii.max_by_key(|token| token.len())?.clone().into_bytes());
                    folds = true;
                }
                Clause::Pattern(pattern) => {
                    literals.extend(required_literals(pattern.as_str())?);
                    folds |= query.ignores_case;
                }
            }
        }
        if literals.is_empty()
            || literals.len() > MAX_LITERALS
            || literals.iter().any(|text| text.len() < MIN_LITERAL)
        {
            return None;
        }
        let literals = AhoCorasickBuilder::new().ascii_case_insensitive(folds).build(literals).ok()?;
        Some(Self { literals, folds })
    }

    /// Returns whether some bytes of a log, whole lines, may match.
    pub(crate) fn may_match(&self, lines: &[u8]) -> bool {
        self.literals.is_match(lines) || self.has_other_spellings(lines)
    }

    /// Returns whether some bytes may contain a text in another spelling: escaped, or with characters that fold to it.
    fn has_other_spellings(&self, lines: &[u8]) -> bool {
        self.folds && !lines.is_ascii() || memmem::find(lines, b"\\u").is_some()
    }
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
            let found = parts.iter().filter_map(|part| required_in(part, depth + 1));
            found.max_by_key(|texts| texts.iter().map(Vec::len).min())
        }
        HirKind::Alternation(parts) => {
            let found: Option<Vec<_>> = parts.iter().map(|part| required_in(part, depth + 1)).collect();
            found.map(|texts| texts.concat()).filter(|texts| texts.len() <= MAX_LITERALS)
        }
        _ => None,
    }
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
            ("(foo|barbaz)x*", "foo|barbaz"),
            ("(foo|[a-z])x*", ""),
            ("a?bcd", "bcd"),
            ("(?i)foo", ""),
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
        let any_case =
            Prefilter::new(&Query::pattern("worktree", true).expect("a pattern")).expect("a filter");
        assert!(any_case.may_match(b"the WorkTree"));
        assert!(any_case.may_match("wor\u{212a}tree".as_bytes()), "the Kelvin sign is a K");
    }
}
