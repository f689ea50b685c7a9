//! Text from a log made fit for a document: nothing in it moves a cursor, turns the direction of
//! writing or becomes markup.

use std::borrow::Cow;

use crate::text::turns_direction;

/// Drops terminal colours and cursor movements, and makes other control characters visible.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    // The bytes that such a character can begin with.
    let suspicious =
        |b: u8| b < 0x20 && b != b'\n' && b != b'\t' || matches!(b, 0x7f | 0xc2 | 0xd8 | 0xe2 | 0xef);
    if !text.bytes().any(suspicious) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            '\r' if chars.peek() == Some(&'\n') => {}
            // A lone return draws a progress bar over itself; every state of it is a line.
            '\r' => out.push('\n'),
            '\n' | '\t' => out.push(c),
            '\0'..'\u{20}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            '\u{feff}' => {}
            c if c.is_control() || turns_direction(c) => {
                out.push_str(&format!("\u{2039}U+{:04X}\u{203a}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.into()
}

/// Skips the rest of an escape sequence: CSI, OSC and the other strings, or a single letter.
fn skip_sequence(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            while let Some(&c) = chars.peek() {
                // Anything else than parameters ends a sequence, also a broken one.
                if !('\u{20}'..='\u{7e}').contains(&c) {
                    break;
                }
                chars.next();
                if ('@'..='~').contains(&c) {
                    break;
                }
            }
        }
        Some(']' | 'P' | '_' | '^' | 'X') => {
            // Such a string is ended by BEL or ESC \; without an end only its line goes.
            while let Some(&c) = chars.peek() {
                if c == '\n' {
                    break;
                }
                chars.next();
                if c == '\u{7}' {
                    break;
                }
                if c == '\u{1b}' {
                    if chars.peek() == Some(&'\\') {
                        chars.next();
                    }
                    break;
                }
            }
        }
        Some('(' | ')' | '*' | '+' | '#' | '%') => {
            chars.next();
            chars.next_if(|c| c.is_ascii_alphanumeric());
        }
        Some('\u{20}'..='\u{7e}') => {
            chars.next();
        }
        _ => {}
    }
}

/// Writes a text as the text of an HTML element or attribute.
pub(crate) fn html(out: &mut String, text: &str) {
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| matches!(b, b'&' | b'<' | b'>' | b'"' | b'\'')) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Returns a text as the text of an HTML element or attribute.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    html(&mut out, text);
    out
}

/// Tells whether a link leads somewhere that is safe to follow.
pub(crate) fn safe_link(url: &str) -> bool {
    let url = url.trim();
    let scheme = url.split(['/', '?', '#']).next().unwrap_or_default();
    match scheme.split_once(':') {
        Some((scheme, _)) => {
            ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }
        // A path of the machine where the conversation was held leads nowhere, but does no harm.
        None => !url.chars().any(char::is_control),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_go_and_what_is_hidden_is_seen() {
        assert_eq!(clean("\u{1b}[1;31mred\u{1b}[0m and \u{1b}]0;title\u{7}plain"), "red and plain");
        assert_eq!(clean("a\r\nb\rc\td\u{0}e\u{7f}"), "a\nb\nc\td␀e␡");
        assert_eq!(clean("x\u{202e}y\u{feff}z\u{85}"), "x‹U+202E›yz‹U+0085›");
        assert_eq!(clean("\u{1b}[3\nkept"), "\nkept");
        assert_eq!(clean("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"), "link");
        assert_eq!(clean("ß “é” → 漢字 🦀"), "ß “é” → 漢字 🦀");
    }

    #[test]
    fn only_known_schemes_are_followed() {
        for safe in ["https://a.b/c?d:e", "HTTP://x", "mailto:a@b", "#m1", "docs/a.md", "a/b:c"] {
            assert!(safe_link(safe), "{safe}");
        }
        for unsafe_ in ["javascript:alert(1)", " JavaScript:x", "data:text/html,x", "vbscript:x", "file:///etc"] {
            assert!(!safe_link(unsafe_), "{unsafe_}");
        }
        assert!(!safe_link("java\u{a}script:x"));
    }
}
