//! Text from a log that stays where it is put, whatever Markdown it holds.

use std::fmt::Write as _;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag};
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
    let text = contain(text);
    let mut lines = text.trim_end_matches('\n').split('\n').peekable();
    let mut fenced = false;
    while let Some(line) = lines.next() {
        out.push('>');
        if !line.is_empty() {
            out.push(' ');
            out.push_str(line);
        }
        let bare = line.trim_start();
        fenced ^= bare.starts_with("```") || bare.starts_with("~~~");
        let goes_on = lines.peek().is_some_and(|next| !next.trim().is_empty());
        if goes_on && !fenced && !line.trim().is_empty() && !line.ends_with("  ") {
            out.push_str("  ");
        }
        out.push('\n');
    }
}

/// Makes Markdown from a log safe to stand among other Markdown: HTML is shown as text, a fence that
/// is never closed is closed.
pub(super) fn contain(text: &str) -> String {
    let mut text = text.to_owned();
    // What was hidden inside HTML becomes Markdown when the HTML is escaped, so look again.
    for _ in 0..4 {
        match mended(&text) {
            Some(better) => text = better,
            None => {
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                return text;
            }
        }
    }
    let mut out = String::new();
    fence(&mut out, "", &text);
    out
}

fn mended(text: &str) -> Option<String> {
    // Most texts hold neither.
    if !text.contains('<') && !text.contains("```") && !text.contains("~~~") {
        return None;
    }
    let mut cuts: Vec<usize> = Vec::new();
    let mut open_fence = None;
    let mut depth = 0usize;
    for (event, range) in Parser::new_ext(text, markdown_options()).into_offset_iter() {
        match event {
            Event::Html(_) | Event::InlineHtml(_) => {
                cuts.extend(
                    memchr::memchr_iter(b'<', text[range.clone()].as_bytes()).map(|i| range.start + i),
                );
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => {
                if depth == 0 {
                    open_fence = unclosed(&text[range.clone()]);
                }
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    if cuts.is_empty() && open_fence.is_none() {
        return None;
    }
    cuts.sort_unstable();
    cuts.dedup();
    let mut out = String::with_capacity(text.len() + cuts.len() * 3 + 8);
    let mut at = 0;
    for cut in cuts {
        out.push_str(&text[at..cut]);
        out.push_str("&lt;");
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

/// A code span, whatever the text holds.
pub(super) fn code(text: &str) -> String {
    let text = one_line(&clean(text));
    if text.is_empty() {
        return text;
    }
    if text.contains('`') { inline(&text) } else { format!("`{text}`") }
}
