//! Splits texts into tokens: the units that a search compares.
//!
//! A token is a word in folded form: NFKC, without case. An identifier is split at underscores and where its case
//! changes; one that is split by case is also a token as a whole, at the position of its first part. Scripts that do
//! not separate words give a token for each pair of adjacent characters, and one for the last character of a run, so
//! that a token begins at every character.
//!
//! Nothing is left out, so that a query which is a sequence of words matches exactly the texts that contain these
//! words in this order, whatever is between them apart from letters and digits.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// The maximum length of a token in bytes. A longer word gives several tokens, none of which is a whole word.
pub(crate) const MAX_TOKEN: usize = 64;

/// The token that marks a text with a word longer than [`MAX_TOKEN`], whose tokens do not contain every part of it.
pub(crate) const LONG_WORD: &str = "\u{1}long";

/// One token of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TokenSpan {
    /// The position of the token among those of the text. A whole identifier has the position of its first part.
    pub(crate) position: u32,
    /// The offset of its first byte in the text.
    pub(crate) start: usize,
    /// The offset after its last byte.
    pub(crate) end: usize,
    /// Set for the character at the end of a run that has no pair.
    pub(crate) is_last_of_run: bool,
}

/// The class of a byte: how it continues a word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Separator,
    Lower,
    Upper,
    Digit,
    /// A part of a character beyond ASCII.
    Other,
}

const CLASSES: [ByteClass; 256] = {
    let mut classes = [ByteClass::Separator; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' => ByteClass::Lower,
            b'A'..=b'Z' => ByteClass::Upper,
            b'0'..=b'9' => ByteClass::Digit,
            0x80.. => ByteClass::Other,
            _ => ByteClass::Separator,
        };
        byte += 1;
    }
    classes
};

/// The tokens of a text, one after the other.
pub(crate) struct Tokens<'t> {
    text: &'t str,
    /// The offset of the first byte that is not part of a token yet.
    at: usize,
    position: u32,
    /// The identifier whose parts are being returned: its start, its end, its position, its number of parts.
    identifier: Option<Identifier>,
    /// The end of the run of characters without word separators that is being returned.
    run_end: usize,
    long_word: bool,
}

/// An identifier whose parts are being returned.
#[derive(Clone, Copy)]
struct Identifier {
    start: usize,
    end: usize,
    position: u32,
    parts: u32,
}

impl<'t> Tokens<'t> {
    /// Creates the tokens of a text.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0, position: 0, identifier: None, run_end: 0, long_word: false }
    }

    /// Writes the next token to `token`, in folded form, and returns where it is.
    pub(crate) fn next_into(&mut self, token: &mut String) -> Option<TokenSpan> {
        if self.at < self.run_end {
            return Some(self.next_of_run(token));
        }
        if let Some(identifier) = self.identifier {
            if self.at < identifier.end {
                return Some(self.next_part(identifier, token));
            }
            self.identifier = None;
            if identifier.parts > 1 && identifier.end - identifier.start <= MAX_TOKEN {
                fold(&self.text[identifier.start..identifier.end], token);
                let Identifier { start, end, position, .. } = identifier;
                return Some(TokenSpan { position, start, end, is_last_of_run: false });
            }
        }
        let bytes = self.text.as_bytes();
        loop {
            while self.at < bytes.len() && CLASSES[usize::from(bytes[self.at])] == ByteClass::Separator {
                self.at += 1;
            }
            if self.at == bytes.len() {
                return self.mark_long_word(token);
            }
            if let Some(end) = self.end_of_simple_word() {
                let start = self.at;
                self.at = end;
                token.clear();
                token.push_str(&self.text[start..end]);
                token.make_ascii_lowercase();
                return Some(self.spend_position(start, end, false));
            }
            let end = self.word_end(self.at);
            if end > self.at {
                let start = self.at;
                self.identifier = Some(Identifier { start, end, position: self.position, parts: 0 });
                return Some(
                    self.next_part(Identifier { start, end, position: self.position, parts: 0 }, token),
                );
            }
            let first = self.text[self.at..].chars().next().unwrap_or(' ');
            if !is_symbol(first) && is_unspaced(first) {
                let run = self.text[self.at..].char_indices();
                let other =
                    { run }.find(|&(_, c)| !is_unspaced(c) && !is_ignorable(c) && !is_combining_mark(c));
                self.run_end = other.map_or(self.text.len(), |(len, _)| self.at + len);
                return Some(self.next_of_run(token));
            }
            self.at += first.len_utf8();
        }
    }

    /// Returns the mark of a text with a very long word, at the end of the text.
    fn mark_long_word(&mut self, token: &mut String) -> Option<TokenSpan> {
        if !std::mem::take(&mut self.long_word) {
            return None;
        }
        token.clear();
        token.push_str(LONG_WORD);
        let end = self.text.len();
        // No phrase reaches beyond the end of the text.
        Some(TokenSpan { position: self.position + 1, start: end, end, is_last_of_run: false })
    }

    /// Returns the end of the next word if it has no parts, as most do: small letters and digits, perhaps after a capital.
    fn end_of_simple_word(&self) -> Option<usize> {
        let bytes = &self.text.as_bytes()[self.at..];
        let class_at =
            |at: usize| bytes.get(at).map_or(ByteClass::Separator, |&byte| CLASSES[usize::from(byte)]);
        let mut len = usize::from(class_at(0) == ByteClass::Upper);
        while matches!(class_at(len), ByteClass::Lower | ByteClass::Digit) {
            len += 1;
        }
        let is_whole = (1..=MAX_TOKEN).contains(&len) && class_at(len) == ByteClass::Separator;
        is_whole.then_some(self.at + len)
    }

    /// Returns the end of the word that begins at an offset, or the offset itself if no word does.
    fn word_end(&self, start: usize) -> usize {
        let bytes = self.text.as_bytes();
        let mut at = start;
        loop {
            while at < bytes.len() && is_ascii_word(bytes[at]) {
                at += 1;
            }
            if at == bytes.len() || bytes[at] < 0x80 {
                return at;
            }
            let c = self.text[at..].chars().next().unwrap_or(' ');
            if is_symbol(c) {
                return at;
            }
            let continues = at > start && (is_combining_mark(c) || is_ignorable(c));
            if is_unspaced(c) || !(c.is_alphanumeric() || continues) {
                return at;
            }
            at += c.len_utf8();
        }
    }

    /// Returns the next part of an identifier: it ends before an upper-case letter that follows another kind of
    /// character, or that begins a capitalised word after an acronym.
    fn next_part(&mut self, identifier: Identifier, token: &mut String) -> TokenSpan {
        let (start, limit) = (self.at, identifier.end);
        let bytes = self.text.as_bytes();
        let mut at = start;
        let (mut folded, mut ascii) = (true, true);
        let mut before: Option<ByteClass> = None;
        while at < limit {
            let (class, len) = match CLASSES[usize::from(bytes[at])] {
                ByteClass::Other => {
                    ascii = false;
                    let c = self.text[at..].chars().next().unwrap_or(' ');
                    (class_of(c), c.len_utf8())
                }
                class => (class, 1),
            };
            if class == ByteClass::Upper {
                let begins_word = match before {
                    None => false,
                    Some(ByteClass::Upper) => self.is_lower_at(at + len, limit),
                    Some(_) => true,
                };
                if begins_word {
                    break;
                }
                folded = false;
            }
            if at + len - start > MAX_TOKEN {
                self.long_word = true;
                break;
            }
            if class != ByteClass::Other {
                before = Some(class);
            }
            at += len;
        }
        self.at = at;
        self.identifier = Some(Identifier { parts: identifier.parts + 1, ..identifier });
        let part = &self.text[start..at];
        if ascii {
            token.clear();
            token.push_str(part);
            if !folded {
                token.make_ascii_lowercase();
            }
        } else {
            fold(part, token);
        }
        self.spend_position(start, at, false)
    }

    fn is_lower_at(&self, at: usize, limit: usize) -> bool {
        at < limit && self.text[at..limit].chars().next().is_some_and(char::is_lowercase)
    }

    /// Returns the next character of a run with its successor, or alone if it is the last one.
    fn next_of_run(&mut self, token: &mut String) -> TokenSpan {
        let rest = &self.text[self.at..self.run_end];
        // Marks belong to the character before them.
        let mut starts = rest.char_indices().filter(|&(at, c)| at == 0 || is_unspaced(c)).map(|(at, _)| at);
        starts.next();
        let second = starts.next();
        let pair_end = starts.next().unwrap_or(rest.len());
        let (start, end) = (self.at, self.at + if second.is_some() { pair_end } else { rest.len() });
        self.at = second.map_or(self.run_end, |second| start + second);
        fold(&self.text[start..end], token);
        self.spend_position(start, end, second.is_none())
    }

    fn spend_position(&mut self, start: usize, end: usize, is_last_of_run: bool) -> TokenSpan {
        let position = self.position;
        self.position += 1;
        TokenSpan { position, start, end, is_last_of_run }
    }
}

fn is_ascii_word(byte: u8) -> bool {
    !matches!(CLASSES[usize::from(byte)], ByteClass::Separator | ByteClass::Other)
}

fn class_of(c: char) -> ByteClass {
    if c.is_uppercase() {
        ByteClass::Upper
    } else if c.is_numeric() {
        ByteClass::Digit
    } else if c.is_alphabetic() {
        ByteClass::Lower
    } else {
        ByteClass::Other
    }
}

/// Returns whether a character is one of the frequent symbols that are never part of a word: punctuation, arrows,
/// frames. The tables of Unicode are slower.
fn is_symbol(c: char) -> bool {
    matches!(c, '\u{2010}'..='\u{2027}' | '\u{2190}'..='\u{245f}' | '\u{2500}'..='\u{2775}' | '\u{2794}'..='\u{2bff}')
}

/// Returns whether a character inside a word is not part of how the word is spelled: a soft hyphen, a joiner.
fn is_ignorable(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}')
}

/// Returns whether a character belongs to a script that does not separate words by spaces, or whose words are mostly
/// searched by their parts.
pub(crate) fn is_unspaced(c: char) -> bool {
    matches!(c,
        // Thai, Lao, Myanmar, Hangul Jamo, Khmer
        '\u{e01}'..='\u{e30}' | '\u{e32}'..='\u{e33}' | '\u{e40}'..='\u{e46}' | '\u{e81}'..='\u{eb0}'
        | '\u{eb2}'..='\u{eb3}' | '\u{ebd}'..='\u{ec6}' | '\u{1000}'..='\u{102a}' | '\u{103f}'
        | '\u{1050}'..='\u{1055}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17b3}'
        // ideographs, kana, bopomofo, hangul
        | '\u{2e80}'..='\u{2fdf}' | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3031}'..='\u{3035}'
        | '\u{3041}'..='\u{3096}' | '\u{309d}'..='\u{309f}' | '\u{30a1}'..='\u{30fa}' | '\u{30fc}'..='\u{318e}'
        | '\u{31a0}'..='\u{31bf}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
        | '\u{a960}'..='\u{a97c}' | '\u{ac00}'..='\u{d7fb}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}' | '\u{ffa0}'..='\u{ffdc}' | '\u{20000}'..='\u{3ffff}')
}

/// Writes the folded form of a word: compatibility forms are composed, and case makes no difference.
fn fold(word: &str, folded: &mut String) {
    folded.clear();
    if word.is_ascii() {
        folded.push_str(word);
        folded.make_ascii_lowercase();
        return;
    }
    let plain = word.nfkc().filter(|&c| !is_ignorable(c));
    // Upper case joins what lower case keeps apart, such as ς and σ, ß and ss.
    let upper = plain.flat_map(char::to_uppercase);
    folded.extend(upper.flat_map(char::to_lowercase).nfkc());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tokens(text: &str) -> Vec<(u32, String)> {
        let (mut tokens, mut token, mut found) = (Tokens::new(text), String::new(), Vec::new());
        while let Some(span) = tokens.next_into(&mut token) {
            assert!(
                text.is_char_boundary(span.start) && text.is_char_boundary(span.end),
                "{text:?} {span:?}"
            );
            found.push((span.position, token.clone()));
        }
        found
    }

    fn words(text: &str) -> String {
        let words: Vec<String> = tokens(text).into_iter().map(|(at, word)| format!("{at}:{word}")).collect();
        words.join(" ")
    }

    #[test]
    fn symbols_are_not_part_of_words() {
        for c in (char::MIN..='\u{ffff}').filter(|&c| is_symbol(c)) {
            let is_of_word = c.is_alphanumeric() || is_combining_mark(c) || is_ignorable(c) || is_unspaced(c);
            assert!(!is_of_word, "{c:?}");
        }
    }

    #[test]
    fn words_are_folded() {
        for (text, expected) in [
            ("Fix the  build, please!", "0:fix 1:the 2:build 3:please"),
            ("C++ [foo a.go:12", "0:c 1:foo 2:a 3:go 4:12"),
            ("don't", "0:don 1:t"),
            ("Grüße GRÜSSE", "0:grüsse 1:grüsse"),
            ("cafe\u{301} café", "0:café 1:café"),
            ("ﬁne １２ Ⅷ", "0:fine 1:12 2:viii"),
            ("Привет ПРИВЕТ", "0:привет 1:привет"),
            ("ὈΔΥΣΣΕΎΣ Ὀδυσσεύς", "0:ὀδυσσεύσ 1:ὀδυσσεύσ"),
            ("co\u{ad}operate می\u{200c}خواهم", "0:cooperate 1:میخواهم"),
            ("sha256 0x1f v2.1.200", "0:sha256 1:0x1f 2:v2 3:1 4:200"),
            ("", ""),
            ("… — ☃ 🎉", ""),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn identifiers_are_split_and_kept_whole() {
        for (text, expected) in [
            ("parse_line", "0:parse 1:line"),
            ("parseLine x", "0:parse 1:line 0:parseline 2:x"),
            ("HTTPServer2Go", "0:http 1:server2 2:go 0:httpserver2go"),
            ("resolveGradientStop", "0:resolve 1:gradient 2:stop 0:resolvegradientstop"),
            ("JSON", "0:json"),
            ("ПарсерСтрок", "0:парсер 1:строк 0:парсерстрок"),
            ("iOS", "0:i 1:os 0:ios"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn characters_without_spaces_give_pairs() {
        for (text, expected) in [
            ("检查点", "0:检查 1:查点 2:点"),
            ("点", "0:点"),
            ("检查checkpoint点", "0:检查 1:查 2:checkpoint 3:点"),
            ("ﾃｽﾄ テスト", "0:テス 1:スト 2:ト 3:テス 4:スト 5:ト"),
            ("안녕 a", "0:안녕 1:녕 2:a"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
    }

    #[test]
    fn long_words_are_cut_and_marked() {
        let long = "x".repeat(MAX_TOKEN + 5);
        assert_eq!(words(&long), format!("0:{} 1:xxxxx 3:{LONG_WORD}", &long[..MAX_TOKEN]));
        assert_eq!(tokens(&"ж".repeat(100)).len(), 5, "32 letters fit into a token");
    }

    proptest! {
        #[test]
        fn positions_of_a_token_never_decrease(text in "\\PC{0,60}|[a-zA-Z0-9_ 检查é\u{301}-]{0,60}") {
            let mut last: std::collections::HashMap<String, u32> = std::collections::HashMap::new();
            for (position, token) in tokens(&text) {
                prop_assert!(!token.is_empty() && token.len() <= 3 * MAX_TOKEN, "{token:?}");
                let before = last.insert(token, position);
                prop_assert!(before.is_none_or(|before| before < position), "{text:?}");
            }
        }

        #[test]
        fn folding_is_idempotent(word in "\\PC{0,12}") {
            let (mut once, mut twice) = (String::new(), String::new());
            fold(&word, &mut once);
            fold(&once, &mut twice);
            prop_assert_eq!(once, twice);
        }
    }
}
