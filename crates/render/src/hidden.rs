//! Characters that a reader does not see: control characters, default-ignorable and format characters,
//! private use and noncharacters.
//!
//! Some of them belong to visible text: U+FE0F after an emoji, a joiner between two emoji or between two
//! letters of a script that joins or stacks its letters. These are kept, one at a time; all others are
//! escaped wherever text from a log is shown.

/// Returns whether a character is invisible or interpreted by a terminal, regardless of context. Line feed
/// and tab are not.
pub fn is_hidden(c: char) -> bool {
    match u32::from(c) {
        0x0a | 0x09 => false,
        0x00..0x20 | 0x7f..0xa0 => true,
        0x20..0x7f => false,
        n => is_ignorable(n) || is_format(n) || is_private(n) || n & 0xfffe == 0xfffe,
    }
}

/// Returns whether a code point is `Default_Ignorable_Code_Point` in Unicode 17, including the ranges
/// reserved for such characters.
fn is_ignorable(n: u32) -> bool {
    matches!(
        n,
        0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f | 0x200b..=0x200f
            | 0x202a..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f | 0xfeff | 0xffa0
            | 0xfff0..=0xfff8 | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a | 0xe0000..=0xe0fff
    )
}

/// Returns whether a code point formats the text around it and has no glyph: line and paragraph separators,
/// annotations, hieroglyph controls, noncharacters inside a block.
fn is_format(n: u32) -> bool {
    matches!(n, 0x2028..=0x2029 | 0xfff9..=0xfffb | 0x13430..=0x1343f | 0xfdd0..=0xfdef)
}

fn is_private(n: u32) -> bool {
    matches!(n, 0xe000..=0xf8ff | 0xf0000..=0x10ffff)
}

/// Finds the hidden characters of a text, with their byte offsets.
pub(crate) fn hidden_chars(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = next_candidate(text.as_bytes(), from)?;
            let c = text[at..].chars().next()?;
            from = at + c.len_utf8();
            if is_hidden(c) && !is_part_of_visible(text, at, c) {
                return Some((at, c));
            }
        }
    })
}

/// Finds the next byte that can begin a hidden character.
///
/// Blocks of plain ASCII are skipped with a test that compilers vectorise; an export passes all of its text
/// through this function.
fn next_candidate(bytes: &[u8], from: usize) -> Option<usize> {
    const BLOCK: usize = 32;
    let mut at = from;
    for block in bytes[from..].chunks(BLOCK) {
        let unusual = block
            .iter()
            .fold(false, |unusual, &b| unusual | ((b < 0x20) & (b != b'\n') & (b != b'\t')) | (b >= 0x7f));
        if unusual && let Some(found) = block.iter().position(|&b| can_begin_hidden(b)) {
            return Some(at + found);
        }
        at += block.len();
    }
    None
}

/// Returns whether the encoding of a hidden character can begin with this byte. Most text has no such byte.
pub fn can_begin_hidden(b: u8) -> bool {
    match b {
        b'\n' | b'\t' => false,
        0x00..0x20 | 0x7f => true,
        // U+0080–, U+034F, U+061C, U+1000–, U+2000–, U+3000–, U+E000–, U+F000–, U+10000–, U+E0000–.
        0xc2 | 0xcd | 0xd8 | 0xe1 | 0xe2 | 0xe3 | 0xee | 0xef | 0xf0..=0xf4 => true,
        _ => false,
    }
}

/// Returns whether a hidden character is part of the visible text around it.
fn is_part_of_visible(text: &str, at: usize, c: char) -> bool {
    let before = || text[..at].chars().next_back();
    let after = || text[at + c.len_utf8()..].chars().next();
    match c {
        '\u{fe0e}' | '\u{fe0f}' => before().is_some_and(|b| is_emoji(b) || is_keycap(b)),
        '\u{200c}' | '\u{200d}' => {
            let mut left = text[..at].chars().rev();
            let base = left.next().and_then(|b| if b == '\u{fe0f}' { left.next() } else { Some(b) });
            let (Some(base), Some(next)) = (base, after()) else { return false };
            c == '\u{200d}' && is_emoji(base) && is_emoji(next) || uses_joiners(base) && uses_joiners(next)
        }
        // Mongolian letters select their shape by these.
        '\u{180b}'..='\u{180f}' => before().is_some_and(|b| matches!(b, '\u{1820}'..='\u{18aa}')),
        _ => false,
    }
}

/// Returns whether a character can be part of an emoji sequence.
fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0xa9 | 0xae | 0x203c | 0x2049 | 0x2122 | 0x2139 | 0x2194..=0x21aa
        | 0x2300..=0x23ff | 0x24c2 | 0x25aa..=0x27bf | 0x2934..=0x2935 | 0x2b05..=0x2b55 | 0x3030
        | 0x303d | 0x3297 | 0x3299 | 0x1f000..=0x1faff)
}

fn is_keycap(c: char) -> bool {
    c.is_ascii_digit() || matches!(c, '#' | '*')
}

/// Returns whether a letter or sign belongs to a script in which joiners change the shape of words: Arabic
/// and its relatives, Indic scripts, Myanmar, Khmer, Mongolian and the scripts of insular South-East Asia.
fn uses_joiners(c: char) -> bool {
    let script = matches!(u32::from(c), 0x620..=0x6ff | 0x700..=0x74f | 0x750..=0x77f | 0x7c0..=0x7ff
        | 0x840..=0x8ff | 0x900..=0xdff | 0xf00..=0xfff | 0x1000..=0x109f | 0x1780..=0x17ff
        | 0x1820..=0x18aa | 0x1900..=0x1c4f | 0xa800..=0xaadf | 0xfb50..=0xfdcf | 0xfdf0..=0xfdff
        | 0xfe70..=0xfefc | 0x10a00..=0x10fff | 0x11000..=0x11fff);
    script && !is_hidden(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<char> {
        hidden_chars(text).map(|(_, c)| c).collect()
    }

    #[test]
    fn every_hidden_character_begins_with_a_candidate_byte() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|&c| is_hidden(c)) {
            assert!(can_begin_hidden(c.to_string().as_bytes()[0]), "{:x}", u32::from(c));
            assert_eq!(found(&format!("a{c}b")), [c]);
        }
    }

    #[test]
    fn joiners_and_selectors_in_visible_text_are_kept() {
        let visible = [
            "👩‍👩‍👧‍👦 👩🏽‍💻 ❤️‍🔥 🏳️‍🌈 ☺️ ©️ 1️⃣ #️⃣ ✈︎",
            "می‌خواهم",
            "क्‍ष न्‍ह",
            "ක්‍රියා",
            "ᠠ\u{180b}",
            "naïve – “quoted” 漢字 한글 ß\u{a0}é e\u{301}",
        ];
        for text in visible {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn joiners_and_selectors_elsewhere_are_hidden() {
        assert_eq!(found("a\u{200d}b"), ['\u{200d}']);
        assert_eq!(found("😀\u{200d}a"), ['\u{200d}']);
        assert_eq!(found("😀\u{fe0f}\u{fe0f}"), ['\u{fe0f}']);
        assert_eq!(found("می\u{200c}\u{200c}خ"), ['\u{200c}', '\u{200c}']);
        assert_eq!(found("pass\u{200b}word\u{2060}"), ['\u{200b}', '\u{2060}']);
        assert_eq!(found("🏴\u{e0067}\u{e007f} x\u{e0100}"), ['\u{e0067}', '\u{e007f}', '\u{e0100}']);
        assert_eq!(found("a\u{fe0f}b\u{3164}\u{ad}\u{e000}\u{10ffff}").len(), 5);
    }
}
