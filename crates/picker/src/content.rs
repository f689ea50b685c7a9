//! Sessions that are found by their contents, and the line that shows why.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use rethread::{Hit, MessageKey, MessagePlace};
use rethread_render::{Style as Role, source_label};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::item::PickerItem;
use crate::look::PickerLook;

/// The columns that a query needs before contents are searched: three letters, or two ideographs.
const MIN_COLUMNS: usize = 3;

/// A session with a text that matches the query.
#[derive(Debug, Clone)]
pub struct ContentMatch {
    /// The number of the session among the items.
    pub at: usize,
    /// The log that contains the text: that of the session, or of one of its subagents.
    pub path: PathBuf,
    /// The best hit.
    pub hit: Hit,
}

impl ContentMatch {
    /// Returns what identifies the hit: its message and its place in the log.
    pub(crate) fn key(&self) -> HitKey {
        (self.hit.key, self.hit.position)
    }

    /// Returns the texts that match.
    pub(crate) fn matched_texts(&self) -> impl Iterator<Item = &str> {
        let snippet = self.hit.snippet.iter();
        snippet.flat_map(|snippet| snippet.matches.iter().filter_map(|range| snippet.text.get(range.clone())))
    }

    /// Returns whether the visible text of the hit contains all of these words, which are in lower case.
    fn contains_all(&self, words: &[String]) -> bool {
        let Some(snippet) = &self.hit.snippet else { return false };
        let text = snippet.text.to_lowercase();
        words.iter().all(|word| text.contains(word))
    }
}

pub(crate) type HitKey = (MessageKey, (u64, u32));

/// The search of the contents of all sessions.
#[derive(Debug, Default)]
pub(crate) struct ContentSearch {
    /// The query that was requested last.
    requested: Option<String>,
    /// The results of that query have arrived.
    is_answered: bool,
    /// The sessions that were found, best first. A hit in a title has no line, because the title is shown anyway.
    found: Vec<(ContentMatch, Option<HitLine>)>,
    /// The position in `found` of each session, by its number.
    positions: HashMap<usize, usize>,
    /// The part of the first index that has been built, in percent, while it is built.
    pub(crate) indexing: Option<u8>,
}

impl ContentSearch {
    /// Returns the query that should be searched now, once.
    pub(crate) fn wanted(&mut self, query: &str) -> Option<String> {
        let wanted = searchable(query);
        if wanted == self.requested.as_deref() {
            return None;
        }
        self.requested = wanted.map(str::to_owned);
        self.is_answered = false;
        self.requested.clone()
    }

    /// Returns whether the results of a query are still missing.
    pub(crate) fn is_pending(&self, query: &str) -> bool {
        let wanted = searchable(query);
        wanted.is_some() && (wanted != self.requested.as_deref() || !self.is_answered)
    }

    /// Requests the search again. What was found is kept until then.
    pub(crate) fn restart(&mut self) {
        self.requested = None;
    }

    /// Sets the results of the current query.
    pub(crate) fn set_found(&mut self, found: impl IntoIterator<Item = ContentMatch>, look: &PickerLook) {
        self.is_answered = true;
        self.found.clear();
        self.positions.clear();
        for found in found {
            if self.positions.contains_key(&found.at) {
                continue;
            }
            self.positions.insert(found.at, self.found.len());
            let line = found.hit.message.is_some().then(|| HitLine::new(&found.hit, look));
            self.found.push((found, line));
        }
    }

    /// Keeps what certainly matches a changed query, so that its rows do not vanish until the results arrive.
    pub(crate) fn narrow(&mut self, query: &str) {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let is_searched = searchable(query).is_some();
        self.retain(|found| is_searched && found.contains_all(&words));
    }

    /// Applies the numbers of a new list. Sessions are known by their ids.
    pub(crate) fn renumber(&mut self, before: &[PickerItem], after: &[PickerItem]) {
        if self.found.is_empty() {
            return;
        }
        let numbers: HashMap<&str, usize> =
            after.iter().enumerate().map(|(at, item)| (item.id.as_str(), at)).collect();
        for (found, _) in &mut self.found {
            let id = before.get(found.at).map(|item| item.id.as_str());
            found.at = id.and_then(|id| numbers.get(id).copied()).unwrap_or(usize::MAX);
        }
        self.retain(|found| found.at != usize::MAX);
    }

    fn retain(&mut self, is_kept: impl Fn(&ContentMatch) -> bool) {
        self.found.retain(|(found, _)| is_kept(found));
        self.positions = self.found.iter().enumerate().map(|(at, (found, _))| (found.at, at)).collect();
    }

    /// Returns the numbers of the sessions that were found, best first.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = usize> + '_ {
        self.found.iter().map(|(found, _)| found.at)
    }

    /// Returns the match of a session.
    pub(crate) fn of(&self, at: usize) -> Option<&ContentMatch> {
        Some(&self.found[*self.positions.get(&at)?].0)
    }

    /// Returns the line of a session's best hit in a message.
    pub(crate) fn line_of(&self, at: usize) -> Option<&HitLine> {
        self.found[*self.positions.get(&at)?].1.as_ref()
    }
}

/// Returns the query for the contents; `None` if it is too short.
fn searchable(query: &str) -> Option<&str> {
    let query = query.trim();
    (query.width() >= MIN_COLUMNS).then_some(query)
}

/// A hit, ready to be drawn: everything from the log is escaped.
#[derive(Debug)]
pub(crate) struct HitLine {
    /// The number of the message and the author of the text.
    head: Vec<(String, Role)>,
    text: String,
    /// The bytes of `text` that match.
    matches: Vec<Range<usize>>,
    /// The place of the message, unless it is on the active path.
    place: &'static str,
}

/// The columns before the number of the message.
const INDENT: u16 = 4;
/// The columns after a match that are shown at least, if the text goes on.
const AFTER_MATCH: usize = 8;
/// The smallest room for the text; the place is left out before.
const MIN_TEXT: usize = 20;
/// Bytes of a text that are kept; no terminal shows more.
const MAX_TEXT: usize = 1000;

impl HitLine {
    fn new(hit: &Hit, look: &PickerLook) -> Self {
        let (label, role) = source_label(hit.source);
        let mut head = Vec::new();
        if let Some(n) = hit.message {
            head.push((format!("#{} ", n.get()), Role::Id));
        }
        head.push((format!("{label}: "), role));
        let mut line = Self { head, text: String::new(), matches: Vec::new(), place: place_label(hit.place) };
        let Some(snippet) = &hit.snippet else { return line };
        line.text += if snippet.cut_before { "…" } else { "" };
        let mut at = 0;
        for range in &snippet.matches {
            let (Some(before), Some(matched)) =
                (snippet.text.get(at..range.start), snippet.text.get(range.clone()))
            else {
                continue;
            };
            line.push(before, look);
            let start = line.text.len();
            line.push(matched, look);
            line.matches.push(start..line.text.len());
            at = range.end;
        }
        line.push(&snippet.text[at..], look);
        line.text += if snippet.cut_after { "…" } else { "" };
        line
    }

    fn push(&mut self, text: &str, look: &PickerLook) {
        let room = MAX_TEXT.saturating_sub(self.text.len());
        let text = text[..text.floor_char_boundary(room)].replace(['\n', '\t', '\r'], " ");
        self.text += &look.display.sanitize(&text);
    }

    /// Draws the line.
    pub(crate) fn draw(&self, area: Rect, look: &PickerLook, buffer: &mut Buffer) {
        let mut x = area.x + INDENT;
        for (text, role) in &self.head {
            let room = usize::from(area.right().saturating_sub(x));
            x = buffer.set_stringn(x, area.y, text, room, look.style(*role)).0;
        }
        let mut end = area.right();
        let place = u16::try_from(self.place.width()).unwrap_or(0);
        if place > 0 && usize::from(end.saturating_sub(x)) >= MIN_TEXT + usize::from(place) + 2 {
            end -= place;
            buffer.set_string(end, area.y, self.place, look.style(Role::Abandoned));
            end -= 2;
        }
        self.draw_text(Rect { x, width: end.saturating_sub(x), ..area }, look, buffer);
    }

    /// Draws the part of the text that fits and contains the first match.
    fn draw_text(&self, area: Rect, look: &PickerLook, buffer: &mut Buffer) {
        let room = usize::from(area.width);
        let start = self.visible_start(room);
        let mut x = area.x;
        if start > 0 {
            x = buffer.set_stringn(x, area.y, "…", room, look.style(Role::Dim)).0;
        }
        let is_cut = self.text[start..].width() + usize::from(start > 0) > room;
        let end = area.right().saturating_sub(u16::from(is_cut));
        for (at, grapheme) in self.text[start..].grapheme_indices(true) {
            let width = u16::try_from(grapheme.width()).unwrap_or(u16::MAX);
            if x.saturating_add(width) > end {
                break;
            }
            let is_match = self.matches.iter().any(|range| range.contains(&(start + at)));
            let style = if is_match { look.matched() } else { Style::new() };
            x = buffer.set_stringn(x, area.y, grapheme, usize::from(end - x), style).0;
        }
        if is_cut && x < area.right() {
            buffer.set_string(x, area.y, "…", look.style(Role::Dim));
        }
    }

    /// Returns the first byte that is drawn, so that the first match is visible: the beginning of a word.
    fn visible_start(&self, room: usize) -> usize {
        let Some(first) = self.matches.first() else { return 0 };
        let before = self.text[..first.start].width();
        let matched = self.text[first.clone()].width();
        let total = self.text.width();
        if total <= room || before + matched + AFTER_MATCH <= room {
            return 0;
        }
        let skipped = before.saturating_sub((room / 3).min(room.saturating_sub(matched + AFTER_MATCH)));
        // No more than necessary to see the end.
        let skipped = skipped.min(total + 1 - room);
        let mut column = 0;
        let mut start = first.start;
        for (at, grapheme) in self.text[..first.start].grapheme_indices(true) {
            if column >= skipped {
                start = at;
                break;
            }
            column += grapheme.width();
        }
        match self.text[start..first.start].find(' ') {
            Some(space) if start > 0 => start + space + 1,
            _ => start,
        }
    }
}

fn place_label(place: MessagePlace) -> &'static str {
    match place {
        MessagePlace::Active => "",
        place => place.name(),
    }
}

/// Returns the parts of a text that are equal to a word, ignoring case.
pub(crate) fn find_ignoring_case(text: &str, word: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    if word.is_empty() {
        return found;
    }
    for (start, _) in text.char_indices() {
        if found.last().is_some_and(|last| start < last.end) {
            continue;
        }
        let mut rest = text[start..].char_indices();
        let mut end = start;
        let is_equal = word.chars().all(|wanted| {
            rest.next().is_some_and(|(at, c)| {
                end = start + at + c.len_utf8();
                c == wanted || c.to_lowercase().eq(wanted.to_lowercase())
            })
        });
        if is_equal {
            found.push(start..end);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        assert_eq!(find_ignoring_case("A tree, TREES", "tree"), [2..6, 8..12]);
        assert_eq!(find_ignoring_case("aaaaa", "aa"), [0..2, 2..4]);
        assert_eq!(find_ignoring_case("É é", "é"), [0..2, 3..5]);
        assert!(find_ignoring_case("tre", "tree").is_empty());
        assert!(find_ignoring_case("tree", "").is_empty());
    }

    #[test]
    fn contents_are_searched_from_three_columns() {
        let is_searched = ["ab", "abc", " ab ", "漢", "漢字"].map(|query| searchable(query).is_some());
        assert_eq!(is_searched, [false, true, false, false, true]);
    }

    #[test]
    fn visible_part_contains_the_first_match() {
        let text = format!("{} needle {}", "hay ".repeat(30), "straw ".repeat(30));
        let at = text.find("needle").expect("in the text");
        let matches = std::iter::once(at..at + 6).collect();
        let line = HitLine { head: Vec::new(), matches, text, place: "" };
        for room in 1..200 {
            let start = line.visible_start(room);
            assert!(start <= at, "{room}");
            let end = line.text[start..at].width() + 6;
            assert!(room < 16 || end <= room, "{room}: {}", &line.text[start..]);
        }
    }
}
