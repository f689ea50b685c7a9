//! A document in Markdown: CommonMark with `<details>`, as GitHub shows it.
//!
//! Text from a log can contain any Markdown, including malformed or hostile Markdown. It is made inert for
//! every renderer, with HTML enabled or not: see `sanitize.rs`. Code is fenced with more backticks than it
//! contains, prompts and thinking are quoted line by line, and single lines (titles, names, summaries) are
//! escaped as a whole.

mod escape;
mod index;
mod outline;
mod sanitize;

use std::fmt::Write as _;
use std::io::{self, Write};

use rethread_log::Json;
use rethread_model::{
    BlockView, CallEvent, ListedSubagent, MessageEvent, MessageKind, NoteEvent, PartEvent, ResultEvent,
    ResultPart, SubagentEvent, SubagentNo, TranscriptWriter, collapse_whitespace, describe_media,
};

use self::escape::{code, escape_html_line, escape_id, escape_inline, link_address};
use self::sanitize::{TextContext, Ticks, fence, language_name, quote, sanitize};
use super::safe::{LONG, clean_pieces, strip_control_codes};
use super::tools::{
    CallSection, TodoState, describe_call, describe_other_block, result_language, strip_client_markup,
};
use super::{
    Document, IndexFormat, MAX_PROSE, WriteImage, embedded_image, extent, first_words, format_time,
    format_tokens, input_tokens, said_in,
};
use crate::text::{format_count, plural};

pub(super) use self::index::write_markdown_index;
pub(super) use self::outline::{escape_definitions, markdown_options};

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>, picture: WriteImage<'_>) -> io::Result<()> {
    let mut page = MarkdownWriter {
        document,
        write_image: picture,
        out,
        failed: None,
        text: String::new(),
        turn: 0,
        has_result_heading: false,
    };
    page.write_head();
    page.flush()?;
    document.transcript.walk(&mut page)
}

/// Maximum length of the words of a prompt in the heading of its turn, in columns.
const MAX_TURN_WORDS: usize = 60;

struct MarkdownWriter<'a> {
    document: &'a Document<'a>,
    write_image: WriteImage<'a>,
    out: &'a mut dyn Write,
    /// The error that stopped a part of a very long text from being written.
    failed: Option<io::Error>,
    text: String,
    turn: usize,
    /// The heading of a message with results is written before its first result without a call.
    has_result_heading: bool,
}

impl MarkdownWriter<'_> {
    /// Writes the buffer.
    fn flush(&mut self) -> io::Result<()> {
        self.spill();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Flushes in the middle of an item; an error is reported at its end.
    fn spill(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }

    /// Cleans and fences a text. It may be very long, so it is not copied as a whole.
    fn fence(&mut self, language: &str, text: &str) {
        if text.len() <= LONG {
            return fence(&mut self.text, language, &strip_control_codes(text));
        }
        let mut ticks = Ticks::default();
        clean_pieces(text).for_each(|piece| ticks.count(&piece));
        let ticks = ticks.fence();
        let _ = writeln!(self.text, "{ticks}{}", language_name(language));
        let mut ends = false;
        for piece in clean_pieces(text) {
            self.text.push_str(&piece);
            ends = if piece.is_empty() { ends } else { piece.ends_with('\n') };
            self.spill();
        }
        let _ = write!(self.text, "{}{ticks}\n\n", if ends { "" } else { "\n" });
    }

    fn write_head(&mut self) {
        let head = &self.document.transcript.header;
        let out = &mut self.text;
        out.push_str("# CLAUDE CODE SESSION TRANSCRIPT\n\n");
        // Two spaces at the end break a line in every renderer.
        let _ = writeln!(out, "Session ID: {}  ", escape_id(&head.session));
        if let Some(agent) = &head.subagent {
            let _ = writeln!(out, "Subagent: {}  ", escape_inline(agent));
        } else {
            let _ = writeln!(out, "Path: {} of {}  ", head.path_n, head.paths);
            let _ = writeln!(out, "Status: {}  ", if head.active { "ACTIVE" } else { "ABANDONED" });
            if let Some(uuid) = head.fork_point.as_ref().filter(|_| !head.active) {
                let _ = writeln!(out, "Fork Point: {}  ", escape_id(uuid));
            }
        }
        if head.compactions > 0 {
            out.push_str(
                "**Contains Compact Operation(s)** - Full conversation including compacted segments  \n",
            );
        }
        let _ = writeln!(out, "Total Messages: {}\n", head.messages);
        self.write_metadata();
        self.write_siblings();
        self.write_links();
    }

    fn write_metadata(&mut self) {
        let head = &self.document.transcript.header;
        let mut row = |name: &str, value: String| {
            if !value.is_empty() {
                let _ = writeln!(self.text, "- **{name}:** {value}");
            }
        };
        row("Title", escape_inline(&head.title));
        row("Project", code(&head.project));
        let (first, last) = head.span.unzip();
        if let Some((first, last)) = format_time(first).zip(format_time(last)) {
            row("Time", format!("{first} to {last} UTC"));
        }
        row("Turns", if head.subagent.is_none() { head.turns.to_string() } else { String::new() });
        row("Models", head.models.iter().map(|m| code(m)).collect::<Vec<_>>().join(", "));
        row("Client", head.versions.iter().map(|v| escape_inline(v)).collect::<Vec<_>>().join(", "));
        row("Git branch", head.git_branch.as_deref().map(code).unwrap_or_default());
        if head.usage != rethread_model::Usage::default() {
            let usage = &head.usage;
            let (input, output) = (format_count(input_tokens(usage)), format_count(usage.output));
            row(
                "Tokens",
                format!("{input} in ({} from the cache), {output} out", format_count(usage.cache_read)),
            );
        }
    }

    fn write_siblings(&mut self) {
        let (head, links) = (&self.document.transcript.header, self.document.links);
        if head.siblings.len() < 2 {
            return;
        }
        let out = &mut self.text;
        out.push_str("- **Paths:**\n");
        for (i, sibling) in head.siblings.iter().enumerate() {
            let status = if sibling.active { "active" } else { "abandoned" };
            let name = format!("path {}", sibling.n);
            let name = match links.sibling(i) {
                Some(file) if sibling.n != head.path_n => format!("[{name}]({})", link_address(file)),
                _ => name,
            };
            let here = if sibling.n == head.path_n { ", this one" } else { "" };
            let fork = sibling.fork_message.map(|n| format!(", forks at #{n}")).unwrap_or_default();
            let _ =
                writeln!(out, "  - {name} ({status}{here}{fork}): {}", escape_inline(&sibling.last_prompt));
        }
        if head.paths > head.siblings.len() {
            let _ = writeln!(out, "  - and {} more", head.paths - head.siblings.len());
        }
    }

    fn write_links(&mut self) {
        let (head, links) = (&self.document.transcript.header, self.document.links);
        let out = &mut self.text;
        if let Some(n) = head.resumes_at {
            let _ = writeln!(out, "- **Resumes:** the client would resume after message #{n}");
        }
        if let Some(parent) = &links.parent {
            let _ = writeln!(out, "- [Parent session]({}{})", links.root_prefix, link_address(parent));
        }
        if links.has_index {
            let index = IndexFormat::Markdown.file_name();
            let _ = writeln!(out, "- [All transcripts]({}{index})", links.root_prefix);
        }
        if !head.defects.is_empty() {
            let what = if head.defects.len() == 1 { "one defect" } else { "defects" };
            let _ = write!(
                out,
                "\n<details>\n<summary>The log has {what}; the readable part is shown</summary>\n\n"
            );
            for defect in &head.defects {
                let _ = writeln!(out, "- {}", escape_inline(defect));
            }
            out.push_str("\n</details>\n");
        }
        if let Some((file, n)) = &links.begins_in {
            let (name, file) = (escape_file_name(file), link_address(file));
            let link =
                n.map_or(format!("[{name}]({file})"), |n| format!("[message #{n} of {name}]({file}#m{n})"));
            let _ = write!(out, "\n*Earlier messages are in {link}.*\n");
        }
    }

    /// Returns a link to the document of a subagent, or only its name if there is no document.
    fn subagent_link(&self, name: &str, number: SubagentNo) -> String {
        let links = self.document.links;
        match links.subagent(number) {
            Some(file) => format!("[{}]({}{})", escape_inline(name), links.root_prefix, link_address(file)),
            None => escape_inline(name),
        }
    }

    fn write_heading(&mut self, event: &MessageEvent<'_>, who: &str) {
        let level = if event.depth == 0 { "###" } else { "####" };
        let (id, message) = (event.anchor(), event.message);
        let time = format_time(message.time).map(|time| format!(" · {time}")).unwrap_or_default();
        let _ = write!(self.text, "\n{level} <a id=\"{id}\"></a>{who} · #{}{time}\n\n", message.n);
    }

    /// Writes a text that is not an answer, without the markup that the client added.
    fn write_typed_text(&mut self, block: &BlockView<'_>, in_html: bool) {
        let text = block.readable();
        let text = text.trim_matches('\n');
        if !text.is_empty() {
            self.write_quote(text, in_html);
            self.text.push('\n');
        }
    }

    fn write_answer_text(&mut self, block: &BlockView<'_>, depth: usize) {
        let place = TextContext { demote_by: if depth == 0 { 3 } else { 4 }, in_html: depth > 0 };
        let text = block.text();
        match text.trim_matches('\n') {
            long if long.len() > MAX_PROSE => self.fence("", long),
            text => self.text.push_str(&sanitize(strip_control_codes(text).trim_matches('\n'), place)),
        }
        self.text.push('\n');
    }

    /// Cleans and quotes a text, or fences one that is too long to be parsed.
    fn write_quote(&mut self, text: &str, in_html: bool) {
        if text.len() > MAX_PROSE {
            self.fence("", text);
        } else {
            quote(&mut self.text, strip_control_codes(text).trim_matches('\n'), in_html);
        }
    }

    fn write_media(&mut self, block: Json<'_>) -> io::Result<()> {
        let name = strip_control_codes(&describe_media(block)).into_owned();
        if let Some(picture) = embedded_image(block).filter(|_| self.document.transcript.content.images)
            && let Ok(bytes) =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, picture.base64)
        {
            let file = (self.write_image)(picture.media_type, &bytes)?;
            let _ = write!(
                self.text,
                "![{}]({}{file})\n\n",
                escape_inline(name.trim_matches(['[', ']'])),
                self.document.links.root_prefix,
                file = link_address(&file)
            );
            return Ok(());
        }
        match describe_other_block(block) {
            Some((language, text)) => {
                let name = escape_html_line(name.trim_matches(['[', ']']));
                let _ = write!(self.text, "<details>\n<summary>{name}</summary>\n\n");
                self.fence(language, &text);
                self.text.push_str("</details>\n\n");
            }
            None => {
                let _ = write!(self.text, "*{}*\n\n", escape_inline(&name));
            }
        }
        Ok(())
    }

    fn write_section(&mut self, piece: &CallSection) {
        match piece {
            CallSection::Code(label, language, text) => {
                let _ = write!(self.text, "{label}\n\n");
                self.fence(language, text);
            }
            CallSection::Prose(label, text) => {
                let _ = write!(self.text, "{label}\n\n");
                self.write_quote(text.trim_matches('\n'), true);
                self.text.push('\n');
            }
            CallSection::Diff(text) => self.fence("diff", text),
            CallSection::Todos(list) => {
                for (state, text) in list {
                    let (mark, text) = match state {
                        TodoState::Done => ("x", escape_inline(text)),
                        TodoState::InProgress => (" ", format!("**{}** (doing)", escape_inline(text))),
                        TodoState::Open => (" ", escape_inline(text)),
                    };
                    let _ = writeln!(self.text, "- [{mark}] {text}");
                }
                self.text.push('\n');
            }
        }
    }

    fn write_result(&mut self, parts: &[ResultPart<'_>], language: &str) -> io::Result<()> {
        for piece in parts {
            match piece {
                ResultPart::Text(text) if text.is_empty() => {}
                ResultPart::Text(text) => self.fence(language, text),
                ResultPart::Other(item) => self.write_media(*item)?,
            }
        }
        Ok(())
    }

    /// Writes a note; a long one is folded.
    fn write_short_note(&mut self, text: &str, id: Option<&str>) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let anchor = id.map(|id| format!("<a id=\"{id}\"></a>")).unwrap_or_default();
        if text.lines().count() <= 2 && text.len() <= 240 {
            let _ = write!(self.text, "\n{anchor}*{}*\n\n", escape_inline(&collapse_whitespace(text)));
            return;
        }
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let first = escape_html_line(&crate::text::truncate(&collapse_whitespace(first), 100));
        let _ = write!(self.text, "\n<details>\n<summary>{anchor}<i>{first}</i></summary>\n\n");
        self.fence("", text);
        self.text.push_str("</details>\n\n");
    }
}

impl TranscriptWriter for MarkdownWriter<'_> {
    fn begin_part(&mut self, part: &PartEvent<'_>) -> io::Result<()> {
        if part.count > 1 {
            let label = if part.index > 0 { "Continued in session" } else { "From session" };
            let _ = write!(self.text, "\n---\n\n*{label} {}*\n", escape_inline(part.session));
        }
        self.flush()
    }

    fn begin_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        let message = event.message;
        match message.kind {
            MessageKind::Prompt => {
                if event.depth == 0 {
                    self.turn += 1;
                    let words = escape_inline(&first_words(message, MAX_TURN_WORDS));
                    let words = if words.is_empty() { words } else { format!(": {words}") };
                    let _ = write!(self.text, "\n---\n\n## Turn {}{words}\n", self.turn);
                }
                let is_person = event.depth == 0 && self.document.transcript.header.subagent.is_none();
                self.write_heading(event, if is_person { "User" } else { "Prompt" });
            }
            MessageKind::Answer => {
                let model = message.model.map(|m| format!(" · {}", escape_inline(m))).unwrap_or_default();
                self.write_heading(event, &format!("Assistant{model}"));
                if let Some(usage) = message.usage {
                    let (input, output) = (format_tokens(input_tokens(&usage)), format_tokens(usage.output));
                    let _ = write!(self.text, "<sub>{input} in · {output} out</sub>\n\n");
                }
            }
            MessageKind::Summary => {
                self.write_heading(event, "Summary");
                self.text.push_str("<details>\n<summary>Summary of the earlier conversation</summary>\n\n");
            }
            _ => self.has_result_heading = false,
        }
        Ok(())
    }

    fn text(&mut self, event: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        match event.message.kind {
            MessageKind::Answer => self.write_answer_text(block, event.depth),
            MessageKind::Result => self.write_short_note(&strip_client_markup(&block.text()), None),
            kind => self.write_typed_text(block, event.depth > 0 || kind == MessageKind::Summary),
        }
        Ok(())
    }

    fn thinking(&mut self, _: &MessageEvent<'_>, block: &BlockView<'_>) -> io::Result<()> {
        self.text.push_str("<details>\n<summary>Thinking</summary>\n\n");
        self.write_quote(block.text().trim_matches('\n'), true);
        self.text.push_str("\n</details>\n\n");
        Ok(())
    }

    fn media(&mut self, _: &MessageEvent<'_>, block: Json<'_>) -> io::Result<()> {
        self.write_media(block)
    }

    fn begin_call(&mut self, call: &CallEvent<'_>) -> io::Result<()> {
        let tool = call.block.tool();
        let view = describe_call(&tool, call.block.input(), call.result_copy());
        let summary_code = if view.summary.is_empty() {
            String::new()
        } else {
            format!(" <code>{}</code>", escape_html_line(&view.summary))
        };
        let _ = write!(
            self.text,
            "<details{}>\n<summary><b>{}</b>{summary_code} {}</summary>\n\n",
            if view.expanded { " open" } else { "" },
            escape_html_line(&strip_control_codes(&tool)),
            call_outcome(&call.results)
        );
        for section in &view.sections {
            self.write_section(section);
        }
        let language = result_language(&tool, call.block.input());
        for result in &call.results {
            if result.has_anchor {
                let _ = write!(self.text, "<a id=\"{}\"></a>", result.message.anchor());
            }
            self.text.push_str(if result.block.is_error() { "Result (error)\n\n" } else { "Result\n\n" });
            self.write_result(&result.parts, &language)?;
        }
        Ok(())
    }

    fn end_call(&mut self, _: &CallEvent<'_>) -> io::Result<()> {
        self.text.push_str("</details>\n\n");
        Ok(())
    }

    fn orphan_result(&mut self, result: &ResultEvent<'_>) -> io::Result<()> {
        if !self.has_result_heading {
            self.write_heading(&result.message, "Result without a call");
            self.has_result_heading = true;
        }
        let outcome = call_outcome(std::slice::from_ref(result));
        let id = escape_html_line(&strip_control_codes(&result.block.id()));
        let _ = write!(self.text, "<details>\n<summary><code>{id}</code> {outcome}</summary>\n\n");
        self.write_result(&result.parts, "")?;
        self.text.push_str("</details>\n\n");
        Ok(())
    }

    fn end_message(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        if event.message.kind == MessageKind::Summary {
            self.text.push_str("</details>\n");
        }
        Ok(())
    }

    fn remark(&mut self, event: &MessageEvent<'_>) -> io::Result<()> {
        self.write_short_note(&said_in(event.message), Some(&event.anchor()));
        Ok(())
    }

    fn note(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let text = strip_client_markup(&event.note.text);
        if !text.trim().is_empty() {
            let text = format!("{}: {}", strip_control_codes(&event.note.kind), text.trim());
            self.write_short_note(&text, None);
        }
        Ok(())
    }

    fn compaction(&mut self, event: &NoteEvent<'_>) -> io::Result<()> {
        let time = format_time(event.note.time).map(|time| format!(" · {time}")).unwrap_or_default();
        let before = event.note.tokens_before.map(|n| format!(" · {} tokens before", format_count(n)));
        let before = before.unwrap_or_default();
        let _ = write!(self.text, "\n---\n\n**Compacted here**{before}{time}\n\n");
        Ok(())
    }

    fn begin_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        let link = self.subagent_link(&event.subagent.name, event.number);
        let has_page = self.document.links.subagent(event.number).is_some();
        let label = if has_page { "On a separate page: " } else { "" };
        let messages = plural(event.subagent.messages as u64, "message");
        let _ = write!(self.text, "<details>\n<summary>Subagent: {messages}</summary>\n\n{label}{link}\n");
        self.flush()
    }

    fn end_subagent(&mut self, _: &SubagentEvent<'_>) -> io::Result<()> {
        self.text.push_str("\n</details>\n\n");
        Ok(())
    }

    fn linked_subagent(&mut self, event: &SubagentEvent<'_>) -> io::Result<()> {
        let link = self.subagent_link(&event.subagent.name, event.number);
        let _ = write!(self.text, "Subagent {link}\n\n");
        Ok(())
    }

    fn end_item(&mut self, _: usize) -> io::Result<()> {
        self.flush()
    }

    fn end(&mut self, subagents: &[ListedSubagent<'_>]) -> io::Result<()> {
        let mut unlinked = subagents.iter().filter(|listed| listed.call_id.is_none()).peekable();
        if unlinked.peek().is_some() {
            self.text.push_str("\n---\n\n## Subagents whose call is not known\n\n");
        }
        for listed in unlinked {
            let link = self.subagent_link(&listed.subagent.name, listed.number);
            let messages = plural(listed.subagent.messages as u64, "message");
            let _ = writeln!(self.text, "- {link}: {messages}");
        }
        self.flush()
    }
}

/// Escapes the name of a file of the export.
fn escape_file_name(file: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    if file.bytes().all(plain) { file.to_owned() } else { escape_inline(file) }
}

/// Describes the outcome of a call.
fn call_outcome(results: &[ResultEvent<'_>]) -> String {
    let outcome = |result: &ResultEvent<'_>| {
        if result.block.is_error() { "error".to_owned() } else { extent(&result.parts) }
    };
    let outcomes: Vec<String> = results.iter().map(outcome).collect();
    if outcomes.is_empty() { "— no result".into() } else { format!("— {}", outcomes.join(", ")) }
}
