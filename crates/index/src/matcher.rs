//! Compares a query with a text, without an index.
//!
//! The index finds the same texts: both compare the same tokens. A search uses this for what is not indexed yet, to
//! find what to highlight, and tests use it as the reference.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::query::{Clause, Query};
use crate::tokens::Tokens;

/// A part of a text that matches a clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextMatch {
    /// The position of the clause in the query.
    pub(crate) clause: usize,
    /// The bytes of the text.
    pub(crate) range: Range<usize>,
}

/// A token of a clause: the position of the clause, and that of the token in it.
type TokenPlace = (usize, usize);

/// An occurrence of a token of a clause: its place, its position in the text, and its bytes.
type Occurrence = (TokenPlace, u32, Range<usize>);

/// The maximum number of matches of a pattern that are reported in one text.
const MAX_PATTERN_MATCHES: usize = 1000;

/// A query, prepared for the comparison with many texts.
#[derive(Debug)]
pub(crate) struct QueryMatcher<'q> {
    query: &'q Query,
    /// The tokens of clauses.
    tokens: FxHashMap<&'q str, Vec<TokenPlace>>,
    /// Beginnings of tokens.
    prefixes: Vec<(&'q str, TokenPlace)>,
    has_words: bool,
}

impl<'q> QueryMatcher<'q> {
    pub(crate) fn new(query: &'q Query) -> Self {
        let mut matcher =
            Self { query, tokens: FxHashMap::default(), prefixes: Vec::new(), has_words: false };
        for (clause, words) in query.clauses.iter().enumerate() {
            let Clause::Words(words) = words else { continue };
            matcher.has_words = true;
            for (at, token) in words.tokens.iter().enumerate() {
                let place = (clause, at);
                if words.is_prefix && at + 1 == words.tokens.len() {
                    matcher.prefixes.push((token, place));
                } else {
                    matcher.tokens.entry(token).or_default().push(place);
                }
            }
        }
        matcher
    }

    /// Finds all parts of a text that match a clause, in the order of their clauses.
    pub(crate) fn find(&self, text: &str) -> Vec<TextMatch> {
        let mut found = Vec::new();
        if self.has_words {
            let mut occurrences = self.occurrences(text);
            occurrences.sort_unstable_by_key(|(place, position, range)| (*place, *position, range.end));
            for (clause, words) in self.query.clauses.iter().enumerate() {
                if let Clause::Words(words) = words {
                    find_sequences(clause, words.tokens.len(), &occurrences, &mut found);
                }
            }
        }
        for (clause, pattern) in self.query.clauses.iter().enumerate() {
            if let Clause::Pattern(pattern) = pattern {
                let matches = pattern.find_iter(text).take(MAX_PATTERN_MATCHES);
                found.extend(matches.map(|found| TextMatch { clause, range: found.range() }));
            }
        }
        found
    }

    /// Finds the tokens of clauses in a text.
    fn occurrences(&self, text: &str) -> Vec<Occurrence> {
        let mut found = Vec::new();
        let (mut tokens, mut token) = (Tokens::new(text), String::new());
        while let Some(span) = tokens.next_into(&mut token) {
            let range = span.start..span.end;
            for place in self.tokens.get(&*token).into_iter().flatten() {
                found.push((*place, span.position, range.clone()));
            }
            for (prefix, place) in &self.prefixes {
                if token.starts_with(prefix) {
                    found.push((*place, span.position, range.clone()));
                }
            }
        }
        found
    }
}

/// Finds the places where the tokens of a clause are adjacent; `occurrences` must be sorted.
fn find_sequences(clause: usize, n_tokens: usize, occurrences: &[Occurrence], found: &mut Vec<TextMatch>) {
    let of_token = |at: usize| {
        let start = occurrences.partition_point(|(place, ..)| *place < (clause, at));
        let end = occurrences.partition_point(|(place, ..)| *place <= (clause, at));
        &occurrences[start..end]
    };
    let tokens: Vec<&[Occurrence]> = (0..n_tokens).map(of_token).collect();
    for (_, position, first) in tokens[0] {
        let mut end = first.end;
        let is_complete = tokens.iter().enumerate().skip(1).all(|(at, places)| {
            let wanted = position + u32::try_from(at).unwrap_or(u32::MAX);
            let next = places.partition_point(|(_, position, _)| *position < wanted);
            let here = places.get(next).filter(|(_, position, _)| *position == wanted);
            end = here.map_or(end, |(.., range)| range.end);
            here.is_some()
        });
        if is_complete {
            found.push(TextMatch { clause, range: first.start..end });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::QuerySyntax;

    fn matches(typed: &str, text: &str) -> Vec<String> {
        let parse_time = |_: &str| Err("no times".to_owned());
        let query = Query::parse(typed, &QuerySyntax { parse_time: &parse_time }).expect("a query");
        let matcher = QueryMatcher::new(&query);
        let found = matcher.find(text);
        let shown = found.into_iter().filter(|found| Some(found.clause) != query.whole_phrase);
        shown.map(|found| text[found.range].to_owned()).collect()
    }

    #[test]
    fn words_and_phrases_are_found() {
        let text = "Is the working\ntree clean? Working trees: working-tree.";
        assert_eq!(matches("\"working tree\"", text), ["working\ntree", "working-tree"]);
        assert_eq!(matches("tre*", text), ["tree", "trees", "tree"]);
        assert_eq!(matches("\"the working tree clean\"", text).len(), 1);
        assert_eq!(matches("\"tree working\"", text), [""; 0]);
        assert_eq!(matches("/tre+s?:/", text), ["trees:"]);
    }

    #[test]
    fn identifiers_match_whole_and_by_parts() {
        let text = "resolveGradientStopReferences(parse_line, parseLine)";
        assert_eq!(matches("GradientStop", text), ["GradientStop"]);
        assert_eq!(matches("parse_line", text), ["parse_line", "parseLine"]);
        assert_eq!(matches("parseline", text), ["parseLine"]);
        assert_eq!(matches("line", text), ["line", "Line"]);
        assert_eq!(matches("\"references parse\"", text), ["References(parse"]);
        assert_eq!(matches("resolveg*", text), ["resolveGradientStopReferences"]);
        assert_eq!(matches("radient", text), [""; 0]);
    }

    #[test]
    fn scripts_without_spaces_match_by_characters() {
        let text = "请检查点设置，然后 checkpoint点";
        for typed in
            ["检查", "查点", "点", "检查点设", "检查点设置", "置", "\"置 然后\"", "checkpoint点", "请"]
        {
            assert!(!matches(typed, text).is_empty(), "{typed}");
        }
        assert_eq!(matches("查设", text), [""; 0]);
        assert_eq!(matches("点设", text), ["点设"]);
    }

    #[test]
    fn punctuation_is_not_compared_in_words() {
        assert_eq!(matches("gradient.go:12", "see gradient.go:12:5"), ["gradient.go:12"]);
        assert_eq!(matches("C++ [foo", "a C++ [foo]"), ["C", "foo"]);
        assert_eq!(matches("=>", "x => y"), ["=>"]);
    }
}
