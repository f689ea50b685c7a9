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

/// Parses a document with every extension of the parser.
pub fn parse_markdown(markdown: &str) -> ParsedMarkdown {
    let mut seen = ParsedMarkdown::default();
    let (mut depth, mut html_depth) = (0i64, 0i64);
    let mut heading: Option<Heading> = None;
    let mut parser = Parser::new_ext(markdown, Options::all().difference(Options::ENABLE_OLD_FOOTNOTES))
        .into_offset_iter();
    for (event, range) in parser.by_ref() {
        let source = || markdown[range.clone()].chars().take(200).collect::<String>();
        match event {
            Event::Html(html) | Event::InlineHtml(html) => {
                html_depth +=
                    html.matches("<details").count() as i64 - html.matches("</details>").count() as i64;
                if !has_only_own_tags(&html) {
                    seen.unexpected.push(html.into_string());
                }
            }
            Event::Start(Tag::Link { dest_url, .. }) => {
                depth += 1;
                let leads =
                    ["http://", "https://", "mailto:", "#", "transcript_", "subagents/", "../", "index.html"];
                let dest = dest_url.to_ascii_lowercase();
                // The parser gives an email address without its scheme.
                let person = dest.contains('@') && !dest.contains(':');
                if !person && !leads.iter().any(|lead| dest.starts_with(lead)) {
                    seen.unexpected.push(source());
                }
            }
            Event::Start(Tag::Image { dest_url, .. }) => {
                depth += 1;
                if !dest_url.trim_start_matches("../").starts_with("images/") {
                    seen.unexpected.push(source());
                }
            }
            Event::Start(Tag::FootnoteDefinition(_) | Tag::MetadataBlock(_))
            | Event::FootnoteReference(_)
            | Event::DisplayMath(_) => {
                seen.unexpected.push(source());
                depth += i64::from(matches!(event, Event::Start(_)));
            }
            Event::Start(Tag::Heading { level, id, classes, attrs }) => {
                if id.is_some() || !classes.is_empty() || !attrs.is_empty() {
                    seen.unexpected.push(source());
                }
                if depth == 0 && html_depth == 0 {
                    heading = Some(Heading { level: level_of(level), text: String::new() });
                }
                depth += 1;
            }
            Event::End(end) => {
                depth -= 1;
                if matches!(end, TagEnd::Heading(_)) {
                    seen.headings.extend(heading.take());
                }
            }
            Event::Start(_) => depth += 1,
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.text.push_str(&text);
                }
            }
            _ => {}
        }
    }
    seen.unexpected.extend(parser.reference_definitions().iter().map(|(name, _)| format!("[{name}]:")));
    seen
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
