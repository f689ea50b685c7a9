//! The names in a query.

use std::collections::BTreeSet;

/// Returns the names in a query that can be those of tables, in lower case: words and quoted names, and strings where SQLite
/// accepts them as names. What follows `AS` is a new name.
///
/// It may return too much, such as names of columns, but every table that a query names is among them: SQL has no other way
/// to write a name.
pub(super) fn possible_table_names(query: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut before = String::new();
    let mut rest = query;
    while let Some(first) = rest.chars().next() {
        let (len, name, is_string) = match first {
            '-' if rest.starts_with("--") => {
                rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest[2..].split_once("*/").map_or("", |(_, rest)| rest);
                continue;
            }
            '\'' | '"' | '`' => {
                let (len, text) = quoted(rest, first);
                (len, Some(text), first == '\'')
            }
            '[' => {
                let len = rest.find(']').map_or(rest.len(), |at| at + 1);
                (len, Some(rest[1..len].trim_end_matches(']').to_owned()), false)
            }
            c if is_name_char(c) => {
                let len = rest.find(|c| !is_name_char(c)).unwrap_or(rest.len());
                (len, Some(rest[..len].to_owned()), false)
            }
            c if c.is_whitespace() => {
                rest = &rest[c.len_utf8()..];
                continue;
            }
            c => (c.len_utf8(), None, false),
        };
        let can_be_table = !is_string || ["from", "join", "in", ",", "(", "."].contains(&&*before);
        if let Some(name) = name.as_ref().filter(|_| can_be_table && before != "as") {
            names.insert(name.to_lowercase());
        }
        before = name.map_or_else(
            || rest[..len].to_owned(),
            |name| if is_string { String::new() } else { name.to_lowercase() },
        );
        rest = &rest[len..];
    }
    names
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii() && !c.is_whitespace()
}

/// Returns the length of a quoted text, and the text. A doubled quote stands for one.
fn quoted(text: &str, quote: char) -> (usize, String) {
    let mut at = 1;
    while let Some(end) = text[at..].find(quote) {
        at += end + 1;
        if !text[at..].starts_with(quote) {
            let doubled: String = [quote, quote].iter().collect();
            return (at, text[1..at - 1].replace(&doubled, &quote.to_string()));
        }
        at += 1;
    }
    (text.len(), text[1..].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str) -> Vec<String> {
        possible_table_names(query).into_iter().filter(|name| name.starts_with("t_")).collect()
    }

    #[test]
    fn tables_are_found_however_they_are_written() {
        for query in [
            "select * from t_a",
            "SELECT * FROM T_A",
            "select * from/**/t_a",
            "select * from -- x\nt_a",
            "select * from \"t_a\"",
            "select * from [t_a]",
            "select * from `t_a`",
            "select * from 't_a'",
            "select * from ('t_a')",
            "select * from x, 't_a'",
            "select * from main.'t_a'",
            "select 1 in 't_a'",
            "select 1 in t_a",
            "with t_a as (select 1) select 2",
            "select ' '' ' from t_a",
            "select * from /*/ ' */ t_a",
            "select x from main./*/ '*/ t_a",
        ] {
            assert_eq!(found(query), ["t_a"], "{query}");
        }
    }

    #[test]
    fn texts_comments_and_new_names_are_not_tables() {
        for query in [
            "select 't_a'",
            "select 1 where x = 't_a' or x like '%t_a%'",
            "select 1 -- from t_a",
            "select 1 /* from t_a */",
            "select count(*) as t_a from x",
            "select '''from t_a'",
        ] {
            assert_eq!(found(query), [] as [String; 0], "{query}");
        }
        for open in ["'t_a", "\"", "[", "/*", "`漢", "--"] {
            possible_table_names(open);
        }
    }
}
