//! Changes inside one line: values replaced, everything else as it was.

use rethread_log::{Key, Line, Span, parse_entry};

/// A line whose values are to be changed.
pub(crate) struct Splice<'a> {
    raw: &'a [u8],
    pub(crate) line: Line,
    /// What replaces which bytes, in no order.
    changes: Vec<(usize, usize, Vec<u8>)>,
}

impl<'a> Splice<'a> {
    /// Takes the bytes of one entry.
    pub(crate) fn new(raw: &'a [u8]) -> Self {
        let mut line = Line::default();
        parse_entry(raw, &mut line);
        Self { raw, line, changes: Vec::new() }
    }

    /// Replaces bytes by others.
    pub(crate) fn replace(&mut self, span: Span, with: Vec<u8>) {
        self.changes.push((span.start(), span.start() + span.len(), with));
    }

    fn insert(&mut self, at: usize, key: &str, value: &[u8]) {
        let mut member = format!("\"{key}\":").into_bytes();
        member.extend_from_slice(value);
        member.push(b',');
        self.changes.push((at, at, member));
    }

    /// Gives a field of the entry a value, and the field itself if it is not there.
    pub(crate) fn set(&mut self, key: Key, value: Vec<u8>) {
        let span = self.line.field(key);
        if span.is_empty() {
            let start = self.raw.iter().position(|&b| b == b'{').unwrap_or(0);
            self.insert(start + 1, key.name(), &value);
        } else {
            self.replace(span, value);
        }
    }

    /// Gives a field of the message a value. An entry without a message stays as it is.
    pub(crate) fn set_in_message(&mut self, key: &str, span: Span, value: Vec<u8>) {
        let Some(message) = self.line.message else { return };
        if span.is_empty() {
            self.insert(message.whole.start() + 1, key, &value);
        } else {
            self.replace(span, value);
        }
    }

    /// Returns a block with the changes inside it.
    pub(crate) fn block(&self, span: Span) -> Vec<u8> {
        let (start, end) = (span.start(), span.start() + span.len());
        let inside = |change: &&(usize, usize, Vec<u8>)| change.0 >= start && change.1 <= end;
        apply(&self.raw[start..end], start, self.changes.iter().filter(inside))
    }

    /// Takes back the changes inside a span, which is replaced as a whole.
    pub(crate) fn replace_whole(&mut self, span: Span, with: Vec<u8>) {
        let (start, end) = (span.start(), span.start() + span.len());
        self.changes.retain(|change| change.1 <= start || change.0 >= end);
        self.replace(span, with);
    }

    /// Returns the line with its changes.
    pub(crate) fn finish(&self) -> Vec<u8> {
        apply(self.raw, 0, self.changes.iter())
    }
}

fn apply<'c>(
    raw: &[u8],
    offset: usize,
    changes: impl Iterator<Item = &'c (usize, usize, Vec<u8>)>,
) -> Vec<u8> {
    let mut changes: Vec<_> = changes.collect();
    changes.sort_by_key(|change| (change.0, change.1));
    let mut out = Vec::with_capacity(raw.len() + 64);
    let mut at = 0;
    for (start, end, with) in changes {
        let (start, end) = (start - offset, end - offset);
        if start < at {
            continue;
        }
        out.extend_from_slice(&raw[at..start]);
        out.extend_from_slice(with);
        at = end;
    }
    out.extend_from_slice(&raw[at..]);
    out
}

/// Spells a text as JSON.
pub(crate) fn string(text: &str) -> Vec<u8> {
    serde_json::to_vec(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_changes() {
        let raw = br#"{"b" : 1.50, "parentUuid":null,"message":{"content":[{"x":1},2]},"e":"\u00e9"}"#;
        let mut splice = Splice::new(raw);
        splice.set(Key::ParentUuid, string("p"));
        splice.set(Key::Uuid, string("u"));
        splice.set_in_message("id", Span::default(), string("m"));
        let out = String::from_utf8(splice.finish()).expect("UTF-8");
        assert_eq!(
            out,
            r#"{"uuid":"u","b" : 1.50, "parentUuid":"p","message":{"id":"m","content":[{"x":1},2]},"e":"\u00e9"}"#
        );
    }
}
