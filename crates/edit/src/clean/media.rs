//! Replaces images, documents and other data by a note with their type, size and hash.

use memchr::memmem;
use rethread_log::{Json, unescape};
use xxhash_rust::xxh3::xxh3_64;

use crate::shorten::{is_strict_base64, strings};
use crate::splice::json_string;

/// The minimum length of data that is replaced; shorter data is not worth a note.
pub(super) const MIN_DATA_LEN: usize = 512;

/// Returns the replacement for data: its type, approximate size in bytes and the hash of its base64.
fn placeholder(kind: &str, data: &[u8]) -> String {
    let start =
        memmem::find(&data[..data.len().min(128)], BASE64_MARKER).map_or(0, |at| at + BASE64_MARKER.len());
    let data = &data[start..];
    let size = match data.len() / 4 * 3 {
        n if n < 1000 => format!("{n} bytes"),
        n if n < 1_000_000 => format!("{} KB", n / 1000),
        n => format!("{}.{} MB", n / 1_000_000, n / 100_000 % 10),
    };
    format!("[{kind}, {size}, xxh3 {:016x}, removed]", xxh3_64(data))
}

const BASE64_MARKER: &[u8] = b";base64,";

/// Returns the replacement for a block with data, or `None` if it has none.
pub(super) fn replace_block(block: &[u8]) -> Option<Vec<u8>> {
    let source = Json::new(block).get("source")?;
    let data = source.get("data")?.raw_string()?;
    let kind = source.get("media_type").and_then(Json::as_str).unwrap_or_default();
    if source.get("type").and_then(Json::as_str).as_deref() == Some("text") {
        return None;
    }
    let kind = if kind.is_empty() { "data" } else { &*kind };
    let mut text = br#"{"type":"text","text":"#.to_vec();
    text.extend(json_string(&placeholder(kind, data)));
    text.push(b'}');
    Some(text)
}

/// Returns the content of a tool result with its data replaced, or `None` if it has none.
pub(super) fn replace_in_result(content: &[u8]) -> Option<Vec<u8>> {
    let json = Json::new(content);
    if !json.is_array() {
        return replace_if_long(content);
    }
    let mut out = Vec::new();
    let mut done = 0;
    for item in json.items() {
        let Some(with) = replace_block(item.raw()).or_else(|| replace_if_long(item.raw())) else { continue };
        let start = item.raw().as_ptr().addr() - content.as_ptr().addr();
        out.extend_from_slice(&content[done..start]);
        out.extend(with);
        done = start + item.raw().len();
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&content[done..]);
    Some(out)
}

/// Replaces data in the strings of a value that is long enough: strings that are all data, and `data:` URLs.
pub(super) fn replace_if_long(value: &[u8]) -> Option<Vec<u8>> {
    if value.len() < MIN_DATA_LEN {
        return None;
    }
    replace_in_strings(value)
}

/// Returns a value with the data in its strings replaced, or `None` if there is none.
pub(super) fn replace_in_strings(value: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut done = 0;
    let mut name: &[u8] = b"";
    for (start, end) in strings(value) {
        let inner = &value[start + 1..end - 1];
        if value.get(end) == Some(&b':') {
            name = inner;
        } else if inner.len() >= MIN_DATA_LEN
            && name != b"signature"
            && name != b"encrypted_content"
            && let Some(text) = without_data(inner)
        {
            out.extend_from_slice(&value[done..start]);
            out.extend(json_string(&text));
            done = end;
        }
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&value[done..]);
    Some(out)
}

/// Returns how many bytes of a value are data.
pub(super) fn media_len(value: &[u8]) -> u64 {
    let left = if value.len() >= MIN_DATA_LEN { replace_in_strings(value) } else { None };
    left.map_or(0, |left| value.len().saturating_sub(left.len()) as u64)
}

/// Returns whether a string consists of data only.
fn is_data(inner: &[u8]) -> bool {
    let body = match inner.strip_prefix(b"data:") {
        Some(link) => match memmem::find(&link[..link.len().min(128)], BASE64_MARKER) {
            Some(at) => &link[at + BASE64_MARKER.len()..],
            None => return false,
        },
        None => inner,
    };
    // Fast rejection: prose has other characters near its start.
    if body.iter().take(60).any(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'/')) {
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
    let mut even = first.len() >= 60;
    while let Some(len) = lengths.next() {
        even &= if lengths.peek().is_none() { len <= first.len() } else { len == first.len() };
    }
    let joined: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'\n' | b'\r')).collect();
    even && is_strict_base64(&joined)
}

/// Returns the text of a string with its data replaced, or `None` if there is none.
pub(super) fn without_data(inner: &[u8]) -> Option<String> {
    if is_data(inner) {
        let kind = inner.strip_prefix(b"data:").and_then(|rest| rest.split(|&b| b == b';').next());
        let kind = kind.and_then(|kind| std::str::from_utf8(kind).ok()).unwrap_or("data");
        return Some(placeholder(kind, inner));
    }
    memmem::find(inner, BASE64_MARKER)?;
    let text = unescape(inner);
    let mut out = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(";base64,") {
        let data = &rest[at + BASE64_MARKER.len()..];
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
        let len = data.bytes().take_while(|&b| plain(b)).count();
        let link = rest[..at].rfind("data:").filter(|&start| at - start < 100);
        match link.filter(|_| len >= MIN_DATA_LEN) {
            Some(start) => {
                out.push_str(&rest[..start]);
                out.push_str(&placeholder(&rest[start + 5..at], &data.as_bytes()[..len]));
            }
            None => out.push_str(&rest[..at + BASE64_MARKER.len() + len]),
        }
        rest = &data[len..];
    }
    out.push_str(rest);
    (out.len() < text.len()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_leaves_its_type_size_and_hash() {
        let data = "QUJDNz0a".repeat(250);
        let hash = xxh3_64(data.as_bytes());
        let image = format!(
            r#"{{"type":"image","source":{{"type":"base64","media_type":"image/png","data":"{data}"}}}}"#
        );
        let text = String::from_utf8(replace_block(image.as_bytes()).expect("an image")).expect("UTF-8");
        let expected = format!("[image/png, 1 KB, xxh3 {hash:016x}, removed]");
        assert_eq!(text, format!(r#"{{"type":"text","text":"{expected}"}}"#));
        let page = format!(r#""<img src=\"data:image/gif;base64,{data}\"> and more""#);
        let text = String::from_utf8(replace_in_strings(page.as_bytes()).expect("a link")).expect("UTF-8");
        assert!(
            text.starts_with(r#""<img src=\"[image/gif, 1 KB"#)
                && text.ends_with(r#", removed]\"> and more""#),
            "{text}"
        );
        assert_eq!(replace_in_strings(text.as_bytes()), None, "replacing again changes nothing");
    }

    #[test]
    fn prose_and_signatures_are_not_data() {
        let words = format!("\"{}\"", "many words of a long text ".repeat(100));
        assert_eq!(replace_in_strings(words.as_bytes()), None);
        let sealed = format!(r#"{{"signature":"{}"}}"#, "QUJDNz0a".repeat(250));
        assert_eq!(replace_in_strings(sealed.as_bytes()), None);
        let document =
            br#"{"type":"document","source":{"type":"text","media_type":"text/plain","data":"words"}}"#;
        assert_eq!(replace_block(document), None);
    }
}
