//! A document in Markdown: CommonMark with `<details>`, as GitHub shows it.
//!
//! What comes from a log can contain any Markdown, also broken or hostile. It is laid out and does
//! nothing else, in any renderer, with HTML enabled or not: see `contain.rs`. Code is fenced
//! by more backticks than it holds, prompts and thinking are quoted line by line, and single lines (titles,
//! names, summaries) are escaped as a whole.

mod contain;
mod escape;
mod outline;

use std::fmt::Write as _;
use std::io::{self, Write};

use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, Item, MessageKind, MessageView, NoteView, ResultPart, describe_media, one_line,
};

use self::contain::{Place, Ticks, contain, fence, language_name, quote};
use self::escape::{address, code, header, html_line, inline};
use super::safe::{LONG, clean, clean_pieces};
use super::tools::{Piece, State, other, result_language, tell, words};
use super::{
    Answers, Document, MAX_NESTING, MAX_PROSE, Part, WritePicture, extent, is_under_call, moment, picture_of,
    said_in, sent, tokens, whole_parts,
};
use crate::text::{count, plural};

pub(super) use self::outline::{markdown_options, undefined};

pub(crate) fn write(
    out: &mut dyn Write,
    document: &Document<'_>,
    picture: WritePicture<'_>,
) -> io::Result<()> {
    let mut page = Page { document, picture, out, failed: None, text: String::new(), turn: 0 };
    page.head();
    page.flush()?;
    for (i, part) in document.parts.iter().enumerate() {
        if i > 0 || document.parts.len() > 1 {
            let told = if i > 0 { "Continued in session" } else { "From session" };
            let _ = write!(page.text, "\n---\n\n*{told} {}*\n", inline(part.session));
        }
        page.flush()?;
        page.part(part, 0)?;
    }
    page.lost_agents();
    page.flush()
}

struct Page<'a> {
    document: &'a Document<'a>,
    picture: WritePicture<'a>,
    out: &'a mut dyn Write,
    /// Why a part of a very long text could not be written.
    failed: Option<io::Error>,
    text: String,
    turn: usize,
}

impl Page<'_> {
    /// Writes what is there.
    fn flush(&mut self) -> io::Result<()> {
        self.spill();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Makes room in the midst of an item; what fails is told at its end.
    fn spill(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(self.text.as_bytes()).err();
        }
        self.text.clear();
    }

    /// Fences a text that is not clean yet. It may be very long, so it is not held a second time.
    fn fence(&mut self, language: &str, text: &str) {
        if text.len() <= LONG {
            return fence(&mut self.text, language, &clean(text));
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

    fn head(&mut self) {
        let head = self.document.head;
        let out = &mut self.text;
        out.push_str("# CLAUDE CODE SESSION TRANSCRIPT\n\n");
        let _ = writeln!(out, "Session ID: {}", header(&head.session));
        if let Some(agent) = &head.agent {
            let _ = writeln!(out, "Subagent: {}", inline(agent));
        } else {
            let _ = writeln!(out, "Path: {} of {}", head.path.0, head.path.1);
            let _ = writeln!(out, "Status: {}", if head.active { "ACTIVE" } else { "ABANDONED" });
            if let Some((uuid, _)) = head.fork.as_ref().filter(|_| !head.active) {
                let _ = writeln!(out, "Fork Point: {}", header(uuid));
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
        row("Title", inline(&head.title));
        row("Project", code(&head.project));
        let (first, last) = (moment(head.span.0), moment(head.span.1));
        if let Some((first, last)) = first.zip(last) {
            row("Time", format!("{first} to {last} UTC"));
        }
        row("Turns", if head.agent.is_none() { head.turns.to_string() } else { String::new() });
        row("Models", head.models.iter().map(|m| code(m)).collect::<Vec<_>>().join(", "));
        row("Client", head.versions.iter().map(|v| inline(v)).collect::<Vec<_>>().join(", "));
        row("Git branch", head.git_branch.as_deref().map(code).unwrap_or_default());
        if head.usage != rethread_model::Usage::default() {
            let usage = &head.usage;
            let (input, output) = (count(sent(usage)), count(usage.output));
            row("Tokens", format!("{input} in ({} from the cache), {output} out", count(usage.cache_read)));
        }
        if head.branches.len() > 1 {
            out.push_str("- **Paths:**\n");
            for branch in &head.branches {
                let status = if branch.active { "active" } else { "abandoned" };
                let name = format!("path {}", branch.n);
                let name = match &branch.file {
                    Some(file) if branch.n != head.path.0 => format!("[{name}]({})", address(file)),
                    _ => name,
                };
                let here = if branch.n == head.path.0 { ", this one" } else { "" };
                let fork = branch.fork.map(|n| format!(", leaves at #{n}")).unwrap_or_default();
                let _ = writeln!(out, "  - {name} ({status}{here}{fork}): {}", inline(&branch.last_prompt));
            }
        }
        if head.path.1 > head.branches.len() && head.branches.len() > 1 {
            let _ = writeln!(out, "  - and {} more", head.path.1 - head.branches.len());
        }
        if let Some(n) = head.resumes_at {
            let _ = writeln!(out, "- **Resumes:** the client would go on after message #{n}");
        }
        if let Some(parent) = &head.parent {
            let _ = writeln!(out, "- [Its session]({}{})", head.up, address(parent));
        }
        if head.index {
            let _ = writeln!(out, "- [All transcripts]({}index.html)", head.up);
        }
        if !head.defects.is_empty() {
            let what = if head.defects.len() == 1 { "one defect" } else { "defects" };
            let _ = write!(
                out,
                "\n<details>\n<summary>The log has {what}; what could be read is here</summary>\n\n"
            );
            for defect in &head.defects {
                let _ = writeln!(out, "- {}", inline(defect));
            }
            out.push_str("\n</details>\n");
        }
        if let Some((file, n)) = &head.begins_in {
            let (name, file) = (link_name(file), address(file));
            let link =
                n.map_or(format!("[{name}]({file})"), |n| format!("[message #{n} of {name}]({file}#m{n})"));
            let _ = write!(out, "\n*What came before is in {link}.*\n");
        }
    }

    fn part(&mut self, part: &Part<'_>, depth: usize) -> io::Result<()> {
        part.items.each(|run, _| {
            let answers = Answers::new(run);
            for item in &run.items {
                match item {
                    Item::Message(message) => self.message(part, &answers, message, depth)?,
                    Item::Note(note) => self.note(note),
                }
                self.flush()?;
            }
            Ok(())
        })
    }

    fn heading(&mut self, part: &Part<'_>, message: &MessageView<'_>, depth: usize, who: &str) {
        let level = if depth == 0 { "###" } else { "####" };
        let id = format!("{}m{}", part.prefix, message.n);
        let time = moment(message.time).map(|time| format!(" · {time}")).unwrap_or_default();
        let _ = write!(self.text, "\n{level} <a id=\"{id}\"></a>{who} · #{}{time}\n\n", message.n);
    }

    fn message(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
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
                self.heading(part, message, depth, who);
                self.words(message, depth > 0)
            }
            MessageKind::Answer => {
                let shown = message.blocks.iter().any(|block| self.document.shows(block));
                if shown {
                    let model = message.model.map(|m| format!(" · {}", inline(m))).unwrap_or_default();
                    let usage = message.usage.map(|usage| {
                        format!("<sub>{} in · {} out</sub>\n\n", tokens(sent(&usage)), tokens(usage.output))
                    });
                    self.heading(part, message, depth, &format!("Assistant{model}"));
                    self.text.push_str(&usage.unwrap_or_default());
                    for block in &message.blocks {
                        self.answer_block(part, answers, (message, block), depth)?;
                    }
                }
                Ok(())
            }
            MessageKind::Result => self.loose_results(part, message, depth),
            MessageKind::Summary => {
                self.heading(part, message, depth, "Summary");
                self.text.push_str(
                    "<details>\n<summary>What came before, as the client summed it up</summary>\n\n",
                );
                self.words(message, true)?;
                self.text.push_str("</details>\n");
                Ok(())
            }
            MessageKind::Command | MessageKind::Note => {
                if !message.meta {
                    let id = format!("{}m{}", part.prefix, message.n);
                    self.small(&said_in(message), Some(&id));
                }
                Ok(())
            }
        }
    }

    /// Writes a message that is not an answer, without what the client put around it.
    fn words(&mut self, message: &MessageView<'_>, in_html: bool) -> io::Result<()> {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) => {
                    let text = block.readable();
                    let text = text.trim_matches('\n');
                    if !text.is_empty() {
                        self.quoted(text, in_html);
                        self.text.push('\n');
                    }
                }
                _ => self.media(block.json())?,
            }
        }
        Ok(())
    }

    /// Quotes a text that is not clean yet, or fences one that is too long to be parsed.
    fn quoted(&mut self, text: &str, in_html: bool) {
        if text.len() > MAX_PROSE {
            self.fence("", text);
        } else {
            quote(&mut self.text, clean(text).trim_matches('\n'), in_html);
        }
    }

    fn media(&mut self, block: Json<'_>) -> io::Result<()> {
        let name = clean(&describe_media(block)).into_owned();
        if let Some(picture) = picture_of(block).filter(|_| self.document.pictures)
            && let Ok(bytes) =
                base64::Engine::decode(&base64::engine::general_purpose::STANDARD, picture.base64)
        {
            let file = (self.picture)(picture.media, &bytes)?;
            let _ = write!(
                self.text,
                "![{}]({}{file})\n\n",
                inline(name.trim_matches(['[', ']'])),
                self.document.head.up,
                file = address(&file)
            );
            return Ok(());
        }
        match other(block) {
            Some((language, text)) => {
                let name = html_line(name.trim_matches(['[', ']']));
                let _ = write!(self.text, "<details>\n<summary>{name}</summary>\n\n");
                self.fence(language, &text);
                self.text.push_str("</details>\n\n");
            }
            None => {
                let _ = write!(self.text, "*{}*\n\n", inline(&name));
            }
        }
        Ok(())
    }

    fn answer_block(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
        (message, block): (&MessageView<'_>, &BlockView<'_>),
        depth: usize,
    ) -> io::Result<()> {
        if !self.document.shows(block) {
            return Ok(());
        }
        match block.kind {
            Some(BlockKind::Text) => {
                let place = Place { lower: if depth == 0 { 3 } else { 4 }, in_html: depth > 0 };
                let text = block.text();
                match text.trim_matches('\n') {
                    long if long.len() > MAX_PROSE => self.fence("", long),
                    text => self.text.push_str(&contain(clean(text).trim_matches('\n'), place)),
                }
                self.text.push('\n');
                Ok(())
            }
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.text.push_str("<details>\n<summary>Thinking</summary>\n\n");
                self.quoted(block.text().trim_matches('\n'), true);
                self.text.push_str("\n</details>\n\n");
                Ok(())
            }
            Some(BlockKind::ToolUse) => self.call(part, answers, (message, block), depth),
            _ => self.media(block.json()),
        }
    }

    fn call(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
        (message, block): (&MessageView<'_>, &BlockView<'_>),
        depth: usize,
    ) -> io::Result<()> {
        let tool = block.tool();
        let results = answers.of(message, block.call);
        let copy = results.first().map_or(Json::new(b""), |answer| answer.message.copy);
        let told = tell(&tool, block.input(), copy);
        let wholes: Vec<Vec<ResultPart<'_>>> =
            results.iter().map(|a| whole_parts(&self.document.shown, part, a.block)).collect();
        let outcome = outcome(results.iter().map(|answer| answer.block).zip(&wholes));
        let gist = if told.gist.is_empty() {
            String::new()
        } else {
            format!(" <code>{}</code>", html_line(&told.gist))
        };
        let _ = write!(
            self.text,
            "<details{}>\n<summary><b>{}</b>{gist} {outcome}</summary>\n\n",
            if told.open { " open" } else { "" },
            html_line(&clean(&tool))
        );
        for piece in &told.pieces {
            self.piece(piece);
        }
        let language = result_language(&tool, block.input());
        for (answer, parts) in results.iter().zip(&wholes) {
            if answer.first {
                let _ = write!(self.text, "<a id=\"{}m{}\"></a>", part.prefix, answer.message.n);
            }
            self.text.push_str(if answer.block.is_error() { "Result (error)\n\n" } else { "Result\n\n" });
            self.result(parts, &language)?;
        }
        for &agent in block.call.and_then(|call| part.side.agents.get(&call)).into_iter().flatten() {
            self.agent(agent, depth)?;
        }
        self.text.push_str("</details>\n\n");
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Code(label, language, text) => {
                let _ = write!(self.text, "{label}\n\n");
                self.fence(language, text);
            }
            Piece::Prose(label, text) => {
                let _ = write!(self.text, "{label}\n\n");
                self.quoted(text.trim_matches('\n'), true);
                self.text.push('\n');
            }
            Piece::Diff(text) => self.fence("diff", text),
            Piece::Todos(list) => {
                for (state, text) in list {
                    let (mark, text) = match state {
                        State::Done => ("x", inline(text)),
                        State::Doing => (" ", format!("**{}** (doing)", inline(text))),
                        State::Open => (" ", inline(text)),
                    };
                    let _ = writeln!(self.text, "- [{mark}] {text}");
                }
                self.text.push('\n');
            }
        }
    }

    fn result(&mut self, parts: &[ResultPart<'_>], language: &str) -> io::Result<()> {
        for piece in parts {
            match piece {
                ResultPart::Text(text) if text.is_empty() => {}
                ResultPart::Text(text) => self.fence(language, text),
                ResultPart::Other(item) => self.media(*item)?,
            }
        }
        Ok(())
    }

    /// Subagents that nobody is known to have started.
    fn lost_agents(&mut self) {
        let head = self.document.head;
        if head.lost_agents.is_empty() {
            return;
        }
        self.text.push_str("\n---\n\n## Subagents whose call is not known\n\n");
        for &index in &head.lost_agents {
            let agent = &self.document.agents[index];
            let messages = plural(agent.messages as u64, "message");
            let _ = writeln!(
                self.text,
                "- [{}]({}{}): {messages}",
                inline(&agent.name),
                head.up,
                address(&agent.file)
            );
        }
    }

    /// A subagent under the call that started it.
    fn agent(&mut self, index: usize, depth: usize) -> io::Result<()> {
        let agent = &self.document.agents[index];
        let link = format!("[{}]({}{})", inline(&agent.name), self.document.head.up, address(&agent.file));
        if depth >= MAX_NESTING || !self.document.shown.is_first_agent(index) {
            let _ = write!(self.text, "Subagent {link}\n\n");
            return Ok(());
        }
        let _ = write!(
            self.text,
            "<details>\n<summary>Subagent: {}</summary>\n\nOn a page of its own: {link}\n",
            plural(agent.messages as u64, "message")
        );
        self.flush()?;
        self.part(&agent.part, depth + 1)?;
        self.text.push_str("\n</details>\n\n");
        Ok(())
    }

    /// Results whose call is not on this path, and words that came with results.
    fn loose_results(&mut self, part: &Part<'_>, message: &MessageView<'_>, depth: usize) -> io::Result<()> {
        let mut headed = false;
        for block in message.blocks.iter().filter(|block| !is_under_call(block)) {
            match block.kind {
                Some(BlockKind::Text) => {
                    let text = block.text();
                    self.small(&words(&text), None);
                }
                Some(BlockKind::ToolResult) => {
                    if !headed {
                        self.heading(part, message, depth, "Result without a call");
                        headed = true;
                    }
                    let parts = whole_parts(&self.document.shown, part, block);
                    let outcome = outcome(std::iter::once((block, &parts)));
                    let id = html_line(&clean(&block.id()));
                    let _ =
                        write!(self.text, "<details>\n<summary><code>{id}</code> {outcome}</summary>\n\n");
                    self.result(&parts, "")?;
                    self.text.push_str("</details>\n\n");
                }
                _ => self.media(block.json())?,
            }
        }
        Ok(())
    }

    /// A note of few words, or folded if it has many.
    fn small(&mut self, text: &str, id: Option<&str>) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let anchor = id.map(|id| format!("<a id=\"{id}\"></a>")).unwrap_or_default();
        if text.lines().count() <= 2 && text.len() <= 240 {
            let _ = write!(self.text, "\n{anchor}*{}*\n\n", inline(&one_line(text)));
            return;
        }
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let first = html_line(&crate::text::fit(&one_line(first), 100));
        let _ = write!(self.text, "\n<details>\n<summary>{anchor}<i>{first}</i></summary>\n\n");
        self.fence("", text);
        self.text.push_str("</details>\n\n");
    }

    fn note(&mut self, note: &NoteView<'_>) {
        let time = moment(note.time).map(|time| format!(" · {time}")).unwrap_or_default();
        match &*note.kind {
            "compaction" => {
                let before =
                    note.tokens.map(|n| format!(" · {} tokens before", count(n))).unwrap_or_default();
                let _ = write!(self.text, "\n---\n\n**Compacted here**{before}{time}\n\n");
            }
            kind => {
                let text = words(&note.text);
                if !text.trim().is_empty() {
                    self.small(&format!("{}: {}", clean(kind), text.trim()), None);
                }
            }
        }
    }
}

/// Spells the name of a file of ours.
fn link_name(file: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    if file.bytes().all(plain) { file.to_owned() } else { inline(file) }
}

/// Tells how a call ended.
fn outcome<'b, 'a: 'b>(
    results: impl Iterator<Item = (&'b BlockView<'a>, &'b Vec<ResultPart<'a>>)>,
) -> String {
    let told = |(block, parts): (&BlockView<'a>, &Vec<ResultPart<'a>>)| {
        if block.is_error() { "error".to_owned() } else { extent(parts) }
    };
    let told: Vec<String> = results.map(told).collect();
    if told.is_empty() { "— no result".into() } else { format!("— {}", told.join(", ")) }
}
