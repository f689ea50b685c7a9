//! The state of the picker, and its reaction to events.

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use rethread::SessionSummary;

use crate::content::{ContentMatch, ContentSearch, HitKey};
use crate::filter::SessionFilter;
use crate::item::{ItemContent, PickerItem};
use crate::look::PickerLook;
use crate::preview::SessionPreview;
use crate::query::QueryLine;

/// An action that the program runs. Sessions are numbered as the items that were passed to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PickerAction {
    /// Resume the session and leave.
    Resume(usize),
    /// Show the conversation, or one of its paths.
    Show(usize, Option<usize>),
    /// Show the conversation at the hit of [`PickerState::content_match`].
    ShowHit(usize),
    /// Draw the branches.
    Tree(usize),
    /// Clone the path with this number into a new session.
    ClonePath(usize, usize),
    /// Export the session.
    Export(usize),
    /// Check whether the session will resume.
    Check(usize),
    /// Copy the id to the clipboard.
    CopyId(usize),
    /// Print the id and leave.
    PrintId(usize),
    /// List the sessions of the other scope.
    SwitchScope,
    /// Suspend the program.
    Suspend,
    /// Draw everything again.
    Redraw,
    /// Leave.
    Quit,
}

/// The sessions in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PickerScope {
    /// Those of the project with this name.
    Project(String),
    /// Those of all projects.
    All,
}

/// The part of the screen that keys apply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PickerView {
    List,
    Preview,
    /// The choice of a path to clone, and its position.
    Paths(usize),
    Keys,
}

/// The preview of the selected session.
#[derive(Debug, Default)]
pub(crate) struct PreviewPane {
    /// The session that was requested or is shown.
    pub(crate) at: Option<usize>,
    /// The hit that it was requested for.
    hit: Option<HitKey>,
    /// The width that it was requested for.
    requested_width: u16,
    /// It was requested and has not arrived.
    is_pending: bool,
    /// The preview, or the reason why there is none.
    pub(crate) content: Option<Result<SessionPreview, String>>,
    pub(crate) scroll: usize,
    /// It has not been drawn, so it is scrolled to the hit when it is.
    pub(crate) is_new: bool,
    /// The formatted preview and the width that it was formatted for.
    pub(crate) lines: (usize, Vec<Line<'static>>),
}

/// The areas of the last frame, for the mouse.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScreenAreas {
    pub(crate) rows: Rect,
    /// The position of the session on each line of `rows`; a session with a hit has two lines.
    pub(crate) positions: Vec<usize>,
    pub(crate) preview: Rect,
}

/// The picker. See the [crate](crate) for an example.
#[derive(Debug)]
pub struct PickerState {
    pub(crate) look: PickerLook,
    pub(crate) scope: PickerScope,
    pub(crate) items: Vec<PickerItem>,
    pub(crate) filter: SessionFilter,
    pub(crate) search: ContentSearch,
    /// The numbers of the listed sessions: those whose titles match, then those whose contents do.
    pub(crate) matches: Vec<u32>,
    pub(crate) query: QueryLine,
    /// The position of the selected session among the matches.
    pub(crate) selected: usize,
    /// The position of the first visible row.
    pub(crate) top: usize,
    pub(crate) view: PickerView,
    pub(crate) preview: PreviewPane,
    pub(crate) areas: ScreenAreas,
    pub(crate) status: Option<String>,
    pub(crate) n_skipped: usize,
    pub(crate) n_unread: usize,
    /// The width of the longest name of a project.
    pub(crate) project_width: u16,
    /// The selection was moved, so it stays on its session when the list changes.
    has_moved: bool,
    selected_since: Option<Instant>,
    last_click: Option<(Instant, usize)>,
}

/// Time for which a session must be selected before its preview is read.
const PREVIEW_DELAY: Duration = Duration::from_millis(60);
/// The width of a preview that is not on the screen.
const DEFAULT_WIDTH: usize = 76;
/// Maximum time between the clicks of a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);
/// Rows that a turn of the wheel moves.
const WHEEL_ROWS: isize = 3;

impl PickerState {
    /// Creates the state for logs that are sorted newest first.
    pub fn new(look: PickerLook, scope: PickerScope, items: Vec<PickerItem>) -> Self {
        let mut state = Self {
            filter: SessionFilter::new(&items, ""),
            look,
            scope,
            items,
            search: ContentSearch::default(),
            matches: Vec::new(),
            query: QueryLine::default(),
            selected: 0,
            top: 0,
            view: PickerView::List,
            preview: PreviewPane::default(),
            areas: ScreenAreas::default(),
            status: None,
            n_skipped: 0,
            n_unread: 0,
            project_width: 0,
            has_moved: false,
            selected_since: None,
            last_click: None,
        };
        state.count_items();
        state.collect_matches();
        state
    }

    /// Replaces the list, after a change of scope or of the files. Query and, if still listed, selection are kept.
    pub fn replace(&mut self, scope: PickerScope, items: Vec<PickerItem>) {
        let id = self.selected_item().map(|at| self.items[at].id.clone());
        self.filter = SessionFilter::new(&items, self.query.text());
        self.search.renumber(&self.items, &items);
        self.search.restart();
        self.scope = scope;
        self.items = items;
        self.preview = PreviewPane::default();
        self.count_items();
        self.collect_matches();
        let is_same = |at: &u32| Some(&self.items[*at as usize].id) == id.as_ref();
        let position = self.matches.iter().position(is_same);
        self.selected = position.filter(|_| self.has_moved).unwrap_or(0);
        self.selected_since = None;
        self.view = PickerView::List;
    }

    /// Returns the items; those of a list that replaces this one may be taken from here.
    pub fn items(&self) -> &[PickerItem] {
        &self.items
    }

    /// Returns the numbers of the sessions that match the query: by title, then by content only, each best first.
    pub fn matching(&self) -> &[u32] {
        &self.matches
    }

    /// Returns the scope of the list.
    pub fn scope(&self) -> &PickerScope {
        &self.scope
    }

    /// Shows a message until the next key.
    pub fn set_status(&mut self, text: &str) {
        self.status = Some(self.look.line(text));
    }

    /// Adds summaries that were read: `Ok(None)` for a log that is not listed, `Err` for one that cannot be read.
    pub fn add_summaries<E>(
        &mut self,
        read: impl IntoIterator<Item = (usize, Result<Option<SessionSummary>, E>)>,
    ) {
        let selected = self.selected_item();
        let mut changed = Vec::new();
        for (at, summary) in read {
            let Some(item) = self.items.get_mut(at).filter(|item| item.is_unread()) else { continue };
            match summary {
                Ok(summary) => item.set_summary(summary.as_ref(), &self.look),
                Err(_) => item.content = ItemContent::Unreadable,
            }
            self.n_unread -= 1;
            self.n_skipped += usize::from(!item.is_listed());
            self.project_width = self.project_width.max(project_width(item));
            changed.push(at);
        }
        if changed.is_empty() {
            return;
        }
        self.filter.update(changed, &self.items);
        if self.n_unread == 0 {
            // The time of a file may differ from that of its last entry, for example after copying.
            self.filter.sort_by_time(&self.items);
        }
        self.follow(selected);
    }

    /// Returns the query for which the contents of all sessions should be searched now, once. A short query is not
    /// searched.
    pub fn wanted_search(&mut self) -> Option<String> {
        self.search.wanted(self.query.text())
    }

    /// Sets the sessions that were found by their contents, best first. Results of an earlier query are dropped.
    pub fn set_search_results(&mut self, query: &str, found: impl IntoIterator<Item = ContentMatch>) {
        if self.query.text().trim() != query.trim() {
            return;
        }
        let selected = self.selected_item();
        let n_items = self.items.len();
        self.search.set_found(found.into_iter().filter(|found| found.at < n_items), &self.look);
        // The matches in it have changed.
        self.preview.lines = Default::default();
        self.follow(selected);
    }

    /// Sets how much of the first index has been built, in percent; `None` if none is being built. Returns whether this
    /// has changed.
    pub fn set_indexing(&mut self, percent: Option<u8>) -> bool {
        std::mem::replace(&mut self.search.indexing, percent) != percent
    }

    /// Returns the best hit in the contents of a session.
    pub fn content_match(&self, at: usize) -> Option<&ContentMatch> {
        self.search.of(at)
    }

    /// Returns whether the contents are being searched for the current query.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.is_pending(self.query.text())
    }

    /// Adds the preview of a session, or the reason why there is none.
    pub fn add_preview(&mut self, at: usize, preview: Result<SessionPreview, String>) {
        if self.preview.at == Some(at) {
            self.preview.content = Some(preview);
            self.preview.lines = Default::default();
            self.preview.is_pending = false;
            self.preview.is_new = true;
            if matches!(self.view, PickerView::Paths(_)) {
                self.view = PickerView::Paths(self.likely_path());
            }
        }
    }

    /// Returns the visible sessions that have not been read.
    pub fn visible_unread(&self) -> Vec<usize> {
        let rows = usize::from(self.areas.rows.height);
        let visible = self.matches.iter().skip(self.top).take(rows);
        visible.map(|&at| at as usize).filter(|&at| self.items[at].is_unread()).collect()
    }

    /// Returns whether some sessions have not been read.
    pub fn has_unread(&self) -> bool {
        self.n_unread > 0
    }

    /// Returns whether any session is listed, whatever the query.
    pub fn has_sessions(&self) -> bool {
        self.n_skipped < self.items.len()
    }

    /// Returns the session whose preview should be read now, once, and the width of its lines. The preview opens at its
    /// [`content_match`](Self::content_match), if it has one. While the selection moves there is none.
    pub fn wanted_preview(&mut self, now: Instant) -> Option<(usize, usize)> {
        let at = self.selected_item().filter(|_| self.is_preview_shown())?;
        let width = self.areas.preview.width;
        let hit = self.search.of(at).map(ContentMatch::key);
        let is_other = self.preview.at != Some(at);
        if !is_other && hit == self.preview.hit && (width == 0 || width == self.preview.requested_width) {
            return None;
        }
        let since = *self.selected_since.get_or_insert(now);
        if now.saturating_duration_since(since) < PREVIEW_DELAY {
            return None;
        }
        if is_other {
            self.preview = PreviewPane { at: Some(at), ..PreviewPane::default() };
        }
        self.preview.hit = hit;
        self.preview.requested_width = width;
        self.preview.is_pending = true;
        Some((at, if width == 0 { DEFAULT_WIDTH } else { usize::from(width) }))
    }

    /// Returns whether the preview, or a part of it, is on the screen.
    fn is_preview_shown(&self) -> bool {
        self.areas.preview.width > 0 || matches!(self.view, PickerView::Paths(_))
    }

    /// Returns whether something will change without a key: the preview that is about to be read or shown, or the
    /// results of a search.
    pub fn is_waiting(&self) -> bool {
        let is_missing = |at| {
            let hit = self.search.of(at).map(ContentMatch::key);
            !self.is_preview_of(at) || self.preview.is_pending || self.preview.hit != hit
        };
        self.is_searching() || self.is_preview_shown() && self.selected_item().is_some_and(is_missing)
    }

    /// Returns whether the preview of a session has been read.
    pub(crate) fn is_preview_of(&self, at: usize) -> bool {
        self.preview.at == Some(at) && self.preview.content.is_some()
    }

    /// Returns the preview of the selected session, if it has been read.
    pub(crate) fn selected_preview(&self) -> Option<&SessionPreview> {
        let at = self.selected_item()?;
        self.preview.content.as_ref().filter(|_| self.preview.at == Some(at))?.as_ref().ok()
    }

    /// Returns the number of the selected session.
    pub(crate) fn selected_item(&self) -> Option<usize> {
        self.matches.get(self.selected).map(|&at| at as usize)
    }

    /// Handles an event of the terminal.
    pub fn handle(&mut self, event: &Event, now: Instant) -> Option<PickerAction> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.status = None;
                self.handle_key(key)
            }
            Event::Paste(text) if self.view == PickerView::List => {
                self.query.insert(text);
                self.apply_query();
                None
            }
            Event::Mouse(mouse) => self.handle_mouse(mouse, now),
            _ => None,
        }
    }

    fn handle_key(&mut self, key: &KeyEvent) -> Option<PickerAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL)
            && let KeyCode::Char(c) = key.code
            && let Some(action) = self.handle_control(c)
        {
            return action;
        }
        match (self.view, key.code) {
            (PickerView::Keys, _) => {
                self.view = PickerView::List;
                None
            }
            (_, KeyCode::F(1)) => {
                self.view = PickerView::Keys;
                None
            }
            (PickerView::Paths(chosen), code) => self.handle_paths(chosen, code),
            (PickerView::Preview, code) => self.handle_preview(code),
            (PickerView::List, _) => self.handle_list(key),
        }
    }

    /// Handles a key with Ctrl that has the same meaning in every view. The outer `None` leaves it to the view.
    fn handle_control(&mut self, c: char) -> Option<Option<PickerAction>> {
        let selected = self.selected_item();
        let on_session = |action: fn(usize) -> PickerAction| Some(selected.map(action));
        match c {
            'c' => Some(Some(PickerAction::Quit)),
            'z' => Some(Some(PickerAction::Suspend)),
            'l' => Some(Some(PickerAction::Redraw)),
            's' => {
                let path = self.chosen_path();
                Some(selected.map(|at| match path {
                    None if self.search.of(at).is_some() => PickerAction::ShowHit(at),
                    path => PickerAction::Show(at, path),
                }))
            }
            'r' => on_session(PickerAction::Resume),
            't' => on_session(PickerAction::Tree),
            'e' => on_session(PickerAction::Export),
            'k' => on_session(PickerAction::Check),
            'y' => on_session(PickerAction::CopyId),
            'o' => on_session(PickerAction::PrintId),
            'f' => {
                if selected.is_some() {
                    self.view = PickerView::Paths(self.likely_path());
                }
                Some(None)
            }
            'p' => Some(self.move_in_view(-1)),
            'n' => Some(self.move_in_view(1)),
            _ => None,
        }
    }

    /// Returns the number of the path that is chosen for cloning.
    fn chosen_path(&self) -> Option<usize> {
        let PickerView::Paths(chosen) = self.view else { return None };
        Some(self.selected_preview()?.paths.get(chosen)?.n)
    }

    /// Returns the position of the path that is most likely cloned: the first abandoned one.
    fn likely_path(&self) -> usize {
        let paths = self.selected_preview().map(|preview| &preview.paths[..]).unwrap_or_default();
        paths.iter().position(|path| !path.path.active).unwrap_or(0)
    }

    fn handle_paths(&mut self, chosen: usize, code: KeyCode) -> Option<PickerAction> {
        let action = match code {
            KeyCode::Up => return self.move_in_view(-1),
            KeyCode::Down => return self.move_in_view(1),
            KeyCode::Char(digit @ '1'..='9') => {
                let n = usize::from(u8::try_from(digit).unwrap_or(b'0') - b'0');
                let paths = self.selected_preview().map(|preview| &preview.paths[..]).unwrap_or_default();
                let position = paths.iter().position(|path| path.n == n);
                self.view = PickerView::Paths(position.unwrap_or(chosen));
                return None;
            }
            KeyCode::Enter => {
                let (at, n) = self.selected_item().zip(self.chosen_path())?;
                Some(PickerAction::ClonePath(at, n))
            }
            KeyCode::Esc | KeyCode::Char('q') | KeyCode::Left => None,
            _ => return None,
        };
        self.view = PickerView::List;
        action
    }

    fn handle_preview(&mut self, code: KeyCode) -> Option<PickerAction> {
        let page = isize::try_from(self.areas.preview.height).unwrap_or(0).max(1);
        match code {
            KeyCode::Esc | KeyCode::Left | KeyCode::Char('q') => self.view = PickerView::List,
            KeyCode::Enter => return self.selected_item().map(PickerAction::Resume),
            KeyCode::Up | KeyCode::Char('k') => self.scroll_preview(-1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_preview(1),
            KeyCode::PageUp => self.scroll_preview(-page),
            KeyCode::PageDown | KeyCode::Char(' ') => self.scroll_preview(page),
            KeyCode::Home => self.preview.scroll = 0,
            KeyCode::End => self.scroll_preview(isize::MAX),
            _ => {}
        }
        None
    }

    fn handle_list(&mut self, key: &KeyEvent) -> Option<PickerAction> {
        let page = isize::try_from(self.n_visible()).unwrap_or(0).max(1);
        let is_empty = self.query.text().is_empty();
        match key.code {
            KeyCode::Enter => return self.selected_item().map(PickerAction::Resume),
            KeyCode::Tab | KeyCode::BackTab => return Some(PickerAction::SwitchScope),
            KeyCode::Char('q') if is_empty && key.modifiers.is_empty() => return Some(PickerAction::Quit),
            KeyCode::Char('?') if is_empty => self.view = PickerView::Keys,
            KeyCode::Esc if is_empty => return Some(PickerAction::Quit),
            KeyCode::Esc => {
                self.query.clear();
                self.apply_query();
            }
            KeyCode::Up => self.move_selection(-1),
            KeyCode::Down => self.move_selection(1),
            KeyCode::PageUp => self.move_selection(-page),
            KeyCode::PageDown => self.move_selection(page),
            KeyCode::Home if self.query.is_at_start() => self.move_selection(isize::MIN),
            KeyCode::End if self.query.is_at_end() => self.move_selection(isize::MAX),
            KeyCode::Right if self.query.is_at_end() && self.selected_item().is_some() => {
                self.view = PickerView::Preview;
            }
            _ if self.query.handle(key) => self.apply_query(),
            _ => {}
        }
        None
    }

    fn handle_mouse(&mut self, mouse: &MouseEvent, now: Instant) -> Option<PickerAction> {
        let at = Position::new(mouse.column, mouse.row);
        let on_preview = self.areas.preview.contains(at);
        match mouse.kind {
            MouseEventKind::ScrollUp if on_preview => self.scroll_preview(-WHEEL_ROWS),
            MouseEventKind::ScrollDown if on_preview => self.scroll_preview(WHEEL_ROWS),
            MouseEventKind::ScrollUp => return self.move_in_view(-WHEEL_ROWS),
            MouseEventKind::ScrollDown => return self.move_in_view(WHEEL_ROWS),
            MouseEventKind::Down(MouseButton::Left) if self.areas.rows.contains(at) => {
                let line = usize::from(at.y - self.areas.rows.y);
                let position = *self.areas.positions.get(line)?;
                return self.click(position, now);
            }
            _ => {}
        }
        None
    }

    /// Selects a row; a second click resumes its session.
    fn click(&mut self, position: usize, now: Instant) -> Option<PickerAction> {
        if self.view == PickerView::Preview {
            self.view = PickerView::List;
        }
        if self.view != PickerView::List || position >= self.matches.len() {
            return None;
        }
        let is_second = self.last_click.take().is_some_and(|(before, row)| {
            row == position && now.saturating_duration_since(before) <= DOUBLE_CLICK
        });
        self.select(position);
        if is_second {
            return self.selected_item().map(PickerAction::Resume);
        }
        self.last_click = Some((now, position));
        None
    }

    /// Moves in the list, the preview or the choice of a path.
    fn move_in_view(&mut self, by: isize) -> Option<PickerAction> {
        match self.view {
            PickerView::List => self.move_selection(by),
            PickerView::Preview => self.scroll_preview(by),
            PickerView::Paths(chosen) => {
                let n = self.selected_preview().map_or(0, |preview| preview.paths.len());
                self.view = PickerView::Paths(chosen.saturating_add_signed(by).min(n.saturating_sub(1)));
            }
            PickerView::Keys => {}
        }
        None
    }

    fn move_selection(&mut self, by: isize) {
        let last = self.matches.len().saturating_sub(1);
        self.select(self.selected.saturating_add_signed(by).min(last));
    }

    fn select(&mut self, position: usize) {
        if position != self.selected {
            self.selected_since = None;
        }
        self.selected = position;
        self.has_moved = true;
    }

    fn scroll_preview(&mut self, by: isize) {
        let hidden = self.preview.lines.1.len().saturating_sub(usize::from(self.areas.preview.height));
        self.preview.scroll = self.preview.scroll.saturating_add_signed(by).min(hidden);
    }

    /// Applies a changed query. The best match is selected.
    fn apply_query(&mut self) {
        let before = self.selected_item();
        self.filter.set_query(self.query.text(), &self.items);
        self.search.narrow(self.query.text());
        self.collect_matches();
        self.selected = 0;
        self.has_moved = false;
        if self.selected_item() != before {
            self.selected_since = None;
        }
    }

    /// Collects the listed sessions after filter or search have changed.
    fn collect_matches(&mut self) {
        let Self { matches, filter, search, items, .. } = self;
        matches.clear();
        matches.extend(filter.matches());
        let by_content = search.sessions().filter(|&at| items[at].is_listed() && !filter.is_match(at));
        matches.extend(by_content.filter_map(|at| u32::try_from(at).ok()));
    }

    /// Returns the number of sessions that are on the screen.
    fn n_visible(&self) -> usize {
        let positions = &self.areas.positions;
        positions.last().zip(positions.first()).map_or(0, |(last, first)| last - first + 1)
    }

    /// Keeps the selection on a session after the list has changed.
    fn follow(&mut self, before: Option<usize>) {
        self.collect_matches();
        let matches = &self.matches;
        let is_same = |at: &u32| Some(*at as usize) == before;
        let position = matches.iter().position(is_same).filter(|_| self.has_moved);
        let last = matches.len().saturating_sub(1);
        self.selected = position.unwrap_or(if self.has_moved { self.selected.min(last) } else { 0 });
        if self.selected_item() != before {
            self.selected_since = None;
        }
    }

    fn count_items(&mut self) {
        self.n_unread = self.items.iter().filter(|item| item.is_unread()).count();
        self.n_skipped = self.items.iter().filter(|item| !item.is_listed()).count();
        self.project_width = self.items.iter().map(project_width).max().unwrap_or(0);
    }
}

/// Returns the width of the name of a project. The directory name of an unread log is cut to the usual width.
fn project_width(item: &PickerItem) -> u16 {
    let width = unicode_width::UnicodeWidthStr::width(item.project.as_str());
    u16::try_from(width).unwrap_or(u16::MAX).min(if item.is_unread() { 8 } else { u16::MAX })
}
