//! Changes inside one line: values replaced, everything else as it was.

use rethread_log::{Key, Line, Span, parse_entry};

/// A line whose values are to be changed.
pub(crate) struct Splice<'a> {
    pub(crate) raw: &'a [u8],
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

    /// Replaces bytes from one place to another.
    pub(crate) fn replace_bytes(&mut self, start: usize, end: usize, with: Vec<u8>) {
        self.changes.push((start, end, with));
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

    /// Takes a field out, with its name and a comma.
    pub(crate) fn remove(&mut self, key: Key) {
        let span = self.line.field(key);
        if span.is_empty() {
            return;
        }
        let blank = |b: &u8| b.is_ascii_whitespace();
        let before = |end: usize| end - self.raw[..end].iter().rev().take_while(|b| blank(b)).count();
        // The name ends with a quote before the colon, and no name that we know has one inside.
        let colon = before(span.start());
        let name_end = before(colon.saturating_sub(1));
        let name = memchr::memrchr(b'"', &self.raw[..name_end.saturating_sub(1)]).unwrap_or(0);
        let end = span.start() + span.len();
        let behind = end + self.raw[end..].iter().take_while(|b| blank(b)).count();
        if self.raw.get(behind) == Some(&b',') {
            self.changes.push((name, behind + 1, Vec::new()));
        } else {
            let comma = before(name);
            let start = if self.raw[..comma].ends_with(b",") { comma - 1 } else { name };
            self.changes.push((start, end, Vec::new()));
        }
    }

    /// Returns the line with its changes.
    pub(crate) fn finish(&self) -> Vec<u8> {
        apply(self.raw, &self.changes)
    }
}

fn apply(raw: &[u8], changes: &[(usize, usize, Vec<u8>)]) -> Vec<u8> {
    let mut changes: Vec<_> = changes.iter().collect();
    // Of two changes of the same bytes the first one counts.
    changes.sort_by_key(|change| (change.0, change.1));
    let mut out = Vec::with_capacity(raw.len() + 64);
    let mut at = 0;
    for (start, end, with) in changes {
        if *start < at {
            continue;
        }
        out.extend_from_slice(&raw[at..*start]);
        out.extend_from_slice(with);
        at = *end;
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
