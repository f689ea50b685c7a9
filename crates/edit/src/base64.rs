//! Detects base64 in strings.
//!
//! There are two tests, because a mistake costs something different. Data is removed only if the string is strictly
//! base64, since text must never be removed as data. A string is not shortened if it is base64 in the loose sense,
//! since part of an image or document is useless.

use memchr::memmem;
use rethread_log::unescape;

/// The part of a `data:` URL before its base64.
pub(crate) const DATA_URL_MARKER: &str = ";base64,";

/// The length of a `data:` URL within which its marker is expected.
const MAX_DATA_URL_HEAD: usize = 128;

/// The minimum length of a line of wrapped base64.
const MIN_LINE: usize = 60;

/// Returns the offset of the base64 in a `data:` URL, which is after its marker.
pub(crate) fn data_url_body_start(url: &[u8]) -> Option<usize> {
    let head = &url[..url.len().min(MAX_DATA_URL_HEAD)];
    memmem::find(head, DATA_URL_MARKER.as_bytes()).map(|at| at + DATA_URL_MARKER.len())
}

/// Returns whether bytes are pure base64 with upper case, lower case and digits.
pub(crate) fn is_strict_base64(bytes: &[u8]) -> bool {
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    padding <= 2
        && body.chunks(256).all(|piece| piece.iter().fold(true, |all, &b| all & is_strict_digit(b)))
        && body.iter().any(u8::is_ascii_uppercase)
        && body.iter().any(u8::is_ascii_lowercase)
        && body.iter().any(u8::is_ascii_digit)
}

/// Returns whether a byte is a base64 digit. Branch-free, so that the loop is vectorised.
fn is_strict_digit(b: u8) -> bool {
    ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'/') < 11) | (b == b'+')
}

/// Returns whether a byte may occur in base64, URL-safe or not, with its padding.
pub(crate) fn is_loose_digit(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Returns whether the inside of a string is strictly base64: on one line, wrapped, or in a `data:` URL.
pub(crate) fn is_strict_base64_string(inner: &[u8]) -> bool {
    let body = match inner.strip_prefix(b"data:") {
        Some(url) => match data_url_body_start(url) {
            Some(start) => &url[start..],
            None => return false,
        },
        None => inner,
    };
    // Fast rejection: prose has other characters near its start.
    if !body.iter().take(MIN_LINE).all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/')) {
        return false;
    }
    if memchr::memchr(b'\\', body).is_none() {
        return is_strict_base64(body);
    }
    // Wrapped base64: escaped line breaks, and all lines but the last have the same length.
    let text = unescape(body);
    let mut lines = text.trim_end().lines();
    let first = lines.next().unwrap_or_default();
    let mut lengths = lines.map(str::len).peekable();
    let mut even = first.len() >= MIN_LINE;
    while let Some(len) = lengths.next() {
        even &= if lengths.peek().is_none() { len <= first.len() } else { len == first.len() };
    }
    let joined: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    even && is_strict_base64(&joined)
}

/// Returns whether the inside of a string is base64 in the loose sense: URL-safe and in lines of any length, too.
pub(crate) fn is_loose_base64_string(inner: &[u8]) -> bool {
    let data_url = inner.strip_prefix(b"data:");
    let data_url = data_url.and_then(|url| {
        let at = memmem::find(url, DATA_URL_MARKER.as_bytes())?;
        Some(&url[at + DATA_URL_MARKER.len()..])
    });
    let data = data_url.unwrap_or(inner);
    // Text has spaces, so most strings are rejected by their first bytes.
    if !data.trim_ascii_end().iter().all(|&b| is_loose_digit(b) || b == b'\\') {
        return false;
    }
    let text = unescape(data);
    let text = text.trim_end();
    text.bytes().all(|b| is_loose_digit(b) || matches!(b, b'\n' | b'\r'))
        && text.lines().map(str::len).max().unwrap_or(0) >= MIN_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_base64_has_lines_of_one_length() {
        let line = "QUJDNz0a".repeat(8);
        let wrapped = format!(r"{line}\n{line}\nQUJD\n");
        assert!(is_strict_base64_string(wrapped.as_bytes()) && is_loose_base64_string(wrapped.as_bytes()));
        let uneven = format!(r"{line}\nQUJD\n{line}");
        assert!(!is_strict_base64_string(uneven.as_bytes()) && is_loose_base64_string(uneven.as_bytes()));
    }

    #[test]
    fn url_safe_base64_is_not_strict() {
        let data = "iVBOR-w0KG_o".repeat(8);
        for inner in [data.clone(), format!("data:image/png;base64,{data}")] {
            assert!(!is_strict_base64_string(inner.as_bytes()) && is_loose_base64_string(inner.as_bytes()));
        }
        let data = data.replace(['-', '_'], "/");
        for inner in [data.clone(), format!("data:image/png;base64,{data}")] {
            assert!(is_strict_base64_string(inner.as_bytes()), "{inner}");
        }
    }
}
