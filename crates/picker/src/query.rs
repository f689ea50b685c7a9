//! The line in which the query is typed.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rethread_render::is_hidden;
use unicode_segmentation::UnicodeSegmentation;

/// Maximum length of a query.
const MAX_BYTES: usize = 500;

/// A line of text with a cursor.
#[derive(Debug, Default)]
pub(crate) struct QueryLine {
    text: String,
    /// The byte before which the next character is inserted; always a boundary of a grapheme.
    cursor: usize,
}

impl QueryLine {
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text before the cursor.
    pub(crate) fn before_cursor(&self) -> &str {
        &self.text[..self.cursor]
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.cursor == self.text.len()
    }

    pub(crate) fn is_at_start(&self) -> bool {
        self.cursor == 0
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.cursor = 0;
    }

    /// Inserts typed or pasted text. Control characters and hidden characters are dropped.
    pub(crate) fn insert(&mut self, text: &str) {
        for c in text.chars() {
            let c = if c == '\n' || c == '\t' { ' ' } else { c };
            if c.is_control() || is_hidden(c) || self.text.len() + c.len_utf8() > MAX_BYTES {
                continue;
            }
            self.text.insert(self.cursor, c);
            self.cursor += c.len_utf8();
        }
    }

    /// Handles a key that edits the line. Returns whether it was one.
    pub(crate) fn handle(&mut self, key: &KeyEvent) -> bool {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        match key.code {
            KeyCode::Char('h') if control => self.delete_back(),
            KeyCode::Char('w') if control => self.delete_word(),
            KeyCode::Char('u') if control => self.delete_to_start(),
            KeyCode::Char('a') if control => self.cursor = 0,
            KeyCode::Char('b') if control => self.move_left(),
            KeyCode::Char(c) if !control && !alt => self.insert(c.encode_utf8(&mut [0; 4])),
            KeyCode::Backspace if control || alt => self.delete_word(),
            KeyCode::Backspace => self.delete_back(),
            KeyCode::Delete => self.delete_forward(),
            KeyCode::Left => self.move_left(),
            KeyCode::Right => self.cursor = self.next(),
            KeyCode::Home => self.cursor = 0,
            KeyCode::End => self.cursor = self.text.len(),
            _ => return false,
        }
        true
    }

    fn move_left(&mut self) {
        self.cursor = self.previous();
    }

    fn delete_back(&mut self) {
        let from = self.previous();
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn delete_forward(&mut self) {
        let to = self.next();
        self.text.replace_range(self.cursor..to, "");
    }

    fn delete_word(&mut self) {
        let before = self.before_cursor().trim_end();
        let from = before
            .rfind(char::is_whitespace)
            .map_or(0, |at| at + before[at..].chars().next().map_or(0, char::len_utf8));
        self.text.replace_range(from..self.cursor, "");
        self.cursor = from;
    }

    fn delete_to_start(&mut self) {
        self.text.replace_range(..self.cursor, "");
        self.cursor = 0;
    }

    fn previous(&self) -> usize {
        self.before_cursor().grapheme_indices(true).next_back().map_or(0, |(at, _)| at)
    }

    fn next(&self) -> usize {
        let after = &self.text[self.cursor..];
        self.cursor + after.graphemes(true).next().map_or(0, str::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(line: &mut QueryLine, code: KeyCode) {
        line.handle(&KeyEvent::new(code, KeyModifiers::NONE));
    }

    #[test]
    fn editing_moves_by_whole_characters() {
        let mut line = QueryLine::default();
        line.insert("fix ée\u{301}漢");
        press(&mut line, KeyCode::Left);
        press(&mut line, KeyCode::Backspace);
        assert_eq!((line.text(), line.before_cursor()), ("fix é漢", "fix é"));
        press(&mut line, KeyCode::Delete);
        press(&mut line, KeyCode::Home);
        press(&mut line, KeyCode::Char('a'));
        assert_eq!(line.text(), "afix é");
    }

    #[test]
    fn words_are_deleted_from_the_end() {
        let mut line = QueryLine::default();
        line.insert("fix the login  ");
        let delete = KeyEvent::new(KeyCode::Char('w'), KeyModifiers::CONTROL);
        line.handle(&delete);
        assert_eq!(line.text(), "fix the ");
        line.handle(&delete);
        line.handle(&delete);
        line.handle(&delete);
        assert_eq!(line.text(), "");
    }

    #[test]
    fn pasted_control_characters_are_dropped() {
        let mut line = QueryLine::default();
        line.insert("a\x1b[31m\u{202e}b\nc");
        assert_eq!(line.text(), "a[31mb c");
    }
}
