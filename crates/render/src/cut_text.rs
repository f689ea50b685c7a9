//! Cutting the strings of a JSON value to a number of characters.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

/// Fields with data that is of no use in part.
const OPAQUE: [&str; 3] = ["data", "signature", "encrypted_content"];

/// Cuts the strings of a block that have more than `limit` characters. Returns the number of characters that were
/// cut. A block that needs no cut is kept as it is.
pub(crate) fn cut_block(block: &mut Cow<'_, RawValue>, limit: usize) -> usize {
    if block.get().len() <= limit {
        return 0;
    }
    let Ok(mut value) = serde_json::from_str::<Value>(block.get()) else {
        // Text that is not valid Unicode is passed on up to the limit.
        let mut text = Value::String(block.get().to_owned());
        let cut = cut_value(&mut text, "", limit);
        replace(block, &serde_json::json!({ "type": "broken", "text": text }));
        return cut;
    };
    let cut = cut_value(&mut value, "", limit);
    if cut > 0 {
        replace(block, &value);
    }
    cut
}

fn replace(block: &mut Cow<'_, RawValue>, value: &Value) {
    if let Ok(raw) = RawValue::from_string(value.to_string()) {
        *block = Cow::Owned(raw);
    }
}

/// Cuts the strings of a value under a key. Values are at most as deep as the parser of JSON allows.
fn cut_value(value: &mut Value, key: &str, limit: usize) -> usize {
    match value {
        Value::String(text) => cut_string(text, if OPAQUE.contains(&key) { 0 } else { limit }),
        Value::Array(items) => items.iter_mut().map(|item| cut_value(item, key, limit)).sum(),
        Value::Object(members) => members.iter_mut().map(|(key, value)| cut_value(value, key, limit)).sum(),
        _ => 0,
    }
}

/// Cuts a text to a number of characters, and marks the place. Returns the number of characters that were cut.
pub(crate) fn cut_string(text: &mut String, limit: usize) -> usize {
    let Some((end, _)) = text.char_indices().nth(limit) else { return 0 };
    let cut = text[end..].chars().count();
    text.truncate(end);
    text.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(block: &str, limit: usize) -> (usize, String) {
        let raw = RawValue::from_string(block.to_owned()).expect("JSON");
        let mut block = Cow::Owned(raw);
        let n = cut_block(&mut block, limit);
        (n, block.get().to_owned())
    }

    #[test]
    fn long_strings_are_cut_at_characters_and_counted() {
        let block = r#"{"type":"text","text":"漢字漢字 and more"}"#;
        assert_eq!(cut(block, 5), (8, r#"{"type":"text","text":"漢字漢字 …"}"#.to_owned()));
        assert_eq!(cut(block, 100), (0, block.to_owned()));
    }

    #[test]
    fn numbers_of_a_block_that_needs_no_cut_are_kept_as_written() {
        let block = r#"{"type":"tool_use","input":{"n":1.00,"n":2}}"#;
        assert_eq!(cut(block, 10), (0, block.to_owned()));
    }

    #[test]
    fn opaque_data_is_left_out() {
        let block = r#"{"type":"image","source":{"data":"AAAABBBBCCCC","media_type":"image/png"}}"#;
        let cut = cut(block, 20);
        assert_eq!(
            cut,
            (12, r#"{"type":"image","source":{"data":"…","media_type":"image/png"}}"#.to_owned())
        );
    }

    #[test]
    fn text_that_is_not_unicode_is_cut_too() {
        let (n, text) = cut(r#"{"type":"text","text":"\ud800 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}"#, 20);
        assert!(n > 0 && text.starts_with(r#"{"type":"broken","#), "{text}");
    }
}
