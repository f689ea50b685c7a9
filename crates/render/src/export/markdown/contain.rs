//! Text from a log that stays where it is put, whatever Markdown it holds.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use rethread_model::one_line;

use crate::export::safe::clean;

/// Fences code by more backticks than it holds.
pub(super) fn fence(out: &mut String, language: &str, text: &str) {
    let mut longest = 0;
    let mut run = 0;
    for b in text.bytes() {
        run = if b == b'`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let ticks = "`".repeat((longest + 1).max(3));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(out, "{ticks}{language}\n{text}{end}{ticks}\n\n");
}

/// Quotes a text line by line, keeping its line ends. Nothing in it reaches beyond the quote.
pub(super) fn quote(out: &mut String, text: &str) {
    let quoted = |text: &str| -> String {
        let mut quoted = String::with_capacity(text.len() + 16);
        for line in text.trim_end_matches('\n').split('\n') {
            quoted.push_str(if line.is_empty() { ">" } else { "> " });
            quoted.push_str(line);
            quoted.push('\n');
        }
        quoted
    };
    // Read as it will stand: behind the mark of a quote a tab is narrower than alone.
    let safe = mend(quoted(&undefined(text))).unwrap_or_else(|| {
        let mut fenced = String::new();
        fence(&mut fenced, "", text);
        quoted(&fenced)
    });
    let mut in_code = inside(if is_plain(text) { Vec::new() } else { code_ranges(&safe) });
    let mut at = 0;
    let mut lines = safe.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let words = line.trim_end_matches('\n');
        out.push_str(words);
        let is_text = |line: &str| !line.trim_start_matches('>').trim().is_empty();
        let goes_on = lines.peek().is_some_and(|next| is_text(next)) && is_text(words);
        if goes_on && !words.ends_with("  ") && !in_code(at) {
            out.push_str("  ");
        }
        out.push('\n');
        at += line.len();
    }
}

/// Tells of places, asked for one after the other, whether they are in one of the ranges.
fn inside(ranges: Vec<Range<usize>>) -> impl FnMut(usize) -> bool {
    let mut ranges = ranges.into_iter().peekable();
    move |at| {
        while ranges.next_if(|range| range.end <= at).is_some() {}
        ranges.peek().is_some_and(|range| range.contains(&at))
    }
}

/// Tells whether a text can hold no code.
fn is_plain(text: &str) -> bool {
    !["```", "~~~", "    ", "\t"].iter().any(|mark| text.contains(mark))
}

/// Finds the code blocks of a text, each from the beginning of its first line.
fn code_ranges(text: &str) -> Vec<Range<usize>> {
    let line_start = |at: usize| text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let block = |(event, range): (Event<'_>, Range<usize>)| {
        matches!(event, Event::Start(Tag::CodeBlock(_))).then(|| line_start(range.start)..range.end)
    };
    Parser::new_ext(text, markdown_options()).into_offset_iter().filter_map(block).collect()
}

/// Makes Markdown from a log safe to stand among other Markdown: HTML and definitions are shown as
/// text, a fence that is never closed is closed.
pub(super) fn contain(text: &str) -> String {
    let mut safe = mend(undefined(text).into_owned()).unwrap_or_else(|| {
        let mut fenced = String::new();
        fence(&mut fenced, "", text);
        fenced
    });
    if !safe.ends_with('\n') {
        safe.push('\n');
    }
    safe
}

/// Mends a text until nothing in it reaches out; gives up on one that is made to resist.
fn mend(mut text: String) -> Option<String> {
    // What was hidden inside HTML becomes Markdown when the HTML is escaped, so look again.
    for _ in 0..6 {
        match mended(&text) {
            Some(better) => text = better,
            None => return Some(text),
        }
    }
    None
}

fn mended(text: &str) -> Option<String> {
    // Most texts hold none of it.
    if !["<", "```", "~~~", "]:"].iter().any(|mark| text.contains(mark)) {
        return None;
    }
    let mut cuts: Vec<(usize, &str)> = Vec::new();
    let mut open_fence = None;
    let mut depth = 0usize;
    let mut in_code = false;
    let mut events = Parser::new_ext(text, markdown_options()).into_offset_iter();
    for (event, range) in events.by_ref() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                let found = memchr::memchr_iter(b'<', text[range.clone()].as_bytes());
                cuts.extend(found.map(|i| (range.start + i, "&lt;")));
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                if depth == 0 && matches!(kind, CodeBlockKind::Fenced(_)) {
                    open_fence = unclosed(&text[range.clone()]);
                }
                in_code = true;
                depth += 1;
            }
            Event::End(TagEnd::CodeBlock) => {
                in_code = false;
                depth = depth.saturating_sub(1);
            }
            // Readers of Markdown do not agree on what is HTML; what could be is escaped.
            Event::Text(_) if !in_code => {
                let found = memchr::memchr_iter(b'<', text[range.clone()].as_bytes());
                let places = found.map(|i| range.start + i).filter(|&at| could_open(text.as_bytes(), at));
                cuts.extend(places.map(|at| (at, "&lt;")));
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    let definitions = events.reference_definitions().iter();
    cuts.extend(definitions.filter_map(|(_, found)| {
        let at = found.span.start + text.get(found.span.clone())?.find('[')?;
        Some((at, "\\["))
    }));
    if cuts.is_empty() && open_fence.is_none() {
        return None;
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut out = String::with_capacity(text.len() + cuts.len() * 3 + 8);
    let mut at = 0;
    for (cut, instead) in cuts {
        out.push_str(&text[at..cut]);
        out.push_str(instead);
        at = cut + 1;
    }
    out.push_str(&text[at..]);
    if let Some(fence) = open_fence {
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out.push_str(&fence);
        out.push('\n');
    }
    Some(out)
}

/// Shows definitions of links and footnotes as the text that they are: in a document of many messages
/// they would be in force everywhere, and where they stand nothing would be seen.
pub(in crate::export) fn undefined(text: &str) -> Cow<'_, str> {
    if !text.contains("]:") {
        return text.into();
    }
    let mut in_code = inside(code_ranges(text));
    let mut out = String::with_capacity(text.len() + 8);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim_start_matches(|c: char| c.is_whitespace() || "->*+".contains(c));
        let bare = bare.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(['.', ')', ' ']);
        let defines = bare.starts_with('[') && bare.contains("]:");
        let place = at + (line.len() - bare.len());
        if defines && !in_code(place) {
            out.push_str(&line[..line.len() - bare.len()]);
            out.push('\\');
            out.push_str(bare);
        } else {
            out.push_str(line);
        }
        at += line.len();
    }
    out.into()
}

/// Tells whether a `<` could be the beginning of HTML.
fn could_open(text: &[u8], at: usize) -> bool {
    let escaped = text[..at].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1;
    !escaped && text.get(at + 1).is_some_and(|&b| b.is_ascii_alphabetic() || matches!(b, b'/' | b'!' | b'?'))
}

/// Returns the fence that a fenced block lacks at its end.
fn unclosed(block: &str) -> Option<String> {
    let first = block.lines().next()?.trim_start();
    let mark = first.chars().next()?;
    let fence: String = first.chars().take_while(|&c| c == mark).collect();
    let last = block.trim_end_matches('\n').lines().skip(1).last().map(str::trim);
    let closed = last.is_some_and(|last| last.len() >= fence.len() && last.chars().all(|c| c == mark));
    (!closed).then_some(fence)
}

/// The Markdown that answers are written in.
pub(in crate::export) fn markdown_options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Escapes what Markdown would take for markup.
pub(super) fn inline(text: &str) -> String {
    let text = one_line(&clean(text));
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

/// A text inside a line of HTML, where Markdown is read no less.
pub(super) fn one_cell(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes what would become a tag or a link, and nothing that stands in an ordinary name.
pub(super) fn header(text: &str) -> String {
    let text = one_line(&clean(text));
    text.replace('&', "&amp;").replace('<', "&lt;").replace('[', "\\[").replace('`', "\\`")
}

/// A code span, whatever the text holds.
pub(super) fn code(text: &str) -> String {
    let text = one_line(&clean(text));
    if text.is_empty() {
        return text;
    }
    if text.contains('`') { inline(&text) } else { format!("`{text}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = String::new();
        quote(&mut out, text);
        out
    }

    #[test]
    fn nothing_reaches_beyond_a_quote() {
        assert_eq!(quoted("\t<!-- x\ny"), "> \t&lt;!-- x  \n> y\n");
        assert_eq!(quoted("a\n\n```\n\t<b>\n  c\n```"), "> a\n>\n> ```\n> \t<b>\n>   c\n> ```\n");
        assert_eq!(quoted("[foo]: http://x.y\n[^1]: note"), "> \\[foo]: http://x.y  \n> \\[^1]: note\n");
    }

    #[test]
    fn an_answer_ends_where_it_ends() {
        assert_eq!(contain("```rs\ncode"), "```rs\ncode\n```\n");
        assert_eq!(contain("- a\n  ```\n  code"), "- a\n  ```\n  code\n");
        assert_eq!(contain("<!-- a\n\n```\nb"), "&lt;!-- a\n\n```\nb\n```\n");
        assert_eq!(contain("a <![CDATA[] > <!-- ]]>"), "a &lt;![CDATA[] > &lt;!-- ]]>\n");
        assert_eq!(contain("a < b \\<c 1<2"), "a < b \\<c 1<2\n");
        assert_eq!(contain("plain `<b>` and ``` `` ```"), "plain `<b>` and ``` `` ```\n");
        assert_eq!(contain("see [a]\n\n[a]: b\n[a]: c"), "see [a]\n\n\\[a]: b\n\\[a]: c\n");
    }
}
