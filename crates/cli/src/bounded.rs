//! Fits an output into a number of characters.
//!
//! Short texts are worth more than the ends of long ones, so all texts are cut to the same length: the longest with which
//! everything fits. It is found by trying. An attempt stops as soon as it is too long, so it costs no more than what it
//! may print. If even short texts do not fit, the messages that do are printed, and where to go on.

use std::io::{self, Write};

/// If not all messages fit, the part of the characters that one text may have.
const TEXTS_PER_PAGE: usize = 8;

/// Output in memory that takes a limited number of characters.
pub(crate) struct BoundedOutput {
    text: Vec<u8>,
    room: usize,
    is_full: bool,
}

impl BoundedOutput {
    fn new(max_chars: usize) -> Self {
        Self { text: Vec::new(), room: max_chars, is_full: false }
    }

    /// Drops the last paragraph, such as a heading without a text, or else the last line, which may not be complete.
    fn drop_last_part(&mut self) {
        let paragraph = memchr::memmem::rfind(&self.text, b"\n\n");
        let line = || self.text.iter().rposition(|&b| b == b'\n');
        self.text.truncate(paragraph.or_else(line).map_or(0, |at| at + 1));
    }
}

impl Write for BoundedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A byte that continues a character has the bits 10 first.
        let chars = bytes.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        if chars > self.room {
            self.is_full = true;
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.room -= chars;
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A text that has at most the wanted number of characters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fitted {
    pub(crate) text: Vec<u8>,
    /// Set if the text stops before its end.
    pub(crate) is_cut_off: bool,
    /// The number of characters to which texts are cut; `None` if none are.
    pub(crate) limit: Option<usize>,
}

/// Writes texts cut to a number of characters, or whole; `R` describes what was written.
type WriteTexts<'w, R> = &'w mut dyn FnMut(&mut BoundedOutput, Option<usize>) -> io::Result<R>;

/// Returns what `write` writes with the largest limit of texts, at least `min_text`, with which all of it has at most
/// `max_chars` characters; `None` if it has more in any case.
pub(crate) fn fit<R>(
    max_chars: usize,
    min_text: usize,
    write: WriteTexts<'_, R>,
) -> io::Result<Option<(Fitted, R)>> {
    let mut attempt = |limit: Option<usize>| {
        let mut out = BoundedOutput::new(max_chars);
        match write(&mut out, limit) {
            Ok(report) => Ok(Some((Fitted { text: out.text, is_cut_off: false, limit }, report))),
            Err(_) if out.is_full => Ok(None),
            Err(error) => Err(error),
        }
    };
    if let Some(whole) = attempt(None)? {
        return Ok(Some(whole));
    }
    let Some(mut best) = attempt(Some(min_text))? else { return Ok(None) };
    let (mut fits, mut exceeds) = (min_text, max_chars);
    while exceeds > fits + fits / 8 {
        let limit = fits.saturating_mul(exceeds).isqrt();
        match attempt(Some(limit))? {
            Some(better) => (fits, best) = (limit, better),
            None => exceeds = limit,
        }
    }
    Ok(Some(best))
}

/// Returns as many lines of what `write` writes as fit, with texts cut to a part of them. `write` keeps count itself.
pub(crate) fn fit_beginning(
    max_chars: usize,
    min_text: usize,
    write: &mut dyn FnMut(&mut BoundedOutput, Option<usize>) -> io::Result<()>,
) -> io::Result<Fitted> {
    let limit = Some((max_chars / TEXTS_PER_PAGE).max(min_text));
    let mut out = BoundedOutput::new(max_chars);
    let written = write(&mut out, limit);
    if out.is_full {
        out.drop_last_part();
    } else {
        written?;
    }
    Ok(Fitted { text: out.text, is_cut_off: out.is_full, limit })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Writes texts, one per line, cut to a limit.
    fn write_texts(texts: &[String]) -> impl FnMut(&mut BoundedOutput, Option<usize>) -> io::Result<()> {
        move |out, limit| {
            for text in texts {
                let cut: String = text.chars().take(limit.unwrap_or(usize::MAX)).collect();
                writeln!(out, "{cut}")?;
            }
            Ok(())
        }
    }

    #[test]
    fn short_texts_are_whole_and_long_ones_cut() {
        let texts = ["short".to_owned(), "é".repeat(5000)];
        let (fitted, ()) = fit(1000, 200, &mut write_texts(&texts)).expect("written").expect("it fits");
        let text = String::from_utf8(fitted.text).expect("text");
        assert!(text.starts_with("short\né") && text.chars().count() > 800, "{text}");
    }

    #[test]
    fn what_cannot_fit_stops_after_a_line() {
        let texts = vec!["x".repeat(300); 10];
        assert_eq!(fit(700, 200, &mut write_texts(&texts)).expect("written"), None);
        let fitted = fit_beginning(700, 200, &mut write_texts(&texts)).expect("written");
        assert!(fitted.is_cut_off);
        assert_eq!(fitted.text, ("x".repeat(200) + "\n").repeat(3).into_bytes());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn no_output_has_more_characters(
            texts in proptest::collection::vec("[a-é漢]{0,900}", 0..8),
            max in 0usize..4000,
        ) {
            let mut write = write_texts(&texts);
            let fitted = match fit(max, 200, &mut write).expect("written") {
                Some((fitted, ())) => fitted,
                None => fit_beginning(max, 200, &mut write).expect("written"),
            };
            let text = String::from_utf8(fitted.text).expect("text");
            prop_assert!(text.chars().count() <= max);
            prop_assert!(text.is_empty() || text.ends_with('\n'));
        }
    }
}
