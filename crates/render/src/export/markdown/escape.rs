//! Escapes for text from a log: single lines of plain text, and Markdown marks that no renderer may
//! interpret.

use std::borrow::Cow;
use std::fmt::Write as _;

use rethread_model::collapse_whitespace;

use crate::export::safe::strip_control_codes;

/// Returns whether a `<` could begin HTML or an autolink in any renderer.
pub(super) fn opens_tag(text: &[u8], at: usize) -> bool {
    // Some renderers fold certain non-ASCII letters into ASCII ones.
    text[at] == b'<'
        && text
            .get(at + 1)
            .is_some_and(|&b| b.is_ascii_alphabetic() || !b.is_ascii() || matches!(b, b'/' | b'!' | b'?'))
}

/// Returns whether code contains something that would be active if a renderer did not treat it as code.
pub(super) fn is_active(code: &str) -> bool {
    let bytes = code.as_bytes();
    memchr::memchr_iter(b'<', bytes).any(|at| opens_tag(bytes, at))
        || memchr::memchr_iter(b'{', bytes).any(|at| opens_attributes(bytes, at))
        || ["](", "]:", "![", "$$", "%%", "```", "~~~", ":::", "&#"].iter().any(|mark| code.contains(mark))
}

/// Returns whether a `{` could begin an attribute list, a template or a directive, as extensions of several
/// renderers read them. A placeholder such as `{id}` could not.
pub(super) fn opens_attributes(text: &[u8], at: usize) -> bool {
    let rest = &text[at + 1..text.len().min(at + 200)];
    let first = rest.iter().find(|b| !matches!(b, b' ' | b'\t'));
    let mut to_the_end = rest.iter().take_while(|b| !matches!(b, b'}' | b'{' | b'\n'));
    first.is_none_or(|b| matches!(b, b':' | b'.' | b'#' | b'=' | b'%' | b'{' | b'!'))
        || to_the_end.by_ref().any(|&b| b == b'=')
        || rest.len() >= 199 && !rest.iter().any(|b| matches!(b, b'}' | b'{' | b'\n'))
}

/// Returns whether a `}` ends its line, whose content starts at `line`, after a `{`. If the line is a heading, some
/// renderers read the words in the braces as attributes.
pub(super) fn closes_line(text: &[u8], line: usize, at: usize) -> bool {
    let mut after = text[at + 1..].iter().skip_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'#'));
    matches!(after.next(), None | Some(b'\n')) && memchr::memchr(b'{', &text[line.min(at)..at]).is_some()
}

/// Returns whether a `[` begins the label of a definition that ends inside a code span, which does not protect it.
/// Other labels are broken at their end.
pub(super) fn opens_definition(text: &[u8], at: usize) -> bool {
    let label = &text[at + 1..text.len().min(at + 1200)];
    let end = (0..label.len()).find(|&i| matches!(label[i], b'[' | b']') && !is_escaped(label, i));
    end.is_some_and(|end| label[end..].starts_with(b"]:") && label[..end].contains(&b'`'))
}

/// Returns whether `&#` begins a character reference. Where it does not, an HTML parser may search for its
/// end through the rest of the document.
pub(super) fn is_reference(text: &[u8], at: usize) -> bool {
    let rest = &text[at + 2..text.len().min(at + 12)];
    let (digits, valid): (&[u8], fn(&u8) -> bool) = match rest.first() {
        Some(b'x' | b'X') => (&rest[1..], u8::is_ascii_hexdigit),
        _ => (rest, u8::is_ascii_digit),
    };
    let count = digits.iter().take_while(|b| valid(b)).count();
    count > 0 && digits.get(count) == Some(&b';')
}

/// Returns whether the byte at a position is escaped by a backslash.
pub(super) fn is_escaped(text: &[u8], at: usize) -> bool {
    text[..at].iter().rev().take_while(|&&b| b == b'\\').count() % 2 == 1
}

/// Returns whether the text after `](` may remain the address of a link. The first bytes decide; a renderer
/// has nothing to decode or skip before them.
pub(super) fn is_allowed_address(address: &[u8]) -> bool {
    let begins = |scheme: &str| {
        address.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
    };
    begins("https://") || begins("http://") || begins("mailto:") || begins("#")
}

/// Returns the text to insert before a byte so that no renderer autolinks a bare address with a scheme other
/// than those of [`is_allowed_address`].
pub(super) fn autolink_breaker(text: &[u8], at: usize) -> Option<&'static str> {
    let before = |word: &str| {
        let start = at.checked_sub(word.len());
        start.and_then(|start| text.get(start..at)).is_some_and(|b| b.eq_ignore_ascii_case(word.as_bytes()))
    };
    let next = |n: usize| text.get(at + n).copied().unwrap_or(b' ');
    match text[at] {
        b'/' if next(1) == b'/' && before("ftp:") => Some("\\"),
        // Renderers search for addresses after resolving escapes; only a space breaks the address.
        b if before(":") && !b.is_ascii_whitespace() && before("xmpp:") => Some(" "),
        // `//host` inherits the scheme of the page.
        b'/' if before("/") && (next(1).is_ascii_alphanumeric() || next(1) >= 0x80) => {
            let first = at.checked_sub(2).and_then(|i| text.get(i)).copied().unwrap_or(b' ');
            (!first.is_ascii_alphanumeric() && !matches!(first, b':' | b'/')).then_some("\\")
        }
        _ => None,
    }
}

/// Escapes Markdown markup in a line of text.
pub(super) fn escape_inline(text: &str) -> String {
    let text = collapse_whitespace(&strip_control_codes(text));
    let mut out = String::with_capacity(text.len() + 8);
    for (at, c) in text.char_indices() {
        if let Some(mark) = autolink_breaker(text.as_bytes(), at) {
            out.push_str(mark);
        }
        match c {
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' | '$' => {
                out.push('\\');
                out.push(c);
            }
            '%' if out.ends_with('%') => out.push_str("\\%"),
            '{' if opens_attributes(text.as_bytes(), at) => entity(&mut out, c),
            '}' if closes_line(text.as_bytes(), 0, at) => entity(&mut out, c),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a line of text so that HTML and Markdown parsers read the same text.
pub(super) fn escape_html_line(text: &str) -> String {
    let mut out = String::new();
    let text = collapse_whitespace(text);
    let mut last = ' ';
    for (at, c) in text.char_indices() {
        match autolink_breaker(text.as_bytes(), at) {
            Some(" ") => out.push(' '),
            Some(_) => {
                entity(&mut out, c);
                continue;
            }
            None => {}
        }
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '[' | '`' | '{' | '"' => entity(&mut out, c),
            '$' | '%' if last == c => entity(&mut out, c),
            c => out.push(c),
        }
        last = c;
    }
    out
}

fn entity(out: &mut String, c: char) {
    let _ = write!(out, "&#{};", u32::from(c));
}

/// Returns a `<code>` element with the text of a code span. No renderer finds active markup in it.
pub(super) fn code_element(text: &str) -> String {
    let mut out = String::from("<code>");
    for (at, c) in text.char_indices() {
        if autolink_breaker(text.as_bytes(), at) == Some(" ") {
            out.push(' ');
        }
        match c {
            '\n' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '.' | ',' | '-' | ';' | '=' | '+' | '?' | '^' | '/' => out.push(c),
            c if c.is_ascii_punctuation() => entity(&mut out, c),
            c => out.push(c),
        }
    }
    out.push_str("</code>");
    out
}

/// Escapes an id. Ids made by clients are unchanged.
pub(super) fn escape_id(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
    if text.bytes().all(plain) { text.to_owned() } else { escape_inline(text) }
}

/// Formats any line of text as code.
pub(super) fn code(text: &str) -> String {
    let text = collapse_whitespace(&strip_control_codes(text));
    match text.as_str() {
        "" => text,
        t if t.contains('`') || is_active(t) => code_element(t),
        t => format!("`{t}`"),
    }
}

/// Escapes the path of a file of the export as a link address.
pub(super) fn link_address(path: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'/');
    if path.bytes().all(plain) {
        return path.into();
    }
    let mut out = String::with_capacity(path.len() + 8);
    for b in path.bytes() {
        if plain(b) {
            out.push(char::from(b));
        } else {
            let _ = write!(out, "%{b:02X}");
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_line_renders_as_its_text() {
        assert_eq!(
            escape_inline("a *b* [c](d) <e> {f} $g ![h]"),
            "a \\*b\\* \\[c\\](d) &lt;e> {f} \\$g !\\[h\\]"
        );
        assert_eq!(
            escape_inline("ftp://a //b.c xmpp:d@e https://f"),
            "ftp:\\//a /\\/b.c xmpp: d@e https://f"
        );
        assert_eq!(escape_html_line("<b> [c] `d` \"e\""), "&lt;b&gt; &#91;c] &#96;d&#96; &#34;e&#34;");
        assert_eq!(escape_html_line("ftp://a //b"), "ftp:&#47;/a /&#47;b");
        assert_eq!(code("/a/b"), "`/a/b`");
        assert_eq!(code("<b> `c`"), "<code>&lt;b&gt; &#96;c&#96;</code>");
        assert_eq!(link_address("subagents/a b)(:.md"), "subagents/a%20b%29%28%3A.md");
    }

    #[test]
    fn only_harmless_addresses_are_linked() {
        for good in ["https://a", "HTTP://b", "mailto:a@b", "#m1"] {
            assert!(is_allowed_address(good.as_bytes()), "{good}");
        }
        for bad in
            ["javascript:x", " https://x", "<https://x>", "data:,x", "//x", "a.md", "&#104;ttps://x", ""]
        {
            assert!(!is_allowed_address(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn non_ascii_letters_can_open_a_tag() {
        // U+017F and U+212A fold to `s` and `k`.
        for text in ["<\u{17f}cript>", "<\u{212a}bd>", "<a>", "</a>", "<!--", "<?x"] {
            assert!(opens_tag(text.as_bytes(), 0) && is_active(text), "{text}");
        }
        for text in ["<", "< a", "<3", "<="] {
            assert!(!opens_tag(text.as_bytes(), 0), "{text}");
        }
    }

    #[test]
    fn words_in_braces_at_the_end_of_a_line_may_be_attributes() {
        for (text, ends) in [
            ("# a {b}", true),
            ("a {\"b c\"}  \n---", true),
            ("# a {b} ##", true),
            ("# a {b} c", false),
            ("# a {b[{c}", true),
            ("# a }", false),
        ] {
            let at = text.rfind('}').expect("a brace");
            assert_eq!(closes_line(text.as_bytes(), 0, at), ends, "{text}");
        }
    }

    #[test]
    fn placeholders_are_not_attributes() {
        for (text, opens) in
            [("{id}", false), ("{: .a}", true), ("{ a=b }", true), ("{#id}", true), ("{{ x }}", true)]
        {
            assert_eq!(opens_attributes(text.as_bytes(), 0), opens, "{text}");
        }
    }
}
