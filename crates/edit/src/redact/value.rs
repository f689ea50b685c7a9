//! Decides whether a value is a secret and not code, an example or an id.

use std::borrow::Cow;

use super::MARK;
use super::named::SecretKind;
use super::rules::PatternRule;
use super::search::is_rule;

/// A name that announces a secret.
pub(super) struct SecretName<'n> {
    pub(super) kind: SecretKind,
    pub(super) name: &'n str,
    /// The value is quoted, or it is the whole text.
    pub(super) quoted: bool,
}

impl SecretName<'_> {
    /// Returns whether it is an environment variable; their values are literals, not code.
    fn is_environment(&self) -> bool {
        self.name.len() > 3 && self.name.bytes().all(|b| !b.is_ascii_lowercase())
    }
}

/// The character classes that a value contains.
struct ValueTraits {
    digit: bool,
    letter: bool,
    sign: bool,
    space: bool,
}

impl ValueTraits {
    fn of(value: &str) -> Self {
        Self {
            digit: value.bytes().any(|b| b.is_ascii_digit()),
            letter: value.bytes().any(|b| b.is_ascii_alphabetic() || b >= 0x80),
            sign: value.bytes().any(|b| b.is_ascii_punctuation() && !b"._-/:".contains(&b)),
            space: value.bytes().any(|b| b.is_ascii_whitespace()),
        }
    }
}

/// Returns whether a value is plausible for a pattern.
pub(super) fn is_rule_value(rule: &PatternRule, value: &str, before: &str) -> bool {
    let value = &*without_marks(value);
    if value.len() < 4 || rule.entropy > 0.0 && entropy(value.as_bytes()) < rule.entropy {
        return false;
    }
    !rule.careful || is_plausible(rule, value, before)
}

/// Returns the entropy of a value, in bits per byte.
pub(super) fn entropy(value: &[u8]) -> f32 {
    let mut counts = [0u32; 256];
    for &byte in value {
        counts[usize::from(byte)] += 1;
    }
    let n = value.len() as f32;
    counts.iter().filter(|&&c| c > 0).map(|&c| c as f32 / n).map(|p| -p * p.log2()).sum()
}

/// Returns a value without its redaction marks. Only marks that this program wrote are removed whole: a mark without
/// the name of a rule keeps its content.
pub(super) fn without_marks(value: &str) -> Cow<'_, str> {
    if !value.contains(MARK) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(mark) = rest.find(MARK) {
        let inside = &rest[mark + MARK.len()..];
        let end = inside.bytes().take(64).position(|b| b == b']').filter(|end| is_rule(&inside[..*end]));
        out.push_str(&rest[..mark]);
        rest = end.map_or(inside, |end| &inside[end + 1..]);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Substrings of values that are never secret.
const NEVER_SECRET: [&str; 15] = [
    "example",
    "xxxx",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "process.",
    "environ",
    "getenv",
    "undefined",
    "****",
    "....",
    "_here",
    "-here",
    "•••",
];
/// Prefixes of values that are code.
const CODE_PREFIXES: [&str; 10] =
    ["config.", "settings.", "secrets.", "self.", "this.", "req.", "os.", "import ", "env.", "$env:"];
/// Words of example values.
const SAMPLE_WORDS: [&str; 8] = ["your", "todo", "insert", "sample", "dummy", "fake", "import", "function"];

/// Returns whether a value is code or an example, so that no name makes it secret.
fn is_code_or_sample(value: &str) -> bool {
    let low = value.to_ascii_lowercase();
    let sample = low.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SAMPLE_WORDS.contains(&word));
    let code = CODE_PREFIXES.iter().any(|word| low.starts_with(word));
    let is_wrapped = |open: char, close: char| value.starts_with(open) && value.ends_with(close);
    let variable = value.strip_prefix('$').is_some_and(|name| {
        let name = name.trim_end_matches(|c: char| c.is_ascii_punctuation() && c != '_');
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
            || name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                && !name.bytes().any(|b| b.is_ascii_digit())
    });
    let wrapped =
        is_wrapped('<', '>') || is_wrapped('{', '}') || is_wrapped('[', ']') || is_wrapped('%', '%');
    sample
        || code
        || variable
        || wrapped
        || has_template(value)
        || NEVER_SECRET.iter().any(|word| low.contains(word))
}

/// Returns whether a value has a template placeholder: `${NAME}`, `{{ name }}`, `$(cat file)`, `%s`.
fn has_template(value: &str) -> bool {
    let plain = |inside: &str| {
        let unusual = |c: char| !c.is_ascii_alphanumeric() && !" _.-:/|\"'?[]".contains(c);
        !inside.is_empty() && inside.len() <= 60 && !inside.contains(unusual)
    };
    const FORMS: [(&str, &str); 5] = [("${", "}"), ("{{", "}}"), ("$(", ")"), ("#{", "}"), ("%(", ")s")];
    let filled = |&(open, close): &(&str, &str)| {
        let inside = value.find(open).map(|at| &value[at + open.len()..]);
        inside.is_some_and(|rest| {
            rest.find(close).map_or(rest.len() < 30 && plain(rest), |end| plain(&rest[..end]))
        })
    };
    let ends = |at: usize| value.as_bytes().get(at + 2).is_none_or(|b| !b.is_ascii_alphanumeric());
    let begins = value.starts_with("${") || value.starts_with("$(");
    begins
        || FORMS.iter().any(filled)
        || value.len() < 64 && value.match_indices("%s").any(|(at, _)| ends(at))
}

/// Returns whether a value that only its context makes secret is one: not code, an example or an id.
fn is_plausible(rule: &PatternRule, value: &str, before: &str) -> bool {
    if is_code_or_sample(value) {
        return false;
    }
    let traits = ValueTraits::of(value);
    match rule.name {
        "netrc-password" | "command-password" | "pgpass" => {
            !value.starts_with(['$', '{', '%', '/']) && (traits.digit || traits.sign || is_scrambled(value))
        }
        "login-password" | "piped-password" | "call-password" | "sent-password" => {
            let unusual = traits.sign || !is_identifier(value);
            traits.digit
                && traits.letter
                && unusual
                && !is_number(value)
                && !is_path(value)
                && !is_call(value)
        }
        "query-secret" => {
            let hex = value.bytes().all(|b| b.is_ascii_hexdigit());
            traits.digit
                && traits.letter
                && !is_identifier(value)
                && (hex || is_mixed_case(value))
                && !is_uuid(value)
        }
        "secure-string" | "sql-password" | "console-password" => {
            traits.digit || traits.sign || is_scrambled(value)
        }
        "spoken-password" => {
            let trimmed = value.trim_end_matches(['.', ',', '!', '?', ')', ':', ';', '*']);
            let traits = ValueTraits::of(trimmed);
            let quoted = before.ends_with(['"', '\'', '`']);
            let low = before.to_ascii_lowercase();
            let password = ["pass", "cred", "login"].iter().any(|start| low.starts_with(start));
            let unusual = traits.digit
                && traits.letter
                && (traits.sign || !is_identifier(trimmed) || quoted && password);
            trimmed.len() >= 6
                && (password || trimmed.len() >= 16)
                && unusual
                && !is_path(trimmed)
                && !is_call(trimmed)
        }
        "cookie" => {
            let signed = value.trim_start_matches("s%3A").trim_start_matches("s:");
            let hex = signed.len() >= 24 && signed.bytes().all(|b| b.is_ascii_hexdigit());
            let long = |cookie: &str| {
                let content = cookie.split_once('=').map_or("", |(_, content)| content);
                content.len() >= 12 && ValueTraits::of(content).digit
            };
            traits.digit && (value.split(';').any(long) || hex || is_scrambled(value))
        }
        "configured-secret" | "npmrc-auth" => {
            !is_path(value) && (traits.digit || is_scrambled(value)) && !is_number(value)
        }
        _ => (traits.digit || is_scrambled(value)) && !is_number(value) && !is_call(value) && !is_path(value),
    }
}

/// Returns whether a named value is a secret.
pub(super) fn is_secret(named: &SecretName<'_>, raw: &str) -> bool {
    // Values redacted by other programs are not secret; the rest of the text may be.
    let value = without_marks(raw).replace("REDACTED", "");
    let value = &*value;
    if value.len() < 5 || value.len() < raw.len() && value.len() < 8 || is_code_or_sample(value) {
        return false;
    }
    // Without quotes or an environment variable, code is more likely.
    let bare = !named.quoted && !named.is_environment();
    if is_call(value) && !named.quoted
        || bare && (is_member(value) || value.contains(['(', '{', '[', '<', '>']))
    {
        return false;
    }
    let traits = ValueTraits::of(value);
    if traits.space
        && named.quoted
        && matches!(named.kind, SecretKind::Password | SecretKind::Secret | SecretKind::Key)
    {
        match value.split_whitespace().collect::<Vec<_>>()[..] {
            [] => return false,
            // Surrounding blanks do not matter.
            [only] => return is_secret(named, only),
            ref words if is_secret_with_words(named, value, words) => return true,
            _ => {}
        }
    }
    match named.kind {
        SecretKind::Password => is_password(named, value, &traits),
        SecretKind::Data => value.len() >= 40 && !traits.space,
        // Salts use all characters and have more punctuation than prose.
        _ if traits.space => {
            let signs = value.bytes().filter(u8::is_ascii_punctuation).count();
            (40..=200).contains(&value.len()) && signs * 5 >= value.len() && !value.contains('\n')
        }
        SecretKind::Secret => {
            // Symbols that do not occur inside words of code.
            let unusual = value.contains(['!', '^', '~', '$', '+', '*']) && traits.digit && traits.letter;
            let password = unusual && value.len() >= 8 && !bare && !is_path(value);
            is_token(value, &traits) || is_uuid(value) || is_hex_key(value) || password
        }
        SecretKind::Key => {
            let hex = value.bytes().all(|b| b.is_ascii_hexdigit());
            let long = value.len() >= if hex { 32 } else { 16 };
            is_hex_key(value)
                || (named.is_environment() || named.name.eq_ignore_ascii_case("salt")) && is_uuid(value)
                || long && traits.digit && entropy(value.as_bytes()) >= 3.0 && is_token(value, &traits)
        }
        SecretKind::Service => is_service_secret(named.name, value, &traits),
    }
}

/// Returns whether one word of a short value in quotes is as mixed as tokens are, or the words are a passphrase.
fn is_secret_with_words(named: &SecretName<'_>, value: &str, words: &[&str]) -> bool {
    if value.contains('\n') || value.len() > 200 || words.len() > 8 {
        return false;
    }
    let mixed = |word: &&str| {
        let traits = ValueTraits::of(word);
        word.len() >= 10 && traits.digit && is_mixed_case(word) && is_token(word, &traits)
    };
    let phrase = named.name.to_ascii_lowercase().contains("passphrase");
    words.iter().any(mixed)
        || phrase && words.len() >= 3 && words.iter().all(|word| !word.ends_with(['.', ',', ':']))
}

fn is_password(named: &SecretName<'_>, value: &str, traits: &ValueTraits) -> bool {
    let environment = named.is_environment();
    let name = named.name.to_ascii_lowercase();
    let core = value.trim_end_matches(['?', ':', '=', '.', ',', ';']);
    if value.len() < 6 || entropy(value.as_bytes()) < 2.0 || is_path(value) {
        return false;
    }
    // It may be the working directory.
    if matches!(&*name, "pwd" | "oldpwd") && value.starts_with(['/', '\\', '~', '.']) {
        return false;
    }
    if traits.space {
        let words = value.split_whitespace().count();
        return named.quoted
            && value.len() <= 64
            && words <= 5
            && traits.digit
            && traits.sign
            && traits.letter;
    }
    // The name `pass` is ambiguous (`pass: 12`), so the value must look like a password.
    if matches!(&*name, "pass" | "-pass" | "--pass") {
        let cased = is_mixed_case(value);
        return value.len() >= 8
            && traits.digit
            && traits.letter
            && (traits.sign || cased && !is_identifier(value));
    }
    let words = value.split(['.', '_', '-', '/', ':']).filter(|part| !part.is_empty()).count();
    // Code has names and calls where a password has symbols.
    let in_core = ValueTraits::of(core);
    let unusual = environment && !is_description(core)
        || in_core.digit
        || traits.sign && named.quoted
        || is_scrambled(value);
    let letters = traits.letter
        || environment && value.len() >= 6 && traits.digit && !is_number(value)
        || environment && value.len() >= 8;
    letters && unusual && (words <= 5 || traits.sign || !is_identifier(value))
}

/// Returns whether a value is a word that describes a value (`required`, `hidden`).
fn is_description(value: &str) -> bool {
    let low = value.to_ascii_lowercase();
    [
        "password", "secret", "string", "required", "optional", "unset", "empty", "disabled", "enabled",
        "prompt", "redacted", "masked", "hidden",
    ]
    .contains(&&*low)
}

/// Returns whether a value is as mixed as a token.
fn is_token(value: &str, traits: &ValueTraits) -> bool {
    let value = value.strip_prefix("base64:").unwrap_or(value);
    let min_entropy = (0.8 * (value.len() as f32).log2()).min(2.8);
    let address = value.starts_with("0x");
    value.len() >= 8
        && entropy(value.as_bytes()) >= min_entropy
        && traits.letter
        && !address
        && !is_uuid(value)
        && !is_path(value)
        && !is_identifier(value)
        && !is_number(value)
        && (traits.digit || is_scrambled(value))
}

/// Returns whether a value is a key of 32 bytes in hexadecimal, as wallets write it.
fn is_hex_key(value: &str) -> bool {
    let hex = value.strip_prefix("0x").unwrap_or("");
    hex.len() >= 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) && entropy(hex.as_bytes()) >= 2.5
}

fn is_service_secret(name: &str, value: &str, traits: &ValueTraits) -> bool {
    const ANNOUNCING_WORDS: [&str; 12] = [
        "key", "token", "secret", "auth", "sid", "dsn", "login", "webhook", "license", "client", "access",
        "pass",
    ];
    let low = name.to_ascii_lowercase();
    let announced = ANNOUNCING_WORDS.iter().any(|word| low.contains(word)) || low.ends_with("id");
    let plain = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_=./+:|-".contains(&b));
    let number = low.ends_with("id") && value.len() >= 16 && value.bytes().all(|b| b.is_ascii_digit());
    if announced {
        let token = value.len() >= 14 && is_token(value, traits);
        return plain && (token || is_uuid(value) || number);
    }
    let alphanumeric = value.bytes().all(|b| b.is_ascii_alphanumeric());
    alphanumeric && value.len() >= 24 && entropy(value.as_bytes()) >= 3.2 && is_token(value, traits)
}

/// Returns whether upper and lower case alternate more often than in any name.
pub(super) fn is_scrambled(value: &str) -> bool {
    let mut n = 0;
    let mut changes = 0;
    let mut last = None;
    for b in value.bytes().filter(u8::is_ascii_alphabetic) {
        let upper = b.is_ascii_uppercase();
        changes += usize::from(last.is_some_and(|last| last != upper));
        last = Some(upper);
        n += 1;
    }
    n >= 8 && changes * 3 >= n
}

/// Returns whether a value has both upper and lower case letters.
fn is_mixed_case(value: &str) -> bool {
    value.bytes().any(|b| b.is_ascii_uppercase()) && value.bytes().any(|b| b.is_ascii_lowercase())
}

/// Returns whether a value is a file path or a URL.
fn is_path(value: &str) -> bool {
    let starts =
        ["/", "./", "../", "~/", "@/", "C:\\", "#/", "\\\\"].iter().any(|start| value.starts_with(start));
    let parts = || value.split('/').filter(|part| !part.is_empty());
    let short = |part: &str| part.len() <= 6 && !part.bytes().any(|b| b.is_ascii_uppercase());
    let plain = parts().all(|part| part.len() < 20 && (is_identifier(part) || short(part)));
    let deep = value.matches('/').count() >= 2;
    value.contains("://") || starts && deep || (starts || deep || value.starts_with('@')) && plain
}

/// Returns whether a value is a call: `get_token()`.
fn is_call(value: &str) -> bool {
    let name = value.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"_.:!&*".contains(b)).count();
    let closed =
        value.trim_end_matches([';', ',', '.', '?', '!']).ends_with([')', '(']) || value.ends_with("('");
    name >= 2 && value.as_bytes().get(name) == Some(&b'(') && closed && is_identifier(&value[..name])
}

/// Returns whether a value is a field access: `user.password2`.
fn is_member(value: &str) -> bool {
    let value = value.trim_end_matches([';', ',', '.', '?', '!', ':']);
    value.contains('.')
        && value.split('.').all(|part| {
            part.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_?![]".contains(&b))
                && is_identifier(part)
        })
}

pub(super) fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(at, b)| matches!(at, 8 | 13 | 18 | 23) == (b == b'-'))
        && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn is_number(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_digit() || b".,-_+eE:TZ%".contains(&b))
}

/// Returns whether a value is words joined as in source code, with few digits; credentials do not look like that.
fn is_identifier(value: &str) -> bool {
    if is_scrambled(value) {
        return false;
    }
    let parts = value.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    // Names have few adjacent capitals.
    let capitals = value.as_bytes().chunk_by(|a, b| a.is_ascii_uppercase() == b.is_ascii_uppercase());
    let capitals = capitals.filter(|run| run.len() > 1 && run[0].is_ascii_uppercase()).count();
    let lower = value.bytes().any(|b| b.is_ascii_lowercase());
    if capitals >= 2
        && lower
        && !value.contains(['_', '-', '.', '/', ' '])
        && value.bytes().any(|b| b.is_ascii_digit())
    {
        return false;
    }
    let mut n_digits = 0;
    let mut runs = 0;
    let mut mixed = false;
    for part in parts {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        n_digits += digits;
        // A word does not alternate between digits and letters.
        let changes =
            part.as_bytes().windows(2).filter(|w| w[0].is_ascii_digit() != w[1].is_ascii_digit()).count();
        runs += changes;
        mixed |= changes > 2;
    }
    !mixed && runs <= 3 && n_digits * 4 <= value.len()
}

/// Returns whether a text is base64 of binary data, such as an image or archive.
pub(super) fn is_data(text: &str) -> bool {
    text.len() >= 512 && crate::base64::is_strict_base64(text.as_bytes())
}

/// Returns whether a value is so long and mixed that it means the same wherever it occurs.
pub(super) fn is_distinct(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digit = bytes.iter().any(u8::is_ascii_digit);
    let letter = bytes.iter().any(u8::is_ascii_alphabetic);
    let id = ["toolu_", "msg_", "req_", "srvtoolu_"].iter().any(|start| value.starts_with(start));
    value.len() >= 8
        && digit
        && letter
        && entropy(bytes) >= 2.5
        && without_marks(value).len() == value.len()
        && !id
        && !is_uuid(value)
}
