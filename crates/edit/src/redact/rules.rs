//! The forms of known credentials.
//!
//! A [`TokenRule`] matches a fixed prefix and a minimum number of characters of a class. A [`PatternRule`] covers
//! everything else: it has a list of words and is tried only where one of them occurs. It redacts its first group,
//! or else the whole match. When two rules overlap, the first in the list names the secret.

mod patterns;
mod tokens;

pub(super) use patterns::PATTERNS;
pub(super) use tokens::TOKENS;

/// A list of words or prefixes.
type WordList = &'static [&'static str];

/// The characters that a token consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CharClass {
    /// Hexadecimal digits.
    Hex,
    /// Letters and digits.
    Alnum,
    /// Letters, digits and the additions of URL-safe base64.
    Word,
    /// The characters of `Word` and the separators of tokens with several parts.
    Dotted,
    /// Base64.
    Base64,
}

impl CharClass {
    pub(super) fn has(self, b: u8) -> bool {
        match self {
            Self::Hex => b.is_ascii_hexdigit(),
            Self::Alnum => b.is_ascii_alphanumeric(),
            Self::Word => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'),
            Self::Dotted => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'=' | b'~'),
            Self::Base64 => {
                b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'/' | b'=' | b'.' | b'%')
            }
        }
    }
}

/// A credential with a known prefix.
pub(super) struct TokenRule {
    pub(super) name: &'static str,
    /// Its prefixes, case-sensitive.
    pub(super) prefixes: WordList,
    /// The characters after the prefix; `min_len` is their minimum number.
    pub(super) class: CharClass,
    pub(super) min_len: usize,
    /// Ordinary words may have the prefix too, so the rest must be more mixed than any word.
    pub(super) weak: bool,
}

/// Creates a rule for a prefix that no ordinary word has.
const fn token(name: &'static str, prefixes: WordList, class: CharClass, min_len: usize) -> TokenRule {
    TokenRule { name, prefixes, class, min_len, weak: false }
}

/// Creates a rule for a prefix that ordinary words may have.
const fn weak(name: &'static str, prefixes: WordList, class: CharClass, min_len: usize) -> TokenRule {
    TokenRule { weak: true, ..token(name, prefixes, class, min_len) }
}

/// A credential that is matched by a regular expression.
pub(super) struct PatternRule {
    pub(super) name: &'static str,
    /// Words of which the text contains one; case-insensitive.
    pub(super) words: WordList,
    /// The distance before the word at which a match may start; 0 if it starts with the word.
    pub(super) lookbehind: usize,
    pub(super) pattern: &'static str,
    /// The minimum entropy of the value, in bits per byte.
    pub(super) entropy: f32,
    /// The value must not look like code or an example.
    pub(super) careful: bool,
}

/// Creates a rule whose match starts with its word.
const fn plain(name: &'static str, words: WordList, pattern: &'static str) -> PatternRule {
    around(name, words, 0, pattern, 0.0)
}

/// Creates a rule whose match may start before its word.
const fn around(
    name: &'static str,
    words: WordList,
    lookbehind: usize,
    pattern: &'static str,
    entropy: f32,
) -> PatternRule {
    PatternRule { name, words, lookbehind, pattern, entropy, careful: false }
}

/// Creates a rule whose value must not look like code or an example.
const fn careful(
    name: &'static str,
    words: WordList,
    lookbehind: usize,
    pattern: &'static str,
    entropy: f32,
) -> PatternRule {
    PatternRule { careful: true, ..around(name, words, lookbehind, pattern, entropy) }
}
