//! Makes text from a log safe for a document: nothing in it moves a cursor, changes the direction of writing
//! or becomes markup.

use std::borrow::Cow;

use crate::hidden::hidden_chars;

/// Removes terminal colours and cursor movements, and makes other hidden characters visible.
pub(crate) fn strip_control_codes(text: &str) -> Cow<'_, str> {
    let mut found = hidden_chars(text).peekable();
    if found.peek().is_none() {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    for (at, c) in found {
        // A sequence that was skipped may contain hidden characters.
        if at < start {
            continue;
        }
        out.push_str(&text[start..at]);
        let mut chars = text[at + c.len_utf8()..].chars();
        match c {
            '\u{1b}' => skip_sequence(&mut chars),
            // A lone carriage return redraws a progress bar; each state of it becomes a line.
            '\r' if !chars.as_str().starts_with('\n') => out.push('\n'),
            '\r' | '\u{feff}' => {}
            '\0'..'\u{20}' => out.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
            '\u{7f}' => out.push('\u{2421}'),
            c => out.push_str(&format!("\u{2039}U+{:04X}\u{203a}", u32::from(c))),
        }
        start = text.len() - chars.as_str().len();
    }
    out.push_str(&text[start..]);
    out.into()
}

/// Texts longer than this are written in pieces.
pub(crate) const LONG: usize = 1 << 20;

/// Cleans a text in pieces: it may be very long, and the result longer still.
pub(crate) fn clean_pieces(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, behind) = rest.split_at(piece_end(rest));
        rest = behind;
        (!piece.is_empty()).then(|| strip_control_codes(piece))
    })
}

/// Returns the end of the first piece of a text: after a line end if there is one, because no sequence
/// continues past it.
fn piece_end(text: &str) -> usize {
    if text.len() <= LONG {
        return text.len();
    }
    let line = memchr::memrchr(b'\n', &text.as_bytes()[..LONG]).map(|at| at + 1);
    line.unwrap_or_else(|| (0..=LONG).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(LONG))
}

/// Cleans a text that is written later. A very long one is returned unchanged; it is cleaned when it is
/// written.
pub(crate) fn clean_short(text: Cow<'_, str>) -> String {
    if text.len() > LONG {
        return text.into_owned();
    }
    match strip_control_codes(&text) {
        Cow::Owned(text) => text,
        Cow::Borrowed(_) => text.into_owned(),
    }
}

/// Skips the rest of an escape sequence: CSI, OSC or another string, or a single letter.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    let rest = chars.as_str();
    let mut bytes = rest.bytes();
    let printable = |b: &u8| (0x20..0x7f).contains(b);
    let used = match bytes.next() {
        Some(b'[') => {
            // Parameters, then a final letter; anything else ends a malformed sequence.
            let parameters = bytes.take_while(|b| (0x20..0x40).contains(b)).count();
            let last = rest.as_bytes().get(1 + parameters).is_some_and(|b| (0x40..0x7f).contains(b));
            1 + parameters + usize::from(last)
        }
        // Such a string is terminated by BEL or ESC \; without a terminator only its line is removed.
        Some(b']' | b'P' | b'_' | b'^' | b'X') => {
            let end = rest.find(['\n', '\u{7}', '\u{1b}']).unwrap_or(rest.len());
            match rest.as_bytes().get(end) {
                Some(0x07) => end + 1,
                Some(0x1b) if rest[end..].starts_with("\u{1b}\\") => end + 2,
                _ => end,
            }
        }
        Some(b'(' | b')' | b'*' | b'+' | b'#' | b'%') => {
            1 + usize::from(rest.as_bytes().get(1).is_some_and(u8::is_ascii_alphanumeric))
        }
        Some(b) if printable(&b) => 1,
        _ => 0,
    };
    *chars = rest[used..].chars();
}

/// Appends a text, escaped for an HTML element or attribute.
pub(crate) fn push_escaped(out: &mut String, text: &str) {
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

/// Returns a text, escaped for an HTML element or attribute.
pub(crate) fn html_escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    push_escaped(&mut out, text);
    out
}

/// Returns whether a link is safe to follow.
pub(crate) fn is_safe_link(url: &str) -> bool {
    let url = url.trim();
    let scheme = url.split(['/', '?', '#']).next().unwrap_or_default();
    match scheme.split_once(':') {
        Some((scheme, _)) => {
            ["http", "https", "mailto"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
        }
        // A path on the machine of the session leads nowhere, but does no harm. `//host` is not a path: it
        // inherits the scheme of the page. A browser reads a backslash as a slash.
        None => {
            let host = url.starts_with(['/', '\\']) && url[1..].starts_with(['/', '\\']);
            !host && !url.chars().any(char::is_control)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleaning_in_pieces_equals_cleaning_at_once() {
        let line = "\u{1b}[1mbold\u{1b}[0m \u{1b}]0;title\r\nprogress\rbar \u{200b}漢`\n";
        let text = line.repeat(2 * LONG / line.len() + 1);
        let pieces: Vec<_> = clean_pieces(&text).collect();
        assert!(pieces.len() > 1);
        assert!(pieces.concat() == strip_control_codes(&text));
        // Without line ends, no character is cut.
        let text = "漢".repeat(LONG);
        assert!(clean_pieces(&text).collect::<String>() == text);
    }

    #[test]
    fn colours_are_removed_and_hidden_characters_made_visible() {
        assert_eq!(
            strip_control_codes("\u{1b}[1;31mred\u{1b}[0m and \u{1b}]0;title\u{7}plain"),
            "red and plain"
        );
        assert_eq!(strip_control_codes("a\r\nb\rc\td\u{0}e\u{7f}"), "a\nb\nc\td␀e␡");
        assert_eq!(strip_control_codes("x\u{202e}y\u{feff}z\u{85}"), "x‹U+202E›yz‹U+0085›");
        assert_eq!(strip_control_codes("\u{1b}[3\nkept"), "\nkept");
        assert_eq!(strip_control_codes("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\"), "link");
        assert_eq!(strip_control_codes("ß “é” → 漢字 🦀"), "ß “é” → 漢字 🦀");
    }

    #[test]
    fn only_known_schemes_are_safe() {
        for safe in ["https://a.b/c?d:e", "HTTP://x", "mailto:a@b", "#m1", "docs/a.md", "a/b:c"] {
            assert!(is_safe_link(safe), "{safe}");
        }
        for unsafe_ in [
            "javascript:alert(1)",
            " JavaScript:x",
            "data:text/html,x",
            "vbscript:x",
            "file:///etc",
            "//a.b",
            "/\\a.b",
        ] {
            assert!(!is_safe_link(unsafe_), "{unsafe_}");
        }
        assert!(!is_safe_link("java\u{a}script:x"));
    }
}
