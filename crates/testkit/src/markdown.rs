//! Checks the constructs in exported Markdown with a parser that has every extension enabled.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The HTML tags that an export may contain.
const TAGS: [&str; 13] = [
    "</a>",
    "<details>",
    "<details open>",
    "</details>",
    "<summary>",
    "</summary>",
    "<sub>",
    "</sub>",
    "<code>",
    "</code>",
    "<b>",
    "</b>",
    "<i>",
];

/// A heading outside of lists, quotes and HTML elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// Its level, from 1.
    pub level: usize,
    /// Its text.
    pub text: String,
}

/// A document as a parser sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedMarkdown {
    /// Constructs that an export may not contain.
    pub unexpected: Vec<String>,
    /// The top-level headings.
    pub headings: Vec<Heading>,
}

/// The beginnings of link targets that an export may contain.
const LINK_STARTS: [&str; 8] =
    ["http://", "https://", "mailto:", "#", "transcript_", "subagents/", "../", "readme.md"];

/// Parses a document with every extension of the parser.
pub fn parse_markdown(markdown: &str) -> ParsedMarkdown {
    let mut walker = MarkdownWalker::default();
    let mut parser = Parser::new_ext(markdown, Options::all().difference(Options::ENABLE_OLD_FOOTNOTES))
        .into_offset_iter();
    for (event, range) in parser.by_ref() {
        if is_unexpected(&event) {
            walker.parsed.unexpected.push(markdown[range].chars().take(200).collect());
        }
        walker.visit(event);
    }
    let mut parsed = walker.parsed;
    parsed.unexpected.extend(parser.reference_definitions().iter().map(|(name, _)| format!("[{name}]:")));
    parsed
}

/// The state of a walk over the events of a document.
#[derive(Default)]
struct MarkdownWalker {
    parsed: ParsedMarkdown,
    /// The number of open Markdown elements.
    depth: usize,
    /// The number of open `<details>` elements.
    html_depth: i64,
    /// The current heading, if it is at the top level.
    heading: Option<Heading>,
}

impl MarkdownWalker {
    fn visit(&mut self, event: Event<'_>) {
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                self.html_depth +=
                    html.matches("<details").count() as i64 - html.matches("</details>").count() as i64;
                if !has_only_own_tags(&html) {
                    self.parsed.unexpected.push(html.into_string());
                }
            }
            Event::Start(tag) => {
                if let Tag::Heading { level, .. } = tag
                    && self.depth == 0
                    && self.html_depth == 0
                {
                    self.heading = Some(Heading { level: level_of(level), text: String::new() });
                }
                self.depth += 1;
            }
            Event::End(end) => {
                self.depth -= 1;
                if matches!(end, TagEnd::Heading(_)) {
                    self.parsed.headings.extend(self.heading.take());
                }
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut self.heading {
                    heading.text.push_str(&text);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether an event is Markdown that an export may not contain.
fn is_unexpected(event: &Event<'_>) -> bool {
    match event {
        Event::Start(Tag::Link { dest_url, .. }) => {
            let dest = dest_url.to_ascii_lowercase();
            // The parser gives an email address without its scheme.
            let email = dest.contains('@') && !dest.contains(':');
            !email && !LINK_STARTS.iter().any(|start| dest.starts_with(start))
        }
        Event::Start(Tag::Image { dest_url, .. }) => {
            !dest_url.trim_start_matches("../").starts_with("images/")
        }
        Event::Start(Tag::Heading { id, classes, attrs, .. }) => {
            id.is_some() || !classes.is_empty() || !attrs.is_empty()
        }
        Event::Start(Tag::FootnoteDefinition(_) | Tag::MetadataBlock(_))
        | Event::FootnoteReference(_)
        | Event::DisplayMath(_) => true,
        _ => false,
    }
}

fn level_of(level: HeadingLevel) -> usize {
    level as usize
}

/// Returns whether a piece of HTML contains only tags of an export.
fn has_only_own_tags(html: &str) -> bool {
    html.match_indices('<').all(|(at, _)| {
        let tag = &html[at..];
        let anchor =
            tag.strip_prefix("<a id=\"").and_then(|rest| rest.split_once("\">")).is_some_and(|(id, _)| {
                !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            });
        anchor || tag.starts_with("</i>") || TAGS.iter().any(|ours| tag.starts_with(ours))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_constructs_are_unexpected() {
        let ours = "# T\n\n<details open>\n<summary><b>x</b> <code>&lt;y></code></summary>\n\n### In\n\n</details>\n\n\
                    ### <a id=\"e1-m3\"></a>User · #3\n\n[a](https://b) ![c](images/d.png) `<e>`\n";
        let seen = parse_markdown(ours);
        assert_eq!(seen.unexpected, [] as [String; 0]);
        let headings: Vec<_> = seen.headings.iter().map(|h| (h.level, h.text.as_str())).collect();
        assert_eq!(headings, [(1, "T"), (3, "User · #3")]);
        for bad in [
            "<p>",
            "a <b x=y>",
            "[a](javascript:b)",
            "![a](https://b)",
            "<ftp:a>",
            "[a]: b",
            "[^1]: a",
            "$$a$$",
            "---\na: b\n---",
            "# a {#b}",
            "<a id=\"x\" onclick=\"y\">",
            "[[a:b]]",
        ] {
            assert_ne!(parse_markdown(bad).unexpected, [] as [String; 0], "{bad}");
        }
    }
}
