//! Labelled values below each other, wrapped to the width of the terminal.

use std::io::{self, Write};

use unicode_width::UnicodeWidthStr;

use crate::text::{DisplayOptions, Style, pad, truncate};

/// The width of output that is not limited.
const DEFAULT_WIDTH: usize = 100;

/// Returns the number of columns for layouts that wrap.
pub(crate) fn layout_width(look: &DisplayOptions) -> usize {
    look.width.unwrap_or(DEFAULT_WIDTH)
}

/// Joins items with a separator into lines of at most `width` columns, breaking only between items. An item that is
/// longer than a line is cut.
pub(crate) fn wrap_items<'t>(
    items: impl IntoIterator<Item = &'t str>,
    separator: &str,
    width: usize,
) -> Vec<String> {
    let width = width.max(10);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    // A line that another follows ends with the separator.
    let end = separator.trim_end();
    for item in items {
        let item = truncate(item, width.saturating_sub(end.width()));
        let wanted = item.width();
        if line.is_empty() {
            used = wanted;
        } else if used + separator.width() + wanted + end.width() <= width {
            line.push_str(separator);
            used += separator.width() + wanted;
        } else {
            line.push_str(end);
            lines.push(std::mem::take(&mut line));
            used = wanted;
        }
        line.push_str(&item);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// Wraps a text between words.
pub(crate) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    wrap_items(text.split(' ').filter(|word| !word.is_empty()), " ", width)
}

/// Wraps a message between words. What stands between backticks stays on one line, however long it is, so that a
/// command can be copied.
pub fn wrap_message(text: &str, width: usize) -> String {
    let mut wrapped = String::with_capacity(text.len() + 8);
    let mut used = 0;
    let mut quoted = false;
    let is_break = |c: char| {
        quoted ^= c == '`';
        c == ' ' && !quoted
    };
    for word in text.split(is_break) {
        let wanted = word.width();
        if used > 0 && used + 1 + wanted > width {
            wrapped.push('\n');
            used = 0;
        } else if !wrapped.is_empty() {
            wrapped.push(' ');
            used += 1;
        }
        wrapped.push_str(word);
        used += wanted;
    }
    wrapped
}

/// Writes a trusted text in a style, wrapped between words.
pub fn write_wrapped(out: &mut dyn Write, style: Style, text: &str, look: &DisplayOptions) -> io::Result<()> {
    for line in wrap_words(text, layout_width(look)) {
        writeln!(out, "{}", look.paint(style, line))?;
    }
    Ok(())
}

/// Writes labelled values; the labels are in a column of their own.
pub(crate) struct FieldWriter<'a> {
    pub(crate) out: &'a mut dyn Write,
    pub(crate) look: &'a DisplayOptions,
    /// The width of the labels.
    pub(crate) label_width: usize,
}

/// Columns before the labels, and between a label and its value.
const MARGIN: usize = 2;

impl FieldWriter<'_> {
    /// Returns the columns that are left for a value.
    pub(crate) fn value_width(&self) -> usize {
        layout_width(self.look).saturating_sub(self.label_width + 2 * MARGIN).max(20)
    }

    /// Writes lines that fit already, with their label before the first.
    pub(crate) fn lines(
        &mut self,
        label: &str,
        style: Style,
        lines: impl IntoIterator<Item = String>,
    ) -> io::Result<()> {
        let mut label = label;
        for line in lines {
            let shown = self.look.paint(Style::Dim, pad(label, self.label_width));
            writeln!(self.out, "  {shown}  {}", self.look.paint(style, line))?;
            label = "";
        }
        Ok(())
    }

    /// Writes trusted items, wrapped between them; nothing if there are none.
    pub(crate) fn items(&mut self, label: &str, items: &[String], separator: &str) -> io::Result<()> {
        let lines = wrap_items(items.iter().map(String::as_str), separator, self.value_width());
        self.lines(label, Style::Plain, lines)
    }

    /// Writes a trusted text, wrapped between words; nothing if it is empty.
    pub(crate) fn text(&mut self, label: &str, style: Style, text: &str) -> io::Result<()> {
        let lines = wrap_words(text, self.value_width());
        self.lines(label, style, lines)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn items_wrap_between_each_other() {
        let items = ["Bash 10", "Edit 9", "Read 8"];
        assert_eq!(wrap_items(items, ", ", 17), ["Bash 10, Edit 9,", "Read 8"]);
        assert_eq!(wrap_items(items, " · ", 80), ["Bash 10 · Edit 9 · Read 8"]);
        assert_eq!(wrap_words("one word too long", 10), ["one word", "too long"]);
    }

    #[test]
    fn messages_are_wrapped_around_commands() {
        let text = "write a copy with `rethread clean 0000d005 --redact` and read it";
        assert_eq!(
            wrap_message(text, 24),
            "write a copy with\n`rethread clean 0000d005 --redact`\nand read it"
        );
        assert_eq!(wrap_message(text, 200), text);
        assert_eq!(wrap_message("", 10), "");
    }

    proptest! {
        #[test]
        fn wrapped_lines_fit_the_width(items: Vec<String>, width in 10usize..60) {
            for line in wrap_items(items.iter().map(String::as_str), " · ", width) {
                prop_assert!(line.width() <= width, "{line:?}");
            }
        }
    }
}
