//! Finds the ends of JSON values without decoding their content.
//!
//! A session line consists mostly of long strings that nobody asks for. The functions here skip them
//! sixteen bytes at a time and never recurse, so a line of any length or depth costs one pass.
//!
//! A skipped value is not validated. Instead [`Walker::suspicious`] is set whenever something appears
//! where no JSON writer puts it (a string that begins after a letter, a raw control character, an unknown
//! literal); the caller then runs a strict parser on that line alone.

mod lanes;

use wide::u8x16;

use lanes::{ContainerEnd, StringEnd, with_lanes};

/// Returns the positions of the bytes that matter inside a string: `"`, `\` and control characters.
#[inline(always)]
fn string_stops(block: u8x16) -> u32 {
    let quote = block.simd_eq(u8x16::splat(b'"'));
    let slash = block.simd_eq(u8x16::splat(b'\\'));
    let limit = u8x16::splat(0x1f);
    let control = block.max(limit).simd_eq(limit);
    (quote | slash | control).to_bitmask()
}

/// The reason why a value could not be skipped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScanError {
    /// The bytes ended inside the value.
    CutShort,
    /// A byte appears where JSON does not allow it.
    NotJson,
}

/// A position-free walker over the bytes of one line.
pub(crate) struct Walker<'a> {
    pub(crate) bytes: &'a [u8],
    /// Set if only a strict parser can judge the line.
    pub(crate) suspicious: bool,
}

impl<'a> Walker<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, suspicious: false }
    }

    /// Returns the first index at or after `at` that is not white space.
    #[inline(always)]
    pub(crate) fn skip_space(&self, mut at: usize) -> usize {
        // Clients write no white space between tokens.
        if self.bytes.get(at).is_some_and(|&b| b > b' ') {
            return at;
        }
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.bytes.get(at) {
            at += 1;
        }
        at
    }

    /// Returns the index of the closing quote and whether the string contains a backslash; `at` is after
    /// the opening quote.
    #[inline(always)]
    pub(crate) fn string_end(&mut self, at: usize) -> Result<(usize, bool), ScanError> {
        // Most keys and ids end within sixteen bytes.
        if let Some(first) = self.bytes.get(at..).and_then(<[u8]>::first_chunk::<16>) {
            let stops = string_stops(u8x16::new(*first));
            let stop = stops.trailing_zeros() as usize;
            if stops != 0 && first[stop] == b'"' {
                return Ok((at + stop, false));
            }
        }
        self.long_string_end(at)
    }

    fn long_string_end(&mut self, at: usize) -> Result<(usize, bool), ScanError> {
        let string = with_lanes(StringEnd { bytes: self.bytes, at })?;
        self.suspicious |= string.suspicious;
        Ok((string.end, string.escaped))
    }

    /// Returns the index after the value that begins at `at`.
    #[inline]
    pub(crate) fn value_end(&mut self, at: usize) -> Result<usize, ScanError> {
        match self.bytes.get(at) {
            None => Err(ScanError::CutShort),
            Some(b'"') => Ok(self.string_end(at + 1)?.0 + 1),
            Some(b'{' | b'[') => self.container_end(at),
            Some(b',' | b'}' | b']' | b':') => Err(ScanError::NotJson),
            Some(_) => self.scalar_end(at),
        }
    }

    fn scalar_end(&mut self, at: usize) -> Result<usize, ScanError> {
        let rest = &self.bytes[at..];
        let len = rest
            .iter()
            .position(|b| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n'))
            .unwrap_or(rest.len());
        let word = &rest[..len];
        let simple = match word {
            b"true" | b"false" | b"null" => true,
            // Plain integers, as `JSON.stringify` writes them; other numbers are left to the strict
            // parser.
            [b'1'..=b'9', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
            [b'0'] => true,
            _ => false,
        };
        if simple {
            return Ok(at + len);
        }
        if word.iter().any(|b| !b.is_ascii_alphanumeric() && !matches!(b, b'+' | b'-' | b'.')) {
            return Err(ScanError::NotJson);
        }
        self.suspicious = true;
        Ok(at + len)
    }

    fn container_end(&mut self, at: usize) -> Result<usize, ScanError> {
        let (end, suspicious) = with_lanes(ContainerEnd { bytes: self.bytes, at })?;
        self.suspicious |= suspicious;
        Ok(end)
    }

    /// Visits the members of the object whose `{` is at `at` and returns the index after it.
    ///
    /// `visit` gets the walker, the key's bytes without quotes, whether the key contains escapes, and the
    /// start of the value; it returns the index after the value.
    #[inline(always)]
    pub(crate) fn walk_object(
        &mut self,
        at: usize,
        mut visit: impl FnMut(&mut Self, &'a [u8], bool, usize) -> Result<usize, ScanError>,
    ) -> Result<usize, ScanError> {
        debug_assert_eq!(self.bytes.get(at), Some(&b'{'));
        let mut pos = self.skip_space(at + 1);
        if self.bytes.get(pos) == Some(&b'}') {
            return Ok(pos + 1);
        }
        loop {
            match self.bytes.get(pos) {
                Some(b'"') => {}
                None => return Err(ScanError::CutShort),
                Some(_) => return Err(ScanError::NotJson),
            }
            let (end, escaped) = self.string_end(pos + 1)?;
            let key = &self.bytes[pos + 1..end];
            pos = self.skip_space(end + 1);
            match self.bytes.get(pos) {
                Some(b':') => {}
                None => return Err(ScanError::CutShort),
                Some(_) => return Err(ScanError::NotJson),
            }
            let value = self.skip_space(pos + 1);
            pos = visit(self, key, escaped, value)?;
            pos = self.skip_space(pos);
            match self.bytes.get(pos) {
                Some(b',') => pos = self.skip_space(pos + 1),
                Some(b'}') => return Ok(pos + 1),
                None => return Err(ScanError::CutShort),
                Some(_) => return Err(ScanError::NotJson),
            }
        }
    }

    /// Visits the items of the array whose `[` is at `at` and returns the index after it.
    #[inline(always)]
    pub(crate) fn walk_array(
        &mut self,
        at: usize,
        mut visit: impl FnMut(&mut Self, usize) -> Result<usize, ScanError>,
    ) -> Result<usize, ScanError> {
        debug_assert_eq!(self.bytes.get(at), Some(&b'['));
        let mut pos = self.skip_space(at + 1);
        if self.bytes.get(pos) == Some(&b']') {
            return Ok(pos + 1);
        }
        loop {
            pos = visit(self, pos)?;
            pos = self.skip_space(pos);
            match self.bytes.get(pos) {
                Some(b',') => pos = self.skip_space(pos + 1),
                Some(b']') => return Ok(pos + 1),
                None => return Err(ScanError::CutShort),
                Some(_) => return Err(ScanError::NotJson),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &str) -> Result<usize, ScanError> {
        Walker::new(text.as_bytes()).value_end(0)
    }

    #[test]
    fn value_end_finds_the_end_of_each_kind_of_value() {
        for value in [
            r#""""#,
            r#""a\"b\\""#,
            r#""a string of more than sixteen bytes \n with \\ escapes""#,
            "{}",
            "[]",
            r#"{"a":[1,{"b":"}]"}],"c":"\\"}"#,
            "true",
            "-1.5e3",
        ] {
            assert_eq!(end(value), Ok(value.len()), "{value}");
            assert_eq!(end(&format!("{value},\"next\":1")), Ok(value.len()), "{value} with more");
        }
    }

    #[test]
    fn truncated_values_are_cut_short() {
        for value in [r#""abc"#, r#""abc\"#, "{", r#"{"a":["#, ""] {
            assert_eq!(end(value), Err(ScanError::CutShort), "{value}");
        }
        assert_eq!(end("}"), Err(ScanError::NotJson));
    }

    #[test]
    fn invalid_neighbours_of_strings_are_suspicious() {
        let suspicious = |text: &str| {
            let mut walker = Walker::new(text.as_bytes());
            walker.value_end(0).expect("balanced");
            walker.suspicious
        };
        assert!(!suspicious(r#"{"a":"b","c":["d"]}"#));
        assert!(suspicious(r#"{"a":"b"x,"c":"d"}"#));
        assert!(suspicious("{\"a\":\"raw\ttab\"}"));
    }

    #[test]
    fn deep_nesting_does_not_recurse() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        assert_eq!(end(&deep), Ok(2_000_000));
    }
}
