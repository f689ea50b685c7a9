//! Markdown as styled lines for a terminal.
//!
//! Events of `pulldown-cmark` in, wrapped lines of a fixed width out. Text is escaped after it was parsed,
//! because Markdown can spell any character as an entity. Without colours the markers of emphasis, code and
//! headings are kept, so that nothing is lost.
//!
//! A line is never wider than the width, whatever the text. Work is linear: the part of the width that nested
//! lists and quotes take is limited, and so is the number of table columns that are drawn side by side.

mod code;
mod line;
mod table;
mod wrap;

use std::borrow::Cow;
use std::io;

use anstyle::Style as Ansi;
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

pub(crate) use self::code::code_lines;
pub use self::line::StyledLine;
pub(crate) use self::line::{combine, width};
use self::table::ProseTable;
pub(crate) use self::wrap::{cut, expand_tabs, shorten, wrap};
use crate::text::{Style, escape};

/// Receives lines.
pub(crate) type EmitLine<'e> = &'e mut dyn FnMut(&StyledLine) -> io::Result<()>;

/// Settings for rendering Markdown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProseOptions {
    /// Maximum number of columns of a line.
    pub(crate) width: usize,
    /// Keep the markers of emphasis, code and headings, because styles are not visible.
    pub(crate) markers: bool,
    /// The style of plain text.
    pub(crate) base: Ansi,
}

/// Maximum number of columns of a line of prose. Longer lines are hard to read; code and tables may be wider.
const MEASURE: usize = 100;

/// Passes the lines of a Markdown text to `emit`.
pub(crate) fn markdown_lines(text: &str, options: ProseOptions, emit: EmitLine<'_>) -> io::Result<()> {
    let extensions = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut prose = Prose::new(options, emit);
    for event in Parser::new_ext(text, extensions) {
        prose.event(event)?;
    }
    prose.flush()
}

/// Passes the lines of a text as a person typed it to `emit`: line ends are kept, only code is coloured.
pub(crate) fn typed_lines(text: &str, options: ProseOptions, emit: EmitLine<'_>) -> io::Result<()> {
    let mut fence: Option<(&str, String, String)> = None;
    for line in text.split('\n') {
        let mark = fence_mark(line);
        match &mut fence {
            Some((open, _, code)) if mark.is_none_or(|mark| mark.len() < open.len()) => {
                code.push_str(if code.is_empty() { "" } else { "\n" });
                code.push_str(line);
            }
            Some((_, language, code)) => {
                emit_code(language, code, options, 0, emit)?;
                emit_typed(line, options, emit)?;
                fence = None;
            }
            None => {
                emit_typed(line, options, emit)?;
                fence = mark.map(|mark| {
                    let info = line.trim_start().trim_start_matches('`');
                    (mark, code_language(info).to_owned(), String::new())
                });
            }
        }
    }
    fence.map_or(Ok(()), |(_, language, code)| emit_code(&language, &code, options, 0, emit))
}

/// Returns the backticks that open or close a block of code.
fn fence_mark(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let mark = &line[..line.len() - line.trim_start_matches('`').len()];
    (mark.len() >= 3 && !line[mark.len()..].contains('`')).then_some(mark)
}

/// Emits a typed line, wrapped at its own indentation.
fn emit_typed(line: &str, options: ProseOptions, emit: EmitLine<'_>) -> io::Result<()> {
    let line = escape(line);
    let line = expand_tabs(&line);
    let text = line.trim_start_matches(' ');
    let indent = (line.len() - text.len()).min(options.width / 2);
    let mut styled = StyledLine::default();
    let mut pieces = text.split('`').peekable();
    let mut is_code = false;
    while let Some(piece) = pieces.next() {
        if is_code && pieces.peek().is_some() {
            styled.push(&format!("`{piece}`"), combine(options.base, Style::Code.ansi()));
        } else {
            styled.push(if is_code { "`" } else { "" }, options.base);
            styled.push(piece, options.base);
        }
        is_code = !is_code;
    }
    let mut out = StyledLine::default();
    for part in wrap(styled.text(), (options.width - indent).min(MEASURE)) {
        out.clear();
        out.push_spaces(indent);
        out.push_part(&styled, part);
        emit(&out)?;
    }
    Ok(())
}

/// Emits lines of code; long ones are cut.
fn emit_code(
    language: &str,
    code: &str,
    options: ProseOptions,
    indent: usize,
    emit: EmitLine<'_>,
) -> io::Result<()> {
    let mut out = StyledLine::default();
    for line in code_lines(language, code, options.base) {
        for part in cut(line.text(), options.width - indent) {
            out.clear();
            out.push_spaces(indent);
            out.push_part(&line, part);
            emit(&out)?;
        }
    }
    Ok(())
}

/// Returns the language named by the info string of a block of code.
fn code_language(info: &str) -> &str {
    info.trim().split([' ', ',', '{', ':']).next().unwrap_or_default()
}

/// A renderer of Markdown events.
struct Prose<'e> {
    options: ProseOptions,
    emit: EmitLine<'e>,
    /// The beginning of every line: quotes and the indentation of list items.
    prefix: StyledLine,
    /// The beginning of the next line, if it differs: the markers of list items.
    first: Option<StyledLine>,
    /// The lengths of `prefix` outside each quote and item.
    containers: Vec<usize>,
    /// The number of the next item, for each list; `None` if it is a list of bullets.
    lists: Vec<Option<u64>>,
    /// The lines of the paragraph, before they are wrapped.
    lines: Vec<StyledLine>,
    /// The styles around the current text.
    styles: Vec<Ansi>,
    /// The targets of the links and images around the current text, each with the position where it begins.
    links: Vec<(String, usize, usize)>,
    /// The language and text of the current block of code.
    code: Option<(String, String)>,
    table: Option<ProseTable>,
    /// The next block is separated by an empty line.
    needs_gap: bool,
}

impl<'e> Prose<'e> {
    fn new(options: ProseOptions, emit: EmitLine<'e>) -> Self {
        Self {
            options,
            emit,
            prefix: StyledLine::default(),
            first: None,
            containers: Vec::new(),
            lists: Vec::new(),
            lines: Vec::new(),
            styles: vec![options.base],
            links: Vec::new(),
            code: None,
            table: None,
            needs_gap: false,
        }
    }

    fn event(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Start(tag) => self.start(tag)?,
            Event::End(tag) => self.end(tag)?,
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(&text),
                None => self.push_text(&text),
            },
            Event::Code(text) => {
                self.open_style(Style::Code, "`");
                self.push_text(&text);
                self.close_style("`");
            }
            Event::Html(html) => {
                for line in html.lines() {
                    self.push_text(line);
                    self.lines.push(StyledLine::default());
                }
            }
            Event::InlineHtml(text) => self.push_text(&text),
            Event::SoftBreak | Event::HardBreak => self.lines.push(StyledLine::default()),
            Event::Rule => self.write_rule()?,
            Event::TaskListMarker(done) => self.push_task(done),
            Event::InlineMath(text) | Event::DisplayMath(text) | Event::FootnoteReference(text) => {
                self.push_text(&text);
            }
        }
        Ok(())
    }

    fn start(&mut self, tag: Tag<'_>) -> io::Result<()> {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin_block()?,
            Tag::Heading { level, .. } => {
                self.begin_block()?;
                let style = Style::Heading.ansi();
                let style = if level == HeadingLevel::H1 { style.underline() } else { style };
                self.styles.push(combine(self.options.base, style));
                if self.options.markers {
                    self.push_text(&("#".repeat(level as usize) + " "));
                }
            }
            Tag::BlockQuote(_) => {
                self.begin_block()?;
                self.enter("│ ", "│ ", Style::Dim);
            }
            Tag::List(start) => {
                self.flush()?;
                if self.lists.is_empty() {
                    self.begin_block()?;
                }
                self.lists.push(start);
            }
            Tag::Item => self.begin_item()?,
            Tag::CodeBlock(kind) => {
                self.begin_block()?;
                let language = match &kind {
                    CodeBlockKind::Fenced(info) => code_language(info),
                    CodeBlockKind::Indented => "",
                };
                self.code = Some((language.to_owned(), String::new()));
            }
            Tag::Table(alignments) => {
                self.begin_block()?;
                self.table = Some(ProseTable::new(alignments));
            }
            Tag::TableHead => self.styles.push(Style::Strong.ansi()),
            Tag::Emphasis => self.open_style(Style::Emphasis, "*"),
            Tag::Strong => self.open_style(Style::Strong, "**"),
            Tag::Strikethrough => self.open_style(Style::Strike, "~~"),
            Tag::Link { dest_url, .. } => {
                let (line, at) = self.position();
                self.links.push((dest_url.into_string(), line, at));
                self.open_style(Style::Link, "");
            }
            Tag::Image { dest_url, .. } => {
                self.push_text("[image: ");
                self.links.push((dest_url.into_string(), usize::MAX, 0));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, tag: TagEnd) -> io::Result<()> {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.end_block()?,
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.end_block()?;
            }
            TagEnd::BlockQuote(_) => {
                self.flush()?;
                self.leave();
                self.needs_gap = true;
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.needs_gap |= self.lists.is_empty();
            }
            TagEnd::Item => self.end_item()?,
            TagEnd::CodeBlock => self.write_code()?,
            TagEnd::Table => self.write_table()?,
            TagEnd::TableHead => {
                self.styles.pop();
                self.end_row();
            }
            TagEnd::TableRow => self.end_row(),
            TagEnd::TableCell => {
                let cell = self.lines.drain(..).next().unwrap_or_default();
                self.table.iter_mut().for_each(|table| table.add_cell(cell.clone()));
            }
            TagEnd::Emphasis => self.close_style("*"),
            TagEnd::Strong => self.close_style("**"),
            TagEnd::Strikethrough => self.close_style("~~"),
            TagEnd::Link => {
                self.close_style("");
                self.end_link();
            }
            TagEnd::Image => {
                self.push_text("]");
                self.end_link();
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the index of the current line of the paragraph, and its length.
    fn position(&self) -> (usize, usize) {
        (self.lines.len(), self.lines.last().map_or(0, |line| line.text().len()))
    }

    /// Adds the target of a link, unless its text is the target.
    fn end_link(&mut self) {
        let Some((target, line, at)) = self.links.pop() else { return };
        let text = match self.lines.last() {
            Some(last) if line == self.lines.len() => &last.text()[at..],
            Some(last) if line == 0 && self.lines.len() == 1 => last.text(),
            _ => "",
        };
        let plain = |url: &str| {
            let url = url.strip_prefix("mailto:").unwrap_or(url);
            let url = url.split_once("://").map_or(url, |(_, rest)| rest);
            url.trim_end_matches('/').to_owned()
        };
        if !target.is_empty() && !target.starts_with('#') && plain(text) != plain(&target) {
            self.styles.push(combine(self.style(), Style::Dim.ansi()));
            self.push_text(&format!(" ({target})"));
            self.styles.pop();
        }
    }

    fn style(&self) -> Ansi {
        self.styles.last().copied().unwrap_or_default()
    }

    fn open_style(&mut self, style: Style, marker: &str) {
        self.push_marker(marker);
        self.styles.push(combine(self.style(), style.ansi()));
    }

    fn close_style(&mut self, marker: &str) {
        self.styles.pop();
        self.push_marker(marker);
    }

    fn push_marker(&mut self, marker: &str) {
        if self.options.markers {
            self.push_text(marker);
        }
    }

    /// Adds text from a log to the current line.
    fn push_text(&mut self, text: &str) {
        let text = escape(text);
        let text: Cow<'_, str> =
            if text.contains(['\n', '\t']) { text.replace(['\n', '\t'], " ").into() } else { text };
        let style = self.style();
        if self.lines.is_empty() {
            self.lines.push(StyledLine::default());
        }
        if let Some(line) = self.lines.last_mut() {
            line.push(&text, style);
        }
    }

    fn push_task(&mut self, done: bool) {
        let (mark, style) = if done { ("[x]", Style::Active) } else { ("[ ]", Style::Dim) };
        self.styles.push(style.ansi());
        self.push_text(mark);
        self.styles.pop();
        self.push_text(" ");
    }

    /// Begins a block: ends the text before it, and separates it.
    fn begin_block(&mut self) -> io::Result<()> {
        self.flush()?;
        if std::mem::take(&mut self.needs_gap) && self.first.is_none() {
            (self.emit)(&self.prefix)?;
        }
        Ok(())
    }

    fn end_block(&mut self) -> io::Result<()> {
        self.flush()?;
        self.needs_gap = true;
        Ok(())
    }

    /// Writes the lines of the paragraph.
    fn flush(&mut self) -> io::Result<()> {
        let mut lines = std::mem::take(&mut self.lines);
        while lines.last().is_some_and(|line| line.text().trim().is_empty()) {
            lines.pop();
        }
        lines.iter().try_for_each(|line| self.write_wrapped(line))
    }

    fn write_wrapped(&mut self, line: &StyledLine) -> io::Result<()> {
        wrap(line.text(), self.room().min(MEASURE))
            .into_iter()
            .try_for_each(|part| self.write_part(line, part))
    }

    /// Writes a part of a line after the prefix.
    fn write_part(&mut self, line: &StyledLine, part: std::ops::Range<usize>) -> io::Result<()> {
        let mut out = self.first.take().unwrap_or_else(|| self.prefix.clone());
        out.push_part(line, part);
        (self.emit)(&out)
    }

    /// Returns the columns beside the prefix.
    fn room(&self) -> usize {
        self.options.width.saturating_sub(self.prefix.width()).max(2)
    }

    /// Begins a quote or an item. Beyond half of the width nothing is indented further.
    fn enter(&mut self, marker: &str, rest: &str, style: Style) {
        self.containers.push(self.prefix.text().len());
        if self.prefix.width() + width(rest) > self.options.width / 2 {
            return;
        }
        let style = combine(self.options.base, style.ansi());
        if marker != rest || self.first.is_some() {
            self.first.get_or_insert_with(|| self.prefix.clone()).push(marker, style);
        }
        self.prefix.push(rest, style);
    }

    fn leave(&mut self) {
        if let Some(len) = self.containers.pop() {
            self.prefix.truncate(len);
        }
    }

    fn begin_item(&mut self) -> io::Result<()> {
        self.begin_block()?;
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => "• ".to_owned(),
        };
        self.enter(&marker, &" ".repeat(width(&marker)), Style::Dim);
        Ok(())
    }

    fn end_item(&mut self) -> io::Result<()> {
        self.flush()?;
        if self.first.is_some() {
            self.write_part(&StyledLine::default(), 0..0)?;
        }
        self.leave();
        Ok(())
    }

    fn write_rule(&mut self) -> io::Result<()> {
        self.begin_block()?;
        let rule = StyledLine::new(&"─".repeat(self.room().min(MEASURE)), Style::Dim.ansi());
        self.write_part(&rule, 0..rule.text().len())?;
        self.needs_gap = true;
        Ok(())
    }

    fn write_code(&mut self) -> io::Result<()> {
        let Some((language, code)) = self.code.take() else { return Ok(()) };
        let options = ProseOptions { width: self.room(), ..self.options };
        let indent = if options.width >= 40 { 4 } else { 2 };
        let mut lines = Vec::new();
        let code = code.strip_suffix('\n').unwrap_or(&code);
        emit_code(&language, code, options, indent, &mut |line| {
            lines.push(line.clone());
            Ok(())
        })?;
        lines.iter().try_for_each(|line| self.write_part(line, 0..line.text().len()))?;
        self.needs_gap = true;
        Ok(())
    }

    fn end_row(&mut self) {
        self.table.iter_mut().for_each(ProseTable::end_row);
    }

    fn write_table(&mut self) -> io::Result<()> {
        let Some(table) = self.table.take() else { return Ok(()) };
        for line in table.lines(self.room()) {
            self.write_part(&line, 0..line.text().len())?;
        }
        self.needs_gap = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
