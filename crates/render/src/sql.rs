//! Rows of a query, as a table that fits the terminal, or as CSV.

use std::io::{self, Write};

use rethread_model::{SqlRowWriter, SqlValue};
use unicode_width::UnicodeWidthStr;

use crate::text::{DisplayOptions, Style, pad, pad_left, truncate};

/// The rows that decide how wide columns are. Later rows are cut to these widths on a terminal.
const MEASURED_ROWS: usize = 500;

/// The largest width to which a column is padded if the width of lines is not limited.
const MAX_PADDING: usize = 80;

/// The smallest width of a column.
const MIN_WIDTH: usize = 4;

/// The space between columns.
const GAP: &str = "  ";

/// The longest part of a value that a table shows.
const MAX_CELL: usize = 2000;

/// Writes rows as a table. Numbers are on the right; values that are too long are cut on a terminal.
pub struct SqlTable<'w> {
    out: &'w mut dyn Write,
    look: &'w DisplayOptions,
    names: Vec<String>,
    widths: Vec<usize>,
    waiting: Vec<Vec<Cell>>,
    is_measured: bool,
    /// The number of rows that were written.
    pub rows: u64,
    /// The number of columns at the end for which there was no room.
    pub hidden_columns: usize,
}

struct Cell {
    text: String,
    is_number: bool,
    is_null: bool,
}

impl<'w> SqlTable<'w> {
    /// Creates a table.
    pub fn new(out: &'w mut dyn Write, look: &'w DisplayOptions) -> Self {
        let (names, widths, waiting) = (Vec::new(), Vec::new(), Vec::new());
        Self { out, look, names, widths, waiting, is_measured: false, rows: 0, hidden_columns: 0 }
    }

    fn cell(&self, value: SqlValue<'_>) -> Cell {
        let is_number = matches!(value, SqlValue::Integer(_) | SqlValue::Real(_));
        let text = match value {
            SqlValue::Null => "NULL".to_owned(),
            SqlValue::Integer(number) => number.to_string(),
            SqlValue::Real(number) => number_text(number),
            SqlValue::Text(text) => self.look.sanitize_line(&text[..text.floor_char_boundary(MAX_CELL)]),
            SqlValue::Blob(bytes) => hex(&bytes[..bytes.len().min(MAX_CELL)]),
        };
        Cell { text, is_number, is_null: value == SqlValue::Null }
    }

    /// Chooses the widths of the columns and writes what has waited for them.
    fn measure(&mut self) -> io::Result<()> {
        self.is_measured = true;
        self.widths = (0..self.names.len())
            .map(|at| {
                let cells = self.waiting.iter().map(|row| row[at].text.width());
                cells.chain([self.names[at].width()]).max().unwrap_or(0)
            })
            .collect();
        match self.look.width {
            None => self.widths.iter_mut().for_each(|width| *width = (*width).min(MAX_PADDING)),
            Some(width) => fit(&mut self.widths, width),
        }
        self.hidden_columns = self.names.len() - self.widths.len();
        if self.names.is_empty() {
            return Ok(());
        }
        let head = |(at, name): (usize, &String)| Cell {
            text: name.clone(),
            is_number: self.waiting.iter().any(|row| row[at].is_number),
            is_null: false,
        };
        let head: Vec<Cell> = self.names.iter().enumerate().map(head).collect();
        self.write_row(&head, Some(Style::Dim))?;
        for row in std::mem::take(&mut self.waiting) {
            self.write_row(&row, None)?;
        }
        Ok(())
    }

    fn write_row(&mut self, row: &[Cell], style: Option<Style>) -> io::Result<()> {
        let mut line = String::new();
        for (at, (cell, &width)) in row.iter().zip(&self.widths).enumerate() {
            let cut = match self.look.width {
                Some(_) => truncate(&cell.text, width),
                None => cell.text.clone(),
            };
            let is_last = at + 1 == self.widths.len();
            let aligned = match cell.is_number {
                true => pad_left(&cut, width),
                false if is_last => cut,
                false => pad(&cut, width),
            };
            let style = style.unwrap_or(if cell.is_null { Style::Dim } else { Style::Plain });
            line += &self.look.paint(style, aligned);
            line += if is_last { "" } else { GAP };
        }
        writeln!(self.out, "{}", line.trim_end())
    }
}

impl SqlRowWriter for SqlTable<'_> {
    fn columns(&mut self, names: &[String]) -> io::Result<()> {
        self.names = names.iter().map(|name| self.look.sanitize_line(name)).collect();
        Ok(())
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> io::Result<()> {
        self.rows += 1;
        let row: Vec<Cell> = values.iter().map(|value| self.cell(*value)).collect();
        if self.is_measured {
            return self.write_row(&row, None);
        }
        self.waiting.push(row);
        if self.waiting.len() == MEASURED_ROWS { self.measure() } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        if self.is_measured { Ok(()) } else { self.measure() }
    }
}

/// Narrows the widest columns until all fit into a width, and drops those at the end that have no room at all.
fn fit(widths: &mut Vec<usize>, available: usize) {
    let used = |widths: &[usize]| widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
    widths.iter_mut().for_each(|width| *width = (*width).min(available));
    while used(widths) > available {
        let (at, widest) =
            widths.iter().copied().enumerate().max_by_key(|(_, width)| *width).unwrap_or_default();
        if widest > MIN_WIDTH {
            widths[at] -= 1;
        } else if widths.pop().is_none() {
            return;
        }
    }
}

/// Writes rows as CSV (RFC 4180): a header, lines that end in CR LF, quotes where they are needed. NULL is empty, an
/// empty text is `""`, bytes are hexadecimal.
///
/// Values are written as they are, also texts that a spreadsheet takes for formulas; only on a terminal are control
/// characters escaped.
pub struct SqlCsv<'w> {
    out: &'w mut dyn Write,
    look: &'w DisplayOptions,
    /// The number of rows that were written.
    pub rows: u64,
}

impl<'w> SqlCsv<'w> {
    /// Creates a writer.
    pub fn new(out: &'w mut dyn Write, look: &'w DisplayOptions) -> Self {
        Self { out, look, rows: 0 }
    }

    fn text(&self, text: &str) -> String {
        let text = self.look.sanitize(text);
        let needs_quotes = text.is_empty() || text.contains(['"', ',', '\r', '\n']);
        if needs_quotes { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into_owned() }
    }

    fn line(&mut self, fields: &[String]) -> io::Result<()> {
        // A line of one empty field would be an empty line, which readers skip.
        match fields {
            [one] if one.is_empty() => write!(self.out, "\"\"\r\n"),
            _ => write!(self.out, "{}\r\n", fields.join(",")),
        }
    }
}

impl SqlRowWriter for SqlCsv<'_> {
    fn columns(&mut self, names: &[String]) -> io::Result<()> {
        let fields: Vec<String> = names.iter().map(|name| self.text(name)).collect();
        self.line(&fields)
    }

    fn row(&mut self, values: &[SqlValue<'_>]) -> io::Result<()> {
        self.rows += 1;
        let fields: Vec<String> = values
            .iter()
            .map(|value| match value {
                SqlValue::Null => String::new(),
                SqlValue::Integer(number) => number.to_string(),
                SqlValue::Real(number) => number_text(*number),
                SqlValue::Text(text) => self.text(text),
                SqlValue::Blob(bytes) => hex(bytes),
            })
            .collect();
        self.line(&fields)
    }

    fn end(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns a number so that it is recognised as one that need not be whole.
fn number_text(number: f64) -> String {
    format!("{number:?}")
}

/// Returns bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(writer: &mut dyn SqlRowWriter) {
        let names = ["id", "title", "n"].map(str::to_owned);
        writer.columns(&names).expect("written");
        let texts = ["a, \"b\"\r\nc", "", "=1+1", "red \u{1b}[31m \u{202e}x", "漢字"];
        for (n, text) in texts.into_iter().enumerate() {
            let number = if n == 2 { SqlValue::Real(0.5) } else { SqlValue::Integer(10_i64.pow(n as u32)) };
            writer.row(&[SqlValue::Blob(&[n as u8, 255]), SqlValue::Text(text), number]).expect("written");
        }
        writer.row(&[SqlValue::Null, SqlValue::Null, SqlValue::Null]).expect("written");
        writer.end().expect("written");
    }

    fn look(width: Option<usize>) -> DisplayOptions {
        let now = "2026-03-10T12:00:00Z".parse().expect("a time");
        DisplayOptions { width, escape: width.is_some(), ..DisplayOptions::plain(now) }
    }

    fn table(width: Option<usize>) -> String {
        let mut out = Vec::new();
        rows(&mut SqlTable::new(&mut out, &look(width)));
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn table_fits_the_terminal() {
        for width in [1, 3, 8, 12, 20, 40, 80] {
            for line in table(Some(width)).lines() {
                assert!(line.width() <= width, "{width}: {line}");
            }
        }
        insta::assert_snapshot!(table(Some(30)), @r#"
        id    title                  n
        00ff  a, "b" c               1
        01ff                        10
        02ff  =1+1                 0.5
        03ff  red \x1b[31m \u{…   1000
        04ff  漢字               10000
        NULL  NULL               NULL
        "#);
    }

    #[test]
    fn csv_follows_the_standard() {
        let mut out = Vec::new();
        rows(&mut SqlCsv::new(&mut out, &look(None)));
        let text = String::from_utf8(out).expect("text");
        assert_eq!(
            text,
            "id,title,n\r\n00ff,\"a, \"\"b\"\"\r\nc\",1\r\n01ff,\"\",10\r\n02ff,=1+1,0.5\r\n\
             03ff,red \u{1b}[31m \u{202e}x,1000\r\n04ff,漢字,10000\r\n,,\r\n"
        );
        let mut out = Vec::new();
        rows(&mut SqlCsv::new(&mut out, &look(Some(80))));
        assert!(!String::from_utf8(out).expect("text").contains('\u{1b}'));
    }
}
