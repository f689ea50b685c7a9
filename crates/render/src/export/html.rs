//! A document as one page for a browser: no network, no script but its own.
//!
//! The page is written while the path is read. What comes first is laid out; the rest stands in inert
//! pieces that the page's script shows one at a time, so that a long session opens at once. All text
//! of a log is escaped, Markdown is turned into elements of a known list, links lead only to known
//! schemes, and a content security policy forbids everything that is not the page's own.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::LazyLock;

use base64::Engine;
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, LinkType, Parser, Tag, TagEnd};
use rethread_log::{BlockKind, Json};
use rethread_model::{
    BlockView, Item, MessageKind, MessageView, NoteView, ResultPart, Time, describe_media, one_line,
};
use sha2::Digest;

use super::markdown::markdown_options;
use super::safe::{clean, escaped, html, safe_link};
use super::tools::{Piece, State, result_language, tell, words};
use super::{Answers, Branch, Document, Head, MAX_NESTING, Part, moment, picture_of, sent, tokens};
use crate::text::{count, fit, plural};

const PAGE_CSS: &str = include_str!("assets/page.css");
const PAGE_JS: &str = include_str!("assets/page.js");

/// What is laid out at once: the first page is small, so that it is there at once.
const FIRST_BYTES: usize = 200_000;
const PAGE_BYTES: usize = 800_000;
const PAGE_MESSAGES: usize = 200;

pub(crate) fn write(out: &mut dyn Write, document: &Document<'_>) -> io::Result<()> {
    let mut page = Page { document, text: String::new(), answered: String::new() };
    page.head();
    let mut pages = Pages { out, held: page.text.split_off(0), n: 1, messages: 0 };
    pages.flush()?;
    let mut marks = 0;
    for (i, part) in document.parts.iter().enumerate() {
        if document.parts.len() > 1 {
            let told = if i > 0 { "Continued in session" } else { "From session" };
            let _ =
                write!(page.text, "<div class=\"joint\"><span>{told} {}</span></div>", text(part.session));
        }
        let answers = Answers::new(&part.items);
        for item in &part.items {
            page.item(part, &answers, item, 0, &mut marks)?;
            pages.take(&mut page.text)?;
        }
    }
    pages.end()
}

/// Lays items out on pages.
struct Pages<'w> {
    out: &'w mut dyn Write,
    held: String,
    n: usize,
    messages: usize,
}

impl Pages<'_> {
    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(self.held.as_bytes())?;
        self.held.clear();
        Ok(())
    }

    fn take(&mut self, item: &mut String) -> io::Result<()> {
        let room = if self.n == 1 { FIRST_BYTES } else { PAGE_BYTES };
        let full = self.held.len() + item.len() > room || self.messages >= PAGE_MESSAGES;
        if full && self.messages > 0 {
            self.flush()?;
            self.out.write_all(if self.n == 1 { FIRST_END.as_bytes() } else { b"</script>\n" })?;
            self.n += 1;
            self.messages = 0;
            write!(self.out, "<script type=\"text/plain\" class=\"chunk\" data-page=\"{}\">", self.n)?;
        }
        self.messages += usize::from(!item.is_empty());
        self.held.push_str(item);
        item.clear();
        Ok(())
    }

    fn end(mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(if self.n == 1 { FIRST_END.as_bytes() } else { b"</script>\n" })?;
        write!(self.out, "<script>{PAGE_JS}</script>\n</body></html>\n")
    }
}

const FIRST_END: &str =
    "</section>\n</main>\n<nav class=\"pager\" aria-label=\"Pages\" hidden></nav>\n</div>\n";

/// The beginning of every page: nothing is loaded, and no script runs but the one with this hash.
pub(super) fn page_start(title: &str, css: &str, js: &str) -> String {
    let hash = base64::engine::general_purpose::STANDARD.encode(sha2::Sha256::digest(js));
    let title = text(title);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; \
         style-src 'unsafe-inline'; script-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<meta name=\"generator\" content=\"rethread\">\n\
         <title>{title}</title>\n<style>\n{css}</style>\n</head>\n"
    )
}

/// Hashing the script for every document would cost more than most documents.
static START: LazyLock<String> = LazyLock::new(|| page_start(TITLE, PAGE_CSS, PAGE_JS));
/// Stands where the title goes.
const TITLE: &str = "\u{2400}";

struct Page<'a> {
    document: &'a Document<'a>,
    text: String,
    /// Used again for Markdown.
    answered: String,
}

impl Page<'_> {
    fn head(&mut self) {
        let head = self.document.head;
        let title = if head.title.is_empty() { "Untitled session" } else { &head.title };
        let title = clean(title);
        let (before, after) = START.split_once(TITLE).unwrap_or((&START, ""));
        let out = &mut self.text;
        out.push_str(before);
        html(out, &title);
        out.push_str(after);
        let _ = write!(
            out,
            "<body data-messages=\"{}\">\n<a class=\"skip\" href=\"#main\">Skip to the conversation</a>\n\
             <div class=\"bar\"><button id=\"menu\" type=\"button\" aria-controls=\"side\" aria-expanded=\"false\">Outline</button>\
             <span class=\"bar-title\">{}</span><button id=\"theme\" type=\"button\" aria-label=\"Colours\">◐</button></div>\n\
             <aside id=\"side\">\n<div class=\"find\"><input id=\"find\" type=\"search\" placeholder=\"Search  ( / )\" \
             aria-label=\"Search this transcript\" autocomplete=\"off\"><p id=\"found\" role=\"status\"></p></div>\n\
             <ol id=\"hits\" hidden></ol>\n<nav id=\"outline\" aria-label=\"Prompts\"><ol>",
            head.messages,
            escaped(&title)
        );
        self.outline();
        let out = &mut self.text;
        out.push_str("</ol></nav>\n</aside>\n<div class=\"column\">\n<header class=\"head\">\n");
        if head.index {
            let _ = writeln!(
                out,
                "<p class=\"crumbs\"><a href=\"{}index.html\">All transcripts</a></p>",
                head.up
            );
        }
        let _ = writeln!(out, "<h1>{}</h1>", escaped(&title));
        match &head.agent {
            Some(agent) => {
                let _ = writeln!(out, "<p class=\"status\">Subagent <code>{}</code></p>", text(agent));
            }
            None => {
                let _ = write!(out, "<p class=\"status\">{}", badge(head.active));
                if head.path.1 > 1 {
                    let _ = write!(out, " path {} of {}", head.path.0, head.path.1);
                }
                out.push_str("</p>\n");
            }
        }
        facts(out, head);
        if head.branches.len() > 1 {
            branches(out, head);
        }
        if !head.defects.is_empty() {
            let n = head.defects.len();
            let what =
                if n == 1 { "The log has a defect".to_owned() } else { format!("The log has {n} defects") };
            let _ = write!(
                out,
                "<details class=\"defects\"><summary>{what}; what could be read is here</summary><ul>"
            );
            for defect in &head.defects {
                let _ = write!(out, "<li>{}</li>", text(defect));
            }
            out.push_str("</ul></details>\n");
        }
        if let Some(file) = &head.begins_in {
            let file = escaped(file);
            let n = head.fork.as_ref().and_then(|(_, n)| *n);
            let (to, name) = n.map_or((file.clone(), "another path".to_owned()), |n| {
                (format!("{file}#m{n}"), format!("message #{n} of another path"))
            });
            let _ = writeln!(out, "<p class=\"begins\">What came before: <a href=\"{to}\">{name}</a></p>");
        }
        out.push_str(
            "</header>\n<div class=\"tools-bar\"><button id=\"unfold\" type=\"button\">Unfold all</button>\
             <button id=\"fold\" type=\"button\">Fold all</button>\
             <label><input type=\"checkbox\" id=\"show-tools\" checked> tools</label>\
             <label><input type=\"checkbox\" id=\"show-thinking\" checked> thinking</label></div>\n\
             <main id=\"main\" tabindex=\"-1\">\n<section class=\"page\" data-page=\"1\">\n",
        );
    }

    /// The prompts, with the compactions between them.
    fn outline(&mut self) {
        let mut compactions = 0;
        for part in self.document.parts {
            for item in &part.items {
                match item {
                    Item::Message(message) if message.kind == MessageKind::Prompt => {
                        let words = message.blocks.iter().find(|b| b.kind == Some(BlockKind::Text));
                        let words = words.map(BlockView::text).unwrap_or_default();
                        let words = fit(&one_line(&clean(beginning(&words, 600))), 90);
                        let words = if words.is_empty() { "(no words)" } else { &words };
                        let _ = write!(
                            self.text,
                            "<li><a href=\"#{}m{n}\"><span>#{n}</span> {}</a></li>",
                            part.prefix,
                            escaped(words),
                            n = message.n
                        );
                    }
                    Item::Note(note) if note.kind == "compaction" => {
                        compactions += 1;
                        let _ = write!(
                            self.text,
                            "<li class=\"mark\"><a href=\"#c{compactions}\">compacted</a></li>"
                        );
                    }
                    _ => {}
                }
            }
        }
    }

    fn item(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
        item: &Item<'_>,
        depth: usize,
        marks: &mut usize,
    ) -> io::Result<()> {
        match item {
            Item::Message(message) => self.message(part, answers, message, depth),
            Item::Note(note) => {
                self.note(note, depth, marks);
                Ok(())
            }
        }
    }

    fn open(&mut self, part: &Part<'_>, message: &MessageView<'_>, class: &str, who: &str) {
        let id = format!("{}m{}", part.prefix, message.n);
        let _ = write!(
            self.text,
            "<article class=\"msg {class}\" id=\"{id}\"><header><a class=\"n\" href=\"#{id}\">#{}</a> <b>{who}</b> ",
            message.n
        );
        if let Some(model) = message.model.filter(|_| class == "answer") {
            let _ = write!(self.text, "<span class=\"model\">{}</span> ", text(model));
        }
        time(&mut self.text, message.time);
        if let Some(usage) = &message.usage {
            let (input, output) = (sent(usage), usage.output);
            let _ = write!(
                self.text,
                " <span class=\"usage\" title=\"{} tokens in, {} of them from the cache; {} out\">{} in · {} out</span>",
                count(input),
                count(usage.cache_read),
                count(output),
                tokens(input),
                tokens(output)
            );
        }
        self.text.push_str("</header>");
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
                self.open(part, message, "prompt", if depth == 0 { "You" } else { "Prompt" });
                self.words(message, false);
                self.text.push_str("</article>\n");
            }
            MessageKind::Answer => {
                if !message.blocks.iter().any(|block| self.shows(block)) {
                    return Ok(());
                }
                self.open(part, message, "answer", "Claude");
                for block in &message.blocks {
                    self.answer_block(part, answers, block, depth)?;
                }
                self.text.push_str("</article>\n");
            }
            MessageKind::Result => self.loose_results(part, answers, message),
            MessageKind::Summary => {
                self.open(part, message, "summary", "Summary");
                self.text.push_str(
                    "<details><summary>Summary of what came before, written by the client</summary>",
                );
                self.words(message, true);
                self.text.push_str("</details></article>\n");
            }
            MessageKind::Command | MessageKind::Note if message.meta => {}
            MessageKind::Command | MessageKind::Note => {
                let said: Vec<_> = message.blocks.iter().map(BlockView::text).collect();
                let said = words(&said.join("\n")).into_owned();
                let id = format!("{}m{}", part.prefix, message.n);
                let class = if message.kind == MessageKind::Command { "command" } else { "note" };
                self.small(&said, class, Some(&id));
            }
        }
        Ok(())
    }

    fn shows(&self, block: &BlockView<'_>) -> bool {
        match block.kind {
            Some(BlockKind::Text) => !block.text().trim().is_empty(),
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.document.thinking && !block.text().trim().is_empty()
            }
            _ => true,
        }
    }

    fn words(&mut self, message: &MessageView<'_>, markdown: bool) {
        for block in &message.blocks {
            match block.kind {
                Some(BlockKind::Text) if markdown => self.markdown(&block.text()),
                Some(BlockKind::Text) => {
                    let said = block.text();
                    let said = clean(said.trim_matches('\n'));
                    self.text.push_str("<div class=\"text plain\" dir=\"auto\">");
                    html(&mut self.text, &said);
                    self.text.push_str("</div>");
                }
                _ => self.media(block.json()),
            }
        }
    }

    fn markdown(&mut self, said: &str) {
        let said = clean(said.trim_matches('\n'));
        self.text.push_str("<div class=\"text md\" dir=\"auto\">");
        markdown(&mut self.text, &said, &mut self.answered);
        self.text.push_str("</div>");
    }

    fn media(&mut self, block: Json<'_>) {
        let name = describe_media(block);
        let name = text(name.trim_matches(['[', ']']));
        match picture_of(block).filter(|_| self.document.pictures) {
            Some(picture) => {
                let _ = write!(
                    self.text,
                    "<figure class=\"media\"><img alt=\"{name}\" loading=\"lazy\" src=\"data:{};base64,{}\"></figure>",
                    picture.media, picture.base64
                );
            }
            None => {
                let _ = write!(self.text, "<p class=\"media\">{name}</p>");
            }
        }
    }

    fn answer_block(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
        block: &BlockView<'_>,
        depth: usize,
    ) -> io::Result<()> {
        if !self.shows(block) {
            return Ok(());
        }
        match block.kind {
            Some(BlockKind::Text) => self.markdown(&block.text()),
            Some(BlockKind::Thinking | BlockKind::RedactedThinking) => {
                self.text.push_str("<details class=\"thinking\"><summary>Thinking</summary>");
                self.markdown(&block.text());
                self.text.push_str("</details>");
            }
            Some(BlockKind::ToolUse) => self.call(part, answers, block, depth)?,
            _ => self.media(block.json()),
        }
        Ok(())
    }

    fn call(
        &mut self,
        part: &Part<'_>,
        answers: &Answers<'_, '_>,
        block: &BlockView<'_>,
        depth: usize,
    ) -> io::Result<()> {
        let tool = block.tool();
        let name = text(&tool);
        let results = answers.of(block.call);
        let copy = results.first().map_or(Json::new(b""), |(message, _)| message.copy);
        let told = tell(&tool, block.input(), copy);
        let open = if told.open { " open" } else { "" };
        let _ =
            write!(self.text, "<details class=\"tool\" data-tool=\"{name}\"{open}><summary><b>{name}</b> ");
        if !told.gist.is_empty() {
            let _ = write!(self.text, "<code class=\"gist\">{}</code> ", escaped(&told.gist));
        }
        if results.is_empty() {
            self.text.push_str("<span class=\"outcome none\">no result</span>");
        }
        let wholes: Vec<Vec<ResultPart<'_>>> =
            results.iter().map(|(_, block)| whole_parts(part, block)).collect();
        for ((_, block), parts) in results.iter().zip(&wholes) {
            outcome(&mut self.text, block, parts);
        }
        self.text.push_str("</summary><div class=\"body\">");
        for piece in &told.pieces {
            self.piece(piece);
        }
        let language = result_language(&tool, block.input());
        for ((message, block), parts) in results.iter().zip(&wholes) {
            let _ = write!(self.text, "<h4 id=\"{}m{}\">Result</h4>", part.prefix, message.n);
            self.result(block, parts, &language);
        }
        for &agent in block.call.and_then(|call| part.side.agents.get(&call)).into_iter().flatten() {
            self.agent(agent, depth)?;
        }
        self.text.push_str("</div></details>");
        Ok(())
    }

    fn piece(&mut self, piece: &Piece) {
        match piece {
            Piece::Code(label, language, code) => {
                let _ = write!(self.text, "<h4>{label}</h4>");
                pre(&mut self.text, "code", language, code);
            }
            Piece::Prose(label, prose) => {
                let _ = write!(self.text, "<h4>{label}</h4>");
                self.markdown(prose);
            }
            Piece::Diff(diff) => {
                self.text.push_str("<pre class=\"diff\"><code>");
                for line in diff.lines() {
                    let class = match line.as_bytes().first() {
                        Some(b'+') => "ins",
                        Some(b'-') => "del",
                        Some(b'@') => "hunk",
                        _ => "",
                    };
                    if class.is_empty() {
                        html(&mut self.text, line);
                    } else {
                        let _ = write!(self.text, "<span class=\"{class}\">");
                        html(&mut self.text, line);
                        self.text.push_str("</span>");
                    }
                    self.text.push('\n');
                }
                self.text.push_str("</code></pre>");
            }
            Piece::Todos(list) => {
                self.text.push_str("<ul class=\"todos\">");
                for (state, todo) in list {
                    let class = match state {
                        State::Done => "done",
                        State::Doing => "doing",
                        State::Open => "open",
                    };
                    let _ = write!(self.text, "<li class=\"{class}\">{}</li>", escaped(todo));
                }
                self.text.push_str("</ul>");
            }
        }
    }

    fn result(&mut self, block: &BlockView<'_>, parts: &[ResultPart<'_>], language: &str) {
        for part in parts {
            match part {
                ResultPart::Text(said) if !said.is_empty() => {
                    let class = if block.is_error() { "result error" } else { "result" };
                    pre(&mut self.text, class, language, &clean(said));
                }
                ResultPart::Text(_) => {}
                ResultPart::Other(item) => self.media(*item),
            }
        }
    }

    fn agent(&mut self, index: usize, depth: usize) -> io::Result<()> {
        let agent = &self.document.agents[index];
        let link = format!("{}{}", self.document.head.up, escaped(&agent.file));
        let messages = plural(agent.messages as u64, "message");
        if depth >= MAX_NESTING {
            let _ = write!(self.text, "<p><a href=\"{link}\">Subagent: {messages}</a></p>");
            return Ok(());
        }
        let _ = write!(
            self.text,
            "<details class=\"subagent\"><summary>Subagent: {messages}</summary><div class=\"body\">\
             <p><a href=\"{link}\">On a page of its own</a></p>"
        );
        let answers = Answers::new(&agent.part.items);
        for item in &agent.part.items {
            // Compactions inside a subagent are no marks of the outline.
            self.item(&agent.part, &answers, item, depth + 1, &mut 0)?;
        }
        self.text.push_str("</div></details>");
        Ok(())
    }

    fn loose_results(&mut self, part: &Part<'_>, answers: &Answers<'_, '_>, message: &MessageView<'_>) {
        let mut opened = false;
        for block in message.blocks.iter().filter(|block| !answers.has(block)) {
            match block.kind {
                Some(BlockKind::Text) => {
                    let said = block.text();
                    self.small(&words(&said), "note", None);
                    continue;
                }
                Some(BlockKind::ToolResult) => {}
                _ => {
                    self.media(block.json());
                    continue;
                }
            }
            if !opened {
                self.open(part, message, "answer loose", "Result without a call");
                opened = true;
            }
            let parts = whole_parts(part, block);
            let _ = write!(
                self.text,
                "<details class=\"tool\"><summary><code class=\"gist\">{}</code> ",
                text(&block.id())
            );
            outcome(&mut self.text, block, &parts);
            self.text.push_str("</summary><div class=\"body\">");
            self.result(block, &parts, "");
            self.text.push_str("</div></details>");
        }
        if opened {
            self.text.push_str("</article>\n");
        }
    }

    fn small(&mut self, said: &str, class: &str, id: Option<&str>) {
        let said = said.trim();
        if said.is_empty() {
            return;
        }
        let id = id.map(|id| format!(" id=\"{id}\"")).unwrap_or_default();
        let _ = write!(self.text, "<article class=\"msg {class}\"{id}>");
        if said.lines().count() <= 3 && said.len() <= 300 {
            let _ = write!(self.text, "<p>{}</p>", escaped(&one_line(said)));
        } else {
            let first = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let first = escaped(&fit(&one_line(first), 100));
            let _ = write!(self.text, "<details><summary>{first}</summary>");
            pre(&mut self.text, "result", "", said);
            self.text.push_str("</details>");
        }
        self.text.push_str("</article>\n");
    }

    fn note(&mut self, note: &NoteView<'_>, depth: usize, marks: &mut usize) {
        match &*note.kind {
            "compaction" => {
                *marks += 1;
                let id = if depth == 0 { format!(" id=\"c{marks}\"") } else { String::new() };
                let before =
                    note.tokens.map(|n| format!(" · {} tokens before", count(n))).unwrap_or_default();
                let _ = write!(self.text, "<div class=\"compaction\"{id}><span>Compacted here{before} · ");
                time(&mut self.text, note.time);
                self.text.push_str("</span></div>\n");
            }
            "queued" => {
                self.text
                    .push_str("<article class=\"msg prompt\"><header><b>You</b>, while the model was busy ");
                time(&mut self.text, note.time);
                self.text.push_str("</header><div class=\"text plain\" dir=\"auto\">");
                html(&mut self.text, &clean(&note.text));
                self.text.push_str("</div></article>\n");
            }
            kind => {
                let said = words(&note.text);
                if !said.trim().is_empty() {
                    self.small(&format!("{}: {}", clean(kind), said.trim()), "note", None);
                }
            }
        }
    }
}

/// The parts of a result, with the whole of a text that was shortened.
fn whole_parts<'a>(part: &Part<'_>, block: &BlockView<'a>) -> Vec<ResultPart<'a>> {
    let mut parts = block.parts();
    if let Some(whole_result) = &part.side.whole_result {
        for piece in &mut parts {
            if let ResultPart::Text(said) = piece
                && let Some(whole) = whole_result(said)
            {
                *said = whole.into();
            }
        }
    }
    parts
}

fn outcome(out: &mut String, block: &BlockView<'_>, parts: &[ResultPart<'_>]) {
    if block.is_error() {
        out.push_str("<span class=\"outcome error\">error</span>");
        return;
    }
    let lines = |part: &ResultPart<'_>| match part {
        ResultPart::Text(said) => said.lines().count() as u64,
        ResultPart::Other(_) => 0,
    };
    let pictures = parts.iter().filter(|part| matches!(part, ResultPart::Other(_))).count() as u64;
    let n = parts.iter().map(lines).sum::<u64>();
    let told = if n == 0 && pictures > 0 {
        plural(pictures, "attachment").to_string()
    } else {
        plural(n, "line").to_string()
    };
    let _ = write!(out, "<span class=\"outcome\">{told}</span>");
}

/// The beginning of a text that may be very long.
fn beginning(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn text(said: &str) -> String {
    escaped(&clean(said))
}

fn time(out: &mut String, time: Time) {
    if let Some((iso, shown)) = time.to_iso().zip(moment(time)) {
        let _ = write!(out, "<time datetime=\"{iso}\">{shown}</time>");
    }
}

fn badge(active: bool) -> String {
    let name = if active { "active" } else { "abandoned" };
    format!("<span class=\"badge {name}\">{name}</span>")
}

fn pre(out: &mut String, class: &str, language: &str, code: &str) {
    let _ = write!(out, "<pre class=\"{class}\"><code");
    if !language.is_empty() {
        let _ = write!(out, " class=\"lang-{}\"", escaped(language));
    }
    out.push('>');
    html(out, code.strip_suffix('\n').unwrap_or(code));
    out.push_str("</code></pre>");
}

fn facts(out: &mut String, head: &Head) {
    out.push_str("<dl class=\"facts\">");
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
    };
    fact("Session", format!("<code>{}</code>", text(&head.session)));
    fact("Project", text(&head.project));
    let mut span = String::new();
    time(&mut span, head.span.0);
    if moment(head.span.0) != moment(head.span.1) {
        span.push_str(" to ");
        time(&mut span, head.span.1);
    }
    fact("Time", span);
    let mut size = plural(u64::from(head.messages), "message").to_string();
    if head.agent.is_none() {
        size = format!("{}, {size}", plural(u64::from(head.turns), "turn"));
    }
    if head.compactions > 0 {
        size = format!("{size}, {}", plural(u64::from(head.compactions), "compaction"));
    }
    fact("Length", size);
    fact("Models", head.models.iter().map(|model| text(model)).collect::<Vec<_>>().join(", "));
    fact("Client", head.versions.iter().map(|version| text(version)).collect::<Vec<_>>().join(", "));
    fact("Git branch", head.git_branch.as_deref().map(text).unwrap_or_default());
    if let Some((uuid, _)) = &head.fork {
        fact("Fork point", format!("<code>{}</code>", text(uuid)));
    }
    out.push_str("</dl>\n");
    let usage = &head.usage;
    if *usage != rethread_model::Usage::default() {
        let _ = write!(
            out,
            "<details class=\"tokens\"><summary>Tokens: {} in · {} out</summary><table>",
            count(sent(usage)),
            count(usage.output)
        );
        for (name, n) in [
            ("input, not cached", usage.input),
            ("written to the cache for 5 minutes", usage.cache_write_5m),
            ("written to the cache for an hour", usage.cache_write_1h),
            ("read from the cache", usage.cache_read),
            ("output", usage.output),
            ("web searches and fetches", usage.web),
        ] {
            if n > 0 {
                let _ = write!(out, "<tr><td>{name}</td><td>{}</td></tr>", count(n));
            }
        }
        out.push_str("</table></details>\n");
    }
}

/// A picture of more paths than these would be a wall; the list below it has them all.
const MAX_LANES: usize = 24;
/// How wide a branch picture is, in its own units.
const WIDTH: u32 = 640;
/// How high a lane is.
const LANE: u32 = 22;

/// Draws the paths as lanes, each leaving the one that it forks from, and lists them.
fn branches(out: &mut String, head: &Head) {
    out.push_str("<section class=\"branches\"><h2>Branches</h2>");
    if head.branches.len() <= MAX_LANES {
        lanes(out, head);
    }
    out.push_str("<ol>");
    for branch in &head.branches {
        let is_here = branch.n == head.path.0;
        let _ = write!(out, "<li{}>", if is_here { " class=\"here\"" } else { "" });
        let name = format!("path {}", branch.n);
        match &branch.file {
            Some(file) if !is_here => {
                let _ = write!(out, "<a href=\"{}\">{name}</a> ", escaped(file));
            }
            _ => {
                let _ = write!(out, "{name} ");
            }
        }
        let fork = branch.fork.map(|n| format!("from #{n} · ")).unwrap_or_default();
        let messages = plural(u64::from(branch.messages.0), "message");
        let prompt = fit(&branch.last_prompt, 80);
        let _ =
            write!(out, "{} <span>{fork}{messages} · {}</span></li>", badge(branch.active), text(&prompt));
    }
    out.push_str("</ol>");
    // Of thousands only those around this one are at hand.
    let left_out = head.path.1.saturating_sub(head.branches.len());
    if left_out > 0 {
        let _ = write!(out, "<p>and {} more</p>", count(left_out as u64));
    }
    out.push_str("</section>\n");
}

fn lanes(out: &mut String, head: &Head) {
    let longest = head.branches.iter().map(|branch| branch.messages.0).max().unwrap_or(1).max(1);
    let x = |messages: u32| 12 + u64::from(messages) * u64::from(WIDTH - 60) / u64::from(longest);
    let y = |lane: usize| (lane as u64) * u64::from(LANE) + u64::from(LANE) / 2;
    let height = head.branches.len() as u64 * u64::from(LANE);
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{} paths\">",
        head.branches.len()
    );
    let lane_of = |n: usize| head.branches.iter().position(|branch| branch.n == n);
    for (lane, branch) in head.branches.iter().enumerate() {
        let class = class_of(branch, head);
        let parent = branch.from.and_then(lane_of);
        let start = if parent.is_some() { branch.messages.1 } else { 0 };
        let (x0, x1, y1) = (x(start), x(branch.messages.0).max(x(start) + 8), y(lane));
        let from = parent
            .map(|parent| format!("M{x0} {} L{x0} {y1} ", y(parent)))
            .unwrap_or_else(|| format!("M{x0} {y1} "));
        let line = format!(
            "<path d=\"{from}L{x1} {y1}\"/><circle cx=\"{x1}\" cy=\"{y1}\" r=\"5\"/>\
            <text x=\"{}\" y=\"{}\">{}</text>",
            x1 + 10,
            y1 + 4,
            branch.n
        );
        match &branch.file {
            Some(file) if branch.n != head.path.0 => {
                let _ = write!(
                    out,
                    "<a href=\"{}\" aria-label=\"path {}\"><g class=\"{class}\">{line}</g></a>",
                    escaped(file),
                    branch.n
                );
            }
            _ => {
                let _ = write!(out, "<g class=\"{class}\">{line}</g>");
            }
        }
    }
    out.push_str("</svg>");
}

fn class_of(branch: &Branch, head: &Head) -> &'static str {
    match (branch.active, branch.n == head.path.0) {
        (true, true) => "lane active here",
        (true, false) => "lane active",
        (false, true) => "lane here",
        (false, false) => "lane",
    }
}

/// Writes Markdown as HTML: elements of Markdown only, text for everything else.
fn markdown(out: &mut String, said: &str, scratch: &mut String) {
    scratch.clear();
    let mut table = false;
    let mut image = None;
    let raw = |text: String| Event::Html(CowStr::from(text));
    let events = Parser::new_ext(said, markdown_options()).filter_map(|event| {
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
                    format!(" class=\"lang-{}\"", escaped(&language.to_lowercase()))
                } else {
                    String::new()
                };
                raw(format!("<pre class=\"code\"><code{class}>"))
            }
            Event::End(TagEnd::CodeBlock) => raw("</code></pre>\n".into()),
            Event::Start(Tag::Table(columns)) => {
                table = true;
                return Some(Event::Start(Tag::Table(columns)));
            }
            Event::End(TagEnd::Table) => {
                table = false;
                Event::End(TagEnd::Table)
            }
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                // An address that was never meant as a link, such as a mail address in code.
                let dest: CowStr<'_> =
                    if link_type == LinkType::Email { format!("mailto:{dest_url}").into() } else { dest_url };
                let _ = (&title, &id);
                if safe_link(&dest) {
                    raw(format!("<a href=\"{}\" rel=\"noopener noreferrer\">", escaped(&dest)))
                } else {
                    raw("<a>".into())
                }
            }
            Event::End(TagEnd::Link) => raw("</a>".into()),
            // A picture would be fetched; its address is shown instead.
            Event::Start(Tag::Image { dest_url, .. }) => {
                image = Some(dest_url);
                raw("<span class=\"image\">".into())
            }
            Event::End(TagEnd::Image) => {
                let from = image.take().map(|url| beginning(&url, 200).to_owned()).unwrap_or_default();
                raw(format!(" ({})</span>", escaped(&from)))
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
