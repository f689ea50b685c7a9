//! Makes Markdown from a log inert: its layout is kept, and nothing in it is active.
//!
//! Renderers of Markdown disagree on where code, HTML and links begin and end, so the rule does not depend on
//! that. A text is divided once, by parsing it, into code and the rest:
//!
//! - Code that would be active if a renderer did not treat it as code is put into a fence of ours at the left
//!   margin, which all renderers read alike, or into a code span that begins and ends on one line on which
//!   all backticks pair. A list or quote is ended before such a fence; any other such span becomes a `<code>`
//!   element.
//! - In the rest no `<` begins a tag, every `](` is followed by `http:`, `https:`, `mailto:` or `#`, and no
//!   `![`, `[[`, `]:`, `$$`, `%%`, `:::`, attribute list or unpaired backtick is left.
//! - Headings are lower than those of the document.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use super::escape::{
    autolink_breaker, closes_line, code_element, is_active, is_allowed_address, is_escaped, is_reference,
    opens_attributes, opens_definition, opens_tag,
};
use super::outline::{Outline, is_closed, line_start, unnest_code};
use crate::export::safe::strip_control_codes;

/// Fences code with more backticks than it contains.
pub(super) fn fence(out: &mut String, language: &str, text: &str) {
    let mut ticks = Ticks::default();
    ticks.count(text);
    let ticks = ticks.fence();
    let end = if text.ends_with('\n') || text.is_empty() { "" } else { "\n" };
    let _ = write!(out, "{ticks}{}\n{text}{end}{ticks}\n\n", language_name(language));
}

/// Counts runs of backticks in a text that arrives in pieces.
#[derive(Default)]
pub(super) struct Ticks {
    run: usize,
    longest: usize,
}

impl Ticks {
    pub(super) fn count(&mut self, text: &str) {
        let mut next = 0;
        for at in memchr::memchr_iter(b'`', text.as_bytes()) {
            self.run = if at == next { self.run + 1 } else { 1 };
            self.longest = self.longest.max(self.run);
            next = at + 1;
        }
        if next < text.len() {
            self.run = 0;
        }
    }

    /// Returns a fence that is long enough for the text.
    pub(super) fn fence(&self) -> String {
        "`".repeat((self.longest + 1).max(3))
    }
}

/// Returns the language of an info string, without anything that a renderer could read as options.
pub(super) fn language_name(info: &str) -> &str {
    let named = |c: char| c.is_ascii_alphanumeric() || "+#._-".contains(c);
    let end = info.find(|c| !named(c)).unwrap_or(info.len());
    if end > 30 { "" } else { &info[..end] }
}

/// The context that a text is inserted into.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TextContext {
    /// Number of levels by which its headings are lowered.
    pub(super) demote_by: usize,
    /// It is inside an HTML element, where some renderers do not parse Markdown.
    pub(super) in_html: bool,
}

/// Makes Markdown from a log safe to insert into other Markdown.
pub(super) fn sanitize(text: &str, place: TextContext) -> String {
    let mut safe = make_inert(text, place).text;
    if !safe.ends_with('\n') {
        safe.push('\n');
    }
    safe
}

/// Quotes a text line by line, keeping its line ends. Code that must start at the margin interrupts the
/// quote.
pub(super) fn quote(out: &mut String, text: &str, in_html: bool) {
    let inert = make_inert(text, TextContext { demote_by: 0, in_html });
    let mut blocks = inert.blocks.iter().peekable();
    let text = inert.text.trim_end_matches('\n');
    let mut lines = text.split('\n').peekable();
    let (mut at, mut in_quote, mut in_fence) = (0, false, false);
    while let Some(line) = lines.next() {
        while blocks.next_if(|block| block.range.end <= at).is_some() {}
        let block = blocks.peek().filter(|block| block.range.start <= at);
        at += line.len() + 1;
        if block.is_some_and(|block| block.at_margin) {
            if in_quote {
                out.push('\n');
            }
            (in_quote, in_fence) = (false, true);
            let _ = writeln!(out, "{line}");
            continue;
        }
        if std::mem::take(&mut in_fence) {
            out.push('\n');
        }
        // A blank line next to a fence needs no mark.
        if line.is_empty() && !in_quote && at > 1 {
            continue;
        }
        in_quote = true;
        out.push_str(if line.is_empty() { ">" } else { "> " });
        out.push_str(line);
        let is_text = |line: &str| !line.trim().is_empty();
        let goes_on = is_text(line) && lines.peek().is_some_and(|next| is_text(next));
        if goes_on && block.is_none() && !line.ends_with("  ") {
            out.push_str("  ");
        }
        out.push('\n');
    }
}

/// An inert text and the positions of its code blocks.
struct InertMarkdown {
    text: String,
    blocks: Vec<CodeBlockRange>,
}

struct CodeBlockRange {
    range: Range<usize>,
    at_margin: bool,
}

/// Makes a text inert.
fn make_inert(text: &str, place: TextContext) -> InertMarkdown {
    let text = strip_control_codes(text);
    match unnest_code(&text) {
        Some((text, outline)) => escape_active(&text, &outline, place),
        None => {
            let mut fenced = String::new();
            fence(&mut fenced, "", &text);
            let range = 0..fenced.trim_end().len() + 1;
            InertMarkdown { text: fenced, blocks: vec![CodeBlockRange { range, at_margin: true }] }
        }
    }
}

/// A replacement of some bytes of a text.
type TextEdit<'e> = (Range<usize>, Cow<'e, str>);

/// Returns a text with everything escaped that could be active. Its code blocks are harmless or not nested.
fn escape_active(text: &str, outline: &Outline, place: TextContext) -> InertMarkdown {
    let mut edits: Vec<TextEdit<'_>> = Vec::new();
    // Ranges of code, in order: nothing in them is escaped.
    let mut code: Vec<(Range<usize>, bool)> = Vec::new();
    for block in &outline.code {
        let range = line_start(text, block.range.start)..block.range.end;
        if block.outer.is_none() {
            let mut fenced = String::new();
            let open = block.fenced && !is_closed(text, block);
            let code = if open { block.text.trim_end_matches('\n') } else { &block.text };
            fence(&mut fenced, &block.info, code);
            fenced.truncate(fenced.trim_end_matches('\n').len());
            if text[range.clone()].ends_with('\n') {
                fenced.push('\n');
            }
            edits.push((range.clone(), fenced.into()));
        }
        code.push((range, block.outer.is_none()));
    }
    normalise_code_spans(text, outline, place, &mut edits);
    code.extend(outline.spans.iter().map(|span| (span.range.clone(), false)));
    code.sort_unstable_by_key(|(range, _)| range.start);
    // Edits at the same position keep their order: blank lines precede heading marks.
    for (range, nested) in &outline.rules {
        separate_rule(text, range.clone(), *nested || place.demote_by == 0, &mut edits);
    }
    for (range, level) in &outline.headings {
        demote_heading(text, range.clone(), *level as usize, place.demote_by, &mut edits);
    }
    let mut scan = EscapeScanner {
        text,
        outline,
        before_dollar_code: before_dollar_code(text, outline),
        content_start: line_content_start(text.as_bytes(), 0),
        at: 0,
    };
    for (range, _) in &code {
        scan.escape_to(range.start, &mut edits);
        scan.skip_to(range.end);
    }
    scan.escape_to(text.len(), &mut edits);
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    apply(text, &edits, outline)
}

fn apply(text: &str, edits: &[TextEdit<'_>], outline: &Outline) -> InertMarkdown {
    let mut out = String::with_capacity(text.len() + edits.len() * 4);
    let mut blocks: Vec<CodeBlockRange> = Vec::new();
    let mut nested = outline.code.iter().filter(|block| block.outer.is_some()).peekable();
    let mut at = 0;
    let mut copy = |out: &mut String, range: Range<usize>, blocks: &mut Vec<CodeBlockRange>| {
        // A nested block is never edited, so it is copied in one piece.
        while let Some(block) = nested.next_if(|block| block.range.start < range.end) {
            let place = |at: usize| out.len() + (at.max(range.start) - range.start);
            let lines = place(line_start(text, block.range.start))..place(block.range.end);
            blocks.push(CodeBlockRange { range: lines, at_margin: false });
        }
        out.push_str(&text[range]);
    };
    for (range, instead) in edits {
        if range.start < at {
            continue;
        }
        copy(&mut out, at..range.start, &mut blocks);
        let start = out.len();
        out.push_str(instead);
        if instead.starts_with("```") {
            let end = out.len() + usize::from(!instead.ends_with('\n'));
            blocks.push(CodeBlockRange { range: start..end, at_margin: is_active(fenced_text(instead)) });
        }
        at = range.end;
    }
    copy(&mut out, at..text.len(), &mut blocks);
    InertMarkdown { text: out, blocks }
}

/// Returns the code between two fences.
fn fenced_text(block: &str) -> &str {
    let start = block.find('\n').map_or(block.len(), |newline| newline + 1);
    let end = block.trim_end_matches('\n').rfind('\n').map_or(start, |newline| newline + 1);
    &block[start..end.max(start)]
}

/// Reduces every code span to one that begins and ends with one backtick on one line, or to an element.
fn normalise_code_spans(text: &str, outline: &Outline, place: TextContext, edits: &mut Vec<TextEdit<'_>>) {
    let bytes = text.as_bytes();
    let (mut line_end, mut has_pipe) = (0, false);
    for span in &outline.spans {
        let source = &text[span.range.clone()];
        if span.range.end > line_end {
            let start = line_start(text, span.range.start);
            line_end =
                memchr::memchr(b'\n', &bytes[span.range.end..]).map_or(bytes.len(), |n| span.range.end + n);
            // Some renderers split table cells before they find code, some after.
            has_pipe = memchr::memchr(b'|', &bytes[start..line_end]).is_some();
        }
        let simple = !source.starts_with("``") && !source.contains('\n');
        let behind_escape = span.range.start > 0 && bytes[span.range.start - 1] == b'\\';
        if span.text.contains('`')
            || behind_escape
            || is_active(&span.text) && (place.in_html || has_pipe || has_unclosed_html(&span.text))
        {
            edits.push((span.range.clone(), code_element(&span.text).into()));
        } else if !simple {
            edits.push((span.range.clone(), format!("`{}`", span.text.replace('\n', " ")).into()));
        }
    }
}

/// Returns the text between the start of a paragraph, or the previous such span, and each code span that
/// contains `$`.
fn before_dollar_code(text: &str, outline: &Outline) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut last = 0;
    for span in outline.spans.iter().filter(|span| span.text.contains('$')) {
        let start = text[last..span.range.start].rfind("\n\n").map_or(last, |blank| last + blank);
        ranges.push(start..span.range.start);
        last = span.range.end;
    }
    ranges
}

/// Returns whether an HTML parser that ignores code would look for a closing tag outside of it.
fn has_unclosed_html(code: &str) -> bool {
    let open = code.rfind('<').is_some_and(|at| !code[at..].contains('>'));
    open || ["<!", "<?", "&#"].iter().any(|mark| code.contains(mark))
}

/// Lowers a heading and rewrites it in ATX form.
fn demote_heading(text: &str, range: Range<usize>, level: usize, by: usize, edits: &mut Vec<TextEdit<'_>>) {
    let source = &text[range.clone()];
    let start = range.start + (source.len() - source.trim_start_matches([' ', '\t']).len());
    let more = "#".repeat((level + by).min(6) - level);
    if is_atx(&text.as_bytes()[start..]) {
        edits.push((start..start, more.into()));
        return;
    }
    let source = source.trim_end();
    let Some(newline) = source.rfind('\n') else { return };
    let underline = range.start + newline;
    let line = underline..range.start + source.len();
    if text[start..underline].contains('\n') {
        // A setext heading of several lines has no ATX form; it becomes a paragraph.
        edits.push((line, "\n".into()));
    } else {
        edits.push((start..start, format!("{}{more} ", "#".repeat(level)).into()));
        edits.push((line, "".into()));
    }
}

/// Keeps a rule from becoming the underline of a heading or the start of front matter: surrounds it with
/// blank lines, or writes it with asterisks where lines have marks before them.
fn separate_rule(text: &str, range: Range<usize>, nested: bool, edits: &mut Vec<TextEdit<'_>>) {
    let bytes = text.as_bytes();
    let source = text[range.clone()].trim_end();
    if nested {
        if source.contains('-') {
            let start = range.start + (source.len() - source.trim_start().len());
            edits.push((start..range.start + source.len(), "***".into()));
        }
        return;
    }
    let line = line_start(text, range.start);
    if line > 1 && bytes[line - 2] != b'\n' {
        edits.push((line..line, "\n".into()));
    }
    let end = range.start + source.len();
    let below = memchr::memchr(b'\n', &bytes[end..]).map_or(text.len(), |newline| end + newline + 1);
    if bytes.get(below).is_some_and(|&b| b != b'\n') {
        edits.push((below..below, "\n".into()));
    }
}

/// Scans the text outside code and escapes everything that could be active.
struct EscapeScanner<'t> {
    text: &'t str,
    outline: &'t Outline,
    /// Paragraphs up to a code span that contains `$`, in order. Some renderers read a `$` in them and the one
    /// in the code as a formula, which takes the first backtick of the span.
    before_dollar_code: Vec<Range<usize>>,
    /// Start of the line's content, after its marks.
    content_start: usize,
    at: usize,
}

impl EscapeScanner<'_> {
    /// Skips code.
    fn skip_to(&mut self, end: usize) {
        let end = end.max(self.at);
        let bytes = self.text.as_bytes();
        if let Some(newline) = memchr::memrchr(b'\n', &bytes[self.at..end]) {
            self.content_start = line_content_start(bytes, self.at + newline + 1);
        }
        self.at = end;
    }

    /// Escapes everything that could be active, up to a position.
    fn escape_to(&mut self, end: usize, edits: &mut Vec<TextEdit<'_>>) {
        for at in self.at..end {
            self.escape_byte(at, edits);
            if self.text.as_bytes()[at] == b'\n' {
                self.content_start = line_content_start(self.text.as_bytes(), at + 1);
                self.separate_dashes(at + 1, edits);
            }
        }
        self.at = self.at.max(end);
    }

    /// Separates a line of dashes from the text line above, unless it is a rule: a renderer that parses the
    /// block above differently would read it as the underline of a heading.
    fn separate_dashes(&self, line: usize, edits: &mut Vec<TextEdit<'_>>) {
        let bytes = self.text.as_bytes();
        let first = line + bytes[line..].iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        let dashes = bytes[first..].iter().take_while(|&&b| b == b'-').count();
        let mut rest = bytes[first + dashes..].iter().skip_while(|b| matches!(b, b' ' | b'\t'));
        if dashes == 0 || !matches!(rest.next(), None | Some(b'\n')) {
            return;
        }
        let mut above = bytes[..line - 1].iter().rev().take_while(|&&b| b != b'\n');
        if above.all(u8::is_ascii_whitespace) {
            return;
        }
        let rules = &self.outline.rules;
        let after = rules.partition_point(|(range, _)| range.start <= first);
        if after == 0 || !rules[after - 1].0.contains(&first) {
            insert_mark(edits, line, "\n");
        }
    }

    fn is_before_dollar_code(&self, at: usize) -> bool {
        let next = self.before_dollar_code.partition_point(|range| range.end <= at);
        self.before_dollar_code.get(next).is_some_and(|range| range.contains(&at))
    }

    fn escape_byte(&self, at: usize, edits: &mut Vec<TextEdit<'_>>) {
        let (bytes, outline, words) = (self.text.as_bytes(), self.outline, self.content_start);
        let next = bytes.get(at + 1).copied().unwrap_or(b'\n');
        match bytes[at] {
            b']' if next == b'(' && !is_allowed_address(&bytes[at + 2..]) => insert_mark(edits, at + 1, "\\"),
            b']' if next == b':' => insert_mark(edits, at + 1, "\\"),
            b'`' | b'$' if is_escaped(bytes, at) => {}
            b'`' => insert_mark(edits, at, "\\"),
            // Some parsers ignore a backslash here.
            b'}' if closes_line(bytes, words, at) => edits.push((at..at + 1, "&#125;".into())),
            b'{' if opens_attributes(bytes, at) => {
                let from = if is_escaped(bytes, at) { at - 1 } else { at };
                edits.push((from..at + 1, "&#123;".into()));
            }
            b'$' if next == b'$' || at > 0 && bytes[at - 1] == b'$' || self.is_before_dollar_code(at) => {
                insert_mark(edits, at, "\\");
            }
            b'%' if next == b'%' => insert_mark(edits, at + 1, "\\"),
            b'#' if at == words && !is_heading(bytes, outline, at) => insert_mark(edits, at, "\\"),
            b'+' if at == words && bytes[at..].starts_with(b"+++") => insert_mark(edits, at, "\\"),
            // Some renderers read it as a link, with any scheme.
            b'[' if next == b'[' => insert_mark(edits, at + 1, "\\"),
            b'[' if at == words && opens_definition(bytes, at) => insert_mark(edits, at, "\\"),
            b'~' if at == words && bytes[at..].starts_with(b"~~~") => insert_mark(edits, at, "\\"),
            b':' if at == words && next == b':' => insert_mark(edits, at, "\\"),
            b'=' if at == words && is_underline(bytes, at) => insert_mark(edits, at, "\\"),
            b'<' if opens_tag(bytes, at) => {
                let from = if is_escaped(bytes, at) { at - 1 } else { at };
                edits.push((from..at + 1, "&lt;".into()));
            }
            b'&' if next == b'#' && !is_reference(bytes, at) => edits.push((at..at + 1, "&amp;".into())),
            b'!' if next == b'[' => {
                let leads = outline.images.binary_search(&at).is_ok();
                let plain = at == 0 || !matches!(bytes[at - 1], b'!' | b'\\');
                let unnamed = bytes.get(at + 2) == Some(&b']');
                match (leads, plain) {
                    (true, true) if unnamed => edits.push((at..at + 2, "[image".into())),
                    (true, true) => edits.push((at..at + 1, "".into())),
                    (true, false) => edits.push((at..at + 1, "&#33;".into())),
                    (false, _) => edits.push((at + 1..at + 1, "\\".into())),
                }
            }
            b if b == b'/' || at > 0 && bytes[at - 1] == b':' => {
                if let Some(mark) = autolink_breaker(bytes, at) {
                    insert_mark(edits, at, mark);
                }
            }
            _ => {}
        }
    }
}

/// Inserts a mark at a position.
fn insert_mark(edits: &mut Vec<TextEdit<'_>>, at: usize, mark: &'static str) {
    edits.push((at..at, mark.into()));
}

/// Finds the first byte of a line that is neither blank nor a list or quote mark.
fn line_content_start(bytes: &[u8], line: usize) -> usize {
    let mut at = line;
    let get = |at: usize| bytes.get(at).copied().unwrap_or(b'\n');
    loop {
        match get(at) {
            b' ' | b'\t' | b'>' => at += 1,
            b'-' | b'*' | b'+' if matches!(get(at + 1), b' ' | b'\t') => at += 2,
            b'0'..=b'9' => {
                let digits = bytes[at..].iter().take(10).take_while(|b| b.is_ascii_digit()).count();
                let marks =
                    matches!(get(at + digits), b'.' | b')') && matches!(get(at + digits + 1), b' ' | b'\t');
                if !marks {
                    return at;
                }
                at += digits + 2;
            }
            _ => return at,
        }
    }
}

fn is_underline(bytes: &[u8], at: usize) -> bool {
    let line = bytes[at..].split(|&b| b == b'\n').next().unwrap_or_default();
    line.trim_ascii_end().iter().all(|&b| b == b'=')
}

/// Returns whether an ATX heading begins at a position.
fn is_heading(bytes: &[u8], outline: &Outline, at: usize) -> bool {
    if !is_atx(&bytes[at..]) {
        return false;
    }
    let after = outline.headings.partition_point(|(range, _)| range.start <= at);
    // Spaces before the mark can be part of the heading's range.
    after > 0 && at - outline.headings[after - 1].0.start <= 3
}

/// Returns whether a line begins with an ATX heading mark.
fn is_atx(line: &[u8]) -> bool {
    let level = line.iter().take(7).take_while(|&&b| b == b'#').count();
    (1..=6).contains(&level) && line.get(level).is_none_or(u8::is_ascii_whitespace)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::escape::{code, escape_inline};
    use super::*;

    fn quoted(text: &str) -> String {
        let mut out = String::new();
        quote(&mut out, text, false);
        out
    }

    fn contained(text: &str) -> String {
        sanitize(text, TextContext { demote_by: 3, in_html: false })
    }

    #[test]
    fn quote_contains_all_of_its_text() {
        assert_eq!(quoted("\t<!-- x\ny"), "```\n<!-- x\n```\n\n> y\n");
        assert_eq!(
            quoted("a\n\n```\n\t<b>\n  c\n```\nd\ne"),
            "> a\n>\n\n```\n\t<b>\n  c\n```\n\n> d  \n> e\n"
        );
        assert_eq!(quoted("a\n```\n\tb\n  c\n```\nd"), "> a  \n> ```\n> \tb\n>   c\n> ```\n> d\n");
        assert_eq!(quoted("[foo]: http://x.y\n[^1]: note"), "> [foo]\\: http://x.y  \n> [^1]\\: note\n");
    }

    #[test]
    fn markup_does_not_extend_past_the_answer() {
        assert_eq!(contained("```rs\ncode"), "```rs\ncode\n```\n");
        assert_eq!(contained("~~~~ rs {onclick=x}\n```\n~~~~"), "````rs\n```\n````\n");
        assert_eq!(contained("- a\n  ```\n  code\n  ```"), "- a\n  ```\n  code\n  ```\n");
        assert_eq!(contained("- a\n  ```\n  code"), "- a\n\n```\ncode\n```\n");
        assert_eq!(contained("<!-- a\n\n```\nb"), "&lt;!-- a\n\n```\nb\n```\n");
        assert_eq!(contained("a <![CDATA[] > <!-- ]]>"), "a &lt;!\\[CDATA[] > &lt;!-- ]]>\n");
        assert_eq!(contained("a < b \\<c 1<2"), "a < b &lt;c 1<2\n");
        assert_eq!(contained("see [a]\n\n[a]: b\n[a]: c"), "see [a]\n\n[a]\\: b\n[a]\\: c\n");
    }

    #[test]
    fn ordinary_markdown_is_unchanged() {
        let text = "Some *words* and `Vec<T>`, **bold**, {id}, $5, 50% and https://a.b/c.\n\n- one\n  - two\n\n\
                    1. a\n   ```sh\n   # b\n   ls\n   ```\n2. c\n\n| a | b |\n|---|---|\n| c | `d` |\n\n\
                    > said\n\n[link](https://a.b \"t\") and [mail](mailto:a@b.c)\n\n---\n\n```html\n<b>&lt;</b>\n```\n";
        assert_eq!(contained(text), text);
    }

    #[test]
    fn only_links_with_safe_schemes_are_kept() {
        assert_eq!(contained("[a](javascript:x) [b](a.md)"), "[a]\\(javascript:x) [b]\\(a.md)\n");
        assert_eq!(contained("[a](java&#10;script:x)"), "[a]\\(java&#10;script:x)\n");
        assert_eq!(contained("[d](data:,<script>x</script>)"), "[d]\\(data:,&lt;script>x&lt;/script>)\n");
        assert_eq!(contained("[a](<https://b>) <https://c>"), "[a]\\(&lt;https://b>) &lt;https://c>\n");
        assert_eq!(
            contained("![a](https://b) ![](http://c) !![d](http://e)"),
            "[a](https://b) [image](http://c) !&#33;[d](http://e)\n"
        );
        assert_eq!(
            contained("![a](data:image/png,x) ![b][c] ![[d]]"),
            "!\\[a]\\(data:image/png,x) !\\[b][c] !\\[\\[d]]\n"
        );
    }

    #[test]
    fn headings_are_lower_than_those_of_the_document() {
        assert_eq!(contained("# a\n\n### b\n#c"), "#### a\n\n###### b\n\\#c\n");
        assert_eq!(contained("a\n===\n\nb\nc\n---\n\n#d\n--"), "#### a\n\nb\nc\n\n\n##### \\#d\n");
    }

    #[test]
    fn active_code_is_fenced_at_the_margin() {
        assert_eq!(
            contained("1. a\n   ```html\n   <b>\n   ```\n   then\n2. c"),
            "1. a\n\n```html\n<b>\n```\nthen\n\n2. c\n"
        );
        assert_eq!(contained("- - ```\n    <b>\n    ```\n"), "- -\n\n```\n<b>\n```\n\n");
        assert_eq!(contained("> ```\n> <b>\n> ```\n> d"), "\n```\n<b>\n```\nd\n\n");
        assert_eq!(contained("a\n\n    <b>\n"), "a\n\n```\n<b>\n```\n");
    }

    #[test]
    fn code_spans_close_on_their_line() {
        assert_eq!(contained("`a\nb` ``c`` `d"), "`a b` `c` \\`d\n");
        assert_eq!(contained("`` ` `` | `<b>`"), "<code>&#96;</code> | <code>&lt;b&gt;</code>\n");
        assert_eq!(
            sanitize("`<b>`", TextContext { demote_by: 0, in_html: true }),
            "<code>&lt;b&gt;</code>\n"
        );
    }

    #[test]
    fn dollars_before_code_do_not_open_a_formula() {
        assert_eq!(contained("$`$<b>`"), "\\$`$<b>`\n");
        assert_eq!(contained("$x `$` `<b>`"), "\\$x `$` `<b>`\n");
        assert_eq!(contained("costs $5\n\nsee `$HOME`, then $6"), "costs $5\n\nsee `$HOME`, then $6\n");
    }

    /// Pieces of Markdown and HTML used in attacks, and separators between them.
    const PIECES: [&str; 101] = [
        "$",
        "$a",
        "`$`",
        "`$<b>`",
        " {b}\n",
        "\n\n[^a",
        "`b]:c`",
        "{\"b\"}",
        "{b[{c}\n",
        "<script>",
        "</script>",
        "<img src=x onerror=y>",
        "<!--",
        "-->",
        "<![CDATA[",
        "<?x",
        "<b>",
        "</details>",
        "<a href=\"",
        "[a](javascript:b)",
        "[a](https://b)",
        "![a](https://b)",
        "![a](data:b)",
        "[a](<b>)",
        "[r]: javascript:b\n",
        "[^1]: a\n",
        "[^1]",
        "[r]",
        "[[a]]",
        "<javascript:b>",
        "<https://b>",
        "ftp://a.b",
        "xmpp:a@b.c",
        "//a.b",
        "{: onclick=a}",
        "{#a}",
        "{{ a }}",
        "$$",
        "$a$",
        "%%",
        "\n:::\n",
        "\n+++\n",
        "\n---\n",
        "\n===\n",
        "\n--\n",
        "\n# ",
        "\n## a\n",
        "\n#a\n",
        "`",
        "``",
        "```",
        "````",
        "~~~",
        "\n```\n",
        "\n~~~\n",
        "\n````\n",
        "\n``` a {b=c}\n",
        "\n",
        "\n\n",
        "\n    ",
        "\n\t",
        "\n- ",
        "\n* ",
        "\n1. ",
        "\n10) ",
        "\n  ",
        "\n   ",
        "\n      ",
        "\n> ",
        "\n> > ",
        "\n>",
        "\n- - ",
        "\n> - ",
        "\n  ```\n  ",
        "\n> ```\n> ",
        "\n| a | b |\n|---|---|\n| ",
        " | ",
        "\\",
        "\\\\",
        "|",
        " ",
        "\t",
        "!",
        "[",
        "]",
        "(",
        ")",
        ":",
        "<",
        ">",
        "&",
        "&#",
        "&#60;",
        "&lt;",
        "*",
        "_",
        "~~",
        "a",
        "word",
        "ß",
        "\u{200b}",
    ];

    fn parsed_document(text: &str) -> (Vec<String>, Vec<String>) {
        let seen = rethread_testkit::markdown::parse_markdown(text);
        let ours = seen.headings.into_iter().filter(|heading| heading.level <= 3);
        (seen.unexpected, ours.map(|heading| heading.text).collect())
    }

    proptest! {
        #[test]
        fn any_text_is_inert_and_self_contained(
            pieces in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..24),
            before in proptest::collection::vec(proptest::sample::select(&PIECES[..]), 0..8),
            in_html: bool,
        ) {
            let (text, before) = (pieces.concat(), before.concat());
            let place = TextContext { demote_by: 3, in_html };
            // A message of two texts: anything the first leaves open would swallow the second.
            let whole = format!("### One\n\n{}\n{}\n### Two\n", sanitize(&before, place), sanitize(&text, place));
            prop_assert_eq!(parsed_document(&whole), (vec![], vec!["One".to_owned(), "Two".to_owned()]), "{}", whole);
            let mut whole = "### One\n\n".to_owned();
            quote(&mut whole, &text, in_html);
            whole.push_str("\n### Two\n");
            prop_assert_eq!(parsed_document(&whole), (vec![], vec!["One".to_owned(), "Two".to_owned()]), "{}", whole);
            let line = format!("### {}\n\n- **A:** {}\n- {}\n\n### Two\n", escape_inline(&text), code(&text), escape_inline(&text));
            prop_assert_eq!(parsed_document(&line).0, Vec::<String>::new(), "{}", line);
        }
    }
}
