//! A document as one HTML page: no network access, and no script except its own.
//!
//! The page is written while the path is read. The first part is laid out; the rest is stored in inert chunks
//! that the page's script shows one at a time, so that a long session opens at once. All text from a log is
//! escaped, Markdown is limited to a known list of elements, links to known schemes, and a content security
//! policy forbids everything that is not part of the page.

mod head;
mod page;
mod prose;

use std::fmt::Write as _;
use std::io::{self, Write};

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, MessageKind, MessageView, NoteView, ResultPart, Time, TranscriptItem, collapse_whitespace,
    describe_media,
};

use self::page::Paginator;
use self::prose::render_markdown;
use super::safe::{LONG, clean_pieces, html_escaped, push_escaped, strip_control_codes};
use super::tools::{
    CallSection, TodoState, describe_call, describe_other_block, result_language, strip_client_markup,
};
use super::{
    CallResults, Document, DocumentPart, MAX_NESTING, MAX_PROSE, embedded_image, extent, format_time,
    format_tokens, input_tokens, is_under_call, said_in, whole_parts,
};
use crate::text::{format_count, plural, truncate};

pub(super) use self::page::page_start;

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>) -> io::Result<()> {
    let mut head = String::new();
    head::write_head(&mut head, document)?;
    out.write_all(head.as_bytes())?;
    let pages = Paginator::new(out);
    let mut page = HtmlWriter { document, pages, failed: None, text: head, markdown_buffer: String::new() };
    page.text.clear();
    let mut marks = 0;
    for (i, part) in document.parts.iter().enumerate() {
        if document.parts.len() > 1 {
            let told = if i > 0 { "Continued in session" } else { "From session" };
            let _ = write!(
                page.text,
                "<div class=\"joint\"><span>{told} {}</span></div>",
                html_text(part.session)
            );
        }
        part.items.for_each_step(|run, _| {
            let answers = CallResults::new(run);
            for item in &run.items {
                page.write_item(part, &answers, item, 0, &mut marks)?;
                page.end_item()?;
            }
            Ok(())
        })?;
    }
    page.write_unlinked_agents();
    page.end_item()?;
    page.pages.finish()
}

struct HtmlWriter<'a> {
    document: &'a Document<'a>,
    pages: Paginator<'a>,
    /// The error that stopped a part of a very long item from being written.
    failed: Option<io::Error>,
    text: String,
    /// Reusable buffer for Markdown.
    markdown_buffer: String,
}

impl HtmlWriter<'_> {
    /// Adds the finished item to a page.
    fn end_item(&mut self) -> io::Result<()> {
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

    fn write_item(
        &mut self,
        part: &DocumentPart<'_>,
        answers: &CallResults<'_, '_>,
        item: &TranscriptItem<'_>,
        depth: usize,
        marks: &mut usize,
    ) -> io::Result<()> {
        match item {
            TranscriptItem::Message(message) => self.write_message(part, answers, message, depth),
            TranscriptItem::Note(note) => {
                self.write_note(note, depth, marks);
                Ok(())
            }
        }
    }

    fn open_article(&mut self, part: &DocumentPart<'_>, message: &MessageView<'_>, class: &str, who: &str) {
        let id = format!("{}m{}", part.prefix, message.n);
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

    fn write_message(
        &mut self,
        part: &DocumentPart<'_>,
        answers: &CallResults<'_, '_>,
        message: &MessageView<'_>,
        depth: usize,
    ) -> io::Result<()> {
        match message.kind {
            MessageKind::Prompt => {
                let somebody = depth == 0 && self.document.head.agent.is_none();
                self.open_article(part, message, "prompt", if somebody { "You" } else { "Prompt" });
                self.write_prompt(message);
                self.text.push_str("</article>\n");
            }
            MessageKind::Answer => {
                if !message.blocks.iter().any(|block| self.document.is_visible(block)) {
                    return Ok(());
                }
                self.open_article(part, message, "answer", "Claude");
                for block in &message.blocks {
                    self.write_answer_block(part, answers, (message, block), depth)?;
                }
                self.text.push_str("</article>\n");
            }
            MessageKind::Result => self.write_orphan_results(part, message),
            MessageKind::Summary => {
                self.open_article(part, message, "summary", "Summary");
                self.text.push_str(
                    "<details><summary>Summary of the earlier conversation, written by the client</summary>",
                );
                self.write_text(message);
                self.text.push_str("</details></article>\n");
            }
            MessageKind::Command | MessageKind::Note if message.meta => {}
            MessageKind::Command | MessageKind::Note => {
                let said = said_in(message);
                let id = format!("{}m{}", part.prefix, message.n);
                let class = if message.kind == MessageKind::Command { "command" } else { "note" };
                self.write_short_note(&said, class, Some(&id));
            }
        }
        Ok(())
    }

    /// Writes the text a person typed, without the markup that the client added.
    fn write_prompt(&mut self, message: &MessageView<'_>) {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => {
                    let typed = block.readable();
                    let typed = typed.trim_matches('\n');
                    if !typed.is_empty() {
                        self.text.push_str("<div class=\"text plain\" dir=\"auto\">");
                        self.html(typed);
                        self.text.push_str("</div>");
                    }
                }
                _ => self.write_media(block.json()),
            }
        }
    }

    fn write_text(&mut self, message: &MessageView<'_>) {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => self.write_markdown(&block.text()),
                _ => self.write_media(block.json()),
            }
        }
    }

    fn write_markdown(&mut self, said: &str) {
        let said = said.trim_matches('\n');
        if said.len() > MAX_PROSE {
            self.text.push_str("<div class=\"text plain\" dir=\"auto\">");
            self.html(said);
            self.text.push_str("</div>");
            return;
        }
        let said = strip_control_codes(said);
        self.text.push_str("<div class=\"text md\" dir=\"auto\">");
        render_markdown(&mut self.text, &said, &mut self.markdown_buffer);
        self.text.push_str("</div>");
    }

    fn write_media(&mut self, block: Json<'_>) {
        let name = describe_media(block);
        let name = html_text(name.trim_matches(['[', ']']));
        match embedded_image(block).filter(|_| self.document.images) {
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

    fn write_answer_block(
        &mut self,
        part: &DocumentPart<'_>,
        answers: &CallResults<'_, '_>,
        (message, block): (&MessageView<'_>, &BlockView<'_>),
        depth: usize,
    ) -> io::Result<()> {
        if !self.document.is_visible(block) {
            return Ok(());
        }
        match block.kind {
            Some(BlockKind::Text) => self.write_markdown(&block.text()),
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.text.push_str("<details class=\"thinking\"><summary>Thinking</summary>");
                self.write_markdown(&block.text());
                self.text.push_str("</details>");
            }
            Some(BlockKind::ToolUse) => self.write_call(part, answers, (message, block), depth)?,
            _ => self.write_media(block.json()),
        }
        Ok(())
    }

    fn write_call(
        &mut self,
        part: &DocumentPart<'_>,
        answers: &CallResults<'_, '_>,
        (message, block): (&MessageView<'_>, &BlockView<'_>),
        depth: usize,
    ) -> io::Result<()> {
        let tool = block.tool();
        let name = html_text(&tool);
        let results = answers.for_call(message, block.call);
        let copy = results.first().map_or(Json::new(b""), |answer| answer.message.tool_use_result);
        let view = describe_call(&tool, block.input(), copy);
        let open = if view.expanded { " open" } else { "" };
        let _ =
            write!(self.text, "<details class=\"tool\" data-tool=\"{name}\"{open}><summary><b>{name}</b> ");
        if !view.summary.is_empty() {
            let _ = write!(self.text, "<code class=\"gist\">{}</code> ", html_escaped(&view.summary));
        }
        if results.is_empty() {
            self.text.push_str("<span class=\"outcome none\">no result</span>");
        }
        let wholes: Vec<Vec<ResultPart<'_>>> =
            results.iter().map(|a| whole_parts(&self.document.shown, part, a.block)).collect();
        for (answer, parts) in results.iter().zip(&wholes) {
            write_outcome(&mut self.text, answer.block, parts);
        }
        self.text.push_str("</summary><div class=\"body\">");
        for piece in &view.sections {
            self.write_section(piece);
        }
        let language = result_language(&tool, block.input());
        for (answer, parts) in results.iter().zip(&wholes) {
            if answer.first {
                let _ = write!(self.text, "<h4 id=\"{}m{}\">Result</h4>", part.prefix, answer.message.n);
            } else {
                self.text.push_str("<h4>Result</h4>");
            }
            self.write_result(answer.block, parts, &language);
        }
        for &agent in block.call.and_then(|call| part.sidecars.agents.get(&call)).into_iter().flatten() {
            self.write_agent(agent, depth)?;
        }
        self.text.push_str("</div></details>");
        Ok(())
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

    fn write_result(&mut self, block: &BlockView<'_>, parts: &[ResultPart<'_>], language: &str) {
        for part in parts {
            match part {
                ResultPart::Text(said) if !said.is_empty() => {
                    let class = if block.is_error() { "result error" } else { "result" };
                    self.write_pre(class, language, said);
                }
                ResultPart::Text(_) => {}
                ResultPart::Other(item) => self.write_media(*item),
            }
        }
    }

    fn write_agent(&mut self, index: usize, depth: usize) -> io::Result<()> {
        let agent = &self.document.agents[index];
        let link = format!("{}{}", self.document.head.root_prefix, html_escaped(&agent.file));
        let messages = plural(agent.messages as u64, "message");
        if depth >= MAX_NESTING || !self.document.shown.mark_agent_shown(index) {
            let _ = write!(self.text, "<p><a href=\"{link}\">Subagent: {messages}</a></p>");
            return Ok(());
        }
        let _ = write!(
            self.text,
            "<details class=\"subagent\"><summary>Subagent: {messages}</summary><div class=\"body\">\
             <p><a href=\"{link}\">On a separate page</a></p>"
        );
        agent.part.items.for_each_step(|run, _| {
            let answers = CallResults::new(run);
            for item in &run.items {
                // Compactions inside a subagent do not appear in the outline.
                self.write_item(&agent.part, &answers, item, depth + 1, &mut 0)?;
            }
            Ok(())
        })?;
        self.text.push_str("</div></details>");
        Ok(())
    }

    /// Writes the subagents whose call is unknown.
    fn write_unlinked_agents(&mut self) {
        let head = self.document.head;
        if head.unlinked_agents.is_empty() {
            return;
        }
        self.text.push_str("<section class=\"lost\"><h3>Subagents whose call is not known</h3><ul>");
        for &index in &head.unlinked_agents {
            let agent = &self.document.agents[index];
            let _ = write!(
                self.text,
                "<li><a href=\"{}{}\">{}</a>, {}</li>",
                head.root_prefix,
                html_escaped(&agent.file),
                html_text(&agent.name),
                plural(agent.messages as u64, "message")
            );
        }
        self.text.push_str("</ul></section>\n");
    }

    fn write_orphan_results(&mut self, part: &DocumentPart<'_>, message: &MessageView<'_>) {
        let mut opened = false;
        for block in message.blocks.iter().filter(|block| !is_under_call(block)) {
            match block.kind {
                Some(BlockKind::Text) => {
                    let said = block.text();
                    self.write_short_note(&strip_client_markup(&said), "note", None);
                    continue;
                }
                Some(BlockKind::ToolResult) => {}
                _ => {
                    self.write_media(block.json());
                    continue;
                }
            }
            if !opened {
                self.open_article(part, message, "answer loose", "Result without a call");
                opened = true;
            }
            let parts = whole_parts(&self.document.shown, part, block);
            let _ = write!(
                self.text,
                "<details class=\"tool\"><summary><code class=\"gist\">{}</code> ",
                html_text(&block.id())
            );
            write_outcome(&mut self.text, block, &parts);
            self.text.push_str("</summary><div class=\"body\">");
            self.write_result(block, &parts, "");
            self.text.push_str("</div></details>");
        }
        if opened {
            self.text.push_str("</article>\n");
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

    fn write_note(&mut self, note: &NoteView<'_>, depth: usize, marks: &mut usize) {
        match &*note.kind {
            "compaction" => {
                *marks += 1;
                let id = if depth == 0 { format!(" id=\"c{marks}\"") } else { String::new() };
                let before = note
                    .tokens_before
                    .map(|n| format!(" · {} tokens before", format_count(n)))
                    .unwrap_or_default();
                let _ = write!(self.text, "<div class=\"compaction\"{id}><span>Compacted here{before} · ");
                write_time(&mut self.text, note.time);
                self.text.push_str("</span></div>\n");
            }
            kind => {
                let said = strip_client_markup(&note.text);
                if !said.trim().is_empty() {
                    self.write_short_note(
                        &format!("{}: {}", strip_control_codes(kind), said.trim()),
                        "note",
                        None,
                    );
                }
            }
        }
    }
}

fn write_outcome(out: &mut String, block: &BlockView<'_>, parts: &[ResultPart<'_>]) {
    if block.is_error() {
        out.push_str("<span class=\"outcome error\">error</span>");
    } else {
        let _ = write!(out, "<span class=\"outcome\">{}</span>", extent(parts));
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
