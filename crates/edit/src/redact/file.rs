//! Sidecar files of a log: text, JSON, and text in UTF-16 or UTF-32.

use super::{FoundSecret, Redaction, RedactionCounts};

/// The error for a file that is not text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a text file")]
pub struct NotTextError;

/// A text encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    /// Two bytes for each unit, the low one first.
    Utf16Le,
    /// Two bytes for each unit, the high one first.
    Utf16Be,
    /// Four bytes for each character, the lowest first.
    Utf32Le,
    /// Four bytes for each character, the highest first.
    Utf32Be,
}

/// Detects UTF-32: every four bytes are a valid character, and at least half of them are below U+10000. Pairs of
/// UTF-16 units do not pass this check.
fn utf32(bytes: &[u8]) -> Option<Encoding> {
    let start = bytes.get(..bytes.len().min(4096) / 4 * 4).filter(|start| start.iter().any(|b| *b != 0))?;
    let is = |read: fn([u8; 4]) -> u32| {
        let units = || start.chunks_exact(4).map(|four| read([four[0], four[1], four[2], four[3]]));
        let low = units().filter(|unit| *unit < 1 << 16).count();
        units().all(|unit| char::from_u32(unit).is_some()) && low * 8 >= start.len()
    };
    match bytes.len().is_multiple_of(4) {
        true if is(u32::from_le_bytes) => Some(Encoding::Utf32Le),
        true if is(u32::from_be_bytes) => Some(Encoding::Utf32Be),
        _ => None,
    }
}

/// Detects the encoding of a file. Without a byte order mark it is UTF-16 if at least two fifths of
/// every other byte are zero.
fn encoding(bytes: &[u8]) -> Encoding {
    if let Some(encoding) = utf32(bytes) {
        return encoding;
    }
    match bytes {
        [0xff, 0xfe, ..] => return Encoding::Utf16Le,
        [0xfe, 0xff, ..] => return Encoding::Utf16Be,
        _ => {}
    }
    let sample = &bytes[..bytes.len().min(4096) / 2 * 2];
    let empty = |at: usize| sample.iter().skip(at).step_by(2).filter(|b| **b == 0).count() * 5;
    let (even, odd) = (empty(0), empty(1));
    let many = sample.len() / 2 * 2;
    match bytes.len().is_multiple_of(2) && !sample.is_empty() {
        true if odd >= many && even < odd => Encoding::Utf16Le,
        true if even >= many && odd < even => Encoding::Utf16Be,
        _ => Encoding::Utf8,
    }
}

/// Decodes a text in any of the encodings.
fn read(bytes: &[u8]) -> Result<(String, Encoding), NotTextError> {
    let encoding = encoding(bytes);
    let unit: fn([u8; 2]) -> u16 = match encoding {
        Encoding::Utf8 => {
            let text = std::str::from_utf8(bytes).map_err(|_| NotTextError)?;
            return Ok((text.to_owned(), encoding));
        }
        Encoding::Utf16Le => u16::from_le_bytes,
        Encoding::Utf16Be => u16::from_be_bytes,
        Encoding::Utf32Le => return Ok((read_utf32(bytes, u32::from_le_bytes)?, encoding)),
        Encoding::Utf32Be => return Ok((read_utf32(bytes, u32::from_be_bytes)?, encoding)),
    };
    let units: Vec<u16> = bytes.chunks_exact(2).map(|two| unit([two[0], two[1]])).collect();
    let text = String::from_utf16(&units).map_err(|_| NotTextError)?;
    if bytes.len() % 2 == 1 { Err(NotTextError) } else { Ok((text, encoding)) }
}

fn read_utf32(bytes: &[u8], read: fn([u8; 4]) -> u32) -> Result<String, NotTextError> {
    let chars = bytes.chunks_exact(4).map(|four| char::from_u32(read([four[0], four[1], four[2], four[3]])));
    chars.collect::<Option<String>>().ok_or(NotTextError)
}

fn write(text: &str, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => text.as_bytes().to_vec(),
        Encoding::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf32Le => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        Encoding::Utf32Be => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '[', '"'])
        && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

impl Redaction {
    /// Records the secrets in a file. A file that is not text is scanned too, although it is never written.
    pub fn scan_file(&mut self, bytes: &[u8]) {
        let text = read(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |(text, _)| text);
        self.scan_text(&text);
        if is_json(&text) {
            self.scan_entry(text.as_bytes());
        }
    }

    /// Finds the secrets in a file, each with its line number.
    pub fn find_in_file(&self, bytes: &[u8]) -> Vec<(u32, FoundSecret)> {
        let text = read(bytes).map_or_else(|_| String::from_utf8_lossy(bytes).into_owned(), |(text, _)| text);
        let hits = self.find_in_text(&text);
        if hits.is_empty() && is_json(&text) {
            return self.find_in_entry(text.as_bytes()).into_iter().map(|hit| (1, hit)).collect();
        }
        hits
    }

    /// Redacts a file and counts by rule; returns `None` if nothing changes.
    pub fn rewrite_file(
        &self,
        bytes: &[u8],
        counts: &mut RedactionCounts,
    ) -> Result<Option<Vec<u8>>, NotTextError> {
        let (text, encoding) = read(bytes)?;
        let json = is_json(&text).then(|| self.rewrite_entry(text.as_bytes(), counts)).flatten();
        let json = json.and_then(|json| String::from_utf8(json).ok());
        let out = self.rewrite_text(json.as_deref().unwrap_or(&text), counts).or(json);
        Ok(out.map(|out| write(&out, encoding)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_survives_every_encoding() {
        for text in ["héllo wörld", "\u{feff}plain words 😀"] {
            for encoding in
                [Encoding::Utf8, Encoding::Utf16Le, Encoding::Utf16Be, Encoding::Utf32Le, Encoding::Utf32Be]
            {
                assert_eq!(read(&write(text, encoding)), Ok((text.to_owned(), encoding)), "{text}");
            }
        }
        let lines = "x\ny\n";
        assert_eq!(
            read(&write(lines, Encoding::Utf16Le)),
            Ok((lines.to_owned(), Encoding::Utf16Le)),
            "two characters are not one"
        );
        assert_eq!(read(&[0xff, 0xfe, 0x41]), Err(NotTextError));
        assert_eq!(read(&[0x80, 0xff, 0x41]), Err(NotTextError));
        assert_eq!(read(b""), Ok((String::new(), Encoding::Utf8)));
    }
}
