//! Finds the values of Kubernetes secrets.

use std::ops::Range;

use super::named::is_name;

/// The maximum distance between the `kind` line of a Kubernetes secret and its values.
pub(super) const REACH: usize = 1 << 14;

/// Returns the values of the Kubernetes secret whose kind is declared at `pos`.
pub(super) fn secret_values(text: &str, pos: usize) -> Vec<Range<usize>> {
    let start = text.floor_char_boundary(pos.saturating_sub(REACH));
    let end = text.ceil_char_boundary((pos + REACH).min(text.len()));
    let start = text[start..pos].rfind("\n---").map_or(start, |mark| start + mark + 1);
    let end = text[pos..end].find("\n---").map_or(end, |mark| pos + mark);
    let mut values = Vec::new();
    // The indent of the `data` key while its values are read.
    let mut within: Option<usize> = None;
    let mut line_start = start;
    for line in text[start..end].split_inclusive('\n') {
        let trimmed = line.trim_start_matches(['+', '>', ' ', '\t']);
        let indent = line.len() - trimmed.len();
        let content = trimmed.trim_end();
        if matches!(content, "data:" | "stringData:") {
            within = Some(indent);
        } else if within.is_some_and(|outer| indent <= outer) && !content.is_empty() {
            within = None;
        } else if within.is_some() && !content.is_empty() && !content.starts_with('#') {
            let value = match content.split_once(':') {
                Some((name, value)) if name.bytes().all(is_name) => value.trim_start(),
                _ => content,
            };
            let value = value.split(" #").next().unwrap_or(value).trim_end();
            let value = value.trim_matches(['"', '\'']);
            if value.len() >= 4 && !value.starts_with(['|', '{', '$']) {
                let from = line_start + indent + content.rfind(value).unwrap_or(0);
                values.push(from..from + value.len());
            }
        }
        line_start += line.len();
    }
    values.extend(json_values(text, start..end));
    values
}

/// Returns the values below `"data"` in JSON.
fn json_values(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut values = Vec::new();
    for name in ["\"data\"", "\"stringData\""] {
        let Some(pos) = text[range.clone()].find(name).map(|pos| range.start + pos + name.len()) else {
            continue;
        };
        let rest = &text[pos..range.end];
        let Some(open) = rest.find('{').filter(|open| rest[..*open].trim() == ":") else { continue };
        let close = rest[open..].find('}').map_or(rest.len(), |close| open + close);
        let mut strings = rest[open..close].match_indices('"').map(|(quote, _)| pos + open + quote);
        while let (Some(_), Some(_), Some(from), Some(to)) =
            (strings.next(), strings.next(), strings.next(), strings.next())
        {
            if to - from > 4 {
                values.push(from + 1..to);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_values_of_a_kubernetes_secret_are_found() {
        let text =
            "apiVersion: v1\ndata:\n  a: aGVsbG8=\n  b: \"d29ybGQ=\"\nkind: Secret\nmetadata:\n  name: x\n";
        let values: Vec<&str> = secret_values(text, 50).into_iter().map(|range| &text[range]).collect();
        assert_eq!(values, ["aGVsbG8=", "d29ybGQ="]);
        let json = r#"{"kind": "Secret", "data": {"a": "aGVsbG8=", "b": "d29ybGQ="}}"#;
        let values: Vec<&str> = secret_values(json, 5).into_iter().map(|range| &json[range]).collect();
        assert_eq!(values, ["aGVsbG8=", "d29ybGQ="]);
    }
}
