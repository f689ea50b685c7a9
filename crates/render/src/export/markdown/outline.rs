//! The structure of a text from a log: its code, headings, images and rules, as parsed after everything that
//! will be escaped is escaped.
//!
//! Before a text is parsed, each `<` that could begin a tag and each `:` after a bracket is masked by a
//! control character, which a cleaned text never contains. So there is no HTML and no definition, and the
//! boundaries of code do not move when these characters are escaped.

use std::borrow::Cow;
use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::escape::{is_active, is_allowed_address, opens_tag};

/// Masks a `<`.
const TAG_MASK: u8 = 1;
/// Masks the colon of a definition.
const COLON_MASK: u8 = 2;
/// Maximum number of times code is moved out of a list or quote before the whole text becomes code.
const MAX_UNNESTED: usize = 8;

/// The parts of a text's structure that matter for escaping.
#[derive(Default)]
pub(super) struct Outline {
    pub(super) code: Vec<CodeBlock>,
    pub(super) spans: Vec<CodeSpan>,
    pub(super) headings: Vec<(Range<usize>, HeadingLevel)>,
    /// Start positions of images with an external address.
    pub(super) images: Vec<usize>,
    /// Thematic breaks, and whether they are nested.
    pub(super) rules: Vec<(Range<usize>, bool)>,
}

pub(super) struct CodeBlock {
    /// Starts at the first character of the fence or of the code.
    pub(super) range: Range<usize>,
    pub(super) info: String,
    pub(super) text: String,
    pub(super) fenced: bool,
    /// The outermost list item or quote that contains it.
    pub(super) outer: Option<Container>,
}

#[derive(Clone)]
pub(super) struct Container {
    pub(super) range: Range<usize>,
    is_item: bool,
}

pub(super) struct CodeSpan {
    pub(super) range: Range<usize>,
    pub(super) text: String,
}

/// Masks the characters that will be escaped.
fn mask_markup(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut found: Option<Vec<u8>> = None;
    for at in memchr::memchr2_iter(b'<', b']', bytes) {
        if opens_tag(bytes, at) {
            found.get_or_insert_with(|| bytes.to_vec())[at] = TAG_MASK;
        } else if bytes[at..].starts_with(b"]:") {
            found.get_or_insert_with(|| bytes.to_vec())[at + 1] = COLON_MASK;
        }
    }
    found.map_or(text.into(), |found| String::from_utf8(found).expect("ASCII replaced by ASCII").into())
}

/// Restores a piece of a masked text.
fn unmask_markup(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{1}' => '<',
            '\u{2}' => ':',
            c => c,
        })
        .collect()
}

fn parse_outline(text: &str) -> Outline {
    let text = mask_markup(text);
    let mut outline = Outline::default();
    let mut containers: Vec<Container> = Vec::new();
    let mut in_code = false;
    for (event, range) in Parser::new_ext(&text, markdown_options()).into_offset_iter() {
        match event {
            Event::Start(Tag::Item) => containers.push(Container { range, is_item: true }),
            Event::Start(Tag::BlockQuote(_)) => containers.push(Container { range, is_item: false }),
            Event::End(TagEnd::Item | TagEnd::BlockQuote(_)) => {
                containers.pop();
            }
            Event::Start(Tag::CodeBlock(kind)) => {
                in_code = true;
                let (fenced, info) = match &kind {
                    CodeBlockKind::Fenced(info) => (true, unmask_markup(info)),
                    CodeBlockKind::Indented => (false, String::new()),
                };
                let outer = containers.first().cloned();
                outline.code.push(CodeBlock { range, info, text: String::new(), fenced, outer });
            }
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(said) if in_code => {
                if let Some(block) = outline.code.last_mut() {
                    block.text.push_str(&unmask_markup(&said));
                }
            }
            Event::Code(said) => outline.spans.push(CodeSpan { range, text: unmask_markup(&said) }),
            Event::Start(Tag::Heading { level, .. }) => outline.headings.push((range, level)),
            Event::Start(Tag::Image { dest_url, .. })
                if is_allowed_address(dest_url.as_bytes()) && !dest_url.starts_with('#') =>
            {
                outline.images.push(range.start);
            }
            Event::Rule => outline.rules.push((range, !containers.is_empty())),
            _ => {}
        }
    }
    outline
}

/// Moves code that could become active out of the lists and quotes that contain it. Returns `None` for a text
/// built to resist this.
pub(super) fn unnest_code(text: &str) -> Option<(Cow<'_, str>, Outline)> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..MAX_UNNESTED {
        let outline = parse_outline(&text);
        let mut cuts: Vec<(usize, &Container)> = Vec::new();
        for block in &outline.code {
            let Some(outer) = &block.outer else { continue };
            let first = cuts.last().is_none_or(|(_, last)| last.range.end <= block.range.start);
            // Whether something is indented enough to be code depends on the position of the text.
            let moves =
                !block.fenced || is_active(&block.text) || is_active(&block.info) || !is_closed(&text, block);
            if first && moves {
                cuts.push((block.range.start, outer));
            }
        }
        if cuts.is_empty() {
            return Some((text, outline));
        }
        text = Cow::Owned(unwrap_containers(&text, &cuts));
    }
    None
}

/// Returns whether a code block has its own closing fence.
pub(super) fn is_closed(text: &str, block: &CodeBlock) -> bool {
    if !block.fenced {
        return true;
    }
    let mut lines = text[block.range.clone()].trim_end_matches('\n').lines();
    let mark = lines.next().and_then(|first| first.trim_start().chars().next()).unwrap_or('`');
    lines.next_back().is_some_and(|last| last.trim_end().chars().rev().take_while(|&c| c == mark).count() > 2)
}

/// Writes a text in which list items and quotes end where code begins: lines from there to the end of the
/// container lose its indent or mark.
fn unwrap_containers(text: &str, cuts: &[(usize, &Container)]) -> String {
    let mut out = String::with_capacity(text.len() + cuts.len() * 4);
    let mut at = 0;
    for &(code, container) in cuts {
        let line = line_start(text, code);
        let begins_here = container.range.start >= line;
        let strip = match begins_here && container.is_item {
            true => ContainerPrefix::Columns(code - line),
            false => ContainerPrefix::of(text, container),
        };
        out.push_str(&text[at..line]);
        at = line;
        if begins_here {
            let marks = text[line..code].trim_end();
            // An empty list item is kept; an empty quote is not.
            if !marks.bytes().all(|b| matches!(b, b'>' | b' ')) {
                out.push_str(marks);
                out.push('\n');
            }
            at = code;
        }
        out.push('\n');
        let end = container.range.end.max(at);
        let mut first = begins_here;
        for line in text[at..end].split_inclusive('\n') {
            out.push_str(if first { line } else { strip.strip_from(line) });
            first = false;
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
        out.push('\n');
        at = end;
    }
    out.push_str(&text[at..]);
    out
}

/// The prefix of the lines of a container.
enum ContainerPrefix {
    Columns(usize),
    QuoteMark,
}

impl ContainerPrefix {
    fn of(text: &str, container: &Container) -> Self {
        if !container.is_item {
            return Self::QuoteMark;
        }
        let line = line_start(text, container.range.start);
        let marker = &text[container.range.start..container.range.end];
        let marker = marker.lines().next().unwrap_or_default();
        let bare = marker.trim_start();
        let bare = bare.trim_start_matches(|c: char| c.is_ascii_digit());
        let bare = bare.strip_prefix(['-', '*', '+', '.', ')']).unwrap_or(bare);
        let words = bare.trim_start();
        let blanks =
            if words.is_empty() || bare.len() - words.len() > 4 { 1 } else { bare.len() - words.len() };
        Self::Columns(container.range.start - line + (marker.len() - bare.len()) + blanks)
    }

    fn strip_from<'l>(&self, line: &'l str) -> &'l str {
        match self {
            Self::QuoteMark => {
                let bare = line.trim_start_matches(' ');
                bare.strip_prefix('>').map_or(line, |rest| rest.strip_prefix(' ').unwrap_or(rest))
            }
            Self::Columns(columns) => {
                let mut used = 0;
                let blanks = line.bytes().take_while(|b| {
                    used += match b {
                        b' ' => 1,
                        b'\t' => 4 - used % 4,
                        _ => return false,
                    };
                    used <= *columns
                });
                &line[blanks.count()..]
            }
        }
    }
}

pub(super) fn line_start(text: &str, at: usize) -> usize {
    memchr::memrchr(b'\n', &text.as_bytes()[..at]).map_or(0, |newline| newline + 1)
}

/// Returns the Markdown extensions that answers are parsed with.
pub(in crate::export) fn markdown_options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Escapes definitions of links and footnotes so that they are shown as text: on a page they would take
/// effect without being visible.
pub(in crate::export) fn escape_definitions(text: &str) -> Cow<'_, str> {
    if !text.contains("]:") {
        return text.into();
    }
    let outline = parse_outline(text);
    let mut code = outline
        .code
        .iter()
        .map(|block| &block.range)
        .chain(outline.spans.iter().map(|span| &span.range))
        .cloned()
        .collect::<Vec<_>>();
    code.sort_unstable_by_key(|range| range.start);
    let mut code = code.into_iter().peekable();
    let mut out = String::with_capacity(text.len() + 8);
    let mut from = 0;
    for at in memchr::memmem::find_iter(text.as_bytes(), "]:") {
        while code.next_if(|range| range.end <= at).is_some() {}
        if code.peek().is_none_or(|range| at < range.start) {
            out.push_str(&text[from..=at]);
            out.push('\\');
            from = at + 1;
        }
    }
    out.push_str(&text[from..]);
    out.into()
}
