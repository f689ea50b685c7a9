//! Replaces images, documents and other data by a note with their type, size and hash.

use memchr::memmem;
use rethread_log::{Json, Span, unescape};
use xxhash_rust::xxh3::xxh3_64;

use crate::base64::{DATA_URL_MARKER, data_url_body_start, is_loose_digit, is_strict_base64_string};
use crate::shorten::strings;
use crate::splice::{RangeReplacer, json_string};

/// The minimum length of data that is replaced; shorter data is not worth a note.
pub(super) const MIN_DATA_LEN: usize = 512;

/// Returns the replacement for data: its type, approximate size in bytes and the hash of its base64.
fn placeholder(kind: &str, data: &[u8]) -> String {
    let data = &data[data_url_body_start(data).unwrap_or(0)..];
    let size = match data.len() / 4 * 3 {
        n if n < 1000 => format!("{n} bytes"),
        n if n < 1_000_000 => format!("{} KB", n / 1000),
        n => format!("{}.{} MB", n / 1_000_000, n / 100_000 % 10),
    };
    format!("[{kind}, {size}, xxh3 {:016x}, removed]", xxh3_64(data))
}

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
    let mut replacer = RangeReplacer::new(content);
    for item in json.items() {
        if let Some(with) = replace_block(item.raw()).or_else(|| replace_if_long(item.raw())) {
            replacer.replace(Span::of_part(item.raw(), content).range(), &with);
        }
    }
    replacer.finish()
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
    let mut replacer = RangeReplacer::new(value);
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
            replacer.replace(start..end, &json_string(&text));
        }
    }
    replacer.finish()
}

/// Returns how many bytes of a value are data.
pub(super) fn media_len(value: &[u8]) -> u64 {
    let left = if value.len() >= MIN_DATA_LEN { replace_in_strings(value) } else { None };
    left.map_or(0, |left| value.len().saturating_sub(left.len()) as u64)
}

/// Returns the text of a string with its data replaced, or `None` if there is none.
pub(super) fn without_data(inner: &[u8]) -> Option<String> {
    if is_strict_base64_string(inner) {
        let kind = inner.strip_prefix(b"data:").and_then(|rest| rest.split(|&b| b == b';').next());
        let kind = kind.and_then(|kind| std::str::from_utf8(kind).ok()).unwrap_or("data");
        return Some(placeholder(kind, inner));
    }
    memmem::find(inner, DATA_URL_MARKER.as_bytes())?;
    let text = unescape(inner);
    let mut out = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(DATA_URL_MARKER) {
        let data = &rest[at + DATA_URL_MARKER.len()..];
        let len = data.bytes().take_while(|&b| is_loose_digit(b)).count();
        let url = rest[..at].rfind("data:").filter(|&start| at - start < 100);
        match url.filter(|_| len >= MIN_DATA_LEN) {
            Some(start) => {
                out.push_str(&rest[..start]);
                out.push_str(&placeholder(&rest[start + 5..at], &data.as_bytes()[..len]));
            }
            None => out.push_str(&rest[..at + DATA_URL_MARKER.len() + len]),
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
