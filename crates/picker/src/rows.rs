//! The rows of the list.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use rethread_render::{Style as Role, format_count, truncate};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::item::{ItemContent, PickerItem};
use crate::look::PickerLook;

/// The widths of the columns for a width of the list; 0 hides a column.
///
/// Columns give way to the title in this order: branches, turns, time, project. The order of the rows tells the time, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowColumns {
    title: u16,
    project: u16,
    branches: u16,
    turns: u16,
    time: u16,
}

/// The width of the mark before the title.
const MARK: u16 = 2;
/// The space between columns.
const GAP: u16 = 2;
impl RowColumns {
    /// Chooses the columns for a width; `project` is the width of the longest name of a project, or 0.
    pub(crate) fn new(width: u16, project: u16) -> Self {
        let widest_project = if width < 70 { 12 } else { 16 };
        let project = if project == 0 { 0 } else { project.clamp(7, widest_project) };
        let mut columns = Self { title: 0, project, branches: 8, turns: 5, time: 11 };
        // Each column is hidden if the title would be narrower than this.
        if columns.title_room(width) < 40 {
            columns.branches = 0;
        }
        if columns.title_room(width) < 30 {
            columns.turns = 0;
        }
        if columns.title_room(width) < 24 && columns.project > 0 {
            columns.time = 0;
        }
        if columns.title_room(width) < 16 {
            columns.project = 0;
        }
        if columns.title_room(width) < 16 {
            columns.time = 0;
        }
        columns.title = columns.title_room(width);
        columns
    }

    /// Returns the room that the other columns leave for the title.
    fn title_room(&self, width: u16) -> u16 {
        let others = [self.project, self.branches, self.turns, self.time];
        let used: u16 = others.iter().filter(|width| **width > 0).map(|width| width + GAP).sum();
        width.saturating_sub(MARK + used)
    }

    /// Draws the heads of the columns.
    pub(crate) fn draw_head(&self, area: Rect, look: &PickerLook, buffer: &mut Buffer) {
        let dim = look.style(Role::Dim);
        let texts = ["TITLE", "PROJECT", "BRANCHES", "TURNS", "WHEN"].map(|text| (text, dim));
        self.draw(area, texts, buffer);
    }

    /// Draws a row. `matched` are the numbers of the characters that match the query, in the title and the project.
    pub(crate) fn draw_row(
        &self,
        area: Rect,
        item: &PickerItem,
        matched: &[u32],
        is_selected: bool,
        look: &PickerLook,
        buffer: &mut Buffer,
    ) {
        let dim = look.style(Role::Dim);
        let (turns, branches, title_style) = match &item.content {
            ItemContent::Session(summary) => (
                format_count(summary.turns),
                if summary.paths > 1 { format_count(summary.paths) } else { String::new() },
                if summary.is_named || is_selected { look.style(Role::Title) } else { Style::new() },
            ),
            ItemContent::Unreadable => ("?".to_owned(), String::new(), look.style(Role::Error)),
            _ => (String::new(), String::new(), dim),
        };
        let when = look.display.format_ago(item.modified);
        let meta = if is_selected { Style::new() } else { dim };
        self.draw(
            area,
            [
                (item.title(), title_style),
                (&item.project, look.style(Role::Abandoned)),
                (&branches, look.style(Role::Active)),
                (&turns, meta),
                (&when, meta),
            ],
            buffer,
        );
        self.highlight(area, item, matched, look, buffer);
        let mark = match &item.content {
            ItemContent::Session(summary) if summary.is_live => Some(("●", Role::Active)),
            ItemContent::Session(summary) if summary.is_harmed => Some(("!", Role::Error)),
            _ => None,
        };
        if let Some((mark, role)) = mark {
            buffer.set_string(area.x + 1, area.y, mark, look.style(role));
        }
        if is_selected {
            buffer.set_string(area.x, area.y, "▌", look.cursor());
            buffer.set_style(area, Style::new().add_modifier(Modifier::BOLD).remove_modifier(Modifier::DIM));
        }
    }

    /// Draws the cells: title, project, branches, turns, time.
    fn draw(&self, area: Rect, cells: [(&str, Style); 5], buffer: &mut Buffer) {
        let widths = [self.title, self.project, self.branches, self.turns, self.time];
        let mut x = area.x + MARK;
        for (at, ((text, style), width)) in cells.into_iter().zip(widths).enumerate() {
            if width == 0 {
                continue;
            }
            let text = truncate(text, usize::from(width));
            let is_number = at > 1;
            let pad = if is_number { usize::from(width).saturating_sub(text.width()) } else { 0 };
            let start = x + u16::try_from(pad).unwrap_or(0);
            buffer.set_stringn(start, area.y, &text, usize::from(width) - pad, style);
            x += width + GAP;
        }
    }

    /// Marks the characters that match the query.
    fn highlight(
        &self,
        area: Rect,
        item: &PickerItem,
        matched: &[u32],
        look: &PickerLook,
        buffer: &mut Buffer,
    ) {
        let title_x = area.x + MARK;
        let title = item.title();
        let starts =
            [(title, title_x, self.title), (&item.project, title_x + self.title + GAP, self.project)];
        let mut number = 0u32;
        for (text, start, width) in starts {
            let mut column = 0;
            for grapheme in text.graphemes(true) {
                let wide = u16::try_from(grapheme.width()).unwrap_or(0);
                // The last column may show an ellipsis.
                let is_visible =
                    column + wide < width || column + wide == width && text.width() <= usize::from(width);
                if is_visible && matched.binary_search(&number).is_ok() {
                    let cell = Rect::new(start + column, area.y, wide.max(1), 1).intersection(area);
                    buffer.set_style(cell, look.matched());
                }
                column = column.saturating_add(wide);
                number += 1;
            }
            // The space between title and project.
            number += 1;
        }
    }
}
