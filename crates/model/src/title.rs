//! What a session is called.
//!
//! Old clients wrote summaries into whatever file was open, so four in five are about another
//! session. A summary counts only where the entry that it names stands.

use serde::Serialize;

use crate::facts::Facts;
use crate::id::Uid;

/// A title and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Title {
    /// The words.
    pub text: String,
    /// Where they come from.
    pub source: TitleSource,
}

/// Where a title comes from, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TitleSource {
    /// The user gave it.
    Custom,
    /// The model gave it.
    Ai,
    /// A summary of this conversation, here or in another file of the project.
    Summary,
    /// The first thing that somebody asked.
    FirstPrompt,
    /// Nothing was said; the title says what the file is.
    None,
}

/// Finds the title of a session. `elsewhere` gives the summary that another file of the project holds
/// about an entry of this one.
pub fn title(facts: &Facts, elsewhere: Option<&str>) -> Title {
    let own = || {
        let about_this = |(leaf, _): &&(Uid, String)| facts.node_of(*leaf).is_some();
        facts.summaries.iter().rev().find(about_this).map(|(_, text)| text.as_str())
    };
    let found = |text: Option<&str>, source| {
        let text = heading(text?);
        (!text.is_empty()).then_some(Title { text, source })
    };
    found(facts.custom_title.as_deref(), TitleSource::Custom)
        .or_else(|| found(facts.ai_title.as_deref(), TitleSource::Ai))
        .or_else(|| found(own(), TitleSource::Summary))
        .or_else(|| found(elsewhere, TitleSource::Summary))
        .or_else(|| found(facts.first_prompt.as_deref(), TitleSource::FirstPrompt))
        .or_else(|| found(facts.has_wordless_prompt.then_some("[image]"), TitleSource::FirstPrompt))
        .or_else(|| found(facts.first_task.as_deref(), TitleSource::FirstPrompt))
        .or_else(|| found(facts.first_command.as_deref(), TitleSource::FirstPrompt))
        .unwrap_or_else(|| Title { text: String::new(), source: TitleSource::None })
}

/// The length of a title, in characters.
const MAX_TITLE: usize = 80;

/// Returns the first line of a text that has words, without Markdown, cut to the length of a title.
pub fn heading(text: &str) -> String {
    let fence = |line: &&str| line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
    let lines =
        text.lines().filter(|line| !fence(line)).map(|line| collapse_whitespace(&without_markdown(line)));
    let line = { lines }.find(|line| line.chars().any(char::is_alphanumeric));
    let line = line.unwrap_or_else(|| collapse_whitespace(text));
    if line.chars().count() <= MAX_TITLE {
        return line;
    }
    let cut: String = line.chars().take(MAX_TITLE - 1).collect();
    // Not in the middle of a word, unless the word is most of the line.
    let end = cut.rfind(' ').filter(|&end| end > cut.len() / 2).unwrap_or(cut.len());
    format!("{}…", cut[..end].trim_end())
}

/// Drops the marks of Markdown from one line: of headings, lists, quotes, emphasis, code and links.
fn without_markdown(line: &str) -> String {
    let mut line = line.trim();
    loop {
        let rest = line.trim_start_matches(['#', '>']).trim_start();
        let marks = ["- ", "* ", "+ ", "[ ] ", "[x] ", "[X] "];
        let rest = marks.iter().find_map(|mark| rest.strip_prefix(mark)).unwrap_or(rest);
        if rest.len() == line.len() {
            break;
        }
        line = rest.trim_start();
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['*', '_', '`', '[', '~', '\\']) {
        out.push_str(&rest[..at]);
        let marked = &rest[at..];
        if let Some(escaped) = marked.strip_prefix('\\') {
            let kept = escaped.chars().next().filter(char::is_ascii_punctuation);
            out.push(kept.unwrap_or('\\'));
            rest = &escaped[kept.map_or(0, char::len_utf8)..];
            continue;
        }
        let mark = marked.as_bytes()[0];
        let run = marked.bytes().take_while(|&b| b == mark).count();
        // Within a word, an underscore or an asterisk is a character of its own.
        let before = out.chars().next_back().is_some_and(char::is_alphanumeric);
        let behind = marked[run..].chars().next().is_some_and(char::is_alphanumeric);
        if mark == b'[' {
            match parse_link(marked) {
                Some((words, len)) => {
                    out.push_str(words);
                    rest = &marked[len..];
                }
                None => {
                    out.push('[');
                    rest = &marked[1..];
                }
            }
            continue;
        }
        let kept = match mark {
            b'_' | b'*' => before == behind,
            b'~' => run < 2,
            _ => false,
        };
        if kept {
            out.push_str(&marked[..run]);
        }
        rest = &marked[run..];
    }
    out + rest
}

/// Returns the words of a link `[words](address)` at the start of a text, and its length.
fn parse_link(text: &str) -> Option<(&str, usize)> {
    let close = text.find("](")?;
    let words = &text[1..close];
    let end = text[close..].find(')')? + close + 1;
    (!words.contains(['[', ']'])).then_some((words, end))
}

/// Joins the lines and blanks of a text by single spaces.
pub fn collapse_whitespace(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_one_plain_line() {
        for (text, title) in [
            ("fix the login", "fix the login"),
            ("\n\n# Plan: **do** `this`\n\nmore", "Plan: do this"),
            ("- [ ] see [the docs](https://example.org/a_b)", "see the docs"),
            ("> ## _quoted_ snake_case 2*3", "quoted snake_case 2*3"),
            ("```rust\nlet x = 1;\n```", "let x = 1;"),
            (r"\*not bold\* a\b", r"*not bold* a\b"),
            ("---", "---"),
            ("  two \t blanks ", "two blanks"),
            ("", ""),
        ] {
            assert_eq!(heading(text), title, "{text}");
        }
    }

    #[test]
    fn a_heading_is_cut_at_a_word() {
        let cut = heading(&"eleven char ".repeat(20));
        assert!(cut.chars().count() <= MAX_TITLE && cut.ends_with("char eleven…"), "{cut}");
        assert_eq!(heading(&"漢".repeat(100)).chars().count(), MAX_TITLE);
    }
}
