//! Tables: columns side by side if they fit, with wrapped cells, or else one record after the other.

use anstyle::Style as Ansi;
use pulldown_cmark::Alignment;

use super::line::StyledLine;
use super::wrap::{shorten, wrap};
use crate::text::Style;

/// The smallest width to which a column is reduced.
const MIN_COLUMN: usize = 8;
/// The columns between two columns of a table: ` │ `.
const GAP: usize = 3;

/// A table that is being read.
pub(super) struct ProseTable {
    alignments: Vec<Alignment>,
    /// The rows; the first one is the heading.
    rows: Vec<Vec<StyledLine>>,
    row: Vec<StyledLine>,
}

impl ProseTable {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new() }
    }

    pub(super) fn add_cell(&mut self, cell: StyledLine) {
        self.row.push(cell);
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// Returns the lines of the table, none of which is wider than `room`.
    pub(super) fn lines(&self, room: usize) -> Vec<StyledLine> {
        match self.column_widths(room) {
            Some(widths) => self.grid(&widths),
            None => self.records(room),
        }
    }

    /// Returns the width of each column; `None` if they do not fit side by side.
    fn column_widths(&self, room: usize) -> Option<Vec<usize>> {
        let mut widths = vec![1; self.alignments.len()];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.width().max(*width);
            }
        }
        let room = room.checked_sub(GAP * widths.len().saturating_sub(1))?;
        if widths.iter().sum::<usize>() <= room {
            return Some(widths);
        }
        let limit = widest_column(&widths, room)?;
        // Columns left over by the division go to the first reduced ones.
        let mut spare = room - widths.iter().map(|&width| width.min(limit)).sum::<usize>();
        for width in &mut widths {
            let reduced = (*width).min(limit + usize::from(spare > 0));
            spare -= reduced.saturating_sub(limit);
            *width = reduced;
        }
        Some(widths)
    }

    fn grid(&self, widths: &[usize]) -> Vec<StyledLine> {
        let rows: Vec<Vec<StyledLine>> = self.rows.iter().map(|row| self.row_lines(row, widths)).collect();
        // Rows of several lines are separated from each other.
        let is_ruled = rows.iter().skip(1).any(|lines| lines.len() > 1);
        let rule = widths.iter().map(|&width| "─".repeat(width)).collect::<Vec<_>>().join("─┼─");
        let rule = StyledLine::new(&rule, Style::Dim.ansi());
        let mut lines = Vec::new();
        for (i, row) in rows.into_iter().enumerate() {
            if i == 1 || i > 1 && is_ruled {
                lines.push(rule.clone());
            }
            lines.extend(row);
        }
        lines
    }

    /// Returns the lines of a row.
    fn row_lines(&self, row: &[StyledLine], widths: &[usize]) -> Vec<StyledLine> {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, &width)| wrap(cell.text(), width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(1);
        let line = |i: usize| {
            let mut line = StyledLine::default();
            for (column, (cell, parts)) in row.iter().zip(&cells).enumerate() {
                if column > 0 {
                    line.push(" │ ", Style::Dim.ansi());
                }
                let mut part = StyledLine::default();
                if let Some(range) = parts.get(i) {
                    part.push_part(cell, range.clone());
                }
                let free = widths[column].saturating_sub(part.width());
                let left = match self.alignments[column] {
                    Alignment::Right => free,
                    Alignment::Center => free / 2,
                    Alignment::Left | Alignment::None => 0,
                };
                line.push_spaces(left);
                line.push_line(&part);
                if column + 1 < row.len() {
                    line.push_spaces(free - left);
                }
            }
            line
        };
        (0..height).map(line).collect()
    }

    /// Returns each row as a record: one line for each cell, named by the heading of its column.
    fn records(&self, room: usize) -> Vec<StyledLine> {
        let Some((heads, rows)) = self.rows.split_first() else { return Vec::new() };
        let mut lines = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            if i > 0 {
                lines.push(StyledLine::default());
            }
            for (column, cell) in row.iter().enumerate().filter(|(_, cell)| !cell.is_empty()) {
                let mut record = StyledLine::default();
                if let Some(head) = heads.get(column).filter(|head| !head.is_empty()) {
                    // A long heading is not repeated in full for every row.
                    record.push_line(&shorten(head, room / 2));
                    record.push(": ", Ansi::new());
                }
                record.push_line(cell);
                push_hanging(&mut lines, &record, room);
            }
        }
        if rows.is_empty() {
            heads.iter().for_each(|head| push_hanging(&mut lines, head, room));
        }
        lines
    }
}

/// Adds the lines of a text; all but the first are indented.
fn push_hanging(lines: &mut Vec<StyledLine>, text: &StyledLine, room: usize) {
    for (i, part) in wrap(text.text(), room - 2).into_iter().enumerate() {
        let mut line = StyledLine::default();
        line.push_spaces(if i > 0 { 2 } else { 0 });
        line.push_part(text, part);
        lines.push(line);
    }
}

/// Returns the width to which all wider columns are reduced so that the sum is at most `room`.
fn widest_column(widths: &[usize], room: usize) -> Option<usize> {
    let mut sorted = widths.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (i, &width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - i);
        if width > share {
            return (share >= MIN_COLUMN).then_some(share);
        }
        left -= width;
    }
    sorted.last().copied()
}
