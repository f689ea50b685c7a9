//! Long strings in fewer words.
//!
//! Of a string that is too long its beginning and its end stay, with a mark between them that says how
//! much is missing. What is no text is left alone: pictures and documents are worth nothing in part,
//! and ids and signatures name something.

use rethread_log::{Json, unescape};

use crate::splice::string;

/// What a mark is longer than: to cut less would make the string longer.
const WORTH: usize = 40;

/// Shortens all strings of a JSON value that have more characters than `limit`; returns nothing if
/// there is none.
pub(crate) fn shorten(value: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut done = 0;
    let mut key: &[u8] = b"";
    let mut at = 0;
    for (start, end) in strings(value) {
        let inner = &value[start + 1..end - 1];
        // What stands behind a closing bracket is not that object's.
        if value[at..start].iter().any(|b| matches!(b, b'}' | b']')) {
            key = b"";
        }
        let behind = value[end..].iter().find(|b| !b.is_ascii_whitespace());
        if behind == Some(&b':') {
            key = inner;
        } else if inner.len() > limit + WORTH
            && !names_something(key)
            && let Some(short) = cut(inner, limit)
        {
            out.extend_from_slice(&value[done..start]);
            out.extend(string(&short));
            done = end;
        }
        at = end;
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&value[done..]);
    Some(out)
}

/// Shortens what a call was given, or what a result says; returns nothing if that is short.
pub(crate) fn shorten_block(block: &[u8], limit: usize) -> Option<Vec<u8>> {
    let json = Json::new(block);
    let value = json.get("input").or_else(|| json.get("content"))?.raw();
    let start = value.as_ptr().addr() - block.as_ptr().addr();
    let short = shorten(value, limit)?;
    Some([&block[..start], &short, &block[start + value.len()..]].concat())
}

/// The strings of a JSON value, names too: where each begins and ends, with its quotes.
pub(crate) fn strings(value: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + memchr::memchr(b'"', &value[at..])?;
        at = string_end(value, start)?;
        Some((start, at))
    })
}

/// The place behind the string that begins with a quote at `start`.
fn string_end(value: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', value.get(at..)?)?;
        match value[found] {
            b'"' => return Some(found + 1),
            _ => at = found + 2,
        }
    }
}

/// Fields whose strings are names, not texts.
fn names_something(key: &[u8]) -> bool {
    let names =
        [&b"id"[..], b"ids", b"uuid", b"type", b"signature", b"encrypted_content", b"encrypted_index"];
    let ends = [&b"_id"[..], b"Id", b"ID", b"_ids", b"Ids", b"Uuid", b"UUID", b"_type", b"Type"];
    names.contains(&key) || ends.iter().any(|end| key.ends_with(end))
}

fn cut(inner: &[u8], limit: usize) -> Option<String> {
    let text = unescape(inner);
    // Only a text with that many bytes can have that many characters.
    if text.len() <= limit + WORTH {
        return None;
    }
    let n = text.chars().count();
    if n <= limit + WORTH || is_base64(&text) {
        return None;
    }
    let (head, tail) = (limit - limit / 3, limit / 3);
    let (start, rest) = text.split_at(place_of(text.char_indices(), head, text.len()));
    // What was cut so before stays so.
    if let Some(marked) = rest.strip_prefix("… [") {
        let end = marked.split_once(" characters cut] …").map(|(_, end)| end);
        if end.is_some_and(|end| end.chars().count() == tail) {
            return None;
        }
    }
    let from = if tail == 0 { text.len() } else { place_of(text.char_indices().rev(), tail - 1, 0) };
    Some(format!("{start}… [{} characters cut] …{}", n - limit, &text[from..]))
}

/// The place of the character number `n`, or `end` if there are fewer.
fn place_of(mut chars: impl Iterator<Item = (usize, char)>, n: usize, end: usize) -> usize {
    chars.nth(n).map_or(end, |(at, _)| at)
}

/// Tells whether bytes are base64 and nothing else, all kinds of letters among them.
pub(crate) fn is_strict_base64(bytes: &[u8]) -> bool {
    let padding = bytes.iter().rev().take_while(|b| **b == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    padding <= 2
        && body.chunks(256).all(|piece| piece.iter().fold(true, |all, &b| all & is_base64_digit(b)))
        && body.iter().any(u8::is_ascii_uppercase)
        && body.iter().any(u8::is_ascii_lowercase)
        && body.iter().any(u8::is_ascii_digit)
}

/// Without a branch, so that many are looked at at once.
fn is_base64_digit(b: u8) -> bool {
    ((b | 0x20).wrapping_sub(b'a') < 26) | (b.wrapping_sub(b'/') < 11) | (b == b'+')
}

/// Tells whether a text is data in disguise.
pub(crate) fn is_base64(text: &str) -> bool {
    let data = text.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")).map(|(_, data)| data);
    let data = data.unwrap_or(text).trim_end();
    let plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_' | b'\n' | b'\r');
    // Words have spaces, and lines of base64 are long.
    data.bytes().all(plain) && data.lines().map(str::len).max().unwrap_or(0) >= 60
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(value: &serde_json::Value, limit: usize) -> serde_json::Value {
        let bytes = value.to_string().into_bytes();
        let once = shorten(&bytes, limit).unwrap_or(bytes);
        assert_eq!(shorten(&once, limit), None, "twice changes nothing more");
        serde_json::from_slice(&once).expect("JSON")
    }

    #[test]
    fn texts_are_cut_and_data_and_ids_are_not() {
        let long = "wörd \"x\" ".repeat(50);
        let data = "iVBORw0KGgo".repeat(40);
        let value = serde_json::json!({
            "command": long, "id": "x y ".repeat(60), "list": [long, 1.50, null, "short"],
            "source": { "data": data, "type": "base64" }, "url": format!("data:image/png;base64,{data}"),
        });
        let cut = short(&value, 60);
        let wanted = format!(
            "{}… [390 characters cut] …{}",
            &long.chars().take(40).collect::<String>(),
            &long.chars().skip(430).collect::<String>()
        );
        assert_eq!(cut["command"], wanted);
        assert_eq!(cut["list"], serde_json::json!([wanted, 1.50, null, "short"]));
        for same in ["id", "source", "url"] {
            assert_eq!(cut[same], value[same]);
        }
    }

    #[test]
    fn any_limit_is_stable() {
        for limit in [0, 1, 2, 3, 7, 50] {
            let cut = short(&serde_json::json!("a b c d ".repeat(40)), limit);
            assert!(cut.as_str().expect("a string").chars().count() <= limit + WORTH, "{cut}");
        }
        assert_eq!(short(&serde_json::json!("x".repeat(59)), 20), "x".repeat(59));
    }

    #[test]
    fn a_name_is_only_what_is_called_so() {
        let long = "some words ".repeat(20);
        let value = serde_json::json!({ "grid": long, "list": [{ "id": "x" }, long], "agentId": long });
        let cut = short(&value, 20);
        assert_ne!(cut["grid"], long);
        assert_ne!(cut["list"][1], long);
        assert_eq!(cut["agentId"], long);
    }

    #[test]
    fn what_is_no_json_is_left_alone() {
        assert_eq!(shorten(b"\"abc", 1), None);
        assert_eq!(shorten(b"", 1), None);
    }
}
