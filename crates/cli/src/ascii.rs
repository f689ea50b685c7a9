//! Output for terminals that cannot show UTF-8.
//!
//! One filter in front of the terminal translates our symbols and replaces everything else that is not ASCII, so that
//! nothing else in the program needs an ASCII variant. The translation has the width of the original, and columns stay
//! aligned.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Bytes of a line that are buffered; a longer line is translated in pieces.
const MAX_PENDING: usize = 1 << 16;

/// Symbols of one column, each followed by its translation.
const SYMBOLS: &str = "●*○o◉*◎o◆*◇o■*□o▪*▫o▶>▷>▸>▹>►>◀<◂<▼v▾v▲^▴^•*‣>◦o∙*⋅-⏺*⎿`❯>❮<›>‹<→>←<↑^↓v↳`↪>⇒>⇐<⟶>✓+✔+✗x✘x✕x✖x★*☆*☐o☑+☒x…\
    .–-—-‐-‑-‒-−-―-“\"”\"„\"‟\"‘'’'‚,‛'′'″\"×x÷/≤<≥>≠#≈~∞8†+‡+€E™t№N⋯.⋮:┌.┐.╭.╮.└`╰`┘'╯'├|┤|┬-┴-┼+\u{a0} \u{202f} \u{2009} ";

/// Translations of U+00A1 to U+00FF.
const LATIN_1: &str = "!cL$Y|S\"ca<--R-o+23'uP-,1o>???\
    ?AAAAAAACEEEEIIIIDNOOOOOxOUUUUYTsaaaaaaaceeeeiiiidnooooo/ouuuuyty";

/// Returns the translation of a character of one column, if it has one.
fn translated(c: char) -> Option<char> {
    let latin = || LATIN_1.chars().nth((c as usize).checked_sub(0xa1)?);
    let symbol = || {
        SYMBOLS.chars().step_by(2).position(|known| known == c).and_then(|at| SYMBOLS.chars().nth(2 * at + 1))
    };
    let drawn = || match c {
        '─' | '━' | '┄' | '┅' | '┈' | '┉' | '╌' | '╍' | '╴' | '╶' | '╸' | '╺' => {
            Some('-')
        }
        '│' | '┃' | '┆' | '┇' | '┊' | '┋' | '╎' | '╏' | '║' | '╵' | '╷' | '▌' | '▍' | '▎' | '▏' | '▐'
        | '▕' => Some('|'),
        '═' => Some('='),
        '\u{2500}'..='\u{257f}' => Some('+'),
        '░' | '▒' => Some('.'),
        '\u{2580}'..='\u{259f}' => Some('#'),
        // Braille patterns are used as spinners.
        '\u{2800}'..='\u{28ff}' => Some('*'),
        _ => None,
    };
    if c.width() != Some(1) {
        return None;
    }
    symbol().or_else(latin).or_else(drawn)
}

/// Translates text to ASCII of the same width.
pub(crate) fn to_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let known = if c.is_ascii() { Some(c) } else { translated(c) };
        let length = match known {
            Some(known) => {
                out.push(known);
                c.len_utf8()
            }
            None => {
                // The width of a sequence is not the sum of the widths of its characters.
                let is_known = |c: char| c.is_ascii() || translated(c).is_some();
                let run = &rest[..rest.find(is_known).unwrap_or(rest.len())];
                out.extend(std::iter::repeat_n('?', run.width()));
                run.len()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// Writes text as ASCII, line by line.
pub(crate) struct AsciiWriter<W: Write> {
    inner: W,
    pending: Vec<u8>,
}

impl<W: Write> AsciiWriter<W> {
    pub(crate) fn new(inner: W) -> Self {
        Self { inner, pending: Vec::new() }
    }

    /// Writes the first `end` pending bytes.
    fn translate(&mut self, end: usize) -> io::Result<()> {
        let line: Vec<u8> = self.pending.drain(..end).collect();
        if line.is_ascii() {
            return self.inner.write_all(&line);
        }
        for chunk in line.utf8_chunks() {
            self.inner.write_all(to_ascii(chunk.valid()).as_bytes())?;
            self.inner.write_all(if chunk.invalid().is_empty() { b"" } else { b"?" })?;
        }
        Ok(())
    }
}

impl<W: Write> Write for AsciiWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if let Some(end) = memchr::memrchr(b'\n', &self.pending) {
            self.translate(end + 1)?;
        }
        if self.pending.len() > MAX_PENDING {
            let is_boundary = |at: &usize| self.pending[*at] & 0xc0 != 0x80;
            let end = (self.pending.len() - 4..self.pending.len()).rev().find(is_boundary);
            self.translate(end.unwrap_or(self.pending.len()))?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.translate(self.pending.len())?;
        self.inner.flush()
    }
}

impl<W: Write> Drop for AsciiWriter<W> {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(pieces: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = AsciiWriter::new(&mut out);
        for piece in pieces {
            writer.write_all(piece).expect("memory");
        }
        drop(writer);
        out
    }

    #[test]
    fn symbols_keep_their_meaning() {
        assert_eq!(to_ascii("● Prompt  2 turns · 5 Jan"), "* Prompt  2 turns - 5 Jan");
        assert_eq!(to_ascii("├─○ “naïve” – 85 °C …"), "|-o \"naive\" - 85 oC .");
        assert_eq!(to_ascii("漢字 😀 ok"), "???? ?? ok");
        assert_eq!(to_ascii("\u{1b}[1m▌\u{1b}[0m"), "\u{1b}[1m|\u{1b}[0m");
    }

    #[test]
    fn every_translation_is_ascii_of_one_column() {
        for c in ('\u{a1}'..=char::MAX).filter(|&c| translated(c).is_some()) {
            assert!(translated(c).is_some_and(|to| (' '..='~').contains(&to)), "{c}");
        }
        assert_eq!(LATIN_1.chars().count(), 0xff - 0xa0);
        assert_eq!(SYMBOLS.chars().count() % 2, 0);
    }

    #[test]
    fn long_lines_are_split_at_characters() {
        let text = "ä".repeat(MAX_PENDING);
        assert_eq!(written(&[text.as_bytes()]), "a".repeat(MAX_PENDING).into_bytes());
    }

    proptest! {
        #[test]
        fn ascii_has_the_width_of_the_text(text in "([ -~]|[●○├─│…·–ä漢😀é“]|\\PC){0,60}") {
            let ascii = to_ascii(&text);
            prop_assert!(ascii.is_ascii());
            // Characters that join across a translated one are the exception.
            let runs: usize = text.split_inclusive(|c: char| c.is_ascii() || translated(c).is_some()).map(|run| {
                let last = run.chars().last().filter(|&c| c.is_ascii() || translated(c).is_some());
                run[..run.len() - last.map_or(0, char::len_utf8)].width() + usize::from(last.is_some())
            }).sum();
            prop_assert_eq!(ascii.width(), runs);
        }

        #[test]
        fn any_bytes_in_any_pieces_are_ascii(bytes: Vec<u8>, at: prop::sample::Index) {
            let at = at.index(bytes.len() + 1);
            let pieces = written(&[&bytes[..at], &bytes[at..]]);
            prop_assert!(pieces.is_ascii());
            prop_assert_eq!(pieces, written(&[&bytes]));
        }
    }
}
