//! Whether a value is what a rule means: a secret, and no code, no example, no id.

use super::MARK;
use super::rules::Rule;

/// Tells whether a value is one that a rule means. `before` is what stands before it.
pub(super) fn fits(rule: &Rule, value: &str, before: &str) -> bool {
    if rule.entropy > 0.0 && entropy(value.as_bytes()) < rule.entropy {
        return false;
    }
    !rule.careful || is_plausible(rule, value, before)
}

/// How much disorder there is, in bits for each byte.
pub(super) fn entropy(value: &[u8]) -> f32 {
    let mut counts = [0u32; 256];
    for &byte in value {
        counts[usize::from(byte)] += 1;
    }
    let n = value.len() as f32;
    counts.iter().filter(|&&c| c > 0).map(|&c| c as f32 / n).map(|p| -p * p.log2()).sum()
}

/// What is no secret, wherever it stands in a value.
const NEVER: [&str; 18] = [
    "example",
    "xxxx",
    "placeholder",
    "changeme",
    "change_me",
    "redacted",
    "process.",
    "environ",
    "getenv",
    "undefined",
    "****",
    "....",
    "<",
    "${",
    "{{",
    "%s",
    "_here",
    "-here",
];
/// What a value of code begins with.
const CODE: [&str; 9] =
    ["config.", "settings.", "secrets.", "self.", "this.", "req.", "os.", "import ", "env."];
/// Words of examples.
const SAMPLES: [&str; 8] = ["your", "todo", "insert", "sample", "dummy", "fake", "import", "function"];
/// Names that end so hold no secret, whatever they begin with.
const HARMLESS: [&str; 15] = [
    "page", "address", "mint", "hash", "name", "path", "file", "url", "limit", "count", "type", "label",
    "expir", "cursor", "title",
];

/// Tells whether a value that only its name makes a secret is one: no code, no example, no id.
fn is_plausible(rule: &Rule, value: &str, before: &str) -> bool {
    let low = value.to_ascii_lowercase();
    let sample = low.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| SAMPLES.contains(&word));
    let code = CODE.iter().any(|word| low.starts_with(word));
    if sample || code || NEVER.iter().any(|word| low.contains(word)) {
        return false;
    }
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let letter = value.bytes().any(|b| b.is_ascii_alphabetic());
    let sign = value.bytes().any(|b| b.is_ascii_punctuation() && !b"._-/:".contains(&b));
    let quoted = before.ends_with(['"', '\'', '`']);
    match rule.name {
        "url-password" => {
            !value.starts_with(['$', '{', '%', '*', '['])
                && !["password", "pass", "pwd", "secret", "user"].contains(&&*low)
        }
        "netrc-password" | "command-password" | "mysql-password" => {
            !value.starts_with(['$', '{', '%']) && (digit || sign || is_scrambled(value))
        }
        "password" => {
            let words = value.split(['.', '_', '-', '/', ':']).filter(|part| !part.is_empty()).count();
            // In the environment it is what it is; code has names and calls where a password has signs.
            let name: String =
                before.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            let environment = name.len() > 3 && name.bytes().all(|b| !b.is_ascii_lowercase());
            let word = environment || digit || sign && quoted || is_scrambled(value);
            if value.starts_with(['$', '%', '{']) || value.contains(' ') && !environment {
                return false;
            }
            letter && !is_path(value) && !value.ends_with(['?', ':', '=', '.']) && word && words <= 5
        }
        "cookie" => value.contains('=') && digit,
        "authorization" => (digit || is_scrambled(value)) && !is_number(value),
        _ => {
            let name = before.to_ascii_lowercase();
            let harmless = HARMLESS.iter().any(|word| name.contains(word));
            let named =
                is_identifier(value) || is_path(value) || is_uuid(value) && rule.name != "service-key";
            let address = value.starts_with("0x");
            letter && !named && !harmless && !address && !is_number(value) && (digit || is_scrambled(value))
        }
    }
}

/// Tells whether capitals and small letters change so often as in no name.
fn is_scrambled(value: &str) -> bool {
    let letters: Vec<u8> = value.bytes().filter(u8::is_ascii_alphabetic).collect();
    let changes =
        letters.windows(2).filter(|w| w[0].is_ascii_uppercase() != w[1].is_ascii_uppercase()).count();
    letters.len() >= 8 && changes * 3 >= letters.len()
}

fn is_path(value: &str) -> bool {
    value.starts_with(['/', '.', '~', '@', '#'])
        || value.contains("://")
        || value.matches('/').count() >= 2 && !value.contains('+') && value.len() < 60
}

fn is_uuid(value: &str) -> bool {
    value.len() == 36
        && value.bytes().enumerate().all(|(at, b)| matches!(at, 8 | 13 | 18 | 23) == (b == b'-'))
        && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn is_number(value: &str) -> bool {
    value.bytes().all(|b| b.is_ascii_digit() || b".,-_+eE:TZ%".contains(&b))
}

/// Words joined as programs join them, with at most few digits: no credential is spelled so.
fn is_identifier(value: &str) -> bool {
    if is_scrambled(value) {
        return false;
    }
    let parts = value.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let mut n_digits = 0;
    let mut runs = 0;
    let mut mixed = false;
    for part in parts {
        let digits = part.bytes().filter(u8::is_ascii_digit).count();
        n_digits += digits;
        // Digits between letters, again and again, are no word.
        let changes =
            part.as_bytes().windows(2).filter(|w| w[0].is_ascii_digit() != w[1].is_ascii_digit()).count();
        runs += changes;
        mixed |= changes > 2;
    }
    !mixed && runs <= 3 && n_digits * 4 <= value.len()
}

/// Tells whether a text is data that stands for something else than words: pictures, archives.
pub(super) fn is_data(text: &str) -> bool {
    text.len() >= 512 && crate::shorten::is_strict_base64(text.as_bytes())
}

/// Tells whether a value is so long and odd that it means the same wherever it stands.
pub(super) fn is_distinct(value: &str) -> bool {
    let bytes = value.as_bytes();
    let digit = bytes.iter().any(u8::is_ascii_digit);
    let letter = bytes.iter().any(u8::is_ascii_alphabetic);
    let id = ["toolu_", "msg_", "req_", "srvtoolu_"].iter().any(|start| value.starts_with(start));
    value.len() >= 8
        && digit
        && letter
        && entropy(bytes) >= 2.5
        && !value.contains(MARK)
        && !id
        && !is_uuid(value)
}
