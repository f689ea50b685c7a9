//! A line of text in several styles.

use std::io::{self, Write};

use anstyle::{Effects, Style as Ansi};
use unicode_width::UnicodeWidthStr;

use crate::text::DisplayOptions;

/// A line of text in several styles, for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StyledLine {
    text: String,
    /// The end of each run of text, and its style.
    runs: Vec<(usize, Ansi)>,
}

impl StyledLine {
    /// Returns its text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns its pieces, each with its style.
    pub fn spans(&self) -> impl Iterator<Item = (&str, Ansi)> {
        let mut from = 0;
        self.runs.iter().map(move |&(end, style)| (&self.text[std::mem::replace(&mut from, end)..end], style))
    }

    /// Returns the number of columns that it takes.
    pub fn width(&self) -> usize {
        width(&self.text)
    }

    /// Returns whether it has no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(crate) fn new(text: &str, style: Ansi) -> Self {
        let mut line = Self::default();
        line.push(text, style);
        line
    }

    /// Appends text, which must be safe to print.
    pub(crate) fn push(&mut self, text: &str, style: Ansi) {
        if text.is_empty() {
            return;
        }
        self.text.push_str(text);
        match self.runs.last_mut() {
            Some((end, last)) if *last == style => *end = self.text.len(),
            _ => self.runs.push((self.text.len(), style)),
        }
    }

    /// Appends a number of spaces.
    pub(crate) fn push_spaces(&mut self, count: usize) {
        self.push(&" ".repeat(count), Ansi::new());
    }

    /// Appends a part of another line, given as a range of bytes.
    pub(crate) fn push_part(&mut self, other: &Self, range: std::ops::Range<usize>) {
        let first = other.runs.partition_point(|&(end, _)| end <= range.start);
        let mut from = range.start;
        for &(end, style) in &other.runs[first..] {
            let to = end.min(range.end);
            if from >= to {
                break;
            }
            self.push(&other.text[from..to], style);
            from = to;
        }
    }

    /// Appends another line.
    pub(crate) fn push_line(&mut self, other: &Self) {
        self.push_part(other, 0..other.text.len());
    }

    /// Removes everything after a number of bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
        let kept = self.runs.partition_point(|&(end, _)| end < len);
        self.runs.truncate(kept + 1);
        match self.runs.last_mut() {
            Some(last) if len > 0 => last.0 = last.0.min(len),
            _ => self.runs.clear(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.runs.clear();
    }

    /// Writes the line, with its styles as escape sequences if colours are used. Text that is not laid out is
    /// written unchanged.
    pub(crate) fn write(&self, out: &mut dyn Write, look: &DisplayOptions) -> io::Result<()> {
        if !look.color {
            let text = &*self.text;
            return writeln!(out, "{}", if look.width.is_some() { text.trim_end_matches(' ') } else { text });
        }
        for (text, style) in self.spans() {
            if style.is_plain() {
                out.write_all(text.as_bytes())?;
            } else {
                write!(out, "{style}{text}{style:#}")?;
            }
        }
        out.write_all(b"\n")
    }
}

/// Returns a style on top of another one: its colour, and the effects of both.
pub(crate) fn combine(base: Ansi, top: Ansi) -> Ansi {
    let effects: Effects = base.get_effects() | top.get_effects();
    let style = base.effects(effects);
    if top.get_fg_color().is_some() { style.fg_color(top.get_fg_color()) } else { style }
}

/// Returns the number of columns of a text.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}
