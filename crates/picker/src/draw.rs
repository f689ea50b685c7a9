//! Draws the state.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::{Block, Clear, Widget};
use rethread_render::{Style as Role, format_count, truncate};
use unicode_width::UnicodeWidthStr;

use crate::content::ContentMatch;
use crate::keys::{HELP_KEYS, KeyHint, LIST_KEYS, MARKS, PATH_KEYS, PREVIEW_KEYS, QUIT};
use crate::look::replace_non_ascii;
use crate::preview::path_line;
use crate::rows::RowColumns;
use crate::state::{PickerScope, PickerState, PickerView, ScreenAreas};

/// The smallest terminal that the picker is drawn on.
const MIN_SIZE: (u16, u16) = (30, 6);
/// The width from which the preview is next to the list.
const WIDE: u16 = 100;

impl PickerState {
    /// Draws the state.
    pub fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        self.areas = ScreenAreas::default();
        if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
            let text = format!("too small: needs {}x{}", MIN_SIZE.0, MIN_SIZE.1);
            frame.buffer_mut().set_stringn(area.x, area.y, text, usize::from(area.width), Style::new());
            return;
        }
        let footer = Rect { y: area.bottom() - 1, height: 1, ..area };
        let main = Rect { height: area.height - 1, ..area };
        if self.view == PickerView::Preview && area.width < WIDE {
            self.draw_preview(main, frame.buffer_mut());
        } else {
            let list = self.split(main, frame.buffer_mut());
            let cursor = self.draw_list(list, frame.buffer_mut());
            if self.view == PickerView::List {
                frame.set_cursor_position(cursor);
            }
        }
        match self.view {
            PickerView::Paths(chosen) => self.draw_paths(main, chosen, frame.buffer_mut()),
            PickerView::Keys => self.draw_keys(main, frame.buffer_mut()),
            _ => {}
        }
        self.draw_footer(footer, frame.buffer_mut());
        if self.look.ascii {
            replace_non_ascii(frame.buffer_mut());
        }
    }

    /// Draws the preview next to the list on a wide terminal. Returns the area of the list.
    fn split(&mut self, area: Rect, buffer: &mut Buffer) -> Rect {
        if area.width < WIDE {
            return area;
        }
        let width = (area.width * 9 / 20).clamp(46, 76);
        let line = Rect { x: area.x + width, width: 1, ..area };
        let style =
            if self.view == PickerView::Preview { self.look.cursor() } else { self.look.style(Role::Dim) };
        for y in line.y..line.bottom() {
            buffer.set_string(line.x, y, "│", style);
        }
        let left = line.right() + 1;
        self.draw_preview(Rect { x: left, width: area.right() - left - 1, ..area }, buffer);
        Rect { width, ..area }
    }

    /// Draws the query and the rows. Returns the position of the cursor.
    fn draw_list(&mut self, area: Rect, buffer: &mut Buffer) -> Position {
        let cursor = self.draw_query(Rect { height: 1, ..area }, buffer);
        let project = if self.scope == PickerScope::All { self.project_width } else { 0 };
        let columns = RowColumns::new(area.width.saturating_sub(1), project);
        columns.draw_head(Rect { y: area.y + 1, height: 1, ..area }, &self.look, buffer);
        let rows = Rect { y: area.y + 2, height: area.height - 2, ..area };
        self.areas.rows = rows;
        self.scroll_to_selection(usize::from(rows.height));
        if self.matches.is_empty() {
            self.draw_nothing(rows, buffer);
        }
        let mut matched = Vec::new();
        let mut y = rows.y;
        for position in self.top..self.matches.len() {
            if y >= rows.bottom() {
                break;
            }
            let at = self.matches[position] as usize;
            let is_selected = position == self.selected;
            match self.filter.is_match(at) {
                true => self.filter.matched_chars(at, &mut matched),
                false => matched.clear(),
            }
            let row = Rect { y, height: 1, ..rows };
            columns.draw_row(row, &self.items[at], &matched, is_selected, &self.look, buffer);
            self.areas.positions.push(position);
            y += 1;
            if y < rows.bottom()
                && let Some(line) = self.search.line_of(at)
            {
                line.draw(Rect { y, width: rows.width.saturating_sub(1), ..row }, &self.look, buffer);
                if is_selected {
                    buffer.set_string(rows.x, y, "▌", self.look.cursor());
                }
                self.areas.positions.push(position);
                y += 1;
            }
        }
        cursor
    }

    /// Sets the first visible session so that the selected one is visible and the screen is full.
    fn scroll_to_selection(&mut self, height: usize) {
        let lowest = self.first_above(self.selected, height);
        let last_top = self.first_above(self.matches.len().saturating_sub(1), height);
        self.top = self.top.clamp(lowest, self.selected.max(lowest)).min(last_top);
    }

    /// Returns the first session from which a number of lines suffices to show the one at a position. The second line
    /// of a session that is alone on the screen may be missing.
    fn first_above(&self, position: usize, height: usize) -> usize {
        let mut first = position;
        let mut used = 0;
        for (at, &item) in self.matches.iter().enumerate().take(position + 1).rev() {
            used += 1 + usize::from(self.search.line_of(item as usize).is_some());
            if used > height {
                break;
            }
            first = at;
        }
        first
    }

    fn draw_query(&self, area: Rect, buffer: &mut Buffer) -> Position {
        let look = &self.look;
        let all = self.items.len() - self.n_skipped;
        let matching = self.matches.len();
        let scope = match &self.scope {
            PickerScope::All => "all projects".to_owned(),
            PickerScope::Project(name) => look.line(name),
        };
        let scope = truncate(&scope, usize::from(area.width / 3));
        let counts = match self.query.text().trim().is_empty() {
            true => format_count(all as u64),
            false => format!("{} of {}", format_count(matching as u64), format_count(all as u64)),
        };
        let right = format!("{counts} · {scope}");
        let right_width = u16::try_from(right.width()).unwrap_or(u16::MAX).min(area.width);
        let right_x = area.right().saturating_sub(right_width + 1);
        buffer.set_string(area.x + 1, area.y, "›", look.cursor());
        let room = right_x.saturating_sub(area.x + 5);
        let text = self.query.text();
        // A long query scrolls so that the cursor is visible.
        let before = self.query.before_cursor();
        let hidden = before.width().saturating_sub(usize::from(room));
        let start = skip_columns(text, hidden);
        let x = area.x + 3;
        if text.is_empty() {
            let words = "type to filter";
            buffer.set_stringn(x, area.y, words, usize::from(room), look.style(Role::Dim));
        }
        buffer.set_stringn(x, area.y, &text[start..], usize::from(room), Style::new());
        buffer.set_stringn(right_x, area.y, &right, usize::from(right_width), look.style(Role::Dim));
        let column = before.get(start..).map_or(0, UnicodeWidthStr::width);
        Position::new(x + u16::try_from(column).unwrap_or(0).min(room), area.y)
    }

    fn draw_nothing(&self, area: Rect, buffer: &mut Buffer) {
        let lines = match (&self.scope, self.query.text().trim().is_empty()) {
            _ if self.is_searching() => ["No title matches; searching the messages…", ""],
            (PickerScope::Project(_), false) => ["No session matches.", "Tab searches all projects."],
            (PickerScope::All, false) => ["No session matches.", ""],
            (PickerScope::Project(_), true) => ["No conversations.", "Tab lists all projects."],
            (PickerScope::All, true) => ["No conversations.", ""],
        };
        let room = usize::from(area.width.saturating_sub(3));
        for (y, text) in (area.y..area.bottom()).zip(lines) {
            buffer.set_stringn(area.x + 2, y, text, room, self.look.style(Role::Dim));
        }
    }

    fn draw_preview(&mut self, area: Rect, buffer: &mut Buffer) {
        self.areas.preview = area;
        let width = usize::from(area.width);
        let selected = self.selected_item();
        let Some(at) = selected.filter(|at| self.is_preview_of(*at)) else {
            if let Some(at) = selected {
                let title = truncate(self.items[at].title(), width);
                buffer.set_stringn(area.x, area.y, title, width, self.look.style(Role::Title));
            }
            return;
        };
        match &self.preview.content {
            Some(Ok(preview)) if self.preview.lines.0 != width || self.preview.lines.1.is_empty() => {
                let texts = self.search.of(at).into_iter().flat_map(ContentMatch::matched_texts);
                let (lines, hit) = preview.lines(&self.look, width, &texts.collect::<Vec<_>>());
                if std::mem::take(&mut self.preview.is_new) {
                    // A hit that is not visible without scrolling comes into the upper half.
                    let height = usize::from(area.height);
                    let hit = hit.filter(|&hit| hit + height / 4 > height);
                    self.preview.scroll = hit.map_or(0, |hit| hit - height / 3);
                }
                self.preview.lines = (width, lines);
            }
            Some(Err(reason)) => {
                let lines = [self.items[at].title(), "", reason].map(|text| Line::raw(truncate(text, width)));
                self.preview.lines = (width, lines.to_vec());
            }
            _ => {}
        }
        let lines = &self.preview.lines.1;
        let height = usize::from(area.height);
        self.preview.scroll = self.preview.scroll.min(lines.len().saturating_sub(height));
        for (y, line) in (area.y..area.bottom()).zip(lines.iter().skip(self.preview.scroll)) {
            buffer.set_line(area.x, y, line, area.width);
        }
    }

    /// Draws the paths of the selected session, for cloning one.
    fn draw_paths(&self, area: Rect, chosen: usize, buffer: &mut Buffer) {
        let paths = self.selected_preview().map(|preview| &preview.paths[..]).unwrap_or_default();
        let rows = u16::try_from(paths.len()).unwrap_or(u16::MAX).clamp(1, area.height.saturating_sub(2));
        let inner = draw_box(area, (76, rows), "Clone a path into a new session", self, buffer);
        if paths.is_empty() {
            let text = match &self.preview.content {
                Some(Ok(_)) => "no conversation to clone",
                Some(Err(reason)) => reason,
                None => "reading the session…",
            };
            buffer.set_stringn(inner.x, inner.y, text, usize::from(inner.width), self.look.style(Role::Dim));
            return;
        }
        let top = (chosen + 1).saturating_sub(usize::from(rows));
        for (y, (at, path)) in (inner.y..inner.bottom()).zip(paths.iter().enumerate().skip(top)) {
            let line = path_line(path, &self.look, usize::from(inner.width.saturating_sub(2)));
            buffer.set_line(inner.x + 2, y, &line, inner.width.saturating_sub(2));
            if at == chosen {
                buffer.set_string(inner.x, y, "▌", self.look.cursor());
                let row = Rect { y, height: 1, ..inner };
                buffer.set_style(row, Style::new().add_modifier(ratatui::style::Modifier::BOLD));
            }
        }
    }

    fn draw_keys(&self, area: Rect, buffer: &mut Buffer) {
        let rows = u16::try_from(LIST_KEYS.len() + MARKS.len()).unwrap_or(u16::MAX);
        let inner = draw_box(area, (76, rows), "Keys", self, buffer);
        let room = usize::from(inner.width.saturating_sub(8));
        for (y, hint) in (inner.y..inner.bottom()).zip(LIST_KEYS.iter().chain(&MARKS)) {
            buffer.set_stringn(inner.x, y, hint.key, 7, self.look.style(Role::Id));
            buffer.set_stringn(inner.x + 8, y, truncate(hint.long, room), room, Style::new());
        }
    }

    fn draw_footer(&self, area: Rect, buffer: &mut Buffer) {
        let look = &self.look;
        let right = match (self.n_unread, self.n_skipped) {
            _ if self.search.indexing.is_some() => {
                format!("indexing {} %", self.search.indexing.unwrap_or_default())
            }
            (0, 0) => String::new(),
            (0, n) => format!("{} hidden", format_count(n as u64)),
            (n, _) => format!("{} to read", format_count(n as u64)),
        };
        let right_width = u16::try_from(right.width()).unwrap_or(0);
        let right_x = area.right().saturating_sub(right_width + 1);
        let end = if let Some(status) = &self.status {
            let room = usize::from(area.width.saturating_sub(2));
            buffer.set_stringn(area.x + 1, area.y, truncate(status, room), room, look.style(Role::Title));
            return;
        } else {
            let hints: &[KeyHint] = match self.view {
                PickerView::List => &LIST_KEYS,
                PickerView::Preview => &PREVIEW_KEYS,
                PickerView::Paths(_) => &PATH_KEYS,
                PickerView::Keys => &HELP_KEYS,
            };
            self.draw_hints(area, right_x, hints, buffer)
        };
        if end <= right_x {
            buffer.set_stringn(right_x, area.y, right, usize::from(right_width), look.style(Role::Dim));
        }
    }

    /// Draws as many hints as fit. Returns the column after them.
    fn draw_hints(&self, area: Rect, limit: u16, hints: &[KeyHint], buffer: &mut Buffer) -> u16 {
        let mut x = area.x + 1;
        // A letter is a part of the query once there is one.
        let is_typing = self.view == PickerView::List && !self.query.text().is_empty();
        for hint in hints.iter().filter(|hint| !(is_typing && hint.key == QUIT)) {
            let width = hint.key.width() + 1 + hint.short.width();
            if usize::from(x) + width + 2 > usize::from(limit) {
                break;
            }
            let (after, _) = buffer.set_stringn(x, area.y, hint.key, 20, self.look.style(Role::Id));
            let (after, _) =
                buffer.set_stringn(after + 1, area.y, hint.short, 30, self.look.style(Role::Dim));
            x = after + 2;
        }
        x
    }
}

/// Clears a box in the middle of an area and draws its border. Returns the area inside.
fn draw_box(area: Rect, size: (u16, u16), title: &str, state: &PickerState, buffer: &mut Buffer) -> Rect {
    let width = (size.0 + 4).min(area.width);
    let height = (size.1 + 2).min(area.height);
    let outer =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    Clear.render(outer, buffer);
    let block = Block::bordered().border_style(state.look.style(Role::Dim)).title(format!(" {title} "));
    let inner = block.inner(outer);
    block.render(outer, buffer);
    Rect { x: inner.x + 1, width: inner.width.saturating_sub(2), ..inner }
}

/// Returns the position in a text after at least this number of columns.
fn skip_columns(text: &str, columns: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        if used >= columns {
            return at;
        }
        used += unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
    }
    text.len()
}
