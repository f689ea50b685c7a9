//! A document as one HTML page: no network access, and no script except its own.
//!
//! The page is written while the path is read. The first part is laid out; the rest is stored in inert chunks
//! that the page's script shows one at a time, so that a long session opens at once. All text from a log is
//! escaped, Markdown is limited to a known list of elements, links to known schemes, and a content security
//! policy forbids everything that is not part of the page.

mod head;
mod page;
mod prose;
mod urls;

use std::fmt::Write as _;
use std::io::{self, Write};

use rethread_log::Json;
use rethread_model::{
    BlockView, CallEvent, ListedSubagent, MessageEvent, MessageKind, NoteEvent, PartEvent, ResultEvent,
    ResultPart, SubagentEvent, SubagentNo, Time, TranscriptWriter, collapse_whitespace, describe_media,
};

use self::page::Paginator;
use self::prose::render_markdown;
use self::urls::push_linked;
use super::safe::{LONG, clean_pieces, html_escaped, push_escaped, strip_control_codes};
use super::tools::{
    CallSection, TodoState, describe_call, describe_other_block, result_language, strip_client_markup,
};
use super::{Document, MAX_PROSE, embedded_image, extent, format_time, format_tokens, input_tokens, said_in};
use crate::text::{format_count, plural, truncate};

pub(super) use self::page::page_start;

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>) -> io::Result<()> {
    let mut head = String::new();
    head::write_head(&mut head, document)?;
    out.write_all(head.as_bytes())?;
    let pages = Paginator::new(out);
    head.clear();
    let mut page = HtmlWriter {
        document,
        pages,
        failed: None,
        text: head,
        markdown_buffer: String::new(),
        compactions: 0,
        is_article_open: false,
    };
    document.transcript.walk(&mut page)
}

struct HtmlWriter<'a> {
    document: &'a Document<'a>,
    pages: Paginator<'a>,
    /// The error that stopped a part of a very long item from being written.
    failed: Option<io::Error>,
    text: String,
    /// Reusable buffer for Markdown.
    markdown_buffer: String,
    /// The number of compactions so far, without those of subagents.
    compactions: usize,
    /// The article of a message with results is opened by the first result without a call.
    is_article_open: bool,
}

impl HtmlWriter<'_> {
    /// Adds the finished item to a page.
    fn end_page_item(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)?;
        self.pages.push(&mut self.text)
    }

    /// Flushes in the middle of a very long item; an error is reported at its end.
    fn spill(&mut self) {
        if self.text.len() > LONG && self.failed.is_none() {
            self.failed = self.pages.begin(&mut self.text).err();
        }
    }

    /// Cleans a text and writes it as the text of an element. It may be very long, so it is not copied as a
    /// whole.
    fn html(&mut self, text: &str) {
        for piece in clean_pieces(text) {
            push_escaped(&mut self.text, &piece);
            self.spill();
        }
    }

    fn write_pre(&mut self, class: &str, language: &str, code: &str) {
        let _ = write!(self.text, "<pre class=\"{class}\"><code");
        if !language.is_empty() {
            let _ = write!(self.text, " class=\"lang-{}\"", html_escaped(language));
        }
        self.text.push('>');
        if code.len() <= LONG {
            let code = strip_control_codes(code);
            push_escaped(&mut self.text, code.strip_suffix('\n').unwrap_or(&code));
        } else {
            self.html(code.strip_suffix('\n').unwrap_or(code));
        }
        self.text.push_str("</code></pre>");
    }

    fn open_article(&mut self, event: &MessageEvent<'_>, class: &str, who: &str) {
        let (id, message) = (event.anchor(), event.message);
        let _ = write!(
            self.text,
            "<article class=\"msg {class}\" id=\"{id}\"><header><a class=\"n\" href=\"#{id}\">#{}</a> <b>{who}</b> ",
            message.n
        );
        if let Some(model) = message.model.filter(|_| class == "answer") {
            let _ = write!(self.text, "<span class=\"model\">{}</span> ", html_text(model));
        }
        write_time(&mut self.text, message.time);
        if let Some(usage) = &message.usage {
            let (input, output) = (input_tokens(usage), usage.output);
            let _ = write!(
                self.text,
                " <span class=\"usage\" title=\"{} tokens in, {} of them from the cache; {} out\">{} in · {} out</span>",
                format_count(input),
                format_count(usage.cache_read),
                format_count(output),
                format_tokens(input),
                format_tokens(output)
            );
        }
        self.text.push_str("</header>");
    }

    /// Writes a text as it is, without parsing it as Markdown. Only its web addresses become links.
    fn write_plain(&mut self, text: &str) {
        self.text.push_str("<div class=\"text plain\" dir=\"auto\">");
        for piece in clean_pieces(text) {
            push_linked(&mut self.text, &piece);
            self.spill();
        }
        self.text.push_str("</div>");
    }

    fn write_markdown(&mut self, said: &str) {
        let said = said.trim_matches('\n');
        if said.len() > MAX_PROSE {
            return self.write_plain(said);
        }
        let said = strip_control_codes(said);
        self.text.push_str("<div class=\"text md\" dir=\"auto\">");
        render_markdown(&mut self.text, &said, &mut self.markdown_buffer);
        self.text.push_str("</div>");
    }

    fn write_media(&mut self, block: Json<'_>) {
        let name = describe_media(block);
        let name = html_text(name.trim_matches(['[', ']']));
        match embedded_image(block).filter(|_| self.document.transcript.content.images) {
            Some(picture) => {
                let _ = write!(
                    self.text,
                    "<figure class=\"media\"><img alt=\"{name}\" loading=\"lazy\" src=\"data:{};base64,{}\"></figure>",
                    picture.media_type, picture.base64
                );
            }
            None => match describe_other_block(block) {
                Some((language, said)) => {
                    let _ = write!(
                        self.text,
                        "<details class=\"tool\"><summary><b>{name}</b></summary><div class=\"body\">"
                    );
                    self.write_pre("result", language, &said);
                    self.text.push_str("</div></details>");
                }
                None => {
                    let _ = write!(self.text, "<p class=\"media\">{name}</p>");
                }
            },
        }
    }

    fn write_section(&mut self, piece: &CallSection) {
        match piece {
            CallSection::Code(label, language, code) => {
                let _ = write!(self.text, "<h4>{label}</h4>");
                self.write_pre("code", language, code);
            }
            CallSection::Prose(label, prose) => {
                let _ = write!(self.text, "<h4>{label}</h4>");
                self.write_markdown(prose);
            }
            CallSection::Diff(diff) => {
                self.text.push_str("<pre class=\"diff\"><code>");
                for line in diff.lines() {
                    let class = match line.as_bytes().first() {
                        Some(b'+') => "ins",
                        Some(b'-') => "del",
                        Some(b'@') => "hunk",
                        _ => "",
                    };
                    if class.is_empty() {
                        push_escaped(&mut self.text, line);
                    } else {
                        let _ = write!(self.text, "<span class=\"{class}\">");
                        push_escaped(&mut self.text, line);
                        self.text.push_str("</span>");
                    }
                    self.text.push('\n');
                    self.spill();
                }
                self.text.push_str("</code></pre>");
            }
            CallSection::Todos(list) => {
                self.text.push_str("<ul class=\"todos\">");
                for (state, todo) in list {
                    let class = match state {
                        TodoState::Done => "done",
                        TodoState::InProgress => "doing",
                        TodoState::Open => "open",
                    };
                    let _ = write!(self.text, "<li class=\"{class}\">{}</li>", html_escaped(todo));
                }
                self.text.push_str("</ul>");
            }
        }
    }

    fn write_result(&mut self, result: &ResultEvent<'_>, language: &str) {
        for part in &result.parts {
            match part {
                ResultPart::Text(said) if !said.is_empty() => {
                    let class = if result.block.is_error() { "result error" } else { "result" };
                    self.write_pre(class, language, said);
                }
                ResultPart::Text(_) => {}
                ResultPart::Other(item) => self.write_media(*item),
            }
        }
    }

    /// Writes the subagents whose call is unknown.
    fn write_unlinked_subagents(&mut self, subagents: &[ListedSubagent<'_>]) {
        let mut unlinked = subagents.iter().filter(|listed| listed.call_id.is_none()).peekable();
        if unlinked.peek().is_none() {
            return;
        }
        self.text.push_str("<section class=\"lost\"><h3>Subagents whose call is not known</h3><ul>");
        for listed in unlinked {
            let name = self.subagent_link(listed.number, &html_text(&listed.subagent.name));
            let messages = plural(listed.subagent.messages as u64, "message");
            let _ = write!(self.text, "<li>{name}, {messages}</li>");
        }
        self.text.push_str("</ul></section>\n");
    }

    /// Returns a link to the document of a subagent, or only its text if there is no document.
    fn subagent_link(&self, number: SubagentNo, text: &str) -> String {
        let links = self.document.links;
        match links.subagent(number) {
            Some(file) => format!("<a href=\"{}{}\">{text}</a>", links.root_prefix, html_escaped(file)),
            None => text.to_owned(),
        }
    }

    fn write_short_note(&mut self, said: &str, class: &str, id: Option<&str>) {
        let said = said.trim();
        if said.is_empty() {
            return;
        }
        let id = id.map(|id| format!(" id=\"{id}\"")).unwrap_or_default();
        let _ = write!(self.text, "<article class=\"msg {class}\"{id}>");
        if said.lines().count() <= 3 && said.len() <= 300 {
            let _ = write!(self.text, "<p>{}</p>", html_escaped(&collapse_whitespace(said)));
        } else {
            let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let first = html_escaped(&truncate(&collapse_whitespace(first), 100));
            let _ = write!(self.text, "<details><summary>{first}</summary>");
            self.write_pre("result", "", said);
            self.text.push_str("</details>");
        }
        self.text.push_str("</article>\n");
    }
}

impl TranscriptWriter for HtmlWriter<'_> {
    fn begin_part(&mut self, part: &PartEvent<'_>) -> io::Result<()> {
        if part.count > 1 {
            let label = if part.index > 0 { "Continued in session" } else { "From session" };
            let _ = write!(
                self.text,
                "<div class=\"joint\"><span>{label} {}</span></div>",
                html_text(part.session)
            );
        }
        Ok(())
    }

    fn begin_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        match event.message.kind {
            MessageKind::Prompt => {
                let is_person = event.depth == 0 && self.document.transcript.header.subagent.is_none();
                self.open_article(event, "prompt", if is_person { "You" } else { "Prompt" });
            }
            MessageKind::Summary => {
                self.open_article(event, "summary", "Summary");
                self.text.push_str("<details><summary>Summary of the earlier conversation</summary>");
            }
            MessageKind::Answer => self.open_article(event, "answer", "Claude"),
            _ => {}
        }
        Ok(())
    }

    fn text(&mut self, event: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        match event.message.kind {
            MessageKind::Prompt => {
                let typed = block.readable();
                let typed = typed.trim_matches('\n');
                if !typed.is_empty() {
                    self.write_plain(typed);
                }
            }
            MessageKind::Result => self.write_short_note(&strip_client_markup(&block.text()), "note", None),
            _ => self.write_markdown(&block.text()),
        }
        Ok(())
    }

    fn thinking(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        self.text.push_str("<details class=\"thinking\"><summary>Thinking</summary>");
        self.write_markdown(&block.text());
        self.text.push_str("</details>");
        Ok(())
    }

    fn media(&mut self, _: &MessageEvent<'_>, block: Json<'_>) -> io::Result<()> {
        self.write_media(block);
        Ok(())
    }

    fn begin_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let tool = call.block.tool();
        let name = html_text(&tool);
        let view = describe_call(&tool, call.block.input(), call.result_copy());
        let open = if view.expanded { " open" } else { "" };
        let _ =
            write!(self.text, "<details class=\"tool\" data-tool=\"{name}\"{open}><summary><b>{name}</b> ");
        let subject = without_outcome(&view.summary, call);
        if !subject.is_empty() {
            let _ = write!(self.text, "<code class=\"gist\">{}</code> ", html_escaped(subject));
        }
        if call.results.is_empty() {
            self.text.push_str("<span class=\"outcome none\">no result</span>");
        }
        for result in &call.results {
            write_outcome(&mut self.text, result);
        }
        self.text.push_str("</summary><div class=\"body\">");
        for section in &view.sections {
            self.write_section(section);
        }
        let language = result_language(&tool, call.block.input());
        for result in &call.results {
            if result.has_anchor {
                let _ = write!(self.text, "<h4 id=\"{}\">Result</h4>", result.message.anchor());
            } else {
                self.text.push_str("<h4>Result</h4>");
            }
            self.write_result(result, &language);
        }
        Ok(())
    }

    fn end_call(&mut self, _: &CallEvent<'_>) -> io::Result<()> {
        self.text.push_str("</div></details>");
        Ok(())
    }

    fn orphan_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        if !self.is_article_open {
            self.open_article(&result.message, "answer loose", "Result without a call");
            self.is_article_open = true;
        }
        let _ = write!(
            self.text,
            "<details class=\"tool\"><summary><code class=\"gist\">{}</code> ",
            html_text(&result.block.id())
        );
        write_outcome(&mut self.text, result);
        self.text.push_str("</summary><div class=\"body\">");
        self.write_result(result, "");
        self.text.push_str("</div></details>");
        Ok(())
    }

    fn end_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        match event.message.kind {
            MessageKind::Summary => self.text.push_str("</details></article>\n"),
            MessageKind::Result if !std::mem::take(&mut self.is_article_open) => {}
            _ => self.text.push_str("</article>\n"),
        }
        Ok(())
    }

    fn remark(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        let class = if event.message.kind == MessageKind::Command { "command" } else { "note" };
        self.write_short_note(&said_in(event.message), class, Some(&event.anchor()));
        Ok(())
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let said = strip_client_markup(&event.note.text);
        if !said.trim().is_empty() {
            let said = format!("{}: {}", strip_control_codes(&event.note.kind), said.trim());
            self.write_short_note(&said, "note", None);
        }
        Ok(())
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        // Compactions inside a subagent do not appear in the outline.
        let mut id = String::new();
        if event.depth == 0 {
            self.compactions += 1;
            id = format!(" id=\"c{}\"", self.compactions);
        }
        let before = event.note.tokens_before.map(|n| format!(" · {} tokens before", format_count(n)));
        let before = before.unwrap_or_default();
        let _ = write!(self.text, "<div class=\"compaction\"{id}><span>Compacted here{before} · ");
        write_time(&mut self.text, event.note.time);
        self.text.push_str("</span></div>\n");
        Ok(())
    }

    fn begin_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        let messages = plural(event.subagent.messages as u64, "message");
        let _ = write!(
            self.text,
            "<details class=\"subagent\"><summary>Subagent: {messages}</summary><div class=\"body\">"
        );
        if self.document.links.subagent(event.number).is_some() {
            let link = self.subagent_link(event.number, "On a separate page");
            let _ = write!(self.text, "<p>{link}</p>");
        }
        Ok(())
    }

    fn end_subagent(&mut self, _: &SubagentEvent<'_>) -> io::Result<()> {
        self.text.push_str("</div></details>");
        Ok(())
    }

    fn linked_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        let text = format!("Subagent: {}", plural(event.subagent.messages as u64, "message"));
        let link = self.subagent_link(event.number, &text);
        let _ = write!(self.text, "<p>{link}</p>");
        Ok(())
    }

    fn end_item(&mut self, depth: usize) -> io::Result<()> {
        // An item is on one page together with its subagents.
        if depth == 0 { self.end_page_item() } else { Ok(()) }
    }

    fn end(&mut self, subagents: &[ListedSubagent<'_>]) -> io::Result<()> {
        self.write_unlinked_subagents(subagents);
        self.end_page_item()?;
        self.pages.finish()
    }
}

fn write_outcome(out: &mut String, result: &ResultEvent<'_>) {
    if result.block.is_error() {
        out.push_str("<span class=\"outcome error\">error</span>");
    } else {
        let _ = write!(out, "<span class=\"outcome\">{}</span>", extent(&result.parts));
    }
}

/// Returns the summary of a call without a count of lines that its outcome repeats.
fn without_outcome<'s>(summary: &'s str, call: &CallEvent<'_>) -> &'s str {
    let [result] = &call.results[..] else { return summary };
    if result.block.is_error() {
        return summary;
    }
    match summary.strip_suffix(&extent(&result.parts)) {
        Some("") => "",
        Some(subject) => subject.strip_suffix(" · ").unwrap_or(summary),
        None => summary,
    }
}

/// Returns the beginning of a text that may be very long.
fn byte_prefix(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn html_text(said: &str) -> String {
    html_escaped(&strip_control_codes(said))
}

fn write_time(out: &mut String, time: Option<Time>) {
    if let Some((iso, shown)) = time.and_then(Time::to_iso).zip(format_time(time)) {
        let _ = write!(out, "<time datetime=\"{iso}\">{shown}</time>");
    }
}

fn badge(active: bool) -> String {
    let name = if active { "active" } else { "abandoned" };
    format!("<span class=\"badge {name}\">{name}</span>")
}
