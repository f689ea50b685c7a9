//! A JSON value, borrowed as its encoded bytes.
//!
//! [`Json`] never copies and never fails: a lookup returns a value or `None`. Numbers keep their encoding
//! and duplicate keys are all preserved (the last one wins, as in the client). Lone surrogates and
//! invalid UTF-8 become U+FFFD, but only when the text is requested.

use std::borrow::Cow;

use crate::scan::Walker;

/// One JSON value, borrowed from its line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Json<'a>(&'a [u8]);

impl<'a> Json<'a> {
    /// Wraps the bytes of one value; surrounding white space is allowed.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes.trim_ascii())
    }

    /// Returns the encoded bytes of the value.
    pub fn raw(self) -> &'a [u8] {
        self.0
    }

    /// Returns whether the value is `null`.
    pub fn is_null(self) -> bool {
        self.0 == b"null"
    }

    /// Returns whether the value is an object.
    pub fn is_object(self) -> bool {
        self.0.first() == Some(&b'{')
    }

    /// Returns whether the value is an array.
    pub fn is_array(self) -> bool {
        self.0.first() == Some(&b'[')
    }

    /// Returns whether the value is a string.
    pub fn is_string(self) -> bool {
        self.0.first() == Some(&b'"')
    }

    /// Returns the bytes between the quotes of a string, escapes included.
    pub fn raw_string(self) -> Option<&'a [u8]> {
        match self.0 {
            [b'"', inner @ .., b'"'] => Some(inner),
            _ => None,
        }
    }

    /// Returns the text of a string.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        self.raw_string().map(unescape)
    }

    /// Returns a boolean.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        }
    }

    /// Returns a non-negative integer.
    pub fn as_u64(self) -> Option<u64> {
        // Usage consists of numbers; nineteen digits cannot overflow.
        let digits = self.0;
        if digits.is_empty() || digits.len() > 19 || !digits.iter().all(u8::is_ascii_digit) {
            return std::str::from_utf8(digits).ok()?.parse().ok();
        }
        Some(digits.iter().fold(0, |number, &digit| number * 10 + u64::from(digit - b'0')))
    }

    /// Returns the last member called `key`.
    pub fn get(self, key: &str) -> Option<Self> {
        let mut found = None;
        self.for_each_member(|name, value| {
            if name == key.as_bytes() {
                found = Some(value);
            }
        });
        found
    }

    /// Visits the members of an object in order. Any other value has none.
    pub fn for_each_member(self, mut visit: impl FnMut(&[u8], Self)) {
        if self.is_object() {
            let mut walker = Walker::new(self.0);
            // An invalid object yields the members before the error.
            let _ = walker.walk_object(0, |walker, key, escaped, at| {
                let end = walker.value_end(at)?;
                let value = Json::new(&walker.bytes[at..end]);
                if escaped {
                    visit(unescape(key).as_bytes(), value);
                } else {
                    visit(key, value);
                }
                Ok(end)
            });
        }
    }

    /// Returns the items of an array in order. Any other value has none.
    pub fn items(self) -> impl Iterator<Item = Json<'a>> {
        let mut items = Vec::new();
        if self.is_array() {
            let mut walker = Walker::new(self.0);
            let _ = walker.walk_array(0, |walker, at| {
                let end = walker.value_end(at)?;
                items.push(Json::new(&walker.bytes[at..end]));
                Ok(end)
            });
        }
        items.into_iter()
    }
}

impl std::fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json({})", String::from_utf8_lossy(self.0))
    }
}

/// Resolves the escapes in the inner bytes of a string. Invalid escapes and invalid UTF-8 become U+FFFD.
pub fn unescape(inner: &[u8]) -> Cow<'_, str> {
    let text = decode_lossy(inner);
    let bytes = text.as_bytes();
    if memchr::memchr(b'\\', bytes).is_none() {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for slash in memchr::memchr_iter(b'\\', bytes) {
        // This backslash is itself escaped.
        if slash < done {
            continue;
        }
        let (c, used) = escape_sequence(&bytes[slash..]);
        out.push_str(&text[done..slash]);
        out.push(c);
        done = slash + used;
    }
    out.push_str(&text[done..]);
    Cow::Owned(out)
}

/// Decodes bytes as text, with U+FFFD for invalid UTF-8. Nearly all input is valid, and validation is
/// fast.
fn decode_lossy(bytes: &[u8]) -> Cow<'_, str> {
    simdutf8::basic::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

/// Decodes the escape at the start of `bytes`; returns its character and its length in bytes.
fn escape_sequence(bytes: &[u8]) -> (char, usize) {
    let simple = match bytes.get(1) {
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'u') => return unicode_escape(bytes),
        Some(&c) if c.is_ascii() => char::from(c),
        _ => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (simple, 2)
}

fn unicode_escape(bytes: &[u8]) -> (char, usize) {
    let unit = |at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let Some(first) = unit(0) else {
        return (char::REPLACEMENT_CHARACTER, 2);
    };
    if let Some(c) = char::from_u32(u32::from(first)) {
        return (c, 6);
    }
    let pair = unit(6).and_then(|second| char::decode_utf16([first, second]).next()?.ok());
    match pair {
        Some(c) => (c, 12),
        None => (char::REPLACEMENT_CHARACTER, 6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescape_resolves_every_escape() {
        let cases: [(&str, &str); 8] = [
            ("plain", "plain"),
            (r"a\nb\t\\\/\u0041", "a\nb\t\\/A"),
            (r"\ud83d\ude00!", "😀!"),
            (r"lone \ud83d end", "lone \u{fffd} end"),
            (r"lone \ude00", "lone \u{fffd}"),
            (r"\ud83d\ud83d\ude00", "\u{fffd}😀"),
            (r"bad \u12", "bad \u{fffd}12"),
            ("tail\\", "tail\u{fffd}"),
        ];
        for (raw, text) in cases {
            assert_eq!(unescape(raw.as_bytes()), text, "{raw}");
        }
        assert_eq!(unescape(b"bad \xff\\n"), "bad \u{fffd}\n");
        assert_eq!(unescape("\\é\\u00é".as_bytes()), "\u{fffd}é\u{fffd}00é");
    }

    #[test]
    fn numbers_are_read_up_to_the_largest() {
        for number in [0, 7, 1234, 9_999_999_999_999_999_999, u64::MAX] {
            assert_eq!(Json::new(number.to_string().as_bytes()).as_u64(), Some(number));
        }
        for text in ["", "18446744073709551616", "-1", "1.5", "1e3", "x", "\"1\"", "null"] {
            assert_eq!(Json::new(text.as_bytes()).as_u64(), None, "{text}");
        }
    }

    #[test]
    fn get_finds_the_last_member_of_that_name() {
        let value = Json::new(br#" {"a":1,"b":{"c":["x",true]},"a":2,"\u0064":null} "#);
        assert_eq!(value.get("a").and_then(Json::as_u64), Some(2));
        assert!(value.get("d").is_some_and(Json::is_null));
        let list = value.get("b").and_then(|b| b.get("c")).expect("b.c");
        let items: Vec<_> = list.items().collect();
        assert_eq!(items[0].as_str().as_deref(), Some("x"));
        assert_eq!(items[1].as_bool(), Some(true));
        assert!(value.get("x").is_none());
    }
}
