//! Parses what was typed.

use std::fmt;

use regex::{Regex, RegexBuilder};
use rethread_model::Time;

use super::{Clause, FieldValue, MessagePlaces, Query, QuerySpan, TextSources, WordSequence};

/// The names of fields.
const FIELDS: [&str; 10] =
    ["role", "in", "since", "until", "project", "branch", "tool", "model", "file", "session"];

/// The meaning of what depends on the user: times relative to now, in the user's time zone.
pub struct QuerySyntax<'s> {
    /// Parses a time, such as `2w` or `2026-01-31`; an error is a sentence.
    pub parse_time: &'s dyn Fn(&str) -> Result<Time, String>,
}

/// A field of a query that has an unknown value, or an invalid pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct QueryError {
    /// The query.
    pub query: String,
    /// The position of the value in it.
    pub span: QuerySpan,
    /// The kind of error.
    pub kind: QueryErrorKind,
}

/// The kinds of errors in a query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// A field has a value that it does not know.
    UnknownValue {
        /// The name of the field.
        field: String,
        /// The value.
        value: String,
        /// The values that exist, the most similar first.
        valid: Vec<String>,
    },
    /// A time cannot be read.
    InvalidTime {
        /// The name of the field.
        field: String,
        /// The reason.
        reason: String,
    },
    /// A regular expression does not compile.
    InvalidPattern {
        /// The reason, in one line.
        reason: String,
        /// The position in the pattern.
        at: Option<usize>,
    },
}

impl fmt::Display for QueryErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownValue { field, value, .. } => write!(f, "no {field} is called `{value}`"),
            Self::InvalidTime { reason, .. } => f.write_str(reason),
            Self::InvalidPattern { reason, .. } => write!(f, "invalid regular expression: {reason}"),
        }
    }
}

impl QueryErrorKind {
    /// Creates the error of an unknown value; the valid ones are sorted by their similarity to it.
    pub(crate) fn unknown(
        field: &str,
        value: &str,
        valid: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let mut valid: Vec<String> = valid.into_iter().map(Into::into).collect();
        valid.sort_by_cached_key(|candidate| distance(&value.to_lowercase(), &candidate.to_lowercase()));
        Self::UnknownValue { field: field.to_owned(), value: value.to_owned(), valid }
    }

    /// Returns the valid value that was probably meant.
    pub fn nearest(&self) -> Option<&str> {
        let Self::UnknownValue { value, valid, .. } = self else { return None };
        let nearest = valid.first()?;
        let letters = value.chars().count();
        let differing = distance(&value.to_lowercase(), &nearest.to_lowercase());
        (differing <= letters.div_ceil(3)).then_some(nearest)
    }
}

/// An item of a query: a word, a phrase, a field.
struct Item<'q> {
    text: &'q str,
    kind: ItemKind,
    start: usize,
    negated: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Word,
    Phrase,
    Pattern,
    /// A field, by its position in [`FIELDS`].
    Field(usize),
}

impl Query {
    /// Parses what was typed.
    pub fn parse(typed: &str, syntax: &QuerySyntax<'_>) -> Result<Self, QueryError> {
        let items = split(typed);
        let mut query = Self::default();
        let mut joins_next = false;
        for (at, item) in items.iter().enumerate() {
            if let ItemKind::Field(field) = item.kind {
                query.add_field(FIELDS[field], item.text, Some(item.start), typed, syntax)?;
                continue;
            }
            if is_operator(&items, at, "OR") {
                joins_next = true;
                continue;
            }
            if is_operator(&items, at, "AND") {
                continue;
            }
            let Some(clause) = clause_of(item) else { continue };
            if query.groups.len() == Self::MAX_GROUPS {
                query.ignored_words += 1;
                continue;
            }
            let clause = query.add_clause(clause);
            let joins = std::mem::take(&mut joins_next) && !item.negated;
            match query.groups.last_mut() {
                Some(group) if joins => group.push(clause),
                _ if item.negated => query.excluded.push(clause),
                _ => query.groups.push(vec![clause]),
            }
        }
        if query.clauses.is_empty() {
            query.add_punctuation(&items);
        }
        query.add_whole_phrase();
        Ok(query)
    }

    /// Searches for punctuation as it is, if nothing else was typed.
    fn add_punctuation(&mut self, items: &[Item<'_>]) {
        let texts = items.iter().filter(|item| matches!(item.kind, ItemKind::Word | ItemKind::Phrase));
        for text in texts.map(|item| item.text.trim()).filter(|text| !text.is_empty()) {
            if let Ok(pattern) = compile(&regex::escape(text), false) {
                let clause = self.add_clause(Clause::Pattern(pattern));
                self.groups.push(vec![clause]);
            }
        }
    }

    /// Adds a filter as if `field:value` had been typed. An error points into the value.
    pub fn add_filter(
        &mut self,
        field: &str,
        value: &str,
        syntax: &QuerySyntax<'_>,
    ) -> Result<(), QueryError> {
        self.add_field(field, value, None, value, syntax)
    }

    /// Adds a filter; `start` is the place of its value in what was typed as a query.
    fn add_field(
        &mut self,
        field: &str,
        text: &str,
        start: Option<usize>,
        typed: &str,
        syntax: &QuerySyntax<'_>,
    ) -> Result<(), QueryError> {
        let span = start.unwrap_or(0)..start.unwrap_or(0) + text.len();
        let error = |kind| QueryError { query: typed.to_owned(), span: span.clone(), kind };
        let value = match start {
            Some(_) => FieldValue { text: text.to_owned(), span: span.clone() },
            None => FieldValue::from(text),
        };
        let filters = &mut self.filters;
        match field {
            "role" | "in" => {
                let mut sources = TextSources::default();
                for name in text.split(',').map(|name| name.trim().to_lowercase()) {
                    let (found, valid) = match field {
                        "role" => (TextSources::from_role(&name), &TextSources::ROLES[..]),
                        _ => (TextSources::from_name(&name), &TextSources::NAMES[..]),
                    };
                    let found = found
                        .ok_or_else(|| error(QueryErrorKind::unknown(field, &name, valid.iter().copied())))?;
                    sources.add(found);
                }
                filters.sources.restrict_to(sources);
            }
            "since" | "until" => {
                let time = (syntax.parse_time)(text).map_err(|reason| {
                    error(QueryErrorKind::InvalidTime { field: field.to_owned(), reason })
                })?;
                let limit = if field == "since" { &mut filters.since } else { &mut filters.until };
                *limit = Some(time);
            }
            "branch" => match MessagePlaces::from_name(&text.to_lowercase()) {
                Some(place) => filters.places.add(place),
                None => filters.git_branches.push(value),
            },
            "project" => filters.projects.push(value),
            "tool" => filters.tools.push(value),
            "model" => filters.models.push(value),
            "file" => filters.files.push(value),
            _ => filters.sessions.push(value),
        }
        Ok(())
    }
}

/// Returns whether an item is an operator between two others. A word at an end of the query is text.
fn is_operator(items: &[Item<'_>], at: usize, operator: &str) -> bool {
    let is_text = |item: &Item<'_>| !matches!(item.kind, ItemKind::Field(_));
    let item = &items[at];
    item.kind == ItemKind::Word
        && !item.negated
        && item.text == operator
        && items[..at].last().is_some_and(is_text)
        && items.get(at + 1).is_some_and(is_text)
}

/// Returns the clause of a word, phrase or pattern; `None` if it has nothing to search for.
fn clause_of(item: &Item<'_>) -> Option<Clause> {
    match item.kind {
        ItemKind::Pattern => compile(item.text, false).ok().map(Clause::Pattern),
        ItemKind::Phrase => WordSequence::new(item.text, false).map(Clause::Words),
        _ => {
            let stem = item.text.strip_suffix('*');
            let prefix = stem.filter(|stem| stem.ends_with(|c: char| c.is_alphanumeric()));
            WordSequence::new(prefix.unwrap_or(item.text), prefix.is_some()).map(Clause::Words)
        }
    }
}

/// Splits a query into items.
fn split(typed: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    let mut at = 0;
    while let Some(skipped) = typed[at..].find(|c: char| !c.is_whitespace()) {
        at += skipped;
        let negated = is_negation(&typed[at..]);
        at += usize::from(negated);
        let rest = &typed[at..];
        let (kind, from, to, next) = if let Some(inner) = rest.strip_prefix('"') {
            let end = inner.find('"').unwrap_or(inner.len());
            (ItemKind::Phrase, 1, 1 + end, (end + 2).min(rest.len()))
        } else if let Some(len) = pattern_len(rest) {
            (ItemKind::Pattern, 1, len - 1, len)
        } else if let Some((field, from)) = field_at(rest) {
            let value = &rest[from..];
            match value.strip_prefix('"') {
                Some(inner) => {
                    let end = inner.find('"').unwrap_or(inner.len());
                    (ItemKind::Field(field), from + 1, from + 1 + end, (from + end + 2).min(rest.len()))
                }
                None => {
                    let end = from + value.find(char::is_whitespace).unwrap_or(value.len());
                    (ItemKind::Field(field), from, end, end)
                }
            }
        } else {
            let end = rest.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(rest.len());
            (ItemKind::Word, 0, end, end)
        };
        items.push(Item { text: &rest[from..to], kind, start: at + from, negated });
        at += next;
    }
    items
}

/// Returns whether a text begins with a minus that excludes what follows. Two of them begin an option of a command,
/// which is text.
fn is_negation(rest: &str) -> bool {
    let Some(after) = rest.strip_prefix('-') else { return false };
    after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '"' | '/' | '_'))
}

/// Returns the field at the start of a text, and where its value begins. A field without a value is text.
fn field_at(rest: &str) -> Option<(usize, usize)> {
    let colon = rest.find(':')?;
    let field = FIELDS.iter().position(|field| field.eq_ignore_ascii_case(&rest[..colon]))?;
    let has_value = rest[colon + 1..].starts_with(|c: char| !c.is_whitespace());
    let is_empty = rest[colon + 1..].starts_with("\"\"");
    (has_value && !is_empty).then_some((field, colon + 1))
}

/// Returns the length of a regular expression between slashes at the start of a text. A path is text: it has none of
/// the characters that make an expression.
fn pattern_len(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('/')?;
    let ends = inner.match_indices('/').map(|(at, _)| at);
    let mut ends = ends.filter(|&at| inner[at + 1..].chars().next().is_none_or(char::is_whitespace));
    ends.find(|&at| {
        let pattern = &inner[..at];
        let special =
            |c: char| matches!(c, '[' | ']' | '(' | ')' | '*' | '+' | '?' | '|' | '\\' | '^' | '$' | '{');
        pattern.contains(special) && !pattern.ends_with('\\') && compile(pattern, false).is_ok()
    })
    .map(|end| end + 2)
}

/// Compiles a regular expression. `^` and `$` match at lines.
pub(crate) fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, QueryErrorKind> {
    let built = RegexBuilder::new(pattern).case_insensitive(ignore_case).multi_line(true).build();
    built.map_err(|error| {
        let at = match regex_syntax::Parser::new().parse(pattern) {
            Err(regex_syntax::Error::Parse(error)) => Some(error.span().start.offset),
            Err(regex_syntax::Error::Translate(error)) => Some(error.span().start.offset),
            _ => None,
        };
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default().trim();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason).to_owned();
        QueryErrorKind::InvalidPattern { reason, at }
    })
}

/// Returns the part of a pattern that an error is about.
pub(crate) fn pattern_error_span(kind: &QueryErrorKind, pattern: &str) -> QuerySpan {
    match kind {
        QueryErrorKind::InvalidPattern { at: Some(at), .. } if pattern.is_char_boundary(*at) => {
            let len = pattern[*at..].chars().next().map_or(0, char::len_utf8);
            *at..at + len
        }
        _ => 0..pattern.len(),
    }
}

/// Returns the number of letters by which two words differ.
pub(crate) fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;
    use proptest::prelude::*;

    use super::*;

    fn parse(typed: &str) -> Result<Query, QueryError> {
        let parse_time = |text: &str| Time::parse(text.as_bytes()).ok_or(format!("`{text}` is no time"));
        Query::parse(typed, &QuerySyntax { parse_time: &parse_time })
    }

    fn describe(typed: &str) -> String {
        let query = match parse(typed) {
            Ok(query) => query,
            Err(error) => return format!("{error} at {:?}", &typed[error.span.clone()]),
        };
        let clause = |&at: &usize| match &query.clauses[at] {
            Clause::Words(words) => words.tokens.join("+") + if words.is_prefix { "*" } else { "" },
            Clause::Pattern(pattern) => format!("/{pattern}/"),
        };
        let group = |group: &Vec<usize>| group.iter().map(clause).collect::<Vec<_>>().join("|");
        let mut parts: Vec<String> = query.groups.iter().map(group).collect();
        parts.extend(query.excluded.iter().map(|at| format!("-{}", clause(at))));
        let filters = &query.filters;
        let named = [
            ("tool", &filters.tools),
            ("model", &filters.models),
            ("project", &filters.projects),
            ("git", &filters.git_branches),
            ("file", &filters.files),
            ("session", &filters.sessions),
        ];
        for (name, values) in named {
            parts.extend(values.iter().map(|value| format!("{name}={}", value.text)));
        }
        if !filters.sources.is_all() {
            let names = TextSources::NAMES[..].iter().filter(|name| {
                let of = TextSources::from_name(name).expect("a name");
                let mut both = of;
                both.restrict_to(filters.sources);
                both == of
            });
            parts.push(format!("in={}", names.copied().collect::<Vec<_>>().join(",")));
        }
        if !filters.places.is_all() {
            parts.push(format!("places={:?}", filters.places));
        }
        parts.extend(filters.since.map(|time| format!("since={}", time.to_iso().expect("a time"))));
        parts.join(" ")
    }

    #[test]
    fn operators_are_recognised() {
        assert_snapshot!(describe("working tree"), @"working tree");
        assert_snapshot!(describe("\"working tree\""), @"working+tree");
        assert_snapshot!(describe("checkpoi*"), @"checkpoi*");
        assert_snapshot!(describe("/ckpt_[a-z]+_id/"), @"/ckpt_[a-z]+_id/");
        assert_snapshot!(describe("retry -test role:user project:api"), @"retry -test project=api in=user");
        assert_snapshot!(describe("a OR b c"), @"a|b c");
        assert_snapshot!(describe("a AND b OR \"c d\""), @"a b|c+d");
        assert_snapshot!(describe("-\"not this\" x"), @"x -not+this");
        assert_snapshot!(describe("in:thinking mutex"), @"mutex in=thinking");
        assert_snapshot!(describe("branch:abandoned branch:fix/login fix"), @"fix git=fix/login places=MessagePlaces(2)");
        assert_snapshot!(describe("project:\"my app\" x"), @"x project=my app");
        assert_snapshot!(describe("since:2026-01-31 SINCE:2026-02-01"), @"since=2026-02-01T00:00:00.000Z");
    }

    #[test]
    fn everything_else_is_text() {
        assert_snapshot!(describe("C++ [foo"), @"c foo");
        assert_snapshot!(describe("gradient.go:12"), @"gradient+go+12");
        assert_snapshot!(describe("http://localhost:80/x?y=(z"), @"http+localhost+80+x+y+z");
        assert_snapshot!(describe("OR or AND"), @"or or and");
        assert_snapshot!(describe("a OR"), @"a or");
        assert_snapshot!(describe("since: in:"), @"since in");
        assert_snapshot!(describe("--no-verify - -- -"), @"no+verify");
        assert_snapshot!(describe("/home/ada/"), @"home+ada");
        assert_snapshot!(describe("/[unclosed/"), @"unclosed");
        assert_snapshot!(describe("\"open phrase"), @"open+phrase");
        assert_snapshot!(describe("foo\"bar baz\""), @"foo bar+baz");
        assert_snapshot!(describe("* ** a*b c*"), @"a+b c*");
        assert_snapshot!(describe("=> {"), @r"/=>/ /\{/");
        assert_snapshot!(describe("parseLine 检查点 点"), @"parse+line 检查+查点 点*");
        assert_snapshot!(describe(""), @"");
    }

    #[test]
    fn unknown_values_name_the_nearest() {
        assert_snapshot!(describe("x in:tool,thinkin"), @r#"no in is called `thinkin` at "tool,thinkin""#);
        assert_snapshot!(describe("since:yesterdy"), @r#"`yesterdy` is no time at "yesterdy""#);
        let error = parse("role:asistant").expect_err("no such role");
        assert_eq!(error.kind.nearest(), Some("assistant"));
        assert_eq!(QueryErrorKind::unknown("tool", "xyz", ["Bash", "Read"]).nearest(), None);
        let QueryErrorKind::UnknownValue { valid, .. } = error.kind else { panic!("{error}") };
        assert_eq!(valid, ["assistant", "user", "tool"]);
    }

    #[test]
    fn invalid_patterns_point_at_the_fault() {
        let error = Query::pattern("a(b[c", false).expect_err("not closed");
        assert_eq!(
            (error.span.clone(), error.to_string()),
            (3..4, "invalid regular expression: unclosed character class".into())
        );
        assert!(Query::fixed("a(b[c", false).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_a_query_unless_it_has_a_field(typed in "[^:]{0,40}") {
            prop_assert!(parse(&typed).is_ok(), "{typed:?}");
        }

        #[test]
        fn errors_point_into_the_query(typed in "(in|role|since|x):[a-z:\" é-]{0,20}") {
            if let Err(error) = parse(&typed) {
                prop_assert!(typed.get(error.span).is_some());
            }
        }
    }
}
