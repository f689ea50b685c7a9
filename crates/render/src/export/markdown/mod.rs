//! A document in Markdown: CommonMark with `<details>`, as GitHub shows it.
//!
//! Text from a log can contain any Markdown, including malformed or hostile Markdown. It is made inert for
//! every renderer, with HTML enabled or not: see `sanitize.rs`. Code is fenced with more backticks than it
//! contains, prompts and thinking are quoted line by line, and single lines (titles, names, summaries) are
//! escaped as a whole.

mod escape;
mod outline;
mod sanitize;

use std::fmt::Write as _;
use std::io::{self, Write};

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, MessageKind, MessageView, NoteView, ResultPart, TranscriptItem, collapse_whitespace,
    describe_media,
};

use self::escape::{code, escape_html_line, escape_id, escape_inline, link_address};
use self::sanitize::{TextContext, Ticks, fence, language_name, quote, sanitize};
use super::safe::{LONG, clean_pieces, strip_control_codes};
use super::tools::{
    CallSection, TodoState, describe_call, describe_other_block, result_language, strip_client_markup,
};
use super::{
    CallResults, Document, DocumentPart, MAX_NESTING, MAX_PROSE, WriteImage, embedded_image, extent,
    format_time, format_tokens, input_tokens, is_under_call, said_in, whole_parts,
};
use crate::text::{format_count, plural};

pub(super) use self::outline::{escape_definitions, markdown_options};

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>, picture: WriteImage<'_>) -> io::Result<()> {
    let mut page =
        MarkdownWriter { document, write_image: picture, out, failed: None, text: String::new(), turn: 0 };
    page.write_head();
    page.flush()?;
    for (i, part) in document.parts.iter().enumerate() {
        if i > 0 || document.parts.len() > 1 {
            let told = if i > 0 { "Continued in session" } else { "From session" };
            let _ = write!(page.text, "\n---\n\n*{told} {}*\n", escape_inline(part.session));
        }
        page.flush()?;
        page.write_part(part, 0)?;
    }
    page.write_unlinked_agents();
    page.flush()
}

struct MarkdownWriter<'a> {
    document: &'a Document<'a>,
    write_image: WriteImage<'a>,
    out: &'a mut dyn Write,
    /// The error that stopped a part of a very long text from being written.
    failed: Option<io::Error>,
    text: String,
    turn: usize,
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
        let head = self.document.head;
        let out = &mut self.text;
        out.push_str("# CLAUDE CODE SESSION TRANSCRIPT\n\n");
        let _ = writeln!(out, "Session ID: {}", escape_id(&head.session));
        if let Some(agent) = &head.agent {
            let _ = writeln!(out, "Subagent: {}", escape_inline(agent));
        } else {
            let _ = writeln!(out, "Path: {} of {}", head.path.0, head.path.1);
            let _ = writeln!(out, "Status: {}", if head.active { "ACTIVE" } else { "ABANDONED" });
            if let Some((uuid, _)) = head.fork.as_ref().filter(|_| !head.active) {
                let _ = writeln!(out, "Fork Point: {}", escape_id(uuid));
            }
        }
        if head.compactions > 0 {
            out.push_str(
                "**Contains Compact Operation(s)** - Full conversation including compacted segments\n",
            );
        }
        let _ = writeln!(out, "Total Messages: {}\n", head.messages);
        let mut row = |name: &str, value: String| {
            if !value.is_empty() {
                let _ = writeln!(out, "- **{name}:** {value}");
            }
        };
        row("Title", escape_inline(&head.title));
        row("Project", code(&head.project));
        let (first, last) = (format_time(head.span.0), format_time(head.span.1));
        if let Some((first, last)) = first.zip(last) {
            row("Time", format!("{first} to {last} UTC"));
        }
        row("Turns", if head.agent.is_none() { head.turns.to_string() } else { String::new() });
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
        if head.branches.len() > 1 {
            out.push_str("- **Paths:**\n");
            for branch in &head.branches {
                let status = if branch.active { "active" } else { "abandoned" };
                let name = format!("path {}", branch.n);
                let name = match &branch.file {
                    Some(file) if branch.n != head.path.0 => format!("[{name}]({})", link_address(file)),
                    _ => name,
                };
                let here = if branch.n == head.path.0 { ", this one" } else { "" };
                let fork = branch.fork.map(|n| format!(", forks at #{n}")).unwrap_or_default();
                let _ = writeln!(
                    out,
                    "  - {name} ({status}{here}{fork}): {}",
                    escape_inline(&branch.last_prompt)
                );
            }
        }
        if head.path.1 > head.branches.len() && head.branches.len() > 1 {
            let _ = writeln!(out, "  - and {} more", head.path.1 - head.branches.len());
        }
        if let Some(n) = head.resumes_at {
            let _ = writeln!(out, "- **Resumes:** the client would resume after message #{n}");
        }
        if let Some(parent) = &head.parent {
            let _ = writeln!(out, "- [Parent session]({}{})", head.root_prefix, link_address(parent));
        }
        if head.has_index {
            let _ = writeln!(out, "- [All transcripts]({}index.html)", head.root_prefix);
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
        if let Some((file, n)) = &head.begins_in {
            let (name, file) = (escape_file_name(file), link_address(file));
            let link =
                n.map_or(format!("[{name}]({file})"), |n| format!("[message #{n} of {name}]({file}#m{n})"));
            let _ = write!(out, "\n*Earlier messages are in {link}.*\n");
        }
    }

    fn write_part(&mut self, part: &DocumentPart<'_>, depth: usize) -> io::Result<()> {
        part.items.for_each_step(|run, _| {
            let answers = CallResults::new(run);
            for item in &run.items {
                match item {
                    TranscriptItem::Message(message) => self.write_message(part, &answers, message, depth)?,
                    TranscriptItem::Note(note) => self.write_note(note),
                }
                self.flush()?;
            }
            Ok(())
        })
    }

    fn write_heading(&mut self, part: &DocumentPart<'_>, message: &MessageView<'_>, depth: usize, who: &str) {
        let level = if depth == 0 { "###" } else { "####" };
        let id = format!("{}m{}", part.prefix, message.n);
        let time = format_time(message.time).map(|time| format!(" · {time}")).unwrap_or_default();
        let _ = write!(self.text, "\n{level} <a id=\"{id}\"></a>{who} · #{}{time}\n\n", message.n);
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
                if depth == 0 {
                    self.turn += 1;
                    let _ = write!(self.text, "\n---\n\n## Turn {}\n", self.turn);
                }
                let who = if self.document.head.agent.is_some() || depth > 0 { "Prompt" } else { "User" };
                self.write_heading(part, message, depth, who);
                self.write_text(message, depth > 0)
            }
            MessageKind::Answer => {
                let shown = message.blocks.iter().any(|block| self.document.is_visible(block));
                if shown {
                    let model = message.model.map(|m| format!(" · {}", escape_inline(m))).unwrap_or_default();
                    let usage = message.usage.map(|usage| {
                        format!(
                            "<sub>{} in · {} out</sub>\n\n",
                            format_tokens(input_tokens(&usage)),
                            format_tokens(usage.output)
                        )
                    });
                    self.write_heading(part, message, depth, &format!("Assistant{model}"));
                    self.text.push_str(&usage.unwrap_or_default());
                    for block in &message.blocks {
                        self.write_answer_block(part, answers, (message, block), depth)?;
                    }
                }
                Ok(())
            }
            MessageKind::Result => self.write_orphan_results(part, message, depth),
            MessageKind::Summary => {
                self.write_heading(part, message, depth, "Summary");
                self.text.push_str(
                    "<details>\n<summary>Summary of the earlier conversation, written by the client</summary>\n\n",
                );
                self.write_text(message, true)?;
                self.text.push_str("</details>\n");
                Ok(())
            }
            MessageKind::Command | MessageKind::Note => {
                if !message.meta {
                    let id = format!("{}m{}", part.prefix, message.n);
                    self.write_short_note(&said_in(message), Some(&id));
                }
                Ok(())
            }
        }
    }

    /// Writes a message that is not an answer, without the markup that the client added.
    fn write_text(&mut self, message: &MessageView<'_>, in_html: bool) -> io::Result<()> {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => {
                    let text = block.readable();
                    let text = text.trim_matches('\n');
                    if !text.is_empty() {
                        self.write_quote(text, in_html);
                        self.text.push('\n');
                    }
                }
                _ => self.write_media(block.json())?,
            }
        }
        Ok(())
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
        if let Some(picture) = embedded_image(block).filter(|_| self.document.images)
            && let Ok(bytes) =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, picture.base64)
        {
            let file = (self.write_image)(picture.media_type, &bytes)?;
            let _ = write!(
                self.text,
                "![{}]({}{file})\n\n",
                escape_inline(name.trim_matches(['[', ']'])),
                self.document.head.root_prefix,
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
            Some(BlockKind::Text) => {
                let place = TextContext { demote_by: if depth == 0 { 3 } else { 4 }, in_html: depth > 0 };
                let text = block.text();
                match text.trim_matches('\n') {
                    long if long.len() > MAX_PROSE => self.fence("", long),
                    text => {
                        self.text.push_str(&sanitize(strip_control_codes(text).trim_matches('\n'), place))
                    }
                }
                self.text.push('\n');
                Ok(())
            }
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.text.push_str("<details>\n<summary>Thinking</summary>\n\n");
                self.write_quote(block.text().trim_matches('\n'), true);
                self.text.push_str("\n</details>\n\n");
                Ok(())
            }
            Some(BlockKind::ToolUse) => self.write_call(part, answers, (message, block), depth),
            _ => self.write_media(block.json()),
        }
    }

    fn write_call(
        &mut self,
        part: &DocumentPart<'_>,
        answers: &CallResults<'_, '_>,
        (message, block): (&MessageView<'_>, &BlockView<'_>),
        depth: usize,
    ) -> io::Result<()> {
        let tool = block.tool();
        let results = answers.for_call(message, block.call);
        let copy = results.first().map_or(Json::new(b""), |answer| answer.message.tool_use_result);
        let view = describe_call(&tool, block.input(), copy);
        let wholes: Vec<Vec<ResultPart<'_>>> =
            results.iter().map(|a| whole_parts(&self.document.shown, part, a.block)).collect();
        let outcome = call_outcome(results.iter().map(|answer| answer.block).zip(&wholes));
        let summary_code = if view.summary.is_empty() {
            String::new()
        } else {
            format!(" <code>{}</code>", escape_html_line(&view.summary))
        };
        let _ = write!(
            self.text,
            "<details{}>\n<summary><b>{}</b>{summary_code} {outcome}</summary>\n\n",
            if view.expanded { " open" } else { "" },
            escape_html_line(&strip_control_codes(&tool))
        );
        for piece in &view.sections {
            self.write_section(piece);
        }
        let language = result_language(&tool, block.input());
        for (answer, parts) in results.iter().zip(&wholes) {
            if answer.first {
                let _ = write!(self.text, "<a id=\"{}m{}\"></a>", part.prefix, answer.message.n);
            }
            self.text.push_str(if answer.block.is_error() { "Result (error)\n\n" } else { "Result\n\n" });
            self.write_result(parts, &language)?;
        }
        for &agent in block.call.and_then(|call| part.sidecars.agents.get(&call)).into_iter().flatten() {
            self.write_agent(agent, depth)?;
        }
        self.text.push_str("</details>\n\n");
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

    /// Writes the subagents whose call is unknown.
    fn write_unlinked_agents(&mut self) {
        let head = self.document.head;
        if head.unlinked_agents.is_empty() {
            return;
        }
        self.text.push_str("\n---\n\n## Subagents whose call is not known\n\n");
        for &index in &head.unlinked_agents {
            let agent = &self.document.agents[index];
            let messages = plural(agent.messages as u64, "message");
            let _ = writeln!(
                self.text,
                "- [{}]({}{}): {messages}",
                escape_inline(&agent.name),
                head.root_prefix,
                link_address(&agent.file)
            );
        }
    }

    /// Writes a subagent under the call that started it.
    fn write_agent(&mut self, index: usize, depth: usize) -> io::Result<()> {
        let agent = &self.document.agents[index];
        let link = format!(
            "[{}]({}{})",
            escape_inline(&agent.name),
            self.document.head.root_prefix,
            link_address(&agent.file)
        );
        if depth >= MAX_NESTING || !self.document.shown.mark_agent_shown(index) {
            let _ = write!(self.text, "Subagent {link}\n\n");
            return Ok(());
        }
        let _ = write!(
            self.text,
            "<details>\n<summary>Subagent: {}</summary>\n\nOn a separate page: {link}\n",
            plural(agent.messages as u64, "message")
        );
        self.flush()?;
        self.write_part(&agent.part, depth + 1)?;
        self.text.push_str("\n</details>\n\n");
        Ok(())
    }

    /// Writes results whose call is not on this path, and text that came with results.
    fn write_orphan_results(
        &mut self,
        part: &DocumentPart<'_>,
        message: &MessageView<'_>,
        depth: usize,
    ) -> io::Result<()> {
        let mut headed = false;
        for block in message.blocks.iter().filter(|block| !is_under_call(block)) {
            match block.kind {
                Some(BlockKind::Text) => {
                    let text = block.text();
                    self.write_short_note(&strip_client_markup(&text), None);
                }
                Some(BlockKind::ToolResult) => {
                    if !headed {
                        self.write_heading(part, message, depth, "Result without a call");
                        headed = true;
                    }
                    let parts = whole_parts(&self.document.shown, part, block);
                    let outcome = call_outcome(std::iter::once((block, &parts)));
                    let id = escape_html_line(&strip_control_codes(&block.id()));
                    let _ =
                        write!(self.text, "<details>\n<summary><code>{id}</code> {outcome}</summary>\n\n");
                    self.write_result(&parts, "")?;
                    self.text.push_str("</details>\n\n");
                }
                _ => self.write_media(block.json())?,
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

    fn write_note(&mut self, note: &NoteView<'_>) {
        let time = format_time(note.time).map(|time| format!(" · {time}")).unwrap_or_default();
        match &*note.kind {
            "compaction" => {
                let before = note
                    .tokens_before
                    .map(|n| format!(" · {} tokens before", format_count(n)))
                    .unwrap_or_default();
                let _ = write!(self.text, "\n---\n\n**Compacted here**{before}{time}\n\n");
            }
            kind => {
                let text = strip_client_markup(&note.text);
                if !text.trim().is_empty() {
                    self.write_short_note(&format!("{}: {}", strip_control_codes(kind), text.trim()), None);
                }
            }
        }
    }
}

/// Escapes the name of a file of the export.
fn escape_file_name(file: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    if file.bytes().all(plain) { file.to_owned() } else { escape_inline(file) }
}

/// Describes the outcome of a call.
fn call_outcome<'b, 'a: 'b>(
    results: impl Iterator<Item = (&'b BlockView<'a>, &'b Vec<ResultPart<'a>>)>,
) -> String {
    let told = |(block, parts): (&BlockView<'a>, &Vec<ResultPart<'a>>)| {
        if block.is_error() { "error".to_owned() } else { extent(parts) }
    };
    let told: Vec<String> = results.map(told).collect();
    if told.is_empty() { "— no result".into() } else { format!("— {}", told.join(", ")) }
}
