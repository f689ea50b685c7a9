//! Wrapping at word boundaries.
//!
//! Lines are filled greedily. A line ends at a space, or between ideographs. Only a word that is wider than a
//! line is broken inside: where Unicode permits a line break (for example after a slash), or else between any
//! two characters.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthChar;

use super::line::{StyledLine, width};

/// Distance between tab stops.
const TAB: usize = 8;

/// Splits a text into ranges of at most `room` columns, without the spaces at line ends. A text without words
/// has one empty range.
pub(crate) fn wrap(text: &str, room: usize) -> Vec<Range<usize>> {
    let room = room.max(2);
    let mut filler = LineFiller { room, lines: Vec::new(), line: 0..0, used: 0 };
    let mut at = 0;
    for word in text.split(' ') {
        let end = at + word.len();
        if !word.is_empty() {
            filler.add_word(text, at..end);
        }
        at = end + 1;
    }
    filler.lines.push(filler.line);
    filler.lines
}

struct LineFiller {
    room: usize,
    lines: Vec<Range<usize>>,
    line: Range<usize>,
    /// The columns of `line`.
    used: usize,
}

impl LineFiller {
    fn add_word(&mut self, text: &str, word: Range<usize>) {
        let columns = width(&text[word.clone()]);
        if columns <= self.room && text[word.clone()].is_ascii() {
            return self.add(word, columns);
        }
        let is_long = columns > self.room;
        let mut from = word.start;
        for (at, _) in unicode_linebreak::linebreaks(&text[word.clone()]) {
            let at = word.start + at;
            if at == word.end || is_long || is_between_wide(text, at) {
                self.add_part(text, from..at);
                from = at;
            }
        }
    }

    /// Adds a part of a word; if it is wider than a line, character by character.
    fn add_part(&mut self, text: &str, part: Range<usize>) {
        let columns = width(&text[part.clone()]);
        if columns <= self.room {
            return self.add(part, columns);
        }
        let mut at = part.start;
        for character in characters(&text[part], self.room) {
            self.add(at..at + character.len(), width(character));
            at += character.len();
        }
    }

    fn add(&mut self, part: Range<usize>, columns: usize) {
        // Between two words are only spaces, which have one column each.
        let gap = part.start - self.line.end;
        if self.line.is_empty() {
            self.line = part;
            self.used = columns;
        } else if self.used + gap + columns <= self.room {
            self.line.end = part.end;
            self.used += gap + columns;
        } else {
            self.lines.push(std::mem::replace(&mut self.line, part));
            self.used = columns;
        }
    }
}

/// Returns the characters of a text as a reader sees them. One that is wider than `room` is taken apart; scripts
/// that compose syllables have no limit for the length of one.
fn characters(text: &str, room: usize) -> impl Iterator<Item = &str> {
    text.graphemes(true).flat_map(move |character| {
        let is_wide = width(character) > room;
        character.split_inclusive(move |_| is_wide)
    })
}

/// Returns whether one of the characters around a position takes two columns.
fn is_between_wide(text: &str, at: usize) -> bool {
    let is_wide = |c: Option<char>| c.and_then(UnicodeWidthChar::width) == Some(2);
    is_wide(text[..at].chars().next_back()) || is_wide(text[at..].chars().next())
}

/// Splits a text into ranges of at most `room` columns, as if it were printed on a narrower terminal.
pub(crate) fn cut(text: &str, room: usize) -> Vec<Range<usize>> {
    if width(text) <= room {
        return std::iter::once(0..text.len()).collect();
    }
    let (mut lines, mut line, mut used) = (Vec::new(), 0..0, 0);
    for character in characters(text, room) {
        let columns = width(character);
        if used + columns > room && !line.is_empty() {
            let next = line.end;
            lines.push(std::mem::replace(&mut line, next..next));
            used = 0;
        }
        line.end += character.len();
        used += columns;
    }
    lines.push(line);
    lines
}

/// Replaces tabs by spaces up to the next tab stop.
pub(crate) fn expand_tabs(text: &str) -> Cow<'_, str> {
    if !text.contains('\t') {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let mut column = 0;
        for (j, piece) in line.split('\t').enumerate() {
            if j > 0 {
                let spaces = TAB - column % TAB;
                out.extend(std::iter::repeat_n(' ', spaces));
                column += spaces;
            }
            out.push_str(piece);
            column += width(piece);
        }
    }
    out.into()
}

/// Cuts a line to a number of columns and marks the cut with an ellipsis.
pub(crate) fn shorten(line: &StyledLine, room: usize) -> StyledLine {
    if line.width() <= room {
        return line.clone();
    }
    let mut short = StyledLine::default();
    let kept = cut(line.text(), room.saturating_sub(1).max(1)).swap_remove(0);
    let style = line.spans().last().map_or_else(anstyle::Style::new, |(_, style)| style);
    short.push_part(line, kept);
    short.push("…", style);
    short
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn wrapped(text: &str, room: usize) -> Vec<&str> {
        wrap(text, room).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn lines_end_between_words() {
        assert_eq!(wrapped("one two  three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two  three", 80), ["one two  three"]);
        assert_eq!(wrapped("", 8), [""]);
        assert_eq!(wrapped("   ", 8), [""]);
    }

    #[test]
    fn long_words_are_broken_at_slashes_and_then_anywhere() {
        assert_eq!(wrapped("see crates/render/src/prose", 14), ["see crates/", "render/src/", "prose"]);
        assert_eq!(wrapped("abcdefghijkl", 5), ["abcde", "fghij", "kl"]);
    }

    #[test]
    fn words_that_fit_are_not_broken() {
        assert_eq!(wrapped("well-known a/b/c foo_bar", 10), ["well-known", "a/b/c", "foo_bar"]);
    }

    #[test]
    fn ideographs_wrap_without_spaces() {
        assert_eq!(wrapped("漢字仮名交じり文", 8), ["漢字仮名", "交じり文"]);
    }

    #[test]
    fn tabs_reach_the_next_tab_stop() {
        assert_eq!(expand_tabs("\ta\tb\nlong word\tc"), "        a       b\nlong word       c");
        assert_eq!(expand_tabs("漢\tx"), "漢      x");
    }

    proptest! {
        #[test]
        fn wrapped_text_fits_and_keeps_its_words(text in "[ a-z/漢é\u{301}👩‍💻-]{0,80}", room in 2usize..40) {
            let lines = wrapped(&text, room);
            for line in &lines {
                prop_assert!(width(line) <= room, "{line:?}");
            }
            let squeeze = |text: &str| text.replace(' ', "");
            prop_assert_eq!(squeeze(&lines.concat()), squeeze(&text));
            if text.split(' ').all(|word| width(word) <= room && word.is_ascii()) {
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                prop_assert_eq!(words(&lines.join(" ")), words(&text));
            }
        }

        #[test]
        fn cut_text_fits_and_is_complete(text in "[ a-z漢é\u{301}👩‍💻]{0,80}", room in 2usize..40) {
            let parts: Vec<&str> = cut(&text, room).into_iter().map(|range| &text[range]).collect();
            for part in &parts {
                prop_assert!(width(part) <= room, "{part:?}");
            }
            prop_assert_eq!(parts.concat(), text);
        }
    }
}
