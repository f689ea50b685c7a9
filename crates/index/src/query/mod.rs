//! Queries: what was typed, as clauses and filters.
//!
//! A query is a sequence of words. Nothing is a syntax error: what is not one of the few operators is text. Only a known
//! field name before a colon is a field, and a field whose value is unknown is the one error there is.

mod filters;
mod parse;

use std::ops::Range;

use regex::Regex;

use crate::tokens::Tokens;
pub use filters::{FieldValue, Filters, MessagePlaces, TextSources};
pub(crate) use parse::distance;
pub use parse::{QueryError, QueryErrorKind, QuerySyntax};

/// A parsed query.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The conditions on texts.
    pub(crate) clauses: Vec<Clause>,
    /// Alternatives, as positions in `clauses`. A message must match one of each group.
    pub(crate) groups: Vec<Vec<usize>>,
    /// Clauses that a message must not match.
    pub(crate) excluded: Vec<usize>,
    /// All words as one phrase, to rank messages that contain it higher.
    pub(crate) whole_phrase: Option<usize>,
    /// Set if upper and lower case are the same to its patterns.
    pub(crate) ignores_case: bool,
    /// The number of words beyond the limit, which are not searched.
    pub ignored_words: usize,
    /// The messages to consider.
    pub filters: Filters,
}

/// One thing to find in a text.
#[derive(Debug, Clone)]
pub(crate) enum Clause {
    /// Adjacent tokens.
    Words(WordSequence),
    /// A regular expression over the text as a person reads it.
    Pattern(Regex),
}

/// Adjacent tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordSequence {
    /// The tokens, folded.
    pub(crate) tokens: Vec<String>,
    /// Set if the last one may be the beginning of a token.
    pub(crate) is_prefix: bool,
}

impl WordSequence {
    /// Splits a text into tokens; returns `None` if it has none.
    pub(crate) fn new(text: &str, is_prefix: bool) -> Option<Self> {
        let (mut spans, mut token) = (Tokens::new(text), String::new());
        let mut tokens: Vec<String> = Vec::new();
        let mut last_of_run = false;
        while let Some(span) = spans.next_into(&mut token) {
            // The parts of an identifier stand for the whole, which has the position of the first part.
            if span.position as usize == tokens.len() {
                tokens.push(token.clone());
                last_of_run = span.is_last_of_run && span.end == text.trim_end().len();
            }
        }
        if last_of_run {
            // The last character of a text may be followed by another one in the texts that are searched.
            let has_pair = tokens.len() > 1 && tokens[tokens.len() - 2].ends_with(&*tokens[tokens.len() - 1]);
            return match has_pair {
                true => {
                    tokens.pop();
                    Some(Self { tokens, is_prefix: false })
                }
                false => Some(Self { tokens, is_prefix: true }),
            };
        }
        (!tokens.is_empty()).then_some(Self { tokens, is_prefix })
    }
}

impl Query {
    /// The maximum number of words; what is typed beyond it is not searched.
    pub const MAX_GROUPS: usize = 64;

    /// Creates a query that finds a regular expression.
    pub fn pattern(pattern: &str, ignore_case: bool) -> Result<Self, QueryError> {
        Self::from_pattern(pattern, pattern, ignore_case)
    }

    /// Creates a query that finds exactly this text.
    pub fn fixed(text: &str, ignore_case: bool) -> Result<Self, QueryError> {
        Self::from_pattern(text, &regex::escape(text), ignore_case)
    }

    fn from_pattern(typed: &str, pattern: &str, ignore_case: bool) -> Result<Self, QueryError> {
        let pattern = parse::compile(pattern, ignore_case).map_err(|kind| QueryError {
            query: typed.to_owned(),
            span: parse::pattern_error_span(&kind, typed),
            kind,
        })?;
        Ok(Self {
            clauses: vec![Clause::Pattern(pattern)],
            groups: vec![vec![0]],
            ignores_case: ignore_case,
            ..Self::default()
        })
    }

    /// Returns whether the query has no words, only filters.
    pub fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Returns whether any part of it is a regular expression or a literal text.
    pub fn has_patterns(&self) -> bool {
        self.clauses.iter().any(|clause| matches!(clause, Clause::Pattern(_)))
    }

    /// Returns the bits of all groups. A query of only filters has one group, which every text matches.
    pub(crate) fn all_groups(&self) -> u64 {
        match self.groups.len() {
            0 => 1,
            n => u64::MAX >> (64 - n),
        }
    }

    fn add_clause(&mut self, clause: Clause) -> usize {
        self.clauses.push(clause);
        self.clauses.len() - 1
    }

    /// Adds the clause that ranks messages with all words in order higher.
    fn add_whole_phrase(&mut self) {
        let words = |group: &Vec<usize>| match (&group[..], &self.clauses[group[0]]) {
            ([_], Clause::Words(words)) => Some(words.clone()),
            _ => None,
        };
        let Some(all) = self.groups.iter().map(words).collect::<Option<Vec<_>>>() else { return };
        if all.len() < 2 {
            return;
        }
        let is_prefix = all[all.len() - 1].is_prefix;
        let tokens = all.into_iter().flat_map(|words| words.tokens).collect();
        let phrase = self.add_clause(Clause::Words(WordSequence { tokens, is_prefix }));
        self.whole_phrase = Some(phrase);
    }
}

/// A range of bytes of the query.
pub(crate) type QuerySpan = Range<usize>;
