//! Markdown as HTML: only elements of Markdown; everything else becomes text.

use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Parser, Tag, TagEnd};

use super::byte_prefix;
use crate::export::markdown::{escape_definitions, markdown_options};
use crate::export::safe::{html_escaped, is_safe_link};

/// Writes Markdown as HTML. Only elements of Markdown are written; everything else becomes text.
pub(super) fn render_markdown(out: &mut String, said: &str, scratch: &mut String) {
    scratch.clear();
    let said = escape_definitions(said);
    let mut image = None;
    let mut unsafe_link: Option<CowStr<'_>> = None;
    let raw = |text: String| Event::Html(CowStr::from(text));
    let events = Parser::new_ext(&said, markdown_options()).filter_map(|event| {
        Some(match event {
            Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => return None,
            Event::Start(Tag::Heading { level, .. }) => raw(format!("<h{}>", demoted(level))),
            Event::End(TagEnd::Heading(level)) => raw(format!("</h{}>\n", demoted(level))),
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().unwrap_or_default(),
                    CodeBlockKind::Indented => "",
                };
                let named = !language.is_empty() && language.len() <= 30;
                let class = if named {
                    format!(" class=\"lang-{}\"", html_escaped(&language.to_lowercase()))
                } else {
                    String::new()
                };
                raw(format!("<pre class=\"code\"><code{class}>"))
            }
            Event::End(TagEnd::CodeBlock) => raw("</code></pre>\n".into()),
            Event::Start(Tag::Link { link_type, dest_url, .. }) => {
                let dest: CowStr<'_> =
                    if link_type == LinkType::Email { format!("mailto:{dest_url}").into() } else { dest_url };
                if is_safe_link(&dest) {
                    raw(format!("<a href=\"{}\" rel=\"noopener noreferrer\">", html_escaped(&dest)))
                } else {
                    unsafe_link = Some(dest);
                    raw("<span class=\"image\">".into())
                }
            }
            // The address of an unsafe link is shown as text.
            Event::End(TagEnd::Link) => match unsafe_link.take() {
                Some(dest) => raw(format!(" ({})</span>", html_escaped(byte_prefix(&dest, 200)))),
                None => raw("</a>".into()),
            },
            // An image would be fetched; its address is shown instead.
            Event::Start(Tag::Image { dest_url, .. }) => {
                image = Some(dest_url);
                raw("<span class=\"image\">".into())
            }
            Event::End(TagEnd::Image) => {
                let from = image.take().map(|url| byte_prefix(&url, 200).to_owned()).unwrap_or_default();
                raw(format!(" ({})</span>", html_escaped(&from)))
            }
            other => other,
        })
    });
    pulldown_cmark::html::push_html(scratch, events);
    out.push_str(scratch);
}

fn demoted(level: HeadingLevel) -> usize {
    (level as usize + 2).min(6)
}
